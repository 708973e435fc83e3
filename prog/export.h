/* What a run of batched gave, in files: -output. */
#ifndef PROG_EXPORT_H
#define PROG_EXPORT_H

#include "opt.h"

struct job;

struct export_opts {
	struct opt_list files;   /* -: standard output */
	const char *format;      /* of standard output */
};
/* Lines of a table of options. */
#define OPT_OUTPUT(e) \
	"output", "o", OPT_LIST, &(e)->files, 0, 0, "FILE", \
			"everything into a .txt .md .json .jsonl .csv or .html file; may be given again", NULL
#define OPT_OUTPUT_FORMAT(e) \
	"output-format", NULL, OPT_STR, &(e)->format, 0, 0, "txt|md|json|jsonl|csv|html", \
			"the format of -output -, which is standard output", NULL
#define OPTS_EXPORT(e) {OPT_OUTPUT(e)}, {OPT_OUTPUT_FORMAT(e)}

/* Before anything is computed: whether all formats are known and all files can be written. 0 or an exit code. */
int export_check(const struct job *j);
/* Whether standard output belongs to -output. */
bool export_takes_stdout(const struct export_opts *o);
/* Writes all of them; one that fails does not keep the others from being written. 0 or an exit code. */
int export_write(const struct job *j, bool interrupted);
/* Whether the name ends in one of the suffixes. */
bool export_knows(const char *path);

/* Prompts that were not continued by one run: of each, the run that it is of, and which of that run's sequences there
 * are ("0 2"). */
struct export_origin {
	const struct job *run;
	const char *sequences;
};
/* Likewise, with an origin for each prompt of j. What is not the same in all runs is told with each prompt. */
int export_write_origins(const struct job *j, bool interrupted, const struct export_origin *origins);

#endif
