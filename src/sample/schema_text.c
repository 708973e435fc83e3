/* What JSON strings and integers look like in GBNF: common rules, formats, ranges, patterns.
 *
 * Invariants
 *  1. Every string that the rules match is one that JSON parsers take: no lone surrogates, no NUL.
 *  2. A pattern is about the characters a string stands for; the rules made of it are about how JSON writes them.
 *  3. Recursion is as deep as groups are nested, and that is bounded. */
#include "base/mem.h"
#include "base/utf8.h"
#include "sample/schema.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { TEXT_MAX = 4 << 20 };

/* ---- Texts ---- */

void text_bytes(struct text *t, const char *p, size_t n)
{
	if (!t->b.failed && t->b.n + n + 1 > TEXT_MAX)
		t->b.failed = t->too_large = true;
	bytes_add(&t->b, p, n);
}

void text_add(struct text *t, const char *fmt, ...)
{
	char buf[512];
	va_list ap;

	va_start(ap, fmt);
	const int n = vsnprintf(buf, sizeof buf, fmt, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= sizeof buf)
		t->b.failed = t->too_large = true;
	else
		text_bytes(t, buf, (size_t)n);
}

void text_literal(struct text *t, const char *p, size_t n)
{
	text_bytes(t, "\"", 1);
	for (size_t i = 0; i < n; i++) {
		const unsigned char c = (unsigned char)p[i];
		if (c == '"' || c == '\\')
			text_add(t, "\\%c", c);
		else if (c < 0x20 || c == 0x7f)
			text_add(t, "\\x%02x", c);
		else
			text_bytes(t, p + i, 1);
	}
	text_bytes(t, "\"", 1);
}

/* ---- Common rules ---- */

const char schema_common[] =
		"space ::= \" \"?\n"
		"hex ::= [0-9a-fA-F]\n"
		"plain ::= [^\"\\\\\\x7f\\x00-\\x1f]\n"
		"escape ::= \"\\\\\" ([\"\\\\/bfnrt] | \"u\" ([1-9abcefABCEF] hex{3} | \"0\" [1-9a-fA-F] hex{2} | "
		"\"00\" [1-9a-fA-F] hex"
		" | \"000\" [1-9a-fA-F] | [dD] [0-7] hex{2} | [dD] [89abAB] hex{2} \"\\\\u\" [dD] [c-fC-F] hex{2}))\n"
		"char ::= plain | escape\n"
		"string ::= \"\\\"\" char* \"\\\"\"\n"
		"integer ::= \"-\"? (\"0\" | [1-9] [0-9]{0,15})\n"
		"fraction ::= (\".\" [0-9]{1,16})? ([eE] [-+]? [0-9]{1,2})?\n"
		"number ::= integer fraction\n"
		"boolean ::= \"true\" | \"false\"\n"
		"null ::= \"null\"\n"
		"array ::= \"[\" space (value (space \",\" space value)* space)? \"]\"\n"
		"pair ::= string space \":\" space value\n"
		"object ::= \"{\" space (pair (space \",\" space pair)* space)? \"}\"\n"
		"value ::= object | array | string | number | boolean | null\n"
		"leap-year ::= ([02468] [048] | [13579] [26]) \"00\" | [0-9] [0-9] ([02468] [48] | [2468] \"0\" | ["
		"13579] [26])\n"
		"date ::= [0-9]{4} \"-\" ((\"0\" [13578] | \"1\" [02]) \"-\" (\"0\" [1-9] | [12] [0-9] | \"3\" [01])"
		" | (\"0\" [469] | \"11\") \"-\" (\"0\" [1-9] | [12] [0-9] | \"30\") | \"02-\" (\"0\" [1-9] | \"1\" ["
		"0-9] | \"2\" [0-8]))"
		" | leap-year \"-02-29\"\n"
		"hour ::= [01] [0-9] | \"2\" [0-3]\n"
		"time ::= hour \":\" [0-5] [0-9] \":\" [0-5] [0-9] (\".\" [0-9]{1,9})? (\"Z\" | [-+] hour \":\" ["
		"0-5] [0-9])\n"
		"date-time ::= date \"T\" time\n"
		"uuid ::= hex{8} \"-\" hex{4} \"-\" hex{4} \"-\" hex{4} \"-\" hex{12}\n"
		"octet ::= [0-9] | [1-9] [0-9] | \"1\" [0-9]{2} | \"2\" [0-4] [0-9] | \"25\" [0-5]\n"
		"ipv4 ::= octet \".\" octet \".\" octet \".\" octet\n";

const char *schema_format(const char *name)
{
	static const char *const known[] = {"date", "time", "date-time", "uuid", "ipv4"};
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (strcmp(name, known[i]) == 0)
			return known[i];
	return NULL;
}

/* ---- Integers ---- */

/* All of n digits from a to b, leading zeros included. */
static void digits(struct text *t, uint64_t a, uint64_t b, int n)
{
	uint64_t p = 1;
	for (int i = 1; i < n; i++)
		p *= 10;
	uint64_t first = a / p, last = b / p;
	bool more = false;

	if (first == last) {
		text_add(t, "\"%d\"", (int)first);
		if (n > 1) {
			text_add(t, " ");
			digits(t, a % p, b % p, n - 1);
		}
		return;
	}
	text_add(t, "(");
	if (a % p != 0) {
		text_add(t, "\"%d\" ", (int)first++);
		digits(t, a % p, p - 1, n - 1);
		more = true;
	}
	const bool cut = b % p != p - 1;
	if (first + cut <= last) {
		text_add(t, "%s[%d-%d]", more ? " | " : "", (int)first, (int)(last - cut));
		if (n > 1)
			text_add(t, " [0-9]{%d}", n - 1);
		more = true;
	}
	if (cut) {
		text_add(t, "%s\"%d\" ", more ? " | " : "", (int)last);
		digits(t, 0, b % p, n - 1);
	}
	text_add(t, ")");
}

/* 0 <= lo <= hi */
static void naturals(struct text *t, uint64_t lo, uint64_t hi)
{
	uint64_t top = 9; /* the largest of n digits */
	for (int n = 1;; n++, top = 10 * top + 9) {
		const uint64_t a = n > 1 && lo <= top / 10 ? top / 10 + 1 : lo, b = hi < top ? hi : top;
		if (a <= b && lo <= top) {
			digits(t, a, b, n);
			if (hi > top)
				text_add(t, " | ");
		}
		if (hi <= top)
			return;
	}
}

void schema_integers(struct text *t, int64_t lo, int64_t hi)
{
	text_add(t, "(");
	if (lo < 0) {
		text_add(t, "\"-\" (");
		naturals(t, hi < 0 ? ~(uint64_t)hi + 1 : 1, ~(uint64_t)lo + 1);
		text_add(t, ")%s", hi < 0 ? "" : " | ");
	}
	if (hi >= 0)
		naturals(t, lo < 0 ? 0 : (uint64_t)lo, (uint64_t)hi);
	text_add(t, ")");
}

/* ---- Patterns ---- */

enum { GROUPS_MAX = 64, SET_MAX = 256, REPEAT_MAX = 10000 };

struct set {
	uint32_t r[SET_MAX][2];
	size_t n;
	bool full;
};

struct pattern {
	const char *p;
	size_t n, at;
	int nesting;
	struct text *t;
	struct cohort_err *err;
	enum cohort_status st;
};

static bool refuse(struct pattern *s, enum cohort_status st, const char *what)
{
	if (!s->st) {
		char show[ERR_SHOW_BYTES];
		s->st = err_set(s->err, st, "pattern '%s', byte %zu: %s", err_show(show, s->p, s->n), s->at, what);
	}
	return false;
}

static int peek(const struct pattern *s)
{
	return s->at < s->n ? (unsigned char)s->p[s->at] : -1;
}

static void set_add(struct set *x, uint32_t lo, uint32_t hi)
{
	if (x->n == SET_MAX) {
		x->full = true;
		return;
	}
	x->r[x->n][0] = lo;
	x->r[x->n++][1] = hi;
}

/* Everything else. */
static void set_invert(struct set *x)
{
	struct set y = {.full = x->full};
	uint32_t next = 0;

	for (;;) { /* the range that begins first from `next` on, or holds it */
		uint32_t lo = 0x110000, hi = 0;
		for (size_t i = 0; i < x->n; i++)
			if (x->r[i][1] >= next && (x->r[i][0] < lo || (x->r[i][0] == lo && x->r[i][1] > hi))) {
				lo = x->r[i][0];
				hi = x->r[i][1];
			}
		if (lo > next)
			set_add(&y, next, lo < 0x110000 ? lo - 1 : 0x10ffff);
		if (lo >= 0x10ffff || hi >= 0x10ffff)
			break;
		next = hi + 1;
	}
	*x = y;
}

static bool set_has(const struct set *x, uint32_t c)
{
	for (size_t i = 0; i < x->n; i++)
		if (c >= x->r[i][0] && c <= x->r[i][1])
			return true;
	return false;
}

/* \d \w \s and their opposites; false: another letter. */
static bool set_named(struct set *x, int letter)
{
	struct set y = {.n = 0};
	switch (letter) {
	case 'd':
	case 'D': set_add(&y, '0', '9'); break;
	case 'w':
	case 'W':
		set_add(&y, 'a', 'z');
		set_add(&y, 'A', 'Z');
		set_add(&y, '0', '9');
		set_add(&y, '_', '_');
		break;
	case 's':
	case 'S': {
		static const uint32_t spaces[][2] = {{9, 13}, {32, 32}, {0xa0, 0xa0}, {0x1680, 0x1680},
				{0x2000, 0x200a}, {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f},
				{0x3000, 0x3000}, {0xfeff, 0xfeff}};
		for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++)
			set_add(&y, spaces[i][0], spaces[i][1]);
		break;
	}
	default: return false;
	}
	if (letter < 'a')
		set_invert(&y);
	for (size_t i = 0; i < y.n; i++)
		set_add(x, y.r[i][0], y.r[i][1]);
	return true;
}

/* Characters of the set as JSON writes them in a string. */
static void emit_set(struct text *t, const struct set *x)
{
	static const char escapes[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";

	text_add(t, "([");
	for (size_t i = 0; i < x->n; i++) {
		/* Around the quote, the backslash and the control characters. */
		static const uint32_t plain[][2] = {
				{0x20, 0x21}, {0x23, 0x5b}, {0x5d, 0x7e}, {0x80, 0xd7ff}, {0xe000, 0x10ffff}};
		for (size_t k = 0; k < 5; k++) {
			const uint32_t lo = x->r[i][0] > plain[k][0] ? x->r[i][0] : plain[k][0];
			const uint32_t hi = x->r[i][1] < plain[k][1] ? x->r[i][1] : plain[k][1];
			if (lo <= hi)
				text_add(t, "\\U%08x-\\U%08x", (unsigned)lo, (unsigned)hi);
		}
	}
	text_add(t, "]");
	for (uint32_t c = 1; c < 0x80; c++) {
		if (!set_has(x, c))
			continue;
		const char *e = strchr(escapes, (int)c);
		if (e)
			text_add(t, " | \"\\\\%s%c\"", strchr("\"\\", letters[e - escapes]) ? "\\" : "",
					letters[e - escapes]);
		else if (c < 0x20 || c == 0x7f)
			text_add(t, " | \"\\\\u00%02x\"", (unsigned)c);
	}
	text_add(t, ")");
}

static int hex_value(struct pattern *s, int n, uint32_t *c)
{
	*c = 0;
	for (int i = 0; i < n; i++, s->at++) {
		const int d = hex_digit(peek(s));
		if (d < 0)
			return refuse(s, COHORT_E_FORMAT, "expected a hexadecimal digit");
		*c = *c << 4 | (uint32_t)d;
	}
	return true;
}

/* After \\u: a character, which may take two of them. */
static bool read_utf16(struct pattern *s, uint32_t *c)
{
	uint32_t low = 0;
	if (!hex_value(s, 4, c))
		return false;
	if (*c < 0xd800 || *c > 0xdfff)
		return true;
	const bool pair = *c < 0xdc00 && s->n - s->at >= 6 && s->p[s->at] == '\\' && s->p[s->at + 1] == 'u';
	if (pair) {
		s->at += 2;
		if (!hex_value(s, 4, &low))
			return false;
	}
	if (low < 0xdc00 || low > 0xdfff)
		return refuse(s, COHORT_E_UNSUPPORTED, "half of a surrogate pair");
	*c = 0x10000 + ((*c - 0xd800) << 10) + (low - 0xdc00);
	return true;
}

/* After a backslash: one character into *c, or a named set into x (then *c is UINT32_MAX). */
static bool read_escape(struct pattern *s, struct set *x, uint32_t *c)
{
	const int e = peek(s);
	if (e < 0)
		return refuse(s, COHORT_E_FORMAT, "a backslash at the end");
	s->at++;
	*c = UINT32_MAX;
	if (set_named(x, e))
		return true;
	switch (e) {
	case 'n': *c = '\n'; return true;
	case 'r': *c = '\r'; return true;
	case 't': *c = '\t'; return true;
	case 'f': *c = '\f'; return true;
	case 'v': *c = '\v'; return true;
	case 'x': return hex_value(s, 2, c);
	case 'u': return read_utf16(s, c);
	default: break;
	}
	if ((e >= 'a' && e <= 'z') || (e >= 'A' && e <= 'Z') || (e >= '0' && e <= '9') || e >= 0x80) {
		s->at--;
		return refuse(s, COHORT_E_UNSUPPORTED,
				"this escape is not known (references, boundaries and properties are not)");
	}
	*c = (uint32_t)e;
	return true;
}

static bool read_plain(struct pattern *s, uint32_t *c)
{
	const size_t n = utf8_decode(s->p + s->at, s->n - s->at, c);
	if (n == 0)
		return refuse(s, COHORT_E_FORMAT, "not valid UTF-8");
	s->at += n;
	return true;
}

static bool read_class(struct pattern *s, struct set *x)
{
	const bool inverted = peek(s) == '^';
	s->at += inverted;
	while (peek(s) != ']') {
		uint32_t lo, hi;
		if (peek(s) < 0)
			return refuse(s, COHORT_E_FORMAT, "a class without its ]");
		if (peek(s) == '\\' && s->at + 1 < s->n && s->p[s->at + 1] == 'b') { /* a backspace here */
			s->at += 2;
			lo = '\b';
		} else if (peek(s) == '\\') {
			s->at++;
			if (!read_escape(s, x, &lo))
				return false;
		} else if (!read_plain(s, &lo)) {
			return false;
		}
		hi = lo;
		if (lo != UINT32_MAX && peek(s) == '-' && s->at + 1 < s->n && s->p[s->at + 1] != ']') {
			s->at++;
			const bool escaped = peek(s) == '\\';
			s->at += escaped;
			if (!(escaped ? read_escape(s, x, &hi) : read_plain(s, &hi)))
				return false;
			if (hi == UINT32_MAX || hi < lo)
				return refuse(s, COHORT_E_FORMAT, "a range that runs backwards");
		}
		if (lo != UINT32_MAX)
			set_add(x, lo, hi);
	}
	s->at++;
	if (inverted)
		set_invert(x);
	return !x->full || refuse(s, COHORT_E_LIMIT, "a class of too many ranges");
}

static bool read_alternatives(struct pattern *s);

static bool read_group(struct pattern *s)
{
	if (peek(s) == '?') {
		if (s->at + 1 >= s->n || s->p[s->at + 1] != ':')
			return refuse(s, COHORT_E_UNSUPPORTED,
					"groups that look around, have names or options are not known");
		s->at += 2;
	}
	if (++s->nesting > GROUPS_MAX)
		return refuse(s, COHORT_E_LIMIT, "groups are nested too deep");
	text_add(s->t, "(");
	if (!read_alternatives(s))
		return false;
	if (peek(s) != ')')
		return refuse(s, COHORT_E_FORMAT, "a group without its )");
	s->at++;
	s->nesting--;
	text_add(s->t, ")");
	return true;
}

static bool read_atom(struct pattern *s)
{
	struct set x = {.n = 0};
	uint32_t c;

	switch (peek(s)) {
	case '(': s->at++; return read_group(s);
	case '[':
		s->at++;
		if (!read_class(s, &x))
			return false;
		break;
	case '.':
		s->at++;
		set_add(&x, '\n', '\n');
		set_add(&x, '\r', '\r');
		set_add(&x, 0x2028, 0x2029);
		set_invert(&x);
		break;
	case '\\':
		s->at++;
		if (!read_escape(s, &x, &c))
			return false;
		if (c != UINT32_MAX)
			set_add(&x, c, c);
		break;
	case '*':
	case '+':
	case '?':
	case '{': return refuse(s, COHORT_E_FORMAT, "nothing to repeat");
	case '^':
	case '$': return refuse(s, COHORT_E_UNSUPPORTED, "^ and $ are known at the ends of a pattern only");
	default:
		if (!read_plain(s, &c))
			return false;
		set_add(&x, c, c);
	}
	emit_set(s->t, &x);
	return true;
}

static bool read_count(struct pattern *s, int *v)
{
	const size_t from = s->at;
	for (*v = 0; peek(s) >= '0' && peek(s) <= '9'; s->at++)
		if ((*v = 10 * *v + (peek(s) - '0')) > REPEAT_MAX)
			return refuse(s, COHORT_E_LIMIT, "more than 10,000 repetitions");
	return s->at > from || refuse(s, COHORT_E_FORMAT, "expected a number");
}

static bool read_repeat(struct pattern *s)
{
	const int c = peek(s);
	int min, max;

	if (c == '*' || c == '+' || c == '?') {
		s->at++;
		text_add(s->t, "%c", c);
	} else if (c == '{') {
		s->at++;
		if (!read_count(s, &min))
			return false;
		text_add(s->t, "{%d", min);
		if (peek(s) == ',') {
			s->at++;
			text_add(s->t, ",");
			if (peek(s) != '}') {
				if (!read_count(s, &max))
					return false;
				if (max < min)
					return refuse(s, COHORT_E_FORMAT, "a repetition whose most is below its least");
				text_add(s->t, "%d", max);
			}
		}
		if (peek(s) != '}')
			return refuse(s, COHORT_E_FORMAT, "expected }");
		s->at++;
		text_add(s->t, "}");
	} else {
		return true;
	}
	s->at += peek(s) == '?'; /* lazy: the same texts match */
	return true;
}

/* Alternatives; the outermost ones match anywhere in the string unless they are anchored. */
static bool read_alternatives(struct pattern *s)
{
	for (bool first = true;; first = false) {
		const bool outer = s->nesting == 0;
		if (!first)
			text_add(s->t, " | ");
		if (outer && peek(s) == '^')
			s->at++;
		else if (outer)
			text_add(s->t, "char* ");
		text_add(s->t, "\"\"");
		while (peek(s) >= 0 && peek(s) != '|' && peek(s) != ')') {
			if (outer && peek(s) == '$' && (s->at + 1 == s->n || s->p[s->at + 1] == '|'))
				break;
			text_add(s->t, " ");
			if (!read_atom(s) || !read_repeat(s))
				return false;
		}
		if (outer && peek(s) == '$')
			s->at++;
		else if (outer)
			text_add(s->t, " char*");
		if (peek(s) != '|')
			break;
		s->at++;
	}
	return s->nesting > 0 || peek(s) < 0 || refuse(s, COHORT_E_FORMAT, "a ) without its (");
}

enum cohort_status schema_pattern(struct text *t, const char *pattern, size_t n, struct cohort_err *err)
{
	struct pattern s = {.p = pattern, .n = n, .t = t, .err = err};
	text_add(t, "(");
	read_alternatives(&s);
	text_add(t, ")");
	return s.st;
}
