/* Any bytes as a template, and any bytes as the data of one: a text, or a status with a reason. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "cohort_tools.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check(bool ok, const char *what)
{
	if (!ok) {
		fprintf(stderr, "fuzz_template: %s\n", what);
		abort();
	}
}

static void try_template(const char *source, size_t n, const char *messages)
{
	static const char extra[] =
			"{\"a\":[1,2.5,\"x\\u00e9\",null,true],\"d\":{\"k\":\"v\",\"n\":{\"z\":[]}},\"s\":\"Hello "
			"World\"}";
	struct cohort_template_params p;
	struct cohort_template *t = NULL;
	struct cohort_err err = {0};
	char *out = NULL;
	size_t n_out = 0;

	enum cohort_status st = cohort_template_open(source, n, &t, &err);
	if (!st) {
		cohort_template_params_init(&p);
		p.messages = messages;
		p.extra = extra;
		p.now = "2025-01-02T03:04:05";
		p.bos_token = "<s>";
		p.n_steps_max = 20000;
		p.n_out_max = 1 << 16;
		p.n_bytes_max = 1 << 22;
		p.depth_max = 100;
		st = cohort_template_render(t, &p, &out, &n_out, &err);
		check(st || utf8_valid_prefix(out, n_out) == n_out, "a text that is not UTF-8");
	}
	check(!st || err.text[0] != 0, "a refusal without a reason");
	check(st != COHORT_E_BUG, "a mistake of our own");
	cohort_template_text_free(out);
	cohort_template_free(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	char *text = malloc(n + 1);
	check(text != NULL, "out of memory");
	if (n)
		memcpy(text, data, n);
	text[n] = '\0';
	try_template(text, n, "[{\"role\":\"user\",\"content\":\"Hi\"},{\"role\":\"assistant\",\"content\":null}]");
	try_template("{{ messages }}{{ messages|tojson }}", 35, text);
	free(text);
	return 0;
}
