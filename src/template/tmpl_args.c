/* Arguments of calls: binding them to names, and reading them; tables of what can be called. */
#include "template/tmpl.h"

#include <string.h>

/* Number i of the words in `names`, without the ? before one that need not be given; its length, or 0 past the end. */
static size_t word(const char *names, size_t i, const char **at, bool *need)
{
	while (*names) {
		*need = *names != '?';
		names += !*need;
		const size_t n = strcspn(names, " ");
		if (!i--) {
			*at = names;
			return n;
		}
		names += n + (names[n] == ' ');
	}
	return 0;
}

bool args_bind(struct run *r, const char *what, const struct args *a, const char *names, struct val *out)
{
	size_t n = 0, k;
	const char *w;
	bool need;

	while (word(names, n, &w, &need))
		out[n++] = val_missing;
	if (a->n_pos > n)
		return tmpl_error(r, "%s() has %zu arguments and takes %zu", what, a->n_pos, n);
	for (size_t i = 0; i < a->n_pos; i++)
		out[i] = a->pos[i];
	for (size_t i = 0; i < a->n_kw; i++) {
		const struct val name = a->kw[i].name;
		size_t j = 0;
		while (j < n && ((k = word(names, j, &w, &need)) != name.n || memcmp(w, name.u.s, k) != 0))
			j++;
		if (j == n)
			return tmpl_error(r, "%s() has no argument '%.*s'", what, (int)(name.n < 60 ? name.n : 60),
					name.u.s);
		if (out[j].type != V_MISSING)
			return tmpl_error(r, "%s() is given '%.*s' twice", what, (int)(name.n < 60 ? name.n : 60),
					name.u.s);
		out[j] = a->kw[i].value;
	}
	for (size_t i = 0; i < n; i++) {
		k = word(names, i, &w, &need);
		if (need && out[i].type == V_MISSING)
			return tmpl_error(r, "%s() needs '%.*s'", what, (int)k, w);
	}
	return !r->failed;
}

bool args_none(struct run *r, const char *what, const struct args *a)
{
	struct val none;
	return args_bind(r, what, a, "", &none);
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

const struct method *method_find(const struct method *table, const char *name, size_t n)
{
	for (; table->name; table++)
		if (strlen(table->name) == n && memcmp(table->name, name, n) == 0)
			return table;
	return NULL;
}

struct val method_call(struct run *r, const struct method *m, struct val self, const struct args *a)
{
	struct val w[PARAMS_MAX];
	return !m->params || args_bind(r, m->name, a, m->params, w) ? m->call(r, self, a, w) : val_none;
}

struct val method_of(struct run *r, const struct method *table, struct val self, struct val name)
{
	const struct method *m = name.type == V_STR ? method_find(table, name.u.s, name.n) : NULL;
	return m ? val_own(r, V_FUNC, &(struct func){m, self}, sizeof(struct func)) : val_missing;
}
