/* SPEC section 4, sentence by sentence. What test_spec.c is to section 1.
 *
 * 4. Sequences and the KV cache
 *   fixed-size, position-aligned, counted blocks, a table each  spec4_usage, _fork_copies_no_data, tests/unit/test_kv.c
 *   copy on write for a shared tail                             spec4_shared_tail_is_copied_on_write
 *   a fork copies no tensor data                                spec4_fork_copies_no_data
 *   attention walks only a sequence's own blocks                spec4_others_do_not_matter
 *   sequence ids may be sparse                                  spec4_ids_may_be_sparse
 *   a sequence is bounded by the pool                           spec4_bounded_by_the_pool
 *   seq_rm                                                      spec4_rm_*
 *   seq_cp, onto occupied positions: refused                    spec4_cp_*
 *   seq_keep                                                    spec4_keep
 *   seq_add, with K re-rotation, copies into realigned blocks   spec4_add_*
 *   pos_min, pos_max, clear                                     spec4_pos_min_max_clear
 *   usage (blocks, shared, free)                                spec4_usage
 *   save and restore of one or all, to memory and file          spec4_state_*, tests/prop/test_state.c
 *   versioned, checksummed, refused when the model differs      spec4_state_refusals
 *   cache types f16 (default), f32, q8_0                        spec4_cache_types
 *   sliding windows free blocks that fell out                   spec4_window_*
 *   recurrent states behind the same calls                      tests/unit/test_memory.c
 *
 * K and V of a one-layer model depend on nothing but their token and position. So what a row sees can be told exactly:
 * a token that is out of sight may be any other, and the logits are the same bits.
 *
 * Shown red on planted faults, one at a time:
 *   keys rotated the wrong way                                  spec4_add_rotates_keys, _in_every_cache_type
 *   attention does not look at the held words                   spec4_rm_middle_is_not_seen
 *   a middle is not forgotten                                   spec4_rm_middle_is_not_seen, spec4_add_*
 *   attention ignores the window; is off by one                 spec4_window_rows_see_only_it
 *   tails cut past the window                                   spec4_window_gone, _of_some_layers
 *   copy on write copies nothing                                spec4_shared_tail_is_copied_on_write, _rm_tail_rewinds,
 *                                                               spec4_fork_copies_no_data, spec4_cp_ranges
 *   cp drops what dst has in a block                            spec4_cp_joins_blocks
 *   run_feed commits where it should roll back                  spec4_window_of_some_layers */
#include "spec_case.h"
#include "temp.h"

#include "base/rng.h"

static struct cohort_model *flat;     /* one layer, random weights, positions below 512 */
static struct cohort_model *windowed; /* the same with a window */

enum { WINDOW = 40 };

static int open_models(void **state)
{
	const struct shape shape = {VOCAB, EMBD, 1, 4, 2, 16, 16, 96, 16, 512, QUANT_F32, QUANT_F32, QUANT_F32,
			QUANT_F32, false, NULL, NULL, NULL};

	char *path = synth_write(&shape, 11);
	flat = model_at(path);
	windowed = model_at(path);
	unlink(path);
	free(path);
	windowed->model.layers[0].window = WINDOW;
	return open_golden(state);
}

static int close_models(void **state)
{
	cohort_model_free(flat);
	cohort_model_free(windowed);
	return close_golden(state);
}

static struct cohort_context_params f32_params(void)
{
	struct cohort_context_params p = small();
	p.kv_type = COHORT_KV_F32;
	return p;
}

/* What a sequence says to one more token. */
static float *next_logits(struct cohort_context *c, cohort_seq seq, cohort_token token)
{
	struct cohort_err err;
	if (cohort_decode_one(c, token, cohort_seq_pos_max(c, seq) + 1, seq, true, &err))
		fail_msg("%s", err.text);
	return keep_logits(c, -1);
}

static bool equal(const float *a, const float *b)
{
	return memcmp(a, b, VOCAB * sizeof *a) == 0;
}

/* Frees both. */
static void assert_same(float *a, float *b, bool same)
{
	assert_int_equal(equal(a, b), same);
	free(a);
	free(b);
}

/* The first n tokens of a text and then one more, in a context of its own. */
static float *said(const struct cohort_model *m, struct cohort_context_params p, const cohort_token *tokens, int32_t n,
		cohort_token more)
{
	struct cohort_context *c = context_of(m, p);
	say(c, 3, tokens, 0, n);
	float *logits = next_logits(c, 3, more);
	cohort_context_free(c);
	return logits;
}

/* ---- Blocks ---- */

static void spec4_fork_copies_no_data(void **state)
{
	struct cohort_context *c = context();
	(void)state;

	say(c, 0, texts[0], 0, 70);
	assert_true(usage(c).n_used == 3 && usage(c).n_shared == 0);
	mem_fail_all(true);
	enum cohort_status st = COHORT_OK;
	for (cohort_seq dst = 1; dst < 16 && !st; dst++)
		st = cohort_seq_cp(c, 0, dst, 0, -1, NULL);
	mem_fail_all(false);
	OK(st);
	assert_true(usage(c).n_used == 3 && usage(c).n_shared == 3 && usage(c).n_seqs == 16);
	for (cohort_seq dst = 1; dst < 16; dst++)
		for (size_t i = 0; i < 3; i++)
			assert_int_equal(kv_table(c->memory.kv[0], dst)[i], kv_table(c->memory.kv[0], 0)[i]);
	assert_same(next_logits(c, 9, 5), said(golden, small(), texts[0], 70, 5), true);
	cohort_context_free(c);
}

static void spec4_shared_tail_is_copied_on_write(void **state)
{
	struct cohort_context *c = context();
	struct cohort_batch b = new_batch(2, 2);
	(void)state;

	say(c, 0, texts[0], 0, 70);
	OK(cohort_seq_cp(c, 0, 1, 0, -1, NULL));
	OK(cohort_seq_cp(c, 0, 2, 0, -1, NULL));
	OK(cohort_decode_one(c, 5, 70, 1, true, NULL));
	assert_true(usage(c).n_used == 4 && usage(c).n_shared == 3); /* 0 and 2 have the old tail */
	/* Coupled they are all of its holders: it is written in place. */
	OK(cohort_batch_add(&b, 6, 70, (cohort_seq[]){0, 2}, 2, true, NULL));
	OK(cohort_decode(c, &b, NULL));
	assert_int_equal(usage(c).n_used, 4);
	assert_same(keep_logits(c, 0), said(golden, small(), texts[0], 70, 6), true);
	OK(cohort_decode_one(c, 7, 71, 2, true, NULL));
	assert_true(usage(c).n_used == 5 && usage(c).n_shared == 2);
	/* Each went its own way. */
	for (cohort_seq seq = 0; seq < 3; seq++) {
		cohort_token t[72];
		memcpy(t, texts[0], sizeof t);
		t[70] = seq == 1 ? 5 : 6;
		t[71] = 7;
		assert_same(next_logits(c, seq, 8), said(golden, small(), t, seq == 2 ? 72 : 71, 8), true);
	}
	/* A tail that is full needs no copy. */
	cohort_seq_clear(c);
	say(c, 0, texts[0], 0, 64);
	OK(cohort_seq_cp(c, 0, 1, 0, -1, NULL));
	OK(cohort_decode_one(c, 5, 64, 1, true, NULL));
	assert_true(usage(c).n_used == 3 && usage(c).n_shared == 2);
	cohort_batch_release(&b);
	cohort_context_free(c);
}

static void spec4_others_do_not_matter(void **state)
{
	struct cohort_context *c = context();
	(void)state;

	for (int32_t i = 0; i < 120; i++) /* blocks of several sequences in turn */
		for (cohort_seq seq = 0; seq < 4; seq++)
			OK(cohort_decode_one(c, texts[seq][i], i, 5 * seq, false, NULL));
	for (cohort_seq seq = 0; seq < 4; seq++)
		assert_same(next_logits(c, 5 * seq, 9), said(golden, small(), texts[seq], 120, 9), true);
	cohort_context_free(c);
}

static void spec4_ids_may_be_sparse(void **state)
{
	const cohort_seq ids[] = {0, 59999, 31111};
	struct cohort_context_params p = small();
	(void)state;

	p.n_seq_max = 60000;
	struct cohort_context *c = context_of(golden, p);
	for (int i = 0; i < 3; i++)
		say(c, ids[i], texts[i], 0, 50);
	assert_true(usage(c).n_used == 6 && usage(c).n_seqs == 3);
	for (int i = 0; i < 3; i++)
		assert_same(next_logits(c, ids[i], 9), said(golden, small(), texts[i], 50, 9), true);
	cohort_context_free(c);
}

static void spec4_bounded_by_the_pool(void **state)
{
	struct cohort_context_params p = small();
	(void)state;

	p.n_ctx = 256; /* 16 for each of 16 sequences, elsewhere */
	p.n_blocks = pool_blocks(p.n_ctx, 0);
	struct cohort_context *c = context_of(golden, p);
	say(c, 7, texts[0], 0, 256);
	assert_int_equal(usage(c).n_free, 0);
	assert_int_equal(cohort_decode_one(c, 5, 0, 8, true, NULL), COHORT_NO_ROOM);
	OK(cohort_seq_rm(c, 7, 224, -1, NULL));
	OK(cohort_decode_one(c, 5, 0, 8, true, NULL));
	cohort_context_free(c);
}

static void spec4_block_count(void **state)
{
	/* n_ctx, n_seqs, blocks of 32 */
	static const int32_t cases[][3] = {{2048, 64, 128}, {2048, 63, 127}, {2048, 65, 128}, {2048, 1, 65},
			{2048, 0, 64}, {2047, 64, 64 + 63}, {31, 5, 1}, {32, 5, 2}, {33, 5, 3}, {1, 1, 1}, {0, 1, 0},
			{1 << 30, 1 << 30, 1 << 26}};
	(void)state;

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		assert_int_equal(pool_blocks(cases[i][0], cases[i][1]), cases[i][2]);
}

/* n_ctx tokens fit, however n_ctx / 32 sequences divide them: at random, and with the most blocks that they can take.
 * Shown red by: a pool of n_ctx / 32 blocks, and one with half of the blocks that come with the sequences. */
static void spec4_pool_holds_n_ctx_tokens(void **state)
{
	struct cohort_context_params p = small();
	struct cohort_context_info info;
	struct rng r;
	(void)state;

	p.n_ctx = 256;
	p.n_blocks = 0;
	p.n_seq_max = 9;
	rng_init(&r, 1, 0);
	for (int round = 0; round < 20; round++) {
		struct cohort_context *c = context_of(golden, p);
		const int32_t n_seqs = 8;
		int32_t left = p.n_ctx, n_blocks = 0;
		cohort_context_info_get(c, &info);
		assert_true(info.n_blocks == 16 && usage(c).n_blocks == 16);
		for (int32_t s = 0; s < n_seqs; s++) {
			const int32_t most = left - (n_seqs - 1 - s);
			int32_t n = s == n_seqs - 1 ? most : 1 + (int32_t)(rng_u32(&r) % (uint32_t)most);
			if (round == 0)
				n = s < n_seqs - 1 ? 1 : 7 * BLOCK + 1;
			left -= n;
			n_blocks += (n + BLOCK - 1) / BLOCK;
			OK(cohort_decode_many(c, texts[0], n, 0, s, NULL));
		}
		assert_int_equal(usage(c).n_used, n_blocks);
		assert_true(round > 0 || n_blocks == 15);
		cohort_context_free(c);
	}
}

static void spec4_usage(void **state)
{
	struct cohort_context *c = context();
	struct cohort_usage u = usage(c);
	(void)state;

	assert_int_equal(u.block_size, pool_block_size());
	assert_true(u.n_blocks == 32 && u.n_used == 0 && u.n_shared == 0 && u.n_free == 32 && u.n_seqs == 0);
	/* 2 layers, 2 heads, 16 K and 16 V each of 2 bytes */
	assert_int_equal(u.block_bytes, BLOCK * 2 * 2 * (16 + 16) * 2);
	for (int32_t n = 1; n <= 65; n++) {
		OK(cohort_decode_one(c, 5, n - 1, 4, false, NULL));
		u = usage(c);
		assert_true(u.n_used == (n + BLOCK - 1) / BLOCK && u.n_used + u.n_free == 32 && u.n_seqs == 1);
	}
	OK(cohort_seq_cp(c, 4, 5, 0, 33, NULL));
	u = usage(c);
	assert_true(u.n_used == 3 && u.n_shared == 2 && u.n_seqs == 2);
	cohort_context_free(c);
}

static void spec4_pos_min_max_clear(void **state)
{
	struct cohort_context *c = context();
	(void)state;

	assert_true(cohort_seq_pos_min(c, 0) == -1 && cohort_seq_pos_max(c, 0) == -1);
	assert_true(cohort_seq_pos_max(c, -1) == -1 && cohort_seq_pos_max(c, 16) == -1);
	assert_int_equal(cohort_seq_pos_min(NULL, 0), -1);
	say(c, 4, texts[0], 0, 10);
	say(c, 5, texts[0], 0, 20);
	assert_true(cohort_seq_pos_min(c, 4) == 0 && cohort_seq_pos_max(c, 4) == 9);
	OK(cohort_seq_rm(c, 5, 0, 7, NULL));
	assert_true(cohort_seq_pos_min(c, 5) == 7 && cohort_seq_pos_max(c, 5) == 19);
	cohort_seq_clear(c);
	assert_true(usage(c).n_used == 0 && usage(c).n_seqs == 0);
	assert_true(cohort_seq_pos_max(c, 4) == -1 && cohort_seq_pos_min(c, 5) == -1);
	say(c, 5, texts[0], 0, 5); /* and they begin again */
	cohort_context_free(c);
}

/* ---- Removing ---- */

static void spec4_rm_tail_rewinds(void **state)
{
	struct cohort_context *c = context();
	(void)state;

	say(c, 0, texts[0], 0, 100);
	OK(cohort_seq_cp(c, 0, 1, 0, -1, NULL));
	OK(cohort_seq_rm(c, 0, 45, -1, NULL));
	assert_int_equal(cohort_seq_pos_max(c, 0), 44);
	assert_same(next_logits(c, 0, 9), said(golden, small(), texts[0], 45, 9), true);
	assert_same(next_logits(c, 1, 9), said(golden, small(), texts[0], 100, 9), true); /* the fork is untouched */
	cohort_context_free(c);
}

/* Two pasts that differ only at [30, 70): told apart, unless that range is removed. */
static void spec4_rm_middle_is_not_seen(void **state)
{
	cohort_token other[100];
	(void)state;

	memcpy(other, texts[0], sizeof other);
	memcpy(other + 30, texts[1] + 30, 40 * sizeof *other);
	for (int removed = 0; removed < 2; removed++) {
		struct cohort_context *c = context_of(flat, small());
		say(c, 0, texts[0], 0, 100);
		say(c, 1, other, 0, 100);
		if (removed) {
			OK(cohort_seq_rm(c, 0, 30, 70, NULL));
			OK(cohort_seq_rm(c, 1, 30, 70, NULL));
			assert_int_equal(usage(c).n_used, 6); /* of 8: one block of each was whole */
		}
		for (cohort_seq seq = 0; seq < 2; seq++)
			assert_true(cohort_seq_pos_min(c, seq) == 0 && cohort_seq_pos_max(c, seq) == 99);
		assert_same(next_logits(c, 0, 9), next_logits(c, 1, 9), removed);
		cohort_context_free(c);
	}
}

/* A sequence with a gap gives the same bits in any batch, and goes on at its end. */
static void spec4_rm_middle_in_any_company(void **state)
{
	struct cohort_context *c = context();
	struct cohort_scatter_item items[4];
	float *want[4];
	(void)state;

	for (int batched = 0; batched < 2; batched++) {
		cohort_seq_clear(c);
		for (cohort_seq seq = 0; seq < 4; seq++) {
			say(c, seq, texts[seq], 0, 90);
			OK(cohort_seq_rm(c, seq, 3 + seq, 40 + seq, NULL));
			if (seq == 2)
				OK(cohort_seq_rm(c, seq, 60, 61, NULL));
			items[seq] = (struct cohort_scatter_item){texts[7], 12, 90, seq, true};
			if (!batched) {
				OK(cohort_decode_scatter(c, &items[seq], 1, NULL, NULL));
				want[seq] = keep_logits(c, -1);
			}
		}
		if (!batched)
			continue;
		OK(cohort_decode_scatter(c, items, 4, NULL, NULL));
		for (cohort_seq seq = 0; seq < 4; seq++) {
			assert_true(same_logits(c, 12 * seq + 11, want[seq]));
			free(want[seq]);
		}
	}
	cohort_context_free(c);
}

static void spec4_rm_head_is_not_seen(void **state)
{
	struct cohort_context *c = context_of(flat, small());
	cohort_token other[60];
	(void)state;

	memcpy(other, texts[0], sizeof other);
	memcpy(other, texts[1], 35 * sizeof *other);
	say(c, 0, texts[0], 0, 60);
	say(c, 1, other, 0, 60);
	for (cohort_seq seq = 0; seq < 2; seq++)
		OK(cohort_seq_rm(c, seq, 0, 35, NULL));
	assert_true(cohort_seq_pos_min(c, 0) == 35 && usage(c).n_used == 2);
	assert_same(next_logits(c, 0, 9), next_logits(c, 1, 9), true);
	cohort_context_free(c);
}

static void spec4_rm_ranges(void **state)
{
	struct cohort_context *c = context();
	struct cohort_err err;
	(void)state;

	say(c, 0, texts[0], 0, 50);
	const uint64_t before = books(c);
	OK(cohort_seq_rm(c, 0, 50, -1, NULL)); /* nothing there */
	OK(cohort_seq_rm(c, 1, 0, -1, NULL));
	OK(cohort_seq_rm(c, 0, 20, 20, NULL));
	assert_int_equal(cohort_seq_rm(c, 16, 0, -1, &err), COHORT_E_ARG);
	assert_true(strcmp(err.rule, "seq-id") == 0 && mentions(err.text, 16));
	assert_int_equal(cohort_seq_rm(c, 0, -2, 5, &err), COHORT_E_ARG);
	assert_string_equal(err.rule, "range");
	assert_int_equal(cohort_seq_rm(c, 0, 5, -2, &err), COHORT_E_ARG);
	assert_string_equal(err.rule, "range");
	check_arg(cohort_seq_rm(NULL, 0, 0, -1, &err), &err, "context");
	assert_int_equal(books(c), before);
	OK(cohort_seq_rm(c, 0, 0, -1, NULL));
	assert_true(cohort_seq_pos_max(c, 0) == -1 && usage(c).n_used == 0);
	cohort_context_free(c);
}

/* ---- Copying, keeping ---- */

static void spec4_cp_ranges(void **state)
{
	struct cohort_context *c = context();
	(void)state;

	say(c, 0, texts[0], 0, 90);
	OK(cohort_seq_cp(c, 0, 5, 0, 45, NULL));
	assert_true(cohort_seq_pos_max(c, 5) == 44 && usage(c).n_used == 3);
	OK(cohort_seq_cp(c, 0, 6, 0, 45, NULL));
	OK(cohort_seq_cp(c, 0, 6, 45, 90, NULL)); /* the rest, beside what it has */
	OK(cohort_seq_cp(c, 0, 7, 50, -1, NULL)); /* a piece without its head */
	assert_true(cohort_seq_pos_min(c, 7) == 50 && cohort_seq_pos_max(c, 7) == 89);
	assert_int_equal(usage(c).n_used, 3);
	assert_same(next_logits(c, 5, 9), said(golden, small(), texts[0], 45, 9), true);
	assert_same(next_logits(c, 6, 9), said(golden, small(), texts[0], 90, 9), true);
	assert_same(next_logits(c, 0, 9), said(golden, small(), texts[0], 90, 9), true);
	cohort_context_free(c);
}

/* Cells of two sequences in one block: those of dst stay, those of src come, and src keeps its own. */
static void spec4_cp_joins_blocks(void **state)
{
	struct cohort_context *c = context_of(flat, small());
	cohort_token joined[80];
	(void)state;

	memcpy(joined, texts[1], 40 * sizeof *joined);
	memcpy(joined + 40, texts[0] + 40, 40 * sizeof *joined);
	say(c, 0, texts[0], 0, 90);
	say(c, 8, texts[1], 0, 40);
	OK(cohort_seq_cp(c, 0, 8, 40, 80, NULL));
	assert_int_equal(cohort_seq_pos_max(c, 8), 79);
	assert_true(books(c) && usage(c).n_used == 5 && usage(c).n_shared == 1);
	assert_same(next_logits(c, 8, 9), said(flat, small(), joined, 80, 9), true);
	assert_same(next_logits(c, 0, 9), said(flat, small(), texts[0], 90, 9), true);
	cohort_context_free(c);
}

static void spec4_cp_occupied_is_refused(void **state)
{
	struct cohort_context *c = context();
	struct cohort_err err;
	(void)state;

	say(c, 0, texts[0], 0, 90);
	say(c, 1, texts[1], 0, 50);
	const uint64_t before = books(c);
	assert_int_equal(cohort_seq_cp(c, 0, 1, 40, -1, &err), COHORT_E_ARG);
	check_err(&err, COHORT_E_ARG, "cp-occupied", -1, 1, 40, 40);
	assert_true(mentions(err.text, 40) && mentions(err.text, 1));
	assert_int_equal(cohort_seq_cp(c, 0, 16, 0, -1, &err), COHORT_E_ARG);
	assert_string_equal(err.rule, "seq-id");
	assert_int_equal(cohort_seq_cp(c, -1, 2, 0, -1, &err), COHORT_E_ARG);
	OK(cohort_seq_cp(c, 1, 0, 60, -1, &err)); /* nothing to copy */
	OK(cohort_seq_cp(c, 0, 0, 0, -1, &err));
	assert_int_equal(books(c), before);
	cohort_context_free(c);
}

static void spec4_keep(void **state)
{
	struct cohort_context *c = context();
	struct cohort_err err;
	(void)state;

	say(c, 0, texts[0], 0, 90);
	for (cohort_seq seq = 1; seq < 6; seq++)
		OK(cohort_seq_cp(c, 0, seq, 0, 10 * seq, NULL));
	say(c, 9, texts[1], 0, 40);
	assert_int_equal(cohort_seq_keep(c, 16, &err), COHORT_E_ARG);
	assert_int_equal(usage(c).n_seqs, 7);
	OK(cohort_seq_keep(c, 5, NULL));
	assert_true(usage(c).n_seqs == 1 && usage(c).n_used == 2 && usage(c).n_shared == 0);
	for (cohort_seq seq = 0; seq < 16; seq++)
		assert_int_equal(cohort_seq_pos_max(c, seq), seq == 5 ? 49 : -1);
	assert_same(next_logits(c, 5, 9), said(golden, small(), texts[0], 50, 9), true);
	cohort_context_free(c);
}

/* ---- Shifting ---- */

enum { N_SHIFT = 100, CUT = 21, DROP = 37 };

/* How far the logits behind a text with a piece cut out are from those of the rest alone. */
static double shifted_distance(struct cohort_context_params p, bool shift, bool forked)
{
	struct cohort_context *c = context_of(flat, p);
	cohort_token rest[N_SHIFT];

	say(c, 2, texts[0], 0, N_SHIFT);
	if (forked)
		OK(cohort_seq_cp(c, 2, 3, 0, -1, NULL));
	OK(cohort_seq_rm(c, 2, CUT, CUT + DROP, NULL));
	if (shift) {
		OK(cohort_seq_add(c, 2, CUT + DROP, -1, -DROP, NULL));
		assert_int_equal(cohort_seq_pos_max(c, 2), N_SHIFT - DROP - 1);
		assert_int_equal(usage(c).n_used, 2 + (forked ? 4 : 0)); /* realigned */
	}
	float *got = next_logits(c, 2, 9);
	memcpy(rest, texts[0], CUT * sizeof *rest);
	memcpy(rest + CUT, texts[0] + CUT + DROP, (N_SHIFT - CUT - DROP) * sizeof *rest);
	float *want = said(flat, p, rest, N_SHIFT - DROP, 9);
	const double d = distance(got, want, VOCAB);
	if (forked)
		assert_same(next_logits(c, 3, 9), said(flat, p, texts[0], N_SHIFT, 9), true);
	free(got);
	free(want);
	cohort_context_free(c);
	return d;
}

static void spec4_add_rotates_keys(void **state)
{
	const double shifted = shifted_distance(f32_params(), true, false);
	const double not_shifted = shifted_distance(f32_params(), false, false);
	(void)state;
	assert_true(shifted < 1e-12);
	assert_true(not_shifted > 1e-5);
}

static void spec4_add_in_every_cache_type(void **state)
{
	const enum cohort_kv_type types[] = {COHORT_KV_F32, COHORT_KV_F16, COHORT_KV_Q8_0};
	const double most[] = {1e-12, 1e-9, 1e-6};
	(void)state;
	for (size_t i = 0; i < 3; i++) {
		struct cohort_context_params p = small();
		p.kv_type = types[i];
		assert_true(shifted_distance(p, true, true) < most[i]); /* and the fork keeps the old cells */
	}
}

/* There and back by whole distances: positions, and nothing else lost. */
static void spec4_add_moves_positions(void **state)
{
	struct cohort_context *c = context_of(flat, f32_params());
	(void)state;

	say(c, 0, texts[0], 0, 50);
	OK(cohort_seq_add(c, 0, 0, -1, 200, NULL));
	assert_true(cohort_seq_pos_min(c, 0) == 200 && cohort_seq_pos_max(c, 0) == 249);
	OK(cohort_seq_add(c, 0, 0, -1, -187, NULL));
	assert_true(cohort_seq_pos_min(c, 0) == 13 && cohort_seq_pos_max(c, 0) == 62);
	OK(cohort_seq_add(c, 0, 0, -1, -13, NULL));
	OK(cohort_seq_add(c, 0, 10, 20, 0, NULL));
	float *got = next_logits(c, 0, 9), *want = said(flat, f32_params(), texts[0], 50, 9);
	assert_true(distance(got, want, VOCAB) < 1e-12);
	/* A part of it, and back over the gap this left. */
	OK(cohort_seq_add(c, 0, 30, -1, 70, NULL));
	assert_true(cohort_seq_pos_min(c, 0) == 0 && cohort_seq_pos_max(c, 0) == 120);
	OK(cohort_seq_add(c, 0, 100, -1, -70, NULL));
	assert_int_equal(cohort_seq_pos_max(c, 0), 50);
	assert_true(usage(c).n_used == 2);
	free(got);
	free(want);
	cohort_context_free(c);
}

static void spec4_add_refusals(void **state)
{
	struct cohort_context_params p = small();
	struct cohort_err err;
	(void)state;

	p.n_ctx = 4 * BLOCK;
	p.n_blocks = pool_blocks(p.n_ctx, 0);
	struct cohort_context *c = context_of(golden, p);
	say(c, 0, texts[0], 0, 100);
	const uint64_t before = books(c);
	assert_int_equal(cohort_seq_add(c, 0, 50, -1, -10, &err), COHORT_E_ARG);
	assert_true(strcmp(err.rule, "add-occupied") == 0 && err.seq == 0);
	assert_int_equal(cohort_seq_add(c, 0, 10, -1, -20, &err), COHORT_E_ARG);
	assert_true(strcmp(err.rule, "pos-negative") == 0 && err.got == -10);
	assert_int_not_equal(cohort_seq_add(c, 0, 0, -1, POS_LIMIT - 99, &err), COHORT_OK);
	assert_true(strcmp(err.rule, "pos-limit") == 0 && err.expected == POS_LIMIT && err.got == POS_LIMIT);
	assert_int_equal(cohort_seq_add(c, 0, 0, -1, 3, &err), COHORT_NO_ROOM); /* no block to realign with */
	assert_string_equal(err.rule, "kv-room");
	assert_int_equal(cohort_seq_add(c, 16, 0, -1, 3, &err), COHORT_E_ARG);
	assert_string_equal(err.rule, "seq-id");
	assert_int_equal(cohort_seq_add(c, 0, 5, -2, 3, &err), COHORT_E_ARG);
	assert_string_equal(err.rule, "range");
	assert_int_equal(books(c), before);
	cohort_context_free(c);
}

/* Past the end of the context, as docs/batching.md does it. */
static void spec4_add_lets_a_sequence_go_on(void **state)
{
	struct cohort_context_params p = small();
	(void)state;

	p.n_ctx = 128;
	p.n_blocks = pool_blocks(p.n_ctx, 0);
	struct cohort_context *c = context_of(golden, p);
	for (int32_t i = 0; i < 400; i++) {
		const cohort_pos pos = cohort_seq_pos_max(c, 0) + 1;
		OK(cohort_decode_one(c, texts[0][i], pos, 0, false, NULL));
		if (pos == 90) {
			OK(cohort_seq_rm(c, 0, 4, 44, NULL));
			OK(cohort_seq_add(c, 0, 44, -1, -40, NULL));
		}
	}
	assert_true(books(c) && cohort_seq_pos_min(c, 0) == 0 && cohort_seq_pos_max(c, 0) < 91);
	cohort_context_free(c);
}

/* ---- States ---- */

static void *save(struct cohort_context *c, cohort_seq seq, size_t *n)
{
	const size_t n_max = cohort_state_size(c, seq);
	void *bytes = malloc(n_max);

	assert_true(n_max && bytes);
	assert_int_equal(cohort_state_save(c, seq, bytes, n_max - 1, n, NULL), COHORT_E_LIMIT);
	OK(cohort_state_save(c, seq, bytes, n_max, n, NULL));
	assert_int_equal(*n, n_max);
	return bytes;
}

static void spec4_state_of_one(void **state)
{
	struct cohort_context *c = context(), *d = context();
	size_t n;
	(void)state;

	say(c, 4, texts[0], 0, 70);
	say(d, 1, texts[1], 0, 40);
	void *bytes = save(c, 4, &n);
	OK(cohort_state_restore(d, 9, bytes, n, NULL)); /* under another id, in another context */
	OK(cohort_state_restore(d, 1, bytes, n, NULL)); /* replacing what it held */
	assert_same(next_logits(d, 9, 9), said(golden, small(), texts[0], 70, 9), true);
	assert_same(next_logits(d, 1, 9), said(golden, small(), texts[0], 70, 9), true);
	assert_same(next_logits(c, 4, 9), said(golden, small(), texts[0], 70, 9), true);
	free(bytes);
	cohort_context_free(c);
	cohort_context_free(d);
}

static void spec4_state_of_all(void **state)
{
	float *want = probe_untouched(), *got;
	struct cohort_context *c = context(), *d = context();
	size_t n;
	(void)state;

	prepare(c);
	say(d, 15, texts[1], 0, 40);
	void *bytes = save(c, COHORT_SEQ_ALL, &n);
	OK(cohort_state_restore(d, COHORT_SEQ_ALL, bytes, n, NULL));
	assert_true(usage(d).n_used == usage(c).n_used && usage(d).n_shared == usage(c).n_shared);
	assert_true(usage(d).n_seqs == 4 && cohort_seq_pos_max(d, 15) == -1);
	got = probe(d); /* which couples 0 and 1: they still share their cells */
	assert_memory_equal(got, want, 3 * VOCAB * sizeof *got);
	free(got);
	free(want);
	free(bytes);
	cohort_context_free(c);
	cohort_context_free(d);
}

static void spec4_state_in_a_file(void **state)
{
	float *want = probe_untouched(), *got;
	char path[TEMP_MAX];
	struct cohort_context *c = context(), *d = context();
	struct cohort_err err;
	(void)state;

	close(mkstemp(temp_name(path, "spec")));
	prepare(c);
	OK(cohort_state_save_file(c, COHORT_SEQ_ALL, path, NULL));
	OK(cohort_state_restore_file(d, COHORT_SEQ_ALL, path, NULL));
	got = probe(d);
	assert_memory_equal(got, want, 3 * VOCAB * sizeof *got);
	OK(cohort_state_save_file(c, 2, path, NULL));
	OK(cohort_state_restore_file(d, 11, path, NULL));
	assert_same(next_logits(d, 11, 9), next_logits(c, 2, 9), true);
	unlink(path);
	assert_int_equal(cohort_state_restore_file(d, 11, path, &err), COHORT_E_IO);
	free(got);
	free(want);
	cohort_context_free(c);
	cohort_context_free(d);
}

static void spec4_state_refusals(void **state)
{
	struct cohort_context_params p = small();
	struct cohort_context *c = context(), *d = context(), *f32 = context_of(golden, f32_params());
	size_t n;
	struct cohort_err err;
	(void)state;

	struct cohort_context *other = context_of(flat, p);
	p.n_ctx = 2 * BLOCK;
	p.n_blocks = pool_blocks(p.n_ctx, 0);
	struct cohort_context *little = context_of(golden, p);
	say(c, 0, texts[0], 0, 70);
	say(d, 0, texts[1], 0, 20);
	say(little, 0, texts[1], 0, 20);
	const uint64_t before = books(d), before_little = books(little);
	uint8_t *bytes = save(c, 0, &n);
	for (size_t at = 8; at < n; at += 97) { /* a checksum: any bit */
		bytes[at] ^= 0x10;
		assert_int_not_equal(cohort_state_restore(d, 0, bytes, n, &err), COHORT_OK);
		assert_true(err.status == COHORT_E_FORMAT || err.status == COHORT_E_UNSUPPORTED);
		bytes[at] ^= 0x10;
	}
	assert_int_equal(cohort_state_restore(d, 0, bytes, n - 1, &err), COHORT_E_FORMAT);
	bytes[8]++; /* its version */
	assert_int_equal(cohort_state_restore(d, 0, bytes, n, &err), COHORT_E_UNSUPPORTED);
	bytes[8]--;
	assert_int_equal(cohort_state_restore(other, 0, bytes, n, &err), COHORT_E_UNSUPPORTED);
	assert_non_null(strstr(err.text, "model"));
	assert_int_equal(cohort_state_restore(f32, 0, bytes, n, &err), COHORT_E_UNSUPPORTED);
	assert_int_equal(cohort_state_restore(little, 0, bytes, n, &err), COHORT_NO_ROOM);
	assert_true(books(d) == before && books(little) == before_little && usage(other).n_used == 0);
	OK(cohort_state_restore(d, 0, bytes, n, &err));
	free(bytes);
	cohort_context_free(c);
	cohort_context_free(d);
	cohort_context_free(f32);
	cohort_context_free(other);
	cohort_context_free(little);
}

/* ---- Cache types ---- */

static void spec4_cache_types(void **state)
{
	const enum cohort_kv_type types[] = {COHORT_KV_F32, COHORT_KV_F16, COHORT_KV_Q8_0};
	const double most[] = {0, 1e-7, 1e-5};
	struct cohort_context_params p;
	uint64_t bytes[3];
	(void)state;

	cohort_context_params_init(&p);
	assert_int_equal(p.kv_type, COHORT_KV_F16);
	float *want = said(golden, f32_params(), texts[0], 150, 9);
	for (size_t i = 0; i < 3; i++) {
		p = small();
		p.kv_type = types[i];
		struct cohort_context *c = context_of(golden, p);
		say(c, 3, texts[0], 0, 150);
		float *got = next_logits(c, 3, 9);
		const double d = distance(got, want, VOCAB);
		assert_true(d <= most[i] && (d > 0) == (i > 0)); /* close, and really another type */
		bytes[i] = usage(c).block_bytes;
		free(got);
		cohort_context_free(c);
	}
	assert_true(bytes[1] * 2 == bytes[0] && bytes[2] < bytes[1]);
	free(want);
}

/* ---- Windows ---- */

static void spec4_window_lets_blocks_go(void **state)
{
	struct cohort_context_params p = small();
	(void)state;

	p.n_ctx = 4 * BLOCK; /* less than the sequence: it is bounded by its window */
	p.n_blocks = pool_blocks(p.n_ctx, 0);
	struct cohort_context *c = context_of(windowed, p);
	for (int32_t i = 0; i < 500; i++) {
		OK(cohort_decode_one(c, texts[0][i], i, 0, false, NULL));
		/* The next row sees positions i + 2 - WINDOW and on. */
		const int32_t sees = i + 2 - WINDOW > 0 ? i + 2 - WINDOW : 0;
		assert_int_equal(usage(c).n_used, i / BLOCK - sees / BLOCK + 1);
	}
	assert_true(books(c) && cohort_seq_pos_min(c, 0) == 0 && cohort_seq_pos_max(c, 0) == 499);
	OK(cohort_seq_cp(c, 0, 1, 0, -1, NULL));
	assert_same(next_logits(c, 0, 9), next_logits(c, 1, 9), true);
	cohort_context_free(c);
}

static void spec4_window_rows_see_only_it(void **state)
{
	enum { N = 150 };
	(void)state;

	for (int32_t changed = N - WINDOW - 2; changed < N; changed++) {
		cohort_token t[N];
		memcpy(t, texts[0], sizeof t);
		t[changed] = texts[1][changed];
		/* Row N sees itself and WINDOW - 1 before. */
		const bool out_of_sight = changed < N + 1 - WINDOW;
		assert_same(said(windowed, small(), texts[0], N, 9), said(windowed, small(), t, N, 9), out_of_sight);
		if (changed < N - WINDOW) /* without a window all is seen */
			assert_same(said(flat, small(), texts[0], N, 9), said(flat, small(), t, N, 9), false);
	}
}

/* The window of a row does not depend on how the text was cut. */
static void spec4_window_however_it_is_cut(void **state)
{
	struct cohort_context_params p = small();
	float *want = said(windowed, p, texts[0], 200, 9);
	(void)state;

	p.n_batch = 256;
	p.n_ubatch = 256;
	float *whole = said(windowed, p, texts[0], 200, 9); /* in one ubatch */
	assert_true(equal(want, whole));
	free(whole);
	struct cohort_context *c = context_of(windowed, p);
	for (int32_t i = 0; i < 200; i++)
		OK(cohort_decode_one(c, texts[0][i], i, 0, false, NULL));
	assert_same(next_logits(c, 0, 9), want, true);
	cohort_context_free(c);
}

static void spec4_window_gone(void **state)
{
	struct cohort_context *c = context_of(windowed, small());
	struct cohort_err err;
	(void)state;

	say(c, 0, texts[0], 0, 190); /* the next row sees 151 and on: the block of 128 stays, what is before went */
	const uint64_t before = books(c);
	assert_int_equal(cohort_seq_rm(c, 0, 150, -1, &err), COHORT_E_ARG);
	check_err(&err, COHORT_E_ARG, "window-gone", -1, 0, 149 + 2 - WINDOW, 128);
	assert_true(mentions(err.text, 149 + 2 - WINDOW) && mentions(err.text, 128));
	/* A cut among cells that are gone says what it would need, too. */
	assert_int_equal(cohort_seq_rm(c, 0, 100, -1, &err), COHORT_E_ARG);
	check_err(&err, COHORT_E_ARG, "window-gone", -1, 0, 99 + 2 - WINDOW, 128);
	assert_int_equal(books(c), before);
	/* What is still there is enough for a shorter cut, and then it is as if the rest had not been. */
	OK(cohort_seq_rm(c, 0, 180, -1, &err));
	assert_same(next_logits(c, 0, 9), said(windowed, small(), texts[0], 180, 9), true);
	OK(cohort_seq_rm(c, 0, 0, -1, &err)); /* all of it always can be */
	assert_int_equal(usage(c).n_used, 0);
	say(c, 0, texts[0], 0, 30); /* nothing fell out yet */
	OK(cohort_seq_rm(c, 0, 3, -1, &err));
	assert_same(next_logits(c, 0, 9), said(windowed, small(), texts[0], 3, 9), true);
	cohort_context_free(c);
}

/* Layers of two kinds: each has its blocks; failures, states and company are as with one. */
static void spec4_window_of_some_layers(void **state)
{
	struct cohort_model *m = model_at("tests/golden/data/llama.gguf");
	struct countdown d = {-1, 0};
	struct cohort_context_params p = small();
	size_t n;
	(void)state;

	m->model.layers[1].window = WINDOW;
	float *want = said(m, p, texts[0], 200, 9);
	p.abort = count_down;
	p.abort_user = &d;
	struct cohort_context *c = context_of(m, p), *e = context_of(m, small());
	say(c, 5, texts[0], 0, 100);
	say(c, 6, texts[1], 0, 130);
	assert_true(usage(c).n_blocks == 64 && usage(c).n_used == 4 + 5 + 3 + 3);
	uint64_t before = books(c);
	for (int at = 0; at < 12; at++) {
		d.n_left = at;
		assert_int_equal(cohort_decode_many(c, texts[0] + 100, 100, 100, 5, NULL), COHORT_ABORTED);
		assert_int_equal(books(c), before);
	}
	d.n_left = -1;
	OK(cohort_decode_many(c, texts[0] + 100, 100, 100, 5, NULL));
	void *bytes = save(c, 5, &n);
	OK(cohort_state_restore(e, 2, bytes, n, NULL));
	float *restored = next_logits(e, 2, 9), *went_on = next_logits(c, 5, 9);
	float *plain = said(golden, small(), texts[0], 200, 9);
	assert_true(equal(restored, want) && equal(went_on, want) && !equal(plain, want));
	/* What one kind cannot do, the other does not do either. */
	before = books(c);
	assert_int_equal(cohort_seq_rm(c, 5, 50, -1, NULL), COHORT_E_ARG);
	assert_int_equal(books(c), before);
	free(restored);
	free(went_on);
	free(plain);
	free(want);
	free(bytes);
	cohort_context_free(c);
	cohort_context_free(e);
	cohort_model_free(m);
}

/* With two kinds of layers a row fits when it fits in both. */
static void spec4_window_no_room_in_one_kind(void **state)
{
	struct cohort_model *m = model_at("tests/golden/data/llama.gguf");
	struct cohort_context_params p = small();
	struct cohort_err err;
	(void)state;

	m->model.layers[1].window = WINDOW;
	p.n_ctx = 6 * BLOCK;
	p.n_blocks = pool_blocks(p.n_ctx, 0);
	struct cohort_context *c = context_of(m, p);
	say(c, 5, texts[0], 0, 100); /* 4 blocks, and the 3 that the next row sees */
	const uint64_t before = books(c);
	assert_int_equal(cohort_decode_many(c, texts[1], 90, 0, 6, &err), COHORT_NO_ROOM);
	check_err(&err, COHORT_NO_ROOM, "kv-room", 64, 6, 64, 0);
	assert_int_equal(books(c), before);
	OK(cohort_decode_many(c, texts[1], 64, 0, 6, &err));
	assert_int_equal(cohort_decode_one(c, 5, 64, 6, true, &err), COHORT_NO_ROOM);
	cohort_context_free(c);
	cohort_model_free(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(spec4_fork_copies_no_data),
		cmocka_unit_test(spec4_shared_tail_is_copied_on_write),
		cmocka_unit_test(spec4_others_do_not_matter),
		cmocka_unit_test(spec4_ids_may_be_sparse),
		cmocka_unit_test(spec4_bounded_by_the_pool),
		cmocka_unit_test(spec4_block_count),
		cmocka_unit_test(spec4_pool_holds_n_ctx_tokens),
		cmocka_unit_test(spec4_usage),
		cmocka_unit_test(spec4_pos_min_max_clear),
		cmocka_unit_test(spec4_rm_tail_rewinds),
		cmocka_unit_test(spec4_rm_middle_is_not_seen),
		cmocka_unit_test(spec4_rm_middle_in_any_company),
		cmocka_unit_test(spec4_rm_head_is_not_seen),
		cmocka_unit_test(spec4_rm_ranges),
		cmocka_unit_test(spec4_cp_ranges),
		cmocka_unit_test(spec4_cp_joins_blocks),
		cmocka_unit_test(spec4_cp_occupied_is_refused),
		cmocka_unit_test(spec4_keep),
		cmocka_unit_test(spec4_add_rotates_keys),
		cmocka_unit_test(spec4_add_in_every_cache_type),
		cmocka_unit_test(spec4_add_moves_positions),
		cmocka_unit_test(spec4_add_refusals),
		cmocka_unit_test(spec4_add_lets_a_sequence_go_on),
		cmocka_unit_test(spec4_state_of_one),
		cmocka_unit_test(spec4_state_of_all),
		cmocka_unit_test(spec4_state_in_a_file),
		cmocka_unit_test(spec4_state_refusals),
		cmocka_unit_test(spec4_cache_types),
		cmocka_unit_test(spec4_window_lets_blocks_go),
		cmocka_unit_test(spec4_window_rows_see_only_it),
		cmocka_unit_test(spec4_window_however_it_is_cut),
		cmocka_unit_test(spec4_window_gone),
		cmocka_unit_test(spec4_window_of_some_layers),
		cmocka_unit_test(spec4_window_no_room_in_one_kind),
	};
	return cmocka_run_group_tests_name("spec_seq", tests, open_models, close_models);
}
