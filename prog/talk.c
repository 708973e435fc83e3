/* The loop of a program that talks: a line, what it asks for, the next one.
 *
 * 1. A command that fails changes nothing but the exit code, and that only when nobody sits there to see.
 * 2. No line ends the talk but the last one, :quit, and an interruption.
 *
 * It does not know what the commands do. */
#include "talk.h"

#include "common.h"
#include "opt.h"

#include "base/mem.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

void talk_parse(const char *line, size_t n, struct talk_line *out)
{
	size_t at = 0, end = n;

	*out = (struct talk_line){.kind = TALK_EMPTY, .text = "", .name = ""};
	while (at < n && blank(line[at]))
		at++;
	if (at == n)
		return;
	if (*line != ':' || (n > 1 && line[1] == ':')) {
		const size_t skip = *line == ':';
		*out = (struct talk_line){.kind = TALK_TEXT, .text = line + skip, .n_text = n - skip, .name = ""};
		return;
	}
	at = 1;
	while (at < n && !blank(line[at]))
		at++;
	*out = (struct talk_line){.kind = TALK_COMMAND, .name = line + 1, .n_name = at - 1};
	while (at < n && blank(line[at]))
		at++;
	while (end > at && blank(line[end - 1]))
		end--;
	out->text = line + at;
	out->n_text = end - at;
}

int talk_find(const struct talk_command *commands, size_t n_commands, const char *name, size_t n_name)
{
	int found = TALK_UNKNOWN;

	for (size_t i = 0; i < n_commands; i++) {
		const char *own = commands[i].name + 1;
		if (n_name == 0 || strlen(own) < n_name || memcmp(own, name, n_name) != 0)
			continue;
		if (own[n_name] == '\0')
			return (int)i;
		found = found == TALK_UNKNOWN ? (int)i : TALK_AMBIGUOUS;
	}
	return found;
}

void talk_help(const struct talk_command *commands, size_t n_commands)
{
	for (size_t i = 0; i < n_commands; i++) {
		char left[64];
		snprintf(left, sizeof left, "%s%s%s", commands[i].name, *commands[i].args ? " " : "", commands[i].args);
		fprintf(stderr, "  %-20s %s\n", left, commands[i].about);
	}
	fputs("  ::...                a text that begins with a colon\n"
	      "Names may be cut short. Ctrl-C stops what is being generated; Ctrl-D ends.\n",
			stderr);
}

bool talk_number(const char **args, int64_t min, int64_t max, int64_t *out)
{
	char *end = NULL;

	errno = 0;
	const long long v = strtoll(*args, &end, 10);
	if (end == *args || errno || (*end && !blank(*end)) || v < min || v > max)
		return false;
	while (blank(*end))
		end++;
	*args = end;
	*out = v;
	return true;
}

static int command(struct talk *t)
{
	const struct talk_line *said = &t->said;
	char shown[64], args_small[256];
	const int i = talk_find(t->commands, t->n_commands, said->name, said->n_name);

	if (memchr(said->name, '\0', (size_t)(said->text + said->n_text - said->name))) {
		fprintf(stderr, "%s: a command cannot hold a NUL byte\n", t->prog);
		return EXIT_USAGE;
	}
	if (i >= 0) {
		/* The line is ours until the next one is read, but not ours to write to. */
		char *big = said->n_text < sizeof args_small ? NULL : mem_strndup(said->text, said->n_text);
		if (said->n_text >= sizeof args_small && !big)
			return out_of_memory(t->prog);
		if (!big) {
			memcpy(args_small, said->text, said->n_text);
			args_small[said->n_text] = '\0';
		}
		const int rc = t->commands[i].run(t->user, big ? big : args_small);
		mem_free(big);
		return rc;
	}
	snprintf(shown, sizeof shown, ":%.*s", said->n_name > 40 ? 40 : (int)said->n_name, said->name);
	for (char *p = shown; *p; p++)
		if ((unsigned char)*p < 32 || (unsigned char)*p > 126)
			*p = '?';
	const char *near = i == TALK_UNKNOWN ? opt_nearest(shown, t->names, t->n_commands) : NULL;
	fprintf(stderr,
			i == TALK_AMBIGUOUS ? "%s: '%s' is the beginning of several commands"
					    : "%s: unknown command '%s'",
			t->prog, shown);
	if (near)
		fprintf(stderr, "; did you mean '%s'?", near);
	fputs("\nTry ':help'.\n", stderr);
	return EXIT_USAGE;
}

static int work(struct talk *t)
{
	switch (t->said.kind) {
	case TALK_COMMAND: return command(t);
	case TALK_TEXT: return t->say(t->user, t->said.text);
	case TALK_EMPTY: break;
	}
	return 0;
}

static int too_long(const struct talk *t)
{
	fprintf(stderr, "%s: the line has more than %d bytes and was left out\n", t->prog, LINE_BYTES_MAX);
	return EXIT_USAGE;
}

int talk_run(struct talk *t, const char *prompt, const char *history, const char *const *names, size_t n_names)
{
	const struct line_params p = {t->prog, prompt, history, t->names, t->n_commands, ":set", names, n_names};
	int first = 0;
	bool over = false, interrupted_end = false;

	for (size_t i = 0; i < t->n_commands; i++)
		t->names[i] = t->commands[i].name;
	t->line = line_open(&p);
	if (!t->line)
		return out_of_memory(t->prog);
	const bool terminal = line_is_terminal(t->line);
	while (!over && !t->quit) {
		const char *text;
		size_t n;
		int rc = 0;
		switch (line_read(t->line, &text, &n)) {
		case LINE_OK:
			talk_parse(text, n, &t->said);
			rc = work(t);
			break;
		case LINE_LONG: rc = too_long(t); break;
		case LINE_END: over = true; break;
		case LINE_INTERRUPTED: over = interrupted_end = true; break;
		case LINE_FAILED:
			rc = EXIT_FILE;
			over = true;
			break;
		}
		if (rc == EXIT_INTERRUPTED && (interrupt_take() == SIGTERM || !terminal))
			over = interrupted_end = true;
		/* What cannot be written is nobody's to read; there is no point in going on. */
		if (ferror(stdout))
			over = true;
		if (!first && rc != EXIT_INTERRUPTED && (!terminal || over))
			first = rc;
	}
	line_free(t->line);
	t->line = NULL;
	return interrupted_end ? EXIT_INTERRUPTED : first;
}
