/* JSON schema to GBNF: a rule for every schema, references among them as references among rules.
 *
 * Invariants
 *  1. Sound: every document that the grammar matches is valid. What cannot be promised is refused, by name; of the
 *     valid documents some are left out (properties come in the schema's order, objects without additionalProperties
 *     have no others, white space is one blank at most, numbers have at most 16 digits).
 *  2. A schema is looked at once for each way it is combined with others; depth, number and text are bounded. */
#include "sample/schema.h"

#include "base/json.h"
#include "base/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 100, RULES_MAX = 20000, NAME_BYTES = 80, COUNT_MAX = 100000, SCHEMA_BYTES_MAX = 1 << 20 };

struct known {
	const json_t *schema;
	char name[NAME_BYTES];
};

struct gen {
	struct schema_doc d;
	struct text out; /* finished rules */
	struct known *known; /* rules by schema; each holds a reference */
	size_t n_known, n_known_max;
	int n_rules, depth;
};

/* Writes the rule of a schema, and its name to `name`. */
static bool visit(struct gen *g, json_t *schema, const char *hint, char name[NAME_BYTES]);

/* A value as JSON, allocated by mem_alloc; NULL when out of memory. */
static char *dump(const json_t *v, size_t *n)
{
	*n = json_dumpb(v, NULL, 0, JSON_ENCODE_ANY | JSON_COMPACT);
	char *s = *n > 0 ? mem_alloc(*n + 1, 1) : NULL;
	/* It needs memory itself, both times; no value is written as nothing. */
	if (s && json_dumpb(v, s, *n, JSON_ENCODE_ANY | JSON_COMPACT) != *n) {
		mem_free(s);
		s = NULL;
	}
	return s;
}

/* ---- Names and rules ---- */

/* Letters, digits and dashes of the hint, and a number. */
static void make_name(struct gen *g, const char *hint, char name[NAME_BYTES])
{
	char word[NAME_BYTES / 2];
	size_t n = 0;
	for (; *hint && n + 1 < sizeof word; hint++)
		word[n++] = (*hint >= 'a' && *hint <= 'z') || (*hint >= 'A' && *hint <= 'Z') ||
						(*hint >= '0' && *hint <= '9')
				? *hint
				: '-';
	word[n] = 0;
	snprintf(name, NAME_BYTES, "%s-%d", word, g->n_rules++);
}

/* Says why a text could not be written; returns false. */
static bool text_failed(struct gen *g, const struct text *t)
{
	if (t->too_large && !g->d.st)
		g->d.st = err_set(g->d.err, COHORT_E_LIMIT, "the schema's grammar is too large");
	return schema_no_memory(&g->d);
}

static bool add_rule(struct gen *g, const char *name, const struct text *body)
{
	if (body->b.failed)
		return text_failed(g, body);
	text_add(&g->out, "%s ::= ", name);
	text_bytes(&g->out, body->b.p, body->b.n);
	text_add(&g->out, "\n");
	return !g->out.b.failed || text_failed(g, &g->out);
}

static bool remember(struct gen *g, json_t *schema, const char *name)
{
	if (!mem_grow((void **)&g->known, &g->n_known_max, g->n_known + 1, sizeof *g->known))
		return false;
	g->known[g->n_known].schema = json_incref(schema);
	snprintf(g->known[g->n_known++].name, NAME_BYTES, "%s", name);
	return true;
}

/* ---- Looking at schemas ---- */

/* A whole number >= 0, or fallback when absent; -1 after a refusal. */
static int64_t count_of(struct gen *g, const json_t *schema, const char *key, int64_t fallback)
{
	const json_t *v = json_object_get(schema, key);
	const double d = json_number_value(v);
	if (!v)
		return fallback;
	if (!json_is_number(v) || d < 0 || d != floor(d)) {
		schema_refuse(&g->d, COHORT_E_FORMAT, "expected a whole number for", key);
		return -1;
	}
	if (d > COUNT_MAX && strncmp(key, "min", 3) == 0) {
		schema_refuse(&g->d, COHORT_E_LIMIT, "more than 100,000 for", key);
		return -1;
	}
	return d > COUNT_MAX ? COUNT_MAX : (int64_t)d;
}

/* ---- Alternatives ---- */

static bool visit_any(struct gen *g, json_t *schema, const char *key, struct text *t, const char *hint)
{
	static const char overlap[] = "alternatives that may hold at the same time (anyOf would do):";
	json_t *list = json_object_get(schema, key), *alt, *other;
	size_t i, k;
	bool first = true;

	if (!json_is_array(list) || json_array_size(list) == 0)
		return schema_refuse(&g->d, COHORT_E_FORMAT, "expected a list of schemas for", key);
	if (strcmp(key, "oneOf") == 0)
		json_array_foreach(list, i, alt)
			json_array_foreach(list, k, other)
				if (k > i && !schema_disjoint(&g->d, alt, other, 32))
					return schema_refuse(&g->d, COHORT_E_UNSUPPORTED, overlap, key);
	json_t *rest = schema_without(schema, key);
	const bool more = schema_says_something(rest);
	bool ok = true;
	if (!rest)
		return schema_no_memory(&g->d);
	json_array_foreach(list, i, alt) {
		char name[NAME_BYTES];
		json_t *resolved = alt;
		if (more && json_is_object(alt) && json_object_size(alt) == 1 && json_object_get(alt, "$ref") &&
				!(resolved = schema_resolve(&g->d, json_object_get(alt, "$ref")))) {
			ok = false;
			break;
		}
		json_t *both = more ? schema_merge(&g->d, rest, resolved) : json_incref(alt);
		if (json_is_false(both)) { /* this one cannot hold */
			json_decref(both);
			continue;
		}
		ok = both && visit(g, both, hint, name);
		json_decref(both);
		if (!ok)
			break;
		text_add(t, "%s%s", first ? "" : " | ", name);
		first = false;
	}
	json_decref(rest);
	return ok && (!first || schema_refuse(&g->d, COHORT_E_FORMAT, "nothing is valid under", key));
}

static bool visit_all(struct gen *g, json_t *schema, struct text *t, const char *hint)
{
	json_t *list = json_object_get(schema, "allOf"), *each;
	json_t *both = schema_without(schema, "allOf");
	char name[NAME_BYTES];
	size_t i;

	if (!json_is_array(list)) {
		json_decref(both);
		return schema_refuse(&g->d, COHORT_E_FORMAT, "expected a list of schemas for", "allOf");
	}
	if (!both)
		return schema_no_memory(&g->d);
	json_array_foreach(list, i, each) {
		json_t *x = each;
		for (int n = 0; json_is_object(x) && json_object_size(x) == 1 && json_object_get(x, "$ref") && n < 32;
				n++)
			if (!(x = schema_resolve(&g->d, json_object_get(x, "$ref"))))
				break;
		json_t *next = x ? schema_merge(&g->d, both, x) : NULL;
		json_decref(both);
		both = next;
		if (!both)
			return false;
	}
	const bool ok = visit(g, both, hint, name);
	json_decref(both);
	if (ok)
		text_add(t, "%s", name);
	return ok;
}

/* ---- Values ---- */

static bool has_type(const json_t *v, const json_t *schema)
{
	switch (json_typeof(v)) {
	case JSON_OBJECT: return schema_may_be(schema, "object");
	case JSON_ARRAY: return schema_may_be(schema, "array");
	case JSON_STRING: return schema_may_be(schema, "string");
	case JSON_INTEGER: return schema_may_be(schema, "integer");
	case JSON_REAL: return schema_may_be(schema, "number");
	case JSON_NULL: return schema_may_be(schema, "null");
	default: return schema_may_be(schema, "boolean");
	}
}

static bool visit_values(struct gen *g, json_t *schema, struct text *t)
{
	json_t *list = schema_values(&g->d, schema), *e = json_object_get(schema, "enum"), *v;
	const char *key;
	size_t i;
	bool first = true;

	if (e && !json_is_array(e)) {
		json_decref(list);
		return schema_refuse(&g->d, COHORT_E_FORMAT, "expected a list for", "enum");
	}
	if (!list)
		return false;
	if (json_object_get(schema, "const") && json_is_array(e)) {
		json_t *both = schema_both(&g->d, list, e, false);
		json_decref(list);
		if (!both)
			return false;
		list = both;
	}
	json_object_foreach(schema, key, v)
		if (schema_is_meaningful(key) && strcmp(key, "type") != 0 && strcmp(key, "enum") != 0 &&
				strcmp(key, "const") != 0) {
			json_decref(list);
			return schema_refuse(&g->d, COHORT_E_UNSUPPORTED, "beside enum or const:", key);
		}
	json_array_foreach(list, i, v) {
		if (!has_type(v, schema))
			continue;
		size_t n;
		char *s = dump(v, &n);
		if (!s) {
			json_decref(list);
			return schema_no_memory(&g->d);
		}
		if (!first)
			text_add(t, " | ");
		text_literal(t, s, n);
		first = false;
		mem_free(s);
	}
	json_decref(list);
	return !first || schema_refuse(&g->d, COHORT_E_FORMAT, "no value is left of", "enum");
}

static bool visit_string(struct gen *g, json_t *schema, struct text *t)
{
	const json_t *pattern = json_object_get(schema, "pattern"), *format = json_object_get(schema, "format");
	const int64_t min = count_of(g, schema, "minLength", 0), max = count_of(g, schema, "maxLength", INT64_MAX);
	const char *known = json_is_string(format) ? schema_format(json_string_value(format)) : NULL;

	if (min < 0 || max < 0)
		return false;
	if (max < min)
		return schema_refuse(&g->d, COHORT_E_FORMAT, "nothing is so short and so long:", "maxLength");
	const bool sized = min > 0 || max < INT64_MAX;
	if ((pattern && (known || sized)) || (known && sized))
		return schema_refuse(&g->d, COHORT_E_UNSUPPORTED,
				"together with another rule for the same string:", pattern ? "pattern" : "format");
	text_add(t, "\"\\\"\" ");
	if (pattern) {
		if (!json_is_string(pattern))
			return schema_refuse(&g->d, COHORT_E_FORMAT, "expected a string for", "pattern");
		g->d.st = schema_pattern(t, json_string_value(pattern), json_string_length(pattern), g->d.err);
		if (g->d.st)
			return false;
	} else if (known) {
		text_add(t, "%s", known);
	} else if (max == INT64_MAX) {
		text_add(t, "char{%d,}", (int)min);
	} else {
		text_add(t, "char{%d,%d}", (int)min, (int)max);
	}
	text_add(t, " \"\\\"\"");
	return true;
}

/* The smallest or largest integer that a bound allows; *there tells whether it was given. */
static bool bound(struct gen *g, const json_t *schema, const char *key, bool lower, bool exclusive, int64_t *out,
		bool *there)
{
	const json_t *v = json_object_get(schema, key);
	double d;

	if (!v || json_is_boolean(v)) /* draft 4's exclusive bounds are refused below */
		return !v || schema_refuse(&g->d, COHORT_E_UNSUPPORTED, "expected a number for", key);
	if (!json_is_number(v))
		return schema_refuse(&g->d, COHORT_E_FORMAT, "expected a number for", key);
	if (json_is_integer(v)) {
		int64_t i = json_integer_value(v);
		if (exclusive && i == (lower ? INT64_MAX : INT64_MIN))
			return schema_refuse(&g->d, COHORT_E_LIMIT, "too large for", key);
		i += exclusive ? (lower ? 1 : -1) : 0;
		*out = !*there || (i > *out) == lower ? i : *out;
		*there = true;
		return true;
	}
	d = lower ? ceil(json_real_value(v)) : floor(json_real_value(v));
	if (exclusive && d == json_real_value(v))
		d += lower ? 1 : -1;
	if (fabs(d) > 9e15)
		return schema_refuse(&g->d, COHORT_E_LIMIT, "too large for", key);
	*out = !*there || ((int64_t)d > *out) == lower ? (int64_t)d : *out;
	*there = true;
	return true;
}

static const int64_t most = 9999999999999999; /* 16 digits */

static bool visit_integer(struct gen *g, json_t *schema, struct text *t)
{
	int64_t lo = 0, hi = 0;
	bool has_lo = false, has_hi = false;

	if (!bound(g, schema, "minimum", true, false, &lo, &has_lo) ||
			!bound(g, schema, "exclusiveMinimum", true, true, &lo, &has_lo) ||
			!bound(g, schema, "maximum", false, false, &hi, &has_hi) ||
			!bound(g, schema, "exclusiveMaximum", false, true, &hi, &has_hi))
		return false;
	if (!has_lo && !has_hi) {
		text_add(t, "integer");
		return true;
	}
	if (!has_lo)
		lo = hi < -most ? hi : -most;
	if (!has_hi)
		hi = lo > most ? lo : most;
	if (lo > hi)
		return schema_refuse(&g->d, COHORT_E_FORMAT, "nothing lies between the bounds of", "integer");
	schema_integers(t, lo, hi);
	return true;
}

static bool visit_number(struct gen *g, json_t *schema, struct text *t)
{
	static const char *const keys[] = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"};
	const json_t *low = json_object_get(schema, "minimum");
	const bool positive = json_is_number(low) && json_number_value(low) == 0;

	for (size_t i = positive; i < 4; i++)
		if (json_object_get(schema, keys[i]))
			return schema_refuse(&g->d, COHORT_E_UNSUPPORTED,
					"known for integers only (and minimum 0):", keys[i]);
	text_add(t, positive ? "(\"0\" | [1-9] [0-9]{0,15}) fraction" : "number");
	return true;
}

/* ---- Arrays ---- */

static bool visit_array(struct gen *g, json_t *schema, struct text *t, const char *hint)
{
	json_t *items = json_object_get(schema, "items"), *prefix = json_object_get(schema, "prefixItems"), *v;
	int64_t min = count_of(g, schema, "minItems", 0), max = count_of(g, schema, "maxItems", INT64_MAX);
	char name[NAME_BYTES] = "value";
	size_t i;

	if (min < 0 || max < 0)
		return false;
	if (prefix && !json_is_array(prefix))
		return schema_refuse(&g->d, COHORT_E_FORMAT, "expected a list of schemas for", "prefixItems");
	if (json_is_array(items)) { /* as it was before 2020 */
		prefix = items;
		items = json_object_get(schema, "additionalItems");
	}
	const int64_t n_first = (int64_t)json_array_size(prefix);
	const bool none = json_is_false(items);
	if (none)
		max = max < n_first ? max : n_first;
	if (max < min)
		return schema_refuse(&g->d, COHORT_E_FORMAT, "nothing has so few and so many items:", "maxItems");
	if (max < n_first)
		return schema_refuse(&g->d, COHORT_E_UNSUPPORTED, "less than the prefixItems:", "maxItems");
	if (items && !none && !visit(g, items, hint, name))
		return false;
	text_add(t, "\"[\" space ");
	json_array_foreach(prefix, i, v) {
		char each[NAME_BYTES];
		if (!visit(g, v, hint, each))
			return false;
		text_add(t, "%s%s ", i ? "space \",\" space " : "", each);
	}
	const int64_t at_least = min > n_first ? min - n_first : 0, at_most = max == INT64_MAX ? -1 : max - n_first;
	if (at_most != 0 && n_first > 0) {
		text_add(t, "(space \",\" space %s){%d,", name, (int)at_least);
		if (at_most > 0)
			text_add(t, "%d", (int)at_most);
		text_add(t, "} ");
	} else if (at_most != 0) {
		text_add(t, "%s%s (space \",\" space %s){%d,", at_least ? "" : "(", name, name,
				(int)(at_least ? at_least - 1 : 0));
		if (at_most > 0)
			text_add(t, "%d", (int)at_most - 1);
		text_add(t, "}%s ", at_least ? "" : " space)?");
	}
	/* A blank before the end follows an item: nothing has no blanks on both of its sides. */
	text_add(t, "%s\"]\"", at_least + n_first > 0 ? "space " : "");
	return true;
}

/* ---- Objects ---- */

struct property {
	char key[NAME_BYTES]; /* the rule of the pair */
	bool required;
};

/* A character for a class. */
static void class_char(struct text *t, uint32_t c)
{
	text_add(t, "\\U%08x", (unsigned)c);
}

/* The rest of a key, none of the names (sorted, all of which begin with the same n bytes) and without escapes: for
 * every byte that goes on with one of them what may follow; any other ends the danger. Names are ASCII, or this was
 * refused. */
static void other_key(struct text *t, const char *const *names, size_t n_names, size_t n)
{
	bool taken = false;
	size_t i = 0;

	text_add(t, "(");
	while (i < n_names && names[i][n] == 0) {
		taken = true;
		i++;
	}
	const size_t from = i;
	while (i < n_names) {
		size_t k = i;
		while (k < n_names && names[k][n] == names[i][n])
			k++;
		text_add(t, "[");
		class_char(t, (unsigned char)names[i][n]);
		text_add(t, "] ");
		other_key(t, names + i, k - i, n + 1);
		text_add(t, " | ");
		i = k;
	}
	text_add(t, "[^\"\\\\\\x7f\\x00-\\x1f");
	for (i = from; i < n_names; i++)
		class_char(t, (unsigned char)names[i][n]);
	text_add(t, "] plain*)%s", taken ? "" : "?");
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The pair of a property that has no schema of its own. */
static bool additional_pair(struct gen *g, json_t *props, json_t *more, const char *hint, char name[NAME_BYTES])
{
	const size_t n = json_object_size(props);
	const char **names = mem_alloc(n, sizeof *names), *key;
	struct text t = {0};
	char value[NAME_BYTES] = "value";
	size_t i = 0;
	json_t *v;
	bool ok = names != NULL;

	json_object_foreach(props, key, v) {
		for (const char *c = key; *c && ok; c++)
			if ((unsigned char)*c >= 0x7f || (unsigned char)*c < 0x20 || strchr("\"\\", *c) ||
					strlen(key) > 64)
				ok = schema_refuse(&g->d, COHORT_E_UNSUPPORTED,
						"beside additionalProperties, a name that is long, not ASCII or has "
						"quotes:",
						key);
		if (ok)
			names[i++] = key;
	}
	ok = ok && (!json_is_object(more) || visit(g, more, hint, value));
	if (ok) {
		qsort(names, n, sizeof *names, by_text);
		make_name(g, hint, name);
		text_add(&t, "\"\\\"\" ");
		other_key(&t, names, n, 0);
		text_add(&t, " \"\\\"\" space \":\" space %s", value);
		ok = add_rule(g, name, &t);
	}
	mem_free(names);
	bytes_release(&t.b);
	return ok;
}

/* A rule `"key" : value`. */
static bool pair_rule(struct gen *g, const char *key, json_t *schema, char name[NAME_BYTES])
{
	char value[NAME_BYTES];
	struct text t = {0};
	json_t *k = json_string(key);
	size_t n = 0;
	char *s = k ? dump(k, &n) : NULL;

	json_decref(k);
	bool ok = s != NULL && visit(g, schema, key, value);
	if (ok) {
		make_name(g, key, name);
		text_literal(&t, s, n);
		text_add(&t, " space \":\" space %s", value);
		ok = add_rule(g, name, &t);
	}
	mem_free(s);
	bytes_release(&t.b);
	return ok;
}

/* The names of the list as the keys of an object, or NULL: a list may be long. */
static json_t *names_of(const json_t *list)
{
	json_t *out = json_object(), *v;
	size_t i;
	json_array_foreach(list, i, v)
		if (json_is_string(v) && json_object_set(out, json_string_value(v), v)) {
			json_decref(out);
			return NULL;
		}
	return out;
}

/* What follows property i and later ones: `some` when one came before, so that a comma is due. Rules end in calls of
 * the next, so that they do not pile up. The last has the blank before the end, which follows a property. */
static bool tail_rules(struct gen *g, const struct property *p, size_t n, const char *more, const char *base)
{
	for (size_t i = n + 1; i-- > 0;)
		for (int some = 0; some < 2; some++) {
			struct text t = {0};
			char name[NAME_BYTES];
			const char *comma = some ? "space \",\" space " : "";
			snprintf(name, sizeof name, "%.60s_%s%zu", base, some ? "and_" : "", i);
			if (i == n && *more)
				text_add(&t,
						some ? "(space \",\" space %s)* space"
						     : "(%s (space \",\" space %s)* space)?",
						more, more);
			else if (i < n)
				text_add(&t, "%s%s %.60s_and_%zu", comma, p[i].key, base, i + 1);
			if (i < n && !p[i].required)
				text_add(&t, " | %.60s_%s%zu", base, some ? "and_" : "", i + 1);
			if (i == n && !*more)
				text_add(&t, some ? "space" : "\"\"");
			const bool ok = add_rule(g, name, &t);
			bytes_release(&t.b);
			if (!ok)
				return false;
		}
	return true;
}

static bool visit_object(struct gen *g, json_t *schema, struct text *t, const char *hint)
{
	json_t *props = json_object_get(schema, "properties"), *required = json_object_get(schema, "required"), *v;
	json_t *additional = json_object_get(schema, "additionalProperties");
	char more[NAME_BYTES] = "", base[NAME_BYTES];
	const char *key;
	size_t n = 0, i;

	if ((props && !json_is_object(props)) || (required && !json_is_array(required)))
		return schema_refuse(&g->d, COHORT_E_FORMAT,
				"not as it should be:", props && !json_is_object(props) ? "properties" : "required");
	if (!props && !required && (!additional || json_is_true(additional))) {
		text_add(t, "object");
		return true;
	}
	const bool open = json_is_true(additional) || json_is_object(additional);
	struct property *p = mem_zalloc(json_object_size(props) + json_array_size(required), sizeof *p);
	/* Every name that is spoken of, and those that must be there. */
	json_t *all = json_object(), *needed = names_of(required);
	bool ok = p && all && needed;

	json_object_foreach(props, key, v) {
		ok = ok && !json_object_set(all, key, v);
		if (!ok)
			break;
		p[n].required = json_object_get(needed, key) != NULL;
		if (!json_is_false(v) || p[n].required)
			ok = pair_rule(g, key, v, p[n++].key);
	}
	/* Required without a schema: any value, if others are allowed. */
	json_array_foreach(required, i, v) {
		key = json_string_value(v);
		if (!ok || (key && json_object_get(all, key)))
			continue;
		if (!key || !open) {
			ok = schema_refuse(&g->d, COHORT_E_FORMAT,
					key ? "required but neither in properties nor additional:"
					    : "expected names in",
					key ? key : "required");
			break;
		}
		json_t *any = json_is_object(additional) ? json_incref(additional) : json_true();
		p[n].required = true;
		ok = !json_object_set(all, key, any) && pair_rule(g, key, any, p[n++].key);
		json_decref(any);
	}
	if (ok && open)
		ok = additional_pair(g, all, additional, hint, more);
	if (ok) {
		make_name(g, hint, base);
		ok = tail_rules(g, p, n, more, base);
		text_add(t, "\"{\" space %.60s_0 \"}\"", base);
	}
	json_decref(all);
	json_decref(needed);
	mem_free(p);
	return ok;
}

/* ---- Any schema ---- */

/* What a schema without a type seems to be about. Leaving out the other types is sound. */
static const char *guess(const json_t *s)
{
	if (json_object_get(s, "properties") || json_object_get(s, "required") ||
			json_object_get(s, "additionalProperties"))
		return "object";
	if (json_object_get(s, "items") || json_object_get(s, "prefixItems") || json_object_get(s, "minItems") ||
			json_object_get(s, "maxItems"))
		return "array";
	if (json_object_get(s, "pattern") || json_object_get(s, "format") || json_object_get(s, "minLength") ||
			json_object_get(s, "maxLength"))
		return "string";
	if (json_object_get(s, "minimum") || json_object_get(s, "maximum") || json_object_get(s, "exclusiveMinimum") ||
			json_object_get(s, "exclusiveMaximum"))
		return "integer";
	return NULL;
}

static bool visit_type(struct gen *g, json_t *schema, const char *type, struct text *t, const char *hint)
{
	if (strcmp(type, "object") == 0)
		return visit_object(g, schema, t, hint);
	if (strcmp(type, "array") == 0)
		return visit_array(g, schema, t, hint);
	if (strcmp(type, "string") == 0)
		return visit_string(g, schema, t);
	if (strcmp(type, "integer") == 0)
		return visit_integer(g, schema, t);
	if (strcmp(type, "number") == 0)
		return visit_number(g, schema, t);
	if (strcmp(type, "boolean") != 0 && strcmp(type, "null") != 0)
		return schema_refuse(&g->d, COHORT_E_FORMAT, "no such type:", type);
	text_add(t, "%s", type);
	return true;
}

static bool visit_types(struct gen *g, json_t *schema, struct text *t, const char *hint)
{
	json_t *type = json_object_get(schema, "type"), *v;
	const char *guessed = guess(schema);
	size_t i;

	if (!type) {
		if (guessed)
			return visit_type(g, schema, guessed, t, hint);
		text_add(t, "value");
		return true;
	}
	if (json_is_string(type))
		return visit_type(g, schema, json_string_value(type), t, hint);
	if (!json_is_array(type) || json_array_size(type) == 0)
		return schema_refuse(&g->d, COHORT_E_FORMAT,
				json_is_array(type) ? "nothing is of no" : "expected a name or a list for", "type");
	json_array_foreach(type, i, v) {
		if (!json_is_string(v))
			return schema_refuse(&g->d, COHORT_E_FORMAT, "expected names in", "type");
		text_add(t, i ? " | (" : "(");
		if (!visit_type(g, schema, json_string_value(v), t, hint))
			return false;
		text_add(t, ")");
	}
	return true;
}

static bool visit_ref(struct gen *g, json_t *schema, struct text *t, const char *hint)
{
	json_t *target = schema_resolve(&g->d, json_object_get(schema, "$ref")), *rest = schema_without(schema, "$ref");
	char name[NAME_BYTES];
	json_t *both = !target || !rest               ? NULL
			: schema_says_something(rest) ? schema_merge(&g->d, target, rest)
						      : json_incref(target);

	json_decref(rest);
	const bool ok = both && visit(g, both, hint, name);
	json_decref(both);
	if (ok)
		text_add(t, "%s", name);
	return ok;
}

static bool visit_body(struct gen *g, json_t *schema, struct text *t, const char *hint)
{
	if (json_is_true(schema)) {
		text_add(t, "value");
		return true;
	}
	if (json_is_false(schema)) {
		text_add(t, "[]"); /* nothing */
		return true;
	}
	if (!json_is_object(schema))
		return schema_refuse(
				&g->d, COHORT_E_FORMAT, "expected an object, true or false as the schema of", hint);
	if (!schema_check_keys(&g->d, schema))
		return false;
	if (json_object_get(schema, "$ref"))
		return visit_ref(g, schema, t, hint);
	if (json_object_get(schema, "allOf"))
		return visit_all(g, schema, t, hint);
	if (json_object_get(schema, "anyOf"))
		return visit_any(g, schema, "anyOf", t, hint);
	if (json_object_get(schema, "oneOf"))
		return visit_any(g, schema, "oneOf", t, hint);
	if (json_object_get(schema, "const") || json_object_get(schema, "enum"))
		return visit_values(g, schema, t);
	return visit_types(g, schema, t, hint);
}

static bool visit(struct gen *g, json_t *schema, const char *hint, char name[NAME_BYTES])
{
	struct text t = {0};

	for (size_t i = 0; i < g->n_known; i++)
		if (g->known[i].schema == schema) {
			memcpy(name, g->known[i].name, NAME_BYTES);
			return true;
		}
	if (g->depth >= DEPTH_MAX || g->n_rules >= RULES_MAX)
		return schema_refuse(&g->d, COHORT_E_LIMIT,
				g->depth >= DEPTH_MAX ? "nested too deep at" : "too large at", hint);
	make_name(g, hint, name);
	g->depth++;
	const bool ok = remember(g, schema, name) && visit_body(g, schema, &t, hint) && add_rule(g, name, &t);
	g->depth--;
	bytes_release(&t.b);
	return ok;
}

static enum cohort_status generate(struct gen *g, const char *schema, size_t n_bytes)
{
	json_error_t e;
	char name[NAME_BYTES];
	bool no_memory;

	if (n_bytes > SCHEMA_BYTES_MAX)
		return err_set(g->d.err, COHORT_E_LIMIT, "a schema of %zu bytes; at most %d", n_bytes,
				SCHEMA_BYTES_MAX);
	json_t *doc = json_parse(schema, n_bytes, JSON_DECODE_ANY, &e, &no_memory);

	if (no_memory)
		return err_set(g->d.err, COHORT_E_MEMORY, "out of memory for the schema");
	if (!doc)
		return err_at(g->d.err, COHORT_E_FORMAT, e.position < 0 ? 0 : (uint64_t)e.position,
				"schema, line %d: %s", e.line, e.text);
	g->d.doc = doc;
	text_add(&g->out, "%s", "");
	if (visit(g, doc, "root", name)) {
		text_add(&g->out, "root ::= %s\n", name);
		text_bytes(&g->out, schema_common, strlen(schema_common));
	} else {
		schema_no_memory(&g->d); /* whatever else stops it has said so */
	}
	if (g->out.b.failed)
		text_failed(g, &g->out);
	for (size_t i = 0; i < g->n_known; i++)
		json_decref((json_t *)(uintptr_t)g->known[i].schema);
	mem_free(g->known);
	json_decref(doc);
	return g->d.st;
}

enum cohort_status cohort_schema_to_gbnf(
		const char *schema, size_t n_bytes, char *out, size_t n_max, size_t *n_out, struct cohort_err *err)
{
	struct gen g = {.d = {.err = err}};

	if (!schema || !n_out || (!out && n_max))
		return err_set(err, COHORT_E_ARG, "%s is NULL", !schema ? "schema" : !n_out ? "n_out" : "out");
	enum cohort_status st = generate(&g, schema, n_bytes);
	if (!st) {
		*n_out = g.out.b.n;
		if (g.out.b.n > n_max)
			st = err_set(err, COHORT_E_LIMIT, "the grammar takes %zu bytes, there is room for %zu",
					g.out.b.n, n_max);
		else
			memcpy(out, g.out.b.p, g.out.b.n);
	}
	bytes_release(&g.out.b);
	return st;
}

enum cohort_status cohort_grammar_open_schema(const struct cohort_lexicon *lexicon, const char *schema, size_t n_bytes,
		struct cohort_grammar **out, struct cohort_err *err)
{
	struct gen g = {.d = {.err = err}};

	if (!lexicon || !schema || !out)
		return err_set(err, COHORT_E_ARG, "%s is NULL", !lexicon ? "lexicon" : !schema ? "schema" : "out");
	enum cohort_status st = generate(&g, schema, n_bytes);
	if (!st)
		st = cohort_grammar_open(lexicon, g.out.b.p, g.out.b.n, "root", out, err);
	bytes_release(&g.out.b);
	return st;
}
