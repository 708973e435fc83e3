/* The CPU backend's recurrent states: convolution and scan, channel by channel.
 *
 * Invariants
 *  1. A channel of a row follows from the same channel of the rows before it in the ubatch and of the state it began
 * with; threads take channels, so rows stay in order.
 *  2. A row writes the state it is told to, which nobody else reads before the transaction ends. */
#include "backend/cpu.h"

#include "base/mem.h"

#include <string.h>

bool cpu_state_init(struct be *be, size_t n_states)
{
	const struct model_hparams *h = &be->m->hp;
	size_t n;

	be->n_states = n_states;
	if (!h->d_inner)
		return true;
	be->state_n = (size_t)h->d_inner * (h->d_conv - 1 + h->d_state);
	if (!size_mul(be->state_n, h->n_layer, &n) || !size_mul(n, n_states, &n) || !size_mul(n, sizeof(float), &n))
		return false;
	be->states = mem_zalloc_large(n);
	return be->states != NULL;
}

/* States of a layer: state i at its address + i * stride. */
static float *states_of(const struct be *be, size_t layer)
{
	return be->states + layer * be->state_n;
}

static size_t stride(const struct be *be)
{
	return be->state_n * be->m->hp.n_layer;
}

/* Channels that are handed out together: whole cache lines, so that threads do not write to the same one. */
enum { CHANNELS = 16 };

static void conv_share(void *arg, size_t from, size_t to, size_t thread)
{
	struct be *be = ((void **)arg)[0];
	const struct kern_conv *v = ((void **)arg)[1];
	(void)thread;
	be->kern->conv(v, from * CHANNELS, to * CHANNELS < v->n ? to * CHANNELS : v->n);
}

static void scan_share(void *arg, size_t from, size_t to, size_t thread)
{
	struct be *be = ((void **)arg)[0];
	const struct kern_scan *s = ((void **)arg)[1];
	(void)thread;
	be->kern->scan(s, from * CHANNELS, to * CHANNELS < s->n ? to * CHANNELS : s->n);
}

void cpu_conv(struct be *be, struct be_buf *x, size_t layer)
{
	const struct model_hparams *h = &be->m->hp;
	const struct model_ssm *w = &be->m->layers[layer].ssm;
	struct kern_conv v = {.n_rows = be->rows->n,
			.n = h->d_inner,
			.d_conv = h->d_conv,
			.from = be->rows->state_from,
			.to = be->rows->state_to,
			.states = states_of(be, layer),
			.state_n = stride(be),
			.w = w->conv->data,
			.bias = w->conv_b->data,
			.x = x->f};

	be->rounded = NULL;
	pool_run(be->pool, (v.n + CHANNELS - 1) / CHANNELS, 1, conv_share, (void *[]){be, &v});
}

void cpu_scan(struct be *be, struct be_buf *x, const struct be_buf *dt, const struct be_buf *b, const struct be_buf *c,
		const struct be_buf *z, size_t layer)
{
	const struct model_hparams *h = &be->m->hp;
	const struct model_ssm *w = &be->m->layers[layer].ssm;
	struct kern_scan s = {.n_rows = be->rows->n,
			.n = h->d_inner,
			.d_state = h->d_state,
			.from = be->rows->state_from,
			.to = be->rows->state_to,
			.states = states_of(be, layer) + (size_t)h->d_inner * (h->d_conv - 1),
			.state_n = stride(be),
			.a = w->a->data,
			.d = w->d->data,
			.dt = dt->f,
			.dt_bias = w->dt_b->data,
			.b = b->f,
			.c = c->f,
			.z = z->f,
			.x = x->f};

	be->rounded = NULL;
	pool_run(be->pool, (s.n + CHANNELS - 1) / CHANNELS, 1, scan_share, (void *[]){be, &s});
}

size_t cpu_state_bytes(const struct be *be)
{
	return stride(be) * sizeof(float);
}

void cpu_state_read(struct be *be, int32_t state, void *out)
{
	memcpy(out, be->states + (size_t)state * stride(be), cpu_state_bytes(be));
}

void cpu_state_write(struct be *be, int32_t state, const void *in)
{
	memcpy(be->states + (size_t)state * stride(be), in, cpu_state_bytes(be));
}
