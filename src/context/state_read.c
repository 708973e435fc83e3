/* Reading a saved state: bytes -> checked tables and a place for every cell. docs/state-format.md is the format.
 *
 * Invariants
 *  1. No number from the bytes is used before it is compared: counts with the bytes that are left, block numbers with
 *     the count of blocks, positions with the model's limit. Sums and products of such numbers are checked or bounded.
 *  2. Nothing is allocated on the word of a count alone: as many entries are there to be read.
 *  3. After success every cell that a table holds is in the bytes once, and every cell in the bytes is held.
 *
 * It refuses to know what makes the books sound (kv_import does) and changes nothing. */
#include "context/state.h"

#include "base/mem.h"

#include <string.h>

struct reader {
	const uint8_t *bytes;
	size_t n, at; /* at <= n; n is without the checksum */
	struct cohort_err *err;
};

void state_saved_release(struct saved *s)
{
	for (size_t g = 0; g < BE_GROUPS_MAX; g++) {
		struct saved_part *part = &s->parts[g];
		mem_free(part->seqs);
		mem_free(part->blocks);
		mem_free(part->held);
		mem_free(part->cells_held);
		mem_free(part->ids);
	}
	mem_free(s->states.seqs);
	mem_free(s->states.checks);
	mem_free(s->states.ids);
}

static enum cohort_status cut_short(const struct reader *r, const char *what)
{
	return err_at(r->err, COHORT_E_FORMAT, r->at, "the state ends within %s", what);
}

/* Whether n elements of `size` bytes are left. */
static bool has(const struct reader *r, size_t n, size_t size)
{
	return n <= (r->n - r->at) / size;
}

static uint32_t take_u32(struct reader *r)
{
	const uint32_t v = load_u32(r->bytes + r->at);
	r->at += 4;
	return v;
}

static uint64_t take_u64(struct reader *r)
{
	const uint64_t v = load_u64(r->bytes + r->at);
	r->at += 8;
	return v;
}

static cohort_pos take_pos(struct reader *r)
{
	return (cohort_pos)take_u32(r);
}

/* What the first bytes must be for the rest to mean anything. n: bytes that are there. */
enum cohort_status state_check_start(const uint8_t *bytes, size_t n, struct cohort_err *err)
{
	if (memcmp(bytes, STATE_MAGIC, n < AT_VERSION ? n : AT_VERSION) != 0)
		return err_at(err, COHORT_E_FORMAT, 0, "not a saved state");
	const uint32_t version = n < AT_STATE_FLAGS ? STATE_VERSION : load_u32(bytes + AT_VERSION);
	if (version < STATE_VERSION)
		return err_set(err, COHORT_E_UNSUPPORTED,
				"the state was saved by an older version (format %u, this library reads %u): save it "
				"anew",
				version, STATE_VERSION);
	if (version != STATE_VERSION)
		return err_set(err, COHORT_E_UNSUPPORTED,
				"the state has format version %u, this library reads version %u", version,
				STATE_VERSION);
	if (n < HEAD_BYTES + SUM_BYTES)
		return err_at(err, COHORT_E_FORMAT, n, "the state ends within its header");
	return COHORT_OK;
}

static enum cohort_status check_whole(const uint8_t *bytes, size_t n, struct cohort_err *err)
{
	const uint64_t n_said = load_u64(bytes + AT_BYTES);

	if (n_said != n)
		return err_at(err, COHORT_E_FORMAT, AT_BYTES, "the state should have %llu bytes and has %zu",
				(unsigned long long)n_said, n);
	if (state_sum(bytes, n - SUM_BYTES) != load_u64(bytes + n - SUM_BYTES))
		return err_at(err, COHORT_E_FORMAT, n - SUM_BYTES, "the state's checksum is wrong: it was damaged");
	return COHORT_OK;
}

static const char *type_name(uint32_t type)
{
	static const char *const names[] = {
		[COHORT_KV_F16] = "f16",
		[COHORT_KV_F32] = "f32",
		[COHORT_KV_Q8_0] = "q8_0",
	};
	return type < sizeof names / sizeof *names ? names[type] : "unknown";
}

/* Whether the state was saved from a cache like this one. */
static enum cohort_status check_geometry(struct cohort_context *c, const uint8_t *bytes, struct cohort_err *err)
{
	const uint32_t type = load_u32(bytes + AT_TYPE), block = load_u32(bytes + AT_BLOCK);
	const uint32_t n_groups = load_u32(bytes + AT_GROUPS);
	const enum cohort_status st = state_fingerprint(c, err);

	if (st)
		return st;
	if (load_u64(bytes + AT_MODEL) != c->fingerprint)
		return err_set(err, COHORT_E_UNSUPPORTED, "the state was saved with another model%s",
				c->model->model.rope[0].freqs_long ? ", or for contexts of another length" : "");
	if (type != (uint32_t)c->p.kv_type)
		return err_set(err, COHORT_E_UNSUPPORTED,
				"the state was saved from a cache of type %s (%u), the context's is %s",
				type_name(type), type, type_name((uint32_t)c->p.kv_type));
	if (block != BE_BLOCK)
		return err_set(err, COHORT_E_UNSUPPORTED, "the state has blocks of %u positions, the context of %d",
				block, BE_BLOCK);
	if (n_groups != c->n_groups)
		return err_set(err, COHORT_E_UNSUPPORTED, "the state has %u groups of layers, the context %zu",
				n_groups, c->n_groups);
	return COHORT_OK;
}

static enum cohort_status read_groups(struct reader *r, const struct cohort_context *c, struct saved *s)
{
	if (!has(r, c->n_groups, GROUP_BYTES))
		return cut_short(r, "its groups of layers");
	for (size_t g = 0; g < c->n_groups; g++) {
		const size_t window = take_u32(r), n_blocks = take_u32(r);
		const uint64_t n_cell = take_u64(r);
		if (window != window_of(c, g) || n_cell != cell_bytes(c, g))
			return err_set(r->err, COHORT_E_UNSUPPORTED,
					"group %zu of the state has a window of %zu and cells of %llu bytes, the "
					"context's %zu and %zu",
					g, window, (unsigned long long)n_cell, window_of(c, g), cell_bytes(c, g));
		s->parts[g].n_blocks = n_blocks;
	}
	return COHORT_OK;
}

/* The id a saved sequence gets: the one asked for, or its own. */
static enum cohort_status place_seq(const struct reader *r, const struct cohort_context *c, cohort_seq seq, uint32_t id,
		cohort_seq *place)
{
	if (id > INT32_MAX)
		return err_at(r->err, COHORT_E_FORMAT, r->at - 4, "the state has a negative sequence id");
	*place = seq == COHORT_SEQ_ALL ? (cohort_seq)id : seq;
	if (*place >= c->p.n_seq_max)
		return err_rule(r->err, COHORT_E_ARG, "seq-id", -1, *place, c->p.n_seq_max, *place,
				"the state holds sequence %d, the context's are 0 to %d", *place, c->p.n_seq_max - 1);
	return COHORT_OK;
}

static bool positions_sound(const struct kv_image_seq *q, cohort_pos limit)
{
	if (q->max == -1)
		return q->min == -1 && q->first == -1;
	return q->min >= 0 && q->min <= q->first && q->first <= q->max && q->max < limit;
}

/* One sequence: it ends at the same position in all groups, but a window's released cells make beginnings differ. */
static enum cohort_status read_seq(struct reader *r, const struct cohort_context *c, struct saved *s, cohort_seq seq,
		size_t i, cohort_seq last)
{
	const size_t at = r->at;
	struct kv_image_seq q = {0};
	enum cohort_status st = place_seq(r, c, seq, take_u32(r), &q.seq);

	if (st)
		return st;
	q.max = take_pos(r);
	if (q.seq <= last)
		return err_at(r->err, COHORT_E_FORMAT, at, "sequence %d does not come after the one before", q.seq);
	for (size_t g = 0; g < c->n_groups; g++) {
		q.min = take_pos(r);
		q.first = take_pos(r);
		q.gone = take_pos(r);
		if (!positions_sound(&q, context_pos_limit(c->model)))
			return err_at(r->err, COHORT_E_FORMAT, at, "sequence %d cannot have positions %d, %d to %d",
					q.seq, q.min, q.first, q.max);
		s->parts[g].seqs[i] = q;
	}
	if (c->memory.recur) {
		if (q.max < -1 || q.max >= context_pos_limit(c->model))
			return err_at(r->err, COHORT_E_FORMAT, at, "sequence %d cannot end at position %d", q.seq,
					q.max);
		s->states.seqs[i] = (struct recur_image_seq){.seq = q.seq, .max = q.max};
	}
	return COHORT_OK;
}

static enum cohort_status read_seqs(struct reader *r, const struct cohort_context *c, struct saved *s, cohort_seq seq)
{
	enum cohort_status st = COHORT_OK;

	if (!has(r, s->n_seqs, SEQ_BYTES + BEGIN_BYTES * c->n_groups))
		return cut_short(r, "its list of sequences");
	for (size_t g = 0; g < c->n_groups; g++) {
		s->parts[g].seqs = mem_alloc(s->n_seqs, sizeof *s->parts[g].seqs);
		if (!s->parts[g].seqs)
			return state_no_memory(r->err);
	}
	s->states.seqs = mem_zalloc(c->memory.recur ? s->n_seqs : 0, sizeof *s->states.seqs);
	if (!s->states.seqs)
		return state_no_memory(r->err);
	cohort_seq last = -1;
	for (size_t i = 0; i < s->n_seqs && !st; i++) {
		st = read_seq(r, c, s, seq, i, last);
		last = st ? last : c->n_groups ? s->parts[0].seqs[i].seq : s->states.seqs[i].seq;
	}
	return st;
}

/* Slots that a block has. */
static uint32_t slots_mask(void)
{
	const size_t size = BE_BLOCK;
	return size >= 32 ? UINT32_MAX : (uint32_t)(((uint64_t)1 << size) - 1);
}

/* The tables of all sequences. Adds up in cells_held which cells the blocks must have. */
static enum cohort_status read_entries(struct reader *r, struct saved_part *part, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const int32_t block = (int32_t)take_u32(r);
		const uint32_t held = take_u32(r);
		if (held ? block < 0 || (size_t)block >= part->n_blocks : block != -1)
			return err_at(r->err, COHORT_E_FORMAT, r->at - ENTRY_BYTES, "a table names block %d of %zu",
					block, part->n_blocks);
		if (held & ~slots_mask())
			return err_at(r->err, COHORT_E_FORMAT, r->at - HELD_BYTES,
					"a table holds slots that blocks do not have");
		part->blocks[i] = block;
		part->held[i] = held;
		if (held)
			part->cells_held[block] |= held;
	}
	return COHORT_OK;
}

static enum cohort_status read_tables(struct reader *r, struct saved_part *part, size_t n_seqs)
{
	size_t n = 0;

	/* A table has less than 2^27 entries, a state less than 2^32 sequences: the sum cannot wrap. */
	part->at = r->at;
	for (size_t i = 0; i < n_seqs; i++)
		n += n_entries(part->seqs[i].first, part->seqs[i].max);
	if (!has(r, n, ENTRY_BYTES))
		return cut_short(r, "its tables");
	if (!has(r, part->n_blocks, HELD_BYTES))
		return cut_short(r, "its blocks");
	part->blocks = mem_alloc(n, sizeof *part->blocks);
	part->held = mem_alloc(n, sizeof *part->held);
	part->cells_held = mem_zalloc(part->n_blocks, sizeof *part->cells_held);
	part->ids = mem_alloc(part->n_blocks, sizeof *part->ids);
	if (!part->blocks || !part->held || !part->cells_held || !part->ids)
		return state_no_memory(r->err);
	n = 0;
	for (size_t i = 0; i < n_seqs; i++) {
		part->seqs[i].blocks = part->blocks + n;
		part->seqs[i].held = part->held + n;
		n += n_entries(part->seqs[i].first, part->seqs[i].max);
	}
	return read_entries(r, part, n);
}

/* The words must be what the tables need, so that no cell is missing and none is left over. */
static enum cohort_status read_cells(struct reader *r, struct saved_part *part, size_t n_cell)
{
	size_t n = 0;

	if (!has(r, part->n_blocks, HELD_BYTES))
		return cut_short(r, "its blocks");
	for (size_t i = 0; i < part->n_blocks; i++) {
		const uint32_t held = take_u32(r);
		if (!held || held != part->cells_held[i])
			return err_at(r->err, COHORT_E_FORMAT, r->at - HELD_BYTES,
					"block %zu has other cells than its tables say", i);
		n += (size_t)__builtin_popcount(held);
	}
	if (!has(r, n, n_cell))
		return cut_short(r, "its cells");
	part->cells = r->bytes + r->at;
	r->at += n * n_cell;
	return COHORT_OK;
}

/* The cells of block `index` that a sequence holds from position `from` on. */
static uint32_t held_at(const struct kv_image_seq *q, cohort_pos index, cohort_pos from)
{
	const cohort_pos size = (cohort_pos)BE_BLOCK, slot = from - index * size;
	const uint32_t held = index < q->first / size ? 0 : q->held[index - q->first / size];
	return slot > 0 ? held & ~(uint32_t)(((uint64_t)1 << slot) - 1) : held;
}

/* A window that released cells of a sequence counts them as held: it begins where the groups that have them all do, or
 * before, if the others were told to let those go. Were it to begin later, what is removed from there on would leave it
 * empty, and the others not. */
static bool begin_alike(const struct kv_image_seq *a, const struct kv_image_seq *b)
{
	if (a->gone == b->gone)
		return a->min == b->min;
	return a->gone > b->gone ? a->min <= b->min : a->min >= b->min;
}

/* All groups hold the same cells of a sequence, but for those that a window released: the parts of a memory know the
 * same sequences, or later calls would find them at odds. */
static enum cohort_status compare_groups(const struct reader *r, const struct saved *s, size_t n_groups)
{
	const cohort_pos size = (cohort_pos)BE_BLOCK;

	for (size_t i = 0; i < s->n_seqs; i++) {
		const struct kv_image_seq *q = &s->parts[0].seqs[i];
		cohort_pos from = 0;
		for (size_t g = 0; g < n_groups; g++)
			from = s->parts[g].seqs[i].gone > from ? s->parts[g].seqs[i].gone : from;
		for (size_t g = 1; g < n_groups; g++)
			for (size_t h = 0; h < g; h++)
				if (!begin_alike(&s->parts[g].seqs[i], &s->parts[h].seqs[i]))
					return err_at(r->err, COHORT_E_FORMAT, s->parts[g].at,
							"groups %zu and %zu have different beginnings of sequence %d",
							h, g, q->seq);
		for (size_t g = 1; g < n_groups; g++)
			for (cohort_pos k = from / size; q->max >= 0 && k <= q->max / size; k++)
				if (held_at(q, k, from) != held_at(&s->parts[g].seqs[i], k, from))
					return err_at(r->err, COHORT_E_FORMAT, s->parts[g].at,
							"groups 0 and %zu hold different cells of sequence %d", g,
							q->seq);
	}
	return COHORT_OK;
}

/* Checkpoints are counted first, so that they lie in one piece. */
static enum cohort_status read_state_seqs(struct reader *r, struct saved *s)
{
	const size_t start = r->at;
	size_t n_checks = 0;

	for (size_t i = 0; i < s->n_seqs; i++) {
		if (!has(r, 1, STATE_SEQ_BYTES))
			return cut_short(r, "its sequences' states");
		const size_t n = load_u32(r->bytes + r->at + STATE_SEQ_BYTES - 4);
		r->at += STATE_SEQ_BYTES;
		if (!has(r, n, CHECK_BYTES))
			return cut_short(r, "its checkpoints");
		r->at += n * CHECK_BYTES;
		n_checks += n;
	}
	s->states.checks = mem_alloc(n_checks, sizeof *s->states.checks);
	if (!s->states.checks)
		return state_no_memory(r->err);
	r->at = start;
	struct recur_check *to = s->states.checks;
	for (size_t i = 0; i < s->n_seqs; i++) {
		struct recur_image_seq *q = &s->states.seqs[i];
		q->min = take_pos(r);
		q->state = (int32_t)take_u32(r);
		q->n_checks = take_u32(r);
		q->checks = to;
		for (size_t k = 0; k < q->n_checks; k++, to++) {
			to->pos = take_pos(r);
			to->state = (int32_t)take_u32(r);
		}
	}
	return COHORT_OK;
}

static enum cohort_status read_states(struct reader *r, const struct cohort_context *c, struct saved *s)
{
	s->states.at = r->at;
	if (!has(r, 1, STATES_BYTES))
		return cut_short(r, "its states");
	s->states.n_states = take_u32(r);
	const uint64_t n_bytes = take_u64(r);
	if (n_bytes != state_bytes(c))
		return err_set(r->err, COHORT_E_UNSUPPORTED, "the state has states of %llu bytes, the context of %zu",
				(unsigned long long)n_bytes, state_bytes(c));
	enum cohort_status st = read_state_seqs(r, s);
	if (st)
		return st;
	if (!has(r, s->states.n_states, state_bytes(c)))
		return cut_short(r, "its states");
	s->states.bytes = r->bytes + r->at;
	r->at += s->states.n_states * state_bytes(c);
	s->states.ids = mem_alloc(s->states.n_states, sizeof *s->states.ids);
	return s->states.ids ? COHORT_OK : state_no_memory(r->err);
}

static enum cohort_status read_all(struct reader *r, const struct cohort_context *c, struct saved *s, cohort_seq seq)
{
	const uint32_t flags = load_u32(r->bytes + AT_STATE_FLAGS);
	enum cohort_status st;

	s->all = flags & STATE_ALL;
	s->n_seqs = load_u32(r->bytes + AT_SEQS);
	if (flags & ~(STATE_ALL | STATE_RECUR) || !(flags & STATE_RECUR) != !c->memory.recur)
		return err_at(r->err, COHORT_E_FORMAT, AT_STATE_FLAGS, "the state has flags %#x, which mean nothing",
				flags);
	if (!s->all && s->n_seqs != 1)
		return err_at(r->err, COHORT_E_FORMAT, AT_SEQS, "the state is of one sequence and lists %zu",
				s->n_seqs);
	if (s->all && seq != COHORT_SEQ_ALL)
		return err_set(r->err, COHORT_E_ARG, "seq is %d, but the state holds all sequences", seq);
	r->at = HEAD_BYTES;
	st = read_groups(r, c, s);
	if (!st)
		st = read_seqs(r, c, s, seq);
	for (size_t g = 0; g < c->n_groups && !st; g++) {
		st = read_tables(r, &s->parts[g], s->n_seqs);
		if (!st)
			st = read_cells(r, &s->parts[g], cell_bytes(c, g));
	}
	if (!st && c->n_groups)
		st = compare_groups(r, s, c->n_groups);
	if (!st && c->memory.recur)
		st = read_states(r, c, s);
	if (!st && r->at != r->n)
		st = err_at(r->err, COHORT_E_FORMAT, r->at, "the state goes on behind its end");
	return st;
}

enum cohort_status state_read(struct cohort_context *c, cohort_seq seq, const uint8_t *bytes, size_t n_bytes,
		struct saved *s, struct cohort_err *err)
{
	enum cohort_status st = state_check_start(bytes, n_bytes, err);

	*s = (struct saved){0};
	if (!st)
		st = check_whole(bytes, n_bytes, err);
	if (!st)
		st = check_geometry(c, bytes, err);
	if (!st)
		st = read_all(&(struct reader){.bytes = bytes, .n = n_bytes - SUM_BYTES, .err = err}, c, s, seq);
	return st;
}
