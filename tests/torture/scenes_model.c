/* Scenes: models, adapters, vocabularies, batches. */
#include "torture.h"

#include <stdlib.h>
#include <string.h>

static void mix_info(struct life *l, const struct cohort_model *m)
{
	struct cohort_model_info info = {.struct_size = sizeof info};

	cohort_model_info_get(m, &info);
	life_mix(l, info.arch, strlen(info.arch));
	life_mix(l, info.name, strlen(info.name));
	life_mix_number(l, info.n_vocab);
	life_mix_number(l, info.n_layer);
	life_mix_number(l, (int64_t)info.weight_bytes);
}

/* Tokens and the bytes they came from. */
static void mix_text(struct life *l, const struct cohort_model *m, const char *text)
{
	cohort_token ids[64];
	char back[256];
	size_t n = 0, n_back = 0;

	TRY(cohort_tokenize(m, text, strlen(text), COHORT_TOKENIZE_SPECIAL, ids, 64, &n, &l->err));
	life_mix(l, ids, n * sizeof *ids);
	TRY(cohort_detokenize(m, ids, n, true, back, sizeof back, &n_back, &l->err));
	life_mix(l, back, n_back);
	for (size_t i = 0; i < n; i++) {
		TRY(cohort_token_piece(m, ids[i], i > 0, true, back, sizeof back, &n_back, &l->err));
		life_mix(l, back, n_back);
	}
	LIVED();
out:
	return;
}

/* ---- Models ---- */

static void open_and_say(struct life *l, const char *path, const struct cohort_model_params *mp)
{
	struct cohort_model *m = NULL;

	TRY(cohort_model_open(path, mp, &m, &l->err));
	mix_info(l, m);
	mix_text(l, m, "Tom and Anna");
out:
	cohort_model_free(m);
}

static void model(struct life *l)
{
	struct cohort_model_params mp;

	cohort_model_params_init(&mp);
	mp.n_threads = 2;
	open_and_say(l, stage.llama, &mp);
}

static void model_read(struct life *l)
{
	struct cohort_model_params mp;

	cohort_model_params_init(&mp);
	mp.n_threads = 1;
	mp.no_mmap = true;
	mp.mlock = true;
	mp.file_layout = true;
	open_and_say(l, stage.llama, &mp);
}

static void model_split(struct life *l)
{
	struct cohort_model_params mp;

	cohort_model_params_init(&mp);
	mp.n_threads = 2;
	open_and_say(l, stage.split, &mp);
}

static void vocabularies(struct life *l)
{
	struct cohort_model_params mp;

	cohort_model_params_init(&mp);
	mp.vocab_only = true;
	for (int i = 0; i < 4 && !l->status; i++)
		open_and_say(l, stage.vocabs[i], &mp);
}

/* Encoding without opening: what a long-lived model meets. */
static void tokens(struct life *l)
{
	static char text[3000];
	static cohort_token ids[3100];
	struct cohort_token_buf buf;
	struct cohort_detok d;
	size_t n = 0;

	cohort_token_buf_init(&buf);
	for (size_t i = 0; i < sizeof text; i++)
		text[i] = (char)(i % 7 ? 'a' + i % 23 : ' ');
	TRY(cohort_tokenize(stage.model, text, sizeof text, 0, ids, 3100, &n, &l->err));
	life_mix(l, ids, n * sizeof *ids);
	cohort_detok_init(&d, stage.model, true, true);
	for (size_t i = 0; i < n && i < 100; i++) {
		char out[64];
		size_t n_out = 0;
		TRY(cohort_detok_push(&d, ids[i], out, sizeof out, &n_out, &l->err));
		life_mix(l, out, n_out);
		TRY(cohort_token_buf_append(&buf, ids + i, 1, &l->err));
	}
	life_mix(l, cohort_token_buf_get(&buf), 100 * sizeof *ids);
	mix_text(l, stage.model, "The end.");
out:
	cohort_token_buf_release(&buf);
}

/* ---- Adapters ---- */

static void adapter(struct life *l)
{
	struct cohort_context_params cp;
	struct cohort_model_params mp;
	struct cohort_model *m = NULL;
	struct cohort_adapter *a = NULL;
	struct cohort_context *c = NULL;
	const char *const paths[] = {stage.lora};
	const float scales[] = {0.5f};

	cohort_model_params_init(&mp);
	mp.n_threads = 1;
	mp.adapters = paths;
	mp.adapter_scales = scales;
	mp.n_adapters = 1;
	TRY(cohort_model_open(stage.base, &mp, &m, &l->err));
	TRY(cohort_adapter_open(m, stage.lora, &a, &l->err));
	stage_context_params(&cp);
	cp.n_threads = 1;
	TRY(cohort_context_open(m, &cp, &c, &l->err));
	TRY(cohort_seq_adapter_set(c, 1, a, 2.0f, &l->err));
	for (cohort_seq s = 0; s < 2; s++) {
		TRY(cohort_decode_many(c, stage.tokens, 30, 0, s, &l->err));
		life_mix(l, cohort_logits_get(c, -1, NULL), 200 * sizeof(float));
	}
	LIVED();
out:
	cohort_context_free(c);
	cohort_adapter_free(a);
	cohort_model_free(m);
}

/* ---- Batches ---- */

static void mix_batch(struct life *l, struct cohort_batch *b)
{
	char text[4096];

	life_mix_number(l, cohort_batch_size(b));
	cohort_batch_dump(b, text, sizeof text);
	life_mix(l, text, strlen(text));
}

static void batches(struct life *l)
{
	struct cohort_batch b[8] = {{0}};
	struct cohort_token_buf buf;
	struct cohort_packing packing;
	struct cohort_batch_raw raw;
	const cohort_seq ids[2] = {3, 1};
	const int32_t lengths[9] = {3, 9, 0, 40, 8, 1, 12, 30, 5};
	cohort_token *taken = NULL;
	float vector[16] = {1, 2, 3};
	const cohort_pos pos[4] = {0, 1, 2, 3};

	cohort_token_buf_init(&buf);
	cohort_packing_init(&packing);
	TRY(cohort_batch_init(&b[0], 100, 0, 2, &l->err));
	for (int i = 0; i < 40; i++)
		TRY(cohort_batch_add(&b[0], stage.tokens[i], i, ids, 2, i % 3 == 0, &l->err));
	mix_batch(l, &b[0]);
	TRY(cohort_batch_copy(&b[1], &b[0], &l->err));
	mix_batch(l, &b[1]);
	TRY(cohort_batch_init_default(&b[2], &l->err));
	TRY(cohort_batch_init_pos(&b[3], 5, 16, 1, 4, &l->err));
	TRY(cohort_batch_add_embd(&b[3], vector, pos, ids, 1, true, &l->err));
	mix_batch(l, &b[3]);
	TRY(cohort_batch_from_tokens(&b[4], stage.tokens, 60, &l->err));
	mix_batch(l, &b[4]);
	fault_pause();
	taken = malloc(50 * sizeof *taken); /* the caller's own */
	memcpy(taken, stage.tokens, 50 * sizeof *taken);
	fault_resume();
	TRY(cohort_batch_take_tokens(&b[5], taken, 50, &l->err));
	taken = NULL;
	mix_batch(l, &b[5]);
	TRY(cohort_token_buf_append(&buf, stage.tokens, 40, &l->err));
	TRY(cohort_batch_from_buffer(&b[6], &buf, &l->err));
	mix_batch(l, &b[6]);
	cohort_batch_raw_get(&b[0], &raw);
	TRY(cohort_batch_view_raw(&b[7], &raw, &l->err));
	mix_batch(l, &b[7]);
	cohort_batch_release(&b[7]);
	TRY(cohort_batch_view(&b[7], stage.tokens, 20, &l->err));
	mix_batch(l, &b[7]);
	TRY(cohort_bin_pack(&packing, lengths, 9, 16, &l->err));
	for (int32_t i = 0; i < packing.n_chunks; i++)
		life_mix_number(l, packing.chunks[i].n_rows);
	LIVED();
out:
	free(taken);
	for (int i = 0; i < 8; i++)
		cohort_batch_release(&b[i]);
	cohort_token_buf_release(&buf);
	cohort_packing_release(&packing);
}

const struct scene scenes_model[] = {
		{.name = "model", .live = model},
		{.name = "model-read", .live = model_read},
		{.name = "model-split", .live = model_split},
		{.name = "vocabularies", .live = vocabularies},
		{.name = "tokens", .live = tokens},
		{.name = "adapter", .live = adapter},
		{.name = "batches", .live = batches},
		{.name = NULL},
};
