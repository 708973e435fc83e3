/* Beam search: the likeliest continuations of a prompt, not those that a draw happens to find.
 *
 * Four beams go on from one prompt; each step decodes all of them in one call. The results come best first, with their
 * log-probabilities; beside them what taking the likeliest token each time gives: a search with one beam.
 *
 * usage: beam MODEL.gguf */
#include <cohort_search.h>

#include <stdio.h>

enum { WIDTH = 4, STEPS = 16, PROMPT_MAX = 64 };

static int fail(const struct cohort_err *err)
{
	fprintf(stderr, "beam: %s\n", err->text);
	return 1;
}

static void print(const struct cohort_model *model, const struct cohort_beam *b)
{
	printf("%8.3f:", b->logprob);
	for (int32_t i = 0; i < b->n_tokens; i++) {
		size_t n;
		const char *bytes = cohort_token_bytes(model, b->tokens[i], false, &n);
		fwrite(bytes, 1, n, stdout);
	}
	printf("\n");
}

static int run(const struct cohort_model *model, struct cohort_forest *forest)
{
	static const char prompt[] = "Once upon a time";
	struct cohort_beam_params bp;
	struct cohort_beams wide, narrow;
	struct cohort_branch root;
	cohort_token tokens[PROMPT_MAX];
	struct cohort_err err;
	size_t n_tokens;

	if (cohort_tokenize(model, prompt, sizeof prompt - 1, 0, tokens, PROMPT_MAX, &n_tokens, &err) ||
			cohort_branch_create(forest, NULL, &root, &err) ||
			cohort_branch_prefill(forest, root, tokens, (int32_t)n_tokens, &err))
		return fail(&err);
	cohort_beam_params_init(&bp);
	bp.width = bp.n_best = WIDTH;
	bp.max_tokens = STEPS;
	bp.length_penalty = 0; /* by the sum */
	if (cohort_beams_search(forest, root, &bp, &wide, &err))
		return fail(&err);
	bp.width = bp.n_best = 1;
	if (cohort_beams_search(forest, root, &bp, &narrow, &err)) {
		cohort_beams_release(&wide);
		return fail(&err);
	}
	printf("%s\n", prompt);
	for (int32_t i = 0; i < wide.n_items; i++)
		print(model, &wide.items[i]);
	printf("the likeliest token each time:\n");
	print(model, &narrow.items[0]);
	cohort_beams_release(&wide);
	cohort_beams_release(&narrow);
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
		fprintf(stderr, "usage: beam MODEL.gguf\n");
		return 2;
	}
	cohort_context_params_init(&cp);
	cp.n_ctx = 1024;
	cp.n_seq_max = WIDTH + 1; /* the beams and the prompt */
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
