/* What the parts of cohort chat share. */
#ifndef PROG_CHAT_H
#define PROG_CHAT_H

#include "chat_convo.h"
#include "chat_format.h"
#include "common.h"
#include "flow.h"
#include "gen.h"
#include "sampling.h"
#include "settings.h"
#include "talk.h"

enum { CHAT_BRANCHES_MAX = 64 };

struct chat {
	/* Options. */
	const char *model_path, *isa, *system, *system_file, *session, *template;
	struct load_opts load;
	struct sampling s;
	int64_t n_predict, n_ctx, threads; /* n_predict -1: until the model ends its answer */
	bool threads_given, context_shift, no_history;

	struct cohort_model *model;
	struct cohort_model_info info;
	struct chat_format format;
	struct gen gen;
	struct flow flow;                    /* of the answer that is being printed */
	struct settings settings;
	struct talk talk;
	struct chat_convo convo;
	struct chat_memory memory;
	struct chat_prompt prompt;           /* that the last answers are of */
	struct gen_prompt tried;             /* ... with the branches' tokens */
	bool changed;          /* since the session's file was written */
	uint64_t n_retries;    /* of the last answer: the seed goes on with them */

	/* Of the last answer, and of all. */
	struct chat_stats {
		uint64_t n_prompt, n_cached, n_generated;
		double first_s, total_s;
		enum cohort_finish finish;
	} last, all;
	size_t n_answers;
};

/* Tokens that a conversation and its answer can have. */
int64_t chat_limit(const struct chat *c);
/* What the model would be given now. Returns 0 or an exit code, as all of these. */
int chat_prompt(const struct chat *c, struct chat_prompt *out);

/* Whether n messages more can be kept; says so if not. */
bool chat_room(const struct chat *c, size_t n);

/* Answers what the user said; the message is taken back if that cannot be. */
int chat_say(struct chat *c, const char *text, size_t n_bytes);
/* Answers the last message again; branches: n answers to choose from. The old answer stays if that fails. */
int chat_retry(struct chat *c);
int chat_branch(struct chat *c, int32_t n);
/* Goes on from branch i. */
int chat_pick(struct chat *c, size_t i);

/* Reads and writes conversations. */
int chat_load(struct chat *c, const char *path);
int chat_save(struct chat *c, const char *path);
/* With a session, if anything has changed. */
int chat_session_save(struct chat *c);

extern const struct talk_command chat_commands[];
extern const size_t chat_n_commands;

#endif
