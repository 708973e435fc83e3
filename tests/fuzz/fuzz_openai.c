/* Any bytes as the body of a request: refused by a 400 that says why, or a request that the sampler and the engine's
 * rules would take. The first byte chooses the route and how calls of tools are written; where there are tools the
 * body's bytes are what a model says, too: calls found in it do not depend on the pieces it comes in. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "openai.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static struct cohort_model *model;
/* Templates that know no tools, and three that do. */
static struct openai_host hosts[4];

static void check(bool ok, const char *what)
{
	if (!ok) {
		fprintf(stderr, "fuzz_openai: %s\n", what);
		abort();
	}
}

static void open_all(void)
{
	struct cohort_model_params mp;
	struct cohort_sampler_params sp;
	const char *root = getenv("COHORT_SOURCE");
	char path[600];

	snprintf(path, sizeof path, "%s/models/cohort-tiny.gguf", root ? root : ".");
	cohort_model_params_init(&mp);
	mp.vocab_only = true;
	cohort_sampler_params_init(&sp);
	check(!cohort_model_open(path, &mp, &model, NULL), "the model");
	for (size_t i = 0; i < 4; i++) {
		static const char *const calls[] = {NULL, "<tool_call>{\"name\":\"%s\",\"arguments\":%s}</tool_call>",
				"[TOOL_CALLS][{\"name\":\"%s\",\"arguments\":%s}]",
				"{\"name\":\"%s\",\"parameters\":%s}"};
		char source[800];
		check(!openai_host_open(&hosts[i], model, path, &sp, NULL), "the host");
		hosts[i].now = "2025-01-02T03:04:05";
		if (!calls[i])
			continue;
		int n = snprintf(source, sizeof source,
				"{{ tools | tojson if tools }}{%% for m in messages %%}{{ m.role }}{{ m.content }}"
				"{%% for c in m.tool_calls or [] %%}");
		n += snprintf(source + n, sizeof source - (size_t)n, calls[i], "{{ c.function.name }}",
				"{{ c.function.arguments | tojson }}");
		n += snprintf(source + n, sizeof source - (size_t)n, "{%% endfor %%}{%% endfor %%}");
		check(!openai_host_template(&hosts[i], source, (size_t)n, NULL), "the template");
		check(hosts[i].calls == (enum openai_call_style)(OPENAI_CALLS_TAGGED + i - 1), "the style");
	}
}

static void check_calls(const struct openai_request *r, const char *text, size_t n)
{
	struct openai_calls whole = {0}, pieces = {0};
	struct openai_buf a = {0}, b = {0};
	json_t *calls_a = json_array(), *calls_b = json_array();

	check(openai_calls_feed(&whole, r, 0, text, n, true, &a, calls_a), "calls of the whole");
	for (size_t i = 0; i < n; i++)
		check(openai_calls_feed(&pieces, r, 0, text + i, 1, i == n - 1, &b, calls_b), "calls of pieces");
	check(a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0), "the text depends on the pieces");
	check(json_equal(calls_a, calls_b), "calls depend on the pieces");
	check(json_array_size(calls_a) > 0 || a.n == n, "text that is lost");
	json_decref(calls_a);
	json_decref(calls_b);
	openai_buf_release(&a);
	openai_buf_release(&b);
	openai_calls_release(&whole);
	openai_calls_release(&pieces);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct openai_request r;
	struct openai_error e;
	struct openai_buf line = {0};

	if (!model)
		open_all();
	if (n < 1)
		return 0;
	struct openai_host *host = &hosts[data[0] / 3 % 4];
	json_t *body = json_loadb((const char *)data + 1, n - 1, JSON_ALLOW_NUL | JSON_DECODE_ANY, NULL);
	if (!body)
		return 0;
	if (openai_request_parse(host, (enum openai_route)(data[0] % 3), body, &r, &e)) {
		struct cohort_sampler *s = NULL;
		check(r.n_prompts > 0 && r.params.n_outputs >= r.n && r.n >= 1, "counts");
		for (size_t i = 0; i < r.n_prompts; i++)
			check(r.prompts[i].n > 0 && r.prompts[i].first + r.prompts[i].n <= r.n_tokens, "a prompt");
		for (size_t i = 0; i < r.n_tokens; i++)
			check(r.tokens[i] >= 0 && r.tokens[i] < host->info.n_vocab, "a token");
		check(!cohort_sampler_open(&r.params.sampler, host->info.n_vocab, &s, NULL), "the sampler refuses it");
		cohort_sampler_free(s);
		if (r.calls)
			check_calls(&r, (const char *)data + 1, n - 1);
		openai_request_release(host, &r);
	} else {
		json_t *j = openai_error_json(&e);
		check(e.status == 400 && *e.message, "a refusal without a reason");
		check(openai_dump(&line, j), "an error that is no JSON");
		json_decref(j);
		openai_buf_release(&line);
	}
	json_decref(body);
	return 0;
}
