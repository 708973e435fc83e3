/* /v1/batches: what clients ask of batches. It does not know how they are kept or run. */
#include "serve_batches.h"

#include <string.h>

enum { PAGE = 20, PAGE_MAX = 100, METADATA_MAX = 16, METADATA_KEY_MAX = 64, METADATA_VALUE_MAX = 512 };

static const char *text_field(const json_t *body, const char *name, struct openai_error *e)
{
	const json_t *v = json_object_get(body, name);

	if (json_is_string(v) && strlen(json_string_value(v)) == json_string_length(v))
		return json_string_value(v);
	openai_refuse(e, name, NULL, "%s is %s, expected a string", name, v ? openai_kind(v) : "missing");
	return NULL;
}

static bool check_metadata(json_t *metadata, struct openai_error *e)
{
	const char *key;
	json_t *value;

	if (!metadata || json_is_null(metadata))
		return true;
	if (!json_is_object(metadata) || json_object_size(metadata) > METADATA_MAX)
		return openai_refuse(e, "metadata", NULL, "metadata is %s, expected an object of at most 16 strings",
				json_is_object(metadata) ? "too large" : openai_kind(metadata));
	json_object_foreach(metadata, key, value)
		if (strlen(key) > METADATA_KEY_MAX || !json_is_string(value) ||
				json_string_length(value) > METADATA_VALUE_MAX)
			return openai_refuse(e, "metadata", NULL,
					"metadata has strings of at most 512 bytes, under names of at most 64");
	return true;
}

static json_t *add(struct call *c, struct store *s, json_t *body, struct openai_error *e)
{
	const char *input = text_field(body, "input_file_id", e);
	const char *endpoint = input ? text_field(body, "endpoint", e) : NULL;
	const char *window = endpoint ? text_field(body, "completion_window", e) : NULL;
	json_t *metadata = json_object_get(body, "metadata");
	enum openai_route route;
	char owner[SHA256_HEX];

	if (!window)
		return NULL;
	if (!openai_route_find(endpoint, &route)) {
		openai_refuse(e, "endpoint", NULL,
				"endpoint is to be /v1/chat/completions, /v1/completions or /v1/embeddings");
		return NULL;
	}
	if (strcmp(window, "24h") != 0) {
		openai_refuse(e, "completion_window", NULL, "completion_window is to be 24h");
		return NULL;
	}
	if (!check_metadata(metadata, e))
		return NULL;
	call_owner(c, owner);
	return store_batch_add(s, owner, input, endpoint, json_is_object(metadata) ? metadata : NULL, e);
}

static enum step answer(struct call *c, json_t *value, const struct openai_error *e)
{
	return value ? answer_json(c, 200, value) : answer_error(c, e);
}

enum step run_batch_add(struct call *c)
{
	struct openai_error e = {0};
	struct store *s = call_store(c, &e);
	json_t *body = s ? call_json(c, false, &e) : NULL;
	json_t *batch = body ? add(c, s, body, &e) : NULL;

	json_decref(body);
	return answer(c, batch, &e);
}

enum step run_batch_list(struct call *c)
{
	struct openai_error e = {0};
	struct store *s = call_store(c, &e);
	struct store_page page;
	char owner[SHA256_HEX];

	if (!s || !call_page(c, PAGE, PAGE_MAX, &page, &e))
		return answer_error(c, &e);
	call_owner(c, owner);
	return answer(c, store_batch_list(s, owner, &page, &e), &e);
}

enum step run_batch_get(struct call *c)
{
	struct openai_error e = {0};
	struct store *s = call_store(c, &e);
	char owner[SHA256_HEX];

	call_owner(c, owner);
	return answer(c, s ? store_batch_get(s, owner, c->arg, &e) : NULL, &e);
}

enum step run_batch_cancel(struct call *c)
{
	struct openai_error e = {0};
	struct store *s = call_store(c, &e);
	char owner[SHA256_HEX];

	call_owner(c, owner);
	return answer(c, s ? store_batch_cancel(s, owner, c->arg, &e) : NULL, &e);
}
