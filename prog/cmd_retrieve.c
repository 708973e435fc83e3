/* cohort retrieve: chunks of documents that are most similar to a query.
 *
 * What holds:
 *  1. An index is whole or not there: it is written beside its place and renamed. What is read is checked to its last
 *     byte, and refused if it was made with another model.
 *  2. Results come in the order of the queries, the best first; of equal ones the first in the index.
 *  3. Files that are no text, too large or cannot be read are left out, and how many were is said on stderr. */
#include "cmd.h"
#include "embedder.h"
#include "out.h"
#include "retrieve.h"
#include "width.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/pool.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char prog[] = "cohort retrieve";
/* Its vector tells models apart. A model that cannot tell two of these bytes from others has equal vectors anyway. */
static const char probe_text[] = "The quick brown fox jumps over 12 lazy dogs.";

enum {
	QUERIES_MAX = 4096,
	FILE_MAX = 1 << 26,
	INPUT_MAX = 1 << 28,
	CHUNK_MIN = 32,
	CHUNK_DEFAULT = 256,
	PROBE_TOKENS = CHUNK_MIN
};

struct retrieve {
	struct embed_opts o;
	struct opt_list dirs;
	const char *load, *save, *file, *separator_text, *format_text, *output;
	const char *operands[QUERIES_MAX];
	size_t n_operands;
	int64_t chunk_size, overlap, top_k;
	bool size_given, overlap_given;
	bool jsonl;

	struct embedder e;
	struct doc_index ix;
	char *separator; /* without its escapes */
	size_t n_separator;
	size_t n_skipped;
	size_t n_queries; /* answered so far */
	struct match *best; /* [top_k] */
	struct out out;
};

/* ---- Indexing ---- */

/* \n, \t, \r and \\ in a separator are what they are in C. */
static int unescape(struct retrieve *c)
{
	const char *s = c->separator_text;
	size_t n = 0;

	if (!s)
		return 0;
	c->separator = mem_strndup(s, strlen(s));
	if (!c->separator)
		return out_of_memory(prog);
	for (; *s; s++) {
		static const char from[] = "ntr\\", to[] = "\n\t\r\\";
		const char *known = *s == '\\' && s[1] ? strchr(from, s[1]) : NULL;
		c->separator[n++] = known ? to[known - from] : *s;
		s += known != NULL;
	}
	c->separator[n] = '\0';
	c->n_separator = n;
	return n > 0 ? 0 : bad_usage(prog, "-chunk-separator is empty");
}

static int add_document(struct retrieve *c, const struct chunking *how, const char *path)
{
	struct cohort_err err;
	uint8_t *bytes = NULL;
	size_t n = 0;

	if (file_load(path, (size_t)FILE_MAX + 1, &bytes, &n, &err)) {
		err_prefix(&err, "note");
		fail(prog, &err);
		c->n_skipped++;
		return err.status == COHORT_E_MEMORY ? EXIT_RUN : 0;
	}
	const bool text = n <= FILE_MAX && looks_like_text((const char *)bytes, n);
	c->n_skipped += !text;
	const bool good = !text ||
			(doc_index_add_file(&c->ix, path, strlen(path)) &&
					chunk_text(how, (const char *)bytes, n, &c->ix));
	mem_free(bytes);
	return good ? 0 : out_of_memory(prog);
}

static int read_documents(struct retrieve *c)
{
	const struct chunking how = {c->e.m, (size_t)c->chunk_size, (size_t)c->overlap, c->separator, c->n_separator};
	const double started = clock_now();
	struct path_list list = {0};
	int rc = 0;

	for (size_t i = 0; i < c->dirs.n && !rc; i++)
		rc = walk_files(prog, c->dirs.items[i], &list);
	for (size_t i = 0; i < list.n && !rc; i++) {
		rc = interrupted() ? EXIT_INTERRUPTED : add_document(c, &how, list.paths[i]);
		progress_line(started, "reading: %zu of %zu files, %zu chunks", i + 1, list.n, c->ix.n_chunks);
	}
	progress_end();
	path_list_release(&list);
	if (!rc && c->ix.n_chunks == 0) {
		fprintf(stderr, "%s: no text was found; files left out because they are no text: %zu\n", prog,
				c->n_skipped);
		rc = EXIT_FILE;
	}
	return rc;
}

/* The hash of the probe's vector. */
static int probe(struct retrieve *c, uint64_t *out)
{
	const size_t n_embd = (size_t)c->e.info.n_embd;
	float *v = mem_alloc(n_embd, sizeof *v);
	uint8_t *bytes = mem_alloc(n_embd, 4);
	struct embed_text t = {0};
	bool cut;
	int rc = v && bytes ? 0 : out_of_memory(prog);

	/* Cut alike whatever the size of chunks, which is never below this. */
	const int32_t most = c->e.info.n_ctx_train < PROBE_TOKENS ? c->e.info.n_ctx_train : PROBE_TOKENS;
	if (!rc)
		rc = embedder_tokens(&c->e, "the probe", probe_text, strlen(probe_text), (size_t)most, true, &t, &cut);
	if (!rc)
		rc = embedder_run(&c->e, &t, 1, v, "embedding");
	for (size_t i = 0; i < n_embd && !rc; i++) {
		uint32_t u;
		memcpy(&u, &v[i], 4);
		for (int k = 0; k < 4; k++)
			bytes[4 * i + (size_t)k] = (uint8_t)(u >> (8 * k));
	}
	if (!rc)
		*out = doc_index_hash(bytes, 4 * n_embd);
	mem_free(t.tokens);
	mem_free(bytes);
	mem_free(v);
	return rc;
}

/* All but the probe, which takes the engine. */
static int describe_model(const struct retrieve *c, struct doc_model *m)
{
	const struct cohort_model_info *info = &c->e.info;

	*m = (struct doc_model){
			.arch = mem_strndup(info->arch, strlen(info->arch)),
			.name = mem_strndup(info->name, strlen(info->name)),
			.n_embd = (uint32_t)info->n_embd,
			.n_vocab = (uint32_t)info->n_vocab,
			.n_layer = (uint32_t)info->n_layer,
			.n_params = info->n_params,
			.weight_bytes = info->weight_bytes,
			.pooling = c->e.pooling,
	};
	return m->arch && m->name ? 0 : out_of_memory(prog);
}

/* Vectors of texts in one piece of memory, each of length 1. */
static int embed_all(struct retrieve *c, struct embed_text *texts, size_t n, float **out, const char *label)
{
	const size_t n_embd = (size_t)c->e.info.n_embd;
	size_t n_floats;
	float *v = size_mul(n, n_embd, &n_floats) ? mem_alloc(n_floats, sizeof *v) : NULL;
	int rc = v ? embedder_run(&c->e, texts, n, v, label) : out_of_memory(prog);

	for (size_t i = 0; i < n && !rc; i++)
		vector_normalize(v + i * n_embd, n_embd, NORM_2);
	if (rc)
		mem_free(v);
	else
		*out = v;
	return rc;
}

static void free_texts(struct embed_text *texts, size_t n)
{
	for (size_t i = 0; texts && i < n; i++)
		mem_free(texts[i].tokens);
	mem_free(texts);
}

static int embed_chunks(struct retrieve *c)
{
	const size_t n = c->ix.n_chunks;
	struct embed_text *texts = mem_zalloc(n, sizeof *texts);
	int rc = texts ? 0 : out_of_memory(prog);

	for (size_t i = 0; i < n && !rc; i++) {
		const struct doc_chunk *k = &c->ix.chunks[i];
		bool cut;
		rc = embedder_tokens(&c->e, "a chunk", c->ix.texts + k->text, k->n_bytes, (size_t)c->chunk_size, true,
				&texts[i], &cut);
	}
	if (!rc)
		rc = embed_all(c, texts, n, &c->ix.vectors, "indexing");
	free_texts(texts, n);
	return rc;
}

static int save_index(struct retrieve *c)
{
	struct cohort_err err;
	uint8_t *bytes = NULL;
	size_t n = 0;
	enum cohort_status st = doc_index_encode(&c->ix, &bytes, &n, &err);

	if (!st)
		st = file_write_atomic(c->save, bytes, n, &err);
	mem_free(bytes);
	if (!st)
		return 0;
	fail(prog, &err);
	return st == COHORT_E_IO ? EXIT_FILE : EXIT_RUN;
}

static int make_index(struct retrieve *c)
{
	struct doc_index *ix = &c->ix;

	if (!c->size_given)
		c->chunk_size = c->e.info.n_ctx_train < CHUNK_DEFAULT ? c->e.info.n_ctx_train : CHUNK_DEFAULT;
	if (!c->overlap_given)
		c->overlap = c->separator ? 0 : c->chunk_size / 8;
	if (c->chunk_size > c->e.info.n_ctx_train)
		return bad_usage(prog, "-chunk-size %" PRId64 ": the model takes up to %d tokens", c->chunk_size,
				c->e.info.n_ctx_train);
	if (c->overlap > c->chunk_size / 2)
		return bad_usage(prog, "-overlap %" PRId64 " is more than half of the chunk's %" PRId64 " tokens",
				c->overlap, c->chunk_size);
	ix->chunk_size = (uint32_t)c->chunk_size;
	ix->overlap = (uint32_t)c->overlap;
	ix->n_separator = c->n_separator;
	if (c->separator && !(ix->separator = mem_strndup(c->separator, c->n_separator)))
		return out_of_memory(prog);
	int rc = read_documents(c);
	if (!rc)
		rc = embedder_open(&c->e, (size_t)c->chunk_size);
	if (!rc)
		rc = describe_model(c, &ix->model);
	if (!rc)
		rc = probe(c, &ix->model.probe);
	if (!rc)
		rc = embed_chunks(c);
	if (!rc && c->save)
		rc = save_index(c);
	if (!rc) {
		fprintf(stderr, "%s: %zu file%s, %zu chunk%s%s%s", prog, ix->n_files, plural(ix->n_files), ix->n_chunks,
				plural(ix->n_chunks), c->save ? " in " : "", c->save ? c->save : "");
		if (c->n_skipped > 0)
			fprintf(stderr, "; files left out because they are no text: %zu", c->n_skipped);
		fputc('\n', stderr);
	}
	return rc;
}

/* ---- Loading ---- */

static int other_model(const struct retrieve *c, const struct doc_model *is)
{
	const struct doc_model *was = &c->ix.model;
	char *name = printable(was->name), *arch = printable(was->arch), *own = printable(is->name);

	fprintf(stderr,
			"%s: %s was made with another model: '%.200s' (%.60s, %u layers, vectors of %u, %" PRIu64
			" parameters); this is '%.200s' (%s, %u layers, vectors of %u, %" PRIu64
			" parameters). Give that one with -m, or index the documents again.\n",
			prog, c->load, name ? name : "", arch ? arch : "", was->n_layer, was->n_embd, was->n_params,
			own ? own : "", is->arch, is->n_layer, is->n_embd, is->n_params);
	mem_free(name);
	mem_free(arch);
	mem_free(own);
	return EXIT_FILE;
}

static int read_index(struct retrieve *c)
{
	struct cohort_err err;
	uint8_t *bytes = NULL;
	size_t n = 0;
	enum cohort_status st = file_load(c->load, SIZE_MAX / 2, &bytes, &n, &err);

	if (!st) {
		st = doc_index_decode(&c->ix, bytes, n, &err);
		if (st)
			err_prefix(&err, "%s", c->load);
	}
	mem_free(bytes);
	if (!st)
		return 0;
	fail(prog, &err);
	return st == COHORT_E_MEMORY ? EXIT_RUN : EXIT_FILE;
}

static bool same_shape(const struct doc_model *a, const struct doc_model *b)
{
	return strcmp(a->arch, b->arch) == 0 && a->n_embd == b->n_embd && a->n_vocab == b->n_vocab &&
			a->n_layer == b->n_layer && a->n_params == b->n_params;
}

/* What the file says is compared first, then the probe, as it takes the engine. */
static int check_model(struct retrieve *c)
{
	const struct doc_model *was = &c->ix.model;
	const int32_t trained = c->e.info.n_ctx_train;
	struct doc_model is;

	if (c->o.pooling && c->e.pooling != was->pooling)
		return bad_usage(prog, "%s was made with -pooling %s, not %s", c->load, pooling_name(was->pooling),
				pooling_name(c->e.pooling));
	c->e.pooling = was->pooling;
	c->chunk_size = c->ix.chunk_size > 512 ? c->ix.chunk_size : 512; /* queries may be longer than chunks */
	c->chunk_size = c->chunk_size < trained ? c->chunk_size : trained;
	int rc = describe_model(c, &is);
	bool same = !rc && same_shape(&is, was);
	if (same) {
		rc = embedder_open(&c->e, (size_t)c->chunk_size);
		if (!rc)
			rc = probe(c, &is.probe);
		same = is.probe == was->probe;
	}
	if (!rc && !same)
		rc = other_model(c, &is);
	mem_free(is.arch);
	mem_free(is.name);
	return rc;
}

/* ---- Queries ---- */

/* Text of others, which may not steer a terminal: what is no letter is shown as everywhere (width.h). Lines begin with
 * `indent`. */
static void print_safe(struct out *o, const char *indent, const char *s, size_t n)
{
	struct glyph g;

	out_bytes(o, indent, strlen(indent));
	for (size_t i = 0, len; i < n; i += len) {
		len = glyph_next(s + i, n - i, &g);
		const bool kept = *indent && (g.cp == '\n' || g.cp == '\t');
		out_bytes(o, kept ? s + i : g.bytes, kept ? len : g.n_bytes);
		if (kept && g.cp == '\n')
			out_bytes(o, indent, strlen(indent));
	}
}

static void print_match(struct retrieve *c, size_t query, struct text_line text, size_t rank, struct match m)
{
	const struct doc_chunk *k = &c->ix.chunks[m.id];
	const struct doc_file *f = &c->ix.files[k->file];
	const char *path = c->ix.paths + f->path;
	struct out *o = &c->out;

	if (c->jsonl) {
		out_fmt(o, "{\"query\": %zu, \"query_text\": ", query);
		out_json(o, text.text, text.n_bytes);
		out_fmt(o, ", \"rank\": %zu, \"score\": ", rank);
		out_double(o, m.score);
		out_bytes(o, ", \"file\": ", 10);
		out_json(o, path, f->n_path);
		out_fmt(o, ", \"begin\": %" PRIu64 ", \"end\": %" PRIu64 ", \"first_line\": %u, \"last_line\": %u, ",
				k->begin, k->begin + k->n_bytes, k->first_line, k->last_line);
		out_bytes(o, "\"text\": ", 8);
		out_json(o, c->ix.texts + k->text, k->n_bytes);
		out_bytes(o, "}\n", 2);
		return;
	}
	out_fmt(o, "%zu. %.4f  ", rank, m.score);
	print_safe(o, "", path, f->n_path);
	out_fmt(o, ", lines %u to %u, bytes %" PRIu64 " to %" PRIu64 "\n", k->first_line, k->last_line, k->begin,
			k->begin + k->n_bytes);
	print_safe(o, "    ", c->ix.texts + k->text, k->n_bytes);
	out_bytes(o, "\n", 1);
}

static void search(struct retrieve *c, const float *v, struct text_line text)
{
	const size_t n_embd = (size_t)c->e.info.n_embd;
	size_t n = 0;

	for (size_t i = 0; i < c->ix.n_chunks; i++)
		n = match_insert(c->best, n, (size_t)c->top_k,
				(struct match){vector_dot(v, c->ix.vectors + i * n_embd, n_embd), i});
	if (!c->jsonl) {
		out_fmt(&c->out, "%sQuery: ", c->n_queries > 0 ? "\n" : "");
		print_safe(&c->out, "", text.text, text.n_bytes);
		out_bytes(&c->out, "\n", 1);
	}
	for (size_t i = 0; i < n; i++)
		print_match(c, c->n_queries, text, i + 1, c->best[i]);
	c->n_queries++;
}

static int answer(struct retrieve *c, const struct text_line *queries, size_t n)
{
	struct embed_text *texts = mem_zalloc(n, sizeof *texts);
	float *v = NULL;
	int rc = texts ? 0 : out_of_memory(prog);

	for (size_t i = 0; i < n && !rc; i++) {
		char what[48];
		bool cut;
		snprintf(what, sizeof what, "query %zu", c->n_queries + i + 1);
		rc = embedder_tokens(&c->e, what, queries[i].text, queries[i].n_bytes, (size_t)c->chunk_size, true,
				&texts[i], &cut);
		if (!rc && cut)
			fprintf(stderr, "%s: note: %s was cut to %" PRId64 " tokens\n", prog, what, c->chunk_size);
	}
	if (!rc)
		rc = embed_all(c, texts, n, &v, "queries");
	if (!rc)
		rc = out_open(&c->out, prog, c->output);
	for (size_t i = 0; i < n && !rc && v; i++)
		search(c, v + i * (size_t)c->e.info.n_embd, queries[i]);
	if (!rc)
		rc = out_close(&c->out, 0);
	free_texts(texts, n);
	mem_free(v);
	return rc;
}

static int answer_lines(struct retrieve *c, const char *path)
{
	struct text_line *queries = NULL, line;
	struct cohort_err err;
	char *text = NULL;
	size_t n_bytes = 0, n = 0, n_max = 0, at = 0;
	int rc = 0;

	if (read_input(path, INPUT_MAX, &text, &n_bytes, &err)) {
		fail(prog, &err);
		return EXIT_FILE;
	}
	while (!rc && next_line(text, n_bytes, &at, &line)) {
		if (line.n_bytes == 0)
			continue;
		if (mem_grow((void **)&queries, &n_max, n + 1, sizeof *queries))
			queries[n++] = line;
		else
			rc = out_of_memory(prog);
	}
	if (!rc && n > 0) {
		catch_signals();
		rc = answer(c, queries, n);
	}
	mem_free(queries);
	mem_free(text);
	return rc;
}

/* On a terminal each line is answered as it comes. */
static int converse(struct retrieve *c)
{
	char line[1 << 14];
	int rc = 0;

	if (c->output)
		return bad_usage(prog, "-output goes with queries as arguments or with -f FILE");
	signal(SIGINT, SIG_DFL); /* at the prompt there is nothing to end cleanly */
	signal(SIGTERM, SIG_DFL);
	for (;;) {
		fputs("query> ", stderr);
		fflush(stderr);
		if (rc || !fgets(line, sizeof line, stdin))
			break;
		const struct text_line q = {line, strcspn(line, "\n")};
		if (q.n_bytes > 0)
			rc = answer(c, &q, 1);
	}
	fputc('\n', stderr);
	return rc;
}

static int ask(struct retrieve *c)
{
	struct text_line queries[QUERIES_MAX];
	int rc = 0;

	for (size_t i = 0; i < c->n_operands; i++)
		queries[i] = (struct text_line){c->operands[i], strlen(c->operands[i])};
	c->best = mem_alloc((size_t)c->top_k, sizeof *c->best);
	if (!c->best)
		return out_of_memory(prog);
	if (c->n_operands > 0) {
		catch_signals();
		return answer(c, queries, c->n_operands);
	}
	if (c->file)
		return answer_lines(c, c->file);
	if (!c->save)
		rc = isatty(STDIN_FILENO) ? converse(c) : answer_lines(c, "-");
	return rc;
}

/* ---- The command ---- */

static int check(const struct retrieve *c)
{
	if ((c->dirs.n > 0) == (c->load != NULL))
		return bad_usage(prog, "give either -dir FOLDER or -load INDEX");
	if (c->load && (c->save || c->size_given || c->overlap_given || c->separator_text))
		return bad_usage(
				prog, "-save, -chunk-size, -overlap and -chunk-separator go with -dir, not with -load");
	if (c->n_operands > 0 && c->file)
		return bad_usage(prog, "give queries as arguments or with -f FILE, not both");
	if (c->format_text && strcmp(c->format_text, "text") != 0 && strcmp(c->format_text, "jsonl") != 0)
		return bad_usage(prog, "format '%s' is not known; known: text, jsonl", c->format_text);
	return 0;
}

static int run(struct retrieve *c)
{
	int rc = check(c);

	c->jsonl = c->format_text && strcmp(c->format_text, "jsonl") == 0;
	if (!rc)
		rc = unescape(c);
	if (!rc && c->load)
		rc = read_index(c);
	if (!rc)
		rc = embedder_init(&c->e, prog, &c->o);
	if (!rc && c->dirs.n > 0)
		catch_signals();
	if (!rc)
		rc = c->load ? check_model(c) : make_index(c);
	return rc ? rc : ask(c);
}

static void cleanup(struct retrieve *c)
{
	embedder_release(&c->e);
	doc_index_release(&c->ix);
	mem_free(c->separator);
	mem_free(c->best);
}

int cmd_retrieve(int argc, char **argv)
{
	static struct retrieve c;
	c = (struct retrieve){.o = EMBED_OPTS_INIT, .top_k = 3};
	const struct opt opts[] = {
			{"dir", NULL, OPT_LIST, &c.dirs, 0, 0, "FOLDER",
					"folder of text files to index, or one file; may be given again", NULL},
			{"save", NULL, OPT_STR, &c.save, 0, 0, "INDEX", "write the index to this file", NULL},
			{"load", NULL, OPT_STR, &c.load, 0, 0, "INDEX", "search this index", NULL},
			{"chunk-size", NULL, OPT_INT, &c.chunk_size, CHUNK_MIN, 1 << 20, "N",
					"tokens of a chunk at most (default: 256)", &c.size_given},
			{"overlap", NULL, OPT_INT, &c.overlap, 0, 1 << 19, "N",
					"tokens that chunks share with the one before (default: an eighth)",
					&c.overlap_given},
			{"chunk-separator", NULL, OPT_STR, &c.separator_text, 0, 0, "TEXT",
					"chunks end where this text is (\\n and \\t as in C); long ones are still cut",
					NULL},
			{"top-k", "k", OPT_INT, &c.top_k, 1, 1 << 20, "N", "chunks for each query (default: 3)", NULL},
			{"file", "f", OPT_STR, &c.file, 0, 0, "FILE",
					"queries, one on each line; - is standard input (the default)", NULL},
			{"format", NULL, OPT_STR, &c.format_text, 0, 0, "text|jsonl", "what is written (default: text)",
					NULL},
			{"output", "o", OPT_STR, &c.output, 0, 0, "FILE", "where to write (default: standard output)",
					NULL},
			OPTS_EMBED(&c.o),
	};
	const struct opt_prog p = {
			prog,
			"[-m FILE] (-dir FOLDER [-save INDEX] | -load INDEX) [QUERY ...] [options]",
			"Finds the chunks of text files that are most like a query, by the cosine of their vectors.\n"
			"Folders are searched to the bottom; hidden files, links to folders and what is no text are\n"
			"left out. An index that was saved is searched without reading the files again.",
			"  mkdir -p tales && echo \"The cat sat down.\" >tales/a && echo \"Rain fell.\" >tales/b\n"
			"  cohort retrieve -dir tales \"Where did the cat sit?\"\n"
			"  cohort retrieve -dir tales -save tales.index\n"
			"  cohort retrieve -load tales.index -top-k 1 -format jsonl \"a cat\" \"the weather\"\n",
			opts,
			sizeof opts / sizeof *opts,
	};
	int rc = opt_parse(&p, argc, argv, 2, c.operands, QUERIES_MAX, &c.n_operands);
	if (rc)
		return rc - 1;
	rc = run(&c);
	cleanup(&c);
	return rc;
}
