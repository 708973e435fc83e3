/* Scenes for torture.c: each lives a whole life, from opening to freeing, in which any call may fail. */
#ifndef TESTS_TORTURE_H
#define TESTS_TORTURE_H

#include "fault.h"

#include "cohort.h"

#include <stddef.h>

/* One run of a scene. */
struct life {
	bool again; /* a call that fails is made once more, on what it left */
	int n_failures; /* calls that did */
	enum cohort_status status; /* the last that did; OK: the scene came to its end */
	uint64_t hash; /* of all it found out */
	char text[120]; /* of the last failure */
	char complaint[160]; /* what no failure excuses; "": nothing */
	struct cohort_err err;
};

/* Bits of a result. */
void life_mix(struct life *l, const void *bytes, size_t n_bytes);
void life_mix_number(struct life *l, int64_t v);
/* Whether the call failed; looks at its error as well. */
bool life_failed(struct life *l, enum cohort_status st);
void life_complain(struct life *l, const char *what);

/* Makes a call, twice if need be; on failure the scene goes to its `out`, where all is released. The call is given
 * &l->err. */
#define TRY(call) \
	do { \
		if (life_failed(l, (call)) && !(l->again && !life_failed(l, (call)))) \
			goto out; \
	} while (0)
/* The scene came to its end: failures on the way were made good. */
#define LIVED() (l->status = COHORT_OK)

struct scene {
	const char *name;
	void (*live)(struct life *l);
	const char *outputs[3]; /* files that it writes in the folder: whole or not at all */
	bool loads; /* it loads an object, and the system's loader has one word for all that goes wrong */
};

/* What scenes have in common; opened before anything fails. */
struct stage {
	char folder[64];
	char llama[600], split[128], base[128], lora[128], bert[128], mamba[128], module[600];
	char vocabs[4][128];
	struct cohort_model *model; /* llama: 512 tokens, 2 layers */
	struct cohort_model *bert_model, *mamba_model, *base_model;
	struct cohort_lexicon *lexicon; /* of model */
	cohort_token tokens[256]; /* of any text */
};
extern struct stage stage;
/* A path in the folder. */
const char *stage_path(char out[128], const char *name);
/* A context that is small; NULL model: the stage's. */
void stage_context_params(struct cohort_context_params *p);

/* tests/torture/scenes_*.c */
extern const struct scene scenes_model[], scenes_decode[], scenes_sample[], scenes_engine[], scenes_tools[];

#endif
