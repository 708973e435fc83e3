/* What a ubatch costs: measured points, and straight lines between them.
 *
 * What holds:
 *  1. On the points it is what was measured; between four of them bilinear. Beyond the last point of an axis the cost
 *     goes on with the slope of the last stretch there, at the nearest row count of the other axis that was measured.
 *  2. Slopes beyond the points are never below 0: noise between two points must not make a large batch cheap. So no
 *     cost is below 0 when no point is.
 *  3. Both axes begin with 0 and 1, so that the corner of 0 rows, which nobody can measure, is used by no one. */
#include "common.h"
#include "sim.h"

#include "base/err.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"

#include <math.h>
#include <string.h>

enum { FILE_MAX = 1 << 20, ROWS_MAX = 1 << 20 };

/* ---- The function ---- */

/* The stretch [k[i], k[i + 1]] that v lies in, or the last one. */
static int32_t stretch(const int32_t *k, int32_t n, int32_t v)
{
	int32_t i = 0;

	while (i + 2 < n && v >= k[i + 1])
		i++;
	return i;
}

static double mix(double a, double b, double f)
{
	return a + (b - a) * f;
}

/* Within the points. */
static double inside(const struct sim_cost *c, int32_t p, int32_t d)
{
	const int32_t i = stretch(c->prefill, c->n_prefill, p), j = stretch(c->decode, c->n_decode, d);
	const double fp = (double)(p - c->prefill[i]) / (c->prefill[i + 1] - c->prefill[i]);
	const double fd = (double)(d - c->decode[j]) / (c->decode[j + 1] - c->decode[j]);

	return mix(mix(c->s[i][j], c->s[i][j + 1], fd), mix(c->s[i + 1][j], c->s[i + 1][j + 1], fd), fp);
}

static double rise(double from, double to, int32_t rows)
{
	return to > from ? (to - from) / rows : 0;
}

double sim_cost_s(void *cost, int32_t n_prefill, int32_t n_decode)
{
	const struct sim_cost *c = cost;
	const int32_t p_last = c->prefill[c->n_prefill - 1], p_before = c->prefill[c->n_prefill - 2];
	const int32_t d_last = c->decode[c->n_decode - 1], d_before = c->decode[c->n_decode - 2];
	const int32_t p = n_prefill < p_last ? n_prefill : p_last, d = n_decode < d_last ? n_decode : d_last;
	double s = inside(c, p, d);

	if (n_prefill > p)
		s += rise(inside(c, p_before, d), inside(c, p_last, d), p_last - p_before) * (n_prefill - p);
	if (n_decode > d)
		s += rise(inside(c, p, d_before), inside(c, p, d_last), d_last - d_before) * (n_decode - d);
	return s;
}

/* ---- Files ---- */

static json_t *list_json(const int32_t *v, int32_t n)
{
	json_t *a = json_array();

	for (int32_t i = 0; i < n && a; i++)
		if (json_array_append_new(a, json_integer(v[i]))) {
			json_decref(a);
			a = NULL;
		}
	return a;
}

json_t *sim_cost_json(const struct sim_cost *c)
{
	json_t *ms = json_array();
	char *about = printable(c->about);
	int bad = ms && about ? 0 : -1;

	for (int32_t i = 0; i < c->n_prefill && !bad; i++) {
		json_t *row = json_array();
		for (int32_t j = 0; j < c->n_decode; j++)
			bad |= json_array_append_new(row, json_real(c->s[i][j] * 1e3));
		bad |= json_array_append_new(ms, row);
	}
	json_t *o = !bad ? json_pack("{s:i, s:s, s:o, s:o, s:o}", "cohort_cost", 1, "about", about, "prefill_rows",
					   list_json(c->prefill, c->n_prefill), "decode_rows",
					   list_json(c->decode, c->n_decode), "ms", ms)
			 : NULL;
	if (bad)
		json_decref(ms);
	mem_free(about);
	return o;
}

int sim_cost_save(const char *path, const struct sim_cost *c)
{
	json_t *o = sim_cost_json(c);
	char *text = o ? json_dumps(o, JSON_INDENT(2) | JSON_REAL_PRECISION(6)) : NULL;
	int rc = text ? sim_write(path, text, strlen(text)) : out_of_memory(sim_prog);

	mem_free(text);
	json_decref(o);
	return rc;
}

static bool read_rows(const json_t *a, int32_t *out, int32_t *n)
{
	*n = (int32_t)json_array_size(a);
	if (json_array_size(a) < 2 || json_array_size(a) > SIM_GRID_MAX)
		return false;
	for (int32_t i = 0; i < *n; i++) {
		const json_t *v = json_array_get(a, (size_t)i);
		const json_int_t k = json_integer_value(v);
		if (!json_is_integer(v) || k > ROWS_MAX || (i < 2 ? k != i : k <= out[i - 1]))
			return false;
		out[i] = (int32_t)k;
	}
	return true;
}

static const char *read_ms(const json_t *ms, struct sim_cost *c)
{
	if (json_array_size(ms) != (size_t)c->n_prefill)
		return "'ms' must have as many lists as there are prefill_rows";
	for (int32_t i = 0; i < c->n_prefill; i++) {
		const json_t *row = json_array_get(ms, (size_t)i);
		if (json_array_size(row) != (size_t)c->n_decode)
			return "every list of 'ms' must have as many numbers as there are decode_rows";
		for (int32_t j = 0; j < c->n_decode; j++) {
			const json_t *v = json_array_get(row, (size_t)j);
			c->s[i][j] = json_number_value(v) * 1e-3;
			if (!json_is_number(v) || !(c->s[i][j] >= 0 && c->s[i][j] < 1e9))
				return "'ms' must be numbers not below 0";
		}
	}
	return NULL;
}

static const char *read_cost(const json_t *o, struct sim_cost *c)
{
	const char *about = json_string_value(json_object_get(o, "about"));

	if (json_integer_value(json_object_get(o, "cohort_cost")) != 1)
		return "this is no file of costs (cohort_cost: 1)";
	if (!read_rows(json_object_get(o, "prefill_rows"), c->prefill, &c->n_prefill) ||
			!read_rows(json_object_get(o, "decode_rows"), c->decode, &c->n_decode))
		return "prefill_rows and decode_rows must be 2 to 16 whole numbers that begin with 0, 1 and rise";
	snprintf(c->about, sizeof c->about, "%s", about ? about : "");
	return read_ms(json_object_get(o, "ms"), c);
}

/* What somebody wrote there stands on a line of the terminal, and may have been cut within a character. */
static int tidy_about(struct sim_cost *c)
{
	char *shown = printable(c->about);

	if (!shown)
		return out_of_memory(sim_prog);
	snprintf(c->about, sizeof c->about, "%s", shown);
	mem_free(shown);
	return 0;
}

int sim_cost_load(const char *path, struct sim_cost *c)
{
	struct cohort_err err;
	json_error_t bad;
	uint8_t *bytes = NULL;
	size_t n = 0;
	bool no_memory;

	if (file_load(path, FILE_MAX, &bytes, &n, &err)) {
		fprintf(stderr, "%s: %s\n", sim_prog, err.text);
		return err.status == COHORT_E_MEMORY ? EXIT_RUN : EXIT_FILE;
	}
	json_t *o = json_parse((const char *)bytes, n, 0, &bad, &no_memory);
	mem_free(bytes);
	if (no_memory)
		return out_of_memory(sim_prog);
	if (!o) {
		char *shown = printable(bad.text); /* it quotes the file */
		if (!shown)
			return out_of_memory(sim_prog);
		fprintf(stderr, "%s: %s:%d: column %d: %s\n", sim_prog, path, bad.line, bad.column, shown);
		mem_free(shown);
		return EXIT_FILE;
	}
	const char *why = read_cost(o, c);
	json_decref(o);
	if (why) {
		fprintf(stderr, "%s: %s: %s\n", sim_prog, path, why);
		return EXIT_FILE;
	}
	return tidy_about(c);
}
