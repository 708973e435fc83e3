/* JSON schema to GBNF, from the inside. */
#ifndef SAMPLE_SCHEMA_H
#define SAMPLE_SCHEMA_H

#include "base/bytes.h"
#include "base/err.h"

#include <jansson.h>

/* A growing text; once it has failed it stays as it is. */
struct text {
	struct bytes b;
	bool too_large; /* why it has failed; otherwise memory is out */
};

void text_add(struct text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void text_bytes(struct text *t, const char *p, size_t n);
/* Bytes of UTF-8 as a GBNF literal, quotes included. */
void text_literal(struct text *t, const char *p, size_t n);

/* ---- Schemas as JSON ---- */

struct schema_doc {
	const json_t *doc;
	struct cohort_err *err;
	enum cohort_status st; /* the first refusal */
	int n_compared; /* pairs of schemas and of values that were looked at: bounded */
};

/* "schema: WHAT 'NAME'"; returns false. */
bool schema_refuse(struct schema_doc *d, enum cohort_status st, const char *what, const char *name);
/* Nothing is wrong with the schema; returns false. */
bool schema_no_memory(struct schema_doc *d);
/* Refuses keywords that would change what is valid and are not known. */
bool schema_check_keys(struct schema_doc *d, json_t *schema);
/* A keyword that says something about valid documents and is known. */
bool schema_is_meaningful(const char *key);
bool schema_says_something(json_t *schema); /* one of its keywords does */
json_t *schema_resolve(struct schema_doc *d, const json_t *ref); /* borrowed; NULL: refused */
/* New references: what is valid under both (NULL: refused); the schema without a key (NULL: out of memory); what two
 * lists of values, or of types, have in common (NULL: refused); the values a schema allows (NULL: any number, or out
 * of memory). Being out of memory is a refusal, too, by its status. */
json_t *schema_merge(struct schema_doc *d, json_t *a, json_t *b);
json_t *schema_without(json_t *schema, const char *key);
json_t *schema_both(struct schema_doc *d, json_t *a, json_t *b, bool types);
json_t *schema_values(struct schema_doc *d, const json_t *schema);
bool schema_may_be(const json_t *schema, const char *type);
/* No document is valid under both, as far as one can see. depth: of references that are followed. */
bool schema_disjoint(struct schema_doc *d, json_t *a, json_t *b, int depth);

/* ---- Texts ---- */

/* Alternatives of all integers lo..hi, in parentheses. */
void schema_integers(struct text *t, int64_t lo, int64_t hi);
/* A string's contents (between the quotes), as JSON writes them: of a format, or NULL if it is not known; those that
 * match a pattern. The grammar needs schema_common. Statuses of a pattern: E_FORMAT, E_UNSUPPORTED, E_LIMIT. */
const char *schema_format(const char *name);
enum cohort_status schema_pattern(struct text *t, const char *pattern, size_t n, struct cohort_err *err);
/* Rules that the others use: space, char, hex, string, number, integer, value ... */
extern const char schema_common[];

#endif
