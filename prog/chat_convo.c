/* A conversation as a list.
 *
 * 1. A system prompt, if there is one, is the first message, and the only one of its kind.
 * 2. All texts are UTF-8 without NUL bytes, so that they are JSON and survive every template.
 * 3. Branches are there only while the last message is the user's.
 * 4. n_hidden counts whole turns, and the last turn is never hidden.
 * 5. What was written by chat_convo_file is read back the same.
 *
 * It does not know models, templates or tokens. */
#include "chat_convo.h"

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/utf8.h"

#include <jansson.h>
#include <string.h>

const char *chat_role_name(enum chat_role role)
{
	static const char *const names[] = {"system", "user", "assistant"};
	return names[role];
}

char *chat_utf8(const char *text, size_t n_bytes, size_t *n_out, size_t *n_bad)
{
	char *out = n_bytes < SIZE_MAX / 4 ? mem_alloc(3 * n_bytes + 1, 1) : NULL;
	size_t n = 0, bad = 0;

	for (size_t i = 0, len; out && i < n_bytes; i += len) {
		uint32_t cp;
		len = utf8_decode(text + i, n_bytes - i, &cp);
		if (len > 0 && cp > 0) {
			memcpy(out + n, text + i, len);
			n += len;
		} else {
			n += utf8_encode(0xfffd, out + n);
			bad++;
			len = 1;
		}
	}
	if (out)
		out[n] = '\0';
	*n_out = n;
	if (n_bad)
		*n_bad = bad;
	return out;
}

static bool add(struct chat_message **list, size_t *n, size_t *n_max, enum chat_role role, const char *text,
		size_t n_bytes, size_t *n_bad)
{
	struct chat_message m = {.role = role};
	void *at = *list;

	if (*n >= CHAT_MESSAGES_MAX || !mem_grow(&at, n_max, *n + 1, sizeof **list))
		return false;
	*list = at;
	m.text = chat_utf8(text, n_bytes, &m.n_bytes, n_bad);
	if (!m.text)
		return false;
	(*list)[(*n)++] = m;
	return true;
}

bool chat_convo_add(struct chat_convo *c, enum chat_role role, const char *text, size_t n_bytes, size_t *n_bad)
{
	return add(&c->messages, &c->n_messages, &c->messages_max, role, text, n_bytes, n_bad);
}

const struct chat_message *chat_convo_system(const struct chat_convo *c)
{
	return c->n_messages > 0 && c->messages[0].role == CHAT_SYSTEM ? c->messages : NULL;
}

const struct chat_message *chat_convo_last(const struct chat_convo *c)
{
	return c->n_messages > 0 ? &c->messages[c->n_messages - 1] : NULL;
}

bool chat_convo_system_set(struct chat_convo *c, const char *text, size_t n_bytes, size_t *n_bad)
{
	const bool had = chat_convo_system(c) != NULL;

	if (text && had) {
		size_t n;
		char *copy = chat_utf8(text, n_bytes, &n, n_bad);
		if (!copy)
			return false;
		mem_free(c->messages[0].text);
		c->messages[0].text = copy;
		c->messages[0].n_bytes = n;
	} else if (text) {
		/* Added at the end, where it can fail, then moved to the front, where it cannot. */
		if (!chat_convo_add(c, CHAT_SYSTEM, text, n_bytes, n_bad))
			return false;
		const struct chat_message m = c->messages[--c->n_messages];
		memmove(c->messages + 1, c->messages, c->n_messages++ * sizeof *c->messages);
		c->messages[0] = m;
	} else if (had) {
		mem_free(c->messages[0].text);
		memmove(c->messages, c->messages + 1, --c->n_messages * sizeof *c->messages);
	}
	return true;
}

/* Index of the first message that is neither the system prompt nor hidden. */
static size_t first_seen(const struct chat_convo *c)
{
	return (chat_convo_system(c) ? 1 : 0) + c->n_hidden;
}

void chat_convo_pop(struct chat_convo *c, struct chat_message *out)
{
	struct chat_message m = c->messages[--c->n_messages];

	if (out)
		*out = m;
	else
		mem_free(m.text);
	/* Nothing is hidden for a turn that is gone. */
	if (first_seen(c) >= c->n_messages)
		c->n_hidden = 0;
}

void chat_convo_push(struct chat_convo *c, struct chat_message m)
{
	c->messages[c->n_messages++] = m;
}

bool chat_convo_undo(struct chat_convo *c)
{
	size_t i = c->n_messages;

	while (i > 0 && c->messages[i - 1].role != CHAT_USER)
		i--;
	if (i == 0)
		return false;
	while (c->n_messages >= i)
		chat_convo_pop(c, NULL);
	chat_convo_branches_clear(c);
	return true;
}

bool chat_convo_branch(struct chat_convo *c, const char *text, size_t n_bytes)
{
	return add(&c->branches, &c->n_branches, &c->branches_max, CHAT_ASSISTANT, text, n_bytes, NULL);
}

void chat_convo_branches_clear(struct chat_convo *c)
{
	while (c->n_branches > 0)
		mem_free(c->branches[--c->n_branches].text);
}

bool chat_convo_pick(struct chat_convo *c, size_t i)
{
	void *at = c->messages;
	const struct chat_message m = c->branches[i];

	if (!mem_grow(&at, &c->messages_max, c->n_messages + 1, sizeof *c->messages))
		return false;
	c->messages = at;
	c->branches[i].text = NULL;
	chat_convo_branches_clear(c);
	chat_convo_push(c, m);
	return true;
}

bool chat_convo_hide(struct chat_convo *c)
{
	const size_t first = first_seen(c);
	size_t next = first + 1;

	while (next < c->n_messages && c->messages[next].role != CHAT_USER)
		next++;
	if (next >= c->n_messages)
		return false;
	c->n_hidden += next - first;
	return true;
}

void chat_convo_release(struct chat_convo *c)
{
	while (c->n_messages > 0)
		chat_convo_pop(c, NULL);
	chat_convo_branches_clear(c);
	mem_free(c->messages);
	mem_free(c->branches);
	*c = (struct chat_convo){.messages = NULL};
}

/* ---- JSON ---- */

static bool append(json_t *list, const struct chat_message *m)
{
	json_t *object = json_pack("{s:s, s:s%}", "role", chat_role_name(m->role), "content", m->text, m->n_bytes);

	return json_array_append_new(list, object) == 0; /* which takes NULL for a failure */
}

static json_t *list_of(const struct chat_convo *c, size_t n_hidden)
{
	json_t *list = json_array();
	const size_t n_system = chat_convo_system(c) ? 1 : 0;

	for (size_t i = 0; list && i < c->n_messages; i++)
		if ((i < n_system || i >= n_system + n_hidden) && !append(list, &c->messages[i])) {
			json_decref(list);
			list = NULL;
		}
	return list;
}

/* The text of a value, which is given away. */
static char *text_of(json_t *v, size_t flags, size_t *n_bytes)
{
	const size_t n = v ? json_dumpb(v, NULL, 0, flags) : 0;
	char *out = n > 0 ? mem_alloc(n + 2, 1) : NULL;

	/* jansson needs memory for it, both times. */
	if (out && json_dumpb(v, out, n, flags) != n) {
		mem_free(out);
		out = NULL;
	}
	if (out) {
		out[n] = '\n'; /* a file ends with a line's end */
		out[n + 1] = '\0';
	}
	*n_bytes = n + 1;
	json_decref(v);
	return out;
}

char *chat_convo_json(const struct chat_convo *c)
{
	size_t n;
	return text_of(list_of(c, c->n_hidden), JSON_COMPACT, &n);
}

char *chat_convo_file(const struct chat_convo *c, size_t *n_bytes)
{
	json_t *object = json_object();

	if (json_object_set_new(object, "messages", list_of(c, 0)) != 0) {
		json_decref(object);
		object = NULL;
	}
	return text_of(object, JSON_INDENT(2), n_bytes);
}

/* ---- The way back ---- */

static enum cohort_status wrong(struct cohort_err *err, size_t i, const char *what)
{
	return err_set(err, COHORT_E_FORMAT, "message %zu %s", i + 1, what);
}

/* A content is a text, or a list of parts that are texts. */
static enum cohort_status read_parts(
		struct chat_convo *c, enum chat_role role, const json_t *parts, size_t i, struct cohort_err *err)
{
	char *text = NULL;
	size_t n = 0, n_max = 0, k;
	json_t *part;

	json_array_foreach(parts, k, part) {
		const char *type = json_string_value(json_object_get(part, "type"));
		const json_t *bytes = json_object_get(part, "text");
		void *at = text;
		if (!type || strcmp(type, "text") != 0 || !json_is_string(bytes)) {
			mem_free(text);
			return wrong(err, i, "has a part that is not text");
		}
		/* One more than is copied, so that there is a place to copy to when all parts are empty. */
		if (!mem_grow(&at, &n_max, n + json_string_length(bytes) + 1, 1)) {
			mem_free(text);
			return err_set(err, COHORT_E_MEMORY, "out of memory");
		}
		text = at;
		memcpy(text + n, json_string_value(bytes), json_string_length(bytes));
		n += json_string_length(bytes);
	}
	const bool ok = chat_convo_add(c, role, text ? text : "", n, NULL);
	mem_free(text);
	return ok ? COHORT_OK : err_set(err, COHORT_E_MEMORY, "out of memory");
}

static enum cohort_status read_message(struct chat_convo *c, const json_t *m, size_t i, struct cohort_err *err)
{
	const char *name = json_string_value(json_object_get(m, "role"));
	const json_t *content = json_object_get(m, "content");
	int role = CHAT_SYSTEM;
	char shown[ERR_SHOW_BYTES];

	if (!json_is_object(m))
		return wrong(err, i, "is no object");
	if (!name)
		return wrong(err, i, "has no \"role\" that is a text");
	while (role <= CHAT_ASSISTANT && strcmp(name, chat_role_name((enum chat_role)role)) != 0)
		role++;
	if (role > CHAT_ASSISTANT)
		return err_set(err, COHORT_E_FORMAT,
				"message %zu has the role '%s'; known are system, user and assistant", i + 1,
				err_show(shown, name, strlen(name)));
	if (role == CHAT_SYSTEM && i > 0)
		return wrong(err, i, "is a system prompt, which can only be the first one");
	const struct chat_message *last = chat_convo_last(c);
	if (role == CHAT_ASSISTANT && (!last || last->role != CHAT_USER))
		return wrong(err, i, "is an answer, but there is no message of the user before it");
	if (role == CHAT_USER && last && last->role == CHAT_USER)
		return wrong(err, i, "is the user's, as is the one before it: an answer is missing");
	if (json_is_array(content))
		return read_parts(c, (enum chat_role)role, content, i, err);
	if (!json_is_string(content))
		return wrong(err, i, "has no \"content\" that is a text");
	if (!chat_convo_add(c, (enum chat_role)role, json_string_value(content), json_string_length(content), NULL))
		return err_set(err, COHORT_E_MEMORY, "out of memory");
	return COHORT_OK;
}

enum cohort_status chat_convo_load(struct chat_convo *c, const char *text, size_t n_bytes, struct cohort_err *err)
{
	enum cohort_status st = COHORT_OK;
	json_error_t e;
	json_t *m;
	size_t i;
	bool no_memory;

	json_t *root = json_parse(text, n_bytes, JSON_REJECT_DUPLICATES, &e, &no_memory);
	if (no_memory)
		return err_set(err, COHORT_E_MEMORY, "out of memory");
	if (!root) {
		char shown[ERR_SHOW_BYTES];
		return err_set(err, COHORT_E_FORMAT, "it is not JSON: %s, line %d",
				err_show(shown, e.text, strlen(e.text)), e.line);
	}
	const json_t *list = json_is_object(root) ? json_object_get(root, "messages") : root;
	if (!json_is_array(list))
		st = err_set(err, COHORT_E_FORMAT,
				"it is neither an array of messages nor an object with one as \"messages\"");
	else if (json_array_size(list) > CHAT_MESSAGES_MAX)
		st = err_set(err, COHORT_E_LIMIT, "it has %zu messages; %d are the most", json_array_size(list),
				CHAT_MESSAGES_MAX);
	else
		json_array_foreach(list, i, m)
			if (!st)
				st = read_message(c, m, i, err);
	json_decref(root);
	if (st)
		chat_convo_release(c);
	return st;
}
