/* cohort: many language-model sequences through one model at once.
 *
 * The library's interface: models, tokens, batches, contexts, decoding, sequences and sampling. Everything here is
 * plain C99, and C++.
 *
 * Conventions
 *  - A call that can fail returns enum cohort_status; results come through out-parameters, which are written only on
 *    success.
 *  - `struct cohort_err *err` may be NULL. When given, it is filled on failure.
 *  - A failed call leaves its object exactly as it was. Where a device fails (E_DEVICE) while cells move, the sequence
 *    that seq_cp, seq_add or a restore was to change is empty.
 *  - NULL where a function needs something is E_ARG; without a status 0, false or NULL is returned, or nothing is done.
 *  - A number outside its range is E_ARG, too: the rule is its name, expected the bound that it is beyond, got the
 *    number (both 0 where it is no integer). Of ids and tokens (rules seq-id, token) expected is how many there are.
 *  - `_open/_free` make and end heap handles; `_init/_release` embedded structs; `_get` borrows. `_free` and `_release`
 *    accept NULL and half-built objects.
 *  - Options structs are filled by their `_init` with the defaults and then changed field by field. Zero means zero,
 *    not "default". `struct_size` says how much of one the caller knows: later fields have their defaults then.
 *  - A model and a lexicon are immutable and may be shared by threads, a grammar too (it has a lock). A context, a
 *    sampler and a batch belong to one thread at a time.
 *  - The library never prints, exits, reads the environment or handles signals.
 *  - It computes in the usual floating-point mode, whatever the caller's is, which is the same again behind every call;
 *    callbacks run in the library's.
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
	COHORT_E_BUG = -9,         /* our own mistake; please report */
	COHORT_E_DEVICE = -10      /* a device failed: it is lost, or a peer is gone */
};

struct cohort_err {
	enum cohort_status status;
	char text[768];   /* one readable line, no newline */
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

/* ---- Devices and instruction-set levels -------------------------------- */

/* Devices that models can run on; the CPU is the first. */
struct cohort_device {
	char name[32];         /* "cpu" */
	char description[128]; /* "AMD EPYC, 2 threads" */
	uint64_t total_bytes, free_bytes; /* of its memory; 0: unknown */
};
COHORT_API size_t cohort_device_count(void);
/* False past the end, and *out is as before. */
COHORT_API bool cohort_device_get(size_t i, struct cohort_device *out);
/* Number of levels compiled in; level 0 is the reference ("ref"). */
COHORT_API size_t cohort_isa_count(void);
/* Name of level i ("ref", "avx2", "neon", ...), or NULL past the end. */
COHORT_API const char *cohort_isa_name(size_t i);
/* Whether this CPU can run level i. The first call, here or when a model is opened, asks Linux for the tile registers
 * (AMX) where the CPU has them: the signal stacks that threads set up by sigaltstack must have room for them then. */
COHORT_API bool cohort_isa_usable(size_t i);

/* ---- Model -------------------------------------------------------------- */

struct cohort_model; /* opaque, immutable, shareable between threads */

struct cohort_model_params {
	size_t struct_size;
	const char *isa;    /* level name; NULL: the best this CPU can run */
	int32_t n_threads;  /* threads used while loading, with no_mmap or mlock; 0: one per CPU; at most 1024 */
	bool vocab_only;    /* read metadata and vocabulary, no tensors */
	bool file_layout;   /* never repack matrices (cohort_repack): slower, but pages are shared */
	/* Called now and then while loading, with 0..1; returning false aborts. */
	bool (*progress)(float done, void *user);
	void *progress_user;
	bool no_mmap;       /* read the file into memory instead of mapping it: then it may change or go once open */
	bool mlock;         /* keep the weights resident; where the system refuses, info.note says so */
	/* LoRA adapters that all rows go through, in this order; of each the file and how strongly it is applied. */
	const char *const *adapters;  /* [n_adapters] or NULL */
	const float *adapter_scales;  /* [n_adapters] or NULL: 1; -1e6 to 1e6 */
	size_t n_adapters;
	/* A device's name; NULL: the first one. Several as NAME:LAYERS,...,NAME: each has the next layers, the last one
	 * the rest. Results have the same bits. */
	const char *device;
};
/* All 0. */
COHORT_API void cohort_model_params_init(struct cohort_model_params *params);
/* Opens a GGUF file. params may be NULL. The file must stay unchanged while open, unless no_mmap. Of a model split
 * into NAME-00001-of-00003.gguf and so on, any part opens all; they lie in one directory. A file without tensors takes
 * vocab_only. Bits do not depend on how. Statuses: E_IO, E_FORMAT, E_UNSUPPORTED, E_MEMORY, E_ARG, ABORTED. */
COHORT_API enum cohort_status cohort_model_open(const char *path, const struct cohort_model_params *params,
		struct cohort_model **out, struct cohort_err *err);
/* All contexts, engines and requests of the model must have been freed before. */
COHORT_API void cohort_model_free(struct cohort_model *model);
/* A LoRA adapter (GGUF): a small change of a model's matrices. Opaque, immutable, shareable between threads. */
struct cohort_adapter;
/* Opens one made for the model, which must outlive it. Statuses: E_IO, E_FORMAT, E_UNSUPPORTED, E_MEMORY, E_ARG. */
COHORT_API enum cohort_status cohort_adapter_open(const struct cohort_model *model, const char *path,
		struct cohort_adapter **out, struct cohort_err *err);
/* No context may use it any more. */
COHORT_API void cohort_adapter_free(struct cohort_adapter *adapter);
/* How a sequence's embeddings become one: not at all, their mean, the first row's, the last row's. */
enum cohort_pooling { COHORT_POOL_NONE = 0, COHORT_POOL_MEAN = 1, COHORT_POOL_CLS = 2, COHORT_POOL_LAST = 3 };

struct cohort_model_info {
	size_t struct_size;
	const char *arch;         /* borrowed until the model is freed, as all strings here */
	const char *name;         /* general.name or "" */
	const char *isa;          /* level in use */
	const char *tokenizer;    /* "spm", "bpe", "wordpiece", "unigram"; "" if there is none */
	const char *pretokenizer; /* "llama-bpe", ... or "" */
	const char *note;         /* warnings worth showing, or "" */
	int32_t n_vocab, n_embd, n_layer, n_head, n_head_kv, n_ff;
	int32_t head_k, head_v;   /* elements per head */
	int32_t n_ctx_train;
	uint64_t n_params;
	uint64_t weight_bytes;    /* in the file */
	uint64_t packed_bytes;    /* copies in memory, when all matrices are repacked */
	bool encoder;             /* for embeddings: rows see both ways, cohort_encode only, no logits */
	bool recurrent;           /* sequences are states: a tail is removed by going back to a checkpoint */
	enum cohort_pooling pooling; /* what the model was trained for; none: the file does not say */
	int32_t n_window;         /* the narrowest sliding window of a layer; 0: all layers see all positions */
	const char *device;       /* in use: as cohort_model_params.device */
};
/* Fills all of it, struct_size too; with a NULL model texts are "" and numbers 0. */
COHORT_API void cohort_model_info_get(const struct cohort_model *model, struct cohort_model_info *info);

/* ---- Tokens -------------------------------------------------------------- */

enum {
	COHORT_TOKENIZE_BOS = 1,     /* force the BOS token in front (and EOS behind, if the model adds one) */
	COHORT_TOKENIZE_NO_BOS = 2,  /* never add BOS or EOS; with neither flag the model's own rule */
	COHORT_TOKENIZE_SPECIAL = 4  /* special token texts become their tokens; otherwise plain text */
};
/* Encodes n_bytes of text (any bytes, up to 512 MiB; need not be UTF-8) into out[0..n_max). *n_out is the number of
 * tokens needed; when it exceeds n_max, the status is E_LIMIT and out is untouched (out may be NULL with n_max 0). */
COHORT_API enum cohort_status cohort_tokenize(const struct cohort_model *model, const char *text, size_t n_bytes,
		unsigned flags, cohort_token *out, size_t n_max, size_t *n_out, struct cohort_err *err);
/* Upper bound of tokens that n_bytes of text can give, BOS and EOS included. Only a Unigram vocabulary whose character
 * map makes texts longer may give more for odd texts; cohort_tokenize says how many. */
COHORT_API size_t cohort_tokenize_bound(size_t n_bytes);
/* Lower bound of tokens that any n_bytes of text give; 0 where their number alone does not say (WordPiece and Unigram,
 * which may have one token for all they do not know, and vocabularies with tokens that take the spaces around them). */
COHORT_API size_t cohort_tokenize_least(const struct cohort_model *model, size_t n_bytes);
/* Bytes of one token, not NUL-terminated, borrowed until the model is freed. Control tokens give their text only when
 * special is true, else nothing. Returns NULL for an id outside the vocabulary. */
COHORT_API const char *cohort_token_bytes(const struct cohort_model *model,
		cohort_token token, bool special, size_t *n_bytes);
/* Text of one token into out[0 .. n_max), without NUL: with or without its leading space, control tokens as text or
 * as nothing. *n_out is its size; E_LIMIT when that exceeds n_max. E_ARG for an id outside the vocabulary. */
COHORT_API enum cohort_status cohort_token_piece(const struct cohort_model *model, cohort_token token,
		bool leading_space, bool special, char *out, size_t n_max, size_t *n_out, struct cohort_err *err);
/* Text of tokens that begin a text: the inverse of cohort_tokenize, byte for byte. *n_out is its size; E_LIMIT when
 * that exceeds n_max (out is then untouched and may be NULL with n_max 0). */
COHORT_API enum cohort_status cohort_detokenize(const struct cohort_model *model, const cohort_token *tokens,
		size_t n_tokens, bool special, char *out, size_t n_max, size_t *n_out, struct cohort_err *err);
/* Whether a token ends a generation, or is a control token (false outside the vocabulary); a text's first and last. */
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
/* at_start: the tokens begin a text (strip the space the tokeniser adds there); false when they continue one. */
COHORT_API void cohort_detok_init(struct cohort_detok *d, const struct cohort_model *model,
		bool special, bool at_start);
/* Feeds one token: *n_out bytes of whole characters to out; E_LIMIT, and nothing changed, if they exceed n_max. */
COHORT_API enum cohort_status cohort_detok_push(struct cohort_detok *d, cohort_token token,
		char *out, size_t n_max, size_t *n_out, struct cohort_err *err);
/* Gives what was held back (0 to 3 bytes, an unfinished character). The decoder may be used on for what follows. */
COHORT_API size_t cohort_detok_flush(struct cohort_detok *d, char out[4]);

/* ---- Token buffer ----------------------------------------------------------- */

#define COHORT_BATCH_INLINE 32

/* A growing list of tokens whose first 32 need no heap. A byte copy is a move (release one of the two); it holds no
 * pointer into itself. Fields are the library's. */
struct cohort_token_buf {
	int32_t n_tokens, n_max;
	cohort_token *heap; /* NULL: inline */
	cohort_token inline_tokens[COHORT_BATCH_INLINE];
};

COHORT_API void cohort_token_buf_init(struct cohort_token_buf *buf); /* empty; cannot fail */
/* E_MEMORY, E_ARG, E_LIMIT (2^31 - 1 tokens); the buffer is then as before. */
COHORT_API enum cohort_status cohort_token_buf_append(struct cohort_token_buf *buf,
		const cohort_token *tokens, int32_t n_tokens, struct cohort_err *err);
/* The tokens, borrowed until the buffer is changed, moved or released. */
COHORT_API cohort_token *cohort_token_buf_get(struct cohort_token_buf *buf);
COHORT_API void cohort_token_buf_reset(struct cohort_token_buf *buf);
COHORT_API void cohort_token_buf_release(struct cohort_token_buf *buf);

/* ---- Batch ---------------------------------------------------------------- */

/* Rows to decode. A row is a token (or a vector), a position, one or more sequence ids and whether its output is
 * wanted. The struct may be copied byte by byte (a move: release one of the two); it holds no pointer into itself.
 * Positions, ids and output flags may be left out: decode fills them in (see cohort_decode). Fields are the library's;
 * cohort_batch_raw_get gives the arrays. */
struct cohort_batch {
	int32_t n_tokens, n_max;    /* rows, and room for them */
	int32_t n_embd;             /* > 0: rows are vectors of so many floats */
	int32_t n_seq_row_max;      /* ids a row may have */
	int32_t n_pos_row;          /* positions of a row */
	int32_t storage;
	uint32_t left_out;          /* COHORT_BATCH_POS, ... */
	cohort_token *tokens;       /* NULL: inline, or rows are vectors */
	float *embd;                /* [n_max, n_embd] */
	cohort_pos *pos;            /* [n_max, n_pos_row] */
	int32_t *n_seq;             /* [n_max]; NULL: one id each */
	cohort_seq *seq;            /* [n_max, n_seq_row_max] */
	uint8_t *output;            /* [n_max]; see cohort_batch_raw */
	struct {
		cohort_token tokens[COHORT_BATCH_INLINE];
		cohort_pos pos[COHORT_BATCH_INLINE];
		cohort_seq seq[COHORT_BATCH_INLINE];
		uint8_t output[COHORT_BATCH_INLINE];
	} inline_rows;
};
/* Room for max_tokens rows, each with up to n_seq_max sequence ids; n_embd > 0 makes rows vectors of so many floats
 * instead of tokens. No heap for up to 32 token rows of one id. */
COHORT_API enum cohort_status cohort_batch_init(struct cohort_batch *b, int32_t max_tokens,
		int32_t n_embd, int32_t n_seq_max, struct cohort_err *err);
/* 512 token rows of one id. */
COHORT_API enum cohort_status cohort_batch_init_default(struct cohort_batch *b, struct cohort_err *err);
/* As cohort_batch_init, with n_pos_row positions per row. The first is the row's place in its sequence, to which all
 * rules apply; the others are coordinates (image models) that only need to be >= 0. */
COHORT_API enum cohort_status cohort_batch_init_pos(struct cohort_batch *b, int32_t max_tokens,
		int32_t n_embd, int32_t n_seq_max, int32_t n_pos_row, struct cohort_err *err);
/* Batches of bare tokens: everything else is left out. Rows cannot be added to these. from_tokens copies (no heap up
 * to 32); take_tokens takes over an array from malloc (on failure it stays the caller's); from_buffer takes over
 * what a token buffer holds and leaves it empty; view borrows, the tokens must outlive the batch. */
COHORT_API enum cohort_status cohort_batch_from_tokens(struct cohort_batch *b,
		const cohort_token *tokens, int32_t n_tokens, struct cohort_err *err);
COHORT_API enum cohort_status cohort_batch_take_tokens(struct cohort_batch *b,
		cohort_token *tokens, int32_t n_tokens, struct cohort_err *err);
COHORT_API enum cohort_status cohort_batch_from_buffer(struct cohort_batch *b,
		struct cohort_token_buf *buf, struct cohort_err *err);
COHORT_API enum cohort_status cohort_batch_view(struct cohort_batch *b,
		const cohort_token *tokens, int32_t n_tokens, struct cohort_err *err);
/* Adds a row. E_LIMIT (rule batch-full) past max_tokens, E_ARG (rule seq-count) for more ids than n_seq_max; a batch
 * never grows. With n_pos_row > 1 every position of the row is `pos`. */
COHORT_API enum cohort_status cohort_batch_add(struct cohort_batch *b, cohort_token token,
		cohort_pos pos, const cohort_seq *seqs, int32_t n_seqs, bool output, struct cohort_err *err);
/* Adds a vector [n_embd] (copied) with its positions [n_pos_row]. */
COHORT_API enum cohort_status cohort_batch_add_embd(struct cohort_batch *b, const float *embd,
		const cohort_pos *pos, const cohort_seq *seqs, int32_t n_seqs, bool output, struct cohort_err *err);
/* What decode shall fill in although the batch has arrays for it: an OR of these; 0 takes it back. */
enum { COHORT_BATCH_POS = 1, COHORT_BATCH_SEQ = 2, COHORT_BATCH_OUTPUT = 4 };
COHORT_API void cohort_batch_leave_out(struct cohort_batch *b, uint32_t what);

COHORT_API int32_t cohort_batch_size(const struct cohort_batch *b); /* rows; 0 of NULL */
COHORT_API bool cohort_batch_is_empty(const struct cohort_batch *b); /* true of NULL */
/* An independent batch with the same rows and the same room (a view's copy owns its arrays). */
COHORT_API enum cohort_status cohort_batch_copy(struct cohort_batch *to, const struct cohort_batch *from,
		struct cohort_err *err);
COHORT_API void cohort_batch_reset(struct cohort_batch *b); /* no rows; keeps the room */
COHORT_API void cohort_batch_release(struct cohort_batch *b);
/* The arrays. NULL ones are left out. */
struct cohort_batch_raw {
	int32_t n_tokens;
	int32_t n_embd, n_seq_row_max, n_pos_row;
	cohort_token *tokens; /* [n_tokens], or NULL: rows are vectors */
	float *embd;          /* [n_tokens, n_embd], or NULL: rows are tokens */
	cohort_pos *pos;      /* [n_tokens, n_pos_row] */
	int32_t *n_seq;       /* [n_tokens]; NULL: one id each */
	cohort_seq *seq;      /* [n_tokens, n_seq_row_max] */
	uint8_t *output;      /* [n_tokens]: 0: nothing; 1: all that the context gives; or COHORT_ROW_EMBEDDING */
};
/* A row of which only the embedding is wanted, where the context has logits, too: it is spared the product with the
 * vocabulary (see cohort_logits_get). Counts as 1 where the context has no embeddings, with output_all and pooling. */
enum { COHORT_ROW_EMBEDDING = 2 };
/* Pointers into the batch, good until it is changed, moved or released. Arrays that it owns may be written. */
COHORT_API void cohort_batch_raw_get(struct cohort_batch *b, struct cohort_batch_raw *raw);
/* A batch that borrows all its arrays. E_ARG unless exactly one of tokens and embd is given and the counts fit. */
COHORT_API enum cohort_status cohort_batch_view_raw(struct cohort_batch *b, const struct cohort_batch_raw *raw,
		struct cohort_err *err);
/* Writes the rows as text, one line each, to out (cut to n_max bytes with the NUL); returns the bytes needed without
 * the NUL, as snprintf does. Of NULL a line that says so. */
COHORT_API size_t cohort_batch_dump(const struct cohort_batch *b, char *out, size_t n_max);

/* ---- Packing ------------------------------------------------------------------- */

/* Packs spans of lengths[i] rows into chunks of at most n_batch rows: first-fit, in order, so that a span goes to the
 * first chunk that has room. Spans longer than n_batch get a chunk of their own, marked oversized; empty spans (0)
 * are skipped. Inside a chunk items rise. */
struct cohort_chunk {
	int32_t first, n_items; /* items order[first .. first + n_items) */
	int32_t n_rows;
	bool oversized;
};
struct cohort_packing {
	struct cohort_chunk *chunks; /* [n_chunks] */
	int32_t n_chunks;
	int32_t *order;              /* item indexes, chunk by chunk */
	/* Fields below are the library's. */
	size_t chunks_max, order_max, tree_max;
	int32_t *tree;
};
COHORT_API void cohort_packing_init(struct cohort_packing *p);
/* Reuses p's memory. E_ARG, and no chunks in p: a negative length (rule length; row says which), n_batch < 1, NULL. */
COHORT_API enum cohort_status cohort_bin_pack(struct cohort_packing *p, const int32_t *lengths, int32_t n_items,
		int32_t n_batch, struct cohort_err *err);
COHORT_API void cohort_packing_release(struct cohort_packing *p);

/* ---- Context: decoding ------------------------------------------------------ */

struct cohort_context; /* opaque; one thread at a time */

/* Q8_0: 8 bits and one f16 scale for 32 elements of one head and position. */
enum cohort_kv_type { COHORT_KV_F16 = 0, COHORT_KV_F32 = 1, COHORT_KV_Q8_0 = 2 };
/* How a batch is cut into ubatches; results do not depend on it. */
enum cohort_split {
	COHORT_SPLIT_SIMPLE = 0, /* consecutive rows */
	COHORT_SPLIT_EQUAL = 1,  /* the same number of rows from each of several sequence sets */
	COHORT_SPLIT_SEQ = 2     /* rows of one sequence set */
};
/* What rows that ask for output get. */
enum { COHORT_OUTPUT_LOGITS = 1, COHORT_OUTPUT_EMBEDDINGS = 2 };

struct cohort_context_params {
	size_t struct_size;
	int32_t n_ctx;      /* tokens that the KV pool has room for, for all sequences; 1 to 2^30; see n_blocks */
	int32_t n_batch;    /* most rows of one decode; 1 to 2^20 */
	int32_t n_ubatch;   /* most rows computed together; more than n_batch counts as n_batch; 1 to 2^20 */
	int32_t n_seq_max;  /* sequence ids are 0 .. n_seq_max - 1; costs address space, not time; 1 to 2^16 */
	int32_t n_threads;  /* compute threads, this one included; 0: one per CPU; at most 1024 */
	enum cohort_kv_type kv_type;
	/* Asked before every layer of every ubatch; true ends the call with ABORTED. Neither this nor trace may call
	 * functions of the context. */
	bool (*abort)(void *user);
	void *abort_user;
	enum cohort_split split;
	uint32_t outputs;            /* COHORT_OUTPUT_LOGITS, COHORT_OUTPUT_EMBEDDINGS or both */
	enum cohort_pooling pooling; /* other than none: needs embeddings; every row then counts as asking for output */
	bool output_all;             /* every row asks for output, whatever the batch says */
	/* Called with some lines of text for each batch and ubatch that is decoded: for looking, not for parsing. */
	void (*trace)(const char *text, void *user);
	void *trace_user;
	int32_t n_checkpoints; /* models with states (mamba): states kept per sequence to go back to; 0 to 1024 */
	int32_t n_blocks;      /* of the KV pool; 0: as cohort_room_needed counts; at most 2^26 */
};
/* n_ctx 2048, n_batch 512, n_ubatch 128, n_seq_max 64, n_checkpoints 1, outputs LOGITS; all else 0. */
COHORT_API void cohort_context_params_init(struct cohort_context_params *params);
/* A context of the model, which must outlive it. params may be NULL. E_ARG: params (the rule is the name of the one
 * that is outside its range), a model without weights, logits of an encoder; E_MEMORY. */
COHORT_API enum cohort_status cohort_context_open(const struct cohort_model *model,
		const struct cohort_context_params *params, struct cohort_context **out, struct cohort_err *err);
COHORT_API void cohort_context_free(struct cohort_context *ctx);
/* What a context was opened with, defaults filled in; with NULL all is 0. */
struct cohort_context_info {
	const struct cohort_model *model;
	int32_t n_vocab;
	int32_t n_ctx, n_batch, n_ubatch, n_seq_max, n_threads;
	int32_t n_blocks; /* 0 for models whose sequences are states */
	uint32_t outputs;
	bool output_all; /* every row has output: asked for, or by pooling */
};
COHORT_API void cohort_context_info_get(const struct cohort_context *ctx, struct cohort_context_info *info);
/* Says whether the batch would be taken, without decoding: every rule, but not whether there is room. */
COHORT_API enum cohort_status cohort_check(struct cohort_context *ctx, const struct cohort_batch *batch,
		struct cohort_err *err);
/* Decodes a batch of up to n_batch rows, all or nothing: after any status but OK every sequence is exactly as before
 * the call. Outputs of the previous decode are gone, whatever the outcome.
 *
 * What the batch leaves out is filled in: sequence 0; positions that go on from what each sequence holds, and within
 * the batch; output for the last row only (for all with output_all).
 *
 * NO_ROOM (rule kv-room): `expected` is the number of rows that would have fitted, `row` and `seq` the first that did
 * not. E_LIMIT (rule n-batch): more than n_batch rows. E_BATCH names the rule:
 *   n-tokens       a batch has at least one row
 *   row-kind       rows are tokens or vectors, not both and not neither
 *   n-embd         vectors have as many floats as the model's embedding
 *   embd-finite    their floats are finite
 *   pos-per-embd   a row has one position, or as many as the model wants
 *   token          the token is in the vocabulary
 *   seq-count      a row has at least one sequence id, and no more than the batch has room for
 *   seq-id         ids are in [0, n_seq_max)
 *   seq-repeat     no id twice in a row
 *   seq-sets       the ids of a row had the same last row in this batch: sets may shrink along a sequence, not mix
 *   seq-history    ids that begin together hold the same cells
 *   pos-negative   positions (and coordinates) are >= 0
 *   pos-limit      and below the model's limit
 *   pos-start      a sequence goes on at its last position + 1 (0 when empty)
 *   pos-step       and then rises by one per row
 * E_NUMERIC (rule finite): an output that is not a finite number. */
COHORT_API enum cohort_status cohort_decode(struct cohort_context *ctx,
		const struct cohort_batch *batch, struct cohort_err *err);
/* Like cohort_decode without the cache and without causality: every row sees all rows of its sequence in the batch, no
 * sequence of the context is read or changed, positions begin at 0; layers with a window of w see w - 1 positions to
 * either side. For embeddings. Each sequence must fit into one ubatch, E_LIMIT (rule n-ubatch) otherwise, and rows
 * have one id each (rule seq-count). */
COHORT_API enum cohort_status cohort_encode(struct cohort_context *ctx,
		const struct cohort_batch *batch, struct cohort_err *err);

/* ---- Decoding without a batch -------------------------------------------------- */

/* The grid. All are all or nothing, also when they take several chunks, and none allocates once warm. Rules are those
 * of cohort_decode, with the same statuses.
 *
 *                 one sequence           many sequences
 *   one token     cohort_decode_one      cohort_decode_each
 *   many tokens   cohort_decode_many     cohort_decode_scatter
 */
COHORT_API enum cohort_status cohort_decode_one(struct cohort_context *ctx, cohort_token token,
		cohort_pos pos, cohort_seq seq, bool want, struct cohort_err *err);

/* Any number of tokens of seq from position n_past on, in chunks of n_batch; output for the last token only, at index
 * n_tokens - 1 (and -1). n_tokens 0 does nothing. */
COHORT_API enum cohort_status cohort_decode_many(struct cohort_context *ctx, const cohort_token *tokens,
		int32_t n_tokens, cohort_pos n_past, cohort_seq seq, struct cohort_err *err);

/* Buffers of each and scatter, to be reused. Fields are the library's. */
struct cohort_scratch {
	struct cohort_packing packing;
	int32_t *lengths, *ranks;
	size_t lengths_max, ranks_max;
	cohort_token *tokens;
	cohort_pos *pos;
	cohort_seq *seq;
	uint8_t *output;
	size_t tokens_max, pos_max, seq_max, output_max;
};
COHORT_API void cohort_scratch_init(struct cohort_scratch *s);
COHORT_API void cohort_scratch_release(struct cohort_scratch *s);

struct cohort_each_item {
	cohort_token token;
	cohort_pos pos;
	cohort_seq seq;
	bool want;
};
/* One row per item, at most n_batch; item i has output index i. A sequence may be named once (rule seq-duplicate).
 * scratch NULL: the context's own. n_items 0 does nothing. */
COHORT_API enum cohort_status cohort_decode_each(struct cohort_context *ctx, const struct cohort_each_item *items,
		int32_t n_items, struct cohort_scratch *scratch, struct cohort_err *err);

struct cohort_scatter_item {
	const cohort_token *tokens; /* [n_tokens] */
	int32_t n_tokens;           /* 0: skipped. With n_tokens 0 in all items there are no outputs afterwards */
	cohort_pos pos;             /* of the first */
	cohort_seq seq;
	bool want;                  /* output for the last token */
};
/* Spans of several sequences, each named once. When they exceed n_batch together they are packed with cohort_bin_pack
 * and oversized ones are cut as by many; the result does not depend on it. Output index of item i's last token: the
 * tokens of items 0 .. i - 1 together + n_tokens - 1. At most n_batch items may want output (rule n-outputs). With
 * output_all or pooling, many and scatter take at most n_batch tokens (rule n-batch). */
COHORT_API enum cohort_status cohort_decode_scatter(struct cohort_context *ctx, const struct cohort_scatter_item *items,
		int32_t n_items, struct cohort_scratch *scratch, struct cohort_err *err);

/* The same with logits that are taken as they come, so that any number of items may want them: called once for each
 * such item with what cohort_logits_get would give, borrowed for the call. That is before all is decoded: when the
 * status is not OK, what was taken is of no use. No outputs are left. take may not call functions of the context. */
typedef void cohort_take(void *user, int32_t item, const float *logits);
COHORT_API enum cohort_status cohort_decode_scatter_to(struct cohort_context *ctx,
		const struct cohort_scatter_item *items, int32_t n_items, struct cohort_scratch *scratch,
		cohort_take *take, void *user, struct cohort_err *err);

/* The first decodes repack the matrices of a mapped file as they use them (half a second of computing time in the first
 * ubatch of a context, two in others), so that a start need not wait for all; the bits are the same before and after.
 * This repacks more of them, for about `seconds` (0: a few megabytes), e.g. while there is nothing to decode. Returns
 * the part that is done; 1: nothing is left to do. */
COHORT_API double cohort_repack(struct cohort_context *ctx, double seconds);

/* Repacks what is left, then runs a made-up ubatch of n_seqs sequences and n_seq_tokens rows each, and forgets it:
 * faults weights and the whole cache in (it takes memory as it fills otherwise) and wakes threads before the first user
 * comes. Changes no sequence and no output. E_LIMIT above n_ubatch rows (rule n-ubatch), 64 sequences or n_seq_max
 * (rule n-seqs), and sequences longer than the model takes (rule pos-limit). */
COHORT_API enum cohort_status cohort_warm_up(struct cohort_context *ctx, int32_t n_seq_tokens, int32_t n_seqs,
		struct cohort_err *err);

/* ---- Outputs ------------------------------------------------------------------- */

/* Outputs of the last decode (or encode). */
COHORT_API int32_t cohort_n_outputs(const struct cohort_context *ctx);
/* Logits of batch row i of the last decode: [n_vocab], borrowed until the next decode. Row i must have asked for
 * output, not for its embedding only (rule output-kind); -1 is the last output, -2 the one before. Otherwise NULL. */
COHORT_API const float *cohort_logits_get(const struct cohort_context *ctx, int32_t i, struct cohort_err *err);
/* Embedding of batch row i (after the last norm): [n_embd]; indexes as above. NULL unless outputs has EMBEDDINGS. */
COHORT_API const float *cohort_embeddings_get(const struct cohort_context *ctx, int32_t i, struct cohort_err *err);
/* Pooled embedding of a sequence, over its rows of the last decode: [n_embd]. NULL without pooling or such rows. */
COHORT_API const float *cohort_embeddings_seq_get(const struct cohort_context *ctx, cohort_seq seq,
		struct cohort_err *err);

/* ---- Sequences ----------------------------------------------------------------- */

/* A sequence holds cells at positions, mostly without gaps. In ranges [p0, p1), p1 = -1 means to the end, and p0 >= p1
 * nothing at all. Statuses: E_ARG with a rule (seq-id, range, ...); the sequences are then as before. */

/* Removes positions [p0, p1). A removal from the middle leaves a gap: rows decoded later do not see those positions,
 * and the sequence still goes on at its last position + 1. With sliding-window layers a tail can be removed only while
 * the cells that the shorter sequence needs are still there (rule window-gone). */
COHORT_API enum cohort_status cohort_seq_rm(struct cohort_context *ctx, cohort_seq seq,
		cohort_pos p0, cohort_pos p1, struct cohort_err *err);
/* Makes dst hold src's cells at [p0, p1) besides its own. Blocks are shared, no data is copied, except where cells of
 * both meet within a block (NO_ROOM when there is none for it). Refused when dst holds a position of the range already
 * (rule cp-occupied) and, with sliding windows, when cells that dst would need are gone (window-gone). */
COHORT_API enum cohort_status cohort_seq_cp(struct cohort_context *ctx, cohort_seq src,
		cohort_seq dst, cohort_pos p0, cohort_pos p1, struct cohort_err *err);
/* Empties every sequence but seq. */
COHORT_API enum cohort_status cohort_seq_keep(struct cohort_context *ctx, cohort_seq seq, struct cohort_err *err);
/* Moves the cells at [p0, p1) by delta positions, rotating their keys to match. The result may not overlap cells that
 * stay (rule add-occupied), go below 0 or past the limit (pos-negative, pos-limit), or need cells that a window let go
 * (window-gone). Takes blocks for a while: NO_ROOM. Moved cells are close to, but not the same bits as, freshly decoded
 * ones. Where positions are learned (gpt2) keys are not rotated: they keep what they know of their old place. */
COHORT_API enum cohort_status cohort_seq_add(struct cohort_context *ctx, cohort_seq seq,
		cohort_pos p0, cohort_pos p1, cohort_pos delta, struct cohort_err *err);
/* Recurrent models (mamba) keep one state per sequence: cohort_seq_rm can remove all of it, or a tail behind a
 * checkpoint (rule checkpoint otherwise); cohort_seq_cp can copy up to one. This keeps the state as it is now; the
 * oldest goes when there are n_checkpoints of them, and all that lie behind the end of a sequence that gets shorter.
 * Copies have them, too. With other models every position is as good as a checkpoint, and the call does nothing. */
COHORT_API enum cohort_status cohort_seq_checkpoint(struct cohort_context *ctx, cohort_seq seq, struct cohort_err *err);
/* Rows of the sequence go through the adapter from now on, `scale` times (-1e6 to 1e6; NULL: none), beside those the
 * model was opened with. The sequence must be empty (rule adapter-held): what it holds was computed with another. Who
 * gets cells by a copy has the adapter of their sequence, as has an empty sequence by a copy of all of another empty
 * one (0 to -1); rows of several sequences want them to have the same (rule adapter). The setting outlasts the
 * sequence's content. Sequences with an adapter cannot be saved. */
COHORT_API enum cohort_status cohort_seq_adapter_set(struct cohort_context *ctx, cohort_seq seq,
		const struct cohort_adapter *adapter, float scale, struct cohort_err *err);
/* First and last position held, or -1 if empty or out of range. Cells that a sliding window let go count as held. */
COHORT_API cohort_pos cohort_seq_pos_min(const struct cohort_context *ctx, cohort_seq seq);
COHORT_API cohort_pos cohort_seq_pos_max(const struct cohort_context *ctx, cohort_seq seq);
/* Whether every cell from the first position to the last is there: no gap, and none that a sliding window let go. An
 * empty sequence is whole, one that is out of range is not. */
COHORT_API bool cohort_seq_is_whole(const struct cohort_context *ctx, cohort_seq seq);
COHORT_API void cohort_seq_clear(struct cohort_context *ctx); /* empties every sequence */

/* ---- Room and work ------------------------------------------------------------- */

struct cohort_room_params { /* sequences, and the pool of KV blocks for them */
	size_t struct_size;
	const struct cohort_model *model; /* NULL: any with a KV cache */
	int64_t n_ctx, n_blocks; /* of the context; 0: only what is needed is asked */
	int64_t n_seq_max; /* sequences that the pool is made for; 0: n_seqs, and for n_fit as many as fit */
	int64_t n_seqs, n_tokens; /* tokens of each sequence */
	int64_t n_prompt;  /* those of them that all begin with */
	int64_t n_fork;    /* tokens by which a fork of each goes on, from anywhere; 0: none is forked */
	int64_t n_more;    /* tokens of one more sequence, which has none in common with the others */
};
COHORT_API void cohort_room_params_init(struct cohort_room_params *params); /* all 0 */
struct cohort_room_info {
	int32_t block_size;   /* positions; a sequence takes whole blocks */
	int32_t n_blocks;     /* of the pool */
	int64_t n_needed;     /* blocks that they take together */
	int64_t n_shared;     /* ... and of these the whole blocks of the prompt, which exist once */
	int64_t n_free;       /* n_blocks - n_needed; below 0 they do not fit */
	int32_t n_fit;        /* sequences that fit at most; INT32_MAX: any number */
	int32_t n_pos_max;    /* tokens that n_ctx promises to one sequence: whole blocks, and what the model takes */
	int64_t n_ctx_needed; /* the least n_ctx, in whole blocks, that has room for them */
};
/* How many blocks sequences take, and a pool has: n_ctx in whole blocks, and min(n_seq_max, n_ctx / block size) more,
 * as the last block of each sequence is partly empty, so that they have room for n_ctx tokens together. Models with
 * states (mamba) and encoders have none, and n_ctx bounds nothing. Fields are 0 to 2^30, n_blocks to 2^26. */
COHORT_API enum cohort_status cohort_room_needed(const struct cohort_room_params *params, struct cohort_room_info *out,
		struct cohort_err *err);

struct cohort_usage {
	int32_t block_size;  /* positions per block */
	int32_t n_blocks, n_used, n_shared, n_free;
	uint64_t block_bytes; /* of a block; layers with a window have blocks of their own: this is the first layer's */
	uint64_t used_bytes;  /* of all blocks in use */
	int32_t n_seqs;       /* sequences that hold cells */
};
/* With a NULL context: block_size only. With sliding windows the numbers of blocks are sums over several pools. Models
 * with states (mamba) have a state in the place of a block, whatever its positions. */
COHORT_API void cohort_usage_get(const struct cohort_context *ctx, struct cohort_usage *usage);

/* Work done since the context was opened. */
struct cohort_counters {
	uint64_t n_decode;                 /* successful calls; encode's rows count as prefill */
	uint64_t n_prefill_rows, n_decode_rows; /* rows in runs of several of a sequence, and single ones */
	double prefill_s, decode_s;        /* wall time, shared out by rows when a batch holds both */
};
COHORT_API void cohort_counters_get(const struct cohort_context *ctx, struct cohort_counters *counters);

/* ---- Saved state --------------------------------------------------------------- */

/* Saved state: the cells of one sequence, or of all with their sharing (seq = COHORT_SEQ_ALL). The bytes carry a
 * version, the shape of the cache, a fingerprint of the model and a checksum. Restoring refuses what does not match:
 * E_FORMAT for bad bytes, E_UNSUPPORTED for another version, model or cache type; NO_ROOM leaves everything as before.
 * Restored sequences decode on with the same bits. The fingerprint covers every byte of every weight, and of adapters
 * opened with the model. Repacking computes it on the way; the first save or restore of a context reads the rest from
 * the file (about a second for several gigabytes). ABORTED when the context's callback says so. */
#define COHORT_SEQ_ALL (-1)
/* Bytes that saving takes; 0 when it cannot be saved: a bad argument, no memory, an adapter. */
COHORT_API size_t cohort_state_size(struct cohort_context *ctx, cohort_seq seq);
/* Writes to out[0 .. n_max); *n_out is the size. E_LIMIT when n_max is too small (nothing is written). */
COHORT_API enum cohort_status cohort_state_save(struct cohort_context *ctx, cohort_seq seq, void *out,
		size_t n_max, size_t *n_out, struct cohort_err *err);
/* What was saved of one sequence becomes `seq` (its own id with COHORT_SEQ_ALL), replacing what that held. What was
 * saved of all replaces all sequences, and seq must be COHORT_SEQ_ALL. */
COHORT_API enum cohort_status cohort_state_restore(struct cohort_context *ctx, cohort_seq seq, const void *bytes,
		size_t n_bytes, struct cohort_err *err);
/* The same through a file. Saving writes a temporary file beside it and renames, so that the path never holds half a
 * state: a new file, with the mode that the umask gives, takes the place of what was there, a symbolic link included.
 * E_IO says what failed; only when syncing the directory does, the new file is in place already. A process that is
 * killed leaves the old file or the new one; the temporary file that it may leave goes with the next save. */
COHORT_API enum cohort_status cohort_state_save_file(struct cohort_context *ctx, cohort_seq seq, const char *path,
		struct cohort_err *err);
COHORT_API enum cohort_status cohort_state_restore_file(struct cohort_context *ctx, cohort_seq seq, const char *path,
		struct cohort_err *err);

/* ---- Token texts ------------------------------------------------------------------ */

/* What every token of a vocabulary says, and tries over it: grammars and sequence breakers are found in the text of
 * tokens. Immutable, may be shared by threads; must outlive grammars and samplers made with it. */
struct cohort_lexicon; /* opaque */

/* The texts of a model's vocabulary. E_UNSUPPORTED: it has no tokeniser; E_MEMORY. */
COHORT_API enum cohort_status cohort_lexicon_open(const struct cohort_model *model, struct cohort_lexicon **out,
		struct cohort_err *err);
struct cohort_lexicon_token {
	const char *bytes; /* copied; at most 60,000 */
	size_t n_bytes;
	bool is_text;      /* the bytes are what it adds to a text; otherwise they are its name (control tokens) */
	bool is_end;       /* ends a generation */
};
/* The same from a list, for a vocabulary that is no model's. */
COHORT_API enum cohort_status cohort_lexicon_open_list(const struct cohort_lexicon_token *tokens, int32_t n_tokens,
		struct cohort_lexicon **out, struct cohort_err *err);
COHORT_API void cohort_lexicon_free(struct cohort_lexicon *lexicon);

/* ---- Grammars ------------------------------------------------------------------------ */

/* Which texts may be generated. May be used by samplers of several threads. It keeps what it has worked out (about
 * 50 MB of address space, of which a usual grammar touches little). docs/sampling.md has the notation. */
struct cohort_grammar; /* opaque */

/* GBNF, as llama.cpp defines it, up to 4 MiB. root: the rule that a whole text matches, NULL: "root". E_FORMAT with
 * the offset and the line; E_UNSUPPORTED for a rule that begins with itself; E_LIMIT: too large or too ambiguous. */
COHORT_API enum cohort_status cohort_grammar_open(const struct cohort_lexicon *lexicon, const char *text,
		size_t n_bytes, const char *root, struct cohort_grammar **out, struct cohort_err *err);
/* The documents that a JSON schema describes: cohort_schema_to_gbnf and cohort_grammar_open in one. */
COHORT_API enum cohort_status cohort_grammar_open_schema(const struct cohort_lexicon *lexicon, const char *schema,
		size_t n_bytes, struct cohort_grammar **out, struct cohort_err *err);
/* A JSON schema as a grammar's text. *n_out is its size; E_LIMIT when that exceeds n_max (out is then untouched and may
 * be NULL with n_max 0). E_FORMAT: not JSON, or not a schema. E_UNSUPPORTED names a keyword that would change what is
 * valid and is not known: nothing is left out silently. */
COHORT_API enum cohort_status cohort_schema_to_gbnf(const char *schema, size_t n_bytes, char *out, size_t n_max,
		size_t *n_out, struct cohort_err *err);
/* How far a text can be followed, and whether it is a whole one. Either may be NULL. E_LIMIT: too ambiguous. */
COHORT_API enum cohort_status cohort_grammar_match(struct cohort_grammar *grammar, const char *text, size_t n_bytes,
		size_t *n_matched, bool *complete, struct cohort_err *err);
/* May be called while samplers, branches or requests use the grammar: it goes with the last of them. */
COHORT_API void cohort_grammar_free(struct cohort_grammar *grammar);

/* ---- Sampling -------------------------------------------------------------------------- */

/* A sampler is a chain of stages, and what one sequence has said so far. Stages change logits (bias, penalties, DRY),
 * forbid tokens (grammar), or leave fewer candidates (the others); at the end one is drawn. docs/sampling.md has every
 * formula. The same logits, values and seed give the same token on every machine. */
struct cohort_sampler; /* opaque */

enum cohort_stage {
	COHORT_STAGE_BIAS = 1,
	COHORT_STAGE_GRAMMAR,
	COHORT_STAGE_PENALTIES,
	COHORT_STAGE_DRY,
	COHORT_STAGE_TOP_N_SIGMA,
	COHORT_STAGE_TOP_K,
	COHORT_STAGE_TYPICAL,
	COHORT_STAGE_TOP_P,
	COHORT_STAGE_MIN_P,
	COHORT_STAGE_XTC,
	COHORT_STAGE_TEMPERATURE,
	COHORT_STAGE_MIROSTAT
};
#define COHORT_ORDER_MAX 32        /* stages in a chain */
#define COHORT_HISTORY_MAX 1048576 /* tokens that penalties and DRY look back at most */

struct cohort_logit_bias {
	cohort_token token;
	float bias; /* added to the logit; -INFINITY: never */
};

/* What is off changes nothing. Values outside the ranges named, and NaN, are E_ARG (rule: the name). */
struct cohort_sampler_params {
	size_t struct_size;
	uint64_t seed;      /* together with stream: same numbers, same text, on every machine */
	uint64_t stream;    /* index of a parallel continuation */
	float temperature;  /* finite; <= 0: greedy, whatever the order: best after bias, grammar, penalties, DRY */
	int32_t top_k;      /* <= 0 or >= n_vocab: off */
	float top_p;        /* >= 0; >= 1: off */
	float min_p;        /* <= 1; <= 0: off */
	int32_t min_keep;   /* stages that cut leave at least so many (top-k and mirostat excepted); >= 1 */

	/* Stages in order; n_order 0: the default, which is that of enum cohort_stage. With mirostat it is bias,
	 * grammar, penalties, DRY, temperature, mirostat. A stage may come twice. What an order leaves out does not
	 * happen. */
	enum cohort_stage order[COHORT_ORDER_MAX];
	int32_t n_order;

	const struct cohort_logit_bias *bias; /* [n_bias], copied; of several for a token the sum counts */
	int32_t n_bias;
	struct cohort_grammar *grammar;       /* or NULL */
	const struct cohort_lexicon *lexicon; /* needed by dry_breakers only */

	int32_t history_max;     /* what last_n -1 means; 1 to COHORT_HISTORY_MAX */
	int32_t penalty_last_n;  /* 0: off; -1: history_max */
	float repeat_penalty;    /* > 0; 1: off */
	float frequency_penalty, presence_penalty; /* 0: off; below 0 they encourage */

	float dry_multiplier;    /* >= 0; 0: off */
	float dry_base;          /* >= 0; < 1: off */
	int32_t dry_allowed_length, dry_penalty_last_n; /* >= 0; as penalty_last_n */
	const char *const *dry_breakers; /* [n_dry_breakers], copied: 1 to 256 bytes each */
	int32_t n_dry_breakers;  /* 0 to 256 */

	float top_n_sigma;       /* <= 0: off */
	float typical_p;         /* >= 0; >= 1: off */
	float xtc_probability;   /* <= 1; <= 0: off */
	float xtc_threshold;     /* >= 0; > 0.5: off */
	float dynatemp_range;    /* >= 0; 0: off */
	float dynatemp_exponent; /* >= 0 */

	int32_t mirostat;        /* 0: off; version 1 or 2 */
	float mirostat_tau, mirostat_eta; /* >= 0 */
};

/* temperature 0.8, top_k 40, top_p 0.95, min_p 0.05, min_keep 1, history_max 4096, penalty_last_n 64, repeat_penalty 1,
 * dry_base 1.75, dry_allowed_length 2, dry_penalty_last_n -1, top_n_sigma -1, typical_p 1, xtc_threshold 0.1,
 * dynatemp_exponent 1, mirostat_tau 5, mirostat_eta 0.1; all else 0. */
COHORT_API void cohort_sampler_params_init(struct cohort_sampler_params *params);
/* Name of a stage ("top_k"), or NULL; a list of names, separated by ; or , or spaces, as the order of params. */
COHORT_API const char *cohort_stage_name(enum cohort_stage stage);
COHORT_API enum cohort_status cohort_sampler_order_parse(struct cohort_sampler_params *params, const char *names,
		struct cohort_err *err);

/* For logits of n_vocab tokens. params NULL: the defaults. E_ARG: a value outside its range, a grammar or a lexicon of
 * another vocabulary; E_MEMORY. */
COHORT_API enum cohort_status cohort_sampler_open(const struct cohort_sampler_params *params,
		int32_t n_vocab, struct cohort_sampler **out, struct cohort_err *err);
COHORT_API void cohort_sampler_free(struct cohort_sampler *s);
/* A second one that goes on exactly as the first would. */
COHORT_API enum cohort_status cohort_sampler_clone(const struct cohort_sampler *s, struct cohort_sampler **out,
		struct cohort_err *err);
/* As it was opened, with the seed it has now. */
COHORT_API void cohort_sampler_reset(struct cohort_sampler *s);
/* Another seed; all else stays (a greedy chain stays greedy). */
COHORT_API void cohort_sampler_reseed(struct cohort_sampler *s, uint64_t seed, uint64_t stream);
/* The generator: PCG32 (XSH-RR 64/32). A draw is 53 bits of two numbers; one a token, and one before it with XTC. */
struct cohort_sampler_rng {
	uint64_t state, inc; /* inc is odd */
};
COHORT_API void cohort_sampler_rng_get(const struct cohort_sampler *s, struct cohort_sampler_rng *rng);
COHORT_API enum cohort_status cohort_sampler_rng_set(struct cohort_sampler *s, const struct cohort_sampler_rng *rng,
		struct cohort_err *err);

/* ---- Drawing tokens ------------------------------------------------------------ */

/* Picks a token from logits [n_vocab] and accepts it, once; allocates nothing. E_NUMERIC if a logit is NaN or +Inf, or
 * no token is left (rule excluded); E_LIMIT if the grammar is too ambiguous (rule grammar). Both leave it unchanged. */
COHORT_API enum cohort_status cohort_sampler_sample(struct cohort_sampler *s, const float *logits,
		cohort_token *out, struct cohort_err *err);
/* The same without accepting: the generator and mirostat go on, nothing else. */
COHORT_API enum cohort_status cohort_sampler_draw(struct cohort_sampler *s, const float *logits,
		cohort_token *out, struct cohort_err *err);
/* As if the token had been sampled: penalties and DRY remember it, the grammar goes on. For tokens that others
 * chose or cohort_sampler_draw did, not for those of cohort_sampler_sample. E_ARG if the grammar does not permit it. */
COHORT_API enum cohort_status cohort_sampler_accept(struct cohort_sampler *s, cohort_token token,
		struct cohort_err *err);
/* Tokens of a prompt: penalties and DRY remember them, the grammar does not see them. */
COHORT_API enum cohort_status cohort_sampler_prompt(struct cohort_sampler *s, const cohort_token *tokens,
		size_t n_tokens, struct cohort_err *err);
/* What cohort_sampler_accept would say of the token; changes nothing. If OK, accepting this token next cannot fail: its
 * place in the grammar is kept until the sampler goes on or is asked again (-1 is no token, and only lets it go). */
COHORT_API enum cohort_status cohort_sampler_permits(struct cohort_sampler *s, cohort_token token,
		struct cohort_err *err);
/* Which tokens the grammar permits here (without one all): legal[i] is 1 or 0, [n_vocab]. E_LIMIT: too ambiguous. */
COHORT_API enum cohort_status cohort_sampler_legal_get(struct cohort_sampler *s, uint8_t *legal,
		struct cohort_err *err);
/* Whether the grammar lets the text end here; true without one. A text cut by a limit is not complete otherwise. */
COHORT_API bool cohort_sampler_is_complete(const struct cohort_sampler *s);

/* ---- Log-probabilities --------------------------------------------------------------------- */

struct cohort_logprob {
	cohort_token token;
	float logprob; /* natural logarithm; -INFINITY for what was excluded */
};

/* Of a row of logits: the log-probability of `token` (unless logprob is NULL), the n_top best, in order, and the
 * entropy in nats (unless NULL). {-1, -INFINITY} where fewer than n_top have any probability. Allocates nothing. */
COHORT_API enum cohort_status cohort_logprobs_get(const float *logits, int32_t n_vocab, cohort_token token,
		float *logprob, struct cohort_logprob *top, int32_t n_top, double *entropy, struct cohort_err *err);
/* The same of what the chain left, from which the last token was drawn. E_ARG if there was none since the sampler
 * was opened, cloned or reset, or if the last call of cohort_sampler_sample failed. */
COHORT_API enum cohort_status cohort_sampler_logprobs_get(struct cohort_sampler *s, cohort_token token,
		float *logprob, struct cohort_logprob *top, int32_t n_top, double *entropy, struct cohort_err *err);

struct cohort_score {
	int64_t n;         /* tokens that have a probability: all but the first */
	double logprob;    /* sum over them */
	double perplexity; /* exp(-logprob / n); 1 when n is 0 */
};
/* How likely a text is, token by token: logprobs[i] (NULL, or n_tokens of them) is that of token i after those
 * before it; that of the first is 0. Decodes the tokens as sequence seq from position 0, which must be empty and is
 * so again afterwards. Statuses as cohort_decode_many. */
COHORT_API enum cohort_status cohort_score_text(struct cohort_context *ctx, cohort_seq seq, const cohort_token *tokens,
		int32_t n_tokens, float *logprobs, struct cohort_score *score, struct cohort_err *err);

/* ---- Branches ------------------------------------------------------------------------------- */

/* Generations that fork. A branch is a sequence with its sampler (and place in a grammar), the logits behind its last
 * token, and statistics. A forest holds the branches of a context: it leases them sequence ids out of a range that is
 * the forest's alone; an id that no branch has holds no cells. Calls on many branches decode them together, and change
 * none of them unless all succeed. docs/branches.md has an example. One thread at a time, as the context. */
struct cohort_forest; /* opaque */

/* A handle: stays valid until its branch is pruned, and is then refused for ever (rule branch-stale), as is one of
 * another forest (rule branch-foreign). All zero: none. */
struct cohort_branch {
	uint32_t forest, index;
	uint64_t generation;
};

struct cohort_forest_params {
	size_t struct_size;
	cohort_seq first_seq; /* ids first_seq .. first_seq + n_seqs - 1 are the forest's; they must be empty */
	int32_t n_seqs;       /* most branches at once; 0: all ids of the context from first_seq on */
};
COHORT_API void cohort_forest_params_init(struct cohort_forest_params *params); /* all 0 */
/* The context needs logits as output, and must outlive the forest. params NULL: the defaults. E_ARG: ids that are out
 * of range or hold cells (rules seq-id, seq-held). */
COHORT_API enum cohort_status cohort_forest_open(struct cohort_context *ctx, const struct cohort_forest_params *params,
		struct cohort_forest **out, struct cohort_err *err);
/* Prunes all branches. */
COHORT_API void cohort_forest_free(struct cohort_forest *forest);
/* Whose branches they are; NULL of NULL. */
COHORT_API struct cohort_context *cohort_forest_context_get(const struct cohort_forest *forest);

struct cohort_pressure {
	int32_t n_seqs, n_leased, n_vacant; /* sequence ids of the forest */
	int32_t block_size, n_blocks, n_blocks_used, n_blocks_shared, n_blocks_free; /* of the context's cache */
	int32_t n_leaves; /* branches without children */
};
/* How much room there is, all 0 of NULL. */
COHORT_API void cohort_forest_pressure_get(const struct cohort_forest *forest, struct cohort_pressure *pressure);

/* An empty branch. sampler NULL: the defaults; its grammar may go first. NO_ROOM (rule seq-lease): no id is vacant. */
COHORT_API enum cohort_status cohort_branch_create(struct cohort_forest *forest,
		const struct cohort_sampler_params *sampler, struct cohort_branch *out, struct cohort_err *err);

/* What a fork is to draw with: the parent's generator as it is, or another seed. */
struct cohort_reseed {
	uint64_t seed, stream;
};
/* A child that goes on exactly as its parent would: cells (shared, not copied), logits, sampler, biases, statistics and
 * what is pending; with `reseed` not NULL, from another seed. NO_ROOM as above. */
COHORT_API enum cohort_status cohort_branch_fork(struct cohort_forest *forest, struct cohort_branch parent,
		const struct cohort_reseed *reseed, struct cohort_branch *out, struct cohort_err *err);

/* Ends a branch: its id is vacant, its handle stale. E_ARG (rule branch-children) while it has children. */
COHORT_API enum cohort_status cohort_branch_prune(struct cohort_forest *forest, struct cohort_branch branch,
		struct cohort_err *err);
/* The branch and all that descend from it. */
COHORT_API enum cohort_status cohort_branch_prune_subtree(struct cohort_forest *forest, struct cohort_branch branch,
		struct cohort_err *err);
/* Ends all other branches of the forest; the winner has no parent then. */
COHORT_API enum cohort_status cohort_branch_retain_only(struct cohort_forest *forest, struct cohort_branch winner,
		struct cohort_err *err);
/* The branch has no parent from now on: that can be pruned first. What descends from the branch stays as it is. */
COHORT_API enum cohort_status cohort_branch_detach(struct cohort_forest *forest, struct cohort_branch branch,
		struct cohort_err *err);

/* ---- Branches: decoding -------------------------------------------------------- */

/* Tokens of a prompt, any number of them and for any number of branches (each named once, rule branch-duplicate):
 * decoded together, packed into calls of n_batch rows. Penalties remember them; grammar and statistics do not see
 * them. Behind it each branch has the logits of its last token. All or nothing. Refused for a branch with a pending
 * token (rule branch-pending). n_tokens 0: skipped. Statuses as cohort_decode_scatter. */
struct cohort_branch_span {
	struct cohort_branch branch;
	const cohort_token *tokens; /* [n_tokens] */
	int32_t n_tokens;
};
COHORT_API enum cohort_status cohort_branch_decode_scatter(struct cohort_forest *forest,
		const struct cohort_branch_span *spans, int32_t n_spans, struct cohort_err *err);
COHORT_API enum cohort_status cohort_branch_prefill(struct cohort_forest *forest, struct cohort_branch branch,
		const cohort_token *tokens, int32_t n_tokens, struct cohort_err *err);

/* Draws a token from the branch's logits (with its biases) by its sampler, without accepting it. E_ARG: no logits yet
 * (rule branch-logits), a token is pending (rule branch-pending). After a failure nothing has changed. */
COHORT_API enum cohort_status cohort_branch_sample(struct cohort_forest *forest, struct cohort_branch branch,
		cohort_token *out, struct cohort_err *err);
/* The token is the branch's next: penalties and DRY remember it, the grammar goes on (E_ARG if it does not permit it),
 * statistics count it. It is pending until it is decoded by cohort_branch_step. */
COHORT_API enum cohort_status cohort_branch_accept(struct cohort_forest *forest, struct cohort_branch branch,
		cohort_token token, struct cohort_err *err);
/* Decodes the pending tokens of branches, each named once and with one (rule branch-idle), packed by n_batch. */
COHORT_API enum cohort_status cohort_branch_step(struct cohort_forest *forest, const struct cohort_branch *branches,
		int32_t n_branches, struct cohort_err *err);
/* Accepts and decodes a token of each: all or nothing. */
struct cohort_branch_token {
	struct cohort_branch branch;
	cohort_token token;
};
COHORT_API enum cohort_status cohort_branch_decode_each(struct cohort_forest *forest,
		const struct cohort_branch_token *items, int32_t n_items, struct cohort_err *err);

/* ---- Branches: what they hold -------------------------------------------------- */

/* Logits behind the last token: [n_vocab], borrowed until the branch decodes, is changed or pruned. NULL: none. */
COHORT_API const float *cohort_branch_logits_get(const struct cohort_forest *forest, struct cohort_branch branch,
		struct cohort_err *err);
/* Others in their place, until the next decode. They are copied; NaN and +Inf are E_NUMERIC. */
COHORT_API enum cohort_status cohort_branch_logits_set(struct cohort_forest *forest, struct cohort_branch branch,
		const float *logits, struct cohort_err *err);
/* dst += alpha * src, element by element; E_NUMERIC (rule finite) if that is NaN or +Inf anywhere. */
COHORT_API enum cohort_status cohort_branch_logits_merge(struct cohort_forest *forest, struct cohort_branch dst,
		struct cohort_branch src, float alpha, struct cohort_err *err);
/* Added to logits when a token is drawn (-INFINITY: never), besides the sampler's own, in the place of those set
 * before; copied. Statistics do not see it. */
COHORT_API enum cohort_status cohort_branch_bias_set(struct cohort_forest *forest, struct cohort_branch branch,
		const struct cohort_logit_bias *bias, int32_t n_bias, struct cohort_err *err);

/* Tokens that the branch's grammar permits next, rising: up to n_max into out; *n_out says how many there are. */
COHORT_API enum cohort_status cohort_branch_legal_get(struct cohort_forest *forest, struct cohort_branch branch,
		cohort_token *out, int32_t n_max, int32_t *n_out, struct cohort_err *err);
COHORT_API bool cohort_branch_is_legal(struct cohort_forest *forest, struct cohort_branch branch, cohort_token token);
/* Of what comes next, by the logits alone: the entropy, and how surprising a token would be (-log p), both in nats. */
COHORT_API enum cohort_status cohort_branch_entropy_get(const struct cohort_forest *forest, struct cohort_branch branch,
		double *entropy, struct cohort_err *err);
COHORT_API enum cohort_status cohort_branch_surprisal_get(const struct cohort_forest *forest,
		struct cohort_branch branch, cohort_token token, double *surprisal, struct cohort_err *err);

struct cohort_branch_info {
	struct cohort_branch parent, first_child, next_sibling; /* all zero: none */
	int32_t n_children, depth; /* depth: forks between it and a branch without a parent */
	cohort_seq seq;
	cohort_pos n_past;         /* positions its sequence holds */
	cohort_token pending;      /* accepted and not decoded; -1: none */
	bool has_logits;
	bool complete;             /* the grammar lets the text end here; true without one */
	/* Of accepted tokens, its ancestors' included: how likely they were by the logits, and by what the sampler's
	 * chain left, for those that it drew. */
	int64_t n_accepted, n_drawn;
	double logprob, drawn_logprob;             /* sums */
	double perplexity, drawn_perplexity;       /* exp(-sum / n); 1 when n is 0 */
};
/* E_ARG: no such branch. */
COHORT_API enum cohort_status cohort_branch_info_get(const struct cohort_forest *forest, struct cohort_branch branch,
		struct cohort_branch_info *info, struct cohort_err *err);
/* The leaves below a branch (itself, if it is one), or of the whole forest when it is all zero, depth first, children
 * in the order they were forked: up to n_max into out; *n_out says how many there are. */
COHORT_API enum cohort_status cohort_branch_leaves_get(const struct cohort_forest *forest, struct cohort_branch branch,
		struct cohort_branch *out, int32_t n_max, int32_t *n_out, struct cohort_err *err);

#ifdef __cplusplus
}
#endif
#endif
