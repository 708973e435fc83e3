/* The folder of files and batches: opening it, and its files.
 *
 * Invariants
 *  1. A file is there when its .json is: that is written last and removed first, both atomically. Bytes without one are
 *     what an upload or a removal was killed over, and go at the next start.
 *  2. Paths are made of the folder and of ids that have passed store_id_ok, never of what a client wrote.
 *  3. The list in memory is what is on the disk, in the order of numbers. It changes under the lock, after the disk
 * has.
 *  4. Bytes are written and given to the disk without the lock: nobody waits for another's upload.
 * It does not know who asks, nor what files are for. */
#include "serve_store.h"

#include "siphash.h"

#include "base/err.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { JSON_MAX = 4 << 20 };
#define NUMBER_MAX ((json_int_t)1 << 62)

/* ---- Names ---- */

bool store_id_ok(const char *id, const char *prefix)
{
	const size_t n = strlen(prefix);

	return strncmp(id, prefix, n) == 0 && strlen(id + n) == 32 && strspn(id + n, "0123456789abcdef") == 32;
}

bool store_id_new(char out[STORE_ID], const char *prefix)
{
	unsigned char bytes[16];

	if (!random_draw(bytes, sizeof bytes))
		return false;
	size_t n = (size_t)snprintf(out, STORE_ID, "%s", prefix);
	for (size_t i = 0; i < sizeof bytes; i++)
		n += (size_t)snprintf(out + n, STORE_ID - n, "%02x", bytes[i]);
	return true;
}

bool store_name_is(const char *name, const char *prefix, const char *ending, char id[STORE_ID])
{
	const size_t n = strlen(name), n_ending = strlen(ending);

	if (n < n_ending || strcmp(name + n - n_ending, ending) != 0 || n - n_ending >= STORE_ID)
		return false;
	memcpy(id, name, n - n_ending);
	id[n - n_ending] = 0;
	return store_id_ok(id, prefix);
}

void store_path(const struct store *s, char out[STORE_PATH], const char *folder, const char *id, const char *ending)
{
	snprintf(out, STORE_PATH, "%s/%s%s%s%s", s->dir, folder, *id ? "/" : "", id, ending);
}

void store_folder_sync(const struct store *s, const char *folder)
{
	char path[STORE_PATH];

	store_path(s, path, folder, "", "");
	const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0) {
		fsync(fd);
		close(fd);
	}
}

enum cohort_status store_folder(const struct store *s, const char *folder, struct cohort_err *err,
		enum cohort_status (*visit)(struct store *s, const char *path, const char *name, void *user),
		void *user)
{
	char dir[STORE_PATH], path[STORE_PATH];
	enum cohort_status st = COHORT_OK;
	const struct dirent *entry;

	store_path(s, dir, folder, "", "");
	DIR *d = opendir(dir);
	if (!d)
		return err_set(err, COHORT_E_IO, "cannot read %s: %s", dir, strerror(errno));
	while (!st && (entry = readdir(d))) {
		store_path(s, path, folder, entry->d_name, "");
		if (strncmp(entry->d_name, ".cohort-", 8) == 0)
			unlink(path); /* what a write was killed over */
		else if (entry->d_name[0] != '.')
			st = visit((struct store *)s, path, entry->d_name, user);
	}
	closedir(d);
	return st ? err_set(err, st, "out of memory") : COHORT_OK;
}

/* ---- Small JSON files ---- */

json_t *store_json_read(const char *path, bool *no_memory)
{
	char *text = NULL;
	size_t n = 0;
	const enum cohort_status st = file_read(path, JSON_MAX, &text, &n, NULL);

	*no_memory = st == COHORT_E_MEMORY;
	if (st)
		return NULL;
	json_t *j = json_parse(text, n, JSON_ALLOW_NUL, NULL, no_memory);
	mem_free(text);
	return j;
}

bool store_json_write(const char *path, json_t *value, struct cohort_err *err)
{
	struct openai_buf b = {0};
	bool ok = openai_dump(&b, value) && openai_buf_add(&b, "\n", 1);

	json_decref(value);
	if (!ok)
		err_set(err, COHORT_E_MEMORY, "out of memory");
	else
		ok = !file_write_atomic(path, b.p, b.n, err);
	openai_buf_release(&b);
	return ok;
}

bool store_json_text(const json_t *record, const char *name, char *out, size_t n_max)
{
	const json_t *v = json_object_get(record, name);
	const size_t n = json_string_length(v);

	if (!json_is_string(v) || n >= n_max || strlen(json_string_value(v)) != n)
		return false;
	memcpy(out, json_string_value(v), n + 1);
	return true;
}

bool store_json_owner(const json_t *record, char owner[SHA256_HEX])
{
	return store_json_text(record, "owner", owner, SHA256_HEX) &&
			(!*owner || strspn(owner, "0123456789abcdef") == SHA256_HEX - 1);
}

bool store_json_number(const json_t *record, uint64_t *number)
{
	const json_t *v = json_object_get(record, "number");

	/* There are always more to come. */
	if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) > NUMBER_MAX)
		return false;
	*number = (uint64_t)json_integer_value(v);
	return true;
}

bool store_failed(const struct cohort_err *err, struct openai_error *e)
{
	if (err->status == COHORT_E_MEMORY)
		return openai_no_memory(e);
	const bool space = err->rule && strcmp(err->rule, "space") == 0;
	openai_refuse(e, NULL, space ? "no_space" : "storage_failed", "%s",
			space ? "the server's disk is full; remove files, or try again later"
			      : "the server cannot write to its disk");
	e->status = space ? 507 : 500;
	e->type = "server_error";
	return false;
}

static bool not_there(struct openai_error *e, const char *id)
{
	openai_refuse(e, "id", "not_found", "there is no file %.60s", id);
	e->status = 404;
	return false;
}

/* ---- The list ---- */

struct store_file *store_file_find(struct store *s, const char *owner, const char *id)
{
	for (size_t i = s->n_files; i-- > 0;)
		if (strcmp(s->files[i]->id, id) == 0)
			return !owner || strcmp(s->files[i]->owner, owner) == 0 ? s->files[i] : NULL;
	return NULL;
}

/* Takes a place for one in the order of numbers; new ones come last. */
static bool list_add(struct store *s, const struct store_file *f)
{
	struct store_file *copy = mem_dup(f, sizeof *f);
	size_t at = s->n_files;

	if (!copy || !mem_grow((void **)&s->files, &s->n_files_max, s->n_files + 1, sizeof(struct store_file *))) {
		mem_free(copy);
		return false;
	}
	for (; at > 0 && s->files[at - 1]->number > f->number; at--)
		s->files[at] = s->files[at - 1];
	s->files[at] = copy;
	s->n_files++;
	return true;
}

static void list_remove(struct store *s, struct store_file *f)
{
	size_t at = 0;

	while (at < s->n_files && s->files[at] != f)
		at++;
	s->n_files--;
	memmove(s->files + at, s->files + at + 1, (s->n_files - at) * sizeof *s->files);
	mem_free(f);
}

static bool full(const struct store *s, const char *owner, struct openai_error *e)
{
	int64_t n = 0;

	for (size_t i = 0; i < s->n_files; i++)
		n += strcmp(s->files[i]->owner, owner) == 0;
	if (n < s->limits.n_files)
		return false;
	openai_refuse(e, NULL, "too_many_files",
			"there are %" PRId64 " files already, the most there may be; remove some", n);
	return true;
}

/* ---- Opening ---- */

static enum cohort_status make_folder(const char *path, struct cohort_err *err)
{
	struct stat st;

	if (mkdir(path, 0700) == 0 || (errno == EEXIST && stat(path, &st) == 0 && S_ISDIR(st.st_mode)))
		return COHORT_OK;
	return err_set(err, COHORT_E_IO, "cannot make the folder %s: %s", path, strerror(errno));
}

static enum cohort_status load_file(struct store *s, const char *path, const char *name, void *user)
{
	char data[STORE_PATH];
	struct store_file f = {0};
	struct stat st;
	size_t *n_damaged = user;

	if (!store_name_is(name, "file-", ".json", f.id))
		return COHORT_OK;
	bool no_memory;
	json_t *j = store_json_read(path, &no_memory);
	enum cohort_status status = no_memory ? COHORT_E_MEMORY : COHORT_OK;
	store_path(s, data, "files", f.id, ".data");
	if (store_json_owner(j, f.owner) &&
			store_json_text(j, "filename", f.filename, sizeof f.filename) &&
			store_json_text(j, "purpose", f.purpose, sizeof f.purpose) && store_json_number(j, &f.number) &&
			stat(data, &st) == 0 && S_ISREG(st.st_mode)) {
		f.created = json_integer_value(json_object_get(j, "created_at"));
		f.n_bytes = (uint64_t)st.st_size;
		s->n_numbers = f.number >= s->n_numbers ? f.number + 1 : s->n_numbers;
		status = list_add(s, &f) ? COHORT_OK : COHORT_E_MEMORY;
	} else {
		*n_damaged += !no_memory;
	}
	json_decref(j);
	return status;
}

static enum cohort_status drop_orphan(struct store *s, const char *path, const char *name, void *user)
{
	char id[STORE_ID], json[STORE_PATH];

	(void)user;
	if (!store_name_is(name, "file-", ".data", id))
		return COHORT_OK;
	store_path(s, json, "files", id, ".json");
	if (access(json, F_OK) != 0 && errno == ENOENT)
		unlink(path);
	return COHORT_OK;
}

static enum cohort_status take_folder(struct store *s, struct cohort_err *err)
{
	char path[STORE_PATH];
	enum cohort_status st = make_folder(s->dir, err);

	for (int i = 0; i < 2 && !st; i++) {
		store_path(s, path, i ? "batches" : "files", "", "");
		st = make_folder(path, err);
	}
	if (st)
		return st;
	store_path(s, path, "lock", "", "");
	s->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (s->lock_fd < 0)
		return err_set(err, COHORT_E_IO, "cannot write %s: %s", path, strerror(errno));
	if (flock(s->lock_fd, LOCK_EX | LOCK_NB) != 0)
		return err_set(err, COHORT_E_IO, "%s is in use by another server", s->dir);
	return COHORT_OK;
}

enum cohort_status store_init(struct store *s, const char *dir, const struct store_limits *limits, size_t *n_damaged,
		struct cohort_err *err)
{
	*s = (struct store){.limits = *limits, .lock_fd = -1, .n_numbers = 1};
	*n_damaged = 0;
	/* Room for the longest name that is made in it. */
	if (!*dir || strlen(dir) > STORE_PATH - 320)
		return err_set(err, COHORT_E_ARG, "the folder's name is empty, or too long");
	s->dir = mem_strndup(dir, strlen(dir));
	s->has_lock = lock_init(&s->lock);
	s->has_cond = cond_init(&s->news);
	if (!s->dir || !s->has_lock || !s->has_cond)
		return err_set(err, COHORT_E_MEMORY, "out of memory");
	enum cohort_status st = take_folder(s, err);
	if (!st)
		st = store_folder(s, "files", err, load_file, n_damaged);
	if (!st)
		st = store_folder(s, "files", err, drop_orphan, NULL);
	return st ? st : store_batches_load(s, n_damaged, err);
}

void store_release(struct store *s)
{
	for (size_t i = 0; i < s->n_files; i++)
		mem_free(s->files[i]);
	mem_free(s->files);
	store_batches_release(s);
	if (s->lock_fd >= 0)
		close(s->lock_fd);
	if (s->has_cond)
		cond_release(&s->news);
	if (s->has_lock)
		lock_release(&s->lock);
	mem_free(s->dir);
	*s = (struct store){.lock_fd = -1};
}

/* ---- Writing a file ---- */

bool store_put_open(struct store_put *p, struct store *s, const char *owner, const char *id, struct openai_error *e)
{
	char path[STORE_PATH];
	struct cohort_err err;

	*p = (struct store_put){.s = s, .bounded = !id};
	snprintf(p->owner, sizeof p->owner, "%s", owner);
	if (id)
		snprintf(p->id, sizeof p->id, "%s", id);
	else if (!store_id_new(p->id, "file-"))
		return openai_no_memory(e);
	if (p->bounded) {
		lock_take(&s->lock);
		const bool no_room = full(s, owner, e);
		lock_give(&s->lock);
		if (no_room)
			return false;
	}
	store_path(s, path, "files", p->id, ".data");
	return file_stream_open(path, &p->stream, &err) ? store_failed(&err, e) : true;
}

bool store_put_write(struct store_put *p, const char *bytes, size_t n, struct openai_error *e)
{
	struct cohort_err err;

	if (p->bounded && n > (uint64_t)p->s->limits.file_bytes - p->n_bytes) {
		openai_refuse(e, "file", "file_too_large", "the file has more than %" PRId64 " bytes",
				p->s->limits.file_bytes);
		e->status = 413;
		store_put_abort(p);
		return false;
	}
	if (file_stream_write(p->stream, bytes, n, &err)) {
		store_put_abort(p);
		return store_failed(&err, e);
	}
	p->n_bytes += n;
	return true;
}

void store_put_abort(struct store_put *p)
{
	file_stream_abort(p->stream);
	p->stream = NULL;
}

/* Puts it into the list, on the disk and in memory; with the lock in hand. */
static bool enter_file(struct store *s, struct store_file *f, bool bounded, struct openai_error *e)
{
	char path[STORE_PATH];
	struct cohort_err err;

	if (bounded && full(s, f->owner, e))
		return false;
	struct store_file *old = store_file_find(s, NULL, f->id);
	f->number = old ? old->number : s->n_numbers;
	json_t *j = json_pack("{s:i, s:s, s:I, s:s, s:s, s:I, s:I}", "cohort_file", 1, "owner", f->owner, "number",
			(json_int_t)f->number, "filename", f->filename, "purpose", f->purpose, "created_at",
			(json_int_t)f->created, "bytes", (json_int_t)f->n_bytes);
	store_path(s, path, "files", f->id, ".json");
	if (old) {
		*old = *f;
	} else if (!list_add(s, f)) {
		json_decref(j);
		return openai_no_memory(e);
	}
	if (!store_json_write(path, j, &err)) {
		unlink(path);
		list_remove(s, store_file_find(s, NULL, f->id));
		return store_failed(&err, e);
	}
	s->n_numbers += !old;
	return true;
}

bool store_put_commit(struct store_put *p, const char *filename, const char *purpose, struct store_file *out,
		struct openai_error *e)
{
	struct store *s = p->s;
	struct cohort_err err;
	struct store_file f = {.n_bytes = p->n_bytes, .created = (int64_t)time(NULL)};
	char path[STORE_PATH];

	memcpy(f.id, p->id, sizeof f.id);
	memcpy(f.owner, p->owner, sizeof f.owner);
	snprintf(f.purpose, sizeof f.purpose, "%s", purpose);
	json_t *name = openai_text(filename, strlen(filename));
	if (!name)
		openai_no_memory(e);
	else if (json_string_length(name) >= sizeof f.filename)
		openai_refuse(e, "file", NULL, "the file's name has more than 255 bytes");
	else
		memcpy(f.filename, json_string_value(name), json_string_length(name) + 1);
	json_decref(name);
	if (e->status) {
		store_put_abort(p);
		return false;
	}
	const enum cohort_status st = file_stream_commit(p->stream, &err);
	p->stream = NULL;
	store_path(s, path, "files", f.id, ".data");
	bool ok = !st || store_failed(&err, e);
	lock_take(&s->lock);
	ok = ok && enter_file(s, &f, p->bounded, e);
	lock_give(&s->lock);
	if (!ok)
		unlink(path);
	else
		*out = f;
	return ok;
}

/* ---- Reading, removing, listing ---- */

bool store_file_get(struct store *s, const char *owner, const char *id, struct store_file *out)
{
	if (!store_id_ok(id, "file-"))
		return false;
	lock_take(&s->lock);
	const struct store_file *f = store_file_find(s, owner, id);
	if (f)
		*out = *f;
	lock_give(&s->lock);
	return f != NULL;
}

int store_file_open(struct store *s, const char *owner, const char *id, struct store_file *out)
{
	char path[STORE_PATH];

	if (!store_file_get(s, owner, id, out)) {
		errno = ENOENT;
		return -1;
	}
	store_path(s, path, "files", id, ".data");
	const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 && errno == ELOOP)
		errno = ENOENT; /* a link is none of its files */
	return fd;
}

bool store_file_remove(struct store *s, const char *owner, const char *id, struct openai_error *e)
{
	char json[STORE_PATH], data[STORE_PATH];
	bool ok = false;

	if (!store_id_ok(id, "file-"))
		return not_there(e, id);
	lock_take(&s->lock);
	struct store_file *f = store_file_find(s, owner, id);
	if (!f) {
		not_there(e, id);
	} else if (store_file_used(s, id)) {
		openai_refuse(e, "id", "file_in_use", "a batch that has not ended needs this file; cancel it first");
		e->status = 409;
	} else {
		store_path(s, json, "files", id, ".json");
		store_path(s, data, "files", id, ".data");
		ok = unlink(json) == 0 || errno == ENOENT;
		if (ok) {
			store_folder_sync(s, "files");
			unlink(data);
			list_remove(s, f);
		} else {
			store_failed(&(struct cohort_err){.status = COHORT_E_IO}, e);
		}
	}
	lock_give(&s->lock);
	return ok;
}

json_t *store_file_json(const struct store_file *f)
{
	return json_pack("{s:s, s:s, s:I, s:I, s:n, s:s, s:s, s:s, s:n}", "id", f->id, "object", "file", "bytes",
			(json_int_t)f->n_bytes, "created_at", (json_int_t)f->created, "expires_at", "filename",
			f->filename, "purpose", f->purpose, "status", "processed", "status_details");
}

void store_pager_begin(struct store_pager *g, const struct store_page *page)
{
	*g = (struct store_pager){.page = page, .data = json_array(), .begun = !page->after};
	g->ok = g->data != NULL;
}

size_t store_pager_index(const struct store_pager *g, size_t k, size_t n)
{
	return g->page->oldest_first ? k : n - 1 - k;
}

bool store_pager_takes(struct store_pager *g, const char *id, bool belongs)
{
	if (!g->begun) {
		g->begun = strcmp(id, g->page->after) == 0;
		return false;
	}
	if (belongs)
		g->more = json_array_size(g->data) == g->page->limit;
	return belongs && !g->more;
}

json_t *store_pager_end(struct store_pager *g, struct openai_error *e)
{
	const size_t n = json_array_size(g->data);
	json_t *first = n ? json_object_get(json_array_get(g->data, 0), "id") : NULL;
	json_t *last = n ? json_object_get(json_array_get(g->data, n - 1), "id") : NULL;
	json_t *page = !g->ok ? NULL
			      : json_pack("{s:s, s:O, s:O?, s:O?, s:b}", "object", "list", "data", g->data, "first_id",
						first, "last_id", last, "has_more", (int)g->more);

	json_decref(g->data);
	if (!page)
		openai_no_memory(e);
	return page;
}

json_t *store_file_list(struct store *s, const char *owner, const struct store_page *page, struct openai_error *e)
{
	struct store_pager g;

	lock_take(&s->lock);
	if (page->after && !store_file_find(s, owner, page->after)) {
		lock_give(&s->lock);
		openai_refuse(e, "after", NULL, "after is no file that is there");
		return NULL;
	}
	store_pager_begin(&g, page);
	for (size_t k = 0; k < s->n_files && g.ok && !g.more; k++) {
		const struct store_file *f = s->files[store_pager_index(&g, k, s->n_files)];
		const bool asked = !page->purpose || strcmp(f->purpose, page->purpose) == 0;
		if (store_pager_takes(&g, f->id, asked && strcmp(f->owner, owner) == 0))
			g.ok = json_array_append_new(g.data, store_file_json(f)) == 0;
	}
	lock_give(&s->lock);
	return store_pager_end(&g, e);
}
