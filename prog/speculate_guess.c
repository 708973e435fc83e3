/* Prompt lookup by hash tables, one per length of n-gram, and how long guesses are worth to be.
 *
 * Invariants
 *  1. A table holds the end of an n-gram once: that of its most recent occurrence that ends before n_indexed. Slots are
 *     compared by the tokens they stand for, so a hash that two n-grams share costs time, never a wrong answer.
 *  2. At a lookup all n-grams that end before the text's last token are in the tables, and none that ends there: what
 *     is found is an earlier occurrence, with at least one token behind it.
 *  3. Adding and looking up a token costs n_max steps, however long the text is.
 *
 * It does not know what tokens mean, and whether a guess is right is not its business: nothing depends on that but
 * speed. */
#include "speculate_guess.h"

#include "base/err.h"
#include "base/mem.h"

#include <string.h>

enum { SLOTS_MIN = 256, PACE_FIRST = 4, REST_MAX = 16 };

/* ---- Lookup ---- */

void lookup_init(struct lookup *l, int32_t n_min, int32_t n_max)
{
	*l = (struct lookup){.n_min = n_min, .n_max = n_max};
}

void lookup_release(struct lookup *l)
{
	for (size_t i = 0; i < NGRAM_MAX; i++)
		mem_free(l->tables[i].ends);
	*l = (struct lookup){.n_min = l->n_min, .n_max = l->n_max};
}

/* N-grams are hashed from their end, so that a pass over the lengths adds one token each. */
static uint64_t hash_more(uint64_t h, cohort_token t)
{
	h = (h ^ (uint32_t)t) * 0x9e3779b97f4a7c15u;
	return h ^ h >> 29;
}

static uint64_t hash_of(const cohort_token *text, size_t end, int32_t n)
{
	uint64_t h = 0;
	for (int32_t k = 0; k < n; k++)
		h = hash_more(h, text[end - (size_t)k]);
	return h;
}

/* The slot of the n-gram that ends at `end`: the one that has it, or the free one where it belongs. */
static uint32_t *slot_of(const struct lookup_table *t, const cohort_token *text, size_t end, int32_t n, uint64_t h)
{
	const size_t mask = t->n_slots - 1, n_bytes = (size_t)n * sizeof *text;
	const cohort_token *want = text + end + 1 - n;
	size_t i = (size_t)h & mask;

	while (t->ends[i] && memcmp(text + t->ends[i] - n, want, n_bytes) != 0)
		i = (i + 1) & mask;
	return &t->ends[i];
}

/* Room for one more, at most half full. */
static enum cohort_status table_grow(
		struct lookup_table *t, const cohort_token *text, int32_t n, struct cohort_err *err)
{
	if (t->n_slots && t->n_used < t->n_slots / 2)
		return COHORT_OK;
	struct lookup_table more = {.n_slots = t->n_slots ? 2 * t->n_slots : SLOTS_MIN, .n_used = t->n_used};
	more.ends = mem_zalloc(more.n_slots, sizeof *more.ends);
	if (!more.ends)
		return err_set(err, COHORT_E_MEMORY, "out of memory for the index of the text");
	for (size_t i = 0; i < t->n_slots; i++)
		if (t->ends[i]) {
			const size_t end = t->ends[i] - 1;
			*slot_of(&more, text, end, n, hash_of(text, end, n)) = t->ends[i];
		}
	mem_free(t->ends);
	*t = more;
	return COHORT_OK;
}

/* All n-grams that end at `end`. Repeating it after a failure does no harm. */
static enum cohort_status index_end(struct lookup *l, const cohort_token *text, size_t end, struct cohort_err *err)
{
	enum cohort_status st = COHORT_OK;
	uint64_t h = 0;

	for (int32_t n = 1; !st && n <= l->n_max && (size_t)n <= end + 1; n++) {
		h = hash_more(h, text[end + 1 - (size_t)n]);
		if (n < l->n_min)
			continue;
		struct lookup_table *t = &l->tables[n - l->n_min];
		if ((st = table_grow(t, text, n, err)))
			break;
		uint32_t *slot = slot_of(t, text, end, n, h);
		t->n_used += !*slot;
		*slot = (uint32_t)end + 1;
	}
	return st;
}

enum cohort_status lookup_guess(struct lookup *l, const cohort_token *text, size_t n_text, cohort_token *out,
		int32_t n_guess, int32_t *n_out, int32_t *n_match, struct cohort_err *err)
{
	size_t after = 0; /* where the continuation starts; 0: none was found, as something stands before each */
	int32_t found = 0;
	uint64_t h = 0;

	while (l->n_indexed + 1 < n_text) {
		const enum cohort_status st = index_end(l, text, l->n_indexed, err);
		if (st)
			return st;
		l->n_indexed++;
	}
	for (int32_t n = 1; n <= l->n_max && (size_t)n <= n_text; n++) {
		h = hash_more(h, text[n_text - (size_t)n]);
		const struct lookup_table *t = n < l->n_min ? NULL : &l->tables[n - l->n_min];
		const uint32_t *slot = t && t->n_slots ? slot_of(t, text, n_text - 1, n, h) : NULL;
		if (slot && *slot) {
			after = *slot;
			found = n;
		} else if (n >= l->n_min) {
			break; /* what ends with an n-gram that never was, never was either */
		}
	}
	for (int32_t i = 0; found && i < n_guess; i++) {
		const size_t from = after + (size_t)i;
		out[i] = from < n_text ? text[from] : out[from - n_text];
	}
	while (found && found < MATCH_MAX && (size_t)found < after &&
			text[after - 1 - (size_t)found] == text[n_text - 1 - (size_t)found])
		found++;
	*n_out = found ? n_guess : 0;
	*n_match = found;
	return COHORT_OK;
}

/* ---- Odds ---- */

/* With one text: a row more is a quarter of a step. Measured from a third (a model that lies in the cache) to a tenth
 * (one that does not); guesses that are a little too long or too short cost little. */
static const float ROW_COST = 0.25f, FADE = 0.97f;

void odds_init(struct odds *o, int32_t n_max, int32_t n_lines)
{
	/* What reading the weights costs is shared by the texts. */
	*o = (struct odds){.n_max = n_max, .row = ROW_COST / ((1 - ROW_COST) / (float)n_lines + ROW_COST)};
	for (size_t i = 0; i < ODDS_CLASSES; i++) {
		o->right[i] = 4;
		o->wrong[i] = 1;
	}
}

/* Matches of 1, 2 or 3, 4 to 7, ... */
static size_t class_of(int32_t n_match)
{
	size_t class = 0;
	for (int32_t n = n_match; n > 1 && class + 1 < ODDS_CLASSES; n /= 2)
		class ++;
	return class;
}

/* Each token of a guess lengthens the match for the next. A guess is as long as gives most tokens per cost. */
int32_t odds_length(const struct odds *o, int32_t n_match)
{
	float best = 1, likely = 1, tokens = 1;
	int32_t length = 0;

	for (int32_t n = 1; n <= o->n_max; n++) {
		const size_t class = class_of(n_match + n - 1);
		likely *= o->right[class] / (o->right[class] + o->wrong[class]);
		tokens += likely;
		const float rate = tokens / (1 + o->row * (float)n);
		if (rate > best) {
			best = rate;
			length = n;
		}
	}
	return length;
}

void odds_tell(struct odds *o, int32_t n_match, int32_t n_guess, int32_t n_right)
{
	for (int32_t i = 0; i < n_guess && i <= n_right; i++) {
		const size_t class = class_of(n_match + i);
		o->right[class] = FADE * o->right[class] + (i < n_right);
		o->wrong[class] = FADE * o->wrong[class] + (i == n_right);
	}
}

/* ---- Pace ---- */

void pace_init(struct pace *p, int32_t n_min, int32_t n_max)
{
	*p = (struct pace){.n_min = n_min, .n_max = n_max, .want = PACE_FIRST};
	if (p->want < n_min)
		p->want = n_min;
	if (p->want > n_max)
		p->want = n_max;
}

int32_t pace_next(struct pace *p)
{
	if (p->n_rest > 0) {
		p->n_rest--;
		return 0;
	}
	return p->want;
}

/* A guess that was right to its end might have been longer: twice as long. One that was wrong somewhere was long enough
 * up to there: half way back to that. After the second in a row of which nothing was right, steps without a guess
 * follow, each time twice as many, so that a hopeless guesser costs little. */
void pace_tell(struct pace *p, int32_t n_guess, int32_t n_right)
{
	p->n_wrong = n_right > 0 ? 0 : p->n_wrong + 1;
	if (n_right == n_guess)
		p->want = n_guess < p->want ? p->want : 2 * p->want;
	else
		p->want = (p->want + n_right + 1) / 2;
	if (p->want < p->n_min)
		p->want = p->n_min;
	if (p->want > p->n_max)
		p->want = p->n_max;
	if (p->n_wrong >= 2)
		p->n_rest = p->n_wrong - 2 < 4 ? 1 << (p->n_wrong - 2) : REST_MAX;
}
