/* The configuration file as lines: finding and parsing it. What a name means is another's business. */
#ifndef PROG_OPT_CONFIG_H
#define PROG_OPT_CONFIG_H

#include "cohort.h"

#include <stdbool.h>
#include <stddef.h>

enum { OPT_CONFIG_BYTES_MAX = 1 << 20, OPT_PATH_BYTES = 4096 };

struct opt_config_line {
	const char *section; /* NULL before the first */
	const char *name, *value;
	size_t line; /* from 1 */
};

struct opt_config {
	char *bytes; /* what the lines point into */
	struct opt_config_line *lines;
	size_t n_lines, n_max;
};

/* Takes over bytes (from mem_alloc; bytes[n] must be writable) and changes them; they are freed by _release, also after
 * a failure. E_FORMAT names the line. */
enum cohort_status opt_config_parse(struct opt_config *c, char *bytes, size_t n, struct cohort_err *err);
void opt_config_release(struct opt_config *c);

/* Where the file is unless the command line says so: $COHORT_CONFIG (then *must is true: it has to be there),
 * $XDG_CONFIG_HOME/cohort/config, $HOME/.config/cohort/config. False: there is no such place. */
bool opt_config_path(char out[OPT_PATH_BYTES], bool *must);

#endif
