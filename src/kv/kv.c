/* Blocks, sequences, reserve / commit / roll back.
 *
 * Invariants
 *  1. ref[b] is the number of (sequence, index) entries that name block b; free blocks have ref 0 and are on the free
 *     list once.
 *  2. A sequence holds positions [pos_min, pos_max] without gaps, and the blocks pos_min / size .. pos_max / size.
 *  3. A block is written in place only if every holder is in the row's set; otherwise the set gets a copy first.
 *  4. The journal holds every table entry and length as it was before the transaction; undoing it backwards restores
 *     the books exactly, the order of the free list included.
 * Refuses to know: tensors, layers, what a token is. */
#include "kv/kv.h"

#include "base/mem.h"

#include <string.h>

struct seq {
	cohort_pos min, max; /* -1, -1: empty */
};

struct change {          /* one journal entry */
	int32_t seq, index;
	int32_t old;     /* block id, or -1: there was none */
	int32_t block;   /* what it became */
};

struct length {
	cohort_seq seq;
	struct seq old;
};

struct kv {
	size_t n_blocks, size, n_seq_max, n_index;
	int32_t *tables;  /* [n_seq_max, n_index] */
	struct seq *seqs; /* [n_seq_max] */
	int32_t *ref;     /* [n_blocks] */
	int32_t *free;    /* stack */
	size_t n_free;

	bool open;        /* a transaction is under way */
	struct change *changes;
	size_t n_changes, changes_max;
	struct length *lengths;
	size_t n_lengths, lengths_max;
	struct kv_store *stores, *extra;
	size_t stores_max, n_extra, extra_max;
	struct kv_copy *copies;
	size_t n_copies, copies_max;
	uint32_t *touched; /* [n_seq_max]: the transaction that last saved the sequence's length */
	uint32_t epoch;
};

/* Room for the journal and the plan of a reservation. */
static bool make_room(struct kv *kv, size_t n_rows, size_t n_ids)
{
	return mem_grow((void **)&kv->changes, &kv->changes_max, n_ids, sizeof *kv->changes) &&
			mem_grow((void **)&kv->lengths, &kv->lengths_max, n_ids, sizeof *kv->lengths) &&
			mem_grow((void **)&kv->stores, &kv->stores_max, n_rows, sizeof *kv->stores) &&
			mem_grow((void **)&kv->copies, &kv->copies_max, n_rows, sizeof *kv->copies);
}

struct kv *kv_open(const struct kv_limits *lim)
{
	const size_t n_blocks = lim->n_blocks, n_seq_max = lim->n_seq_max;
	size_t cells;
	struct kv *kv = mem_zalloc(1, sizeof *kv);

	if (!kv)
		return NULL;
	kv->n_blocks = n_blocks;
	kv->size = lim->block_size;
	kv->n_seq_max = n_seq_max;
	kv->n_index = (lim->n_pos_max + kv->size - 1) / kv->size;
	if (!size_mul(kv->n_index, n_seq_max, &cells))
		goto fail;
	kv->tables = mem_zalloc(cells, sizeof *kv->tables);
	kv->seqs = mem_zalloc(n_seq_max, sizeof *kv->seqs);
	kv->ref = mem_zalloc(n_blocks, sizeof *kv->ref);
	kv->free = mem_zalloc(n_blocks, sizeof *kv->free);
	kv->touched = mem_zalloc(n_seq_max, sizeof *kv->touched);
	if (!kv->tables || !kv->seqs || !kv->ref || !kv->free || !kv->touched ||
			!make_room(kv, lim->n_rows_max, lim->n_rows_max))
		goto fail;
	for (size_t i = 0; i < n_seq_max; i++)
		kv->seqs[i] = (struct seq){-1, -1};
	for (size_t i = 0; i < n_blocks; i++) /* the lowest id on top */
		kv->free[i] = (int32_t)(n_blocks - 1 - i);
	kv->n_free = n_blocks;
	return kv;
fail:
	kv_free(kv);
	return NULL;
}

void kv_free(struct kv *kv)
{
	if (kv) {
		mem_free(kv->tables);
		mem_free(kv->seqs);
		mem_free(kv->ref);
		mem_free(kv->free);
		mem_free(kv->touched);
		mem_free(kv->changes);
		mem_free(kv->lengths);
		mem_free(kv->stores);
		mem_free(kv->extra);
		mem_free(kv->copies);
		mem_free(kv);
	}
}

static int32_t *entry(const struct kv *kv, cohort_seq seq, size_t index)
{
	return &kv->tables[(size_t)seq * kv->n_index + index];
}

/* Of the blocks a sequence that is not empty holds. */
static size_t first_index(const struct kv *kv, size_t seq)
{
	return (size_t)kv->seqs[seq].min / kv->size;
}

static size_t last_index(const struct kv *kv, size_t seq)
{
	return (size_t)kv->seqs[seq].max / kv->size;
}

static void drop(struct kv *kv, int32_t block)
{
	if (--kv->ref[block] == 0)
		kv->free[kv->n_free++] = block;
}

/* ---- The transaction ---- */

static void set_entry(struct kv *kv, cohort_seq seq, size_t index, int32_t old, int32_t block)
{
	kv->changes[kv->n_changes++] = (struct change){seq, (int32_t)index, old, block};
	*entry(kv, seq, index) = block;
	kv->ref[block]++;
	/* An old block is never dropped to zero here: it had holders outside the set. */
	if (old >= 0)
		kv->ref[old]--;
}

static void save_length(struct kv *kv, cohort_seq seq)
{
	if (kv->touched[seq] != kv->epoch) {
		kv->touched[seq] = kv->epoch;
		kv->lengths[kv->n_lengths++] = (struct length){seq, kv->seqs[seq]};
	}
}

static bool add_extra(struct kv *kv, int32_t row, int32_t block, int32_t slot)
{
	if (!mem_grow((void **)&kv->extra, &kv->extra_max, kv->n_extra + 1, sizeof *kv->extra))
		return false;
	kv->extra[kv->n_extra++] = (struct kv_store){row, block, slot};
	return true;
}

/* Rows of this batch that went to `from`, at once or by an earlier redirection, must also go to `to`: their data is not
 * there yet, so a copy would miss it. *older tells that cells from before the batch are to be copied as well. */
static bool redirect(struct kv *kv, const struct kv_row *rows, size_t n, int32_t from, int32_t to, bool *older)
{
	const cohort_pos first = rows[n].pos - rows[n].pos % (cohort_pos)kv->size;
	const size_t n_extra = kv->n_extra;
	cohort_pos seen = rows[n].pos;

	for (size_t i = n; i-- > 0 && seen > first;)
		if (kv->stores[i].block == from) {
			if (!add_extra(kv, (int32_t)i, to, kv->stores[i].slot))
				return false;
			seen = rows[i].pos < seen ? rows[i].pos : seen;
		}
	for (size_t i = 0; i < n_extra; i++)
		if (kv->extra[i].block == from) {
			const struct kv_store e = kv->extra[i];
			if (!add_extra(kv, e.row, to, e.slot))
				return false;
			seen = rows[e.row].pos < seen ? rows[e.row].pos : seen;
		}
	*older = seen > first;
	return true;
}

static enum cohort_status place(struct kv *kv, const struct kv_row *rows, size_t n, struct cohort_err *err)
{
	const struct kv_row *r = &rows[n];
	const cohort_seq lead = r->seq[0];
	const size_t index = (size_t)r->pos / kv->size;
	const struct seq *s = &kv->seqs[lead];
	const bool have = s->max >= 0 && (size_t)s->max / kv->size == index;
	const int32_t cur = have ? *entry(kv, lead, index) : -1;
	int32_t block = cur;

	if (!have || kv->ref[cur] != r->n_seq) {
		if (index >= kv->n_index)
			return err_rule(err, COHORT_E_LIMIT, "pos-limit", (int64_t)n, lead,
					(int64_t)(kv->n_index * kv->size), r->pos, "row %zu has position %d", n,
					r->pos);
		if (kv->n_free == 0)
			return err_rule(err, COHORT_NO_ROOM, "kv-room", (int64_t)n, lead, (int64_t)n, 0,
					"no room in the cache for row %zu (sequence %d, position %d): all %zu blocks "
					"of %zu positions are in use; the first %zu rows would fit",
					n, lead, r->pos, kv->n_blocks, kv->size, n);
		block = kv->free[--kv->n_free];
		if (have) {
			bool older;
			if (!redirect(kv, rows, n, cur, block, &older)) {
				/* Nobody holds the block yet, so the journal does not know it. */
				kv->free[kv->n_free++] = block;
				return err_set(err, COHORT_E_MEMORY, "out of memory");
			}
			if (older)
				kv->copies[kv->n_copies++] = (struct kv_copy){cur, block};
		}
		for (int32_t i = 0; i < r->n_seq; i++)
			set_entry(kv, r->seq[i], index, cur, block);
	}
	for (int32_t i = 0; i < r->n_seq; i++) {
		struct seq *q = &kv->seqs[r->seq[i]];
		save_length(kv, r->seq[i]);
		if (q->max < 0)
			q->min = r->pos;
		q->max = r->pos;
	}
	kv->stores[n] = (struct kv_store){(int32_t)n, block, (int32_t)((size_t)r->pos % kv->size)};
	return COHORT_OK;
}

enum cohort_status kv_reserve(
		struct kv *kv, const struct kv_row *rows, size_t n_rows, struct kv_plan *plan, struct cohort_err *err)
{
	size_t n_ids = 0;
	enum cohort_status st = COHORT_OK;

	if (kv->open)
		return err_set(err, COHORT_E_BUG, "a transaction is open already");
	for (size_t i = 0; i < n_rows; i++)
		n_ids += (size_t)rows[i].n_seq;
	if (!make_room(kv, n_rows, n_ids))
		return err_set(err, COHORT_E_MEMORY, "out of memory for a batch of %zu rows", n_rows);
	kv->n_changes = kv->n_lengths = kv->n_extra = kv->n_copies = 0;
	if (++kv->epoch == 0) { /* wrapped around: the old marks are worthless */
		memset(kv->touched, 0, kv->n_seq_max * sizeof *kv->touched);
		kv->epoch = 1;
	}
	kv->open = true;
	for (size_t i = 0; i < n_rows && !st; i++)
		st = place(kv, rows, i, err);
	if (st) {
		kv_rollback(kv);
		return st;
	}
	*plan = (struct kv_plan){kv->stores, kv->extra, kv->n_extra, kv->copies, kv->n_copies};
	return COHORT_OK;
}

void kv_commit(struct kv *kv)
{
	kv->open = false;
}

void kv_rollback(struct kv *kv)
{
	if (!kv->open)
		return;
	while (kv->n_changes) {
		const struct change *c = &kv->changes[--kv->n_changes];
		if (c->old >= 0) {
			*entry(kv, c->seq, (size_t)c->index) = c->old;
			kv->ref[c->old]++;
		}
		drop(kv, c->block);
	}
	while (kv->n_lengths) {
		const struct length *l = &kv->lengths[--kv->n_lengths];
		kv->seqs[l->seq] = l->old;
	}
	kv->open = false;
}

/* ---- Sequences ---- */

const int32_t *kv_table(const struct kv *kv, cohort_seq seq)
{
	return entry(kv, seq, 0);
}

cohort_pos kv_pos_min(const struct kv *kv, cohort_seq seq)
{
	return seq >= 0 && (size_t)seq < kv->n_seq_max ? kv->seqs[seq].min : -1;
}

cohort_pos kv_pos_max(const struct kv *kv, cohort_seq seq)
{
	return seq >= 0 && (size_t)seq < kv->n_seq_max ? kv->seqs[seq].max : -1;
}

bool kv_same(const struct kv *kv, cohort_seq a, cohort_seq b)
{
	const struct seq *x = &kv->seqs[a], *y = &kv->seqs[b];
	if (x->min != y->min || x->max != y->max)
		return false;
	if (x->max < 0)
		return true;
	size_t from = (size_t)x->min / kv->size, to = (size_t)x->max / kv->size + 1;
	return memcmp(entry(kv, a, from), entry(kv, b, from), (to - from) * sizeof(int32_t)) == 0;
}

static enum cohort_status known(const struct kv *kv, cohort_seq seq, struct cohort_err *err)
{
	if (seq >= 0 && (size_t)seq < kv->n_seq_max)
		return COHORT_OK;
	return err_rule(err, COHORT_E_ARG, "seq-id", -1, seq, (int64_t)kv->n_seq_max, seq,
			"sequence %d is not in 0 to %zu", seq, kv->n_seq_max - 1);
}

enum cohort_status kv_seq_rm(struct kv *kv, cohort_seq seq, cohort_pos p0, cohort_pos p1, struct cohort_err *err)
{
	enum cohort_status st = known(kv, seq, err);
	if (st)
		return st;
	struct seq *s = &kv->seqs[seq];
	if (p0 < 0 || p1 < -1)
		return err_set(err, COHORT_E_ARG, "positions %d to %d are not a range", p0, p1);
	if (s->max < 0)
		return COHORT_OK;
	if (p1 == -1 || p1 > s->max + 1)
		p1 = s->max + 1;
	if (p0 < s->min)
		p0 = s->min;
	if (p0 >= p1)
		return COHORT_OK;
	if (p0 > s->min && p1 <= s->max)
		return err_rule(err, COHORT_E_ARG, "rm-middle", -1, seq, s->max + 1, p1,
				"removing positions %d to %d of sequence %d would leave cells on both sides (%d to %d)",
				p0, p1 - 1, seq, s->min, s->max);

	struct seq left = {s->min, s->max};
	if (p0 > s->min)
		left.max = p0 - 1;
	else if (p1 <= s->max)
		left.min = p1;
	else
		left = (struct seq){-1, -1};
	for (size_t i = first_index(kv, (size_t)seq); i <= last_index(kv, (size_t)seq); i++)
		if (left.max < 0 || i < (size_t)left.min / kv->size || i > (size_t)left.max / kv->size)
			drop(kv, *entry(kv, seq, i));
	*s = left;
	return COHORT_OK;
}

enum cohort_status kv_seq_cp(struct kv *kv, cohort_seq src, cohort_seq dst, struct cohort_err *err)
{
	enum cohort_status st = known(kv, src, err);
	if (!st)
		st = known(kv, dst, err);
	if (st || src == dst)
		return st;
	if (kv->seqs[dst].max >= 0)
		return err_rule(err, COHORT_E_ARG, "cp-occupied", -1, dst, 0, kv->seqs[dst].max + 1,
				"sequence %d holds positions %d to %d; it must be empty to become a copy of %d", dst,
				kv->seqs[dst].min, kv->seqs[dst].max, src);
	struct seq *s = &kv->seqs[src];
	if (s->max >= 0)
		for (size_t i = first_index(kv, (size_t)src); i <= last_index(kv, (size_t)src); i++) {
			*entry(kv, dst, i) = *entry(kv, src, i);
			kv->ref[*entry(kv, src, i)]++;
		}
	kv->seqs[dst] = *s;
	return COHORT_OK;
}

void kv_clear(struct kv *kv)
{
	for (size_t i = 0; i < kv->n_seq_max; i++)
		if (kv->seqs[i].max >= 0)
			kv_seq_rm(kv, (cohort_seq)i, 0, -1, NULL);
}

void kv_usage_get(const struct kv *kv, struct kv_usage *u)
{
	*u = (struct kv_usage){.n_blocks = kv->n_blocks, .n_used = kv->n_blocks - kv->n_free};
	for (size_t i = 0; i < kv->n_blocks; i++)
		u->n_shared += kv->ref[i] > 1;
}

/* ---- For tests ---- */

bool kv_consistent(const struct kv *kv)
{
	bool ok = true;
	size_t n_used = 0;
	int32_t *n = mem_zalloc(kv->n_blocks, sizeof *n);
	if (!n)
		return false;
	for (size_t s = 0; s < kv->n_seq_max; s++)
		if (kv->seqs[s].max >= 0)
			for (size_t i = first_index(kv, s); i <= last_index(kv, s); i++)
				n[*entry(kv, (cohort_seq)s, i)]++;
	for (size_t i = 0; i < kv->n_blocks; i++) {
		ok = ok && n[i] == kv->ref[i];
		n_used += n[i] > 0;
	}
	for (size_t i = 0; i < kv->n_free; i++)
		ok = ok && n[kv->free[i]]-- == 0; /* on the list once, and nowhere else */
	mem_free(n);
	return ok && n_used + kv->n_free == kv->n_blocks;
}

static void hash_add(uint64_t *h, uint64_t v)
{
	*h = (*h ^ v) * 0x9e3779b97f4a7c15u;
	*h ^= *h >> 29;
}

uint64_t kv_hash(const struct kv *kv)
{
	uint64_t h = kv->n_free;
	for (size_t s = 0; s < kv->n_seq_max; s++) {
		hash_add(&h, (uint64_t)(uint32_t)kv->seqs[s].min << 32 | (uint32_t)kv->seqs[s].max);
		if (kv->seqs[s].max >= 0)
			for (size_t i = first_index(kv, s); i <= last_index(kv, s); i++)
				hash_add(&h, (uint64_t)*entry(kv, (cohort_seq)s, i));
	}
	for (size_t i = 0; i < kv->n_blocks; i++)
		hash_add(&h, (uint64_t)kv->ref[i]);
	for (size_t i = 0; i < kv->n_free; i++)
		hash_add(&h, (uint64_t)kv->free[i]);
	return h;
}
