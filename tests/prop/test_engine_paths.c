/* The engine's core where a machine refuses, or somebody changes his mind, at the one moment that matters: states and
 * tails that cannot be copied, blocks that were promised and are gone, rows that are on their way. The machine
 * computes nothing, and answers what the test has told it to.
 *
 * Seen red with a state that is not taken back (one_state), saved from within a tail (states_saved), bytes without one
 * (no_state), the scale of an adapter forgotten (slot_tokens), an id that stays with a state that could not be kept
 * (where_they_part), nodes that make no room (many_nodes), copies whose failure is not seen (tail_is_stuck,
 * the_later_one, forks_alone), promises that are not looked at again (promised_blocks_that_are_not_to_be_had), a row
 * that does not come again (not_looked_at), rows tried again when all is to stop (failed_rows), numbers that are none
 * (prompt_rows_that_are_no_numbers), a text that is computed for nobody (texts_cancelled), a row behind all that is
 * known (plans_that_break_a_promise_are_replaced), notices before the end (notices_of_events_and_of_ends), a text
 * without memory for it (end_without_memory), a condition and an embedding used without having been got
 * (core_out_of_memory_at_every_point). */
#include "engine_rig.h"

#include "base/mem.h"
#include "base/sum.h"
#include "engine/cache.h"
#include "engine_books.h"

#include <math.h>

enum { N_VOCAB = 10, N_EMBD = 2, BLOCK = 4, N_SLOTS = 4, N_POS = 64 };

/* ---- A machine that does as it is told ---- */

static struct core core;

static struct {
	double now;
	enum cohort_status (*before)(const struct cohort_batch_raw *rows); /* NULL: all rows are computed */
	enum cohort_status (*copy)(cohort_seq src, cohort_seq dst); /* NULL: all can be copied */
	void (*looks)(void); /* somebody asks for logits */
	const float *logits, *embedding;
	cohort_seq stuck; /* whose cells cannot be removed; -1: nobody's */
	size_t state_bytes;
	enum cohort_status restored;
	int n_times;
	struct cohort_request *victim;
} told;

static double now(void *self)
{
	(void)self;
	return told.now += 0.25;
}

static enum cohort_status answer(enum cohort_status st, struct cohort_err *err)
{
	return st ? err_set(err, st, "as it was told") : COHORT_OK;
}

static enum cohort_status compute(void *self, const struct cohort_batch_raw *rows, struct cohort_err *err)
{
	(void)self;
	return answer(told.before ? told.before(rows) : COHORT_OK, err);
}

static const float *logits(void *self, int32_t row)
{
	(void)self, (void)row;
	if (told.looks)
		told.looks();
	return told.logits;
}

static const float *embedding(void *self, int32_t row)
{
	(void)self, (void)row;
	return told.embedding;
}

static enum cohort_status seq_cp(
		void *self, cohort_seq src, cohort_seq dst, cohort_pos p0, cohort_pos p1, struct cohort_err *err)
{
	(void)self, (void)p0, (void)p1;
	return answer(told.copy ? told.copy(src, dst) : COHORT_OK, err);
}

static enum cohort_status seq_rm(void *self, cohort_seq seq, cohort_pos p0, cohort_pos p1, struct cohort_err *err)
{
	(void)self, (void)p1;
	return answer(seq == told.stuck && p0 > 0 ? COHORT_E_MEMORY : COHORT_OK, err);
}

static enum cohort_status adapter_set(
		void *self, cohort_seq seq, const struct cohort_adapter *adapter, float scale, struct cohort_err *err)
{
	(void)self, (void)seq, (void)adapter, (void)scale, (void)err;
	return COHORT_OK;
}

static bool seq_is_whole(void *self, cohort_seq seq, int32_t n)
{
	(void)self, (void)seq, (void)n;
	return true;
}

static size_t state_size(void *self, cohort_seq seq)
{
	(void)self, (void)seq;
	return told.state_bytes;
}

static enum cohort_status state_save(void *self, cohort_seq seq, void *out, size_t n_max, struct cohort_err *err)
{
	(void)self, (void)seq, (void)err;
	memset(out, 7, n_max);
	return COHORT_OK;
}

static enum cohort_status state_restore(void *self, cohort_seq seq, const void *bytes, size_t n, struct cohort_err *err)
{
	(void)self, (void)seq, (void)bytes, (void)n;
	return answer(told.restored, err);
}

static const struct machine machine = {.now = now,
		.decode = compute,
		.encode = compute,
		.logits = logits,
		.embedding = embedding,
		.seq_cp = seq_cp,
		.seq_rm = seq_rm,
		.adapter_set = adapter_set,
		.seq_is_whole = seq_is_whole,
		.state_size = state_size,
		.state_save = state_save,
		.state_restore = state_restore};

static struct core_limits limits(void)
{
	return (struct core_limits){.n_vocab = N_VOCAB,
			.n_embd = N_EMBD,
			.n_slots = N_SLOTS,
			.n_ubatch = 16,
			.budget = 16,
			.chunk_size = 16,
			.block_size = BLOCK,
			.n_blocks = 16,
			.n_pos_max = N_POS,
			.logits = true,
			.embeddings = true,
			.queue_requests_max = 8,
			.queue_tokens_max = 1000,
			.wait_max_s = INFINITY};
}

static void open_core(const struct core_limits *lim)
{
	struct cohort_err err;

	memset(&told, 0, sizeof told);
	told.stuck = -1;
	told.state_bytes = 24;
	if (core_init(&core, lim, &machine, NULL, &err))
		fail_msg("%s", err.text);
}

/* Models with a state: a cached prompt is the state at its end. */
static void open_recurrent(int32_t n_ids)
{
	struct core_limits lim = limits();

	lim.recurrent = true;
	lim.n_blocks = 0;
	lim.n_ids = n_ids;
	lim.scratch = N_SLOTS + n_ids;
	open_core(&lim);
}

static void close_core(void)
{
	assert_true(core_is_idle(&core));
	assert_true(!core.prefix || prefix_consistent(core.prefix));
	assert_int_equal(core.blocks.n_private, 0);
	assert_int_equal(core.blocks.n_reserved, 0);
	assert_int_equal(core.n_idle, N_SLOTS);
	assert_int_equal(core.blocks.swap_used, 0);
	core_release(&core);
}

/* ---- Requests ---- */

/* Tokens of family `f`: those of two families differ from the first one on. */
static const cohort_token *tokens_of(int f)
{
	static cohort_token tokens[4][N_POS];

	for (int i = 0; i < N_POS; i++)
		tokens[f][i] = (f + 1 + i / BLOCK * 3) % N_VOCAB;
	return tokens[f];
}

static struct cohort_request_params ask(const cohort_token *prompt, int32_t n_prompt, int32_t n_tokens)
{
	struct cohort_request_params p;

	cohort_request_params_init(&p);
	p.prompt = prompt;
	p.n_prompt = n_prompt;
	p.max_tokens = n_tokens;
	return p;
}

static struct cohort_request_params ask_embedding(int f, int32_t n_prompt)
{
	struct cohort_request_params p = ask(tokens_of(f), n_prompt, 0);

	p.task = COHORT_TASK_EMBED;
	return p;
}

static struct cohort_request *submit(const struct cohort_request_params *p)
{
	struct cohort_request *r = NULL;
	struct cohort_err err;

	if (request_open(&core, p, &r, &err) || core_submit(&core, r, &err))
		fail_msg("%s", err.text);
	return r;
}

static void run(void)
{
	for (int i = 0; !core_is_idle(&core); i++) {
		assert_true(i < 200);
		core_tick(&core);
		assert_true(!core.prefix || prefix_consistent(core.prefix));
	}
}

/* How all outputs ended, which is the same for all, and that they said n_tokens in all; gives the handle back. */
static enum cohort_status ended(struct cohort_request *r, enum cohort_finish finish, int32_t n_tokens)
{
	enum cohort_status st = COHORT_OK;
	struct cohort_event e;
	int32_t n = 0;

	do {
		assert_int_equal(cohort_request_next(r, 0, &e, NULL), COHORT_OK);
		assert_int_not_equal(e.kind, COHORT_EVENT_NONE);
		n += e.kind == COHORT_EVENT_TOKEN;
		if (e.kind == COHORT_EVENT_END) {
			assert_int_equal(e.finish, finish);
			st = e.error ? e.error->status : COHORT_OK;
		}
	} while (e.kind != COHORT_EVENT_DONE);
	assert_int_equal(n, n_tokens);
	cohort_request_free(r);
	return st;
}

/* ---- States as bytes ---- */

static enum cohort_status no_copies(cohort_seq src, cohort_seq dst)
{
	(void)src, (void)dst;
	return COHORT_E_MEMORY;
}

static enum cohort_status load(int32_t n, uint64_t session, int32_t *n_loaded)
{
	const struct cohort_cache_key key = {.tokens = tokens_of(0), .n_tokens = n, .session = session};
	const struct cache_part part = {.n_tokens = n};
	struct cohort_err err;
	const enum cohort_status st = cache_load(&core, &key, &part, n_loaded, &err);

	assert_true(st || *n_loaded == n);
	assert_true(!st || (err.status == st && *n_loaded == 0));
	assert_true(prefix_consistent(core.prefix));
	return st;
}

/* One id for all states: who gets it, and what is said when it is not to be had. */
static void one_state(void **state)
{
	int32_t n;
	(void)state;

	open_recurrent(1);
	assert_int_equal(load(8, 0, &n), COHORT_OK);
	assert_int_equal(load(8, 0, &n), COHORT_OK); /* it is there */
	assert_int_equal(load(4, 0, &n), COHORT_OK); /* the first block was there without its state */
	assert_int_equal(prefix_n_held(core.prefix), 1);
	assert_int_equal(load(8, 0, &n), COHORT_NO_ROOM); /* what is loaded cannot make room for itself */
	assert_int_equal(prefix_n_pinned(core.prefix), 0);
	const struct cohort_cache_key four = {.tokens = tokens_of(0), .n_tokens = 4};
	assert_int_equal(cache_drop(&core, &four), 4);
	assert_int_equal(load(8, 0, &n), COHORT_OK);
	told.copy = no_copies;
	assert_int_equal(load(4, 0, &n), COHORT_NO_ROOM); /* the state it was given is taken back */
	told.copy = NULL;
	assert_int_equal(prefix_n_held(core.prefix), 0);
	assert_int_equal(load(8, 0, &n), COHORT_OK);
	const int32_t last = core.path[1];
	prefix_pin(core.prefix, last);
	assert_int_equal(load(4, 0, &n), COHORT_NO_ROOM);
	assert_int_equal(load(6, 5, &n), COHORT_NO_ROOM);
	prefix_unpin(core.prefix, last);
	assert_int_equal(load(6, 5, &n), COHORT_OK);
	told.restored = COHORT_NO_ROOM;
	assert_int_equal(load(8, 0, &n), COHORT_NO_ROOM);
	told.restored = COHORT_OK;
	/* A state within a block is nothing without a session, and that is no failure. */
	const struct cohort_cache_key six = {.tokens = tokens_of(0), .n_tokens = 6};
	const struct cache_part part = {.n_tokens = 6};
	assert_int_equal(cache_load(&core, &six, &part, &n, NULL), COHORT_OK);
	assert_int_equal(n, 0);
	close_core();
}

static int32_t saves(int32_t n, uint64_t session, enum cohort_status want)
{
	const struct cohort_cache_key key = {.tokens = tokens_of(0), .n_tokens = n, .session = session};
	size_t n_bytes;
	int32_t n_saved;
	void *bytes;

	assert_int_equal(cache_save(&core, &key, &bytes, &n_bytes, &n_saved, NULL), want);
	assert_int_equal(bytes != NULL, n_saved > 0);
	mem_free(bytes);
	return n_saved;
}

/* A state is of use at its own end only; what cannot be copied is not there. */
static void states_saved(void **state)
{
	int32_t n;
	(void)state;

	open_recurrent(4);
	assert_int_equal(load(8, 0, &n), COHORT_OK);
	assert_int_equal(load(7, 5, &n), COHORT_OK);
	assert_int_equal(saves(7, 5, COHORT_OK), 7);
	assert_int_equal(saves(6, 5, COHORT_OK), 0); /* within the tail */
	assert_int_equal(saves(9, 0, COHORT_OK), 8);
	assert_int_equal(saves(7, 0, COHORT_OK), 0);
	told.copy = no_copies;
	assert_int_equal(saves(7, 5, COHORT_OK), 0);
	assert_int_equal(saves(8, 0, COHORT_OK), 0);
	told.copy = NULL;
	told.state_bytes = SIZE_MAX;
	assert_int_equal(saves(8, 0, COHORT_E_MEMORY), 0);
	close_core();
}

/* Tokens with a good sum, and less behind them than a state ends with, though the last bytes are those of its end. */
static void no_state(void **state)
{
	enum { SUM_AT = 36, STATE_SUM_AT = 24 };
	uint8_t bytes[51] = "COHCACHE";
	struct cache_part part;
	struct cohort_err err;
	int i = 0;
	(void)state;

	open_recurrent(1);
	bytes[8] = 1; /* version */
	bytes[12] = 1; /* token */
	bytes[16] = sizeof bytes;
	for (; i < 100000; i++) {
		memcpy(bytes + STATE_SUM_AT + 1, &i, sizeof i);
		memcpy(bytes + SUM_AT + 8, &i, sizeof i);
		const uint64_t sum = sum_bytes(0, bytes, SUM_AT);
		memcpy(bytes + SUM_AT, &sum, sizeof sum);
		if (bytes[SUM_AT + 7] == bytes[STATE_SUM_AT])
			break;
	}
	assert_memory_equal(bytes + sizeof bytes - 8, bytes + STATE_SUM_AT, 8);
	assert_int_equal(cache_read(&core, bytes, sizeof bytes, &part, &err), COHORT_E_FORMAT);
	assert_non_null(strstr(err.text, "state is not its own"));
	close_core();
}

/* Of a slot that nobody had, whose tokens are not kept, and of one that goes through an adapter. */
static void slot_tokens(void **state)
{
	const char adapter = 0;
	struct cohort_request_params p = ask(tokens_of(0), 5, 3);
	cohort_token tokens[N_POS];
	struct cohort_cache_key key;
	const struct core_limits lim = limits();
	(void)state;

	open_core(&lim);
	assert_int_equal(cache_slot(&core, 0, tokens, N_POS, &key, NULL), COHORT_OK);
	assert_int_equal(key.n_tokens, 0);
	p.adapter = (const struct cohort_adapter *)&adapter;
	p.adapter_scale = 0.5f;
	struct cohort_request *r = submit(&p);
	core_tick(&core);
	assert_int_equal(cache_slot(&core, 0, tokens, N_POS, &key, NULL), COHORT_OK);
	assert_int_equal(key.n_tokens, 6);
	assert_ptr_equal(key.adapter, &adapter);
	assert_true(key.adapter_scale == 0.5f);
	run();
	ended(r, COHORT_FINISH_LENGTH, 3);
	close_core();
}

/* ---- States and tails while requests come and go ---- */

/* Out of slots into the cache. */
static enum cohort_status no_keeping(cohort_seq src, cohort_seq dst)
{
	return src < N_SLOTS && dst >= N_SLOTS ? COHORT_E_MEMORY : COHORT_OK;
}

static enum cohort_status no_reuse(cohort_seq src, cohort_seq dst)
{
	return src >= N_SLOTS && dst < N_SLOTS ? COHORT_E_MEMORY : COHORT_OK;
}

static void say(const cohort_token *prompt, int32_t n_prompt, uint64_t session)
{
	struct cohort_request_params p = ask(prompt, n_prompt, 1);

	p.session = session;
	struct cohort_request *r = submit(&p);
	run();
	ended(r, COHORT_FINISH_LENGTH, 1);
}

/* Where two prompts part a state is wanted that nobody kept: one that cannot be kept is none. Slots of such models are
 * looked at, too: they have no blocks. */
static void where_they_part(void **state)
{
	cohort_token other[13];
	struct cohort_request_params p = ask(other, 13, 2);
	(void)state;

	for (int fails = 0; fails < 2; fails++) {
		open_recurrent(3);
		memcpy(other, tokens_of(0), sizeof other);
		other[8] = other[9] = N_VOCAB - 1;
		say(tokens_of(0), 13, 0);
		assert_int_equal(prefix_n_held(core.prefix), 1);
		told.copy = fails ? no_keeping : NULL;
		struct cohort_request *r = submit(&p);
		core.shared.infos_asked = true;
		core_tick(&core);
		assert_false(core.shared.infos_asked);
		assert_int_equal(core.shared.infos[0].state, COHORT_SLOT_GENERATING);
		assert_int_equal(core.shared.infos[0].n_blocks, 0);
		assert_true(core.shared.infos[0].n_cached > 0);
		run();
		ended(r, COHORT_FINISH_LENGTH, 2);
		assert_int_equal(prefix_n_held(core.prefix), fails ? 1 : 3);
		say(tokens_of(1), 3, 5); /* a tail */
		assert_int_equal(prefix_tail_get(core.prefix, &(struct prefix_root){0}, 5) < 0, fails);
		close_core();
	}
}

/* More tokens than there are nodes for: the oldest go. */
static void many_nodes(void **state)
{
	struct core_limits lim = limits();

	(void)state;
	lim.recurrent = true;
	lim.n_blocks = 0;
	lim.n_ids = 1;
	lim.n_ubatch = lim.budget = lim.chunk_size = N_POS; /* a state at the end only */
	open_core(&lim);
	for (int round = 0; round < 2; round++)
		for (int f = 0; f < 4; f++)
			say(tokens_of(f), N_POS - 3, 0);
	assert_int_equal(prefix_n_held(core.prefix), 1);
	assert_int_equal(core.live.n_cached_tokens, 0);
	say(tokens_of(3), N_POS - 3, 0); /* what came last was kept */
	assert_int_equal(core.live.n_cached_tokens, (N_POS - 3) / BLOCK * BLOCK);
	close_core();
}

/* A session's tail that cannot be copied is as good as none. */
static void tail_is_stuck(void **state)
{
	struct core_limits lim = limits();
	(void)state;

	lim.n_ids = 8;
	open_core(&lim);
	say(tokens_of(0), 3, 9);
	told.copy = no_reuse;
	say(tokens_of(0), 5, 9);
	assert_int_equal(core.live.n_cached_tokens, 0);
	assert_int_equal(core.live.n_hits, 0);
	told.copy = NULL;
	say(tokens_of(0), 7, 9);
	assert_int_equal(core.live.n_cached_tokens, 5);
	close_core();
}

/* Two with the same prompt at once, of which the later one wants every row and so does not wait for the first: it takes
 * over the first one's blocks, if its own can be removed and those copied. Otherwise it goes on with its own, or from
 * where it lost them. */
static void the_later_one(void **state)
{
	static const struct {
		cohort_seq stuck;
		enum cohort_status (*copy)(cohort_seq src, cohort_seq dst);
		int32_t n_rows; /* of the first tick */
	} cases[] = {{-1, NULL, 24}, {1, NULL, 24}, {-1, no_reuse, 12 + 4}};
	struct core_limits lim = limits();
	(void)state;

	lim.n_ids = 8;
	lim.budget = 32;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct cohort_request_params p = ask(tokens_of(0), 12, 2);
		open_core(&lim);
		struct cohort_request *a = submit(&p);
		p.prompt_logprobs = true;
		struct cohort_request *b = submit(&p);
		told.stuck = cases[i].stuck;
		told.copy = cases[i].copy;
		core_tick(&core);
		assert_int_equal(core.tick.n_prefill_rows, cases[i].n_rows);
		run();
		ended(a, COHORT_FINISH_LENGTH, 2);
		ended(b, COHORT_FINISH_LENGTH, 2);
		close_core();
	}
	/* All rows of the prompt were computed, and some are lost again: it is not done. */
	struct cohort_request_params p = ask(tokens_of(0), 5, 2);
	open_core(&lim);
	struct cohort_request *a = submit(&p);
	p.prompt_logprobs = true;
	struct cohort_request *b = submit(&p);
	told.copy = no_reuse;
	core_tick(&core);
	assert_int_equal(core.n_in[STREAM_PREFILLS], 1);
	assert_int_equal(core.n_in[STREAM_GENERATES], 1);
	run();
	ended(a, COHORT_FINISH_LENGTH, 2);
	ended(b, COHORT_FINISH_LENGTH, 2);
	close_core();
}

static enum cohort_status no_forks(cohort_seq src, cohort_seq dst)
{
	return src < N_SLOTS && dst < N_SLOTS ? COHORT_E_MEMORY : COHORT_OK;
}

/* Outputs that cannot have the first one's cells compute the prompt themselves. */
static void forks_alone(void **state)
{
	struct cohort_request_params p = ask(tokens_of(0), 6, 2);
	const struct core_limits lim = limits();
	(void)state;

	p.n_outputs = 3;
	open_core(&lim);
	told.copy = no_forks;
	struct cohort_request *r = submit(&p);
	run();
	assert_int_equal(core.live.n_prefill_rows, 18);
	ended(r, COHORT_FINISH_LENGTH, 6);
	close_core();
}

/* ---- Blocks ---- */

/* Blocks that a request was let in for are there, but not to be had: it waits for others of its own. */
static void promised_blocks_that_are_not_to_be_had(void **state)
{
	struct core_limits lim = limits();
	struct cohort_request_params first = ask(tokens_of(0), 9, 4), second = ask(tokens_of(0), 9, 1);
	(void)state;

	lim.n_blocks = 4;
	lim.n_ids = 4;
	open_core(&lim);
	struct cohort_request *a = submit(&first);
	core_tick(&core);
	assert_int_equal(prefix_n_pinned(core.prefix), 2);
	told.copy = no_reuse;
	struct cohort_request *b = submit(&second);
	core_tick(&core);
	assert_int_equal(core.n_in[STREAM_PREEMPTED], 1);
	core_look(&core);
	assert_int_equal(core.shared.infos[1].state, COHORT_SLOT_PARKED);
	assert_int_equal(core.shared.infos[1].n_cached, 0);
	core_tick(&core);
	assert_int_equal(core.n_in[STREAM_PREEMPTED], 1);
	assert_true(core.live.n_resumed > 0);
	run();
	ended(a, COHORT_FINISH_LENGTH, 4);
	ended(b, COHORT_FINISH_LENGTH, 1);
	close_core();
}

static int32_t n_blocks_left;
static bool without_memory;

/* When the first row is looked at. */
static void blocks_go(void)
{
	if (told.n_times++)
		return;
	core.lim.n_blocks = n_blocks_left;
	if (without_memory)
		mem_fail_after(0);
}

/* Streams are parked whose rows were computed and not looked at: these come again, whatever can be saved of them. */
static void not_looked_at(void **state)
{
	static const struct {
		int32_t n_blocks;
		bool without_memory, stuck;
		uint64_t n_parked, n_swapped;
	} cases[] = {{4, false, false, 1, 1}, {4, true, false, 1, 0}, {4, false, true, 1, 0}, {1, false, false, 2, 2}};
	struct cohort_request_params p = ask(tokens_of(0), 5, 4), q = ask(tokens_of(1), 5, 4);
	struct core_limits lim = limits();
	(void)state;

	lim.n_blocks = 8;
	lim.overcommit = true;
	lim.swap_bytes = 1000;
	p.n_outputs = 2;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		open_core(&lim);
		n_blocks_left = cases[i].n_blocks;
		without_memory = cases[i].without_memory;
		told.looks = blocks_go;
		told.stuck = cases[i].stuck ? 2 : -1;
		struct cohort_request *a = submit(&p), *b = submit(&q);
		core_tick(&core);
		mem_fail_after(-1);
		assert_int_equal(core.live.n_parked, cases[i].n_parked);
		assert_int_equal(core.live.n_swapped, cases[i].n_swapped);
		core.lim.n_blocks = 8;
		run();
		ended(a, COHORT_FINISH_LENGTH, 8);
		ended(b, COHORT_FINISH_LENGTH, 4);
		close_core();
	}
}

/* ---- Rows on their way ---- */

static enum cohort_status fail_and_stop(const struct cohort_batch_raw *rows)
{
	(void)rows;
	atomic_store(&core.stop, true);
	return COHORT_E_MEMORY;
}

static enum cohort_status fail_and_cancel(const struct cohort_batch_raw *rows)
{
	(void)rows;
	if (told.n_times++)
		return COHORT_OK;
	cohort_request_cancel(told.victim);
	cohort_request_cancel(told.victim); /* twice is once */
	return COHORT_E_MEMORY;
}

static enum cohort_status give_up(const struct cohort_batch_raw *rows)
{
	(void)rows;
	return COHORT_ABORTED;
}

/* Rows that failed are not tried again once all is to stop, and not with those of somebody who has left. */
static void failed_rows(void **state)
{
	const struct cohort_request_params p = ask(tokens_of(0), 5, 2);
	struct core_limits lim = limits();
	(void)state;

	lim.n_ubatch = 8; /* there is another piece */
	open_core(&lim);
	struct cohort_request *a = submit(&p), *b = submit(&p);
	told.before = fail_and_stop;
	core_tick(&core);
	assert_int_equal(core.live.n_retries, 1);
	core_look(&core);
	assert_int_equal(core.shared.infos[0].state, COHORT_SLOT_PREFILLING);
	atomic_store(&core.stop, false);
	told.before = give_up;
	core_tick(&core);
	assert_int_equal(core.live.n_retries, 1);
	assert_int_equal(core.n_in[STREAM_PREFILLS], 2);
	told.before = fail_and_cancel;
	told.victim = b;
	run();
	assert_int_equal(core.live.n_retries, 2);
	ended(a, COHORT_FINISH_LENGTH, 2);
	ended(b, COHORT_FINISH_CANCELLED, 0);
	close_core();
}

/* A row of the prompt that is no number, or that is not there though there is a model. */
static void prompt_rows_that_are_no_numbers(void **state)
{
	struct cohort_request_params p = ask(tokens_of(0), 5, 2);
	const struct cohort_request_params embed = ask_embedding(0, 3);
	float nans[N_VOCAB];
	struct core_limits lim = limits();
	(void)state;

	for (int i = 0; i < N_VOCAB; i++)
		nans[i] = NAN;
	p.prompt_logprobs = true;
	open_core(&lim);
	told.logits = nans;
	struct cohort_request *r = submit(&p);
	run();
	assert_int_equal(ended(r, COHORT_FINISH_ERROR, 0), COHORT_E_NUMERIC);
	close_core();

	lim.model = rig_model;
	open_core(&lim);
	for (int i = 0; i < 2; i++) {
		p.prompt_logprobs = i;
		r = submit(&p);
		run();
		assert_int_equal(ended(r, COHORT_FINISH_ERROR, 0), COHORT_E_BUG);
	}
	p.prompt_logprobs = false;
	told.logits = nans; /* that the sampler sees */
	r = submit(&p);
	run();
	assert_int_equal(ended(r, COHORT_FINISH_ERROR, 0), COHORT_E_NUMERIC);
	r = submit(&embed);
	run();
	assert_int_equal(ended(r, COHORT_FINISH_ERROR, 0), COHORT_E_BUG);
	close_core();
}

static enum cohort_status cancel_before(const struct cohort_strategy *self, void *state, struct cohort_plan *plan)
{
	(void)self;
	cohort_request_cancel(told.victim);
	return cohort_strategy_get(0)->build_batch(cohort_strategy_get(0), state, plan);
}

static enum cohort_status cancel_meanwhile(const struct cohort_batch_raw *rows)
{
	assert_int_equal(rows->n_tokens, 5);
	told.n_times++;
	cohort_request_cancel(told.victim);
	return COHORT_OK;
}

/* Texts of an encoder whose request is cancelled while they are planned, and while others are computed before them. */
static void texts_cancelled(void **state)
{
	static const float row[N_EMBD] = {1, 2};
	const struct cohort_strategy s = {.struct_size = sizeof s,
			.name = "cancels",
			.state_bytes = cohort_strategy_get(0)->state_bytes,
			.build_batch = cancel_before};
	struct core_limits lim = limits();
	(void)state;

	lim.encoder = true;
	lim.logits = false;
	lim.n_blocks = 0;
	lim.n_ubatch = 8;
	for (int meanwhile = 0; meanwhile < 2; meanwhile++) {
		const struct cohort_request_params p = ask_embedding(0, 5), no = ask(tokens_of(0), 5, 1);
		struct cohort_request *none;
		open_core(&lim);
		assert_int_equal(request_open(&core, &no, &none, NULL), COHORT_E_ARG);
		told.embedding = row;
		struct cohort_request *a = submit(&p), *b = submit(&p);
		told.victim = b;
		told.before = meanwhile ? cancel_meanwhile : NULL;
		assert_int_equal(core_strategy_set(&core, meanwhile ? NULL : &s, NULL), COHORT_OK);
		run();
		assert_int_equal(told.n_times, meanwhile);
		ended(a, COHORT_FINISH_EMBEDDED, 0);
		ended(b, COHORT_FINISH_CANCELLED, 0);
		close_core();
	}
}

/* ---- Plans ---- */

static int spoil;

static enum cohort_status plan_badly(const struct cohort_strategy *self, void *state, struct cohort_plan *plan)
{
	const enum cohort_status st = cohort_strategy_get(0)->build_batch(cohort_strategy_get(0), state, plan);

	(void)self;
	assert_int_equal(plan->n_slots, 2);
	if (spoil == 0) { /* a row behind the last that is known */
		plan->entries[plan->n_entries] = plan->entries[plan->n_entries - 1];
		plan->entries[plan->n_entries++].pos++;
	} else if (spoil == 1) {
		plan->slots[0].batch_index = plan->slots[1].batch_index;
	} else {
		plan->slots[0].batch_index--;
	}
	return st;
}

/* What a plan says of rows and does not do: the default plans instead. */
static void plans_that_break_a_promise_are_replaced(void **state)
{
	static const char *const rules[] = {"order", "progress", "progress"};
	const struct cohort_strategy s = {.struct_size = sizeof s,
			.name = "bad",
			.state_bytes = cohort_strategy_get(0)->state_bytes,
			.build_batch = plan_badly};
	const struct cohort_request_params p = ask(tokens_of(0), 5, 1);
	const struct core_limits lim = limits();
	(void)state;

	for (spoil = 0; spoil < 3; spoil++) {
		open_core(&lim);
		assert_int_equal(core_strategy_set(&core, &s, NULL), COHORT_OK);
		struct cohort_request *a = submit(&p), *b = submit(&p);
		core_tick(&core);
		assert_string_equal(core.tick.fallback, rules[spoil]);
		assert_int_equal(core.tick.n_prefill_rows, 10);
		assert_true(core_is_idle(&core));
		ended(a, COHORT_FINISH_LENGTH, 1);
		ended(b, COHORT_FINISH_LENGTH, 1);
		close_core();
	}
}

/* ---- Readers ---- */

static void count(struct cohort_request *r, void *user)
{
	(void)r;
	++*(int *)user;
}

/* Notices of all that there is to read, or of the end only; none of what is no event. A reader may wait as well. */
static void notices_of_events_and_of_ends(void **state)
{
	const struct core_limits lim = limits();
	struct cohort_event e;
	struct cohort_err err;
	(void)state;

	for (int at_end = 0; at_end < 2; at_end++) {
		struct cohort_request_params p = ask(tokens_of(0), 20, 5);
		int n = 0;
		open_core(&lim);
		p.on_ready = count;
		p.user = &n;
		p.ready_at_end = at_end;
		struct cohort_request *r = submit(&p);
		assert_int_equal(cohort_request_next(r, 0.001, &e, &err), COHORT_OK);
		assert_int_equal(e.kind, COHORT_EVENT_NONE);
		core_tick(&core); /* 16 rows of 20: it was admitted, and that is all */
		assert_int_equal(n, 0);
		core_tick(&core);
		assert_int_equal(n, !at_end);
		assert_int_equal(cohort_request_next(r, 0, &e, &err), COHORT_OK);
		assert_int_equal(e.kind, COHORT_EVENT_TOKEN);
		assert_int_equal(cohort_request_next(r, 0, &e, &err), COHORT_OK);
		assert_int_equal(e.kind, COHORT_EVENT_NONE);
		cohort_request_cancel(r);
		run();
		assert_int_equal(n, at_end ? 1 : 2);
		ended(r, COHORT_FINISH_CANCELLED, 0);
		close_core();
	}
}

/* An end without a text needs no memory. */
static void end_without_memory(void **state)
{
	const struct cohort_request_params p = ask(tokens_of(0), 5, 2);
	const struct core_limits lim = limits();
	struct cohort_event e;
	(void)state;

	open_core(&lim);
	struct cohort_request *r = submit(&p);
	cohort_request_cancel(r);
	run();
	mem_fail_all(true);
	assert_int_equal(cohort_request_next(r, 0, &e, NULL), COHORT_OK);
	mem_fail_all(false);
	assert_int_equal(e.kind, COHORT_EVENT_END);
	assert_string_equal(e.text, "");
	ended(r, COHORT_FINISH_CANCELLED, 0);
	close_core();
}

/* ---- Memory ---- */

/* As many allocations as there are must fail. */
static int opened_after(const struct cohort_request_params *p)
{
	struct cohort_request *r = NULL;
	uint64_t before = 0;
	int n = 0, n_all = 0;

	for (int i = 0; i < 2; i++) { /* the second time it has streams that were given back */
		before = mem_count();
		assert_int_equal(request_open(&core, p, &r, NULL), COHORT_OK);
		n_all = (int)(mem_count() - before);
		request_unref(r);
		request_unref(r);
	}
	for (r = NULL;; n++) {
		mem_fail_after(n);
		const enum cohort_status st = request_open(&core, p, &r, NULL);
		mem_fail_after(-1);
		if (!st)
			break;
		assert_int_equal(st, COHORT_E_MEMORY);
		assert_null(r);
	}
	request_unref(r);
	request_unref(r);
	assert_int_equal(n, n_all);
	return n;
}

/* Every allocation of a core and of requests fails in turn, locks and conditions among them. */
static void core_out_of_memory_at_every_point(void **state)
{
	const struct cohort_request_params embed = ask_embedding(0, 5);
	struct cohort_request_params p = ask(tokens_of(0), 5, 2);
	struct core_limits lim = limits();
	int n = 0;
	(void)state;

	lim.model = rig_model;
	lim.n_ids = 4;
	lim.keep_tokens = true;
	memset(&told, 0, sizeof told);
	told.stuck = -1;
	for (;; n++) {
		mem_fail_after(n);
		const enum cohort_status st = core_init(&core, &lim, &machine, NULL, NULL);
		mem_fail_after(-1);
		if (!st)
			break;
		assert_int_equal(st, COHORT_E_MEMORY);
	}
	assert_true(n > 25);
	assert_true(opened_after(&embed) > 2);
	p.chain_logprobs = true;
	assert_true(opened_after(&p) > 5);
	close_core();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
			cmocka_unit_test(one_state),
			cmocka_unit_test(states_saved),
			cmocka_unit_test(no_state),
			cmocka_unit_test(slot_tokens),
			cmocka_unit_test(where_they_part),
			cmocka_unit_test(many_nodes),
			cmocka_unit_test(tail_is_stuck),
			cmocka_unit_test(the_later_one),
			cmocka_unit_test(forks_alone),
			cmocka_unit_test(promised_blocks_that_are_not_to_be_had),
			cmocka_unit_test(not_looked_at),
			cmocka_unit_test(failed_rows),
			cmocka_unit_test(prompt_rows_that_are_no_numbers),
			cmocka_unit_test(texts_cancelled),
			cmocka_unit_test(plans_that_break_a_promise_are_replaced),
			cmocka_unit_test(notices_of_events_and_of_ends),
			cmocka_unit_test(end_without_memory),
			cmocka_unit_test(core_out_of_memory_at_every_point),
	};
	return cmocka_run_group_tests_name("engine_paths", tests, rig_set_up_random, rig_tear_down);
}
