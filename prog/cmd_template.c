/* cohort template: a conversation as the text that a model was trained on, by its chat template. */
#include "cmd.h"
#include "cohort_tools.h"
#include "common.h"
#include "opt.h"
#include "template_named.h"
#include "term.h"

#include "base/err.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

static const char prog[] = "cohort template";

enum { TEXT_BYTES_MAX = 1 << 29 };

struct options {
	const char *template, *model, *name, *messages, *tools, *documents, *extra, *bos, *eos, *now;
	bool no_prompt;
};

/* What the rendering needs; all owned, NULL if absent. */
struct texts {
	char *source, *messages, *tools, *documents, *bos, *eos;
	size_t n_source;
};

static int read_text(const char *path, char **out, size_t *n)
{
	struct cohort_err err;
	size_t n_bytes;
	if (!path)
		return 0;
	if (file_read(path, TEXT_BYTES_MAX, out, &n_bytes, &err)) {
		fail(prog, &err);
		return EXIT_FILE;
	}
	if (!n && memchr(*out, 0, n_bytes)) {
		fprintf(stderr, "%s: %s holds a NUL byte and so is not JSON\n", prog, path);
		return EXIT_FILE;
	}
	if (n)
		*n = n_bytes;
	return 0;
}

/* ---- The model's own ---- */

/* The text of the token whose number a key holds; *out stays NULL if there is none. */
static bool token_text(const struct cohort_gguf *g, const char *key, char **out)
{
	struct cohort_gguf_kv id, tokens;
	struct cohort_gguf_cursor c;
	struct cohort_gguf_value v;

	if (*out || !cohort_gguf_kv_find(g, key, &id) || !cohort_gguf_kv_find(g, "tokenizer.ggml.tokens", &tokens))
		return true;
	cohort_gguf_cursor_init(&c, &tokens.value);
	const uint64_t i = id.value.u + (uint64_t)id.value.i;
	if (!cohort_gguf_cursor_seek(&c, i) || !cohort_gguf_cursor_next(&c, &v) || v.type != COHORT_GGUF_STRING)
		return true;
	*out = mem_strndup(v.str, v.n_str);
	return *out != NULL;
}

static int from_model(const struct options *o, struct texts *t)
{
	struct cohort_gguf *g = NULL;
	struct cohort_gguf_kv kv;
	struct cohort_err err;
	char key[256] = "tokenizer.chat_template";
	int rc = 0;

	const char *path = o->model ? o->model : builtin_model(prog);
	if (!path)
		return EXIT_MODEL;
	if (cohort_gguf_open(path, &g, &err)) {
		fprintf(stderr, "%s: cannot use the model %s\n", prog, err.text);
		return EXIT_MODEL;
	}
	if (o->name)
		snprintf(key, sizeof key, "tokenizer.chat_template.%s", o->name);
	if (!cohort_gguf_kv_find(g, key, &kv) || kv.value.type != COHORT_GGUF_STRING) {
		fprintf(stderr, "%s: the model %s has no text %s\n", prog, path, key);
		rc = EXIT_MODEL;
	} else {
		t->source = mem_strndup(kv.value.str, kv.value.n_str);
		t->n_source = kv.value.n_str;
		if (!t->source || !token_text(g, "tokenizer.ggml.bos_token_id", &t->bos) ||
				!token_text(g, "tokenizer.ggml.eos_token_id", &t->eos))
			rc = out_of_memory(prog);
	}
	cohort_gguf_free(g);
	return rc;
}

static int from_choice(const struct options *o, struct texts *t)
{
	const char *source = template_named(o->template);

	if (!source)
		return read_text(o->template, &t->source, &t->n_source);
	t->n_source = strlen(source);
	t->source = mem_strndup(source, t->n_source);
	return t->source ? 0 : out_of_memory(prog);
}

/* ---- An object with messages and tools in it ---- */

static bool take_part(const json_t *object, const char *key, char **out)
{
	const json_t *part = json_object_get(object, key);
	if (!part || *out)
		return true;
	const size_t n = json_dumpb(part, NULL, 0, JSON_ENCODE_ANY);
	*out = mem_zalloc(n + 1, 1);
	if (*out)
		json_dumpb(part, *out, n, JSON_ENCODE_ANY);
	return *out != NULL;
}

static int split_request(const struct options *o, struct texts *t)
{
	struct cohort_err err;
	json_error_t e;
	const char *s = t->messages + strspn(t->messages, " \t\r\n");
	bool no_memory;
	int rc = 0;

	if (*s != '{')
		return 0;
	json_t *object = json_parse(s, strlen(s), 0, &e, &no_memory);
	if (no_memory)
		return out_of_memory(prog);
	if (!object) {
		err_set(&err, COHORT_E_FORMAT, "%s is not JSON: %s, line %d", o->messages, e.text, e.line);
		fail(prog, &err);
		return EXIT_FILE;
	}
	if (!json_is_array(json_object_get(object, "messages"))) {
		fprintf(stderr, "%s: %s is neither an array of messages nor an object with one as \"messages\"\n", prog,
				o->messages);
		rc = EXIT_FILE;
	} else {
		mem_free(t->messages);
		t->messages = NULL;
		if (!take_part(object, "messages", &t->messages) || !take_part(object, "tools", &t->tools) ||
				!take_part(object, "documents", &t->documents))
			rc = out_of_memory(prog);
	}
	json_decref(object);
	return rc;
}

/* ---- */

static int render(const struct options *o, const struct texts *t)
{
	struct cohort_template_params p;
	struct cohort_template *template = NULL;
	struct cohort_err err;
	char *text = NULL;
	size_t n = 0;
	int rc;

	/* What is wrong with a model's template is said with the model's name. */
	const char *path = o->model ? o->model : "the built-in model";
	if (cohort_template_open(t->source, t->n_source, &template, &err)) {
		if (!o->template)
			err_prefix(&err, "%s", path);
		rc = fail(prog, &err);
		return err.status == COHORT_E_MEMORY ? rc : o->template ? EXIT_FILE : EXIT_MODEL;
	}
	cohort_template_params_init(&p);
	p.messages = t->messages;
	p.tools = t->tools;
	p.documents = t->documents;
	p.extra = o->extra;
	p.bos_token = t->bos;
	p.eos_token = t->eos;
	p.add_generation_prompt = !o->no_prompt;
	p.now = o->now;
	if (cohort_template_render(template, &p, &text, &n, &err)) {
		const bool refused = err.row >= 0; /* by the template, not for the command line */
		if (refused && !o->template)
			err_prefix(&err, "%s", path);
		rc = fail(prog, &err);
		if (refused)
			rc = EXIT_RUN;
		else if (err.status == COHORT_E_FORMAT && strncmp(err.text, "extra", 5) == 0)
			rc = EXIT_USAGE;
		else if (err.status == COHORT_E_FORMAT || (rc == EXIT_USAGE && strncmp(err.text, "messages", 8) == 0))
			rc = EXIT_FILE;
	} else {
		term_print(stdout, text, n);
		rc = close_stdout(prog);
	}
	cohort_template_text_free(text);
	cohort_template_free(template);
	return rc;
}

static int check(const struct options *o)
{
	const char *const files[] = {o->template, o->messages, o->tools, o->documents};
	int n_stdin = 0;

	for (size_t i = 0; i < sizeof files / sizeof *files; i++)
		n_stdin += files[i] && strcmp(files[i], "-") == 0;
	if (!o->messages)
		return bad_usage(prog, "give the conversation with --messages FILE");
	if (o->template && (o->model || o->name))
		return bad_usage(prog, "--chat-template goes without --model and --name");
	if (n_stdin > 1)
		return bad_usage(prog, "only one file can be standard input");
	return 0;
}

int cmd_template(int argc, char **argv)
{
	struct options o = {0};
	struct texts t = {0};
	size_t n = 0;
	const struct opt opts[] = {
			{"chat-template", "chat-template-file|template", OPT_STR, &o.template, 0, 0, TEMPLATE_ARG,
					"the template: a name, or a Jinja file; - is standard input", NULL},
			{"model", "m", OPT_STR, &o.model, 0, 0, "FILE.gguf",
					"take the template, BOS and EOS of this GGUF model (default: the built-in one)",
					NULL},
			{"name", NULL, OPT_STR, &o.name, 0, 0, "NAME",
					"one of the model's named templates (tool_use, rag)", NULL},
			{"messages", NULL, OPT_STR, &o.messages, 0, 0, "FILE",
					"JSON: an array of messages, or an object with \"messages\" and "
					"perhaps \"tools\" and "
					"\"documents\"",
					NULL},
			{"tools", NULL, OPT_STR, &o.tools, 0, 0, "FILE", "JSON for the variable tools", NULL},
			{"documents", NULL, OPT_STR, &o.documents, 0, 0, "FILE", "JSON for the variable documents",
					NULL},
			{"extra", NULL, OPT_STR, &o.extra, 0, 0, "JSON", "an object of further variables", NULL},
			{"bos", NULL, OPT_STR, &o.bos, 0, 0, "TEXT", "the variable bos_token", NULL},
			{"eos", NULL, OPT_STR, &o.eos, 0, 0, "TEXT", "the variable eos_token", NULL},
			{"no-generation-prompt", NULL, OPT_FLAG, &o.no_prompt, 0, 0, NULL,
					"end with the last message, not with the beginning of an answer", NULL},
			{"now", NULL, OPT_STR, &o.now, 0, 0, "TIME",
					"the time that the template sees, like 2025-01-02T03:04:05 (default: the "
					"clock's)",
					NULL},
	};
	const struct opt_prog p = {
			prog,
			"[-m FILE | --chat-template FILE] --messages FILE [options]",
			"Prints a conversation as the text that a model was trained on, by its chat template.\n"
			"docs/templates.md tells what a template may do.",
			"  cohort template --messages chat.json\n"
			"  cohort template -m model.gguf --messages request.json --no-generation-prompt\n"
			"  cohort template --chat-template chat.jinja --messages - --bos '<s>' --extra "
			"'{\"enable_thinking\": false}' < chat.json\n",
			opts,
			sizeof opts / sizeof *opts,
	};
	int rc = opt_parse(&p, argc, argv, 2, NULL, 0, &n);
	if (rc)
		return rc - 1;
	rc = check(&o);
	if (rc)
		return rc;
	if ((o.bos && !(t.bos = mem_strndup(o.bos, strlen(o.bos)))) ||
			(o.eos && !(t.eos = mem_strndup(o.eos, strlen(o.eos)))))
		rc = out_of_memory(prog);
	if (!rc)
		rc = o.template ? from_choice(&o, &t) : from_model(&o, &t);
	if (!rc)
		rc = read_text(o.messages, &t.messages, NULL);
	if (!rc)
		rc = read_text(o.tools, &t.tools, NULL);
	if (!rc)
		rc = read_text(o.documents, &t.documents, NULL);
	if (!rc)
		rc = split_request(&o, &t);
	if (!rc)
		rc = render(&o, &t);
	mem_free(t.source);
	mem_free(t.messages);
	mem_free(t.tools);
	mem_free(t.documents);
	mem_free(t.bos);
	mem_free(t.eos);
	return rc;
}
