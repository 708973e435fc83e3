/* Parts of a tick: whether a strategy's plan may be done (answer.c), and its rows (run.c). */
#ifndef ENGINE_TICK_H
#define ENGINE_TICK_H

#include "engine/core.h"

/* Fills c->plan.taken. */
enum cohort_status answer_check(struct core *c, const struct cohort_plan *plan, enum cohort_status said,
		struct cohort_err *err);
/* Computes what is planned, and takes what comes of it. An encoder's texts are computed as wholes. */
void run_entries(struct core *c);
void run_texts(struct core *c);

#endif
