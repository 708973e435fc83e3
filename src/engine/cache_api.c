/* The public calls for cached prompts and slots: what they are given is checked by the caller's thread, what they do is
 * an errand of the thread that ticks.
 *
 * Refuses to know: how an errand gets there (engine.c), and what it does (cache.c). */
#include "engine/cache.h"

#include "base/mem.h"
#include "base/sum.h"

#include <math.h>

/* One call, with whatever of this it takes. */
struct call {
	struct cohort_cache_key key;
	void *bytes;
	size_t n_bytes;
	struct cache_part part;
	cohort_seq slot;
	cohort_token *tokens;
	size_t n_max;
	int32_t n;
	enum cohort_status st;
	struct cohort_err err;
};

static enum cohort_status check(const struct cohort_engine *e, const struct cohort_cache_key *key, bool by_tokens,
		struct cohort_err *err)
{
	if (!e || !key)
		return err_set(err, COHORT_E_ARG, "%s is NULL", e ? "key" : "engine");
	if (!engine_core(e)->prefix)
		return err_set(err, COHORT_E_UNSUPPORTED, "the engine keeps no prompts");
	if (by_tokens && err_range(err, "n_tokens", key->n_tokens, 0, INT32_MAX))
		return COHORT_E_ARG;
	if (by_tokens && key->n_tokens > 0 && !key->tokens)
		return err_set(err, COHORT_E_ARG, "tokens of the key is NULL");
	return key->adapter ? err_real(err, "adapter_scale", (double)key->adapter_scale, -1e6, 1e6) : COHORT_OK;
}

static enum cohort_status check_plain(const struct cohort_cache_key *key, struct cohort_err *err)
{
	return key->adapter ? err_set(err, COHORT_E_UNSUPPORTED, "prompts that went through an adapter cannot be saved")
			    : COHORT_OK;
}

/* Runs it and says how it went. */
static enum cohort_status run(struct cohort_engine *e, void (*fn)(struct core *c, void *arg), struct call *call,
		struct cohort_err *err)
{
	const enum cohort_status st = engine_run(e, fn, call, err);

	if (!st && call->st && err)
		*err = call->err;
	return st ? st : call->st;
}

static void do_save(struct core *c, void *arg)
{
	struct call *a = arg;
	a->st = cache_save(c, &a->key, &a->bytes, &a->n_bytes, &a->n, &a->err);
}

enum cohort_status cohort_engine_cache_save(struct cohort_engine *e, const struct cohort_cache_key *key, void **bytes,
		size_t *n_bytes, int32_t *n_saved, struct cohort_err *err)
{
	enum cohort_status st = check(e, key, true, err);

	if (!st)
		st = check_plain(key, err);
	if (!st && (!bytes || !n_bytes || !n_saved))
		st = err_set(err, COHORT_E_ARG, "%s is NULL", !bytes ? "bytes" : !n_bytes ? "n_bytes" : "n_saved");
	if (st)
		return st;
	struct call call = {.key = *key};
	st = run(e, do_save, &call, err);
	if (st)
		return st;
	*bytes = call.bytes;
	*n_bytes = call.n_bytes;
	*n_saved = call.n;
	return COHORT_OK;
}

void cohort_cache_free(void *bytes)
{
	mem_free(bytes);
}

static void do_load(struct core *c, void *arg)
{
	struct call *a = arg;
	a->st = cache_load(c, &a->key, &a->part, &a->n, &a->err);
}

enum cohort_status cohort_engine_cache_load(struct cohort_engine *e, const struct cohort_cache_key *key,
		const void *bytes, size_t n_bytes, int32_t *n_tokens, struct cohort_err *err)
{
	enum cohort_status st = check(e, key, false, err);

	if (!st)
		st = check_plain(key, err);
	if (!st && (!bytes || !n_tokens))
		st = err_set(err, COHORT_E_ARG, "%s is NULL", bytes ? "n_tokens" : "bytes");
	if (st)
		return st;
	struct call call = {.key = *key};
	st = cache_read(engine_core(e), bytes, n_bytes, &call.part, err);
	if (st)
		return st;
	cohort_token *tokens = mem_alloc((size_t)call.part.n_tokens, sizeof *tokens);
	if (!tokens)
		return err_set(err, COHORT_E_MEMORY, "out of memory for %d tokens", call.part.n_tokens);
	for (int32_t i = 0; i < call.part.n_tokens; i++)
		tokens[i] = (cohort_token)load_u32(call.part.tokens + 4 * (size_t)i);
	call.key.tokens = tokens;
	call.key.n_tokens = call.part.n_tokens;
	st = run(e, do_load, &call, err);
	mem_free(tokens);
	if (!st)
		*n_tokens = call.n;
	return st;
}

static void do_drop(struct core *c, void *arg)
{
	struct call *a = arg;
	a->n = cache_drop(c, &a->key);
}

enum cohort_status cohort_engine_cache_drop(
		struct cohort_engine *e, const struct cohort_cache_key *key, int32_t *n_tokens, struct cohort_err *err)
{
	enum cohort_status st = check(e, key, true, err);

	if (st)
		return st;
	struct call call = {.key = *key};
	st = run(e, do_drop, &call, err);
	if (!st && n_tokens)
		*n_tokens = call.n;
	return st;
}

static void do_slot(struct core *c, void *arg)
{
	struct call *a = arg;
	a->st = cache_slot(c, a->slot, a->tokens, a->n_max, &a->key, &a->err);
}

enum cohort_status cohort_engine_slot_tokens(struct cohort_engine *e, cohort_seq slot, cohort_token *tokens,
		size_t n_max, struct cohort_cache_key *key, struct cohort_err *err)
{
	if (!e || !key || (n_max && !tokens))
		return err_set(err, COHORT_E_ARG, "%s is NULL", !e ? "engine" : !key ? "key" : "tokens");
	const int32_t n_slots = engine_core(e)->lim.n_slots;
	if (slot < 0 || slot >= n_slots)
		return err_rule(err, COHORT_E_ARG, "slot", -1, slot, n_slots, slot, "slot %d is not in 0 to %d", slot,
				n_slots - 1);
	struct call call = {.slot = slot, .tokens = tokens, .n_max = n_max};
	const enum cohort_status st = run(e, do_slot, &call, err);
	if (!st)
		*key = call.key;
	return st;
}
