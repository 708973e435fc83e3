/* Texts drawn side by side, the likeliest of them, and what most of them answer.
 *
 * Invariants
 *  1. A text depends on the branch, the seed and its own stream only: how many are drawn at a time changes nothing.
 *  2. A token's log-probability is taken before it is decoded, from the logits that it was drawn from. */
#include "search/search.h"

#include "base/bytes.h"
#include "base/err.h"
#include "base/fp.h"
#include "base/mem.h"
#include "base/params.h"

#include <stdlib.h>
#include <string.h>

struct text {
	cohort_token *tokens;
	size_t n, n_max;
	double sum;
	bool finished;
};

struct draw {
	struct cohort_draw_params p;
	struct search s;
	struct text *texts;        /* [n] */
	struct search_step *steps; /* [n] */
	int32_t *who, *then;       /* [n]: whose the live branches are, now and in the next generation */
};

void cohort_draw_params_init(struct cohort_draw_params *p)
{
	if (p)
		*p = (struct cohort_draw_params){.struct_size = sizeof *p, .n = 4, .max_tokens = 128};
}

static enum cohort_status no_memory(struct cohort_err *err)
{
	return err_set(err, COHORT_E_MEMORY, "out of memory for texts");
}

/* ---- Drawing ---- */

/* Whether the text ends because no token that the grammar permits is left. If the grammar permits all tokens, the
 * biases alone excluded them. */
static bool at_end(struct draw *d, struct cohort_branch branch, const struct cohort_err *why)
{
	int32_t n = d->s.n_vocab;
	return why->status == COHORT_E_NUMERIC && why->rule && strcmp(why->rule, "excluded") == 0 &&
			!cohort_branch_legal_get(d->s.forest, branch, NULL, 0, &n, NULL) && n < d->s.n_vocab;
}

/* Draws the text's next token. *goes_on: it is to be decoded. */
static enum cohort_status draw_one(struct draw *d, struct cohort_branch branch, struct text *t, bool *goes_on,
		struct cohort_err *err)
{
	struct cohort_err why;
	cohort_token token;
	float logprob;

	*goes_on = false;
	enum cohort_status st = cohort_branch_sample(d->s.forest, branch, &token, &why);
	if (st && at_end(d, branch, &why))
		return COHORT_OK;
	if (st && err)
		*err = why;
	if (!st)
		st = cohort_logprobs_get(cohort_branch_logits_get(d->s.forest, branch, NULL), d->s.n_vocab, token,
				&logprob, NULL, 0, NULL, err);
	if (!st && !mem_grow((void **)&t->tokens, &t->n_max, t->n + 1, sizeof *t->tokens))
		st = no_memory(err);
	if (st)
		return st;
	t->tokens[t->n++] = token;
	t->sum += (double)logprob;
	t->finished = d->s.is_end[token];
	*goes_on = !t->finished && t->n < (size_t)d->p.max_tokens;
	return COHORT_OK;
}

/* Texts first .. first + n - 1 from beginning to end. */
static enum cohort_status draw_wave(struct draw *d, struct cohort_branch branch, int32_t first, int32_t n,
		struct cohort_err *err)
{
	enum cohort_status st = search_reserve(&d->s, n, err);

	for (int32_t i = 0; i < n && !st; i++) {
		const struct cohort_reseed seed = {d->p.seed, d->p.first_stream + (uint64_t)(first + i)};
		st = search_fork(&d->s, branch, &seed, err);
		d->who[i] = first + i;
	}
	while (!st && d->s.n_live > 0) {
		int32_t n_on = 0;
		for (int32_t i = 0; i < d->s.n_live && !st; i++) {
			struct text *t = &d->texts[d->who[i]];
			bool on;
			st = draw_one(d, d->s.live[i], t, &on, err);
			if (st || !on)
				continue;
			d->then[n_on] = d->who[i];
			d->steps[n_on++] = (struct search_step){i, t->tokens[t->n - 1]};
		}
		if (!st)
			st = search_advance(&d->s, d->steps, n_on, err);
		int32_t *swap = d->who;
		d->who = d->then;
		d->then = swap;
	}
	return st;
}

static enum cohort_status draw_all(struct draw *d, struct cohort_branch branch, struct cohort_err *err)
{
	const size_t n = (size_t)d->p.n;
	enum cohort_status st = COHORT_OK;

	d->texts = mem_zalloc(n, sizeof *d->texts);
	d->steps = mem_alloc(n, sizeof *d->steps);
	d->who = mem_alloc(n, sizeof *d->who);
	d->then = mem_alloc(n, sizeof *d->then);
	if (!d->texts || !d->steps || !d->who || !d->then)
		return no_memory(err);
	for (int32_t done = 0; done < d->p.n && !st;) {
		struct cohort_pressure pressure;
		cohort_forest_pressure_get(d->s.forest, &pressure);
		const int32_t left = d->p.n - done, fit = pressure.n_vacant > 0 ? pressure.n_vacant : 1;
		const int32_t now = left < fit ? left : fit;
		st = draw_wave(d, branch, done, now, err);
		done += now;
	}
	return st;
}

static enum cohort_status report(const struct draw *d, struct cohort_texts *out, struct cohort_err *err)
{
	struct cohort_texts r = {.n_items = d->p.n};
	size_t n_tokens = 0, at = 0;

	for (int32_t i = 0; i < d->p.n; i++)
		n_tokens += d->texts[i].n;
	r.items = mem_alloc((size_t)d->p.n, sizeof *r.items);
	r.storage = mem_alloc(n_tokens + 1, sizeof *r.storage);
	if (!r.items || !r.storage) {
		cohort_texts_release(&r);
		return no_memory(err);
	}
	for (int32_t i = 0; i < d->p.n; i++) {
		const struct text *t = &d->texts[i];
		const double by = t->n == 0 ? 0 : d->p.by_sum ? t->sum : t->sum / (double)t->n;
		if (t->n > 0)
			memcpy(r.storage + at, t->tokens, t->n * sizeof *t->tokens);
		r.items[i] = (struct cohort_drawn){r.storage + at, (int32_t)t->n, t->finished, t->sum, by};
		at += t->n;
		if (by > r.items[r.best].likelihood)
			r.best = i;
	}
	*out = r;
	return COHORT_OK;
}

enum cohort_status cohort_texts_draw(struct cohort_forest *forest, struct cohort_branch branch,
		const struct cohort_draw_params *params, struct cohort_texts *out, struct cohort_err *err)
{
	struct draw d = {.texts = NULL};
	struct fp_mode fp;

	cohort_draw_params_init(&d.p);
	if (!out)
		return err_set(err, COHORT_E_ARG, "out is NULL");
	if (params && !params_take(&d.p, sizeof d.p, params))
		return err_rule(err, COHORT_E_ARG, "search-params", -1, -1, 0, 0,
				"parameters were not initialised by cohort_draw_params_init");
	if (search_at_least_1(err, "n", d.p.n) || search_at_least_1(err, "max_tokens", d.p.max_tokens))
		return COHORT_E_ARG;
	enum cohort_status st = search_open(&d.s, forest, branch, d.p.ends, d.p.n_ends, false, err);
	if (st)
		return st;
	fp_enter(&fp);
	st = draw_all(&d, branch, err);
	search_close(&d.s);
	if (!st)
		st = report(&d, out, err);
	fp_leave(&fp);
	for (int32_t i = 0; d.texts && i < d.p.n; i++)
		mem_free(d.texts[i].tokens);
	mem_free(d.texts);
	mem_free(d.steps);
	mem_free(d.who);
	mem_free(d.then);
	return st;
}

void cohort_texts_release(struct cohort_texts *texts)
{
	if (!texts)
		return;
	mem_free(texts->items);
	mem_free(texts->storage);
	*texts = (struct cohort_texts){0};
}

/* ---- Votes ---- */

static int by_votes(const void *a, const void *b)
{
	const struct cohort_vote *x = a, *y = b;

	if (x->n_texts != y->n_texts)
		return x->n_texts > y->n_texts ? -1 : 1;
	if (x->likelihood != y->likelihood)
		return x->likelihood > y->likelihood ? -1 : 1;
	return x->best < y->best ? -1 : 1;
}

struct answers {
	struct bytes all; /* one behind the other, each with a NUL */
	size_t *at, *len; /* [n_texts]; SIZE_MAX: none */
};

static enum cohort_status ask(const struct cohort_texts *texts, cohort_answer_fn answer, void *user, struct answers *a,
		struct cohort_err *err)
{
	a->at = mem_alloc((size_t)texts->n_items + 1, sizeof *a->at);
	a->len = mem_alloc((size_t)texts->n_items + 1, sizeof *a->len);
	if (!a->at || !a->len || !bytes_room(&a->all, 1))
		return no_memory(err);
	for (int32_t i = 0; i < texts->n_items; i++) {
		const char *bytes = NULL;
		size_t n = 0;
		a->at[i] = SIZE_MAX;
		if (!answer(user, i, &texts->items[i], &bytes, &n))
			continue;
		a->at[i] = a->all.n;
		a->len[i] = n;
		if (!bytes_add(&a->all, bytes, n) || !bytes_add(&a->all, "", 1))
			return no_memory(err);
	}
	return COHORT_OK;
}

/* Which vote has the same bytes, or a new one. */
static struct cohort_vote *vote_for(struct cohort_votes *r, const char *bytes, size_t n)
{
	for (int32_t i = 0; i < r->n_items; i++)
		if (r->items[i].n_bytes == n && memcmp(r->items[i].answer, bytes, n) == 0)
			return &r->items[i];
	r->items[r->n_items] = (struct cohort_vote){.answer = bytes, .n_bytes = n, .best = -1};
	return &r->items[r->n_items++];
}

enum cohort_status cohort_votes_count(const struct cohort_texts *texts, cohort_answer_fn answer, void *user,
		struct cohort_votes *out, struct cohort_err *err)
{
	struct cohort_votes r = {.n_items = 0};
	struct answers a = {.at = NULL};

	if (!texts || !answer || !out)
		return err_set(err, COHORT_E_ARG, "%s is NULL", !texts ? "texts" : !answer ? "answer" : "out");
	enum cohort_status st = ask(texts, answer, user, &a, err);
	r.storage = a.all.p;
	r.items = mem_alloc((size_t)texts->n_items + 1, sizeof *r.items);
	r.vote_of = mem_alloc((size_t)texts->n_items + 1, sizeof *r.vote_of);
	if (!st && (!r.items || !r.vote_of))
		st = no_memory(err);
	for (int32_t i = 0; i < texts->n_items && !st; i++) {
		if (a.at[i] == SIZE_MAX) {
			r.n_silent++;
			continue;
		}
		struct cohort_vote *v = vote_for(&r, a.all.p + a.at[i], a.len[i]);
		v->n_texts++;
		if (v->best < 0 || texts->items[i].likelihood > v->likelihood) {
			v->best = i;
			v->likelihood = texts->items[i].likelihood;
		}
	}
	if (!st) {
		qsort(r.items, (size_t)r.n_items, sizeof *r.items, by_votes);
		for (int32_t i = 0; i < texts->n_items; i++) {
			const bool silent = a.at[i] == SIZE_MAX;
			r.vote_of[i] = silent ? -1 : (int32_t)(vote_for(&r, a.all.p + a.at[i], a.len[i]) - r.items);
		}
		*out = r;
	} else {
		cohort_votes_release(&r);
	}
	mem_free(a.at);
	mem_free(a.len);
	return st;
}

void cohort_votes_release(struct cohort_votes *votes)
{
	if (!votes)
		return;
	mem_free(votes->items);
	mem_free(votes->vote_of);
	mem_free(votes->storage);
	*votes = (struct cohort_votes){0};
}
