/* Rows of the table of refusals: token texts, grammars, samplers and their parameters, log-probabilities, scores. */
#include "refuse_case.h"

#include <float.h>

/* ---- Lexicons and grammars ---- */

static void lexicons(void)
{
	static char longest[60001];
	struct cohort_lexicon_token t[] = {{"a", 1, true, false}, {longest, 60000, true, false}};
	struct cohort_lexicon *x = NULL;

	memset(longest, 'x', sizeof longest);
	IS_NULL(cohort_lexicon_open, (NULL, &x, err), "model is NULL");
	IS_NULL(cohort_lexicon_open, (w.model, NULL, err), "out is NULL");
	PASSES_AND(cohort_lexicon_open, _, (w.model, &x, err), cohort_lexicon_free(x));
	IS_NULL(cohort_lexicon_open_list, (NULL, 2, &x, err), "tokens is NULL");
	IS_NULL(cohort_lexicon_open_list, (t, 2, NULL, err), "out is NULL");
	RANGE(cohort_lexicon_open_list, n_tokens, (t, 0, &x, err), 1, 0);
	RANGE(cohort_lexicon_open_list, n_tokens, (t, -1, &x, err), 1, -1);
	PASSES_AND(cohort_lexicon_open_list, tokens, (t, 2, &x, err), cohort_lexicon_free(x));
	t[1].n_bytes = 60001;
	REFUSED(cohort_lexicon_open_list, tokens, (t, 2, &x, err), COHORT_E_LIMIT, "n_bytes", 1, -1, 60000, 60001);
	NOTHING(cohort_lexicon_free, (NULL));
}

/* A text of n bytes: `head`, and blanks behind it; static. */
static const char *padded(const char *head, size_t n)
{
	static char text[(4 << 20) + 2];

	memset(text, ' ', sizeof text);
	memcpy(text, head, strlen(head));
	assert_true(n <= sizeof text);
	return text;
}

/* A schema of arrays in arrays: `depth` levels, the innermost empty one included. */
static const char *nested(int depth)
{
	static char text[4096];
	char *at = text;

	for (int i = 1; i < depth; i++)
		at += sprintf(at, "{\"items\":");
	at += sprintf(at, "{}");
	memset(at, '}', (size_t)depth - 1);
	at[depth - 1] = '\0';
	return text;
}

/* Repetitions and depths of docs/sampling.md. */
static void grammar_limits(void)
{
	static const char most[] = "root ::= \"a\"{100000}", more[] = "root ::= \"a\"{100001}";
	static char out[1 << 16];
	struct cohort_grammar *g = NULL;
	size_t n;

	PASSES_AND(cohort_grammar_open, text, (w.lexicon, most, sizeof most - 1, "root", &g, err),
			cohort_grammar_free(g));
	REFUSED(cohort_grammar_open, text, (w.lexicon, more, sizeof more - 1, "root", &g, err), COHORT_E_FORMAT, NULL,
			-1, -1, 0, 0);
	for (int k = 256; k <= 257; k++) { /* pairs of parentheses */
		const size_t length = (size_t)sprintf(out, "root ::= %*s\"a\"%*s", k, "", k, "");
		memset(out + 9, '(', (size_t)k);
		memset(out + length - k, ')', (size_t)k);
		if (k == 256)
			PASSES_AND(cohort_grammar_open, text, (w.lexicon, out, length, "root", &g, err),
					cohort_grammar_free(g));
		else
			REFUSED(cohort_grammar_open, text, (w.lexicon, out, length, "root", &g, err), COHORT_E_FORMAT,
					NULL, -1, -1, 0, 0);
	}
	for (int k = 65536; k <= 65537; k++) { /* rules */
		char *rules = malloc((size_t)k * 16), *at = rules + sprintf(rules, "root ::= \"a\"\n");
		for (int i = 1; i < k; i++)
			at += sprintf(at, "r%d ::= \"\"\n", i);
		const size_t length = (size_t)(at - rules);
		if (k == 65536)
			PASSES_AND(cohort_grammar_open, text, (w.lexicon, rules, length, "root", &g, err),
					cohort_grammar_free(g));
		else
			REFUSED(cohort_grammar_open, text, (w.lexicon, rules, length, "root", &g, err), COHORT_E_LIMIT,
					NULL, -1, -1, 0, 0);
		free(rules);
	}
	PASSES(cohort_schema_to_gbnf, schema, (nested(100), strlen(nested(100)), out, sizeof out, &n, err));
	REFUSED(cohort_schema_to_gbnf, schema, (nested(101), strlen(nested(101)), out, sizeof out, &n, err),
			COHORT_E_LIMIT, NULL, -1, -1, 0, 0);
}

void refuse_grammars(void **state)
{
	static const char text[] = "root ::= \"a\"", schema[] = "{\"const\":1}";
	const size_t n_text = sizeof text - 1, n_schema = sizeof schema - 1, most = 4 << 20, most_schema = 1 << 20;
	struct cohort_grammar *g = NULL;
	char out[4096];
	size_t n = 0;
	bool whole;

	(void)state;
	lexicons();
	IS_NULL(cohort_grammar_open, (NULL, text, n_text, "root", &g, err), "lexicon is NULL");
	IS_NULL(cohort_grammar_open, (w.lexicon, NULL, n_text, "root", &g, err), "text is NULL");
	IS_NULL(cohort_grammar_open, (w.lexicon, text, n_text, "root", NULL, err), "out is NULL");
	PASSES_AND(cohort_grammar_open, _, (w.lexicon, text, n_text, NULL, &g, err), cohort_grammar_free(g));
	PASSES_AND(cohort_grammar_open, n_bytes, (w.lexicon, padded(text, most), most, "root", &g, err),
			cohort_grammar_free(g));
	REFUSED(cohort_grammar_open, n_bytes, (w.lexicon, padded(text, most + 1), most + 1, "root", &g, err),
			COHORT_E_LIMIT, NULL, -1, -1, 0, 0);
	IS_NULL(cohort_grammar_open_schema, (NULL, schema, n_schema, &g, err), "lexicon is NULL");
	IS_NULL(cohort_grammar_open_schema, (w.lexicon, NULL, n_schema, &g, err), "schema is NULL");
	IS_NULL(cohort_grammar_open_schema, (w.lexicon, schema, n_schema, NULL, err), "out is NULL");
	PASSES_AND(cohort_grammar_open_schema, _, (w.lexicon, schema, n_schema, &g, err), cohort_grammar_free(g));
	IS_NULL(cohort_schema_to_gbnf, (NULL, n_schema, out, sizeof out, &n, err), "schema is NULL");
	IS_NULL(cohort_schema_to_gbnf, (schema, n_schema, NULL, sizeof out, &n, err), "out is NULL");
	IS_NULL(cohort_schema_to_gbnf, (schema, n_schema, out, sizeof out, NULL, err), "n_out is NULL");
	PASSES(cohort_schema_to_gbnf, _, (schema, n_schema, out, sizeof out, &n, err));
	const size_t needed = n;
	PASSES(cohort_schema_to_gbnf, n_max, (schema, n_schema, out, needed, &n, err));
	REFUSED(cohort_schema_to_gbnf, n_max, (schema, n_schema, out, needed - 1, &n, err), COHORT_E_LIMIT, NULL, -1,
			-1, 0, 0);
	PASSES(cohort_schema_to_gbnf, n_bytes, (padded(schema, most_schema), most_schema, out, sizeof out, &n, err));
	REFUSED(cohort_schema_to_gbnf, n_bytes,
			(padded(schema, most_schema + 1), most_schema + 1, out, sizeof out, &n, err), COHORT_E_LIMIT,
			NULL, -1, -1, 0, 0);
	IS_NULL(cohort_grammar_match, (NULL, "a", 1, &n, &whole, err), "grammar is NULL");
	IS_NULL(cohort_grammar_match, (w.grammar, NULL, 1, &n, &whole, err), "text is NULL");
	PASSES(cohort_grammar_match, _, (w.grammar, "a", 1, NULL, &whole, err));
	PASSES(cohort_grammar_match, _, (w.grammar, "a", 1, &n, NULL, err));
	grammar_limits();
	NOTHING(cohort_grammar_free, (NULL));
	refuse_end();
}

/* ---- Samplers ---- */

static struct cohort_sampler_params p;
static struct cohort_sampler *made;

/* Opens it with p, which is then what it was at first. */
static void open_row(const char *row, const char *rule, int64_t expected, int64_t got)
{
	REFUSE_CALLS("cohort_sampler_open", row, "params")
	{
		const enum cohort_status st = cohort_sampler_open(&p, w.info.n_vocab, &made, err);
		refuse_check(st, (struct refusal){rule ? COHORT_E_ARG : COHORT_OK, rule, -1, -1, expected, got, NULL});
		if (!st)
			cohort_sampler_free(made);
	}
	cohort_sampler_params_init(&p);
}

#define OPEN_WITH(field, rule, expected, got) \
	open_row("(&p with " #field ", n_vocab, &made, err)", rule, expected, got)

/* Each field at the ends of its range, and beyond them. */
static void params(void)
{
	cohort_sampler_params_init(&p);
#define ENDS(field, lo, hi) \
	do { \
		p.field = (lo); \
		OPEN_WITH(field, NULL, 0, 0); \
		p.field = (hi); \
		OPEN_WITH(field, NULL, 0, 0); \
	} while (0)
#define NOT(field, value, expected, got) \
	do { \
		p.field = (value); \
		OPEN_WITH(field, #field, expected, got); \
	} while (0)
#define WHOLE(field, lo, hi) \
	do { \
		ENDS(field, lo, hi); \
		NOT(field, (lo)-1, lo, (lo)-1); \
		if ((hi) < INT32_MAX) \
			NOT(field, (int32_t)((int64_t)(hi) + 1), hi, (int64_t)(hi) + 1); \
	} while (0)
#define REAL(field, lo, hi) \
	do { \
		ENDS(field, lo, hi); \
		NOT(field, nextafterf(lo, -INFINITY), 0, 0); \
		NOT(field, nextafterf(hi, INFINITY), 0, 0); \
		NOT(field, NAN, 0, 0); \
	} while (0)
	WHOLE(min_keep, 1, INT32_MAX);
	NOT(n_order, -1, 0, -1);
	WHOLE(history_max, 1, COHORT_HISTORY_MAX);
	WHOLE(penalty_last_n, -1, COHORT_HISTORY_MAX);
	WHOLE(dry_allowed_length, 0, INT32_MAX);
	WHOLE(dry_penalty_last_n, -1, COHORT_HISTORY_MAX);
	WHOLE(mirostat, 0, 2);
	ENDS(top_k, INT32_MIN, INT32_MAX);
	ENDS(seed, 0, UINT64_MAX);
	ENDS(stream, 0, UINT64_MAX);
	REAL(temperature, -FLT_MAX, FLT_MAX);
	REAL(repeat_penalty, FLT_TRUE_MIN, FLT_MAX);
	REAL(frequency_penalty, -FLT_MAX, FLT_MAX);
	REAL(presence_penalty, -FLT_MAX, FLT_MAX);
	REAL(dry_multiplier, 0.0f, FLT_MAX);
	REAL(dry_base, 0.0f, FLT_MAX);
	REAL(dynatemp_range, 0.0f, FLT_MAX);
	REAL(dynatemp_exponent, 0.0f, FLT_MAX);
	REAL(mirostat_tau, 0.0f, FLT_MAX);
	REAL(mirostat_eta, 0.0f, FLT_MAX);
	/* Any number beyond one end switches these off. */
	ENDS(top_p, 0.0f, INFINITY);
	NOT(top_p, -FLT_MIN, 0, 0);
	NOT(top_p, NAN, 0, 0);
	ENDS(typical_p, 0.0f, INFINITY);
	NOT(typical_p, -FLT_MIN, 0, 0);
	NOT(typical_p, NAN, 0, 0);
	ENDS(xtc_threshold, 0.0f, INFINITY);
	NOT(xtc_threshold, -FLT_MIN, 0, 0);
	NOT(xtc_threshold, NAN, 0, 0);
	ENDS(min_p, -INFINITY, 1.0f);
	NOT(min_p, nextafterf(1.0f, 2.0f), 0, 0);
	NOT(min_p, NAN, 0, 0);
	ENDS(xtc_probability, -INFINITY, 1.0f);
	NOT(xtc_probability, nextafterf(1.0f, 2.0f), 0, 0);
	NOT(xtc_probability, NAN, 0, 0);
	ENDS(top_n_sigma, -INFINITY, INFINITY);
	NOT(top_n_sigma, NAN, 0, 0);
}

static void lists_of_params(void)
{
	static struct cohort_logit_bias bias[] = {{0, 1}, {0, -INFINITY}};
	static char longest[258];
	const char *breakers[257];

	/* COHORT_ORDER_MAX stages, each of the enum. */
	for (int32_t n = COHORT_ORDER_MAX; n <= COHORT_ORDER_MAX + 1; n++) {
		for (int32_t i = 0; i < COHORT_ORDER_MAX; i++)
			p.order[i] = COHORT_STAGE_TOP_K;
		p.n_order = n;
		OPEN_WITH(n_order, n > COHORT_ORDER_MAX ? "n_order" : NULL, COHORT_ORDER_MAX, n);
	}
	for (int stage = COHORT_STAGE_BIAS - 1; stage <= COHORT_STAGE_MIROSTAT + 1; stage++) {
		const bool above = stage > COHORT_STAGE_MIROSTAT, below = stage < COHORT_STAGE_BIAS;
		p.order[0] = (enum cohort_stage)stage;
		p.n_order = 1;
		OPEN_WITH(order, above || below ? "order" : NULL, above ? COHORT_STAGE_MIROSTAT : COHORT_STAGE_BIAS,
				stage);
	}
	NOT(n_bias, -1, 0, -1);
	p.n_bias = 1;
	IS_NULL(cohort_sampler_open, (&p, w.info.n_vocab, &made, err), "n_bias is 1, bias is NULL");
	p.bias = bias;
	p.n_bias = 2;
	OPEN_WITH(bias, NULL, 0, 0);
	static const cohort_token bad[] = {-1, INT32_MAX};
	for (size_t i = 0; i < 2; i++) {
		bias[1].token = i ? w.info.n_vocab : bad[0];
		p.bias = bias;
		p.n_bias = 2;
		REFUSED(cohort_sampler_open, params, (&p, w.info.n_vocab, &made, err), COHORT_E_ARG, "token", 1, -1,
				w.info.n_vocab, bias[1].token);
	}
	bias[1] = (struct cohort_logit_bias){w.info.n_vocab - 1, INFINITY};
	REFUSED(cohort_sampler_open, params, (&p, w.info.n_vocab, &made, err), COHORT_E_ARG, "bias", 1, -1, 0, 0);
	bias[1].bias = NAN;
	REFUSED(cohort_sampler_open, params, (&p, w.info.n_vocab, &made, err), COHORT_E_ARG, "bias", 1, -1, 0, 0);
	bias[1].bias = FLT_MAX;
	OPEN_WITH(bias, NULL, 0, 0);

	/* 256 breakers of 256 bytes, where DRY is on; their number is looked at in any case. */
	NOT(n_dry_breakers, -1, 0, -1);
	NOT(n_dry_breakers, 257, 256, 257);
	memset(longest, 'x', 257);
	for (size_t i = 0; i < 257; i++)
		breakers[i] = longest + 1;
#define BREAKERS(n) (p.dry_multiplier = 1, p.lexicon = w.lexicon, p.dry_breakers = breakers, p.n_dry_breakers = (n))
	BREAKERS(256);
	OPEN_WITH(n_dry_breakers, NULL, 0, 0);
	BREAKERS(257);
	OPEN_WITH(n_dry_breakers, "n_dry_breakers", 256, 257);
	BREAKERS(2);
	breakers[1] = longest;
	REFUSED(cohort_sampler_open, params, (&p, w.info.n_vocab, &made, err), COHORT_E_ARG, "dry_breakers", 1, -1, 256,
			257);
	breakers[1] = "";
	REFUSED(cohort_sampler_open, params, (&p, w.info.n_vocab, &made, err), COHORT_E_ARG, "dry_breakers", 1, -1, 1,
			0);
	p.dry_breakers = NULL;
	IS_NULL(cohort_sampler_open, (&p, w.info.n_vocab, &made, err), "dry_breakers is NULL");
	cohort_sampler_params_init(&p);
}

static void orders(void)
{
	char names[COHORT_ORDER_MAX * 6 + 7];

	GIVES(cohort_stage_name, stage, ((enum cohort_stage)0), NULL);
	GIVES(cohort_stage_name, stage, (COHORT_STAGE_BIAS) != NULL, true);
	GIVES(cohort_stage_name, stage, (COHORT_STAGE_MIROSTAT) != NULL, true);
	GIVES(cohort_stage_name, stage, ((enum cohort_stage)(COHORT_STAGE_MIROSTAT + 1)), NULL);
	IS_NULL(cohort_sampler_order_parse, (NULL, "top_k", err), "params is NULL");
	IS_NULL(cohort_sampler_order_parse, (&p, NULL, err), "names is NULL");
	for (int i = 0; i <= COHORT_ORDER_MAX; i++)
		memcpy(names + i * 6, "top_k;", 7);
	REFUSED(cohort_sampler_order_parse, names, (&p, names, err), COHORT_E_ARG, "n_order", -1, -1, COHORT_ORDER_MAX,
			COHORT_ORDER_MAX + 1);
	PASSES(cohort_sampler_order_parse, names, (&p, names + 6, err));
	assert_int_equal(p.n_order, COHORT_ORDER_MAX);
	cohort_sampler_params_init(&p);
}

void refuse_samplers(void **state)
{
	const int32_t n_vocab = w.info.n_vocab;
	struct cohort_sampler_rng rng = {1, 1};
	struct cohort_sampler *s = w.sampler;
	uint8_t *legal = malloc((size_t)n_vocab);
	cohort_token t;

	(void)state;
	assert_non_null(legal);
	NOTHING(cohort_sampler_params_init, (NULL));
	params();
	lists_of_params();
	orders();
	PASSES_AND(cohort_sampler_open, n_vocab, (NULL, 1, &made, err), cohort_sampler_free(made));
	IS_NULL(cohort_sampler_open, (&p, n_vocab, NULL, err), "out is NULL");
	RANGE(cohort_sampler_open, n_vocab, (&p, 0, &made, err), 1, 0);
	RANGE(cohort_sampler_open, n_vocab, (&p, -1, &made, err), 1, -1);
	NOTHING(cohort_sampler_free, (NULL));
	IS_NULL(cohort_sampler_clone, (NULL, &made, err), "sampler is NULL");
	IS_NULL(cohort_sampler_clone, (s, NULL, err), "out is NULL");
	PASSES_AND(cohort_sampler_clone, _, (s, &made, err), cohort_sampler_free(made));
	NOTHING(cohort_sampler_reset, (NULL));
	NOTHING(cohort_sampler_reseed, (NULL, 1, 1));
	NOTHING(cohort_sampler_rng_get, (NULL, &rng));
	NOTHING(cohort_sampler_rng_get, (s, NULL));
	rng.inc = 1;
	IS_NULL(cohort_sampler_rng_set, (NULL, &rng, err), "sampler is NULL");
	IS_NULL(cohort_sampler_rng_set, (s, NULL, err), "rng is NULL");
	PASSES(cohort_sampler_rng_set, _, (s, &rng, err));
	rng.inc = 2;
	REFUSED(cohort_sampler_rng_set, rng, (s, &rng, err), COHORT_E_ARG, "inc", -1, -1, 1, 0);

	IS_NULL(cohort_sampler_sample, (NULL, w.logits, &t, err), "sampler is NULL");
	IS_NULL(cohort_sampler_sample, (s, NULL, &t, err), "logits is NULL");
	IS_NULL(cohort_sampler_sample, (s, w.logits, NULL, err), "out is NULL");
	PASSES(cohort_sampler_sample, _, (s, w.logits, &t, err));
	IS_NULL(cohort_sampler_draw, (NULL, w.logits, &t, err), "sampler is NULL");
	IS_NULL(cohort_sampler_draw, (s, NULL, &t, err), "logits is NULL");
	IS_NULL(cohort_sampler_draw, (s, w.logits, NULL, err), "out is NULL");
	PASSES(cohort_sampler_draw, _, (s, w.logits, &t, err));
#define TOKEN(fn, param, bad, arguments) \
	REFUSED(fn, param, arguments, COHORT_E_ARG, "token", -1, -1, w.info.n_vocab, bad)
	IS_NULL(cohort_sampler_accept, (NULL, 1, err), "sampler is NULL");
	TOKEN(cohort_sampler_accept, token, -1, (s, -1, err));
	TOKEN(cohort_sampler_accept, token, n_vocab, (s, n_vocab, err));
	PASSES(cohort_sampler_accept, token, (s, n_vocab - 1, err));
	PASSES(cohort_sampler_accept, token, (s, 0, err));
	IS_NULL(cohort_sampler_prompt, (NULL, w.tokens, 2, err), "sampler is NULL");
	IS_NULL(cohort_sampler_prompt, (s, NULL, 2, err), "tokens is NULL");
	PASSES(cohort_sampler_prompt, _, (s, NULL, 0, err));
	TOKEN(cohort_sampler_prompt, tokens, n_vocab, (s, &n_vocab, 1, err));
	IS_NULL(cohort_sampler_permits, (NULL, 1, err), "sampler is NULL");
	TOKEN(cohort_sampler_permits, token, -1, (s, -1, err));
	TOKEN(cohort_sampler_permits, token, n_vocab, (s, n_vocab, err));
	PASSES(cohort_sampler_permits, token, (s, n_vocab - 1, err));
	IS_NULL(cohort_sampler_legal_get, (NULL, legal, err), "sampler is NULL");
	IS_NULL(cohort_sampler_legal_get, (s, NULL, err), "legal is NULL");
	PASSES(cohort_sampler_legal_get, _, (s, legal, err));
	GIVES(cohort_sampler_is_complete, _, (NULL), false);
	free(legal);
	refuse_end();
}

/* ---- Log-probabilities and scores ---- */

void refuse_logprobs(void **state)
{
	const int32_t n_vocab = w.info.n_vocab;
	struct cohort_sampler *s = w.sampler;
	struct cohort_logprob top[2];
	struct cohort_score score;
	float one, each[16];
	double entropy;
	cohort_token t;

	(void)state;
	IS_NULL(cohort_logprobs_get, (NULL, n_vocab, 1, &one, top, 2, &entropy, err), "logits is NULL");
	IS_NULL(cohort_logprobs_get, (w.logits, n_vocab, 1, &one, NULL, 2, &entropy, err), "top is NULL");
	PASSES(cohort_logprobs_get, _, (w.logits, n_vocab, -1, NULL, top, 2, &entropy, err));
	PASSES(cohort_logprobs_get, _, (w.logits, n_vocab, 1, &one, top, 2, NULL, err));
	PASSES(cohort_logprobs_get, n_top, (w.logits, n_vocab, 1, &one, NULL, 0, &entropy, err));
	RANGE(cohort_logprobs_get, n_vocab, (w.logits, 0, 0, &one, top, 2, &entropy, err), 1, 0);
	RANGE(cohort_logprobs_get, n_top, (w.logits, n_vocab, 1, &one, top, -1, &entropy, err), 0, -1);
	TOKEN(cohort_logprobs_get, token, -1, (w.logits, n_vocab, -1, &one, top, 2, &entropy, err));
	TOKEN(cohort_logprobs_get, token, n_vocab, (w.logits, n_vocab, n_vocab, &one, top, 2, &entropy, err));
	PASSES(cohort_logprobs_get, token, (w.logits, n_vocab, n_vocab - 1, &one, top, 2, &entropy, err));

	assert_int_equal(cohort_sampler_sample(s, w.logits, &t, NULL), COHORT_OK);
	IS_NULL(cohort_sampler_logprobs_get, (NULL, 1, &one, top, 2, &entropy, err), "sampler is NULL");
	IS_NULL(cohort_sampler_logprobs_get, (s, 1, &one, NULL, 2, &entropy, err), "top is NULL");
	PASSES(cohort_sampler_logprobs_get, _, (s, -1, NULL, top, 2, &entropy, err));
	PASSES(cohort_sampler_logprobs_get, _, (s, 1, &one, top, 2, NULL, err));
	RANGE(cohort_sampler_logprobs_get, n_top, (s, 1, &one, top, -1, &entropy, err), 0, -1);
	TOKEN(cohort_sampler_logprobs_get, token, -1, (s, -1, &one, top, 2, &entropy, err));
	TOKEN(cohort_sampler_logprobs_get, token, n_vocab, (s, n_vocab, &one, top, 2, &entropy, err));
	PASSES(cohort_sampler_logprobs_get, token, (s, n_vocab - 1, &one, top, 2, &entropy, err));

	IS_NULL(cohort_score_text, (NULL, 1, w.tokens, 4, each, &score, err), "context is NULL");
	IS_NULL(cohort_score_text, (w.ctx, 1, NULL, 4, each, &score, err), "tokens is NULL");
	IS_NULL(cohort_score_text, (w.ctx, 1, w.tokens, 4, each, NULL, err), "score is NULL");
	PASSES(cohort_score_text, seq, (w.ctx, REFUSE_SEQS - 1, w.tokens, 4, NULL, &score, err));
	RANGE(cohort_score_text, n_tokens, (w.ctx, 1, w.tokens, 0, each, &score, err), 1, 0);
	PASSES(cohort_score_text, n_tokens, (w.ctx, 1, w.tokens, 1, each, &score, err));
	REFUSED(cohort_score_text, seq, (w.ctx, -1, w.tokens, 4, each, &score, err), COHORT_E_BATCH, "seq-id", 0, -1,
			REFUSE_SEQS, -1);
	REFUSED(cohort_score_text, seq, (w.ctx, REFUSE_SEQS, w.tokens, 4, each, &score, err), COHORT_E_BATCH, "seq-id",
			0, REFUSE_SEQS, REFUSE_SEQS, REFUSE_SEQS);
	REFUSED(cohort_score_text, tokens, (w.ctx, 1, &n_vocab, 1, each, &score, err), COHORT_E_BATCH, "token", 0, 1,
			n_vocab, n_vocab);
	assert_int_equal(cohort_decode_one(w.ctx, 1, 0, 1, false, NULL), COHORT_OK);
	REFUSED(cohort_score_text, seq, (w.ctx, 1, w.tokens, 4, each, &score, err), COHORT_E_BATCH, "pos-start", 0, 1,
			1, 0);
	cohort_seq_clear(w.ctx);
	refuse_end();
}
