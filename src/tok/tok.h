/* Vocabulary, encoding and streaming decoding.
 *
 * A struct tok is immutable after tok_open and may be shared by threads: encoding keeps its working memory
 * on the heap per call. */
#ifndef TOK_TOK_H
#define TOK_TOK_H

#include "base/err.h"
#include "base/strmap.h"
#include "gguf/gguf.h"

enum tok_kind { TOK_SPM, TOK_BPE, TOK_WORDPIECE, TOK_UNIGRAM };

enum { /* tokenizer.ggml.token_type */
	TOK_NORMAL = 1, TOK_UNKNOWN = 2, TOK_CONTROL = 3, TOK_USER = 4, TOK_UNUSED = 5, TOK_BYTE = 6
};

struct tok; /* opaque outside src/tok (tok_impl.h) */

/* Reads tokenizer.ggml.*; everything is copied, so the gguf may be released before the tok.
 * Statuses: E_FORMAT, E_UNSUPPORTED (a kind of tokeniser not known), E_LIMIT, E_MEMORY. */
enum cohort_status tok_open(struct tok **out, const struct gguf *g, struct cohort_err *err);
void tok_free(struct tok *t);

int32_t tok_n_vocab(const struct tok *t);
enum tok_kind tok_get_kind(const struct tok *t);
const char *tok_kind_name(enum tok_kind kind); /* "spm", "bpe", "wordpiece", "unigram" */
const char *tok_pre(const struct tok *t);      /* name of the pre-tokeniser in use, or "" (not BPE) */
const char *tok_note(const struct tok *t);     /* a warning worth showing, or "" */

/* flags: COHORT_TOKENIZE_*. *out is allocated (mem_free), *n its length; both are untouched on failure.
 * Statuses: E_ARG (unknown or contradicting flags), E_UNSUPPORTED (a byte for which the vocabulary has no token, not
 * even an unknown one), E_LIMIT (above 512 MiB of text), E_MEMORY. */
enum cohort_status tok_encode(const struct tok *t, const char *text, size_t n_bytes, unsigned flags,
		cohort_token **out, size_t *n, struct cohort_err *err);
/* The same into out, which has room for cohort_tokenize_bound(n_bytes), and not for Unigram. */
enum cohort_status tok_encode_into(const struct tok *t, const char *text, size_t n_bytes, unsigned flags,
		cohort_token *out, size_t n_max, size_t *n, struct cohort_err *err);
/* As cohort_tokenize_least. */
size_t tok_least(const struct tok *t, size_t n_bytes);

/* As cohort_token_bytes, until the tok is freed. U+2581 is already a space where the vocabulary means one, and byte
 * tokens are their byte. The unknown token is shown like a control token. */
const char *tok_bytes(const struct tok *t, cohort_token token, bool special, size_t *n_bytes);
bool tok_is_eog(const struct tok *t, cohort_token token);
bool tok_is_control(const struct tok *t, cohort_token token);
cohort_token tok_bos(const struct tok *t);
cohort_token tok_eos(const struct tok *t);
/* Whether the encoder puts a space in front of a text (so that decoding a whole text drops one). */
bool tok_adds_space(const struct tok *t);

/* The core of cohort_detok_push and cohort_detok_flush; d->model is not looked at. The space dropped at the start is
 * the one the encoder puts in front of the first text: control tokens before it (BOS) do not use it up. */
enum cohort_status tok_detok_push(const struct tok *t, struct cohort_detok *d, cohort_token token,
		char *out, size_t n_max, size_t *n_out, struct cohort_err *err);
size_t tok_detok_flush(struct cohort_detok *d, char out[4]);
/* The core of cohort_detokenize. */
enum cohort_status tok_detokenize(const struct tok *t, const cohort_token *tokens, size_t n_tokens, bool special,
		char *out, size_t n_max, size_t *n_out, struct cohort_err *err);

#endif
