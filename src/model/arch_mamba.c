/* mamba: a state per sequence instead of attention: a short convolution and a selective scan between two products. */
#include "model/arch.h"

static enum cohort_status keys(struct model *m, struct cohort_err *err)
{
	bool normed = false;
	enum cohort_status st = arch_bool(m, "ssm.dt_b_c_rms", &normed, err);

	if (!st && normed)
		st = err_set(err, COHORT_E_UNSUPPORTED,
				"mamba models that norm dt, B and C are not known to this version");
	return st;
}

static void layer(struct arch_bind *b)
{
	const struct model_hparams *h = &b->m->hp;
	struct model_ssm *s = &b->layer->ssm;
	const size_t in = h->d_inner, both[] = {in, in}, low[] = {h->dt_rank, h->d_state, h->d_state};
	const struct model_weight **xz[] = {&s->in_x, &s->in_z}, **dbc[] = {&s->dt_low, &s->b, &s->c};

	arch_norm(b, "attn_norm", ARCH_NEED, b->m->hp.n_embd, &b->layer->attn_norm);
	arch_slices(b, "ssm_in.weight", ARCH_NEED, h->n_embd, both, 2, xz);
	s->conv = arch_table(b, "ssm_conv1d.weight", ARCH_NEED, h->d_conv, in);
	s->conv_b = arch_vector(b, "ssm_conv1d.bias", ARCH_NEED, in);
	arch_slices(b, "ssm_x.weight", ARCH_NEED, in, low, 3, dbc);
	s->dt = arch_matrix(b, "ssm_dt.weight", ARCH_NEED, h->dt_rank, in);
	s->dt_b = arch_vector(b, "ssm_dt.bias", ARCH_NEED, in);
	s->a = arch_table(b, "ssm_a", ARCH_NEED, h->d_state, in);
	s->d = arch_vector(b, "ssm_d", ARCH_NEED, in);
	s->out = arch_matrix(b, "ssm_out.weight", ARCH_NEED, in, h->n_embd);
}

const struct model_arch model_arch_mamba = {.name = "mamba", .recurrent = true, .keys = keys, .layer = layer};
