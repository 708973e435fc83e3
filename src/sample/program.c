/* Programs: making nodes, and what is worked out once all rules are there.
 *
 * Invariants
 *  1. A piece is the nodes from its first one to the last made so far; nothing outside leads into it but through its
 *     start, nothing inside leads out but through its end.
 *  2. `like` of `like` is `like`. */
#include "sample/program.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "sample/lexicon.h"

#include <string.h>

void program_release(struct program *p)
{
	mem_free(p->nodes);
	mem_free(p->rules);
	mem_free(p->nexts);
	mem_free(p->first);
	*p = (struct program){0};
}

int32_t program_node(struct program *p, struct program_node n)
{
	if (p->n_nodes >= PROGRAM_NODES_MAX ||
			!mem_grow((void **)&p->nodes, &p->n_nodes_max, p->n_nodes + 1, sizeof n))
		return -1;
	n.like = (int32_t)p->n_nodes;
	p->nodes[p->n_nodes] = n;
	return (int32_t)p->n_nodes++;
}

int32_t program_rule(struct program *p, const char *name, size_t n, size_t at)
{
	if (p->n_rules >= PROGRAM_RULES_MAX ||
			!mem_grow((void **)&p->rules, &p->n_rules_max, p->n_rules + 1, sizeof *p->rules))
		return -1;
	p->rules[p->n_rules] = (struct program_rule){.name = name, .n_name = n, .at = at, .start = -1};
	return (int32_t)p->n_rules++;
}

static int32_t add_jump(struct program *p, int32_t out)
{
	return program_node(p, (struct program_node){.kind = G_JUMP, .out = out});
}

/* ---- Characters ---- */

bool program_bytes(struct program *p, const char *bytes, size_t n, struct piece *out)
{
	int32_t at = add_jump(p, -1);

	*out = (struct piece){at, at, at};
	for (size_t i = 0; i < n && at >= 0; i++) {
		const uint8_t b = (uint8_t)bytes[i];
		const int32_t r = program_node(p, (struct program_node){.kind = G_RANGE, .lo = b, .hi = b});
		const int32_t end = r < 0 ? -1 : add_jump(p, -1);
		if (end >= 0) {
			p->nodes[at].out = r;
			p->nodes[r].out = end;
		}
		out->end = at = end;
	}
	return at >= 0;
}

/* One more way from the piece's start to its end: bytes lo[i]..hi[i], one after the other. */
static bool add_way(struct program *p, struct piece *x, const uint8_t *lo, const uint8_t *hi, size_t n)
{
	int32_t next = x->end;
	for (size_t i = n; i-- > 0;) {
		next = program_node(p, (struct program_node){.kind = G_RANGE, .lo = lo[i], .hi = hi[i], .out = next});
		if (next < 0)
			return false;
	}
	x->start = program_node(p, (struct program_node){.kind = G_SPLIT, .out = next, .arg = x->start});
	return x->start >= 0;
}

/* Code points lo..hi, cut until the bytes of both ends differ in one stretch only. */
static bool add_points(struct program *p, struct piece *x, uint32_t lo, uint32_t hi)
{
	static const uint32_t tops[] = {0x7f, 0x7ff, 0xd7ff, 0xdfff, 0xffff};

	for (int i = 0; i < 5; i++)
		if (lo <= tops[i] && hi > tops[i])
			return add_points(p, x, lo, tops[i]) && add_points(p, x, tops[i] + 1, hi);
	if (lo >= 0xd800 && hi <= 0xdfff)
		return true;
	const int n = hi <= 0x7f ? 1 : hi <= 0x7ff ? 2 : hi <= 0xffff ? 3 : 4;
	for (int i = 1; i < n; i++) {
		const uint32_t low = (1u << 6 * i) - 1;
		if ((lo & ~low) == (hi & ~low))
			continue;
		if (lo & low)
			return add_points(p, x, lo, lo | low) && add_points(p, x, (lo | low) + 1, hi);
		if ((hi & low) != low)
			return add_points(p, x, lo, (hi & ~low) - 1) && add_points(p, x, hi & ~low, hi);
	}
	char a[4], b[4];
	utf8_encode(lo, a);
	utf8_encode(hi, b);
	return add_way(p, x, (const uint8_t *)a, (const uint8_t *)b, (size_t)n);
}

bool program_utf8(struct program *p, const uint32_t (*ranges)[2], size_t n, struct piece *out)
{
	const int32_t end = add_jump(p, -1);
	const int32_t none = end < 0 ? -1 : program_node(p, (struct program_node){.kind = G_FAIL, .out = -1});

	*out = (struct piece){end, none, end};
	if (none < 0)
		return false;
	for (size_t i = n; i-- > 0;)
		if (!add_points(p, out, ranges[i][0], ranges[i][1]))
			return false;
	return true;
}

/* ---- Repetition ---- */

/* More nodes than this are made a rule of their own before they are repeated. */
enum { COPIED_MAX = 16 };

static bool to_rule(struct program *p, struct piece *x)
{
	const int32_t rule = program_rule(p, NULL, 0, 0);
	const int32_t end =
			rule < 0 ? -1 : program_node(p, (struct program_node){.kind = G_END, .out = -1, .arg = rule});
	if (end < 0)
		return false;
	p->nodes[x->end].out = end;
	p->rules[rule].start = x->start;
	x->start = x->first = program_node(p, (struct program_node){.kind = G_CALL, .arg = rule});
	x->end = x->start < 0 ? -1 : add_jump(p, -1);
	if (x->end < 0)
		return false;
	p->nodes[x->start].out = x->end;
	return true;
}

/* The class of copy i: how many more must and may come, as far as a short text can tell. */
static int64_t left_class(int64_t min, int64_t max, int64_t i)
{
	const int64_t most = LEXICON_SHORT + 1, must = min - i, may = max < 0 ? most : max - i;
	return (must < 0 ? 0 : must < most ? must : most) * (most + 1) + (may < most ? may : most);
}

/* Copies the n nodes from x->first to the end of the program, and makes them like copy `like`, which begins there. */
static bool copy_piece(struct program *p, const struct piece *x, int32_t n, int32_t like, struct piece *out)
{
	const int32_t by = (int32_t)p->n_nodes - x->first;

	for (int32_t i = x->first; i < x->first + n; i++) {
		struct program_node c = p->nodes[i];
		const int32_t l = c.like;
		c.out = c.out >= x->first && c.out < x->first + n ? c.out + by : c.out;
		if (c.kind == G_SPLIT && c.arg >= x->first && c.arg < x->first + n)
			c.arg += by;
		const int32_t at = program_node(p, c);
		if (at < 0)
			return false;
		p->nodes[at].like = (like < 0 ? x->first + by : like) + (l - x->first);
	}
	*out = (struct piece){x->first + by, x->start + by, x->end + by};
	return true;
}

bool program_repeat(struct program *p, struct piece *x, int64_t min, int64_t max)
{
	const int64_t n_copies = max < 0 ? (min ? min : 1) : max;

	if ((int64_t)p->n_nodes - x->first > COPIED_MAX && n_copies > 1 && !to_rule(p, x))
		return false;
	const int32_t n = (int32_t)p->n_nodes - x->first, exit = add_jump(p, -1);
	int32_t from = add_jump(p, -1), start = from, like_piece = -1, like_gate = -1;
	int64_t class = -1;
	if (exit < 0 || from < 0)
		return false;
	const struct piece template = *x;
	for (int64_t i = 0; i < n_copies; i++) {
		/* The gate before copy i: in, or past all that is left. */
		struct piece c = template;
		const bool fresh = left_class(min, max, i) != class;
		const int32_t gate =
				program_node(p, (struct program_node){.kind = i < min ? G_JUMP : G_SPLIT, .arg = exit});
		if (gate < 0 || (i > 0 && !copy_piece(p, &template, n, fresh ? -1 : like_piece, &c)))
			return false;
		if (fresh) {
			class = left_class(min, max, i);
			like_piece = c.first;
			like_gate = gate;
		}
		p->nodes[gate].like = like_gate;
		p->nodes[gate].out = c.start;
		p->nodes[from].out = gate;
		from = c.end;
		if (max < 0 && i + 1 == n_copies) { /* and again */
			const int32_t again = min
					? program_node(p,
							  (struct program_node){
									  .kind = G_SPLIT, .out = c.start, .arg = exit})
					: gate;
			if (again < 0)
				return false;
			p->nodes[from].out = again;
			from = -1;
		}
	}
	if (from >= 0)
		p->nodes[from].out = exit;
	if (n_copies == 0) /* nothing leads here, but every node has somewhere to go */
		p->nodes[template.end].out = exit;
	x->start = start;
	x->end = exit;
	return true;
}

/* ---- What nothing read leads to ---- */

struct reach {
	struct program *p;
	int32_t *owner; /* [n_nodes]: the rule at whose start the node can stand, or -1 */
	int32_t *waiting; /* [n_nodes]: next call of the same rule that waits for it to be empty, or -1 */
	int32_t *waiters; /* [n_rules]: first of them */
	uint8_t *empty; /* [n_rules]: the rule can match nothing */
	int32_t *stack; /* [n_nodes] */
	size_t n_stack;
};

static void reach_push(struct reach *r, int32_t node, int32_t rule)
{
	if (r->owner[node] < 0) {
		r->owner[node] = rule;
		r->stack[r->n_stack++] = node;
	}
}

static void reach_run(struct reach *r)
{
	const struct program_node *nodes = r->p->nodes;

	for (size_t i = 0; i < r->p->n_rules; i++)
		reach_push(r, r->p->rules[i].start, (int32_t)i);
	while (r->n_stack > 0) {
		const int32_t at = r->stack[--r->n_stack], rule = r->owner[at];
		const struct program_node *n = &nodes[at];
		switch (n->kind) {
		case G_JUMP: reach_push(r, n->out, rule); break;
		case G_SPLIT:
			reach_push(r, n->out, rule);
			reach_push(r, n->arg, rule);
			break;
		case G_CALL:
			r->waiting[at] = r->waiters[n->arg];
			r->waiters[n->arg] = at;
			if (r->empty[n->arg])
				reach_push(r, n->out, rule);
			break;
		case G_END:
			if (r->empty[rule])
				break;
			r->empty[rule] = 1;
			for (int32_t w = r->waiters[rule]; w >= 0; w = r->waiting[w])
				reach_push(r, nodes[w].out, r->owner[w]);
			break;
		default: break;
		}
	}
}

/* A rule that can begin with itself, or -1. After reach_run a call was reached at its rule's start exactly when it has
 * an owner; edges go from the called rule to the callers, which finds the same circles. */
static int32_t find_circle(struct reach *r)
{
	uint8_t *seen = r->empty; /* 1: on the way, 2: done; no longer needed for what it was */
	int32_t *at = r->stack, *path = r->stack + r->p->n_rules;

	memset(seen, 0, r->p->n_rules);
	for (size_t i = 0; i < r->p->n_rules; i++) {
		size_t depth = 0;
		if (seen[i])
			continue;
		path[depth] = (int32_t)i;
		at[depth++] = r->waiters[i];
		seen[i] = 1;
		while (depth > 0) {
			const int32_t w = at[depth - 1];
			if (w < 0) {
				seen[path[--depth]] = 2;
				continue;
			}
			at[depth - 1] = r->waiting[w];
			const int32_t caller = r->owner[w];
			if (seen[caller] == 1)
				return caller;
			if (seen[caller])
				continue;
			path[depth] = caller;
			at[depth++] = r->waiters[caller];
			seen[caller] = 1;
		}
	}
	return -1;
}

static enum cohort_status refuse_circles(struct program *p, struct cohort_err *err)
{
	struct reach r = {.p = p};
	enum cohort_status st = COHORT_OK;

	r.owner = mem_alloc(p->n_nodes, sizeof *r.owner);
	r.waiting = mem_alloc(p->n_nodes, sizeof *r.waiting);
	r.waiters = mem_alloc(p->n_rules, sizeof *r.waiters);
	r.empty = mem_zalloc(p->n_rules, 1);
	r.stack = mem_alloc(p->n_nodes + 2 * p->n_rules, sizeof *r.stack);
	if (r.owner && r.waiting && r.waiters && r.empty && r.stack) {
		memset(r.owner, 0xff, p->n_nodes * sizeof *r.owner);
		memset(r.waiters, 0xff, p->n_rules * sizeof *r.waiters);
		reach_run(&r);
		int32_t rule = find_circle(&r);
		char show[ERR_SHOW_BYTES];
		if (rule >= 0)
			st = err_at(err, COHORT_E_UNSUPPORTED, p->rules[rule].at,
					"the grammar's rule '%s' can begin with itself (left recursion): write it as a "
					"repetition",
					p->rules[rule].name ? err_show(show, p->rules[rule].name, p->rules[rule].n_name)
							    : "(a repeated group)");
	} else {
		st = err_set(err, COHORT_E_MEMORY, "out of memory for a grammar");
	}
	mem_free(r.owner);
	mem_free(r.waiting);
	mem_free(r.waiters);
	mem_free(r.empty);
	mem_free(r.stack);
	return st;
}

/* ---- What can come to an end ---- */

/* Nodes from which no end of their rule can be reached are cut off: a text never runs into a dead end. */
struct ending {
	struct program *p;
	int32_t *heads, *nexts; /* of lists of the nodes that lead to a node: [n_nodes], [2 n_nodes] */
	int32_t *callers; /* [n_rules]: first call of it; nexts[2 i + 1] is the next one */
	int32_t *rule_at; /* [n_nodes]: the rule that starts here, or -1 (of several, any: they end alike) */
	uint8_t *ends; /* [n_nodes] */
	int32_t *stack;
	size_t n_stack;
};

static void ending_push(struct ending *e, int32_t node)
{
	if (!e->ends[node]) {
		e->ends[node] = 1;
		e->stack[e->n_stack++] = node;
	}
}

static void ending_link(struct ending *e, int32_t to, int32_t edge)
{
	e->nexts[edge] = e->heads[to];
	e->heads[to] = edge;
}

static void ending_run(struct ending *e)
{
	const struct program *p = e->p;

	for (size_t i = 0; i < p->n_rules; i++)
		e->rule_at[p->rules[i].start] = (int32_t)i;
	for (int32_t i = 0; i < (int32_t)p->n_nodes; i++) {
		const struct program_node *n = &p->nodes[i];
		if (n->kind == G_END)
			ending_push(e, i);
		if (n->kind == G_END || n->kind == G_FAIL)
			continue;
		ending_link(e, n->out, 2 * i);
		if (n->kind == G_SPLIT)
			ending_link(e, n->arg, 2 * i + 1);
		if (n->kind == G_CALL) {
			e->nexts[2 * i + 1] = e->callers[n->arg];
			e->callers[n->arg] = i;
		}
	}
	while (e->n_stack > 0) {
		const int32_t at = e->stack[--e->n_stack];
		for (int32_t edge = e->heads[at]; edge >= 0; edge = e->nexts[edge]) {
			const struct program_node *n = &p->nodes[edge / 2];
			if (n->kind != G_CALL || e->ends[p->rules[n->arg].start])
				ending_push(e, edge / 2);
		}
		if (e->rule_at[at] >= 0)
			for (int32_t c = e->callers[e->rule_at[at]]; c >= 0; c = e->nexts[2 * c + 1])
				if (e->ends[p->nodes[c].out])
					ending_push(e, c);
	}
}

static enum cohort_status cut_dead_ends(struct program *p, struct cohort_err *err)
{
	struct ending e = {.p = p};
	const size_t n = p->n_nodes;

	e.heads = mem_alloc(n, sizeof *e.heads);
	e.nexts = mem_alloc(2 * n, sizeof *e.nexts);
	e.callers = mem_alloc(p->n_rules, sizeof *e.callers);
	e.rule_at = mem_alloc(n, sizeof *e.rule_at);
	e.ends = mem_zalloc(n, 1);
	e.stack = mem_alloc(n, sizeof *e.stack);
	const bool ok = e.heads && e.nexts && e.callers && e.rule_at && e.ends && e.stack;
	if (ok) {
		memset(e.heads, 0xff, n * sizeof *e.heads);
		memset(e.callers, 0xff, p->n_rules * sizeof *e.callers);
		memset(e.rule_at, 0xff, n * sizeof *e.rule_at);
		ending_run(&e);
		for (size_t i = 0; i < n; i++)
			if (!e.ends[i])
				p->nodes[i].kind = G_FAIL;
	}
	mem_free(e.heads);
	mem_free(e.nexts);
	mem_free(e.callers);
	mem_free(e.rule_at);
	mem_free(e.ends);
	mem_free(e.stack);
	return ok ? COHORT_OK : err_set(err, COHORT_E_MEMORY, "out of memory for a grammar");
}

/* ---- What can nest ---- */

/* Rules whose calls come to an end are found from the bottom: those that call none, then those that call only such. */
static enum cohort_status find_nesting(struct program *p, struct cohort_err *err)
{
	const size_t n = p->n_nodes;
	int32_t *owner = mem_alloc(n, sizeof *owner), *next = mem_alloc(n, sizeof *next),
		*stack = mem_alloc(n + 1, sizeof *stack);
	int32_t *callers = mem_alloc(p->n_rules, sizeof *callers), *n_calls = mem_zalloc(p->n_rules, sizeof *n_calls);
	size_t n_stack = 0;
	const bool ok = owner && next && stack && callers && n_calls;

	if (ok) {
		memset(owner, 0xff, n * sizeof *owner);
		memset(callers, 0xff, p->n_rules * sizeof *callers);
	}
	for (int32_t r = 0; ok && r < (int32_t)p->n_rules; r++) {
		p->rules[r].nests = true;
		if (owner[p->rules[r].start] < 0) {
			owner[p->rules[r].start] = r;
			stack[n_stack++] = p->rules[r].start;
		}
		while (n_stack > 0) {
			const int32_t at = stack[--n_stack];
			const struct program_node *node = &p->nodes[at];
			if (node->kind == G_CALL) {
				next[at] = callers[node->arg];
				callers[node->arg] = at;
				n_calls[r]++;
			}
			const int32_t to[2] = {node->kind == G_END || node->kind == G_FAIL ? -1 : node->out,
					node->kind == G_SPLIT ? node->arg : -1};
			for (int k = 0; k < 2; k++)
				if (to[k] >= 0 && owner[to[k]] < 0) {
					owner[to[k]] = r;
					stack[n_stack++] = to[k];
				}
		}
	}
	for (int32_t r = 0; ok && r < (int32_t)p->n_rules; r++)
		if (n_calls[r] == 0)
			stack[n_stack++] = r;
	while (n_stack > 0) {
		const int32_t r = stack[--n_stack];
		p->rules[r].nests = false;
		for (int32_t c = callers[r]; c >= 0; c = next[c])
			if (--n_calls[owner[c]] == 0)
				stack[n_stack++] = owner[c];
	}
	mem_free(owner);
	mem_free(next);
	mem_free(stack);
	mem_free(callers);
	mem_free(n_calls);
	return ok ? COHORT_OK : err_set(err, COHORT_E_MEMORY, "out of memory for a grammar");
}

/* ---- Closures ---- */

struct closing {
	struct program *p;
	uint32_t *stamp; /* [n_nodes]: the walk that came by last */
	int32_t *stack; /* [2 n_nodes] */
	uint8_t *wanted; /* [n_nodes]: something leads here after reading, or a rule starts here */
	size_t n_max, n_steps;
};

enum { STEPS_MAX = 1 << 26 };

/* Adds what node i leads to; false: no memory, or too much. */
static bool close_node(struct closing *c, int32_t i, size_t *n)
{
	struct program *p = c->p;
	size_t depth = 0;

	c->stack[depth++] = i;
	while (depth > 0) {
		const int32_t at = c->stack[--depth];
		if (++c->n_steps > STEPS_MAX || *n >= PROGRAM_NEXTS_MAX)
			return false;
		if (c->stamp[at] == (uint32_t)i + 1)
			continue;
		c->stamp[at] = (uint32_t)i + 1;
		const struct program_node *node = &p->nodes[at];
		if (node->kind == G_SPLIT)
			c->stack[depth++] = node->arg;
		if (node->kind == G_SPLIT || node->kind == G_JUMP) {
			c->stack[depth++] = node->out;
		} else if (node->kind != G_FAIL) {
			if (!mem_grow((void **)&p->nexts, &c->n_max, *n + 1, sizeof *p->nexts))
				return false;
			p->nexts[(*n)++] = at;
		}
	}
	return true;
}

static enum cohort_status close_all(struct program *p, struct cohort_err *err)
{
	struct closing c = {.p = p};
	size_t n = 0;

	p->first = mem_alloc(p->n_nodes + 1, sizeof *p->first);
	c.stamp = mem_zalloc(p->n_nodes, sizeof *c.stamp);
	c.stack = mem_alloc(2 * p->n_nodes + 2, sizeof *c.stack);
	c.wanted = mem_zalloc(p->n_nodes, 1);
	bool ok = p->first && c.stamp && c.stack && c.wanted;
	for (size_t i = 0; i < p->n_rules && ok; i++)
		c.wanted[p->rules[i].start] = 1;
	for (size_t i = 0; i < p->n_nodes && ok; i++)
		if (p->nodes[i].kind == G_RANGE || p->nodes[i].kind == G_TOKEN || p->nodes[i].kind == G_CALL)
			c.wanted[p->nodes[i].out] = 1;
	for (size_t i = 0; i < p->n_nodes && ok; i++) {
		p->first[i] = (uint32_t)n;
		if (c.wanted[i])
			ok = close_node(&c, (int32_t)i, &n);
	}
	if (ok)
		p->first[p->n_nodes] = (uint32_t)n;
	mem_free(c.stamp);
	mem_free(c.stack);
	mem_free(c.wanted);
	if (ok)
		return COHORT_OK;
	if (n >= PROGRAM_NEXTS_MAX || c.n_steps > STEPS_MAX)
		return err_set(err, COHORT_E_LIMIT,
				"the grammar is too ambiguous: too many ways to go on from its rules");
	return err_set(err, COHORT_E_MEMORY, "out of memory for a grammar");
}

static void find_classes(struct program *p)
{
	bool cut[257] = {true};

	for (size_t i = 0; i < p->n_nodes; i++)
		if (p->nodes[i].kind == G_RANGE)
			cut[p->nodes[i].lo] = cut[p->nodes[i].hi + 1] = true;
	for (int b = 0; b < 256; b++) {
		if (cut[b])
			p->byte_of[p->n_classes++] = (uint8_t)b;
		p->class_of[b] = (uint8_t)(p->n_classes - 1);
	}
}

enum cohort_status program_finish(struct program *p, struct cohort_err *err)
{
	enum cohort_status st = refuse_circles(p, err);
	if (!st)
		st = cut_dead_ends(p, err);
	if (!st)
		st = find_nesting(p, err);
	if (!st)
		st = close_all(p, err);
	find_classes(p);
	return st;
}
