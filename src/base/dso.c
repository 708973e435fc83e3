/* The only place that knows of dlopen.
 *
 * Invariants
 *  1. A path never reaches dlopen without a slash, so that no other directory than the one that was meant is looked in.
 *  2. An object is closed by whoever opened it; nothing is kept open beyond dso_free. */
#include "base/dso.h"

#include "base/mem.h"

#include <dlfcn.h>
#include <string.h>

struct dso {
	void *handle;
};

static void *load(const char *path)
{
	return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

/* False when out of memory. */
static bool load_here(const char *name, void **handle)
{
	const size_t n = strlen(name) + 1;
	size_t n_bytes;
	char *path = size_add(n, 2, &n_bytes) ? mem_alloc(n_bytes, 1) : NULL;

	if (!path)
		return false;
	memcpy(path, "./", 2);
	memcpy(path + 2, name, n);
	*handle = load(path);
	mem_free(path);
	return true;
}

enum cohort_status dso_open(const char *path, struct dso **out, struct cohort_err *err)
{
	struct dso *d = mem_zalloc(1, sizeof *d);

	if (d && strchr(path, '/')) {
		d->handle = load(path);
	} else if (!d || !load_here(path, &d->handle)) {
		mem_free(d);
		return err_set(err, COHORT_E_MEMORY, "out of memory loading %s", path);
	}
	if (!d->handle) {
		const char *why = dlerror();
		mem_free(d);
		/* Most of the system's texts begin with the path. */
		if (why && strstr(why, path))
			return err_set(err, COHORT_E_IO, "%s", why);
		return err_set(err, COHORT_E_IO, "%s: %s", path, why ? why : "cannot be loaded");
	}
	*out = d;
	return COHORT_OK;
}

void dso_free(struct dso *d)
{
	if (!d)
		return;
	dlclose(d->handle);
	mem_free(d);
}

/* POSIX has a function's address in a pointer to data; C has no cast for it. */
dso_fn *dso_find(const struct dso *d, const char *name)
{
	void *at = dlsym(d->handle, name);
	dso_fn *fn;

	_Static_assert(sizeof fn == sizeof at, "an address is an address");
	memcpy(&fn, &at, sizeof fn);
	return fn;
}
