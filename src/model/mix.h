/* Which format each tensor of a model gets when the model as a whole is to be "Q4_K_M". */
#ifndef MODEL_MIX_H
#define MODEL_MIX_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mix {
	const char *name;   /* "Q4_K_M" */
	uint32_t base;      /* enum quant_type of most matrices */
	uint32_t file_type; /* general.file_type */
};

enum mix_role {
	MIX_EMBD, MIX_OUTPUT, MIX_Q, MIX_K, MIX_V, MIX_O, MIX_GATE, MIX_UP, MIX_DOWN,
	MIX_OTHER /* any other matrix */
};

/* What the rules ask of a model. */
struct mix_model {
	uint32_t n_layer, n_head, n_head_kv; /* heads 0: it has none */
	uint32_t n_v;      /* matrices of role MIX_V; not every layer need have one */
	uint32_t n_expert; /* 0: a feed-forward part without experts */
	bool tied;         /* the embedding is the output matrix, too */
	bool pure;         /* every matrix gets the base format where its rows allow */
};

const struct mix *mix_get(size_t i); /* NULL past the end */
/* By name, upper or lower case; Q3_K, Q4_K and Q5_K are their _M mixes. NULL if unknown. */
const struct mix *mix_find(const char *name);
/* The same; E_ARG where it is unknown. */
enum cohort_status mix_parse(const char *name, const struct mix **out, struct cohort_err *err);

/* enum quant_type of a matrix with rows of ne0. i: for MIX_V its place among the n_v, otherwise its layer, which is not
 * used outside the layers. */
uint32_t mix_type(const struct mix *x, const struct mix_model *m, enum mix_role role, uint32_t i, uint64_t ne0);
/* What the matrix would get if its rows were whole blocks of it. */
uint32_t mix_wanted(const struct mix *x, const struct mix_model *m, enum mix_role role, uint32_t i, uint64_t ne0);
/* The format for rows of ne0 when `type` is wanted: itself, or what stands in for it. */
uint32_t mix_fit(uint32_t type, uint64_t ne0);

#endif
