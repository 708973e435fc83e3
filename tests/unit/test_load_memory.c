/* Loading a model: how much memory it takes at most, what progress tells, what an abort leaves behind, and when the
 * cache is resident.
 *
 * Invariants
 *  1. What the process has resident while it loads and repacks (its own memory and the file's pages) stays below 1.2
 *     times the weights, whichever layout they get and whenever. The model here is nearly all embedding, which is also
 *     its output matrix: the one matrix that is packed while the file's copy of it is still wanted. Opening alone reads
 *     no weights when they are to be repacked as they are used.
 *  2. Progress rises with every call and ends at 1; no two calls are more than a slice apart.
 *  3. An abort leaves no memory, no mapping and no thread.
 *  4. A context's cache takes memory when it is used or with a warm-up, then all of it.
 *
 * Shown red by packing while opening all the same (loading_has_a_bounded_peak), by products that pack and give no
 * pages back (loading_has_a_bounded_peak: 1.9 times), by packing without giving the file's pages back
 * (loading_has_a_bounded_peak: 2.0 times), by one slice per matrix (loading_has_a_bounded_peak: 1.7 times; progress),
 * by a packed piece that is not freed after an abort (abort), by a file that stays mapped then (abort), by a warm-up
 * that touches every second large page only (cache). */
#include "cpu_case.h"
#include "place_case.h"
#include "sanitized.h"

#include "cohort.h"
#include "cohort_tools.h"

#include "context/impl.h"

#include <errno.h>
#include <inttypes.h>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

#define MB ((uint64_t)1 << 20)
#define SLICE (16 * MB)
/* The vocabulary, stacks, the last large page. */
#define SLACK (3 * MB)

enum { N_CALLS_MAX = 256 };

/* ---- What the system says ---- */

/* A line "NAME: N kB" of /proc/self/status in bytes. */
static uint64_t status_bytes(const char *name)
{
	char line[256];
	uint64_t kb = 0;
	bool found = false;
	FILE *f = fopen("/proc/self/status", "r");

	assert_non_null(f);
	while (!found && fgets(line, sizeof line, f))
		if (strncmp(line, name, strlen(name)) == 0 && line[strlen(name)] == ':')
			found = sscanf(line + strlen(name) + 1, "%" SCNu64, &kb) == 1;
	fclose(f);
	if (!found)
		fail_msg("/proc/self/status has no %s", name);
	return kb << 10;
}

/* The peak becomes what is resident now. */
static bool reset_peak(void)
{
	FILE *f = fopen("/proc/self/clear_refs", "w");
	const bool written = f && fputs("5", f) >= 0;

	return (f ? fclose(f) == 0 : false) && written;
}

static bool is_mapped(const char *path)
{
	char line[512];
	bool found = false;
	FILE *f = fopen("/proc/self/maps", "r");

	assert_non_null(f);
	while (fgets(line, sizeof line, f))
		found |= strstr(line, path) != NULL;
	fclose(f);
	return found;
}

/* ---- Loading ---- */

struct calls {
	float done[N_CALLS_MAX];
	int n, stop_at; /* stop_at: the call that aborts; negative: none */
};

static bool progress(float done, void *user)
{
	struct calls *c = user;

	assert_true(c->n < N_CALLS_MAX);
	c->done[c->n] = done;
	return c->n++ != c->stop_at;
}

/* When matrices are repacked: never, when they are used, while loading (as with mlock, which is refused here). */
enum when { NEVER, USED, LOADING };

static enum cohort_status open_model(const char *path, const char *isa, enum when when, struct calls *calls,
		struct cohort_model **out, struct cohort_err *err)
{
	struct cohort_model_params p;

	cohort_model_params_init(&p);
	p.isa = isa;
	p.n_threads = 2;
	p.file_layout = when == NEVER;
	p.mlock = when == LOADING;
	p.progress = calls ? progress : NULL;
	p.progress_user = calls;
	map_lock_fail(ENOMEM);
	return cohort_model_open(path, &p, out, err);
}

static struct cohort_model_info load(const char *path, const char *isa, enum when when, struct calls *calls,
		struct cohort_model **out)
{
	struct cohort_model_info info;
	struct cohort_err err;

	if (open_model(path, isa, when, calls, out, &err))
		fail_msg("%s", err.text);
	cohort_model_info_get(*out, &info);
	return info;
}

/* 52 MB of embedding and 9 MB of a layer. */
static int write_model(void **state)
{
	struct cohort_synth_params p;
	struct cohort_err err;

	if (setup(state))
		return -1;
	cohort_synth_params_init(&p);
	p.n_vocab = 48000;
	p.n_embd = 1024;
	p.n_layer = 1;
	p.n_head = 16;
	p.n_head_kv = 4;
	p.n_ff = 2048;
	p.head_size = 64;
	p.tied = true;
	p.type = "Q8_0";
	if (cohort_synth_write(((struct place *)*state)->path, &p, &err)) {
		print_error("%s\n", err.text);
		return -1;
	}
	return 0;
}

/* ---- Cases ---- */

/* Repacks the rest by rows that are decoded, or by a warm-up. */
static void use(const struct cohort_model *m, bool warm_up)
{
	struct cohort_context_params cp;
	struct cohort_context *c = NULL;
	struct cohort_err err;

	cohort_context_params_init(&cp);
	cp.n_ctx = 32;
	cp.n_threads = 2;
	if (cohort_context_open(m, &cp, &c, &err) || (warm_up && cohort_warm_up(c, 1, 1, &err)))
		fail_msg("%s", err.text);
	for (int i = 0; i == 0 || atomic_load(&cpu_weights_get(m)->n_left); i++) {
		cohort_seq_clear(c);
		assert_int_equal(cohort_decode_one(c, 5, 0, 0, true, &err), COHORT_OK);
	}
	cohort_context_free(c);
}

static void loading_has_a_bounded_peak(void **state)
{
	const struct place *p = *state;

	if (SANITIZED || !reset_peak())
		skip(); /* a sanitizer's own memory, or a system that cannot reset the peak */
	struct cohort_model *warm = NULL;
	load(p->path, NULL, NEVER, NULL, &warm);
	use(warm, false);
	cohort_model_free(warm);
	for (size_t i = 0; cohort_isa_name(i); i++)
		for (int k = 0; k < 4 && cohort_isa_usable(i); k++) {
			static const char *const names[] = {"file's layout", "used", "warm-up", "loading"};
			const enum when when = k == 0 ? NEVER : k == 3 ? LOADING : USED;
			struct cohort_model *m = NULL;
			assert_true(reset_peak());
			const uint64_t before = status_bytes("VmHWM");
			const struct cohort_model_info info = load(p->path, cohort_isa_name(i), when, NULL, &m);
			assert_true(when == LOADING || status_bytes("VmHWM") <= before + SLACK);
			use(m, k == 2);
			const uint64_t after = status_bytes("VmHWM"), took = after > before ? after - before : 0;
			print_message("%s, %s: %.1f MB of weights, %.1f MB packed, %.1f MB at most (%.3f times)\n",
					cohort_isa_name(i), names[k],
					(double)info.weight_bytes / (double)MB, (double)info.packed_bytes / (double)MB,
					(double)took / (double)MB, (double)took / (double)info.weight_bytes);
			assert_in_range(info.weight_bytes, 50 * MB, 100 * MB);
			assert_true(took >= info.packed_bytes); /* or what is measured is not the loading */
			if (took > info.weight_bytes + info.weight_bytes / 5 + SLACK)
				fail_msg("%s: %" PRIu64 " bytes for weights of %" PRIu64, cohort_isa_name(i), took,
						info.weight_bytes);
			cohort_model_free(m);
		}
}

static void progress_rises(void **state)
{
	const struct place *p = *state;

	for (enum when when = NEVER; when <= LOADING; when++) {
		struct calls c = {.stop_at = -1};
		struct cohort_model *m = NULL;
		const struct cohort_model_info info = load(p->path, NULL, when, &c, &m);
		/* Repacking is the first of two stages then; the other one, locking, fails. */
		const double slice = info.packed_bytes && when == LOADING ? (double)SLICE / (double)info.weight_bytes
									  : 1;

		assert_true(c.n > 0 && c.done[0] > 0.0f && c.done[c.n - 1] == (when == LOADING ? 0.5f : 1.0f));
		for (int i = 0; i < c.n; i++) {
			const double last = i ? (double)c.done[i - 1] : 0;
			if (!((double)c.done[i] > last && (double)c.done[i] - last <= slice + 1e-6))
				fail_msg("call %d of %d: %g after %g, slices of %g", i, c.n, (double)c.done[i], last,
						slice);
		}
		cohort_model_free(m);
	}
}

static size_t n_threads(void)
{
	return n_in("/proc/self/task");
}

static void abort_leaves_nothing(void **state)
{
	const struct place *p = *state;
	struct calls all = {.stop_at = -1};
	struct cohort_model *m = NULL;

	load(p->path, NULL, LOADING, &all, &m); /* from here on nothing is done for the first time */
	assert_true(is_mapped(p->path));
	cohort_model_free(m);
	m = NULL;
	const uint64_t before = status_bytes("VmRSS");
	const size_t threads = n_threads();
	const int at[] = {0, 2, all.n / 2, all.n - 1};
	for (int k = 0; k < 4; k++) {
		const int i = at[k];
		struct calls c = {.stop_at = i};
		struct cohort_err err = {0};
		assert_int_equal(open_model(p->path, NULL, LOADING, &c, &m, &err), COHORT_ABORTED);
		assert_null(m);
		assert_int_equal(c.n, i + 1); /* and not asked again */
		assert_non_null(strstr(err.text, "aborted"));
		assert_false(is_mapped(p->path));
		const uint64_t after = status_bytes("VmRSS");
		if (!SANITIZED && after > before + SLACK)
			fail_msg("aborted at call %d: %" PRIu64 " bytes more than before", i, after - before);
	}
	/* A joined thread's entry may outlive the join by a moment. */
	for (int i = 0; i < 1000 && n_threads() > threads; i++)
		usleep(1000);
	assert_int_equal(n_threads(), threads);
}

static void cache_is_resident_once_warm(void **state)
{
	enum { N_CTX = 65536, BYTES = N_CTX * 4 * 64 * 2 * 2 }; /* four heads, K and V in f16 */
	const struct place *p = *state;
	struct cohort_model *m = NULL;
	struct cohort_context *c = NULL;
	struct cohort_context_params cp;
	struct cohort_err err;

	if (SANITIZED)
		skip();
	load(p->path, NULL, NEVER, NULL, &m);
	cohort_context_params_init(&cp);
	cp.n_ctx = N_CTX;
	const uint64_t before = status_bytes("VmRSS");
	if (cohort_context_open(m, &cp, &c, &err))
		fail_msg("%s", err.text);
	assert_true(status_bytes("VmRSS") < before + BYTES / 4);
	if (cohort_warm_up(c, 1, 1, &err))
		fail_msg("%s", err.text);
	assert_true(status_bytes("VmRSS") >= before + BYTES);
	cohort_context_free(c);
	cohort_model_free(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(loading_has_a_bounded_peak),
		cmocka_unit_test(progress_rises),
		cmocka_unit_test(abort_leaves_nothing),
		cmocka_unit_test(cache_is_resident_once_warm),
	};
#if defined(__GLIBC__)
	/* Meson's MALLOC_PERTURB_ makes calloc write to all that it gives: resident before anything is packed. */
	mallopt(M_PERTURB, 0);
#endif
	return cmocka_run_group_tests_name("load_memory", tests, write_model, teardown);
}
