/* Characters: their classes and cases, as Python's texts have them.
 *
 * Invariants
 *  1. All comes from utf8proc's tables, through functions of it that allocate nothing; the tables here have what
 *     neither a category nor a mapping of it tells.
 *  2. Cases that take several characters are made from the full folding: in upper case every character of it, in title
 *     case the first that has one.
 *
 * Refuses to know what a text is: one character at a time. */
#include "template/tmpl.h"

#include "base/utf8.h"

#include <utf8proc.h>

uint32_t uni_decode(const char *s, size_t n, uint32_t *cp)
{
	const size_t k = utf8_decode(s, n, cp);
	if (k)
		return (uint32_t)k;
	*cp = 0xfffd;
	return 1;
}

size_t uni_back(const char *s, size_t at, uint32_t *cp)
{
	const size_t end = at;
	do
		at--;
	while (at > 0 && ((uint8_t)s[at] & 0xc0) == 0x80);
	uni_decode(s + at, end - at, cp);
	return at;
}

size_t uni_count(const char *s, size_t n)
{
	size_t count = 0;
	for (size_t i = 0; i < n; i++)
		count += ((uint8_t)s[i] & 0xc0) != 0x80;
	return count;
}

size_t uni_offset(const char *s, size_t n, size_t i)
{
	size_t at = 0;
	while (at < n && i) {
		at++;
		while (at < n && ((uint8_t)s[at] & 0xc0) == 0x80)
			at++;
		i--;
	}
	return at;
}

/* ---- Classes ---- */

struct span {
	uint32_t first, last;
};

static bool in_spans(const struct span *spans, uint32_t cp)
{
	for (; spans->first && spans->first <= cp; spans++)
		if (cp <= spans->last)
			return true;
	return false;
}

static bool is_category(uint32_t cp, utf8proc_category_t first, utf8proc_category_t last)
{
	const utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)cp);
	return c >= first && c <= last;
}

bool uni_is_space(uint32_t cp)
{
	return (cp >= 9 && cp <= 13) || (cp >= 28 && cp <= 32) || cp == 0x85 || cp == 0xa0 || cp == 0x1680 ||
			(cp >= 0x2000 && cp <= 0x200a) || cp == 0x2028 || cp == 0x2029 || cp == 0x202f ||
			cp == 0x205f || cp == 0x3000;
}

bool uni_is_alpha(uint32_t cp)
{
	return is_category(cp, UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_LO);
}

bool uni_is_decimal(uint32_t cp)
{
	return is_category(cp, UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_ND);
}

bool uni_is_digit(uint32_t cp)
{
	/* Single digits in another shape: raised, lowered, in circles. */
	static const struct span shapes[] = {{0xb2, 0xb3}, {0xb9, 0xb9}, {0x1369, 0x1371}, {0x19da, 0x19da},
			{0x2070, 0x2070}, {0x2074, 0x2079}, {0x2080, 0x2089}, {0x2460, 0x2468}, {0x2474, 0x247c},
			{0x2488, 0x2490}, {0x24ea, 0x24ea}, {0x24f5, 0x24fd}, {0x24ff, 0x24ff}, {0x2776, 0x277e},
			{0x2780, 0x2788}, {0x278a, 0x2792}, {0x10a40, 0x10a43}, {0x10e60, 0x10e68}, {0x11052, 0x1105a},
			{0x1f100, 0x1f10a}, {0, 0}};
	return uni_is_decimal(cp) || in_spans(shapes, cp);
}

bool uni_is_numeric(uint32_t cp)
{
	return is_category(cp, UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_NO);
}

bool uni_is_printable(uint32_t cp)
{
	return cp == ' ' || is_category(cp, UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_SO);
}

bool uni_is_upper(uint32_t cp)
{
	static const struct span others[] = {{0x2160, 0x216f}, {0x24b6, 0x24cf}, {0x1f130, 0x1f149}, {0x1f150, 0x1f169},
			{0x1f170, 0x1f189}, {0, 0}}; /* numerals, letters in circles */
	return is_category(cp, UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_LU) || in_spans(others, cp);
}

bool uni_is_lower(uint32_t cp)
{
	static const struct span others[] = {{0xaa, 0xaa}, {0xba, 0xba}, {0x2b0, 0x2b8}, {0x2c0, 0x2c1}, {0x2e0, 0x2e4},
			{0x345, 0x345}, {0x37a, 0x37a}, {0x1d2c, 0x1d6a}, {0x1d78, 0x1d78}, {0x1d9b, 0x1dbf},
			{0x2071, 0x2071}, {0x207f, 0x207f}, {0x2090, 0x209c}, {0x2170, 0x217f}, {0x24d0, 0x24e9},
			{0x2c7c, 0x2c7d}, {0xa69c, 0xa69d}, {0xa770, 0xa770}, {0xa7f8, 0xa7f9}, {0xab5c, 0xab5f},
			{0x10780, 0x10780}, {0x10783, 0x10785}, {0x10787, 0x107b0}, {0x107b2, 0x107ba},
			{0, 0}}; /* numerals, raised letters */
	return is_category(cp, UTF8PROC_CATEGORY_LL, UTF8PROC_CATEGORY_LL) || in_spans(others, cp);
}

bool uni_is_cased(uint32_t cp)
{
	return uni_is_upper(cp) || uni_is_lower(cp) || is_category(cp, UTF8PROC_CATEGORY_LT, UTF8PROC_CATEGORY_LT);
}

bool uni_is_word(uint32_t cp)
{
	return cp == '_' || uni_is_alpha(cp) || uni_is_numeric(cp);
}

/* ---- Cases ---- */

static uint32_t upper(uint32_t cp)
{
	return (uint32_t)utf8proc_toupper((utf8proc_int32_t)cp);
}

size_t uni_fold(uint32_t cp, uint32_t out[3])
{
	utf8proc_int32_t folded[4];
	int boundary = 0;
	const utf8proc_ssize_t n =
			utf8proc_decompose_char((utf8proc_int32_t)cp, folded, 4, UTF8PROC_CASEFOLD, &boundary);

	if (n < 1 || n > 3)
		return out[0] = cp, 1;
	for (utf8proc_ssize_t i = 0; i < n; i++)
		out[i] = (uint32_t)folded[i];
	return (size_t)n;
}

size_t uni_upper(uint32_t cp, uint32_t out[3])
{
	const size_t n = uni_is_upper(cp) ? 1 : uni_fold(cp, out);
	if (n == 1)
		return out[0] = upper(cp), 1;
	for (size_t i = 0; i < n; i++)
		out[i] = upper(out[i]);
	return n;
}

size_t uni_lower(uint32_t cp, uint32_t out[3])
{
	if (cp == 0x130) /* I with a dot, which stays */
		return uni_fold(cp, out);
	return out[0] = (uint32_t)utf8proc_tolower((utf8proc_int32_t)cp), 1;
}

size_t uni_title(uint32_t cp, uint32_t out[3])
{
	const uint32_t simple = (uint32_t)utf8proc_totitle((utf8proc_int32_t)cp);
	/* utf8proc has a capital sharp s where Unicode's full mapping has two letters. */
	const size_t n = (simple != cp && cp != 0xdf) || !uni_is_lower(cp) ? 1 : uni_fold(cp, out);

	if (n == 1)
		return out[0] = simple, 1;
	bool done = false;
	for (size_t i = 0; i < n; i++) {
		const uint32_t up = upper(out[i]);
		if (!done)
			out[i] = up;
		else if (out[i] == 0x3b9) /* the Greek iota that is written below */
			out[i] = 0x345;
		done |= uni_is_cased(up);
	}
	return n;
}
