/* The continuations of each prompt side by side, for a terminal.
 *
 * What holds:
 *  1. No line is wider than asked for. Columns are at least COLUMNS_MIN wide; sequences that find no room beside the
 *     others stand in further rows of columns.
 *  2. Everything a model or a user wrote goes through column_line, which lets nothing through that a terminal obeys.
 *  3. The whole view is made before the first byte is written. */
#include "batched.h"
#include "columns.h"
#include "compare.h"
#include "term.h"

#include <string.h>
#include <unistd.h>

/* A line of text is hard to read beyond this; between columns stands a bar. */
enum { TEXT_MAX = 100, BAR = 3, INDENT = 2, FORKS_SHOWN = 40, HEAD_LINES = 4, QUOTE_MAX = 24 };

struct view {
	const struct job *j;
	const struct compare *c;
	struct sink *out;
	struct sink line; /* scratch */
	int width;
	bool colours;
};

static void style(struct view *v, const char *code)
{
	if (v->colours)
		sink_printf(v->out, "\033[%sm", code);
}

/* Indented lines of a text, with a word pointed out or none. */
static void paragraph(struct view *v, const char *text, size_t n, int indent)
{
	struct column c = {.text = text, .n = n};
	indent = indent < v->width / 2 ? indent : v->width / 2;
	const int room = v->width - indent < TEXT_MAX ? v->width - indent : TEXT_MAX;
	int cells;

	for (v->line.n = 0; column_line(&c, room, v->colours, &v->line, &cells); v->line.n = 0) {
		if (v->line.n > 0)
			sink_repeat(v->out, " ", (size_t)indent);
		sink_put(v->out, v->line.bytes, v->line.n);
		sink_text(v->out, "\n");
	}
}

static void heading(struct view *v, const char *text)
{
	style(v, "1");
	paragraph(v, text, strlen(text), 0);
	style(v, "0");
}

/* ---- The beginning ---- */

static void show_beginning(struct view *v)
{
	const struct compare *c = v->c;
	const struct gen_prompt *p = c->p;
	char title[96] = "Prompt";

	if (v->j->n_prompts > 1)
		snprintf(title, sizeof title, "Prompt %zu", p->index);
	heading(v, title);
	paragraph(v, p->text, p->n_bytes, INDENT);
	sink_text(v->out, "\n");
	if (c->shared == 0)
		return;
	if (c->n_forks == 0)
		snprintf(title, sizeof title, "All %d sequences are the same", c->n);
	else if (c->shared == 1)
		snprintf(title, sizeof title, "All %d sequences go on with the same word", c->n);
	else
		snprintf(title, sizeof title, "All %d sequences go on with the same %zu words", c->n, c->shared);
	heading(v, title);
	const size_t from = c->texts[0].words[0].from;
	paragraph(v, p->texts[0].bytes + from, c->shared_bytes - from, INDENT);
	sink_text(v->out, "\n");
}

/* ---- Columns ---- */

/* Why a text ended, in as few letters as go beside its number of tokens. */
static const char *short_end(const struct gen_text *t)
{
	if (t->cut)
		return "cut";
	switch (t->finish) {
	case COHORT_FINISH_EOG: return "ended";
	case COHORT_FINISH_STOP: return "stop";
	case COHORT_FINISH_LENGTH: return "length";
	default: return compare_end(t);
	}
}

/* Line k of what stands above a text. Short enough for the narrowest column. */
static void head_line(const struct compare *c, int32_t i, int k, struct sink *out)
{
	const struct gen_text *t = &c->p->texts[i];
	const struct compare_text *w = &c->texts[i];

	switch (k) {
	case 0: sink_printf(out, "Sequence %d%s", i, i == c->best && c->n > 1 ? " * likeliest" : ""); break;
	case 1: sink_printf(out, "%zu token%s, %s", t->n_tokens, t->n_tokens == 1 ? "" : "s", short_end(t)); break;
	case 2: sink_printf(out, "log %.4f, ppl %.4g", gen_mean_logprob(t), gen_perplexity(t)); break;
	default:
		if (c->n < 2 || c->n_forks == 0)
			break;
		if (w->same)
			sink_printf(out, "the same as %d", w->with);
		else if (w->together == w->n_words)
			sink_printf(out, "ends where %d goes on", w->with);
		else if (w->together > c->shared)
			sink_printf(out, "as %d up to word %zu", w->with, w->together);
		else
			sink_printf(out, "differs at word %zu", w->together + 1);
	}
}

/* One line of each of n columns, made by fill, with bars between them. False when no column had any. */
static bool row_line(struct view *v, int n, int width, struct column *columns, const char *code)
{
	bool any = false;

	v->line.n = 0;
	for (int i = 0, behind = 0; i < n; i++) {
		int cells;
		struct sink *l = &v->line;
		if (i > 0) {
			sink_repeat(l, " ", (size_t)behind);
			sink_text(l, " \u2502");
		}
		/* What follows is written only if something does: lines end without spaces. */
		const size_t space = l->n;
		sink_text(l, i > 0 ? " " : "");
		if (v->colours && *code)
			sink_printf(l, "\033[%sm", code);
		const bool more = column_line(&columns[i], width, v->colours, l, &cells);
		if (v->colours && *code)
			sink_text(l, "\033[0m");
		any = any || more;
		behind = width - cells;
		if (cells == 0) {
			l->n = space;
			behind = width + (i > 0);
		}
	}
	if (any) {
		sink_put(v->out, v->line.bytes, v->line.n);
		sink_text(v->out, "\n");
	}
	return any;
}

static void show_heads(struct view *v, int32_t from, int n, int width, struct column *columns)
{
	for (int k = 0; k < HEAD_LINES; k++) {
		struct sink texts = {.bytes = NULL};
		size_t ends[COLUMNS_WIDTH_MAX / COLUMNS_MIN + 1];
		for (int i = 0; i < n; i++) {
			head_line(v->c, v->c->order[from + i], k, &texts);
			ends[i] = texts.n;
		}
		for (int i = 0; i < n; i++) {
			const size_t begin = i > 0 ? ends[i - 1] : 0;
			columns[i] = (struct column){
					.text = texts.n > 0 ? texts.bytes + begin : "", .n = ends[i] - begin};
		}
		while (!texts.failed && row_line(v, n, width, columns, k == 0 ? "1" : "2"))
			continue;
		v->out->failed = v->out->failed || texts.failed;
		sink_release(&texts);
	}
	for (int i = 0; i < n; i++) {
		if (i > 0)
			sink_text(v->out, "\u2500\u253c\u2500");
		sink_repeat(v->out, "\u2500", (size_t)width);
	}
	sink_text(v->out, "\n");
}

/* What follows the shared beginning, with the word pointed out where a sequence leaves the others. */
static struct column body(const struct compare *c, int32_t i)
{
	const struct gen_text *t = &c->p->texts[i];
	const struct compare_text *w = &c->texts[i];
	const struct compare_word *first = compare_word(c, i, c->shared);
	const struct compare_word *leaves = c->n > 1 && !w->same ? compare_word(c, i, w->together) : NULL;

	if (!first)
		return (struct column){
				.text = t->n_tokens == 0 ? "(nothing)" : "(ends here)", .n = t->n_tokens == 0 ? 9 : 11};
	struct column b = {.text = t->bytes, .n = t->n_bytes, .at = first->from};
	if (leaves) {
		b.mark = leaves->from;
		b.mark_end = leaves->to;
	}
	return b;
}

static void show_columns(struct view *v)
{
	struct column columns[COLUMNS_WIDTH_MAX / COLUMNS_MIN + 1];
	const int32_t n = v->c->n;
	const int fit = (v->width + BAR) / (COLUMNS_MIN + BAR) > 1 ? (v->width + BAR) / (COLUMNS_MIN + BAR) : 1;
	const int32_t n_rows = (n + fit - 1) / fit;
	const int across = (int)((n + n_rows - 1) / n_rows);
	int width = (v->width - BAR * (across - 1)) / across;

	width = width < TEXT_MAX ? width : TEXT_MAX;
	for (int32_t from = 0; from < n; from += across) {
		const int now = n - from < across ? (int)(n - from) : across;
		show_heads(v, from, now, width, columns);
		for (int i = 0; i < now; i++)
			columns[i] = body(v->c, v->c->order[from + i]);
		while (!v->out->failed && row_line(v, now, width, columns, ""))
			continue;
		sink_text(v->out, "\n");
	}
}

/* ---- Where they part, and how alike they are ---- */

/* A word in quotes, cut when it is long. */
static void quote(struct sink *out, const char *s, size_t n)
{
	struct letter g;
	size_t at = 0;
	int cells = 0;

	sink_text(out, " \"");
	while (at < n && cells < QUOTE_MAX) {
		at += letter_next(s + at, n - at, &g);
		sink_put(out, g.bytes, g.n_bytes);
		cells += g.width;
	}
	sink_text(out, at < n ? "...\"" : "\"");
}

static void show_forks(struct view *v)
{
	const struct compare *c = v->c;
	struct sink text = {.bytes = NULL};

	if (c->n_forks == 0)
		return;
	heading(v, "Where they part");
	for (size_t k = 0; k < c->n_forks && k < FORKS_SHOWN; k++) {
		const struct compare_fork *f = &c->forks[k];
		const int indent = INDENT * (1 + (f->level < 6 ? (int)f->level : 6));
		text.n = 0;
		sink_printf(&text, "word %zu:", f->depth + 1);
		for (int32_t i = f->first, n; i < f->first + f->n; i += n) {
			n = compare_branch(c, f, i);
			for (int32_t m = 0; m < n && m < FORKS_SHOWN; m++)
				sink_printf(&text, "%s%d", m > 0 ? ", " : i > f->first ? " | " : " ", c->order[i + m]);
			if (n > FORKS_SHOWN)
				sink_text(&text, ", ...");
			const struct compare_word *w = compare_word(c, c->order[i], f->depth);
			if (w)
				quote(&text, c->p->texts[c->order[i]].bytes + w->from, w->to - w->from);
			else
				sink_text(&text, " (end)");
		}
		if (!text.failed)
			paragraph(v, text.bytes, text.n, indent);
	}
	if (c->n_forks > FORKS_SHOWN)
		sink_printf(v->out, "and %zu more\n", c->n_forks - FORKS_SHOWN);
	sink_text(v->out, "\n");
	v->out->failed = v->out->failed || text.failed;
	sink_release(&text);
}

static void show_similarity(struct view *v)
{
	const struct compare *c = v->c;
	const int32_t across = v->width < 8 ? 1 : (v->width - 4) / 4;

	if (c->n < 2)
		return;
	heading(v, "Similarity in percent");
	if (!c->similarity) {
		char why[64];
		snprintf(why, sizeof why, "not computed for more than %d sequences", COMPARE_TEXTS_MAX);
		paragraph(v, why, strlen(why), INDENT);
		sink_text(v->out, "\n");
		return;
	}
	for (int32_t from = 0; from < c->n; from += across) {
		const int32_t end = c->n - from < across ? c->n : from + across;
		style(v, "2");
		sink_text(v->out, "    ");
		for (int32_t k = from; k < end; k++)
			sink_printf(v->out, "%4d", k);
		style(v, "0");
		for (int32_t i = 0; i < c->n; i++) {
			style(v, "2");
			sink_printf(v->out, "\n%4d", i);
			style(v, "0");
			for (int32_t k = from; k < end; k++) {
				const double s = 100 * c->similarity[(size_t)i * (size_t)c->n + (size_t)k];
				if (i == k) {
					sink_text(v->out, "   -");
					continue;
				}
				style(v, s >= 66.5 ? "1;33" : s >= 33.5 ? "33" : "0");
				sink_printf(v->out, "%4.0f", s);
				style(v, "0");
			}
		}
		sink_text(v->out, "\n\n");
	}
}

/* What the heads of the columns mean, once and at the end: a terminal shows the end. */
static void show_legend(struct view *v)
{
	static const char *const lines[] = {
			"log: mean log-probability of a token; ppl: perplexity, lower is likelier",
			"as 2 up to word 5: begins with the same 5 words as sequence 2",
			"differs at word 3: its first 2 words are shared, its third is its own",
			"\u00bb: the first word that differs",
			"Sequences that share the most words stand next to each other.",
	};

	style(v, "2");
	for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
		paragraph(v, lines[i], strlen(lines[i]), 0);
	style(v, "0");
}

int compare_show(const struct job *j, int64_t width)
{
	struct sink out = {.bytes = NULL};
	struct compare c;
	struct view v = {.j = j, .c = &c, .out = &out, .width = width > 0 ? (int)width : columns_terminal()};
	int rc = 0;

	v.colours = term_colors(STDOUT_FILENO);
	for (size_t i = 0; i < j->n_prompts && !rc; i++) {
		rc = compare_init(&c, j->gen.prog, &j->prompts[i]);
		if (!rc) {
			show_beginning(&v);
			show_columns(&v);
			show_forks(&v);
			show_similarity(&v);
		}
		compare_release(&c);
		if (!rc && (out.failed || v.line.failed))
			rc = out_of_memory(j->gen.prog);
	}
	if (!rc && j->c.n_parallel > 1)
		show_legend(&v);
	if (!rc)
		fwrite(out.bytes ? out.bytes : "", 1, out.n, stdout);
	sink_release(&out);
	sink_release(&v.line);
	return rc;
}
