/* Schemas as JSON: keywords, references inside the document, two schemas as one, and which cannot both hold.
 *
 * Invariant: a merged schema allows nothing that one of the two forbids; what cannot be merged so is refused. */
#include "sample/schema.h"

#include "base/json.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

bool schema_refuse(struct schema_doc *d, enum cohort_status st, const char *what, const char *name)
{
	char show[ERR_SHOW_BYTES];
	if (!d->st)
		d->st = err_set(d->err, st, "schema: %s '%s'", what, err_show(show, name, strlen(name)));
	return false;
}

bool schema_no_memory(struct schema_doc *d)
{
	if (!d->st)
		d->st = err_set(d->err, COHORT_E_MEMORY, "out of memory for the schema's grammar");
	return false;
}

/* ---- Work ---- */

enum { COMPARED_MAX = 200000 };

/* Whether n more may be compared. */
static bool may_compare(struct schema_doc *d, size_t n)
{
	if (n > COMPARED_MAX || d->n_compared + (int)n > COMPARED_MAX)
		return schema_refuse(d, COHORT_E_LIMIT, "too much to compare for", "allOf, oneOf or enum");
	d->n_compared += (int)n;
	return true;
}

/* What there is to look at when a value is compared with its like, a long text in pieces; no more than `most`. */
static size_t weight(const json_t *v, size_t most)
{
	size_t n = 1 + json_string_length(v) / 64, i;
	const char *key;
	json_t *x;

	json_array_foreach(v, i, x) {
		if (n >= most)
			break;
		n += weight(x, most - n);
	}
	json_object_foreach((json_t *)(uintptr_t)v, key, x) {
		if (n >= most)
			break;
		n += weight(x, most - n);
	}
	return n;
}

/* Whether two values are the same; false after a refusal, too. */
static bool equal(struct schema_doc *d, const json_t *a, const json_t *b)
{
	if (a == b)
		return true;
	return a && b && json_typeof(a) == json_typeof(b) && json_array_size(a) == json_array_size(b) &&
			json_object_size(a) == json_object_size(b) && may_compare(d, weight(a, COMPARED_MAX + 1)) &&
			json_equal(a, b);
}

/* ---- Keywords ---- */

static const char *const unsupported[] = {"not", "if", "then", "else", "dependentSchemas", "dependentRequired",
		"dependencies", "patternProperties", "propertyNames", "unevaluatedProperties", "unevaluatedItems",
		"contains", "minContains", "maxContains", "minProperties", "maxProperties", "uniqueItems", "multipleOf",
		"$dynamicRef", "$recursiveRef"};

/* Keywords that say something about valid documents and are known. */
static const char *const meaningful[] = {"type", "enum", "const", "properties", "required", "additionalProperties",
		"items", "prefixItems", "additionalItems", "minItems", "maxItems", "anyOf", "oneOf", "allOf", "$ref",
		"format", "minLength", "maxLength", "pattern", "minimum", "maximum", "exclusiveMinimum",
		"exclusiveMaximum"};

static bool among(const char *key, const char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(key, list[i]) == 0)
			return true;
	return false;
}
#define AMONG(key, list) among(key, list, sizeof(list) / sizeof *(list))

static const char *const type_names[] = {"object", "array", "string", "number", "integer", "boolean", "null"};
enum { N_TYPES = sizeof type_names / sizeof *type_names };

bool schema_is_meaningful(const char *key)
{
	return AMONG(key, meaningful);
}

/* A keyword that changes nothing for the values we make. */
static bool harmless(const char *key, const json_t *v)
{
	if (strcmp(key, "uniqueItems") == 0)
		return json_is_false(v);
	if (strcmp(key, "multipleOf") == 0)
		return json_is_integer(v) && json_integer_value(v) == 1;
	if (strcmp(key, "minProperties") == 0)
		return json_is_integer(v) && json_integer_value(v) == 0;
	return false;
}

bool schema_check_keys(struct schema_doc *d, json_t *schema)
{
	const char *key;
	json_t *v;
	json_object_foreach(schema, key, v)
		if (AMONG(key, unsupported) && !harmless(key, v))
			return schema_refuse(d, COHORT_E_UNSUPPORTED, "not supported:", key);
	/* Every value of an enum is looked for among them. */
	if (json_array_size(json_object_get(schema, "type")) > N_TYPES)
		return schema_refuse(d, COHORT_E_FORMAT, "more than the seven types there are in", "type");
	return true;
}

/* ---- References ---- */

/* One step of a JSON pointer, ~0 ~1 %XX undone; false when it does not fit. */
static bool unescape(const char *p, size_t n, char *out, size_t n_max)
{
	size_t k = 0;
	for (size_t i = 0; i < n; i++) {
		char c = p[i];
		if (c == '%' && i + 2 < n && hex_digit(p[i + 1]) >= 0 && hex_digit(p[i + 2]) >= 0) {
			c = (char)(hex_digit(p[i + 1]) << 4 | hex_digit(p[i + 2]));
			i += 2;
		} else if (c == '~' && i + 1 < n && (p[i + 1] == '0' || p[i + 1] == '1')) {
			c = p[++i] == '0' ? '~' : '/';
		}
		if (k + 1 >= n_max || c == 0)
			return false;
		out[k++] = c;
	}
	out[k] = 0;
	return true;
}

/* Which item of a list a step names: digits without a 0 in front of them, as RFC 6901 has it. SIZE_MAX: none. */
static size_t item_of(const char *step)
{
	const size_t n = strspn(step, "0123456789");
	return n > 0 && n < 7 && !step[n] && (n == 1 || step[0] != '0') ? (size_t)strtoul(step, NULL, 10) : SIZE_MAX;
}

json_t *schema_resolve(struct schema_doc *d, const json_t *ref)
{
	const char *p = json_string_value(ref);
	json_t *at = (json_t *)(uintptr_t)d->doc;

	if (!p || p[0] != '#' || (p[1] && p[1] != '/')) {
		schema_refuse(d, p ? COHORT_E_UNSUPPORTED : COHORT_E_FORMAT,
				"a reference is known inside the document only (#/...):", p ? p : "$ref");
		return NULL;
	}
	if (!may_compare(d, strlen(p) / 64))
		return NULL;
	for (const char *s = p + 1; *s && at;) {
		char step[512];
		const size_t n = strcspn(++s, "/");
		if (!unescape(s, n, step, sizeof step))
			at = NULL;
		else if (json_is_array(at))
			at = json_array_get(at, item_of(step));
		else
			at = json_object_get(at, step);
		s += n;
	}
	if (!at)
		schema_refuse(d, COHORT_E_FORMAT, "nothing is at", p);
	return at;
}

/* ---- Both of two schemas ---- */

static json_t *larger(json_t *a, json_t *b, bool want_larger)
{
	const bool larger_a = json_is_integer(a) && json_is_integer(b) ? json_integer_value(a) >= json_integer_value(b)
								       : json_number_value(a) >= json_number_value(b);
	return json_incref(larger_a == want_larger ? a : b);
}

/* As JSON schemas see it: 1 and 1.0 are the same number. */
static bool same_value(const json_t *x, const json_t *y)
{
	const char *key;
	json_t *v;
	size_t i;

	if (json_is_integer(x) && json_is_integer(y))
		return json_integer_value(x) == json_integer_value(y);
	if (json_is_number(x) && json_is_number(y))
		return json_number_value(x) == json_number_value(y);
	if (json_is_array(x) && json_is_array(y)) {
		json_array_foreach(x, i, v)
			if (!same_value(v, json_array_get(y, i)))
				return false;
		return json_array_size(x) == json_array_size(y);
	}
	if (json_is_object(x) && json_is_object(y)) {
		json_object_foreach((json_t *)(uintptr_t)x, key, v)
			if (!same_value(v, json_object_get(y, key)))
				return false;
		return json_object_size(x) == json_object_size(y);
	}
	return json_equal(x, y);
}

static bool has(const json_t *list, const json_t *v)
{
	const json_t *x;
	size_t i;
	json_array_foreach(list, i, x)
		if (json_equal(x, v))
			return true;
	return false;
}

/* What both allow, as lists: of types (integer is a number) or of values. */
json_t *schema_both(struct schema_doc *d, json_t *a, json_t *b, bool types)
{
	const size_t n_a = weight(a, COMPARED_MAX + 1) * (json_array_size(b) + 1);
	const size_t n_b = weight(b, COMPARED_MAX + 1) * (json_array_size(a) + 1);
	if (!may_compare(d, n_a < n_b ? n_a : n_b))
		return NULL;
	json_t *la = json_is_array(a) ? json_incref(a) : json_pack("[O]", a);
	json_t *lb = json_is_array(b) ? json_incref(b) : json_pack("[O]", b), *out = json_array(), *x, *y;
	size_t i, k;
	int bad = la && lb && out ? 0 : -1;

	json_array_foreach(la, i, x)
		json_array_foreach(lb, k, y) {
			const char *s = json_string_value(x), *t = json_string_value(y);
			json_t *both = NULL;
			if (same_value(x, y) ||
					(types && s && t && strcmp(s, "integer") == 0 && strcmp(t, "number") == 0))
				both = x;
			else if (types && s && t && strcmp(t, "integer") == 0 && strcmp(s, "number") == 0)
				both = y;
			if (both && !(types && has(out, both)))
				bad |= json_array_append(out, both);
		}
	json_decref(la);
	json_decref(lb);
	if (bad) { /* a list that has lost something says that there is less in common */
		json_decref(out);
		schema_no_memory(d);
		return NULL;
	}
	return out;
}

/* The names of two lists, each once. */
static json_t *both_lists(struct schema_doc *d, json_t *a, json_t *b)
{
	json_t *out = json_array(), *seen = json_object(), *v;
	size_t i;

	if (!may_compare(d, json_array_size(a) + json_array_size(b))) {
		json_decref(out);
		json_decref(seen);
		return NULL;
	}
	for (int k = 0; k < 2; k++)
		json_array_foreach(k ? b : a, i, v) {
			const char *name = json_string_value(v);
			if (name && json_object_get(seen, name))
				continue;
			if (json_array_append(out, v) || (name && json_object_set(seen, name, v))) {
				json_decref(out);
				json_decref(seen);
				return NULL; /* out of memory: no name may get lost */
			}
		}
	json_decref(seen);
	return out;
}

static json_t *merge_properties(struct schema_doc *d, json_t *a, json_t *b)
{
	json_t *v, *out = may_compare(d, json_object_size(a) + json_object_size(b)) ? json_clone(a) : NULL;
	const char *key;
	if (!out)
		return NULL;
	json_object_foreach(b, key, v) {
		json_t *have = json_object_get(out, key);
		json_t *both = have ? schema_merge(d, have, v) : json_incref(v);
		if (!both || json_object_set_new(out, key, both)) {
			json_decref(out);
			return NULL;
		}
	}
	return out;
}

/* additionalProperties false on one side knows nothing of the other's properties. */
static bool closed_over(struct schema_doc *d, json_t *a, json_t *b)
{
	const json_t *more = json_object_get(a, "additionalProperties");
	const char *key;
	json_t *v;
	if (!more || json_is_true(more))
		return true;
	if (!may_compare(d, json_object_size(json_object_get(b, "properties"))))
		return false;
	json_object_foreach(json_object_get(b, "properties"), key, v)
		if (!json_object_get(json_object_get(a, "properties"), key))
			return false;
	return true;
}

/* What a says of its items holds behind its own prefix only: no other may be put before them. */
static bool same_prefix(struct schema_doc *d, json_t *a, json_t *b)
{
	json_t *items = json_object_get(a, "items"), *prefix = json_object_get(b, "prefixItems");
	if (json_is_array(items) || json_is_array(json_object_get(b, "items")))
		return equal(d, items, json_object_get(b, "items")); /* as it was before 2020 */
	return !items || json_is_true(items) || !prefix || equal(d, prefix, json_object_get(a, "prefixItems"));
}

static json_t *merge_key(struct schema_doc *d, const char *key, json_t *a, json_t *b)
{
	if (equal(d, a, b))
		return json_incref(a);
	if (d->st)
		return NULL;
	if (strcmp(key, "type") == 0 || strcmp(key, "enum") == 0)
		return schema_both(d, a, b, key[0] == 't');
	if (strcmp(key, "properties") == 0 && json_is_object(a) && json_is_object(b))
		return merge_properties(d, a, b);
	if (strcmp(key, "required") == 0 && json_is_array(a) && json_is_array(b))
		return both_lists(d, a, b);
	if (strcmp(key, "items") == 0 && json_is_object(a) && json_is_object(b))
		return schema_merge(d, a, b);
	if (json_is_number(a) && json_is_number(b) &&
			(strncmp(key, "min", 3) == 0 || strcmp(key, "exclusiveMinimum") == 0))
		return larger(a, b, true);
	if (json_is_number(a) && json_is_number(b) &&
			(strncmp(key, "max", 3) == 0 || strcmp(key, "exclusiveMaximum") == 0))
		return larger(a, b, false);
	if (strcmp(key, "additionalProperties") == 0 && (json_is_false(a) || json_is_false(b)))
		return json_false();
	if (!AMONG(key, meaningful) && !AMONG(key, unsupported))
		return json_incref(a); /* an annotation */
	schema_refuse(d, COHORT_E_UNSUPPORTED, "two different values that must both hold, for", key);
	return NULL;
}

/* A new schema for what is valid under both; NULL after a refusal. */
json_t *schema_merge(struct schema_doc *d, json_t *a, json_t *b)
{
	const char *key;
	json_t *v;

	if (json_is_true(a) || json_is_true(b))
		return json_incref(json_is_true(a) ? b : a);
	if (json_is_false(a) || json_is_false(b))
		return json_false();
	if (!json_is_object(a) || !json_is_object(b)) {
		schema_refuse(d, COHORT_E_FORMAT, "expected an object, true or false in", "a list of schemas");
		return NULL;
	}
	if (!same_prefix(d, a, b) || !same_prefix(d, b, a)) {
		schema_refuse(d, COHORT_E_UNSUPPORTED, "combined with items of another schema:", "prefixItems");
		return NULL;
	}
	if (!closed_over(d, a, b) || !closed_over(d, b, a)) {
		schema_refuse(d, COHORT_E_UNSUPPORTED,
				"combined with properties of another schema:", "additionalProperties");
		return NULL;
	}
	json_t *out = may_compare(d, json_object_size(a) + json_object_size(b)) ? json_clone(a) : NULL;
	if (!out)
		return NULL;
	json_object_foreach(b, key, v) {
		json_t *have = json_object_get(out, key);
		json_t *both = have ? merge_key(d, key, have, v) : json_incref(v);
		if (!both || json_object_set_new(out, key, both)) {
			json_decref(out);
			return NULL;
		}
	}
	return out;
}

/* The schema without a key. */
json_t *schema_without(json_t *schema, const char *key)
{
	json_t *out = json_clone(schema);
	json_object_del(out, key);
	return out;
}

bool schema_says_something(json_t *schema)
{
	const char *key;
	json_t *v;
	json_object_foreach(schema, key, v)
		if (AMONG(key, meaningful) || AMONG(key, unsupported))
			return true;
	return false;
}

/* ---- Alternatives ---- */

bool schema_may_be(const json_t *schema, const char *type)
{
	const json_t *t = json_object_get(schema, "type"), *v;
	size_t i;
	if (!t)
		return true;
	if (json_is_string(t))
		return strcmp(json_string_value(t), type) == 0 ||
				(strcmp(json_string_value(t), "number") == 0 && strcmp(type, "integer") == 0);
	json_array_foreach(t, i, v)
		if (json_is_string(v) &&
				(strcmp(json_string_value(v), type) == 0 ||
						(strcmp(json_string_value(v), "number") == 0 &&
								strcmp(type, "integer") == 0)))
			return true;
	return false;
}

/* The list of values a schema allows, or NULL: a new reference. */
json_t *schema_values(struct schema_doc *d, const json_t *schema)
{
	json_t *c = json_object_get(schema, "const"), *e = json_object_get(schema, "enum");
	json_t *list = c ? json_pack("[O]", c) : json_is_array(e) ? json_incref(e) : NULL;

	if (c && !list)
		schema_no_memory(d);
	return list;
}

/* No document is valid under both, as far as one can see. */
bool schema_disjoint(struct schema_doc *d, json_t *a, json_t *b, int depth)
{
	bool shared = false, others = false; /* a type, and one that has no properties */
	size_t i;
	json_t *v;

	while (json_object_get(a, "$ref") && depth-- > 0 && !d->st)
		a = schema_resolve(d, json_object_get(a, "$ref"));
	while (json_object_get(b, "$ref") && depth-- > 0 && !d->st)
		b = schema_resolve(d, json_object_get(b, "$ref"));
	if (d->st || depth <= 0 || !may_compare(d, 1))
		return false;
	if (json_is_false(a) || json_is_false(b))
		return true;
	if (!json_is_object(a) || !json_is_object(b))
		return false;
	/* Short lists are as nothing. */
	if (!may_compare(d, (json_array_size(json_object_get(a, "type")) + json_array_size(json_object_get(b, "type")) +
				    json_array_size(json_object_get(a, "required"))) /
					    8))
		return false;
	for (i = 0; i < N_TYPES; i++)
		if (schema_may_be(a, type_names[i]) && schema_may_be(b, type_names[i])) {
			shared = true;
			others |= i > 0;
		}
	json_t *va = schema_values(d, a), *vb = schema_values(d, b);
	if (shared && va && vb) {
		json_t *both = schema_both(d, va, vb, false);
		shared = !both || json_array_size(both) > 0;
		json_decref(both);
	}
	json_decref(va);
	json_decref(vb);
	if (!shared)
		return true;
	/* Objects that must have a property which tells them apart. */
	json_array_foreach(json_object_get(a, "required"), i, v) {
		const char *name = json_string_value(v);
		json_t *pa = name ? json_object_get(json_object_get(a, "properties"), name) : NULL;
		json_t *pb = name ? json_object_get(json_object_get(b, "properties"), name) : NULL;
		if (pa && pb && !others && schema_disjoint(d, pa, pb, depth - 1))
			return true;
	}
	return false;
}
