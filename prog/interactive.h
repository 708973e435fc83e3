/* batched -interactive: prompts typed one after the other, continued by one engine. */
#ifndef PROG_INTERACTIVE_H
#define PROG_INTERACTIVE_H

#include "batched.h"

/* The job has its model and its sampling opened. Returns the exit code. */
int interactive_run(struct job *j, const struct opt_prog *options);

#endif
