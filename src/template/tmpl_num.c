/* Numbers from text and to text, as Python reads and writes them, whatever the locale. */
#include "template/tmpl.h"

#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Without the whitespace around. */
static void trim(const char **s, size_t *n)
{
	uint32_t cp;
	for (size_t k; *n && (k = uni_decode(*s, *n, &cp)) && uni_is_space(cp); *s += k)
		*n -= k;
	for (size_t at; *n && (at = uni_back(*s, *n, &cp), uni_is_space(cp));)
		*n = at;
}

static bool word_is(const char *s, size_t n, const char *word)
{
	if (n != strlen(word))
		return false;
	for (size_t i = 0; i < n; i++)
		if ((s[i] | 0x20) != word[i])
			return false;
	return true;
}

bool num_float(const char *s, size_t n, double *out)
{
	const char *point = localeconv()->decimal_point;
	char buf[512];
	size_t k = 0;
	bool digits = false, dot = false, exponent = false;

	trim(&s, &n);
	const size_t sign = n && (*s == '+' || *s == '-');
	const double one = sign && *s == '-' ? -1.0 : 1.0;
	if (word_is(s + sign, n - sign, "inf") || word_is(s + sign, n - sign, "infinity")) {
		*out = one * INFINITY;
		return true;
	}
	if (word_is(s + sign, n - sign, "nan")) {
		*out = NAN;
		return true;
	}
	for (size_t i = sign; i < n; i++) {
		if (k + strlen(point) + 2 > sizeof buf)
			return false;
		if (is_digit(s[i])) {
			buf[k++] = s[i];
			digits = true;
		} else if (s[i] == '_' && i > sign && is_digit(s[i - 1]) && i + 1 < n && is_digit(s[i + 1])) {
			continue;
		} else if (s[i] == '.' && !dot && !exponent) {
			memcpy(buf + k, point, strlen(point));
			k += strlen(point);
			dot = true;
		} else if ((s[i] == 'e' || s[i] == 'E') && digits && !exponent && i + 1 < n) {
			buf[k++] = 'e';
			exponent = true;
			if (s[i + 1] == '+' || s[i + 1] == '-')
				buf[k++] = s[++i];
			digits = false;
		} else {
			return false;
		}
	}
	if (!digits)
		return false;
	buf[k] = '\0';
	*out = one * strtod(buf, NULL);
	return true;
}

bool num_int(const char *s, size_t n, int base, int64_t *out, bool *overflow)
{
	uint64_t v = 0;
	bool any = false;

	*overflow = false;
	trim(&s, &n);
	const bool minus = n && *s == '-';
	if (n && (*s == '+' || *s == '-'))
		s++, n--;
	if (n > 2 && s[0] == '0') {
		const char c = (char)(s[1] | 0x20);
		const int b = c == 'x' ? 16 : c == 'o' ? 8 : c == 'b' ? 2 : 0;
		if (b && (b == base || base == 0)) {
			s += 2, n -= 2;
			base = b;
			if (n > 1 && *s == '_')
				s++, n--;
		}
	}
	if (base == 0)
		base = 10;
	for (size_t i = 0; i < n; i++) {
		const char c = s[i], low = (char)(c | 0x20);
		if (c == '_' && any && s[i - 1] != '_' && i + 1 < n)
			continue;
		const int d = is_digit(c) ? c - '0' : low >= 'a' && low <= 'z' ? low - 'a' + 10 : 99;
		if (d >= base)
			return false;
		any = true;
		if (!*overflow &&
				(__builtin_mul_overflow(v, (uint64_t)base, &v) ||
						__builtin_add_overflow(v, (uint64_t)d, &v)))
			*overflow = true;
	}
	if (!any) {
		*overflow = false;
		return false;
	}
	if (v > (uint64_t)INT64_MAX + minus)
		*overflow = true;
	*out = *overflow ? 0 : minus ? -(int64_t)(v / 2) - (int64_t)(v - v / 2) : (int64_t)v;
	return !*overflow;
}

size_t num_format(double f, char conv, int precision, bool alternate, char out[NUM_FORMAT_BYTES])
{
	const char fmt[] = {'%', alternate ? '#' : '.', alternate ? '.' : '*', alternate ? '*' : conv,
			alternate ? conv : 0, 0};
	const char *point = localeconv()->decimal_point;

	if (precision > 300)
		precision = 300;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	int n = snprintf(out, NUM_FORMAT_BYTES, fmt, precision, f);
#pragma GCC diagnostic pop
	if (n < 0 || n >= NUM_FORMAT_BYTES)
		n = 0;
	char *p = strcmp(point, ".") != 0 ? strstr(out, point) : NULL;
	if (p) {
		*p = '.';
		memmove(p + 1, p + strlen(point), strlen(p + strlen(point)) + 1);
		n -= (int)strlen(point) - 1;
	}
	return (size_t)n;
}

size_t num_repr(double f, char out[NUM_BYTES])
{
	char buf[NUM_FORMAT_BYTES];
	/* Up to 15 digits read back as they were written: where those of f are enough, the shortest text is theirs
	 * without the zeros at their end. Below DBL_MIN numbers have fewer digits. */
	int precision = fabs(f) < DBL_MIN ? 0 : 14;
	const size_t sign = signbit(f) != 0;
	double back;
	size_t n;

	if (isnan(f))
		return (size_t)snprintf(out, NUM_BYTES, "nan");
	if (isinf(f))
		return (size_t)snprintf(out, NUM_BYTES, f < 0 ? "-inf" : "inf");
	for (;; precision++) { /* the shortest that reads back */
		n = num_format(f, 'e', precision, false, buf);
		if (precision >= 16 || (num_float(buf, n, &back) && back == f))
			break;
		/* Numbers lie closer below a power of two than above it. So the nearest text may be too far below,
		 * and the next one above near enough. */
		if (precision == 15 && buf[sign + 16] < '9') {
			buf[sign + 16]++;
			if (num_float(buf, n, &back) && back == f)
				break;
		}
	}
	const size_t end = sign + 1 + (precision ? 1 + (size_t)precision : 0); /* of the digits */
	while (precision && buf[sign + 1 + (size_t)precision] == '0')
		precision--;
	const size_t cut = sign + 1 + (precision ? 1 + (size_t)precision : 0);
	memmove(buf + cut, buf + end, n - end + 1);
	n -= end - cut;
	const int exponent = atoi(strchr(buf, 'e') + 1);
	if (exponent >= -4 && exponent < 16) {
		n = num_format(f, 'f', precision > exponent ? precision - exponent : 0, false, buf);
		memcpy(out, buf, n + 1);
		if (!strchr(out, '.')) {
			memcpy(out + n, ".0", 3);
			n += 2;
		}
		return n;
	}
	memcpy(out, buf, n + 1);
	return n;
}

size_t num_dec(int64_t i, char out[32])
{
	return (size_t)snprintf(out, 32, "%lld", (long long)i);
}
