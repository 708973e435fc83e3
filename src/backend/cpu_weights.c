/* CPU weights: each matrix in the layout its level likes best, repacked once at load by all threads.
 *
 * Invariants
 *  1. A matrix is either read where the file has it or from one packed copy; after packing, the file's pages are given
 *     back.
 *  2. The token embedding stays in the file's layout too, as rows are looked up in it. */
#include "backend/cpu.h"

#include "base/mem.h"

struct pack_job {
	const struct model_weight *mw;
	struct be_weight *bw;
};

static void pack_share(void *arg, size_t from, size_t to, size_t thread)
{
	struct pack_job *j = arg;
	(void)thread;
	j->bw->mat->pack(j->bw->packed, j->mw->data, j->mw->n_rows, j->mw->k, from, to);
}

static bool wanted(const struct model *m, const struct model_weight *w)
{
	return w->n_rows > 1 && (w != m->token_embd || m->output == m->token_embd);
}

enum cohort_status be_cpu_weights_open(struct be_weights **out, const struct model *m, size_t level, bool file_layout,
		size_t n_threads, bool (*progress)(float, void *), void *user, struct cohort_err *err)
{
	struct be_weights *w = mem_zalloc(1, sizeof *w);
	struct pool *pool = NULL;
	enum cohort_status st = COHORT_OK;
	uint64_t done = 0;

	if (!w)
		return err_set(err, COHORT_E_MEMORY, "out of memory");
	w->kern = kern_get(level);
	w->n = m->n_weights;
	w->w = mem_zalloc(w->n, sizeof *w->w);
	pool = pool_open(n_threads ? n_threads : pool_cpu_count());
	if (!w->kern) {
		st = err_set(err, COHORT_E_UNSUPPORTED, "this CPU cannot run level %zu", level);
		goto out;
	}
	if (!w->w || !pool) {
		st = err_set(err, COHORT_E_MEMORY, "out of memory for weights");
		goto out;
	}
	for (size_t i = 0; i < w->n; i++) {
		const struct model_weight *mw = &m->weights[i];
		struct be_weight *bw = &w->w[i];
		bw->mat = &w->kern->file[mw->type];
		bw->data = mw->data;
		if (!file_layout && wanted(m, mw) && w->kern->packed[mw->type].mm) {
			const struct kern_mat *mat = &w->kern->packed[mw->type];
			size_t bytes = mat->packed_bytes(mw->n_rows, mw->k);
			bw->packed = mem_zalloc_aligned(bytes, 1);
			if (!bw->packed) {
				st = err_set(err, COHORT_E_MEMORY, "out of memory for %zu bytes of weights", bytes);
				goto out;
			}
			bw->mat = mat;
			bw->data = bw->packed;
			pool_run(pool, mw->n_rows, mat->unit, pack_share, &(struct pack_job){mw, bw});
			w->packed_bytes += bytes;
			if (mw != m->token_embd)
				map_drop(&m->gguf->map, mw->tensor->offset, mw->tensor->n_bytes);
		}
		done += mw->tensor->n_bytes;
		if (progress && !progress((float)((double)done / (double)m->weight_bytes), user)) {
			st = err_set(err, COHORT_ABORTED, "loading aborted by the caller");
			goto out;
		}
	}
	*out = w;
	w = NULL;
out:
	pool_free(pool);
	be_cpu_weights_free(w);
	return st;
}

void be_cpu_weights_free(struct be_weights *w)
{
	if (w) {
		for (size_t i = 0; w->w && i < w->n; i++)
			mem_free_aligned(w->w[i].packed);
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
