/* What the routes that generate share: a body's requests on their way through the engine (serve_work.c). Each kind says
 * how answers are written: OpenAI's (serve_generate.c), llama-server's own (serve_native.c). */
#ifndef PROG_SERVE_WORK_H
#define PROG_SERVE_WORK_H

#include "serve.h"

struct work;

struct work_kind {
	enum openai_route route; /* by whose rules the body is read */
	const char *prefix; /* of its id */
	/* The field that a body has its prompts in, where that is not the route's own, or NULL. */
	const char *(*field)(const json_t *body);
	/* Changes what a body says before it is read, or NULL. */
	bool (*prepare)(struct call *c, json_t *body, struct openai_error *e);
	/* The whole answer, when all has ended. */
	enum step (*whole)(struct call *c, struct work *w);
	/* A stream: opened and closed, and what it says to begin with, for an event, about an error (which sets
	 * w->failed) and in the end. False when out of memory. */
	bool (*open)(struct call *c, struct work *w);
	void (*close)(struct work *w);
	bool (*begin)(struct call *c, struct work *w, struct openai_buf *out);
	bool (*event)(struct call *c, struct work *w, size_t i, const struct cohort_event *ev, struct openai_buf *out);
	bool (*error)(struct call *c, struct work *w, const struct openai_error *e, struct openai_buf *out);
	bool (*end)(struct call *c, struct work *w, struct openai_buf *out);
};

struct work {
	const struct work_kind *kind;
	struct openai_request r;
	bool parsed;
	struct cohort_request **handles; /* [r.n_prompts]; NULL: not queued yet */
	size_t n_submitted;
	double came, queue_limit_s, total_limit_s; /* when the first were queued (0: now), and limits from there */
	bool *done; /* [r.n_prompts]: it has ended, and all of it was read */
	size_t n_done;
	struct cohort_request_stats *stats; /* [r.n_prompts], of those that are done */
	char id[64];
	int64_t created;
	bool streaming, begun, failed, ended;
	double spoke; /* when something was sent */
	union {
		struct openai_stream stream;
		struct {
			struct openai_escape text;
			int32_t n_tokens;
			size_t n_chars; /* of the tokens so far; with log-probabilities only */
			enum cohort_finish finish;
		} native;
	} u; /* the kind's own */
};

/* A route's run function: reads the body, queues what it asks for, and answers when it is there. */
enum step work_run(struct call *c, const struct work_kind *kind);
/* {"cache_n": ..., "prompt_ms": ...}; NULL when out of memory. */
json_t *work_timings(const struct cohort_request_stats *stats, size_t n);
enum { WORK_TEXT_MAX = 256 };
/* The hash of a text field of at most so many bytes, from a number on; `out` stays as it is if the field is absent or
 * null. */
bool work_read_text(const struct server *srv, const json_t *body, const char *name, uint64_t from, uint64_t *out,
		struct openai_error *e);
/* How large grammars and schemas may be. Before a body is parsed: to open a grammar is the expensive part. */
bool work_check_grammars(const struct server *srv, const json_t *body, struct openai_error *e);
/* Choices and stop strings that this server gives and takes. */
bool work_check_limits(const struct server *srv, const struct openai_request *r, struct openai_error *e);

#endif
