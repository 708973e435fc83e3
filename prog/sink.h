/* Text that grows in memory. A failure sticks: whoever wrote asks once, at the end. */
#ifndef PROG_SINK_H
#define PROG_SINK_H

#include <stdbool.h>
#include <stddef.h>

struct sink {
	char *bytes;     /* [n], no NUL behind; NULL while empty */
	size_t n, n_max;
	bool failed;     /* memory ran out; what was written after that is not there */
};

void sink_put(struct sink *s, const void *bytes, size_t n);
void sink_text(struct sink *s, const char *text);
void sink_repeat(struct sink *s, const char *text, size_t n_times);
void sink_printf(struct sink *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Any bytes as UTF-8: each byte that is none becomes U+FFFD. */
void sink_utf8(struct sink *s, const char *bytes, size_t n);
void sink_base64(struct sink *s, const char *bytes, size_t n);
void sink_release(struct sink *s);

#endif
