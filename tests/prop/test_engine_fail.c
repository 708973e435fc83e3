/* What goes wrong under the engine: a machine that fails where it is told to. Whoever a failure is about ends with its
 * reason; everybody else says what they say alone, and nothing is lost.
 *
 * Shown red by planted faults: a named stream that takes its neighbour along (failure_that_names_its_sequence), halves
 * that are not tried on (failure_that_names_nobody_is_found_by_halving), a stream without room that is ended and not
 * parked (waits_for_room), or each parked for the other, so that two groups wait for each other (each_decode), a copy
 * whose failure is not seen, or that leaves more promised than there is (failed_copies_go_unnoticed), a block whose
 * removal failed and is tried again for ever (block_that_cannot_be_removed_stays), a state believed to be restored
 * (failed_swaps_of_streams), an adapter's failure that is not seen (adapter_that_cannot_be_set_ends_its_request), a
 * cancelled stream whose rows stay in the plan (cancel_between), a row that is not looked for before it is read
 * (rows_without_logits), first streams that end alone (first_of_several), each rule of a plan left unchecked
 * (plans_of_a_bad_strategy_are_replaced). */
#include "engine_rig.h"

#include "engine/core.h"
#include "engine/machine.h"
#include "engine_books.h"

enum { N_SLOTS = 8, N_UBATCH = 16, BLOCKS = 16 };

/* The machine: a context, and what it does wrong. */
static struct {
	struct cohort_context *ctx;
	struct machine real;
	/* Looks at rows before they are computed; what it returns is the outcome, unless it is OK. */
	enum cohort_status (*before)(const struct cohort_batch_raw *rows, struct cohort_err *err);
	int32_t n_decodes, n_copies, n_removals, n_saves, n_restores, n_adapters;
	int32_t bad_copy, bad_removal, bad_save, bad_restore, bad_adapter; /* how many-th fails; -1: none; -2: all */
	cohort_seq seq[N_UBATCH]; /* of the rows computed last */
	cohort_seq nan_seq; /* whose logits are not numbers; -1: nobody's */
	float *nans;
	struct cohort_request *victim;
	cohort_seq victim_seq;
	enum cohort_status status;
	int32_t at;
} trick;

static enum cohort_status trick_decode(void *self, const struct cohort_batch_raw *rows, struct cohort_err *err)
{
	(void)self;
	assert_true(rows->n_tokens > 0 && rows->n_tokens <= N_UBATCH);
	enum cohort_status st = trick.before ? trick.before(rows, err) : COHORT_OK;
	trick.n_decodes++;
	if (st)
		return st;
	memcpy(trick.seq, rows->seq, (size_t)rows->n_tokens * sizeof *rows->seq);
	return trick.real.decode(trick.real.self, rows, err);
}

static bool now_bad(int32_t which, int32_t *n)
{
	return (*n)++ == which || which == -2;
}

static enum cohort_status trick_cp(
		void *self, cohort_seq src, cohort_seq dst, cohort_pos p0, cohort_pos p1, struct cohort_err *err)
{
	(void)self;
	if (now_bad(trick.bad_copy, &trick.n_copies))
		return err_set(err, COHORT_E_MEMORY, "no copy today");
	return trick.real.seq_cp(trick.real.self, src, dst, p0, p1, err);
}

/* Only where somebody looks at the outcome. */
static enum cohort_status trick_rm(void *self, cohort_seq seq, cohort_pos p0, cohort_pos p1, struct cohort_err *err)
{
	(void)self;
	if (err && now_bad(trick.bad_removal, &trick.n_removals))
		return err_set(err, COHORT_E_MEMORY, "not removed");
	return trick.real.seq_rm(trick.real.self, seq, p0, p1, err);
}

static enum cohort_status trick_save(void *self, cohort_seq seq, void *out, size_t n_max, struct cohort_err *err)
{
	(void)self;
	if (now_bad(trick.bad_save, &trick.n_saves))
		return err_set(err, COHORT_E_MEMORY, "not saved");
	return trick.real.state_save(trick.real.self, seq, out, n_max, err);
}

static enum cohort_status trick_restore(void *self, cohort_seq seq, const void *bytes, size_t n, struct cohort_err *err)
{
	(void)self;
	if (now_bad(trick.bad_restore, &trick.n_restores))
		return err_set(err, COHORT_NO_ROOM, "not restored");
	return trick.real.state_restore(trick.real.self, seq, bytes, n, err);
}

static enum cohort_status trick_adapter(
		void *self, cohort_seq seq, const struct cohort_adapter *adapter, float scale, struct cohort_err *err)
{
	(void)self;
	if (now_bad(trick.bad_adapter, &trick.n_adapters))
		return err_set(err, COHORT_E_MEMORY, "no adapter today");
	return trick.real.adapter_set(trick.real.self, seq, adapter, scale, err);
}

static const float *trick_logits(void *self, int32_t row)
{
	(void)self;
	return trick.seq[row] == trick.nan_seq ? trick.nans : trick.real.logits(trick.real.self, row);
}

/* ---- A core ---- */

static struct core core;

static void world_open(bool overcommit, size_t swap_bytes, int32_t n_blocks)
{
	struct cohort_model_info info = {.struct_size = sizeof info};
	struct cohort_context_params cp;
	const int32_t size = pool_block_size();

	memset(&trick, 0, sizeof trick);
	trick.bad_copy = trick.bad_removal = trick.bad_save = trick.bad_restore = -1;
	trick.bad_adapter = trick.nan_seq = -1;
	cohort_model_info_get(rig_model, &info);
	trick.nans = calloc((size_t)info.n_vocab, sizeof *trick.nans);
	for (int32_t i = 0; i < info.n_vocab; i++)
		trick.nans[i] = NAN;
	cohort_context_params_init(&cp);
	cp.n_ctx = n_blocks * size;
	cp.n_blocks = pool_blocks(cp.n_ctx, 0);
	cp.n_batch = cp.n_ubatch = N_UBATCH;
	cp.n_seq_max = N_SLOTS + n_blocks;
	cp.n_threads = 1;
	assert_int_equal(cohort_context_open(rig_model, &cp, &trick.ctx, NULL), COHORT_OK);
	trick.real = machine_of_context(trick.ctx);
	struct machine m = trick.real;
	m.decode = trick_decode;
	m.seq_cp = trick_cp;
	m.seq_rm = trick_rm;
	m.state_save = trick_save;
	m.state_restore = trick_restore;
	m.adapter_set = trick_adapter;
	m.logits = trick_logits;
	const struct core_limits lim = {
			.model = rig_model,
			.text = true,
			.n_vocab = info.n_vocab,
			.n_embd = info.n_embd,
			.n_slots = N_SLOTS,
			.n_ubatch = N_UBATCH,
			.budget = 3 * N_UBATCH,
			.chunk_size = 24,
			.block_size = size,
			.n_blocks = n_blocks,
			.n_pos_max = n_blocks * size,
			.n_ids = n_blocks,
			.logits = true,
			.overcommit = overcommit,
			.swap_bytes = swap_bytes,
			.queue_requests_max = 100,
			.queue_tokens_max = 100000,
			.wait_max_s = 1000,
	};
	assert_int_equal(core_init(&core, &lim, &m, NULL, NULL), COHORT_OK);
}

/* All books must be empty by now, those of the context, too. */
static void world_close(void)
{
	struct cohort_usage usage;

	assert_int_equal(core.n_idle, N_SLOTS);
	assert_int_equal(core.blocks.n_private, 0);
	assert_int_equal(core.blocks.n_reserved, 0);
	assert_int_equal(core.blocks.swap_used, 0);
	assert_int_equal(prefix_n_pinned(core.prefix), 0);
	assert_true(prefix_consistent(core.prefix));
	assert_true(queue_consistent(core.shared.queue));
	cohort_usage_get(trick.ctx, &usage);
	assert_int_equal(usage.n_used, prefix_n_held(core.prefix));
	core_shut(&core);
	core_release(&core);
	cohort_context_free(trick.ctx);
	free(trick.nans);
}

static struct cohort_request *world_submit(const struct job *j)
{
	struct cohort_request *r;
	struct cohort_err err;

	if (request_open(&core, &j->p, &r, &err) || core_submit(&core, r, &err))
		fail_msg("%s", err.text);
	return r;
}

static void world_run(void)
{
	for (int n = 0; !core_is_idle(&core); n++) {
		assert_true(n < 2000);
		core_tick(&core);
		/* Whatever failed, no more was promised than there is. */
		assert_true(core.blocks.n_private <= core.blocks.n_reserved);
		assert_true(core.blocks.n_reserved + prefix_n_pinned(core.prefix) <= core.lim.n_blocks);
	}
}

/* Some of everything: beginnings that are alike, several outputs, sessions, log-probabilities, nothing to say. */
enum { N_CROWD = 8 };
static struct job crowd[N_CROWD];
static struct cohort_request *crowd_r[N_CROWD];

static void crowd_make(void)
{
	static const int32_t n_prompt[N_CROWD] = {20, 40, 70, 70, 33, 9, 45, 75};
	static const uint64_t seed[N_CROWD] = {1, 2, 3, 3, 4, 5, 2, 3};

	for (int i = 0; i < N_CROWD; i++) {
		rig_job(&crowd[i], seed[i], n_prompt[i], 3 + i % 4);
		crowd[i].p.session = i % 3 == 0;
		crowd[i].p.n_outputs = i == 1 || i == 7 ? 3 : 1;
		crowd[i].p.n_logprobs = 1;
	}
	crowd[4].p.prompt_logprobs = true;
	crowd[5].p.max_tokens = 0;
}

static void crowd_submit(void)
{
	for (int i = 0; i < N_CROWD; i++)
		crowd_r[i] = world_submit(&crowd[i]);
}

static bool has_failed(struct cohort_request *r, int32_t k)
{
	return rig_output(r, k).finish == COHORT_FINISH_ERROR;
}

/* Whoever did not fail said what it says alone; frees the requests. Returns how many outputs failed, each with
 * `status`. */
static int crowd_check(enum cohort_status status)
{
	int n = 0;

	for (int i = 0; i < N_CROWD; i++) {
		for (int32_t k = 0; k < crowd[i].p.n_outputs; k++) {
			const bool failed = has_failed(crowd_r[i], k);
			n += failed;
			rig_check_output(crowd_r[i], &crowd[i], k, failed);
			if (failed) {
				assert_non_null(rig_output(crowd_r[i], k).error);
				assert_int_equal(rig_output(crowd_r[i], k).error->status, status);
			}
		}
		cohort_request_free(crowd_r[i]);
	}
	return n;
}

/* ---- Decoding ---- */

static bool has_victim(const struct cohort_batch_raw *rows)
{
	for (int32_t i = 0; i < rows->n_tokens; i++)
		if (trick.victim && trick.victim->streams[0].slot == rows->seq[i])
			return true;
	return false;
}

static enum cohort_status name_victim(const struct cohort_batch_raw *rows, struct cohort_err *err)
{
	if (!has_victim(rows) || trick.victim->streams[0].n_known < trick.at)
		return COHORT_OK;
	return err_rule(err, trick.status, "finite", 0, trick.victim->streams[0].slot, 0, 0, "the victim's row");
}

static enum cohort_status blame_nobody(const struct cohort_batch_raw *rows, struct cohort_err *err)
{
	if (!has_victim(rows) || trick.victim->streams[0].n_known < trick.at)
		return COHORT_OK;
	return err_set(err, trick.status, "something is wrong");
}

/* A crowd in which request v cannot be computed: from its prompt on, or from its third token on. */
static void run_victim(int v, bool late, enum cohort_status status,
		enum cohort_status (*before)(const struct cohort_batch_raw *rows, struct cohort_err *err))
{
	world_open(false, 0, BLOCKS);
	crowd_submit();
	trick.victim = crowd_r[v];
	trick.status = status;
	trick.at = late ? crowd[v].p.n_prompt + 2 : 0;
	trick.before = before;
	world_run();
	trick.victim = NULL;
}

/* A failure that names its sequence, within a prompt and while generating: one retry, one end. */
static void failure_that_names_its_sequence(void **state)
{
	(void)state;
	for (int v = 0; v < N_CROWD; v++)
		for (int late = 0; late < 2; late++) {
			run_victim(v, late, COHORT_E_NUMERIC, name_victim);
			const bool hit = !late || crowd[v].p.max_tokens > 1;
			assert_int_equal(core.live.n_retries, hit);
			assert_int_equal(crowd_check(COHORT_E_NUMERIC), !hit ? 0 : late ? 1 : crowd[v].p.n_outputs);
			world_close();
		}
}

/* One that names nobody: found by halving, in few tries. */
static void failure_that_names_nobody_is_found_by_halving(void **state)
{
	(void)state;
	for (int v = 0; v < N_CROWD; v++)
		for (int late = 0; late < 2; late++) {
			run_victim(v, late, COHORT_E_BUG, blame_nobody);
			/* Eight streams at most: three halvings, each with one that works and one that does not. */
			assert_true(core.live.n_retries <= 4);
			assert_true(late || core.live.n_retries > 0);
			const bool hit = !late || crowd[v].p.max_tokens > 1;
			assert_int_equal(crowd_check(COHORT_E_BUG), !hit ? 0 : late ? 1 : crowd[v].p.n_outputs);
			world_close();
		}
}

static enum cohort_status fail_once(const struct cohort_batch_raw *rows, struct cohort_err *err)
{
	(void)rows;
	return trick.n_decodes == trick.at ? err_set(err, trick.status, "once") : COHORT_OK;
}

static enum cohort_status fail_from(const struct cohort_batch_raw *rows, struct cohort_err *err)
{
	(void)rows;
	return trick.n_decodes >= trick.at ? err_set(err, trick.status, "for ever") : COHORT_OK;
}

/* Every decode in turn fails once, as if memory were out or something broken: only a stream that is alone in it can be
 * meant. Then from each on all fail: everybody ends, and the thread would live on. */
static void each_decode(void **state)
{
	static const enum cohort_status statuses[] = {COHORT_E_MEMORY, COHORT_E_NUMERIC, COHORT_NO_ROOM};

	(void)state;
	for (size_t k = 0; k < 3; k++)
		for (int overcommit = 0; overcommit < 2; overcommit++)
			for (int at = 0; at < 12; at++) {
				world_open(overcommit, 0, BLOCKS);
				crowd_submit();
				trick.status = statuses[k];
				trick.at = at;
				trick.before = fail_once;
				world_run();
				assert_true(crowd_check(statuses[k]) <= 3);
				/* After that from here on, and when that is over all is well again. */
				trick.at = trick.n_decodes + at;
				trick.before = fail_from;
				crowd_submit();
				world_run();
				assert_true(crowd_check(statuses[k]) > 0);
				trick.before = NULL;
				crowd_submit();
				world_run();
				assert_int_equal(crowd_check(COHORT_OK), 0);
				world_close();
			}
}

/* No room where there should have been: cached prompts go, then the stream waits until the others have gone. */
static void no_room_where_there_should_be(void **state)
{
	(void)state;
	for (int v = 0; v < N_CROWD; v++) {
		world_open(false, 0, BLOCKS);
		crowd_submit();
		world_run();
		assert_int_equal(crowd_check(COHORT_OK), 0);
		assert_true(prefix_n_held(core.prefix) > 0);
		trick.at = trick.n_decodes;
		trick.status = COHORT_NO_ROOM;
		trick.before = fail_once;
		crowd_submit();
		world_run();
		assert_int_equal(core.live.n_retries, 1);
		assert_int_equal(core.live.n_parked, 0);
		assert_true(core.live.n_evicted > 0);
		assert_int_equal(crowd_check(COHORT_OK), 0);
		world_close();
	}
}

static enum cohort_status no_room_beside(const struct cohort_batch_raw *rows, struct cohort_err *err)
{
	bool others = false;

	for (int32_t i = 0; i < N_CROWD; i++)
		for (int32_t k = 0; k < crowd[i].p.n_outputs; k++) {
			const struct stream *s = &crowd_r[i]->streams[k];
			others = others || (crowd_r[i] != trick.victim && s->slot >= 0 && s->n_cached > 0);
		}
	if (!others || !has_victim(rows))
		return COHORT_OK;
	return err_rule(err, COHORT_NO_ROOM, "kv-room", 0, trick.victim->streams[0].slot, 0, 0, "only alone");
}

/* A stream that has room only when it is alone is parked, and says the same in the end. */
static void waits_for_room(void **state)
{
	(void)state;
	for (int v = 0; v < N_CROWD; v++) {
		world_open(true, 0, 3 * BLOCKS);
		crowd_submit();
		trick.victim = crowd_r[v];
		trick.before = no_room_beside;
		world_run();
		assert_true(core.live.n_parked > 0);
		assert_int_equal(core.live.n_resumed, core.live.n_parked);
		trick.before = NULL;
		assert_int_equal(crowd_check(COHORT_OK), 0);
		world_close();
	}
}

/* ---- Copies and swaps ---- */

/* Every copy of cells in turn fails (prompts that are found, kept, forked, tails of sessions): nobody notices. */
static void failed_copies_go_unnoticed(void **state)
{
	int n = 0;

	(void)state;
	for (int overcommit = 0; overcommit < 2; overcommit++)
		for (int at = -2, more = 1; more; at++) {
			world_open(overcommit, 0, BLOCKS);
			trick.bad_copy = at;
			crowd_submit();
			world_run();
			assert_int_equal(crowd_check(COHORT_OK), 0);
			crowd_submit(); /* now that prompts are there */
			world_run();
			assert_int_equal(crowd_check(COHORT_OK), 0);
			more = at < 0 || trick.n_copies > at;
			n += more;
			world_close();
		}
	assert_true(n > 30);
}

/* A block that somebody else was faster with stays the stream's own when it cannot be removed. */
static void block_that_cannot_be_removed_stays(void **state)
{
	int n = 0;

	(void)state;
	/* These want every row, so they do not wait for those with the same prompts. */
	crowd[3].p.prompt_logprobs = crowd[6].p.prompt_logprobs = true;
	for (int at = -2, more = 1; more; at++) {
		world_open(false, 0, BLOCKS);
		trick.bad_removal = at;
		crowd_submit();
		world_run();
		assert_int_equal(crowd_check(COHORT_OK), 0);
		more = at < 0 || trick.n_removals > at;
		n += more;
		world_close();
	}
	assert_true(n > 2);
	crowd[3].p.prompt_logprobs = crowd[6].p.prompt_logprobs = false;
}

/* So little room that streams are swapped out and in; every save and every restore fails in turn. */
static void failed_swaps_of_streams(void **state)
{
	int n = 0;

	(void)state;
	for (int i = 0; i < N_CROWD; i++)
		crowd[i].p.max_tokens = i == 5 ? 0 : 20 + 5 * i;
	for (int at = -2, more = 1; more; at++)
		for (int which = 0; which < 2; which++) {
			world_open(true, (size_t)1 << 20, 6);
			trick.bad_save = which ? -1 : at;
			trick.bad_restore = which ? at : -1;
			crowd_submit();
			world_run();
			assert_int_equal(crowd_check(COHORT_OK), 0);
			more = at < 0 || trick.n_saves > at || trick.n_restores > at;
			n += trick.n_restores;
			world_close();
		}
	assert_true(n > 10);
	crowd_make();
}

/* ---- Samplers, adapters, first streams ---- */

/* A sampler that has nothing left to choose from, and logits that are not numbers. */
static void samplers_with_nothing_to_choose(void **state)
{
	struct cohort_model_info info = {.struct_size = sizeof info};

	(void)state;
	cohort_model_info_get(rig_model, &info);
	struct cohort_logit_bias *bias = calloc((size_t)info.n_vocab, sizeof *bias);
	for (int32_t i = 0; i < info.n_vocab; i++)
		bias[i] = (struct cohort_logit_bias){i, -INFINITY};
	world_open(false, 0, BLOCKS);
	for (int v = 0; v < N_CROWD; v++) {
		if (crowd[v].p.max_tokens == 0)
			continue;
		crowd[v].p.sampler.bias = bias;
		crowd[v].p.sampler.n_bias = info.n_vocab;
		crowd_submit();
		crowd[v].p.sampler.n_bias = 0;
		world_run();
		const struct cohort_output o = rig_output(crowd_r[v], crowd[v].p.n_outputs - 1);
		assert_int_equal(o.finish, COHORT_FINISH_ERROR);
		assert_int_equal(o.n_tokens, 0);
		assert_non_null(strstr(o.error->text, "token 0 of output"));
		assert_int_equal(crowd_check(COHORT_E_NUMERIC), crowd[v].p.n_outputs);
	}
	for (int v = 0; v < N_SLOTS; v++) {
		crowd_submit();
		for (int i = 0; i < 6; i++)
			core_tick(&core);
		trick.nan_seq = v;
		while (!core_is_idle(&core)) { /* only who has the slot now */
			core_tick(&core);
			trick.nan_seq = -1;
		}
		assert_true(crowd_check(COHORT_E_NUMERIC) <= 3);
	}
	world_close();
	free(bias);
}

static void adapter_that_cannot_be_set_ends_its_request(void **state)
{
	(void)state;
	for (int v = 0; v < 12; v++) {
		world_open(false, 0, BLOCKS);
		trick.bad_adapter = v;
		crowd_submit();
		world_run();
		/* A stream in a slot without its adapter must not say a word. */
		assert_true(crowd_check(COHORT_E_MEMORY) > 0);
		world_close();
	}
}

/* While the others wait for the first one's prompt they end with it; afterwards each is on its own. */
static void first_of_several(void **state)
{
	struct job j;

	(void)state;
	for (int late = 0; late < 2; late++) {
		world_open(false, 0, BLOCKS);
		rig_job(&j, 5, 60, 6);
		j.p.n_outputs = 4;
		struct cohort_request *r = world_submit(&j);
		trick.victim = r;
		trick.status = COHORT_E_BUG;
		trick.at = late ? 62 : 0;
		trick.before = blame_nobody;
		core_tick(&core);
		world_run();
		for (int32_t k = 0; k < 4; k++) {
			const bool failed = !late || k == 0;
			assert_int_equal(rig_output(r, k).finish, failed ? COHORT_FINISH_ERROR : COHORT_FINISH_LENGTH);
			assert_int_equal(rig_output(r, k).n_tokens, !late ? 0 : k ? 6 : 2);
			rig_check_output(r, &j, k, failed);
		}
		assert_int_equal(core.live.n_ended[COHORT_FINISH_ERROR] + core.live.n_ended[COHORT_FINISH_LENGTH], 1);
		cohort_request_free(r);
		world_close();
	}
}

/* ---- Cancelling within a tick ---- */

static enum cohort_status cancel_at(const struct cohort_batch_raw *rows, struct cohort_err *err)
{
	(void)err;
	if (trick.n_decodes == trick.at)
		cohort_request_cancel(trick.victim);
	else if (trick.n_decodes > trick.at) /* from the next ubatch on there is nothing of it */
		for (int32_t i = 0; i < rows->n_tokens; i++)
			assert_true(rows->seq[i] != trick.victim_seq || trick.victim->streams[0].slot < 0);
	trick.victim_seq = trick.victim->streams[0].slot >= 0 ? trick.victim->streams[0].slot : trick.victim_seq;
	return COHORT_OK;
}

/* Cancelled between two ubatches of a tick: no row of it is computed after that, though the tick goes on. */
static void cancel_between(void **state)
{
	(void)state;
	for (int v = 0; v < N_CROWD; v++)
		for (int at = 0; at < 8; at++) {
			world_open(false, 0, BLOCKS);
			trick.bad_adapter = -1;
			crowd_submit();
			trick.victim = crowd_r[v];
			trick.victim_seq = -1;
			trick.at = at;
			trick.before = cancel_at;
			while (trick.n_decodes <= at)
				core_tick(&core);
			core_tick(&core);
			assert_int_equal(crowd_r[v]->n_live, 0); /* and by now it holds nothing any more */
			trick.before = NULL;
			world_run();
			for (int i = 0; i < N_CROWD; i++) {
				for (int32_t k = 0; k < crowd[i].p.n_outputs; k++)
					rig_check_output(crowd_r[i], &crowd[i], k,
							i == v &&
									rig_output(crowd_r[i], k).finish ==
											COHORT_FINISH_CANCELLED);
				cohort_request_free(crowd_r[i]);
			}
			world_close();
		}
}

/* ---- Strategies that answer badly ---- */

struct fault {
	const char *rule;
	enum cohort_status (*spoil)(struct cohort_plan *plan);
};

static enum cohort_status say_no(struct cohort_plan *p)
{
	(void)p;
	return COHORT_E_BUG;
}

static enum cohort_status plan_none(struct cohort_plan *p)
{
	p->n_entries = 0;
	return COHORT_OK;
}

static enum cohort_status plan_many(struct cohort_plan *p)
{
	p->n_entries = p->budget + 1;
	return COHORT_OK;
}

static enum cohort_status plan_fewer_than_none(struct cohort_plan *p)
{
	p->n_entries = -1;
	return COHORT_OK;
}

static enum cohort_status other_slot(struct cohort_plan *p)
{
	p->entries[0].seq = N_SLOTS;
	return COHORT_OK;
}

static enum cohort_status negative_slot(struct cohort_plan *p)
{
	p->entries[p->n_entries - 1].seq = -7;
	return COHORT_OK;
}

static enum cohort_status same_again(struct cohort_plan *p)
{
	p->entries[p->n_entries] = p->entries[p->n_entries - 1];
	p->n_entries++;
	return COHORT_OK;
}

static enum cohort_status skip_one(struct cohort_plan *p)
{
	p->entries[0].pos++;
	return COHORT_OK;
}

static enum cohort_status other_token(struct cohort_plan *p)
{
	p->entries[0].token ^= 1;
	return COHORT_OK;
}

static enum cohort_status no_logits(struct cohort_plan *p)
{
	p->entries[0].logits = !p->entries[0].logits;
	return COHORT_OK;
}

static enum cohort_status long_chunk(struct cohort_plan *p)
{
	const int32_t budget = p->budget, chunk = p->chunk_size;
	/* More of one prompt than a chunk, through the front door. */
	p->n_entries = 0;
	for (int32_t i = 0; i < p->n_slots; i++) {
		struct cohort_slot *s = &p->slots[i];
		if (s->state != COHORT_SLOT_PREFILLING || s->n_prompt - (s->n_prefilled - s->n_planned) <= chunk)
			continue;
		s->pos -= s->n_planned;
		s->n_prefilled -= s->n_planned;
		s->n_planned = 0;
		p->chunk_size = budget;
		cohort_plan_add(p, s, budget);
		p->chunk_size = chunk;
		return COHORT_OK;
	}
	return COHORT_E_UNSUPPORTED; /* nobody has such a prompt */
}

static enum cohort_status wrong_pos(struct cohort_plan *p)
{
	p->slots[p->n_slots - 1].pos++;
	return COHORT_OK;
}

static enum cohort_status wrong_index(struct cohort_plan *p)
{
	p->slots[0].batch_index = p->slots[0].batch_index < 0 ? 0 : -1;
	return COHORT_OK;
}

static enum cohort_status far_index(struct cohort_plan *p)
{
	p->slots[0].batch_index = 1 << 30;
	return COHORT_OK;
}

static enum cohort_status wrong_id(struct cohort_plan *p)
{
	p->slots[0].id = 1 << 30;
	return COHORT_OK;
}

static enum cohort_status wrong_count(struct cohort_plan *p)
{
	if (p->slots[0].state == COHORT_SLOT_PREFILLING)
		p->slots[0].n_prefilled++;
	else
		p->slots[0].pending = p->slots[0].pending < 0 ? 0 : -1;
	return COHORT_OK;
}

static enum cohort_status other_arrays(struct cohort_plan *p)
{
	static struct cohort_slot slots[N_SLOTS];
	memcpy(slots, p->slots, (size_t)p->n_slots * sizeof *slots);
	p->slots = slots;
	return COHORT_OK;
}

static enum cohort_status other_entries(struct cohort_plan *p)
{
	static struct cohort_entry entries[64];
	assert_true(p->n_entries <= 64);
	memcpy(entries, p->entries, (size_t)p->n_entries * sizeof *entries);
	p->entries = entries;
	return COHORT_OK;
}

static enum cohort_status fewer_slots(struct cohort_plan *p)
{
	p->n_slots--;
	return COHORT_OK;
}

static enum cohort_status idle_slot(struct cohort_plan *p)
{
	for (cohort_seq id = 0; id < N_SLOTS; id++) {
		bool planned = false;
		for (int32_t i = 0; i < p->n_slots; i++)
			planned = planned || p->slots[i].id == id;
		if (!planned) {
			p->entries[0].seq = id;
			return COHORT_OK;
		}
	}
	return COHORT_E_UNSUPPORTED; /* all have something to do */
}

/* The place is right, but nothing is known there yet. */
static enum cohort_status one_too_far(struct cohort_plan *p)
{
	for (int32_t i = 0; i < p->n_entries; i++)
		if (p->entries[i].logits && p->n_entries < p->budget) {
			p->entries[p->n_entries] = p->entries[i];
			p->entries[p->n_entries++].pos++;
			return COHORT_OK;
		}
	return COHORT_E_UNSUPPORTED;
}

/* An entry of somebody else, or the last but one of its own. */
static enum cohort_status next_index(struct cohort_plan *p)
{
	struct cohort_slot *s = &p->slots[0];
	s->batch_index = s->batch_index < 0 || p->n_entries < 2 ? 1 << 30 : (s->batch_index + 1) % p->n_entries;
	return COHORT_OK;
}

static enum cohort_status index_before(struct cohort_plan *p)
{
	for (int32_t i = 0; i < p->n_slots; i++)
		if (p->slots[i].n_planned > 1 && p->slots[i].batch_index > 0) {
			p->slots[i].batch_index--;
			return COHORT_OK;
		}
	return COHORT_E_UNSUPPORTED; /* nobody's prompt ends here with several rows */
}

/* Rows behind the budget, as far as there are places: the answers, and the tick's own books, must not notice. */
static enum cohort_status fill_all_places(struct cohort_plan *p)
{
	while (p->n_entries < p->budget + ENTRIES_BEYOND) {
		p->entries[p->n_entries] = p->entries[0];
		p->n_entries++;
	}
	return COHORT_OK;
}

/* cohort_plan_add believes the plan. */
static enum cohort_status higher_budget_used(struct cohort_plan *p)
{
	p->budget += ENTRIES_BEYOND;
	p->chunk_size += ENTRIES_BEYOND;
	for (int32_t i = 0; i < p->n_slots; i++)
		cohort_plan_add(p, &p->slots[i], ENTRIES_BEYOND);
	return COHORT_OK;
}

static enum cohort_status other_chunk_size(struct cohort_plan *p)
{
	p->chunk_size++;
	return COHORT_OK;
}

static enum cohort_status other_state(struct cohort_plan *p)
{
	p->slots[0].state = COHORT_SLOT_PARKED;
	return COHORT_OK;
}

static enum cohort_status other_prompt(struct cohort_plan *p)
{
	p->slots[0].prompt++;
	return COHORT_OK;
}

static enum cohort_status prompt_of_generating(struct cohort_plan *p)
{
	for (int32_t i = 0; i < p->n_slots; i++)
		if (p->slots[i].state == COHORT_SLOT_GENERATING) {
			p->slots[i].n_prefilled--;
			return COHORT_OK;
		}
	return COHORT_E_UNSUPPORTED;
}

static const struct fault faults[] = {
		{"status", say_no},
		{"empty", plan_none},
		{"budget", plan_many},
		{"budget", plan_fewer_than_none},
		{"slot", other_slot},
		{"slot", negative_slot},
		{"order", same_again},
		{"order", skip_one},
		{"token", other_token},
		{"logits", no_logits},
		{"chunk", long_chunk},
		{"progress", wrong_pos},
		{"progress", wrong_index},
		{"progress", far_index},
		{"progress", wrong_id},
		{"progress", wrong_count},
		{"progress", other_arrays},
		{"progress", other_entries},
		{"progress", fewer_slots},
		{"slot", idle_slot},
		{"order", one_too_far},
		{"progress", next_index},
		{"progress", index_before},
		{"budget", fill_all_places},
		{"budget", higher_budget_used},
		{"chunk", other_chunk_size},
		{"progress", other_state},
		{"progress", other_prompt},
		{"progress", prompt_of_generating},
};

/* As the default does, then spoilt; but every third plan is good. */
static bool spoilt; /* the plan made last */

static enum cohort_status build_badly(const struct cohort_strategy *self, void *state, struct cohort_plan *plan)
{
	const struct fault *f = self->user;
	uint64_t *n = state;
	enum cohort_status st = cohort_strategy_get(0)->build_batch(cohort_strategy_get(0), n + 1, plan);

	spoilt = false;
	if (st || (*n)++ % 3 == 2)
		return st;
	spoilt = true;
	if (f->spoil == same_again && plan->n_entries == plan->budget)
		plan->n_entries--;
	return f->spoil(plan);
}

static void plans_of_a_bad_strategy_are_replaced(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
		struct cohort_strategy s = {
				.struct_size = sizeof s,
				.name = "bad",
				.state_bytes = sizeof(uint64_t) + cohort_strategy_get(0)->state_bytes,
				.user = (void *)(uintptr_t)&faults[i],
				.build_batch = build_badly,
		};
		int n_bad = 0, n_good = 0;
		world_open(false, 0, BLOCKS);
		assert_int_equal(core_strategy_set(&core, &s, NULL), COHORT_OK);
		crowd_submit();
		while (!core_is_idle(&core)) {
			const uint64_t before = core.live.n_fallbacks;
			core_tick(&core);
			if (core.live.n_fallbacks == before) {
				assert_null(core.tick.fallback);
				assert_false(spoilt);
				n_good++;
				continue;
			}
			assert_int_equal(core.live.n_fallbacks, before + 1);
			assert_non_null(core.tick.fallback);
			assert_true(core.tick.n_decode_rows + core.tick.n_prefill_rows >
					0); /* the default planned it */
			assert_string_equal(core.live.fallback.rule, core.tick.fallback);
			if (core.live.fallback.got != COHORT_E_UNSUPPORTED)
				assert_string_equal(core.tick.fallback, faults[i].rule);
			n_bad += strcmp(core.tick.fallback, faults[i].rule) == 0;
			assert_non_null(strstr(core.live.fallback.text, core.tick.fallback));
		}
		assert_int_equal(crowd_check(COHORT_OK), 0);
		assert_true(n_bad > 0 && n_good > 0);
		world_close();
	}
}

/* ---- Rows ---- */

/* Rows that were computed and are not there, of prompts and of answers: whose they are end, and say it is a bug. */
static void rows_without_logits(void **state)
{
	int n_failed = 0;

	(void)state;
	world_open(false, 0, BLOCKS);
	float *nans = trick.nans;
	trick.nans = NULL;
	for (int v = 0; v < 2 * N_SLOTS; v++) {
		crowd_submit();
		for (int i = 0; i < 6 && v >= N_SLOTS; i++)
			core_tick(&core);
		trick.nan_seq = v % N_SLOTS;
		while (!core_is_idle(&core)) {
			core_tick(&core);
			trick.nan_seq = -1;
		}
		n_failed += crowd_check(COHORT_E_BUG);
	}
	assert_true(n_failed > 4);
	trick.nans = nans;
	world_close();
}

static int set_up(void **state)
{
	if (rig_set_up_random(state))
		return -1;
	crowd_make();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
			cmocka_unit_test(failure_that_names_its_sequence),
			cmocka_unit_test(failure_that_names_nobody_is_found_by_halving),
			cmocka_unit_test(each_decode),
			cmocka_unit_test(no_room_where_there_should_be),
			cmocka_unit_test(waits_for_room),
			cmocka_unit_test(failed_copies_go_unnoticed),
			cmocka_unit_test(block_that_cannot_be_removed_stays),
			cmocka_unit_test(failed_swaps_of_streams),
			cmocka_unit_test(samplers_with_nothing_to_choose),
			cmocka_unit_test(adapter_that_cannot_be_set_ends_its_request),
			cmocka_unit_test(first_of_several),
			cmocka_unit_test(cancel_between),
			cmocka_unit_test(plans_of_a_bad_strategy_are_replaced),
			cmocka_unit_test(rows_without_logits),
	};
	return cmocka_run_group_tests_name("engine_fail", tests, set_up, rig_tear_down);
}
