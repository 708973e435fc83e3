/* Which path and method is answered by what. A new route is one line here and one in serve.h. */
#include "serve.h"

#include <stdio.h>
#include <string.h>

static const struct route routes[] = {
		{"GET", "/", run_page, ROUTE_PAGE},
		{"GET", "/ui/*", run_page, ROUTE_PAGE},
		{"GET", "/health", run_health, ROUTE_OPEN},
		{"GET", "/v1/health", run_health, ROUTE_OPEN},
		{"GET", "/v1/models", run_models, 0},
		{"GET", "/models", run_models, 0},
		{"GET", "/v1/models/*", run_model, ROUTE_REST}, /* names are often organisation/model */
		{"POST", "/v1/chat/completions", run_chat, ROUTE_LONG},
		{"POST", "/chat/completions", run_chat, ROUTE_LONG},
		{"POST", "/v1/completions", run_completions, ROUTE_LONG},
		{"POST", "/v1/embeddings", run_embeddings, ROUTE_LONG},
		{"POST", "/completion", run_completion, ROUTE_LONG},
		{"POST", "/completions", run_completion, ROUTE_LONG},
		{"POST", "/embedding", run_embedding, ROUTE_LONG},
		{"POST", "/v1/files", run_file_upload, ROUTE_SINK | ROUTE_DISK},
		{"GET", "/v1/files", run_file_list, ROUTE_DISK},
		{"GET", "/v1/files/*", run_file_get, ROUTE_DISK},
		{"DELETE", "/v1/files/*", run_file_remove, ROUTE_DISK},
		{"GET", "/v1/files/*/content", run_file_content, ROUTE_DISK},
		{"POST", "/v1/batches", run_batch_add, ROUTE_DISK},
		{"GET", "/v1/batches", run_batch_list, ROUTE_DISK},
		{"GET", "/v1/batches/*", run_batch_get, ROUTE_DISK},
		{"POST", "/v1/batches/*/cancel", run_batch_cancel, ROUTE_DISK},
		{"GET", "/metrics", run_metrics, 0},
		{"GET", "/slots", run_slots, 0},
		{"POST", "/slots/*", run_slot_action, ROUTE_LONG},
		{"GET", "/props", run_props, 0},
		{"POST", "/tokenize", run_tokenize, ROUTE_LONG},
		{"POST", "/detokenize", run_detokenize, ROUTE_LONG},
		{"POST", "/apply-template", run_apply_template, ROUTE_LONG},
		{"GET", "/cohort/live", run_live, 0},
		{"GET", "/cohort/strategy", run_strategy_get, 0},
		{"POST", "/cohort/strategy", run_strategy_set, ROUTE_ADMIN | ROUTE_LONG},
};

/* Whether the path is the pattern's; what a * stands for goes to arg. rest: that is all of the rest. */
static bool matches(const char *pattern, const char *path, bool rest, char *arg, size_t n_arg)
{
	while (*pattern && *pattern != '*') {
		if (*pattern++ != *path++)
			return false;
	}
	if (!*pattern)
		return !*path;
	const size_t n = rest ? strlen(path) : strcspn(path, "/");
	if (n == 0 || n >= n_arg)
		return false;
	memcpy(arg, path, n);
	arg[n] = 0;
	return matches(pattern + 1, path + n, rest, arg, n_arg); /* as deep as the pattern has stars */
}

const struct route *route_find(
		const char *method, const char *path, char *arg, size_t n_arg, char *allow, size_t n_allow)
{
	const char *want = strcmp(method, "HEAD") == 0 ? "GET" : method;

	*allow = 0;
	for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
		if (!matches(routes[i].path, path, routes[i].flags & ROUTE_REST, arg, n_arg))
			continue;
		if (strcmp(want, routes[i].method) == 0)
			return &routes[i];
		const size_t n = strlen(allow);
		snprintf(allow + n, n_allow - n, "%s%s", n ? ", " : "", routes[i].method);
	}
	return NULL;
}
