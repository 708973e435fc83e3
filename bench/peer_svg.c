/* The results as a picture: ratios by rows, a line for each format, and bars for the jobs with a shared prompt.
 *
 * What holds:
 *  1. It needs nothing from elsewhere: no fonts, no scripts. Its own background and its colours follow the reader's
 *     light or dark scheme; the colours of the formats are told apart in both, and their marks differ, too.
 *  2. Every panel has its zero and its line at 1.0; above it ours is faster. Whiskers are the spread.
 *  3. Texts are escaped: nothing that a program says of itself can break the picture. */
#include "peer.h"
#include "svg.h"

#include <stdlib.h>
#include <string.h>

enum { WIDTH = 1000, MARGIN = 24, PANEL_W = 410, PANEL_H = 210, GAP_X = 76, GAP_Y = 78, HEAD_H = 150 };
enum { VIEWS_MAX = 64, FORMATS_MAX = 16, TICKS_MAX = 64 };

static const char *const colours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56b4e9", "#8a63d2",
		"#7f7f7f"};
enum { N_COLOURS = sizeof colours / sizeof *colours };

struct picture {
	FILE *o;
	const json_t *doc, *cells;
	const char *formats[FORMATS_MAX];
	size_t n_formats;
};

struct panel {
	const struct view *view;
	const char *key;  /* of the ratio */
	double x, y, most;
	int64_t ticks[TICKS_MAX]; /* rows, ascending */
	size_t n_ticks;
};

static double y_of(const struct panel *p, double ratio)
{
	return p->y + PANEL_H * (1 - ratio / p->most);
}

/* A mark of the format's own shape and colour. */
static void mark(FILE *o, size_t format, double x, double y)
{
	const char *c = colours[format % N_COLOURS];

	switch (format % 4) {
	case 0: fprintf(o, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" fill=\"%s\"/>\n", x, y, c); break;
	case 1:
		fprintf(o, "<rect x=\"%.1f\" y=\"%.1f\" width=\"7\" height=\"7\" fill=\"%s\"/>\n", x - 3.5, y - 3.5, c);
		break;
	case 2:
		fprintf(o, "<path d=\"M%.1f %.1fl4.5 8h-9z\" fill=\"%s\"/>\n", x, y - 5, c);
		break;
	default:
		fprintf(o, "<path d=\"M%.1f %.1fl5 5l-5 5l-5 -5z\" fill=\"%s\"/>\n", x, y - 5, c);
		break;
	}
}

/* ---- Panels ---- */

static void add_tick(struct panel *p, int64_t rows)
{
	size_t i = p->n_ticks;

	for (size_t j = 0; j < p->n_ticks; j++)
		if (p->ticks[j] == rows)
			return;
	if (p->n_ticks == TICKS_MAX)
		return;
	for (p->n_ticks++; i > 0 && p->ticks[i - 1] > rows; i--)
		p->ticks[i] = p->ticks[i - 1];
	p->ticks[i] = rows;
}

static void panel_init(
		const struct picture *s, struct panel *p, const struct view *v, const char *key, double x, double y)
{
	*p = (struct panel){.view = v, .key = key, .x = x, .y = y, .most = 1.2};
	for (size_t i = 0; i < json_array_size(s->cells); i++) {
		const json_t *cell = json_array_get(s->cells, i);
		const double top = 1.05 * cell_number(cell, "ratio", key, "max");
		if (!view_has(v, cell))
			continue;
		add_tick(p, json_integer_value(json_object_get(cell, "rows")));
		p->most = top > p->most ? top : p->most;
	}
}

static void axes(FILE *o, const struct panel *p, const char *title, const char *below)
{
	static const double steps[] = {0.2, 0.25, 0.5, 1, 2, 5, 10, 20, 50, 100};
	size_t i = 0;
	char text[32];

	svg_text(o, p->x, p->y - 12, "strong", "start", title);
	while (i + 1 < sizeof steps / sizeof *steps && p->most / steps[i] > 7)
		i++;
	for (double v = 0; v <= p->most; v += steps[i]) {
		svg_line(o, p->x, y_of(p, v), p->x + PANEL_W, y_of(p, v), "grid");
		snprintf(text, sizeof text, "%g", v);
		svg_text(o, p->x - 8, y_of(p, v) + 4, "small", "end", text);
	}
	svg_line(o, p->x, y_of(p, 1), p->x + PANEL_W, y_of(p, 1), "one");
	svg_text(o, p->x + PANEL_W + 6, y_of(p, 1) + 4, "strong small", "start", "1.0");
	svg_text(o, p->x + PANEL_W / 2.0, p->y + PANEL_H + 34, "small", "middle", below);
}

static void whisker(FILE *o, const struct panel *p, const json_t *cell, size_t format, double x)
{
	const double lo = cell_number(cell, "ratio", p->key, "min"), hi = cell_number(cell, "ratio", p->key, "max");

	fprintf(o, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" stroke-opacity=\"0.55\"/>\n", x,
			y_of(p, lo), x, y_of(p, hi), colours[format % N_COLOURS]);
}

static const json_t *cell_at(const struct picture *s, const struct view *v, const char *format, int64_t rows)
{
	for (size_t i = 0; i < json_array_size(s->cells); i++) {
		const json_t *cell = json_array_get(s->cells, i);
		if (view_has(v, cell) && strcmp(cell_text(cell, "format"), format) == 0 &&
				(int64_t)field(cell, "rows") == rows)
			return cell;
	}
	return NULL;
}

static void lines(const struct picture *s, const struct panel *p)
{
	const double step = (double)PANEL_W / (double)(p->n_ticks > 0 ? p->n_ticks : 1);
	char text[32];

	for (size_t t = 0; t < p->n_ticks; t++) {
		snprintf(text, sizeof text, "%lld", (long long)p->ticks[t]);
		svg_text(s->o, p->x + step * ((double)t + 0.5), p->y + PANEL_H + 17, "small", "middle", text);
	}
	for (size_t f = 0; f < s->n_formats; f++) {
		const double shift = 3 * ((double)f - (double)(s->n_formats - 1) / 2);
		bool begun = false;
		for (size_t t = 0; t < p->n_ticks; t++) {
			const json_t *c = cell_at(s, p->view, s->formats[f], p->ticks[t]);
			const double r = cell_number(c, "ratio", p->key, "median");
			if (r <= 0)
				continue;
			fprintf(s->o, "%s%.1f,%.1f", begun ? " " : "<polyline points=\"",
					p->x + step * ((double)t + 0.5) + shift, y_of(p, r));
			begun = true;
		}
		if (begun)
			fprintf(s->o, "\" fill=\"none\" stroke=\"%s\" stroke-width=\"1.8\"/>\n",
					colours[f % N_COLOURS]);
		for (size_t t = 0; t < p->n_ticks; t++) {
			const json_t *c = cell_at(s, p->view, s->formats[f], p->ticks[t]);
			const double r = cell_number(c, "ratio", p->key, "median");
			const double x = p->x + step * ((double)t + 0.5) + shift;
			if (r <= 0)
				continue;
			whisker(s->o, p, c, f, x);
			mark(s->o, f, x, y_of(p, r));
		}
	}
}

/* One bar for each format, of the largest number of rows. */
static void bars(const struct picture *s, const struct panel *p)
{
	const double step = (double)PANEL_W / (double)(s->n_formats > 0 ? s->n_formats : 1);
	char text[32];

	for (size_t f = 0; f < s->n_formats; f++) {
		const json_t *c = p->n_ticks ? cell_at(s, p->view, s->formats[f], p->ticks[p->n_ticks - 1]) : NULL;
		const double r = cell_number(c, "ratio", p->key, "median"), x = p->x + step * ((double)f + 0.5);
		const double w = step * 0.5 < 60 ? step * 0.5 : 60;
		if (r <= 0)
			continue;
		fprintf(s->o, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"/>\n", x - w / 2,
				y_of(p, r), w, PANEL_H * r / p->most, colours[f % N_COLOURS]);
		svg_line(s->o, x, y_of(p, cell_number(c, "ratio", p->key, "min")), x,
				y_of(p, cell_number(c, "ratio", p->key, "max")), "whisker");
		snprintf(text, sizeof text, "%.2f", r);
		svg_text(s->o, x + w / 2 + 4, y_of(p, r) + 12, "small", "start", text);
		svg_text(s->o, x, p->y + PANEL_H + 17, "small", "middle", s->formats[f]);
	}
	svg_line(s->o, p->x, y_of(p, 1), p->x + PANEL_W, y_of(p, 1), "one"); /* over the bars, too */
}

static void draw_shared(const struct picture *s, const struct view *v, double x, double y)
{
	struct panel p;
	char title[256], below[128];

	panel_init(s, &p, v, "t", x, y);
	snprintf(title, sizeof title, "%.120s: whole job, one shared prompt", v->shape);
	snprintf(below, sizeof below, "%lld continuations of %lld tokens after a prompt of %lld, %lld threads",
			(long long)(p.n_ticks ? p.ticks[p.n_ticks - 1] : 0), (long long)v->gen, (long long)v->prompt,
			(long long)v->threads);
	axes(s->o, &p, title, below);
	bars(s, &p);
}

static void draw_batch(const struct picture *s, const struct view *v, double left, double right, double y)
{
	struct panel p;
	char title[256], below[128];

	panel_init(s, &p, v, "tg", left, y);
	snprintf(title, sizeof title, "%.120s: decode", v->shape);
	snprintf(below, sizeof below, "rows (sequences together); prompts of %lld, then %lld each; %lld threads",
			(long long)v->prompt, (long long)v->gen, (long long)v->threads);
	axes(s->o, &p, title, below);
	lines(s, &p);
	panel_init(s, &p, v, "pp", right, y);
	snprintf(title, sizeof title, "%.120s: prefill", v->shape);
	axes(s->o, &p, title, below);
	lines(s, &p);
}

/* A row of two panels for each view, then the shared ones two in a row. Returns the number of rows. */
static size_t draw_all(const struct picture *s, const struct view *views, size_t n, bool draw)
{
	const double left = MARGIN + 36, right = left + PANEL_W + GAP_X;
	size_t n_rows = 0, n_shared = 0;

	for (size_t i = 0; i < n; i++)
		if (strcmp(views[i].job, "shared") != 0) {
			if (draw)
				draw_batch(s, &views[i], left, right, HEAD_H + (double)n_rows * (PANEL_H + GAP_Y));
			n_rows++;
		}
	for (size_t i = 0; i < n; i++)
		if (strcmp(views[i].job, "shared") == 0) {
			if (draw)
				draw_shared(s, &views[i], n_shared % 2 ? right : left,
						HEAD_H + (double)(n_rows + n_shared / 2) * (PANEL_H + GAP_Y));
			n_shared++;
		}
	return n_rows + (n_shared + 1) / 2;
}

/* ---- The whole ---- */

static void head(const struct picture *s, double height)
{
	const json_t *runs = json_object_get(s->doc, "runs");
	const json_t *run = json_array_get(runs, json_array_size(runs) ? json_array_size(runs) - 1 : 0);
	const json_t *ours = json_object_get(run, "ours"), *peer = json_object_get(run, "peer");
	const json_t *m = json_object_get(run, "machine");
	char text[640];
	double x = MARGIN;

	fprintf(s->o,
			"<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %.0f\" width=\"%d\" "
			"height=\"%.0f\" "
			"font-family=\"DejaVu Sans, Verdana, sans-serif\" font-size=\"13\">\n",
			WIDTH, height, WIDTH, height);
	fputs("<style>\n.back { fill: #ffffff } text { fill: #222222 }\n"
	      ".small { font-size: 11px } .strong { font-weight: bold }\n"
	      ".title { font-size: 16px; font-weight: bold }\n"
	      ".grid { stroke: #888888; stroke-opacity: 0.3 } .one { stroke: #222222; stroke-width: 1.6 }\n"
	      ".whisker { stroke: #222222; stroke-width: 1.5 }\n"
	      "@media (prefers-color-scheme: dark) {\n.back { fill: #15181c } text { fill: #e6e6e6 }\n"
	      ".one, .whisker { stroke: #e6e6e6 } }\n</style>\n",
			s->o);
	fprintf(s->o, "<rect class=\"back\" width=\"%d\" height=\"%.0f\"/>\n", WIDTH, height);
	const char *path = cell_text(peer, "path"), *slash = strrchr(path, '/');
	snprintf(text, sizeof text, "%.40s (%.40s) against %.60s", cell_text(ours, "version"),
			cell_text(ours, "commit"), slash ? slash + 1 : path);
	svg_text(s->o, MARGIN, 30, "title", "start", text);
	snprintf(text, sizeof text, "peer: %.140s", cell_text(peer, "version"));
	svg_text(s->o, MARGIN, 50, "small", "start", text);
	snprintf(text, sizeof text, "%.100s, %.0f CPUs, Linux %.60s; %.40s; load before %.2f", cell_text(m, "cpu"),
			field(m, "cores"), cell_text(m, "kernel"), cell_text(run, "started"),
			field(m, "load_before"));
	svg_text(s->o, MARGIN, 67, "small", "start", text);
	svg_text(s->o, MARGIN, 84, "small", "start",
			"Ratio of medians, ours over the peer's: above 1.0 ours is faster. Whiskers: smallest and "
			"largest ratio within a round.");
	for (size_t f = 0; f < s->n_formats; f++) {
		mark(s->o, f, x + 6, 102);
		svg_text(s->o, x + 16, 106, "small", "start", s->formats[f]);
		x += 40 + 7.5 * (double)strlen(s->formats[f]);
	}
}

static void find_formats(struct picture *s)
{
	for (size_t i = 0; i < json_array_size(s->cells); i++) {
		const char *f = cell_text(json_array_get(s->cells, i), "format");
		size_t j = 0;
		while (j < s->n_formats && strcmp(s->formats[j], f) != 0)
			j++;
		if (j == s->n_formats && j < FORMATS_MAX)
			s->formats[s->n_formats++] = f;
	}
}

char *svg_make(const json_t *doc, size_t *n_bytes)
{
	char *bytes = NULL;
	struct picture s = {.o = open_memstream(&bytes, n_bytes), .doc = doc, .cells = json_object_get(doc, "cells")};
	struct view views[VIEWS_MAX];
	const size_t n = view_list(doc, true, views, VIEWS_MAX);

	if (!s.o)
		return NULL;
	find_formats(&s);
	head(&s, HEAD_H + (double)draw_all(&s, views, n, false) * (PANEL_H + GAP_Y) - 24);
	draw_all(&s, views, n, true);
	fputs("</svg>\n", s.o);
	const bool bad = ferror(s.o);
	if (fclose(s.o) || bad) {
		free(bytes);
		return NULL;
	}
	return bytes;
}
