/* The KV cache's books against lists, over random operations; and the same with faults planted, which must show. */
#include "kv_world.h"

#include "base/rng.h"

enum { ROWS_MAX = 12, SEQS_MAX = 8 };

struct batch {
	struct kv_row rows[ROWS_MAX];
	cohort_seq seq[ROWS_MAX][SEQS_MAX];
	size_t n;
};

static uint32_t below(struct rng *r, size_t n)
{
	return rng_u32(r) % (uint32_t)n;
}

/* Rows as the batch checks let them through: the sequences of a row either hold the same cells and had no row yet in
 * this batch, or had the same last row. */
static void random_batch(struct batch *b, const struct world *w, struct rng *r)
{
	int last[SEQS_MAX];
	cohort_pos next[SEQS_MAX];

	for (size_t s = 0; s < w->n_seq; s++) {
		last[s] = -1;
		next[s] = w->max[s] + 1;
	}
	b->n = 1 + below(r, ROWS_MAX);
	/* Batches that go on with few sequences, too, so that sets shrink within a block. */
	size_t n_lead = 1 + below(r, w->n_seq);
	for (size_t i = 0; i < b->n; i++) {
		size_t lead = below(r, n_lead);
		uint32_t keep = below(r, 4); /* none, some or all of those that could join */
		int32_t n = 0;
		b->seq[i][n++] = (cohort_seq)lead;
		for (size_t s = 0; s < w->n_seq; s++) {
			if (s == lead || last[s] != last[lead] || keep == 0 || (keep < 3 && below(r, 2)))
				continue;
			if (last[s] < 0 && !kv_same(w->kv, (cohort_seq)lead, (cohort_seq)s))
				continue;
			b->seq[i][n++] = (cohort_seq)s;
		}
		b->rows[i] = (struct kv_row){next[lead], n, b->seq[i]};
		for (int32_t k = 0; k < n; k++) {
			last[b->seq[i][k]] = (int)i;
			next[b->seq[i][k]]++;
		}
	}
}

/* A refusal names the first row that does not fit: all before it do. */
static void check_no_room(struct world *w, const struct batch *b, const struct cohort_err *err)
{
	struct kv_plan plan;

	assert_true(err->row >= 0 && (size_t)err->row < b->n);
	assert_int_equal(err->seq, b->rows[err->row].seq[0]);
	assert_int_equal(kv_reserve(w->kv, b->rows, (size_t)err->row, &plan, NULL), COHORT_OK);
	kv_rollback(w->kv);
	assert_int_equal(kv_reserve(w->kv, b->rows, (size_t)err->row + 1, &plan, NULL), COHORT_NO_ROOM);
}

static void random_rm(struct world *w, struct rng *r)
{
	size_t s = below(r, w->n_seq);
	size_t len = (size_t)(w->max[s] + 1);
	cohort_pos a = (cohort_pos)below(r, len + 2), z = (cohort_pos)below(r, len + 2);
	uint32_t kind = below(r, 8);
	struct cohort_err err;

	if (kind < 3)
		z = -1;
	else if (kind < 5)
		a = 0;
	else if (kind == 5)
		a = 0, z = -1;
	bool middle = w->max[s] >= 0 && a > w->min[s] && z >= 0 && z <= w->max[s] && a < z;
	assert_int_equal(world_rm(w, (cohort_seq)s, a, z, &err), middle ? COHORT_E_ARG : COHORT_OK);
}

/* Forks, onto a place that is made empty more often than not; now and then onto all of them. */
static void random_cp(struct world *w, struct rng *r)
{
	size_t src = below(r, w->n_seq), one = below(r, w->n_seq);
	bool all = below(r, 4) == 0, clear = below(r, 4) > 0;
	struct cohort_err err;

	for (size_t dst = 0; dst < w->n_seq; dst++) {
		if (!all && dst != one)
			continue;
		if (clear && dst != src)
			assert_int_equal(world_rm(w, (cohort_seq)dst, 0, -1, &err), COHORT_OK);
		bool ok = src == dst || w->max[dst] < 0;
		assert_int_equal(world_cp(w, (cohort_seq)src, (cohort_seq)dst, &err), ok ? COHORT_OK : COHORT_E_ARG);
		assert_true(!ok || kv_same(w->kv, (cohort_seq)src, (cohort_seq)dst));
	}
}

struct counts {
	size_t n_decode, n_no_room, n_copies, n_extra, n_coupled;
};

/* Runs operations until the books and the lists differ, or n_ops; returns how many went well. */
static size_t play(struct world *w, uint64_t seed, size_t n_ops, struct counts *c)
{
	struct rng r;

	rng_init(&r, seed, 0);
	for (size_t i = 0; i < n_ops; i++) {
		uint32_t op = below(&r, 16);
		struct cohort_err err = {0};
		struct batch b;
		if (op < 9) {
			random_batch(&b, w, &r);
			if (op == 0) {
				world_roll_back(w, b.rows, b.n);
			} else if (world_decode(w, b.rows, b.n, &err) == COHORT_E_LIMIT) {
				assert_string_equal(err.rule, "pos-limit");
				world_rm(w, (cohort_seq)err.seq, 0, -1, NULL);
			} else if (err.status) {
				assert_int_equal(err.status, COHORT_NO_ROOM);
				check_no_room(w, &b, &err);
				c->n_no_room++;
				if (below(&r, 2)) /* otherwise it would stay full */
					world_rm(w, (cohort_seq)below(&r, w->n_seq), 0, -1, NULL);
			} else {
				c->n_decode++;
				c->n_copies += w->plan.n_copies;
				c->n_extra += w->plan.n_extra;
				for (size_t k = 0; k < b.n; k++)
					c->n_coupled += b.rows[k].n_seq > 1;
			}
		} else if (op < 12) {
			random_cp(w, &r);
		} else {
			random_rm(w, &r);
		}
		if (!world_same(w))
			return i;
		if (i % 16 == 0)
			assert_true(kv_consistent(w->kv));
	}
	assert_true(kv_consistent(w->kv));
	return n_ops;
}

static void random_operations(void **state)
{
	static const struct { size_t n_blocks, size, n_seq, n_ops; } worlds[] = {
		{24, 4, 8, 20000}, {40, 8, 6, 15000}, {9, 3, 5, 10000}, {6, 1, 3, 3000}, {2, 64, 8, 2000},
	};
	struct counts c = {0};
	(void)state;

	for (size_t i = 0; i < sizeof worlds / sizeof *worlds; i++) {
		struct world w;
		world_init(&w, worlds[i].n_blocks, worlds[i].size, worlds[i].n_seq);
		size_t n = play(&w, i + 1, worlds[i].n_ops, &c);
		if (n < worlds[i].n_ops)
			fail_msg("world %zu: a sequence holds other cells than it should after operation %zu", i, n);
		kv_clear(w.kv);
		assert_int_equal(world_used(&w), 0);
		world_release(&w);
	}
	/* Everything happened often enough to count. */
	assert_true(c.n_decode > 5000 && c.n_coupled > 5000);
	assert_true(c.n_no_room > 500 && c.n_copies > 500 && c.n_extra > 500);
}

/* The comparison sees what it is there for. */
static void planted_faults(void **state)
{
	(void)state;
	for (int fault = 0; fault < 2; fault++) {
		struct counts c = {0};
		struct world w;
		world_init(&w, 24, 4, 8);
		w.skip_copies = fault == 0;
		w.skip_extra = fault == 1;
		assert_true(play(&w, 1, 2000, &c) < 2000);
		world_release(&w);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_operations),
		cmocka_unit_test(planted_faults),
	};

	return cmocka_run_group_tests_name("kv_model", tests, NULL, NULL);
}
