/* Where a command writes its result: standard output, a pipe or device as it is, or a file that is there whole or not
 * at all. */
#ifndef PROG_OUT_H
#define PROG_OUT_H

#include "base/file.h"

#include <stddef.h>
#include <stdio.h>

struct out {
	const char *prog, *path;
	FILE *f; /* standard output, a pipe or a device; NULL: the stream */
	struct file_stream *stream; /* a regular file, written beside its place */
	size_t n; /* bytes in buf */
	int rc; /* the first failure's exit code; what comes after it is dropped */
	char buf[1 << 14];
};

/* path NULL or "-": standard output. Returns 0, or an exit code after saying why. */
int out_open(struct out *o, const char *prog, const char *path);
void out_bytes(struct out *o, const void *bytes, size_t n);
void out_fmt(struct out *o, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A JSON string with its quotes. Bytes that are no UTF-8 become U+FFFD, one each. */
void out_json(struct out *o, const char *s, size_t n);
/* A number that a double or a float is read back from bit for bit; null when it is not finite. */
void out_double(struct out *o, double x);
void out_float(struct out *o, float x);
/* Puts the file in its place if rc and all that was written went well; otherwise nothing is left of it. Returns rc, or
 * the exit code of what went wrong. */
int out_close(struct out *o, int rc);

#endif
