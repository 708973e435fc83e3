/* A weight: a tensor of the file, or some of its rows. All that a backend knows of a model. */
#ifndef MODEL_WEIGHT_H
#define MODEL_WEIGHT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gguf_tensor;

/* A matrix or vector: a tensor, or some of its rows. */
struct model_weight {
	const struct gguf_tensor *tensor;
	uint32_t type;    /* enum quant_type */
	int32_t index;    /* in model.weights */
	int32_t layer;    /* -1: outside the layers */
	size_t k, n_rows; /* [n_rows, k]; a vector is one row */
	size_t row_bytes;
	const void *data; /* in the mapped file */
	uint64_t offset;  /* of the data in its tensor */
	bool product;     /* rows are multiplied with */
	bool lookup;      /* single rows of a product are read as well; all others are read as the file has them */
};

/* A low-rank pair: y += scale * b (a x). The rank is a's number of rows. */
struct model_lora {
	const struct model_weight *a; /* [rank, k]; NULL: the matrix is not adapted */
	struct model_weight b;        /* [n_rows, rank]; of a slice its own rows */
	float scale;                  /* alpha / rank, or 1 where the file's alpha is 0 */
};

/* The pairs of an adapter. */
struct model_loras {
	struct model_lora *of;            /* [weights of the model], by model_weight.index */
	size_t rank_max, rows_max, k_max; /* of all pairs */
};

#endif
