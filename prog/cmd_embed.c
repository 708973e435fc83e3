/* cohort embed: texts to vectors, many at once.
 *
 * What holds:
 *  1. Vectors come in the order of the texts: operands, then files.
 *  2. A vector has the same bits whatever else is embedded, however many at once, on any number of threads.
 *  3. Nothing is written before all vectors are there. */
#include "cmd.h"
#include "embedder.h"
#include "npy.h"
#include "out.h"

#include "base/map.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char prog[] = "cohort embed";

enum { OPERANDS_MAX = 65536, TEXT_MAX = 1 << 29 };
enum format { F_TEXT, F_JSON, F_JSONL, F_NPY, N_FORMATS };
static const char *const formats[N_FORMATS] = {"text", "json", "jsonl", "npy"};

struct embed {
	struct embed_opts o;
	const char *operands[OPERANDS_MAX];
	size_t n_operands;
	struct opt_list files;
	const char *norm_text, *format_text, *output;
	bool lines, truncate, similarity;
	int64_t n_ctx;
	bool n_ctx_given;

	struct embedder e;
	enum norm norm;
	enum format format;
	struct embed_text *texts; /* [n] */
	size_t n, n_max;
	size_t n_cut;
	float *vectors; /* [n, n_embd] */
	struct out out;
};

/* ---- Texts ---- */

static int add_text(struct embed *c, const char *what, const char *text, size_t n_bytes)
{
	const size_t most =
			(size_t)(c->n_ctx_given && c->n_ctx < c->e.info.n_ctx_train ? c->n_ctx : c->e.info.n_ctx_train);
	bool cut = false;

	if (!mem_grow((void **)&c->texts, &c->n_max, c->n + 1, sizeof *c->texts))
		return out_of_memory(prog);
	c->texts[c->n] = (struct embed_text){0};
	const int rc = embedder_tokens(&c->e, what, text, n_bytes, most, c->truncate, &c->texts[c->n], &cut);
	c->n++;
	c->n_cut += cut;
	return rc;
}

static int add_file(struct embed *c, const char *path)
{
	const char *name = strcmp(path, "-") == 0 ? "standard input" : path;
	struct cohort_err err;
	struct text_line line;
	char *text = NULL, what[512];
	size_t n = 0, at = 0;
	int rc = 0;

	if (file_read(path, TEXT_MAX, &text, &n, &err)) {
		fail(prog, &err);
		return EXIT_FILE;
	}
	if (!c->lines)
		rc = add_text(c, name, text, n);
	for (size_t i = 1; !rc && c->lines && next_line(text, n, &at, &line); i++) {
		snprintf(what, sizeof what, "%.400s, line %zu,", name, i);
		rc = add_text(c, what, line.text, line.n_bytes);
	}
	mem_free(text);
	return rc;
}

static int get_texts(struct embed *c)
{
	int rc = 0;

	for (size_t i = 0; i < c->n_operands && !rc; i++) {
		char what[32];
		snprintf(what, sizeof what, "text %zu", i + 1);
		rc = add_text(c, what, c->operands[i], strlen(c->operands[i]));
	}
	for (size_t i = 0; i < c->files.n && !rc; i++)
		rc = add_file(c, c->files.items[i]);
	if (!rc && c->n == 0) {
		fprintf(stderr, "%s: there is no line to embed\n", prog);
		rc = EXIT_FILE;
	}
	if (!rc && c->n_cut > 0)
		fprintf(stderr, "%s: note: %zu of %zu text%s cut to what fits\n", prog, c->n_cut, c->n,
				c->n == 1 ? " was" : "s were");
	return rc;
}

/* ---- Output ---- */

static double cosine(const struct embed *c, size_t i, size_t k)
{
	const size_t n = (size_t)c->e.info.n_embd;
	return vector_cosine(c->vectors + i * n, c->vectors + k * n, n);
}

/* A row of numbers: a vector, or likenesses to all. */
static void write_row(struct embed *c, size_t i, const char *between)
{
	const size_t n = c->similarity ? c->n : (size_t)c->e.info.n_embd;

	for (size_t k = 0; k < n; k++) {
		if (k > 0)
			out_bytes(&c->out, between, strlen(between));
		if (c->similarity && c->format == F_TEXT)
			out_fmt(&c->out, "%7.4f", cosine(c, i, k));
		else
			out_float(&c->out,
					c->similarity ? (float)cosine(c, i, k)
						      : c->vectors[i * (size_t)c->e.info.n_embd + k]);
	}
}

static void write_json(struct embed *c)
{
	struct out *o = &c->out;
	const bool all = c->format == F_JSON;
	const char *what = c->similarity ? "similarity" : "embedding";

	if (all) {
		out_bytes(o, "{\"model\": ", 10);
		out_json(o, c->e.info.name, strlen(c->e.info.name));
		out_fmt(o, ", \"n_embd\": %d, \"pooling\": \"%s\", \"normalize\": \"%s\",\n \"data\": [\n",
				c->e.info.n_embd, pooling_name(c->e.pooling), norm_name(c->norm));
	}
	for (size_t i = 0; i < c->n && !interrupted(); i++) {
		out_fmt(o, "%s{\"index\": %zu, \"n_tokens\": %zu, \"%s\": [", all ? "  " : "", i, c->texts[i].n, what);
		write_row(c, i, ", ");
		out_fmt(o, "]}%s\n", all && i + 1 < c->n ? "," : "");
	}
	if (all)
		out_bytes(o, " ]}\n", 4);
}

/* Little-endian, whatever this machine is. */
static void write_npy(struct embed *c)
{
	const size_t n = c->similarity ? c->n : (size_t)c->e.info.n_embd;
	char head[NPY_HEADER_BYTES];

	npy_header(head, c->n, n);
	out_bytes(&c->out, head, sizeof head);
	for (size_t i = 0; i < c->n && !interrupted(); i++)
		for (size_t k = 0; k < n; k++) {
			const float x = c->similarity ? (float)cosine(c, i, k) : c->vectors[i * n + k];
			uint32_t u;
			memcpy(&u, &x, 4);
			const uint8_t b[4] = {(uint8_t)u, (uint8_t)(u >> 8), (uint8_t)(u >> 16), (uint8_t)(u >> 24)};
			out_bytes(&c->out, b, 4);
		}
}

/* Cosines of many texts take their time: rows end with a signal. */
static int write_all(struct embed *c)
{
	int rc = out_open(&c->out, prog, c->output);

	if (rc)
		return rc;
	if (c->format == F_NPY)
		write_npy(c);
	else if (c->format != F_TEXT)
		write_json(c);
	for (size_t i = 0; i < c->n && c->format == F_TEXT && !interrupted(); i++) {
		write_row(c, i, " ");
		out_bytes(&c->out, "\n", 1);
	}
	return out_close(&c->out, interrupted() ? EXIT_INTERRUPTED : 0);
}

/* ---- The command ---- */

static int embed(struct embed *c)
{
	const size_t n_embd = (size_t)c->e.info.n_embd;
	size_t longest = 1, n_floats;

	for (size_t i = 0; i < c->n; i++)
		longest = c->texts[i].n > longest ? c->texts[i].n : longest;
	if (!size_mul(c->n, n_embd, &n_floats) || !(c->vectors = mem_alloc(n_floats, sizeof *c->vectors)))
		return out_of_memory(prog);
	int rc = embedder_open(&c->e, longest);
	if (!rc)
		rc = embedder_run(&c->e, c->texts, c->n, c->vectors, "embedding");
	for (size_t i = 0; i < c->n && !rc; i++)
		vector_normalize(c->vectors + i * n_embd, n_embd, c->norm);
	return rc;
}

static int check(struct embed *c)
{
	const char *ext = c->output ? strrchr(c->output, '.') : NULL;

	if (c->n_operands + c->files.n == 0)
		return bad_usage(prog, "give a text: as an argument, or with -f FILE (- is standard input)");
	if (c->lines && c->files.n == 0)
		return bad_usage(prog, "-lines goes with -f FILE");
	c->norm = NORM_2;
	if (c->norm_text && !norm_find(c->norm_text, &c->norm))
		return bad_usage(prog, "-normalize '%s' is not known; known: 2, 1, max, none", c->norm_text);
	int f = F_TEXT;
	if (c->format_text)
		while (f < N_FORMATS && strcmp(c->format_text, formats[f]) != 0)
			f++;
	else /* the name of the file says it */
		for (int i = F_JSON; ext && i < N_FORMATS; i++)
			f = strcmp(ext + 1, formats[i]) == 0 ? i : f;
	if (f == N_FORMATS)
		return bad_usage(prog, "format '%s' is not known; known: text, json, jsonl, npy", c->format_text);
	c->format = (enum format)f;
	/* A name such as x.npz or x.csv looks like something else than what it gets. */
	if (!c->format_text && f == F_TEXT && ext && !strchr(ext, '/') && strcmp(ext, ".txt") != 0 && ext > c->output)
		fprintf(stderr, "%s: note: %s gets text; other formats are .json, .jsonl and .npy, or -format's\n",
				prog, c->output);
	if (c->format == F_NPY && (!c->output || strcmp(c->output, "-") == 0) && isatty(STDOUT_FILENO))
		return bad_usage(prog, "npy is no text for a terminal; give -output FILE");
	return 0;
}

static int run(struct embed *c)
{
	int rc = check(c);

	if (!rc)
		rc = embedder_init(&c->e, prog, &c->o);
	if (!rc)
		rc = get_texts(c);
	catch_signals(); /* only now: reading standard input ends with the signal */
	if (!rc)
		rc = embed(c);
	return rc ? rc : write_all(c);
}

static void cleanup(struct embed *c)
{
	embedder_release(&c->e);
	for (size_t i = 0; i < c->n; i++)
		mem_free(c->texts[i].tokens);
	mem_free(c->texts);
	mem_free(c->vectors);
}

int cmd_embed(int argc, char **argv)
{
	static struct embed c;
	c = (struct embed){.o = EMBED_OPTS_INIT};
	const struct opt opts[] = {
			{"file", "f", OPT_LIST, &c.files, 0, 0, "FILE",
					"a file as one text; - is standard input; may be given again", NULL},
			{"lines", NULL, OPT_FLAG, &c.lines, 0, 0, NULL, "each line of the files is a text", NULL},
			{"normalize", NULL, OPT_STR, &c.norm_text, 0, 0, "2|1|max|none",
					"what becomes 1: length (2, default), sum of magnitudes, largest", NULL},
			{"format", NULL, OPT_STR, &c.format_text, 0, 0, "text|json|jsonl|npy",
					"what is written (default: what -output ends in, or text)", NULL},
			{"output", "o", OPT_STR, &c.output, 0, 0, "FILE", "where to write (default: standard output)",
					NULL},
			{"similarity", NULL, OPT_FLAG, &c.similarity, 0, 0, NULL,
					"cosines of all pairs instead of the vectors", NULL},
			{"truncate", NULL, OPT_FLAG, &c.truncate, 0, 0, NULL, "cut texts that are too long", NULL},
			{"special", NULL, OPT_FLAG, &c.o.special, 0, 0, NULL,
					"texts of special tokens become those tokens", NULL},
			{"ctx", "c|ctx-size", OPT_INT, &c.n_ctx, 1, 1 << 30, "N",
					"tokens of a text at most (default: what the model was trained for)",
					&c.n_ctx_given},
			OPTS_EMBED(&c.o),
	};
	const struct opt_prog p = {
			prog,
			"[-m FILE] [TEXT ...] [-f FILE] [-lines] [options]",
			"Prints the vectors of texts, in their order, many computed at once. The numbers are the\n"
			"same whatever -n-parallel, -batch, -threads and -isa.",
			"  cohort embed \"a cat sat down\" \"the dog ran\"\n"
			"  cohort embed -similarity \"a cat sat down\" \"a kitten sat\" \"stock prices fell\"\n"
			"  printf 'one\\ntwo\\n' | cohort embed -f - -lines -format jsonl\n"
			"  printf 'one\\ntwo\\n' | cohort embed -f - -lines -output vectors.npy\n",
			opts,
			sizeof opts / sizeof *opts,
	};
	int rc = opt_parse(&p, argc, argv, 2, c.operands, OPERANDS_MAX, &c.n_operands);
	if (rc)
		return rc - 1;
	rc = run(&c);
	cleanup(&c);
	return rc;
}
