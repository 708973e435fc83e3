/* What may follow a prompt, as a tree: the three likeliest tokens, each followed by its three likeliest.
 *
 * Every level is decoded in one call, and the prompt's cells are shared by all of it. A node's number is the
 * log-probability of the text up to it.
 *
 * usage: tree MODEL.gguf */
#include <cohort_search.h>

#include <stdio.h>

enum { DEPTH = 3, TOP_K = 3, PROMPT_MAX = 64 };

static int fail(const struct cohort_err *err)
{
	fprintf(stderr, "tree: %s\n", err->text);
	return 1;
}

static void print(const struct cohort_model *model, const struct cohort_tree *tree, int32_t first, int32_t n)
{
	for (int32_t i = first; i < first + n; i++) {
		const struct cohort_tree_node *node = &tree->nodes[i];
		size_t n_bytes;
		const char *bytes = cohort_token_bytes(model, node->token, true, &n_bytes);
		printf("%*s%.*s  %.3f\n", 4 * node->depth, "", (int)n_bytes, bytes, node->sum);
		print(model, tree, node->first_child, node->n_children);
	}
}

static int run(const struct cohort_model *model, struct cohort_forest *forest)
{
	static const char prompt[] = "Once upon a";
	struct cohort_tree_params tp;
	struct cohort_tree tree;
	struct cohort_branch root;
	cohort_token tokens[PROMPT_MAX];
	struct cohort_err err;
	size_t n_tokens;

	if (cohort_tokenize(model, prompt, sizeof prompt - 1, 0, tokens, PROMPT_MAX, &n_tokens, &err) ||
			cohort_branch_create(forest, NULL, &root, &err) ||
			cohort_branch_prefill(forest, root, tokens, (int32_t)n_tokens, &err))
		return fail(&err);
	cohort_tree_params_init(&tp);
	tp.depth = DEPTH;
	tp.top_k = TOP_K;
	if (cohort_tree_grow(forest, root, &tp, &tree, &err))
		return fail(&err);
	printf("%s\n", prompt);
	print(model, &tree, 0, tree.n_roots);
	cohort_tree_release(&tree);
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
		fprintf(stderr, "usage: tree MODEL.gguf\n");
		return 2;
	}
	cohort_context_params_init(&cp);
	cp.n_ctx = 2048;
	cp.n_seq_max = 64; /* a level's nodes, and those of the one before it */
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
