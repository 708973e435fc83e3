/* The results as a picture: how times are distributed under each strategy, and how much was done.
 *
 * What holds:
 *  1. It needs nothing from elsewhere: no fonts, no scripts. Its background and texts follow the reader's light or dark
 *     scheme; strategies differ in colour, in dash and in mark.
 *  2. A curve says for each time (on a logarithmic axis) which part of all is no longer than it: further left and
 *     higher is better. Marks stand at 50, 90 and 99 %. All curves of a panel share its axis.
 *  3. Bars begin at 0.
 *  4. Texts are escaped: no name can break the picture. */
#include "common.h"
#include "sim.h"
#include "svg.h"

#include "base/mem.h"

#include <math.h>
#include <string.h>

enum { WIDTH = 1000, MARGIN = 24, PANEL_W = 400, PANEL_H = 220, GAP_X = 84, GAP_Y = 86, LEGEND_H = 19 };

static const char *const colours[] = {
		"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56b4e9", "#8a63d2", "#7f7f7f"};
static const char *const dashes[] = {"none", "9 3", "3 3"};
enum { N_COLOURS = sizeof colours / sizeof *colours, N_DASHES = sizeof dashes / sizeof *dashes };

/* The three distributions. */
enum what { TTFT, GAPS, END };

struct picture {
	FILE *o;
	const struct sim_setting *setting;
	const struct sim_result *results;
	size_t n;
};

struct panel {
	double x, y;
	double lo, hi; /* of the axis, in seconds */
};

/* ---- Elements ---- */

static void mark(FILE *o, size_t i, double x, double y)
{
	const char *c = colours[i % N_COLOURS];

	switch (i % 4) {
	case 0: fprintf(o, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" fill=\"%s\"/>\n", x, y, c); break;
	case 1:
		fprintf(o, "<rect x=\"%.1f\" y=\"%.1f\" width=\"7\" height=\"7\" fill=\"%s\"/>\n", x - 3.5, y - 3.5, c);
		break;
	case 2: fprintf(o, "<path d=\"M%.1f %.1fl4.5 8h-9z\" fill=\"%s\"/>\n", x, y - 5, c); break;
	default: fprintf(o, "<path d=\"M%.1f %.1fl5 5l-5 5l-5 -5z\" fill=\"%s\"/>\n", x, y - 5, c); break;
	}
}

static void time_text(char *out, size_t n_max, double s)
{
	snprintf(out, n_max,
			s < 0.9995e-3                ? "%.3g µs"
					: s < 0.9995 ? "%.3g ms"
						     : "%.4g s",
			s < 0.9995e-3                ? s * 1e6
					: s < 0.9995 ? s * 1e3
						     : s);
}

/* ---- Distributions ---- */

static const struct sim_quantiles *quantiles_of(const struct sim_result *r, enum what w)
{
	return w == TTFT ? &r->q_ttft : w == GAPS ? &r->q_gap : &r->q_end;
}

/* What 1 % of the times do not exceed: the axis begins there, as the few that are shorter would take most of it. */
static double first_of(const struct sim_result *r, enum what w)
{
	uint64_t n = 0, seen = 0;

	if (w != GAPS)
		return r->n > 0 ? (w == TTFT ? r->ttft : r->end)[r->n / 100] : 0;
	for (size_t b = 0; b < COHORT_SIM_BINS; b++)
		n += r->totals.gaps[b];
	for (int32_t b = 0; b < COHORT_SIM_BINS; b++) {
		seen += r->totals.gaps[b];
		if (seen > n / 100)
			return cohort_sim_bin_s(b);
	}
	return 0;
}

/* 1, 2 or 5 times a power of ten, not above (or below) v. */
static double round_axis(double v, bool up)
{
	static const double steps[] = {1, 2, 5, 10};
	const double ten = pow(10, floor(log10(v)));

	for (size_t i = 0; i < 4; i++)
		if (up ? steps[i] * ten >= v * 0.9999 : i == 3 || steps[i + 1] * ten > v * 1.0001)
			return steps[i] * ten;
	return v;
}

static double x_of(const struct panel *p, double s)
{
	const double at = s > p->lo ? s < p->hi ? log(s / p->lo) / log(p->hi / p->lo) : 1 : 0;
	return p->x + PANEL_W * at;
}

static double y_of(const struct panel *p, double part)
{
	return p->y + PANEL_H * (1 - part);
}

static void set_axis(const struct picture *k, struct panel *p, enum what w)
{
	p->lo = p->hi = 0;
	for (size_t i = 0; i < k->n; i++) {
		const double lo = first_of(&k->results[i], w), hi = quantiles_of(&k->results[i], w)->s[SIM_MAX];
		if (lo >= SIM_S_MIN && (p->lo <= 0 || lo < p->lo))
			p->lo = lo;
		p->hi = hi > p->hi ? hi : p->hi;
	}
	p->lo = round_axis(p->lo > 0 ? p->lo : 1e-6, false);
	p->hi = round_axis(p->hi > p->lo ? p->hi : p->lo * 10, true);
}

static void axes(FILE *o, const struct panel *p, const char *title)
{
	static const double parts[] = {0, 0.25, 0.5, 0.75, 0.9, 0.99};
	const bool wide = p->hi / p->lo > 300;
	char text[32];

	svg_text(o, p->x, p->y - 14, "strong", "start", title);
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
		snprintf(text, sizeof text, "%.0f %%", 100 * parts[i]);
		svg_line(o, p->x, y_of(p, parts[i]), p->x + PANEL_W, y_of(p, parts[i]), i == 0 ? "axis" : "grid");
		svg_text(o, p->x - 8, y_of(p, parts[i]) + 4, "small", "end", text);
	}
	/* Lines at 1, 2 and 5; texts at 1 only when they would meet. */
	for (double v = p->lo; v <= p->hi * 1.0001; v = round_axis(v * 1.001, true)) {
		const double lead = v / pow(10, floor(log10(v * 1.0001)));
		svg_line(o, x_of(p, v), p->y, x_of(p, v), p->y + PANEL_H, "grid");
		if (wide && lead > 1.5)
			continue;
		time_text(text, sizeof text, v);
		svg_text(o, x_of(p, v), p->y + PANEL_H + 17, "small", "middle", text);
	}
}

/* Where a curve was last drawn to: points that nobody could tell apart are left out. */
struct pen {
	FILE *o;
	const struct panel *p;
	double x, y;
};

static void point(struct pen *k, double s, double part, bool last)
{
	const double x = x_of(k->p, s), y = y_of(k->p, part);

	if (!last && fabs(x - k->x) < 0.8 && fabs(y - k->y) < 0.8)
		return;
	k->x = x;
	k->y = y;
	fprintf(k->o, "%.1f,%.1f ", x, y);
}

static void gap_points(struct pen *pen, const struct cohort_sim_totals *t, uint64_t n)
{
	uint64_t seen = 0;

	for (int32_t b = 0; b < COHORT_SIM_BINS; b++) {
		if (!t->gaps[b])
			continue;
		point(pen, cohort_sim_bin_s(b), (double)seen / (double)n, false);
		seen += t->gaps[b];
		point(pen, cohort_sim_bin_s(b), (double)seen / (double)n, seen == n);
	}
}

static void curve(const struct picture *k, const struct panel *p, size_t i, enum what w)
{
	static const double at[SIM_MAX] = {0.5, 0.9, 0.99};
	const struct sim_result *r = &k->results[i];
	const double *v = w == TTFT ? r->ttft : r->end;
	struct pen pen = {k->o, p, -1, -1};
	uint64_t n = 0;

	for (size_t b = 0; b < COHORT_SIM_BINS; b++)
		n += r->totals.gaps[b];
	if (r->n == 0 || (w == GAPS && n == 0))
		return;
	fputs("<polyline points=\"", k->o);
	if (w == GAPS)
		gap_points(&pen, &r->totals, n);
	for (size_t j = 0; w != GAPS && j < r->n; j++)
		point(&pen, v[j], (double)j / (double)r->n, false);
	if (w != GAPS)
		point(&pen, v[r->n - 1], 1, true);
	fprintf(k->o,
			"\" fill=\"none\" stroke=\"%s\" stroke-width=\"2\" stroke-dasharray=\"%s\" "
			"stroke-linejoin=\"round\"/>\n",
			colours[i % N_COLOURS], dashes[i % N_DASHES]);
	for (size_t q = 0; q < SIM_MAX; q++)
		mark(k->o, i, x_of(p, quantiles_of(r, w)->s[q]), y_of(p, at[q]));
}

static void distribution(const struct picture *k, enum what w, double x, double y)
{
	static const char *const titles[] = {[TTFT] = "Time to the first token",
			[GAPS] = "Time between tokens",
			[END] = "Time to the end of the answer"};
	struct panel p = {.x = x, .y = y};

	set_axis(k, &p, w);
	axes(k->o, &p, titles[w]);
	for (size_t i = 0; i < k->n; i++)
		curve(k, &p, i, w);
}

/* ---- Bars ---- */

/* The panel's height, or what many strategies take. */
static double bars_height(const struct picture *k)
{
	return 27.0 * (double)k->n > PANEL_H ? 27.0 * (double)k->n : PANEL_H;
}

static void bars(const struct picture *k, double x, double y)
{
	const double height = bars_height(k), most_w = PANEL_W - 60;
	const double step = height / (double)(k->n > 0 ? k->n : 1);
	const double h = step * 0.34 < 26 ? step * 0.34 : 26;
	double most = 0;
	char text[160];

	svg_text(k->o, x, y - 14, "strong", "start", "Output tokens per second");
	for (size_t i = 0; i < k->n; i++)
		most = k->results[i].out_per_s > most ? k->results[i].out_per_s : most;
	for (size_t i = 0; i < k->n; i++) {
		const struct sim_result *r = &k->results[i];
		const double w = most > 0 ? most_w * r->out_per_s / most : 0, at = y + step * (double)i + step * 0.5;
		snprintf(text, sizeof text, "%.60s: %s requests/s, fairness %.3f, %llu refused, %llu parked", r->name,
				sim_number(r->requests_per_s), r->jain, (unsigned long long)r->totals.n_refused,
				(unsigned long long)r->totals.n_parked);
		svg_text(k->o, x + 5, at - 5, "small", "start", text);
		fprintf(k->o, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"2\" fill=\"%s\"/>\n", x,
				at, w, h, colours[i % N_COLOURS]);
		svg_text(k->o, x + w + 6, at + h / 2 + 4, "small strong", "start", sim_number(r->out_per_s));
	}
	svg_line(k->o, x, y, x, y + height, "axis");
}

/* ---- The whole ---- */

static void style(FILE *o, int height)
{
	fprintf(o,
			"<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" "
			"font-family=\"DejaVu Sans, Verdana, sans-serif\" font-size=\"13\">\n",
			WIDTH, height, WIDTH, height);
	fputs("<style>\n.back { fill: #ffffff } text { fill: #222222 }\n"
	      ".small { font-size: 11px } .strong { font-weight: bold }\n"
	      ".title { font-size: 16px; font-weight: bold }\n"
	      ".grid { stroke: #888888; stroke-opacity: 0.25 } .axis { stroke: #888888 }\n"
	      "@media (prefers-color-scheme: dark) {\n.back { fill: #15181c } text { fill: #e6e6e6 } }\n</style>\n",
			o);
	fprintf(o, "<rect class=\"back\" width=\"%d\" height=\"%d\"/>\n", WIDTH, height);
}

/* Strategies in lines of their own where one is not enough. Returns where the last one stands. */
static double legend(const struct picture *k, bool draw)
{
	double x = MARGIN, y = 108;

	for (size_t i = 0; i < k->n; i++) {
		const double w = 64 + 7 * (double)strlen(k->results[i].name);
		if (x > MARGIN && x + w > WIDTH - MARGIN) {
			x = MARGIN;
			y += LEGEND_H;
		}
		if (draw) {
			fprintf(k->o,
					"<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" "
					"stroke-width=\"2\" stroke-dasharray=\"%s\"/>\n",
					x, y, x + 30, y, colours[i % N_COLOURS], dashes[i % N_DASHES]);
			mark(k->o, i, x + 15, y);
			svg_text(k->o, x + 37, y + 4, "small", "start", k->results[i].name);
		}
		x += w;
	}
	return y;
}

static void head(const struct picture *k)
{
	const struct cohort_sim_params *p = k->setting->params;
	char text[640];

	svg_text(k->o, MARGIN, 32, "title", "start", "Strategies under the same load, simulated");
	snprintf(text, sizeof text, "trace: %.150s", k->setting->about_trace);
	svg_text(k->o, MARGIN, 54, "small", "start", text);
	snprintf(text, sizeof text, "cost: %.150s", k->setting->cost->about);
	svg_text(k->o, MARGIN, 71, "small", "start", text);
	snprintf(text, sizeof text,
			"%d slots, cache of %d tokens, %d rows a tick, chunks of %d; marks at 50, 90 and 99 %%",
			p->n_slots, p->n_ctx, p->budget ? p->budget : p->n_batch, p->chunk_size);
	svg_text(k->o, MARGIN, 88, "small", "start", text);
	legend(k, true);
}

int sim_report_svg(const char *path, const struct sim_setting *s, const struct sim_result *results, size_t n)
{
	const double left = MARGIN + 40, right = left + PANEL_W + GAP_X;
	char *bytes = NULL;
	size_t n_bytes = 0;
	struct picture k = {.o = open_memstream(&bytes, &n_bytes), .setting = s, .results = results, .n = n};
	const double top = legend(&k, false) + 52, below = top + PANEL_H + GAP_Y;

	if (!k.o)
		return out_of_memory(sim_prog);
	style(k.o, (int)(below + bars_height(&k)) + 44);
	head(&k);
	distribution(&k, TTFT, left, top);
	distribution(&k, GAPS, right, top);
	distribution(&k, END, left, below);
	bars(&k, right, below);
	fputs("</svg>\n", k.o);
	const bool bad = ferror(k.o);
	int rc = fclose(k.o) || bad ? out_of_memory(sim_prog) : sim_write(path, bytes, n_bytes);
	mem_free(bytes);
	return rc;
}
