/* What computes: a context, or a simulation with a clock of its own. Everything that decides is above it and cannot
 * tell the two apart. */
#ifndef ENGINE_MACHINE_H
#define ENGINE_MACHINE_H

#include "cohort.h"

struct machine {
	void *self;
	double (*now)(void *self); /* seconds */
	/* Rows of one ubatch at most, all or nothing. Outputs are good until the next call. */
	enum cohort_status (*decode)(void *self, const struct cohort_batch_raw *rows, struct cohort_err *err);
	/* Whole sequences without a cache. */
	enum cohort_status (*encode)(void *self, const struct cohort_batch_raw *rows, struct cohort_err *err);
	const float *(*logits)(void *self, int32_t row); /* may be NULL in a simulation */
	/* In a simulation, where there is no sampler: the token after a row with these logits. NULL: token 0. */
	cohort_token (*pick)(void *self, const float *logits, int32_t output);
	const float *(*embedding)(void *self, int32_t row);
	enum cohort_status (*seq_cp)(void *self, cohort_seq src, cohort_seq dst, cohort_pos p0, cohort_pos p1,
			struct cohort_err *err);
	enum cohort_status (*seq_rm)(void *self, cohort_seq seq, cohort_pos p0, cohort_pos p1, struct cohort_err *err);
	enum cohort_status (*adapter_set)(void *self, cohort_seq seq, const struct cohort_adapter *adapter, float scale,
			struct cohort_err *err);
	/* Whether the sequence has positions 0 to n - 1, every one of them. */
	bool (*seq_is_whole)(void *self, cohort_seq seq, int32_t n);
	/* Not called in a simulation, as encode and embedding. */
	size_t (*state_size)(void *self, cohort_seq seq); /* 0: cannot be saved */
	enum cohort_status (*state_save)(void *self, cohort_seq seq, void *out, size_t n_max, struct cohort_err *err);
	enum cohort_status (*state_restore)(void *self, cohort_seq seq, const void *bytes, size_t n,
			struct cohort_err *err);
};

struct machine machine_of_context(struct cohort_context *ctx);

#endif
