/* Beam search, in groups.
 *
 * Invariants
 *  1. All beams are as long as the search has made steps, so that their order by sum is their order by score.
 *  2. Of what may follow a beam only as many are looked at as could be taken: the beams that a group has, the end
 *     tokens, and those that have a penalty. All others come behind them.
 *  3. The search stops early only when nothing that could still be found would be kept: log-probabilities are at most
 *     0, so a sum never rises, and a score is at most the sum over the largest divisor to come.
 *  4. The texts are chains of trail entries; nothing of a text is in a branch. */
#include "search/search.h"

#include "base/err.h"
#include "base/fmath.h"
#include "base/fp.h"
#include "base/mem.h"
#include "base/params.h"

#include <math.h>
#include <stdlib.h>

struct trail {
	int32_t before; /* -1: the beginning */
	cohort_token token;
};

struct beam {
	int32_t trail, live; /* live: which branch of the search */
	double sum;
};

struct kept {
	int32_t trail, length, group, place;
	double sum, score;
	bool finished;
};

struct candidate {
	double key, sum;
	int32_t beam, place; /* place: among those that may follow the beam */
	cohort_token token;
};

struct group {
	struct beam *beams;
	struct kept *kept; /* in order */
	int32_t n_beams, n_kept;
	size_t beams_max, kept_max;
	bool done;
};

struct beam_search {
	struct cohort_beam_params p;
	struct search s;
	int32_t group_width, length; /* length: of all beams */
	struct group *groups;        /* [n_groups] */
	struct trail *trail;
	int32_t n_trail;
	struct candidate *candidates;
	struct cohort_logprob *top;
	struct search_step *steps;
	int32_t n_steps;
	uint32_t *chosen;            /* [n_vocab]: by how many beams of this step; NULL when nobody asks */
	cohort_token *which;         /* [n_which]: those that were chosen */
	int32_t n_which;
	size_t trail_max, candidates_max, top_max, steps_max, which_max;
};

void cohort_beam_params_init(struct cohort_beam_params *p)
{
	if (p)
		*p = (struct cohort_beam_params){
				.struct_size = sizeof *p,
				.width = 4,
				.n_best = 1,
				.max_tokens = 128,
				.length_penalty = 1,
				.n_groups = 1,
				.diversity = 0.5,
		};
}

static enum cohort_status bad(struct cohort_err *err, const char *what)
{
	return err_rule(err, COHORT_E_ARG, "search-params", -1, -1, 0, 0, "%s", what);
}

static enum cohort_status check(const struct cohort_beam_params *p, struct cohort_err *err)
{
	if (search_at_least_1(err, "width", p->width) || search_at_least_1(err, "n_best", p->n_best) ||
			search_at_least_1(err, "max_tokens", p->max_tokens) ||
			search_at_least_1(err, "n_groups", p->n_groups))
		return COHORT_E_ARG;
	if (p->width % p->n_groups != 0)
		return err_rule(err, COHORT_E_ARG, "search-params", -1, -1, p->width, p->n_groups,
				"%d beams cannot be shared out to %d groups", p->width, p->n_groups);
	if (!(fabs(p->length_penalty) <= 16))
		return bad(err, "length_penalty is in -16 to 16");
	if (!(p->diversity >= 0 && p->diversity < INFINITY))
		return bad(err, "diversity is finite and not negative");
	if (p->stop != COHORT_BEAM_STOP_SURE && p->stop != COHORT_BEAM_STOP_FIRST)
		return bad(err, "stop is not one of enum cohort_beam_stop");
	return COHORT_OK;
}

static enum cohort_status no_memory(struct cohort_err *err)
{
	return err_set(err, COHORT_E_MEMORY, "out of memory for a beam search");
}

/* ---- Texts ---- */

static enum cohort_status add_trail(struct beam_search *b, int32_t before, cohort_token token, int32_t *out,
		struct cohort_err *err)
{
	if (b->n_trail == INT32_MAX ||
			!mem_grow((void **)&b->trail, &b->trail_max, (size_t)b->n_trail + 1, sizeof *b->trail))
		return no_memory(err);
	b->trail[b->n_trail] = (struct trail){before, token};
	*out = b->n_trail++;
	return COHORT_OK;
}

static double divisor(const struct beam_search *b, int32_t length)
{
	return length > 1 ? fm_pow((double)length, b->p.length_penalty) : 1.0;
}

/* Puts a text among those that are kept, if it is good enough. */
static enum cohort_status keep(struct beam_search *b, int32_t group, int32_t trail, int32_t length, double sum,
		bool finished, struct cohort_err *err)
{
	struct group *g = &b->groups[group];
	const double score = sum / divisor(b, length);

	if (g->n_kept == b->group_width && !(score > g->kept[g->n_kept - 1].score))
		return COHORT_OK;
	if (!mem_grow((void **)&g->kept, &g->kept_max, (size_t)g->n_kept + 1, sizeof *g->kept))
		return no_memory(err);
	int32_t i = g->n_kept < b->group_width ? g->n_kept++ : g->n_kept - 1;
	for (; i > 0 && score > g->kept[i - 1].score; i--)
		g->kept[i] = g->kept[i - 1];
	g->kept[i] = (struct kept){trail, length, group, 0, sum, score, finished};
	return COHORT_OK;
}

/* ---- A step of a group ---- */

static int by_key(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	if (x->key != y->key)
		return x->key > y->key ? -1 : 1;
	if (x->beam != y->beam)
		return x->beam < y->beam ? -1 : 1;
	return x->place < y->place ? -1 : 1;
}

/* What may follow the group's beams; a beam that nothing can follow ends. */
static enum cohort_status gather(struct beam_search *b, int32_t group, size_t *n_out, struct cohort_err *err)
{
	const struct group *g = &b->groups[group];
	const int64_t most = (int64_t)b->group_width + b->s.n_ends + b->n_which;
	const int32_t n_max = most < b->s.n_vocab ? (int32_t)most : b->s.n_vocab;
	size_t n = 0;

	if (!mem_grow((void **)&b->top, &b->top_max, (size_t)n_max, sizeof *b->top))
		return no_memory(err);
	for (int32_t i = 0; i < g->n_beams; i++) {
		const struct beam *from = &g->beams[i];
		int32_t n_top;
		enum cohort_status st = search_follow(&b->s, b->s.live[from->live], b->top, n_max, &n_top, err);
		if (!st && n_top == 0)
			st = keep(b, group, from->trail, b->length, from->sum, false, err);
		if (!st && !mem_grow((void **)&b->candidates, &b->candidates_max, n + (size_t)n_top,
					   sizeof *b->candidates))
			st = no_memory(err);
		if (st)
			return st;
		for (int32_t k = 0; k < n_top; k++) {
			const double sum = from->sum + (double)b->top[k].logprob;
			const uint32_t times = b->chosen ? b->chosen[b->top[k].token] : 0;
			b->candidates[n++] = (struct candidate){
					sum - b->p.diversity * (double)times, sum, i, k, b->top[k].token};
		}
	}
	*n_out = n;
	return COHORT_OK;
}

/* The next generation of a group, as far as it goes on: candidates from the best on. Its beams are still the old
 * ones. */
static enum cohort_status choose(struct beam_search *b, int32_t group, size_t n, struct cohort_err *err)
{
	const struct group *g = &b->groups[group];
	const bool last = b->length + 1 == b->p.max_tokens;
	const int32_t first = b->n_steps, n_before = b->n_which;
	int32_t found = 0;
	size_t i = 0;

	if (n > 0)
		qsort(b->candidates, n, sizeof *b->candidates, by_key);
	for (; i < n && found < b->group_width; i++) {
		const struct candidate *c = &b->candidates[i];
		const struct beam *from = &g->beams[c->beam];
		const bool end = b->s.is_end[c->token];
		int32_t trail;
		enum cohort_status st = add_trail(b, from->trail, c->token, &trail, err);
		if (!st && (end || last))
			st = keep(b, group, trail, b->length + 1, c->sum, end, err);
		if (st)
			return st;
		found += !end;
		b->candidates[i].place = trail;
		if (end || last)
			continue;
		if (!mem_grow((void **)&b->steps, &b->steps_max, (size_t)b->n_steps + 1, sizeof *b->steps))
			return no_memory(err);
		b->steps[b->n_steps++] = (struct search_step){from->live, c->token};
	}
	/* What it chose, for the groups behind it. */
	const size_t n_taken = b->chosen ? i : 0;
	if (!mem_grow((void **)&b->which, &b->which_max, (size_t)n_before + n_taken, sizeof *b->which))
		return no_memory(err);
	for (size_t k = 0; k < n_taken; k++)
		if (b->chosen[b->candidates[k].token]++ == 0)
			b->which[b->n_which++] = b->candidates[k].token;
	/* The new beams in the place of the old ones. */
	struct group *to = &b->groups[group];
	const int32_t n_new = b->n_steps - first;
	if (!mem_grow((void **)&to->beams, &to->beams_max, (size_t)n_new, sizeof *to->beams))
		return no_memory(err);
	to->n_beams = 0;
	for (size_t k = 0; k < i && !last; k++) {
		const struct candidate *c = &b->candidates[k];
		if (b->s.is_end[c->token])
			continue;
		to->beams[to->n_beams] = (struct beam){c->place, first + to->n_beams, c->sum};
		to->n_beams++;
	}
	return COHORT_OK;
}

/* Whether the group has all that it will keep. Beams are as long as `length` by now. */
static bool has_all(const struct beam_search *b, const struct group *g)
{
	if (g->n_beams == 0)
		return true;
	if (g->n_kept < b->group_width)
		return false;
	if (b->p.stop == COHORT_BEAM_STOP_FIRST)
		return true;
	/* The divisor is monotone in the length but for rounding, which is far below the margin. */
	const double most = fmax(divisor(b, b->length), divisor(b, b->p.max_tokens)) * (1 + 1e-9);
	for (int32_t i = 0; i < g->n_beams; i++)
		if (g->beams[i].sum / most > g->kept[g->n_kept - 1].score)
			return false;
	return true;
}

/* ---- All of it ---- */

/* A group that would find nothing more still chooses, for the penalties of those behind it, until all are so far. */
static void stop(struct beam_search *b)
{
	bool all = true;

	for (int32_t k = 0; k < b->p.n_groups; k++) {
		const bool has = has_all(b, &b->groups[k]);
		all &= has;
		b->groups[k].done |= has && (b->p.stop == COHORT_BEAM_STOP_FIRST || b->groups[k].n_beams == 0);
	}
	for (int32_t k = 0; k < b->p.n_groups && all; k++)
		b->groups[k].done = true;
}

/* Takes the steps of groups that have stopped out again: their branches end. */
static void drop_done(struct beam_search *b)
{
	int32_t n = 0;

	for (int32_t k = 0; k < b->p.n_groups; k++) {
		struct group *g = &b->groups[k];
		if (g->done)
			g->n_beams = 0;
		for (int32_t i = 0; i < g->n_beams; i++) {
			b->steps[n] = b->steps[g->beams[i].live]; /* never forward: groups and beams are in order */
			g->beams[i].live = n++;
		}
	}
	b->n_steps = n;
}

static enum cohort_status step(struct beam_search *b, struct cohort_err *err)
{
	enum cohort_status st = COHORT_OK;

	b->n_steps = 0;
	while (b->n_which > 0)
		b->chosen[b->which[--b->n_which]] = 0;
	for (int32_t k = 0; k < b->p.n_groups && !st; k++) {
		size_t n = 0;
		if (b->groups[k].done)
			continue;
		st = gather(b, k, &n, err);
		if (!st)
			st = choose(b, k, n, err);
	}
	if (st)
		return st;
	b->length++;
	stop(b);
	drop_done(b);
	return search_advance(&b->s, b->steps, b->n_steps, err);
}

static enum cohort_status begin(struct beam_search *b, struct cohort_err *err)
{
	b->group_width = b->p.width / b->p.n_groups;
	b->groups = mem_zalloc((size_t)b->p.n_groups, sizeof *b->groups);
	if (b->p.n_groups > 1 && b->p.diversity > 0)
		b->chosen = mem_zalloc((size_t)b->s.n_vocab, sizeof *b->chosen);
	if (!b->groups || (b->p.n_groups > 1 && b->p.diversity > 0 && !b->chosen))
		return no_memory(err);
	for (int32_t k = 0; k < b->p.n_groups; k++) {
		struct group *g = &b->groups[k];
		if (!mem_grow((void **)&g->beams, &g->beams_max, 1, sizeof *g->beams))
			return no_memory(err);
		g->beams[0] = (struct beam){-1, 0, 0};
		g->n_beams = 1;
	}
	return COHORT_OK;
}

static int by_score(const void *a, const void *b)
{
	const struct kept *x = a, *y = b;

	if (x->score != y->score)
		return x->score > y->score ? -1 : 1;
	if (x->group != y->group)
		return x->group < y->group ? -1 : 1;
	return x->place < y->place ? -1 : 1;
}

/* The best of what the groups kept, as the caller gets it. */
static enum cohort_status report(const struct beam_search *b, struct cohort_beams *out, struct cohort_err *err)
{
	struct cohort_beams r = {.n_steps = b->length};
	size_t n = 0, n_tokens = 0, at = 0;

	for (int32_t k = 0; k < b->p.n_groups; k++)
		n += (size_t)b->groups[k].n_kept;
	struct kept *all = mem_alloc(n + 1, sizeof *all);
	if (!all)
		return no_memory(err);
	n = 0;
	for (int32_t k = 0; k < b->p.n_groups; k++)
		for (int32_t i = 0; i < b->groups[k].n_kept; i++) {
			all[n] = b->groups[k].kept[i];
			all[n++].place = i;
		}
	qsort(all, n, sizeof *all, by_score);
	r.n_items = n < (size_t)b->p.n_best ? (int32_t)n : b->p.n_best;
	for (int32_t i = 0; i < r.n_items; i++)
		n_tokens += (size_t)all[i].length;
	r.items = mem_alloc((size_t)r.n_items + 1, sizeof *r.items);
	r.storage = mem_alloc(n_tokens + 1, sizeof *r.storage);
	if (!r.items || !r.storage) {
		mem_free(all);
		cohort_beams_release(&r);
		return no_memory(err);
	}
	for (int32_t i = 0; i < r.n_items; i++) {
		const struct kept *k = &all[i];
		cohort_token *tokens = r.storage + at;
		int32_t t = k->trail;
		for (int32_t j = k->length; j-- > 0; t = b->trail[t].before)
			tokens[j] = b->trail[t].token;
		r.items[i] = (struct cohort_beam){tokens, k->length, k->finished, k->group, k->sum, k->score};
		at += (size_t)k->length;
	}
	mem_free(all);
	*out = r;
	return COHORT_OK;
}

static void end(struct beam_search *b)
{
	search_close(&b->s);
	for (int32_t k = 0; b->groups && k < b->p.n_groups; k++) {
		mem_free(b->groups[k].beams);
		mem_free(b->groups[k].kept);
	}
	mem_free(b->groups);
	mem_free(b->trail);
	mem_free(b->candidates);
	mem_free(b->top);
	mem_free(b->steps);
	mem_free(b->chosen);
	mem_free(b->which);
}

enum cohort_status cohort_beams_search(struct cohort_forest *forest, struct cohort_branch branch,
		const struct cohort_beam_params *params, struct cohort_beams *out, struct cohort_err *err)
{
	struct beam_search b = {.length = 0};
	struct fp_mode fp;

	cohort_beam_params_init(&b.p);
	if (!out)
		return err_set(err, COHORT_E_ARG, "out is NULL");
	if (params && !params_take(&b.p, sizeof b.p, params))
		return bad(err, "beam parameters were not initialised by cohort_beam_params_init");
	enum cohort_status st = check(&b.p, err);
	if (!st)
		st = search_open(&b.s, forest, branch, b.p.ends, b.p.n_ends, true, err);
	if (st)
		return st;
	fp_enter(&fp);
	st = begin(&b, err);
	do {
		if (!st)
			st = step(&b, err);
	} while (!st && b.n_steps > 0);
	if (!st)
		st = report(&b, out, err);
	fp_leave(&fp);
	end(&b);
	return st;
}

void cohort_beams_release(struct cohort_beams *beams)
{
	if (!beams)
		return;
	mem_free(beams->items);
	mem_free(beams->storage);
	*beams = (struct cohort_beams){0};
}
