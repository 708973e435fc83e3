/* Splits of fixed batches, made-up ubatches, and what dumps look like.
 *
 * Faults that were planted in split.c, and what went red: ids that are not put in order (falling_ids, sparse_ids and
 * more), children that come in at once (shrinking_sets), tails not kept (keeps_tails), an index that is not cleared
 * (index_is_cleared and more). */
#include "batch_case.h"

static const struct batch_limits limits = {.n_vocab = 100, .n_seq_max = N_SEQ, .n_rows_max = 64, .n_embd = 2,
	.n_pos_row = 1, .n_pos_max = 50};

/* Checks that a ubatch carries the rows it names. */
static void check_ubatch(const struct batch_checked *c, const struct ubatch *u)
{
	size_t n_pos = (size_t)c->n_pos_row, n_embd = (size_t)c->n_embd;

	assert_int_equal(u->n_tokens, u->n_seqs * u->n_seq_tokens);
	assert_int_equal(u->n_pos_row, c->n_pos_row);
	assert_int_equal(u->n_embd, c->n_embd);
	assert_memory_equal(u, &c->ubatch, sizeof *u);
	for (int32_t i = 0; i < u->n_tokens; i++) {
		size_t r = (size_t)u->rows[i], at = (size_t)i;
		if (c->tokens)
			assert_int_equal(u->tokens[at], c->tokens[r]);
		else
			assert_memory_equal(u->embd + at * n_embd, c->embd + r * n_embd, n_embd * sizeof *u->embd);
		assert_memory_equal(u->pos + at * n_pos, c->pos + r * n_pos, n_pos * sizeof *u->pos);
		assert_int_equal(u->n_seq[at], c->n_seq[r]);
		assert_ptr_equal(u->seq[at], c->seq[r]);
		assert_int_equal(u->output[at], c->output[r]);
	}
	for (int32_t i = 0; i < u->n_seqs_unq; i++) {
		assert_true(i == 0 || u->seq_unq[i - 1] < u->seq_unq[i]);
		assert_int_equal(u->seq_idx[u->seq_unq[i]], i);
	}
}

/* All ubatches as text: "sets x rows of each: rows (sequences)", with bars between. */
static const char *split_text(struct batch_checked *c, enum batch_split kind, int32_t n_ubatch, int32_t keep_tail)
{
	static char text[1024];
	size_t n = 0;
	struct ubatch u;
	int32_t n_used = 0;

	text[0] = '\0';
	for (;;) {
		assert_int_equal(batch_split(c, kind, n_ubatch, keep_tail, &u, NULL), COHORT_OK);
		if (u.n_tokens == 0)
			break;
		check_ubatch(c, &u);
		n_used += u.n_tokens;
		assert_int_equal(c->n_used, n_used);
		n += (size_t)snprintf(text + n, sizeof text - n, "%s%dx%d:", n ? " | " : "", u.n_seqs, u.n_seq_tokens);
		for (int32_t i = 0; i < u.n_tokens; i++)
			n += (size_t)snprintf(text + n, sizeof text - n, " %d", u.rows[i]);
		for (int32_t i = 0; i < u.n_seqs_unq; i++)
			n += (size_t)snprintf(text + n, sizeof text - n, "%s%d", i ? "," : " (", u.seq_unq[i]);
		n += (size_t)snprintf(text + n, sizeof text - n, ")");
		assert_int_equal(u.equal_seqs, kind != BATCH_SPLIT_SIMPLE);
	}
	assert_int_equal(c->n_used, c->n_tokens);
	assert_int_equal(c->ubatch.n_tokens, 0);
	batch_split_reset(c);
	assert_int_equal(c->n_used, 0);
	return text;
}

/* Rows given as sequence ids; positions are left out. */
static void check_ids(struct batch_checked *c, struct cohort_batch *b, const cohort_seq *ids, int32_t n)
{
	*b = new_batch(64, 4);
	for (int32_t i = 0; i < n; i++)
		add(b, i, 0, ids[i]);
	cohort_batch_leave_out(b, COHORT_BATCH_POS);
	assert_int_equal(batch_check(c, b, &limits, NULL, NULL), COHORT_OK);
}

#define SPLITS(kind, n_ubatch, keep_tail, want) assert_string_equal(split_text(&c, kind, n_ubatch, keep_tail), want)

static void one_sequence(void **state)
{
	struct batch_checked c = {0};
	struct cohort_batch b;
	(void)state;

	check_ids(&c, &b, IDS(3, 3, 3, 3, 3));
	SPLITS(BATCH_SPLIT_SIMPLE, 2, 0, "2x1: 0 1 (3) | 2x1: 2 3 (3) | 1x1: 4 (3)");
	SPLITS(BATCH_SPLIT_EQUAL, 2, 0, "1x2: 0 1 (3) | 1x2: 2 3 (3) | 1x1: 4 (3)");
	SPLITS(BATCH_SPLIT_SEQ, 2, 0, "1x2: 0 1 (3) | 1x2: 2 3 (3) | 1x1: 4 (3)");
	SPLITS(BATCH_SPLIT_SIMPLE, 5, 0, "5x1: 0 1 2 3 4 (3)");
	SPLITS(BATCH_SPLIT_EQUAL, 64, 0, "1x5: 0 1 2 3 4 (3)");
	SPLITS(BATCH_SPLIT_SEQ, 1, 0, "1x1: 0 (3) | 1x1: 1 (3) | 1x1: 2 (3) | 1x1: 3 (3) | 1x1: 4 (3)");
	cohort_batch_release(&b);
	batch_checked_release(&c);
}

/* Ids with holes between them; sequences of different lengths, mixed. */
static void sparse_ids(void **state)
{
	struct batch_checked c = {0};
	struct cohort_batch b;
	(void)state;

	check_ids(&c, &b, IDS(0, 2, 5, 7, 0, 2, 5, 0, 2, 0));
	SPLITS(BATCH_SPLIT_SIMPLE, 4, 0, "4x1: 0 1 2 3 (0,2,5,7) | 4x1: 4 5 6 7 (0,2,5) | 2x1: 8 9 (0,2)");
	SPLITS(BATCH_SPLIT_EQUAL, 8, 0, "4x1: 0 1 2 3 (0,2,5,7) | 3x1: 4 5 6 (0,2,5) | 2x1: 7 8 (0,2) | 1x1: 9 (0)");
	SPLITS(BATCH_SPLIT_EQUAL, 3, 0,
			"3x1: 0 1 2 (0,2,5) | 3x1: 4 5 6 (0,2,5) | 3x1: 7 8 3 (0,2,7) | 1x1: 9 (0)");
	SPLITS(BATCH_SPLIT_SEQ, 8, 0, "1x4: 0 4 7 9 (0) | 1x3: 1 5 8 (2) | 1x2: 2 6 (5) | 1x1: 3 (7)");
	cohort_batch_release(&b);
	check_ids(&c, &b, IDS(0, 0, 0, 2, 2, 2, 5, 5, 5, 7, 7, 7));
	SPLITS(BATCH_SPLIT_EQUAL, 12, 0, "4x3: 0 1 2 3 4 5 6 7 8 9 10 11 (0,2,5,7)");
	SPLITS(BATCH_SPLIT_EQUAL, 11, 0, "4x2: 0 1 3 4 6 7 9 10 (0,2,5,7) | 4x1: 2 5 8 11 (0,2,5,7)");
	cohort_batch_release(&b);
	batch_checked_release(&c);
}

static void falling_ids(void **state)
{
	struct batch_checked c = {0};
	struct cohort_batch b;
	(void)state;

	check_ids(&c, &b, IDS(7, 6, 5, 4, 3, 2, 1, 0, 7, 6));
	SPLITS(BATCH_SPLIT_SIMPLE, 8, 0, "8x1: 0 1 2 3 4 5 6 7 (0,1,2,3,4,5,6,7) | 2x1: 8 9 (6,7)");
	SPLITS(BATCH_SPLIT_EQUAL, 8, 0, "8x1: 0 1 2 3 4 5 6 7 (0,1,2,3,4,5,6,7) | 2x1: 8 9 (6,7)");
	cohort_batch_release(&b);
	check_ids(&c, &b, IDS(3, 1, 2, 5, 4, 0));
	SPLITS(BATCH_SPLIT_SIMPLE, 4, 0, "4x1: 0 1 2 3 (1,2,3,5) | 2x1: 4 5 (0,4)");
	cohort_batch_release(&b);
	batch_checked_release(&c);
}

/* Four together; then two and two; then one of each alone. Ids of a set may come in any order. */
static void shrinking_sets(void **state)
{
	struct batch_checked c = {0};
	struct cohort_batch b = new_batch(64, 4);
	(void)state;

	add_ids(&b, 1, 0, IDS(6, 1, 4, 3));
	add(&b, 1, 0, 0);
	add_ids(&b, 1, 1, IDS(3, 4, 1, 6));
	add_ids(&b, 1, 2, IDS(4, 3));
	add_ids(&b, 1, 2, IDS(6, 1));
	add(&b, 1, 3, 6);
	add_ids(&b, 1, 3, IDS(3, 4));
	add(&b, 1, 4, 4);
	add(&b, 1, 1, 0);
	add(&b, 1, 4, 6);
	assert_int_equal(batch_check(&c, &b, &limits, NULL, NULL), COHORT_OK);
	/* Set 0 aside: {1,3,4,6}, {0}, {3,4}, {1,6}, {6}, {4}. */
	assert_int_equal(c.work->n_sets, 7);
	SPLITS(BATCH_SPLIT_SIMPLE, 5, 0, "5x1: 0 1 2 3 4 (0,1,3,4,6) | 5x1: 5 6 7 8 9 (0,3,4,6)");
	SPLITS(BATCH_SPLIT_EQUAL, 64, 0,
			"2x2: 0 2 1 8 (0,1,3,4,6) | 2x1: 3 4 (1,3,4,6) | 2x1: 6 5 (3,4,6) | 2x1: 7 9 (4,6)");
	SPLITS(BATCH_SPLIT_EQUAL, 1, 0,
			"1x1: 0 (1,3,4,6) | 1x1: 2 (1,3,4,6) | 1x1: 3 (3,4) | 1x1: 6 (3,4) | 1x1: 7 (4) | 1x1: 4 (1,6)"
			" | 1x1: 5 (6) | 1x1: 9 (6) | 1x1: 1 (0) | 1x1: 8 (0)");
	SPLITS(BATCH_SPLIT_SEQ, 64, 0,
			"1x2: 0 2 (1,3,4,6) | 1x2: 3 6 (3,4) | 1x1: 7 (4) | 1x1: 4 (1,6) | 1x2: 5 9 (6)"
			" | 1x2: 1 8 (0)");
	cohort_batch_release(&b);
	batch_checked_release(&c);
}

static void keeps_tails(void **state)
{
	struct batch_checked c = {0};
	struct cohort_batch b;
	(void)state;

	/* One sequence of 7 rows: the last k of them come together. */
	check_ids(&c, &b, IDS(1, 1, 1, 1, 1, 1, 1));
	SPLITS(BATCH_SPLIT_EQUAL, 4, 0, "1x4: 0 1 2 3 (1) | 1x3: 4 5 6 (1)");
	SPLITS(BATCH_SPLIT_EQUAL, 4, 4, "1x3: 0 1 2 (1) | 1x4: 3 4 5 6 (1)");
	SPLITS(BATCH_SPLIT_EQUAL, 4, 3, "1x4: 0 1 2 3 (1) | 1x3: 4 5 6 (1)");
	SPLITS(BATCH_SPLIT_EQUAL, 3, 3, "1x3: 0 1 2 (1) | 1x1: 3 (1) | 1x3: 4 5 6 (1)");
	SPLITS(BATCH_SPLIT_EQUAL, 4, 9, "1x3: 0 1 2 (1) | 1x4: 3 4 5 6 (1)"); /* no more than 4 can be kept */
	cohort_batch_release(&b);
	/* Two of 5 and 4 rows: taking 4 of each would tear the first's tail of 2. */
	check_ids(&c, &b, IDS(0, 0, 0, 0, 0, 1, 1, 1, 1));
	SPLITS(BATCH_SPLIT_EQUAL, 8, 1, "2x4: 0 1 2 3 5 6 7 8 (0,1) | 1x1: 4 (0)");
	SPLITS(BATCH_SPLIT_EQUAL, 8, 2, "2x2: 0 1 5 6 (0,1) | 1x3: 2 3 4 (0) | 1x2: 7 8 (1)");
	/* A tail as long as a whole sequence: one after the other. */
	SPLITS(BATCH_SPLIT_EQUAL, 8, 4, "1x5: 0 1 2 3 4 (0) | 1x4: 5 6 7 8 (1)");
	cohort_batch_release(&b);
	/* Sets shorter than the tail are taken whole, with others as long. */
	check_ids(&c, &b, IDS(0, 0, 1, 1, 2, 2, 2, 2, 2, 2));
	SPLITS(BATCH_SPLIT_EQUAL, 9, 4, "3x2: 0 1 2 3 4 5 (0,1,2) | 1x4: 6 7 8 9 (2)");
	SPLITS(BATCH_SPLIT_EQUAL, 5, 5, "2x2: 0 1 2 3 (0,1) | 1x1: 4 (2) | 1x5: 5 6 7 8 9 (2)");
	cohort_batch_release(&b);
	/* The longer one before the shorter, and one between in length after both. */
	check_ids(&c, &b, IDS(0, 0, 0, 0, 0, 0, 0, 1, 1, 2, 2, 2, 2));
	SPLITS(BATCH_SPLIT_EQUAL, 12, 3, "2x2: 0 1 7 8 (0,1) | 2x1: 2 9 (0,2) | 1x4: 3 4 5 6 (0) | 1x3: 10 11 12 (2)");
	cohort_batch_release(&b);
	batch_checked_release(&c);
}

/* Vectors with two positions go through all splits. */
static void vectors_with_two_positions_are_split(void **state)
{
	struct batch_limits two = limits;
	struct batch_checked c = {0};
	struct cohort_batch b;
	struct ubatch u;
	struct cohort_err err;
	(void)state;

	two.n_pos_row = 2;
	assert_int_equal(cohort_batch_init_pos(&b, 40, 2, 1, 2, NULL), COHORT_OK);
	for (int i = 0; i < 40; i++)
		assert_int_equal(cohort_batch_add_embd(&b, (float[2]){(float)i, -1}, (cohort_pos[]){i / 2, 40 - i},
						 IDS(i % 2), i > 37, NULL),
				COHORT_OK);
	assert_int_equal(batch_check(&c, &b, &two, NULL, NULL), COHORT_OK);
	/* Gathering allocates: positions, then vectors. The split is as before when it cannot. */
	for (int64_t n = 0; n < 2; n++) {
		mem_fail_after(0);
		assert_int_equal(batch_split(&c, BATCH_SPLIT_EQUAL, 64, 0, &u, &err), COHORT_E_MEMORY);
		assert_int_equal(c.n_used, 0);
		mem_fail_after(n ? -1 : 1);
		assert_int_equal(batch_split(&c, BATCH_SPLIT_EQUAL, 64, 0, &u, &err), n ? COHORT_OK : COHORT_E_MEMORY);
		mem_fail_after(-1);
	}
	assert_int_equal(u.n_seqs, 2);
	assert_int_equal(u.n_seq_tokens, 20);
	assert_null(u.tokens);
	check_ubatch(&c, &u);
	batch_split_reset(&c);
	for (int kind = 0; kind < 3; kind++)
		for (int32_t n = 1; n <= 41; n += 8)
			split_text(&c, (enum batch_split)kind, n, 2);
	cohort_batch_release(&b);
	batch_checked_release(&c);
}

/* A ubatch's index says -1 for every sequence that is not in it. */
static void index_is_cleared(void **state)
{
	struct batch_checked c = {0};
	struct cohort_batch b;
	struct ubatch u;
	(void)state;

	check_ids(&c, &b, IDS(7, 1, 7, 3, 3, 0, 5));
	for (int kind = 0; kind < 3; kind++)
		for (int round = 0; round < 2; round++) {
			batch_split_reset(&c);
			for (;;) {
				assert_int_equal(batch_split(&c, (enum batch_split)kind, 2, 0, &u, NULL), COHORT_OK);
				if (u.n_tokens == 0)
					break;
				int32_t n = 0;
				for (cohort_seq s = 0; s < N_SEQ; s++)
					n += u.seq_idx[s] >= 0;
				assert_int_equal(n, u.n_seqs_unq);
				if (round == 0)
					break; /* left half way */
			}
		}
	cohort_batch_release(&b);
	batch_checked_release(&c);
}

/* Kinds are not mixed; ends and resets. */
static void order_of_calls(void **state)
{
	struct batch_checked c = {0};
	struct cohort_batch b;
	struct ubatch u;
	struct cohort_err err;
	(void)state;

	/* Nothing checked: nothing to split. */
	batch_split_reset(&c);
	assert_int_equal(batch_split(&c, BATCH_SPLIT_EQUAL, 4, 0, &u, NULL), COHORT_OK);
	assert_int_equal(u.n_tokens, 0);
	check_ids(&c, &b, IDS(0, 1, 0));
	assert_int_equal(batch_split(&c, BATCH_SPLIT_SIMPLE, 2, 0, &u, NULL), COHORT_OK);
	assert_int_equal(batch_split(&c, BATCH_SPLIT_SEQ, 2, 0, &u, &err), COHORT_E_BUG);
	assert_int_equal(c.n_used, 2);
	batch_split_reset(&c);
	SPLITS(BATCH_SPLIT_SEQ, 2, 0, "1x2: 0 2 (0) | 1x1: 1 (1)");
	/* Empty again and again. */
	assert_int_equal(batch_split(&c, BATCH_SPLIT_SIMPLE, 9, 0, &u, NULL), COHORT_OK);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(batch_split(&c, BATCH_SPLIT_SIMPLE, 9, 0, &u, NULL), COHORT_OK);
		assert_int_equal(u.n_tokens, 0);
		assert_int_equal(c.ubatch.n_tokens, 0);
	}
	batch_clear(&c);
	assert_int_equal(batch_split(&c, BATCH_SPLIT_SIMPLE, 9, 0, &u, NULL), COHORT_OK);
	assert_int_equal(u.n_tokens, 0);
	cohort_batch_release(&b);
	batch_checked_release(&c);
}

/* ---- Made-up ubatches ---- */

static void batch_reserve_has_room(void **state)
{
	struct batch_checked c = {0};
	struct cohort_batch b;
	struct cohort_err err;
	struct ubatch u;
	(void)state;

	check_ids(&c, &b, IDS(7, 1, 7)); /* forgotten */
	assert_int_equal(batch_split(&c, BATCH_SPLIT_SIMPLE, 9, 0, &u, NULL), COHORT_OK);
	assert_int_equal(batch_reserve(&c, 3, 20, &u, &err), COHORT_OK);
	assert_int_equal(c.n_tokens, 0);
	assert_int_equal(u.n_tokens, 60);
	assert_int_equal(u.n_seq_tokens, 3);
	assert_int_equal(u.n_seqs, 20);
	assert_int_equal(u.n_seqs_unq, 20);
	assert_int_equal(u.n_pos_row, 1);
	assert_int_equal(u.n_embd, 0);
	assert_true(u.equal_seqs);
	assert_null(u.embd);
	for (int32_t i = 0; i < 60; i++) {
		assert_int_equal(u.tokens[i], 0);
		assert_int_equal(u.pos[i], i % 3);
		assert_int_equal(u.n_seq[i], 1);
		assert_int_equal(u.seq[i][0], i / 3);
		assert_int_equal(u.output[i], i % 3 == 2);
		assert_int_equal(u.rows[i], i);
	}
	for (int32_t s = 0; s < 20; s++) {
		assert_int_equal(u.seq_unq[s], s);
		assert_int_equal(u.seq_idx[s], s);
	}
	assert_memory_equal(&u, &c.ubatch, sizeof u);
	/* Smaller: the ids of the larger one are gone. */
	mem_fail_all(true);
	assert_int_equal(batch_reserve(&c, 1, 2, &u, &err), COHORT_OK);
	mem_fail_all(false);
	assert_int_equal(u.seq_idx[1], 1);
	assert_int_equal(u.seq_idx[2], -1);
	/* No rows to split; and the next batch is as ever. */
	assert_int_equal(batch_split(&c, BATCH_SPLIT_EQUAL, 9, 0, &u, NULL), COHORT_OK);
	assert_int_equal(u.n_tokens, 0);
	assert_int_equal(batch_check(&c, &b, &limits, NULL, NULL), COHORT_OK);
	SPLITS(BATCH_SPLIT_EQUAL, 9, 0, "2x1: 0 1 (1,7) | 1x1: 2 (7)");
	cohort_batch_release(&b);

	assert_int_equal(batch_reserve(&c, 0, 2, &u, &err), COHORT_E_ARG);
	assert_int_equal(batch_reserve(&c, 2, 0, &u, &err), COHORT_E_ARG);
	assert_int_equal(batch_reserve(&c, 65536, 65536, &u, &err), COHORT_E_LIMIT);
	batch_checked_release(&c);
	int64_t n = 0;
	for (;; n++) {
		mem_fail_after(n);
		enum cohort_status st = batch_reserve(&c, 4, 4, &u, &err);
		mem_fail_after(-1);
		if (!st)
			break;
		assert_int_equal(st, COHORT_E_MEMORY);
		batch_checked_release(&c);
	}
	assert_int_equal(n, 4);
	batch_checked_release(&c);
}

/* ---- Dumps ---- */

static void batch_dump_text(void **state)
{
	struct batch_checked c = {0};
	struct cohort_batch b = new_batch(8, 2);
	struct cohort_batch_raw raw;
	struct ubatch u;
	char text[1024];
	(void)state;

	assert_int_equal(cohort_batch_dump(NULL, text, sizeof text), 12);
	assert_string_equal(text, "batch: none\n");
	add_ids(&b, 99, 0, IDS(3, 4));
	assert_int_equal(cohort_batch_add(&b, 7, 1, IDS(4), true, NULL), COHORT_OK);
	static const char want[] = "batch: 2 of 8 rows, tokens, 1 position and up to 2 ids each\n"
				   "     0  token      99  pos       0  output   no  seq 3,4\n"
				   "     1  token       7  pos       1  output  yes  seq 4\n";
	assert_int_equal(cohort_batch_dump(&b, text, sizeof text), sizeof want - 1);
	assert_string_equal(text, want);
	/* Cut at every length, as snprintf does. */
	for (size_t n = 0; n <= sizeof want; n++) {
		memset(text, '#', sizeof text);
		assert_int_equal(cohort_batch_dump(&b, n ? text : NULL, n), sizeof want - 1);
		if (n) {
			size_t kept = n - 1 < sizeof want - 1 ? n - 1 : sizeof want - 1;
			assert_memory_equal(text, want, kept);
			assert_int_equal(text[kept], '\0');
		}
		assert_int_equal(text[n], '#');
	}
	assert_int_equal(batch_check(&c, &b, &limits, NULL, NULL), COHORT_OK);
	assert_int_equal(batch_split(&c, BATCH_SPLIT_SIMPLE, 1, 0, &u, NULL), COHORT_OK);
	assert_int_equal(batch_split(&c, BATCH_SPLIT_SIMPLE, 1, 0, &u, NULL), COHORT_OK);
	batch_dump_ubatch(&u, text, sizeof text);
	assert_string_equal(text, "ubatch: 1 rows, tokens, 1 sets of 1\n"
				  "  sequences: 4\n"
				  "     1  token       7  pos       1  output  yes  seq 4\n");
	batch_dump(&c, text, sizeof text);
	assert_string_equal(text, "checked batch: 2 rows, tokens, 1 outputs, 2 rows used\n"
				  "     0  token      99  pos       0  output   no  seq 3,4\n"
				  "     1  token       7  pos       1  output  yes  seq 4\n");
	/* Left out, and counts of ids that a check would refuse. */
	cohort_batch_leave_out(&b, COHORT_BATCH_POS | COHORT_BATCH_SEQ | COHORT_BATCH_OUTPUT);
	cohort_batch_dump(&b, text, sizeof text);
	assert_string_equal(text, "batch: 2 of 8 rows, tokens, 1 position and up to 2 ids each\n"
				  "     0  token      99  pos    auto  output auto  seq auto\n"
				  "     1  token       7  pos    auto  output auto  seq auto\n");
	cohort_batch_leave_out(&b, 0);
	cohort_batch_raw_get(&b, &raw);
	raw.n_seq[0] = 0;
	raw.n_seq[1] = 1000;
	cohort_batch_dump(&b, text, sizeof text);
	assert_string_equal(text, "batch: 2 of 8 rows, tokens, 1 position and up to 2 ids each\n"
				  "     0  token      99  pos       0  output   no  seq none\n"
				  "     1  token       7  pos       1  output  yes  seq 4,0\n");
	cohort_batch_release(&b);
	/* Vectors, one id, several positions. */
	struct batch_limits three = limits;
	three.n_pos_row = 3;
	assert_int_equal(cohort_batch_init_pos(&b, 2, 2, 1, 3, NULL), COHORT_OK);
	assert_int_equal(cohort_batch_add_embd(&b, (float[2]){0}, (cohort_pos[]){0, 9, 8}, IDS(5), true, NULL),
			COHORT_OK);
	cohort_batch_dump(&b, text, sizeof text);
	assert_string_equal(text, "batch: 1 of 2 rows, vectors of 2, 3 positions and up to 1 id each\n"
				  "     0  vector         pos       0,9,8  output  yes  seq 5\n");
	assert_int_equal(batch_check(&c, &b, &three, NULL, NULL), COHORT_OK);
	assert_int_equal(batch_split(&c, BATCH_SPLIT_SEQ, 9, 0, &u, NULL), COHORT_OK);
	batch_dump_ubatch(&u, text, sizeof text);
	assert_string_equal(text, "ubatch: 1 rows, vectors of 2, 1 equal sets of 1\n"
				  "  sequences: 5\n"
				  "     0  vector         pos       0,9,8  output  yes  seq 5\n");
	cohort_batch_release(&b);
	batch_checked_release(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_sequence),
		cmocka_unit_test(sparse_ids),
		cmocka_unit_test(falling_ids),
		cmocka_unit_test(shrinking_sets),
		cmocka_unit_test(keeps_tails),
		cmocka_unit_test(vectors_with_two_positions_are_split),
		cmocka_unit_test(index_is_cleared),
		cmocka_unit_test(order_of_calls),
		cmocka_unit_test(batch_reserve_has_room),
		cmocka_unit_test(batch_dump_text),
	};

	return cmocka_run_group_tests_name("batch_split", tests, NULL, NULL);
}
