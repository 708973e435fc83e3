/* What templates of chats get beside the messages. Names and formats are llama-server's. */
#include "template_use.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- The system role ---- */

#define SYSTEM "cohort_system_probe"
#define USER "{\"role\":\"user\",\"content\":\"x\"}"

static char *probe(const struct cohort_template *template, const char *bos, const char *eos, const char *messages,
		bool *ok)
{
	struct cohort_template_params p;
	struct cohort_err err;
	char *text = NULL;
	size_t n = 0;

	cohort_template_params_init(&p);
	p.messages = messages;
	p.bos_token = bos;
	p.eos_token = eos;
	p.now = "2025-01-02T03:04:05";
	if (cohort_template_render(template, &p, &text, &n, &err) == COHORT_E_MEMORY)
		*ok = false;
	return text;
}

bool template_takes_system(const struct cohort_template *template, const char *bos, const char *eos, bool *ok)
{
	char *with = probe(template, bos, eos, "[{\"role\":\"system\",\"content\":\"" SYSTEM "\"}," USER "]", ok);
	bool takes = with && strstr(with, SYSTEM);

	if (!takes) { /* one that refuses this conversation, too, says nothing about the role */
		char *without = probe(template, bos, eos, "[" USER "]", ok);
		takes = !without;
		cohort_template_text_free(without);
	}
	cohort_template_text_free(with);
	return takes;
}

static bool has_role(const json_t *message, const char *role)
{
	const char *s = json_string_value(json_object_get(message, "role"));

	return s && strcmp(s, role) == 0;
}

/* The contents of the first n messages, by lines; NULL: out of memory. */
static json_t *join(const json_t *messages, size_t n)
{
	size_t n_bytes = 0, at = 0;

	for (size_t i = 0; i < n; i++)
		n_bytes += json_string_length(json_object_get(json_array_get(messages, i), "content")) + 1;
	char *text = mem_alloc(n_bytes, 1);
	for (size_t i = 0; i < n && text; i++) {
		const json_t *content = json_object_get(json_array_get(messages, i), "content");
		const size_t k = json_string_length(content);
		if (k > 0)
			memcpy(text + at, json_string_value(content), k);
		at += k;
		text[at++] = '\n';
	}
	json_t *joined = text ? json_stringn(text, n_bytes - 1) : NULL;
	mem_free(text);
	return joined;
}

bool template_merge_system(json_t *messages)
{
	const size_t n = json_array_size(messages);
	size_t n_system = 0;

	while (n_system < n && has_role(json_array_get(messages, n_system), "system"))
		n_system++;
	if (n_system == 0)
		return true;
	const bool to_user = has_role(json_array_get(messages, n_system), "user");
	const size_t last = to_user ? n_system : n_system - 1; /* the message that takes them */
	json_t *m = json_array_get(messages, last), *rest = json_array();
	bool ok = rest && !json_object_set_new(m, "content", join(messages, last + 1)) &&
			!json_object_set_new(m, "role", json_string("user"));
	for (size_t i = last; i < n && ok; i++)
		ok = !json_array_append(rest, json_array_get(messages, i));
	ok = ok && !json_array_clear(messages) && !json_array_extend(messages, rest);
	json_decref(rest);
	return ok;
}

/* ---- Variables ---- */

json_t *template_variables(const char *now, char out[TEMPLATE_NOW_MAX])
{
	static const char names[][4] = {
			"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
	json_t *v = json_pack("{s:b}", "enable_thinking", 1);
	struct tm tm;

	*out = 0;
	if (now)
		snprintf(out, TEMPLATE_NOW_MAX, "%s", now);
	else if (clock_local(&tm))
		strftime(out, TEMPLATE_NOW_MAX, "%Y-%m-%dT%H:%M:%S", &tm);
	const int month = strlen(out) > 10 ? (int)strtol(out + 5, NULL, 10) : 0;
	if (v && month >= 1 && month <= 12) {
		char date[16], other[16];
		snprintf(date, sizeof date, "%.2s %s %.4s", out + 8, names[month - 1], out);
		snprintf(other, sizeof other, "%s %.2s %.4s", names[month - 1], out + 8, out);
		if (json_object_set_new(v, "date_string", json_string(date)) ||
				json_object_set_new(v, "datetime", json_string(other))) {
			json_decref(v);
			return NULL;
		}
	}
	return v;
}
