/* Many texts to vectors through one engine, for the commands that need them. */
#ifndef PROG_EMBEDDER_H
#define PROG_EMBEDDER_H

#include "cohort_engine.h"
#include "common.h"
#include "opt.h"
#include "tokens.h"
#include "vectors.h"

/* The options they share. */
struct embed_opts {
	const char *model, *isa, *pooling;
	int64_t slots, batch, threads;
	bool threads_given;
	bool special; /* texts of special tokens become those tokens */
	struct load_opts load;
};
#define EMBED_OPTS_INIT \
	{ \
		.slots = 32, .batch = 512, .threads = threads_default() \
	}
#define OPTS_EMBED(e) \
	{"model", "m", OPT_STR, &(e)->model, 0, 0, "FILE", "GGUF model (default: the built-in one)", NULL}, \
			{"pooling", NULL, OPT_STR, &(e)->pooling, 0, 0, "mean|cls|last", \
					"of rows: mean, first or last (default: the model's own, else mean)", NULL}, \
			{"n-parallel", "np", OPT_INT, &(e)->slots, 1, 1024, "N", "texts at once (default: 32)", NULL}, \
			{"batch", "b", OPT_INT, &(e)->batch, 1, 1 << 20, "N", "rows of one step (default: 512)", \
					NULL}, \
			{"threads", "t", OPT_INT, &(e)->threads, 1, 1024, "N", \
					"compute threads (default: the CPUs that it may use)", &(e)->threads_given}, \
			{"isa", NULL, OPT_STR, &(e)->isa, 0, 0, ISA_ARG, ISA_HELP, NULL}, OPTS_LOAD(&(e)->load)

struct embedder {
	const char *prog;
	const struct embed_opts *opts;
	struct cohort_model *m;
	struct cohort_model_info info;
	struct added_tokens added;
	enum cohort_pooling pooling;
	struct cohort_engine *engine;
};

/* A text as tokens, and where it came from, for messages. */
struct embed_text {
	cohort_token *tokens; /* freed with mem_free */
	size_t n;
};

/* Loads the model and finds out how rows are pooled. Returns 0, or an exit code after saying why; release afterwards in
 * either case. */
int embedder_init(struct embedder *e, const char *prog, struct embed_opts *opts);
/* Opens the engine for texts of up to n_longest tokens; again for longer ones. */
int embedder_open(struct embedder *e, size_t n_longest);
void embedder_release(struct embedder *e);

/* The tokens of a text, with those that the model adds. One of more than n_max tokens is refused, with `what` (such as
 * "line 3") and both numbers in the message; with truncate its end is cut, behind which the model's own tokens stay.
 * *cut tells. Texts without any token are refused. */
int embedder_tokens(struct embedder *e, const char *what, const char *text, size_t n_bytes, size_t n_max, bool truncate,
		struct embed_text *out, bool *cut);

/* out[i] of [n, n_embd] becomes the vector of texts[i]. `label` begins the line of progress. */
int embedder_run(struct embedder *e, const struct embed_text *texts, size_t n, float *out, const char *label);

const char *pooling_name(enum cohort_pooling pooling);

#endif
