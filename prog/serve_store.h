/* Files and batches of OpenAI's API, kept in a folder: what the server needs of them, without HTTP and without the
 * engine. Every function may be called by any thread; one server has a folder at a time.
 *
 *   DIR/lock                          held while a server runs
 *   DIR/files/file-ID.data, .json     the bytes; whose they are, name, purpose
 *   DIR/batches/batch_ID.json         a batch's state
 *   DIR/batches/batch_ID.jsonl, .jsonl.journal   results of one that is under way, as cohort jobs keeps them
 *
 * An owner is the hash of a key, or "" where there are no keys. What belongs to another is not there. */
#ifndef PROG_SERVE_STORE_H
#define PROG_SERVE_STORE_H

#include "openai.h"
#include "sha256.h"

#include "base/file.h"
#include "base/lock.h"

enum { STORE_ID = 40, STORE_PATH = 4096, STORE_ENDPOINT = 32, STORE_ERRORS_MAX = 100 };

struct store_limits {
	int64_t file_bytes;
	int64_t n_files; /* of an owner; and batches that are remembered */
};

struct store_file {
	char id[STORE_ID], owner[SHA256_HEX], filename[256], purpose[24];
	uint64_t number; /* in the order they were made */
	int64_t created;
	uint64_t n_bytes;
};

enum batch_status {
	BATCH_VALIDATING,
	BATCH_FAILED,
	BATCH_IN_PROGRESS,
	BATCH_FINALIZING,
	BATCH_COMPLETED,
	BATCH_EXPIRED,
	BATCH_CANCELLING,
	BATCH_CANCELLED,
	BATCH_STATUSES
};

struct store_batch {
	char id[STORE_ID], owner[SHA256_HEX], input[STORE_ID], endpoint[STORE_ENDPOINT];
	uint64_t number;
	int64_t expires;
	json_t *metadata; /* or NULL */
	/* What follows changes, under the store's lock. */
	enum batch_status status;
	enum batch_status end; /* that it is being finalised for; BATCH_VALIDATING: it is not yet */
	int64_t at[BATCH_STATUSES]; /* when it came to be in a status; 0: never */
	json_t *errors; /* an array, or NULL */
	uint64_t n_total, n_completed, n_failed;
	char output[STORE_ID], error[STORE_ID]; /* files; "": none */
	double not_before; /* by clock_now: when to try again what could not be written */
	double due; /* by clock_now: its end, which a step of the wall clock does not move */
	uint64_t turn; /* of its owner, when that was worked for last; 0: never */
};

struct store {
	char *dir;
	struct store_limits limits;
	int lock_fd; /* -1: none */
	struct lock lock;
	struct cond news; /* a batch is there, or was cancelled, or it is to stop */
	bool has_lock, has_cond;
	struct store_file **files; /* [n_files], by number */
	size_t n_files, n_files_max;
	struct store_batch **batches; /* [n_batches], by number */
	size_t n_batches, n_batches_max;
	uint64_t n_numbers, n_turns;
};

/* Makes the folder if it is not there, takes it, throws away what was half made, reads the rest. s needs a release
 * whatever comes of it. n_damaged: entries that cannot be read, which are left alone. */
enum cohort_status store_init(struct store *s, const char *dir, const struct store_limits *limits, size_t *n_damaged,
		struct cohort_err *err);
void store_release(struct store *s);

/* Whether it has the form of an id that this server gives: prefix and 32 hexadecimal digits. */
bool store_id_ok(const char *id, const char *prefix);
void store_path(const struct store *s, char out[STORE_PATH], const char *folder, const char *id, const char *ending);

/* ---- Files ---- */

/* One that is being written; there is nothing to be seen of it before commit. */
struct store_put {
	struct store *s;
	struct file_stream *stream; /* NULL: none is under way */
	char id[STORE_ID], owner[SHA256_HEX];
	uint64_t n_bytes;
	bool bounded;
};
/* id NULL: a new one, within the owner's limits. Otherwise a file of the server's own, in place of one that has this id
 * from before. */
bool store_put_open(struct store_put *p, struct store *s, const char *owner, const char *id, struct openai_error *e);
/* A failure leaves nothing behind, as abort does. */
bool store_put_write(struct store_put *p, const char *bytes, size_t n, struct openai_error *e);
bool store_put_commit(struct store_put *p, const char *filename, const char *purpose, struct store_file *out,
		struct openai_error *e);
void store_put_abort(struct store_put *p);

bool store_file_get(struct store *s, const char *owner, const char *id, struct store_file *out);
/* A descriptor of its bytes, the caller's; -1: it is not there (errno ENOENT), or cannot be opened. */
int store_file_open(struct store *s, const char *owner, const char *id, struct store_file *out);
bool store_file_remove(struct store *s, const char *owner, const char *id, struct openai_error *e);
/* {"object": "file", ...}; NULL when out of memory. */
json_t *store_file_json(const struct store_file *f);

struct store_page {
	const char *after, *purpose; /* NULL: from the beginning; any */
	size_t limit;
	bool oldest_first;
};
/* {"object": "list", "data": [...], ...}; NULL: refused, e says why. */
json_t *store_file_list(struct store *s, const char *owner, const struct store_page *page, struct openai_error *e);

/* ---- Batches ---- */

/* All of these give {"object": "batch", ...}, or NULL: refused. metadata: a reference is taken; may be NULL. */
json_t *store_batch_add(struct store *s, const char *owner, const char *input, const char *endpoint, json_t *metadata,
		struct openai_error *e);
json_t *store_batch_get(struct store *s, const char *owner, const char *id, struct openai_error *e);
json_t *store_batch_cancel(struct store *s, const char *owner, const char *id, struct openai_error *e);
json_t *store_batch_list(struct store *s, const char *owner, const struct store_page *page, struct openai_error *e);

/* For who runs them. Owners take turns: the first batch of the one that was worked for longest ago, other than those of
 * `owners` (NULL: the place is empty), who are being worked for. NULL: none now, and *wake_at says when to look again
 * (0: when there is news). It stays where it is until it has ended. With the lock in hand. */
struct store_batch *store_batch_next(
		struct store *s, const char *const *owners, size_t n_owners, double *wake_at);
/* Its owner's turn begins, for all of the owner's batches. With the lock in hand. */
void store_batch_turn(struct store *s, const struct store_batch *b);
/* Its time is up. */
bool store_batch_late(const struct store_batch *b);
bool store_batch_over(const struct store_batch *b);
/* Writes what was changed, with the lock in hand. */
bool store_batch_save(struct store *s, struct store_batch *b, struct cohort_err *err);
/* Enters a status; not saved yet. */
void store_batch_enter(struct store_batch *b, enum batch_status status);

/* Of the two parts of the store. */
bool store_id_new(char out[STORE_ID], const char *prefix);
struct store_file *store_file_find(struct store *s, const char *owner, const char *id); /* with the lock in hand */
bool store_file_used(const struct store *s, const char *id); /* by a batch that has not ended; with the lock in hand */
enum cohort_status store_batches_load(struct store *s, size_t *n_damaged, struct cohort_err *err);
void store_batches_release(struct store *s);
/* What could not be written, as the API says it; returns false. */
bool store_failed(const struct cohort_err *err, struct openai_error *e);
/* The JSON value in a small file; NULL: there is none that can be read, or *no_memory. */
json_t *store_json_read(const char *path, bool *no_memory);
bool store_json_write(const char *path, json_t *value, struct cohort_err *err); /* takes the reference */
/* A record's text, which has to fit, its owner and its number. False: it is damaged. */
bool store_json_text(const json_t *record, const char *name, char *out, size_t n_max);
bool store_json_owner(const json_t *record, char owner[SHA256_HEX]);
bool store_json_number(const json_t *record, uint64_t *number);

/* A page of a list: items are shown to it one by one, with the store's lock in hand. */
struct store_pager {
	const struct store_page *page;
	json_t *data;
	bool begun, more, ok; /* behind `after`; there are more than the page has; no memory was missing */
};
void store_pager_begin(struct store_pager *g, const struct store_page *page);
/* Which of n items comes k-th. */
size_t store_pager_index(const struct store_pager *g, size_t k, size_t n);
/* Whether the item is on the page: then it is to be added to data. */
bool store_pager_takes(struct store_pager *g, const char *id, bool belongs);
/* The list; NULL: out of memory. */
json_t *store_pager_end(struct store_pager *g, struct openai_error *e);

/* Calls visit for each name in a folder. */
enum cohort_status store_folder(const struct store *s, const char *folder, struct cohort_err *err,
		enum cohort_status (*visit)(struct store *s, const char *path, const char *name, void *user),
		void *user);
/* Makes sure that what was removed in a folder stays so. */
void store_folder_sync(const struct store *s, const char *folder);
bool store_name_is(const char *name, const char *prefix, const char *ending, char id[STORE_ID]);

#endif
