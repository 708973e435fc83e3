/* API keys: read from a file, compared without telling by the time it takes how much of one was right.
 *
 * Invariants
 *  1. Every key is compared, whether one was found or not, and each over the whole length of what was presented. */
#include "serve.h"

#include "common.h"

#include "base/map.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>

enum { FILE_MAX = 1 << 20, KEY_MAX = 512 };

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

/* The next word of line[*at .. n). */
static size_t next_word(const char *line, size_t n, size_t *at)
{
	while (*at < n && is_space(line[*at]))
		++*at;
	size_t end = *at;
	while (end < n && !is_space(line[end]))
		end++;
	return end - *at;
}

bool keys_add(struct serve_keys *k, const char *line, size_t n)
{
	size_t at = 0, n_text = next_word(line, n, &at);
	struct serve_key key = {.n_text = n_text};

	if (n_text == 0 || n_text > KEY_MAX || !mem_grow((void **)&k->keys, &k->n_max, k->n + 1, sizeof *k->keys))
		return false;
	key.text = mem_strndup(line + at, n_text);
	at += n_text;
	for (size_t word = next_word(line, n, &at); word > 0; at += word, word = next_word(line, n, &at)) {
		if (word == 5 && memcmp(line + at, "admin", 5) == 0)
			key.admin = true;
		else if (!key.name)
			key.name = mem_strndup(line + at, word);
	}
	if (!key.name)
		key.name = mem_strndup("", 0);
	k->keys[k->n++] = key;
	return key.text && key.name;
}

int keys_read(struct serve_keys *k, const char *prog, const char *path)
{
	struct cohort_err err;
	struct text_line line;
	char *bytes = NULL;
	size_t n = 0, at = 0, number = 0;
	int rc = 0;

	if (file_read(path, FILE_MAX, &bytes, &n, &err)) {
		fail(prog, &err);
		return EXIT_FILE;
	}
	while (!rc && next_line(bytes, n, &at, &line)) {
		size_t first = 0;
		number++;
		if (next_word(line.text, line.n_bytes, &first) == 0 || line.text[first] == '#')
			continue;
		if (!keys_add(k, line.text, line.n_bytes)) {
			fprintf(stderr, "%s: %s:%zu: a key has at most %d characters: KEY [NAME] [admin]\n", prog, path,
					number, KEY_MAX);
			rc = EXIT_FILE;
		}
	}
	if (!rc && k->n == 0) {
		fprintf(stderr, "%s: %s has no keys: one on each line, KEY [NAME] [admin]\n", prog, path);
		rc = EXIT_FILE;
	}
	mem_free(bytes);
	return rc;
}

/* The difference of two texts as a number, in a time that depends on n only. */
static unsigned differs(const struct serve_key *key, const char *text, size_t n)
{
	volatile unsigned d = (unsigned)(key->n_text ^ n) | (unsigned)((key->n_text ^ n) >> 32);

	for (size_t i = 0; i < n; i++)
		d |= (unsigned char)text[i] ^ (unsigned char)key->text[key->n_text ? i % key->n_text : 0];
	return d;
}

const struct serve_key *keys_find(const struct serve_keys *k, const char *text, size_t n)
{
	const struct serve_key *found = NULL;

	for (size_t i = 0; i < k->n; i++) {
		const unsigned d = differs(&k->keys[i], text, n);
		found = d == 0 ? &k->keys[i] : found;
	}
	return found;
}

void keys_release(struct serve_keys *k)
{
	for (size_t i = 0; i < k->n; i++) {
		mem_free(k->keys[i].text);
		mem_free(k->keys[i].name);
	}
	mem_free(k->keys);
	*k = (struct serve_keys){0};
}
