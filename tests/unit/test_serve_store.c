/* The folder of files and batches: what is in it is there again after a start, what fails leaves nothing, at any
 * allocation and any call of the system, and what belongs to another is not there.
 *
 * Shown red by planted faults: bytes that stay when the .json cannot be written (system_fails), an owner that is not
 * compared (owners_see_their_own_files), dots in ids (store_refuses_ids_that_are_none), ended batches that are not
 * forgotten (many_batches), a list that is not taken back when memory is out, a file taken for damaged when there was
 * no memory to read of it (memory_fails), batches that end by the time of day (wall_clock), a batch added that brings
 * its owner's turn forward, owners by the age of their batches, busy owners that are not left out
 * (owners_of_batches_take_turns), a batch read into memory that was not there (memory_fails). */
#include "../../prog/serve_store.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/pool.h"
#include "temp.h"

#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static const struct store_limits limits = {.file_bytes = 1000, .n_files = 4};
static char dir[TEMP_MAX];

/* The time of day, as somebody may set it. */
static int64_t wall_step_s;

time_t time(time_t *out)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	t.tv_sec += wall_step_s;
	if (out)
		*out = t.tv_sec;
	return t.tv_sec;
}

static void *unlimited(size_t n)
{
	return malloc(n);
}

static int setup(void **state)
{
	(void)state;
	/* What JSON takes fails with the rest when a test asks for it. */
	json_set_alloc_funcs(unlimited, free);
	return mkdtemp(temp_name(dir, "store")) ? 0 : -1;
}

static size_t count(const char *folder, bool remove)
{
	char path[600];
	size_t n = 0;
	const struct dirent *e;

	snprintf(path, sizeof path, "%s/%s", dir, folder);
	DIR *d = opendir(path);
	while (d && (e = readdir(d))) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		n++;
		snprintf(path, sizeof path, "%s/%s/%s", dir, folder, e->d_name);
		if (remove)
			unlink(path);
	}
	if (d)
		closedir(d);
	return n;
}

static int teardown(void **state)
{
	char path[600];

	(void)state;
	count("files", true);
	count("batches", true);
	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof path, "%s/%s", dir, i ? "files" : "batches");
		rmdir(path);
	}
	snprintf(path, sizeof path, "%s/lock", dir);
	unlink(path);
	return rmdir(dir);
}

static void open_store(struct store *s, const struct store_limits *l)
{
	struct cohort_err err;
	size_t n_damaged;

	assert_int_equal(store_init(s, dir, l, &n_damaged, &err), COHORT_OK);
	assert_int_equal(n_damaged, 0);
}

static bool put(struct store *s, const char *owner, const char *text, struct store_file *f, struct openai_error *e)
{
	struct store_put p;

	*e = (struct openai_error){0};
	if (!store_put_open(&p, s, owner, NULL, e))
		return false;
	const bool ok = store_put_write(&p, text, strlen(text), e) && store_put_commit(&p, "name", "batch", f, e);
	store_put_abort(&p);
	return ok;
}

static void put_ok(struct store *s, const char *owner, const char *text, struct store_file *f)
{
	struct openai_error e;
	assert_true(put(s, owner, text, f, &e));
}

static void store_is_the_same_after_reopening(void **state)
{
	struct store s;
	struct store_file f[3], g;
	struct openai_error e = {0};
	char bytes[16] = "", path[STORE_PATH];

	(void)state;
	open_store(&s, &limits);
	for (int i = 0; i < 3; i++)
		put_ok(&s, "", i == 1 ? "second" : "other", &f[i]);
	assert_true(store_file_remove(&s, "", f[0].id, &e));
	json_t *b = store_batch_add(&s, "", f[1].id, "/v1/completions", NULL, &e);
	assert_non_null(b);
	assert_false(store_file_remove(&s, "", f[1].id, &e));
	assert_int_equal(e.status, 409);
	/* What a kill may leave. */
	store_path(&s, path, "files", "file-00000000000000000000000000000000", ".data");
	fclose(fopen(path, "w"));
	store_path(&s, path, "files", ".cohort-1-2-3.tmp", "");
	fclose(fopen(path, "w"));
	store_path(&s, path, "batches", "batch_00000000000000000000000000000000", ".jsonl");
	fclose(fopen(path, "w"));
	/* One server at a time. */
	struct store other;
	struct cohort_err err;
	size_t n_damaged;
	assert_int_equal(store_init(&other, dir, &limits, &n_damaged, &err), COHORT_E_IO);
	store_release(&other);
	store_release(&s);

	open_store(&s, &limits);
	assert_int_equal(count("files", false), 4);
	assert_int_equal(count("batches", false), 1);
	assert_int_equal(s.n_files, 2);
	const int fd = store_file_open(&s, "", f[1].id, &g);
	assert_int_equal(read(fd, bytes, sizeof bytes), 6);
	close(fd);
	assert_string_equal(bytes, "second");
	assert_memory_equal(&g, &f[1], sizeof g);
	e = (struct openai_error){0};
	json_t *c = store_batch_get(&s, "", json_string_value(json_object_get(b, "id")), &e);
	assert_true(json_equal(b, c));
	put_ok(&s, "", "third", &g);
	assert_true(g.number > f[2].number);
	json_decref(b);
	json_decref(c);
	store_release(&s);
}

static void owners_see_their_own_files(void **state)
{
	struct store s;
	struct store_file f, g;
	struct openai_error e = {0};
	const struct store_page page = {.limit = 10};

	(void)state;
	open_store(&s, &limits);
	put_ok(&s, "aa", "x", &f);
	json_t *b = store_batch_add(&s, "aa", f.id, "/v1/completions", NULL, &e);
	const char *id = json_string_value(json_object_get(b, "id"));
	static const char *const others[] = {"", "a", "aaa", "ab"};
	for (size_t i = 0; i < 4; i++) {
		assert_false(store_file_get(&s, others[i], f.id, &g));
		assert_int_equal(store_file_open(&s, others[i], f.id, &g), -1);
		assert_false(store_file_remove(&s, others[i], f.id, &e));
		assert_int_equal(e.status, 404);
		assert_null(store_batch_get(&s, others[i], id, &e));
		assert_null(store_batch_cancel(&s, others[i], id, &e));
		assert_int_equal(e.status, 404);
		assert_null(store_batch_add(&s, others[i], f.id, "/v1/completions", NULL, &e));
		e = (struct openai_error){0};
		json_t *l = store_file_list(&s, others[i], &page, &e), *m = store_batch_list(&s, others[i], &page, &e);
		assert_int_equal(json_array_size(json_object_get(l, "data")), 0);
		assert_int_equal(json_array_size(json_object_get(m, "data")), 0);
		json_decref(l);
		json_decref(m);
	}
	json_decref(b);
	store_release(&s);
}

static void store_refuses_ids_that_are_none(void **state)
{
	static const char *const bad[] = {"", "file-", "file-0123456789abcdef0123456789abcde",
			"file-0123456789abcdef0123456789abcdef0", "file-0123456789ABCDEF0123456789abcdef",
			"file-../../../../../../../../etc/pwd0", "batch_0123456789abcdef0123456789abcdef",
			"file_0123456789abcdef0123456789abcdef", " file-0123456789abcdef0123456789abcdef"};
	char id[STORE_ID];

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		assert_false(store_id_ok(bad[i], "file-"));
	assert_true(store_id_ok("file-0123456789abcdef0123456789abcdef", "file-"));
	assert_true(store_id_new(id, "batch_"));
	assert_true(store_id_ok(id, "batch_"));
	assert_true(store_name_is("file-0123456789abcdef0123456789abcdef.json", "file-", ".json", id));
	assert_false(store_name_is("file-0123456789abcdef0123456789abcdef.jsonx", "file-", ".json", id));
	assert_false(store_name_is(".json", "file-", ".json", id));
}

static void store_refuses_beyond_its_bounds(void **state)
{
	struct store s;
	struct store_file f;
	struct openai_error e = {0};
	char text[1002];

	(void)state;
	memset(text, 'x', sizeof text);
	open_store(&s, &limits);
	text[1001] = 0;
	assert_false(put(&s, "", text, &f, &e));
	assert_int_equal(e.status, 413);
	text[1000] = 0;
	for (int i = 0; i < 4; i++)
		put_ok(&s, "", text, &f);
	assert_false(put(&s, "", "x", &f, &e));
	assert_string_equal(e.code, "too_many_files");
	put_ok(&s, "another", "x", &f);
	/* Two at once for one place: the second is refused in the end. */
	assert_true(store_file_remove(&s, "another", f.id, &e));
	struct store_put p[5];
	for (int i = 0; i < 5; i++) {
		e = (struct openai_error){0};
		assert_true(store_put_open(&p[i], &s, "another", NULL, &e));
	}
	for (int i = 0; i < 5; i++)
		assert_int_equal(store_put_commit(&p[i], "x", "batch", &f, &e), i < 4);
	assert_string_equal(e.code, "too_many_files");
	assert_int_equal(count("files", false), 16);
	store_release(&s);
}

/* Of an owner's batches no more are kept than files; those that have not ended stay. */
static void many_batches(void **state)
{
	struct store s;
	struct store_file f;
	struct openai_error e = {0};
	double wake_at;

	(void)state;
	open_store(&s, &limits);
	put_ok(&s, "", "x", &f);
	for (int i = 0; i < 4; i++)
		json_decref(store_batch_add(&s, "", f.id, "/v1/completions", NULL, &e));
	assert_int_equal(e.status, 0);
	assert_null(store_batch_add(&s, "", f.id, "/v1/completions", NULL, &e));
	assert_int_equal(e.status, 429);
	struct store_batch *b = store_batch_next(&s, NULL, 0, &wake_at);
	char first[STORE_ID];
	memcpy(first, b->id, sizeof first);
	store_batch_enter(b, BATCH_COMPLETED);
	e = (struct openai_error){0};
	json_decref(store_batch_add(&s, "", f.id, "/v1/completions", NULL, &e));
	assert_int_equal(e.status, 0);
	assert_null(store_batch_get(&s, "", first, &e));
	assert_int_equal(count("batches", false), 4);
	/* One that is to be tried later lets the others pass, and tells when. */
	struct store_batch *second = store_batch_next(&s, NULL, 0, &wake_at);
	second->not_before = 1e9;
	assert_ptr_not_equal(store_batch_next(&s, NULL, 0, &wake_at), second);
	for (size_t i = 0; i < s.n_batches; i++)
		s.batches[i]->not_before = 1e9 + (double)i;
	assert_null(store_batch_next(&s, NULL, 0, &wake_at));
	assert_true(wake_at == 1e9);
	store_release(&s);
}

/* Every step of a file's and a batch's life, with one failure somewhere in it: a refusal, and nothing left. */
/* Of the owner of the batch that is next. */
static char next_owner(struct store *s, const char *busy)
{
	double wake_at;
	const struct store_batch *b = store_batch_next(s, &busy, 1, &wake_at);

	if (!b)
		return '-';
	store_batch_turn(s, b);
	return b->owner[0];
}

/* Owners take turns, however many batches they have, and however late they came. */
static void owners_of_batches_take_turns(void **state)
{
	static const char *const owners[] = {
			"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
			"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb",
			"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"};
	struct store s;
	struct store_file f[3];
	struct openai_error e = {0};

	(void)state;
	open_store(&s, &limits);
	for (int i = 0; i < 3; i++)
		put_ok(&s, owners[i], "x", &f[i]);
	for (int i = 0; i < 3; i++)
		json_decref(store_batch_add(&s, owners[0], f[0].id, "/v1/completions", NULL, &e));
	assert_int_equal(next_owner(&s, NULL), 'a');
	assert_int_equal(next_owner(&s, owners[0]), '-');
	json_decref(store_batch_add(&s, owners[1], f[1].id, "/v1/completions", NULL, &e));
	assert_int_equal(next_owner(&s, NULL), 'b');
	assert_int_equal(next_owner(&s, NULL), 'a');
	json_decref(store_batch_add(&s, owners[0], f[0].id, "/v1/completions", NULL, &e));
	json_decref(store_batch_add(&s, owners[2], f[2].id, "/v1/completions", NULL, &e));
	assert_int_equal(e.status, 0);
	assert_int_equal(next_owner(&s, NULL), 'c');
	assert_int_equal(next_owner(&s, owners[0]), 'b');
	assert_int_equal(next_owner(&s, NULL), 'a');
	store_release(&s);
}

/* A clock that is set ends no batch while the server runs; over a restart it is the only one that there is. */
static void wall_clock(void **state)
{
	const int64_t day = 86400;
	struct store s;
	struct store_file f;
	struct openai_error e = {0};

	(void)state;
	wall_step_s = 0;
	open_store(&s, &limits);
	put_ok(&s, "", "x", &f);
	json_decref(store_batch_add(&s, "", f.id, "/v1/completions", NULL, &e));
	wall_step_s = 2 * day;
	assert_false(store_batch_late(s.batches[0]));
	store_release(&s);
	open_store(&s, &limits);
	assert_true(store_batch_late(s.batches[0]));
	store_release(&s);
	/* Set back for good, it does not give a batch more than a day. */
	wall_step_s = -400 * day;
	open_store(&s, &limits);
	assert_false(store_batch_late(s.batches[0]));
	assert_true(s.batches[0]->due <= clock_now() + (double)day);
	store_release(&s);
	wall_step_s = 0;
}

static void one_life(struct store *s, bool *failed)
{
	struct store_file f;
	struct openai_error e = {0};

	*failed = true;
	if (!put(s, "", "bytes", &f, &e))
		return;
	json_t *b = store_batch_add(s, "", f.id, "/v1/completions", NULL, &e);
	json_t *c = b ? store_batch_cancel(s, "", json_string_value(json_object_get(b, "id")), &e) : NULL;
	*failed = !c;
	json_decref(b);
	json_decref(c);
}

static void check_life(struct store *s)
{
	struct store_file f;
	struct openai_error e = {0};
	struct store t;

	/* In memory as on the disk. */
	assert_int_equal(count("files", false), 2 * s->n_files);
	assert_int_equal(count("batches", false), s->n_batches);
	store_release(s);
	open_store(&t, &limits);
	for (size_t i = 0; i < t.n_batches; i++)
		store_batch_enter(t.batches[i], BATCH_CANCELLED);
	while (t.n_files > 0) {
		f = *t.files[0];
		assert_true(store_file_remove(&t, "", f.id, &e));
	}
	assert_int_equal(count("files", false), 0);
	store_release(&t);
	count("batches", true);
}

static void system_fails(void **state)
{
	static const int errors[] = {ENOSPC, EIO, EFBIG};
	bool failed = true;

	(void)state;
	for (size_t k = 0; k < 3; k++) {
		int64_t n = 0;
		for (failed = true; failed; n++) {
			struct store s;
			open_store(&s, &limits);
			file_fail_after(n, errors[k]);
			one_life(&s, &failed);
			file_fail_after(-1, 0);
			check_life(&s);
		}
		assert_true(n > 20);
	}
}

static void full_disk(void **state)
{
	struct store s;
	struct store_file f;
	struct openai_error e;

	(void)state;
	open_store(&s, &limits);
	file_fail_after(1, ENOSPC);
	assert_false(put(&s, "", "bytes", &f, &e));
	assert_int_equal(e.status, 507);
	file_fail_after(-1, 0);
	assert_int_equal(count("files", false), 0);
	store_release(&s);
}

static void memory_fails(void **state)
{
	bool failed = true;
	int64_t n = 0;

	(void)state;
	json_take_over();
	for (; failed; n++) {
		struct store s;
		open_store(&s, &limits);
		mem_fail_after(n);
		one_life(&s, &failed);
		mem_fail_after(-1);
		check_life(&s);
	}
	assert_true(n > 30);
	failed = true;
	for (n = 0; failed; n++) {
		struct store s;
		struct cohort_err err;
		size_t n_damaged;
		struct store_file f;
		open_store(&s, &limits);
		put_ok(&s, "", "x", &f);
		struct openai_error e = {0};
		json_t *b = store_batch_add(&s, "", f.id, "/v1/completions", NULL, &e);
		assert_non_null(b);
		store_release(&s);
		mem_fail_after(n);
		failed = store_init(&s, dir, &limits, &n_damaged, &err) != COHORT_OK;
		mem_fail_after(-1);
		assert_int_equal(n_damaged, 0);
		if (!failed) {
			json_t *c = store_batch_get(&s, "", json_string_value(json_object_get(b, "id")), &e);
			assert_true(store_file_get(&s, "", f.id, &f));
			assert_true(json_equal(b, c));
			json_decref(c);
		}
		json_decref(b);
		store_release(&s);
		count("files", true);
		count("batches", true);
	}
	assert_true(n > 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
			cmocka_unit_test_setup_teardown(store_is_the_same_after_reopening, setup, teardown),
			cmocka_unit_test_setup_teardown(owners_see_their_own_files, setup, teardown),
			cmocka_unit_test(store_refuses_ids_that_are_none),
			cmocka_unit_test_setup_teardown(store_refuses_beyond_its_bounds, setup, teardown),
			cmocka_unit_test_setup_teardown(many_batches, setup, teardown),
			cmocka_unit_test_setup_teardown(owners_of_batches_take_turns, setup, teardown),
			cmocka_unit_test_setup_teardown(wall_clock, setup, teardown),
			cmocka_unit_test_setup_teardown(system_fails, setup, teardown),
			cmocka_unit_test_setup_teardown(full_disk, setup, teardown),
			cmocka_unit_test_setup_teardown(memory_fails, setup, teardown),
	};
	return cmocka_run_group_tests_name("serve_store", tests, NULL, NULL);
}
