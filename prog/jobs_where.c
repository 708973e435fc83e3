/* Where a job runs, a program or a server's thread, and what all its runs must have in common.
 *
 * Invariants
 *  1. In a server nothing is written to standard error, and no signal is looked at: the server does both. */
#include "jobs.h"

#include "common.h"
#include "sampling.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum jobs_stop jobs_stop(const struct jobs_where *w)
{
	if (w->prog)
		return interrupted() ? JOBS_DROP : JOBS_GO;
	return w->stop ? w->stop(w->user) : JOBS_GO;
}

int jobs_failed(struct jobs_where *w, int rc, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	if (w->prog) {
		progress_end();
		fprintf(stderr, "%s: ", w->prog);
		vfprintf(stderr, fmt, args);
		fputc('\n', stderr);
	} else {
		vsnprintf(w->why, sizeof w->why, fmt, args);
	}
	va_end(args);
	return rc;
}

int jobs_no_memory(struct jobs_where *w)
{
	return jobs_failed(w, EXIT_RUN, "out of memory");
}

/* ---- Settings ---- */

static bool set_text(json_t *settings, const char *name, const char *text)
{
	return json_object_set_new(settings, name, openai_text(text, strlen(text))) == 0;
}

static bool set_option(json_t *settings, const struct opt *o)
{
	const struct opt_list *list = o->value;
	char number[64];

	switch (o->type) {
	case OPT_INT: snprintf(number, sizeof number, "%" PRId64, *(const int64_t *)o->value); break;
	case OPT_UINT64: snprintf(number, sizeof number, "%" PRIu64, *(const uint64_t *)o->value); break;
	case OPT_FLOAT: snprintf(number, sizeof number, "%.12g", *(const double *)o->value); break;
	case OPT_FLAG: snprintf(number, sizeof number, "%s", *(const bool *)o->value ? "yes" : "no"); break;
	case OPT_STR: {
		const char *s = *(const char *const *)o->value;
		return set_text(settings, o->name, s ? s : "");
	}
	default: {
		struct openai_buf b = {0};
		bool ok = openai_buf_add(&b, "", 0);
		for (size_t i = 0; i < list->n && ok; i++)
			ok = openai_buf_add(&b, list->items[i], strlen(list->items[i])) && openai_buf_add(&b, " ", 1);
		ok = ok && openai_buf_add(&b, "", 1) && set_text(settings, o->name, b.p);
		openai_buf_release(&b);
		return ok;
	}
	}
	return set_text(settings, o->name, number);
}

/* As they were taken apart: the list of -lora-scaled has lost its numbers by then. */
static bool set_adapters(json_t *settings, const struct load_opts *l)
{
	struct openai_buf b = {0};
	bool ok = true;

	for (size_t i = 0; i < l->lora.n + l->lora_scaled.n && ok; i++) {
		char scale[40];
		const int n = snprintf(scale, sizeof scale, ":%g ", (double)l->adapter_scales[i]);
		ok = openai_buf_add(&b, l->adapters[i], strlen(l->adapters[i])) && openai_buf_add(&b, scale, (size_t)n);
	}
	ok = ok && openai_buf_add(&b, "", 1) && set_text(settings, "lora", b.p);
	openai_buf_release(&b);
	return ok;
}

json_t *jobs_settings(const struct cohort_model_info *info, const struct load_opts *load, struct sampling *s,
		const struct opt *own, size_t n_own)
{
	struct opt sampling[SAMPLING_OPTIONS];
	char model[256];
	json_t *out = json_object();

	snprintf(model, sizeof model, "%.100s %.40s %" PRIu64 " %" PRIu64, info->name, info->arch, info->n_params,
			info->weight_bytes);
	bool ok = out && set_text(out, "model", model) && set_adapters(out, load);
	for (size_t i = 0; i < n_own && ok; i++)
		ok = set_option(out, &own[i]);
	sampling_options(s, "", sampling);
	for (size_t i = 0; i < SAMPLING_OPTIONS && ok; i++)
		ok = set_option(out, &sampling[i]);
	if (!ok) {
		json_decref(out);
		return NULL;
	}
	return out;
}
