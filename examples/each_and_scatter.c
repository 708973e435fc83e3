/* Three prompts of different lengths through one model at once.
 *
 * scatter takes a span of tokens for each of several sequences (the prompts), each takes one token for each of several
 * sequences (a step of generation). Both are one pass through the weights, however many sequences there are.
 *
 * usage: each_and_scatter MODEL.gguf */
#include <cohort.h>

#include <stdio.h>
#include <string.h>

enum { N_SEQ = 3, N_STEPS = 24, PROMPT_MAX = 64 };

static const char *const prompts[N_SEQ] = {
	"Once upon a time",
	"The little dog was very happy because",
	"Tom and Lily went to the park. They",
};

static int fail(const struct cohort_err *err)
{
	fprintf(stderr, "each_and_scatter: %s\n", err->text);
	return 1;
}

static cohort_token best(const float *logits, int32_t n_vocab)
{
	cohort_token top = 0;
	for (cohort_token t = 1; t < n_vocab; t++)
		if (logits[t] > logits[top])
			top = t;
	return top;
}

static void print_token(const struct cohort_model *model, cohort_token token)
{
	size_t n;
	const char *bytes = cohort_token_bytes(model, token, false, &n);
	fwrite(bytes, 1, n, stdout);
}

static int generate(const struct cohort_model *model, struct cohort_context *ctx)
{
	cohort_token tokens[N_SEQ][PROMPT_MAX], made[N_SEQ][N_STEPS];
	struct cohort_scatter_item spans[N_SEQ];
	struct cohort_each_item steps[N_SEQ];
	struct cohort_model_info info;
	struct cohort_err err;
	int32_t at = 0;

	cohort_model_info_get(model, &info);
	for (int32_t s = 0; s < N_SEQ; s++) {
		size_t n;
		if (cohort_tokenize(model, prompts[s], strlen(prompts[s]), 0, tokens[s], PROMPT_MAX, &n, &err))
			return fail(&err);
		spans[s] = (struct cohort_scatter_item){
				.tokens = tokens[s], .n_tokens = (int32_t)n, .pos = 0, .seq = s, .want = true};
	}
	/* The prompts. Each one's last token has its logits at the index of that token in the whole. */
	if (cohort_decode_scatter(ctx, spans, N_SEQ, NULL, &err))
		return fail(&err);
	for (int32_t s = 0; s < N_SEQ; s++) {
		at += spans[s].n_tokens;
		steps[s] = (struct cohort_each_item){.token = best(cohort_logits_get(ctx, at - 1, &err), info.n_vocab),
				.pos = spans[s].n_tokens, .seq = s, .want = true};
		made[s][0] = steps[s].token;
	}
	/* One token for each sequence at a time; item i's logits have index i. */
	for (int step = 1; step < N_STEPS; step++) {
		if (cohort_decode_each(ctx, steps, N_SEQ, NULL, &err))
			return fail(&err);
		for (int32_t s = 0; s < N_SEQ; s++) {
			made[s][step] = steps[s].token = best(cohort_logits_get(ctx, s, &err), info.n_vocab);
			steps[s].pos++;
		}
	}
	for (int32_t s = 0; s < N_SEQ; s++) {
		printf("%d: %s", (int)s, prompts[s]);
		for (int step = 0; step < N_STEPS; step++)
			print_token(model, made[s][step]);
		printf("\n");
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct cohort_model *model = NULL;
	struct cohort_context *ctx = NULL;
	struct cohort_err err;
	int rc;

	if (argc != 2) {
		fprintf(stderr, "usage: each_and_scatter MODEL.gguf\n");
		return 2;
	}
	if (cohort_model_open(argv[1], NULL, &model, &err) || cohort_context_open(model, NULL, &ctx, &err))
		rc = fail(&err);
	else
		rc = generate(model, ctx);
	cohort_context_free(ctx);
	cohort_model_free(model);
	return rc;
}
