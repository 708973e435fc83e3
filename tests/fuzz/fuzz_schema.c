/* Any bytes as a JSON schema: refused with a reason, or a grammar that opens, and whose texts are JSON; and any bytes
 * as a pattern in one.
 *
 * Seen red with a comma where no property came before. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz_bytes.h"

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

/* What comes out is JSON. */
static void try_texts(struct cohort_grammar *g, const uint8_t *data, size_t n)
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
	if (g)
		try_texts(g, data, n_data);
	cohort_grammar_free(g);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	if (!lexicon)
		check((lexicon = bytes_lexicon()) != NULL, "no lexicon");
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
