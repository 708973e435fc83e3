/* Where tests put their files: under $TMPDIR, which `./dev test` sets to a place in memory where there is one, since
 * some write and sync thousands of times; it goes as a whole at the end, whatever a killed test left. */
#ifndef TESTS_TEMP_H
#define TESTS_TEMP_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TEMP_MAX = 64 };

/* A name for mkstemp or mkdtemp: "$TMPDIR/cohort-WHAT-XXXXXX"; in /tmp if that of $TMPDIR is long. */
static inline char *temp_name(char out[TEMP_MAX], const char *what)
{
	const char *dir = getenv("TMPDIR");
	dir = dir && *dir && strlen(dir) < 32 ? dir : "/tmp";
	snprintf(out, TEMP_MAX, "%.31s/cohort-%.16s-XXXXXX", dir, what);
	return out;
}

/* The number that the next file gets: as before, if all that were opened since are closed. */
static inline int next_fd(void)
{
	const int fd = dup(2);
	close(fd);
	return fd;
}

#endif
