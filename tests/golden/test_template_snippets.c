/* The template language, snippet by snippet, against what Python's jinja2 gives (data/README.md says how that was
 * made). Texts must be the same to the byte, and errors must be errors; those that a template raises itself must say
 * the same.
 *
 * Shown red by planted faults: // that rounds towards zero; a slice that ends one late; a newline that is kept behind a
 * block; a loop whose turns share one scope; "last" without a look ahead. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "template_case.h"

static bool ends_with(const char *s, const char *end)
{
	const size_t n = strlen(s), k = strlen(end);
	return k <= n && strcmp(s + n - k, end) == 0;
}

static void template_snippets_render(void **state)
{
	FILE *f = fopen("tests/golden/data/template-snippets.jsonl", "rb");
	size_t n_texts = 0, n_errors = 0, n_bad = 0;
	(void)state;

	assert_non_null(f);
	json_t *first = next_line(f), *line;
	char *vars = json_dumps(json_object_get(first, "vars"), 0);
	assert_non_null(vars);
	while ((line = next_line(f))) {
		const char *source = json_string_value(json_object_get(line, "t"));
		const char *want = json_string_value(json_object_get(line, "out"));
		const char *error = json_string_value(json_object_get(line, "err"));
		struct cohort_err err = {0};
		char *got = render(source, vars, &err);
		bool ok = want ? got && strcmp(got, want) == 0 : !got && err.text[0];
		if (ok && error && strcmp(error, "error") != 0) /* the template's own */
			ok = ends_with(err.text, error);
		if (!ok && n_bad++ < 10)
			print_error("%s\n  wanted: %s\n  got:    %s\n", source, want ? want : error,
					got ? got : err.text);
		n_texts += want != NULL;
		n_errors += error != NULL;
		cohort_template_text_free(got);
		json_decref(line);
	}
	fclose(f);
	free(vars);
	json_decref(first);
	assert_int_equal(n_bad, 0);
	assert_true(n_texts > 1000 && n_errors > 300);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(template_snippets_render)};
	return cmocka_run_group_tests_name("template_snippets", tests, NULL, NULL);
}
