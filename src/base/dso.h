/* Shared objects: open one, find a function in it. */
#ifndef BASE_DSO_H
#define BASE_DSO_H

#include "base/err.h"

struct dso;
typedef void dso_fn(void); /* of any type: to be cast to its own before it is called */

/* Loads the object at a path, which is always a path: without a slash it is a file of the working directory. Runs the
 * object's constructors. All that it needs from others is resolved here, and nothing of it is given to others. E_IO
 * with the system's words, E_MEMORY. */
enum cohort_status dso_open(const char *path, struct dso **out, struct cohort_err *err);
void dso_free(struct dso *d); /* accepts NULL */
/* The function of that name, or NULL. Good until the object is freed. */
dso_fn *dso_find(const struct dso *d, const char *name);

#endif
