/* What a chat gives its template beside the messages as they came, as llama-server does: for the server, jobs, batches
 * and `cohort chat`. `cohort template` gives a template only what it is asked to. */
#ifndef PROG_TEMPLATE_USE_H
#define PROG_TEMPLATE_USE_H

#include "cohort_tools.h"

#include <jansson.h>
#include <stdbool.h>

/* Whether the template writes what a system message says; true also when that cannot be found out. *ok becomes false
 * when out of memory. */
bool template_takes_system(
		const struct cohort_template *template, const char *bos, const char *eos, bool *ok);
/* Makes the system messages that a conversation begins with a part of its first user message, or a user message of
 * their own when no user message follows. Messages are not shared; contents are strings. False: out of memory. */
bool template_merge_system(json_t *messages);

enum { TEMPLATE_NOW_MAX = 24 };
/* The variables of every chat: enable_thinking, date_string and datetime. The time is `now`, or the clock's if that is
 * NULL; out has it for cohort_template_params.now, so that strftime_now says the same. NULL: out of memory. */
json_t *template_variables(const char *now, char out[TEMPLATE_NOW_MAX]);

#endif
