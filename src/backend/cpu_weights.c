/* CPU weights: each matrix in the layout its level likes best.
 *
 * Invariants
 *  1. A matrix is either read where the file has it or from one packed copy. All copies lie in one piece of memory, in
 *     the model's order, which is the order of use: so large pages fit, and what one product asks for ahead of itself
 *     is the next one's.
 *  2. In the file's layout (shared with other processes) quantised matrices are packed a few rows at a time whenever
 *     they are used, as only packed ones have fast kernels; floats are used as they are.
 *  3. Matrices of a mapped file are packed by the first products that use them, which would pack their rows anyway:
 *     a start costs little more than in the file's layout. One context claims a matrix and packs it; others use the
 *     file's rows until it is published, with the same bits. Whatever goes wrong, a matrix that is not published is
 *     used as the file has it.
 *  4. Matrices are packed a slice at a time, and the file's pages are given back after each: both layouts are in memory
 *     for one slice only. Rows of the token embedding are looked up in the file; the pages that takes come back.
 *  5. A row's sum depends on its bytes and its place in the tensor, and those of a matrix are added up: so it is the
 *     same in whatever order rows are packed, at whatever level, or when they are summed without being packed. */
#include "backend/cpu.h"

#include "base/mem.h"
#include "base/sum.h"

enum { SLICE_BYTES = 16 << 20 };

/* Where a row lies in its tensor. */
static uint64_t offset_of(const struct model_weight *mw, size_t row)
{
	return (uint64_t)((const uint8_t *)mw->data - mw->tensor->data) + (uint64_t)row * mw->row_bytes;
}

static uint64_t sum_rows(const struct model_weight *mw, size_t from, size_t to)
{
	uint64_t sum = 0;

	for (size_t r = from; r < to; r++)
		sum += sum_large(offset_of(mw, r), (const uint8_t *)mw->data + r * mw->row_bytes, mw->row_bytes);
	return sum;
}

/* ---- Packing a matrix ---- */

bool cpu_weight_claim(struct be_weight *bw)
{
	enum weight_state expected = WEIGHT_IN_FILE;

	return bw->place && atomic_compare_exchange_strong(&bw->state, &expected, WEIGHT_CLAIMED);
}

/* Summed while the rows are still in the cache. */
void cpu_weight_pack(struct be_weight *bw, size_t from, size_t to)
{
	const struct model_weight *mw = bw->mw;
	uint64_t sum = 0;

	for (size_t r = from; r < to; r += CPU_MM_UNIT) {
		const size_t end = to - r < CPU_MM_UNIT ? to : r + CPU_MM_UNIT;
		bw->packed->pack(bw->place, mw->data, mw->n_rows, mw->k, r, end);
		sum += sum_rows(mw, r, end);
	}
	atomic_fetch_add(&bw->sum, sum);
}

void cpu_weight_give_back(const struct be_weights *w, const struct be_weight *bw, size_t from, size_t to)
{
	/* Rows of the embedding are still looked up in the file. */
	(bw->mw == w->m->token_embd ? gguf_drop : gguf_forget)(w->m->gguf, bw->mw->tensor, offset_of(bw->mw, from),
			(uint64_t)(to - from) * bw->mw->row_bytes);
}

void cpu_weight_publish(struct be_weights *w, struct be_weight *bw)
{
	bw->n_done = bw->mw->n_rows;
	atomic_store(&bw->state, WEIGHT_PACKED);
	atomic_fetch_sub(&w->n_left, 1);
}

struct pack_job {
	struct be_weight *bw;
	size_t row0;
};

static void pack_share(void *arg, size_t from, size_t to, size_t thread)
{
	const struct pack_job *j = arg;
	(void)thread;
	cpu_weight_pack(j->bw, j->row0 + from, j->row0 + to);
}

static size_t slice_rows(const struct model_weight *mw)
{
	const size_t n = SLICE_BYTES / (mw->row_bytes + 1) / CPU_MM_UNIT * CPU_MM_UNIT;
	return n ? n : CPU_MM_UNIT;
}

/* One slice more of a claimed matrix; how many bytes of the file that were. */
static uint64_t pack_slice(const struct be_weights *w, struct pool *pool, struct be_weight *bw)
{
	const size_t left = bw->mw->n_rows - bw->n_done, slice = slice_rows(bw->mw), n = left < slice ? left : slice;

	pool_run(pool, n, CPU_MM_UNIT, pack_share, &(struct pack_job){bw, bw->n_done});
	cpu_weight_give_back(w, bw, bw->n_done, bw->n_done + n);
	bw->n_done += n;
	return (uint64_t)n * bw->mw->row_bytes;
}

/* ---- Opening ---- */

struct loading {
	struct be_weights *w;
	struct pool *pool; /* NULL: nothing is packed now */
	bool (*progress)(float, void *);
	void *user;
	uint64_t n_done; /* bytes of the file */
};

static bool wanted(const struct model *m, const struct model_weight *w)
{
	return w->product || (w == m->token_embd && m->output == w);
}

/* Room in the packed piece, in whole cache lines. */
static bool room_of(const struct be_weight *bw, size_t *bytes)
{
	return size_add(bw->packed->packed_bytes(bw->mw->n_rows, bw->mw->k), 63, bytes) &&
			(*bytes &= ~(size_t)63, true);
}

/* `bytes` more of the file are done. */
static bool go_on(struct loading *l, uint64_t bytes)
{
	l->n_done += bytes;
	return !l->progress || l->progress((float)((double)l->n_done / (double)l->w->m->weight_bytes), l->user);
}

/* All as the file has it. */
static void init_weights(struct be_weights *w)
{
	const struct model *m = w->m;

	for (size_t i = 0; i < w->n; i++) {
		const struct model_weight *mw = &m->weights[i];
		const struct kern_mat *packed = &w->kern->packed[mw->type];
		struct be_weight *bw = &w->w[i];
		bw->mw = mw;
		bw->packed = wanted(m, mw) && packed->mm ? packed : NULL;
		bw->loose = bw->packed && quant_format_get(mw->type)->act != QUANT_ACT_F32;
		bw->mat = bw->loose ? packed : &w->kern->file[mw->type];
	}
}

/* A place for each matrix that has a better layout. */
static enum cohort_status give_places(struct be_weights *w, struct cohort_err *err)
{
	size_t bytes;

	for (size_t i = 0; i < w->n; i++)
		if (w->w[i].packed && !(room_of(&w->w[i], &bytes) &&
						      size_add(w->packed_bytes, bytes, &w->packed_bytes)))
			return err_set(err, COHORT_E_LIMIT, "the weights are too large for this machine");
	if (w->packed_bytes && !(w->packed = mem_zalloc_large(w->packed_bytes)))
		return err_set(err, COHORT_E_MEMORY, "out of memory for %zu bytes of weights", w->packed_bytes);
	uint8_t *at = w->packed;
	for (size_t i = 0; i < w->n; i++)
		if (w->w[i].packed) {
			room_of(&w->w[i], &bytes);
			w->w[i].place = at;
			at += bytes;
			w->n_left++;
		}
	return COHORT_OK;
}

static bool load(struct loading *l)
{
	bool going = true;

	for (size_t i = 0; i < l->w->n && going; i++) {
		struct be_weight *bw = &l->w->w[i];
		if (!l->pool || !cpu_weight_claim(bw)) {
			going = go_on(l, (uint64_t)bw->mw->n_rows * bw->mw->row_bytes);
			continue;
		}
		while (going && bw->n_done < bw->mw->n_rows)
			going = go_on(l, pack_slice(l->w, l->pool, bw));
		if (going)
			cpu_weight_publish(l->w, bw);
	}
	return going;
}

enum cohort_status be_cpu_weights_open(struct be_weights **out, const struct model *m, size_t level,
		enum be_repack repack, size_t n_threads, bool (*progress)(float, void *), void *user,
		struct cohort_err *err)
{
	struct be_weights *w = mem_zalloc(1, sizeof *w);
	struct pool *pool = NULL;
	enum cohort_status st = COHORT_OK;

	if (!w)
		return err_set(err, COHORT_E_MEMORY, "out of memory");
	w->kern = kern_get(level);
	w->m = m;
	w->n = m->n_weights;
	w->w = mem_zalloc(w->n, sizeof *w->w);
	if (repack == BE_REPACK_NOW)
		pool = pool_open(n_threads ? n_threads : pool_cpu_count());
	if (!w->kern)
		st = err_set(err, COHORT_E_UNSUPPORTED, "this CPU cannot run level %zu", level);
	else if (!w->w || (repack == BE_REPACK_NOW && !pool))
		st = err_set(err, COHORT_E_MEMORY, "out of memory for weights");
	else
		init_weights(w);
	if (!st && repack != BE_REPACK_NEVER)
		st = give_places(w, err);
	if (!st && !load(&(struct loading){.w = w, .pool = pool, .progress = progress, .user = user}))
		st = err_set(err, COHORT_ABORTED, "loading aborted by the caller");
	pool_free(pool);
	if (st != COHORT_OK)
		be_cpu_weights_free(w);
	else
		*out = w;
	return st;
}

/* ---- While it is used ---- */

/* What part of the bytes that are to be packed is; 1 also when others are about to pack the rest. */
static double share_done(const struct be_weights *w)
{
	uint64_t done = 0, all = 0;
	bool left = false;

	for (size_t i = 0; i < w->n && atomic_load(&w->n_left); i++) {
		const struct be_weight *bw = &w->w[i];
		const uint64_t n = bw->place ? (uint64_t)bw->mw->n_rows * bw->mw->row_bytes : 0;
		all += n;
		done += atomic_load(&bw->state) == WEIGHT_PACKED ? n : 0;
		left |= n && atomic_load(&bw->state) == WEIGHT_IN_FILE;
	}
	return left ? (double)done / (double)all : 1;
}

double cpu_settle(struct be *be, double seconds)
{
	struct be_weights *w = be->w;
	const double until = clock_now() + seconds;
	bool late = false;

	for (size_t i = 0; i < w->n && !late && atomic_load(&w->n_left); i++) {
		struct be_weight *bw = &w->w[i];
		if (!cpu_weight_claim(bw))
			continue;
		while (bw->n_done < bw->mw->n_rows && !late) {
			pack_slice(w, be->pool, bw);
			late = clock_now() >= until;
		}
		if (bw->n_done == bw->mw->n_rows)
			cpu_weight_publish(w, bw);
		else
			atomic_store(&bw->state, WEIGHT_IN_FILE);
	}
	return share_done(w);
}

struct sum_job {
	const struct model_weight *mw;
	size_t row0;
	_Atomic uint64_t sum;
};

static void sum_share(void *arg, size_t from, size_t to, size_t thread)
{
	struct sum_job *j = arg;
	(void)thread;
	atomic_fetch_add(&j->sum, sum_rows(j->mw, j->row0 + from, j->row0 + to));
}

/* Pages are given back, unless products use them. */
uint64_t cpu_weight_sum(struct be *be, const struct model_weight *mw)
{
	const struct be_weight *bw = &be->w->w[mw->index];
	const size_t slice = slice_rows(mw);
	struct sum_job j = {.mw = mw};

	if (atomic_load(&bw->state) == WEIGHT_PACKED)
		return atomic_load(&bw->sum);
	for (; j.row0 < mw->n_rows; j.row0 += slice) {
		const size_t n = mw->n_rows - j.row0 < slice ? mw->n_rows - j.row0 : slice;
		pool_run(be->pool, n, CPU_MM_UNIT, sum_share, &j);
		if (bw->place || !mw->product)
			gguf_drop(be->m->gguf, mw->tensor, offset_of(mw, j.row0), (uint64_t)n * mw->row_bytes);
	}
	return atomic_load(&j.sum);
}

/* ---- Locking and freeing ---- */

/* Calls f on every piece of memory that weights are read from, until one call returns false. */
static bool each_piece(const struct be_weights *w, bool (*f)(const void *, size_t, void *), void *user)
{
	for (size_t i = 0; i < w->n; i++) {
		const struct model_weight *mw = w->w[i].mw;
		if ((!w->w[i].place || mw == w->m->token_embd) && !f(mw->data, mw->n_rows * mw->row_bytes, user))
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

enum cohort_status be_cpu_weights_lock(struct be_weights *w, bool (*progress)(float, void *), void *user,
		struct be_lock *out, struct cohort_err *err)
{
	struct locking l = {.progress = progress, .user = user};

	each_piece(w, add_bytes, &l);
	if (each_piece(w, lock_piece, &l))
		w->locked = true;
	else
		each_piece(w, unlock_piece, NULL);
	*out = (struct be_lock){.error = l.error, .n_bytes = l.n_bytes};
	return l.aborted ? err_set(err, COHORT_ABORTED, "loading aborted by the caller") : COHORT_OK;
}

void be_cpu_weights_free(struct be_weights *w)
{
	if (w) {
		if (w->locked)
			each_piece(w, unlock_piece, NULL);
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
