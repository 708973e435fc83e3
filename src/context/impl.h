/* Handles of cohort.h, as this room sees them. */
#ifndef CONTEXT_IMPL_H
#define CONTEXT_IMPL_H

#include "backend/backend.h"
#include "gguf/gguf.h"
#include "model/model.h"
#include "tok/tok.h"

struct cohort_model {
	struct gguf gguf;
	struct tok *tok;            /* NULL: the file has no tokeniser */
	struct model model;         /* zeroed with vocab_only */
	struct be_weights *weights;
	size_t level;
	bool vocab_only;
	char *name;
	char *arch;
};

#endif
