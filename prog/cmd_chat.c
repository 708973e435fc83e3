/* cohort chat: a conversation with a model, by its chat template. */
#include "chat.h"
#include "cmd.h"
#include "template_named.h"

#include "base/file.h"
#include "base/map.h"
#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char prog[] = "cohort chat";

static int say(void *user, const char *text)
{
	struct chat *c = user;
	const int rc = chat_say(c, text, c->talk.said.n_text), saved = chat_session_save(c);

	return rc ? rc : saved;
}

/* The system prompt of the command line goes before that of a session. */
static int set_system(struct chat *c)
{
	struct cohort_err err;
	char *bytes = NULL;
	size_t n = c->system ? strlen(c->system) : 0, n_bad = 0;

	if (c->system_file && file_read(c->system_file, CHAT_FILE_BYTES_MAX, &bytes, &n, &err)) {
		fail(prog, &err);
		return EXIT_FILE;
	}
	while (bytes && n > 0 && (bytes[n - 1] == '\n' || bytes[n - 1] == '\r'))
		n--; /* a file's last line has an end; the prompt has none */
	if (!chat_convo_system(&c->convo) && !chat_room(c, 1)) {
		mem_free(bytes);
		return EXIT_USAGE;
	}
	const bool ok = chat_convo_system_set(&c->convo, bytes ? bytes : c->system, n, &n_bad);
	if (ok && n_bad > 0)
		fprintf(stderr, "%s: %zu bytes of the system prompt are not UTF-8 and became U+FFFD\n", prog, n_bad);
	mem_free(bytes);
	c->changed = true;
	return ok ? 0 : out_of_memory(prog);
}

static int open_model(struct chat *c)
{
	int rc = load_text_model(prog, c->model_path, c->isa, &c->load, &c->model, &c->info);

	if (rc)
		return rc;
	rc = chat_format_open(&c->format, prog, c->model, c->model_path, c->template);
	sampling_seed(&c->s);
	return rc ? rc : sampling_open(&c->s, prog, c->model);
}

static int open_engine(struct chat *c)
{
	c->gen.prog = prog;
	c->gen.model = c->model;
	c->gen.s = &c->s;
	c->gen.session = 1;
	c->gen.stops = (const char *const *)c->format.stops;
	c->gen.n_stops = c->format.n_stops;
	c->gen.stop_tokens = c->format.stop_tokens;
	c->gen.n_stop_tokens = c->format.n_stop_tokens;
	return gen_open(&c->gen, CHAT_BRANCHES_MAX, CHAT_BRANCHES_MAX, c->n_ctx,
			thread_count(c->threads_given, c->threads));
}

/* A conversation that cannot be kept in the end is better not begun. */
static int check_session(const struct chat *c)
{
	struct file_stream *probe = NULL;
	struct cohort_err err;
	int rc = 0;

	if (c->session && file_stream_open(c->session, &probe, &err)) {
		fail(prog, &err);
		rc = err.status == COHORT_E_MEMORY ? EXIT_RUN : EXIT_FILE;
	}
	file_stream_abort(probe);
	return rc;
}

static int run(struct chat *c, const struct opt_prog *options)
{
	static const char *const names[] = {"n-predict", "context-shift"};
	int rc = check_session(c);

	if (!rc)
		rc = open_model(c);
	if (!rc && c->session && access(c->session, F_OK) == 0)
		rc = chat_load(c, c->session);
	c->changed = false;
	if (!rc && (c->system || c->system_file))
		rc = set_system(c);
	if (!rc)
		rc = settings_init(&c->settings, options, &c->s, c->model, names, sizeof names / sizeof *names);
	if (!rc)
		rc = open_engine(c);
	if (rc)
		return rc;
	if (isatty(STDIN_FILENO))
		fputs("Type a message; ':help' lists the commands.\n", stderr);
	sampling_tell_seed(&c->s, prog);
	rc = talk_run(&c->talk, "> ", c->no_history ? NULL : "chat_history", c->settings.names, c->settings.own.n_opts);
	/* What could not be written was said when it was; the reason is not known any more. */
	const int saved = chat_session_save(c), out = rc == EXIT_FILE ? 0 : close_stdout(prog);
	return rc ? rc : saved ? saved : out;
}

static void cleanup(struct chat *c)
{
	chat_convo_release(&c->convo);
	chat_memory_release(&c->memory);
	chat_prompt_release(&c->prompt);
	gen_prompt_release(&c->tried);
	gen_close(&c->gen);
	sampling_release(&c->s);
	settings_release(&c->settings);
	chat_format_release(&c->format);
	cohort_model_free(c->model);
}

int cmd_chat(int argc, char **argv)
{
	struct chat c = {.n_predict = -1,
			.n_ctx = 4096,
			.threads = threads_default(),
			.talk = {.prog = prog, .commands = chat_commands, .n_commands = chat_n_commands, .say = say}};
	c.talk.user = &c;
	sampling_init(&c.s, 0.95);
	const struct opt own[] = {
			{"model", "m", OPT_STR, &c.model_path, 0, 0, "FILE.gguf",
					"GGUF model (default: the built-in one)", NULL},
			{"system", "sys|system-prompt", OPT_STR, &c.system, 0, 0, "TEXT", "the system prompt", NULL},
			{"system-file", "sysf|system-prompt-file", OPT_STR, &c.system_file, 0, 0, "FILE",
					"the same from a file", NULL},
			{"session", NULL, OPT_STR, &c.session, 0, 0, "FILE",
					"go on with the conversation in this file, and keep it there (JSON)", NULL},
			{"chat-template", "chat-template-file|template", OPT_STR, &c.template, 0, 0, TEMPLATE_ARG,
					TEMPLATE_HELP, NULL},
			{"n-predict", "n|predict", OPT_INT, &c.n_predict, -1, 1 << 24, "N",
					"tokens of an answer at most; -1: until it ends (default: -1)", NULL},
			{"ctx", "c|ctx-size", OPT_INT, &c.n_ctx, 1, 1 << 30, "N",
					"tokens the KV cache holds (default: 4096)",
					NULL},
			{"context-shift", NULL, OPT_FLAG, &c.context_shift, 0, 0, NULL,
					"when the context is full, hide the oldest messages from the model", NULL},
			{"threads", "t", OPT_INT, &c.threads, 1, 1024, "N",
					"compute threads (default: the CPUs that it may use)", &c.threads_given},
			{"no-history", NULL, OPT_FLAG, &c.no_history, 0, 0, NULL,
					"lines are not remembered for the next time", NULL},
			{"isa", NULL, OPT_STR, &c.isa, 0, 0, ISA_ARG, ISA_HELP, NULL},
			OPTS_LOAD(&c.load),
	};
	enum { N_OWN = sizeof own / sizeof *own };
	struct opt opts[N_OWN + SAMPLING_OPTIONS];
	memcpy(opts, own, sizeof own);
	sampling_options(&c.s, "only the likeliest tokens with X of the mass; 1: all (default: 0.95)", opts + N_OWN);
	const struct opt_prog p = {
			prog,
			"[-m FILE] [options]",
			"Talks with a model: each line is a message, ':help' tells the commands. From a pipe each\n"
			"line is a message, too, and standard output has the answers only.",
			"  cohort chat\n"
			"  cohort chat -system \"You are a pirate.\" -session pirate.json\n"
			"  printf 'Hello, who are you?\\nWhere do you live?\\n' | cohort chat -temp 0\n"
			"  printf 'Tell me a story.\\n:branch 3\\n:pick 2\\nGo on.\\n' | cohort chat -n 40\n",
			opts,
			sizeof opts / sizeof *opts,
	};
	int rc = opt_parse(&p, argc, argv, 2, NULL, 0, NULL);
	if (rc)
		return rc - 1;
	if (c.system && c.system_file)
		return bad_usage(prog, "give one of -system and -system-file");
	catch_signals();
	rc = run(&c, &p);
	cleanup(&c);
	return rc;
}
