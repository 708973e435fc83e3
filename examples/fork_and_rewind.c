/* One prompt, several ways on from it, and back again.
 *
 * cohort_seq_cp makes a sequence that shares the prompt's cells: nothing is computed or copied. cohort_seq_rm takes a
 * tail back, so that another one can be tried. What comes after a fork or a rewind has the same bits as if that
 * sequence had been the only one: the program checks it, to the last bit.
 *
 * usage: fork_and_rewind MODEL.gguf */
#include <cohort.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_FORKS = 4, N_STEPS = 16, PROMPT_MAX = 64 };

struct run {
	const struct cohort_model *model;
	struct cohort_context *ctx;
	int32_t n_vocab;
	cohort_token prompt[PROMPT_MAX];
	int32_t n_prompt;
};

static int fail(const struct cohort_err *err)
{
	fprintf(stderr, "fork_and_rewind: %s\n", err->text);
	return 1;
}

/* The n tokens with the highest logits. */
static void best(const float *logits, int32_t n_vocab, cohort_token *out, int n)
{
	for (int k = 0; k < n; k++) {
		cohort_token top = -1;
		for (cohort_token t = 0; t < n_vocab; t++) {
			bool taken = false;
			for (int i = 0; i < k; i++)
				taken = taken || out[i] == t;
			if (!taken && (top < 0 || logits[t] > logits[top]))
				top = t;
		}
		out[k] = top;
	}
}

/* Goes on from the prompt with a first token and then the best one each time; keeps the last logits. */
static int go_on(const struct run *r, cohort_seq seq, cohort_token first, float *last, bool print)
{
	cohort_token t = first;
	struct cohort_err err;

	for (int32_t i = 0; i < N_STEPS; i++) {
		if (cohort_decode_one(r->ctx, t, r->n_prompt + i, seq, true, &err))
			return fail(&err);
		if (print) {
			size_t n;
			const char *bytes = cohort_token_bytes(r->model, t, false, &n);
			fwrite(bytes, 1, n, stdout);
		}
		memcpy(last, cohort_logits_get(r->ctx, -1, &err), (size_t)r->n_vocab * sizeof *last);
		best(last, r->n_vocab, &t, 1);
	}
	return 0;
}

static int try_all(const struct run *r, float *forked, float *again)
{
	struct cohort_usage before, after;
	cohort_token first[N_FORKS];
	struct cohort_err err;

	/* The prompt, once. Its logits offer N_FORKS first tokens. */
	if (cohort_decode_many(r->ctx, r->prompt, r->n_prompt, 0, 0, &err))
		return fail(&err);
	best(cohort_logits_get(r->ctx, -1, &err), r->n_vocab, first, N_FORKS);
	cohort_usage_get(r->ctx, &before);
	for (cohort_seq s = 1; s <= N_FORKS; s++)
		if (cohort_seq_cp(r->ctx, 0, s, 0, -1, &err))
			return fail(&err);
	cohort_usage_get(r->ctx, &after);
	printf("%d forks of %d tokens: %d blocks before, %d after\n", N_FORKS, (int)r->n_prompt, (int)before.n_used,
			(int)after.n_used);
	for (cohort_seq s = 1; s <= N_FORKS; s++) {
		printf("%d:", (int)s);
		if (go_on(r, s, first[s - 1], forked, true))
			return 1;
		printf("\n");
	}
	/* Sequence 1 goes back to the prompt and takes the last fork's way. */
	if (cohort_seq_rm(r->ctx, 1, r->n_prompt, -1, &err))
		return fail(&err);
	if (go_on(r, 1, first[N_FORKS - 1], again, false))
		return 1;
	if (memcmp(forked, again, (size_t)r->n_vocab * sizeof *forked) != 0) {
		fprintf(stderr, "fork_and_rewind: the logits differ\n");
		return 1;
	}
	printf("1 rewound and sent the way of %d: the same logits, bit for bit\n", N_FORKS);
	return 0;
}

int main(int argc, char **argv)
{
	static const char text[] = "Once upon a time there was a little girl named Lily. She";
	struct cohort_model *model = NULL;
	struct cohort_model_info info;
	struct run r = {0};
	struct cohort_err err;
	size_t n;
	int rc = 1;

	if (argc != 2) {
		fprintf(stderr, "usage: fork_and_rewind MODEL.gguf\n");
		return 2;
	}
	if (cohort_model_open(argv[1], NULL, &model, &err) || cohort_context_open(model, NULL, &r.ctx, &err) ||
			cohort_tokenize(model, text, strlen(text), 0, r.prompt, PROMPT_MAX, &n, &err)) {
		fail(&err);
	} else {
		cohort_model_info_get(model, &info);
		r.model = model;
		r.n_vocab = info.n_vocab;
		r.n_prompt = (int32_t)n;
		float *logits = malloc(2 * (size_t)r.n_vocab * sizeof *logits);
		if (logits)
			rc = try_all(&r, logits, logits + r.n_vocab);
		free(logits);
	}
	cohort_context_free(r.ctx);
	cohort_model_free(model);
	return rc;
}
