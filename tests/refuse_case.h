/* Rows of the table of refusals (tests/unit/test_refuse.c): calls of public functions with one argument that is NULL or
 * outside its range, the others valid, and what comes of it.
 *
 * A row names the function, the parameter that it is about (_ where that is the argument NULL) and the arguments. Calls
 * with an `err` are made twice: with a struct of which every field is compared, and with NULL, for the same status. A
 * wrong row is printed with its place, and the rows go on. */
#ifndef TESTS_REFUSE_CASE_H
#define TESTS_REFUSE_CASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cohort.h"
#include "cohort_engine.h"
#include "cohort_search.h"
#include "cohort_tools.h"

/* What the rows are called with, open from the first to the last. */
extern struct refuse_world {
	struct cohort_model *model; /* cohort-tiny */
	struct cohort_model_info info;
	struct cohort_context *ctx; /* logits: REFUSE_CTX positions, REFUSE_BATCH rows, REFUSE_SEQS sequences */
	struct cohort_context *pooled; /* logits, embeddings and their mean */
	struct cohort_lexicon *lexicon;
	struct cohort_grammar *grammar; /* takes "a" and "ab" */
	struct cohort_sampler *sampler;
	float *logits;                 /* [n_vocab] */
	cohort_token tokens[16];
	char dir[64];                  /* of the test's own */
} w;
enum { REFUSE_CTX = 128, REFUSE_BATCH = 8, REFUSE_UBATCH = 4, REFUSE_SEQS = 4 };

/* A path in the directory of the test's own; static. */
const char *refuse_path(const char *name);

/* What a call is to come to; `says` is the whole text, or NULL. */
struct refusal {
	enum cohort_status status;
	const char *rule;
	int64_t row, seq, expected, got;
	const char *says;
};

/* A row begins: err for its first call. */
struct cohort_err *refuse_begin(const char *file, int line, const char *name, const char *arguments, const char *param);
struct cohort_err *refuse_next(void); /* for the next one, while there is one */
bool refuse_on(void);
void refuse_check(int status, struct refusal want);
void refuse_true(bool ok, const char *what);
/* Status of what a call returned. */
int refuse_same(int status);
int refuse_pointer(const float *p);
/* The case ends: fails if a row did. */
void refuse_end(void);

#define REFUSE_STATUS(x) _Generic((x), const float *: refuse_pointer, default: refuse_same)(x)
#define REFUSE_CALLS(name, arguments, param) \
	for (struct cohort_err *err = refuse_begin(__FILE__, __LINE__, name, arguments, param); \
			(void)err, refuse_on(); err = refuse_next())

#define REFUSE_ROW(name, arguments, param, ...) \
	do { \
		REFUSE_CALLS(name, arguments, param) \
		{ \
			__VA_ARGS__; \
		} \
	} while (0)

/* Refused with status, rule, row, seq, expected, got. */
#define REFUSED(fn, param, arguments, ...) \
	REFUSE_ROW(#fn, #arguments, #param, \
			refuse_check(REFUSE_STATUS(fn arguments), (struct refusal){__VA_ARGS__, NULL}))
/* A number outside its range: E_ARG, its name as the rule, the bound that it is beyond, the number. */
#define RANGE(fn, param, arguments, bound, number) \
	REFUSE_ROW(#fn, #arguments, #param, \
			refuse_check(REFUSE_STATUS(fn arguments), \
					(struct refusal){COHORT_E_ARG, #param, -1, -1, bound, number, NULL}))
/* A NULL that is refused: E_ARG without a rule, and the whole text. */
#define IS_NULL(fn, arguments, text) \
	REFUSE_ROW(#fn, #arguments, "_", \
			refuse_check(REFUSE_STATUS(fn arguments), \
					(struct refusal){COHORT_E_ARG, NULL, -1, -1, 0, 0, text}))
/* What passes, and what ends it. */
#define PASSES(fn, param, arguments) \
	REFUSE_ROW(#fn, #arguments, #param, \
			refuse_check(REFUSE_STATUS(fn arguments), (struct refusal){.status = COHORT_OK}))
#define PASSES_AND(fn, param, arguments, ...) \
	REFUSE_ROW(#fn, #arguments, #param, \
			refuse_check(REFUSE_STATUS(fn arguments), (struct refusal){.status = COHORT_OK}); \
			__VA_ARGS__)
/* Functions without a status: what they return, or that nothing happens. */
#define GIVES(fn, param, arguments, value) \
	REFUSE_ROW(#fn, #arguments, #param, refuse_true((fn arguments) == (value), "gives something else than " #value))
#define NOTHING(fn, arguments) REFUSE_ROW(#fn, #arguments, "_", fn arguments)

void refuse_batch(void **state);
void refuse_tokens(void **state);
void refuse_texts(void **state);
void refuse_context(void **state);
void refuse_decode(void **state);
void refuse_outputs(void **state);
void refuse_seqs(void **state);
void refuse_states(void **state);
void refuse_adapters(void **state);
void refuse_grammars(void **state);
void refuse_samplers(void **state);
void refuse_logprobs(void **state);
void refuse_forests(void **state);
void refuse_branches(void **state);
void refuse_searches(void **state);
void refuse_strategies(void **state);
void refuse_engines(void **state);
void refuse_requests(void **state);
void refuse_caches(void **state);
void refuse_simulations(void **state);
void refuse_files(void **state);
void refuse_writers(void **state);
void refuse_models_written(void **state);
void refuse_templates(void **state);
#endif
