/* Calls of tools in what a model says, found while it says it.
 *
 * A call is: an opening (a tag, or the beginning of the text), a JSON value, and where the style has one a closing tag.
 * The value's end is found by its brackets; only then it is parsed.
 *
 * Invariants
 *  1. What is found does not depend on the pieces the text comes in.
 *  2. Text that turns out to be no call is text, all of it, in its place. Whitespace in front of a call belongs to the
 *     call; at the end of a text with calls it is dropped.
 *  3. A call has the name of a tool of the request and an object of arguments.
 *  4. The work is linear: a byte that cannot be in JSON ends a value at once, so that an opening which is looked at
 * twice is rejected within a few bytes. */
#include "openai.h"

#include "base/json.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>

enum {
	SEEK = 0, /* an opening */
	OPENED, /* behind it, before the value */
	VALUE,
	CLOSE, /* behind the value, a closing tag follows */
	PLAIN /* nothing but text from here on */
};
enum found { MORE, YES, NO }; /* MORE: bytes are needed to tell */

static const char tag_open[] = "<tool_call>", tag_close[] = "</tool_call>", list_open[] = "[TOOL_CALLS]";
static const char bare_tag[] = "<|python_tag|>";

static bool is_space(char c)
{
	return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

static const char *text_of(const struct openai_calls *c)
{
	return c->held.p + c->n_gone;
}

static size_t size_of(const struct openai_calls *c)
{
	return c->held.n - c->n_gone;
}

/* The text from `at` on begins with the word. */
static enum found begins(const struct openai_calls *c, size_t at, const char *word)
{
	const size_t n = strlen(word), n_have = size_of(c) - at;

	if (memcmp(text_of(c) + at, word, n_have < n ? n_have : n) != 0)
		return NO;
	return n_have < n ? MORE : YES;
}

static void skip_space(struct openai_calls *c)
{
	while (c->pos < size_of(c) && is_space(text_of(c)[c->pos]))
		c->pos++;
}

/* The first n bytes of what is held are text. */
static bool put_text(struct openai_calls *c, size_t n, struct openai_buf *text)
{
	if (n > 0 && !openai_buf_add(text, text_of(c), n))
		return false;
	c->n_gone += n;
	return true;
}

/* ---- Openings ---- */

/* Finds a tag: at_open is where it begins, or may begin; pos is behind it. */
static enum found seek_tag(struct openai_calls *c, const char *tag)
{
	for (; c->pos < size_of(c); c->pos++) {
		const char *p = memchr(text_of(c) + c->pos, *tag, size_of(c) - c->pos);
		c->pos = p ? (size_t)(p - text_of(c)) : size_of(c);
		const enum found f = p ? begins(c, c->pos, tag) : MORE;
		if (f == NO)
			continue;
		c->at_open = c->pos;
		c->pos += f == YES ? strlen(tag) : 0;
		return f;
	}
	c->at_open = c->pos;
	return MORE;
}

/* The opening of a call that needs no tag: nothing but whitespace is before it, and between calls a ';'. */
static enum found seek_bare(struct openai_calls *c, char first)
{
	while (c->pos < size_of(c) && (is_space(text_of(c)[c->pos]) || (c->n_calls > 0 && text_of(c)[c->pos] == ';')))
		c->pos++;
	if (c->pos == size_of(c))
		return MORE;
	if (text_of(c)[c->pos] == first)
		return YES;
	const enum found f = c->n_calls > 0 ? NO : begins(c, c->pos, bare_tag);
	if (f == YES)
		c->pos += strlen(bare_tag);
	return f;
}

/* ---- The value ---- */

/* Goes on to the end of the value, which begins with a bracket. */
static enum found scan_value(struct openai_calls *c)
{
	while (c->pos < size_of(c)) {
		const char ch = text_of(c)[c->pos++];
		if (c->in_string) {
			if (c->escaped)
				c->escaped = false;
			else if (ch == '\\')
				c->escaped = true;
			else if (ch == '"')
				c->in_string = false;
		} else if (ch == '"') {
			c->in_string = true;
		} else if (ch == '{' || ch == '[') {
			c->depth++;
		} else if (ch == '}' || ch == ']') {
			if (--c->depth == 0)
				return YES;
		} else if (!ch || !strchr(" \n\t\r,:+-.0123456789Eaeflnrstu", ch)) {
			return NO;
		}
	}
	return MORE;
}

/* ---- What a value calls ---- */

static bool is_tool(const struct openai_request *r, const char *name)
{
	for (size_t i = 0; i < json_array_size(r->tools); i++) {
		const json_t *f = json_object_get(json_array_get(r->tools, i), "function");
		const char *known = json_string_value(json_object_get(f, "name"));
		if (known && strcmp(known, name) == 0)
			return true;
	}
	return false;
}

/* ---- Places in JSON that was parsed, so that it is known to be right ---- */

static const char *behind_space(const char *p)
{
	while (is_space(*p))
		p++;
	return p;
}

static const char *behind_value(const char *p, const char *end)
{
	uint32_t depth = 0;
	bool in_string = false;

	for (; p < end; p++) {
		if (in_string) {
			if (*p == '\\')
				p++;
			else
				in_string = *p != '"';
		} else if (*p == '"') {
			in_string = true;
		} else if (*p == '{' || *p == '[') {
			depth++;
		} else if ((*p == ',' || *p == '}' || *p == ']') && depth == 0) {
			break;
		} else if (*p == '}' || *p == ']') {
			depth--;
		}
	}
	return p;
}

/* The text of the object that is a call's arguments, as the model wrote it; NULL: there is none. */
static const char *find_arguments(const char *call, const char *end, size_t *n)
{
	const char *p = behind_space(call + 1);

	while (*p == '"') {
		const bool named = strncmp(p, "\"arguments\"", 11) == 0 || strncmp(p, "\"parameters\"", 12) == 0;
		const char *key_end = p + 1;
		for (; *key_end != '"'; key_end++)
			key_end += *key_end == '\\';
		p = behind_space(behind_space(key_end + 1) + 1);
		const char *value = p;
		p = behind_value(p, end);
		*n = (size_t)(p - value);
		while (*n > 0 && is_space(value[*n - 1]))
			--*n;
		if (named)
			return *value == '{' ? value : NULL;
		p = *p == ',' ? behind_space(p + 1) : p;
	}
	return NULL;
}

/* ---- Calls ---- */

/* Differs from call to call of a conversation, as that grows, and is the same for the same request. Mistral's templates
 * want nine letters and digits. */
static void name_call(const struct openai_request *r, size_t choice, int k, char out[32])
{
	static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyz";
	uint64_t x = r->call_seed ^ ((uint64_t)choice << 20 | (uint64_t)k);
	char *p = out;

	/* Neighbours become unlike each other. */
	x = (x ^ x >> 31) * 0x9e3779b97f4a7c15ULL;
	x = (x ^ x >> 29) * 0xbf58476d1ce4e5b9ULL;
	x ^= x >> 32;
	if (r->calls != OPENAI_CALLS_LISTED)
		p += sprintf(p, "call_");
	for (int i = 0; i < 9; i++, x /= 36)
		*p++ = digits[x % 36];
	*p = 0;
}

/* Takes one call; *good false: it is none. False: out of memory. */
static bool add_call(struct openai_calls *c, const struct openai_request *r, size_t choice, const json_t *call,
		const char *text, const char *end, bool *good, json_t *calls)
{
	const json_t *name = json_object_get(call, "name");
	size_t n = 0;
	char id[32];

	*good = json_is_string(name) && strlen(json_string_value(name)) == json_string_length(name) &&
			is_tool(r, json_string_value(name));
	const char *arguments = *good ? find_arguments(text, end, &n) : NULL;
	*good = arguments != NULL;
	if (!*good)
		return true;
	name_call(r, choice, c->n_calls++, id);
	return json_array_append_new(calls,
			       json_pack("{s:s, s:s, s:{s:O, s:s%}}", "id", id, "type", "function", "function", "name",
					       name, "arguments", arguments, n)) == 0;
}

/* The value is complete. NO: it is no call, or not all of it; *ok false: out of memory. */
static enum found take_value(
		struct openai_calls *c, const struct openai_request *r, size_t choice, json_t *calls, bool *ok)
{
	const char *p = text_of(c) + c->at_value, *end = text_of(c) + c->at_end;
	const size_t n_before = json_array_size(calls);
	const int n_calls = c->n_calls;
	bool no_memory;
	json_t *v = json_parse(p, (size_t)(end - p), JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL, &no_memory);
	const bool list = json_is_array(v);
	const size_t n = list ? json_array_size(v) : 1;
	bool good = v && n > 0 && (n == 1 || r->parallel_calls);

	if (no_memory)
		*ok = false;
	for (size_t i = 0; i < n && good && *ok; i++) {
		const json_t *call = list ? json_array_get(v, i) : v;
		p = list ? behind_space(p + 1) : p;
		*ok = add_call(c, r, choice, call, p, end, &good, calls);
		p = list ? behind_value(p, end) : p;
	}
	json_decref(v);
	if (good)
		return YES;
	/* One that is none makes them all none. */
	c->n_calls = n_calls;
	while (json_array_size(calls) > n_before)
		json_array_remove(calls, json_array_size(calls) - 1);
	return NO;
}

/* ---- Steps ---- */

static bool is_tagged(const struct openai_request *r)
{
	return !r->must_call && (r->calls == OPENAI_CALLS_TAGGED || r->calls == OPENAI_CALLS_LISTED);
}

/* A call was taken; what it was made of goes. */
static void restart(struct openai_calls *c, const struct openai_request *r)
{
	c->n_gone += c->pos;
	c->pos = c->n_space = 0;
	c->phase = r->parallel_calls ? SEEK : PLAIN;
}

/* It is no call: with its opening it is text, and the rest is looked at again. */
static bool reject(struct openai_calls *c, const struct openai_request *r, struct openai_buf *text)
{
	c->pos = c->n_space = 0;
	c->phase = is_tagged(r) ? SEEK : PLAIN;
	return c->phase == PLAIN ||
			put_text(c, c->at_open + strlen(r->calls == OPENAI_CALLS_TAGGED ? tag_open : list_open), text);
}

/* The first n bytes are text, but for the whitespace at their end, which may be in front of a call. */
static bool put_sought(struct openai_calls *c, size_t n, struct openai_buf *text)
{
	size_t n_text = n;

	while (n_text > c->n_space && is_space(text_of(c)[n_text - 1]))
		n_text--;
	if (n_text <= c->n_space)
		n_text = 0;
	c->n_space = n - n_text;
	c->pos -= n_text;
	c->at_open -= n_text;
	return put_text(c, n_text, text);
}

static enum found seek(struct openai_calls *c, const struct openai_request *r, struct openai_buf *text, bool *ok)
{
	if (!is_tagged(r)) {
		const enum found f = seek_bare(c, r->calls == OPENAI_CALLS_LISTED ? '[' : '{');
		if (f == NO)
			c->phase = PLAIN;
		return f;
	}
	const enum found f = seek_tag(c, r->calls == OPENAI_CALLS_TAGGED ? tag_open : list_open);
	*ok = put_sought(c, c->at_open, text);
	return f;
}

/* One step; MORE: no further one without more bytes. */
static enum found step(struct openai_calls *c, const struct openai_request *r, size_t choice, bool last,
		struct openai_buf *text, json_t *calls, bool *ok)
{
	enum found f;

	switch (c->phase) {
	case SEEK:
		f = seek(c, r, text, ok);
		if (f == YES)
			c->phase = OPENED;
		return f;
	case OPENED:
		skip_space(c);
		if (c->pos == size_of(c))
			return MORE;
		if (text_of(c)[c->pos] != (r->calls == OPENAI_CALLS_LISTED ? '[' : '{')) {
			*ok = reject(c, r, text);
			return NO;
		}
		c->at_value = c->pos;
		c->depth = 0;
		c->in_string = c->escaped = false;
		c->phase = VALUE;
		return YES;
	case VALUE:
		f = scan_value(c);
		c->at_end = c->pos;
		if (f == YES)
			c->phase = CLOSE;
		else if (f == NO)
			*ok = reject(c, r, text);
		return f;
	case CLOSE:
		f = YES;
		if (is_tagged(r) && r->calls == OPENAI_CALLS_TAGGED) {
			skip_space(c);
			f = begins(c, c->pos, tag_close);
			if (f == MORE && !last)
				return MORE;
			/* The end of the text closes what is complete. */
			if (f != NO)
				c->pos = f == YES ? c->pos + strlen(tag_close) : size_of(c);
		}
		if (f != NO)
			f = take_value(c, r, choice, calls, ok);
		if (f == YES)
			restart(c, r);
		else
			*ok = *ok && reject(c, r, text);
		return f;
	default:
		if (c->n_calls == 0) {
			*ok = put_text(c, size_of(c), text);
		} else {
			c->pos = c->at_open = size_of(c);
			*ok = put_sought(c, c->pos, text);
		}
		return MORE;
	}
}

bool openai_calls_feed(struct openai_calls *c, const struct openai_request *r, size_t choice, const char *bytes,
		size_t n, bool last, struct openai_buf *text, json_t *calls)
{
	bool ok = true;

	if (c->n_gone > 0) {
		memmove(c->held.p, text_of(c), size_of(c));
		c->held.n -= c->n_gone;
		c->n_gone = 0;
	}
	/* A NUL behind it ends every search. */
	ok = openai_buf_add(&c->held, bytes, n) && openai_buf_add(&c->held, "", 1);
	c->held.n -= ok;
	while (ok) {
		while (ok && step(c, r, choice, last, text, calls, &ok) != MORE)
			;
		/* An opening that nothing follows any more is text; what is behind it may hold another. */
		if (!ok || !last || (c->phase != OPENED && c->phase != VALUE))
			break;
		ok = reject(c, r, text);
	}
	if (!ok || !last)
		return ok;
	while (c->n_calls > 0 && size_of(c) > 0 && is_space(text_of(c)[size_of(c) - 1]))
		c->held.n--;
	return put_text(c, size_of(c), text);
}

void openai_calls_release(struct openai_calls *c)
{
	openai_buf_release(&c->held);
}
