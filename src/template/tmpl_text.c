/* Values as text: str(), repr(), escaped for HTML, pretty-printed. */
#include "template/tmpl.h"

#include <stdio.h>
#include <string.h>

/* ---- repr ---- */

static bool repr_str(struct run *r, struct bytes *t, struct val v, bool ascii)
{
	const bool has_single = v.n && memchr(v.u.s, '\'', v.n), has_double = v.n && memchr(v.u.s, '"', v.n);
	const char quote = has_single && !has_double ? '"' : '\'';
	char buf[16];
	uint32_t cp, k;

	if (!tmpl_charge(r, v.n / 16))
		return false;
	buf_add(r, t, &quote, 1);
	for (uint32_t i = 0; i < v.n && !r->failed; i += k) {
		k = uni_decode(v.u.s + i, v.n - i, &cp);
		if (cp == (uint8_t)quote || cp == '\\') {
			buf_add(r, t, "\\", 1);
			buf_add(r, t, v.u.s + i, 1);
		} else if (cp == '\n' || cp == '\r' || cp == '\t') {
			buf_addz(r, t, cp == '\n' ? "\\n" : cp == '\r' ? "\\r" : "\\t");
		} else if ((cp >= ' ' && cp < 0x7f) || (cp >= 0x80 && !ascii && uni_is_printable(cp))) {
			buf_add(r, t, v.u.s + i, k);
		} else {
			snprintf(buf, sizeof buf, cp < 0x100 ? "\\x%02x" : cp < 0x10000 ? "\\u%04x" : "\\U%08x", cp);
			buf_addz(r, t, buf);
		}
	}
	return buf_add(r, t, &quote, 1);
}

static bool repr_items(struct run *r, struct bytes *t, struct val v, bool ascii)
{
	struct iter it;
	struct val item;
	bool first = true;

	if (!iter_init(r, &it, v))
		return false;
	while (iter_next(r, &it, &item)) {
		if (!first)
			buf_addz(r, t, ", ");
		first = false;
		show_repr(r, t, item, ascii);
	}
	return !r->failed;
}

static bool repr_dict(struct run *r, struct bytes *t, const struct dict *d, bool ascii)
{
	buf_addz(r, t, "{");
	for (uint32_t i = 0; i < d->n && tmpl_charge(r, 1); i++) {
		if (i)
			buf_addz(r, t, ", ");
		show_repr(r, t, d->pairs[i].key, ascii);
		buf_addz(r, t, ": ");
		show_repr(r, t, d->pairs[i].value, ascii);
	}
	return buf_addz(r, t, "}");
}

static bool repr_inside(struct run *r, struct bytes *t, struct val v, bool ascii)
{
	char buf[NUM_BYTES];

	switch ((enum val_type)v.type) {
	case V_UNDEF: return buf_addz(r, t, "Undefined");
	case V_BOOL: return buf_addz(r, t, v.u.b ? "True" : "False");
	case V_INT: return buf_add(r, t, buf, num_dec(v.u.i, buf));
	case V_FLOAT: return tmpl_charge(r, FLOAT_STEPS) && buf_add(r, t, buf, num_repr(v.u.f, buf));
	case V_STR:
		if (!(v.flag & F_MARKUP))
			return repr_str(r, t, v, ascii);
		return buf_addz(r, t, "Markup(") && repr_str(r, t, v, ascii) && buf_addz(r, t, ")");
	case V_LIST: return buf_addz(r, t, "[") && repr_items(r, t, v, ascii) && buf_addz(r, t, "]");
	case V_TUPLE: return buf_addz(r, t, "(") && repr_items(r, t, v, ascii) && buf_addz(r, t, v.n == 1 ? ",)" : ")");
	case V_DICT: return repr_dict(r, t, v.u.dict, ascii);
	case V_RANGE:
		buf_addz(r, t, "range(");
		buf_add(r, t, buf, num_dec(v.u.range->start, buf));
		buf_addz(r, t, ", ");
		buf_add(r, t, buf, num_dec(v.u.range->stop, buf));
		if (v.u.range->step != 1) {
			buf_addz(r, t, ", ");
			buf_add(r, t, buf, num_dec(v.u.range->step, buf));
		}
		return buf_addz(r, t, ")");
	case V_VIEW:
		return buf_addz(r, t, val_type_name(v)) && buf_addz(r, t, "([") && repr_items(r, t, v, ascii) &&
				buf_addz(r, t, "])");
	case V_NS: return buf_addz(r, t, "<Namespace ") && repr_dict(r, t, v.u.dict, ascii) && buf_addz(r, t, ">");
	case V_MACRO: return buf_addz(r, t, "<Macro ") && repr_str(r, t, v.u.macro->name, ascii) && buf_addz(r, t, ">");
	case V_LOOP: return show_loop(r, t, v.u.loop);
	case V_ITER:
	case V_FUNC:
	case V_CYCLER:
	case V_JOINER:
		buf_addz(r, t, "<");
		buf_addz(r, t, val_type_name(v));
		return buf_addz(r, t, " object>");
	default: return buf_addz(r, t, "None");
	}
}

bool show_repr(struct run *r, struct bytes *t, struct val v, bool ascii)
{
	if (!tmpl_charge(r, 1) || !tmpl_enter(r))
		return false;
	const bool ok = repr_inside(r, t, v, ascii);
	tmpl_leave(r);
	return ok && !r->failed;
}

/* ---- str ---- */

bool show_str(struct run *r, struct bytes *t, struct val v)
{
	if (v.type == V_STR)
		return tmpl_charge(r, v.n / 64) && buf_add(r, t, v.u.s, v.n);
	if (v.type == V_UNDEF || v.type == V_MISSING)
		return !r->failed;
	return show_repr(r, t, v, false);
}

struct val val_str(struct run *r, struct val v)
{
	struct bytes t = {0};
	if (v.type == V_STR)
		return val_bytes(v.u.s, v.n);
	show_str(r, &t, v);
	return buf_val(r, &t);
}

/* ---- HTML ---- */

bool show_escaped(struct run *r, struct bytes *t, struct val v)
{
	if (v.type == V_STR && v.flag & F_MARKUP)
		return buf_add(r, t, v.u.s, v.n);
	const struct val s = val_str(r, v);
	if (!tmpl_charge(r, s.n / 16))
		return false;
	for (uint32_t i = 0; i < s.n && !r->failed; i++)
		switch (s.u.s[i]) {
		case '&': buf_addz(r, t, "&amp;"); break;
		case '<': buf_addz(r, t, "&lt;"); break;
		case '>': buf_addz(r, t, "&gt;"); break;
		case '"': buf_addz(r, t, "&#34;"); break;
		case '\'': buf_addz(r, t, "&#39;"); break;
		default: buf_add(r, t, s.u.s + i, 1); break;
		}
	return !r->failed;
}

struct val val_escape(struct run *r, struct val v)
{
	struct bytes t = {0};
	show_escaped(r, &t, v);
	v = buf_val(r, &t);
	v.flag = F_MARKUP;
	return v;
}

/* ---- Pretty: as on one line where that fits 80 columns, else one element a line ---- */

/* The value with the keys of its dicts in order, if they have one. */
static struct val in_order(struct run *r, struct val v)
{
	if (v.type == V_LIST || v.type == V_TUPLE) {
		struct val out = val_list(r, (enum val_type)v.type, v.n, v.u.items);
		if (r->failed || !tmpl_charge(r, v.n) || !tmpl_enter(r))
			return v;
		for (uint32_t i = 0; i < v.n; i++)
			out.u.items[i] = in_order(r, v.u.items[i]);
		tmpl_leave(r);
		return out;
	}
	if (v.type != V_DICT)
		return v;
	const struct dict *d = v.u.dict;
	struct val *keys = tmpl_alloc(r, d->n, sizeof *keys), *values = tmpl_alloc(r, d->n, sizeof *values);
	struct val out = val_dict(r);
	if (r->failed || !tmpl_enter(r))
		return v;
	bool comparable = true;
	for (uint32_t i = 0; i < d->n; i++) {
		keys[i] = d->pairs[i].key;
		values[i] = in_order(r, d->pairs[i].value);
		comparable &= keys[i].type == keys[0].type && (keys[0].type == V_STR || val_is_number(keys[0]));
	}
	if (comparable)
		val_sort(r, keys, values, d->n, false);
	for (uint32_t i = 0; i < d->n; i++)
		dict_set(r, out.u.dict, keys[i], values[i]);
	tmpl_leave(r);
	return out;
}

static bool pretty(struct run *r, struct bytes *t, struct val v, size_t indent, size_t allowance)
{
	enum { WIDTH = 80 };
	struct bytes line = {0};

	if (!tmpl_enter(r))
		return false;
	show_repr(r, &line, v, false);
	const bool fits = uni_count(line.p ? line.p : "", line.n) + indent + allowance <= WIDTH;
	const uint32_t n = v.type == V_DICT ? v.u.dict->n : v.type == V_LIST || v.type == V_TUPLE ? v.n : 0;
	if (fits || !n || r->failed)
		buf_add(r, t, line.p, line.n);
	bytes_release(&line);
	if (!fits && n && !r->failed) {
		buf_addz(r, t, v.type == V_DICT ? "{" : v.type == V_LIST ? "[" : "(");
		for (uint32_t i = 0; i < n && !r->failed; i++) {
			size_t in = indent + 1;
			if (i) {
				buf_addz(r, t, ",\n");
				buf_fill(r, t, ' ', in);
			}
			if (v.type == V_DICT) {
				show_repr(r, &line, v.u.dict->pairs[i].key, false);
				in += uni_count(line.p ? line.p : "", line.n) + 2;
				buf_add(r, t, line.p, line.n);
				bytes_release(&line);
				buf_addz(r, t, ": ");
			}
			pretty(r, t, v.type == V_DICT ? v.u.dict->pairs[i].value : v.u.items[i], in,
					i + 1 < n ? 1 : allowance + 1);
		}
		buf_addz(r, t, v.type == V_DICT ? "}" : v.type == V_LIST ? "]" : n == 1 ? ",)" : ")");
	}
	tmpl_leave(r);
	return !r->failed;
}

bool show_pretty(struct run *r, struct bytes *t, struct val v)
{
	return pretty(r, t, in_order(r, v), 0, 0);
}
