/* Angles of rotary positions, and slopes of linear ones, by the rules a file names.
 *
 * All in double by our own functions, so that they are the same on every machine. A pair's angle per position is
 * base^(-2i/n_rot), then
 *   linear    divided by the factor;
 *   yarn      between that and undivided, by how often the pair turns within the original context: below beta_slow
 *             times divided, above beta_fast times as it is, a straight line between; cos and sin grow by
 *             1 + 0.1 ln(factor), divided by 1 + 0.1 m ln(factor) where the file has a multiplier m;
 *   longrope, llama 3: divided by numbers that the file has for each pair, longrope's by the context's size. */
#include "model/arch.h"

#include "base/fmath.h"
#include "base/mem.h"

#include <math.h>
#include <string.h>

/* Radians per position. Files have 1 for the first pair and less for the others; far beyond this limit sines of late
 * positions are not defined (fm_sincos). */
#define ANGLE_MAX 1024.0

struct scaling {
	float factor, attn_factor;
	float beta_fast, beta_slow, ext_factor, log_multiplier;
	bool yarn, longrope;
};

static enum cohort_status in_bounds(
		const struct model *m, const char *key, float v, float lo, float hi, struct cohort_err *err)
{
	if (v >= lo && v <= hi)
		return COHORT_OK;
	return err_set(err, COHORT_E_FORMAT, "%s.%s is %g, expected %g to %g", m->arch->name, key, (double)v,
			(double)lo, (double)hi);
}

static enum cohort_status load_scaling(const struct model *m, struct scaling *s, struct cohort_err *err)
{
	struct gguf_str type = {0};
	char shown[ERR_SHOW_BYTES];
	const struct {
		const char *key;
		float *v, lo, hi;
	} keys[] = {
			{"rope.scale_linear", &s->factor, 0.0f, 1e6f}, /* of old files */
			{"rope.scaling.factor", &s->factor, 0.0f, 1e6f},
			{"rope.scaling.attn_factor", &s->attn_factor, 0.0f, 1e6f},
			{"rope.scaling.yarn_beta_fast", &s->beta_fast, 1e-6f, 1e6f},
			{"rope.scaling.yarn_beta_slow", &s->beta_slow, 1e-6f, 1e6f},
			{"rope.scaling.yarn_ext_factor", &s->ext_factor, -1.0f, 1.0f},
		{"rope.scaling.yarn_log_multiplier", &s->log_multiplier, 0.0f, 1e3f},
	};
	enum cohort_status st = arch_str(m, "rope.scaling.type", &type, err);

	*s = (struct scaling){.factor = 1.0f,
			.attn_factor = 1.0f,
			.beta_fast = 32.0f,
			.beta_slow = 1.0f,
			.ext_factor = -1.0f};
	for (size_t i = 0; !st && i < sizeof keys / sizeof *keys; i++) {
		st = arch_f32(m, keys[i].key, ARCH_MAY, keys[i].v, err);
		if (!st)
			st = in_bounds(m, keys[i].key, *keys[i].v, keys[i].lo, keys[i].hi, err);
	}
	if (st)
		return st;
	s->yarn = gguf_str_is(type, "yarn");
	s->longrope = gguf_str_is(type, "longrope");
	if (type.n && !s->yarn && !s->longrope && !gguf_str_is(type, "linear") && !gguf_str_is(type, "none"))
		return err_set(err, COHORT_E_UNSUPPORTED,
				"rope scaling '%s' is not known; known: none, linear, yarn, longrope",
				err_show(shown, type.s, type.n));
	if (s->factor == 0.0f || gguf_str_is(type, "none")) /* 0 stands for none */
		s->factor = 1.0f;
	if (s->ext_factor < 0.0f)
		s->ext_factor = s->yarn ? 1.0f : 0.0f;
	return COHORT_OK;
}

/* The pair that turns `turns` times within n_orig positions. */
static double pair_of(const struct model_hparams *h, double n_orig, double base, double turns)
{
	const double two_pi = 6.28318530717958647692;
	return (double)h->n_rot * fm_log(n_orig / (turns * two_pi)) / (2.0 * fm_log(base));
}

static enum cohort_status fill(const struct model *m, double *freqs, double base, const struct scaling *s,
		uint32_t n_orig, const struct model_weight *factors, struct cohort_err *err)
{
	const struct model_hparams *h = &m->hp;
	double low = 0, high = 0;

	if (s->ext_factor != 0.0f) {
		low = floor(pair_of(h, n_orig, base, (double)s->beta_fast));
		high = ceil(pair_of(h, n_orig, base, (double)s->beta_slow));
		low = low > 0 ? low : 0;
		high = high < (double)h->n_rot - 1 ? high : (double)h->n_rot - 1;
	}
	for (size_t i = 0; i < h->n_rot / 2; i++) {
		double f = fm_pow(base, -2.0 * (double)i / (double)h->n_rot), divided;
		if (factors) {
			float by;
			memcpy(&by, (const char *)factors->data + i * sizeof by, sizeof by);
			if (!(by > 0.0f && by < 1e30f))
				return err_at(err, COHORT_E_FORMAT, factors->tensor->offset,
						"tensor %.*s: factor %zu is %g", (int)factors->tensor->name.n,
						factors->tensor->name.s, i, (double)by); /* a name of ours */
			f /= (double)by;
		}
		divided = f / (double)s->factor;
		if (s->ext_factor != 0.0f) {
			const double span = high - low > 0.001 ? high - low : 0.001;
			double y = ((double)i - low) / span;
			y = y < 0 ? 0 : y > 1 ? 1 : y;
			const double kept = (1.0 - y) * (double)s->ext_factor;
			divided = divided * (1.0 - kept) + f * kept;
		}
		if (!(divided > 0.0 && divided <= ANGLE_MAX))
			return err_set(err, COHORT_E_FORMAT,
					"%s.rope.scaling: rotary angle %zu is %g per position, expected at most %g",
					m->arch->name, i, divided, ANGLE_MAX);
		freqs[i] = divided;
	}
	return COHORT_OK;
}

enum cohort_status arch_load_rope(struct model *m, int which, float base, bool plain, struct cohort_err *err)
{
	struct model_rope *r = &m->rope[which];
	const struct model_weight *near = NULL, *far = NULL;
	struct arch_bind b = arch_bind_top(m, err);
	const size_t n = m->hp.n_rot / 2;
	struct scaling s;
	float file_base = 10000.0f;
	enum cohort_status st = load_scaling(m, &s, err);

	r->n_orig = m->hp.n_ctx_train;
	if (!st)
		st = arch_f32(m, "rope.freq_base", ARCH_MAY, &file_base, err);
	if (!st)
		st = arch_u32(m, "rope.scaling.original_context_length", ARCH_MAY, &r->n_orig, err);
	const char *key = base == 0.0f ? "rope.freq_base" : "rope.freq_base_swa";
	base = base == 0.0f ? file_base : base;
	if (!st)
		st = in_bounds(m, key, base, 1.0f, 1e30f, err);
	if (!st)
		st = arch_range(m, "rope.scaling.original_context_length", r->n_orig, 1, 1 << 30, err);
	if (st || n == 0)
		return st;
	if (plain)
		s = (struct scaling){.factor = 1.0f, .attn_factor = 1.0f};
	else if (which == 0) {
		near = arch_vector(&b, "rope_freqs.weight", ARCH_MAY, n);
		if (!near) {
			/* One without the other is half a file, whether or not it names the scaling. */
			const bool both = s.longrope || gguf_find_tensor(m->gguf, "rope_factors_short.weight") ||
					gguf_find_tensor(m->gguf, "rope_factors_long.weight");
			near = arch_vector(&b, "rope_factors_short.weight", both, n);
			far = arch_vector(&b, "rope_factors_long.weight", both, n);
		}
		if (b.st)
			return b.st;
	}
	r->scale = s.attn_factor;
	if (s.ext_factor != 0.0f) {
		const double l = 0.1 * fm_log((double)s.factor);
		r->scale = (float)((double)s.attn_factor * (1.0 + l) / (1.0 + (double)s.log_multiplier * l));
		if (!(fabsf(r->scale) <= 1e6f))
			return err_set(err, COHORT_E_FORMAT,
					"%s.rope.scaling: factor %g and yarn_log_multiplier %g give a size of %g",
					m->arch->name, (double)s.factor, (double)s.log_multiplier, (double)r->scale);
	}
	r->freqs = mem_zalloc(n, sizeof *r->freqs);
	r->freqs_long = far ? mem_zalloc(n, sizeof *r->freqs_long) : NULL;
	if (!r->freqs || (far && !r->freqs_long))
		return err_set(err, COHORT_E_MEMORY, "out of memory for %zu angles", n);
	st = fill(m, r->freqs, (double)base, &s, r->n_orig, near, err);
	if (!st && far)
		st = fill(m, r->freqs_long, (double)base, &s, r->n_orig, far, err);
	return st;
}

enum cohort_status arch_load_slopes(struct model *m, struct cohort_err *err)
{
	const uint32_t n = m->hp.n_head;
	uint32_t whole = 1;

	m->slopes = mem_zalloc(n, sizeof *m->slopes);
	if (!m->slopes)
		return err_set(err, COHORT_E_MEMORY, "out of memory for %u heads", n);
	while (whole * 2 <= n)
		whole *= 2;
	/* Powers of 2^(-alibi / whole); heads beyond the largest power of two take those between. */
	for (uint32_t h = 0; h < n; h++) {
		const double power = h < whole ? (double)h + 1 : (double)(h - whole) + 0.5;
		m->slopes[h] = (float)fm_pow(2.0, -(double)m->hp.alibi / (double)whole * power);
	}
	return COHORT_OK;
}
