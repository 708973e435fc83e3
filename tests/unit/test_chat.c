/* Conversations: the list with its branches, JSON both ways with hostile input, what stops an answer, and known tokens.
 *
 * Seen red with: a pick that takes the branch before; an undo that leaves the answer; a hidden turn that is the last
 * one; a system prompt in the middle taken; two messages of the user in a row taken; parts joined without the first; a
 * NUL byte kept; a stop that is whitespace; a mark behind the place where texts part. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "chat_convo.h"
#include "chat_format.h"
#include "chat_memory.h"

static void say(struct chat_convo *c, enum chat_role role, const char *text)
{
	assert_true(chat_convo_add(c, role, text, strlen(text), NULL));
}

/* The conversation in short: "u:hi a:yo". */
static const char *shape(const struct chat_convo *c)
{
	static char out[512];
	size_t n = 0;
	out[0] = '\0';
	for (size_t i = 0; i < c->n_messages; i++)
		n += (size_t)snprintf(out + n, sizeof out - n, "%s%c:%s", i ? " " : "",
				*chat_role_name(c->messages[i].role), c->messages[i].text);
	return out;
}

static void conversation_list_operations(void **state)
{
	(void)state;
	struct chat_convo c = {.messages = NULL};
	assert_false(chat_convo_undo(&c));
	assert_null(chat_convo_last(&c));
	say(&c, CHAT_USER, "1");
	say(&c, CHAT_ASSISTANT, "2");
	assert_true(chat_convo_system_set(&c, "S", 1, NULL));
	assert_string_equal(shape(&c), "s:S u:1 a:2");
	assert_true(chat_convo_system_set(&c, "T", 1, NULL));
	say(&c, CHAT_USER, "3");
	assert_string_equal(shape(&c), "s:T u:1 a:2 u:3");
	assert_true(chat_convo_undo(&c));
	assert_string_equal(shape(&c), "s:T u:1 a:2");
	assert_true(chat_convo_undo(&c));
	assert_string_equal(shape(&c), "s:T");
	assert_false(chat_convo_undo(&c));
	assert_true(chat_convo_system_set(&c, NULL, 0, NULL));
	assert_true(chat_convo_system_set(&c, NULL, 0, NULL));
	assert_string_equal(shape(&c), "");
	chat_convo_release(&c);
}

static void branches_of_a_conversation(void **state)
{
	(void)state;
	struct chat_convo c = {.messages = NULL};
	struct chat_message old;
	say(&c, CHAT_USER, "q");
	say(&c, CHAT_ASSISTANT, "first");
	chat_convo_pop(&c, &old);
	assert_string_equal(old.text, "first");
	chat_convo_push(&c, old);
	assert_string_equal(shape(&c), "u:q a:first");
	chat_convo_pop(&c, NULL);
	for (int i = 0; i < 3; i++)
		assert_true(chat_convo_branch(&c, &"abc"[i], 1));
	assert_true(chat_convo_pick(&c, 1));
	assert_string_equal(shape(&c), "u:q a:b");
	assert_int_equal(c.n_branches, 0);
	chat_convo_pop(&c, NULL);
	assert_true(chat_convo_branch(&c, "x", 1));
	assert_true(chat_convo_undo(&c));
	assert_int_equal(c.n_branches, 0);
	assert_int_equal(c.n_messages, 0);
	chat_convo_release(&c);
}

static void hidden_messages_of_a_conversation(void **state)
{
	(void)state;
	struct chat_convo c = {.messages = NULL};
	assert_true(chat_convo_system_set(&c, "S", 1, NULL));
	for (int i = 0; i < 3; i++) {
		say(&c, CHAT_USER, "u");
		if (i < 2)
			say(&c, CHAT_ASSISTANT, "a");
	}
	assert_true(chat_convo_hide(&c));
	assert_int_equal(c.n_hidden, 2);
	char *json = chat_convo_json(&c);
	assert_string_equal(json,
			"[{\"role\":\"system\",\"content\":\"S\"},{\"role\":\"user\",\"content\":\"u\"},"
			"{\"role\":\"assistant\",\"content\":\"a\"},{\"role\":\"user\",\"content\":\"u\"}]\n");
	mem_free(json);
	assert_true(chat_convo_hide(&c));
	assert_false(chat_convo_hide(&c));
	assert_int_equal(c.n_hidden, 4);
	/* All of it is written, hidden or not. */
	size_t n = 0;
	char *file = chat_convo_file(&c, &n);
	struct chat_convo back = {.messages = NULL};
	assert_int_equal(chat_convo_load(&back, file, n, NULL), COHORT_OK);
	assert_int_equal(back.n_messages, 6);
	mem_free(file);
	chat_convo_release(&back);
	/* With the turn gone that others were hidden for, they are seen again. */
	assert_true(chat_convo_undo(&c));
	assert_int_equal(c.n_hidden, 0);
	chat_convo_release(&c);
}

static void conversation_texts_are_any_bytes(void **state)
{
	(void)state;
	struct chat_convo c = {.messages = NULL};
	size_t n_bad = 0, n = 0;
	assert_true(chat_convo_add(&c, CHAT_USER, "a\0\xff\xc3\xa9\xe2\x82", 7, &n_bad));
	assert_int_equal(n_bad, 4);
	assert_string_equal(c.messages[0].text, "a\xef\xbf\xbd\xef\xbf\xbd\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd");
	say(&c, CHAT_ASSISTANT, "\"quotes\"\n\ttabs \\ \x01 \xf0\x9f\x98\x80");
	char *file = chat_convo_file(&c, &n);
	struct chat_convo back = {.messages = NULL};
	assert_int_equal(chat_convo_load(&back, file, n, NULL), COHORT_OK);
	assert_int_equal(back.n_messages, 2);
	for (size_t i = 0; i < 2; i++)
		assert_string_equal(back.messages[i].text, c.messages[i].text);
	mem_free(file);
	chat_convo_release(&back);
	chat_convo_release(&c);
}

static void load_good(void **state)
{
	(void)state;
	static const struct {
		const char *json, *want;
	} cases[] = {
			{"[]", ""},
			{"{\"messages\":[]}", ""},
			{"[{\"role\":\"user\",\"content\":\"hi\"}]", "u:hi"},
			{" {\"model\":\"x\",\"messages\":[{\"role\":\"system\",\"content\":\"\"},"
			 "{\"role\":\"user\",\"content\":\"hi\",\"name\":\"me\"},"
			 "{\"role\":\"assistant\",\"content\":\"yo\"}]} ",
					"s: u:hi a:yo"},
			{"[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},"
			 "{\"type\":\"text\",\"text\":\"b\"}]}]",
					"u:ab"},
			{"[{\"role\":\"user\",\"content\":[]}]", "u:"},
			{"[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"\"}]}]", "u:"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct chat_convo c = {.messages = NULL};
		assert_int_equal(chat_convo_load(&c, cases[i].json, strlen(cases[i].json), NULL), COHORT_OK);
		assert_string_equal(shape(&c), cases[i].want);
		chat_convo_release(&c);
	}
}

#define U "{\"role\":\"user\",\"content\":\"u\"}"
#define A "{\"role\":\"assistant\",\"content\":\"a\"}"
#define S "{\"role\":\"system\",\"content\":\"s\"}"

static void load_bad(void **state)
{
	(void)state;
	static const struct {
		const char *json, *say;
	} cases[] = {
			{"", "not JSON"},
			{"[", "not JSON"},
			{"[" U "] x", "not JSON"},
			{"\"text\"", "not JSON"}, /* jansson takes arrays and objects only */
			{"{}", "neither an array"},
			{"{\"messages\":{}}", "neither an array"},
			{"[1]", "message 1 is no object"},
			{"[" U ",null]", "message 2 is no object"},
			{"[{}]", "no \"role\""},
			{"[{\"role\":3,\"content\":\"x\"}]", "no \"role\""},
			{"[{\"role\":\"tool\",\"content\":\"x\"}]", "'tool'"},
			{"[{\"role\":\"\\u001b[2Juser\",\"content\":\"x\"}]", "the role '\\x1b"},
			{"[{\"role\":\"user\"}]", "no \"content\""},
			{"[{\"role\":\"user\",\"content\":null}]", "no \"content\""},
			{"[{\"role\":\"user\",\"content\":{}}]", "no \"content\""},
			{"[{\"role\":\"user\",\"content\":[\"x\"]}]", "a part that is not text"},
			{"[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\",\"text\":\"x\"}]}]",
					"a part that is not text"},
			{"[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"x\"},{\"type\":\"text\"}]}]",
					"a part that is not text"},
			{"[{\"role\":\"user\",\"content\":\"a\\u0000b\"}]", "not JSON"},
			{"[{\"role\":\"user\",\"content\":\"\xff\"}]", "not JSON"},
			{"[{\"role\":\"user\",\"role\":\"system\",\"content\":\"x\"}]", "not JSON"},
			{"[" U "," S "]", "message 2 is a system prompt"},
			{"[" S "," S "]", "message 2 is a system prompt"},
			{"[" A "]", "message 1 is an answer"},
			{"[" S "," A "]", "message 2 is an answer"},
			{"[" U "," A "," A "]", "message 3 is an answer"},
			{"[" U "," U "]", "message 2 is the user's"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct chat_convo c = {.messages = NULL};
		struct cohort_err err;
		assert_int_equal(chat_convo_load(&c, cases[i].json, strlen(cases[i].json), &err), COHORT_E_FORMAT);
		if (!strstr(err.text, cases[i].say))
			fail_msg("%s: %s", cases[i].json, err.text);
		assert_int_equal(c.n_messages, 0);
		assert_null(c.messages);
	}
}

/* Every beginning of a good file, and every byte of it changed: a status or a conversation, nothing else. */
static void load_any(void **state)
{
	(void)state;
	static const char good[] = "{\"messages\":[" S "," U ",{\"role\":\"assistant\",\"content\":[{\"type\":\"text\","
				   "\"text\":\"\\ud83d\\ude00\"}]}]}";
	char text[sizeof good];
	for (size_t n = 0; n < sizeof good - 1; n++) {
		struct chat_convo c = {.messages = NULL};
		assert_int_equal(chat_convo_load(&c, good, n, NULL), COHORT_E_FORMAT);
	}
	for (size_t i = 0; i < sizeof good - 1; i++)
		for (int b = 0; b < 256; b += 5) {
			struct chat_convo c = {.messages = NULL};
			memcpy(text, good, sizeof good);
			text[i] = (char)b;
			if (chat_convo_load(&c, text, sizeof good - 1, NULL) == COHORT_OK)
				assert_true(c.n_messages <= 3);
			chat_convo_release(&c);
		}
	/* Deeper than any stack. */
	char *deep = mem_alloc(1000000, 1);
	assert_non_null(deep);
	memset(deep, '[', 1000000);
	struct chat_convo c = {.messages = NULL};
	assert_int_equal(chat_convo_load(&c, deep, 1000000, NULL), COHORT_E_FORMAT);
	mem_free(deep);
}

/* An allocation that fails is a status, and what was there stays. */
static void chat_out_of_memory_at_every_point(void **state)
{
	(void)state;
	for (int64_t i = 0;; i++) {
		struct chat_convo c = {.messages = NULL};
		struct chat_memory m = {.text = NULL};
		static const cohort_token tokens[] = {1, 2, 3};
		bool ok = true;
		mem_fail_after(i);
		ok = chat_convo_add(&c, CHAT_USER, "u", 1, NULL) && chat_convo_system_set(&c, "s", 1, NULL) &&
				chat_convo_branch(&c, "b", 1) && chat_convo_pick(&c, 0) &&
				chat_memory_add(&m, (struct chat_mark){0, 0}, "abc", 3, tokens, 3);
		char *json = chat_convo_json(&c);
		ok = json && ok;
		mem_fail_after(-1);
		assert_true(c.n_messages <= 3);
		mem_free(json);
		chat_memory_release(&m);
		chat_convo_release(&c);
		if (ok) {
			assert_true(i > 5);
			break;
		}
	}
}

static void *json_alloc(size_t n)
{
	return mem_alloc(n, 1);
}

/* The same of writing, with jansson's allocations among those that fail: the whole file or none, and no leak. Seen red
 * with a dump that failed and was not noticed: the file was the bytes that memory happened to hold. */
static void no_memory_to_write(void **state)
{
	struct chat_convo c = {.messages = NULL};
	size_t n_right = 0, n = 0, n_failed = 0;

	(void)state;
	json_set_alloc_funcs(json_alloc, mem_free);
	say(&c, CHAT_USER, "\xc3\xa4 \"quoted\"");
	say(&c, CHAT_ASSISTANT, "yes");
	const uint64_t before = mem_count();
	char *right = chat_convo_file(&c, &n_right);
	const int64_t n_all = (int64_t)(mem_count() - before);
	assert_non_null(right);
	for (int64_t i = 0; i < n_all; i++) {
		mem_fail_after(i);
		char *text = chat_convo_file(&c, &n);
		mem_fail_after(-1);
		if (text) {
			assert_int_equal(n, n_right);
			assert_memory_equal(text, right, n);
		}
		n_failed += !text;
		mem_free(text);
	}
	assert_true(n_failed > 10);
	mem_free(right);
	chat_convo_release(&c);
	json_set_alloc_funcs(malloc, free);
}

static void stop_tokens_found_from_template(void **state)
{
	(void)state;
	static const struct {
		const char *after, *between;
		int32_t n;
		const char *one, *two;
	} cases[] = {
			{"</s>", "</s><|user|>", 2, "</s>", "<|user|>"},
			{"<|im_end|>\n", "<|im_end|>\n<|im_start|>user\n", 2, "<|im_end|>", "<|im_start|>user"},
			{"\n", "\nUser: ", 1, "\nUser:", NULL},
			{"", " ", 0, NULL, NULL},
			{"", "", 0, NULL, NULL},
			{"<e>", "<e>", 1, "<e>", NULL},
			{"<e>", "<other>", 2, "<e>", "<other>"},
			{"<e>", "\n<e>", 2, "<e>", "\n<e>"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct chat_piece p[CHAT_STOPS_MAX];
		const char *want[CHAT_STOPS_MAX] = {cases[i].one, cases[i].two};
		assert_int_equal(chat_format_stops(cases[i].after, cases[i].between, p), cases[i].n);
		for (int32_t k = 0; k < cases[i].n; k++) {
			assert_int_equal(p[k].n_bytes, strlen(want[k]));
			assert_memory_equal(p[k].text, want[k], p[k].n_bytes);
		}
	}
}

static struct chat_mark find(const struct chat_memory *m, const char *text)
{
	return chat_memory_find(m, text, strlen(text));
}

static void chat_memory_finds_longest_beginning(void **state)
{
	(void)state;
	static const cohort_token t[] = {1, 2, 3, 4, 5, 6, 7, 8};
	struct chat_memory m = {.text = NULL};
	assert_int_equal(find(&m, "abc").n_tokens, 0);
	assert_true(chat_memory_add(&m, (struct chat_mark){0, 0}, "hello ", 6, t, 2));
	assert_true(chat_memory_add(&m, find(&m, "hello "), "world", 5, t + 2, 3));
	assert_true(chat_memory_add(&m, find(&m, "hello world"), "!", 1, t + 5, 1));
	static const struct {
		const char *text;
		size_t n_text, n_tokens;
	} cases[] = {{"hello world! more", 12, 6}, {"hello world?", 11, 5}, {"hello worl", 6, 2}, {"hello ", 6, 2},
			{"hello", 0, 0}, {"jello world!", 0, 0}, {"", 0, 0}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		assert_int_equal(find(&m, cases[i].text).n_text, cases[i].n_text);
		assert_int_equal(find(&m, cases[i].text).n_tokens, cases[i].n_tokens);
	}
	/* Another answer in the place of the last one. */
	assert_true(chat_memory_add(&m, find(&m, "hello x"), "moon", 4, t + 6, 2));
	assert_int_equal(find(&m, "hello moon").n_tokens, 4);
	assert_int_equal(m.tokens[2], 7);
	assert_int_equal(find(&m, "hello world!").n_tokens, 2);
	chat_memory_release(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
			cmocka_unit_test(conversation_list_operations),
			cmocka_unit_test(branches_of_a_conversation),
			cmocka_unit_test(hidden_messages_of_a_conversation),
			cmocka_unit_test(conversation_texts_are_any_bytes),
			cmocka_unit_test(load_good),
			cmocka_unit_test(load_bad),
			cmocka_unit_test(load_any),
			cmocka_unit_test(chat_out_of_memory_at_every_point),
			cmocka_unit_test(no_memory_to_write),
			cmocka_unit_test(stop_tokens_found_from_template),
			cmocka_unit_test(chat_memory_finds_longest_beginning),
	};
	return cmocka_run_group_tests_name("chat", tests, NULL, NULL);
}
