/* cohort jobs: a batch file of requests, as OpenAI's API has it, through one engine; it can be ended at any moment and
 * resumes. */
#include "cmd.h"
#include "common.h"
#include "jobs.h"
#include "opt.h"
#include "sampling.h"
#include "template_named.h"

#include "base/file.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/pool.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static const char prog[] = "cohort jobs";
static struct jobs_where where = {.prog = prog};

struct options {
	const char *model, *isa, *output, *input, *pooling, *template;
	struct load_opts load;
	int64_t n_slots, n_ctx, threads, n_predict;
	bool ctx_given, threads_given, predict_given, ordered, restart, verbose;
	struct sampling s;
};

struct state {
	struct cohort_model *model;
	struct openai_host host;
	struct cohort_engine *engine;
	struct jobs_reader in;
	struct jobs_output out;
	json_t *settings;
	char template_hash[40]; /* of another template than the model's */
	char now[32];
};

/* What every run of a job must have in common. */
static json_t *make_settings(const struct state *s, struct options *o)
{
	const char *template = *s->template_hash ? s->template_hash : "(the model's)";
	const struct opt own[] = {
			{"n-predict", NULL, OPT_INT, &o->n_predict, 0, 0, NULL, NULL, NULL},
			{"pooling", NULL, OPT_STR, &o->pooling, 0, 0, NULL, NULL, NULL},
			{"ordered", NULL, OPT_FLAG, &o->ordered, 0, 0, NULL, NULL, NULL},
			{"chat-template", NULL, OPT_STR, &template, 0, 0, NULL, NULL, NULL},
	};
	return jobs_settings(&s->host.info, &o->load, &o->s, own, sizeof own / sizeof *own);
}

static int open_files(struct state *s, const struct options *o)
{
	const int fd = open(o->input, O_RDONLY | O_CLOEXEC);

	if (fd < 0) {
		fprintf(stderr, "%s: cannot read %s: %s\n", prog, o->input, strerror(errno));
		return EXIT_FILE;
	}
	int rc = jobs_reader_open(&s->in, &where, o->input, fd, JOBS_LINE_MAX);
	if (rc)
		return rc;
	if (file_same(o->input, o->output))
		return bad_usage(prog, "the output is the input itself");
	return jobs_reader_scan(&s->in);
}

static int open_output(struct state *s, struct options *o)
{
	struct tm tm;

	s->settings = make_settings(s, o);
	if (!s->settings)
		return out_of_memory(prog);
	const int rc = jobs_output_open(&s->out, &where, o->output, &s->in, s->settings, o->restart);
	if (rc)
		return rc;
	/* Templates that write the date write the same one in every run of a job. */
	const time_t started = (time_t)s->out.started;
	if (localtime_r(&started, &tm) && strftime(s->now, sizeof s->now, "%Y-%m-%dT%H:%M:%S", &tm) > 0)
		s->host.now = s->now;
	return 0;
}

static int set_pooling(struct openai_host *h, const char *name)
{
	static const struct {
		const char *name;
		enum cohort_pooling pooling;
	} known[] = {{"mean", COHORT_POOL_MEAN}, {"cls", COHORT_POOL_CLS}, {"last", COHORT_POOL_LAST}};

	for (size_t i = 0; name && i < 3; i++)
		if (strcmp(name, known[i].name) == 0) {
			h->pooling = known[i].pooling;
			return 0;
		}
	return name ? bad_usage(prog, "-pooling is mean, cls or last, got '%s'", name) : 0;
}

static int open_template(struct state *s, const struct options *o)
{
	struct cohort_err err;
	char *text = NULL;
	size_t n = 0;
	int rc = o->template ? template_find(prog, o->model, o->template, &text, &n) : 0;

	if (rc || !text)
		return rc;
	const struct jobs_hash hash = jobs_hash((struct jobs_hash){0}, text, n);
	snprintf(s->template_hash, sizeof s->template_hash, "%016" PRIx64 "%016" PRIx64, hash.a, hash.b);
	const enum cohort_status st = openai_host_template(&s->host, text, n, &err);
	mem_free(text);
	if (st == COHORT_E_MEMORY)
		return fail(prog, &err);
	if (st)
		fprintf(stderr, "%s: cannot use the template %s: %s\n", prog, o->template, err.text);
	return st ? EXIT_FILE : 0;
}

static int open_model(struct state *s, struct options *o)
{
	struct cohort_model_info info;
	struct cohort_err err;

	if (!o->model && !(o->model = builtin_model(prog)))
		return EXIT_MODEL;
	int rc = load_text_model(prog, o->model, o->isa, &o->load, &s->model, &info);
	if (!rc)
		rc = sampling_open(&o->s, prog, s->model);
	if (!rc && openai_host_open(&s->host, s->model, o->model, &o->s.p, &err))
		rc = fail(prog, &err);
	if (!rc)
		rc = open_template(s, o);
	if (!rc && o->predict_given)
		s->host.n_chat = s->host.n_completion = (int32_t)o->n_predict;
	return rc ? rc : set_pooling(&s->host, o->pooling);
}

static int open_engine(struct state *s, const struct options *o, size_t n_ahead)
{
	const struct cohort_model_info *info = &s->host.info;
	struct cohort_engine_params ep;
	struct cohort_err err;

	cohort_engine_params_init(&ep);
	ep.n_slots = (int32_t)o->n_slots;
	ep.context.n_ctx = (int32_t)openai_host_room(&s->host, o->ctx_given ? o->n_ctx : 0, o->n_slots, 32768);
	ep.context.n_threads = thread_count(o->threads_given, o->threads);
	ep.context.outputs = COHORT_OUTPUT_EMBEDDINGS | (info->encoder ? 0U : COHORT_OUTPUT_LOGITS);
	if (info->encoder) /* a text goes through as a whole */
		ep.context.n_batch = ep.context.n_ubatch = info->n_ctx_train > 512 ? info->n_ctx_train : 512;
	if (ep.n_slots > ep.context.n_batch)
		ep.context.n_batch = ep.n_slots;
	/* Most bodies set no limit, or one far above what comes. */
	ep.room = COHORT_ROOM_OVERCOMMIT;
	ep.queue_requests_max = (int32_t)n_ahead + 1;
	ep.queue_tokens_max = INT64_MAX / 4;
	return cohort_engine_open(s->model, &ep, &s->engine, &err) ? fail(prog, &err) : 0;
}

static void summary(const struct jobs *j, const struct options *o, int rc)
{
	const double s = clock_now() - j->started;

	fprintf(stderr, "%s: %" PRIu64 " answered, %" PRIu64 " refused, %" PRIu64 " bad line%s", prog, j->n_answered,
			j->n_refused, j->n_bad, plural(j->n_bad));
	if (j->out->n_done > 0)
		fprintf(stderr, ", %" PRIu64 " done before", j->out->n_done);
	fprintf(stderr,
			"; %" PRIu64 " prompt token%s (%" PRIu64 " reused), %" PRIu64
			" token%s in %.1f s (%.0f tokens/s)\n",
			j->n_prompt_tokens, plural(j->n_prompt_tokens), j->n_cached, j->n_generated,
			plural(j->n_generated), s, s > 0 ? (double)j->n_generated / s : 0);
	if (j->n_other_model > 0)
		fprintf(stderr, "%s: note: %" PRIu64 " request%s another model (%s); all ran with %s\n", prog,
				j->n_other_model, j->n_other_model == 1 ? " names" : "s name", j->other_model,
				j->host->name);
	if (j->n_generated > 0)
		sampling_tell_seed(&o->s, prog);
	if (rc == EXIT_INTERRUPTED || rc == EXIT_FILE)
		fprintf(stderr, "%s: not finished; the same command goes on from here\n", prog);
	if (o->verbose) {
		fprintf(stderr, "%s: defaults: ", prog);
		sampling_print(&o->s, stderr);
		fputc('\n', stderr);
	}
}

/* A job that goes on has the seed that it began with. */
static void choose_seed(struct options *o)
{
	if (o->s.seed_given)
		return;
	if (o->restart || !jobs_output_seed(o->output, &o->s.seed))
		sampling_seed(&o->s);
}

static int run(struct state *s, struct options *o)
{
	const size_t n_slots = (size_t)o->n_slots, n_ahead = n_slots + n_slots / 2 + 4;
	struct jobs j = {.where = &where,
			.host = &s->host,
			.in = &s->in,
			.out = &s->out,
			.n_ahead = n_ahead,
			.ordered = o->ordered};

	int rc = open_files(s, o);
	choose_seed(o);
	if (!rc)
		rc = open_model(s, o);
	if (!rc)
		rc = open_output(s, o);
	if (!rc)
		rc = open_engine(s, o, n_ahead);
	if (rc)
		return rc;
	j.engine = s->engine;
	rc = jobs_run(&j);
	const uint64_t n_failed = j.n_refused + j.n_bad + s->out.n_done - s->out.n_done_ok;
	if (!rc && n_failed > 0)
		rc = EXIT_RUN;
	char *name = printable(j.other_model);
	snprintf(j.other_model, sizeof j.other_model, "%s", name ? name : "?");
	mem_free(name);
	summary(&j, o, rc);
	return rc;
}

static void release(struct state *s, struct options *o)
{
	cohort_engine_free(s->engine);
	openai_host_release(&s->host);
	sampling_release(&o->s);
	cohort_model_free(s->model);
	jobs_reader_release(&s->in);
	jobs_output_release(&s->out);
	json_decref(s->settings);
}

int cmd_jobs(int argc, char **argv)
{
	static struct options o;
	struct state s = {.in.fd = -1, .out.fd = -1};
	size_t n = 0;

	o = (struct options){.n_slots = 8, .threads = threads_default(), .n_predict = -1};
	sampling_init(&o.s, 0.95);
	const struct opt own[] = {
			{"output", "o", OPT_STR, &o.output, 0, 0, "FILE",
					"results, one line each; beside it FILE.journal is kept", NULL},
			{"model", "m", OPT_STR, &o.model, 0, 0, "FILE.gguf", "GGUF model (default: the built-in one)",
					NULL},
			{"n-parallel", "np|parallel", OPT_INT, &o.n_slots, 1, 4096, "N",
					"sequences at once (default: 8)", NULL},
			{"ctx", "c|ctx-size", OPT_INT, &o.n_ctx, 1, 1 << 30, "N",
					"tokens the KV cache holds, for all of them (default: what they can use, up to "
					"32768)",
					&o.ctx_given},
			{"threads", "t", OPT_INT, &o.threads, 1, 1024, "N",
					"compute threads (default: the CPUs that it may use)", &o.threads_given},
			{"ordered", NULL, OPT_FLAG, &o.ordered, 0, 0, NULL,
					"results in the order of the input, not as they finish", NULL},
			{"restart", NULL, OPT_FLAG, &o.restart, 0, 0, NULL, "begin anew: what the output holds is lost",
					NULL},
			{"n-predict", "n|predict", OPT_INT, &o.n_predict, -1, 1 << 24, "N",
					"tokens of an answer whose request sets no limit; -1: the rest of the context "
					"(default: 16 for completions, -1 for chats)",
					&o.predict_given},
			{"pooling", NULL, OPT_STR, &o.pooling, 0, 0, "mean|cls|last",
					"how embeddings are made (default: the model's own, else mean)", NULL},
			{"chat-template", "chat-template-file", OPT_STR, &o.template, 0, 0, TEMPLATE_ARG,
					TEMPLATE_HELP, NULL},
			{"isa", NULL, OPT_STR, &o.isa, 0, 0, ISA_ARG, ISA_HELP, NULL},
			OPTS_LOAD(&o.load),
			{"verbose", "v", OPT_FLAG, &o.verbose, 0, 0, NULL, "the sampling defaults on stderr", NULL},
	};
	enum { N_OWN = sizeof own / sizeof *own };
	struct opt opts[N_OWN + SAMPLING_OPTIONS];
	memcpy(opts, own, sizeof own);
	sampling_options(&o.s, "only the likeliest tokens with X of the mass; 1: all (default: 0.95)", opts + N_OWN);
	const struct opt_prog p = {
			prog,
			"IN.jsonl -output OUT.jsonl [options]",
			"Runs a batch file of OpenAI's API: a line of input is a request for /v1/chat/completions,\n"
			"/v1/completions or /v1/embeddings, a line of output its answer or why there is none.\n"
			"Ended at any moment, by Ctrl-C, kill -9 or a full disk, the same command goes on.\n"
			"Sampling options are the defaults for what a request leaves out.",
			"  echo '{\"custom_id\": \"a\", \"method\": \"POST\", \"url\": \"/v1/completions\",\n"
			"      \"body\": {\"prompt\": \"Once upon a time\", \"max_tokens\": 20}}' |\n"
			"      tr -d '\\n' >in.jsonl\n"
			"  cohort jobs in.jsonl -output out.jsonl\n"
			"  cohort jobs in.jsonl -output sorted.jsonl -ordered -np 16 -temperature 0\n",
			opts,
			sizeof opts / sizeof *opts,
	};
	int rc = opt_parse(&p, argc, argv, 2, &o.input, 1, &n);
	if (rc)
		return rc - 1;
	if (n == 0)
		return bad_usage(prog, "IN.jsonl is missing");
	if (!o.output)
		return bad_usage(prog, "give the output with -output FILE");
	catch_signals();
	rc = run(&s, &o);
	release(&s, &o);
	return rc;
}
