/* States, sequences and checkpoints of recurrent memory.
 *
 * Invariants
 *  1. ref[s] is the number of sequences and checkpoints that name state s; free states have ref -1 and are on the free
 *     list once. Outside a transaction no state has ref 0: the last to let go of it gives it back.
 *  2. A state that was there at recur_begin is never written. writers[s] is 0 for those; for a state that the
 *     transaction made it is the size of the set whose rows write it.
 *  3. A state is written by one set only. Its holders are that set, less those that parted; so a set of that size that
 *     holds it is the set itself. A set that parted reads the common state and writes
 *     its own, whatever the order in which the sets are computed: the common state stays as it is until the end of the
 *     transaction, even if nobody holds it any more.
 *  4. The journal holds every sequence as it was; undoing it backwards and giving back the states that were taken, the
 *     last first, restores the books exactly, the order of the free list included.
 *  5. A sequence's checkpoints rise in position, and none is past its end.
 * Refuses to know: what a state is, and how rows change it. */
#include "kv/recur_impl.h"

#include "base/mem.h"

#include <string.h>

static const struct recur_seq nothing = {.min = -1, .max = -1, .state = -1};

struct recur *recur_open(const struct recur_limits *lim)
{
	const size_t n = lim->n_states, n_seq_max = lim->n_seq_max;
	const bool sane = n <= INT32_MAX && n_seq_max <= INT32_MAX && lim->n_checkpoints <= INT32_MAX;
	struct recur *r = sane ? mem_zalloc(1, sizeof *r) : NULL;

	if (!r)
		return NULL;
	r->n_states = n;
	r->n_seq_max = n_seq_max;
	r->n_checks_max = lim->n_checkpoints;
	r->n_pos_max = lim->n_pos_max;
	r->seqs = mem_zalloc(n_seq_max, sizeof *r->seqs);
	r->checks = mem_zalloc(n_seq_max, lim->n_checkpoints * sizeof *r->checks);
	r->live = mem_zalloc(n_seq_max, sizeof *r->live);
	r->touched = mem_zalloc(n_seq_max, sizeof *r->touched);
	r->ref = mem_zalloc(n, sizeof *r->ref);
	r->writers = mem_zalloc(n, sizeof *r->writers);
	r->free = mem_zalloc(n, sizeof *r->free);
	r->taken = mem_zalloc(n, sizeof *r->taken);
	if (!r->seqs || !r->checks || !r->live || !r->touched || !r->ref || !r->writers || !r->free || !r->taken)
		goto fail;
	if (!mem_grow((void **)&r->lengths, &r->lengths_max, lim->n_rows_max, sizeof *r->lengths) ||
			!mem_grow((void **)&r->steps, &r->steps_max, lim->n_rows_max, sizeof *r->steps))
		goto fail;
	for (size_t i = 0; i < n_seq_max; i++)
		r->seqs[i] = nothing;
	for (size_t i = 0; i < n; i++) { /* the lowest number on top */
		r->free[i] = (int32_t)(n - 1 - i);
		r->ref[i] = -1;
	}
	r->n_free = n;
	return r;
fail:
	recur_free(r);
	return NULL;
}

void recur_free(struct recur *r)
{
	if (r) {
		mem_free(r->seqs);
		mem_free(r->checks);
		mem_free(r->live);
		mem_free(r->touched);
		mem_free(r->ref);
		mem_free(r->writers);
		mem_free(r->free);
		mem_free(r->taken);
		mem_free(r->lengths);
		mem_free(r->steps);
		mem_free(r);
	}
}

static struct recur_check *checks_of(const struct recur *r, cohort_seq seq)
{
	return r->checks + (size_t)seq * r->n_checks_max;
}

/* ---- References ---- */

static void hold(struct recur *r, int32_t state)
{
	r->n_shared += ++r->ref[state] == 2;
}

/* Without giving it back. */
static void let_go(struct recur *r, int32_t state)
{
	r->n_shared -= --r->ref[state] == 1;
}

static void give_back_unheld(struct recur *r, int32_t state)
{
	if (r->ref[state] == 0) {
		r->ref[state] = -1;
		r->free[r->n_free++] = state;
	}
}

static void drop(struct recur *r, int32_t state)
{
	let_go(r, state);
	give_back_unheld(r, state);
}

static void live_add(struct recur *r, cohort_seq seq)
{
	r->seqs[seq].live = (int32_t)r->n_live;
	r->live[r->n_live++] = seq;
}

static void live_remove(struct recur *r, cohort_seq seq)
{
	const int32_t at = r->seqs[seq].live;
	const cohort_seq last = r->live[--r->n_live];

	r->live[at] = last;
	r->seqs[last].live = at;
}

static void empty(struct recur *r, cohort_seq seq)
{
	struct recur_seq *s = &r->seqs[seq];

	for (size_t i = 0; i < s->n_checks; i++)
		drop(r, checks_of(r, seq)[i].state);
	drop(r, s->state);
	live_remove(r, seq);
	*s = nothing;
}

/* ---- The transaction ---- */

static void undo(struct recur *r, size_t n_lengths, size_t n_taken)
{
	while (r->n_lengths > n_lengths) {
		const struct recur_length *l = &r->lengths[--r->n_lengths];
		let_go(r, r->seqs[l->seq].state);
		if (l->old.state >= 0)
			hold(r, l->old.state);
		else
			live_remove(r, l->seq); /* they joined in this order, so they leave from the end */
		r->seqs[l->seq] = l->old;
	}
	while (r->n_taken > n_taken) {
		const int32_t state = r->taken[--r->n_taken];
		r->writers[state] = 0;
		give_back_unheld(r, state);
	}
}

void recur_begin(struct recur *r)
{
	recur_rollback(r); /* one that nobody ended is given up */
	r->open = true;
}

void recur_unreserve(struct recur *r)
{
	undo(r, r->mark_lengths, r->mark_taken);
}

void recur_rollback(struct recur *r)
{
	undo(r, 0, 0);
	r->mark_lengths = r->mark_taken = 0;
	r->open = false;
}

void recur_commit(struct recur *r)
{
	for (size_t i = 0; i < r->n_taken; i++) {
		r->writers[r->taken[i]] = 0;
		give_back_unheld(r, r->taken[i]);
	}
	for (size_t i = 0; i < r->n_lengths; i++)
		if (r->lengths[i].old.state >= 0)
			give_back_unheld(r, r->lengths[i].old.state);
	r->n_lengths = r->n_taken = 0;
	r->mark_lengths = r->mark_taken = 0;
	r->open = false;
}

static void advance(struct recur *r, cohort_seq seq, cohort_pos pos, int32_t state)
{
	struct recur_seq *s = &r->seqs[seq];

	if (r->touched[seq] != r->epoch) {
		r->touched[seq] = r->epoch;
		r->lengths[r->n_lengths++] = (struct recur_length){seq, *s};
	}
	if (s->max < 0) {
		live_add(r, seq);
		s->min = pos;
	} else {
		let_go(r, s->state);
	}
	hold(r, state);
	s->state = state;
	s->max = pos;
}

static enum cohort_status step(struct recur *r, const struct kv_row *rows, size_t n, struct cohort_err *err)
{
	const struct kv_row *row = &rows[n];
	const int32_t from = r->seqs[row->seq[0]].state;
	int32_t to = from;

	if (!mem_grow((void **)&r->lengths, &r->lengths_max, r->n_lengths + (size_t)row->n_seq, sizeof *r->lengths))
		return err_set(err, COHORT_E_MEMORY, "out of memory");
	if (from < 0 || r->writers[from] != row->n_seq) {
		if (r->n_free == 0)
			return err_rule(err, COHORT_NO_ROOM, "kv-room", (int64_t)n, row->seq[0], (int64_t)n, 0,
					"no room for the state of row %zu (sequence %d, position %d): all %zu states "
					"are in use; the first %zu rows would fit",
					n, row->seq[0], row->pos, r->n_states, n);
		to = r->free[--r->n_free];
		r->ref[to] = 0;
		r->writers[to] = row->n_seq;
		r->taken[r->n_taken++] = to;
	}
	for (int32_t i = 0; i < row->n_seq; i++)
		advance(r, row->seq[i], row->pos, to);
	r->steps[n] = (struct recur_step){from, to};
	return COHORT_OK;
}

enum cohort_status recur_reserve(struct recur *r, const struct kv_row *rows, size_t n_rows,
		const struct recur_step **steps, struct cohort_err *err)
{
	enum cohort_status st = COHORT_OK;

	if (!r->open)
		return err_set(err, COHORT_E_BUG, "no transaction is open");
	r->mark_lengths = r->n_lengths;
	r->mark_taken = r->n_taken;
	if (!mem_grow((void **)&r->steps, &r->steps_max, n_rows, sizeof *r->steps))
		return err_set(err, COHORT_E_MEMORY, "out of memory for %zu rows", n_rows);
	r->epoch++;
	for (size_t i = 0; i < n_rows && !st; i++)
		st = step(r, rows, i, err);
	if (st)
		recur_unreserve(r);
	else
		*steps = r->steps;
	return st;
}

/* ---- Looking ---- */

static const struct recur_seq *look(const struct recur *r, cohort_seq seq)
{
	return seq >= 0 && (size_t)seq < r->n_seq_max ? &r->seqs[seq] : &nothing;
}

cohort_pos recur_pos_min(const struct recur *r, cohort_seq seq)
{
	return look(r, seq)->min;
}

cohort_pos recur_pos_max(const struct recur *r, cohort_seq seq)
{
	return look(r, seq)->max;
}

int32_t recur_state(const struct recur *r, cohort_seq seq)
{
	return look(r, seq)->state;
}

bool recur_same(const struct recur *r, cohort_seq a, cohort_seq b)
{
	const struct recur_seq *x = look(r, a), *y = look(r, b);
	return x->state == y->state && x->min == y->min; /* a state has seen so many positions */
}

size_t recur_live(const struct recur *r, const cohort_seq **seqs)
{
	*seqs = r->live;
	return r->n_live;
}

void recur_usage_get(const struct recur *r, struct kv_usage *u)
{
	*u = (struct kv_usage){.n_blocks = r->n_states, .n_used = r->n_states - r->n_free, .n_shared = r->n_shared};
}

/* ---- Sequences ---- */

static enum cohort_status known(const struct recur *r, cohort_seq seq, struct cohort_err *err)
{
	if (r->open)
		return err_set(err, COHORT_E_BUG, "a transaction is open");
	if (seq >= 0 && (size_t)seq < r->n_seq_max)
		return COHORT_OK;
	return err_rule(err, COHORT_E_ARG, "seq-id", -1, seq, (int64_t)r->n_seq_max, seq,
			"sequence %d is not below the number of sequences, %zu", seq, r->n_seq_max);
}

/* Also cuts [p0, p1) to what the sequence holds; nothing is left when p0 >= p1. */
static enum cohort_status known_range(
		const struct recur *r, cohort_seq seq, cohort_pos *p0, cohort_pos *p1, struct cohort_err *err)
{
	enum cohort_status st = known(r, seq, err);

	if (st)
		return st;
	if (*p0 < 0 || *p1 < -1)
		return err_rule(err, COHORT_E_ARG, "range", -1, seq, *p0 < 0 ? 0 : -1, *p0 < 0 ? *p0 : *p1,
				"positions %d to %d are not a range", *p0, *p1);
	const struct recur_seq *s = &r->seqs[seq];
	if (*p1 == -1 || *p1 > s->max + 1)
		*p1 = s->max + 1;
	if (*p0 < s->min)
		*p0 = s->min;
	return COHORT_OK;
}

/* The number of checkpoints up to the one at pos; 0: there is none at pos. */
static size_t checks_to(const struct recur *r, cohort_seq seq, cohort_pos pos)
{
	for (size_t n = r->seqs[seq].n_checks; n > 0; n--)
		if (checks_of(r, seq)[n - 1].pos == pos)
			return n;
	return 0;
}

bool recur_holds(const struct recur *r, cohort_seq seq, cohort_pos p0, cohort_pos p1)
{
	return !known_range(r, seq, &p0, &p1, NULL) && p0 < p1;
}

/* The rule names the end that is not the sequence's; if it is, the beginning. */
static enum cohort_status no_checkpoint(
		const struct recur *r, cohort_seq seq, cohort_pos p0, cohort_pos p1, struct cohort_err *err)
{
	const struct recur_seq *s = &r->seqs[seq];
	const bool tail = p1 > s->max;

	return err_rule(err, COHORT_E_ARG, "checkpoint", -1, seq, tail ? s->min : s->max + 1, tail ? p0 : p1,
			"sequence %d has one state for positions %d to %d; %d to %d cannot be told apart without a "
			"checkpoint",
			seq, s->min, s->max, p0, p1 - 1);
}

enum cohort_status recur_checkpoint(struct recur *r, cohort_seq seq, struct cohort_err *err)
{
	enum cohort_status st = known(r, seq, err);
	if (st)
		return st;
	struct recur_seq *s = &r->seqs[seq];
	struct recur_check *checks = checks_of(r, seq);
	if (r->n_checks_max == 0)
		return err_rule(err, COHORT_E_ARG, "checkpoint", -1, seq, 0, 1, "no checkpoints are kept");
	if (s->max < 0 || checks_to(r, seq, s->max))
		return COHORT_OK;
	hold(r, s->state);
	if (s->n_checks == r->n_checks_max) {
		drop(r, checks[0].state);
		memmove(checks, checks + 1, --s->n_checks * sizeof *checks);
	}
	checks[s->n_checks++] = (struct recur_check){s->max, s->state};
	return COHORT_OK;
}

enum cohort_status recur_seq_rm(
		struct recur *r, cohort_seq seq, cohort_pos p0, cohort_pos p1, bool dry, struct cohort_err *err)
{
	enum cohort_status st = known_range(r, seq, &p0, &p1, err);
	if (st || p0 >= p1)
		return st;
	struct recur_seq *s = &r->seqs[seq];
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
	hold(r, checks[n_left - 1].state);
	drop(r, s->state);
	s->state = checks[n_left - 1].state;
	s->max = p0 - 1;
	while (s->n_checks > n_left)
		drop(r, checks[--s->n_checks].state);
	return COHORT_OK;
}

enum cohort_status recur_seq_cp(struct recur *r, cohort_seq src, cohort_seq dst, cohort_pos p0, cohort_pos p1, bool dry,
		struct cohort_err *err)
{
	enum cohort_status st = known(r, dst, err);
	if (!st)
		st = known_range(r, src, &p0, &p1, err);
	if (st || src == dst || p0 >= p1)
		return st;
	const struct recur_seq *s = &r->seqs[src];
	struct recur_seq *d = &r->seqs[dst];
	if (d->max >= 0)
		return err_rule(err, COHORT_E_ARG, "cp-occupied", -1, dst, 0, d->max + 1,
				"sequence %d has a state; it must be empty to get that of %d", dst, src);
	const bool whole = p1 > s->max;
	const size_t n_left = whole ? s->n_checks : checks_to(r, src, p1 - 1);
	if (p0 > s->min || (!whole && !n_left))
		return no_checkpoint(r, src, p0, p1, err);
	if (dry)
		return COHORT_OK;
	const struct recur_check *checks = checks_of(r, src);
	*d = (struct recur_seq){.min = s->min, .max = p1 - 1, .n_checks = n_left};
	d->state = whole ? s->state : checks[n_left - 1].state;
	hold(r, d->state);
	for (size_t i = 0; i < n_left; i++) {
		checks_of(r, dst)[i] = checks[i];
		hold(r, checks[i].state);
	}
	live_add(r, dst);
	return COHORT_OK;
}

enum cohort_status recur_seq_keep(struct recur *r, cohort_seq seq, struct cohort_err *err)
{
	enum cohort_status st = known(r, seq, err);

	/* What takes the place of a removed one was looked at before. */
	for (size_t i = st ? 0 : r->n_live; i-- > 0;)
		if (r->live[i] != seq)
			empty(r, r->live[i]);
	return st;
}

enum cohort_status recur_seq_add(struct recur *r, cohort_seq seq, cohort_pos p0, cohort_pos p1, cohort_pos delta,
		bool dry, struct cohort_err *err)
{
	enum cohort_status st = known_range(r, seq, &p0, &p1, err);
	if (st || delta == 0 || p0 >= p1)
		return st;
	struct recur_seq *s = &r->seqs[seq];
	if (p0 > s->min || p1 <= s->max)
		return no_checkpoint(r, seq, p0, p1, err);
	const int64_t min = (int64_t)s->min + delta, max = (int64_t)s->max + delta;
	if (min < 0)
		return err_rule(err, COHORT_E_ARG, "pos-negative", -1, seq, 0, min,
				"position %d of sequence %d cannot move by %d", s->min, seq, delta);
	if ((size_t)max >= r->n_pos_max)
		return err_rule(err, COHORT_E_ARG, "pos-limit", -1, seq, (int64_t)r->n_pos_max, max,
				"position %d of sequence %d cannot move by %d; it ends before %zu", s->max, seq, delta,
				r->n_pos_max);
	if (dry)
		return COHORT_OK;
	s->min = (cohort_pos)min;
	s->max = (cohort_pos)max;
	for (size_t i = 0; i < s->n_checks; i++)
		checks_of(r, seq)[i].pos += delta;
	return COHORT_OK;
}

void recur_clear(struct recur *r)
{
	recur_rollback(r);
	while (r->n_live)
		empty(r, r->live[r->n_live - 1]);
}

/* ---- Images ---- */

size_t recur_checks(const struct recur *r, cohort_seq seq, const struct recur_check **checks)
{
	*checks = checks_of(r, seq);
	return r->seqs[seq].n_checks;
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
		enum cohort_status st = known(r, q->seq, err);
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

/* States that are free once a sequence has let go; n: [n_states], references taken back so far. */
static size_t freed_by(const struct recur *r, cohort_seq seq, int32_t *n)
{
	const struct recur_seq *s = &r->seqs[seq];
	size_t freed = 0;

	if (s->max < 0)
		return 0;
	freed += ++n[s->state] == r->ref[s->state];
	for (size_t i = 0; i < s->n_checks; i++) {
		const int32_t state = checks_of(r, seq)[i].state;
		freed += ++n[state] == r->ref[state];
	}
	return freed;
}

static size_t room_for(const struct recur *r, const struct recur_image *m, int32_t *n)
{
	size_t room = r->n_free;
	for (size_t i = 0; !m->all && i < m->n_seqs; i++)
		room += freed_by(r, m->seqs[i].seq, n);
	return m->all ? r->n_states : room;
}

static enum cohort_status may_import(const struct recur *r, const struct recur_image *m, struct cohort_err *err)
{
	int32_t *used = mem_zalloc(m->n_states, sizeof *used), *n = mem_zalloc(r->n_states, sizeof *n);
	enum cohort_status st = COHORT_OK;

	if (!used || !n)
		st = err_set(err, COHORT_E_MEMORY, "out of memory for %zu states", m->n_states);
	if (!st)
		st = image_sound(r, m, used, err);
	const size_t room = st ? 0 : room_for(r, m, n);
	if (!st && room < m->n_states)
		st = err_rule(err, COHORT_NO_ROOM, "kv-room", -1, -1, (int64_t)room, (int64_t)m->n_states,
				"no room for %zu states: %zu are free", m->n_states, room);
	mem_free(used);
	mem_free(n);
	return st;
}

enum cohort_status recur_import(
		struct recur *r, const struct recur_image *m, bool dry, int32_t *ids, struct cohort_err *err)
{
	if (r->open)
		return err_set(err, COHORT_E_BUG, "a transaction is open");
	if (dry)
		return may_import(r, m, err);
	while (m->all && r->n_live)
		empty(r, r->live[r->n_live - 1]);
	for (size_t i = 0; i < m->n_seqs; i++)
		if (r->seqs[m->seqs[i].seq].max >= 0)
			empty(r, m->seqs[i].seq);
	for (size_t i = 0; i < m->n_states; i++) {
		ids[i] = r->free[--r->n_free];
		r->ref[ids[i]] = 0;
	}
	for (size_t i = 0; i < m->n_seqs; i++) {
		const struct recur_image_seq *q = &m->seqs[i];
		struct recur_seq *s = &r->seqs[q->seq];
		if (q->max < 0)
			continue;
		*s = (struct recur_seq){.min = q->min, .max = q->max, .state = ids[q->state], .n_checks = q->n_checks};
		live_add(r, q->seq);
		hold(r, s->state);
		for (size_t k = 0; k < q->n_checks; k++) {
			checks_of(r, q->seq)[k] = (struct recur_check){q->checks[k].pos, ids[q->checks[k].state]};
			hold(r, ids[q->checks[k].state]);
		}
	}
	return COHORT_OK;
}

/* ---- For tests ---- */

bool recur_consistent(const struct recur *r)
{
	bool ok = true;
	size_t n_used = 0, n_live = 0, n_shared = 0;
	int32_t *n = mem_zalloc(r->n_states, sizeof *n);

	if (!n)
		return false;
	for (size_t q = 0; q < r->n_seq_max; q++) {
		const struct recur_seq *s = &r->seqs[q];
		const struct recur_check *checks = checks_of(r, (cohort_seq)q);
		if (s->max < 0)
			continue;
		n_live++;
		n[s->state]++;
		ok = ok && r->live[s->live] == (cohort_seq)q && s->min >= 0 && s->min <= s->max;
		for (size_t i = 0; i < s->n_checks; i++) {
			n[checks[i].state]++;
			ok = ok && checks[i].pos <= s->max && (i == 0 || checks[i].pos > checks[i - 1].pos);
		}
	}
	for (size_t i = 0; i < r->n_states; i++) {
		ok = ok && (n[i] ? n[i] : -1) == r->ref[i] && r->writers[i] == 0;
		n_used += n[i] > 0;
		n_shared += n[i] > 1;
	}
	for (size_t i = 0; i < r->n_free; i++)
		ok = ok && n[r->free[i]]-- == 0; /* on the list once, and nowhere else */
	mem_free(n);
	return ok && n_used + r->n_free == r->n_states && n_live == r->n_live && n_shared == r->n_shared;
}

static void hash_add(uint64_t *h, uint64_t v)
{
	*h = (*h ^ v) * 0x9e3779b97f4a7c15u;
	*h ^= *h >> 29;
}

uint64_t recur_hash(const struct recur *r)
{
	uint64_t h = r->n_free;

	hash_add(&h, r->n_shared);
	for (size_t q = 0; q < r->n_live; q++) {
		const struct recur_seq *s = &r->seqs[r->live[q]];
		const struct recur_check *checks = checks_of(r, r->live[q]);
		hash_add(&h, (uint64_t)r->live[q] << 32 | (uint32_t)s->live);
		hash_add(&h, (uint64_t)s->min << 32 | (uint32_t)s->max);
		hash_add(&h, (uint64_t)s->state << 32 | s->n_checks);
		for (size_t i = 0; i < s->n_checks; i++)
			hash_add(&h, (uint64_t)checks[i].pos << 32 | (uint32_t)checks[i].state);
	}
	for (size_t i = 0; i < r->n_states; i++)
		hash_add(&h, (uint64_t)(uint32_t)r->ref[i] << 32 | (uint32_t)r->writers[i]);
	for (size_t i = 0; i < r->n_free; i++)
		hash_add(&h, (uint64_t)r->free[i]);
	return h;
}
