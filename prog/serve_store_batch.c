/* The folder of files and batches: batches.
 *
 * Invariants
 *  1. What a client asked for is on the disk before it is answered, or has not happened.
 *  2. A batch that has not ended stays in its place, so that who runs it may keep a pointer to it. Only ended ones are
 *     forgotten, the oldest first, when an owner has more than it may.
 *  3. A file that a batch will read cannot be removed: both are looked at under one lock.
 *  4. While a server runs, a batch has its time by a clock that nobody sets; times of day are only told.
 * It does not know how batches are run. */
#include "serve_store.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/pool.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { WINDOW_S = 24 * 3600 };

/* By status: its name, and that of the time when it came. */
static const struct {
	const char *name, *at;
} words[BATCH_STATUSES] = {
		[BATCH_VALIDATING] = {"validating", "created_at"},
		[BATCH_FAILED] = {"failed", "failed_at"},
		[BATCH_IN_PROGRESS] = {"in_progress", "in_progress_at"},
		[BATCH_FINALIZING] = {"finalizing", "finalizing_at"},
		[BATCH_COMPLETED] = {"completed", "completed_at"},
		[BATCH_EXPIRED] = {"expired", "expired_at"},
		[BATCH_CANCELLING] = {"cancelling", "cancelling_at"},
		[BATCH_CANCELLED] = {"cancelled", "cancelled_at"},
};

static bool is_over(enum batch_status s)
{
	return s == BATCH_FAILED || s == BATCH_COMPLETED || s == BATCH_EXPIRED || s == BATCH_CANCELLED;
}

bool store_batch_over(const struct store_batch *b)
{
	return is_over(b->status);
}

void store_batch_enter(struct store_batch *b, enum batch_status status)
{
	b->status = status;
	b->at[status] = (int64_t)time(NULL);
}

/* ---- As JSON ---- */

/* A number, or null where it is 0. */
static json_t *moment(int64_t t)
{
	return t ? json_integer(t) : json_null();
}

static json_t *name_or_null(const char *id)
{
	return *id ? json_string(id) : json_null();
}

/* What clients see. Files are told when they are there. */
static json_t *public_json(const struct store_batch *b)
{
	const bool over = store_batch_over(b);
	json_t *errors = b->errors ? json_pack("{s:s, s:O}", "object", "list", "data", b->errors) : json_null();
	json_t *j = json_pack("{s:s, s:s, s:s, s:o, s:s, s:s, s:s, s:o, s:o, s:I, s:{s:I, s:I, s:I}, s:O?}", "id",
			b->id, "object", "batch", "endpoint", b->endpoint, "errors", errors, "input_file_id", b->input,
			"completion_window", "24h", "status", words[b->status].name, "output_file_id",
			name_or_null(over ? b->output : ""), "error_file_id", name_or_null(over ? b->error : ""),
			"expires_at", (json_int_t)b->expires, "request_counts", "total", (json_int_t)b->n_total,
			"completed", (json_int_t)b->n_completed, "failed", (json_int_t)b->n_failed, "metadata",
			b->metadata);

	for (size_t i = 0; i < BATCH_STATUSES && j; i++)
		if (json_object_set_new(j, words[i].at, moment(b->at[i]))) {
			json_decref(j);
			j = NULL;
		}
	/* With its own nodes: others change the shared ones when the lock is given. */
	json_t *copy = j ? json_deep_copy(j) : NULL;
	json_decref(j);
	return copy;
}

bool store_batch_save(struct store *s, struct store_batch *b, struct cohort_err *err)
{
	char path[STORE_PATH];
	json_t *j = json_pack("{s:i, s:s, s:I, s:i, s:s, s:s, s:o}", "cohort_batch", 1, "owner", b->owner, "number",
			(json_int_t)b->number, "end", (int)b->end, "output", b->output, "error", b->error, "batch",
			public_json(b));

	store_path(s, path, "batches", b->id, ".json");
	return store_json_write(path, j, err);
}

/* A batch that is being finalised has the names of its files already; one that has ended, those that there are. */
static bool read_files(const json_t *j, struct store_batch *b)
{
	if (!store_json_text(j, "output", b->output, sizeof b->output) ||
			!store_json_text(j, "error", b->error, sizeof b->error))
		return false;
	const bool output = store_id_ok(b->output, "file-"), error = store_id_ok(b->error, "file-");
	return is_over(b->status) || !b->end ? (output || !*b->output) && (error || !*b->error) : output && error;
}

/* False: it is damaged. */
static bool read_batch(const json_t *j, struct store_batch *b)
{
	const json_t *p = json_object_get(j, "batch"), *counts = json_object_get(p, "request_counts");
	const char *status = json_string_value(json_object_get(p, "status"));
	json_t *errors = json_object_get(json_object_get(p, "errors"), "data"),
	       *metadata = json_object_get(p, "metadata");
	const json_int_t end = json_integer_value(json_object_get(j, "end"));

	b->status = BATCH_STATUSES;
	for (int i = 0; status && i < BATCH_STATUSES; i++)
		if (strcmp(status, words[i].name) == 0)
			b->status = (enum batch_status)i;
	if (b->status == BATCH_STATUSES || end < 0 || end >= BATCH_STATUSES ||
			(end > 0 && !is_over((enum batch_status)end)))
		return false;
	b->end = (enum batch_status)end;
	if (!store_json_owner(j, b->owner) || !store_json_number(j, &b->number) ||
			!store_json_text(p, "input_file_id", b->input, sizeof b->input) ||
			!store_json_text(p, "endpoint", b->endpoint, sizeof b->endpoint) ||
			!store_id_ok(b->input, "file-") || !read_files(j, b))
		return false;
	b->expires = json_integer_value(json_object_get(p, "expires_at"));
	/* Only here the time of day counts: no other clock has gone on since. It may be wrong: never more than all. */
	const double left = (double)b->expires - (double)time(NULL);
	b->due = clock_now() + (left < WINDOW_S ? left : WINDOW_S);
	for (size_t i = 0; i < BATCH_STATUSES; i++)
		b->at[i] = json_integer_value(json_object_get(p, words[i].at));
	b->n_total = (uint64_t)json_integer_value(json_object_get(counts, "total"));
	b->n_completed = (uint64_t)json_integer_value(json_object_get(counts, "completed"));
	b->n_failed = (uint64_t)json_integer_value(json_object_get(counts, "failed"));
	b->errors = json_is_array(errors) ? json_incref(errors) : NULL;
	b->metadata = json_is_object(metadata) ? json_incref(metadata) : NULL;
	return true;
}

/* ---- The list ---- */

static void batch_free(struct store_batch *b)
{
	if (!b)
		return;
	json_decref(b->errors);
	json_decref(b->metadata);
	mem_free(b);
}

static struct store_batch *find(struct store *s, const char *owner, const char *id)
{
	for (size_t i = s->n_batches; i-- > 0;)
		if (strcmp(s->batches[i]->id, id) == 0)
			return strcmp(s->batches[i]->owner, owner) == 0 ? s->batches[i] : NULL;
	return NULL;
}

bool store_file_used(const struct store *s, const char *id)
{
	for (size_t i = 0; i < s->n_batches; i++)
		if (strcmp(s->batches[i]->input, id) == 0 && !store_batch_over(s->batches[i]))
			return true;
	return false;
}

static bool list_add(struct store *s, struct store_batch *b)
{
	size_t at = s->n_batches;

	if (!mem_grow((void **)&s->batches, &s->n_batches_max, s->n_batches + 1, sizeof(struct store_batch *)))
		return false;
	for (; at > 0 && s->batches[at - 1]->number > b->number; at--)
		s->batches[at] = s->batches[at - 1];
	s->batches[at] = b;
	s->n_batches++;
	return true;
}

static void list_remove(struct store *s, size_t at)
{
	batch_free(s->batches[at]);
	s->n_batches--;
	memmove(s->batches + at, s->batches + at + 1, (s->n_batches - at) * sizeof *s->batches);
}

static enum cohort_status load_batch(struct store *s, const char *path, const char *name, void *user)
{
	struct store_batch *b = NULL;
	size_t *n_damaged = user;
	char id[STORE_ID];

	if (!store_name_is(name, "batch_", ".json", id))
		return COHORT_OK;
	if (!(b = mem_zalloc(1, sizeof *b)))
		return COHORT_E_MEMORY;
	memcpy(b->id, id, sizeof id);
	bool no_memory;
	json_t *j = store_json_read(path, &no_memory);
	const bool ok = j && read_batch(j, b);
	json_decref(j);
	if (ok && list_add(s, b)) {
		s->n_numbers = b->number >= s->n_numbers ? b->number + 1 : s->n_numbers;
		return COHORT_OK;
	}
	batch_free(b);
	*n_damaged += !ok && !no_memory;
	return ok || no_memory ? COHORT_E_MEMORY : COHORT_OK;
}

/* Results of batches that have ended are in files of their own by then. */
static enum cohort_status drop_results(struct store *s, const char *path, const char *name, void *user)
{
	char id[STORE_ID], json[STORE_PATH];
	bool needed = false;

	(void)user;
	if (!store_name_is(name, "batch_", ".jsonl", id) && !store_name_is(name, "batch_", ".jsonl.journal", id))
		return COHORT_OK;
	for (size_t i = 0; i < s->n_batches && !needed; i++)
		needed = strcmp(s->batches[i]->id, id) == 0 && !store_batch_over(s->batches[i]);
	for (size_t i = 0; i < s->n_batches; i++)
		if (strcmp(s->batches[i]->id, id) == 0 && !needed)
			unlink(path);
	store_path(s, json, "batches", id, ".json");
	if (!needed && access(json, F_OK) != 0)
		unlink(path);
	return COHORT_OK;
}

enum cohort_status store_batches_load(struct store *s, size_t *n_damaged, struct cohort_err *err)
{
	const enum cohort_status st = store_folder(s, "batches", err, load_batch, n_damaged);

	return st ? st : store_folder(s, "batches", err, drop_results, NULL);
}

void store_batches_release(struct store *s)
{
	while (s->n_batches > 0)
		list_remove(s, s->n_batches - 1);
	mem_free(s->batches);
	s->batches = NULL;
}

/* ---- What clients ask ---- */

static json_t *not_there(struct openai_error *e, const char *id)
{
	openai_refuse(e, "id", "not_found", "there is no batch %.60s", id);
	e->status = 404;
	return NULL;
}

static json_t *answer(const struct store_batch *b, struct openai_error *e)
{
	json_t *j = public_json(b);

	if (!j)
		openai_no_memory(e);
	return j;
}

/* Makes room for one more of this owner's. */
static bool make_room(struct store *s, const char *owner, struct openai_error *e)
{
	size_t oldest = SIZE_MAX;
	int64_t n = 0;
	char path[STORE_PATH];

	for (size_t i = 0; i < s->n_batches; i++) {
		if (strcmp(s->batches[i]->owner, owner) != 0)
			continue;
		n++;
		if (oldest == SIZE_MAX && store_batch_over(s->batches[i]))
			oldest = i;
	}
	if (n < s->limits.n_files)
		return true;
	if (oldest == SIZE_MAX) {
		openai_refuse(e, NULL, "too_many_batches", "%" PRId64 " batches wait or run already; try again later",
				n);
		e->status = 429;
		e->type = "rate_limit_error";
		return false;
	}
	store_path(s, path, "batches", s->batches[oldest]->id, ".json");
	unlink(path);
	list_remove(s, oldest);
	return true;
}

static bool check_input(struct store *s, const char *owner, const char *input, struct openai_error *e)
{
	const struct store_file *f = store_id_ok(input, "file-") ? store_file_find(s, owner, input) : NULL;

	if (!f)
		return openai_refuse(e, "input_file_id", "not_found", "there is no file %.60s", input);
	if (strcmp(f->purpose, "batch") != 0)
		return openai_refuse(e, "input_file_id", NULL, "the file's purpose is %s, expected batch", f->purpose);
	return true;
}

json_t *store_batch_add(struct store *s, const char *owner, const char *input, const char *endpoint, json_t *metadata,
		struct openai_error *e)
{
	struct store_batch *b = mem_zalloc(1, sizeof *b);
	struct cohort_err err;
	json_t *j = NULL;

	if (!b || !store_id_new(b->id, "batch_")) {
		mem_free(b);
		openai_no_memory(e);
		return NULL;
	}
	snprintf(b->owner, sizeof b->owner, "%s", owner);
	snprintf(b->input, sizeof b->input, "%s", input);
	snprintf(b->endpoint, sizeof b->endpoint, "%s", endpoint);
	b->metadata = metadata ? json_incref(metadata) : NULL;
	store_batch_enter(b, BATCH_VALIDATING);
	b->expires = b->at[BATCH_VALIDATING] + WINDOW_S;
	b->due = clock_now() + WINDOW_S;
	lock_take(&s->lock);
	for (size_t i = 0; i < s->n_batches; i++) /* another one does not make its owner's turn come earlier */
		if (s->batches[i]->turn > b->turn && strcmp(s->batches[i]->owner, owner) == 0)
			b->turn = s->batches[i]->turn;
	if (check_input(s, owner, input, e) && make_room(s, owner, e)) {
		b->number = s->n_numbers++;
		if (!list_add(s, b) || !(j = public_json(b)))
			openai_no_memory(e);
		else if (!store_batch_save(s, b, &err))
			store_failed(&err, e);
		if (e->status && s->n_batches > 0 && s->batches[s->n_batches - 1] == b) {
			char path[STORE_PATH];
			store_path(s, path, "batches", b->id, ".json");
			unlink(path);
			list_remove(s, s->n_batches - 1);
			b = NULL;
		}
	}
	if (!e->status)
		cond_all(&s->news);
	lock_give(&s->lock);
	if (e->status) {
		batch_free(b);
		json_decref(j);
		j = NULL;
	}
	return j;
}

json_t *store_batch_get(struct store *s, const char *owner, const char *id, struct openai_error *e)
{
	lock_take(&s->lock);
	const struct store_batch *b = store_id_ok(id, "batch_") ? find(s, owner, id) : NULL;
	json_t *j = b ? answer(b, e) : not_there(e, id);
	lock_give(&s->lock);
	return j;
}

json_t *store_batch_cancel(struct store *s, const char *owner, const char *id, struct openai_error *e)
{
	struct cohort_err err;
	json_t *j = NULL;

	lock_take(&s->lock);
	struct store_batch *b = store_id_ok(id, "batch_") ? find(s, owner, id) : NULL;
	if (!b) {
		not_there(e, id);
	} else if (store_batch_over(b) || b->end) {
		openai_refuse(e, "id", "batch_ended", "the batch is %s, and cannot be cancelled",
				words[b->status].name);
		e->status = 409;
	} else {
		const enum batch_status before = b->status;
		if (before != BATCH_CANCELLING)
			store_batch_enter(b, BATCH_CANCELLING);
		if (!(j = answer(b, e)) || !store_batch_save(s, b, &err)) {
			if (j)
				store_failed(&err, e);
			json_decref(j);
			j = NULL;
			b->status = before;
			b->at[BATCH_CANCELLING] = before == BATCH_CANCELLING ? b->at[BATCH_CANCELLING] : 0;
		}
		b->not_before = 0;
		cond_all(&s->news);
	}
	lock_give(&s->lock);
	return j;
}

json_t *store_batch_list(struct store *s, const char *owner, const struct store_page *page, struct openai_error *e)
{
	struct store_pager g;

	lock_take(&s->lock);
	if (page->after && !find(s, owner, page->after)) {
		lock_give(&s->lock);
		openai_refuse(e, "after", NULL, "after is no batch that is there");
		return NULL;
	}
	store_pager_begin(&g, page);
	for (size_t k = 0; k < s->n_batches && g.ok && !g.more; k++) {
		const struct store_batch *b = s->batches[store_pager_index(&g, k, s->n_batches)];
		if (store_pager_takes(&g, b->id, strcmp(b->owner, owner) == 0))
			g.ok = json_array_append_new(g.data, public_json(b)) == 0;
	}
	lock_give(&s->lock);
	return store_pager_end(&g, e);
}

/* ---- What is to be done ---- */

static bool is_busy(const struct store_batch *b, const char *const *owners, size_t n_owners)
{
	bool busy = false;

	for (size_t i = 0; i < n_owners; i++)
		busy |= owners[i] && strcmp(owners[i], b->owner) == 0;
	return busy;
}

struct store_batch *store_batch_next(
		struct store *s, const char *const *owners, size_t n_owners, double *wake_at)
{
	const double now = clock_now();
	struct store_batch *next = NULL;

	*wake_at = 0;
	for (size_t i = 0; i < s->n_batches; i++) {
		struct store_batch *b = s->batches[i];
		if (store_batch_over(b) || is_busy(b, owners, n_owners))
			continue;
		if (b->not_before > now)
			*wake_at = *wake_at > 0 && *wake_at < b->not_before ? *wake_at : b->not_before;
		else if (!next || b->turn < next->turn)
			next = b;
	}
	return next;
}

void store_batch_turn(struct store *s, const struct store_batch *b)
{
	s->n_turns++;
	for (size_t i = 0; i < s->n_batches; i++)
		if (strcmp(s->batches[i]->owner, b->owner) == 0)
			s->batches[i]->turn = s->n_turns;
}

bool store_batch_late(const struct store_batch *b)
{
	return clock_now() >= b->due;
}
