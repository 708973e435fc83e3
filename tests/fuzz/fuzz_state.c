/* Any bytes as a saved state with a right checksum: refused without a trace, or taken with sound books that save to the
 * same bytes again and decode on.
 *
 * The first byte of the input chooses between two ways: the rest is a state, whose header is made right as far as it
 * must be to get past the comparisons with the context; or it is a list of changes (2 bytes offset, 4 bytes value) to a
 * state that was saved. It also chooses the sequence it is restored to.
 *
 * Shown red by not comparing the words of blocks with the tables. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model_case.h"
#include "state_case.h"

#include "context/impl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { N_IDS = 4, STATE_MAX = 1 << 16 };

struct saved_bytes {
	uint8_t p[STATE_MAX];
	size_t n;
};

static struct cohort_context *ctx;
static struct saved_bytes start; /* what the context holds before each input */
static struct saved_bytes bases[3];

static void check(bool ok, const char *what)
{
	if (!ok) {
		fprintf(stderr, "fuzz_state: %s\n", what);
		abort();
	}
}

static void grow(cohort_seq seq, int32_t n)
{
	for (int32_t i = 0; i < n; i++)
		check(cohort_decode_one(ctx, (cohort_token)(seq * 7 + i) % 16, cohort_seq_pos_max(ctx, seq) + 1, seq,
				      false, NULL) == COHORT_OK,
				"grow");
}

static void save(struct saved_bytes *b, cohort_seq seq)
{
	check(cohort_state_save(ctx, seq, b->p, STATE_MAX, &b->n, NULL) == COHORT_OK, "save");
}

/* Two groups of layers, the first with a window; sequences with a gap, sharing and a tail of their own. */
static void open_all(void)
{
	const struct shape shape = {16, 32, 2, 2, 1, 8, 8, 32, 8, 256, QUANT_F32, QUANT_F32, QUANT_F32, QUANT_F32,
			true, NULL, NULL, NULL};
	struct cohort_context_params cp;
	struct cohort_model *m;
	char *path = synth_write(&shape, 1);

	check(cohort_model_open(path, NULL, &m, NULL) == COHORT_OK, "model");
	unlink(path);
	free(path);
	m->model.layers[0].window = 8;
	cohort_context_params_init(&cp);
	cp.n_ctx = 8 * 32;
	cp.n_batch = 8;
	cp.n_seq_max = N_IDS;
	cp.n_threads = 1;
	check(cohort_context_open(m, &cp, &ctx, NULL) == COHORT_OK, "context");
	grow(0, 70);
	check(cohort_seq_cp(ctx, 0, 2, 0, -1, NULL) == COHORT_OK, "cp");
	check(cohort_seq_rm(ctx, 2, 10, 66, NULL) == COHORT_OK, "rm");
	grow(2, 2);
	grow(3, 3);
	save(&bases[0], COHORT_SEQ_ALL);
	save(&bases[1], 2);
	save(&bases[2], 3);
	grow(1, 40);
	save(&start, COHORT_SEQ_ALL);
}

/* The numbers that must be the context's own. */
static void mend_head(struct saved_bytes *b)
{
	if (b->n < STATE_AT_GROUPS + 2 * STATE_GROUP)
		return;
	memcpy(b->p, bases[0].p, STATE_AT_FLAGS);
	b->p[STATE_AT_FLAGS + 1] = b->p[STATE_AT_FLAGS + 2] = b->p[STATE_AT_FLAGS + 3] = 0;
	state_put(b->p + STATE_AT_SIZE, 8, b->n);
	memcpy(b->p + STATE_AT_MODEL, bases[0].p + STATE_AT_MODEL, STATE_AT_N_SEQS - STATE_AT_MODEL);
	for (size_t at = STATE_AT_GROUPS; at < STATE_AT_GROUPS + 2 * STATE_GROUP; at += STATE_GROUP) {
		memcpy(b->p + at, bases[0].p + at, 4);
		memcpy(b->p + at + 8, bases[0].p + at + 8, 8);
	}
}

static void fill(struct saved_bytes *b, unsigned way, const uint8_t *data, size_t n)
{
	if (way & 1) {
		b->n = n < STATE_MAX ? n : STATE_MAX;
		memcpy(b->p, data, b->n);
		mend_head(b);
	} else {
		*b = bases[(way >> 1 & 3) % 3];
		for (size_t i = 0; i + 6 <= n; i += 6) {
			const size_t at = state_get(data + i, 2) % (b->n - 4);
			memcpy(b->p + at, data + i + 2, 4);
		}
	}
	state_seal(b->p, b->n);
}

/* What was taken can be saved again, is the same again, and goes on. */
static void look_at_taken(const struct saved_bytes *b)
{
	static struct saved_bytes again;

	check(memory_consistent(&ctx->memory), "the books are not sound");
	save(&again, COHORT_SEQ_ALL);
	if (b->p[STATE_AT_FLAGS] & 1)
		check(again.n == b->n && memcmp(again.p, b->p, b->n) == 0, "other bytes than were restored");
	check(cohort_state_restore(ctx, COHORT_SEQ_ALL, again.p, again.n, NULL) == COHORT_OK, "not taken again");
	for (cohort_seq s = 0; s < N_IDS; s++) {
		const cohort_pos pos = cohort_seq_pos_max(ctx, s);
		if (pos >= 0 && pos < 255) {
			const enum cohort_status st = cohort_decode_one(ctx, 5, pos + 1, s, true, NULL);
			check(st == COHORT_OK || st == COHORT_NO_ROOM || st == COHORT_E_NUMERIC, "does not go on");
		}
	}
	check(memory_consistent(&ctx->memory), "the books are not sound after decoding");
	check(cohort_state_restore(ctx, COHORT_SEQ_ALL, start.p, start.n, NULL) == COHORT_OK, "no way back");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static struct saved_bytes b;
	struct cohort_err err;

	if (!ctx)
		open_all();
	if (n == 0)
		return 0;
	fill(&b, data[0], data + 1, n - 1);
	const uint64_t before = memory_hash(&ctx->memory);
	uint8_t *exact = malloc(b.n ? b.n : 1); /* so that a read past the end is seen */
	check(exact, "memory");
	memcpy(exact, b.p, b.n);
	const cohort_seq seq = data[0] >> 3 & 1 ? (data[0] >> 4) % N_IDS : COHORT_SEQ_ALL;
	const enum cohort_status st = cohort_state_restore(ctx, seq, exact, b.n, &err);
	if (st) {
		check(memory_hash(&ctx->memory) == before, "a refused state changed something");
		check(err.status == st && memchr(err.text, '\0', sizeof err.text), "an error without a text");
		check(st != COHORT_E_BUG && st != COHORT_E_MEMORY, "an error that cannot be");
	} else {
		look_at_taken(&b);
	}
	free(exact);
	return 0;
}
