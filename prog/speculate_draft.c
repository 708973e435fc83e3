/* Guesses of a draft model: a smaller one with the same vocabulary, which runs ahead of all texts together.
 *
 * Invariants
 *  1. Between calls the draft's sequence i holds the cells of the first held[i] tokens of text i and no others; what
 * the text has beyond goes in with the next guess, several tokens at once.
 *  2. A guess is drawn with a copy of the text's sampler: it has the same values, the same past and the same next
 * random numbers, so that the two models agree wherever their logits are close. The text's own sampler is only read.
 *  3. Where the draft cannot take cells back (states, windows), it runs ahead in a copy of its sequence.
 *  4. What goes wrong with the draft's numbers ends a guess, not the text.
 *
 * It does not know whether its guesses are right. */
#include "speculate.h"

#include "common.h"

#include "base/err.h"
#include "base/mem.h"

#include <inttypes.h>
#include <string.h>

struct draft {
	struct cohort_model *m;
	struct cohort_model_info info;
	struct cohort_context *ctx;
	bool fork, greedy, ignore_eos;
	bool lost; /* its numbers for a text are not finite, nor would be the next time: it guesses no more */
	int32_t n_lines;
	int32_t *held; /* [n_lines] */
	int32_t *at; /* [n_lines]: lines that are under way */
	bool *forked; /* [n_lines] */
	struct cohort_sampler **samplers; /* [n_lines]: copies, while a guess is made */
	struct cohort_scatter_item *spans; /* [n_lines] */
	struct cohort_each_item *rows; /* [n_lines] */
};

/* ---- The vocabulary ---- */

static int differs(const struct draft_params *p, cohort_token t, const char *a, size_t n_a, const char *b, size_t n_b)
{
	char show_a[ERR_SHOW_BYTES], show_b[ERR_SHOW_BYTES];
	fprintf(stderr,
			"%s: the draft model %s has another vocabulary: token %d is '%s' there and '%s' in the model; "
			"a draft model must come from the same family\n",
			p->prog, p->path, t, err_show(show_b, b ? b : "", n_b), err_show(show_a, a ? a : "", n_a));
	return EXIT_MODEL;
}

static int same_vocabulary(const struct draft_params *p, const struct cohort_model *draft)
{
	struct cohort_model_info a, b;

	cohort_model_info_get(p->m, &a);
	cohort_model_info_get(draft, &b);
	for (cohort_token t = 0; t < a.n_vocab && t < b.n_vocab; t++) {
		size_t n_a = 0, n_b = 0;
		const char *text_a = cohort_token_bytes(p->m, t, true, &n_a);
		const char *text_b = cohort_token_bytes(draft, t, true, &n_b);
		if (n_a != n_b || (n_a > 0 && memcmp(text_a, text_b, n_a) != 0))
			return differs(p, t, text_a, n_a, text_b, n_b);
		if (cohort_token_is_eog(p->m, t) != cohort_token_is_eog(draft, t)) {
			fprintf(stderr, "%s: the draft model %s has another vocabulary: token %d ends a text in %s\n",
					p->prog, p->path, t,
					cohort_token_is_eog(draft, t) ? "it only" : "the model only");
			return EXIT_MODEL;
		}
	}
	if (a.n_vocab != b.n_vocab) {
		fprintf(stderr, "%s: the draft model %s has another vocabulary: %d tokens, and the model has %d\n",
				p->prog, p->path, b.n_vocab, a.n_vocab);
		return EXIT_MODEL;
	}
	return 0;
}

/* ---- Opening ---- */

static int open_context(struct draft *d, const struct draft_params *p)
{
	struct cohort_context_params cp;
	struct cohort_err err;
	const int64_t n_ctx = spec_ctx(&d->info, p->n_prompt, p->n_predict, p->n_lines, p->draft_max);

	cohort_context_params_init(&cp);
	cp.n_ctx = n_ctx < INT32_MAX ? (int32_t)n_ctx : INT32_MAX;
	cp.n_batch = p->n_lines > cp.n_batch ? p->n_lines : cp.n_batch;
	cp.n_seq_max = d->fork ? 2 * p->n_lines : p->n_lines;
	cp.n_threads = p->n_threads;
	cp.n_checkpoints = 0;
	cp.abort = stop_asked;
	if (cohort_context_open(d->m, &cp, &d->ctx, &err))
		return fail(p->prog, &err);
	const int rc = repack_all(d->ctx);
	return rc ? rc : cohort_warm_up(d->ctx, 1, 1, &err) ? fail(p->prog, &err) : 0;
}

int draft_open(const struct draft_params *p, struct draft **out)
{
	struct cohort_model_params mp;
	const size_t n = (size_t)p->n_lines;
	struct draft *d = mem_zalloc(1, sizeof *d);

	if (!d)
		return out_of_memory(p->prog);
	cohort_model_params_init(&mp);
	mp.isa = p->isa;
	int rc = load_model(p->prog, p->path, &mp, &d->m);
	if (!rc)
		rc = same_vocabulary(p, d->m);
	if (!rc) {
		cohort_model_info_get(d->m, &d->info);
		d->fork = spec_must_fork(&d->info);
		d->greedy = p->greedy;
		d->ignore_eos = p->ignore_eos;
		d->n_lines = p->n_lines;
		rc = open_context(d, p);
	}
	if (!rc) {
		d->held = mem_zalloc(n, sizeof *d->held);
		d->at = mem_zalloc(n, sizeof *d->at);
		d->forked = mem_zalloc(n, sizeof *d->forked);
		d->samplers = mem_zalloc(n, sizeof(struct cohort_sampler *));
		d->spans = mem_zalloc(n, sizeof *d->spans);
		d->rows = mem_zalloc(n, sizeof *d->rows);
		if (!d->held || !d->at || !d->forked || !d->samplers || !d->spans || !d->rows)
			rc = out_of_memory(p->prog);
	}
	if (rc)
		draft_free(d);
	else
		*out = d;
	return rc;
}

static void drop_samplers(struct draft *d)
{
	for (int32_t i = 0; d->samplers && i < d->n_lines; i++) {
		cohort_sampler_free(d->samplers[i]);
		d->samplers[i] = NULL;
	}
}

void draft_free(struct draft *d)
{
	if (!d)
		return;
	drop_samplers(d);
	mem_free(d->held);
	mem_free(d->at);
	mem_free(d->forked);
	mem_free(d->samplers);
	mem_free(d->spans);
	mem_free(d->rows);
	cohort_context_free(d->ctx);
	cohort_model_free(d->m);
	mem_free(d);
}

/* ---- Guessing ---- */

enum cohort_status draft_prefill(struct draft *d, const cohort_token *prompt, int32_t n_prompt, struct cohort_err *err)
{
	cohort_seq_clear(d->ctx);
	for (int32_t i = 0; i < d->n_lines; i++)
		d->held[i] = 0;
	d->lost = false;
	if (n_prompt > d->info.n_ctx_train)
		return COHORT_OK; /* too long for it: it never guesses */
	enum cohort_status st = cohort_decode_many(d->ctx, prompt, n_prompt, 0, 0, err);
	d->lost = st == COHORT_E_NUMERIC;
	if (d->lost)
		return COHORT_OK;
	for (int32_t i = 0; i < d->n_lines && !st; i++) {
		d->held[i] = n_prompt;
		if (i > 0)
			st = cohort_seq_cp(d->ctx, 0, i, 0, -1, err);
	}
	return st;
}

/* A status that is about the draft's numbers only: the guess ends with what it has. */
static enum cohort_status forgive(enum cohort_status st)
{
	return st == COHORT_E_NUMERIC || st == COHORT_NO_ROOM ? COHORT_OK : st;
}

static cohort_token likeliest(const float *logits, int32_t n)
{
	cohort_token best = 0;
	for (int32_t t = 1; t < n; t++)
		if (logits[t] > logits[best])
			best = t;
	return best;
}

/* The next token of line i's guess from output `row`; *more: whether it may go on behind it. */
static enum cohort_status draw(
		struct draft *d, struct spec_line *l, int32_t i, int32_t row, bool *more, struct cohort_err *err)
{
	const float *logits = cohort_logits_get(d->ctx, row, err);
	cohort_token t;

	*more = false;
	if (!logits)
		return err->status;
	if (d->greedy) {
		t = likeliest(logits, d->info.n_vocab);
	} else {
		/* No token left, or a grammar that is too ambiguous: there is no guess. */
		if (cohort_sampler_sample(d->samplers[i], logits, &t, err))
			return COHORT_OK;
	}
	l->guess[l->n_guess++] = t;
	*more = d->ignore_eos || !cohort_token_is_eog(d->m, t);
	return COHORT_OK;
}

/* What the texts have and the draft has not goes in; outputs are those of the last tokens. */
static enum cohort_status catch_up(
		struct draft *d, struct spec_line *lines, const int32_t *wants, int32_t *n_at, struct cohort_err *err)
{
	enum cohort_status st = COHORT_OK;
	int32_t n = 0, row = -1, kept = 0;

	for (int32_t i = 0; i < d->n_lines && !st; i++) {
		struct spec_line *l = &lines[i];
		if (wants[i] == 0 || l->n_text + wants[i] > d->info.n_ctx_train)
			continue;
		d->at[n] = i;
		d->spans[n++] = (struct cohort_scatter_item){
				l->text + d->held[i], l->n_text - d->held[i], d->held[i], i, true};
		if (!d->greedy)
			st = cohort_sampler_clone(l->sampler, &d->samplers[i], err);
	}
	if (!st)
		st = cohort_decode_scatter(d->ctx, d->spans, n, NULL, err);
	d->lost = st == COHORT_E_NUMERIC;
	for (int32_t k = 0; k < n && !st; k++) {
		const int32_t i = d->at[k];
		bool more = false;
		row += d->spans[k].n_tokens;
		d->held[i] = lines[i].n_text;
		st = draw(d, &lines[i], i, row, &more, err);
		if (!st && more && wants[i] > 1)
			d->at[kept++] = i;
	}
	*n_at = kept;
	return st;
}

/* One row for each guess that goes on. */
static enum cohort_status go_on(
		struct draft *d, struct spec_line *lines, const int32_t *wants, int32_t *n_at, struct cohort_err *err)
{
	int32_t kept = 0;

	for (int32_t k = 0; k < *n_at; k++) {
		const struct spec_line *l = &lines[d->at[k]];
		d->rows[k] = (struct cohort_each_item){l->guess[l->n_guess - 1], l->n_text + l->n_guess - 1,
				d->fork ? d->n_lines + d->at[k] : d->at[k], true};
	}
	enum cohort_status st = cohort_decode_each(d->ctx, d->rows, *n_at, NULL, err);
	for (int32_t k = 0; k < *n_at && !st; k++) {
		const int32_t i = d->at[k];
		bool more = false;
		d->held[i] += d->fork ? 0 : 1;
		st = draw(d, &lines[i], i, k, &more, err);
		if (!st && more && lines[i].n_guess < wants[i])
			d->at[kept++] = i;
	}
	*n_at = kept;
	return st;
}

enum cohort_status draft_guess(struct draft *d, struct spec_line *lines, const int32_t *wants, struct cohort_err *err)
{
	int32_t n = 0;

	if (d->lost)
		return COHORT_OK;
	enum cohort_status st = catch_up(d, lines, wants, &n, err);

	for (int32_t k = 0; d->fork && k < n && !st; k++) {
		st = cohort_seq_cp(d->ctx, d->at[k], d->n_lines + d->at[k], 0, -1, err);
		d->forked[d->at[k]] = !st;
	}
	while (!st && n > 0)
		st = go_on(d, lines, wants, &n, err);
	drop_samplers(d);
	return forgive(st);
}

enum cohort_status draft_settle(struct draft *d, int32_t i, int32_t n_text, struct cohort_err *err)
{
	enum cohort_status st = COHORT_OK;

	if (d->forked[i])
		st = cohort_seq_rm(d->ctx, d->n_lines + i, 0, -1, err);
	d->forked[i] = false;
	if (!st && d->held[i] > n_text) {
		st = cohort_seq_rm(d->ctx, i, n_text, -1, err);
		d->held[i] = n_text;
	}
	return st;
}
