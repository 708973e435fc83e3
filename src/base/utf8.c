/* UTF-8 per RFC 3629. Pure functions over bytes. */
#include "base/utf8.h"

/* Expected length by first byte and the allowed range of the second byte; 0 for a byte that cannot start a character.
 */
static size_t lead(uint8_t c, uint8_t *lo, uint8_t *hi)
{
	*lo = 0x80;
	*hi = 0xbf;
	if (c < 0x80)
		return 1;
	if (c >= 0xc2 && c <= 0xdf)
		return 2;
	if (c >= 0xe0 && c <= 0xef) {
		if (c == 0xe0)
			*lo = 0xa0;
		if (c == 0xed)
			*hi = 0x9f;
		return 3;
	}
	if (c >= 0xf0 && c <= 0xf4) {
		if (c == 0xf0)
			*lo = 0x90;
		if (c == 0xf4)
			*hi = 0x8f;
		return 4;
	}
	return 0;
}

size_t utf8_decode(const char *s, size_t n, uint32_t *cp)
{
	static const uint8_t mask[5] = {0, 0x7f, 0x1f, 0x0f, 0x07};
	uint8_t lo, hi;

	if (n == 0)
		return 0;
	size_t len = lead((uint8_t)s[0], &lo, &hi);
	if (len == 0 || len > n)
		return 0;
	uint32_t v = (uint8_t)s[0] & mask[len];
	for (size_t i = 1; i < len; i++) {
		uint8_t c = (uint8_t)s[i];
		if (c < lo || c > hi)
			return 0;
		lo = 0x80;
		hi = 0xbf;
		v = v << 6 | (c & 0x3f);
	}
	*cp = v;
	return len;
}

size_t utf8_encode(uint32_t cp, char out[4])
{
	if (cp < 0x80) {
		out[0] = (char)cp;
		return 1;
	}
	if (cp < 0x800) {
		out[0] = (char)(0xc0 | cp >> 6);
		out[1] = (char)(0x80 | (cp & 0x3f));
		return 2;
	}
	if (cp < 0x10000) {
		if (cp >= 0xd800 && cp <= 0xdfff)
			return 0;
		out[0] = (char)(0xe0 | cp >> 12);
		out[1] = (char)(0x80 | (cp >> 6 & 0x3f));
		out[2] = (char)(0x80 | (cp & 0x3f));
		return 3;
	}
	if (cp > 0x10ffff)
		return 0;
	out[0] = (char)(0xf0 | cp >> 18);
	out[1] = (char)(0x80 | (cp >> 12 & 0x3f));
	out[2] = (char)(0x80 | (cp >> 6 & 0x3f));
	out[3] = (char)(0x80 | (cp & 0x3f));
	return 4;
}

int hex_digit(int c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

size_t utf8_valid_prefix(const char *s, size_t n)
{
	size_t i = 0;
	uint32_t cp;

	while (i < n) {
		size_t len = utf8_decode(s + i, n - i, &cp);
		if (!len)
			break;
		i += len;
	}
	return i;
}

size_t utf8_unfinished_tail(const char *s, size_t n)
{
	for (size_t back = 1; back <= 3 && back <= n; back++) {
		uint8_t lo, hi, c = (uint8_t)s[n - back];
		if ((c & 0xc0) == 0x80)
			continue;
		size_t len = lead(c, &lo, &hi);
		if (len <= back)
			return 0;
		for (size_t i = 1; i < back; i++) {
			uint8_t d = (uint8_t)s[n - back + i];
			if (d < lo || d > hi)
				return 0;
			lo = 0x80;
			hi = 0xbf;
		}
		return back;
	}
	return 0;
}
