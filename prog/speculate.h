/* cohort speculate, in parts: the texts and the loop that verifies guesses (speculate_loop.c), guesses of a draft model
 * (speculate_draft.c), guesses from the text itself (speculate_guess.c). */
#ifndef PROG_SPECULATE_H
#define PROG_SPECULATE_H

#include "cohort.h"
#include "sampling.h"
#include "speculate_guess.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct spec_line {
	cohort_token *text; /* [n_prompt + n_predict]: the prompt, then what came of it */
	int32_t n_text;
	struct cohort_sampler *sampler;
	bool ended, done; /* by an end token; for whatever reason */

	cohort_seq seq; /* holds the cells of the first n_held tokens */
	cohort_seq spare; /* where guesses go when cells cannot be taken back; empty between steps */
	int32_t n_held;

	cohort_token *guess; /* [draft_max] */
	int32_t n_guess, n_right;
	int32_t n_match; /* behind which lookup made its guess, or would have; 0: it found nothing */
	bool drafted; /* the guess is the draft model's */
	struct lookup lookup;
	struct odds odds; /* of lookups */
	struct pace pace; /* of the draft model */
};

struct spec_stats {
	uint64_t n_tokens; /* end tokens included */
	uint64_t n_checks; /* rows of guesses verified, each text counted by itself */
	uint64_t n_steps; /* decodes */
	uint64_t n_guessed, n_right;
	uint64_t n_looked_up, n_matched; /* guesses that lookup made, and the lengths of the matches behind them */
	uint64_t n_retried; /* decodes that failed with guesses and were repeated without */
	double prefill_s, guess_s, generate_s; /* guessing is part of generating */
};

struct draft; /* opaque: see below */

struct speculation {
	const char *prog;
	const struct cohort_model *m;
	const struct sampling *s;
	const cohort_token *prompt; /* [n_prompt] */
	int32_t n_prompt, n_predict, n_lines, n_threads;
	int32_t draft_min, draft_max, ngram_min, ngram_max;
	bool ignore_eos, lookup;
	struct draft *draft; /* or NULL */
	/* Each token of the only text as it comes, or NULL. False ends the text, as an interruption does. */
	bool (*on_token)(cohort_token token, void *user);
	void *user;

	struct cohort_context *ctx;
	bool fork; /* the model cannot take cells back: guesses go to the spare sequence */
	int32_t n_batch;
	struct cohort_batch batch;
	struct spec_line *lines; /* [n_lines] */
	struct cohort_each_item *items; /* [n_lines], of plain decoding */
	int32_t *at, *wants; /* [n_lines] */
};

/* The n_ctx that the lines need, so that none ever waits. */
int64_t spec_ctx(const struct cohort_model_info *info, int64_t n_prompt, int64_t n_predict, int64_t n_lines,
		int64_t draft_max);
/* Whether sequences of the model cannot be made shorter at will: states, and windows that let cells go. */
bool spec_must_fork(const struct cohort_model_info *info);
/* Opens the context with n_ctx tokens and makes room for the texts. What the caller sets is above `ctx`. Like the
 * functions below it says on stderr what went wrong and returns 0 or an exit code. */
int spec_open(struct speculation *sp, int64_t n_ctx);
/* Texts with guesses, or one row per text and step. Both begin anew; on interruption the texts are what there is. */
int spec_run(struct speculation *sp, struct spec_stats *stats);
int spec_plain(struct speculation *sp, struct spec_stats *stats);
void spec_release(struct speculation *sp);

/* The draft model: loaded, with the same vocabulary as m, or refused with the first difference. n_ctx as spec_ctx
 * says for it. */
struct draft_params {
	const char *prog, *path, *isa;
	const struct cohort_model *m;
	int32_t n_prompt, n_predict, n_lines, n_threads, draft_max;
	bool greedy; /* its likeliest token; otherwise what the text's sampler would draw from its logits */
	bool ignore_eos;
};
int draft_open(const struct draft_params *params, struct draft **out);
void draft_free(struct draft *d);
/* Takes the prompt in, for all lines; what it held before is gone. */
enum cohort_status draft_prefill(struct draft *d, const cohort_token *prompt, int32_t n_prompt, struct cohort_err *err);
/* Guesses wants[i] tokens for line i (0: none) into lines[i].guess, for all of them together; fewer where it ends. */
enum cohort_status draft_guess(struct draft *d, struct spec_line *lines, const int32_t *wants, struct cohort_err *err);
/* Of line i the first n_text tokens stand; what was guessed beyond is forgotten. */
enum cohort_status draft_settle(struct draft *d, int32_t i, int32_t n_text, struct cohort_err *err);

#endif
