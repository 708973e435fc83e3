/* Files that the tree does not hold: models, vocabularies and templates in $COHORT_SHARED, or ../shared. For tests that
 * include cmocka.h. */
#ifndef TESTS_SHARED_FILE_H
#define TESTS_SHARED_FILE_H

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Without the folder of the file the test is skipped. A folder that lacks the file fails it: one of many that is gone
 * would go unnoticed among the skipped ones. Seen to fail each of these tests with one file of theirs removed. */
static inline void shared_file_needed(const char *path)
{
	char folder[4096];

	if (access(path, R_OK) == 0)
		return;
	snprintf(folder, sizeof folder, "%s", path);
	char *slash = strrchr(folder, '/');
	if (slash)
		*slash = '\0';
	if (access(folder, F_OK) != 0) {
		print_message("no %s\n", folder);
		skip();
	}
	fail_msg("%s is missing from its folder", path);
}

#endif
