/* Any bytes where the server's folder has a file's record, a batch's record, results of a batch, or their journal, as a
 * crash or a stranger may leave them: they are counted as damaged and left alone, refused with a reason, or read; and
 * what was read can be listed, written and read again as the same. The first byte says which of the four it is.
 *
 * Seen red with: texts that are cut to their room ("a text that was cut"), an end that is none and one without files
 * ("an end ..."), a number that leaves none for the next ("numbers"), results that count twice ("counts") or are of
 * lines that are not there (the address sanitizer), an output that is not cut ("half a line is left"). */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jobs.h"
#include "serve_store.h"

#include "base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define DIGITS "0123456789abcdef0123456789abcdef"
enum { N_LINES = 4 };
#define LINE(id) "{\"custom_id\":\"" id "\"}\n"
static const char input[] = LINE("a") LINE("b") LINE("c") LINE("d");
static char dir[128];

static void clean_up(void);

static void check(bool ok, const char *what)
{
	if (!ok) {
		clean_up();
		fprintf(stderr, "fuzz_store: %s\n", what);
		abort();
	}
}

/* ---- The folder ---- */

static void empty(const char *folder)
{
	char path[600];
	const struct dirent *e;

	snprintf(path, sizeof path, "%s/%s", dir, folder);
	DIR *d = opendir(path);
	while (d && (e = readdir(d))) {
		snprintf(path, sizeof path, "%s/%s/%s", dir, folder, e->d_name);
		unlink(path);
	}
	if (d)
		closedir(d);
}

static void clean_up(void)
{
	char path[600];

	empty("files");
	empty("batches");
	empty("");
	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof path, "%s/%s", dir, i ? "files" : "batches");
		rmdir(path);
	}
	rmdir(dir);
}

/* In memory where there is such a folder: a disk would be asked to keep every one. */
static void set_up(void)
{
	char path[600];

	snprintf(dir, sizeof dir, "%s/fuzz-store.XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	check(mkdtemp(dir) != NULL, "a folder");
	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof path, "%s/%s", dir, i ? "files" : "batches");
		check(mkdir(path, 0700) == 0, "a folder");
	}
	atexit(clean_up);
}

static void put(const char *name, const void *bytes, size_t n)
{
	char path[600];

	snprintf(path, sizeof path, "%s/%s", dir, name);
	FILE *f = fopen(path, "wb");
	check(f && fwrite(bytes, 1, n, f) == n && fclose(f) == 0, "a file cannot be written");
}

static bool holds(const char *name, const void *bytes, size_t n)
{
	char path[600];
	char *text = NULL;
	size_t n_text = 0;

	snprintf(path, sizeof path, "%s/%s", dir, name);
	FILE *f = fopen(path, "rb");
	if (!f)
		return false;
	text = malloc(n + 1);
	check(text != NULL, "memory");
	n_text = fread(text, 1, n + 1, f);
	fclose(f);
	const bool same = n_text == n && (n == 0 || memcmp(text, bytes, n) == 0);
	free(text);
	return same;
}

/* ---- Records ---- */

static void open_store(struct store *s, size_t *n_damaged)
{
	static const struct store_limits limits = {.file_bytes = 1000, .n_files = 4};
	struct cohort_err err;

	check(store_init(s, dir, &limits, n_damaged, &err) == COHORT_OK, "the folder does not open");
}

/* Whether the record's text is the one that was read, all of it. */
static bool same_text(const uint8_t *data, size_t n, const char *name, const char *text)
{
	json_t *j = json_loadb((const char *)data, n, JSON_ALLOW_NUL, NULL), *v = json_object_get(j, name);
	const bool same = json_is_string(v) && json_string_length(v) == strlen(text) &&
			strcmp(json_string_value(v), text) == 0;

	json_decref(j);
	return same;
}

static void try_file(const uint8_t *data, size_t n)
{
	static const char name[] = "files/file-" DIGITS ".json";
	const struct store_page page = {.limit = 10};
	struct openai_error e = {0};
	struct store_put p;
	struct store s;
	struct store_file next;
	size_t n_damaged;

	put("files/file-" DIGITS ".data", "bytes", 5);
	put(name, data, n);
	open_store(&s, &n_damaged);
	check(s.n_files + n_damaged == 1, "neither damaged nor there");
	check(holds(name, data, n) && holds("files/file-" DIGITS ".data", "bytes", 5), "a record was changed");
	if (s.n_files == 1) {
		const struct store_file f = *s.files[0];
		struct store_file got;
		check(same_text(data, n, "owner", f.owner) && same_text(data, n, "filename", f.filename),
				"a text that was cut");
		check(store_file_get(&s, f.owner, f.id, &got) && got.n_bytes == 5, "it is not found");
		json_t *list = store_file_list(&s, f.owner, &page, &e);
		check(list && json_array_size(json_object_get(list, "data")) == 1, "it is not listed");
		json_decref(list);
		check(store_put_open(&p, &s, f.owner, NULL, &e) && store_put_write(&p, "x", 1, &e) &&
						store_put_commit(&p, "name", "batch", &next, &e),
				"no other file can be put beside it");
		check(next.number > f.number, "numbers");
		check(s.files[1]->number == next.number, "the order");
		check(store_file_remove(&s, f.owner, f.id, &e), "it cannot be removed");
	}
	store_release(&s);
}

static void try_batch(const uint8_t *data, size_t n)
{
	static const char name[] = "batches/batch_" DIGITS ".json";
	const struct store_page page = {.limit = 10};
	struct openai_error e = {0};
	struct cohort_err err;
	struct store s;
	size_t n_damaged;
	double wake_at;

	put(name, data, n);
	open_store(&s, &n_damaged);
	check(s.n_batches + n_damaged == 1, "neither damaged nor there");
	check(holds(name, data, n), "a record was changed");
	if (s.n_batches == 0) {
		store_release(&s);
		return;
	}
	struct store_batch *b = s.batches[0];
	char owner[SHA256_HEX], id[STORE_ID];
	memcpy(owner, b->owner, sizeof owner);
	memcpy(id, b->id, sizeof id);
	check(same_text(data, n, "owner", owner), "a text that was cut");
	check(s.n_numbers > b->number, "numbers");
	if (b->end) {
		check(b->end == BATCH_FAILED || b->end == BATCH_COMPLETED || b->end == BATCH_EXPIRED ||
						b->end == BATCH_CANCELLED,
				"an end that is none");
		check(store_batch_over(b) || (store_id_ok(b->output, "file-") && store_id_ok(b->error, "file-")),
				"an end without files");
	}
	check((store_batch_next(&s, NULL, 0, &wake_at) == b) == !store_batch_over(b), "what is to be done");
	json_t *list = store_batch_list(&s, owner, &page, &e), *j = store_batch_get(&s, owner, id, &e);
	check(list && j && json_equal(json_array_get(json_object_get(list, "data"), 0), j), "it is not listed");
	json_decref(list);
	check(store_batch_save(&s, b, &err), "it cannot be written");
	store_release(&s);
	open_store(&s, &n_damaged);
	json_t *again = store_batch_get(&s, owner, id, &e);
	check(n_damaged == 0 && again && json_equal(j, again), "it is another one when it is read again");
	json_decref(j);
	json_decref(again);
	store_release(&s);
}

/* ---- Results and their journal ---- */

static int open_output(struct jobs_output *o, struct jobs_where *w)
{
	static char path[200];
	struct jobs_reader in;

	snprintf(path, sizeof path, "%s/files/file-" DIGITS ".data", dir);
	const int fd = open(path, O_RDONLY | O_CLOEXEC);
	json_t *settings = json_pack("{s:s, s:s}", "model", "m", "seed", "1");
	check(fd >= 0 && settings && !jobs_reader_open(&in, w, path, fd, JOBS_LINE_MAX) && !jobs_reader_scan(&in),
			"the input");
	snprintf(path, sizeof path, "%s/batches/batch_" DIGITS ".jsonl", dir);
	const int rc = jobs_output_open(o, w, path, &in, settings, false);
	jobs_reader_release(&in);
	json_decref(settings);
	return rc;
}

static uint64_t n_marked(const struct jobs_output *o)
{
	uint64_t n = 0;

	for (size_t i = 1; o->done && i <= N_LINES; i++)
		n += o->done[i] != 0;
	return n;
}

static void try_results(const uint8_t *data, size_t n, bool journal)
{
	static const char line[] = "{\"id\":\"batch_req_000000000002\",\"custom_id\":\"b\",\"response\":null}\n";
	struct jobs_where w = {0};
	struct jobs_output o;
	struct stat st;

	put("files/file-" DIGITS ".data", input, sizeof input - 1);
	/* Makes a good journal, since there are no results. */
	check(open_output(&o, &w) == 0 && o.n_done == 0, "an empty output");
	jobs_output_release(&o);
	if (journal)
		put("batches/batch_" DIGITS ".jsonl", line, sizeof line - 1);
	put(journal ? "batches/batch_" DIGITS ".jsonl.journal" : "batches/batch_" DIGITS ".jsonl", data, n);
	w.why[0] = 0;
	const int rc = open_output(&o, &w);
	check(rc == 0 || w.why[0], "a refusal without a reason");
	if (rc == 0) {
		check(o.n_done <= N_LINES && o.n_done_ok <= o.n_done && n_marked(&o) == o.n_done, "counts");
		check(!journal || o.n_done == 1, "the one result is lost");
		check(fstat(o.fd, &st) == 0 && (uint64_t)st.st_size == o.n_good, "half a line is left");
	} else if (o.refused) {
		check(holds(journal ? "batches/batch_" DIGITS ".jsonl.journal" : "batches/batch_" DIGITS ".jsonl", data,
				      n),
				"what was refused was changed");
	}
	const uint64_t n_done = o.n_done;
	/* Another result is added, and both are there. */
	if (rc == 0 && o.done && !o.done[2]) {
		check(jobs_output_write(&o, line, sizeof line - 1) == 0, "it cannot go on");
		jobs_output_release(&o);
		check(open_output(&o, &w) == 0 && o.n_done == n_done + 1 && o.done[2], "a result is lost");
	}
	jobs_output_release(&o);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	if (!*dir)
		set_up();
	if (n < 1 || n > 1 << 16)
		return 0;
	empty("files");
	empty("batches");
	switch (data[0] % 4) {
	case 0: try_file(data + 1, n - 1); break;
	case 1: try_batch(data + 1, n - 1); break;
	default: try_results(data + 1, n - 1, data[0] % 4 == 3); break;
	}
	return 0;
}
