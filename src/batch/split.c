/* Splitting a checked batch into ubatches.
 *
 * Invariants
 *  1. Every row comes exactly once, rows of a sequence in order, never more than n_ubatch together.
 *  2. A set is eligible when it has rows left and its parent has none. Eligible sets share no sequence. They form a
 *     list; an exhausted set leaves it and its children take its place.
 *  3. A ubatch costs what its rows cost, however many sets there are: feasibility of a number of sets only falls with
 *     the number, so the walk that chooses stops at the first set too many.
 *  4. seq_idx is -1 except for the ids of the last ubatch, which are walked to clear it. */
#include "batch/work.h"

#include "base/mem.h"

#include <string.h>

static enum cohort_status out_of_memory(struct cohort_err *err)
{
	return err_set(err, COHORT_E_MEMORY, "out of memory for a ubatch");
}

/* ---- Unique ids ---- */

static void clear_ids(struct batch_work *w)
{
	for (int32_t i = 0; i < w->n_unq; i++)
		w->seq_idx[w->seq_unq[i]] = -1;
	w->n_unq = 0;
}

static void note_ids(struct batch_work *w, const cohort_seq *ids, int32_t n_ids)
{
	for (int32_t j = 0; j < n_ids; j++)
		if (w->seq_idx[ids[j]] < 0) {
			w->seq_idx[ids[j]] = w->n_unq;
			w->seq_unq[w->n_unq++] = ids[j];
		}
}

static void sift_down(cohort_seq *v, int32_t i, int32_t n)
{
	cohort_seq x = v[i];

	for (int32_t child = 2 * i + 1; child < n; child = 2 * i + 1) {
		if (child + 1 < n && v[child + 1] > v[child])
			child++;
		if (v[child] <= x)
			break;
		v[i] = v[child];
		i = child;
	}
	v[i] = x;
}

/* Heap sort: in place, and no worse for ids that fall. */
static void sort_ids(cohort_seq *v, int32_t n)
{
	for (int32_t i = n / 2 - 1; i >= 0; i--)
		sift_down(v, i, n);
	for (int32_t i = n - 1; i > 0; i--) {
		cohort_seq x = v[0];
		v[0] = v[i];
		v[i] = x;
		sift_down(v, 0, i);
	}
}

/* Puts the noted ids in rising order, as mostly they are already. */
static void finish_ids(struct batch_work *w, struct ubatch *u)
{
	bool rising = true;

	for (int32_t i = 1; i < w->n_unq; i++)
		rising &= w->seq_unq[i - 1] < w->seq_unq[i];
	if (!rising) {
		sort_ids(w->seq_unq, w->n_unq);
		for (int32_t i = 0; i < w->n_unq; i++)
			w->seq_idx[w->seq_unq[i]] = i;
	}
	u->n_seqs_unq = w->n_unq;
	u->seq_unq = w->seq_unq;
	u->seq_idx = w->seq_idx;
}

/* ---- Simple ---- */

static void split_simple(const struct batch_checked *c, int32_t n_ubatch, struct ubatch *u)
{
	struct batch_work *w = c->work;
	size_t at = (size_t)c->n_used;
	int32_t n_left = c->n_tokens - c->n_used;

	u->n_tokens = u->n_seqs = n_left < n_ubatch ? n_left : n_ubatch;
	u->n_seq_tokens = 1;
	u->tokens = c->tokens ? c->tokens + at : NULL;
	u->embd = c->embd ? c->embd + at * (size_t)c->n_embd : NULL;
	u->pos = c->pos + at * (size_t)c->n_pos_row;
	u->n_seq = c->n_seq + at;
	u->seq = c->seq + at;
	u->output = c->output + at;
	u->rows = w->numbers + at;
	for (int32_t i = 0; i < u->n_tokens; i++)
		note_ids(w, u->seq[i], u->n_seq[i]);
}

/* ---- Equal and seq ---- */

static void start_sets(struct batch_work *w)
{
	for (int32_t k = 0; k < w->n_sets; k++) {
		struct batch_set *s = &w->sets[k];
		s->link = s->sibling;
		s->at = s->first_row;
		s->n_left = s->n_rows;
	}
	w->sets[0].link = w->sets[0].first_child;
	w->n_eligible = w->sets[0].n_children;
}

/* Rows that each of m sets can give when the shortest has `least` left and the next longer one `more` (-1: none), or 0.
 * A set that is not taken whole keeps at least keep_tail rows; only the shortest can be taken whole. */
static int32_t rows_of_each(int32_t n_ubatch, int32_t m, int32_t keep_tail, int32_t least, int32_t more)
{
	int32_t cap = n_ubatch / m;

	if (least <= cap && (more < 0 || more - least >= keep_tail))
		return least;
	int32_t n = least - keep_tail;
	n = n < cap ? n : cap;
	return n > 0 ? n : 0;
}

/* How many of the first eligible sets, and how many rows of each. */
static int32_t choose(const struct batch_work *w, int32_t m_max, int32_t n_ubatch, int32_t keep_tail, int32_t *n)
{
	int32_t m = 0, least = INT32_MAX, more = -1;

	m_max = m_max < w->n_eligible ? m_max : w->n_eligible;
	keep_tail = keep_tail < n_ubatch ? keep_tail : n_ubatch; /* a longer tail could not be kept */
	for (int32_t k = w->sets[0].link; m < m_max; k = w->sets[k].link) {
		int32_t left = w->sets[k].n_left;
		if (left < least) {
			more = m ? least : -1;
			least = left;
		} else if (left > least && (more < 0 || left < more)) {
			more = left;
		}
		int32_t each = rows_of_each(n_ubatch, m + 1, keep_tail, least, more);
		if (each == 0)
			break;
		*n = each;
		m++;
	}
	return m;
}

/* Copies row `from` of the batch to row `to` of the ubatch. */
static void gather(const struct batch_checked *c, int32_t from, int32_t to)
{
	struct batch_work *w = c->work;
	size_t n_pos = (size_t)c->n_pos_row, n_embd = (size_t)c->n_embd;

	w->g_rows[to] = from;
	w->g_n_seq[to] = c->n_seq[from];
	w->g_seq[to] = c->seq[from];
	w->g_output[to] = c->output[from];
	for (size_t k = 0; k < n_pos; k++)
		w->g_pos[(size_t)to * n_pos + k] = c->pos[(size_t)from * n_pos + k];
	if (c->tokens)
		w->g_tokens[to] = c->tokens[from];
	else
		memcpy(w->g_embd + (size_t)to * n_embd, c->embd + (size_t)from * n_embd, n_embd * sizeof *c->embd);
}

/* Takes the set behind `prev` out of the list, and lets its children in. Returns who comes before the next. */
static int32_t retire(struct batch_work *w, int32_t prev, int32_t k)
{
	struct batch_set *s = &w->sets[k];

	w->n_eligible += s->n_children - 1;
	if (!s->n_children) {
		w->sets[prev].link = s->link;
		return prev;
	}
	w->sets[prev].link = s->first_child;
	w->sets[s->last_child].link = s->link;
	return s->last_child;
}

static void split_sets(const struct batch_checked *c, int32_t m_max, int32_t n_ubatch, int32_t keep_tail,
		struct ubatch *u)
{
	struct batch_work *w = c->work;
	int32_t n = 0, prev = 0, m = choose(w, m_max, n_ubatch, keep_tail, &n);

	for (int32_t i = 0; i < m; i++) {
		int32_t k = w->sets[prev].link;
		struct batch_set *s = &w->sets[k];
		note_ids(w, c->seq[s->at], s->n_ids);
		for (int32_t j = 0; j < n; j++) {
			int32_t row = s->at;
			gather(c, row, i * n + j);
			s->at = w->next_row[row];
		}
		s->n_left -= n;
		prev = s->n_left ? k : retire(w, prev, k);
	}
	u->n_seqs = m;
	u->n_seq_tokens = n;
	u->n_tokens = m * n;
	u->equal_seqs = true;
	u->tokens = c->tokens ? w->g_tokens : NULL;
	u->embd = c->embd ? w->g_embd : NULL;
	u->pos = w->g_pos;
	u->n_seq = w->g_n_seq;
	u->seq = w->g_seq;
	u->output = w->g_output;
	u->rows = w->g_rows;
}

/* Room to gather n rows. */
static bool gather_room(const struct batch_checked *c, int32_t n)
{
	struct batch_work *w = c->work;
	size_t n_pos = SIZE_MAX, n_floats = SIZE_MAX; /* stay so when a product does not fit */

	(void)size_mul((size_t)n, (size_t)c->n_pos_row, &n_pos);
	(void)size_mul((size_t)n, (size_t)c->n_embd, &n_floats);
	return mem_grow((void **)&w->g_pos, &w->g_pos_max, n_pos, sizeof *w->g_pos) &&
			mem_grow((void **)&w->g_embd, &w->g_embd_max, n_floats, sizeof *w->g_embd);
}

/* ---- The room's functions ---- */

enum cohort_status batch_split(struct batch_checked *c, enum batch_split kind, int32_t n_ubatch, int32_t keep_tail,
		struct ubatch *u, struct cohort_err *err)
{
	struct ubatch n = {.n_embd = c->n_embd, .n_pos_row = c->n_pos_row};
	struct batch_work *w = c->work;

	if (c->n_used == c->n_tokens) { /* also when nothing was ever checked */
		*u = c->ubatch = (struct ubatch){0};
		return COHORT_OK;
	}
	if (w->started && w->kind != kind)
		return err_set(err, COHORT_E_BUG, "a split of another kind is under way");
	if (kind != BATCH_SPLIT_SIMPLE && !gather_room(c, n_ubatch < c->n_tokens ? n_ubatch : c->n_tokens))
		return out_of_memory(err);
	if (!w->started && kind != BATCH_SPLIT_SIMPLE)
		start_sets(w);
	w->started = true;
	w->kind = kind;
	clear_ids(w);
	if (kind == BATCH_SPLIT_SIMPLE)
		split_simple(c, n_ubatch, &n);
	else if (kind == BATCH_SPLIT_EQUAL)
		split_sets(c, n_ubatch, n_ubatch, keep_tail, &n);
	else
		split_sets(c, 1, n_ubatch, 0, &n);
	finish_ids(w, &n);
	c->n_used += n.n_tokens;
	*u = c->ubatch = n;
	return COHORT_OK;
}

void batch_split_reset(struct batch_checked *c)
{
	c->n_used = 0;
	c->ubatch = (struct ubatch){0};
	if (c->work)
		c->work->started = false;
}

enum cohort_status batch_reserve(struct batch_checked *c, int32_t n_seq_tokens, int32_t n_seqs, struct ubatch *u,
		struct cohort_err *err)
{
	int64_t n_rows = (int64_t)n_seq_tokens * n_seqs;

	batch_clear(c);
	if (n_seq_tokens < 1)
		return err_set(err, COHORT_E_ARG, "n_seq_tokens is %d", n_seq_tokens);
	if (n_seqs < 1)
		return err_set(err, COHORT_E_ARG, "n_seqs is %d", n_seqs);
	if (n_rows > INT32_MAX)
		return err_set(err, COHORT_E_LIMIT, "%d sequences of %d rows are too many", n_seqs, n_seq_tokens);
	if (!work_room(c, (size_t)n_rows, (size_t)n_seqs, (size_t)n_rows))
		return out_of_memory(err);
	struct batch_work *w = c->work;
	clear_ids(w);
	for (int32_t i = 0; i < (int32_t)n_rows; i++) {
		int32_t set = i / n_seq_tokens, at = i % n_seq_tokens;
		w->g_tokens[i] = 0;
		w->pos[i] = at;
		w->g_seq[i] = &w->numbers[set];
		w->g_output[i] = at == n_seq_tokens - 1;
	}
	note_ids(w, w->numbers, n_seqs);
	struct ubatch n = {.n_tokens = (int32_t)n_rows, .n_seq_tokens = n_seq_tokens, .n_seqs = n_seqs, .n_pos_row = 1,
		.equal_seqs = true, .tokens = w->g_tokens, .pos = w->pos, .n_seq = w->ones, .seq = w->g_seq,
		.output = w->g_output, .rows = w->numbers};
	finish_ids(w, &n);
	*u = c->ubatch = n;
	return COHORT_OK;
}
