/* What a batch costs before any arithmetic: checking and splitting per row, and what the inline rows buy.
 *
 * Rounds of all cells are interleaved, so that a slow moment of the machine falls on all of them; a cell's figure is
 * the median of its rounds. Times are of the processor, not of the wall: there is one thread and no waiting, and other
 * programs shall not count. Unknown arguments are ignored: every program of this folder gets the same ones. */
#include "base/mem.h"
#include "batch/batch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { N_ROUNDS = 9, N_UBATCH = 512, N_SEQ = 4096, ROWS_MAX = 2048, CELLS_MAX = 64, ROUND_NS = 2000000 };

static const char *const kind_names[] = {"simple", "equal", "seq"};

static const struct batch_limits limits = {.n_vocab = 32000, .n_seq_max = N_SEQ, .n_rows_max = ROWS_MAX, .n_pos_row = 1,
	.n_pos_max = 1 << 20};

/* Every sequence holds 100 cells. */
static cohort_pos pos_max(void *user, cohort_seq seq)
{
	(void)user, (void)seq;
	return 99;
}

static bool same(void *user, cohort_seq a, cohort_seq b)
{
	(void)user, (void)a, (void)b;
	return true;
}

static const struct batch_memory memory = {NULL, pos_max, same};

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static void must(enum cohort_status st)
{
	if (st) {
		fprintf(stderr, "bench_batch: %s\n", cohort_status_name(st));
		exit(1);
	}
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double median(const double *v)
{
	double sorted[N_ROUNDS];

	memcpy(sorted, v, sizeof sorted);
	qsort(sorted, N_ROUNDS, sizeof *sorted, by_value);
	return sorted[N_ROUNDS / 2];
}

static void print_raw(const double *v)
{
	printf("      rounds:");
	for (int i = 0; i < N_ROUNDS; i++)
		printf(" %.2f", v[i]);
	printf("\n");
}

/* ---- Check and split ---- */

struct cell {
	int32_t n_rows, n_seqs;
	enum batch_split kind;
	struct cohort_batch batch;
	double ns[N_ROUNDS]; /* per row */
};

static void make_cell(struct cell *c, int32_t n_rows, int32_t n_seqs, enum batch_split kind)
{
	*c = (struct cell){.n_rows = n_rows, .n_seqs = n_seqs, .kind = kind};
	must(cohort_batch_init(&c->batch, n_rows, 0, 1, NULL));
	for (int32_t i = 0; i < n_rows; i++) {
		cohort_seq seq = i / (n_rows / n_seqs);
		must(cohort_batch_add(&c->batch, i, 100 + i % (n_rows / n_seqs), &seq, 1, i == n_rows - 1, NULL));
	}
}

static void check_and_split(struct batch_checked *checked, const struct cell *c)
{
	struct ubatch u;

	must(batch_check(checked, &c->batch, &limits, &memory, NULL));
	do
		must(batch_split(checked, c->kind, N_UBATCH, 0, &u, NULL));
	while (u.n_tokens);
}

static void run_cell(struct batch_checked *checked, struct cell *c, int round)
{
	int n = 0, step = 1 + 20000 / c->n_rows; /* some ten microseconds and more: reading the clock takes 0.3 */
	double start = now_ns(), took;

	do {
		for (int i = 0; i < step; i++)
			check_and_split(checked, c);
		n += step;
		took = now_ns() - start;
	} while (took < ROUND_NS);
	c->ns[round] = took / n / c->n_rows;
}

static void bench_check(bool raw)
{
	static const int32_t rows[] = {1, 8, 64, 256, 2048}, seqs[] = {1, 8, 64, 256};
	static struct cell cells[CELLS_MAX];
	struct batch_checked checked;
	int n = 0;

	for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
		for (size_t s = 0; s < sizeof seqs / sizeof *seqs; s++)
			for (int k = 0; k < 3 && rows[r] >= seqs[s]; k++)
				make_cell(&cells[n++], rows[r], seqs[s], (enum batch_split)k);
	if (!batch_checked_init(&checked, ROWS_MAX, N_SEQ))
		must(COHORT_E_MEMORY);
	uint64_t before = mem_count();
	for (int round = 0; round < N_ROUNDS; round++)
		for (int i = 0; i < n; i++)
			run_cell(&checked, &cells[i], round);
	uint64_t after = mem_count();
	printf("check and split, ns per row (ubatches of %d rows, median of %d rounds)\n", N_UBATCH, N_ROUNDS);
	printf("  %6s %6s %-7s %9s %12s\n", "rows", "seqs", "split", "ns/row", "ns/batch");
	for (int i = 0; i < n; i++) {
		double ns = median(cells[i].ns);
		printf("  %6d %6d %-7s %9.2f %12.1f\n", cells[i].n_rows, cells[i].n_seqs, kind_names[cells[i].kind], ns,
				ns * cells[i].n_rows);
		if (raw)
			print_raw(cells[i].ns);
		cohort_batch_release(&cells[i].batch);
	}
	printf("allocations during all of it: %llu\n\n", (unsigned long long)(after - before));
	batch_checked_release(&checked);
}

/* ---- Inline rows ---- */

static void from_tokens(struct cohort_batch *b, const cohort_token *tokens, int32_t n)
{
	must(cohort_batch_from_tokens(b, tokens, n, NULL));
}

static void heap_copy(struct cohort_batch *b, const cohort_token *tokens, int32_t n)
{
	cohort_token *copy = mem_dup(tokens, (size_t)n * sizeof *tokens);

	if (!copy)
		must(COHORT_E_MEMORY);
	must(cohort_batch_take_tokens(b, copy, n, NULL));
}

static void add_rows(struct cohort_batch *b, const cohort_token *tokens, int32_t n, int32_t n_max)
{
	const cohort_seq zero = 0;

	must(cohort_batch_init(b, n_max, 0, 1, NULL));
	for (int32_t i = 0; i < n; i++)
		must(cohort_batch_add(b, tokens[i], 100 + i, &zero, 1, false, NULL));
}

static void rows_inline(struct cohort_batch *b, const cohort_token *tokens, int32_t n)
{
	add_rows(b, tokens, n, n);
}

/* Room for one row too many to be inline. */
static void rows_heap(struct cohort_batch *b, const cohort_token *tokens, int32_t n)
{
	add_rows(b, tokens, n, COHORT_BATCH_INLINE + 1);
}

typedef void (*make_fn)(struct cohort_batch *, const cohort_token *, int32_t);

static double built(struct batch_checked *checked, make_fn make, int32_t n_tokens)
{
	static const cohort_token tokens[COHORT_BATCH_INLINE];
	struct cohort_batch b;
	int n = 0;
	double start = now_ns(), took;

	do {
		for (int i = 0; i < 1000; i++) {
			make(&b, tokens, n_tokens);
			must(batch_check(checked, &b, &limits, &memory, NULL));
			cohort_batch_release(&b);
		}
		n += 1000;
		took = now_ns() - start;
	} while (took < ROUND_NS);
	return took / n;
}

static void bench_inline(bool raw)
{
	static const int32_t sizes[] = {1, 8, 32};
	static const struct {
		const char *name;
		make_fn here, heap;
	} pairs[] = {{"bare tokens", from_tokens, heap_copy}, {"rows added", rows_inline, rows_heap}};
	static double ns[2][3][2][N_ROUNDS];
	struct batch_checked checked;

	if (!batch_checked_init(&checked, ROWS_MAX, N_SEQ))
		must(COHORT_E_MEMORY);
	for (int round = 0; round < N_ROUNDS; round++)
		for (int p = 0; p < 2; p++)
			for (int i = 0; i < 3; i++) {
				ns[p][i][0][round] = built(&checked, pairs[p].here, sizes[i]);
				ns[p][i][1][round] = built(&checked, pairs[p].heap, sizes[i]);
			}
	printf("what the inline rows buy: a batch built, checked and released, ns (median of %d rounds)\n", N_ROUNDS);
	printf("  %-12s %6s %9s %9s %9s\n", "", "tokens", "inline", "heap", "saved");
	for (int p = 0; p < 2; p++)
		for (int i = 0; i < 3; i++) {
			double here = median(ns[p][i][0]), heap = median(ns[p][i][1]);
			printf("  %-12s %6d %9.1f %9.1f %8.1f%%\n", pairs[p].name, sizes[i], here, heap,
					100 * (heap - here) / heap);
			for (int k = 0; k < 2 && raw; k++)
				print_raw(ns[p][i][k]);
		}
	batch_checked_release(&checked);
}

int main(int argc, char **argv)
{
	bool raw = false;

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--help")) {
			printf("usage: bench_batch [--raw]\n"
			       "Prints what checking and splitting a batch costs, and what its inline rows buy.\n"
			       "  --raw   every round beside the medians\n");
			return 0;
		}
		raw |= !strcmp(argv[i], "--raw");
	}
	bench_check(raw);
	bench_inline(raw);
	return 0;
}
