/* A context of its own for each search: the engine's sequences are not for others. */
#include "branching.h"

#include "common.h"

#include "base/mem.h"

#include <stdio.h>

enum { ROWS = 512 };

const cohort_token branching_no_ends[1] = {0};

/* The branch of the prompt holds the prompt's last block beside the blocks of the branches that go on from it. */
struct cohort_room_info branching_room(int64_t n_prompt, int64_t n_more, int64_t n, int64_t n_ctx)
{
	return ROOM(.n_ctx = n_ctx, .n_seqs = n, .n_tokens = n_prompt + n_more, .n_prompt = n_prompt, .n_more = 1);
}

int branching_fail(const struct branching *b, const struct cohort_err *err)
{
	if (err->status != COHORT_ABORTED)
		return fail(b->prog, err);
	fprintf(stderr, "%s: interrupted\n", b->prog);
	return EXIT_INTERRUPTED;
}

int branching_open(struct branching *b, int64_t n, int64_t n_ctx, int32_t n_threads)
{
	struct cohort_context_params cp;
	struct cohort_err err;

	cohort_context_params_init(&cp);
	cp.n_ctx = (int32_t)n_ctx;
	cp.n_batch = n > ROWS ? (int32_t)n : ROWS;
	cp.n_seq_max = (int32_t)n + 1;
	cp.n_threads = n_threads;
	cp.abort = stop_asked;
	enum cohort_status st = cohort_context_open(b->model, &cp, &b->ctx, &err);
	if (!st)
		st = cohort_forest_open(b->ctx, NULL, &b->forest, &err);
	return st ? fail(b->prog, &err) : 0;
}

int branching_start(struct branching *b, const struct sampling *s, const cohort_token *tokens, size_t n_tokens)
{
	struct cohort_err err;
	enum cohort_status st = COHORT_OK;

	if (b->root.forest)
		st = cohort_branch_prune_subtree(b->forest, b->root, &err);
	b->root = (struct cohort_branch){0};
	if (!st)
		st = cohort_branch_create(b->forest, &s->p, &b->root, &err);
	if (!st)
		st = cohort_branch_prefill(b->forest, b->root, tokens, (int32_t)n_tokens, &err);
	return st ? branching_fail(b, &err) : 0;
}

void branching_close(struct branching *b)
{
	cohort_forest_free(b->forest);
	cohort_context_free(b->ctx);
	b->forest = NULL;
	b->ctx = NULL;
	b->root = (struct cohort_branch){0};
}

int branching_text(const struct branching *b, const cohort_token *tokens, int32_t n_tokens, bool finished, char **out,
		size_t *n_out)
{
	struct cohort_detok d;
	struct cohort_err err;
	char *text = NULL;
	size_t n = 0, n_max = 0, n_piece;

	cohort_detok_init(&d, b->model, false, false);
	for (int32_t i = 0; i < n_tokens - finished; i++) {
		size_t n_bytes = 0;
		cohort_token_bytes(b->model, tokens[i], false, &n_bytes);
		if (!mem_grow((void **)&text, &n_max, n + n_bytes + 8, 1))
			goto no_memory;
		if (cohort_detok_push(&d, tokens[i], text + n, n_max - n, &n_piece, &err)) {
			mem_free(text);
			return fail(b->prog, &err);
		}
		n += n_piece;
	}
	if (!mem_grow((void **)&text, &n_max, n + 8, 1))
		goto no_memory;
	n += cohort_detok_flush(&d, text + n);
	text[n] = 0;
	*out = text;
	*n_out = n;
	return 0;
no_memory:
	mem_free(text);
	return out_of_memory(b->prog);
}
