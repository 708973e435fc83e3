/* The likeliest continuation of a prompt: generate MODEL.gguf PROMPT */
#include <cohort.h>

#include <stdio.h>
#include <string.h>

static int fail(const struct cohort_err *err)
{
	fprintf(stderr, "generate: %s\n", err->text);
	return 1;
}

int main(int argc, char **argv)
{
	struct cohort_model *model;
	struct cohort_context *ctx;
	struct cohort_model_info info;
	struct cohort_err err;
	cohort_token tokens[256];
	size_t n;

	if (argc != 3)
		return fputs("usage: generate MODEL.gguf PROMPT\n", stderr), 2;
	if (cohort_model_open(argv[1], NULL, &model, &err) || cohort_context_open(model, NULL, &ctx, &err) ||
			cohort_tokenize(model, argv[2], strlen(argv[2]), 0, tokens, 128, &n, &err) ||
			cohort_decode_many(ctx, tokens, (int32_t)n, 0, 0, &err))
		return fail(&err);
	cohort_model_info_get(model, &info);
	printf("%s", argv[2]);
	for (int i = 0; i < 24; i++) {
		const float *logits = cohort_logits_get(ctx, -1, &err);
		cohort_token best = 0;
		for (cohort_token t = 1; logits && t < info.n_vocab; t++)
			best = logits[t] > logits[best] ? t : best;
		size_t n_bytes;
		const char *bytes = cohort_token_bytes(model, best, false, &n_bytes);
		fwrite(bytes, 1, n_bytes, stdout);
		if (!logits || cohort_decode_one(ctx, best, (cohort_pos)n++, 0, true, &err))
			return fail(&err);
	}
	putchar('\n');
	cohort_context_free(ctx);
	cohort_model_free(model);
	return 0;
}
