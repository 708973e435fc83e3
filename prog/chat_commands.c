/* The commands of cohort chat. What is no answer goes to standard error. */
#include "chat.h"
#include "term.h"

#include "base/file.h"
#include "base/map.h"
#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char prog[] = "cohort chat";

/* ---- Files ---- */

int chat_load(struct chat *c, const char *path)
{
	struct chat_convo loaded = {.messages = NULL};
	struct cohort_err err;
	uint8_t *bytes = NULL;
	size_t n = 0;

	if (file_load(path, CHAT_FILE_BYTES_MAX, &bytes, &n, &err)) {
		fail(prog, &err);
		return EXIT_FILE;
	}
	const enum cohort_status st = chat_convo_load(&loaded, (const char *)bytes, n, &err);
	mem_free(bytes);
	if (st) {
		fprintf(stderr, "%s: cannot load %s: %s\n", prog, path, err.text);
		return st == COHORT_E_MEMORY ? EXIT_RUN : EXIT_FILE;
	}
	chat_convo_release(&c->convo);
	c->convo = loaded;
	c->n_retries = 0;
	c->changed = true;
	fprintf(stderr, "%zu message%s loaded from %s\n", c->convo.n_messages, plural(c->convo.n_messages), path);
	const struct chat_message *last = chat_convo_last(&c->convo);
	if (last && last->role == CHAT_USER)
		fputs("the last one has no answer yet; ':retry' answers it\n", stderr);
	return 0;
}

int chat_save(struct chat *c, const char *path)
{
	struct cohort_err err;
	size_t n = 0;
	char *text = chat_convo_file(&c->convo, &n);
	int rc = text ? 0 : out_of_memory(prog);

	if (!rc && file_write_atomic(path, text, n, &err)) {
		fail(prog, &err);
		rc = EXIT_FILE;
	}
	mem_free(text);
	return rc;
}

int chat_session_save(struct chat *c)
{
	if (!c->session || !c->changed)
		return 0;
	const int rc = chat_save(c, c->session);
	c->changed = rc != 0;
	return rc;
}

static int expects(const char *command, const char *what)
{
	fprintf(stderr, "%s: '%s' expects %s\n", prog, command, what);
	return EXIT_USAGE;
}

static int load(void *user, const char *args)
{
	return *args ? chat_load(user, args) : expects(":load", "the name of a file");
}

static int save(void *user, const char *args)
{
	struct chat *c = user;

	if (!*args)
		return expects(":save", "the name of a file");
	const int rc = chat_save(c, args);
	if (!rc)
		fprintf(stderr, "%zu message%s written to %s\n", c->convo.n_messages, plural(c->convo.n_messages),
				args);
	return rc;
}

/* ---- Answers ---- */

static int retry(void *user, const char *args)
{
	struct chat *c = user;

	(void)args;
	const int rc = chat_retry(c), saved = chat_session_save(c);
	return rc ? rc : saved;
}

static int branch(void *user, const char *args)
{
	int64_t n = 0;

	if (!talk_number(&args, 1, CHAT_BRANCHES_MAX, &n) || *args) {
		fprintf(stderr, "%s: ':branch' expects how many answers to try, 1 to %d\n", prog, CHAT_BRANCHES_MAX);
		return EXIT_USAGE;
	}
	return chat_branch(user, (int32_t)n);
}

static int pick(void *user, const char *args)
{
	struct chat *c = user;
	int64_t k = 0;

	if (c->convo.n_branches == 0) {
		fprintf(stderr, "%s: there are no answers to choose from; ':branch N' makes some\n", prog);
		return EXIT_USAGE;
	}
	if (!talk_number(&args, 1, (int64_t)c->convo.n_branches, &k) || *args) {
		fprintf(stderr, "%s: ':pick' expects a number from 1 to %zu\n", prog, c->convo.n_branches);
		return EXIT_USAGE;
	}
	const int rc = chat_pick(c, (size_t)k - 1);
	if (rc)
		return rc;
	fprintf(stderr, "going on from answer %" PRId64 "\n", k);
	return chat_session_save(c);
}

static int undo(void *user, const char *args)
{
	struct chat *c = user;

	(void)args;
	if (!chat_convo_undo(&c->convo)) {
		fprintf(stderr, "%s: there is nothing to take back\n", prog);
		return EXIT_USAGE;
	}
	c->n_retries = 0;
	c->changed = true;
	fprintf(stderr, "taken back; messages left: %zu\n", c->convo.n_messages);
	return chat_session_save(c);
}

/* ---- The conversation ---- */

static void print_text(const char *text)
{
	term_print(stderr, text, strlen(text));
	fputc('\n', stderr);
}

static int history(void *user, const char *args)
{
	const struct chat *c = user;
	const size_t n_system = chat_convo_system(&c->convo) ? 1 : 0;

	(void)args;
	if (c->convo.n_messages == 0)
		fputs("nothing has been said\n", stderr);
	for (size_t i = 0; i < c->convo.n_messages; i++) {
		const struct chat_message *m = &c->convo.messages[i];
		const bool hidden = i >= n_system && i < n_system + c->convo.n_hidden;
		fprintf(stderr, "%zu %s%s: ", i + 1, chat_role_name(m->role), hidden ? " (hidden)" : "");
		print_text(m->text);
	}
	return 0;
}

static int system_prompt(void *user, const char *args)
{
	struct chat *c = user;
	const struct chat_message *m = chat_convo_system(&c->convo);

	if (!*args) {
		fputs(m ? "system: " : "there is no system prompt", stderr);
		print_text(m ? m->text : "");
		return 0;
	}
	const bool none = strcmp(args, "none") == 0;
	if (!none && !m && !chat_room(c, 1))
		return EXIT_USAGE;
	if (!chat_convo_system_set(&c->convo, none ? NULL : args, strlen(args), NULL))
		return out_of_memory(prog);
	c->changed = true;
	fputs(none ? "no system prompt from now on\n" : "system prompt set\n", stderr);
	return chat_session_save(c);
}

static void print_stats(const char *name, const struct chat_stats *s)
{
	const double generate_s = s->total_s - s->first_s;

	fprintf(stderr,
			"%s: %" PRIu64 " prompt token%s, %" PRIu64 " reused and %" PRIu64
			" computed in %.2f s; %" PRIu64 " generated in %.2f s (%.1f tokens/s)\n",
			name, s->n_prompt, plural(s->n_prompt), s->n_cached, s->n_prompt - s->n_cached, s->first_s,
			s->n_generated, generate_s, generate_s > 0 ? (double)s->n_generated / generate_s : 0);
}

static int stats(void *user, const char *args)
{
	const struct chat *c = user;
	struct chat_prompt p = {.text = NULL};

	(void)args;
	if (c->n_answers > 0) {
		print_stats("last answer", &c->last);
		print_stats("all answers", &c->all);
	} else {
		fputs("no answers yet\n", stderr);
	}
	const int rc = c->convo.n_messages > 0 ? chat_prompt(c, &p) : 0;
	if (!rc)
		fprintf(stderr, "conversation: %zu message%s (%zu hidden), %zu of %" PRId64 " tokens of context\n",
				c->convo.n_messages, plural(c->convo.n_messages), c->convo.n_hidden, p.n_tokens,
				chat_limit(c));
	chat_prompt_release(&p);
	return rc;
}

/* ---- Other commands ---- */

static int set(void *user, const char *args)
{
	struct chat *c = user;
	return settings_set(&c->settings, args);
}

static int quit(void *user, const char *args)
{
	struct chat *c = user;

	(void)args;
	c->talk.quit = true;
	return 0;
}

static int help(void *user, const char *args)
{
	(void)user;
	(void)args;
	fputs("A line is a message, which is answered. Lines that begin with a colon are commands:\n", stderr);
	talk_help(chat_commands, chat_n_commands);
	return 0;
}

const struct talk_command chat_commands[] = {
		{":retry", "", "another answer to the last message, with the next seed", retry},
		{":again", "", "the same as :retry, as in batched", retry},
		{":branch", "N", "N answers to the last message, to choose from", branch},
		{":pick", "K", "goes on from answer K; the others are forgotten", pick},
		{":undo", "", "takes the last message and its answer back", undo},
		{":system", "[TEXT|none]", "shows, sets or removes the system prompt", system_prompt},
		{":history", "", "what was said", history},
		{":stats", "", "tokens, reuse and speed", stats},
		{":save", "FILE", "writes the conversation as JSON", save},
		{":load", "FILE", "goes on with a conversation that was saved", load},
		{":set", "[NAME [VALUE]]", "shows or changes an option; VALUE may be 'default'", set},
		{":help", "", "this text", help},
		{":quit", "", "ends", quit},
};
const size_t chat_n_commands = sizeof chat_commands / sizeof *chat_commands;
