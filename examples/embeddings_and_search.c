/* Texts to vectors, and the texts that are most like a question.
 *
 * All texts go through the model in one batch, a sequence each; pooling makes one vector of each sequence's rows. The
 * cosine of two vectors says how alike the texts are to the model; its square, with the sign kept, gives the same order
 * without a root. How good that is, is the model's affair: an encoder made for it (bert, nomic-bert, jina-bert) does
 * better than one that tells stories, and this program takes either.
 *
 * usage: embeddings_and_search MODEL.gguf */
#include <cohort.h>

#include <stdio.h>
#include <string.h>

enum { N_TEXTS = 5, TOKENS_MAX = 64 };

/* The first is the question. */
static const char *const texts[N_TEXTS] = {
		"Where does the dog sleep?",
		"The dog sleeps in the sun.",
		"The cat eats a fish.",
		"Tom has a big red ball.",
		"It was a cold and rainy day.",
};

static double dot(const float *a, const float *b, int32_t n)
{
	double sum = 0;
	for (int32_t i = 0; i < n; i++)
		sum += (double)a[i] * (double)b[i];
	return sum;
}

/* Embeds all texts: afterwards cohort_embeddings_seq_get has a vector for each. */
static enum cohort_status embed(const struct cohort_model *model, struct cohort_context *ctx,
		struct cohort_batch *batch, bool encoder, struct cohort_err *err)
{
	cohort_token tokens[TOKENS_MAX];
	enum cohort_status st = COHORT_OK;
	size_t n = 0;

	for (cohort_seq s = 0; s < N_TEXTS && !st; s++) {
		st = cohort_tokenize(model, texts[s], strlen(texts[s]), 0, tokens, TOKENS_MAX, &n, err);
		for (size_t i = 0; i < n && !st; i++)
			st = cohort_batch_add(batch, tokens[i], (cohort_pos)i, &s, 1, true, err);
	}
	if (st)
		return st;
	return encoder ? cohort_encode(ctx, batch, err) : cohort_decode(ctx, batch, err);
}

/* Prints the other texts, the likest to the first one first. */
static void search(const struct cohort_context *ctx, int32_t n_embd)
{
	const float *vectors[N_TEXTS];
	double score[N_TEXTS] = {0};
	bool shown[N_TEXTS] = {true};

	for (cohort_seq s = 0; s < N_TEXTS; s++) {
		vectors[s] = cohort_embeddings_seq_get(ctx, s, NULL);
		const double xy = dot(vectors[0], vectors[s], n_embd);
		const double xx = dot(vectors[0], vectors[0], n_embd), yy = dot(vectors[s], vectors[s], n_embd);
		score[s] = (xy < 0 ? -xy : xy) * xy / (xx * yy);
	}
	printf("%s\n", texts[0]);
	for (int rank = 1; rank < N_TEXTS; rank++) {
		int best = -1;
		for (int s = 1; s < N_TEXTS; s++)
			if (!shown[s] && (best < 0 || score[s] > score[best]))
				best = s;
		shown[best] = true;
		printf("%.4f  %s\n", score[best], texts[best]);
	}
}

int main(int argc, char **argv)
{
	struct cohort_batch batch = {0};
	struct cohort_context_params cp;
	struct cohort_model_info info;
	struct cohort_context *ctx = NULL;
	struct cohort_model *model = NULL;
	struct cohort_err err;
	enum cohort_status st;

	if (argc != 2) {
		fprintf(stderr, "usage: embeddings_and_search MODEL.gguf\n");
		return 2;
	}
	st = cohort_model_open(argv[1], NULL, &model, &err);
	if (!st) {
		cohort_model_info_get(model, &info);
		cohort_context_params_init(&cp);
		cp.n_seq_max = N_TEXTS;
		cp.outputs = COHORT_OUTPUT_EMBEDDINGS;
		cp.pooling = info.pooling ? info.pooling : COHORT_POOL_MEAN; /* what it was trained for, if it says */
		st = cohort_context_open(model, &cp, &ctx, &err);
	}
	if (!st)
		st = cohort_batch_init(&batch, N_TEXTS * TOKENS_MAX, 0, 1, &err);
	if (!st)
		st = embed(model, ctx, &batch, info.encoder, &err);
	if (st)
		fprintf(stderr, "embeddings_and_search: %s\n", err.text);
	else
		search(ctx, info.n_embd);
	cohort_batch_release(&batch);
	cohort_context_free(ctx);
	cohort_model_free(model);
	return st ? 1 : 0;
}
