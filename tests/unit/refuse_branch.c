/* Rows of the table of refusals: forests, branches, searches and their parameters. Handles that are none are in
 * tests/prop/test_branch_refuse.c. */
#include "refuse_case.h"

static struct cohort_forest *forest;
static struct cohort_branch root;

/* ---- Forests ---- */

void refuse_forests(void **state)
{
	struct cohort_forest_params p;
	struct cohort_forest *f = NULL;
	struct cohort_pressure room;

	(void)state;
	NOTHING(cohort_forest_params_init, (NULL));
	cohort_forest_params_init(&p);
	IS_NULL(cohort_forest_open, (NULL, &p, &f, err), "context is NULL");
	IS_NULL(cohort_forest_open, (w.ctx, &p, NULL, err), "out is NULL");
	PASSES_AND(cohort_forest_open, _, (w.ctx, NULL, &f, err), cohort_forest_free(f));
	/* first_seq and n_seqs: at the ends of their ranges, and beyond them. */
	static const struct {
		int32_t first, n, seq, expected, got;
		bool ok;
	} ids[] = {{0, 0, 0, 0, 0, true}, {REFUSE_SEQS - 1, 0, 0, 0, 0, true}, {REFUSE_SEQS - 1, 1, 0, 0, 0, true},
			{0, REFUSE_SEQS, 0, 0, 0, true}, {-1, 0, -1, REFUSE_SEQS, -1, false},
			{REFUSE_SEQS, 0, REFUSE_SEQS, REFUSE_SEQS, REFUSE_SEQS, false}, {0, -1, 0, 0, -1, false},
			{0, REFUSE_SEQS + 1, 0, REFUSE_SEQS, REFUSE_SEQS + 1, false},
			{REFUSE_SEQS - 1, 2, REFUSE_SEQS - 1, 1, 2, false}};
	for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
		p.first_seq = ids[i].first;
		p.n_seqs = ids[i].n;
		if (ids[i].ok)
			PASSES_AND(cohort_forest_open, params, (w.ctx, &p, &f, err), cohort_forest_free(f));
		else
			REFUSED(cohort_forest_open, params, (w.ctx, &p, &f, err), COHORT_E_ARG, "seq-id", -1,
					ids[i].seq, ids[i].expected, ids[i].got);
	}
	REFUSED(cohort_forest_open, ctx, (w.pooled, NULL, &f, err), COHORT_E_ARG, NULL, -1, -1, 0, 0);
	/* The defaults are all ids: also those that hold cells. */
	assert_int_equal(cohort_decode_one(w.ctx, 1, 0, 2, false, NULL), COHORT_OK);
	REFUSED(cohort_forest_open, ctx, (w.ctx, NULL, &f, err), COHORT_E_ARG, "seq-held", -1, 2, 0, 1);
	cohort_seq_clear(w.ctx);
	NOTHING(cohort_forest_free, (NULL));
	GIVES(cohort_forest_context_get, _, (NULL), NULL);
	NOTHING(cohort_forest_pressure_get, (NULL, &room));
	assert_int_equal(room.n_seqs, 0);
	assert_int_equal(cohort_forest_open(w.ctx, NULL, &f, NULL), COHORT_OK);
	NOTHING(cohort_forest_pressure_get, (f, NULL));
	cohort_forest_free(f);
	refuse_end();
}

/* ---- Branches ---- */

static void plant(void)
{
	assert_int_equal(cohort_forest_open(w.ctx, NULL, &forest, NULL), COHORT_OK);
	assert_int_equal(cohort_branch_create(forest, NULL, &root, NULL), COHORT_OK);
	assert_int_equal(cohort_branch_prefill(forest, root, w.tokens, 4, NULL), COHORT_OK);
}

#define PRUNE(b) cohort_branch_prune(forest, b, NULL)

static void growing(void)
{
	const struct cohort_reseed reseed = {1, 2};
	struct cohort_sampler_params sp;
	struct cohort_branch b;

	cohort_sampler_params_init(&sp);
	IS_NULL(cohort_branch_create, (NULL, &sp, &b, err), "forest is NULL");
	IS_NULL(cohort_branch_create, (forest, &sp, NULL, err), "out is NULL");
	PASSES_AND(cohort_branch_create, _, (forest, NULL, &b, err), PRUNE(b));
	IS_NULL(cohort_branch_fork, (NULL, root, &reseed, &b, err), "forest is NULL");
	IS_NULL(cohort_branch_fork, (forest, root, &reseed, NULL, err), "out is NULL");
	PASSES_AND(cohort_branch_fork, _, (forest, root, NULL, &b, err), PRUNE(b));
	/* As many branches as there are ids, and one more. */
	struct cohort_branch more[REFUSE_SEQS];
	for (int32_t i = 1; i < REFUSE_SEQS; i++)
		assert_int_equal(cohort_branch_fork(forest, root, NULL, &more[i], NULL), COHORT_OK);
	REFUSED(cohort_branch_fork, parent, (forest, root, NULL, &b, err), COHORT_NO_ROOM, "seq-lease", -1, -1,
			REFUSE_SEQS, REFUSE_SEQS + 1);
	REFUSED(cohort_branch_create, sampler, (forest, &sp, &b, err), COHORT_NO_ROOM, "seq-lease", -1, -1, REFUSE_SEQS,
			REFUSE_SEQS + 1);
	REFUSED(cohort_branch_prune, branch, (forest, root, err), COHORT_E_ARG, "branch-children", -1, 0, 0,
			REFUSE_SEQS - 1);
	IS_NULL(cohort_branch_prune, (NULL, more[1], err), "forest is NULL");
	IS_NULL(cohort_branch_prune_subtree, (NULL, more[1], err), "forest is NULL");
	IS_NULL(cohort_branch_detach, (NULL, more[1], err), "forest is NULL");
	PASSES(cohort_branch_detach, _, (forest, more[1], err));
	IS_NULL(cohort_branch_retain_only, (NULL, root, err), "forest is NULL");
	PASSES(cohort_branch_retain_only, _, (forest, root, err));
	/* Indices of branches that there are not, with the serial number of the forest. */
	static const uint32_t none[] = {REFUSE_SEQS, REFUSE_SEQS + 1, UINT32_MAX};
	for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
		struct cohort_branch other = root;
		other.index = none[i];
		REFUSED(cohort_branch_prune, branch, (forest, other, err), COHORT_E_ARG, "branch-foreign", -1, -1,
				REFUSE_SEQS, none[i]);
		REFUSED(cohort_branch_logits_get, branch, (forest, other, err), COHORT_E_ARG, "branch-foreign", -1, -1,
				REFUSE_SEQS, none[i]);
	}
	REFUSED(cohort_branch_prune, branch, (forest, more[1], err), COHORT_E_ARG, "branch-stale", -1,
			(int64_t)more[1].index, (int64_t)more[1].generation, (int64_t)more[1].generation);
}

static void decoding(void)
{
	const int32_t n_vocab = w.info.n_vocab;
	struct cohort_branch_span span = {root, w.tokens, 1};
	struct cohort_branch_token item = {root, 1};
	cohort_token t;

	IS_NULL(cohort_branch_decode_scatter, (NULL, &span, 1, err), "forest is NULL");
	IS_NULL(cohort_branch_decode_scatter, (forest, NULL, 1, err), "spans is NULL");
	RANGE(cohort_branch_decode_scatter, n_spans, (forest, &span, -1, err), 0, -1);
	PASSES(cohort_branch_decode_scatter, n_spans, (forest, NULL, 0, err));
	PASSES(cohort_branch_decode_scatter, _, (forest, &span, 1, err));
	IS_NULL(cohort_branch_prefill, (NULL, root, w.tokens, 1, err), "forest is NULL");
	REFUSED(cohort_branch_prefill, tokens, (forest, root, NULL, 1, err), COHORT_E_ARG, "item", 0, 0, 0, 1);
	REFUSED(cohort_branch_prefill, n_tokens, (forest, root, w.tokens, -1, err), COHORT_E_ARG, "item", 0, 0, 0, -1);
	PASSES(cohort_branch_prefill, n_tokens, (forest, root, NULL, 0, err));
	IS_NULL(cohort_branch_sample, (NULL, root, &t, err), "forest is NULL");
	IS_NULL(cohort_branch_sample, (forest, root, NULL, err), "out is NULL");
	PASSES(cohort_branch_sample, _, (forest, root, &t, err));
	IS_NULL(cohort_branch_step, (NULL, &root, 1, err), "forest is NULL");
	IS_NULL(cohort_branch_step, (forest, NULL, 1, err), "branches is NULL");
	RANGE(cohort_branch_step, n_branches, (forest, &root, -1, err), 0, -1);
	REFUSED(cohort_branch_step, branches, (forest, &root, 1, err), COHORT_E_ARG, "branch-idle", 0, 0, 1, 0);
	IS_NULL(cohort_branch_decode_each, (NULL, &item, 1, err), "forest is NULL");
	IS_NULL(cohort_branch_decode_each, (forest, NULL, 1, err), "items is NULL");
	RANGE(cohort_branch_decode_each, n_items, (forest, &item, -1, err), 0, -1);
	PASSES(cohort_branch_decode_each, _, (forest, &item, 1, err));
	item.token = n_vocab;
	REFUSED(cohort_branch_decode_each, items, (forest, &item, 1, err), COHORT_E_ARG, "token", 0, 0, n_vocab,
			n_vocab);
	IS_NULL(cohort_branch_accept, (NULL, root, 1, err), "forest is NULL");
	REFUSED(cohort_branch_accept, token, (forest, root, -1, err), COHORT_E_ARG, "token", -1, 0, n_vocab, -1);
	REFUSED(cohort_branch_accept, token, (forest, root, n_vocab, err), COHORT_E_ARG, "token", -1, 0, n_vocab,
			n_vocab);
	assert_int_equal(cohort_branch_accept(forest, root, n_vocab - 1, NULL), COHORT_OK);
	REFUSED(cohort_branch_accept, token, (forest, root, 1, err), COHORT_E_ARG, "branch-pending", -1, 0, -1,
			n_vocab - 1);
	assert_int_equal(cohort_branch_step(forest, &root, 1, NULL), COHORT_OK);
}

static void looking(void)
{
	const int32_t n_vocab = w.info.n_vocab;
	struct cohort_logit_bias bias[] = {{0, 1}};
	struct cohort_branch_info info;
	struct cohort_branch leaf;
	cohort_token *legal = calloc((size_t)n_vocab, sizeof *legal);
	double number;
	int32_t n;

	assert_non_null(legal);
	IS_NULL(cohort_branch_logits_get, (NULL, root, err), "forest is NULL");
	PASSES(cohort_branch_logits_get, _, (forest, root, err));
	IS_NULL(cohort_branch_logits_set, (NULL, root, w.logits, err), "forest is NULL");
	IS_NULL(cohort_branch_logits_set, (forest, root, NULL, err), "logits is NULL");
	PASSES(cohort_branch_logits_set, _, (forest, root, w.logits, err));
	w.logits[5] = NAN;
	REFUSED(cohort_branch_logits_set, logits, (forest, root, w.logits, err), COHORT_E_NUMERIC, "finite", -1, -1, 0,
			5);
	w.logits[5] = 0;
	IS_NULL(cohort_branch_logits_merge, (NULL, root, root, 1, err), "forest is NULL");
	PASSES(cohort_branch_logits_merge, alpha, (forest, root, root, 0, err));
	REFUSED(cohort_branch_logits_merge, alpha, (forest, root, root, NAN, err), COHORT_E_NUMERIC, "finite", -1, -1,
			0, 0);
	IS_NULL(cohort_branch_bias_set, (NULL, root, bias, 1, err), "forest is NULL");
	IS_NULL(cohort_branch_bias_set, (forest, root, NULL, 1, err), "bias is NULL");
	RANGE(cohort_branch_bias_set, n_bias, (forest, root, bias, -1, err), 0, -1);
	PASSES(cohort_branch_bias_set, n_bias, (forest, root, bias, 1, err));
	PASSES(cohort_branch_bias_set, n_bias, (forest, root, NULL, 0, err));
	IS_NULL(cohort_branch_legal_get, (NULL, root, legal, n_vocab, &n, err), "forest is NULL");
	IS_NULL(cohort_branch_legal_get, (forest, root, NULL, n_vocab, &n, err), "out is NULL");
	IS_NULL(cohort_branch_legal_get, (forest, root, legal, n_vocab, NULL, err), "n_out is NULL");
	RANGE(cohort_branch_legal_get, n_max, (forest, root, legal, -1, &n, err), 0, -1);
	PASSES(cohort_branch_legal_get, n_max, (forest, root, NULL, 0, &n, err));
	assert_int_equal(n, n_vocab);
	GIVES(cohort_branch_is_legal, _, (NULL, root, 1), false);
	GIVES(cohort_branch_is_legal, token, (forest, root, -1), false);
	GIVES(cohort_branch_is_legal, token, (forest, root, n_vocab), false);
	GIVES(cohort_branch_is_legal, token, (forest, root, n_vocab - 1), true);
	IS_NULL(cohort_branch_entropy_get, (NULL, root, &number, err), "forest is NULL");
	IS_NULL(cohort_branch_entropy_get, (forest, root, NULL, err), "entropy is NULL");
	PASSES(cohort_branch_entropy_get, _, (forest, root, &number, err));
	IS_NULL(cohort_branch_surprisal_get, (NULL, root, 1, &number, err), "forest is NULL");
	IS_NULL(cohort_branch_surprisal_get, (forest, root, 1, NULL, err), "surprisal is NULL");
	REFUSED(cohort_branch_surprisal_get, token, (forest, root, -1, &number, err), COHORT_E_ARG, "token", -1, -1,
			n_vocab, -1);
	REFUSED(cohort_branch_surprisal_get, token, (forest, root, n_vocab, &number, err), COHORT_E_ARG, "token", -1,
			-1, n_vocab, n_vocab);
	PASSES(cohort_branch_surprisal_get, token, (forest, root, n_vocab - 1, &number, err));
	IS_NULL(cohort_branch_info_get, (NULL, root, &info, err), "forest is NULL");
	IS_NULL(cohort_branch_info_get, (forest, root, NULL, err), "info is NULL");
	PASSES(cohort_branch_info_get, _, (forest, root, &info, err));
	IS_NULL(cohort_branch_leaves_get, (NULL, root, &leaf, 1, &n, err), "forest is NULL");
	IS_NULL(cohort_branch_leaves_get, (forest, root, NULL, 1, &n, err), "out is NULL");
	IS_NULL(cohort_branch_leaves_get, (forest, root, &leaf, 1, NULL, err), "n_out is NULL");
	RANGE(cohort_branch_leaves_get, n_max, (forest, root, &leaf, -1, &n, err), 0, -1);
	PASSES(cohort_branch_leaves_get, n_max, (forest, root, NULL, 0, &n, err));
	free(legal);
}

void refuse_branches(void **state)
{
	(void)state;
	plant();
	growing();
	decoding();
	looking();
	assert_int_equal(cohort_branch_prune_subtree(forest, root, NULL), COHORT_OK);
	cohort_forest_free(forest);
	refuse_end();
}

/* ---- Searches ---- */

static void beams(void)
{
	struct cohort_beam_params p;
	struct cohort_beams out;

	NOTHING(cohort_beam_params_init, (NULL));
	cohort_beam_params_init(&p);
	p.width = 1;
	p.max_tokens = 1;
	const struct cohort_beam_params good = p;
	IS_NULL(cohort_beams_search, (NULL, root, &p, &out, err), "forest is NULL");
	IS_NULL(cohort_beams_search, (forest, root, &p, NULL, err), "out is NULL");
#define FIELD(fn, field, value, bound) \
	do { \
		p = good; \
		p.field = (value); \
		REFUSED(fn, params, (forest, root, &p, &out, err), COHORT_E_ARG, "search-params", -1, -1, bound, \
				(int64_t)(bound ? value : 0)); \
	} while (0)
#define TAKEN(fn, field, value, release) \
	do { \
		p = good; \
		p.field = (value); \
		PASSES_AND(fn, params, (forest, root, &p, &out, err), release(&out)); \
	} while (0)
	FIELD(cohort_beams_search, width, 0, 1);
	FIELD(cohort_beams_search, n_best, 0, 1);
	FIELD(cohort_beams_search, max_tokens, 0, 1);
	FIELD(cohort_beams_search, n_groups, 0, 1);
	FIELD(cohort_beams_search, length_penalty, nextafter(16, 17), 0);
	FIELD(cohort_beams_search, length_penalty, nextafter(-16, -17), 0);
	FIELD(cohort_beams_search, length_penalty, (double)NAN, 0);
	FIELD(cohort_beams_search, diversity, -0x1p-1000, 0);
	FIELD(cohort_beams_search, diversity, (double)INFINITY, 0);
	FIELD(cohort_beams_search, stop, (enum cohort_beam_stop)2, 0);
	p = good;
	p.n_groups = 2; /* they do not divide the width */
	REFUSED(cohort_beams_search, params, (forest, root, &p, &out, err), COHORT_E_ARG, "search-params", -1, -1, 1,
			2);
	p = good;
	p.n_ends = -1;
	p.ends = w.tokens;
	REFUSED(cohort_beams_search, params, (forest, root, &p, &out, err), COHORT_E_ARG, "search-params", -1, -1, 0,
			-1);
	p.n_ends = 1;
	p.ends = &w.info.n_vocab;
	REFUSED(cohort_beams_search, params, (forest, root, &p, &out, err), COHORT_E_ARG, "search-params", 0, -1,
			w.info.n_vocab, w.info.n_vocab);
	TAKEN(cohort_beams_search, width, 1, cohort_beams_release);
	TAKEN(cohort_beams_search, n_best, INT32_MAX, cohort_beams_release);
	TAKEN(cohort_beams_search, length_penalty, 16, cohort_beams_release);
	TAKEN(cohort_beams_search, length_penalty, -16, cohort_beams_release);
	TAKEN(cohort_beams_search, diversity, 0, cohort_beams_release);
	TAKEN(cohort_beams_search, stop, COHORT_BEAM_STOP_FIRST, cohort_beams_release);
	/* The defaults, four beams, are more than there are ids beside the root. */
	REFUSED(cohort_beams_search, _, (forest, root, NULL, &out, err), COHORT_NO_ROOM, "seq-lease", -1, -1,
			REFUSE_SEQS, REFUSE_SEQS + 1);
	NOTHING(cohort_beams_release, (NULL));
}

static bool answer(void *user, int32_t i, const struct cohort_drawn *text, const char **bytes, size_t *n)
{
	(void)user;
	(void)i;
	*bytes = (const char *)text->tokens;
	*n = (size_t)text->n_tokens * sizeof *text->tokens;
	return true;
}

static void texts(void)
{
	struct cohort_draw_params p;
	struct cohort_texts out, drawn;
	struct cohort_votes votes;
	int user = 0;

	NOTHING(cohort_draw_params_init, (NULL));
	cohort_draw_params_init(&p);
	p.n = 2;
	p.max_tokens = 1;
	const struct cohort_draw_params good = p;
	IS_NULL(cohort_texts_draw, (NULL, root, &p, &out, err), "forest is NULL");
	IS_NULL(cohort_texts_draw, (forest, root, &p, NULL, err), "out is NULL");
	FIELD(cohort_texts_draw, n, 0, 1);
	FIELD(cohort_texts_draw, max_tokens, 0, 1);
	p = good;
	p.n_ends = -1;
	REFUSED(cohort_texts_draw, params, (forest, root, &p, &out, err), COHORT_E_ARG, "search-params", -1, -1, 0, -1);
	TAKEN(cohort_texts_draw, n, 1, cohort_texts_release);
	TAKEN(cohort_texts_draw, first_stream, UINT64_MAX, cohort_texts_release);
	TAKEN(cohort_texts_draw, seed, UINT64_MAX, cohort_texts_release);
	/* The defaults, up to 128 tokens, are more than there is room for in the cache. */
	REFUSED(cohort_texts_draw, _, (forest, root, NULL, &out, err), COHORT_NO_ROOM, "kv-room", 0, 1, 0, 0);
	NOTHING(cohort_texts_release, (NULL));
	p = good;
	assert_int_equal(cohort_texts_draw(forest, root, &p, &drawn, NULL), COHORT_OK);
	IS_NULL(cohort_votes_count, (NULL, answer, &user, &votes, err), "texts is NULL");
	IS_NULL(cohort_votes_count, (&drawn, NULL, &user, &votes, err), "answer is NULL");
	IS_NULL(cohort_votes_count, (&drawn, answer, &user, NULL, err), "out is NULL");
	PASSES_AND(cohort_votes_count, _, (&drawn, answer, NULL, &votes, err), cohort_votes_release(&votes));
	NOTHING(cohort_votes_release, (NULL));
	cohort_texts_release(&drawn);
}

static void trees(void)
{
	struct cohort_tree_params p;
	struct cohort_tree out;

	NOTHING(cohort_tree_params_init, (NULL));
	cohort_tree_params_init(&p);
	p.depth = 1;
	const struct cohort_tree_params good = p;
	IS_NULL(cohort_tree_grow, (NULL, root, &p, &out, err), "forest is NULL");
	IS_NULL(cohort_tree_grow, (forest, root, &p, NULL, err), "out is NULL");
	FIELD(cohort_tree_grow, depth, 0, 1);
	FIELD(cohort_tree_grow, top_k, 0, 1);
	FIELD(cohort_tree_grow, n_max, 0, 1);
	FIELD(cohort_tree_grow, min_prob, -0x1p-1000, 0);
	FIELD(cohort_tree_grow, min_prob, nextafter(1, 2), 0);
	FIELD(cohort_tree_grow, min_prob, (double)NAN, 0);
	p = good;
	p.n_ends = -1;
	REFUSED(cohort_tree_grow, params, (forest, root, &p, &out, err), COHORT_E_ARG, "search-params", -1, -1, 0, -1);
	TAKEN(cohort_tree_grow, depth, 1, cohort_tree_release);
	TAKEN(cohort_tree_grow, top_k, 1, cohort_tree_release);
	TAKEN(cohort_tree_grow, min_prob, 0, cohort_tree_release);
	TAKEN(cohort_tree_grow, min_prob, 1, cohort_tree_release);
	p = good;
	p.n_max = 2;
	PASSES_AND(cohort_tree_grow, params, (forest, root, &p, &out, err), {
		refuse_true(out.n_nodes == 2 && out.cut, "n_max is not the most nodes");
		cohort_tree_release(&out);
	});
	p.n_max = 3; /* top_k of them */
	PASSES_AND(cohort_tree_grow, params, (forest, root, &p, &out, err), {
		refuse_true(out.n_nodes == 3 && !out.cut, "a tree of n_max nodes is cut");
		cohort_tree_release(&out);
	});
	REFUSED(cohort_tree_grow, _, (forest, root, NULL, &out, err), COHORT_NO_ROOM, "seq-lease", -1, -1, REFUSE_SEQS,
			REFUSE_SEQS + 1);
	NOTHING(cohort_tree_release, (NULL));
}

void refuse_searches(void **state)
{
	(void)state;
	plant();
	beams();
	texts();
	trees();
	cohort_forest_free(forest);
	refuse_end();
}
