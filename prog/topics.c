/* Topics of 'cohort help'. What a table elsewhere knows is printed from it. */
#include "topics.h"

#include "cohort_tools.h"
#include "common.h"
#include "opt.h"
#include "opt_config.h"
#include "sampling.h"

#include <string.h>

const char topic_config_text[] =
		"Every option of a program or command can also stand in a file. An option is taken from the\n"
		"command line, else from the environment, else from the file, else it has its default.\n"
		"\n"
		"The file is the one that -config names, else $COHORT_CONFIG, else\n"
		"$XDG_CONFIG_HOME/cohort/config, else ~/.config/cohort/config; -no-config reads none, and\n"
		"-show-config prints each option's value and where it came from.\n"
		"\n"
		"It is UTF-8 text of up to 1 MiB:\n"
		"\n"
		"  # A comment has a line of its own.\n"
		"  temperature = 0.5\n"
		"  model = /models/a model.gguf\n"
		"\n"
		"  [batched]\n"
		"  n-parallel = 8\n"
		"  prompt = \"Two\\nlines\"\n"
		"\n"
		"  [run]\n"
		"  verbose = yes\n"
		"\n"
		"Names are the long names of options, without dashes. Lines before the first section hold for\n"
		"every program that has such an option. A section is named for a program (batched) or for a\n"
		"command of cohort (run); [cohort] holds for all commands that have the option. The section\n"
		"of a command beats [cohort], and that beats what is before the first section.\n"
		"\n"
		"A value goes to the end of the line and keeps its inner blanks; in double quotes it may hold\n"
		"\\n, \\t, \\\" and \\\\. Flags are 1, 0, true, false, yes, no, on or off. An option that may be\n"
		"given again adds up over the lines of one section; a stronger source starts it anew.\n"
		"\n"
		"A name that no program has (or, in its own section, not the program), a section for no program\n"
		"and a wrong value are errors that name the file and the line.\n";

static const struct topic_pair exit_codes[] = {
		{"0", "done"},
		{"1", "failed while running; jobs: lines of the input have no answer"},
		{"2", "wrong options, operands, variables or configuration (with a hint)"},
		{"3", "the model cannot be used: missing, cut off, not GGUF, of an unknown architecture"},
		{"4", "a file cannot be read or written"},
		{"130", "interrupted; what was generated so far is printed"},
};

static const struct topic_pair variables[] = {
		{"COHORT_NAME",
				"the option -name, in capitals and with _ for -: COHORT_TEMPERATURE=0.5, "
				"COHORT_N_PREDICT=64; flags are 1, 0, true, false, yes, no, on or off; "
				"an option that may be given again gets one item"},
		{"COHORT_CONFIG", "the configuration file, which then must be there"},
		{"XDG_CONFIG_HOME", "where cohort/config is looked for; usually ~/.config"},
		{"NO_COLOR", "if set and not empty: no colours on a terminal"},
};

size_t topic_exit_codes(const struct topic_pair **out)
{
	*out = exit_codes;
	return sizeof exit_codes / sizeof *exit_codes;
}

size_t topic_variables(const struct topic_pair **out)
{
	*out = variables;
	return sizeof variables / sizeof *variables;
}

/* The text from column 18 on, in lines of at most 96. */
static void print_pair(const struct topic_pair *p, FILE *out)
{
	size_t at = (size_t)fprintf(out, "  %-15s", p->name);

	for (const char *s = p->text; *s;) {
		const size_t n = strcspn(s, " ");
		if (at + 1 + n > 96)
			at = (size_t)fprintf(out, "\n  %-15s", "") - 1;
		at += (size_t)fprintf(out, " %.*s", (int)n, s);
		s += n + (s[n] == ' ');
	}
	fputc('\n', out);
}

static void print_config(FILE *out)
{
	char path[OPT_PATH_BYTES];
	bool must;

	fputs(topic_config_text, out);
	if (opt_config_path(path, &must))
		fprintf(out, "\nHere and now the file is %s.\n", path);
}

static void print_environment(FILE *out)
{
	fputs("Variables that the programs (never the library) look at:\n\n", out);
	for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
		print_pair(&variables[i], out);
	fputs("\nThe command line beats the environment, and that the configuration file. COHORT_ variables that\n"
	      "are no option of the program are ignored; so are COHORT_VERSION, COHORT_BUILD, COHORT_SOURCE and\n"
	      "COHORT_SHARED always. -show-config prints which variable set what.\n"
	      "\n"
	      "Examples:\n"
	      "  COHORT_TEMPERATURE=0 cohort run \"Once upon a time\"\n"
	      "  COHORT_N_PREDICT=16 COHORT_VERBOSE=yes batched\n",
			out);
}

static void print_sampling(FILE *out)
{
	struct opt opts[SAMPLING_OPTIONS];
	struct sampling s;

	sampling_init(&s, 0.95);
	sampling_options(&s, "only the likeliest tokens with X of the mass; 1: all", opts);
	fputs("How the next token is chosen: stages cut down what is possible and change how likely it is, then\n"
	      "one token is drawn. The same seed gives the same text on every machine; temperature 0 always takes\n"
	      "the likeliest. Grammars and JSON schemas permit only texts that match. docs/sampling.md has every\n"
	      "formula. The options (of batched, run, chat, speculate and jobs):\n\n",
			out);
	opt_help_options(opts, SAMPLING_OPTIONS, out);
	fputs("\nExamples:\n"
	      "  cohort run -temperature 0 \"Once upon a time\"\n"
	      "  cohort run -top-k 0 -top-p 1 -min-p 0.1 -seed 7 \"Once upon a time\"\n"
	      "  cohort run -p \"Yes or no? \" -grammar 'root ::= \"yes\" | \"no\"'\n",
			out);
}

static void print_exit_codes(FILE *out)
{
	fputs("Exit codes of every program and command:\n\n", out);
	for (size_t i = 0; i < sizeof exit_codes / sizeof *exit_codes; i++)
		print_pair(&exit_codes[i], out);
}

static void print_formats(FILE *out)
{
	fputs("Models are GGUF files, whole or in several parts. 'cohort info -m FILE' tells what one holds and\n"
	      "whether it runs here.\n\nFormats and mixes that 'cohort quantize' and 'cohort synth' write:\n",
			out);
	size_t at = 0;
	for (size_t i = 0; cohort_mix_name(i); i++) {
		if (at == 0 || at + strlen(cohort_mix_name(i)) > 96)
			at = (size_t)fprintf(out, "%s ", at > 0 ? "\n" : "");
		at += (size_t)fprintf(out, " %s", cohort_mix_name(i));
	}
	fputs("\n\nOther formats:\n"
	      "  prompts         any bytes; UTF-8 text for most models\n"
	      "  token ids       decimal, separated by white space ('cohort tokenize', 'cohort logits')\n"
	      "  logits          n_tokens x n_vocab float32, little endian, nothing else\n"
	      "  grammars        GBNF (-grammar), or a JSON schema (-json-schema)\n"
	      "  conversations   JSON as of the chat completions interface ('cohort template')\n"
	      "  traces          CSV with a header ('cohort simulate --help')\n"
	      "  configuration   see 'cohort help config'\n",
			out);
}

static const struct topic topics[] = {
		{"config", "the configuration file", print_config},
		{"environment", "variables that set options", print_environment},
		{"sampling", "how tokens are chosen", print_sampling},
		{"exit-codes", "what a program's exit code means", print_exit_codes},
		{"formats", "files that are read and written", print_formats},
};

const struct topic *topic_get(size_t i)
{
	return i < sizeof topics / sizeof *topics ? &topics[i] : NULL;
}
