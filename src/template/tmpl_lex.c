/* Source to tokens: text, tags with their whitespace control, and what is inside of tags.
 *
 * Invariants
 *  1. Works on a copy of the source in which every line break is \n and one at the very end is gone.
 *  2. Tokens borrow from that copy or from the arena; both live as long as the template.
 *  3. Braces are balanced: an end of tag inside of (), [] or {} is none.
 *
 * Blocks are trimmed as chat templates expect it: the first newline after a block or comment is dropped, and so are
 * blanks before one at the start of its line. */
#include "template/tmpl.h"

#include "base/utf8.h"

#include <string.h>

enum { BALANCE_MAX = 250 };

struct lex {
	struct run *r;
	const char *s;
	size_t n, at;
	uint32_t line;
	bool line_starting;
	struct tokens *out;
	char balance[BALANCE_MAX];
	size_t n_balance;
};

static bool fail(struct lex *l, const char *what)
{
	l->r->line = l->line;
	return tmpl_fail(l->r, COHORT_E_FORMAT, "%s", what);
}

static bool add(struct lex *l, enum token_type type, struct val v)
{
	if (!tmpl_grow(l->r, (void **)&l->out->at, &l->out->n_max, (size_t)l->out->n + 1, sizeof *l->out->at))
		return false;
	l->out->at[l->out->n++] = (struct token){type, l->line, v};
	return true;
}

static size_t space_at(const struct lex *l, size_t at)
{
	uint32_t cp;
	if (at >= l->n)
		return 0;
	const uint32_t k = uni_decode(l->s + at, l->n - at, &cp);
	return uni_is_space(cp) ? k : 0;
}

/* Steps to `to`, counting lines. */
static void advance(struct lex *l, size_t to)
{
	for (; l->at < to; l->at++)
		l->line += l->s[l->at] == '\n';
}

static bool looking_at(const struct lex *l, size_t at, const char *word)
{
	const size_t k = strlen(word);
	return k <= l->n - at && memcmp(l->s + at, word, k) == 0;
}

static size_t skip_spaces(const struct lex *l, size_t at)
{
	for (size_t k; (k = space_at(l, at)) != 0;)
		at += k;
	return at;
}

/* The end of a tag at `at`, with what it swallows; 0 if there is none. */
static size_t tag_end(const struct lex *l, size_t at, const char *end, bool plus, bool trim)
{
	if (at < l->n && l->s[at] == '-' && looking_at(l, at + 1, end))
		return skip_spaces(l, at + 3);
	if (plus && at < l->n && l->s[at] == '+' && looking_at(l, at + 1, end))
		return at + 3;
	if (looking_at(l, at, end))
		return at + 2 + (trim && at + 2 < l->n && l->s[at + 2] == '\n');
	return 0;
}

/* ---- Text ---- */

/* Where text that ends before a tag with this sign ends after stripping. */
static size_t strip_end(const struct lex *l, size_t from, size_t to, char sign, bool lstrip)
{
	size_t at = from, end = from, line = from;
	bool has_line = l->line_starting;

	if (sign != '-' && (sign == '+' || !lstrip))
		return to;
	if (sign == '-') { /* behind the last character that is no space */
		while (at < to) {
			uint32_t cp;
			const uint32_t k = uni_decode(l->s + at, to - at, &cp);
			at += k;
			if (!uni_is_space(cp))
				end = at;
		}
		return end;
	}
	for (at = from; at < to; at++)
		if (l->s[at] == '\n') {
			line = at + 1;
			has_line = true;
		}
	return has_line && skip_spaces(l, line) >= to ? line : to;
}

static bool add_text(struct lex *l, size_t to, char sign, bool lstrip)
{
	const size_t end = strip_end(l, l->at, to, sign, lstrip);
	if (end > l->at && !add(l, T_TEXT, val_bytes(l->s + l->at, end - l->at)))
		return false;
	advance(l, to);
	return true;
}

/* Behind the sign of a tag that begins at `at`. */
static size_t after_sign(const struct lex *l, size_t at, char *sign)
{
	*sign = at + 2 < l->n && (l->s[at + 2] == '-' || l->s[at + 2] == '+') ? l->s[at + 2] : 0;
	return at + 2 + (*sign != 0);
}

static bool lex_raw(struct lex *l, size_t body)
{
	advance(l, body);
	l->line_starting = body > 0 && l->s[body - 1] == '\n';
	for (size_t i = body; i + 1 < l->n; i++) {
		char sign;
		if (!looking_at(l, i, "{%"))
			continue;
		size_t at = skip_spaces(l, after_sign(l, i, &sign));
		if (!looking_at(l, at, "endraw"))
			continue;
		at = tag_end(l, skip_spaces(l, at + 6), "%}", true, true);
		if (!at)
			continue;
		if (!add_text(l, i, sign, true))
			return false;
		advance(l, at);
		l->line_starting = l->s[at - 1] == '\n';
		return true;
	}
	return fail(l, "raw without endraw");
}

static bool lex_comment(struct lex *l, size_t body)
{
	for (size_t i = body; i < l->n; i++) {
		const size_t end = tag_end(l, i, "#}", true, true);
		if (end) {
			advance(l, end);
			l->line_starting = l->s[end - 1] == '\n';
			return true;
		}
	}
	return fail(l, "a comment without '#}'");
}

/* ---- Inside of tags ---- */

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Digits with single underscores between; returns behind them. */
static size_t digits(const struct lex *l, size_t at)
{
	while (at < l->n &&
			(is_digit(l->s[at]) ||
					(l->s[at] == '_' && at > 0 && is_digit(l->s[at - 1]) && at + 1 < l->n &&
							is_digit(l->s[at + 1]))))
		at++;
	return at;
}

/* Whether c is a digit of numbers to the base b, at most 16. */
static bool is_digit_of(int b, char c)
{
	const int d = hex_digit(c);
	return d >= 0 && d < b;
}

static bool lex_number(struct lex *l)
{
	const size_t from = l->at;
	const bool after_dot = from > 0 && l->s[from - 1] == '.';
	size_t at = digits(l, from), end = at;
	bool is_float = false;

	if (!after_dot) {
		if (at + 1 < l->n && l->s[at] == '.' && is_digit(l->s[at + 1])) {
			end = at = digits(l, at + 1);
			is_float = true;
		}
		if (at < l->n && (l->s[at] == 'e' || l->s[at] == 'E')) {
			size_t e = at + 1;
			e += e < l->n && (l->s[e] == '+' || l->s[e] == '-');
			if (e < l->n && is_digit(l->s[e])) {
				end = digits(l, e);
				is_float = true;
			}
		}
	}
	if (is_float) {
		double f;
		if (!num_float(l->s + from, end - from, &f))
			return fail(l, "malformed number");
		add(l, T_FLOAT, val_float(f));
		advance(l, end);
		return !l->r->failed;
	}
	int base = 10;
	end = at;
	if (l->s[from] == '0' && from + 1 < l->n) {
		const char c = l->s[from + 1];
		const int b = c == 'x' || c == 'X' ? 16 : c == 'o' || c == 'O' ? 8 : c == 'b' || c == 'B' ? 2 : 0;
		size_t e = from + 2;
		while (b && e < l->n &&
				(is_digit_of(b, l->s[e]) ||
						(l->s[e] == '_' && e + 1 < l->n && is_digit_of(b, l->s[e + 1]))))
			e++;
		if (b && e > from + 2) {
			base = b;
			end = e;
		} else { /* zeros only: 07 is two numbers, and so an error */
			end = from + 1;
			while (end < l->n &&
					(l->s[end] == '0' ||
							(l->s[end] == '_' && end + 1 < l->n && l->s[end + 1] == '0')))
				end++;
		}
	}
	int64_t i;
	bool overflow = false;
	if (!num_int(l->s + from, end - from, base, &i, &overflow))
		return fail(l, overflow ? "an integer of more than 64 bits" : "malformed number");
	add(l, T_INT, val_int(i));
	advance(l, end);
	return !l->r->failed;
}

static bool unescape(struct lex *l, const char *s, size_t n, struct bytes *t)
{
	static const char from[] = "abfnrtv\\'\"", to[] = "\a\b\f\n\r\t\v\\'\"";
	struct run *r = l->r;

	for (size_t i = 0; i < n && !r->failed; i++) {
		if (s[i] != '\\') {
			buf_add(r, t, s + i, 1);
			continue;
		}
		const char c = ++i < n ? s[i] : '\\';
		const char *known = c ? strchr(from, c) : NULL;
		if (known) {
			buf_add(r, t, &to[known - from], 1);
		} else if (c >= '0' && c <= '7') {
			uint32_t cp = 0;
			size_t k = 0;
			for (; k < 3 && i + k < n && s[i + k] >= '0' && s[i + k] <= '7'; k++)
				cp = cp * 8 + (uint32_t)(s[i + k] - '0');
			i += k - 1;
			buf_char(r, t, cp);
		} else if (c == 'x' || c == 'u' || c == 'U') {
			const size_t k = c == 'x' ? 2 : c == 'u' ? 4 : 8;
			uint32_t cp = 0;
			for (size_t j = 1; j <= k; j++) {
				if (i + j >= n || hex_digit(s[i + j]) < 0)
					return fail(l, "\\x, \\u or \\U without its digits");
				cp = cp << 4 | (uint32_t)hex_digit(s[i + j]);
			}
			i += k;
			char utf8[4];
			if (!utf8_encode(cp, utf8))
				return fail(l, "an escape that is no character");
			buf_char(r, t, cp);
		} else if (c == 'N') {
			return fail(l, "names of characters (\\N{...}) are not supported");
		} else if (c != '\n') { /* an unknown escape stays as it is */
			buf_add(r, t, "\\", 1);
			buf_add(r, t, &c, 1);
		}
	}
	return !r->failed;
}

static bool lex_string(struct lex *l)
{
	const char quote = l->s[l->at];
	size_t end = l->at + 1;
	bool plain = true;

	while (end < l->n && l->s[end] != quote) {
		plain &= l->s[end] != '\\';
		end += l->s[end] == '\\' && end + 1 < l->n ? 2 : 1;
	}
	if (end >= l->n)
		return fail(l, "a text that does not end");
	const char *s = l->s + l->at + 1;
	const size_t n = end - l->at - 1;
	struct val v = val_bytes(s, n);
	if (!plain) {
		struct bytes t = {0};
		const bool ok = unescape(l, s, n, &t);
		v = buf_val(l->r, &t);
		if (!ok)
			return false;
	}
	add(l, T_STR, v);
	advance(l, end + 1);
	return !l->r->failed;
}

static bool lex_operator(struct lex *l)
{
	static const struct {
		const char *text;
		enum token_type type;
	} ops[] = {
			{"//", T_FLOORDIV},
			{"**", T_POW},
			{"==", T_EQ},
			{"!=", T_NE},
			{">=", T_GE},
			{"<=", T_LE},
			{"+", T_ADD},
			{"-", T_SUB},
			{"/", T_DIV},
			{"*", T_MUL},
			{"%", T_MOD},
			{"~", T_TILDE},
			{"[", T_LBRACKET},
			{"]", T_RBRACKET},
			{"(", T_LPAREN},
			{")", T_RPAREN},
			{"{", T_LBRACE},
			{"}", T_RBRACE},
			{">", T_GT},
			{"<", T_LT},
			{"=", T_ASSIGN},
			{".", T_DOT},
			{":", T_COLON},
			{"|", T_PIPE},
			{",", T_COMMA},
			{";", T_SEMICOLON},
	};
	for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
		if (!looking_at(l, l->at, ops[i].text))
			continue;
		const char c = ops[i].text[0];
		if (c == '{' || c == '(' || c == '[') {
			if (l->n_balance == BALANCE_MAX) {
				l->r->line = l->line;
				return tmpl_fail(l->r, COHORT_E_LIMIT, "brackets nested more than %d levels deep",
						BALANCE_MAX);
			}
			l->balance[l->n_balance++] = c == '{' ? '}' : c == '(' ? ')' : ']';
		} else if (c == '}' || c == ')' || c == ']') {
			if (!l->n_balance || l->balance[l->n_balance - 1] != c) {
				l->r->line = l->line;
				return tmpl_fail(l->r, COHORT_E_FORMAT,
						l->n_balance ? "'%c' where '%c' is missing" : "'%c' closes nothing", c,
						l->n_balance ? l->balance[l->n_balance - 1] : 0);
			}
			l->n_balance--;
		}
		add(l, ops[i].type, val_z(ops[i].text));
		advance(l, l->at + strlen(ops[i].text));
		return !l->r->failed;
	}
	l->r->line = l->line;
	return tmpl_fail(l->r, COHORT_E_FORMAT, "'%.*s' has no meaning here",
			(int)uni_decode(l->s + l->at, l->n - l->at, &(uint32_t){0}), l->s + l->at);
}

static bool lex_name(struct lex *l, uint32_t first, uint32_t k)
{
	size_t end = l->at + k;
	uint32_t cp;

	if (uni_is_numeric(first)) /* \w, but no start of an identifier */
		return fail(l, "no name begins like this");
	while (end < l->n && (k = uni_decode(l->s + end, l->n - end, &cp)) && uni_is_word(cp))
		end += k;
	add(l, T_NAME, val_bytes(l->s + l->at, end - l->at));
	advance(l, end);
	return !l->r->failed;
}

/* A tag from behind its sign to behind its end. */
static bool lex_tag(struct lex *l, bool block)
{
	l->n_balance = 0;
	while (l->at < l->n) {
		const size_t end = l->n_balance ? 0 : tag_end(l, l->at, block ? "%}" : "}}", block, block);
		uint32_t cp;
		if (end) {
			add(l, block ? T_BLOCK_END : T_VAR_END, val_none);
			advance(l, end);
			l->line_starting = l->s[end - 1] == '\n';
			return !l->r->failed;
		}
		const uint32_t k = uni_decode(l->s + l->at, l->n - l->at, &cp);
		const char c = l->s[l->at];
		bool ok = true;
		if (uni_is_space(cp))
			advance(l, l->at + k);
		else if (is_digit(c))
			ok = lex_number(l);
		else if (uni_is_word(cp))
			ok = lex_name(l, cp, k);
		else if (c == '"' || c == '\'')
			ok = lex_string(l);
		else
			ok = lex_operator(l);
		if (!ok)
			return false;
	}
	return true; /* the parser says what is missing */
}

static bool lex_tags(struct lex *l)
{
	while (l->at < l->n) {
		size_t at = l->at;
		char sign;
		while (at + 1 < l->n && (l->s[at] != '{' || !strchr("{%#", l->s[at + 1]) || !l->s[at + 1]))
			at++;
		if (at + 1 >= l->n)
			return add_text(l, l->n, '+', false);
		const char kind = l->s[at + 1];
		const size_t body = after_sign(l, at, &sign);
		if (!add_text(l, at, sign, kind != '{'))
			return false;
		if (kind == '%') {
			size_t raw = skip_spaces(l, body);
			if (looking_at(l, raw, "raw")) {
				raw = skip_spaces(l, raw + 3);
				raw = tag_end(l, raw, "%}", false, false);
				if (raw) {
					if (!lex_raw(l, raw))
						return false;
					continue;
				}
			}
		}
		advance(l, body);
		l->line_starting = false;
		if (kind == '#') {
			if (!lex_comment(l, body))
				return false;
		} else if (!add(l, kind == '%' ? T_BLOCK : T_VAR, val_none) || !lex_tag(l, kind == '%')) {
			return false;
		}
	}
	return true;
}

bool tmpl_lex(struct run *r, const char *source, size_t n, struct tokens *out)
{
	char *s = tmpl_bytes(r, n);
	size_t k = 0;

	if (!s)
		return false;
	for (size_t i = 0; i < n; i++) {
		if (source[i] == '\r') {
			s[k++] = '\n';
			i += i + 1 < n && source[i + 1] == '\n';
		} else {
			s[k++] = source[i];
		}
	}
	k -= k && s[k - 1] == '\n';
	struct lex l = {.r = r, .s = s, .n = k, .line = 1, .line_starting = true, .out = out};
	*out = (struct tokens){0};
	return lex_tags(&l) && add(&l, T_EOF, val_none);
}
