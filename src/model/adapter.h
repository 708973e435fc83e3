/* A LoRA adapter: for some of a model's matrices, a product of two narrow ones that is added to theirs. Immutable once
 * open; the model must outlive it. */
#ifndef MODEL_ADAPTER_H
#define MODEL_ADAPTER_H

#include "model/model.h"

struct model_adapter {
	struct gguf gguf;
	const struct model *m;
	struct model_weight *weights; /* [n_tensors] of the adapter */
	struct model_loras loras;
	float alpha;
	size_t n_adapted;             /* tensors of the model */
};

enum cohort_status model_adapter_init(
		struct model_adapter *a, const struct model *m, const char *path, struct cohort_err *err);
void model_adapter_release(struct model_adapter *a);

#endif
