/* cohort speculate: a prompt continued with guesses that are verified several at a time. The text is that of plain
 * decoding; -compare shows it, and how much time was saved. */
#include "cmd.h"
#include "common.h"
#include "opt.h"
#include "sampling.h"
#include "speculate.h"
#include "term.h"
#include "tokens.h"

#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char prog[] = "cohort speculate";

enum { TEXT_MAX = 1 << 28, CTX_MAX = 1 << 30, ROUNDS_MAX = 1000 };

struct text {
	cohort_token *tokens; /* [n], without the prompt */
	int32_t n;
	bool ended, cut; /* cut: before the end that the grammar wants */
};

struct speculate {
	const char *model, *draft_file, *isa, *prompt, *file;
	struct load_opts load;
	int64_t n_parallel, n_predict, n_ctx, threads, n_rounds;
	int64_t draft_min, draft_max, ngram_min, ngram_max;
	bool threads_given, ctx_given, rounds_given, lookup, greedy, compare, ignore_eos, verbose, show_prompt;
	bool ngram_min_given, ngram_max_given;
	struct sampling s;

	struct cohort_model *m;
	struct cohort_model_info info;
	const char *operands[1];
	size_t n_operands;
	char *file_bytes;
	size_t n_bytes; /* of the prompt's text */
	cohort_token *tokens;
	size_t n_tokens;
	struct speculation sp;
	struct text *texts; /* [n_parallel] */
	struct cohort_detok detok;
	struct spec_stats first;
	double *fast, *slow; /* [n_rounds] seconds */
};

/* ---- The prompt ---- */

static int read_prompt(struct speculate *c)
{
	struct cohort_err err;
	const size_t n_given = (c->prompt != NULL) + (c->file != NULL) + c->n_operands;

	if (n_given != 1)
		return bad_usage(prog, "give %s prompt: as an argument, with -p, or with -f FILE (- is standard input)",
				n_given ? "one" : "a");
	if (c->n_operands)
		c->prompt = c->operands[0];
	if (c->file) {
		if (read_input(c->file, TEXT_MAX, &c->file_bytes, &c->n_bytes, &err)) {
			fail(prog, &err);
			return EXIT_FILE;
		}
		c->prompt = c->file_bytes;
	} else {
		c->n_bytes = strlen(c->prompt);
	}
	const int rc = text_tokens(
			prog, c->m, c->prompt, c->n_bytes, COHORT_TOKENIZE_SPECIAL, &c->tokens, &c->n_tokens);
	if (rc)
		return rc;
	if (c->n_tokens == 0)
		return bad_usage(prog, "the prompt is empty and the model has no begin token");
	if (c->n_tokens >= (size_t)c->info.n_ctx_train)
		return bad_usage(prog, "the prompt has %zu tokens, and the model was trained for %d; give less",
				c->n_tokens, c->info.n_ctx_train);
	const int64_t most = c->info.n_ctx_train - (int64_t)c->n_tokens;
	if (c->n_predict > most) {
		fprintf(stderr,
				"%s: note: the prompt has %zu tokens and the model was trained for %d: texts end after "
				"%" PRId64 " tokens\n",
				prog, c->n_tokens, c->info.n_ctx_train, most);
		c->n_predict = most;
	}
	return 0;
}

static int size_cache(struct speculate *c)
{
	const int64_t need = spec_ctx(&c->info, (int64_t)c->n_tokens, c->n_predict, c->n_parallel, c->draft_max);

	if (need > CTX_MAX)
		return bad_usage(prog, "%" PRId64 " texts would take a cache of %" PRId64 " tokens; lower -np or -n",
				c->n_parallel, need);
	if (c->ctx_given && c->n_ctx < need)
		return bad_usage(prog,
				"-ctx %" PRId64 " is too small: these texts take %" PRId64
				"; leave it out, or lower -np or -n",
				c->n_ctx, need);
	if (!c->ctx_given)
		c->n_ctx = need;
	return 0;
}

/* ---- Printing ---- */

static bool on_token(cohort_token t, void *user)
{
	struct speculate *c = user;
	print_token(&c->detok, t);
	fflush(stdout);
	return !ferror(stdout); /* when nobody can read it there is no point in going on */
}

static void print_begin(struct speculate *c)
{
	if (c->show_prompt)
		term_print(stdout, c->prompt, c->n_bytes);
	cohort_detok_init(&c->detok, c->m, false, false);
}

static void print_end(struct speculate *c)
{
	print_rest(&c->detok);
	putchar('\n');
}

static void print_texts(struct speculate *c)
{
	for (int32_t i = 0; i < c->sp.n_lines; i++) {
		printf("%sContinuation %d:\n", i ? "\n" : "", i);
		print_begin(c);
		for (int32_t k = 0; k < c->texts[i].n; k++)
			print_token(&c->detok, c->texts[i].tokens[k]);
		print_end(c);
	}
}

static double per_second(uint64_t n, double s)
{
	return s > 0 ? (double)n / s : 0;
}

static void statistics(const struct speculate *c)
{
	const struct spec_stats *s = &c->first;
	int32_t n_cut = 0;

	for (int32_t i = 0; i < c->sp.n_lines; i++)
		n_cut += c->texts[i].cut;
	if (n_cut > 0)
		fprintf(stderr, "%s: %d of %d text%s cut before the end that the grammar wants; raise -n-predict\n",
				prog, n_cut, c->sp.n_lines, c->sp.n_lines == 1 ? " was" : "s were");
	fprintf(stderr, "%s: drafted %" PRIu64 ", accepted %" PRIu64 " (%.1f %%)\n", prog, s->n_guessed, s->n_right,
			s->n_guessed ? 100.0 * (double)s->n_right / (double)s->n_guessed : 0.0);
	/* The first token of each text came with the prompt. */
	const uint64_t n_firsts = (uint64_t)(c->n_predict > 0 ? c->sp.n_lines : 0);
	const uint64_t n = s->n_tokens > n_firsts ? s->n_tokens - n_firsts : 0;
	fprintf(stderr,
			"%s: %" PRIu64 " token%s in %.2f s (%.1f tokens/s), %" PRIu64
			" verification%s, %.2f tokens per verification\n",
			prog, n, plural(n), s->generate_s, per_second(n, s->generate_s), s->n_checks,
			plural(s->n_checks),
			s->n_checks ? (double)n / (double)s->n_checks : 0.0);
	sampling_tell_seed(&c->s, prog);
	if (!c->verbose)
		return;
	fprintf(stderr, "%s: %zu prompt token%s in %.2f s; %" PRIu64 " decode%s; %.2f s spent on guessing",
			prog, c->n_tokens, plural(c->n_tokens), s->prefill_s, s->n_steps, plural(s->n_steps),
			s->guess_s);
	if (s->n_looked_up)
		fprintf(stderr, "; %" PRIu64 " guesses by lookup, matches of %.1f tokens on average", s->n_looked_up,
				(double)s->n_matched / (double)s->n_looked_up);
	if (s->n_retried)
		fprintf(stderr, "; %" PRIu64 " decodes repeated without guesses", s->n_retried);
	fprintf(stderr, "; level %s\n%s: ", c->info.isa, prog);
	sampling_print(&c->s, stderr);
	fputc('\n', stderr);
}

/* ---- Running ---- */

static int keep_texts(struct speculate *c)
{
	for (int32_t i = 0; i < c->sp.n_lines; i++) {
		const struct spec_line *l = &c->sp.lines[i];
		struct text *t = &c->texts[i];
		t->n = l->n_text > c->sp.n_prompt ? l->n_text - c->sp.n_prompt : 0;
		t->ended = l->ended;
		t->cut = l->sampler && !l->ended && !cohort_sampler_is_complete(l->sampler);
		t->tokens = mem_dup(l->text + c->sp.n_prompt, (size_t)t->n * sizeof *t->tokens);
		if (!t->tokens)
			return out_of_memory(prog);
	}
	return 0;
}

/* Whether the texts that were kept came out again. */
static int same_texts(const struct speculate *c)
{
	for (int32_t i = 0; i < c->sp.n_lines; i++) {
		const struct spec_line *l = &c->sp.lines[i];
		const struct text *t = &c->texts[i];
		const cohort_token *own = l->text + c->sp.n_prompt;
		const int32_t n = l->n_text - c->sp.n_prompt;
		int32_t k = 0;
		while (k < n && k < t->n && own[k] == t->tokens[k])
			k++;
		if (k < n || k < t->n || t->ended != l->ended) {
			fprintf(stderr,
					"%s: the texts DIFFER: continuation %d from token %d on; this is a mistake of "
					"cohort, please report it\n",
					prog, i, k);
			return EXIT_RUN;
		}
	}
	return 0;
}

static int by_size(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double median(double *v, size_t n)
{
	qsort(v, n, sizeof *v, by_size);
	return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

/* Plain decoding after each run with guesses, in turns, so that what else the machine does hits both. */
static int compare(struct speculate *c)
{
	const size_t n_rounds = (size_t)c->n_rounds;
	struct spec_stats stats = c->first;
	int rc = 0;

	c->sp.on_token = NULL;
	c->fast = mem_alloc(n_rounds, sizeof *c->fast);
	c->slow = mem_alloc(n_rounds, sizeof *c->slow);
	if (!c->fast || !c->slow)
		return out_of_memory(prog);
	for (size_t r = 0; r < n_rounds && !rc; r++) {
		if (r > 0)
			rc = spec_run(&c->sp, &stats);
		if (!rc)
			rc = same_texts(c);
		c->fast[r] = stats.generate_s;
		if (!rc)
			rc = spec_plain(&c->sp, &stats);
		if (!rc)
			rc = same_texts(c);
		c->slow[r] = stats.generate_s;
	}
	if (rc)
		return rc;
	const double slow = median(c->slow, n_rounds), fast = median(c->fast, n_rounds);
	const uint64_t n_firsts = (uint64_t)(c->n_predict > 0 ? c->sp.n_lines : 0);
	fprintf(stderr, "%s: plain decoding: %.2f s (%.1f tokens/s), with guesses: %.2f s (%.1f tokens/s)", prog, slow,
			per_second(stats.n_tokens - n_firsts, slow), fast, per_second(stats.n_tokens - n_firsts, fast));
	fprintf(stderr, n_rounds > 1 ? "; medians of %zu rounds in turns\n" : "\n", n_rounds);
	/* Without accepted guesses the quotient is noise. */
	if (c->first.n_right > 0)
		fprintf(stderr, "%s: %.2f times as fast, the texts are identical\n", prog,
				fast > 0 ? slow / fast : 0.0);
	else
		fprintf(stderr, "%s: no guess was accepted, so there is nothing to gain; the texts are identical\n",
				prog);
	return 0;
}

static int open_all(struct speculate *c)
{
	int rc = load_text_model(prog, c->model, c->isa, &c->load, &c->m, &c->info);

	if (rc)
		return rc;
	sampling_seed(&c->s);
	rc = sampling_open(&c->s, prog, c->m);
	if (!rc)
		rc = read_prompt(c);
	if (!rc)
		rc = size_cache(c);
	if (rc)
		return rc;
	const int32_t n_threads = thread_count(c->threads_given, c->threads);
	c->sp = (struct speculation){.prog = prog,
			.m = c->m,
			.s = &c->s,
			.prompt = c->tokens,
			.n_prompt = (int32_t)c->n_tokens,
			.n_predict = (int32_t)c->n_predict,
			.n_lines = (int32_t)c->n_parallel,
			.n_threads = n_threads,
			.draft_min = (int32_t)c->draft_min,
			.draft_max = (int32_t)c->draft_max,
			.ngram_min = (int32_t)c->ngram_min,
			.ngram_max = (int32_t)c->ngram_max,
			.ignore_eos = c->ignore_eos,
			.lookup = c->lookup || !c->draft_file,
			.on_token = c->n_parallel == 1 ? on_token : NULL,
			.user = c};
	const struct draft_params dp = {.prog = prog,
			.path = c->draft_file,
			.isa = c->isa,
			.m = c->m,
			.n_prompt = c->sp.n_prompt,
			.n_predict = c->sp.n_predict,
			.n_lines = c->sp.n_lines,
			.n_threads = n_threads,
			.draft_max = c->sp.draft_max,
			.greedy = c->greedy,
			.ignore_eos = c->ignore_eos};
	if (c->draft_file)
		rc = draft_open(&dp, &c->sp.draft);
	return rc ? rc : spec_open(&c->sp, c->n_ctx);
}

static int run(struct speculate *c)
{
	int rc = open_all(c);
	if (rc)
		return rc;
	c->texts = mem_zalloc((size_t)c->sp.n_lines, sizeof *c->texts);
	if (!c->texts)
		return out_of_memory(prog);
	const bool at_once = c->sp.on_token != NULL;
	if (at_once)
		print_begin(c);
	rc = spec_run(&c->sp, &c->first);
	if (at_once)
		print_end(c);
	if (rc && rc != EXIT_INTERRUPTED)
		return rc;
	const int kept = keep_texts(c);
	if (kept)
		return kept;
	if (!at_once)
		print_texts(c);
	const int out = close_stdout(prog);
	statistics(c);
	if (!rc && !out && c->compare)
		rc = compare(c);
	return out ? out : rc;
}

static void cleanup(struct speculate *c)
{
	for (int32_t i = 0; c->texts && i < c->sp.n_lines; i++)
		mem_free(c->texts[i].tokens);
	mem_free(c->texts);
	mem_free(c->fast);
	mem_free(c->slow);
	spec_release(&c->sp);
	draft_free(c->sp.draft);
	mem_free(c->tokens);
	mem_free(c->file_bytes);
	sampling_release(&c->s);
	cohort_model_free(c->m);
}

static int check(struct speculate *c)
{
	if (c->draft_min > c->draft_max)
		return bad_usage(prog, "-draft-min %" PRId64 " is above -draft-max %" PRId64, c->draft_min,
				c->draft_max);
	if (c->ngram_min > c->ngram_max && c->ngram_min_given && c->ngram_max_given)
		return bad_usage(prog, "-ngram-min %" PRId64 " is above -ngram-max %" PRId64, c->ngram_min,
				c->ngram_max);
	/* One of them alone moves the other out of its way. */
	if (c->ngram_min > c->ngram_max && c->ngram_max_given)
		c->ngram_min = c->ngram_max;
	if (c->ngram_min > c->ngram_max)
		c->ngram_max = c->ngram_min;
	if (c->greedy && !c->draft_file)
		return bad_usage(prog, "-draft-greedy is about a draft model: give one with -draft FILE");
	if (c->rounds_given && !c->compare)
		return bad_usage(prog, "-rounds goes with -compare");
	return 0;
}

int cmd_speculate(int argc, char **argv)
{
	static struct speculate c;
	c = (struct speculate){.n_parallel = 1,
			.n_predict = 128,
			.threads = threads_default(),
			.n_rounds = 1,
			.draft_min = 1,
			.draft_max = 16,
			.ngram_min = 2,
			.ngram_max = 8};
	sampling_init(&c.s, 0.95);
	const struct opt own[] = {
			{"model", "m", OPT_STR, &c.model, 0, 0, "FILE.gguf", "GGUF model (default: the built-in one)",
					NULL},
			{"prompt", "p", OPT_STR, &c.prompt, 0, 0, "TEXT", "the prompt", NULL},
			{"file", "f", OPT_STR, &c.file, 0, 0, "FILE",
					"the prompt from a file, every byte of it; - is standard input", NULL},
			{"n-predict", "n|predict", OPT_INT, &c.n_predict, 0, 1 << 24, "N",
					"tokens per text (default: 128)",
					NULL},
			{"n-parallel", "np|parallel", OPT_INT, &c.n_parallel, 1, 4096, "N",
					"continuations, all verified together (default: 1)", NULL},
			{"lookup", NULL, OPT_FLAG, &c.lookup, 0, 0, NULL,
					"guess from the text itself (default without -draft; with it: first)", NULL},
			{"ngram-max", NULL, OPT_INT, &c.ngram_max, 1, NGRAM_MAX, "N",
					"tokens at the end that are looked up, at most (default: 8)",
					&c.ngram_max_given},
			{"ngram-min", NULL, OPT_INT, &c.ngram_min, 1, NGRAM_MAX, "N", "and at least (default: 2)",
					&c.ngram_min_given},
			{"draft", "md", OPT_STR, &c.draft_file, 0, 0, "FILE.gguf",
					"guess with a smaller model of the same vocabulary", NULL},
			{"draft-greedy", NULL, OPT_FLAG, &c.greedy, 0, 0, NULL,
					"it guesses its likeliest token (default: what the sampler would draw)", NULL},
			{"draft-max", "draft-n", OPT_INT, &c.draft_max, 1, 256, "N",
					"tokens of a guess, at most (default: 16)", NULL},
			{"draft-min", "draft-n-min", OPT_INT, &c.draft_min, 1, 256, "N",
					"shorter guesses are not tried (default: 1)", NULL},
			{"compare", NULL, OPT_FLAG, &c.compare, 0, 0, NULL,
					"decode plainly as well: the speed-up, and whether texts are identical", NULL},
			{"rounds", "r", OPT_INT, &c.n_rounds, 1, ROUNDS_MAX, "N",
					"with -compare: both N times, in turns; medians (default: 1)", &c.rounds_given},
			{"ctx", "c|ctx-size", OPT_INT, &c.n_ctx, 1, CTX_MAX, "N",
					"tokens the KV cache holds (default: what the texts take)", &c.ctx_given},
			{"threads", "t", OPT_INT, &c.threads, 1, 1024, "N",
					"compute threads (default: the CPUs that it may use)", &c.threads_given},
			{"show-prompt", "display-prompt", OPT_FLAG, &c.show_prompt, 0, 0, NULL,
					"print the prompt before its continuation", NULL},
			{"ignore-eos", NULL, OPT_FLAG, &c.ignore_eos, 0, 0, NULL, "go on after the model ends its text",
					NULL},
			{"isa", NULL, OPT_STR, &c.isa, 0, 0, ISA_ARG, ISA_HELP, NULL},
			OPTS_LOAD(&c.load),
			{"verbose", "v", OPT_FLAG, &c.verbose, 0, 0, NULL, "more statistics, and values in use", NULL},
	};
	enum { N_OWN = sizeof own / sizeof *own };
	struct opt opts[N_OWN + SAMPLING_OPTIONS];
	memcpy(opts, own, sizeof own);
	sampling_options(&c.s, "only the likeliest tokens with X of the mass; 1: all (default: 0.95)", opts + N_OWN);
	const struct opt_prog p = {
			prog,
			"[-m FILE] PROMPT [options]",
			"Continues a prompt with guesses that are verified several at a time. The text is the same,\n"
			"byte for byte, as that of plain decoding ('cohort run') with the same options and seed; what\n"
			"guesses change is the time it takes. Statistics go to standard error.",
			"  cohort speculate -temp 0 -n 400 -ignore-eos -compare \"Once upon a time\"\n"
			"  cohort speculate -np 4 -seed 7 -compare \"Once upon a time\"\n"
			"  cohort speculate -m large.gguf -draft small.gguf -draft-max 8 \"Once upon a time\"\n",
			opts,
			sizeof opts / sizeof *opts,
	};
	int rc = opt_parse(&p, argc, argv, 2, c.operands, 1, &c.n_operands);
	if (rc)
		return rc - 1;
	rc = check(&c);
	if (rc)
		return rc;
	catch_signals();
	rc = run(&c);
	cleanup(&c);
	return rc;
}
