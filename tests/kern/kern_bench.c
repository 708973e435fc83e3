/* kern_test --bench: the matrix products of one level on one thread, beside what the instructions allow; and attention,
 * in positions a second.
 *
 * Rounds are interleaved (every cell once, then every cell again) and medians are reported, so that a slow second of
 * the machine touches all cells alike. The limits are the per-core figures measured on the project's reference machine
 * (Zen 3, where f32 FMA gives 50 GMAC/s), scaled by the FMA rate this run measures; a CPU of another kind has another
 * ratio of integer to float throughput, so its "% of limit" compares runs, not machines. */
#include "kern_common.h"

#include "base/mem.h"
#include "base/pool.h"
#include "limits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { K = 2048, ROWS = 512, COLS_MAX = 128, ROUNDS = 7 };

#define L3_GB_S 56.0 /* read bandwidth of one core of that machine */
#define CELL_SECONDS 2e-3

static const uint32_t formats[] = {
	QUANT_F32, QUANT_F16, QUANT_BF16, QUANT_Q8_0, QUANT_IQ4_NL, QUANT_IQ4_XS, QUANT_Q4_0, QUANT_Q4_1,
	QUANT_Q5_0, QUANT_Q5_1, QUANT_MXFP4, QUANT_Q2_K, QUANT_Q3_K, QUANT_Q4_K, QUANT_Q5_K, QUANT_Q6_K,
};
static const size_t columns[] = {1, 2, 4, 8, 16, 32, 128};
/* Attention: query heads per KV head. The cache of one head at this length fits L2 in every type but F32. */
static const size_t queries[] = {1, 4, 8};
static const char *const kv_names[KERN_KV_N] = {"f16", "f32", "q8_0"};
enum { N_QUERIES = sizeof queries / sizeof *queries, QUERIES_MAX = 8, HEAD = 128, POSITIONS = 1000 };
enum { N_FORMATS = sizeof formats / sizeof *formats, N_COLUMNS = sizeof columns / sizeof *columns };

struct bench {
	const struct kern *kern;
	void *w[N_FORMATS], *act[3], *scratch;
	float *out;
	void *kv[KERN_KV_N], *attn_scratch;
	int32_t table[POSITIONS / KERN_KV_BLOCK + 1];
	double gmacs[N_FORMATS][N_COLUMNS][ROUNDS], mpos[KERN_KV_N][N_QUERIES][ROUNDS], probe[ROUNDS];
};

/* ---- Cells ---- */

static const struct kern_mat *mat_of(const struct bench *b, size_t f)
{
	const struct kern_mat *packed = &b->kern->packed[formats[f]];
	return packed->mm ? packed : &b->kern->file[formats[f]];
}

static void *must(void *p)
{
	if (!p) {
		fprintf(stderr, "kern_test: out of memory\n");
		exit(2);
	}
	return p;
}

static bool wide_exponent(uint32_t type)
{
	return type == QUANT_F32 || type == QUANT_BF16;
}

/* Random weights with every f16 number finite: bytes below 0x40 keep any pair of them a small f16. */
static void make_weights(struct bench *b, size_t f, struct rng *r)
{
	const struct quant_format *q = quant_format_get(formats[f]);
	size_t n_bytes = (size_t)ROWS * K / q->block * q->block_bytes;
	uint8_t *file = must(mem_zalloc_aligned(n_bytes, 1));

	for (size_t i = 0; i < n_bytes; i++)
		file[i] = (uint8_t)(rng_u32(r) & 0x3f);
	/* Subnormal numbers take some CPUs long: MXFP4's scales, and exponents of F32 and BF16, are not that small. */
	for (size_t i = 0; formats[f] == QUANT_MXFP4 && i < n_bytes; i += q->block_bytes)
		file[i] |= 0x40;
	for (size_t i = q->block_bytes - 1; wide_exponent(formats[f]) && i < n_bytes; i += q->block_bytes)
		file[i] |= 0x30;
	if (!mat_of(b, f)->pack) {
		b->w[f] = file;
		return;
	}
	b->w[f] = must(mem_zalloc_aligned(mat_of(b, f)->packed_bytes(ROWS, K), 1));
	mat_of(b, f)->pack(b->w[f], file, ROWS, K, 0, ROWS);
	mem_free_aligned(file);
}

static size_t kv_block_bytes(enum kern_kv type)
{
	return kern_k_area_bytes(type, HEAD) + kern_v_area_bytes(type, HEAD);
}

static void make_cache(struct bench *b, enum kern_kv type, struct rng *r)
{
	float x[HEAD];

	b->kv[type] = must(mem_zalloc_aligned(sizeof b->table / sizeof *b->table, kv_block_bytes(type)));
	for (size_t p = 0; p < POSITIONS; p++) {
		uint8_t *block = (uint8_t *)b->kv[type] + p / KERN_KV_BLOCK * kv_block_bytes(type);
		for (size_t i = 0; i < HEAD; i++)
			x[i] = rand_between(r, -1.0f, 1.0f);
		b->kern->put_k[type](x, HEAD, p % KERN_KV_BLOCK, block);
		b->kern->put_v[type](x, HEAD, p % KERN_KV_BLOCK, block + kern_k_area_bytes(type, HEAD));
	}
}

static void bench_init(struct bench *b, const struct kern *kern)
{
	float x[K];
	struct rng r;

	*b = (struct bench){.kern = kern};
	rng_init(&r, 40, 0);
	for (size_t f = 0; f < N_FORMATS; f++)
		make_weights(b, f, &r);
	for (int kind = 0; kind < 3; kind++) {
		size_t n_bytes = kern_act_bytes((enum quant_act)kind, K);
		b->act[kind] = must(mem_zalloc_aligned(COLS_MAX, n_bytes));
		for (size_t c = 0; c < COLS_MAX; c++) {
			for (size_t i = 0; i < K; i++)
				x[i] = rand_between(&r, -1.0f, 1.0f);
			kern->act[kind](x, K, (uint8_t *)b->act[kind] + c * n_bytes);
		}
	}
	for (int32_t i = 0; i < (int32_t)(sizeof b->table / sizeof *b->table); i++)
		b->table[i] = i;
	for (int type = 0; type < KERN_KV_N; type++)
		make_cache(b, (enum kern_kv)type, &r);
	b->attn_scratch = must(mem_zalloc_aligned(kern_attn_scratch_bytes(1, QUERIES_MAX, HEAD, HEAD), 1));
	b->scratch = must(mem_zalloc_aligned(KERN_MM_SCRATCH_BYTES(K), 1));
	b->out = must(mem_zalloc_aligned((size_t)COLS_MAX * ROWS, sizeof *b->out));
}

static void bench_release(struct bench *b)
{
	for (size_t f = 0; f < N_FORMATS; f++)
		mem_free_aligned(b->w[f]);
	for (int kind = 0; kind < 3; kind++)
		mem_free_aligned(b->act[kind]);
	for (int type = 0; type < KERN_KV_N; type++)
		mem_free_aligned(b->kv[type]);
	mem_free_aligned(b->attn_scratch);
	mem_free_aligned(b->scratch);
	mem_free_aligned(b->out);
}

static double cell_gmacs(const struct bench *b, size_t f, size_t n_cols)
{
	enum quant_act kind = quant_format_get(formats[f])->act;
	const struct kern_mm m = {
		.w = b->w[f], .n_rows = ROWS, .k = K, .act = b->act[kind], .act_bytes = kern_act_bytes(kind, K),
		.n_cols = n_cols, .out = b->out, .out_ld = ROWS, .scratch = b->scratch,
	};
	double t0, t1;
	long n = 0;

	mat_of(b, f)->mm(&m, 0, ROWS); /* caches and the clock */
	t0 = clock_now();
	do {
		mat_of(b, f)->mm(&m, 0, ROWS);
		n++;
		t1 = clock_now();
	} while (t1 - t0 < CELL_SECONDS);
	return (double)n * ROWS * K * (double)n_cols / (t1 - t0) * 1e-9;
}

/* Millions of positions a second, whatever the number of queries that look at each. */
static double cell_mpos(const struct bench *b, enum kern_kv type, size_t n_q)
{
	const struct kern_attn a = {
		.q = b->act[QUANT_ACT_F32], .n_q = n_q, .head_k = HEAD, .head_v = HEAD, .kv = b->kv[type],
		.block_bytes = kv_block_bytes(type), .table = b->table, .v_offset = kern_k_area_bytes(type, HEAD),
		.pos1 = POSITIONS, .out = b->out,
	};
	double t0, t1;
	long n = 0;

	kern_attn(b->kern, type, &a, 1, b->attn_scratch);
	t0 = clock_now();
	do {
		kern_attn(b->kern, type, &a, 1, b->attn_scratch);
		n++;
		t1 = clock_now();
	} while (t1 - t0 < CELL_SECONDS);
	return (double)n * POSITIONS / (t1 - t0) * 1e-6;
}

/* ---- The report ---- */

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return x < y ? -1 : x > y;
}

static double median(const double v[ROUNDS])
{
	double s[ROUNDS];
	memcpy(s, v, sizeof s);
	qsort(s, ROUNDS, sizeof *s, by_value);
	return s[ROUNDS / 2];
}

/* The lower of arithmetic and of reading the weights once. */
static double limit_of(const struct bench *b, size_t f, size_t n_cols, double scale)
{
	const struct quant_format *q = quant_format_get(formats[f]);
	const bool vnni = strcmp(b->kern->name, "avx512") == 0 || strcmp(b->kern->name, "amx") == 0;
	const double work = limit_gmacs(formats[f], n_cols, vnni);
	const double read = L3_GB_S * (double)n_cols * q->block / q->block_bytes;

	return scale * (work < read ? work : read);
}

static void print_table(const struct bench *b, double probe, double scale)
{
	printf("%-8s %-7s", "GMAC/s", "layout");
	for (size_t j = 0; j < N_COLUMNS; j++)
		printf("  %5zu col     ", columns[j]);
	printf("\n");
	for (size_t f = 0; f < N_FORMATS; f++) {
		printf("%-8s %-7s", quant_format_get(formats[f])->name, mat_of(b, f)->pack ? "packed" : "file");
		for (size_t j = 0; j < N_COLUMNS; j++) {
			double m = median(b->gmacs[f][j]);
			printf("  %6.1f (%3.0f %%)", m, 100.0 * m / limit_of(b, f, columns[j], scale));
		}
		printf("\n");
	}
	printf("in brackets: %% of limit. f32 FMA probe: %.1f GMAC/s%s; limits are scaled by %.3f\n", probe,
			limit_has_probe() ? "" : " (assumed: no probe for this CPU)", scale);
	printf("attention, million positions/s (head size %d, %d positions), by query heads per KV head\n%-8s", HEAD,
			POSITIONS, "cache");
	for (size_t j = 0; j < N_QUERIES; j++)
		printf("  %6zu", queries[j]);
	for (int type = 0; type < KERN_KV_N; type++) {
		printf("\n%-8s", kv_names[type]);
		for (size_t j = 0; j < N_QUERIES; j++)
			printf("  %6.1f", median(b->mpos[type][j]));
	}
	printf("\n");
}

static bool write_json(const struct bench *b, const char *path, const char *cpu, double probe, double scale)
{
	FILE *o = fopen(path, "w");
	if (!o)
		return false;
	fprintf(o, "{\"cpu\": \"%s\", \"compiler\": \"%s\", \"level\": \"%s\",\n", cpu, compiler_name(), b->kern->name);
	fprintf(o, " \"k\": %d, \"rows\": %d, \"rounds\": %d,\n", K, ROWS, ROUNDS);
	fprintf(o, " \"probe_gmacs\": %.3f, \"cells\": [", probe);
	for (size_t f = 0; f < N_FORMATS; f++)
		for (size_t j = 0; j < N_COLUMNS; j++)
			fprintf(o, "%s\n  {\"format\": \"%s\", \"layout\": \"%s\", \"cols\": %zu, \"gmacs\": %.3f, "
					"\"limit\": %.3f}", f + j ? "," : "", quant_format_get(formats[f])->name,
					mat_of(b, f)->pack ? "packed" : "file", columns[j], median(b->gmacs[f][j]),
					limit_of(b, f, columns[j], scale));
	fprintf(o, "\n], \"attention\": [");
	for (int type = 0; type < KERN_KV_N; type++)
		for (size_t j = 0; j < N_QUERIES; j++)
			fprintf(o, "%s\n  {\"cache\": \"%s\", \"head\": %d, \"queries\": %zu, \"mpos_s\": %.3f}",
					type || j ? "," : "", kv_names[type], HEAD, queries[j],
					median(b->mpos[type][j]));
	fprintf(o, "\n]}\n");
	return fclose(o) == 0;
}

int kern_bench(size_t level, const char *json_path)
{
	static struct bench b;
	char cpu[128];
	int status = 0;

	cpu_name(cpu, sizeof cpu);
	bench_init(&b, kern_get(level));
	for (int i = 0; i < ROUNDS; i++) {
		b.probe[i] = limit_probe();
		for (size_t f = 0; f < N_FORMATS; f++)
			for (size_t j = 0; j < N_COLUMNS; j++)
				b.gmacs[f][j][i] = cell_gmacs(&b, f, columns[j]);
		for (int type = 0; type < KERN_KV_N; type++)
			for (size_t j = 0; j < N_QUERIES; j++)
				b.mpos[type][j][i] = cell_mpos(&b, (enum kern_kv)type, queries[j]);
	}
	double probe = median(b.probe), scale = probe / LIMIT_PROBE_BASE;
	printf("%s; %s; level %s; 1 thread, k %d, %d rows, median of %d rounds\n", cpu, compiler_name(), b.kern->name,
			K, ROWS, ROUNDS);
	print_table(&b, probe, scale);
	if (json_path && !write_json(&b, json_path, cpu, probe, scale)) {
		fprintf(stderr, "kern_test: cannot write %s\n", json_path);
		status = 1;
	}
	bench_release(&b);
	return status;
}
