/* What the continuations of a prompt share, where they part, how alike they are.
 *
 * What holds:
 *  1. Words are compared as numbers: equal numbers, equal bytes. Beginnings are compared with the white space between
 *     words, so that a shared beginning is the same bytes in all texts; similarity looks at the words alone.
 *  2. The order is that of a walk through the tree of beginnings, children by their lowest text, so every fork is a
 *     range of it.
 *  3. Time is bounded: words x texts for the forks of each level, and COMPARE_*_MAX for the similarities. */
#include "compare.h"

#include "common.h"

#include "base/mem.h"
#include "base/strmap.h"
#include "base/utf8.h"

#include <string.h>
#include <utf8proc.h>

/* ---- Words ---- */

static bool is_space(uint32_t cp)
{
	const utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)cp);

	return (cp >= '\t' && cp <= '\r') || cp == 0x85 || c == UTF8PROC_CATEGORY_ZS || c == UTF8PROC_CATEGORY_ZL ||
			c == UTF8PROC_CATEGORY_ZP;
}

/* Signs and wide characters are words by themselves; apostrophes and what joins words are part of them. */
static bool is_alone(uint32_t cp)
{
	const utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)cp);

	if (cp == '\'' || cp == 0x2019)
		return false;
	return (c >= UTF8PROC_CATEGORY_PD && c <= UTF8PROC_CATEGORY_SO) ||
			utf8proc_charwidth((utf8proc_int32_t)cp) == 2;
}

/* The word at s[*at..n), after white space; false if there is none. What makes one grapheme is not torn apart. */
static bool next_word(const char *s, size_t n, size_t *at, struct compare_word *w)
{
	uint32_t cp = 0, before = 0;
	size_t i = *at, len;
	utf8proc_int32_t state = 0;
	bool alone = false;

	*w = (struct compare_word){.gap = i};
	while (i < n && (len = utf8_decode(s + i, n - i, &cp)) > 0 && is_space(cp))
		i += len;
	for (w->from = i; i < n; i += len, before = cp) {
		len = utf8_decode(s + i, n - i, &cp);
		if (len == 0) { /* a byte that is no character is one of its own */
			len = 1;
			cp = 'x';
		} else if (is_space(cp)) {
			break;
		}
		const bool starts = i == w->from ||
				utf8proc_grapheme_break_stateful(
						(utf8proc_int32_t)before, (utf8proc_int32_t)cp, &state);
		if (starts && i > w->from && (alone || is_alone(cp)))
			break;
		alone = alone || (starts && is_alone(cp));
	}
	w->to = i;
	*at = i;
	return i > w->from;
}

static bool split(struct compare_text *t, const char *s, size_t n)
{
	struct compare_word w;
	size_t at = 0, n_max = 0;
	void *words = NULL;

	while (next_word(s, n, &at, &w)) {
		if (!mem_grow(&words, &n_max, t->n_words + 1, sizeof w))
			return false;
		t->words = words;
		t->words[t->n_words++] = w;
	}
	return true;
}

/* The number of a key: a new one if it is not there yet. */
static bool number(struct strmap *m, const char *key, size_t n, int32_t *id)
{
	const int32_t next = (int32_t)m->n_used;
	bool there;

	if (!strmap_add(m, key, n, next, &there))
		return false;
	*id = there ? strmap_find(m, key, n, 0) : next;
	return true;
}

static bool number_words(struct compare *c, int32_t *n_ids)
{
	struct strmap plain = {.slots = NULL}, exact = {.slots = NULL};
	bool ok = strmap_init(&plain, 64) && strmap_init(&exact, 64);

	for (int32_t i = 0; i < c->n && ok; i++) {
		const char *s = c->p->texts[i].bytes;
		for (size_t k = 0; k < c->texts[i].n_words && ok; k++) {
			struct compare_word *w = &c->texts[i].words[k];
			ok = number(&plain, s + w->from, w->to - w->from, &w->id) &&
					number(&exact, s + w->gap, w->to - w->gap, &w->exact);
		}
	}
	*n_ids = (int32_t)exact.n_used; /* not less than there are of the plain ones */
	strmap_release(&plain);
	strmap_release(&exact);
	return ok;
}

const struct compare_word *compare_word(const struct compare *c, int32_t i, size_t at)
{
	return at < c->texts[i].n_words ? &c->texts[i].words[at] : NULL;
}

/* ---- Forks ---- */

enum { ENDS = -1 };

static int32_t exact_at(const struct compare *c, int32_t i, size_t at)
{
	const struct compare_word *w = compare_word(c, i, at);
	return w ? w->exact : ENDS;
}

int32_t compare_branch(const struct compare *c, const struct compare_fork *f, int32_t from)
{
	const int32_t id = exact_at(c, c->order[from], f->depth);
	int32_t n = 1;

	while (from + n < f->first + f->n && exact_at(c, c->order[from + n], f->depth) == id)
		n++;
	return n;
}

/* How many words all of a range have together from `depth` on. False: they never part. */
static bool find_end(const struct compare *c, int32_t first, int32_t n, size_t *depth)
{
	for (;; (*depth)++) {
		const int32_t id = exact_at(c, c->order[first], *depth);
		for (int32_t i = 1; i < n; i++)
			if (exact_at(c, c->order[first + i], *depth) != id)
				return true;
		if (id == ENDS)
			return false;
	}
}

struct forker {
	struct compare *c;
	int32_t *rank; /* [n_ids + 1]: of a word among those that follow a fork; -1 in between */
	int32_t *count; /* [n + 1] */
	int32_t *moved; /* [n] */
	struct compare_fork *todo; /* ranges that may part: the top is next */
	size_t n_todo, todo_max;
};

static bool push(struct forker *f, size_t depth, int32_t first, int32_t n, int32_t level)
{
	void *at = f->todo;
	const bool ok = mem_grow(&at, &f->todo_max, f->n_todo + 1, sizeof *f->todo);

	f->todo = at;
	if (ok)
		f->todo[f->n_todo++] = (struct compare_fork){depth, first, n, level};
	return ok;
}

/* Brings those that go on alike together, in the order of their first; the range is part of the order. */
static void gather(struct forker *f, const struct compare_fork *k)
{
	struct compare *c = f->c;
	int32_t *range = c->order + k->first, n_ranks = 0;

	memset(f->count, 0, ((size_t)k->n + 1) * sizeof *f->count);
	for (int32_t i = 0; i < k->n; i++) {
		int32_t *rank = &f->rank[exact_at(c, range[i], k->depth) + 1];
		if (*rank < 0)
			*rank = n_ranks++;
		f->count[*rank + 1]++;
	}
	for (int32_t r = 0; r < n_ranks; r++)
		f->count[r + 1] += f->count[r];
	for (int32_t i = 0; i < k->n; i++)
		f->moved[f->count[f->rank[exact_at(c, range[i], k->depth) + 1]]++] = range[i];
	for (int32_t i = 0; i < k->n; i++)
		f->rank[exact_at(c, range[i], k->depth) + 1] = -1;
	memcpy(range, f->moved, (size_t)k->n * sizeof *range);
}

/* Notes a fork, and of each of its branches who is alone from here on, or who is still together. */
static bool take_fork(struct forker *f, const struct compare_fork *k)
{
	struct compare *c = f->c;
	void *at = c->forks;
	bool ok = mem_grow(&at, &c->forks_max, c->n_forks + 1, sizeof *c->forks);

	c->forks = at;
	if (!ok)
		return false;
	c->forks[c->n_forks++] = *k;
	gather(f, k);
	for (int32_t i = k->first; i < k->first + k->n; i++) {
		struct compare_text *t = &c->texts[c->order[i]];
		t->together = k->depth;
		t->with = c->order[i == k->first ? i + 1 : k->first];
	}
	/* The last branch is pushed first, so that forks come out in the order of the texts. */
	for (int32_t end = k->first + k->n, from = end - 1; end > k->first && ok; end = from--) {
		const int32_t id = exact_at(c, c->order[from], k->depth);
		while (from > k->first && exact_at(c, c->order[from - 1], k->depth) == id)
			from--;
		if (end - from > 1)
			ok = push(f, k->depth + 1, from, end - from, k->level + 1);
	}
	return ok;
}

static bool find_forks(struct compare *c, int32_t n_ids)
{
	struct forker f = {.c = c};
	const size_t n = (size_t)c->n;

	f.rank = mem_alloc((size_t)n_ids + 1, sizeof *f.rank);
	f.count = mem_alloc(n + 1, sizeof *f.count);
	f.moved = mem_alloc(n, sizeof *f.moved);
	bool ok = f.rank && f.count && f.moved && push(&f, 0, 0, c->n, 0);
	for (int32_t i = 0; i <= n_ids && ok; i++)
		f.rank[i] = -1;
	while (ok && f.n_todo > 0) {
		struct compare_fork k = f.todo[--f.n_todo];
		if (find_end(c, k.first, k.n, &k.depth)) {
			ok = take_fork(&f, &k);
			continue;
		}
		for (int32_t i = k.first; i < k.first + k.n; i++) {
			struct compare_text *t = &c->texts[c->order[i]];
			t->together = t->n_words;
			t->with = c->order[i == k.first ? i + 1 : k.first];
			t->same = true;
		}
	}
	mem_free(f.rank);
	mem_free(f.count);
	mem_free(f.moved);
	mem_free(f.todo);
	return ok;
}

/* ---- Similarity ---- */

static size_t looked_at(const struct compare_text *t)
{
	return t->n_words < COMPARE_WORDS_MAX ? t->n_words : COMPARE_WORDS_MAX;
}

/* The bits of a text's words: row r has a bit for each place of the word with local number r. */
struct lcs {
	int32_t *local; /* [n_ids]: -1: the text has it not */
	uint64_t *rows; /* [words, n_units] */
	uint64_t *column; /* [n_units] */
	size_t n_units;
};

static void lcs_load(struct lcs *l, const struct compare_text *t, int32_t n_ids)
{
	const size_t n = looked_at(t);
	int32_t n_local = 0;

	l->n_units = (n + 63) / 64;
	for (int32_t i = 0; i < n_ids; i++)
		l->local[i] = -1;
	memset(l->rows, 0, n * l->n_units * sizeof *l->rows);
	for (size_t k = 0; k < n; k++) {
		int32_t *local = &l->local[t->words[k].id];
		if (*local < 0)
			*local = n_local++;
		l->rows[(size_t)*local * l->n_units + k / 64] |= UINT64_C(1) << k % 64;
	}
}

/* The length of the longest common subsequence with the loaded text, 64 places a step: in the column of the usual table
 * a bit that is 0 says that the number grows by one there (Hyyro's formulation). */
static size_t lcs_length(struct lcs *l, const struct compare_text *t)
{
	size_t length = 0;

	for (size_t u = 0; u < l->n_units; u++)
		l->column[u] = UINT64_MAX;
	for (size_t k = 0; k < looked_at(t); k++) {
		const int32_t local = l->local[t->words[k].id];
		const uint64_t *row = l->rows + (size_t)local * l->n_units;
		uint64_t carry = 0;
		for (size_t u = 0; local >= 0 && u < l->n_units; u++) {
			const uint64_t v = l->column[u], hit = v & row[u], sum = v + hit, all = sum + carry;
			carry = (uint64_t)(sum < v) | (uint64_t)(all < sum);
			l->column[u] = all | (v & ~row[u]);
		}
	}
	for (size_t u = 0; u < l->n_units; u++)
		length += (size_t)__builtin_popcountll(~l->column[u]);
	return length;
}

static bool find_similarity(struct compare *c, int32_t n_ids)
{
	const size_t n = (size_t)c->n;
	size_t most = 0;

	for (size_t i = 0; i < n; i++)
		most = looked_at(&c->texts[i]) > most ? looked_at(&c->texts[i]) : most;
	struct lcs l = {.n_units = (most + 63) / 64};
	l.local = mem_alloc((size_t)n_ids, sizeof *l.local);
	l.rows = mem_alloc(most * l.n_units, sizeof *l.rows);
	l.column = mem_alloc(l.n_units, sizeof *l.column);
	c->similarity = mem_alloc(n * n, sizeof *c->similarity);
	const bool ok = l.local && l.rows && l.column && c->similarity;
	for (size_t i = 0; i < n && ok; i++) {
		lcs_load(&l, &c->texts[i], n_ids);
		for (size_t k = 0; k <= i; k++) {
			const size_t words = looked_at(&c->texts[i]) + looked_at(&c->texts[k]);
			const double s = words > 0 ? 2.0 * (double)lcs_length(&l, &c->texts[k]) / (double)words : 1;
			c->similarity[i * n + k] = c->similarity[k * n + i] = s;
		}
	}
	mem_free(l.local);
	mem_free(l.rows);
	mem_free(l.column);
	return ok;
}

/* ---- All of it ---- */

static void find_best(struct compare *c)
{
	c->best = -1;
	for (int32_t i = 0; i < c->n; i++) {
		const struct gen_text *t = &c->p->texts[i];
		if (t->n_tokens > 0 && t->logprobs &&
				(c->best < 0 || gen_mean_logprob(t) > gen_mean_logprob(&c->p->texts[c->best])))
			c->best = i;
	}
}

int compare_init(struct compare *c, const char *prog, const struct gen_prompt *p)
{
	int32_t n_ids = 0;

	*c = (struct compare){.p = p, .n = p->n_texts};
	c->texts = mem_zalloc((size_t)c->n, sizeof *c->texts);
	c->order = mem_alloc((size_t)c->n, sizeof *c->order);
	bool ok = c->texts && c->order;
	for (int32_t i = 0; i < c->n && ok; i++) {
		c->order[i] = i;
		c->texts[i].with = -1;
		ok = split(&c->texts[i], p->texts[i].bytes ? p->texts[i].bytes : "", p->texts[i].n_bytes);
	}
	ok = ok && number_words(c, &n_ids);
	if (ok && c->n > 1) {
		ok = find_forks(c, n_ids) && (c->n > COMPARE_TEXTS_MAX || find_similarity(c, n_ids));
		c->shared = c->n_forks > 0 ? c->forks[0].depth : c->texts[0].n_words;
		c->shared_bytes = ok && c->shared > 0 ? c->texts[0].words[c->shared - 1].to : 0;
	}
	find_best(c);
	return ok ? 0 : out_of_memory(prog);
}

void compare_release(struct compare *c)
{
	for (int32_t i = 0; c->texts && i < c->n; i++)
		mem_free(c->texts[i].words);
	mem_free(c->texts);
	mem_free(c->order);
	mem_free(c->forks);
	mem_free(c->similarity);
	*c = (struct compare){.p = NULL};
}

const char *compare_end(const struct gen_text *t)
{
	if (t->cut)
		return "cut before the grammar's end";
	switch (t->finish) {
	case COHORT_FINISH_EOG: return "ended by the model";
	case COHORT_FINISH_STOP: return "stop text reached";
	case COHORT_FINISH_LENGTH: return "length reached";
	case COHORT_FINISH_ERROR: return t->error ? t->error : "error";
	default: return "interrupted";
	}
}
