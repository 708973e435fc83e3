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
/* The engine failed, not the request: a 500. */
bool openai_broken(const struct cohort_err *err, struct openai_error *e);
/* {"error": {...}}; NULL when out of memory. */
json_t *openai_error_json(const struct openai_error *e);

/* ---- JSON ---- */

/* Bytes as a JSON string: what is not UTF-8 becomes U+FFFD. NULL when out of memory. */
json_t *openai_text(const char *bytes, size_t n);

/* Bytes that the values of a JSON text take, by estimate, when it is parsed; what its strings say does not count. */
size_t openai_json_size(const char *bytes, size_t n);
/* Whether that is at most OPENAI_VALUES_MAX: 128 MiB are 2.7 million tokens, eight times the largest body of the
 * server's default. */
enum { OPENAI_VALUES_MAX = 128 << 20 };
/* Of a client's text they may take this, and three times the text. */
enum { OPENAI_VALUES_ROOM = 8 << 20 };
bool openai_json_fits(const char *bytes, size_t n);

/* Lists of tokens in a body's prompt, input, content or tokens take 48 bytes a token as values. Before a body is parsed
 * openai_ids_pack makes texts of them, in place; what it returns goes to openai_ids_mark when the body was parsed. */
unsigned openai_ids_pack(char *bytes, size_t n);
bool openai_ids_mark(json_t *body, unsigned packed);
/* Whether a field's strings are such texts. */
bool openai_ids_packed(const json_t *body, const char *field);
/* Tokens of a list, packed or not; out has room for them. where: for refusals. */
size_t openai_ids_count(const json_t *list);
bool openai_ids_read(
		const json_t *list, const char *where, int32_t n_vocab, cohort_token *out, struct openai_error *e);

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

/* How a template writes calls of tools. */
enum openai_call_style {
	OPENAI_CALLS_NONE = 0, /* it knows no tools */
	OPENAI_CALLS_UNKNOWN, /* it knows tools, and writes calls in a way that is not read here */
	OPENAI_CALLS_TAGGED, /* <tool_call>{"name": ..., "arguments": {...}}</tool_call>: Hermes, Qwen */
	OPENAI_CALLS_LISTED, /* [TOOL_CALLS][{"name": ..., "arguments": {...}}]: Mistral */
	OPENAI_CALLS_BARE /* {"name": ..., "parameters": {...}}: Llama 3 */
};

struct openai_host {
	const struct cohort_model *model;
	struct cohort_model_info info;
	const char *name; /* of the model, in answers */
	struct cohort_lexicon *lexicon;
	struct cohort_template *template; /* NULL: the model has none; then no_template says why */
	char *template_text; /* its source, or NULL */
	char no_template[256];
	char *bos, *eos; /* texts that the template sees, or NULL */
	enum openai_call_style calls;
	char call_open[40]; /* what it writes in front of a call's JSON */
	bool no_system; /* it takes no messages of the system */
	cohort_token front; /* that the model's own rule puts in front of a text; -1: none */
	const char *now; /* the time that it sees; NULL: the clock's. Set by the caller, who keeps it */
	struct cohort_sampler_params sampler; /* what a body leaves out */
	int32_t n_chat, n_completion; /* tokens of an answer whose body sets no limit; -1: until the context is full */
	enum cohort_pooling pooling;
	int32_t n_fit; /* tokens that a prompt can have; 0: not known */
	struct lock lock; /* of what follows */
	bool has_lock;
	struct openai_grammar grammars[OPENAI_GRAMMARS];
	uint64_t n_used;
};

/* path: the model's file, for its chat template. sampler: the defaults, whose grammar and texts must outlive the host.
 * Statuses: those of cohort_lexicon_open; a template that cannot be used is no failure. */
enum cohort_status openai_host_open(struct openai_host *h, const struct cohort_model *model, const char *path,
		const struct cohort_sampler_params *sampler, struct cohort_err *err);
/* Another template than the model's, before the host is used. Statuses: those of cohort_template_open; after a failure
 * the host is as it was. */
enum cohort_status openai_host_template(
		struct openai_host *h, const char *source, size_t n_bytes, struct cohort_err *err);
/* The n_ctx of an engine: as given, or with 0 as much as n_slots can use, within reason (what is not used is free): up
 * to `most`, or one text of the model. Prompts that do not fit into that are refused from then on. */
int64_t openai_host_room(struct openai_host *h, int64_t n_ctx, int64_t n_slots, int64_t most);
void openai_host_release(struct openai_host *h);

/* A grammar from the cache, or opened. Threads may ask at the same time. Give it back by openai_grammar_put. */
bool openai_grammar_get(struct openai_host *h, const char *param, const char *text, size_t n_text, bool is_schema,
		struct openai_grammar *out, struct openai_error *e);
void openai_grammar_put(struct openai_host *h, struct openai_grammar *g);

/* ---- Requests ---- */

enum { OPENAI_PROMPTS_MAX = 2048, OPENAI_TOP_MAX = 20, OPENAI_N_MAX = 128 };
enum { OPENAI_BIASES_MAX = 4096, OPENAI_TOOLS_MAX = 128 };

struct openai_prompt {
	size_t first, n; /* tokens[first .. first + n) */
	const char *text; /* [n_text], of the body; NULL: it was given as tokens */
	size_t n_text;
	json_t *choices; /* an array, or the embedding: when it was taken */
	bool taken;
};

struct openai_request {
	enum openai_route route;
	const char *field; /* that the prompts are in */
	json_t *body; /* what is left of it: texts below are borrowed from it */
	const char *model; /* as the body has it, or NULL */
	struct cohort_request_params params; /* of every prompt, but for the prompt itself */
	int64_t n, best_of; /* choices of each prompt; outputs they are chosen from */
	bool echo, stream, include_usage, base64;
	bool has_seed; /* the body names one; else params has the host's */
	bool no_opening; /* of the answer, behind a chat's last message */
	int32_t n_logprobs; /* of the answer; -1: none */
	cohort_token *tokens;
	size_t n_tokens, n_tokens_max;
	struct openai_prompt *prompts;
	size_t n_prompts, n_prompts_max;
	const json_t *tools; /* that may be called; NULL: none */
	const json_t *tool; /* of these the one that must be; NULL: no such */
	bool must_call, parallel_calls;
	enum openai_call_style calls; /* what is looked for in the text; NONE without tools */
	uint64_t call_seed; /* names of calls come from it */
	struct openai_grammar grammar; /* g NULL: none of its own */
	struct cohort_logit_bias *bias;
	const char **stops, **breakers;
	char *rendered; /* [n_rendered] a chat's messages as the template wrote them, or NULL */
	size_t n_rendered;
	bool only_text; /* there is that, and no prompt */
	bool takes; /* messages are taken out of the body as soon as they were read */
	/* What was used. */
	int64_t n_prompt_tokens, n_cached, n_generated;
};

/* Reads a body for a route. On failure e is filled and r needs no release. r must not be moved afterwards. */
bool openai_request_parse(struct openai_host *h, enum openai_route route, json_t *body, struct openai_request *r,
		struct openai_error *e);
/* The same for long bodies, out of which it takes messages, and where the prompts may be in another field than the
 * route's own. field: static; NULL: the route's own. */
bool openai_request_parse_field(struct openai_host *h, enum openai_route route, const char *field, json_t *body,
		struct openai_request *r, struct openai_error *e);
/* Likewise the text of a chat, whatever its length: r->rendered, and nothing that could be queued. */
bool openai_request_render(struct openai_host *h, json_t *body, struct openai_request *r, struct openai_error *e);
/* Queues prompt i. params->on_event, client, priority and limits may be set before. max_tokens beyond the context ends
 * where the context does. Full queues are 429, a prompt that no queue or context of this engine holds 400, a closed
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

/* ---- Streams ---- */

/* A request with "stream" as server-sent events. openai_stream_begin; openai_stream_event for every event of every
 * prompt, in the order of each; then, whatever happened, openai_stream_end. All of them append whole events
 * ("data: {...}\n\n") to a buffer, or none, and return false only when memory is out: then openai_stream_error is to be
 * tried, the requests cancelled and the stream ended. For one thread at a time. */
struct openai_stream_choice; /* opaque */
struct openai_stream {
	const struct openai_host *host;
	const struct openai_request *r;
	struct openai_stream_choice *choices; /* [n_choices]: those of the first prompt, of the second, ... */
	size_t n_choices;
	struct openai_buf head; /* what every event begins with, up to the choice */
	const json_t *timings; /* told with what was used, if it is set before the end */
	bool failed; /* an error was told: nothing but the end follows */
	bool ended;
};

/* r was parsed with stream set, and must outlive the stream. False: out of memory; s needs no release then. */
bool openai_stream_init(struct openai_stream *s, const struct openai_host *h, const struct openai_request *r,
		const char *id, int64_t created);
void openai_stream_release(struct openai_stream *s);
/* Roles of a chat; the echo of a completion, unless it has log-probabilities, which come with the prompt's event. */
bool openai_stream_begin(struct openai_stream *s, struct openai_buf *out);
/* An event of the engine for prompt i. An output that ended in failure becomes the stream's error (s->failed), after
 * which events say nothing: the other requests may be cancelled. */
bool openai_stream_event(
		struct openai_stream *s, size_t i_prompt, const struct cohort_event *ev, struct openai_buf *out);
/* Tells an error, unless one was told before. */
bool openai_stream_error(struct openai_stream *s, const struct openai_error *e, struct openai_buf *out);
/* What was used, when it was asked for and nothing failed, and the end; once. stats: [n_stats], one of each prompt. */
bool openai_stream_end(struct openai_stream *s, const struct cohort_request_stats *stats, size_t n_stats,
		struct openai_buf *out);

/* Bytes as the inside of a JSON string, in pieces: what is not UTF-8 becomes U+FFFD, the same in any pieces as
 * openai_text makes it of the whole. Start with zeros; a last call with `last` ends the text. */
struct openai_escape {
	char part[4]; /* [n_part] bytes of a character that is not whole yet */
	uint8_t n_part;
	bool skip; /* the rest of a character that was none */
};
bool openai_escape_add(struct openai_escape *x, struct openai_buf *out, const char *bytes, size_t n, bool last);

/* ---- Parts of answers, whole or streamed ---- */

/* Log-probabilities of a choice as they come. In a chat the first list has it all. */
struct openai_lists {
	json_t *tokens, *logprobs, *tops, *offsets;
};
bool openai_lists_init(struct openai_lists *l);
void openai_lists_release(struct openai_lists *l);
bool openai_lists_add(const struct openai_host *h, const struct openai_request *r, struct openai_lists *l,
		cohort_token t, float logprob, const struct cohort_logprob *top, int32_t n_top);
/* The prompt's own, when it is echoed. */
bool openai_lists_add_prompt(const struct openai_host *h, struct openai_lists *l, const cohort_token *tokens,
		const struct cohort_event *ev);
/* Where each token begins in the text, in characters. n_skip bytes of the first tokens are not in the text. */
bool openai_lists_add_offsets(const struct openai_host *h, const struct openai_request *r, struct openai_lists *l,
		const cohort_token *tokens, size_t n, size_t n_skip, const char *text, size_t n_text, size_t base);
/* The same for the echo of a prompt. */
bool openai_lists_add_echo(const struct openai_host *h, const struct openai_request *r, struct openai_lists *l,
		const struct openai_prompt *p, const char *echo, size_t n_echo);
/* New reference; NULL: out of memory. */
json_t *openai_lists_json(const struct openai_request *r, const struct openai_lists *l);
size_t openai_count_chars(const char *text, size_t n);
/* Bytes that a token has in the text. */
size_t openai_token_size(const struct openai_host *h, const struct openai_request *r, cohort_token t);
/* JSON has no infinity. */
json_t *openai_number(double x);
/* The text of prompt i that a choice begins with: as it came, or that of its tokens (then *own is to be freed by
 * mem_free, also after a failure: out of memory). Empty without echo. */
bool openai_echo(const struct openai_host *h, const struct openai_request *r, size_t i, char **own, const char **text,
		size_t *n);
/* An output that did not end by itself makes the whole request fail. */
bool openai_check_end(enum cohort_finish finish, const struct cohort_err *error, struct openai_error *e);

/* ---- Calls of tools ---- */

/* Looks for calls in a text that comes in pieces; the result is the same in any pieces. Start with zeros. */
struct openai_calls {
	struct openai_buf held; /* what is not decided yet, behind the first n_gone */
	size_t n_gone;
	/* Places, counted from there. */
	size_t n_space; /* whitespace that is known to be in front */
	size_t at_open; /* where the opening begins; only whitespace is in front of it */
	size_t at_value; /* where the JSON begins; */
	size_t at_end; /* where it ends; */
	size_t pos; /* looked at so far */
	int phase;
	uint32_t depth; /* of the JSON */
	bool in_string, escaped;
	int n_calls;
};
/* Text that is none of a call goes to text, calls as the API has them to the array. last: the text has ended. choice:
 * its index, for the names of calls. False: out of memory. */
bool openai_calls_feed(struct openai_calls *c, const struct openai_request *r, size_t choice, const char *bytes,
		size_t n, bool last, struct openai_buf *text, json_t *calls);
void openai_calls_release(struct openai_calls *c);

/* Finds out how the host's template writes calls. False: out of memory. */
bool openai_tools_probe(struct openai_host *h);
/* tools, tool_choice, parallel_tool_calls; after the other parameters. */
bool openai_tools_read(struct openai_host *h, struct openai_request *r, struct openai_error *e);
/* A message's calls as templates expect them: arguments as an object. copy is changed. where: the message. n_values:
 * bytes that the values within all arguments take so far. */
bool openai_tools_message(json_t *copy, const char *where, size_t *n_values, struct openai_error *e);

/* Parts of openai_request_parse. */
bool openai_params_read(struct openai_host *h, struct openai_request *r, struct openai_error *e);
bool openai_prompts_read(struct openai_host *h, struct openai_request *r, struct openai_error *e);
/* "a string", "null", ... */
const char *openai_kind(const json_t *value);
/* A field's value, or NULL if it is absent or null. */
json_t *openai_field(const struct openai_request *r, const char *name);

#endif
