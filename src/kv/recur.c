/* States, sequences and checkpoints of recurrent memory. places.h has the invariants of references and the journal.
 *
 * Invariants
 *  1. A state that was there at recur_begin is never written. Its note is 0; for a state that the transaction made it
 *     is the size of the set whose rows write it.
 *  2. A state is written by one set only. Its holders are that set, less those that parted; so a set of that size that
 *     holds it is the set itself. A set that parted reads the common state and writes its own, whatever the order in
 *     which the sets are computed: the common state stays as it is until the end of the transaction, even if it has no
 *     reference any more.
 *  3. A sequence's checkpoints rise in position, and none is past its end.
 * Refuses to know: what a state is, and how rows change it. */
#include "kv/recur_impl.h"

#include "base/mem.h"

#include <string.h>

struct recur *recur_open(const struct recur_limits *lim)
{
	const size_t n_seq_max = lim->n_seq_max;
	struct recur *r = lim->n_checkpoints <= INT32_MAX ? mem_zalloc(1, sizeof *r) : NULL;

	if (!r)
		return NULL;
	/* Which checks the limits. */
	if (!places_init(&r->p, lim->n_states, n_seq_max, lim->n_pos_max, lim->n_rows_max))
		goto fail;
	r->n_checks_max = lim->n_checkpoints;
	r->states = mem_zalloc(n_seq_max, sizeof *r->states);
	r->checks = mem_zalloc(n_seq_max, lim->n_checkpoints * sizeof *r->checks);
	if (!r->states || !r->checks ||
			!mem_grow((void **)&r->steps, &r->steps_max, lim->n_rows_max, sizeof *r->steps))
		goto fail;
	for (size_t i = 0; i < n_seq_max; i++)
		r->states[i] = -1;
	return r;
fail:
	recur_free(r);
	return NULL;
}

void recur_free(struct recur *r)
{
	if (r) {
		places_release(&r->p);
		mem_free(r->states);
		mem_free(r->checks);
		mem_free(r->steps);
		mem_free(r);
	}
}

static struct recur_check *checks_of(const struct recur *r, cohort_seq seq)
{
	return r->checks + (size_t)seq * r->n_checks_max;
}

static void empty(struct recur *r, cohort_seq seq)
{
	struct place_seq *s = &r->p.seqs[seq];

	while (s->n_checks > 0)
		places_drop(&r->p, checks_of(r, seq)[--s->n_checks].state);
	places_drop(&r->p, r->states[seq]);
	r->states[seq] = -1;
	places_empty(&r->p, seq);
}

/* ---- The transaction ---- */

void recur_begin(struct recur *r)
{
	recur_rollback(r); /* a transaction that was not ended is undone */
	places_begin(&r->p);
}

void recur_unreserve(struct recur *r)
{
	places_undo(&r->p, false);
}

void recur_rollback(struct recur *r)
{
	places_undo(&r->p, true);
}

void recur_commit(struct recur *r)
{
	places_commit(&r->p);
}

static void advance(struct recur *r, cohort_seq seq, cohort_pos pos, int32_t state)
{
	struct place_seq *s = &r->p.seqs[seq];

	places_touch(&r->p, seq);
	if (s->max < 0) {
		places_live_add(&r->p, seq);
		s->min = s->first = pos;
	}
	if (r->states[seq] != state)
		places_set(&r->p, &r->states[seq], r->states[seq], state);
	s->max = pos;
}

static enum cohort_status step(struct recur *r, const struct kv_row *rows, size_t n, struct cohort_err *err)
{
	const struct kv_row *row = &rows[n];
	const int32_t from = r->states[row->seq[0]];
	int32_t to = from;

	if (!places_room(&r->p, (size_t)row->n_seq))
		return err_set(err, COHORT_E_MEMORY, "out of memory");
	if (from < 0 || r->p.note[from] != (uint32_t)row->n_seq) {
		if (r->p.n_free == 0)
			return err_rule(err, COHORT_NO_ROOM, "kv-room", (int64_t)n, row->seq[0], (int64_t)n, 0,
					"no room for the state of row %zu (sequence %d, position %d): all %zu states "
					"are in use; the first %zu rows would fit",
					n, row->seq[0], row->pos, r->p.n, n);
		to = places_take(&r->p);
		r->p.note[to] = (uint32_t)row->n_seq;
	}
	for (int32_t i = 0; i < row->n_seq; i++)
		advance(r, row->seq[i], row->pos, to);
	r->steps[n] = (struct recur_step){from, to};
	return COHORT_OK;
}

enum cohort_status recur_reserve(struct recur *r, const struct kv_row *rows, size_t n_rows,
		const struct recur_step **steps, struct cohort_err *err)
{
	enum cohort_status st = places_reserve(&r->p, err);

	if (st)
		return st;
	if (!mem_grow((void **)&r->steps, &r->steps_max, n_rows, sizeof *r->steps))
		return err_set(err, COHORT_E_MEMORY, "out of memory for %zu rows", n_rows);
	for (size_t i = 0; i < n_rows && !st; i++)
		st = step(r, rows, i, err);
	if (st)
		recur_unreserve(r);
	else
		*steps = r->steps;
	return st;
}

/* ---- Looking ---- */

cohort_pos recur_pos_min(const struct recur *r, cohort_seq seq)
{
	return places_look(&r->p, seq)->min;
}

cohort_pos recur_pos_max(const struct recur *r, cohort_seq seq)
{
	return places_look(&r->p, seq)->max;
}

int32_t recur_state(const struct recur *r, cohort_seq seq)
{
	return places_look(&r->p, seq)->max < 0 ? -1 : r->states[seq];
}

bool recur_same(const struct recur *r, cohort_seq a, cohort_seq b)
{
	/* a state has seen so many positions */
	return recur_state(r, a) == recur_state(r, b) && recur_pos_min(r, a) == recur_pos_min(r, b);
}

const struct places *recur_places(const struct recur *r)
{
	return &r->p;
}

/* ---- Sequences ---- */

/* The number of checkpoints up to the one at pos; 0: there is none at pos. */
static size_t checks_to(const struct recur *r, cohort_seq seq, cohort_pos pos)
{
	for (size_t n = (size_t)r->p.seqs[seq].n_checks; n > 0; n--)
		if (checks_of(r, seq)[n - 1].pos == pos)
			return n;
	return 0;
}

bool recur_holds(const struct recur *r, cohort_seq seq, cohort_pos p0, cohort_pos p1)
{
	return !places_range(&r->p, seq, &p0, &p1, NULL) && p0 < p1;
}

/* The rule names the end that is not the sequence's; if it is, the beginning. */
static enum cohort_status no_checkpoint(
		const struct recur *r, cohort_seq seq, cohort_pos p0, cohort_pos p1, struct cohort_err *err)
{
	const struct place_seq *s = &r->p.seqs[seq];
	const bool tail = p1 > s->max;

	return err_rule(err, COHORT_E_ARG, "checkpoint", -1, seq, tail ? s->min : s->max + 1, tail ? p0 : p1,
			"sequence %d has one state for positions %d to %d; %d to %d cannot be told apart without a "
			"checkpoint",
			seq, s->min, s->max, p0, p1 - 1);
}

enum cohort_status recur_checkpoint(struct recur *r, cohort_seq seq, struct cohort_err *err)
{
	enum cohort_status st = places_known(&r->p, seq, err);
	if (st)
		return st;
	struct place_seq *s = &r->p.seqs[seq];
	struct recur_check *checks = checks_of(r, seq);
	if (r->n_checks_max == 0)
		return err_rule(err, COHORT_E_ARG, "checkpoint", -1, seq, 0, 1, "no checkpoints are kept");
	if (s->max < 0 || checks_to(r, seq, s->max))
		return COHORT_OK;
	places_hold(&r->p, r->states[seq]);
	if ((size_t)s->n_checks == r->n_checks_max) {
		places_drop(&r->p, checks[0].state);
		memmove(checks, checks + 1, (size_t)--s->n_checks * sizeof *checks);
	}
	checks[s->n_checks++] = (struct recur_check){s->max, r->states[seq]};
	return COHORT_OK;
}

enum cohort_status recur_seq_rm(
		struct recur *r, cohort_seq seq, cohort_pos p0, cohort_pos p1, bool dry, struct cohort_err *err)
{
	enum cohort_status st = places_range(&r->p, seq, &p0, &p1, err);
	if (st || p0 >= p1)
		return st;
	struct place_seq *s = &r->p.seqs[seq];
	const bool head = p0 == s->min, tail = p1 > s->max;
	const size_t n_left = checks_to(r, seq, p0 - 1);
	if (!tail || (!head && !n_left))
		return no_checkpoint(r, seq, p0, p1, err);
	if (dry)
		return COHORT_OK;
	if (head) {
		empty(r, seq);
		return COHORT_OK;
	}
	const struct recur_check *checks = checks_of(r, seq);
	places_hold(&r->p, checks[n_left - 1].state);
	places_drop(&r->p, r->states[seq]);
	r->states[seq] = checks[n_left - 1].state;
	s->max = p0 - 1;
	while ((size_t)s->n_checks > n_left)
		places_drop(&r->p, checks[--s->n_checks].state);
	return COHORT_OK;
}

enum cohort_status recur_seq_cp(struct recur *r, cohort_seq src, cohort_seq dst, cohort_pos p0, cohort_pos p1, bool dry,
		struct cohort_err *err)
{
	enum cohort_status st = places_known(&r->p, dst, err);
	if (!st)
		st = places_range(&r->p, src, &p0, &p1, err);
	if (st || src == dst || p0 >= p1)
		return st;
	const struct place_seq *s = &r->p.seqs[src];
	struct place_seq *d = &r->p.seqs[dst];
	if (d->max >= 0)
		return err_rule(err, COHORT_E_ARG, "cp-occupied", -1, dst, 0, d->max + 1,
				"sequence %d has a state; it must be empty to get that of %d", dst, src);
	const bool whole = p1 > s->max;
	const size_t n_left = whole ? (size_t)s->n_checks : checks_to(r, src, p1 - 1);
	if (p0 > s->min || (!whole && !n_left))
		return no_checkpoint(r, src, p0, p1, err);
	if (dry)
		return COHORT_OK;
	const struct recur_check *checks = checks_of(r, src);
	*d = (struct place_seq){.min = s->min, .max = p1 - 1, .first = s->first, .n_checks = (int32_t)n_left};
	r->states[dst] = whole ? r->states[src] : checks[n_left - 1].state;
	places_hold(&r->p, r->states[dst]);
	for (size_t i = 0; i < n_left; i++) {
		checks_of(r, dst)[i] = checks[i];
		places_hold(&r->p, checks[i].state);
	}
	places_live_add(&r->p, dst);
	return COHORT_OK;
}

enum cohort_status recur_seq_keep(struct recur *r, cohort_seq seq, struct cohort_err *err)
{
	enum cohort_status st = places_known(&r->p, seq, err);

	/* What takes the place of a removed one was looked at before. */
	for (size_t i = st ? 0 : r->p.n_live; i-- > 0;)
		if (r->p.live[i] != seq)
			empty(r, r->p.live[i]);
	return st;
}

enum cohort_status recur_seq_add(struct recur *r, cohort_seq seq, cohort_pos p0, cohort_pos p1, cohort_pos delta,
		bool dry, struct cohort_err *err)
{
	enum cohort_status st = places_range(&r->p, seq, &p0, &p1, err);
	if (st || delta == 0 || p0 >= p1)
		return st;
	struct place_seq *s = &r->p.seqs[seq];
	if (p0 > s->min || p1 <= s->max)
		return no_checkpoint(r, seq, p0, p1, err);
	const int64_t min = (int64_t)s->min + delta, max = (int64_t)s->max + delta;
	if (min < 0)
		return err_rule(err, COHORT_E_ARG, "pos-negative", -1, seq, 0, min,
				"position %d of sequence %d cannot move by %d", s->min, seq, delta);
	if ((size_t)max >= r->p.n_pos_max)
		return err_rule(err, COHORT_E_ARG, "pos-limit", -1, seq, (int64_t)r->p.n_pos_max, max,
				"position %d of sequence %d cannot move by %d; it ends before %zu", s->max, seq, delta,
				r->p.n_pos_max);
	if (dry)
		return COHORT_OK;
	s->min = (cohort_pos)min;
	s->max = (cohort_pos)max;
	for (int32_t i = 0; i < s->n_checks; i++)
		checks_of(r, seq)[i].pos += delta;
	return COHORT_OK;
}

void recur_clear(struct recur *r)
{
	recur_rollback(r);
	while (r->p.n_live)
		empty(r, r->p.live[r->p.n_live - 1]);
}

/* ---- Images ---- */

size_t recur_checks(const struct recur *r, cohort_seq seq, const struct recur_check **checks)
{
	*checks = checks_of(r, seq);
	return (size_t)r->p.seqs[seq].n_checks;
}

static bool positions_sound(const struct recur_image_seq *q)
{
	if (q->max < 0)
		return q->max == -1 && q->min == -1 && q->state == -1 && q->n_checks == 0;
	bool ok = q->min >= 0 && q->min <= q->max;
	for (size_t i = 0; ok && i < q->n_checks; i++)
		ok = q->checks[i].pos >= q->min && q->checks[i].pos <= q->max &&
				(i == 0 || q->checks[i].pos > q->checks[i - 1].pos);
	return ok;
}

/* Marks the image states that the sequence names; false when there is no such state. used: [n_states] */
static bool mark_states(const struct recur_image_seq *q, size_t n_states, int32_t *used)
{
	bool ok = q->max < 0 || (q->state >= 0 && (size_t)q->state < n_states);
	if (q->max >= 0 && ok)
		used[q->state] = 1;
	for (size_t i = 0; ok && i < q->n_checks; i++) {
		const int32_t state = q->checks[i].state;
		ok = state >= 0 && (size_t)state < n_states;
		if (ok)
			used[state] = 1;
	}
	return ok;
}

static enum cohort_status image_sound(
		const struct recur *r, const struct recur_image *m, int32_t *used, struct cohort_err *err)
{
	for (size_t i = 0; i < m->n_seqs; i++) {
		const struct recur_image_seq *q = &m->seqs[i];
		enum cohort_status st = places_known(&r->p, q->seq, err);
		if (st)
			return st;
		if ((i > 0 && q->seq <= m->seqs[i - 1].seq) || !positions_sound(q) ||
				!mark_states(q, m->n_states, used))
			return err_set(err, COHORT_E_FORMAT, "the states of sequence %d are not sound", q->seq);
		if (q->n_checks > r->n_checks_max)
			return err_rule(err, COHORT_E_UNSUPPORTED, "checkpoint", -1, q->seq, (int64_t)r->n_checks_max,
					(int64_t)q->n_checks, "sequence %d has %zu checkpoints, and %zu are kept here",
					q->seq, q->n_checks, r->n_checks_max);
	}
	for (size_t i = 0; i < m->n_states; i++)
		if (!used[i])
			return err_set(err, COHORT_E_FORMAT, "state %zu of %zu belongs to nobody", i, m->n_states);
	return COHORT_OK;
}

/* Takes a sequence's references away, or gives them back; returns the number of states that are then without. */
static size_t refer(struct recur *r, cohort_seq seq, int32_t step)
{
	size_t n = 0;

	if (r->p.seqs[seq].max < 0)
		return 0;
	n += (r->p.ref[r->states[seq]] += step) == 0;
	for (int32_t i = 0; i < r->p.seqs[seq].n_checks; i++)
		n += (r->p.ref[checks_of(r, seq)[i].state] += step) == 0;
	return n;
}

static size_t room_without(struct recur *r, const struct recur_image *m)
{
	size_t n = r->p.n_free;

	for (size_t i = 0; i < m->n_seqs; i++)
		n += refer(r, m->seqs[i].seq, -1);
	for (size_t i = 0; i < m->n_seqs; i++)
		refer(r, m->seqs[i].seq, 1);
	return n;
}

static enum cohort_status may_import(struct recur *r, const struct recur_image *m, struct cohort_err *err)
{
	int32_t *used = mem_zalloc(m->n_states, sizeof *used);
	enum cohort_status st = used ? image_sound(r, m, used, err)
				     : err_set(err, COHORT_E_MEMORY, "out of memory for %zu states", m->n_states);

	mem_free(used);
	const size_t room = st || m->all ? r->p.n : room_without(r, m);
	if (!st && room < m->n_states)
		st = err_rule(err, COHORT_NO_ROOM, "kv-room", -1, -1, (int64_t)room, (int64_t)m->n_states,
				"no room for %zu states: %zu are free", m->n_states, room);
	return st;
}

enum cohort_status recur_import(
		struct recur *r, const struct recur_image *m, bool dry, int32_t *ids, struct cohort_err *err)
{
	if (r->p.open)
		return err_set(err, COHORT_E_BUG, "a transaction is open");
	if (dry)
		return may_import(r, m, err);
	if (m->all)
		recur_clear(r);
	for (size_t i = 0; i < m->n_seqs; i++)
		if (r->p.seqs[m->seqs[i].seq].max >= 0)
			empty(r, m->seqs[i].seq);
	for (size_t i = 0; i < m->n_states; i++)
		ids[i] = places_take(&r->p);
	for (size_t i = 0; i < m->n_seqs; i++) {
		const struct recur_image_seq *q = &m->seqs[i];
		if (q->max < 0)
			continue;
		r->p.seqs[q->seq] = (struct place_seq){
				.min = q->min, .max = q->max, .first = q->min, .n_checks = (int32_t)q->n_checks};
		r->states[q->seq] = ids[q->state];
		places_live_add(&r->p, q->seq);
		places_hold(&r->p, ids[q->state]);
		for (size_t k = 0; k < q->n_checks; k++) {
			checks_of(r, q->seq)[k] = (struct recur_check){q->checks[k].pos, ids[q->checks[k].state]};
			places_hold(&r->p, ids[q->checks[k].state]);
		}
	}
	return COHORT_OK;
}

/* ---- For tests ---- */

bool recur_consistent(const struct recur *r)
{
	bool ok = true;
	size_t n_live = 0;
	int32_t *n = mem_zalloc(r->p.n, sizeof *n);

	if (!n)
		return false;
	for (size_t q = 0; q < r->p.n_seq_max; q++) {
		const struct place_seq *s = &r->p.seqs[q];
		const struct recur_check *checks = checks_of(r, (cohort_seq)q);
		ok = ok && (s->max < 0) == (r->states[q] < 0);
		if (s->max < 0)
			continue;
		n_live++;
		n[r->states[q]]++;
		ok = ok && s->min >= 0 && s->min <= s->max;
		for (int32_t i = 0; i < s->n_checks; i++) {
			n[checks[i].state]++;
			ok = ok && checks[i].pos <= s->max && (i == 0 || checks[i].pos > checks[i - 1].pos);
		}
	}
	ok = places_consistent(&r->p, n, n_live) && ok;
	mem_free(n);
	return ok;
}

uint64_t recur_hash(const struct recur *r)
{
	uint64_t h = places_hash(&r->p);

	for (size_t q = 0; q < r->p.n_live; q++) {
		const cohort_seq seq = r->p.live[q];
		const struct recur_check *checks = checks_of(r, seq);
		places_hash_add(&h, (uint64_t)r->states[seq]);
		for (int32_t i = 0; i < r->p.seqs[seq].n_checks; i++)
			places_hash_add(&h, (uint64_t)checks[i].pos << 32 | (uint32_t)checks[i].state);
	}
	return h;
}
