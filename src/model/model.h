/* A model: hyper-parameters and weights, bound to the tensors of a GGUF file and checked. Immutable once open. */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include "base/err.h"
#include "gguf/gguf.h"

struct model_weight {
	const struct gguf_tensor *tensor;
	uint32_t type;      /* enum quant_type */
	int32_t index;      /* in model.weights */
	size_t k, n_rows;   /* [n_rows, k]; a vector is one row */
	const void *data;   /* in the mapped file */
};

struct model_layer {
	const struct model_weight *attn_norm, *wq, *wk, *wv, *wo;
	const struct model_weight *ffn_norm, *gate, *up, *down;
	uint32_t window; /* rows see themselves and window - 1 positions before; 0: all */
};

struct model_hparams {
	uint32_t n_vocab, n_embd, n_layer, n_head, n_head_kv, n_ff, n_ctx_train;
	uint32_t head_k, head_v;  /* elements per head */
	uint32_t n_rot;           /* rotated elements per head, even */
	bool rope_halves;         /* pairs (i, i + n_rot/2) instead of (2i, 2i+1) */
	float rope_base;
	float rope_scale;         /* positions are divided by it */
	float norm_eps;
	float attn_scale;         /* applied to queries */
};

struct model {
	const struct gguf *gguf;
	const struct model_arch *arch;
	struct model_hparams hp;
	struct model_weight *weights; /* every bound tensor */
	size_t n_weights;
	const struct model_weight *token_embd, *output_norm, *output; /* output may be token_embd */
	const struct model_weight *rope_factors;                      /* [n_rot / 2] or NULL */
	struct model_layer *layers;                                   /* [n_layer] */
	double *rope_freqs; /* [n_rot / 2]: angle per position */
	uint64_t n_params, weight_bytes;
};

/* What an architecture adds: reading its hyper-parameters and binding its tensors. */
struct model_arch {
	const char *name; /* general.architecture, and the prefix of its keys */
	enum cohort_status (*load)(struct model *m, struct cohort_err *err);
};

/* n_vocab: the tokeniser's, or 0 when there is none. The gguf must outlive the model. */
enum cohort_status model_init(struct model *m, const struct gguf *g, uint32_t n_vocab, struct cohort_err *err);
void model_release(struct model *m);

/* ---- For arch_*.c ---- */

/* `<arch>.<key>` */
enum cohort_status model_key_u32(
		const struct model *m, const char *key, bool need, uint32_t *out, struct cohort_err *err);
enum cohort_status model_key_f32(const struct model *m, const char *key, bool need, float *out, struct cohort_err *err);
/* Binds a tensor of exactly this shape (n_rows 0: a vector of k floats); *out stays NULL if it is absent and not
 * needed. */
enum cohort_status model_bind(struct model *m, const char *name, bool need, size_t k, size_t n_rows,
		const struct model_weight **out, struct cohort_err *err);
/* The parameters and the embedding that every decoder has. */
enum cohort_status model_load_common(struct model *m, struct cohort_err *err);

extern const struct model_arch model_arch_llama;

#endif
