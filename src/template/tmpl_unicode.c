/* Characters: their classes and cases, as Python 3.11 has them. */
#include "template/tmpl.h"
#include "template/uni_data.h"

#include "base/utf8.h"

#include <string.h>

#define LEN(a) (sizeof(a) / sizeof *(a))

uint32_t uni_decode(const char *s, size_t n, uint32_t *cp)
{
	const uint8_t c = (uint8_t)*s;
	if (c < 0x80) {
		*cp = c;
		return 1;
	}
	const size_t k = utf8_decode(s, n, cp);
	if (k)
		return (uint32_t)k;
	*cp = 0xfffd;
	return 1;
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

static bool in_spans(const struct span *spans, size_t n, uint32_t cp)
{
	size_t lo = 0, hi = n;
	while (lo < hi) {
		const size_t mid = (lo + hi) / 2;
		if (spans[mid].last < cp)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < n && spans[lo].first <= cp;
}

static const struct shift *find_shift(const struct shift *shifts, size_t n, uint32_t cp)
{
	size_t lo = 0, hi = n;
	while (lo < hi) {
		const size_t mid = (lo + hi) / 2;
		if (shifts[mid].last < cp)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo < n && shifts[lo].first <= cp && (cp - shifts[lo].first) % (uint32_t)shifts[lo].step == 0)
		return &shifts[lo];
	return NULL;
}

static const struct longer *find_longer(const struct longer *l, size_t n, uint32_t cp)
{
	for (size_t i = 0; i < n; i++)
		if (l[i].from == cp)
			return &l[i];
	return NULL;
}

bool uni_is_space(uint32_t cp)
{
	return (cp >= 9 && cp <= 13) || (cp >= 28 && cp <= 32) || cp == 0x85 || cp == 0xa0 || cp == 0x1680 ||
			(cp >= 0x2000 && cp <= 0x200a) || cp == 0x2028 || cp == 0x2029 || cp == 0x202f ||
			cp == 0x205f || cp == 0x3000;
}

bool uni_is_alpha(uint32_t cp)
{
	return in_spans(alpha_spans, LEN(alpha_spans), cp);
}

bool uni_is_decimal(uint32_t cp)
{
	return in_spans(decimal_spans, LEN(decimal_spans), cp);
}

bool uni_is_digit(uint32_t cp)
{
	return uni_is_decimal(cp) || in_spans(digit_spans, LEN(digit_spans), cp);
}

bool uni_is_numeric(uint32_t cp)
{
	return uni_is_digit(cp) || in_spans(numeric_spans, LEN(numeric_spans), cp);
}

bool uni_is_printable(uint32_t cp)
{
	return in_spans(printable_spans, LEN(printable_spans), cp);
}

bool uni_is_upper(uint32_t cp)
{
	return find_shift(is_upper_shifts, LEN(is_upper_shifts), cp) != NULL;
}

bool uni_is_lower(uint32_t cp)
{
	return find_shift(is_lower_shifts, LEN(is_lower_shifts), cp) != NULL;
}

bool uni_is_word(uint32_t cp)
{
	return cp == '_' || uni_is_alpha(cp) || uni_is_numeric(cp);
}

static size_t map(const struct longer *l, size_t n_l, const struct shift *s, size_t n_s, uint32_t cp, uint32_t out[3])
{
	const struct longer *special = cp < 0x80 ? NULL : find_longer(l, n_l, cp);
	size_t n = 0;
	if (special) {
		while (n < 3 && special->to[n]) {
			out[n] = special->to[n];
			n++;
		}
		return n;
	}
	const struct shift *shift = find_shift(s, n_s, cp);
	out[0] = shift ? cp + (uint32_t)shift->delta : cp;
	return 1;
}

size_t uni_upper(uint32_t cp, uint32_t out[3])
{
	return map(upper_longer, LEN(upper_longer), upper_shifts, LEN(upper_shifts), cp, out);
}

size_t uni_lower(uint32_t cp, uint32_t out[3])
{
	return map(lower_longer, LEN(lower_longer), lower_shifts, LEN(lower_shifts), cp, out);
}

size_t uni_title(uint32_t cp, uint32_t out[3])
{
	const struct longer *special = cp < 0x80 ? NULL : find_longer(title_longer, LEN(title_longer), cp);
	if (!special)
		return uni_upper(cp, out);
	return map(title_longer, LEN(title_longer), NULL, 0, cp, out);
}
