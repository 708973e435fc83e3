/* What the tests of templates share: rendering with extra variables, and lines of JSON. */
#ifndef TESTS_TEMPLATE_CASE_H
#define TESTS_TEMPLATE_CASE_H

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cohort_tools.h"

/* The text, freed by the caller with cohort_template_text_free, or NULL and err. params may be NULL. */
static inline char *render_n(const char *source, size_t n_source, const struct cohort_template_params *params,
		size_t *n, struct cohort_err *err)
{
	struct cohort_template *t = NULL;
	char *text = NULL;

	if (cohort_template_open(source, n_source, &t, err))
		return NULL;
	cohort_template_render(t, params, &text, n, err);
	cohort_template_free(t);
	return text;
}

/* Rendered with variables as JSON (NULL: none), `now` fixed. */
static inline char *render(const char *source, const char *vars, struct cohort_err *err)
{
	struct cohort_template_params p;
	size_t n;

	cohort_template_params_init(&p);
	p.extra = vars;
	p.now = "2025-01-02T03:04:05";
	return render_n(source, strlen(source), &p, &n, err);
}

/* The next line as JSON, or NULL at the end. */
static inline json_t *next_line(FILE *f)
{
	char *line = NULL;
	size_t n_max = 0;
	const ssize_t n = getline(&line, &n_max, f);
	json_t *j = n > 0 ? json_loadb(line, (size_t)n, 0, NULL) : NULL;
	free(line);
	return j;
}

#endif
