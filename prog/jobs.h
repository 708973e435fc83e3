/* cohort jobs, from the inside: lines in, lines out, and what is done already. The server runs its batches by it. */
#ifndef PROG_JOBS_H
#define PROG_JOBS_H

#include "openai.h"

struct load_opts;
struct opt;
struct sampling;

/* A line of a batch file is a request of some kilobytes; what is much longer is a mistake. */
#define JOBS_LINE_MAX ((size_t)16 << 20)
enum { JOBS_ID_MAX = 512 }; /* bytes of a custom_id */

/* 128 bits of some bytes; for telling things apart, not for keeping secrets. */
struct jobs_hash {
	uint64_t a, b;
};
struct jobs_hash jobs_hash(struct jobs_hash from, const void *bytes, size_t n);

/* ---- Where a job runs ---- */

enum jobs_stop { JOBS_GO, JOBS_FINISH, JOBS_DROP }; /* what is under way may be finished, or is dropped */

/* A program says on standard error what goes on, and is ended by a signal. A server's thread keeps what went wrong for
 * who asks, and ends when it is told to. */
struct jobs_where {
	const char *prog; /* NULL: in a server */
	enum jobs_stop (*stop)(void *user); /* in a server; any thread's word, asked often */
	void *user;
	char why[512]; /* in a server: what went wrong last */
};
enum jobs_stop jobs_stop(const struct jobs_where *w);
/* Tells why, and returns rc. */
int jobs_failed(struct jobs_where *w, int rc, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
int jobs_no_memory(struct jobs_where *w);

/* What all runs of a job must have in common: the model, its adapters, own options and those of sampling. An object of
 * strings; NULL when out of memory. */
json_t *jobs_settings(const struct cohort_model_info *info, const struct load_opts *load, struct sampling *s,
		const struct opt *own, size_t n_own);

/* ---- Lines of a file ---- */

struct jobs_reader {
	struct jobs_where *where;
	const char *path;
	int fd; /* -1: not open */
	uint64_t n_bytes; /* that are read: the file's size when it was opened */
	uint64_t offset; /* read so far */
	size_t line_max;
	char *buf;
	size_t at, n, n_max; /* buf[at .. n) is not taken yet */
	uint64_t line; /* number of the last one, from 1 */
	/* After jobs_reader_scan. */
	uint64_t n_lines;
	struct jobs_hash hash;
	int64_t mtime_s;
};
struct jobs_line {
	const char *text; /* [n], without its end; good until the next one */
	size_t n;
	uint64_t number;
	uint64_t end; /* offset of what follows it */
	bool too_long; /* text is empty then */
	bool whole; /* it ended with a newline */
};
/* fd is the reader's from now on. */
int jobs_reader_open(struct jobs_reader *r, struct jobs_where *where, const char *path, int fd, size_t line_max);
/* Reads all once: number of lines, hash. Returns an exit code, or 0. */
int jobs_reader_scan(struct jobs_reader *r);
/* 1: there is a line; 0: the end; -1: a failure, which was told. */
int jobs_reader_next(struct jobs_reader *r, struct jobs_line *line);
void jobs_reader_release(struct jobs_reader *r);
/* Nothing but spaces; a byte order mark before the first line is no part of it. */
bool jobs_line_blank(struct jobs_line *line);

/* ---- The output, and what it says is done ---- */

struct jobs_output {
	struct jobs_where *where;
	const char *path;
	int fd; /* -1: not open */
	char *journal_path;
	uint64_t n_good; /* bytes of whole lines */
	bool dirty;
	double synced; /* when */
	uint32_t *done; /* [n_lines + 1]: jobs_id_mark of those that are; 0: not done. NULL: none is */
	uint64_t n_done, n_done_ok; /* the latter: with an answer */
	bool refused; /* what is there is of another job */
	int64_t started; /* when the job was begun first */
};
/* The seed of the runs that an output has results of, by its journal. False: there is no output, or no such journal. */
bool jobs_output_seed(const char *path, uint64_t *seed);
/* Opens the output, and says what is done of it. settings: an object of strings, which all runs of a job share. Returns
 * an exit code, or 0. */
int jobs_output_open(struct jobs_output *o, struct jobs_where *where, const char *path, const struct jobs_reader *in,
		const json_t *settings, bool restart);
/* Appends a line (with its newline) and gives it to the disk now and then. Returns an exit code, or 0. */
int jobs_output_write(struct jobs_output *o, const char *bytes, size_t n);
int jobs_output_sync(struct jobs_output *o);
void jobs_output_release(struct jobs_output *o);
/* What stands for a custom_id (NULL: a line without one) beside a line that is done; not 0. */
uint32_t jobs_id_mark(const json_t *custom_id);

/* ---- custom_ids that were seen ---- */

struct jobs_ids {
	struct jobs_hash *slots; /* both 0: empty */
	size_t n_slots, n_used;
};
/* *was_there tells that it was seen before. False when out of memory. */
bool jobs_ids_add(struct jobs_ids *s, const char *id, size_t n, bool *was_there);
void jobs_ids_release(struct jobs_ids *s);

/* ---- Running ---- */

struct jobs {
	struct jobs_where *where;
	struct openai_host *host;
	struct cohort_engine *engine;
	struct jobs_reader *in;
	struct jobs_output *out;
	size_t n_ahead; /* requests in the engine at once */
	bool ordered;
	/* Each may be NULL. A request's body before it is read, and the request before it is queued: false refuses it.
	 * One that the engine had is over, or was dropped. A result that was written. */
	bool (*check)(void *user, const json_t *body, struct openai_error *e);
	bool (*prepare)(void *user, struct openai_request *r, struct openai_error *e);
	void (*on_over)(void *user, const struct cohort_request_stats *stats);
	void (*on_result)(void *user, bool answered);
	/* For jobs that share an engine. Asked before a request of so many outputs is queued: false, not now. What
	 * was taken is given back once, when the request is over or was not queued. What to do for s seconds when
	 * nothing of this job is under way. */
	bool (*take)(void *user, size_t n_outputs);
	void (*give)(void *user, size_t n_outputs);
	void (*rest)(void *user, double s);
	void *user;
	/* What came of it. */
	uint64_t n_lines, n_answered, n_refused,
			n_bad; /* lines gone through; answers, refusals, lines that are no requests */
	uint64_t n_other_model;
	char other_model[64];
	uint64_t n_prompt_tokens, n_cached, n_generated;
	double started;
};
/* Returns an exit code, or 0. */
int jobs_run(struct jobs *j);

#endif
