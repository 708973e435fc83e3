/* Speculative decoding: guesses for all texts verified in one batch, and plain decoding to compare with.
 *
 * Invariants
 *  1. Each token of a text is drawn by its one sampler, once, in order, from the logits of the row before it. Guesses
 *     decide which rows are computed together, never what is drawn: rows have the same bits in any batch, so the text
 *     is that of plain decoding.
 *  2. Between steps a text's sequence holds the cells of its first n_held tokens and no others, n_held < n_text, and
 *     its spare sequence is empty.
 *  3. A guess never reaches further than plain decoding may: it costs no room and no position that plain decoding would
 *     not take (but for the copies of forked sequences, which spec_cells counts).
 *  4. Where cells cannot be taken back (states, windows), the rows of the text go to both of its sequences and those of
 *     the guess to the spare one only, so that the text's own is never wrong; a guess that was right to its end makes
 *     the spare one the text's own.
 *
 * It does not know where guesses come from, nor what is printed. */
#include "speculate.h"

#include "common.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/pool.h"

#include <inttypes.h>

enum { ROWS = 512 }; /* of a batch, unless there are more texts */

bool spec_must_fork(const struct cohort_model_info *info)
{
	return info->recurrent || info->n_window > 0;
}

int64_t spec_ctx(const struct cohort_model_info *info, int64_t n_prompt, int64_t n_predict, int64_t n_lines,
		int64_t draft_max)
{
	const int64_t n_fork = spec_must_fork(info) ? 2 * (draft_max + 1) : 0;
	return ROOM(.n_seqs = n_lines, .n_tokens = n_prompt + n_predict, .n_prompt = n_prompt, .n_fork = n_fork,
			.n_more = 1).n_ctx_needed;
}

int spec_open(struct speculation *sp, int64_t n_ctx)
{
	struct cohort_context_params cp;
	struct cohort_model_info info;
	struct cohort_err err;
	const size_t n = (size_t)sp->n_lines;

	cohort_model_info_get(sp->m, &info);
	sp->fork = spec_must_fork(&info);
	sp->n_batch = sp->n_lines > ROWS ? sp->n_lines : ROWS;
	cohort_context_params_init(&cp);
	cp.n_ctx = (int32_t)n_ctx;
	cp.n_batch = sp->n_batch;
	cp.n_seq_max = sp->fork ? 2 * sp->n_lines : sp->n_lines;
	cp.n_threads = sp->n_threads;
	cp.n_checkpoints = 0;
	cp.abort = stop_asked;
	if (cohort_context_open(sp->m, &cp, &sp->ctx, &err) ||
			cohort_batch_init(&sp->batch, sp->n_batch, 0, sp->fork ? 2 : 1, &err))
		return fail(sp->prog, &err);
	const int rc = repack_all(sp->ctx);
	if (rc)
		return rc;
	if (cohort_warm_up(sp->ctx, 1, 1, &err))
		return fail(sp->prog, &err);
	sp->items = mem_alloc(n, sizeof *sp->items);
	sp->at = mem_alloc(n, sizeof *sp->at);
	sp->wants = mem_zalloc(n, sizeof *sp->wants);
	sp->lines = mem_zalloc(n, sizeof *sp->lines);
	if (!sp->items || !sp->at || !sp->wants || !sp->lines)
		return out_of_memory(sp->prog);
	for (size_t i = 0; i < n; i++) {
		struct spec_line *l = &sp->lines[i];
		l->text = mem_alloc((size_t)sp->n_prompt + (size_t)sp->n_predict, sizeof *l->text);
		l->guess = mem_alloc((size_t)sp->draft_max, sizeof *l->guess);
		lookup_init(&l->lookup, sp->ngram_min, sp->ngram_max);
		if (!l->text || !l->guess)
			return out_of_memory(sp->prog);
	}
	return 0;
}

void spec_release(struct speculation *sp)
{
	for (int32_t i = 0; sp->lines && i < sp->n_lines; i++) {
		cohort_sampler_free(sp->lines[i].sampler);
		lookup_release(&sp->lines[i].lookup);
		mem_free(sp->lines[i].text);
		mem_free(sp->lines[i].guess);
	}
	mem_free(sp->items);
	mem_free(sp->at);
	mem_free(sp->wants);
	mem_free(sp->lines);
	cohort_batch_release(&sp->batch);
	cohort_context_free(sp->ctx);
}

/* ---- What both ways of decoding share ---- */

static int failed(const struct speculation *sp, enum cohort_status st, const struct cohort_err *err)
{
	return !st ? 0 : st == COHORT_ABORTED ? EXIT_INTERRUPTED : fail(sp->prog, err);
}

static int32_t n_left(const struct speculation *sp, const struct spec_line *l)
{
	return sp->n_prompt + sp->n_predict - l->n_text;
}

/* The next token of a line, drawn from the logits of batch row i (-1: the last). */
static enum cohort_status draw(struct speculation *sp, struct spec_line *l, int32_t i, struct spec_stats *stats,
		cohort_token *out, struct cohort_err *err)
{
	const float *logits = cohort_logits_get(sp->ctx, i, err);
	enum cohort_status st = logits ? cohort_sampler_sample(l->sampler, logits, out, err) : err->status;

	if (st)
		return st;
	stats->n_tokens++;
	if (!sp->ignore_eos && cohort_token_is_eog(sp->m, *out)) {
		l->ended = l->done = true;
		return COHORT_OK;
	}
	l->text[l->n_text++] = *out;
	l->done = n_left(sp, l) == 0;
	if (sp->on_token && !sp->on_token(*out, sp->user))
		return err_set(err, COHORT_ABORTED, "nobody wants more of the text");
	return COHORT_OK;
}

static enum cohort_status begin(struct speculation *sp, struct spec_stats *stats, struct cohort_err *err)
{
	cohort_token t;
	enum cohort_status st = cohort_decode_many(sp->ctx, sp->prompt, sp->n_prompt, 0, 0, err);

	for (int32_t i = 0; i < sp->n_lines && !st; i++) {
		struct spec_line *l = &sp->lines[i];
		l->n_held = sp->n_prompt;
		if (i > 0)
			st = cohort_seq_cp(sp->ctx, 0, l->seq, 0, -1, err);
		if (!st)
			st = sampling_sampler(sp->s, (uint64_t)i, sp->prompt, (size_t)sp->n_prompt, &l->sampler, err);
		if (!st && !l->done)
			st = draw(sp, l, -1, stats, &t, err); /* copies see the same logits */
	}
	return st;
}

/* Texts back to the prompt, and the prompt decoded; each has its first token then. */
static int start(struct speculation *sp, struct spec_stats *stats)
{
	struct cohort_err err;
	const double started = clock_now();

	*stats = (struct spec_stats){0};
	cohort_seq_clear(sp->ctx);
	for (int32_t i = 0; i < sp->n_lines; i++) {
		struct spec_line *l = &sp->lines[i];
		cohort_sampler_free(l->sampler);
		l->sampler = NULL;
		for (int32_t k = 0; k < sp->n_prompt; k++)
			l->text[k] = sp->prompt[k];
		l->n_text = sp->n_prompt;
		l->n_held = 0;
		l->ended = false;
		l->done = sp->n_predict == 0;
		l->seq = i;
		l->spare = sp->n_lines + i;
		lookup_release(&l->lookup);
		odds_init(&l->odds, sp->draft_max, sp->n_lines);
		pace_init(&l->pace, sp->draft_min, sp->draft_max);
	}
	enum cohort_status st = begin(sp, stats, &err);
	if (!st && sp->draft)
		st = draft_prefill(sp->draft, sp->prompt, sp->n_prompt, &err);
	stats->prefill_s = clock_now() - started;
	return failed(sp, st, &err);
}

/* ---- Guesses verified ---- */

/* At most `most` tokens; at least draft_min, or none. A guess that is not worth its rows is kept as well: its first
 * token is compared with the text, so that luck is noticed when it turns. */
static enum cohort_status look_up(struct speculation *sp, struct spec_line *l, int32_t most, struct spec_stats *stats,
		struct cohort_err *err)
{
	int32_t n_found = 0;
	const enum cohort_status st = lookup_guess(&l->lookup, l->text, (size_t)l->n_text, l->guess, sp->draft_max,
			&n_found, &l->n_match, err);

	if (st || n_found == 0)
		return st;
	const int32_t n = odds_length(&l->odds, l->n_match);
	l->n_guess = n < most ? n : most;
	if (l->n_guess < sp->draft_min)
		l->n_guess = 0;
	stats->n_looked_up += l->n_guess > 0;
	stats->n_matched += (uint64_t)(l->n_guess > 0 ? l->n_match : 0);
	return COHORT_OK;
}

/* A guess for each line that wants one: no longer than what may still come, less the token that the last row gives. */
static enum cohort_status guess_all(struct speculation *sp, struct spec_stats *stats, struct cohort_err *err)
{
	const int32_t share = sp->n_batch / sp->n_lines;
	enum cohort_status st = COHORT_OK;
	bool any = false;

	for (int32_t i = 0; i < sp->n_lines && !st; i++) {
		struct spec_line *l = &sp->lines[i];
		l->n_guess = l->n_match = 0;
		l->drafted = false;
		sp->wants[i] = 0;
		if (l->done)
			continue;
		int32_t most = n_left(sp, l) - 1;
		if (most > share - (l->n_text - l->n_held))
			most = share - (l->n_text - l->n_held);
		if (sp->lookup)
			st = look_up(sp, l, most, stats, err);
		if (l->n_guess > 0 || !sp->draft)
			continue;
		const int32_t want = pace_next(&l->pace);
		sp->wants[i] = want < most ? want : most;
		if (sp->wants[i] < sp->draft_min)
			sp->wants[i] = 0;
		any |= l->drafted = sp->wants[i] > 0;
	}
	if (!st && any)
		st = draft_guess(sp->draft, sp->lines, sp->wants, err);
	for (int32_t i = 0; i < sp->n_lines && !st; i++)
		if (sp->lines[i].n_guess < sp->draft_min)
			sp->lines[i].n_guess = 0;
	return st;
}

/* What came of a step's guess, or would have come of it: `next` is the first token that was drawn. */
static void learn(struct spec_line *l, cohort_token next)
{
	if (l->drafted && l->n_guess > 0)
		pace_tell(&l->pace, l->n_guess, l->n_right);
	else if (!l->drafted && l->n_guess > 0)
		odds_tell(&l->odds, l->n_match, l->n_guess, l->n_right);
	else if (!l->drafted && l->n_match > 0)
		odds_tell(&l->odds, l->n_match, 1, next == l->guess[0]);
}

/* The rows of a line: its tokens that are not held yet, then the guess; logits from its last token on. */
static enum cohort_status add_rows(struct speculation *sp, struct spec_line *l, struct cohort_err *err)
{
	const bool fork = sp->fork && l->n_guess > 0;
	const cohort_seq both[2] = {l->seq, l->spare};
	enum cohort_status st = COHORT_OK;

	for (int32_t k = l->n_held; k < l->n_text && !st; k++)
		st = cohort_batch_add(&sp->batch, l->text[k], k, both, fork ? 2 : 1, k == l->n_text - 1, err);
	for (int32_t k = 0; k < l->n_guess && !st; k++)
		st = cohort_batch_add(&sp->batch, l->guess[k], l->n_text + k, &both[fork], 1, true, err);
	return st;
}

static enum cohort_status decode(struct speculation *sp, struct cohort_err *err)
{
	enum cohort_status st = COHORT_OK;

	cohort_batch_reset(&sp->batch);
	for (int32_t i = 0; i < sp->n_lines && !st; i++) {
		struct spec_line *l = &sp->lines[i];
		if (l->done)
			continue;
		if (sp->fork && l->n_guess > 0 && cohort_seq_pos_max(sp->ctx, l->spare) < 0)
			st = cohort_seq_cp(sp->ctx, l->seq, l->spare, 0, -1, err);
		sp->at[i] = cohort_batch_size(&sp->batch) + l->n_text - l->n_held - 1;
		if (!st)
			st = add_rows(sp, l, err);
	}
	return st ? st : cohort_decode(sp->ctx, &sp->batch, err);
}

/* The decode of a step. What only a guess can bring about, a logit that is not finite or no room, shall not end a text
 * that plain decoding can go on with: then it is repeated without guesses. */
static enum cohort_status decode_step(struct speculation *sp, struct spec_stats *stats, struct cohort_err *err)
{
	enum cohort_status st = decode(sp, err);

	if (st != COHORT_E_NUMERIC && st != COHORT_NO_ROOM)
		return st;
	for (int32_t i = 0; i < sp->n_lines; i++) {
		struct spec_line *l = &sp->lines[i];
		l->n_right = 0;
		if (l->n_guess > 0)
			learn(l, -1);
		l->n_guess = l->n_match = 0;
		const enum cohort_status rm = sp->fork ? cohort_seq_rm(sp->ctx, l->spare, 0, -1, err) : COHORT_OK;
		if (rm)
			return rm;
	}
	stats->n_retried++;
	return decode(sp, err);
}

/* Draws tokens as long as the guess had them right, and the one after. */
static enum cohort_status verify(struct speculation *sp, struct spec_line *l, int32_t row, struct spec_stats *stats,
		struct cohort_err *err)
{
	cohort_token t = -1, first = -1;
	enum cohort_status st = COHORT_OK;

	l->n_right = 0;
	for (int32_t k = 0; k <= l->n_guess && !l->done; k++) {
		st = draw(sp, l, row + k, stats, &t, err);
		first = k == 0 ? t : first;
		if (st || k == l->n_guess || t != l->guess[k])
			break;
		l->n_right++;
	}
	if (!st)
		learn(l, first);
	stats->n_checks++;
	stats->n_guessed += (uint64_t)l->n_guess;
	stats->n_right += (uint64_t)l->n_right;
	return st;
}

/* The spare sequence has the text's rows and the guess: it becomes the text's own if the wrong rest can be taken off
 * (always when there is none; with windows mostly; with states never). Otherwise the text's own has not moved past what
 * is certain, and the tokens that were right are decoded again, along with the next guess. */
static enum cohort_status settle_fork(
		struct speculation *sp, struct spec_line *l, int32_t n_was, struct cohort_err *err)
{
	const int32_t n_good = n_was + l->n_right;
	bool take = l->n_right > 0;

	if (l->n_guess == 0)
		return COHORT_OK;
	if (take && l->n_right < l->n_guess) {
		const enum cohort_status st = cohort_seq_rm(sp->ctx, l->spare, n_good, -1, err);
		if (st && st != COHORT_E_ARG)
			return st;
		take = !st;
	}
	if (take) {
		const cohort_seq seq = l->seq;
		l->seq = l->spare;
		l->spare = seq;
		l->n_held = n_good;
	}
	return cohort_seq_rm(sp->ctx, l->spare, 0, -1, err);
}

/* Cells are those of the text again. n_was: its tokens before the step. */
static enum cohort_status settle(struct speculation *sp, int32_t i, int32_t n_was, struct cohort_err *err)
{
	struct spec_line *l = &sp->lines[i];
	enum cohort_status st = COHORT_OK;

	l->n_held = n_was;
	if (sp->fork) {
		st = settle_fork(sp, l, n_was, err);
	} else {
		l->n_held += l->n_right;
		if (l->n_right < l->n_guess)
			st = cohort_seq_rm(sp->ctx, l->seq, l->n_held, -1, err);
	}
	if (!st && l->done)
		st = cohort_seq_rm(sp->ctx, l->seq, 0, -1, err);
	if (!st && sp->draft)
		st = draft_settle(sp->draft, i, l->done ? 0 : n_was + l->n_right, err);
	return st;
}

static bool all_done(const struct speculation *sp)
{
	for (int32_t i = 0; i < sp->n_lines; i++)
		if (!sp->lines[i].done)
			return false;
	return true;
}

static enum cohort_status step(struct speculation *sp, struct spec_stats *stats, struct cohort_err *err)
{
	const double started = clock_now();
	enum cohort_status st = guess_all(sp, stats, err);

	stats->guess_s += clock_now() - started;
	if (!st)
		st = decode_step(sp, stats, err);
	for (int32_t i = 0; i < sp->n_lines && !st; i++) {
		struct spec_line *l = &sp->lines[i];
		const int32_t n_was = l->n_text;
		if (l->done)
			continue;
		st = verify(sp, l, sp->at[i], stats, err);
		if (!st)
			st = settle(sp, i, n_was, err);
	}
	stats->n_steps++;
	return st;
}

int spec_run(struct speculation *sp, struct spec_stats *stats)
{
	struct cohort_err err;
	int rc = start(sp, stats);
	const double started = clock_now();

	while (!rc && !all_done(sp)) {
		rc = failed(sp, step(sp, stats, &err), &err);
		if (!sp->on_token)
			progress_line(started, "%" PRIu64 " tokens, %.1f/s", stats->n_tokens,
					(double)stats->n_tokens / (clock_now() - started));
	}
	progress_end();
	stats->generate_s = clock_now() - started;
	return rc;
}

/* ---- Plain decoding ---- */

static enum cohort_status plain_step(struct speculation *sp, struct spec_stats *stats, struct cohort_err *err)
{
	cohort_token t;
	int32_t n = 0;

	for (int32_t i = 0; i < sp->n_lines; i++) {
		struct spec_line *l = &sp->lines[i];
		if (l->done)
			continue;
		sp->at[n] = i;
		sp->items[n++] = (struct cohort_each_item){l->text[l->n_text - 1], l->n_text - 1, l->seq, true};
	}
	enum cohort_status st = cohort_decode_each(sp->ctx, sp->items, n, NULL, err);
	for (int32_t k = 0; k < n && !st; k++)
		st = draw(sp, &sp->lines[sp->at[k]], k, stats, &t, err);
	stats->n_steps++;
	return st;
}

int spec_plain(struct speculation *sp, struct spec_stats *stats)
{
	struct cohort_err err;
	struct draft *draft = sp->draft;

	sp->draft = NULL;
	int rc = start(sp, stats);
	sp->draft = draft;
	const double started = clock_now();
	while (!rc && !all_done(sp)) {
		rc = failed(sp, plain_step(sp, stats, &err), &err);
		progress_line(started, "plain decoding: %" PRIu64 " tokens, %.1f/s", stats->n_tokens,
				(double)stats->n_tokens / (clock_now() - started));
	}
	progress_end();
	stats->generate_s = clock_now() - started;
	return rc;
}
