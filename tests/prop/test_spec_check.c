/* SPEC section 2, sentence by sentence. What test_spec.c is to section 1.
 *
 * 2. Check and split
 *   against vocabulary, n_embd, n_seq_max                       spec2_rule_token, _n_embd, _seq_id
 *   against a memory, or none                                   spec2_memory_absent, spec2_rule_pos_start
 *   fills sequence 0, positions, output on the last or on all   spec2_fills_what_is_missing, spec2_output_all
 *   a refusal names rule, row, sequence, expected, got          spec2_rule_* (refuse() looks at all of them)
 *   token in the vocabulary                                     spec2_rule_token
 *   ids in range, at least one, none twice                      spec2_rule_seq_id, _seq_count, _seq_repeat
 *   position >= 0 and below the limit                           spec2_rule_pos_negative, _pos_limit
 *   the first new position is the memory's max + 1, or 0        spec2_rule_pos_start
 *   then rising by one: no gaps, repeats, decrease              spec2_rule_pos_step
 *   coupled sequences have the same history                     spec2_rule_seq_history
 *   a row's set may shrink, not mix                             spec2_rule_seq_sets, spec2_sets_may_shrink
 *   n_tokens >= 1                                               spec2_rule_n_tokens
 *   (rows that no model could take)                             spec2_rule_row_kind, _n_embd, _embd_finite,
 *                                                               spec2_rule_pos_per_embd
 *   n_seq_max up to at least 4096                               spec2_n_seq_max_4096
 *   what llama.cpp lets pass is refused                         spec2_refuses_what_others_let_pass
 *   splits end with an empty one, never above n_ubatch, each
 *   row once; simple, equal, seq; keep-tail; reset              spec2_split_*; tests/unit/test_batch_split.c
 *   in an order from which outputs map back                     spec2_split_*, spec3_outputs_in_batch_order
 *   state queries                                               spec2_state_queries
 *   what a ubatch carries                                       spec2_ubatch_carries
 *   a debug dump                                                spec2_dump
 *   no allocation once warm                                     spec2_no_allocation_once_warm
 *   ns per row                                                  bench/bench_batch.c
 *
 * Shown red on planted faults, one at a time:
 *   coupled histories are not compared                          spec2_rule_seq_history
 *   runs of rows are taken at any position                      spec2_refuses_what_others_let_pass */
#include "spec_case.h"

/* ---- 2. Check ---- */

/* Pretends that a sequence holds `user` cells. */
static cohort_pos ends_at(void *user, cohort_seq seq)
{
	(void)seq;
	return *(const cohort_pos *)user - 1;
}
static bool all_same(void *user, cohort_seq a, cohort_seq b)
{
	(void)user;
	(void)a;
	(void)b;
	return true;
}

/* Refused by check and decode alike, with everything named and nothing changed. */
static void refuse(struct cohort_context *c, const struct cohort_batch *b, enum cohort_status status, const char *rule,
		int64_t row, int64_t seq, int64_t expected, int64_t got, int64_t told)
{
	const uint64_t before = books(c);
	struct cohort_err err;

	for (int decode = 0; decode < 2; decode++) {
		memset(&err, 0, sizeof err);
		assert_int_equal(decode ? cohort_decode(c, b, &err) : cohort_check(c, b, &err), status);
		check_err(&err, status, rule, row, seq, expected, got);
		assert_true(mentions(err.text, told));
		assert_int_equal(books(c), before);
	}
}

/* A context whose sequences 0, 1 and 2 hold ten cells, 0 and 1 the same ones; and a batch with two good rows of 5. */
struct scene {
	struct cohort_context *c;
	struct cohort_batch b;
};

static struct scene scene_open(void)
{
	struct scene s = {context(), new_batch(64, 4)};

	say(s.c, 0, texts[0], 0, 10);
	OK(cohort_seq_cp(s.c, 0, 1, 0, -1, NULL));
	say(s.c, 2, texts[0], 0, 10);
	add_row(&s.b, 5, 0, 5, false);
	add_row(&s.b, 6, 1, 5, false);
	return s;
}

static void scene_close(struct scene *s)
{
	cohort_batch_release(&s->b);
	cohort_context_free(s->c);
}

static void ids_row(struct scene *s, cohort_pos pos, const cohort_seq *ids, int32_t n)
{
	OK(cohort_batch_add(&s->b, 7, pos, ids, n, true, NULL));
}

static void spec2_rule_n_tokens(void **state)
{
	struct scene s = scene_open();
	(void)state;
	cohort_batch_reset(&s.b);
	const uint64_t before = books(s.c);
	struct cohort_err err;
	assert_int_equal(cohort_decode(s.c, &s.b, &err), COHORT_E_BATCH);
	check_err(&err, COHORT_E_BATCH, "n-tokens", -1, -1, 1, 0);
	assert_int_equal(books(s.c), before);
	scene_close(&s);
}

static void spec2_rule_row_kind(void **state)
{
	struct scene s = scene_open();
	struct cohort_batch neither, both;
	struct cohort_err err;
	float v[EMBD] = {0};
	(void)state;

	OK(cohort_batch_view(&neither, texts[0], 1, NULL));
	both = neither;
	neither.tokens = NULL; /* no call makes these, a careless caller may */
	both.embd = v;
	both.n_embd = EMBD;
	assert_int_equal(cohort_decode(s.c, &neither, &err), COHORT_E_BATCH);
	check_err(&err, COHORT_E_BATCH, "row-kind", -1, -1, 1, 0);
	assert_int_equal(cohort_decode(s.c, &both, &err), COHORT_E_BATCH);
	check_err(&err, COHORT_E_BATCH, "row-kind", -1, -1, 1, 2);
	assert_int_equal(cohort_batch_add_embd(&s.b, v, texts[0], texts[0], 1, true, &err), COHORT_E_ARG);
	assert_true(strcmp(err.rule, "row-kind") == 0 && err.row == 2 && strstr(err.text, "vector"));
	scene_close(&s);
}

static void spec2_rule_n_embd(void **state)
{
	struct scene s = scene_open();
	struct cohort_batch b;
	const float v[EMBD + 1] = {0};
	const cohort_pos pos = 0;
	const cohort_seq seq = 5;
	(void)state;
	OK(cohort_batch_init(&b, 1, EMBD + 1, 1, NULL));
	OK(cohort_batch_add_embd(&b, v, &pos, &seq, 1, true, NULL));
	refuse(s.c, &b, COHORT_E_BATCH, "n-embd", -1, -1, EMBD, EMBD + 1, EMBD + 1);
	cohort_batch_release(&b);
	scene_close(&s);
}

static void spec2_rule_embd_finite(void **state)
{
	struct scene s = scene_open();
	struct cohort_batch b;
	float v[EMBD] = {0};
	const cohort_pos pos[] = {0, 1};
	const cohort_seq seq = 5;
	(void)state;
	OK(cohort_batch_init(&b, 2, EMBD, 1, NULL));
	OK(cohort_batch_add_embd(&b, v, &pos[0], &seq, 1, true, NULL));
	v[33] = NAN;
	OK(cohort_batch_add_embd(&b, v, &pos[1], &seq, 1, true, NULL));
	refuse(s.c, &b, COHORT_E_BATCH, "embd-finite", 1, -1, EMBD, 33, 33);
	cohort_batch_release(&b);
	scene_close(&s);
}

static void spec2_rule_pos_per_embd(void **state)
{
	struct scene s = scene_open();
	struct cohort_batch b;
	const cohort_seq seq = 5;
	(void)state;
	OK(cohort_batch_init_pos(&b, 2, 0, 1, 4, NULL));
	OK(cohort_batch_add(&b, 5, 0, &seq, 1, true, NULL));
	refuse(s.c, &b, COHORT_E_BATCH, "pos-per-embd", -1, -1, 1, 4, 4);
	cohort_batch_release(&b);
	scene_close(&s);
}

static void spec2_rule_token(void **state)
{
	const cohort_token bad[] = {-1, VOCAB, INT32_MAX, INT32_MIN};
	(void)state;
	for (size_t i = 0; i < 4; i++) {
		struct scene s = scene_open();
		add_row(&s.b, bad[i], 2, 5, false);
		refuse(s.c, &s.b, COHORT_E_BATCH, "token", 2, -1, VOCAB, bad[i], bad[i]);
		scene_close(&s);
	}
}

static void spec2_rule_seq_count(void **state)
{
	struct scene s = scene_open();
	struct cohort_batch_raw raw;
	(void)state;
	cohort_batch_raw_get(&s.b, &raw);
	raw.n_seq[1] = 0; /* add refuses it already: spec1_add_more_ids_is_a_status */
	refuse(s.c, &s.b, COHORT_E_BATCH, "seq-count", 1, -1, 1, 0, 1);
	raw.n_seq[1] = 5;
	refuse(s.c, &s.b, COHORT_E_BATCH, "seq-count", 1, -1, 4, 5, 5);
	scene_close(&s);
}

static void spec2_rule_seq_id(void **state)
{
	const cohort_seq bad[] = {-1, 16, INT32_MAX};
	(void)state;
	for (size_t i = 0; i < 3; i++) {
		struct scene s = scene_open();
		add_row(&s.b, 7, 0, bad[i], false);
		refuse(s.c, &s.b, COHORT_E_BATCH, "seq-id", 2, bad[i], 16, bad[i], bad[i]);
		scene_close(&s);
	}
}

static void spec2_rule_seq_repeat(void **state)
{
	struct scene s = scene_open();
	(void)state;
	ids_row(&s, 0, (cohort_seq[]){6, 7, 6}, 3);
	refuse(s.c, &s.b, COHORT_E_BATCH, "seq-repeat", 2, 6, 1, 2, 6);
	scene_close(&s);
}

/* Sets that join, and sets that mix, within a batch. */
static void spec2_rule_seq_sets(void **state)
{
	struct scene s = scene_open();
	(void)state;
	ids_row(&s, 0, (cohort_seq[]){6, 7, 8}, 3);
	ids_row(&s, 1, (cohort_seq[]){6, 7}, 2);
	ids_row(&s, 1, (cohort_seq[]){8}, 1);
	ids_row(&s, 2, (cohort_seq[]){7, 8}, 2);
	refuse(s.c, &s.b, COHORT_E_BATCH, "seq-sets", 5, 8, 3, 4, 8);
	scene_close(&s);
}

static void spec2_sets_may_shrink(void **state)
{
	struct scene s = scene_open();
	(void)state;
	ids_row(&s, 10, (cohort_seq[]){0, 1}, 2);
	ids_row(&s, 11, (cohort_seq[]){1, 0}, 2);
	ids_row(&s, 12, (cohort_seq[]){1}, 1);
	ids_row(&s, 12, (cohort_seq[]){0}, 1);
	OK(cohort_check(s.c, &s.b, NULL));
	OK(cohort_decode(s.c, &s.b, NULL));
	scene_close(&s);
}

static void spec2_rule_seq_history(void **state)
{
	struct scene s = scene_open();
	(void)state;
	/* The same tokens at the same positions, but not the same cells. */
	ids_row(&s, 10, (cohort_seq[]){0, 2}, 2);
	refuse(s.c, &s.b, COHORT_E_BATCH, "seq-history", 2, 2, 10, 10, 2);
	scene_close(&s);
}

/* What one of two wrote and took back parts them no more: the row that couples them has the bits it has alone. */
static void spec2_coupled_after_rollback(void **state)
{
	struct scene s = scene_open();
	const cohort_token next[] = {7, 9};
	float *want[2];
	(void)state;

	for (int i = 0; i < 2; i++) { /* 2 holds the same tokens */
		OK(cohort_decode_one(s.c, next[i], 10 + i, 2, true, NULL));
		want[i] = keep_logits(s.c, -1);
	}
	for (int wrote = 0; wrote < 2; wrote++) {
		OK(cohort_decode_one(s.c, 5, 10, wrote, true, NULL));
		cohort_batch_reset(&s.b);
		ids_row(&s, 11 - wrote, (cohort_seq[]){0, 1}, 2);
		assert_int_equal(cohort_check(s.c, &s.b, NULL), COHORT_E_BATCH);
		OK(cohort_seq_rm(s.c, wrote, 10, -1, NULL));
	}
	for (int i = 0; i < 2; i++) {
		cohort_batch_reset(&s.b);
		OK(cohort_batch_add(&s.b, next[i], 10 + i, (cohort_seq[]){1, 0}, 2, true, NULL));
		OK(cohort_decode(s.c, &s.b, NULL));
		assert_true(same_logits(s.c, -1, want[i]));
		free(want[i]);
	}
	scene_close(&s);
}

static void spec2_rule_pos_negative(void **state)
{
	struct scene s = scene_open();
	(void)state;
	add_row(&s.b, 7, -1, 6, false);
	refuse(s.c, &s.b, COHORT_E_BATCH, "pos-negative", 2, 6, 0, -1, -1);
	scene_close(&s);
}

static void spec2_rule_pos_limit(void **state)
{
	struct scene s = scene_open();
	(void)state;
	add_row(&s.b, 7, POS_LIMIT, 6, false);
	refuse(s.c, &s.b, COHORT_E_BATCH, "pos-limit", 2, 6, POS_LIMIT, POS_LIMIT, POS_LIMIT);
	/* Where a sequence really ends. */
	say(s.c, 6, texts[0], 0, POS_LIMIT);
	assert_int_equal(cohort_decode_one(s.c, 5, POS_LIMIT, 6, true, NULL), COHORT_E_BATCH);
	scene_close(&s);
}

static void spec2_rule_pos_start(void **state)
{
	const struct {
		cohort_seq seq;
		cohort_pos pos, want;
	} bad[] = {{0, 9, 10}, {0, 11, 10}, {0, 0, 10}, {6, 1, 0}, {6, 200, 0}};
	(void)state;
	for (size_t i = 0; i < 5; i++) {
		struct scene s = scene_open();
		add_row(&s.b, 7, bad[i].pos, bad[i].seq, false);
		refuse(s.c, &s.b, COHORT_E_BATCH, "pos-start", 2, bad[i].seq, bad[i].want, bad[i].pos, bad[i].want);
		cohort_batch_reset(&s.b);
		add_row(&s.b, 7, bad[i].want, bad[i].seq, false);
		OK(cohort_check(s.c, &s.b, NULL));
		scene_close(&s);
	}
}

static void spec2_rule_pos_step(void **state)
{
	const cohort_pos bad[] = {3, 1, 0, 200}; /* a gap, a repeat, a decrease, far */
	(void)state;
	for (size_t i = 0; i < 4; i++) {
		struct scene s = scene_open();
		add_row(&s.b, 7, 10, 0, false); /* another's row between */
		add_row(&s.b, 7, bad[i], 5, false);
		refuse(s.c, &s.b, COHORT_E_BATCH, "pos-step", 3, 5, 2, bad[i], 2);
		scene_close(&s);
	}
}

static void spec2_refuses_what_others_let_pass(void **state)
{
	static const char *const rules[] = {"pos-step", "pos-negative", "seq-count", "pos-start"};
	(void)state;
	for (int fault = 0; fault < 4; fault++) {
		struct scene s = scene_open();
		struct cohort_batch_raw raw;
		struct cohort_err err;
		cohort_batch_raw_get(&s.b, &raw);
		switch (fault) {
		case 0: raw.pos[1] = 0; break; /* equal positions */
		case 1: raw.pos[0] = -1; break; /* a position of -1 */
		case 2: raw.n_seq[0] = 0; break; /* an empty id list */
		default: raw.pos[0] = 30, raw.pos[1] = 31; break; /* an arbitrary start */
		}
		assert_int_equal(cohort_decode(s.c, &s.b, &err), COHORT_E_BATCH);
		assert_string_equal(err.rule, rules[fault]);
		scene_close(&s);
	}
}

static void spec2_n_seq_max_4096(void **state)
{
	const int32_t n_seq[] = {4096, 65536};
	(void)state;
	for (size_t k = 0; k < 2; k++) {
		struct cohort_context_params p = small();
		p.n_seq_max = n_seq[k];
		p.n_ctx = 64 * BLOCK;
		p.n_blocks = 64;
		struct cohort_context *c = context_of(golden, p);
		struct cohort_batch b = new_batch(64, 1);
		struct cohort_err err;
		for (int32_t i = 0; i < 60; i++)
			add_row(&b, texts[0][0], 0, i * (n_seq[k] / 60), true);
		add_row(&b, texts[0][0], 0, n_seq[k] - 1, true);
		OK(cohort_decode(c, &b, NULL));
		for (int32_t i = 1; i < 61; i++)
			assert_true(same_logits(c, i, cohort_logits_get(c, 0, NULL)));
		assert_int_equal(cohort_decode_one(c, 5, 0, n_seq[k], true, &err), COHORT_E_BATCH);
		check_err(&err, COHORT_E_BATCH, "seq-id", 0, n_seq[k], n_seq[k], n_seq[k]);
		cohort_batch_release(&b);
		cohort_context_free(c);
	}
}

static void spec2_memory_absent(void **state)
{
	const cohort_pos ten = 10;
	struct batch_memory mem = {(void *)(uintptr_t)&ten, ends_at, all_same};
	struct batch_limits lim = plain_limits();
	struct batch_checked k;
	struct cohort_batch b;
	struct scene s = scene_open();
	struct cohort_err err;
	(void)state;

	OK(cohort_batch_from_tokens(&b, texts[0], 4, NULL));
	assert_true(batch_checked_init(&k, 8, 4));
	OK(batch_check(&k, &b, &lim, NULL, NULL));
	assert_int_equal(batch_seq_pos_min(&k, 0), 0);
	OK(batch_check(&k, &b, &lim, &mem, NULL));
	assert_true(batch_seq_pos_min(&k, 0) == 10 && batch_seq_pos_max(&k, 0) == 13);
	batch_checked_release(&k);
	/* Encoding asks no memory: sequence 0 holds ten cells, and still begins at 0. */
	OK(cohort_encode(s.c, &b, &err));
	add_row(&s.b, 7, 10, 0, true);
	assert_int_equal(cohort_encode(s.c, &s.b, &err), COHORT_E_BATCH);
	check_err(&err, COHORT_E_BATCH, "pos-start", 2, 0, 0, 10);
	scene_close(&s);
}

static void spec2_fills_what_is_missing(void **state)
{
	const cohort_pos ten = 10;
	struct batch_memory mem = {(void *)(uintptr_t)&ten, ends_at, all_same};
	struct batch_limits lim = plain_limits();
	struct batch_checked k;
	struct cohort_batch b = new_batch(8, 2);
	(void)state;

	assert_true(batch_checked_init(&k, 8, 4));
	for (int32_t i = 0; i < 6; i++)
		add_row(&b, 7, 77, i % 2, false);
	cohort_batch_leave_out(&b, COHORT_BATCH_POS | COHORT_BATCH_OUTPUT);
	OK(batch_check(&k, &b, &lim, &mem, NULL));
	for (int32_t i = 0; i < 6; i++) { /* each sequence goes on by itself */
		assert_true(k.pos[i] == 10 + i / 2 && k.seq[i][0] == i % 2 && k.n_seq[i] == 1);
		assert_int_equal(k.output[i] != 0, i == 5);
	}
	cohort_batch_leave_out(&b, COHORT_BATCH_POS | COHORT_BATCH_SEQ);
	OK(batch_check(&k, &b, &lim, NULL, NULL));
	for (int32_t i = 0; i < 6; i++)
		assert_true(k.pos[i] == i && k.seq[i][0] == 0 && !k.output[i]);
	batch_checked_release(&k);
	cohort_batch_release(&b);
}

static void spec2_output_all(void **state)
{
	struct cohort_context_params p = small();
	struct cohort_batch b = new_batch(8, 1);
	(void)state;
	p.output_all = true;
	struct cohort_context *c = context_of(golden, p);
	for (int32_t i = 0; i < 6; i++)
		add_row(&b, 7 + i, i, 0, i == 2);
	OK(cohort_decode(c, &b, NULL));
	assert_int_equal(cohort_n_outputs(c), 6);
	for (int32_t i = 0; i < 6; i++)
		assert_non_null(cohort_logits_get(c, i, NULL));
	cohort_batch_release(&b);
	cohort_context_free(c);
}

/* ---- 2. Split ---- */

/* Rows of many sequences in a tangle, ids in no order: 11 is alone and long, 2 and 9 share rows and then part. */
static struct cohort_batch tangle(void)
{
	static const cohort_seq order[] = {11, 3, 11, 14, 3, 11, 0, 11, 14, 11, 11, 0, 3, 11, 11, 11, 14, 11};
	const cohort_seq both[] = {9, 2};
	cohort_pos next[16] = {0};
	struct cohort_batch b = new_batch(64, 2);

	for (int32_t i = 0; i < 18; i++) {
		const cohort_seq seq = order[i];
		if (i % 6 == 1) {
			OK(cohort_batch_add(&b, 100 + i, next[9], both, 2, i == 7, NULL));
			next[2] = ++next[9];
		}
		add_row(&b, 7 + i, next[seq]++, seq, i % 5 == 0);
	}
	for (int32_t i = 0; i < 5; i++) {
		add_row(&b, 200 + i, next[2]++, 2, true);
		if (i < 2)
			add_row(&b, 300 + i, next[9]++, 9, i == 1);
	}
	return b;
}

/* Walks all ubatches: none above n_ubatch, each row once, a sequence's rows in order. Returns how many there were. */
static int32_t walk(struct batch_checked *k, enum batch_split kind, int32_t n_ubatch, int32_t keep_tail)
{
	cohort_pos next[16] = {0};
	bool seen[64] = {false};
	struct ubatch u;
	int32_t n = 0, n_ubatches = 0;

	while (OK(batch_split(k, kind, n_ubatch, keep_tail, &u, NULL)), u.n_tokens) {
		n_ubatches++;
		assert_true(u.n_tokens <= n_ubatch && u.n_seqs * u.n_seq_tokens == u.n_tokens);
		for (int32_t i = 0; i < u.n_tokens; i++, n++) {
			const int32_t r = u.rows[i];
			assert_true(r >= 0 && r < k->n_tokens && !seen[r]);
			seen[r] = true;
			assert_true(u.tokens[i] == k->tokens[r] && u.pos[i] == k->pos[r] && u.n_seq[i] == k->n_seq[r]);
			assert_int_equal(!u.output[i], !k->output[r]);
			for (int32_t j = 0; j < u.n_seq[i]; j++)
				assert_int_equal(u.pos[i], next[u.seq[i][j]]++);
		}
		assert_int_equal(k->n_used, n);
		assert_memory_equal(&k->ubatch, &u, sizeof u);
	}
	assert_int_equal(n, k->n_tokens);
	OK(batch_split(k, kind, n_ubatch, keep_tail, &u, NULL));
	assert_int_equal(u.n_tokens, 0); /* and stays so */
	return n_ubatches;
}

struct tangled {
	struct cohort_batch b;
	struct batch_checked k;
};

static struct tangled tangled_open(void)
{
	struct tangled t = {.b = tangle()};
	const struct batch_limits lim = plain_limits();

	assert_true(batch_checked_init(&t.k, 64, 16));
	OK(batch_check(&t.k, &t.b, &lim, NULL, NULL));
	return t;
}

static void tangled_close(struct tangled *t)
{
	batch_checked_release(&t->k);
	cohort_batch_release(&t->b);
}

static void spec2_split_simple(void **state)
{
	struct tangled t = tangled_open();
	struct ubatch u;
	(void)state;
	for (int32_t n = 1; n <= 40; n++, batch_split_reset(&t.k))
		assert_int_equal(walk(&t.k, BATCH_SPLIT_SIMPLE, n, 0), (t.k.n_tokens + n - 1) / n);
	for (int32_t at = 0; OK(batch_split(&t.k, BATCH_SPLIT_SIMPLE, 4, 0, &u, NULL)), u.n_tokens; at += u.n_tokens)
		for (int32_t i = 0; i < u.n_tokens; i++)
			assert_int_equal(u.rows[i], at + i); /* consecutive */
	tangled_close(&t);
}

static void spec2_split_equal(void **state)
{
	struct tangled t = tangled_open();
	struct ubatch u;
	(void)state;
	for (int32_t n = 1; n <= 40; n++, batch_split_reset(&t.k))
		walk(&t.k, BATCH_SPLIT_EQUAL, n, 0);
	while (OK(batch_split(&t.k, BATCH_SPLIT_EQUAL, 12, 0, &u, NULL)), u.n_tokens) {
		int32_t owner[16];
		assert_true(u.equal_seqs);
		for (int32_t i = 0; i < 16; i++)
			owner[i] = -1;
		for (int32_t i = 0; i < u.n_tokens; i++)
			for (int32_t j = 0; j < u.n_seq[i]; j++) { /* sets do not overlap */
				int32_t *o = &owner[u.seq[i][j]];
				assert_true(*o < 0 || *o == i / u.n_seq_tokens);
				*o = i / u.n_seq_tokens;
			}
	}
	tangled_close(&t);
}

/* The last three rows of each set come in one ubatch. */
static void spec2_split_equal_keeps_tails(void **state)
{
	struct tangled t = tangled_open();
	struct ubatch u;
	int32_t of_row[64], n = 0;
	(void)state;
	for (; OK(batch_split(&t.k, BATCH_SPLIT_EQUAL, 5, 3, &u, NULL)), u.n_tokens; n++)
		for (int32_t i = 0; i < u.n_tokens; i++)
			of_row[u.rows[i]] = n;
	for (cohort_seq seq = 0; seq < 16; seq++) {
		int32_t last = -1, n_rows = 0;
		for (int32_t i = t.k.n_tokens - 1; i >= 0; i--) {
			if (t.k.n_seq[i] != 1 || t.k.seq[i][0] != seq || n_rows++ >= 3)
				continue;
			last = last < 0 ? of_row[i] : last;
			assert_int_equal(of_row[i], last);
		}
	}
	batch_split_reset(&t.k);
	walk(&t.k, BATCH_SPLIT_EQUAL, 5, 3);
	tangled_close(&t);
}

static void spec2_split_seq(void **state)
{
	struct tangled t = tangled_open();
	struct ubatch u;
	(void)state;
	for (int32_t n = 1; n <= 40; n++, batch_split_reset(&t.k))
		walk(&t.k, BATCH_SPLIT_SEQ, n, 0);
	while (OK(batch_split(&t.k, BATCH_SPLIT_SEQ, 8, 0, &u, NULL)), u.n_tokens)
		for (int32_t i = 1; i < u.n_tokens; i++) /* one set */
			assert_true(u.n_seq[i] == u.n_seq[0] && u.seq[i][0] == u.seq[0][0]);
	tangled_close(&t);
}

static void spec2_split_reset(void **state)
{
	struct tangled t = tangled_open();
	struct ubatch u;
	(void)state;
	for (int round = 0; round < 3; round++) { /* given up in the middle, and another kind */
		OK(batch_split(&t.k, (enum batch_split)round, 3, 0, &u, NULL));
		assert_true(u.n_tokens > 0 && t.k.n_used == u.n_tokens);
		batch_split_reset(&t.k);
		assert_int_equal(t.k.n_used, 0);
		walk(&t.k, (enum batch_split)round, 7, 0);
		batch_split_reset(&t.k);
	}
	tangled_close(&t);
}

static void spec2_state_queries(void **state)
{
	struct tangled t = tangled_open();
	struct ubatch u;
	int32_t n_outputs = 0;
	(void)state;
	assert_int_equal(t.k.n_tokens, cohort_batch_size(&t.b));
	for (int32_t i = 0; i < t.k.n_tokens; i++)
		n_outputs += t.k.output[i];
	assert_true(n_outputs > 5 && t.k.n_outputs == n_outputs);
	assert_true(batch_seq_pos_min(&t.k, 11) == 0 && batch_seq_pos_max(&t.k, 11) == 9);
	assert_true(batch_seq_pos_min(&t.k, 2) == 0 && batch_seq_pos_max(&t.k, 2) == 7);
	assert_int_equal(batch_seq_pos_max(&t.k, 9), 4);
	assert_true(batch_seq_pos_min(&t.k, 7) == -1 && batch_seq_pos_max(&t.k, 7) == -1);
	assert_true(batch_seq_pos_max(&t.k, -1) == -1 && batch_seq_pos_max(&t.k, 999) == -1);
	assert_int_equal(t.k.n_used, 0);
	OK(batch_split(&t.k, BATCH_SPLIT_SIMPLE, 5, 0, &u, NULL));
	assert_true(t.k.n_used == 5 && t.k.ubatch.n_tokens == 5);
	batch_clear(&t.k);
	assert_true(t.k.n_tokens == 0 && t.k.n_outputs == 0 && t.k.n_used == 0 && batch_seq_pos_max(&t.k, 11) == -1);
	tangled_close(&t);
}

static void spec2_ubatch_carries(void **state)
{
	struct tangled t = tangled_open();
	(void)state;
	for (int kind = BATCH_SPLIT_SIMPLE; kind <= BATCH_SPLIT_SEQ; kind++) {
		struct ubatch u;
		batch_split_reset(&t.k);
		while (OK(batch_split(&t.k, (enum batch_split)kind, 6, 0, &u, NULL)), u.n_tokens) {
			bool named[16] = {false};
			int32_t n = 0;
			assert_true(u.tokens && !u.embd && u.pos && u.n_seq && u.seq && u.output);
			assert_int_equal(u.equal_seqs, kind != BATCH_SPLIT_SIMPLE);
			for (int32_t i = 0; i < u.n_tokens; i++)
				for (int32_t j = 0; j < u.n_seq[i]; j++) {
					n += !named[u.seq[i][j]];
					named[u.seq[i][j]] = true;
				}
			assert_int_equal(u.n_seqs_unq, n);
			for (int32_t i = 0; i < n; i++) /* unique ids rise, and ids lead to them */
				assert_true(named[u.seq_unq[i]] && u.seq_idx[u.seq_unq[i]] == i &&
						(i == 0 || u.seq_unq[i - 1] < u.seq_unq[i]));
			for (int32_t s = 0; s < 16; s++)
				assert_true(named[s] || u.seq_idx[s] == -1);
		}
	}
	tangled_close(&t);
}

static void keep_trace(const char *s, void *user)
{
	char *all = user;
	strncat(all, s, 8192 - strlen(all) - 1);
}

static void spec2_dump(void **state)
{
	static char traced[8192];
	char whole[4096], cut[64];
	struct cohort_context_params p = small();
	struct cohort_batch b = new_batch(8, 2);
	(void)state;

	add_row(&b, 123, 0, 4, true);
	OK(cohort_batch_add(&b, 45, 0, (cohort_seq[]){6, 7}, 2, false, NULL));
	const size_t n = cohort_batch_dump(&b, whole, sizeof whole);
	assert_true(n == strlen(whole) && n > 80);
	assert_true(mentions(whole, 123) && mentions(whole, 45) && strstr(whole, "6,7") && strstr(whole, "yes"));
	memset(cut, 'x', sizeof cut);
	assert_int_equal(cohort_batch_dump(&b, cut, 32), n); /* as snprintf */
	assert_true(cut[31] == 0 && cut[32] == 'x' && strncmp(cut, whole, 31) == 0);
	assert_int_equal(cohort_batch_dump(&b, NULL, 0), n);
	p.trace = keep_trace;
	p.trace_user = traced;
	p.n_ubatch = 1;
	struct cohort_context *c = context_of(golden, p);
	OK(cohort_decode(c, &b, NULL));
	const char *first = strstr(traced, "ubatch:");
	assert_true(strstr(traced, "checked batch: 2 rows") && first && strstr(first + 1, "ubatch:"));
	cohort_batch_release(&b);
	cohort_context_free(c);
}

static void spec2_no_allocation_once_warm(void **state)
{
	struct tangled t = tangled_open();
	const struct batch_limits lim = plain_limits();
	bool ok = true;
	(void)state;

	for (int round = 0; round < 2; round++) {
		mem_fail_all(round == 1);
		for (int kind = BATCH_SPLIT_SIMPLE; kind <= BATCH_SPLIT_SEQ; kind++) {
			struct ubatch u;
			ok = ok && !batch_check(&t.k, &t.b, &lim, NULL, NULL);
			do {
				ok = ok && !batch_split(&t.k, (enum batch_split)kind, 6, 0, &u, NULL);
			} while (ok && u.n_tokens);
		}
		mem_fail_all(false);
		assert_true(ok);
	}
	tangled_close(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(spec2_rule_n_tokens),
		cmocka_unit_test(spec2_rule_row_kind),
		cmocka_unit_test(spec2_rule_n_embd),
		cmocka_unit_test(spec2_rule_embd_finite),
		cmocka_unit_test(spec2_rule_pos_per_embd),
		cmocka_unit_test(spec2_rule_token),
		cmocka_unit_test(spec2_rule_seq_count),
		cmocka_unit_test(spec2_rule_seq_id),
		cmocka_unit_test(spec2_rule_seq_repeat),
		cmocka_unit_test(spec2_rule_seq_sets),
		cmocka_unit_test(spec2_sets_may_shrink),
		cmocka_unit_test(spec2_rule_seq_history),
		cmocka_unit_test(spec2_coupled_after_rollback),
		cmocka_unit_test(spec2_rule_pos_negative),
		cmocka_unit_test(spec2_rule_pos_limit),
		cmocka_unit_test(spec2_rule_pos_start),
		cmocka_unit_test(spec2_rule_pos_step),
		cmocka_unit_test(spec2_refuses_what_others_let_pass),
		cmocka_unit_test(spec2_n_seq_max_4096),
		cmocka_unit_test(spec2_memory_absent),
		cmocka_unit_test(spec2_fills_what_is_missing),
		cmocka_unit_test(spec2_output_all),
		cmocka_unit_test(spec2_split_simple),
		cmocka_unit_test(spec2_split_equal),
		cmocka_unit_test(spec2_split_equal_keeps_tails),
		cmocka_unit_test(spec2_split_seq),
		cmocka_unit_test(spec2_split_reset),
		cmocka_unit_test(spec2_state_queries),
		cmocka_unit_test(spec2_ubatch_carries),
		cmocka_unit_test(spec2_dump),
		cmocka_unit_test(spec2_no_allocation_once_warm),
	};
	return cmocka_run_group_tests_name("spec_check", tests, open_golden, close_golden);
}
