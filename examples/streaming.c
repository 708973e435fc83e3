/* Text as it comes, in whole characters.
 *
 * A token is bytes, and may end within a character. cohort_detok_push gives what can be shown now and holds the rest
 * back until it is whole. To show that it does, the program streams a line whose characters the vocabulary may not
 * have, from its tokens, with a bar between the pieces; then what the model says, piece by piece.
 *
 * usage: streaming MODEL.gguf */
#include <cohort.h>

#include <stdio.h>

enum { N_TOKENS = 40, TOKENS_MAX = 128, PIECE_MAX = 256 };

/* Shows what a token adds. What the library wrote to out is whole characters, or nothing. */
static enum cohort_status show(struct cohort_detok *d, cohort_token token, const char *bar, struct cohort_err *err)
{
	char out[PIECE_MAX];
	size_t n;
	enum cohort_status st = cohort_detok_push(d, token, out, sizeof out, &n, err);

	if (st || n == 0)
		return st;
	fwrite(out, 1, n, stdout);
	printf("%s", bar);
	fflush(stdout);
	return COHORT_OK;
}

/* What is left when the tokens end: of a text that was cut within a character, its beginning. */
static void end(struct cohort_detok *d)
{
	char rest[4];
	fwrite(rest, 1, cohort_detok_flush(d, rest), stdout);
	printf("\n");
}

static enum cohort_status replay(const struct cohort_model *model, struct cohort_err *err)
{
	static const char text[] = "A cat, na\xc3\xafve \xe2\x82\xac 1, \xf0\x9f\x90\x88.";
	cohort_token tokens[TOKENS_MAX];
	struct cohort_detok d;
	size_t n;
	enum cohort_status st = cohort_tokenize(
			model, text, sizeof text - 1, COHORT_TOKENIZE_NO_BOS, tokens, TOKENS_MAX, &n, err);

	if (st)
		return st;
	cohort_detok_init(&d, model, false, true);
	for (size_t i = 0; i < n && !st; i++)
		st = show(&d, tokens[i], "|", err);
	end(&d);
	return st;
}

static enum cohort_status generate(const struct cohort_model *model, struct cohort_context *ctx,
		struct cohort_sampler *sampler, struct cohort_err *err)
{
	static const char prompt[] = "The little cat";
	cohort_token tokens[TOKENS_MAX], token;
	struct cohort_detok d;
	size_t n;
	enum cohort_status st = cohort_tokenize(model, prompt, sizeof prompt - 1, 0, tokens, TOKENS_MAX, &n, err);

	if (!st)
		st = cohort_decode_many(ctx, tokens, (int32_t)n, 0, 0, err);
	if (st)
		return st;
	printf("%s", prompt);
	cohort_detok_init(&d, model, false, false); /* these tokens continue a text */
	for (int i = 0; i < N_TOKENS && !st; i++) {
		st = cohort_sampler_sample(sampler, cohort_logits_get(ctx, -1, err), &token, err);
		if (st || cohort_token_is_eog(model, token))
			break;
		st = show(&d, token, "", err);
		if (!st)
			st = cohort_decode_one(ctx, token, (cohort_pos)n + i, 0, true, err);
	}
	end(&d);
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
		fprintf(stderr, "usage: streaming MODEL.gguf\n");
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
		st = replay(model, &err);
	if (!st)
		st = generate(model, ctx, sampler, &err);
	if (st)
		fprintf(stderr, "streaming: %s\n", err.text);
	cohort_sampler_free(sampler);
	cohort_context_free(ctx);
	cohort_model_free(model);
	return st ? 1 : 0;
}
