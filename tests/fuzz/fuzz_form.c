/* Any bytes as a form with files, behind a line that is its content type: what comes of it is the same in any pieces,
 * names are bounded, and a field's bytes are those of the body in front of a delimiter, and have none in them.
 *
 * Seen red with: a match that is not given out when it breaks off ("a field is not in the body"), what follows a
 * boundary forgotten between two pieces ("pieces of the same size"), a parameter that is not bounded (the address
 * sanitizer). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serve_form.h"

#include "base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check(bool ok, const char *what)
{
	if (!ok) {
		fprintf(stderr, "fuzz_form: %s\n", what);
		abort();
	}
}

/* What a form says: a byte 1 or 2, name, NUL, filename, NUL, content for each part; content as long as it is. */
struct seen {
	char *text; /* [n], of n_max */
	size_t n, n_max;
	size_t starts[FORM_PARTS_MAX + 1], contents[FORM_PARTS_MAX + 1], n_parts;
	size_t n_allowed; /* parts that the reader takes */
	bool ok;
	char why[160];
};

static void say(struct seen *s, const void *bytes, size_t n)
{
	check(s->n + n <= s->n_max, "more is said than was there");
	if (n > 0)
		memcpy(s->text + s->n, bytes, n);
	s->n += n;
}

static bool on_part(void *user, const char *name, const char *filename)
{
	struct seen *s = user;

	check(strlen(name) < FORM_NAME_MAX, "a long name");
	check(!filename || strlen(filename) < FORM_FILENAME_MAX, "a long filename");
	check(s->n_parts < FORM_PARTS_MAX, "too many parts");
	if (s->n_parts == s->n_allowed)
		return false;
	s->starts[s->n_parts] = s->n;
	say(s, filename ? "\2" : "\1", 1);
	say(s, name, strlen(name) + 1);
	say(s, filename ? filename : "", filename ? strlen(filename) + 1 : 1);
	s->contents[s->n_parts++] = s->n;
	return true;
}

static bool on_data(void *user, const char *bytes, size_t n)
{
	struct seen *s = user;

	check(n > 0 && s->n_parts > 0, "nothing is given, or for no part");
	say(s, bytes, n);
	return true;
}

/* Pieces: cut behind the first n_first bytes; then of n_piece bytes each. Copied, so that what is read beyond one of
 * them is noticed. */
static void read_form(struct form *f, struct seen *s, const char *type, const char *body, size_t n, size_t n_first,
		size_t n_piece, size_t n_allowed)
{
	*s = (struct seen){.n_max = 2 * n + 16, .n_allowed = n_allowed};
	s->text = mem_alloc(s->n_max, 1);
	check(s->text != NULL, "memory");
	memset(f, 0x55, sizeof *f);
	f->on_part = on_part;
	f->on_data = on_data;
	f->user = s;
	s->ok = form_init(f, type);
	for (size_t at = 0, k; at < n && s->ok; at += k) {
		k = at < n_first ? n_first - at : n_piece;
		k = k < n - at ? k : n - at;
		char *piece = malloc(k);
		check(piece != NULL, "memory");
		memcpy(piece, body + at, k);
		s->ok = form_push(f, piece, k);
		free(piece);
	}
	s->ok = s->ok && form_end(f);
	snprintf(s->why, sizeof s->why, "%s", s->ok ? "" : f->why);
	check(s->ok || *f->why || n_allowed <= FORM_PARTS_MAX, "a refusal without a reason");
	check(s->ok || !form_push(f, "x", 1), "goes on after a failure");
}

static const char *find(const char *in, size_t n_in, const char *what, size_t n)
{
	for (; n_in >= n; in++, n_in--)
		if (memcmp(in, what, n) == 0)
			return in;
	return NULL;
}

/* A part's content is somewhere in the body, behind the one before it, with a delimiter behind it; only the last may
 * have been cut off. */
static void check_parts(const struct form *f, const struct seen *s, const char *body, size_t n)
{
	const char *at = body, *end = body + n;

	for (size_t i = 0; i < s->n_parts; i++) {
		const char *content = s->text + s->contents[i];
		const size_t n_content = (i + 1 < s->n_parts ? s->starts[i + 1] : s->n) - s->contents[i];
		const bool whole = i + 1 < s->n_parts || s->ok;
		check(!find(content, n_content, f->delimiter, f->n_delimiter), "a field has a delimiter in it");
		for (;; at++) {
			at = find(at, (size_t)(end - at), content, n_content);
			check(at != NULL, "a field is not in the body");
			const size_t left = (size_t)(end - at) - n_content;
			if (!whole ||
					(left >= f->n_delimiter &&
							memcmp(at + n_content, f->delimiter, f->n_delimiter) == 0))
				break;
			check(at < end, "a field has no delimiter behind it");
		}
		at += n_content;
	}
}

static void same(const struct seen *a, struct seen *b, const char *what)
{
	check(a->ok == b->ok && strcmp(a->why, b->why) == 0, what);
	check(a->n == b->n && a->n_parts == b->n_parts && (a->n == 0 || memcmp(a->text, b->text, a->n) == 0), what);
	mem_free(b->text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	const uint8_t *line = n ? memchr(data, '\n', n) : NULL;
	const size_t n_type = line ? (size_t)(line - data) : 0;
	static struct form f;
	struct seen whole, other;
	char type[300];

	if (!line || n_type >= sizeof type || n > 1 << 16)
		return 0;
	memcpy(type, data, n_type);
	type[n_type] = 0;
	const char *body = (const char *)line + 1;
	n -= n_type + 1;
	read_form(&f, &whole, type, body, n, n, n, SIZE_MAX);
	check_parts(&f, &whole, body, n);
	for (size_t piece = 1; piece <= 7; piece += 2) {
		read_form(&f, &other, type, body, n, 0, piece, SIZE_MAX);
		same(&whole, &other, "pieces of the same size");
	}
	/* All cuts in two, or some of a long form. */
	for (size_t cut = 1; cut < n; cut += 1 + n / 100) {
		read_form(&f, &other, type, body, n, cut, n, SIZE_MAX);
		same(&whole, &other, "two pieces");
	}
	mem_free(whole.text);
	/* A reader that refuses a part is asked no more, wherever the pieces end. */
	read_form(&f, &whole, type, body, n, n, n, 1);
	read_form(&f, &other, type, body, n, 0, 1, 1);
	same(&whole, &other, "a reader that refuses");
	mem_free(whole.text);
	return 0;
}
