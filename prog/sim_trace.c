/* Traces as CSV files.
 *
 * What holds:
 *  1. The first line that is no comment names the columns, in any order; three of them must be there, the others have
 *     defaults. A column that is not known is refused: it might be one that was misspelt.
 *  2. Whatever is wrong is said with file, line and column, and nothing is guessed.
 *  3. Requests are sorted by arrival; those of the same time stay in the file's order.
 *  4. What is saved is read back to the same requests: times are written to the microsecond, and made traces have no
 *     others. */
#include "common.h"
#include "sim.h"

#include "base/err.h"
#include "base/file.h"
#include "base/mem.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_MAX = 1 << 30, COLUMNS_MAX = 64 };

enum column { ARRIVAL, PROMPT, OUTPUT, CLIENT, PRIORITY, GROUP, SHARED, N_COLUMNS };
static const char *const names[N_COLUMNS] = {
		"arrival_s", "prompt_tokens", "output_tokens", "client", "priority", "group", "shared_tokens"};

struct reader {
	const char *path;
	size_t line;
	enum column columns[COLUMNS_MAX];
	size_t n_columns; /* 0: the header is yet to come */
	struct sim_trace *t;
};

void sim_trace_release(struct sim_trace *t)
{
	mem_free(t->requests);
	*t = (struct sim_trace){.n = 0};
}

/* ---- Fields ---- */

static int bad_line(const struct reader *r, const char *text)
{
	fprintf(stderr, "%s: %s:%zu: %s\n", sim_prog, r->path, r->line, text);
	return EXIT_FILE;
}

static int bad_field(const struct reader *r, size_t i, const char *expected, const char *got)
{
	char shown[ERR_SHOW_BYTES];

	fprintf(stderr, "%s: %s:%zu: column %zu (%s): expected %s, got '%s'\n", sim_prog, r->path, r->line, i + 1,
			names[r->columns[i]], expected, err_show(shown, got, strlen(got)));
	return EXIT_FILE;
}

/* The next field of a line, without blanks and quotes around it; NULL past the last. */
static char *next_field(char **p)
{
	char *s = *p, *end;

	if (!s)
		return NULL;
	end = strchr(s, ',');
	*p = end ? end + 1 : NULL;
	if (!end)
		end = s + strlen(s);
	*end = '\0';
	s += strspn(s, " \t");
	while (end > s && strchr(" \t\r", end[-1]))
		*--end = '\0';
	if (end - s >= 2 && *s == '"' && end[-1] == '"') {
		*--end = '\0';
		s++;
	}
	return s;
}

static bool whole(const char *s, int64_t lo, int64_t hi, int64_t *out)
{
	char *end;

	errno = 0;
	*out = strtoll(s, &end, 10);
	return *s && !*end && !errno && *out >= lo && *out <= hi;
}

static int set_field(const struct reader *r, size_t i, const char *s, struct cohort_sim_request *q)
{
	char *end;
	int64_t v = 0;

	switch (r->columns[i]) {
	case ARRIVAL:
		/* The most that are made come at the lowest rate, 1e-6 a second: until 1e13, on average. */
		q->arrival_s = strtod(s, &end);
		if (!*s || *end || !(q->arrival_s >= 0 && q->arrival_s <= 1e14))
			return bad_field(r, i, "seconds from 0 to 1e14", s);
		break;
	case PROMPT:
	case OUTPUT:
		if (!whole(s, 1, 1 << 30, &v))
			return bad_field(r, i, "a whole number from 1 to 1073741824", s);
		*(r->columns[i] == PROMPT ? &q->n_prompt : &q->n_output) = (int32_t)v;
		break;
	case SHARED:
		if (!whole(s, 0, 1 << 30, &v))
			return bad_field(r, i, "a whole number from 0 to 1073741824", s);
		q->n_shared = (int32_t)v;
		break;
	case PRIORITY:
		if (!whole(s, INT32_MIN, INT32_MAX, &v))
			return bad_field(r, i, "a whole number of 32 bits", s);
		q->priority = (int32_t)v;
		break;
	case CLIENT:
	case GROUP:
	default:
		if (!whole(s, 0, INT64_MAX, &v))
			return bad_field(r, i, "a whole number from 0 to 2^63 - 1", s);
		*(r->columns[i] == CLIENT ? &q->client : &q->group) = (uint64_t)v;
		break;
	}
	return 0;
}

/* ---- Lines ---- */

static int read_header(struct reader *r, char *line)
{
	char text[ERR_SHOW_BYTES + 160], shown[ERR_SHOW_BYTES];
	bool there[N_COLUMNS] = {false};

	for (char *s; (s = next_field(&line));) {
		size_t c = 0;
		while (c < N_COLUMNS && strcmp(s, names[c]) != 0)
			c++;
		if (c == N_COLUMNS || there[c] || r->n_columns == COLUMNS_MAX) {
			const char *near = opt_nearest(s, names, N_COLUMNS);
			snprintf(text, sizeof text, "column %zu of the header is %s '%s'%s%s", r->n_columns + 1,
					c < N_COLUMNS ? "a second" : "no column that is known:",
					err_show(shown, s, strlen(s)), c == N_COLUMNS && near ? "; did you mean " : "",
					c == N_COLUMNS && near ? near : "");
			return bad_line(r, text);
		}
		there[c] = true;
		r->columns[r->n_columns++] = (enum column)c;
	}
	for (size_t c = ARRIVAL; c <= OUTPUT; c++)
		if (!there[c]) {
			snprintf(text, sizeof text, "the header has no column '%s'", names[c]);
			return bad_line(r, text);
		}
	return 0;
}

static int read_request(struct reader *r, char *line)
{
	struct cohort_sim_request q = {.arrival_s = 0};
	struct sim_trace *t = r->t;
	char text[128];
	size_t i = 0;

	for (char *s; (s = next_field(&line)); i++) {
		int rc = i < r->n_columns ? set_field(r, i, s, &q) : 0;
		if (rc)
			return rc;
	}
	if (i != r->n_columns) {
		snprintf(text, sizeof text, "%s than the %zu columns of the header",
				i < r->n_columns ? "fewer fields" : "more fields", r->n_columns);
		return bad_line(r, text);
	}
	if (q.n_shared > q.n_prompt) {
		snprintf(text, sizeof text, "%d shared_tokens are more than the %d prompt_tokens", q.n_shared,
				q.n_prompt);
		return bad_line(r, text);
	}
	if (t->n == SIM_REQUESTS_MAX)
		return bad_line(r, "more requests than the 10000000 that a trace may have");
	if (!mem_grow((void **)&t->requests, &t->n_max, t->n + 1, sizeof *t->requests))
		return out_of_memory(sim_prog);
	t->requests[t->n++] = q;
	return 0;
}

static int read_lines(struct reader *r, char *text)
{
	int rc = 0;

	for (char *line = text, *next; line && !rc; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		r->line++;
		line += strspn(line, " \t\r");
		if (*line == '\0' || *line == '#')
			continue;
		rc = r->n_columns ? read_request(r, line) : read_header(r, line);
	}
	if (!rc && !r->t->n)
		return bad_line(r, r->n_columns ? "the trace has no requests" : "the file has no header");
	return rc;
}

/* A merge sort: stable. Returns where the result is. */
static struct cohort_sim_request *sort(struct cohort_sim_request *a, struct cohort_sim_request *b, size_t n)
{
	for (size_t w = 1; w < n; w *= 2) {
		for (size_t from = 0; from < n; from += 2 * w) {
			const size_t mid = from + w < n ? from + w : n, to = from + 2 * w < n ? from + 2 * w : n;
			size_t i = from, j = mid;
			for (size_t k = from; k < to; k++)
				b[k] = i < mid && (j == to || a[i].arrival_s <= a[j].arrival_s) ? a[i++] : a[j++];
		}
		struct cohort_sim_request *swap = a;
		a = b;
		b = swap;
	}
	return a;
}

int sim_trace_load(const char *path, struct sim_trace *t)
{
	struct reader r = {.path = path, .t = t};
	struct cohort_err err;
	uint8_t *bytes = NULL;
	size_t n = 0;
	char *text = NULL;
	int rc = 0;

	if (file_load(path, FILE_MAX, &bytes, &n, &err)) {
		fprintf(stderr, "%s: %s\n", sim_prog, err.text);
		return err.status == COHORT_E_MEMORY ? EXIT_RUN : EXIT_FILE;
	}
	text = mem_strndup((const char *)bytes, n);
	if (!text)
		rc = out_of_memory(sim_prog);
	else if (n == FILE_MAX || memchr(bytes, 0, n))
		rc = bad_line(&r, n == FILE_MAX ? "a trace has at most 1 GiB" : "this is no text: it has a zero byte");
	else
		rc = read_lines(&r, n >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? text + 3 : text);
	struct cohort_sim_request *spare = rc ? NULL : mem_alloc(t->n, sizeof *spare);
	if (!rc && !spare)
		rc = out_of_memory(sim_prog);
	if (!rc) {
		struct cohort_sim_request *sorted = sort(t->requests, spare, t->n);
		spare = sorted == spare ? t->requests : spare;
		t->requests = sorted;
		t->n_max = t->n;
	}
	mem_free(spare);
	mem_free(text);
	mem_free(bytes);
	return rc;
}

int sim_trace_save(const char *path, const struct sim_trace *t)
{
	char *bytes = NULL;
	size_t n = 0;
	FILE *o = open_memstream(&bytes, &n);

	if (!o)
		return out_of_memory(sim_prog);
	fputs("arrival_s,prompt_tokens,output_tokens,client,priority,group,shared_tokens\n", o);
	for (size_t i = 0; i < t->n; i++) {
		const struct cohort_sim_request *q = &t->requests[i];
		fprintf(o, "%.6f,%d,%d,%" PRIu64 ",%d,%" PRIu64 ",%d\n", q->arrival_s, q->n_prompt, q->n_output,
				q->client, q->priority, q->group, q->n_shared);
	}
	const bool bad = ferror(o);
	int rc = fclose(o) || bad ? out_of_memory(sim_prog) : sim_write(path, bytes, n);
	mem_free(bytes);
	return rc;
}
