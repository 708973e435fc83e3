/* Any bytes as a JSON schema: refused with a reason, or a grammar that opens; and any bytes as a pattern in one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "cohort.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check(bool ok, const char *what)
{
	if (!ok) {
		fprintf(stderr, "fuzz_schema: %s\n", what);
		abort();
	}
}

static struct cohort_lexicon *lexicon;

static void open_lexicon(void)
{
	static char texts[256];
	static struct cohort_lexicon_token tokens[257];
	for (int i = 0; i < 256; i++) {
		texts[i] = (char)i;
		tokens[i] = (struct cohort_lexicon_token){texts + i, 1, true, false};
	}
	tokens[256] = (struct cohort_lexicon_token){"<end>", 5, false, true};
	check(cohort_lexicon_open_list(tokens, 257, &lexicon, NULL) == COHORT_OK, "no lexicon");
}

static void try_schema(const char *schema, size_t n)
{
	struct cohort_grammar *g = NULL;
	struct cohort_err err = {0};
	size_t n_out = 0;

	const enum cohort_status st = cohort_grammar_open_schema(lexicon, schema, n, &g, &err);
	if (st)
		check(err.text[0] != 0, "a refusal without a reason");
	const enum cohort_status st2 = cohort_schema_to_gbnf(schema, n, NULL, 0, &n_out, &err);
	check(st || st2 == COHORT_E_LIMIT, "a schema opens but has no text");
	cohort_grammar_free(g);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	if (!lexicon)
		open_lexicon();
	try_schema((const char *)data, n);
	json_t *pattern = n < 4096 ? json_stringn((const char *)data, n) : NULL;
	json_t *schema = pattern ? json_pack("{s:s,s:o}", "type", "string", "pattern", pattern) : NULL;
	char *text = schema ? json_dumps(schema, 0) : NULL;
	if (text)
		try_schema(text, strlen(text));
	free(text);
	json_decref(schema);
	return 0;
}
