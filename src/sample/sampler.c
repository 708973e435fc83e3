/* The chain: which stages, in which order, then a draw; and what a sampler remembers between tokens.
 *
 * Invariants
 *  1. A failed sample changes nothing: not the generator, the history, mirostat or the place in the grammar.
 *  2. One draw of the generator per sampled token (and XTC's), none when greedy; nothing is allocated after open.
 *  3. A sampled token is accepted exactly once, a drawn one not at all. */
#include "sample/sample.h"

#include "base/fmath.h"
#include "base/fp.h"
#include "base/mem.h"
#include "base/params.h"
#include "sample/lexicon.h"

#include <math.h>
#include <string.h>

static const struct stage_ops *const stages[] = {
		[COHORT_STAGE_BIAS] = &stage_bias,
		[COHORT_STAGE_GRAMMAR] = &stage_grammar,
		[COHORT_STAGE_PENALTIES] = &stage_penalties,
		[COHORT_STAGE_DRY] = &stage_dry,
		[COHORT_STAGE_TOP_N_SIGMA] = &stage_top_n_sigma,
		[COHORT_STAGE_TOP_K] = &stage_top_k,
		[COHORT_STAGE_TYPICAL] = &stage_typical,
		[COHORT_STAGE_TOP_P] = &stage_top_p,
		[COHORT_STAGE_MIN_P] = &stage_min_p,
		[COHORT_STAGE_XTC] = &stage_xtc,
		[COHORT_STAGE_TEMPERATURE] = &stage_temperature,
		[COHORT_STAGE_MIROSTAT] = &stage_mirostat,
};
enum { N_STAGES = sizeof stages / sizeof *stages };

/* ---- Values ---- */

void cohort_sampler_params_init(struct cohort_sampler_params *params)
{
	if (!params)
		return;
	*params = (struct cohort_sampler_params){
			.struct_size = sizeof *params,
			.temperature = 0.8f,
			.top_k = 40,
			.top_p = 0.95f,
			.min_p = 0.05f,
			.min_keep = 1,
			.history_max = 4096,
			.penalty_last_n = 64,
			.repeat_penalty = 1.0f,
			.dry_base = 1.75f,
			.dry_allowed_length = 2,
			.dry_penalty_last_n = -1,
			.top_n_sigma = -1.0f,
			.typical_p = 1.0f,
			.xtc_threshold = 0.1f,
			.dynatemp_exponent = 1.0f,
			.mirostat_tau = 5.0f,
			.mirostat_eta = 0.1f,
	};
}

const char *cohort_stage_name(enum cohort_stage stage)
{
	return (int)stage > 0 && (int)stage < N_STAGES ? stages[stage]->name : NULL;
}

enum cohort_status cohort_sampler_order_parse(
		struct cohort_sampler_params *params, const char *names, struct cohort_err *err)
{
	enum cohort_stage order[COHORT_ORDER_MAX];
	int32_t n = 0;

	if (!params || !names)
		return err_set(err, COHORT_E_ARG, "%s is NULL", !params ? "params" : "names");
	if (params->struct_size < offsetof(struct cohort_sampler_params, bias)) /* they have room for an order */
		return err_set(err, COHORT_E_ARG,
				"sampler parameters were not initialised by cohort_sampler_params_init");
	for (const char *p = names;;) {
		p += strspn(p, ";, ");
		const size_t length = strcspn(p, ";, ");
		int i = 1;
		if (length == 0)
			break;
		while (i < N_STAGES && (strlen(stages[i]->name) != length || memcmp(stages[i]->name, p, length) != 0))
			i++;
		if (i == N_STAGES) {
			char show[ERR_SHOW_BYTES];
			return err_set(err, COHORT_E_ARG,
					"no stage is called '%s'; there are bias, grammar, penalties, dry, "
					"top_n_sigma, top_k, typical, top_p, min_p, xtc, temperature and mirostat",
					err_show(show, p, length));
		}
		if (n == COHORT_ORDER_MAX)
			return err_rule(err, COHORT_E_ARG, "n_order", -1, -1, COHORT_ORDER_MAX, COHORT_ORDER_MAX + 1,
					"more than %d stages", COHORT_ORDER_MAX);
		order[n++] = (enum cohort_stage)i;
		p += length;
	}
	if (n == 0)
		return err_set(err, COHORT_E_ARG, "an order without a stage");
	memcpy(params->order, order, (size_t)n * sizeof *order);
	params->n_order = n;
	return COHORT_OK;
}

static void default_order(struct cohort_sampler_params *p)
{
	for (int i = 1; i < N_STAGES; i++)
		if (p->mirostat == 0 ? i != COHORT_STAGE_MIROSTAT
				     : stages[i]->shapes || i == COHORT_STAGE_TEMPERATURE || i == COHORT_STAGE_MIROSTAT)
			p->order[p->n_order++] = (enum cohort_stage)i;
}

static enum cohort_status check(const struct cohort_sampler_params *p, int32_t n_vocab, struct cohort_err *err)
{
	enum cohort_status st = err_range(err, "n_vocab", n_vocab, 1, INT32_MAX);
	if (!st)
		st = err_range(err, "min_keep", p->min_keep, 1, INT32_MAX);
	if (!st)
		st = err_range(err, "history_max", p->history_max, 1, COHORT_HISTORY_MAX);
	if (!st)
		st = err_range(err, "n_order", p->n_order, 0, COHORT_ORDER_MAX);
	for (int32_t i = 0; !st && i < p->n_order; i++)
		st = err_range(err, "order", (int)p->order[i], 1, N_STAGES - 1);
	if (!st)
		st = stage_bias_check(p, n_vocab, err);
	for (int i = 1; !st && i < N_STAGES; i++)
		if (stages[i]->check)
			st = stages[i]->check(p, err);
	return st;
}

/* ---- Opening ---- */

static size_t larger(size_t a, size_t b)
{
	return a > b ? a : b;
}

static bool in_order(const struct cohort_sampler_params *p, enum cohort_stage stage)
{
	for (int32_t i = 0; i < p->n_order; i++)
		if (p->order[i] == stage)
			return stages[stage]->is_on(p);
	return false;
}

/* How much of the past the stages in use look at. */
static size_t history_length(const struct cohort_sampler_params *p)
{
	const size_t penalties = in_order(p, COHORT_STAGE_PENALTIES) ? stage_window(p, p->penalty_last_n) : 0;
	const size_t dry = in_order(p, COHORT_STAGE_DRY) ? stage_window(p, p->dry_penalty_last_n) : 0;
	return larger(penalties, dry);
}

/* Everything but what the past left in it. */
static bool allocate(struct cohort_sampler *s)
{
	const size_t n = history_length(&s->p);
	bool ok = history_init(&s->history, n);

	ok = cands_init(&s->cands, (size_t)s->n_vocab, (size_t)s->p.n_bias + 2 * n) && ok;
	ok = idset_init(&s->bias, (size_t)s->p.n_bias) && ok;
	ok = idset_init(&s->tally, n) && ok;
	s->bias_values = mem_zalloc((size_t)s->p.n_bias, sizeof *s->bias_values);
	s->counts = mem_alloc(n, sizeof *s->counts);
	s->runs = mem_alloc(n, sizeof *s->runs);
	s->mask = mem_alloc(s->cands.n_chunks, sizeof *s->mask);
	return ok && s->bias_values && s->counts && s->runs && s->mask;
}

static enum cohort_status open_sampler(const struct cohort_sampler_params *params, int32_t n_vocab,
		struct cohort_sampler **out, struct cohort_err *err)
{
	struct cohort_sampler_params p;

	cohort_sampler_params_init(&p);
	if (!out)
		return err_set(err, COHORT_E_ARG, "out is NULL");
	if (params && !params_take(&p, sizeof p, params))
		return err_set(err, COHORT_E_ARG,
				"sampler parameters were not initialised by cohort_sampler_params_init");
	enum cohort_status st = check(&p, n_vocab, err);
	if (st)
		return st;
	if (p.grammar && grammar_n_vocab(p.grammar) != n_vocab)
		return err_set(err, COHORT_E_ARG, "the grammar is for %d tokens, the sampler for %d",
				grammar_n_vocab(p.grammar), n_vocab);
	if (p.lexicon && p.lexicon->n_vocab != n_vocab)
		return err_set(err, COHORT_E_ARG, "the lexicon is for %d tokens, the sampler for %d",
				p.lexicon->n_vocab, n_vocab);
	if (p.n_order == 0)
		default_order(&p);
	if (p.grammar && !in_order(&p, COHORT_STAGE_GRAMMAR))
		return err_set(err, COHORT_E_ARG,
				"there is a grammar, but the order of the stages leaves it out: add 'grammar'");

	struct cohort_sampler *s = mem_zalloc(1, sizeof *s);
	if (s) {
		s->p = p;
		s->n_vocab = n_vocab;
		s->last = -1;
	}
	if (!s || !allocate(s))
		st = err_set(err, COHORT_E_MEMORY, "out of memory for a sampler over %d tokens", n_vocab);
	else if (in_order(&p, COHORT_STAGE_DRY))
		st = breakers_init(&s->breakers, &p, err);
	if (st) {
		cohort_sampler_free(s);
		return st;
	}
	for (int32_t i = 0; i < p.n_bias; i++)
		s->bias_values[idset_add(&s->bias, p.bias[i].token)] += p.bias[i].bias;
	for (size_t i = 0; i < s->bias.n; i++)
		if (!(s->bias_values[i] < INFINITY)) {
			st = err_set(err, COHORT_E_ARG, "the biases of token %d add up to infinity", s->bias.ids[i]);
			cohort_sampler_free(s);
			return st;
		}
	s->p.bias = NULL;
	s->p.dry_breakers = NULL;
	s->mu = 2.0 * (double)p.mirostat_tau;
	rng_init(&s->rng, p.seed, p.stream);
	if (p.grammar)
		grammar_start(&s->at, p.grammar);
	*out = s;
	return COHORT_OK;
}

enum cohort_status cohort_sampler_open(const struct cohort_sampler_params *params, int32_t n_vocab,
		struct cohort_sampler **out, struct cohort_err *err)
{
	struct fp_mode fp;

	fp_enter(&fp);
	const enum cohort_status st = open_sampler(params, n_vocab, out, err);
	fp_leave(&fp);
	return st;
}

void cohort_sampler_free(struct cohort_sampler *s)
{
	if (!s)
		return;
	grammar_end(&s->next);
	grammar_end(&s->at);
	history_release(&s->history);
	breakers_release(&s->breakers);
	cands_release(&s->cands);
	idset_release(&s->bias);
	idset_release(&s->tally);
	mem_free(s->bias_values);
	mem_free(s->counts);
	mem_free(s->runs);
	mem_free(s->mask);
	mem_free(s);
}

enum cohort_status cohort_sampler_clone(
		const struct cohort_sampler *s, struct cohort_sampler **out, struct cohort_err *err)
{
	if (!s || !out)
		return err_set(err, COHORT_E_ARG, "%s is NULL", !s ? "sampler" : "out");
	struct cohort_sampler *c = mem_zalloc(1, sizeof *c);
	if (c) {
		c->p = s->p;
		c->n_vocab = s->n_vocab;
		c->last = -1;
	}
	if (!c || !allocate(c) || !breakers_copy(&c->breakers, &s->breakers)) {
		cohort_sampler_free(c);
		return err_set(err, COHORT_E_MEMORY, "out of memory for a sampler over %d tokens", s->n_vocab);
	}
	for (size_t i = 0; i < s->bias.n; i++)
		c->bias_values[idset_add(&c->bias, s->bias.ids[i])] = s->bias_values[i];
	size_t n;
	const cohort_token *t = history_last(&s->history, s->history.n_max, &n);
	for (size_t i = 0; i < n; i++)
		history_add(&c->history, t[i], s->history.broken[(size_t)(t - s->history.tokens) + i]);
	c->rng = s->rng;
	c->mu = s->mu;
	if (s->at.g)
		grammar_copy(&c->at, &s->at);
	*out = c;
	return COHORT_OK;
}

void cohort_sampler_reset(struct cohort_sampler *s)
{
	if (!s)
		return;
	s->history.n = 0;
	breakers_reset(&s->breakers);
	s->mu = 2.0 * (double)s->p.mirostat_tau;
	s->last = -1;
	rng_init(&s->rng, s->p.seed, s->p.stream);
	grammar_end(&s->next);
	if (s->at.g)
		grammar_restart(&s->at);
}

void cohort_sampler_reseed(struct cohort_sampler *s, uint64_t seed, uint64_t stream)
{
	if (!s)
		return;
	s->p.seed = seed;
	s->p.stream = stream;
	rng_init(&s->rng, seed, stream);
}

void cohort_sampler_rng_get(const struct cohort_sampler *s, struct cohort_sampler_rng *rng)
{
	if (s && rng)
		*rng = (struct cohort_sampler_rng){s->rng.state, s->rng.inc};
}

enum cohort_status cohort_sampler_rng_set(
		struct cohort_sampler *s, const struct cohort_sampler_rng *rng, struct cohort_err *err)
{
	if (!s || !rng)
		return err_set(err, COHORT_E_ARG, "%s is NULL", !s ? "sampler" : "rng");
	if (rng->inc % 2 == 0)
		return err_rule(err, COHORT_E_ARG, "inc", -1, -1, 1, 0, "inc is %llu, expected an odd number",
				(unsigned long long)rng->inc);
	s->rng = (struct rng){rng->state, rng->inc};
	return COHORT_OK;
}

/* ---- The grammar as a stage ---- */

static bool grammar_is_on(const struct cohort_sampler_params *p)
{
	return p->grammar != NULL;
}

/* The mask was made before the chain began: that can fail. */
static void grammar_apply(struct cohort_sampler *s, struct cands *c)
{
	cands_mask(c, s->mask);
}

const struct stage_ops stage_grammar = {"grammar", NULL, grammar_is_on, true, grammar_apply};

/* ---- Accepting ---- */

static enum cohort_status check_token(const struct cohort_sampler *s, cohort_token token, struct cohort_err *err)
{
	if (token < 0 || token >= s->n_vocab)
		return err_rule(err, COHORT_E_ARG, "token", -1, -1, s->n_vocab, token,
				"token %d: the vocabulary has 0 to %d", token, s->n_vocab - 1);
	return COHORT_OK;
}

static void remember(struct cohort_sampler *s, cohort_token token)
{
	history_add(&s->history, token, breakers_push(&s->breakers, token));
}

enum cohort_status cohort_sampler_accept(struct cohort_sampler *s, cohort_token token, struct cohort_err *err)
{
	if (!s)
		return err_set(err, COHORT_E_ARG, "sampler is NULL");
	enum cohort_status st = check_token(s, token, err);
	if (!st && s->next.g && s->next_token == token)
		grammar_take(&s->at, &s->next);
	else if (!st && s->at.g)
		st = grammar_accept(&s->at, token, err);
	if (st)
		return st;
	grammar_end(&s->next);
	remember(s, token);
	return COHORT_OK;
}

enum cohort_status cohort_sampler_permits(struct cohort_sampler *s, cohort_token token, struct cohort_err *err)
{
	if (!s)
		return err_set(err, COHORT_E_ARG, "sampler is NULL");
	grammar_end(&s->next);
	enum cohort_status st = check_token(s, token, err);
	if (st || !s->at.g)
		return st;
	grammar_copy(&s->next, &s->at);
	st = grammar_accept(&s->next, token, err);
	if (st)
		grammar_end(&s->next);
	s->next_token = token;
	return st;
}

enum cohort_status cohort_sampler_legal_get(struct cohort_sampler *s, uint8_t *legal, struct cohort_err *err)
{
	if (!s || !legal)
		return err_set(err, COHORT_E_ARG, "%s is NULL", !s ? "sampler" : "legal");
	if (!s->at.g) {
		memset(legal, 1, (size_t)s->n_vocab);
		return COHORT_OK;
	}
	enum cohort_status st = grammar_mask(&s->at, s->mask, err);
	for (size_t i = 0; !st && i < (size_t)s->n_vocab; i++)
		legal[i] = s->mask[i / 64] >> i % 64 & 1;
	return st;
}

enum cohort_status cohort_sampler_prompt(
		struct cohort_sampler *s, const cohort_token *tokens, size_t n_tokens, struct cohort_err *err)
{
	if (!s || (!tokens && n_tokens))
		return err_set(err, COHORT_E_ARG, "%s is NULL", !s ? "sampler" : "tokens");
	for (size_t i = 0; i < n_tokens; i++) {
		enum cohort_status st = check_token(s, tokens[i], err);
		if (st)
			return st;
	}
	for (size_t i = 0; i < n_tokens; i++)
		remember(s, tokens[i]);
	return COHORT_OK;
}

bool cohort_sampler_is_complete(const struct cohort_sampler *s)
{
	return s && (!s->at.g || grammar_is_complete(&s->at));
}

/* ---- Sampling ---- */

static bool is_greedy(const struct cohort_sampler *s)
{
	return s->p.temperature <= 0.0f;
}

static void run_chain(struct cohort_sampler *s)
{
	for (int32_t i = 0; i < s->p.n_order; i++) {
		const struct stage_ops *stage = stages[s->p.order[i]];
		if (stage->is_on(&s->p) && (stage->shapes || !is_greedy(s)))
			stage->apply(s, &s->cands);
	}
}

/* The best alone, as a list. */
static bool pick_best(struct cohort_sampler *s)
{
	const size_t best = cands_best(&s->cands);
	if (best == SIZE_MAX)
		return false;
	cands_only(&s->cands, (cohort_token)best);
	return true;
}

static size_t draw(struct cohort_sampler *s)
{
	struct cands *c = &s->cands;
	double sum = 0.0;

	cands_weigh(c);
	const double x = rng_f64(&s->rng) * c->total;
	for (size_t i = 0; i < c->n; i++) {
		cands_order(c, i + 1); /* best first: few are looked at */
		sum += c->list[i].weight;
		if (x < sum)
			return i;
	}
	/* Rounding may leave x at the very end: the last candidate with any mass. */
	size_t n = c->n;
	while (n > 1 && c->list[n - 1].weight == 0.0)
		n--;
	return n - 1;
}

static enum cohort_status nothing_left(const struct cohort_sampler *s, struct cohort_err *err)
{
	return err_rule(err, COHORT_E_NUMERIC, "excluded", -1, -1, 0, 0, "every token is excluded%s",
			s->at.g ? ": no token of the vocabulary goes on with what the grammar wants here" : "");
}

/* Chooses; accepts it or not. */
static enum cohort_status choose_plain(
		struct cohort_sampler *s, const float *logits, bool accept, cohort_token *out, struct cohort_err *err)
{
	if (!s || !logits || !out)
		return err_set(err, COHORT_E_ARG, "%s is NULL", !s ? "sampler" : !logits ? "logits" : "out");
	const struct rng rng = s->rng;
	enum cohort_status st = COHORT_OK;
	struct cands *c = &s->cands;

	s->last = -1;
	if (s->at.g)
		st = grammar_mask(&s->at, s->mask, err);
	if (st)
		return st;
	const size_t bad = cands_begin(c, logits);
	if (bad < (size_t)s->n_vocab)
		return err_rule(err, COHORT_E_NUMERIC, "finite", -1, -1, 0, (int64_t)bad, "logit of token %zu is %s",
				bad, isnan(logits[bad]) ? "not a number" : "infinite");
	run_chain(s);
	const bool some = is_greedy(s) ? pick_best(s) : cands_list(c);
	if (!some) {
		s->rng = rng;
		return nothing_left(s, err);
	}
	const size_t at = is_greedy(s) ? 0 : draw(s);
	const cohort_token token = c->list[at].id;
	if (s->at.g && accept)
		st = grammar_accept(&s->at, token, err);
	if (st) {
		s->rng = rng;
		return st;
	}
	s->last = token;
	s->last_weight = is_greedy(s) ? 1.0 : c->list[at].weight;
	if (!is_greedy(s))
		mirostat_learn(s);
	if (accept) {
		grammar_end(&s->next);
		remember(s, token);
	}
	*out = token;
	return COHORT_OK;
}

static enum cohort_status choose(
		struct cohort_sampler *s, const float *logits, bool accept, cohort_token *out, struct cohort_err *err)
{
	struct fp_mode fp;

	fp_enter(&fp);
	const enum cohort_status st = choose_plain(s, logits, accept, out, err);
	fp_leave(&fp);
	return st;
}

enum cohort_status cohort_sampler_sample(
		struct cohort_sampler *s, const float *logits, cohort_token *out, struct cohort_err *err)
{
	return choose(s, logits, true, out, err);
}

enum cohort_status cohort_sampler_draw(
		struct cohort_sampler *s, const float *logits, cohort_token *out, struct cohort_err *err)
{
	return choose(s, logits, false, out, err);
}

double sampler_surprise(const struct cohort_sampler *s)
{
	return (fm_log(s->cands.total) - fm_log(s->last_weight)) / fm_log(2.0);
}

static enum cohort_status logprobs_get(struct cohort_sampler *s, cohort_token token, float *logprob,
		struct cohort_logprob *top, int32_t n_top, double *entropy, struct cohort_err *err)
{
	if (!s || (n_top > 0 && !top))
		return err_set(err, COHORT_E_ARG, "%s is NULL", !s ? "sampler" : "top");
	if (s->last < 0)
		return err_set(err, COHORT_E_ARG, "no token was sampled yet");
	if (err_range(err, "n_top", n_top, 0, INT32_MAX))
		return COHORT_E_ARG;
	enum cohort_status st = logprob ? check_token(s, token, err) : COHORT_OK;
	if (st)
		return st;
	struct cands *c = &s->cands;
	cands_weigh(c);
	const double all = fm_log(c->total);
	if (logprob) {
		*logprob = -INFINITY;
		for (size_t i = 0; i < c->n; i++)
			if (c->list[i].id == token)
				*logprob = (float)(c->list[i].logit - c->list[0].logit - all);
	}
	cands_order(c, (size_t)n_top);
	for (int32_t i = 0; i < n_top; i++)
		top[i] = (size_t)i < c->n ? (struct cohort_logprob){c->list[i].id,
							    (float)(c->list[i].logit - c->list[0].logit - all)}
					  : (struct cohort_logprob){-1, -INFINITY};
	if (entropy)
		*entropy = cands_entropy(c);
	return COHORT_OK;
}

enum cohort_status cohort_sampler_logprobs_get(struct cohort_sampler *s, cohort_token token, float *logprob,
		struct cohort_logprob *top, int32_t n_top, double *entropy, struct cohort_err *err)
{
	struct fp_mode fp;

	fp_enter(&fp);
	const enum cohort_status st = logprobs_get(s, token, logprob, top, n_top, entropy, err);
	fp_leave(&fp);
	return st;
}
