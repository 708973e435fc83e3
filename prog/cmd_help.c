/* cohort help, man, completion and version: what the program tells about itself, all of it from the table of commands
 * and each command's table of options.
 *
 * A command's table is on the stack of its function, so it is reached by calling that function with a visitor set
 * (opt_visit), which opt_parse hands the table to. */
#include "cmd.h"
#include "cohort_tools.h"
#include "common.h"
#include "opt.h"
#include "opt_complete.h"
#include "opt_man.h"
#include "topics.h"

#include <stdio.h>
#include <string.h>

enum { NAMES_MAX = 128 };

static size_t command_names(const char **out)
{
	size_t n = 0;
	for (; n < NAMES_MAX && cmd_get(n); n++)
		out[n] = cmd_get(n)->name;
	return n;
}

static size_t topic_names(const char **out, size_t n_max)
{
	size_t n = 0;
	for (; n < n_max && topic_get(n); n++)
		out[n] = topic_get(n)->name;
	return n;
}

/* Calls the command with its table going to fn. */
static void visit(const struct cmd *c, void (*fn)(const struct opt_prog *p, void *user), void *user)
{
	char prog[] = "cohort", name[64], *args[] = {prog, name, NULL};

	snprintf(name, sizeof name, "%s", c->name);
	opt_visit(fn, user);
	c->run(2, args);
	opt_visit(NULL, NULL);
}

static const struct cmd *find(const char *name)
{
	for (size_t i = 0; cmd_get(i); i++)
		if (strcmp(cmd_get(i)->name, name) == 0)
			return cmd_get(i);
	return NULL;
}

static int not_found(const char *prog, const char *what, const char *name, const char *const *names, size_t n)
{
	const char *near = opt_nearest(name, names, n);

	return bad_usage(prog, "unknown %s '%s'%s%s%s", what, name, near ? "; did you mean '" : "", near ? near : "",
			near ? "'?" : "");
}

/* ---- help ---- */

void cmd_usage(FILE *out)
{
	fputs("Usage: cohort COMMAND [options]\n\nMany language-model sequences through one model at once.\n\n", out);
	fputs("Commands:\n", out);
	for (size_t i = 0; cmd_get(i); i++)
		fprintf(out, "  %-12s %s\n", cmd_get(i)->name, cmd_get(i)->about);
	fputs("\nTopics (cohort help TOPIC):\n", out);
	for (size_t i = 0; topic_get(i); i++)
		fprintf(out, "  %-12s %s\n", topic_get(i)->name, topic_get(i)->brief);
	fputs("\n'cohort COMMAND --help' tells a command's options.\n"
	      "Without -m a command uses the built-in model.\n",
			out);
}

static void help_of(const struct opt_prog *p, void *user)
{
	opt_help(p, user);
}

int cmd_help(int argc, char **argv)
{
	const char *name = NULL, *names[2 * NAMES_MAX];
	const struct opt_prog p = {
			"cohort help",
			"[COMMAND | TOPIC]",
			"Lists the commands and topics, or prints the text of one.",
			"  cohort help\n"
			"  cohort help run\n"
			"  cohort help config\n",
			NULL,
			0,
	};
	int rc = opt_parse(&p, argc, argv, 2, &name, 1, NULL);
	if (rc)
		return rc - 1;
	if (!name) {
		cmd_usage(stdout);
		return close_stdout("cohort");
	}
	if (find(name)) {
		visit(find(name), help_of, stdout);
		return close_stdout("cohort");
	}
	for (size_t i = 0; topic_get(i); i++)
		if (strcmp(name, topic_get(i)->name) == 0) {
			topic_get(i)->print(stdout);
			return close_stdout("cohort");
		}
	if (strcmp(name, "batched") == 0)
		return bad_usage("cohort", "batched is a program of its own: 'batched -help' tells its options");
	size_t n = command_names(names);
	n += topic_names(names + n, NAMES_MAX);
	return not_found("cohort", "command or topic", name, names, n);
}

/* ---- man ---- */

static void man_cohort(FILE *out)
{
	char see[2048] = "batched(1)";
	size_t n = strlen(see);

	man_head("cohort", "many language-model sequences through one model at once", "COMMAND [options]", out);
	man_section("DESCRIPTION", out);
	man_text("Reads GGUF models and runs many sequences through one of them together. Each command has a page of\n"
		 "its own. Texts and results go to standard output, everything else to standard error. Without -m a\n"
		 "command uses the built-in model.\n",
			out);
	man_section("COMMANDS", out);
	for (size_t i = 0; cmd_get(i); i++) {
		man_entry(cmd_get(i)->name, NULL, cmd_get(i)->about, out);
		n += (size_t)snprintf(see + n, n < sizeof see ? sizeof see - n : 0, ", cohort-%s(1)", cmd_get(i)->name);
		n = n < sizeof see ? n : sizeof see;
	}
	man_section("OPTIONS", out);
	man_text("Each command has its own; these belong to all. One dash or two.\n", out);
	for (size_t i = 0; i < OPT_COMMON; i++) {
		char word[64];
		snprintf(word, sizeof word, "-%s", opt_common[i].name);
		man_entry(word, opt_common[i].arg,
				strcmp(opt_common[i].name, "help") == 0 ? "print a command's options"
									: opt_common[i].help,
				out);
	}
	man_section("CONFIGURATION", out);
	man_text(topic_config_text, out);
	man_section("EXAMPLES", out);
	man_text("  cohort run \"Once upon a time\"\n"
		 "  cohort help sampling\n"
		 "  cohort man run | man -l -\n",
			out);
	man_tail(see, out);
}

static void man_of(const struct opt_prog *p, void *user)
{
	const struct cmd *c = user;
	opt_man(p, c->about, stdout);
}

int cmd_man(int argc, char **argv)
{
	const char *name = "cohort", *names[NAMES_MAX + 1];
	const struct opt_prog p = {
			"cohort man",
			"[COMMAND]",
			"Prints the manual page of a command, or of cohort itself, as roff. Installed pages are\n"
			"read with 'man cohort-run'.",
			"  cohort man run | man -l -\n"
			"  cohort man > cohort.1\n",
			NULL,
			0,
	};
	int rc = opt_parse(&p, argc, argv, 2, &name, 1, NULL);
	if (rc)
		return rc - 1;
	const struct cmd *c = find(name);
	size_t n = command_names(names);
	names[n++] = "cohort";
	if (!c && strcmp(name, "cohort") != 0)
		return not_found("cohort man", "command", name, names, n);
	if (c)
		visit(c, man_of, (void *)c);
	else
		man_cohort(stdout);
	return close_stdout("cohort man");
}

/* ---- completion ---- */

struct completing {
	struct completion c;
	const char *command, *words;
	bool files;
};

static void complete_of(const struct opt_prog *p, void *user)
{
	struct completing *x = user;
	completion_table(&x->c, p, x->command, x->words, x->files);
}

/* What the operands of a command may be, separated by blanks (quantize: files as well); NULL: files. */
static const char *operands_of(const char *command, char *out, size_t n_max)
{
	const char *names[2 * NAMES_MAX];
	size_t n = 0, at = 0;

	if (strcmp(command, "quantize") == 0)
		for (; n < NAMES_MAX && cohort_mix_name(n); n++)
			names[n] = cohort_mix_name(n);
	if (strcmp(command, "help") == 0 || strcmp(command, "man") == 0)
		n = command_names(names);
	if (strcmp(command, "help") == 0)
		n += topic_names(names + n, NAMES_MAX);
	if (strcmp(command, "completion") == 0)
		for (; completion_shell(n); n++)
			names[n] = completion_shell(n);
	for (size_t i = 0; i < n && at < n_max; i++)
		at += (size_t)snprintf(out + at, n_max - at, "%s%s", i > 0 ? " " : "", names[i]);
	return n > 0 ? out : NULL;
}

int cmd_completion(int argc, char **argv)
{
	const char *shell = NULL, *names[NAMES_MAX], *abouts[NAMES_MAX], *shells[8];
	char words[4096];
	struct completing x;
	size_t n_shells = 0;
	const struct opt_prog p = {
			"cohort completion",
			"bash | zsh | fish",
			"Prints completions of the cohort command for a shell. An installation has them in place;\n"
			"these are for a program that runs from its build directory.",
			"  cohort completion bash > ~/.local/share/bash-completion/completions/cohort\n"
			"  cohort completion zsh > ~/.zfunc/_cohort\n"
			"  cohort completion fish > ~/.config/fish/completions/cohort.fish\n",
			NULL,
			0,
	};
	int rc = opt_parse(&p, argc, argv, 2, &shell, 1, NULL);
	if (rc)
		return rc - 1;
	for (; n_shells < 8 && completion_shell(n_shells); n_shells++)
		shells[n_shells] = completion_shell(n_shells);
	if (!shell)
		return bad_usage(p.name, "name a shell: bash, zsh or fish");
	if (!completion_begin(&x.c, shell, "cohort", stdout))
		return not_found(p.name, "shell", shell, shells, n_shells);
	const size_t n = command_names(names);
	for (size_t i = 0; i < n; i++)
		abouts[i] = cmd_get(i)->about;
	completion_commands(&x.c, names, abouts, n);
	for (size_t i = 0; i < n; i++) {
		x.command = names[i];
		x.words = operands_of(names[i], words, sizeof words);
		x.files = strcmp(names[i], "quantize") == 0;
		visit(cmd_get(i), complete_of, &x);
	}
	completion_end(&x.c);
	return close_stdout(p.name);
}

/* ---- version ---- */

int cmd_version(int argc, char **argv)
{
	const struct opt_prog p = {
			"cohort version",
			"[-help]",
			"Prints the version.",
			"  cohort version\n",
			NULL,
			0,
	};
	int rc = opt_parse(&p, argc, argv, 2, NULL, 0, NULL);
	if (rc)
		return rc - 1;
	printf("cohort %s\n", cohort_version());
	return close_stdout("cohort");
}
