/* Lists of tokens in a body. As values of JSON they would take 48 bytes a token, many times the body: so before it is
 * read they become texts, in place: [1, 2] is "1, 2" then, and a mark in the body says so.
 *
 * Invariants
 *  1. A body has as many bytes as before, and is JSON exactly if it was.
 *  2. No client can write the mark: its name is no UTF-8, which a text of JSON always is.
 *  3. Nothing is changed where a reader could take another field for the one that was: a name with an escape, or one
 *     that comes twice. */
#include "openai.h"

#include <stdio.h>
#include <string.h>

static const char *const fields[] = {"prompt", "input", "content", "tokens"};
enum { N_FIELDS = sizeof fields / sizeof *fields };
#define MARK "\xff"

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static char *skip_space(char *p, const char *end)
{
	while (p < end && is_space(*p))
		p++;
	return p;
}

/* From a quote to behind the one that ends the string; NULL: none does. */
static char *skip_string(char *p, const char *end)
{
	for (p++; p < end; p++) {
		if (*p == '"')
			return p + 1;
		p += *p == '\\' && p + 1 < end;
	}
	return NULL;
}

/* Behind a value, if it is one; NULL: a string in it has no end. */
static char *skip_value(char *p, const char *end)
{
	size_t depth = 0;

	while (p && p < end) {
		if (depth == 0 && (*p == ',' || *p == '}' || *p == ']'))
			return p;
		depth += *p == '[' || *p == '{';
		depth -= *p == ']' || *p == '}';
		p = *p == '"' ? skip_string(p, end) : p + 1;
	}
	return p;
}

/* Behind a list of whole numbers, at least one; NULL: it is none. */
static char *skip_list(char *p, const char *end)
{
	if (p == end || *p != '[')
		return NULL;
	do {
		p = skip_space(p + 1, end);
		p += p < end && *p == '-';
		const char *number = p;
		while (p < end && is_digit(*p))
			p++;
		if (p == number || p - number > 9 || (*number == '0' && p - number > 1))
			return NULL;
		p = skip_space(p, end);
	} while (p < end && *p == ',');
	return p < end && *p == ']' ? p + 1 : NULL;
}

/* The same, and the list becomes a text if `write`. */
static char *pack_list(char *p, const char *end, bool write)
{
	char *to = skip_list(p, end);

	if (to && write) {
		*p = to[-1] = '"';
		for (; p < to; p++)
			*p = is_space(*p) ? ' ' : *p; /* a text has no line ends */
	}
	return to;
}

/* Behind a list of tokens or a list of such lists; NULL: it is neither. */
static char *pack_field(char *p, const char *end, bool write)
{
	char *to = pack_list(p, end, write);

	if (to || p == end || *p != '[')
		return to;
	do {
		p = pack_list(skip_space(p + 1, end), end, write);
		p = p ? skip_space(p, end) : NULL;
	} while (p && p < end && *p == ',');
	return p && p < end && *p == ']' ? p + 1 : NULL;
}

/* Goes over the fields of a body and packs those in `write`, all bits of fields. *found: those that are lists. False:
 * nothing may be changed. */
static bool walk(char *p, const char *end, unsigned write, unsigned *found)
{
	unsigned seen = 0;

	*found = 0;
	for (p = skip_space(p, end); p < end && (*p == '{' || *p == ','); p = skip_space(p, end)) {
		char *name = skip_space(p + 1, end);
		p = name < end && *name == '"' ? skip_string(name, end) : NULL;
		if (!p || memchr(name, '\\', (size_t)(p - name)))
			return false;
		unsigned bit = 0;
		for (unsigned i = 0; i < N_FIELDS; i++) {
			const size_t n = strlen(fields[i]);
			if ((size_t)(p - name) == n + 2 && memcmp(name + 1, fields[i], n) == 0)
				bit = 1U << i;
		}
		p = skip_space(p, end);
		if (seen & bit || p == end || *p != ':')
			return false;
		seen |= bit;
		p = skip_space(p + 1, end);
		char *to = bit ? pack_field(p, end, bit & write) : NULL;
		*found |= to ? bit : 0;
		p = to ? to : skip_value(p, end);
		if (!p)
			return false;
	}
	return p < end && *p == '}';
}

unsigned openai_ids_pack(char *bytes, size_t n)
{
	unsigned found, same;

	return n > 0 && walk(bytes, bytes + n, 0, &found) && found && walk(bytes, bytes + n, found, &same) ? found : 0;
}

bool openai_ids_mark(json_t *body, unsigned packed)
{
	return !packed || !json_object_set_new_nocheck(body, MARK, json_integer(packed));
}

bool openai_ids_packed(const json_t *body, const char *field)
{
	const json_int_t packed = json_integer_value(json_object_get(body, MARK));

	for (unsigned i = 0; i < N_FIELDS; i++)
		if (strcmp(field, fields[i]) == 0)
			return packed >> i & 1;
	return false;
}

size_t openai_ids_count(const json_t *list)
{
	size_t n = 1;

	if (!json_is_string(list))
		return json_array_size(list);
	for (const char *s = json_string_value(list); (s = strchr(s, ',')); s++)
		n++;
	return n;
}

/* The next number of a packed list, or -1. */
static int64_t next_number(const char **list)
{
	const char *s = *list;
	int64_t n = 0;
	bool bad = false;

	for (; *s && *s != ','; s++) {
		bad |= *s == '-';
		n = is_digit(*s) ? 10 * n + (*s - '0') : n;
	}
	*list = s + (*s == ',');
	return bad ? -1 : n;
}

bool openai_ids_read(
		const json_t *list, const char *where, int32_t n_vocab, cohort_token *out, struct openai_error *e)
{
	const char *packed = json_string_value(list);
	const size_t n = openai_ids_count(list);

	for (size_t i = 0; i < n; i++) {
		const json_t *id = json_array_get(list, i);
		const int64_t token = packed ? next_number(&packed) : json_is_integer(id) ? json_integer_value(id)
											  : -1;
		if (token < 0 || token >= n_vocab) {
			char param[96];
			snprintf(param, sizeof param, "%s[%zu]", where, i);
			return openai_refuse(e, param, NULL, "%s must be a token: a whole number from 0 to %d", param,
					n_vocab - 1);
		}
		out[i] = (cohort_token)token;
	}
	return true;
}
