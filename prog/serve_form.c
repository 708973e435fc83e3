/* multipart/form-data (RFC 7578), strictly.
 *
 * Invariants
 *  1. What is kept does not grow with the form: a part's headers up to a bound, and a count of matched bytes.
 *  2. The same bytes give the same calls' bytes, in whatever pieces they come.
 *  3. A form is whole only with its last delimiter; parts within parts and encodings of transfer are refused, since
 *     nobody who sends files to an API uses them and they would be stored as they are.
 * It does not know what fields mean, nor where their bytes go. */
#include "serve_form.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static bool refuse(struct form *f, const char *why)
{
	snprintf(f->why, sizeof f->why, "%s", why);
	f->state = FORM_FAILED;
	return false;
}

/* ---- Parameters of a header: ; name=value; name="value" ---- */

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

/* The length of a parameter's value; -1: it is not there; -2: too long, there twice, or a header that is not well
 * formed. */
static long parameter(const char *p, const char *name, char *out, size_t n_max)
{
	const size_t n_name = strlen(name);
	long found = -1;

	while (is_blank(*p))
		p++;
	if (*p && *p != ';')
		return -2;
	while (*p) {
		while (is_blank(*p) || *p == ';')
			p++;
		const size_t n = strcspn(p, "=; \t");
		const bool mine = n == n_name && strncasecmp(p, name, n) == 0;
		size_t n_out = 0;
		p += n;
		while (is_blank(*p))
			p++;
		if (*p != '=') {
			if (*p && *p != ';')
				return -2;
			continue;
		}
		p++;
		while (is_blank(*p))
			p++;
		const bool quoted = *p == '"';
		p += quoted;
		while (*p && (quoted ? *p != '"' : *p != ';' && !is_blank(*p))) {
			/* Of what a backslash may stand before, only these two are ever meant: Windows paths have
			 * others. */
			p += quoted && *p == '\\' && (p[1] == '"' || p[1] == '\\');
			if (mine && n_out + 1 >= n_max)
				return -2;
			if (mine)
				out[n_out++] = *p;
			p++;
		}
		if (quoted && *p++ != '"')
			return -2;
		while (is_blank(*p))
			p++;
		if ((*p && *p != ';') || (mine && found >= 0))
			return -2;
		if (mine) {
			out[n_out] = 0;
			found = (long)n_out;
		}
	}
	return found;
}

bool form_init(struct form *f, const char *content_type)
{
	static const char kind[] = "multipart/form-data";
	char boundary[FORM_BOUNDARY_MAX + 1];
	const char *t = content_type ? content_type : "";

	f->state = FORM_PREAMBLE;
	f->why[0] = 0;
	f->n_headers = f->n_after = 0;
	f->n_parts = 0;
	while (is_blank(*t))
		t++;
	if (strncasecmp(t, kind, sizeof kind - 1) != 0 || (t[sizeof kind - 1] && !strchr("; \t", t[sizeof kind - 1])))
		return refuse(f, "the body is to be multipart/form-data, with the fields purpose and file");
	const long n = parameter(t + sizeof kind - 1, "boundary", boundary, sizeof boundary);
	if (n == -1)
		return refuse(f, "the content type has no boundary");
	if (n < 1)
		return refuse(f, "the content type's boundary is to have 1 to 70 characters");
	for (long i = 0; i < n; i++)
		if (boundary[i] < ' ' || boundary[i] > '~' || (i == n - 1 && boundary[i] == ' '))
			return refuse(f, "the content type's boundary has characters that no boundary may have");
	f->n_delimiter = (size_t)snprintf(f->delimiter, sizeof f->delimiter, "\r\n--%s", boundary);
	f->n_matched = 2; /* the first needs no line end before it */
	return true;
}

/* ---- A part's headers ---- */

static bool begin_part(struct form *f)
{
	char name[FORM_NAME_MAX], filename[FORM_FILENAME_MAX], *line = f->headers, *end;
	long n_name = -1, n_filename = -1;
	bool found = false;

	f->headers[f->n_headers] = 0;
	if (strlen(f->headers) != f->n_headers)
		return refuse(f, "a part's headers have a NUL");
	if (++f->n_parts > FORM_PARTS_MAX)
		return refuse(f, "the form has more than 32 parts");
	for (; *line; line = end + 2) {
		end = strstr(line, "\r\n"); /* each line has one: that is how the headers' end was found */
		*end = 0;
		const size_t n = strcspn(line, ":");
		const char *value = line + n + (line[n] == ':');
		while (is_blank(*value))
			value++;
		if (n == 0 || line[n] != ':' || is_blank(*line))
			return refuse(f, "a part's header is not of the form NAME: VALUE");
		if (n == 12 && strncasecmp(line, "Content-Type", n) == 0 && strncasecmp(value, "multipart/", 10) == 0)
			return refuse(f, "a part has parts itself, which is not taken");
		if (n == 25 && strncasecmp(line, "Content-Transfer-Encoding", n) == 0 &&
				strcasecmp(value, "binary") != 0 && strcasecmp(value, "8bit") != 0 &&
				strcasecmp(value, "7bit") != 0)
			return refuse(f, "a part has a Content-Transfer-Encoding, which is not taken");
		if (n != 19 || strncasecmp(line, "Content-Disposition", n) != 0)
			continue;
		if (found || strncasecmp(value, "form-data", 9) != 0 || (value[9] && !strchr("; \t", value[9])))
			return refuse(f, "a part's Content-Disposition is not that of a form's field");
		found = true;
		n_name = parameter(value + 9, "name", name, sizeof name);
		n_filename = parameter(value + 9, "filename", filename, sizeof filename);
	}
	if (n_name < 0)
		return refuse(f,
				n_name == -1 ? "a part has no name"
					     : "a part's Content-Disposition is not well formed, or its name is longer "
					       "than 127 bytes");
	if (n_filename < -1)
		return refuse(f, "a part's filename is not well formed, or longer than 255 bytes");
	f->state = FORM_DATA;
	f->n_headers = f->n_matched = 0;
	if (f->on_part(f->user, name, n_filename >= 0 ? filename : NULL))
		return true;
	f->state = FORM_FAILED;
	return false;
}

/* ---- Bytes ---- */

static bool give(struct form *f, const char *bytes, size_t n)
{
	if (n == 0 || f->state != FORM_DATA || f->on_data(f->user, bytes, n))
		return true;
	f->state = FORM_FAILED;
	return false;
}

/* Goes on to the delimiter. A delimiter begins with the only carriage return it has: where a match breaks off, nothing
 * within it can begin another. */
static bool push_data(struct form *f, const char *bytes, size_t n, size_t *at)
{
	size_t from = *at; /* not given to the reader yet */

	while (*at < n) {
		if (f->n_matched == 0) {
			const char *cr = memchr(bytes + *at, '\r', n - *at);
			*at = cr ? (size_t)(cr - bytes) : n;
			if (!give(f, bytes + from, *at - from))
				return false;
			from = *at;
			if (!cr)
				return true;
		}
		if (bytes[*at] == f->delimiter[f->n_matched]) {
			++*at;
			from = *at;
			if (++f->n_matched == f->n_delimiter) {
				f->state = FORM_AFTER;
				f->n_matched = f->n_after = 0;
				return true;
			}
			continue;
		}
		const size_t broken = f->n_matched;
		f->n_matched = 0;
		if (!give(f, f->delimiter, broken))
			return false;
	}
	return true;
}

/* After a delimiter: two dashes, the last; or spaces and a line end. */
static bool push_after(struct form *f, char c)
{
	if (f->n_after == 0 && c == '-') {
		f->after[f->n_after++] = c;
	} else if (f->n_after == 1 && f->after[0] == '-' && c == '-') {
		f->state = FORM_EPILOGUE;
	} else if (f->n_after == 0 && is_blank(c)) {
		return true;
	} else if (f->n_after == 0 && c == '\r') {
		f->after[f->n_after++] = c;
	} else if (f->n_after == 1 && f->after[0] == '\r' && c == '\n') {
		f->state = FORM_HEADERS;
		f->n_headers = 0;
	} else {
		return refuse(f, "a boundary is not followed by a line end");
	}
	return true;
}

static bool push_header(struct form *f, char c)
{
	const size_t n = f->n_headers;

	if (n == FORM_HEADERS_MAX)
		return refuse(f, "a part's headers have more than 4096 bytes");
	f->headers[f->n_headers++] = c;
	if (c != '\n' || n == 0 || f->headers[n - 1] != '\r')
		return true;
	if (n == 1)
		return refuse(f, "a part has no headers");
	/* An empty line ends them, and is not one of them. */
	if (n >= 3 && f->headers[n - 2] == '\n' && f->headers[n - 3] == '\r') {
		f->n_headers -= 2;
		return begin_part(f);
	}
	return true;
}

bool form_push(struct form *f, const char *bytes, size_t n)
{
	for (size_t at = 0; at < n;) {
		bool ok = true;
		switch (f->state) {
		case FORM_PREAMBLE:
		case FORM_DATA: ok = push_data(f, bytes, n, &at); break;
		case FORM_AFTER: ok = push_after(f, bytes[at++]); break;
		case FORM_HEADERS: ok = push_header(f, bytes[at++]); break;
		case FORM_EPILOGUE: return true;
		case FORM_FAILED: return false;
		}
		if (!ok)
			return false;
	}
	return f->state != FORM_FAILED;
}

bool form_end(struct form *f)
{
	if (f->state == FORM_EPILOGUE)
		return true;
	if (f->state != FORM_FAILED)
		refuse(f,
				f->state == FORM_PREAMBLE
						? "the boundary that the content type names is not in the body"
						: "the form ends before its last boundary");
	return false;
}
