/* Row operations in plain C: the reference's, and for the other levels what does the rest of a row that fills no
 * register (kern_rows8.h). Whoever includes this defines PLAIN, its function attributes. */

PLAIN static void swiglu_oai(const float *gate, const float *up, size_t n, float *out)
{
	for (size_t i = 0; i < n; i++) {
		const float g = gate[i] > KERN_OAI_LIMIT ? KERN_OAI_LIMIT : gate[i];
		float u = up[i] > KERN_OAI_LIMIT ? KERN_OAI_LIMIT : up[i];
		u = u < -KERN_OAI_LIMIT ? -KERN_OAI_LIMIT : u;
		out[i] = g / (1.0f + kern_exp(g * KERN_OAI_SLOPE)) * (u + 1.0f);
	}
}

PLAIN static void softcap(float *x, float cap, size_t n)
{
	const float inv = 1.0f / cap;
	for (size_t i = 0; i < n; i++)
		x[i] = cap * kern_tanh(x[i] * inv);
}

PLAIN static void conv(const struct kern_conv *v, size_t c0, size_t c1)
{
	const size_t last = v->d_conv - 1;

	for (size_t r = 0; r < v->n_rows; r++) {
		float *x = v->x + r * v->n, *to = v->states + (size_t)v->to[r] * v->state_n;
		const float *from = v->from[r] < 0 ? NULL : v->states + (size_t)v->from[r] * v->state_n;
		for (size_t c = c0; c < c1; c++) {
			float sum = v->bias[c];
			for (size_t j = 0; j < last; j++)
				sum = fmaf(v->w[c * v->d_conv + j], from ? from[j * v->n + c] : 0.0f, sum);
			sum = fmaf(v->w[c * v->d_conv + last], x[c], sum);
			/* Oldest first; `from` may be `to`, so each is read before it is overwritten. */
			for (size_t j = 0; j + 1 < last; j++)
				to[j * v->n + c] = from ? from[(j + 1) * v->n + c] : 0.0f;
			if (last)
				to[(last - 1) * v->n + c] = x[c];
			x[c] = sum / (1.0f + kern_exp(-sum));
		}
	}
}

PLAIN static void scan(const struct kern_scan *s, size_t c0, size_t c1)
{
	const size_t n = s->d_state;

	for (size_t r = 0; r < s->n_rows; r++) {
		const int32_t from = s->from[r];
		const float *b = s->b + r * n, *cc = s->c + r * n;
		for (size_t c = c0; c < c1; c++) {
			const size_t at = r * s->n + c;
			const float *a = s->a + c * n,
				    *old = from < 0 ? NULL : s->states + (size_t)from * s->state_n + c * n;
			float *to = s->states + (size_t)s->to[r] * s->state_n + c * n;
			const float dt = kern_softplus(s->dt[at] + s->dt_bias[c]), in = s->x[at] * dt;
			float lane[8] = {0};
			for (size_t i = 0; i < n; i++) {
				const float kept = old ? old[i] * kern_exp(dt * a[i]) : 0.0f;
				to[i] = fmaf(b[i], in, kept);
			}
			for (size_t i = 0; i < n; i++)
				lane[i % 8] = fmaf(to[i], cc[i], lane[i % 8]);
			const float y = fmaf(s->d[c], s->x[at], kern_tree8(lane)), z = s->z[at];
			s->x[at] = z / (1.0f + kern_exp(-z)) * y;
		}
	}
}
