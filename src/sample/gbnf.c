/* GBNF, the grammar notation of llama.cpp, read into a program.
 *
 *   rule ::= "text" [a-z] [^"\n] . ( group ) | other-rule x* x+ x? x{3} x{3,} x{3,5} <token> <[17]> !<token>   #
 * comment
 *
 * Invariants
 *  1. Every refusal names its place in the text.
 *  2. Recursion is as deep as parentheses are nested, and that is bounded. */
#include "base/err.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "sample/program.h"

#include <stdlib.h>
#include <string.h>

struct parser {
	struct program *p;
	const char *text;
	size_t n, at;
	struct strmap rules;
	uint32_t (*ranges)[2]; /* of a class being read */
	size_t n_ranges, n_ranges_max;
	char *bytes; /* of a literal being read */
	size_t n_bytes_max;
	int nesting;
	int32_t n_vocab;
	cohort_token (*token)(void *arg, const char *bytes, size_t n);
	void *token_arg;
	struct cohort_err *err;
	enum cohort_status st;
};

/* ---- Refusals: set the status once and return false ---- */

static bool refuse(struct parser *s, size_t at, const char *what)
{
	if (s->st)
		return false;
	size_t line = 1, from = 0;
	for (size_t i = 0; i < at; i++)
		if (s->text[i] == '\n') {
			line++;
			from = i + 1;
		}
	s->st = err_at(s->err, COHORT_E_FORMAT, at, "grammar, line %zu, column %zu: %s", line, at - from + 1, what);
	return false;
}

/* A node or rule could not be had. */
static bool full(struct parser *s)
{
	if (s->st)
		return false;
	if (s->p->n_nodes >= PROGRAM_NODES_MAX || s->p->n_rules >= PROGRAM_RULES_MAX)
		s->st = err_at(s->err, COHORT_E_LIMIT, s->at,
				"the grammar is too large: more than %d nodes or %d rules", PROGRAM_NODES_MAX,
				PROGRAM_RULES_MAX);
	else
		s->st = err_set(s->err, COHORT_E_MEMORY, "out of memory for a grammar");
	return false;
}

/* ---- Characters ---- */

static int peek(const struct parser *s)
{
	return s->at < s->n ? (unsigned char)s->text[s->at] : -1;
}

static bool is_word(int c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

/* Past spaces and comments; past line ends too, when they do not end the rule. */
static void skip_space(struct parser *s, bool lines)
{
	for (; s->at < s->n; s->at++) {
		const int c = peek(s);
		if (c == '#') {
			while (s->at < s->n && peek(s) != '\n')
				s->at++;
			if (s->at == s->n)
				return;
			if (!lines)
				return;
		} else if (!(c == ' ' || c == '\t' || c == '\r' || (lines && c == '\n'))) {
			return;
		}
	}
}

static bool read_hex(struct parser *s, int n_digits, uint32_t *cp)
{
	const size_t from = s->at - 2;
	uint32_t v = 0;
	for (int i = 0; i < n_digits; i++, s->at++) {
		const int d = hex_digit(peek(s));
		if (d < 0)
			return refuse(s, from,
					"an escape needs two (\\x), four (\\u) or eight (\\U) hexadecimal digits");
		v = v << 4 | (uint32_t)d;
	}
	if (v > 0x10ffff || (v >= 0xd800 && v < 0xe000))
		return refuse(s, from, "the escape names no character");
	*cp = v;
	return true;
}

/* One character of a literal or class, escapes undone. */
static bool read_char(struct parser *s, uint32_t *cp)
{
	const size_t from = s->at;
	if (peek(s) != '\\') {
		const size_t n = utf8_decode(s->text + s->at, s->n - s->at, cp);
		if (n == 0)
			return refuse(s, from, s->at < s->n ? "not valid UTF-8" : "the text ends here");
		s->at += n;
		return true;
	}
	s->at++;
	const int c = peek(s);
	s->at++;
	switch (c) {
	case 'x': return read_hex(s, 2, cp);
	case 'u': return read_hex(s, 4, cp);
	case 'U': return read_hex(s, 8, cp);
	case 't': *cp = '\t'; return true;
	case 'r': *cp = '\r'; return true;
	case 'n': *cp = '\n'; return true;
	case '\\':
	case '"':
	case '[':
	case ']':
	case '-':
	case '^': *cp = (uint32_t)c; return true;
	default: s->at = from; return refuse(s, from, "an unknown escape");
	}
}

/* ---- Elements ---- */

static bool read_literal(struct parser *s, struct piece *out)
{
	const size_t from = s->at++;
	size_t n = 0;

	while (peek(s) != '"') {
		uint32_t cp;
		if (s->at >= s->n)
			return refuse(s, from, "a literal that does not end");
		if (!read_char(s, &cp))
			return false;
		if (!mem_grow((void **)&s->bytes, &s->n_bytes_max, n + 4, 1))
			return full(s);
		n += utf8_encode(cp, s->bytes + n);
	}
	s->at++;
	return program_bytes(s->p, s->bytes, n, out) || full(s);
}

static bool add_range(struct parser *s, uint32_t lo, uint32_t hi)
{
	if (!mem_grow((void **)&s->ranges, &s->n_ranges_max, s->n_ranges + 1, sizeof *s->ranges))
		return full(s);
	s->ranges[s->n_ranges][0] = lo;
	s->ranges[s->n_ranges++][1] = hi;
	return true;
}

static int by_start(const void *pa, const void *pb)
{
	const uint32_t *a = pa, *b = pb;
	return a[0] < b[0] ? -1 : a[0] > b[0];
}

/* Sorted, without overlaps. */
static void tidy(struct parser *s)
{
	size_t n = 0;
	if (s->n_ranges > 1)
		qsort(s->ranges, s->n_ranges, sizeof *s->ranges, by_start);
	for (size_t i = 0; i < s->n_ranges; i++)
		if (n > 0 && s->ranges[i][0] <= s->ranges[n - 1][1] + 1) {
			if (s->ranges[i][1] > s->ranges[n - 1][1])
				s->ranges[n - 1][1] = s->ranges[i][1];
		} else {
			s->ranges[n][0] = s->ranges[i][0];
			s->ranges[n++][1] = s->ranges[i][1];
		}
	s->n_ranges = n;
}

static bool complement(struct parser *s)
{
	uint32_t next = 0;
	const size_t n = s->n_ranges;
	size_t kept = 0;

	/* In place: what lies before range i is written where at most i ranges are done with. */
	if (!add_range(s, 0, 0))
		return false;
	for (size_t i = 0; i < n; i++) {
		const uint32_t lo = s->ranges[i][0], hi = s->ranges[i][1];
		if (lo > next) {
			s->ranges[kept][0] = next;
			s->ranges[kept++][1] = lo - 1;
		}
		next = hi + 1;
	}
	if (next <= 0x10ffff) {
		s->ranges[kept][0] = next;
		s->ranges[kept++][1] = 0x10ffff;
	}
	s->n_ranges = kept;
	return true;
}

static bool read_class(struct parser *s, struct piece *out)
{
	const size_t from = s->at++;
	const bool negated = peek(s) == '^';

	s->at += negated;
	s->n_ranges = 0;
	while (peek(s) != ']') {
		uint32_t lo, hi;
		const size_t at = s->at;
		if (s->at >= s->n)
			return refuse(s, from, "a class without its ]");
		if (!read_char(s, &lo))
			return false;
		hi = lo;
		if (peek(s) == '-' && s->at + 1 < s->n && s->text[s->at + 1] != ']') {
			s->at++;
			if (!read_char(s, &hi))
				return false;
			if (hi < lo)
				return refuse(s, at, "a range that runs backwards");
		}
		if (!add_range(s, lo, hi))
			return false;
	}
	s->at++;
	tidy(s);
	if (negated && !complement(s))
		return false;
	return program_utf8(s->p, (const uint32_t(*)[2])s->ranges, s->n_ranges, out) || full(s);
}

static bool read_number(struct parser *s, int64_t *v)
{
	const size_t from = s->at;
	*v = 0;
	while (peek(s) >= '0' && peek(s) <= '9') {
		*v = 10 * *v + (peek(s) - '0');
		s->at++;
		if (*v > INT32_MAX)
			return refuse(s, from, "the number is too large");
	}
	return s->at > from || refuse(s, from, "expected a number");
}

/* One node and the way out of it. */
static bool one_node(struct parser *s, struct program_node n, struct piece *out)
{
	out->first = out->start = program_node(s->p, n);
	out->end = out->start < 0 ? -1 : program_node(s->p, (struct program_node){.kind = G_JUMP, .out = -1});
	if (out->end < 0)
		return full(s);
	s->p->nodes[out->start].out = out->end;
	return true;
}

static bool read_token(struct parser *s, struct piece *out)
{
	const size_t from = s->at;
	const bool negated = peek(s) == '!';
	int64_t id;

	s->at += negated;
	if (peek(s) != '<')
		return refuse(s, from, "expected <token> after !");
	s->at++;
	if (peek(s) == '[') {
		s->at++;
		if (!read_number(s, &id))
			return false;
		if (peek(s) != ']' || s->at + 1 >= s->n || s->text[s->at + 1] != '>')
			return refuse(s, from, "a token by number is written <[17]>");
		s->at += 2;
		if (id >= s->n_vocab)
			return refuse(s, from, "the vocabulary has no token of this number");
	} else {
		while (s->at < s->n && peek(s) != '>' && peek(s) != '\n')
			s->at++;
		if (peek(s) != '>')
			return refuse(s, from, "a token without its >");
		s->at++;
		const size_t begin = from + negated;
		id = s->token ? s->token(s->token_arg, s->text + begin, s->at - begin) : -1;
		if (id < -1)
			return full(s);
		if (id < 0)
			return refuse(s, from, "the vocabulary has no token of exactly this text");
	}
	return one_node(s, (struct program_node){.kind = G_TOKEN, .negated = negated, .arg = (int32_t)id}, out);
}

static bool find_rule(struct parser *s, const char *name, size_t n, size_t at, int32_t *out)
{
	bool was_there;
	*out = strmap_find(&s->rules, name, n, -1);
	if (*out >= 0)
		return true;
	*out = program_rule(s->p, name, n, at);
	return (*out >= 0 && strmap_add(&s->rules, name, n, *out, &was_there)) || full(s);
}

static size_t read_name(struct parser *s)
{
	const size_t from = s->at;
	while (is_word(peek(s)))
		s->at++;
	return s->at - from;
}

static bool read_alternates(struct parser *s, bool nested, struct piece *out);

static bool read_element(struct parser *s, struct piece *out)
{
	static const uint32_t any[1][2] = {{0, 0x10ffff}};
	const size_t from = s->at;
	int32_t rule;

	switch (peek(s)) {
	case '"': return read_literal(s, out);
	case '[': return read_class(s, out);
	case '<':
	case '!': return read_token(s, out);
	case '.': s->at++; return program_utf8(s->p, any, 1, out) || full(s);
	case '(':
		s->at++;
		if (++s->nesting > PROGRAM_NESTING_MAX)
			return refuse(s, from, "parentheses are nested too deep");
		if (!read_alternates(s, true, out))
			return false;
		s->nesting--;
		if (peek(s) != ')')
			return refuse(s, s->at < s->n ? s->at : from,
					s->at < s->n ? "expected )" : "a parenthesis without its )");
		s->at++;
		return true;
	default: {
		const size_t n = read_name(s);
		if (n == 0)
			return refuse(s, from, "expected a literal, a class, a rule's name or a parenthesis");
		return find_rule(s, s->text + from, n, from, &rule) &&
				one_node(s, (struct program_node){.kind = G_CALL, .arg = rule}, out);
	}
	}
}

/* *, +, ?, {m}, {m,}, {m,n} behind x. */
static bool read_repetition(struct parser *s, struct piece *x)
{
	const size_t from = s->at;
	int64_t min = 0, max = -1;

	switch (peek(s)) {
	case '*': s->at++; break;
	case '+':
		s->at++;
		min = 1;
		break;
	case '?':
		s->at++;
		max = 1;
		break;
	case '{':
		s->at++;
		skip_space(s, false);
		if (peek(s) != ',' && !read_number(s, &min))
			return false;
		skip_space(s, false);
		max = min;
		if (peek(s) == ',') {
			s->at++;
			skip_space(s, false);
			max = -1;
			if (peek(s) != '}' && !read_number(s, &max))
				return false;
			skip_space(s, false);
		}
		if (peek(s) != '}')
			return refuse(s, s->at < s->n ? s->at : from, "expected } after a repetition");
		s->at++;
		if (max >= 0 && max < min)
			return refuse(s, from, "a repetition whose most is below its least");
		if (min > PROGRAM_REPEAT_MAX || max > PROGRAM_REPEAT_MAX)
			return refuse(s, from, "more than 100,000 repetitions");
		break;
	default: break;
	}
	return program_repeat(s->p, x, min, max) || full(s);
}

/* x y z: at least an empty piece. */
static bool read_sequence(struct parser *s, bool nested, struct piece *out)
{
	out->first = out->start = out->end = program_node(s->p, (struct program_node){.kind = G_JUMP, .out = -1});
	if (out->start < 0)
		return full(s);
	for (;;) {
		struct piece x;
		const int c = peek(s);
		if (c < 0 || c == '|' || c == ')' || c == '\n' || c == '#')
			return true;
		if (!read_element(s, &x))
			return false;
		skip_space(s, nested);
		while (peek(s) > 0 && strchr("*+?{", peek(s))) { /* one may follow another: x?* is x* */
			if (!read_repetition(s, &x))
				return false;
			skip_space(s, nested);
		}
		s->p->nodes[out->end].out = x.start;
		out->end = x.end;
	}
}

static bool read_alternates(struct parser *s, bool nested, struct piece *out)
{
	skip_space(s, true);
	if (!read_sequence(s, nested, out))
		return false;
	while (peek(s) == '|') {
		struct piece y;
		s->at++;
		skip_space(s, true);
		if (!read_sequence(s, nested, &y))
			return false;
		const int32_t fork = program_node(
				s->p, (struct program_node){.kind = G_SPLIT, .out = out->start, .arg = y.start});
		if (fork < 0)
			return full(s);
		s->p->nodes[out->end].out = y.end;
		out->start = fork;
		out->end = y.end;
	}
	return true;
}

static bool read_rule(struct parser *s)
{
	const size_t from = s->at, n = read_name(s);
	int32_t rule;
	struct piece x;

	if (n == 0)
		return refuse(s, from, "expected the name of a rule");
	if (!find_rule(s, s->text + from, n, from, &rule))
		return false;
	if (s->p->rules[rule].start >= 0)
		return refuse(s, from, "this rule is defined already");
	skip_space(s, false);
	if (s->n - s->at < 3 || memcmp(s->text + s->at, "::=", 3) != 0)
		return refuse(s, s->at, "expected ::= after a rule's name");
	s->at += 3;
	if (!read_alternates(s, false, &x))
		return false;
	const int32_t end = program_node(s->p, (struct program_node){.kind = G_END, .out = -1, .arg = rule});
	if (end < 0)
		return full(s);
	s->p->nodes[x.end].out = end;
	s->p->rules[rule].start = x.start;
	if (s->at < s->n && peek(s) != '\n' && peek(s) != '#')
		return refuse(s, s->at, peek(s) == ')' ? "a ) without its (" : "expected the end of the rule");
	return true;
}

static bool read_all(struct parser *s, const char *root)
{
	for (skip_space(s, true); s->at < s->n; skip_space(s, true))
		if (!read_rule(s))
			return false;
	for (size_t i = 0; i < s->p->n_rules; i++)
		if (s->p->rules[i].start < 0)
			return refuse(s, s->p->rules[i].at, "a rule of this name is not defined");
	s->p->root = strmap_find(&s->rules, root, strlen(root), -1);
	if (s->p->root >= 0)
		return true;
	char show[ERR_SHOW_BYTES];
	s->st = err_set(s->err, COHORT_E_FORMAT, "the grammar has no rule named '%s'",
			err_show(show, root, strlen(root)));
	return false;
}

enum cohort_status program_init(struct program *p, const char *text, size_t n_bytes, const char *root, int32_t n_vocab,
		cohort_token (*token)(void *arg, const char *bytes, size_t n), void *arg, struct cohort_err *err)
{
	struct parser s = {.p = p,
			.text = text,
			.n = n_bytes,
			.n_vocab = n_vocab,
			.token = token,
			.token_arg = arg,
			.err = err};

	*p = (struct program){0};
	if (n_bytes > PROGRAM_TEXT_MAX)
		return err_set(err, COHORT_E_LIMIT, "a grammar of %zu bytes; at most %d", n_bytes, PROGRAM_TEXT_MAX);
	if (!strmap_init(&s.rules, 16))
		return err_set(err, COHORT_E_MEMORY, "out of memory for a grammar");
	if (read_all(&s, root))
		s.st = program_finish(p, err);
	strmap_release(&s.rules);
	mem_free(s.ranges);
	mem_free(s.bytes);
	if (s.st)
		program_release(p);
	return s.st;
}
