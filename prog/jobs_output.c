/* The output of a job, which is at the same time the list of what is done: so the two cannot disagree, wherever a run
 * was ended.
 *
 * Invariants
 *  1. A result is one line, appended by one write. What follows the last newline is what a run was killed over, and is
 *     cut off by the next.
 *  2. The id of a result has the number of its input line; with the custom_id it says which line is done.
 *  3. The journal says what the results were made from. It is written before the first of them; results of another
 *     input, or made with other settings, are never added to.
 *  4. A run holds a lock on the output until it ends. */
#include "jobs.h"

#include "common.h"

#include "base/file.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/pool.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { JOURNAL_VERSION = 2, JOURNAL_BYTES_MAX = 4 << 20 };
#define SYNC_S 1.0 /* a crash of the machine costs as much work */

static int cannot(const struct jobs_output *o, const char *what, const char *why)
{
	return jobs_failed(o->where, EXIT_FILE, "cannot %s %s: %s", what, o->path, why);
}

static int refuse(struct jobs_output *o, const char *why)
{
	o->refused = true;
	return jobs_failed(o->where, EXIT_FILE, "%s %s; -restart begins anew, another -output keeps it", o->path, why);
}

uint32_t jobs_id_mark(const json_t *custom_id)
{
	const struct jobs_hash none = {0, 0};
	if (!json_is_string(custom_id))
		return 1;
	return (uint32_t)jobs_hash(none, json_string_value(custom_id), json_string_length(custom_id)).a | 1;
}

/* ---- The journal ---- */

static json_t *journal_json(const struct jobs_reader *in, const json_t *settings, int64_t started)
{
	char hash[40];
	snprintf(hash, sizeof hash, "%016" PRIx64 "%016" PRIx64, in->hash.a, in->hash.b);
	return json_pack("{s:i, s:{s:I, s:I, s:I, s:s}, s:O, s:I}", "cohort_jobs", JOURNAL_VERSION, "input", "bytes",
			(json_int_t)in->n_bytes, "lines", (json_int_t)in->n_lines, "mtime", (json_int_t)in->mtime_s,
			"hash", hash, "settings", settings, "started", (json_int_t)started);
}

static int write_journal(struct jobs_output *o, const struct jobs_reader *in, const json_t *settings)
{
	struct openai_buf b = {0};
	struct cohort_err err;
	int rc = 0;

	o->started = (int64_t)time(NULL);
	json_t *j = journal_json(in, settings, o->started);
	if (!openai_dump(&b, j) || !openai_buf_add(&b, "\n", 1)) {
		rc = jobs_no_memory(o->where);
	} else if (file_write_atomic(o->journal_path, b.p, b.n, &err)) {
		rc = jobs_failed(o->where, EXIT_FILE, "%s", err.text);
	}
	openai_buf_release(&b);
	json_decref(j);
	return rc;
}

/* *out NULL: there is none, or it is none of ours. That it cannot be read now says nothing about it: an exit code. */
static int read_journal(const struct jobs_output *o, json_t **out)
{
	struct cohort_err err;
	char *text = NULL;
	size_t n = 0;
	bool no_memory;
	const enum cohort_status st = file_read(o->journal_path, JOURNAL_BYTES_MAX, &text, &n, &err);

	*out = NULL;
	if (st == COHORT_E_MEMORY)
		return jobs_no_memory(o->where);
	if (st == COHORT_E_IO && access(o->journal_path, F_OK) == 0)
		return jobs_failed(o->where, EXIT_FILE, "cannot read %s", err.text);
	if (st)
		return 0;
	*out = json_parse(text, n, 0, NULL, &no_memory);
	mem_free(text);
	return no_memory ? jobs_no_memory(o->where) : 0;
}

/* Freed with mem_free; NULL when out of memory. */
static char *journal_path_of(const char *path)
{
	static const char suffix[] = ".journal";
	const size_t n = strlen(path);
	char *out = mem_alloc(n + sizeof suffix, 1);

	if (out) {
		memcpy(out, path, n);
		memcpy(out + n, suffix, sizeof suffix);
	}
	return out;
}

bool jobs_output_seed(const char *path, uint64_t *seed)
{
	struct jobs_where quiet = {.prog = NULL};
	const struct jobs_output o = {.where = &quiet, .journal_path = journal_path_of(path)};
	json_t *j = NULL;

	/* jobs_output_open reports what is wrong with a journal. */
	if (o.journal_path && access(path, F_OK) == 0 && read_journal(&o, &j))
		j = NULL;
	const char *s = json_string_value(json_object_get(json_object_get(j, "settings"), "seed"));
	char *end = NULL;
	const uint64_t found = s ? strtoull(s, &end, 10) : 0;
	const bool ok = s && *s && !*end;
	if (ok)
		*seed = found;
	json_decref(j);
	mem_free(o.journal_path);
	return ok;
}

/* The journal is of this input and these settings. */
static int check_journal(struct jobs_output *o, const struct jobs_reader *in, const json_t *settings)
{
	json_t *j, *now = journal_json(in, settings, 0);
	int rc = read_journal(o, &j);
	const json_t *was = json_object_get(j, "settings"), *a = json_object_get(j, "input"),
		     *b = json_object_get(now, "input");
	const char *key;
	json_t *value;
	char why[256];

	o->started = json_integer_value(json_object_get(j, "started"));
	if (rc || !now) {
		rc = rc ? rc : jobs_no_memory(o->where);
	} else if (json_is_object(was) && json_integer_value(json_object_get(j, "cohort_jobs")) != JOURNAL_VERSION) {
		rc = refuse(o, "has results of another version of this program");
	} else if (!json_is_object(was)) {
		rc = refuse(o, "is there already, and has no journal of this program beside it");
	} else if (!json_equal(json_object_get(a, "bytes"), json_object_get(b, "bytes")) ||
			!json_equal(json_object_get(a, "hash"), json_object_get(b, "hash"))) {
		snprintf(why, sizeof why, "has results of another input: %.150s has changed", in->path);
		rc = refuse(o, why);
	} else {
		json_object_foreach((json_t *)settings, key, value) {
			const json_t *old = json_object_get(was, key);
			if (rc || json_equal(old, value))
				continue;
			const char *s = json_string_value(old);
			snprintf(why, sizeof why, "has results made with -%s %.60s, not %.60s", key, s ? s : "(unset)",
					json_string_value(value));
			rc = refuse(o, why);
		}
	}
	json_decref(j);
	json_decref(now);
	return rc;
}

/* ---- What is done ---- */

/* The input line that a result is of; 0: it is no result, or *no_memory. */
static uint64_t result_line(const struct jobs_output *o, const struct jobs_line *line, uint64_t n_lines, uint32_t *mark,
		bool *answered, bool *no_memory)
{
	static const char prefix[] = "batch_req_";
	json_t *j = json_parse(line->text, line->n, JSON_ALLOW_NUL, NULL, no_memory);
	const char *id = json_string_value(json_object_get(j, "id"));
	uint64_t number = 0;

	if (id && strncmp(id, prefix, sizeof prefix - 1) == 0)
		for (const char *p = id + sizeof prefix - 1; *p; p++)
			number = *p >= '0' && *p <= '9' && number <= n_lines ? number * 10 + (uint64_t)(*p - '0')
									     : n_lines + 1;
	if (number > n_lines || (number > 0 && o->done[number]))
		number = 0;
	*mark = jobs_id_mark(json_object_get(j, "custom_id"));
	*answered = json_integer_value(json_object_get(json_object_get(j, "response"), "status_code")) == 200;
	json_decref(j);
	return number;
}

static int read_back(struct jobs_output *o, const struct jobs_reader *in)
{
	const double started = clock_now();
	struct jobs_reader r;
	struct jobs_line line;
	const int fd = dup(o->fd);

	o->done = mem_zalloc(in->n_lines + 1, sizeof *o->done);
	if (fd < 0 || !o->done) {
		if (fd >= 0)
			close(fd);
		return fd < 0 ? cannot(o, "read", strerror(errno)) : jobs_no_memory(o->where);
	}
	int rc = jobs_reader_open(&r, o->where, o->path, fd, SIZE_MAX), more = 0;
	while (!rc && (more = jobs_reader_next(&r, &line)) > 0) {
		uint32_t mark = 0;
		bool answered = false, no_memory = false;
		if (!line.whole)
			break;
		const uint64_t number = result_line(o, &line, in->n_lines, &mark, &answered, &no_memory);
		if (no_memory) {
			rc = jobs_no_memory(o->where);
		} else if (number == 0) {
			char why[96];
			snprintf(why, sizeof why, "has a line that is no result of this job (line %" PRIu64 ")",
					line.number);
			rc = refuse(o, why);
		} else {
			o->done[number] = mark;
			o->n_done++;
			o->n_done_ok += answered;
			o->n_good = line.end;
		}
		if (jobs_stop(o->where) == JOBS_DROP)
			rc = EXIT_INTERRUPTED;
		if (o->where->prog)
			progress_line(started, "reading %s: %3.0f %%", o->path,
					100.0 * (double)line.end / (double)(r.n_bytes ? r.n_bytes : 1));
	}
	if (o->where->prog)
		progress_end();
	if (more < 0 && !rc)
		rc = EXIT_FILE;
	if (!rc && o->n_good < r.n_bytes && o->where->prog)
		fprintf(stderr, "%s: note: the last line of %s was not finished; its request is done again\n",
				o->where->prog, o->path);
	jobs_reader_release(&r);
	return rc;
}

int jobs_output_open(struct jobs_output *o, struct jobs_where *where, const char *path, const struct jobs_reader *in,
		const json_t *settings, bool restart)
{
	struct stat st;

	*o = (struct jobs_output){.where = where, .path = path, .synced = clock_now()};
	o->fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	if (o->fd < 0)
		return cannot(o, "write", strerror(errno));
	if (fstat(o->fd, &st) != 0)
		return cannot(o, "write", strerror(errno));
	if (!S_ISREG(st.st_mode))
		return cannot(o, "write", "it must be a regular file, from which the job can go on");
	if (flock(o->fd, LOCK_EX | LOCK_NB) != 0)
		return cannot(o, "write", errno == EWOULDBLOCK ? "another run is writing it" : strerror(errno));
	o->journal_path = journal_path_of(path);
	if (!o->journal_path)
		return jobs_no_memory(where);
	if (st.st_size > 0 && restart && ftruncate(o->fd, 0) != 0)
		return cannot(o, "empty", strerror(errno));
	/* Where nothing is, nothing can be mixed up. */
	if (st.st_size == 0 || restart)
		return write_journal(o, in, settings);
	int rc = check_journal(o, in, settings);
	if (!rc)
		rc = read_back(o, in);
	if (!rc && o->n_good < (uint64_t)st.st_size && ftruncate(o->fd, (off_t)o->n_good) != 0)
		rc = cannot(o, "cut", strerror(errno));
	return rc;
}

int jobs_output_write(struct jobs_output *o, const char *bytes, size_t n)
{
	for (size_t done = 0; done < n;) {
		const ssize_t k = write(o->fd, bytes + done, n - done);
		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0) {
			const int error = errno;
			/* The next run would cut it as well. */
			if (done > 0 && ftruncate(o->fd, (off_t)o->n_good) != 0 && o->where->prog)
				fprintf(stderr, "%s: note: %s ends with half a line\n", o->where->prog, o->path);
			return cannot(o, "write", strerror(error));
		}
		done += (size_t)k;
	}
	o->n_good += n;
	o->dirty = true;
	return clock_now() - o->synced > SYNC_S ? jobs_output_sync(o) : 0;
}

int jobs_output_sync(struct jobs_output *o)
{
	if (!o->dirty)
		return 0;
	o->dirty = false;
	const int bad = fdatasync(o->fd);
	o->synced = clock_now();
	return bad && errno != EINVAL ? cannot(o, "write", strerror(errno)) : 0;
}

void jobs_output_release(struct jobs_output *o)
{
	if (o->fd >= 0)
		close(o->fd);
	o->fd = -1;
	mem_free(o->journal_path);
	mem_free(o->done);
}

/* ---- custom_ids ---- */

/* The place of a hash, or the empty one where it belongs. */
static struct jobs_hash *place(const struct jobs_ids *s, struct jobs_hash h)
{
	size_t i = (size_t)h.a & (s->n_slots - 1);
	while ((s->slots[i].a || s->slots[i].b) && (s->slots[i].a != h.a || s->slots[i].b != h.b))
		i = (i + 1) & (s->n_slots - 1);
	return &s->slots[i];
}

static bool grow(struct jobs_ids *s)
{
	struct jobs_ids next = {.n_slots = s->n_slots ? 2 * s->n_slots : 1024};

	next.slots = mem_zalloc(next.n_slots, sizeof *next.slots);
	if (!next.slots)
		return false;
	for (size_t i = 0; i < s->n_slots; i++)
		if (s->slots[i].a || s->slots[i].b)
			*place(&next, s->slots[i]) = s->slots[i];
	mem_free(s->slots);
	s->slots = next.slots;
	s->n_slots = next.n_slots;
	return true;
}

bool jobs_ids_add(struct jobs_ids *s, const char *id, size_t n, bool *was_there)
{
	const struct jobs_hash h = jobs_hash((struct jobs_hash){1, 2}, id, n);

	if (4 * (s->n_used + 1) > 3 * s->n_slots && !grow(s))
		return false;
	struct jobs_hash *p = place(s, h);
	*was_there = p->a || p->b;
	if (!*was_there) {
		*p = h;
		s->n_used++;
	}
	return true;
}

void jobs_ids_release(struct jobs_ids *s)
{
	mem_free(s->slots);
	*s = (struct jobs_ids){0};
}
