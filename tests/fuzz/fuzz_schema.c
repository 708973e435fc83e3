/* Any bytes as a JSON schema, or, behind a !, as the choices that make one: refused with a reason, or a grammar that
 * opens, and whose texts are JSON that the schema describes; and any bytes as a pattern in one.
 *
 * Seen red with a comma where no property came before, and with a range of integers that takes one more. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz_bytes.h"
#include "schema_valid.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { TEXT_MAX = 200 };

static void check(bool ok, const char *what)
{
	if (!ok) {
		fprintf(stderr, "fuzz_schema: %s\n", what);
		abort();
	}
}

static struct cohort_lexicon *lexicon;

/* What comes out is JSON that the schema describes. */
static void try_texts(struct cohort_grammar *g, const json_t *schema, const uint8_t *data, size_t n)
{
	char text[TEXT_MAX];
	struct dice d;
	size_t n_text;
	bool whole;

	dice_bytes(&d, data, n);
	for (int i = 0; i < 2; i++) {
		check(bytes_walk(g, &d, text, TEXT_MAX, &n_text, &whole), "a permitted byte is not accepted");
		json_t *v = whole ? json_loadb(text, n_text, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL) : NULL;
		check(v || !whole, "what comes out is no JSON");
		if (v && !valid(schema, schema, v)) {
			char *said = json_dumps(schema, JSON_ENCODE_ANY);
			fprintf(stderr, "fuzz_schema: %s: %.*s\n", said, (int)n_text, text);
			check(false, "what comes out is not valid");
		}
		json_decref(v);
	}
}

static void try_schema(const char *schema, size_t n, const uint8_t *data, size_t n_data)
{
	struct cohort_grammar *g = NULL;
	struct cohort_err err = {0};
	size_t n_out = 0;

	const enum cohort_status st = cohort_grammar_open_schema(lexicon, schema, n, &g, &err);
	if (st)
		check(err.text[0] != 0, "a refusal without a reason");
	const enum cohort_status st2 = cohort_schema_to_gbnf(schema, n, NULL, 0, &n_out, &err);
	check(st || st2 == COHORT_E_LIMIT, "a schema opens but has no text");
	if (g) {
		json_t *s = json_loadb(schema, n, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
		check(s != NULL, "a schema that is no JSON opens");
		try_texts(g, s, data, n_data);
		json_decref(s);
	}
	cohort_grammar_free(g);
}

/* ---- Schemas of choices ---- */

static json_t *any_schema(struct dice *d, int depth);

static json_t *any_number(struct dice *d)
{
	static const json_int_t odd[] = {0, 1, -1, 9, 10, 99, -10, 1000, INT64_MAX, INT64_MIN, 9007199254740993};
	const uint32_t kind = below(d, 16);

	if (kind == 14)
		return json_integer((json_int_t)below(d, 16) - 3);
	if (kind == 15)
		return json_real(((double)below(d, 256) - 128) / 4);
	return json_integer(kind < sizeof odd / sizeof *odd ? odd[kind] : (json_int_t)below(d, 65536) - 32768);
}

static json_t *any_value(struct dice *d, int depth)
{
	static const char *const texts[] = {"", "a", "b c", "\"", "\\", "\xc3\xa9", "\n", "\x7f"};

	switch (below(d, depth > 1 ? 5 : 7)) {
	case 0: return json_null();
	case 1: return json_boolean(below(d, 2));
	case 2:
	case 3: return any_number(d);
	case 4: return json_string(texts[below(d, sizeof texts / sizeof *texts)]);
	case 5: return json_pack("[o,o]", any_value(d, depth + 1), any_value(d, depth + 1));
	default: return json_pack("{s:o}", "a", any_value(d, depth + 1));
	}
}

static json_t *any_list(struct dice *d, int depth, json_t *(*make)(struct dice *d, int depth))
{
	json_t *list = json_array();

	for (uint32_t k = 1 + below(d, 3); k > 0; k--)
		json_array_append_new(list, make(d, depth + 1));
	return list;
}

/* Bounds, of which each may be left out. */
static void any_bounds(struct dice *d, json_t *s, const char *const *names, size_t n, bool small)
{
	for (size_t i = 0; i < n; i++)
		if (below(d, 2))
			json_object_set_new(
					s, names[i], small || below(d, 2) ? json_integer(below(d, 5)) : any_number(d));
}

static void any_object(struct dice *d, json_t *s, int depth)
{
	static const char *const names[] = {"a", "b", "ab", "c d", "\xc3\xa9", "q\"q", "/~"};
	json_t *properties = json_object(), *required = json_array();

	for (uint32_t k = below(d, 4); k > 0; k--) {
		const char *name = names[below(d, sizeof names / sizeof *names)];
		json_object_set_new(properties, name, any_schema(d, depth + 1));
		if (below(d, 2))
			json_array_append_new(required, json_string(name));
	}
	json_object_set_new(s, "properties", properties);
	json_object_set_new(s, "required", required);
	if (below(d, 3) == 0)
		json_object_set_new(s, "additionalProperties", any_schema(d, depth + 1));
}

static void any_keyword(struct dice *d, json_t *s, int depth)
{
	static const char *const types[] = {"string", "integer", "number", "boolean", "null", "array", "object"};
	static const char *const formats[] = {"date", "time", "date-time", "uuid", "ipv4", "other"};
	static const char *const patterns[] = {"^a+$", "b", "^[a-c]{2,3}(x|y)$", "\\d", "^$"};
	static const char *const lengths[] = {"minLength", "maxLength"}, *const items[] = {"minItems", "maxItems"},
				 *const ranges[] = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"};
	const char *type = types[below(d, 7)];

	switch (below(d, depth > 2 ? 9 : 16)) {
	case 0: json_object_set_new(s, "type", json_string(type)); break;
	case 1: json_object_set_new(s, "type", json_pack("[s,s]", type, types[below(d, 7)])); break;
	case 2: any_bounds(d, s, lengths, 2, true); break;
	case 3: json_object_set_new(s, "format", json_string(formats[below(d, 6)])); break;
	case 4: json_object_set_new(s, "pattern", json_string(patterns[below(d, 5)])); break;
	case 5: any_bounds(d, s, ranges, 4, false); break;
	case 6: json_object_set_new(s, "enum", any_list(d, 0, any_value)); break;
	case 7: json_object_set_new(s, "const", any_value(d, 0)); break;
	case 8: json_object_set_new(s, "$ref", json_string(below(d, 4) ? "#/$defs/x" : "#")); break;
	case 9: json_object_set_new(s, "items", any_schema(d, depth + 1)); break;
	case 10: json_object_set_new(s, "prefixItems", any_list(d, depth, any_schema)); break;
	case 11: any_bounds(d, s, items, 2, true); break;
	case 12: any_object(d, s, depth); break;
	case 13: json_object_set_new(s, "anyOf", any_list(d, depth, any_schema)); break;
	case 14: json_object_set_new(s, "oneOf", any_list(d, depth, any_schema)); break;
	default: json_object_set_new(s, "allOf", any_list(d, depth, any_schema)); break;
	}
}

static json_t *any_schema(struct dice *d, int depth)
{
	json_t *s = json_object();

	if (seldom(d, 16)) {
		json_decref(s);
		return json_boolean(below(d, 2));
	}
	for (uint32_t k = 1 + below(d, 3); k > 0; k--)
		any_keyword(d, s, depth);
	return s;
}

static void try_choices(const uint8_t *data, size_t n)
{
	struct dice d;

	dice_bytes(&d, data, n);
	json_t *schema = any_schema(&d, 0);
	if (json_is_object(schema) && below(&d, 2))
		json_object_set_new(schema, "$defs", json_pack("{s:o}", "x", any_schema(&d, 1)));
	char *text = json_dumps(schema, JSON_ENCODE_ANY);
	check(text != NULL, "memory");
	try_schema(text, strlen(text), data + d.at, n - d.at);
	free(text);
	json_decref(schema);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	if (!lexicon)
		check((lexicon = bytes_lexicon()) != NULL, "no lexicon");
	if (n > 0 && data[0] == '!') {
		try_choices(data + 1, n - 1);
		return 0;
	}
	try_schema((const char *)data, n, data, n);
	json_t *pattern = n < 4096 ? json_stringn((const char *)data, n) : NULL;
	json_t *schema = pattern ? json_pack("{s:s,s:o}", "type", "string", "pattern", pattern) : NULL;
	char *text = schema ? json_dumps(schema, 0) : NULL;
	if (text)
		try_schema(text, strlen(text), data, n);
	free(text);
	json_decref(schema);
	return 0;
}
