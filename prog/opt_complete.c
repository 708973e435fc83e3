/* Completions for bash, zsh and fish, from the tables that --help is printed from.
 *
 * Invariants:
 *   1. Every option of a table is in the script under each of its names, with one dash and with two.
 *   2. Help texts are quoted for their shell: none of their characters is code there. Names and fixed values come from
 *      tables of this project, and hold letters, digits, dots, dashes and underscores only.
 *
 * It needs nothing of a completion framework but what comes with the shell itself. */
#include "opt_complete.h"

#include <string.h>

static const char *const shells[] = {"bash", "zsh", "fish"};

const char *completion_shell(size_t i)
{
	return i < sizeof shells / sizeof *shells ? shells[i] : NULL;
}

/* ---- What an option's value may be ---- */

static bool takes_files(const char *arg)
{
	if (!arg)
		return false;
	const char *last = strrchr(arg, '|');
	return strncmp(last ? last + 1 : arg, "FILE", 4) == 0;
}

static bool takes_models(const char *arg)
{
	return arg && strcmp(arg, "FILE.gguf") == 0;
}

static bool takes_dirs(const char *arg)
{
	return arg && strncmp(arg, "DIR", 3) == 0;
}

/* The fixed values, separated by blanks. */
static void put_values(const char *arg, FILE *out)
{
	const char *between = "";

	if (!arg || !strchr(arg, '|'))
		return;
	for (size_t n; *arg; arg += n + (arg[n] == '|')) {
		n = strcspn(arg, "|");
		if (strncmp(arg, "FILE", 4) == 0 || (n > 3 && memcmp(arg + n - 3, "...", 3) == 0))
			continue;
		fprintf(out, "%s%.*s", between, (int)n, arg);
		between = " ";
	}
}

static bool has_values(const char *arg)
{
	return arg && strchr(arg, '|');
}

/* Within single quotes; also escapes what `special` lists, with a backslash. */
static void put_quoted(const struct completion *c, const char *s, const char *special)
{
	for (; *s; s++) {
		if (*s == '\'')
			fputs(c->shell == SHELL_FISH ? "\\'" : "'\\''", c->out);
		else if (strchr(special, *s))
			fprintf(c->out, "\\%c", *s);
		else
			fputc(*s, c->out);
	}
}

/* ---- bash ---- */

static void bash_begin(const struct completion *c)
{
	fprintf(c->out,
			"# bash completion for %s, made from its tables of options.\n"
			"_%s()\n"
			"{\n"
			"\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}\n"
			"\tlocal kind=operand command='' opts='' words=''\n"
			"\t# In --name=value the equals sign is a word of its own.\n"
			"\tif [[ $cur == '=' ]]; then\n"
			"\t\tcur=''\n"
			"\telif [[ $prev == '=' ]]; then\n"
			"\t\tprev=${COMP_WORDS[COMP_CWORD - 2]}\n"
			"\tfi\n"
			"\t[[ $prev != --* ]] || prev=${prev#-}\n",
			c->program, c->program);
}

static void bash_commands(const struct completion *c, const char *const *names, size_t n)
{
	fputs("\t((COMP_CWORD < 2)) || command=${COMP_WORDS[1]}\n\tcase $command in\n\t'')\n\t\tkind=word words='",
			c->out);
	for (size_t i = 0; i < n; i++)
		fprintf(c->out, "%s%s", i > 0 ? " " : "", names[i]);
	fputs("'\n\t\t;;\n", c->out);
}

/* A case of `case $prev in`: the names of an option. */
static void bash_case(const struct completion *c, const struct opt *o)
{
	char name[OPT_NAME_BYTES];

	for (size_t i = 0; opt_name(o, i, name); i++)
		fprintf(c->out, "%s-%s", i > 0 ? " | " : "\t\t", name);
	if (has_values(o->arg)) {
		fprintf(c->out, ") kind=%s words='", takes_files(o->arg) ? "both" : "word");
		put_values(o->arg, c->out);
		fputs("' ;;\n", c->out);
	} else {
		const char *file = takes_models(o->arg) ? "model" : "file";
		fprintf(c->out, ") kind=%s ;;\n", takes_files(o->arg) ? file : takes_dirs(o->arg) ? "dir"
												  : "none");
	}
}

static void bash_table(const struct completion *c, const struct opt_prog *p, const char *command, const char *words,
		bool files)
{
	FILE *out = c->out;

	fprintf(out, "\t%s)\n\t\topts='", command);
	for (size_t i = 0; i < p->n_opts + OPT_COMMON; i++) {
		const struct opt *o = i < p->n_opts ? &p->opts[i] : &opt_common[i - p->n_opts];
		char name[OPT_NAME_BYTES];
		for (size_t k = 0; opt_name(o, k, name); k++)
			fprintf(out, " -%s", name);
	}
	fputs("'\n", out);
	if (words)
		fprintf(out, "\t\twords='%s'%s\n", words, files ? " kind=operands" : "");
	fputs("\t\tcase $prev in\n", out);
	for (size_t i = 0; i < p->n_opts + OPT_COMMON; i++) {
		const struct opt *o = i < p->n_opts ? &p->opts[i] : &opt_common[i - p->n_opts];
		if (o->type != OPT_FLAG)
			bash_case(c, o);
	}
	fputs("\t\tesac\n\t\t;;\n", out);
}

static void bash_end(const struct completion *c)
{
	fprintf(c->out,
			"\tesac\n"
			"\tif [[ $kind == operand || $kind == operands ]]; then\n"
			"\t\tif [[ $cur == --* ]]; then\n"
			"\t\t\tkind=word words=${opts// -/ --}\n"
			"\t\telif [[ $cur == -* ]]; then\n"
			"\t\t\tkind=word words=$opts\n"
			"\t\telif [[ $kind == operands ]]; then\n"
			"\t\t\tkind=both\n"
			"\t\telif [[ -n $words ]]; then\n"
			"\t\t\tkind=word\n"
			"\t\telse\n"
			"\t\t\tkind=file\n"
			"\t\tfi\n"
			"\tfi\n"
			"\tCOMPREPLY=()\n"
			"\tcase $kind in\n"
			"\tword) mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\") ;;\n"
			"\tfile) mapfile -t COMPREPLY < <(compgen -f -- \"$cur\") ;;\n"
			"\tmodel) mapfile -t COMPREPLY < <(compgen -f -X '!*.gguf' -- \"$cur\"\n"
			"\t\tcompgen -d -- \"$cur\") ;;\n"
			"\tdir) mapfile -t COMPREPLY < <(compgen -d -- \"$cur\") ;;\n"
			"\tboth) mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\"\n"
			"\t\tcompgen -f -- \"$cur\") ;;\n"
			"\tesac\n"
			"\t# Directories go on with a slash, names with blanks are quoted.\n"
			"\tcase $kind in file | model | dir | both) compopt -o filenames 2>/dev/null ;; esac\n"
			"\treturn 0\n"
			"}\n"
			"complete -F _%s %s\n",
			c->program, c->program);
}

/* ---- zsh ---- */

static void zsh_commands(const struct completion *c, const char *const *names, const char *const *abouts, size_t n)
{
	fputs("\tif ((CURRENT == 2)); then\n\t\tlocal -a commands=(\n", c->out);
	for (size_t i = 0; i < n; i++) {
		fprintf(c->out, "\t\t\t'%s:", names[i]);
		put_quoted(c, abouts[i], "");
		fputs("'\n", c->out);
	}
	fputs("\t\t)\n\t\t_describe -t commands command commands\n\t\treturn\n\tfi\n"
	      "\tlocal command=$words[2]\n\tshift words\n\t((CURRENT--))\n\tcase $command in\n",
			c->out);
}

/* '(-a --a)'{-a=,--a=}'[help]:FILE:_files', and '*' in front for what may be given again. */
static void zsh_option(const struct completion *c, const struct opt *o)
{
	static const char *const dashes[] = {"-", "--"};
	const char *value = o->type == OPT_FLAG ? "" : "=";
	char name[OPT_NAME_BYTES];
	FILE *out = c->out;

	fputs(" \\\n\t\t\t'", out);
	if (o->type == OPT_LIST) {
		fputc('*', out);
	} else {
		for (size_t i = 0; opt_name(o, i / 2, name); i++)
			fprintf(out, "%s%s%s", i > 0 ? " " : "(", dashes[i % 2], name);
		fputc(')', out);
	}
	fputs("'{", out);
	for (size_t i = 0; opt_name(o, i / 2, name); i++)
		fprintf(out, "%s%s%s%s", i > 0 ? "," : "", dashes[i % 2], name, value);
	fputs("}'[", out);
	put_quoted(c, o->help, "[]:\\");
	fputc(']', out);
	if (o->type != OPT_FLAG) {
		fputc(':', out);
		put_quoted(c, has_values(o->arg) ? "value" : o->arg, "[]:\\");
		fputc(':', out);
		if (has_values(o->arg)) {
			fputs(takes_files(o->arg) ? "{compadd -- " : "(", out);
			put_values(o->arg, out);
			fputs(takes_files(o->arg) ? "; _files}" : ")", out);
		} else {
			const char *files = takes_models(o->arg) ? "_files -g \"*.gguf\"" : "_files";
			fputs(takes_files(o->arg) ? files : takes_dirs(o->arg) ? "_files -/"
									       : " ",
					out);
		}
	}
	fputc('\'', out);
}

static void zsh_table(const struct completion *c, const struct opt_prog *p, const char *command, const char *words,
		bool files)
{
	if (command)
		fprintf(c->out, "\t%s)\n", command);
	fputs("\t\t_arguments", c->out);
	for (size_t i = 0; i < p->n_opts; i++)
		zsh_option(c, &p->opts[i]);
	for (size_t i = 0; i < OPT_COMMON; i++)
		zsh_option(c, &opt_common[i]);
	if (words)
		fprintf(c->out,
				files ? " \\\n\t\t\t'*:operand:{compadd -- %s; _files}'\n"
				      : " \\\n\t\t\t'*:word:(%s)'\n",
				words);
	else
		fputs(" \\\n\t\t\t'*:operand:_files'\n", c->out);
	if (command)
		fputs("\t\t;;\n", c->out);
}

/* ---- fish ---- */

static void fish_condition(const struct completion *c, const char *command)
{
	fprintf(c->out, "complete -c %s", c->program);
	if (command)
		fprintf(c->out, " -n '__%s_command %s'", c->program, command);
}

static void fish_name(const struct completion *c, const char *name)
{
	/* One dash and two. fish has short options of one letter, too, but would read -np as -n -p. */
	fprintf(c->out, " -o %s -l %s", name, name);
}

static void fish_option(const struct completion *c, const struct opt *o, const char *command)
{
	FILE *out = c->out;
	char name[OPT_NAME_BYTES];

	fish_condition(c, command);
	for (size_t i = 0; opt_name(o, i, name); i++)
		fish_name(c, name);
	if (o->type != OPT_FLAG && takes_models(o->arg))
		fputs(" -x -a '(__fish_complete_suffix .gguf)'", out);
	else if (o->type != OPT_FLAG && takes_files(o->arg))
		fputs(" -r -F", out);
	else if (o->type != OPT_FLAG && takes_dirs(o->arg))
		fputs(" -x -a '(__fish_complete_directories)'", out);
	else if (o->type != OPT_FLAG)
		fputs(" -x", out);
	if (has_values(o->arg)) {
		fputs(" -a '", out);
		put_values(o->arg, out);
		fputc('\'', out);
	}
	fputs(" -d '", out);
	put_quoted(c, o->help, "\\");
	fputs("'\n", out);
}

static void fish_commands(const struct completion *c, const char *const *names, const char *const *abouts, size_t n)
{
	fprintf(c->out,
			"function __%s_command\n"
			"\tset -l words (commandline -opc)\n"
			"\tif test (count $words) -lt 2\n"
			"\t\ttest \"$argv[1]\" = ''\n"
			"\telse\n"
			"\t\ttest \"$words[2]\" = \"$argv[1]\"\n"
			"\tend\n"
			"end\n",
			c->program);
	for (size_t i = 0; i < n; i++) {
		fprintf(c->out, "complete -c %s -n '__%s_command \"\"' -f -a %s -d '", c->program, c->program,
				names[i]);
		put_quoted(c, abouts[i], "\\");
		fputs("'\n", c->out);
	}
}

static void fish_table(const struct completion *c, const struct opt_prog *p, const char *command, const char *words,
		bool files)
{
	for (size_t i = 0; i < p->n_opts; i++)
		fish_option(c, &p->opts[i], command);
	for (size_t i = 0; i < OPT_COMMON; i++)
		fish_option(c, &opt_common[i], command);
	if (words) {
		fish_condition(c, command);
		fprintf(c->out, "%s -a '%s'\n", files ? "" : " -f", words);
	}
}

/* ---- All of them ---- */

bool completion_begin(struct completion *c, const char *shell, const char *program, FILE *out)
{
	size_t i = 0;

	while (completion_shell(i) && strcmp(completion_shell(i), shell) != 0)
		i++;
	if (!completion_shell(i))
		return false;
	*c = (struct completion){.shell = (enum shell)i, .program = program, .out = out};
	switch (c->shell) {
	case SHELL_BASH: bash_begin(c); break;
	case SHELL_ZSH:
		fprintf(out, "#compdef %s\n# Made from the tables of options of %s.\n_%s()\n{\n", program, program,
				program);
		break;
	case SHELL_FISH: fprintf(out, "# fish completion for %s, made from its tables of options.\n", program); break;
	}
	return true;
}

void completion_commands(struct completion *c, const char *const *names, const char *const *abouts, size_t n)
{
	c->has_commands = true;
	switch (c->shell) {
	case SHELL_BASH: bash_commands(c, names, n); break;
	case SHELL_ZSH: zsh_commands(c, names, abouts, n); break;
	case SHELL_FISH: fish_commands(c, names, abouts, n); break;
	}
}

void completion_table(struct completion *c, const struct opt_prog *p, const char *command, const char *words,
		bool files)
{
	switch (c->shell) {
	case SHELL_BASH:
		if (!command)
			fputs("\tcase $command in\n", c->out);
		bash_table(c, p, command ? command : "''", words, files);
		break;
	case SHELL_ZSH: zsh_table(c, p, command, words, files); break;
	case SHELL_FISH: fish_table(c, p, command, words, files); break;
	}
}

void completion_end(struct completion *c)
{
	switch (c->shell) {
	case SHELL_BASH: bash_end(c); break;
	case SHELL_ZSH:
		/* Autoloaded, the file is the function; sourced, it defines one. */
		fprintf(c->out, "%s}\nif [ \"$funcstack[1]\" = _%s ]; then _%s \"$@\"; else compdef _%s %s; fi\n",
				c->has_commands ? "\tesac\n" : "", c->program, c->program, c->program, c->program);
		break;
	case SHELL_FISH: break;
	}
}
