/* Answers: what fits, what is generated, what becomes of it.
 *
 * 1. An answer that could not be had changes nothing: messages, branches and hidden turns are as they were. One that
 *    was interrupted is kept as far as it came.
 * 2. The same conversation, seed and settings give the same answer, whatever was said, tried or cached before.
 * 3. The system prompt and the last message are never hidden from the model.
 *
 * It does not know commands. */
#include "chat.h"
#include "term.h"

#include "live.h"
#include "term.h"

#include "base/mem.h"
#include "base/utf8.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char prog[] = "cohort chat";

/* An answer that has less room than this is not worth beginning: a sentence or two. */
enum { ROOM_TOKENS = 64 };

int64_t chat_limit(const struct chat *c)
{
	return ROOM(.model = c->model, .n_ctx = c->n_ctx).n_pos_max;
}

int chat_prompt(const struct chat *c, struct chat_prompt *out)
{
	char *messages = chat_convo_json(&c->convo);

	*out = (struct chat_prompt){.text = NULL};
	if (!messages)
		return out_of_memory(prog);
	const int rc = chat_format_tokens(&c->format, messages, &c->memory, out);
	mem_free(messages);
	return rc;
}

/* ---- What fits ---- */

static int64_t room_wanted(const struct chat *c)
{
	const int64_t quarter = chat_limit(c) / 4;
	int64_t n = c->n_predict >= 0 && c->n_predict < ROOM_TOKENS ? c->n_predict : ROOM_TOKENS;

	n = n < quarter ? n : quarter;
	return n > 0 ? n : 1;
}

static int alone(const struct chat *c, size_t n_tokens)
{
	fprintf(stderr,
			"%s: the message has %zu tokens with all that belongs to it, the context holds %" PRId64
			" and an answer needs some, too; say it in fewer words%s\n",
			prog, n_tokens, chat_limit(c), c->n_ctx < c->info.n_ctx_train ? ", or raise -ctx" : "");
	return EXIT_USAGE;
}

static int full(const struct chat *c, size_t n_tokens, size_t n_hidden)
{
	fprintf(stderr,
			"%s: the context is full: the conversation has %zu tokens, %" PRId64
			" fit with an answer; the %zu oldest messages would have to go. ':set context-shift on' hides "
			"them from the model%s\n",
			prog, n_tokens, chat_limit(c) - room_wanted(c), n_hidden,
			c->n_ctx < c->info.n_ctx_train ? "; a larger -ctx has more room" : "");
	return EXIT_RUN;
}

/* The prompt with n turns hidden beyond the first `before` messages, or with as many as there are, which *n becomes. */
static int prompt_without(struct chat *c, size_t before, size_t *n, struct chat_prompt *out)
{
	size_t k = 0;

	c->convo.n_hidden = before;
	while (k < *n && chat_convo_hide(&c->convo))
		k++;
	*n = k;
	chat_prompt_release(out);
	return chat_prompt(c, out);
}

/* Hides as few turns as make the prompt, which has too many tokens, no longer than `goal`; all but the last if none do.
 * Every try goes through the whole conversation, and a file may have a hundred thousand messages: so they are few. */
static int hide_turns(struct chat *c, int64_t goal, struct chat_prompt *out)
{
	const size_t before = c->convo.n_hidden;
	size_t few = 0, many = SIZE_MAX, n;
	int rc = prompt_without(c, before, &many, out);

	if (rc || (int64_t)out->n_tokens > goal)
		return rc;
	while (!rc && many - few > 1) { /* few are too few, many are enough */
		n = few + (many - few) / 2;
		rc = prompt_without(c, before, &n, out);
		*((int64_t)out->n_tokens > goal ? &few : &many) = n;
	}
	return rc ? rc : prompt_without(c, before, &many, out);
}

/* The conversation as a prompt, with old turns hidden if they have to be and may be. Then some more go than have to, as
 * all that is left is computed again: not at every turn. */
static int fit(struct chat *c, struct chat_prompt *out)
{
	const size_t before = c->convo.n_hidden;
	const int64_t most = chat_limit(c) - room_wanted(c);
	int rc = chat_prompt(c, out);
	const size_t n_all = out->n_tokens;

	if (!rc && (int64_t)n_all > most)
		rc = hide_turns(c, c->context_shift ? most - chat_limit(c) / 4 : most, out);
	if (!rc && (int64_t)out->n_tokens > most)
		rc = alone(c, out->n_tokens);
	const size_t n_new = c->convo.n_hidden - before;
	if (!rc && n_new > 0 && !c->context_shift)
		rc = full(c, n_all, n_new);
	if (rc) {
		c->convo.n_hidden = before;
		chat_prompt_release(out);
	} else if (n_new > 0) {
		fprintf(stderr, "%s: the context is full: the %zu oldest messages are hidden from the model\n", prog,
				n_new);
	}
	return rc;
}

/* ---- Streaming ---- */

static void on_text(void *user, const struct gen_prompt *p, int32_t i, const char *bytes, size_t n_bytes)
{
	struct chat *c = user;

	(void)p;
	(void)i;
	flow_print(&c->flow, bytes, n_bytes);
	/* A reader that has gone ends the answer. */
	if (!c->gen.rc)
		c->gen.rc = close_stdout(prog);
}

static void on_tick(void *user)
{
	const struct chat *c = user;
	progress_line(c->gen.started_s, "%" PRIu64 " tokens", c->gen.n_generated);
}

/* ---- Generating ---- */

static void note(struct chat *c, const struct gen_prompt *p)
{
	const struct chat_stats now = {.n_prompt = p->n_tokens,
			.n_cached = (uint64_t)p->n_cached,
			.n_generated = c->gen.n_generated,
			.first_s = c->gen.prefill_s,
			.total_s = c->gen.prefill_s + c->gen.generate_s,
			.finish = p->texts[0].finish};
	c->last = now;
	c->all.n_prompt += now.n_prompt;
	c->all.n_cached += now.n_cached;
	c->all.n_generated += now.n_generated;
	c->all.first_s += now.first_s;
	c->all.total_s += now.total_s;
	c->n_answers++;
}

static void tell_end(const struct chat *c, const struct gen_text *t, bool at_limit)
{
	if (t->finish == COHORT_FINISH_LENGTH && at_limit)
		fprintf(stderr, "%s: the answer was cut: the context is full\n", prog);
	else if (t->finish == COHORT_FINISH_LENGTH && c->n_predict > 0)
		fprintf(stderr, "%s: the answer was cut after %" PRId64 " tokens (-n-predict)\n", prog, c->n_predict);
}

/* Generates n answers to the conversation as it stands, into p, which is released by the caller. A single one is
 * printed as it comes; branches are shown side by side on a terminal that can do that. */
static int generate(struct chat *c, int32_t n, bool branches, struct chat_prompt *made, struct gen_prompt *p)
{
	const struct gen_watch stream = {.text = on_text, .user = c}, quiet = {.tick = on_tick, .user = c};
	struct live *live = NULL;
	const size_t n_hidden = c->convo.n_hidden;
	int rc = fit(c, made);

	if (rc)
		return rc;
	const int64_t room = chat_limit(c) - (int64_t)made->n_tokens;
	const bool at_limit = c->n_predict < 0 || c->n_predict > room;
	c->gen.n_predict = (int32_t)(at_limit ? room : c->n_predict);
	c->gen.watch = branches ? &quiet : &stream;
	flow_begin(&c->flow, 0);
	c->s.p.seed = c->s.seed + c->n_retries;
	rc = gen_prompt_init(&c->gen, p, "", 0, n);
	mem_free(p->tokens);
	p->tokens = mem_dup(made->tokens, made->n_tokens * sizeof *made->tokens);
	p->n_tokens = made->n_tokens;
	if (!rc && !p->tokens)
		rc = out_of_memory(prog);
	if (!rc && branches && term_moves(STDOUT_FILENO)) {
		live = live_open(&c->gen, p, 1, 1);
		if (live)
			c->gen.watch = live_watch(live);
		else
			rc = out_of_memory(prog);
	}
	if (!rc)
		rc = gen_run(&c->gen, p, 1);
	c->gen.watch = NULL;
	live_free(live);
	if (!branches && (!rc || rc == EXIT_INTERRUPTED))
		fputc('\n', stdout);
	fflush(stdout);
	if (!rc || rc == EXIT_INTERRUPTED) {
		note(c, p);
		if (!branches)
			tell_end(c, &p->texts[0], at_limit);
	}
	/* One text of which nothing came is no answer: nothing was hidden for it. */
	if (rc && (rc != EXIT_INTERRUPTED || (n == 1 && p->texts[0].n_bytes == 0)))
		c->convo.n_hidden = n_hidden;
	return rc;
}

/* Tokens of an answer that its text is made of; 0 if it was cut within a token, or if there is no text: tokens that do
 * not show would become those of the prompt's end, and be there when it is answered again. */
static size_t own_tokens(const struct chat *c, const struct gen_text *t)
{
	if (t->n_bytes == 0)
		return 0;
	if (t->finish != COHORT_FINISH_STOP || t->n_tokens == 0)
		return t->n_tokens;
	for (int32_t i = 0; i < c->format.n_stop_tokens; i++)
		if (t->tokens[t->n_tokens - 1] == c->format.stop_tokens[i])
			return t->n_tokens - 1;
	return 0;
}

/* Notes the tokens of a prompt and of what was answered. Being out of memory only costs what could have been reused. */
static void remember(struct chat *c, const struct chat_prompt *p, const struct gen_text *t)
{
	const struct chat_mark start = {0, 0}, from = chat_memory_find(&c->memory, p->text, p->n_text);
	/* Tokens that are not those of the mark are new ones from the start. */
	const bool same = from.n_tokens > 0 && from.n_tokens <= p->n_tokens &&
			memcmp(c->memory.tokens, p->tokens, from.n_tokens * sizeof *p->tokens) == 0;
	const struct chat_mark at = same ? from : start;

	const size_t n = own_tokens(c, t);

	if (chat_memory_add(&c->memory, at, p->text + at.n_text, p->n_text - at.n_text, p->tokens + at.n_tokens,
			    p->n_tokens - at.n_tokens) &&
			n > 0)
		chat_memory_add(&c->memory, (struct chat_mark){p->n_text, p->n_tokens}, t->bytes, t->n_bytes, t->tokens,
				n);
}

/* One answer, which becomes the last message. Interrupted before it began, there is none. It is kept as far as it came
 * when it can no longer be printed, too. */
static int answer(struct chat *c)
{
	struct gen_prompt p = {.text = NULL};
	struct chat_prompt made = {.text = NULL};
	int rc = generate(c, 1, false, &made, &p);

	const bool unread = rc == EXIT_FILE && ferror(stdout);
	if (!rc || ((rc == EXIT_INTERRUPTED || unread) && p.texts && p.texts[0].n_bytes > 0)) {
		const struct gen_text *t = &p.texts[0];
		size_t n = t->n_bytes - (t->n_bytes ? utf8_unfinished_tail(t->bytes, t->n_bytes) : 0);
		if (!chat_convo_add(&c->convo, CHAT_ASSISTANT, t->bytes ? t->bytes : "", n, NULL))
			rc = out_of_memory(prog);
		remember(c, &made, t);
		c->changed = true;
		if (rc == EXIT_INTERRUPTED)
			fprintf(stderr, "%s: interrupted; the answer is kept as far as it came\n", prog);
	}
	gen_prompt_release(&p);
	chat_prompt_release(&made);
	return rc;
}

static int pick_first(const struct chat *c)
{
	fprintf(stderr,
			"%s: choose one of the %zu answers with ':pick K' first, or take the message back with "
			"':undo'\n",
			prog, c->convo.n_branches);
	return EXIT_USAGE;
}

/* Whether the last message, which is taken back when nothing came of it, has an answer now. */
static bool answered(const struct chat *c)
{
	const struct chat_message *last = chat_convo_last(&c->convo);
	return last && last->role == CHAT_ASSISTANT;
}

/* A file with more than CHAT_MESSAGES_MAX would not be read again. */
bool chat_room(const struct chat *c, size_t n)
{
	if (c->convo.n_messages + n <= CHAT_MESSAGES_MAX)
		return true;
	fprintf(stderr, "%s: the conversation has %zu messages, and %d are the most; take some back or begin another\n",
			prog, c->convo.n_messages, CHAT_MESSAGES_MAX);
	return false;
}

int chat_say(struct chat *c, const char *text, size_t n_bytes)
{
	const struct chat_message *last = chat_convo_last(&c->convo);
	size_t n_bad = 0;

	if (c->convo.n_branches > 0)
		return pick_first(c);
	if (last && last->role == CHAT_USER) {
		fprintf(stderr, "%s: the last message has no answer yet: ':retry' answers it, ':undo' takes it back\n",
				prog);
		return EXIT_USAGE;
	}
	if (!chat_room(c, 2)) /* with its answer */
		return EXIT_USAGE;
	if (!chat_convo_add(&c->convo, CHAT_USER, text, n_bytes, &n_bad))
		return out_of_memory(prog);
	if (n_bad > 0)
		fprintf(stderr, "%s: %zu bytes of the message are not UTF-8 and became U+FFFD\n", prog, n_bad);
	const uint64_t n_retries = c->n_retries;
	c->n_retries = 0;
	const int rc = answer(c);
	if (!answered(c)) {
		chat_convo_pop(&c->convo, NULL);
		c->n_retries = n_retries;
		if (rc == EXIT_INTERRUPTED)
			fprintf(stderr, "%s: interrupted before an answer; the message is taken back\n", prog);
	}
	return rc;
}

/* Takes the last answer back, if there is one. */
static int ask_again(struct chat *c, struct chat_message *old)
{
	const struct chat_message *last = chat_convo_last(&c->convo);

	*old = (struct chat_message){.text = NULL};
	if (!last || last->role == CHAT_SYSTEM) {
		fprintf(stderr, "%s: there is no message to answer yet\n", prog);
		return EXIT_USAGE;
	}
	if (last->role == CHAT_ASSISTANT)
		chat_convo_pop(&c->convo, old);
	else if (!chat_room(c, 1))
		return EXIT_USAGE;
	return 0;
}

int chat_retry(struct chat *c)
{
	struct chat_message old;
	const size_t n_hidden = c->convo.n_hidden;

	if (ask_again(c, &old))
		return EXIT_USAGE;
	/* A message without an answer gets its first one. */
	const uint64_t step = old.text || c->convo.n_branches > 0;
	c->n_retries += step;
	fprintf(stderr, "seed %" PRIu64 "\n", c->s.seed + c->n_retries);
	const int rc = answer(c);
	if (answered(c)) {
		chat_convo_branches_clear(&c->convo);
		mem_free(old.text);
		return rc;
	}
	c->n_retries -= step;
	c->convo.n_hidden = n_hidden;
	if (old.text)
		chat_convo_push(&c->convo, old);
	return rc;
}

static void print_branches(const struct chat *c)
{
	for (size_t i = 0; i < c->convo.n_branches; i++) {
		struct flow flow;
		printf("[%zu]\n", i + 1);
		flow_begin(&flow, 0);
		flow_print(&flow, c->convo.branches[i].text, c->convo.branches[i].n_bytes);
		fputs("\n\n", stdout);
	}
	fflush(stdout);
}

int chat_branch(struct chat *c, int32_t n)
{
	struct chat_message old;
	struct gen_prompt p = {.text = NULL};
	struct chat_prompt made = {.text = NULL};

	if (ask_again(c, &old))
		return EXIT_USAGE;
	int rc = generate(c, n, true, &made, &p);
	struct chat_convo tried = {.messages = NULL}; /* only its branches are used */
	bool ok = !rc || rc == EXIT_INTERRUPTED;
	for (int32_t i = 0; ok && i < n; i++) {
		const struct gen_text *t = &p.texts[i];
		ok = chat_convo_branch(&tried, t->bytes ? t->bytes : "",
				t->n_bytes - (t->n_bytes ? utf8_unfinished_tail(t->bytes, t->n_bytes) : 0));
		if (!ok)
			rc = out_of_memory(prog);
	}
	if (!ok) {
		gen_prompt_release(&p);
		chat_prompt_release(&made);
		chat_convo_release(&tried);
		if (old.text)
			chat_convo_push(&c->convo, old);
		return rc;
	}
	mem_free(old.text);
	chat_convo_branches_clear(&c->convo);
	mem_free(c->convo.branches);
	c->convo.branches = tried.branches;
	c->convo.n_branches = tried.n_branches;
	c->convo.branches_max = tried.branches_max;
	gen_prompt_release(&c->tried);
	chat_prompt_release(&c->prompt);
	c->tried = p;
	c->prompt = made;
	c->changed = true;
	print_branches(c);
	fprintf(stderr, "':pick K' goes on with answer K\n");
	return rc;
}

int chat_pick(struct chat *c, size_t i)
{
	if (!chat_convo_pick(&c->convo, i))
		return out_of_memory(prog);
	remember(c, &c->prompt, &c->tried.texts[i]);
	c->changed = true;
	return 0;
}
