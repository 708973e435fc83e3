/* A directory of its own for each case of a test that writes files; a case that leaves anything behind fails. */
#ifndef TESTS_PLACE_CASE_H
#define TESTS_PLACE_CASE_H

#include "base/file.h"
#include "base/mem.h"
#include "temp.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct place {
	char dir[TEMP_MAX];
	char path[96]; /* a file in it that the case may leave */
};

static inline size_t n_in(const char *dir)
{
	size_t n = 0;
	DIR *d = opendir(dir);
	assert_non_null(d);
	for (struct dirent *e = readdir(d); e; e = readdir(d))
		n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
	closedir(d);
	return n;
}

/* The file holds these bytes, and no others. */
static inline void check_text(const char *path, const char *want)
{
	uint8_t *got;
	size_t n;
	struct cohort_err err;
	if (file_load(path, SIZE_MAX, &got, &n, &err))
		fail_msg("%s", err.text);
	assert_int_equal(n, strlen(want));
	assert_memory_equal(got, want, n);
	mem_free(got);
}

static inline int setup(void **state)
{
	struct place *p = calloc(1, sizeof *p);
	if (!p)
		return -1;
	if (!mkdtemp(temp_name(p->dir, "place")))
		return -1;
	snprintf(p->path, sizeof p->path, "%s/a.file", p->dir);
	*state = p;
	return 0;
}

static inline int teardown(void **state)
{
	struct place *p = *state;
	file_fail_after(-1, 0);
	mem_fail_after(-1);
	unlink(p->path);
	const int r = rmdir(p->dir); /* fails when something was left behind */
	free(p);
	return r;
}

#endif
