/* A model: hyper-parameters and weights, bound to the tensors of a GGUF file and checked. Immutable once open.
 *
 * Architectures differ in a few ways only; struct model_hparams and struct model_layer name them, src/forward follows
 * them, and arch_*.c says which of them an architecture has. */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include "base/err.h"
#include "gguf/gguf.h"
#include "model/weight.h"

/* w NULL: no norm in this place. */
struct model_norm {
	const struct model_weight *w, *b; /* b may be NULL */
};

/* down(act(gate) * up), or down(act(up)) where gate is NULL; biases may be NULL. */
struct model_ffn {
	const struct model_weight *gate, *up, *down;
	const struct model_weight *gate_b, *up_b, *down_b;
};

/* Feed-forward networks of which each row uses a few. Matrices are the first of n_expert that follow each other in
 * model.weights; a bias is one matrix with a row per expert. */
struct model_experts {
	const struct model_weight *router, *router_b; /* router NULL: no experts in this layer */
	struct model_ffn e;
	struct model_ffn shared;                /* up NULL: none */
	const struct model_weight *shared_gate; /* [1, n_embd] or NULL: the shared one is weighed by its sigmoid */
};

/* A selective state space (mamba) in the place of attention. */
struct model_ssm {
	const struct model_weight *in_x, *in_z;    /* [d_inner, n_embd] */
	const struct model_weight *conv, *conv_b;  /* floats [d_inner, d_conv], [d_inner] */
	const struct model_weight *dt_low, *b, *c; /* [dt_rank | d_state, d_inner] */
	const struct model_weight *dt, *dt_b;      /* [d_inner, dt_rank], [d_inner] */
	const struct model_weight *a, *d;          /* floats [d_inner, d_state], [d_inner] */
	const struct model_weight *out;            /* [n_embd, d_inner] */
};

struct model_layer {
	/* Before attention, behind its output (before the sum, or behind it with post_norm), and so for the network. */
	struct model_norm attn_norm, attn_post, ffn_norm, ffn_post;
	const struct model_weight *wq, *wk, *wv, *wo;
	const struct model_weight *bq, *bk, *bv, *bo;
	struct model_norm attn_again; /* with post_norm: of the sum of what attn_post gave and the layer's input */
	struct model_norm q_norm, k_norm; /* of a head (one row, or a row per head), or of the whole row */
	const struct model_weight *sinks; /* [n_head] or NULL */
	struct model_ffn ffn;
	struct model_experts experts;
	struct model_ssm ssm; /* out NULL: the layer attends */
	uint32_t window; /* rows see themselves and window - 1 positions before; 0: all */
	int8_t rope;   /* which of model.rope; -1: not rotated, as none is without hp.n_rot */
	bool parallel; /* attention and network both see the layer's input, and both are added to it */
};

enum model_act { MODEL_SILU, MODEL_GELU, MODEL_SWIGLU_OAI };
/* Softmax over all experts; over the chosen ones; sigmoid of each. */
enum model_gating { MODEL_GATE_SOFTMAX, MODEL_GATE_SOFTMAX_CHOSEN, MODEL_GATE_SIGMOID };

struct model_hparams {
	uint32_t n_vocab, n_embd, n_layer, n_head, n_head_kv, n_ff, n_ctx_train;
	uint32_t head_k, head_v; /* elements per head */
	uint32_t n_rot;          /* rotated elements per head, even */
	bool rope_halves;        /* pairs (i, i + n_rot/2) instead of (2i, 2i+1) */
	bool layer_norm;         /* norms subtract the mean */
	bool post_norm;          /* norms are taken of the sums (encoders) */
	bool encoder;            /* rows see what comes after them; there are no logits */
	float norm_eps;
	float attn_scale;          /* applied to queries */
	float embd_scale, residual_scale, logit_scale; /* 1: none */
	float attn_cap, logit_cap; /* scores and logits become cap * tanh(x / cap); 0: they stay */
	float qkv_clamp;           /* q, k and v are kept within it of 0; 0: they stay */
	float attn_temp;           /* queries grow by 1 + attn_temp ln(1 + position / temp_period); 0: they stay */
	uint32_t temp_period;
	float alibi;               /* scores lose what grows with distance, up to 2^-alibi per head; 0: nothing */
	enum model_act act;
	enum cohort_pooling pooling; /* what the file asks for where rows become one embedding */

	uint32_t n_expert, n_expert_used, n_ff_exp, n_ff_shared;
	enum model_gating gating;
	bool expert_norm;   /* the chosen experts' weights are divided by their sum */
	float expert_scale; /* and multiplied by this */

	uint32_t d_conv, d_inner, d_state, dt_rank; /* of layers with a state; 0: there are none */
};

/* Angles of rotary positions. */
enum { MODEL_ROPES = 2 };
struct model_rope {
	double *freqs;      /* [n_rot / 2]: angle per position; NULL: not in use */
	double *freqs_long; /* the same for contexts of more than n_orig positions, or NULL */
	uint32_t n_orig;
	float scale; /* of both cos and sin */
};

/* The angles of contexts with n_pos positions; NULL: not in use. */
static inline const double *model_rope_freqs(const struct model_rope *r, size_t n_pos)
{
	return r->freqs_long && n_pos > r->n_orig ? r->freqs_long : r->freqs;
}

struct model {
	const struct gguf *gguf;
	const struct model_arch *arch;
	struct model_hparams hp;
	struct model_weight *weights; /* every bound tensor, or its slices */
	size_t n_weights, weights_max;
	bool *bound; /* [n_tensors], while loading */
	const struct model_weight *token_embd;
	const struct model_weight *pos_embd;  /* [n_ctx_train, n_embd] or NULL */
	const struct model_weight *type_embd; /* row 0 is added to every token; or NULL */
	struct model_norm embd_norm, output_norm;
	const struct model_weight *output;   /* may be token_embd; NULL: an encoder */
	const struct model_weight *output_b; /* or NULL */
	struct model_layer *layers;          /* [n_layer] */
	struct model_rope rope[MODEL_ROPES];
	float *slopes; /* [n_head] with alibi, or NULL */
	uint64_t n_params, weight_bytes;
};

struct model_arch; /* arch.h */

/* Whether an independent implementation has confirmed the architecture's numbers. */
bool model_is_checked(const struct model *m);
const char *model_arch_name(const struct model *m);

/* n_vocab: the tokeniser's, or 0 when there is none. The gguf must outlive the model. */
enum cohort_status model_init(struct model *m, const struct gguf *g, uint32_t n_vocab, struct cohort_err *err);
void model_release(struct model *m);

/* Whether layers hold states instead of cells. */
static inline bool model_is_recurrent(const struct model *m)
{
	return m->hp.d_inner != 0;
}

#endif
