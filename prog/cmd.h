/* Subcommands of cohort: argv[1] is the command's name; the result is the exit code. Each line here is a command, which
 * has a manual page (the build reads the names from these lines) and a line in the table of cohort.c. */
#ifndef PROG_CMD_H
#define PROG_CMD_H

#include <stddef.h>
#include <stdio.h>

int cmd_run(int argc, char **argv);
int cmd_chat(int argc, char **argv);
int cmd_speculate(int argc, char **argv);
int cmd_tree(int argc, char **argv);
int cmd_devices(int argc, char **argv);
int cmd_info(int argc, char **argv);
int cmd_tokenize(int argc, char **argv);
int cmd_detokenize(int argc, char **argv);
int cmd_embed(int argc, char **argv);
int cmd_perplexity(int argc, char **argv);
int cmd_retrieve(int argc, char **argv);
int cmd_template(int argc, char **argv);
int cmd_logits(int argc, char **argv);
int cmd_quantize(int argc, char **argv);
int cmd_synth(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_serve(int argc, char **argv);
int cmd_jobs(int argc, char **argv);
int cmd_simulate(int argc, char **argv);
int cmd_help(int argc, char **argv);
int cmd_man(int argc, char **argv);
int cmd_completion(int argc, char **argv);
int cmd_version(int argc, char **argv);

struct cmd {
	const char *name, *about;
	int (*run)(int argc, char **argv);
};
/* NULL past the last. */
const struct cmd *cmd_get(size_t i);
/* What 'cohort help' prints. */
void cmd_usage(FILE *out);

#endif
