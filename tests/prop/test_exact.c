/* The contract: a row's logits are the same bits alone or in any batch, chunking, thread count, instruction-set level,
 * fresh or reused prefix.
 *
 * For each model four texts are decoded once in the plainest way (alone, one row at a time, one thread, the reference
 * level or, for the built-in model's long texts, the best) and every row's whole logits are kept. Then many separately
 * scheduled runs are compared with them by memcmp, one comparison per row: whole texts under every n_ubatch, thread
 * count and level; random mixtures of up to 32 sequences in random order and chunks; forks of a prefix, and tails
 * removed and decoded again.
 *
 * Shown red by planted faults: mutation_* below swap in a matrix product that re-associates its sum when a tile has
 * four columns or more, and an activation rounding that depends on the row's neighbour; both must be caught. */
#include "model_case.h"

#include "backend/cpu.h"
#include "context/impl.h"
#include "kern/kern_math.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { N_TEXTS = 4, SEQ_MAX = 32 };

static uint64_t n_compared; /* over the whole program */

struct subject {
	char *path;
	enum cohort_kv_type kv;
	size_t n_vocab;
	int32_t n;                    /* tokens per text */
	cohort_token *text[N_TEXTS];
	float *want[N_TEXTS];         /* [n, n_vocab] */
};

struct rig {
	struct cohort_model *m;
	struct cohort_context *c;
	struct cohort_batch b;
};

static void rig_open(struct rig *r, const struct subject *s, const char *isa, int32_t n_threads, int32_t n_ubatch,
		bool file_layout)
{
	struct cohort_model_params mp;
	struct cohort_context_params cp;
	struct cohort_err err;

	cohort_model_params_init(&mp);
	mp.isa = isa;
	mp.file_layout = file_layout;
	if (cohort_model_open(s->path, &mp, &r->m, &err))
		fail_msg("%s", err.text);
	cohort_context_params_init(&cp);
	cp.n_ctx = SEQ_MAX * (s->n + 32);
	cp.n_batch = 256;
	cp.n_ubatch = n_ubatch;
	cp.n_threads = n_threads;
	cp.n_seq_max = SEQ_MAX;
	cp.kv_type = s->kv;
	if (cohort_context_open(r->m, &cp, &r->c, &err) || cohort_batch_init(&r->b, cp.n_batch, 1, &err))
		fail_msg("%s", err.text);
}

static void rig_close(struct rig *r)
{
	cohort_batch_release(&r->b);
	cohort_context_free(r->c);
	cohort_model_free(r->m);
}

static void add(struct rig *r, const struct subject *s, size_t text, int32_t pos, cohort_seq seq, bool output)
{
	struct cohort_err err;
	if (cohort_batch_add(&r->b, s->text[text][pos], pos, &seq, 1, output, &err))
		fail_msg("%s", err.text);
}

static void decode(struct rig *r)
{
	struct cohort_err err;
	if (cohort_decode(r->c, &r->b, &err))
		fail_msg("%s", err.text);
}

/* Whether batch row i has the bits of the text's row. */
static bool same(const struct rig *r, const struct subject *s, int32_t i, size_t text, int32_t pos)
{
	const float *got = cohort_logits_get(r->c, i, NULL);
	assert_non_null(got);
	n_compared++;
	return memcmp(got, s->want[text] + (size_t)pos * s->n_vocab, s->n_vocab * sizeof *got) == 0;
}

static void subject_open(struct subject *s, char *path, int32_t n, const char *isa, uint64_t seed)
{
	struct cohort_model_info info;
	struct rig r;
	struct rng g;

	s->path = path;
	s->n = n;
	rng_init(&g, seed, 1);
	rig_open(&r, s, isa, 1, 1, false);
	cohort_model_info_get(r.m, &info);
	s->n_vocab = (size_t)info.n_vocab;
	for (size_t t = 0; t < N_TEXTS; t++) {
		s->text[t] = malloc((size_t)n * sizeof(cohort_token));
		s->want[t] = malloc((size_t)n * s->n_vocab * sizeof(float));
		assert_true(s->text[t] && s->want[t]);
		cohort_seq_clear(r.c);
		for (int32_t i = 0; i < n; i++) {
			s->text[t][i] = (cohort_token)(rng_u32(&g) % s->n_vocab);
			cohort_batch_reset(&r.b);
			add(&r, s, t, i, 0, true);
			decode(&r);
			memcpy(s->want[t] + (size_t)i * s->n_vocab, cohort_logits_get(r.c, 0, NULL),
					s->n_vocab * sizeof(float));
		}
	}
	rig_close(&r);
}

static void subject_close(struct subject *s)
{
	for (size_t t = 0; t < N_TEXTS; t++) {
		free(s->text[t]);
		free(s->want[t]);
	}
}

/* ---- The schedules: each returns the number of rows that differed ---- */

static size_t whole_text(struct rig *r, const struct subject *s, size_t text, int32_t n, int32_t chunk)
{
	size_t bad = 0;
	cohort_seq_clear(r->c);
	for (int32_t at = 0; at < n; at += chunk) {
		int32_t len = n - at < chunk ? n - at : chunk;
		cohort_batch_reset(&r->b);
		for (int32_t i = 0; i < len; i++)
			add(r, s, text, at + i, 0, true);
		decode(r);
		for (int32_t i = 0; i < len; i++)
			bad += !same(r, s, i, text, at + i);
	}
	return bad;
}

/* n_seq sequences, each at its own place in its own text, in random order and chunks, most rows with output. */
static size_t mixture(struct rig *r, const struct subject *s, int32_t n_seq, int32_t n, uint64_t seed)
{
	struct { int32_t pos; size_t text; } at[SEQ_MAX];
	struct { size_t text; int32_t pos; bool output; } row[256];
	struct rng g;
	size_t bad = 0;
	int32_t n_left = n_seq;

	rng_init(&g, seed, (uint64_t)n_seq);
	cohort_seq_clear(r->c);
	for (int32_t i = 0; i < n_seq; i++) {
		at[i].pos = 0;
		at[i].text = rng_u32(&g) % N_TEXTS;
	}
	while (n_left > 0) {
		int32_t n_rows = 0;
		uint32_t first = rng_u32(&g), stride = 2 * (rng_u32(&g) % 16) + 1;
		cohort_batch_reset(&r->b);
		for (uint32_t j = 0; j < SEQ_MAX; j++) {
			uint32_t i = (first + j * stride) %
					SEQ_MAX; /* an odd stride visits every id, in an odd order */
			if (i >= (uint32_t)n_seq || at[i].pos >= n || rng_u32(&g) % 4 == 0)
				continue;
			int32_t len = rng_u32(&g) % 3 ? 1 : 1 + (int32_t)(rng_u32(&g) % 40);
			for (; len > 0 && at[i].pos < n && n_rows < 256; len--, n_rows++) {
				row[n_rows].text = at[i].text;
				row[n_rows].pos = at[i].pos;
				row[n_rows].output = rng_u32(&g) % 4 != 0;
				add(r, s, at[i].text, at[i].pos++, (cohort_seq)i, row[n_rows].output);
			}
			n_left -= at[i].pos >= n;
		}
		if (n_rows == 0)
			continue;
		decode(r);
		for (int32_t i = 0; i < n_rows; i++)
			if (row[i].output)
				bad += !same(r, s, i, row[i].text, row[i].pos);
	}
	return bad;
}

/* A prefix computed once and forked; tails removed and decoded again beside another sequence. */
static size_t forks(struct rig *r, const struct subject *s, int32_t n, uint64_t seed)
{
	struct cohort_err err;
	struct rng g;
	size_t bad = 0;

	rng_init(&g, seed, 7);
	for (int round = 0; round < 4; round++) {
		int32_t prefix = 1 + (int32_t)(rng_u32(&g) % (uint32_t)(n - 1)),
			n_forks = 2 + (int32_t)(rng_u32(&g) % 6);
		size_t text = rng_u32(&g) % N_TEXTS;
		whole_text(r, s, text, prefix, 64);
		for (cohort_seq f = 1; f <= n_forks; f++)
			assert_int_equal(cohort_seq_cp(r->c, 0, f, &err), COHORT_OK);
		for (int32_t pos = prefix; pos < n && pos < prefix + 40; pos++) {
			cohort_batch_reset(&r->b);
			for (cohort_seq f = n_forks; f >= 0; f--)
				add(r, s, text, pos, f, true);
			decode(r);
			for (int32_t i = 0; i <= n_forks; i++)
				bad += !same(r, s, i, text, pos);
		}
		int32_t cut = (int32_t)(rng_u32(&g) % (uint32_t)prefix);
		assert_int_equal(cohort_seq_rm(r->c, 1, cut, -1, &err), COHORT_OK);
		for (int32_t pos = cut; pos < prefix;) {
			int32_t from = pos;
			cohort_batch_reset(&r->b);
			for (int32_t i = 0; i < 13 && pos < prefix; i++)
				add(r, s, text, pos++, 1, true);
			decode(r);
			for (int32_t i = from; i < pos; i++)
				bad += !same(r, s, i - from, text, i);
		}
	}
	return bad;
}

/* ---- Subjects ---- */

static char *source_path(const char *rest)
{
	char path[1024];
	snprintf(path, sizeof path, "%s/%s", env_or("COHORT_SOURCE", "."), rest);
	return strdup(path);
}

/* All schedules on all levels, thread counts and ubatch sizes. Short models only. */
static void everything(struct subject *s)
{
	static const int32_t ubatches[] = {1, 3, 7, 64};
	size_t bad = 0;

	for (size_t level = 0; level < cohort_isa_count(); level++) {
		if (!cohort_isa_usable(level))
			continue;
		for (int32_t threads = 1; threads <= 3; threads++)
			for (size_t u = 0; u < 4; u++) {
				struct rig r;
				rig_open(&r, s, cohort_isa_name(level), threads, ubatches[u], threads == 3);
				bad += whole_text(&r, s, (u + level) % N_TEXTS, s->n, 1 + (int32_t)(37 * u));
				/* 1 to 32 sequences; the reference level is slow, so it goes less far into the texts.
				 */
				bad += mixture(&r, s, 1 + (int32_t)((11 * (uint32_t)threads + 7 * u) % SEQ_MAX),
						level ? s->n : s->n / 3, 100 * level + u);
				if (threads == 2)
					bad += forks(&r, s, s->n, u);
				rig_close(&r);
			}
	}
	assert_int_equal(bad, 0);
}

static void golden_models(void **state)
{
	static const char *const names[] = {"llama", "llama3", "quant-q4_0", "quant-q4_k", "quant-q6_k", "quant-q8_0"};
	(void)state;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		struct subject s = {.kv = i % 2 ? COHORT_KV_F16 : COHORT_KV_F32};
		char rest[128];
		snprintf(rest, sizeof rest, "tests/golden/data/%s.gguf", names[i]);
		subject_open(&s, source_path(rest), 36, "ref", i);
		everything(&s);
		free(s.path);
		subject_close(&s);
	}
}

/* Vocabulary not a multiple of anything, odd heads, rows that fill no tile, heads that fill no register; every format
 * once. */
static void awkward_shapes(void **state)
{
	const struct shape shapes[] = {
			{32001, 96, 1, 3, 1, 20, 12, 160, 20, 128, QUANT_Q8_0, QUANT_Q4_0, QUANT_F16, QUANT_BF16, false,
					NULL, NULL, NULL},
			{1001, 256, 2, 5, 5, 26, 33, 256, 10, 128, QUANT_Q4_K, QUANT_Q6_K, QUANT_F32, QUANT_Q6_K, true,
					NULL, NULL, NULL},
			{333, 72, 2, 7, 7, 9, 5, 100, 8, 128, QUANT_F16, QUANT_BF16, QUANT_F32, QUANT_F32, true, NULL,
					NULL, NULL},
			{517, 256, 1, 9, 3, 32, 32, 512, 32, 128, QUANT_Q5_K, QUANT_Q3_K, QUANT_Q5_1, QUANT_Q4_1, false,
					NULL, NULL, NULL},
			{517, 256, 1, 8, 2, 32, 32, 256, 32, 128, QUANT_IQ4_XS, QUANT_Q2_K, QUANT_IQ4_NL, QUANT_Q5_0,
					false, NULL, NULL, NULL},
			{517, 256, 1, 8, 8, 32, 32, 256, 32, 128, QUANT_TQ2_0, QUANT_Q4_K, QUANT_Q5_0, QUANT_TQ2_0,
					false, NULL, NULL, NULL},
	};
	(void)state;
	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
		struct subject s = {.kv = i % 2 ? COHORT_KV_F32 : COHORT_KV_F16};
		char *path = synth_write(&shapes[i], i + 1);
		subject_open(&s, path, i == 0 ? 12 : 40, "ref", i);
		everything(&s);
		unlink(path);
		free(path);
		subject_close(&s);
	}
}

/* Many blocks: 700 tokens. The reference level is slow, so it takes one text. */
static void builtin_700(void **state)
{
	struct subject s = {.kv = COHORT_KV_F16};
	struct rig r;
	size_t bad = 0;
	const char *best = NULL;

	(void)state;
	subject_open(&s, source_path("models/cohort-tiny.gguf"), 700, best, 3);
	rig_open(&r, &s, "ref", 2, 64, false);
	bad += whole_text(&r, &s, 0, s.n, 200);
	rig_close(&r);
	for (int32_t threads = 1; threads <= 3; threads++) {
		rig_open(&r, &s, best, threads, threads == 1 ? 64 : threads == 2 ? 7 : 3, false);
		bad += whole_text(&r, &s, 1, s.n, 256);
		bad += mixture(&r, &s, 4 * threads, s.n, (uint64_t)threads);
		bad += forks(&r, &s, s.n, (uint64_t)threads);
		rig_close(&r);
	}
	assert_int_equal(bad, 0);
	free(s.path);
	subject_close(&s);
}

/* ---- Planted faults ---- */

static void (*true_mm)(const struct kern_mm *, size_t, size_t);
static void (*true_act)(const float *, size_t, void *);

/* Re-associates: with four columns or more, the two halves of k are summed apart. */
static void torn_mm(const struct kern_mm *m, size_t row0, size_t row1)
{
	true_mm(m, row0, row1);
	if (m->n_cols < 4 || m->k < 16)
		return;
	for (size_t c = 0; c < m->n_cols; c++)
		for (size_t r = row0; r < row1; r++) {
			const float *w = (const float *)m->w + r * m->k;
			const float *x = (const float *)(const void *)((const uint8_t *)m->act + c * m->act_bytes);
			float lo[8] = {0}, hi[8] = {0};
			for (size_t i = 0; i < m->k / 2; i++)
				lo[i % 8] = fmaf(w[i], x[i], lo[i % 8]);
			for (size_t i = m->k / 2; i < m->k; i++)
				hi[i % 8] = fmaf(w[i], x[i], hi[i % 8]);
			m->out[c * m->out_ld + r] = kern_tree8(lo) + kern_tree8(hi);
		}
}

/* Lets the row before, on the same thread, touch the last bits of a scale. */
static void leaky_act(const float *x, size_t k, void *out)
{
	static _Thread_local float last;
	struct kern_act_q8_32 *o = out;
	true_act(x, k, out);
	if (last > o[0].d)
		o[0].d *= 1.0f + 0x1p-20f;
	last = o[0].d;
}

static size_t with_fault(const char *name, void (*plant)(struct cohort_model *m, struct kern *copy))
{
	struct subject s = {.kv = COHORT_KV_F32};
	struct rig r;
	char rest[128];
	struct kern *copy = malloc(sizeof *copy);

	snprintf(rest, sizeof rest, "tests/golden/data/%s.gguf", name);
	subject_open(&s, source_path(rest), 48, "ref", 1);
	rig_open(&r, &s, "ref", 2, 64, false);
	assert_non_null(copy);
	*copy = *r.m->weights->kern;
	plant(r.m, copy);
	size_t bad = mixture(&r, &s, 8, s.n, 5);
	rig_close(&r);
	free(copy);
	free(s.path);
	subject_close(&s);
	return bad;
}

static void plant_mm(struct cohort_model *m, struct kern *copy)
{
	true_mm = copy->file[QUANT_F32].mm;
	copy->file[QUANT_F32].mm = torn_mm;
	for (size_t i = 0; i < m->weights->n; i++)
		m->weights->w[i].mat = &copy->file[QUANT_F32];
}

static void plant_act(struct cohort_model *m, struct kern *copy)
{
	/* The context has its own pointer to the table, so the fault goes into the table itself. */
	struct kern *table = (struct kern *)m->weights->kern;
	(void)copy;
	true_act = table->act[QUANT_ACT_Q8_32];
	table->act[QUANT_ACT_Q8_32] = leaky_act;
}

static void mutation_mm(void **state)
{
	(void)state;
	assert_true(with_fault("llama", plant_mm) > 0);
}

static void mutation_act(void **state)
{
	(void)state;
	size_t bad = with_fault("quant-q4_0", plant_act);
	((struct kern *)kern_get(0))->act[QUANT_ACT_Q8_32] = true_act;
	assert_true(bad > 0);
}

static void enough_comparisons(void **state)
{
	(void)state;
	print_message("# %llu rows compared\n", (unsigned long long)n_compared);
	assert_true(n_compared >= 2000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(golden_models),
		cmocka_unit_test(awkward_shapes),
		cmocka_unit_test(builtin_700),
		cmocka_unit_test(enough_comparisons),
		cmocka_unit_test(mutation_mm),
		cmocka_unit_test(mutation_act),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
