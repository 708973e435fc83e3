/* Files of -output: which format, whether they can be written, and writing them.
 *
 * What holds:
 *  1. A file is made in memory, written beside its place and renamed when it is whole: whatever fails, its path holds
 *     what it held before.
 *  2. What can be known before anything is computed is said then: an unknown suffix, a directory that cannot be
 *     written, a file that the run reads itself.
 *  3. All formats get the same facts from one list, so that none can say less than another. */
#include "export_format.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/utf8.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const struct export_format *const formats[] = {
		&export_txt, &export_md, &export_json, &export_jsonl, &export_csv, &export_html};
enum { N_FORMATS = sizeof formats / sizeof *formats };

static bool is_stdout(const char *path)
{
	return strcmp(path, "-") == 0;
}

static const struct export_format *find(const char *name)
{
	for (size_t i = 0; i < N_FORMATS; i++)
		if (strcasecmp(name, formats[i]->suffix) == 0)
			return formats[i];
	return NULL;
}

/* The format of a file by its name; of standard output by -output-format. */
static const struct export_format *format_of(const struct export_opts *o, const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *dot = strrchr(name, '.');

	if (is_stdout(path))
		return o->format ? find(o->format) : NULL;
	return dot && dot > name ? find(dot + 1) : NULL;
}

bool export_knows(const char *path)
{
	const struct export_opts none = {.format = NULL};
	return format_of(&none, path) != NULL;
}

bool export_takes_stdout(const struct export_opts *o)
{
	for (size_t i = 0; i < o->files.n; i++)
		if (is_stdout(o->files.items[i]))
			return true;
	return false;
}

/* ---- Checks ---- */

static int check_formats(const struct job *j)
{
	const struct export_opts *o = &j->c.output;
	const char *prog = j->gen.prog;
	size_t n_stdout = 0;

	for (size_t i = 0; i < o->files.n; i++)
		n_stdout += is_stdout(o->files.items[i]);
	if (o->format && !find(o->format))
		return bad_usage(prog, "-output-format expects txt, md, json, jsonl, csv or html, got '%s'", o->format);
	if (o->format && n_stdout == 0)
		return bad_usage(prog, "-output-format is for -output -; files have their format by their suffix");
	if (n_stdout > 0 && !o->format)
		return bad_usage(prog, "-output - needs an -output-format: txt, md, json, jsonl, csv or html");
	if (n_stdout > 1)
		return bad_usage(prog, "-output - can be given once");
	if (n_stdout > 0 && j->c.compare)
		return bad_usage(prog, "-compare and -output - both want standard output; give -output a file");
	if (n_stdout > 0 && j->c.stream)
		return bad_usage(prog, "-stream and -output - both want standard output; give -output a file");
	for (size_t i = 0; i < o->files.n; i++)
		if (!format_of(o, o->files.items[i]))
			return bad_usage(prog,
					"-output '%s': the suffix says the format, and is one of "
					".txt .md .json .jsonl .csv .html",
					o->files.items[i]);
	return 0;
}

/* Nobody wants to lose prompts or a grammar to their own results. */
static int check_inputs(const struct job *j, const char *path)
{
	const char *inputs[] = {j->c.prompts_file, j->c.model, j->s.grammar_file, j->s.json_schema_file};

	for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
		if (inputs[i] && file_same(inputs[i], path))
			return bad_usage(j->gen.prog, "-output '%s' would replace a file that this run reads", path);
	return 0;
}

int export_check(const struct job *j)
{
	const struct opt_list *files = &j->c.output.files;
	int rc = check_formats(j);

	for (size_t i = 0; i < files->n && !rc; i++) {
		struct file_stream *probe = NULL;
		struct cohort_err err;
		if (is_stdout(files->items[i]))
			continue;
		rc = check_inputs(j, files->items[i]);
		if (!rc && file_stream_open(files->items[i], &probe, &err)) {
			fail(j->gen.prog, &err);
			rc = err.status == COHORT_E_MEMORY ? EXIT_RUN : EXIT_FILE;
		}
		file_stream_abort(probe);
	}
	return rc;
}

/* ---- Facts ---- */

static size_t sampling_facts(struct sampling *s, struct fact *f)
{
	struct opt opts[SAMPLING_OPTIONS];

	sampling_options(s, "", opts);
	for (size_t i = 0; i < SAMPLING_OPTIONS; i++) {
		f[i] = (struct fact){.group = "sampling", .name = opts[i].name};
		switch (opts[i].type) {
		case OPT_FLAG:
			f[i].type = FACT_BOOL;
			f[i].v.yes = *(const bool *)opts[i].value;
			break;
		case OPT_STR:
			f[i].v.text = *(const char **)opts[i].value;
			f[i].type = f[i].v.text ? FACT_TEXT : FACT_NONE;
			break;
		case OPT_INT:
			f[i].type = FACT_INT;
			f[i].v.i = *(const int64_t *)opts[i].value;
			break;
		case OPT_UINT64:
			f[i].type = FACT_UINT;
			f[i].v.u = *(const uint64_t *)opts[i].value;
			break;
		case OPT_FLOAT:
			f[i].type = FACT_REAL;
			f[i].v.real = *(const double *)opts[i].value;
			break;
		case OPT_LIST:
			f[i].type = FACT_LIST;
			f[i].v.list = opts[i].value;
			break;
		}
	}
	return SAMPLING_OPTIONS;
}

/* To a millionth: further digits of a time say nothing. */
static double rounded(double x)
{
	return round(x * 1e6) / 1e6;
}

/* s: a copy of the job's, as a table of options has pointers that may write. sequences: of an origin, or NULL. */
static size_t make_facts(const struct job *j, struct sampling *s, const char *sequences, struct fact *f)
{
	const struct gen *g = &j->gen;
	size_t n = 0, n_prompt = 0;

	for (size_t i = 0; i < j->n_prompts; i++)
		n_prompt += j->prompts[i].n_tokens;
	f[n++] = (struct fact){"model", "name", FACT_TEXT, {.text = j->info.name}};
	f[n++] = (struct fact){"model", "file", FACT_TEXT, {.text = j->c.model ? j->c.model : "(built in)"}};
	f[n++] = (struct fact){"model", "architecture", FACT_TEXT, {.text = j->info.arch}};
	f[n++] = (struct fact){"model", "parameters", FACT_UINT, {.u = j->info.n_params}};
	f[n++] = (struct fact){"model", "vocabulary", FACT_INT, {.i = j->info.n_vocab}};
	f[n++] = (struct fact){"run", "n-parallel", FACT_INT, {.i = j->c.n_parallel}};
	f[n++] = (struct fact){"run", "n-predict", FACT_INT, {.i = j->n_predict}};
	f[n++] = (struct fact){"run", "ctx", FACT_INT, {.i = j->c.n_ctx}};
	f[n++] = (struct fact){"run", "threads", FACT_INT, {.i = j->n_threads}};
	f[n++] = (struct fact){"run", "isa", FACT_TEXT, {.text = j->info.isa}};
	f[n++] = (struct fact){"run", "ignore-eos", FACT_BOOL, {.yes = j->c.ignore_eos}};
	if (sequences)
		f[n++] = (struct fact){"run", "sequences", FACT_TEXT, {.text = sequences}};
	n += sampling_facts(s, f + n);
	f[n++] = (struct fact){"statistics", "prompts", FACT_UINT, {.u = j->n_prompts}};
	f[n++] = (struct fact){"statistics", "prompt-tokens", FACT_UINT, {.u = n_prompt}};
	f[n++] = (struct fact){"statistics", "generated-tokens", FACT_UINT, {.u = g->n_generated}};
	f[n++] = (struct fact){"statistics", "prefill-seconds", FACT_REAL, {.real = rounded(g->prefill_s)}};
	f[n++] = (struct fact){"statistics", "generate-seconds", FACT_REAL, {.real = rounded(g->generate_s)}};
	const double tokens_s = gen_tokens_s(g, j->prompts, j->n_prompts);
	f[n++] = (struct fact){"statistics", "tokens-per-second", FACT_REAL,
			{.real = tokens_s > 0 ? rounded((double)g->n_generated / tokens_s) : 0}};
	return n;
}

/* ---- Values as text ---- */

void export_title(const struct report *e, char out[80])
{
	const struct job *j = e->j;
	int64_t n = 0;

	for (size_t k = 0; k < j->n_prompts; k++)
		n += j->prompts[k].n_texts;
	if (e->differs)
		snprintf(out, 80, "%" PRId64 " favourite%s", n, n == 1 ? "" : "s");
	else
		snprintf(out, 80, "%" PRId64 " continuation%s of %s", j->c.n_parallel, j->c.n_parallel == 1 ? "" : "s",
				j->n_prompts > 1 ? "each prompt" : "one prompt");
}

const char *export_finish(const struct gen_text *t)
{
	switch (t->finish) {
	case COHORT_FINISH_EOG:
	case COHORT_FINISH_STOP:
	case COHORT_FINISH_LENGTH:
	case COHORT_FINISH_ERROR: return cohort_finish_name(t->finish);
	default: return "interrupted";
	}
}

const char *export_real(char out[32], double x)
{
	*out = '\0';
	for (int digits = 6; isfinite(x) && digits <= 17; digits++) {
		snprintf(out, 32, "%.*g", digits, x);
		if (strtod(out, NULL) == x)
			break;
	}
	return out;
}

const char *export_float(char out[32], float x)
{
	*out = '\0';
	for (int digits = 5; isfinite(x) && digits <= 9; digits++) {
		snprintf(out, 32, "%.*g", digits, (double)x);
		if (strtof(out, NULL) == x)
			break;
	}
	return out;
}

void export_fact(struct sink *out, const struct fact *f)
{
	char number[32];

	switch (f->type) {
	case FACT_NONE: break;
	case FACT_TEXT: sink_text(out, f->v.text); break;
	case FACT_LIST:
		for (size_t i = 0; i < f->v.list->n; i++) {
			sink_text(out, i > 0 ? " " : "");
			sink_text(out, f->v.list->items[i]);
		}
		break;
	case FACT_REAL: sink_text(out, export_real(number, f->v.real)); break;
	case FACT_INT: sink_printf(out, "%" PRId64, f->v.i); break;
	case FACT_UINT: sink_printf(out, "%" PRIu64, f->v.u); break;
	case FACT_BOOL: sink_text(out, f->v.yes ? "true" : "false"); break;
	}
}

void export_tokens(struct sink *out, const cohort_token *tokens, size_t n)
{
	for (size_t i = 0; i < n; i++)
		sink_printf(out, i > 0 ? " %d" : "%d", tokens[i]);
}

void export_logprobs(struct sink *out, const struct gen_text *t)
{
	char number[32];

	for (size_t i = 0; t->logprobs && i < t->n_tokens; i++) {
		sink_text(out, i > 0 ? " " : "");
		sink_text(out, isfinite(t->logprobs[i]) ? export_float(number, t->logprobs[i]) : "-inf");
	}
}

void export_readable(struct sink *out, const char *s, size_t n, void (*put)(struct sink *out, const char *c, size_t n))
{
	for (size_t at = 0, len; at < n; at += len ? len : 1) {
		uint32_t cp = 0xfffd;
		char shown[16];
		len = utf8_decode(s + at, n - at, &cp);
		if (len > 0 && (cp >= 0xa0 || (cp >= 32 && cp < 127) || cp == '\t' || cp == '\n') &&
				!(cp >= 0x202a && cp <= 0x202e) && !(cp >= 0x2066 && cp <= 0x2069) &&
				(cp & 0xfffe) != 0xfffe && !(cp >= 0xfdd0 && cp <= 0xfdef)) {
			put(out, s + at, len);
		} else if (len > 0 && (cp < 32 || cp == 127)) {
			put(out, shown, utf8_encode(cp == 127 ? 0x2421 : 0x2400 + cp, shown));
		} else if (len > 0) {
			put(out, shown, (size_t)snprintf(shown, sizeof shown, "[U+%04X]", (unsigned)cp));
		} else {
			put(out, "\xef\xbf\xbd", 3);
		}
	}
}

/* ---- Writing ---- */

static int put_in_place(const struct job *j, const char *path, const struct sink *out)
{
	struct cohort_err err;

	if (out->failed)
		return out_of_memory(j->gen.prog);
	if (is_stdout(path)) {
		fwrite(out->bytes, 1, out->n, stdout); /* whoever flushes it says what went wrong */
		return 0;
	}
	if (file_write_atomic(path, out->bytes, out->n, &err) == COHORT_OK)
		return 0;
	fail(j->gen.prog, &err);
	return err.status == COHORT_E_MEMORY ? EXIT_RUN : EXIT_FILE;
}

/* What all formats are given. */
struct material {
	const struct job *j;
	bool interrupted;
	struct sampling sampling;     /* copies that facts point into: of j */
	struct sampling *samplings;   /* [n_prompts] of origins, or NULL */
	struct fact facts[FACTS_MAX];
	size_t n_facts;
	struct fact *own;             /* [n_prompts, FACTS_MAX], or NULL */
	bool differs[FACTS_MAX], usual[FACTS_MAX];
};

static bool same_fact(const struct fact *a, const struct fact *b)
{
	if (a->type != b->type)
		return false;
	switch (a->type) {
	case FACT_NONE: return true;
	case FACT_TEXT: return strcmp(a->v.text, b->v.text) == 0;
	case FACT_LIST:
		for (size_t i = 0; i < a->v.list->n && i < b->v.list->n; i++)
			if (strcmp(a->v.list->items[i], b->v.list->items[i]) != 0)
				return false;
		return a->v.list->n == b->v.list->n;
	case FACT_REAL: return a->v.real == b->v.real;
	case FACT_INT: return a->v.i == b->v.i;
	case FACT_UINT: return a->v.u == b->v.u;
	case FACT_BOOL: return a->v.yes == b->v.yes;
	}
	return false;
}

/* The first two values of sampling that anybody asks for are never usual. */
static void note_usual(struct material *m)
{
	static const char *const wanted[] = {
			"name", "file", "n-predict", "sequences", "temperature", "seed", "prompts", "generated-tokens"};
	struct sampling s;
	struct fact usual[SAMPLING_OPTIONS];
	size_t k = 0;

	sampling_init(&s, BATCHED_TOP_P);
	sampling_facts(&s, usual);
	for (size_t i = 0; i < m->n_facts; i++) {
		const struct fact *f = &m->facts[i];
		if (f->type == FACT_BOOL)
			m->usual[i] = !f->v.yes;
		else
			m->usual[i] = strcmp(f->group, "sampling") != 0 || same_fact(f, &usual[k]);
		k += strcmp(f->group, "sampling") == 0;
		for (size_t w = 0; w < sizeof wanted / sizeof *wanted; w++)
			m->usual[i] = m->usual[i] && strcmp(f->name, wanted[w]) != 0;
	}
}

/* Facts of every origin. Statistics are those of all runs together. */
static int make_origins(struct material *m, const struct export_origin *origins)
{
	const struct job *j = m->j;
	const size_t n = j->n_prompts;

	m->own = mem_zalloc(n, FACTS_MAX * sizeof *m->own);
	m->samplings = mem_zalloc(n, sizeof *m->samplings);
	if (!m->own || !m->samplings)
		return out_of_memory(j->gen.prog);
	for (size_t k = 0; k < n; k++) {
		struct fact *own = m->own + k * FACTS_MAX;
		m->samplings[k] = origins[k].run->s;
		m->n_facts = make_facts(origins[k].run, &m->samplings[k], origins[k].sequences, own);
		for (size_t i = 0; i < m->n_facts; i++)
			if (strcmp(own[i].group, "statistics") != 0 && !same_fact(&own[i], &m->own[i]))
				m->differs[i] = true;
	}
	make_facts(j, &m->sampling, origins[0].sequences, m->facts);
	for (size_t i = 0; i < m->n_facts; i++) {
		if (m->differs[i])
			m->facts[i].type = FACT_NONE;
		else if (strcmp(m->facts[i].group, "statistics") != 0)
			m->facts[i] = m->own[i];
		for (size_t k = 0; k < n && strcmp(m->facts[i].group, "statistics") == 0; k++)
			m->own[k * FACTS_MAX + i] = m->facts[i];
	}
	return 0;
}

static int write_one(const struct material *m, const char *path)
{
	const struct job *j = m->j;
	const struct export_format *format = format_of(&j->c.output, path);
	struct report e = {.j = j, .facts = m->facts, .n_facts = m->n_facts, .usual = m->usual,
			.interrupted = m->interrupted};
	int rc = 0;

	e.differs = m->own ? m->differs : NULL;
	format->begin(&e);
	for (size_t k = 0; k < j->n_prompts && !rc; k++) {
		struct compare c;
		e.own = m->own ? m->own + k * FACTS_MAX : NULL;
		rc = compare_init(&c, j->gen.prog, &j->prompts[k]);
		if (!rc)
			format->prompt(&e, &c);
		compare_release(&c);
	}
	format->end(&e);
	if (!rc)
		rc = put_in_place(j, path, &e.out);
	sink_release(&e.out);
	return rc;
}

int export_write_origins(const struct job *j, bool interrupted, const struct export_origin *origins)
{
	const struct opt_list *files = &j->c.output.files;
	struct material *m = files->n > 0 ? mem_zalloc(1, sizeof *m) : NULL;
	int rc = 0;

	if (files->n == 0)
		return 0;
	if (!m)
		return out_of_memory(j->gen.prog);
	m->j = j;
	m->interrupted = interrupted;
	m->sampling = j->s;
	if (origins)
		rc = make_origins(m, origins);
	else
		m->n_facts = make_facts(j, &m->sampling, NULL, m->facts);
	note_usual(m);
	const bool made = rc == 0;
	/* One after the other, so that memory is that of the largest. */
	for (size_t i = 0; made && i < files->n; i++) {
		const int now = write_one(m, files->items[i]);
		rc = rc ? rc : now;
	}
	mem_free(m->own);
	mem_free(m->samplings);
	mem_free(m);
	return rc;
}

int export_write(const struct job *j, bool interrupted)
{
	return export_write_origins(j, interrupted, NULL);
}
