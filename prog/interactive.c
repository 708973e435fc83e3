/* batched -interactive: a prompt, its continuations, what to do with them, the next prompt.
 *
 * 1. What a line that is refused would have replaced stays: the last prompt, its sequences, the settings.
 * 2. The same prompt, seed and settings give the same sequences here as on batched's command line.
 * 3. Generating is batched_generate's business and showing batched_show's: whoever changes how batched shows things
 *    changes it here, too.
 *
 * Numbers of sequences count from 0, as batched prints them; so do those of what is kept. */
#include "interactive.h"

#include "favourites.h"
#include "settings.h"
#include "talk.h"
#include "term.h"

#include "base/err.h"
#include "base/file.h"
#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char prog[] = "batched";

enum { SLOTS_MAX = 4096 };

struct interactive {
	struct job *j;
	struct talk talk;
	struct settings settings;
	char *text; /* of the prompt */
	struct gen_prompt prompt; /* the last one that was continued; no texts: there was none */
	uint64_t seed; /* that it was continued with */
	struct job ran; /* the settings and numbers of that run */
	bool interrupted; /* it was */
	uint64_t n_runs; /* so far */
	struct favourites kept;
};

/* ---- Generating ---- */

static int no_prompt(void)
{
	fprintf(stderr, "%s: there is no prompt yet; type one\n", prog);
	return EXIT_USAGE;
}

/* A prompt of its text, or of tokens that are known already. */
static int make_prompt(struct interactive *it, struct gen_prompt *p, const char *text, size_t n_bytes,
		const cohort_token *tokens, size_t n_tokens)
{
	const struct job *j = it->j;
	int rc = gen_prompt_init(&j->gen, p, text, tokens ? 0 : n_bytes, (int32_t)j->c.n_parallel);

	if (!rc && tokens) {
		mem_free(p->tokens);
		p->n_bytes = n_bytes;
		p->tokens = mem_dup(tokens, n_tokens * sizeof *tokens);
		p->n_tokens = n_tokens;
		if (!p->tokens)
			rc = out_of_memory(prog);
	}
	if (!rc && p->n_tokens == 0) {
		fprintf(stderr, "%s: the prompt is empty and the model has no begin token\n", prog);
		rc = EXIT_USAGE;
	}
	return rc;
}

static void tell(const struct interactive *it)
{
	const struct gen *g = &it->j->gen;
	const double s = g->prefill_s + g->generate_s;

	fprintf(stderr,
			"%" PRIu64 " token%s in %.2f s (%.0f tokens/s), seed %" PRIu64
			"; prompt of %zu token%s, %d reused\n",
			g->n_generated, plural(g->n_generated), s, s > 0 ? (double)g->n_generated / s : 0, it->seed,
			it->prompt.n_tokens, plural(it->prompt.n_tokens), it->prompt.n_cached);
}

/* Continues a text, which is given away. tokens may be NULL. */
static int go_on(struct interactive *it, char *text, size_t n_bytes, const cohort_token *tokens, size_t n_tokens)
{
	struct job *j = it->j;
	struct gen_prompt p = {.text = NULL};
	int rc = make_prompt(it, &p, text, n_bytes, tokens, n_tokens), shown = 0;

	j->prompts = &p;
	j->n_prompts = 1;
	j->gen.ignore_eos = j->c.ignore_eos;
	if (!rc)
		rc = batched_check(j);
	if (!rc)
		rc = batched_generate(j);
	if (!rc || rc == EXIT_INTERRUPTED) {
		gen_prompt_release(&it->prompt);
		mem_free(it->text);
		it->prompt = p;
		it->text = text;
		it->seed = j->s.seed;
		j->prompts = &it->prompt;
		it->ran = *j;
		it->n_runs++;
		it->interrupted = rc != 0;
		shown = batched_show(j);
		fflush(stdout);
		tell(it);
		if (rc)
			fprintf(stderr, "%s: interrupted; the sequences are what there was until then\n", prog);
	} else {
		gen_prompt_release(&p);
		mem_free(text);
		j->prompts = &it->prompt;
	}
	return rc ? rc : shown;
}

static int say_bytes(struct interactive *it, const char *bytes, size_t n)
{
	char *text = mem_strndup(bytes, n);
	return text ? go_on(it, text, n, NULL, 0) : out_of_memory(prog);
}

static int say(void *user, const char *text)
{
	struct interactive *it = user;
	return say_bytes(it, text, it->talk.said.n_text);
}

static int set_seed(struct interactive *it, uint64_t seed)
{
	it->j->s.seed = seed;
	it->j->s.p.seed = seed;
	return 0;
}

static int again(void *user, const char *args)
{
	struct interactive *it = user;
	struct job *j = it->j;
	const uint64_t before = j->s.seed;

	(void)args;
	if (!it->text)
		return no_prompt();
	if (!j->s.seed_given)
		set_seed(it, before + 1);
	fprintf(stderr, "again with seed %" PRIu64 "%s\n", j->s.seed,
			j->s.seed_given ? ", which is fixed (':set seed default' lets it go on)" : "");
	char *text = mem_strndup(it->text, it->prompt.n_bytes);
	const int rc = text ? go_on(it, text, it->prompt.n_bytes, it->prompt.tokens, it->prompt.n_tokens)
			    : out_of_memory(prog);
	if (rc && rc != EXIT_INTERRUPTED)
		set_seed(it, before);
	return rc;
}

/* ---- Sequences ---- */

/* The number of a sequence at *args. */
static int which(const struct interactive *it, const char **args, int64_t *out)
{
	if (!it->text)
		return no_prompt();
	if (talk_number(args, 0, it->prompt.n_texts - 1, out))
		return 0;
	if (it->prompt.n_texts == 1)
		fprintf(stderr, "%s: there is only sequence 0, got '%s'\n", prog, *args);
	else
		fprintf(stderr, "%s: sequences are 0 to %d, got '%s'\n", prog, it->prompt.n_texts - 1, *args);
	return EXIT_USAGE;
}

/* Prompt and continuation as one text, with a NUL behind; NULL when out of memory. */
static char *whole(const struct interactive *it, int64_t i, size_t *n_bytes)
{
	const struct gen_text *t = &it->prompt.texts[i];
	char *text = NULL;

	if (size_add(it->prompt.n_bytes, t->n_bytes, n_bytes))
		text = mem_alloc(*n_bytes + 1, 1);
	if (!text)
		return NULL;
	memcpy(text, it->text, it->prompt.n_bytes);
	if (t->n_bytes > 0)
		memcpy(text + it->prompt.n_bytes, t->bytes, t->n_bytes);
	text[*n_bytes] = '\0';
	return text;
}

static int more(void *user, const char *args)
{
	struct interactive *it = user;
	const struct gen_prompt *p = &it->prompt;
	int64_t i = 0;
	size_t n_bytes = 0;

	/* With one sequence there is no doubt which. */
	if ((*args || !it->text || p->n_texts > 1) && which(it, &args, &i))
		return EXIT_USAGE;
	const struct gen_text *t = &p->texts[i];
	const size_t n_tokens = p->n_tokens + t->n_tokens;
	cohort_token *tokens = mem_alloc(n_tokens, sizeof *tokens);
	char *text = whole(it, i, &n_bytes);
	if (!tokens || !text) {
		mem_free(tokens);
		mem_free(text);
		return out_of_memory(prog);
	}
	memcpy(tokens, p->tokens, p->n_tokens * sizeof *tokens);
	if (t->n_tokens > 0)
		memcpy(tokens + p->n_tokens, t->tokens, t->n_tokens * sizeof *tokens);
	const int rc = go_on(it, text, n_bytes, tokens, n_tokens);
	mem_free(tokens);
	return rc;
}

static int show(void *user, const char *args)
{
	struct interactive *it = user;

	(void)args;
	if (!it->text)
		return no_prompt();
	const int rc = batched_show(it->j);
	fflush(stdout);
	return rc;
}

/* ---- Favourites ---- */

static int keep_one(struct interactive *it, int64_t i)
{
	return favourites_keep(&it->kept, &it->ran, it->n_runs, &it->prompt, (int32_t)i, it->interrupted)
			? 0
			: out_of_memory(prog);
}

static int keep(void *user, const char *args)
{
	struct interactive *it = user;
	const bool all = strcmp(args, "all") == 0;
	const char *at = args;
	int64_t i;
	int rc = 0;

	if (all && it->text) {
		for (i = 0; i < it->prompt.n_texts && !rc; i++)
			rc = keep_one(it, i);
	} else {
		/* All of them are looked at before the first is kept. */
		do
			rc = which(it, &at, &i);
		while (!rc && *at);
		for (at = args; !rc && *at;)
			rc = which(it, &at, &i) ? EXIT_USAGE : keep_one(it, i);
	}
	if (!rc)
		fprintf(stderr, "%zu kept\n", it->kept.n);
	return rc;
}

static int kept(void *user, const char *args)
{
	struct interactive *it = user;
	struct sink all = {.bytes = NULL};

	(void)args;
	if (it->kept.n == 0)
		fputs("nothing is kept; ':keep N' keeps sequence N\n", stderr);
	favourites_print(&it->kept, &all, true);
	if (!all.failed && all.n > 0)
		term_print(stdout, all.bytes, all.n);
	fflush(stdout);
	const bool failed = all.failed;
	sink_release(&all);
	return failed ? out_of_memory(prog) : 0;
}

static int drop(void *user, const char *args)
{
	struct interactive *it = user;
	int64_t i = 0;

	if (strcmp(args, "all") == 0) {
		favourites_release(&it->kept);
	} else if (it->kept.n > 0 && talk_number(&args, 0, (int64_t)it->kept.n - 1, &i) && !*args) {
		favourites_drop(&it->kept, (size_t)i);
	} else {
		fprintf(stderr, "%s: %zu kept, numbered from 0; which one, or 'all'? Got '%s'\n", prog, it->kept.n,
				args);
		return EXIT_USAGE;
	}
	fprintf(stderr, "%zu kept\n", it->kept.n);
	return 0;
}

/* ---- Files ---- */

/* Favourites as text. */
static int write_texts(const struct favourites *f, const char *path)
{
	struct sink out = {.bytes = NULL};
	struct cohort_err err;
	int rc = 0;

	favourites_print(f, &out, false);
	if (out.failed) {
		rc = out_of_memory(prog);
	} else if (file_write_atomic(path, out.bytes, out.n, &err)) {
		fail(prog, &err);
		rc = EXIT_FILE;
	}
	sink_release(&out);
	return rc;
}

/* The last sequences, by a suffix as -output writes them; as text, like favourites. */
static int write_last(struct interactive *it, const char *path, bool text)
{
	struct job ran = it->ran;
	struct favourites all = {.kept = NULL};
	int rc = 0;

	ran.prompts = &it->prompt;
	ran.c.output = (struct export_opts){.files = {.items = {path}, .n = 1}};
	for (int32_t i = 0; text && i < it->prompt.n_texts && !rc; i++)
		if (!favourites_keep(&all, &it->ran, 0, &it->prompt, i, it->interrupted))
			rc = out_of_memory(prog);
	if (!rc)
		rc = text ? write_texts(&all, path) : export_check(&ran);
	if (!rc && !text)
		rc = export_write(&ran, it->interrupted);
	favourites_release(&all);
	return rc;
}

static int save(void *user, const char *args)
{
	struct interactive *it = user;

	if (!*args) {
		fprintf(stderr, "%s: ':save' expects the name of a file\n", prog);
		return EXIT_USAGE;
	}
	if (!it->kept.n && !it->text)
		return no_prompt();
	/* A name without a suffix is one of a text. */
	const char *slash = strrchr(args, '/'), *dot = strrchr(slash ? slash : args, '.');
	const bool text = !dot || strcmp(dot, ".txt") == 0;
	if (!text && !export_knows(args)) {
		fprintf(stderr,
				"%s: '%s': the suffix says the format, and is one of .txt .md .json .jsonl .csv "
				".html\n",
				prog, args);
		return EXIT_USAGE;
	}
	int rc;
	if (it->kept.n > 0)
		rc = text ? write_texts(&it->kept, args) : favourites_write(&it->kept, args);
	else
		rc = write_last(it, args, text);
	const size_t n = it->kept.n > 0 ? it->kept.n : (size_t)it->prompt.n_texts;
	if (!rc)
		fprintf(stderr, "%zu sequence%s written to %s\n", n, plural(n), args);
	return rc;
}

/* ---- Other commands ---- */

static int set(void *user, const char *args)
{
	struct interactive *it = user;
	return settings_set(&it->settings, args);
}

static int quit(void *user, const char *args)
{
	struct interactive *it = user;

	(void)args;
	it->talk.quit = true;
	return 0;
}

static int help(void *user, const char *args)
{
	struct interactive *it = user;

	(void)args;
	fputs("A line is a prompt, which is continued. Lines that begin with a colon are commands:\n", stderr);
	talk_help(it->talk.commands, it->talk.n_commands);
	return 0;
}

static const struct talk_command commands[] = {
		{":again", "", "the same prompt once more, with the next seed unless it is fixed", again},
		{":retry", "", "the same as :again, as in chat", again},
		{":more", "N", "goes on with sequence N", more},
		{":show", "", "the sequences again", show},
		{":keep", "N ...|all", "puts sequences on the list of favourites", keep},
		{":kept", "", "the list", kept},
		{":drop", "K|all", "takes one off the list", drop},
		{":save", "FILE", "writes the favourites, or without any all sequences, as the suffix says", save},
		{":set", "[NAME [VALUE]]", "shows or changes an option; VALUE may be 'default'", set},
		{":help", "", "this text", help},
		{":quit", "", "ends", quit},
};

/* ---- */

static int converse(struct interactive *it)
{
	struct job *j = it->j;
	int rc = 0;

	fprintf(stderr, "Type a prompt; ':help' lists the commands.\n");
	if (j->c.prompt_given)
		rc = say_bytes(it, j->c.prompt, strlen(j->c.prompt));
	if (rc)
		return rc;
	rc = talk_run(&it->talk, "> ", j->c.no_history ? NULL : "batched_history", it->settings.names,
			it->settings.own.n_opts);
	const int out = close_stdout(prog);
	return rc ? rc : out;
}

int interactive_run(struct job *j, const struct opt_prog *options)
{
	static const char *const names[] = {"n-parallel", "n-predict", "ignore-eos"};
	struct interactive it = {.j = j,
			.talk = {.prog = prog, .commands = commands, .n_commands = sizeof commands / sizeof *commands}};

	it.talk.say = say;
	it.talk.user = &it;
	j->gen.session = 1;
	j->gen.logprobs = true; /* for files, which may be asked for later */
	int rc = settings_init(&it.settings, options, &j->s, j->model, names, sizeof names / sizeof *names);
	if (!rc)
		rc = gen_open(&j->gen, j->c.n_parallel, SLOTS_MAX, j->c.n_ctx, j->n_threads);
	if (!rc)
		rc = converse(&it);
	favourites_release(&it.kept);
	gen_prompt_release(&it.prompt);
	mem_free(it.text);
	j->prompts = NULL;
	j->n_prompts = 0;
	/* The sampler may hold texts that the settings own. */
	sampling_release(&j->s);
	settings_release(&it.settings);
	return rc;
}
