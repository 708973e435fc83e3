/* A conversation: messages in order, answers to choose from, and the way to JSON and back. */
#ifndef PROG_CHAT_CONVO_H
#define PROG_CHAT_CONVO_H

#include "cohort.h"

enum chat_role { CHAT_SYSTEM, CHAT_USER, CHAT_ASSISTANT };
const char *chat_role_name(enum chat_role role);

enum { CHAT_MESSAGES_MAX = 100000, CHAT_FILE_BYTES_MAX = 1 << 28 };

struct chat_message {
	enum chat_role role;
	char *text;     /* [n_bytes], UTF-8 without NUL bytes, with a NUL behind */
	size_t n_bytes;
};

struct chat_convo {
	struct chat_message *messages; /* [n_messages] */
	size_t n_messages, messages_max;
	size_t n_hidden;               /* messages behind the system prompt that the model does not see any more */
	struct chat_message *branches; /* [n_branches]: answers to the last message, one of which is to be picked */
	size_t n_branches, branches_max;
};

void chat_convo_release(struct chat_convo *c);

/* Bytes that are not UTF-8, and NUL bytes, become U+FFFD; *n_bad tells how many (NULL: never mind). False when out of
 * memory, or there are too many messages. */
bool chat_convo_add(struct chat_convo *c, enum chat_role role, const char *text, size_t n_bytes, size_t *n_bad);
/* Sets, replaces or (NULL) removes the system prompt. */
bool chat_convo_system_set(struct chat_convo *c, const char *text, size_t n_bytes, size_t *n_bad);
/* Its message, or NULL. */
const struct chat_message *chat_convo_system(const struct chat_convo *c);
/* The last message, or NULL. */
const struct chat_message *chat_convo_last(const struct chat_convo *c);
/* Takes the last message back, into *out (released by the caller) or for good (NULL). */
void chat_convo_pop(struct chat_convo *c, struct chat_message *out);
/* Gives a message that was taken back again: there is always room for it. */
void chat_convo_push(struct chat_convo *c, struct chat_message m);
/* Takes back the last message of the user and all behind it. False if there is none. */
bool chat_convo_undo(struct chat_convo *c);

/* Branches: as chat_convo_add, an answer; picking one makes it the last message and forgets the others. */
bool chat_convo_branch(struct chat_convo *c, const char *text, size_t n_bytes);
bool chat_convo_pick(struct chat_convo *c, size_t i); /* false when out of memory */
void chat_convo_branches_clear(struct chat_convo *c);

/* Hides the oldest turn that the model still sees: a message of the user and the answers behind it. False if that is
 * the last one. */
bool chat_convo_hide(struct chat_convo *c);

/* What the model sees, as a JSON array; or all, as an object with "messages", to be kept. NUL-terminated, freed with
 * mem_free; NULL when out of memory. */
char *chat_convo_json(const struct chat_convo *c);
char *chat_convo_file(const struct chat_convo *c, size_t *n_bytes);
/* The way back: an array, or an object with one as "messages". c is empty before, and on failure: E_FORMAT with what is
 * wrong and where, E_LIMIT, E_MEMORY. */
enum cohort_status chat_convo_load(struct chat_convo *c, const char *text, size_t n_bytes, struct cohort_err *err);

/* A copy as above, with a NUL behind; NULL when out of memory. */
char *chat_utf8(const char *text, size_t n_bytes, size_t *n_out, size_t *n_bad);

#endif
