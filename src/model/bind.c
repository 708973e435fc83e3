/* Binding tensors to the places of a model.
 *
 * Invariants
 *  1. Every bound tensor has exactly the shape the architecture expects and a known format; vectors and tables, which
 *     are read as floats, are F32.
 *  2. Slices are whole rows, so their bytes are a part of the tensor's. */
#include "model/arch.h"

#include "quant/quant.h"

#include <stdio.h>

struct arch_bind arch_bind_layer(struct model *m, uint32_t i_layer, struct cohort_err *err)
{
	return (struct arch_bind){m, i_layer, &m->layers[i_layer], COHORT_OK, err};
}

struct arch_bind arch_bind_top(struct model *m, struct cohort_err *err)
{
	return (struct arch_bind){m, ARCH_NO_LAYER, NULL, COHORT_OK, err};
}

/* The tensor and its full name; NULL when it is absent, or when something was wrong before. */
static const struct gguf_tensor *find(struct arch_bind *b, const char *name, bool need, char full[96])
{
	const struct gguf_tensor *t;

	if (b->st)
		return NULL;
	int n = b->i_layer == ARCH_NO_LAYER ? snprintf(full, 96, "%s", name)
					    : snprintf(full, 96, "blk.%u.%s", b->i_layer, name);
	if (n >= 96) {
		b->st = err_set(b->err, COHORT_E_BUG, "tensor name %s is too long", name);
		return NULL;
	}
	t = gguf_find_tensor(b->m->gguf, full);
	if (!t && need)
		b->st = err_set(b->err, COHORT_E_FORMAT, "tensor %s is missing", full);
	return t;
}

/* Checks shape and format, and that there is room for n weights. */
static bool fits(struct arch_bind *b, const struct gguf_tensor *t, const char *full, size_t k, size_t n_rows,
		size_t n_mats, bool floats, size_t n)
{
	const struct quant_format *f = quant_format_get(t->type);
	struct model *m = b->m;

	if (!f)
		b->st = err_set(b->err, COHORT_E_UNSUPPORTED,
				"tensor %s has format number %u, which this version does not know", full, t->type);
	else if (t->ne[0] != k || t->ne[1] != n_rows || t->ne[2] != n_mats || t->ne[3] != 1)
		b->st = err_at(b->err, COHORT_E_FORMAT, t->offset,
				"tensor %s has shape [%llu, %llu, %llu, %llu], expected [%zu, %zu, %zu]", full,
				(unsigned long long)t->ne[0], (unsigned long long)t->ne[1],
				(unsigned long long)t->ne[2], (unsigned long long)t->ne[3], k, n_rows, n_mats);
	else if (floats && t->type != QUANT_F32)
		b->st = err_set(b->err, COHORT_E_UNSUPPORTED, "tensor %s is %s; vectors must be F32", full, f->name);
	else if (m->bound[t - m->gguf->tensors])
		b->st = err_set(b->err, COHORT_E_BUG, "tensor %s bound twice", full);
	else if (m->weights_max - m->n_weights < n)
		b->st = err_set(b->err, COHORT_E_BUG, "tensor %s has more parts than were counted", full);
	return !b->st;
}

static void account(struct model *m, const struct gguf_tensor *t, uint64_t n_rows, size_t k)
{
	m->bound[t - m->gguf->tensors] = true;
	m->n_params += n_rows * k;
	m->weight_bytes += t->n_bytes;
}

/* Rows [row, row + n_rows) of a tensor that is known to have them. */
static const struct model_weight *add(
		struct arch_bind *b, const struct gguf_tensor *t, size_t k, size_t row, size_t n_rows, bool product)
{
	const struct quant_format *f = quant_format_get(t->type);
	const size_t row_bytes = k / f->block * f->block_bytes;
	struct model *m = b->m;
	struct model_weight *w = &m->weights[m->n_weights];

	*w = (struct model_weight){
			.tensor = t,
			.type = t->type,
			.index = (int32_t)m->n_weights++,
			.layer = b->i_layer == ARCH_NO_LAYER ? -1 : (int32_t)b->i_layer,
			.k = k,
			.n_rows = n_rows,
			.row_bytes = row_bytes,
			.data = (const char *)t->data + row * row_bytes,
			.offset = (uint64_t)row * row_bytes,
			.product = product,
	};
	return w;
}

static const struct model_weight *bind(
		struct arch_bind *b, const char *name, bool need, size_t k, size_t n_rows, bool floats, bool product)
{
	char full[96];
	const struct gguf_tensor *t = find(b, name, need, full);

	if (!t || !fits(b, t, full, k, n_rows, 1, floats, 1))
		return NULL;
	account(b->m, t, n_rows, k);
	return add(b, t, k, 0, n_rows, product);
}

const struct model_weight *arch_matrix(struct arch_bind *b, const char *name, bool need, size_t k, size_t n_rows)
{
	return bind(b, name, need, k, n_rows, false, true);
}

const struct model_weight *arch_vector(struct arch_bind *b, const char *name, bool need, size_t n)
{
	return bind(b, name, need, n, 1, true, false);
}

const struct model_weight *arch_table(struct arch_bind *b, const char *name, bool need, size_t k, size_t n_rows)
{
	return bind(b, name, need, k, n_rows, true, false);
}

const struct model_weight *arch_rows(struct arch_bind *b, const char *name, bool need, size_t k, size_t n_rows)
{
	return bind(b, name, need, k, n_rows, false, false);
}

bool arch_slices(struct arch_bind *b, const char *name, bool need, size_t k, const size_t *n_rows, size_t n,
		const struct model_weight **out[])
{
	char full[96];
	const struct gguf_tensor *t = find(b, name, need, full);
	size_t row = 0, all = 0;

	for (size_t i = 0; i < n; i++)
		all += n_rows[i];
	if (!t || !fits(b, t, full, k, all, 1, false, n))
		return false;
	account(b->m, t, all, k);
	for (size_t i = 0; i < n; row += n_rows[i++])
		*out[i] = add(b, t, k, row, n_rows[i], true);
	return true;
}

/* The parts of a vector, each a vector. */
static bool vector_slices(
		struct arch_bind *b, const char *name, const size_t *len, size_t n, const struct model_weight **out[])
{
	char full[96];
	const struct gguf_tensor *t = find(b, name, ARCH_MAY, full);
	size_t all = 0, at = 0;

	for (size_t i = 0; i < n; i++)
		all += len[i];
	if (!t || !fits(b, t, full, all, 1, 1, true, n))
		return false;
	account(b->m, t, 1, all);
	for (size_t i = 0; i < n; at += len[i++]) {
		/* A vector of `all` elements, seen as rows of one. */
		struct model_weight *w = (struct model_weight *)add(b, t, 1, at, len[i], false);
		w->n_rows = 1;
		w->k = len[i];
		w->row_bytes = len[i] * sizeof(float);
		*out[i] = w;
	}
	return true;
}

/* n_expert matrices of one tensor. */
static const struct model_weight *stack(struct arch_bind *b, const char *name, bool need, size_t k, size_t n_rows)
{
	const size_t n = b->m->hp.n_expert;
	const struct model_weight *first = NULL;
	char full[96];
	const struct gguf_tensor *t = find(b, name, need, full);

	if (!t || !fits(b, t, full, k, n_rows, n, false, n))
		return NULL;
	account(b->m, t, (uint64_t)n * n_rows, k);
	for (size_t i = 0; i < n; i++) {
		const struct model_weight *w = add(b, t, k, i * n_rows, n_rows, true);
		first = first ? first : w;
	}
	return first;
}

void arch_norm(struct arch_bind *b, const char *name, bool need, size_t n, struct model_norm *out)
{
	char part[64];

	snprintf(part, sizeof part, "%s.weight", name);
	out->w = arch_vector(b, part, need, n);
	snprintf(part, sizeof part, "%s.bias", name);
	if (out->w && b->m->hp.layer_norm)
		out->b = arch_vector(b, part, ARCH_MAY, n);
}

void arch_ends(struct arch_bind *b)
{
	struct model *m = b->m;
	struct model_hparams *h = &m->hp;
	char full[96];
	const struct gguf_tensor *t = find(b, "token_embd.weight", ARCH_NEED, full);

	if (!t)
		return;
	if (t->ne[1] > INT32_MAX) {
		b->st = err_at(b->err, COHORT_E_FORMAT, t->offset, "%s has too many rows", full);
		return;
	}
	const uint32_t n_vocab = (uint32_t)t->ne[1];
	if (h->n_vocab && h->n_vocab != n_vocab) {
		b->st = err_at(b->err, COHORT_E_FORMAT, t->offset, "%s has %u rows, the vocabulary %u tokens", full,
				n_vocab, h->n_vocab);
		return;
	}
	h->n_vocab = n_vocab;
	m->token_embd = arch_rows(b, "token_embd.weight", ARCH_NEED, h->n_embd, n_vocab);
	if (h->encoder || !m->token_embd)
		return;
	arch_norm(b, "output_norm", ARCH_NEED, h->n_embd, &m->output_norm);
	m->output = arch_matrix(b, "output.weight", ARCH_MAY, h->n_embd, n_vocab);
	if (!m->output) {
		struct model_weight *tied = &m->weights[m->token_embd->index];
		tied->product = tied->lookup = true;
		m->output = tied;
	}
}

void arch_attention(struct arch_bind *b)
{
	const struct model_hparams *h = &b->m->hp;
	struct model_layer *l = b->layer;
	const size_t n[] = {(size_t)h->n_head * h->head_k, (size_t)h->n_head_kv * h->head_k,
			(size_t)h->n_head_kv * h->head_v};
	const struct model_weight **w[] = {&l->wq, &l->wk, &l->wv}, **bias[] = {&l->bq, &l->bk, &l->bv};

	if (!arch_slices(b, "attn_qkv.weight", ARCH_MAY, h->n_embd, n, 3, w)) {
		l->wq = arch_matrix(b, "attn_q.weight", ARCH_NEED, h->n_embd, n[0]);
		l->wk = arch_matrix(b, "attn_k.weight", ARCH_NEED, h->n_embd, n[1]);
		l->wv = arch_matrix(b, "attn_v.weight", ARCH_NEED, h->n_embd, n[2]);
	}
	if (!vector_slices(b, "attn_qkv.bias", n, 3, bias)) {
		l->bq = arch_vector(b, "attn_q.bias", ARCH_MAY, n[0]);
		l->bk = arch_vector(b, "attn_k.bias", ARCH_MAY, n[1]);
		l->bv = arch_vector(b, "attn_v.bias", ARCH_MAY, n[2]);
	}
	l->wo = arch_matrix(b, "attn_output.weight", ARCH_NEED, (size_t)h->n_head * h->head_v, h->n_embd);
	l->bo = arch_vector(b, "attn_output.bias", ARCH_MAY, h->n_embd);
}

/* One of the two: of a head for all heads, of a head for each, or of the whole row, as the tensor's shape says. */
static void head_norm(struct arch_bind *b, const char *name, bool need, size_t n_heads, struct model_norm *out)
{
	const size_t head = b->m->hp.head_k;
	char part[64], full[96];

	snprintf(part, sizeof part, "%s.weight", name);
	const struct gguf_tensor *t = find(b, part, need, full);
	if (!t)
		return;
	if (t->ne[1] > 1)
		out->w = arch_table(b, part, need, head, n_heads);
	else
		arch_norm(b, name, need, t->ne[0] == head ? head : head * n_heads, out);
}

void arch_qk_norm(struct arch_bind *b, bool need)
{
	head_norm(b, "attn_q_norm", need, b->m->hp.n_head, &b->layer->q_norm);
	head_norm(b, "attn_k_norm", need, b->m->hp.n_head_kv, &b->layer->k_norm);
}

void arch_ffn(struct arch_bind *b, bool gated)
{
	const struct model_hparams *h = &b->m->hp;
	struct model_ffn *f = &b->layer->ffn;
	const size_t both[] = {h->n_ff, h->n_ff};
	const struct model_weight **w[] = {&f->gate, &f->up}, **bias[] = {&f->gate_b, &f->up_b};
	char full[96];
	const struct gguf_tensor *up = find(b, "ffn_up.weight", ARCH_NEED, full);

	/* Gate and up in one, the gate first. */
	if (up && gated && up->ne[1] == 2 * (uint64_t)h->n_ff) {
		arch_slices(b, "ffn_up.weight", ARCH_NEED, h->n_embd, both, 2, w);
		vector_slices(b, "ffn_up.bias", both, 2, bias);
	} else {
		if (gated) {
			f->gate = arch_matrix(b, "ffn_gate.weight", ARCH_NEED, h->n_embd, h->n_ff);
			f->gate_b = arch_vector(b, "ffn_gate.bias", ARCH_MAY, h->n_ff);
		}
		f->up = arch_matrix(b, "ffn_up.weight", ARCH_NEED, h->n_embd, h->n_ff);
		f->up_b = arch_vector(b, "ffn_up.bias", ARCH_MAY, h->n_ff);
	}
	f->down = arch_matrix(b, "ffn_down.weight", ARCH_NEED, h->n_ff, h->n_embd);
	f->down_b = arch_vector(b, "ffn_down.bias", ARCH_MAY, h->n_embd);
}

void arch_experts(struct arch_bind *b)
{
	const struct model_hparams *h = &b->m->hp;
	struct model_experts *x = &b->layer->experts;
	const size_t n = h->n_expert, ff = h->n_ff_exp, shared = h->n_ff_shared;

	if (n == 0 && !b->st)
		b->st = err_set(b->err, COHORT_E_FORMAT, "%s.expert_count is missing or 0", b->m->arch->name);
	x->router = arch_matrix(b, "ffn_gate_inp.weight", ARCH_NEED, h->n_embd, n);
	x->router_b = arch_vector(b, "ffn_gate_inp.bias", ARCH_MAY, n);
	x->e.gate = stack(b, "ffn_gate_exps.weight", ARCH_NEED, h->n_embd, ff);
	x->e.up = stack(b, "ffn_up_exps.weight", ARCH_NEED, h->n_embd, ff);
	x->e.down = stack(b, "ffn_down_exps.weight", ARCH_NEED, ff, h->n_embd);
	x->e.gate_b = arch_table(b, "ffn_gate_exps.bias", ARCH_MAY, ff, n);
	x->e.up_b = arch_table(b, "ffn_up_exps.bias", ARCH_MAY, ff, n);
	x->e.down_b = arch_table(b, "ffn_down_exps.bias", ARCH_MAY, h->n_embd, n);
	if (shared == 0)
		return;
	x->shared.gate = arch_matrix(b, "ffn_gate_shexp.weight", ARCH_NEED, h->n_embd, shared);
	x->shared.up = arch_matrix(b, "ffn_up_shexp.weight", ARCH_NEED, h->n_embd, shared);
	x->shared.down = arch_matrix(b, "ffn_down_shexp.weight", ARCH_NEED, shared, h->n_embd);
	x->shared_gate = arch_vector(b, "ffn_gate_inp_shexp.weight", ARCH_MAY, h->n_embd);
}

void arch_attention_block(struct arch_bind *b)
{
	arch_norm(b, "attn_norm", ARCH_NEED, b->m->hp.n_embd, &b->layer->attn_norm);
	arch_attention(b);
}

void arch_network_block(struct arch_bind *b, bool gated)
{
	arch_norm(b, "ffn_norm", ARCH_NEED, b->m->hp.n_embd, &b->layer->ffn_norm);
	if (b->m->hp.n_expert)
		arch_experts(b);
	else
		arch_ffn(b, gated);
}

void arch_block(struct arch_bind *b, bool gated)
{
	arch_attention_block(b);
	arch_network_block(b, gated);
}

void arch_qk_block(struct arch_bind *b)
{
	arch_attention_block(b);
	arch_qk_norm(b, ARCH_NEED);
	arch_network_block(b, true);
}

void arch_normed_block(struct arch_bind *b)
{
	arch_attention_block(b);
	arch_norm(b, "post_attention_norm", ARCH_NEED, b->m->hp.n_embd, &b->layer->attn_post);
	arch_network_block(b, true);
	arch_norm(b, "post_ffw_norm", ARCH_NEED, b->m->hp.n_embd, &b->layer->ffn_post);
}

void arch_plain_block(struct arch_bind *b)
{
	arch_block(b, false);
}
