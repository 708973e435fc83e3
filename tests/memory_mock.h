/* A mock model over a context's memory as a whole, as tests/unit/test_memory.c describes it: for that test and the fuzz
 * target. */
#ifndef TESTS_MEMORY_MOCK_H
#define TESTS_MEMORY_MOCK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "dice.h"

#include "base/mem.h"
#include "kv/kv_impl.h"
#include "kv/memory.h"
#include "kv/recur_impl.h"

enum { SEQS = 5, POS = 160, BLOCKS = 40, SIZE = 4, WINDOW = 7, STATES = 24, ROWS = 8, LAYERS = 3, CHECKS = 2 };

struct cell {
	uint64_t value;
	int64_t shift;
};

struct mock {
	struct memory m;
	struct cell data[2][BLOCKS * SIZE];
	uint64_t states[STATES];
	struct cell list[2][SEQS][POS]; /* value 0: none */
	uint64_t state[SEQS];
	uint64_t check[SEQS][POS];      /* the state after each position */
	cohort_pos max[SEQS];
	bool skip_extra;                /* a planted fault */
};

static inline uint64_t mix(uint64_t h, uint64_t v)
{
	h = (h ^ v) * 0x9e3779b97f4a7c15u;
	return h ^ h >> 29;
}

static inline uint64_t mix_cell(uint64_t h, const struct cell *c)
{
	return mix(mix(h, c->value), (uint64_t)c->shift) | 1; /* never 0, which is no cell */
}

static inline struct memory_limits limits(size_t n_states)
{
	return (struct memory_limits){
		.n_blocks = BLOCKS,
		.block_size = SIZE,
		.n_seq_max = SEQS,
		.n_pos_max = POS,
		.n_rows_max = ROWS,
		.n_kv = 2,
		.window = {0, WINDOW},
		.n_states = n_states,
		.n_checkpoints = CHECKS,
	};
}

static inline struct mock *mock_open(size_t n_states)
{
	const struct memory_limits lim = limits(n_states);
	struct mock *k = calloc(1, sizeof *k);

	assert_non_null(k);
	assert_true(memory_init(&k->m, &lim));
	for (size_t s = 0; s < SEQS; s++)
		k->max[s] = -1;
	return k;
}

static inline void mock_free(struct mock *k)
{
	memory_release(&k->m);
	free(k);
}

struct batch {
	struct kv_row rows[ROWS];
	cohort_seq seq[ROWS][SEQS];
	int before[ROWS], group[ROWS];
	uint64_t tokens[ROWS], out[ROWS];
	size_t n;
};

/* Sets may shrink along a batch, as the checks allow. */
static inline void random_batch(struct batch *b, const struct mock *k, struct dice *r)
{
	const size_t n_lead = 1 + below(r, SEQS);
	int last[SEQS];

	memset(last, -1, sizeof last);
	b->n = 1 + below(r, ROWS);
	for (size_t i = 0; i < b->n; i++) {
		const size_t lead = below(r, n_lead);
		const uint32_t keep = below(r, 4);
		const int p = last[lead];
		int32_t n = 0;
		b->seq[i][n++] = (cohort_seq)lead;
		for (size_t s = 0; s < SEQS; s++) {
			if (s == lead || last[s] != p || keep == 0 || (keep < 3 && below(r, 2)))
				continue;
			if (p < 0 && !memory_same(&k->m, (cohort_seq)lead, (cohort_seq)s))
				continue;
			b->seq[i][n++] = (cohort_seq)s;
		}
		b->rows[i] = (struct kv_row){p < 0 ? k->max[lead] + 1 : b->rows[p].pos + 1, n, b->seq[i]};
		b->before[i] = p;
		b->group[i] = p >= 0 && b->rows[p].n_seq == n ? b->group[p] : (int)i;
		b->tokens[i] = dice_u32(r, 2) | 1;
		for (int32_t q = 0; q < n; q++)
			last[b->seq[i][q]] = (int)i;
	}
}

static inline void store(struct mock *k, const struct memory_plan *plan, size_t part, size_t i, struct cell c)
{
	const struct kv_plan *p = &plan->kv[part];

	k->data[part][p->stores[i].block * SIZE + p->stores[i].slot] = c;
	for (size_t e = 0; e < p->n_extra && !k->skip_extra; e++)
		if (p->extra[e].row == (int32_t)i)
			k->data[part][p->extra[e].block * SIZE + p->extra[e].slot] = c;
}

/* What the row sees of a part, through the table of its first sequence. */
static inline uint64_t attend(const struct mock *k, size_t part, const struct kv_row *row)
{
	const cohort_seq seq = row->seq[0];
	const int32_t *table = kv_table(k->m.kv[part], seq);
	const uint32_t *held = kv_held(k->m.kv[part], seq);
	cohort_pos p = kv_pos_first(k->m.kv[part], seq);
	uint64_t h = 1;

	if (part == 1 && p < row->pos - WINDOW + 1)
		p = row->pos - WINDOW + 1;
	for (; p <= row->pos; p++)
		if (held[p / SIZE] >> p % SIZE & 1)
			h = mix_cell(h, &k->data[part][table[p / SIZE] * SIZE + p % SIZE]);
	return h;
}

/* Some rows of one set through one layer. */
static inline void layer(struct mock *k, const struct memory_plan *plan, struct batch *b, const size_t *rows, size_t n,
		int l)
{
	for (size_t j = 0; j < n && l < 2; j++)
		store(k, plan, (size_t)l, rows[j], (struct cell){b->out[rows[j]], 0});
	for (size_t j = 0; j < n; j++) {
		const size_t i = rows[j];
		if (l < 2) {
			b->out[i] = attend(k, (size_t)l, &b->rows[i]);
		} else if (plan->steps) {
			const struct recur_step s = plan->steps[i];
			b->out[i] = mix(s.from < 0 ? 0 : k->states[s.from], b->out[i]);
			k->states[s.to] = b->out[i];
		}
	}
}

/* Computes the reservation's rows up to the given ubatch and layer; false: it ended there. Ubatches are at most three
 * rows of one set, in the order in which the sets may be computed. */
static inline bool compute(struct mock *k, const struct memory_plan *plan, struct batch *b, size_t fail_at,
		size_t *n_steps)
{
	for (size_t part = 0; part < 2; part++)
		for (size_t i = 0; i < plan->kv[part].n_copies; i++) {
			const struct kv_move c = plan->kv[part].copies[i];
			memcpy(k->data[part] + c.to * SIZE, k->data[part] + c.from * SIZE, SIZE * sizeof(struct cell));
		}
	memcpy(b->out, b->tokens, sizeof b->out);
	/* A set's number is its first row, so those it parted from come before it. */
	for (size_t g = 0; g < b->n; g++) {
		size_t rows[ROWS], n = 0;
		for (size_t i = g; i < b->n; i++)
			if (b->group[i] == (int)g)
				rows[n++] = i;
		for (size_t from = 0; from < n; from += 3)
			for (int l = 0; l < LAYERS; l++) {
				if ((*n_steps)++ == fail_at)
					return false;
				layer(k, plan, b, rows + from, n - from < 3 ? n - from : 3, l);
			}
	}
	return true;
}

/* The same by the lists. */
static inline void expect(struct mock *k, const struct batch *b)
{
	for (size_t i = 0; i < b->n; i++) {
		const cohort_pos pos = b->rows[i].pos;
		uint64_t out[SEQS];
		for (int32_t q = 0; q < b->rows[i].n_seq; q++) {
			const size_t s = (size_t)b->rows[i].seq[q];
			uint64_t v = b->tokens[i];
			for (int l = 0; l < 2; l++) {
				cohort_pos p = l && pos >= WINDOW ? pos - WINDOW + 1 : 0;
				uint64_t h = 1;
				k->list[l][s][pos] = (struct cell){v, 0};
				for (; p <= pos; p++)
					if (k->list[l][s][p].value)
						h = mix_cell(h, &k->list[l][s][p]);
				v = h;
			}
			if (k->m.recur)
				v = k->state[s] = k->check[s][pos] = mix(k->state[s], v);
			k->max[s] = pos;
			out[q] = v;
			assert_true(out[q] == out[0]);
		}
		assert_true(b->out[i] == out[0]);
	}
}

/* One decode; if asked to, it fails at every place before it succeeds. */
static inline enum cohort_status decode(struct mock *k, struct batch *b, bool failing)
{
	const uint64_t before = memory_hash(&k->m);
	struct memory_plan plan;
	size_t n_steps = 0;

	for (size_t at = 0; failing; at++) {
		n_steps = 0;
		memory_begin(&k->m);
		const bool done = memory_reserve(&k->m, b->rows, b->n, &plan, NULL) ||
				compute(k, &plan, b, at, &n_steps);
		memory_rollback(&k->m);
		assert_true(memory_hash(&k->m) == before);
		assert_true(memory_consistent(&k->m));
		if (done)
			break;
	}
	memory_begin(&k->m);
	enum cohort_status st = memory_reserve(&k->m, b->rows, b->n, &plan, NULL);
	if (st) {
		assert_int_equal(st, COHORT_NO_ROOM);
		assert_true(memory_hash(&k->m) == before);
		memory_rollback(&k->m);
		return st;
	}
	compute(k, &plan, b, SIZE_MAX, &n_steps);
	memory_commit(&k->m);
	return COHORT_OK;
}

static inline void forget(struct mock *k, size_t s, cohort_pos p0, cohort_pos p1)
{
	for (cohort_pos p = p0; p < p1; p++)
		for (int l = 0; l < 2; l++)
			k->list[l][s][p] = (struct cell){0, 0};
	while (k->max[s] >= 0 && !k->list[0][s][k->max[s]].value)
		k->max[s]--;
	k->state[s] = k->max[s] < 0 ? 0 : k->check[s][k->max[s]];
}

static inline void move(struct mock *k, const struct kv_moves *moves)
{
	for (size_t part = 0; part < 2; part++)
		for (size_t i = 0; i < moves[part].n_moves; i++) {
			const struct kv_move *m = &moves[part].moves[i];
			for (int32_t c = 0; c < m->n; c++) {
				struct cell *to = &k->data[part][m->to * SIZE + m->to_slot + c];
				*to = k->data[part][m->from * SIZE + m->from_slot + c];
				to->shift += m->shift;
			}
		}
}

static inline enum cohort_status fork_seq(struct mock *k, size_t src, size_t dst, cohort_pos p1)
{
	struct kv_moves moves[MEMORY_KV_MAX];
	enum cohort_status st = memory_seq_cp(&k->m, (cohort_seq)src, (cohort_seq)dst, 0, p1, moves, NULL);

	if (st || src == dst)
		return st;
	move(k, moves);
	for (cohort_pos p = 0; p <= k->max[src] && (p1 < 0 || p < p1); p++)
		for (int l = 0; l < 2; l++) {
			if (k->list[l][src][p].value)
				k->list[l][dst][p] = k->list[l][src][p];
			k->check[dst][p] = k->check[src][p];
		}
	k->max[dst] = POS - 1;
	forget(k, dst, POS, POS);
	return COHORT_OK;
}

static inline enum cohort_status shift_seq(struct mock *k, size_t s, cohort_pos p0, cohort_pos delta)
{
	struct kv_moves moves[MEMORY_KV_MAX];
	enum cohort_status st = memory_seq_add(&k->m, (cohort_seq)s, p0, -1, delta, moves, NULL);

	if (st)
		return st;
	move(k, moves);
	for (int l = 0; l < 2; l++) {
		struct cell old[POS];
		memcpy(old, k->list[l][s], sizeof old);
		memset(k->list[l][s] + p0, 0, (size_t)(POS - p0) * sizeof old[0]);
		for (cohort_pos p = p0; p <= k->max[s]; p++)
			if (old[p].value)
				k->list[l][s][p + delta] = (struct cell){old[p].value, old[p].shift + delta};
	}
	if (k->m.recur) {
		uint64_t old[POS];
		memcpy(old, k->check[s], sizeof old);
		for (cohort_pos p = p0; p <= k->max[s]; p++)
			k->check[s][p + delta] = old[p];
	}
	k->max[s] = POS - 1;
	forget(k, s, POS, POS);
	return COHORT_OK;
}

/* What a random number says, done to one of the twins. */
static inline enum cohort_status change(struct mock *k, uint32_t op, size_t s, size_t d, cohort_pos p0, cohort_pos p1)
{
	const uint64_t before = memory_hash(&k->m);
	enum cohort_status st = COHORT_OK;

	if (op < 4) {
		st = memory_seq_rm(&k->m, (cohort_seq)s, p0, op < 2 ? -1 : p1, NULL);
		if (!st)
			forget(k, s, p0, op < 2 ? POS : p1);
	} else if (op < 9) {
		memory_seq_rm(&k->m, (cohort_seq)d, 0, s == d ? 0 : -1, NULL);
		if (s != d)
			forget(k, d, 0, POS);
		return fork_seq(k, s, d, op < 7 ? -1 : p1);
	} else if (op < 11) {
		st = memory_seq_rm(&k->m, (cohort_seq)s, p0 / 2, p0, NULL);
		if (!st) {
			forget(k, s, p0 / 2, p0);
			return shift_seq(k, s, p0, p0 / 2 - p0);
		}
	} else if (op < 13 && k->m.recur) {
		st = recur_checkpoint(k->m.recur, (cohort_seq)s, NULL);
		assert_int_equal(st, COHORT_OK);
	} else if (op == 13) {
		st = memory_seq_keep(&k->m, (cohort_seq)s, NULL);
		for (size_t i = 0; i < SEQS; i++)
			if (i != s)
				forget(k, i, 0, POS);
	}
	assert_true(!st || memory_hash(&k->m) == before);
	return st;
}

static inline bool same_lengths(const struct mock *k)
{
	for (cohort_seq s = 0; s < SEQS; s++) {
		cohort_pos min = 0;
		while (min <= k->max[s] && !k->list[0][s][min].value)
			min++;
		if (memory_pos_max(&k->m, s) != k->max[s] || memory_pos_min(&k->m, s) != (k->max[s] < 0 ? -1 : min))
			return false;
	}
	return true;
}

struct counts {
	size_t n_done, n_no_room;
};

/* One operation on both; of the first a decode fails at every place before it succeeds, if asked to. With a planted
 * fault, false: it shows. */
static inline bool play_one(
		struct mock *a, struct mock *twin, struct dice *r, bool failing, bool fault, struct counts *n)
{
	if (below(r, 3)) {
		struct batch b, c;
		random_batch(&b, a, r);
		for (size_t q = 0; q < b.n; q++) /* kept short of the limit */
			if (b.rows[q].pos >= POS - 1)
				b.n = q;
		c = b;
		for (size_t q = 0; q < b.n; q++)
			c.rows[q].seq = c.seq[q];
		enum cohort_status st = decode(a, &b, failing);
		assert_int_equal(decode(twin, &c, false), st);
		if (st) {
			const size_t s = below(r, SEQS);
			change(a, 0, s, s, 0, -1);
			change(twin, 0, s, s, 0, -1);
			n->n_no_room++;
		} else if (fault && memcmp(b.out, c.out, b.n * sizeof *b.out) != 0) {
			return false;
		} else if (!fault) {
			assert_memory_equal(b.out, c.out, b.n * sizeof *b.out);
			expect(a, &b);
			expect(twin, &c);
			n->n_done++;
		} else {
			expect(twin, &c);
			memcpy(a->max, twin->max, sizeof a->max);
			memcpy(a->list, twin->list, sizeof a->list);
		}
	} else {
		const uint32_t op = below(r, 14);
		const size_t s = below(r, SEQS), d = below(r, SEQS), len = (size_t)a->max[s] + 1;
		const cohort_pos p0 = (cohort_pos)below(r, len + 1), p1 = (cohort_pos)below(r, len + 1);
		enum cohort_status st = change(a, op, s, d, p0, p1);
		assert_int_equal(change(twin, op, s, d, p0, p1), st);
	}
	assert_true(fault || same_lengths(a));
	assert_true(memory_hash(&a->m) == memory_hash(&twin->m));
	return true;
}

#endif
