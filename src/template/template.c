/* Chat templates for the outside: opening, rendering, and what a template sees.
 *
 * Invariants
 *  1. An open template is never written to: everything a rendering makes is its own and freed with it.
 *  2. Whatever the template and the data are, a rendering ends: by its text, or by a status that names the limit or the
 *     mistake and the line. */
#include "template/tmpl.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/params.h"
#include "base/utf8.h"
#include "cohort_tools.h"

#include <string.h>

struct cohort_template {
	struct run run; /* the arena of the nodes */
	size_t n_source;
	struct dict syms;
	struct nodes body;
};

/* Limits of opening: the text is parsed in one pass, so they bound its size. */
enum { SOURCE_BYTES_MAX = 1 << 22 };

/* Limits of a rendering that are not given: so much by itself and for each byte of the template and of its data, and
 * so much at most. Public templates take up to 17 steps and 100 bytes for a byte of data, those that put a long list of
 * tools together piece by piece the most. */
#define STEPS_BASE 2000000
#define STEPS_BYTE 64
#define STEPS_MAX 20000000
#define BYTES_BASE ((size_t)8 << 20)
#define BYTES_BYTE 128
#define BYTES_MAX ((size_t)512 << 20)

static enum cohort_status report(const struct run *r, struct cohort_err *err)
{
	char text[sizeof r->message];
	size_t n = utf8_valid_prefix(r->message, strlen(r->message)); /* a long message may be cut within a character */

	memcpy(text, r->message, n);
	text[n] = '\0';
	for (size_t i = 0; i < n; i++) /* one line */
		if ((uint8_t)text[i] < ' ')
			text[i] = ' ';
	if (!r->failed_line)
		return err_set(err, r->status, "%s", text);
	return err_rule(err, r->status, "template", r->failed_line, -1, 0, 0, "template, line %u: %s", r->failed_line,
			text);
}

enum cohort_status cohort_template_open(
		const char *source, size_t n_bytes, struct cohort_template **out, struct cohort_err *err)
{
	if (!out)
		return err_set(err, COHORT_E_ARG, "out is NULL");
	if (!source)
		return err_set(err, COHORT_E_ARG, "source is NULL");
	if (n_bytes > SOURCE_BYTES_MAX)
		return err_set(err, COHORT_E_LIMIT, "a template of more than %d bytes", SOURCE_BYTES_MAX);
	const size_t valid = utf8_valid_prefix(source, n_bytes);
	if (valid < n_bytes)
		return err_at(err, COHORT_E_FORMAT, valid, "the template is not UTF-8");
	struct cohort_template *t = mem_zalloc(1, sizeof *t);
	if (!t)
		return err_set(err, COHORT_E_MEMORY, "out of memory");
	t->n_source = n_bytes;
	struct run *r = &t->run;
	*r = (struct run){.line = 1, .n_bytes_max = (size_t)1 << 30, .n_steps_max = UINT64_MAX, .depth_max = 1000};
	struct parse p = {.r = r, .syms = &t->syms};
	static const char *const first[N_SYMS] = {"loop", "caller", "kwargs", "varargs"};
	for (size_t i = 0; i < N_SYMS && !r->failed; i++)
		sym_of(&p, val_z(first[i]));
	if (r->failed || !tmpl_lex(r, source, n_bytes, &p.tokens) || !parse_template(&p, &t->body)) {
		const enum cohort_status st = report(r, err);
		cohort_template_free(t);
		return st;
	}
	*out = t;
	return COHORT_OK;
}

void cohort_template_free(struct cohort_template *t)
{
	if (t) {
		tmpl_release(&t->run);
		mem_free(t);
	}
}

void cohort_template_params_init(struct cohort_template_params *p)
{
	if (p)
		*p = (struct cohort_template_params){.struct_size = sizeof *p,
				.add_generation_prompt = true,
				.n_steps_max = UINT64_MAX,
				.n_out_max = (size_t)64 << 20,
				.n_bytes_max = SIZE_MAX,
				.depth_max = 400};
}

/* ---- What a template sees ---- */

static struct val token_text(struct run *r, const char *s, const char *what)
{
	if (!s)
		return val_missing;
	if (utf8_valid_prefix(s, strlen(s)) < strlen(s))
		tmpl_fail(r, COHORT_E_ARG, "%s is not UTF-8", what);
	return val_z(s);
}

static struct val json_or(struct run *r, const char *s, const char *what, struct val absent)
{
	return s && !r->failed ? json_read(r, s, strlen(s), what) : absent;
}

static bool set_globals(struct run *r, const struct cohort_template_params *p)
{
	struct val vars = val_dict(r);
	const struct val messages = json_or(r, p->messages, "messages", val_missing);
	const struct val extra = json_or(r, p->extra, "extra", val_missing);

	if (r->failed)
		return false;
	if (messages.type != V_MISSING && messages.type != V_LIST)
		return tmpl_fail(r, COHORT_E_ARG, "messages must be a JSON array");
	if (extra.type != V_MISSING && extra.type != V_DICT)
		return tmpl_fail(r, COHORT_E_ARG, "extra must be a JSON object");
	const struct {
		const char *name;
		struct val v;
	} given[] = {
			{"messages", messages},
			{"tools", json_or(r, p->tools, "tools", val_missing)},
			{"documents", json_or(r, p->documents, "documents", val_missing)},
			{"bos_token", token_text(r, p->bos_token, "bos_token")},
			{"eos_token", token_text(r, p->eos_token, "eos_token")},
			{"add_generation_prompt", val_bool(p->add_generation_prompt)},
	};
	for (size_t i = 0; i < sizeof given / sizeof *given && !r->failed; i++)
		if (given[i].v.type != V_MISSING)
			dict_set(r, vars.u.dict, val_z(given[i].name), given[i].v);
	for (uint32_t i = 0; extra.type == V_DICT && i < extra.u.dict->n && !r->failed; i++)
		dict_set(r, vars.u.dict, extra.u.dict->pairs[i].key, extra.u.dict->pairs[i].value);
	r->globals = tmpl_alloc(r, r->syms->n, sizeof *r->globals);
	for (size_t i = 0; i < r->syms->n && !r->failed; i++) {
		const struct val name = r->syms->pairs[i].key;
		r->globals[i] = dict_get(r, vars.u.dict, name, false);
		if (r->globals[i].type == V_MISSING)
			r->globals[i] = global_find(r, name);
	}
	return !r->failed;
}

/* Sets the limits that the caller left open. */
static void set_limits(struct cohort_template_params *p, size_t n_source)
{
	const char *const data[] = {p->messages, p->tools, p->documents, p->extra};
	size_t n = n_source;

	for (size_t i = 0; i < sizeof data / sizeof *data; i++)
		n += data[i] ? strlen(data[i]) : 0;
	if (p->n_steps_max == UINT64_MAX)
		p->n_steps_max = n < (STEPS_MAX - STEPS_BASE) / STEPS_BYTE ? STEPS_BASE + n * STEPS_BYTE : STEPS_MAX;
	if (p->n_bytes_max == SIZE_MAX)
		p->n_bytes_max = n < (BYTES_MAX - BYTES_BASE) / BYTES_BYTE ? BYTES_BASE + n * BYTES_BYTE : BYTES_MAX;
}

enum cohort_status cohort_template_render(const struct cohort_template *t, const struct cohort_template_params *params,
		char **out, size_t *n_out, struct cohort_err *err)
{
	struct cohort_template_params p;

	if (!t || !out || !n_out)
		return err_set(err, COHORT_E_ARG, "%s is NULL", !t ? "template" : out ? "n_out" : "out");
	cohort_template_params_init(&p);
	if (params && !params_take(&p, sizeof p, params))
		return err_set(err, COHORT_E_ARG, "params were not set by cohort_template_params_init");
	set_limits(&p, t->n_source);
	struct run r = {.n_steps_max = p.n_steps_max,
			.n_bytes_max = p.n_bytes_max,
			.n_out_max = p.n_out_max,
			.depth_max = p.depth_max,
			.syms = &t->syms};
	if (p.now && !time_read(p.now, &r.now))
		return err_set(err, COHORT_E_ARG, "now must look like 2025-01-02T03:04:05");
	r.has_now = p.now != NULL;
	r.scope = scope_open(&r, NULL);
	if (r.scope && set_globals(&r, &p) && exec_root(&r, t->body.at, t->body.n)) {
		/* One byte more, so that the text can be used as a string of C. */
		buf_add(&r, &r.out, "", 1);
	}
	enum cohort_status st = COHORT_OK;
	if (r.failed) {
		st = report(&r, err);
	} else {
		*out = r.out.p;
		*n_out = r.out.n - 1;
		r.out = (struct bytes){0};
	}
	tmpl_release(&r);
	return st;
}

void cohort_template_text_free(char *text)
{
	mem_free(text);
}
