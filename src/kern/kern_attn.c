/* Attention of rows over their blocks, in order of position; the levels do one block at a time for all who see it.
 *
 * Invariants
 *  1. A query's state after a block depends on its own state, its own cells and the block: who else is there does not
 *     matter.
 *  2. A block of which a row sees nothing is passed over without looking at the row's table. */
#include "kern/kern.h"
#include "kern/kern_math.h"

/* Scores of each query, and both areas as floats. */
size_t kern_attn_step_bytes(size_t n, size_t head_k, size_t head_v)
{
	return (n * KERN_KV_BLOCK + KERN_KV_BLOCK * (kern_pad16(head_k) + kern_pad16(head_v))) * sizeof(float);
}

static size_t query_bytes(size_t n)
{
	return (n * sizeof(struct kern_attn_query) + 63) & ~(size_t)63;
}

size_t kern_attn_scratch_bytes(size_t n_rows, size_t n_q, size_t head_k, size_t head_v)
{
	const size_t n = n_rows * n_q;
	return query_bytes(n) + n * kern_pad16(head_v) * sizeof(float) + kern_attn_step_bytes(n, head_k, head_v);
}

static void begin(const struct kern_attn *a, struct kern_attn_query *q, float *acc)
{
	for (size_t h = 0; h < a->n_q; h++, acc += kern_pad16(a->head_v))
		q[h] = (struct kern_attn_query){.q = a->q + h * a->head_k,
				.acc = acc,
				.top = KERN_ATTN_FLOOR,
				.slope = a->slopes ? a->slopes[h] : 0.0f};
}

static void end(const struct kern *k, const struct kern_attn *a, const struct kern_attn_query *q)
{
	for (size_t h = 0; h < a->n_q; h++) {
		float by = 1.0f / q[h].sum;
		if (a->sinks) {
			/* One more score, of nothing: it takes its part of the weights. */
			const float sink = a->sinks[h], top = sink > q[h].top ? sink : q[h].top;
			const float c = kern_exp(q[h].top - top);
			by = c / fmaf(q[h].sum, c, kern_exp(sink - top));
		}
		memcpy(a->out + h * a->head_v, q[h].acc, a->head_v * sizeof *a->out);
		k->scale(a->out + h * a->head_v, by, a->head_v);
	}
}

/* What row a sees of block b. */
static uint32_t cells_of(const struct kern_attn *a, size_t b)
{
	const size_t first = b * KERN_KV_BLOCK;
	return first < a->pos1 && first + KERN_KV_BLOCK > a->pos0 ? kern_attn_cells(a, b) : 0;
}

/* Rows [from, to) go over block b together. */
struct stop {
	size_t b, from, to;
};

/* The first stop from (b, from) on; false when there is none before b_end. */
static bool find_stop(const struct kern_attn *rows, size_t n, size_t b_end, struct stop *s)
{
	for (; s->b < b_end; s->b++, s->from = 0)
		for (; s->from < n; s->from++) {
			if (!cells_of(&rows[s->from], s->b))
				continue;
			const int32_t id = rows[s->from].table[s->b];
			for (s->to = s->from + 1; s->to < n; s->to++)
				if (!cells_of(&rows[s->to], s->b) || rows[s->to].table[s->b] != id)
					break;
			return true;
		}
	return false;
}

static const uint8_t *block_at(const struct kern_attn *rows, const struct stop *s)
{
	return rows->kv + (size_t)rows[s->from].table[s->b] * rows->block_bytes;
}

void kern_attn(const struct kern *k, enum kern_kv type, const struct kern_attn *rows, size_t n, void *scratch)
{
	const size_t n_q = rows->n_q, acc_n = kern_pad16(rows->head_v);
	const size_t k_bytes = kern_k_area_bytes(type, rows->head_k), v_bytes = kern_v_area_bytes(type, rows->head_v);
	struct kern_attn_query *queries = scratch;
	float *acc = (void *)((uint8_t *)scratch + query_bytes(n * n_q));
	struct kern_attn_step step = {.head_k = rows->head_k,
			.head_v = rows->head_v,
			.cap = rows->cap,
			.bent = rows->cap != 0.0f || rows->slopes,
			.scratch = acc + n * n_q * acc_n};
	struct stop next = {.b = SIZE_MAX};
	size_t b_end = 0;

	memset(acc, 0, n * n_q * acc_n * sizeof *acc);
	for (size_t r = 0; r < n; r++) {
		const size_t first = rows[r].pos0 / KERN_KV_BLOCK, end = (rows[r].pos1 - 1) / KERN_KV_BLOCK + 1;
		begin(&rows[r], queries + r * n_q, acc + r * n_q * acc_n);
		next.b = first < next.b ? first : next.b;
		b_end = end > b_end ? end : b_end;
	}
	for (bool going = find_stop(rows, n, b_end, &next); going;) {
		const struct stop s = next;
		const uint8_t *block = block_at(rows, &s);
		step.k = block + rows->k_offset;
		step.v = block + rows->v_offset;
		step.queries = queries + s.from * n_q;
		step.n = (s.to - s.from) * n_q;
		for (size_t r = s.from; r < s.to; r++)
			for (size_t h = 0; h < n_q; h++) {
				queries[r * n_q + h].cells = cells_of(&rows[r], s.b);
				queries[r * n_q + h].ahead =
						(int32_t)((int64_t)rows[r].pos - (int64_t)(s.b * KERN_KV_BLOCK));
			}
		next.from = s.to;
		going = find_stop(rows, n, b_end, &next);
		/* The next block is somewhere else, and short: nothing but asking for it now brings it in time. */
		if (going) {
			const uint8_t *p = block_at(rows, &next);
			for (size_t i = 0; i < k_bytes; i += 64)
				__builtin_prefetch(p + rows->k_offset + i, 0, 2);
			for (size_t i = 0; i < v_bytes; i += 64)
				__builtin_prefetch(p + rows->v_offset + i, 0, 2);
		}
		k->attn[type](&step);
	}
	for (size_t r = 0; r < n; r++)
		end(k, &rows[r], queries + r * n_q);
}
