/* Subcommands of cohort: argv[1] is the command's name; the result is the exit code. */
#ifndef PROG_CMD_H
#define PROG_CMD_H

int cmd_run(int argc, char **argv);
int cmd_chat(int argc, char **argv);
int cmd_info(int argc, char **argv);
int cmd_tokenize(int argc, char **argv);
int cmd_template(int argc, char **argv);
int cmd_logits(int argc, char **argv);
int cmd_quantize(int argc, char **argv);
int cmd_synth(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_simulate(int argc, char **argv);

#endif
