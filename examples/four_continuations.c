/* Four continuations of one prompt, by hand, with a batch.
 *
 * The rows of the prompt belong to all four sequences, so it is computed once. Then every step is one batch with one
 * row for each sequence that goes on: four tokens for one pass through the weights. Each sequence draws with a stream
 * of its own and has a text of its own.
 *
 * usage: four_continuations MODEL.gguf */
#include <cohort.h>

#include <stdio.h>

enum { N_SEQ = 4, N_TOKENS = 24, PROMPT_MAX = 64 };

static const char prompt[] = "Once upon a time";

struct line {
	struct cohort_sampler *sampler;
	cohort_token tokens[N_TOKENS];
	int n;
	int32_t row; /* of the last batch: where its logits are; -1: it has ended */
};

/* Draws a token for every sequence that goes on and puts its row into the batch. */
static enum cohort_status draw(const struct cohort_model *model, struct cohort_context *ctx, struct line *lines,
		struct cohort_batch *batch, cohort_pos pos, struct cohort_err *err)
{
	enum cohort_status st = COHORT_OK;

	cohort_batch_reset(batch);
	for (cohort_seq s = 0; s < N_SEQ && !st; s++) {
		struct line *l = &lines[s];
		cohort_token token;
		if (l->row < 0)
			continue;
		st = cohort_sampler_sample(l->sampler, cohort_logits_get(ctx, l->row, err), &token, err);
		if (st)
			break;
		if (cohort_token_is_eog(model, token)) {
			l->row = -1;
			continue;
		}
		l->tokens[l->n++] = token;
		l->row = cohort_batch_size(batch);
		st = cohort_batch_add(batch, token, pos, &s, 1, true, err);
	}
	return st;
}

static enum cohort_status generate(const struct cohort_model *model, struct cohort_context *ctx, struct line *lines,
		struct cohort_batch *batch, struct cohort_err *err)
{
	static const cohort_seq all[N_SEQ] = {0, 1, 2, 3};
	cohort_token tokens[PROMPT_MAX];
	enum cohort_status st;
	size_t n;

	st = cohort_tokenize(model, prompt, sizeof prompt - 1, 0, tokens, PROMPT_MAX, &n, err);
	const int32_t n_prompt = st ? 0 : (int32_t)n;
	for (int32_t i = 0; i < n_prompt && !st; i++)
		st = cohort_batch_add(batch, tokens[i], i, all, N_SEQ, i == n_prompt - 1, err);
	for (int s = 0; s < N_SEQ; s++)
		lines[s].row = n_prompt - 1; /* the first token of each comes from the same logits */
	for (int i = 0; i < N_TOKENS && !st && !cohort_batch_is_empty(batch); i++) {
		st = cohort_decode(ctx, batch, err);
		if (!st)
			st = draw(model, ctx, lines, batch, n_prompt + i, err);
	}
	return st;
}

static void print(const struct cohort_model *model, const struct line *l)
{
	printf("%s", prompt);
	for (int i = 0; i < l->n; i++) {
		size_t n_bytes;
		const char *bytes = cohort_token_bytes(model, l->tokens[i], false, &n_bytes);
		fwrite(bytes, 1, n_bytes, stdout);
	}
	printf("\n\n");
}

int main(int argc, char **argv)
{
	struct line lines[N_SEQ] = {{.n = 0}};
	struct cohort_batch batch = {0};
	struct cohort_context_params cp;
	struct cohort_sampler_params sp;
	struct cohort_model_info info;
	struct cohort_context *ctx = NULL;
	struct cohort_model *model = NULL;
	struct cohort_err err;
	enum cohort_status st;

	if (argc != 2) {
		fprintf(stderr, "usage: four_continuations MODEL.gguf\n");
		return 2;
	}
	cohort_context_params_init(&cp);
	cp.n_seq_max = N_SEQ;
	st = cohort_model_open(argv[1], NULL, &model, &err);
	if (!st)
		st = cohort_context_open(model, &cp, &ctx, &err);
	if (!st)
		st = cohort_batch_init(&batch, PROMPT_MAX, 0, N_SEQ, &err);
	for (int s = 0; s < N_SEQ && !st; s++) {
		cohort_model_info_get(model, &info);
		cohort_sampler_params_init(&sp);
		sp.seed = 7;
		sp.stream = (uint64_t)s;
		st = cohort_sampler_open(&sp, info.n_vocab, &lines[s].sampler, &err);
	}
	if (!st)
		st = generate(model, ctx, lines, &batch, &err);
	for (int s = 0; s < N_SEQ && !st; s++)
		print(model, &lines[s]);
	if (st)
		fprintf(stderr, "four_continuations: %s\n", err.text);
	for (int s = 0; s < N_SEQ; s++)
		cohort_sampler_free(lines[s].sampler);
	cohort_batch_release(&batch);
	cohort_context_free(ctx);
	cohort_model_free(model);
	return st ? 1 : 0;
}
