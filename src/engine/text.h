/* What of an output's text may be shown: whole characters, and nothing that could yet become a stop string. */
#ifndef ENGINE_TEXT_H
#define ENGINE_TEXT_H

#include "cohort.h"

/* Stop strings, compiled: immutable, shared by the outputs of a request. */
struct stops;
/* Each 1 to COHORT_STOP_BYTES_MAX bytes, at most COHORT_STOPS_MAX; copied. With n 0 *out is NULL. E_ARG, E_MEMORY. */
enum cohort_status stops_open(const char *const *texts, int32_t n, struct stops **out, struct cohort_err *err);
void stops_free(struct stops *s);

struct text {
	const struct stops *stops;
	struct cohort_detok detok;
	int32_t *matched; /* [n_stops]: bytes of each that the text ends with */
	char *out;        /* [n_out]: what may be shown since the last call */
	size_t n_out, out_max;
	size_t n_held;    /* bytes behind n_out that may not */
	size_t n_shown;   /* bytes shown in all */
};

/* piece_max: the longest bytes of a token. False when out of memory. */
bool text_init(struct text *t, const struct cohort_model *model, bool special, bool at_start,
		const struct stops *stops, size_t piece_max);
void text_release(struct text *t);
/* Feeds a token. True when a stop string is complete: at the first byte that completes one, of several the longest;
 * out then has what came before it, and no call may follow. Allocates nothing. */
bool text_push(struct text *t, cohort_token token);
/* A token that says nothing: what was shown is gone from out, what is held stays. */
void text_skip(struct text *t);
/* The text has ended otherwise: out has all that was held back. */
void text_end(struct text *t);
/* The same with the new bytes behind those that are in out already: returns how many these are. */
size_t text_end_behind(struct text *t);

#endif
