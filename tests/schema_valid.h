/* Whether a value is one that a JSON schema describes: for the test of schemas and the fuzz target. It knows nothing of
 * grammars, and of keywords only those that the library takes. */
#ifndef TESTS_SCHEMA_VALID_H
#define TESTS_SCHEMA_VALID_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "pattern_judge.h"

static inline bool valid(const json_t *doc, const json_t *s, const json_t *v);

static inline json_t *at_pointer(const json_t *doc, const char *p)
{
	json_t *at = (json_t *)(uintptr_t)doc;
	char name[256];

	for (p++; *p && at;) {
		size_t n = 0;
		for (p++; *p && *p != '/' && n < sizeof name - 1; p++) {
			const bool escaped = *p == '~' && (p[1] == '0' || p[1] == '1');
			p += escaped;
			name[n++] = (char)(escaped ? (*p == '0' ? '~' : '/') : *p);
		}
		name[n] = 0;
		at = json_object_get(at, name);
	}
	return at;
}

static inline bool is_type(const char *t, const json_t *v)
{
	return (!strcmp(t, "object") && json_is_object(v)) || (!strcmp(t, "array") && json_is_array(v)) ||
			(!strcmp(t, "string") && json_is_string(v)) || (!strcmp(t, "number") && json_is_number(v)) ||
			(!strcmp(t, "integer") && json_is_integer(v)) ||
			(!strcmp(t, "boolean") && json_is_boolean(v)) || (!strcmp(t, "null") && json_is_null(v));
}

/* Where PCRE2 does not know, it does. */
static inline bool matches(const char *pattern, const char *text, size_t n)
{
	struct judge j;

	judge_open(&j, pattern, strlen(pattern));
	const int said = judge_ask(&j, text, n);
	judge_release(&j);
	return said != 0;
}

static inline size_t n_characters(const char *s, size_t n)
{
	size_t count = 0;
	for (size_t i = 0; i < n; i++)
		count += ((unsigned char)s[i] & 0xc0) != 0x80;
	return count;
}

static inline bool is_date(const char *s)
{
	static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	int y, m, d, n = 0;
	if (sscanf(s, "%4d-%2d-%2d%n", &y, &m, &d, &n) != 3 || n != 10 || m < 1 || m > 12 || d < 1)
		return false;
	const bool leap = (y % 4 == 0 && y % 100 != 0) || y % 400 == 0;
	return d <= days[m - 1] + (m == 2 && leap);
}

static inline bool is_time(const char *s)
{
	int h, m, x;
	if (!matches("^\\d\\d:\\d\\d:\\d\\d(\\.\\d+)?(Z|[-+]\\d\\d:\\d\\d)$", s, strlen(s)))
		return false;
	sscanf(s, "%d:%d:%d", &h, &m, &x);
	if (h > 23 || m > 59 || x > 59)
		return false;
	const char *zone = strpbrk(s, "+-Z");
	return *zone == 'Z' || (sscanf(zone + 1, "%d:%d", &h, &m) == 2 && h < 24 && m < 60);
}

static inline bool has_format(const char *f, const char *s)
{
	if (!strcmp(f, "date"))
		return strlen(s) == 10 && is_date(s);
	if (!strcmp(f, "time"))
		return is_time(s);
	if (!strcmp(f, "date-time"))
		return strlen(s) > 11 && s[10] == 'T' && is_date(s) && is_time(s + 11);
	if (!strcmp(f, "uuid"))
		return matches("^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$", s, strlen(s));
	if (!strcmp(f, "ipv4"))
		return matches("^((25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)(\\.|$)){4}$", s, strlen(s));
	return true;
}

static inline bool valid_object(const json_t *doc, const json_t *s, const json_t *v)
{
	const json_t *props = json_object_get(s, "properties"), *more = json_object_get(s, "additionalProperties");
	const char *key;
	json_t *x;
	size_t i;

	json_object_foreach((json_t *)(uintptr_t)v, key, x) {
		const json_t *p = json_object_get(props, key);
		if (p ? !valid(doc, p, x) : more && !valid(doc, more, x))
			return false;
	}
	json_array_foreach(json_object_get(s, "required"), i, x)
		if (!json_object_get(v, json_string_value(x)))
			return false;
	return true;
}

static inline bool valid_array(const json_t *doc, const json_t *s, const json_t *v)
{
	const json_t *prefix = json_object_get(s, "prefixItems"), *items = json_object_get(s, "items");
	const json_t *min = json_object_get(s, "minItems"), *max = json_object_get(s, "maxItems");
	json_t *x;
	size_t i;

	json_array_foreach(v, i, x) {
		const json_t *p = json_array_get(prefix, i);
		if (p ? !valid(doc, p, x) : items && !valid(doc, items, x))
			return false;
	}
	return !(min && (double)json_array_size(v) < json_number_value(min)) &&
			!(max && (double)json_array_size(v) > json_number_value(max));
}

/* Below 0: a is less. Integers are compared as such. */
static inline int compare(const json_t *a, const json_t *b)
{
	const double x = json_number_value(a), y = json_number_value(b);

	if (json_is_integer(a) && json_is_integer(b))
		return (json_integer_value(a) > json_integer_value(b)) -
				(json_integer_value(a) < json_integer_value(b));
	return (x > y) - (x < y);
}

static inline bool valid_number(const json_t *s, const json_t *v)
{
	const json_t *b;

	return !((b = json_object_get(s, "minimum")) && compare(v, b) < 0) &&
			!((b = json_object_get(s, "maximum")) && compare(v, b) > 0) &&
			!((b = json_object_get(s, "exclusiveMinimum")) && compare(v, b) <= 0) &&
			!((b = json_object_get(s, "exclusiveMaximum")) && compare(v, b) >= 0);
}

static inline bool valid_string(const json_t *s, const json_t *v)
{
	const char *t = json_string_value(v);
	const size_t n = n_characters(t, json_string_length(v));
	const json_t *b;
	return !((b = json_object_get(s, "minLength")) && (double)n < json_number_value(b)) &&
			!((b = json_object_get(s, "maxLength")) && (double)n > json_number_value(b)) &&
			!((b = json_object_get(s, "pattern")) &&
					!matches(json_string_value(b), t, json_string_length(v))) &&
			!((b = json_object_get(s, "format")) && !has_format(json_string_value(b), t));
}

static inline bool valid_each(const json_t *doc, const json_t *s, const json_t *v)
{
	const json_t *k, *x;
	size_t i, n = 0;

	if ((k = json_object_get(s, "$ref")) && !valid(doc, at_pointer(doc, json_string_value(k)), v))
		return false;
	if ((k = json_object_get(s, "type"))) {
		bool any = json_is_string(k) && is_type(json_string_value(k), v);
		json_array_foreach(k, i, x)
			any |= is_type(json_string_value(x), v);
		if (!any)
			return false;
	}
	if ((k = json_object_get(s, "const")) && !json_equal(k, v))
		return false;
	if ((k = json_object_get(s, "enum"))) {
		bool any = false;
		json_array_foreach(k, i, x)
			any |= json_equal(x, v);
		if (!any)
			return false;
	}
	json_array_foreach(json_object_get(s, "allOf"), i, x)
		if (!valid(doc, x, v))
			return false;
	if ((k = json_object_get(s, "anyOf"))) {
		json_array_foreach(k, i, x)
			n += valid(doc, x, v);
		if (n == 0)
			return false;
	}
	if ((k = json_object_get(s, "oneOf"))) {
		n = 0;
		json_array_foreach(k, i, x)
			n += valid(doc, x, v);
		if (n != 1)
			return false;
	}
	return (!json_is_object(v) || valid_object(doc, s, v)) && (!json_is_array(v) || valid_array(doc, s, v)) &&
			(!json_is_number(v) || valid_number(s, v)) && (!json_is_string(v) || valid_string(s, v));
}

/* A schema may refer to itself, for the same value, in an alternative that nothing satisfies: what holds only if it
 * holds does not. And it may refer to others many times, at each level of a value: what was found out is kept, but not
 * what depends on such a circle that began further out. */
static inline bool valid(const json_t *doc, const json_t *s, const json_t *v)
{
	struct under_way {
		const json_t *s, *v;
		const struct under_way *before;
		size_t depth;
	};
	enum { N_KNOWN = 4096 };
	static struct {
		const json_t *s, *v;
		bool said;
	} known[N_KNOWN];
	static const struct under_way *all;
	static size_t outermost; /* of those under way that were asked for again */
	const size_t at = (((uintptr_t)s >> 4) * 31 + ((uintptr_t)v >> 4)) % N_KNOWN, depth = all ? all->depth + 1 : 0;
	const struct under_way this = {s, v, all, depth};

	if (json_is_boolean(s))
		return json_is_true(s);
	if (!all)
		memset(known, 0, sizeof known);
	if (known[at].s == s && known[at].v == v)
		return known[at].said;
	for (const struct under_way *u = all; u; u = u->before)
		if (u->s == s && u->v == v) {
			outermost = u->depth < outermost ? u->depth : outermost;
			return false;
		}
	const size_t outermost_before = all ? outermost : SIZE_MAX;
	outermost = SIZE_MAX;
	all = &this;
	const bool said = valid_each(doc, s, v);
	all = this.before;
	if (outermost >= depth) {
		known[at].s = s;
		known[at].v = v;
		known[at].said = said;
		outermost = outermost_before;
	} else if (outermost_before < outermost) {
		outermost = outermost_before;
	}
	return said;
}

#endif
