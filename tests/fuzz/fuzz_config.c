/* Any bytes as a configuration file: refused with a line, or lines whose names and values lie within the bytes, in
 * order, and that written out in quotes are read back the same. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "opt_config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check(bool ok, const char *what)
{
	if (!ok) {
		fprintf(stderr, "fuzz_config: %s\n", what);
		abort();
	}
}

static size_t write_quoted(char *out, const char *s)
{
	size_t n = 0;

	out[n++] = '"';
	for (; *s; s++) {
		if (strchr("\n\t\"\\", *s)) {
			out[n++] = '\\';
			out[n++] = (char)(*s == '\n' ? 'n' : *s == '\t' ? 't' : *s);
		} else {
			out[n++] = *s;
		}
	}
	out[n++] = '"';
	return n;
}

static void read_back(const struct opt_config_line *l)
{
	char *text = mem_alloc(strlen(l->name) + 2 * strlen(l->value) + 16, 1);
	struct opt_config c;
	struct cohort_err err;

	check(text != NULL, "no memory");
	size_t n = (size_t)sprintf(text, "%s = ", l->name);
	n += write_quoted(text + n, l->value);
	check(opt_config_parse(&c, text, n, &err) == COHORT_OK && c.n_lines == 1, "a written line is refused");
	check(strcmp(c.lines[0].name, l->name) == 0 && strcmp(c.lines[0].value, l->value) == 0,
			"another line comes back");
	opt_config_release(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct opt_config c;
	struct cohort_err err = {0};
	char *bytes = mem_alloc(n + 1, 1);

	check(bytes != NULL, "no memory");
	if (n > 0)
		memcpy(bytes, data, n);
	if (opt_config_parse(&c, bytes, n, &err)) {
		check(strncmp(err.text, "line ", 5) == 0 || err.status == COHORT_E_LIMIT, "a refusal without a line");
	} else {
		size_t line = 0;
		for (size_t i = 0; i < c.n_lines; i++) {
			const struct opt_config_line *l = &c.lines[i];
			check(l->line > line, "lines are out of order");
			line = l->line;
			check(l->name >= bytes && l->name < l->value && l->value + strlen(l->value) <= bytes + n,
					"outside the bytes");
			check(*l->name && (!l->section || *l->section), "an empty name");
			read_back(l);
		}
	}
	opt_config_release(&c);
	return 0;
}
