/* Medians, ratios and tables: from the document of results alone, whoever measured it and when.
 *
 * What holds:
 *  1. A figure is the median over the rounds its contender has; the ratio is that of the two medians; its spread is the
 *     smallest and the largest ratio within one round, over the rounds that both have.
 *  2. A ratio above one means that ours is faster, for speeds (ours / peer) and for times (peer / ours).
 *  3. "% of limit" is the limit's time over the measured one, whatever bounds it.
 *  4. A missing value is no error: it is shown as a dash and left out of every sum. */
#include "peer.h"

#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define OTHERS_QUIET 0.2 /* CPUs; a threaded program that loses one of its CPUs now and then waits for it */

enum { VIEWS_MAX = 64, ROUNDS_MAX = 1000 };

static const struct measure {
	const char *key, *speed; /* of a round */
	const char *title, *unit;
	bool time;
} measures[] = {
	{"tg", "speed_tg", "Decode, tokens/s", "t/s", false},
	{"pp", "speed_pp", "Prefill, tokens/s", "t/s", false},
	{"t", "t", "Whole job, seconds", "s", true},
};
enum { N_MEASURES = sizeof measures / sizeof *measures };

/* ---- Numbers ---- */

static int by_value(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

double peer_median(const double *v, size_t n)
{
	double s[ROUNDS_MAX];

	if (n == 0 || n > ROUNDS_MAX)
		return 0;
	memcpy(s, v, n * sizeof *v);
	qsort(s, n, sizeof *s, by_value);
	return (s[(n - 1) / 2] + s[n / 2]) / 2;
}

static const json_t *at(const json_t *o, const char *key)
{
	return key ? json_object_get(o, key) : o;
}

double cell_number(const json_t *cell, const char *a, const char *b, const char *c)
{
	return json_number_value(at(at(at(cell, a), b), c));
}

double field(const json_t *o, const char *key)
{
	return json_number_value(json_object_get(o, key));
}

const char *cell_text(const json_t *cell, const char *key)
{
	const char *s = json_string_value(json_object_get(cell, key));
	return s ? s : "";
}

static double ratio_of(const struct measure *m, double ours, double peer)
{
	if (ours <= 0 || peer <= 0)
		return 0;
	return m->time ? peer / ours : ours / peer;
}

static double of_limit(const struct measure *m, double measured, double limit)
{
	if (measured <= 0 || limit <= 0)
		return 0;
	return 100 * (m->time ? limit / measured : measured / limit);
}

static int summarise(json_t *cell, const struct measure *m)
{
	const json_t *rounds = json_object_get(cell, "rounds");
	double ours[ROUNDS_MAX], peer[ROUNDS_MAX], least = 0, most = 0;
	size_t n_ours = 0, n_peer = 0;

	for (size_t i = 0; i < json_array_size(rounds) && i < ROUNDS_MAX; i++) {
		const json_t *r = json_array_get(rounds, i);
		const double a = cell_number(r, "ours", m->speed, NULL), b = cell_number(r, "peer", m->speed, NULL);
		const double ratio = ratio_of(m, a, b);
		if (a > 0)
			ours[n_ours++] = a;
		if (b > 0)
			peer[n_peer++] = b;
		if (ratio > 0 && (least <= 0 || ratio < least))
			least = ratio;
		if (ratio > most)
			most = ratio;
	}
	const double a = peer_median(ours, n_ours), b = peer_median(peer, n_peer);
	const double limit = cell_number(cell, "limit", m->key, "value");
	json_t *median = json_object_get(cell, "median"), *part = json_object_get(cell, "of_limit");
	return json_object_set_new(json_object_get(median, "ours"), m->speed, json_real(a)) ||
			json_object_set_new(json_object_get(median, "peer"), m->speed, json_real(b)) ||
			json_object_set_new(json_object_get(cell, "ratio"), m->key,
					json_pack("{s:f, s:f, s:f}", "median", ratio_of(m, a, b), "min", least, "max",
							most)) ||
			json_object_set_new(part, m->key,
					json_pack("{s:f, s:f}", "ours", of_limit(m, a, limit), "peer",
							of_limit(m, b, limit)));
}

int cell_summarise(json_t *cell)
{
	int bad = json_object_set_new(cell, "median", json_pack("{s:{}, s:{}}", "ours", "peer")) ||
			json_object_set_new(cell, "ratio", json_object()) ||
			json_object_set_new(cell, "of_limit", json_object());

	for (size_t i = 0; i < N_MEASURES && !bad; i++)
		bad = summarise(cell, &measures[i]);
	return bad;
}

/* ---- The document ---- */

static bool same_key(const json_t *a, const json_t *b)
{
	static const char *const keys[] = {"job", "shape", "format", "rows", "prompt", "gen", "threads"};

	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
		const json_t *x = json_object_get(a, keys[i]), *y = json_object_get(b, keys[i]);
		if ((x || y) && !json_equal(x, y))
			return false;
	}
	return true;
}

int doc_put(json_t *doc, const char *list, json_t *item)
{
	json_t *items = json_object_get(doc, list);

	for (size_t i = 0; i < json_array_size(items); i++)
		if (same_key(json_array_get(items, i), item))
			return json_array_set_new(items, i, item);
	return json_array_append_new(items, item);
}

static struct view view_of(const json_t *cell, bool by_shape)
{
	return (struct view){
		.job = cell_text(cell, "job"),
		.shape = by_shape ? cell_text(cell, "shape") : NULL,
		.threads = json_integer_value(json_object_get(cell, "threads")),
		.prompt = json_integer_value(json_object_get(cell, "prompt")),
		.gen = json_integer_value(json_object_get(cell, "gen")),
	};
}

bool view_has(const struct view *v, const json_t *cell)
{
	const struct view w = view_of(cell, v->shape);

	return strcmp(v->job, w.job) == 0 && (!v->shape || strcmp(v->shape, w.shape) == 0) && v->threads == w.threads &&
			v->prompt == w.prompt && v->gen == w.gen;
}

size_t view_list(const json_t *doc, bool by_shape, struct view *out, size_t n_max)
{
	size_t n = 0;

	for (size_t i = 0; i < n_items(doc, "cells"); i++) {
		const json_t *cell = item(doc, "cells", i);
		size_t j = 0;
		while (j < n && !view_has(&out[j], cell))
			j++;
		if (j == n && n < n_max)
			out[n++] = view_of(cell, by_shape);
	}
	return n;
}

/* ---- The tables ---- */

static const char rule[] = "----------------------------------------------------------------------------------";

static int shape_width(const json_t *doc)
{
	size_t width = 10;

	for (size_t i = 0; i < n_items(doc, "models"); i++) {
		const size_t n = strlen(cell_text(item(doc, "models", i), "shape"));
		width = n > width ? n : width;
	}
	return width < sizeof rule - 3 ? (int)width : (int)sizeof rule - 3;
}

static size_t rank_of(const json_t *cells, const char *key, const char *text)
{
	size_t i = 0;

	while (i < json_array_size(cells) && strcmp(cell_text(json_array_get(cells, i), key), text) != 0)
		i++;
	return i;
}

/* Shapes and formats in order of appearance, then rows by number. */
static bool before(const json_t *cells, const json_t *a, const json_t *b)
{
	const size_t sa = rank_of(cells, "shape", cell_text(a, "shape"));
	const size_t sb = rank_of(cells, "shape", cell_text(b, "shape"));
	const size_t fa = rank_of(cells, "format", cell_text(a, "format"));
	const size_t fb = rank_of(cells, "format", cell_text(b, "format"));

	if (sa != sb)
		return sa < sb;
	if (fa != fb)
		return fa < fb;
	return field(a, "rows") < field(b, "rows");
}

static void print_cell(const json_t *cell, const struct measure *m, int width)
{
	const double ours = cell_number(cell, "median", "ours", m->speed);
	const double peer = cell_number(cell, "median", "peer", m->speed);
	const double ratio = cell_number(cell, "ratio", m->key, "median");
	const double target = cell_number(cell, "target", m->key, NULL);
	const double part_ours = cell_number(cell, "of_limit", m->key, "ours");
	const double part_peer = cell_number(cell, "of_limit", m->key, "peer");
	const char *bound = cell_text(at(at(cell, "limit"), m->key), "bound");
	const int digits = m->time ? 3 : 1;
	char text[64] = "-", wanted[64] = "-", part[64] = "-";

	if (ratio > 0)
		snprintf(text, sizeof text, "%.2f (%.2f-%.2f)", ratio, cell_number(cell, "ratio", m->key, "min"),
				cell_number(cell, "ratio", m->key, "max"));
	if (target > 0)
		snprintf(wanted, sizeof wanted, "%.2f %s", target, ratio >= target ? "met" : "missed");
	if (part_ours > 0 || part_peer > 0)
		snprintf(part, sizeof part, "%.0f / %.0f (%s)", part_ours, part_peer, bound);
	printf("| %-*s | %-7s | %4.0f | %9.*f | %9.*f | %-18s | %-11s | %-22s |\n", width, cell_text(cell, "shape"),
			cell_text(cell, "format"), field(cell, "rows"), digits, ours, digits, peer,
			text, wanted, part);
}

static void print_view(const json_t *doc, const struct view *v, const struct measure *m)
{
	const json_t *cells = json_object_get(doc, "cells");
	const json_t **list = mem_alloc(json_array_size(cells), sizeof *list);
	size_t n = 0;

	if (!list)
		return;
	for (size_t i = 0; i < json_array_size(cells); i++) {
		const json_t *cell = json_array_get(cells, i);
		size_t j = n;
		if (!view_has(v, cell))
			continue;
		for (n++; j > 0 && before(cells, cell, list[j - 1]); j--)
			list[j] = list[j - 1];
		list[j] = cell;
	}
	printf("\n### %s: %s%lld tokens, then %lld each, %lld thread%s\n\n", m->title,
			strcmp(v->job, "shared") == 0 ? "one shared prompt of " : "prompts of ", (long long)v->prompt,
			(long long)v->gen, (long long)v->threads, v->threads == 1 ? "" : "s");
	const int width = shape_width(doc);
	printf("| %-*s | %-7s | %4s | %5s %-3s | %5s %-3s | %-18s | %-11s | %-22s |\n", width, "shape", "format",
			"rows", "ours", m->unit, "peer", m->unit, "ratio (min-max)", "target", "% of limit, ours/peer");
	printf("|%.*s|---------|-----:|----------:|----------:|--------------------|-------------|%.24s|\n", width + 2,
			rule, rule);
	for (size_t i = 0; i < n; i++)
		print_cell(list[i], m, width);
	mem_free(list);
}

/* What other programs did while the cells of a run were measured. The rounds of a group are in each of its cells, so
 * they count more than once, which moves a median little and a maximum not at all. */
static void print_others(const json_t *doc, size_t i_run)
{
	double all[ROUNDS_MAX], most = 0;
	size_t n = 0;

	for (size_t i = 0; i < n_items(doc, "cells"); i++) {
		const json_t *cell = item(doc, "cells", i);
		for (size_t j = 0; j < n_items(cell, "rounds") && (size_t)field(cell, "run") == i_run; j++)
			for (size_t k = 0; k < 2; k++) {
				const double x = json_number_value(item(item(cell, "rounds", j), "others", k));
				most = x > most ? x : most;
				if (n < ROUNDS_MAX)
					all[n++] = x;
			}
	}
	const double usual = peer_median(all, n);
	if (n > 0)
		printf("- other programs kept %.2f CPUs busy meanwhile (median of the runs), %.2f at most%s\n", usual,
				most, usual > OTHERS_QUIET ? ": not a quiet machine, even ratios say little" : "");
}

static void print_run(const json_t *doc, const json_t *run, size_t i, size_t n_runs)
{
	const json_t *m = json_object_get(run, "machine");

	if (n_runs > 1)
		printf("- run %zu of %zu, %s\n", i + 1, n_runs, cell_text(run, "started"));
	printf("- machine: %s, %.0f CPUs, Linux %s; load %.2f before, %.2f after%s\n", cell_text(m, "cpu"),
			field(m, "cores"), cell_text(m, "kernel"),
			field(m, "load_before"), field(m, "load_after"),
			json_is_true(json_object_get(run, "complete")) ? "" : "; the run is incomplete");
	print_others(doc, i);
	printf("- ours: %s, %s, compiled by %s\n", cell_text(json_object_get(run, "ours"), "version"),
			cell_text(json_object_get(run, "ours"), "commit"), cell_text(m, "compiler"));
	printf("- peer: %s\n", cell_text(json_object_get(run, "peer"), "version"));
	printf("- tokens: %s\n", cell_text(run, "tokens"));
	printf("- rounds: %.0f, order %s\n", field(run, "rounds"), cell_text(run, "order"));
	for (size_t j = 0; j < n_items(m, "limits"); j++) {
		const json_t *l = item(m, "limits", j);
		printf("- %.0f thread%s: f32 FMA %.1f GMAC/s, memory read %.1f GB/s\n", field(l, "threads"),
				field(l, "threads") > 1 ? "s" : "", field(l, "fma_gmacs"), field(l, "read_gb_s"));
	}
}

static void print_models(const json_t *doc)
{
	const int width = shape_width(doc);

	printf("\n| %-*s | format  | file MB | MMAC/token | of these, output | MB read/step | ", width, "model");
	puts("GMAC/s a core by format, where the FMA probe gives 50 |");
	printf("|%.*s|---------|--------:|-----------:|-----------------:|-------------:|---|\n", width + 2, rule);
	for (size_t i = 0; i < n_items(doc, "models"); i++) {
		const json_t *m = item(doc, "models", i);
		printf("| %-*s | %-7s | %7.1f | %10.1f | %16.1f | %12.1f |", width, cell_text(m, "shape"),
				cell_text(m, "format"), field(m, "file_bytes") * 1e-6,
				field(m, "macs_per_token") * 1e-6, field(m, "macs_output") * 1e-6,
				field(m, "bytes_per_step") * 1e-6);
		for (size_t j = 0; j < n_items(m, "formats"); j++) {
			const json_t *p = item(m, "formats", j);
			printf("%s%s %.0f (%.0f %% of MAC)", j ? ", " : " ", cell_text(p, "format"), field(p, "gmacs"),
					100 * field(p, "share"));
		}
		puts(" |");
	}
	puts("");
	for (size_t i = 0; i < n_items(doc, "models"); i++) {
		const json_t *m = item(doc, "models", i);
		printf("- %s: %s `%s`\n", cell_text(m, "file"), cell_text(m, "origin"), cell_text(m, "made_by"));
	}
}

void report_print(const json_t *doc)
{
	const json_t *runs = json_object_get(doc, "runs");
	struct view views[VIEWS_MAX];
	const size_t n = view_list(doc, false, views, VIEWS_MAX);

	for (size_t i = 0; i < json_array_size(runs); i++)
		print_run(doc, json_array_get(runs, i), i, json_array_size(runs));
	print_models(doc);
	for (size_t m = 0; m < N_MEASURES; m++)
		for (size_t i = 0; i < n; i++)
			if (measures[m].time == (strcmp(views[i].job, "shared") == 0))
				print_view(doc, &views[i], &measures[m]);
	puts("\nRatios above 1: ours is faster. Figures are medians, spreads are of the ratios within single rounds.\n"
	     "% of limit: the time that matrix products take at least (instructions, or reading the weights from\n"
	     "memory) over the time measured; attention and the rest count as nothing. The peer's clock leaves out\n"
	     "copying the cache of a shared prompt, ours has it in.");
}
