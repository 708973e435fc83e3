/* What this machine allows: arithmetic and memory probes, and the rates of the formats relative to them.
 *
 * What holds:
 *  1. The rates of the formats are per-core figures of the project's reference machine (Zen 3, where f32 FMA gives 50
 *     GMAC/s). A CPU of another kind has another ratio of integer to float throughput: there, "% of limit" compares
 *     runs, not machines.
 *  2. A probe of several threads starts them together and counts the time from then until the last one is done. The
 *     best round counts: other programs can only make a limit look smaller.
 *  3. Memory is written before it is read: pages that were never written are all the same page, in the cache. */
#include "limits.h"

#include "base/mem.h"
#include "base/pool.h"
#include "quant/quant.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define F16_ONCE 21.0 /* GMAC/s when every weight is converted for one product */
#define FMA_SECONDS 0.02

enum { THREADS_MAX = 256, ROUNDS = 5, READ_BYTES = 256 << 20 };

/* ---- Formats ---- */

static const struct format_limit {
	uint32_t type;
	double gmacs; /* of the arithmetic alone */
	bool widened; /* to f32 once per group of columns */
} formats[] = {
	{QUANT_F32, 50.0, false}, {QUANT_F16, 50.0, true}, {QUANT_BF16, 50.0, true},
	{QUANT_Q8_0, 75.0, false},  /* sign trick */
	{QUANT_IQ4_NL, 75.0, false}, {QUANT_IQ4_XS, 75.0, false},
	{QUANT_Q4_0, 135.0, false}, /* four maddubs or more per madd */
	{QUANT_Q4_1, 135.0, false}, {QUANT_Q5_0, 135.0, false}, {QUANT_Q5_1, 135.0, false},
	{QUANT_MXFP4, 135.0, false},
	{QUANT_Q2_K, 135.0, false}, {QUANT_Q3_K, 135.0, false}, {QUANT_Q4_K, 135.0, false}, {QUANT_Q5_K, 135.0, false},
	{QUANT_Q6_K, 120.0, false}, /* two */
};

/* One instruction has four products where FMA has one, and as many of it go through. */
#define VNNI_GMACS (4 * LIMIT_PROBE_BASE)

bool limit_has_vnni(void)
{
#if defined(__x86_64__)
	return __builtin_cpu_supports("avx512vnni");
#else
	return false;
#endif
}

double limit_gmacs(uint32_t type, size_t n_cols, bool vnni)
{
	for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
		const double work = formats[i].gmacs;
		if (formats[i].type == type && formats[i].widened)
			return 1.0 / (1.0 / work + (1.0 / F16_ONCE - 1.0 / work) / (double)n_cols);
		if (formats[i].type == type)
			return vnni && work > LIMIT_PROBE_BASE ? VNNI_GMACS : work;
	}
	return 0;
}

/* ---- Probes ---- */

#if defined(__x86_64__)
/* Twelve chains hide the latency of FMA on every AVX2 CPU so far (5 cycles, 2 a cycle). The start is the caller's: from
 * constants a compiler can tell that a chain stands still, and drop it. */
__attribute__((target("avx2,fma"))) static float fma_chains(long n, float start)
{
	__m256 a[12], x = _mm256_set1_ps(0.999f), y = _mm256_set1_ps(0.001f), sum = _mm256_setzero_ps();
#pragma GCC unroll 12
	for (int j = 0; j < 12; j++)
		a[j] = _mm256_set1_ps(start + (float)j);
	for (long i = 0; i < n; i++) {
#pragma GCC unroll 12
		for (int j = 0; j < 12; j++)
			a[j] = _mm256_fmadd_ps(a[j], x, y);
	}
#pragma GCC unroll 12
	for (int j = 0; j < 12; j++)
		sum = _mm256_add_ps(sum, a[j]);
	return _mm256_cvtss_f32(sum);
}

double limit_probe(void)
{
	const long n = 100000;
	volatile float io = 0.5f; /* so that the chains are computed at all */
	if (!limit_has_probe())
		return LIMIT_PROBE_BASE;
	double t0 = clock_now();
	io = fma_chains(n, io);
	return (double)n * 12 * 8 / (clock_now() - t0) * 1e-9;
}

bool limit_has_probe(void)
{
	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
#else
double limit_probe(void)
{
	return LIMIT_PROBE_BASE;
}

bool limit_has_probe(void)
{
	return false;
}
#endif

struct gate {
	atomic_size_t n_ready;
	atomic_int go; /* 0: wait, 1: run, -1: not all could be started, leave */
};

struct probe {
	struct gate *gate;
	const uint64_t *words; /* [n_words], a share of the memory; NULL: FMA */
	size_t n_words;
	double began, done, amount; /* GMAC or GB */
	uint64_t sink;
};

static void probe_fma(struct probe *p)
{
	do {
		const double t0 = clock_now(), rate = limit_probe();
		p->done = clock_now();
		p->amount += rate * (p->done - t0);
	} while (p->done - p->began < FMA_SECONDS);
}

static void probe_read(struct probe *p)
{
	uint64_t s[8] = {0};

	for (size_t i = 0; i + 8 <= p->n_words; i += 8)
		for (int j = 0; j < 8; j++)
			s[j] += p->words[i + (size_t)j];
	for (int j = 0; j < 8; j++)
		p->sink += s[j];
	p->done = clock_now();
	p->amount = (double)p->n_words * sizeof *p->words * 1e-9;
}

static void *probe_main(void *arg)
{
	struct probe *p = arg;
	int go;

	atomic_fetch_add(&p->gate->n_ready, 1);
	while ((go = atomic_load(&p->gate->go)) == 0)
		sched_yield();
	if (go < 0)
		return NULL;
	p->began = clock_now();
	if (p->words)
		probe_read(p);
	else
		probe_fma(p);
	return NULL;
}

/* One round; words: NULL for FMA. The calling thread is the last one. */
static double probe_together(size_t n_threads, const uint64_t *words)
{
	static struct probe probes[THREADS_MAX];
	pthread_t threads[THREADS_MAX];
	struct gate gate = {0};
	const size_t share = READ_BYTES / sizeof *words / n_threads;
	size_t n = 0;
	double began = 0, done = 0, amount = 0;

	for (size_t i = 0; i < n_threads; i++)
		probes[i] = (struct probe){
			.gate = &gate,
			.words = words ? words + i * share : NULL,
			.n_words = share,
		};
	while (n + 1 < n_threads && !pthread_create(&threads[n], NULL, probe_main, &probes[n]))
		n++;
	const bool all = n + 1 == n_threads;
	while (all && atomic_load(&gate.n_ready) < n)
		sched_yield();
	atomic_store(&gate.go, all ? 1 : -1);
	probe_main(&probes[n]);
	for (size_t i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	for (size_t i = 0; i < n_threads && all; i++) {
		began = i == 0 || probes[i].began < began ? probes[i].began : began;
		done = probes[i].done > done ? probes[i].done : done;
		amount += probes[i].amount;
	}
	return done > began ? amount / (done - began) : 0;
}

static double best(size_t n_threads, const uint64_t *words)
{
	double most = 0;

	for (int i = 0; i < ROUNDS && n_threads >= 1 && n_threads <= THREADS_MAX; i++) {
		const double v = probe_together(n_threads, words);
		most = v > most ? v : most;
	}
	return most;
}

double limit_fma_gmacs(size_t n_threads)
{
	return limit_has_probe() ? best(n_threads, NULL) : LIMIT_PROBE_BASE * (double)n_threads;
}

double limit_read_gb_s(size_t n_threads)
{
	uint64_t *words = mem_zalloc_aligned(READ_BYTES, 1);
	double v = 0;

	if (words) {
		memset(words, 1, READ_BYTES);
		v = best(n_threads, words);
	}
	mem_free_aligned(words);
	return v;
}

/* ---- Names ---- */

void cpu_name(char *name, size_t n_bytes)
{
	char line[256];
	FILE *f = fopen("/proc/cpuinfo", "r");

	snprintf(name, n_bytes, "unknown");
	while (f && fgets(line, sizeof line, f)) {
		char *colon = strchr(line, ':');
		if (strncmp(line, "model name", 10) == 0 && colon) {
			line[strcspn(line, "\n")] = '\0';
			snprintf(name, n_bytes, "%s", colon + 2);
			break;
		}
	}
	if (f)
		fclose(f);
}

const char *compiler_name(void)
{
#if defined(__clang__)
	return __VERSION__; /* names itself */
#else
	return "gcc " __VERSION__;
#endif
}
