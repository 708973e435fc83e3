/* How likely a text is, and the texts of a model's tokens for samplers.
 *
 * Invariants
 *  1. The sequence is as empty afterwards as it was before, also when a chunk fails.
 *  2. The caller's numbers are written when all are known: they wait in a copy of their own until then. */
#include "context/impl.h"

#include "base/fmath.h"
#include "base/fp.h"
#include "base/mem.h"
#include "sample/lexicon.h"

#include <string.h>

/* ---- Scores ---- */

enum { CHUNK = 32 }; /* rows whose logits are there at a time */

struct scoring {
	struct cohort_context *c;
	cohort_seq seq;
	const cohort_token *tokens;
	float *logprobs; /* [n_tokens] or NULL */
	double sum;
};

/* Tokens [from, to) go in; each says how likely the one after it is. */
static enum cohort_status score_chunk(struct scoring *s, int32_t from, int32_t to, struct cohort_err *err)
{
	const int32_t n_vocab = (int32_t)s->c->model->model.hp.n_vocab;
	cohort_pos pos[CHUNK];
	cohort_seq seq[CHUNK];
	uint8_t output[CHUNK];
	struct cohort_batch b;
	struct cohort_batch_raw raw = {.n_tokens = to - from,
			.n_seq_row_max = 1,
			.n_pos_row = 1,
			.tokens = (cohort_token *)(uintptr_t)(s->tokens + from),
			.pos = pos,
			.seq = seq,
			.output = output};

	for (int32_t i = 0; i < to - from; i++) {
		pos[i] = from + i;
		seq[i] = s->seq;
		output[i] = 1;
	}
	struct cohort_err e;
	enum cohort_status st = cohort_batch_view_raw(&b, &raw, &e);
	if (!st)
		st = cohort_decode(s->c, &b, &e);
	for (int32_t i = from; i < to && !st; i++) {
		float lp = 0;
		const float *logits = cohort_logits_get(s->c, i - from, &e);
		st = logits ? cohort_logprobs_get(logits, n_vocab, s->tokens[i + 1], &lp, NULL, 0, NULL, &e) : e.status;
		if (s->logprobs && !st)
			s->logprobs[i + 1] = lp;
		s->sum += st ? 0 : (double)lp;
	}
	cohort_batch_release(&b);
	if (st && err)
		*err = e;
	return st;
}

static enum cohort_status score_text(struct cohort_context *ctx, cohort_seq seq, const cohort_token *tokens,
		int32_t n_tokens, float *logprobs, struct cohort_score *score, struct cohort_err *err)
{
	struct scoring s = {.c = ctx, .seq = seq, .tokens = tokens};
	enum cohort_status st = COHORT_OK;

	if (!ctx || !tokens || !score)
		return err_set(err, COHORT_E_ARG, "%s is NULL", !ctx ? "context" : !tokens ? "tokens" : "score");
	if (err_range(err, "n_tokens", n_tokens, 1, INT32_MAX))
		return COHORT_E_ARG;
	if (!(ctx->p.outputs & COHORT_OUTPUT_LOGITS))
		return err_set(err, COHORT_E_ARG, "the context gives no logits");
	const int32_t n_vocab = (int32_t)ctx->model->model.hp.n_vocab;
	for (int32_t i = 0; i < n_tokens; i++)
		if (tokens[i] < 0 || tokens[i] >= n_vocab)
			return err_rule(err, COHORT_E_BATCH, "token", i, seq, n_vocab, tokens[i],
					"token %d: the vocabulary has 0 to %d", tokens[i], n_vocab - 1);
	if (seq < 0 || seq >= ctx->p.n_seq_max)
		return err_rule(err, COHORT_E_BATCH, "seq-id", 0, seq, ctx->p.n_seq_max, seq,
				"sequence %d: there are 0 to %d", seq, ctx->p.n_seq_max - 1);
	if (cohort_seq_pos_max(ctx, seq) >= 0)
		return err_rule(err, COHORT_E_BATCH, "pos-start", 0, seq, cohort_seq_pos_max(ctx, seq) + 1, 0,
				"sequence %d is not empty", seq);
	s.logprobs = logprobs ? mem_alloc((size_t)n_tokens, sizeof *logprobs) : NULL;
	if (logprobs && !s.logprobs)
		return err_set(err, COHORT_E_MEMORY, "out of memory for the scores of %d tokens", n_tokens);
	const int32_t chunk = ctx->p.n_batch < CHUNK ? ctx->p.n_batch : CHUNK;
	for (int32_t at = 0; at < n_tokens - 1 && !st; at += chunk)
		st = score_chunk(&s, at, at + chunk < n_tokens - 1 ? at + chunk : n_tokens - 1, err);
	if (cohort_seq_pos_max(ctx, seq) >= 0)
		cohort_seq_rm(ctx, seq, 0, -1, NULL);
	if (logprobs && !st) {
		s.logprobs[0] = 0;
		memcpy(logprobs, s.logprobs, (size_t)n_tokens * sizeof *logprobs);
	}
	mem_free(s.logprobs);
	if (st)
		return st;
	*score = (struct cohort_score){.n = n_tokens - 1, .logprob = s.sum, .perplexity = 1};
	if (score->n > 0)
		score->perplexity = fm_exp(-s.sum / (double)score->n);
	return COHORT_OK;
}

enum cohort_status cohort_score_text(struct cohort_context *ctx, cohort_seq seq, const cohort_token *tokens,
		int32_t n_tokens, float *logprobs, struct cohort_score *score, struct cohort_err *err)
{
	struct fp_mode fp;

	fp_enter(&fp);
	const enum cohort_status st = score_text(ctx, seq, tokens, n_tokens, logprobs, score, err);
	fp_leave(&fp);
	return st;
}

/* ---- Texts of tokens ---- */

static struct cohort_lexicon_token get(const void *arg, cohort_token t)
{
	const struct tok *tok = arg;
	struct cohort_lexicon_token out = {.is_end = tok_is_eog(tok, t)};

	out.bytes = tok_bytes(tok, t, false, &out.n_bytes);
	out.is_text = out.n_bytes > 0;
	if (!out.is_text)
		out.bytes = tok_bytes(tok, t, true, &out.n_bytes);
	return out;
}

enum cohort_status cohort_lexicon_open(
		const struct cohort_model *model, struct cohort_lexicon **out, struct cohort_err *err)
{
	if (!model || !out)
		return err_set(err, COHORT_E_ARG, "%s is NULL", !model ? "model" : "out");
	if (!model->tok)
		return err_set(err, COHORT_E_UNSUPPORTED, "the model has no tokeniser");
	return lexicon_open(tok_n_vocab(model->tok), get, model->tok, out, err);
}
