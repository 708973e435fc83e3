/* A machine for the engine's core that computes nothing and believes nothing: a simulated clock, a model of the cache
 * too simple to be wrong, and a language model that is a hash.
 *
 * What a cell holds is a number made of its token and of what the cell before it holds; the first is made of who asks
 * (salt, adapter). So a cell that was written by somebody else, or lies at another place, shows in all that follows,
 * and what a request says alone is known without a machine. Blocks are shared and copied on write as
 * docs/internals.md has it. A row may be decoded only if its sequence holds exactly the tokens that its stream
 * knows. */
#ifndef TESTS_ENGINE_MACHINE_H
#define TESTS_ENGINE_MACHINE_H

#include "engine/core.h"

#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SIM_SLOTS = 8, SIM_IDS = 64, SIM_SEQS = SIM_SLOTS + SIM_IDS, SIM_POS = 64, SIM_BLOCKS = 64 };
enum { SIM_SIZE = 8, SIM_VOCAB = 11, SIM_EMBD = 3, SIM_UBATCH = 16, SIM_TABLE = SIM_POS / 2 };

static const double sim_call_s = 0.010, sim_row_s = 0.002;

struct sim_cell {
	cohort_token token;
	uint64_t value;
};

struct sim_block {
	int32_t n_refs;
	struct sim_cell cells[SIM_SIZE];
};

struct sim_seq {
	int32_t n; /* it goes on at this position */
	int32_t gone; /* a window let go of the cells before it */
	int8_t table[SIM_TABLE]; /* blocks; -1: none */
	uint8_t held[SIM_TABLE]; /* bits: which cells of the block are its own */
	struct sim_cell last; /* recurrent: the state */
	const struct cohort_adapter *adapter;
	float scale;
};

struct sim {
	struct core *core;
	int32_t block_size, n_blocks, window;
	bool recurrent, encoder;
	double now;
	struct sim_block blocks[SIM_BLOCKS];
	int32_t n_used;
	struct sim_seq seqs[SIM_SEQS];
	float logits[SIM_UBATCH][SIM_VOCAB], embeddings[SIM_UBATCH][SIM_EMBD];
	/* Whether a row cannot be computed: 0, or with `named` whether the machine says whose it is. */
	bool (*poisoned)(struct sim *m, const struct stream *s, cohort_pos pos, bool *named);
	/* Failures that are nobody's fault: no room; what was saved cannot be had again. */
	enum cohort_status (*no_room)(struct sim *m, const struct cohort_batch_raw *rows, struct cohort_err *err);
	bool (*lost)(struct sim *m);
	/* Called before rows are computed, and for each that was. */
	void (*on_call)(struct sim *m, const struct cohort_batch_raw *rows);
	void (*on_row)(struct sim *m, struct stream *s);
	uint64_t n_copies, n_gone; /* of sequences; those refused as a window had let go of cells */
	/* Of this tick. */
	int32_t n_rows, n_calls, n_failed, rows_of[SIM_SLOTS];
	uint64_t seed;
};

/* What the engine was like when a property failed. */
static inline void sim_dump(const struct core *c)
{
	static const char *const phases[] = {"queued", "waits", "prefills", "generates", "parked", "ended"};
	const struct core_limits *l = &c->lim;

	fprintf(stderr,
			"#   %d slots, ubatch %d, budget %d, chunk %d, %d blocks of %d, %d ids, window %d"
			"%s%s%s, swap %zu, %s\n",
			l->n_slots, l->n_ubatch, l->budget, l->chunk_size, l->n_blocks, l->block_size, l->n_ids,
			l->n_window, l->recurrent ? ", recurrent" : "", l->encoder ? ", encoder" : "",
			l->overcommit ? ", overcommit" : "", l->swap_bytes, c->planner.strategy->name);
	fprintf(stderr, "#   %zu wait; blocks: %d private, %d promised, %d cached, %d of them pinned\n",
			queue_depth(c->shared.queue), c->blocks.n_private, c->blocks.n_reserved,
			c->prefix ? prefix_n_held(c->prefix) : 0,
			c->prefix ? prefix_n_pinned(c->prefix) : 0);
	for (int32_t i = 0; i < l->n_slots; i++) {
		const struct stream *s = c->slots[i];
		if (s)
			fprintf(stderr,
					"#   slot %d: %s, request %llu output %d of %d, prompt %d + %d, known %d, "
					"cached %d, chain %d, "
					"private %d, promised %d%s, turn %llu\n",
					i, phases[s->phase], (unsigned long long)s->request->id, s->index,
					s->request->p.n_outputs, s->request->p.n_prompt, s->request->n_max, s->n_known,
					s->n_cached, s->n_chain, s->rest->n_private, s->rest->n_reserved,
					s->shares ? ", shares" : "", (unsigned long long)s->rest->turn);
	}
	for (const struct queue_item *i = queue_oldest(c->shared.queue); i; i = i->newer) {
		const struct cohort_request *r = (const struct cohort_request *)i;
		fprintf(stderr, "#   waits: request %llu, %d outputs, prompt %d + %d\n", (unsigned long long)r->id,
				r->p.n_outputs, r->p.n_prompt, r->n_max);
	}
}

/* Says which trace it was, so that it can be run again alone, and ends the test. */
__attribute__((format(printf, 2, 3))) static inline void sim_fail(const struct sim *m, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fprintf(stderr, "# trace %llu (COHORT_TRACE=%llu runs it alone), tick %llu, %.3f s: ",
			(unsigned long long)m->seed, (unsigned long long)m->seed,
			(unsigned long long)m->core->live.n_ticks, m->now);
	vfprintf(stderr, fmt, ap);
	fprintf(stderr, "\n");
	va_end(ap);
	sim_dump(m->core);
	fail();
}
#define sim_check(m, what, ...) ((what) ? (void)0 : sim_fail(m, __VA_ARGS__))

/* ---- The language model ---- */

static inline uint64_t sim_mix(uint64_t a, uint64_t b)
{
	uint64_t h = (a ^ b * 0x9e3779b97f4a7c15u) * 0xd1342543de82ef95u;
	h ^= h >> 29;
	h *= 0xbf58476d1ce4e5b9u;
	return h ^ h >> 32;
}

/* What lies before the first token. */
static inline uint64_t sim_root(uint64_t salt, const struct cohort_adapter *adapter, float scale)
{
	uint32_t bits = 0;
	if (adapter)
		memcpy(&bits, &scale, sizeof bits);
	return sim_mix(sim_mix(salt + 1, (uintptr_t)adapter), bits);
}

/* An encoder sees how long the text is. */
static inline uint64_t sim_root_encoder(uint64_t root, int32_t n)
{
	return sim_mix(root, (uint64_t)n + 77);
}

static inline uint64_t sim_next(uint64_t before, cohort_token token)
{
	return sim_mix(before, (uint64_t)(uint32_t)token + 1);
}

static inline void sim_logits(uint64_t value, float out[SIM_VOCAB])
{
	out[0] = (float)(value & 0xffffff) / 0x100000;
	for (int i = 1; i < SIM_VOCAB; i++)
		out[i] = (float)((value >> (4 * i)) & 0xff) / 16;
}

static inline void sim_embedding(uint64_t value, float out[SIM_EMBD])
{
	for (int i = 0; i < SIM_EMBD; i++)
		out[i] = (float)((value >> (9 * i)) & 0x3ff) - 500;
}

/* Each output has a token of its own, so that what one says is never right for another. */
static inline cohort_token sim_pick(void *self, const float *logits, int32_t output)
{
	(void)self;
	return (cohort_token)(sim_mix((uint64_t)(logits[0] * 0x100000), (uint64_t)output + 5) % SIM_VOCAB);
}

/* ---- Blocks ---- */

static inline void sim_drop_block(struct sim *m, int32_t b)
{
	sim_check(m, m->blocks[b].n_refs > 0, "block %d is dropped, but nobody holds it", b);
	m->n_used -= --m->blocks[b].n_refs == 0;
}

/* -1: there is none. */
static inline int32_t sim_take_block(struct sim *m)
{
	for (int32_t b = 0; b < m->n_blocks; b++)
		if (m->blocks[b].n_refs == 0) {
			m->blocks[b] = (struct sim_block){.n_refs = 1};
			m->n_used++;
			return b;
		}
	return -1;
}

static inline const struct sim_cell *sim_cell_at(const struct sim *m, const struct sim_seq *q, int32_t pos)
{
	const int32_t i = pos / m->block_size, k = pos % m->block_size;
	return pos >= 0 && q->held[i] >> k & 1 ? &m->blocks[q->table[i]].cells[k] : NULL;
}

static inline void sim_clear(struct sim_seq *q)
{
	q->n = q->gone = 0;
	memset(q->table, -1, sizeof q->table);
	memset(q->held, 0, sizeof q->held);
}

/* Drops cells [p0, p1), and blocks of which none is left. */
static inline void sim_forget(struct sim *m, struct sim_seq *q, int32_t p0, int32_t p1)
{
	for (int32_t p = p0; p < p1; p++) {
		const int32_t i = p / m->block_size;
		if (!sim_cell_at(m, q, p))
			continue;
		q->held[i] &= (uint8_t) ~(1u << p % m->block_size);
		if (!q->held[i]) {
			sim_drop_block(m, q->table[i]);
			q->table[i] = -1;
		}
	}
}

/* The next cell of a sequence, in a block that nobody else holds. */
static inline struct sim_cell *sim_new_cell(struct sim *m, struct sim_seq *q)
{
	const int32_t i = q->n / m->block_size, k = q->n % m->block_size;
	const int32_t old = q->table[i];

	if (old < 0 || m->blocks[old].n_refs > 1) {
		const int32_t b = sim_take_block(m);
		if (b < 0)
			return NULL;
		if (old >= 0) {
			memcpy(m->blocks[b].cells, m->blocks[old].cells, sizeof m->blocks[b].cells);
			sim_drop_block(m, old);
		}
		q->table[i] = (int8_t)b;
	}
	q->held[i] |= (uint8_t)(1u << k);
	q->n++;
	return &m->blocks[q->table[i]].cells[k];
}

/* Lets go of the blocks of which the next row sees nothing. */
static inline void sim_slide(struct sim *m, struct sim_seq *q)
{
	const int32_t sees = m->window ? q->n + 1 - m->window : 0;
	const int32_t end = sees > 0 ? sees / m->block_size * m->block_size : 0;

	if (end > q->gone) {
		sim_forget(m, q, q->gone, end);
		q->gone = end;
	}
}

/* ---- Decoding ---- */

static inline double sim_now(void *self)
{
	return ((struct sim *)self)->now;
}

/* Whether the sequence holds what the stream knows, and what follows from it. */
static inline void sim_look_at(const struct sim *m, const struct sim_seq *q, const struct stream *s)
{
	uint64_t value = sim_root(s->request->p.salt, q->adapter, q->scale);
	const int32_t first = q->gone;

	sim_check(m, q->n <= s->n_known, "slot %d holds %d cells, its stream knows %d tokens", s->slot, q->n,
			s->n_known);
	for (int32_t p = 0; p < q->n; p++) {
		value = sim_next(value, s->known[p]);
		const struct sim_cell *c = m->recurrent ? (p == q->n - 1 ? &q->last : NULL) : sim_cell_at(m, q, p);
		if (!c) {
			sim_check(m, m->recurrent || p < first, "slot %d has no cell at %d of %d", s->slot, p, q->n);
			continue;
		}
		sim_check(m, c->token == s->known[p], "slot %d holds token %d at %d, its stream has %d", s->slot,
				c->token, p, s->known[p]);
		sim_check(m, c->value == value, "slot %d holds somebody else's cell at %d of %d", s->slot, p, q->n);
	}
}

/* Whether rows can be computed; who cannot is named, or not. */
static inline enum cohort_status sim_find_poison(
		struct sim *m, const struct cohort_batch_raw *rows, struct cohort_err *err)
{
	bool named = false;

	for (int32_t i = 0; i < rows->n_tokens; i++)
		if (m->poisoned && m->poisoned(m, m->core->slots[rows->seq[i]], rows->pos[i], &named))
			return named ? err_rule(err, COHORT_E_BATCH, "poison", i, rows->seq[i], 0, 1, "poison")
				     : err_set(err, COHORT_E_BUG, "somebody's row is poison");
	return COHORT_OK;
}

static inline enum cohort_status sim_begin(struct sim *m, const struct cohort_batch_raw *rows, struct cohort_err *err)
{
	const struct core *c = m->core;

	sim_check(m, rows->n_tokens > 0 && rows->n_tokens <= c->lim.n_ubatch, "%d rows at once; there may be %d",
			rows->n_tokens, c->lim.n_ubatch);
	m->now += sim_call_s + sim_row_s * rows->n_tokens;
	m->n_calls++;
	for (int32_t i = 0; i < rows->n_tokens; i++) {
		sim_check(m, rows->seq[i] >= 0 && rows->seq[i] < c->lim.n_slots && c->slots[rows->seq[i]],
				"row %d is of sequence %d, which is no slot", i, rows->seq[i]);
		const struct stream *s = c->slots[rows->seq[i]];
		sim_check(m,
				rows->pos[i] >= 0 && rows->pos[i] < s->n_known &&
						rows->tokens[i] == s->known[rows->pos[i]],
				"row %d of slot %d at %d is not its token", i, rows->seq[i], rows->pos[i]);
	}
	if (m->on_call)
		m->on_call(m, rows);
	enum cohort_status st = sim_find_poison(m, rows, err);
	if (!st && m->no_room)
		st = m->no_room(m, rows, err);
	m->n_failed += st != COHORT_OK;
	return st;
}

static inline void sim_output(struct sim *m, int32_t i, uint64_t value)
{
	sim_logits(value, m->logits[i]);
	sim_embedding(value, m->embeddings[i]);
}

static inline void sim_count_row(struct sim *m, cohort_seq seq)
{
	m->n_rows++;
	m->rows_of[seq]++;
	if (m->on_row)
		m->on_row(m, m->core->slots[seq]);
}

static inline enum cohort_status sim_decode(void *self, const struct cohort_batch_raw *rows, struct cohort_err *err)
{
	struct sim *m = self;
	enum cohort_status st = sim_begin(m, rows, err);
	bool seen[SIM_SLOTS] = {false};

	if (st)
		return st;
	for (int32_t i = 0; i < rows->n_tokens; i++) {
		const cohort_seq id = rows->seq[i];
		struct sim_seq *q = &m->seqs[id];
		if (!seen[id])
			sim_look_at(m, q, m->core->slots[id]);
		seen[id] = true;
		sim_check(m, rows->pos[i] == q->n, "slot %d has a row at %d, but goes on at %d", id, rows->pos[i],
				q->n);
		const struct sim_cell *last = m->recurrent ? &q->last : sim_cell_at(m, q, q->n - 1);
		const uint64_t value =
				sim_next(q->n ? last->value
					      : sim_root(m->core->slots[id]->request->p.salt, q->adapter, q->scale),
						rows->tokens[i]);
		struct sim_cell *cell = m->recurrent ? &q->last : sim_new_cell(m, q);
		sim_check(m, cell, "no block is left for slot %d at %d: all %d are held", id, rows->pos[i],
				m->n_blocks);
		*cell = (struct sim_cell){rows->tokens[i], value};
		q->n += m->recurrent;
		sim_output(m, i, value);
		sim_count_row(m, id);
	}
	for (int32_t id = 0; id < SIM_SLOTS; id++)
		if (seen[id])
			sim_slide(m, &m->seqs[id]);
	return COHORT_OK;
}

static inline enum cohort_status sim_encode(void *self, const struct cohort_batch_raw *rows, struct cohort_err *err)
{
	struct sim *m = self;
	enum cohort_status st = sim_begin(m, rows, err);

	for (int32_t i = 0; !st && i < rows->n_tokens;) {
		const cohort_seq id = rows->seq[i];
		const struct stream *s = m->core->slots[id];
		uint64_t value = sim_root_encoder(
				sim_root(s->request->p.salt, m->seqs[id].adapter, m->seqs[id].scale), s->n_known);
		for (int32_t p = 0; p < s->n_known; p++, i++) {
			sim_check(m, i < rows->n_tokens && rows->seq[i] == id && rows->pos[i] == p,
					"slot %d is encoded, but not as a whole", id);
			value = sim_next(value, rows->tokens[i]);
			sim_output(m, i, value);
			sim_count_row(m, id);
		}
	}
	return st;
}

static inline const float *sim_logits_get(void *self, int32_t row)
{
	return ((struct sim *)self)->logits[row];
}

static inline const float *sim_embedding_get(void *self, int32_t row)
{
	return ((struct sim *)self)->embeddings[row];
}

/* ---- Sequences ---- */

static inline enum cohort_status sim_seq_rm(
		void *self, cohort_seq seq, cohort_pos p0, cohort_pos p1, struct cohort_err *err)
{
	struct sim *m = self;
	struct sim_seq *q = &m->seqs[seq];
	const int32_t end = p1 < 0 || p1 > q->n ? q->n : p1;

	sim_check(m, seq >= 0 && seq < SIM_SEQS && p0 >= 0, "positions %d to %d of sequence %d are to go", p0, p1, seq);
	if (p0 >= end)
		return COHORT_OK;
	if (p0 == 0 && end == q->n) {
		if (!m->recurrent)
			sim_forget(m, q, 0, q->n);
		sim_clear(q);
		return COHORT_OK;
	}
	sim_check(m, !m->recurrent, "positions %d to %d of state %d are to go, which has %d", p0, p1, seq, q->n);
	if (end == q->n) {
		const int32_t sees = m->window ? p0 + 1 - m->window : 0;
		if (q->gone > (sees > 0 ? sees : 0))
			return err_rule(err, COHORT_E_ARG, "window-gone", -1, seq, sees, q->gone, "out of the window");
	}
	sim_forget(m, q, p0, end);
	if (end == q->n)
		q->n = p0;
	return COHORT_OK;
}

static inline enum cohort_status sim_cp_state(
		struct sim *m, cohort_seq src, cohort_seq dst, cohort_pos p0, cohort_pos p1)
{
	const struct sim_seq *q = &m->seqs[src];
	struct sim_seq *to = &m->seqs[dst];

	sim_check(m, p0 == 0 && p1 == q->n && to->n == 0,
			"%d to %d of state %d with %d positions are to go to %d with %d", p0, p1, src, q->n, dst,
			to->n);
	*to = *q;
	return COHORT_OK;
}

static inline enum cohort_status sim_seq_cp(
		void *self, cohort_seq src, cohort_seq dst, cohort_pos p0, cohort_pos p1, struct cohort_err *err)
{
	struct sim *m = self;
	struct sim_seq *q = &m->seqs[src], *to = &m->seqs[dst];

	sim_check(m,
			src != dst && src >= 0 && src < SIM_SEQS && dst >= 0 && dst < SIM_SEQS && p0 >= 0 && p1 > p0 &&
					p1 <= q->n,
			"%d to %d of sequence %d with %d positions are to go to %d", p0, p1, src, q->n, dst);
	if (m->recurrent)
		return sim_cp_state(m, src, dst, p0, p1);
	sim_check(m, to->n == 0 || (to->adapter == q->adapter && (!q->adapter || to->scale == q->scale)),
			"cells of another adapter are to go from %d to %d", src, dst);
	m->n_copies++;
	/* What a window let go counts as held, if dst will not need it either. */
	const int32_t hole = q->gone < p1 ? q->gone : p1, n = p1 > to->n ? p1 : to->n;
	if (p0 < hole && hole > n + 1 - m->window) {
		m->n_gone++;
		return err_rule(err, COHORT_E_ARG, "window-gone", -1, src, n + 1 - m->window, hole,
				"out of the window");
	}
	if (p0 < hole && to->gone < hole) {
		sim_forget(m, to, 0, hole);
		to->gone = hole;
	}
	for (int32_t p = p0 < to->gone ? to->gone : p0; p < p1; p++) {
		const int32_t i = p / m->block_size, bit = 1 << p % m->block_size;
		sim_check(m, !sim_cell_at(m, to, p), "sequence %d holds %d already, which is to come from %d", dst, p,
				src);
		sim_check(m, sim_cell_at(m, q, p), "sequence %d has no cell at %d for %d", src, p, dst);
		if (!to->held[i]) {
			to->table[i] = q->table[i];
			m->blocks[to->table[i]].n_refs++;
		}
		sim_check(m, to->table[i] == q->table[i], "cells of %d and %d meet in a block", src, dst);
		to->held[i] |= (uint8_t)bit;
	}
	if (to->n == 0) {
		to->adapter = q->adapter;
		to->scale = q->scale;
	}
	to->n = n;
	return COHORT_OK;
}

static inline enum cohort_status sim_adapter_set(
		void *self, cohort_seq seq, const struct cohort_adapter *adapter, float scale, struct cohort_err *err)
{
	struct sim *m = self;
	struct sim_seq *q = &m->seqs[seq];

	(void)err;
	sim_check(m, q->n == 0, "sequence %d gets an adapter, but holds %d cells", seq, q->n);
	q->adapter = adapter;
	q->scale = scale;
	return COHORT_OK;
}

/* ---- States ---- */

struct sim_state {
	int32_t n, gone;
	struct sim_cell cells[SIM_POS];
};

static inline size_t sim_state_size(void *self, cohort_seq seq)
{
	const struct sim_seq *q = &((struct sim *)self)->seqs[seq];
	return q->adapter ? 0 : offsetof(struct sim_state, cells) + (size_t)q->n * sizeof(struct sim_cell);
}

static inline enum cohort_status sim_state_save(
		void *self, cohort_seq seq, void *out, size_t n_max, struct cohort_err *err)
{
	struct sim *m = self;
	const struct sim_seq *q = &m->seqs[seq];
	struct sim_state s = {.n = q->n, .gone = q->gone};
	const size_t n = sim_state_size(m, seq);

	(void)err;
	sim_check(m, n && n_max >= n, "%zu bytes for a state of %zu", n_max, n);
	if (m->lost && m->lost(m))
		return COHORT_E_MEMORY;
	for (int32_t p = 0; p < q->n; p++) {
		const struct sim_cell *c = m->recurrent ? &q->last : sim_cell_at(m, q, p);
		s.cells[p] = c ? *c : (struct sim_cell){-1, 0};
	}
	memcpy(out, &s, n);
	return COHORT_OK;
}

static inline enum cohort_status sim_state_restore(
		void *self, cohort_seq seq, const void *bytes, size_t n, struct cohort_err *err)
{
	struct sim *m = self;
	struct sim_seq *q = &m->seqs[seq];
	struct sim_state s;

	(void)err;
	memcpy(&s, bytes, n);
	sim_seq_rm(m, seq, 0, -1, NULL);
	if (m->lost && m->lost(m))
		return COHORT_E_FORMAT;
	if (m->recurrent) {
		q->n = s.n;
		q->last = s.cells[s.n - 1];
		return COHORT_OK;
	}
	q->n = q->gone = s.gone;
	while (q->n < s.n) {
		struct sim_cell *c = sim_new_cell(m, q);
		sim_check(m, c, "no block is left for what was saved of slot %d: all %d are held", seq, m->n_blocks);
		*c = s.cells[q->n - 1];
	}
	return COHORT_OK;
}

static inline void sim_init(struct sim *m, struct core *c, uint64_t seed)
{
	m->core = c;
	m->seed = seed;
	m->now = m->n_used = 0;
	m->n_copies = m->n_gone = 0;
	m->on_call = NULL;
	m->on_row = NULL;
	m->poisoned = NULL;
	m->no_room = NULL;
	m->lost = NULL;
	memset(m->blocks, 0, sizeof m->blocks);
	memset(m->seqs, 0, sizeof m->seqs);
	for (int i = 0; i < SIM_SEQS; i++)
		sim_clear(&m->seqs[i]);
}

static inline struct machine sim_machine(struct sim *m)
{
	return (struct machine){
			.self = m,
			.now = sim_now,
			.decode = sim_decode,
			.encode = sim_encode,
			.logits = sim_logits_get,
			.pick = sim_pick,
			.embedding = sim_embedding_get,
			.seq_cp = sim_seq_cp,
			.seq_rm = sim_seq_rm,
			.adapter_set = sim_adapter_set,
			.state_size = sim_state_size,
			.state_save = sim_state_save,
			.state_restore = sim_state_restore,
	};
}

#endif
