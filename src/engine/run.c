/* A tick's rows through the machine, a ubatch at a time, and what comes of them.
 *
 * Invariants
 *  1. Rows are computed in pieces of one ubatch at most, each all or nothing; a request that was cancelled has no rows
 *     in a piece that begins afterwards. Cancels are looked at before the rows of a piece are chosen, once for all of
 *     them: a stream that ended among them would leave rows whose cells no stream has.
 *  2. A piece that fails is tried again without the stream that the machine names, or in halves, until the streams that
 *     cannot be computed are alone: those end, the others never notice.
 *  3. A stream's n_cached is what the machine holds of it. */
#include "engine/policy.h"
#include "engine/room.h"
#include "engine/stream.h"

#include <math.h>
#include <string.h>

/* ---- Pieces ---- */

/* What is wanted of the row at `pos` of a stream that is not like most, as a batch says it. */
static uint8_t wants(const struct stream *s, int32_t pos)
{
	const struct cohort_request *r = s->request;
	const bool last = pos == s->n_known - 1;

	if (r->embedding) {
		const bool one = r->p.pooling == COHORT_POOL_CLS ? pos == 0 : last;
		return one || r->p.pooling == COHORT_POOL_MEAN ? COHORT_ROW_EMBEDDING : 0;
	}
	if (r->prompt_logprobs && pos < s->n_prompt - 1 && !r->prompt_changed)
		return true;
	return last && stream_n_generated(s) < s->n_max;
}

static inline void put_row(const struct piece *p, int32_t n, struct stream *s, const struct cohort_entry *e)
{
	p->tokens[n] = e->token;
	p->pos[n] = e->pos;
	p->seq[n] = e->seq;
	p->output[n] = s->every_row ? wants(s, e->pos) : e->logits;
	p->of[n] = s;
}

static void copy_row(const struct piece *from, int32_t i, struct piece *to, int32_t j)
{
	to->tokens[j] = from->tokens[i];
	to->pos[j] = from->pos[i];
	to->seq[j] = from->seq[i];
	to->output[j] = from->output[i];
	to->of[j] = from->of[i];
}

/* Ends what was cancelled since that was last looked at. */
static void end_cancelled(struct core *c)
{
	const unsigned n_cancels = atomic_load(&c->hub->n_cancels);

	if (n_cancels == c->n_cancels_ended)
		return;
	c->n_cancels_ended = n_cancels;
	for (int32_t i = 0; i < c->lim.n_slots; i++)
		if (c->slots[i] && atomic_load(&c->slots[i]->request->cancelled))
			request_end(c, c->slots[i]->request, COHORT_FINISH_CANCELLED, NULL);
}

/* Ends a stream that was cancelled while its row was computed; true if it may go on. */
static bool still_wanted(struct core *c, struct stream *s)
{
	if (!stream_is_active(s))
		return false;
	/* Requests are looked at only when one was cancelled since the piece began. */
	if (atomic_load_explicit(&c->hub->n_cancels, memory_order_relaxed) == c->n_cancels_ended ||
			!atomic_load(&s->request->cancelled))
		return true;
	request_end(c, s->request, COHORT_FINISH_CANCELLED, NULL);
	return false;
}

/* The next rows of the plan from entry i on; returns the entry behind them. */
static int32_t gather(struct core *c, int32_t i)
{
	bool (*const too_far)(const struct core *c, const struct stream *s, int32_t pos) = c->policy->too_far;
	const int32_t n_entries = c->plan.n_entries, n_ubatch = c->lim.n_ubatch;
	const struct cohort_entry *entries = c->plan.entries;
	struct stream *const *slots = c->slots;
	const struct piece piece = c->piece; /* a copy of its own, which no row's bytes can change */
	int32_t n = 0;

	end_cancelled(c);
	for (; i < n_entries && n < n_ubatch; i++) {
		const struct cohort_entry *e = &entries[i];
		struct stream *s = slots[e->seq];
		/* Rows of a slot that lost its cells or its stream since the plan was made are not computed. */
		if (!stream_is_active(s) || (c->plan.lost && c->plan.taken[c->plan.view_of[e->seq]] == 0))
			continue;
		if (too_far && room_shares(c, s) && too_far(c, s, e->pos))
			break;
		put_row(&piece, n++, s, e);
	}
	c->piece.n = n;
	return i;
}

/* ---- What rows give ---- */

static void fail(struct core *c, struct stream *s, const struct cohort_err *err)
{
	struct cohort_request *r = s->request;
	bool awaited = false;

	for (int32_t i = 1; i < r->p.n_outputs; i++)
		awaited = awaited || r->streams[i].phase == STREAM_WAITS;
	if (awaited)
		request_end(c, r, COHORT_FINISH_ERROR, err);
	else
		stream_end(c, s, COHORT_FINISH_ERROR, err);
}

static void note_prompt(struct core *c, struct stream *s, int32_t pos, const float *logits)
{
	struct cohort_request *r = s->request;
	const size_t i = (size_t)pos + 1, n_top = (size_t)r->n_top;
	struct cohort_err err;

	if (!logits)
		return;
	if (cohort_logprobs_get(logits, c->lim.n_vocab, s->known[i], &r->prompt_logprobs[i],
			    n_top ? r->prompt_top + i * n_top : NULL, r->n_top, NULL, &err))
		fail(c, s, &err);
}

/* Rows come in order, so that a mean is the same sum however they were chunked. */
static void note_embedding(struct core *c, struct stream *s, int32_t pos, const float *row)
{
	struct cohort_request *r = s->request;
	const int32_t n = c->lim.n_embd;
	const bool last = pos == s->n_known - 1;

	if (row && r->p.pooling != COHORT_POOL_MEAN)
		memcpy(r->embedding, row, (size_t)n * sizeof *row);
	for (int32_t i = 0; row && r->p.pooling == COHORT_POOL_MEAN && i < n; i++) {
		r->embedding[i] = pos == 0 ? row[i] : r->embedding[i] + row[i];
		if (last)
			r->embedding[i] /= (float)s->n_known;
	}
}

/* All rows of the prompt were looked at, but for the last one's logits, which say what follows it. */
static void prompt_done(struct core *c, struct stream *s)
{
	struct cohort_request *r = s->request;

	if ((r->prompt_logprobs || r->embedding) && !r->prompt_changed) {
		r->prompt_changed = true;
		stream_news(c, s);
	}
}

static void sample_all(struct core *c, struct stream *first, const float *logits)
{
	struct cohort_request *r = first->request;

	/* The others begin before the first goes on, or ends. */
	room_fork(c, first);
	for (int32_t i = 1; i < r->p.n_outputs; i++) {
		struct stream *s = &r->streams[i];
		if (s->n_cached == s->n_known)
			stream_sample(c, s, logits);
	}
	stream_sample(c, first, logits);
	room_settle(c);
}

static bool has_row(struct core *c, struct stream *s, const float *given, const char *what, int32_t row)
{
	struct cohort_err err;

	if (given || !c->lim.model)
		return true;
	err_set(&err, COHORT_E_BUG, "row %d has no %s", row, what);
	fail(c, s, &err);
	return false;
}

/* A row of a stream of which more is wanted than the next token; true if that is all that is wanted of it. */
static bool take_more(struct core *c, struct stream *s, int32_t pos, int32_t row)
{
	const struct cohort_request *r = s->request;

	if (pos == s->n_prompt - 1)
		prompt_done(c, s);
	if (r->embedding) {
		const float *embedding = c->m.embedding(c->m.self, row);
		if (has_row(c, s, embedding, "embedding", row))
			note_embedding(c, s, pos, embedding);
		return true;
	}
	if (pos >= s->n_prompt - 1)
		return false;
	/* See wants(): of a row within the prompt that is all there is to want, and it is wanted once. */
	const float *logits = c->m.logits(c->m.self, row);
	if (has_row(c, s, logits, "logits", row))
		note_prompt(c, s, pos, logits);
	return true;
}

/* Row i of the piece, the machine's row number `row`. */
static inline void take_output(struct core *c, int32_t i, int32_t row)
{
	struct stream *s = c->piece.of[i];
	const int32_t pos = c->piece.pos[i];

	/* What the stream lost again (see trade_block in reuse.c) comes again. */
	if (!still_wanted(c, s) || s->n_cached <= pos || (s->every_row && take_more(c, s, pos, row)))
		return;
	const float *logits = c->m.logits(c->m.self, row);
	if (!has_row(c, s, logits, "logits", row))
		return;
	if (!s->alone && s->index == 0 && !s->request->forked)
		sample_all(c, s, logits);
	else
		stream_sample(c, s, logits);
}

/* Nothing more was wanted than the prompt. */
static void finish_prompt(struct core *c, struct stream *s)
{
	const struct cohort_request *r = s->request;

	if (!stream_is_active(s) || !s->every_row || s->n_cached < s->n_prompt)
		return;
	prompt_done(c, s);
	if (r->embedding)
		stream_end(c, s, COHORT_FINISH_EMBEDDED, NULL);
	else if (r->n_max == 0)
		request_end(c, s->request, COHORT_FINISH_LENGTH, NULL);
}

static void collect(struct core *c, int32_t lo, int32_t hi)
{
	struct piece *p = &c->piece;
	int32_t n_generating = 0, n_grown = 0;
	bool more = false;

	for (int32_t i = lo; i < hi; i++) {
		struct stream *s = p->of[i];
		s->n_cached = p->pos[i] + 1;
		n_generating += s->phase == STREAM_GENERATES;
		more = more || s->every_row;
		if (room_turns(c, s->n_cached) && (n_grown == 0 || c->grown[n_grown - 1] != s)) {
			__builtin_prefetch(s->rest);
			c->grown[n_grown++] = s;
		}
	}
	/* A plan may have rows of several streams in turns: once all know where they are. */
	for (int32_t i = 0; i < n_grown; i++)
		room_expect(c, c->grown[i]);
	for (int32_t i = 0; i < n_grown; i++)
		room_grow(c, c->grown[i]);
	c->tick.n_decode_rows += n_generating;
	c->tick.n_prefill_rows += hi - lo - n_generating;
	const double start = c->m.now(c->m.self);
	for (int32_t i = lo; i < hi; i++) {
		/* Where the next token goes is memory that nothing else touched for a while. */
		const struct stream *later = p->of[i + AHEAD < hi ? i + AHEAD : i];
		__builtin_prefetch(later->known + later->n_known, 1);
		if (p->output[i])
			take_output(c, i, i - lo);
	}
	c->tick.sample_s += c->m.now(c->m.self) - start;
	for (int32_t i = lo; more && i < hi; i++)
		if (p->pos[i] == p->of[i]->n_prompt - 1)
			finish_prompt(c, p->of[i]);
}

/* ---- Computing ---- */

static enum cohort_status compute(struct core *c, int32_t lo, int32_t hi, struct cohort_err *err)
{
	const struct piece *p = &c->piece;
	const struct cohort_batch_raw rows = {
			.n_tokens = hi - lo,
			.n_seq_row_max = 1,
			.n_pos_row = 1,
			.tokens = p->tokens + lo,
			.pos = p->pos + lo,
			.seq = p->seq + lo,
			.output = p->output + lo,
	};
	const double start = c->m.now(c->m.self);
	enum cohort_status st = policy_compute(c, &rows, err);
	c->tick.decode_s += c->m.now(c->m.self) - start;
	return st;
}

/* Takes the rows of a stream out of [lo, hi); returns the new end. */
static int32_t without(struct piece *p, const struct stream *s, int32_t lo, int32_t hi)
{
	int32_t end = lo;
	for (int32_t i = lo; i < hi; i++)
		if (p->of[i] != s)
			copy_row(p, i, p, end++);
	return end;
}

/* The same for all streams that ended, or lost their cells, since their rows were gathered. */
static int32_t without_gone(struct core *c, int32_t lo, int32_t hi)
{
	int32_t end = lo;

	end_cancelled(c);
	for (int32_t i = lo; i < hi; i++)
		if (stream_is_active(c->piece.of[i]))
			copy_row(&c->piece, i, &c->piece, end++);
	return end;
}

/* Whom the machine means, or the only one there is; NULL: unknown. */
static struct stream *find_guilty(const struct core *c, int32_t lo, int32_t hi, const struct cohort_err *err)
{
	const struct piece *p = &c->piece;
	bool several = false;

	for (int32_t i = lo; i < hi; i++) {
		if (err->rule && err->seq == p->seq[i])
			return p->of[i];
		several = several || p->of[i] != p->of[lo];
	}
	return several ? NULL : p->of[lo];
}

/* Puts the rows of the first half of the streams in front; returns where the others begin. Streams keep their order. */
static int32_t halve(struct core *c, int32_t lo, int32_t hi)
{
	struct piece *p = &c->piece, *spare = &c->spare;
	int32_t n_streams = 0, n_front = 0, n_back = 0;

	/* A stream's first row is at n_cached: rows of a stream are never computed out of order. */
	for (int32_t i = lo; i < hi; i++)
		n_streams += p->pos[i] == p->of[i]->n_cached;
	const int32_t half = n_streams / 2;
	int32_t n_seen = 0;
	for (int32_t i = lo; i < hi; i++) {
		struct stream *s = p->of[i];
		if (p->pos[i] == s->n_cached)
			s->in_front = n_seen++ < half;
		if (s->in_front)
			copy_row(p, i, p, lo + n_front++);
		else
			copy_row(p, i, spare, n_back++);
	}
	for (int32_t i = 0; i < n_back; i++)
		copy_row(spare, i, p, lo + n_front + i);
	return lo + n_front;
}

/* There is no room for the stream: the youngest of those that hold cells waits, which may be the stream itself. The
 * oldest never waits, so that two do not wait for each other. False: no other stream holds any. */
static bool make_way(struct core *c, struct stream *s)
{
	struct stream *youngest = s;
	bool others = false;

	for (int32_t i = 0; i < c->lim.n_slots; i++) {
		struct stream *other = c->slots[i];
		if (other == s || !stream_is_active(other) || other->n_cached == 0)
			continue;
		others = true;
		if (other->rest->turn > youngest->rest->turn)
			youngest = other;
	}
	if (others)
		room_preempt(c, youngest);
	return others;
}

/* Each level has half the streams of the one before: no deeper than 31. */
static void run_rows(struct core *c, int32_t lo, int32_t hi)
{
	struct cohort_err err;

	while (lo < hi && !atomic_load(&c->stop)) {
		enum cohort_status st = compute(c, lo, hi, &err);
		if (!st)
			collect(c, lo, hi);
		if (!st || st == COHORT_ABORTED)
			return;
		c->live.n_retries++;
		const int32_t n_gathered = hi;
		hi = without_gone(c, lo, hi);
		if (hi < n_gathered || (st == COHORT_NO_ROOM && room_clear(c)))
			continue;
		struct stream *s = find_guilty(c, lo, hi, &err);
		if (!s) {
			const int32_t mid = halve(c, lo, hi);
			run_rows(c, lo, mid);
			lo = mid;
			hi = without_gone(c, lo, hi);
			continue;
		}
		if (st == COHORT_NO_ROOM && make_way(c, s)) {
			hi = without_gone(c, lo, hi);
			continue;
		}
		hi = without(&c->piece, s, lo, hi);
		fail(c, s, &err);
	}
}

/* An encoder sees a text as a whole: it is computed once all its rows were planned. */
void run_texts(struct core *c)
{
	struct piece *p = &c->piece;

	p->n = 0;
	end_cancelled(c);
	for (int32_t v = 0; v < c->plan.n_views; v++) {
		struct stream *s = c->slots[c->plan.views[v].id];
		if (!stream_is_active(s))
			continue;
		s->n_cached += c->plan.taken[v];
		if (s->n_cached < s->n_known)
			continue;
		if (p->n + s->n_known > c->lim.n_ubatch) {
			run_rows(c, 0, p->n);
			p->n = 0;
			end_cancelled(c);
			if (!stream_is_active(s)) /* cancelled meanwhile */
				continue;
		}
		s->n_cached = 0;
		for (int32_t i = 0; i < s->n_known; i++)
			put_row(p, p->n++, s, &(struct cohort_entry){s->known[i], i, s->slot, i == s->n_known - 1});
	}
	run_rows(c, 0, p->n);
}

void run_entries(struct core *c)
{
	for (int32_t i = 0; i < c->plan.n_entries && !atomic_load(&c->stop);) {
		i = gather(c, i);
		run_rows(c, 0, c->piece.n);
	}
}
