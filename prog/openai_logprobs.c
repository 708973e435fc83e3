/* Log-probabilities as the API lists them: one list of objects in a chat, four lists side by side in a completion. The
 * answer as a whole and the pieces of a stream are made of the same lists.
 *
 * Invariants
 *  1. JSON has no infinity: a token that cannot come has -9999, as OpenAI writes it.
 *  2. Offsets count characters of the choice's own text, and never lie behind its end. */
#include "openai.h"

#include "base/utf8.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void openai_lists_release(struct openai_lists *l)
{
	json_decref(l->tokens);
	json_decref(l->logprobs);
	json_decref(l->tops);
	json_decref(l->offsets);
	*l = (struct openai_lists){0};
}

bool openai_lists_init(struct openai_lists *l)
{
	*l = (struct openai_lists){json_array(), json_array(), json_array(), json_array()};
	return l->tokens && l->logprobs && l->tops && l->offsets;
}

json_t *openai_number(double x)
{
	return json_real(isfinite(x) ? x : x > 0 ? 9999.0 : -9999.0);
}

static const char *token_bytes(const struct openai_host *h, cohort_token t, size_t *n)
{
	*n = 0;
	const char *bytes = cohort_token_bytes(h->model, t, true, n);
	return bytes ? bytes : "";
}

/* ---- Chats ---- */

/* {"token", "logprob", "bytes"} */
static json_t *chat_token(const struct openai_host *h, cohort_token t, double logprob)
{
	size_t n;
	const char *text = token_bytes(h, t, &n);
	json_t *bytes = json_array();
	int bad = bytes ? 0 : -1;

	for (size_t i = 0; i < n && !bad; i++)
		bad |= json_array_append_new(bytes, json_integer((unsigned char)text[i]));
	json_t *out = bad ? NULL
			  : json_pack("{s:o, s:o, s:O}", "token", openai_text(text, n), "logprob",
					    openai_number(logprob), "bytes", bytes);
	json_decref(bytes);
	return out;
}

static bool add_chat(const struct openai_host *h, struct openai_lists *l, cohort_token t, double logprob,
		const struct cohort_logprob *top, int32_t n_top)
{
	json_t *entry = chat_token(h, t, logprob), *list = json_array();
	int bad = entry && list ? 0 : -1;

	for (int32_t i = 0; i < n_top && top[i].token >= 0 && !bad; i++)
		bad |= json_array_append_new(list, chat_token(h, top[i].token, (double)top[i].logprob));
	bad |= json_object_set_new(entry, "top_logprobs", list);
	return json_array_append_new(l->tokens, entry) == 0 && !bad;
}

/* ---- Completions ---- */

/* A token's text, which is a key as well: bytes that are no text are written out. NULL: out of memory. */
static json_t *legacy_token(const struct openai_host *h, cohort_token t)
{
	size_t n;
	const char *bytes = token_bytes(h, t, &n);
	struct openai_buf b = {0};

	if (!memchr(bytes, 0, n) && utf8_valid_prefix(bytes, n) == n)
		return json_stringn(bytes, n);
	bool ok = openai_buf_add(&b, "bytes:", 6);
	for (size_t i = 0; i < n && ok; i++) {
		char hex[8];
		snprintf(hex, sizeof hex, "\\x%02x", (unsigned char)bytes[i]);
		ok = openai_buf_add(&b, hex, 4);
	}
	json_t *s = ok ? json_stringn(b.p, b.n) : NULL;
	openai_buf_release(&b);
	return s;
}

static int set_top(const struct openai_host *h, json_t *tops, cohort_token t, double logprob)
{
	json_t *key = legacy_token(h, t);
	int bad = key ? 0 : -1;

	/* Of several tokens with one text the likeliest stays. */
	if (key && !json_object_get(tops, json_string_value(key)))
		bad = json_object_set_new(tops, json_string_value(key), openai_number(logprob));
	json_decref(key);
	return bad;
}

static bool add_legacy(const struct openai_host *h, struct openai_lists *l, cohort_token t, double logprob,
		const struct cohort_logprob *top, int32_t n_top)
{
	json_t *tops = n_top > 0 ? json_object() : json_null();
	int bad = tops ? 0 : -1;

	for (int32_t i = 0; i < n_top && top[i].token >= 0 && !bad; i++)
		bad |= set_top(h, tops, top[i].token, (double)top[i].logprob);
	if (n_top > 0 && !bad)
		bad |= set_top(h, tops, t, logprob); /* the token itself is always among them */
	bad |= json_array_append_new(l->tops, tops);
	bad |= json_array_append_new(l->tokens, legacy_token(h, t));
	bad |= json_array_append_new(l->logprobs, openai_number(logprob));
	return !bad;
}

/* ---- */

bool openai_lists_add(const struct openai_host *h, const struct openai_request *r, struct openai_lists *l,
		cohort_token t, float logprob, const struct cohort_logprob *top, int32_t n_top)
{
	return (r->route == OPENAI_CHAT ? add_chat : add_legacy)(h, l, t, (double)logprob, top, n_top);
}

bool openai_lists_add_prompt(const struct openai_host *h, struct openai_lists *l, const cohort_token *tokens,
		const struct cohort_event *ev)
{
	for (int32_t i = 0; i < ev->n_prompt; i++)
		if (!add_legacy(h, l, tokens[i], (double)ev->prompt_logprobs[i], ev->prompt_top + i * ev->n_top,
				    ev->n_top))
			return false;
	/* The first token has nothing before it. */
	return ev->n_prompt < 1 ||
			(json_array_set_new(l->logprobs, 0, json_null()) == 0 &&
					json_array_set_new(l->tops, 0, json_null()) == 0);
}

size_t openai_count_chars(const char *text, size_t n)
{
	size_t chars = 0;
	for (size_t i = 0; i < n; i++)
		chars += ((unsigned char)text[i] & 0xc0) != 0x80;
	return chars;
}

size_t openai_token_size(const struct openai_host *h, const struct openai_request *r, cohort_token t)
{
	size_t n = 0;
	cohort_token_bytes(h->model, t, r->params.special, &n);
	return n;
}

bool openai_lists_add_offsets(const struct openai_host *h, const struct openai_request *r, struct openai_lists *l,
		const cohort_token *tokens, size_t n, size_t n_skip, const char *text, size_t n_text, size_t base)
{
	size_t at = 0, seen = 0, chars = 0;

	for (size_t i = 0; i < n; i++) {
		size_t to = at > n_skip ? at - n_skip : 0;
		to = to < n_text ? to : n_text;
		chars += openai_count_chars(text + seen, to - seen);
		seen = to;
		if (json_array_append_new(l->offsets, json_integer((json_int_t)(base + chars))))
			return false;
		at += openai_token_size(h, r, tokens[i]);
	}
	return true;
}

bool openai_lists_add_echo(const struct openai_host *h, const struct openai_request *r, struct openai_lists *l,
		const struct openai_prompt *p, const char *echo, size_t n_echo)
{
	const cohort_token *tokens = r->tokens + p->first;
	size_t n = 0;

	for (size_t i = 0; i < p->n; i++)
		n += openai_token_size(h, r, tokens[i]);
	/* Some tokenisers put a space in front of a text, which it does not have. */
	return openai_lists_add_offsets(h, r, l, tokens, p->n, n > n_echo ? n - n_echo : 0, echo, n_echo, 0);
}

json_t *openai_lists_json(const struct openai_request *r, const struct openai_lists *l)
{
	if (r->route == OPENAI_CHAT)
		return json_pack("{s:O, s:n}", "content", l->tokens, "refusal");
	return json_pack("{s:O, s:O, s:O, s:O}", "tokens", l->tokens, "token_logprobs", l->logprobs, "top_logprobs",
			l->tops, "text_offset", l->offsets);
}
