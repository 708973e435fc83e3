/* The KV cache's books: what a fork, a decode of 8 sequences and a prefill of 2,048 rows cost, for few and for many
 * possible sequences. Medians of interleaved rounds; no tensor data is touched. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kv/kv.h"

enum { ROUNDS = 41, REPEATS = 200, PROMPT = 2048, FORKED = 1000, DECODE = 8, SIZE = 32 };

struct bench {
	size_t n_seq_max;
	struct kv *kv;
	double fork[ROUNDS], decode[ROUNDS], prefill[ROUNDS]; /* nanoseconds */
};

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void check(enum cohort_status st)
{
	if (st) {
		fprintf(stderr, "bench_kv: status %d\n", (int)st);
		exit(1);
	}
}

static void decode(struct kv *kv, const struct kv_row *rows, size_t n)
{
	struct kv_plan plan;

	kv_begin(kv);
	check(kv_reserve(kv, rows, n, &plan, NULL));
	kv_commit(kv);
}

static void prompt(struct kv *kv, const cohort_seq *seq, size_t n)
{
	static struct kv_row rows[PROMPT];

	for (size_t i = 0; i < n; i++)
		rows[i] = (struct kv_row){(cohort_pos)i, 1, seq};
	decode(kv, rows, n);
}

/* Of sequence 0 to the last one, which is removed again. */
static double fork_round(struct bench *b)
{
	const cohort_seq first = 0, last = (cohort_seq)b->n_seq_max - 1;
	struct kv_moves moves;

	kv_clear(b->kv);
	prompt(b->kv, &first, FORKED);
	const double t = now();
	for (int i = 0; i < REPEATS; i++) {
		check(kv_seq_cp(b->kv, first, last, 0, -1, false, &moves, NULL));
		check(kv_seq_rm(b->kv, last, 0, -1, false, NULL));
	}
	return (now() - t) / REPEATS;
}

/* One row for each of eight sequences, as far apart as may be. */
static double decode_round(struct bench *b)
{
	struct kv_row rows[DECODE];
	cohort_seq seq[DECODE];

	kv_clear(b->kv);
	for (size_t i = 0; i < DECODE; i++) {
		seq[i] = (cohort_seq)(i * (b->n_seq_max / DECODE));
		prompt(b->kv, &seq[i], 100);
	}
	const double t = now();
	for (int k = 0; k < REPEATS; k++) {
		for (size_t i = 0; i < DECODE; i++)
			rows[i] = (struct kv_row){100 + k, 1, &seq[i]};
		decode(b->kv, rows, DECODE);
	}
	return (now() - t) / REPEATS;
}

static double prefill_round(struct bench *b)
{
	const cohort_seq seq = (cohort_seq)b->n_seq_max - 1;
	double sum = 0;

	for (int i = 0; i < 10; i++) {
		kv_clear(b->kv);
		const double t = now();
		prompt(b->kv, &seq, PROMPT);
		sum += now() - t;
	}
	return sum / 10;
}

static int compare(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double median(double *values)
{
	qsort(values, ROUNDS, sizeof *values, compare);
	return values[ROUNDS / 2];
}

int main(int argc, char **argv)
{
	static struct bench benches[] = {{.n_seq_max = 64}, {.n_seq_max = 4096}};
	const size_t n = sizeof benches / sizeof *benches;

	if (argc > 1 && strcmp(argv[1], "--help") == 0) {
		puts("usage: bench_kv\nTimes the KV cache's books. Other arguments are ignored.");
		return 0;
	}
	for (size_t k = 0; k < n; k++) {
		benches[k].kv = kv_open(&(struct kv_limits){.n_blocks = 256, .block_size = SIZE,
				.n_seq_max = benches[k].n_seq_max, .n_pos_max = 8192, .n_rows_max = PROMPT});
		if (!benches[k].kv)
			return 1;
	}
	for (int i = 0; i < ROUNDS; i++)
		for (size_t k = 0; k < n; k++) {
			benches[k].fork[i] = fork_round(&benches[k]);
			benches[k].decode[i] = decode_round(&benches[k]);
			benches[k].prefill[i] = prefill_round(&benches[k]);
		}
	printf("KV books, blocks of %d positions, medians of %d\n", SIZE, ROUNDS);
	printf("%10s %24s %22s %26s\n", "n_seq_max", "fork of 1,000 + rm, ns", "8 decode rows, ns",
			"2,048-row prefill, ns/row");
	for (size_t k = 0; k < n; k++) {
		printf("%10zu %24.0f %22.0f %26.2f\n", benches[k].n_seq_max, median(benches[k].fork),
				median(benches[k].decode), median(benches[k].prefill) / PROMPT);
		kv_free(benches[k].kv);
	}
	return 0;
}
