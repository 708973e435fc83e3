/* Results on their way to standard output or to a file.
 *
 * What holds:
 *  1. A regular file is written beside its place and renamed by out_close: a run that fails or is interrupted leaves
 *     what was there before.
 *  2. The first failure is said once and kept; everything after it is dropped, so that callers check once, at the end.
 *
 * It knows nothing of what is written. */
#include "out.h"

#include "common.h"

#include "base/utf8.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>

static void failed(struct out *o, const char *why)
{
	if (!o->rc && errno != EPIPE)
		fprintf(stderr, "%s: %s\n", o->prog, why);
	o->rc = EXIT_FILE;
}

int out_open(struct out *o, const char *prog, const char *path)
{
	struct cohort_err err;
	struct stat st;

	o->prog = prog;
	o->path = path && strcmp(path, "-") != 0 ? path : NULL;
	o->f = NULL;
	o->stream = NULL;
	o->n = 0;
	o->rc = 0;
	if (!o->path) {
		o->f = stdout;
	} else if (stat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) {
		o->f = fopen(path, "wb");
		if (!o->f) {
			fprintf(stderr, "%s: cannot write %s: %s\n", prog, path, strerror(errno));
			return EXIT_FILE;
		}
	} else if (file_stream_open(path, &o->stream, &err)) {
		fail(prog, &err);
		return err.status == COHORT_E_MEMORY ? EXIT_RUN : EXIT_FILE;
	}
	return 0;
}

static void flush(struct out *o)
{
	struct cohort_err err;

	if (!o->rc && o->n > 0 && o->f && fwrite(o->buf, 1, o->n, o->f) != o->n) {
		char why[512];
		snprintf(why, sizeof why, "cannot write %.300s: %s", o->path ? o->path : "", strerror(errno));
		if (o->path)
			failed(o, why);
		o->rc = EXIT_FILE; /* of standard output the reason is said when it is closed */
	}
	if (!o->rc && o->n > 0 && o->stream && file_stream_write(o->stream, o->buf, o->n, &err)) {
		errno = 0;
		failed(o, err.text);
	}
	o->n = 0;
}

void out_bytes(struct out *o, const void *bytes, size_t n)
{
	const char *p = bytes;

	while (n > 0) {
		const size_t room = sizeof o->buf - o->n, k = n < room ? n : room;
		memcpy(o->buf + o->n, p, k);
		o->n += k;
		p += k;
		n -= k;
		if (o->n == sizeof o->buf)
			flush(o);
	}
}

void out_fmt(struct out *o, const char *fmt, ...)
{
	char line[1024];
	va_list ap;

	va_start(ap, fmt);
	const int n = vsnprintf(line, sizeof line, fmt, ap);
	va_end(ap);
	out_bytes(o, line, n < 0 ? 0 : (size_t)n < sizeof line ? (size_t)n : sizeof line - 1);
}

void out_json(struct out *o, const char *s, size_t n)
{
	out_bytes(o, "\"", 1);
	for (size_t i = 0, len; i < n; i += len ? len : 1) {
		uint32_t cp;
		len = utf8_decode(s + i, n - i, &cp);
		if (len == 0)
			out_bytes(o, "\xef\xbf\xbd", 3);
		else if (cp == '"' || cp == '\\')
			out_fmt(o, "\\%c", (char)cp);
		else if (cp == '\n')
			out_bytes(o, "\\n", 2);
		else if (cp == '\t')
			out_bytes(o, "\\t", 2);
		else if (cp < 32 || cp == 127)
			out_fmt(o, "\\u%04x", (unsigned)cp);
		else
			out_bytes(o, s + i, len);
	}
	out_bytes(o, "\"", 1);
}

void out_double(struct out *o, double x)
{
	if (isfinite(x))
		out_fmt(o, "%.17g", x);
	else
		out_bytes(o, "null", 4);
}

void out_float(struct out *o, float x)
{
	if (isfinite(x))
		out_fmt(o, "%.9g", (double)x);
	else
		out_bytes(o, "null", 4);
}

int out_close(struct out *o, int rc)
{
	struct cohort_err err;

	flush(o);
	if (o->f == stdout) {
		const int closed = close_stdout(o->prog);
		return rc ? rc : closed;
	}
	if (o->f && fclose(o->f) != 0)
		failed(o, strerror(errno));
	if (o->stream && (rc || o->rc)) {
		file_stream_abort(o->stream);
	} else if (o->stream && file_stream_commit(o->stream, &err)) {
		errno = 0;
		failed(o, err.text);
	}
	o->f = NULL;
	o->stream = NULL;
	return rc ? rc : o->rc;
}
