/* Error values: a status, one line of text, and where. Knows nothing of who reports. */
#include "base/err.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void fill(struct cohort_err *err, enum cohort_status status, const char *fmt, va_list ap)
{
	err->status = status;
	vsnprintf(err->text, sizeof err->text, fmt, ap);
	err->rule = NULL;
	err->row = err->seq = err->offset = -1;
	err->expected = err->got = 0;
}

enum cohort_status err_set(struct cohort_err *err, enum cohort_status status, const char *fmt, ...)
{
	if (err) {
		va_list ap;
		va_start(ap, fmt);
		fill(err, status, fmt, ap);
		va_end(ap);
	}
	return status;
}

enum cohort_status err_at(struct cohort_err *err, enum cohort_status status, uint64_t offset,
		const char *fmt, ...)
{
	if (err) {
		va_list ap;
		va_start(ap, fmt);
		fill(err, status, fmt, ap);
		va_end(ap);
		err->offset = offset > INT64_MAX ? INT64_MAX : (int64_t)offset;
		size_t n = strlen(err->text);
		snprintf(err->text + n, sizeof err->text - n, " (at byte %llu)", (unsigned long long)offset);
	}
	return status;
}

enum cohort_status err_rule(struct cohort_err *err, enum cohort_status status, const char *rule,
		int64_t row, int64_t seq, int64_t expected, int64_t got, const char *fmt, ...)
{
	if (err) {
		va_list ap;
		va_start(ap, fmt);
		fill(err, status, fmt, ap);
		va_end(ap);
		err->rule = rule;
		err->row = row;
		err->seq = seq;
		err->expected = expected;
		err->got = got;
	}
	return status;
}

enum cohort_status err_range(struct cohort_err *err, const char *name, int64_t v, int64_t lo, int64_t hi)
{
	if (v >= lo && v <= hi)
		return COHORT_OK;
	const int64_t bound = v < lo ? lo : hi;
	if (hi >= INT32_MAX)
		return err_rule(err, COHORT_E_ARG, name, -1, -1, bound, v, "%s is %lld, expected at least %lld", name,
				(long long)v, (long long)lo);
	return err_rule(err, COHORT_E_ARG, name, -1, -1, bound, v, "%s is %lld, expected %lld to %lld", name,
			(long long)v, (long long)lo, (long long)hi);
}

enum cohort_status err_real(struct cohort_err *err, const char *name, double v, double lo, double hi)
{
	if (v >= lo && v <= hi)
		return COHORT_OK;
	if (isinf(hi))
		return err_rule(err, COHORT_E_ARG, name, -1, -1, 0, 0, "%s is %g, expected %g or more", name, v, lo);
	return err_rule(err, COHORT_E_ARG, name, -1, -1, 0, 0, "%s is %g, expected %g to %g", name, v, lo, hi);
}

const char *err_show(char out[ERR_SHOW_BYTES], const char *s, size_t n)
{
	size_t at = 0;

	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)s[i];
		if (at + 4 + sizeof "..." > ERR_SHOW_BYTES) {
			memcpy(out + at, "...", 3);
			at += 3;
			break;
		}
		if (c >= 0x20 && c < 0x7f && c != '\\' && c != '\'')
			out[at++] = (char)c;
		else
			at += (size_t)snprintf(out + at, ERR_SHOW_BYTES - at, "\\x%02x", c);
	}
	out[at] = '\0';
	return out;
}

void err_prefix(struct cohort_err *err, const char *fmt, ...)
{
	enum { KEEP = 160 }; /* of a prefix that is too long: its end, which names the file */
	char old[sizeof err->text], head[4096];
	va_list ap;

	if (!err)
		return;
	memcpy(old, err->text, sizeof old);
	va_start(ap, fmt);
	vsnprintf(head, sizeof head, fmt, ap);
	va_end(ap);
	size_t n = strlen(head);
	bool cut = n + 2 + strlen(old) >= sizeof err->text && n > KEEP;
	snprintf(err->text, sizeof err->text, "%s%s: %s", cut ? "..." : "", cut ? head + n - KEEP : head, old);
}

enum cohort_status err_in(struct cohort_err *err, const char *path, enum cohort_status status)
{
	err_prefix(err, "%s", path);
	return status;
}

const char *cohort_status_name(enum cohort_status status)
{
	switch (status) {
	case COHORT_OK: return "ok";
	case COHORT_NO_ROOM: return "no room";
	case COHORT_ABORTED: return "aborted";
	case COHORT_E_ARG: return "bad argument";
	case COHORT_E_BATCH: return "bad batch";
	case COHORT_E_MEMORY: return "out of memory";
	case COHORT_E_IO: return "input/output error";
	case COHORT_E_FORMAT: return "malformed file";
	case COHORT_E_UNSUPPORTED: return "unsupported";
	case COHORT_E_LIMIT: return "limit exceeded";
	case COHORT_E_NUMERIC: return "non-finite number";
	case COHORT_E_BUG: return "internal error";
	case COHORT_E_DEVICE: return "device failure";
	}
	return "unknown status";
}

#define STR_(x) #x
#define STR(x) STR_(x)

const char *cohort_version(void)
{
	return STR(COHORT_VERSION_MAJOR) "." STR(COHORT_VERSION_MINOR) "." STR(COHORT_VERSION_PATCH);
}
