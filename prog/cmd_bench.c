/* cohort bench: how fast prompts go in and tokens come out, for every combination of prompt length (PP), generated
 * tokens (TG) and sequences (B). Columns and JSON keys are those of llama-batched-bench, so that the two can be laid
 * side by side.
 *
 * What holds:
 *  1. A round starts from an empty cache. Nothing of an earlier round or combination is reused.
 *  2. Every prompt and every continuation is random tokens of its own, drawn from the seed before the clock starts; a
 *     round repeats the tokens of the round before.
 *  3. T_PP is the time until all prompts are in the cache with the logits of their last tokens, forks included; T_TG
 *     that of TG steps of B rows, all with logits. Nothing but library calls happens while the clock runs.
 *  4. N_KV is the number of cells that hold a token: PP * B + TG * B, or with a shared prompt PP + TG * B. These are
 *     the tokens of S, too: a shared prompt counts once, as it is computed once. When the clock has stopped, every
 *     sequence is seen to hold its PP + TG positions.
 *  5. Every line is out when its measurement ends. A round that a signal cut short is in no line.
 *
 * It knows nothing of other programs' results: it measures and compares nothing. */
#include "cmd.h"
#include "common.h"
#include "opt.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/pool.h"
#include "base/rng.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char prog[] = "cohort bench";

enum { LIST_MAX = 256, TOKENS_MAX = 1 << 24, SEQS_MAX = 1 << 16, CTX_MAX = 1 << 30 };

struct list {
	int32_t n, v[LIST_MAX];
};

struct cell {
	int32_t pp, tg, pl;
};

struct config {
	const char *model, *npp, *ntg, *npl, *kv, *isa, *format;
	int64_t n_ctx, n_batch, n_ubatch, threads, rounds;
	uint64_t seed;
	bool ctx_given, threads_given, shared, separate;
	struct load_opts load;
};

struct bench {
	struct config c;
	struct list pp, tg, pl;
	struct cell *cells;                /* [n_cells], the lists' product; the last list runs fastest */
	size_t n_cells;
	struct cell most;                  /* the largest value of each list */
	struct cohort_context_params cp;
	struct cohort_model *model;
	struct cohort_model_info info;
	struct cohort_context *ctx;
	cohort_token *prompts;             /* [B, PP] of the combination; [PP] when shared */
	cohort_token *steps;               /* [B, TG] */
	struct cohort_scatter_item *spans; /* [n_group] */
	struct cohort_each_item *rows;     /* [n_group] */
	int32_t n_group;                   /* sequences in one call: no more than n_batch */
	double *t_pp, *t_tg, *t;           /* [rounds] of the combination */
	char *path, *command;              /* as shown */
	double started;
	int64_t n_done;                    /* rounds of all combinations */
	bool jsonl;
};

/* ---- Lists ---- */

static bool parse_number(const char **p, int32_t *out)
{
	int64_t v = 0;
	const char *s = *p;

	while (*s >= '0' && *s <= '9' && v <= INT32_MAX)
		v = v * 10 + (*s++ - '0');
	if (s == *p || v > INT32_MAX)
		return false;
	*p = s;
	*out = (int32_t)v;
	return true;
}

/* A value, or a range: first-last, first-last+step, first-last*factor. */
static bool parse_item(const char **p, int32_t lo, int32_t hi, struct list *l)
{
	int32_t first, last, by = 1;
	bool times = false;

	if (!parse_number(p, &first))
		return false;
	last = first;
	if (**p == '-') {
		++*p;
		if (!parse_number(p, &last))
			return false;
		times = **p == '*';
		if (times || **p == '+') {
			++*p;
			if (!parse_number(p, &by))
				return false;
		}
	}
	if (first < lo || last > hi || last < first || by < 1 || (times && (by < 2 || first < 1)))
		return false;
	for (int64_t v = first; v <= last; v = times ? v * by : v + by) {
		if (l->n == LIST_MAX)
			return false;
		l->v[l->n++] = (int32_t)v;
	}
	return true;
}

static int parse_list(const char *name, const char *text, int32_t lo, int32_t hi, struct list *l, int32_t *most)
{
	const char *p = text;
	bool ok = parse_item(&p, lo, hi, l);

	while (ok && *p == ',') {
		p++;
		ok = parse_item(&p, lo, hi, l);
	}
	if (!ok || *p) {
		fprintf(stderr,
				"%s: -%s expects up to %d numbers from %d to %d, such as 128,512 or 1-8 or 16-64+16 "
				"or 1-32*2, got '%s'\nTry '%s --help'.\n",
				prog, name, LIST_MAX, lo, hi, text, prog);
		return EXIT_USAGE;
	}
	for (int32_t i = 0; i < l->n; i++)
		if (l->v[i] > *most)
			*most = l->v[i];
	return 0;
}

static int make_cells(struct bench *b)
{
	int rc = parse_list("npp", b->c.npp, 0, TOKENS_MAX, &b->pp, &b->most.pp);
	if (!rc)
		rc = parse_list("ntg", b->c.ntg, 0, TOKENS_MAX, &b->tg, &b->most.tg);
	if (!rc)
		rc = parse_list("npl", b->c.npl, 1, SEQS_MAX, &b->pl, &b->most.pl);
	if (rc)
		return rc;
	b->cells = mem_alloc((size_t)b->pp.n * (size_t)b->tg.n * (size_t)b->pl.n, sizeof *b->cells);
	if (!b->cells) {
		fprintf(stderr, "%s: out of memory for the combinations\n", prog);
		return EXIT_RUN;
	}
	for (int32_t i = 0; i < b->pp.n; i++)
		for (int32_t j = 0; j < b->tg.n; j++)
			for (int32_t k = 0; k < b->pl.n; k++) {
				struct cell c = {b->pp.v[i], b->tg.v[j], b->pl.v[k]};
				if (c.pp + c.tg == 0) {
					fprintf(stderr, "%s: with -npp 0 and -ntg 0 there is nothing to measure\n",
							prog);
					return EXIT_USAGE;
				}
				b->cells[b->n_cells++] = c;
			}
	return 0;
}

/* ---- Sizes ---- */

static int64_t prompt_tokens(const struct bench *b, const struct cell *c)
{
	return b->c.shared ? c->pp : (int64_t)c->pp * c->pl;
}

static int64_t step_tokens(const struct cell *c)
{
	return (int64_t)c->tg * c->pl;
}

/* Forks share the blocks that the prompt fills, and its last block where nothing is generated. */
static struct cohort_room_info cache_room(const struct bench *b, const struct cell *c)
{
	return ROOM(.n_ctx = b->c.n_ctx, .n_seq_max = b->most.pl, .n_seqs = b->c.shared && c->tg == 0 ? 1 : c->pl,
			.n_tokens = (int64_t)c->pp + c->tg, .n_prompt = b->c.shared ? c->pp : 0);
}

/* Says what does not fit, before anything is computed. */
static int size_context(struct bench *b)
{
	const struct cell *big = &b->cells[0];

	if (b->most.pp + b->most.tg > b->info.n_ctx_train) {
		fprintf(stderr,
				"%s: %d prompt and %d generated tokens are more than the %d the model was trained "
				"for\n",
				prog, b->most.pp, b->most.tg, b->info.n_ctx_train);
		return EXIT_USAGE;
	}
	for (size_t i = 1; i < b->n_cells; i++)
		if (cache_room(b, &b->cells[i]).n_needed > cache_room(b, big).n_needed)
			big = &b->cells[i];
	const struct cohort_room_info room = cache_room(b, big);
	const int64_t n_all = room.n_needed * room.block_size;
	if (n_all > CTX_MAX || (b->c.ctx_given && room.n_free < 0)) {
		fprintf(stderr, "%s: PP %d, TG %d, B %d takes a cache of %" PRId64 " blocks of %d tokens; ", prog,
				big->pp, big->tg, big->pl, room.n_needed, room.block_size);
		if (n_all > CTX_MAX)
			fprintf(stderr, "the most is %d\n", CTX_MAX / room.block_size);
		else
			fprintf(stderr, "-ctx %" PRId64 " has %d: raise it to %" PRId64 " or leave it out\n",
					b->c.n_ctx, room.n_blocks, room.n_ctx_needed);
		return EXIT_USAGE;
	}
	b->cp.n_ctx = (int32_t)(b->c.ctx_given ? b->c.n_ctx : n_all);
	return 0;
}

static int allocate(struct bench *b)
{
	const size_t rounds = (size_t)b->c.rounds;

	b->n_group = b->most.pl < b->cp.n_batch ? b->most.pl : b->cp.n_batch;
	b->prompts = mem_alloc((size_t)prompt_tokens(b, &b->most), sizeof *b->prompts);
	b->steps = mem_alloc((size_t)step_tokens(&b->most), sizeof *b->steps);
	b->spans = mem_alloc((size_t)b->n_group, sizeof *b->spans);
	b->rows = mem_alloc((size_t)b->n_group, sizeof *b->rows);
	b->t_pp = mem_alloc(rounds, sizeof *b->t_pp);
	b->t_tg = mem_alloc(rounds, sizeof *b->t_tg);
	b->t = mem_alloc(rounds, sizeof *b->t);
	if (b->prompts && b->steps && b->spans && b->rows && b->t_pp && b->t_tg && b->t)
		return 0;
	fprintf(stderr, "%s: out of memory for the tokens of %d sequences\n", prog, b->most.pl);
	return EXIT_RUN;
}

/* ---- Measuring ---- */

/* One stream of numbers per sequence and purpose: a sequence's tokens do not depend on how many others there are. */
static void draw(const struct bench *b, cohort_token *out, int32_t n, int32_t seq, bool prompt)
{
	struct rng r;

	rng_init(&r, b->c.seed, 2 * (uint64_t)seq + !prompt);
	for (int32_t i = 0; i < n; i++)
		out[i] = (cohort_token)((uint64_t)rng_u32(&r) * (uint64_t)b->info.n_vocab >> 32);
}

static void draw_all(struct bench *b, const struct cell *c)
{
	for (int32_t s = 0; s < (b->c.shared ? 1 : c->pl); s++)
		draw(b, b->prompts + (size_t)s * (size_t)c->pp, c->pp, s, true);
	for (int32_t s = 0; s < c->pl; s++)
		draw(b, b->steps + (size_t)s * (size_t)c->tg, c->tg, s, false);
}

static enum cohort_status prefill(struct bench *b, const struct cell *c, struct cohort_err *err)
{
	const int32_t n = b->c.shared ? 1 : c->pl;
	enum cohort_status st = COHORT_OK;

	if (c->pp == 0)
		return st;
	for (int32_t at = 0; at < n && !st; at += b->n_group) {
		int32_t m = n - at < b->n_group ? n - at : b->n_group;
		for (int32_t i = 0; i < m; i++)
			b->spans[i] = (struct cohort_scatter_item){
				.tokens = b->prompts + (size_t)(at + i) * (size_t)c->pp,
				.n_tokens = c->pp,
				.seq = at + i,
				.want = true,
			};
		st = cohort_decode_scatter(b->ctx, b->spans, m, NULL, err);
	}
	for (cohort_seq s = 1; b->c.shared && s < c->pl && !st; s++)
		st = cohort_seq_cp(b->ctx, 0, s, 0, -1, err);
	return st;
}

/* All sequences take step i together. */
static enum cohort_status step(struct bench *b, const struct cell *c, int32_t i, struct cohort_err *err)
{
	enum cohort_status st = COHORT_OK;

	for (int32_t at = 0; at < c->pl && !st; at += b->n_group) {
		int32_t m = c->pl - at < b->n_group ? c->pl - at : b->n_group;
		for (int32_t j = 0; j < m; j++)
			b->rows[j] = (struct cohort_each_item){
				.token = b->steps[(size_t)(at + j) * (size_t)c->tg + (size_t)i],
				.pos = c->pp + i,
				.seq = at + j,
				.want = true,
			};
		st = cohort_decode_each(b->ctx, b->rows, m, NULL, err);
	}
	return st;
}

static enum cohort_status generate(struct bench *b, const struct cell *c, struct cohort_err *err)
{
	enum cohort_status st = COHORT_OK;

	if (!b->c.separate) {
		for (int32_t i = 0; i < c->tg && !st; i++)
			st = step(b, c, i, err);
		return st;
	}
	for (cohort_seq s = 0; s < c->pl && !st; s++)
		for (int32_t i = 0; i < c->tg && !st; i++)
			st = cohort_decode_one(b->ctx, b->steps[(size_t)s * (size_t)c->tg + (size_t)i], c->pp + i, s,
					true, err);
	return st;
}

/* Weights faulted in, threads awake and buffers touched, for prompts and for steps. */
static int warm_up(struct bench *b)
{
	enum { SEQS = 64 }; /* the most that a warm-up takes */
	const int32_t n_ubatch = b->cp.n_ubatch, n_seqs = b->most.pl < SEQS ? b->most.pl : SEQS;
	struct cohort_err err;
	enum cohort_status st = COHORT_OK;

	if (b->most.pp > 0)
		st = cohort_warm_up(b->ctx, b->most.pp < n_ubatch ? b->most.pp : n_ubatch, 1, &err);
	if (!st && b->most.tg > 0)
		st = cohort_warm_up(b->ctx, 1, n_seqs < n_ubatch ? n_seqs : n_ubatch, &err);
	if (st == COHORT_ABORTED)
		return EXIT_INTERRUPTED;
	return st ? fail(prog, &err) : 0;
}

static int one_round(struct bench *b, const struct cell *c, int64_t i)
{
	struct cohort_err err;

	cohort_seq_clear(b->ctx);
	const double t0 = clock_now();
	enum cohort_status st = prefill(b, c, &err);
	const double t1 = clock_now();
	if (!st)
		st = generate(b, c, &err);
	const double t2 = clock_now();
	if (st == COHORT_ABORTED)
		return EXIT_INTERRUPTED;
	if (st)
		return fail(prog, &err);
	for (cohort_seq s = 0; s < c->pl; s++)
		if (cohort_seq_pos_max(b->ctx, s) != c->pp + c->tg - 1) {
			fprintf(stderr, "%s: sequence %d ends at position %d, not %d: the measurement is void\n", prog,
					s, cohort_seq_pos_max(b->ctx, s), c->pp + c->tg - 1);
			return EXIT_RUN;
		}
	b->t_pp[i] = t1 - t0;
	b->t_tg[i] = t2 - t1;
	b->t[i] = t2 - t0;
	b->n_done++;
	return 0;
}

/* ---- Output ---- */

static double rate(int64_t n, double seconds)
{
	return seconds > 0 ? (double)n / seconds : 0;
}

static int by_value(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* Sorts v. */
static double median(double *v, size_t n)
{
	qsort(v, n, sizeof *v, by_value);
	return (v[(n - 1) / 2] + v[n / 2]) / 2;
}

static void print_header(const struct bench *b)
{
	char name[ERR_SHOW_BYTES];

	printf("- cohort %s\n- model: %s (%s, %s, %.1f M parameters, %.1f MiB)\n", cohort_version(), b->path,
			*b->info.name ? err_show(name, b->info.name, strlen(b->info.name)) : "unnamed", b->info.arch,
			(double)b->info.n_params * 1e-6, (double)b->info.weight_bytes / 1048576.0);
	printf("- n_threads = %d, isa = %s, kv_type = %s, n_batch = %d, n_ubatch = %d, n_kv_max = %d, ",
			b->cp.n_threads, b->info.isa, b->c.kv, b->cp.n_batch, b->cp.n_ubatch, b->cp.n_ctx);
	printf("is_pp_shared = %d, is_tg_separate = %d, seed = %" PRIu64 ", rounds = %" PRId64 "%s\n", b->c.shared,
			b->c.separate, b->c.seed, b->c.rounds, b->c.rounds > 1 ? " (medians of each column)" : "");
	printf("- command: `%s`\n\n", b->command);
	printf("|%6s | %6s | %4s | %6s | %8s | %8s | %8s | %8s | %8s | %8s |\n", "PP", "TG", "B", "N_KV", "T_PP s",
			"S_PP t/s", "T_TG s", "S_TG t/s", "T s", "S t/s");
	puts("|-------|--------|------|--------|----------|----------|----------|----------|----------|----------|");
}

static void print_row(struct bench *b, const struct cell *c, size_t n_rounds)
{
	const int64_t n_pp = prompt_tokens(b, c), n_tg = step_tokens(c);
	const double t_pp = median(b->t_pp, n_rounds), t_tg = median(b->t_tg, n_rounds), t = median(b->t, n_rounds);

	progress_end();
	printf("|%6d | %6d | %4d | %6" PRId64 " | %8.3f | %8.2f | %8.3f | %8.2f | %8.3f | %8.2f |\n", c->pp, c->tg,
			c->pl, n_pp + n_tg, t_pp, rate(n_pp, t_pp), t_tg, rate(n_tg, t_tg), t, rate(n_pp + n_tg, t));
}

/* flash_attn is 1 as attention runs online over the cache's blocks, and n_gpu_layers 0: both are what is so, neither
 * can be chosen. */
static json_t *json_round(const struct bench *b, const struct cell *c, int64_t i)
{
	const int64_t n_pp = prompt_tokens(b, c), n_tg = step_tokens(c);
	json_t *o = json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i}", "n_kv_max", b->cp.n_ctx, "n_batch",
			b->cp.n_batch, "n_ubatch", b->cp.n_ubatch, "flash_attn", 1, "is_pp_shared", (int)b->c.shared,
			"is_tg_separate", (int)b->c.separate, "n_gpu_layers", 0, "n_threads", b->cp.n_threads,
			"n_threads_batch", b->cp.n_threads);
	json_t *times = json_pack("{s:i, s:i, s:i, s:I, s:f, s:f, s:f, s:f, s:f, s:f}", "pp", c->pp, "tg", c->tg, "pl",
			c->pl, "n_kv", (json_int_t)(n_pp + n_tg), "t_pp", b->t_pp[i], "speed_pp",
			rate(n_pp, b->t_pp[i]), "t_tg", b->t_tg[i], "speed_tg", rate(n_tg, b->t_tg[i]), "t", b->t[i],
			"speed", rate(n_pp + n_tg, b->t[i]));
	/* A seed above 2^63 - 1 has no JSON integer: all of them are text. */
	char seed[24];
	snprintf(seed, sizeof seed, "%" PRIu64, b->c.seed);
	json_t *own = json_pack("{s:I, s:I, s:s, s:s, s:i, s:s, s:s, s:s, s:s}", "round", (json_int_t)(i + 1), "rounds",
			(json_int_t)b->c.rounds, "version", cohort_version(), "model", b->path, "threads",
			b->cp.n_threads, "isa", b->info.isa, "kv_type", b->c.kv, "seed", seed, "command", b->command);
	if (!o || !times || !own || json_object_update(o, times) || json_object_update(o, own)) {
		json_decref(o);
		o = NULL;
	}
	json_decref(times);
	json_decref(own);
	return o;
}

static int print_json(const struct bench *b, const struct cell *c, int64_t i)
{
	json_t *o = json_round(b, c, i);
	int bad = o ? 0 : -1;

	progress_end();
	if (o)
		bad = json_dumpf(o, stdout, JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(9));
	json_decref(o);
	if (bad && !ferror(stdout)) {
		fprintf(stderr, "%s: out of memory\n", prog);
		return EXIT_RUN;
	}
	putchar('\n');
	return close_stdout(prog);
}

/* ---- The command ---- */

static int measure(struct bench *b, size_t i_cell)
{
	const struct cell *c = &b->cells[i_cell];
	int64_t n = 0;
	int rc = 0;

	draw_all(b, c);
	while (n < b->c.rounds && !rc) {
		progress_line(b->started, "PP %d, TG %d, B %d (%zu of %zu): round %" PRId64 " of %" PRId64, c->pp,
				c->tg, c->pl, i_cell + 1, b->n_cells, n + 1, b->c.rounds);
		rc = interrupted() ? EXIT_INTERRUPTED : one_round(b, c, n);
		if (!rc && b->jsonl)
			rc = print_json(b, c, n);
		n += !rc;
	}
	if (n > 0 && !b->jsonl) {
		print_row(b, c, (size_t)n);
		int out = close_stdout(prog);
		rc = rc ? rc : out;
	}
	return rc;
}

static int measure_all(struct bench *b)
{
	int rc = repack_all(b->ctx);

	if (!rc)
		rc = warm_up(b);
	b->started = clock_now();
	if (!rc && !b->jsonl) {
		print_header(b);
		rc = close_stdout(prog);
	}
	for (size_t i = 0; i < b->n_cells && !rc; i++)
		rc = measure(b, i);
	progress_end();
	if (rc == EXIT_INTERRUPTED)
		fprintf(stderr, "%s: interrupted; %" PRId64 " of %" PRId64 " rounds were measured\n", prog, b->n_done,
				(int64_t)b->n_cells * b->c.rounds);
	return rc;
}

static int choose(struct bench *b)
{
	static const char *const kv[] = {[COHORT_KV_F16] = "f16", [COHORT_KV_F32] = "f32", [COHORT_KV_Q8_0] = "q8_0"};
	enum { N_KV = sizeof kv / sizeof *kv };
	size_t i = 0;

	while (i < N_KV && strcmp(kv[i], b->c.kv) != 0)
		i++;
	if (i == N_KV) {
		fprintf(stderr, "%s: cache type '%s' is not known; known: f16, f32, q8_0\nTry '%s --help'.\n", prog,
				b->c.kv, prog);
		return EXIT_USAGE;
	}
	b->cp.kv_type = (enum cohort_kv_type)i;
	b->jsonl = strcmp(b->c.format, "jsonl") == 0;
	if (!b->jsonl && strcmp(b->c.format, "md") != 0) {
		fprintf(stderr, "%s: output format '%s' is not known; known: md, jsonl\nTry '%s --help'.\n", prog,
				b->c.format, prog);
		return EXIT_USAGE;
	}
	b->cp.n_batch = (int32_t)b->c.n_batch;
	b->cp.n_ubatch = (int32_t)(b->c.n_ubatch < b->c.n_batch ? b->c.n_ubatch : b->c.n_batch);
	b->cp.n_threads = thread_count(b->c.threads_given, b->c.threads);
	b->cp.abort = stop_asked;
	return make_cells(b);
}

static int run(struct bench *b, int argc, char **argv)
{
	struct cohort_model_params mp;
	struct cohort_err err;
	int rc = choose(b);

	if (rc)
		return rc;
	b->cp.n_seq_max = b->most.pl;
	if (!b->c.model && !(b->c.model = builtin_model(prog)))
		return EXIT_MODEL;
	b->path = printable(b->c.model);
	b->command = command_line(argc, (const char *const *)argv);
	if (!b->path || !b->command) {
		fprintf(stderr, "%s: out of memory\n", prog);
		return EXIT_RUN;
	}
	catch_signals();
	cohort_model_params_init(&mp);
	mp.isa = b->c.isa;
	mp.n_threads = b->cp.n_threads;
	rc = load_opts_apply(prog, &b->c.load, &mp);
	if (!rc)
		rc = load_model(prog, b->c.model, &mp, &b->model);
	if (rc)
		return rc;
	cohort_model_info_get(b->model, &b->info);
	rc = size_context(b);
	if (!rc)
		rc = allocate(b);
	if (rc)
		return rc;
	if (cohort_context_open(b->model, &b->cp, &b->ctx, &err))
		return fail(prog, &err);
	return measure_all(b);
}

static void cleanup(struct bench *b)
{
	cohort_context_free(b->ctx);
	cohort_model_free(b->model);
	mem_free(b->cells);
	mem_free(b->prompts);
	mem_free(b->steps);
	mem_free(b->spans);
	mem_free(b->rows);
	mem_free(b->t_pp);
	mem_free(b->t_tg);
	mem_free(b->t);
	mem_free(b->path);
	mem_free(b->command);
}

static int parse(struct config *c, int argc, char **argv)
{
	const struct opt opts[] = {
		{"model", "m", OPT_STR, &c->model, 0, 0, "FILE.gguf", "GGUF model (default: the built-in one)",
				NULL},
		{"npp", "p|n-prompt", OPT_STR, &c->npp, 0, 0, "LIST",
				"PP: prompt tokens per sequence (default: 128)", NULL},
		{"ntg", "n|n-gen", OPT_STR, &c->ntg, 0, 0, "LIST",
				"TG: generated tokens per sequence (default: 32)", NULL},
		{"npl", NULL, OPT_STR, &c->npl, 0, 0, "LIST", "B: sequences together (default: 1,2,4,8)", NULL},
		{"pps", NULL, OPT_FLAG, &c->shared, 0, 0, NULL,
				"one prompt for all: computed once, then forked B - 1 times", NULL},
		{"tgs", NULL, OPT_FLAG, &c->separate, 0, 0, NULL,
				"generate for one sequence after the other, not together", NULL},
		{"ctx", "c|ctx-size", OPT_INT, &c->n_ctx, 1, CTX_MAX, "N",
				"tokens the KV cache holds (default: what the largest combination takes)",
				&c->ctx_given},
		{"batch", "b|batch-size", OPT_INT, &c->n_batch, 1, 1 << 20, "N",
				"rows of one decode (default: 512)", NULL},
		{"ubatch", "ub|ubatch-size", OPT_INT, &c->n_ubatch, 1, 1 << 20, "N",
				"rows computed together (default: 128)", NULL},
		{"threads", "t", OPT_INT, &c->threads, 1, 1024, "N",
				"compute threads (default: the CPUs that it may use)", &c->threads_given},
		{"rounds", "r|repetitions", OPT_INT, &c->rounds, 1, 10000, "N",
				"measure each combination N times (default: 1)", NULL},
		{"kv-type", "ctk|cache-type-k", OPT_STR, &c->kv, 0, 0, "f16|f32|q8_0",
				"type of the cache (default: f16)", NULL},
		{"isa", NULL, OPT_STR, &c->isa, 0, 0, ISA_ARG,
				ISA_HELP, NULL},
		OPTS_LOAD(&c->load),
		{"seed", "s", OPT_UINT64, &c->seed, 0, 0, "N", "of the random tokens (default: 0)", NULL},
		{"output-format", NULL, OPT_STR, &c->format, 0, 0, "md|jsonl",
				"md (default): a table of medians; jsonl: one line per round", NULL},
	};
	const struct opt_prog p = {
			prog,
			"[-m FILE] [-npp LIST] [-ntg LIST] [-npl LIST] [options]",
			"Measures, for every combination of the lists, how long B prompts of PP tokens take and then\n"
			"TG steps of B rows. Tokens are random and different for each sequence; nothing is reused\n"
			"between rounds. A LIST is numbers and ranges: 128,512 or 1-8 or 16-64+16 (steps) or 1-32*2\n"
			"(factors).\n"
			"\n"
			"Columns: N_KV tokens held at the end; T_PP and S_PP seconds and tokens/s of the prompts,\n"
			"T_TG and S_TG of the generated tokens, T and S of both. A shared prompt (-pps) counts once.\n"
			"With several rounds each time is the median of its own column, and speeds follow from it.",
			"  cohort bench -npp 128 -ntg 64 -npl 1-32*2\n"
			"  cohort bench -m model.gguf -npp 512 -ntg 64 -npl 32 -pps -t 2\n"
			"  cohort bench -npl 1,8 -r 5 --output-format jsonl > rounds.jsonl\n",
			opts,
			sizeof opts / sizeof *opts,
	};
	return opt_parse(&p, argc, argv, 2, NULL, 0, NULL);
}

int cmd_bench(int argc, char **argv)
{
	struct bench b = {.c = {
				  .npp = "128",
				  .ntg = "32",
				  .npl = "1,2,4,8",
				  .kv = "f16",
				  .format = "md",
				  .n_batch = 512,
				  .n_ubatch = 128,
				  .threads = threads_default(),
				  .rounds = 1,
			  }};
	int rc = parse(&b.c, argc, argv);
	if (rc)
		return rc - 1;
	cohort_context_params_init(&b.cp);
	rc = run(&b, argc, argv);
	cleanup(&b);
	return rc;
}
