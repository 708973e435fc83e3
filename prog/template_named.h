/* Chat templates by name or by file, as -chat-template has them in all programs. */
#ifndef PROG_TEMPLATE_NAMED_H
#define PROG_TEMPLATE_NAMED_H

#include <stddef.h>

/* For help and errors: "chatml, gemma, ...". */
#define TEMPLATE_NAMES "chatml, gemma, llama2, llama3, phi3, plain, vicuna, zephyr"
/* The same for completions. */
#define TEMPLATE_ARG "chatml|gemma|llama2|llama3|phi3|plain|vicuna|zephyr|FILE"

#define TEMPLATE_HELP \
	"chat template: a name, a Jinja file, or a name that the model's file has (default: the model's own)"

/* The source of a template of that name; NULL: there is none. */
const char *template_named(const char *name);

/* What -chat-template says: one of the names, one of the model's named templates, or a file; or, with choice NULL, the
 * model's own, *text NULL if it has none. model: its file, NULL: the built-in one. *text [*n] is freed with mem_free.
 * Returns 0, or an exit code after saying why. */
int template_find(const char *prog, const char *model, const char *choice, char **text, size_t *n);

#endif
