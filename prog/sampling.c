/* Sampling options: what the command line says, checked and turned into the library's values. */
#include "sampling.h"

#include "common.h"

#include "base/map.h"
#include "base/mem.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

enum { FILE_BYTES_MAX = 4 << 20 };

uint64_t seed_draw(void)
{
	struct timespec now;
	uint32_t seed;

	if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) == (ssize_t)sizeof seed)
		return seed;
	/* The kernel has none yet, or a sandbox keeps them away: a seed need not be a secret. */
	clock_gettime(CLOCK_REALTIME, &now);
	return (uint32_t)((uint64_t)now.tv_nsec * 2654435761U ^ (uint64_t)now.tv_sec ^ (uint64_t)getpid() << 16);
}

void sampling_seed(struct sampling *s)
{
	if (!s->seed_given)
		s->seed = seed_draw();
}

void sampling_tell_seed(const struct sampling *s, const char *prog)
{
	if (!s->seed_given && s->temperature > 0)
		fprintf(stderr, "%s: -seed %" PRIu64 " gives the same again\n", prog, s->seed);
}

void sampling_init(struct sampling *s, double top_p)
{
	*s = (struct sampling){.top_k = 40,
			.min_keep = 1,
			.repeat_last_n = 64,
			.dry_allowed_length = 2,
			.dry_last_n = -1,
			.temperature = 0.8,
			.top_p = top_p,
			.min_p = 0.05,
			.typical = 1,
			.top_n_sigma = -1,
			.xtc_threshold = 0.1,
			.dynatemp_exp = 1,
			.repeat_penalty = 1,
			.dry_base = 1.75,
			.mirostat_tau = 5,
			.mirostat_eta = 0.1};
}

void sampling_options(struct sampling *s, const char *top_p_help, struct opt *out)
{
	const struct opt opts[SAMPLING_OPTIONS] = {
			{"temperature", "temp", OPT_FLOAT, &s->temperature, 0, 100, "X",
					"0: always the likeliest token (default: 0.8)", NULL},
			{"top-k", NULL, OPT_INT, &s->top_k, 0, INT32_MAX, "N",
					"only the N likeliest tokens; 0: all (default: 40)", NULL},
			{"top-p", NULL, OPT_FLOAT, &s->top_p, 0, 1, "X", top_p_help, NULL},
			{"min-p", NULL, OPT_FLOAT, &s->min_p, 0, 1, "X",
					"only tokens at least X times as likely as the best (default: 0.05)", NULL},
			{"seed", "s", OPT_UINT64, &s->seed, OPT_DRAWN, 0, "N",
					"same seed, same text, on every machine (default: a new one, which is "
					"reported)",
					&s->seed_given},
			{"typical", "typical-p", OPT_FLOAT, &s->typical, 0, 1, "X",
					"only the most typical tokens with X of the mass; 1: all (default: 1)", NULL},
			{"top-n-sigma", "top-nsigma", OPT_FLOAT, &s->top_n_sigma, -1, 1000, "X",
					"only logits within X deviations of the best; 0 or less: all (default: -1)",
					NULL},
			{"xtc-probability", NULL, OPT_FLOAT, &s->xtc_probability, 0, 1, "X",
					"how often the likeliest tokens are left out (default: 0)", NULL},
			{"xtc-threshold", NULL, OPT_FLOAT, &s->xtc_threshold, 0, 1, "X",
					"which tokens those are: at least X likely (default: 0.1)", NULL},
			{"dynatemp-range", NULL, OPT_FLOAT, &s->dynatemp_range, 0, 100, "X",
					"temperature goes up and down by X with the entropy (default: 0)", NULL},
			{"dynatemp-exp", NULL, OPT_FLOAT, &s->dynatemp_exp, 0, 100, "X",
					"how it follows the entropy (default: 1)", NULL},
			{"repeat-last-n", NULL, OPT_INT, &s->repeat_last_n, -1, COHORT_HISTORY_MAX, "N",
					"tokens that penalties look back; 0: none, -1: 4096 (default: 64)", NULL},
			{"repeat-penalty", NULL, OPT_FLOAT, &s->repeat_penalty, 0.001, 1000, "X",
					"makes what was said less likely; 1: off (default: 1)", NULL},
			{"presence-penalty", NULL, OPT_FLOAT, &s->presence_penalty, -1000, 1000, "X",
					"taken off the logit of what was said (default: 0)", NULL},
			{"frequency-penalty", NULL, OPT_FLOAT, &s->frequency_penalty, -1000, 1000, "X",
					"taken off once for each time it was said (default: 0)", NULL},
			{"dry-multiplier", NULL, OPT_FLOAT, &s->dry_multiplier, 0, 1000, "X",
					"makes going on with a repetition less likely; 0: off (default: 0)", NULL},
			{"dry-base", NULL, OPT_FLOAT, &s->dry_base, 0, 1000, "X",
					"how fast that grows with its length (default: 1.75)", NULL},
			{"dry-allowed-length", NULL, OPT_INT, &s->dry_allowed_length, 0, 1 << 20, "N",
					"repetitions below this length are free (default: 2)", NULL},
			{"dry-penalty-last-n", NULL, OPT_INT, &s->dry_last_n, -1, COHORT_HISTORY_MAX, "N",
					"tokens that DRY looks back; 0: none, -1: 4096 (default: -1)", NULL},
			{"dry-sequence-breaker", NULL, OPT_LIST, &s->breakers, 0, 0, "TEXT",
					"ends a repetition (none: nothing does); repeatable (default: \\n : \" *)",
					NULL},
			{"mirostat", NULL, OPT_INT, &s->mirostat, 0, 2, "N",
					"targets a perplexity (mirostat): version 1 or 2; 0: off (default: 0)", NULL},
			{"mirostat-ent", "mirostat-tau", OPT_FLOAT, &s->mirostat_tau, 0, 1000, "X",
					"the surprise aimed at (default: 5)", NULL},
			{"mirostat-lr", "mirostat-eta", OPT_FLOAT, &s->mirostat_eta, 0, 1000, "X",
					"how fast it learns (default: 0.1)", NULL},
			{"min-keep", NULL, OPT_INT, &s->min_keep, 1, INT32_MAX, "N",
					"tokens that stay possible at least (default: 1)", NULL},
			{"logit-bias", "l", OPT_LIST, &s->biases, 0, 0, "ID+X",
					"added to the logit of token ID (ID-X: taken off, ID-inf: never); repeatable",
					NULL},
			{"samplers", NULL, OPT_STR, &s->samplers, 0, 0, "LIST",
					"stages in order, separated by ; (default: bias;grammar;penalties;dry;"
					"top_n_sigma;top_k;typical;top_p;min_p;xtc;temperature)", NULL},
			{"grammar", NULL, OPT_STR, &s->grammar, 0, 0, "TEXT",
					"only texts that this GBNF grammar matches", NULL},
			{"grammar-file", NULL, OPT_STR, &s->grammar_file, 0, 0, "FILE", "the same from a file", NULL},
			{"json-schema", "j", OPT_STR, &s->json_schema, 0, 0, "JSON",
					"only documents that are valid under this JSON schema; {}: any", NULL},
			{"json-schema-file", "jf", OPT_STR, &s->json_schema_file, 0, 0, "FILE",
					"the same from a file", NULL},
	};
	memcpy(out, opts, sizeof opts);
}

void sampling_release(struct sampling *s)
{
	cohort_grammar_free(s->g);
	cohort_lexicon_free(s->lexicon);
	mem_free(s->bias);
	mem_free(s->breaker_texts);
	mem_free(s->breaker_bytes);
	s->g = NULL;
	s->lexicon = NULL;
	s->bias = NULL;
	s->breaker_texts = NULL;
	s->breaker_bytes = NULL;
}

/* "15043+1.5", "15043-inf" */
static int read_biases(struct sampling *s, const char *prog)
{
	s->bias = mem_zalloc(s->biases.n, sizeof *s->bias);
	if (!s->bias)
		return out_of_memory(prog);
	for (size_t i = 0; i < s->biases.n; i++) {
		const char *text = s->biases.items[i];
		char *end, *last;
		const long long id = strtoll(text, &end, 10);
		const bool has_sign = *end == '+' || *end == '-';
		const double x = has_sign ? strtod(end, &last) : NAN;
		if (end == text || !has_sign || isnan(x) || *last || x == INFINITY)
			return bad_usage(prog,
					"-logit-bias expects a token and a number, like 15043+1 or 15043-inf, got '%s'",
					text);
		if (id < 0 || id >= s->n_vocab)
			return bad_usage(prog, "-logit-bias: token %lld; the vocabulary has 0 to %d", id,
					s->n_vocab - 1);
		s->bias[i] = (struct cohort_logit_bias){(cohort_token)id, (float)x};
	}
	s->p.bias = s->bias;
	s->p.n_bias = (int32_t)s->biases.n;
	return 0;
}

/* The escapes \n \t \\ \" of a breaker on the command line. */
static void unescape(const char *from, char *to)
{
	for (; *from; from++) {
		if (*from == '\\' && from[1] && strchr("nt\\\"", from[1])) {
			from++;
			*to++ = *from == 'n' ? '\n' : *from == 't' ? '\t' : *from;
		} else {
			*to++ = *from;
		}
	}
	*to = 0;
}

static int read_breakers(struct sampling *s, const char *prog)
{
	static const char *const usual[] = {"\n", ":", "\"", "*"};
	size_t n_bytes = 0, n = 0;

	if (s->breakers.n == 0) {
		s->p.dry_breakers = usual;
		s->p.n_dry_breakers = 4;
		return 0;
	}
	for (size_t i = 0; i < s->breakers.n; i++)
		n_bytes += strlen(s->breakers.items[i]) + 1;
	s->breaker_bytes = mem_alloc(n_bytes, 1);
	s->breaker_texts = mem_alloc(s->breakers.n, sizeof *s->breaker_texts);
	if (!s->breaker_bytes || !s->breaker_texts)
		return out_of_memory(prog);
	char *at = s->breaker_bytes;
	for (size_t i = 0; i < s->breakers.n; i++) {
		if (strcmp(s->breakers.items[i], "none") == 0)
			continue;
		s->breaker_texts[n++] = at;
		unescape(s->breakers.items[i], at);
		at += strlen(at) + 1;
	}
	s->p.dry_breakers = s->breaker_texts;
	s->p.n_dry_breakers = (int32_t)n;
	return 0;
}

static int open_grammar(struct sampling *s, const char *prog)
{
	const char *texts[] = {s->grammar, s->grammar_file, s->json_schema, s->json_schema_file};
	struct cohort_err err;
	char *bytes = NULL;
	size_t n = 0, i = 0, n_given = 0;

	for (size_t k = 0; k < 4; k++)
		n_given += texts[k] != NULL;
	if (n_given == 0)
		return 0;
	if (n_given > 1)
		return bad_usage(prog, "give one of -grammar, -grammar-file, -json-schema and -json-schema-file");
	while (!texts[i])
		i++;
	if (i % 2 && file_read(texts[i], FILE_BYTES_MAX, &bytes, &n, &err)) {
		fail(prog, &err);
		return EXIT_FILE;
	}
	const char *text = i % 2 ? bytes : texts[i];
	n = i % 2 ? n : strlen(text);
	const enum cohort_status st = i < 2 ? cohort_grammar_open(s->lexicon, text, n, NULL, &s->g, &err)
					    : cohort_grammar_open_schema(s->lexicon, text, n, &s->g, &err);
	mem_free(bytes);
	if (!st)
		return 0;
	fail(prog, &err);
	return st == COHORT_E_MEMORY ? EXIT_RUN : EXIT_USAGE;
}

int sampling_open(struct sampling *s, const char *prog, const struct cohort_model *model)
{
	struct cohort_sampler_params *p = &s->p;
	struct cohort_model_info info;
	struct cohort_err err;
	struct cohort_sampler *probe = NULL;

	cohort_model_info_get(model, &info);
	s->n_vocab = info.n_vocab;
	cohort_sampler_params_init(p);
	p->seed = s->seed;
	p->temperature = (float)s->temperature;
	p->top_k = (int32_t)s->top_k;
	p->top_p = (float)s->top_p;
	p->min_p = (float)s->min_p;
	p->min_keep = (int32_t)s->min_keep;
	p->penalty_last_n = (int32_t)s->repeat_last_n;
	p->repeat_penalty = (float)s->repeat_penalty;
	p->frequency_penalty = (float)s->frequency_penalty;
	p->presence_penalty = (float)s->presence_penalty;
	p->dry_multiplier = (float)s->dry_multiplier;
	p->dry_base = (float)s->dry_base;
	p->dry_allowed_length = (int32_t)s->dry_allowed_length;
	p->dry_penalty_last_n = (int32_t)s->dry_last_n;
	p->top_n_sigma = (float)s->top_n_sigma;
	p->typical_p = (float)s->typical;
	p->xtc_probability = (float)s->xtc_probability;
	p->xtc_threshold = (float)s->xtc_threshold;
	p->dynatemp_range = (float)s->dynatemp_range;
	p->dynatemp_exponent = (float)s->dynatemp_exp;
	p->mirostat = (int32_t)s->mirostat;
	p->mirostat_tau = (float)s->mirostat_tau;
	p->mirostat_eta = (float)s->mirostat_eta;
	if (s->samplers && cohort_sampler_order_parse(p, s->samplers, &err))
		return bad_usage(prog, "-samplers: %s", err.text);
	int rc = read_biases(s, prog);
	if (!rc)
		rc = read_breakers(s, prog);
	const bool texts =
			s->grammar || s->grammar_file || s->json_schema || s->json_schema_file || s->dry_multiplier > 0;
	if (!rc && texts && cohort_lexicon_open(model, &s->lexicon, &err))
		rc = fail(prog, &err);
	p->lexicon = s->lexicon;
	if (!rc)
		rc = open_grammar(s, prog);
	p->grammar = s->g;
	/* What the library refuses, before anything is computed. */
	if (!rc && cohort_sampler_open(p, s->n_vocab, &probe, &err)) {
		fail(prog, &err);
		rc = err.status == COHORT_E_ARG ? EXIT_USAGE : EXIT_RUN;
	}
	cohort_sampler_free(probe);
	return rc;
}

enum cohort_status sampling_sampler(const struct sampling *s, uint64_t stream, const cohort_token *prompt,
		size_t n_prompt, struct cohort_sampler **out, struct cohort_err *err)
{
	struct cohort_sampler_params p = s->p;
	struct cohort_sampler *made = NULL;

	p.stream = stream;
	enum cohort_status st = cohort_sampler_open(&p, s->n_vocab, &made, err);
	if (!st)
		st = cohort_sampler_prompt(made, prompt, n_prompt, err);
	if (st)
		cohort_sampler_free(made);
	else
		*out = made;
	return st;
}

void sampling_print(const struct sampling *s, FILE *out)
{
	fprintf(out, "temperature %g, top-k %" PRId64 ", top-p %g, min-p %g, seed %" PRIu64, s->temperature, s->top_k,
			s->top_p, s->min_p, s->seed);
	if (s->mirostat)
		fprintf(out, ", mirostat %" PRId64, s->mirostat);
	if (s->repeat_penalty != 1 || s->frequency_penalty != 0 || s->presence_penalty != 0)
		fprintf(out, ", penalties %g %g %g over %" PRId64, s->repeat_penalty, s->frequency_penalty,
				s->presence_penalty, s->repeat_last_n);
	if (s->dry_multiplier > 0)
		fprintf(out, ", DRY %g", s->dry_multiplier);
	if (s->samplers)
		fprintf(out, ", order %s", s->samplers);
	if (s->g)
		fprintf(out, ", %s", s->json_schema || s->json_schema_file ? "JSON schema" : "grammar");
}
