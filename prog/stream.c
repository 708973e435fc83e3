/* Texts as prefixed lines.
 *
 * 1. The pieces of a sequence, unescaped and put together, are its text, byte for byte, whenever the run ends.
 * 2. A piece is a line, a sentence, or the bytes of PIECE_MAX at most: nobody waits long, and looking for the next end
 * is bounded work.
 * 3. What is printed holds no control character but the line ends: it is safe on a terminal as well.
 *
 * Where a piece ends depends on the text alone, not on how it came: the lines of a sequence are the same in every run.
 */
#include "stream.h"

#include "common.h"
#include "width.h"

#include "base/mem.h"

#include <string.h>

enum { PIECE_MAX = 200 };

struct stream {
	struct gen *g;
	struct gen_watch watch;
	bool many, dirty;
	size_t n_prompts;
	size_t *first; /* [n_prompts]: index of a prompt's first sequence */
	size_t *sent; /* [sequences]: bytes printed */
};

static bool blank(char c)
{
	return c == ' ' || c == '\t';
}

/* Bytes of the first piece of s, 0 if its end has not come yet. A sentence ends behind the spaces that follow it, so
 * that what comes next is needed to know. */
static size_t piece(const char *s, size_t n)
{
	bool ended = false;
	size_t space = 0;

	for (size_t i = 0; i < n; i++) {
		if (s[i] == '\n')
			return i + 1;
		if (ended && i > 0 && blank(s[i - 1]) && !blank(s[i]))
			return i;
		if (i >= PIECE_MAX) {
			if (space > 0)
				return space;
			/* Not within a character. */
			while (i > PIECE_MAX - 4 && ((unsigned char)s[i] & 0xc0) == 0x80)
				i--;
			return i;
		}
		if (s[i] == '.' || s[i] == '!' || s[i] == '?')
			ended = true;
		else if (!blank(s[i]) && !strchr("\"')]", s[i]))
			ended = false;
		if (blank(s[i]))
			space = i + 1;
	}
	return 0;
}

static void escape(const char *s, size_t n)
{
	struct glyph g;

	for (size_t at = 0; at < n;) {
		const size_t len = glyph_next(s + at, n - at, &g);
		const bool plain = g.n_bytes == len && memcmp(g.bytes, s + at, len) == 0;
		if (s[at] == '\\')
			fputs("\\\\", stdout);
		else if (plain)
			fwrite(s + at, 1, len, stdout);
		else if (s[at] == '\n')
			fputs("\\n", stdout);
		else if (s[at] == '\t')
			fputs("\\t", stdout);
		else if (s[at] == '\r')
			fputs("\\r", stdout);
		else
			for (size_t i = 0; i < len; i++)
				printf("\\0%03o", (unsigned)(unsigned char)s[at + i]);
		at += len;
	}
}

static void prefix(struct stream *s, const struct gen_prompt *p, int32_t i)
{
	if (s->many)
		printf("[%zu.%d]", p->index, i);
	else
		printf("[%d]", i);
	s->dirty = true;
}

static void print_pieces(struct stream *s, const struct gen_prompt *p, int32_t i, bool all)
{
	const struct gen_text *t = &p->texts[i];
	size_t *sent = &s->sent[s->first[p->index] + (size_t)i];

	while (*sent < t->n_bytes) {
		const size_t left = t->n_bytes - *sent;
		size_t n = piece(t->bytes + *sent, left);
		if (n == 0 && !all)
			break;
		n = n ? n : left;
		prefix(s, p, i);
		putchar(' ');
		escape(t->bytes + *sent, n);
		putchar('\n');
		*sent += n;
	}
}

static void on_text(void *user, const struct gen_prompt *p, int32_t i, const char *bytes, size_t n_bytes)
{
	(void)bytes;
	(void)n_bytes;
	print_pieces(user, p, i, false);
}

static void on_text_end(void *user, const struct gen_prompt *p, int32_t i)
{
	const enum cohort_finish finish = p->texts[i].finish;

	print_pieces(user, p, i, true);
	if (finish != COHORT_FINISH_EOG && finish != COHORT_FINISH_STOP && finish != COHORT_FINISH_LENGTH)
		return;
	prefix(user, p, i);
	putchar('\n');
}

static void on_tick(void *user)
{
	struct stream *s = user;

	if (s->dirty && !s->g->rc)
		s->g->rc = close_stdout(s->g->prog);
	s->dirty = false;
}

struct stream *stream_open(struct gen *g, const struct gen_prompt *prompts, size_t n_prompts, bool many)
{
	struct stream *s = mem_zalloc(1, sizeof *s);
	size_t n = 0;

	if (!s)
		return NULL;
	*s = (struct stream){.g = g, .many = many, .n_prompts = n_prompts};
	s->watch = (struct gen_watch){.text = on_text, .end = on_text_end, .tick = on_tick, .user = s};
	s->first = mem_alloc(n_prompts, sizeof *s->first);
	for (size_t i = 0; s->first && i < n_prompts; i++) {
		s->first[i] = n;
		n += (size_t)prompts[i].n_texts;
	}
	s->sent = mem_zalloc(n, sizeof *s->sent);
	if (s->first && s->sent)
		return s;
	stream_free(s);
	return NULL;
}

const struct gen_watch *stream_watch(const struct stream *s)
{
	return &s->watch;
}

void stream_free(struct stream *s)
{
	if (!s)
		return;
	mem_free(s->first);
	mem_free(s->sent);
	mem_free(s);
}
