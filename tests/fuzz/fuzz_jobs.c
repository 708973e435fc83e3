/* Any bytes as a batch file of `cohort jobs`. The reader gives the lines that a simple splitter finds, whatever a line
 * may be long at most; a run writes exactly one result for every line that is not blank; and a run that is dropped
 * somewhere, with its output cut anywhere, goes on to the same results.
 *
 * The first four bytes are choices: how long a line may be and whether the file is said many times over (for the reader
 * alone), the order, when the first run is dropped, how much is cut off its output.
 *
 * Seen red with a line that is forgotten where a piece of the file ends, with half a line that is not cut off, and with
 * a result that is written twice after a run was dropped. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jobs.h"

#include "base/file.h"
#include "base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { CHOICES = 4, INPUT_MAX = 1 << 14, LINES_MAX = 8, TOKENS_MAX = 2, AHEAD = 3, TIMES_BYTES = (1 << 20) + 5000 };

static struct cohort_model *model;
static struct openai_host host;
static struct cohort_engine *engine;
static char output[64], journal[80];

static void check(bool ok, const char *what)
{
	if (!ok) {
		fprintf(stderr, "fuzz_jobs: %s\n", what);
		abort();
	}
}

static void clean_up(void)
{
	unlink(output);
	unlink(journal);
}

static void open_all(void)
{
	static const char template[] = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}";
	struct cohort_sampler_params sp;
	struct cohort_engine_params ep;
	const char *root = getenv("COHORT_SOURCE");
	char path[600];

	snprintf(path, sizeof path, "%s/tests/golden/data/llama.gguf", root ? root : ".");
	snprintf(output, sizeof output, "%s/fuzz-jobs.%d", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp",
			(int)getpid());
	snprintf(journal, sizeof journal, "%s.journal", output);
	atexit(clean_up);
	check(!cohort_model_open(path, NULL, &model, NULL), "the model");
	cohort_sampler_params_init(&sp);
	check(!openai_host_open(&host, model, path, &sp, NULL), "the host");
	check(!openai_host_template(&host, template, sizeof template - 1, NULL), "the template");
	host.now = "2025-01-02T03:04:05";
	host.n_chat = host.n_completion = TOKENS_MAX;
	cohort_engine_params_init(&ep);
	ep.n_slots = 2;
	ep.context.n_ctx = 256;
	ep.context.n_batch = ep.context.n_ubatch = 64;
	ep.context.n_threads = 1;
	ep.context.outputs = COHORT_OUTPUT_EMBEDDINGS | COHORT_OUTPUT_LOGITS;
	ep.room = COHORT_ROOM_OVERCOMMIT;
	ep.queue_requests_max = AHEAD + 1;
	check(!cohort_engine_open(model, &ep, &engine, NULL), "the engine");
}

/* The bytes, so many times, as a file. */
static int file_of(const uint8_t *data, size_t n, size_t n_times)
{
	const int fd = memfd_create("jobs", MFD_CLOEXEC);

	check(fd >= 0, "a file");
	for (size_t i = 0; i < n_times && n > 0; i++)
		check(write(fd, data, n) == (ssize_t)n, "a file");
	return fd;
}

/* ---- The reader ---- */

static void try_reader(const uint8_t *data, size_t n, size_t n_times, size_t line_max)
{
	struct jobs_where w = {0};
	struct jobs_reader r;
	struct jobs_line line;
	const uint64_t n_all = n * n_times;
	uint64_t at = 0, number = 0;

	check(!jobs_reader_open(&r, &w, "in", file_of(data, n, n_times), line_max) && !jobs_reader_scan(&r), "a scan");
	for (int more; (more = jobs_reader_next(&r, &line)) != 0;) {
		uint64_t end = at;
		check(more > 0 && at < n_all, "a line beyond the end");
		while (end < n_all && data[end % n] != '\n')
			end++;
		check(line.number == ++number && line.whole == (end < n_all) && line.end == end + (end < n_all),
				"where a line ends");
		check(line.too_long == (end - at > line_max), "how long a line is");
		check(line.n == (line.too_long ? 0 : end - at), "a line's bytes");
		for (size_t i = 0; i < line.n; i++)
			check((uint8_t)line.text[i] == data[(at + i) % n], "a line's text");
		at = line.end;
	}
	check(at == n_all && number == r.n_lines, "lines are lost");
	jobs_reader_release(&r);
}

/* ---- Runs ---- */

struct run {
	size_t n_results, drop_after;
};

static enum jobs_stop stop(void *user)
{
	const struct run *r = user;

	return r->n_results >= r->drop_after ? JOBS_DROP : JOBS_GO;
}

static void on_result(void *user, bool answered)
{
	struct run *r = user;

	(void)answered;
	r->n_results++;
}

/* What would take long says little more. */
static bool prepare(void *user, struct openai_request *r, struct openai_error *e)
{
	(void)user;
	if (r->n_prompts * (size_t)r->params.n_outputs > 4)
		return openai_refuse(e, "n", NULL, "too many for here");
	if (r->params.max_tokens < 0 || r->params.max_tokens > TOKENS_MAX)
		r->params.max_tokens = TOKENS_MAX;
	return true;
}

static int run(const uint8_t *data, size_t n, bool ordered, size_t drop_after)
{
	struct run user = {.drop_after = drop_after};
	struct jobs_where w = {.stop = stop, .user = &user};
	struct jobs_reader in;
	struct jobs_output out;
	json_t *settings = json_pack("{s:s}", "model", "m");

	check(settings && !jobs_reader_open(&in, &w, "in", file_of(data, n, 1), JOBS_LINE_MAX), "the input");
	int rc = jobs_reader_scan(&in);
	check(rc == 0 || drop_after == 0, "the scan");
	if (rc == 0) {
		rc = jobs_output_open(&out, &w, output, &in, settings, false);
		struct jobs j = {.where = &w,
				.host = &host,
				.engine = engine,
				.in = &in,
				.out = &out,
				.n_ahead = AHEAD,
				.ordered = ordered,
				.prepare = prepare,
				.on_result = on_result,
				.user = &user};
		if (rc == 0)
			rc = jobs_run(&j);
		jobs_output_release(&out);
	}
	jobs_reader_release(&in);
	json_decref(settings);
	return rc;
}

/* What must not depend on the run: all but the time, and how much of a prompt was computed before. */
static void strip(json_t *result)
{
	json_t *body = json_object_get(json_object_get(result, "response"), "body");

	json_object_del(body, "created");
	json_object_del(json_object_get(body, "usage"), "prompt_tokens_details");
}

/* The results by the number of their line. */
static void read_results(json_t **results, uint64_t n_lines, bool ordered)
{
	char *text = NULL;
	size_t n = 0, last = 0;

	check(!file_load(output, SIZE_MAX, (uint8_t **)&text, &n, NULL), "the output");
	for (const char *p = text, *end = text + n, *nl; p < end; p = nl + 1) {
		nl = memchr(p, '\n', (size_t)(end - p));
		check(nl != NULL, "half a line");
		json_t *v = json_loadb(p, (size_t)(nl - p), JSON_ALLOW_NUL, NULL);
		const char *id = json_string_value(json_object_get(v, "id"));
		uint64_t number = 0;
		check(id && sscanf(id, "batch_req_%" SCNu64, &number) == 1, "a result without an id");
		check(number >= 1 && number <= n_lines && !results[number], "a line has two results, or is none");
		check(!ordered || number > last, "the order");
		last = number;
		strip(v);
		results[number] = v;
	}
	mem_free(text);
}

/* Whether line by line something is to be done; how many there are. */
static uint64_t count_lines(const uint8_t *data, size_t n, bool *wanted)
{
	uint64_t number = 0;

	for (size_t at = 0; at < n;) {
		size_t end = at;
		while (end < n && data[end] != '\n')
			end++;
		if (++number > LINES_MAX)
			return number;
		if (number == 1 && end - at >= 3 && memcmp(data + at, "\xef\xbb\xbf", 3) == 0)
			at += 3;
		wanted[number] = false;
		for (; at < end; at++)
			wanted[number] |= data[at] != ' ' && data[at] != '\t' && data[at] != '\r';
		at = end + 1;
	}
	return number;
}

static void try_runs(const uint8_t *data, size_t n, const uint8_t *choices)
{
	json_t *whole[LINES_MAX + 1] = {NULL}, *again[LINES_MAX + 1] = {NULL};
	bool wanted[LINES_MAX + 1] = {false};
	const uint64_t n_lines = count_lines(data, n, wanted);
	const bool ordered = choices[1] & 1;
	struct stat st;

	if (n_lines > LINES_MAX)
		return;
	clean_up();
	check(run(data, n, ordered, SIZE_MAX) == 0, "a run");
	read_results(whole, n_lines, ordered);
	for (uint64_t i = 1; i <= n_lines; i++)
		check(wanted[i] == (whole[i] != NULL), "a line has no result, or a blank one has");
	clean_up();
	run(data, n, ordered, choices[2] % (LINES_MAX + 1));
	if (stat(output, &st) == 0 && st.st_size > 0)
		check(truncate(output, st.st_size - st.st_size * choices[3] / 256) == 0, "a cut");
	check(run(data, n, ordered, SIZE_MAX) == 0, "a run that goes on");
	read_results(again, n_lines, false);
	for (uint64_t i = 1; i <= n_lines; i++) {
		check(whole[i] == again[i] || json_equal(whole[i], again[i]), "another result after a run was dropped");
		json_decref(whole[i]);
		json_decref(again[i]);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	if (!engine)
		open_all();
	if (n < CHOICES || n > INPUT_MAX)
		return 0;
	const uint8_t *text = data + CHOICES;
	const size_t n_text = n - CHOICES, line_max = data[0] % 64;
	try_reader(text, n_text, 1, data[0] & 64 ? JOBS_LINE_MAX : line_max);
	/* Seldom: it takes as long as all the rest. */
	if (n_text > 64 && data[0] == 255)
		try_reader(text, n_text, TIMES_BYTES / n_text + 1, line_max);
	try_runs(text, n_text, data);
	return 0;
}
