/* JSON to values and back. Reading keeps the order of keys, tells integers from floats, and refuses what is not JSON
 * with its place; writing is Python's json.dumps.
 *
 * Invariants
 *  1. Depth is bounded by the run's, size by its memory. */
#include "template/tmpl.h"

#include "base/utf8.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- Writing ---- */

static bool write_str(struct run *r, struct bytes *t, struct val v, bool ascii)
{
	static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
	char buf[16];
	uint32_t cp, k;

	if (!tmpl_charge(r, v.n / 16))
		return false;
	buf_addz(r, t, "\"");
	for (uint32_t i = 0; i < v.n && !r->failed; i += k) {
		k = uni_decode(v.u.s + i, v.n - i, &cp);
		const char *known = cp && cp < 0x80 ? strchr(from, (int)cp) : NULL;
		if (known) {
			const char two[2] = {'\\', to[known - from]};
			buf_add(r, t, two, 2);
		} else if (cp < ' ' || (ascii && cp > 0x7e)) {
			if (cp >= 0x10000)
				snprintf(buf, sizeof buf, "\\u%04x\\u%04x", 0xd7c0 + (cp >> 10), 0xdc00 | (cp & 0x3ff));
			else
				snprintf(buf, sizeof buf, "\\u%04x", cp);
			buf_addz(r, t, buf);
		} else {
			buf_add(r, t, v.u.s + i, k);
		}
	}
	return buf_addz(r, t, "\"");
}

static bool write_float(struct run *r, struct bytes *t, double f)
{
	char buf[NUM_BYTES];
	if (isnan(f))
		return buf_addz(r, t, "NaN");
	if (isinf(f))
		return buf_addz(r, t, f < 0 ? "-Infinity" : "Infinity");
	return tmpl_charge(r, FLOAT_STEPS) && buf_add(r, t, buf, num_repr(f, buf));
}

static bool new_line(struct run *r, struct bytes *t, const struct json_style *style, size_t level)
{
	if (!style->pretty)
		return !r->failed;
	buf_addz(r, t, "\n");
	for (size_t i = 0; i < level && tmpl_charge(r, 1); i++)
		buf_add(r, t, style->indent.u.s, style->indent.n);
	return !r->failed;
}

static bool write_any(struct run *r, struct bytes *t, struct val v, const struct json_style *style, size_t level);

static bool write_key(struct run *r, struct bytes *t, struct val k, const struct json_style *style)
{
	if (k.type == V_STR)
		return write_str(r, t, k, style->ascii);
	if (k.type != V_NONE && !val_is_number(k))
		return val_refuse(r, "JSON's key", k);
	return buf_addz(r, t, "\"") && write_any(r, t, k, style, 0) && buf_addz(r, t, "\"");
}

static bool write_dict(
		struct run *r, struct bytes *t, const struct dict *d, const struct json_style *style, size_t level)
{
	const struct pair *pairs = d->pairs;

	if (!d->n)
		return buf_addz(r, t, "{}");
	if (style->sorted) {
		struct val *keys = tmpl_alloc(r, d->n, sizeof *keys), *values = tmpl_alloc(r, d->n, sizeof *values);
		struct pair *sorted = tmpl_alloc(r, d->n, sizeof *sorted);
		if (!sorted || !keys || !values)
			return false;
		for (uint32_t i = 0; i < d->n; i++) {
			keys[i] = pairs[i].key;
			values[i] = pairs[i].value;
		}
		if (!val_sort(r, keys, values, d->n, false))
			return false;
		for (uint32_t i = 0; i < d->n; i++)
			sorted[i] = (struct pair){keys[i], values[i], 0};
		pairs = sorted;
	}
	buf_addz(r, t, "{");
	for (uint32_t i = 0; i < d->n && !r->failed; i++) {
		if (i)
			buf_add(r, t, style->item_sep.u.s, style->item_sep.n);
		new_line(r, t, style, level + 1);
		write_key(r, t, pairs[i].key, style);
		buf_add(r, t, style->key_sep.u.s, style->key_sep.n);
		write_any(r, t, pairs[i].value, style, level + 1);
	}
	new_line(r, t, style, level);
	return buf_addz(r, t, "}");
}

static bool write_any(struct run *r, struct bytes *t, struct val v, const struct json_style *style, size_t level)
{
	char buf[32];
	bool ok;

	if (!tmpl_charge(r, 1) || !tmpl_enter(r))
		return false;
	switch ((enum val_type)v.type) {
	case V_NONE: ok = buf_addz(r, t, "null"); break;
	case V_BOOL: ok = buf_addz(r, t, v.u.b ? "true" : "false"); break;
	case V_INT: ok = buf_add(r, t, buf, num_dec(v.u.i, buf)); break;
	case V_FLOAT: ok = write_float(r, t, v.u.f); break;
	case V_STR: ok = write_str(r, t, v, style->ascii); break;
	case V_DICT: ok = write_dict(r, t, v.u.dict, style, level); break;
	case V_LIST:
	case V_TUPLE:
		buf_addz(r, t, "[");
		for (uint32_t i = 0; i < v.n && !r->failed; i++) {
			if (i)
				buf_add(r, t, style->item_sep.u.s, style->item_sep.n);
			new_line(r, t, style, level + 1);
			write_any(r, t, v.u.items[i], style, level + 1);
		}
		if (v.n)
			new_line(r, t, style, level);
		ok = buf_addz(r, t, "]");
		break;
	default: ok = val_refuse(r, "JSON", v); break;
	}
	tmpl_leave(r);
	return ok && !r->failed;
}

bool json_write(struct run *r, struct bytes *t, struct val v, const struct json_style *style)
{
	return write_any(r, t, v, style, 0);
}

/* ---- Reading ---- */

struct reader {
	struct run *r;
	const char *s, *what;
	size_t n, at;
};

static struct val bad(struct reader *j, const char *why)
{
	tmpl_fail(j->r, COHORT_E_FORMAT, "%s is not JSON: %s at byte %zu", j->what, why, j->at);
	return val_none;
}

static void skip_blanks(struct reader *j)
{
	while (j->at < j->n &&
			(j->s[j->at] == ' ' || j->s[j->at] == '\t' || j->s[j->at] == '\n' || j->s[j->at] == '\r'))
		j->at++;
}

static bool skip(struct reader *j, char c)
{
	skip_blanks(j);
	if (j->at >= j->n || j->s[j->at] != c)
		return false;
	j->at++;
	return true;
}

static bool read_hex(struct reader *j, uint32_t *out)
{
	*out = 0;
	for (int i = 0; i < 4; i++, j->at++) {
		const int d = j->at < j->n ? hex_digit(j->s[j->at]) : -1;
		if (d < 0)
			return false;
		*out = *out << 4 | (uint32_t)d;
	}
	return true;
}

static bool read_escape(struct reader *j, struct bytes *t)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	const char c = j->at < j->n ? j->s[j->at++] : 0;
	const char *known = c ? strchr(from, c) : NULL;
	uint32_t cp, low;

	if (known)
		return buf_add(j->r, t, &to[known - from], 1);
	if (c != 'u' || !read_hex(j, &cp))
		return bad(j, "a malformed escape"), false;
	if (cp >= 0xd800 && cp < 0xdc00 && j->at + 1 < j->n && j->s[j->at] == '\\' && j->s[j->at + 1] == 'u') {
		j->at += 2;
		if (!read_hex(j, &low) || low < 0xdc00 || low > 0xdfff)
			return bad(j, "half a surrogate pair"), false;
		cp = 0x10000 + ((cp - 0xd800) << 10) + (low - 0xdc00);
	}
	if (cp >= 0xd800 && cp <= 0xdfff)
		return bad(j, "half a surrogate pair"), false;
	return buf_char(j->r, t, cp);
}

static struct val read_str(struct reader *j)
{
	struct bytes t = {0};
	size_t from = j->at;

	while (j->at < j->n && j->s[j->at] != '"' && !j->r->failed) {
		if ((uint8_t)j->s[j->at] < ' ') {
			bytes_release(&t);
			return bad(j, "a control character in a string");
		}
		if (j->s[j->at] != '\\') {
			j->at++;
			continue;
		}
		buf_add(j->r, &t, j->s + from, j->at - from);
		j->at++;
		read_escape(j, &t);
		from = j->at;
	}
	if (j->at >= j->n) {
		bytes_release(&t);
		return bad(j, "a string without end");
	}
	buf_add(j->r, &t, j->s + from, j->at - from);
	j->at++;
	return buf_val(j->r, &t);
}

static struct val read_number(struct reader *j)
{
	const size_t from = j->at;
	bool is_float = false, overflow;
	int64_t i;
	double f;

	j->at += j->s[j->at] == '-';
	const size_t digits = j->at;
	while (j->at < j->n && j->s[j->at] >= '0' && j->s[j->at] <= '9')
		j->at++;
	if (j->at == digits || (j->s[digits] == '0' && j->at > digits + 1))
		return bad(j, "a malformed number");
	while (j->at < j->n && j->s[j->at] && strchr("0123456789.eE+-", j->s[j->at])) {
		is_float = true;
		j->at++;
	}
	if (j->s[j->at - 1] == '.' || (is_float && !num_float(j->s + from, j->at - from, &f)))
		return bad(j, "a malformed number");
	if (is_float)
		return val_float(f);
	if (!num_int(j->s + from, j->at - from, 10, &i, &overflow)) {
		tmpl_fail(j->r, COHORT_E_LIMIT, "%s: an integer of more than 64 bits at byte %zu", j->what, from);
		return val_none;
	}
	return val_int(i);
}

static bool read_word(struct reader *j, const char *word)
{
	const size_t k = strlen(word);
	if (k > j->n - j->at || memcmp(j->s + j->at, word, k) != 0)
		return false;
	j->at += k;
	return true;
}

static struct val read_any(struct reader *j);

static struct val read_dict(struct reader *j)
{
	struct val d = val_dict(j->r);
	if (skip(j, '}'))
		return d;
	do {
		if (!skip(j, '"'))
			return bad(j, "expected a key");
		const struct val key = read_str(j);
		if (j->r->failed)
			return d;
		if (!skip(j, ':'))
			return bad(j, "expected ':'");
		const struct val value = read_any(j);
		if (j->r->failed || !dict_set(j->r, d.u.dict, key, value))
			return d;
	} while (skip(j, ','));
	return skip(j, '}') ? d : bad(j, "expected ',' or '}'");
}

static struct val read_list(struct reader *j)
{
	struct list l = {0};
	if (skip(j, ']'))
		return list_val(j->r, &l, V_LIST);
	do {
		list_add(j->r, &l, read_any(j));
		if (j->r->failed)
			return val_none;
	} while (skip(j, ','));
	return skip(j, ']') ? list_val(j->r, &l, V_LIST) : bad(j, "expected ',' or ']'");
}

static struct val read_any(struct reader *j)
{
	struct val v = val_none;

	skip_blanks(j);
	if (j->at >= j->n)
		return bad(j, "it ends");
	if (!tmpl_charge(j->r, 1) || !tmpl_enter(j->r))
		return val_none;
	const char c = j->s[j->at];
	if (c == '{') {
		j->at++;
		v = read_dict(j);
	} else if (c == '[') {
		j->at++;
		v = read_list(j);
	} else if (c == '"') {
		j->at++;
		v = read_str(j);
	} else if (read_word(j, "true")) {
		v = val_bool(true);
	} else if (read_word(j, "false")) {
		v = val_bool(false);
	} else if (read_word(j, "NaN")) { /* Python's reader takes these, too */
		v = val_float(NAN);
	} else if (read_word(j, "Infinity")) {
		v = val_float(INFINITY);
	} else if (read_word(j, "-Infinity")) {
		v = val_float(-INFINITY);
	} else if (c == '-' || (c >= '0' && c <= '9')) {
		v = read_number(j);
	} else if (!read_word(j, "null")) {
		bad(j, "an unexpected character");
	}
	tmpl_leave(j->r);
	return v;
}

struct val json_read(struct run *r, const char *s, size_t n, const char *what)
{
	struct reader j = {r, s, what, n, 0};

	j.at = utf8_valid_prefix(s, n);
	if (j.at < n)
		return bad(&j, "a byte that is not UTF-8");
	j.at = 0;
	const struct val v = read_any(&j);
	skip_blanks(&j);
	return !r->failed && j.at < n ? bad(&j, "something follows") : v;
}
