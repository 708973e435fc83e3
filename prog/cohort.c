/* The cohort command: finds the subcommand and hands over. */
#include "cmd.h"
#include "common.h"
#include "opt.h"

#include <stdio.h>
#include <string.h>

static const struct cmd {
	const char *name, *about;
	int (*run)(int argc, char **argv);
} cmds[] = {
	{"run", "continues prompts, all of them together", cmd_run},
	{"chat", "a conversation with a model, by its chat template", cmd_chat},
	{"info", "what a model file holds", cmd_info},
	{"tokenize", "text to token ids", cmd_tokenize},
	{"template", "a conversation as a model's text, by its chat template", cmd_template},
	{"logits", "the logits of every position of a token sequence", cmd_logits},
	{"quantize", "a model file in another format", cmd_quantize},
	{"synth", "a model with random weights, for measuring speed", cmd_synth},
	{"bench", "the speed of prompts and of generation, for lists of sizes", cmd_bench},
	{"simulate", "strategies of the engine compared under a load, without running it", cmd_simulate},
};
enum { N_CMDS = sizeof cmds / sizeof *cmds };

static void usage(FILE *out)
{
	fputs("Usage: cohort COMMAND [options]\n\nMany language-model sequences through one model at once.\n\n", out);
	fputs("Commands:\n", out);
	for (size_t i = 0; i < N_CMDS; i++)
		fprintf(out, "  %-10s %s\n", cmds[i].name, cmds[i].about);
	fputs("  help       this text, or that of a command\n  version    the version\n\n"
	      "'cohort COMMAND --help' tells a command's options.\n"
	      "Without -m a command uses the built-in model.\n", out);
}

int main(int argc, char **argv)
{
	ignore_write_signals();
	if (argc < 2) {
		usage(stderr);
		return EXIT_USAGE;
	}
	const char *name = argv[1];
	bool help = strcmp(name, "help") == 0;
	if ((help && argc == 2) || strcmp(name, "--help") == 0 || strcmp(name, "-help") == 0 ||
			strcmp(name, "-h") == 0) {
		usage(stdout);
		return close_stdout("cohort");
	}
	if (strcmp(name, "version") == 0 || strcmp(name, "--version") == 0) {
		printf("cohort %s\n", cohort_version());
		return close_stdout("cohort");
	}
	if (help)
		name = argv[2];
	for (size_t i = 0; i < N_CMDS; i++)
		if (strcmp(name, cmds[i].name) == 0) {
			char *args[] = {argv[0], argv[1], (char *)"--help", NULL};
			return help ? cmds[i].run(3, args) : cmds[i].run(argc, argv);
		}
	const char *names[N_CMDS];
	for (size_t i = 0; i < N_CMDS; i++)
		names[i] = cmds[i].name;
	const char *near = opt_nearest(name, names, N_CMDS);
	fprintf(stderr, "cohort: unknown command '%s'", name);
	if (near)
		fprintf(stderr, "; did you mean '%s'?", near);
	fputs("\nTry 'cohort --help'.\n", stderr);
	return EXIT_USAGE;
}
