/* The only place that knows of dlopen.
 *
 * Invariant: an object is closed by whoever opened it; nothing is kept open beyond dso_free. */
#include "base/dso.h"

#include "base/mem.h"

#include <dlfcn.h>
#include <stdio.h>

struct dso {
	void *handle;
};

struct dso *dso_open(const char *path, char *text, size_t n_max)
{
	struct dso *d = mem_alloc(1, sizeof *d);
	if (!d) {
		snprintf(text, n_max, "out of memory");
		return NULL;
	}
	d->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!d->handle) {
		const char *why = dlerror();
		snprintf(text, n_max, "%s", why ? why : "cannot be opened");
		mem_free(d);
		return NULL;
	}
	return d;
}

void dso_free(struct dso *d)
{
	if (!d)
		return;
	dlclose(d->handle);
	mem_free(d);
}

const void *dso_find(const struct dso *d, const char *name)
{
	return dlsym(d->handle, name);
}
