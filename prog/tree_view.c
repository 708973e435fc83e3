/* A tree of continuations as text, JSON and a picture.
 *
 * What holds:
 *  1. Nodes have children as deep as TREE_DEPTH_MAX at most, so that recursion is bounded.
 *  2. The texts of tokens stand in quotes, on one line and without what steers a terminal: line ends, tabs, quotes
 *     and backslashes as C writes them, other control characters as ^X, and where the locale is not UTF-8 all beyond
 *     ASCII as \xNN. In JSON a text has its own bytes, those that are no UTF-8 as U+FFFD.
 *  3. The picture needs nothing from elsewhere; its background and texts follow the reader's light or dark scheme. */
#include "tree_view.h"

#include "common.h"
#include "svg.h"
#include "width.h"

#include "base/fmath.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>

/* ---- Texts in quotes ---- */

enum { QUOTE_BYTES = 160 };

/* Cut where it would not fit. Returns out. */
static const char *quote(char out[QUOTE_BYTES], const char *s, size_t n, bool utf8)
{
	static const char signs[] = "\n\t\r\\'";
	size_t at = 0;

	out[at++] = '\'';
	while (n > 0 && at < QUOTE_BYTES - 24) {
		struct glyph g;
		const size_t len = glyph_next(s, n, &g);
		const char *c = memchr(signs, *s, sizeof signs - 1);
		if (c)
			at += (size_t)snprintf(out + at, QUOTE_BYTES - at, "\\%c", "ntr\\'"[c - signs]);
		else if (utf8 || (unsigned char)*s < 128)
			at += (size_t)snprintf(out + at, QUOTE_BYTES - at, "%.*s", (int)g.n_bytes, g.bytes);
		else
			for (size_t i = 0; i < len; i++)
				at += (size_t)snprintf(out + at, QUOTE_BYTES - at, "\\x%02x", (unsigned char)s[i]);
		s += len;
		n -= len;
	}
	snprintf(out + at, QUOTE_BYTES - at, n > 0 ? "'..." : "'");
	return out;
}

static const char *token_text(const struct tree_view *v, cohort_token t, size_t *n)
{
	const char *bytes = cohort_token_bytes(v->model, t, true, n);
	if (!bytes)
		*n = 0;
	return bytes ? bytes : "";
}

/* What is below a hundredth of a percent is not shown as nothing. */
enum { PERCENT_BYTES = 32 };
static const char *percent(char out[PERCENT_BYTES], double p)
{
	snprintf(out, PERCENT_BYTES, p >= 5e-5 ? "%.2f %%" : "%.1e %%", 100 * p);
	return out;
}

/* ---- Text ---- */

static void put_line(const struct tree_view *v, const char *lines, const struct cohort_tree_node *t)
{
	const char *dim = v->colors ? "\033[2m" : "", *bright = v->colors ? "\033[36m" : "";
	const char *off = v->colors ? "\033[0m" : "";
	char text[QUOTE_BYTES], p[PERCENT_BYTES];
	size_t n;
	const char *bytes = token_text(v, t->token, &n);

	out_fmt(v->o, "%s%s%s%s  %s%s%s", dim, lines, off, quote(text, bytes, n, v->utf8), bright,
			percent(p, fm_exp((double)t->logprob)), off);
	if (t->depth > 1)
		out_fmt(v->o, "  %s(%s)%s", dim, percent(p, fm_exp(t->sum)), off);
	out_fmt(v->o, "%s\n", t->is_end ? "  the end" : "");
}

static void put_children(const struct tree_view *v, int32_t first, int32_t n, char *lines, size_t n_lines)
{
	static const char *const signs[2][4] = {{"|- ", "`- ", "|  ", "   "}, {"├─ ", "└─ ", "│  ", "   "}};

	for (int32_t i = first; i < first + n; i++) {
		const struct cohort_tree_node *t = &v->tree->nodes[i];
		const bool last = i + 1 == first + n;
		const char *below = signs[v->utf8][last ? 3 : 2];
		strcpy(lines + n_lines, signs[v->utf8][last]);
		put_line(v, lines, t);
		strcpy(lines + n_lines, below);
		put_children(v, t->first_child, t->n_children, lines, n_lines + strlen(below));
	}
}

void tree_view_text(const struct tree_view *v)
{
	char lines[8 * (TREE_DEPTH_MAX + 1)], text[QUOTE_BYTES];

	out_fmt(v->o, "%s\n", quote(text, v->prompt, v->n_prompt, v->utf8));
	put_children(v, 0, v->tree->n_roots, lines, 0);
}

/* ---- JSON ---- */

static void put_json(const struct tree_view *v, int32_t first, int32_t n, int indent)
{
	for (int32_t i = first; i < first + n; i++) {
		const struct cohort_tree_node *t = &v->tree->nodes[i];
		size_t n_bytes;
		const char *bytes = token_text(v, t->token, &n_bytes);
		out_fmt(v->o, "%*s{\"token\": %d, \"text\": ", indent, "", t->token);
		out_json(v->o, bytes, n_bytes);
		out_fmt(v->o, ", \"logprob\": ");
		out_float(v->o, t->logprob);
		out_fmt(v->o, ", \"sum\": ");
		out_double(v->o, t->sum);
		out_fmt(v->o, ", \"probability\": ");
		out_double(v->o, fm_exp((double)t->logprob));
		out_fmt(v->o, ", \"end\": %s, \"children\": [", t->is_end ? "true" : "false");
		if (t->n_children > 0) {
			out_fmt(v->o, "\n");
			put_json(v, t->first_child, t->n_children, indent + 1);
			out_fmt(v->o, "%*s", indent, "");
		}
		out_fmt(v->o, "]}%s\n", i + 1 < first + n ? "," : "");
	}
}

void tree_view_json(const struct tree_view *v)
{
	out_fmt(v->o, "{\"prompt\": ");
	out_json(v->o, v->prompt, v->n_prompt);
	out_fmt(v->o, ", \"n_nodes\": %d, \"cut\": %s, \"children\": [\n", v->tree->n_nodes,
			v->tree->cut ? "true" : "false");
	put_json(v, 0, v->tree->n_roots, 1);
	out_fmt(v->o, "]}\n");
}

/* ---- The picture ---- */

enum { ROW_H = 30, COLUMN_W = 200, MARGIN = 24, HEAD_H = 56 };

/* Where nodes stand: a leaf on the next row, the others between their children. */
static double place(const struct cohort_tree *t, int32_t i, double *y, int32_t *row)
{
	const struct cohort_tree_node *n = &t->nodes[i];

	if (n->n_children == 0)
		return y[i] = HEAD_H + ROW_H * ((double)(*row)++ + 0.5);
	const double from = place(t, n->first_child, y, row);
	double to = from;
	for (int32_t k = 1; k < n->n_children; k++)
		to = place(t, n->first_child + k, y, row);
	return y[i] = (from + to) / 2;
}

static void head(FILE *o, double w, double h)
{
	fprintf(o,
			"<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" "
			"height=\"%.0f\" font-family=\"DejaVu Sans, Verdana, sans-serif\" font-size=\"13\">\n",
			w, h, w, h);
	fputs("<style>\n.back { fill: #ffffff } text { fill: #222222 }\n"
	      ".small { font-size: 11px } .title { font-size: 15px; font-weight: bold }\n"
	      ".link { stroke: #0072b2; fill: none; stroke-linecap: round }\n"
	      "@media (prefers-color-scheme: dark) {\n.back { fill: #15181c } text { fill: #e6e6e6 } "
	      ".link { stroke: #56b4e9 } }\n</style>\n",
			o);
	fprintf(o, "<rect class=\"back\" width=\"%.0f\" height=\"%.0f\"/>\n", w, h);
}

static void draw(const struct tree_view *v, FILE *o, const double *y, double root_y)
{
	char text[QUOTE_BYTES], how[PERCENT_BYTES], label[PERCENT_BYTES + 16];

	for (int32_t i = 0; i < v->tree->n_nodes; i++) {
		const struct cohort_tree_node *t = &v->tree->nodes[i];
		const double p = fm_exp((double)t->logprob), x = MARGIN + 20 + (double)COLUMN_W * (t->depth - 1);
		const double from_x = t->parent < 0 ? MARGIN : x - 20, from_y = t->parent < 0 ? root_y : y[t->parent];
		size_t n;
		const char *bytes = token_text(v, t->token, &n);
		fprintf(o,
				"<path class=\"link\" d=\"M%.1f %.1fC%.1f %.1f %.1f %.1f %.1f %.1fH%.1f\" "
				"stroke-width=\"%.2f\" stroke-opacity=\"0.6\"/>\n",
				from_x, from_y, from_x + 12, from_y, x - 12, y[i], x, y[i], x + COLUMN_W - 20,
				0.5 + 9 * fm_exp(t->sum));
		svg_text(o, x + 4, y[i] - 5, "small", "start", quote(text, bytes, n < 20 ? n : 20, true));
		snprintf(label, sizeof label, "%s%s", percent(how, p), t->is_end ? ", the end" : "");
		svg_text(o, x + COLUMN_W - 24, y[i] - 5, "small", "end", label);
	}
}

int tree_view_svg(const struct tree_view *v)
{
	double *y = mem_alloc((size_t)v->tree->n_nodes + 1, sizeof *y), root_y = HEAD_H;
	char *bytes = NULL, text[QUOTE_BYTES];
	size_t n_bytes = 0;
	int32_t n_rows = 0, depth = 1;
	FILE *o = y ? open_memstream(&bytes, &n_bytes) : NULL;

	if (!o) {
		mem_free(y);
		return out_of_memory(v->o->prog);
	}
	for (int32_t i = 0; i < v->tree->n_roots; i++) {
		const double at = place(v->tree, i, y, &n_rows);
		root_y = i == 0 ? at : (y[0] + at) / 2;
	}
	for (int32_t i = 0; i < v->tree->n_nodes; i++)
		depth = v->tree->nodes[i].depth > depth ? v->tree->nodes[i].depth : depth;
	const double w = 2 * MARGIN + COLUMN_W * (double)depth + 20;
	head(o, w > 480 ? w : 480, HEAD_H + ROW_H * (double)(n_rows + 1));
	svg_text(o, MARGIN, 32, "title", "start", quote(text, v->prompt, v->n_prompt, true));
	draw(v, o, y, root_y);
	fputs("</svg>\n", o);
	mem_free(y);
	bool whole = !ferror(o);
	whole = fclose(o) == 0 && whole;
	if (whole)
		out_bytes(v->o, bytes, n_bytes);
	mem_free(bytes); /* malloc's, as mem_alloc's are */
	return whole ? 0 : out_of_memory(v->o->prog);
}
