/* Requests as OpenAI's API has them: a JSON body becomes what the engine takes, and what the engine said becomes the
 * JSON of the answer. For batch files (cohort jobs) and for a server alike: nothing here waits, reads files after the
 * host is open, or knows how a body came. docs/programs.md lists every field.
 *
 * A request goes: openai_request_parse, openai_request_submit for each prompt, openai_request_take for each when it has
 * ended, openai_response, openai_request_release. Every refusal is a struct openai_error. */
#ifndef PROG_OPENAI_H
#define PROG_OPENAI_H

#include "cohort_engine.h"
#include "cohort_tools.h"

#include "base/lock.h"

#include <jansson.h>

enum openai_route { OPENAI_CHAT, OPENAI_COMPLETIONS, OPENAI_EMBEDDINGS };
/* False: no such path. */
bool openai_route_find(const char *path, enum openai_route *out);

/* ---- Errors ---- */

struct openai_error {
	int status; /* of HTTP; 0: there is none */
	const char *type; /* static: "invalid_request_error", ... */
	const char *code; /* static, or NULL */
	char param[128]; /* the field to blame; "": none */
	char message[768];
};
#define OPENAI_NO_MEMORY "out_of_memory" /* the code of what has nothing to do with the request */

/* Fills e with a 400 about a field (NULL: none); returns false, so that `return openai_refuse(...)` reads as a step. */
bool openai_refuse(struct openai_error *e, const char *param, const char *code, const char *fmt, ...)
		__attribute__((format(printf, 4, 5)));
bool openai_no_memory(struct openai_error *e);
/* {"error": {...}}; NULL when out of memory. */
json_t *openai_error_json(const struct openai_error *e);

/* ---- JSON ---- */

/* Bytes as a JSON string: what is not UTF-8 becomes U+FFFD. NULL when out of memory. */
json_t *openai_text(const char *bytes, size_t n);

/* A growing piece of bytes. */
struct openai_buf {
	char *p;
	size_t n, n_max;
};
/* Appends the value on one line, with as many digits as tell floats apart. False when out of memory, or for NULL. */
bool openai_dump(struct openai_buf *b, const json_t *value);
bool openai_buf_add(struct openai_buf *b, const char *bytes, size_t n);
void openai_buf_release(struct openai_buf *b);

/* ---- The host: what all requests share ---- */

enum { OPENAI_GRAMMARS = 16 }; /* that are kept for the next request with the same */

struct openai_grammar {
	struct cohort_grammar *g; /* NULL: a free place */
	char *text; /* [n_text] the schema's or the grammar's */
	size_t n_text;
	bool is_schema;
	int n_users;
	uint64_t used; /* when, by the host's count */
};

struct openai_host {
	const struct cohort_model *model;
	struct cohort_model_info info;
	const char *name; /* of the model, in answers */
	struct cohort_lexicon *lexicon;
	struct cohort_template *template; /* NULL: the model has none; then no_template says why */
	char no_template[256];
	char *bos, *eos; /* texts that the template sees, or NULL */
	const char *now; /* the time that it sees; NULL: the clock's. Set by the caller, who keeps it */
	struct cohort_sampler_params sampler; /* what a body leaves out */
	int32_t n_chat, n_completion; /* tokens of an answer whose body sets no limit; -1: until the context is full */
	enum cohort_pooling pooling;
	struct lock lock; /* of what follows */
	bool has_lock;
	struct openai_grammar grammars[OPENAI_GRAMMARS];
	uint64_t n_used;
};

/* path: the model's file, for its chat template. sampler: the defaults, whose grammar and texts must outlive the host.
 * Statuses: those of cohort_lexicon_open; a template that cannot be used is no failure. */
enum cohort_status openai_host_open(struct openai_host *h, const struct cohort_model *model, const char *path,
		const struct cohort_sampler_params *sampler, struct cohort_err *err);
void openai_host_release(struct openai_host *h);

/* A grammar from the cache, or opened. Threads may ask at the same time. Give it back by openai_grammar_put. */
bool openai_grammar_get(struct openai_host *h, const char *param, const char *text, size_t n_text, bool is_schema,
		struct openai_grammar *out, struct openai_error *e);
void openai_grammar_put(struct openai_host *h, struct openai_grammar *g);

/* ---- Requests ---- */

enum { OPENAI_PROMPTS_MAX = 2048, OPENAI_TOP_MAX = 20, OPENAI_N_MAX = 128, OPENAI_BIASES_MAX = 4096 };

struct openai_prompt {
	size_t first, n; /* tokens[first .. first + n) */
	const char *text; /* [n_text], of the body; NULL: it was given as tokens */
	size_t n_text;
	json_t *choices; /* an array, or the embedding: when it was taken */
	bool taken;
};

struct openai_request {
	enum openai_route route;
	json_t *body; /* a reference: texts below are borrowed from it */
	const char *model; /* as the body has it, or NULL */
	struct cohort_request_params params; /* of every prompt, but for the prompt itself */
	int64_t n, best_of; /* choices of each prompt; outputs they are chosen from */
	bool echo, stream, include_usage, base64;
	int32_t n_logprobs; /* of the answer; -1: none */
	cohort_token *tokens;
	size_t n_tokens, n_tokens_max;
	struct openai_prompt *prompts;
	size_t n_prompts, n_prompts_max;
	struct openai_grammar grammar; /* g NULL: none of its own */
	struct cohort_logit_bias *bias;
	const char **stops, **breakers;
	/* What was used. */
	int64_t n_prompt_tokens, n_cached, n_generated;
};

/* Reads a body for a route. On failure e is filled and r needs no release. r must not be moved afterwards. */
bool openai_request_parse(struct openai_host *h, enum openai_route route, json_t *body, struct openai_request *r,
		struct openai_error *e);
/* Queues prompt i. params->on_event, client, priority and limits may be set before. Full queues are 429, a closed
 * engine 503. */
bool openai_request_submit(const struct openai_host *h, struct openai_request *r, size_t i,
		struct cohort_engine *engine, struct cohort_request **out, struct openai_error *e);
/* Reads all events of prompt i, which has ended (and has no on_event), and keeps its part of the answer. The handle may
 * be freed then. */
bool openai_request_take(const struct openai_host *h, struct openai_request *r, size_t i, struct cohort_request *handle,
		struct openai_error *e);
/* The answer, when all prompts were taken; once. NULL when out of memory. */
json_t *openai_response(const struct openai_host *h, struct openai_request *r, const char *id, int64_t created);
void openai_request_release(struct openai_host *h, struct openai_request *r);

/* Parts of openai_request_parse. */
bool openai_params_read(struct openai_host *h, struct openai_request *r, struct openai_error *e);
bool openai_prompts_read(struct openai_host *h, struct openai_request *r, struct openai_error *e);
/* "a string", "null", ... */
const char *openai_kind(const json_t *value);
/* A field's value, or NULL if it is absent or null. */
json_t *openai_field(const struct openai_request *r, const char *name);

#endif
