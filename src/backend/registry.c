/* The backends that there are, and what they share. */
#include "backend/cpu.h"

#include "base/fmath.h"
#include "kern/kern_math.h"

#include <string.h>

#define BACKENDS_MAX 8

static const struct be_ops *backends[BACKENDS_MAX] = {&be_cpu};
static size_t n_backends = 1;

size_t be_count(void)
{
	return n_backends;
}

const struct be_ops *be_get(size_t i)
{
	return i < n_backends ? backends[i] : NULL;
}

bool be_register(const struct be_ops *ops)
{
	if (n_backends == BACKENDS_MAX)
		return false;
	backends[n_backends++] = ops;
	return true;
}

struct be_range be_share(size_t n_rows, size_t rank, size_t of)
{
	const size_t unit = 32, n = (n_rows + unit - 1) / unit;

	if (of < 2)
		return (struct be_range){0, n_rows};
	const size_t from = n * rank / of * unit, to = n * (rank + 1) / of * unit;
	return (struct be_range){from < n_rows ? from : n_rows, to < n_rows ? to : n_rows};
}

void be_rope_angles(const struct be_rope *rope, cohort_pos pos, float scale, float *out)
{
	const size_t n = rope->n_rot / 2;

	for (size_t i = 0; i < n; i++) {
		double sin, cos;
		fm_sincos((double)pos * rope->freqs[i], &sin, &cos);
		out[i] = (float)(cos * (double)scale);
		out[n + i] = (float)(sin * (double)scale);
	}
}

void be_clamp(float *x, float most, size_t n)
{
	for (size_t i = 0; most != 0.0f && i < n; i++) {
		x[i] = x[i] > most ? most : x[i];
		x[i] = x[i] < -most ? -most : x[i];
	}
}

float be_query_scale(const struct be_qkv *d, cohort_pos pos)
{
	if (d->temp == 0.0f)
		return d->scale;
	const double steps = (double)((uint32_t)pos / d->temp_period);
	return (float)((double)d->scale * (1.0 + (double)d->temp * fm_log(1.0 + steps)));
}

static void softmax(float *p, size_t n)
{
	float top = p[0], sum = 0.0f;
	for (size_t i = 1; i < n; i++)
		top = p[i] > top ? p[i] : top;
	for (size_t i = 0; i < n; i++) {
		p[i] = kern_exp(p[i] - top);
		sum += p[i];
	}
	for (size_t i = 0; i < n; i++)
		p[i] = p[i] / sum;
}

void be_choose(const struct be_experts *d, float *scores, int32_t *chosen, float *weights)
{
	float sum = 0.0f;
	bool taken[BE_EXPERTS_MAX];

	memset(taken, 0, d->n);
	if (d->gating == BE_GATE_SOFTMAX)
		softmax(scores, d->n);
	for (size_t i = 0; d->gating == BE_GATE_SIGMOID && i < d->n; i++)
		scores[i] = 1.0f / (1.0f + kern_exp(-scores[i]));
	for (size_t u = 0; u < d->n_used; u++) {
		size_t best = SIZE_MAX;
		for (size_t e = 0; e < d->n; e++)
			if (!taken[e] && (best == SIZE_MAX || scores[e] > scores[best]))
				best = e;
		taken[best] = true;
		chosen[u] = (int32_t)best;
		weights[u] = scores[best];
	}
	if (d->gating == BE_GATE_SOFTMAX_CHOSEN)
		softmax(weights, d->n_used);
	for (size_t u = 0; u < d->n_used; u++)
		sum += weights[u];
	/* The least sum that is divided by is f16's least normal number, as everywhere. */
	const float by = d->norm ? 1.0f / (sum > 0x1p-14f ? sum : 0x1p-14f) : 1.0f;
	for (size_t u = 0; u < d->n_used; u++)
		weights[u] = weights[u] * by * d->scale;
}
