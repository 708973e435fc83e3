/* What the engine costs beside decoding and sampling.
 *
 * Two jobs:
 *  1. The built-in model, 32 slots that all generate: the share of the time that is neither decode nor sampling, for a
 *     job as a whole (admission and prompts included) and for its ticks of 32 generating rows. Prompts are distinct and
 *     random, nothing is reused. The limit is 2 %.
 *  2. A machine that computes nothing, 1,024 slots (and others): microseconds per tick by real time, of all that the
 *     engine does and of what it does beside taking tokens (which is where sampling would be). Two loads: every slot
 *     generates; and requests end and are replaced all the time, with 512 rows of prompts in every tick and reuse on,
 *     so that blocks are cached and evicted as well. The limit is 50 us beside sampling for 1,024 rows of 1,024 slots;
 *     the second load has half as many rows again, and its figure stands beside it.
 * Figures are medians over rounds; --raw prints those. --check: exit 1 when a limit is missed. */
#include "base/mem.h"
#include "base/pool.h"
#include "base/rng.h"
#include "cohort_engine.h"
#include "common.h"
#include "engine/core.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char prog[] = "bench_engine";

enum { ROUNDS_MAX = 99 };

static int by_value(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double median(const double *x, int n)
{
	double s[ROUNDS_MAX];
	memcpy(s, x, (size_t)n * sizeof *s);
	qsort(s, (size_t)n, sizeof *s, by_value);
	return n % 2 ? s[n / 2] : (s[n / 2 - 1] + s[n / 2]) / 2;
}

static bool missed; /* a limit */

static const char *against(double x, double limit)
{
	missed = missed || x > limit;
	return x > limit ? "missed" : "held";
}

static void print_rounds(const char *what, const double *x, int n)
{
	printf("  rounds of %s:", what);
	for (int i = 0; i < n; i++)
		printf(" %.3f", x[i]);
	printf("\n");
}

/* ---- The built-in model ---- */

enum { SLOTS = 32, PROMPT = 64, GENERATE = 96 };

/* Of the ticks that had a generating row of every slot. */
struct share {
	double total_s, other_s;
	int n_ticks;
};

static void note_tick(const struct cohort_tick *t, void *user)
{
	struct share *s = user;
	if (t->n_decode_rows < SLOTS || t->n_prefill_rows > 0)
		return;
	s->total_s += t->total_s;
	s->other_s += t->total_s - t->decode_s - t->sample_s;
	s->n_ticks++;
}

static void fill_prompt(cohort_token *prompt, int32_t n, int32_t n_vocab, uint64_t seed)
{
	struct rng rng;
	rng_init(&rng, seed, 1);
	for (int32_t i = 0; i < n; i++)
		prompt[i] = 3 + (cohort_token)(rng_u32(&rng) % (uint32_t)(n_vocab - 3));
}

static enum cohort_status submit_random(struct cohort_engine *e, const struct cohort_model *model, uint64_t seed,
		struct cohort_request **out, struct cohort_err *err)
{
	struct cohort_model_info info = {.struct_size = sizeof info};
	struct cohort_request_params p;
	cohort_token prompt[PROMPT];

	cohort_model_info_get(model, &info);
	fill_prompt(prompt, PROMPT, info.n_vocab, seed);
	cohort_request_params_init(&p);
	p.prompt = prompt;
	p.n_prompt = PROMPT;
	p.max_tokens = GENERATE;
	p.ignore_eos = true;
	p.sampler.seed = seed;
	return cohort_engine_submit(e, &p, out, err);
}

/* One job of 32 requests: percent of the whole time, and of the full ticks' time. */
static enum cohort_status run_model(const struct cohort_model *model, int32_t n_threads, int round, double *whole,
		double *full, struct cohort_err *err)
{
	struct cohort_request *requests[SLOTS] = {NULL};
	struct cohort_engine_stats stats;
	struct cohort_engine_params p;
	struct cohort_engine *e = NULL;
	struct share share = {0};
	bool idle = false;

	cohort_engine_params_init(&p);
	p.n_slots = SLOTS;
	p.context.n_ctx = SLOTS * (PROMPT + GENERATE + 32);
	p.context.n_threads = n_threads;
	p.no_reuse = true;
	p.manual = true;
	p.on_tick = note_tick;
	p.on_tick_user = &share;
	enum cohort_status st = cohort_engine_open(model, &p, &e, err);
	for (int i = 0; !st && i < SLOTS; i++)
		st = submit_random(e, model, (uint64_t)(round * SLOTS + i + 1), &requests[i], err);
	while (!st && !idle)
		st = cohort_engine_tick(e, &idle, err);
	if (!st) {
		cohort_engine_stats_get(e, &stats);
		*whole = 100 * (stats.total_s - stats.decode_s - stats.sample_s) / stats.total_s;
		*full = 100 * share.other_s / share.total_s;
		if (round == 0)
			printf("  a job: %llu ticks, %.0f ms of decode, %.0f ms of sampling; %d ticks of %d generating "
			       "rows\n",
					(unsigned long long)stats.n_ticks, 1e3 * stats.decode_s, 1e3 * stats.sample_s,
					share.n_ticks, SLOTS);
	}
	for (int i = 0; i < SLOTS; i++)
		cohort_request_free(requests[i]);
	cohort_engine_free(e);
	return st;
}

static enum cohort_status bench_model(
		const struct cohort_model *model, int32_t n_threads, int rounds, bool raw, struct cohort_err *err)
{
	double whole[ROUNDS_MAX], full[ROUNDS_MAX];
	enum cohort_status st = COHORT_OK;

	printf("built-in model, %d slots, %d tokens after random prompts of %d, ", SLOTS, GENERATE, PROMPT);
	if (n_threads)
		printf("%d threads\n", n_threads);
	else
		printf("a thread per core\n");
	for (int i = 0; !st && i < rounds; i++)
		st = run_model(model, n_threads, i, &whole[i], &full[i], err);
	if (st)
		return st;
	printf("  beside decode and sampling: %.2f %% of the job, %.2f %% of full ticks (limit 2 %%: %s)\n",
			median(whole, rounds), median(full, rounds), against(median(whole, rounds), 2));
	if (raw) {
		print_rounds("% of the job", whole, rounds);
		print_rounds("% of full ticks", full, rounds);
	}
	return COHORT_OK;
}

/* ---- A machine that computes nothing ---- */

static double null_now(void *self)
{
	(void)self;
	return clock_now();
}
static enum cohort_status null_decode(void *self, const struct cohort_batch_raw *rows, struct cohort_err *err)
{
	(void)self, (void)rows, (void)err;
	return COHORT_OK;
}
static const float *null_output(void *self, int32_t row)
{
	(void)self, (void)row;
	return NULL;
}
static enum cohort_status null_cp(
		void *self, cohort_seq src, cohort_seq dst, cohort_pos p0, cohort_pos p1, struct cohort_err *err)
{
	(void)self, (void)src, (void)dst, (void)p0, (void)p1, (void)err;
	return COHORT_OK;
}
static enum cohort_status null_rm(void *self, cohort_seq seq, cohort_pos p0, cohort_pos p1, struct cohort_err *err)
{
	(void)self, (void)seq, (void)p0, (void)p1, (void)err;
	return COHORT_OK;
}
static enum cohort_status null_adapter(
		void *self, cohort_seq seq, const struct cohort_adapter *adapter, float scale, struct cohort_err *err)
{
	(void)self, (void)seq, (void)adapter, (void)scale, (void)err;
	return COHORT_OK;
}
static size_t null_size(void *self, cohort_seq seq)
{
	(void)self, (void)seq;
	return 0;
}

enum { SIM_PROMPT = 96, SIM_GENERATE = 160, SIM_LONG = 3900, WARM_TICKS = 300, TICKS = 2000 };

static enum cohort_status sim_submit(struct core *c, uint64_t number, bool turnover, struct cohort_err *err)
{
	static cohort_token prompt[SIM_PROMPT];
	struct cohort_request_params p;
	struct cohort_request *r;

	fill_prompt(prompt, SIM_PROMPT, 32000, number);
	cohort_request_params_init(&p);
	p.prompt = prompt;
	p.n_prompt = SIM_PROMPT;
	/* Of different lengths, so that some end in every tick; or so long that none does. */
	p.max_tokens = turnover ? SIM_GENERATE / 2 + (int32_t)(number * 37 % SIM_GENERATE) : SIM_LONG;
	p.client = number % 61;
	enum cohort_status st = request_open(c, &p, &r, err);
	if (st)
		return st;
	st = core_submit(c, r, err);
	request_unref(r); /* the user's: the engine keeps its own */
	if (st)
		request_unref(r);
	return st;
}

/* Of a round, per tick. */
struct null_round {
	double us, us_beside, rows;
};

/* Ticks with the queue kept filled. Submitting is the clients' time, not the engine's. */
static enum cohort_status run_null(int32_t n_slots, bool turnover, struct null_round *out, struct cohort_err *err)
{
	const struct machine m = {.now = null_now,
			.decode = null_decode,
			.encode = null_decode,
			.logits = null_output,
			.embedding = null_output,
			.seq_cp = null_cp,
			.seq_rm = null_rm,
			.adapter_set = null_adapter,
			.state_size = null_size};
	const int32_t n_blocks = n_slots * (turnover ? 16 : (SIM_PROMPT + SIM_LONG) / 32 + 1);
	const struct core_limits lim = {.n_vocab = 32000,
			.n_embd = 1,
			.n_slots = n_slots,
			.n_ubatch = 512,
			.budget = n_slots + 512,
			.chunk_size = 512,
			.block_size = 32,
			.n_blocks = n_blocks,
			.n_pos_max = 4096,
			.n_ids = n_blocks,
			.logits = true,
			.queue_requests_max = 4 * n_slots,
			.queue_tokens_max = INT64_MAX,
			.wait_max_s = 1e9};
	struct core c;
	uint64_t number = 0, n_rows = 0;
	double spent = 0, beside = 0;
	enum cohort_status st = core_init(&c, &lim, &m, NULL, err);

	if (st)
		return st;
	/* The first ticks fill the slots and warm everything. */
	for (int i = -WARM_TICKS - n_slots / 5; !st && i < TICKS; i++) {
		while (!st && queue_depth(c.shared.queue) < (size_t)n_slots)
			st = sim_submit(&c, number++, turnover, err);
		const double start = clock_now();
		core_tick(&c);
		const double took = clock_now() - start;
		if (i >= 0) {
			spent += took;
			beside += took - c.tick.sample_s;
			n_rows += (uint64_t)(c.tick.n_decode_rows + c.tick.n_prefill_rows);
		}
	}
	*out = (struct null_round){1e6 * spent / TICKS, 1e6 * beside / TICKS, (double)n_rows / TICKS};
	core_shut(&c);
	core_release(&c);
	return st;
}

static enum cohort_status bench_null_load(int32_t n_slots, bool turnover, int rounds, bool raw, struct cohort_err *err)
{
	double us[ROUNDS_MAX], beside[ROUNDS_MAX];
	struct null_round r = {0};
	enum cohort_status st = COHORT_OK;

	for (int i = 0; !st && i < rounds; i++) {
		st = run_null(n_slots, turnover, &r, err);
		us[i] = r.us;
		beside[i] = r.us_beside;
	}
	if (st)
		return st;
	const double m = median(beside, rounds);
	printf("  %5d   %-10s   %9.0f   %7.1f   %15.1f   %6.1f", n_slots, turnover ? "come, go" : "generate", r.rows,
			median(us, rounds), m, 1e3 * median(us, rounds) / r.rows);
	if (n_slots == 1024 && !turnover)
		printf("   (limit 50 us beside sampling: %s)", against(m, 50));
	printf("\n");
	if (raw) {
		print_rounds("us/tick", us, rounds);
		print_rounds("us/tick beside sampling", beside, rounds);
	}
	return COHORT_OK;
}

static enum cohort_status bench_null(int32_t only, int rounds, bool raw, struct cohort_err *err)
{
	static const int32_t all[] = {32, 256, 1024, 4096};
	const int32_t *sizes = only ? &only : all;
	const size_t n_sizes = only ? 1 : sizeof all / sizeof *all;
	enum cohort_status st = COHORT_OK;

	printf("a machine that computes nothing, every slot busy, one thread\n"
	       "  slots   requests     rows/tick   us/tick   beside sampling   ns/row\n");
	for (size_t k = 0; !st && k < n_sizes; k++) {
		st = bench_null_load(sizes[k], false, rounds, raw, err);
		if (!st)
			st = bench_null_load(sizes[k], true, rounds, raw, err);
	}
	return st;
}

int main(int argc, char **argv)
{
	struct cohort_model_params mp;
	struct cohort_model *model = NULL;
	struct cohort_err err;
	int64_t rounds = 5, n_threads = 0, slots = 0;
	bool raw = false, check = false, given = false;
	const struct opt opts[] = {
			{"rounds", "r", OPT_INT, &rounds, 1, ROUNDS_MAX, "N", "rounds of each job (default: 5)", NULL},
			{"threads", "t", OPT_INT, &n_threads, 1, 512, "N", "threads of the model's job", &given},
			{"slots", NULL, OPT_INT, &slots, 1, 16384, "N",
					"only the machine that computes nothing, with N slots", NULL},
			{"raw", NULL, OPT_FLAG, &raw, 0, 0, NULL, "print the rounds", NULL},
			{"check", NULL, OPT_FLAG, &check, 0, 0, NULL, "exit 1 when a limit is missed", NULL},
	};
	const struct opt_prog op = {prog, "[options]", "What the engine costs beside decoding and sampling.",
			"  bench_engine --raw\n  bench_engine --slots 1024 --check\n", opts,
			sizeof opts / sizeof *opts};
	int rc = opt_parse(&op, argc, argv, 1, NULL, 0, NULL);

	if (rc)
		return rc - 1;
	printf("%s %s\n", prog, cohort_version());
	enum cohort_status st = COHORT_OK;
	if (!slots) {
		cohort_model_params_init(&mp);
		rc = load_model(prog, NULL, &mp, &model);
		if (rc)
			return rc;
		st = bench_model(model, thread_count(given, n_threads), (int)rounds, raw, &err);
	}
	if (!st)
		st = bench_null((int32_t)slots, (int)rounds, raw, &err);
	if (st)
		rc = fail(prog, &err);
	cohort_model_free(model);
	if (!rc)
		rc = close_stdout(prog);
	return rc ? rc : check && missed;
}
