/* The configuration file: UTF-8 text, one `name = value` a line.
 *
 * Invariants:
 *   1. Every byte of the file is looked at once, and all of them are refused or understood: no line is skipped quietly.
 *   2. Lines point into the bytes; unquoting only makes a text shorter, so it is done in place.
 *
 * It does not know options, programs or what a section is for. */
#include "opt_config.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool blank(char c)
{
	return c == ' ' || c == '\t';
}

static bool of_name(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
			c == '.';
}

static char *skip_blanks(char *s)
{
	while (blank(*s))
		s++;
	return s;
}

/* The end of the line in s, which has n bytes left; bytes that a text does not hold are refused. */
static enum cohort_status find_end(const char *s, size_t n, size_t line, size_t *len, struct cohort_err *err)
{
	size_t i = 0, k;
	uint32_t cp;

	for (; i < n && s[i] != '\n'; i += k) {
		k = utf8_decode(s + i, n - i, &cp);
		if (k == 0)
			return err_set(err, COHORT_E_FORMAT, "line %zu: byte 0x%02x is not UTF-8 (column %zu)", line,
					(unsigned char)s[i], i + 1);
		if (cp == '\r' && (i + 1 == n || s[i + 1] == '\n'))
			continue;
		if (cp == 127 || (cp < 32 && cp != '\t'))
			return err_set(err, COHORT_E_FORMAT, "line %zu: control character 0x%02x (column %zu)", line,
					(unsigned)cp, i + 1);
	}
	*len = i;
	return COHORT_OK;
}

/* The value in quotes at s, in place. */
static enum cohort_status unquote(char *s, size_t line, struct cohort_err *err)
{
	const char *from = s + 1;
	char *to = s;

	for (; *from && *from != '"'; from++) {
		if (*from != '\\') {
			*to++ = *from;
			continue;
		}
		switch (*++from) {
		case 'n': *to++ = '\n'; break;
		case 't': *to++ = '\t'; break;
		case '"':
		case '\\': *to++ = *from; break;
		default:
			return err_set(err, COHORT_E_FORMAT,
					"line %zu: in quotes a backslash goes before n, t, \" or \\", line);
		}
	}
	if (!*from)
		return err_set(err, COHORT_E_FORMAT, "line %zu: the closing quote is missing", line);
	if (from[1])
		return err_set(err, COHORT_E_FORMAT, "line %zu: there is text behind the closing quote", line);
	*to = '\0';
	return COHORT_OK;
}

/* `[name]`: the name without the brackets and the blanks around it. */
static enum cohort_status read_section(char *s, size_t n, size_t line, const char **section, struct cohort_err *err)
{
	if (s[n - 1] != ']')
		return err_set(err, COHORT_E_FORMAT, "line %zu: a section is [name] alone on its line", line);
	s[n - 1] = '\0';
	s = skip_blanks(s + 1);
	for (n = strlen(s); n > 0 && blank(s[n - 1]); n--)
		s[n - 1] = '\0';
	for (const char *c = s; *c; c++)
		if (!of_name(*c) && *c != ' ')
			n = 0;
	if (n == 0)
		return err_set(err, COHORT_E_FORMAT, "line %zu: a section is the name of a program or a command", line);
	*section = s;
	return COHORT_OK;
}

static enum cohort_status read_pair(
		struct opt_config *c, char *s, size_t line, const char *section, struct cohort_err *err)
{
	char *name = s, shown[ERR_SHOW_BYTES];

	while (of_name(*s))
		s++;
	char *end = s;
	s = skip_blanks(s);
	if (end == name || *s != '=')
		return err_set(err, COHORT_E_FORMAT,
				"line %zu: expected name = value, [section] or # comment, got '%s'", line,
				err_show(shown, name, strlen(name)));
	if (*name == '-')
		return err_set(err, COHORT_E_FORMAT, "line %zu: a name is written without dashes in front", line);
	s = skip_blanks(s + 1);
	*end = '\0';
	if (*s == '"' && unquote(s, line, err))
		return COHORT_E_FORMAT;
	if (!mem_grow((void **)&c->lines, &c->n_max, c->n_lines + 1, sizeof *c->lines))
		return err_set(err, COHORT_E_MEMORY, "out of memory for the configuration");
	c->lines[c->n_lines++] = (struct opt_config_line){section, name, s, line};
	return COHORT_OK;
}

enum cohort_status opt_config_parse(struct opt_config *c, char *bytes, size_t n, struct cohort_err *err)
{
	const char *section = NULL;
	enum cohort_status st;
	size_t at = 0, len;

	*c = (struct opt_config){.bytes = bytes};
	if (n > OPT_CONFIG_BYTES_MAX)
		return err_set(err, COHORT_E_LIMIT, "more than %d bytes", OPT_CONFIG_BYTES_MAX);
	if (n >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0)
		at = 3; /* a byte order mark, as some editors write it */
	for (size_t line = 1; at < n; line++, at += len + 1) {
		st = find_end(bytes + at, n - at, line, &len, err);
		if (st)
			return st;
		char *s = bytes + at, *end = s + len;
		while (end > s && (blank(end[-1]) || end[-1] == '\r'))
			end--;
		*end = '\0';
		s = skip_blanks(s);
		if (*s == '\0' || *s == '#')
			continue;
		st = *s == '[' ? read_section(s, (size_t)(end - s), line, &section, err)
			       : read_pair(c, s, line, section, err);
		if (st)
			return st;
	}
	return COHORT_OK;
}

void opt_config_release(struct opt_config *c)
{
	mem_free(c->bytes);
	mem_free(c->lines);
	*c = (struct opt_config){0};
}

bool opt_config_path(char out[OPT_PATH_BYTES], bool *must)
{
	const char *file = getenv("COHORT_CONFIG"), *xdg = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
	int n;

	out[0] = '\0';
	*must = file && *file;
	if (*must)
		n = snprintf(out, OPT_PATH_BYTES, "%s", file);
	else if (xdg && *xdg == '/') /* a relative one is to be ignored, says its specification */
		n = snprintf(out, OPT_PATH_BYTES, "%s/cohort/config", xdg);
	else if (home && *home)
		n = snprintf(out, OPT_PATH_BYTES, "%s/.config/cohort/config", home);
	else
		return false;
	if (n < OPT_PATH_BYTES)
		return true;
	out[0] = '\0';
	return false;
}
