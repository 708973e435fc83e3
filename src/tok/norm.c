/* Unicode for tokenisers: form C, decomposition, and the few classes of characters that splitting text takes.
 *
 * Invariants
 *  1. All comes from utf8proc's tables, through functions of it that allocate nothing.
 *  2. Text is normalised in stretches that cannot influence each other: from a character that combines with nothing
 *     before it to the next such one. What lies between is copied, so plain text costs one look at each character.
 *  3. The marks of a stretch are sorted by counting, so that a text of nothing but marks costs no more than another.
 *
 * Refuses to know which tokeniser wants what. */
#include "tok/tok_impl.h"

#include "base/utf8.h"

#include <string.h>
#include <utf8proc.h>

/* Characters that are in form C by themselves, have combining class 0 and are never the second of a pair that
 * composes: ranges that hold in every version of Unicode since 4.1, where most text lives. Others are looked at
 * properly. */
static const struct {
	uint32_t from, to;
} plain[] = {
		{0x0, 0x2ff},
		{0x388, 0x482},
		{0x48a, 0x52f},
		{0x5d0, 0x60f},
		{0x620, 0x64a},
		{0x904, 0x939},
		{0xe01, 0xe37},
		{0x1e00, 0x1eff},
		{0x2002, 0x20cf},
		{0x2100, 0x2125},
		{0x212c, 0x2328},
		{0x232b, 0x2adb},
		{0x3001, 0x3029},
		{0x3030, 0x3098},
		{0x309b, 0xa66e},
		{0xac00, 0xd7a3},
		{0xfe00, 0xfe1f},
		{0xff00, 0xffef},
		{0x1f000, 0x1faff},
		{0x20000, 0x2f7ff},
};

static bool is_plain(uint32_t cp)
{
	size_t lo = 0, hi = sizeof plain / sizeof *plain;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;
		if (cp > plain[mid].to)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < sizeof plain / sizeof *plain && cp >= plain[lo].from;
}

static enum cohort_status no_memory(struct cohort_err *err)
{
	return err_set(err, COHORT_E_MEMORY, "tokenise: out of memory");
}

size_t norm_decompose(uint32_t cp, int32_t out[NORM_DECOMPOSED_MAX])
{
	int boundary = 0;
	utf8proc_ssize_t n = utf8proc_decompose_char((utf8proc_int32_t)cp, out, NORM_DECOMPOSED_MAX,
			UTF8PROC_DECOMPOSE | UTF8PROC_STABLE, &boundary);

	/* Canonical decompositions have up to four characters. */
	if (n < 1 || n > NORM_DECOMPOSED_MAX) {
		out[0] = (int32_t)cp;
		return 1;
	}
	return (size_t)n;
}

static unsigned class_of(int32_t cp)
{
	return (unsigned)utf8proc_get_property(cp)->combining_class & 0xff;
}

/* Marks in a row in order of their class, those of one class as they were. */
static bool sort_marks(struct norm *w)
{
	for (size_t i = 0; i < w->n_cps;) {
		size_t from = i, at[257] = {0};
		bool sorted = true;
		if (class_of(w->cps[i++]) == 0)
			continue;
		while (i < w->n_cps && class_of(w->cps[i]) != 0) {
			sorted &= class_of(w->cps[i - 1]) <= class_of(w->cps[i]);
			i++;
		}
		if (sorted)
			continue;
		if (!mem_grow((void **)&w->sorted, &w->sorted_max, i - from, sizeof *w->sorted))
			return false;
		for (size_t k = from; k < i; k++)
			at[class_of(w->cps[k]) + 1]++;
		for (size_t c = 1; c < 257; c++)
			at[c] += at[c - 1];
		for (size_t k = from; k < i; k++)
			w->sorted[at[class_of(w->cps[k])]++] = w->cps[k];
		memcpy(w->cps + from, w->sorted, (i - from) * sizeof *w->cps);
	}
	return true;
}

static bool add_stretch(struct norm *w, const char *s, size_t n)
{
	uint32_t cp;

	w->n_cps = 0;
	for (size_t i = 0; i < n;) {
		i += utf8_decode(s + i, n - i, &cp);
		if (!mem_grow((void **)&w->cps, &w->cps_max, w->n_cps + NORM_DECOMPOSED_MAX, sizeof *w->cps))
			return false;
		w->n_cps += norm_decompose(cp, w->cps + w->n_cps);
	}
	if (!sort_marks(w))
		return false;
	utf8proc_ssize_t got = utf8proc_normalize_utf32(
			w->cps, (utf8proc_ssize_t)w->n_cps, UTF8PROC_COMPOSE | UTF8PROC_STABLE);
	for (utf8proc_ssize_t i = 0; i < got; i++) {
		char c[4];
		if (!bytes_add(&w->text, c, utf8_encode((uint32_t)w->cps[i], c)))
			return false;
	}
	return true;
}

enum cohort_status norm_nfc(
		struct norm *w, const char *s, size_t n, const char **out, size_t *n_out, struct cohort_err *err)
{
	size_t done = 0, last = 0; /* what is written; where the last plain character begins */
	uint32_t cp;

	w->text.n = 0;
	for (size_t i = 0; i < n;) {
		/* Below 0xcc a character is below U+0300. */
		if ((uint8_t)s[i] < 0xcc) {
			last = i;
			i += (uint8_t)s[i] < 0x80 ? 1 : 2;
			continue;
		}
		size_t len = utf8_decode(s + i, n - i, &cp);
		if (is_plain(cp)) {
			last = i;
			i += len;
			continue;
		}
		size_t from = last > done ? last : done;
		for (i += len; i < n; i += len) {
			len = utf8_decode(s + i, n - i, &cp);
			if (is_plain(cp))
				break;
		}
		if (!bytes_add(&w->text, s + done, from - done) || !add_stretch(w, s + from, i - from))
			return no_memory(err);
		done = i;
	}
	*out = s;
	*n_out = n;
	if (done) {
		if (!bytes_add(&w->text, s + done, n - done))
			return no_memory(err);
		*out = w->text.p;
		*n_out = w->text.n;
	}
	return COHORT_OK;
}

void norm_release(struct norm *w)
{
	mem_free(w->cps);
	mem_free(w->sorted);
	bytes_release(&w->text);
	*w = (struct norm){0};
}

/* ---- Classes -------------------------------------------------------------------- */

uint32_t norm_lower(uint32_t cp)
{
	return (uint32_t)utf8proc_tolower((utf8proc_int32_t)cp);
}

bool norm_is_space(uint32_t cp)
{
	return (cp >= 0x9 && cp <= 0xd) || cp == ' ' || cp == 0x85 || cp == 0xa0 || cp == 0x1680 ||
			(cp >= 0x2000 && cp <= 0x200a) || cp == 0x2028 || cp == 0x2029 || cp == 0x202f ||
			cp == 0x205f || cp == 0x3000;
}

bool norm_is_other(uint32_t cp)
{
	utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)cp);

	return c == UTF8PROC_CATEGORY_CC || c == UTF8PROC_CATEGORY_CF || c == UTF8PROC_CATEGORY_CO;
}

bool norm_is_mark(uint32_t cp)
{
	return utf8proc_category((utf8proc_int32_t)cp) == UTF8PROC_CATEGORY_MN;
}

bool norm_is_punctuation(uint32_t cp)
{
	if (cp < 0x80)
		return (cp >= '!' && cp <= '/') || (cp >= ':' && cp <= '@') || (cp >= '[' && cp <= '`') ||
				(cp >= '{' && cp <= '~');
	utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)cp);
	return c >= UTF8PROC_CATEGORY_PC && c <= UTF8PROC_CATEGORY_PO;
}
