/* The cohort command: finds the subcommand and hands over. */
#include "cmd.h"
#include "common.h"
#include "opt.h"

#include "base/err.h"
#include "base/json.h"

#include <stdio.h>
#include <string.h>

static const struct cmd cmds[] = {
	{"run", "continues prompts, all of them together", cmd_run},
	{"chat", "a conversation with a model, by its chat template", cmd_chat},
	{"speculate", "continues a prompt with guesses: the same text, sooner", cmd_speculate},
	{"tree", "what may follow a prompt, as a tree with probabilities", cmd_tree},
	{"info", "what a model file holds", cmd_info},
	{"devices", "the devices that models can run on", cmd_devices},
	{"tokenize", "text to token ids", cmd_tokenize},
	{"detokenize", "token ids to text", cmd_detokenize},
	{"embed", "texts to vectors, many at once", cmd_embed},
	{"retrieve", "chunks of documents most similar to a query", cmd_retrieve},
	{"perplexity", "how well a model predicts a text", cmd_perplexity},
	{"template", "a conversation as a model's text, by its chat template", cmd_template},
	{"logits", "the logits of every position of a token sequence", cmd_logits},
	{"quantize", "a model file in another format", cmd_quantize},
	{"synth", "a model with random weights, for measuring speed", cmd_synth},
	{"bench", "the speed of prompts and of generation, for lists of sizes", cmd_bench},
	{"serve", "the model for many users at once, over HTTP as OpenAI's API has it", cmd_serve},
	{"jobs", "resumable batch jobs: a file of requests", cmd_jobs},
	{"simulate", "strategies of the engine compared under a load, without running it", cmd_simulate},
	{"help", "the commands and topics, or the text of one", cmd_help},
	{"man", "a manual page", cmd_man},
	{"completion", "completions for a shell", cmd_completion},
	{"version", "the version", cmd_version},
};
enum { N_CMDS = sizeof cmds / sizeof *cmds };

const struct cmd *cmd_get(size_t i)
{
	return i < N_CMDS ? &cmds[i] : NULL;
}

int main(int argc, char **argv)
{
	char *help[] = {argv[0], (char *)"help", NULL};

	start_signals();
	json_take_over();
	if (!hide_levels("cohort"))
		return EXIT_USAGE;
	if (argc < 2) {
		cmd_usage(stderr);
		return EXIT_USAGE;
	}
	const char *name = argv[1];
	if (strcmp(name, "--help") == 0 || strcmp(name, "-help") == 0 || strcmp(name, "-h") == 0)
		return cmd_help(2, help);
	if (strcmp(name, "--version") == 0 || strcmp(name, "-version") == 0)
		name = "version";
	for (size_t i = 0; i < N_CMDS; i++)
		if (strcmp(name, cmds[i].name) == 0)
			return cmds[i].run(argc, argv);
	static const char *const ollama[] = {"pull", "list", "ls", "ps", "show", "rm", "cp", "create", "push"};
	for (size_t i = 0; i < sizeof ollama / sizeof *ollama; i++)
		if (strcmp(name, ollama[i]) == 0) {
			fprintf(stderr,
					"cohort: there is no '%s': models are files, given with -model FILE; cohort "
					"downloads none.\n"
					"'cohort info -m FILE' says what a file holds.\nTry 'cohort --help'.\n",
					name);
			return EXIT_USAGE;
		}
	const char *names[N_CMDS];
	for (size_t i = 0; i < N_CMDS; i++)
		names[i] = cmds[i].name;
	const char *near = opt_nearest(name, names, N_CMDS);
	char shown[ERR_SHOW_BYTES];
	fprintf(stderr, "cohort: unknown command '%s'", err_show(shown, name, strlen(name)));
	if (near)
		fprintf(stderr, "; did you mean '%s'?", near);
	else if (strchr(name, ' '))
		fputs("; to continue a text use 'cohort run'", stderr);
	fputs("\nTry 'cohort --help'.\n", stderr);
	return EXIT_USAGE;
}
