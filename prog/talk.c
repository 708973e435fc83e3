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
	/* What has several lines was pasted, and is a text. */
	if (*line != ':' || (n > 1 && line[1] == ':') || memchr(line, '\n', n)) {
		const size_t skip = n > 1 && line[0] == ':' && line[1] == ':';
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
	      "On a terminal a paste is one text, whatever its lines; a line that ends in a backslash goes on\n"
	      "in the next one; \"\"\" begins a text of several lines, and ends it.\n"
	      "Names may be abbreviated. Ctrl-C stops what is being generated; Ctrl-D ends.\n",
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

/* What other programs call ':quit' and ':help'. True: it was one of these words, and *rc is what came of it. */
static bool foreign(struct talk *t, int *rc)
{
	static const struct {
		const char *word, *command; /* NULL: it may be meant as a text */
	} words[] = {{"/bye", "quit"}, {"/exit", "quit"}, {"/quit", "quit"}, {"/?", "help"}, {"/help", "help"},
			{"exit", NULL}, {"quit", NULL}, {"bye", NULL}};
	const struct talk_line *said = &t->said;

	for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
		const char *word = words[i].word, *name = words[i].command;
		if (strlen(word) != said->n_text || memcmp(word, said->text, said->n_text) != 0)
			continue;
		const int k = name ? talk_find(t->commands, t->n_commands, name, strlen(name)) : TALK_UNKNOWN;
		if (k >= 0)
			*rc = t->commands[k].run(t->user, "");
		else
			fprintf(stderr, "':quit' or Ctrl-D ends; to send the word, type \"\"\"%s\"\"\"\n", word);
		return true;
	}
	return false;
}

static int work(struct talk *t)
{
	int rc = 0;

	switch (t->said.kind) {
	case TALK_COMMAND: return command(t);
	case TALK_TEXT:
		if (!t->quoted && line_is_terminal(t->line) && foreign(t, &rc))
			return rc;
		return t->say(t->user, t->said.text);
	case TALK_EMPTY: break;
	}
	return 0;
}

static int too_long(const struct talk *t)
{
	fprintf(stderr, "%s: the line has more than %d bytes and was left out\n", t->prog, LINE_BYTES_MAX);
	return EXIT_USAGE;
}

/* ---- Texts of several lines ---- */

static bool quotes(const char *text, size_t n, bool at_end)
{
	return n >= 3 && memcmp(at_end ? text + n - 3 : text, "\"\"\"", 3) == 0;
}

static bool goes_on(const char *text, size_t n)
{
	return n > 0 && text[n - 1] == '\\' && (n < 2 || text[n - 2] != '\\');
}

static bool add(struct talk *t, const char *text, size_t n)
{
	void *at = t->text;

	if (!mem_grow(&at, &t->text_max, t->n_text + n + 1, 1))
		return false;
	t->text = at;
	memcpy(t->text + t->n_text, text, n);
	t->n_text += n;
	t->text[t->n_text] = '\0';
	return true;
}

/* Reads on after a first line that does not end its text, and makes t->said of all of them. The result of the last line
 * that was read; what was gathered is dropped unless it is LINE_OK. */
static enum line_result read_on(struct talk *t, const char *text, size_t n)
{
	bool more = true;

	t->n_text = 0;
	t->quoted = quotes(text, n, false);
	if (t->quoted)
		text += 3, n -= 3;
	for (;;) {
		more = t->quoted ? !quotes(text, n, true) : goes_on(text, n);
		const size_t n_mark = t->quoted ? (more ? 0 : 3) : more;
		/* Marks that have a line of their own leave no empty ones. */
		const bool no_end = !more || (t->quoted && t->n_text + n == 0);
		if (t->n_text + n > LINE_BYTES_MAX)
			return LINE_LONG;
		if (!add(t, text, n - n_mark) || (!no_end && !add(t, "\n", 1))) {
			out_of_memory(t->prog);
			return LINE_FAILED;
		}
		if (!more)
			break;
		const enum line_result r = line_read(t->line, true, &text, &n);
		if (r == LINE_END)
			fprintf(stderr, "%s: the text was not ended, and is left out\n", t->prog);
		if (r != LINE_OK)
			return r;
	}
	if (t->quoted && n == 3 && t->n_text > 0 && t->text[t->n_text - 1] == '\n')
		t->text[--t->n_text] = '\0';
	t->said = (struct talk_line){.text = t->text, .n_text = t->n_text, .name = ""};
	t->said.kind = t->n_text ? TALK_TEXT : TALK_EMPTY;
	return LINE_OK;
}

/* The next text or command. */
static enum line_result read_next(struct talk *t)
{
	const char *text;
	size_t n;

	t->quoted = false;
	const enum line_result r = line_read(t->line, false, &text, &n);
	/* A paste is whole, whatever it begins and ends with. */
	if (r == LINE_OK && line_is_terminal(t->line) && !memchr(text, '\n', n) &&
			(quotes(text, n, false) || goes_on(text, n)))
		return read_on(t, text, n);
	if (r == LINE_OK)
		talk_parse(text, n, &t->said);
	return r;
}

/* ---- */

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
		int rc = 0;
		switch (read_next(t)) {
		case LINE_OK: rc = work(t); break;
		case LINE_CANCELLED: break;
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
	mem_free(t->text);
	t->line = NULL;
	t->text = NULL;
	return interrupted_end ? EXIT_INTERRUPTED : first;
}
