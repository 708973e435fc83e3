/* Strategies from shared objects.
 *
 * Invariants
 *  1. Nothing of a strategy is used before its export function has agreed to the abi.
 *  2. An object that is refused is closed again.
 *  3. It is asked for each of its strategies once: what was checked is what is used, whatever it would say next.
 *
 * Trusts the object's code, as loading runs it; what it says is checked as far as a mistake can be told. */
#include "engine/core.h"

#include "base/dso.h"
#include "base/err.h"
#include "base/mem.h"

#include <string.h>

/* Strategies of one object that are looked at, so that a list without an end is no loop without one. */
enum { STRATEGIES_MAX = 1024 };

struct cohort_strategy_file {
	struct dso *dso;
};

static enum cohort_status pick(const char *path, cohort_strategy_export_fn *list, const char *name,
		const struct cohort_strategy **out, struct cohort_err *err)
{
	char want[ERR_SHOW_BYTES], shown[ERR_SHOW_BYTES];
	const struct cohort_strategy *first = list(COHORT_STRATEGY_ABI, 0), *s = first;

	if (!first)
		return err_set(err, COHORT_E_UNSUPPORTED, "%s: has no strategy for abi %d of cohort %s", path,
				COHORT_STRATEGY_ABI, cohort_version());
	for (size_t i = 0; i < STRATEGIES_MAX && s; s = list(COHORT_STRATEGY_ABI, ++i)) {
		if (!strategy_is_whole(s))
			return err_set(err, COHORT_E_FORMAT, "%s: strategy %zu has no size, name or build_batch", path,
					i);
		if (!name || strcmp(s->name, name) == 0) {
			*out = s;
			return COHORT_OK;
		}
	}
	return err_set(err, COHORT_E_ARG, "%s: has no strategy \"%s\"; its first is \"%s\"", path,
			err_show(want, name, strlen(name)), err_show(shown, first->name, strlen(first->name)));
}

enum cohort_status cohort_strategy_open(const char *path, const char *name, struct cohort_strategy_file **file,
		const struct cohort_strategy **out, struct cohort_err *err)
{
	if (!path || !file || !out)
		return err_set(err, COHORT_E_ARG, "%s is NULL", !path ? "path" : file ? "out" : "file");
	struct cohort_strategy_file *f = mem_zalloc(1, sizeof *f);
	if (!f)
		return err_set(err, COHORT_E_MEMORY, "out of memory loading %s", path);
	const struct cohort_strategy *found = NULL;
	enum cohort_status status = dso_open(path, &f->dso, err);
	if (status == COHORT_OK) {
		cohort_strategy_export_fn *list = (cohort_strategy_export_fn *)dso_find(f->dso, COHORT_STRATEGY_EXPORT);
		status = list ? pick(path, list, name, &found, err)
			      : err_set(err, COHORT_E_FORMAT, "%s: exports no " COHORT_STRATEGY_EXPORT, path);
	}
	if (status) {
		cohort_strategy_file_free(f);
		return status;
	}
	*file = f;
	*out = found;
	return COHORT_OK;
}

void cohort_strategy_file_free(struct cohort_strategy_file *file)
{
	if (!file)
		return;
	dso_free(file->dso);
	mem_free(file);
}
