/* An output's text, and what of it may be shown: whole characters, and nothing that could yet become a stop string. */
#ifndef ENGINE_TEXT_H
#define ENGINE_TEXT_H

#include "cohort.h"

#include <stdatomic.h>

/* Stop strings, compiled: immutable, shared by the outputs of a request. */
struct stops;
/* Each 1 to COHORT_STOP_BYTES_MAX bytes, at most COHORT_STOPS_MAX; copied. With n 0 *out is NULL. E_ARG, E_MEMORY. */
enum cohort_status stops_open(const char *const *texts, int32_t n, struct stops **out, struct cohort_err *err);
void stops_free(struct stops *s);

struct text_buffer;
/* One thread adds to it. Others may look at the bytes that it told them of. */
struct text {
	const struct stops *stops;
	struct cohort_detok detok;
	int32_t *matched; /* [n_stops]: bytes of each that the text ends with */
	_Atomic(struct text_buffer *) buffer;
	size_t n_shown; /* bytes that may be shown */
	size_t n_held;  /* bytes behind them that may not */
	bool stopped;   /* by a stop string */
};

/* With n_bytes: takes memory for that many at once. False when out of memory. */
bool text_init(struct text *t, const struct cohort_model *model, bool special, bool at_start,
		const struct stops *stops, size_t n_bytes);
void text_release(struct text *t);
/* Adds a token. A text that a stop string is complete in has stopped: at the first byte that completes one, of several
 * the longest; no push may follow. E_ARG: no such token. E_MEMORY, which there is only beyond n_bytes. Both change
 * nothing. */
enum cohort_status text_push(struct text *t, cohort_token token, struct cohort_err *err);
/* The text has ended: what was held back may be shown. Of no effect when it has stopped, or ended before. */
void text_end(struct text *t);
/* [n_shown]; a NUL is behind them once it has ended. Good until the text is released. */
const char *text_so_far(struct text *t);

#endif
