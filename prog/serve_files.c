/* /v1/files: uploads, lists, contents.
 *
 * Invariants
 *  1. An upload goes to the disk as it comes; in memory are a piece of it and its fields.
 *  2. A call that ends before its answer, whatever the reason, leaves nothing of its upload.
 * It does not know what files are for, nor how they are kept. */
#include "serve_batches.h"
#include "serve_form.h"

#include "base/mem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { FORM_ROOM = 256 << 10, FILES_PAGE = 10000 }; /* FORM_ROOM: of a form, beside its file */

struct upload {
	struct call *call;
	struct form form;
	struct store_put put;
	enum { FIELD_OTHER, FIELD_PURPOSE, FIELD_FILE } field;
	char filename[FORM_FILENAME_MAX], purpose[24];
	size_t n_purpose;
	bool has_purpose, has_file;
};

/* ---- What all routes here need ---- */

struct store *call_store(const struct call *c, struct openai_error *e)
{
	if (c->srv->batches)
		return &c->srv->batches->store;
	openai_refuse(e, NULL, "not_enabled",
			"this server was started without -data DIR, which files and batches need");
	e->status = 501;
	return NULL;
}

bool call_page(const struct call *c, size_t limit, size_t limit_max, struct store_page *page, struct openai_error *e)
{
	const char *text = call_query(c, "limit"), *order = call_query(c, "order");
	char *end = NULL;

	*page = (struct store_page){.after = call_query(c, "after"), .limit = limit};
	if (page->after && !*page->after)
		page->after = NULL;
	if (text && *text) {
		const unsigned long n = *text >= '0' && *text <= '9' ? strtoul(text, &end, 10) : 0;
		if (n < 1 || n > limit_max || *end)
			return openai_refuse(
					e, "limit", NULL, "limit is to be a whole number from 1 to %zu", limit_max);
		page->limit = (size_t)n;
	}
	if (order && strcmp(order, "asc") != 0 && strcmp(order, "desc") != 0)
		return openai_refuse(e, "order", NULL, "order is asc or desc");
	page->oldest_first = order && strcmp(order, "asc") == 0;
	return true;
}

/* ---- Uploads ---- */

static void drop(struct call *c)
{
	struct upload *u = c->work;

	store_put_abort(&u->put);
	mem_free(u);
	c->work = NULL;
}

/* Without folders: some clients send them. */
static const char *base_name(const char *name)
{
	for (const char *p = name; *p; p++)
		if (*p == '/' || *p == '\\')
			name = p + 1;
	return name;
}

static bool on_part(void *user, const char *name, const char *filename)
{
	struct upload *u = user;
	struct openai_error *e = &u->call->early;
	char owner[SHA256_HEX];

	u->field = FIELD_OTHER;
	if (strcmp(name, "purpose") == 0) {
		if (u->has_purpose)
			return openai_refuse(e, "purpose", NULL, "purpose came twice");
		u->has_purpose = true;
		u->field = FIELD_PURPOSE;
	} else if (strcmp(name, "file") == 0) {
		if (u->has_file)
			return openai_refuse(e, "file", NULL, "file came twice; upload one at a time");
		if (!filename || !*base_name(filename))
			return openai_refuse(e, "file", NULL, "file has no filename, so it is no file");
		u->has_file = true;
		u->field = FIELD_FILE;
		memcpy(u->filename, base_name(filename), strlen(base_name(filename)) + 1);
		call_owner(u->call, owner);
		return store_put_open(&u->put, &u->call->srv->batches->store, owner, NULL, e);
	}
	return true;
}

static bool on_data(void *user, const char *bytes, size_t n)
{
	struct upload *u = user;
	struct openai_error *e = &u->call->early;

	if (u->field == FIELD_FILE)
		return store_put_write(&u->put, bytes, n, e);
	if (u->field == FIELD_PURPOSE) {
		if (n >= sizeof u->purpose - u->n_purpose)
			return openai_refuse(e, "purpose", NULL, "purpose is too long to be one");
		memcpy(u->purpose + u->n_purpose, bytes, n);
		u->n_purpose += n;
	}
	return true;
}

static void sink(struct call *c, const char *bytes, size_t n)
{
	struct upload *u = c->work;

	if (!form_push(&u->form, bytes, n)) {
		if (!c->early.status)
			openai_refuse(&c->early, NULL, "invalid_form", "%s", u->form.why);
		store_put_abort(&u->put);
	}
}

static void begin(struct call *c)
{
	struct store *s = call_store(c, &c->early);
	struct upload *u = s ? mem_zalloc(1, sizeof *u) : NULL;

	if (!s)
		return;
	if (!u) {
		openai_no_memory(&c->early);
		return;
	}
	c->work = u;
	c->drop = drop;
	c->sink = sink;
	c->body_max = (uint64_t)s->limits.file_bytes + FORM_ROOM;
	u->call = c;
	u->form.on_part = on_part;
	u->form.on_data = on_data;
	u->form.user = u;
	if (!form_init(&u->form, call_header(c, "Content-Type")))
		openai_refuse(&c->early, NULL, "invalid_form", "%s", u->form.why);
}

static bool check_purpose(struct upload *u, struct openai_error *e)
{
	static const char *const known[] = {"assistants", "batch", "evals", "fine-tune", "user_data", "vision"};

	u->purpose[u->n_purpose] = 0;
	if (!u->has_purpose)
		return openai_refuse(e, "purpose", NULL, "purpose is missing: batch, for files of requests");
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (strcmp(u->purpose, known[i]) == 0 && u->n_purpose == strlen(known[i]))
			return true;
	return openai_refuse(e, "purpose", NULL,
			"purpose is none of assistants, batch, evals, fine-tune, user_data and vision");
}

enum step run_file_upload(struct call *c)
{
	struct upload *u = c->work;
	struct openai_error e = {0};
	struct store_file f;

	if (!c->complete) {
		begin(c);
		return STEP_WAIT;
	}
	if (!form_end(&u->form))
		openai_refuse(&e, NULL, "invalid_form", "%s", u->form.why);
	else if (!u->has_file)
		openai_refuse(&e, "file", NULL, "file is missing");
	if (e.status || !check_purpose(u, &e) || !store_put_commit(&u->put, u->filename, u->purpose, &f, &e))
		return answer_error(c, &e);
	return answer_json(c, 200, store_file_json(&f));
}

/* ---- The others ---- */

static enum step not_there(struct call *c, struct openai_error *e)
{
	if (!e->status) {
		openai_refuse(e, "id", "not_found", "there is no file %.60s", c->arg);
		e->status = 404;
	}
	return answer_error(c, e);
}

enum step run_file_list(struct call *c)
{
	struct openai_error e = {0};
	struct store *s = call_store(c, &e);
	struct store_page page;
	char owner[SHA256_HEX];

	if (!s || !call_page(c, FILES_PAGE, FILES_PAGE, &page, &e))
		return answer_error(c, &e);
	page.purpose = call_query(c, "purpose");
	call_owner(c, owner);
	json_t *list = store_file_list(s, owner, &page, &e);
	return list ? answer_json(c, 200, list) : answer_error(c, &e);
}

enum step run_file_get(struct call *c)
{
	struct openai_error e = {0};
	struct store *s = call_store(c, &e);
	struct store_file f;
	char owner[SHA256_HEX];

	call_owner(c, owner);
	return s && store_file_get(s, owner, c->arg, &f) ? answer_json(c, 200, store_file_json(&f)) : not_there(c, &e);
}

enum step run_file_remove(struct call *c)
{
	struct openai_error e = {0};
	struct store *s = call_store(c, &e);
	char owner[SHA256_HEX];

	call_owner(c, owner);
	if (!s || !store_file_remove(s, owner, c->arg, &e))
		return answer_error(c, &e);
	return answer_json(c, 200, json_pack("{s:s, s:s, s:b}", "id", c->arg, "object", "file", "deleted", 1));
}

enum step run_file_content(struct call *c)
{
	struct openai_error e = {0};
	struct store *s = call_store(c, &e);
	struct store_file f;
	char owner[SHA256_HEX];

	call_owner(c, owner);
	const int fd = s ? store_file_open(s, owner, c->arg, &f) : -1;
	if (s && fd < 0 && errno != ENOENT) {
		openai_refuse(&e, NULL, "storage_failed", "the server cannot open the file at the moment");
		e.status = 500;
		e.type = "server_error";
	}
	return fd >= 0 ? answer_file(c, "application/octet-stream", fd, f.n_bytes) : not_there(c, &e);
}
