/* Branches against a naive forest: each of its branches is a list of what happened to it, and is told again from
 * scratch, alone, whenever it is looked at. 100,000 random operations on both: created, prefilled, forked with and
 * without another seed, drawn, accepted, stepped, decoded by each and scatter, merged, biased, detached, pruned in
 * three ways, with handles that are stale, calls that fail for want of room or memory, and batches smaller than the
 * calls. Tokens, logits, legal tokens and statistics are the same bits; a call that failed has changed nothing.
 *
 * Seen red with: logits written before the whole call has succeeded; a fork that keeps its parent's stream, or forgets
 * its biases or what is pending; pruned branches whose cells stay; generations that do not rise; tokens counted before
 * they are decoded; other logits under a token that was drawn; a branch detached whose children keep their depth; an
 * item's number taken for that of a row (forest_refuses_foreign_handles_and_held_ids); samplers that keep nothing of
 * what they permitted, or keep it behind a call that failed (full_grammar). */
#include "branch_case.h"
#include "effort.h"
#include "model_case.h"
#include "room_case.h"

#include "base/mem.h"
#include "context/impl.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum {
	N_VOCAB = 48,
	N_SEQS = 24,
	N_BATCH = 9, /* less than there are branches */
	N_CTX = 640,
	TOKENS_MAX = 44, /* of a branch */
	LOG_MAX = 160,
	N_OPS = 100000,
};

/* ---- What happened to a branch ---- */

enum event_kind { PROMPT, DRAW, ACCEPT, RESEED, FORGET };
struct event {
	enum event_kind kind;
	cohort_token token;
	uint64_t seed;
	float logits[N_VOCAB], biased[N_VOCAB]; /* that were drawn from, or accepted by */
};

struct naive {
	bool live;
	struct cohort_branch h;
	int parent; /* -1 */
	int params; /* which */
	cohort_token tokens[TOKENS_MAX];
	int n_tokens;
	cohort_token pending;
	bool has_logits;
	float logits[N_VOCAB];
	struct cohort_logit_bias bias[3];
	int n_bias;
	struct event *log; /* [LOG_MAX] */
	int n_log;
};

struct world {
	struct cohort_model *m;
	struct cohort_context *ctx, *alone;
	struct cohort_forest *f;
	struct cohort_lexicon *lexicon;
	struct cohort_grammar *grammar;
	struct cohort_sampler_params params[5];
	struct naive b[N_SEQS];
	struct cohort_branch stale[64]; /* handles of pruned ones */
	int n_stale;
	struct rng r;
	int n_refused, n_no_room, n_compared;
};

static struct cohort_err err;

static void ok(enum cohort_status st)
{
	if (st)
		fail_msg("%s", err.text);
}

static int below(struct world *w, int n)
{
	return (int)(rng_u32(&w->r) % (uint32_t)n);
}

/* ---- The naive way ---- */

/* Logits behind the tokens, computed from nothing. */
static void compute(struct world *w, struct naive *b)
{
	ok(cohort_seq_rm(w->alone, 0, 0, -1, &err));
	ok(cohort_decode_many(w->alone, b->tokens, b->n_tokens, 0, 0, &err));
	const float *l = cohort_logits_get(w->alone, -1, &err);
	assert_non_null(l);
	memcpy(b->logits, l, sizeof b->logits);
	b->has_logits = true;
}

static void biased(const struct naive *b, float out[N_VOCAB])
{
	memcpy(out, b->logits, sizeof b->logits);
	for (int i = 0; i < b->n_bias; i++)
		out[b->bias[i].token] += b->bias[i].bias;
}

static struct event *note(struct naive *b, enum event_kind kind, cohort_token token)
{
	assert_true(b->n_log < LOG_MAX);
	struct event *e = &b->log[b->n_log++];
	*e = (struct event){.kind = kind, .token = token};
	memcpy(e->logits, b->logits, sizeof e->logits);
	biased(b, e->biased);
	return e;
}

struct sums {
	int64_t n, n_drawn;
	double sum, sum_drawn;
};

/* A sampler to which everything happens again, and the statistics on the way. */
static struct cohort_sampler *replay(struct world *w, const struct naive *b, struct sums *t)
{
	struct cohort_sampler *s;
	cohort_token drawn = -1, got;
	float drawn_logprob = 0, logprob;

	*t = (struct sums){0};
	ok(cohort_sampler_open(&w->params[b->params], N_VOCAB, &s, &err));
	for (int i = 0; i < b->n_log; i++) {
		const struct event *e = &b->log[i];
		switch (e->kind) {
		case PROMPT:
			ok(cohort_sampler_prompt(s, &e->token, 1, &err));
			drawn = -1;
			break;
		case FORGET: drawn = -1; break;
		case RESEED: cohort_sampler_reseed(s, e->seed, 1); break;
		case DRAW:
			ok(cohort_sampler_draw(s, e->biased, &got, &err));
			assert_int_equal(got, e->token);
			ok(cohort_sampler_logprobs_get(s, got, &drawn_logprob, NULL, 0, NULL, &err));
			drawn = got;
			break;
		case ACCEPT:
			ok(cohort_sampler_accept(s, e->token, &err));
			ok(cohort_logprobs_get(e->logits, N_VOCAB, e->token, &logprob, NULL, 0, NULL, &err));
			t->n++;
			t->sum += (double)logprob;
			if (drawn == e->token) {
				t->n_drawn++;
				t->sum_drawn += (double)drawn_logprob;
			}
			drawn = -1;
			break;
		}
	}
	return s;
}

/* A branch and its naive twin are the same. */
static void compare(struct world *w, const struct naive *b)
{
	struct cohort_branch_info info;
	struct sums t;
	cohort_token legal[N_VOCAB];
	uint8_t want[N_VOCAB];
	int32_t n_legal;

	ok(cohort_branch_info_get(w->f, b->h, &info, &err));
	assert_int_equal(info.n_past, b->n_tokens);
	assert_int_equal(cohort_seq_pos_max(w->ctx, info.seq), b->n_tokens - 1);
	assert_int_equal(info.pending, b->pending);
	assert_int_equal(info.has_logits, b->has_logits);
	assert_int_equal(info.parent.forest ? info.parent.index : 99, b->parent >= 0 ? w->b[b->parent].h.index : 99);
	int depth = 0;
	for (int i = b->parent; i >= 0; i = w->b[i].parent)
		depth++;
	assert_int_equal(info.depth, depth);
	if (b->has_logits)
		assert_memory_equal(cohort_branch_logits_get(w->f, b->h, &err), b->logits, sizeof b->logits);
	struct cohort_sampler *s = replay(w, b, &t);
	assert_int_equal(info.n_accepted, t.n);
	assert_int_equal(info.n_drawn, t.n_drawn);
	assert_memory_equal(&info.logprob, &t.sum, sizeof t.sum);
	assert_memory_equal(&info.drawn_logprob, &t.sum_drawn, sizeof t.sum);
	assert_int_equal(info.complete, cohort_sampler_is_complete(s));
	ok(cohort_sampler_legal_get(s, want, &err));
	ok(cohort_branch_legal_get(w->f, b->h, legal, N_VOCAB, &n_legal, &err));
	for (int i = 0, k = 0; i < N_VOCAB; i++) {
		assert_int_equal(cohort_branch_is_legal(w->f, b->h, i), want[i]);
		if (want[i])
			assert_int_equal(legal[k++], i);
		if (i == N_VOCAB - 1)
			assert_int_equal(k, n_legal);
	}
	cohort_sampler_free(s);
	w->n_compared++;
}

static int n_live(const struct world *w)
{
	int n = 0;
	for (int i = 0; i < N_SEQS; i++)
		n += w->b[i].live;
	return n;
}

static int n_children(const struct world *w, int i)
{
	int n = 0;
	for (int j = 0; j < N_SEQS; j++)
		n += w->b[j].live && w->b[j].parent == i;
	return n;
}

/* A live one, or -1. */
static int some(struct world *w)
{
	const int from = below(w, N_SEQS);
	for (int k = 0; k < N_SEQS; k++)
		if (w->b[(from + k) % N_SEQS].live)
			return (from + k) % N_SEQS;
	return -1;
}

static int vacancy(const struct world *w)
{
	for (int i = 0; i < N_SEQS; i++)
		if (!w->b[i].live)
			return i;
	return -1;
}

static void forget(struct world *w, int i)
{
	w->stale[w->n_stale++ % 64] = w->b[i].h;
	w->b[i].live = false;
	for (int j = 0; j < N_SEQS; j++)
		if (w->b[j].live && w->b[j].parent == i)
			forget(w, j);
}

/* ---- Calls that may fail ---- */

/* Now and then an allocation fails. Behind the call all is well again. */
static void trouble(struct world *w)
{
	mem_fail_after(below(w, 6) == 0 ? below(w, 4) : -1);
}

/* Whether the call succeeded; if not, for a reason that is allowed. */
static bool went_well(struct world *w, enum cohort_status st)
{
	mem_fail_after(-1);
	if (!st)
		return true;
	if (st != COHORT_E_MEMORY && st != COHORT_NO_ROOM)
		fail_msg("%s", err.text);
	w->n_refused++;
	w->n_no_room += st == COHORT_NO_ROOM;
	return false;
}

/* ---- Operations ---- */

static void create(struct world *w)
{
	struct cohort_branch h;
	const int i = vacancy(w), params = below(w, 5);

	trouble(w);
	if (!went_well(w, cohort_branch_create(w->f, &w->params[params], &h, &err)))
		return;
	assert_true(i >= 0);
	struct event *log = w->b[i].log;
	w->b[i] = (struct naive){.live = true, .h = h, .parent = -1, .params = params, .pending = -1, .log = log};
}

static void fork_one(struct world *w)
{
	const int i = some(w), k = vacancy(w);
	const struct cohort_reseed seed = {rng_u32(&w->r), 1};
	const bool reseed = below(w, 2);
	struct cohort_branch h;

	if (i < 0)
		return;
	trouble(w);
	if (!went_well(w, cohort_branch_fork(w->f, w->b[i].h, reseed ? &seed : NULL, &h, &err)))
		return;
	assert_true(k >= 0);
	struct event *log = w->b[k].log;
	w->b[k] = w->b[i];
	w->b[k].log = log;
	memcpy(log, w->b[i].log, (size_t)w->b[i].n_log * sizeof *log);
	w->b[k].h = h;
	w->b[k].parent = i;
	if (reseed && w->b[k].n_log < LOG_MAX)
		note(&w->b[k], RESEED, -1)->seed = seed.seed;
	compare(w, &w->b[k]);
}

/* Some that can take n tokens more, each once. */
static int choose(struct world *w, int *out, int n_max, int n, bool pending)
{
	int count = 0;
	const int from = below(w, N_SEQS);

	for (int k = 0; k < N_SEQS && count < n_max; k++) {
		const int i = (from + k) % N_SEQS;
		const struct naive *b = &w->b[i];
		if (b->live && (b->pending >= 0) == pending && b->n_tokens + n <= TOKENS_MAX &&
				b->n_log + 2 * n + 2 <= LOG_MAX)
			out[count++] = i;
	}
	return count;
}

static void scatter(struct world *w)
{
	struct cohort_branch_span spans[N_SEQS];
	cohort_token tokens[N_SEQS][12];
	int who[N_SEQS];
	const int n = choose(w, who, 1 + below(w, below(w, 4) ? 3 : N_SEQS), 12, false);

	for (int i = 0; i < n; i++) {
		const int k = below(w, 13);
		for (int j = 0; j < k; j++)
			tokens[i][j] = below(w, N_VOCAB);
		spans[i] = (struct cohort_branch_span){w->b[who[i]].h, tokens[i], k};
	}
	trouble(w);
	const enum cohort_status st = n == 1
			? cohort_branch_prefill(w->f, spans[0].branch, tokens[0], spans[0].n_tokens, &err)
			: cohort_branch_decode_scatter(w->f, spans, n, &err);
	if (!went_well(w, st)) {
		for (int i = 0; i < n; i++)
			compare(w, &w->b[who[i]]);
		return;
	}
	for (int i = 0; i < n; i++) {
		struct naive *b = &w->b[who[i]];
		for (int j = 0; j < spans[i].n_tokens; j++) {
			note(b, PROMPT, tokens[i][j]);
			b->tokens[b->n_tokens++] = tokens[i][j];
		}
		if (spans[i].n_tokens > 0)
			compute(w, b);
		compare(w, b);
	}
}

static void sample(struct world *w)
{
	int i;
	cohort_token got, want;
	struct sums t;

	if (choose(w, &i, 1, 1, false) == 0)
		return;
	struct naive *b = &w->b[i];
	if (!b->has_logits) {
		assert_int_equal(cohort_branch_sample(w->f, b->h, &got, &err), COHORT_E_ARG);
		assert_string_equal(err.rule, "branch-logits");
		return;
	}
	struct cohort_sampler *s = replay(w, b, &t);
	float logits[N_VOCAB];
	biased(b, logits);
	const enum cohort_status st = cohort_sampler_draw(s, logits, &want, NULL);
	cohort_sampler_free(s);
	assert_int_equal(cohort_branch_sample(w->f, b->h, &got, &err), st);
	if (st)
		return; /* the grammar's text is at its end, and its end may not come */
	assert_int_equal(got, want);
	note(b, DRAW, got);
	compare(w, b);
}

/* The token that was drawn last, or any. */
static cohort_token next_token(struct world *w, const struct naive *b)
{
	if (b->n_log > 0 && b->log[b->n_log - 1].kind == DRAW && below(w, 4))
		return b->log[b->n_log - 1].token;
	return below(w, N_VOCAB);
}

static void accept(struct world *w)
{
	int i;

	if (choose(w, &i, 1, 1, false) == 0)
		return;
	struct naive *b = &w->b[i];
	const cohort_token token = next_token(w, b);
	const bool legal = cohort_branch_is_legal(w->f, b->h, token);
	const enum cohort_status st = cohort_branch_accept(w->f, b->h, token, &err);
	assert_int_equal(st, legal && b->has_logits ? COHORT_OK : COHORT_E_ARG);
	if (!st) {
		note(b, ACCEPT, token);
		b->pending = token;
	}
	compare(w, b);
}

/* The tokens are decoded now. */
static void decoded(struct world *w, struct naive *b, cohort_token token)
{
	b->tokens[b->n_tokens++] = token;
	b->pending = -1;
	compute(w, b);
	compare(w, b);
}

static void step(struct world *w)
{
	struct cohort_branch hs[N_SEQS];
	int who[N_SEQS];
	const int n = choose(w, who, 1 + below(w, N_SEQS), 1, true);

	for (int i = 0; i < n; i++)
		hs[i] = w->b[who[i]].h;
	trouble(w);
	const bool fine = went_well(w, cohort_branch_step(w->f, hs, n, &err));
	for (int i = 0; i < n; i++) {
		if (fine)
			decoded(w, &w->b[who[i]], w->b[who[i]].pending);
		else
			compare(w, &w->b[who[i]]);
	}
}

static void each(struct world *w)
{
	struct cohort_branch_token items[N_SEQS];
	int who[N_SEQS], bad = -1;
	const int n = choose(w, who, 1 + below(w, N_SEQS), 1, false);
	const bool strict = below(w, 4) > 0;

	for (int i = 0; i < n; i++) {
		struct naive *b = &w->b[who[i]];
		cohort_token t = next_token(w, b);
		for (int k = 0; strict && k < N_VOCAB && !cohort_branch_is_legal(w->f, b->h, t); k++)
			t = (t + 1) % N_VOCAB;
		items[i] = (struct cohort_branch_token){b->h, t};
		if (bad < 0 && (!b->has_logits || !cohort_branch_is_legal(w->f, b->h, t)))
			bad = i;
	}
	trouble(w);
	const enum cohort_status st = cohort_branch_decode_each(w->f, items, n, &err);
	mem_fail_after(-1);
	if (st == COHORT_E_ARG) {
		assert_int_equal(err.row, bad);
	} else if (went_well(w, st)) {
		assert_int_equal(bad, -1);
		for (int i = 0; i < n; i++) {
			note(&w->b[who[i]], ACCEPT, items[i].token);
			decoded(w, &w->b[who[i]], items[i].token);
		}
		return;
	}
	for (int i = 0; i < n; i++)
		compare(w, &w->b[who[i]]);
}

static void change(struct world *w)
{
	const int i = some(w), k = some(w);
	struct naive *b = i < 0 ? NULL : &w->b[i];
	float logits[N_VOCAB];

	if (!b)
		return;
	switch (below(w, 3)) {
	case 0:
		for (int t = 0; t < N_VOCAB; t++)
			logits[t] = below(w, 20) ? (float)(rng_f64(&w->r) * 8 - 4) : -INFINITY;
		ok(cohort_branch_logits_set(w->f, b->h, logits, &err));
		memcpy(b->logits, logits, sizeof logits);
		b->has_logits = true;
		break;
	case 1:
		if (!b->has_logits || !w->b[k].has_logits)
			return;
		for (int t = 0; t < N_VOCAB; t++)
			logits[t] = b->logits[t] + 0.25f * w->b[k].logits[t];
		ok(cohort_branch_logits_merge(w->f, b->h, w->b[k].h, 0.25f, &err));
		memcpy(b->logits, logits, sizeof logits);
		break;
	default:
		b->n_bias = below(w, 4);
		for (int t = 0; t < b->n_bias; t++)
			b->bias[t] = (struct cohort_logit_bias){below(w, N_VOCAB), (float)below(w, 5) - 2};
		ok(cohort_branch_bias_set(w->f, b->h, b->bias, b->n_bias, &err));
		break;
	}
	/* What was drawn before is not what this would draw: it counts as chosen by somebody else. */
	if (b->n_log < LOG_MAX)
		note(b, FORGET, -1);
}

static void prune(struct world *w)
{
	const int i = some(w);

	if (i < 0)
		return;
	if (below(w, 3) == 0) {
		ok(cohort_branch_prune_subtree(w->f, w->b[i].h, &err));
		forget(w, i);
	} else if (n_children(w, i) > 0) {
		assert_int_equal(cohort_branch_prune(w->f, w->b[i].h, &err), COHORT_E_ARG);
		assert_string_equal(err.rule, "branch-children");
	} else {
		ok(cohort_branch_prune(w->f, w->b[i].h, &err));
		forget(w, i);
	}
}

static void retain(struct world *w)
{
	const int i = some(w);

	if (i < 0)
		return;
	ok(cohort_branch_retain_only(w->f, w->b[i].h, &err));
	for (int k = 0; k < N_SEQS; k++) {
		if (k == i || !w->b[k].live)
			continue;
		w->b[k].live = false;
		w->stale[w->n_stale++ % 64] = w->b[k].h;
	}
	w->b[i].parent = -1;
	compare(w, &w->b[i]);
}

static void detach(struct world *w)
{
	const int i = some(w);

	if (i < 0)
		return;
	ok(cohort_branch_detach(w->f, w->b[i].h, &err));
	w->b[i].parent = -1;
	for (int k = 0; k < N_SEQS; k++)
		if (w->b[k].live)
			compare(w, &w->b[k]);
}

/* Handles of those that were pruned are refused, whatever is asked. */
static void use_stale(struct world *w)
{
	if (w->n_stale == 0)
		return;
	const struct cohort_branch h = w->stale[below(w, w->n_stale < 64 ? w->n_stale : 64)];
	struct cohort_branch out;
	cohort_token t = 1;

	assert_int_equal(cohort_branch_fork(w->f, h, NULL, &out, &err), COHORT_E_ARG);
	assert_string_equal(err.rule, "branch-stale");
	assert_int_equal(cohort_branch_prefill(w->f, h, &t, 1, &err), COHORT_E_ARG);
	assert_string_equal(err.rule, "branch-stale");
	assert_int_equal(cohort_branch_prune_subtree(w->f, h, &err), COHORT_E_ARG);
	assert_null(cohort_branch_logits_get(w->f, h, &err));
}

/* Leaves, leases and blocks are those of the naive forest. */
static void look(struct world *w)
{
	struct cohort_pressure p;
	struct cohort_branch leaves[N_SEQS];
	int32_t n = 0, n_want = 0;

	cohort_forest_pressure_get(w->f, &p);
	assert_int_equal(p.n_leased, n_live(w));
	assert_int_equal(p.n_vacant, N_SEQS - n_live(w));
	for (int i = 0; i < N_SEQS; i++)
		n_want += w->b[i].live && n_children(w, i) == 0;
	ok(cohort_branch_leaves_get(w->f, (struct cohort_branch){0}, leaves, N_SEQS, &n, &err));
	assert_int_equal(n, n_want);
	assert_int_equal(p.n_leaves, n_want);
	/* A vacant id holds nothing. */
	bool held[N_SEQS] = {false};
	for (int i = 0; i < N_SEQS; i++)
		if (w->b[i].live)
			held[w->b[i].h.index] = true;
	for (int i = 0; i < N_SEQS; i++)
		if (!held[i])
			assert_int_equal(cohort_seq_pos_max(w->ctx, 2 + i), -1);
	assert_true(memory_consistent(&w->ctx->memory));
}

/* ---- The story ---- */

static void open_world(struct world *w, const char *path, uint32_t window)
{
	struct cohort_context_params cp;
	struct cohort_lexicon_token words[N_VOCAB];
	char letters[N_VOCAB];
	static const char rules[] = "root ::= (\"a\" | [b-h] [i-p])* \"z\"";

	ok(cohort_model_open(path, NULL, &w->m, &err));
	w->m->model.layers[0].window = window;
	cohort_context_params_init(&cp);
	cp.n_ctx = N_CTX;
	cp.n_blocks = pool_blocks(cp.n_ctx, 0);
	cp.n_batch = N_BATCH;
	cp.n_ubatch = 4;
	cp.n_seq_max = 2 + N_SEQS;
	cp.n_threads = 1;
	ok(cohort_context_open(w->m, &cp, &w->ctx, &err));
	cp.n_batch = cp.n_ubatch = 64;
	ok(cohort_context_open(w->m, &cp, &w->alone, &err));
	ok(cohort_forest_open(w->ctx,
			&(struct cohort_forest_params){
					.struct_size = sizeof(struct cohort_forest_params), .first_seq = 2},
			&w->f, &err));
	for (int i = 0; i < N_VOCAB; i++) {
		letters[i] = (char)(i < 26 ? 'a' + i : 'A' + i - 26);
		words[i] = (struct cohort_lexicon_token){&letters[i], 1, true, i == N_VOCAB - 1};
	}
	ok(cohort_lexicon_open_list(words, N_VOCAB, &w->lexicon, &err));
	ok(cohort_grammar_open(w->lexicon, rules, sizeof rules - 1, NULL, &w->grammar, &err));
	for (int i = 0; i < 5; i++) {
		cohort_sampler_params_init(&w->params[i]);
		w->params[i].seed = 7 + (uint64_t)i;
	}
	w->params[1].repeat_penalty = 1.3f;
	w->params[1].top_k = 12;
	w->params[2].grammar = w->grammar;
	w->params[3].mirostat = 2;
	w->params[4].temperature = 0;
	for (int i = 0; i < N_SEQS; i++) {
		w->b[i].log = calloc(LOG_MAX, sizeof(struct event));
		assert_non_null(w->b[i].log);
	}
}

static void close_world(struct world *w)
{
	struct cohort_usage u;

	cohort_forest_free(w->f);
	cohort_usage_get(w->ctx, &u);
	assert_int_equal(u.n_used, 0); /* it leaves nothing behind */
	for (int i = 0; i < N_SEQS; i++)
		free(w->b[i].log);
	cohort_context_free(w->ctx);
	cohort_context_free(w->alone);
	cohort_grammar_free(w->grammar);
	cohort_lexicon_free(w->lexicon);
	cohort_model_free(w->m);
}

static const struct shape tiny = {N_VOCAB, 32, 2, 2, 1, 16, 16, 32, 16, 64, QUANT_F32, QUANT_F32, QUANT_F32, QUANT_F32,
		true, NULL, NULL, NULL};

static void story(uint32_t window, int n_ops)
{
	static struct world w;
	static void (*const ops[])(struct world *) = {create, fork_one, fork_one, scatter, scatter, sample, sample,
			sample, accept, accept, step, each, each, change, use_stale, look};
	char *path = synth_write(&tiny, 4);

	w = (struct world){0};
	rng_init(&w.r, 10, 0);
	open_world(&w, path, window);
	for (int i = 0; i < n_ops; i++) {
		if (below(&w, 400) == 0)
			retain(&w);
		else if (below(&w, 300) == 0)
			detach(&w);
		else if (below(&w, 12) == 0 || n_live(&w) == N_SEQS)
			prune(&w);
		else
			ops[below(&w, (int)(sizeof ops / sizeof *ops))](&w);
	}
	look(&w);
	print_message("# %d comparisons, %d calls refused for want of room, %d for want of memory\n", w.n_compared,
			w.n_no_room, w.n_refused - w.n_no_room);
	assert_true(w.n_compared > n_ops / 2 && w.n_no_room > n_ops / 1000 && w.n_refused > n_ops / 200);
	close_world(&w);
	unlink(path);
	free(path);
}

static void forest_random_operations(void **state)
{
	(void)state;
	story(0, effort(N_OPS));
}

static void random_operations_windows(void **state)
{
	(void)state;
	story(13, effort(N_OPS / 5));
}

/* A family over every kind of memory: states, windows, several heads to a key; each branch as its text alone. */
static void branches_of_every_architecture(void **state)
{
	(void)state;
	for (size_t k = 0; k < N_BRANCH_ARCHS; k++) {
		struct branch_case c;
		struct cohort_branch b[6];
		struct cohort_branch_token items[6];
		cohort_token tokens[6][64];

		branch_case_open(&c, k, 8, 4);
		b[0] = c.root;
		memcpy(tokens[0], c.prompt, sizeof c.prompt);
		for (int i = 1; i < 6; i++) {
			ok(cohort_branch_fork(c.f, b[i / 2], NULL, &b[i], &err));
			memcpy(tokens[i], tokens[0], BRANCH_PROMPT * sizeof **tokens);
		}
		for (int n = BRANCH_PROMPT; n < 40; n++) {
			for (int i = 0; i < 6; i++) {
				tokens[i][n] = (cohort_token)(rng_u32(&c.r) % (uint32_t)c.info.n_vocab);
				items[i] = (struct cohort_branch_token){b[i], tokens[i][n]};
			}
			/* First with a token that none has: nothing happens to those before it either. */
			items[5].token = c.info.n_vocab;
			assert_int_not_equal(cohort_branch_decode_each(c.f, items, 6, &err), COHORT_OK);
			items[5].token = tokens[5][n];
			ok(cohort_branch_decode_each(c.f, items, 6, &err));
		}
		for (int i = 0; i < 6; i++) {
			ok(cohort_seq_rm(c.alone, 0, 0, -1, &err));
			ok(cohort_decode_many(c.alone, tokens[i], 40, 0, 0, &err));
			assert_memory_equal(cohort_branch_logits_get(c.f, b[i], &err),
					cohort_logits_get(c.alone, -1, &err), (size_t)c.info.n_vocab * sizeof(float));
		}
		ok(cohort_branch_retain_only(c.f, b[3], &err));
		branch_case_close(&c);
	}
}

/* Handles of another forest, ids that are taken, values that are none. */
static void forest_refuses_foreign_handles_and_held_ids(void **state)
{
	static struct world w;
	char *path = synth_write(&tiny, 4);
	struct cohort_forest *other = NULL;
	struct cohort_forest_params fp;
	struct cohort_branch b, c, out;
	struct cohort_branch_token twice[2];
	float logits[N_VOCAB] = {0};
	const cohort_token t = 3;
	cohort_token got;
	double x;

	(void)state;
	w = (struct world){0};
	open_world(&w, path, 0);
	cohort_forest_params_init(&fp);
	fp.n_seqs = 3;
	ok(cohort_branch_create(w.f, NULL, &b, &err));
	ok(cohort_branch_prefill(w.f, b, &t, 1, &err));
	/* Ids: of the context, and free. */
	fp.first_seq = 1;
	assert_int_equal(cohort_forest_open(w.ctx, &fp, &other, &err), COHORT_E_ARG);
	assert_string_equal(err.rule, "seq-held");
	fp.first_seq = N_SEQS + 1;
	assert_int_equal(cohort_forest_open(w.ctx, &fp, &other, &err), COHORT_E_ARG);
	assert_string_equal(err.rule, "seq-id");
	assert_null(other);
	fp.first_seq = 0;
	fp.n_seqs = 2;
	ok(cohort_forest_open(w.ctx, &fp, &other, &err));
	ok(cohort_branch_create(other, NULL, &c, &err));
	ok(cohort_branch_create(other, NULL, &out, &err));
	assert_int_equal(cohort_branch_create(other, NULL, &out, &err), COHORT_NO_ROOM);
	assert_string_equal(err.rule, "seq-lease");
	/* Another forest's, and none. */
	assert_int_equal(cohort_branch_prefill(w.f, c, &t, 1, &err), COHORT_E_ARG);
	assert_string_equal(err.rule, "branch-foreign");
	assert_int_equal(cohort_branch_prune(w.f, (struct cohort_branch){0}, &err), COHORT_E_ARG);
	assert_string_equal(err.rule, "branch-foreign");
	/* Twice in a call: the second is named, and the first has not gone on. */
	twice[0] = twice[1] = (struct cohort_branch_token){b, t};
	assert_int_equal(cohort_branch_decode_each(w.f, twice, 2, &err), COHORT_E_ARG);
	assert_string_equal(err.rule, "branch-duplicate");
	assert_int_equal(err.row, 1);
	assert_int_equal(cohort_seq_pos_max(w.ctx, 2), 0);
	/* However often: a call that can only be refused takes no room for each of its items. Seen red with that. */
	static struct cohort_branch_token often[5000];
	for (size_t i = 0; i < sizeof often / sizeof *often; i++)
		often[i] = twice[0];
	const uint64_t n_allocations = mem_count();
	assert_int_equal(cohort_branch_decode_each(w.f, often, sizeof often / sizeof *often, &err), COHORT_E_ARG);
	assert_string_equal(err.rule, "branch-duplicate");
	assert_int_equal(err.row, 1);
	assert_true(mem_count() - n_allocations < 2 * N_SEQS);
	assert_int_equal(cohort_branch_step(w.f, &b, 1, &err), COHORT_E_ARG);
	assert_string_equal(err.rule, "branch-idle");
	ok(cohort_branch_accept(w.f, b, t, &err));
	assert_int_equal(cohort_branch_sample(w.f, b, &got, &err), COHORT_E_ARG);
	assert_string_equal(err.rule, "branch-pending");
	assert_int_equal(cohort_branch_prefill(w.f, b, &t, 1, &err), COHORT_E_ARG);
	assert_string_equal(err.rule, "branch-pending");
	ok(cohort_branch_step(w.f, &b, 1, &err));
	/* Spans without tokens, or of less than none: the item is named, whatever those before it have. */
	const cohort_token five[5] = {1, 2, 3, 4, 5};
	struct cohort_branch_span spans[3] = {{b, five, 5}, {.tokens = five, .n_tokens = 5}, {.n_tokens = 5}};
	ok(cohort_branch_create(w.f, NULL, &spans[1].branch, &err));
	ok(cohort_branch_create(w.f, NULL, &spans[2].branch, &err));
	for (int i = 0; i < 2; i++) {
		assert_int_equal(cohort_branch_decode_scatter(w.f, spans, 3, &err), COHORT_E_ARG);
		assert_string_equal(err.rule, "item");
		assert_int_equal(err.row, 2);
		spans[2] = (struct cohort_branch_span){spans[2].branch, five, -1};
	}
	spans[2].n_tokens = 5;
	spans[2].tokens = (const cohort_token[5]){1, 2, N_VOCAB, 4, 5};
	assert_int_equal(cohort_branch_decode_scatter(w.f, spans, 3, &err), COHORT_E_BATCH);
	assert_int_equal(err.row, 2);
	/* Logits that are none. */
	logits[5] = NAN;
	assert_int_equal(cohort_branch_logits_set(w.f, b, logits, &err), COHORT_E_NUMERIC);
	assert_int_equal(err.got, 5);
	assert_int_equal(cohort_branch_logits_merge(w.f, b, b, INFINITY, &err), COHORT_E_NUMERIC);
	assert_int_equal(
			cohort_branch_bias_set(w.f, b, &(struct cohort_logit_bias){N_VOCAB, 1}, 1, &err), COHORT_E_ARG);
	/* Equal logits: the entropy is that of a fair draw, and every token as surprising. */
	logits[5] = 0;
	ok(cohort_branch_logits_set(w.f, b, logits, &err));
	ok(cohort_branch_entropy_get(w.f, b, &x, &err));
	assert_true(fabs(x - log(N_VOCAB)) < 1e-6);
	ok(cohort_branch_surprisal_get(w.f, b, 7, &x, &err));
	assert_true(fabs(x - log(N_VOCAB)) < 1e-6);
	cohort_forest_free(other);
	close_world(&w);
	unlink(path);
	free(path);
}

/* A whole life with every allocation failing once: a status, and nothing is left behind. */
static enum cohort_status live(struct world *w, struct cohort_forest **f)
{
	struct cohort_branch b[4];
	struct cohort_branch_token items[4];
	const cohort_token prompt[] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8};
	const struct cohort_logit_bias bias = {1, 2.0f};
	enum cohort_status st = cohort_forest_open(w->ctx,
			&(struct cohort_forest_params){.struct_size = sizeof(struct cohort_forest_params), .n_seqs = 2},
			f, &err);

	if (!st)
		st = cohort_branch_create(*f, &w->params[2], &b[0], &err);
	if (!st)
		st = cohort_branch_prefill(*f, b[0], prompt, 12, &err);
	if (!st)
		st = cohort_branch_bias_set(*f, b[0], &bias, 1, &err);
	if (!st)
		st = cohort_branch_fork(*f, b[0], NULL, &b[1], &err);
	for (int k = 0; k < 3 && !st; k++) {
		for (int i = 0; i < 2 && !st; i++) {
			items[i].branch = b[i];
			st = cohort_branch_sample(*f, b[i], &items[i].token, &err);
		}
		if (!st)
			st = cohort_branch_decode_each(*f, items, 2, &err);
	}
	return st;
}

static void forest_out_of_memory_at_every_point(void **state)
{
	static struct world w;
	char *path = synth_write(&tiny, 4);
	enum cohort_status st = COHORT_E_MEMORY;
	struct cohort_usage u;
	int k = 0;

	(void)state;
	w = (struct world){0};
	open_world(&w, path, 0);
	for (; st; k++) {
		struct cohort_forest *f = NULL;
		const uint64_t before = mem_count();
		mem_fail_after(k);
		st = live(&w, &f);
		mem_fail_after(-1);
		/* It goes well when nothing failed, and only then. Seen red with a status left out. */
		assert_int_equal(st, mem_count() - before <= (uint64_t)k ? COHORT_OK : COHORT_E_MEMORY);
		cohort_forest_free(f);
		cohort_usage_get(w.ctx, &u);
		assert_int_equal(u.n_used, 0);
		assert_int_equal(u.n_seqs, 0);
	}
	assert_true(k > 20);
	close_world(&w);
	unlink(path);
	free(path);
}

/* A grammar that every place takes a thirtieth of: when not all branches of a call have room for theirs, the call is
 * refused before it decodes and leaves nothing behind; what it permitted it also does. */
static void full_grammar(void **state)
{
	enum { N_OTHERS = 24, N_OWN = 14 };
	static const char rest[] = "\nr ::= s \"1\" | s \"2\" | s \"3\" | s \"4\" | s \"5\" | s \"6\""
				   "\ns ::= (\"-\"?){0,2700}";
	static struct world w;
	char *path = synth_write(&tiny, 4), text[20 * N_VOCAB + sizeof rest];
	struct cohort_sampler *others[N_OTHERS], *one;
	struct cohort_sampler_params sp;
	struct cohort_branch root, own[N_OWN];
	struct cohort_branch_token items[N_OWN];
	struct cohort_branch_info info;
	struct cohort_grammar *g;
	const cohort_token prompt = 3;
	size_t n = 0;

	(void)state;
	w = (struct world){0};
	open_world(&w, path, 0);
	for (int i = 0; i < N_OTHERS + N_OWN; i++)
		n += (size_t)snprintf(text + n, 20, "%s\"%c\" r \"!\"", i ? " | " : "root ::= ",
				i < 26 ? 'a' + i : 'A' + i - 26);
	memcpy(text + n, rest, sizeof rest);
	n += sizeof rest - 1;
	ok(cohort_grammar_open(w.lexicon, text, n, NULL, &g, &err));
	cohort_sampler_params_init(&sp);
	sp.grammar = g;
	for (int i = 0; i < N_OTHERS; i++) {
		ok(cohort_sampler_open(&sp, N_VOCAB, &others[i], &err));
		ok(cohort_sampler_accept(others[i], i, &err));
	}
	ok(cohort_branch_create(w.f, &sp, &root, &err));
	ok(cohort_branch_prefill(w.f, root, &prompt, 1, &err));
	for (int i = 0; i < N_OWN; i++) {
		ok(cohort_branch_fork(w.f, root, NULL, &own[i], &err));
		items[i] = (struct cohort_branch_token){own[i], N_OTHERS + i};
	}
	for (int round = 0; round < 3; round++) { /* the third time as the first: nothing was kept */
		assert_int_equal(cohort_branch_decode_each(w.f, items, N_OWN, &err), COHORT_E_LIMIT);
		assert_in_range(err.row, 3, N_OWN - 1);
		ok(cohort_sampler_open(&sp, N_VOCAB, &one, &err)); /* has the room that the call had */
		ok(cohort_sampler_accept(one, N_OTHERS + N_OWN - 1, &err));
		cohort_sampler_free(one);
		for (int i = 0; i < N_OWN; i++) {
			ok(cohort_branch_info_get(w.f, own[i], &info, &err));
			assert_int_equal(info.n_past, 1);
			assert_int_equal(info.n_accepted, 0);
			assert_true(cohort_branch_is_legal(w.f, own[i], items[i].token));
		}
	}
	ok(cohort_branch_decode_each(w.f, items, 3, &err));
	for (int i = 0; i < N_OTHERS; i++)
		cohort_sampler_free(others[i]);
	ok(cohort_branch_decode_each(w.f, items + 3, N_OWN - 3, &err));
	for (int i = 0; i < N_OWN; i++) {
		ok(cohort_branch_info_get(w.f, own[i], &info, &err));
		assert_int_equal(info.n_past, 2);
		assert_int_equal(info.n_accepted, 1);
		assert_false(cohort_branch_is_legal(w.f, own[i], items[i].token));
	}
	close_world(&w);
	cohort_grammar_free(g);
	unlink(path);
	free(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
			cmocka_unit_test(forest_random_operations),
			cmocka_unit_test(random_operations_windows),
			cmocka_unit_test_setup_teardown(
					branches_of_every_architecture, arch_make_models, arch_remove_models),
			cmocka_unit_test(forest_refuses_foreign_handles_and_held_ids),
			cmocka_unit_test(full_grammar),
			cmocka_unit_test(forest_out_of_memory_at_every_point),
	};
	return cmocka_run_group_tests_name("branch", tests, NULL, NULL);
}
