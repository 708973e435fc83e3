/* Blocks, sequences, reserve / commit / roll back; looking and removing. What moves cells is in kv_shape.c; places.h
 * has the references and the journal.
 *
 * Invariants
 *  1. A block is named at one index only.
 *  2. A sequence holds the cells its words tell, at indices first / size .. max / size; the cells at `first` and `max`
 *     are among them, n_cells in all. Words and entries outside are stale and never read. An entry whose word is 0
 *     names nothing.
 *  3. min == first, unless the window released [min, gone): then min < gone <= first, and gone <= max + 2 - window, so
 *     that the next row misses nothing.
 *  4. A block is written in place only if every holder is in the row's set; otherwise the set gets a copy first. Nor is
 *     a slot written that a sequence held which left the block in the same transaction (the block's note has these
 *     slots): a rollback brings it back.
 *  5. Rows only append, so a rollback restores a word by cutting it at the old length.
 *  6. Which blocks are copies of each other is known as far as it matters: of what own_block copied, until a slot is
 *     written again. A rollback may make it forget that, never remember what is not so.
 * Refuses to know: tensors, layers, what a token is. */
#include "kv/kv_impl.h"

#include "base/mem.h"

#include <string.h>

/* What a reservation of n rows that do not part takes. */
static bool plan_room(struct kv *kv, size_t n_rows)
{
	return mem_grow((void **)&kv->stores, &kv->stores_max, n_rows, sizeof *kv->stores) &&
			mem_grow((void **)&kv->copies, &kv->copies_max, n_rows, sizeof *kv->copies) &&
			mem_grow((void **)&kv->nodes, &kv->nodes_max, n_rows, sizeof *kv->nodes);
}

struct kv *kv_open(const struct kv_limits *lim)
{
	const bool sane = lim->block_size > 0 && lim->block_size <= KV_BLOCK_MAX;
	const size_t n_blocks = lim->n_blocks, n_seq_max = lim->n_seq_max;
	struct kv *kv = sane ? mem_zalloc(1, sizeof *kv) : NULL;

	if (!kv)
		return NULL;
	if (!places_init(&kv->p, n_blocks, n_seq_max, lim->n_pos_max, lim->n_rows_max)) /* which checks the limits */
		goto fail;
	kv->size = lim->block_size;
	kv->n_index = (lim->n_pos_max + kv->size - 1) / kv->size;
	/* Its last cell a sequence always keeps, so a window of one is kept as one of two. */
	kv->window = lim->window && lim->window < INT32_MAX ? (int64_t)lim->window : INT64_MAX / 2;
	kv->window += kv->window == 1;
	/* Large and mostly never touched: the OS hands out zeroed pages as they are. */
	kv->tables = mem_zalloc(n_seq_max, kv->n_index * sizeof *kv->tables);
	kv->held = mem_zalloc(n_seq_max, kv->n_index * sizeof *kv->held);
	kv->cells = mem_zalloc(n_blocks, sizeof *kv->cells);
	kv->chains = mem_zalloc(n_blocks, sizeof *kv->chains);
	if (kv->tables && kv->held && kv->cells && kv->chains && plan_room(kv, lim->n_rows_max))
		return kv;
fail:
	kv_free(kv);
	return NULL;
}

void kv_free(struct kv *kv)
{
	if (kv) {
		places_release(&kv->p);
		mem_free(kv->tables);
		mem_free(kv->held);
		mem_free(kv->cells);
		mem_free(kv->chains);
		mem_free(kv->nodes);
		mem_free(kv->stores);
		mem_free(kv->extra);
		mem_free(kv->copies);
		mem_free(kv->moves);
		mem_free(kv->scratch);
		mem_free(kv);
	}
}

/* ---- Shared with kv_shape.c ---- */

uint32_t kv_word_at(const struct kv *kv, cohort_seq seq, size_t index)
{
	const struct place_seq *s = &kv->p.seqs[seq];
	const bool in = s->max >= 0 && index >= kv_first_index(kv, s) && index <= kv_last_index(kv, s);
	return in ? *kv_word(kv, seq, index) : 0;
}

uint32_t kv_slots(const struct kv *kv, size_t index, int64_t p0, int64_t p1)
{
	const int64_t base = (int64_t)(index * kv->size), size = (int64_t)kv->size;
	const int64_t a = p0 > base ? p0 - base : 0, z = p1 < base + size ? p1 - base : size;
	return a < z ? (uint32_t)((UINT64_C(1) << z) - (UINT64_C(1) << a)) : 0;
}

cohort_pos kv_next_held(const struct kv *kv, cohort_seq seq, cohort_pos p)
{
	const struct place_seq *s = &kv->p.seqs[seq];
	const cohort_pos from = p > s->first ? p : s->first;

	for (size_t i = (size_t)from / kv->size; i <= kv_last_index(kv, s); i++) {
		const uint32_t word = *kv_word(kv, seq, i) & kv_slots(kv, i, from, INT64_MAX);
		if (word)
			return (cohort_pos)(i * kv->size) + __builtin_ctz(word);
	}
	return -1;
}

cohort_pos kv_prev_held(const struct kv *kv, cohort_seq seq, cohort_pos p)
{
	const struct place_seq *s = &kv->p.seqs[seq];
	const cohort_pos to = p < s->max ? p : s->max;

	if (to < s->first)
		return -1;
	/* The cell at `first` ends the search at the latest. */
	for (size_t i = (size_t)to / kv->size;; i--) {
		const uint32_t word = *kv_word(kv, seq, i) & kv_slots(kv, i, 0, (int64_t)to + 1);
		if (word)
			return (cohort_pos)(i * kv->size) + 31 - __builtin_clz(word);
	}
}

int32_t kv_take(struct kv *kv)
{
	const int32_t block = places_take(&kv->p);

	kv->cells[block] = (struct kv_cells){.stamp = ++kv->n_stamps};
	return block;
}

/* A slot is about to be written: blocks with a copy of what was there are no copies of this one any more. */
static void write_slot(struct kv *kv, int32_t block, uint32_t bit)
{
	struct kv_cells *c = &kv->cells[block];

	if (c->given & bit) {
		c->stamp = ++kv->n_stamps;
		c->given = 0;
	}
	c->copied &= ~bit;
}

/* Of a copy a copy is one of the same block. */
static void note_copy(struct kv *kv, int32_t from, int32_t to, uint32_t slots)
{
	struct kv_cells *c = &kv->cells[from];

	kv->cells[to].from = c->from && (slots & ~c->copied) == 0 ? c->from : c->stamp;
	kv->cells[to].copied = slots;
	c->given |= slots;
}

/* Whether two blocks are known to hold the same bits in these slots: one is a copy of the other, or both are of a
 * third. */
static bool same_cells(const struct kv *kv, int32_t a, int32_t b, uint32_t slots)
{
	const struct kv_cells *x = &kv->cells[a], *y = &kv->cells[b];

	if (a == b)
		return true;
	if (x->from && x->from == y->from)
		return (slots & ~(x->copied & y->copied)) == 0;
	if (x->from == y->stamp)
		return (slots & ~x->copied) == 0;
	return y->from == x->stamp && (slots & ~y->copied) == 0;
}

void kv_forget(struct kv *kv, cohort_seq seq, cohort_pos p0, cohort_pos p1)
{
	struct place_seq *s = &kv->p.seqs[seq];
	const cohort_pos from = p0 > s->first ? p0 : s->first, to = p1 <= s->max ? p1 : s->max + 1;

	for (size_t i = (size_t)from / kv->size; from < to && i <= (size_t)(to - 1) / kv->size; i++) {
		uint32_t *word = kv_word(kv, seq, i);
		const uint32_t out = *word & kv_slots(kv, i, from, to);
		*word &= ~out;
		s->n_cells -= __builtin_popcount(out);
		if (out && !*word)
			places_drop(&kv->p, *kv_entry(kv, seq, i));
	}
}

void kv_empty(struct kv *kv, cohort_seq seq)
{
	kv_forget(kv, seq, kv->p.seqs[seq].first, kv->p.seqs[seq].max + 1);
	places_empty(&kv->p, seq);
}

/* ---- The transaction ---- */

static void undo(struct kv *kv, bool all)
{
	for (size_t i = all ? 0 : kv->p.mark_lengths; i < kv->p.n_lengths; i++) {
		const struct place_length *l = &kv->p.lengths[i];
		if (l->old.max >= 0)
			*kv_word(kv, l->seq, kv_last_index(kv, &l->old)) &=
					kv_slots(kv, kv_last_index(kv, &l->old), 0, (int64_t)l->old.max + 1);
	}
	places_undo(&kv->p, all);
}

void kv_begin(struct kv *kv)
{
	kv_rollback(kv); /* a transaction that was not ended is undone */
	places_begin(&kv->p);
}

void kv_unreserve(struct kv *kv)
{
	undo(kv, false);
}

void kv_rollback(struct kv *kv)
{
	undo(kv, true);
}

/* Lets go of the blocks of which the next row sees nothing. Longer than that they serve only the removal of a tail. */
static void release(struct kv *kv, cohort_seq seq)
{
	struct place_seq *s = &kv->p.seqs[seq];
	const int64_t sees = s->max + 2 - kv->window;
	const size_t end = sees > 0 ? (size_t)sees / kv->size : 0;

	if (kv_first_index(kv, s) < end) {
		/* Behind the last cell that goes, not behind its block: so it does not matter how many commits it
		 * took. */
		s->gone = kv_prev_held(kv, seq, (cohort_pos)(end * kv->size) - 1) + 1;
		kv_forget(kv, seq, s->first, s->gone);
		s->first = kv_next_held(kv, seq, s->gone);
	}
}

void kv_commit(struct kv *kv)
{
	for (size_t i = 0; i < kv->p.n_lengths; i++)
		release(kv, kv->p.lengths[i].seq);
	places_commit(&kv->p);
}

static void set_entry(struct kv *kv, cohort_seq seq, size_t index, int32_t old, int32_t block)
{
	places_set(&kv->p, kv_entry(kv, seq, index), old, block);
	if (old >= 0)
		kv->p.note[old] |= *kv_word(kv, seq, index);
}

static void append(struct kv *kv, cohort_seq seq, cohort_pos pos, size_t index, uint32_t bit, bool have)
{
	struct place_seq *s = &kv->p.seqs[seq];
	uint32_t *word = kv_word(kv, seq, index);

	places_touch(&kv->p, seq);
	if (s->max < 0) {
		places_live_add(&kv->p, seq);
		s->min = s->first = pos;
	}
	*word = (have ? *word : 0) | bit;
	s->max = pos;
	s->n_cells++;
}

/* The last node of a block, or -1. */
static int32_t last_node(const struct kv *kv, int32_t block)
{
	return kv->chains[block].epoch == kv->p.epoch ? kv->chains[block].last : -1;
}

/* There is room for a node. */
static void add_node(struct kv *kv, int32_t row, int32_t block, int32_t slot)
{
	kv->nodes[kv->n_nodes] = (struct kv_node){row, slot, last_node(kv, block)};
	kv->chains[block] = (struct kv_chain){kv->p.epoch, (int32_t)kv->n_nodes++};
}

/* n_left rows are still to come, and need a node each. */
static bool add_extra(struct kv *kv, const struct kv_node *node, int32_t block, size_t n_left)
{
	const int32_t row = node->row, slot = node->slot; /* the nodes may move */

	if (!mem_grow((void **)&kv->extra, &kv->extra_max, kv->n_extra + 1, sizeof *kv->extra) ||
			!mem_grow((void **)&kv->nodes, &kv->nodes_max, kv->n_nodes + 1 + n_left, sizeof *kv->nodes))
		return false;
	kv->extra[kv->n_extra++] = (struct kv_store){row, block, slot};
	add_node(kv, row, block, slot);
	return true;
}

/* Rows of this reservation that went to `from`, at once or by an earlier redirection, must also go to `to`: their data
 * is not there yet, so a copy would miss it. *older tells that cells from before are to be copied as well: those of
 * earlier reservations are there by the time the copies are made. */
static bool redirect(struct kv *kv, const struct kv_row *rows, size_t n, size_t n_left, int32_t from, int32_t to,
		bool *older)
{
	const size_t index = (size_t)rows[n].pos / kv->size;
	const uint32_t held = *kv_word(kv, rows[n].seq[0], index);
	const cohort_pos first = (cohort_pos)(index * kv->size) + __builtin_ctz(held);
	cohort_pos seen = rows[n].pos;

	for (int32_t i = last_node(kv, from); i >= 0; i = kv->nodes[i].prev) {
		if (!add_extra(kv, &kv->nodes[i], to, n_left))
			return false;
		const cohort_pos pos = rows[kv->nodes[i].row].pos;
		seen = pos < seen ? pos : seen;
	}
	*older = seen > first;
	return true;
}

static enum cohort_status no_room(const struct kv *kv, const struct kv_row *r, size_t n, struct cohort_err *err)
{
	return err_rule(err, COHORT_NO_ROOM, "kv-room", (int64_t)n, r->seq[0], (int64_t)n, 0,
			"no room in the cache for row %zu (sequence %d, position %d): all %zu blocks of %zu positions "
			"are in use; the first %zu rows would fit",
			n, r->seq[0], r->pos, kv->p.n, kv->size, n);
}

/* A block of its own for the set of row n, with the cells of `old` if it has one (-1: none). */
static enum cohort_status own_block(
		struct kv *kv, const struct kv_row *rows, size_t n, size_t n_rows, int32_t old, struct cohort_err *err)
{
	const struct kv_row *r = &rows[n];
	const size_t index = (size_t)r->pos / kv->size;
	bool older;

	if (kv->p.n_free == 0)
		return no_room(kv, r, n, err);
	const int32_t block = kv_take(kv);
	if (old >= 0) {
		if (!redirect(kv, rows, n, n_rows - n, old, block, &older)) {
			places_give_back(&kv->p, block); /* no entry names it, so the journal does not know it */
			return err_set(err, COHORT_E_MEMORY, "out of memory");
		}
		if (older)
			kv->copies[kv->n_copies++] = (struct kv_move){old, 0, block, 0, (int32_t)kv->size, 0};
		note_copy(kv, old, block, *kv_word(kv, r->seq[0], index));
	}
	for (int32_t i = 0; i < r->n_seq; i++)
		set_entry(kv, r->seq[i], index, old >= 0 ? *kv_entry(kv, r->seq[i], index) : -1, block);
	return COHORT_OK;
}

/* Whether the sequences of the row, and no others, hold the block. Those with the same cells may hold copies of it. */
static bool is_own(const struct kv *kv, const struct kv_row *r, size_t index, int32_t block)
{
	if (kv->p.ref[block] != r->n_seq)
		return false;
	for (int32_t i = 1; i < r->n_seq; i++)
		if (*kv_entry(kv, r->seq[i], index) != block)
			return false;
	return true;
}

static enum cohort_status place(
		struct kv *kv, const struct kv_row *rows, size_t n, size_t n_rows, struct cohort_err *err)
{
	const struct kv_row *r = &rows[n];
	const cohort_seq lead = r->seq[0];
	const size_t index = (size_t)r->pos / kv->size, slot = (size_t)r->pos % kv->size;
	const cohort_pos max = kv->p.seqs[lead].max;
	/* It ends just before the row, and so in the same block unless one begins there. */
	const bool have = max >= 0 && slot > 0;
	const int32_t cur = have ? *kv_entry(kv, lead, index) : -1;

	if ((size_t)r->pos >= kv->p.n_pos_max)
		return err_rule(err, COHORT_E_LIMIT, "pos-limit", (int64_t)n, lead, (int64_t)kv->p.n_pos_max, r->pos,
				"row %zu has position %d; positions end before %zu", n, r->pos, kv->p.n_pos_max);
	if (max >= 0 && r->pos != max + 1)
		return err_set(err, COHORT_E_BUG, "row %zu has position %d after %d", n, r->pos, max);
	if (!places_room(&kv->p, (size_t)r->n_seq))
		return err_set(err, COHORT_E_MEMORY, "out of memory");
	if (!have || !is_own(kv, r, index, cur) || kv->p.note[cur] >> slot & 1) {
		enum cohort_status st = own_block(kv, rows, n, n_rows, cur, err);
		if (st)
			return st;
	}
	for (int32_t i = 0; i < r->n_seq; i++)
		append(kv, r->seq[i], r->pos, index, UINT32_C(1) << slot, have);
	kv->stores[n] = (struct kv_store){(int32_t)n, *kv_entry(kv, lead, index), (int32_t)slot};
	write_slot(kv, kv->stores[n].block, UINT32_C(1) << slot);
	add_node(kv, (int32_t)n, kv->stores[n].block, (int32_t)slot);
	return COHORT_OK;
}

enum cohort_status kv_reserve(
		struct kv *kv, const struct kv_row *rows, size_t n_rows, struct kv_plan *plan, struct cohort_err *err)
{
	enum cohort_status st = places_reserve(&kv->p, err);

	if (st)
		return st;
	if (!plan_room(kv, n_rows))
		return err_set(err, COHORT_E_MEMORY, "out of memory for %zu rows", n_rows);
	kv->n_extra = kv->n_copies = kv->n_nodes = 0;
	for (size_t i = 0; i < n_rows && !st; i++)
		st = place(kv, rows, i, n_rows, err);
	if (st)
		kv_unreserve(kv);
	else
		*plan = (struct kv_plan){kv->stores, kv->extra, kv->n_extra, kv->copies, kv->n_copies};
	return st;
}

/* ---- Looking ---- */

const int32_t *kv_table(const struct kv *kv, cohort_seq seq)
{
	return kv_entry(kv, seq, 0);
}

const uint32_t *kv_held(const struct kv *kv, cohort_seq seq)
{
	return kv_word(kv, seq, 0);
}

cohort_pos kv_pos_min(const struct kv *kv, cohort_seq seq)
{
	return places_look(&kv->p, seq)->min;
}

cohort_pos kv_pos_max(const struct kv *kv, cohort_seq seq)
{
	return places_look(&kv->p, seq)->max;
}

cohort_pos kv_pos_first(const struct kv *kv, cohort_seq seq)
{
	return places_look(&kv->p, seq)->first;
}

cohort_pos kv_pos_gone(const struct kv *kv, cohort_seq seq)
{
	return places_look(&kv->p, seq)->gone;
}

bool kv_has_gaps(const struct kv *kv, cohort_seq seq)
{
	const struct place_seq *s = places_look(&kv->p, seq);
	return s->max >= 0 && s->n_cells != s->max - s->first + 1;
}

bool kv_same(const struct kv *kv, cohort_seq a, cohort_seq b)
{
	const struct place_seq *x = places_look(&kv->p, a), *y = places_look(&kv->p, b);

	if (x->min != y->min || x->first != y->first || x->max != y->max || x->n_cells != y->n_cells)
		return false;
	if (x->max < 0)
		return true;
	const size_t from = kv_first_index(kv, x), n = kv_last_index(kv, x) - from + 1;
	const uint32_t *held = kv_word(kv, a, from);
	const int32_t *s = kv_entry(kv, a, from), *t = kv_entry(kv, b, from);
	if (memcmp(held, kv_word(kv, b, from), n * sizeof *held) != 0)
		return false;
	for (size_t i = 0; i < n; i++)
		if (held[i] && !same_cells(kv, s[i], t[i], held[i]))
			return false;
	return true;
}

const struct places *kv_places(const struct kv *kv)
{
	return &kv->p;
}

/* ---- Removing ---- */

/* Whether a tail may go, so that the last cell is the one at max: the window must not have released cells that the
 * shorter sequence would see. */
static enum cohort_status may_shorten(const struct kv *kv, cohort_seq seq, cohort_pos max, struct cohort_err *err)
{
	const struct place_seq *s = &kv->p.seqs[seq];
	const int64_t sees = max + 2 - kv->window, need = sees > s->min ? sees : s->min;

	if (s->gone <= need)
		return COHORT_OK;
	return err_rule(err, COHORT_E_ARG, "window-gone", -1, seq, need, s->first,
			"sequence %d cannot be cut there: it would need its cells from position %lld on, and those "
			"before %d fell out of the window and are gone",
			seq, (long long)need, s->gone);
}

enum cohort_status kv_seq_rm(
		struct kv *kv, cohort_seq seq, cohort_pos p0, cohort_pos p1, bool dry, struct cohort_err *err)
{
	enum cohort_status st = places_range(&kv->p, seq, &p0, &p1, err);
	if (st || p0 >= p1)
		return st;
	struct place_seq *s = &kv->p.seqs[seq];
	const bool head = p0 == s->min, tail = p1 > s->max;
	cohort_pos max = s->max;
	if (tail && !head) {
		max = kv_prev_held(kv, seq, p0 - 1);
		if (max < 0) /* among released cells, which count as held: it is refused, with what it would need */
			max = (p0 < s->gone ? p0 : s->gone) - 1;
		st = may_shorten(kv, seq, max, err);
	}
	if (st || dry)
		return st;
	if (head && tail) {
		kv_empty(kv, seq);
		return COHORT_OK;
	}
	kv_forget(kv, seq, p0, p1);
	if (p0 <= s->first && p1 > s->first)
		s->first = kv_next_held(kv, seq, p1);
	s->max = max;
	if (head)
		s->min = p1 < s->gone ? p1 : s->first;
	else if (p0 < s->gone && p1 >= s->gone)
		s->gone = p0;
	if (s->gone <= s->min)
		s->gone = 0;
	return COHORT_OK;
}

enum cohort_status kv_seq_keep(struct kv *kv, cohort_seq seq, struct cohort_err *err)
{
	enum cohort_status st = places_known(&kv->p, seq, err);

	/* What takes the place of a removed one was looked at before. */
	for (size_t i = st ? 0 : kv->p.n_live; i-- > 0;)
		if (kv->p.live[i] != seq)
			kv_empty(kv, kv->p.live[i]);
	return st;
}

void kv_clear(struct kv *kv)
{
	kv_rollback(kv);
	while (kv->p.n_live)
		kv_empty(kv, kv->p.live[kv->p.n_live - 1]);
}

/* ---- For tests ---- */

/* Invariants 2 and 3 of one sequence; counts its entries in n. */
static bool sound(
		const struct kv *kv, const struct place_seq *s, const int32_t *table, const uint32_t *held, int32_t *n)
{
	int32_t n_cells = 0;
	bool ok = s->min >= 0 && s->first >= s->min && s->max >= s->first;

	for (size_t i = kv_first_index(kv, s); ok && i <= kv_last_index(kv, s); i++) {
		n_cells += __builtin_popcount(held[i]);
		ok = (held[i] & ~kv_slots(kv, i, s->first, (int64_t)s->max + 1)) == 0;
		if (held[i])
			n[table[i]]++;
	}
	ok = ok && n_cells == s->n_cells && held[(size_t)s->max / kv->size] >> (size_t)s->max % kv->size == 1;
	ok = ok && (held[(size_t)s->first / kv->size] >> (size_t)s->first % kv->size & 1) == 1;
	if (s->gone == 0)
		return ok && s->min == s->first;
	return ok && s->min < s->gone && s->gone <= s->first && s->gone <= s->max + 2 - kv->window;
}

bool kv_consistent(const struct kv *kv)
{
	bool ok = true;
	size_t n_live = 0;
	int32_t *n = mem_zalloc(kv->p.n, sizeof *n);

	if (!n)
		return false;
	for (size_t q = 0; q < kv->p.n_seq_max; q++)
		if (kv->p.seqs[q].max >= 0) {
			const cohort_seq seq = (cohort_seq)q;
			n_live++;
			ok = sound(kv, &kv->p.seqs[q], kv_table(kv, seq), kv_held(kv, seq), n) && ok;
		}
	ok = places_consistent(&kv->p, n, n_live) && ok;
	mem_free(n);
	return ok;
}

uint64_t kv_hash(const struct kv *kv)
{
	uint64_t h = places_hash(&kv->p);

	for (size_t q = 0; q < kv->p.n_live; q++) {
		const cohort_seq seq = kv->p.live[q];
		const struct place_seq *s = &kv->p.seqs[seq];
		for (size_t i = kv_first_index(kv, s); i <= kv_last_index(kv, s); i++) {
			places_hash_add(&h, *kv_word(kv, seq, i));
			if (*kv_word(kv, seq, i))
				places_hash_add(&h, (uint64_t)*kv_entry(kv, seq, i));
		}
	}
	return h;
}
