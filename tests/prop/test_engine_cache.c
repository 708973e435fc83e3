/* Cached prompts in and out of an engine: what was saved and loaded is reused, and what is said then is the same as
 * without; what cannot be loaded changes nothing; slots know what was computed in them. For ThreadSanitizer, too.
 *
 * Shown red by planted faults: a loaded block with the cells of the one before it (there_and_back), a tail that is
 * loaded without its session, or under another salt (cache_key_is_needed_to_find_a_prompt), a header, tokens or a
 * state's sum that is not compared (damaged_saved_prompts_are_refused), a sequence with gaps, or of another length,
 * that is taken (other_cells), no look at what is in use before evicting (loaded_prompt_makes_room_or_does_nothing),
 * blocks that are not taken back when a copy fails, or stay pinned (failing_copies), a scratch that keeps what was
 * saved (every test that counts blocks), a block evicted that is in use, or that another follows
 * (cache_drop_back_to_another_prompt), an errand done while rows are computed (under ThreadSanitizer:
 * beside_requests). */
#include "cache_case.h"
#include "engine_said.h"

#include "base/mem.h"
#include "engine/cache.h"
#include "engine/machine.h"
#include "engine_books.h"

enum { BLOCK = 32, TOKENS_MAX = 1024 };

struct bytes {
	uint8_t *p;
	size_t n;
	int32_t n_tokens;
};

static struct cohort_engine *open_small(int32_t n_ctx)
{
	struct cohort_engine_params ep;

	rig_params(&ep);
	ep.context.n_ctx = n_ctx;
	ep.context.n_blocks = pool_blocks(ep.context.n_ctx, 0);
	ep.keep_tokens = true;
	return rig_engine(&ep);
}

static struct cohort_cache_key key_of(const struct job *j, int32_t n_tokens)
{
	return (struct cohort_cache_key){
			.tokens = j->prompt, .n_tokens = n_tokens, .salt = j->p.salt, .session = j->p.session};
}

static struct bytes save(struct cohort_engine *e, const struct cohort_cache_key *key)
{
	struct bytes b = {.n_tokens = -1};
	struct cohort_err err;
	void *p;

	if (cohort_engine_cache_save(e, key, &p, &b.n, &b.n_tokens, &err))
		fail_msg("%s", err.text);
	b.p = p;
	assert_true(!b.p == !b.n_tokens && !b.p == !b.n);
	return b;
}

static int32_t load(struct cohort_engine *e, const struct cohort_cache_key *key, const struct bytes *b)
{
	struct cohort_err err;
	int32_t n = -1;

	if (cohort_engine_cache_load(e, key, b->p, b->n, &n, &err))
		fail_msg("%s", err.text);
	return n;
}

/* The key of slot `slot`. */
static struct cohort_cache_key slot_key(struct cohort_engine *e, cohort_seq slot, cohort_token *tokens)
{
	struct cohort_cache_key key;
	struct cohort_err err;

	if (cohort_engine_slot_tokens(e, slot, tokens, TOKENS_MAX, &key, &err))
		fail_msg("%s", err.text);
	return key;
}

static int32_t n_blocks_cached(struct cohort_engine *e)
{
	return rig_stats(e).last.n_blocks_cached;
}

/* The id that the sequence had when it was saved is the engine's business; so are sums that it is part of. */
static void forget_id(const struct bytes *b)
{
	const size_t n_front = cache_front((uint32_t)b->n_tokens);

	state_put(b->p + CACHE_AT_STATE_SUM, 8, 0);
	state_put(b->p + n_front - 8, 8, 0);
	state_put(b->p + n_front + STATE_AT_GROUPS + STATE_GROUP, 4, 0);
	state_put(b->p + b->n - 8, 8, 0);
}

/* ---- What works ---- */

/* From one engine to another, by the slot it was computed in. */
static void there_and_back(void **state)
{
	struct cohort_engine *a = open_small(512), *b = open_small(256);
	cohort_token tokens[TOKENS_MAX];
	static struct job j, next;

	(void)state;
	for (int session = 0; session < 2; session++) {
		rig_job(&j, 4, 100, 25);
		j.p.n_logprobs = 0;
		j.p.session = session ? 7 : 0;
		rig_reused(a, &j);
		struct cohort_cache_key key = slot_key(a, 0, tokens);
		assert_int_equal(key.n_tokens, 125);
		assert_int_equal(key.session, j.p.session);
		assert_memory_equal(tokens, j.prompt, 100 * sizeof *tokens);
		struct bytes saved = save(a, &key);
		/* The last token has no cell. */
		assert_int_equal(saved.n_tokens, session ? 124 : 96);
		key.session = session ? 9 : 0;
		cohort_engine_cache_clear(b);
		rig_tick(b);
		assert_int_equal(load(b, &key, &saved), saved.n_tokens);
		assert_int_equal(n_blocks_cached(b), 3 + session);

		/* It goes on from where that ended. */
		next = j;
		memcpy(next.prompt, tokens, 125 * sizeof *tokens);
		next.prompt[125] = 9;
		next.p.prompt = next.prompt;
		next.p.n_prompt = 126;
		next.p.session = key.session;
		assert_int_equal(rig_reused(b, &next), saved.n_tokens);
		/* Once more: what is there stays, and what comes out is the same. */
		key.n_tokens = saved.n_tokens;
		next.p.session = 0;
		const int32_t n_cached = n_blocks_cached(b);
		assert_int_equal(load(b, &key, &saved), saved.n_tokens);
		assert_int_equal(n_blocks_cached(b), n_cached);
		struct bytes again = save(b, &key);
		assert_int_equal(again.n, saved.n);
		forget_id(&again);
		struct bytes same = {mem_dup(saved.p, saved.n), saved.n, saved.n_tokens};
		forget_id(&same);
		assert_memory_equal(again.p, same.p, saved.n);
		mem_free(same.p);
		assert_int_equal(rig_reused(b, &next), 96);
		cohort_cache_free(again.p);
		cohort_cache_free(saved.p);
		rig_check_empty(b, 4);
	}
	cohort_engine_free(a);
	cohort_engine_free(b);
}

/* Only who has the key finds it. */
static void cache_key_is_needed_to_find_a_prompt(void **state)
{
	struct cohort_engine *a = open_small(512), *b = open_small(512);
	static struct job j;

	(void)state;
	rig_job(&j, 4, 110, 2);
	j.p.session = 3;
	j.p.salt = 5;
	rig_reused(a, &j);
	struct cohort_cache_key key = key_of(&j, 110);
	struct bytes saved = save(a, &key);
	assert_int_equal(saved.n_tokens, 110);
	/* Other keys have nothing, or less. */
	key.salt = 6;
	assert_int_equal(save(a, &key).n_tokens, 0);
	key.salt = 5;
	key.session = 4;
	struct bytes blocks = save(a, &key);
	assert_int_equal(blocks.n_tokens, 96);
	cohort_cache_free(blocks.p);
	key.n_tokens = 31;
	assert_int_equal(save(a, &key).n_tokens, 0);
	key.n_tokens = 0;
	key.tokens = NULL;
	assert_int_equal(save(a, &key).n_tokens, 0);

	/* Tokens of the key do not count, session and salt do. */
	key.session = 0;
	assert_int_equal(load(b, &key, &saved), 96);
	key.session = 8;
	key.salt = 1;
	assert_int_equal(load(b, &key, &saved), 110);
	assert_int_equal(n_blocks_cached(b), 3 + 4);
	j.prompt[110] = 8;
	j.p.n_prompt = 111;
	j.p.session = 8;
	j.p.salt = 2;
	assert_int_equal(rig_reused(b, &j), 0);
	j.p.salt = 5;
	assert_int_equal(rig_reused(b, &j), 96);
	j.p.salt = 1;
	assert_int_equal(rig_reused(b, &j), 110);
	cohort_cache_free(saved.p);
	cohort_engine_free(a);
	cohort_engine_free(b);
}

/* What a slot has while it runs, and afterwards; what runs can be saved, and not dropped. */
static void while_it_runs(void **state)
{
	struct cohort_engine *e = open_small(512);
	cohort_token tokens[TOKENS_MAX];
	struct cohort_cache_key key;
	struct cohort_err err;
	static struct job j;
	int32_t n = -1;

	(void)state;
	for (cohort_seq s = 0; s < 4; s++)
		assert_int_equal(slot_key(e, s, tokens).n_tokens, 0);
	rig_job(&j, 4, 70, 20);
	struct cohort_request *r = rig_submit(e, &j);
	for (int i = 0; i < 5; i++)
		rig_tick(e);
	key = slot_key(e, 0, tokens);
	assert_int_equal(key.n_tokens, 73);
	struct bytes saved = save(e, &key);
	assert_int_equal(saved.n_tokens, 64);
	assert_int_equal(cohort_engine_cache_drop(e, &key, &n, NULL), COHORT_OK);
	assert_int_equal(n, 0);
	assert_int_equal(cohort_engine_slot_tokens(e, 0, tokens, 72, &key, &err), COHORT_E_LIMIT);
	assert_int_equal(err.got, 73);
	rig_run(e);
	rig_check(r, &j);
	cohort_request_free(r);
	key = slot_key(e, 0, tokens);
	assert_int_equal(key.n_tokens, 90);
	assert_memory_equal(tokens, j.prompt, 70 * sizeof *tokens);
	assert_int_equal(cohort_engine_cache_drop(e, &key, &n, NULL), COHORT_OK);
	assert_int_equal(n, 64);
	assert_int_equal(n_blocks_cached(e), 0);
	assert_int_equal(load(e, &key, &saved), 64);
	assert_int_equal(rig_reused(e, &j), 64);
	cohort_cache_free(saved.p);
	assert_int_equal(cohort_engine_slot_tokens(e, 4, tokens, TOKENS_MAX, &key, &err), COHORT_E_ARG);
	assert_int_equal(cohort_engine_slot_tokens(e, -1, tokens, TOKENS_MAX, &key, &err), COHORT_E_ARG);
	cohort_engine_free(e);
}

/* Back to where another prompt goes on, and its session's own. */
static void cache_drop_back_to_another_prompt(void **state)
{
	struct cohort_engine *e = open_small(512);
	static struct job j, other;
	int32_t n = -1;

	(void)state;
	rig_job(&j, 4, 130, 2);
	j.p.session = 3;
	rig_reused(e, &j);
	other = j;
	other.p.prompt = other.prompt;
	other.p.session = 0;
	other.prompt[70] = other.prompt[70] == 5 ? 6 : 5;
	assert_int_equal(rig_reused(e, &other), 64);
	assert_int_equal(n_blocks_cached(e), 4 + 1 + 2);
	struct cohort_cache_key key = key_of(&j, 130);
	key.salt = 1;
	assert_int_equal(cohort_engine_cache_drop(e, &key, &n, NULL), COHORT_OK);
	assert_int_equal(n, 0);
	key.salt = 0;
	key.session = 0; /* behind its last block something stands that is not this key's */
	assert_int_equal(cohort_engine_cache_drop(e, &key, &n, NULL), COHORT_OK);
	assert_int_equal(n, 0);
	key.session = 3;
	assert_int_equal(cohort_engine_cache_drop(e, &key, &n, NULL), COHORT_OK);
	assert_int_equal(n, 3 + 64); /* one of those it said is in the tail, too */
	assert_int_equal(n_blocks_cached(e), 4);
	other.p.n_prompt = 129;
	assert_int_equal(rig_reused(e, &other), 128);
	j.p.session = 0;
	assert_int_equal(rig_reused(e, &j), 64);
	rig_check_empty(e, 4);
	cohort_engine_free(e);
}

/* ---- What does not ---- */

static void expect_refused(struct cohort_engine *e, const uint8_t *p, size_t n, enum cohort_status want)
{
	const struct cohort_cache_key key = {.session = 2};
	const int32_t before = n_blocks_cached(e);
	struct cohort_err err = {.text = ""};
	int32_t n_tokens = -1;

	/* A piece of its own, so that a read past the end is seen by who looks for such. */
	uint8_t *exact = mem_dup(p, n);
	const enum cohort_status st = cohort_engine_cache_load(e, &key, exact, n, &n_tokens, &err);
	mem_free(exact);
	if (st != want)
		fail_msg("%d and not %d: %s", st, want, err.text);
	assert_true(err.status == st && err.text[0]);
	assert_int_equal(n_tokens, -1);
	assert_int_equal(n_blocks_cached(e), before);
}

static void damaged_saved_prompts_are_refused(void **state)
{
	struct cohort_engine *a = open_small(512), *b = open_small(512);
	static struct job j;

	(void)state;
	rig_job(&j, 4, 40, 2);
	rig_reused(a, &j);
	const struct cohort_cache_key key = key_of(&j, 40);
	struct bytes saved = save(a, &key);
	assert_memory_equal(saved.p, "COHCACHE\1\0\0\0\40\0\0\0", 16);
	const size_t n_front = cache_front(32);
	for (size_t i = 0; i < saved.n; i += i < 400 ? 1 : 61) {
		saved.p[i] ^= 0x10;
		const size_t at = i < n_front ? i : i - n_front; /* a state's version lies in the same place */
		expect_refused(b, saved.p, saved.n, at >= 8 && at < 12 ? COHORT_E_UNSUPPORTED : COHORT_E_FORMAT);
		saved.p[i] ^= 0x10;
	}
	for (size_t n = 0; n < saved.n; n += n < 400 ? 1 : 61)
		expect_refused(b, saved.p, n, COHORT_E_FORMAT);
	/* With right sums: no tokens, more than there are bytes, one that does not exist, the state of another. */
	static const struct {
		size_t at, n;
		uint64_t value;
	} changes[] = {{CACHE_AT_TOKENS, 4, 0}, {CACHE_AT_TOKENS, 4, 0xffffffff}, {CACHE_AT_TOKENS, 4, 0x7fffffff},
			{CACHE_AT_TOKENS, 4, 31}, {CACHE_HEAD, 4, 300}, {CACHE_HEAD, 4, 0xffffffff},
			{CACHE_AT_STATE_SUM, 8, 1}, {CACHE_AT_SIZE, 8, 0}};
	for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
		uint8_t *p = mem_dup(saved.p, saved.n);
		assert_non_null(p);
		state_put(p + changes[i].at, changes[i].n, changes[i].value);
		if (changes[i].at > CACHE_AT_TOKENS)
			cache_seal(p);
		expect_refused(b, p, saved.n, COHORT_E_FORMAT);
		mem_free(p);
	}
	assert_int_equal(load(b, &key, &saved), 32);
	cohort_cache_free(saved.p);
	cohort_engine_free(a);
	cohort_engine_free(b);
}

/* A prompt of n tokens in front of a state of its context's sequence `seq`. */
static struct bytes wrap(struct cohort_context *ctx, cohort_seq seq, int32_t n_tokens)
{
	const size_t n_front = cache_front((uint32_t)n_tokens), n_state = cohort_state_size(ctx, seq);
	struct bytes b = {.n = n_front + n_state, .n_tokens = n_tokens};
	size_t n;

	b.p = mem_zalloc(1, b.n);
	assert_non_null(b.p);
	assert_int_equal(cohort_state_save(ctx, seq, b.p + n_front, n_state, &n, NULL), COHORT_OK);
	for (int32_t i = 0; i < n_tokens; i++)
		state_put(b.p + CACHE_HEAD + 4 * (size_t)i, 4, (uint64_t)(i % 50 + 3));
	cache_wrap(b.p, b.n, (uint32_t)n_tokens);
	return b;
}

/* Sound states that are not those of n tokens from the first on. */
static void other_cells(void **state)
{
	struct cohort_engine *e = open_small(512);
	cohort_token tokens[70];

	(void)state;
	for (int i = 0; i < 70; i++)
		tokens[i] = i % 50 + 3;
	assert_int_equal(cohort_decode_many(rig_alone, tokens, 70, 0, 0, NULL), COHORT_OK);
	for (int way = 0; way < 5; way++) {
		if (way == 3)
			assert_int_equal(cohort_seq_rm(rig_alone, 0, 40, 41, NULL), COHORT_OK);
		if (way == 4)
			assert_int_equal(cohort_seq_rm(rig_alone, 0, 0, 41, NULL), COHORT_OK);
		struct bytes b = wrap(rig_alone, way == 2 ? COHORT_SEQ_ALL : 0, way == 0 ? 69 : way == 1 ? 71 : 70);
		expect_refused(e, b.p, b.n, COHORT_E_FORMAT);
		mem_free(b.p);
	}
	assert_int_equal(cohort_seq_rm(rig_alone, 0, 0, -1, NULL), COHORT_OK);
	/* As it should be: cells are the same whoever computed them. */
	assert_int_equal(cohort_decode_many(rig_alone, tokens, 70, 0, 0, NULL), COHORT_OK);
	struct bytes b = wrap(rig_alone, 0, 70);
	assert_int_equal(cohort_seq_rm(rig_alone, 0, 0, -1, NULL), COHORT_OK);
	const struct cohort_cache_key key = {.session = 2};
	assert_int_equal(load(e, &key, &b), 70);
	static struct job j;
	rig_job(&j, 1, 90, 5);
	memcpy(j.prompt, tokens, sizeof tokens);
	j.p.session = 2;
	j.p.n_logprobs = 0;
	assert_int_equal(rig_reused(e, &j), 70);
	mem_free(b.p);

	/* More than a sequence of this engine can have. */
	struct cohort_engine *tiny = open_small(64);
	assert_int_equal(cohort_decode_many(rig_alone, tokens, 65, 0, 0, NULL), COHORT_OK);
	b = wrap(rig_alone, 0, 65);
	assert_int_equal(cohort_seq_rm(rig_alone, 0, 0, -1, NULL), COHORT_OK);
	expect_refused(tiny, b.p, b.n, COHORT_E_LIMIT);
	mem_free(b.p);
	cohort_engine_free(tiny);
	cohort_engine_free(e);
}

/* Other models and caches, engines that keep nothing, arguments. */
static void cache_calls_refuse_other_models_and_arguments(void **state)
{
	struct cohort_engine_params ep;
	struct cohort_engine *e = open_small(256);
	const struct cohort_adapter *adapter = (const struct cohort_adapter *)(const void *)&ep; /* not looked at */
	struct cohort_cache_key key;
	struct cohort_err err;
	static struct job j;
	int32_t n;
	size_t n_bytes;
	void *p;

	(void)state;
	rig_job(&j, 4, 40, 2);
	rig_reused(e, &j);
	key = key_of(&j, 40);
	struct bytes saved = save(e, &key);
	rig_params(&ep);
	ep.context.kv_type = COHORT_KV_F32;
	struct cohort_engine *other = rig_engine(&ep);
	expect_refused(other, saved.p, saved.n, COHORT_E_UNSUPPORTED);
	cohort_engine_free(other);
	rig_params(&ep);
	ep.no_reuse = true;
	other = rig_engine(&ep);
	expect_refused(other, saved.p, saved.n, COHORT_E_UNSUPPORTED);
	assert_int_equal(cohort_engine_cache_save(other, &key, &p, &n_bytes, &n, &err), COHORT_E_UNSUPPORTED);
	assert_int_equal(cohort_engine_cache_drop(other, &key, &n, &err), COHORT_E_UNSUPPORTED);
	cohort_engine_free(other);

	key.adapter = adapter;
	key.adapter_scale = 1;
	assert_int_equal(cohort_engine_cache_save(e, &key, &p, &n_bytes, &n, &err), COHORT_E_UNSUPPORTED);
	assert_int_equal(cohort_engine_cache_load(e, &key, saved.p, saved.n, &n, &err), COHORT_E_UNSUPPORTED);
	assert_int_equal(cohort_engine_cache_drop(e, &key, &n, &err), COHORT_OK);
	assert_int_equal(n, 0);
	key.adapter_scale = NAN;
	assert_int_equal(cohort_engine_cache_drop(e, &key, &n, &err), COHORT_E_ARG);
	key = key_of(&j, -1);
	assert_int_equal(cohort_engine_cache_save(e, &key, &p, &n_bytes, &n, &err), COHORT_E_ARG);
	key.n_tokens = 1;
	key.tokens = NULL;
	assert_int_equal(cohort_engine_cache_drop(e, &key, &n, &err), COHORT_E_ARG);
	key = key_of(&j, 40);
	assert_int_equal(cohort_engine_cache_save(NULL, &key, &p, &n_bytes, &n, &err), COHORT_E_ARG);
	assert_int_equal(cohort_engine_cache_save(e, NULL, &p, &n_bytes, &n, &err), COHORT_E_ARG);
	assert_int_equal(cohort_engine_cache_save(e, &key, NULL, &n_bytes, &n, &err), COHORT_E_ARG);
	assert_int_equal(cohort_engine_cache_save(e, &key, &p, NULL, &n, &err), COHORT_E_ARG);
	assert_int_equal(cohort_engine_cache_save(e, &key, &p, &n_bytes, NULL, &err), COHORT_E_ARG);
	assert_int_equal(cohort_engine_cache_load(e, &key, NULL, 0, &n, &err), COHORT_E_ARG);
	assert_int_equal(cohort_engine_cache_load(e, &key, saved.p, saved.n, NULL, &err), COHORT_E_ARG);
	assert_int_equal(cohort_engine_slot_tokens(e, 0, NULL, 1, &key, &err), COHORT_E_ARG);
	assert_int_equal(cohort_engine_slot_tokens(e, 0, NULL, 0, NULL, &err), COHORT_E_ARG);
	assert_int_equal(cohort_engine_slot_tokens(NULL, 0, NULL, 0, &key, &err), COHORT_E_ARG);
	key = key_of(&j, 0);
	key.tokens = NULL; /* nothing is asked for, and nobody wants to know how much that was */
	assert_int_equal(cohort_engine_cache_drop(e, &key, NULL, &err), COHORT_OK);
	cohort_cache_free(saved.p);
	cohort_cache_free(NULL);
	cohort_engine_free(e);
}

/* With other prompts cached they make room; with slots in use there may be none, and then nothing happens. */
static void loaded_prompt_makes_room_or_does_nothing(void **state)
{
	struct cohort_engine *a = open_small(512), *b = open_small(256);
	const struct cohort_cache_key any = {.session = 2};
	static struct job j, filler;
	struct cohort_err err;
	int32_t n = -1;

	(void)state;
	rig_job(&j, 4, 100, 2);
	rig_reused(a, &j);
	const struct cohort_cache_key key = key_of(&j, 100);
	struct bytes saved = save(a, &key);
	assert_int_equal(saved.n_tokens, 96);
	for (uint64_t i = 0; i < 3; i++) {
		rig_job(&filler, 20 + i, 70, 20);
		rig_reused(b, &filler);
	}
	assert_int_equal(n_blocks_cached(b), 6);
	assert_int_equal(load(b, &key, &saved), 96);
	assert_int_equal(n_blocks_cached(b), 8);
	assert_int_equal(rig_stats(b).n_evicted, 1);
	assert_int_equal(rig_reused(b, &j), 96);

	/* 6 of 8 blocks are promised to somebody. */
	rig_job(&filler, 30, 100, 80);
	struct cohort_request *r = rig_submit(b, &filler);
	rig_tick(b);
	const uint64_t n_evicted = rig_stats(b).n_evicted;
	assert_int_equal(cohort_engine_cache_load(b, &any, saved.p, saved.n, &n, &err), COHORT_NO_ROOM);
	assert_int_equal(err.expected, 2);
	assert_int_equal(err.got, 3);
	assert_int_equal(rig_stats(b).n_evicted, n_evicted);
	rig_run(b);
	rig_check(r, &filler);
	cohort_request_free(r);
	assert_int_equal(load(b, &key, &saved), 96);
	assert_int_equal(rig_reused(b, &j), 96);
	rig_check_empty(b, 4);
	cohort_cache_free(saved.p);
	cohort_engine_free(a);
	cohort_engine_free(b);
}

/* Every allocation fails once. */
static void cache_save_and_load_out_of_memory_at_every_point(void **state)
{
	struct cohort_engine *a = open_small(512), *b = open_small(256);
	static struct job j;
	struct bytes saved = {.n = 0};
	int64_t n_saves = 0, n_loads = 0;
	struct cohort_err err;
	int32_t n = -1;
	void *p = NULL;

	(void)state;
	rig_job(&j, 4, 110, 2);
	j.p.session = 3;
	rig_reused(a, &j);
	const struct cohort_cache_key key = key_of(&j, 110);
	for (enum cohort_status st = COHORT_E_MEMORY; st; n_saves++) {
		mem_fail_after(n_saves);
		st = cohort_engine_cache_save(a, &key, &p, &saved.n, &n, &err);
		mem_fail_after(-1);
		assert_true(st == COHORT_OK || (st == COHORT_E_MEMORY && !p));
	}
	saved.p = p;
	for (enum cohort_status st = COHORT_E_MEMORY; st; n_loads++) {
		n = -1;
		mem_fail_after(n_loads);
		st = cohort_engine_cache_load(b, &key, saved.p, saved.n, &n, &err);
		mem_fail_after(-1);
		assert_true(st == COHORT_OK || (st == COHORT_E_MEMORY && n == -1 && n_blocks_cached(b) == 0));
	}
	assert_true(n_saves > 1 && n_loads > 1);
	assert_int_equal(n, 110);
	j.prompt[110] = 8;
	j.p.n_prompt = 111;
	assert_int_equal(rig_reused(b, &j), 110);
	cohort_cache_free(saved.p);
	cohort_engine_free(a);
	cohort_engine_free(b);
}

/* ---- Copies that fail ---- */

enum { N_CORE_BLOCKS = 12, N_CORE_SLOTS = 2 };

static struct machine real;
static int32_t n_copies, bad_copy;

static enum cohort_status trick_cp(
		void *self, cohort_seq src, cohort_seq dst, cohort_pos p0, cohort_pos p1, struct cohort_err *err)
{
	if (n_copies++ == bad_copy)
		return err_set(err, COHORT_E_MEMORY, "no copy today");
	return real.seq_cp(self, src, dst, p0, p1, err);
}

static struct cohort_context *core_open(struct core *c)
{
	struct cohort_model_info info = {.struct_size = sizeof info};
	struct cohort_context_params cp;
	struct cohort_context *ctx;

	cohort_model_info_get(rig_model, &info);
	cohort_context_params_init(&cp);
	cp.n_ctx = N_CORE_BLOCKS * BLOCK;
	cp.n_blocks = pool_blocks(cp.n_ctx, 0);
	cp.n_batch = cp.n_ubatch = 32;
	cp.n_seq_max = N_CORE_SLOTS + N_CORE_BLOCKS + 1;
	cp.n_threads = 1;
	assert_int_equal(cohort_context_open(rig_model, &cp, &ctx, NULL), COHORT_OK);
	real = machine_of_context(ctx);
	struct machine m = real;
	m.seq_cp = trick_cp;
	bad_copy = -1;
	const struct core_limits lim = {
			.model = rig_model,
			.text = true,
			.n_vocab = info.n_vocab,
			.n_embd = info.n_embd,
			.n_slots = N_CORE_SLOTS,
			.n_ubatch = 32,
			.budget = 64,
			.chunk_size = 64,
			.block_size = BLOCK,
			.n_blocks = N_CORE_BLOCKS,
			.n_pos_max = N_CORE_BLOCKS * BLOCK,
			.n_ids = N_CORE_BLOCKS,
			.scratch = N_CORE_SLOTS + N_CORE_BLOCKS,
			.logits = true,
			.queue_requests_max = 100,
			.queue_tokens_max = 100000,
			.wait_max_s = 1000,
	};
	assert_int_equal(core_init(c, &lim, &m, NULL, NULL), COHORT_OK);
	return ctx;
}

static void core_run(struct core *c, const struct job *j)
{
	struct cohort_request *r;

	assert_int_equal(request_open(c, &j->p, &r, NULL), COHORT_OK);
	assert_int_equal(core_submit(c, r, NULL), COHORT_OK);
	while (!core_is_idle(c))
		core_tick(c);
	rig_check(r, j);
	cohort_request_free(r);
}

/* The books are whole, and the context holds what they say: the scratch is empty. */
static void check_books(const struct core *c, const struct cohort_context *ctx, int32_t n_held)
{
	struct cohort_usage usage;

	assert_true(prefix_consistent(c->prefix));
	assert_int_equal(prefix_n_held(c->prefix), n_held);
	assert_int_equal(prefix_n_pinned(c->prefix), 0);
	cohort_usage_get(ctx, &usage);
	assert_int_equal(usage.n_used, n_held);
	assert_int_equal(cohort_seq_pos_max(ctx, c->lim.scratch), -1);
}

/* Each copy fails once, while saving and while loading behind two blocks that are there. */
static void failing_copies(void **state)
{
	static struct core a, b;
	struct cohort_context *ctx_a = core_open(&a), *ctx_b = core_open(&b);
	static struct job j, begin;
	struct cache_part part;
	struct cohort_err err;
	void *bytes = NULL;
	size_t n_bytes;
	int32_t n = 0;

	(void)state;
	rig_job(&j, 4, 150, 2);
	j.p.session = 3;
	core_run(&a, &j);
	struct cohort_cache_key key = key_of(&j, 150);
	for (int32_t i = 0; n < 150; i++) {
		n_copies = 0;
		bad_copy = i;
		mem_free(bytes);
		/* What could be had of it. */
		assert_int_equal(cache_save(&a, &key, &bytes, &n_bytes, &n, &err), COHORT_OK);
		assert_int_equal(n, i < 4 ? i * BLOCK : i == 4 ? 128 : 150);
		check_books(&a, ctx_a, 5);
	}
	assert_int_equal(cache_read(&b, bytes, n_bytes, &part, &err), COHORT_OK);
	rig_job(&begin, 4, 64, 1);
	bad_copy = -1;
	core_run(&b, &begin);
	check_books(&b, ctx_b, 2);
	enum cohort_status st = COHORT_NO_ROOM;
	for (int32_t i = 0; st; i++) {
		n_copies = 0;
		bad_copy = i;
		st = cache_load(&b, &key, &part, &n, &err);
		assert_int_equal(st, i < 3 ? COHORT_NO_ROOM : COHORT_OK); /* two blocks and the tail */
		check_books(&b, ctx_b, st ? 2 : 5);
	}
	assert_int_equal(n, 150);
	bad_copy = -1;
	core_run(&b, &j);

	/* Without ids for all of it: those of others go, but not its own. */
	struct prefix_root root = {.salt = 77};
	cohort_token tokens[BLOCK] = {0};
	int32_t last = -1, n_taken = 0;
	cache_drop(&b, &key);
	check_books(&b, ctx_b, 0);
	for (uint64_t h = prefix_hash_root(&root); n_taken < 8; n_taken++) {
		h = prefix_hash(h, tokens, BLOCK);
		last = prefix_add(b.prefix, &root, last, h, tokens, true);
		assert_true(last >= 0);
	}
	prefix_pin(b.prefix, last);
	st = cache_load(&b, &key, &part, &n, &err);
	assert_int_equal(st, COHORT_NO_ROOM);
	assert_int_equal(n, 0);
	prefix_unpin(b.prefix, last);
	assert_int_equal(prefix_n_held(b.prefix), 8);
	assert_int_equal(cache_load(&b, &key, &part, &n, &err), COHORT_OK);
	assert_int_equal(n, 150);
	assert_true(prefix_consistent(b.prefix));
	mem_free(bytes);
	struct core *cores[] = {&a, &b};
	for (int i = 0; i < 2; i++) {
		core_shut(cores[i]);
		core_release(cores[i]);
	}
	cohort_context_free(ctx_a);
	cohort_context_free(ctx_b);
}

/* ---- Threads ---- */

struct keeper {
	struct thread thread;
	struct cohort_engine *e;
	uint64_t seed;
	atomic_bool *over;
	int n_loads, n_saves;
};

/* Saves, drops and loads whatever slots have, all the time. */
static void keep(void *arg)
{
	struct keeper *k = arg;
	struct bytes b = {.n = 0};
	cohort_token *tokens = mem_alloc(TOKENS_MAX, sizeof *tokens);
	struct rng rng;

	expect(tokens, "memory");
	rng_init(&rng, k->seed, 14);
	while (!atomic_load(k->over)) {
		struct cohort_cache_key key;
		struct cohort_err err;
		int32_t n = 0;
		void *p = NULL;
		expect(!cohort_engine_slot_tokens(k->e, pick(&rng, 0, SAID_SLOTS - 1), tokens, TOKENS_MAX, &key, &err),
				"slot");
		const int what = pick(&rng, 0, 3);
		if (what < 2 && !b.p) {
			expect(!cohort_engine_cache_save(k->e, &key, &p, &b.n, &b.n_tokens, &err), "save");
			b.p = p;
			k->n_saves += p != NULL;
		} else if (what < 2) {
			const enum cohort_status st = cohort_engine_cache_load(k->e, &key, b.p, b.n, &n, &err);
			expect(st == COHORT_OK || st == COHORT_NO_ROOM, "load");
			k->n_loads += !st && n > 0;
			cohort_cache_free(b.p);
			b.p = NULL;
		} else if (what == 2) {
			expect(!cohort_engine_cache_drop(k->e, &key, &n, &err), "drop");
		}
		if (pick(&rng, 0, 9) == 0)
			cohort_engine_cache_clear(k->e);
	}
	cohort_cache_free(b.p);
	mem_free(tokens);
}

static void within(struct cohort_request *r, const struct cohort_event *ev, void *user)
{
	struct cohort_engine *e = *(struct cohort_engine **)user;
	const struct cohort_cache_key key = {.n_tokens = 0};
	struct cohort_err err;

	(void)r;
	if (ev->kind == COHORT_EVENT_DONE)
		expect(cohort_engine_cache_drop(e, &key, NULL, &err) == COHORT_E_ARG, "an errand within a tick");
}

/* Beside requests that come and go: these never notice. */
static void beside_requests(void **state)
{
	enum { N_KEEPERS = 3, N = 300 };
	static struct keeper k[N_KEEPERS];
	struct cohort_engine_params ep;
	struct cohort_engine *e;
	struct cohort_request *r[SAID_KINDS];
	atomic_bool over = false;
	int n_saves = 0, n_loads = 0;

	(void)state;
	for (int round = 0; round < 2; round++) {
		said_params(&ep);
		ep.keep_tokens = true;
		ep.room = round ? COHORT_ROOM_OVERCOMMIT : COHORT_ROOM_RESERVE;
		ep.context.n_ctx = round ? 224 : 512;
		ep.context.n_blocks = pool_blocks(ep.context.n_ctx, 0);
		e = rig_engine(&ep);
		atomic_store(&over, false);
		for (int i = 0; i < N_KEEPERS; i++) {
			k[i] = (struct keeper){.e = e, .seed = (uint64_t)i, .over = &over};
			assert_true(thread_start(&k[i].thread, "test", keep, &k[i]));
		}
		for (int i = 0; i < N; i += SAID_KINDS) {
			for (int kind = 0; kind < SAID_KINDS; kind++)
				r[kind] = said_submit(e, kind);
			for (int kind = 0; kind < SAID_KINDS; kind++) {
				assert_int_equal(cohort_request_wait(r[kind], -1, NULL, NULL), COHORT_OK);
				said_check(r[kind], kind, COHORT_FINISH_NONE);
				cohort_request_free(r[kind]);
			}
		}
		struct cohort_request_params p = said_jobs[0].p;
		p.on_event = within;
		p.user = &e;
		assert_int_equal(cohort_engine_submit(e, &p, &r[0], NULL), COHORT_OK);
		assert_int_equal(cohort_request_wait(r[0], -1, NULL, NULL), COHORT_OK);
		cohort_request_free(r[0]);
		atomic_store(&over, true);
		for (int i = 0; i < N_KEEPERS; i++) {
			thread_join(&k[i].thread);
			n_saves += k[i].n_saves;
			n_loads += k[i].n_loads;
		}
		rig_check_empty(e, SAID_SLOTS);
		bool clean = false;
		assert_int_equal(cohort_engine_drain(e, -1, &clean, NULL), COHORT_OK);
		assert_true(clean);
		cohort_engine_free(e);
	}
	assert_true(n_saves > 10 && n_loads > 10);
}

struct ticker {
	struct thread thread;
	struct cohort_engine *e;
};

static void tick_on(void *arg)
{
	struct ticker *t = arg;
	bool idle = false;

	while (!idle)
		expect(!cohort_engine_tick(t->e, &idle, NULL), "tick");
}

/* A manual engine that one thread ticks and others have errands for: neither refuses the other. */
static void beside_ticks(void **state)
{
	static struct keeper k;
	struct cohort_request *r[3 * SAID_KINDS];
	atomic_bool over = false;
	struct ticker t = {.e = open_small(512)};

	(void)state;
	for (int i = 0; i < 3 * SAID_KINDS; i++)
		r[i] = said_submit(t.e, i % SAID_KINDS);
	struct cohort_request_params p = said_jobs[0].p;
	struct cohort_request *last;
	p.on_event = within;
	p.user = &t.e;
	assert_int_equal(cohort_engine_submit(t.e, &p, &last, NULL), COHORT_OK);
	k = (struct keeper){.e = t.e, .seed = 5, .over = &over};
	assert_true(thread_start(&k.thread, "test", keep, &k));
	assert_true(thread_start(&t.thread, "test", tick_on, &t));
	thread_join(&t.thread);
	atomic_store(&over, true);
	thread_join(&k.thread);
	cohort_request_free(last);
	for (int i = 0; i < 3 * SAID_KINDS; i++) {
		said_check(r[i], i % SAID_KINDS, COHORT_FINISH_NONE);
		cohort_request_free(r[i]);
	}
	rig_check_empty(t.e, 4);
	cohort_engine_free(t.e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
			cmocka_unit_test(there_and_back),
			cmocka_unit_test(cache_key_is_needed_to_find_a_prompt),
			cmocka_unit_test(while_it_runs),
			cmocka_unit_test(cache_drop_back_to_another_prompt),
			cmocka_unit_test(damaged_saved_prompts_are_refused),
			cmocka_unit_test(other_cells),
			cmocka_unit_test(cache_calls_refuse_other_models_and_arguments),
			cmocka_unit_test(loaded_prompt_makes_room_or_does_nothing),
			cmocka_unit_test(cache_save_and_load_out_of_memory_at_every_point),
			cmocka_unit_test(failing_copies),
			cmocka_unit_test(beside_requests),
			cmocka_unit_test(beside_ticks),
	};
	return cmocka_run_group_tests_name("engine_cache", tests, said_set_up, rig_tear_down);
}
