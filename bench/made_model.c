/* Random models for benches. */
#include "made_model.h"

#include "cohort_tools.h"
#include "common.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int made_model_open(const char *prog, const char *shape, const char *type, int64_t n_ctx,
		bool (*go_on)(float done, void *user), void *user, struct cohort_model **out)
{
	const char *tmp = getenv("TMPDIR");
	char dir[4096], path[4128];
	struct cohort_synth_params sp;
	struct cohort_model_params mp;
	struct cohort_err err;
	int rc = 0;

	cohort_model_params_init(&mp);
	mp.progress = go_on;
	mp.progress_user = user;
	cohort_synth_params_init(&sp);
	if (!cohort_synth_shape(&sp, shape))
		return bad_usage(prog, "-shape: '%s' is not known; 'cohort synth --help' lists the names", shape);
	sp.type = type;
	if (n_ctx > (int64_t)sp.n_ctx)
		sp.n_ctx = (uint32_t)n_ctx;
	sp.progress = go_on;
	sp.progress_user = user;
	if ((size_t)snprintf(dir, sizeof dir, "%s/cohort-bench-XXXXXX", tmp && *tmp ? tmp : "/tmp") >= sizeof dir ||
			!mkdtemp(dir)) {
		fprintf(stderr, "%s: cannot make a directory %s: %s\n", prog, dir, strerror(errno));
		return EXIT_FILE;
	}
	snprintf(path, sizeof path, "%s/model.gguf", dir);
	if (cohort_synth_write(path, &sp, &err) || cohort_model_open(path, &mp, out, &err))
		rc = err.status == COHORT_ABORTED ? EXIT_INTERRUPTED : fail(prog, &err);
	unlink(path);
	rmdir(dir);
	return rc;
}
