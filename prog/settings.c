/* Changes options while a program runs.
 *
 * 1. All or nothing: a value that is refused, by its table or by the sampler, leaves everything as it was.
 * 2. Texts that options point to live as long as the settings: an old grammar may be the one to go back to.
 *
 * It does not know what an option means. */
#include "settings.h"

#include "common.h"

#include "base/mem.h"

#include <inttypes.h>
#include <string.h>

static size_t value_bytes(enum opt_type type)
{
	switch (type) {
	case OPT_FLAG: return sizeof(bool);
	case OPT_STR: return sizeof(const char *);
	case OPT_INT: return sizeof(int64_t);
	case OPT_UINT64: return sizeof(uint64_t);
	case OPT_FLOAT: return sizeof(double);
	case OPT_LIST: return sizeof(struct opt_list);
	}
	return 0;
}

static bool wanted(const struct opt *o, const struct sampling *s, const char *const *names, size_t n_names)
{
	const uintptr_t at = (uintptr_t)o->value, from = (uintptr_t)s;

	if (at >= from && at < from + sizeof *s)
		return true;
	for (size_t i = 0; i < n_names; i++)
		if (strcmp(o->name, names[i]) == 0)
			return true;
	return false;
}

int settings_init(struct settings *st, const struct opt_prog *p, struct sampling *s, const struct cohort_model *model,
		const char *const *names, size_t n_names)
{
	size_t n = 0, n_bytes = 0;

	*st = (struct settings){.prog = p, .s = s, .model = model, .own = *p};
	for (size_t i = 0; i < p->n_opts && n < SETTINGS_MAX; i++)
		if (wanted(&p->opts[i], s, names, n_names)) {
			st->opts[n] = p->opts[i];
			st->names[n] = p->opts[i].name;
			st->given[n] = p->opts[i].given && *p->opts[i].given;
			st->at[n] = n_bytes;
			n_bytes += value_bytes(p->opts[i].type);
			n++;
		}
	st->own.opts = st->opts;
	st->own.n_opts = n;
	st->start = mem_alloc(n_bytes, 1);
	if (!st->start)
		return out_of_memory(p->name);
	for (size_t i = 0; i < n; i++)
		memcpy(st->start + st->at[i], st->opts[i].value, value_bytes(st->opts[i].type));
	return 0;
}

void settings_release(struct settings *st)
{
	for (size_t i = 0; i < st->n_texts; i++)
		mem_free(st->texts[i]);
	mem_free(st->texts);
	mem_free(st->start);
	st->texts = NULL;
	st->start = NULL;
	st->n_texts = 0;
}

static void show(const struct opt *o)
{
	const char *none = strstr(o->help, "(default: ") ? "(default)" : "(not set)";

	fprintf(stderr, "  %-20s ", o->name);
	switch (o->type) {
	case OPT_FLAG: fputs(*(const bool *)o->value ? "on" : "off", stderr); break;
	case OPT_INT: fprintf(stderr, "%" PRId64, *(const int64_t *)o->value); break;
	case OPT_UINT64: fprintf(stderr, "%" PRIu64, *(const uint64_t *)o->value); break;
	case OPT_FLOAT: fprintf(stderr, "%g", *(const double *)o->value); break;
	case OPT_STR: {
		const char *text = *(const char *const *)o->value;
		char *shown = printable(text ? text : none);
		fputs(shown ? shown : "?", stderr);
		mem_free(shown);
		break;
	}
	case OPT_LIST: {
		const struct opt_list *list = o->value;
		fputs(list->n ? "" : none, stderr);
		for (size_t i = 0; i < list->n; i++) {
			char *shown = printable(list->items[i]);
			fprintf(stderr, "%s%s", i ? " " : "", shown ? shown : "?");
			mem_free(shown);
		}
		break;
	}
	}
	fputc('\n', stderr);
}

/* A copy that lives as long as st; NULL when out of memory. */
static const char *own_text(struct settings *st, const char *text)
{
	void *texts = st->texts;

	if (!mem_grow(&texts, &st->texts_max, st->n_texts + 1, sizeof *st->texts))
		return NULL;
	st->texts = texts;
	char *copy = mem_strndup(text, strlen(text));
	if (copy)
		st->texts[st->n_texts++] = copy;
	return copy;
}

static int set_value(struct settings *st, size_t i, const char *value)
{
	const struct opt *o = &st->opts[i];

	if (strcmp(value, "default") == 0) {
		memcpy(o->value, st->start + st->at[i], value_bytes(o->type));
		if (o->given)
			*o->given = st->given[i];
		return 0;
	}
	if (o->type == OPT_STR || o->type == OPT_LIST) {
		value = own_text(st, value);
		if (!value)
			return out_of_memory(st->prog->name);
	}
	return opt_set(&st->own, o->name, value) ? EXIT_USAGE : 0;
}

/* Makes the sampler's parts again; on failure the old ones stay. */
static int reopen(struct settings *st)
{
	struct sampling *s = st->s, old = *s;

	s->bias = NULL;
	s->breaker_texts = NULL;
	s->breaker_bytes = NULL;
	s->lexicon = NULL;
	s->g = NULL;
	const int rc = sampling_open(s, st->prog->name, st->model);
	if (rc) {
		sampling_release(s);
		*s = old;
	} else {
		sampling_release(&old);
	}
	return rc;
}

static int change(struct settings *st, size_t i, const char *value)
{
	const struct opt *o = &st->opts[i];
	const size_t n = value_bytes(o->type);
	const bool given = o->given && *o->given;
	void *before = mem_dup(o->value, n);

	if (!before)
		return out_of_memory(st->prog->name);
	int rc = set_value(st, i, value);
	if (!rc)
		rc = reopen(st);
	if (rc) {
		memcpy(o->value, before, n);
		if (o->given)
			*o->given = given;
	}
	mem_free(before);
	return rc;
}

int settings_set(struct settings *st, const char *args)
{
	const char *dashes = args + strspn(args, "-");
	const size_t n_name = strcspn(dashes, " \t");
	const char *value = dashes + n_name + strspn(dashes + n_name, " \t");

	for (size_t i = 0; i < st->own.n_opts; i++) {
		if (*args && !opt_called(&st->opts[i], dashes, n_name))
			continue;
		if (*args && *value)
			return change(st, i, value);
		show(&st->opts[i]);
		if (*args)
			return 0;
	}
	if (!*args)
		return 0;
	for (size_t i = 0; i < st->prog->n_opts; i++)
		if (opt_called(&st->prog->opts[i], dashes, n_name)) {
			fprintf(stderr, "%s: -%s cannot be changed while running; start again with it\n",
					st->prog->name, st->prog->opts[i].name);
			return EXIT_USAGE;
		}
	char *name = mem_strndup(dashes, n_name);
	if (!name)
		return out_of_memory(st->prog->name);
	opt_set(&st->own, name, value);
	fputs("Try ':set', which lists them.\n", stderr);
	mem_free(name);
	return EXIT_USAGE;
}
