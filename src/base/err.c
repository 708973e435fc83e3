/* Error values: a status, one line of text, and where. Knows nothing of who reports. */
#include "base/err.h"

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

void err_prefix(struct cohort_err *err, const char *fmt, ...)
{
	char old[sizeof err->text];
	va_list ap;

	if (!err)
		return;
	memcpy(old, err->text, sizeof old);
	va_start(ap, fmt);
	vsnprintf(err->text, sizeof err->text, fmt, ap);
	va_end(ap);
	/* What does not fit is cut: the beginning of both says more than the end of either. */
	for (size_t n = strlen(err->text), i = 0; n + 1 < sizeof err->text; n++) {
		err->text[n] = i == 0 ? ':' : i == 1 ? ' ' : old[i - 2];
		err->text[n + 1] = '\0';
		if (i >= 2 && !old[i - 2])
			break;
		i++;
	}
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
	}
	return "unknown status";
}

#define STR_(x) #x
#define STR(x) STR_(x)

const char *cohort_version(void)
{
	return STR(COHORT_VERSION_MAJOR) "." STR(COHORT_VERSION_MINOR) "." STR(COHORT_VERSION_PATCH);
}
