/* Any bytes as a sampler's values (all stages, in any order, with NaN and Inf among them), a grammar or none, rows of
 * logits, and what is done with the sampler. It is refused with a reason, or two of the same values, or one and its
 * clone, say the same to whatever is asked of them: a status, or a token that was possible. What fails leaves the
 * sampler as it was.
 *
 * Seen red with a clone whose generator starts anew, with one that goes on although nothing was left to draw from, and
 * with a forbidden token among the candidates. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cohort.h"
#include "dice.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { N_VOCAB = 24, N_TOP = 4, OPS_MAX = 60, BIASES_MAX = 6, BREAKERS_MAX = 3, TOKENS_MAX = 6 };

static struct cohort_lexicon *lexicon;
static const char *const grammars[] = {
		"root ::= [a-c]*",
		"root ::= \"ab\" (\"c\" | \"d\"){1,3} root?",
		"root ::= \"{\" (pair (\",\" pair)*)? \"}\"\npair ::= [a-h] \":\" [0-9]+",
		"root ::= (\"a\" | \"aa\" | \"aaa\")+ <x> !<x>",
		"root ::= \"\\u00e9\"+ \".\"?",
};
enum { N_GRAMMARS = sizeof grammars / sizeof *grammars };
static struct cohort_grammar *open_grammars[N_GRAMMARS];

static void check(bool ok, const char *what)
{
	if (!ok) {
		fprintf(stderr, "fuzz_sampler: %s\n", what);
		abort();
	}
}

static void open_all(void)
{
	static const char *const texts[N_VOCAB] = {"a", "b", "c", "d", "e", "f", "0", "7", "{", "}", ":", ",", ".",
			"\n", "ab", "aa", "abc", "a:", "\xc3", "\xa9", "\xc3\xa9", "", "<x>", "<end>"};
	struct cohort_lexicon_token tokens[N_VOCAB];

	for (int i = 0; i < N_VOCAB; i++)
		tokens[i] = (struct cohort_lexicon_token){
				texts[i], strlen(texts[i]), i < N_VOCAB - 2, i == N_VOCAB - 1};
	check(!cohort_lexicon_open_list(tokens, N_VOCAB, &lexicon, NULL), "no lexicon");
	for (int i = 0; i < N_GRAMMARS; i++)
		check(!cohort_grammar_open(lexicon, grammars[i], strlen(grammars[i]), NULL, &open_grammars[i], NULL),
				"no grammar");
}

/* ---- Numbers ---- */

static float any_float(struct dice *d)
{
	static const float odd[] = {0.0f, 1.0f, 0.5f, -1.0f, 2.0f, 0.1f, 0.95f, 1e-30f, 1e30f, 3.4e38f, -3.4e38f,
			1e-45f, INFINITY, -INFINITY, NAN};
	const uint32_t kind = below(d, 64);
	uint32_t bits;
	float f;

	if (kind < sizeof odd / sizeof *odd)
		return odd[kind];
	if (kind < 62)
		return ((float)below(d, 256) - 64.0f) / 64.0f;
	bits = dice_u32(d, 4);
	memcpy(&f, &bits, sizeof f);
	return f;
}

static int32_t any_int(struct dice *d)
{
	static const int32_t odd[] = {0, 1, -1, 2, N_VOCAB, N_VOCAB + 1, INT32_MAX, INT32_MIN, COHORT_HISTORY_MAX};
	const uint32_t kind = below(d, 16);

	return kind < sizeof odd / sizeof *odd ? odd[kind] : (int32_t)below(d, 256);
}

/* Changes a value in eight of ten cases to something usual, so that most samplers open. */
static void any_values(struct dice *d, struct cohort_sampler_params *p)
{
	float *const floats[] = {&p->temperature, &p->top_p, &p->min_p, &p->repeat_penalty, &p->frequency_penalty,
			&p->presence_penalty, &p->dry_multiplier, &p->dry_base, &p->top_n_sigma, &p->typical_p,
			&p->xtc_probability, &p->xtc_threshold, &p->dynatemp_range, &p->dynatemp_exponent,
			&p->mirostat_tau, &p->mirostat_eta};
	int32_t *const ints[] = {&p->top_k, &p->min_keep, &p->history_max, &p->penalty_last_n, &p->dry_allowed_length,
			&p->dry_penalty_last_n, &p->mirostat};

	p->seed = below(d, 256);
	p->stream = below(d, 4);
	for (uint32_t k = below(d, 12); k > 0; k--) {
		if (below(d, 3))
			*floats[below(d, sizeof floats / sizeof *floats)] = any_float(d);
		else
			*ints[below(d, sizeof ints / sizeof *ints)] = any_int(d);
	}
	/* As long as the history is, it is allocated: a thousand tokens are as good as a million. */
	if (p->history_max > 1000 && p->history_max <= COHORT_HISTORY_MAX)
		p->history_max = 1000;
	if (p->penalty_last_n > 1000 && p->penalty_last_n <= COHORT_HISTORY_MAX)
		p->penalty_last_n = 1000;
	if (p->dry_penalty_last_n > 1000 && p->dry_penalty_last_n <= COHORT_HISTORY_MAX)
		p->dry_penalty_last_n = 1000;
}

struct lists {
	struct cohort_logit_bias bias[BIASES_MAX];
	const char *breakers[BREAKERS_MAX];
	float logits[N_VOCAB];
};

static void any_params(struct dice *d, struct cohort_sampler_params *p, struct lists *l)
{
	static const char *const breakers[] = {"\n", ":", "bc", "\xc3\xa9", ""};

	cohort_sampler_params_init(p);
	any_values(d, p);
	if (below(d, 2)) {
		p->n_order = (int32_t)below(d, 14);
		for (int32_t i = 0; i < p->n_order; i++)
			p->order[i] = (enum cohort_stage)(1 + below(d, COHORT_STAGE_MIROSTAT));
		if (seldom(d, 32))
			p->order[0] = (enum cohort_stage)any_int(d);
		if (seldom(d, 32))
			p->n_order = any_int(d) % (COHORT_ORDER_MAX + 8);
	}
	p->n_bias = (int32_t)below(d, BIASES_MAX + 1);
	for (int32_t i = 0; i < p->n_bias; i++)
		l->bias[i] = (struct cohort_logit_bias){
				(cohort_token)below(d, N_VOCAB + (seldom(d, 32))), any_float(d)};
	p->bias = l->bias;
	p->n_dry_breakers = below(d, 4) ? 0 : (int32_t)below(d, BREAKERS_MAX + 1);
	for (int32_t i = 0; i < p->n_dry_breakers; i++)
		l->breakers[i] = breakers[below(d, sizeof breakers / sizeof *breakers)];
	p->dry_breakers = l->breakers;
	p->lexicon = seldom(d, 16) ? NULL : lexicon;
	const uint32_t g = below(d, 2 * N_GRAMMARS);
	p->grammar = g < N_GRAMMARS ? open_grammars[g] : NULL;
}

static void any_logits(struct dice *d, float *logits)
{
	const uint32_t kind = below(d, 8);

	for (int i = 0; i < N_VOCAB; i++)
		logits[i] = kind == 0      ? 0.0f
				: kind < 4 ? (float)((i * 7 + (int)kind) % 11)
				: kind < 7 ? ((float)below(d, 256) - 128.0f) / 8.0f
					   : any_float(d);
	for (uint32_t k = below(d, 4); k > 1; k--)
		logits[below(d, N_VOCAB)] = any_float(d);
}

/* ---- What both must say ---- */

static bool same_float(float a, float b)
{
	return memcmp(&a, &b, sizeof a) == 0;
}

static void same_state(const struct cohort_sampler *a, const struct cohort_sampler *b)
{
	struct cohort_sampler_rng ra, rb;

	cohort_sampler_rng_get(a, &ra);
	cohort_sampler_rng_get(b, &rb);
	check(ra.state == rb.state && ra.inc == rb.inc, "generators");
	check(cohort_sampler_is_complete(a) == cohort_sampler_is_complete(b), "complete for one");
}

static void same_logprobs(struct cohort_sampler *a, struct cohort_sampler *b, cohort_token token)
{
	struct cohort_logprob ta[N_TOP], tb[N_TOP];
	double ea = 0, eb = 0;
	float la = 0, lb = 0;
	const enum cohort_status st = cohort_sampler_logprobs_get(a, token, &la, ta, N_TOP, &ea, NULL);

	check(cohort_sampler_logprobs_get(b, token, &lb, tb, N_TOP, &eb, NULL) == st, "status of logprobs");
	if (st)
		return;
	check(same_float(la, lb) && memcmp(&ea, &eb, sizeof ea) == 0, "logprobs");
	check(!isnan(la) && la <= 1e-5f && !isnan(ea) && ea >= -1e-9, "a logprob that is none");
	for (int i = 0; i < N_TOP; i++) {
		check(ta[i].token == tb[i].token && same_float(ta[i].logprob, tb[i].logprob), "the best");
		check(ta[i].token >= -1 && ta[i].token < N_VOCAB && !isnan(ta[i].logprob), "a token of the best");
		check(i == 0 || ta[i].logprob <= ta[i - 1].logprob, "the order of the best");
		for (int k = 0; k < i; k++)
			check(ta[i].token < 0 || ta[i].token != ta[k].token, "one of the best twice");
	}
}

static bool usable(enum cohort_status st)
{
	return st == COHORT_OK || st == COHORT_E_NUMERIC || st == COHORT_E_LIMIT || st == COHORT_E_ARG;
}

/* A token may come if the grammar, the row and the biases let it. */
static void check_possible(
		const struct cohort_sampler_params *p, const struct lists *l, const uint8_t *legal, cohort_token token)
{
	bool biased = p->n_order == 0;

	check(token >= 0 && token < N_VOCAB, "a token outside the vocabulary");
	check(legal[token], "a token that the grammar does not permit");
	check(l->logits[token] != -INFINITY, "a token that the row excludes");
	for (int32_t i = 0; i < p->n_order; i++)
		biased |= p->order[i] == COHORT_STAGE_BIAS;
	for (int32_t i = 0; i < p->n_bias && biased; i++)
		check(l->bias[i].token != token || l->bias[i].bias != -INFINITY, "a token that a bias excludes");
}

static void sample(struct dice *d, const struct cohort_sampler_params *p, struct lists *l, struct cohort_sampler *a,
		struct cohort_sampler *b, bool accept)
{
	cohort_token ta = -1, tb = -1;
	uint8_t legal[N_VOCAB], legal_b[N_VOCAB];
	struct cohort_err err = {0};
	struct cohort_sampler_rng before, after;
	const bool complete = cohort_sampler_is_complete(a);
	bool bad = false;

	cohort_sampler_rng_get(a, &before);
	any_logits(d, l->logits);
	for (int i = 0; i < N_VOCAB; i++)
		bad |= isnan(l->logits[i]) || l->logits[i] == INFINITY;
	const enum cohort_status known = cohort_sampler_legal_get(a, legal, NULL);
	check(cohort_sampler_legal_get(b, legal_b, NULL) == known, "status of legal");
	check(known || memcmp(legal, legal_b, sizeof legal) == 0, "legal tokens");
	const enum cohort_status st = accept ? cohort_sampler_sample(a, l->logits, &ta, &err)
					     : cohort_sampler_draw(a, l->logits, &ta, &err);
	check((accept ? cohort_sampler_sample(b, l->logits, &tb, NULL)
		      : cohort_sampler_draw(b, l->logits, &tb, NULL)) == st,
			"status of a draw");
	check(usable(st) && st != COHORT_E_ARG && (!st || *err.text), "a draw ends otherwise");
	check(!bad || st == COHORT_E_NUMERIC, "a row that is none gives a token");
	if (st) {
		cohort_sampler_rng_get(a, &after);
		check(before.state == after.state && cohort_sampler_is_complete(a) == complete,
				"a failure leaves a trace");
		return;
	}
	check(ta == tb && !known, "another token");
	check_possible(p, l, legal, ta);
	same_logprobs(a, b, ta);
	if (!accept && below(d, 2)) {
		check(!cohort_sampler_accept(a, ta, NULL), "a drawn token is not accepted");
		check(!cohort_sampler_accept(b, ta, NULL), "a drawn token is not accepted");
	}
}

static void accept(struct dice *d, struct cohort_sampler *a, struct cohort_sampler *b)
{
	const cohort_token t = seldom(d, 16) ? any_int(d) : (cohort_token)below(d, N_VOCAB);
	uint8_t legal[N_VOCAB];
	const enum cohort_status known = cohort_sampler_legal_get(a, legal, NULL);
	const enum cohort_status may = cohort_sampler_permits(a, t, NULL), st = cohort_sampler_accept(a, t, NULL);

	check(cohort_sampler_accept(b, t, NULL) == st && usable(st), "status of accept");
	check(may == st, "permits says otherwise");
	if (t < 0 || t >= N_VOCAB)
		check(st == COHORT_E_ARG, "a token outside the vocabulary is accepted");
	else if (!known)
		check((st == COHORT_OK) == (legal[t] != 0) || st == COHORT_E_LIMIT, "legal says otherwise");
}

static void prompt(struct dice *d, struct cohort_sampler *a, struct cohort_sampler *b)
{
	cohort_token tokens[TOKENS_MAX];
	const size_t n = below(d, TOKENS_MAX + 1);

	for (size_t i = 0; i < n; i++)
		tokens[i] = seldom(d, 32) ? any_int(d) : (cohort_token)below(d, N_VOCAB);
	const enum cohort_status st = cohort_sampler_prompt(a, tokens, n, NULL);
	check(cohort_sampler_prompt(b, tokens, n, NULL) == st && usable(st), "status of a prompt");
}

/* Both in the place of the second go on as the first. */
static void fork_to(struct cohort_sampler *a, struct cohort_sampler **b)
{
	cohort_sampler_free(*b);
	check(!cohort_sampler_clone(a, b, NULL), "no clone");
}

static void step(struct dice *d, const struct cohort_sampler_params *p, struct lists *l, struct cohort_sampler *a,
		struct cohort_sampler **b)
{
	struct cohort_sampler_rng rng;
	uint64_t seed;

	switch (below(d, 16)) {
	case 0: fork_to(a, b); break;
	case 1: accept(d, a, *b); break;
	case 2: prompt(d, a, *b); break;
	case 3:
		cohort_sampler_reset(a);
		cohort_sampler_reset(*b);
		break;
	case 4:
		seed = below(d, 256);
		cohort_sampler_reseed(a, seed, 1);
		cohort_sampler_reseed(*b, seed, 1);
		break;
	case 5:
		rng = (struct cohort_sampler_rng){dice_u32(d, 4), dice_u32(d, 1)};
		check(cohort_sampler_rng_set(a, &rng, NULL) == (rng.inc & 1 ? COHORT_OK : COHORT_E_ARG), "a generator");
		check(cohort_sampler_rng_set(*b, &rng, NULL) == (rng.inc & 1 ? COHORT_OK : COHORT_E_ARG),
				"a generator");
		break;
	case 6:
	case 7: sample(d, p, l, a, *b, false); break;
	default: sample(d, p, l, a, *b, true); break;
	}
	same_state(a, *b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct cohort_sampler *a = NULL, *b = NULL;
	struct cohort_sampler_params p;
	struct cohort_err err = {0};
	static struct lists l;
	struct dice d;

	if (!lexicon)
		open_all();
	dice_bytes(&d, data, n);
	any_params(&d, &p, &l);
	const enum cohort_status st = cohort_sampler_open(&p, N_VOCAB, &a, &err);
	check(cohort_sampler_open(&p, N_VOCAB, &b, NULL) == st, "opens once only");
	if (st) {
		check(st == COHORT_E_ARG && *err.text && !a && !b, "a refusal without a reason");
		return 0;
	}
	for (int i = 0; i < OPS_MAX && !dice_over(&d); i++)
		step(&d, &p, &l, a, &b);
	cohort_sampler_free(a);
	cohort_sampler_free(b);
	return 0;
}
