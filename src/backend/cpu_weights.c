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

#include "base/map.h"
#include "base/mem.h"
#include "base/sum.h"

enum { SLICE_BYTES = 16 << 20 };

static uint64_t sum_rows(const struct model_weight *mw, size_t from, size_t to)
{
	uint64_t sum = 0;

	for (size_t r = from; r < to; r++)
		sum += sum_large(mw->offset + (uint64_t)r * mw->row_bytes,
				(const uint8_t *)mw->data + r * mw->row_bytes, mw->row_bytes);
	return sum;
}

/* ---- Packing a matrix ---- */

bool cpu_weight_claim(struct cpu_weight *bw)
{
	enum weight_state expected = WEIGHT_IN_FILE;

	return bw->place && atomic_compare_exchange_strong(&bw->state, &expected, WEIGHT_CLAIMED);
}

/* Summed while the rows are still in the cache. */
void cpu_weight_pack(struct cpu_weight *bw, size_t from, size_t to)
{
	const struct model_weight *mw = &bw->mw;
	uint64_t sum = 0;

	for (size_t r = from; r < to; r += CPU_MM_UNIT) {
		const size_t end = to - r < CPU_MM_UNIT ? to : r + CPU_MM_UNIT;
		bw->packed->pack(bw->place, mw->data, mw->n_rows, mw->k, r, end);
		sum += sum_rows(mw, r, end);
	}
	atomic_fetch_add(&bw->sum, sum);
}

void cpu_weight_give_back(const struct cpu_weights *w, const struct cpu_weight *bw, size_t from, size_t to)
{
	w->source.give_back(w->source.user, &bw->mw, from, to, bw->mw.lookup);
}

void cpu_weight_publish(struct cpu_weights *w, struct cpu_weight *bw)
{
	bw->n_done = bw->mw.n_rows;
	atomic_store(&bw->state, WEIGHT_PACKED);
	atomic_fetch_sub(&w->n_left, 1);
}

struct pack_job {
	struct cpu_weight *bw;
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
static uint64_t pack_slice(const struct cpu_weights *w, struct pool *pool, struct cpu_weight *bw)
{
	const size_t left = bw->mw.n_rows - bw->n_done, slice = slice_rows(&bw->mw), n = left < slice ? left : slice;

	pool_run(pool, n, CPU_MM_UNIT, pack_share, &(struct pack_job){bw, bw->n_done});
	cpu_weight_give_back(w, bw, bw->n_done, bw->n_done + n);
	bw->n_done += n;
	return (uint64_t)n * bw->mw.row_bytes;
}

/* ---- Opening ---- */

struct loading {
	struct cpu_weights *w;
	struct pool *pool; /* NULL: nothing is packed now */
	bool (*progress)(float, void *);
	void *user;
	uint64_t n_done, n_all; /* bytes of the file */
};

/* Room in the packed piece, in whole cache lines. */
static bool room_of(const struct cpu_weight *bw, size_t *bytes)
{
	return size_add(bw->packed->packed_bytes(bw->mw.n_rows, bw->mw.k), 63, bytes) &&
			(*bytes &= ~(size_t)63, true);
}

/* `bytes` more of the file are done. */
static bool go_on(struct loading *l, uint64_t bytes)
{
	l->n_done += bytes;
	return !l->progress || l->progress((float)((double)l->n_done / (double)l->n_all), l->user);
}

/* All as the file has it. A share of a product's rows is a matrix of its own. */
static void init_weights(struct cpu_weights *w, const struct be_weights_params *p)
{
	for (size_t i = 0; i < w->source.n; i++) {
		struct cpu_weight *bw = &w->w[i];
		bw->mw = w->source.weights[i];
		bw->held = !w->source.wanted || w->source.wanted[i];
		if (bw->mw.product) {
			const struct be_range rows = be_share(bw->mw.n_rows, p->rank, p->of);
			bw->row0 = rows.from;
			bw->mw.n_rows = rows.to - rows.from;
			bw->mw.offset += (uint64_t)rows.from * bw->mw.row_bytes;
			bw->mw.data = (const uint8_t *)bw->mw.data + rows.from * bw->mw.row_bytes;
		}
		const struct kern_mat *packed = &w->kern->packed[bw->mw.type];
		bw->packed = bw->held && bw->mw.product && bw->mw.n_rows && packed->mm ? packed : NULL;
		bw->loose = bw->packed && quant_format_get(bw->mw.type)->act != QUANT_ACT_F32;
		bw->mat = bw->loose ? packed : &w->kern->file[bw->mw.type];
	}
}

static uint64_t bytes_of(const struct cpu_weight *bw)
{
	return bw->held ? (uint64_t)bw->mw.n_rows * bw->mw.row_bytes : 0;
}

/* A place for each matrix that has a better layout. */
static enum cohort_status give_places(struct cpu_weights *w, struct cohort_err *err)
{
	size_t bytes, all = 0;

	for (size_t i = 0; i < w->source.n; i++)
		if (w->w[i].packed && !(room_of(&w->w[i], &bytes) && size_add(all, bytes, &all)))
			return err_set(err, COHORT_E_LIMIT, "the weights are too large for this machine");
	if (all && !(w->packed = mem_zalloc_large(all)))
		return err_set(err, COHORT_E_MEMORY, "out of memory for %zu bytes of weights", all);
	w->base.packed_bytes = all;
	uint8_t *at = w->packed;
	for (size_t i = 0; i < w->source.n; i++)
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

	for (size_t i = 0; i < l->w->source.n; i++)
		l->n_all += bytes_of(&l->w->w[i]);
	for (size_t i = 0; i < l->w->source.n && going; i++) {
		struct cpu_weight *bw = &l->w->w[i];
		if (!l->pool || !cpu_weight_claim(bw)) {
			going = go_on(l, bytes_of(bw));
			continue;
		}
		while (going && bw->n_done < bw->mw.n_rows)
			going = go_on(l, pack_slice(l->w, l->pool, bw));
		if (going)
			cpu_weight_publish(l->w, bw);
	}
	return going;
}

enum cohort_status cpu_weights_open(struct be_weights **out, const struct be_source *source,
		const struct be_weights_params *params, struct cohort_err *err)
{
	struct cpu_weights *w = mem_zalloc(1, sizeof *w);
	struct pool *pool = NULL;
	enum cohort_status st = COHORT_OK;

	if (!w)
		return err_set(err, COHORT_E_MEMORY, "out of memory");
	w->base.ops = &be_cpu;
	w->kern = kern_get(params->level);
	w->source = *source;
	w->w = mem_zalloc(source->n, sizeof *w->w);
	if (params->repack == BE_REPACK_NOW)
		pool = pool_open(params->n_threads ? params->n_threads : pool_cpu_count());
	if (!w->kern)
		st = err_set(err, COHORT_E_UNSUPPORTED, "this CPU cannot run level %zu", params->level);
	else if (!w->w || (params->repack == BE_REPACK_NOW && !pool))
		st = err_set(err, COHORT_E_MEMORY, "out of memory for weights");
	else
		init_weights(w, params);
	if (!st && params->repack != BE_REPACK_NEVER)
		st = give_places(w, err);
	if (!st && !load(&(struct loading){.w = w,
				    .pool = pool,
				    .progress = params->progress,
				    .user = params->progress_user}))
		st = err_set(err, COHORT_ABORTED, "loading aborted by the caller");
	pool_free(pool);
	if (st != COHORT_OK)
		cpu_weights_free(&w->base);
	else
		*out = &w->base;
	return st;
}

/* ---- While it is used ---- */

/* What part of the bytes that are to be packed is; 1 also when others are about to pack the rest. */
static double share_done(const struct cpu_weights *w)
{
	uint64_t done = 0, all = 0;
	bool left = false;

	for (size_t i = 0; i < w->source.n && atomic_load(&w->n_left); i++) {
		const struct cpu_weight *bw = &w->w[i];
		const uint64_t n = bw->place ? bytes_of(bw) : 0;
		all += n;
		done += atomic_load(&bw->state) == WEIGHT_PACKED ? n : 0;
		left |= n && atomic_load(&bw->state) == WEIGHT_IN_FILE;
	}
	return left ? (double)done / (double)all : 1;
}

double cpu_repack(struct be *be, double seconds)
{
	struct cpu *c = (struct cpu *)be;
	struct cpu_weights *w = c->w;
	const double until = clock_now() + seconds;
	bool late = false;

	for (size_t i = 0; i < w->source.n && !late && atomic_load(&w->n_left); i++) {
		struct cpu_weight *bw = &w->w[i];
		if (!cpu_weight_claim(bw))
			continue;
		while (bw->n_done < bw->mw.n_rows && !late) {
			pack_slice(w, c->pool, bw);
			late = clock_now() >= until;
		}
		if (bw->n_done == bw->mw.n_rows)
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

/* Pages are given back, unless products use them. Rows outside the share are never packed. */
uint64_t cpu_weight_sum(struct be *be, const struct model_weight *mw)
{
	struct cpu *c = (struct cpu *)be;
	const struct cpu_weight *bw = &c->w->w[mw->index];
	const bool packed = atomic_load(&bw->state) == WEIGHT_PACKED;
	const size_t slice = slice_rows(mw), end = bw->row0 + bw->mw.n_rows;
	struct sum_job j = {.mw = mw};
	uint64_t sum = packed ? atomic_load(&bw->sum) : 0;

	while (j.row0 < mw->n_rows) {
		if (packed && j.row0 == bw->row0) {
			j.row0 = end;
			continue;
		}
		const size_t stop = packed && j.row0 < bw->row0 ? bw->row0 : mw->n_rows;
		const size_t n = stop - j.row0 < slice ? stop - j.row0 : slice;
		pool_run(c->pool, n, CPU_MM_UNIT, sum_share, &j);
		if (bw->place || !mw->product)
			c->w->source.give_back(c->w->source.user, mw, j.row0, j.row0 + n, true);
		j.row0 += n;
	}
	return sum + atomic_load(&j.sum);
}

/* ---- Locking and freeing ---- */

/* Calls f on every piece of memory that weights are read from, until one call returns false. */
static bool each_piece(const struct cpu_weights *w, bool (*f)(const void *, size_t, void *), void *user)
{
	for (size_t i = 0; i < w->source.n; i++) {
		const struct cpu_weight *bw = &w->w[i];
		const struct model_weight *mw = bw->mw.lookup ? &w->source.weights[i] : &bw->mw;
		if (bw->held && (!bw->place || mw->lookup) && mw->n_rows &&
				!f(mw->data, mw->n_rows * mw->row_bytes, user))
			return false;
	}
	return !w->base.packed_bytes || f(w->packed, w->base.packed_bytes, user);
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

enum cohort_status cpu_weights_lock(struct be_weights *weights, bool (*progress)(float, void *), void *user,
		struct be_lock *out, struct cohort_err *err)
{
	struct cpu_weights *w = (struct cpu_weights *)weights;
	struct locking l = {.progress = progress, .user = user};

	each_piece(w, add_bytes, &l);
	if (each_piece(w, lock_piece, &l))
		w->locked = true;
	else
		each_piece(w, unlock_piece, NULL);
	*out = (struct be_lock){.error = l.error, .n_bytes = l.n_bytes};
	return l.aborted ? err_set(err, COHORT_ABORTED, "loading aborted by the caller") : COHORT_OK;
}

void cpu_weights_free(struct be_weights *weights)
{
	struct cpu_weights *w = (struct cpu_weights *)weights;

	if (w) {
		if (w->locked)
			each_piece(w, unlock_piece, NULL);
		mem_free_aligned(w->packed);
		mem_free(w->w);
		mem_free(w);
	}
}
