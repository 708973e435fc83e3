/* The contract: a row's logits are the same bits alone or in any batch, chunking, thread count, instruction-set level,
 * fresh or reused prefix.
 *
 * For each model four texts are decoded once in the plainest way (alone, one row at a time, one thread, the reference
 * level or, for the built-in model's long texts, the best) and every row's whole logits are kept. Then many separately
 * scheduled runs are compared with them by memcmp, one comparison per row: whole texts under every n_ubatch, thread
 * count and level; random mixtures of up to 32 sequences in random order and chunks; forks of a prefix, and tails
 * removed and decoded again.
 *
 * Rows also come in by other doors: as vectors, through encode (alone or with others), through one, many, each and
 * scatter. Sequences with a past of windows, gaps and moved cells are in test_exact_seq.c.
 *
 * Shown red by planted faults: mutation_* below swap in a matrix product that re-associates its sum when a tile has
 * four columns or more, and an activation rounding that depends on the row's neighbour; both must be caught. Planted
 * in the library once: a q8_0 scale of K left out at one level (golden_models, awkward_shapes), vectors gathered from
 * the wrong rows (vectors_exact_in_any_batch), sequences of an encode in the same blocks and poolings over the wrong
 * rows (encoders_exact_in_any_batch), outputs named in the order of the ubatches, an oversized span cut wrongly, a dry
 * pass that is not rolled back (rows_exact_in_any_batch_and_split). */
#include "cpu_case.h"
#include "effort.h"
#include "model_case.h"

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
	uint32_t window[2];           /* planted in the layers, in turn */
	enum cohort_split split;
	int32_t n_batch;              /* 0: 256 */
	uint32_t outputs;             /* 0: logits */
	enum cohort_pooling pooling;
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
	for (size_t l = 0; l < r->m->model.hp.n_layer; l++)
		r->m->model.layers[l].window = s->window[l % 2];
	cohort_context_params_init(&cp);
	cp.n_ctx = SEQ_MAX * (s->n + 32);
	cp.n_batch = s->n_batch ? s->n_batch : 256;
	cp.n_ubatch = n_ubatch;
	cp.n_threads = n_threads;
	cp.n_seq_max = SEQ_MAX;
	cp.kv_type = s->kv;
	cp.split = s->split;
	cp.outputs = s->outputs ? s->outputs : COHORT_OUTPUT_LOGITS;
	cp.pooling = s->pooling;
	if (cohort_context_open(r->m, &cp, &r->c, &err) || cohort_batch_init(&r->b, cp.n_batch, 0, 1, &err))
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
			assert_int_equal(cohort_seq_cp(r->c, 0, f, 0, -1, &err), COHORT_OK);
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

/* All schedules on all levels, thread counts and ubatch sizes; a third of the pairs of those two at each level, or all
 * in a long run. Short models only. */
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
				if (((size_t)threads + u + level) % 3 && !effort_is("long"))
					continue;
				rig_open(&r, s, cohort_isa_name(level), threads, ubatches[u], threads == 3);
				bad += whole_text(&r, s, (u + level) % N_TEXTS, s->n, 1 + (int32_t)(37 * u));
				/* 1 to 32 sequences; the reference level is slow, so it goes less far into the texts,
				 * and not every time. */
				if (level || (threads + (int32_t)u) % 2)
					bad += mixture(&r, s, 1 + (int32_t)((11 * (uint32_t)threads + 7 * u) % SEQ_MAX),
							level ? s->n : s->n / 3, 100 * level + u);
				if (u == 1 || (level && threads == 2))
					bad += forks(&r, s, s->n, u);
				rig_close(&r);
			}
	}
	assert_int_equal(bad, 0);
}

static void golden_models(void **state)
{
	static const struct {
		const char *name;
		enum cohort_kv_type kv;
	} models[] = {{"llama", COHORT_KV_F16}, {"llama", COHORT_KV_F32}, {"llama", COHORT_KV_Q8_0},
			{"llama3", COHORT_KV_F16}, {"quant-q4_0", COHORT_KV_F32}, {"quant-q4_k", COHORT_KV_Q8_0},
			{"quant-q6_k", COHORT_KV_F16}, {"quant-q8_0", COHORT_KV_Q8_0}};
	(void)state;
	for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
		struct subject s = {.kv = models[i].kv};
		char rest[128];
		snprintf(rest, sizeof rest, "tests/golden/data/%s.gguf", models[i].name);
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
			{517, 256, 1, 8, 8, 32, 32, 256, 32, 128, QUANT_TQ2_0, QUANT_MXFP4, QUANT_Q5_0, QUANT_TQ2_0,
					false, NULL, NULL, NULL},
			/* For the cache of q8_0, whose last group of a head is then short, or the only one. */
			{101, 40, 2, 4, 2, 40, 20, 64, 40, 128, QUANT_F32, QUANT_Q8_0, QUANT_F16, QUANT_F32, true, NULL,
					NULL, NULL},
			{103, 60, 2, 3, 1, 20, 40, 60, 10, 128, QUANT_F16, QUANT_F32, QUANT_F32, QUANT_BF16, true, NULL,
					NULL, NULL},
			{107, 64, 1, 6, 2, 33, 65, 32, 32, 128, QUANT_Q8_0, QUANT_F32, QUANT_F32, QUANT_F32, false,
					NULL, NULL, NULL},
	};
	(void)state;
	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
		struct subject s = {.kv = i >= 6 ? COHORT_KV_Q8_0 : i % 2 ? COHORT_KV_F32 : COHORT_KV_F16};
		char *path = synth_write(&shapes[i], i + 1);
		subject_open(&s, path, i == 0 ? 12 : 40, "ref", i);
		everything(&s);
		unlink(path);
		free(path);
		subject_close(&s);
	}
}

/* Several blocks: 200 tokens, 700 in a long run, 70 in a short one. The reference level is slow, so it takes
 * the beginning of one text. */
static void builtin_blocks(void **state)
{
	const int32_t n = effort_is("long") ? 700 : effort_is("short") ? 70 : 200;
	struct subject s = {.kv = COHORT_KV_F16};
	struct rig r;
	size_t bad = 0;
	const char *best = NULL;

	(void)state;
	subject_open(&s, source_path("models/cohort-tiny.gguf"), n, best, 3);
	rig_open(&r, &s, "ref", 2, 64, false);
	bad += whole_text(&r, &s, 0, s.n / 4, 50);
	rig_close(&r);
	for (int32_t threads = 1; threads <= 3; threads += effort_is("short") ? 2 : 1) {
		rig_open(&r, &s, best, threads, threads == 1 ? 64 : threads == 2 ? 7 : 3, false);
		bad += whole_text(&r, &s, 1, s.n, 256);
		bad += mixture(&r, &s, 2 * threads, s.n, (uint64_t)threads);
		bad += forks(&r, &s, s.n, (uint64_t)threads);
		rig_close(&r);
	}
	assert_int_equal(bad, 0);
	free(s.path);
	subject_close(&s);
}

/* ---- Other ways in: vectors, encode, the grid ---- */

static void ok(enum cohort_status st, const struct cohort_err *err)
{
	if (st)
		fail_msg("%s", err->text);
}

/* Small models for many runs; the first has heads of 40 and 20, the second rounds its rows. */
static const struct shape small[] = {
	{67, 40, 2, 2, 1, 40, 20, 40, 40, 1024, QUANT_F16, QUANT_F32, QUANT_BF16, QUANT_F16, false, NULL, NULL, NULL},
	{71, 64, 2, 3, 3, 33, 33, 64, 32, 1024, QUANT_Q8_0, QUANT_Q4_0, QUANT_F32, QUANT_Q8_0, true, NULL, NULL, NULL},
	{61, 32, 4, 4, 2, 16, 16, 48, 16, 1024, QUANT_F32, QUANT_F32, QUANT_F32, QUANT_F32, true, NULL, NULL, NULL},
};
enum { N_SMALL = 3, N_WAYS = 12 };

/* Way i to run: three splits, four ubatch sizes, 1 to 3 threads; now and then the reference level, which is slow. */
static void open_way(struct rig *r, struct subject *s, size_t i)
{
	static const int32_t ubatches[] = {64, 1, 7, 3};
	s->split = (enum cohort_split)(i % 3);
	rig_open(r, s, i % 5 == 2 ? "ref" : NULL, 1 + (int32_t)(i % 5 % 3), ubatches[i / 3 % 4], false);
}

/* The embedding of each token of a text: [n, n_embd]. */
static float *vectors_of(const struct rig *r, const struct subject *s, size_t text)
{
	const struct model_weight *e = r->m->model.token_embd;
	const struct quant_format *f = quant_format_get(e->type);
	const size_t bytes = e->k / f->block * f->block_bytes;
	float *all = malloc((size_t)s->n * e->k * sizeof *all);

	assert_non_null(all);
	for (int32_t i = 0; i < s->n; i++)
		f->to_f32((const uint8_t *)e->data + (size_t)s->text[text][i] * bytes, all + (size_t)i * e->k, e->k);
	return all;
}

/* Rows given as vectors: 28 and 3 coupled for 50 rows, then apart; 2 beside them with another text and other chunks. */
static size_t vector_rows(struct rig *r, const struct subject *s, struct rng *g)
{
	const cohort_seq both[] = {28, 3}, two = 2;
	const size_t n_embd = r->m->model.hp.n_embd;
	float *v[2] = {vectors_of(r, s, 0), vectors_of(r, s, 1)};
	struct cohort_batch b;
	struct cohort_err err;
	int32_t at[2] = {0};
	size_t bad = 0;

	ok(cohort_batch_init(&b, 256, (int32_t)n_embd, 2, &err), &err);
	while (at[0] < s->n || at[1] < s->n) {
		struct { size_t text; int32_t pos; } row[256];
		int32_t n = 0;
		cohort_batch_reset(&b);
		for (uint32_t k = rng_u32(g) % 30; k > 0 && at[0] < s->n; k--, at[0]++)
			for (int32_t id = 0; id < (at[0] < 50 ? 1 : 2); id++) {
				row[n].text = 0;
				row[n++].pos = at[0];
				ok(cohort_batch_add_embd(&b, v[0] + (size_t)at[0] * n_embd, &at[0], both + id,
						   at[0] < 50 ? 2 : 1, true, &err), &err);
			}
		for (uint32_t k = rng_u32(g) % 20; k > 0 && at[1] < s->n; k--, at[1]++) {
			row[n].text = 1;
			row[n++].pos = at[1];
			ok(cohort_batch_add_embd(&b, v[1] + (size_t)at[1] * n_embd, &at[1], &two, 1, true, &err), &err);
		}
		if (n == 0)
			continue;
		ok(cohort_decode(r->c, &b, &err), &err);
		for (int32_t i = 0; i < n; i++)
			bad += !same(r, s, i, row[i].text, row[i].pos);
	}
	cohort_batch_release(&b);
	free(v[0]);
	free(v[1]);
	return bad;
}

static void vectors_exact_in_any_batch(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_SMALL; i++) {
		struct subject s = {.kv = (enum cohort_kv_type)i, .window = {0, 40}};
		struct rng g;
		size_t bad = 0;
		rng_init(&g, i, 9);
		subject_open(&s, synth_write(&small[i], i), 90, "ref", i);
		for (size_t k = 0; k < N_WAYS; k++) {
			struct rig r;
			open_way(&r, &s, k);
			bad += vector_rows(&r, &s, &g);
			rig_close(&r);
		}
		assert_int_equal(bad, 0);
		unlink(s.path);
		free(s.path);
		subject_close(&s);
	}
}

enum { N_ENC = 7, ENC_MAX = 40 };
static const int32_t enc_len[N_ENC] = {1, 5, 31, 32, 33, ENC_MAX, 12};

struct encoded {
	cohort_token tokens[ENC_MAX];
	float *rows, *logits, *pooled; /* [ENC_MAX, n_embd], [ENC_MAX, n_vocab], [n_embd] */
};

static bool same_floats(const float *got, float *want, size_t n, bool keep)
{
	assert_non_null(got);
	if (keep)
		memcpy(want, got, n * sizeof *got);
	n_compared++;
	return memcmp(got, want, n * sizeof *got) == 0;
}

/* The sequences named in `which`, under falling ids, rows dealt in random order; compares or, with keep, notes. */
static size_t encode_some(struct rig *r, const struct subject *s, struct encoded *e, uint32_t which, bool keep,
		struct rng *g)
{
	const size_t n_embd = r->m->model.hp.n_embd;
	int32_t at[N_ENC] = {0}, left = 0;
	struct { size_t k; int32_t pos; } row[256];
	struct cohort_err err;
	size_t bad = 0;

	for (size_t k = 0; k < N_ENC; k++)
		left += which >> k & 1 ? enc_len[k] : 0;
	cohort_batch_reset(&r->b);
	for (int32_t n = 0; n < left;) {
		const size_t k = rng_u32(g) % N_ENC;
		for (uint32_t run = 1 + rng_u32(g) % 9; run > 0 && which >> k & 1 && at[k] < enc_len[k]; run--) {
			const cohort_seq id = (cohort_seq)(30 - 4 * k);
			row[n].k = k;
			row[n++].pos = at[k];
			ok(cohort_batch_add(&r->b, e[k].tokens[at[k]], at[k], &id, 1, true, &err), &err);
			at[k]++;
		}
	}
	ok(cohort_encode(r->c, &r->b, &err), &err);
	for (int32_t i = 0; i < left; i++) {
		const struct encoded *x = &e[row[i].k];
		bad += !same_floats(cohort_embeddings_get(r->c, i, NULL), x->rows + (size_t)row[i].pos * n_embd, n_embd,
				keep);
		bad += !same_floats(cohort_logits_get(r->c, i, NULL), x->logits + (size_t)row[i].pos * s->n_vocab,
				s->n_vocab, keep);
	}
	for (size_t k = 0; k < N_ENC && s->pooling != COHORT_POOL_NONE; k++) {
		const float *p = cohort_embeddings_seq_get(r->c, (cohort_seq)(30 - 4 * k), NULL);
		assert_true((p != NULL) == (which >> k & 1));
		bad += p && !same_floats(p, e[k].pooled, n_embd, keep);
	}
	return bad;
}

/* The first and the last row are what their poolings give, and a mean of one is that one. */
static void check_pooled(const struct subject *s, const struct encoded *e, size_t n_embd)
{
	for (size_t k = 0; k < N_ENC; k++) {
		const float *first = e[k].rows, *last = e[k].rows + (size_t)(enc_len[k] - 1) * n_embd;
		if (s->pooling == COHORT_POOL_CLS)
			assert_memory_equal(e[k].pooled, first, n_embd * sizeof *first);
		if (s->pooling == COHORT_POOL_LAST || (s->pooling == COHORT_POOL_MEAN && enc_len[k] == 1))
			assert_memory_equal(e[k].pooled, last, n_embd * sizeof *last);
	}
}

/* Alone first; then with others, beside sequences of the cache that are neither seen nor touched. */
static void encode_subject(struct subject *s, struct encoded *e, uint64_t seed)
{
	struct rig r;
	struct rng g;
	size_t bad = 0;

	rng_init(&g, seed, 2);
	rig_open(&r, s, "ref", 1, ENC_MAX, false);
	for (size_t k = 0; k < N_ENC; k++) {
		const size_t n_embd = r.m->model.hp.n_embd;
		for (int32_t i = 0; i < ENC_MAX; i++)
			e[k].tokens[i] = (cohort_token)(rng_u32(&g) % s->n_vocab);
		e[k].rows = malloc(ENC_MAX * n_embd * sizeof(float));
		e[k].logits = malloc(ENC_MAX * s->n_vocab * sizeof(float));
		e[k].pooled = malloc(n_embd * sizeof(float));
		assert_true(e[k].rows && e[k].logits && e[k].pooled);
		bad += encode_some(&r, s, e, 1u << k, true, &g);
	}
	check_pooled(s, e, r.m->model.hp.n_embd);
	rig_close(&r);
	for (size_t i = 0; i < 6; i++) {
		rig_open(&r, s, i == 3 ? "ref" : NULL, 1 + (int32_t)(i % 3), ENC_MAX + (int32_t)(i * i * 7), false);
		for (int32_t at = 0; at < s->n; at += 10) {
			cohort_batch_reset(&r.b);
			for (int32_t j = at; j < at + 10; j++)
				add(&r, s, 2, j, 26, true);
			decode(&r);
			for (int32_t j = 0; j < 10; j++)
				bad += !same(&r, s, j, 2, at + j);
			const uint64_t hash = memory_hash(&r.c->memory);
			bad += encode_some(&r, s, e, 1 + rng_u32(&g) % ((1u << N_ENC) - 1), false, &g);
			bad += encode_some(&r, s, e, (1u << N_ENC) - 1, false, &g);
			assert_int_equal(cohort_warm_up(r.c, 3, 2, NULL), COHORT_OK);
			assert_true(memory_hash(&r.c->memory) == hash);
		}
		rig_close(&r);
	}
	assert_int_equal(bad, 0);
}

static void encoders_exact_in_any_batch(void **state)
{
	(void)state;
	for (size_t i = 0; i < 6; i++) {
		struct subject s = {.kv = (enum cohort_kv_type)(i % 3), .pooling = (enum cohort_pooling)(i % 4),
				.outputs = COHORT_OUTPUT_LOGITS | COHORT_OUTPUT_EMBEDDINGS,
				.window = {0, i > 2 ? 5 : 0}};
		struct encoded e[N_ENC];
		subject_open(&s, synth_write(&small[i % N_SMALL], i), 40, "ref", i);
		encode_subject(&s, e, i);
		for (size_t k = 0; k < N_ENC; k++) {
			free(e[k].rows);
			free(e[k].logits);
			free(e[k].pooled);
		}
		unlink(s.path);
		free(s.path);
		subject_close(&s);
	}
}

enum { N_SPANS = 11 };

/* Spans by scatter, each sequence from where it is in its text, half with output; then one row each by `each`, and one
 * more by `one`. */
static size_t grid_round(struct rig *r, const struct subject *s, struct cohort_scratch *scratch, int32_t *at,
		struct rng *g)
{
	struct cohort_scatter_item items[N_SPANS];
	struct cohort_each_item each[N_SPANS];
	struct cohort_err err;
	int32_t n_outputs = 0, end = 0, last = -1;
	size_t bad = 0;

	for (int32_t k = 0; k < N_SPANS; k++) {
		int32_t n = (int32_t)(rng_u32(g) % 6 ? rng_u32(g) % 9 : rng_u32(g) % 75);
		n = at[k] + n < s->n - 20 ? n : 0; /* what the other calls add fits behind */
		items[k] = (struct cohort_scatter_item){
				s->text[k % N_TEXTS] + at[k], n, at[k], 31 - 2 * k, rng_u32(g) % 2};
	}
	ok(cohort_decode_scatter(r->c, items, N_SPANS, scratch, &err), &err);
	for (int32_t k = 0; k < N_SPANS; k++) {
		end += items[k].n_tokens;
		at[k] += items[k].n_tokens;
		if (items[k].want && items[k].n_tokens) {
			bad += !same(r, s, end - 1, (size_t)k % N_TEXTS, at[k] - 1);
			n_outputs++;
			last = k;
		}
	}
	if (end) /* no tokens at all do nothing */
		assert_int_equal(cohort_n_outputs(r->c), n_outputs);
	if (n_outputs)
		bad += !same(r, s, -1, (size_t)last % N_TEXTS, at[last] - 1);

	const int32_t n = 1 + (int32_t)(rng_u32(g) % N_SPANS);
	for (int32_t i = 0, k = N_SPANS - 1; i < n; i++, k--)
		each[i] = (struct cohort_each_item){s->text[k % N_TEXTS][at[k]], at[k], 31 - 2 * k, i % 3 != 1};
	ok(cohort_decode_each(r->c, each, n, scratch, &err), &err);
	for (int32_t i = 0, k = N_SPANS - 1; i < n; i++, k--) {
		if (each[i].want)
			bad += !same(r, s, i, (size_t)k % N_TEXTS, at[k]);
		at[k]++;
	}
	ok(cohort_decode_one(r->c, s->text[0][at[0]], at[0], 31, true, &err), &err);
	bad += (size_t)!same(r, s, 0, 0, at[0]) + (size_t)!same(r, s, -1, 0, at[0]);
	at[0]++;
	return bad;
}

static size_t grid_run(struct rig *r, const struct subject *s, struct cohort_scratch *scratch, struct rng *g)
{
	int32_t at[N_SPANS] = {0};
	struct cohort_err err;
	size_t bad = 0;

	/* many: the whole text in one call; then by pieces of any size. */
	ok(cohort_decode_many(r->c, s->text[3], s->n, 0, 2, &err), &err);
	bad += !same(r, s, s->n - 1, 3, s->n - 1);
	for (int32_t p = 0; p < s->n;) {
		int32_t n = 1 + (int32_t)(rng_u32(g) % 60);
		n = n < s->n - p ? n : s->n - p;
		ok(cohort_decode_many(r->c, s->text[1] + p, n, p, 4, &err), &err);
		p += n;
		bad += !same(r, s, n - 1, 1, p - 1);
		assert_int_equal(cohort_n_outputs(r->c), 1);
	}
	for (int round = 0; round < 8; round++)
		bad += grid_round(r, s, round % 2 ? scratch : NULL, at, g);
	return bad;
}

static void rows_exact_in_any_batch_and_split(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_SMALL; i++) {
		struct subject s = {.kv = (enum cohort_kv_type)i, .window = {i ? 40 : 0, i == 2 ? 5 : 0}};
		struct cohort_scratch scratch;
		struct rng g;
		size_t bad = 0;
		rng_init(&g, i, 4);
		cohort_scratch_init(&scratch);
		subject_open(&s, synth_write(&small[i], i), 160, "ref", i);
		for (size_t k = 0; k < N_WAYS; k++) {
			struct rig r;
			s.n_batch = k % 4 == 0 ? 16 : k % 4 == 1 ? 33 : N_SPANS; /* `each` needs that many */
			open_way(&r, &s, k);
			bad += grid_run(&r, &s, &scratch, &g);
			rig_close(&r);
		}
		assert_int_equal(bad, 0);
		cohort_scratch_release(&scratch);
		unlink(s.path);
		free(s.path);
		subject_close(&s);
	}
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
	*copy = *cpu_weights_get(r.m)->kern;
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
	for (size_t i = 0; i < cpu_weights_get(m)->source.n; i++)
		cpu_weights_get(m)->w[i].mat = &copy->file[QUANT_F32];
}

static void plant_act(struct cohort_model *m, struct kern *copy)
{
	/* The context has its own pointer to the table, so the fault goes into the table itself. */
	struct kern *table = (struct kern *)cpu_weights_get(m)->kern;
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

static void exact_compared_enough_rows(void **state)
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
		cmocka_unit_test(builtin_blocks),
		cmocka_unit_test(vectors_exact_in_any_batch),
		cmocka_unit_test(encoders_exact_in_any_batch),
		cmocka_unit_test(rows_exact_in_any_batch_and_split),
		cmocka_unit_test(exact_compared_enough_rows),
		cmocka_unit_test(mutation_mm),
		cmocka_unit_test(mutation_act),
	};
	return cmocka_run_group_tests_name("exact", tests, NULL, NULL);
}
