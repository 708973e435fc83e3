/* The contract of test_exact.c, for what may have happened to a sequence before: windows on some layers, gaps, moved
 * cells, forks, rows shared by sequences that part.
 *
 * A story is what happens to one sequence: rows decoded, ranges removed, cells moved. It is first told alone, one row
 * at a time, on one thread, and every row's logits are kept. Families of stories begin alike. Then all of them are told
 * at once, in random order and chunks, under sparse and falling ids, families forked or coupled until they part, for
 * every split, ubatch size, thread count and level; each row is compared by memcmp.
 *
 * Where the same cells can come about differently, the two are compared: a sequence put together from ranges of others
 * goes on as a fresh one, and in a model of one layer a window sees what is left after its head was removed. What moved
 * cells must be near to is the only comparison that is not exact.
 *
 * Each was shown red once by faults planted in the library:
 *  families_exact_when_split: further stores of a row left out; a stale place taken for a row's (at_of); outputs named
 *  in the order of the ubatches; blocks not copied before they are written
 *  rows_exact_in_windows: the window's beginning left out of attention; blocks released while rows still need them;
 *  copies made in the first group only
 *  removed_middles_leave_rows_exact, gaps_windows: held words never passed on; a moved block's second source read at
 *  the wrong slot
 *  assembled_sequences_exact: the destination's own cells not brought along where two ranges meet in a block
 *  window_is_head_removed: the window's beginning left out of attention
 *  moved_is_nearly_fresh: moved keys not rotated */
#include "effort.h"
#include "model_case.h"

#include "context/impl.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { N_BATCH = 256, STEPS_MAX = 64, ROWS_MAX = 320, BRANCHES = 3, FAMILIES_MAX = 10, N_SEQ_MAX = 1000 };

static uint64_t n_compared; /* over the whole program */

/* ---- A model, what is planted in it, and a context ---- */

struct world {
	char *path;
	enum cohort_kv_type kv;
	uint32_t window[4]; /* of the layers, repeated */
	size_t n_vocab;
};

struct how {
	const char *isa;
	int32_t n_threads, n_ubatch, n_batch;
	enum cohort_split split;
};

static const struct how plain = {NULL, 1, 1, N_BATCH, COHORT_SPLIT_SIMPLE};

struct rig {
	struct cohort_model *m;
	struct cohort_context *c;
	struct cohort_batch b;
};

static void rig_open(struct rig *r, struct world *w, const struct how *h)
{
	struct cohort_model_params mp;
	struct cohort_context_params cp;
	struct cohort_err err;

	cohort_model_params_init(&mp);
	mp.isa = h->isa;
	if (cohort_model_open(w->path, &mp, &r->m, &err))
		fail_msg("%s", err.text);
	for (size_t l = 0; l < r->m->model.hp.n_layer; l++)
		r->m->model.layers[l].window = w->window[l % 4];
	w->n_vocab = r->m->model.hp.n_vocab;
	cohort_context_params_init(&cp);
	cp.n_ctx = 32 * 512;
	cp.n_batch = h->n_batch;
	cp.n_ubatch = h->n_ubatch;
	cp.n_threads = h->n_threads;
	cp.n_seq_max = N_SEQ_MAX;
	cp.split = h->split;
	cp.kv_type = w->kv;
	if (cohort_context_open(r->m, &cp, &r->c, &err) || cohort_batch_init(&r->b, cp.n_batch, 0, BRANCHES, &err))
		fail_msg("%s", err.text);
}

static void rig_close(struct rig *r)
{
	assert_true(memory_consistent(&r->c->memory));
	cohort_batch_release(&r->b);
	cohort_context_free(r->c);
	cohort_model_free(r->m);
}

static void add(struct rig *r, cohort_token t, cohort_pos pos, const cohort_seq *ids, int32_t n, bool output)
{
	struct cohort_err err;
	if (cohort_batch_add(&r->b, t, pos, ids, n, output, &err))
		fail_msg("%s", err.text);
}

static void ok(enum cohort_status st, const struct cohort_err *err)
{
	if (st)
		fail_msg("%s", err->text);
}

static void decode(struct rig *r)
{
	struct cohort_err err;
	ok(cohort_decode(r->c, &r->b, &err), &err);
}

/* Ways to run, from a number: every level, 1 to 3 threads, four ubatch sizes, three splits. */
static struct how how_of(size_t i)
{
	static const int32_t ubatches[] = {64, 1, 7, 3};
	size_t level = cohort_isa_count() - 1;

	while (!cohort_isa_usable(level))
		level--;
	if (i % 7 == 2) /* the reference level is slow */
		level = 0;
	return (struct how){cohort_isa_name(level), 1 + (int32_t)(i % 5 % 3), ubatches[i / 3 % 4], N_BATCH,
			(enum cohort_split)(i % 3)};
}

/* ---- Stories ---- */

enum kind { DECODE, REMOVE, SHIFT };

struct step {
	enum kind kind;
	int32_t n; /* rows */
	cohort_pos p0, p1, delta;
	enum cohort_status status; /* what it came to */
};

struct story {
	struct step steps[STEPS_MAX];
	int32_t n_steps, n_rows;
	cohort_token tokens[ROWS_MAX];
	cohort_pos pos[ROWS_MAX];
	float *want; /* [ROWS_MAX, n_vocab] */
};

/* Whether batch row i has the bits of a story's row. */
static bool same_row(const struct rig *r, const struct world *w, int32_t i, const struct story *s, int32_t row)
{
	const float *got = cohort_logits_get(r->c, i, NULL);
	assert_non_null(got);
	n_compared++;
	return memcmp(got, s->want + (size_t)row * w->n_vocab, w->n_vocab * sizeof *got) == 0;
}

/* Stories with the same first steps. */
struct family {
	struct story *story[BRANCHES];
	int32_t n_trunk; /* steps in common */
};

static enum cohort_status surgery(struct rig *r, const struct step *s, cohort_seq id)
{
	if (s->kind == REMOVE)
		return cohort_seq_rm(r->c, id, s->p0, s->p1, NULL);
	return cohort_seq_add(r->c, id, s->p0, s->p1, s->delta, NULL);
}

/* The story's step goes on, alone: rows one by one. */
static void tell_rows(struct rig *r, const struct world *w, struct story *s, int32_t n)
{
	const cohort_seq zero = 0;
	for (int32_t i = 0; i < n; i++) {
		const int32_t at = s->n_rows++;
		s->pos[at] = cohort_seq_pos_max(r->c, 0) + 1;
		cohort_batch_reset(&r->b);
		add(r, s->tokens[at], s->pos[at], &zero, 1, true);
		decode(r);
		memcpy(s->want + (size_t)at * w->n_vocab, cohort_logits_get(r->c, 0, NULL), w->n_vocab * sizeof(float));
	}
}

static void tell(struct rig *r, const struct world *w, struct story *s, struct step step)
{
	assert_true(s->n_steps < STEPS_MAX && s->n_rows + step.n <= ROWS_MAX);
	if (step.kind == DECODE)
		tell_rows(r, w, s, step.n);
	else
		step.status = surgery(r, &step, 0);
	s->steps[s->n_steps++] = step;
}

/* One or two random steps that change a sequence; some are refused, and must be wherever the story is told. */
static void invent_surgery(struct rig *r, const struct world *w, struct story *s, struct rng *g)
{
	const cohort_pos max = cohort_seq_pos_max(r->c, 0);
	if (max < 2)
		return;
	const cohort_pos p = (cohort_pos)(rng_u32(g) % (uint32_t)max), n = 1 + (cohort_pos)(rng_u32(g) % 45);
	const cohort_pos d = 1 + (cohort_pos)(rng_u32(g) % 33);
	switch (rng_u32(g) % 6) {
	case 0:
	case 1: tell(r, w, s, (struct step){.kind = REMOVE, .p0 = p, .p1 = p + n}); break;
	case 2: tell(r, w, s, (struct step){.kind = REMOVE, .p0 = 0, .p1 = p / 2 + 1}); break;
	case 3: /* to go on past the context: remove a range, move what is behind it */
		tell(r, w, s, (struct step){.kind = REMOVE, .p0 = p / 2, .p1 = p / 2 + n});
		tell(r, w, s, (struct step){.kind = SHIFT, .p0 = p / 2 + n, .p1 = -1, .delta = -n});
		break;
	case 4: tell(r, w, s, (struct step){.kind = SHIFT, .p0 = p, .p1 = -1, .delta = d}); break;
	default:
		tell(r, w, s, (struct step){.kind = REMOVE, .p0 = p, .p1 = p + d});
		tell(r, w, s, (struct step){.kind = SHIFT, .p0 = p + d, .p1 = p + d + n, .delta = -(d / 2)});
		break;
	}
}

static void invent(struct rig *r, const struct world *w, struct story *s, int32_t n_rows, bool cut, struct rng *g)
{
	while (s->n_rows < n_rows) {
		int32_t n = 1 + (int32_t)(rng_u32(g) % 60);
		n = n < n_rows - s->n_rows ? n : n_rows - s->n_rows;
		for (int32_t i = 0; i < n; i++)
			s->tokens[s->n_rows + i] = (cohort_token)(rng_u32(g) % w->n_vocab);
		tell(r, w, s, (struct step){.kind = DECODE, .n = n});
		if (cut && s->n_steps < STEPS_MAX - 8)
			invent_surgery(r, w, s, g);
	}
}

static struct story *story_new(const struct world *w)
{
	struct story *s = calloc(1, sizeof *s);
	assert_non_null(s);
	s->want = malloc(ROWS_MAX * w->n_vocab * sizeof(float));
	assert_non_null(s->want);
	return s;
}

static void story_free(struct story *s)
{
	free(s->want);
	free(s);
}

static void family_open(struct rig *r, const struct world *w, struct family *f, int32_t n_rows, bool cut, struct rng *g)
{
	for (size_t k = 0; k < BRANCHES; k++) {
		struct story *s = f->story[k] = story_new(w), *first = f->story[0];
		cohort_seq_clear(r->c);
		if (k == 0) {
			invent(r, w, s, n_rows / 3 + (int32_t)(rng_u32(g) % 20), cut, g);
			f->n_trunk = s->n_steps;
		}
		for (int32_t i = 0; k > 0 && i < f->n_trunk; i++) {
			memcpy(s->tokens, first->tokens, sizeof s->tokens);
			tell(r, w, s, first->steps[i]);
			assert_int_equal(s->steps[i].status, first->steps[i].status);
		}
		invent(r, w, s, n_rows, cut, g);
	}
}

static void family_close(struct family *f)
{
	for (size_t k = 0; k < BRANCHES; k++)
		story_free(f->story[k]);
}

/* ---- All stories at once ---- */

/* One or several sequences of a family whose stories have been alike so far. */
struct actor {
	const struct family *f;
	cohort_seq id[BRANCHES];
	int32_t branch[BRANCHES], n;
	int32_t step, left, row;
	bool forks;   /* the other branches begin when this one leaves the trunk, as forks */
	bool pending; /* has rows in the batch */
};

struct stage {
	struct rig *r;
	const struct world *w;
	struct rng g;
	struct actor actors[FAMILIES_MAX * BRANCHES];
	int32_t n_actors;
	struct { const struct story *story; int32_t row; bool output; } rows[N_BATCH];
	size_t bad;
};

static cohort_seq id_of(size_t family, size_t branch)
{
	return (cohort_seq)(997 - 31 * (family * BRANCHES + branch)); /* far apart, falling */
}

static const struct story *story_of(const struct actor *a)
{
	return a->f->story[a->branch[0]];
}

/* Branch i of the actor goes on as an actor of its own. */
static void part(struct stage *s, struct actor *a, int32_t i)
{
	struct actor *b = &s->actors[s->n_actors++];

	assert_true(s->n_actors <= FAMILIES_MAX * BRANCHES);
	*b = *a;
	b->n = 1;
	b->id[0] = a->id[i];
	b->branch[0] = a->branch[i];
	a->n--;
	a->id[i] = a->id[a->n];
	a->branch[i] = a->branch[a->n];
}

static void part_all(struct stage *s, struct actor *a)
{
	while (a->n > 1)
		part(s, a, a->n - 1);
}

static void fork_all(struct stage *s, struct actor *a)
{
	struct cohort_err err;

	for (int32_t k = 1; k < BRANCHES; k++) {
		ok(cohort_seq_cp(s->r->c, a->id[0], a->id[k], 0, -1, &err), &err);
		struct actor *b = &s->actors[s->n_actors++];
		*b = *a;
		b->id[0] = a->id[k];
		b->branch[0] = k;
		b->forks = false;
	}
	a->forks = false;
}

/* Steps that need the batch to be out of the way. False: the actor must wait for the next round. */
static bool between_rows(struct stage *s, struct actor *a)
{
	for (;;) {
		const struct story *t = story_of(a);
		const bool leaves = a->step == a->f->n_trunk;
		if (a->n > 1 && (leaves || (a->left == 0 && t->steps[a->step].kind == SHIFT)))
			part_all(s, a); /* moved cells are not shared, so they could not be coupled */
		if (a->step == t->n_steps)
			return false;
		if (t->steps[a->step].kind == DECODE && !(leaves && a->forks))
			return true;
		if (a->pending)
			return false;
		if (leaves && a->forks)
			fork_all(s, a);
		if (t->steps[a->step].kind == DECODE)
			return true;
		for (int32_t i = 0; i < a->n; i++)
			assert_int_equal(surgery(s->r, &t->steps[a->step], a->id[i]), t->steps[a->step].status);
		a->step++;
	}
}

static void act(struct stage *s, struct actor *a)
{
	if (rng_u32(&s->g) % 4 == 0)
		return;
	if (a->n > 1 && rng_u32(&s->g) % 16 == 0)
		part(s, a, (int32_t)(rng_u32(&s->g) % (uint32_t)a->n));
	int32_t n = rng_u32(&s->g) % 3 ? 1 : 1 + (int32_t)(rng_u32(&s->g) % 40);
	while (n > 0 && s->r->b.n_tokens < s->r->b.n_max && between_rows(s, a)) {
		const struct story *t = story_of(a);
		if (a->left == 0)
			a->left = t->steps[a->step].n;
		for (; n > 0 && a->left > 0 && s->r->b.n_tokens < s->r->b.n_max; n--) {
			const bool output = rng_u32(&s->g) % 4 != 0;
			const int32_t at = s->r->b.n_tokens;
			s->rows[at].story = t;
			s->rows[at].row = a->row;
			s->rows[at].output = output;
			add(s->r, t->tokens[a->row], t->pos[a->row], a->id, a->n, output);
			a->row++;
			a->left--;
			a->pending = true;
		}
		a->step += a->left == 0;
	}
}

static void stage_open(struct stage *s, const struct family *families, size_t n)
{
	s->n_actors = 0;
	for (size_t f = 0; f < n; f++) {
		struct actor a = {.f = &families[f], .n = BRANCHES};
		for (int32_t k = 0; k < BRANCHES; k++) {
			a.id[k] = id_of(f, (size_t)k);
			a.branch[k] = k;
		}
		const uint32_t way = rng_u32(&s->g) % 5;
		a.forks = way < 2;
		a.n = a.forks ? 1 : BRANCHES;
		struct actor *at = &s->actors[s->n_actors++];
		*at = a;
		if (way == 2)
			part_all(s, at); /* nothing shared at all */
	}
}

static bool finished(const struct stage *s)
{
	for (int32_t i = 0; i < s->n_actors; i++)
		if (s->actors[i].forks || s->actors[i].n > 1 || s->actors[i].step < story_of(&s->actors[i])->n_steps)
			return false;
	return true;
}

/* Tells all stories at once; returns the rows that differed. */
static size_t tell_all(struct rig *r, const struct world *w, const struct family *families, size_t n, uint64_t seed)
{
	struct stage *s = calloc(1, sizeof *s);

	assert_non_null(s);
	s->r = r;
	s->w = w;
	rng_init(&s->g, seed, 5);
	cohort_seq_clear(r->c);
	stage_open(s, families, n);
	while (!finished(s)) {
		const uint32_t first = rng_u32(&s->g), stride = 2 * (rng_u32(&s->g) % 16) + 1;
		cohort_batch_reset(&r->b);
		for (uint32_t j = 0; j < 32; j++) { /* an odd stride visits each once */
			const uint32_t i = (first + j * stride) % 32;
			if (i < (uint32_t)s->n_actors)
				act(s, &s->actors[i]);
		}
		for (int32_t i = 0; i < s->n_actors; i++)
			s->actors[i].pending = false;
		if (r->b.n_tokens == 0)
			continue;
		decode(r);
		for (int32_t i = 0; i < r->b.n_tokens; i++)
			if (s->rows[i].output)
				s->bad += !same_row(r, w, i, s->rows[i].story, s->rows[i].row);
	}
	const size_t bad = s->bad;
	free(s);
	return bad;
}

/* Stories told alone, then together in n_hows ways. */
static void families_in_world(struct world *w, size_t n, int32_t n_rows, bool cut, size_t n_hows, uint64_t seed)
{
	struct family families[FAMILIES_MAX];
	struct rig r;
	struct rng g;
	size_t bad = 0;

	rng_init(&g, seed, 11);
	rig_open(&r, w, &plain);
	for (size_t f = 0; f < n; f++)
		family_open(&r, w, &families[f], n_rows, cut, &g);
	rig_close(&r);
	if (effort_is("short"))
		n_hows = (n_hows + 2) / 3;
	for (size_t i = 0; i < n_hows; i++) {
		const struct how h = how_of(i + seed);
		rig_open(&r, w, &h);
		bad += tell_all(&r, w, families, n, seed + i);
		rig_close(&r);
	}
	for (size_t f = 0; f < n; f++)
		family_close(&families[f]);
	assert_int_equal(bad, 0);
}

/* ---- Models ---- */

/* Small enough for many runs: heads of 16, of 40 and 20, of 33 (of which 32 are rotated); one with rounded rows. */
static const struct shape shapes[] = {
	{61, 32, 4, 4, 2, 16, 16, 48, 16, 1024, QUANT_F32, QUANT_F32, QUANT_F32, QUANT_F32, true, NULL, NULL, NULL},
	{67, 40, 4, 2, 1, 40, 20, 40, 40, 1024, QUANT_F16, QUANT_F32, QUANT_BF16, QUANT_F16, false, NULL, NULL, NULL},
	{71, 64, 4, 3, 3, 33, 33, 64, 32, 1024, QUANT_Q8_0, QUANT_Q4_0, QUANT_F32, QUANT_Q8_0, true, NULL, NULL, NULL},
};
enum { N_SHAPES = 3 };

static void world_open(struct world *w, size_t shape)
{
	w->path = synth_write(&shapes[shape], 100 + shape);
}

static void world_close(struct world *w)
{
	unlink(w->path);
	free(w->path);
}

static void families_exact_when_split(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_SHAPES; i++) {
		struct world w = {.kv = (enum cohort_kv_type)i};
		world_open(&w, i);
		families_in_world(&w, FAMILIES_MAX, 45, false, 12, 24 * i);
		world_close(&w);
	}
}

/* Far beyond the windows, so that blocks are released; as many kinds as there may be. */
static const uint32_t planted[][4] = {{1, 5, 0, 32}, {40, 64, 0, 40}, {5, 5, 5, 5}, {64, 1, 40, 32}};
enum { N_PLANTED = 4 };

static void in_windows(size_t n_families, int32_t n_rows, bool cut, size_t n_hows, uint64_t seed)
{
	for (size_t i = 0; i < N_PLANTED; i++) {
		struct world w = {.kv = (enum cohort_kv_type)((i + 2) % 3)};
		memcpy(w.window, planted[i], sizeof w.window);
		world_open(&w, i % N_SHAPES);
		families_in_world(&w, n_families, n_rows, cut, n_hows, seed + 7 * i);
		world_close(&w);
	}
}

static void rows_exact_in_windows(void **state)
{
	(void)state;
	in_windows(2, 230, false, 12, 1);
}

static void removed_middles_leave_rows_exact(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_SHAPES; i++) {
		struct world w = {.kv = (enum cohort_kv_type)((i + 1) % 3)};
		world_open(&w, i);
		families_in_world(&w, 4, 150, true, 12, 1000 + 24 * i);
		world_close(&w);
	}
}

static void gaps_windows(void **state)
{
	(void)state;
	in_windows(3, 150, true, 9, 2000);
}

/* ---- The same cells, come about differently ---- */

/* One story of rows only. */
static struct story *text_open(struct world *w, int32_t n, uint64_t seed)
{
	struct story *s;
	struct rig r;
	struct rng g;

	rng_init(&g, seed, 3);
	rig_open(&r, w, &plain);
	s = story_new(w);
	for (int32_t i = 0; i < n; i++)
		s->tokens[i] = (cohort_token)(rng_u32(&g) % w->n_vocab);
	tell(&r, w, s, (struct step){.kind = DECODE, .n = n});
	rig_close(&r);
	return s;
}

/* Rows [from, to) of a text to a sequence in one batch; returns those that differ. */
static size_t more(struct rig *r, const struct world *w, const struct story *s, cohort_seq id, int32_t from, int32_t to)
{
	size_t bad = 0;
	cohort_batch_reset(&r->b);
	for (int32_t i = from; i < to; i++)
		add(r, s->tokens[i], i, &id, 1, true);
	if (from < to)
		decode(r);
	for (int32_t i = from; i < to; i++)
		bad += !same_row(r, w, i - from, s, i);
	return bad;
}

/* Sequence `to` from pieces of 1, 2 and 3, which hold the text up to n; its own beginning, if any, it decodes. */
static size_t assemble(struct rig *r, const struct world *w, const struct story *s, cohort_seq to, int32_t n,
		struct rng *g)
{
	int32_t cuts[8] = {0}, n_pieces = 1, order[8];
	struct cohort_err err;
	size_t bad = 0;

	while (n_pieces < 7 && cuts[n_pieces - 1] < n) {
		cuts[n_pieces] = cuts[n_pieces - 1] + 1 + (int32_t)(rng_u32(g) % (uint32_t)n) / 2;
		n_pieces++;
	}
	cuts[--n_pieces] = n;
	for (int32_t i = 0; i < n_pieces; i++)
		order[i] = i;
	for (int32_t i = n_pieces - 1; i > 0; i--) {
		const int32_t j = (int32_t)(rng_u32(g) % (uint32_t)(i + 1)), o = order[i];
		order[i] = order[j];
		order[j] = o;
	}
	const bool own = rng_u32(g) % 2;
	if (own)
		bad += more(r, w, s, to, 0, cuts[1]);
	for (int32_t i = 0; i < n_pieces; i++)
		if (order[i] > 0 || !own)
			ok(cohort_seq_cp(r->c, (cohort_seq)(1 + rng_u32(g) % 3), to, cuts[order[i]], cuts[order[i] + 1],
					   &err), &err);
	assert_int_equal(cohort_seq_pos_max(r->c, to), n - 1);
	return bad;
}

static void assembled_sequences_exact(void **state)
{
	const uint32_t none[4] = {0}, some[4] = {0, 64, 0, 64};
	(void)state;
	for (size_t i = 0; i < 2 * N_SHAPES; i++) {
		struct world w = {.kv = (enum cohort_kv_type)(i % 3)};
		struct rng g;
		size_t bad = 0;
		memcpy(w.window, i < N_SHAPES ? none : some, sizeof none);
		world_open(&w, i % N_SHAPES);
		struct story *s = text_open(&w, 130, i);
		rng_init(&g, i, 1);
		for (size_t k = 0; k < (effort_is("short") ? 4 : 12); k++) {
			const struct how h = how_of(k);
			/* Within what a window of 64 keeps of the sources. */
			const int32_t n = 2 + (int32_t)(rng_u32(&g) % (i < N_SHAPES ? 119 : 85));
			struct rig r;
			rig_open(&r, &w, &h);
			for (cohort_seq id = 1; id <= 3; id++)
				for (int32_t at = 0; at < n; at += 11 * id)
					bad += more(&r, &w, s, id, at, at + 11 * id < n ? at + 11 * id : n);
			for (cohort_seq id = 900; id < 905; id++)
				bad += assemble(&r, &w, s, id, n, &g);
			cohort_batch_reset(&r.b);
			for (int32_t at = n; at < n + 9; at++)
				for (cohort_seq id = 904; id >= 900; id--)
					add(&r, s->tokens[at], at, &id, 1, true);
			decode(&r);
			for (int32_t j = 0; j < 45; j++)
				bad += !same_row(&r, &w, j, s, n + j / 5);
			for (cohort_seq id = 1; id <= 3; id++) /* the sources are as they were */
				bad += more(&r, &w, s, id, n, n + 9);
			rig_close(&r);
		}
		assert_int_equal(bad, 0);
		story_free(s);
		world_close(&w);
	}
}

/* In one layer, cells depend on tokens and positions only: a window of w sees what is left when all before it is
 * removed; and what is removed and decoded again is what it was. */
static void window_is_head_removed(void **state)
{
	const uint32_t sizes[] = {1, 5, 32, 40, 64};
	struct shape one = shapes[0];
	(void)state;
	one.n_layer = 1;
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		struct world seen = {.path = synth_write(&one, 7), .kv = (enum cohort_kv_type)(i % 3)}, all = seen;
		const struct how h = how_of(3 * i);
		const int32_t n = 230, window = (int32_t)sizes[i];
		const cohort_seq five = 5;
		struct rig r;
		size_t bad = 0;
		for (size_t l = 0; l < 4; l++)
			seen.window[l] = sizes[i];
		struct story *s = text_open(&seen, n, i);
		rig_open(&r, &all, &h);
		for (int32_t at = 0; at < n; at++) {
			struct cohort_err err;
			if (at) {
				ok(cohort_seq_rm(r.c, 5, 0, -1, &err), &err);
				ok(cohort_seq_cp(r.c, 4, 5, 0, -1, &err), &err);
			}
			if (at - window + 1 > 0)
				ok(cohort_seq_rm(r.c, 5, 0, at - window + 1, &err), &err);
			const cohort_seq four = 4;
			cohort_batch_reset(&r.b);
			if (window > 1 || at == 0)
				add(&r, s->tokens[at], at, &five, 1, true);
			add(&r, s->tokens[at], at, &four, 1, false);
			decode(&r);
			if (window > 1 || at == 0) /* with a window of one there is no last position to go on from */
				bad += !same_row(&r, &all, 0, s, at);
		}
		assert_int_equal(bad, 0);
		rig_close(&r);
		story_free(s);
		world_close(&seen);
	}
}

/* In one layer, moved cells are nearly what they would be if decoded where they are now: removing rows [a, b) and
 * closing the gap is nearly the text without them. Far off is a key not rotated, or a cell in the wrong slot. */
static void moved_is_nearly_fresh(void **state)
{
	struct shape one = shapes[1];
	(void)state;
	one.n_layer = 1;
	for (size_t i = 0; i < 30; i++) {
		struct world w = {.path = synth_write(&one, 8), .kv = (enum cohort_kv_type)(i % 3)};
		const struct how h = how_of(i);
		const float near = w.kv == COHORT_KV_F32 ? 1e-6f : w.kv == COHORT_KV_F16 ? 1e-5f : 2e-4f;
		const int32_t n = 100, a = (int32_t)(i * 7 % 60), b = a + 1 + (int32_t)(i * 13 % 37);
		struct cohort_err err;
		struct rig r;
		float got[128], top = 0.0f, diff = 0.0f;
		rig_open(&r, &w, &h);
		assert_true(w.n_vocab <= 128);
		for (cohort_seq id = 0; id < 2; id++) {
			cohort_batch_reset(&r.b);
			for (int32_t at = 0, pos = 0; at < n; at++)
				if (id == 0 || at < a || at >= b) /* 1 never had those rows */
					add(&r, (cohort_token)(at * at % 61), pos++, &id, 1, false);
			decode(&r);
		}
		ok(cohort_seq_rm(r.c, 0, a, b, &err), &err);
		ok(cohort_seq_add(r.c, 0, b, -1, a - b, &err), &err);
		ok(cohort_decode_one(r.c, 3, n - (b - a), 0, true, &err), &err);
		memcpy(got, cohort_logits_get(r.c, 0, NULL), w.n_vocab * sizeof *got);
		ok(cohort_decode_one(r.c, 3, n - (b - a), 1, true, &err), &err);
		const float *want = cohort_logits_get(r.c, 0, NULL);
		for (size_t v = 0; v < w.n_vocab; v++) {
			top = fmaxf(top, fabsf(want[v]));
			diff = fmaxf(diff, fabsf(want[v] - got[v]));
		}
		if (!(diff <= near * top))
			fail_msg("[%d, %d): %g of %g", a, b, (double)diff, (double)top);
		rig_close(&r);
		world_close(&w);
	}
}

static void exact_seq_compared_enough_rows(void **state)
{
	(void)state;
	print_message("# %llu rows compared\n", (unsigned long long)n_compared);
	assert_true(n_compared >= (effort_is("short") ? 30000 : 100000));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(families_exact_when_split),
		cmocka_unit_test(rows_exact_in_windows),
		cmocka_unit_test(removed_middles_leave_rows_exact),
		cmocka_unit_test(gaps_windows),
		cmocka_unit_test(assembled_sequences_exact),
		cmocka_unit_test(window_is_head_removed),
		cmocka_unit_test(moved_is_nearly_fresh),
		cmocka_unit_test(exact_seq_compared_enough_rows),
	};
	return cmocka_run_group_tests_name("exact_seq", tests, NULL, NULL);
}
