/* Best of n: one prompt, n ways on from it, the likeliest wins.
 *
 * The prompt is computed once. Every branch forks from it with a seed of its own, and each step decodes one token of
 * all branches that are still going in one call. At the end the branch whose tokens were likeliest on average is kept,
 * and the others are pruned: what they alone held is free again.
 *
 * usage: best_of_n MODEL.gguf */
#include <cohort.h>

#include <stdio.h>

enum { N = 6, STEPS = 24, PROMPT_MAX = 64 };

static int fail(const struct cohort_err *err)
{
	fprintf(stderr, "best_of_n: %s\n", err->text);
	return 1;
}

struct text {
	cohort_token tokens[STEPS];
	int n;
	bool over; /* it came to its end */
};

static void print(const struct cohort_model *model, const struct text *t)
{
	for (int i = 0; i < t->n; i++) {
		size_t n;
		const char *bytes = cohort_token_bytes(model, t->tokens[i], false, &n);
		fwrite(bytes, 1, n, stdout);
	}
	printf("\n");
}

/* A step of all that are not over: each draws, then all are decoded together. */
static enum cohort_status step(const struct cohort_model *model, struct cohort_forest *forest,
		const struct cohort_branch *branches, struct text *texts, struct cohort_err *err)
{
	struct cohort_branch_token items[N];
	int n = 0;

	for (int i = 0; i < N; i++) {
		cohort_token token;
		if (texts[i].over)
			continue;
		enum cohort_status st = cohort_branch_sample(forest, branches[i], &token, err);
		if (st)
			return st;
		texts[i].over = cohort_token_is_eog(model, token);
		if (texts[i].over)
			continue;
		texts[i].tokens[texts[i].n++] = token;
		items[n++] = (struct cohort_branch_token){branches[i], token};
	}
	return cohort_branch_decode_each(forest, items, n, err);
}

static int run(const struct cohort_model *model, struct cohort_forest *forest)
{
	static const char prompt[] =
			"Tom and Anna lived in a small house by the sea. Every morning they went down to the beach "
			"and looked for shells. One day, when the wind was strong, Anna saw something in the sand. "
			"It was a";
	struct cohort_sampler_params sp;
	struct cohort_branch root, branches[N];
	struct cohort_branch_info info;
	struct cohort_pressure full, after;
	struct text texts[N] = {{.n = 0}};
	cohort_token tokens[PROMPT_MAX];
	struct cohort_err err;
	size_t n_tokens;
	int best = 0;
	double least = 0;

	if (cohort_tokenize(model, prompt, sizeof prompt - 1, 0, tokens, PROMPT_MAX, &n_tokens, &err))
		return fail(&err);
	cohort_sampler_params_init(&sp);
	if (cohort_branch_create(forest, &sp, &root, &err) ||
			cohort_branch_prefill(forest, root, tokens, (int32_t)n_tokens, &err))
		return fail(&err);
	for (int i = 0; i < N; i++)
		if (cohort_branch_fork(forest, root, &(struct cohort_reseed){7, (uint64_t)i}, &branches[i], &err))
			return fail(&err);
	for (int k = 0; k < STEPS; k++)
		if (step(model, forest, branches, texts, &err))
			return fail(&err);
	for (int i = 0; i < N; i++) {
		if (cohort_branch_info_get(forest, branches[i], &info, &err))
			return fail(&err);
		printf("%d, perplexity %5.2f:", i, info.perplexity);
		print(model, &texts[i]);
		if (i == 0 || info.perplexity < least) {
			best = i;
			least = info.perplexity;
		}
	}
	cohort_forest_pressure_get(forest, &full);
	if (cohort_branch_retain_only(forest, branches[best], &err))
		return fail(&err);
	cohort_forest_pressure_get(forest, &after);
	printf("best: %d. %d branches held %d blocks, %d of them shared; it alone holds %d\n", best, full.n_leased,
			full.n_blocks_used, full.n_blocks_shared, after.n_blocks_used);
	return 0;
}

int main(int argc, char **argv)
{
	struct cohort_context_params cp;
	struct cohort_model *model = NULL;
	struct cohort_context *ctx = NULL;
	struct cohort_forest *forest = NULL;
	struct cohort_err err;
	int rc;

	if (argc != 2) {
		fprintf(stderr, "usage: best_of_n MODEL.gguf\n");
		return 2;
	}
	cohort_context_params_init(&cp);
	cp.n_ctx = 1024;
	cp.n_seq_max = N + 1;
	if (cohort_model_open(argv[1], NULL, &model, &err) || cohort_context_open(model, &cp, &ctx, &err) ||
			cohort_forest_open(ctx, NULL, &forest, &err))
		rc = fail(&err);
	else
		rc = run(model, forest);
	cohort_forest_free(forest);
	cohort_context_free(ctx);
	cohort_model_free(model);
	return rc;
}
