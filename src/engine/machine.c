/* The machine that computes: a context of cohort.h. */
#include "engine/machine.h"

#include "base/pool.h"

static double now(void *self)
{
	(void)self;
	return clock_now();
}

static enum cohort_status decode(void *self, const struct cohort_batch_raw *rows, struct cohort_err *err)
{
	struct cohort_batch b;
	enum cohort_status st = cohort_batch_view_raw(&b, rows, err);
	return st ? st : cohort_decode(self, &b, err);
}

static enum cohort_status encode(void *self, const struct cohort_batch_raw *rows, struct cohort_err *err)
{
	struct cohort_batch b;
	enum cohort_status st = cohort_batch_view_raw(&b, rows, err);
	return st ? st : cohort_encode(self, &b, err);
}

static const float *logits(void *self, int32_t row)
{
	return cohort_logits_get(self, row, NULL);
}

static const float *embedding(void *self, int32_t row)
{
	return cohort_embeddings_get(self, row, NULL);
}

static enum cohort_status seq_cp(
		void *self, cohort_seq src, cohort_seq dst, cohort_pos p0, cohort_pos p1, struct cohort_err *err)
{
	return cohort_seq_cp(self, src, dst, p0, p1, err);
}

static enum cohort_status seq_rm(void *self, cohort_seq seq, cohort_pos p0, cohort_pos p1, struct cohort_err *err)
{
	return cohort_seq_rm(self, seq, p0, p1, err);
}

static enum cohort_status adapter_set(
		void *self, cohort_seq seq, const struct cohort_adapter *adapter, float scale, struct cohort_err *err)
{
	return cohort_seq_adapter_set(self, seq, adapter, scale, err);
}

static bool seq_is_whole(void *self, cohort_seq seq, int32_t n)
{
	return cohort_seq_pos_min(self, seq) == (n > 0 ? 0 : -1) && cohort_seq_pos_max(self, seq) == n - 1 &&
			cohort_seq_is_whole(self, seq);
}

static size_t state_size(void *self, cohort_seq seq)
{
	return cohort_state_size(self, seq);
}

static enum cohort_status state_save(void *self, cohort_seq seq, void *out, size_t n_max, struct cohort_err *err)
{
	size_t n;
	return cohort_state_save(self, seq, out, n_max, &n, err);
}

static enum cohort_status state_restore(void *self, cohort_seq seq, const void *bytes, size_t n, struct cohort_err *err)
{
	return cohort_state_restore(self, seq, bytes, n, err);
}

struct machine machine_of_context(struct cohort_context *ctx)
{
	return (struct machine){
			.self = ctx,
			.now = now,
			.decode = decode,
			.encode = encode,
			.logits = logits,
			.embedding = embedding,
			.seq_cp = seq_cp,
			.seq_rm = seq_rm,
			.adapter_set = adapter_set,
			.seq_is_whole = seq_is_whole,
			.state_size = state_size,
			.state_save = state_save,
			.state_restore = state_restore,
	};
}
