/* How a model wants a conversation written: its chat template, and what ends an answer. */
#ifndef PROG_CHAT_FORMAT_H
#define PROG_CHAT_FORMAT_H

#include "chat_memory.h"
#include "cohort_engine.h"
#include "cohort_tools.h"
#include "template_use.h"

enum { CHAT_STOPS_MAX = 2 };

struct chat_format {
	const char *prog;
	const struct cohort_model *model;
	struct cohort_template *template;
	char *bos, *eos;                  /* texts of these tokens, or NULL */
	bool adds_bos;                    /* the model's own rule puts it in front */
	bool no_system;                   /* the template takes no system prompt: the first user message gets it */
	char *variables;                  /* of the template, as JSON; */
	char now[TEMPLATE_NOW_MAX];       /* the time in them: that of the beginning, so that prompts begin alike */
	/* What follows an answer in a conversation, and so ends one that is being generated. */
	char *stops[CHAT_STOPS_MAX];
	int32_t n_stops;
	cohort_token stop_tokens[CHAT_STOPS_MAX];
	int32_t n_stop_tokens;
};

/* The model's own template (choice NULL), or what -chat-template says (template_named.h). path is the model's, NULL:
 * the built-in one. Returns 0 or an exit code after saying why. */
int chat_format_open(struct chat_format *f, const char *prog, const struct cohort_model *model, const char *path,
		const char *choice);
void chat_format_release(struct chat_format *f);

/* A conversation and the beginning of an answer. */
struct chat_prompt {
	char *text;           /* [n_text] */
	size_t n_text;
	cohort_token *tokens; /* [n_tokens] */
	size_t n_tokens;
};
void chat_prompt_release(struct chat_prompt *p);
/* Of messages, a JSON array. Returns 0 or an exit code after saying why. */
int chat_format_tokens(const struct chat_format *f, const char *messages, const struct chat_memory *memory,
		struct chat_prompt *out);

/* What stops answers, of two texts: `after`, what follows an answer that is the last message; `between`, what stands
 * between an answer and what the user says next. Into stops[CHAT_STOPS_MAX], as places within the texts; returns how
 * many. Whitespace alone is none, and at the end of one it is left away. */
struct chat_piece {
	const char *text;
	size_t n_bytes;
};
int32_t chat_format_stops(const char *after, const char *between, struct chat_piece *stops);

#endif
