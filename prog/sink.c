/* Text that grows in memory, and the few ways to put bytes into it that all formats need. */
#include "sink.h"

#include "base/mem.h"
#include "base/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Room for n bytes more. */
static char *room(struct sink *s, size_t n)
{
	void *at = s->bytes;
	size_t want;

	if (s->failed || !size_add(s->n, n, &want) || !mem_grow(&at, &s->n_max, want, 1)) {
		s->failed = true;
		return NULL;
	}
	s->bytes = at;
	return s->bytes + s->n;
}

void sink_put(struct sink *s, const void *bytes, size_t n)
{
	char *to = n > 0 ? room(s, n) : NULL;

	if (!to)
		return;
	memcpy(to, bytes, n);
	s->n += n;
}

void sink_text(struct sink *s, const char *text)
{
	sink_put(s, text, strlen(text));
}

void sink_repeat(struct sink *s, const char *text, size_t n_times)
{
	for (size_t i = 0; i < n_times; i++)
		sink_text(s, text);
}

void sink_printf(struct sink *s, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	const int n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	char *to = n >= 0 ? room(s, (size_t)n + 1) : NULL;
	if (!to) {
		s->failed = true;
		return;
	}
	va_start(ap, fmt);
	vsnprintf(to, (size_t)n + 1, fmt, ap);
	va_end(ap);
	s->n += (size_t)n;
}

void sink_utf8(struct sink *s, const char *bytes, size_t n)
{
	while (n > 0) {
		const size_t good = utf8_valid_prefix(bytes, n);
		sink_put(s, bytes, good);
		if (good < n)
			sink_text(s, "\xef\xbf\xbd");
		const size_t taken = good < n ? good + 1 : good;
		bytes += taken;
		n -= taken;
	}
}

void sink_base64(struct sink *s, const char *bytes, size_t n)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

	for (size_t i = 0; i < n; i += 3) {
		const size_t left = n - i;
		const unsigned a = (unsigned char)bytes[i], b = left > 1 ? (unsigned char)bytes[i + 1] : 0;
		const unsigned c = left > 2 ? (unsigned char)bytes[i + 2] : 0;
		const char out[4] = {digits[a >> 2], digits[(a << 4 | b >> 4) & 63],
				left > 1 ? digits[(b << 2 | c >> 6) & 63] : '=', left > 2 ? digits[c & 63] : '='};
		sink_put(s, out, 4);
	}
}

void sink_release(struct sink *s)
{
	mem_free(s->bytes);
	*s = (struct sink){.bytes = NULL};
}
