/* The policies: blocks of cells, those of a window, states, and encoders. */
#include "engine/policy.h"
#include "engine/room.h"

static bool copy(struct core *c, int32_t node, cohort_seq to, int32_t p0, int32_t p1)
{
	return !c->m.seq_cp(c->m.self, core_node_seq(c, node), to, p0, p1, NULL);
}

/* ---- Blocks ---- */

/* All whole blocks, and a tail right behind them. */
static void trim_blocks(const struct core *c, struct prefix_found *f)
{
	(void)c;
	if (f->n_chain < f->n_path) {
		f->tail = -1;
		f->n_tail = 0;
	}
	f->n_chain = f->n_path;
}

static int32_t copy_blocks(struct core *c, const struct prefix_found *f, cohort_seq to)
{
	const int32_t size = c->lim.block_size;
	int32_t n = 0;

	while (n < f->n_chain && copy(c, c->path[n], to, n * size, (n + 1) * size))
		n++;
	n *= size;
	return n == f->n_chain * size && f->tail >= 0 && copy(c, f->tail, to, n, n + f->n_tail) ? n + f->n_tail : n;
}

/* The commit of a piece releases a block once the row after the piece sees none of its cells. So that row must still
 * see the last cell of the stream's next whole block, which is to be cached first. */
static bool beyond_window(const struct core *c, const struct stream *s, int32_t pos)
{
	const int32_t size = c->lim.block_size, block_end = (s->n_cached / size + 1) * size;

	return pos - block_end >= (c->lim.n_window > 2 ? c->lim.n_window - 2 : 0);
}

/* ---- States ---- */

/* A state is of use at its own end only: of the session's tail, or the last one that there is. */
static void trim_states(const struct core *c, struct prefix_found *f)
{
	int32_t n = f->n_path;

	while (n > 0 && core_node_seq(c, c->path[n - 1]) < 0)
		n--;
	if (f->tail >= 0 && f->n_chain >= n && f->n_tail == prefix_node_get(c->prefix, f->tail)->n_tokens)
		return;
	f->n_chain = n;
	f->tail = -1;
	f->n_tail = 0;
}

static int32_t copy_state(struct core *c, const struct prefix_found *f, cohort_seq to)
{
	const int32_t size = c->lim.block_size;
	int32_t n = f->n_chain;

	if (f->tail >= 0 && copy(c, f->tail, to, 0, n * size + f->n_tail))
		return n * size + f->n_tail;
	while (n > 0 && (core_node_seq(c, c->path[n - 1]) < 0 || !copy(c, c->path[n - 1], to, 0, n * size)))
		n--;
	return n * size;
}

/* The last state of the chain: this stream has a copy already, and later states will serve more requests. */
static int32_t last_state(const struct core *c, const struct stream *s)
{
	int32_t node = s->node;

	for (; node >= 0; node = prefix_node_get(c->prefix, node)->parent) {
		const struct prefix_node *n = prefix_node_get(c->prefix, node);
		const int32_t end = n->n_before + n->n_tokens;
		if (n->seq >= 0 && !room_is_awaited(c, s, end - 1, end))
			break;
	}
	return node;
}

static bool passes(const struct stream *s, int32_t pos, int32_t stop)
{
	return s->n_cached < stop && stop <= pos;
}

/* A state is kept where the whole blocks of what a stream knows end, and where others are known to have gone another
 * way or wait for it: the next of them begins there. */
static bool beyond_state(const struct core *c, const struct stream *s, int32_t pos)
{
	const int32_t size = c->lim.block_size;

	return passes(s, pos, s->rest->fork_at) || passes(s, pos, (s->n_known - 1) / size * size) ||
			room_is_awaited(c, s, s->n_cached, pos);
}

/* ---- All of them ---- */

const struct policy *policy_of(const struct core_limits *lim)
{
	static const struct policy blocks = {.trades = true, .trim = trim_blocks, .copy = copy_blocks,
			.run = run_entries};
	static const struct policy window = {.trades = true, .keeps_last = true, .trim = trim_blocks,
			.copy = copy_blocks, .too_far = beyond_window, .run = run_entries};
	static const struct policy states = {.states = true, .trim = trim_states, .copy = copy_state,
			.id_to_take = last_state, .too_far = beyond_state, .run = run_entries};
	static const struct policy texts = {.whole_texts = true, .trim = trim_blocks, .copy = copy_blocks,
			.run = run_texts};

	return lim->encoder ? &texts : lim->recurrent ? &states : lim->n_window ? &window : &blocks;
}
