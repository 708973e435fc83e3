/* Shared objects: open one, find a name in it. */
#ifndef BASE_DSO_H
#define BASE_DSO_H

#include <stddef.h>

struct dso;

/* NULL on failure, why in text[0 .. n_max), cut to fit. All its symbols are resolved here; none of them is given to
 * others. A path without a slash is looked for where the system looks for libraries. */
struct dso *dso_open(const char *path, char *text, size_t n_max);
void dso_free(struct dso *d);
/* The address of a data symbol, or NULL. Good until the object is freed. */
const void *dso_find(const struct dso *d, const char *name);

#endif
