/* What a model asks of the machine: multiplications and bytes, from the tensors of its file.
 *
 * What holds:
 *  1. A matrix counts one multiplication per weight and row. The embedding is a look-up and counts nothing, unless it
 *     serves as output matrix. Attention over the cache, norms and the rest of the arithmetic are not counted: the
 *     limits are those of the matrix products alone.
 *  2. The output matrix is multiplied for rows whose logits are wanted: every row of a step, the last of a prompt.
 *  3. A product reads the weights once whatever its columns, prompts once per ubatch. Bytes are the file's.
 *  4. Arithmetic and reading may overlap: the limit is the larger of the two times. */
#include "peer.h"

#include "cohort_tools.h"
#include "limits.h"

#include <string.h>

static bool is_named(const struct cohort_gguf_tensor *t, const char *name)
{
	return t->n_name == strlen(name) && memcmp(t->name, name, t->n_name) == 0;
}

static void add_part(struct cost *c, const struct cohort_gguf_tensor *t, bool output)
{
	const double macs = (double)t->ne[0] * (double)t->ne[1] * (double)t->ne[2] * (double)t->ne[3];
	size_t i = 0;

	while (i < c->n_parts && c->parts[i].type != t->type)
		i++;
	if (i == COST_PARTS_MAX || limit_gmacs(t->type, 1, false) <= 0) {
		c->known = false;
		return;
	}
	if (i == c->n_parts)
		c->parts[c->n_parts++] = (struct cost_part){.type = t->type, .name = t->type_name};
	if (output) {
		c->parts[i].out_macs += macs;
		c->out_macs += macs;
	} else {
		c->parts[i].macs += macs;
		c->macs += macs;
	}
}

bool cost_read(const char *path, struct cost *out, char *error, size_t n_max)
{
	struct cohort_gguf *g;
	struct cohort_gguf_tensor t;
	struct cohort_err err;
	bool tied = true;

	*out = (struct cost){.known = true};
	if (cohort_gguf_open(path, &g, &err)) {
		snprintf(error, n_max, "%s", err.text);
		return false;
	}
	out->file_bytes = cohort_gguf_file_bytes(g);
	for (size_t i = 0; cohort_gguf_tensor_get(g, i, &t); i++)
		tied = tied && !is_named(&t, "output.weight");
	for (size_t i = 0; cohort_gguf_tensor_get(g, i, &t); i++) {
		const bool embedding = is_named(&t, "token_embd.weight");
		const bool output = embedding ? tied : is_named(&t, "output.weight");
		if (embedding && !tied)
			continue;
		if (output)
			out->out_bytes += (double)t.n_bytes;
		else
			out->bytes += (double)t.n_bytes;
		if (t.n_dims > 1)
			add_part(out, &t, output);
	}
	cohort_gguf_free(g);
	return true;
}

/* Seconds of one row's products on all threads, when n_cols rows go together. */
static double row_seconds(const struct cost *c, const struct machine_limits *m, int32_t n_cols, bool output)
{
	double s = 0;

	if (!c->known || m->fma_gmacs <= 0)
		return 0;
	for (size_t i = 0; i < c->n_parts; i++)
		s += (output ? c->parts[i].out_macs : c->parts[i].macs) /
				limit_gmacs(c->parts[i].type, (size_t)n_cols, limit_has_vnni());
	return s / (m->fma_gmacs / LIMIT_PROBE_BASE) * 1e-9;
}

static double read_seconds(const struct cost *c, const struct machine_limits *m, double times, double out_times)
{
	if (m->read_gb_s <= 0 || c->bytes + c->out_bytes < m->l3_bytes)
		return 0;
	return (times * c->bytes + out_times * c->out_bytes) / m->read_gb_s * 1e-9;
}

struct bound cost_prompts(const struct cost *c, const struct machine_limits *m, int32_t n_seqs, int32_t n_tokens)
{
	const double n = (double)n_seqs * n_tokens, per = m->n_ubatch;
	const double n_ubatches = (double)(int64_t)((n + per - 1) / per);
	const int32_t cols = n < per ? (int32_t)n : m->n_ubatch;

	if (n <= 0)
		return (struct bound){0};
	return (struct bound){
		.work = n * row_seconds(c, m, cols, false) + n_seqs * row_seconds(c, m, n_seqs, true),
		.read = read_seconds(c, m, n_ubatches, 1),
	};
}

struct bound cost_steps(const struct cost *c, const struct machine_limits *m, int32_t n_seqs, int32_t n_steps)
{
	return (struct bound){
		.work = (double)n_steps * n_seqs * (row_seconds(c, m, n_seqs, false) + row_seconds(c, m, n_seqs, true)),
		.read = read_seconds(c, m, n_steps, n_steps),
	};
}
