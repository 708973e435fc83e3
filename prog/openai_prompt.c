/* The part of a body that is the prompt: messages through the model's template, texts, or tokens.
 *
 * Invariants
 *  1. Every prompt has at least one token, and all of them are in the vocabulary.
 *  2. Texts of completions and of templates may name special tokens, as everywhere in the programs; a text to be
 *     embedded is only text.
 *  3. A prompt that is too long by its length alone is refused before it takes memory or time. */
#include "openai.h"

#include "template_use.h"

#include "base/json.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>

static struct openai_prompt *add_prompt(struct openai_request *r, struct openai_error *e)
{
	if (!mem_grow((void **)&r->prompts, &r->n_prompts_max, r->n_prompts + 1, sizeof *r->prompts)) {
		openai_no_memory(e);
		return NULL;
	}
	struct openai_prompt *p = &r->prompts[r->n_prompts++];
	*p = (struct openai_prompt){.first = r->n_tokens};
	return p;
}

/* n: that it has, or that it has at least. */
static bool check_length(const struct openai_host *h, const char *where, size_t n, const char *least,
		struct openai_error *e)
{
	if (h->n_fit <= 0 || n <= (size_t)h->n_fit)
		return true;
	return openai_refuse(e, where, "context_length_exceeded",
			"a prompt of %s%zu tokens; there is room for %d", least, n, h->n_fit);
}

/* One prompt of text, behind a token of its own (-1: none). where: the field, for refusals. */
static bool add_text(const struct openai_host *h, struct openai_request *r, const char *where, cohort_token front,
		const char *text, size_t n_text, unsigned flags, struct openai_error *e)
{
	const size_t n_front = front >= 0, room = cohort_tokenize_bound(n_text) + n_front;
	const size_t first = r->n_tokens + n_front;
	struct cohort_err err;
	size_t want, n = 0;

	if (!check_length(h, where, cohort_tokenize_least(h->model, n_text) + n_front, "at least ", e))
		return false;
	if (!size_add(r->n_tokens, room, &want) ||
			!mem_grow((void **)&r->tokens, &r->n_tokens_max, want, sizeof *r->tokens))
		return openai_no_memory(e);
	struct openai_prompt *p = add_prompt(r, e);
	if (!p)
		return false;
	enum cohort_status st = cohort_tokenize(
			h->model, text, n_text, flags, r->tokens + first, r->n_tokens_max - first, &n, &err);
	if (st == COHORT_E_LIMIT && size_add(first, n, &want)) {
		if (!mem_grow((void **)&r->tokens, &r->n_tokens_max, want, sizeof *r->tokens))
			return openai_no_memory(e);
		st = cohort_tokenize(h->model, text, n_text, flags, r->tokens + first, r->n_tokens_max - first, &n,
				&err);
	}
	if (st)
		return st == COHORT_E_MEMORY ? openai_no_memory(e)
					     : openai_refuse(e, where, NULL, "%s: %s", where, err.text);
	if (n_front > 0)
		r->tokens[r->n_tokens] = front;
	n += n_front;
	if (n == 0)
		return openai_refuse(e, where, NULL, "%s is empty, and the model has no token to begin with", where);
	if (n > INT32_MAX)
		return openai_refuse(e, where, "context_length_exceeded", "%s has %zu tokens", where, n);
	p->n = n;
	r->n_tokens += n;
	return true;
}

static bool add_tokens(const struct openai_host *h, struct openai_request *r, const char *where, const json_t *ids,
		struct openai_error *e)
{
	const size_t n = openai_ids_count(ids);

	if (n == 0)
		return openai_refuse(e, where, NULL, "%s is empty", where);
	if (!check_length(h, where, n, "", e))
		return false;
	if (!mem_grow((void **)&r->tokens, &r->n_tokens_max, r->n_tokens + n, sizeof *r->tokens))
		return openai_no_memory(e);
	struct openai_prompt *p = add_prompt(r, e);
	if (!p)
		return false;
	if (!openai_ids_read(ids, where, h->info.n_vocab, r->tokens + r->n_tokens, e))
		return false;
	r->n_tokens += n;
	p->n = n;
	return true;
}

/* A text, an array of texts, an array of tokens, or an array of such arrays. */
static bool read_list(
		const struct openai_host *h, struct openai_request *r, unsigned flags, struct openai_error *e)
{
	const char *name = r->field;
	const json_t *v = openai_field(r, name), *first = json_array_get(v, 0);
	const bool packed = openai_ids_packed(r->body, name);
	const bool list = json_is_array(v) && !json_is_integer(first);
	const size_t n = list ? json_array_size(v) : 1;
	bool ok = true;

	if (!v)
		return openai_refuse(e, name, "missing_required_parameter", "%s is missing", name);
	if (!json_is_string(v) && !json_is_array(v))
		return openai_refuse(e, name, NULL, "%s is %s, expected a string, an array of strings, or tokens", name,
				openai_kind(v));
	if (n == 0 || n > OPENAI_PROMPTS_MAX)
		return openai_refuse(e, name, NULL, "%s has %zu items, expected 1 to %d", name, n, OPENAI_PROMPTS_MAX);
	for (size_t i = 0; i < n && ok; i++) {
		const json_t *item = list ? json_array_get(v, i) : v;
		char where[64];
		snprintf(where, sizeof where, list ? "%s[%zu]" : "%s", name, i);
		if (list && json_typeof(item) != json_typeof(first))
			return openai_refuse(e, where, NULL, "%s is %s, but %s[0] is %s", where, openai_kind(item),
					name, openai_kind(first));
		if (packed || json_is_array(item)) {
			ok = add_tokens(h, r, where, item, e);
		} else if (json_is_string(item)) {
			const char *text = json_string_value(item);
			const size_t n_text = json_string_length(item);
			if (n_text == 0 && r->route == OPENAI_EMBEDDINGS)
				return openai_refuse(e, where, NULL, "%s is empty", where);
			ok = add_text(h, r, where, -1, text, n_text, flags, e);
			if (ok) {
				r->prompts[r->n_prompts - 1].text = text;
				r->prompts[r->n_prompts - 1].n_text = n_text;
			}
		} else {
			return openai_refuse(e, where, NULL, "%s is %s, expected a string or an array of tokens", where,
					openai_kind(item));
		}
	}
	return ok;
}

/* ---- Messages ---- */

/* Parts of text as one text: templates mostly know no other. NULL: refused. */
static json_t *join_parts(const json_t *parts, const char *where, struct openai_error *e)
{
	struct openai_buf b = {0};
	json_t *joined = NULL;

	for (size_t k = 0; k < json_array_size(parts); k++) {
		const json_t *part = json_array_get(parts, k), *text = json_object_get(part, "text");
		const char *type = json_string_value(json_object_get(part, "type"));
		char param[112];
		snprintf(param, sizeof param, "%s[%zu]", where, k);
		if (!type || strcmp(type, "text") != 0) {
			openai_refuse(e, param, "unsupported_value", "%s is of type '%.40s'; the model reads only text",
					param, type ? type : "");
			goto out;
		}
		if (!json_is_string(text)) {
			openai_refuse(e, param, NULL, "%s.text is %s, expected a string", param,
					text ? openai_kind(text) : "missing");
			goto out;
		}
		if ((k > 0 && !openai_buf_add(&b, "\n", 1)) ||
				!openai_buf_add(&b, json_string_value(text), json_string_length(text))) {
			openai_no_memory(e);
			goto out;
		}
	}
	joined = json_stringn(b.p ? b.p : "", b.n);
	if (!joined)
		openai_no_memory(e);
out:
	openai_buf_release(&b);
	return joined;
}

/* A message as the template gets it; NULL: refused. n_values: see openai_tools_message. */
static json_t *read_message(const json_t *m, size_t i, size_t *n_values, struct openai_error *e)
{
	static const char *const roles[] = {"system", "developer", "user", "assistant", "tool", "function"};
	const char *role = json_string_value(json_object_get(m, "role"));
	json_t *content = json_object_get(m, "content");
	char where[64];
	size_t k = 0;

	snprintf(where, sizeof where, "messages[%zu]", i);
	if (!json_is_object(m)) {
		openai_refuse(e, where, NULL, "%s is %s, expected an object", where, openai_kind(m));
		return NULL;
	}
	while (k < 6 && (!role || strcmp(role, roles[k]) != 0))
		k++;
	if (k == 6) {
		snprintf(where, sizeof where, "messages[%zu].role", i);
		openai_refuse(e, where, NULL, "%s must be system, developer, user, assistant, tool or function", where);
		return NULL;
	}
	snprintf(where, sizeof where, "messages[%zu].content", i);
	/* An assistant's message may be without text. */
	const bool calls = json_object_get(m, "tool_calls") || json_object_get(m, "function_call");
	const bool empty = content ? json_is_null(content) && (k == 3 || calls) : calls;
	if (!json_is_string(content) && !json_is_array(content) && !empty) {
		openai_refuse(e, where, NULL, "%s is %s, expected a string or an array of parts", where,
				content ? openai_kind(content) : "missing");
		return NULL;
	}
	json_t *copy = json_clone(m); /* shallow: values are shared, and not changed */
	int bad = copy ? 0 : -1;
	if (empty) /* templates expect a text in every message */
		bad |= json_object_set_new(copy, "content", json_string(""));
	if (json_is_array(content)) {
		json_t *joined = join_parts(content, where, e);
		if (!joined) {
			json_decref(copy);
			return NULL;
		}
		bad |= json_object_set_new(copy, "content", joined);
	}
	/* Models were trained with the older name of the role. */
	if (k == 1)
		bad |= json_object_set_new(copy, "role", json_string("system"));
	snprintf(where, sizeof where, "messages[%zu]", i);
	if (!bad && !openai_tools_message(copy, where, n_values, e)) {
		json_decref(copy);
		return NULL;
	}
	if (bad) {
		json_decref(copy);
		openai_no_memory(e);
		return NULL;
	}
	return copy;
}

/* A NUL-terminated text of a value; freed with openai_buf_release. */
static bool dump_text(struct openai_buf *b, const json_t *value)
{
	return openai_dump(b, value) && openai_buf_add(b, "", 1);
}

static uint64_t tokens_hash(uint64_t h, const cohort_token *tokens, size_t n)
{
	for (size_t i = 0; i < n; i++)
		h = (h ^ (uint64_t)tokens[i]) * 0x100000001b3ULL;
	return h;
}

/* The template's variables: the body's own, and reasoning_effort by the names that templates have for it, on top of
 * those of every chat. NULL: refused. */
static json_t *read_variables(const struct openai_host *h, const struct openai_request *r, char now[TEMPLATE_NOW_MAX],
		struct openai_error *e)
{
	json_t *given = openai_field(r, "chat_template_kwargs"), *effort = openai_field(r, "reasoning_effort");
	const json_t *thinking = json_object_get(given, "enable_thinking");

	if (given && !json_is_object(given)) {
		openai_refuse(e, "chat_template_kwargs", NULL, "chat_template_kwargs is %s, expected an object",
				openai_kind(given));
		return NULL;
	}
	if (thinking && !json_is_boolean(thinking)) { /* the text "false" would count as true */
		openai_refuse(e, "chat_template_kwargs.enable_thinking", NULL,
				"chat_template_kwargs.enable_thinking is %s, expected true or false",
				openai_kind(thinking));
		return NULL;
	}
	if (effort && !json_is_string(effort)) {
		openai_refuse(e, "reasoning_effort", NULL, "reasoning_effort is %s, expected a string",
				openai_kind(effort));
		return NULL;
	}
	json_t *v = template_variables(h->now, now);
	bool ok = v != NULL;
	if (effort && strcmp(json_string_value(effort), "none") == 0)
		ok = ok && !json_object_set_new(v, "enable_thinking", json_false());
	else if (effort)
		ok = ok && !json_object_set(v, "reasoning_effort", effort) &&
				!json_object_set(v, "reasoning_strength", effort);
	if (ok && (!given || !json_object_update(v, given)))
		return v;
	json_decref(v);
	openai_no_memory(e);
	return NULL;
}

/* The messages, which it takes, as the template writes them: to r->rendered. */
static bool render(const struct openai_host *h, struct openai_request *r, json_t *messages, struct openai_error *e)
{
	struct cohort_template_params p;
	char now[TEMPLATE_NOW_MAX];
	json_t *extra = read_variables(h, r, now, e);
	struct openai_buf m = {0}, x = {0}, t = {0};
	struct cohort_err err;
	bool ok = extra && dump_text(&m, messages) && dump_text(&x, extra) && (!r->tools || dump_text(&t, r->tools));
	json_decref(messages); /* they are there again, as a text */
	if (r->takes)
		json_object_del(r->body, "messages");
	json_decref(extra);
	if (!extra)
		return false;
	if (!ok) {
		openai_no_memory(e);
	} else {
		cohort_template_params_init(&p);
		p.messages = m.p;
		p.extra = x.p;
		p.tools = t.p;
		p.bos_token = h->bos;
		p.eos_token = h->eos;
		p.now = *now ? now : NULL;
		p.add_generation_prompt = !r->no_opening;
		ok = !cohort_template_render(h->template, &p, &r->rendered, &r->n_rendered, &err);
		if (!ok && err.status == COHORT_E_MEMORY)
			openai_no_memory(e);
		else if (!ok)
			openai_refuse(e, "messages", NULL, "the chat template refuses the messages: %s", err.text);
	}
	openai_buf_release(&m);
	openai_buf_release(&x);
	openai_buf_release(&t);
	return ok;
}

/* The tokens of r->rendered. Many templates write the first token themselves. What the model's rule puts behind a text
 * does not belong behind the beginning of an answer. */
static bool add_rendered(const struct openai_host *h, struct openai_request *r, struct openai_error *e)
{
	const size_t n_bos = h->bos ? strlen(h->bos) : 0;
	const bool has_bos = n_bos > 0 && r->n_rendered >= n_bos && memcmp(r->rendered, h->bos, n_bos) == 0;
	struct openai_buf all = {0};

	/* A call that must come has its opening already. */
	const bool added = !r->must_call || (openai_buf_add(&all, r->rendered, r->n_rendered) &&
							    openai_buf_add(&all, h->call_open, strlen(h->call_open)));
	if (!added) {
		openai_buf_release(&all);
		return openai_no_memory(e);
	}
	const bool ok = add_text(h, r, "messages", has_bos ? -1 : h->front, r->must_call ? all.p : r->rendered,
			r->must_call ? all.n : r->n_rendered, COHORT_TOKENIZE_SPECIAL | COHORT_TOKENIZE_NO_BOS, e);
	openai_buf_release(&all);
	if (ok && r->tools)
		r->call_seed = tokens_hash(r->call_seed, r->tokens, r->n_tokens);
	return ok;
}

static bool read_messages(const struct openai_host *h, struct openai_request *r, struct openai_error *e)
{
	const json_t *v = openai_field(r, "messages");

	if (!v)
		return openai_refuse(e, "messages", "missing_required_parameter", "messages is missing");
	if (!json_is_array(v) || json_array_size(v) == 0)
		return openai_refuse(e, "messages", NULL, "messages is %s, expected an array of at least one message",
				json_is_array(v) ? "empty" : openai_kind(v));
	if (!h->template)
		return openai_refuse(e, "messages", NULL, "%s", h->no_template);
	size_t n_values = 0;
	json_t *messages = json_array();
	bool ok = messages != NULL || openai_no_memory(e);
	for (size_t i = 0; i < json_array_size(v) && ok; i++) {
		json_t *m = read_message(json_array_get(v, i), i, &n_values, e);
		ok = m != NULL;
		if (ok && json_array_append_new(messages, m))
			ok = openai_no_memory(e);
	}
	if (ok && h->no_system && !template_merge_system(messages))
		ok = openai_no_memory(e);
	if (ok)
		ok = render(h, r, messages, e);
	else
		json_decref(messages);
	return ok && (r->only_text || add_rendered(h, r, e));
}

bool openai_prompts_read(struct openai_host *h, struct openai_request *r, struct openai_error *e)
{
	switch (r->route) {
	case OPENAI_CHAT: return read_messages(h, r, e);
	case OPENAI_COMPLETIONS: return read_list(h, r, COHORT_TOKENIZE_SPECIAL, e);
	default: return read_list(h, r, 0, e);
	}
}
