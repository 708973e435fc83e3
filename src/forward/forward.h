/* One ubatch through the layers, written once, in terms of the backend's operations. */
#ifndef FORWARD_FORWARD_H
#define FORWARD_FORWARD_H

#include "backend/backend.h"

struct forward {
	const struct be_ops *ops;
	struct be *be;
	const struct model *m;
	size_t n_rows_max;
	struct be_buf *x, *h, *q, *k, *v, *att, *tmp, *gate, *up;
	struct be_buf *logits;     /* [n_outputs_max, n_vocab] or NULL */
	struct be_buf *embeddings; /* [n_outputs_max, n_embd] or NULL */
	struct be_buf *pooled;     /* [n_pooled_max, n_embd] or NULL */
};

struct forward_limits {
	size_t n_rows_max, n_outputs_max, n_pooled_max;
	bool logits, embeddings; /* what outputs are */
};

/* Takes over be, also on failure. */
enum cohort_status forward_init(struct forward *f, const struct be_ops *ops, struct be *be, const struct model *m,
		const struct forward_limits *lim, struct cohort_err *err);
void forward_release(struct forward *f);

/* Computes the rows; the outputs of rows outputs[0..n_outputs), rising, go to logits and embeddings rows out_row and
 * on. ABORTED when `abort` said so, E_NUMERIC when an output is not finite (*bad is its place in outputs). The cache's
 * cells of these rows are written either way; whether they count is the caller's business. */
enum cohort_status forward_run(struct forward *f, const struct be_rows *rows, const int32_t *outputs, size_t n_outputs,
		size_t out_row, bool (*abort)(void *), void *abort_user, int64_t *bad);

#endif
