/* The manual pages and the reference of the library, from the comments of its headers.
 *
 * usage: apidoc --man DIR VERSION HEADER...        pages of section 3: DIR/NAME.3
 *        apidoc --markdown DIR VERSION HEADER...   DIR/HEADER.md for each, and DIR/index.md; DIR is made
 *        apidoc --list HEADER...                   the names of the functions, one on a line
 *        apidoc --abi HEADER...                    a C program that prints what programs depend on
 *        apidoc --self-test                        plants faults in headers and expects each to be refused; prints TAP
 * Exit codes: 1, with file:line, for a header that it does not understand; 2 for wrong arguments; 4 for a file.
 */
#include "apidoc.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

static char *read_file(const char *path)
{
	FILE *f = fopen(path, "r");
	char *text = NULL;
	long size;

	if (!f)
		return NULL;
	if (!fseek(f, 0, SEEK_END) && (size = ftell(f)) >= 0 && !fseek(f, 0, SEEK_SET)) {
		text = doc_alloc((size_t)size + 1);
		if (fread(text, 1, (size_t)size, f) != (size_t)size)
			text = NULL;
	}
	fclose(f);
	return text;
}

/* ---- Self-test ---- */

/* A header with this text below its head is refused with this error, or (NULL) is not. */
static const struct {
	const char *title, *text, *error;
} plants[] = {
		{"a function with a comment in a section",
				"/* ---- A ---- */\n\n/* Does x. */\nCOHORT_API int cohort_x(void);\n", NULL},
		{"two functions under one comment",
				"/* ---- A ---- */\n\n/* Does x. */\nCOHORT_API int cohort_x(void);\n"
				"COHORT_API int cohort_y(void);\n",
				NULL},
		{"a comment behind the function",
				"/* ---- A ---- */\n\nCOHORT_API int cohort_x(int a,\n\t\tint b); /* does x */\n",
				NULL},
		{"a function behind a struct that has a comment",
				"/* ---- A ---- */\n\n/* An a. */\nstruct cohort_a {\n\tint x; /* ; } */\n"
				"};\nCOHORT_API int cohort_x(void);\n",
				NULL},
		{"an inline function",
				"/* ---- A ---- */\n\n/* X. */\nstatic inline int cohort_x(void)\n{\n"
				"\treturn ';';\n}\n",
				NULL},
		{"a function that ends a thing",
				"/* ---- A ---- */\n\nCOHORT_API void cohort_x_free(struct cohort_x *x);\n", NULL},
		{"a function without a comment", "/* ---- A ---- */\n\nCOHORT_API int cohort_x(void);\n",
				"x.h:4: cohort_x has no comment"},
		{"a comment that an empty line parts from the function",
				"/* ---- A ---- */\n\n/* Does x. */\n\nCOHORT_API int cohort_x(void);\n",
				"x.h:6: cohort_x has no comment"},
		{"a function without a section", "/* Does x. */\nCOHORT_API int cohort_x(void);\n",
				"x.h:3: cohort_x stands in no section"},
		{"a section without a function", "/* ---- A ---- */\n\n/* X. */\nstruct cohort_x;\n",
				"x.h:2: section A has no function"},
		{"a function twice",
				"/* ---- A ---- */\n\n/* X. */\nCOHORT_API int cohort_x(void);\n"
				"COHORT_API int cohort_x(void);\n"
				"",
				"x.h:6: cohort_x is declared twice"},
		{"a name of somebody else", "/* ---- A ---- */\n\n/* X. */\nCOHORT_API int x(void);\n",
				"x.h:5: a function whose name does not begin with cohort_"},
		{"a variable", "/* ---- A ---- */\n\nextern int cohort_x;\n",
				"x.h:4: not understood: extern int cohort_x;"},
		{"a macro with parameters", "#define COHORT_X(y) (y)\n", "x.h:2: a macro with parameters"},
		{"a comment without an end", "\n\n/* X.\n", "x.h:4: a comment without an end"},
		{"a declaration without an end", "struct cohort_x {\n", "x.h:2: a declaration without an end"},
};

static bool members_are(const char *decl, enum doc_kind kind, const char *want)
{
	struct doc_item item = {.kind = kind, .decl = doc_copy(decl, strlen(decl))};
	struct doc_member *members;
	const size_t n = doc_members(&item, &members);
	char got[512] = "";

	for (size_t i = 0; i < n; i++)
		snprintf(got + strlen(got), sizeof got - strlen(got), "%s=%s|", members[i].decl,
				members[i].about ? members[i].about : "");
	return !strcmp(got, want);
}

static int self_test(void)
{
	const size_t n_plants = sizeof plants / sizeof *plants;
	const bool members[] = {
			members_are("struct x {\n\tint a, b; /* two */\n\t/* of c */\n"
				    "\tint (*c)(int x, void *y);\n\tint d[4];\n};",
					DOC_STRUCT, "int a, b=two|int (*c)(int x, void *y)=of c|int d[4]=|"),
			members_are("struct x {\n\tstruct {\n\t\tint a;\n\t} in; /* nested */\n};", DOC_STRUCT,
					"struct { int a; } in=nested|"),
			members_are("enum x {\n\tA = 1, /* one */\n\tB /* two,\n\t   and more */\n};", DOC_ENUM,
					"A = 1=one|B=two,\nand more|"),
			members_are("enum x { A = 0, B = 1 };", DOC_ENUM, "A = 0=|B = 1=|"),
	};
	const size_t n_members = sizeof members / sizeof *members;
	int status = 0;

	printf("1..%zu\n", n_plants + n_members);
	for (size_t i = 0; i < n_plants; i++) {
		char text[512], error[256] = "";
		struct doc_header h;
		bool ok;
		snprintf(text, sizeof text, "/* x: a header. */\n%s", plants[i].text);
		ok = doc_read(&h, "x.h", text, error, sizeof error);
		ok = plants[i].error ? !ok && !strcmp(error, plants[i].error) : ok;
		printf("%sok %zu - self-test: %s\n%s%s%s", ok ? "" : "not ", i + 1, plants[i].title, ok ? "" : "# ",
				ok ? "" : error, ok ? "" : "\n");
		status |= !ok;
	}
	for (size_t i = 0; i < n_members; i++) {
		printf("%sok %zu - self-test: members %zu\n", members[i] ? "" : "not ", n_plants + i + 1, i + 1);
		status |= !members[i];
	}
	return status;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	const bool list = !strcmp(what, "--list"), abi = !strcmp(what, "--abi");
	const bool man = !strcmp(what, "--man"), markdown = !strcmp(what, "--markdown");
	const int first = list || abi ? 2 : 4;
	struct doc_header *headers;
	char error[4096];
	size_t n = 0;

	if (argc == 2 && !strcmp(what, "--self-test"))
		return self_test();
	if ((!list && !abi && !man && !markdown) || argc <= first) {
		fputs("usage: apidoc --man|--markdown DIR VERSION HEADER... | --list|--abi HEADER... | --self-test\n",
				stderr);
		return 2;
	}
	headers = doc_alloc((size_t)argc * sizeof *headers);
	for (int i = first; i < argc; i++) {
		const char *text = read_file(argv[i]);
		if (!text) {
			fprintf(stderr, "apidoc: %s: %s\n", argv[i], strerror(errno));
			return 4;
		}
		if (!doc_read(&headers[n++], argv[i], text, error, sizeof error)) {
			fprintf(stderr, "%s\n", error);
			return 1;
		}
	}
	for (size_t i = 0; list && i < n; i++)
		for (size_t k = 0; k < headers[i].n_items; k++)
			if (headers[i].items[k].kind == DOC_FUNC)
				puts(headers[i].items[k].name);
	if (abi)
		doc_write_abi(headers, n);
	if (markdown && mkdir(argv[2], 0777) && errno != EEXIST) {
		fprintf(stderr, "apidoc: %s: %s\n", argv[2], strerror(errno));
		return 4;
	}
	if ((man && !doc_write_man(headers, n, argv[2], argv[3], error, sizeof error)) ||
			(markdown && !doc_write_markdown(headers, n, argv[2], argv[3], error, sizeof error))) {
		fprintf(stderr, "apidoc: %s: %s\n", error, strerror(errno));
		return 4;
	}
	return 0;
}
