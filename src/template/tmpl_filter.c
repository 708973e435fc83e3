/* Filters of texts and numbers, and the table of all filters. */
#include "template/tmpl.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- Case, ends, escapes ---- */

FILTER_IS(upper, str_case(r, val_str(r, v), 'u'))
FILTER_IS(lower, str_case(r, val_str(r, v), 'l'))
FILTER_IS(capitalize, str_case(r, val_str(r, v), 'c'))
FILTER_IS(trim, str_strip(r, val_str(r, v), w[0], 3))
FILTER_IS(string, v.type == V_STR ? v : val_str(r, v))
FILTER_IS(escape, args_none(r, "escape", a) ? val_escape(r, v) : val_none)
FILTER_IS(forceescape, val_escape(r, val_str(r, v)))

static bool parts_words(uint32_t cp)
{
	return uni_is_space(cp) || (cp < 0x80 && cp && strchr("-({[<", (int)cp));
}

/* Words begin behind whitespace and ( { [ < -, so that "it's" stays one. */
FILTER(title)
{
	struct bytes t = {0};
	uint32_t cp, k, end, out[3];

	const struct val s = val_str(r, v);
	tmpl_charge(r, s.n / 4);
	for (uint32_t i = 0; i < s.n && !r->failed; i = end) {
		const uint32_t first = uni_decode(s.u.s + i, s.n - i, &cp);
		end = i + first;
		if (parts_words(cp)) {
			buf_add(r, &t, s.u.s + i, first);
			continue;
		}
		const size_t n = uni_upper(cp, out);
		for (size_t j = 0; j < n; j++)
			buf_char(r, &t, out[j]);
		/* The rest as a text of its own, in which a sigma may be the last letter. */
		while (end < s.n && (k = uni_decode(s.u.s + end, s.n - end, &cp)) && !parts_words(cp))
			end += k;
		const struct val rest = str_case(r, val_bytes(s.u.s + i + first, end - i - first), 'l');
		buf_add(r, &t, rest.u.s, rest.n);
	}
	return buf_val(r, &t);
}

FILTER(safe)
{
	v = val_str(r, v);
	v.flag = F_MARKUP;
	return v;
}

/* The character that an entity stands for; 0 if it is not known. */
static uint32_t entity(const char *s, size_t n)
{
	static const struct {
		const char *name;
		uint32_t cp;
	} known[] = {{"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}, {"nbsp", 0xa0},
			{"copy", 0xa9}, {"reg", 0xae}, {"hellip", 0x2026}, {"mdash", 0x2014}, {"ndash", 0x2013},
			{"laquo", 0xab}, {"raquo", 0xbb}};
	int64_t i;
	bool overflow;

	if (n > 1 && s[0] == '#') {
		const bool hex = s[1] == 'x' || s[1] == 'X';
		if (num_int(s + 1 + hex, n - 1 - hex, hex ? 16 : 10, &i, &overflow) && i > 0 && i < 0x110000)
			return i >= 0xd800 && i <= 0xdfff ? 0xfffd : (uint32_t)i;
		return 0;
	}
	for (size_t k = 0; k < sizeof known / sizeof *known; k++)
		if (strlen(known[k].name) == n && memcmp(known[k].name, s, n) == 0)
			return known[k].cp;
	return 0;
}

/* Removes what stands between two marks, the marks included. */
static struct val remove_between(struct run *r, struct val s, const char *from, const char *to)
{
	struct bytes t = {0};
	const char *at = s.u.s, *end = s.u.s + s.n;

	while (!r->failed) {
		const char *a = memmem(at, (size_t)(end - at), from, strlen(from));
		const char *b = a ? memmem(a, (size_t)(end - a), to, strlen(to)) : NULL;
		if (!b || !tmpl_charge(r, 1))
			break;
		buf_add(r, &t, at, (size_t)(a - at));
		at = b + strlen(to);
	}
	buf_add(r, &t, at, (size_t)(end - at));
	return buf_val(r, &t);
}

FILTER(striptags)
{
	struct bytes t = {0};
	if (!tmpl_charge(r, v.type == V_STR ? v.n / 8 : 0))
		return val_none;
	struct val s = remove_between(r, val_str(r, v), "<!--", "-->");
	s = remove_between(r, s, "<", ">");
	s = str_join(r, val_z(" "), str_split(r, s, val_none, -1, false), false);
	for (uint32_t i = 0; i < s.n && !r->failed;) {
		const char *semicolon = s.u.s[i] == '&' ? memchr(s.u.s + i, ';', s.n - i < 12 ? s.n - i : 12) : NULL;
		const uint32_t cp = semicolon ? entity(s.u.s + i + 1, (size_t)(semicolon - s.u.s) - i - 1) : 0;
		if (cp) {
			buf_char(r, &t, cp);
			i = (uint32_t)(semicolon - s.u.s) + 1;
		} else {
			buf_add(r, &t, s.u.s + i++, 1);
		}
	}
	return buf_val(r, &t);
}

static void quote(struct run *r, struct bytes *t, struct val v, bool query)
{
	const struct val s = val_str(r, v);
	char buf[4];
	tmpl_charge(r, s.n / 16);
	for (uint32_t i = 0; i < s.n && !r->failed; i++) {
		const char c = s.u.s[i];
		if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
				(c && strchr("_.-~", c)) || (c == '/' && !query)) {
			buf_add(r, t, &c, 1);
		} else if (c == ' ' && query) {
			buf_addz(r, t, "+");
		} else {
			snprintf(buf, sizeof buf, "%%%02X", (uint8_t)c);
			buf_addz(r, t, buf);
		}
	}
}

FILTER(urlencode)
{
	struct bytes t = {0};
	struct iter it;
	struct val item;
	bool first = true;

	if (v.type == V_STR || !val_is_iterable(v)) {
		quote(r, &t, v, false);
		return buf_val(r, &t);
	}
	if (v.type == V_DICT) {
		const struct args none = {0};
		v = call_value(r, op_own_attr(r, v, val_z("items")), &none);
	}
	if (iter_init(r, &it, v))
		while (iter_next(r, &it, &item)) {
			item = val_items(r, item);
			if (!r->failed && item.n != 2)
				tmpl_error(r, "urlencode needs pairs");
			if (r->failed)
				break;
			if (!first)
				buf_addz(r, &t, "&");
			first = false;
			quote(r, &t, item.u.items[0], true);
			buf_addz(r, &t, "=");
			quote(r, &t, item.u.items[1], true);
		}
	return buf_val(r, &t);
}

FILTER(xmlattr)
{
	struct bytes t = {0};

	if (v.type != V_DICT)
		return val_refuse(r, "xmlattr", v), val_none;
	for (uint32_t i = 0; i < v.u.dict->n && !r->failed; i++) {
		const struct pair *p = &v.u.dict->pairs[i];
		if (p->value.type == V_NONE || p->value.type == V_UNDEF)
			continue;
		if (!arg_str(r, p->key, "an attribute's name"))
			break;
		for (uint32_t k = 0; k < p->key.n; k++)
			if (p->key.u.s[k] && strchr(" \t\n\r\f\v/>=", p->key.u.s[k]))
				tmpl_error(r, "no name of an attribute may hold this character");
		if (t.n || arg_bool(r, w[0], true))
			buf_addz(r, &t, " ");
		show_escaped(r, &t, p->key);
		buf_addz(r, &t, "=\"");
		show_escaped(r, &t, p->value);
		buf_addz(r, &t, "\"");
	}
	return buf_val(r, &t);
}

/* ---- Layout ---- */

FILTER_IS(center, str_pad(r, val_str(r, v), arg_int(r, w[0], 80), ' ', 'c'))

FILTER(indent)
{
	struct bytes t = {0};

	if (v.type != V_STR)
		return val_refuse(r, "indent", v), val_none;
	struct val by = w[0];
	if (by.type != V_STR) {
		const int64_t n = arg_int(r, by, 4);
		by = r->failed ? val_none : op_binary(r, OP_MUL, val_z(" "), val_int(n));
	}
	const bool first = arg_bool(r, w[1], false), blank = arg_bool(r, w[2], false);
	const struct val lines = str_lines(r, str_concat(r, v, val_z("\n")), false);
	for (uint32_t i = 0; i < lines.n && !r->failed; i++) {
		const struct val line = lines.u.items[i];
		if (i)
			buf_addz(r, &t, "\n");
		if (i ? line.n || blank : first)
			buf_add(r, &t, by.u.s, by.n);
		buf_add(r, &t, line.u.s, line.n);
		tmpl_charge(r, by.n / 64);
	}
	return buf_val(r, &t);
}

FILTER(truncate)
{
	const int64_t length = arg_int(r, w[0], 255), leeway = w[3].type == V_NONE ? 5 : arg_int(r, w[3], 5);
	const bool kill = arg_bool(r, w[1], false);
	const struct val end = w[2].type == V_MISSING ? val_z("...") : w[2];
	if (r->failed || !arg_str(r, end, "end"))
		return val_none;
	const int64_t n_end = val_len(r, end), n = val_len(r, v);
	if (length < n_end)
		tmpl_error(r, "truncate to %lld characters, which is less than its end has", (long long)length);
	if (leeway < 0)
		tmpl_error(r, "truncate by a leeway below 0");
	if (r->failed || n - length <= leeway)
		return v;
	if (!arg_str(r, v, "what is truncated"))
		return val_none;
	struct val s = val_bytes(v.u.s, uni_offset(v.u.s, v.n, (size_t)(length - n_end)));
	if (!kill) {
		const char *space = s.n ? memrchr(s.u.s, ' ', s.n) : NULL;
		if (space)
			s.n = (uint32_t)(space - s.u.s);
	}
	return str_concat(r, s, end);
}

/* ---- Wrapping ---- */

/* The length of the piece of s that is not to be parted: whitespace, or a word up to its hyphen. */
static uint32_t piece(struct val s, bool hyphens)
{
	uint32_t at = 0, cp, k, letters = 0, before = 0;
	const bool blank = s.u.s[0] && strchr(" \t\n\v\f\r", s.u.s[0]);

	for (; at < s.n; at += k) {
		k = uni_decode(s.u.s + at, s.n - at, &cp);
		if (blank != (cp < 0x80 && cp && strchr(" \t\n\v\f\r", (int)cp)))
			break;
		if (hyphens && cp == '-' && letters >= 2 && uni_is_alpha(before)) {
			/* A hyphen parts only between words of two characters at least, with letters beside it. */
			uint32_t after = at + 1, c1 = 0, c2 = 0;
			if (after < s.n)
				after += uni_decode(s.u.s + after, s.n - after, &c1);
			if (after < s.n)
				uni_decode(s.u.s + after, s.n - after, &c2);
			if (uni_is_word(c1) && uni_is_alpha(c2))
				return at + 1;
		}
		letters = uni_is_word(cp) ? letters + 1 : 0;
		before = cp;
	}
	return at;
}

static bool all_hyphens(const char *from, const char *to)
{
	while (from < to && *from == '-')
		from++;
	return from == to;
}

static void wrap_line(struct run *r, struct bytes *t, struct val line, int64_t width, bool break_words, bool hyphens,
		struct val sep)
{
	bool first = true;

	while (line.n && tmpl_charge(r, 1)) {
		int64_t used = 0;
		uint32_t at = 0, last = 0; /* last: behind the last piece that is no whitespace */
		if (!first) /* whitespace at the beginning of a line is dropped, but not of the first */
			while (line.n && line.u.s[0] && strchr(" \t\n\v\f\r", line.u.s[0]))
				line = val_bytes(line.u.s + 1, line.n - 1);
		if (!line.n)
			break;
		while (at < line.n) {
			const struct val rest = val_bytes(line.u.s + at, line.n - at);
			const uint32_t k = piece(rest, hyphens);
			tmpl_charge(r, k / 16);
			const int64_t len = (int64_t)uni_count(rest.u.s, k);
			const bool blank = strchr(" \t\n\v\f\r", rest.u.s[0]) != NULL && rest.u.s[0];
			if (used + len <= width) {
				at += k;
				used += len;
				last = blank ? last : at;
				continue;
			}
			if (len > width) {
				const int64_t room = width - used;
				if (break_words && !room) { /* then blanks at the end stay, as in Python */
					last = at;
				} else if (break_words) {
					size_t cut = uni_offset(rest.u.s, k, (size_t)room);
					const char *h = hyphens ? memrchr(rest.u.s, '-', cut) : NULL;
					if (h && h > rest.u.s && !all_hyphens(rest.u.s, h))
						cut = (size_t)(h - rest.u.s) + 1;
					at += (uint32_t)cut;
					last = blank ? last : at;
				} else if (!at) {
					at += k;
					last = blank ? last : at;
				}
			}
			break;
		}
		if (last) {
			if (!first)
				buf_add(r, t, sep.u.s, sep.n);
			first = false;
			buf_add(r, t, line.u.s, last);
		}
		line = val_bytes(line.u.s + at, line.n - at);
	}
}

FILTER(wordwrap)
{
	struct bytes t = {0};

	if (!arg_str(r, v, "what is wrapped"))
		return val_none;
	const int64_t width = arg_int(r, w[0], 79);
	const bool break_words = arg_bool(r, w[1], true), hyphens = arg_bool(r, w[3], true);
	const struct val sep = w[2].type == V_MISSING || w[2].type == V_NONE ? val_z("\n") : w[2];
	if (width <= 0)
		tmpl_error(r, "wordwrap to a width below 1");
	const struct val lines = str_lines(r, v, false);
	if (r->failed || !arg_str(r, sep, "wrapstring"))
		return val_none;
	for (uint32_t i = 0; i < lines.n && !r->failed; i++) {
		if (i)
			buf_add(r, &t, sep.u.s, sep.n);
		wrap_line(r, &t, lines.u.items[i], width, break_words, hyphens, sep);
	}
	return buf_val(r, &t);
}

FILTER(wordcount)
{
	int64_t n = 0;
	bool in_word = false;
	uint32_t cp;

	const struct val s = val_str(r, v);
	tmpl_charge(r, s.n / 16);
	for (uint32_t i = 0; i < s.n;) {
		i += uni_decode(s.u.s + i, s.n - i, &cp);
		n += uni_is_word(cp) && !in_word;
		in_word = uni_is_word(cp);
	}
	return val_int(n);
}

FILTER(replace)
{
	const int64_t count = w[2].type == V_NONE ? -1 : arg_int(r, w[2], -1);
	const struct val s = val_str(r, v), old = val_str(r, w[0]), with = val_str(r, w[1]);
	return r->failed ? val_none : str_replace(r, s, old, with, count);
}

FILTER(format)
{
	struct val args;
	if (a->n_pos && a->n_kw)
		return tmpl_error(r, "format takes arguments by position or by name, not both"), val_none;
	if (a->n_kw) {
		args = val_dict(r);
		for (size_t i = 0; i < a->n_kw && !r->failed; i++)
			dict_set(r, args.u.dict, a->kw[i].name, a->kw[i].value);
	} else {
		args = val_list(r, V_TUPLE, a->n_pos, a->pos);
	}
	const struct val fmt = val_str(r, v);
	return r->failed ? val_none : format_percent(r, fmt, args);
}

FILTER(pprint)
{
	struct bytes t = {0};
	show_pretty(r, &t, v);
	return buf_val(r, &t);
}

FILTER(tojson)
{
	struct bytes t = {0};

	struct json_style style = {.ascii = arg_bool(r, w[0], false), .sorted = arg_bool(r, w[3], false)};
	style.pretty = w[1].type != V_MISSING && w[1].type != V_NONE;
	style.item_sep = val_z(style.pretty ? "," : ", ");
	style.key_sep = val_z(": ");
	style.indent = val_z("");
	if (style.pretty && w[1].type == V_STR)
		style.indent = w[1];
	else if (style.pretty) {
		const int64_t n = arg_int(r, w[1], 0);
		style.indent = r->failed ? val_none : op_binary(r, OP_MUL, val_z(" "), val_int(n));
	}
	if (w[2].type != V_MISSING && w[2].type != V_NONE) {
		if ((w[2].type != V_TUPLE && w[2].type != V_LIST) || w[2].n != 2 || w[2].u.items[0].type != V_STR ||
				w[2].u.items[1].type != V_STR)
			return tmpl_error(r, "separators must be a pair of texts"), val_none;
		style.item_sep = w[2].u.items[0];
		style.key_sep = w[2].u.items[1];
	}
	if (!r->failed)
		json_write(r, &t, v, &style);
	return buf_val(r, &t);
}

/* ---- Numbers ---- */

static struct val whole_of(struct run *r, double f)
{
	if (f >= 9223372036854775808.0 || f < -9223372036854775808.0)
		return tmpl_error(r, "an integer of more than 64 bits"), val_none;
	return val_int((int64_t)f);
}

FILTER(int)
{
	int64_t i;
	bool overflow = false;
	double f;

	const struct val fallback = w[0].type == V_MISSING ? val_int(0) : w[0];
	const int64_t base = arg_int(r, w[1], 10);
	if (v.type == V_UNDEF)
		return undef_fail(r, v), val_none;
	if (val_is_int(v))
		return val_int(val_whole(v));
	if (v.type == V_FLOAT) {
		if (isinf(v.u.f))
			return tmpl_error(r, "an infinite number is no integer"), val_none;
		return isnan(v.u.f) ? fallback : whole_of(r, v.u.f);
	}
	if (v.type != V_STR || !tmpl_charge(r, v.n / 16))
		return fallback;
	if ((base == 0 || (base >= 2 && base <= 36)) && num_int(v.u.s, v.n, (int)base, &i, &overflow))
		return val_int(i);
	if (overflow)
		return tmpl_error(r, "an integer of more than 64 bits"), val_none;
	if (!num_float(v.u.s, v.n, &f) || isnan(f) || isinf(f))
		return fallback;
	return whole_of(r, f);
}

FILTER(float)
{
	double f;
	if (v.type == V_UNDEF)
		return undef_fail(r, v), val_none;
	if (val_is_number(v))
		return val_float(val_number(v));
	if (v.type == V_STR && tmpl_charge(r, v.n / 16) && num_float(v.u.s, v.n, &f))
		return val_float(f);
	return w[0].type == V_MISSING ? val_float(0) : w[0];
}

FILTER(abs)
{
	if (v.type == V_FLOAT)
		return val_float(fabs(v.u.f));
	if (!val_is_int(v))
		return val_refuse(r, "abs", v), val_none;
	return v.type == V_INT && v.u.i < 0 ? op_negate(r, v, true) : op_negate(r, v, false);
}

static struct val round_common(struct run *r, struct val v, int64_t digits)
{
	char buf[NUM_FORMAT_BYTES];
	double f;

	if (v.type != V_FLOAT) { /* to tens, hundreds, ..., the even one when in the middle */
		int64_t i = val_whole(v), unit = 1;
		for (; digits < 0; digits++)
			if (__builtin_mul_overflow(unit, 10, &unit))
				return val_int(0);
		int64_t rest = ((i % unit) + unit) % unit, low;
		if (__builtin_sub_overflow(i, rest, &low))
			return tmpl_error(r, "an integer of more than 64 bits"), val_none;
		const bool up = rest > unit - rest || (rest == unit - rest && unit > 1 && (low / unit) % 2 != 0);
		return up && rest ? op_binary(r, OP_ADD, val_int(low), val_int(unit)) : val_int(low);
	}
	if (isnan(v.u.f) || isinf(v.u.f) || digits > 300 || (digits >= 0 && fabs(v.u.f) >= 0x1p52)) /* whole already */
		return v;
	if (digits < 0) {
		const double unit = pow(10, (double)(digits < -308 ? 308 : -digits));
		return val_float(rint(v.u.f / unit) * unit);
	}
	if (!tmpl_charge(r, FLOAT_STEPS))
		return v;
	const size_t n = num_format(v.u.f, 'f', (int)digits, false, buf);
	return num_float(buf, n, &f) ? val_float(f) : v;
}

FILTER(round)
{
	const int64_t digits = arg_int(r, w[0], 0);
	const bool ceiling = val_is_str(w[1], "ceil"), flooring = val_is_str(w[1], "floor");
	if (w[1].type != V_MISSING && !ceiling && !flooring && !val_is_str(w[1], "common"))
		tmpl_error(r, "round knows common, ceil and floor");
	if (!val_is_number(v))
		val_refuse(r, "round", v);
	if (r->failed)
		return val_none;
	if (!ceiling && !flooring)
		return round_common(r, v, digits);
	const double unit = pow(10, (double)digits), f = val_number(v) * unit;
	return val_float(((ceiling ? ceil(f) : floor(f)) + 0.0) / unit); /* Python has no -0 here */
}

FILTER(filesizeformat)
{
	static const char *const units[2][8] = {{"kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"},
			{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"}};
	char buf[64], num[NUM_FORMAT_BYTES];
	double f;

	const bool binary = arg_bool(r, w[0], false);
	if (val_is_number(v))
		f = val_number(v);
	else if (v.type != V_STR || !tmpl_charge(r, v.n / 16) || !num_float(v.u.s, v.n, &f))
		return val_refuse(r, "filesizeformat", v), val_none;
	const double base = binary ? 1024 : 1000;
	if (f == 1)
		return val_z("1 Byte");
	if (f < base) {
		const int n = snprintf(buf, sizeof buf, "%lld Bytes", fabs(f) < 9e18 ? (long long)f : 0LL);
		return val_copy(r, buf, (size_t)n);
	}
	double unit = base;
	size_t i = 0;
	do
		unit *= base;
	while (f >= unit && ++i < 8);
	i = i < 8 ? i : 7;
	const size_t n = num_format(base * f / unit, 'f', 1, false, num);
	const int k = snprintf(buf, sizeof buf, "%.*s %s", (int)(n < 40 ? n : 40), num, units[binary][i]);
	return val_copy(r, buf, (size_t)k);
}

FILTER(default)
{
	struct val x[2];
	if (!args_bind(r, "default", a, "?default_value ?boolean", x))
		return val_none;
	if (v.type == V_UNDEF || (arg_bool(r, x[1], false) && !val_truth(r, v)))
		return x[0].type == V_MISSING ? val_z("") : x[0];
	return v;
}

FILTER(attr)
{
	if (!arg_str(r, w[0], "an attribute's name"))
		return val_none;
	if (v.type == V_UNDEF)
		return undef_fail(r, v), val_none;
	const struct val own = op_own_attr(r, v, w[0]);
	return own.type == V_MISSING ? val_undef(r, v, w[0]) : own;
}

FILTER(refused)
{
	tmpl_fail(r, COHORT_E_UNSUPPORTED, "the filters random and urlize are not supported");
	return val_none;
}

/* ---- The table ---- */

const struct method text_filters[] = {{"abs", filter_abs, ""}, {"attr", filter_attr, "name"},
		{"capitalize", filter_capitalize, ""}, {"center", filter_center, "?width"},
		{"d", filter_default, NULL}, {"default", filter_default, NULL},
		{"e", filter_escape, NULL}, {"escape", filter_escape, NULL},
		{"filesizeformat", filter_filesizeformat, "?binary"}, {"float", filter_float, "?default"},
		{"forceescape", filter_forceescape, ""}, {"format", filter_format, NULL},
		{"indent", filter_indent, "?width ?first ?blank"}, {"int", filter_int, "?default ?base"},
		{"lower", filter_lower, ""}, {"pprint", filter_pprint, ""}, {"random", filter_refused, NULL},
		{"replace", filter_replace, "old new ?count"}, {"round", filter_round, "?precision ?method"},
		{"safe", filter_safe, ""}, {"string", filter_string, ""}, {"striptags", filter_striptags, ""},
		{"title", filter_title, ""},
		{"tojson", filter_tojson, "?ensure_ascii ?indent ?separators ?sort_keys"},
		{"trim", filter_trim, "?chars"}, {"truncate", filter_truncate, "?length ?killwords ?end ?leeway"},
		{"upper", filter_upper, ""}, {"urlencode", filter_urlencode, ""},
		{"urlize", filter_refused, NULL}, {"wordcount", filter_wordcount, ""},
		{"wordwrap", filter_wordwrap, "?width ?break_long_words ?wrapstring ?break_on_hyphens"},
		{"xmlattr", filter_xmlattr, "?autospace"}, {NULL, NULL, NULL}};

enum { N_TEXT_FILTERS = sizeof text_filters / sizeof *text_filters - 1 };

int32_t filter_find(const char *s, size_t n)
{
	const struct method *m = method_find(text_filters, s, n);
	if (m)
		return (int32_t)(m - text_filters);
	m = method_find(seq_filters, s, n);
	return m ? (int32_t)(m - seq_filters) + N_TEXT_FILTERS : -1;
}

struct val filter_call(struct run *r, int32_t filter, struct val name, struct val v, const struct args *a)
{
	if (r->failed)
		return val_none;
	if (filter < 0) {
		tmpl_error(r, "there is no filter '%.*s'", (int)(name.n < 60 ? name.n : 60), name.u.s);
		return val_none;
	}
	const bool text = filter < N_TEXT_FILTERS;
	return method_call(r, text ? &text_filters[filter] : &seq_filters[filter - N_TEXT_FILTERS], v, a);
}
