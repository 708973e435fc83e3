/* Indexes of documents, in memory and as bytes.
 *
 * What holds:
 *  1. Decoding trusts nothing: every length is checked against the size of the file before it is used, every number
 *     against its range, and the checksum before any of it. Lengths must add up exactly: there is one file for an
 * index.
 *  2. A failed call leaves nothing behind.
 *
 * It opens no file and knows no model. */
#include "doc_index.h"

#include "base/mem.h"

#include <math.h>
#include <string.h>

static const char magic[8] = {'C', 'O', 'H', 'O', 'R', 'T', 'I', 'X'};

uint64_t doc_index_hash(const void *bytes, size_t n)
{
	const uint8_t *p = bytes;
	uint64_t h = 0xcbf29ce484222325u;

	for (size_t i = 0; i < n; i++)
		h = (h ^ p[i]) * 0x100000001b3u;
	return h;
}

/* ---- Building ---- */

static bool append(char **buf, size_t *n, size_t *n_max, const char *bytes, size_t n_bytes)
{
	size_t want;

	if (!size_add(*n, n_bytes, &want) || !mem_grow((void **)buf, n_max, want + 1, 1))
		return false;
	memcpy(*buf + *n, bytes, n_bytes);
	*n = want;
	return true;
}

bool doc_index_add_file(struct doc_index *ix, const char *path, size_t n_path)
{
	const struct doc_file f = {ix->n_paths, n_path};

	if (!mem_grow((void **)&ix->files, &ix->files_max, ix->n_files + 1, sizeof *ix->files) ||
			!append(&ix->paths, &ix->n_paths, &ix->paths_max, path, n_path))
		return false;
	ix->files[ix->n_files++] = f;
	return true;
}

bool doc_index_add_chunk(struct doc_index *ix, const char *text, uint32_t n_bytes, uint64_t begin, uint32_t first_line,
		uint32_t last_line)
{
	const struct doc_chunk c = {(uint32_t)(ix->n_files - 1), first_line, last_line, n_bytes, begin, ix->n_texts};

	if (!mem_grow((void **)&ix->chunks, &ix->chunks_max, ix->n_chunks + 1, sizeof *ix->chunks) ||
			!append(&ix->texts, &ix->n_texts, &ix->texts_max, text, n_bytes))
		return false;
	ix->chunks[ix->n_chunks++] = c;
	return true;
}

void doc_index_release(struct doc_index *ix)
{
	mem_free(ix->model.arch);
	mem_free(ix->model.name);
	mem_free(ix->separator);
	mem_free(ix->paths);
	mem_free(ix->texts);
	mem_free(ix->files);
	mem_free(ix->chunks);
	mem_free(ix->vectors);
	*ix = (struct doc_index){0};
}

/* ---- Numbers ---- */

static uint8_t *put(uint8_t *p, uint64_t v, int n)
{
	for (int i = 0; i < n; i++)
		*p++ = (uint8_t)(v >> (8 * i));
	return p;
}

static uint64_t get(const uint8_t *p, int n)
{
	uint64_t v = 0;

	for (int i = 0; i < n; i++)
		v |= (uint64_t)p[i] << (8 * i);
	return v;
}

static uint8_t *put_bytes(uint8_t *p, const void *bytes, size_t n)
{
	if (n > 0)
		memcpy(p, bytes, n);
	return p + n;
}

/* Bytes of parts and of the whole file; false when they do not fit. */
struct sizes {
	uint64_t n_arch, n_name, n_separator, n_paths, n_texts, n_files, n_chunks, n_embd;
};

static bool add_product(uint64_t *sum, uint64_t a, uint64_t b)
{
	uint64_t product;
	return !__builtin_mul_overflow(a, b, &product) && !__builtin_add_overflow(*sum, product, sum);
}

static bool whole_size(const struct sizes *s, uint64_t *out)
{
	uint64_t n = DOC_INDEX_HEAD, row;

	*out = 0;
	if (__builtin_mul_overflow(s->n_embd, (uint64_t)4, &row) || !add_product(&n, s->n_chunks, row) ||
			!add_product(&n, s->n_chunks, DOC_INDEX_CHUNK) || !add_product(&n, s->n_files, 4) ||
			!add_product(&n, s->n_arch, 1) || !add_product(&n, s->n_name, 1) ||
			!add_product(&n, s->n_separator, 1) || !add_product(&n, s->n_paths, 1) ||
			!add_product(&n, s->n_texts, 1) || n > SIZE_MAX)
		return false;
	*out = n;
	return true;
}

/* ---- Encoding ---- */

static void encode_head(const struct doc_index *ix, const struct sizes *s, uint64_t n, uint8_t *p)
{
	const struct doc_model *m = &ix->model;
	const uint64_t small[] = {m->n_embd, m->n_vocab, m->n_layer, ix->chunk_size, ix->overlap, s->n_arch, s->n_name,
			s->n_separator};
	const uint64_t large[] = {
			m->probe, m->n_params, m->weight_bytes, s->n_files, s->n_chunks, s->n_paths, s->n_texts, 0};

	p = put_bytes(p, magic, sizeof magic);
	p = put(p, DOC_INDEX_VERSION, 4);
	p = put(p, (uint64_t)m->pooling, 4);
	p = put(p, n, 8);
	p = put(p, 0, 8); /* the checksum, once all is there */
	for (size_t i = 0; i < 8; i++)
		p = put(p, small[i], 4);
	for (size_t i = 0; i < 8; i++)
		p = put(p, large[i], 8);
}

static void encode_body(const struct doc_index *ix, const struct sizes *s, uint8_t *p)
{
	p = put_bytes(p, ix->model.arch, s->n_arch);
	p = put_bytes(p, ix->model.name, s->n_name);
	p = put_bytes(p, ix->separator, s->n_separator);
	for (size_t i = 0; i < ix->n_files; i++)
		p = put(p, ix->files[i].n_path, 4);
	p = put_bytes(p, ix->paths, ix->n_paths);
	for (size_t i = 0; i < ix->n_chunks; i++) {
		const struct doc_chunk *c = &ix->chunks[i];
		p = put(put(put(put(p, c->file, 4), c->first_line, 4), c->last_line, 4), c->n_bytes, 4);
		p = put(p, c->begin, 8);
	}
	p = put_bytes(p, ix->texts, ix->n_texts);
	for (size_t i = 0; i < ix->n_chunks * (size_t)ix->model.n_embd; i++) {
		uint32_t u;
		memcpy(&u, &ix->vectors[i], 4);
		p = put(p, u, 4);
	}
}

enum cohort_status doc_index_encode(const struct doc_index *ix, uint8_t **out, size_t *n_out, struct cohort_err *err)
{
	const struct sizes s = {ix->model.arch ? strlen(ix->model.arch) : 0,
			ix->model.name ? strlen(ix->model.name) : 0, ix->n_separator, ix->n_paths, ix->n_texts,
			ix->n_files, ix->n_chunks, ix->model.n_embd};
	uint64_t n;

	if (!whole_size(&s, &n) || (s.n_arch | s.n_name | s.n_separator | s.n_files) > UINT32_MAX)
		return err_set(err, COHORT_E_LIMIT, "the index is too large for a file");
	uint8_t *bytes = mem_alloc((size_t)n, 1);
	if (!bytes)
		return err_set(err, COHORT_E_MEMORY, "no memory for an index of %llu bytes", (unsigned long long)n);
	encode_head(ix, &s, n, bytes);
	encode_body(ix, &s, bytes + DOC_INDEX_HEAD);
	put(bytes + 24, doc_index_hash(bytes + 32, (size_t)n - 32), 8);
	*out = bytes;
	*n_out = (size_t)n;
	return COHORT_OK;
}

/* ---- Decoding ---- */

struct reader {
	const uint8_t *bytes;
	size_t n, at;
	struct cohort_err *err;
};

static enum cohort_status bad(const struct reader *r, size_t at, const char *what)
{
	return err_at(r->err, COHORT_E_FORMAT, at, "%s", what);
}

static uint64_t take(struct reader *r, int n)
{
	const uint64_t v = get(r->bytes + r->at, n);
	r->at += (size_t)n;
	return v;
}

static enum cohort_status decode_head(struct reader *r, struct doc_index *ix, struct sizes *s)
{
	struct doc_model *m = &ix->model;
	uint64_t n;

	if (r->n < sizeof magic || memcmp(r->bytes, magic, sizeof magic) != 0)
		return bad(r, 0, "this is no index of cohort retrieve");
	if (r->n < DOC_INDEX_HEAD)
		return bad(r, r->n, "the index is cut within its header");
	r->at = sizeof magic;
	const uint64_t version = take(r, 4), pooling = take(r, 4), size = take(r, 8), sum = take(r, 8);
	if (version != DOC_INDEX_VERSION)
		return err_at(r->err, COHORT_E_UNSUPPORTED, 8, "the index has version %llu, this program reads %d",
				(unsigned long long)version, DOC_INDEX_VERSION);
	if (size != r->n)
		return err_at(r->err, COHORT_E_FORMAT, 16, "the index is %s: it has %zu bytes and says %llu",
				r->n < size ? "truncated" : "too long", r->n, (unsigned long long)size);
	if (sum != doc_index_hash(r->bytes + 32, r->n - 32))
		return bad(r, 24, "the index is damaged: its checksum is another");
	m->n_embd = (uint32_t)take(r, 4);
	m->n_vocab = (uint32_t)take(r, 4);
	m->n_layer = (uint32_t)take(r, 4);
	ix->chunk_size = (uint32_t)take(r, 4);
	ix->overlap = (uint32_t)take(r, 4);
	s->n_arch = take(r, 4);
	s->n_name = take(r, 4);
	s->n_separator = take(r, 4);
	m->probe = take(r, 8);
	m->n_params = take(r, 8);
	m->weight_bytes = take(r, 8);
	s->n_files = take(r, 8);
	s->n_chunks = take(r, 8);
	s->n_paths = take(r, 8);
	s->n_texts = take(r, 8);
	const uint64_t zero = take(r, 8);
	s->n_embd = m->n_embd;
	m->pooling = (enum cohort_pooling)pooling;
	if (pooling < COHORT_POOL_MEAN || pooling > COHORT_POOL_LAST)
		return bad(r, 12, "the index has an unknown pooling");
	if (m->n_embd < 1 || m->n_embd > INT32_MAX || zero != 0)
		return bad(r, zero ? 120 : 32, "the index has a header with numbers out of range");
	if (ix->chunk_size < 1 || ix->overlap >= ix->chunk_size)
		return bad(r, 44, "the index has chunks of an impossible size");
	if (!whole_size(s, &n) || n != r->n)
		return bad(r, 32, "the index has parts that do not add up to its size");
	return COHORT_OK;
}

/* A copy with a NUL behind. */
static char *take_text(struct reader *r, uint64_t n)
{
	char *s = mem_strndup((const char *)r->bytes + r->at, (size_t)n);
	r->at += (size_t)n;
	return s;
}

static enum cohort_status decode_files(struct reader *r, struct doc_index *ix, const struct sizes *s)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < s->n_files; i++) {
		const size_t at = r->at, n = (size_t)take(r, 4);
		if (n < 1 || n > s->n_paths - sum)
			return bad(r, at, "a path of the index has a wrong length");
		ix->files[i] = (struct doc_file){(size_t)sum, n};
		sum += n;
	}
	if (sum != s->n_paths)
		return bad(r, r->at, "the paths of the index do not add up");
	if (memchr(r->bytes + r->at, '\0', (size_t)s->n_paths))
		return bad(r, r->at, "a path of the index has a NUL within");
	memcpy(ix->paths, r->bytes + r->at, (size_t)s->n_paths);
	r->at += (size_t)s->n_paths;
	return COHORT_OK;
}

static enum cohort_status decode_chunks(struct reader *r, struct doc_index *ix, const struct sizes *s)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < s->n_chunks; i++) {
		struct doc_chunk *c = &ix->chunks[i];
		const size_t at = r->at;
		c->file = (uint32_t)take(r, 4);
		c->first_line = (uint32_t)take(r, 4);
		c->last_line = (uint32_t)take(r, 4);
		c->n_bytes = (uint32_t)take(r, 4);
		c->begin = take(r, 8);
		c->text = (size_t)sum;
		if (c->file >= s->n_files || c->first_line < 1 || c->last_line < c->first_line)
			return bad(r, at, "a chunk of the index has a place that cannot be");
		if (c->n_bytes < 1 || c->n_bytes > s->n_texts - sum || c->begin > UINT64_MAX - c->n_bytes)
			return bad(r, at, "a chunk of the index has a wrong length");
		sum += c->n_bytes;
	}
	if (sum != s->n_texts)
		return bad(r, r->at, "the texts of the index do not add up");
	memcpy(ix->texts, r->bytes + r->at, (size_t)s->n_texts);
	r->at += (size_t)s->n_texts;
	return COHORT_OK;
}

static enum cohort_status decode_vectors(struct reader *r, struct doc_index *ix, const struct sizes *s)
{
	for (size_t i = 0; i < (size_t)s->n_chunks * (size_t)s->n_embd; i++) {
		const size_t at = r->at;
		const uint32_t u = (uint32_t)take(r, 4);
		memcpy(&ix->vectors[i], &u, 4);
		if (!isfinite(ix->vectors[i]))
			return bad(r, at, "a vector of the index is not finite");
	}
	return COHORT_OK;
}

static enum cohort_status decode(struct reader *r, struct doc_index *ix)
{
	struct sizes s = {0};
	enum cohort_status st = decode_head(r, ix, &s);

	if (st)
		return st;
	/* All counts are bounded by the size of the file now. */
	const size_t at = r->at;
	ix->model.arch = take_text(r, s.n_arch);
	ix->model.name = take_text(r, s.n_name);
	ix->separator = take_text(r, s.n_separator);
	ix->files = mem_alloc((size_t)s.n_files, sizeof *ix->files);
	ix->paths = mem_alloc((size_t)s.n_paths + 1, 1);
	ix->chunks = mem_alloc((size_t)s.n_chunks, sizeof *ix->chunks);
	ix->texts = mem_alloc((size_t)s.n_texts + 1, 1);
	ix->vectors = mem_alloc((size_t)s.n_chunks * (size_t)s.n_embd, sizeof *ix->vectors);
	if (!ix->model.arch || !ix->model.name || !ix->separator || !ix->files || !ix->paths || !ix->chunks ||
			!ix->texts || !ix->vectors)
		return err_set(r->err, COHORT_E_MEMORY, "no memory for an index of %zu bytes", r->n);
	if (strlen(ix->model.arch) != s.n_arch || strlen(ix->model.name) != s.n_name)
		return bad(r, at, "the name of the index's model has a NUL within");
	st = decode_files(r, ix, &s);
	if (!st)
		st = decode_chunks(r, ix, &s);
	if (!st)
		st = decode_vectors(r, ix, &s);
	ix->n_separator = (size_t)s.n_separator;
	ix->n_files = ix->files_max = (size_t)s.n_files;
	ix->n_paths = (size_t)s.n_paths;
	ix->paths_max = ix->n_paths + 1;
	ix->n_chunks = ix->chunks_max = (size_t)s.n_chunks;
	ix->n_texts = (size_t)s.n_texts;
	ix->texts_max = ix->n_texts + 1;
	return st;
}

enum cohort_status doc_index_decode(struct doc_index *ix, const uint8_t *bytes, size_t n, struct cohort_err *err)
{
	struct reader r = {bytes, n, 0, err};

	*ix = (struct doc_index){0};
	const enum cohort_status st = decode(&r, ix);
	if (st)
		doc_index_release(ix);
	return st;
}
