/* Texts as prefixed lines, as they come. docs/programs.md has the format. */
#ifndef PROG_STREAM_H
#define PROG_STREAM_H

#include "gen.h"

struct stream;

/* Prints what gen_run will do with these prompts. With `many` the prompt's number is in the prefix. A failure to write
 * ends the run with EXIT_FILE. NULL when out of memory. */
struct stream *stream_open(struct gen *g, const struct gen_prompt *prompts, size_t n_prompts, bool many);
/* For gen.watch. */
const struct gen_watch *stream_watch(const struct stream *s);
void stream_free(struct stream *s);

#endif
