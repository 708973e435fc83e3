/* Sequences of batched -interactive that somebody liked: a list, which outlives the runs that they are of. */
#ifndef PROG_FAVOURITES_H
#define PROG_FAVOURITES_H

#include "batched.h"
#include "sink.h"

struct kept;
struct kept_run;

struct favourites {
	struct kept *kept; /* [n], in the order they were kept in */
	size_t n, n_max;
	struct kept_run **runs; /* [n_runs] */
	size_t n_runs, runs_max;
};

/* Keeps sequence i of a run's prompt, with all that is known of it. run tells one run from another. False: out of
 * memory, and nothing has changed. */
bool favourites_keep(struct favourites *f, const struct job *ran, uint64_t run, const struct gen_prompt *p, int32_t i,
		bool cut);
void favourites_drop(struct favourites *f, size_t i);
void favourites_release(struct favourites *f);
/* For reading: a heading and the text, of each. number: with its place on the list. */
void favourites_print(const struct favourites *f, struct sink *out, bool number);
/* As -output writes them, by the suffix: a prompt for each run, in the order of their first favourites. 0 or an exit
 * code, having said why. */
int favourites_write(const struct favourites *f, const char *path);

#endif
