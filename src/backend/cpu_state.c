/* The CPU backend's recurrent states: convolution and scan, channel by channel.
 *
 * Invariants
 *  1. A channel of a row follows from the same channel of the rows before it in the ubatch and of the state it began
 * with; threads take channels, so rows stay in order.
 *  2. A row writes the state it is told to, which nobody else reads before the transaction ends. */
#include "backend/cpu.h"

#include "base/mem.h"

#include <string.h>

bool cpu_state_init(struct cpu *c, const struct be_limits *lim)
{
	size_t n;

	c->n_states = lim->n_states;
	if (!lim->n_state_layers)
		return true;
	c->state_at = mem_zalloc(lim->n_state_layers, sizeof *c->state_at);
	if (!c->state_at)
		return false;
	for (size_t l = 0; l < lim->n_state_layers; l++) {
		c->state_at[l] = c->state_n;
		if (!size_add(c->state_n, lim->state_floats[l], &c->state_n))
			return false;
	}
	if (!size_mul(c->state_n, lim->n_states, &n) || !size_mul(n, sizeof(float), &n))
		return false;
	c->base.cell_bytes[BE_STATES] = c->state_n * sizeof(float);
	c->states = mem_zalloc_large(n);
	return c->states != NULL;
}

/* Channels that are handed out together: whole cache lines, so that threads do not write to the same one. */
enum { CHANNELS = 16 };

struct conv_job {
	struct cpu *c;
	struct kern_conv k;
};

static void conv_share(void *arg, size_t from, size_t to, size_t thread)
{
	const struct conv_job *j = arg;
	(void)thread;
	j->c->kern->conv(&j->k, from * CHANNELS, to * CHANNELS < j->k.n ? to * CHANNELS : j->k.n);
}

void cpu_conv(struct be_buf *x, const struct be_conv *d)
{
	struct cpu *c = cpu_of(x);
	struct conv_job j = {c, {.n_rows = c->rows->n,
			.n = d->n,
			.d_conv = d->width,
			.from = c->rows->state_from,
			.to = c->rows->state_to,
			.states = c->states + c->state_at[d->layer] + d->at,
			.state_n = c->state_n,
			.w = d->w->data,
			.bias = d->b->data,
			.x = ((struct cpu_buf *)x)->f}};

	c->rounded = NULL;
	pool_run(c->pool, (j.k.n + CHANNELS - 1) / CHANNELS, 1, conv_share, &j);
}

struct scan_job {
	struct cpu *c;
	struct kern_scan k;
};

static void scan_share(void *arg, size_t from, size_t to, size_t thread)
{
	const struct scan_job *j = arg;
	(void)thread;
	j->c->kern->scan(&j->k, from * CHANNELS, to * CHANNELS < j->k.n ? to * CHANNELS : j->k.n);
}

static const float *floats(const struct be_buf *b)
{
	return ((const struct cpu_buf *)b)->f;
}

void cpu_scan(struct be_buf *x, const struct be_buf *dt, const struct be_buf *b, const struct be_buf *bc,
		const struct be_buf *z, const struct be_scan *d)
{
	struct cpu *c = cpu_of(x);
	struct scan_job j = {c, {.n_rows = c->rows->n,
			.n = d->n,
			.d_state = d->d_state,
			.from = c->rows->state_from,
			.to = c->rows->state_to,
			.states = c->states + c->state_at[d->layer] + d->at,
			.state_n = c->state_n,
			.a = d->a->data,
			.d = d->d->data,
			.dt = floats(dt),
			.dt_bias = d->dt_b->data,
			.b = floats(b),
			.c = floats(bc),
			.z = floats(z),
			.x = ((struct cpu_buf *)x)->f}};

	c->rounded = NULL;
	pool_run(c->pool, (j.k.n + CHANNELS - 1) / CHANNELS, 1, scan_share, &j);
}
