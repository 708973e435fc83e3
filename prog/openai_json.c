/* JSON in and out, as the API has it: errors, texts that may be any bytes, lines.
 *
 * Invariants
 *  1. What goes into a JSON string is UTF-8, whatever a model said: jansson takes nothing else.
 *  2. A text is parsed only if its values take a bounded amount of memory: {} is three bytes of a list, and 272 then.
 *  3. Numbers are printed with 9 digits, which tell any two floats apart. */
#include "openai.h"

#include "base/mem.h"
#include "base/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char replacement[] = "\xef\xbf\xbd";

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

/* Sizes are jansson's, of a 64-bit system, with malloc's own: a number 32, and 16 for its place in an array that
 * doubles; an array 48 and 80 for its first places, an object 80 and 144; a string 48 and 32 or more, a key about as
 * much. */
size_t openai_json_size(const char *bytes, size_t n)
{
	size_t sum = 0;
	bool in_string = false;

	for (size_t i = 0; i < n; i++) {
		const char c = bytes[i];
		if (in_string && c == '\\')
			i++;
		else if (c == '"')
			in_string = !in_string;
		if (in_string)
			sum += c == '"' ? 80 : 0;
		else
			sum += c == ',' ? 48 : c == '[' ? 128 : c == '{' ? 224 : 0;
	}
	return sum;
}

bool openai_json_fits(const char *bytes, size_t n)
{
	return openai_json_size(bytes, n) <= OPENAI_VALUES_MAX;
}

static bool escape(struct openai_buf *out, const char *s, size_t n)
{
	static const char digits[] = "0123456789abcdef";
	size_t from = 0;
	bool ok = true;

	for (size_t i = 0; i < n && ok; i++) {
		const unsigned char c = (unsigned char)s[i];
		char code[6] = {'\\', 'u', '0', '0', digits[c >> 4], digits[c & 15]};
		size_t n_code = 6;
		if (c >= 0x20 && c != '"' && c != '\\')
			continue;
		if (c >= 0x20 || c == '\n' || c == '\t' || c == '\r') {
			code[1] = c == '\n' ? 'n' : c == '\t' ? 't' : c == '\r' ? 'r' : (char)c;
			n_code = 2;
		}
		ok = openai_buf_add(out, s + from, i - from) && openai_buf_add(out, code, n_code);
		from = i + 1;
	}
	return ok && openai_buf_add(out, s + from, n - from);
}

/* Completes the character that was begun, with as many of the bytes as that takes. */
static bool complete(struct openai_escape *x, struct openai_buf *out, const char **bytes, size_t *n)
{
	while (x->n_part > 0 && *n > 0) {
		x->part[x->n_part] = **bytes;
		const size_t n_all = (size_t)x->n_part + 1;
		if (utf8_valid_prefix(x->part, n_all) == n_all) {
			x->n_part = 0;
			++*bytes;
			--*n;
			return openai_buf_add(out, x->part, n_all);
		}
		if (utf8_unfinished_tail(x->part, n_all) < n_all) {
			x->n_part = 0;
			x->skip = true;
			return openai_buf_add(out, replacement, 3);
		}
		x->n_part++;
		++*bytes;
		--*n;
	}
	return true;
}

bool openai_escape_add(struct openai_escape *x, struct openai_buf *out, const char *bytes, size_t n, bool last)
{
	bool ok = complete(x, out, &bytes, &n);

	while (n > 0 && ok) {
		for (; n > 0 && x->skip && ((unsigned char)*bytes & 0xc0) == 0x80; n--)
			bytes++;
		if (n == 0)
			break;
		x->skip = false;
		const size_t good = utf8_valid_prefix(bytes, n);
		ok = escape(out, bytes, good);
		bytes += good;
		n -= good;
		if (n == 0 || !ok)
			break;
		if (n < sizeof x->part && utf8_unfinished_tail(bytes, n) == n) {
			memcpy(x->part, bytes, n);
			x->n_part = (uint8_t)n;
			break;
		}
		ok = openai_buf_add(out, replacement, 3);
		bytes++;
		n--;
		x->skip = true;
	}
	if (last && ok && x->n_part > 0)
		ok = openai_buf_add(out, replacement, 3);
	if (last)
		*x = (struct openai_escape){0};
	return ok;
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

/* jansson does not look at what becomes of an object's keys. */
struct dump {
	struct openai_buf *to;
	bool failed;
};

static int dumped(const char *bytes, size_t n, void *user)
{
	struct dump *d = user;

	d->failed = d->failed || !openai_buf_add(d->to, bytes, n);
	return d->failed ? -1 : 0;
}

bool openai_dump(struct openai_buf *b, const json_t *value)
{
	const size_t flags = JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(9);
	struct dump d = {.to = b};

	return value && json_dump_callback(value, dumped, &d, flags) == 0 && !d.failed;
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
