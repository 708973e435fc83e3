/* The built-in strategies.
 *
 * A tick has two sides: slots that generate, a row each, and prompts, up to a chunk each. A strategy decides how many
 * rows each side gets; who of a side gets them is a matter of turns, the same for all.
 *
 * Invariants
 *  1. Work conserving: the two shares are the whole budget, or all the work there is.
 *  2. A side that waits gets at least min(its work, max(1, budget / 16)) rows; with a budget of 1 the sides take turns.
 *  3. A turn goes on at the first id behind the last one served, whoever came or went in between. So a slot that
 *     waits sees every other one of its side served at most once before itself: of n that generate, each has a row
 *     within ceil(n / rows) ticks; of n prompts, each has rows within ceil(n / ceil(rows / chunk_size)).
 *  4. One pass to count, one for each side to serve; nothing is sorted or allocated.
 *
 * Refuses to know priority, age and client: who may have a slot at all is the queue's decision. */
#include "cohort_engine.h"

#include <string.h>

enum side { SIDE_NONE = 0, SIDE_DECODE, SIDE_PREFILL };

/* Zeroed at first: from the lowest id on, and nobody was served yet. */
struct turns {
	cohort_seq next[SIDE_PREFILL + 1]; /* where the next turn of a side starts */
	enum side last; /* the side that had the last tick for itself */
	bool odd_prefills; /* balanced: whose turn it is to have the odd row */
};

/* How many rows each side could use. */
struct work {
	int64_t n_decode, n_prefill;
};

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* Rows that a slot could have in this tick. */
static int32_t slot_work(const struct cohort_slot *s, int32_t chunk_size)
{
	if (s->state == COHORT_SLOT_GENERATING)
		return s->pending >= 0;
	const int32_t left = s->state == COHORT_SLOT_PREFILLING ? s->n_prompt - s->n_prefilled : 0;
	return left < chunk_size ? left : chunk_size;
}

static struct work count_work(const struct cohort_plan *p)
{
	struct work w = {0};

	for (int32_t i = 0; i < p->n_slots; i++) {
		const int32_t n = slot_work(&p->slots[i], p->chunk_size);
		if (p->slots[i].state == COHORT_SLOT_GENERATING)
			w.n_decode += n;
		else
			w.n_prefill += n;
	}
	return w;
}

/* The first slot whose id is at least `id`; n_slots if there is none. Ids rise. */
static int32_t find_id(const struct cohort_plan *p, cohort_seq id)
{
	int32_t lo = 0, hi = p->n_slots;

	while (lo < hi) {
		const int32_t mid = lo + (hi - lo) / 2;
		if (p->slots[mid].id < id)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* Gives n rows to the slots of a side, each in its turn. */
static void serve(struct cohort_plan *p, struct turns *t, enum side side, int64_t n)
{
	const enum cohort_slot_state state = side == SIDE_DECODE ? COHORT_SLOT_GENERATING : COHORT_SLOT_PREFILLING;
	int32_t at = n > 0 ? find_id(p, t->next[side]) : 0;

	for (int32_t i = 0; n > 0 && i < p->n_slots; i++, at++) {
		if (at >= p->n_slots)
			at = 0;
		struct cohort_slot *s = &p->slots[at];
		if (s->state != state)
			continue;
		const int32_t n_given = cohort_plan_add(p, s, (int32_t)least(n, p->budget));
		n -= n_given;
		if (n_given)
			t->next[side] = s->id + 1;
	}
}

/* What the side that goes first gets: all it can use, but for what the other one is owed. `wish` is the most it wants
 * while the other one waits. */
static int64_t share(const struct cohort_plan *p, struct turns *t, enum side first, int64_t n_first, int64_t n_other,
		int64_t wish)
{
	const int64_t n_floor = p->budget >= 32 ? p->budget / 16 : 1;

	if (n_first == 0 || n_other == 0)
		return least(n_first, p->budget);
	if (p->budget <= 1)
		return t->last == first ? 0 : p->budget;
	/* Rows that the other one cannot use come back. */
	const int64_t n_owed = least(n_other, n_floor), n_back = p->budget - least(n_other, p->budget);
	int64_t n = least(wish, p->budget - n_owed);
	if (n < n_back)
		n = n_back;
	return least(n, n_first);
}

static enum cohort_status build(
		struct cohort_plan *p, struct turns *t, const struct work *w, enum side first, int64_t wish)
{
	const enum side other = first == SIDE_DECODE ? SIDE_PREFILL : SIDE_DECODE;
	const int64_t n_first = first == SIDE_DECODE ? w->n_decode : w->n_prefill;
	const int64_t n_other = first == SIDE_DECODE ? w->n_prefill : w->n_decode;
	const int64_t n = share(p, t, first, n_first, n_other, wish), n_rest = least(n_other, p->budget - n);

	serve(p, t, first, n);
	serve(p, t, other, n_rest);
	if (n == 0 || n_rest == 0)
		t->last = n ? first : n_rest ? other : t->last;
	return COHORT_OK;
}

static enum cohort_status decode_maximal(const struct cohort_strategy *self, void *state, struct cohort_plan *plan)
{
	const struct work w = count_work(plan);
	(void)self;

	return build(plan, state, &w, SIDE_DECODE, plan->budget);
}

static enum cohort_status prefill_priority(const struct cohort_strategy *self, void *state, struct cohort_plan *plan)
{
	const struct work w = count_work(plan);
	(void)self;

	return build(plan, state, &w, SIDE_PREFILL, plan->budget);
}

/* The odd row goes to each side in turn, in the ticks in which both wait. */
static enum cohort_status balanced(const struct cohort_strategy *self, void *state, struct cohort_plan *plan)
{
	struct turns *t = state;
	const struct work w = count_work(plan);
	const int64_t half = plan->budget / 2;
	(void)self;

	const int64_t wish = t->odd_prefills ? half : plan->budget - half;
	if (w.n_decode > 0 && w.n_prefill > 0)
		t->odd_prefills = !t->odd_prefills;
	return build(plan, t, &w, SIDE_DECODE, wish);
}

static const struct cohort_strategy builtins[] = {
		{
				.struct_size = sizeof(struct cohort_strategy),
				.name = "decode-maximal",
				.about = "generating slots first, prompts take what is left",
				.state_bytes = sizeof(struct turns),
				.build_batch = decode_maximal,
		},
		{
				.struct_size = sizeof(struct cohort_strategy),
				.name = "prefill-priority",
				.about = "prompts first, generating slots take what is left",
				.state_bytes = sizeof(struct turns),
				.build_batch = prefill_priority,
		},
		{
				.struct_size = sizeof(struct cohort_strategy),
				.name = "balanced",
				.about = "half each; what one side does not need goes to the other",
				.state_bytes = sizeof(struct turns),
				.build_batch = balanced,
		},
};

size_t cohort_strategy_count(void)
{
	return sizeof builtins / sizeof *builtins;
}

const struct cohort_strategy *cohort_strategy_get(size_t i)
{
	return i < cohort_strategy_count() ? &builtins[i] : NULL;
}

const struct cohort_strategy *cohort_strategy_find(const char *name)
{
	for (size_t i = 0; name && i < cohort_strategy_count(); i++)
		if (strcmp(builtins[i].name, name) == 0)
			return &builtins[i];
	return NULL;
}
