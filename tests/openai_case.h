/* For tests of prog/openai: the built-in model as host, and bodies written with single quotes. */
#ifndef TESTS_OPENAI_CASE_H
#define TESTS_OPENAI_CASE_H

#include "engine_case.h"
#include "openai.h"

static struct cohort_model *oa_model;
static struct openai_host oa_host;

static inline int oa_open(void **state)
{
	struct cohort_sampler_params sp;
	char path[600];
	(void)state;

	snprintf(path, sizeof path, "%s/models/cohort-tiny.gguf", env_or("COHORT_SOURCE", "."));
	oa_model = engine_model();
	cohort_sampler_params_init(&sp);
	return !oa_model || openai_host_open(&oa_host, oa_model, path, &sp, NULL);
}

static inline int oa_close(void **state)
{
	(void)state;
	openai_host_release(&oa_host);
	cohort_model_free(oa_model);
	return 0;
}

/* JSON in which ' stands for " (and ` for '). */
static inline json_t *oa_json(const char *text)
{
	char *s = strdup(text);
	json_error_t e;
	for (char *p = s; *p; p++)
		*p = *p == '\'' ? '"' : *p == '`' ? '\'' : *p;
	json_t *j = json_loads(s, JSON_ALLOW_NUL | JSON_DECODE_ANY, &e);
	if (!j)
		fail_msg("%s: %s", s, e.text);
	free(s);
	return j;
}

static inline bool oa_parse(enum openai_route route, const char *text, struct openai_request *r, struct openai_error *e)
{
	json_t *body = oa_json(text);
	const bool ok = openai_request_parse(&oa_host, route, body, r, e);
	json_decref(body);
	return ok;
}

#endif
