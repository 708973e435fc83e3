/* Checking a batch: what is filled in, and every rule's refusal with its data and its words.
 *
 * Faults that were planted in check.c, and what went red: no look at the limit in runs of one sequence
 * (refuse_positions), epochs that do not move (batch_check_fills_what_is_left_out,
 * failed_batch_check_leaves_no_answers and more), counts of ids not held against the room (refuse_ids), output flags
 * preferred to output_all (batch_outputs_are_counted), a refused check that keeps the rows of the one before
 * (failed_batch_check_leaves_no_answers). */
#include "batch_case.h"

static const struct batch_limits limits = {.n_vocab = 100, .n_seq_max = N_SEQ, .n_rows_max = 64, .n_embd = 3,
	.n_pos_row = 1, .n_pos_max = 50};

/* Sequences 0 and 1 hold 0..4 together, 2 holds 0..4 of its own, the others are empty. */
static struct memory memory = {{4, 4, 4, -1, -1, -1, -1, -1}, {1, 1, 2, 0, 0, 0, 0, 0}, {0}};
static const struct batch_memory mem = {&memory, memory_pos_max, memory_same};

/* ---- What is filled in ---- */

static void batch_check_fills_what_is_left_out(void **state)
{
	cohort_token tokens[40];
	struct batch_checked c = {0};
	struct cohort_batch b;
	(void)state;

	for (int i = 0; i < 40; i++)
		tokens[i] = i;
	for (int n = 1; n <= 40; n += 3)
		for (int with = 0; with < 2; with++) {
			assert_int_equal(cohort_batch_from_tokens(&b, tokens, n, NULL), COHORT_OK);
			assert_int_equal(batch_check(&c, &b, &limits, with ? &mem : NULL, NULL), COHORT_OK);
			assert_int_equal(c.n_tokens, n);
			assert_int_equal(c.n_outputs, 1);
			assert_int_equal(c.n_used, 0);
			assert_int_equal(c.n_pos_row, 1);
			assert_memory_equal(c.tokens, tokens, (size_t)n * sizeof *tokens);
			for (int i = 0; i < n; i++) {
				assert_int_equal(c.pos[i], i + (with ? 5 : 0));
				assert_int_equal(c.n_seq[i], 1);
				assert_int_equal(c.seq[i][0], 0);
				assert_int_equal(c.output[i], i == n - 1);
			}
			assert_int_equal(batch_seq_pos_min(&c, 0), with ? 5 : 0);
			assert_int_equal(batch_seq_pos_max(&c, 0), n - 1 + (with ? 5 : 0));
			assert_int_equal(batch_n_single(&c), n == 1);
			cohort_batch_release(&b);
		}
	batch_checked_release(&c);
	batch_checked_release(NULL);
}

/* Each of the three left out of rows that have all of them. */
static void fills_each(void **state)
{
	struct batch_checked c = {0};
	struct cohort_batch b = new_batch(8, 2);
	(void)state;

	/* Two together, which part; one alone. */
	add_ids(&b, 1, 5, IDS(0, 1));
	add(&b, 2, 6, 1);
	add(&b, 3, 5, 2);
	add(&b, 4, 6, 0);
	add(&b, 5, 7, 1);
	cohort_batch_leave_out(&b, COHORT_BATCH_POS);
	assert_int_equal(batch_check(&c, &b, &limits, &mem, NULL), COHORT_OK);
	assert_memory_equal(c.pos, ((cohort_pos[]){5, 6, 5, 6, 7}), 20);
	assert_int_equal(batch_check(&c, &b, &limits, NULL, NULL), COHORT_OK);
	assert_memory_equal(c.pos, ((cohort_pos[]){0, 1, 0, 1, 2}), 20);
	cohort_batch_leave_out(&b, COHORT_BATCH_POS | COHORT_BATCH_SEQ);
	assert_int_equal(batch_check(&c, &b, &limits, &mem, NULL), COHORT_OK);
	for (int i = 0; i < 5; i++) {
		assert_int_equal(c.n_seq[i], 1);
		assert_int_equal(c.seq[i][0], 0);
		assert_int_equal(c.pos[i], 5 + i);
		assert_int_equal(c.output[i], 0);
	}
	assert_int_equal(c.n_outputs, 0);
	cohort_batch_leave_out(&b, COHORT_BATCH_OUTPUT);
	assert_int_equal(batch_check(&c, &b, &limits, &mem, NULL), COHORT_OK);
	assert_memory_equal(c.output, ((uint8_t[]){0, 0, 0, 0, 1}), 5);
	assert_int_equal(c.n_outputs, 1);
	cohort_batch_release(&b);
	batch_checked_release(&c);
}

/* Arrays that there are are not copied. */
static void in_place(void **state)
{
	struct batch_checked c = {0};
	struct cohort_batch b = new_batch(8, 2);
	struct cohort_batch_raw raw;
	(void)state;

	add_ids(&b, 1, 5, IDS(0, 1));
	add_ids(&b, 1, 0, IDS(3));
	cohort_batch_raw_get(&b, &raw);
	assert_int_equal(batch_check(&c, &b, &limits, &mem, NULL), COHORT_OK);
	assert_ptr_equal(c.tokens, raw.tokens);
	assert_ptr_equal(c.pos, raw.pos);
	assert_ptr_equal(c.n_seq, raw.n_seq);
	assert_ptr_equal(c.output, raw.output);
	assert_ptr_equal(c.seq[1], raw.seq + 2);
	cohort_batch_release(&b);
	batch_checked_release(&c);
}

static void batch_outputs_are_counted(void **state)
{
	struct batch_limits all = limits;
	struct batch_checked c = {0};
	struct cohort_batch b = new_batch(8, 1);
	(void)state;

	all.output_all = true;
	for (int i = 0; i < 4; i++)
		assert_int_equal(cohort_batch_add(&b, 1, i, IDS(3), i % 2, NULL), COHORT_OK);
	for (int left_out = 0; left_out < 2; left_out++) {
		cohort_batch_leave_out(&b, left_out ? COHORT_BATCH_OUTPUT : 0);
		assert_int_equal(batch_check(&c, &b, &all, NULL, NULL), COHORT_OK);
		assert_memory_equal(c.output, ((uint8_t[]){1, 1, 1, 1}), 4);
		assert_int_equal(c.n_outputs, 4);
	}
	cohort_batch_leave_out(&b, 0);
	assert_int_equal(batch_check(&c, &b, &limits, NULL, NULL), COHORT_OK);
	assert_int_equal(c.n_outputs, 2);
	struct cohort_batch_raw raw;
	cohort_batch_raw_get(&b, &raw);
	raw.output[1] = 200; /* written by hand: counts once */
	assert_int_equal(batch_check(&c, &b, &limits, NULL, NULL), COHORT_OK);
	assert_int_equal(c.n_outputs, 2);
	cohort_batch_release(&b);
	batch_checked_release(&c);
}

/* One position given where the model wants three; three given; none given. */
static void several_positions(void **state)
{
	struct batch_limits three = limits;
	struct batch_checked c = {0};
	struct cohort_batch b = new_batch(8, 1);
	(void)state;

	three.n_pos_row = 3;
	add(&b, 1, 5, 2);
	add(&b, 1, 6, 2);
	for (int left_out = 0; left_out < 2; left_out++) {
		cohort_batch_leave_out(&b, left_out ? COHORT_BATCH_POS : 0);
		assert_int_equal(batch_check(&c, &b, &three, &mem, NULL), COHORT_OK);
		assert_int_equal(c.n_pos_row, 3);
		assert_memory_equal(c.pos, ((cohort_pos[]){5, 5, 5, 6, 6, 6}), 24);
	}
	cohort_batch_release(&b);
	assert_int_equal(cohort_batch_init_pos(&b, 4, 3, 1, 3, NULL), COHORT_OK);
	const cohort_pos pos[2][3] = {{5, 0, 49}, {6, 7, 0}};
	for (int i = 0; i < 2; i++)
		assert_int_equal(cohort_batch_add_embd(&b, (float[3]){1, 2, 3}, pos[i], IDS(2), true, NULL), COHORT_OK);
	assert_int_equal(batch_check(&c, &b, &three, &mem, NULL), COHORT_OK);
	assert_memory_equal(c.pos, pos, sizeof pos);
	assert_int_equal(c.n_embd, 3);
	assert_null(c.tokens);
	assert_int_equal(c.embd[4], 2);
	cohort_batch_release(&b);
	batch_checked_release(&c);
}

static void batch_queries_of_sequences(void **state)
{
	struct batch_checked c = {0};
	struct cohort_batch b = new_batch(8, 2);
	(void)state;

	/* Nothing was checked yet. */
	assert_int_equal(batch_seq_pos_min(&c, 0), -1);
	assert_int_equal(batch_seq_pos_max(&c, 0), -1);
	assert_int_equal(batch_n_single(&c), 0);
	add_ids(&b, 1, 5, IDS(0, 1));
	add(&b, 7, 6, 1);
	add(&b, 9, 5, 2);
	add(&b, 8, 6, 0);
	add_ids(&b, 1, 0, IDS(6, 3));
	assert_int_equal(batch_check(&c, &b, &limits, &mem, NULL), COHORT_OK);
	assert_int_equal(batch_n_single(&c), 2);
	assert_int_equal(batch_seq_pos_min(&c, 1), 5);
	assert_int_equal(batch_seq_pos_max(&c, 1), 6);
	assert_int_equal(batch_seq_pos_min(&c, 3), 0);
	assert_int_equal(batch_seq_pos_max(&c, 3), 0);
	for (int i = 0; i < 4; i++) {
		cohort_seq none = ((cohort_seq[]){-1, 4, N_SEQ, INT32_MAX})[i];
		assert_int_equal(batch_seq_pos_min(&c, none), -1);
		assert_int_equal(batch_seq_pos_max(&c, none), -1);
	}
	batch_clear(&c);
	assert_int_equal(c.n_tokens, 0);
	assert_int_equal(c.n_outputs, 0);
	assert_int_equal(batch_seq_pos_max(&c, 1), -1);
	cohort_batch_release(&b);
	batch_checked_release(&c);
}

/* ---- Refusals ---- */

/* Checks b, which must break the rule, and releases it. */
static void refuse_with(const struct batch_limits *lim, struct cohort_batch *b, enum cohort_status status,
		const char *rule, int64_t row, int64_t seq, int64_t expected, int64_t got, const char *words)
{
	struct batch_checked c = {0};
	struct cohort_err err = {0};
	enum cohort_status st = batch_check(&c, b, lim, &mem, &err);

	if (st != status || !err.rule || strcmp(err.rule, rule) || err.row != row || err.seq != seq ||
			err.expected != expected || err.got != got)
		fail_msg("wanted %s: status %d, rule %s, row %d, sequence %d, expected %d, got %d: %s", rule, (int)st,
				err.rule ? err.rule : "none", (int)err.row, (int)err.seq, (int)err.expected,
				(int)err.got, err.text);
	assert_int_equal(err.status, status);
	assert_string_equal(err.text, words);
	assert_int_equal(c.n_tokens, 0);
	assert_int_equal(batch_check(&c, b, lim, &mem, NULL), status);
	batch_checked_release(&c);
	cohort_batch_release(b);
}

static void refuse(struct cohort_batch *b, const char *rule, int64_t row, int64_t seq, int64_t expected, int64_t got,
		const char *words)
{
	refuse_with(&limits, b, COHORT_E_BATCH, rule, row, seq, expected, got, words);
}

static void refuse_sizes(void **state)
{
	struct cohort_batch b = new_batch(65, 1);
	(void)state;

	refuse(&b, "n-tokens", -1, -1, 1, 0, "the batch has no rows");
	assert_int_equal(cohort_batch_from_tokens(&b, NULL, 0, NULL), COHORT_OK);
	refuse(&b, "n-tokens", -1, -1, 1, 0, "the batch has no rows");
	b = (struct cohort_batch){0}; /* released */
	refuse(&b, "n-tokens", -1, -1, 1, 0, "the batch has no rows");
	b = new_batch(65, 1);
	for (int i = 0; i < 65; i++)
		add(&b, 1, i, 3);
	refuse_with(&limits, &b, COHORT_E_LIMIT, "n-batch", -1, -1, 64, 65,
			"the batch has 65 rows; the context takes at most 64 (n_batch)");
}

static void refuse_kinds(void **state)
{
	struct batch_limits other = limits;
	struct cohort_batch b;
	cohort_token tokens[2] = {1, 1};
	float embd[6] = {0};
	cohort_pos pos[6] = {0, 0, 0, 1, 1, 1};
	(void)state;

	/* The container lets neither through. */
	b = (struct cohort_batch){.n_tokens = 2};
	refuse(&b, "row-kind", -1, -1, 1, 0, "the batch has neither tokens nor vectors");
	b = (struct cohort_batch){.n_tokens = 2, .tokens = tokens, .embd = embd};
	refuse(&b, "row-kind", -1, -1, 1, 2, "the batch has both tokens and vectors");
	const struct cohort_batch vectors = {.n_tokens = 2, .n_embd = 3, .embd = embd, .n_pos_row = 3, .pos = pos};
	b = vectors;
	b.n_embd = 2;
	refuse(&b, "n-embd", -1, -1, 3, 2,
			"the vectors have 2 floats; vectors of 3 are taken here (0: tokens only)");
	b = vectors;
	other.n_embd = 0;
	refuse_with(&other, &b, COHORT_E_BATCH, "n-embd", -1, -1, 0, 3,
			"the vectors have 3 floats; vectors of 0 are taken here (0: tokens only)");
	b = vectors;
	refuse(&b, "pos-per-embd", -1, -1, 1, 3, "the rows have 3 positions each; the model takes 1 or 1");
	other = limits;
	other.n_pos_row = 4;
	b = vectors;
	refuse_with(&other, &b, COHORT_E_BATCH, "pos-per-embd", -1, -1, 4, 3,
			"the rows have 3 positions each; the model takes 1 or 4");
}

static void refuse_tokens(void **state)
{
	struct cohort_batch b = new_batch(4, 1);
	(void)state;

	add(&b, 99, 0, 3);
	add(&b, 100, 1, 3);
	refuse(&b, "token", 1, -1, 100, 100, "row 1 has token 100; the vocabulary ends at 99");
	b = new_batch(4, 1);
	add(&b, -1, 0, 3);
	refuse(&b, "token", 0, -1, 100, -1, "row 0 has token -1; the vocabulary ends at 99");
	assert_int_equal(cohort_batch_from_tokens(&b, (cohort_token[]){1, INT32_MAX}, 2, NULL), COHORT_OK);
	refuse(&b, "token", 1, -1, 100, INT32_MAX, "row 1 has token 2147483647; the vocabulary ends at 99");
	/* The first row that is wrong is told, whatever is wrong with it; in a row, the token comes first. */
	b = new_batch(4, 1);
	add(&b, 1, 1, 3);
	add(&b, 100, 0, 3);
	refuse(&b, "pos-start", 0, 3, 0, 1, "row 0 has position 1; sequence 3 goes on at 0");
	b = new_batch(4, 1);
	add(&b, 100, -1, -1);
	refuse(&b, "token", 0, -1, 100, 100, "row 0 has token 100; the vocabulary ends at 99");
}

static void refuse_floats(void **state)
{
	static const uint32_t bits[] = {0x7f800000, 0xff800000, 0x7fc00000, 0xffc00001};
	struct cohort_batch b;
	struct cohort_batch_raw raw;
	(void)state;

	for (size_t k = 0; k < sizeof bits / sizeof *bits; k++) {
		assert_int_equal(cohort_batch_init(&b, 3, 3, 1, NULL), COHORT_OK);
		for (cohort_pos i = 0; i < 3; i++)
			assert_int_equal(cohort_batch_add_embd(&b, (float[3]){1, -3e38f, 0}, &i, IDS(3), true, NULL),
					COHORT_OK);
		cohort_batch_raw_get(&b, &raw);
		memcpy(&raw.embd[3 + 2], &bits[k], sizeof bits[k]);
		refuse(&b, "embd-finite", 1, -1, 3, 2, "row 1: float 2 of its vector is not finite");
	}
}

static void refuse_ids(void **state)
{
	struct cohort_batch b = new_batch(4, 3);
	struct cohort_batch_raw raw;
	(void)state;

	add(&b, 1, 0, 3);
	cohort_batch_raw_get(&b, &raw);
	raw.n_seq[0] = 0; /* the container does not let this through */
	refuse(&b, "seq-count", 0, -1, 1, 0, "row 0 has no sequence id");
	b = new_batch(4, 3);
	add(&b, 1, 0, 3);
	add(&b, 1, 1, 3);
	cohort_batch_raw_get(&b, &raw);
	raw.n_seq[1] = 4;
	refuse(&b, "seq-count", 1, -1, 3, 4, "row 1 has 4 sequence ids; the batch has room for 3");
	b = new_batch(4, 3);
	add(&b, 1, 0, 3);
	add(&b, 1, 0, N_SEQ);
	refuse(&b, "seq-id", 1, N_SEQ, N_SEQ, N_SEQ, "row 1 names sequence 8; ids are 0 to 7");
	b = new_batch(4, 3);
	add_ids(&b, 1, 0, IDS(3, -1));
	refuse(&b, "seq-id", 0, -1, N_SEQ, -1, "row 0 names sequence -1; ids are 0 to 7");
	b = new_batch(4, 3);
	add_ids(&b, 1, 0, IDS(3, 4));
	add_ids(&b, 1, 1, IDS(3, 4, 3));
	refuse(&b, "seq-repeat", 1, 3, 1, 2, "row 1 names sequence 3 twice");
}

static void refuse_sets(void **state)
{
	struct cohort_batch b = new_batch(8, 2);
	(void)state;

	/* Coupled after one of them had a row of its own. */
	add(&b, 1, 0, 3);
	add_ids(&b, 1, 1, IDS(3, 4));
	refuse(&b, "seq-sets", 1, 4, 0, -1, "row 1 couples sequences 3 and 4, which had different rows before");
	/* Coupled again after they had parted. */
	b = new_batch(8, 2);
	add_ids(&b, 1, 5, IDS(0, 1));
	add(&b, 1, 6, 0);
	add(&b, 1, 6, 1);
	add_ids(&b, 1, 7, IDS(0, 1));
	refuse(&b, "seq-sets", 3, 1, 1, 2, "row 3 couples sequences 0 and 1, which had different rows before");
	/* Coupled though they hold different cells, of the same number or not. */
	b = new_batch(8, 2);
	add_ids(&b, 1, 5, IDS(1, 2));
	refuse(&b, "seq-history", 0, 2, 5, 5, "row 0 couples sequences 1 and 2, which do not hold the same cells");
	b = new_batch(8, 2);
	add_ids(&b, 1, 5, IDS(0, 3));
	refuse(&b, "seq-history", 0, 3, 5, 0, "row 0 couples sequences 0 and 3, which do not hold the same cells");
}

static void refuse_positions(void **state)
{
	struct cohort_batch b = new_batch(64, 2);
	struct batch_limits two = limits;
	(void)state;

	add(&b, 1, -1, 3);
	refuse(&b, "pos-negative", 0, 3, 0, -1, "row 0 has position -1");
	for (int left_out = 0; left_out < 2; left_out++) {
		b = new_batch(64, 2);
		for (int i = 0; i < 51; i++)
			add(&b, 1, i, 3);
		cohort_batch_leave_out(&b, left_out ? COHORT_BATCH_POS : 0);
		refuse(&b, "pos-limit", 50, 3, 50, 50, "row 50 has position 50; a sequence ends before 50");
	}
	b = new_batch(64, 2);
	add(&b, 1, INT32_MAX, 3);
	refuse(&b, "pos-limit", 0, 3, 50, INT32_MAX, "row 0 has position 2147483647; a sequence ends before 50");
	b = new_batch(64, 2);
	add(&b, 1, 4, 2);
	refuse(&b, "pos-start", 0, 2, 5, 4, "row 0 has position 4; sequence 2 goes on at 5");
	b = new_batch(64, 2);
	add(&b, 1, 1, 3);
	refuse(&b, "pos-start", 0, 3, 0, 1, "row 0 has position 1; sequence 3 goes on at 0");
	b = new_batch(64, 2);
	add(&b, 1, 5, 2);
	add(&b, 1, 0, 3);
	add(&b, 1, 7, 2);
	refuse(&b, "pos-step", 2, 2, 6, 7, "row 2 has position 7; sequence 2 goes on at 6");
	for (int pos = 4; pos <= 7; pos++) { /* back, again, and over one */
		if (pos == 6)
			continue;
		b = new_batch(64, 2);
		add(&b, 1, 5, 2);
		add(&b, 1, pos, 2);
		char words[80];
		snprintf(words, sizeof words, "row 1 has position %d; sequence 2 goes on at 6", pos);
		refuse(&b, "pos-step", 1, 2, 6, pos, words);
	}
	/* Further coordinates. */
	two.n_pos_row = 2;
	for (int k = 0; k < 2; k++) {
		assert_int_equal(cohort_batch_init_pos(&b, 2, 3, 1, 2, NULL), COHORT_OK);
		assert_int_equal(cohort_batch_add_embd(&b, (float[3]){0}, (cohort_pos[]){0, k ? -7 : 50}, IDS(3), true,
						 NULL),
				COHORT_OK);
		if (k)
			refuse_with(&two, &b, COHORT_E_BATCH, "pos-negative", 0, 3, 0, -7, "row 0 has coordinate -7");
		else
			refuse_with(&two, &b, COHORT_E_BATCH, "pos-limit", 0, 3, 50, 50,
					"row 0 has coordinate 50; a sequence ends before 50");
	}
}

/* ---- Reuse ---- */

static void failed_batch_check_leaves_no_answers(void **state)
{
	struct batch_checked c = {0};
	struct cohort_batch good = new_batch(8, 2), bad = new_batch(8, 2);
	struct cohort_err err;
	(void)state;

	add_ids(&good, 1, 5, IDS(0, 1));
	add(&good, 1, 6, 0);
	add(&good, 1, 0, 3);
	add(&bad, 1, 5, 0);
	add(&bad, 1, 0, 3);
	add(&bad, 1, 99, 3);
	assert_int_equal(batch_check(&c, &good, &limits, &mem, NULL), COHORT_OK);
	/* The notes of one check, done or refused, mean nothing to the next; and it allocates nothing. */
	mem_fail_all(true);
	for (int i = 0; i < 1000; i++) {
		if (c.work->epoch == 100)
			c.work->epoch = UINT32_MAX - 5; /* as if it had been used for long */
		if (i % 3 == 0) {
			assert_int_equal(batch_check(&c, &bad, &limits, &mem, &err), COHORT_E_BATCH);
			assert_int_equal(batch_seq_pos_max(&c, 0), -1);
		}
		assert_int_equal(batch_check(&c, &good, &limits, &mem, NULL), COHORT_OK);
		assert_int_equal(c.n_tokens, 3);
		assert_int_equal(c.pos[1], 6);
		assert_int_equal(batch_n_single(&c), 1);
	}
	mem_fail_all(false);
	assert_true(c.work->epoch > 0 && c.work->epoch < 2000);
	cohort_batch_release(&good);
	cohort_batch_release(&bad);
	batch_checked_release(&c);
}

/* The memory is asked about a sequence when it first appears, and not again. */
static void asks_once(void **state)
{
	struct memory m = memory;
	const struct batch_memory counted = {&m, memory_pos_max, memory_same};
	struct batch_checked c = {0};
	struct cohort_batch b = new_batch(64, 1);
	(void)state;

	memset(m.n_asked, 0, sizeof m.n_asked);
	for (int i = 0; i < 60; i++)
		add(&b, 1, (i < 20 ? 5 : 0) + i / 2 - (i < 20 ? 0 : 10), (i < 20 ? 1 : 4) + i % 2);
	assert_int_equal(batch_check(&c, &b, &limits, &counted, NULL), COHORT_OK);
	assert_memory_equal(m.n_asked, ((int[N_SEQ]){0, 1, 1, 0, 1, 1, 0, 0}), sizeof m.n_asked);
	cohort_batch_release(&b);
	batch_checked_release(&c);
}

/* Many sequences: all ids work, and a check touches those it names only. */
static void batch_check_with_65536_sequences(void **state)
{
	(void)state;

	for (int k = 0; k < 2; k++) {
		struct batch_limits lim = limits;
		struct batch_checked c;
		struct cohort_batch b;
		lim.n_seq_max = k ? 65536 : 4096;
		lim.n_rows_max = lim.n_seq_max;
		assert_true(batch_checked_init(&c, 64, (size_t)lim.n_seq_max));
		b = new_batch(lim.n_seq_max, 1);
		add(&b, 1, 0, lim.n_seq_max - 1);
		add(&b, 1, 0, 0);
		mem_fail_all(true);
		assert_int_equal(batch_check(&c, &b, &lim, NULL, NULL), COHORT_OK);
		mem_fail_all(false);
		int32_t n = 0;
		for (size_t i = 0; i < c.work->seqs_max; i++)
			n += c.work->seqs[i].epoch != 0;
		assert_int_equal(n, 2);
		cohort_batch_reset(&b);
		for (cohort_seq s = lim.n_seq_max - 1; s >= 0; s--)
			add(&b, 1, 0, s);
		assert_int_equal(batch_check(&c, &b, &lim, NULL, NULL), COHORT_OK);
		assert_int_equal(batch_n_single(&c), lim.n_seq_max);
		cohort_batch_reset(&b);
		add(&b, 1, 0, lim.n_seq_max);
		assert_int_equal(batch_check(&c, &b, &lim, NULL, NULL), COHORT_E_BATCH);
		cohort_batch_release(&b);
		batch_checked_release(&c);
	}
}

/* ---- Failures ---- */

static void batch_check_out_of_memory_at_every_point(void **state)
{
	static const cohort_token tokens[40];
	struct batch_checked c = {0};
	struct cohort_batch b;
	struct cohort_err err;
	int64_t n;
	(void)state;

	assert_int_equal(cohort_batch_from_tokens(&b, tokens, 40, &err), COHORT_OK);
	/* From nothing: the work, rows, sequences, positions. */
	for (n = 0;; n++) {
		mem_fail_after(n);
		enum cohort_status st = batch_check(&c, &b, &limits, NULL, &err);
		mem_fail_after(-1);
		if (!st)
			break;
		assert_int_equal(st, COHORT_E_MEMORY);
		assert_null(err.rule);
		assert_int_equal(c.n_tokens, 0);
		batch_checked_release(&c);
	}
	assert_int_equal(n, 4);
	/* Growing by each of them: what there was still works afterwards. */
	struct batch_limits more = limits;
	struct cohort_batch one;
	assert_int_equal(cohort_batch_from_tokens(&one, tokens, 1, &err), COHORT_OK);
	more.n_seq_max = 100;
	more.n_pos_row = 4;
	batch_checked_release(&c);
	assert_int_equal(batch_check(&c, &one, &limits, NULL, &err), COHORT_OK);
	for (n = 0; n < 3; n++) {
		mem_fail_after(0); /* each time it comes one further */
		assert_int_equal(batch_check(&c, &b, &more, NULL, &err), COHORT_E_MEMORY);
		mem_fail_all(true);
		assert_int_equal(batch_check(&c, &one, &limits, NULL, &err), COHORT_OK);
		mem_fail_all(false);
		mem_fail_after(1);
		assert_int_equal(batch_check(&c, &b, &more, NULL, &err), n < 2 ? COHORT_E_MEMORY : COHORT_OK);
		mem_fail_after(-1);
	}
	assert_int_equal(batch_check(&c, &b, &more, NULL, &err), COHORT_OK);
	cohort_batch_release(&b);
	batch_checked_release(&c);

	for (n = 0;; n++) {
		mem_fail_after(n);
		bool ok = batch_checked_init(&c, 100, 10);
		mem_fail_after(-1);
		if (ok)
			break;
		assert_null(c.work);
	}
	assert_int_equal(n, 5);
	batch_checked_release(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(batch_check_fills_what_is_left_out),
		cmocka_unit_test(fills_each),
		cmocka_unit_test(in_place),
		cmocka_unit_test(batch_outputs_are_counted),
		cmocka_unit_test(several_positions),
		cmocka_unit_test(batch_queries_of_sequences),
		cmocka_unit_test(refuse_sizes),
		cmocka_unit_test(refuse_kinds),
		cmocka_unit_test(refuse_tokens),
		cmocka_unit_test(refuse_floats),
		cmocka_unit_test(refuse_ids),
		cmocka_unit_test(refuse_sets),
		cmocka_unit_test(refuse_positions),
		cmocka_unit_test(failed_batch_check_leaves_no_answers),
		cmocka_unit_test(asks_once),
		cmocka_unit_test(batch_check_with_65536_sequences),
		cmocka_unit_test(batch_check_out_of_memory_at_every_point),
	};

	return cmocka_run_group_tests_name("batch_check", tests, NULL, NULL);
}
