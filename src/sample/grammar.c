/* Matching texts with a grammar, byte by byte, and finding the tokens that may come next.
 *
 * A place in a rule together with the places to return to is a cell: (node, cell of the caller). Equal cells are one
 * cell, by number; cell 0 is the end of the text. The places a text can be at are a set of cells, a state; equal sets
 * are one state. What a byte leads to from a state is worked out once and kept, so that a second time costs one look
 * into a table. The tokens that may follow are found by walking the trie of all token texts along with it, and kept
 * too.
 *
 * Invariants
 *  1. State 0 is the empty set: nothing can follow. Cells of a state stand at nodes that read something, or are cell 0.
 *  2. A cell's caller has a smaller number.
 *  3. When a table is full, what no text stands at is forgotten; a text that cannot go on even then gets E_LIMIT, and
 *     stays where it is.
 *  4. Rules that can nest are not entered deeper than DEPTH_MAX: what comes out is in the language all the same.
 *  5. Everything behind the lock; nothing is allocated after cohort_grammar_open.
 *  6. A call does not do more work than WORK_MAX, and twice that when it had to forget: who waits for the lock waits a
 *     bounded time, whatever the grammar is, and does not wait for the end of a long text. */
#include "sample/grammar.h"

#include "base/err.h"
#include "base/lock.h"
#include "base/mem.h"
#include "sample/lexicon.h"
#include "sample/program.h"

#include <stdatomic.h>
#include <string.h>

#ifdef COHORT_SMALL_TABLES /* for the fuzz targets: a grammar opens in no time, and full tables do happen */
enum { SMALLER = 6 };
#else
enum { SMALLER = 0 };
#endif

enum {
	CELLS_MAX = 1 << (19 - SMALLER),
	STATES_MAX = 1 << (14 - SMALLER),
	CONFIGS_MAX = 1 << (20 - SMALLER), /* cells in all states together */
	SET_MAX = 1 << (14 - SMALLER), /* in one */
	VISITS_MAX = 1 << (17 - SMALLER), /* while one is worked out; a power of two */
	DEPTH_MAX = 2000,
	MASKS_MAX = 1024,
	MASKS_MIN = 16,
	MASK_BYTES = 16 << 20, /* of all masks, about */
	/* Work is counted in ways out of a place that are looked at, anything else as what it was measured to take in
	 * those. A call that uses it all up takes 0.16 s, forgetting included; schemas of the tests use 1 % of it. */
	WORK_MAX = 1 << (22 - SMALLER),
	VISIT_WORK = 6, /* a place that is visited for the first time */
	SORT_WORK = 6, /* a cell of a set that is sorted */
	TURN_BYTES = 4096, /* of a long text, before others have their turn: some 10 us when all is worked out */
};

struct cell {
	int32_t node, parent;
};

struct state {
	uint32_t from, n; /* configs[from .. from + n), rising */
	int32_t mask; /* short tokens that may follow, or -1 */
	int32_t like; /* a state with the same mask, or -1: not worked out */
};

struct visit {
	int32_t node, parent;
	uint32_t stamp;
};

struct cohort_grammar {
	struct program p;
	const struct cohort_lexicon *lexicon;
	struct lock lock;
	atomic_int n_waiting; /* for the lock */
	struct grammar_at *places;
	bool given_up; /* by who opened it: goes with the last place */
	int32_t start;

	struct cell *cells;
	uint16_t *depths; /* [cells] */
	int32_t *like; /* [cells]: the cell with every node replaced by the one it is like, or -1 */
	int32_t *cell_slots; /* [2 CELLS_MAX]: number + 1, or 0 */
	size_t n_cells;

	struct state *states;
	int32_t *state_slots; /* [4 STATES_MAX]: number + 1, or 0 */
	int32_t *rows; /* [states, n_classes]: where a byte leads, or -1: not worked out */
	int32_t *configs;
	size_t n_states, n_configs;

	uint64_t *masks; /* [n_masks, n_words] */
	int32_t *mask_states; /* [n_masks]: whose it is, or -1 */
	uint64_t *mask_times; /* [n_masks]: when it was asked for last */
	size_t n_masks, n_words;
	uint64_t time;

	/* Scratch */
	struct visit *visits; /* [VISITS_MAX] */
	uint32_t stamp;
	size_t n_visits;
	struct cell *todo; /* [VISITS_MAX] */
	int32_t *set; /* [SET_MAX], each cell once */
	size_t n_set;
	uint32_t *in_set; /* [CELLS_MAX]: the stamp of the last set that had the cell */
	size_t n_work; /* of this attempt */
	int32_t *path; /* states along a token: [longest + 1] */
	bool full, ambiguous; /* why something could not be worked out */
};

static void take(struct cohort_grammar *g)
{
	atomic_fetch_add(&g->n_waiting, 1);
	lock_take(&g->lock);
	atomic_fetch_sub(&g->n_waiting, 1);
}

/* ---- Cells ---- */

static uint32_t mix(uint32_t h, uint32_t v)
{
	h = (h ^ v) * 0x9e3779b1u;
	return h ^ h >> 15;
}

/* Where a cell is in the slots, or would be. */
static size_t cell_slot(const struct cohort_grammar *g, int32_t node, int32_t parent)
{
	size_t at = mix(mix(1, (uint32_t)node), (uint32_t)parent) & (2 * CELLS_MAX - 1);
	for (; g->cell_slots[at]; at = (at + 1) & (2 * CELLS_MAX - 1)) {
		const struct cell *c = &g->cells[g->cell_slots[at] - 1];
		if (c->node == node && c->parent == parent)
			break;
	}
	return at;
}

/* The number of a cell, or -1: the table is full. */
static int32_t cell_of(struct cohort_grammar *g, int32_t node, int32_t parent)
{
	const size_t at = cell_slot(g, node, parent);
	if (g->cell_slots[at])
		return g->cell_slots[at] - 1;
	if (g->n_cells == CELLS_MAX) {
		g->full = true;
		return -1;
	}
	const size_t i = g->n_cells++;
	g->cells[i] = (struct cell){node, parent};
	g->depths[i] = parent < 0 ? 0 : (uint16_t)(g->depths[parent] + 1);
	g->like[i] = -1;
	g->cell_slots[at] = (int32_t)i + 1;
	return (int32_t)i;
}

/* ---- Closures ---- */

static void set_clear(struct cohort_grammar *g)
{
	g->n_set = g->n_visits = 0;
	if (++g->stamp == 0) {
		memset(g->visits, 0, VISITS_MAX * sizeof *g->visits);
		memset(g->in_set, 0, CELLS_MAX * sizeof *g->in_set);
		g->stamp = 1;
	}
}

/* Whether n more may be looked at. */
static bool may_work(struct cohort_grammar *g, size_t n)
{
	g->n_work += n;
	g->ambiguous |= g->n_work > WORK_MAX;
	return !g->ambiguous;
}

static void set_add(struct cohort_grammar *g, int32_t cell)
{
	if (cell < 0 || g->in_set[cell] == g->stamp)
		return;
	g->in_set[cell] = g->stamp;
	if (g->n_set == SET_MAX)
		g->ambiguous = true;
	else
		g->set[g->n_set++] = cell;
}

/* Whether (node, parent) comes for the first time since set_clear; then it is on the list of things to do. */
static void visit(struct cohort_grammar *g, int32_t node, int32_t parent, size_t *n_todo)
{
	size_t at = mix(mix(2, (uint32_t)node), (uint32_t)parent) & (VISITS_MAX - 1);
	for (; g->visits[at].stamp == g->stamp; at = (at + 1) & (VISITS_MAX - 1))
		if (g->visits[at].node == node && g->visits[at].parent == parent)
			return;
	if (g->n_visits == VISITS_MAX / 2) {
		g->ambiguous = true;
		return;
	}
	g->n_visits++;
	g->visits[at] = (struct visit){node, parent, g->stamp};
	g->todo[(*n_todo)++] = (struct cell){node, parent};
}

/* The cell to return to after a call; that of the caller itself, when nothing would be left to do here: so that a rule
 * that ends in a call of itself does not pile up. */
static int32_t return_cell(struct cohort_grammar *g, int32_t rule, int32_t out, int32_t parent)
{
	const struct program *p = &g->p;
	if (p->first[out + 1] - p->first[out] == 1 && p->nodes[p->nexts[p->first[out]]].kind == G_END)
		return parent;
	const uint16_t most = p->rules[rule].nests ? DEPTH_MAX : UINT16_MAX;
	return g->depths[parent] < most ? cell_of(g, out, parent) : -1;
}

/* Adds to the set where `node` in a rule called from `parent` leads with nothing read. What cannot be worked out ends
 * at once: many ways into one cell are no more cells, but each of them takes its time. */
static void expand(struct cohort_grammar *g, int32_t node, int32_t parent)
{
	const struct program *p = &g->p;
	size_t n = 0;

	visit(g, node, parent, &n);
	while (n > 0) {
		const struct cell at = g->todo[--n];
		if (!may_work(g, VISIT_WORK + p->first[at.node + 1] - p->first[at.node]) || g->full)
			return;
		for (uint32_t i = p->first[at.node]; i < p->first[at.node + 1]; i++) {
			const struct program_node *next = &p->nodes[p->nexts[i]];
			switch (next->kind) {
			case G_CALL: {
				const int32_t back = return_cell(g, next->arg, next->out, at.parent);
				if (back >= 0)
					visit(g, p->rules[next->arg].start, back, &n);
				break;
			}
			case G_END:
				if (at.parent == 0)
					set_add(g, 0);
				else
					visit(g, g->cells[at.parent].node, g->cells[at.parent].parent, &n);
				break;
			default: set_add(g, cell_of(g, p->nexts[i], at.parent)); break;
			}
		}
	}
}

/* ---- States ---- */

static void sift_down(int32_t *a, size_t i, size_t n)
{
	for (;;) {
		size_t k = 2 * i + 1;
		if (k >= n)
			return;
		k += k + 1 < n && a[k + 1] > a[k];
		if (a[k] <= a[i])
			return;
		const int32_t t = a[k];
		a[k] = a[i];
		a[i] = t;
		i = k;
	}
}

static void sort_set(struct cohort_grammar *g)
{
	int32_t *a = g->set;
	const size_t n = g->n_set;

	for (size_t i = n / 2; i-- > 0;)
		sift_down(a, i, n);
	for (size_t i = n; i-- > 1;) {
		const int32_t t = a[0];
		a[0] = a[i];
		a[i] = t;
		sift_down(a, 0, i);
	}
}

/* Where the state of a set is in the slots, or would be. */
static size_t state_slot(const struct cohort_grammar *g, const int32_t *set, size_t n)
{
	uint32_t h = 3;
	for (size_t i = 0; i < n; i++)
		h = mix(h, (uint32_t)set[i]);
	size_t at = h & (4 * STATES_MAX - 1);
	for (; g->state_slots[at]; at = (at + 1) & (4 * STATES_MAX - 1)) {
		const struct state *s = &g->states[g->state_slots[at] - 1];
		if (s->n == n && memcmp(g->configs + s->from, set, n * sizeof *set) == 0)
			break;
	}
	return at;
}

/* The number of the state that is the set; -1: no room, or the set could not be worked out. */
static int32_t state_of_set(struct cohort_grammar *g)
{
	if (g->full || !may_work(g, SORT_WORK * g->n_set))
		return -1;
	sort_set(g);
	const size_t at = state_slot(g, g->set, g->n_set);
	if (g->state_slots[at])
		return g->state_slots[at] - 1;
	if (g->n_states == STATES_MAX || g->n_configs + g->n_set > CONFIGS_MAX) {
		g->full = true;
		return -1;
	}
	const size_t i = g->n_states++;
	g->states[i] = (struct state){(uint32_t)g->n_configs, (uint32_t)g->n_set, -1, -1};
	if (g->n_set)
		memcpy(g->configs + g->n_configs, g->set, g->n_set * sizeof *g->set);
	g->n_configs += g->n_set;
	memset(g->rows + i * (size_t)g->p.n_classes, 0xff, (size_t)g->p.n_classes * sizeof *g->rows);
	g->state_slots[at] = (int32_t)i + 1;
	return (int32_t)i;
}

static int32_t work_out(struct cohort_grammar *g, int32_t state, uint8_t class)
{
	const struct state s = g->states[state];
	const uint8_t byte = g->p.byte_of[class];

	set_clear(g);
	may_work(g, s.n);
	for (uint32_t i = 0; i < s.n && !g->ambiguous && !g->full; i++) {
		const struct cell c = g->cells[g->configs[s.from + i]];
		if (c.node < 0)
			continue;
		const struct program_node *n = &g->p.nodes[c.node];
		if (n->kind == G_RANGE && byte >= n->lo && byte <= n->hi)
			expand(g, n->out, c.parent);
	}
	const int32_t to = state_of_set(g);
	if (to >= 0)
		g->rows[(size_t)state * (size_t)g->p.n_classes + class] = to;
	return to;
}

/* Where a byte leads; -1: could not be worked out. */
static inline int32_t step(struct cohort_grammar *g, int32_t state, uint8_t byte)
{
	const uint8_t class = g->p.class_of[byte];
	const int32_t to = g->rows[(size_t)state * (size_t)g->p.n_classes + class];
	return to >= 0 ? to : work_out(g, state, class);
}

static bool accepts(const struct cohort_grammar *g, int32_t state)
{
	const struct state *s = &g->states[state];
	return s->n > 0 && g->configs[s->from] == 0;
}

/* The start, and the state at which a text has ended. */
static int32_t first_state(struct cohort_grammar *g)
{
	set_clear(g);
	expand(g, g->p.rules[g->p.root].start, 0);
	return state_of_set(g);
}

static int32_t ended_state(struct cohort_grammar *g)
{
	set_clear(g);
	set_add(g, 0);
	return state_of_set(g);
}

/* ---- Forgetting ---- */

/* Keeps the states that are stood at, and the start. Numbers fall but keep their order, so that sets stay sorted. */
static void forget(struct cohort_grammar *g)
{
	int32_t *moved = g->like; /* [cells]: marks, then new numbers */
	uint8_t live[STATES_MAX] = {1}; /* the empty one */
	size_t n_cells = 0, n_states = 0, n_configs = 0;

	live[g->start] = 1;
	for (const struct grammar_at *a = g->places; a; a = a->next)
		live[a->state] = 1;
	memset(moved, 0xff, g->n_cells * sizeof *moved);
	moved[0] = 0;
	for (size_t i = 0; i < g->n_states; i++)
		for (uint32_t k = 0; live[i] && k < g->states[i].n; k++)
			for (int32_t c = g->configs[g->states[i].from + k]; c >= 0 && moved[c] < 0;
					c = g->cells[c].parent)
				moved[c] = 0;
	for (size_t i = 0; i < g->n_cells; i++)
		if (moved[i] == 0) {
			moved[i] = (int32_t)n_cells;
			const int32_t parent = g->cells[i].parent;
			g->depths[n_cells] = g->depths[i];
			g->cells[n_cells++] = (struct cell){g->cells[i].node, parent < 0 ? -1 : moved[parent]};
		}
	int32_t *state_moved = g->set; /* scratch: the next set begins with nothing */
	_Static_assert(SET_MAX >= STATES_MAX, "there is room for every state");
	for (size_t i = 0; i < g->n_states; i++) {
		if (!live[i])
			continue;
		state_moved[i] = (int32_t)n_states;
		const uint32_t from = (uint32_t)n_configs;
		for (uint32_t k = 0; k < g->states[i].n; k++)
			g->configs[n_configs++] = moved[g->configs[g->states[i].from + k]];
		g->states[n_states++] = (struct state){from, g->states[i].n, -1, -1};
	}
	g->start = state_moved[g->start];
	for (struct grammar_at *a = g->places; a; a = a->next)
		a->state = state_moved[a->state];
	g->n_cells = n_cells;
	g->n_states = n_states;
	g->n_configs = n_configs;
	memset(g->like, 0xff, n_cells * sizeof *g->like);
	memset(g->rows, 0xff, n_states * (size_t)g->p.n_classes * sizeof *g->rows);
	memset(g->mask_states, 0xff, g->n_masks * sizeof *g->mask_states);
	memset(g->cell_slots, 0, 2 * CELLS_MAX * sizeof *g->cell_slots);
	memset(g->state_slots, 0, 4 * STATES_MAX * sizeof *g->state_slots);
	for (size_t i = 0; i < n_cells; i++)
		g->cell_slots[cell_slot(g, g->cells[i].node, g->cells[i].parent)] = (int32_t)i + 1;
	for (size_t i = 0; i < n_states; i++)
		g->state_slots[state_slot(g, g->configs + g->states[i].from, g->states[i].n)] = (int32_t)i + 1;
	g->full = g->ambiguous = false;
	g->n_work = 0;
}

static enum cohort_status give_up(struct cohort_grammar *g, struct cohort_err *err)
{
	const bool ambiguous = g->ambiguous;
	g->full = g->ambiguous = false;
	return err_rule(err, COHORT_E_LIMIT, "grammar", -1, -1, 0, 0, "the grammar is too %s here",
			ambiguous ? "ambiguous" : "large");
}

/* ---- Masks ---- */

static void set_bit(uint64_t *mask, cohort_token t)
{
	mask[t / 64] |= (uint64_t)1 << t % 64;
}

/* Adds the trie's tokens that may follow `state`. False: could not be worked out. */
static bool walk(struct cohort_grammar *g, const struct lexicon_trie *t, int32_t state, uint64_t *mask)
{
	g->path[0] = state;
	for (size_t i = 0; i < t->n_nodes;) {
		const struct lexicon_node *n = &t->nodes[i];
		const int32_t to = step(g, g->path[n->depth - 1], n->byte);
		if (to <= 0) {
			if (to < 0)
				return false;
			i = n->skip;
			continue;
		}
		g->path[n->depth] = to;
		for (uint32_t k = 0; k < n->n_tokens; k++)
			set_bit(mask, t->order[n->tokens + k]);
		i++;
	}
	return true;
}

/* The cell with every node replaced by the one it is like; -1: no room. Callers have smaller numbers, but they may be
 * many: first up to one that is known, then down again. */
static int32_t like_cell(struct cohort_grammar *g, int32_t cell)
{
	size_t n = 0; /* as many as the cell is deep, at most; small tables may have less room */

	for (int32_t c = cell; c >= 0 && g->like[c] < 0 && n < VISITS_MAX; c = g->cells[c].parent)
		g->todo[n++].node = c;
	if (!may_work(g, n < VISITS_MAX ? n : WORK_MAX))
		return -1;
	while (n > 0) {
		const int32_t c = g->todo[--n].node;
		const struct cell at = g->cells[c];
		const int32_t to = c == 0 ? 0 : cell_of(g, g->p.nodes[at.node].like, g->like[at.parent]);
		if (to < 0)
			return -1;
		g->like[c] = to;
	}
	return g->like[cell];
}

static int32_t like_state(struct cohort_grammar *g, int32_t state)
{
	if (g->states[state].like >= 0)
		return g->states[state].like;
	const struct state s = g->states[state];
	set_clear(g);
	may_work(g, s.n);
	for (uint32_t i = 0; i < s.n && !g->ambiguous && !g->full; i++)
		set_add(g, like_cell(g, g->configs[s.from + i]));
	const int32_t to = state_of_set(g);
	if (to >= 0)
		g->states[state].like = to;
	return to;
}

/* The mask of short tokens; NULL: could not be worked out. The one asked for longest ago makes room. */
static const uint64_t *short_mask(struct cohort_grammar *g, int32_t state)
{
	const int32_t like = like_state(g, state);
	if (like < 0)
		return NULL;
	int32_t at = g->states[like].mask;
	if (at < 0) {
		at = 0;
		for (size_t i = 1; i < g->n_masks; i++)
			if (g->mask_times[i] < g->mask_times[at])
				at = (int32_t)i;
		if (g->mask_states[at] >= 0)
			g->states[g->mask_states[at]].mask = -1;
		g->mask_states[at] = -1;
		uint64_t *mask = g->masks + (size_t)at * g->n_words;
		memset(mask, 0, g->n_words * sizeof *mask);
		if (!walk(g, &g->lexicon->short_ones, like, mask))
			return NULL;
		g->mask_states[at] = like;
		g->states[like].mask = at;
	}
	g->mask_times[at] = ++g->time;
	return g->masks + (size_t)at * g->n_words;
}

/* Tokens that the grammar names, and those that end the text. */
static void add_tokens(struct cohort_grammar *g, int32_t state, uint64_t *mask)
{
	enum { NONE = -1, ALL_TAKEN = -2 };
	const struct cohort_lexicon *x = g->lexicon;
	const struct state s = g->states[state];
	cohort_token but = NONE; /* the only one that the nodes for any other token than theirs leave out */

	for (uint32_t i = 0; i < s.n; i++) {
		const int32_t node = g->cells[g->configs[s.from + i]].node;
		if (node < 0 || g->p.nodes[node].kind != G_TOKEN)
			continue;
		const cohort_token arg = g->p.nodes[node].arg;
		if (!g->p.nodes[node].negated)
			set_bit(mask, arg);
		else if (but != arg)
			but = but == NONE ? arg : ALL_TAKEN;
	}
	for (cohort_token t = 0; but != NONE && t < x->n_vocab; t++)
		if (t != but && !x->is_end[t])
			set_bit(mask, t);
	for (int32_t i = 0; i < x->n_ending && accepts(g, state); i++)
		set_bit(mask, x->ending[i]);
}

static bool find_mask(struct cohort_grammar *g, int32_t state, uint64_t *mask)
{
	const uint64_t *shorts = short_mask(g, state);
	if (!shorts)
		return false;
	memcpy(mask, shorts, g->n_words * sizeof *mask);
	if (!walk(g, &g->lexicon->long_ones, state, mask))
		return false;
	add_tokens(g, state, mask);
	return true;
}

enum cohort_status grammar_mask(struct grammar_at *at, uint64_t *mask, struct cohort_err *err)
{
	struct cohort_grammar *g = at->g;
	enum cohort_status st = COHORT_OK;

	take(g);
	g->n_work = 0;
	if (!find_mask(g, at->state, mask)) {
		const bool retry = g->full;
		if (retry)
			forget(g);
		if (!retry || !find_mask(g, at->state, mask))
			st = give_up(g, err);
	}
	lock_give(&g->lock);
	return st;
}

/* ---- Going on ---- */

/* The state after a token, 0 if there is none, -1 if it could not be worked out. */
static int32_t after_token(struct cohort_grammar *g, int32_t state, cohort_token token)
{
	const struct state s = g->states[state];
	bool named = false;
	size_t n;
	const uint8_t *bytes = lexicon_bytes(g->lexicon, token, &n);
	int32_t to = g->lexicon->is_end[token] || n == 0 ? 0 : state;

	for (size_t i = 0; i < n && to > 0; i++)
		to = step(g, to, bytes[i]);
	if (to < 0)
		return -1;
	for (uint32_t i = 0; i < s.n && !named; i++) {
		const int32_t node = g->cells[g->configs[s.from + i]].node;
		named = node >= 0 && g->p.nodes[node].kind == G_TOKEN;
	}
	if (g->lexicon->is_end[token] && accepts(g, state))
		return ended_state(g);
	if (!named)
		return to;
	/* By its text and by its name. */
	set_clear(g);
	const struct state t = g->states[to];
	for (uint32_t i = 0; i < t.n; i++)
		set_add(g, g->configs[t.from + i]);
	for (uint32_t i = 0; i < s.n; i++) {
		const struct cell c = g->cells[g->configs[s.from + i]];
		const struct program_node *node = c.node < 0 ? NULL : &g->p.nodes[c.node];
		if (node && node->kind == G_TOKEN &&
				(node->negated ? node->arg != token && !g->lexicon->is_end[token] : node->arg == token))
			expand(g, node->out, c.parent);
	}
	return state_of_set(g);
}

enum cohort_status grammar_accept(struct grammar_at *at, cohort_token token, struct cohort_err *err)
{
	struct cohort_grammar *g = at->g;
	enum cohort_status st = COHORT_OK;

	take(g);
	g->n_work = 0;
	int32_t to = after_token(g, at->state, token);
	if (to < 0 && g->full) {
		forget(g);
		to = after_token(g, at->state, token);
	}
	if (to > 0)
		at->state = to;
	else
		st = to < 0 ? give_up(g, err)
			    : err_set(err, COHORT_E_ARG, "the grammar does not permit token %d here", token);
	lock_give(&g->lock);
	return st;
}

bool grammar_is_complete(const struct grammar_at *at)
{
	take(at->g);
	const bool yes = accepts(at->g, at->state);
	lock_give(&at->g->lock);
	return yes;
}

bool grammar_is_finished(struct grammar_at *at)
{
	take(at->g);
	const bool yes = accepts(at->g, at->state) && at->g->states[at->state].n == 1;
	lock_give(&at->g->lock);
	return yes;
}

/* Nobody has it any more: neither who opened it nor a place. */
static void release(struct cohort_grammar *g)
{
	program_release(&g->p);
	mem_free(g->cells);
	mem_free(g->depths);
	mem_free(g->like);
	mem_free(g->cell_slots);
	mem_free(g->states);
	mem_free(g->state_slots);
	mem_free(g->rows);
	mem_free(g->configs);
	mem_free(g->masks);
	mem_free(g->mask_states);
	mem_free(g->mask_times);
	mem_free(g->visits);
	mem_free(g->todo);
	mem_free(g->set);
	mem_free(g->in_set);
	mem_free(g->path);
	lock_release(&g->lock);
	mem_free(g);
}

/* ---- Places ---- */

int32_t grammar_n_vocab(const struct cohort_grammar *g)
{
	return g->lexicon->n_vocab;
}

double grammar_work(const struct cohort_grammar *g)
{
	return (double)g->n_work / WORK_MAX;
}

static void enter(struct grammar_at *at, struct cohort_grammar *g, int32_t state)
{
	*at = (struct grammar_at){.g = g, .next = g->places, .state = state};
	if (g->places)
		g->places->prev = at;
	g->places = at;
}

void grammar_start(struct grammar_at *at, struct cohort_grammar *g)
{
	take(g);
	enter(at, g, g->start);
	lock_give(&g->lock);
}

void grammar_copy(struct grammar_at *at, const struct grammar_at *from)
{
	take(from->g);
	enter(at, from->g, from->state);
	lock_give(&from->g->lock);
}

void grammar_restart(struct grammar_at *at)
{
	take(at->g);
	at->state = at->g->start;
	lock_give(&at->g->lock);
}

void grammar_end(struct grammar_at *at)
{
	if (!at->g)
		return;
	struct cohort_grammar *g = at->g;
	take(g);
	if (at->prev)
		at->prev->next = at->next;
	else
		g->places = at->next;
	if (at->next)
		at->next->prev = at->prev;
	*at = (struct grammar_at){0};
	const bool last = g->given_up && !g->places;
	lock_give(&g->lock);
	if (last)
		release(g);
}

void grammar_take(struct grammar_at *at, struct grammar_at *from)
{
	take(at->g);
	at->state = from->state;
	lock_give(&at->g->lock);
	grammar_end(from);
}

/* ---- Opening ---- */

/* Names of all tokens, special ones too, as the grammar writes them; made when the first is asked for. */
struct names {
	const struct cohort_lexicon *lexicon;
	struct strmap map;
	bool made;
};

static cohort_token find_token(void *arg, const char *bytes, size_t n)
{
	struct names *names = arg;
	const struct cohort_lexicon *x = names->lexicon;
	if (!names->made && !strmap_init(&names->map, (size_t)x->n_vocab))
		return -2;
	for (cohort_token t = 0; !names->made && t < x->n_vocab; t++) {
		size_t n_name;
		const uint8_t *name = lexicon_name(x, t, &n_name);
		if (!strmap_add(&names->map, (const char *)name, n_name, t, NULL))
			return -2;
	}
	names->made = true;
	return strmap_find(&names->map, bytes, n, -1);
}

static bool allocate(struct cohort_grammar *g)
{
	const struct cohort_lexicon *x = g->lexicon;
	const size_t longest = x->long_ones.depth > x->short_ones.depth ? x->long_ones.depth : x->short_ones.depth;

	g->n_words = ((size_t)x->n_vocab + 63) / 64;
	g->n_masks = MASK_BYTES / (8 * g->n_words);
	g->n_masks = g->n_masks < MASKS_MIN ? MASKS_MIN : g->n_masks > MASKS_MAX ? MASKS_MAX : g->n_masks;
	g->cells = mem_alloc(CELLS_MAX, sizeof *g->cells);
	g->depths = mem_alloc(CELLS_MAX, sizeof *g->depths);
	g->like = mem_alloc(CELLS_MAX, sizeof *g->like);
	g->cell_slots = mem_zalloc(2 * CELLS_MAX, sizeof *g->cell_slots);
	g->states = mem_alloc(STATES_MAX, sizeof *g->states);
	g->state_slots = mem_zalloc(4 * STATES_MAX, sizeof *g->state_slots);
	g->rows = mem_alloc(STATES_MAX * (size_t)g->p.n_classes, sizeof *g->rows);
	g->configs = mem_alloc(CONFIGS_MAX, sizeof *g->configs);
	g->masks = mem_alloc(g->n_masks * g->n_words, sizeof *g->masks);
	g->mask_states = mem_alloc(g->n_masks, sizeof *g->mask_states);
	g->mask_times = mem_zalloc(g->n_masks, sizeof *g->mask_times);
	g->visits = mem_zalloc(VISITS_MAX, sizeof *g->visits);
	g->todo = mem_alloc(VISITS_MAX, sizeof *g->todo);
	g->set = mem_alloc(SET_MAX, sizeof *g->set);
	g->in_set = mem_zalloc(CELLS_MAX, sizeof *g->in_set);
	g->path = mem_alloc(longest + 1, sizeof *g->path);
	if (!g->cells || !g->depths || !g->like || !g->cell_slots || !g->states || !g->state_slots || !g->rows ||
			!g->configs || !g->masks || !g->mask_states || !g->mask_times || !g->visits || !g->todo ||
			!g->set || !g->in_set || !g->path)
		return false;
	memset(g->mask_states, 0xff, g->n_masks * sizeof *g->mask_states);
	return true;
}

enum cohort_status cohort_grammar_open(const struct cohort_lexicon *lexicon, const char *text, size_t n_bytes,
		const char *root, struct cohort_grammar **out, struct cohort_err *err)
{
	if (!lexicon || !text || !out)
		return err_set(err, COHORT_E_ARG, "%s is NULL", !lexicon ? "lexicon" : !text ? "text" : "out");
	struct cohort_grammar *g = mem_zalloc(1, sizeof *g);
	if (!g || !lock_init(&g->lock)) {
		mem_free(g);
		return err_set(err, COHORT_E_MEMORY, "out of memory for a grammar");
	}
	g->lexicon = lexicon;
	struct names names = {.lexicon = lexicon};
	enum cohort_status st = program_init(
			&g->p, text, n_bytes, root ? root : "root", lexicon->n_vocab, find_token, &names, err);
	strmap_release(&names.map);
	if (!st && !allocate(g))
		st = err_set(err, COHORT_E_MEMORY, "out of memory for a grammar");
	if (!st) {
		cell_of(g, -1, -1);
		set_clear(g);
		state_of_set(g);
		g->start = first_state(g);
		if (g->start < 0)
			st = give_up(g, err);
		else if (g->start == 0)
			st = err_set(err, COHORT_E_FORMAT, "the grammar matches no text at all");
	}
	if (st) {
		cohort_grammar_free(g);
		return st;
	}
	*out = g;
	return COHORT_OK;
}

void cohort_grammar_free(struct cohort_grammar *g)
{
	if (!g)
		return;
	take(g);
	g->given_up = true;
	const bool used = g->places != NULL;
	lock_give(&g->lock);
	if (!used)
		release(g);
}

/* ---- Texts ---- */

enum cohort_status cohort_grammar_match(struct cohort_grammar *g, const char *text, size_t n_bytes, size_t *n_matched,
		bool *complete, struct cohort_err *err)
{
	enum cohort_status st = COHORT_OK;
	struct grammar_at at;
	size_t i = 0, n_work = 0; /* since the others had a turn */

	if (!g || (!text && n_bytes))
		return err_set(err, COHORT_E_ARG, "%s is NULL", !g ? "grammar" : "text");
	grammar_start(&at, g);
	take(g);
	for (; i < n_bytes; i++) {
		n_work += g->n_work;
		if ((i + 1) % TURN_BYTES == 0 || n_work > WORK_MAX / 4) { /* who forgets meanwhile knows `at` */
			lock_pass(&g->lock, &g->n_waiting);
			n_work = 0;
		}
		g->n_work = 0;
		int32_t to = step(g, at.state, (uint8_t)text[i]);
		if (to < 0 && g->full) {
			forget(g);
			to = step(g, at.state, (uint8_t)text[i]);
		}
		if (to < 0)
			st = give_up(g, err);
		if (to <= 0)
			break;
		at.state = to;
	}
	const bool whole = !st && i == n_bytes && accepts(g, at.state);
	lock_give(&g->lock);
	grammar_end(&at);
	if (!st && n_matched)
		*n_matched = i;
	if (!st && complete)
		*complete = whole;
	return st;
}
