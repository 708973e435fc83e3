/* Lines of a batch file through the engine: read ahead, submitted, taken when they have ended, written.
 *
 * Invariants
 *  1. An input line that is not blank gives exactly one line of output, over all runs of a job.
 *  2. Memory is bounded by the lines that are under way (n_ahead, and some more when the order is kept), not by the
 *     file. Of the others only 16 bytes are known: a hash of their custom_id.
 *  3. A result depends on its line and the settings, never on what else was under way.
 *  4. What was under way when a run is ended is dropped, as if it had not begun; or finished, when there is time
 *     (JOBS_FINISH). A failure that the end itself brought about is never a result. */
#include "jobs.h"

#include "common.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/pool.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define WAIT_S 0.02 /* for the oldest request, before the others are looked at */

struct item {
	struct item *next;
	uint64_t line;
	json_t *custom_id; /* NULL: it has none */
	struct openai_request r;
	bool parsed;
	struct cohort_request **handles; /* [r.n_prompts]; NULL: not submitted, or taken */
	size_t n_submitted, n_taken;
	struct openai_error error; /* status 0: none */
	struct openai_buf result; /* n > 0: ended */
	bool answered; /* the result is an answer */
};

struct queue {
	struct item *first, **end;
	size_t n_items, n_handles;
	bool full; /* the engine's, when it was last asked in this sweep: the other items need not ask */
};

/* ---- Results ---- */

static void ids_of(const struct item *it, char id[32], char request_id[32])
{
	const json_t *c = it->custom_id;
	const struct jobs_hash h = jobs_hash(
			(struct jobs_hash){it->line, 0}, c ? json_string_value(c) : "", json_string_length(c));
	snprintf(id, 32, "batch_req_%012" PRIu64, it->line);
	snprintf(request_id, 32, "req_%016" PRIx64, h.b);
}

/* The whole line; takes over the references. */
static bool put_result(struct item *it, json_t *response, json_t *error)
{
	char id[32], request_id[32];
	ids_of(it, id, request_id);
	json_t *line = json_pack("{s:s, s:O?, s:o, s:o}", "id", id, "custom_id", it->custom_id, "response", response,
			"error", error);
	const bool ok = openai_dump(&it->result, line) && openai_buf_add(&it->result, "\n", 1);
	json_decref(line);
	return ok;
}

static bool put_response(struct item *it, int status, json_t *body)
{
	char id[32], request_id[32];
	ids_of(it, id, request_id);
	return put_result(it,
			json_pack("{s:i, s:s, s:o}", "status_code", status, "request_id", request_id, "body", body),
			json_null());
}

/* A line that is no request. */
static bool put_bad_line(struct jobs *j, struct item *it, const char *code, const char *message)
{
	char text[900];
	j->n_bad++;
	snprintf(text, sizeof text, "line %" PRIu64 ": %s", it->line, message);
	return put_result(it, json_null(),
			json_pack("{s:s, s:o}", "code", code, "message", openai_text(text, strlen(text))));
}

static bool put_answer(struct jobs *j, struct item *it)
{
	char id[32], request_id[32], name[48];

	ids_of(it, id, request_id);
	snprintf(name, sizeof name, "%s-%s", it->r.route == OPENAI_CHAT ? "chatcmpl" : "cmpl", request_id + 4);
	j->n_answered++;
	it->answered = true;
	j->n_prompt_tokens += (uint64_t)it->r.n_prompt_tokens;
	j->n_cached += (uint64_t)it->r.n_cached;
	j->n_generated += (uint64_t)it->r.n_generated;
	return put_response(it, 200, openai_response(j->host, &it->r, name, (int64_t)time(NULL)));
}

/* ---- From a line to an item ---- */

/* The seed of a request that names none: the job's for the first line, another one for each line after it, so that
 * equal requests have different answers and a line has the same answer in every run. Multiples of an odd number: jobs
 * whose seeds are neighbours have no seeds of lines in common. */
static uint64_t line_seed(const struct jobs *j, uint64_t line)
{
	return j->host->sampler.seed + (line - 1) * 0x9e3779b97f4a7c15u;
}

/* False when out of memory; a line that is no good has its result then. */
static bool read_request(struct jobs *j, struct jobs_ids *ids, struct item *it, json_t *request)
{
	const json_t *method = json_object_get(request, "method"), *url = json_object_get(request, "url");
	json_t *id = json_object_get(request, "custom_id");
	const char *m = json_string_value(method), *u = json_string_value(url);
	enum openai_route route;
	bool twice = false;

	if (!json_is_object(request))
		return put_bad_line(j, it, "invalid_line", "expected a JSON object");
	if (!json_is_string(id) || json_string_length(id) == 0 || json_string_length(id) > JOBS_ID_MAX)
		return put_bad_line(j, it, "invalid_custom_id", "custom_id must be a string of 1 to 512 bytes");
	it->custom_id = json_incref(id);
	if (!jobs_ids_add(ids, json_string_value(id), json_string_length(id), &twice))
		return false;
	if (twice)
		return put_bad_line(j, it, "duplicate_custom_id", "an earlier line has the same custom_id");
	if (j->out->done && j->out->done[it->line]) /* its result is there; only its id was needed */
		return true;
	if (!m || strcmp(m, "POST") != 0)
		return put_bad_line(j, it, "invalid_method", "method must be \"POST\"");
	if (!u || !openai_route_find(u, &route))
		return put_bad_line(j, it, "invalid_url",
				"url must be /v1/chat/completions, /v1/completions or /v1/embeddings");
	json_t *body = json_object_get(request, "body");
	it->parsed = (!j->check || j->check(j->user, body, &it->error)) &&
			openai_request_parse(j->host, route, body, &it->r, &it->error);
	if (!it->parsed)
		return true;
	if (!it->r.has_seed)
		it->r.params.sampler.seed = line_seed(j, it->line);
	if (it->r.model && strcmp(it->r.model, j->host->name) != 0 && j->n_other_model++ == 0)
		snprintf(j->other_model, sizeof j->other_model, "%s", it->r.model);
	if (j->prepare)
		j->prepare(j->user, &it->r, &it->error);
	it->handles = mem_zalloc(it->r.n_prompts, sizeof(struct cohort_request *));
	return it->handles != NULL;
}

static bool read_line(struct jobs *j, struct jobs_ids *ids, struct item *it, const struct jobs_line *line)
{
	json_error_t e;
	char why[400];
	bool no_memory;

	if (line->too_long) {
		snprintf(why, sizeof why, "longer than %zu MiB", JOBS_LINE_MAX >> 20);
		return put_bad_line(j, it, "line_too_long", why);
	}
	if (!openai_json_fits(line->text, line->n)) {
		snprintf(why, sizeof why, "too many values: they would take more than %d MiB", OPENAI_VALUES_MAX >> 20);
		return put_bad_line(j, it, "line_too_large", why);
	}
	json_t *request = json_parse(line->text, line->n, JSON_ALLOW_NUL, &e, &no_memory);
	if (no_memory)
		return false;
	if (!request) {
		snprintf(why, sizeof why, "not JSON: %s (byte %d)", e.text, e.position);
		return put_bad_line(j, it, "invalid_json", why);
	}
	const bool ok = read_request(j, ids, it, request);
	json_decref(request);
	return ok;
}

static void give(struct jobs *j, const struct item *it)
{
	if (j->give)
		j->give(j->user, (size_t)it->r.params.n_outputs);
}

/* Gives a request back to the engine. */
static void let_go(struct jobs *j, const struct item *it, struct cohort_request *handle)
{
	struct cohort_request_stats s;

	if (!handle)
		return;
	if (j->on_over) {
		cohort_request_stats_get(handle, &s);
		if (s.finish == COHORT_FINISH_NONE)
			s.finish = COHORT_FINISH_CANCELLED;
		j->on_over(j->user, &s);
	}
	cohort_request_free(handle);
	give(j, it);
}

static void item_free(struct jobs *j, struct item *it)
{
	for (size_t i = 0; it->handles && i < it->r.n_prompts; i++)
		let_go(j, it, it->handles[i]);
	if (it->parsed)
		openai_request_release(j->host, &it->r);
	mem_free(it->handles);
	json_decref(it->custom_id);
	openai_buf_release(&it->result);
	mem_free(it);
}

/* Reads on until there is something to do. 1: an item was queued; 0: the end; -1: it was told to stop, or there is an
 * exit code in *rc. */
static int next_item(struct jobs *j, struct jobs_ids *ids, struct queue *q, int *rc)
{
	struct jobs_line line;

	for (;;) {
		const bool stopped = jobs_stop(j->where) != JOBS_GO;
		const int more = stopped ? -1 : jobs_reader_next(j->in, &line);
		if (more < 0 && !stopped)
			*rc = EXIT_FILE;
		if (more <= 0)
			return more;
		j->n_lines++;
		if (jobs_line_blank(&line))
			continue;
		const uint32_t done = j->out->done ? j->out->done[line.number] : 0;
		const uint64_t n_bad = j->n_bad;
		struct item *it = mem_zalloc(1, sizeof *it);
		if (it)
			it->line = line.number;
		if (!it || !read_line(j, ids, it, &line)) {
			*rc = jobs_no_memory(j->where);
			if (it)
				item_free(j, it);
			return -1;
		}
		if (done) {
			const bool same = jobs_id_mark(it->custom_id) == done;
			j->n_bad = n_bad;
			item_free(j, it);
			if (same)
				continue;
			*rc = jobs_failed(j->where, EXIT_FILE,
					"the result of line %" PRIu64
					" in %s has another custom_id; -restart begins anew",
					line.number, j->out->path);
			return -1;
		}
		*q->end = it;
		q->end = &it->next;
		q->n_items++;
		return 1;
	}
}

/* ---- Items under way ---- */

static bool is_fatal(const struct openai_error *e)
{
	return e->code && strcmp(e->code, OPENAI_NO_MEMORY) == 0;
}

/* Submits what may be of it; an error ends it as soon as nothing of it runs. */
static void submit(struct jobs *j, struct queue *q, struct item *it)
{
	while (!it->error.status && it->parsed && it->n_submitted < it->r.n_prompts && q->n_handles < j->n_ahead &&
			!q->full) {
		struct openai_error e = {0};
		if (j->take && !j->take(j->user, (size_t)it->r.params.n_outputs)) {
			q->full = true; /* later */
			return;
		}
		if (openai_request_submit(
				    j->host, &it->r, it->n_submitted, j->engine, &it->handles[it->n_submitted], &e)) {
			it->n_submitted++;
			q->n_handles++;
			continue;
		}
		give(j, it);
		if (e.status == 429)
			q->full = true; /* later */
		else
			it->error = e;
	}
}

static void drop(struct jobs *j, struct queue *q, struct item *it, size_t i)
{
	if (!it->handles[i])
		return;
	let_go(j, it, it->handles[i]);
	it->handles[i] = NULL;
	q->n_handles--;
}

static void take(struct jobs *j, struct queue *q, struct item *it)
{
	for (size_t i = it->n_taken; i < it->n_submitted && !it->error.status; i++) {
		bool done = false;
		if (!it->handles[i] || cohort_request_wait(it->handles[i], 0, &done, NULL) || !done)
			continue;
		openai_request_take(j->host, &it->r, i, it->handles[i], &it->error);
		drop(j, q, it, i);
	}
	/* One that failed takes the others with it. */
	for (size_t i = it->n_taken; i < it->n_submitted && it->error.status; i++)
		drop(j, q, it, i);
	while (it->n_taken < it->n_submitted && !it->handles[it->n_taken])
		it->n_taken++;
}

/* Gives an item that has ended its result. False when out of memory. */
static bool finish(struct jobs *j, struct item *it)
{
	if (it->result.n > 0)
		return true;
	if (it->error.status) {
		if (is_fatal(&it->error))
			return false;
		if (it->error.status >= 500 && jobs_stop(j->where) != JOBS_GO)
			return true;
		j->n_refused++;
		return put_response(it, it->error.status, openai_error_json(&it->error));
	}
	return it->n_taken < it->r.n_prompts || put_answer(j, it);
}

/* Goes over all items once: submits, takes, writes, forgets. Returns an exit code, or 0. */
static int sweep(struct jobs *j, struct queue *q)
{
	bool blocked = false;

	q->full = false;
	for (struct item **p = &q->first, *it; (it = *p);) {
		if (it->parsed && it->result.n == 0) {
			if (jobs_stop(j->where) == JOBS_GO)
				submit(j, q, it);
			take(j, q, it);
		}
		if (!finish(j, it))
			return jobs_no_memory(j->where);
		if (it->result.n > 0 && it->parsed) {
			/* A result that waits for its turn needs no more than its bytes. */
			openai_request_release(j->host, &it->r);
			mem_free(it->handles);
			it->handles = NULL;
			it->parsed = false;
		}
		blocked |= it->result.n == 0;
		if (it->result.n == 0 || (j->ordered && blocked)) {
			p = &it->next;
			continue;
		}
		const int rc = jobs_output_write(j->out, it->result.p, it->result.n);
		if (rc)
			return rc;
		if (j->on_result)
			j->on_result(j->user, it->answered);
		*p = it->next;
		if (!*p)
			q->end = p;
		q->n_items--;
		item_free(j, it);
	}
	return 0;
}

/* Something that can still come to a result without anything being submitted. */
static bool under_way(const struct queue *q)
{
	for (const struct item *it = q->first; it; it = it->next)
		if (it->parsed && !it->error.status && it->result.n == 0 && it->n_submitted == it->r.n_prompts)
			return true;
	return false;
}

static struct cohort_request *oldest(const struct queue *q)
{
	for (const struct item *it = q->first; it; it = it->next)
		if (it->parsed && it->n_taken < it->n_submitted)
			return it->handles[it->n_taken];
	return NULL;
}

static void show_progress(const struct jobs *j, const struct queue *q)
{
	const double s = clock_now() - j->started;
	const uint64_t n_now = j->n_answered + j->n_refused + j->n_bad;
	const uint64_t n_before = j->out->n_done, n_gone = j->n_lines - q->n_items;
	const double rate = s > 0 ? (double)n_now / s : 0;
	const double left_s = rate > 0 ? (double)(j->in->n_lines - n_gone) / rate : 0;

	/* While lines that were done before are skipped there is no rate to go by. */
	if (n_now == 0 || (n_before > 0 && j->n_lines < n_before))
		progress_line(j->started, "%" PRIu64 " of %" PRIu64 " lines", n_gone, j->in->n_lines);
	else
		progress_line(j->started,
				"%" PRIu64 " of %" PRIu64
				" lines, %.1f lines/s, %.0f tokens/s, %.0f:%02.0f:%02.0f left",
				n_gone, j->in->n_lines, rate, (double)j->n_generated / s,
				(double)((int64_t)left_s / 3600), (double)((int64_t)left_s / 60 % 60),
				(double)((int64_t)left_s % 60));
}

int jobs_run(struct jobs *j)
{
	/* With the order kept, results wait for their turn behind a slow one: so far, and no further. */
	const size_t n_items_max = j->ordered ? 8 * j->n_ahead + 64 : j->n_ahead;
	struct queue q = {.end = &q.first};
	struct jobs_ids ids = {0};
	bool more = true, done;
	double shown = 0;
	int rc = 0;

	j->started = clock_now();
	while (!rc && (more || q.n_items > 0)) {
		const enum jobs_stop stop = jobs_stop(j->where);
		if (stop == JOBS_DROP || (stop == JOBS_FINISH && !under_way(&q)))
			break;
		while (more && !rc && q.n_items < n_items_max && q.n_handles < j->n_ahead) {
			const int next = next_item(j, &ids, &q, &rc);
			if (next < 0)
				break;
			more = next > 0;
			/* What needs no engine does not wait for it. */
			if (more && q.n_items + 1 >= n_items_max)
				break;
			if (more && !rc)
				rc = sweep(j, &q);
		}
		if (!rc)
			rc = sweep(j, &q);
		struct cohort_request *h = rc ? NULL : oldest(&q);
		if (h)
			cohort_request_wait(h, WAIT_S, &done, NULL);
		else if (!rc && q.n_items > 0 && j->rest)
			j->rest(j->user, WAIT_S);
		else if (!rc && q.n_items > 0) /* the engine's queue is full of others */
			nanosleep(&(struct timespec){.tv_nsec = (long)(WAIT_S * 1e9)}, NULL);
		if (j->where->prog && clock_now() - shown > 0.2) {
			show_progress(j, &q);
			shown = clock_now();
		}
	}
	if (j->where->prog)
		progress_end();
	const int synced = jobs_output_sync(j->out);
	for (struct item *it = q.first, *next; it; it = next) {
		next = it->next;
		item_free(j, it);
	}
	jobs_ids_release(&ids);
	return rc ? rc : synced ? synced : more || q.n_items > 0 ? EXIT_INTERRUPTED : 0;
}
