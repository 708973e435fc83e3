/* Scenes: contexts, the decode grid, sequences, encoders, recurrent states, saved states. */
#include "torture.h"

#include <stdlib.h>
#include <string.h>

enum { N_VOCAB = 512, N_EMBD = 64, N_BERT = 64 };

static void mix_logits(struct life *l, const struct cohort_context *c, int32_t i)
{
	const float *logits = cohort_logits_get(c, i, NULL);

	if (logits)
		life_mix(l, logits, N_VOCAB * sizeof *logits);
	else
		life_complain(l, "no logits");
}

static void mix_books(struct life *l, const struct cohort_context *c)
{
	struct cohort_usage u;

	cohort_usage_get(c, &u);
	life_mix_number(l, u.n_used);
	life_mix_number(l, u.n_shared);
	for (cohort_seq s = 0; s < 8; s++)
		life_mix_number(l, cohort_seq_pos_max(c, s));
}

/* ---- The grid ---- */

static void take(void *user, int32_t item, const float *logits)
{
	struct life *l = user;

	life_mix_number(l, item);
	life_mix(l, logits, N_VOCAB * sizeof *logits);
}

/* What was taken in a call that failed is of no use. */
static enum cohort_status scatter_to(struct life *l, struct cohort_context *c, const struct cohort_scatter_item *items,
		int32_t n, struct cohort_scratch *scratch)
{
	const uint64_t before = l->hash;
	const enum cohort_status st = cohort_decode_scatter_to(c, items, n, scratch, take, l, &l->err);

	if (st)
		l->hash = before;
	return st;
}

/* Two sequences that go on together and part within a batch, and one of vectors. */
static bool decode_shared(struct life *l, struct cohort_context *c)
{
	static float vectors[3][N_EMBD];
	struct cohort_batch b = {0}, v = {0};
	const cohort_pos at = cohort_seq_pos_max(c, 0) + 1;
	bool ok = false;

	TRY(cohort_seq_cp(c, 0, 5, 0, -1, &l->err));
	TRY(cohort_batch_init(&b, 24, 0, 2, &l->err));
	for (int32_t i = 0; i < 16; i++) {
		const cohort_seq ids[2] = {i < 10 || i % 2 ? 0 : 5, 5};
		const cohort_pos pos = at + (i < 10 ? i : 10 + (i - 10) / 2);
		TRY(cohort_batch_add(&b, stage.tokens[i], pos, ids, i < 10 ? 2 : 1, true, &l->err));
	}
	TRY(cohort_decode(c, &b, &l->err));
	for (int32_t i = 0; i < 16; i++)
		mix_logits(l, c, i);
	TRY(cohort_batch_init(&v, 3, N_EMBD, 1, &l->err));
	for (cohort_pos i = 0; i < 3; i++) {
		const cohort_seq seq = 6;
		for (int k = 0; k < N_EMBD; k++)
			vectors[i][k] = (float)((i * 31 + k * 7) % 13) / 13;
		TRY(cohort_batch_add_embd(&v, vectors[i], &i, &seq, 1, true, &l->err));
	}
	TRY(cohort_decode(c, &v, &l->err));
	mix_logits(l, c, -1);
	ok = true;
out:
	cohort_batch_release(&b);
	cohort_batch_release(&v);
	return ok;
}

static void decode(struct life *l)
{
	struct cohort_context_params cp;
	struct cohort_context *c = NULL;
	struct cohort_batch b = {0};
	struct cohort_scratch scratch;
	struct cohort_each_item each[6];
	struct cohort_scatter_item scatter[5];
	struct cohort_score score;
	float logprobs[40];

	cohort_scratch_init(&scratch);
	stage_context_params(&cp);
	cp.n_ctx = 640;
	TRY(cohort_context_open(stage.model, &cp, &c, &l->err));
	TRY(cohort_warm_up(c, 2, 3, &l->err));
	TRY(cohort_batch_init(&b, 24, 0, 2, &l->err));
	for (int32_t i = 0; i < 20; i++) {
		const cohort_seq ids[2] = {i % 2 ? 1 : 0, 4};
		TRY(cohort_batch_add(&b, stage.tokens[i], i / 2, ids, 1, i > 17, &l->err));
	}
	TRY(cohort_check(c, &b, &l->err));
	TRY(cohort_decode(c, &b, &l->err));
	mix_logits(l, c, -1);
	mix_logits(l, c, -2);
	TRY(cohort_decode_one(c, 9, 10, 0, true, &l->err));
	mix_logits(l, c, -1);
	if (!decode_shared(l, c))
		goto out;
	TRY(cohort_decode_many(c, stage.tokens, 50, 0, 2, &l->err));
	mix_logits(l, c, -1);
	for (int32_t i = 0; i < 3; i++)
		each[i] = (struct cohort_each_item){20 + i, cohort_seq_pos_max(c, i) + 1, i, true};
	TRY(cohort_decode_each(c, each, 3, &scratch, &l->err));
	for (int32_t i = 0; i < 3; i++)
		mix_logits(l, c, i);
	for (int32_t i = 0; i < 5; i++)
		scatter[i] = (struct cohort_scatter_item){
				stage.tokens + i, 7 * i, cohort_seq_pos_max(c, i) + 1, i, i > 0};
	TRY(cohort_decode_scatter(c, scatter, 5, &scratch, &l->err));
	mix_logits(l, c, -1);
	mix_logits(l, c, -4);
	for (int32_t i = 0; i < 5; i++)
		scatter[i].pos = cohort_seq_pos_max(c, i) + 1;
	TRY(scatter_to(l, c, scatter, 5, NULL));
	TRY(cohort_score_text(c, 7, stage.tokens, 40, logprobs, &score, &l->err));
	life_mix(l, logprobs, sizeof logprobs);
	mix_books(l, c);
	LIVED();
out:
	cohort_scratch_release(&scratch);
	cohort_batch_release(&b);
	cohort_context_free(c);
}

/* ---- Sequences ---- */

static void sequences(struct life *l)
{
	struct cohort_context_params cp;
	struct cohort_context *c = NULL;

	stage_context_params(&cp);
	cp.kv_type = COHORT_KV_Q8_0;
	cp.split = COHORT_SPLIT_EQUAL;
	TRY(cohort_context_open(stage.model, &cp, &c, &l->err));
	TRY(cohort_decode_many(c, stage.tokens, 60, 0, 0, &l->err));
	TRY(cohort_seq_cp(c, 0, 1, 0, -1, &l->err));
	TRY(cohort_seq_cp(c, 0, 2, 0, 40, &l->err));
	TRY(cohort_decode_many(c, stage.tokens, 5, 40, 2, &l->err));
	TRY(cohort_seq_rm(c, 1, 10, 40, &l->err));
	TRY(cohort_seq_rm(c, 2, 43, -1, &l->err));
	TRY(cohort_seq_add(c, 1, 40, -1, 3, &l->err));
	TRY(cohort_seq_cp(c, 0, 3, 33, 50, &l->err));
	TRY(cohort_seq_checkpoint(c, 1, &l->err));
	mix_books(l, c);
	TRY(cohort_decode_one(c, 5, cohort_seq_pos_max(c, 1) + 1, 1, true, &l->err));
	mix_logits(l, c, -1);
	TRY(cohort_seq_keep(c, 1, &l->err));
	TRY(cohort_decode_one(c, 6, cohort_seq_pos_max(c, 1) + 1, 1, true, &l->err));
	mix_logits(l, c, -1);
	mix_books(l, c);
	LIVED();
out:
	cohort_context_free(c);
}

static void recurrent(struct life *l)
{
	struct cohort_context_params cp;
	struct cohort_context *c = NULL;
	const size_t n_bytes = 100 * sizeof(float);

	stage_context_params(&cp);
	cp.n_checkpoints = 2;
	TRY(cohort_context_open(stage.mamba_model, &cp, &c, &l->err));
	TRY(cohort_decode_many(c, stage.tokens, 30, 0, 0, &l->err));
	TRY(cohort_seq_checkpoint(c, 0, &l->err));
	TRY(cohort_decode_many(c, stage.tokens, 10, 30, 0, &l->err));
	TRY(cohort_seq_cp(c, 0, 1, 0, -1, &l->err));
	TRY(cohort_seq_rm(c, 0, 30, -1, &l->err));
	for (cohort_seq s = 0; s < 2; s++) {
		TRY(cohort_decode_one(c, 9, cohort_seq_pos_max(c, s) + 1, s, true, &l->err));
		life_mix(l, cohort_logits_get(c, -1, NULL), n_bytes);
	}
	mix_books(l, c);
	LIVED();
out:
	cohort_context_free(c);
}

/* ---- Embeddings ---- */

static void embeddings(struct life *l)
{
	struct cohort_context_params cp;
	struct cohort_context *c = NULL, *d = NULL;
	struct cohort_batch b = {0};

	stage_context_params(&cp);
	cp.outputs = COHORT_OUTPUT_EMBEDDINGS;
	cp.pooling = COHORT_POOL_MEAN;
	cp.n_ubatch = 24;
	TRY(cohort_context_open(stage.bert_model, &cp, &c, &l->err));
	TRY(cohort_batch_init(&b, 24, 0, 1, &l->err));
	for (cohort_seq i = 0; i < 20; i++) {
		const cohort_seq s = i / 10;
		TRY(cohort_batch_add(&b, stage.tokens[i] % 60, i % 10, &s, 1, true, &l->err));
	}
	TRY(cohort_encode(c, &b, &l->err));
	for (cohort_seq s = 0; s < 2; s++) {
		const float *e = cohort_embeddings_seq_get(c, s, &l->err);
		if (e)
			life_mix(l, e, N_BERT * sizeof *e);
		else
			life_complain(l, "no embedding");
	}
	cp.outputs |= COHORT_OUTPUT_LOGITS;
	cp.pooling = COHORT_POOL_NONE;
	TRY(cohort_context_open(stage.model, &cp, &d, &l->err));
	TRY(cohort_decode_many(d, stage.tokens, 12, 0, 0, &l->err));
	life_mix(l, cohort_embeddings_get(d, -1, &l->err), 64 * sizeof(float));
	LIVED();
out:
	cohort_batch_release(&b);
	cohort_context_free(c);
	cohort_context_free(d);
}

/* ---- Saved states ---- */

static void state(struct life *l)
{
	static uint8_t bytes[1 << 20];
	struct cohort_context_params cp;
	struct cohort_context *c = NULL, *d = NULL;
	char path[128];
	size_t n = 0;

	stage_path(path, "state.bin");
	stage_context_params(&cp);
	cp.n_threads = 1;
	TRY(cohort_context_open(stage.model, &cp, &c, &l->err));
	TRY(cohort_context_open(stage.model, &cp, &d, &l->err));
	TRY(cohort_decode_many(c, stage.tokens, 60, 0, 0, &l->err));
	TRY(cohort_seq_cp(c, 0, 1, 0, -1, &l->err));
	TRY(cohort_decode_many(c, stage.tokens + 3, 6, 60, 1, &l->err));
	TRY(cohort_decode_many(d, stage.tokens + 9, 40, 0, 2, &l->err));
	if (cohort_state_size(c, COHORT_SEQ_ALL) > sizeof bytes) /* 0: no memory */
		life_complain(l, "a state that is too large");
	TRY(cohort_state_save(c, COHORT_SEQ_ALL, bytes, sizeof bytes, &n, &l->err));
	life_mix(l, bytes, n);
	TRY(cohort_state_restore(d, COHORT_SEQ_ALL, bytes, n, &l->err));
	mix_books(l, d);
	TRY(cohort_state_save_file(d, 1, path, &l->err));
	TRY(cohort_state_restore_file(d, 5, path, &l->err));
	mix_books(l, d);
	TRY(cohort_decode_one(d, 5, cohort_seq_pos_max(d, 5) + 1, 5, true, &l->err));
	mix_logits(l, d, -1);
	LIVED();
out:
	cohort_context_free(c);
	cohort_context_free(d);
}

const struct scene scenes_decode[] = {
		{.name = "decode", .live = decode},
		{.name = "sequences", .live = sequences},
		{.name = "recurrent", .live = recurrent},
		{.name = "embeddings", .live = embeddings},
		{.name = "state", .live = state, .outputs = {"state.bin"}},
		{.name = NULL},
};
