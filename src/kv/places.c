#include "kv/places.h"

#include "base/mem.h"

static const struct place_seq empty = {.min = -1, .max = -1, .first = -1};

bool places_init(struct places *p, size_t n, size_t n_seq_max, size_t n_pos_max, size_t n_rows_max)
{
	*p = (struct places){.n = n, .n_seq_max = n_seq_max, .n_pos_max = n_pos_max};
	if (n > INT32_MAX || n_seq_max > INT32_MAX || n_pos_max > INT32_MAX)
		return false;
	p->seqs = mem_zalloc(n_seq_max, sizeof *p->seqs);
	p->live = mem_zalloc(n_seq_max, sizeof *p->live);
	p->touched = mem_zalloc(n_seq_max, sizeof *p->touched);
	p->ref = mem_zalloc(n, sizeof *p->ref);
	p->note = mem_zalloc(n, sizeof *p->note);
	p->free = mem_zalloc(n, sizeof *p->free);
	if (!p->seqs || !p->live || !p->touched || !p->ref || !p->note || !p->free || !places_room(p, n_rows_max))
		return false;
	for (size_t i = 0; i < n_seq_max; i++)
		p->seqs[i] = empty;
	for (size_t i = 0; i < n; i++) { /* the lowest number on top */
		p->free[i] = (int32_t)(n - 1 - i);
		p->ref[i] = -1;
	}
	p->n_free = n;
	return true;
}

void places_release(struct places *p)
{
	mem_free(p->seqs);
	mem_free(p->live);
	mem_free(p->touched);
	mem_free(p->ref);
	mem_free(p->note);
	mem_free(p->free);
	mem_free(p->changes);
	mem_free(p->lengths);
}

/* ---- Sequences ---- */

void places_live_add(struct places *p, cohort_seq seq)
{
	p->seqs[seq].live = (int32_t)p->n_live;
	p->live[p->n_live++] = seq;
}

void places_empty(struct places *p, cohort_seq seq)
{
	const int32_t at = p->seqs[seq].live;
	const cohort_seq last = p->live[--p->n_live];

	p->live[at] = last;
	p->seqs[last].live = at;
	p->seqs[seq] = empty;
}

const struct place_seq *places_look(const struct places *p, cohort_seq seq)
{
	return seq >= 0 && (size_t)seq < p->n_seq_max ? &p->seqs[seq] : &empty;
}

enum cohort_status places_known(const struct places *p, cohort_seq seq, struct cohort_err *err)
{
	if (p->open)
		return err_set(err, COHORT_E_BUG, "a transaction is open");
	if (seq >= 0 && (size_t)seq < p->n_seq_max)
		return COHORT_OK;
	return err_rule(err, COHORT_E_ARG, "seq-id", -1, seq, (int64_t)p->n_seq_max, seq,
			"sequence %d is not below the number of sequences, %zu", seq, p->n_seq_max);
}

enum cohort_status places_range(
		const struct places *p, cohort_seq seq, cohort_pos *p0, cohort_pos *p1, struct cohort_err *err)
{
	enum cohort_status st = places_known(p, seq, err);

	if (st)
		return st;
	if (*p0 < 0 || *p1 < -1)
		return err_rule(err, COHORT_E_ARG, "range", -1, seq, *p0 < 0 ? 0 : -1, *p0 < 0 ? *p0 : *p1,
				"positions %d to %d are not a range", *p0, *p1);
	places_clip(&p->seqs[seq], p0, p1);
	return COHORT_OK;
}

struct kv_usage places_usage(const struct places *p)
{
	return (struct kv_usage){.n_blocks = p->n, .n_used = p->n - p->n_free, .n_shared = p->n_shared};
}

/* ---- The transaction ---- */

void places_begin(struct places *p)
{
	p->open = true;
}

enum cohort_status places_reserve(struct places *p, struct cohort_err *err)
{
	if (!p->open)
		return err_set(err, COHORT_E_BUG, "no transaction is open");
	p->mark_changes = p->n_changes;
	p->mark_lengths = p->n_lengths;
	p->epoch++;
	return COHORT_OK;
}

bool places_room(struct places *p, size_t n)
{
	if (p->n_changes + n <= p->changes_max && p->n_lengths + n <= p->lengths_max)
		return true; /* without a call, as for nearly every row */
	return mem_grow((void **)&p->changes, &p->changes_max, p->n_changes + n, sizeof *p->changes) &&
			mem_grow((void **)&p->lengths, &p->lengths_max, p->n_lengths + n, sizeof *p->lengths);
}

void places_set(struct places *p, int32_t *entry, int32_t old, int32_t place)
{
	p->changes[p->n_changes++] = (struct place_change){entry, old, old >= 0 ? p->note[old] : 0};
	*entry = place;
	places_hold(p, place);
	if (old >= 0)
		places_unref(p, old);
}

static void end(struct places *p)
{
	p->n_changes = p->n_lengths = 0;
	p->mark_changes = p->mark_lengths = 0;
	p->open = false;
}

void places_undo(struct places *p, bool all)
{
	const size_t n_changes = all ? 0 : p->mark_changes, n_lengths = all ? 0 : p->mark_lengths;

	while (p->n_changes > n_changes) {
		const struct place_change *c = &p->changes[--p->n_changes];
		const int32_t place = *c->entry;
		*c->entry = c->old;
		if (c->old >= 0) {
			places_hold(p, c->old);
			p->note[c->old] = c->note;
		}
		places_drop(p, place);
	}
	while (p->n_lengths > n_lengths) {
		const struct place_length *l = &p->lengths[--p->n_lengths];
		/* Sequences that were empty joined the live list in this order, so they leave it from its end. */
		if (l->old.max < 0)
			places_empty(p, l->seq);
		else
			p->seqs[l->seq] = l->old;
	}
	if (all)
		end(p);
}

void places_commit(struct places *p)
{
	for (size_t i = 0; i < p->n_changes; i++) {
		const int32_t old = p->changes[i].old;
		p->note[*p->changes[i].entry] = 0;
		if (old >= 0) {
			p->note[old] = 0;
			places_give_back(p, old);
		}
	}
	end(p);
}

/* ---- For tests ---- */

bool places_consistent(const struct places *p, int32_t *n, size_t n_live)
{
	size_t n_used = 0, n_shared = 0;
	bool ok = n_live == p->n_live;

	for (size_t i = 0; i < p->n_live && ok; i++)
		ok = p->seqs[p->live[i]].live == (int32_t)i && p->seqs[p->live[i]].max >= 0;
	for (size_t i = 0; i < p->n; i++) {
		ok = ok && n[i] == (p->ref[i] > 0 ? p->ref[i] : 0) && (p->open || (p->ref[i] && !p->note[i]));
		n_used += p->ref[i] >= 0;
		n_shared += n[i] > 1;
	}
	for (size_t i = 0; i < p->n_free; i++)
		ok = ok && p->ref[p->free[i]] == -1 && n[p->free[i]]-- == 0; /* on the list once */
	return ok && n_used + p->n_free == p->n && n_shared == p->n_shared;
}

void places_hash_add(uint64_t *h, uint64_t v)
{
	*h = (*h ^ v) * 0x9e3779b97f4a7c15u;
	*h ^= *h >> 29;
}

uint64_t places_hash(const struct places *p)
{
	uint64_t h = p->n_free;

	places_hash_add(&h, p->n_shared);
	for (size_t i = 0; i < p->n_live; i++) {
		const struct place_seq *s = &p->seqs[p->live[i]];
		places_hash_add(&h, (uint64_t)p->live[i] << 32 | (uint32_t)s->live);
		places_hash_add(&h, (uint64_t)s->min << 32 | (uint32_t)s->max);
		places_hash_add(&h, (uint64_t)s->first << 32 | (uint32_t)s->gone);
		places_hash_add(&h, (uint64_t)s->n_cells << 32 | (uint32_t)s->n_checks);
	}
	for (size_t i = 0; i < p->n; i++)
		places_hash_add(&h, (uint64_t)(uint32_t)p->ref[i] << 32 | p->note[i]);
	for (size_t i = 0; i < p->n_free; i++)
		places_hash_add(&h, (uint64_t)p->free[i]);
	return h;
}
