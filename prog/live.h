/* The live view: every text on the terminal as it comes, a region for each, redrawn in place. */
#ifndef PROG_LIVE_H
#define PROG_LIVE_H

#include "gen.h"

struct live;

/* Begins to show what gen_run will do with these prompts, on standard output, which is a terminal with a cursor that
 * moves (term_moves). The texts of a prompt are numbered from `first` on. NULL when out of memory. The view goes away
 * by itself before gen_run returns or says what went wrong. */
struct live *live_open(const struct gen *g, const struct gen_prompt *prompts, size_t n_prompts, int32_t first);
/* Cells that stand before each text on a screen of so many columns. */
size_t live_gutter(const struct gen_prompt *prompts, size_t n_prompts, int32_t first, size_t cols);
/* For gen.watch. */
const struct gen_watch *live_watch(const struct live *l);
void live_free(struct live *l);

#endif
