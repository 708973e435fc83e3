/* Methods of texts, as Python's str has them. Positions are counted in characters. */
#include "template/tmpl.h"

#include <string.h>

/* ---- Case ---- */

/* A sigma at the end of a word has a form of its own. */
static bool is_final_sigma(struct val s, uint32_t at, uint32_t k)
{
	uint32_t cp, before = 0;
	for (uint32_t i = at; i > 0;) {
		i = (uint32_t)uni_back(s.u.s, i, &before);
		if (before != '\'' && before != 0xad)
			break;
	}
	if (!before || !uni_is_cased(before))
		return false;
	if (at + k >= s.n)
		return true;
	uni_decode(s.u.s + at + k, s.n - at - k, &cp);
	return !uni_is_cased(cp);
}

struct val str_case(struct run *r, struct val s, char how)
{
	struct bytes t = {0};
	bool in_word = false;
	uint32_t cp, k, out[3];

	if (!tmpl_charge(r, s.n / 4))
		return val_none;
	for (uint32_t i = 0; i < s.n && !r->failed; i += k) {
		k = uni_decode(s.u.s + i, s.n - i, &cp);
		char to = how;
		if (how == 'c')
			to = i ? 'l' : 't';
		else if (how == 's')
			to = uni_is_upper(cp) ? 'l' : uni_is_lower(cp) ? 'u' : 0;
		else if (how == 't')
			to = in_word ? 'l' : 't';
		in_word = how == 't' && uni_is_cased(cp);
		if (to == 'l' && cp == 0x3a3 && is_final_sigma(s, i, k)) {
			buf_char(r, &t, 0x3c2);
			continue;
		}
		const size_t n = to == 'u'  ? uni_upper(cp, out)
				: to == 'l' ? uni_lower(cp, out)
				: to == 'f' ? uni_fold(cp, out)
				: to        ? uni_title(cp, out)
					    : 0;
		if (!n || (n == 1 && out[0] == cp))
			buf_add(r, &t, s.u.s + i, k);
		else
			for (size_t j = 0; j < n; j++)
				buf_char(r, &t, out[j]);
	}
	return buf_val(r, &t);
}

METHOD_IS(do_upper, str_case(r, self, 'u'))
METHOD_IS(do_lower, str_case(r, self, 'l'))
METHOD_IS(do_casefold, str_case(r, self, 'f'))
METHOD_IS(do_capitalize, str_case(r, self, 'c'))
METHOD_IS(do_title, str_case(r, self, 't'))
METHOD_IS(do_swapcase, str_case(r, self, 's'))

/* ---- What a text consists of ---- */

static bool all_are(struct run *r, struct val s, bool (*is)(uint32_t), bool when_empty)
{
	uint32_t cp;
	if (!tmpl_charge(r, s.n / 16))
		return false;
	for (uint32_t i = 0; i < s.n;) {
		i += uni_decode(s.u.s + i, s.n - i, &cp);
		if (!is(cp))
			return false;
	}
	return s.n || when_empty;
}

bool str_is_case(struct run *r, struct val s, bool (*is)(uint32_t), bool (*other)(uint32_t))
{
	bool any = false;
	uint32_t cp;
	if (!tmpl_charge(r, s.n / 16))
		return false;
	for (uint32_t i = 0; i < s.n;) {
		i += uni_decode(s.u.s + i, s.n - i, &cp);
		if (other(cp))
			return false;
		any |= is(cp);
	}
	return any;
}

static bool is_title(struct run *r, struct val s)
{
	bool any = false, in_word = false;
	uint32_t cp;
	if (!tmpl_charge(r, s.n / 16))
		return false;
	for (uint32_t i = 0; i < s.n;) {
		i += uni_decode(s.u.s + i, s.n - i, &cp);
		if (uni_is_upper(cp) ? in_word : uni_is_lower(cp) && !in_word)
			return false;
		in_word = uni_is_upper(cp) || uni_is_lower(cp);
		any |= in_word;
	}
	return any;
}

static bool is_alnum(uint32_t cp)
{
	return uni_is_alpha(cp) || uni_is_numeric(cp);
}

static bool is_ascii(uint32_t cp)
{
	return cp < 0x80;
}

METHOD_IS(do_isupper, val_bool(str_is_case(r, self, uni_is_upper, uni_is_lower)))
METHOD_IS(do_islower, val_bool(str_is_case(r, self, uni_is_lower, uni_is_upper)))
METHOD_IS(do_istitle, val_bool(is_title(r, self)))
METHOD_IS(do_isalpha, val_bool(all_are(r, self, uni_is_alpha, false)))
METHOD_IS(do_isdigit, val_bool(all_are(r, self, uni_is_digit, false)))
METHOD_IS(do_isdecimal, val_bool(all_are(r, self, uni_is_decimal, false)))
METHOD_IS(do_isnumeric, val_bool(all_are(r, self, uni_is_numeric, false)))
METHOD_IS(do_isalnum, val_bool(all_are(r, self, is_alnum, false)))
METHOD_IS(do_isspace, val_bool(all_are(r, self, uni_is_space, false)))
METHOD_IS(do_isascii, val_bool(all_are(r, self, is_ascii, true)))
METHOD_IS(do_isprintable, val_bool(all_are(r, self, uni_is_printable, true)))
METHOD_IS(do_isidentifier,
		val_bool(all_are(r, self, uni_is_word, false) && !(self.u.s[0] >= '0' && self.u.s[0] <= '9')))

/* ---- Ends ---- */

static bool in_chars(struct val chars, uint32_t cp)
{
	uint32_t c;
	if (chars.type != V_STR)
		return uni_is_space(cp);
	for (uint32_t i = 0; i < chars.n;) {
		i += uni_decode(chars.u.s + i, chars.n - i, &c);
		if (c == cp)
			return true;
	}
	return false;
}

struct val str_strip(struct run *r, struct val s, struct val chars, int sides)
{
	uint32_t from = 0, to = s.n, cp;

	if (chars.type != V_MISSING && chars.type != V_NONE && chars.type != V_STR) {
		tmpl_error(r, "what is stripped must be a text or none");
		return val_none;
	}
	if (!tmpl_charge(r, chars.type == V_STR ? s.n / 16 + chars.n : s.n / 64))
		return val_none;
	while (sides & 1 && from < to) {
		const uint32_t k = uni_decode(s.u.s + from, to - from, &cp);
		if (!in_chars(chars, cp) || !tmpl_charge(r, chars.n / 16))
			break;
		from += k;
	}
	while (sides & 2 && from < to) {
		const uint32_t at = (uint32_t)uni_back(s.u.s, to, &cp);
		if (!in_chars(chars, cp) || !tmpl_charge(r, chars.n / 16))
			break;
		to = at;
	}
	return val_bytes(s.u.s + from, to - from);
}

METHOD_IS(do_strip, str_strip(r, self, w[0], 3))
METHOD_IS(do_lstrip, str_strip(r, self, w[0], 1))
METHOD_IS(do_rstrip, str_strip(r, self, w[0], 2))

static bool begins(struct run *r, struct val s, struct val with, bool at_end)
{
	return with.n <= s.n && tmpl_charge(r, with.n / 64) &&
			(!with.n || memcmp(s.u.s + (at_end ? s.n - with.n : 0), with.u.s, with.n) == 0);
}

/* The part of a text that start and end, in characters, leave; false when start lies behind the end of the text. */
static bool cut(struct run *r, struct val *s, struct val start, struct val end, size_t *skipped)
{
	const int64_t n = (int64_t)uni_count(s->u.s, s->n);
	int64_t from = start.type == V_NONE ? 0 : arg_int(r, start, 0),
		to = end.type == V_NONE ? n : arg_int(r, end, n);

	tmpl_charge(r, s->n / 64);
	from = from < 0 ? (from < -n ? 0 : from + n) : from;
	to = to < 0 ? (to < -n ? 0 : to + n) : to > n ? n : to;
	*skipped = (size_t)from;
	if (from > n || from > to)
		return false;
	const size_t a = uni_offset(s->u.s, s->n, (size_t)from);
	*s = val_bytes(s->u.s + a, uni_offset(s->u.s + a, s->n - a, (size_t)(to - from)));
	return !r->failed;
}

static struct val with_ends(struct run *r, struct val self, const struct val w[3], const char *name, bool at_end)
{
	size_t skipped;
	bool yes = false;

	const bool inside = cut(r, &self, w[1], w[2], &skipped);
	const uint32_t n = w[0].type == V_TUPLE ? w[0].n : 1;
	for (uint32_t i = 0; i < n && !yes && tmpl_charge(r, 1); i++) {
		const struct val one = w[0].type == V_TUPLE ? w[0].u.items[i] : w[0];
		if (one.type != V_STR)
			tmpl_error(r, "%s() of '%s', which is no text", name, val_type_name(one));
		else
			yes = inside && begins(r, self, one, at_end);
	}
	return val_bool(yes);
}

METHOD_IS(do_startswith, with_ends(r, self, w, "startswith", false))
METHOD_IS(do_endswith, with_ends(r, self, w, "endswith", true))

static struct val without(struct run *r, struct val self, struct val v, bool at_end)
{
	if (!arg_str(r, v, "argument"))
		return val_none;
	if (!begins(r, self, v, at_end))
		return self;
	return val_bytes(self.u.s + (at_end ? 0 : v.n), self.n - v.n);
}

METHOD_IS(do_removeprefix, without(r, self, w[0], false))
METHOD_IS(do_removesuffix, without(r, self, w[0], true))

/* ---- Searching ---- */

/* Comparing at every place may take long when both texts are: charged as it goes. */
static const char *last_of(struct run *r, const char *s, size_t n, const char *what, size_t k)
{
	if (k > n)
		return NULL;
	for (size_t i = n - k + 1; i-- > 0;) {
		if (i % 1024 == 0 && !tmpl_charge(r, 64))
			break;
		if (!k || (s[i] == what[0] && tmpl_charge(r, k / 64) && memcmp(s + i, what, k) == 0))
			return s + i;
	}
	return NULL;
}

static struct val search(
		struct run *r, struct val self, const struct val w[3], const char *name, bool last, bool must)
{
	size_t skipped;

	if (w[0].type != V_STR)
		return tmpl_error(r, "%s() of '%s', which is no text", name, val_type_name(w[0])), val_none;
	const char *at = NULL;
	if (cut(r, &self, w[1], w[2], &skipped) && tmpl_charge(r, self.n / 16))
		at = last                ? last_of(r, self.u.s, self.n, w[0].u.s, w[0].n)
				: w[0].n ? memmem(self.u.s, self.n, w[0].u.s, w[0].n)
					 : self.u.s;
	if (at)
		return val_int((int64_t)(skipped + uni_count(self.u.s, (size_t)(at - self.u.s))));
	if (must)
		tmpl_error(r, "%s() finds nothing", name);
	return val_int(-1);
}

METHOD_IS(do_find, search(r, self, w, "find", false, false))
METHOD_IS(do_rfind, search(r, self, w, "rfind", true, false))
METHOD_IS(do_index, search(r, self, w, "index", false, true))
METHOD_IS(do_rindex, search(r, self, w, "rindex", true, true))

METHOD(do_count, self)
{
	size_t skipped;
	int64_t n = 0;

	if (!arg_str(r, w[0], "argument"))
		return val_none;
	if (!cut(r, &self, w[1], w[2], &skipped) || !tmpl_charge(r, self.n / 16))
		return val_int(0);
	if (!w[0].n)
		return val_int((int64_t)uni_count(self.u.s, self.n) + 1);
	const char *at = self.u.s, *end = self.u.s + self.n;
	for (; (at = memmem(at, (size_t)(end - at), w[0].u.s, w[0].n)); at += w[0].n)
		n++;
	return val_int(n);
}

struct val str_replace(struct run *r, struct val s, struct val old, struct val with, int64_t count)
{
	struct bytes t = {0};
	uint32_t at = 0, cp;

	if (!tmpl_charge(r, s.n / 16))
		return val_none;
	while (count && !r->failed) {
		const char *hit = old.n ? memmem(s.u.s + at, s.n - at, old.u.s, old.n) : s.u.s + at;
		if (!hit)
			break;
		buf_add(r, &t, s.u.s + at, (size_t)(hit - s.u.s) - at);
		buf_add(r, &t, with.u.s, with.n);
		at = (uint32_t)(hit - s.u.s) + old.n;
		count -= count > 0;
		if (!tmpl_charge(r, 1 + with.n / 64))
			break;
		if (!old.n) { /* between all characters */
			if (at >= s.n)
				break;
			const uint32_t k = uni_decode(s.u.s + at, s.n - at, &cp);
			buf_add(r, &t, s.u.s + at, k);
			at += k;
		}
	}
	buf_add(r, &t, s.u.s + at, s.n - at);
	return buf_val(r, &t);
}

METHOD(do_replace, self)
{
	if (!arg_str(r, w[0], "replace() argument 1") || !arg_str(r, w[1], "replace() argument 2"))
		return val_none;
	return str_replace(r, self, w[0], w[1], arg_int(r, w[2], -1));
}

/* ---- Splitting and joining ---- */

static struct val drop(struct val s, uint32_t n, bool from_right)
{
	return val_bytes(s.u.s + (from_right ? 0 : n), s.n - n);
}

/* How many bytes at this end of a text are whitespace, or are not. */
static uint32_t stretch(struct val s, bool from_right, bool spaces)
{
	uint32_t n = 0, cp;
	while (n < s.n) {
		const uint32_t k = from_right ? s.n - n - (uint32_t)uni_back(s.u.s, s.n - n, &cp)
					      : uni_decode(s.u.s + n, s.n - n, &cp);
		if (uni_is_space(cp) != spaces)
			break;
		n += k;
	}
	return n;
}

/* At runs of whitespace. */
static struct val split_words(struct run *r, struct val s, int64_t max, bool from_right)
{
	struct list l = {0};

	tmpl_charge(r, s.n / 16);
	while (tmpl_charge(r, 1)) {
		s = drop(s, stretch(s, from_right, true), from_right);
		if (!s.n)
			break;
		const uint32_t k = max >= 0 && (int64_t)l.n >= max ? s.n : stretch(s, from_right, false);
		list_add(r, &l, drop(s, s.n - k, !from_right));
		s = drop(s, k, from_right);
	}
	return list_val(r, from_right ? list_reverse(&l) : &l, V_LIST);
}

struct val str_split(struct run *r, struct val s, struct val sep, int64_t max, bool from_right)
{
	struct list l = {0};

	s.flag = 0;
	if (sep.type == V_NONE || sep.type == V_MISSING)
		return split_words(r, s, max, from_right);
	if (!arg_str(r, sep, "sep"))
		return val_none;
	if (!sep.n)
		return tmpl_error(r, "a separator without characters"), val_none;
	if (!tmpl_charge(r, s.n / 16))
		return val_none;
	while (!r->failed && (max < 0 || (int64_t)l.n < max)) {
		const char *hit = from_right ? last_of(r, s.u.s, s.n, sep.u.s, sep.n)
					     : memmem(s.u.s, s.n, sep.u.s, sep.n);
		if (!hit || !tmpl_charge(r, 1))
			break;
		const size_t at = (size_t)(hit - s.u.s);
		if (from_right) {
			list_add(r, &l, val_bytes(hit + sep.n, s.n - at - sep.n));
			s.n = (uint32_t)at;
		} else {
			list_add(r, &l, val_bytes(s.u.s, at));
			s = val_bytes(hit + sep.n, s.n - at - sep.n);
		}
	}
	list_add(r, &l, s);
	return list_val(r, from_right ? list_reverse(&l) : &l, V_LIST);
}

METHOD_IS(do_split, str_split(r, self, w[0], arg_int(r, w[1], -1), false))
METHOD_IS(do_rsplit, str_split(r, self, w[0], arg_int(r, w[1], -1), true))

static struct val partition(struct run *r, struct val self, struct val v, bool last)
{
	if (!arg_str(r, v, "sep"))
		return val_none;
	if (!v.n)
		return tmpl_error(r, "a separator without characters"), val_none;
	tmpl_charge(r, self.n / 16);
	const char *hit = last ? last_of(r, self.u.s, self.n, v.u.s, v.n) : memmem(self.u.s, self.n, v.u.s, v.n);
	const size_t at = hit ? (size_t)(hit - self.u.s) : 0;
	struct val three[3] = {self, val_z(""), val_z("")};
	if (hit) {
		three[0] = val_bytes(self.u.s, at);
		three[1] = v;
		three[2] = val_bytes(hit + v.n, self.n - at - v.n);
	} else if (last) {
		three[0] = val_z("");
		three[2] = self;
	}
	return val_list(r, V_TUPLE, 3, three);
}

METHOD_IS(do_partition, partition(r, self, w[0], false))
METHOD_IS(do_rpartition, partition(r, self, w[0], true))

struct val str_lines(struct run *r, struct val s, bool keep)
{
	struct list l = {0};
	uint32_t from = 0, at = 0, cp;

	tmpl_charge(r, s.n / 16);
	while (at < s.n && !r->failed) {
		const uint32_t k = uni_decode(s.u.s + at, s.n - at, &cp), end = at;
		at += k;
		if (!(cp >= 10 && cp <= 13) && !(cp >= 28 && cp <= 30) && cp != 0x85 && cp != 0x2028 && cp != 0x2029)
			continue;
		at += cp == '\r' && at < s.n && s.u.s[at] == '\n';
		list_add(r, &l, val_bytes(s.u.s + from, (keep ? at : end) - from));
		from = at;
	}
	if (from < s.n)
		list_add(r, &l, val_bytes(s.u.s + from, s.n - from));
	return list_val(r, &l, V_LIST);
}

METHOD_IS(do_splitlines, str_lines(r, self, arg_bool(r, w[0], false)))

struct val str_join(struct run *r, struct val sep, struct val items, bool convert)
{
	struct iter it;
	struct val v;
	struct bytes t = {0};
	size_t n = 0;

	if (iter_init(r, &it, items))
		for (; iter_next(r, &it, &v); n++) {
			if (n)
				buf_add(r, &t, sep.u.s, sep.n);
			if (!convert && v.type != V_STR)
				tmpl_error(r, "join() of item %zu, of type '%s', which is no text", n,
						val_type_name(v));
			else
				show_str(r, &t, v);
			tmpl_charge(r, sep.n / 64);
		}
	return buf_val(r, &t);
}

METHOD(do_join, self)
{
	if (!val_is_iterable(w[0]))
		return tmpl_error(r, "join() of '%s', which has no items", val_type_name(w[0])), val_none;
	return str_join(r, self, w[0], false);
}

/* ---- Padding ---- */

struct val str_pad(struct run *r, struct val s, int64_t width, uint32_t fill, char how)
{
	const int64_t n = val_len(r, s), pad = width > n ? width - n : 0;
	struct bytes t = {0};
	/* The odd one goes to the left of a text whose width is even, as Python has it. */
	const int64_t left = how == 'r' ? pad : how == 'l' ? 0 : pad / 2 + (pad & width & 1);

	if ((uint64_t)pad > r->n_bytes_max)
		return tmpl_fail(r, COHORT_E_LIMIT, "a width of %lld", (long long)width), val_none;
	buf_fill(r, &t, fill, (size_t)left);
	buf_add(r, &t, s.u.s, s.n);
	buf_fill(r, &t, fill, (size_t)(pad - left));
	return buf_val(r, &t);
}

static struct val pad(struct run *r, struct val self, const struct val w[2], char how)
{
	uint32_t fill = ' ';
	if (w[1].type != V_MISSING) {
		if (w[1].type != V_STR || uni_count(w[1].u.s, w[1].n) != 1)
			return tmpl_error(r, "fillchar must be one character"), val_none;
		uni_decode(w[1].u.s, w[1].n, &fill);
	}
	return str_pad(r, self, arg_int(r, w[0], 0), fill, how);
}

METHOD_IS(do_center, pad(r, self, w, 'c'))
METHOD_IS(do_ljust, pad(r, self, w, 'l'))
METHOD_IS(do_rjust, pad(r, self, w, 'r'))

METHOD(do_zfill, self)
{
	const bool sign = self.n && (self.u.s[0] == '-' || self.u.s[0] == '+');
	const struct val rest = val_bytes(self.u.s + sign, self.n - sign);
	const int64_t width = arg_int(r, w[0], 0);
	struct val digits = str_pad(r, rest, width > 0 ? width - sign : 0, '0', 'r');
	return sign && !r->failed ? str_concat(r, val_copy(r, self.u.s, 1), digits) : digits;
}

METHOD(do_expandtabs, self)
{
	struct bytes t = {0};
	const int64_t size = arg_int(r, w[0], 8);
	int64_t column = 0;
	tmpl_charge(r, self.n / 16);
	for (uint32_t i = 0; i < self.n && !r->failed; i++) {
		const char c = self.u.s[i];
		if (c == '\t') {
			const int64_t n = size > 0 ? size - column % size : 0;
			buf_fill(r, &t, ' ', (size_t)n);
			column += n;
			continue;
		}
		column = c == '\n' || c == '\r' ? 0 : column + (((uint8_t)c & 0xc0) != 0x80);
		buf_add(r, &t, &c, 1);
	}
	return buf_val(r, &t);
}

/* ---- Formatting ---- */

METHOD_IS(do_format, format_braces(r, self, a, NULL))

METHOD(do_format_map, self)
{
	if (w[0].type != V_DICT)
		return tmpl_error(r, "format_map() needs a mapping"), val_none;
	return format_braces(r, self, NULL, w[0].u.dict);
}

METHOD(do_encode, self)
{
	tmpl_fail(r, COHORT_E_UNSUPPORTED, "bytes are not supported (encode, translate, maketrans)");
	return val_none;
}

/* ---- The table ---- */

static const struct method methods[] = {{"capitalize", do_capitalize, ""}, {"casefold", do_casefold, ""},
		{"center", do_center, "width ?fillchar"}, {"count", do_count, "sub ?start ?end"},
		{"encode", do_encode, NULL}, {"endswith", do_endswith, "prefix ?start ?end"},
		{"expandtabs", do_expandtabs, "?tabsize"}, {"find", do_find, "sub ?start ?end"},
		{"format", do_format, NULL}, {"format_map", do_format_map, "mapping"},
		{"index", do_index, "sub ?start ?end"}, {"isalnum", do_isalnum, ""}, {"isalpha", do_isalpha, ""},
		{"isascii", do_isascii, ""}, {"isdecimal", do_isdecimal, ""}, {"isdigit", do_isdigit, ""},
		{"isidentifier", do_isidentifier, ""}, {"islower", do_islower, ""}, {"isnumeric", do_isnumeric, ""},
		{"isprintable", do_isprintable, ""}, {"isspace", do_isspace, ""}, {"istitle", do_istitle, ""},
		{"isupper", do_isupper, ""}, {"join", do_join, "iterable"}, {"ljust", do_ljust, "width ?fillchar"},
		{"lower", do_lower, ""}, {"lstrip", do_lstrip, "?chars"}, {"partition", do_partition, "sep"},
		{"removeprefix", do_removeprefix, "prefix"}, {"removesuffix", do_removesuffix, "prefix"},
		{"replace", do_replace, "old new ?count"}, {"rfind", do_rfind, "sub ?start ?end"},
		{"rindex", do_rindex, "sub ?start ?end"}, {"rjust", do_rjust, "width ?fillchar"},
		{"rpartition", do_rpartition, "sep"}, {"rsplit", do_rsplit, "?sep ?maxsplit"},
		{"rstrip", do_rstrip, "?chars"}, {"split", do_split, "?sep ?maxsplit"},
		{"splitlines", do_splitlines, "?keepends"}, {"startswith", do_startswith, "prefix ?start ?end"},
		{"strip", do_strip, "?chars"}, {"swapcase", do_swapcase, ""}, {"title", do_title, ""},
		{"upper", do_upper, ""}, {"zfill", do_zfill, "width"}, {"maketrans", do_encode, NULL},
		{"translate", do_encode, NULL}, {NULL, NULL, NULL}};

struct val str_method(struct run *r, struct val self, struct val name)
{
	return method_of(r, methods, self, name);
}
