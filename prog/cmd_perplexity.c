/* cohort perplexity: how well a model predicts a text, by sliding windows, several of them decoded at once.
 *
 * What holds:
 *  1. A window begins with the token the model puts in front of texts (if it has one) and then holds consecutive tokens
 *     of the text. The next one begins `stride` tokens later. Each token counts once, in the first window that has it;
 *     what a window shares with the one before is context only. A token with nothing before it does not count.
 *  2. What a token costs is computed in double from its row of logits, in the order of the vocabulary, and sums go in
 *     the order of the text: the result has the same bits whatever is decoded together, on any number of threads.
 *  3. Only the result goes to standard output; when interrupted, that of the windows so far. */
#include "cmd.h"
#include "common.h"
#include "opt.h"
#include "out.h"
#include "tokens.h"

#include "base/fmath.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/pool.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char prog[] = "cohort perplexity";

enum { TEXT_MAX = 1 << 29, BATCH_MAX = 512, POOL_TOKENS = 4096, PARALLEL_MAX = 16 };
enum format { F_TEXT, F_JSONL, F_JSON, N_FORMATS };
static const char *const formats[N_FORMATS] = {"text", "jsonl", "json"};

struct ppl {
	const char *model, *isa, *file, *format_text, *output;
	int64_t n_ctx, stride, n_parallel, threads, n_batch;
	bool ctx_given, stride_given, parallel_given, threads_given, no_bos, per_window;
	struct load_opts load;
	enum format format;

	struct cohort_model *m;
	struct cohort_model_info info;
	struct cohort_context *ctx;
	struct cohort_batch batch;
	struct pool *pool;
	size_t n_bytes; /* of the text */
	cohort_token *tokens; /* [n] */
	size_t n;
	cohort_token front; /* what each window begins with; -1: nothing */
	size_t room, step; /* tokens of the text in a window; and from one window to the next */
	size_t n_windows, n_done;
	double *cost; /* [n] nats; below 0: the token does not count */
	int64_t *wanted; /* [n_batch] the token of the text that a row of the batch predicts; -1: none */
	struct out out;
};

/* ---- Windows ---- */

static size_t window_begin(const struct ppl *p, size_t w)
{
	return w * p->step;
}

static size_t window_end(const struct ppl *p, size_t w)
{
	const size_t end = window_begin(p, w) + p->room;
	return end < p->n ? end : p->n;
}

/* The first token that counts in a window: one that no window before it had, and that has something before it. */
static size_t window_first(const struct ppl *p, size_t w)
{
	const size_t begin = window_begin(p, w), seen = w > 0 ? window_end(p, w - 1) : 0;
	const size_t least = begin + (p->front < 0);
	return seen > least ? seen : least;
}

/* Rows of a window: the last of its tokens predicts nothing. */
static size_t window_rows(const struct ppl *p, size_t w)
{
	const size_t n = window_end(p, w) - window_begin(p, w) + (p->front >= 0);
	return n > 0 ? n - 1 : 0;
}

struct sums {
	size_t n;
	double cost, var; /* of all; the variance of their mean */
};

/* Adds to a sum that goes on, token by token: the same bits as one over the whole range. */
static void add_range(const struct ppl *p, size_t from, size_t to, struct sums *s)
{
	for (size_t i = from; i < to; i++)
		if (p->cost[i] >= 0) {
			s->n++;
			s->cost += p->cost[i];
		}
}

static struct sums sum_range(const struct ppl *p, size_t from, size_t to)
{
	struct sums s = {0};
	double squares = 0;

	add_range(p, from, to, &s);
	const double mean = s.n > 0 ? s.cost / (double)s.n : 0;
	for (size_t i = from; i < to; i++)
		if (p->cost[i] >= 0)
			squares += (p->cost[i] - mean) * (p->cost[i] - mean);
	s.var = s.n > 1 ? squares / (double)(s.n - 1) / (double)s.n : NAN;
	return s;
}

static double perplexity(struct sums s)
{
	return s.n > 0 ? fm_exp(s.cost / (double)s.n) : NAN;
}

/* ---- Computing ---- */

static void cost_rows(void *arg, size_t from, size_t to, size_t thread)
{
	struct ppl *p = arg;
	const int32_t n_vocab = p->info.n_vocab;

	(void)thread;
	for (size_t r = from; r < to; r++) {
		if (p->wanted[r] < 0)
			continue;
		const float *x = cohort_logits_get(p->ctx, (int32_t)r, NULL);
		double best = -INFINITY, total = 0;
		for (int32_t i = 0; x && i < n_vocab; i++)
			best = (double)x[i] > best ? (double)x[i] : best;
		for (int32_t i = 0; x && i < n_vocab; i++)
			total += fm_exp((double)x[i] - best);
		const size_t t = (size_t)p->wanted[r];
		const double cost = x ? best + fm_log(total) - (double)x[p->tokens[t]] : NAN;
		p->cost[t] = cost > 0 ? cost : cost <= 0 ? 0 : NAN; /* rounding may leave it a hair below */
	}
}

/* Rows [at, at + n_each) of the windows [from, to), as far as they go, in one decode. */
static int decode_rows(struct ppl *p, size_t from, size_t to, size_t at, size_t n_each)
{
	struct cohort_err err;
	size_t n = 0;

	cohort_batch_reset(&p->batch);
	for (size_t w = from; w < to; w++) {
		const size_t n_rows = window_rows(p, w), end = at + n_each < n_rows ? at + n_each : n_rows;
		const cohort_seq seq = (cohort_seq)(w - from);
		for (size_t r = at; r < end; r++) {
			/* Row r holds text token `next - 1` (or what is in front) and predicts `next`. */
			const size_t next = window_begin(p, w) + r + (p->front < 0);
			const bool front = p->front >= 0 && r == 0, want = next >= window_first(p, w);
			const cohort_token t = front ? p->front : p->tokens[next - 1];
			if (cohort_batch_add(&p->batch, t, (cohort_pos)r, &seq, 1, want, &err))
				return fail(prog, &err);
			p->wanted[n++] = want ? (int64_t)next : -1;
		}
	}
	if (n == 0)
		return 0;
	const enum cohort_status st = cohort_decode(p->ctx, &p->batch, &err);
	if (st)
		return st == COHORT_ABORTED ? EXIT_INTERRUPTED : fail(prog, &err);
	pool_run(p->pool, n, 1, cost_rows, p);
	for (size_t i = 0; i < n; i++)
		if (p->wanted[i] >= 0 && isnan(p->cost[p->wanted[i]])) {
			fprintf(stderr, "%s: token %" PRId64 " of the text has no probability\n", prog, p->wanted[i]);
			return EXIT_RUN;
		}
	return 0;
}

static void show(const struct ppl *p, double started, size_t n_rows, size_t n_rows_all, struct sums so_far)
{
	const double s = clock_now() - started, rate = (double)n_rows / (s > 0 ? s : 1);

	if (so_far.n > 0)
		progress_line(started, "window %zu of %zu, %.0f tokens/s, %.0f s left, PPL %.4f", p->n_done,
				p->n_windows, rate, (double)(n_rows_all - n_rows) / rate, perplexity(so_far));
	else
		progress_line(started, "window 1 of %zu, %.0f tokens/s, %.0f s left", p->n_windows, rate,
				(double)(n_rows_all - n_rows) / rate);
}

static int measure(struct ppl *p)
{
	const double started = clock_now();
	size_t n_rows = 0, n_all = 0;
	struct sums so_far = {0};
	struct cohort_err err;
	int rc = 0;

	for (size_t w = 0; w < p->n_windows; w++)
		n_all += window_rows(p, w);
	for (size_t from = 0, to; from < p->n_windows && !rc; from = to) {
		to = from + (size_t)p->n_parallel < p->n_windows ? from + (size_t)p->n_parallel : p->n_windows;
		const size_t n_each = (size_t)p->n_batch / (to - from) > 0 ? (size_t)p->n_batch / (to - from) : 1;
		const size_t most = window_rows(p, from); /* none is longer than the first */
		for (size_t at = 0; at < most && !rc; at += n_each) {
			rc = decode_rows(p, from, to, at, n_each);
			n_rows += (size_t)cohort_batch_size(&p->batch);
			if (!rc)
				show(p, started, n_rows, n_all, so_far);
		}
		for (size_t w = from; w < to && !rc; w++)
			if (cohort_seq_rm(p->ctx, (cohort_seq)(w - from), 0, -1, &err))
				rc = fail(prog, &err);
		if (!rc) {
			add_range(p, window_first(p, from), window_end(p, to - 1), &so_far);
			p->n_done = to;
		}
	}
	progress_end();
	return rc;
}

/* ---- Output ---- */

/* *so_far gathers the windows as they are printed. */
static void print_window(struct ppl *p, size_t w, struct sums *so_far)
{
	const size_t from = window_first(p, w), to = window_end(p, w);
	const struct sums s = sum_range(p, from, to);
	struct out *o = &p->out;

	add_range(p, from, to, so_far);
	const struct sums all = *so_far;
	if (p->format == F_TEXT) {
		out_fmt(o, "window %zu: tokens %zu to %zu, %zu counted, PPL = %.4f, so far %.4f\n", w + 1,
				window_begin(p, w), to - 1, s.n, perplexity(s), perplexity(all));
		return;
	}
	out_fmt(o, "{\"window\": %zu, \"first_token\": %zu, \"last_token\": %zu, \"counted\": %zu, \"nll\": ", w + 1,
			window_begin(p, w), to - 1, s.n);
	out_double(o, s.cost);
	out_bytes(o, ", \"ppl\": ", 9);
	out_double(o, perplexity(s));
	out_bytes(o, ", \"ppl_so_far\": ", 16);
	out_double(o, perplexity(all));
	out_bytes(o, "}", 1);
}

/* Bytes that the tokens which count stand for: all of the text but what does not count. */
static double counted_bytes(const struct ppl *p, size_t to)
{
	double n = 0;
	bool all = to == p->n;

	for (size_t i = 0; i < to; i++) {
		size_t n_token = 0;
		cohort_token_bytes(p->m, p->tokens[i], true, &n_token);
		n += p->cost[i] >= 0 ? (double)n_token : 0;
		all = all && p->cost[i] >= 0;
	}
	return all ? (double)p->n_bytes : n;
}

static void print_result(struct ppl *p)
{
	const size_t to = window_end(p, p->n_done - 1);
	const struct sums s = sum_range(p, 0, to);
	const double ppl = perplexity(s), error = ppl * sqrt(s.var), bits = s.cost / fm_log(2.0);
	const double bytes = counted_bytes(p, to), per_byte = bytes > 0 ? bits / bytes : NAN;
	const struct {
		const char *name;
		double value;
	} numbers[] = {{"ppl", ppl}, {"ppl_error", error}, {"nll", s.cost}, {"bits_per_token", bits / (double)s.n},
			{"bits_per_byte", per_byte}};
	struct out *o = &p->out;

	if (p->format == F_TEXT) {
		out_fmt(o, "PPL = %.4f +/- %.4f\n", ppl, isnan(error) ? 0.0 : error);
		out_fmt(o, "%zu of %zu token%s counted, %.0f bytes; %zu window%s of %" PRId64 ", stride %" PRId64 "\n",
				s.n, p->n, plural(p->n), bytes, p->n_done, plural(p->n_done), p->n_ctx, p->stride);
		out_fmt(o, "%.4f bits per token, %.4f bits per byte\n", bits / (double)s.n, per_byte);
		if (p->n_done < p->n_windows)
			out_fmt(o, "interrupted after %zu of %zu window%s\n", p->n_done, p->n_windows,
					plural(p->n_windows));
		return;
	}
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
		out_fmt(o, "%s\"%s\": ", i > 0 ? ", " : p->format == F_JSON ? "" : "{", numbers[i].name);
		out_double(o, numbers[i].value);
	}
	out_fmt(o,
			", \"tokens\": %zu, \"counted\": %zu, \"bytes\": %.0f, \"windows\": %zu, \"ctx\": %" PRId64
			", \"stride\": %" PRId64 ", \"complete\": %s}\n",
			p->n, s.n, bytes, p->n_done, p->n_ctx, p->stride, p->n_done == p->n_windows ? "true" : "false");
}

static int print_all(struct ppl *p)
{
	struct out *o = &p->out;
	struct sums so_far = {0};
	int rc = out_open(o, prog, p->output);

	if (rc)
		return rc;
	if (p->format == F_JSON)
		out_bytes(o, "{", 1);
	if (p->format == F_JSON && p->per_window)
		out_bytes(o, "\"per_window\": [", 15);
	for (size_t w = 0; p->per_window && w < p->n_done; w++) {
		if (p->format == F_JSON)
			out_bytes(o, w > 0 ? ",\n  " : "\n  ", w > 0 ? 4 : 3);
		print_window(p, w, &so_far);
		if (p->format == F_JSONL)
			out_bytes(o, "\n", 1);
	}
	if (p->format == F_JSON && p->per_window)
		out_bytes(o, "],\n ", 4);
	print_result(p);
	return out_close(o, 0);
}

/* ---- The command ---- */

static int check(struct ppl *p)
{
	int f = F_TEXT;

	if (!p->file)
		return bad_usage(prog, "give a text with -f FILE (- is standard input)");
	while (p->format_text && f < N_FORMATS && strcmp(p->format_text, formats[f]) != 0)
		f++;
	if (f == N_FORMATS)
		return bad_usage(prog, "format '%s' is not known; known: text, jsonl, json", p->format_text);
	p->format = (enum format)f;
	if (p->ctx_given && p->stride_given && p->stride > p->n_ctx)
		return bad_usage(prog, "-stride %" PRId64 " would leave out tokens: windows have %" PRId64, p->stride,
				p->n_ctx);
	return 0;
}

static int read_text(struct ppl *p)
{
	struct added_tokens added;
	struct cohort_err err;
	char *text = NULL;
	int rc = added_tokens_get(prog, p->m, &added);

	if (rc)
		return rc;
	p->front = p->no_bos ? -1 : added.front;
	if (file_read(p->file, TEXT_MAX, &text, &p->n_bytes, &err)) {
		fail(prog, &err);
		return EXIT_FILE;
	}
	rc = text_tokens(prog, p->m, text, p->n_bytes, COHORT_TOKENIZE_NO_BOS, &p->tokens, &p->n);
	mem_free(text);
	if (!rc && p->n < (p->front >= 0 ? 1 : 2)) {
		fprintf(stderr, "%s: the text has %zu tokens; there is nothing to predict\n", prog, p->n);
		return EXIT_RUN;
	}
	return rc;
}

static int set_windows(struct ppl *p)
{
	const int64_t trained = p->info.n_ctx_train;

	if (!p->ctx_given)
		p->n_ctx = trained < 512 ? trained : 512;
	if (p->n_ctx > trained || p->n_ctx < 2)
		return bad_usage(prog, "-ctx %" PRId64 ": the model takes windows of 2 to %" PRId64 " tokens", p->n_ctx,
				trained);
	if (!p->stride_given)
		p->stride = p->n_ctx / 2;
	if (p->stride > p->n_ctx)
		return bad_usage(prog, "-stride %" PRId64 " would leave out tokens: windows have %" PRId64, p->stride,
				p->n_ctx);
	p->room = (size_t)p->n_ctx - (p->front >= 0);
	p->step = (size_t)p->stride < p->room ? (size_t)p->stride : p->room;
	p->n_windows = p->n <= p->room ? 1 : 1 + (p->n - p->room + p->step - 1) / p->step;
	if (!p->parallel_given) {
		const int64_t fit = POOL_TOKENS / p->n_ctx;
		p->n_parallel = fit < 1 ? 1 : fit < PARALLEL_MAX ? fit : PARALLEL_MAX;
	}
	if ((size_t)p->n_parallel > p->n_windows)
		p->n_parallel = (int64_t)p->n_windows;
	return 0;
}

static int open_context(struct ppl *p)
{
	const struct cohort_room_info room = ROOM(.n_seqs = p->n_parallel, .n_tokens = p->n_ctx);
	const int64_t n_ctx = room.n_needed * room.block_size;
	struct cohort_context_params cp;
	struct cohort_err err;

	if (n_ctx > 1 << 30)
		return bad_usage(prog, "-np %" PRId64 " windows of %" PRId64 " tokens are too many", p->n_parallel,
				p->n_ctx);
	if (p->n_batch < p->n_parallel)
		p->n_batch = p->n_parallel;
	cohort_context_params_init(&cp);
	cp.n_ctx = (int32_t)n_ctx;
	cp.n_batch = (int32_t)p->n_batch;
	cp.n_seq_max = (int32_t)p->n_parallel;
	cp.n_threads = thread_count(p->threads_given, p->threads);
	cp.abort = stop_asked;
	if (cohort_context_open(p->m, &cp, &p->ctx, &err) ||
			cohort_batch_init(&p->batch, (int32_t)p->n_batch, 0, 1, &err))
		return fail(prog, &err);
	p->pool = pool_open((size_t)cp.n_threads);
	p->cost = mem_alloc(p->n, sizeof *p->cost);
	p->wanted = mem_alloc((size_t)p->n_batch, sizeof *p->wanted);
	if (!p->pool || !p->cost || !p->wanted)
		return out_of_memory(prog);
	for (size_t i = 0; i < p->n; i++)
		p->cost[i] = -1;
	return 0;
}

static int run(struct ppl *p)
{
	int rc = check(p);

	if (!rc)
		rc = load_text_model(prog, p->model, p->isa, &p->load, &p->m, &p->info);
	if (!rc)
		rc = read_text(p);
	if (!rc)
		rc = set_windows(p);
	if (rc)
		return rc;
	catch_signals(); /* only now: reading standard input ends with the signal */
	rc = open_context(p);
	if (!rc)
		rc = measure(p);
	if (rc == EXIT_INTERRUPTED)
		fprintf(stderr, "%s: interrupted after %zu of %zu window%s\n", prog, p->n_done, p->n_windows,
				plural(p->n_windows));
	if ((rc && rc != EXIT_INTERRUPTED) || p->n_done == 0)
		return rc;
	const int out = print_all(p);
	return rc ? rc : out;
}

static void cleanup(struct ppl *p)
{
	pool_free(p->pool);
	cohort_batch_release(&p->batch);
	cohort_context_free(p->ctx);
	cohort_model_free(p->m);
	mem_free(p->tokens);
	mem_free(p->cost);
	mem_free(p->wanted);
}

int cmd_perplexity(int argc, char **argv)
{
	static struct ppl p;
	p = (struct ppl){.threads = threads_default(), .n_batch = BATCH_MAX, .front = -1};
	const struct opt opts[] = {
			{"model", "m", OPT_STR, &p.model, 0, 0, "FILE.gguf", "GGUF model (default: the built-in one)",
					NULL},
			{"file", "f", OPT_STR, &p.file, 0, 0, "FILE", "the text, every byte of it; - is standard input",
					NULL},
			{"ctx", "c|ctx-size", OPT_INT, &p.n_ctx, 2, 1 << 24, "N",
					"tokens of a window (default: 512, or what the model was trained for)",
					&p.ctx_given},
			{"stride", NULL, OPT_INT, &p.stride, 1, 1 << 24, "N",
					"tokens from a window to the next; the rest is context (default: half)",
					&p.stride_given},
			{"n-parallel", "np|parallel", OPT_INT, &p.n_parallel, 1, 4096, "N",
					"windows at once (default: as fits)",
					&p.parallel_given},
			{"no-bos", NULL, OPT_FLAG, &p.no_bos, 0, 0, NULL,
					"windows do not begin with the model's begin token", NULL},
			{"per-window", NULL, OPT_FLAG, &p.per_window, 0, 0, NULL, "print each window, too", NULL},
			{"output-format", NULL, OPT_STR, &p.format_text, 0, 0, "text|jsonl|json",
					"what is written (default: text)", NULL},
			{"output", "o", OPT_STR, &p.output, 0, 0, "FILE", "where to write (default: standard output)",
					NULL},
			{"batch", "b|batch-size", OPT_INT, &p.n_batch, 1, 1 << 16, "N",
					"rows of one decode (default: 512)", NULL},
			{"threads", "t", OPT_INT, &p.threads, 1, 1024, "N",
					"compute threads (default: the CPUs that it may use)", &p.threads_given},
			{"isa", NULL, OPT_STR, &p.isa, 0, 0, ISA_ARG, ISA_HELP, NULL},
			OPTS_LOAD(&p.load),
	};
	const struct opt_prog desc = {
			prog,
			"[-m FILE] -f FILE [options]",
			"How well the model predicts a text: the perplexity of its tokens with its standard error,\n"
			"by windows that overlap (with -stride equal to -ctx each stands alone). The result is the\n"
			"same whatever -n-parallel, -batch, -threads and -isa.",
			"  echo \"Once upon a time there was a little girl.\" | cohort perplexity -f -\n"
			"  echo \"Once upon a time there was a girl.\" | cohort perplexity -f - -ctx 8 -per-window\n"
			"  cohort perplexity -m model.gguf -f story.txt -ctx 1024 -stride 256 -output-format jsonl\n",
			opts,
			sizeof opts / sizeof *opts,
	};
	int rc = opt_parse(&desc, argc, argv, 2, NULL, 0, NULL);
	if (rc)
		return rc - 1;
	rc = run(&p);
	cleanup(&p);
	return rc;
}
