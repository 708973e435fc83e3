/* Lines of files that may be larger than memory, and of lines that may be longer than anybody wants.
 *
 * Invariants
 *  1. What is read is the file as it was when it was opened: bytes that are appended later are not seen, and a file
 * that was cut meanwhile is a failure.
 *  2. No more than a line of line_max bytes and one piece is in memory. */
#include "jobs.h"

#include "common.h"

#include "base/mem.h"
#include "base/pool.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE = 1 << 20 };

__extension__ typedef unsigned __int128 wide; /* of no standard, but of all our compilers */

/* Folded multiplication: every bit of the product depends on every bit of both. */
static uint64_t fold(uint64_t a, uint64_t b)
{
	const wide p = (wide)a * b;
	return (uint64_t)p ^ (uint64_t)(p >> 64);
}

struct jobs_hash jobs_hash(struct jobs_hash h, const void *bytes, size_t n)
{
	const unsigned char *p = bytes;
	const size_t n_all = n;

	/* Odd constants: the fractions of the square roots of 2, 3, 5 and 7. */
	for (; n > 0; p += n < 8 ? n : 8, n -= n < 8 ? n : 8) {
		uint64_t w = 0;
		for (size_t i = 0; i < 8 && i < n; i++)
			w |= (uint64_t)p[i] << 8 * i;
		h.a = fold(h.a ^ w ^ 0x6a09e667f3bcc909U, 0xbb67ae8584caa73bU);
		h.b = fold(h.b ^ w ^ 0x3c6ef372fe94f82bU, 0xa54ff53a5f1d36f1U) + h.a;
	}
	h.a = fold(h.a ^ n_all, 0x3c6ef372fe94f82bU);
	h.b = fold(h.b ^ n_all, 0x6a09e667f3bcc909U);
	return h;
}

static int cannot_read(const struct jobs_reader *r, const char *why)
{
	return jobs_failed(r->where, EXIT_FILE, "cannot read %s: %s", r->path, why);
}

int jobs_reader_open(struct jobs_reader *r, struct jobs_where *where, const char *path, int fd, size_t line_max)
{
	struct stat st;

	*r = (struct jobs_reader){.where = where, .path = path, .fd = fd, .line_max = line_max};
	if (fstat(fd, &st) != 0)
		return cannot_read(r, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return cannot_read(r, "it must be a regular file, which can be read again when the job goes on");
	r->n_bytes = (uint64_t)st.st_size;
	r->mtime_s = (int64_t)st.st_mtime;
	return 0;
}

/* The next bytes to buf[n ..]; 0, or an exit code. */
static int fill(struct jobs_reader *r)
{
	const uint64_t left = r->n_bytes - r->offset;
	const size_t want = left < PIECE ? (size_t)left : PIECE;

	if (!mem_grow((void **)&r->buf, &r->n_max, r->n + want, 1))
		return jobs_no_memory(r->where);
	for (size_t got = 0; got < want;) {
		const ssize_t k = pread(r->fd, r->buf + r->n, want - got, (off_t)r->offset);
		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0)
			return cannot_read(r, k < 0 ? strerror(errno) : "it has become shorter");
		got += (size_t)k;
		r->n += (size_t)k;
		r->offset += (uint64_t)k;
	}
	return 0;
}

int jobs_reader_scan(struct jobs_reader *r)
{
	const double started = clock_now();
	bool open = false;

	while (r->offset < r->n_bytes) {
		if (jobs_stop(r->where))
			return EXIT_INTERRUPTED;
		r->n = 0;
		const int rc = fill(r);
		if (rc)
			return rc;
		r->hash = jobs_hash(r->hash, r->buf, r->n);
		for (const char *p = r->buf, *end = r->buf + r->n; (p = memchr(p, '\n', (size_t)(end - p))); p++)
			r->n_lines++;
		open = r->buf[r->n - 1] != '\n';
		if (r->where->prog)
			progress_line(started, "reading %s: %3.0f %%", r->path,
					100.0 * (double)r->offset / (double)r->n_bytes);
	}
	if (r->where->prog)
		progress_end();
	r->n_lines += open;
	r->n = 0;
	r->offset = 0;
	return 0;
}

int jobs_reader_next(struct jobs_reader *r, struct jobs_line *line)
{
	size_t seen = r->at;

	*line = (struct jobs_line){.text = ""};
	for (;;) {
		const char *nl = r->n > seen ? memchr(r->buf + seen, '\n', r->n - seen) : NULL;
		const size_t end = nl ? (size_t)(nl - r->buf) : r->n;
		if (end - r->at > r->line_max)
			line->too_long = true;
		if (nl || r->offset == r->n_bytes) {
			if (!nl && end == r->at && !line->too_long)
				return 0;
			line->number = ++r->line;
			line->whole = nl != NULL;
			line->end = r->offset - (r->n - end) + (nl != NULL);
			if (!line->too_long) {
				line->text = r->buf + r->at;
				line->n = end - r->at;
			}
			r->at = end + (nl != NULL);
			return 1;
		}
		/* What is too long is not kept. */
		if (line->too_long)
			r->at = r->n;
		if (r->n > r->at)
			memmove(r->buf, r->buf + r->at, r->n - r->at);
		r->n -= r->at;
		r->at = 0;
		seen = r->n;
		if (fill(r))
			return -1;
	}
}

bool jobs_line_blank(struct jobs_line *line)
{
	if (line->number == 1 && line->n >= 3 && memcmp(line->text, "\xef\xbb\xbf", 3) == 0) {
		line->text += 3;
		line->n -= 3;
	}
	for (size_t i = 0; i < line->n; i++)
		if (!strchr(" \t\r", line->text[i]) || line->text[i] == 0)
			return false;
	return !line->too_long;
}

void jobs_reader_release(struct jobs_reader *r)
{
	if (r->fd >= 0)
		close(r->fd);
	r->fd = -1;
	mem_free(r->buf);
	r->buf = NULL;
}
