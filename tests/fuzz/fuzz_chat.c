/* Any bytes as the file of a conversation: refused with a reason, or a conversation that keeps its rules whatever is
 * done with it, and that written and read again is the same. The first byte says how many of those behind it are things
 * to do; the rest is the file.
 *
 * Seen red with a last turn that may be hidden. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "chat_convo.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { STEPS_MAX = 15 };

static void check(bool ok, const char *what)
{
	if (!ok) {
		fprintf(stderr, "fuzz_chat: %s\n", what);
		abort();
	}
}

static void check_text(const struct chat_message *m)
{
	check(m->text && m->text[m->n_bytes] == '\0', "a text without its end");
	check(strlen(m->text) == m->n_bytes && utf8_valid_prefix(m->text, m->n_bytes) == m->n_bytes,
			"a text that is not UTF-8, or holds a NUL");
}

static void check_rules(const struct chat_convo *c)
{
	const size_t n_system = chat_convo_system(c) ? 1 : 0, first = n_system + c->n_hidden;

	for (size_t i = 0; i < c->n_messages; i++) {
		check_text(&c->messages[i]);
		check(i == 0 || c->messages[i].role != CHAT_SYSTEM, "a system prompt in the middle");
	}
	for (size_t i = 0; i < c->n_branches; i++)
		check_text(&c->branches[i]);
	check(c->n_hidden == 0 || (first < c->n_messages && c->messages[first].role == CHAT_USER),
			"the first message that is seen begins no turn");
	check(c->n_branches == 0 || chat_convo_last(c)->role == CHAT_USER, "branches of no message");
}

static void check_same(const struct chat_convo *a, const struct chat_convo *b)
{
	check(a->n_messages == b->n_messages, "another number of messages comes back");
	for (size_t i = 0; i < a->n_messages; i++)
		check(a->messages[i].role == b->messages[i].role &&
						strcmp(a->messages[i].text, b->messages[i].text) == 0,
				"another message comes back");
}

static void check_file(const struct chat_convo *c)
{
	struct chat_convo again = {.messages = NULL};
	struct cohort_err err;
	size_t n = 0;
	char *file = chat_convo_file(c, &n), *seen = chat_convo_json(c);

	check(file && seen && n == strlen(file), "no memory");
	check(chat_convo_load(&again, file, n, &err) == COHORT_OK, "what was written is refused");
	check_same(c, &again);
	chat_convo_release(&again);
	/* What the model sees is a conversation, too. */
	check(chat_convo_load(&again, seen, strlen(seen), &err) == COHORT_OK, "what the model sees is refused");
	check(again.n_messages + c->n_hidden == c->n_messages, "the model sees another number of messages");
	chat_convo_release(&again);
	mem_free(file);
	mem_free(seen);
}

/* One thing that a command or an answer does. */
static void step(struct chat_convo *c, uint8_t what)
{
	const struct chat_message *last = chat_convo_last(c);
	const bool asked = last && last->role == CHAT_USER;
	const char bytes[2] = {(char)what, '\xc3'};

	switch (what % 7) {
	case 0:
		if (!asked)
			check(chat_convo_add(c, CHAT_USER, bytes, 2, NULL), "no memory");
		break;
	case 1:
		if (asked && c->n_branches == 0)
			check(chat_convo_add(c, CHAT_ASSISTANT, bytes, 2, NULL), "no memory");
		break;
	case 2:
		if (asked)
			check(chat_convo_branch(c, bytes, 2), "no memory");
		break;
	case 3:
		if (c->n_branches > 0)
			check(chat_convo_pick(c, what % c->n_branches), "no memory");
		break;
	case 4: chat_convo_undo(c); break;
	case 5: chat_convo_hide(c); break;
	default: check(chat_convo_system_set(c, what & 128 ? bytes : NULL, 2, NULL), "no memory"); break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct chat_convo c = {.messages = NULL};
	struct cohort_err err = {0};
	const size_t n_steps = n > 0 ? data[0] % (STEPS_MAX + 1) : 0;

	if (n < 1 + n_steps)
		return 0;
	const uint8_t *file = data + 1 + n_steps;
	if (chat_convo_load(&c, (const char *)file, n - 1 - n_steps, &err)) {
		check(*err.text && !c.messages && c.n_messages == 0, "a refusal without a reason, or with a rest");
		return 0;
	}
	check_rules(&c);
	for (size_t i = 0; i < n_steps; i++) {
		step(&c, data[1 + i]);
		check_rules(&c);
	}
	check_file(&c);
	chat_convo_release(&c);
	return 0;
}
