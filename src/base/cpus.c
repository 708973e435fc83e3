/* Quotas of CPU time: cpu.max of control groups version 2; cpu.cfs_quota_us and cpu.cfs_period_us of version 1. A group
 * cannot get more than the groups above it, so all of them are looked at. In a container the path of the group may be
 * that of the host, which is not there; then the mounted root is the container's own group. */
#include "base/cpus.h"

#include "base/map.h"
#include "base/mem.h"
#include "base/pool.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_BYTES_MAX = 1 << 16 };

/* A file of at most that many bytes, or NULL. */
static char *read_text(const char *path)
{
	char *text = NULL;
	size_t n;

	return file_read(path, FILE_BYTES_MAX, &text, &n, NULL) ? NULL : text;
}

/* The number of a file; 0 if there is none, or none above 0 in it. *rest: what follows it, in *text to be freed. */
static long long number(const char *dir, const char *name, char **text, const char **rest)
{
	char path[PATH_MAX], *end = NULL;

	*text = NULL;
	if ((size_t)snprintf(path, sizeof path, "%s/%s", dir, name) >= sizeof path || !(*text = read_text(path)))
		return 0;
	errno = 0;
	const long long v = strtoll(*text, &end, 10);
	*rest = end;
	return v > 0 && !errno ? v : 0;
}

/* The quota of the group in `dir`, in CPUs; 0: none. */
static size_t quota_of(const char *dir, bool version_2)
{
	const char *rest = "", *unused;
	char *text, *more = NULL;
	const long long quota = number(dir, version_2 ? "cpu.max" : "cpu.cfs_quota_us", &text, &rest);
	long long period = 0;

	if (quota > 0)
		period = version_2 ? strtoll(rest, NULL, 10) : number(dir, "cpu.cfs_period_us", &more, &unused);
	mem_free(text);
	mem_free(more);
	return period > 0 ? (size_t)(quota / period + (quota % period != 0)) : 0;
}

/* The smallest of a group and those above. path: [n], starts with a slash. */
static size_t quota_above(const char *root, const char *controller, const char *path, size_t n, bool version_2)
{
	char dir[PATH_MAX];
	size_t least = 0;

	const int len = snprintf(dir, sizeof dir, "%s%s%s%.*s", root, *controller ? "/" : "", controller, (int)n, path);
	const size_t base = strlen(root) + (*controller != 0) + strlen(controller);
	if (len < 0 || (size_t)len >= sizeof dir)
		return 0;
	for (size_t end = (size_t)len;; end--) {
		if (end > base && dir[end] != '/' && dir[end])
			continue;
		dir[end] = '\0';
		const size_t quota = quota_of(dir, version_2);
		least = quota && (!least || quota < least) ? quota : least;
		if (end <= base)
			return least;
	}
}

/* Whether a list of controllers, "cpu,cpuacct", has cpu. */
static bool has_cpu(const char *list, size_t n)
{
	for (size_t at = 0; at < n; at += strcspn(list + at, ",:") + 1)
		if (strncmp(list + at, "cpu", 3) == 0 && strchr(",:", list[at + 3]))
			return true;
	return false;
}

size_t cpus_quota(const char *root, const char *groups)
{
	size_t least = 0;

	/* hierarchy:controllers:path */
	for (const char *line = groups, *next; *line; line = next) {
		const size_t n = strcspn(line, "\n");
		next = line + n + (line[n] == '\n');
		const char *list = memchr(line, ':', n);
		const char *path = list ? memchr(list + 1, ':', n - (size_t)(list + 1 - line)) : NULL;
		if (!path)
			continue;
		list++;
		const size_t n_list = (size_t)(path - list), n_path = n - (size_t)(path + 1 - line);
		char controllers[64];
		snprintf(controllers, sizeof controllers, "%.*s", (int)n_list, list);
		size_t quota = 0;
		if (n_list == 0)
			quota = quota_above(root, "", path + 1, n_path, true);
		else if (n_list < sizeof controllers && has_cpu(list, n_list))
			quota = quota_above(root, controllers, path + 1, n_path, false);
		least = quota && (!least || quota < least) ? quota : least;
	}
	return least;
}

size_t cpus_usable(void)
{
	const size_t n_cpus = pool_cpu_count();
	char *groups = read_text("/proc/self/cgroup");
	const size_t quota = groups ? cpus_quota("/sys/fs/cgroup", groups) : 0;

	mem_free(groups);
	return quota && quota < n_cpus ? quota : n_cpus;
}

/* The value of the first line "KEY : VALUE" of a text, without its end of line; "" if there is none. */
static void value_of(const char *text, const char *key, char *out, size_t n_out)
{
	const char *at = text ? strstr(text, key) : NULL;

	at = at ? strchr(at, ':') : NULL;
	snprintf(out, n_out, "%.*s", at ? (int)strcspn(at + 1 + strspn(at + 1, " \t"), "\n") : 0,
			at ? at + 1 + strspn(at + 1, " \t") : "");
}

void cpus_describe(char *out, size_t n_out, uint64_t *total_bytes, uint64_t *free_bytes)
{
	char name[96], kib[32];
	char *info = read_text("/proc/cpuinfo"), *memory = read_text("/proc/meminfo");

	value_of(info, "model name", name, sizeof name);
	snprintf(out, n_out, "%s, %zu thread%s", *name ? name : "CPU", cpus_usable(), cpus_usable() == 1 ? "" : "s");
	value_of(memory, "MemTotal", kib, sizeof kib);
	*total_bytes = strtoull(kib, NULL, 10) << 10;
	value_of(memory, "MemAvailable", kib, sizeof kib);
	*free_bytes = strtoull(kib, NULL, 10) << 10;
	mem_free(info);
	mem_free(memory);
}
