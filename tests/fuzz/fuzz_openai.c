/* Any bytes as the body of a request: refused by a 400 that says why, or a request that the sampler and the engine's
 * rules would take. The first byte chooses the route. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "openai.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static struct cohort_model *model;
static struct openai_host host;

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
	check(!openai_host_open(&host, model, path, &sp, NULL), "the host");
	host.now = "2025-01-02T03:04:05";
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
	json_t *body = json_loadb((const char *)data + 1, n - 1, JSON_ALLOW_NUL | JSON_DECODE_ANY, NULL);
	if (!body)
		return 0;
	if (openai_request_parse(&host, (enum openai_route)(data[0] % 3), body, &r, &e)) {
		struct cohort_sampler *s = NULL;
		check(r.n_prompts > 0 && r.params.n_outputs >= r.n && r.n >= 1, "counts");
		for (size_t i = 0; i < r.n_prompts; i++)
			check(r.prompts[i].n > 0 && r.prompts[i].first + r.prompts[i].n <= r.n_tokens, "a prompt");
		for (size_t i = 0; i < r.n_tokens; i++)
			check(r.tokens[i] >= 0 && r.tokens[i] < host.info.n_vocab, "a token");
		check(!cohort_sampler_open(&r.params.sampler, host.info.n_vocab, &s, NULL), "the sampler refuses it");
		cohort_sampler_free(s);
		openai_request_release(&host, &r);
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
