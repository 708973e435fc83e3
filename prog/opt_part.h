/* Between the files of opt: a parse under way. For nobody else. */
#ifndef PROG_OPT_PART_H
#define PROG_OPT_PART_H

#include "opt.h"
#include "opt_config.h"

/* In order of precedence. */
enum opt_from { FROM_DEFAULT, FROM_CONFIG, FROM_SECTION, FROM_ENVIRONMENT, FROM_COMMAND };

struct opt_source {
	enum opt_from from;
	size_t line; /* of the configuration file */
};

struct opt_run {
	const struct opt_prog *p;
	struct opt_source *sources; /* [p->n_opts] */
	const char *config; /* of the command line, or NULL */
	bool no_config, show;
	char path[OPT_PATH_BYTES]; /* of the configuration file; empty: there is none to look for */
	bool found; /* it was read */
	const struct opt_config *c; /* what it says */
};

/* Sets p->opts[i]; a list that a weaker source began starts anew. False with the reason, that starts with "expects"
 * or the like. */
enum { OPT_WHY_BYTES = 256 };
bool opt_take(struct opt_run *s, size_t i, const char *text, enum opt_from from, size_t line, char why[OPT_WHY_BYTES]);
/* Whether a flag is on, of 1/0, true/false, yes/no, on/off. */
bool opt_flag(const char *text, bool *on);

/* The configuration file, then the environment; as opt_parse returns. */
int opt_sources(struct opt_run *s);
/* All values and where they came from, to stdout; as opt_parse returns. */
int opt_show(const struct opt_run *s);

/* "Try '... --help'." on stderr; returns 3. */
int opt_wrong(const struct opt_prog *p);

#endif
