/* The tokens of a conversation's text so far: those that were given to the model, and those that it gave. Tokenising
 * its answers again may give others for the same text, and then nothing behind them could be reused. */
#ifndef PROG_CHAT_MEMORY_H
#define PROG_CHAT_MEMORY_H

#include "cohort.h"

/* A place in a conversation's text: bytes and tokens in front of it. */
struct chat_mark {
	size_t n_text, n_tokens;
};

struct chat_memory {
	char *text;           /* [n_text] */
	size_t n_text, text_max;
	cohort_token *tokens; /* [n_tokens], of it */
	size_t n_tokens, tokens_max;
	/* [n_marks]: where prompts and answers end. Rising. */
	struct chat_mark *marks;
	size_t n_marks, marks_max;
};

void chat_memory_release(struct chat_memory *m);
/* The longest beginning of a text that ends at a mark, {0, 0} if none. */
struct chat_mark chat_memory_find(const struct chat_memory *m, const char *text, size_t n_text);
/* Forgets what is behind a mark that chat_memory_find gave, and goes on with this; the end is a mark. False when out of
 * memory: then all is forgotten. */
bool chat_memory_add(struct chat_memory *m, struct chat_mark from, const char *text, size_t n_text,
		const cohort_token *tokens, size_t n_tokens);

#endif
