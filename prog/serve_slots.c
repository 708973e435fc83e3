/* What a slot has computed, saved to a file, brought back, forgotten: POST /slots/ID?action=save|restore|erase, as
 * llama-server has it.
 *
 * Invariants
 *  1. A file's name is a name: letters, digits, dot, dash and underscore, not a dot first. It cannot leave the folder
 *     that the server was given.
 *  2. Nobody saves or forgets what a request with another key or another cache_salt left, nor uses what was restored
 *     with another: cached prompts are kept apart by both. Nor are files shared: a name is the key's and the salt's.
 *  3. Files are read and written by a worker; the engine's thread only copies cells.
 *  4. An action waits in its worker for the engine, up to a few ticks. So there is one at a time, and a pause behind
 *     it: others sleep until it is their turn, and workers have time for other requests.
 *  5. The files of the folder have no more than slot_bytes together, whoever's they are: a salt costs a client nothing,
 *     so that what each may have would be no bound. */
#include "serve_work.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/pool.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAME_MAX_BYTES = 128 };
#define PAUSE_S 0.02

static enum step refuse(struct call *c, json_t *body, struct openai_error *e, int status)
{
	if (status)
		e->status = status;
	json_decref(body);
	return answer_error(c, e);
}

static enum step engine_refused(struct call *c, const struct cohort_err *err)
{
	struct openai_error e = {0};

	/* A client is not told where files lie; who runs the server is. */
	if (err->status == COHORT_E_IO) {
		log_add(&c->srv->log, "a slot: %s", err->text);
		openai_refuse(&e, NULL, "storage_failed", "the server cannot read or write the file");
	} else {
		openai_refuse(&e, NULL, NULL, "%s", err->text);
	}
	if (err->status == COHORT_E_IO || err->status == COHORT_NO_ROOM || err->status == COHORT_E_MEMORY) {
		e.status = err->status == COHORT_E_IO ? 500 : 503;
		e.type = "server_error";
	}
	return answer_error(c, &e);
}

/* The path of the file that the body names; NULL: refused. A key's files begin with its hash and an @, which no name
 * has, those of a salt with the hash of both. The salt was read, so that it is known to be short. */
static char *read_path(const struct call *c, const json_t *body, struct openai_error *e)
{
	const json_t *v = json_object_get(body, "filename");
	const char *name = json_string_value(v);
	const json_t *salt = json_object_get(body, "cache_salt");
	const size_t n = json_string_length(v), n_salt = json_string_length(salt);
	char owner[SHA256_HEX], both[SHA256_HEX + WORK_TEXT_MAX];
	size_t k = 0;

	while (name && k < n &&
			((name[k] >= 'a' && name[k] <= 'z') || (name[k] >= 'A' && name[k] <= 'Z') ||
					(name[k] >= '0' && name[k] <= '9') || name[k] == '-' || name[k] == '_' ||
					(name[k] == '.' && k > 0)))
		k++;
	if (!name || n == 0 || n > NAME_MAX_BYTES || k < n) {
		openai_refuse(e, "filename", NULL,
				"filename must be 1 to %d letters, digits, dots, dashes or underscores, not a dot "
				"first",
				NAME_MAX_BYTES);
		return NULL;
	}
	call_owner(c, owner);
	if (json_is_string(salt)) {
		const size_t n_owner = (size_t)snprintf(both, sizeof both, "%s@", owner);
		memcpy(both + n_owner, json_string_value(salt), n_salt);
		sha256_hex(both, n_owner + n_salt, owner);
	}
	const size_t room = strlen(c->srv->slot_path) + strlen(owner) + n + 3;
	char *path = mem_alloc(room, 1);
	if (path)
		snprintf(path, room, "%s/%s%s%s", c->srv->slot_path, owner, *owner ? "@" : "", name);
	else
		openai_no_memory(e);
	return path;
}

/* The slot's tokens and the rest of their key; false: refused. salt: the client's. */
static bool read_key(struct call *c, cohort_seq slot, uint64_t salt, cohort_token **tokens,
		struct cohort_cache_key *key, struct openai_error *e)
{
	/* No sequence is longer; the cache may hold more than its n_ctx, as it consists of whole blocks. */
	const size_t n_max = (size_t)c->srv->host.info.n_ctx_train;
	struct cohort_err err;

	*tokens = mem_alloc(n_max, sizeof **tokens);
	if (!*tokens)
		return openai_no_memory(e);
	if (cohort_engine_slot_tokens(c->srv->engine, slot, *tokens, n_max, key, &err))
		return err.status == COHORT_E_MEMORY ? openai_no_memory(e)
						     : openai_refuse(e, NULL, NULL, "%s", err.text);
	if (!(c->key && c->key->admin) && key->n_tokens > 0 && key->salt != salt) {
		openai_refuse(e, NULL, "forbidden", "what slot %d holds is another client's, or another cache_salt's",
				(int)slot);
		e->status = 403;
		e->type = "permission_error";
		return false;
	}
	return true;
}

/* Whether the folder may have a file of n bytes at this path, where one may be already. */
static bool fits(const struct call *c, const char *path, size_t n)
{
	const char *own = path + strlen(c->srv->slot_path) + 1;
	int64_t sum = 0;
	const struct dirent *f;
	struct stat st;
	DIR *d = opendir(c->srv->slot_path);

	while (d && (f = readdir(d)))
		if (strcmp(f->d_name, own) != 0 && fstatat(dirfd(d), f->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
				S_ISREG(st.st_mode))
			sum += st.st_size;
	if (d)
		closedir(d);
	return sum <= c->srv->slot_bytes && n <= (size_t)(c->srv->slot_bytes - sum);
}

static double ms_since(double from)
{
	return 1000 * (clock_now() - from);
}

static enum step save(struct call *c, cohort_seq slot, uint64_t salt, const char *path, const char *name)
{
	const double started = clock_now();
	struct openai_error e = {0};
	struct cohort_cache_key key = {0};
	struct cohort_err err;
	cohort_token *tokens = NULL;
	void *bytes = NULL;
	size_t n_bytes = 0;
	int32_t n_saved = 0;
	enum cohort_status st = COHORT_OK;

	if (!read_key(c, slot, salt, &tokens, &key, &e)) {
		mem_free(tokens);
		return answer_error(c, &e);
	}
	if (key.n_tokens > 0)
		st = cohort_engine_cache_save(c->srv->engine, &key, &bytes, &n_bytes, &n_saved, &err);
	mem_free(tokens);
	if (!st && n_saved == 0) {
		openai_refuse(&e, NULL, NULL, "there is nothing of slot %d in the cache", (int)slot);
		return answer_error(c, &e);
	}
	if (!st && !fits(c, path, n_bytes)) {
		openai_refuse(&e, NULL, "no_space",
				"saved slots may have %lld MiB together: there is no room for %zu bytes more",
				(long long)(c->srv->slot_bytes >> 20), n_bytes);
		e.status = 507;
		e.type = "server_error";
		cohort_cache_free(bytes);
		return answer_error(c, &e);
	}
	if (!st)
		st = file_write_atomic(path, bytes, n_bytes, &err);
	cohort_cache_free(bytes);
	if (st)
		return engine_refused(c, &err);
	return answer_json(c, 200,
			json_pack("{s:i, s:s, s:i, s:I, s:{s:f}}", "id_slot", (int)slot, "filename", name, "n_saved",
					(int)n_saved, "n_written", (json_int_t)n_bytes, "timings", "save_ms",
					ms_since(started)));
}

static enum step restore(struct call *c, cohort_seq slot, uint64_t salt, const char *path, const char *name)
{
	const double started = clock_now();
	struct cohort_cache_key key = {.salt = salt};
	struct cohort_err err;
	uint8_t *bytes = NULL;
	size_t n_bytes = 0;
	int32_t n_tokens = 0;
	enum cohort_status st = file_load(path, SIZE_MAX / 4, &bytes, &n_bytes, &err);

	if (st && access(path, F_OK) != 0) {
		struct openai_error e = {0};
		openai_refuse(&e, "filename", "not_found", "there is no file %s", name);
		e.status = 404;
		return answer_error(c, &e);
	}
	if (!st)
		st = cohort_engine_cache_load(c->srv->engine, &key, bytes, n_bytes, &n_tokens, &err);
	mem_free(bytes);
	if (st)
		return engine_refused(c, &err);
	return answer_json(c, 200,
			json_pack("{s:i, s:s, s:i, s:I, s:{s:f}}", "id_slot", (int)slot, "filename", name, "n_restored",
					(int)n_tokens, "n_read", (json_int_t)n_bytes, "timings", "restore_ms",
					ms_since(started)));
}

static enum step erase(struct call *c, cohort_seq slot, uint64_t salt)
{
	struct openai_error e = {0};
	struct cohort_cache_key key = {0};
	struct cohort_err err;
	cohort_token *tokens = NULL;
	int32_t n = 0;
	const bool ok = read_key(c, slot, salt, &tokens, &key, &e);
	const enum cohort_status st =
			ok && key.n_tokens > 0 ? cohort_engine_cache_drop(c->srv->engine, &key, &n, &err) : COHORT_OK;

	mem_free(tokens);
	if (!ok)
		return answer_error(c, &e);
	return st ? engine_refused(c, &err)
		  : answer_json(c, 200, json_pack("{s:i, s:i}", "id_slot", (int)slot, "n_erased", (int)n));
}

static bool take_turn(struct server *srv)
{
	if (atomic_exchange(&srv->slot_taken, true))
		return false;
	const bool soon = clock_now() - srv->slot_left < PAUSE_S;
	if (soon)
		atomic_store(&srv->slot_taken, false);
	return !soon;
}

static void give_turn(struct server *srv)
{
	srv->slot_left = clock_now();
	atomic_store(&srv->slot_taken, false);
}

/* The worker that returns the call wakes its connection at once, so the pause is kept here. */
static enum step again(struct call *c)
{
	return clock_now() < c->wake_at ? STEP_WAIT : call_prepare(c, false, run_slot_action);
}

enum step run_slot_action(struct call *c)
{
	const char *action = call_query(c, "action");
	const bool saves = action && strcmp(action, "save") == 0, restores = action && strcmp(action, "restore") == 0;
	struct openai_error e = {0};
	char *end;
	const long slot = strtol(c->arg, &end, 10);

	if (!c->srv->slot_path) {
		openai_refuse(&e, NULL, "not_supported",
				"this server was started without -slot-save-path, which this needs");
		return refuse(c, NULL, &e, 501);
	}
	if (*end || c->arg[0] < '0' || c->arg[0] > '9' || slot >= c->srv->engine_params.n_slots) {
		openai_refuse(&e, NULL, NULL, "there is no slot %.20s; they are 0 to %d", c->arg,
				c->srv->engine_params.n_slots - 1);
		return refuse(c, NULL, &e, 404);
	}
	const bool erases = !saves && !restores && action && strcmp(action, "erase") == 0;
	if (!saves && !restores && !erases) {
		openai_refuse(&e, "action", NULL, "action must be save, restore or erase");
		return refuse(c, NULL, &e, 0);
	}
	if (!take_turn(c->srv)) {
		c->step = again;
		c->wake_at = clock_now() + PAUSE_S;
		return refuse_draining(c->srv, &e) ? answer_error(c, &e) : STEP_WAIT;
	}
	uint64_t salt = call_salt(c);
	json_t *body = call_json(c, erases, &e);
	const bool ok = body && work_read_text(c->srv, body, "cache_salt", salt, &salt, &e);
	char *path = ok && !erases ? read_path(c, body, &e) : NULL;
	if (!ok || (!erases && !path)) {
		give_turn(c->srv);
		return refuse(c, body, &e, 0);
	}
	const char *name = json_string_value(json_object_get(body, "filename"));
	const enum step s = saves  ? save(c, (cohort_seq)slot, salt, path, name)
			: restores ? restore(c, (cohort_seq)slot, salt, path, name)
				   : erase(c, (cohort_seq)slot, salt);
	give_turn(c->srv);
	mem_free(path);
	json_decref(body);
	return s;
}
