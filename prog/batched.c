/* batched: n continuations of one prompt, or of each of many, decoded together. A prompt is computed once; its
 * sequences share its cells. */
#include "batched.h"
#include "columns.h"
#include "compare.h"
#include "flow.h"
#include "interactive.h"
#include "live.h"
#include "stream.h"
#include "term.h"

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/pool.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char prog[] = "batched";

enum { PROMPTS_BYTES_MAX = 1 << 28 };

/* ---- Prompts ---- */

/* Cells that one continuation of a prompt takes at most: all but its last token. */
static int add_prompt(struct job *j, const char *text, size_t n_bytes)
{
	struct gen_prompt *p = &j->prompts[j->n_prompts++];
	const int rc = gen_prompt_init(&j->gen, p, text, n_bytes, (int32_t)j->c.n_parallel);

	if (!rc && p->n_tokens == 0)
		return bad_usage(prog, "%s is empty and the model has no begin token; give a -prompt",
				j->c.prompts_file ? "a prompt" : "the prompt");
	return rc;
}

/* A prompt per line; empty lines are none. */
static int read_prompts(struct job *j)
{
	struct cohort_err err;
	struct text_line line;
	size_t n_bytes = 0, n_lines = 0, at = 0;

	if (read_input(j->c.prompts_file, PROMPTS_BYTES_MAX, &j->prompts_bytes, &n_bytes, &err)) {
		fail(prog, &err);
		return EXIT_FILE;
	}
	while (next_line(j->prompts_bytes, n_bytes, &at, &line))
		n_lines++;
	j->prompts = mem_zalloc(n_lines, sizeof *j->prompts);
	if (!j->prompts)
		return out_of_memory(prog);
	int rc = 0;
	at = 0;
	while (!rc && next_line(j->prompts_bytes, n_bytes, &at, &line))
		if (line.n_bytes > 0)
			rc = add_prompt(j, line.text, line.n_bytes);
	if (!rc && j->n_prompts == 0)
		rc = bad_usage(prog, "%s has no prompts: it should have one on each line", j->c.prompts_file);
	return rc;
}

static int make_prompts(struct job *j)
{
	if (j->c.prompts_file && j->c.prompt_given)
		fprintf(stderr, "%s: note: the prompts are those of %s; -prompt is not used\n", prog,
				strcmp(j->c.prompts_file, "-") == 0 ? "standard input" : "-prompts");
	if (j->c.prompts_file)
		return read_prompts(j);
	j->prompts = mem_zalloc(1, sizeof *j->prompts);
	return j->prompts ? add_prompt(j, j->c.prompt, strlen(j->c.prompt)) : out_of_memory(prog);
}

/* ---- What fits ---- */

static int check_prompt(struct job *j, const struct gen_prompt *p, int64_t *n_predict)
{
	const struct cohort_room_info room = ROOM(.model = j->model, .n_ctx = j->c.n_ctx);
	const int64_t n_tokens = (int64_t)p->n_tokens;

	if (n_tokens > j->info.n_ctx_train) {
		fprintf(stderr, "%s: the prompt has %" PRId64 " tokens, the model was trained for %d; shorten it\n",
				prog, n_tokens, j->info.n_ctx_train);
		return EXIT_USAGE;
	}
	if (n_tokens > room.n_pos_max) {
		fprintf(stderr, "%s: the prompt has %" PRId64 " tokens, -ctx holds %d; raise -ctx\n", prog, n_tokens,
				room.n_pos_max);
		return EXIT_USAGE;
	}
	if (n_tokens + *n_predict > j->info.n_ctx_train)
		*n_predict = j->info.n_ctx_train - n_tokens;
	return 0;
}

static int check_room(const struct job *j, const struct gen_prompt *p)
{
	const int64_t held = (int64_t)p->n_tokens + j->n_predict, n = j->c.n_parallel;
	const struct cohort_room_info room = ROOM(.model = j->model, .n_ctx = j->c.n_ctx, .n_seqs = n,
			.n_tokens = gen_cells(p, j->n_predict), .n_prompt = (int64_t)p->n_tokens);

	if (held > room.n_pos_max) {
		fprintf(stderr,
				"%s: one sequence of %" PRId64 " tokens does not fit into -ctx %" PRId64
				"; raise -ctx to %" PRId64 "\n",
				prog, held, j->c.n_ctx, ROOM(.n_seqs = 1, .n_tokens = held).n_ctx_needed);
		return EXIT_USAGE;
	}
	if (n > room.n_fit) {
		fprintf(stderr,
				"%s: %" PRId64 " sequences of %" PRId64 " tokens do not fit into -ctx %" PRId64
				": they take %" PRId64 " blocks of %d tokens and there are %d; use -n-parallel %d"
				" or raise -ctx to %" PRId64 "\n",
				prog, n, held, j->c.n_ctx, room.n_needed, room.block_size, room.n_blocks, room.n_fit,
				room.n_ctx_needed);
		return EXIT_USAGE;
	}
	return 0;
}

int batched_check(struct job *j)
{
	int64_t n_predict = j->c.n_predict;
	int rc = 0;

	for (size_t i = 0; i < j->n_prompts && !rc; i++)
		rc = check_prompt(j, &j->prompts[i], &n_predict);
	if (!rc && n_predict < j->c.n_predict)
		fprintf(stderr,
				"%s: the model was trained for %d tokens: sequences end after %" PRId64
				" of the %" PRId64 " tokens asked for\n",
				prog, j->info.n_ctx_train, n_predict, j->c.n_predict);
	j->n_predict = j->gen.n_predict = (int32_t)n_predict;
	for (size_t i = 0; i < j->n_prompts && !rc; i++)
		rc = check_room(j, &j->prompts[i]);
	return rc;
}

/* ---- Output ---- */

/* Lines of a text break where those of the live view did. */
static void print_sequences(const struct job *j)
{
	const bool dims = term_colors(STDOUT_FILENO);
	size_t rows, cols;
	struct flow flow;

	term_size(STDOUT_FILENO, &rows, &cols);
	const size_t gutter = j->n_prompts > 0 ? live_gutter(j->prompts, j->n_prompts, 0, cols) : 0;
	for (size_t i = 0; i < j->n_prompts; i++) {
		const struct gen_prompt *p = &j->prompts[i];
		for (int32_t k = 0; k < p->n_texts; k++) {
			if (j->n_prompts > 1)
				printf("Prompt %zu, ", i);
			printf(j->n_prompts > 1 ? "sequence %d:\n\n" : "Sequence %d:\n\n", k);
			flow_begin(&flow, gutter);
			fputs(dims ? "\033[2m" : "", stdout);
			flow_print(&flow, p->text, p->n_bytes);
			fputs(dims ? "\033[22m" : "", stdout);
			flow_print(&flow, p->texts[k].bytes ? p->texts[k].bytes : "", p->texts[k].n_bytes);
			fputs("\n\n", stdout);
		}
	}
}

int batched_show(const struct job *j)
{
	if (j->c.compare)
		return compare_show(j, j->c.width);
	if (!j->c.stream && !export_takes_stdout(&j->c.output))
		print_sequences(j);
	return 0;
}

static double rate(double n, double seconds)
{
	return seconds > 0 ? n / seconds : 0;
}

static void print_cut(const struct job *j)
{
	size_t n_cut = 0, n_all = 0;

	for (size_t i = 0; i < j->n_prompts; i++)
		for (int32_t k = 0; k < j->prompts[i].n_texts; k++, n_all++)
			n_cut += j->prompts[i].texts[k].cut;
	if (n_cut > 0)
		fprintf(stderr, "\n%zu of %zu sequences were cut before the end that the %s wants; raise -n-predict\n",
				n_cut, n_all, j->s.grammar || j->s.grammar_file ? "grammar" : "schema");
}

static void print_ends(const struct job *j)
{
	for (size_t i = 0; i < j->n_prompts; i++)
		for (int32_t k = 0; k < j->prompts[i].n_texts; k++) {
			const struct gen_text *t = &j->prompts[i].texts[k];
			const char *why = compare_end(t);
			if (j->n_prompts > 1)
				fprintf(stderr, "  Prompt %zu, sequence %d: %zu token%s, %s\n", i, k, t->n_tokens,
						plural(t->n_tokens), why);
			else
				fprintf(stderr, "  Sequence %d: %zu token%s, %s\n", k, t->n_tokens,
						plural(t->n_tokens), why);
		}
}

static void print_details(const struct job *j)
{
	struct cohort_engine_stats stats;

	cohort_engine_stats_get(j->gen.engine, &stats);
	fprintf(stderr,
			"\nDetails:\n  Instruction set: %s\n  Layers %d, width %d, heads %d (%d KV), feed-forward %d, "
			"vocabulary %d (%s)\n",
			j->info.isa, j->info.n_layer, j->info.n_embd, j->info.n_head, j->info.n_head_kv, j->info.n_ff,
			j->info.n_vocab, j->info.tokenizer);
	fprintf(stderr, "  Weights: %.1f MiB in the file, %.1f MiB when repacked\n",
			(double)j->info.weight_bytes / 1048576.0, (double)j->info.packed_bytes / 1048576.0);
	if (!j->info.recurrent)
		fprintf(stderr, "  KV cache: at most %d of %d blocks of %d positions in use\n", j->gen.n_blocks_most,
				j->gen.n_blocks, ROOM(.n_ctx = 0).block_size);
	fprintf(stderr, "  Engine: %" PRIu64 " ticks, %.0f ms of decoding, %.0f ms of sampling\n", stats.n_ticks,
			1e3 * stats.decode_s, 1e3 * stats.sample_s);
	for (size_t i = 0; i < j->n_prompts; i++) {
		fprintf(stderr, j->n_prompts > 1 ? "  Tokens of prompt %zu:" : "  Prompt tokens:", i);
		for (size_t k = 0; k < j->prompts[i].n_tokens; k++)
			fprintf(stderr, " %d", j->prompts[i].tokens[k]);
		fputc('\n', stderr);
	}
	print_ends(j);
}

static void print_statistics(const struct job *j)
{
	const struct gen *g = &j->gen;
	char shown[ERR_SHOW_BYTES];
	size_t n_prompt = 0;

	for (size_t i = 0; i < j->n_prompts; i++)
		n_prompt += j->prompts[i].n_tokens;
	fprintf(stderr, "Performance Statistics:\n");
	const double tokens_s = gen_tokens_s(g, j->prompts, j->n_prompts);
	fprintf(stderr, "  Decoded %" PRIu64 " token%s in %.2f seconds\n", g->n_generated,
			plural(g->n_generated), tokens_s);
	fprintf(stderr, "  Speed: %.2f tokens/second\n", rate((double)g->n_generated, tokens_s));
	fprintf(stderr, "  Parallel sequences: %" PRId64 "\n", j->c.n_parallel);
	if (j->n_prompts > 1)
		fprintf(stderr, "  Prompts: %zu, %zu tokens together, the last one begun after %.2f seconds\n\n",
				j->n_prompts, n_prompt, g->prefill_s);
	else
		fprintf(stderr,
				"  Prefill: %zu token%s in %.2f seconds (%.2f tokens/second), "
				"once for all sequences\n\n",
				n_prompt, plural(n_prompt), g->prefill_s, rate((double)n_prompt, g->prefill_s));
	fprintf(stderr, "Configuration:\n  Model: %s (%s, %.1f M parameters)\n",
			*j->info.name ? err_show(shown, j->info.name, strlen(j->info.name)) : "unnamed", j->info.arch,
			(double)j->info.n_params * 1e-6);
	fprintf(stderr, "  Sequences: %" PRId64 " of up to %d token%s, context %" PRId64 ", threads %d\n",
			j->c.n_parallel, j->n_predict, plural((uint64_t)j->n_predict), j->c.n_ctx, j->n_threads);
	fputs("  Sampling: ", stderr);
	sampling_print(&j->s, stderr);
	fputc('\n', stderr);
	print_cut(j);
	if (j->c.verbose)
		print_details(j);
}

/* ---- Running ---- */

struct progress {
	const struct job *j;
	double started;
};

static void show_progress(void *user)
{
	const struct progress *p = user;
	const struct job *j = p->j;
	const double most = (double)j->n_predict * (double)j->c.n_parallel * (double)j->n_prompts;

	progress_bar(p->started, "generating", (double)j->gen.n_generated, most, "tokens");
}

int batched_generate(struct job *j)
{
	struct progress progress = {j, clock_now()};
	const struct gen_watch watch = {.tick = show_progress, .user = &progress};
	const bool as_live = !j->c.stream && !j->c.no_live && term_moves(STDOUT_FILENO);
	struct stream *stream = NULL;
	struct live *live = NULL;

	j->gen.watch = &watch;
	if (j->c.stream && !(stream = stream_open(&j->gen, j->prompts, j->n_prompts, j->c.prompts_file != NULL)))
		return out_of_memory(prog);
	if (as_live && !(live = live_open(&j->gen, j->prompts, j->n_prompts, 0)))
		return out_of_memory(prog);
	if (stream || live)
		j->gen.watch = stream ? stream_watch(stream) : live_watch(live);
	const int rc = gen_run(&j->gen, j->prompts, j->n_prompts);
	j->gen.watch = NULL;
	stream_free(stream);
	live_free(live);
	return rc;
}

static int open_model(struct job *j)
{
	int rc = load_text_model(prog, j->c.model, j->c.isa, &j->c.load, &j->model, &j->info);

	if (rc)
		return rc;
	if (j->c.verbose) {
		char shown[ERR_SHOW_BYTES];
		fprintf(stderr, "%s: loaded %s\n", prog, err_show(shown, j->info.name, strlen(j->info.name)));
	}
	j->n_threads = thread_count(j->c.threads_given, j->c.threads);
	j->gen.model = j->model;
	j->gen.s = &j->s;
	j->gen.ignore_eos = j->c.ignore_eos;
	j->gen.logprobs = j->c.compare || j->c.output.files.n > 0;
	return sampling_open(&j->s, prog, j->model);
}

static int run(struct job *j, const struct opt_prog *options)
{
	int rc = export_check(j);

	if (!rc)
		rc = open_model(j);
	if (!rc && j->c.interactive)
		return interactive_run(j, options);
	if (!rc)
		rc = make_prompts(j);
	if (!rc)
		rc = batched_check(j);
	if (!rc)
		rc = gen_open(&j->gen, j->c.n_parallel, (int64_t)j->n_prompts * j->c.n_parallel, j->c.n_ctx,
				j->n_threads);
	if (rc) /* interrupted while the model was loaded, too: there are no texts to show */
		return rc;
	rc = batched_generate(j);
	if (rc && rc != EXIT_INTERRUPTED)
		return rc;
	int out = batched_show(j);
	const int written = export_write(j, rc == EXIT_INTERRUPTED), closed = close_stdout(prog);
	out = out ? out : closed ? closed : written;
	print_statistics(j);
	return rc ? rc : out;
}

static void cleanup(struct job *j)
{
	for (size_t i = 0; i < j->n_prompts; i++)
		gen_prompt_release(&j->prompts[i]);
	mem_free(j->prompts);
	mem_free(j->prompts_bytes);
	gen_close(&j->gen);
	sampling_release(&j->s);
	cohort_model_free(j->model);
}

int main(int argc, char **argv)
{
	struct job j = {.gen = {.prog = prog},
			.c = {
					.prompt = "Hello my name is",
					.n_parallel = 4,
					.n_predict = 32,
					.n_ctx = 2048,
					.threads = 4,
			}};
	start_signals();
	json_take_over();
	sampling_init(&j.s, BATCHED_TOP_P);
	const struct opt own[] = {
			{"model", "m", OPT_STR, &j.c.model, 0, 0, "FILE.gguf", "GGUF model (default: the built-in one)",
					NULL},
			{"prompt", "p", OPT_STR, &j.c.prompt, 0, 0, "TEXT",
					"what all sequences continue (default: \"Hello my name is\")",
					&j.c.prompt_given},
			{"prompts", NULL, OPT_STR, &j.c.prompts_file, 0, 0, "FILE",
					"many prompts, one on each line; - is standard input", NULL},
			{"interactive", "i", OPT_FLAG, &j.c.interactive, 0, 0, NULL,
					"type prompts, one after the other; :help tells the commands", NULL},
			{"no-history", NULL, OPT_FLAG, &j.c.no_history, 0, 0, NULL,
					"with -interactive: lines are not remembered for the next time", NULL},
			{"n-parallel", "np|parallel", OPT_INT, &j.c.n_parallel, 1, 65536, "N",
					"sequences generated together, of each prompt (default: 4)", NULL},
			{"n-predict", "n|predict", OPT_INT, &j.c.n_predict, 0, 1 << 24, "N",
					"tokens per sequence (default: 32)", NULL},
			{"ctx", "c|ctx-size", OPT_INT, &j.c.n_ctx, 1, 1 << 30, "N",
					"tokens the KV cache holds, all sequences together (default: 2048)", NULL},
			{"threads", "t", OPT_INT, &j.c.threads, 1, 1024, "N",
					"compute threads (default: 4, or the CPUs there are)", &j.c.threads_given},
			{"ignore-eos", NULL, OPT_FLAG, &j.c.ignore_eos, 0, 0, NULL,
					"go on after the model ends its text", NULL},
			{"stream", NULL, OPT_FLAG, &j.c.stream, 0, 0, NULL,
					"print texts as they come, in lines '[SEQUENCE] piece' (see above)", NULL},
			{"no-live", NULL, OPT_FLAG, &j.c.no_live, 0, 0, NULL,
					"on a terminal: do not show the texts while they are generated", NULL},
			{"compare", NULL, OPT_FLAG, &j.c.compare, 0, 0, NULL,
					"texts side by side: what they share, where they part, how likely they are",
					NULL},
			{"width", NULL, OPT_INT, &j.c.width, COLUMNS_WIDTH_MIN, COLUMNS_WIDTH_MAX, "N",
					"characters on a line of -compare (default: the terminal's, or 80)", NULL},
			OPTS_EXPORT(&j.c.output),
			{"isa", NULL, OPT_STR, &j.c.isa, 0, 0, ISA_ARG, ISA_HELP, NULL},
			OPTS_LOAD(&j.c.load),
			{"verbose", "v", OPT_FLAG, &j.c.verbose, 0, 0, NULL, "details on stderr", NULL},
			{"version", NULL, OPT_FLAG, &j.c.version, 0, 0, NULL, "print the version", NULL},
	};
	enum { N_OWN = sizeof own / sizeof *own };
	struct opt opts[N_OWN + SAMPLING_OPTIONS];
	memcpy(opts, own, sizeof own);
	sampling_options(&j.s, "only the likeliest tokens with X of the mass; 1: all (default: 0.9)", opts + N_OWN);
	for (size_t i = N_OWN; i < sizeof opts / sizeof *opts; i++)
		if (opts[i].value == &j.s.seed) {
			opts[i].min = 0;
			opts[i].help = "same seed, same text, on every machine (default: 0)";
		}
	const struct opt_prog p = {
			prog,
			"[options]",
			"Generates several continuations of one prompt together. The texts go to standard output,\n"
			"everything else to standard error. On a terminal they are shown while they grow.\n\n"
			"With -stream every piece of a text (a line, a sentence, at most 200 bytes) is printed\n"
			"as a line as soon as it is there: '[2] piece' for sequence 2, '[7.2] piece' for\n"
			"sequence 2 of prompt 7 of -prompts, and '[2]' alone when the sequence has ended. Within\n"
			"a piece \\n is a line end, \\\\ a backslash, \\t, \\r and \\0ooo other bytes, as printf %b\n"
			"reads them. Put together, the pieces are the text without its prompt.",
			"  batched -prompt \"The future of AI is\" -n-parallel 4\n"
			"  batched -prompt \"Once upon a time\" -n-parallel 2 -n-predict 64 -seed 7\n"
			"  batched -prompt \"Innovation means\" -temperature 1.2 -verbose\n"
			"  batched -prompt \"Once upon a time\" -stream | grep '^\\[2\\]'\n"
			"  batched -prompt \"Once upon a time\" -n-parallel 3 -compare\n"
			"  batched -prompt \"Once upon a time\" -output stories.html -output stories.json\n"
			"  batched -interactive\n",
			opts,
			sizeof opts / sizeof *opts,
	};
	if (!hide_levels(prog))
		return EXIT_USAGE;
	int rc = opt_parse(&p, argc, argv, 1, NULL, 0, NULL);
	if (rc)
		return rc - 1;
	if (j.c.version) {
		printf("batched %s\n", cohort_version());
		return close_stdout(prog);
	}
	if (j.c.interactive && (j.c.prompts_file || j.c.output.files.n > 0))
		return bad_usage(prog, "-interactive goes without -prompts and -output");
	catch_signals();
	rc = run(&j, &p);
	cleanup(&j);
	return rc;
}
