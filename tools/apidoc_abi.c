/* A C program that prints what of the headers a compiled program depends on: one line for each function, struct, field,
 * value and type, "KIND NAME" and behind a tab what it is. Sizes and offsets are those of the compiler that compiles
 * it. tools/abi.sh compares what it prints with what is stored. */
#include "apidoc.h"

#include <ctype.h>
#include <string.h>

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

/* As a string of C. */
static void put_quoted(const char *text, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (text[i] == '"' || text[i] == '\\')
			putchar('\\');
		putchar(text[i]);
		if (text[i] == '%')
			putchar('%');
	}
}

/* The name in a declarator: "(*name)(...)", or the word before [ or the end. */
static const char *declared(const char *from, const char *to, size_t *n)
{
	const char *p = from, *end;
	int depth = 0;

	for (; p < to; p++) { /* what is within braces is not looked at */
		depth += *p == '{';
		depth -= *p == '}';
		if (depth == 0 && p + 1 < to && p[0] == '(' && p[1] == '*') {
			for (p += 2, end = p; end < to && is_word(*end); end++)
				;
			*n = (size_t)(end - p);
			return p;
		}
		if (depth == 0 && *p == '[')
			break;
	}
	while (p > from && !is_word(p[-1]))
		p--;
	for (end = p; p > from && is_word(p[-1]); p--)
		;
	*n = (size_t)(end - p);
	return p;
}

/* A line for each of the names that a member declares. */
static void put_member(const char *tag, const char *decl)
{
	const char *base_end = NULL;

	for (const char *from = decl; *from;) {
		const char *to = from, *name;
		size_t n_name;
		for (int depth = 0; *to && (depth > 0 || *to != ','); to++) {
			depth += *to == '(' || *to == '{' || *to == '[';
			depth -= *to == ')' || *to == '}' || *to == ']';
		}
		name = declared(from, to, &n_name);
		if (!base_end) { /* "const char *" of the first is "const char " to the others */
			base_end = name;
			while (*to == ',' && base_end > decl && (base_end[-1] == '*' || base_end[-1] == ' '))
				base_end--;
		}
		printf("\tprintf(\"field %s.%.*s\\toffset %%zu size %%zu\\t", tag, (int)n_name, name);
		if (from > decl) {
			put_quoted(decl, (size_t)(base_end - decl));
			putchar(' ');
			from += strspn(from, " ");
		}
		put_quoted(from, (size_t)(name - from));
		put_quoted(name + n_name, (size_t)(to - name) - n_name);
		printf("\\n\", offsetof(struct %s, %.*s), sizeof ((struct %s *)0)->%.*s);\n", tag, (int)n_name, name,
				tag, (int)n_name, name);
		from = to + (*to == ',');
		from += strspn(from, " ");
	}
}

static void put_item(const struct doc_item *item)
{
	struct doc_member *members;
	size_t n;

	switch (item->kind) {
	case DOC_FUNC:
		printf("\tprintf(\"func %s\\t", item->name);
		put_quoted(item->decl, strlen(item->decl));
		puts("\\n\");");
		break;
	case DOC_TYPE:
		printf("\tprintf(\"type \\t");
		put_quoted(item->decl, strlen(item->decl));
		puts("\\n\");");
		break;
	case DOC_DEFINE:
		if (!strncmp(item->name, "COHORT_VERSION_", 15))
			break; /* says which one it is, not what it is like */
		if (strchr(item->decl, '"'))
			printf("\tprintf(\"const %s\\t%%s\\n\", %s);\n", item->name, item->name);
		else
			printf("\tprintf(\"const %s\\t%%lld\\n\", (long long)(%s));\n", item->name, item->name);
		break;
	case DOC_ENUM:
		n = doc_members(item, &members);
		for (size_t i = 0; i < n; i++) {
			size_t n_name = 0;
			while (is_word(members[i].decl[n_name]))
				n_name++;
			printf("\tprintf(\"value %.*s\\t%%lld\\n\", (long long)%.*s);\n", (int)n_name, members[i].decl,
					(int)n_name, members[i].decl);
		}
		break;
	case DOC_STRUCT:
		printf("\tprintf(\"struct %s\\tsize %%zu align %%zu\\n\", sizeof(struct %s), _Alignof(struct %s));\n",
				item->name, item->name, item->name);
		n = doc_members(item, &members);
		for (size_t i = 0; i < n; i++)
			put_member(item->name, members[i].decl);
		break;
	default: break;
	}
}

void doc_write_abi(const struct doc_header *headers, size_t n)
{
	puts("#include <stdio.h>");
	for (size_t i = 0; i < n; i++)
		printf("#include <%s>\n", headers[i].name);
	puts("int main(void)\n{");
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < headers[i].n_items; k++)
			put_item(&headers[i].items[k]);
	puts("\treturn 0;\n}");
}
