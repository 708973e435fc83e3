/* Row operations of the newer architectures in units of eight, included by each level's row file behind kern_v8.h. What
 * is left over at the end goes through the scalar functions of kern_plain.h, in the same operations.
 *
 * Channels of a recurrent layer have nothing to do with each other, so eight of them go through all rows before the
 * next eight: their states and weights stay near, and each channel still meets its rows in order. */
#define PLAIN V8
#include "kern/kern_plain.h"

/* Mean and deviation in two passes over eight lanes each. */
V8 static void layer_norm_8(const float *x, const float *w, const float *b, size_t n, float eps, float *out)
{
	const size_t whole = n & ~(size_t)7;
	v8 sum = v8_set(0.0f);
	float lane[8];

	for (size_t i = 0; i < whole; i += 8)
		sum = v8_add(sum, v8_load(x + i));
	v8_store(lane, sum);
	for (size_t i = whole; i < n; i++)
		lane[i - whole] += x[i];
	const float mean = kern_tree8(lane) / (float)n;
	sum = v8_set(0.0f);
	for (size_t i = 0; i < whole; i += 8) {
		const v8 v = v8_sub(v8_load(x + i), v8_set(mean));
		sum = v8_fma(v, v, sum);
	}
	v8_store(lane, sum);
	for (size_t i = whole; i < n; i++)
		lane[i - whole] = fmaf(x[i] - mean, x[i] - mean, lane[i - whole]);
	const float r = kern_rms_scale(kern_tree8(lane), n, eps);
	for (size_t i = 0; i < whole; i += 8) {
		const v8 v = v8_mul(v8_sub(v8_load(x + i), v8_set(mean)), v8_set(r));
		v8_store(out + i, b ? v8_fma(v, v8_load(w + i), v8_load(b + i)) : v8_mul(v, v8_load(w + i)));
	}
	for (size_t i = whole; i < n; i++)
		out[i] = b ? fmaf((x[i] - mean) * r, w[i], b[i]) : (x[i] - mean) * r * w[i];
}

V8 static void swiglu_oai_8(const float *gate, const float *up, size_t n, float *out)
{
	const v8 most = v8_set(KERN_OAI_LIMIT), least = v8_set(-KERN_OAI_LIMIT), one = v8_set(1.0f);
	size_t i = 0;

	for (; i + 8 <= n; i += 8) {
		v8 g = v8_load(gate + i), u = v8_load(up + i);
		g = v8_pick_lt(most, g, most, g);
		u = v8_pick_lt(most, u, most, u);
		u = v8_pick_lt(u, least, least, u);
		g = v8_div(g, v8_add(one, v8_exp(v8_mul(g, v8_set(KERN_OAI_SLOPE)))));
		v8_store(out + i, v8_mul(g, v8_add(u, one)));
	}
	swiglu_oai(gate + i, up + i, n - i, out + i);
}

V8 static void softcap_8(float *x, float cap, size_t n)
{
	const v8 inv = v8_set(1.0f / cap);
	size_t i = 0;

	for (; i + 8 <= n; i += 8)
		v8_store(x + i, v8_mul(v8_set(cap), v8_tanh(v8_mul(v8_load(x + i), inv))));
	softcap(x + i, cap, n - i);
}

/* Weights of more steps back than this are read one by one for each row. */
enum { CONV_NEAR = 8 };

/* The weights for step j of eight channels. */
V8_INLINE v8 conv_weights(const struct kern_conv *v, size_t c, size_t j)
{
	float w[8];
	for (size_t i = 0; i < 8; i++)
		w[i] = v->w[(c + i) * v->d_conv + j];
	return v8_load(w);
}

V8 static void conv_8(const struct kern_conv *v, size_t c0, size_t c1)
{
	const size_t last = v->d_conv - 1;
	size_t c = c0;

	for (; c + 8 <= c1 && last < CONV_NEAR; c += 8) {
		const v8 bias = v8_load(v->bias + c);
		v8 w[CONV_NEAR];
		for (size_t j = 0; j <= last; j++)
			w[j] = conv_weights(v, c, j);
		for (size_t r = 0; r < v->n_rows; r++) {
			float *x = v->x + r * v->n + c, *to = v->states + (size_t)v->to[r] * v->state_n + c;
			const float *from = v->from[r] < 0 ? NULL : v->states + (size_t)v->from[r] * v->state_n + c;
			const v8 in = v8_load(x);
			v8 sum = bias;
			/* `from` may be `to`: a place is written when it has been read. */
			for (size_t j = 0; j < last; j++) {
				const v8 old = from ? v8_load(from + j * v->n) : v8_set(0.0f);
				sum = v8_fma(w[j], old, sum);
				if (j)
					v8_store(to + (j - 1) * v->n, old);
			}
			sum = v8_fma(w[last], in, sum);
			if (last)
				v8_store(to + (last - 1) * v->n, in);
			v8_store(x, v8_silu(sum));
		}
	}
	conv(v, c, c1);
}

/* One channel's states after a row, and the lanes of their sum. old: NULL for zeros, or what `to` may be, too. */
V8_INLINE v8 scan_channel(const float *old, float *to, const float *a, const float *b, const float *c, float dt,
		float in, const size_t n)
{
	v8 lane = v8_set(0.0f);

	for (size_t i = 0; i < n; i += 8) {
		v8 kept = v8_set(0.0f);
		if (old)
			kept = v8_mul(v8_load(old + i), v8_exp(v8_mul(v8_set(dt), v8_load(a + i))));
		const v8 now = v8_fma(v8_load(b + i), v8_set(in), kept);
		v8_store(to + i, now);
		lane = v8_fma(now, v8_load(c + i), lane);
	}
	return lane;
}

/* All rows of eight channels from c on. s is a copy that nobody else sees: stores need not be thought to change it. */
V8_INLINE void scan_channels(const struct kern_scan s, size_t c, const size_t n)
{
	for (size_t r = 0; r < s.n_rows; r++) {
		const size_t at = r * s.n + c;
		const v8 dt = v8_softplus(v8_add(v8_load(s.dt + at), v8_load(s.dt_bias + c)));
		const v8 x = v8_load(s.x + at);
		const float *old = s.from[r] < 0 ? NULL : s.states + (size_t)s.from[r] * s.state_n + c * n;
		float *to = s.states + (size_t)s.to[r] * s.state_n + c * n;
		float dts[8], ins[8];
		v8 lane[8];
		v8_store(dts, dt);
		v8_store(ins, v8_mul(x, dt));
		for (size_t i = 0; i < 8; i++)
			lane[i] = scan_channel(old ? old + i * n : NULL, to + i * n, s.a + (c + i) * n, s.b + r * n,
					s.c + r * n, dts[i], ins[i], n);
		const v8 y = v8_fma(v8_load(s.d + c), x, v8_trees(lane));
		v8_store(s.x + at, v8_mul(v8_silu(v8_load(s.z + at)), y));
	}
}

/* 16 states a channel is what files have. */
V8 static void scan_8(const struct kern_scan *s, size_t c0, size_t c1)
{
	size_t c = c0;

	for (; c + 8 <= c1 && s->d_state % 8 == 0; c += 8)
		if (s->d_state == 16)
			scan_channels(*s, c, 16);
		else
			scan_channels(*s, c, s->d_state);
	scan(s, c, c1);
}

static void rows8_init(struct kern *k)
{
	k->layer_norm = layer_norm_8;
	k->swiglu_oai = swiglu_oai_8;
	k->softcap = softcap_8;
	k->conv = conv_8;
	k->scan = scan_8;
}
