/* Copying a range to another sequence, shifting positions, taking in a saved image: what moves cells between blocks.
 *
 * Invariants
 *  1. Everything is planned before anything changes: a first pass counts the blocks and moves it takes, the second is
 *     the same code and cannot fail. A dry call makes room for what the real one needs, so that one allocates nothing.
 *  2. A block is never written while somebody reads it: cells that must lie beside others go to a block that was free,
 *     and a block is given back only after the moves that read it. The moves are made in their order, so a block given
 *     back may serve as the next one's destination.
 *  3. While cells are shifted, a cell is in exactly one word: it leaves its old one when it is moved. Blocks are walked
 *     against the direction of the shift, so a word that has been written is not read again.
 * Refuses to know: what a cell holds, and who wrote an image. */
#include "kv/kv_impl.h"

#include "base/mem.h"

#include <string.h>

/* A pass over the blocks of a call. The first only counts. */
struct pass {
	struct kv *kv;
	bool make;
	size_t n_free, n_moves;
};

static struct pass pass_begin(struct kv *kv, bool make)
{
	return (struct pass){kv, make, kv->p.n_free, 0};
}

static bool pass_take(struct pass *p, int32_t *block)
{
	if (p->n_free == 0)
		return false;
	p->n_free--;
	*block = p->make ? kv_take(p->kv) : -1;
	return true;
}

static void pass_drop(struct pass *p, int32_t block)
{
	p->n_free += p->kv->p.ref[block] == 1;
	if (p->make)
		places_drop(&p->kv->p, block);
}

/* The cells at the slots `bits` of `to`, run by run; they come from slots `back` lower, or higher where it is
 * negative. */
static void pass_move(struct pass *p, int32_t from, int32_t to, uint32_t bits, int32_t back, cohort_pos shift)
{
	while (bits) {
		const int32_t slot = __builtin_ctz(bits);
		const int32_t n = __builtin_ctzll(~((uint64_t)bits >> slot));
		if (p->make)
			p->kv->moves[p->n_moves] = (struct kv_move){from, slot - back, to, slot, n, shift};
		p->n_moves++;
		bits -= (uint32_t)(((UINT64_C(1) << n) - 1) << slot);
	}
}

static bool moves_room(struct kv *kv, const struct pass *p)
{
	return mem_grow((void **)&kv->moves, &kv->moves_max, p->n_moves, sizeof *kv->moves);
}

static enum cohort_status no_room(const struct kv *kv, cohort_seq seq, struct cohort_err *err)
{
	return err_rule(err, COHORT_NO_ROOM, "kv-room", -1, seq, 1, 0,
			"no free block to put the cells of sequence %d together: %zu of %zu blocks are free", seq,
			kv->p.n_free, kv->p.n);
}

static enum cohort_status no_memory(struct cohort_err *err)
{
	return err_set(err, COHORT_E_MEMORY, "out of memory");
}

/* Words of the blocks [from, to] outside the sequence's own mean something from now on. */
static void widen(struct kv *kv, cohort_seq seq, size_t from, size_t to)
{
	const struct place_seq *s = &kv->p.seqs[seq];
	const size_t n = to + 1 - from;

	if (s->max < 0) {
		memset(kv_word(kv, seq, from), 0, n * sizeof *kv->held);
		return;
	}
	const size_t a = kv_first_index(kv, s), z = kv_last_index(kv, s);
	if (from < a)
		memset(kv_word(kv, seq, from), 0, (a - from) * sizeof *kv->held);
	if (to > z)
		memset(kv_word(kv, seq, z + 1), 0, (to - z) * sizeof *kv->held);
}

static cohort_pos pos_min(cohort_pos a, cohort_pos b)
{
	return a < b ? a : b;
}

static cohort_pos pos_max(cohort_pos a, cohort_pos b)
{
	return a > b ? a : b;
}

/* ---- Copying ---- */

/* A range of src, cut to what it holds, and what dst will be. */
struct range {
	cohort_seq src, dst;
	cohort_pos p0, p1;
	struct place_seq to;
};

bool kv_holds(const struct kv *kv, cohort_seq seq, cohort_pos p0, cohort_pos p1)
{
	const struct place_seq *s = &kv->p.seqs[seq];

	places_clip(s, &p0, &p1);
	return p0 < p1 && (p0 < s->gone || kv_next_held(kv, seq, p0) < p1);
}

/* The first cell in [p0, p1) that dst holds as well, or -1. */
static cohort_pos first_common(const struct kv *kv, const struct range *r)
{
	for (size_t i = (size_t)r->p0 / kv->size; i <= (size_t)(r->p1 - 1) / kv->size; i++) {
		const uint32_t both = kv_word_at(kv, r->src, i) & kv_word_at(kv, r->dst, i) &
				kv_slots(kv, i, r->p0, r->p1);
		if (both)
			return (cohort_pos)(i * kv->size) + __builtin_ctz(both);
	}
	return -1;
}

/* What dst will be. Released cells of either count as held; what lies below them is out of the window as well, and is
 * let go, so that the released ones stay at the beginning. */
static enum cohort_status join(const struct kv *kv, struct range *r, struct cohort_err *err)
{
	const struct place_seq *s = &kv->p.seqs[r->src], *d = &kv->p.seqs[r->dst];
	const cohort_pos hole = pos_min(s->gone, r->p1); /* the range's released cells end here */
	const cohort_pos lo = r->p0 < hole ? r->p0 : kv_next_held(kv, r->src, r->p0);
	const cohort_pos hi = kv_prev_held(kv, r->src, r->p1 - 1);
	struct place_seq *to = &r->to;

	*to = *d;
	to->max = pos_max(d->max, hi);
	if (r->p0 < hole) {
		const int64_t sees = to->max + 2 - kv->window;
		if (hole > sees)
			return err_rule(err, COHORT_E_ARG, "window-gone", -1, r->src, sees > lo ? sees : lo, s->first,
					"positions %d to %d of sequence %d cannot be copied: those before %d fell out "
					"of the window and are gone",
					r->p0, r->p1 - 1, r->src, hole);
		to->gone = pos_max(d->gone, hole);
	}
	to->min = d->max < 0 ? lo : pos_min(d->min, lo);
	return COHORT_OK;
}

/* The indices of the cells to be shared. */
static bool shared_indices(const struct kv *kv, const struct range *r, size_t *from, size_t *to)
{
	const cohort_pos lo = kv_next_held(kv, r->src, pos_max(r->p0, r->to.gone));

	if (lo < 0 || lo >= r->p1)
		return false;
	*from = (size_t)lo / kv->size;
	*to = (size_t)kv_prev_held(kv, r->src, r->p1 - 1) / kv->size;
	return true;
}

static bool copy_blocks(struct pass *p, const struct range *r, size_t from, size_t to)
{
	struct kv *kv = p->kv;

	for (size_t i = from; i <= to; i++) {
		const uint32_t bits = kv_word_at(kv, r->src, i) & kv_slots(kv, i, pos_max(r->p0, r->to.gone), r->p1);
		const uint32_t own = kv_word_at(kv, r->dst, i);
		const int32_t src = *kv_entry(kv, r->src, i), old = *kv_entry(kv, r->dst, i);
		int32_t block = src;
		if (!bits)
			continue;
		if (own && old != src) {
			if (!pass_take(p, &block))
				return false;
			pass_move(p, old, block, own, 0, 0);
			pass_move(p, src, block, bits, 0, 0);
			pass_drop(p, old);
		}
		if (!p->make)
			continue;
		if (!own || old != src) {
			places_hold(&kv->p, block);
			*kv_entry(kv, r->dst, i) = block;
		}
		*kv_word(kv, r->dst, i) = own | bits;
		kv->p.seqs[r->dst].n_cells += __builtin_popcount(bits);
	}
	return true;
}

/* The second pass. */
static void make_copy(struct kv *kv, struct range *r, bool some, size_t from, size_t to)
{
	struct place_seq *d = &kv->p.seqs[r->dst];
	struct pass p = pass_begin(kv, true);

	if (some) {
		widen(kv, r->dst, from, to);
		copy_blocks(&p, r, from, to);
	}
	kv->n_moves = p.n_moves;
	if (d->max < 0) { /* then there was something to share: the range's last cell */
		places_live_add(&kv->p, r->dst);
		d->first = (cohort_pos)(from * kv->size);
	}
	d->first = some ? pos_min(d->first, (cohort_pos)(from * kv->size)) : d->first;
	d->max = r->to.max;
	kv_forget(kv, r->dst, d->first, r->to.gone);
	d->min = r->to.min;
	d->gone = r->to.gone;
	d->first = kv_next_held(kv, r->dst, pos_max(d->first, d->gone));
}

enum cohort_status kv_seq_cp(struct kv *kv, cohort_seq src, cohort_seq dst, cohort_pos p0, cohort_pos p1, bool dry,
		struct kv_moves *moves, struct cohort_err *err)
{
	struct range r = {.src = src, .dst = dst, .p0 = p0, .p1 = p1};
	enum cohort_status st = places_known(&kv->p, src, err);
	size_t from = 0, to = 0;

	if (!st)
		st = places_known(&kv->p, dst, err);
	if (!st)
		st = places_range(&kv->p, src, &r.p0, &r.p1, err);
	if (st)
		return st;
	kv->n_moves = 0;
	if (src != dst && kv_holds(kv, src, p0, p1)) {
		const cohort_pos common = first_common(kv, &r);
		if (common >= 0)
			return err_rule(err, COHORT_E_ARG, "cp-occupied", -1, dst, common, common,
					"sequence %d holds position %d already, which is to be copied from %d", dst,
					common, src);
		st = join(kv, &r, err);
		if (st)
			return st;
		struct pass p = pass_begin(kv, false);
		const bool some = shared_indices(kv, &r, &from, &to);
		if (some && !copy_blocks(&p, &r, from, to))
			return no_room(kv, dst, err);
		if (!moves_room(kv, &p))
			return no_memory(err);
		if (!dry)
			make_copy(kv, &r, some, from, to);
	}
	if (!dry)
		*moves = (struct kv_moves){kv->moves, kv->n_moves};
	return COHORT_OK;
}

/* ---- Shifting ---- */

struct shift {
	cohort_seq seq;
	cohort_pos p0, p1; /* cut to what the sequence holds */
	int64_t delta;
	bool cells; /* some are there to be moved; released ones have nothing to move */
	cohort_pos lo, hi; /* first and last of those */
	struct place_seq to; /* what the sequence will be */
	size_t base, end; /* the indices that may change */
	uint32_t *held; /* their words */
};

/* Bits of source block i, which may lie outside, that move. */
static uint32_t leaving(const struct kv *kv, const struct shift *sh, int64_t i)
{
	if (i < (int64_t)sh->base || i > (int64_t)sh->end)
		return 0;
	return sh->held[(size_t)i - sh->base] & kv_slots(kv, (size_t)i, sh->p0, sh->p1);
}

/* The cells that come to a block lie in two neighbouring ones: the upper slots of `at`, from `off` on, and the lower
 * ones of the next. */
struct arrival {
	int64_t at;
	int32_t off;
	uint32_t low, high; /* slots of the destination */
};

static struct arrival arriving(const struct kv *kv, const struct shift *sh, size_t index)
{
	const int64_t size = (int64_t)kv->size, q = (int64_t)index * size - sh->delta;
	const int64_t at = q >= 0 ? q / size : -((size - 1 - q) / size);
	struct arrival a = {.at = at, .off = (int32_t)(q - at * size)};

	a.low = leaving(kv, sh, at) >> a.off;
	a.high = (uint32_t)((uint64_t)leaving(kv, sh, at + 1) << (size - a.off)) & kv_slots(kv, index, 0, INT64_MAX);
	return a;
}

/* Moves what arrives from one source block, and gives that back when nothing is left in it. The destination's own block
 * is its caller's. */
static void move_from(
		struct pass *p, struct shift *sh, size_t index, int64_t i, int32_t to, uint32_t bits, int32_t back)
{
	if (!bits)
		return;
	const int32_t from = *kv_entry(p->kv, sh->seq, (size_t)i);
	uint32_t *word = &sh->held[(size_t)i - sh->base];
	pass_move(p, from, to, bits, back, (cohort_pos)sh->delta);
	*word &= back < 0 ? ~(bits << -back) : ~(bits >> back);
	if (*word == 0 && (size_t)i != index)
		pass_drop(p, from);
}

static bool shift_block(struct pass *p, struct shift *sh, size_t index)
{
	struct kv *kv = p->kv;
	const struct arrival a = arriving(kv, sh, index);
	uint32_t *word = &sh->held[index - sh->base];
	const bool have = *word != 0;
	const int32_t old = *kv_entry(kv, sh->seq, index);
	int32_t block;

	if (!a.low && !a.high)
		return true;
	if (!pass_take(p, &block))
		return false;
	move_from(p, sh, index, a.at, block, a.low, -a.off);
	move_from(p, sh, index, a.at + 1, block, a.high, (int32_t)kv->size - a.off);
	pass_move(p, old, block, *word, 0, 0);
	if (have)
		pass_drop(p, old);
	*word |= a.low | a.high;
	if (p->make) {
		places_hold(&kv->p, block);
		*kv_entry(kv, sh->seq, index) = block;
	}
	return true;
}

static bool shift_blocks(struct pass *p, struct shift *sh)
{
	bool ok = true;

	if (sh->delta < 0)
		for (size_t i = sh->base; ok && i <= sh->end; i++)
			ok = shift_block(p, sh, i);
	else
		for (size_t i = sh->end + 1; ok && i-- > sh->base;)
			ok = shift_block(p, sh, i);
	return ok;
}

/* The first position where a cell would land on one that stays, or -1. */
static int64_t first_clash(const struct kv *kv, const struct shift *sh)
{
	for (size_t i = sh->base; i <= sh->end; i++) {
		const struct arrival a = arriving(kv, sh, i);
		const uint32_t both = (a.low | a.high) & sh->held[i - sh->base] & ~leaving(kv, sh, (int64_t)i);
		if (both)
			return (int64_t)(i * kv->size) + __builtin_ctz(both);
	}
	return -1;
}

/* Positions that leave the allowed ones. lo and hi: of the range, released cells included. */
static enum cohort_status check_limits(
		const struct kv *kv, const struct shift *sh, int64_t lo, int64_t hi, struct cohort_err *err)
{
	if (lo + sh->delta < 0)
		return err_rule(err, COHORT_E_ARG, "pos-negative", -1, sh->seq, 0, lo + sh->delta,
				"position %lld of sequence %d cannot move by %lld", (long long)lo, sh->seq,
				(long long)sh->delta);
	if (hi + sh->delta >= (int64_t)kv->p.n_pos_max)
		return err_rule(err, COHORT_E_ARG, "pos-limit", -1, sh->seq, (int64_t)kv->p.n_pos_max, hi + sh->delta,
				"position %lld of sequence %d cannot move by %lld: positions end before %zu",
				(long long)hi, sh->seq, (long long)sh->delta, kv->p.n_pos_max);
	return COHORT_OK;
}

/* Where the released cells, [lo, hole) of the range among them, and the first and last cell will be. False: released
 * cells would come to lie among those that are there, or the sequence would need them again. */
static bool shift_lengths(const struct kv *kv, struct shift *sh, cohort_pos lo, cohort_pos hi)
{
	const struct place_seq *s = &kv->p.seqs[sh->seq];
	const cohort_pos delta = (cohort_pos)sh->delta;
	const bool below = s->min < sh->p0, above = s->max >= sh->p1; /* something stays there */
	const bool released = sh->p0 < s->gone;
	struct place_seq *to = &sh->to;

	*to = *s;
	to->min = lo + delta;
	if (above)
		to->min = pos_min(to->min, sh->p1 < s->gone ? sh->p1 : kv_next_held(kv, sh->seq, sh->p1));
	if (below)
		to->min = pos_min(to->min, s->min);
	if (released && sh->p1 >= s->gone)
		to->gone = s->gone + delta;
	if (sh->cells) {
		to->first = sh->lo + delta;
		to->max = sh->hi + delta;
		if (s->first < sh->p0)
			to->first = pos_min(to->first, s->first);
		if (above)
			to->first = pos_min(to->first, kv_next_held(kv, sh->seq, sh->p1));
		if (above)
			to->max = pos_max(to->max, s->max);
		else if (s->first < sh->p0)
			to->max = pos_max(to->max, kv_prev_held(kv, sh->seq, sh->p0 - 1));
	}
	if (s->gone == 0)
		return true;
	if (released && ((below && lo + delta < s->min) || (sh->p1 < s->gone && hi + delta >= s->gone)))
		return false;
	return to->gone <= to->first && to->gone <= to->max + 2 - kv->window;
}

/* The words of the indices the shift may change, as a copy. */
static bool shift_words(struct kv *kv, struct shift *sh)
{
	const int64_t lo = sh->lo, hi = sh->hi, d = sh->delta, size = (int64_t)kv->size;

	sh->base = (size_t)((d < 0 ? lo + d : lo) / size);
	sh->end = (size_t)((d < 0 ? hi : hi + d) / size);
	if (!mem_grow((void **)&kv->scratch, &kv->scratch_max, sh->end + 1 - sh->base, sizeof *kv->scratch))
		return false;
	sh->held = kv->scratch;
	for (size_t i = sh->base; i <= sh->end; i++)
		sh->held[i - sh->base] = kv_word_at(kv, sh->seq, i);
	return true;
}

static enum cohort_status shift_cells(struct kv *kv, struct shift *sh, bool dry, struct cohort_err *err)
{
	if (!shift_words(kv, sh))
		return no_memory(err);
	const int64_t clash = first_clash(kv, sh);
	if (clash >= 0)
		return err_rule(err, COHORT_E_ARG, "add-occupied", -1, sh->seq, clash, clash,
				"sequence %d holds position %lld already, where another of its cells would go", sh->seq,
				(long long)clash);
	struct pass p = pass_begin(kv, false);
	if (!shift_blocks(&p, sh))
		return no_room(kv, sh->seq, err);
	if (!moves_room(kv, &p))
		return no_memory(err);
	if (!dry) {
		widen(kv, sh->seq, sh->base, sh->end);
		sh->held = kv_word(kv, sh->seq, sh->base);
		p = pass_begin(kv, true);
		shift_blocks(&p, sh);
		kv->n_moves = p.n_moves;
	}
	return COHORT_OK;
}

/* Plans the shift of a range that is not empty and, unless dry, makes it. */
static enum cohort_status shift_range(struct kv *kv, struct shift *sh, bool dry, struct cohort_err *err)
{
	const struct place_seq *s = &kv->p.seqs[sh->seq];
	const bool released = sh->p0 < s->gone;
	enum cohort_status st;

	sh->lo = kv_next_held(kv, sh->seq, sh->p0);
	sh->hi = kv_prev_held(kv, sh->seq, sh->p1 - 1);
	sh->cells = sh->lo < sh->p1;
	if (!sh->cells && !released)
		return COHORT_OK;
	const cohort_pos lo = released ? sh->p0 : sh->lo, hi = sh->cells ? sh->hi : pos_min(sh->p1, s->gone) - 1;
	st = check_limits(kv, sh, lo, hi, err);
	if (st)
		return st;
	if (!shift_lengths(kv, sh, lo, hi))
		return err_rule(err, COHORT_E_ARG, "window-gone", -1, sh->seq, s->gone, lo + sh->delta,
				"positions %d to %d of sequence %d cannot move by %lld: cells before %d fell out of "
				"the window and are gone",
				lo, hi, sh->seq, (long long)sh->delta, s->gone);
	if (sh->cells)
		st = shift_cells(kv, sh, dry, err);
	if (!st && !dry)
		kv->p.seqs[sh->seq] = sh->to;
	return st;
}

enum cohort_status kv_seq_add(struct kv *kv, cohort_seq seq, cohort_pos p0, cohort_pos p1, cohort_pos delta, bool dry,
		struct kv_moves *moves, struct cohort_err *err)
{
	struct shift sh = {.seq = seq, .p0 = p0, .p1 = p1, .delta = delta};
	enum cohort_status st = places_range(&kv->p, seq, &sh.p0, &sh.p1, err);

	if (st)
		return st;
	kv->n_moves = 0;
	if (delta != 0 && sh.p0 < sh.p1)
		st = shift_range(kv, &sh, dry, err);
	if (!st && !dry)
		*moves = (struct kv_moves){kv->moves, kv->n_moves};
	return st;
}

/* ---- Images ---- */

static enum cohort_status unsound(const struct kv_image_seq *q, const char *what, struct cohort_err *err)
{
	return err_rule(err, COHORT_E_FORMAT, "image", -1, q->seq, 0, 0, "the image of sequence %d is not sound: %s",
			q->seq, what);
}

/* The lengths alone: what must hold before the arrays may be looked at. */
static const char *check_lengths(const struct kv *kv, const struct kv_image_seq *q)
{
	if (q->max == -1)
		return q->min == -1 && q->first == -1 && q->gone == 0 ? NULL : "an empty sequence has positions";
	if (q->min < 0 || q->first < q->min || q->max < q->first)
		return "its positions are not in order";
	if ((size_t)q->max >= kv->p.n_pos_max)
		return "its positions are beyond the limit";
	if (q->first == q->min)
		return q->gone == 0 ? NULL : "cells were released of which none is missing";
	/* What the next row sees, and everything without a window, was not released. */
	if (q->gone <= q->min || q->gone > q->first || q->gone > q->max + 2 - kv->window)
		return "cells are missing at its beginning";
	return NULL;
}

/* Which index an image block was seen at, plus one, is in the scratch words. */
static const char *check_cells(struct kv *kv, const struct kv_image *im, const struct kv_image_seq *q, size_t *n_seen)
{
	const size_t from = (size_t)q->first / kv->size, n = (size_t)q->max / kv->size - from + 1;

	for (size_t i = 0; i < n; i++) {
		const uint32_t held = q->held[i];
		const int32_t block = q->blocks[i];
		if (held & ~kv_slots(kv, from + i, q->first, (int64_t)q->max + 1))
			return "a cell is outside its positions";
		if (!held && block != -1)
			return "a block of which nothing is held";
		if (!held)
			continue;
		if (block < 0 || (size_t)block >= im->n_blocks)
			return "a block that is not in the image";
		uint32_t *at = &kv->scratch[block];
		if (*at && *at != from + i + 1)
			return "a block at two places";
		*n_seen += *at == 0;
		*at = (uint32_t)(from + i + 1);
	}
	const uint32_t first = q->held[0] >> (size_t)q->first % kv->size & 1;
	const uint32_t last = q->held[n - 1] >> (size_t)q->max % kv->size & 1;
	return first && last ? NULL : "its first or last cell is not held";
}

static enum cohort_status check_image(struct kv *kv, const struct kv_image *im, struct cohort_err *err)
{
	size_t n_seen = 0;

	if (im->n_blocks > kv->p.n)
		return err_rule(err, COHORT_NO_ROOM, "kv-room", -1, -1, (int64_t)kv->p.n, 0,
				"the image has %zu blocks, the cache %zu", im->n_blocks, kv->p.n);
	if (!mem_grow((void **)&kv->scratch, &kv->scratch_max, im->n_blocks, sizeof *kv->scratch))
		return no_memory(err);
	for (size_t i = 0; i < im->n_blocks; i++)
		kv->scratch[i] = 0;
	kv->p.epoch++;
	for (size_t i = 0; i < im->n_seqs; i++) {
		const struct kv_image_seq *q = &im->seqs[i];
		enum cohort_status st = places_known(&kv->p, q->seq, err);
		if (st)
			return st;
		const char *what = kv->p.touched[q->seq] == kv->p.epoch ? "it is named twice" : check_lengths(kv, q);
		if (!what && q->max >= 0)
			what = check_cells(kv, im, q, &n_seen);
		if (what)
			return unsound(q, what, err);
		kv->p.touched[q->seq] = kv->p.epoch;
	}
	if (n_seen != im->n_blocks)
		return err_rule(err, COHORT_E_FORMAT, "image", -1, -1, (int64_t)im->n_blocks, (int64_t)n_seen,
				"the image has %zu blocks, and its sequences hold %zu", im->n_blocks, n_seen);
	return COHORT_OK;
}

/* Takes away a sequence's references, or gives them back; returns the number of blocks that are then without. */
static size_t refer(struct kv *kv, cohort_seq seq, int32_t step)
{
	const struct place_seq *s = &kv->p.seqs[seq];
	size_t n = 0;

	if (s->max < 0)
		return 0;
	for (size_t i = kv_first_index(kv, s); i <= kv_last_index(kv, s); i++)
		if (*kv_word(kv, seq, i))
			n += (kv->p.ref[*kv_entry(kv, seq, i)] += step) == 0;
	return n;
}

/* Blocks that are free once the image's sequences are empty: what they share among themselves counts once, what others
 * share does not. */
static size_t room_without(struct kv *kv, const struct kv_image *im)
{
	size_t n = kv->p.n_free;

	for (size_t i = 0; i < im->n_seqs; i++)
		n += refer(kv, im->seqs[i].seq, -1);
	for (size_t i = 0; i < im->n_seqs; i++)
		refer(kv, im->seqs[i].seq, 1);
	return n;
}

static void make_seq(struct kv *kv, const struct kv_image_seq *q, const int32_t *ids)
{
	struct place_seq *s = &kv->p.seqs[q->seq];
	const size_t from = (size_t)q->first / kv->size, n = (size_t)q->max / kv->size - from + 1;

	*s = (struct place_seq){.min = q->min, .first = q->first, .max = q->max, .gone = q->gone};
	for (size_t i = 0; i < n; i++) {
		*kv_word(kv, q->seq, from + i) = q->held[i];
		s->n_cells += __builtin_popcount(q->held[i]);
		if (q->held[i]) {
			*kv_entry(kv, q->seq, from + i) = ids[q->blocks[i]];
			places_hold(&kv->p, ids[q->blocks[i]]);
		}
	}
	places_live_add(&kv->p, q->seq);
}

enum cohort_status kv_import(struct kv *kv, const struct kv_image *im, bool dry, int32_t *ids, struct cohort_err *err)
{
	enum cohort_status st = kv->p.open ? places_known(&kv->p, 0, err) : check_image(kv, im, err);

	if (st)
		return st;
	const size_t room = im->all ? kv->p.n : room_without(kv, im);
	if (im->n_blocks > room)
		return err_rule(err, COHORT_NO_ROOM, "kv-room", -1, -1, (int64_t)room, 0,
				"the image has %zu blocks, and there is room for %zu", im->n_blocks, room);
	if (dry)
		return COHORT_OK;
	if (im->all)
		kv_clear(kv);
	for (size_t i = 0; i < im->n_seqs; i++)
		if (kv->p.seqs[im->seqs[i].seq].max >= 0)
			kv_empty(kv, im->seqs[i].seq);
	for (size_t i = 0; i < im->n_blocks; i++)
		ids[i] = kv_take(kv);
	for (size_t i = 0; i < im->n_seqs; i++)
		if (im->seqs[i].max >= 0)
			make_seq(kv, &im->seqs[i], ids);
	return COHORT_OK;
}
