/* Formatting: the % operator, str.format, and strftime, with Python's rules and English names. */
#include "template/tmpl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH_MAX = 1 << 20, PRECISION_MAX = 300 };

struct spec {
	uint32_t fill; /* 0: the default */
	char align; /* < > = ^ or 0 */
	char sign; /* + - space or 0 */
	bool alternate, zero;
	char group; /* , _ or 0 */
	int64_t width, precision; /* -1: none */
	char type; /* 0: none */
};

/* ---- Padding ---- */

static bool add_padded(struct run *r, struct bytes *t, const char *s, size_t n, const struct spec *f, char align)
{
	const size_t len = uni_count(s, n), width = f->width > 0 ? (size_t)f->width : 0;
	const size_t pad = width > len ? width - len : 0;
	const uint32_t fill = f->fill ? f->fill : ' ';
	const char how = f->align ? f->align : align;
	const size_t left = how == '<' ? 0 : how == '^' ? pad / 2 : pad;

	buf_fill(r, t, fill, left);
	buf_add(r, t, s, n);
	return buf_fill(r, t, fill, pad - left);
}

/* sign and prefix, then digits (with the point and what follows), zeros or separators between as asked for. */
static bool add_number(
		struct run *r, struct bytes *t, const char *head, const char *digits, size_t n, const struct spec *f)
{
	struct bytes body = {0};
	size_t whole = 0;
	const size_t every = f->type == 'x' || f->type == 'X' || f->type == 'o' || f->type == 'b' ? 4 : 3;
	const bool inner = f->align == '=' || (!f->align && f->zero);
	const uint32_t fill = f->fill ? f->fill : f->zero ? '0' : ' ';
	struct spec outer = *f;

	while (whole < n && digits[whole] != '.' && digits[whole] != 'e' && digits[whole] != 'E' &&
			digits[whole] != '%')
		whole++;
	if (f->type == 'x' || f->type == 'X')
		whole = n;
	/* Zeros before a grouped number are grouped as well. */
	size_t zeros = 0, used = strlen(head) + n;
	if (f->group)
		used += whole ? (whole - 1) / every : 0;
	if (inner && fill == '0' && f->width > 0 && (size_t)f->width > used) {
		zeros = (size_t)f->width - used;
		if (f->group) {
			size_t k = whole;
			while (k + (k - 1) / every + (n - whole) + strlen(head) < (size_t)f->width)
				k++;
			zeros = k - whole;
		}
	}
	tmpl_charge(r, zeros / 16);
	buf_addz(r, &body, head);
	if (inner && fill != '0' && f->width > 0 && (size_t)f->width > used)
		buf_fill(r, &body, fill, (size_t)f->width - used);
	for (size_t i = 0; i < zeros + whole && !r->failed; i++) {
		const size_t left = zeros + whole - i;
		if (f->group && i && left % every == 0)
			buf_add(r, &body, &f->group, 1);
		buf_add(r, &body, i < zeros ? "0" : digits + (i - zeros), 1);
	}
	buf_add(r, &body, digits + whole, n - whole);
	if (inner)
		outer.width = 0;
	add_padded(r, t, body.p ? body.p : "", body.n, &outer, '>');
	bytes_release(&body);
	return !r->failed;
}

static bool add_int(struct run *r, struct bytes *t, int64_t i, const struct spec *f)
{
	const unsigned base = f->type == 'x' || f->type == 'X' ? 16 : f->type == 'o' ? 8 : f->type == 'b' ? 2 : 10;
	uint64_t v = i < 0 ? ~(uint64_t)i + 1 : (uint64_t)i;
	char digits[400], head[4];
	size_t at = 80;

	do {
		digits[--at] = (f->type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef")[v % base];
	} while ((v /= base) != 0);
	size_t n = 80 - at;
	if (f->precision > PRECISION_MAX)
		return tmpl_fail(r, COHORT_E_LIMIT, "a number with more than %d digits", PRECISION_MAX);
	if (f->precision > (int64_t)n) { /* of the % operator: that many digits at least */
		const size_t want = (size_t)f->precision;
		memmove(digits + want - n, digits + at, n);
		memset(digits, '0', want - n);
		at = 0;
		n = want;
	}
	size_t k = 0;
	if (i < 0 || f->sign == '+' || f->sign == ' ')
		head[k++] = i < 0 ? '-' : f->sign;
	if (f->alternate && base != 10) {
		head[k++] = '0';
		head[k++] = f->type;
	}
	head[k] = 0;
	return add_number(r, t, head, digits + at, n, f);
}

/* A float with a precision and no type: like g, but with a digit behind the point, or else an exponent. */
static size_t add_untyped(double x, int precision, bool alternate, char buf[NUM_FORMAT_BYTES])
{
	size_t n = num_format(x, 'e', precision - 1, alternate, buf);
	char *e = memchr(buf, 'e', n);
	const int exponent = atoi(e + 1);
	const bool plain = exponent >= -4 && exponent < precision - 1;

	if (plain)
		n = num_format(x, 'f', precision - 1 - exponent, alternate, buf);
	size_t end = plain ? n : (size_t)(e - buf); /* of the digits */
	if (memchr(buf, '.', end) && !alternate) {
		size_t cut = end;
		while (buf[cut - 1] == '0')
			cut--;
		cut -= buf[cut - 1] == '.';
		memmove(buf + cut, buf + end, n - end);
		n -= end - cut;
	}
	if (plain && !memchr(buf, '.', n)) {
		buf[n++] = '.';
		buf[n++] = '0';
	}
	return n;
}

static bool add_float(struct run *r, struct bytes *t, double x, const struct spec *f)
{
	char buf[NUM_FORMAT_BYTES], head[2] = {0, 0}, conv = f->type;
	const char low = conv ? (char)(conv | 0x20) : 0;
	size_t n;

	if (f->precision > PRECISION_MAX || !tmpl_charge(r, FLOAT_STEPS))
		return tmpl_fail(r, COHORT_E_LIMIT, "a number with more than %d digits", PRECISION_MAX);
	if (signbit(x) && !isnan(x))
		head[0] = '-';
	else if (f->sign == '+' || f->sign == ' ')
		head[0] = f->sign;
	x = isnan(x) ? x : fabs(x);
	const int precision = f->precision < 0 ? 6 : (int)f->precision;
	if (isnan(x) || isinf(x)) {
		n = (size_t)snprintf(buf, sizeof buf, isnan(x) ? "nan" : "inf");
		if (conv == '%')
			buf[n++] = '%';
	} else if (conv == '%') {
		n = num_format(x * 100, 'f', precision, f->alternate, buf);
		buf[n++] = '%';
	} else if (!conv && f->precision < 0) {
		n = num_repr(x, buf);
	} else if (!conv) {
		n = add_untyped(x, precision ? precision : 1, f->alternate, buf);
	} else {
		n = num_format(x, low == 'n' ? 'g' : low, low == 'g' && !precision ? 1 : precision, f->alternate, buf);
	}
	if (conv >= 'A' && conv <= 'Z')
		for (size_t i = 0; i < n; i++)
			if (buf[i] >= 'a' && buf[i] <= 'z')
				buf[i] = (char)(buf[i] - 32);
	return add_number(r, t, head, buf, n, f);
}

/* By the letter of a conversion; false if it is none. */
static bool show_as(struct run *r, struct bytes *t, struct val v, char how)
{
	return how == 's' ? show_str(r, t, v) : how == 'r' || how == 'a' ? show_repr(r, t, v, how == 'a') : false;
}

static bool add_char(struct run *r, struct bytes *t, int64_t cp, const struct spec *f, char align)
{
	struct bytes s = {0};
	buf_char(r, &s, cp >= 0 && cp < 0x110000 ? (uint32_t)cp : 0x110000);
	add_padded(r, t, s.p ? s.p : "", s.n, f, align);
	bytes_release(&s);
	return !r->failed;
}

/* ---- The % operator ---- */

struct percent {
	struct val args;
	uint32_t at;
	bool is_tuple, used; /* used: the one value that is no tuple */
};

static struct val next_arg(struct run *r, struct percent *p)
{
	if (p->is_tuple ? p->at < p->args.n : !p->used) {
		p->used = true;
		return p->is_tuple ? p->args.u.items[p->at++] : p->args;
	}
	tmpl_error(r, "more fields than values");
	return val_none;
}

static bool add_percent(struct run *r, struct bytes *t, struct val v, const struct spec *f)
{
	const char c = f->type;
	struct bytes s = {0};

	if (c == 's' || c == 'r' || c == 'a') {
		show_as(r, &s, v, c);
		size_t n = s.n;
		if (f->precision >= 0)
			n = uni_offset(s.p ? s.p : "", s.n, (size_t)f->precision);
		add_padded(r, t, s.p ? s.p : "", n, f, '>');
		bytes_release(&s);
		return !r->failed;
	}
	if (c == 'c') {
		if (v.type == V_STR && uni_count(v.u.s, v.n) == 1)
			return add_padded(r, t, v.u.s, v.n, f, '>');
		if (!val_is_int(v))
			return tmpl_error(r, "%%c needs a character");
		return add_char(r, t, val_whole(v), f, '>');
	}
	if (c == 'd' || c == 'i' || c == 'u') {
		if (!val_is_number(v))
			return val_refuse(r, "a number's format", v);
		if (v.type == V_FLOAT && (isnan(v.u.f) || fabs(v.u.f) >= 9.2e18))
			return tmpl_error(r, "an integer of more than 64 bits");
		return add_int(r, t, v.type == V_FLOAT ? (int64_t)v.u.f : val_whole(v), f);
	}
	if (c == 'x' || c == 'X' || c == 'o') {
		if (!val_is_int(v))
			return val_refuse(r, "an integer's format", v);
		return add_int(r, t, val_whole(v), f);
	}
	if (!val_is_number(v))
		return val_refuse(r, "a number's format", v);
	return add_float(r, t, val_number(v), f);
}

static int64_t read_count(struct run *r, const char *s, size_t n, size_t *at, struct percent *p)
{
	int64_t v = 0;
	if (*at < n && s[*at] == '*') {
		++*at;
		const struct val a = next_arg(r, p);
		if (a.type != V_INT)
			tmpl_error(r, "the width * of a format must be an integer");
		v = a.type == V_INT ? a.u.i : 0;
	} else {
		while (*at < n && s[*at] >= '0' && s[*at] <= '9' && v <= WIDTH_MAX)
			v = v * 10 + (s[(*at)++] - '0');
	}
	if (v > WIDTH_MAX || v < -WIDTH_MAX)
		tmpl_fail(r, COHORT_E_LIMIT, "a width of more than %d", WIDTH_MAX);
	return r->failed ? 0 : v;
}

struct val format_percent(struct run *r, struct val fmt, struct val args)
{
	struct bytes t = {0};
	struct percent p = {args, 0, args.type == V_TUPLE, false};
	const char *s = fmt.u.s;
	const size_t n = fmt.n;

	tmpl_charge(r, n / 16);
	for (size_t at = 0; at < n && !r->failed;) {
		if (s[at] != '%') {
			buf_add(r, &t, s + at++, 1);
			continue;
		}
		if (!tmpl_charge(r, 1))
			break;
		struct spec f = {.precision = -1};
		struct val v = val_missing;
		if (++at < n && s[at] == '(') {
			size_t end = ++at, depth = 1;
			while (end < n && depth) {
				depth += s[end] == '(';
				depth -= s[end] == ')';
				end++;
			}
			if (depth) {
				tmpl_error(r, "the name of a field has no end");
				break;
			}
			if (args.type != V_DICT) {
				tmpl_error(r, "fields with names need a dict");
				break;
			}
			const struct val key = val_bytes(s + at, end - 1 - at);
			v = dict_get(r, args.u.dict, key, false);
			if (v.type == V_MISSING)
				tmpl_error(r, "no value for the field '%.*s'", (int)(key.n < 60 ? key.n : 60), key.u.s);
			p.used = true;
			at = end;
		}
		for (; at < n && s[at] && strchr("-+ #0", s[at]); at++) {
			f.align = s[at] == '-' ? '<' : f.align;
			f.alternate |= s[at] == '#';
			f.zero |= s[at] == '0';
			f.sign = s[at] == '+' ? '+' : s[at] == ' ' && !f.sign ? ' ' : f.sign;
		}
		f.width = read_count(r, s, n, &at, &p);
		if (f.width < 0) {
			f.align = '<';
			f.width = -f.width;
		}
		if (at < n && s[at] == '.') {
			at++;
			f.precision = read_count(r, s, n, &at, &p);
			f.precision = f.precision < 0 ? 0 : f.precision;
		}
		while (at < n && (s[at] == 'h' || s[at] == 'l' || s[at] == 'L'))
			at++;
		if (at >= n) {
			tmpl_error(r, "a field without a format");
			break;
		}
		f.type = s[at++];
		if (f.type == '%') {
			buf_add(r, &t, "%", 1);
			continue;
		}
		if (!f.type || !strchr("diuxXoeEfFgGcrsa", f.type)) {
			tmpl_error(r, "no format is called '%c'", f.type >= ' ' && f.type < 127 ? f.type : '?');
			break;
		}
		if (v.type == V_MISSING)
			v = next_arg(r, &p);
		if (!r->failed)
			add_percent(r, &t, v, &f);
	}
	const bool rest = p.is_tuple ? p.at < args.n
				     : !p.used && args.type != V_DICT && args.type != V_LIST && args.type != V_RANGE &&
					args.type != V_UNDEF && args.type != V_NS;
	if (!r->failed && rest)
		tmpl_error(r, "more values than fields");
	return buf_val(r, &t);
}

/* ---- str.format ---- */

static bool read_spec(struct run *r, struct val s, struct spec *f)
{
	uint32_t cp = 0;
	size_t at = 0;

	*f = (struct spec){.precision = -1};
	if (s.n) {
		const uint32_t k = uni_decode(s.u.s, s.n, &cp);
		if (k < s.n && s.u.s[k] && strchr("<>=^", s.u.s[k])) {
			f->fill = cp;
			f->align = s.u.s[k];
			at = k + 1;
		} else if (s.u.s[0] && strchr("<>=^", s.u.s[0])) {
			f->align = s.u.s[0];
			at = 1;
		}
	}
	if (at < s.n && s.u.s[at] && strchr("+- ", s.u.s[at]))
		f->sign = s.u.s[at++];
	if (at < s.n && s.u.s[at] == '#') {
		f->alternate = true;
		at++;
	}
	if (at < s.n && s.u.s[at] == '0') {
		f->zero = true;
		at++;
	}
	struct percent none = {0};
	if (at < s.n && s.u.s[at] != '*')
		f->width = read_count(r, s.u.s, s.n, &at, &none);
	if (at < s.n && (s.u.s[at] == ',' || s.u.s[at] == '_'))
		f->group = s.u.s[at++];
	if (at < s.n && s.u.s[at] == '.') {
		at++;
		if (at >= s.n || s.u.s[at] < '0' || s.u.s[at] > '9')
			return tmpl_error(r, "a format whose precision is missing");
		f->precision = read_count(r, s.u.s, s.n, &at, &none);
	}
	if (at < s.n)
		f->type = s.u.s[at++];
	if (f->zero && !f->fill)
		f->fill = '0';
	if (f->group && f->type && (strchr("ncs", f->type) || (f->group == ',' && strchr("boxX", f->type))))
		return tmpl_error(r, "a format cannot have both '%c' and '%c'", f->group, f->type);
	return at == s.n ? !r->failed : tmpl_error(r, "a malformed format");
}

static bool add_formatted(struct run *r, struct bytes *t, struct val v, struct val spec)
{
	struct spec f;

	if (!spec.n)
		return show_str(r, t, v);
	if (v.type == V_UNDEF || v.type == V_NONE || v.type > V_STR)
		return val_refuse(r, "a format", v);
	if (!read_spec(r, spec, &f))
		return false;
	if (v.type == V_STR) {
		if ((f.type && f.type != 's') || f.align == '=' || f.sign || f.group || f.alternate)
			return tmpl_error(r, "a format that is not for texts");
		const size_t n = f.precision >= 0 ? uni_offset(v.u.s, v.n, (size_t)f.precision) : v.n;
		return add_padded(r, t, v.u.s, n, &f, '<');
	}
	const bool floats = f.type && strchr("eEfFgG%", f.type);
	if (v.type == V_FLOAT || floats) {
		if (f.type && !floats && f.type != 'n')
			return tmpl_error(r, "the format '%c' is not for floats", f.type);
		return add_float(r, t, val_number(v), &f);
	}
	if (f.type && !strchr("bcdnoxX", f.type))
		return tmpl_error(r, "the format '%c' is not for integers", f.type);
	if (f.precision >= 0)
		return tmpl_error(r, "a format of integers has no precision");
	const int64_t i = val_whole(v);
	if (f.type == 'c') {
		if (f.sign)
			return tmpl_error(r, "a format of characters has no sign");
		return add_char(r, t, i, &f, '<');
	}
	return add_int(r, t, i, &f);
}

struct braces {
	const struct args *args;
	const struct dict *map; /* format_map */
	size_t next;
	bool counted, named;
};

/* The value of "name.attr[item]". */
static struct val field_value(struct run *r, struct val f, struct braces *b)
{
	size_t at = 0;
	while (at < f.n && f.u.s[at] != '.' && f.u.s[at] != '[')
		at++;
	struct val v = val_missing, first = val_bytes(f.u.s, at);
	int64_t i = -1;
	bool overflow = false;
	if (!at) {
		i = (int64_t)b->next++;
		b->counted = true;
	} else if (first.u.s[0] >= '0' && first.u.s[0] <= '9') {
		b->named = num_int(first.u.s, first.n, 10, &i, &overflow);
		i = overflow ? INT64_MAX : i;
	}
	if (b->counted && b->named)
		return tmpl_error(r, "fields with numbers and fields without"), val_none;
	if (i >= 0) {
		if (!b->args || (uint64_t)i >= b->args->n_pos)
			return tmpl_error(r, "no value for field %lld", (long long)i), val_none;
		v = b->args->pos[i];
	} else if (b->map) {
		v = dict_get(r, b->map, first, false);
	} else {
		for (size_t k = 0; k < b->args->n_kw && tmpl_charge(r, k % 16 == 0); k++)
			if (val_eq(r, b->args->kw[k].name, first))
				v = b->args->kw[k].value;
	}
	if (v.type == V_MISSING)
		return tmpl_error(r, "no value for the field '%.*s'", (int)(first.n < 60 ? first.n : 60), first.u.s),
		       val_none;
	while (at < f.n && !r->failed) {
		const bool attr = f.u.s[at++] == '.';
		const size_t from = at;
		while (at < f.n && (attr ? f.u.s[at] != '.' && f.u.s[at] != '[' : f.u.s[at] != ']'))
			at++;
		const struct val name = val_bytes(f.u.s + from, at - from);
		if (!name.n || (!attr && at >= f.n))
			return tmpl_error(r, "a field whose attribute is missing"), val_none;
		if (attr) {
			v = op_attr(r, v, name);
		} else {
			at++;
			v = op_item(r, v, num_int(name.u.s, name.n, 10, &i, &overflow) && i >= 0 ? val_int(i) : name);
		}
	}
	return v;
}

static bool add_braces(struct run *r, struct bytes *t, struct val fmt, struct braces *b, int depth)
{
	const char *s = fmt.u.s;

	if (depth > 2)
		return tmpl_error(r, "fields within the formats of fields");
	for (size_t at = 0; at < fmt.n && !r->failed;) {
		const char c = s[at++];
		if (c != '{' && c != '}') {
			buf_add(r, t, &c, 1);
			continue;
		}
		if (at < fmt.n && s[at] == c) {
			buf_add(r, t, &c, 1);
			at++;
			continue;
		}
		if (c == '}')
			return tmpl_error(r, "a '}' that closes no field");
		if (!tmpl_charge(r, 1))
			return false;
		const size_t from = at;
		size_t level = 1, colon = 0, bang = 0;
		for (; at < fmt.n; at++) {
			level += s[at] == '{';
			level -= s[at] == '}';
			if (!level)
				break;
			if (level == 1 && s[at] == ':' && !colon)
				colon = at;
			if (level == 1 && s[at] == '!' && !colon && !bang)
				bang = at;
		}
		if (at >= fmt.n)
			return tmpl_error(r, "a field without its '}'");
		const size_t end = at++;
		const size_t name_end = bang ? bang : colon ? colon : end;
		struct val v = field_value(r, val_bytes(s + from, name_end - from), b);
		if (bang && !r->failed) {
			const char conv = bang + 1 < end ? s[bang + 1] : 0;
			struct bytes shown = {0};
			if (!show_as(r, &shown, v, conv))
				tmpl_error(r, "a field has !r, !s or !a, or none");
			if ((colon ? colon : end) != bang + 2)
				tmpl_error(r, "nothing but ':' follows !r, !s or !a");
			v = buf_val(r, &shown);
		}
		struct bytes spec = {0};
		if (colon)
			add_braces(r, &spec, val_bytes(s + colon + 1, end - colon - 1), b, depth + 1);
		const struct val sv = buf_val(r, &spec);
		if (!r->failed)
			add_formatted(r, t, v, sv);
	}
	return !r->failed;
}

struct val format_braces(struct run *r, struct val fmt, const struct args *a, const struct dict *map)
{
	struct bytes t = {0};
	struct braces b = {a, map, 0, false, false};
	tmpl_charge(r, fmt.n / 16);
	add_braces(r, &t, fmt, &b, 1);
	return buf_val(r, &t);
}

/* ---- Time ---- */

/* Numbers as the pattern has them: a letter for each digit, and what stands between them. false: s is otherwise. */
static bool read_digits(const char *s, const char *pattern, int out[3])
{
	for (; *pattern; s++, pattern++) {
		if (*pattern < 'a') {
			if (*s != *pattern)
				return false;
		} else {
			if (*s < '0' || *s > '9')
				return false;
			out[*pattern - 'a'] = out[*pattern - 'a'] * 10 + (*s - '0');
		}
	}
	return true;
}

bool time_read(const char *s, struct tm *out)
{
	static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	int day[3] = {0}, at[3] = {0};

	if (!read_digits(s, "aaaa-bb-cc", day))
		return false;
	if (s[10] && ((s[10] != 'T' && s[10] != ' ') || !read_digits(s + 11, "aa:bb:cc", at) || s[19]))
		return false;
	const int y = day[0], m = day[1], d = day[2], h = at[0], min = at[1], sec = at[2];
	const bool leap = (y % 4 == 0 && y % 100 != 0) || y % 400 == 0;
	if (y < 1 || m < 1 || m > 12 || d < 1 || d > days[m - 1] + (m == 2 && leap) || h < 0 || h > 23 || min < 0 ||
			min > 59 || sec < 0 || sec > 59)
		return false;
	int yday = d - 1 + (leap && m > 2);
	for (int i = 0; i < m - 1; i++)
		yday += days[i];
	const int before = (y - 1) * 365 + (y - 1) / 4 - (y - 1) / 100 + (y - 1) / 400; /* day 1 was a Monday */
	*out = (struct tm){.tm_year = y - 1900,
			.tm_mon = m - 1,
			.tm_mday = d,
			.tm_hour = h,
			.tm_min = min,
			.tm_sec = sec,
			.tm_yday = yday,
			.tm_wday = (before + yday + 1) % 7};
	return true;
}

static bool add_time(struct run *r, struct bytes *t, const struct tm *tm, char c, char flag)
{
	static const char *const months[] = {"January", "February", "March", "April", "May", "June", "July", "August",
			"September", "October", "November", "December"};
	static const char *const days[] = {
			"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"};
	const int y = tm->tm_year + 1900, h12 = tm->tm_hour % 12 ? tm->tm_hour % 12 : 12;
	const int w_sun = (tm->tm_yday + 7 - tm->tm_wday) / 7, w_mon = (tm->tm_yday + 7 - (tm->tm_wday + 6) % 7) / 7;
	const char *name = NULL, *parts = NULL;
	int v = 0, width = 2;
	char fill = '0', buf[32];

	if (!tmpl_charge(r, 1))
		return false;
	switch (c) {
	case 'Y': v = y, width = 1; break;
	case 'y': v = y % 100; break;
	case 'C': v = y / 100; break;
	case 'm': v = tm->tm_mon + 1; break;
	case 'd': v = tm->tm_mday; break;
	case 'e': v = tm->tm_mday, fill = ' '; break;
	case 'H': v = tm->tm_hour; break;
	case 'k': v = tm->tm_hour, fill = ' '; break;
	case 'I': v = h12; break;
	case 'l': v = h12, fill = ' '; break;
	case 'M': v = tm->tm_min; break;
	case 'S': v = tm->tm_sec; break;
	case 'f': v = 0, width = 6; break;
	case 'j': v = tm->tm_yday + 1, width = 3; break;
	case 'u': v = tm->tm_wday ? tm->tm_wday : 7, width = 1; break;
	case 'w': v = tm->tm_wday, width = 1; break;
	case 'U': v = w_sun; break;
	case 'W': v = w_mon; break;
	case 'B': name = months[tm->tm_mon]; break;
	case 'A': name = days[tm->tm_wday]; break;
	case 'b':
	case 'h': return buf_add(r, t, months[tm->tm_mon], 3);
	case 'a': return buf_add(r, t, days[tm->tm_wday], 3);
	case 'p': name = tm->tm_hour < 12 ? "AM" : "PM"; break;
	case 'P': name = tm->tm_hour < 12 ? "am" : "pm"; break;
	case 'Z':
	case 'z': name = ""; break;
	case 'n': name = "\n"; break;
	case 't': name = "\t"; break;
	case '%': name = "%"; break;
	case 'F': parts = "Y-m-d"; break;
	case 'T': parts = "H:M:S"; break;
	case 'X': parts = "H:M:S"; break;
	case 'R': parts = "H:M"; break;
	case 'D':
	case 'x': parts = "m/d/y"; break;
	case 'r': parts = "I:M:S p"; break;
	case 'c': parts = "a b e H:M:S Y"; break;
	default: {
		const char as_is[2] = {'%', c};
		return buf_add(r, t, as_is, 2);
	}
	}
	if (name)
		return buf_addz(r, t, name);
	for (; parts && *parts; parts++) {
		if ((*parts >= 'a' && *parts <= 'z') || (*parts >= 'A' && *parts <= 'Z'))
			add_time(r, t, tm, *parts, 0);
		else
			buf_add(r, t, parts, 1);
	}
	if (parts)
		return !r->failed;
	if (flag == '-')
		width = 1;
	if (flag == '_')
		fill = ' ';
	if (flag == '0')
		fill = '0';
	snprintf(buf, sizeof buf, fill == ' ' ? "%*d" : "%0*d", width, v);
	return buf_addz(r, t, buf);
}

struct val format_time(struct run *r, const struct tm *tm, struct val fmt)
{
	struct bytes t = {0};
	tmpl_charge(r, fmt.n / 16);
	for (uint32_t i = 0; i < fmt.n && !r->failed; i++) {
		if (fmt.u.s[i] != '%' || i + 1 >= fmt.n) {
			buf_add(r, &t, fmt.u.s + i, 1);
			continue;
		}
		char flag = 0;
		if (i + 2 < fmt.n && fmt.u.s[i + 1] && strchr("-_0", fmt.u.s[i + 1]))
			flag = fmt.u.s[++i];
		add_time(r, &t, tm, fmt.u.s[++i], flag);
	}
	return buf_val(r, &t);
}
