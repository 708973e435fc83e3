/* Rows of the table of refusals: names and versions, token buffers, batches, packing; tokens and their texts. */
#include "refuse_case.h"

/* ---- Batches ---- */

static void names(void)
{
	GIVES(cohort_status_name, status, (COHORT_OK) != NULL, true);
	GIVES(cohort_status_name, status, ((enum cohort_status)99) != NULL, true);
	GIVES(cohort_version, _, () != NULL, true);
	GIVES(cohort_isa_count, _, () > 0, true);
	GIVES(cohort_isa_name, _, (cohort_isa_count() - 1) != NULL, true);
	GIVES(cohort_isa_name, _, (cohort_isa_count()), NULL);
	GIVES(cohort_isa_usable, _, (0), true);
	GIVES(cohort_isa_usable, _, (cohort_isa_count()), false);
}

static void buffers(void)
{
	static const cohort_token t[] = {1, 2};
	struct cohort_token_buf buf, full;

	cohort_token_buf_init(&buf);
	full = buf;
	full.n_tokens = full.n_max = INT32_MAX - 1;
	NOTHING(cohort_token_buf_init, (NULL));
	IS_NULL(cohort_token_buf_append, (NULL, t, 2, err), "buf is NULL");
	IS_NULL(cohort_token_buf_append, (&buf, NULL, 2, err), "tokens is NULL, n_tokens is 2");
	PASSES(cohort_token_buf_append, n_tokens, (&buf, NULL, 0, err));
	RANGE(cohort_token_buf_append, n_tokens, (&buf, t, -1, err), 0, -1);
	PASSES(cohort_token_buf_append, n_tokens, (&buf, t, 2, err));
	/* 2^31 - 1 tokens; what passes is not copied here: it would be 8 GB. */
	REFUSED(cohort_token_buf_append, n_tokens, (&full, t, 2, err), COHORT_E_LIMIT, "n_tokens", -1, -1, 1, 2);
	GIVES(cohort_token_buf_get, _, (NULL), NULL);
	NOTHING(cohort_token_buf_reset, (NULL));
	NOTHING(cohort_token_buf_release, (NULL));
	cohort_token_buf_release(&buf);
}

static void made(void)
{
	static const cohort_token t[] = {1, 2};
	struct cohort_token_buf buf;
	struct cohort_batch b, other;
	cohort_token *taken;

	IS_NULL(cohort_batch_init, (NULL, 1, 0, 1, err), "b is NULL");
	RANGE(cohort_batch_init, max_tokens, (&b, 0, 0, 1, err), 1, 0);
	RANGE(cohort_batch_init, n_embd, (&b, 1, -1, 1, err), 0, -1);
	RANGE(cohort_batch_init, n_seq_max, (&b, 1, 0, 0, err), 1, 0);
	PASSES_AND(cohort_batch_init, _, (&b, 1, 0, 1, err), cohort_batch_release(&b));
	IS_NULL(cohort_batch_init_default, (NULL, err), "b is NULL");
	PASSES_AND(cohort_batch_init_default, _, (&b, err), cohort_batch_release(&b));
	IS_NULL(cohort_batch_init_pos, (NULL, 1, 0, 1, 1, err), "b is NULL");
	RANGE(cohort_batch_init_pos, max_tokens, (&b, 0, 0, 1, 1, err), 1, 0);
	RANGE(cohort_batch_init_pos, n_embd, (&b, 1, -1, 1, 1, err), 0, -1);
	RANGE(cohort_batch_init_pos, n_seq_max, (&b, 1, 0, 0, 1, err), 1, 0);
	RANGE(cohort_batch_init_pos, n_pos_row, (&b, 1, 0, 1, 0, err), 1, 0);
	PASSES_AND(cohort_batch_init_pos, _, (&b, 1, 1, 1, 1, err), cohort_batch_release(&b));

	IS_NULL(cohort_batch_from_tokens, (NULL, t, 2, err), "b is NULL");
	IS_NULL(cohort_batch_from_tokens, (&b, NULL, 2, err), "tokens is NULL, n_tokens is 2");
	RANGE(cohort_batch_from_tokens, n_tokens, (&b, t, -1, err), 0, -1);
	PASSES_AND(cohort_batch_from_tokens, _, (&b, NULL, 0, err), cohort_batch_release(&b));
	taken = calloc(2, sizeof *taken);
	IS_NULL(cohort_batch_take_tokens, (NULL, taken, 2, err), "b is NULL");
	IS_NULL(cohort_batch_take_tokens, (&b, NULL, 2, err), "tokens is NULL, n_tokens is 2");
	RANGE(cohort_batch_take_tokens, n_tokens, (&b, taken, -1, err), 0, -1);
	free(taken);
	cohort_token_buf_init(&buf);
	IS_NULL(cohort_batch_from_buffer, (NULL, &buf, err), "b is NULL");
	IS_NULL(cohort_batch_from_buffer, (&b, NULL, err), "buf is NULL");
	PASSES_AND(cohort_batch_from_buffer, _, (&b, &buf, err), cohort_batch_release(&b));
	IS_NULL(cohort_batch_view, (NULL, t, 2, err), "b is NULL");
	IS_NULL(cohort_batch_view, (&b, NULL, 2, err), "tokens is NULL, n_tokens is 2");
	RANGE(cohort_batch_view, n_tokens, (&b, t, -1, err), 0, -1);
	PASSES(cohort_batch_view, _, (&b, t, 2, err));

	IS_NULL(cohort_batch_copy, (NULL, &b, err), "to is NULL");
	IS_NULL(cohort_batch_copy, (&other, NULL, err), "from is NULL");
	PASSES_AND(cohort_batch_copy, _, (&other, &b, err), cohort_batch_release(&other));
}

static void rows_of(void)
{
	const cohort_seq ids[] = {0, 1, 2};
	const float x[] = {1, 2};
	const cohort_pos pos = 0;
	struct cohort_batch b, v;

	assert_int_equal(cohort_batch_init(&b, 2, 0, 2, NULL), COHORT_OK);
	assert_int_equal(cohort_batch_init(&v, 2, 2, 1, NULL), COHORT_OK);
	IS_NULL(cohort_batch_add, (NULL, 1, 0, ids, 1, true, err), "b is NULL");
	IS_NULL(cohort_batch_add, (&b, 1, 0, NULL, 1, true, err), "seqs is NULL");
	REFUSED(cohort_batch_add, n_seqs, (&b, 1, 0, ids, 0, true, err), COHORT_E_ARG, "seq-count", 0, -1, 2, 0);
	REFUSED(cohort_batch_add, n_seqs, (&b, 1, 0, ids, 3, true, err), COHORT_E_ARG, "seq-count", 0, -1, 2, 3);
	/* Tokens and positions are looked at when the batch is decoded. */
	PASSES_AND(cohort_batch_add, token, (&b, -1, 0, ids, 1, true, err), cohort_batch_reset(&b));
	PASSES_AND(cohort_batch_add, pos, (&b, 1, INT32_MIN, ids, 2, true, err), cohort_batch_reset(&b));
	assert_int_equal(cohort_batch_add(&b, 1, 0, ids, 1, true, NULL), COHORT_OK);
	assert_int_equal(cohort_batch_add(&b, 1, 1, ids, 1, true, NULL), COHORT_OK); /* max_tokens rows */
	REFUSED(cohort_batch_add, _, (&b, 1, 2, ids, 1, true, err), COHORT_E_LIMIT, "batch-full", 2, -1, 2, 3);
	IS_NULL(cohort_batch_add_embd, (NULL, x, &pos, ids, 1, true, err), "b is NULL");
	IS_NULL(cohort_batch_add_embd, (&v, NULL, &pos, ids, 1, true, err), "embd is NULL");
	IS_NULL(cohort_batch_add_embd, (&v, x, NULL, ids, 1, true, err), "pos is NULL");
	IS_NULL(cohort_batch_add_embd, (&v, x, &pos, NULL, 1, true, err), "seqs is NULL");
	REFUSED(cohort_batch_add_embd, n_seqs, (&v, x, &pos, ids, 0, true, err), COHORT_E_ARG, "seq-count", 0, -1, 1,
			0);
	REFUSED(cohort_batch_add_embd, n_seqs, (&v, x, &pos, ids, 2, true, err), COHORT_E_ARG, "seq-count", 0, -1, 1,
			2);
	PASSES_AND(cohort_batch_add_embd, _, (&v, x, &pos, ids, 1, true, err), cohort_batch_reset(&v));
	REFUSED(cohort_batch_add, _, (&v, 1, 0, ids, 1, true, err), COHORT_E_ARG, "row-kind", 0, -1, 1, 0);
	NOTHING(cohort_batch_leave_out, (NULL, 0));
	GIVES(cohort_batch_size, _, (NULL), 0);
	GIVES(cohort_batch_is_empty, _, (NULL), true);
	NOTHING(cohort_batch_reset, (NULL));
	NOTHING(cohort_batch_release, (NULL));
	cohort_batch_release(&b);
	cohort_batch_release(&v);
}

static void raw_arrays(void)
{
	static cohort_token t[2];
	static cohort_pos pos[2];
	static cohort_seq seq[2];
	static float x[4];
	struct cohort_batch b;
	struct cohort_batch_raw raw = {.n_tokens = 2, .tokens = t};
	char out[8];

	IS_NULL(cohort_batch_view_raw, (NULL, &raw, err), "b is NULL");
	IS_NULL(cohort_batch_view_raw, (&b, NULL, err), "raw is NULL");
	PASSES(cohort_batch_view_raw, _, (&b, &raw, err));
	NOTHING(cohort_batch_raw_get, (NULL, &raw));
	NOTHING(cohort_batch_raw_get, (&b, NULL));
	/* A field outside its range: its name is the rule. */
#define FIELD(field, value, bound, ...) \
	do { \
		raw = (struct cohort_batch_raw){.n_tokens = 2, __VA_ARGS__}; \
		raw.field = value; \
		REFUSED(cohort_batch_view_raw, _, (&b, &raw, err), COHORT_E_ARG, #field, -1, -1, bound, value); \
	} while (0)
	FIELD(n_tokens, -1, 0, .tokens = t);
	FIELD(n_embd, 1, 0, .tokens = t);
	FIELD(n_embd, -1, 0, .tokens = t);
	FIELD(n_embd, 0, 1, .embd = x);
	FIELD(n_pos_row, 0, 1, .tokens = t, .pos = pos);
	FIELD(n_seq_row_max, 0, 1, .tokens = t, .seq = seq);
#undef FIELD
	GIVES(cohort_batch_dump, _, (NULL, out, sizeof out), strlen("batch: none\n"));
	GIVES(cohort_batch_dump, _, (&b, NULL, 0) > 0, true);
}

static void packing(void)
{
	static const int32_t lengths[] = {1, 4, -1};
	struct cohort_packing p;

	NOTHING(cohort_packing_init, (NULL));
	cohort_packing_init(&p);
	IS_NULL(cohort_bin_pack, (NULL, lengths, 2, 4, err), "p is NULL");
	IS_NULL(cohort_bin_pack, (&p, NULL, 2, 4, err), "lengths is NULL, n_items is 2");
	RANGE(cohort_bin_pack, n_items, (&p, lengths, -1, 4, err), 0, -1);
	RANGE(cohort_bin_pack, n_batch, (&p, lengths, 2, 0, err), 1, 0);
	REFUSED(cohort_bin_pack, lengths, (&p, lengths, 3, 4, err), COHORT_E_ARG, "length", 2, -1, 0, -1);
	PASSES(cohort_bin_pack, n_batch, (&p, lengths, 2, 1, err));
	assert_true(p.n_chunks == 2 && p.chunks[1].oversized); /* 4 rows, and 1 fits */
	PASSES(cohort_bin_pack, n_batch, (&p, lengths, 2, 4, err));
	assert_true(p.n_chunks == 2 && !p.chunks[1].oversized); /* exactly n_batch rows */
	PASSES(cohort_bin_pack, n_items, (&p, lengths, 0, 1, err));
	NOTHING(cohort_packing_release, (NULL));
	cohort_packing_release(&p);
}

void refuse_batch(void **state)
{
	(void)state;
	names();
	buffers();
	made();
	rows_of();
	raw_arrays();
	packing();
	refuse_end();
}

/* ---- Tokens ---- */

void refuse_tokens(void **state)
{
	const int32_t n_vocab = w.info.n_vocab;
	cohort_token ids[32];
	char text[256];
	size_t n;

	(void)state;
	IS_NULL(cohort_tokenize, (NULL, "ab", 2, 0, ids, 32, &n, err), "model is NULL");
	IS_NULL(cohort_tokenize, (w.model, NULL, 2, 0, ids, 32, &n, err), "text is NULL");
	IS_NULL(cohort_tokenize, (w.model, "ab", 2, 0, NULL, 32, &n, err), "out is NULL");
	IS_NULL(cohort_tokenize, (w.model, "ab", 2, 0, ids, 32, NULL, err), "n_out is NULL");
	PASSES(cohort_tokenize, _, (w.model, NULL, 0, COHORT_TOKENIZE_NO_BOS, ids, 32, &n, err));
	/* Unknown flags, and both of two that exclude each other. */
	REFUSED(cohort_tokenize, flags, (w.model, "ab", 2, 8, ids, 32, &n, err), COHORT_E_ARG, NULL, -1, -1, 0, 0);
	REFUSED(cohort_tokenize, flags, (w.model, "ab", 2, 3, ids, 32, &n, err), COHORT_E_ARG, NULL, -1, -1, 0, 0);
	PASSES(cohort_tokenize, flags, (w.model, "ab", 2, 6, ids, 32, &n, err));
	/* As many tokens as there is room for, and one more. */
	assert_int_equal(cohort_tokenize(w.model, "Hello, world", 12, 0, ids, 32, &n, NULL), COHORT_OK);
	PASSES(cohort_tokenize, n_max, (w.model, "Hello, world", 12, 0, ids, n, &n, err));
	REFUSED(cohort_tokenize, n_max, (w.model, "Hello, world", 12, 0, ids, n - 1, &n, err), COHORT_E_LIMIT, NULL, -1,
			-1, 0, 0);
	GIVES(cohort_tokenize_bound, _, (0) > 0, true);
	GIVES(cohort_tokenize_bound, _, (SIZE_MAX), SIZE_MAX);
	GIVES(cohort_tokenize_least, _, (NULL, 100), 0);

	GIVES(cohort_token_bytes, _, (NULL, 300, true, &n), NULL);
	GIVES(cohort_token_bytes, _, (w.model, 300, true, NULL), NULL);
	GIVES(cohort_token_bytes, token, (w.model, -1, true, &n), NULL);
	GIVES(cohort_token_bytes, token, (w.model, n_vocab, true, &n), NULL);
	GIVES(cohort_token_bytes, token, (w.model, n_vocab - 1, true, &n) != NULL, true);
	GIVES(cohort_token_bytes, token, (w.model, 0, true, &n) != NULL, true);
	IS_NULL(cohort_token_piece, (NULL, 300, true, true, text, sizeof text, &n, err), "model is NULL");
	IS_NULL(cohort_token_piece, (w.model, 300, true, true, NULL, sizeof text, &n, err), "out is NULL");
	IS_NULL(cohort_token_piece, (w.model, 300, true, true, text, sizeof text, NULL, err), "n_out is NULL");
	REFUSED(cohort_token_piece, token, (w.model, -1, true, true, text, sizeof text, &n, err), COHORT_E_ARG, "token",
			-1, -1, n_vocab, -1);
	REFUSED(cohort_token_piece, token, (w.model, n_vocab, true, true, text, sizeof text, &n, err), COHORT_E_ARG,
			"token", -1, -1, n_vocab, n_vocab);
	PASSES(cohort_token_piece, token, (w.model, 0, true, true, text, sizeof text, &n, err));
	PASSES(cohort_token_piece, token, (w.model, n_vocab - 1, true, true, text, sizeof text, &n, err));
	assert_true(n > 0);
	PASSES(cohort_token_piece, n_max, (w.model, n_vocab - 1, true, true, text, n, &n, err));
	REFUSED(cohort_token_piece, n_max, (w.model, n_vocab - 1, true, true, text, n - 1, &n, err), COHORT_E_LIMIT,
			NULL, -1, -1, 0, 0);
	GIVES(cohort_token_is_eog, _, (NULL, 0), false);
	GIVES(cohort_token_is_eog, token, (w.model, -1), false);
	GIVES(cohort_token_is_eog, token, (w.model, n_vocab), false);
	GIVES(cohort_token_is_control, _, (NULL, 0), false);
	GIVES(cohort_token_is_control, token, (w.model, -1), false);
	GIVES(cohort_token_is_control, token, (w.model, n_vocab), false);
	GIVES(cohort_token_bos, _, (NULL), -1);
	GIVES(cohort_token_eos, _, (NULL), -1);
	refuse_end();
}

/* ---- Texts of tokens ---- */

void refuse_texts(void **state)
{
	const int32_t n_vocab = w.info.n_vocab;
	cohort_token ids[32];
	struct cohort_detok d;
	char text[256];
	size_t n, n_ids;

	(void)state;
	assert_int_equal(cohort_tokenize(w.model, "Hello, world", 12, 2, ids, 32, &n_ids, NULL), COHORT_OK);
	IS_NULL(cohort_detokenize, (NULL, ids, n_ids, true, text, sizeof text, &n, err), "model is NULL");
	IS_NULL(cohort_detokenize, (w.model, NULL, n_ids, true, text, sizeof text, &n, err), "tokens is NULL");
	IS_NULL(cohort_detokenize, (w.model, ids, n_ids, true, NULL, sizeof text, &n, err), "out is NULL");
	IS_NULL(cohort_detokenize, (w.model, ids, n_ids, true, text, sizeof text, NULL, err), "n_out is NULL");
	PASSES(cohort_detokenize, _, (w.model, NULL, 0, true, text, sizeof text, &n, err));
	PASSES(cohort_detokenize, n_max, (w.model, ids, n_ids, true, text, 12, &n, err));
	REFUSED(cohort_detokenize, n_max, (w.model, ids, n_ids, true, text, 11, &n, err), COHORT_E_LIMIT, NULL, -1, -1,
			0, 0);
	assert_int_equal(n, 12);
	REFUSED(cohort_detokenize, tokens, (w.model, &n_vocab, 1, true, text, sizeof text, &n, err), COHORT_E_ARG,
			"token", -1, -1, n_vocab, n_vocab);

	NOTHING(cohort_detok_init, (NULL, w.model, true, true));
	NOTHING(cohort_detok_init, (&d, NULL, true, true));
	IS_NULL(cohort_detok_push, (&d, ids[0], text, sizeof text, &n, err), "decoder is NULL"); /* of no model */
	cohort_detok_init(&d, w.model, true, false);
	IS_NULL(cohort_detok_push, (NULL, ids[0], text, sizeof text, &n, err), "decoder is NULL");
	IS_NULL(cohort_detok_push, (&d, ids[0], NULL, sizeof text, &n, err), "out is NULL");
	IS_NULL(cohort_detok_push, (&d, ids[0], text, sizeof text, NULL, err), "n_out is NULL");
	REFUSED(cohort_detok_push, token, (&d, -1, text, sizeof text, &n, err), COHORT_E_ARG, "token", -1, -1, n_vocab,
			-1);
	REFUSED(cohort_detok_push, token, (&d, n_vocab, text, sizeof text, &n, err), COHORT_E_ARG, "token", -1, -1,
			n_vocab, n_vocab);
	PASSES(cohort_detok_push, token, (&d, ids[0], text, sizeof text, &n, err));
	assert_true(n > 0);
	PASSES(cohort_detok_push, n_max, (&d, ids[0], text, n, &n, err));
	REFUSED(cohort_detok_push, n_max, (&d, ids[0], text, n - 1, &n, err), COHORT_E_LIMIT, NULL, -1, -1, 0, 0);
	GIVES(cohort_detok_flush, _, (NULL, text), 0);
	GIVES(cohort_detok_flush, _, (&d, NULL), 0);
	refuse_end();
}
