/* The quota of CPU time that a process's control groups have, in both of their versions, from a made-up tree.
 *
 * Seen red with: groups above not looked at, quotas rounded down, "cpuacct" taken for "cpu", and a
 * path that is cut off looked at. */
#include "base/cpus.h"
#include "temp.h"

#include "base/pool.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

static char root[TEMP_MAX];

static void put(const char *dir, const char *name, const char *text)
{
	char path[512];

	snprintf(path, sizeof path, "%s%s", root, dir);
	for (char *s = path + strlen(root); *s; s++) /* the folders of dir */
		if (*s == '/' && s > path + strlen(root)) {
			*s = '\0';
			mkdir(path, 0700);
			*s = '/';
		}
	mkdir(path, 0700);
	snprintf(path, sizeof path, "%s%s/%s", root, dir, name);
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
}

static int begin(void **state)
{
	(void)state;
	return mkdtemp(temp_name(root, "cpus")) ? 0 : -1;
}

static int end(void **state)
{
	char command[TEMP_MAX + 16];

	(void)state;
	snprintf(command, sizeof command, "rm -rf '%s'", root);
	return system(command);
}

static void version_2(void **state)
{
	(void)state;
	assert_int_equal(cpus_quota(root, "0::/a/b\n"), 0); /* no files at all */
	put("/a/b", "cpu.max", "max 100000\n");
	assert_int_equal(cpus_quota(root, "0::/a/b\n"), 0);
	put("/a/b", "cpu.max", "250000 100000\n");
	assert_int_equal(cpus_quota(root, "0::/a/b\n"), 3);
	put("/a", "cpu.max", "200000 100000\n"); /* the group above has less */
	assert_int_equal(cpus_quota(root, "0::/a/b\n"), 2);
	assert_int_equal(cpus_quota(root, "0::/a\n"), 2);
	assert_int_equal(cpus_quota(root, "0::/\n"), 0);
	put("", "cpu.max", "50000 100000\n"); /* of the mounted root, as in a container */
	assert_int_equal(cpus_quota(root, "0::/not/there\n"), 1);
	assert_int_equal(cpus_quota(root, "0::/a/b\n"), 1);
	static const char *const none[] = {"rubbish", "250000", "250000 0", "250000 -1", "0 100000", "-1 100000",
			"99999999999999999999 100000"};
	for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
		put("", "cpu.max", none[i]);
		assert_int_equal(cpus_quota(root, "0::/\n"), 0);
	}
	put("", "cpu.max", "1 100000");
	assert_int_equal(cpus_quota(root, "0::/\n"), 1);
	put("", "cpu.max", "300000 100000");
	assert_int_equal(cpus_quota(root, "0::/\n"), 3);
}

static void version_1(void **state)
{
	static const char groups[] = "4:cpuacct:/x\n3:memory:/x\n1:cpu,cpuset:/x/y\n0::/x\n";

	(void)state;
	put("/cpuacct/x", "cpu.cfs_quota_us", "100000\n");
	put("/cpuacct/x", "cpu.cfs_period_us", "100000\n");
	assert_int_equal(cpus_quota(root, groups), 0);
	put("/cpu,cpuset", "cpu.cfs_quota_us", "-1\n");
	put("/cpu,cpuset", "cpu.cfs_period_us", "100000\n");
	put("/cpu,cpuset/x", "cpu.cfs_quota_us", "400000\n");
	put("/cpu,cpuset/x", "cpu.cfs_period_us", "100000\n");
	assert_int_equal(cpus_quota(root, groups), 4);
	put("/cpu,cpuset/x", "cpu.cfs_period_us", "0\n");
	assert_int_equal(cpus_quota(root, groups), 0);
	/* The last of a list; a list and a path of lengths that no system has. */
	put("/cpuacct,cpu", "cpu.cfs_quota_us", "300000\n");
	put("/cpuacct,cpu", "cpu.cfs_period_us", "100000\n");
	put("/cpuacct,cpu/x", "cpu.cfs_quota_us", "200000\n");
	put("/cpuacct,cpu/x", "cpu.cfs_period_us", "100000\n");
	assert_int_equal(cpus_quota(root, "1:cpuacct,cpu:/x\n"), 2);
	static char text[6000];
	for (int n = 63; n < 65; n++) {
		sprintf(text, "/cpu,%.*d/x", n - 4, 0);
		put(text, "cpu.cfs_quota_us", "200000\n");
		put(text, "cpu.cfs_period_us", "100000\n");
		sprintf(text, "1:cpu,%.*d:/x\n", n - 4, 0);
		assert_int_equal(cpus_quota(root, text), n < 64 ? 2 : 0);
	}
	sprintf(text, "1:cpuacct,cpu:/%.*d\n", 5000, 0);
	assert_int_equal(cpus_quota(root, text), 0);
}

static void odd_lists(void **state)
{
	(void)state;
	assert_int_equal(cpus_quota(root, ""), 0);
	assert_int_equal(cpus_quota(root, "\n:\n0:\n::\n0::"), 0);
	assert_true(cpus_usable() >= 1 && cpus_usable() <= pool_cpu_count());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
			cmocka_unit_test_setup_teardown(version_2, begin, end),
			cmocka_unit_test_setup_teardown(version_1, begin, end),
			cmocka_unit_test_setup_teardown(odd_lists, begin, end),
	};
	return cmocka_run_group_tests_name("cpus", tests, NULL, NULL);
}
