/* cohort run: prompts continued, all together. Each prompt goes through once, however many continuations it has; as
 * many sequences as the cache holds run at a time, the others wait for their turn. */
#include "cmd.h"
#include "common.h"
#include "opt.h"
#include "sampling.h"

#include "base/err.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/pool.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char prog[] = "cohort run";

enum { TEXT_MAX = 1 << 28, PROMPTS_MAX = 4096, TOP_MAX = 20 };

struct prompt {
	const char *text;
	size_t n_bytes;
	cohort_token *tokens;
	size_t n;
};

struct line {
	size_t prompt;
	cohort_token *tokens; /* [n_predict] */
	float *before, *after; /* [n_predict] with -logprobs: of the token, before and after the chain */
	struct cohort_logprob *top; /* [n_predict, n_top] before the chain */
	int32_t n;
	struct cohort_sampler *sampler;
	bool ended, done;
};

struct run {
	const char *model, *isa, *file;
	struct load_opts load;
	struct opt_list texts;
	const char *operands[PROMPTS_MAX];
	size_t n_operands;
	int64_t n_parallel, n_predict, n_ctx, threads, n_top;
	bool threads_given, top_given, ignore_eos, verbose, show_prompt;
	struct sampling s;

	struct cohort_model *m;
	struct cohort_model_info info;
	struct cohort_context *ctx;
	char *file_bytes;
	struct prompt *prompts;
	size_t n_prompts;
	struct line *lines; /* [n_prompts * n_parallel] */
	size_t n_lines;
	uint64_t n_generated;
	double prefill_s, generate_s;
	bool at_once; /* one line only: it is printed as it comes */
	struct cohort_detok detok;
};

/* ---- Prompts ---- */

static int add_prompt(struct run *r, const char *text, size_t n_bytes)
{
	struct prompt *p = &r->prompts[r->n_prompts++];
	struct cohort_err err;

	*p = (struct prompt){.text = text, .n_bytes = n_bytes};
	const size_t room = cohort_tokenize_bound(n_bytes);
	p->tokens = mem_alloc(room, sizeof *p->tokens);
	if (!p->tokens)
		return out_of_memory(prog);
	if (cohort_tokenize(r->m, text, n_bytes, COHORT_TOKENIZE_SPECIAL, p->tokens, room, &p->n, &err))
		return fail(prog, &err);
	if (p->n == 0)
		return bad_usage(prog, "prompt %zu is empty and the model has no begin token", r->n_prompts);
	const int64_t held = (int64_t)p->n + (r->n_predict > 0 ? r->n_predict - 1 : 0);
	const int64_t block = cohort_kv_block_size(), room_ctx = (r->n_ctx + block - 1) / block * block;
	if ((int64_t)p->n > r->info.n_ctx_train || held > room_ctx) {
		fprintf(stderr,
				"%s: prompt %zu has %zu tokens, with %" PRId64
				" more to come; the model was trained for %d, -ctx holds %" PRId64 "\n",
				prog, r->n_prompts, p->n, r->n_predict, r->info.n_ctx_train, room_ctx);
		return EXIT_USAGE;
	}
	return 0;
}

static int read_prompts(struct run *r)
{
	struct cohort_err err;
	size_t n_file = 0;

	if (r->file && file_read(r->file, TEXT_MAX, &r->file_bytes, &n_file, &err)) {
		fail(prog, &err);
		return EXIT_FILE;
	}
	r->prompts = mem_zalloc(r->texts.n + r->n_operands + 1, sizeof *r->prompts);
	if (!r->prompts)
		return out_of_memory(prog);
	int rc = 0;
	for (size_t i = 0; i < r->texts.n && !rc; i++)
		rc = add_prompt(r, r->texts.items[i], strlen(r->texts.items[i]));
	for (size_t i = 0; i < r->n_operands && !rc; i++)
		rc = add_prompt(r, r->operands[i], strlen(r->operands[i]));
	if (!rc && r->file)
		rc = add_prompt(r, r->file_bytes, n_file);
	if (!rc && r->n_prompts == 0)
		rc = bad_usage(prog, "give a prompt: as an argument, with -p, or with -f FILE (- is standard input)");
	return rc;
}

static int make_lines(struct run *r)
{
	const size_t n = (size_t)r->n_predict, n_top = (size_t)r->n_top;

	r->n_lines = r->n_prompts * (size_t)r->n_parallel;
	r->lines = mem_zalloc(r->n_lines, sizeof *r->lines);
	if (!r->lines)
		return out_of_memory(prog);
	for (size_t i = 0; i < r->n_lines; i++) {
		struct line *l = &r->lines[i];
		l->prompt = i / (size_t)r->n_parallel;
		l->tokens = mem_alloc(n, sizeof *l->tokens);
		if (r->top_given) {
			l->before = mem_alloc(n, sizeof *l->before);
			l->after = mem_alloc(n, sizeof *l->after);
			l->top = mem_alloc(n * n_top, sizeof *l->top);
		}
		if (!l->tokens || (r->top_given && (!l->before || !l->after || !l->top)))
			return out_of_memory(prog);
	}
	r->at_once = r->n_lines == 1;
	return 0;
}

/* ---- Printing ---- */

static void print_begin(struct run *r, const struct line *l)
{
	if (r->show_prompt)
		fwrite(r->prompts[l->prompt].text, 1, r->prompts[l->prompt].n_bytes, stdout);
	cohort_detok_init(&r->detok, r->m, false, false);
}

static void print_end(struct run *r)
{
	print_rest(&r->detok);
	putchar('\n');
}

static void show_token(const struct run *r, cohort_token t)
{
	size_t n = 0;
	char show[ERR_SHOW_BYTES];
	const char *bytes = cohort_token_bytes(r->m, t, true, &n);
	printf("%d '%s'", t, err_show(show, bytes ? bytes : "", n));
}

static void print_logprobs(const struct run *r, const struct line *l)
{
	double sum = 0;
	for (int32_t i = 0; i < l->n; i++) {
		printf("  %4d  %8.4f  %8.4f  ", i, (double)l->before[i], (double)l->after[i]);
		show_token(r, l->tokens[i]);
		for (int64_t k = 0; k < r->n_top; k++) {
			const struct cohort_logprob *t = &l->top[i * r->n_top + k];
			if (t->token < 0)
				break;
			printf("%s%.4f ", k ? "  " : "   | ", (double)t->logprob);
			show_token(r, t->token);
		}
		putchar('\n');
		sum += (double)l->before[i];
	}
	if (l->n > 0)
		printf("  log-probability %.4f, perplexity %.4f\n", sum, exp(-sum / l->n));
}

static void print_lines(struct run *r)
{
	for (size_t i = 0; i < r->n_lines; i++) {
		const struct line *l = &r->lines[i];
		if (!r->at_once) {
			if (r->n_prompts > 1)
				printf("%sPrompt %zu", i ? "\n" : "", l->prompt);
			else
				printf("%sContinuation %zu:\n", i ? "\n" : "", i);
			if (r->n_prompts > 1)
				printf(r->n_parallel > 1 ? ", continuation %zu:\n" : ":\n", i % (size_t)r->n_parallel);
			print_begin(r, l);
			for (int32_t k = 0; k < l->n; k++)
				print_token(&r->detok, l->tokens[k]);
			print_end(r);
		}
		if (r->top_given)
			print_logprobs(r, l);
	}
}

/* ---- Generating ---- */

static int open_context(struct run *r, size_t n_seqs)
{
	struct cohort_context_params cp;
	struct cohort_err err;

	cohort_context_params_init(&cp);
	cp.n_ctx = (int32_t)r->n_ctx;
	cp.n_seq_max = (int32_t)n_seqs;
	cp.n_batch = n_seqs > 512 ? (int32_t)n_seqs : 512;
	cp.n_threads = thread_count(r->threads_given, r->threads);
	cp.abort = stop_asked;
	return cohort_context_open(r->m, &cp, &r->ctx, &err) ? fail(prog, &err) : 0;
}

/* The next token of a line from output i. */
static int take(struct run *r, struct line *l, int32_t i)
{
	struct cohort_err err;
	cohort_token t;
	const float *logits = cohort_logits_get(r->ctx, i, &err);

	if (!logits || cohort_sampler_sample(l->sampler, logits, &t, &err))
		return fail(prog, &err);
	r->n_generated++;
	if (!r->ignore_eos && cohort_token_is_eog(r->m, t)) {
		l->ended = l->done = true;
		return 0;
	}
	if (r->top_given &&
			(cohort_logprobs_get(logits, r->info.n_vocab, t, &l->before[l->n], l->top + l->n * r->n_top,
					 (int32_t)r->n_top, NULL, &err) ||
					cohort_sampler_logprobs_get(
							l->sampler, t, &l->after[l->n], NULL, 0, NULL, &err)))
		return fail(prog, &err);
	l->tokens[l->n++] = t;
	l->done = l->n >= r->n_predict;
	if (r->at_once) {
		print_token(&r->detok, t);
		fflush(stdout);
	}
	return 0;
}

/* Blocks that the lines [from, to) need: prompts are shared among their continuations. */
static int64_t blocks_of(const struct run *r, size_t from, size_t to)
{
	const int64_t block = cohort_kv_block_size();
	int64_t n = 0;
	for (size_t i = from; i < to; i++) {
		const int64_t p = (int64_t)r->prompts[r->lines[i].prompt].n, shared = p / block;
		if (i == from || r->lines[i].prompt != r->lines[i - 1].prompt)
			n += shared;
		n += (p + r->n_predict + block - 1) / block - shared;
	}
	return n;
}

/* The lines from `from` on that fit together end here; one always goes. */
static size_t wave_end(const struct run *r, size_t from)
{
	const int64_t block = cohort_kv_block_size(), n_blocks = (r->n_ctx + block - 1) / block;
	size_t to = from + 1;
	while (to < r->n_lines && blocks_of(r, from, to + 1) <= n_blocks)
		to++;
	return to;
}

/* The first line of each prompt takes it in; the others share its cells. */
static int prefill(struct run *r, size_t from, size_t to)
{
	struct cohort_err err;
	const double started = clock_now();

	for (size_t i = from; i < to; i++) {
		struct line *l = &r->lines[i];
		const struct prompt *p = &r->prompts[l->prompt];
		const cohort_seq seq = (cohort_seq)(i - from);
		const bool first = i == from || l->prompt != r->lines[i - 1].prompt;
		enum cohort_status st = first ? cohort_decode_many(r->ctx, p->tokens, (int32_t)p->n, 0, seq, &err)
					      : cohort_seq_cp(r->ctx, seq - 1, seq, 0, -1, &err);
		if (!st)
			st = sampling_sampler(&r->s, i % (size_t)r->n_parallel, p->tokens, p->n, &l->sampler, &err);
		if (st)
			return st == COHORT_ABORTED ? EXIT_INTERRUPTED : fail(prog, &err);
		const int rc = r->n_predict > 0 ? take(r, l, -1) : 0; /* copies see the same logits */
		if (rc)
			return rc;
		l->done |= r->n_predict == 0;
	}
	r->prefill_s += clock_now() - started;
	return 0;
}

static int wave(struct run *r, size_t from, size_t to, struct cohort_each_item *items, size_t *at)
{
	struct cohort_err err;
	int rc = prefill(r, from, to);
	const double started = clock_now();

	while (!rc) {
		int32_t n = 0;
		for (size_t i = from; i < to; i++) {
			const struct line *l = &r->lines[i];
			if (l->done)
				continue;
			at[n] = i;
			items[n++] = (struct cohort_each_item){l->tokens[l->n - 1],
					(cohort_pos)(r->prompts[l->prompt].n + (size_t)l->n - 1),
					(cohort_seq)(i - from), true};
		}
		if (n == 0)
			break;
		const enum cohort_status st = cohort_decode_each(r->ctx, items, n, NULL, &err);
		if (st)
			rc = st == COHORT_ABORTED ? EXIT_INTERRUPTED : fail(prog, &err);
		for (int32_t i = 0; i < n && !rc; i++)
			rc = take(r, &r->lines[at[i]], i);
		if (!r->at_once)
			progress_line(started, "%" PRIu64 " tokens, %d sequences", r->n_generated, n);
	}
	r->generate_s += clock_now() - started;
	for (size_t i = from; i < to && !rc; i++)
		if (cohort_seq_rm(r->ctx, (cohort_seq)(i - from), 0, -1, &err))
			rc = fail(prog, &err);
	return rc;
}

static int generate(struct run *r)
{
	size_t most = 0;
	int rc = 0;

	/* Waves of lines that fit together. */
	for (size_t from = 0, to; from < r->n_lines; from = to) {
		to = wave_end(r, from);
		most = to - from > most ? to - from : most;
	}
	struct cohort_each_item *items = mem_alloc(most, sizeof *items);
	size_t *at = mem_alloc(most, sizeof *at);
	if (!items || !at)
		rc = out_of_memory(prog);
	if (!rc)
		rc = open_context(r, most);
	if (!rc && r->at_once)
		print_begin(r, &r->lines[0]);
	for (size_t from = 0, to; from < r->n_lines && !rc; from = to) {
		to = wave_end(r, from);
		rc = wave(r, from, to, items, at);
	}
	progress_end();
	if (r->at_once && r->ctx)
		print_end(r);
	mem_free(items);
	mem_free(at);
	return rc;
}

static void statistics(const struct run *r)
{
	size_t n_cut = 0;
	for (size_t i = 0; i < r->n_lines; i++)
		n_cut += r->lines[i].sampler && !r->lines[i].ended && !cohort_sampler_is_complete(r->lines[i].sampler);
	if (n_cut > 0)
		fprintf(stderr, "%s: %zu of %zu texts were cut before the end that the grammar wants; raise "
		"-n-predict\n",
				prog, n_cut, r->n_lines);
	if (!r->verbose)
		return;
	size_t n_prompt = 0;
	for (size_t i = 0; i < r->n_prompts; i++)
		n_prompt += r->prompts[i].n;
	fprintf(stderr,
			"%s: %zu prompt tokens in %.2f s, %" PRIu64
			" tokens of %zu texts in %.2f s (%.1f tokens/s), level %s\n",
			prog, n_prompt, r->prefill_s, r->n_generated, r->n_lines, r->generate_s,
			r->generate_s > 0 ? (double)r->n_generated / r->generate_s : 0, r->info.isa);
	fprintf(stderr, "%s: ", prog);
	sampling_print(&r->s, stderr);
	fputc('\n', stderr);
}

static int run(struct run *r)
{
	struct cohort_model_params mp;

	cohort_model_params_init(&mp);
	mp.isa = r->isa;
	int rc = load_opts_apply(prog, &r->load, &mp);
	if (!rc)
		rc = load_model(prog, r->model, &mp, &r->m);
	if (rc)
		return rc;
	cohort_model_info_get(r->m, &r->info);
	if (!*r->info.tokenizer) {
		fprintf(stderr, "%s: the model has no tokeniser, so there is no way to give it text\n", prog);
		return EXIT_MODEL;
	}
	rc = sampling_open(&r->s, prog, r->m);
	if (!rc)
		rc = read_prompts(r);
	if (!rc)
		rc = make_lines(r);
	if (!rc)
		rc = generate(r);
	if (rc && rc != EXIT_INTERRUPTED)
		return rc;
	print_lines(r);
	const int out = close_stdout(prog);
	statistics(r);
	return rc ? rc : out;
}

static void cleanup(struct run *r)
{
	for (size_t i = 0; r->lines && i < r->n_lines; i++) {
		cohort_sampler_free(r->lines[i].sampler);
		mem_free(r->lines[i].tokens);
		mem_free(r->lines[i].before);
		mem_free(r->lines[i].after);
		mem_free(r->lines[i].top);
	}
	for (size_t i = 0; i < r->n_prompts; i++)
		mem_free(r->prompts[i].tokens);
	mem_free(r->lines);
	mem_free(r->prompts);
	mem_free(r->file_bytes);
	cohort_context_free(r->ctx);
	sampling_release(&r->s);
	cohort_model_free(r->m);
}

int cmd_run(int argc, char **argv)
{
	static struct run r;
	r = (struct run){.n_parallel = 1, .n_predict = 128, .n_ctx = 4096, .threads = 4};
	sampling_init(&r.s, 0.95);
	const struct opt own[] = {
			{"model", "m", OPT_STR, &r.model, 0, 0, "FILE", "GGUF model (default: the built-in one)", NULL},
			{"prompt", "p", OPT_LIST, &r.texts, 0, 0, "TEXT", "a prompt; may be given again", NULL},
			{"file", "f", OPT_STR, &r.file, 0, 0, "FILE",
					"a prompt from a file, every byte of it; - is standard input", NULL},
			{"n-predict", "n", OPT_INT, &r.n_predict, 0, 1 << 24, "N", "tokens per text (default: 128)",
					NULL},
			{"n-parallel", "np", OPT_INT, &r.n_parallel, 1, 65536, "N",
					"continuations of each prompt (default: 1)", NULL},
			{"ctx", "c", OPT_INT, &r.n_ctx, 1, 1 << 30, "N",
					"tokens the KV cache holds; texts beyond it wait (default: 4096)", NULL},
			{"threads", "t", OPT_INT, &r.threads, 1, 1024, "N",
					"compute threads (default: 4, or the CPUs there are)", &r.threads_given},
			{"logprobs", NULL, OPT_INT, &r.n_top, 0, TOP_MAX, "N",
					"list each token's log-probability before and after the chain, and the N "
					"likeliest",
					&r.top_given},
			{"show-prompt", NULL, OPT_FLAG, &r.show_prompt, 0, 0, NULL,
					"print the prompt before its continuation", NULL},
			{"ignore-eos", NULL, OPT_FLAG, &r.ignore_eos, 0, 0, NULL, "go on after the model ends its text",
					NULL},
			{"isa", NULL, OPT_STR, &r.isa, 0, 0, "LEVEL", ISA_HELP, NULL},
			OPTS_LOAD(&r.load),
			{"verbose", "v", OPT_FLAG, &r.verbose, 0, 0, NULL, "speed and values on stderr", NULL},
	};
	enum { N_OWN = sizeof own / sizeof *own };
	struct opt opts[N_OWN + SAMPLING_OPTIONS];
	memcpy(opts, own, sizeof own);
	sampling_options(&r.s, "only the likeliest tokens with X of the mass; 1: all (default: 0.95)", opts + N_OWN);
	const struct opt_prog p = {
			prog,
			"[-m FILE] [PROMPT ...] [options]",
			"Continues prompts, all of them together. Texts go to standard output; a single one is\n"
			"printed as it comes.",
			"  cohort run \"Once upon a time\"\n"
			"  cohort run -np 3 -n 40 \"The first\" \"The second\"\n"
			"  cohort run -m model.gguf -p \"A person as JSON:\" -j '{\"type\":\"object\","
			"\"properties\":{\"name\":\n"
			"      {\"type\":\"string\"},\"age\":{\"type\":\"integer\"}},\"required\":[\"name\","
			"\"age\"]}'\n"
			"  cohort run -p \"Yes or no? \" --grammar 'root ::= \"yes\" | \"no\"' --logprobs 3\n",
			opts,
			sizeof opts / sizeof *opts,
	};
	int rc = opt_parse(&p, argc, argv, 2, r.operands, PROMPTS_MAX, &r.n_operands);
	if (rc)
		return rc - 1;
	catch_signals();
	rc = run(&r);
	cleanup(&r);
	return rc;
}
