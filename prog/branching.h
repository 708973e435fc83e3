/* A prompt as a branch that searches begin at: what the programs that search share. */
#ifndef PROG_BRANCHING_H
#define PROG_BRANCHING_H

#include "cohort_search.h"
#include "sampling.h"

struct branching {
	const char *prog;
	const struct cohort_model *model;
	struct cohort_context *ctx;
	struct cohort_forest *forest;
	struct cohort_branch root;
};

/* For a search's ends, with n_ends 0: nothing ends a text. */
extern const cohort_token branching_no_ends[1];

/* For n branches that go on from a prompt by n_more tokens each. */
struct cohort_room_info branching_room(int64_t n_prompt, int64_t n_more, int64_t n, int64_t n_ctx);

/* What a search's failure comes to: as fail, and a plain word after Ctrl-C. */
int branching_fail(const struct branching *b, const struct cohort_err *err);

/* A context and a forest for n branches besides the prompt's. Returns 0, or an exit code after saying why. */
int branching_open(struct branching *b, int64_t n, int64_t n_ctx, int32_t n_threads);
/* The prompt, in the place of the one before it. */
int branching_start(struct branching *b, const struct sampling *s, const cohort_token *tokens, size_t n_tokens);
void branching_close(struct branching *b);

/* The text of tokens that go on from a prompt, without an end token, with a NUL behind; freed with mem_free. Returns
 * 0 or an exit code. */
int branching_text(const struct branching *b, const cohort_token *tokens, int32_t n_tokens, bool finished, char **out,
		size_t *n_out);

#endif
