/* SPEC section 1, sentence by sentence. Section 2: test_spec_check.c; 3: test_spec_decode.c; 4: test_spec_seq.c.
 *
 * 1. Batch
 *   a row is a token or vector, a position, ids, output wanted  spec1_row_parts
 *   init(max_tokens, n_embd, n_seq_max), default 512, 0, 1      spec1_init, spec1_init_defaults
 *   add                                                         spec1_row_parts, spec1_add_*
 *   from_tokens copies, no heap up to 32                        spec1_from_tokens_copies, spec1_no_heap_up_to_32
 *   take_tokens takes over a malloc'ed array                    spec1_take_tokens_takes_over
 *   from_buffer, a token buffer with 32 inline                  spec1_from_buffer_takes_over, spec1_no_heap_up_to_32
 *   view borrows                                                spec1_view_borrows, spec1_view_raw_borrows
 *   reset, release, size, is_empty                              spec1_reset_release_size
 *   copy duplicates                                             spec1_copy_duplicates
 *   raw access to the arrays                                    spec1_raw_access
 *   a byte copy is a move                                       spec1_byte_copy_is_a_move
 *   adding past capacity is a status, never a write             spec1_add_past_capacity_is_a_status
 *   more ids than n_seq_max is a status                         spec1_add_more_ids_is_a_status
 *   positions, ids, output flags may be left out                spec1_left_out_parts_are_filled_in
 *   embedding rows go through decode like tokens do             spec1_embedding_rows_decode_like_tokens
 *   several positions per row through check and split           spec1_positions_per_row
 *   what the inline buffer buys                                 bench/bench_batch.c
 *
 * Shown red on planted faults, one at a time:
 *   from_tokens keeps the address of its inline tokens          spec1_byte_copy_is_a_move
 *   add takes one row more than there is room for               spec1_add_past_capacity_is_a_status, _init_defaults
 *   splits gather another row's vector                          spec1_embedding_rows_decode_like_tokens */
#include "spec_case.h"

/* ---- 1. Batch ---- */

static void spec1_row_parts(void **state)
{
	const cohort_seq ids[] = {4, 9};
	const float v[3] = {1, 2, 3};
	const cohort_pos at = 6;
	struct cohort_batch_raw raw;
	struct cohort_batch b = new_batch(4, 2), e;
	(void)state;

	OK(cohort_batch_add(&b, 17, 5, ids, 2, true, NULL));
	OK(cohort_batch_add(&b, 18, 6, ids + 1, 1, false, NULL));
	cohort_batch_raw_get(&b, &raw);
	assert_true(raw.n_tokens == 2 && raw.tokens[0] == 17 && raw.pos[0] == 5 && raw.n_seq[0] == 2);
	assert_true(raw.seq[0] == 4 && raw.seq[1] == 9 && raw.output[0] && raw.n_seq[1] == 1 && raw.seq[2] == 9);
	assert_true(raw.tokens[1] == 18 && raw.pos[1] == 6 && !raw.output[1] && !raw.embd);
	cohort_batch_release(&b);
	OK(cohort_batch_init(&e, 2, 3, 1, NULL));
	OK(cohort_batch_add_embd(&e, v, &at, ids, 1, true, NULL));
	cohort_batch_raw_get(&e, &raw);
	assert_true(!raw.tokens && raw.n_embd == 3 && raw.pos[0] == 6 && raw.seq[0] == 4 && raw.output[0]);
	assert_memory_equal(raw.embd, v, sizeof v);
	cohort_batch_release(&e);
}

static void spec1_init(void **state)
{
	struct cohort_batch b;
	struct cohort_err err;
	(void)state;

	check_arg(cohort_batch_init(&b, 0, 0, 1, &err), &err, "max_tokens");
	check_arg(cohort_batch_init(&b, 1, -1, 1, &err), &err, "n_embd");
	check_arg(cohort_batch_init(&b, 1, 0, 0, &err), &err, "n_seq_max");
	check_arg(cohort_batch_init(NULL, 1, 0, 1, &err), &err, "b is NULL");
	OK(cohort_batch_init(&b, 7, 0, 3, &err));
	assert_int_equal(b.n_max, 7);
	assert_true(cohort_batch_is_empty(&b));
	cohort_batch_release(&b);
}

static void spec1_init_defaults(void **state)
{
	const cohort_seq two[] = {0, 1};
	struct cohort_batch b;
	struct cohort_err err;
	(void)state;

	OK(cohort_batch_init_default(&b, NULL));
	assert_true(b.n_max == 512 && b.n_embd == 0 && b.n_seq_row_max == 1);
	assert_int_equal(cohort_batch_add(&b, 1, 0, two, 2, false, &err), COHORT_E_ARG);
	for (int32_t i = 0; i < 512; i++)
		add_row(&b, 1, i, 0, false);
	assert_int_equal(cohort_batch_add(&b, 1, 512, two, 1, false, &err), COHORT_E_LIMIT);
	cohort_batch_release(&b);
}

static void spec1_from_tokens_copies(void **state)
{
	(void)state;
	for (int32_t n = 31; n <= 34; n++) {
		cohort_token mine[40];
		struct cohort_batch b;
		struct cohort_batch_raw raw;
		memcpy(mine, texts[0], sizeof mine);
		OK(cohort_batch_from_tokens(&b, mine, n, NULL));
		memset(mine, 0xff, sizeof mine);
		cohort_batch_raw_get(&b, &raw);
		assert_int_equal(raw.n_tokens, n);
		assert_memory_equal(raw.tokens, texts[0], (size_t)n * sizeof *mine);
		assert_true(!raw.pos && !raw.seq && !raw.output);
		cohort_batch_release(&b);
	}
}

static void spec1_no_heap_up_to_32(void **state)
{
	struct cohort_batch made, filled, taken, copied, more;
	struct cohort_token_buf buf;
	const cohort_seq seq = 0;
	bool ok = true;
	(void)state;

	mem_fail_all(true);
	const uint64_t before = mem_count();
	ok = ok && !cohort_batch_from_tokens(&made, texts[0], 32, NULL);
	ok = ok && !cohort_batch_init(&filled, 32, 0, 1, NULL);
	for (int32_t i = 0; i < 32; i++)
		ok = ok && !cohort_batch_add(&filled, texts[0][i], i, &seq, 1, false, NULL);
	cohort_token_buf_init(&buf);
	ok = ok && !cohort_token_buf_append(&buf, texts[0], 32, NULL);
	ok = ok && !cohort_batch_from_buffer(&taken, &buf, NULL);
	ok = ok && !cohort_batch_copy(&copied, &filled, NULL);
	const uint64_t asked = mem_count() - before;
	const enum cohort_status past = cohort_batch_from_tokens(&more, texts[0], 33, NULL);
	mem_fail_all(false);
	assert_true(ok);
	assert_int_equal(asked, 0);
	assert_int_equal(past, COHORT_E_MEMORY);
	assert_int_equal(cohort_batch_size(&made) + cohort_batch_size(&taken) + cohort_batch_size(&copied), 96);
}

static void spec1_take_tokens_takes_over(void **state)
{
	cohort_token *mine = malloc(40 * sizeof *mine);
	struct cohort_batch b;
	struct cohort_batch_raw raw;
	struct cohort_err err;
	(void)state;

	assert_non_null(mine);
	memcpy(mine, texts[1], 40 * sizeof *mine);
	check_arg(cohort_batch_take_tokens(&b, mine, -1, &err), &err, "n_tokens"); /* still mine */
	OK(cohort_batch_take_tokens(&b, mine, 40, NULL));
	cohort_batch_raw_get(&b, &raw);
	assert_ptr_equal(raw.tokens, mine);
	cohort_batch_release(&b); /* frees it: the sanitizer build looks */
}

static void spec1_from_buffer_takes_over(void **state)
{
	(void)state;
	for (int32_t n = 20; n <= 60; n += 40) {
		struct cohort_token_buf buf;
		struct cohort_batch b;
		struct cohort_batch_raw raw;
		cohort_token_buf_init(&buf);
		for (int32_t i = 0; i < n; i++)
			OK(cohort_token_buf_append(&buf, &texts[2][i], 1, NULL));
		assert_memory_equal(cohort_token_buf_get(&buf), texts[2], (size_t)n * sizeof(cohort_token));
		OK(cohort_batch_from_buffer(&b, &buf, NULL));
		assert_int_equal(buf.n_tokens, 0);
		assert_null(buf.heap);
		cohort_batch_raw_get(&b, &raw);
		assert_int_equal(raw.n_tokens, n);
		assert_memory_equal(raw.tokens, texts[2], (size_t)n * sizeof(cohort_token));
		cohort_token_buf_release(&buf);
		cohort_batch_release(&b);
	}
}

static void spec1_view_borrows(void **state)
{
	cohort_token mine[3] = {5, 6, 7};
	struct cohort_batch b;
	struct cohort_batch_raw raw;
	(void)state;

	mem_fail_all(true);
	const enum cohort_status st = cohort_batch_view(&b, mine, 3, NULL);
	mem_fail_all(false);
	OK(st);
	cohort_batch_raw_get(&b, &raw);
	assert_ptr_equal(raw.tokens, mine);
	cohort_batch_release(&b);
	assert_int_equal(mine[2], 7);
}

static void spec1_view_raw_borrows(void **state)
{
	cohort_token tokens[] = {5, 6};
	float embd[4] = {0};
	cohort_pos pos[] = {0, 1};
	cohort_seq seq[] = {3, 3};
	uint8_t output[] = {0, 1};
	struct cohort_batch_raw got, raw = {.n_tokens = 2, .n_seq_row_max = 1, .n_pos_row = 1, .tokens = tokens,
			.pos = pos, .seq = seq, .output = output};
	struct cohort_batch b;
	struct cohort_err err;
	struct cohort_context *c = context();
	(void)state;

	OK(cohort_batch_view_raw(&b, &raw, NULL));
	cohort_batch_raw_get(&b, &got);
	assert_true(got.tokens == tokens && got.pos == pos && got.seq == seq && got.output == output);
	OK(cohort_decode(c, &b, NULL));
	assert_int_equal(cohort_seq_pos_max(c, 3), 1);
	raw.embd = embd;
	check_arg(cohort_batch_view_raw(&b, &raw, &err), &err, "both");
	raw.tokens = NULL;
	check_arg(cohort_batch_view_raw(&b, &raw, &err), &err, "n_embd");
	raw.embd = NULL;
	check_arg(cohort_batch_view_raw(&b, &raw, &err), &err, "neither");
	cohort_context_free(c);
}

static void spec1_reset_release_size(void **state)
{
	struct cohort_batch b = new_batch(40, 1);
	const cohort_seq seq = 0;
	(void)state;

	assert_true(cohort_batch_is_empty(&b) && cohort_batch_size(&b) == 0);
	for (int32_t round = 0; round < 2; round++) {
		for (int32_t i = 0; i < 40; i++)
			add_row(&b, 1, i, seq, false);
		assert_true(!cohort_batch_is_empty(&b) && cohort_batch_size(&b) == 40);
		cohort_batch_reset(&b); /* and the room is there again */
		assert_true(cohort_batch_is_empty(&b));
	}
	cohort_batch_release(&b);
	cohort_batch_release(&b); /* twice is once */
	cohort_batch_release(NULL);
	assert_true(cohort_batch_size(NULL) == 0 && cohort_batch_is_empty(NULL));
}

static void spec1_copy_duplicates(void **state)
{
	(void)state;
	for (int32_t n_max = 8; n_max <= 48; n_max += 40) {
		struct cohort_batch a = new_batch(n_max, n_max == 8 ? 1 : 2), b;
		struct cohort_batch_raw ra, rb;
		add_row(&a, 5, 0, 1, true);
		OK(cohort_batch_copy(&b, &a, NULL));
		cohort_batch_raw_get(&a, &ra);
		ra.tokens[0] = 99;
		ra.pos[0] = 98;
		add_row(&a, 6, 1, 1, false);
		cohort_batch_raw_get(&b, &rb);
		assert_true(rb.n_tokens == 1 && rb.tokens[0] == 5 && rb.pos[0] == 0 && rb.seq[0] == 1 && rb.output[0]);
		cohort_batch_release(&a);
		for (int32_t i = 1; i < n_max; i++)
			add_row(&b, 7, i, 1, false); /* the same room */
		cohort_batch_release(&b);
	}
}

static void spec1_raw_access(void **state)
{
	struct cohort_batch b = new_batch(8, 1);
	struct cohort_batch_raw raw;
	struct cohort_context *c = context();
	(void)state;

	add_row(&b, 5, 0, 1, true);
	cohort_batch_raw_get(&b, &raw);
	raw.seq[0] = 7; /* writing through it is allowed */
	raw.tokens[0] = 9;
	OK(cohort_decode(c, &b, NULL));
	assert_int_equal(cohort_seq_pos_max(c, 7), 0);
	assert_int_equal(cohort_seq_pos_max(c, 1), -1);
	cohort_batch_release(&b);
	cohort_context_free(c);
}

static void spec1_byte_copy_is_a_move(void **state)
{
	struct cohort_context *c = context();
	float *want = alone(golden, small(), texts[0], 20);
	(void)state;

	for (int kind = 0; kind < 3; kind++) { /* inline, inline and bare, on the heap */
		struct cohort_batch *old = malloc(sizeof *old), *moved = malloc(sizeof *moved);
		assert_true(old && moved);
		if (kind == 1)
			OK(cohort_batch_from_tokens(old, texts[0], 20, NULL));
		else
			OK(cohort_batch_init(old, kind ? 40 : 32, 0, 1, NULL));
		for (int32_t i = 0; i < 10 && kind != 1; i++)
			add_row(old, texts[0][i], i, 0, false);
		memcpy(moved, old, sizeof *old);
		memset(old, 0xa5, sizeof *old);
		for (int32_t i = 10; i < 20 && kind != 1; i++)
			add_row(moved, texts[0][i], i, 0, i == 19);
		OK(cohort_decode(c, moved, NULL));
		assert_true(same_logits(c, 19, want));
		cohort_batch_release(moved);
		free(moved);
		free(old); /* only now: a compiler may leave out what is written to what is freed next */
		cohort_seq_clear(c);
	}
	free(want);
	cohort_context_free(c);
}

static void spec1_add_past_capacity_is_a_status(void **state)
{
	const cohort_seq seq = 0;
	(void)state;
	for (int32_t n = 1; n <= 33; n += 16) {
		struct cohort_batch b = new_batch(n, 1);
		struct cohort_err err;
		for (int32_t i = 0; i < n; i++)
			add_row(&b, 3 + i, i, 0, false);
		struct cohort_batch before = b;
		assert_int_equal(cohort_batch_add(&b, 1, n, &seq, 1, true, &err), COHORT_E_LIMIT);
		check_err(&err, COHORT_E_LIMIT, "batch-full", n, -1, n, n + 1);
		assert_memory_equal(&b, &before, sizeof b); /* inline rows, too; the sanitizer looks at the heap */
		cohort_batch_release(&b);
	}
}

static void spec1_add_more_ids_is_a_status(void **state)
{
	const cohort_seq ids[] = {0, 1, 2, 3};
	(void)state;
	for (int32_t room = 1; room <= 3; room++) {
		struct cohort_batch b = new_batch(4, room);
		struct cohort_err err;
		assert_int_equal(cohort_batch_add(&b, 1, 0, ids, room + 1, true, &err), COHORT_E_ARG);
		check_err(&err, COHORT_E_ARG, "seq-count", 0, -1, room, room + 1);
		assert_true(mentions(err.text, room) && mentions(err.text, room + 1));
		assert_int_equal(cohort_batch_add(&b, 1, 0, ids, 0, true, &err), COHORT_E_ARG);
		assert_true(cohort_batch_is_empty(&b));
		OK(cohort_batch_add(&b, 1, 0, ids, room, true, NULL));
		cohort_batch_release(&b);
	}
}

static void spec1_left_out_parts_are_filled_in(void **state)
{
	struct cohort_context *c = context(), *d = context();
	struct cohort_batch bare, full = new_batch(20, 1);
	(void)state;

	say(c, 0, texts[0], 0, 10);
	say(d, 0, texts[0], 0, 10);
	OK(cohort_batch_from_tokens(&bare, texts[0] + 10, 5, NULL));
	OK(cohort_decode(c, &bare, NULL));
	for (int32_t i = 10; i < 15; i++)
		add_row(&full, texts[0][i], i, 0, i == 14);
	OK(cohort_decode(d, &full, NULL));
	assert_int_equal(books(c), books(d));
	assert_int_equal(cohort_n_outputs(c), 1);
	float *want = keep_logits(d, 4);
	assert_true(same_logits(c, 4, want) && same_logits(c, -1, want));
	/* Arrays that are there, and wrong, are not looked at when left out. */
	cohort_batch_reset(&full);
	for (int32_t i = 15; i < 18; i++)
		add_row(&full, texts[0][i], 999, 99, true);
	cohort_batch_leave_out(&full, COHORT_BATCH_POS | COHORT_BATCH_SEQ | COHORT_BATCH_OUTPUT);
	OK(cohort_decode(c, &full, NULL));
	assert_int_equal(cohort_seq_pos_max(c, 0), 17);
	assert_int_equal(cohort_n_outputs(c), 1);
	cohort_batch_leave_out(&full, 0);
	assert_int_equal(cohort_decode(c, &full, NULL), COHORT_E_BATCH);
	free(want);
	cohort_batch_release(&full);
	cohort_context_free(c);
	cohort_context_free(d);
}

/* The embedding of a token as the model has it. */
static void embedding_of(const struct cohort_model *m, cohort_token t, float *out)
{
	const struct model_weight *w = m->model.token_embd;
	const struct quant_format *q = quant_format_get(w->type);
	q->to_f32((const uint8_t *)w->data + (size_t)t * (w->k / q->block * q->block_bytes), out, w->k);
}

static void spec1_embedding_rows_decode_like_tokens(void **state)
{
	const enum cohort_split splits[] = {COHORT_SPLIT_SIMPLE, COHORT_SPLIT_EQUAL, COHORT_SPLIT_SEQ};
	struct cohort_batch b, t = new_batch(40, 1);
	(void)state;

	OK(cohort_batch_init(&b, 40, EMBD, 1, NULL));
	for (cohort_pos i = 0; i < 20; i++)
		for (cohort_seq seq = 0; seq < 2; seq++) {
			float v[EMBD];
			embedding_of(golden, texts[seq][i], v);
			OK(cohort_batch_add_embd(&b, v, &i, &seq, 1, true, NULL));
			add_row(&t, texts[seq][i], i, seq, true);
		}
	for (size_t s = 0; s < 3; s++) {
		struct cohort_context_params p = small();
		p.split = splits[s];
		struct cohort_context *c = context_of(golden, p), *d = context_of(golden, p);
		OK(cohort_decode(c, &b, NULL));
		OK(cohort_decode(d, &t, NULL));
		assert_int_equal(cohort_n_outputs(c), 40);
		for (int32_t i = 0; i < 40; i++)
			assert_true(same_logits(c, i, cohort_logits_get(d, i, NULL)));
		OK(cohort_decode_one(c, 5, 20, 1, true, NULL)); /* what they left in the cache is the same, too */
		OK(cohort_decode_one(d, 5, 20, 1, true, NULL));
		assert_true(same_logits(c, -1, cohort_logits_get(d, -1, NULL)));
		cohort_context_free(c);
		cohort_context_free(d);
	}
	cohort_batch_release(&b);
	cohort_batch_release(&t);
}

static void spec1_positions_per_row(void **state)
{
	struct cohort_batch b;
	struct cohort_err err;
	struct batch_checked k;
	struct ubatch u;
	struct batch_limits lim = plain_limits();
	float v[EMBD] = {0};
	(void)state;

	OK(cohort_batch_init_pos(&b, 40, EMBD, 1, 3, NULL));
	for (cohort_seq seq = 2; seq-- > 0;)
		for (int32_t i = 0; i < 7; i++) {
			const cohort_pos pos[] = {i, i / 3, 100 + i % 3};
			OK(cohort_batch_add_embd(&b, v, pos, &seq, 1, false, NULL));
		}
	struct cohort_context *c = context(); /* of a model that takes one */
	assert_int_equal(cohort_decode(c, &b, &err), COHORT_E_BATCH);
	check_err(&err, COHORT_E_BATCH, "pos-per-embd", -1, -1, 1, 3);
	cohort_context_free(c);

	lim.n_pos_row = 3;
	assert_true(batch_checked_init(&k, 8, 4));
	OK(batch_check(&k, &b, &lim, NULL, &err));
	for (int kind = BATCH_SPLIT_SIMPLE; kind <= BATCH_SPLIT_SEQ; kind++) {
		int32_t n = 0;
		batch_split_reset(&k);
		while (OK(batch_split(&k, (enum batch_split)kind, 4, 0, &u, NULL)), u.n_tokens) {
			assert_int_equal(u.n_pos_row, 3);
			for (int32_t i = 0; i < u.n_tokens; i++, n++) {
				const int32_t r = u.rows[i] % 7;
				assert_true(u.pos[3 * i] == r && u.pos[3 * i + 1] == r / 3);
				assert_int_equal(u.pos[3 * i + 2], 100 + r % 3);
			}
		}
		assert_int_equal(n, 14);
	}
	batch_checked_release(&k);
	cohort_batch_release(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(spec1_row_parts),
		cmocka_unit_test(spec1_init),
		cmocka_unit_test(spec1_init_defaults),
		cmocka_unit_test(spec1_from_tokens_copies),
		cmocka_unit_test(spec1_no_heap_up_to_32),
		cmocka_unit_test(spec1_take_tokens_takes_over),
		cmocka_unit_test(spec1_from_buffer_takes_over),
		cmocka_unit_test(spec1_view_borrows),
		cmocka_unit_test(spec1_view_raw_borrows),
		cmocka_unit_test(spec1_reset_release_size),
		cmocka_unit_test(spec1_copy_duplicates),
		cmocka_unit_test(spec1_raw_access),
		cmocka_unit_test(spec1_byte_copy_is_a_move),
		cmocka_unit_test(spec1_add_past_capacity_is_a_status),
		cmocka_unit_test(spec1_add_more_ids_is_a_status),
		cmocka_unit_test(spec1_left_out_parts_are_filled_in),
		cmocka_unit_test(spec1_embedding_rows_decode_like_tokens),
		cmocka_unit_test(spec1_positions_per_row),
	};
	return cmocka_run_group_tests_name("spec", tests, open_golden, close_golden);
}
