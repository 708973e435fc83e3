/* The embedded web page: every file of prog/web is there, byte for byte, under its path and with its type. */
#include "serve_web.h"

#include "base/mem.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { BYTES_MAX = 1 << 20 };

static size_t read_file(const char *name, unsigned char *out)
{
	char path[4096];
	snprintf(path, sizeof path, "%s/prog/web/%s", getenv("COHORT_SOURCE"), name);
	FILE *f = fopen(path, "rb");
	assert_non_null(f);
	const size_t n = fread(out, 1, BYTES_MAX, f);
	fclose(f);
	assert_true(n < BYTES_MAX);
	return n;
}

/* Turns red when a file of prog/web is missing in meson's list, and when embed_web.sh leaves out a byte. */
static void test_web_files_are_those_of_the_folder(void **state)
{
	(void)state;
	char dir[4096];
	size_t n_found = 0;
	unsigned char *bytes = mem_alloc(BYTES_MAX, 1);

	snprintf(dir, sizeof dir, "%s/prog/web", getenv("COHORT_SOURCE"));
	DIR *d = opendir(dir);
	assert_non_null(d);
	for (const struct dirent *e = readdir(d); e; e = readdir(d)) {
		char path[512];
		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof path, "/ui/%s", e->d_name);
		const struct web_file *f = web_file_find(strcmp(e->d_name, "index.html") == 0 ? "/" : path);
		if (!f)
			fail_msg("%s is not embedded", e->d_name);
		assert_int_equal(f->size, read_file(e->d_name, bytes));
		assert_memory_equal(f->bytes, bytes, f->size);
		n_found++;
	}
	closedir(d);
	mem_free(bytes);
	assert_int_equal(n_found, n_web_files);
}

static void test_web_paths_found(void **state)
{
	(void)state;
	static const char *const types[][2] = {
			{"/", "text/html; charset=utf-8"},
			{"/ui/style.css", "text/css; charset=utf-8"},
			{"/ui/app.js", "text/javascript; charset=utf-8"},
			{"/ui/favicon.svg", "image/svg+xml"},
	};
	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		assert_string_equal(web_file_find(types[i][0])->type, types[i][1]);
	static const char *const nothing[] = {"", "/ui", "/ui/", "/ui/index.html", "ui/app.js", "/ui/../ui/app.js",
			"/ui/app.js/", "/ui/APP.JS", "/ui/app.js?x", "//"};
	for (size_t i = 0; i < sizeof nothing / sizeof *nothing; i++)
		assert_null(web_file_find(nothing[i]));
}

/* Tags are quoted, and those of different files differ. */
static void test_web_tags_differ(void **state)
{
	(void)state;
	for (size_t i = 0; i < n_web_files; i++) {
		const char *tag = web_files[i].etag;
		const size_t n = strlen(tag);
		assert_true(n > 4 && tag[0] == '"' && tag[n - 1] == '"' && !memchr(tag + 1, '"', n - 2));
		for (size_t k = 0; k < i; k++)
			assert_string_not_equal(tag, web_files[k].etag);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
			cmocka_unit_test(test_web_files_are_those_of_the_folder),
			cmocka_unit_test(test_web_paths_found),
			cmocka_unit_test(test_web_tags_differ),
	};
	return cmocka_run_group_tests_name("serve_web", tests, NULL, NULL);
}
