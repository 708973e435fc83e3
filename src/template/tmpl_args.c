/* Arguments of calls: binding them to names, and reading them. */
#include "template/tmpl.h"

#include <string.h>

/* Number i of the words in `names`; its length, or 0 past the end. */
static size_t word(const char *names, size_t i, const char **at)
{
	while (*names) {
		const size_t n = strcspn(names, " ");
		if (!i--) {
			*at = names;
			return n;
		}
		names += n + (names[n] == ' ');
	}
	return 0;
}

bool args_bind(struct run *r, const char *what, const struct args *a, const char *names, size_t n_need, struct val *out)
{
	size_t n = 0, k;
	const char *w;

	while (word(names, n, &w))
		out[n++] = val_missing;
	if (a->n_pos > n)
		return tmpl_error(r, "%s() has %zu arguments and takes %zu", what, a->n_pos, n);
	for (size_t i = 0; i < a->n_pos; i++)
		out[i] = a->pos[i];
	for (size_t i = 0; i < a->n_kw; i++) {
		const struct val name = a->kw[i].name;
		size_t j = 0;
		while (j < n && ((k = word(names, j, &w)) != name.n || memcmp(w, name.u.s, k) != 0))
			j++;
		if (j == n)
			return tmpl_error(r, "%s() has no argument '%.*s'", what, (int)(name.n < 60 ? name.n : 60),
					name.u.s);
		if (out[j].type != V_MISSING)
			return tmpl_error(r, "%s() is given '%.*s' twice", what, (int)(name.n < 60 ? name.n : 60),
					name.u.s);
		out[j] = a->kw[i].value;
	}
	for (size_t i = 0; i < n_need; i++)
		if (out[i].type == V_MISSING) {
			k = word(names, i, &w);
			return tmpl_error(r, "%s() needs '%.*s'", what, (int)k, w);
		}
	return !r->failed;
}

bool args_none(struct run *r, const char *what, const struct args *a)
{
	struct val none;
	return args_bind(r, what, a, "", 0, &none);
}

int64_t arg_int(struct run *r, struct val v, int64_t fallback)
{
	if (v.type == V_MISSING)
		return fallback;
	if (val_is_int(v))
		return val_whole(v);
	if (v.type == V_UNDEF)
		undef_fail(r, v);
	else
		tmpl_error(r, "an integer is needed, not a value of type '%s'", val_type_name(v));
	return 0;
}

bool arg_bool(struct run *r, struct val v, bool fallback)
{
	return v.type == V_MISSING ? fallback : val_truth(r, v);
}

bool arg_str(struct run *r, struct val v, const char *what)
{
	return v.type == V_STR || tmpl_error(r, "%s must be a text, not of type '%s'", what, val_type_name(v));
}

struct val val_func(struct run *r, const char *name, struct val (*call)(struct run *, struct val, const struct args *),
		struct val self)
{
	struct func *f = tmpl_alloc(r, 1, sizeof *f);
	if (!f)
		return val_none;
	*f = (struct func){call, self, name};
	return (struct val){.type = V_FUNC, .u.func = f};
}
