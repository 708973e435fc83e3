/* Telling the same story on several devices, and keeping what it returns. */
#ifndef TESTS_BACKEND_CASE_H
#define TESTS_BACKEND_CASE_H

#include "arch_case.h"
#include "plain_backend.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { SEQ_MAX = 6,
	N_TEXT = 90,
	LENGTH = 80 };

/* ---- What a story returns ---- */

struct record {
	uint8_t *bytes;
	size_t n, n_max;
};

static inline void note(struct record *r, const void *bytes, size_t n)
{
	if (r->n + n > r->n_max) {
		r->n_max = 2 * (r->n + n);
		r->bytes = realloc(r->bytes, r->n_max);
		assert_non_null(r->bytes);
	}
	memcpy(r->bytes + r->n, bytes, n);
	r->n += n;
}

static inline void note_number(struct record *r, int64_t v)
{
	note(r, &v, sizeof v);
}

struct telling {
	struct cohort_model *m;
	struct cohort_context *c;
	struct cohort_batch b;
	struct cohort_model_info info;
	cohort_token text[N_TEXT];
	struct record *r;
};

struct setting {
	const char *path, *device;
	enum cohort_kv_type kv;
	int32_t n_ubatch;
	enum cohort_split split;
	bool no_mmap;
	const char *adapter; /* of all rows, or NULL */
	int32_t n_batch;     /* 0: 64 */
};

static inline void telling_open(struct telling *t, const struct setting *s, struct record *r)
{
	struct cohort_model_params mp;
	struct cohort_context_params cp;
	struct cohort_err err;
	const float scale = 0.5f;

	*t = (struct telling){.r = r};
	cohort_model_params_init(&mp);
	mp.device = s->device;
	mp.no_mmap = s->no_mmap;
	mp.adapters = &s->adapter;
	mp.adapter_scales = &scale;
	mp.n_adapters = s->adapter != NULL;
	if (cohort_model_open(s->path, &mp, &t->m, &err))
		fail_msg("%s", err.text);
	cohort_model_info_get(t->m, &t->info);
	cohort_context_params_init(&cp);
	cp.n_ctx = SEQ_MAX * 128;
	cp.n_batch = s->n_batch ? s->n_batch : 64;
	cp.n_ubatch = t->info.encoder && s->n_ubatch < 30 && !s->n_batch ? 30 : s->n_ubatch;
	cp.n_seq_max = SEQ_MAX;
	cp.n_threads = 1;
	cp.kv_type = s->kv;
	cp.split = s->split;
	cp.n_checkpoints = 2;
	cp.outputs = t->info.encoder ? COHORT_OUTPUT_EMBEDDINGS : COHORT_OUTPUT_EMBEDDINGS | COHORT_OUTPUT_LOGITS;
	cp.pooling = t->info.encoder ? COHORT_POOL_MEAN : COHORT_POOL_NONE;
	if (cohort_context_open(t->m, &cp, &t->c, &err) || cohort_batch_init(&t->b, cp.n_batch, 0, SEQ_MAX, &err))
		fail_msg("%s", err.text);
	for (int32_t i = 0; i < N_TEXT; i++)
		t->text[i] = (11 * i * i + 5 * i + 3) % (t->info.n_vocab < 90 ? t->info.n_vocab : 90);
}

static inline void telling_close(struct telling *t)
{
	cohort_batch_release(&t->b);
	cohort_context_free(t->c);
	cohort_model_free(t->m);
}

static inline void add(struct telling *t, int32_t token, cohort_pos pos, const cohort_seq *seqs, int32_t n, bool output)
{
	assert_int_equal(cohort_batch_add(&t->b, t->text[token % N_TEXT], pos, seqs, n, output, NULL), COHORT_OK);
}

/* What the last call gave of every row that asked for it. */
static inline void note_outputs(struct telling *t)
{
	for (int32_t i = 0; i < t->b.n_tokens; i++) {
		const float *logits = t->info.encoder ? NULL : cohort_logits_get(t->c, i, NULL);
		const float *embd = cohort_embeddings_get(t->c, i, NULL);
		note_number(t->r, i);
		if (logits)
			note(t->r, logits, (size_t)t->info.n_vocab * sizeof *logits);
		if (embd)
			note(t->r, embd, (size_t)t->info.n_embd * sizeof *embd);
	}
}

static inline void note_books(struct telling *t)
{
	for (cohort_seq s = 0; s < SEQ_MAX; s++) {
		note_number(t->r, cohort_seq_pos_min(t->c, s));
		note_number(t->r, cohort_seq_pos_max(t->c, s));
	}
}

static inline size_t save(struct telling *t, cohort_seq seq, uint8_t **bytes)
{
	struct cohort_err err;
	size_t n = cohort_state_size(t->c, seq);

	*bytes = malloc(n);
	assert_non_null(*bytes);
	if (cohort_state_save(t->c, seq, *bytes, n, &n, &err))
		fail_msg("%s", err.text);
	return n;
}

static inline void note_state(struct telling *t)
{
	uint8_t *bytes;
	const size_t n = save(t, COHORT_SEQ_ALL, &bytes);

	note(t->r, bytes, n);
	free(bytes);
}

/* Of tests/golden/data, or of those that make_models.py writes. */
static inline const char *model_path(char *path, size_t n, const char *name)
{
	snprintf(path, n, "%s/tests/golden/data/%s.gguf", env_or("COHORT_SOURCE", "."), name);
	return access(path, R_OK) ? arch_path(path, n, name, "gguf") : path;
}

/* A cmocka group set-up. */
static inline int setup(void **state)
{
	plain_register();
	return arch_make_models(state);
}

#endif
