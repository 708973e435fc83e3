/* Random llama models of a given shape, written tensor by tensor.
 *
 * Invariants
 *  1. Each chunk of a tensor is a function of (seed, tensor, chunk) alone, with a generator of its own, and chunks have
 *     a fixed number of blocks: threads change nothing in the bytes. All arithmetic is that of single IEEE operations.
 *  2. Weights of a matrix with rows of k have mean 0 and deviation 1 / sqrt(k), so that a normed row of activations
 *     gives results of the order of one. A mean other than 0 would not do: it adds up over the row, and through the
 *     layers every activation would tend to one common direction. Where the bits of a format are not symmetric, a
 *     block's scale has a random sign (Q4_0, IQ4_NL), or its minima are set to half of what the scales span (Q4_K).
 *  3. Every block is one a quantiser could have made: scales are finite, TQ2_0 has no code 3.
 *  4. Memory does not depend on the size of the model, but for its vocabulary and its list of tensors.
 *
 * Refuses to know how the file is written (gguf_write.c) and which format a tensor gets (mix.c). */
#include "cohort_tools.h"

#include "base/err.h"
#include "base/fp.h"
#include "base/mem.h"
#include "base/params.h"
#include "base/pool.h"
#include "base/rng.h"
#include "model/mix.h"
#include "quant/quant.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define CHUNK_BYTES ((size_t)64 << 10)  /* at most; whole blocks */
#define BUFFER_CHUNKS ((size_t)64)      /* filled together, then written */
#define N_SCALES 16                     /* different scales of blocks in a tensor */
#define N_STEPS 4096                    /* different values of F16 and BF16 weights */
#define N_SPECIAL 259                   /* unknown, begin, end, 256 bytes */
#define VOCAB_MAX (1u << 24)
#define HEAD_MAX 4096u

/* ---- Shapes ---- */

/* Dimensions only: whatever the model of that name is, what is written is a llama (qwen2.5-0.5b without its biases). */
static const struct shape {
	const char *name;
	uint32_t n_vocab, n_embd, n_layer, n_head, n_head_kv, n_ff, n_ctx;
	float rope_base;
	bool tied;
} shapes[] = {
	{"smol-135m", 49152, 576, 30, 9, 3, 1536, 2048, 10000.0f, true},
	{"tinyllama-1.1b", 32000, 2048, 22, 32, 4, 5632, 2048, 10000.0f, false},
	{"llama3.2-1b", 128256, 2048, 16, 32, 8, 8192, 131072, 500000.0f, true},
	{"qwen2.5-0.5b", 151936, 896, 24, 14, 2, 4864, 32768, 1e6f, true},
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

const char *cohort_synth_shape_name(size_t i)
{
	return i < N_SHAPES ? shapes[i].name : NULL;
}

bool cohort_synth_shape(struct cohort_synth_params *p, const char *name)
{
	if (!p || !name || p->struct_size < offsetof(struct cohort_synth_params, seed)) /* they have room for a shape */
		return false;
	for (size_t i = 0; i < N_SHAPES; i++) {
		const struct shape *s = &shapes[i];
		if (strcmp(s->name, name) != 0)
			continue;
		p->n_vocab = s->n_vocab;
		p->n_embd = s->n_embd;
		p->n_layer = s->n_layer;
		p->n_head = s->n_head;
		p->n_head_kv = s->n_head_kv;
		p->n_ff = s->n_ff;
		p->n_ctx = s->n_ctx;
		p->head_size = s->n_embd / s->n_head;
		p->rope_base = s->rope_base;
		p->tied = s->tied;
		p->name = s->name;
		return true;
	}
	return false;
}

void cohort_synth_params_init(struct cohort_synth_params *p)
{
	if (!p)
		return;
	*p = (struct cohort_synth_params){.struct_size = sizeof *p, .type = "Q4_K_M"};
	cohort_synth_shape(p, shapes[0].name);
}

/* The limits are those of src/model/keys.c and rope.c: what is written can be loaded. */
static enum cohort_status check(struct cohort_synth_params *p, struct cohort_err *err)
{
	const struct {
		const char *what;
		uint32_t v, lo, hi;
	} fields[] = {
		{"n_vocab", p->n_vocab, N_SPECIAL, VOCAB_MAX}, {"n_embd", p->n_embd, 1, 1 << 20},
		{"n_layer", p->n_layer, 1, 4096}, {"n_head", p->n_head, 1, 4096},
		{"n_head_kv", p->n_head_kv, 1, p->n_head}, {"n_ff", p->n_ff, 1, 1 << 24},
		{"n_ctx", p->n_ctx, 1, 1 << 30}, {"head_size", p->head_size, 0, HEAD_MAX},
	};
	enum cohort_status st;

	for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
		if ((st = err_range(err, fields[i].what, fields[i].v, fields[i].lo, fields[i].hi)))
			return st;
	if (p->n_head % p->n_head_kv)
		return err_set(err, COHORT_E_ARG, "%u heads cannot share %u KV heads evenly", p->n_head, p->n_head_kv);
	if (p->head_size == 0 && p->n_embd % p->n_head)
		return err_set(err, COHORT_E_ARG, "n_embd %u is no multiple of %u heads, and no head_size is given",
				p->n_embd, p->n_head);
	if (p->head_size == 0)
		p->head_size = p->n_embd / p->n_head;
	if ((st = err_range(err, "head_size", p->head_size, 1, HEAD_MAX)))
		return st;
	if (p->head_size % 2)
		return err_rule(err, COHORT_E_ARG, "head_size", -1, -1, 0, p->head_size,
				"head_size is %u, expected an even number", p->head_size);
	if ((st = err_real(err, "rope_base", (double)p->rope_base, 1, (double)1e30f)))
		return st;
	if ((st = err_range(err, "n_threads", p->n_threads, 0, 1024)))
		return st;
	if (!p->type || !p->name)
		return err_set(err, COHORT_E_ARG, "%s is NULL", p->type ? "name" : "type");
	return COHORT_OK;
}

/* ---- Random blocks ---- */

/* How one tensor is filled. */
struct recipe {
	uint32_t type;
	uint64_t seed, i_tensor;
	size_t block_bytes;
	size_t chunk_blocks;
	float lo, step;           /* F32: lo + step * 0..2^24 */
	uint16_t d[N_SCALES];     /* scale of a block */
	uint16_t m[N_SCALES];     /* its minimum, or the scale of its minima */
	uint16_t value[N_STEPS];  /* F16, BF16 */
};

/* The mean of the squares of lo..hi. */
static double square(int lo, int hi)
{
	double sum = 0;

	for (int i = lo; i <= hi; i++)
		sum += (double)i * i;
	return sum / (hi - lo + 1);
}

/* The mean square of a weight when the block's scale is 1, all bits are even and minima are as in minimum(). */
static double unit_power(uint32_t type)
{
	double table = 0;

	for (int i = 0; i < 16; i++)
		table += (double)quant_iq4_values[i] * quant_iq4_values[i] / 16;
	switch (type) {
	case QUANT_Q4_0: return square(-8, 7);
	case QUANT_Q4_1: return square(0, 15) - 7.5 * 7.5;
	case QUANT_Q5_0: return square(-16, 15);
	case QUANT_Q5_1: return square(0, 31) - 15.5 * 15.5;
	case QUANT_Q8_0: return square(-128, 127);
	case QUANT_IQ4_NL: return table;
	case QUANT_Q2_K: return square(0, 15) * (square(0, 3) - 1.5 * 1.5);
	case QUANT_Q3_K: return square(-32, 31) * square(-4, 3);
	case QUANT_Q4_K: return square(0, 63) * (square(0, 15) - 7.5 * 7.5);
	case QUANT_Q5_K: return square(0, 63) * (square(0, 31) - 15.5 * 15.5);
	case QUANT_Q6_K: return square(-128, 127) * square(-32, 31);
	case QUANT_IQ4_XS: return square(-32, 31) * table;
	case QUANT_TQ2_0: return 0.5; /* -1 and 1 in a quarter of cases each */
	default: return 1.0 / 3; /* even in -1..1 */
	}
}

/* What takes the mean out of a block of scale 1, in the field for minima. */
static float minimum(uint32_t type)
{
	switch (type) {
	case QUANT_Q4_1: return -7.5f;
	case QUANT_Q5_1: return -15.5f;
	case QUANT_Q2_K: return 1.5f;
	case QUANT_Q4_K: return 7.5f;
	case QUANT_Q5_K: return 15.5f;
	default: return 0.0f;
	}
}

static void recipe_init(struct recipe *r, uint32_t type, double deviation, uint64_t seed, uint64_t i_tensor)
{
	const struct quant_format *f = quant_format_get(type);
	const float d = (float)(deviation / sqrt(unit_power(type)));

	r->type = type;
	r->seed = seed;
	r->i_tensor = i_tensor;
	r->block_bytes = f->block_bytes;
	r->chunk_blocks = CHUNK_BYTES / f->block_bytes;
	r->lo = -d;
	r->step = d * 0x1p-23f;
	for (int i = 0; i < N_SCALES; i++) {
		/* From 0.7 to 1.3 in equal steps; the mean of the squares is 1.034, near enough to 1. */
		const float s = d * (0.7f + 0.04f * (float)i);
		r->d[i] = quant_f32_to_f16(s);
		r->m[i] = quant_f32_to_f16(quant_f16_to_f32(r->d[i]) * minimum(type));
	}
	for (int i = 0; i < N_STEPS; i++) {
		const float v = d * (((float)i + 0.5f) * (2.0f / N_STEPS) - 1.0f);
		r->value[i] = type == QUANT_BF16 ? quant_f32_to_bf16(v) : quant_f32_to_f16(v);
	}
}

static void random_bytes(struct rng *g, uint8_t *p, size_t n)
{
	for (; n >= 4; n -= 4, p += 4) {
		const uint32_t u = rng_u32(g);
		memcpy(p, &u, 4);
	}
	const uint32_t u = rng_u32(g);
	memcpy(p, &u, n);
}

/* Makes the minimum of every sub-block of Q4_K and Q5_K the number that its scale is (see quant_k_scale_min). */
static void pair_scales(uint8_t scales[12])
{
	for (int i = 0; i < 4; i++) {
		scales[4 + i] = scales[i];
		scales[8 + i] = (uint8_t)((scales[8 + i] & 15) | scales[8 + i] << 4);
	}
}

/* Turns random bytes into a block: the scale of number i, positive or negative. */
static void finish_block(const struct recipe *r, uint8_t *p, unsigned i, unsigned sign)
{
	const uint16_t d = (uint16_t)(r->d[i] ^ sign << 15), m = (uint16_t)(r->m[i] ^ sign << 15);
	size_t at_d = 0, at_m = 0; /* at_m 0: there is none */

	switch (r->type) {
	case QUANT_Q4_1: at_m = offsetof(struct q4_1, m); break;
	case QUANT_Q5_1: at_m = offsetof(struct q5_1, m); break;
	case QUANT_Q4_K:
		at_m = offsetof(struct q4_k, dmin);
		pair_scales(p + offsetof(struct q4_k, scales));
		break;
	case QUANT_Q5_K:
		at_m = offsetof(struct q5_k, dmin);
		pair_scales(p + offsetof(struct q5_k, scales));
		break;
	case QUANT_Q2_K:
		at_d = offsetof(struct q2_k, d);
		at_m = offsetof(struct q2_k, dmin);
		for (int j = 0; j < 16; j++)
			p[j] = (uint8_t)((p[j] & 15) | p[j] << 4);
		break;
	case QUANT_Q3_K: at_d = offsetof(struct q3_k, d); break;
	case QUANT_Q6_K: at_d = offsetof(struct q6_k, d); break;
	case QUANT_TQ2_0:
		at_d = offsetof(struct tq2_0, d);
		for (size_t j = 0; j < at_d; j++)
			p[j] = (uint8_t)(p[j] & ~((p[j] & p[j] >> 1 & 0x55) << 1)); /* 3 becomes 1, which is 0 */
		break;
	default: break;
	}
	memcpy(p + at_d, &d, sizeof d);
	if (at_m)
		memcpy(p + at_m, &m, sizeof m);
}

static void fill_floats(const struct recipe *r, struct rng *g, uint8_t *out, size_t n)
{
	if (r->type == QUANT_F32) {
		for (size_t i = 0; i < n; i++) {
			const float v = r->lo + r->step * (float)(rng_u32(g) >> 8);
			memcpy(out + 4 * i, &v, 4);
		}
		return;
	}
	for (size_t i = 0; i < n; i += 2) {
		const uint32_t u = rng_u32(g);
		const uint16_t v[2] = {r->value[u % N_STEPS], r->value[(u >> 16) % N_STEPS]};
		memcpy(out + 2 * i, v, n - i < 2 ? 2 : 4);
	}
}

/* n blocks, the chunk's own. */
static void fill_chunk(const struct recipe *r, uint64_t i_chunk, uint8_t *out, size_t n)
{
	struct rng g;

	rng_init(&g, r->seed, r->i_tensor << 32 | i_chunk);
	if (quant_format_get(r->type)->block == 1) {
		fill_floats(r, &g, out, n);
		return;
	}
	random_bytes(&g, out, n * r->block_bytes);
	for (size_t i = 0; i < n; i++) {
		const uint32_t u = rng_u32(&g);
		finish_block(r, out + i * r->block_bytes, u % N_SCALES, u >> 31);
	}
}

/* ---- The vocabulary ---- */

/* Made-up words: "▁", the letters, and then syllables by number, each with and without a space in front. */
static size_t word(uint32_t i, char out[32])
{
	static const char consonants[] = "bcdfghjklmnpqrstvwxz", vowels[] = "aeiou";
	char rev[24];
	size_t n = 0, k = 0;

	if (i > 0 && i < 27) {
		out[0] = (char)('a' + i - 1);
		return 1;
	}
	if (i == 0 || i % 2) {
		memcpy(out, "\xe2\x96\x81", 3);
		n = 3;
	}
	if (i == 0)
		return n;
	/* Digits 1..100 instead of 0..99: so no two numbers give the same syllables. */
	for (uint32_t v = (i - 27) / 2 + 1; v > 0; v = (v - 1) / 100) {
		const uint32_t digit = (v - 1) % 100;
		rev[k++] = vowels[digit % 5];
		rev[k++] = consonants[digit / 5];
	}
	while (k > 0)
		out[n++] = rev[--k];
	return n;
}

enum { TYPE_NORMAL = 1, TYPE_UNKNOWN = 2, TYPE_CONTROL = 3, TYPE_BYTE = 6 }; /* of tokenizer.ggml.token_type */

static int32_t token(uint32_t i, char out[32], size_t *n)
{
	static const char *const special[] = {"<unk>", "<s>", "</s>"};

	if (i < 3) {
		*n = (size_t)snprintf(out, 32, "%s", special[i]);
		return i ? TYPE_CONTROL : TYPE_UNKNOWN;
	}
	if (i < N_SPECIAL) {
		*n = (size_t)snprintf(out, 32, "<0x%02X>", i - 3);
		return TYPE_BYTE;
	}
	*n = word(i - N_SPECIAL, out);
	return TYPE_NORMAL;
}

static enum cohort_status no_memory(const char *path, struct cohort_err *err)
{
	return err_in(err, path, err_set(err, COHORT_E_MEMORY, "out of memory or threads"));
}

static enum cohort_status put_vocab(struct cohort_gguf_writer *w, const char *path, uint32_t n, struct cohort_err *err)
{
	char *text = mem_alloc(n, 32);
	const char **strs = mem_alloc(n, sizeof *strs);
	size_t *lens = mem_alloc(n, sizeof *lens);
	float *scores = mem_alloc(n, sizeof *scores);
	int32_t *types = mem_alloc(n, sizeof *types);
	enum cohort_status st;

	if (!text || !strs || !lens || !scores || !types) {
		st = no_memory(path, err);
		goto out;
	}
	for (uint32_t i = 0; i < n; i++) {
		strs[i] = text + (size_t)32 * i;
		types[i] = token(i, text + (size_t)32 * i, &lens[i]);
		scores[i] = i < N_SPECIAL ? 0.0f : -(float)(i - N_SPECIAL); /* earlier words win, as in trained ones */
	}
	if ((st = cohort_gguf_writer_str(w, "tokenizer.ggml.model", "llama", err)) ||
			(st = cohort_gguf_writer_str(w, "tokenizer.ggml.pre", "default", err)) ||
			(st = cohort_gguf_writer_strs(w, "tokenizer.ggml.tokens", strs, lens, n, err)) ||
			(st = cohort_gguf_writer_f32s(w, "tokenizer.ggml.scores", scores, n, err)) ||
			(st = cohort_gguf_writer_i32s(w, "tokenizer.ggml.token_type", types, n, err)) ||
			(st = cohort_gguf_writer_u32(w, "tokenizer.ggml.unknown_token_id", 0, err)) ||
			(st = cohort_gguf_writer_u32(w, "tokenizer.ggml.bos_token_id", 1, err)) ||
			(st = cohort_gguf_writer_u32(w, "tokenizer.ggml.eos_token_id", 2, err)) ||
			(st = cohort_gguf_writer_bool(w, "tokenizer.ggml.add_bos_token", true, err)))
		goto out;
	st = cohort_gguf_writer_bool(w, "tokenizer.ggml.add_eos_token", false, err);
out:
	mem_free(text);
	mem_free(strs);
	mem_free(lens);
	mem_free(scores);
	mem_free(types);
	return st;
}

/* ---- The model ---- */

struct part {
	uint32_t type;
	uint64_t k, n_rows; /* n_rows 0: a vector, of norm weights */
	double deviation;
};

struct plan {
	const char *path;
	const struct cohort_synth_params *p;
	const struct mix *mix;
	struct mix_model mm;
	struct cohort_gguf_writer *w;
	struct part *parts; /* [n_parts], in file order */
	size_t n_parts;
	uint64_t n_bytes, n_done;
};

static enum cohort_status put_keys(const struct plan *a, struct cohort_err *err)
{
	const struct cohort_synth_params *p = a->p;
	const struct {
		const char *key;
		uint32_t v;
	} numbers[] = {
		{"llama.vocab_size", p->n_vocab},
		{"llama.context_length", p->n_ctx},
		{"llama.embedding_length", p->n_embd},
		{"llama.block_count", p->n_layer},
		{"llama.feed_forward_length", p->n_ff},
		{"llama.attention.head_count", p->n_head},
		{"llama.attention.head_count_kv", p->n_head_kv},
		{"llama.attention.key_length", p->head_size},
		{"llama.attention.value_length", p->head_size},
		{"llama.rope.dimension_count", p->head_size},
		{"general.file_type", a->mix->file_type},
		{"general.quantization_version", 2}, /* of the block formats; there has been no other since 2023 */
	};
	enum cohort_status st;

	if ((st = cohort_gguf_writer_str(a->w, "general.architecture", "llama", err)) ||
			(st = cohort_gguf_writer_str(a->w, "general.name", p->name, err)))
		return st;
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		if ((st = cohort_gguf_writer_u32(a->w, numbers[i].key, numbers[i].v, err)))
			return st;
	if ((st = cohort_gguf_writer_f32(a->w, "llama.rope.freq_base", p->rope_base, err)) ||
			(st = cohort_gguf_writer_f32(a->w, "llama.attention.layer_norm_rms_epsilon", 1e-5f, err)))
		return st;
	return put_vocab(a->w, a->path, p->n_vocab, err);
}

static enum cohort_status put_part(struct plan *a, const char *name, enum mix_role role, uint32_t i_layer, uint64_t k,
		uint64_t n_rows, struct cohort_err *err)
{
	struct part *t = &a->parts[a->n_parts];
	const uint64_t ne[2] = {k, n_rows};
	uint64_t n_bytes = 0;
	bool bad_row;

	*t = (struct part){.type = QUANT_F32, .k = k, .n_rows = n_rows};
	if (n_rows) {
		t->type = mix_type(a->mix, &a->mm, role, i_layer, k);
		t->deviation = 1 / sqrt((double)k);
		/* An embedding of its own need not be small: it is looked up, not multiplied. */
		if (role == MIX_EMBD && !a->p->tied)
			t->deviation = 0.5;
	}
	quant_size(t->type, k, n_rows ? n_rows : 1, &n_bytes, &bad_row);
	a->n_bytes += n_bytes; /* for progress only */
	a->n_parts++;
	return cohort_gguf_writer_tensor(a->w, name, t->type, n_rows ? 2 : 1, ne, err);
}

static enum cohort_status put_parts(struct plan *a, struct cohort_err *err)
{
	const struct cohort_synth_params *p = a->p;
	const uint64_t q = (uint64_t)p->n_head * p->head_size, kv = (uint64_t)p->n_head_kv * p->head_size;
	const struct {
		const char *name;
		enum mix_role role;
		uint64_t k, n_rows;
	} layer[] = {
		{"attn_norm", MIX_OTHER, p->n_embd, 0}, {"attn_q", MIX_Q, p->n_embd, q},
		{"attn_k", MIX_K, p->n_embd, kv}, {"attn_v", MIX_V, p->n_embd, kv},
		{"attn_output", MIX_O, q, p->n_embd}, {"ffn_norm", MIX_OTHER, p->n_embd, 0},
		{"ffn_gate", MIX_GATE, p->n_embd, p->n_ff}, {"ffn_up", MIX_UP, p->n_embd, p->n_ff},
		{"ffn_down", MIX_DOWN, p->n_ff, p->n_embd},
	};
	enum { N = sizeof layer / sizeof *layer };
	char name[64];
	enum cohort_status st;

	a->parts = mem_zalloc((size_t)p->n_layer * N + 3, sizeof *a->parts);
	if (!a->parts)
		return no_memory(a->path, err);
	if ((st = put_part(a, "token_embd.weight", MIX_EMBD, 0, p->n_embd, p->n_vocab, err)) ||
			(st = put_part(a, "output_norm.weight", MIX_OTHER, 0, p->n_embd, 0, err)))
		return st;
	if (!p->tied && (st = put_part(a, "output.weight", MIX_OUTPUT, 0, p->n_embd, p->n_vocab, err)))
		return st;
	for (uint32_t l = 0; l < p->n_layer; l++)
		for (size_t i = 0; i < N; i++) {
			snprintf(name, sizeof name, "blk.%u.%s.weight", l, layer[i].name);
			if ((st = put_part(a, name, layer[i].role, l, layer[i].k, layer[i].n_rows, err)))
				return st;
		}
	return COHORT_OK;
}

/* ---- Data ---- */

struct work {
	const struct recipe *r;
	uint8_t *buf;
	uint64_t i_chunk;  /* of the buffer's first */
	uint64_t n_blocks; /* from there to the end of the tensor */
};

static size_t chunk_size(const struct work *k, size_t i)
{
	const uint64_t before = (uint64_t)i * k->r->chunk_blocks, left = k->n_blocks - before;

	return left < k->r->chunk_blocks ? (size_t)left : k->r->chunk_blocks;
}

static void fill(void *arg, size_t from, size_t to, size_t thread)
{
	const struct work *k = arg;

	(void)thread;
	for (size_t i = from; i < to; i++)
		fill_chunk(k->r, k->i_chunk + i, k->buf + i * k->r->chunk_blocks * k->r->block_bytes, chunk_size(k, i));
}

static enum cohort_status put_data(struct plan *a, size_t i_part, struct pool *pool, struct recipe *r, uint8_t *buf,
		struct cohort_err *err)
{
	const struct part *t = &a->parts[i_part];
	const struct quant_format *f = quant_format_get(t->type);
	const uint64_t n_blocks = t->k / f->block * (t->n_rows ? t->n_rows : 1);
	enum cohort_status st;

	recipe_init(r, t->type, t->deviation, a->p->seed, i_part);
	if (!t->n_rows) { /* norm weights: 0.75 to 1.25 */
		r->lo = 0.75f;
		r->step = 0.5f * 0x1p-24f;
	}
	for (uint64_t done = 0; done < n_blocks;) {
		struct work k = {r, buf, done / r->chunk_blocks, n_blocks - done};
		uint64_t n_chunks = (k.n_blocks + r->chunk_blocks - 1) / r->chunk_blocks;
		if (n_chunks > BUFFER_CHUNKS)
			n_chunks = BUFFER_CHUNKS;
		uint64_t n = n_chunks * r->chunk_blocks;
		if (n > k.n_blocks)
			n = k.n_blocks;
		pool_run(pool, (size_t)n_chunks, 1, fill, &k);
		if ((st = cohort_gguf_writer_data(a->w, i_part, buf, (size_t)n * r->block_bytes, err)))
			return st;
		done += n;
		a->n_done += n * r->block_bytes;
		if (a->p->progress && !a->p->progress((float)((double)a->n_done / (double)a->n_bytes),
				a->p->progress_user))
			return err_set(err, COHORT_ABORTED, "aborted");
	}
	return COHORT_OK;
}

static enum cohort_status put_weights(struct plan *a, struct cohort_err *err)
{
	struct pool *pool = pool_open(a->p->n_threads ? (size_t)a->p->n_threads : pool_cpu_count());
	struct recipe *r = mem_alloc(1, sizeof *r);
	uint8_t *buf = mem_alloc(BUFFER_CHUNKS, CHUNK_BYTES);
	enum cohort_status st = COHORT_OK;

	if (!pool || !r || !buf)
		st = no_memory(a->path, err);
	for (size_t i = 0; !st && i < a->n_parts; i++)
		st = put_data(a, i, pool, r, buf, err);
	mem_free(buf);
	mem_free(r);
	pool_free(pool);
	return st;
}

enum cohort_status cohort_synth_write(const char *path, const struct cohort_synth_params *params,
		struct cohort_err *err)
{
	struct cohort_synth_params p;
	struct plan a = {.path = path, .p = &p};
	struct fp_mode fp;
	enum cohort_status st;

	if (!path || !params)
		return err_set(err, COHORT_E_ARG, "%s is NULL", path ? "params" : "path");
	cohort_synth_params_init(&p);
	if (!params_take(&p, sizeof p, params))
		return err_set(err, COHORT_E_ARG, "parameters were not initialised by cohort_synth_params_init");
	if ((st = check(&p, err)) || (st = mix_parse(p.type, &a.mix, err)))
		return st;
	a.mm = (struct mix_model){
		.n_layer = p.n_layer, .n_head = p.n_head, .n_head_kv = p.n_head_kv, .n_v = p.n_layer,
		.tied = p.tied, .pure = p.pure,
	};
	if ((st = cohort_gguf_writer_open(path, &a.w, err)))
		return st;
	fp_enter(&fp);
	if (!(st = put_keys(&a, err)) && !(st = put_parts(&a, err)) && !(st = cohort_gguf_writer_begin(a.w, err)) &&
			!(st = put_weights(&a, err)))
		st = cohort_gguf_writer_finish(a.w, err);
	fp_leave(&fp);
	cohort_gguf_writer_free(a.w);
	mem_free(a.parts);
	return st;
}
