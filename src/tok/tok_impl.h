/* What the files of src/tok share. Nobody else includes this. */
#ifndef TOK_TOK_IMPL_H
#define TOK_TOK_IMPL_H

#include "base/mem.h"
#include "tok/tok.h"

/* ---- Pre-tokenisers (pretok.c) -------------------------------------------- */

#define PRETOK_PASSES 5

struct pretok_rule {
	const char *name;
	/* Applied one after the other, each to every piece that the one before left, matches and gaps alike. */
	const char *pattern[PRETOK_PASSES];
	bool ignore_merges; /* a word that is a token is that token, whatever the merges say */
	bool add_bos;       /* what holds when the file does not say: Llama 3 files often do not, and need it */
};

struct pretok {
	const struct pretok_rule *rule;
	void *code[PRETOK_PASSES]; /* compiled patterns */
	size_t n_passes;
};

/* The rule of a name or of one of its other names; NULL when unknown. The name "gpt-2" is always known. */
const struct pretok_rule *pretok_find(const char *name, size_t n);
enum cohort_status pretok_init(struct pretok *p, const struct pretok_rule *rule, struct cohort_err *err);
void pretok_release(struct pretok *p);

typedef enum cohort_status pretok_word_fn(void *user, const char *word, size_t n, struct cohort_err *err);

/* Calls word() for each piece of s in order; together they are s. s is valid UTF-8. */
struct pretok_run { /* working memory of one call chain */
	void *match, *context;
};
enum cohort_status pretok_run_init(struct pretok_run *r, size_t n_bytes, struct cohort_err *err);
void pretok_run_release(struct pretok_run *r);
enum cohort_status pretok_split(const struct pretok *p, struct pretok_run *r, const char *s, size_t n,
		pretok_word_fn *word, void *user, struct cohort_err *err);

/* ---- The vocabulary (vocab.c) --------------------------------------------- */

struct tok_special {
	const char *s;
	uint32_t n;
	cohort_token id;
};

struct tok_pair { /* one slot of the merge table */
	uint64_t pair;      /* left id << 32 | right id */
	uint32_t rank;
	cohort_token id;    /* -1: empty */
};

#define TOK_EOG 0x80 /* in tok.attr, beside the type */

struct tok {
	enum tok_kind kind;
	int32_t n_vocab;
	char *bytes;        /* all tokens' bytes, one behind the other */
	size_t *at;         /* [n_vocab + 1] */
	uint8_t *attr;      /* [n_vocab] type and TOK_EOG */
	float *scores;      /* [n_vocab] SPM only */
	struct strmap ids;  /* bytes -> id of tokens that plain text may become; keys are in `bytes` */
	cohort_token byte_id[256]; /* -1: none */
	size_t n_longest;   /* bytes of the longest token in ids */
	bool inner_space;   /* SPM: some token of ids has a space behind another character */
	cohort_token bos, eos, unk; /* -1: none */
	bool add_bos, add_eos, add_space;

	struct tok_special *specials; /* sorted by bytes, then by id */
	uint32_t n_specials;
	uint32_t first[257];          /* specials with first byte c are first[c] .. first[c + 1] */

	struct tok_pair *pairs;       /* BPE: open addressing */
	size_t n_pair_slots;
	struct pretok pretok;
	char note[200];
};

static inline unsigned tok_type(const struct tok *t, cohort_token id)
{
	return t->attr[id] & 7;
}

/* ---- Special tokens (special.c) ------------------------------------------- */

#define TOK_SPECIAL_MAX 1024 /* bytes; bounds the work per position of a text */

enum cohort_status special_init(struct tok *t, struct cohort_err *err);
/* The first special token in s at or behind `from`: its place and id; false if there is none.
 * User-defined tokens always count, control tokens only if asked. */
bool special_next(const struct tok *t, const char *s, size_t n, size_t from, bool control,
		size_t *at, cohort_token *id);

/* ---- Merging (merge.c) ------------------------------------------------------ */

struct tok_sym {
	uint32_t at, n;     /* place in the text; n == 0: merged into its left neighbour */
	int32_t prev, next; /* -1: none */
	cohort_token id;    /* -1: not known to be a token */
};

struct tok_cand {
	uint64_t key;       /* priority << 32 | left symbol: the smallest goes first */
	uint32_t n;         /* bytes of both; tells whether a symbol has changed since */
	cohort_token id;
};

struct merge {
	struct tok_sym *syms;
	size_t n_syms, syms_max;
	struct tok_cand *heap;
	size_t n_heap, heap_max;
};

/* Whether two neighbours make a token, which, and how urgently (0 first). */
typedef bool merge_pair_fn(const struct tok *t, const char *text, const struct tok_sym *l, const struct tok_sym *r,
		uint32_t *priority, cohort_token *id);

bool merge_add(struct merge *m, size_t at, size_t n, cohort_token id);
/* Merges until nothing merges; what is left hangs together from syms[0] by next. False: out of memory. */
bool merge_run(struct merge *m, const struct tok *t, const char *text, merge_pair_fn *pair);
void merge_release(struct merge *m);

/* ---- Encoding (encode.c, spm.c, bpe.c) --------------------------------------- */

#define TOK_TEXT_MAX ((size_t)512 << 20) /* symbol places fit 32 bits with room to spare */

struct tok_out {
	cohort_token *ids;
	size_t n, n_max;
	struct merge merge;
	struct pretok_run run;
	char *text;         /* SPM: the fragment with its spaces as the vocabulary has them */
	size_t text_max;
};

enum cohort_status tok_emit(struct tok_out *o, cohort_token id, struct cohort_err *err);
/* The byte's token, or the unknown token, or a status. */
enum cohort_status tok_emit_byte(const struct tok *t, struct tok_out *o, uint8_t byte, struct cohort_err *err);

/* Text between special tokens. prefix: put a space in front. */
enum cohort_status spm_encode(const struct tok *t, struct tok_out *o, const char *s, size_t n, bool prefix,
		struct cohort_err *err);
enum cohort_status bpe_encode(const struct tok *t, struct tok_out *o, const char *s, size_t n, struct cohort_err *err);

/* At open. */
enum cohort_status spm_init(struct tok *t, const struct gguf *g, struct cohort_err *err);
enum cohort_status bpe_init(struct tok *t, const struct gguf *g, struct cohort_err *err);
/* The bytes of a vocabulary text: written to out (at most n of them), their number returned. */
size_t spm_text_bytes(unsigned type, const char *s, size_t n, char *out);
size_t bpe_text_bytes(unsigned type, const char *s, size_t n, char *out, bool *mapped);

#endif
