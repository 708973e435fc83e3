/* cohort bench beside an existing llama-batched-bench: the same model files, sizes, threads and cache type, in turns.
 *
 * What holds:
 *  1. A round of a group (a model and a job) is one run of each contender over the same list of rows; who goes first
 *     alternates from round to round, so that a slow minute of the machine falls on both.
 *  2. Both read the same file. A model is made by `cohort synth` if its file is missing, and never changed.
 *  3. What is kept are the contenders' own measurements, one JSON line per cell and run, unchanged; medians and ratios
 *     follow from them (peer_report.c). A line is taken for the cell whose PP, TG and B it names, and for no other.
 *  4. Results are on disk after every group. Whatever ends the program, the rounds that were measured are written,
 *     and a run that did not come to its end says so.
 *  5. A contender that fails ends its group; if it never succeeded before, the whole run: the next would fail alike.
 *
 * It knows nothing about how a contender measures: what their clocks and tokens have in common it says in words. */
#include "peer.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/pool.h"
#include "common.h"
#include "limits.h"
#include "opt.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char prog[] = "bench_peer";
static const char doc_kind[] = "cohort bench peer 1";
static const char tokens_text[] =
		"random, drawn anew for every sequence, position and step by both programs; no prefix is reused, the "
		"cache is emptied between cells";

enum { LIST_MAX = 64, WORDS_MAX = 96, N_BATCH = 2048, N_UBATCH = 512, TOKENS_MAX = 1 << 20, ROWS_MAX = 65536 };
enum who { OURS, PEER };
static const char *const who_names[] = {"ours", "peer"};

struct config {
	const char *peer, *cohort, *model_dir, *model, *shapes, *formats, *rows, *out, *append, *target;
	const char *peer_args, *cohort_args, *peer_label;
	int64_t prompt, gen, rounds, threads, shared_prompt, shared_rows, shared_gen;
	bool no_probe;
};

struct names {
	char *v[LIST_MAX];
	size_t n;
};

struct model {
	const char *path, *label, *format;
	struct cost cost;
};

struct sample {
	double t_pp, speed_pp, t_tg, speed_tg, t;
	bool there;
};

/* One model and one job: all its cells go through every run together. */
struct group {
	const struct model *model;
	const char *job; /* "batch" or "shared" */
	int32_t rows[LIST_MAX], rows_most;
	size_t n_rows;
	int32_t prompt, gen;
	char *commands[2];
	struct sample *samples; /* [rounds, 2, n_rows] */
	double *others;         /* [rounds, 2]: CPUs that other programs kept busy meanwhile */
	int64_t n_rounds;       /* begun */
};

struct state {
	struct config c;
	struct names shapes, formats;
	int32_t rows[LIST_MAX], rows_most;
	size_t n_rows;
	char dir[4096];                   /* of this program: the build directory */
	char cohort[4200], model_dir[4200], out[4200], json_path[4300], svg_path[4300];
	json_t *doc, *run;                /* the run is the document's */
	int64_t i_run;
	struct machine_limits limits;
	bool worked[2];                   /* the contender has measured something */
	bool failed;
	double started;
};

/* ---- Words ---- */

static size_t word_bytes(const char *s, char sep)
{
	size_t n = 0;

	while (s[n] && s[n] != sep)
		n++;
	return n;
}

/* Words between separators. A shape goes on where the next word has a '=': "tinyllama-1.1b,n_layer=2". */
static bool split(const char *text, char sep, bool shapes, struct names *out)
{
	for (const char *p = text; *p;) {
		size_t n = word_bytes(p, sep);
		while (shapes && p[n] && memchr(p + n + 1, '=', word_bytes(p + n + 1, sep)))
			n += 1 + word_bytes(p + n + 1, sep);
		if (n > 0) {
			if (out->n == LIST_MAX || !(out->v[out->n] = mem_strndup(p, n)))
				return false;
			out->n++;
		}
		p += n + (p[n] != '\0');
	}
	return true;
}

static void names_release(struct names *n)
{
	for (size_t i = 0; i < n->n; i++)
		mem_free(n->v[i]);
	n->n = 0;
}

static int parse_rows(struct state *s)
{
	const char *p = s->c.rows;

	while (strcmp(s->c.rows, "none") != 0) {
		char *end;
		const long v = strtol(p, &end, 10);
		bool again = false;
		for (size_t i = 0; i < s->n_rows; i++)
			again = again || s->rows[i] == v;
		if (*p < '0' || *p > '9' || v < 1 || v > ROWS_MAX || (*end && *end != ',') || again ||
				s->n_rows == LIST_MAX)
			return bad_usage(prog,
					"-rows expects up to %d different numbers from 1 to %d, such as 1,2,4, or "
					"none, got '%s'",
					LIST_MAX, ROWS_MAX, s->c.rows);
		s->rows[s->n_rows++] = (int32_t)v;
		s->rows_most = v > s->rows_most ? (int32_t)v : s->rows_most;
		if (!*end)
			break;
		p = end + 1;
	}
	return 0;
}

/* ---- Targets: X, or [pp:|tg:|t:][FORMAT][/ROWS]=X; the last that fits a cell counts ---- */

static bool target_item(const char *item, json_t *cell)
{
	static const char *const keys[] = {"pp", "tg", "t"};
	const char *eq = strchr(item, '='), *p = item, *number = eq ? eq + 1 : item;
	char *end, format[64];
	const double v = strtod(number, &end);
	int only = -1;

	if (end == number || *end || !(v > 0 && v < 1e6))
		return false;
	for (int i = 0; eq && i < 3; i++)
		if (strncmp(p, keys[i], strlen(keys[i])) == 0 && p[strlen(keys[i])] == ':')
			only = i;
	if (only >= 0)
		p += strlen(keys[only]) + 1;
	const size_t n = eq ? strcspn(p, "/=") : 0;
	const long rows = eq && p[n] == '/' ? strtol(p + n + 1, &end, 10) : 0;
	if (n >= sizeof format || (eq && p[n] == '/' && (end != eq || rows < 1)))
		return false;
	memcpy(format, p, n);
	format[n] = '\0';
	if (!cell || (n && strcmp(format, cell_text(cell, "format")) != 0) ||
			(rows && rows != (long)field(cell, "rows")))
		return true;
	json_t *target = json_object_get(cell, "target");
	if (!target && json_object_set_new(cell, "target", target = json_object()))
		return false;
	for (int i = 0; i < 3; i++)
		if ((only < 0 || only == i) && json_object_set_new(target, keys[i], json_real(v)))
			return false;
	return true;
}

/* Sets the targets of a cell; with none, looks whether they can be read. */
static bool set_targets(const char *text, json_t *cell)
{
	struct names items = {.n = 0};
	bool ok = split(text, ',', false, &items) && items.n > 0;

	if (cell)
		json_object_del(cell, "target");
	for (size_t i = 0; ok && i < items.n; i++)
		ok = target_item(items.v[i], cell);
	names_release(&items);
	return ok;
}

/* ---- The document ---- */

static bool list_ok(const json_t *doc, const char *key)
{
	for (size_t i = 0; i < n_items(doc, key); i++)
		if (!json_is_object(item(doc, key, i)))
			return false;
	return json_is_array(json_object_get(doc, key));
}

static int open_doc(struct state *s)
{
	json_error_t error;

	if (!s->c.append) {
		s->doc = json_pack("{s:s, s:[], s:[], s:[]}", "kind", doc_kind, "runs", "models", "cells");
		return s->doc ? 0 : out_of_memory(prog);
	}
	s->doc = json_load_file(s->c.append, 0, &error);
	if (!s->doc) {
		fprintf(stderr, "%s: --append %s: %s\n", prog, s->c.append, error.text);
		return EXIT_FILE;
	}
	if (strcmp(cell_text(s->doc, "kind"), doc_kind) != 0 || !list_ok(s->doc, "runs") ||
			!list_ok(s->doc, "models") || !list_ok(s->doc, "cells")) {
		fprintf(stderr, "%s: --append %s: not a result of this program (\"kind\" is not \"%s\", or a list is "
				"missing)\n", prog, s->c.append, doc_kind);
		return EXIT_FILE;
	}
	return 0;
}

static int write_file(const char *path, char *bytes, size_t n_bytes)
{
	struct cohort_err err;

	if (!bytes)
		return out_of_memory(prog);
	const enum cohort_status st = file_write_atomic(path, bytes, n_bytes, &err);
	free(bytes);
	if (!st)
		return 0;
	fprintf(stderr, "%s: %s\n", prog, err.text);
	return EXIT_FILE;
}

static int write_doc(struct state *s)
{
	char *text = json_dumps(s->doc, JSON_INDENT(1) | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(9));
	int rc = write_file(s->json_path, text, text ? strlen(text) : 0);
	size_t n_bytes = 0;

	if (rc)
		return rc;
	char *svg = svg_make(s->doc, &n_bytes);
	return write_file(s->svg_path, svg, n_bytes);
}

/* ---- The run ---- */

static int begin_run(struct state *s)
{
	char now[64] = "";
	const time_t t = time(NULL);
	struct tm tm;
	json_t *runs = json_object_get(s->doc, "runs");

	if (gmtime_r(&t, &tm))
		strftime(now, sizeof now, "%Y-%m-%dT%H:%M:%SZ", &tm);
	progress_line(s->started, "probing the machine");
	s->run = json_pack("{s:s, s:b, s:s, s:s, s:I, s:i, s:i, s:s, s:o, s:o, s:o}", "started", now, "complete", 0,
			"tokens", tokens_text, "order", "ours peer, peer ours, ours peer, ...", "rounds",
			(json_int_t)s->c.rounds, "n_batch", N_BATCH, "n_ubatch", N_UBATCH, "kv_type", "f16", "machine",
			facts_machine((size_t)s->c.threads, !s->c.no_probe, &s->limits), "ours",
			facts_ours(s->cohort, s->dir), "peer", facts_peer(s->c.peer, s->c.peer_label));
	s->limits.n_ubatch = N_UBATCH;
	s->i_run = (int64_t)json_array_size(runs);
	return s->run && !json_array_append_new(runs, s->run) ? 0 : out_of_memory(prog);
}

/* ---- One run of one contender ---- */

struct words {
	const char *v[WORDS_MAX + 1];
	int n;
	char numbers[5][32], rows[LIST_MAX * 8];
	struct names extra;
};

static void add(struct words *w, const char *a, const char *b)
{
	if (w->n + 2 > WORDS_MAX)
		return;
	w->v[w->n++] = a;
	if (b)
		w->v[w->n++] = b;
	w->v[w->n] = NULL;
}

static const char *number(struct words *w, int i, int64_t v)
{
	snprintf(w->numbers[i], sizeof w->numbers[i], "%" PRId64, v);
	return w->numbers[i];
}

/* The peer divides its cache among the sequences and pads each share to 256; the library sizes its own. */
static bool make_words(const struct state *s, const struct group *g, enum who who, struct words *w)
{
	const int64_t share = ((int64_t)g->prompt + g->gen + 255) / 256 * 256;
	size_t n = 0;

	*w = (struct words){.n = 0};
	for (size_t i = 0; i < g->n_rows; i++)
		n += (size_t)snprintf(w->rows + n, sizeof w->rows - n, "%s%d", i ? "," : "", g->rows[i]);
	add(w, who == OURS ? s->cohort : s->c.peer, who == OURS ? "bench" : NULL);
	add(w, "-m", g->model->path);
	if (who == PEER)
		add(w, "-c", number(w, 0, share * g->rows_most));
	add(w, "-b", "2048");
	add(w, "-ub", "512");
	add(w, "-npp", number(w, 1, g->prompt));
	add(w, "-ntg", number(w, 2, g->gen));
	add(w, "-npl", w->rows);
	if (strcmp(g->job, "shared") == 0)
		add(w, "-pps", NULL);
	add(w, "-t", number(w, 3, s->c.threads));
	if (who == PEER) {
		add(w, "-ctk", "f16");
		add(w, "-ctv", "f16");
		add(w, "-ngl", "0");
	} else {
		add(w, "--kv-type", "f16");
	}
	add(w, "--output-format", "jsonl");
	if (!split(who == OURS ? s->c.cohort_args : s->c.peer_args, ' ', false, &w->extra))
		return false;
	for (size_t i = 0; i < w->extra.n; i++)
		add(w, w->extra.v[i], NULL);
	return true;
}

static struct sample *sample_at(const struct group *g, int64_t round, enum who who, size_t i_row)
{
	return &g->samples[((size_t)round * 2 + who) * g->n_rows + i_row];
}

/* The samples of one line; false if it is not the line of a cell of this group. */
static bool take_line(const struct group *g, int64_t round, enum who who, const char *line, size_t n)
{
	json_t *o = json_loadb(line, n, 0, NULL);
	bool ok = false;

	for (size_t i = 0; o && i < g->n_rows; i++) {
		const struct sample v = {
			field(o, "t_pp"), field(o, "speed_pp"),
			field(o, "t_tg"), field(o, "speed_tg"),
			field(o, "t"), true,
		};
		if ((int64_t)field(o, "pl") != g->rows[i] ||
				(int64_t)field(o, "pp") != g->prompt ||
				(int64_t)field(o, "tg") != g->gen || v.t <= 0)
			continue;
		*sample_at(g, round, who, i) = v;
		ok = true;
	}
	json_decref(o);
	return ok;
}

/* Whether the run measured every cell; text says what is wrong. */
static bool take_output(
		const struct group *g, int64_t round, enum who who, const struct child *c, char *text, size_t n_max)
{
	size_t n_lines = 0;
	int32_t missing = 0;

	for (const char *p = c->out; *p;) {
		const size_t n = strcspn(p, "\n");
		n_lines += *p == '{' && take_line(g, round, who, p, n);
		p += n + (p[n] != '\0');
	}
	for (size_t i = 0; i < g->n_rows; i++)
		if (!sample_at(g, round, who, i)->there)
			missing = g->rows[i];
	if (!child_ok(c))
		child_say(c, text, n_max);
	else if (n_lines == 0)
		snprintf(text, n_max, "it printed no JSON line with pp, tg, pl and t (is it a llama-batched-bench that "
				      "knows --output-format jsonl?)");
	else if (missing)
		snprintf(text, n_max, "it printed no line for %d rows", missing);
	else
		return true;
	return false;
}

/* 0, or the code to end with. A failure that ends only the group sets *over. */
static int run_one(struct state *s, struct group *g, int64_t round, enum who who, bool *over)
{
	struct words w;
	struct child c = {0};
	char text[640] = "";
	int rc = 0;

	progress_line(s->started, "%s %s, %s: round %" PRId64 " of %" PRId64 ", %s; %.0f s so far", g->model->label,
			g->model->format, g->job, round + 1, s->c.rounds, who_names[who], clock_now() - s->started);
	bool ok = make_words(s, g, who, &w);
	if (ok && !g->commands[who])
		ok = (g->commands[who] = command_line(w.n, w.v)) != NULL;
	ok = ok && child_run(w.v, &c);
	if (!ok) {
		rc = out_of_memory(prog);
		goto done;
	}
	g->others[2 * round + who] = c.others;
	if (!take_output(g, round, who, &c, text, sizeof text)) {
		*over = true;
		progress_end();
		if (!interrupted()) {
			s->failed = true;
			fprintf(stderr, "%s: %s failed on %s, round %" PRId64 ": %s\n%s: the command was: %s\n", prog,
					who == OURS ? "cohort bench" : "the peer", g->model->path, round + 1, text,
					prog, g->commands[who]);
			rc = s->worked[who] ? 0 : EXIT_RUN;
		}
	} else {
		s->worked[who] = true;
	}
done:
	child_release(&c);
	names_release(&w.extra);
	return interrupted() ? EXIT_INTERRUPTED : rc;
}

/* ---- Groups ---- */

static json_t *sample_json(const struct sample *v)
{
	if (!v->there)
		return json_null();
	return json_pack("{s:f, s:f, s:f, s:f, s:f}", "t_pp", v->t_pp, "speed_pp", v->speed_pp, "t_tg", v->t_tg,
			"speed_tg", v->speed_tg, "t", v->t);
}

static json_t *limit_json(double tokens, struct bound b, struct bound more)
{
	const double first = b.work > b.read ? b.work : b.read, second = more.work > more.read ? more.work : more.read;
	const double seconds = first + second;
	const bool memory = b.read + more.read > b.work + more.work;

	return json_pack("{s:f, s:s}", "value", seconds > 0 ? (tokens > 0 ? tokens / seconds : seconds) : 0, "bound",
			memory ? "memory" : "arithmetic");
}

static json_t *limits_json(const struct state *s, const struct group *g, int32_t rows)
{
	const bool shared = strcmp(g->job, "shared") == 0;
	const struct bound none = {0};
	const struct bound pp = cost_prompts(&g->model->cost, &s->limits, shared ? 1 : rows, g->prompt);
	const struct bound tg = cost_steps(&g->model->cost, &s->limits, rows, g->gen);

	return json_pack("{s:o, s:o, s:o}", "pp", limit_json((shared ? 1.0 : rows) * g->prompt, pp, none), "tg",
			limit_json((double)rows * g->gen, tg, none), "t", limit_json(0, pp, tg));
}

static json_t *rounds_json(const struct group *g, size_t i_row)
{
	json_t *list = json_array();
	int bad = !list;

	for (int64_t r = 0; r < g->n_rounds && !bad; r++) {
		const struct sample *a = sample_at(g, r, OURS, i_row), *b = sample_at(g, r, PEER, i_row);
		if (a->there || b->there)
			bad = json_array_append_new(list, json_pack("{s:I, s:s, s:o, s:o, s:[f, f]}", "round",
					(json_int_t)r + 1, "order", r % 2 ? "peer ours" : "ours peer", "ours",
					sample_json(a), "peer", sample_json(b), "others", g->others[2 * r],
					g->others[2 * r + 1]));
	}
	if (bad) {
		json_decref(list);
		return NULL;
	}
	return list;
}

/* The group's cells into the document; those that were not measured at all are left out. */
static int keep_cells(struct state *s, const struct group *g)
{
	for (size_t i = 0; i < g->n_rows; i++) {
		json_t *rounds = rounds_json(g, i);
		if (rounds && json_array_size(rounds) == 0) {
			json_decref(rounds);
			continue;
		}
		json_t *cell = json_pack("{s:I, s:s, s:o, s:o, s:i, s:i, s:i, s:I, s:{s:o, s:o}, s:o, s:o}", "run",
				(json_int_t)s->i_run, "job", g->job, "shape", text_json(g->model->label), "format",
				text_json(g->model->format), "rows", g->rows[i], "prompt", g->prompt, "gen", g->gen,
				"threads", (json_int_t)s->c.threads, "commands", "ours",
				text_json(g->commands[OURS] ? g->commands[OURS] : ""), "peer",
				text_json(g->commands[PEER] ? g->commands[PEER] : ""), "rounds", rounds, "limit",
				limits_json(s, g, g->rows[i]));
		if (!cell || cell_summarise(cell) || (s->c.target && !set_targets(s->c.target, cell)) ||
				doc_put(s->doc, "cells", cell))
			return out_of_memory(prog);
	}
	return 0;
}

static int run_group(struct state *s, struct group *g)
{
	bool over = false;
	int rc = 0;

	g->samples = mem_zalloc((size_t)s->c.rounds * 2 * g->n_rows, sizeof *g->samples);
	g->others = mem_zalloc((size_t)s->c.rounds * 2, sizeof *g->others);
	if (!g->samples || !g->others) {
		mem_free(g->samples);
		mem_free(g->others);
		return out_of_memory(prog);
	}
	for (int64_t r = 0; r < s->c.rounds && !rc && !over; r++) {
		const enum who first = r % 2 ? PEER : OURS;
		g->n_rounds = r + 1;
		rc = run_one(s, g, r, first, &over);
		if (!rc && !over)
			rc = run_one(s, g, r, first == OURS ? PEER : OURS, &over);
	}
	const int kept = keep_cells(s, g);
	const int written = kept ? kept : write_doc(s);
	for (int w = 0; w < 2; w++)
		mem_free(g->commands[w]);
	mem_free(g->samples);
	mem_free(g->others);
	return rc ? rc : written;
}

static int measure_model(struct state *s, const struct model *m)
{
	struct group batch = {.model = m, .job = "batch", .rows_most = s->rows_most, .n_rows = s->n_rows,
		.prompt = (int32_t)s->c.prompt, .gen = (int32_t)s->c.gen};
	struct group shared = {.model = m, .job = "shared", .rows = {(int32_t)s->c.shared_rows},
		.rows_most = (int32_t)s->c.shared_rows, .n_rows = 1, .prompt = (int32_t)s->c.shared_prompt,
		.gen = (int32_t)s->c.shared_gen};
	int rc = 0;

	memcpy(batch.rows, s->rows, sizeof batch.rows);
	if (batch.n_rows > 0)
		rc = run_group(s, &batch);
	if (!rc && shared.prompt > 0)
		rc = run_group(s, &shared);
	return rc;
}

/* ---- Models ---- */

static int keep_model(struct state *s, struct model *m, const char *origin, const char *made_by)
{
	const struct cost *c = &m->cost;
	json_t *parts = json_array();
	char text[512];

	if (!cost_read(m->path, &m->cost, text, sizeof text)) {
		fprintf(stderr, "%s: %s\n", prog, text);
		json_decref(parts);
		return EXIT_MODEL;
	}
	for (size_t i = 0; i < c->n_parts; i++)
		json_array_append_new(parts, json_pack("{s:s, s:f, s:f}", "format", c->parts[i].name, "gmacs",
				limit_gmacs(c->parts[i].type, N_UBATCH, limit_has_vnni()), "share",
				(c->parts[i].macs + c->parts[i].out_macs) / (c->macs + c->out_macs)));
	json_t *o = json_pack("{s:o, s:o, s:o, s:I, s:s, s:o, s:f, s:f, s:f, s:o}", "shape", text_json(m->label),
			"format", text_json(m->format), "file", text_json(m->path), "file_bytes",
			(json_int_t)c->file_bytes, "origin", origin, "made_by", text_json(made_by), "macs_per_token",
			c->macs + c->out_macs, "macs_output", c->out_macs, "bytes_per_step", c->bytes + c->out_bytes,
			"formats", parts);
	return o && !doc_put(s->doc, "models", o) ? 0 : out_of_memory(prog);
}

/* Makes the file if it is missing, then measures. */
static int synth_model(struct state *s, const char *shape, const char *format)
{
	char path[4600], name[256];
	const char *const argv[] = {s->cohort, "synth", "-s", shape, "-t", format, "-o", path, NULL};
	struct model m = {.path = path, .label = shape, .format = format};
	struct child c = {0};
	int rc = 0;

	snprintf(name, sizeof name, "%.160s-%.60s", shape, format);
	for (char *p = name; *p; p++)
		if (!strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-", *p))
			*p = '_';
	snprintf(path, sizeof path, "%s/%s.gguf", s->model_dir, name);
	const bool there = access(path, F_OK) == 0;
	char *command = command_line(8, argv);
	if (!command)
		return out_of_memory(prog);
	if (!there) {
		char text[640];
		progress_line(s->started, "making %s", path);
		if (!child_run(argv, &c)) {
			rc = out_of_memory(prog);
		} else if (!child_ok(&c) && !interrupted()) {
			child_say(&c, text, sizeof text);
			progress_end();
			fprintf(stderr, "%s: cannot make the model %s: %s\n%s: the command was: %s\n", prog, path, text,
					prog, command);
			rc = EXIT_MODEL;
		}
		child_release(&c);
	}
	if (interrupted())
		rc = EXIT_INTERRUPTED;
	if (!rc)
		rc = keep_model(s, &m, there ? "was there; made by" : "made by", command);
	mem_free(command);
	return rc ? rc : measure_model(s, &m);
}

static int given_model(struct state *s)
{
	const char *slash = strrchr(s->c.model, '/');
	struct model m = {.path = s->c.model, .label = slash ? slash + 1 : s->c.model, .format = "file"};
	const int rc = keep_model(s, &m, "given", s->c.model);

	return rc ? rc : measure_model(s, &m);
}

static int measure_all(struct state *s)
{
	int rc = begin_run(s);

	if (!rc && s->c.model)
		return given_model(s);
	for (size_t i = 0; i < s->shapes.n && !rc; i++)
		for (size_t j = 0; j < s->formats.n && !rc; j++)
			rc = synth_model(s, s->shapes.v[i], s->formats.v[j]);
	return rc;
}

static void finish_run(struct state *s, bool complete)
{
	if (!s->run)
		return;
	json_object_set_new(json_object_get(s->run, "machine"), "load_after", json_real(facts_load()));
	json_object_set_new(s->run, "complete", json_boolean(complete));
}

/* ---- The program ---- */

static int make_dir(const char *path)
{
	char part[4300];

	snprintf(part, sizeof part, "%s", path);
	for (char *p = part + 1; *p; p++)
		if (*p == '/') {
			*p = '\0';
			mkdir(part, 0777);
			*p = '/';
		}
	if (mkdir(part, 0777) && errno != EEXIST) {
		fprintf(stderr, "%s: cannot make the directory %s: %s\n", prog, path, strerror(errno));
		return EXIT_FILE;
	}
	return 0;
}

static int can_run(const char *what, const char *path)
{
	struct stat st;

	if (stat(path, &st))
		fprintf(stderr, "%s: %s %s: %s\n", prog, what, path, strerror(errno));
	else if (!S_ISREG(st.st_mode))
		fprintf(stderr, "%s: %s %s: not a file\n", prog, what, path);
	else if (access(path, X_OK))
		fprintf(stderr, "%s: %s %s: not executable (%s)\n", prog, what, path, strerror(errno));
	else
		return 0;
	return EXIT_FILE;
}

static int prepare(struct state *s)
{
	const struct config *c = &s->c;
	ssize_t n = readlink("/proc/self/exe", s->dir, sizeof s->dir - 1);
	int rc = parse_rows(s);

	s->dir[n > 0 ? n : 0] = '\0';
	char *slash = strrchr(s->dir, '/');
	snprintf(slash ? slash : s->dir, 2, "%s", slash ? "" : ".");
	if (rc)
		return rc;
	if (!c->peer && !c->append)
		return bad_usage(prog, "--peer PATH is missing: the llama-batched-bench to compare with");
	if (c->peer && s->n_rows == 0 && c->shared_prompt == 0)
		return bad_usage(prog, "with -rows none and -shared-prompt 0 there is nothing to measure");
	if (c->target && !set_targets(c->target, NULL))
		return bad_usage(prog, "-target expects ratios such as 1.5 or tg:Q4_0=2,Q8_0/32=1.8,t:=3, got '%s'",
				c->target);
	if (!split(c->shapes, ',', true, &s->shapes) || !split(c->formats, ',', false, &s->formats))
		return bad_usage(prog, "too many shapes or formats: the most is %d", LIST_MAX);
	if (s->shapes.n == 0 || s->formats.n == 0)
		return bad_usage(prog, "-shapes and -formats need at least one name");
	snprintf(s->cohort, sizeof s->cohort, "%s%s", c->cohort ? c->cohort : s->dir, c->cohort ? "" : "/cohort");
	snprintf(s->model_dir, sizeof s->model_dir, "%s%s", c->model_dir ? c->model_dir : s->dir,
			c->model_dir ? "" : "/bench-models");
	snprintf(s->out, sizeof s->out, "%s%s", c->out ? c->out : s->dir, c->out ? "" : "/bench-peer");
	snprintf(s->json_path, sizeof s->json_path, "%s/peer.json", s->out);
	snprintf(s->svg_path, sizeof s->svg_path, "%s/peer.svg", s->out);
	if (c->peer)
		rc = can_run("--peer", c->peer);
	if (!rc && c->peer)
		rc = can_run("cohort", s->cohort);
	if (!rc && c->peer && !c->model)
		rc = make_dir(s->model_dir);
	if (!rc)
		rc = open_doc(s);
	return rc ? rc : make_dir(s->out);
}

static int run(struct state *s)
{
	int rc = prepare(s);

	if (rc)
		return rc;
	start_signals();
	catch_signals();
	for (size_t i = 0; s->c.target && i < n_items(s->doc, "cells"); i++)
		set_targets(s->c.target, item(s->doc, "cells", i));
	if (s->c.peer) {
		rc = measure_all(s);
		finish_run(s, !rc && !s->failed);
	}
	const int written = write_doc(s);
	progress_end();
	report_print(s->doc);
	if (!written)
		printf("\nwritten: %s, %s\n", s->json_path, s->svg_path);
	if (rc == EXIT_INTERRUPTED)
		fprintf(stderr, "%s: interrupted; what was measured until then is above and in %s\n", prog,
				s->json_path);
	const int out = close_stdout(prog);
	return rc ? rc : written ? written : out ? out : s->failed ? EXIT_RUN : 0;
}

static int parse(struct config *c, int argc, char **argv)
{
	const struct opt opts[] = {
			{"peer", NULL, OPT_STR, &c->peer, 0, 0, "PATH", "the llama-batched-bench to compare with",
					NULL},
			{"shapes", NULL, OPT_STR, &c->shapes, 0, 0, "LIST",
					"of cohort synth (default: smol-135m,tinyllama-1.1b); NAME,n_layer=2 is one",
					NULL},
			{"formats", NULL, OPT_STR, &c->formats, 0, 0, "LIST", "(default: Q4_0,Q4_K_M,Q8_0,F16)", NULL},
			{"model", "m", OPT_STR, &c->model, 0, 0, "FILE", "measure this GGUF file, no random ones",
					NULL},
			{"rows", NULL, OPT_STR, &c->rows, 0, 0, "LIST",
					"sequences together (default: 1,2,3,4,5,7,8,16,32), or none", NULL},
			{"prompt", NULL, OPT_INT, &c->prompt, 1, TOKENS_MAX, "N",
					"prompt tokens of each (default: 128)", NULL},
			{"gen", NULL, OPT_INT, &c->gen, 1, TOKENS_MAX, "N", "then generated by each (default: 64)",
					NULL},
			{"shared-prompt", NULL, OPT_INT, &c->shared_prompt, 0, TOKENS_MAX, "N",
					"tokens of the job with one prompt for all (default: 512; 0: no such job)",
					NULL},
			{"shared-rows", NULL, OPT_INT, &c->shared_rows, 1, ROWS_MAX, "N",
					"its continuations (default: 32)", NULL},
			{"shared-gen", NULL, OPT_INT, &c->shared_gen, 1, TOKENS_MAX, "N",
					"tokens of each (default: 64)", NULL},
			{"rounds", "r", OPT_INT, &c->rounds, 1, 1000, "N", "runs of each contender (default: 5)", NULL},
			{"threads", "t", OPT_INT, &c->threads, 1, 256, "N", "of each contender (default: 2)", NULL},
			{"target", NULL, OPT_STR, &c->target, 0, 0, "LIST",
					"ratios to reach: 1.5, or [pp:|tg:|t:][FORMAT][/ROWS]=X; the last that fits",
					NULL},
			{"no-probe", NULL, OPT_FLAG, &c->no_probe, 0, 0, NULL,
					"do not measure the machine: no % of limit", NULL},
			{"append", NULL, OPT_STR, &c->append, 0, 0, "FILE",
					"go on from an earlier peer.json; the same cells are replaced", NULL},
			{"model-dir", NULL, OPT_STR, &c->model_dir, 0, 0, "DIR",
					"where the random models are kept (default: bench-models beside this program)",
					NULL},
			{"out", "o", OPT_STR, &c->out, 0, 0, "DIR",
					"for peer.json and peer.svg (default: bench-peer beside this program)", NULL},
			{"cohort", NULL, OPT_STR, &c->cohort, 0, 0, "PATH", "(default: the one beside this program)",
					NULL},
			{"peer-label", NULL, OPT_STR, &c->peer_label, 0, 0, "TEXT",
					"a name for a peer that prints none", NULL},
			{"peer-args", NULL, OPT_STR, &c->peer_args, 0, 0, "WORDS", "more options for the peer", NULL},
			{"cohort-args", NULL, OPT_STR, &c->cohort_args, 0, 0, "WORDS", "more options for cohort bench",
					NULL},
	};
	const struct opt_prog p = {
			prog,
			"--peer PATH [options]",
			"Runs cohort bench and an existing llama-batched-bench in turns on the same models and\n"
			"compares prefill, decode and a job with a shared prompt. Prints tables; writes peer.json,\n"
			"with every raw round, and peer.svg. Without --peer, --append FILE shows results again.",
			"  ./dev bench --peer ~/llama.cpp/build/bin/llama-batched-bench --formats Q4_0\n"
			"  ./dev bench --peer PATH --shapes smol-135m --rows 1,8 --append build/bench-peer/peer.json\n",
			opts,
			sizeof opts / sizeof *opts,
	};
	return opt_parse(&p, argc, argv, 1, NULL, 0, NULL);
}

int main(int argc, char **argv)
{
	static struct state s = {.c = {
					 .shapes = "smol-135m,tinyllama-1.1b",
					 .formats = "Q4_0,Q4_K_M,Q8_0,F16",
					 .rows = "1,2,3,4,5,7,8,16,32",
					 .peer_args = "",
					 .cohort_args = "",
					 .prompt = 128,
					 .gen = 64,
					 .rounds = 5,
					 .threads = 2,
					 .shared_prompt = 512,
					 .shared_rows = 32,
					 .shared_gen = 64,
				 }};
	int rc = parse(&s.c, argc, argv);
	if (rc)
		return rc - 1;
	s.started = clock_now();
	rc = run(&s);
	json_decref(s.doc);
	names_release(&s.shapes);
	names_release(&s.formats);
	return rc;
}
