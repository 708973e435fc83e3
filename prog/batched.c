/* batched: n continuations of one prompt, decoded together. The prompt is computed once; the sequences share its
 * cells. */
#include "common.h"
#include "opt.h"
#include "sampling.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/pool.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char prog[] = "batched";

struct config {
	const char *model, *prompt, *isa;
	struct load_opts load;
	int64_t n_parallel, n_predict, n_ctx, threads;
	bool threads_given, verbose, ignore_eos, version;
};

struct sequence {
	struct cohort_sampler *sampler;
	cohort_token *tokens; /* [n_predict] */
	int32_t n;
	bool ended; /* by an end-of-text token */
};

struct run {
	struct config c;
	struct sampling s;
	struct cohort_model *model;
	struct cohort_model_info info;
	struct cohort_context *ctx;
	struct cohort_batch batch;
	cohort_token *prompt;
	size_t n_prompt;
	struct sequence *seqs; /* [n_parallel] */
	int32_t *rows; /* sequence of each row of the batch */
	int32_t n_predict; /* may be less than asked for, see limits() */
	double prefill_s, generate_s;
	uint64_t n_generated;
};

static int tokenize(struct run *r)
{
	struct cohort_err err;
	size_t n_bytes = strlen(r->c.prompt), room = cohort_tokenize_bound(n_bytes);

	r->prompt = mem_alloc(room, sizeof *r->prompt);
	if (!r->prompt) {
		fprintf(stderr, "%s: out of memory for the prompt\n", prog);
		return EXIT_RUN;
	}
	if (cohort_tokenize(r->model, r->c.prompt, n_bytes, COHORT_TOKENIZE_SPECIAL, r->prompt, room, &r->n_prompt,
			    &err))
		return fail(prog, &err);
	if (r->n_prompt == 0) {
		fprintf(stderr, "%s: the prompt is empty and the model has no begin token; give a -prompt\n", prog);
		return EXIT_USAGE;
	}
	return 0;
}

/* Says what does not fit, before anything is computed. A sequence holds the prompt and all but the last of its
 * tokens. */
static int limits(struct run *r)
{
	const int64_t n_prompt = (int64_t)r->n_prompt, block = cohort_kv_block_size();
	const int64_t n_blocks = (r->c.n_ctx + block - 1) / block;
	int64_t n_predict = r->c.n_predict;

	if (n_prompt > r->info.n_ctx_train) {
		fprintf(stderr, "%s: the prompt has %" PRId64 " tokens, the model was trained for %d\n", prog, n_prompt,
				r->info.n_ctx_train);
		return EXIT_USAGE;
	}
	if (n_prompt > n_blocks * block) {
		fprintf(stderr, "%s: the prompt has %" PRId64 " tokens, -ctx holds %" PRId64 "; raise -ctx\n", prog,
				n_prompt, n_blocks * block);
		return EXIT_USAGE;
	}
	if (n_prompt + n_predict - 1 > r->info.n_ctx_train) {
		n_predict = r->info.n_ctx_train - n_prompt + 1;
		fprintf(stderr,
				"%s: the model was trained for %d tokens: sequences end after %" PRId64
				" of the %" PRId64 " tokens asked for\n",
				prog, r->info.n_ctx_train, n_predict, r->c.n_predict);
	}
	int64_t held = n_prompt + (n_predict > 0 ? n_predict - 1 : 0);
	/* Nothing is written after the prompt when at most one token is drawn: then even its last block is shared. */
	int64_t shared = n_predict > 1 ? n_prompt / block : (n_prompt + block - 1) / block;
	int64_t own = (held + block - 1) / block - shared;
	int64_t fits = own > 0 ? (n_blocks - shared) / own : r->c.n_parallel;
	if (fits < 1) {
		fprintf(stderr,
				"%s: one sequence of %" PRId64 " tokens does not fit into -ctx %" PRId64
				"; raise -ctx to %" PRId64 "\n",
				prog, held, r->c.n_ctx, (shared + own) * block);
		return EXIT_USAGE;
	}
	if (r->c.n_parallel > fits) {
		fprintf(stderr,
				"%s: %" PRId64 " sequences of %" PRId64 " tokens do not fit into -ctx %" PRId64
				": %" PRId64 " would; use -n-parallel %" PRId64 " or raise -ctx to %" PRId64 "\n",
				prog, r->c.n_parallel, held, r->c.n_ctx, fits, fits,
				(shared + own * r->c.n_parallel) * block);
		return EXIT_USAGE;
	}
	r->n_predict = (int32_t)n_predict;
	return 0;
}

static int open_context(struct run *r)
{
	struct cohort_context_params cp;
	struct cohort_err err;
	size_t n = (size_t)r->c.n_parallel;

	cohort_context_params_init(&cp);
	cp.n_ctx = (int32_t)r->c.n_ctx;
	cp.n_seq_max = (int32_t)n;
	cp.n_batch = n > 512 ? (int32_t)n : 512;
	cp.n_threads = thread_count(r->c.threads_given, r->c.threads);
	cp.abort = stop_asked;
	if (cohort_context_open(r->model, &cp, &r->ctx, &err) || cohort_batch_init(&r->batch, cp.n_batch, 0, 1, &err))
		return fail(prog, &err);
	r->seqs = mem_zalloc(n, sizeof *r->seqs);
	r->rows = mem_zalloc(n, sizeof *r->rows);
	if (!r->seqs || !r->rows) {
		fprintf(stderr, "%s: out of memory for %zu sequences\n", prog, n);
		return EXIT_RUN;
	}
	for (size_t i = 0; i < n; i++) {
		r->seqs[i].tokens = mem_zalloc((size_t)r->n_predict, sizeof *r->seqs[i].tokens);
		if (!r->seqs[i].tokens) {
			fprintf(stderr, "%s: out of memory for %zu sequences\n", prog, n);
			return EXIT_RUN;
		}
		if (sampling_sampler(&r->s, i, r->prompt, r->n_prompt, &r->seqs[i].sampler, &err))
			return fail(prog, &err);
	}
	return 0;
}

/* The prompt goes through once, as sequence 0; the others become copies of it, sharing its cells. */
static int prefill(struct run *r)
{
	struct cohort_err err;
	const cohort_seq zero = 0;
	const size_t n_batch = 512;

	for (size_t at = 0; at < r->n_prompt; at += n_batch) {
		size_t n = r->n_prompt - at < n_batch ? r->n_prompt - at : n_batch;
		cohort_batch_reset(&r->batch);
		for (size_t i = 0; i < n; i++)
			if (cohort_batch_add(&r->batch, r->prompt[at + i], (cohort_pos)(at + i), &zero, 1,
					    at + i + 1 == r->n_prompt, &err))
				return fail(prog, &err);
		if (cohort_decode(r->ctx, &r->batch, &err))
			return fail(prog, &err);
	}
	for (cohort_seq s = 1; s < (cohort_seq)r->c.n_parallel; s++)
		if (cohort_seq_cp(r->ctx, 0, s, 0, -1, &err))
			return fail(prog, &err);
	return 0;
}

/* Takes the next token of one sequence from logits row i. Returns -1 on failure, 1 if the sequence goes on, else 0. */
static int take(struct run *r, struct sequence *s, int32_t i)
{
	struct cohort_err err;
	cohort_token t;
	const float *logits = cohort_logits_get(r->ctx, i, &err);

	if (!logits || cohort_sampler_sample(s->sampler, logits, &t, &err)) {
		fail(prog, &err);
		return -1;
	}
	r->n_generated++;
	if (!r->c.ignore_eos && cohort_token_is_eog(r->model, t)) {
		s->ended = true;
		return 0;
	}
	s->tokens[s->n++] = t;
	return s->n < r->n_predict;
}

static int generate(struct run *r)
{
	struct cohort_err err;
	int32_t n_rows = 0;
	double started = clock_now();

	for (int32_t i = 0; i < (int32_t)r->c.n_parallel && r->n_predict > 0; i++) {
		int go = take(r, &r->seqs[i], -1);
		if (go < 0)
			return EXIT_RUN;
		if (go)
			r->rows[n_rows++] = i;
	}
	for (int32_t step = 1; n_rows > 0; step++) {
		if (interrupted())
			return EXIT_INTERRUPTED;
		cohort_batch_reset(&r->batch);
		for (int32_t i = 0; i < n_rows; i++) {
			const struct sequence *s = &r->seqs[r->rows[i]];
			const cohort_seq id = r->rows[i];
			if (cohort_batch_add(&r->batch, s->tokens[s->n - 1], (cohort_pos)r->n_prompt + s->n - 1, &id, 1,
					    true, &err))
				return fail(prog, &err);
		}
		enum cohort_status st = cohort_decode(r->ctx, &r->batch, &err);
		if (st == COHORT_ABORTED)
			return EXIT_INTERRUPTED;
		if (st)
			return fail(prog, &err);
		int32_t left = 0;
		for (int32_t i = 0; i < n_rows; i++) {
			int go = take(r, &r->seqs[r->rows[i]], i);
			if (go < 0)
				return EXIT_RUN;
			if (go)
				r->rows[left++] = r->rows[i];
		}
		n_rows = left;
		progress_line(started, "%d of %d tokens in %" PRId64 " sequences", step + 1, r->n_predict,
				r->c.n_parallel);
	}
	return 0;
}

static void print_sequences(const struct run *r)
{
	for (int64_t i = 0; i < r->c.n_parallel; i++) {
		struct cohort_detok d;
		printf("Sequence %" PRId64 ":\n\n%s", i, r->c.prompt);
		cohort_detok_init(&d, r->model, false, false);
		for (int32_t j = 0; j < r->seqs[i].n; j++)
			print_token(&d, r->seqs[i].tokens[j]);
		print_rest(&d);
		fputs("\n\n", stdout);
	}
}

static double rate(double n, double seconds)
{
	return seconds > 0 ? n / seconds : 0;
}

static void print_statistics(const struct run *r)
{
	struct cohort_usage u;
	char shown[ERR_SHOW_BYTES];

	fprintf(stderr, "Performance Statistics:\n");
	fprintf(stderr, "  Decoded %" PRIu64 " tokens in %.2f seconds\n", r->n_generated, r->generate_s);
	fprintf(stderr, "  Speed: %.2f tokens/second\n", rate((double)r->n_generated, r->generate_s));
	fprintf(stderr, "  Parallel sequences: %" PRId64 "\n", r->c.n_parallel);
	fprintf(stderr, "  Prefill: %zu tokens in %.2f seconds (%.2f tokens/second), once for all sequences\n\n",
			r->n_prompt, r->prefill_s, rate((double)r->n_prompt, r->prefill_s));
	fprintf(stderr, "Configuration:\n  Model: %s (%s, %.1f M parameters)\n",
			*r->info.name ? err_show(shown, r->info.name, strlen(r->info.name)) : "unnamed", r->info.arch,
			(double)r->info.n_params * 1e-6);
	fprintf(stderr, "  Sequences: %" PRId64 " of up to %d tokens, context %" PRId64 ", threads %d\n",
			r->c.n_parallel, r->n_predict, r->c.n_ctx, thread_count(r->c.threads_given, r->c.threads));
	fputs("  Sampling: ", stderr);
	sampling_print(&r->s, stderr);
	fputc('\n', stderr);
	int64_t n_cut = 0;
	for (int64_t i = 0; i < r->c.n_parallel; i++)
		n_cut += !r->seqs[i].ended && !cohort_sampler_is_complete(r->seqs[i].sampler);
	if (n_cut > 0)
		fprintf(stderr,
				"\n%" PRId64 " of %" PRId64
				" sequences were cut before the end that the %s wants; raise -n-predict\n",
				n_cut, r->c.n_parallel, r->s.grammar || r->s.grammar_file ? "grammar" : "schema");
	if (!r->c.verbose)
		return;
	cohort_usage_get(r->ctx, &u);
	fprintf(stderr,
			"\nDetails:\n  Instruction set: %s\n  Layers %d, width %d, heads %d (%d KV), feed-forward %d, "
			"vocabulary %d (%s)\n",
			r->info.isa, r->info.n_layer, r->info.n_embd, r->info.n_head, r->info.n_head_kv, r->info.n_ff,
			r->info.n_vocab, r->info.tokenizer);
	fprintf(stderr, "  Weights: %.1f MiB in the file, %.1f MiB repacked\n",
			(double)r->info.weight_bytes / 1048576.0, (double)r->info.packed_bytes / 1048576.0);
	fprintf(stderr, "  KV cache: %d of %d blocks of %d positions in use, %d shared, %.1f KiB each\n", u.n_used,
			u.n_blocks, u.block_size, u.n_shared, (double)u.block_bytes / 1024.0);
	fprintf(stderr, "  Prompt tokens:");
	for (size_t i = 0; i < r->n_prompt; i++)
		fprintf(stderr, " %d", r->prompt[i]);
	fputc('\n', stderr);
	for (int64_t i = 0; i < r->c.n_parallel; i++) {
		const struct sequence *s = &r->seqs[i];
		const char *why = s->n < r->n_predict ? "interrupted" : "length reached";
		if (s->ended)
			why = "ended by the model";
		else if (!cohort_sampler_is_complete(s->sampler))
			why = "cut before the grammar's end";
		fprintf(stderr, "  Sequence %" PRId64 ": %d tokens, %s\n", i, s->n, why);
	}
}

static int run(struct run *r)
{
	struct cohort_model_params mp;
	cohort_model_params_init(&mp);
	mp.isa = r->c.isa;
	int rc = load_opts_apply(prog, &r->c.load, &mp);
	if (!rc)
		rc = load_model(prog, r->c.model, &mp, &r->model);
	if (rc)
		return rc;
	cohort_model_info_get(r->model, &r->info);
	if (!*r->info.tokenizer) {
		fprintf(stderr, "%s: the model has no tokeniser, so there is no way to give it text\n", prog);
		return EXIT_MODEL;
	}
	if (r->c.verbose) {
		char shown[ERR_SHOW_BYTES];
		fprintf(stderr, "%s: loaded %s\n", prog, err_show(shown, r->info.name, strlen(r->info.name)));
	}
	rc = sampling_open(&r->s, prog, r->model);
	if (!rc)
		rc = tokenize(r);
	if (!rc)
		rc = limits(r);
	if (!rc)
		rc = open_context(r);
	if (rc)
		return rc;
	double t0 = clock_now();
	rc = prefill(r);
	double t1 = clock_now();
	r->prefill_s = t1 - t0;
	if (!rc)
		rc = generate(r);
	r->generate_s = clock_now() - t1;
	progress_end();
	if (rc && rc != EXIT_INTERRUPTED)
		return rc;
	print_sequences(r);
	int out = close_stdout(prog);
	print_statistics(r);
	return rc ? rc : out;
}

static void cleanup(struct run *r)
{
	for (int64_t i = 0; r->seqs && i < r->c.n_parallel; i++) {
		cohort_sampler_free(r->seqs[i].sampler);
		mem_free(r->seqs[i].tokens);
	}
	mem_free(r->seqs);
	mem_free(r->rows);
	mem_free(r->prompt);
	cohort_batch_release(&r->batch);
	cohort_context_free(r->ctx);
	sampling_release(&r->s);
	cohort_model_free(r->model);
}

int main(int argc, char **argv)
{
	struct run r = {.c = {
					.prompt = "Hello my name is",
					.n_parallel = 4,
					.n_predict = 32,
					.n_ctx = 2048,
					.threads = 4,
			}};
	sampling_init(&r.s, 0.9);
	const struct opt own[] = {
			{"model", "m", OPT_STR, &r.c.model, 0, 0, "FILE", "GGUF model (default: the built-in one)",
					NULL},
			{"prompt", "p", OPT_STR, &r.c.prompt, 0, 0, "TEXT",
					"what all sequences continue (default: \"Hello my name is\")", NULL},
			{"n-parallel", "np", OPT_INT, &r.c.n_parallel, 1, 65536, "N",
					"sequences generated together (default: 4)", NULL},
			{"n-predict", "n", OPT_INT, &r.c.n_predict, 0, 1 << 24, "N",
					"tokens per sequence (default: 32)", NULL},
			{"ctx", "c", OPT_INT, &r.c.n_ctx, 1, 1 << 30, "N",
					"tokens the KV cache holds, all sequences together (default: 2048)", NULL},
			{"threads", "t", OPT_INT, &r.c.threads, 1, 1024, "N",
					"compute threads (default: 4, or the CPUs there are)", &r.c.threads_given},
			{"ignore-eos", NULL, OPT_FLAG, &r.c.ignore_eos, 0, 0, NULL,
					"go on after the model ends its text", NULL},
			{"isa", NULL, OPT_STR, &r.c.isa, 0, 0, "LEVEL", ISA_HELP, NULL},
			OPTS_LOAD(&r.c.load),
			{"verbose", "v", OPT_FLAG, &r.c.verbose, 0, 0, NULL, "details on stderr", NULL},
			{"version", NULL, OPT_FLAG, &r.c.version, 0, 0, NULL, "print the version", NULL},
	};
	enum { N_OWN = sizeof own / sizeof *own };
	struct opt opts[N_OWN + SAMPLING_OPTIONS];
	memcpy(opts, own, sizeof own);
	sampling_options(&r.s, "only the likeliest tokens with X of the mass; 1: all (default: 0.9)", opts + N_OWN);
	const struct opt_prog p = {
			prog,
			"[options]",
			"Generates several continuations of one prompt together. The texts go to standard output,\n"
			"everything else to standard error.",
			"  batched -prompt \"The future of AI is\" -n-parallel 4\n"
			"  batched -prompt \"Once upon a time\" -n-parallel 2 -n-predict 64 -seed 7\n"
			"  batched -model model.gguf -prompt \"Innovation means\" -temperature 1.2 -verbose\n",
			opts,
			sizeof opts / sizeof *opts,
	};
	ignore_write_signals();
	int rc = opt_parse(&p, argc, argv, 1, NULL, 0, NULL);
	if (rc)
		return rc - 1;
	if (r.c.version) {
		printf("batched %s\n", cohort_version());
		return close_stdout(prog);
	}
	catch_signals();
	rc = run(&r);
	cleanup(&r);
	return rc;
}
