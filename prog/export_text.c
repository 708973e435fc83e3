/* Plain text and Markdown, for reading.
 *
 * What holds:
 *  1. In plain text prompts and texts are their bytes, nothing changed: what a terminal would obey is still in them.
 *  2. In Markdown nothing that a text has is Markdown or HTML: texts stand in fences longer than any run of the fence's
 *     sign in them, names and values that are texts have every sign escaped. */
#include "export_format.h"

#include <string.h>

static bool is_given(const struct fact *f)
{
	return f->type != FACT_NONE && !(f->type == FACT_LIST && f->v.list->n == 0) &&
			!(f->type == FACT_TEXT && !*f->v.text);
}

/* The facts of a group in a row, without those that were not given. */
static const struct fact *next_fact(const struct report *e, size_t *i)
{
	while (*i < e->n_facts) {
		const struct fact *f = &e->facts[(*i)++];
		if (is_given(f))
			return f;
	}
	return NULL;
}

/* Likewise of the prompt under way, those that are not the same in all runs. */
static const struct fact *next_own(const struct report *e, size_t *i)
{
	while (e->own && *i < e->n_facts) {
		const struct fact *f = &e->own[(*i)++];
		if (e->differs[*i - 1] && is_given(f))
			return f;
	}
	return NULL;
}

static void put_numbers(struct sink *o, const struct gen_text *t)
{
	sink_printf(o, "%zu token%s, %s, mean log-probability %.4f, perplexity %.4g", t->n_tokens,
			t->n_tokens == 1 ? "" : "s", compare_end(t), gen_mean_logprob(t), gen_perplexity(t));
}

/* ---- Plain text ---- */

static void txt_begin(struct report *e)
{
	struct sink *o = &e->out;
	const struct fact *f;
	const char *group = "";

	sink_printf(o, "%s %s%s\n", e->j->gen.prog, cohort_version(),
			e->interrupted ? ", interrupted: texts are as far as they came" : "");
	for (size_t i = 0; (f = next_fact(e, &i));) {
		if (strcmp(group, f->group) != 0)
			sink_printf(o, "\n%s\n", f->group);
		group = f->group;
		sink_printf(o, "  %s: ", f->name);
		export_fact(o, f);
		sink_text(o, "\n");
	}
}

static void txt_prompt(struct report *e, const struct compare *c)
{
	const struct gen_prompt *p = c->p;
	struct sink *o = &e->out;
	const struct fact *f;

	sink_printf(o, "\n---- Prompt %zu ----\n\n", p->index);
	sink_put(o, p->text, p->n_bytes);
	sink_text(o, "\n\ntokens: ");
	export_tokens(o, p->tokens, p->n_tokens);
	for (size_t i = 0; (f = next_own(e, &i));) {
		sink_printf(o, "\n%s: ", f->name);
		export_fact(o, f);
	}
	sink_printf(o, "\nwords that all sequences begin with: %zu\n", c->shared);
	for (int32_t i = 0; i < c->n; i++) {
		const struct gen_text *t = &p->texts[i];
		sink_printf(o, "\n---- Prompt %zu, sequence %d ----\n\n", p->index, i);
		sink_put(o, t->bytes ? t->bytes : "", t->n_bytes);
		sink_text(o, "\n\n");
		put_numbers(o, t);
		sink_text(o, i == c->best && c->n > 1 ? ", the likeliest\ntokens: " : "\ntokens: ");
		export_tokens(o, t->tokens, t->n_tokens);
		sink_text(o, "\nlog-probabilities: ");
		export_logprobs(o, t);
		sink_text(o, "\n");
	}
	if (!c->similarity)
		return;
	sink_printf(o, "\n---- Prompt %zu, similarity in percent ----\n", p->index);
	for (int32_t i = 0; i < c->n; i++) {
		sink_printf(o, "\n%4d:", i);
		for (int32_t k = 0; k < c->n; k++)
			sink_printf(o, "%4.0f", 100 * c->similarity[(size_t)i * (size_t)c->n + (size_t)k]);
	}
	sink_text(o, "\n");
}

static void txt_end(struct report *e)
{
	(void)e;
}

const struct export_format export_txt = {"txt", txt_begin, txt_prompt, txt_end};

/* ---- Markdown ---- */

/* Within a line: a backslash before any sign is that sign. */
static void put_escaped(struct sink *o, const char *c, size_t n)
{
	if (n == 1 && (*c == '\n' || *c == '\t')) {
		sink_text(o, " ");
		return;
	}
	if (n == 1 && strchr("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", *c))
		sink_text(o, "\\");
	sink_put(o, c, n);
}

static void put_plain(struct sink *o, const char *c, size_t n)
{
	sink_put(o, c, n);
}

static void put_block(struct sink *o, const char *s, size_t n)
{
	size_t longest = 2;

	for (size_t i = 0, run = 0; i < n; i++) {
		run = s[i] == '`' ? run + 1 : 0;
		longest = run > longest ? run : longest;
	}
	sink_repeat(o, "`", longest + 1);
	sink_text(o, "text\n");
	export_readable(o, s, n, put_plain);
	sink_text(o, "\n");
	sink_repeat(o, "`", longest + 1);
	sink_text(o, "\n\n");
}

/* Numbers and flags hold nothing that could be Markdown. */
static void md_value(struct sink *o, const struct fact *f)
{
	struct sink value = {.bytes = NULL};

	if (f->type != FACT_TEXT && f->type != FACT_LIST) {
		export_fact(o, f);
		return;
	}
	export_fact(&value, f);
	export_readable(o, value.bytes ? value.bytes : "", value.n, put_escaped);
	o->failed = o->failed || value.failed;
	sink_release(&value);
}

/* A table of the facts; of the unusual ones alone if asked for. */
static void md_facts(struct report *e, bool all)
{
	struct sink *o = &e->out;
	const struct fact *f;

	sink_text(o, "| | | |\n|---|---|---|\n");
	for (size_t i = 0; (f = next_fact(e, &i));) {
		if (!all && e->usual[i - 1])
			continue;
		sink_printf(o, "| %s | %s | ", f->group, f->name);
		md_value(o, f);
		sink_text(o, " |\n");
	}
	sink_text(o, "\n");
}

static void md_begin(struct report *e)
{
	struct sink *o = &e->out;
	char title[80];

	export_title(e, title);
	sink_printf(o, "# %s\n\n", title);
	if (e->interrupted)
		sink_text(o, "**Interrupted:** texts are as far as they came.\n\n");
}

static void md_end(struct report *e)
{
	struct sink *o = &e->out;

	sink_text(o, "## How this was made\n\n");
	md_facts(e, false);
	sink_text(o, "<details><summary>All settings and statistics</summary>\n\n");
	md_facts(e, true);
	sink_printf(o, "</details>\n\n%s %s\n", e->j->gen.prog, cohort_version());
}

/* Why a text ended may be an error's text, which may hold anything; the rest is ours. */
static void md_numbers(struct sink *o, const struct gen_text *t)
{
	struct sink line = {.bytes = NULL};

	if (!t->error) {
		put_numbers(o, t);
		return;
	}
	put_numbers(&line, t);
	export_readable(o, line.bytes ? line.bytes : "", line.n, put_escaped);
	o->failed = o->failed || line.failed;
	sink_release(&line);
}

static void md_sequence(struct sink *o, const struct compare *c, int32_t i)
{
	const struct gen_text *t = &c->p->texts[i];

	sink_printf(o, "### Sequence %d%s\n\n", i, i == c->best && c->n > 1 ? " (likeliest)" : "");
	put_block(o, t->bytes ? t->bytes : "", t->n_bytes);
	md_numbers(o, t);
	sink_text(o, ".\n\n<details><summary>Tokens and log-probabilities</summary>\n\n```text\n");
	export_tokens(o, t->tokens, t->n_tokens);
	sink_text(o, "\n");
	export_logprobs(o, t);
	sink_text(o, "\n```\n\n</details>\n\n");
}

static void md_similarity(struct sink *o, const struct compare *c)
{
	sink_text(o, "### Similarity in percent\n\n|");
	for (int32_t i = 0; i < c->n; i++)
		sink_printf(o, " | %d", i);
	sink_text(o, " |\n|---|");
	for (int32_t i = 0; i < c->n; i++)
		sink_text(o, "---|");
	for (int32_t i = 0; i < c->n; i++) {
		sink_printf(o, "\n| **%d** |", i);
		for (int32_t k = 0; k < c->n; k++)
			sink_printf(o, " %.0f |", 100 * c->similarity[(size_t)i * (size_t)c->n + (size_t)k]);
	}
	sink_text(o, "\n\n");
}

static void md_prompt(struct report *e, const struct compare *c)
{
	const struct gen_prompt *p = c->p;
	struct sink *o = &e->out;
	const struct fact *f;
	size_t n_own = 0;

	if (e->j->n_prompts > 1)
		sink_printf(o, "## Prompt %zu\n\n", p->index);
	else
		sink_text(o, "## Prompt\n\n");
	put_block(o, p->text, p->n_bytes);
	for (size_t i = 0; (f = next_own(e, &i));) {
		sink_printf(o, "%s%s: ", n_own++ > 0 ? " " : "", f->name);
		md_value(o, f);
		sink_text(o, ".");
	}
	sink_text(o, n_own > 0 ? "\n\n" : "");
	if (c->shared > 0) {
		sink_text(o, "All sequences begin with\n\n");
		put_block(o, p->texts[0].bytes, c->shared_bytes);
	}
	for (int32_t i = 0; i < c->n; i++)
		md_sequence(o, c, i);
	if (c->similarity)
		md_similarity(o, c);
	sink_text(o, "<details><summary>Tokens of the prompt</summary>\n\n");
	export_tokens(o, p->tokens, p->n_tokens);
	sink_text(o, "\n\n</details>\n\n");
}

const struct export_format export_md = {"md", md_begin, md_prompt, md_end};
