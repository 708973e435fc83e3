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
		q[h] = (struct kern_attn_query){
			.q = a->q + h * a->head_k, .acc = acc, .top = KERN_ATTN_FLOOR, .sum = 0.0f};
}

static void end(const struct kern *k, const struct kern_attn *a, const struct kern_attn_query *q)
{
	for (size_t h = 0; h < a->n_q; h++) {
		memcpy(a->out + h * a->head_v, q[h].acc, a->head_v * sizeof *a->out);
		k->scale(a->out + h * a->head_v, 1.0f / q[h].sum, a->head_v);
	}
}

/* What row a sees of block b. */
static uint32_t cells_of(const struct kern_attn *a, size_t b)
{
	const size_t first = b * KERN_KV_BLOCK;
	return first < a->pos1 && first + KERN_KV_BLOCK > a->pos0 ? kern_attn_cells(a, b) : 0;
}

void kern_attn(const struct kern *k, enum kern_kv type, const struct kern_attn *rows, size_t n, void *scratch)
{
	const size_t n_q = rows->n_q, acc_n = kern_pad16(rows->head_v);
	struct kern_attn_query *queries = scratch;
	float *acc = (void *)((uint8_t *)scratch + query_bytes(n * n_q));
	struct kern_attn_step step = {.head_k = rows->head_k, .head_v = rows->head_v, .scratch = acc + n * n_q * acc_n};
	size_t b = SIZE_MAX, b_end = 0;

	memset(acc, 0, n * n_q * acc_n * sizeof *acc);
	for (size_t r = 0; r < n; r++) {
		begin(&rows[r], queries + r * n_q, acc + r * n_q * acc_n);
		b = rows[r].pos0 / KERN_KV_BLOCK < b ? rows[r].pos0 / KERN_KV_BLOCK : b;
		b_end = rows[r].pos1 > b_end ? rows[r].pos1 : b_end;
	}
	for (; b * KERN_KV_BLOCK < b_end; b++)
		for (size_t r = 0, next; r < n; r = next) {
			uint32_t cells = cells_of(&rows[r], b);
			const int32_t id = cells ? rows[r].table[b] : -1;
			step.queries = queries + r * n_q;
			step.n = 0;
			/* The row itself, and those after it that see the same block. */
			for (next = r; next < n && cells && rows[next].table[b] == id;) {
				for (size_t h = 0; h < n_q; h++)
					step.queries[step.n++].cells = cells;
				next++;
				cells = next < n ? cells_of(&rows[next], b) : 0;
			}
			if (step.n == 0) {
				next = r + 1;
				continue;
			}
			const uint8_t *block = rows->kv + (size_t)id * rows->block_bytes;
			step.k = block + rows->k_offset;
			step.v = block + rows->v_offset;
			k->attn[type](&step);
		}
	for (size_t r = 0; r < n; r++)
		end(k, &rows[r], queries + r * n_q);
}
