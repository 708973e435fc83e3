/* A LoRA adapter: for some of a model's matrices, a product of two narrow ones that is added to theirs. Immutable once
 * open; the model must outlive it. */
#ifndef MODEL_ADAPTER_H
#define MODEL_ADAPTER_H

#include "model/model.h"

/* y += scale * b (a x). The rank is a's number of rows. */
struct model_lora {
	const struct model_weight *a; /* [rank, k]; NULL: the matrix is not adapted */
	struct model_weight b;        /* [n_rows, rank]; of a slice its own rows */
	float scale;                  /* alpha / rank, or 1 where the file's alpha is 0 */
};

struct model_adapter {
	struct gguf gguf;
	const struct model *m;
	struct model_weight *weights; /* [n_tensors] of the adapter */
	struct model_lora *loras;     /* [m->n_weights], by model_weight.index */
	float alpha;
	size_t n_adapted;             /* tensors of the model */
	size_t rank_max, rows_max, k_max; /* of all pairs */
};

enum cohort_status model_adapter_init(
		struct model_adapter *a, const struct model *m, const char *path, struct cohort_err *err);
void model_adapter_release(struct model_adapter *a);

#endif
