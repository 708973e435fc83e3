/* What the files of src/tok share. Nobody else includes this. */
#ifndef TOK_TOK_IMPL_H
#define TOK_TOK_IMPL_H

#include "base/bytes.h"
#include "base/mem.h"
#include "tok/tok.h"

/* ---- Pre-tokenisers (pretok.c) -------------------------------------------- */

#define PRETOK_PASSES 6

struct pretok_rule {
	const char *name;
	/* Applied one after the other, each to every piece that the one before left, matches and gaps alike. */
	const char *pattern[PRETOK_PASSES];
	bool ignore_merges; /* a word that is a token is that token, whatever the merges say */
	bool add_bos;       /* what holds when the file does not say: Llama 3 files often do not, and need it */
	bool nfc;           /* the text is brought to Unicode's form C first */
	bool chars;         /* characters merge, not bytes, and U+2581 stands for a space, as SentencePiece has it */
	bool threes;        /* matches of the first pattern are cut into three characters each, from the right */
};

struct pretok {
	const struct pretok_rule *rule;
	void *code[PRETOK_PASSES]; /* compiled patterns */
	size_t n_passes;
	bool jit;                  /* all of them are machine code */
};

/* The rule of a name or of one of its other names; NULL when unknown. The name "gpt-2" is always known. */
const struct pretok_rule *pretok_find(const char *name, size_t n);
/* All rules and all other names, for tests and lists; NULL behind the last. */
const struct pretok_rule *pretok_rule_at(size_t i);
const char *pretok_alias_at(size_t i);
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

/* ---- Unicode (norm.c) -------------------------------------------------------- */

struct norm {       /* working memory of one call */
	int32_t *cps, *sorted;
	size_t n_cps, cps_max, sorted_max;
	struct bytes text;
};

/* Form C of valid UTF-8: s itself where it has that form already, else w->text.p. */
enum cohort_status norm_nfc(struct norm *w, const char *s, size_t n, const char **out, size_t *n_out,
		struct cohort_err *err);
void norm_release(struct norm *w);
/* The canonical decomposition of one character (form D but for the order of marks). */
#define NORM_DECOMPOSED_MAX 8
size_t norm_decompose(uint32_t cp, int32_t out[NORM_DECOMPOSED_MAX]);
uint32_t norm_lower(uint32_t cp);
bool norm_is_space(uint32_t cp);       /* White_Space */
bool norm_is_other(uint32_t cp);       /* controls, format characters, private use */
bool norm_is_mark(uint32_t cp);        /* Mn, which adds to the character before it and takes no room */
bool norm_is_punctuation(uint32_t cp); /* P*, and the signs of ASCII */

/* ---- A trie of token texts (trie.c) ------------------------------------------- */

struct tok_text {
	const char *s;
	uint32_t n;
	cohort_token id;
};

/* For qsort: by bytes, then by id. */
int tok_text_order(const void *pa, const void *pb);

struct trie_node {
	uint32_t first;     /* its children are nodes first .. first + n, sorted by label */
	cohort_token id;    /* -1: no token ends here */
	uint16_t n;
	uint8_t label;
};

struct trie {
	struct trie_node *nodes; /* [n_nodes], the root first */
	size_t n_nodes;
};

/* Keys are sorted in place; none is empty, and of equal ones the lowest id counts. */
enum cohort_status trie_init(struct trie *t, struct tok_text *keys, size_t n_keys, struct cohort_err *err);
void trie_release(struct trie *t);
/* The child of a node by its byte, 0: none (the root is nobody's child). */
uint32_t trie_next(const struct trie *t, uint32_t node, uint8_t byte);
/* The longest token that s begins with: its id and length; -1 and 0 if there is none. */
cohort_token trie_longest(const struct trie *t, const char *s, size_t n, size_t *n_match);

/* ---- SentencePiece's character map (charsmap.c) -------------------------------- */

struct charsmap {
	uint32_t *units;    /* a double-array trie */
	size_t n_units;
	char *texts;        /* what its leaves name: NUL-terminated texts, and a NUL behind the last */
	size_t n_texts;
};

/* An array of bytes as tokenizer.ggml.precompiled_charsmap has it. */
enum cohort_status charsmap_init(struct charsmap *m, const struct gguf_array *a, struct cohort_err *err);
void charsmap_release(struct charsmap *m);
/* The longest beginning of s that the map replaces: its length and what it becomes; 0: none. */
size_t charsmap_find(const struct charsmap *m, const char *s, size_t n, const char **out, size_t *n_out);

/* ---- The vocabulary (vocab.c) --------------------------------------------- */

/* Bytes of a token that is looked for at many places of a text, SPM and Unigram: it bounds the work at each. They are
 * made with 16 characters unless their makers are told otherwise. */
#define TOK_PIECE_MAX 1024

struct tok_pair { /* one slot of the merge table */
	uint64_t pair;      /* left id << 32 | right id */
	uint32_t rank;
	cohort_token id;    /* -1: empty */
};

/* In tok.attr, beside the type: */
#define TOK_EOG 0x80
#define TOK_LSTRIP 0x40 /* a special token that takes the white space before it */
#define TOK_RSTRIP 0x20 /* and behind it */

struct tok {
	enum tok_kind kind;
	int32_t n_vocab;
	char *bytes;        /* all tokens' bytes, one behind the other */
	size_t *at;         /* [n_vocab + 1] */
	uint8_t *attr;      /* [n_vocab] type and TOK_EOG */
	float *scores;      /* [n_vocab] SPM and Unigram */
	struct strmap ids;  /* bytes -> id of tokens that plain text may become; keys are in `bytes` */
	cohort_token byte_id[256]; /* -1: none */
	size_t n_longest;   /* bytes of the longest token in ids */
	bool inner_space;   /* some token that text may become has a space behind another character */
	cohort_token bos, eos, unk; /* -1: none. WordPiece: eos is the separator, bos the class token */
	bool add_bos, add_eos, add_space;
	bool lower, strip_accents; /* WordPiece */
	bool merge_spaces;         /* Unigram: no space at either end, and one where there are several */

	struct tok_text *specials; /* sorted by bytes, then by id */
	uint32_t n_specials;
	uint32_t first[257];          /* specials with first byte c are first[c] .. first[c + 1] */

	struct tok_pair *pairs;       /* BPE: open addressing */
	size_t n_pair_slots;
	struct pretok pretok;
	struct trie trie;             /* WordPiece, Unigram: in place of ids */
	double unk_score;             /* Unigram */
	struct charsmap charsmap;     /* Unigram */
	char note[200];
};

static inline unsigned tok_type(const struct tok *t, cohort_token id)
{
	return t->attr[id] & 7;
}

/* Puts a token that plain text may become into ids; of equal texts the first stays. False when out of memory. */
bool tok_add_id(struct tok *t, cohort_token id);
/* A text of the vocabulary's as it is in the file, and whether a token has it as its bytes. */
bool tok_text_is(const struct tok *t, cohort_token id, const char *text);

/* ---- Tokens with a role (roles.c) ---------------------------------------------- */

enum cohort_status roles_init(struct tok *t, const struct gguf *g, struct cohort_err *err);

/* ---- Special tokens (special.c) ------------------------------------------- */

#define TOK_SPECIAL_MAX 1024 /* bytes; bounds the work per position of a text */

enum cohort_status special_init(struct tok *t, struct cohort_err *err);
/* White space before or behind some special tokens belongs to them; the file does not say of which, names do. */
void special_mark_strip(struct tok *t, const struct gguf *g);
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
	size_t sure;        /* what lies behind this place of the text may still become something else */
	int32_t last;       /* the symbol that ends there; -1: none */
	uint32_t n_behind;  /* bytes that the symbol behind it has at least */
	/* The last answer of soonest, and the symbol that it is for. */
	uint64_t soonest;
	int32_t seen;
	uint32_t seen_end, seen_n;
};

/* Whether two neighbours make a token, which, and how urgently (0 first). */
typedef bool merge_pair_fn(const struct tok *t, const char *text, const struct tok_sym *l, const struct tok_sym *r,
		uint32_t *priority, cohort_token *id);

/* Long words go through in pieces of so many bytes, so that one of any length takes little memory. Tests set it. */
extern size_t merge_window;

bool merge_add(struct merge *m, size_t at, size_t n, cohort_token id);
/* Merges until nothing merges; what is left hangs together from syms[0] by next. The symbols are those of a piece of a
 * text of n bytes. *end: up to where the result is that of the text as a whole; behind it, if it is not the end of the
 * text, the caller begins again, with a longer piece if *end is where this one began. False: out of memory. */
bool merge_run(struct merge *m, const struct tok *t, const char *text, size_t n, merge_pair_fn *pair, size_t *end);
void merge_release(struct merge *m);

/* ---- Words that were seen before (cache.c) --------------------------------------- */

struct cache_word {
	const char *s;      /* in the caller's text; NULL: empty */
	uint32_t n, hash;
	size_t at;          /* its tokens, in tok_out.ids */
	uint32_t n_ids;
};

struct cache {
	struct cache_word *words; /* NULL: not used */
	bool borrowed;            /* some lie in a text that is written over with the next one */
};

void cache_init(struct cache *c, size_t n_bytes); /* the size of the text; a small one gets no cache */
void cache_release(struct cache *c);
/* Whether words of a text may be remembered that is not the caller's own and will be written over: a long one's. What
 * was remembered of the one before is forgotten. */
bool cache_borrow(struct cache *c, size_t n_bytes);
/* The place of a word. Found: its tokens are known. Otherwise it is empty, for the caller to fill in when they are;
 * NULL when the word has none. */
struct cache_word *cache_find(struct cache *c, const char *s, size_t n, bool *found);

/* ---- Encoding (encode.c and one file per kind) ------------------------------------ */

#define TOK_TEXT_MAX ((size_t)512 << 20) /* symbol places fit 32 bits with room to spare */

struct tok_out {
	cohort_token *ids;
	size_t n, n_max;
	struct merge merge;
	struct pretok_run run;
	char *text;         /* the fragment as the vocabulary has it: spaces, normal form, the word at hand */
	size_t text_max;
	struct norm norm;
	struct cache cache;
	struct unigram_best *best; /* Unigram: the best way to each place */
	size_t best_max;
};

enum cohort_status tok_emit(struct tok_out *o, cohort_token id, struct cohort_err *err);
/* The byte's token, or the unknown token, or a status. */
enum cohort_status tok_emit_byte(const struct tok *t, struct tok_out *o, uint8_t byte, struct cohort_err *err);

/* A character that is no token: its bytes' tokens, or the unknown token if one of them has none. */
enum cohort_status spm_emit_bytes(const struct tok *t, struct tok_out *o, const char *s, size_t n,
		struct cohort_err *err);

/* Text between special tokens. prefix: put a space in front. */
enum cohort_status spm_encode(const struct tok *t, struct tok_out *o, const char *s, size_t n, bool prefix,
		struct cohort_err *err);
enum cohort_status bpe_encode(const struct tok *t, struct tok_out *o, const char *s, size_t n, struct cohort_err *err);
enum cohort_status wordpiece_encode(const struct tok *t, struct tok_out *o, const char *s, size_t n,
		struct cohort_err *err);
enum cohort_status unigram_encode(const struct tok *t, struct tok_out *o, const char *s, size_t n,
		struct cohort_err *err);

/* At open. */
enum cohort_status spm_init(struct tok *t, const struct gguf *g, struct cohort_err *err);
enum cohort_status bpe_init(struct tok *t, const struct gguf *g, struct cohort_err *err);
enum cohort_status wordpiece_init(struct tok *t, const struct gguf *g, struct cohort_err *err);
enum cohort_status unigram_init(struct tok *t, const struct gguf *g, struct cohort_err *err);
/* "<0x0A>" -> 10, or -1. */
int spm_byte_of(const char *s, size_t n);
/* Notes the token as that of its byte, unless there is one; E_FORMAT when its text has not that form. */
enum cohort_status spm_add_byte(struct tok *t, cohort_token id, const char *s, size_t n, struct cohort_err *err);
/* Writes s with each U+2581 as a space, at most n bytes; returns how many. */
size_t spm_unmark(const char *s, size_t n, char *out);
/* Whether a space stands behind another character. */
bool spm_inner_space(const char *s, size_t n);
/* The bytes of a vocabulary text: written to out (at most n of them), their number returned. */
size_t spm_text_bytes(unsigned type, const char *s, size_t n, char *out);
size_t bpe_text_bytes(unsigned type, const char *s, size_t n, char *out, bool *mapped);

#endif
