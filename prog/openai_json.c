/* JSON in and out, as the API has it: errors, texts that may be any bytes, lines.
 *
 * Invariants
 *  1. What goes into a JSON string is UTF-8, whatever a model said: jansson takes nothing else.
 *  2. Numbers are printed with 9 digits, which tell any two floats apart. */
#include "openai.h"

#include "base/mem.h"
#include "base/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void set_error(struct openai_error *e, int status, const char *type, const char *param, const char *code)
{
	*e = (struct openai_error){.status = status, .type = type, .code = code};
	snprintf(e->param, sizeof e->param, "%s", param ? param : "");
}

bool openai_refuse(struct openai_error *e, const char *param, const char *code, const char *fmt, ...)
{
	va_list ap;

	set_error(e, 400, "invalid_request_error", param, code);
	va_start(ap, fmt);
	vsnprintf(e->message, sizeof e->message, fmt, ap);
	va_end(ap);
	return false;
}

bool openai_no_memory(struct openai_error *e)
{
	set_error(e, 500, "server_error", NULL, OPENAI_NO_MEMORY);
	snprintf(e->message, sizeof e->message, "out of memory");
	return false;
}

json_t *openai_error_json(const struct openai_error *e)
{
	return json_pack("{s:{s:o, s:s, s:o, s:s?}}", "error", "message", openai_text(e->message, strlen(e->message)),
			"type", e->type, "param", *e->param ? openai_text(e->param, strlen(e->param)) : json_null(),
			"code", e->code);
}

json_t *openai_text(const char *bytes, size_t n)
{
	static const char replacement[] = "\xef\xbf\xbd";
	struct openai_buf b = {0};
	json_t *text = NULL;
	bool ok = true;

	if (n == 0)
		return json_string(""); /* bytes may be NULL then */
	if (utf8_valid_prefix(bytes, n) == n)
		return json_stringn(bytes, n);
	while (n > 0 && ok) {
		const size_t good = utf8_valid_prefix(bytes, n);
		ok = openai_buf_add(&b, bytes, good);
		bytes += good;
		n -= good;
		if (n > 0 && ok) {
			ok = openai_buf_add(&b, replacement, 3);
			bytes++;
			n--;
			/* The rest of a character that was cut is one mistake, not several. */
			for (; n > 0 && ((unsigned char)*bytes & 0xc0) == 0x80; n--)
				bytes++;
		}
	}
	if (ok)
		text = json_stringn(b.p, b.n);
	openai_buf_release(&b);
	return text;
}

bool openai_buf_add(struct openai_buf *b, const char *bytes, size_t n)
{
	size_t want;
	if (!size_add(b->n, n, &want) || !mem_grow((void **)&b->p, &b->n_max, want, 1))
		return false;
	if (n > 0)
		memcpy(b->p + b->n, bytes, n);
	b->n = want;
	return true;
}

void openai_buf_release(struct openai_buf *b)
{
	mem_free(b->p);
	*b = (struct openai_buf){0};
}

static int dumped(const char *bytes, size_t n, void *user)
{
	return openai_buf_add(user, bytes, n) ? 0 : -1;
}

bool openai_dump(struct openai_buf *b, const json_t *value)
{
	return value &&
			json_dump_callback(value, dumped, b, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(9)) ==
			0;
}

const char *openai_kind(const json_t *value)
{
	switch (value ? json_typeof(value) : JSON_NULL) {
	case JSON_OBJECT: return "an object";
	case JSON_ARRAY: return "an array";
	case JSON_STRING: return "a string";
	case JSON_INTEGER: return "a whole number";
	case JSON_REAL: return "a number";
	case JSON_TRUE: return "true";
	case JSON_FALSE: return "false";
	default: return "null";
	}
}

json_t *openai_field(const struct openai_request *r, const char *name)
{
	json_t *v = json_object_get(r->body, name);
	return json_is_null(v) ? NULL : v;
}
