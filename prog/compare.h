/* The continuations of a prompt beside each other: what they share, where they part, how alike and how likely they
 * are. docs/programs.md has the definitions. */
#ifndef PROG_COMPARE_H
#define PROG_COMPARE_H

#include "gen.h"

/* Similarities are there for up to so many texts, and look at so many words of each. */
enum { COMPARE_TEXTS_MAX = 64, COMPARE_WORDS_MAX = 4096 };

/* Letters, digits and the like without white space between; a sign, or a character that is two cells wide, is a word by
 * itself. */
struct compare_word {
	size_t gap;         /* where the white space before it begins */
	size_t from, to;    /* bytes of the text */
	int32_t id;         /* the same for the same word */
	int32_t exact;      /* the same for the same word after the same white space */
};

struct compare_text {
	struct compare_word *words; /* [n_words] */
	size_t n_words;
	size_t together;    /* words that it begins with as another does, at most */
	int32_t with;       /* the first of those others; -1: there is no other */
	bool same;          /* that one has no other words */
};

/* Texts that have their first `depth` words together, and not the next one. */
struct compare_fork {
	size_t depth;
	int32_t first, n;   /* of the order; n >= 2 */
	int32_t level;      /* how many forks it lies behind */
};

struct compare {
	const struct gen_prompt *p;
	struct compare_text *texts;  /* [n] */
	int32_t n;
	int32_t *order;              /* [n]: those that stay together longer stand together */
	struct compare_fork *forks;  /* [n_forks], each before those behind it */
	size_t n_forks, forks_max;
	size_t shared;               /* words that all begin with; 0 of one text */
	size_t shared_bytes;         /* up to the end of the last of them */
	double *similarity;          /* [n, n], or NULL */
	int32_t best;                /* the likeliest by the mean of its tokens; -1: none has tokens */
};

/* p must outlive c. Returns 0, or an exit code after saying why; compare_release is needed either way. */
int compare_init(struct compare *c, const char *prog, const struct gen_prompt *p);
void compare_release(struct compare *c);

/* Word `at` of text i, or NULL behind its last. */
const struct compare_word *compare_word(const struct compare *c, int32_t i, size_t at);
/* Of the order, how many from `from` on take the same way as it out of a fork. */
int32_t compare_branch(const struct compare *c, const struct compare_fork *f, int32_t from);

/* Why a text ended, in words: "length reached". */
const char *compare_end(const struct gen_text *t);

/* All prompts side by side on standard output; width 0: that of the terminal. Returns 0 or an exit code. */
struct job;
int compare_show(const struct job *j, int64_t width);

#endif
