/* What is known of a conversation's tokens.
 *
 * 1. tokens[0 .. mark.n_tokens) are a way to write text[0 .. mark.n_text), for every mark.
 * 2. Marks rise in both numbers.
 *
 * It does not know the model, nor where a text may be parted. */
#include "chat_memory.h"

#include "base/mem.h"

#include <string.h>

void chat_memory_release(struct chat_memory *m)
{
	mem_free(m->text);
	mem_free(m->tokens);
	mem_free(m->marks);
	*m = (struct chat_memory){.text = NULL};
}

struct chat_mark chat_memory_find(const struct chat_memory *m, const char *text, size_t n_text)
{
	size_t n_same = 0;
	const size_t n = n_text < m->n_text ? n_text : m->n_text;

	while (n_same < n && text[n_same] == m->text[n_same])
		n_same++;
	for (size_t i = m->n_marks; i > 0; i--)
		if (m->marks[i - 1].n_text <= n_same)
			return m->marks[i - 1];
	return (struct chat_mark){0, 0};
}

static bool room(struct chat_memory *m, size_t n_text, size_t n_tokens)
{
	void *text = m->text, *tokens = m->tokens, *marks = m->marks;
	const bool ok = mem_grow(&text, &m->text_max, n_text, 1) &&
			mem_grow(&tokens, &m->tokens_max, n_tokens, sizeof *m->tokens) &&
			mem_grow(&marks, &m->marks_max, m->n_marks + 1, sizeof *m->marks);

	m->text = text;
	m->tokens = tokens;
	m->marks = marks;
	return ok;
}

bool chat_memory_add(struct chat_memory *m, struct chat_mark from, const char *text, size_t n_text,
		const cohort_token *tokens, size_t n_tokens)
{
	while (m->n_marks > 0 && m->marks[m->n_marks - 1].n_text > from.n_text)
		m->n_marks--;
	if (!room(m, from.n_text + n_text, from.n_tokens + n_tokens)) {
		chat_memory_release(m);
		return false;
	}
	if (n_text > 0)
		memcpy(m->text + from.n_text, text, n_text);
	if (n_tokens > 0)
		memcpy(m->tokens + from.n_tokens, tokens, n_tokens * sizeof *tokens);
	m->n_text = from.n_text + n_text;
	m->n_tokens = from.n_tokens + n_tokens;
	if (m->n_marks > 0 && m->marks[m->n_marks - 1].n_text == m->n_text)
		m->n_marks--;
	m->marks[m->n_marks++] = (struct chat_mark){m->n_text, m->n_tokens};
	return true;
}
