/* Chat templates of public models against what Python's jinja2 makes of them.
 *
 * The files are in $COHORT_SHARED/templates (../shared when unset); without them the test is skipped.
 * Shown red by planted faults: lstrip left out before a block; a newline that is kept behind one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/map.h"
#include "base/mem.h"
#include "shared_file.h"
#include "template_case.h"

static const char *path_of(char *buf, size_t n, const char *name)
{
	const char *shared = getenv("COHORT_SHARED");
	snprintf(buf, n, "%s/templates/%s", shared ? shared : "../shared", name);
	return buf;
}

static void chat_templates_render(void **state)
{
	char path[600];
	size_t n_lines = 0, n_bad = 0;
	json_t *line;
	(void)state;

	shared_file_needed(path_of(path, sizeof path, "renders.jsonl"));
	FILE *f = fopen(path, "rb");
	assert_non_null(f);
	for (; (line = next_line(f)); n_lines++) {
		const char *name = json_string_value(json_object_get(line, "template"));
		const char *want = json_string_value(json_object_get(line, "output"));
		const char *error = json_string_value(json_object_get(line, "error"));
		/* What a template says by raise_exception must be told; other errors have words of their own. */
		const char *own = error ? strstr(error, "TemplateError: ") : NULL;
		char *messages = json_dumps(json_object_get(line, "messages"), 0), *source = NULL;
		struct cohort_template_params p;
		struct cohort_err err = {0};
		size_t n_source, n = 0;

		cohort_template_params_init(&p);
		p.messages = messages;
		p.bos_token = json_string_value(json_object_get(line, "bos_token"));
		p.eos_token = json_string_value(json_object_get(line, "eos_token"));
		p.add_generation_prompt = json_is_true(json_object_get(line, "add_generation_prompt"));
		p.now = "2025-01-02T03:04:05";
		assert_int_equal(file_read(path_of(path, sizeof path, name), 1 << 24, &source, &n_source, &err),
				COHORT_OK);
		char *got = render_n(source, n_source, &p, &n, &err);
		if (want ? !got || n != strlen(want) || memcmp(got, want, n) != 0
			 : got || !error || (own && !strstr(err.text, own + 15))) {
			print_error("%s\n  wanted: %s\n  got:    %s\n", name, want ? want : error,
					got ? got : err.text);
			n_bad++;
		}
		cohort_template_text_free(got);
		mem_free(source);
		free(messages);
		json_decref(line);
	}
	fclose(f);
	assert_int_equal(n_bad, 0);
	assert_true(n_lines > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(chat_templates_render)};
	return cmocka_run_group_tests_name("templates", tests, NULL, NULL);
}
