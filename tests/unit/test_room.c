/* cohort_room_needed against real contexts: what it says fits is decoded, and one sequence more is not; the n_ctx that
 * it asks for is enough, and a block less is not. Seen red with a block size of 31 and of 33, with sequences that round
 * down, with a shared prompt that rounds up, with a fork that counts one block less or more, and with one block less or
 * more for n_seq_max, n_fit and n_ctx_needed. */
#include "spec_case.h"

#include "base/blocks.h"

enum { IDS = 64, ROUNDS = 120 };

static int32_t below(struct rng *r, int32_t n)
{
	return (int32_t)(rng_u32(r) % (uint32_t)n);
}

static struct cohort_context *context_for(const struct cohort_room_params *p)
{
	struct cohort_context_params cp = small();

	cp.n_ctx = (int32_t)p->n_ctx;
	cp.n_blocks = case_room(*p).n_blocks;
	cp.n_seq_max = 2 * IDS + 1;
	return context_of(golden, cp);
}

/* Decodes n sequences as they are asked about: the prompt once, a copy of it for each, and what each has of its own;
 * then the forks. The status of the first call that fails. */
static enum cohort_status fill(struct cohort_context *c, const struct cohort_room_params *p, int32_t n)
{
	const int32_t n_prompt = (int32_t)p->n_prompt, n_own = (int32_t)(p->n_tokens - p->n_prompt);
	enum cohort_status st = cohort_decode_many(c, texts[7], (int32_t)p->n_more, 0, 2 * IDS, NULL);

	for (int32_t s = 0; s < n && !st; s++)
		st = s == 0 ? cohort_decode_many(c, texts[0], n_prompt, 0, 0, NULL)
			    : cohort_seq_cp(c, 0, s, 0, -1, NULL);
	for (int32_t s = 0; s < n && !st; s++)
		st = cohort_decode_many(c, texts[1 + s % 6], n_own, n_prompt, s, NULL);
	for (int32_t s = 0; s < n && p->n_fork && !st; s++) {
		st = cohort_seq_cp(c, s, IDS + s, 0, -1, NULL);
		if (!st)
			st = cohort_decode_many(c, texts[6], (int32_t)p->n_fork, (int32_t)p->n_tokens, IDS + s, NULL);
	}
	return st;
}

/* Prompts that end within a block, of which each sequence goes on: what is shared then is the whole blocks. */
static struct cohort_room_params random_group(struct rng *r)
{
	struct cohort_room_params p = {sizeof p, .n_ctx = 1 + below(r, 400)};

	p.n_tokens = 1 + below(r, 120);
	p.n_prompt = below(r, 2) ? below(r, (int32_t)p.n_tokens) : 0;
	p.n_more = below(r, 3) ? 0 : below(r, 70);
	if (below(r, 3) == 0) {
		p.n_tokens = p.n_tokens / BLOCK * BLOCK + BLOCK - 1; /* where a fork takes the most */
		p.n_fork = 1 + below(r, 70);
	}
	return p;
}

/* In a pool that is made for as many, for some other number, or of a given size. */
static void what_fits_is_decoded(void **state)
{
	struct rng r;
	int32_t n_full = 0;
	(void)state;

	rng_init(&r, 5, 0);
	for (int32_t round = 0; round < ROUNDS; round++) {
		struct cohort_room_params p = random_group(&r);
		if (round % 3 == 1)
			p.n_seq_max = 1 + below(&r, round % 2 ? 8 : IDS);
		if (round % 3 == 2)
			p.n_blocks = 1 + below(&r, 24);
		const struct cohort_room_info most = case_room(p);
		const bool bounded = p.n_seq_max == most.n_fit;
		assert_in_range(most.n_fit, 0, p.n_seq_max ? p.n_seq_max : IDS - 1);
		for (int32_t n = most.n_fit > 0 ? most.n_fit : 1; n <= most.n_fit + !bounded; n++) {
			p.n_seqs = n;
			const struct cohort_room_info room = case_room(p);
			struct cohort_context *c = context_for(&p);
			assert_true((room.n_free < 0) == (n > most.n_fit));
			assert_int_equal(fill(c, &p, n), n > most.n_fit ? COHORT_NO_ROOM : COHORT_OK);
			if (n <= most.n_fit)
				assert_int_equal(usage(c).n_used, room.n_needed);
			n_full += room.n_free == 0;
			cohort_context_free(c);
		}
	}
	assert_in_range(n_full, 10, 2 * ROUNDS);
}

/* The least n_ctx that has room, and each sequence in what it promises to one. */
static void what_is_needed_is_enough(void **state)
{
	struct rng r;
	(void)state;

	rng_init(&r, 6, 0);
	for (int32_t round = 0; round < ROUNDS; round++) {
		struct cohort_room_params p = random_group(&r);
		p.n_seqs = 1 + below(&r, 20);
		p.n_seq_max = round % 2 ? p.n_seqs + below(&r, 8) : 0;
		p.n_ctx = case_room(p).n_ctx_needed;
		struct cohort_room_info room = case_room(p);
		assert_true(room.n_free >= 0 && room.n_pos_max >= p.n_tokens && room.n_fit >= p.n_seqs);
		struct cohort_context *c = context_for(&p);
		assert_int_equal(fill(c, &p, (int32_t)p.n_seqs), COHORT_OK);
		cohort_context_free(c);
		p.n_ctx -= BLOCK;
		room = case_room(p);
		assert_true(room.n_free < 0 || room.n_pos_max < p.n_tokens);
	}
}

/* Copies of a prompt that say nothing have its last block in common; they are counted as if they went on. */
static void pure_copies(void **state)
{
	(void)state;
	for (int64_t n = 0; n <= 2 * BLOCK; n++)
		for (int64_t k = 0; k < 4; k++)
			assert_int_equal(blocks_needed(BLOCK, n, n, k), n / BLOCK + (n % BLOCK ? k : 0));
}

/* What a model adds: its own limit. */
static void models_have_a_limit(void **state)
{
	struct cohort_room_params p = {.model = golden, .n_ctx = 100};
	(void)state;

	assert_int_equal(case_room(p).n_pos_max, 128);
	p.n_ctx = 1000;
	assert_int_equal(case_room(p).n_pos_max, POS_LIMIT);
	p.n_blocks = 3;
	assert_int_equal(case_room(p).n_pos_max, 96);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
			cmocka_unit_test(what_fits_is_decoded),
			cmocka_unit_test(what_is_needed_is_enough),
			cmocka_unit_test(pure_copies),
			cmocka_unit_test(models_have_a_limit),
	};
	return cmocka_run_group_tests_name("room", tests, open_golden, close_golden);
}
