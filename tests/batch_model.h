/* Random batches, sound and damaged, a checker of them that is written from the rules alone, and the laws of their
 * splits. For the random test and the fuzz target. */
#ifndef TESTS_BATCH_MODEL_H
#define TESTS_BATCH_MODEL_H

#include "batch_case.h"
#include "dice.h"

#include <math.h>

enum { ROWS = 14, IDS_MAX = 4, EMBD = 3, N_VOCAB = 50, POS_MAX = 12 };

/* ---- A batch as plain rows ---- */

struct row {
	cohort_token token;
	float embd[EMBD];
	cohort_pos pos[3];
	int32_t n_ids;
	cohort_seq ids[IDS_MAX];
	uint8_t output;
};

struct world {
	struct row rows[ROWS];
	int32_t n_rows, n_embd, n_pos, n_ids_max;
	bool vectors, both, neither, has_pos, has_seq, has_n_seq, has_output, has_memory;
	struct memory memory;
	struct batch_limits lim;
};

struct verdict {
	const char *rule; /* NULL: sound */
	int32_t row;
};

/* ---- The rules, naively ---- */

static inline bool names(const struct row *r, cohort_seq id)
{
	for (int32_t j = 0; j < r->n_ids; j++)
		if (r->ids[j] == id)
			return true;
	return false;
}

/* The last row before i that names the id, or -1. */
static inline int32_t row_before(const struct world *w, int32_t i, cohort_seq id)
{
	while (--i >= 0)
		if (names(&w->rows[i], id))
			break;
	return i;
}

static inline cohort_pos next_pos(const struct world *w, int32_t i, cohort_seq id)
{
	int32_t r = row_before(w, i, id);

	if (r >= 0)
		return w->rows[r].pos[0] + 1;
	return w->has_memory ? w->memory.last[id] + 1 : 0;
}

static inline const char *judge_ids(const struct world *w, int32_t i)
{
	const struct row *r = &w->rows[i];

	if (r->n_ids < 1 || r->n_ids > w->n_ids_max)
		return "seq-count";
	for (int32_t j = 0; j < r->n_ids; j++)
		if (r->ids[j] < 0 || r->ids[j] >= N_SEQ)
			return "seq-id";
	for (int32_t j = 0; j < r->n_ids; j++)
		for (int32_t k = 0; k < j; k++)
			if (r->ids[j] == r->ids[k])
				return "seq-repeat";
	/* The latest row that shares an id has all of this row's ids; without one they hold the same cells. */
	for (int32_t e = i - 1; e >= 0; e--) {
		int32_t n_shared = 0;
		for (int32_t j = 0; j < r->n_ids; j++)
			n_shared += names(&w->rows[e], r->ids[j]);
		if (n_shared)
			return n_shared == r->n_ids ? NULL : "seq-sets";
	}
	for (int32_t j = 0; j < r->n_ids && w->has_memory; j++)
		for (int32_t k = 0; k < j; k++)
			if (w->memory.history[r->ids[j]] != w->memory.history[r->ids[k]])
				return "seq-history";
	return NULL;
}

static inline const char *judge_pos(const struct world *w, int32_t i)
{
	const struct row *r = &w->rows[i];
	int32_t n = w->has_pos ? w->n_pos : 1;

	for (int32_t k = 0; k < n; k++)
		if (r->pos[k] < 0)
			return "pos-negative";
	for (int32_t k = 0; k < n; k++)
		if (r->pos[k] >= POS_MAX)
			return "pos-limit";
	for (int32_t j = 0; j < r->n_ids; j++)
		if (r->pos[0] != next_pos(w, i, r->ids[j]))
			return row_before(w, i, r->ids[j]) < 0 ? "pos-start" : "pos-step";
	return NULL;
}

static inline const char *judge_value(const struct world *w, const struct row *r)
{
	if (!w->vectors)
		return r->token < 0 || r->token >= N_VOCAB ? "token" : NULL;
	for (int32_t k = 0; k < EMBD; k++)
		if (isnan(r->embd[k]) || isinf(r->embd[k]))
			return "embd-finite";
	return NULL;
}

/* Says what is wrong, and fills in what is left out on the way. */
static inline struct verdict judge(struct world *w)
{
	if (w->n_rows < 1)
		return (struct verdict){"n-tokens", -1};
	if (w->n_rows > w->lim.n_rows_max)
		return (struct verdict){"n-batch", -1};
	if (w->both || w->neither)
		return (struct verdict){"row-kind", -1};
	if (w->vectors && (w->n_embd != w->lim.n_embd || w->lim.n_embd == 0))
		return (struct verdict){"n-embd", -1};
	if (w->has_pos && w->n_pos != 1 && w->n_pos != w->lim.n_pos_row)
		return (struct verdict){"pos-per-embd", -1};
	for (int32_t i = 0; i < w->n_rows; i++) {
		struct row *r = &w->rows[i];
		const char *rule;
		if (!w->has_seq || !w->has_n_seq)
			r->n_ids = 1;
		if (!w->has_seq)
			r->ids[0] = 0;
		if (!w->has_output)
			r->output = i == w->n_rows - 1;
		if (w->lim.output_all)
			r->output = 1;
		rule = judge_value(w, r);
		if (!rule)
			rule = judge_ids(w, i);
		if (!rule && !w->has_pos)
			r->pos[0] = next_pos(w, i, r->ids[0]);
		if (!rule)
			rule = judge_pos(w, i);
		if (rule)
			return (struct verdict){rule, i};
		for (int32_t k = 1; k < 3 && (!w->has_pos || w->n_pos == 1); k++)
			r->pos[k] = r->pos[0];
	}
	return (struct verdict){NULL, -1};
}

/* ---- Random worlds ---- */

static inline void make_rows(struct world *w, struct dice *r)
{
	uint32_t n_lead = 1 + below(r, N_SEQ);

	for (int32_t i = 0; i < w->n_rows; i++) {
		struct row *row = &w->rows[i];
		cohort_seq lead = i && below(r, 2) ? w->rows[i - 1].ids[0] : (cohort_seq)below(r, n_lead);
		int32_t last = row_before(w, i, lead);
		uint32_t keep = below(r, 4); /* none, some or all of those that could join */
		*row = (struct row){.token = (cohort_token)below(r, N_VOCAB), .n_ids = 1, .ids = {lead},
			.output = below(r, 3) == 0};
		for (cohort_seq s = 0; s < N_SEQ && keep; s++)
			if (s != lead && row->n_ids < w->n_ids_max && row_before(w, i, s) == last &&
					(last >= 0 || !w->has_memory ||
							w->memory.history[s] == w->memory.history[lead]) &&
					(keep == 3 || below(r, 2)))
				row->ids[row->n_ids++] = s;
		/* Ids in any order. */
		uint32_t k = below(r, (uint32_t)row->n_ids);
		cohort_seq id = row->ids[k];
		row->ids[k] = row->ids[0];
		row->ids[0] = id;
		row->pos[0] = next_pos(w, i, id);
		for (int k2 = 1; k2 < 3; k2++)
			row->pos[k2] = (cohort_pos)below(r, POS_MAX);
		for (int k2 = 0; k2 < EMBD; k2++)
			row->embd[k2] = (float)below(r, 100) - 50;
	}
}

static inline void make_world(struct world *w, struct dice *r)
{
	*w = (struct world){.n_rows = 1 + (int32_t)below(r, ROWS), .n_embd = EMBD, .n_pos = 1};
	w->lim = (struct batch_limits){.n_vocab = N_VOCAB, .n_seq_max = N_SEQ, .n_rows_max = ROWS, .n_embd = EMBD,
		.n_pos_row = below(r, 4) ? 1 : 3, .n_pos_max = POS_MAX, .output_all = below(r, 8) == 0};
	w->vectors = below(r, 4) == 0;
	w->has_pos = below(r, 4) > 0;
	w->has_seq = below(r, 8) > 0;
	w->has_n_seq = below(r, 3) > 0;
	w->n_ids_max = w->has_n_seq ? 1 + (int32_t)below(r, IDS_MAX) : 1;
	w->has_output = below(r, 4) > 0;
	w->has_memory = below(r, 2);
	if (below(r, 2))
		w->n_pos = w->lim.n_pos_row;
	for (cohort_seq s = 0; s < N_SEQ; s++) {
		/* Histories 1 to 3 end where they end; 0 is empty. */
		w->memory.history[s] = (int)below(r, 4);
		w->memory.last[s] = 2 * w->memory.history[s] - 1;
	}
	if (!w->has_seq)
		w->n_ids_max = 1;
	make_rows(w, r);
}

static const int32_t odd[] = {-1, 0, 1, 2, 7, 8, 12, 49, 50, INT32_MAX, INT32_MIN};

static inline int32_t odd_number(struct dice *r)
{
	return odd[below(r, sizeof odd / sizeof *odd)];
}

static inline void damage(struct world *w, struct dice *r)
{
	struct row *row = &w->rows[below(r, (uint32_t)(w->n_rows > 0 ? w->n_rows : 1))], swap;
	uint32_t a = below(r, ROWS), k = below(r, 3);

	switch (below(r, 15)) {
	case 0: row->token = odd_number(r); break;
	case 1: row->embd[k] = below(r, 2) ? NAN : -INFINITY; break;
	case 2: row->n_ids = odd_number(r) % 10; break;
	case 3:
	case 4: row->ids[below(r, (uint32_t)w->n_ids_max)] = odd_number(r); break;
	case 5: row->ids[below(r, (uint32_t)w->n_ids_max)] = (cohort_seq)below(r, N_SEQ); break;
	case 6: row->ids[0] = row->ids[w->n_ids_max - 1]; break;
	case 7: row->pos[k] = odd_number(r); break;
	case 8: row->pos[0] = (cohort_pos)((uint32_t)row->pos[0] + below(r, 3) - 1); break;
	case 9:
		swap = *row;
		*row = w->rows[a];
		w->rows[a] = swap;
		break;
	case 10:
		*row = w->rows[a];
		break;
	case 11: w->memory.history[below(r, N_SEQ)] = 4 + (int)below(r, 3); break;
	case 12: w->memory.last[below(r, N_SEQ)] = (cohort_pos)below(r, POS_MAX) - 1; break;
	case 13: w->lim.n_pos_max = POS_MAX; w->rows[0].pos[0] = (cohort_pos)below(r, POS_MAX + 3); break;
	default:
		switch (below(r, 6)) {
		case 0: w->n_rows = 0; break;
		case 1: w->lim.n_rows_max = (int32_t)below(r, ROWS); break;
		case 2: w->n_embd = 1 + (int32_t)below(r, EMBD); break;
		case 3: w->lim.n_embd = 0; break;
		case 4: w->n_pos = 2; break;
		default: below(r, 2) ? (w->both = true) : (w->neither = true);
		}
	}
	/* The mock's own law, which same() rests on: the same history ends at the same place. */
	for (cohort_seq s = 0; s < N_SEQ; s++)
		for (cohort_seq t = 0; t < s; t++)
			if (w->memory.history[s] == w->memory.history[t] && w->memory.last[s] != w->memory.last[t])
				w->memory.history[s] = 100 + s;
}

/* ---- As a batch ---- */

struct arrays {
	cohort_token tokens[ROWS];
	float embd[ROWS * EMBD];
	cohort_pos pos[ROWS * 3];
	int32_t n_seq[ROWS];
	cohort_seq seq[ROWS * IDS_MAX];
	uint8_t output[ROWS];
};

static inline void make_batch(const struct world *w, struct arrays *a, struct cohort_batch *b)
{
	memset(a, 0x7f, sizeof *a);
	for (int32_t i = 0; i < w->n_rows; i++) {
		const struct row *r = &w->rows[i];
		a->tokens[i] = r->token;
		for (int32_t k = 0; k < w->n_embd; k++)
			a->embd[i * w->n_embd + k] = r->embd[k];
		for (int32_t k = 0; k < w->n_pos; k++)
			a->pos[i * w->n_pos + k] = r->pos[k];
		a->n_seq[i] = r->n_ids;
		for (int32_t k = 0; k < w->n_ids_max; k++)
			a->seq[i * w->n_ids_max + k] = r->ids[k];
		a->output[i] = r->output;
	}
	/* By hand, since the container refuses to be both or neither. */
	*b = (struct cohort_batch){.n_tokens = w->n_rows, .n_max = w->n_rows, .n_embd = w->vectors ? w->n_embd : 0,
		.n_seq_row_max = w->n_ids_max, .n_pos_row = w->n_pos};
	if (!w->neither && (w->both || !w->vectors))
		b->tokens = a->tokens;
	if (!w->neither && (w->both || w->vectors))
		b->embd = a->embd;
	if (w->has_pos)
		b->pos = a->pos;
	if (w->has_seq)
		b->seq = a->seq;
	if (w->has_seq && w->has_n_seq)
		b->n_seq = a->n_seq;
	if (w->has_output)
		b->output = a->output;
}

/* ---- Counting what occurred ---- */

static const char *const rules[] = {
	"n-tokens", "n-batch", "row-kind", "n-embd", "embd-finite", "pos-per-embd", "token", "seq-count",
	"seq-id", "seq-repeat", "seq-sets", "seq-history", "pos-negative", "pos-limit", "pos-start", "pos-step",
};

enum { N_RULES = sizeof rules / sizeof *rules };

struct seen {
	int rule[N_RULES], sound, coupled, shrunk, vectors, several_pos, no_pos, no_seq, no_output, output_all;
	int no_memory, several_sets, tail_mattered, many_ubatches;
};

/* ---- Checks ---- */

static inline void compare(const struct batch_checked *c, const struct world *w)
{
	int32_t n_outputs = 0, n_single = 0;

	assert_int_equal(c->n_tokens, w->n_rows);
	assert_int_equal(c->n_pos_row, w->lim.n_pos_row);
	for (int32_t i = 0; i < w->n_rows; i++) {
		const struct row *r = &w->rows[i];
		assert_int_equal(c->n_seq[i], r->n_ids);
		assert_memory_equal(c->seq[i], r->ids, (size_t)r->n_ids * sizeof *r->ids);
		assert_memory_equal(c->pos + i * c->n_pos_row, r->pos, (size_t)c->n_pos_row * sizeof *r->pos);
		assert_int_equal(c->output[i], r->output);
		n_outputs += r->output;
		int32_t n_same = 0;
		for (int32_t e = 0; e < w->n_rows; e++)
			n_same += names(&w->rows[e], r->ids[0]);
		n_single += n_same == 1;
	}
	assert_int_equal(c->n_outputs, n_outputs);
	assert_int_equal(batch_n_single(c), n_single);
	for (cohort_seq s = -1; s <= N_SEQ; s++) {
		cohort_pos min = -1, max = -1;
		for (int32_t i = 0; i < w->n_rows; i++)
			if (names(&w->rows[i], s)) {
				min = min < 0 ? w->rows[i].pos[0] : min;
				max = w->rows[i].pos[0];
			}
		assert_int_equal(batch_seq_pos_min(c, s), min);
		assert_int_equal(batch_seq_pos_max(c, s), max);
	}
}

/* ---- Splits ---- */

static inline bool equal_ids(const struct row *a, const struct row *b)
{
	int32_t n = 0;

	for (int32_t j = 0; j < a->n_ids; j++)
		n += names(b, a->ids[j]);
	return n == a->n_ids && n == b->n_ids;
}

static inline bool share_ids(const struct row *a, const struct row *b)
{
	for (int32_t j = 0; j < a->n_ids; j++)
		if (names(b, a->ids[j]))
			return true;
	return false;
}

/* Rows not yet used that have row i's ids. */
static inline int32_t rows_left(const struct world *w, const bool *used, int32_t i)
{
	int32_t n = 0;

	for (int32_t e = 0; e < w->n_rows; e++)
		n += !used[e] && equal_ids(&w->rows[e], &w->rows[i]);
	return n;
}

/* Sets that could be next: their first unused row has no unused row of another set before it on its sequences. */
static inline int32_t n_eligible(const struct world *w, const bool *used)
{
	int32_t n = 0;

	for (int32_t i = 0; i < w->n_rows; i++) {
		bool first = !used[i];
		for (int32_t e = 0; e < i && first; e++)
			first = used[e] || !share_ids(&w->rows[e], &w->rows[i]);
		n += first;
	}
	return n;
}

static inline void check_content(const struct world *w, const struct ubatch *u)
{
	cohort_seq unq[N_SEQ];
	int32_t n_unq = 0;

	for (int32_t i = 0; i < u->n_tokens; i++) {
		const struct row *r = &w->rows[u->rows[i]];
		if (w->vectors)
			assert_memory_equal(u->embd + i * EMBD, r->embd, sizeof r->embd);
		else
			assert_int_equal(u->tokens[i], r->token);
		assert_int_equal(!u->tokens, w->vectors);
		assert_int_equal(!u->embd, !w->vectors);
		assert_memory_equal(u->pos + i * u->n_pos_row, r->pos, (size_t)u->n_pos_row * sizeof *r->pos);
		assert_int_equal(u->n_seq[i], r->n_ids);
		assert_memory_equal(u->seq[i], r->ids, (size_t)r->n_ids * sizeof *r->ids);
		assert_int_equal(u->output[i], r->output);
	}
	for (cohort_seq s = 0; s < N_SEQ; s++) {
		bool there = false;
		for (int32_t i = 0; i < u->n_tokens; i++)
			there |= names(&w->rows[u->rows[i]], s);
		assert_int_equal(u->seq_idx[s], there ? n_unq : -1);
		if (there)
			unq[n_unq++] = s;
	}
	assert_int_equal(u->n_seqs_unq, n_unq);
	assert_memory_equal(u->seq_unq, unq, (size_t)n_unq * sizeof *unq);
}

/* The shape of an equal or seq ubatch, before its rows count as used. */
static inline void check_sets(const struct world *w, const struct ubatch *u, const bool *used, enum batch_split kind,
		int32_t n_ubatch, int32_t keep_tail)
{
	int32_t n = u->n_seq_tokens, m = u->n_seqs, m_most = n_eligible(w, used), least = INT32_MAX;

	m_most = kind == BATCH_SPLIT_SEQ ? 1 : m_most < n_ubatch ? m_most : n_ubatch;
	for (int32_t s = 0; s < m; s++) {
		const struct row *first = &w->rows[u->rows[s * n]];
		int32_t left = rows_left(w, used, u->rows[s * n]);
		least = left < least ? left : least;
		for (int32_t j = 1; j < n; j++) {
			assert_true(equal_ids(first, &w->rows[u->rows[s * n + j]]));
			assert_true(u->rows[s * n + j] > u->rows[s * n + j - 1]);
		}
		for (int32_t t = 0; t < s; t++)
			assert_false(share_ids(first, &w->rows[u->rows[t * n]]));
		if (kind == BATCH_SPLIT_EQUAL) /* the tail is whole, here or left */
			assert_true(left == n || left - n >= keep_tail);
	}
	assert_true(m <= m_most && m >= 1 && n >= 1);
	if (keep_tail <= 1 || kind == BATCH_SPLIT_SEQ) {
		assert_int_equal(m, m_most);
		assert_int_equal(n, least < n_ubatch / m ? least : n_ubatch / m);
	}
}

/* One whole split; the rows in the order they came go to `order`. */
static inline void split_once(struct batch_checked *c, const struct world *w, enum batch_split kind, int32_t n_ubatch,
		int32_t keep_tail, int32_t *order, struct seen *seen)
{
	bool used[ROWS] = {false};
	int32_t n = 0, n_ubatches = 0;
	struct ubatch u;

	for (;; n_ubatches++) {
		assert_int_equal(batch_split(c, kind, n_ubatch, keep_tail, &u, NULL), COHORT_OK);
		if (u.n_tokens == 0)
			break;
		assert_true(u.n_tokens <= n_ubatch);
		assert_int_equal(u.n_tokens, u.n_seqs * u.n_seq_tokens);
		assert_int_equal(u.equal_seqs, kind != BATCH_SPLIT_SIMPLE);
		check_content(w, &u);
		if (kind != BATCH_SPLIT_SIMPLE)
			check_sets(w, &u, used, kind, n_ubatch, keep_tail);
		else
			assert_int_equal(u.n_seq_tokens, 1);
		seen->several_sets += u.equal_seqs && u.n_seqs > 1 && u.n_seq_tokens > 1;
		for (int32_t i = 0; i < u.n_tokens; i++) {
			int32_t row = u.rows[i];
			assert_true(row >= 0 && row < w->n_rows);
			assert_false(used[row]);
			for (int32_t e = 0; e < row; e++) /* all rows before it on its sequences have come */
				assert_true(used[e] || !share_ids(&w->rows[e], &w->rows[row]));
			assert_true(kind != BATCH_SPLIT_SIMPLE || row == n);
			used[row] = true;
			order[n++] = row;
		}
		assert_int_equal(c->n_used, n);
	}
	assert_int_equal(n, w->n_rows);
	seen->many_ubatches += n_ubatches > 3;
}

static inline void split_all(struct batch_checked *c, const struct world *w, struct dice *r, struct seen *seen)
{
	for (int k = 0; k < 3; k++) {
		int32_t order[3][ROWS] = {{0}};
		int32_t n_ubatch = 1 + (int32_t)below(r, ROWS + 2);
		int32_t keep_tail = below(r, 2) ? 0 : (int32_t)below(r, (uint32_t)n_ubatch + 1);
		for (int round = 0; round < 2; round++) {
			split_once(c, w, (enum batch_split)k, n_ubatch, keep_tail, order[round], seen);
			batch_split_reset(c);
		}
		assert_memory_equal(order[0], order[1], sizeof order[0]);
		if (k == BATCH_SPLIT_EQUAL && keep_tail > 1) {
			split_once(c, w, BATCH_SPLIT_EQUAL, n_ubatch, 0, order[2], seen);
			batch_split_reset(c);
			seen->tail_mattered += memcmp(order[0], order[2], sizeof order[0]) != 0;
		}
	}
}

/* Everything is allocated once by a batch as large as any. */
static inline void warm_up(struct batch_checked *c)
{
	static struct world w;
	struct arrays a;
	struct cohort_batch b;
	struct dice r;
	struct ubatch u;

	dice_init(&r, 1, 1);
	make_world(&w, &r);
	w.n_rows = ROWS;
	w.vectors = true;
	w.has_pos = w.has_memory = false;
	w.lim.n_pos_row = 3;
	w.has_seq = false;
	w.n_ids_max = 1;
	w.lim.n_pos_max = ROWS;
	make_batch(&w, &a, &b);
	assert_true(batch_checked_init(c, ROWS, N_SEQ));
	assert_int_equal(batch_check(c, &b, &w.lim, NULL, NULL), COHORT_OK);
	assert_int_equal(batch_split(c, BATCH_SPLIT_EQUAL, ROWS, 0, &u, NULL), COHORT_OK);
}

/* One batch: what the check says of it is what the rules say, and the splits of a sound one keep their laws. Returns
 * the rule that it broke, or NULL. */
static inline const char *check_and_split(
		struct batch_checked *c, struct world *w, struct dice *r, struct seen *seen, int number)
{
	const struct batch_memory mem = {&w->memory, memory_pos_max, memory_same};
	struct cohort_err err = {0};
	struct cohort_batch b;
	struct arrays a;

	make_batch(w, &a, &b);
	enum cohort_status st = batch_check(c, &b, &w->lim, w->has_memory ? &mem : NULL, &err);
	struct verdict v = judge(w);
	if (!st != !v.rule || (v.rule && (strcmp(v.rule, err.rule) || v.row != err.row)))
		fail_msg("batch %d: told '%s' (%s, row %d), should be %s, row %d", number, err.text,
				err.rule ? err.rule : "none", (int)err.row, v.rule ? v.rule : "sound", v.row);
	if (v.rule) {
		assert_int_equal(st, strcmp(v.rule, "n-batch") ? COHORT_E_BATCH : COHORT_E_LIMIT);
		assert_int_equal(c->n_tokens, 0);
		return v.rule;
	}
	compare(c, w);
	split_all(c, w, r, seen);
	return NULL;
}

#endif
