/* cohort: many language-model sequences through one model at once.
 *
 * The library's interface: models, tokens, batches, contexts, decoding,
 * sequences and sampling. Everything here is plain C11.
 *
 * Conventions
 *  - A call that can fail returns enum cohort_status; results come through
 *    out-parameters, which are written only on success.
 *  - `struct cohort_err *err` may be NULL. When given, it is filled on failure.
 *  - A failed call leaves its object exactly as it was.
 *  - `_open/_free` make and end heap handles; `_init/_release` embedded structs;
 *    `_get` borrows. `_free` and `_release` accept NULL and half-built objects.
 *  - Options structs are filled by their `_init` with the defaults and then
 *    changed field by field. Zero means zero, not "default".
 *  - A model is immutable and may be shared by threads. A context, a sampler and
 *    a batch belong to one thread at a time.
 *  - The library never prints, exits, reads the environment or touches signals.
 */
#ifndef COHORT_H
#define COHORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define COHORT_VERSION_MAJOR 0
#define COHORT_VERSION_MINOR 1
#define COHORT_VERSION_PATCH 0

#if defined(__GNUC__)
#define COHORT_API __attribute__((visibility("default")))
#else
#define COHORT_API
#endif

typedef int32_t cohort_token;
typedef int32_t cohort_pos;
typedef int32_t cohort_seq;

/* ---- Errors ------------------------------------------------------------ */

enum cohort_status {
	COHORT_OK = 0,
	COHORT_NO_ROOM = 1, /* the KV cache has no room; retry with less, or after freeing */
	COHORT_ABORTED = 2, /* the caller's abort callback said so */

	COHORT_E_ARG = -1,         /* a bad argument; the text says which */
	COHORT_E_BATCH = -2,       /* a batch broke a rule; see rule, row, seq, expected, got */
	COHORT_E_MEMORY = -3,      /* out of memory */
	COHORT_E_IO = -4,          /* the operating system refused a file */
	COHORT_E_FORMAT = -5,      /* malformed bytes; offset says where */
	COHORT_E_UNSUPPORTED = -6, /* well-formed, but not known to this version */
	COHORT_E_LIMIT = -7,       /* above a stated limit */
	COHORT_E_NUMERIC = -8,     /* a non-finite number where a logit belongs */
	COHORT_E_BUG = -9          /* our own mistake; please report */
};

struct cohort_err {
	enum cohort_status status;
	char text[384];   /* one readable line, no newline */
	const char *rule; /* name of the broken rule (static string) or NULL */
	int64_t row;      /* batch row, or -1 */
	int64_t seq;      /* sequence id, or -1 */
	int64_t expected; /* with rule: what the rule wanted */
	int64_t got;      /* with rule: what it found */
	int64_t offset;   /* byte offset in a file, or -1 */
};

/* Short name of a status, e.g. "no room". Never NULL. */
COHORT_API const char *cohort_status_name(enum cohort_status status);

/* "0.1.0" */
COHORT_API const char *cohort_version(void);

/* ---- Instruction-set levels -------------------------------------------- */

/* Number of levels compiled in; level 0 is the reference ("ref"). */
COHORT_API size_t cohort_isa_count(void);
/* Name of level i ("ref", "avx2", ...), or NULL past the end. */
COHORT_API const char *cohort_isa_name(size_t i);
/* Whether this CPU can run level i. */
COHORT_API bool cohort_isa_usable(size_t i);

/* ---- Model -------------------------------------------------------------- */

struct cohort_model; /* opaque, immutable, shareable between threads */

struct cohort_model_params {
	size_t struct_size;
	const char *isa;    /* level name; NULL: the best this CPU can run */
	int32_t n_threads;  /* threads used while loading; 0: one per CPU */
	bool vocab_only;    /* read metadata and vocabulary, no tensors */
	bool file_layout;   /* keep the file's own weight layout: slower, but pages are shared */
	/* Called now and then while loading, with 0..1; returning false aborts. */
	bool (*progress)(float done, void *user);
	void *progress_user;
};

COHORT_API void cohort_model_params_init(struct cohort_model_params *params);

/* Opens a GGUF file. params may be NULL. The file must stay unchanged while open.
 * Statuses: E_IO, E_FORMAT, E_UNSUPPORTED, E_MEMORY, E_ARG, ABORTED. */
COHORT_API enum cohort_status cohort_model_open(const char *path,
		const struct cohort_model_params *params,
		struct cohort_model **out, struct cohort_err *err);
/* All contexts of the model must have been freed before. */
COHORT_API void cohort_model_free(struct cohort_model *model);

struct cohort_model_info {
	size_t struct_size;
	const char *arch;         /* borrowed until the model is freed, as all strings here */
	const char *name;         /* general.name or "" */
	const char *isa;          /* level in use */
	const char *tokenizer;    /* "spm", "bpe" */
	const char *pretokenizer; /* "llama-bpe", ... or "" */
	const char *note;         /* a warning worth showing, or "" */
	int32_t n_vocab, n_embd, n_layer, n_head, n_head_kv, n_ff;
	int32_t head_k, head_v;   /* elements per head */
	int32_t n_ctx_train;
	uint64_t n_params;
	uint64_t weight_bytes;    /* in the file */
	uint64_t packed_bytes;    /* repacked copies in memory */
};
COHORT_API void cohort_model_info_get(const struct cohort_model *model, struct cohort_model_info *info);

/* ---- Tokens -------------------------------------------------------------- */

enum {
	COHORT_TOKENIZE_BOS = 1,     /* force the BOS token in front (and EOS behind, if the model adds one) */
	COHORT_TOKENIZE_NO_BOS = 2,  /* never add BOS or EOS; with neither flag the model's own rule */
	COHORT_TOKENIZE_SPECIAL = 4  /* special token texts become their tokens; otherwise plain text */
};

/* Encodes n_bytes of text (any bytes; need not be valid UTF-8) into out[0..n_max).
 * *n_out is the number of tokens needed; when it exceeds n_max, the status is
 * E_LIMIT and out is untouched (out may be NULL with n_max 0). */
COHORT_API enum cohort_status cohort_tokenize(const struct cohort_model *model,
		const char *text, size_t n_bytes, unsigned flags,
		cohort_token *out, size_t n_max, size_t *n_out, struct cohort_err *err);

/* Upper bound of tokens that n_bytes of text can give, BOS and EOS included. */
COHORT_API size_t cohort_tokenize_bound(size_t n_bytes);

/* Bytes of one token, not NUL-terminated, borrowed until the model is freed.
 * Control tokens give their text only when special is true, else nothing.
 * Returns NULL for an id outside the vocabulary. */
COHORT_API const char *cohort_token_bytes(const struct cohort_model *model,
		cohort_token token, bool special, size_t *n_bytes);

COHORT_API bool cohort_token_is_eog(const struct cohort_model *model, cohort_token token);
COHORT_API bool cohort_token_is_control(const struct cohort_model *model, cohort_token token);
COHORT_API cohort_token cohort_token_bos(const struct cohort_model *model); /* -1: none */
COHORT_API cohort_token cohort_token_eos(const struct cohort_model *model); /* -1: none */

/* Streaming decoder: bytes in whole UTF-8 characters, exact in the end. */
struct cohort_detok {
	const struct cohort_model *model;
	bool special;     /* show control tokens */
	bool at_start;    /* the next token is the first (its added space is dropped) */
	uint8_t n_held;   /* bytes held back */
	char held[4];
};
/* at_start: the tokens begin a text (strip the space the tokeniser adds there);
 * false when they continue one. */
COHORT_API void cohort_detok_init(struct cohort_detok *d, const struct cohort_model *model,
		bool special, bool at_start);
/* Feeds one token. Writes whole characters to out (n_max bytes) and their number to
 * *n_out. E_LIMIT with the needed size in *n_out, and nothing changed, if out is too small. */
COHORT_API enum cohort_status cohort_detok_push(struct cohort_detok *d, cohort_token token,
		char *out, size_t n_max, size_t *n_out, struct cohort_err *err);
/* Gives what was held back (0 to 3 bytes, an unfinished character). The decoder may be used on for what follows. */
COHORT_API size_t cohort_detok_flush(struct cohort_detok *d, char out[4]);

/* ---- Batch ---------------------------------------------------------------- */

#define COHORT_BATCH_INLINE 32

/* Rows to decode. A row is a token, a position, one or more sequence ids and whether its
 * logits are wanted. The struct may be copied byte by byte (a move: release one of
 * the two); it holds no pointer into itself. Fields are the library's. */
struct cohort_batch {
	int32_t n_tokens, n_max, n_seq_row_max;
	int32_t storage;
	cohort_token *tokens;       /* NULL: inline */
	cohort_pos *pos;
	int32_t *n_seq;
	cohort_seq *seq;            /* [n_max, n_seq_row_max] */
	uint8_t *output;
	cohort_token inline_tokens[COHORT_BATCH_INLINE];
};

/* Room for n_max rows with up to n_seq_row_max ids each. */
COHORT_API enum cohort_status cohort_batch_init(struct cohort_batch *b, int32_t n_max,
		int32_t n_seq_row_max, struct cohort_err *err);
/* A batch of bare tokens (copied; no heap up to 32): sequence 0, positions that go
 * on from what the context holds, logits for the last row. */
COHORT_API enum cohort_status cohort_batch_from_tokens(struct cohort_batch *b,
		const cohort_token *tokens, int32_t n_tokens, struct cohort_err *err);
COHORT_API enum cohort_status cohort_batch_add(struct cohort_batch *b, cohort_token token,
		cohort_pos pos, const cohort_seq *seqs, int32_t n_seqs, bool output, struct cohort_err *err);
COHORT_API void cohort_batch_reset(struct cohort_batch *b);
COHORT_API void cohort_batch_release(struct cohort_batch *b);

/* ---- Context: decoding ------------------------------------------------------ */

struct cohort_context; /* opaque; one thread at a time */

enum cohort_kv_type { COHORT_KV_F16 = 0, COHORT_KV_F32 = 1 };

struct cohort_context_params {
	size_t struct_size;
	int32_t n_ctx;      /* size of the KV pool in tokens, shared by all sequences */
	int32_t n_batch;    /* most rows of one decode */
	int32_t n_ubatch;   /* most rows computed together */
	int32_t n_seq_max;  /* sequence ids are 0 .. n_seq_max - 1 */
	int32_t n_threads;  /* compute threads, this one included; 0: one per CPU */
	enum cohort_kv_type kv_type;
	bool (*abort)(void *user); /* asked between steps; true ends the decode with ABORTED */
	void *abort_user;
};

COHORT_API void cohort_context_params_init(struct cohort_context_params *params);
COHORT_API enum cohort_status cohort_context_open(const struct cohort_model *model,
		const struct cohort_context_params *params,
		struct cohort_context **out, struct cohort_err *err);
COHORT_API void cohort_context_free(struct cohort_context *ctx);

/* Decodes a batch, all or nothing: after any status but OK every sequence is as before
 * the call. Logits of the previous decode are gone, whatever the outcome. */
COHORT_API enum cohort_status cohort_decode(struct cohort_context *ctx,
		const struct cohort_batch *batch, struct cohort_err *err);

/* Logits of batch row i of the last decode: [n_vocab], borrowed until the next
 * decode. Row i must have asked for output; -1 is the last output, -2 the one before. Otherwise NULL. */
COHORT_API const float *cohort_logits_get(const struct cohort_context *ctx, int32_t i,
		struct cohort_err *err);

/* ---- Sequences ----------------------------------------------------------------- */

/* Removes positions [p0, p1) of seq (-1 as p1: to the end). Removing from the middle is refused. */
COHORT_API enum cohort_status cohort_seq_rm(struct cohort_context *ctx, cohort_seq seq,
		cohort_pos p0, cohort_pos p1, struct cohort_err *err);
/* Makes dst hold the same cells as src (no data is copied). dst must be empty. */
COHORT_API enum cohort_status cohort_seq_cp(struct cohort_context *ctx, cohort_seq src,
		cohort_seq dst, struct cohort_err *err);
/* First and last position held, or -1 if empty or out of range. */
COHORT_API cohort_pos cohort_seq_pos_min(const struct cohort_context *ctx, cohort_seq seq);
COHORT_API cohort_pos cohort_seq_pos_max(const struct cohort_context *ctx, cohort_seq seq);
COHORT_API void cohort_seq_clear(struct cohort_context *ctx); /* empties every sequence */

/* Positions per block of the KV cache: room is given out in whole blocks. */
COHORT_API int32_t cohort_kv_block_size(void);

struct cohort_usage {
	int32_t block_size;  /* positions per block */
	int32_t n_blocks, n_used, n_shared, n_free;
	uint64_t block_bytes;
};
COHORT_API void cohort_usage_get(const struct cohort_context *ctx, struct cohort_usage *usage);

/* Work done since the context was opened. */
struct cohort_counters {
	uint64_t n_decode;                 /* successful decodes */
	uint64_t n_prefill_rows, n_decode_rows; /* rows in runs of several of a sequence, and single ones */
	double prefill_s, decode_s;        /* wall time, shared out by rows when a batch holds both */
};
COHORT_API void cohort_counters_get(const struct cohort_context *ctx, struct cohort_counters *counters);

/* ---- Sampling ------------------------------------------------------------------ */

struct cohort_sampler; /* opaque */

struct cohort_sampler_params {
	size_t struct_size;
	uint64_t seed;      /* together with stream: same numbers, same text, on every machine */
	uint64_t stream;    /* index of a parallel continuation */
	float temperature;  /* <= 0: greedy */
	int32_t top_k;      /* <= 0 or >= n_vocab: off */
	float top_p;        /* >= 1: off */
	float min_p;        /* <= 0: off */
	int32_t min_keep;   /* top-p and min-p leave at least so many */
};

/* seed 0, stream 0, temperature 0.8, top_k 40, top_p 0.95, min_p 0.05, min_keep 1 */
COHORT_API void cohort_sampler_params_init(struct cohort_sampler_params *params);
COHORT_API enum cohort_status cohort_sampler_open(const struct cohort_sampler_params *params,
		int32_t n_vocab, struct cohort_sampler **out, struct cohort_err *err);
COHORT_API void cohort_sampler_free(struct cohort_sampler *s);
/* Picks a token from logits [n_vocab]; allocates nothing. E_NUMERIC if a logit is NaN or +Inf,
 * or none is above -Inf; the generator then has not moved. */
COHORT_API enum cohort_status cohort_sampler_sample(struct cohort_sampler *s, const float *logits,
		cohort_token *out, struct cohort_err *err);

#ifdef __cplusplus
}
#endif
#endif
