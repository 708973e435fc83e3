/* What the calls on branches refuse: ids that are taken or none of the context, contexts and pointers and numbers that
 * are none, and handles with a number beyond the forest's last, by every function that takes a handle. What the error
 * says is compared, what is to be written stays as it is, and so does the forest.
 *
 * Seen red with: ids that are looked at only where their number is given, so that a forest opened with the defaults
 * takes those that hold cells (held_ids); NULL for the context or for what is opened, contexts without logits or whose
 * rows all have them, that are taken (forest_open_refuses_contexts); an index of n_nodes that passes
 * (beyond_the_last); less than no biases, and biases that are NULL, that are taken (bad_biases_leave_those_before). */
#include "model_case.h"

#include "base/mem.h"

#include "cohort_search.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { N_VOCAB = 48, N_SEQS = 6, FIRST = 2, N_NODES = N_SEQS - FIRST };

static const struct shape tiny = {N_VOCAB, 32, 2, 2, 1, 16, 16, 32, 16, 64, QUANT_F32, QUANT_F32, QUANT_F32, QUANT_F32,
		true, NULL, NULL, NULL};
static struct cohort_model *m;
static struct cohort_context *ctx;
static struct cohort_err err;

static void ok(enum cohort_status st)
{
	if (st)
		fail_msg("%s", err.text);
}

/* The last call was refused for that. */
static void refused(enum cohort_status st, const char *rule, int64_t row, int64_t seq, int64_t expected, int64_t got)
{
	assert_int_equal(st, COHORT_E_ARG);
	assert_int_equal(err.status, st);
	if (!err.rule || strcmp(err.rule, rule) != 0)
		fail_msg("not the rule %s: %s", rule, err.text);
	assert_int_equal(err.row, row);
	assert_int_equal(err.seq, seq);
	assert_int_equal(err.expected, expected);
	assert_int_equal(err.got, got);
}

static void refused_text(enum cohort_status st, const char *text)
{
	assert_int_equal(st, COHORT_E_ARG);
	assert_null(err.rule);
	assert_string_equal(err.text, text);
}

static struct cohort_context *open_context(uint32_t outputs, bool output_all)
{
	struct cohort_context_params cp;
	struct cohort_context *c;

	cohort_context_params_init(&cp);
	cp.n_ctx = 256;
	cp.n_seq_max = N_SEQS;
	cp.n_threads = 1;
	cp.outputs = outputs;
	cp.output_all = output_all;
	ok(cohort_context_open(m, &cp, &c, &err));
	return c;
}

static int open_all(void **state)
{
	char *path = synth_write(&tiny, 4);

	(void)state;
	ok(cohort_model_open(path, NULL, &m, &err));
	unlink(path);
	free(path);
	ctx = open_context(COHORT_OUTPUT_LOGITS, false);
	return 0;
}

static int close_all(void **state)
{
	(void)state;
	cohort_context_free(ctx);
	cohort_model_free(m);
	return 0;
}

static enum cohort_status open_forest(cohort_seq first, int32_t n, struct cohort_forest **out)
{
	struct cohort_forest_params fp;

	cohort_forest_params_init(&fp);
	fp.first_seq = first;
	fp.n_seqs = n;
	return cohort_forest_open(ctx, &fp, out, &err);
}

/* A forest of so many branches at most, given back at once. */
static void opens(cohort_seq first, int32_t n, int32_t n_want)
{
	struct cohort_pressure p;
	struct cohort_forest *f = NULL;

	ok(open_forest(first, n, &f));
	cohort_forest_pressure_get(f, &p);
	assert_int_equal(p.n_seqs, n_want);
	cohort_forest_free(f);
}

/* ---- Opening ---- */

static void held_ids(void **state)
{
	const cohort_token t = 3;
	struct cohort_forest *f = NULL;
	(void)state;

	ok(cohort_decode_many(ctx, &t, 1, 0, 4, &err));
	/* All ids there are, from the first or another one on: the one that holds a cell is behind it. */
	refused(cohort_forest_open(ctx, NULL, &f, &err), "seq-held", -1, 4, 0, 1);
	assert_string_equal(err.text, "sequence 4 is not empty");
	refused(open_forest(0, 0, &f), "seq-held", -1, 4, 0, 1);
	refused(open_forest(3, 0, &f), "seq-held", -1, 4, 0, 1);
	refused(open_forest(4, 0, &f), "seq-held", -1, 4, 0, 1);
	refused(open_forest(0, 5, &f), "seq-held", -1, 4, 0, 1);
	refused(open_forest(4, 1, &f), "seq-held", -1, 4, 0, 1);
	assert_null(f);
	opens(0, 4, 4);
	opens(5, 0, 1);
	ok(cohort_seq_rm(ctx, 4, 0, -1, &err));
	opens(0, 0, N_SEQS);
	opens(3, 0, N_SEQS - 3);
}

static void ids_of_the_context(void **state)
{
	static const struct {
		cohort_seq first;
		int32_t n, expected, got;
	} none[] = {{-1, 0, N_SEQS, -1}, {-1, 1, N_SEQS, -1}, {N_SEQS, 0, N_SEQS, N_SEQS}, {N_SEQS, 1, N_SEQS, N_SEQS},
			{0, -1, 0, -1}, {0, N_SEQS + 1, N_SEQS, N_SEQS + 1}, {N_SEQS - 1, 2, 1, 2},
			{1, INT32_MAX, N_SEQS - 1, INT32_MAX}, {INT32_MAX, INT32_MAX, N_SEQS, INT32_MAX},
			{INT32_MIN, INT32_MIN, N_SEQS, INT32_MIN}};
	struct cohort_forest *f = NULL;
	(void)state;

	for (size_t i = 0; i < sizeof none / sizeof *none; i++)
		refused(open_forest(none[i].first, none[i].n, &f), "seq-id", -1, none[i].first,
				none[i].expected, none[i].got);
	assert_null(f);
	opens(0, N_SEQS, N_SEQS);
	opens(N_SEQS - 1, 1, 1);
}

static void forest_open_refuses_contexts(void **state)
{
	static const char text[] = "a forest needs a context whose rows have logits when they ask for them";
	struct cohort_context *embeddings = open_context(COHORT_OUTPUT_EMBEDDINGS, false),
			      *all = open_context(COHORT_OUTPUT_LOGITS, true),
			      *both = open_context(COHORT_OUTPUT_LOGITS | COHORT_OUTPUT_EMBEDDINGS, false);
	struct cohort_forest *f = NULL;
	(void)state;

	refused_text(cohort_forest_open(NULL, NULL, &f, &err), "context is NULL");
	refused_text(cohort_forest_open(ctx, NULL, NULL, &err), "out is NULL");
	refused_text(cohort_forest_open(embeddings, NULL, &f, &err), text);
	refused_text(cohort_forest_open(all, NULL, &f, &err), text);
	assert_null(f);
	ok(cohort_forest_open(both, NULL, &f, &err));
	cohort_forest_free(f);
	cohort_context_free(embeddings);
	cohort_context_free(all);
	cohort_context_free(both);
}

/* ---- Handles ---- */

static struct cohort_forest *forest;
static struct cohort_branch good; /* with logits */
static float logits[N_VOCAB];
static const cohort_token token = 3;
static const struct cohort_logit_bias one_bias = {1, 2.0f};
/* What calls write. */
static struct {
	cohort_token token, tokens[N_VOCAB];
	int32_t n;
	double x;
	struct cohort_branch branch, branches[N_NODES];
	struct cohort_branch_info info;
	struct cohort_beams beams;
	struct cohort_texts texts;
	struct cohort_tree tree;
} out, untouched;

enum { ROWS_MAX = 40 };
static struct row {
	const char *name;
	int item; /* the handle's place in the call, -1: there is one only */
	enum cohort_status (*call)(struct cohort_branch b);
} rows[ROWS_MAX];
static size_t n_rows;

/* ROW(NAME, ITEM, (ARGUMENTS)): a call in which all is well but the handle b. */
#define JOIN(a, b) a##b
#define AT(name, line) JOIN(name, line)
#define ROW(name, item, arguments) \
	static enum cohort_status AT(row_, __LINE__)(struct cohort_branch b) \
	{ \
		return name arguments; \
	} \
	static void __attribute__((constructor)) AT(add_, __LINE__)(void) \
	{ \
		rows[n_rows++] = (struct row){#name, item, AT(row_, __LINE__)}; \
	} \
	struct row /* takes the semicolon */

ROW(cohort_beams_search, -1, (forest, b, NULL, &out.beams, &err));
ROW(cohort_branch_accept, -1, (forest, b, token, &err));
ROW(cohort_branch_bias_set, -1, (forest, b, &one_bias, 1, &err));
ROW(cohort_branch_decode_each, 0, (forest, (struct cohort_branch_token[]){{b, token}, {good, token}}, 2, &err));
ROW(cohort_branch_decode_each, 1, (forest, (struct cohort_branch_token[]){{good, token}, {b, token}}, 2, &err));
ROW(cohort_branch_decode_scatter, 1,
		(forest, (struct cohort_branch_span[]){{good, &token, 1}, {b, &token, 1}}, 2, &err));
ROW(cohort_branch_detach, -1, (forest, b, &err));
ROW(cohort_branch_entropy_get, -1, (forest, b, &out.x, &err));
ROW(cohort_branch_fork, -1, (forest, b, NULL, &out.branch, &err));
ROW(cohort_branch_info_get, -1, (forest, b, &out.info, &err));
ROW(cohort_branch_leaves_get, -1, (forest, b, out.branches, N_NODES, &out.n, &err));
ROW(cohort_branch_legal_get, -1, (forest, b, out.tokens, N_VOCAB, &out.n, &err));
ROW(cohort_branch_logits_merge, -1, (forest, b, good, 1.0f, &err));
ROW(cohort_branch_logits_merge, -1, (forest, good, b, 1.0f, &err));
ROW(cohort_branch_logits_set, -1, (forest, b, logits, &err));
ROW(cohort_branch_prefill, 0, (forest, b, &token, 1, &err));
ROW(cohort_branch_prune, -1, (forest, b, &err));
ROW(cohort_branch_prune_subtree, -1, (forest, b, &err));
ROW(cohort_branch_retain_only, -1, (forest, b, &err));
ROW(cohort_branch_sample, -1, (forest, b, &out.token, &err));
ROW(cohort_branch_step, 0, (forest, &b, 1, &err));
ROW(cohort_branch_surprisal_get, -1, (forest, b, token, &out.x, &err));
ROW(cohort_texts_draw, -1, (forest, b, NULL, &out.texts, &err));
ROW(cohort_tree_grow, -1, (forest, b, NULL, &out.tree, &err));

/* Every function refuses the handle, and the forest is as it was. */
static void none_takes(struct cohort_branch b, const char *rule, int64_t seq, int64_t expected, int64_t got)
{
	struct cohort_branch_info info;
	struct cohort_pressure p;

	for (size_t i = 0; i < n_rows; i++) {
		err = (struct cohort_err){0};
		const enum cohort_status st = rows[i].call(b);
		if (st != COHORT_E_ARG)
			fail_msg("%s gives %d to index %u", rows[i].name, (int)st, b.index);
		refused(st, rule, rows[i].item, seq, expected, got);
		assert_memory_equal(&out, &untouched, sizeof out);
	}
	assert_false(cohort_branch_is_legal(forest, b, token));
	assert_null(cohort_branch_logits_get(forest, b, &err));
	refused(err.status, rule, -1, seq, expected, got);
	cohort_forest_pressure_get(forest, &p);
	assert_int_equal(p.n_leased, N_NODES - 1);
	ok(cohort_branch_info_get(forest, good, &info, &err));
	assert_true(info.n_past == 1 && info.pending == -1 && info.n_accepted == 0 && info.n_children == N_NODES - 2);
	assert_memory_equal(cohort_branch_logits_get(forest, good, &err), logits, sizeof logits);
}

static void beyond_the_last(void **state)
{
	static const uint32_t far[] = {
			N_NODES, N_NODES + 1, N_SEQS, INT32_MAX, (uint32_t)INT32_MAX + 1, UINT32_MAX - 1, UINT32_MAX};
	struct cohort_branch b, last;
	struct cohort_branch_info info;
	(void)state;

	memset(&untouched, 0x5a, sizeof untouched);
	memcpy(&out, &untouched, sizeof out);
	ok(open_forest(FIRST, N_NODES, &forest));
	ok(cohort_branch_create(forest, NULL, &good, &err));
	ok(cohort_branch_prefill(forest, good, &token, 1, &err));
	memcpy(logits, cohort_branch_logits_get(forest, good, &err), sizeof logits);
	for (int i = 1; i < N_NODES; i++)
		ok(cohort_branch_fork(forest, good, NULL, &last, &err));
	/* The last index is one. */
	assert_int_equal(last.index, N_NODES - 1);
	ok(cohort_branch_info_get(forest, last, &info, &err));
	assert_int_equal(info.seq, N_SEQS - 1);
	/* And its id's next branch will be another: it is stale, which those behind it never are. */
	ok(cohort_branch_prune(forest, last, &err));
	none_takes((struct cohort_branch){last.forest, last.index, 2}, "branch-stale", N_SEQS - 1, 1, 2);
	for (size_t i = 0; i < sizeof far / sizeof *far; i++)
		for (uint64_t generation = 0; generation < 3; generation++) {
			b = (struct cohort_branch){good.forest, far[i], generation};
			none_takes(b, "branch-foreign", -1, N_NODES, far[i]);
			assert_string_equal(err.text, "the branch is no handle of this forest");
		}
	b = (struct cohort_branch){good.forest + 1, good.index, good.generation};
	none_takes(b, "branch-foreign", -1, good.forest, good.forest + 1);
	cohort_forest_free(forest);
}

/* ---- Numbers ---- */

static cohort_token drawn(void)
{
	cohort_token t = -1;

	ok(cohort_branch_sample(forest, good, &t, &err));
	return t;
}

/* Biases that are none leave those that were set. */
static void bad_biases_leave_those_before(void **state)
{
	struct cohort_logit_bias bias[2] = {{7, 1e6f}, {8, 1.0f}};
	(void)state;

	ok(open_forest(0, 0, &forest));
	ok(cohort_branch_create(forest, NULL, &good, &err));
	ok(cohort_branch_prefill(forest, good, &token, 1, &err));
	ok(cohort_branch_bias_set(forest, good, bias, 2, &err));
	refused(cohort_branch_bias_set(forest, good, bias, -1, &err), "n_bias", -1, -1, 0, -1);
	refused(cohort_branch_bias_set(forest, good, NULL, -1, &err), "n_bias", -1, -1, 0, -1);
	refused(cohort_branch_bias_set(forest, good, bias, INT32_MIN, &err), "n_bias", -1, -1, 0, INT32_MIN);
	refused_text(cohort_branch_bias_set(forest, good, NULL, 1, &err), "bias is NULL");
	bias[1].token = N_VOCAB;
	refused(cohort_branch_bias_set(forest, good, bias, 2, &err), "token", 1, 0, N_VOCAB, N_VOCAB);
	assert_string_equal(err.text, "bias 1 is for token 48, which is not in 0 to 47");
	bias[1].token = -1;
	refused(cohort_branch_bias_set(forest, good, bias, 2, &err), "token", 1, 0, N_VOCAB, -1);
	bias[1] = (struct cohort_logit_bias){0, INFINITY};
	refused(cohort_branch_bias_set(forest, good, bias, 2, &err), "bias", 1, 0, 0, 0);
	assert_string_equal(err.text, "bias 1 is infinite");
	bias[1].bias = NAN;
	refused(cohort_branch_bias_set(forest, good, bias, 2, &err), "bias", 1, 0, 0, 0);
	assert_string_equal(err.text, "bias 1 is not a number");
	assert_int_equal(drawn(), 7);
	/* The last token, and never. */
	ok(cohort_branch_bias_set(forest, good,
			(struct cohort_logit_bias[]){{0, -INFINITY}, {N_VOCAB - 1, 1e6f}}, 2, &err));
	assert_int_equal(drawn(), N_VOCAB - 1);
	/* To take them away needs no memory. Seen red with a copy of no biases. */
	mem_fail_after(0);
	ok(cohort_branch_bias_set(forest, good, NULL, 0, &err));
	mem_fail_after(-1);
	cohort_forest_free(forest);
}

/* Each allocation of a fork of a branch that has all it may have fails in turn: nothing is there that was not, and
 * nothing stays behind (tests/e2e/unit_leaks). Seen red with biases that are not released. */
static void forks_out_of_memory_at_every_point(void **state)
{
	const struct cohort_logit_bias bias = {7, 1e6f};
	struct cohort_pressure before, after;
	struct cohort_branch b;
	(void)state;

	ok(open_forest(0, 0, &forest));
	ok(cohort_branch_create(forest, NULL, &good, &err));
	ok(cohort_branch_prefill(forest, good, &token, 1, &err));
	ok(cohort_branch_bias_set(forest, good, &bias, 1, &err));
	cohort_forest_pressure_get(forest, &before);
	for (int64_t k = 0;; k++) {
		mem_fail_after(k);
		const enum cohort_status st = cohort_branch_fork(forest, good, NULL, &b, &err);
		mem_fail_after(-1);
		if (!st)
			break;
		assert_int_equal(st, COHORT_E_MEMORY);
		cohort_forest_pressure_get(forest, &after);
		assert_memory_equal(&before, &after, sizeof before);
		assert_true(k < 100);
	}
	assert_int_equal(drawn(), 7);
	cohort_forest_free(forest);
}

/* What looks at logits, before there are any. Seen red with a row that is no row's, and with logits that are used. */
static void nothing_decoded(void **state)
{
	struct cohort_branch b;
	cohort_token t = -7;
	double x = -7;
	(void)state;

	ok(open_forest(FIRST, 0, &forest));
	ok(cohort_branch_create(forest, NULL, &good, &err));
	ok(cohort_branch_prefill(forest, good, &token, 1, &err));
	ok(cohort_branch_create(forest, NULL, &b, &err));
	const int64_t seq = FIRST + 1;
	assert_null(cohort_branch_logits_get(forest, b, &err));
	refused(COHORT_E_ARG, "branch-logits", -1, seq, 1, 0);
	refused(cohort_branch_entropy_get(forest, b, &x, &err), "branch-logits", -1, seq, 1, 0);
	refused(cohort_branch_surprisal_get(forest, b, 3, &x, &err), "branch-logits", -1, seq, 1, 0);
	refused(cohort_branch_logits_merge(forest, b, good, 1, &err), "branch-logits", -1, seq, 1, 0);
	refused(cohort_branch_logits_merge(forest, good, b, 1, &err), "branch-logits", -1, seq, 1, 0);
	refused(cohort_branch_sample(forest, b, &t, &err), "branch-logits", -1, seq, 1, 0);
	refused(cohort_branch_accept(forest, b, 3, &err), "branch-logits", -1, seq, 1, 0);
	refused(cohort_branch_decode_each(forest, (struct cohort_branch_token[]){{good, 3}, {b, 3}}, 2, &err),
			"branch-logits", 1, seq, 1, 0);
	refused(cohort_branch_step(forest, &b, 1, &err), "branch-idle", 0, seq, 1, 0);
	assert_true(t == -7 && x == -7);
	/* A token that is pending is in the way of others. */
	ok(cohort_branch_accept(forest, good, 5, &err));
	refused(cohort_branch_accept(forest, good, 3, &err), "branch-pending", -1, FIRST, -1, 5);
	refused(cohort_branch_sample(forest, good, &t, &err), "branch-pending", -1, FIRST, -1, 5);
	refused(cohort_branch_prefill(forest, good, &token, 1, &err), "branch-pending", 0, FIRST, -1, 5);
	refused(cohort_branch_decode_each(forest, &(struct cohort_branch_token){good, 3}, 1, &err), "branch-pending", 0,
			FIRST, -1, 5);
	refused(cohort_branch_step(forest, (struct cohort_branch[]){good, good}, 2, &err), "branch-duplicate", 1, FIRST,
			1, 2);
	ok(cohort_branch_step(forest, &good, 1, &err));
	cohort_forest_free(forest);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
			cmocka_unit_test_setup_teardown(held_ids, open_all, close_all),
			cmocka_unit_test_setup_teardown(ids_of_the_context, open_all, close_all),
			cmocka_unit_test_setup_teardown(forest_open_refuses_contexts, open_all, close_all),
			cmocka_unit_test_setup_teardown(beyond_the_last, open_all, close_all),
			cmocka_unit_test_setup_teardown(nothing_decoded, open_all, close_all),
			cmocka_unit_test_setup_teardown(bad_biases_leave_those_before, open_all, close_all),
			cmocka_unit_test_setup_teardown(forks_out_of_memory_at_every_point, open_all, close_all),
	};
	return cmocka_run_group_tests_name("branch_refuse", tests, NULL, NULL);
}
