/* One ubatch through the layers, written once, in terms of the backend's operations. */
#ifndef FORWARD_FORWARD_H
#define FORWARD_FORWARD_H

#include "backend/backend.h"

struct forward {
	const struct be_ops *ops;
	struct be *be;
	const struct model *m;
	size_t n_rows_max;
	struct be_buf *x, *h;           /* [n, n_embd]: what layers add to, and a norm of it */
	struct be_buf *q, *k, *v, *att; /* attention's */
	struct be_buf *tmp, *more;      /* [n, n_embd]: what is added to x next; more: by a network beside attention */
	struct be_buf *gate, *up;       /* [n, n_ff] */
	struct be_buf *route, *exp_gate, *exp_up, *exp_down, *sh_gate, *sh_up; /* experts' */
	struct be_buf *in, *z, *dt_low, *dt, *b, *c; /* of layers with states */
	struct be_buf *logits;          /* [n_outputs_max, n_vocab] or NULL */
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

/* Which rows have outputs, and where those go. */
struct forward_outputs {
	const int32_t *rows; /* [n], rising */
	size_t n, row;       /* embeddings go to rows `row` and on */
	/* Of these, those that have logits: their places in `rows`, and the rows themselves, both rising. */
	const int32_t *logit_at, *logit_rows; /* [n_logits] */
	size_t n_logits, logit_row;           /* ... which go to rows logit_row and on */
};

/* Computes the rows. ABORTED when `abort` said so, E_NUMERIC when an output is not finite (*bad is its place in
 * out->rows). The cache's cells of these rows are written either way; whether they count is the caller's business. */
enum cohort_status forward_run(struct forward *f, const struct be_rows *rows, const struct forward_outputs *out,
		bool (*abort)(void *), void *abort_user, int64_t *bad);

#endif
