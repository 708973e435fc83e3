/* The smallest complete program: a prompt, and how the model goes on with it.
 *
 * Open a model and a context, turn the prompt into tokens, decode them; then again and again draw a token from the
 * logits, print it and decode it.
 *
 * usage: hello MODEL.gguf */
#include <cohort.h>

#include <stdio.h>

enum { N_TOKENS = 32, PROMPT_MAX = 64 };

static enum cohort_status go_on(const struct cohort_model *model, struct cohort_context *ctx,
		struct cohort_sampler *sampler, struct cohort_err *err)
{
	static const char prompt[] = "Once upon a time";
	cohort_token tokens[PROMPT_MAX], token;
	enum cohort_status st;
	size_t n_prompt, n_bytes;

	st = cohort_tokenize(model, prompt, sizeof prompt - 1, 0, tokens, PROMPT_MAX, &n_prompt, err);
	if (!st)
		st = cohort_decode_many(ctx, tokens, (int32_t)n_prompt, 0, 0, err);
	printf("%s", prompt);
	for (int i = 0; i < N_TOKENS && !st; i++) {
		st = cohort_sampler_sample(sampler, cohort_logits_get(ctx, -1, err), &token, err);
		if (st || cohort_token_is_eog(model, token))
			break;
		const char *bytes = cohort_token_bytes(model, token, false, &n_bytes);
		fwrite(bytes, 1, n_bytes, stdout);
		st = cohort_decode_one(ctx, token, (cohort_pos)n_prompt + i, 0, true, err);
	}
	printf("\n");
	return st;
}

int main(int argc, char **argv)
{
	struct cohort_sampler_params params;
	struct cohort_model_info info;
	struct cohort_sampler *sampler = NULL;
	struct cohort_context *ctx = NULL;
	struct cohort_model *model = NULL;
	struct cohort_err err;
	enum cohort_status st;

	if (argc != 2) {
		fprintf(stderr, "usage: hello MODEL.gguf\n");
		return 2;
	}
	st = cohort_model_open(argv[1], NULL, &model, &err);
	if (!st)
		st = cohort_context_open(model, NULL, &ctx, &err);
	if (!st) {
		cohort_model_info_get(model, &info);
		cohort_sampler_params_init(&params);
		st = cohort_sampler_open(&params, info.n_vocab, &sampler, &err);
	}
	if (!st)
		st = go_on(model, ctx, sampler, &err);
	if (st)
		fprintf(stderr, "hello: %s\n", err.text);
	cohort_sampler_free(sampler);
	cohort_context_free(ctx);
	cohort_model_free(model);
	return st ? 1 : 0;
}
