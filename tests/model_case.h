/* Helpers for tests that run models: opening, decoding a token list, random models of awkward shapes. */
#ifndef TESTS_MODEL_CASE_H
#define TESTS_MODEL_CASE_H

#include "cohort.h"
#include "temp.h"

#include "base/rng.h"
#include "gguf_writer.h"
#include "quant/quant.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define KEY_LENGTH "llama.attention.key_length"

struct shape {
	uint32_t n_vocab, n_embd, n_layer, n_head, n_head_kv, head_k, head_v, n_ff, n_rot, n_ctx;
	/* Formats: of matrices whose rows are n_embd, n_ff and n_head * head_v long, and of the embedding. */
	uint32_t type_embd_rows, type_ff_rows, type_o_rows, type_embedding;
	bool tied;
	void (*extra_keys)(struct file *f); /* NULL: none */
	const char *extra_tensor;           /* name of one more vector, of 4 floats, or NULL */
	const char *leave_out;              /* name of a tensor, or the key KEY_LENGTH, to leave out, or NULL */
};

/* Random blocks of a format with scales such that products stay of the order of one. */
static inline void put_random_rows(struct file *f, struct rng *r, uint32_t type, size_t k, size_t n_rows)
{
	const struct quant_format *q = quant_format_get(type);
	const size_t n_blocks = k / q->block * n_rows;
	uint8_t block[512];

	for (size_t b = 0; b < n_blocks; b++) {
		for (size_t i = 0; i < q->block_bytes; i++)
			block[i] = (uint8_t)rng_u32(r);
		/* |weight| about 1 / 16: scale times the largest integer of the format. */
		uint16_t d = quant_f32_to_f16(0.06f /
				(float)(type == QUANT_Q8_0                                                 ? 128
								: type == QUANT_Q6_K                       ? 32 * 128
								: type == QUANT_Q4_K || type == QUANT_Q5_K ? 16 * 64
								: type == QUANT_IQ4_XS                     ? 127 * 32
													   : 16));
		float v = (float)(rng_f64(r) - 0.5) * 0.12f;
		uint16_t h;
		switch (type) {
		case QUANT_F32: memcpy(block, &v, 4); break;
		case QUANT_F16: h = quant_f32_to_f16(v); memcpy(block, &h, 2); break;
		case QUANT_BF16: h = quant_f32_to_bf16(v); memcpy(block, &h, 2); break;
		case QUANT_Q4_1:
		case QUANT_Q5_1:
		case QUANT_Q4_K:
		case QUANT_Q5_K:
			memcpy(block, &d, 2);
			memcpy(block + 2, &d, 2);
			break;
		case QUANT_Q2_K:
			memcpy(block + 80, &d, 2);
			memcpy(block + 82, &d, 2);
			break;
		case QUANT_Q3_K: memcpy(block + 108, &d, 2); break;
		case QUANT_Q6_K: memcpy(block + 208, &d, 2); break;
		case QUANT_TQ2_0: memcpy(block + 64, &d, 2); break;
		default: memcpy(block, &d, 2); break;
		}
		put(f, block, q->block_bytes);
	}
}

struct synth_part {
	char name[48];
	size_t k, n_rows;
	uint32_t type;
};

/* Writes a llama model with random weights to a new file; the caller unlinks and frees the name. */
static inline char *synth_write(const struct shape *s, uint64_t seed)
{
	struct synth_part *parts = calloc(9 * (size_t)s->n_layer + 4, sizeof *parts);
	size_t n = 0;
	struct file f = {0};
	struct rng r;
	const size_t q = (size_t)s->n_head * s->head_k, k = (size_t)s->n_head_kv * s->head_k;
	const size_t v = (size_t)s->n_head_kv * s->head_v, o = (size_t)s->n_head * s->head_v;

	if (!parts)
		abort();
	rng_init(&r, seed, 0);
#define PART(nm, kk, rows, ty) parts[n++] = (struct synth_part){nm, kk, rows, ty}
	PART("token_embd.weight", s->n_embd, s->n_vocab, s->type_embedding);
	PART("output_norm.weight", s->n_embd, 0, QUANT_F32);
	if (!s->tied)
		PART("output.weight", s->n_embd, s->n_vocab, s->type_embd_rows);
	for (uint32_t l = 0; l < s->n_layer; l++) {
		const struct synth_part layer[] = {{"attn_norm", s->n_embd, 0, QUANT_F32},
				{"attn_q", s->n_embd, q, s->type_embd_rows},
				{"attn_k", s->n_embd, k, s->type_embd_rows},
				{"attn_v", s->n_embd, v, s->type_embd_rows},
				{"attn_output", o, s->n_embd, s->type_o_rows}, {"ffn_norm", s->n_embd, 0, QUANT_F32},
				{"ffn_gate", s->n_embd, s->n_ff, s->type_embd_rows},
				{"ffn_up", s->n_embd, s->n_ff, s->type_embd_rows},
				{"ffn_down", s->n_ff, s->n_embd, s->type_ff_rows}};
		for (size_t i = 0; i < 9; i++) {
			parts[n] = layer[i];
			snprintf(parts[n++].name, sizeof parts->name, "blk.%u.%s.weight", l, layer[i].name);
		}
	}
	if (s->extra_tensor) {
		parts[n] = (struct synth_part){"", 4, 0, QUANT_F32};
		snprintf(parts[n++].name, sizeof parts->name, "%s", s->extra_tensor);
	}
	for (size_t i = 0; s->leave_out && i < n; i++)
		if (strcmp(parts[i].name, s->leave_out) == 0)
			memmove(&parts[i], &parts[i + 1], (--n - i) * sizeof *parts);
	put_header(&f, 3, n, 0);
	put_kv_str(&f, "general.architecture", "llama");
	put_kv_u32(&f, "llama.context_length", s->n_ctx);
	put_kv_u32(&f, "llama.embedding_length", s->n_embd);
	put_kv_u32(&f, "llama.block_count", s->n_layer);
	put_kv_u32(&f, "llama.feed_forward_length", s->n_ff);
	put_kv_u32(&f, "llama.attention.head_count", s->n_head);
	put_kv_u32(&f, "llama.attention.head_count_kv", s->n_head_kv);
	if (!s->leave_out || strcmp(s->leave_out, KEY_LENGTH) != 0)
		put_kv_u32(&f, KEY_LENGTH, s->head_k);
	put_kv_u32(&f, "llama.attention.value_length", s->head_v);
	put_kv_u32(&f, "llama.rope.dimension_count", s->n_rot);
	put_key(&f, "llama.attention.layer_norm_rms_epsilon", GGUF_F32);
	put_f32(&f, 1e-5f);
	if (s->extra_keys)
		s->extra_keys(&f);
	put_n_kv(&f);
	uint64_t at = 0;
	for (size_t i = 0; i < n; i++) {
		const struct quant_format *qf = quant_format_get(parts[i].type);
		uint64_t ne[2] = {parts[i].k, parts[i].n_rows ? parts[i].n_rows : 1};
		put_tensor(&f, parts[i].name, parts[i].n_rows ? 2 : 1, ne, parts[i].type, at);
		at += (ne[0] / qf->block * qf->block_bytes * ne[1] + 31) / 32 * 32;
	}
	put_pad(&f, 32);
	size_t start = f.n;
	for (size_t i = 0; i < n; i++) {
		while ((f.n - start) % 32)
			put_u8(&f, 0);
		if (parts[i].n_rows)
			put_random_rows(&f, &r, parts[i].type, parts[i].k, parts[i].n_rows);
		for (size_t j = 0; !parts[i].n_rows && j < parts[i].k; j++)
			put_f32(&f, 0.75f + 0.5f * (float)rng_f64(&r));
	}
	char *path = malloc(TEMP_MAX);
	int fd = path ? mkstemp(temp_name(path, "synth")) : -1;
	for (size_t done = 0; done < f.n;) {
		ssize_t w = fd < 0 ? -1 : write(fd, f.d + done, f.n - done);
		if (w <= 0)
			abort();
		done += (size_t)w;
	}
	close(fd);
	file_release(&f);
	free(parts);
	return path;
}

static inline const char *env_or(const char *name, const char *fallback)
{
	const char *v = getenv(name);
	return v && *v ? v : fallback;
}

#endif
