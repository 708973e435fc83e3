/* What arch_*.c is written with. docs/adding-an-architecture.md walks through one. */
#ifndef MODEL_ARCH_H
#define MODEL_ARCH_H

#include "model/model.h"

#include <stddef.h>

struct arch_bind;

/* What an architecture adds to what all share (model.c has the order). */
struct model_arch {
	const char *name; /* general.architecture, and the prefix of its keys */
	bool layer_norm;  /* norms subtract the mean */
	bool rope_halves; /* pairs (i, i + n/2) are rotated, not (2i, 2i+1) */
	bool unrotated;   /* nothing is rotated, whatever the file says */
	bool encoder;     /* rows see what comes after them, and norms are taken of the sums */
	bool recurrent;   /* layers have states instead of attention */
	bool unchecked;   /* no independent implementation has confirmed its numbers */
	enum model_act act;
	/* Sizes are there: what differs from a llama. NULL: nothing. */
	enum cohort_status (*keys)(struct model *m, struct cohort_err *err);
	void (*top)(struct arch_bind *b);   /* tensors outside the layers that arch_ends does not bind; or NULL */
	void (*layer)(struct arch_bind *b); /* tensors of one layer; NULL: arch_block, gated */
};

/* ---- Keys: `<arch>.<key>` (keys.c) ---- */

enum { ARCH_MAY = 0, ARCH_NEED = 1 };

enum cohort_status arch_u32(const struct model *m, const char *key, bool need, uint32_t *out, struct cohort_err *err);
enum cohort_status arch_f32(const struct model *m, const char *key, bool need, float *out, struct cohort_err *err);
/* A scale, which stays as it is when the file has none; 0 stands for `none`. */
enum cohort_status arch_scale(const struct model *m, const char *key, float none, float *out, struct cohort_err *err);
enum cohort_status arch_bool(const struct model *m, const char *key, bool *out, struct cohort_err *err);
enum cohort_status arch_str(const struct model *m, const char *key, struct gguf_str *out, struct cohort_err *err);
enum cohort_status arch_range(
		const struct model *m, const char *key, uint32_t v, uint32_t lo, uint32_t hi, struct cohort_err *err);

/* ---- The common parts ---- */

/* Sizes, heads, norms: what every file says. Everything else gets its default (scales of 1, rotated pairs as in the
 * original llama, causal). Makes room for the layers. */
enum cohort_status arch_load_sizes(struct model *m, struct cohort_err *err);
/* expert_count and its kin; all stay 0 in a file without experts. */
enum cohort_status arch_load_experts(struct model *m, struct cohort_err *err);
/* attention.sliding_window: layers get it but each `period`-th, or but those the file's pattern names. What a file gets
 * that has none: fallback, 0 for no windows, or a refusal with ARCH_WINDOW_NEED. */
#define ARCH_WINDOW_NEED UINT32_MAX
enum cohort_status arch_load_windows(struct model *m, uint32_t fallback, uint32_t period, struct cohort_err *err);
/* Angles of rope `which` by the file's scaling rules, or, with plain, by the base alone. base 0: the file's. Rope 0 is
 * loaded for everybody who has rotated elements. */
enum cohort_status arch_load_rope(struct model *m, int which, float base, bool plain, struct cohort_err *err);

/* Slopes of hp.alibi, which is set before. */
enum cohort_status arch_load_slopes(struct model *m, struct cohort_err *err);

/* ---- Tensors (bind.c) ---- */

/* A binder stops at the first thing that is wrong, so that calls can follow each other unchecked. */
struct arch_bind {
	struct model *m;
	uint32_t i_layer; /* names are `blk.<i_layer>.<name>`; ARCH_NO_LAYER: `<name>` */
	struct model_layer *layer;
	enum cohort_status st;
	struct cohort_err *err;
};
#define ARCH_NO_LAYER UINT32_MAX

struct arch_bind arch_bind_layer(struct model *m, uint32_t i_layer, struct cohort_err *err);
struct arch_bind arch_bind_top(struct model *m, struct cohort_err *err);
/* Tensors of exactly this shape; NULL when absent and not needed. A matrix is multiplied with; rows are looked up one
 * by one; a vector's elements and a table's are floats. */
const struct model_weight *arch_matrix(struct arch_bind *b, const char *name, bool need, size_t k, size_t n_rows);
const struct model_weight *arch_rows(struct arch_bind *b, const char *name, bool need, size_t k, size_t n_rows);
const struct model_weight *arch_vector(struct arch_bind *b, const char *name, bool need, size_t n);
const struct model_weight *arch_table(struct arch_bind *b, const char *name, bool need, size_t k, size_t n_rows);
/* The rows of one tensor as n matrices. False: it is absent. */
bool arch_slices(struct arch_bind *b, const char *name, bool need, size_t k, const size_t *n_rows, size_t n,
		const struct model_weight **out[]);
/* `<name>.weight`, and `<name>.bias` where norms have one. */
void arch_norm(struct arch_bind *b, const char *name, bool need, size_t n, struct model_norm *out);
/* token_embd, output_norm, output (or the embedding again). */
void arch_ends(struct arch_bind *b);
/* attn_q, attn_k, attn_v, or all in attn_qkv; attn_output; biases where the file has them. */
void arch_attention(struct arch_bind *b);
/* attn_q_norm and attn_k_norm, of a head or of the whole row. */
void arch_qk_norm(struct arch_bind *b, bool need);
/* ffn_gate (gated), ffn_up (which may hold both), ffn_down; biases where the file has them. */
void arch_ffn(struct arch_bind *b, bool gated);
/* ffn_gate_inp and the experts; the shared one when the file has it. */
void arch_experts(struct arch_bind *b);

/* A llama's layer and its halves: attn_norm and attention; ffn_norm and the experts, or the network in a file without
 * any. */
void arch_attention_block(struct arch_bind *b);
void arch_network_block(struct arch_bind *b, bool gated);
void arch_block(struct arch_bind *b, bool gated);
/* The same with q and k normed; with norms behind attention and network; without a gate. */
void arch_qk_block(struct arch_bind *b);
void arch_normed_block(struct arch_bind *b);
void arch_plain_block(struct arch_bind *b);

/* In the order in which messages name them. */
extern const struct model_arch *const arch_all[];
extern const size_t arch_count;

extern const struct model_arch model_arch_llama, model_arch_internlm2, model_arch_mistral3, model_arch_baichuan,
		model_arch_qwen2, model_arch_qwen2moe, model_arch_qwen3, model_arch_qwen3moe,
		model_arch_gemma, model_arch_gemma2, model_arch_gemma3, model_arch_phi2,
		model_arch_phi3, model_arch_gpt2, model_arch_gptneox, model_arch_bloom,
		model_arch_mpt, model_arch_falcon, model_arch_starcoder, model_arch_starcoder2,
		model_arch_stablelm, model_arch_olmo2, model_arch_olmoe, model_arch_granite,
		model_arch_granitemoe, model_arch_minicpm, model_arch_command_r, model_arch_cohere2,
		model_arch_smollm3, model_arch_exaone, model_arch_glm4, model_arch_gpt_oss,
		model_arch_mamba, model_arch_bert, model_arch_nomic_bert, model_arch_jina_bert_v2,
		model_arch_jina_bert_v3;

#endif
