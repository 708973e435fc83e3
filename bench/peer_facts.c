/* What a result says of its machine and of the two programs. What cannot be found out is "unknown", not an error. */
#include "peer.h"

#include "base/mem.h"
#include "base/pool.h"
#include "common.h"
#include "limits.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#define LOAD_QUIET 0.5 /* a load average above it calls for a warning */

json_t *text_json(const char *s)
{
	char *shown = printable(s);
	json_t *t = shown ? json_string(shown) : NULL;

	mem_free(shown);
	return t;
}

/* ---- The machine ---- */

double facts_load(void)
{
	double load[1] = {0};
	return getloadavg(load, 1) == 1 ? load[0] : 0;
}

/* The kernel's word for it: what the C library makes of the CPU's own is far too large on some machines. */
static double l3_bytes(void)
{
	FILE *f = fopen("/sys/devices/system/cpu/cpu0/cache/index3/size", "r");
	double kib = 0;

	if (f) {
		if (fscanf(f, "%lfK", &kib) != 1)
			kib = 0;
		fclose(f);
	}
	return kib * 1024;
}

/* For one, two and all threads; more of them never allow less. */
static json_t *probe(size_t n_threads, struct machine_limits *limits)
{
	json_t *list = json_array();

	for (size_t t = 1; list && t <= n_threads && !interrupted(); t++) {
		if (t > 2 && t < n_threads)
			continue;
		limits->fma_gmacs = fmax(limit_fma_gmacs(t), limits->fma_gmacs);
		limits->read_gb_s = fmax(limit_read_gb_s(t), limits->read_gb_s);
		json_array_append_new(list, json_pack("{s:I, s:f, s:f}", "threads", (json_int_t)t, "fma_gmacs",
							    limits->fma_gmacs, "read_gb_s", limits->read_gb_s));
	}
	return list;
}

json_t *facts_machine(size_t n_threads, bool probes, struct machine_limits *limits)
{
	struct utsname u;
	char cpu[256];
	const double load = facts_load();
	const size_t cpus = pool_cpu_count();

	*limits = (struct machine_limits){.l3_bytes = l3_bytes()};
	cpu_name(cpu, sizeof cpu);
	if (uname(&u))
		snprintf(u.release, sizeof u.release, "unknown");
	if (load > LOAD_QUIET)
		fprintf(stderr,
				"bench_peer: warning: the load average is %.2f: other programs are running. Threads "
				"that wait for each other lose more than others by that, so even ratios say little\n",
				load);
	if (n_threads > cpus)
		fprintf(stderr, "bench_peer: warning: %zu threads on %zu CPUs\n", n_threads, cpus);
	return json_pack("{s:o, s:I, s:s, s:s, s:f, s:o}", "cpu", text_json(cpu), "cores", (json_int_t)cpus, "kernel",
			u.release, "compiler", compiler_name(), "load_before", load, "limits",
			probes ? probe(n_threads, limits) : json_array());
}

/* ---- The programs ---- */

/* The lines of a --version output that name a version, joined; or, if any line will do, the first one. */
static bool version_line(const char *text, bool any, char *out, size_t n_max)
{
	size_t n = 0;

	for (const char *p = text; *p; p += strcspn(p, "\n") + (p[strcspn(p, "\n")] != '\0')) {
		const int len = (int)strcspn(p, "\r\n"), skip = strncmp(p, "version: ", 9) == 0 ? 9 : 0;
		const bool named = strncmp(p, "version", 7) == 0 || strncmp(p, "built with", 10) == 0;
		if (len > skip && n < n_max && (any ? n == 0 : named))
			n += (size_t)snprintf(out + n, n_max - n, "%s%.*s", n ? ", " : "", len - skip, p + skip);
	}
	return n > 0;
}

static json_t *version_of(const char *const *argv, const char *fallback)
{
	struct child c;
	char text[512];
	const bool ok = child_run(argv, &c) && child_ok(&c) &&
			(version_line(c.out, false, text, sizeof text) ||
					version_line(c.err, false, text, sizeof text) ||
					version_line(c.out, true, text, sizeof text) ||
					version_line(c.err, true, text, sizeof text));

	child_release(&c);
	return text_json(ok ? text : fallback);
}

json_t *facts_ours(const char *cohort, const char *dir)
{
	const char *const ours[] = {cohort, "--version", NULL};
	const char *const git[] = {
			"git", "-C", dir, "describe", "--always", "--dirty", "--abbrev=10", "--exclude", "*", NULL};

	return json_pack("{s:o, s:o, s:o}", "path", text_json(cohort), "version", version_of(ours, "version unknown"),
			"commit", version_of(git, "commit unknown"));
}

json_t *facts_peer(const char *path, const char *label)
{
	const char *const peer[] = {path, "--version", NULL};
	json_t *printed = version_of(peer, "version unknown (--version gave nothing)");

	if (!label)
		return json_pack("{s:o, s:o}", "path", text_json(path), "version", printed);
	return json_pack("{s:o, s:o, s:o}", "path", text_json(path), "version", text_json(label), "printed", printed);
}
