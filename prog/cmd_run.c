/* cohort run: prompts continued, all together. Each prompt goes through once, however many continuations it has; as
 * many sequences as the cache holds run at a time, the others wait for their turn. Searches (run_search.c) take the
 * prompts one by one. */
#include "cmd.h"
#include "common.h"
#include "flow.h"
#include "gen.h"
#include "opt.h"
#include "run_search.h"
#include "sampling.h"
#include "term.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/pool.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char prog[] = "cohort run";

enum { TEXT_MAX = 1 << 28, PROMPTS_MAX = 4096, TOP_MAX = 20 };

struct run {
	const char *model, *isa, *prompts_file;
	struct load_opts load;
	struct opt_list texts, files, stops;
	const char *operands[PROMPTS_MAX];
	size_t n_operands;
	int64_t n_parallel, n_predict, n_ctx, threads, n_top;
	int64_t n_least; /* tokens behind the longest prompt, as far as the model was trained */
	bool threads_given, top_given, ctx_given, ignore_eos, verbose, show_prompt;
	struct sampling s;
	struct run_search search;

	struct cohort_model *m;
	struct cohort_model_info info;
	struct gen gen;
	char *bytes[OPT_LIST_MAX + 1]; /* of files */
	size_t n_bytes_of[OPT_LIST_MAX + 1], n_files;
	struct gen_prompt *prompts;
	size_t n_prompts;
	bool at_once; /* one text only: it is printed as it comes */
	struct flow flow; /* of the text that is being printed */
	double started;
};

/* ---- Prompts ---- */

static int64_t cache_room(const struct run *r)
{
	return ROOM(.model = r->m, .n_ctx = r->n_ctx).n_pos_max;
}

/* -n-predict -1: what the longest prompt leaves. */
static void fill_context(struct run *r)
{
	size_t longest = 0;

	for (size_t i = 0; i < r->n_prompts; i++)
		longest = r->prompts[i].n_tokens > longest ? r->prompts[i].n_tokens : longest;
	r->n_predict = cache_room(r) - (int64_t)longest;
	r->gen.n_predict = (int32_t)r->n_predict;
}

static int add_prompt(struct run *r, const char *text, size_t n_bytes)
{
	struct gen_prompt *p = &r->prompts[r->n_prompts++];
	const int rc = gen_prompt_init(&r->gen, p, text, n_bytes, (int32_t)r->n_parallel);

	if (rc)
		return rc;
	if (p->n_tokens == 0)
		return bad_usage(prog, "prompt %zu is empty and the model has no begin token", r->n_prompts - 1);
	const int64_t left = r->info.n_ctx_train - (int64_t)p->n_tokens, room = cache_room(r);
	const int64_t n_more = r->n_predict < 0 ? 1 : left < r->n_predict ? left : r->n_predict;
	if (left <= 0) {
		fprintf(stderr, "%s: prompt %zu has %zu tokens, the model was trained for %d; shorten the prompt\n",
				prog, r->n_prompts - 1, p->n_tokens, r->info.n_ctx_train);
		return EXIT_USAGE;
	}
	if ((int64_t)p->n_tokens + n_more > room) {
		fprintf(stderr,
				"%s: prompt %zu has %zu tokens, with %" PRId64 " more to come; -ctx holds %" PRId64
				"; lower -n-predict or raise -ctx\n",
				prog, r->n_prompts - 1, p->n_tokens, n_more, room);
		return EXIT_USAGE;
	}
	r->n_least = left < r->n_least ? left : r->n_least;
	return 0;
}

/* Said once, for the longest prompt. */
static void note_trained(const struct run *r)
{
	if (r->n_least < r->n_predict)
		fprintf(stderr,
				"%s: the model was trained for %d tokens: texts end there, after %" PRId64
				" of the %" PRId64 " tokens asked for%s\n",
				prog, r->info.n_ctx_train, r->n_least, r->n_predict,
				r->n_prompts > 1 ? ", or more after shorter prompts" : "");
}

static int read_file(struct run *r, const char *path)
{
	struct cohort_err err;

	if (read_input(path, TEXT_MAX, &r->bytes[r->n_files], &r->n_bytes_of[r->n_files], &err)) {
		fail(prog, &err);
		return EXIT_FILE;
	}
	r->n_files++;
	return 0;
}

/* Without any prompt: 'echo Hello | cohort run'. The line end belongs to echo. */
static int read_pipe(struct run *r)
{
	const int rc = read_file(r, "-");
	size_t n = rc ? 0 : r->n_bytes_of[0];

	if (n > 0 && r->bytes[0][n - 1] == '\n')
		n--;
	return rc || n == 0 ? rc : add_prompt(r, r->bytes[0], n);
}

static int read_prompts(struct run *r)
{
	size_t n_most = r->texts.n + r->n_operands + r->files.n, at = 0;
	struct text_line line;
	int rc = 0;

	for (size_t i = 0; i < r->files.n && !rc; i++)
		rc = read_file(r, r->files.items[i]);
	if (!rc && r->prompts_file)
		rc = read_file(r, r->prompts_file);
	if (rc)
		return rc;
	const char *lines = r->prompts_file ? r->bytes[r->n_files - 1] : NULL;
	const size_t n_lines_bytes = r->prompts_file ? r->n_bytes_of[r->n_files - 1] : 0;
	while (next_line(lines, n_lines_bytes, &at, &line))
		n_most++;
	r->prompts = mem_zalloc(n_most + 1, sizeof *r->prompts);
	if (!r->prompts)
		return out_of_memory(prog);
	for (size_t i = 0; i < r->texts.n && !rc; i++)
		rc = add_prompt(r, r->texts.items[i], strlen(r->texts.items[i]));
	for (size_t i = 0; i < r->n_operands && !rc; i++)
		rc = add_prompt(r, r->operands[i], strlen(r->operands[i]));
	for (size_t i = 0; i < r->files.n && !rc; i++)
		rc = add_prompt(r, r->bytes[i], r->n_bytes_of[i]);
	at = 0;
	while (!rc && next_line(lines, n_lines_bytes, &at, &line))
		if (line.n_bytes > 0)
			rc = add_prompt(r, line.text, line.n_bytes);
	if (!rc && n_most == 0 && !isatty(STDIN_FILENO))
		rc = read_pipe(r);
	if (!rc && r->n_prompts == 0)
		rc = bad_usage(prog, "give a prompt: as an argument, with -p, with -f FILE, by a pipe, or "
				     "one on each line of a file with -prompts FILE");
	return rc;
}

/* ---- Printing ---- */

/* What stands before a text. */
static void print_prompt(struct run *r, const struct gen_prompt *p)
{
	flow_begin(&r->flow, 0);
	if (r->show_prompt)
		flow_print(&r->flow, p->text, p->n_bytes);
}

static void show_text(void *user, const struct gen_prompt *p, int32_t i, const char *bytes, size_t n_bytes)
{
	struct run *r = user;

	(void)p, (void)i;
	flow_print(&r->flow, bytes, n_bytes);
	/* When nobody can read it there is no point in going on. */
	if (!r->gen.rc)
		r->gen.rc = close_stdout(prog);
}

static void show_progress(void *user)
{
	const struct run *r = user;
	const double most = (double)r->n_predict * (double)r->n_parallel * (double)r->n_prompts;

	progress_bar(r->started, "generating", (double)r->gen.n_generated, most, "tokens");
}

static void show_token(const struct run *r, cohort_token t)
{
	size_t n = 0;
	char show[ERR_SHOW_BYTES];
	const char *bytes = cohort_token_bytes(r->m, t, true, &n);
	printf("%d '%s'", t, err_show(show, bytes ? bytes : "", n));
}

static void print_logprobs(const struct run *r, const struct gen_text *t)
{
	double sum = 0;
	for (size_t i = 0; i < t->n_tokens; i++) {
		printf("  %4zu  %8.4f  %8.4f  ", i, (double)t->logprobs[i], (double)t->chain_logprobs[i]);
		show_token(r, t->tokens[i]);
		for (int64_t k = 0; k < r->n_top; k++) {
			const struct cohort_logprob *top = &t->top[i * (size_t)r->n_top + (size_t)k];
			if (top->token < 0)
				break;
			printf("%s%.4f ", k ? "  " : "   | ", (double)top->logprob);
			show_token(r, top->token);
		}
		putchar('\n');
		sum += (double)t->logprobs[i];
	}
	if (t->n_tokens > 0)
		printf("  log-probability %.4f, perplexity %.4f\n", sum, gen_perplexity(t));
}

/* "Prompt 2 (The cat sat on ...)": which one it is, on one line. */
static void print_name(const struct gen_prompt *p, size_t i)
{
	enum { SHOWN_BYTES = 60 };
	const bool cut = p->n_bytes > SHOWN_BYTES;
	size_t n = cut ? SHOWN_BYTES : p->n_bytes;

	while (cut && n > 0 && ((unsigned char)p->text[n] & 0xc0) == 0x80)
		n--; /* not within a character */
	char *text = mem_strndup(p->text, n);
	for (size_t k = 0; text && k < n; k++)
		if (strchr("\n\r\t", text[k])) /* also a NUL */
			text[k] = ' ';
	char *shown = text ? printable(text) : NULL;
	printf("Prompt %zu (%s%s)", i, shown ? shown : "?", cut ? "..." : "");
	mem_free(shown);
	mem_free(text);
}

static void print_texts(struct run *r)
{
	for (size_t i = 0; i < r->n_prompts; i++)
		for (int32_t k = 0; k < r->prompts[i].n_texts; k++) {
			const struct gen_text *t = &r->prompts[i].texts[k];
			if (!r->at_once) {
				fputs(i + (size_t)k > 0 ? "\n" : "", stdout);
				if (r->n_prompts > 1)
					print_name(&r->prompts[i], i);
				if (r->n_parallel > 1)
					printf(r->n_prompts > 1 ? ", continuation %d" : "Continuation %d", k);
				puts(":");
				print_prompt(r, &r->prompts[i]);
				flow_print(&r->flow, t->bytes ? t->bytes : "", t->n_bytes);
				putchar('\n');
			}
			if (r->top_given)
				print_logprobs(r, t);
		}
}

/* ---- Running ---- */

static int generate(struct run *r)
{
	const struct gen_watch at_once = {.text = show_text, .user = r}, all = {.tick = show_progress, .user = r};
	const int64_t n_all = (int64_t)r->n_prompts * r->n_parallel;
	int rc = gen_open(&r->gen, 1, n_all, r->n_ctx, thread_count(r->threads_given, r->threads));

	if (rc)
		return rc;
	r->at_once = n_all == 1;
	if (r->at_once)
		print_prompt(r, &r->prompts[0]);
	r->started = clock_now();
	r->gen.watch = r->at_once ? &at_once : &all;
	rc = gen_run(&r->gen, r->prompts, r->n_prompts);
	r->gen.watch = NULL;
	if (r->at_once)
		putchar('\n');
	return rc;
}

/* The same by a search: texts come when they are whole. */
static int search(struct run *r)
{
	struct run_search *s = &r->search;

	s->ignore_eos = r->ignore_eos;
	s->verbose = r->verbose;
	s->n_predict = r->n_predict < r->n_least ? r->n_predict : r->n_least;
	s->n_ctx = r->n_ctx;
	s->ctx_given = r->ctx_given;
	s->n_threads = thread_count(r->threads_given, r->threads);
	const int rc = run_search(s, &r->s, r->m, r->prompts, r->n_prompts);
	r->at_once = r->n_prompts == 1 && r->n_parallel == 1;
	if (rc == 0 && r->at_once) {
		print_prompt(r, &r->prompts[0]);
		flow_print(&r->flow, r->prompts[0].texts[0].bytes, r->prompts[0].texts[0].n_bytes);
		putchar('\n');
	}
	return rc;
}

static void statistics(const struct run *r)
{
	size_t n_cut = 0, n_texts = 0, n_prompt = 0;

	for (size_t i = 0; i < r->n_prompts; i++) {
		n_prompt += r->prompts[i].n_tokens;
		for (int32_t k = 0; k < r->prompts[i].n_texts; k++, n_texts++)
			n_cut += r->prompts[i].texts[k].cut;
	}
	if (n_cut > 0)
		fprintf(stderr, "%s: %zu of %zu text%s cut before the end that the grammar wants; raise -n-predict\n",
				prog, n_cut, n_texts, n_texts == 1 ? " was" : "s were");
	if (!r->search.beams_given && r->n_predict > 0)
		sampling_tell_seed(&r->s, prog);
	if (!r->verbose || run_search_on(&r->search))
		return;
	const struct gen *g = &r->gen;
	fprintf(stderr,
			"%s: %zu prompt token%s in %.2f s, %" PRIu64
			" token%s of %zu text%s in %.2f s (%.1f tokens/s), level %s\n",
			prog, n_prompt, plural(n_prompt), g->prefill_s, g->n_generated, plural(g->n_generated),
			n_texts, plural(n_texts), g->generate_s,
			g->generate_s > 0 ? (double)g->n_generated / g->generate_s : 0, r->info.isa);
	fprintf(stderr, "%s: ", prog);
	sampling_print(&r->s, stderr);
	fputc('\n', stderr);
}

static int open_model(struct run *r)
{
	int rc = load_text_model(prog, r->model, r->isa, &r->load, &r->m, &r->info);

	if (rc)
		return rc;
	r->gen.prog = prog;
	r->gen.model = r->m;
	r->gen.s = &r->s;
	r->gen.n_predict = (int32_t)r->n_predict;
	r->gen.ignore_eos = r->ignore_eos;
	r->gen.logprobs = r->gen.chain_logprobs = r->top_given;
	r->gen.n_top = (int32_t)r->n_top;
	r->gen.stops = r->stops.items;
	r->gen.n_stops = (int32_t)r->stops.n;
	sampling_seed(&r->s);
	return sampling_open(&r->s, prog, r->m);
}

static int run(struct run *r)
{
	const bool searching = run_search_on(&r->search);
	int rc = open_model(r);

	if (!rc)
		rc = read_prompts(r);
	if (!rc && r->n_predict < 0)
		fill_context(r);
	if (!rc)
		note_trained(r);
	if (!rc)
		rc = searching ? search(r) : generate(r);
	if (rc && (searching || rc != EXIT_INTERRUPTED))
		return rc;
	print_texts(r);
	const int out = close_stdout(prog);
	statistics(r);
	return rc ? rc : out;
}

static void cleanup(struct run *r)
{
	for (size_t i = 0; i < r->n_prompts; i++)
		gen_prompt_release(&r->prompts[i]);
	for (size_t i = 0; i < r->n_files; i++)
		mem_free(r->bytes[i]);
	mem_free(r->prompts);
	run_search_release(&r->search);
	gen_close(&r->gen);
	sampling_release(&r->s);
	cohort_model_free(r->m);
}

int cmd_run(int argc, char **argv)
{
	static struct run r;
	r = (struct run){.n_parallel = 1,
			.n_predict = 128,
			.n_least = INT64_MAX,
			.n_ctx = 4096,
			.threads = threads_default()};
	sampling_init(&r.s, 0.95);
	run_search_init(&r.search);
	const struct opt own[] = {
			{"model", "m", OPT_STR, &r.model, 0, 0, "FILE.gguf", "GGUF model (default: the built-in one)",
					NULL},
			{"prompt", "p", OPT_LIST, &r.texts, 0, 0, "TEXT", "a prompt; may be given again", NULL},
			{"file", "f", OPT_LIST, &r.files, 0, 0, "FILE",
					"a prompt from a file, every byte of it (- is standard input); repeatable",
					NULL},
			{"prompts", NULL, OPT_STR, &r.prompts_file, 0, 0, "FILE",
					"many prompts, one on each line; - is standard input", NULL},
			{"n-predict", "n|predict", OPT_INT, &r.n_predict, -1, 1 << 24, "N",
					"tokens per text; -1: until the model ends it or the context is full "
					"(default: 128)",
					NULL},
			{"n-parallel", "np|parallel", OPT_INT, &r.n_parallel, 1, 65536, "N",
					"continuations of each prompt (default: 1)", NULL},
			{"ctx", "c|ctx-size", OPT_INT, &r.n_ctx, 1, 1 << 30, "N",
					"tokens the KV cache holds; texts beyond it wait (default: 4096)",
					&r.ctx_given},
			{"threads", "t", OPT_INT, &r.threads, 1, 1024, "N",
					"compute threads (default: the CPUs that it may use)", &r.threads_given},
			{"logprobs", NULL, OPT_INT, &r.n_top, 0, TOP_MAX, "N",
					"list each token's log-probability before and after the chain, and the N "
					"likeliest",
					&r.top_given},
			{"show-prompt", "display-prompt", OPT_FLAG, &r.show_prompt, 0, 0, NULL,
					"print the prompt before its continuation", NULL},
			{"stop", "reverse-prompt", OPT_LIST, &r.stops, 0, 0, "TEXT",
					"ends a text before this; may be given again", NULL},
			{"ignore-eos", NULL, OPT_FLAG, &r.ignore_eos, 0, 0, NULL, "go on after the model ends its text",
					NULL},
			{"isa", NULL, OPT_STR, &r.isa, 0, 0, ISA_ARG, ISA_HELP, NULL},
			OPTS_LOAD(&r.load),
			{"verbose", "v", OPT_FLAG, &r.verbose, 0, 0, NULL, "speed and values on stderr", NULL},
	};
	enum { N_OWN = sizeof own / sizeof *own };
	struct opt opts[N_OWN + RUN_SEARCH_OPTIONS + SAMPLING_OPTIONS];
	memcpy(opts, own, sizeof own);
	run_search_options(&r.search, opts + N_OWN);
	sampling_options(&r.s, "only the likeliest tokens with X of the mass; 1: all (default: 0.95)",
			opts + N_OWN + RUN_SEARCH_OPTIONS);
	const struct opt_prog p = {
			prog,
			"[-m FILE] [PROMPT ...] [options]",
			"Continues prompts, all of them together. Texts go to standard output; a single one is\n"
			"printed as it comes.",
			"  cohort run \"Once upon a time\"\n"
			"  cohort run -np 3 -n 40 \"The first\" \"The second\"\n"
			"  printf 'The cat\\nThe dog\\n' | cohort run -prompts - -n 20\n"
			"  cohort run -p \"A person as JSON:\" -j '{\"type\":\"object\","
			"\"properties\":{\"name\":\n"
			"      {\"type\":\"string\"},\"age\":{\"type\":\"integer\"}},\"required\":[\"name\","
			"\"age\"]}'\n"
			"  cohort run -beams 6 -np 3 -n 30 \"The cat\"\n"
			"  cohort run -beams 6 -beam-groups 3 -diversity 1 -np 6 -n 20 \"The cat\"\n"
			"  cohort run -best-of 8 -n 30 \"The cat\"\n"
			"  cohort run -best-of 9 -vote 'cat|dog' -grammar 'root ::= \" cat\" | \" dog\"' \\\n"
			"      \"Is it a cat or a dog? Mom said it was a\"\n"
			"  cohort run -p \"Yes or no? \" --grammar 'root ::= \"yes\" | \"no\"' --logprobs 3\n",
			opts,
			sizeof opts / sizeof *opts,
	};
	int rc = opt_parse(&p, argc, argv, 2, r.operands, PROMPTS_MAX, &r.n_operands);
	if (rc)
		return rc - 1;
	/* 'ollama run NAME PROMPT' has a name like llama3.2 here, which is hardly meant as a prompt. */
	const char *name = r.operands[0];
	char shown[ERR_SHOW_BYTES];
	if (r.n_operands == 2 && !r.model && strpbrk(name, "0123456789") && !strpbrk(name, " \t\n"))
		fprintf(stderr, "%s: note: '%s' is taken as a prompt; a model is a file, given with -m FILE\n", prog,
				err_show(shown, name, strlen(name)));
	r.search.n_predict = r.n_predict;
	rc = run_search_check(&r.search, prog, r.n_parallel, r.stops.n > 0, r.top_given);
	if (!rc) {
		catch_signals();
		rc = run(&r);
	}
	cleanup(&r);
	return rc;
}
