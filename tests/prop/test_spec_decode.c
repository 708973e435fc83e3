/* SPEC section 3, sentence by sentence. What test_spec.c is to section 1.
 *
 * 3. Decode
 *   up to n_batch rows; more is a status with the limit         spec3_decode_up_to_n_batch
 *   encode: non-causal                                          spec3_encode_sees_later_rows
 *   encode: no memory                                           spec3_encode_touches_no_sequence
 *   encode: each sequence whole in one ubatch                   spec3_encode_takes_whole_sequences, _in_any_company
 *   is_eog is a set                                             spec3_is_eog_is_a_set
 *   piece with or without leading space and specials            spec3_piece
 *   tokenize, detokenize                                        spec3_tokenize_detokenize
 *   one: no allocation                                          spec3_one_allocates_nothing
 *   many: chunks by itself, logits on the last token only       spec3_many_chunks_by_itself
 *   each: one row per item, output index i                      spec3_each_output_index_is_i
 *   scatter: logits at cursor + n - 1; fits or is packed        spec3_scatter_fits, _is_packed, _bounds_its_outputs
 *   bin_pack                                                    spec3_bin_pack; tests/unit/test_bin_pack.c
 *   a reusable scratch                                          spec3_scratch_is_reused
 *   NULL, negative, duplicate: a status saying which            spec3_bad_arguments_are_named, _duplicates_are_named
 *   empty lists are a no-op                                     spec3_empty_lists_are_a_no_op
 *   codes, outputs, counters                                    test_spec_outcome.c
 *
 * Shown red on planted faults, one at a time:
 *   outputs ranked in the order of the ubatches                 spec3_encode_in_any_company, spec3_scatter_is_packed
 *   encode lets rows see what is before them only               spec3_encode_sees_later_rows
 *   attention does not end where a window does                  spec3_encode_windows_are_even */
#include "spec_case.h"

/* ---- decode, encode ---- */

static void spec3_decode_up_to_n_batch(void **state)
{
	struct cohort_context *c = context();
	struct cohort_batch b;
	struct cohort_err err;
	(void)state;

	OK(cohort_batch_view(&b, texts[0], 65, NULL));
	const uint64_t before = books(c);
	assert_int_equal(cohort_decode(c, &b, &err), COHORT_E_LIMIT);
	check_err(&err, COHORT_E_LIMIT, "n-batch", -1, -1, 64, 65);
	assert_true(mentions(err.text, 64) && mentions(err.text, 65));
	assert_int_equal(books(c), before);
	OK(cohort_batch_view(&b, texts[0], 64, NULL));
	OK(cohort_decode(c, &b, &err));
	cohort_context_free(c);
}

static void spec3_encode_sees_later_rows(void **state)
{
	struct cohort_context *c = context_of(golden, embedding_params());
	cohort_token t[10];
	float *first[2];
	(void)state;

	memcpy(t, texts[0], sizeof t);
	for (int causal = 0; causal < 2; causal++) {
		for (int changed = 0; changed < 2; changed++) {
			struct cohort_batch b;
			t[9] = changed ? 7 : 400;
			OK(cohort_batch_view(&b, t, 10, NULL));
			OK(causal ? cohort_decode(c, &b, NULL) : cohort_encode(c, &b, NULL));
			first[changed] = floats(cohort_embeddings_get(c, 0, NULL), EMBD);
			cohort_seq_clear(c);
		}
		assert_int_equal(memcmp(first[0], first[1], EMBD * sizeof(float)) == 0, causal);
		free(first[0]);
		free(first[1]);
	}
	cohort_context_free(c);
}

/* Two layers with a window of 2 reach two positions to either side, and no further. Seen red without the end of the
 * window. */
static void spec3_encode_windows_are_even(void **state)
{
	struct cohort_model *m = model_at("tests/golden/data/llama.gguf");
	cohort_token t[11];
	struct cohort_batch b;
	(void)state;

	assert_int_equal(m->model.hp.n_layer, 2);
	m->model.layers[0].window = m->model.layers[1].window = 2;
	struct cohort_context *c = context_of(m, embedding_params());
	memcpy(t, texts[0], sizeof t);
	OK(cohort_batch_view(&b, t, 11, NULL));
	OK(cohort_encode(c, &b, NULL));
	float *was = floats(cohort_embeddings_get(c, 5, NULL), EMBD);
	for (int changed = 0; changed < 11; changed++) {
		t[changed] ^= 1;
		OK(cohort_encode(c, &b, NULL));
		const bool same = memcmp(cohort_embeddings_get(c, 5, NULL), was, EMBD * sizeof *was) == 0;
		assert_int_equal(same, changed < 3 || changed > 7);
		t[changed] ^= 1;
	}
	free(was);
	cohort_context_free(c);
	cohort_model_free(m);
}

static void spec3_encode_touches_no_sequence(void **state)
{
	float *want = probe_untouched();
	struct cohort_context *c = context();
	struct cohort_batch b;
	(void)state;

	prepare(c);
	const uint64_t before = books(c);
	OK(cohort_batch_view(&b, texts[4], 12, NULL));
	OK(cohort_encode(c, &b, NULL));
	assert_non_null(cohort_logits_get(c, 11, NULL));
	as_before(c, before, want);
	/* Not even a full cache is in its way. */
	cohort_seq_clear(c);
	for (cohort_seq seq = 0; seq < 4; seq++)
		say(c, seq, texts[seq], 0, 256);
	assert_int_equal(usage(c).n_free, 0);
	OK(cohort_encode(c, &b, NULL));
	free(want);
	cohort_context_free(c);
}

static void spec3_encode_takes_whole_sequences(void **state)
{
	struct cohort_context *c = context();
	struct cohort_batch b = new_batch(20, 2);
	struct cohort_err err;
	(void)state;

	add_row(&b, 5, 0, 9, false);
	for (int32_t i = 0; i < 17; i++)
		add_row(&b, 5, i, 3, false);
	assert_int_equal(cohort_encode(c, &b, &err), COHORT_E_LIMIT);
	check_err(&err, COHORT_E_LIMIT, "n-ubatch", 17, 3, 16, 17);
	assert_true(mentions(err.text, 16) && mentions(err.text, 17));
	cohort_batch_reset(&b);
	OK(cohort_batch_add(&b, 5, 0, (cohort_seq[]){0, 1}, 2, true, NULL));
	assert_int_equal(cohort_encode(c, &b, &err), COHORT_E_BATCH);
	check_err(&err, COHORT_E_BATCH, "seq-count", 0, 0, 1, 2);
	cohort_batch_release(&b);
	cohort_context_free(c);
}

static void spec3_encode_in_any_company(void **state)
{
	enum { N = 5 };
	static const int32_t lengths[N] = {3, 16, 1, 9, 12};
	static const cohort_seq ids[N] = {7, 0, 15, 2, 9};
	struct cohort_context *c = context_of(golden, embedding_params());
	float want[N][16][EMBD];
	struct rng r;
	(void)state;

	for (int32_t s = 0; s < N; s++) {
		struct cohort_batch b;
		OK(cohort_batch_view(&b, texts[s], lengths[s], NULL));
		OK(cohort_encode(c, &b, NULL));
		for (int32_t i = 0; i < lengths[s]; i++)
			memcpy(want[s][i], cohort_embeddings_get(c, i, NULL), sizeof want[s][i]);
	}
	rng_init(&r, 5, 0);
	for (int round = 0; round < 20; round++) {
		struct cohort_batch b = new_batch(64, 1);
		int32_t at[N] = {0}, whose[64], n = 0;
		while (n < 41) {
			const int32_t s = (int32_t)(rng_u32(&r) % N);
			if (at[s] == lengths[s])
				continue;
			add_row(&b, texts[s][at[s]], at[s], ids[s], true);
			at[s]++;
			whose[n++] = s;
		}
		OK(cohort_encode(c, &b, NULL));
		memset(at, 0, sizeof at);
		for (int32_t i = 0; i < n; i++)
			assert_memory_equal(cohort_embeddings_get(c, i, NULL), want[whose[i]][at[whose[i]]++],
					EMBD * sizeof(float));
		cohort_batch_release(&b);
	}
	cohort_context_free(c);
}

/* ---- Tokens ---- */

static void eog_keys(struct file *f)
{
	static const char *const pieces[] = {"<unk>", "<s>", "</s>", "a", "b", "<turn>", "<msg>", "<|im_end|>", "c",
			"d"};
	static const uint32_t types[] = {2, 3, 3, 1, 1, 3, 3, 3, 1, 1};

	put_kv_str(f, "tokenizer.ggml.model", "llama");
	put_array(f, "tokenizer.ggml.tokens", GGUF_STRING, 10);
	for (size_t i = 0; i < 10; i++)
		put_str(f, pieces[i]);
	put_array(f, "tokenizer.ggml.scores", GGUF_F32, 10);
	for (size_t i = 0; i < 10; i++)
		put_f32(f, 0);
	put_array(f, "tokenizer.ggml.token_type", GGUF_I32, 10);
	for (size_t i = 0; i < 10; i++)
		put_u32(f, types[i]);
	put_kv_u32(f, "tokenizer.ggml.bos_token_id", 1);
	put_kv_u32(f, "tokenizer.ggml.eos_token_id", 2);
	put_kv_u32(f, "tokenizer.ggml.eot_token_id", 5);
	put_kv_u32(f, "tokenizer.ggml.eom_token_id", 6);
}

static void spec3_is_eog_is_a_set(void **state)
{
	const struct shape shape = {10, 64, 1, 4, 2, 16, 16, 64, 16, 64, QUANT_F32, QUANT_F32, QUANT_F32, QUANT_F32,
			true, eog_keys, NULL, NULL};
	char *path = synth_write(&shape, 1);
	struct cohort_model *m = model_at(path);
	(void)state;

	for (cohort_token t = -2; t < 12; t++) /* eos, eot, eom, and one known by its text */
		assert_int_equal(cohort_token_is_eog(m, t), t == 2 || t == 5 || t == 6 || t == 7);
	cohort_model_free(m);
	unlink(path);
	free(path);
}

static void spec3_piece(void **state)
{
	struct cohort_model *m = model_at("models/cohort-tiny.gguf");
	struct cohort_err err;
	cohort_token t[8];
	char with[64], without[64];
	size_t n, n_with, n_without;
	(void)state;

	OK(cohort_tokenize(m, "the the", 7, COHORT_TOKENIZE_NO_BOS, t, 8, &n, NULL));
	OK(cohort_token_piece(m, t[n - 1], true, false, with, 64, &n_with, NULL));
	OK(cohort_token_piece(m, t[n - 1], false, false, without, 64, &n_without, NULL));
	assert_true(n_with == n_without + 1 && with[0] == ' ' && memcmp(with + 1, without, n_without) == 0);
	assert_int_equal(cohort_token_piece(m, t[n - 1], true, false, with, n_with - 1, &n, &err), COHORT_E_LIMIT);
	assert_int_equal(n, n_with);
	const cohort_token eos = cohort_token_eos(m);
	OK(cohort_token_piece(m, eos, true, false, with, 64, &n, NULL));
	assert_int_equal(n, 0);
	OK(cohort_token_piece(m, eos, true, true, with, 64, &n, NULL));
	assert_true(n == 4 && memcmp(with, "</s>", 4) == 0);
	check_arg(cohort_token_piece(m, 8192, true, true, with, 64, &n, &err), &err, "8192");
	check_arg(cohort_token_piece(m, -1, true, true, with, 64, &n, &err), &err, "-1");
	cohort_model_free(m);
}

static void spec3_tokenize_detokenize(void **state)
{
	static const char *const all[] = {"", "Once upon a time, there was a king.", "  two  spaces ",
			"\xc3\xa9t\xc3\xa9 \xf0\x9f\x90\x88", "\xff\xfe not \x80 utf-8", "a\tb\r", "</s> as text",
			"a\nb\n c\n\nd"};
	struct cohort_model *m = model_at("models/cohort-tiny.gguf");
	(void)state;

	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		const size_t n_bytes = strlen(all[i]);
		cohort_token t[128];
		char back[256];
		size_t n, n_back;
		struct cohort_err err;
		OK(cohort_tokenize(m, all[i], n_bytes, 0, t, 128, &n, NULL));
		assert_true(n <= cohort_tokenize_bound(n_bytes));
		if (n)
			assert_int_equal(cohort_tokenize(m, all[i], n_bytes, 0, NULL, 0, &n, &err), COHORT_E_LIMIT);
		OK(cohort_detokenize(m, t, n, false, back, sizeof back, &n_back, NULL));
		assert_int_equal(n_back, n_bytes);
		assert_memory_equal(back, all[i], n_bytes);
	}
	cohort_model_free(m);
}

/* ---- The grid ---- */

static void spec3_one_allocates_nothing(void **state)
{
	float *want = alone(golden, small(), texts[0], 40);
	struct cohort_context *c = context();
	(void)state;

	mem_fail_all(true);
	enum cohort_status st = COHORT_OK;
	for (int32_t i = 0; i < 40 && !st; i++)
		st = cohort_decode_one(c, texts[0][i], i, 6, i == 39, NULL);
	mem_fail_all(false);
	OK(st);
	assert_int_equal(cohort_n_outputs(c), 1);
	assert_true(same_logits(c, 0, want));
	OK(cohort_decode_one(c, 5, 40, 6, false, NULL));
	assert_int_equal(cohort_n_outputs(c), 0);
	free(want);
	cohort_context_free(c);
}

static void spec3_many_chunks_by_itself(void **state)
{
	struct cohort_context_params p = small();
	struct cohort_err err;
	(void)state;

	p.n_batch = 256;
	float *want = alone(golden, p, texts[0], 200), *next;
	struct cohort_context *whole = context_of(golden, p), *c = context();
	say(whole, 5, texts[0], 0, 200);
	OK(cohort_decode_many(c, texts[0], 10, 0, 5, NULL));
	OK(cohort_decode_many(c, texts[0] + 10, 190, 10, 5, NULL)); /* 64, 64, 62 */
	assert_int_equal(cohort_n_outputs(c), 1);
	assert_true(same_logits(c, 189, want) && same_logits(c, -1, want));
	for (int32_t i = 0; i < 189; i++)
		assert_null(cohort_logits_get(c, i, &err));
	OK(cohort_decode_one(whole, 9, 200, 5, true, NULL));
	next = keep_logits(whole, 0);
	OK(cohort_decode_one(c, 9, 200, 5, true, NULL));
	assert_true(same_logits(c, 0, next));
	free(want);
	free(next);
	cohort_context_free(c);
	cohort_context_free(whole);
}

static void spec3_each_output_index_is_i(void **state)
{
	struct cohort_context *c = context();
	struct cohort_each_item items[6];
	float *want[6];
	struct cohort_err err;
	(void)state;

	for (int32_t i = 0; i < 6; i++) { /* ids not in order */
		const cohort_seq seq = 15 - 2 * i;
		say(c, seq, texts[i], 0, 3 + i);
		want[i] = alone(golden, small(), texts[i], 4 + i);
		items[i] = (struct cohort_each_item){texts[i][3 + i], 3 + i, seq, i != 2};
	}
	OK(cohort_decode_each(c, items, 6, NULL, NULL));
	assert_int_equal(cohort_n_outputs(c), 5);
	for (int32_t i = 0; i < 6; i++) {
		if (i == 2)
			assert_null(cohort_logits_get(c, i, &err));
		else
			assert_true(same_logits(c, i, want[i]));
		free(want[i]);
	}
	cohort_context_free(c);
}

/* Items, and where each one's output must be. */
static void scatter_case(const int32_t *lengths, int32_t n_items, struct cohort_scratch *scratch)
{
	struct cohort_context *c = context();
	struct cohort_scatter_item items[8] = {{0}};
	int32_t cursor = 0, n_wanted = 0;
	struct cohort_err err;

	for (int32_t i = 0; i < n_items; i++) {
		const cohort_seq seq = (i * 5) % 16;
		say(c, seq, texts[i], 0, i);
		items[i] = (struct cohort_scatter_item){texts[i] + i, lengths[i], i, seq, i != 1};
	}
	OK(cohort_decode_scatter(c, items, n_items, scratch, NULL));
	for (int32_t i = 0; i < n_items; i++) {
		const int32_t at = cursor + lengths[i] - 1;
		for (int32_t j = cursor; j < at; j++)
			assert_null(cohort_logits_get(c, j, &err));
		cursor += lengths[i];
		if (lengths[i] == 0)
			continue;
		assert_int_equal(cohort_seq_pos_max(c, items[i].seq), i + lengths[i] - 1);
		if (!items[i].want) {
			assert_null(cohort_logits_get(c, at, &err));
			continue;
		}
		float *want = alone(golden, small(), texts[i], i + lengths[i]);
		assert_true(same_logits(c, at, want));
		free(want);
		n_wanted++;
	}
	assert_int_equal(cohort_n_outputs(c), n_wanted);
	assert_null(cohort_logits_get(c, cursor, &err));
	cohort_context_free(c);
}

static void spec3_scatter_fits(void **state)
{
	(void)state;
	scatter_case((const int32_t[]){10, 5, 1, 20, 28}, 5, NULL);
	scatter_case((const int32_t[]){0, 0, 7, 0, 3}, 5, NULL);
}

static void spec3_scatter_is_packed(void **state)
{
	(void)state;
	scatter_case((const int32_t[]){40, 40, 20, 25, 1}, 5, NULL);
	scatter_case((const int32_t[]){150, 3, 0, 64, 65, 2}, 6, NULL); /* oversized ones, too */
	scatter_case((const int32_t[]){30, 200, 30, 5}, 4, NULL);
}

static void spec3_scatter_bounds_its_outputs(void **state)
{
	struct cohort_context_params p = small();
	struct cohort_scatter_item items[5];
	struct cohort_err err;
	(void)state;

	p.n_batch = 4;
	struct cohort_context *c = context_of(golden, p);
	for (int32_t i = 0; i < 5; i++)
		items[i] = (struct cohort_scatter_item){texts[i], 3, 0, i, true};
	assert_int_equal(cohort_decode_scatter(c, items, 5, NULL, &err), COHORT_E_LIMIT);
	check_err(&err, COHORT_E_LIMIT, "n-outputs", 14, 4, 4, 5);
	items[2].want = false;
	OK(cohort_decode_scatter(c, items, 5, NULL, &err));
	assert_int_equal(cohort_n_outputs(c), 4);
	cohort_context_free(c);
}

static void spec3_bin_pack(void **state)
{
	const int32_t seed[] = {300, 300, 200, 200}, mixed[] = {0, 10, 600, 500, 0, 2, 3, 512};
	const int32_t want_order[] = {1, 3, 5, 2, 6, 7}, negative[] = {1, 2, -3};
	struct cohort_packing p;
	struct cohort_err err;
	(void)state;

	cohort_packing_init(&p);
	OK(cohort_bin_pack(&p, seed, 4, 512, NULL));
	assert_int_equal(p.n_chunks, 2); /* next-fit would take 3 */
	assert_true(p.order[0] == 0 && p.order[1] == 2 && p.order[2] == 1 && p.order[3] == 3);
	assert_true(p.chunks[0].n_rows == 500 && p.chunks[1].n_rows == 500 && !p.chunks[0].oversized);
	OK(cohort_bin_pack(&p, mixed, 8, 512, NULL));
	assert_int_equal(p.n_chunks, 4);
	assert_memory_equal(p.order, want_order, sizeof want_order);
	assert_true(p.chunks[0].n_rows == 512 && p.chunks[1].oversized && p.chunks[1].n_rows == 600);
	assert_true(p.chunks[2].n_items == 1 && p.chunks[3].n_rows == 512 && !p.chunks[3].oversized);
	assert_int_equal(cohort_bin_pack(&p, negative, 3, 512, &err), COHORT_E_ARG);
	check_err(&err, COHORT_E_ARG, "length", 2, -1, 0, -3);
	assert_int_equal(p.n_chunks, 0);
	check_arg(cohort_bin_pack(&p, seed, 4, 0, &err), &err, "n_batch");
	check_arg(cohort_bin_pack(&p, NULL, 4, 9, &err), &err, "lengths");
	OK(cohort_bin_pack(&p, NULL, 0, 9, NULL));
	cohort_packing_release(&p);
}

static void spec3_scratch_is_reused(void **state)
{
	struct cohort_context *c = context();
	(void)state;

	for (int own = 0; own < 2; own++) {
		struct cohort_scratch scratch;
		bool ok = true;
		cohort_scratch_init(&scratch);
		for (int round = 0; round < 3; round++) {
			struct cohort_scatter_item spans[4];
			struct cohort_each_item ones[4];
			cohort_seq_clear(c);
			for (int32_t i = 0; i < 4; i++) {
				spans[i] = (struct cohort_scatter_item){texts[i], 30 + i, 0, i, true};
				ones[i] = (struct cohort_each_item){9, 30 + i, i, true};
			}
			mem_fail_all(round > 0);
			ok = ok && !cohort_decode_scatter(c, spans, 4, own ? &scratch : NULL, NULL);
			ok = ok && !cohort_decode_each(c, ones, 4, own ? &scratch : NULL, NULL);
			ok = ok && !cohort_decode_many(c, texts[5], 100, 0, 5, NULL);
			mem_fail_all(false);
			assert_true(ok);
		}
		cohort_scratch_release(&scratch);
	}
	cohort_context_free(c);
}

static void spec3_bad_arguments_are_named(void **state)
{
	struct cohort_context *c = context();
	struct cohort_scatter_item span = {texts[0], -1, 0, 0, true};
	struct cohort_each_item item = {5, 0, 0, true};
	struct cohort_batch b;
	struct cohort_err err;
	(void)state;

	OK(cohort_batch_view(&b, texts[0], 1, NULL));
	check_arg(cohort_decode(NULL, &b, &err), &err, "context");
	check_arg(cohort_decode(c, NULL, &err), &err, "batch");
	check_arg(cohort_encode(NULL, &b, &err), &err, "context");
	check_arg(cohort_encode(c, NULL, &err), &err, "batch");
	check_arg(cohort_check(c, NULL, &err), &err, "batch");
	check_arg(cohort_decode_one(NULL, 1, 0, 0, true, &err), &err, "context");
	check_arg(cohort_decode_many(NULL, texts[0], 1, 0, 0, &err), &err, "context");
	check_arg(cohort_decode_many(c, NULL, 1, 0, 0, &err), &err, "tokens");
	check_arg(cohort_decode_many(c, texts[0], -1, 0, 0, &err), &err, "n_tokens");
	assert_int_equal(cohort_decode_many(c, texts[0], 1, -1, 0, &err), COHORT_E_BATCH);
	check_err(&err, COHORT_E_BATCH, "pos-negative", 0, 0, 0, -1);
	check_arg(cohort_decode_each(NULL, &item, 1, NULL, &err), &err, "context");
	check_arg(cohort_decode_each(c, NULL, 1, NULL, &err), &err, "items");
	check_arg(cohort_decode_each(c, &item, -1, NULL, &err), &err, "n_items");
	check_arg(cohort_decode_scatter(NULL, &span, 1, NULL, &err), &err, "context");
	check_arg(cohort_decode_scatter(c, NULL, 1, NULL, &err), &err, "items");
	check_arg(cohort_decode_scatter(c, &span, -1, NULL, &err), &err, "n_items");
	check_arg(cohort_decode_scatter(c, &span, 1, NULL, &err), &err, "item 0");
	assert_int_equal(err.got, -1);
	span = (struct cohort_scatter_item){NULL, 3, 0, 0, true};
	check_arg(cohort_decode_scatter(c, &span, 1, NULL, &err), &err, "item 0");
	span = (struct cohort_scatter_item){texts[0], 3, -2, 0, true};
	assert_int_equal(cohort_decode_scatter(c, &span, 1, NULL, &err), COHORT_E_BATCH);
	assert_true(strcmp(err.rule, "pos-negative") == 0 && strstr(err.text, "position -2"));
	span = (struct cohort_scatter_item){texts[0], 3, 0, 16, true};
	assert_int_equal(cohort_decode_scatter(c, &span, 1, NULL, &err), COHORT_E_BATCH);
	assert_true(strcmp(err.rule, "seq-id") == 0 && strstr(err.text, "sequence 16"));
	item.seq = -4;
	assert_int_equal(cohort_decode_each(c, &item, 1, NULL, &err), COHORT_E_BATCH);
	assert_true(strcmp(err.rule, "seq-id") == 0 && strstr(err.text, "sequence -4"));
	check_arg(cohort_warm_up(c, 0, 1, &err), &err, "n_seq_tokens");
	assert_int_equal(cohort_decode_many(c, texts[0], 300, 0, 0, &err), COHORT_E_BATCH);
	check_err(&err, COHORT_E_BATCH, "pos-limit", POS_LIMIT, 0, POS_LIMIT, POS_LIMIT);
	assert_int_equal(cohort_decode_many(c, texts[0], 3, 0, 16, &err), COHORT_E_BATCH);
	assert_string_equal(err.rule, "seq-id");
	assert_int_equal(usage(c).n_used, 0);
	cohort_context_free(c);
}

/* Calls without a status answer with nothing. */
static void spec3_null_is_survived(void **state)
{
	struct cohort_usage u;
	struct cohort_counters n;
	struct cohort_model_info info;
	struct cohort_detok d = {0};
	char held[4];
	size_t n_bytes;
	(void)state;

	cohort_model_params_init(NULL);
	cohort_context_params_init(NULL);
	cohort_sampler_params_init(NULL);
	cohort_model_info_get(NULL, NULL);
	cohort_model_info_get(NULL, &info);
	assert_true(info.n_vocab == 0 && *info.arch == 0);
	cohort_usage_get(NULL, NULL);
	cohort_usage_get(NULL, &u);
	assert_true(u.n_blocks == 0 && u.block_size == BLOCK);
	cohort_counters_get(NULL, NULL);
	cohort_counters_get(NULL, &n);
	assert_int_equal(n.n_decode, 0);
	assert_null(cohort_token_bytes(NULL, 0, true, &n_bytes));
	assert_null(cohort_token_bytes(golden, 0, true, NULL));
	assert_false(cohort_token_is_eog(NULL, 0) || cohort_token_is_control(NULL, 0));
	assert_true(cohort_token_bos(NULL) == -1 && cohort_token_eos(NULL) == -1);
	cohort_detok_init(NULL, NULL, true, true);
	assert_int_equal(cohort_detok_flush(NULL, held), 0);
	assert_int_equal(cohort_detok_flush(&d, NULL), 0);
	cohort_scratch_init(NULL);
	cohort_scratch_release(NULL);
	cohort_seq_clear(NULL);
	assert_true(cohort_seq_pos_min(NULL, 0) == -1 && cohort_seq_pos_max(NULL, 0) == -1);
	assert_true(cohort_n_outputs(NULL) == 0 && !cohort_logits_get(NULL, 0, NULL));
	assert_true(!cohort_embeddings_get(NULL, 0, NULL) && !cohort_embeddings_seq_get(NULL, 0, NULL));
	assert_int_equal(cohort_state_size(NULL, 0), 0);
}

static void spec3_duplicates_are_named(void **state)
{
	struct cohort_context *c = context();
	struct cohort_each_item items[65] = {{5, 0, 3, true}, {5, 0, 4, true}, {5, 1, 3, true}};
	struct cohort_scatter_item spans[] = {{texts[0], 2, 0, 3, true}, {NULL, 0, 0, 3, true},
			{texts[0], 2, 2, 3, true}};
	struct cohort_err err;
	(void)state;

	assert_int_equal(cohort_decode_each(c, items, 3, NULL, &err), COHORT_E_BATCH);
	check_err(&err, COHORT_E_BATCH, "seq-duplicate", 2, 3, 1, 2);
	assert_true(mentions(err.text, 3));
	assert_int_equal(cohort_decode_scatter(c, spans, 3, NULL, &err), COHORT_E_BATCH);
	check_err(&err, COHORT_E_BATCH, "seq-duplicate", 2, 3, 1, 2);
	OK(cohort_decode_scatter(c, spans, 2, NULL, &err)); /* an empty span names nobody */
	assert_int_equal(cohort_decode_each(c, items, 65, NULL, &err), COHORT_E_LIMIT);
	check_err(&err, COHORT_E_LIMIT, "n-batch", -1, -1, 64, 65);
	cohort_context_free(c);
}

static void spec3_empty_lists_are_a_no_op(void **state)
{
	struct cohort_context *c = context();
	(void)state;

	say(c, 0, texts[0], 0, 5);
	float *want = keep_logits(c, -1);
	const uint64_t before = books(c);
	OK(cohort_decode_many(c, NULL, 0, 0, 0, NULL));
	OK(cohort_decode_each(c, NULL, 0, NULL, NULL));
	OK(cohort_decode_scatter(c, NULL, 0, NULL, NULL));
	assert_int_equal(books(c), before);
	assert_true(cohort_n_outputs(c) == 1 && same_logits(c, 4, want) && same_logits(c, -1, want));
	/* Items without tokens decode nothing, so what was read before is not their output. */
	const struct cohort_scatter_item empty[] = {{NULL, 0, 0, 1, true}, {texts[0], 0, 7, 1, true}};
	OK(cohort_decode_scatter(c, empty, 2, NULL, NULL));
	assert_int_equal(books(c), before);
	assert_int_equal(cohort_n_outputs(c), 0);
	assert_null(cohort_logits_get(c, -1, NULL));
	free(want);
	cohort_context_free(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(spec3_decode_up_to_n_batch),
		cmocka_unit_test(spec3_encode_sees_later_rows),
		cmocka_unit_test(spec3_encode_windows_are_even),
		cmocka_unit_test(spec3_encode_touches_no_sequence),
		cmocka_unit_test(spec3_encode_takes_whole_sequences),
		cmocka_unit_test(spec3_encode_in_any_company),
		cmocka_unit_test(spec3_is_eog_is_a_set),
		cmocka_unit_test(spec3_piece),
		cmocka_unit_test(spec3_tokenize_detokenize),
		cmocka_unit_test(spec3_one_allocates_nothing),
		cmocka_unit_test(spec3_many_chunks_by_itself),
		cmocka_unit_test(spec3_each_output_index_is_i),
		cmocka_unit_test(spec3_scatter_fits),
		cmocka_unit_test(spec3_scatter_is_packed),
		cmocka_unit_test(spec3_scatter_bounds_its_outputs),
		cmocka_unit_test(spec3_bin_pack),
		cmocka_unit_test(spec3_scratch_is_reused),
		cmocka_unit_test(spec3_bad_arguments_are_named),
		cmocka_unit_test(spec3_null_is_survived),
		cmocka_unit_test(spec3_duplicates_are_named),
		cmocka_unit_test(spec3_empty_lists_are_a_no_op),
	};
	return cmocka_run_group_tests_name("spec_decode", tests, open_golden, close_golden);
}
