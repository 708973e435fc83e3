/* One page of HTML that needs nothing from elsewhere.
 *
 * What holds:
 *  1. No byte of a prompt, a text, a name or a path is markup: all go through put_char. The page has no scripts, and
 *     tells the browser to run none and to load nothing.
 *  2. A token's shade says how unlikely the model found it; its title has the numbers. Shades follow the tokens' bytes:
 *     where these are not the text's (a stop text was cut off), what is left has none.
 *  3. The shared beginning and what follows it in a card are together the whole text. A card repeats the end of what
 *     comes before its text, in grey. */
#include "export_format.h"
#include "export_style.h"

#include "base/mem.h"
#include "base/utf8.h"

#include <math.h>
#include <string.h>

enum {
	N_GROUPS = sizeof export_groups / sizeof *export_groups,
	TITLE_BYTES = 60,
	FORKS_SHOWN = 60,
	WAYS_SHOWN = 40,
	LEAD_BYTES = 36,
};

/* ---- Texts ---- */

static void put_char(struct sink *o, const char *c, size_t n)
{
	if (n > 1) { /* a picture of a character that has none, or one beyond ASCII */
		sink_put(o, c, n);
		return;
	}
	switch (*c) {
	case '&': sink_text(o, "&amp;"); break;
	case '<': sink_text(o, "&lt;"); break;
	case '>': sink_text(o, "&gt;"); break;
	case '"': sink_text(o, "&quot;"); break;
	case '\'': sink_text(o, "&#39;"); break;
	default: sink_put(o, c, 1); break;
	}
}

static void put_text(struct sink *o, const char *s, size_t n)
{
	export_readable(o, s, n, put_char);
}

/* Where the bytes of each token end, or NULL with *failed when memory is out. */
static size_t *token_ends(const struct job *j, const struct gen_text *t, bool *failed)
{
	size_t *ends = mem_alloc(t->n_tokens, sizeof *ends), at = 0, n_max = 256;
	char *piece = mem_alloc(n_max, 1);
	struct cohort_detok d;
	bool follows = true; /* the text is what the tokens say so far */

	*failed = !ends || !piece;
	cohort_detok_init(&d, j->model, false, false);
	for (size_t i = 0; i < t->n_tokens && !*failed; i++) {
		size_t n = 0;
		enum cohort_status st = cohort_detok_push(&d, t->tokens[i], piece, n_max, &n, NULL);
		if (st == COHORT_E_LIMIT) {
			mem_free(piece);
			n_max = n;
			piece = mem_alloc(n_max, 1);
			*failed = !piece;
			st = piece ? cohort_detok_push(&d, t->tokens[i], piece, n_max, &n, NULL) : COHORT_E_MEMORY;
		}
		follows = follows && st == COHORT_OK && n <= t->n_bytes - at &&
				(n == 0 || memcmp(piece, t->bytes + at, n) == 0);
		at += follows ? n : 0;
		ends[i] = at;
	}
	mem_free(piece);
	if (*failed) {
		mem_free(ends);
		return NULL;
	}
	/* A character that the last tokens left unfinished belongs to the last of them. */
	if (follows && t->n_tokens > 0)
		ends[t->n_tokens - 1] = t->n_bytes;
	return ends;
}

static int shade(double p)
{
	static const double limits[] = {0.8, 0.5, 0.25, 0.1, 0.03};
	int k = 0;

	while (k < 5 && p < limits[k])
		k++;
	return k;
}

/* Bytes [from, to) of a text, token by token, with the word in [mark, mark_end) pointed out. */
static void put_tokens(
		struct report *e, const struct gen_text *t, size_t from, size_t to, const struct compare_word *mark)
{
	struct sink *o = &e->out;
	bool failed;
	size_t *ends = token_ends(e->j, t, &failed), k = 0;

	o->failed = o->failed || failed;
	while (from < to && !failed) {
		while (k < t->n_tokens && ends[k] <= from)
			k++;
		size_t end = k < t->n_tokens && ends[k] < to ? ends[k] : to;
		const bool marked = mark && from >= mark->from && from < mark->to;
		/* The space that a token begins with is no part of what is shaded. */
		if (t->bytes[from] == ' ' && !marked) {
			sink_text(o, " ");
			from++;
			continue;
		}
		if (marked && mark->to < end)
			end = mark->to;
		if (mark && from < mark->from && mark->from < end)
			end = mark->from;
		sink_text(o, marked ? "<mark>" : "");
		if (k < t->n_tokens && t->logprobs) {
			const double l = (double)t->logprobs[k];
			sink_printf(o, "<span class=\"k k%d\" title=\"%.1f %% likely (log %.3f), token %d\">",
					shade(exp(l)), 100 * exp(l), l, t->tokens[k]);
			put_text(o, t->bytes + from, end - from);
			sink_text(o, "</span>");
		} else {
			put_text(o, t->bytes + from, end - from);
		}
		sink_text(o, marked ? "</mark>" : "");
		from = end;
	}
	mem_free(ends);
}

/* ---- The page ---- */

static void put_heading(struct report *e)
{
	const struct job *j = e->j;
	struct sink *o = &e->out;
	char title[80];

	export_title(e, title);
	sink_printf(o, "<h1>%s</h1>\n<p class=\"sub\">", title);
	put_text(o, *j->info.name ? j->info.name : "unnamed model", *j->info.name ? strlen(j->info.name) : 13);
	if (!e->differs) /* of favourites it stands with each prompt, or below */
		sink_printf(o, ", temperature %g, seed %llu", j->s.temperature, (unsigned long long)j->s.seed);
	sink_text(o, ".");
}

static void begin(struct report *e)
{
	const struct job *j = e->j;
	const struct gen_prompt *p = &j->prompts[0];
	struct sink *o = &e->out;
	size_t cut = p->n_bytes;

	if (cut > TITLE_BYTES)
		cut = TITLE_BYTES - utf8_unfinished_tail(p->text, TITLE_BYTES);
	sink_text(o,
			"<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
			"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
			"style-src 'unsafe-inline'\">\n"
			"<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>");
	put_text(o, p->text, cut);
	sink_text(o,
			cut < p->n_bytes ? " ... \u00b7 batched</title>\n<style>\n"
					 : " \u00b7 batched</title>\n<style>\n");
	for (size_t i = 0; i < sizeof export_style / sizeof *export_style; i++)
		sink_text(o, export_style[i]);
	sink_text(o, "</style>\n</head>\n<body>\n<header>\n");
	put_heading(e);
	sink_text(o,
			" The shade of a token shows its probability: "
			"<span class=\"k k0 key\">80 %</span><span class=\"k k1 key\">50</span>"
			"<span class=\"k k2 key\">25</span><span class=\"k k3 key\">10</span>"
			"<span class=\"k k4 key\">3</span><span class=\"k k5 key\">less</span>."
			" An <mark>underlined</mark> word is the first one that differs from the other texts. "
			"Texts that share the most words stand next to each other.</p>\n");
	if (e->interrupted)
		sink_text(o, "<p class=\"warn\"><b>Interrupted.</b> Texts are as far as they came.</p>\n");
	sink_text(o, "</header>\n<main>\n");
}

/* What is not the same in all runs, of this prompt's. */
static void put_settings(struct report *e)
{
	struct sink *o = &e->out;
	size_t n = 0;

	for (size_t i = 0; i < e->n_facts; i++) {
		struct sink value = {.bytes = NULL};
		if (!e->differs[i])
			continue;
		export_fact(&value, &e->own[i]);
		sink_printf(o, "%s%s ", n++ > 0 ? ", " : "<p class=\"note\">", e->own[i].name);
		put_text(o, value.bytes ? value.bytes : "", value.n);
		o->failed = o->failed || value.failed;
		sink_release(&value);
	}
	sink_text(o, n > 0 ? "</p>\n" : "");
}

static void put_lead(struct report *e, const struct compare *c)
{
	const struct gen_prompt *p = c->p;
	struct sink *o = &e->out;
	char words[40] = "word";

	if (c->shared > 1)
		snprintf(words, sizeof words, "%zu words", c->shared);
	if (e->j->n_prompts > 1)
		sink_printf(o, "<h2>Prompt %zu</h2>\n", p->index);
	else
		sink_text(o, "<h2>Prompt</h2>\n");
	sink_text(o, "<div class=\"text lead\" dir=\"auto\"><span class=\"given\">");
	put_text(o, p->text, p->n_bytes);
	sink_text(o, "</span>");
	if (c->shared > 0)
		put_tokens(e, &p->texts[0], 0, c->shared_bytes, NULL);
	sink_text(o, "</div>\n");
	if (e->own)
		put_settings(e);
	if (c->n > 1 && c->n_forks == 0)
		sink_printf(o, "<p class=\"note\">All %d sequences are the same.</p>\n", c->n);
	else if (c->shared > 0)
		sink_printf(o, "<p class=\"note\">All %d sequences go on with the same %zu word%s.</p>\n", c->n,
				c->shared, c->shared > 1 ? "s" : "");
}

static void put_way(struct sink *o, const struct compare *c, int32_t i)
{
	const struct compare_text *w = &c->texts[i];

	if (c->n < 2 || c->n_forks == 0)
		return;
	sink_text(o, "<p class=\"way\">");
	if (w->same)
		sink_printf(o, "the same as sequence %d", w->with);
	else if (w->together == w->n_words)
		sink_printf(o, "ends where sequence %d goes on", w->with);
	else if (w->together > c->shared)
		sink_printf(o, "the same words as sequence %d up to word %zu", w->with, w->together);
	else
		sink_printf(o, "differs from all others at word %zu", w->together + 1);
	sink_text(o, "</p>\n");
}

/* The end of what a card's text goes on from (the prompt and the first n bytes of all texts), from a word's start. */
static void put_lead_end(struct sink *o, const struct gen_prompt *p, const struct gen_text *t, size_t n)
{
	struct sink all = {.bytes = NULL};
	size_t from;

	sink_put(&all, p->text, p->n_bytes);
	sink_put(&all, n > 0 ? t->bytes : "", n);
	from = all.n > LEAD_BYTES ? all.n - LEAD_BYTES : 0;
	if (from > 0) {
		const char *space = memchr(all.bytes + from, ' ', all.n - from - 1);
		from = space ? (size_t)(space - all.bytes) + 1 : from;
		while (from < all.n && ((unsigned char)all.bytes[from] & 0xc0) == 0x80)
			from++;
	}
	sink_text(o, from > 0 ? "<span class=\"given\">\u2026 " : "<span class=\"given\">");
	put_text(o, all.n > 0 ? all.bytes + from : "", all.n - from);
	sink_text(o, "</span>");
	o->failed = o->failed || all.failed;
	sink_release(&all);
}

static void put_card(struct report *e, const struct compare *c, int32_t i, size_t group)
{
	const struct gen_text *t = &c->p->texts[i];
	const struct compare_text *w = &c->texts[i];
	const struct compare_word *first = compare_word(c, i, c->shared);
	const bool best = i == c->best && c->n > 1;
	struct sink *o = &e->out;

	sink_printf(o, "<article class=\"card%s\" style=\"--group:%s\">\n<h3>Sequence %d%s</h3>\n", best ? " best" : "",
			export_groups[group % N_GROUPS], i, best ? " <span class=\"badge\">likeliest</span>" : "");
	put_way(o, c, i);
	sink_text(o, "<div class=\"text\" dir=\"auto\">");
	if (first) {
		put_lead_end(o, c->p, t, first->from);
		put_tokens(e, t, first->from, t->n_bytes,
				c->n > 1 && !w->same ? compare_word(c, i, w->together) : NULL);
	} else {
		sink_text(o,
				t->n_tokens > 0 ? "<span class=\"none\">ends here</span>"
						: "<span class=\"none\">nothing</span>");
	}
	sink_text(o, "</div>\n<dl class=\"nums\">");
	sink_printf(o, "<div><dt>tokens</dt><dd>%zu</dd></div>", t->n_tokens);
	sink_printf(o, "<div title=\"of a token, natural logarithm\"><dt>mean log</dt><dd>%.4f</dd></div>",
			gen_mean_logprob(t));
	sink_printf(o, "<div><dt>perplexity</dt><dd>%.4g</dd></div><div title=\"", gen_perplexity(t));
	put_text(o, compare_end(t), strlen(compare_end(t)));
	sink_printf(o, "\"><dt>end</dt><dd>%s", t->cut ? "cut" : export_finish(t));
	sink_text(o, "</dd></div></dl>\n</article>\n");
}

/* Cards in the order of the tree, each branch out of the shared beginning in its colour. */
static void put_cards(struct report *e, const struct compare *c)
{
	size_t group = 0;

	/* Four on a page of three columns would be three and one. */
	sink_text(&e->out, c->n == 4 ? "<div class=\"cards four\">\n" : "<div class=\"cards\">\n");
	for (int32_t i = 0, left = 0; i < c->n; i++, left--) {
		if (c->n_forks > 0 && left == 0) {
			group += i > 0;
			left = compare_branch(c, &c->forks[0], i);
		}
		put_card(e, c, c->order[i], group);
	}
	sink_text(&e->out, "</div>\n");
}

static void put_fork(struct sink *o, const struct compare *c, const struct compare_fork *f)
{
	int32_t n_ways = 0;

	sink_printf(o, "<li style=\"--level:%d\"><span class=\"at\">word %zu</span>", f->level < 8 ? (int)f->level : 8,
			f->depth + 1);
	for (int32_t i = f->first, n; i < f->first + f->n; i += n) {
		n = compare_branch(c, f, i);
		if (n_ways++ == WAYS_SHOWN) {
			sink_text(o, "...");
			break;
		}
		sink_text(o, "<span class=\"way-out\"><b>");
		for (int32_t m = 0; m < n && m < WAYS_SHOWN; m++)
			sink_printf(o, m > 0 ? ", %d" : "%d", c->order[i + m]);
		sink_text(o, n > WAYS_SHOWN ? ", ...</b> " : "</b> ");
		const struct compare_word *w = compare_word(c, c->order[i], f->depth);
		sink_text(o, w ? "<q>" : "<span class=\"none\">");
		if (w)
			put_text(o, c->p->texts[c->order[i]].bytes + w->from, w->to - w->from);
		sink_text(o, w ? "</q>" : "ends</span>");
		sink_text(o, "</span>");
	}
	sink_text(o, "</li>\n");
}

static void put_forks(struct sink *o, const struct compare *c)
{
	sink_text(o, "<div>\n<h2>Where they part</h2>\n<ul class=\"forks\">\n");
	for (size_t k = 0; k < c->n_forks && k < FORKS_SHOWN; k++)
		put_fork(o, c, &c->forks[k]);
	if (c->n_forks > FORKS_SHOWN)
		sink_printf(o, "<li style=\"--level:0\">and %zu more</li>\n", c->n_forks - FORKS_SHOWN);
	sink_text(o, "</ul>\n</div>\n");
}

static void put_similarity(struct sink *o, const struct compare *c)
{
	sink_text(o, "<div>\n<h2>Similarity in percent</h2>\n<div class=\"scroll\"><table class=\"heat\">\n");
	sink_text(o, "<tr><th></th>");
	for (int32_t i = 0; i < c->n; i++)
		sink_printf(o, "<th>%d</th>", i);
	sink_text(o, "</tr>\n");
	for (int32_t i = 0; i < c->n; i++) {
		sink_printf(o, "<tr><th>%d</th>", i);
		for (int32_t k = 0; k < c->n; k++) {
			const double s = 100 * c->similarity[(size_t)i * (size_t)c->n + (size_t)k];
			if (i == k)
				sink_text(o, "<td class=\"self\">&ndash;</td>");
			else
				sink_printf(o, "<td style=\"--s:%.0f\" title=\"sequences %d and %d\">%.0f</td>", s, i,
						k, s);
		}
		sink_text(o, "</tr>\n");
	}
	sink_text(o, "</table></div>\n</div>\n");
}

static void prompt(struct report *e, const struct compare *c)
{
	sink_text(&e->out, "<section>\n");
	put_lead(e, c);
	put_cards(e, c);
	sink_text(&e->out, "<div class=\"more\">\n");
	if (c->n_forks > 0)
		put_forks(&e->out, c);
	if (c->similarity)
		put_similarity(&e->out, c);
	sink_text(&e->out, "</div>\n</section>\n");
}

static void end(struct report *e)
{
	struct sink *o = &e->out;
	const char *group = "";

	sink_text(o, "<details>\n<summary>How this was made</summary>\n<div class=\"facts\">\n");
	for (size_t i = 0; i < e->n_facts; i++) {
		const struct fact *f = &e->facts[i];
		struct sink value = {.bytes = NULL};
		export_fact(&value, f);
		if (strcmp(group, f->group) != 0)
			sink_printf(o, "%s<div><h3>%s</h3><table>\n", *group ? "</table></div>\n" : "", f->group);
		group = f->group;
		sink_printf(o, "<tr><td>%s</td><td>", f->name);
		put_text(o, value.bytes ? value.bytes : "", value.n);
		sink_text(o, "</td></tr>\n");
		o->failed = o->failed || value.failed;
		sink_release(&value);
	}
	sink_printf(o, "</table></div>\n</div>\n</details>\n</main>\n<footer>%s %s</footer>\n</body>\n</html>\n",
			e->j->gen.prog, cohort_version());
}

const struct export_format export_html = {"html", begin, prompt, end};
