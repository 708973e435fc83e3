/* The batch container and the token buffer.
 *
 * Faults that were planted in batch.c, and what went red: a stored pointer to the inline rows (batch_may_be_moved),
 * the bounds of rows (full_batches_refuse_rows) and of ids (add_refusals) not looked at, an array that a failed init
 * forgets (init_failures, by the leak checker), a copy that shares an array (batch_copy_is_independent). */
#include "batch_case.h"

#define E_ARG_SAYS(call, word)                                                                                         \
	do {                                                                                                           \
		memset(&err, 0, sizeof err);                                                                           \
		assert_int_equal(call, COHORT_E_ARG);                                                                  \
		if (!strstr(err.text, word))                                                                           \
			fail_msg("'%s' does not name '%s'", err.text, word);                                           \
	} while (0)

static const cohort_token many[40] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};

static void batch_calls_refuse_bad_arguments(void **state)
{
	struct cohort_err err;
	struct cohort_batch b, c;
	struct cohort_token_buf buf;
	struct cohort_batch_raw raw = {0};
	cohort_token t[1] = {1};
	(void)state;

	E_ARG_SAYS(cohort_batch_init(NULL, 1, 0, 1, &err), "b is NULL");
	E_ARG_SAYS(cohort_batch_init_default(NULL, &err), "b is NULL");
	E_ARG_SAYS(cohort_batch_init(&b, 0, 0, 1, &err), "max_tokens");
	E_ARG_SAYS(cohort_batch_init(&b, 1, -1, 1, &err), "n_embd");
	E_ARG_SAYS(cohort_batch_init(&b, 1, 0, 0, &err), "n_seq_max");
	E_ARG_SAYS(cohort_batch_init_pos(&b, 1, 0, 1, 0, &err), "n_pos_row");
	assert_int_equal(cohort_batch_init(&b, -1, 0, -1, NULL), COHORT_E_ARG);
	E_ARG_SAYS(cohort_batch_from_tokens(NULL, t, 1, &err), "b is NULL");
	E_ARG_SAYS(cohort_batch_from_tokens(&b, NULL, 1, &err), "tokens is NULL");
	E_ARG_SAYS(cohort_batch_from_tokens(&b, t, -1, &err), "n_tokens");
	E_ARG_SAYS(cohort_batch_take_tokens(NULL, t, 1, &err), "b is NULL");
	E_ARG_SAYS(cohort_batch_take_tokens(&b, NULL, 1, &err), "tokens is NULL");
	E_ARG_SAYS(cohort_batch_view(NULL, t, 1, &err), "b is NULL");
	E_ARG_SAYS(cohort_batch_view(&b, t, -1, &err), "n_tokens");
	E_ARG_SAYS(cohort_batch_from_buffer(NULL, &buf, &err), "b is NULL");
	E_ARG_SAYS(cohort_batch_from_buffer(&b, NULL, &err), "buf is NULL");
	E_ARG_SAYS(cohort_batch_view_raw(NULL, &raw, &err), "b is NULL");
	E_ARG_SAYS(cohort_batch_view_raw(&b, NULL, &err), "raw is NULL");
	E_ARG_SAYS(cohort_batch_add(NULL, 1, 0, IDS(0), false, &err), "b is NULL");
	E_ARG_SAYS(cohort_batch_add_embd(NULL, NULL, NULL, IDS(0), false, &err), "b is NULL");
	assert_int_equal(cohort_batch_from_tokens(&b, t, 1, NULL), COHORT_OK);
	E_ARG_SAYS(cohort_batch_copy(NULL, &b, &err), "to is NULL");
	E_ARG_SAYS(cohort_batch_copy(&c, NULL, &err), "from is NULL");
	E_ARG_SAYS(cohort_batch_copy(&b, &b, &err), "same");
	/* What cannot fail takes NULL. */
	cohort_batch_leave_out(NULL, COHORT_BATCH_POS);
	assert_int_equal(cohort_batch_size(NULL), 0);
	assert_true(cohort_batch_is_empty(NULL));
	cohort_batch_reset(NULL);
	cohort_batch_release(NULL);
	cohort_batch_raw_get(&b, NULL);
	raw.n_tokens = 7;
	cohort_batch_raw_get(NULL, &raw);
	assert_int_equal(raw.n_tokens, 0);
}

static void add_refusals(void **state)
{
	struct cohort_err err;
	struct cohort_batch b, v;
	const float x[2] = {0};
	const cohort_pos pos = 0;
	(void)state;

	/* Bare tokens take no rows, and a released batch neither. */
	assert_int_equal(cohort_batch_from_tokens(&b, many, 1, &err), COHORT_OK);
	E_ARG_SAYS(cohort_batch_add(&b, 1, 0, IDS(0), false, &err), "cohort_batch_init");
	assert_int_equal(cohort_batch_size(&b), 1);
	cohort_batch_release(&b);
	E_ARG_SAYS(cohort_batch_add(&b, 1, 0, IDS(0), false, &err), "cohort_batch_init");
	assert_int_equal(cohort_batch_view(&b, many, 3, &err), COHORT_OK);
	E_ARG_SAYS(cohort_batch_add(&b, 1, 0, IDS(0), false, &err), "cohort_batch_init");

	b = new_batch(2, 2);
	E_ARG_SAYS(cohort_batch_add(&b, 1, 0, NULL, 1, false, &err), "seqs is NULL");
	E_ARG_SAYS(cohort_batch_add(&b, 1, 0, (cohort_seq[]){0}, 0, false, &err), "0 sequence ids");
	assert_string_equal(err.rule, "seq-count");
	E_ARG_SAYS(cohort_batch_add(&b, 1, 0, IDS(0, 1, 2), false, &err), "1 to 2");
	assert_string_equal(err.rule, "seq-count");
	assert_int_equal(err.row, 0);
	assert_int_equal(err.expected, 2);
	assert_int_equal(err.got, 3);
	E_ARG_SAYS(cohort_batch_add_embd(&b, x, &pos, IDS(0), false, &err), "its rows are tokens");
	assert_string_equal(err.rule, "row-kind");
	assert_int_equal(cohort_batch_size(&b), 0);

	assert_int_equal(cohort_batch_init(&v, 2, 2, 1, NULL), COHORT_OK);
	E_ARG_SAYS(cohort_batch_add(&v, 1, 0, IDS(0), false, &err), "its rows are vectors");
	assert_string_equal(err.rule, "row-kind");
	E_ARG_SAYS(cohort_batch_add_embd(&v, NULL, &pos, IDS(0), false, &err), "embd is NULL");
	E_ARG_SAYS(cohort_batch_add_embd(&v, x, NULL, IDS(0), false, &err), "pos is NULL");
	assert_true(cohort_batch_is_empty(&v));
	cohort_batch_release(&b);
	cohort_batch_release(&v);
}

/* Full batches, inline and on the heap, refuse rows and may be used again after a reset. */
static void full_batches_refuse_rows(void **state)
{
	struct cohort_err err;
	struct cohort_batch_raw raw;
	(void)state;

	for (int32_t n_max = 1; n_max <= 40; n_max += 13) {
		struct cohort_batch b = new_batch(n_max, 1);
		for (int round = 0; round < 2; round++) {
			for (int32_t i = 0; i < n_max; i++)
				add(&b, 10 + i, i, 0);
			assert_int_equal(cohort_batch_add(&b, 1, n_max, IDS(0), false, &err), COHORT_E_LIMIT);
			assert_string_equal(err.rule, "batch-full");
			assert_int_equal(err.row, n_max);
			assert_int_equal(err.expected, n_max);
			assert_int_equal(err.got, n_max + 1);
			assert_int_equal(cohort_batch_size(&b), n_max);
			cohort_batch_raw_get(&b, &raw);
			assert_int_equal(raw.tokens[n_max - 1], 9 + n_max);
			assert_null(raw.n_seq);
			uint64_t before = mem_count();
			cohort_batch_reset(&b);
			assert_int_equal(mem_count(), before);
			assert_true(cohort_batch_is_empty(&b));
		}
		cohort_batch_release(&b);
	}
}

static void rows_are_kept(void **state)
{
	struct cohort_batch b;
	struct cohort_batch_raw raw;
	const float x[2][3] = {{1, 2, 3}, {4, 5, 6}};
	const cohort_pos pos[2][2] = {{7, 8}, {9, 10}};
	(void)state;

	assert_int_equal(cohort_batch_init_default(&b, NULL), COHORT_OK);
	assert_int_equal(b.n_max, 512);
	cohort_batch_release(&b);

	assert_int_equal(cohort_batch_init_pos(&b, 4, 0, 3, 2, NULL), COHORT_OK);
	assert_int_equal(cohort_batch_add(&b, 5, 6, IDS(2, 1), true, NULL), COHORT_OK);
	assert_int_equal(cohort_batch_add(&b, 6, 7, IDS(1), false, NULL), COHORT_OK);
	cohort_batch_raw_get(&b, &raw);
	assert_int_equal(raw.n_tokens, 2);
	assert_int_equal(raw.n_embd, 0);
	assert_int_equal(raw.n_pos_row, 2);
	assert_int_equal(raw.n_seq_row_max, 3);
	assert_null(raw.embd);
	assert_memory_equal(raw.tokens, ((cohort_token[]){5, 6}), 8);
	assert_memory_equal(raw.pos, ((cohort_pos[]){6, 6, 7, 7}), 16);
	assert_memory_equal(raw.n_seq, ((int32_t[]){2, 1}), 8);
	assert_memory_equal(raw.seq, ((cohort_seq[]){2, 1, 0, 1}), 16);
	assert_memory_equal(raw.output, ((uint8_t[]){1, 0}), 2);
	cohort_batch_release(&b);

	assert_int_equal(cohort_batch_init_pos(&b, 4, 3, 1, 2, NULL), COHORT_OK);
	for (int i = 0; i < 2; i++)
		assert_int_equal(cohort_batch_add_embd(&b, x[i], pos[i], IDS(i), i == 1, NULL), COHORT_OK);
	cohort_batch_raw_get(&b, &raw);
	assert_null(raw.tokens);
	assert_null(raw.n_seq);
	assert_int_equal(raw.n_embd, 3);
	assert_memory_equal(raw.embd, x, sizeof x);
	assert_memory_equal(raw.pos, pos, sizeof pos);
	assert_memory_equal(raw.seq, ((cohort_seq[]){0, 1}), 8);
	assert_memory_equal(raw.output, ((uint8_t[]){0, 1}), 2);
	cohort_batch_release(&b);
}

/* What is left out reads as NULL, is still written by add, and can be taken back. */
static void leaves_out(void **state)
{
	struct cohort_batch_raw raw;
	(void)state;

	for (int32_t n_seq = 1; n_seq <= 2; n_seq++) {
		struct cohort_batch b = new_batch(4, n_seq);
		cohort_batch_leave_out(&b, COHORT_BATCH_POS | COHORT_BATCH_SEQ | COHORT_BATCH_OUTPUT | 0x100);
		add(&b, 1, 5, 2);
		cohort_batch_raw_get(&b, &raw);
		assert_non_null(raw.tokens);
		assert_true(!raw.pos && !raw.seq && !raw.n_seq && !raw.output);
		cohort_batch_leave_out(&b, COHORT_BATCH_POS);
		cohort_batch_raw_get(&b, &raw);
		assert_true(!raw.pos && raw.seq && raw.output);
		cohort_batch_leave_out(&b, 0);
		cohort_batch_raw_get(&b, &raw);
		assert_int_equal(raw.pos[0], 5);
		assert_int_equal(raw.seq[0], 2);
		assert_int_equal(!raw.n_seq, n_seq == 1);
		cohort_batch_release(&b);
	}
	/* Bare tokens have nothing to take back. */
	struct cohort_batch b;
	assert_int_equal(cohort_batch_from_tokens(&b, many, 3, NULL), COHORT_OK);
	cohort_batch_leave_out(&b, 0);
	cohort_batch_raw_get(&b, &raw);
	assert_true(raw.tokens && !raw.pos && !raw.seq && !raw.n_seq && !raw.output);
}

/* ---- No pointer into itself ---- */

static void make_any(struct cohort_batch *b, int kind)
{
	struct cohort_token_buf buf;
	cohort_token *heap;

	switch (kind) {
	case 0: assert_int_equal(cohort_batch_from_tokens(b, many, 3, NULL), COHORT_OK); break;
	case 1: assert_int_equal(cohort_batch_from_tokens(b, many, 40, NULL), COHORT_OK); break;
	case 2: assert_int_equal(cohort_batch_view(b, many, 3, NULL), COHORT_OK); break;
	case 3:
		heap = malloc(3 * sizeof *heap);
		assert_non_null(heap);
		memcpy(heap, many, 3 * sizeof *heap);
		assert_int_equal(cohort_batch_take_tokens(b, heap, 3, NULL), COHORT_OK);
		break;
	case 4:
	case 5:
		cohort_token_buf_init(&buf);
		assert_int_equal(cohort_token_buf_append(&buf, many, kind == 4 ? 3 : 40, NULL), COHORT_OK);
		assert_int_equal(cohort_batch_from_buffer(b, &buf, NULL), COHORT_OK);
		break;
	default:
		*b = new_batch(kind == 6 ? 3 : 50, kind == 8 ? 2 : 1);
		for (int i = 0; i < 3; i++)
			add(b, many[i], i, 1);
	}
}

enum { N_KINDS = 9 };

static void check_any(struct cohort_batch *b, int kind)
{
	struct cohort_batch_raw raw;

	cohort_batch_raw_get(b, &raw);
	assert_int_equal(raw.n_tokens, kind == 1 || kind == 5 ? 40 : 3);
	assert_memory_equal(raw.tokens, many, (size_t)raw.n_tokens * sizeof *many);
	assert_int_equal(!raw.pos, kind < 6);
	assert_int_equal(!raw.seq, kind < 6);
	assert_int_equal(!raw.output, kind < 6);
	for (int i = 0; i < 3 && kind >= 6; i++) {
		assert_int_equal(raw.pos[i], i);
		assert_int_equal(raw.seq[i * raw.n_seq_row_max], 1);
	}
}

/* The bytes of a batch may go elsewhere, and the old place be overwritten. */
static void batch_may_be_moved(void **state)
{
	(void)state;

	for (int kind = 0; kind < N_KINDS; kind++) {
		struct cohort_batch *old = malloc(sizeof *old), *moved = malloc(sizeof *moved);
		assert_true(old && moved);
		make_any(old, kind);
		const char *from = (char *)old, *to = from + sizeof *old;
		for (size_t i = 0; i + sizeof(char *) <= offsetof(struct cohort_batch, inline_rows);
				i += sizeof(char *)) {
			const char *p;
			memcpy(&p, from + i, sizeof p);
			assert_false(p >= from && p < to);
		}
		memcpy(moved, old, sizeof *old);
		memset(old, 0x5a, sizeof *old);
		free(old);
		check_any(moved, kind);
		if (kind >= 7)
			add(moved, 1, 3, 1);
		cohort_batch_release(moved);
		assert_true(cohort_batch_is_empty(moved));
		cohort_batch_release(moved);
		free(moved);
	}
}

static void batch_copy_is_independent(void **state)
{
	(void)state;

	for (int kind = 0; kind < N_KINDS; kind++) {
		struct cohort_batch b, copy;
		struct cohort_batch_raw from, to;
		make_any(&b, kind);
		assert_int_equal(cohort_batch_copy(&copy, &b, NULL), COHORT_OK);
		cohort_batch_raw_get(&b, &from);
		cohort_batch_raw_get(&copy, &to);
		assert_int_equal(copy.n_max, b.n_max);
		assert_ptr_not_equal(from.tokens, to.tokens);
		if (kind != 2)
			memset(from.tokens, 0x5a, sizeof *from.tokens * (size_t)from.n_tokens);
		cohort_batch_release(&b);
		check_any(&copy, kind);
		/* It has the same room, and takes rows if the other did. */
		int32_t n = 0;
		while (!cohort_batch_add(&copy, 1, 3 + n, IDS(1), false, NULL))
			n++;
		assert_int_equal(n, kind < 7 ? 0 : 47);
		cohort_batch_release(&copy);
	}
	/* Vectors, several positions and ids; and what is left out stays so. */
	struct cohort_batch b, copy;
	struct cohort_batch_raw raw;
	const float x[2] = {1, 2};
	assert_int_equal(cohort_batch_init_pos(&b, 3, 2, 2, 2, NULL), COHORT_OK);
	assert_int_equal(cohort_batch_add_embd(&b, x, (cohort_pos[]){3, 4}, IDS(6, 5), true, NULL), COHORT_OK);
	cohort_batch_leave_out(&b, COHORT_BATCH_OUTPUT);
	assert_int_equal(cohort_batch_copy(&copy, &b, NULL), COHORT_OK);
	cohort_batch_release(&b);
	cohort_batch_raw_get(&copy, &raw);
	assert_memory_equal(raw.embd, x, sizeof x);
	assert_memory_equal(raw.pos, ((cohort_pos[]){3, 4}), 8);
	assert_memory_equal(raw.seq, ((cohort_seq[]){6, 5}), 8);
	assert_int_equal(raw.n_seq[0], 2);
	assert_null(raw.output);
	cohort_batch_release(&copy);
}

/* ---- Where the arrays live ---- */

static void no_heap_up_to_32(void **state)
{
	struct cohort_batch b;
	struct cohort_token_buf buf;
	(void)state;

	mem_fail_all(true);
	for (int32_t n = 0; n <= COHORT_BATCH_INLINE; n++) {
		assert_int_equal(cohort_batch_from_tokens(&b, n ? many : NULL, n, NULL), COHORT_OK);
		assert_int_equal(cohort_batch_size(&b), n);
		cohort_batch_release(&b);
		cohort_token_buf_init(&buf);
		assert_int_equal(cohort_token_buf_append(&buf, n ? many : NULL, n, NULL), COHORT_OK);
		assert_int_equal(cohort_batch_from_buffer(&b, &buf, NULL), COHORT_OK);
		assert_int_equal(cohort_batch_size(&b), n);
		assert_int_equal(buf.n_tokens, 0);
		if (n == 0)
			continue;
		b = new_batch(n, 1);
		for (int32_t i = 0; i < n; i++)
			add(&b, i, i, 0);
		struct cohort_batch copy;
		assert_int_equal(cohort_batch_copy(&copy, &b, NULL), COHORT_OK);
	}
	assert_int_equal(cohort_batch_view(&b, many, 40, NULL), COHORT_OK);
	mem_fail_all(false);
	uint64_t before = mem_count();
	assert_int_equal(cohort_batch_from_tokens(&b, many, COHORT_BATCH_INLINE + 1, NULL), COHORT_OK);
	assert_int_equal(mem_count(), before + 1);
	cohort_batch_release(&b);
}

static void views_raw(void **state)
{
	struct cohort_err err;
	struct cohort_batch b, v;
	struct cohort_batch_raw raw, back;
	cohort_token tokens[2] = {1, 2};
	float embd[4] = {0};
	cohort_pos pos[4] = {0};
	cohort_seq seq[4] = {0};
	int32_t n_seq[2] = {1, 1};
	(void)state;

	raw = (struct cohort_batch_raw){.n_tokens = 2};
	E_ARG_SAYS(cohort_batch_view_raw(&v, &raw, &err), "neither");
	raw.tokens = tokens;
	raw.embd = embd;
	E_ARG_SAYS(cohort_batch_view_raw(&v, &raw, &err), "both");
	raw.embd = NULL;
	raw.n_embd = 2;
	E_ARG_SAYS(cohort_batch_view_raw(&v, &raw, &err), "n_embd");
	raw.tokens = NULL;
	raw.embd = embd;
	raw.n_embd = 0;
	E_ARG_SAYS(cohort_batch_view_raw(&v, &raw, &err), "n_embd");
	raw.n_embd = 2;
	raw.n_tokens = -1;
	E_ARG_SAYS(cohort_batch_view_raw(&v, &raw, &err), "n_tokens");
	raw.n_tokens = 2;
	raw.pos = pos;
	E_ARG_SAYS(cohort_batch_view_raw(&v, &raw, &err), "n_pos_row");
	raw.n_pos_row = 2;
	raw.seq = seq;
	E_ARG_SAYS(cohort_batch_view_raw(&v, &raw, &err), "n_seq_row_max");
	raw.n_seq_row_max = 2;
	raw.seq = NULL;
	raw.n_seq = n_seq;
	E_ARG_SAYS(cohort_batch_view_raw(&v, &raw, &err), "no seq");
	raw.seq = seq;
	assert_int_equal(cohort_batch_view_raw(&v, &raw, &err), COHORT_OK);
	cohort_batch_raw_get(&v, &back);
	assert_memory_equal(&back, &raw, sizeof raw);
	cohort_batch_release(&v); /* frees nothing */
	/* Bare tokens need no counts. */
	raw = (struct cohort_batch_raw){.n_tokens = 2, .tokens = tokens};
	assert_int_equal(cohort_batch_view_raw(&v, &raw, &err), COHORT_OK);
	assert_int_equal(v.n_pos_row, 1);
	assert_int_equal(v.n_seq_row_max, 1);
	/* Seen through its arrays, a batch is the same one. */
	b = new_batch(50, 2);
	add_ids(&b, 3, 4, IDS(5, 6));
	cohort_batch_raw_get(&b, &raw);
	assert_int_equal(cohort_batch_view_raw(&v, &raw, &err), COHORT_OK);
	cohort_batch_raw_get(&v, &back);
	assert_memory_equal(&back, &raw, sizeof raw);
	cohort_batch_release(&b);
}

/* ---- The token buffer ---- */

static void token_buffer_appends_and_moves(void **state)
{
	struct cohort_err err;
	struct cohort_token_buf buf, moved;
	(void)state;

	cohort_token_buf_init(NULL);
	cohort_token_buf_reset(NULL);
	cohort_token_buf_release(NULL);
	assert_null(cohort_token_buf_get(NULL));
	cohort_token_buf_init(&buf);
	E_ARG_SAYS(cohort_token_buf_append(NULL, many, 1, &err), "buf is NULL");
	E_ARG_SAYS(cohort_token_buf_append(&buf, NULL, 1, &err), "tokens is NULL");
	E_ARG_SAYS(cohort_token_buf_append(&buf, many, -1, &err), "n_tokens");
	assert_int_equal(cohort_token_buf_append(&buf, NULL, 0, &err), COHORT_OK);
	for (int32_t i = 0; i < 1000; i++) {
		assert_int_equal(cohort_token_buf_append(&buf, &i, 1, NULL), COHORT_OK);
		assert_int_equal(!buf.heap, i < COHORT_BATCH_INLINE);
		if (i == 20 || i == 500) { /* its bytes go elsewhere */
			moved = buf;
			memset(&buf, 0x5a, sizeof buf);
			buf = moved;
		}
	}
	for (int32_t i = 0; i < 1000; i++)
		assert_int_equal(cohort_token_buf_get(&buf)[i], i);
	/* Its own tokens may be appended. */
	for (int round = 0; round < 3; round++)
		assert_int_equal(cohort_token_buf_append(&buf, cohort_token_buf_get(&buf), buf.n_tokens, NULL),
				COHORT_OK);
	for (int32_t i = 0; i < 8000; i++)
		assert_int_equal(cohort_token_buf_get(&buf)[i], i % 1000);
	/* The end of counting; the second asks for more memory than there is. */
	int32_t n = buf.n_tokens;
	buf.n_tokens = INT32_MAX - 1;
	assert_int_equal(cohort_token_buf_append(&buf, many, 2, &err), COHORT_E_LIMIT);
	assert_int_equal(buf.n_tokens, INT32_MAX - 1);
	mem_fail_after(0);
	assert_int_equal(cohort_token_buf_append(&buf, many, 1, &err), COHORT_E_MEMORY);
	assert_int_equal(buf.n_tokens, INT32_MAX - 1);
	buf.n_tokens = n;
	uint64_t before = mem_count();
	cohort_token_buf_reset(&buf);
	assert_int_equal(buf.n_tokens, 0);
	assert_int_equal(cohort_token_buf_append(&buf, many, 40, NULL), COHORT_OK);
	assert_int_equal(mem_count(), before);
	cohort_token_buf_release(&buf);
	assert_null(buf.heap);
	cohort_token_buf_release(&buf);
}

static void from_buffer_takes(void **state)
{
	struct cohort_token_buf buf;
	struct cohort_batch b;
	struct cohort_batch_raw raw;
	(void)state;

	cohort_token_buf_init(&buf);
	assert_int_equal(cohort_token_buf_append(&buf, many, 40, NULL), COHORT_OK);
	const cohort_token *heap = buf.heap;
	assert_int_equal(cohort_batch_from_buffer(&b, &buf, NULL), COHORT_OK);
	cohort_batch_raw_get(&b, &raw);
	assert_ptr_equal(raw.tokens, heap);
	assert_int_equal(buf.n_tokens, 0);
	assert_null(buf.heap);
	/* The buffer may be used on. */
	assert_int_equal(cohort_token_buf_append(&buf, many, 2, NULL), COHORT_OK);
	cohort_batch_release(&b);
	cohort_token_buf_release(&buf);
}

/* ---- Failures ---- */

static void init_failures(void **state)
{
	static const struct {
		int32_t n_max, n_embd, n_seq, n_pos, n_allocs;
	} shapes[] = {{40, 0, 1, 1, 4}, {10, 0, 2, 1, 5}, {10, 3, 1, 1, 4}, {10, 3, 2, 2, 5}, {10, 0, 1, 2, 4}};
	struct cohort_batch b, copy, before;
	struct cohort_err err;
	(void)state;

	memset(&before, 0x5a, sizeof before);
	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
		for (int copying = 0; copying < 2; copying++) {
			int64_t n = 0;
			for (;; n++) {
				struct cohort_batch *to = copying ? &copy : &b;
				*to = before;
				mem_fail_after(n);
				enum cohort_status st = copying ? cohort_batch_copy(to, &b, &err)
								: cohort_batch_init_pos(to, shapes[i].n_max,
										  shapes[i].n_embd, shapes[i].n_seq,
										  shapes[i].n_pos, &err);
				mem_fail_after(-1);
				if (!st)
					break;
				assert_int_equal(st, COHORT_E_MEMORY);
				assert_memory_equal(to, &before, sizeof before);
			}
			assert_int_equal(n, shapes[i].n_allocs);
			if (copying) {
				cohort_batch_release(&copy);
				cohort_batch_release(&b);
			}
		}
}

static void other_failures(void **state)
{
	struct cohort_batch b, before;
	struct cohort_token_buf buf;
	struct cohort_err err;
	(void)state;

	memset(&before, 0x5a, sizeof before);
	b = before;
	mem_fail_after(0);
	assert_int_equal(cohort_batch_from_tokens(&b, many, 40, &err), COHORT_E_MEMORY);
	assert_memory_equal(&b, &before, sizeof b);
	cohort_token_buf_init(&buf);
	assert_int_equal(cohort_token_buf_append(&buf, many, 30, &err), COHORT_OK);
	mem_fail_after(0);
	assert_int_equal(cohort_token_buf_append(&buf, many, 3, &err), COHORT_E_MEMORY);
	assert_int_equal(buf.n_tokens, 30);
	assert_memory_equal(cohort_token_buf_get(&buf), many, 30 * sizeof *many);
	assert_int_equal(cohort_token_buf_append(&buf, many, 3, &err), COHORT_OK);
	cohort_token_buf_release(&buf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(batch_calls_refuse_bad_arguments),
		cmocka_unit_test(add_refusals),
		cmocka_unit_test(full_batches_refuse_rows),
		cmocka_unit_test(rows_are_kept),
		cmocka_unit_test(leaves_out),
		cmocka_unit_test(batch_may_be_moved),
		cmocka_unit_test(batch_copy_is_independent),
		cmocka_unit_test(no_heap_up_to_32),
		cmocka_unit_test(views_raw),
		cmocka_unit_test(token_buffer_appends_and_moves),
		cmocka_unit_test(from_buffer_takes),
		cmocka_unit_test(init_failures),
		cmocka_unit_test(other_failures),
	};

	return cmocka_run_group_tests_name("batch", tests, NULL, NULL);
}
