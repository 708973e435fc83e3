/* CPU weights: each matrix in the layout its level likes best, repacked once at load by all threads.
 *
 * Invariants
 *  1. A matrix is either read where the file has it or from one packed copy. All copies lie in one piece of memory, in
 *     the model's order, which is the order of use: so large pages fit, and what one product asks for ahead of itself
 *     is the next one's.
 *  2. In the file's layout (shared with other processes) quantised matrices are packed a few rows at a time whenever
 *     they are used, as only packed ones have fast kernels; floats are used as they are.
 *  3. Matrices are packed a slice at a time, and the file's pages are given back after each: both layouts are in memory
 *     for one slice only. Rows of the token embedding are looked up in the file; the pages that takes come back. */
#include "backend/cpu.h"

#include "base/mem.h"

enum { SLICE_BYTES = 16 << 20 };

struct loading {
	struct be_weights *w;
	const struct model *m;
	struct pool *pool;
	bool (*progress)(float, void *);
	void *user;
	uint64_t n_done; /* bytes of the file */
};

struct pack_job {
	const struct kern_mat *mat;
	const struct model_weight *mw;
	void *to;
	size_t row0;
};

static void pack_share(void *arg, size_t from, size_t to, size_t thread)
{
	const struct pack_job *j = arg;
	(void)thread;
	j->mat->pack(j->to, j->mw->data, j->mw->n_rows, j->mw->k, j->row0 + from, j->row0 + to);
}

static bool wanted(const struct model *m, const struct model_weight *w)
{
	return w->product || (w == m->token_embd && m->output == w);
}

/* The packed layout a matrix gets, or NULL. */
static const struct kern_mat *layout_of(
		const struct be_weights *w, const struct model *m, const struct model_weight *mw)
{
	const struct kern_mat *mat = &w->kern->packed[mw->type];
	return wanted(m, mw) && mat->mm ? mat : NULL;
}

/* Room in the packed piece, in whole cache lines. */
static bool room_of(const struct kern_mat *mat, const struct model_weight *mw, size_t *bytes)
{
	return size_add(mat->packed_bytes(mw->n_rows, mw->k), 63, bytes) && (*bytes &= ~(size_t)63, true);
}

/* `bytes` more of the file are done. */
static bool go_on(struct loading *l, uint64_t bytes)
{
	l->n_done += bytes;
	return !l->progress || l->progress((float)((double)l->n_done / (double)l->m->weight_bytes), l->user);
}

static bool pack(struct loading *l, const struct kern_mat *mat, const struct model_weight *mw, void *to)
{
	const uint64_t row_bytes = mw->row_bytes;
	const uint64_t first = (uint64_t)((const uint8_t *)mw->data - (const uint8_t *)mw->tensor->data);
	size_t slice = SLICE_BYTES / (row_bytes + 1) / mat->unit * mat->unit;
	slice = slice ? slice : mat->unit;

	for (size_t row = 0; row < mw->n_rows; row += slice) {
		const size_t n = mw->n_rows - row < slice ? mw->n_rows - row : slice;
		pool_run(l->pool, n, mat->unit, pack_share, &(struct pack_job){mat, mw, to, row});
		/* Rows of the embedding are still looked up in the file. */
		(mw == l->m->token_embd ? gguf_drop : gguf_forget)(
				l->m->gguf, mw->tensor, first + row * row_bytes, n * row_bytes);
		if (!go_on(l, n * row_bytes))
			return false;
	}
	return true;
}

static enum cohort_status load(struct loading *l, bool file_layout, struct cohort_err *err)
{
	struct be_weights *w = l->w;
	const struct model *m = l->m;
	bool going = true;

	for (size_t i = 0; i < m->n_weights && !file_layout; i++) {
		const struct kern_mat *mat = layout_of(w, m, &m->weights[i]);
		size_t bytes;
		if (!mat)
			continue;
		if (!room_of(mat, &m->weights[i], &bytes) || !size_add(w->packed_bytes, bytes, &w->packed_bytes))
			return err_set(err, COHORT_E_LIMIT, "the weights are too large for this machine");
	}
	if (w->packed_bytes && !(w->packed = mem_zalloc_large(w->packed_bytes)))
		return err_set(err, COHORT_E_MEMORY, "out of memory for %zu bytes of weights", w->packed_bytes);

	uint8_t *at = w->packed;
	for (size_t i = 0; i < m->n_weights && going; i++) {
		const struct model_weight *mw = &m->weights[i];
		const struct kern_mat *mat = layout_of(w, m, mw);
		if (mat && !file_layout) {
			size_t bytes;
			room_of(mat, mw, &bytes);
			w->w[i] = (struct be_weight){.mat = mat, .data = at};
			going = pack(l, mat, mw, at);
			at += bytes;
		} else {
			const bool loose = mat && quant_format_get(mw->type)->act != QUANT_ACT_F32;
			w->w[i] = (struct be_weight){loose ? mat : &w->kern->file[mw->type], mw->data, loose};
			going = go_on(l, (uint64_t)mw->n_rows * mw->row_bytes);
		}
	}
	return going ? COHORT_OK : err_set(err, COHORT_ABORTED, "loading aborted by the caller");
}

enum cohort_status be_cpu_weights_open(struct be_weights **out, const struct model *m, size_t level, bool file_layout,
		size_t n_threads, bool (*progress)(float, void *), void *user, struct cohort_err *err)
{
	struct be_weights *w = mem_zalloc(1, sizeof *w);
	struct pool *pool = NULL;
	enum cohort_status st;

	if (!w)
		return err_set(err, COHORT_E_MEMORY, "out of memory");
	w->kern = kern_get(level);
	w->n = m->n_weights;
	w->w = mem_zalloc(w->n, sizeof *w->w);
	pool = pool_open(n_threads ? n_threads : pool_cpu_count());
	if (!w->kern)
		st = err_set(err, COHORT_E_UNSUPPORTED, "this CPU cannot run level %zu", level);
	else if (!w->w || !pool)
		st = err_set(err, COHORT_E_MEMORY, "out of memory for weights");
	else
		st = load(&(struct loading){.w = w, .m = m, .pool = pool, .progress = progress, .user = user},
				file_layout, err);
	pool_free(pool);
	if (st != COHORT_OK)
		be_cpu_weights_free(w);
	else
		*out = w;
	return st;
}

/* Calls f on every piece of memory that weights are read from, until one call returns false. */
static bool each_piece(const struct be_weights *w, const struct model *m, bool (*f)(const void *, size_t, void *),
		void *user)
{
	for (size_t i = 0; i < m->n_weights; i++) {
		const struct model_weight *mw = &m->weights[i];
		const bool from_file = w->w[i].data == mw->data || mw == m->token_embd;
		if (from_file && !f(mw->data, mw->n_rows * mw->row_bytes, user))
			return false;
	}
	return !w->packed_bytes || f(w->packed, w->packed_bytes, user);
}

struct locking {
	bool (*progress)(float, void *);
	void *user;
	uint64_t n_bytes, n_done;
	int error;
	bool aborted;
};

static bool add_bytes(const void *p, size_t n_bytes, void *user)
{
	struct locking *l = user;
	(void)p;
	l->n_bytes += n_bytes;
	return true;
}

static bool lock_piece(const void *p, size_t n_bytes, void *user)
{
	struct locking *l = user;

	if ((l->error = map_lock(p, n_bytes)))
		return false;
	l->n_done += n_bytes;
	l->aborted = l->progress && !l->progress((float)((double)l->n_done / (double)l->n_bytes), l->user);
	return !l->aborted;
}

static bool unlock_piece(const void *p, size_t n_bytes, void *user)
{
	(void)user;
	map_unlock(p, n_bytes);
	return true;
}

enum cohort_status be_cpu_weights_lock(struct be_weights *w, const struct model *m, bool (*progress)(float, void *),
		void *user, struct be_lock *out, struct cohort_err *err)
{
	struct locking l = {.progress = progress, .user = user};

	each_piece(w, m, add_bytes, &l);
	if (each_piece(w, m, lock_piece, &l))
		w->locked = m;
	else
		each_piece(w, m, unlock_piece, NULL);
	*out = (struct be_lock){.error = l.error, .n_bytes = l.n_bytes};
	return l.aborted ? err_set(err, COHORT_ABORTED, "loading aborted by the caller") : COHORT_OK;
}

void be_cpu_weights_free(struct be_weights *w)
{
	if (w) {
		if (w->locked)
			each_piece(w, w->locked, unlock_piece, NULL);
		mem_free_aligned(w->packed);
		mem_free(w->w);
		mem_free(w);
	}
}

uint64_t be_cpu_packed_bytes(const struct be_weights *w)
{
	return w->packed_bytes;
}

size_t be_cpu_level_count(void)
{
	return kern_count();
}
const char *be_cpu_level_name(size_t level)
{
	return kern_name(level);
}
bool be_cpu_level_usable(size_t level)
{
	return kern_usable(level);
}
const char *be_cpu_level_failed(size_t level)
{
	return kern_failed(level);
}
size_t be_cpu_level_best(void)
{
	return kern_best();
}
size_t be_kv_block(void)
{
	return KERN_KV_BLOCK;
}
