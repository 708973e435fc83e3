/* The threads that run batches, each for one owner at a time: look whether the input is one, send its lines through the
 * engine behind everybody else's requests, and make files of the results.
 *
 * Invariants
 *  1. Every step can be done again: what is on the disk says which one a batch is in, and the server may be killed in
 * any of them. A line's result is there once, in the end, whatever happened.
 *  2. Batches come behind clients: their priority is below any that clients can ask for, and they have no more of the
 *     engine at once than n_parallel. The exception is the engine's own: a request that has waited for wait_max_s (30
 *     s) goes first, whatever its priority. So a batch goes on under any load, by few lines at a time.
 *  3. What cannot be written now (a full disk, mostly) is tried again later; it fails no batch.
 * It does not know HTTP. */
#include "serve_batches.h"
#include "serve_work.h"

#include "common.h"

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/pool.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
	LINES_MAX = 50000, /* of an input, as the API has it */
	PRIORITY = -1001 /* clients have -1000 to 1000 */
};
#define RETRY_S 10.0

struct run {
	struct batches *all;
	struct batch_runner *runner;
	struct store *s;
	struct store_batch *b;
	struct jobs_where where;
	uint64_t salt;
};

/* ---- Being told to stop ---- */

/* By the server, by who has it, by time, or for another owner. What is not begun any more is not waited for. */
static enum jobs_stop stop_run(void *user)
{
	struct run *r = user;
	enum jobs_stop stop = (enum jobs_stop)atomic_load(&r->all->stop);

	lock_take(&r->s->lock);
	if (!stop && (r->b->status == BATCH_CANCELLING || store_batch_late(r->b) || share_yields(r->runner)))
		stop = JOBS_FINISH;
	if (stop)
		r->runner->wants = 0;
	lock_give(&r->s->lock);
	return stop;
}

/* By the server only: a batch that is cancelled or late has its results put in files like any other. */
static enum jobs_stop stop_final(void *user)
{
	const struct run *r = user;

	return (enum jobs_stop)atomic_load(&r->all->stop);
}

/* ---- Changes ---- */

/* It is tried again later. The reason is for who runs the server: once, since it comes again every time. */
static void postpone(struct run *r, const char *why)
{
	lock_take(&r->s->lock);
	if (r->b->not_before <= 0)
		log_add(&r->all->srv->log, "%s waits: %s; it is tried again every %.0f s", r->b->id, why, RETRY_S);
	r->b->not_before = clock_now() + RETRY_S;
	lock_give(&r->s->lock);
}

/* Adds to what is wrong with the input; line 0: with all of it. False when out of memory. */
static bool add_error(json_t *errors, const char *code, const char *param, uint64_t line, const char *message)
{
	if (json_array_size(errors) >= STORE_ERRORS_MAX)
		return true;
	return json_array_append_new(errors,
			       json_pack("{s:s, s:s, s:s?, s:o}", "code", code, "message", message, "param", param,
					       "line", line ? json_integer((json_int_t)line) : json_null())) == 0;
}

/* The last step begins. On the disk are the ids of the files that it will make, so that doing it again makes the same.
 */
static bool begin_final(struct run *r, enum batch_status end)
{
	struct store_batch *b = r->b;
	struct cohort_err err;

	lock_take(&r->s->lock);
	const struct store_batch before = *b;
	/* The first reason counts, but for who cancels it until here. */
	if (!b->end) {
		b->end = b->status == BATCH_CANCELLING ? BATCH_CANCELLED : end;
		if (b->end != BATCH_CANCELLED)
			store_batch_enter(b, BATCH_FINALIZING);
	}
	bool ok = store_id_new(b->output, "file-") && store_id_new(b->error, "file-");
	if (!ok)
		err_set(&err, COHORT_E_IO, "there are no random numbers");
	ok = ok && store_batch_save(r->s, b, &err);
	if (!ok)
		*b = before;
	lock_give(&r->s->lock);
	if (!ok)
		postpone(r, err.text);
	return ok;
}

/* ---- Looking at the input ---- */

/* 0, or an exit code. *gone (may be NULL): it is not there any more; otherwise it cannot be read at the moment. */
static int open_input(struct run *r, struct jobs_reader *in, bool *gone)
{
	struct store_file f;
	const int fd = store_file_open(r->s, r->b->owner, r->b->input, &f), error = errno;

	*in = (struct jobs_reader){.fd = -1};
	if (gone)
		*gone = fd < 0 && error == ENOENT;
	if (fd < 0)
		return jobs_failed(&r->where, EXIT_FILE, "cannot read %s: %s", r->b->input, strerror(error));
	return jobs_reader_open(in, &r->where, r->b->input, fd, JOBS_LINE_MAX);
}

/* What is wrong with a line; false when out of memory. */
static bool check_line(struct run *r, const struct jobs_line *line, struct jobs_ids *ids, json_t *errors)
{
	json_error_t why;
	char text[300];
	bool twice = false, no_memory;

	if (line->too_long)
		return add_error(errors, "line_too_long", NULL, line->number, "the line is longer than 16 MiB");
	if (!openai_json_fits(line->text, line->n))
		return add_error(errors, "line_too_large", NULL, line->number,
				"the line has too many values: they would take more than 128 MiB");
	json_t *j = json_parse(line->text, line->n, JSON_ALLOW_NUL, &why, &no_memory);
	if (no_memory)
		return false;
	const json_t *id = json_object_get(j, "custom_id"), *body = json_object_get(j, "body");
	const char *method = json_string_value(json_object_get(j, "method")),
		   *url = json_string_value(json_object_get(j, "url"));
	bool ok = true;
	if (!json_is_object(j)) {
		json_t *message = NULL;
		snprintf(text, sizeof text, "the line is no JSON object%s%.200s", j ? "" : ": ", j ? "" : why.text);
		message = openai_text(text, strlen(text)); /* the parser quotes what it stumbled over */
		ok = message && add_error(errors, "invalid_json_line", NULL, line->number, json_string_value(message));
		json_decref(message);
	} else if (!json_is_string(id) || json_string_length(id) == 0 || json_string_length(id) > JOBS_ID_MAX) {
		ok = add_error(errors, "invalid_custom_id", "custom_id", line->number,
				"custom_id must be a string of 1 to 512 bytes");
	} else if (!jobs_ids_add(ids, json_string_value(id), json_string_length(id), &twice)) {
		ok = false;
	} else if (twice) {
		ok = add_error(errors, "duplicate_custom_id", "custom_id", line->number,
				"an earlier line has the same custom_id");
	} else if (!method || strcmp(method, "POST") != 0) {
		ok = add_error(errors, "invalid_method", "method", line->number, "method must be POST");
	} else if (!url || strcmp(url, r->b->endpoint) != 0) {
		ok = add_error(errors, "mismatched_endpoint", "url", line->number, "url must be the batch's endpoint");
	} else if (!json_is_object(body)) {
		ok = add_error(errors, "invalid_body", "body", line->number, "body must be an object");
	}
	json_decref(j);
	return ok;
}

/* Goes over all lines. 0, or an exit code. */
static int check_lines(struct run *r, struct jobs_reader *in, json_t *errors, uint64_t *n_requests)
{
	struct jobs_ids ids = {0};
	struct jobs_line line;
	int rc = jobs_reader_scan(in), more = 0;

	if (!rc && in->n_lines > LINES_MAX)
		return add_error(errors, "too_many_lines", NULL, 0, "the file has more than 50000 lines")
				? 0
				: jobs_no_memory(&r->where);
	while (!rc && (more = jobs_reader_next(in, &line)) > 0) {
		if (jobs_line_blank(&line))
			continue;
		++*n_requests;
		if (!check_line(r, &line, &ids, errors))
			rc = jobs_no_memory(&r->where);
		else if (jobs_stop(&r->where))
			rc = EXIT_INTERRUPTED;
	}
	jobs_ids_release(&ids);
	if (!rc && more < 0)
		rc = EXIT_FILE;
	if (!rc && *n_requests == 0 && !add_error(errors, "empty_file", NULL, 0, "the file has no requests"))
		rc = jobs_no_memory(&r->where);
	return rc;
}

/* From validating to in_progress or failed. */
static void validate(struct run *r)
{
	struct store_batch *b = r->b;
	struct jobs_reader in;
	json_t *errors = json_array();
	uint64_t n = 0;
	bool gone = false;
	int rc = open_input(r, &in, &gone);

	if (!errors)
		rc = jobs_no_memory(&r->where);
	else if (gone)
		rc = add_error(errors, "input_missing", "input_file_id", 0, "the input file cannot be read")
				? 0
				: jobs_no_memory(&r->where);
	else if (!rc)
		rc = check_lines(r, &in, errors, &n);
	jobs_reader_release(&in);
	const bool bad = json_array_size(errors) > 0;
	bool saved = true;
	struct cohort_err err;
	lock_take(&r->s->lock);
	const struct store_batch before = *b;
	if (!rc && b->status == BATCH_VALIDATING) { /* and not cancelled meanwhile */
		store_batch_enter(b, bad ? BATCH_FAILED : BATCH_IN_PROGRESS);
		b->n_total = bad ? 0 : n;
		if (bad)
			b->errors = json_incref(errors);
		saved = store_batch_save(r->s, b, &err);
		if (!saved) {
			*b = before; /* all of it again, later */
			if (bad)
				json_decref(errors);
		}
	}
	lock_give(&r->s->lock); /* one that has failed may be gone from here on */
	json_decref(errors);
	if (rc && rc != EXIT_INTERRUPTED)
		postpone(r, r->where.why);
	else if (!saved)
		postpone(r, err.text);
}

/* ---- Its lines through the engine ---- */

static bool check_body(void *user, const json_t *body, struct openai_error *e)
{
	const struct run *r = user;

	return work_check_grammars(r->all->srv, body, e);
}

static void on_over(void *user, const struct cohort_request_stats *stats)
{
	struct run *r = user;

	metrics_request(&r->all->srv->metrics, stats, true);
	share_count(r->runner, (int64_t)stats->n_prompt - stats->n_cached + stats->n_generated);
}

static bool take(void *user, size_t n_outputs)
{
	const struct run *r = user;

	return share_take(r->runner, n_outputs);
}

static void give(void *user, size_t n_outputs)
{
	const struct run *r = user;

	share_give(r->runner, n_outputs);
}

static void rest(void *user, double s)
{
	const struct run *r = user;

	share_rest(r->runner, s);
}

/* What is added to the seed of a line that names none. It is drawn with the batch's id and kept with it, so that a
 * batch that goes on in another server has the texts that it would have had. */
static uint64_t batch_seed(const struct store_batch *b)
{
	char digits[9];

	snprintf(digits, sizeof digits, "%s", b->id + sizeof "batch_" - 1);
	return strtoull(digits, NULL, 16);
}

static uint64_t seed_sum(uint64_t a, uint64_t b)
{
	return a + b; /* may wrap around */
}

static bool prepare(void *user, struct openai_request *q, struct openai_error *e)
{
	const struct run *r = user;

	q->params.priority = PRIORITY;
	q->params.client = serve_hash(r->all->srv, HASH_BATCHES, r->b->owner, strlen(r->b->owner));
	q->params.salt = r->salt;
	if (!q->has_seed && !r->all->srv->seed_given)
		q->params.sampler.seed = seed_sum(q->params.sampler.seed, batch_seed(r->b));
	return work_read_text(r->all->srv, q->body, "cache_salt", r->salt, &q->params.salt, e) &&
			work_check_limits(r->all->srv, q, e);
}

static void on_result(void *user, bool answered)
{
	struct run *r = user;

	lock_take(&r->s->lock);
	r->runner->n_results++;
	r->b->n_completed += answered;
	r->b->n_failed += !answered;
	lock_give(&r->s->lock);
}

/* Results of another model, or of other settings, are not mixed: what there is is given out. */
static bool settings_changed(struct run *r)
{
	json_t *errors = json_array();
	const bool ok = errors &&
			add_error(errors, "settings_changed", NULL, 0,
					"the server was started anew, with another model, template or defaults");

	if (ok) {
		lock_take(&r->s->lock);
		json_decref(r->b->errors);
		r->b->errors = json_incref(errors);
		lock_give(&r->s->lock);
	}
	json_decref(errors);
	return ok && begin_final(r, BATCH_FAILED);
}

static void run_lines(struct run *r)
{
	struct server *srv = r->all->srv;
	struct jobs_reader in;
	struct jobs_output out = {.fd = -1};
	char path[STORE_PATH];
	int rc = open_input(r, &in, NULL);

	store_path(r->s, path, "batches", r->b->id, ".jsonl");
	if (!rc)
		rc = jobs_reader_scan(&in);
	if (!rc)
		rc = jobs_output_open(&out, &r->where, path, &in, r->all->settings, false);
	if (!rc) {
		struct jobs j = {.where = &r->where,
				.host = &srv->host,
				.engine = srv->engine,
				.in = &in,
				.out = &out,
				.n_ahead = r->all->n_parallel,
				.check = check_body,
				.prepare = prepare,
				.on_over = on_over,
				.on_result = on_result,
				.take = take,
				.give = give,
				.rest = rest,
				.user = r};
		lock_take(&r->s->lock);
		r->b->n_completed = out.n_done_ok;
		r->b->n_failed = out.n_done - out.n_done_ok;
		lock_give(&r->s->lock);
		share_begin(r->runner);
		rc = jobs_run(&j);
		share_end(r->runner);
	}
	const bool refused = out.refused;
	jobs_output_release(&out);
	jobs_reader_release(&in);
	if (rc == 0)
		begin_final(r, BATCH_COMPLETED);
	else if (refused)
		settings_changed(r);
	else if (rc != EXIT_INTERRUPTED)
		postpone(r, r->where.why);
	else if (!atomic_load(&r->all->stop) && !r->runner->yields)
		begin_final(r, BATCH_EXPIRED); /* or cancelled */
}

/* ---- Results into files ---- */

struct split {
	struct run *r;
	struct store_put output, error;
	uint64_t n_output, n_error;
	unsigned char *done; /* [n_lines + 1]; NULL: nobody wants to know */
	uint64_t n_lines;
};

static bool put_line(struct split *x, bool good, const char *bytes, size_t n, struct openai_error *e)
{
	struct store_put *p = good ? &x->output : &x->error;
	const struct store_batch *b = x->r->b;

	if (!p->stream && !store_put_open(p, x->r->s, b->owner, good ? b->output : b->error, e))
		return false;
	good ? x->n_output++ : x->n_error++;
	return store_put_write(p, bytes, n, e) && store_put_write(p, "\n", 1, e);
}

static bool split_line(struct split *x, const struct jobs_line *line, struct openai_error *e)
{
	bool no_memory;
	json_t *j = json_parse(line->text, line->n, JSON_ALLOW_NUL, NULL, &no_memory);
	const char *id = json_string_value(json_object_get(j, "id"));
	uint64_t number = 0;

	if (!j)
		return no_memory ? openai_no_memory(e) : true;
	if (id && x->done && sscanf(id, "batch_req_%12" SCNu64, &number) == 1 && number <= x->n_lines)
		x->done[number] = 1;
	const bool good = json_integer_value(json_object_get(json_object_get(j, "response"), "status_code")) == 200;
	json_decref(j);
	return put_line(x, good, line->text, line->n, e);
}

static bool split_results(struct split *x, struct openai_error *e)
{
	struct run *r = x->r;
	struct jobs_reader in;
	struct jobs_line line;
	char path[STORE_PATH];
	int more = 0;

	store_path(r->s, path, "batches", r->b->id, ".jsonl");
	const int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		return true; /* it ended before its first */
	if (fd < 0) {
		jobs_failed(&r->where, EXIT_FILE, "cannot read %s: %s", path, strerror(errno));
		return false;
	}
	bool ok = !jobs_reader_open(&in, &r->where, path, fd, SIZE_MAX);
	while (ok && (more = jobs_reader_next(&in, &line)) > 0 && line.whole)
		ok = split_line(x, &line, e) && !jobs_stop(&r->where);
	jobs_reader_release(&in);
	return ok && more >= 0;
}

/* Lines that time was up for, as the API says it. */
static bool put_late(struct split *x, struct jobs_reader *in, struct openai_error *e)
{
	struct jobs_line line;
	int more = 0;
	bool ok = true;

	while (ok && (more = jobs_reader_next(in, &line)) > 0) {
		struct openai_buf b = {0};
		char id[32];
		if (jobs_line_blank(&line) || line.number > x->n_lines || x->done[line.number])
			continue;
		bool no_memory;
		json_t *request = json_parse(line.text, line.n, JSON_ALLOW_NUL, NULL, &no_memory);
		snprintf(id, sizeof id, "batch_req_%012" PRIu64, line.number);
		json_t *j = no_memory ? NULL : json_pack("{s:s, s:O?, s:n, s:{s:s, s:s}}", "id", id, "custom_id",
				json_object_get(request, "custom_id"), "response", "error", "code", "batch_expired",
				"message", "the batch's time was up before this request was done");
		ok = (openai_dump(&b, j) || openai_no_memory(e)) && put_line(x, false, b.p, b.n, e);
		json_decref(j);
		json_decref(request);
		openai_buf_release(&b);
	}
	return ok && more >= 0;
}

/* False: e says why, or where does, or it was told to stop. */
static bool split_all(struct split *x, struct openai_error *e)
{
	struct jobs_reader in = {.fd = -1};
	const bool late = x->r->b->end == BATCH_EXPIRED && x->r->b->n_total > 0;
	bool ok = true;

	if (late) {
		ok = !open_input(x->r, &in, NULL) && !jobs_reader_scan(&in);
		x->n_lines = in.n_lines;
		x->done = ok ? mem_zalloc(in.n_lines + 1, 1) : NULL;
		if (ok && !x->done)
			ok = openai_no_memory(e);
	}
	ok = ok && split_results(x, e) && (!late || put_late(x, &in, e));
	jobs_reader_release(&in);
	mem_free(x->done);
	return ok;
}

static bool commit(struct split *x, struct store_put *p, const char *what, struct openai_error *e)
{
	struct store_file f;
	char name[STORE_ID + 24];

	snprintf(name, sizeof name, "%s_%s.jsonl", x->r->b->id, what);
	return !p->stream || store_put_commit(p, name, "batch_output", &f, e);
}

/* From begin_final to the end. */
static void finalise(struct run *r)
{
	struct split x = {.r = r};
	struct store_batch *b = r->b;
	struct openai_error e = {0};
	char path[STORE_PATH], id[STORE_ID];

	memcpy(id, b->id, sizeof id); /* b may be gone once it has ended and the lock is given */
	r->where.stop = stop_final;
	const bool ok = split_all(&x, &e) && commit(&x, &x.output, "output", &e) && commit(&x, &x.error, "error", &e);
	store_put_abort(&x.output);
	store_put_abort(&x.error);
	if (!ok) {
		if (!atomic_load(&r->all->stop))
			postpone(r, e.status ? e.message : r->where.why);
		return;
	}
	lock_take(&r->s->lock);
	const struct store_batch before = *b;
	b->n_completed = x.n_output;
	b->n_failed = x.n_error;
	if (!x.n_output)
		b->output[0] = 0;
	if (!x.n_error)
		b->error[0] = 0;
	store_batch_enter(b, b->end);
	struct cohort_err err;
	const bool saved = store_batch_save(r->s, b, &err);
	if (!saved)
		*b = before; /* all of it again, later */
	lock_give(&r->s->lock);
	if (!saved) {
		postpone(r, err.text);
		return;
	}
	store_path(r->s, path, "batches", id, ".jsonl");
	unlink(path);
	store_path(r->s, path, "batches", id, ".jsonl.journal");
	unlink(path);
}

/* ---- The threads ---- */

static uint64_t salt_of(const struct server *srv, const char *owner)
{
	char hash[SHA256_HEX];

	/* That of its key's other requests, as long as there is such a key. */
	for (size_t i = 0; i < srv->keys.n; i++) {
		const struct serve_key *k = &srv->keys.keys[i];
		sha256_hex(k->text, k->n_text, hash);
		if (strcmp(hash, owner) == 0)
			return serve_salt(srv, k);
	}
	return *owner ? serve_hash(srv, HASH_GONE, owner, strlen(owner)) : 0;
}

/* One step of a batch. */
static void work_on(struct batch_runner *runner, struct store_batch *b)
{
	struct batches *all = runner->all;
	struct run r = {.all = all, .runner = runner, .s = &all->store, .b = b, .where = {.stop = stop_run}};

	r.where.user = &r;
	lock_take(&r.s->lock);
	const enum batch_status status = b->status, end = b->end;
	lock_give(&r.s->lock);
	if (end) {
		finalise(&r);
	} else if (status == BATCH_CANCELLING) {
		begin_final(&r, BATCH_CANCELLED);
	} else if (store_batch_late(b)) {
		begin_final(&r, BATCH_EXPIRED);
	} else if (status == BATCH_VALIDATING) {
		validate(&r);
	} else {
		r.salt = salt_of(all->srv, b->owner);
		run_lines(&r);
	}
}

static void runner_main(void *arg)
{
	struct batch_runner *me = arg;
	struct batches *all = me->all;
	struct store *s = &all->store;

	lock_take(&s->lock);
	while (!atomic_load(&all->stop)) {
		double wake_at;
		struct store_batch *b = share_next(all, &wake_at);
		if (b) {
			me->busy = true;
			memcpy(me->owner, b->owner, sizeof me->owner);
			store_batch_turn(s, b);
			lock_give(&s->lock);
			work_on(me, b);
			lock_take(&s->lock);
			me->busy = me->yields = false;
			cond_all(&s->news); /* its owner may have another one */
		} else if (wake_at > 0) {
			cond_wait_until(&s->news, &s->lock, wake_at);
		} else {
			cond_wait(&s->news, &s->lock);
		}
	}
	lock_give(&s->lock);
}

bool batches_start(struct batches *b)
{
	b->has_room = cond_init(&b->room);
	for (size_t i = 0; i < BATCH_RUNNERS && b->has_room; i++) {
		struct batch_runner *r = &b->runners[i];
		r->all = b;
		r->started = thread_start(&r->thread, "cohort-batch", runner_main, r);
		if (!r->started)
			return false;
	}
	return b->has_room;
}

void batches_stop(struct batches *b, enum jobs_stop how)
{
	if (!b->has_room)
		return;
	atomic_store(&b->stop, (int)how);
	lock_take(&b->store.lock);
	cond_all(&b->store.news);
	lock_give(&b->store.lock);
}

void batches_release(struct batches *b)
{
	batches_stop(b, JOBS_DROP);
	for (size_t i = 0; i < BATCH_RUNNERS; i++)
		if (b->runners[i].started)
			thread_join(&b->runners[i].thread);
	if (b->has_room)
		cond_release(&b->room);
	b->has_room = false;
	store_release(&b->store);
	json_decref(b->settings);
	b->settings = NULL;
}
