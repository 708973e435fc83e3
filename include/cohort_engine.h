/* cohort's engine: continuous batching for many users of one model.
 *
 * Requests come from any thread; one thread owns the context and ticks. A tick finishes what is done, admits from the
 * queue, lets a strategy build the batch under a budget of rows, decodes, samples and delivers. What a request is
 * answered does not depend on who else is there: the same bytes as alone, under any strategy.
 *
 * Conventions are those of cohort.h. docs/engine.md tells the whole story.
 */
#ifndef COHORT_ENGINE_H
#define COHORT_ENGINE_H

#include "cohort.h"

#ifdef __cplusplus
extern "C" {
#endif

struct cohort_engine;  /* opaque; its functions may be called by any thread */
struct cohort_request; /* opaque; a handle of a submitted request, for one thread at a time (cancel: any) */

/* ---- Strategies --------------------------------------------------------------------------------- */

/* A slot is a place for one sequence. */
enum cohort_slot_state {
	COHORT_SLOT_IDLE = 0,
	COHORT_SLOT_PREFILLING, /* tokens of its prompt are not yet in the cache */
	COHORT_SLOT_GENERATING, /* it has a token that was sampled and is not yet in the cache */
	COHORT_SLOT_PARKED      /* its cells had to make room; it goes on when there is some again */
};

/* What a strategy sees of a slot, and updates as it plans. */
struct cohort_slot {
	cohort_seq id;              /* the sequence of its rows */
	enum cohort_slot_state state;
	const cohort_token *prompt; /* [n_prompt]; of one that was parked: all its tokens so far */
	int32_t n_prompt;
	int32_t n_prefilled;        /* tokens of the prompt that are in the cache, or planned */
	cohort_token pending;       /* generating: the token to decode; -1: none, or planned */
	cohort_pos pos;             /* of the next row */
	int32_t batch_index;        /* the entry whose logits will be sampled; -1: none yet */
	int32_t n_planned;          /* rows it has in this plan */
	uint64_t client;
	int32_t priority;
	float age_s;                /* since its request came */
	int32_t n_generated;        /* tokens sampled so far */
	int32_t n_left;             /* tokens it may yet sample at most */
};

/* A row to be decoded. */
struct cohort_entry {
	cohort_token token;
	cohort_pos pos;
	cohort_seq seq;
	bool logits; /* a token will be sampled here: a generating slot's row, the last one of a prompt */
};

/* The batch that a strategy builds. */
struct cohort_plan {
	struct cohort_slot *slots;    /* [n_slots]: those that have work, by rising id; prefilling or generating */
	int32_t n_slots;
	int32_t budget;               /* entries at most */
	int32_t chunk_size;           /* prefill rows of one slot at most */
	int32_t queue_depth;          /* requests that wait for a slot */
	uint64_t tick;                /* number of the tick */
	const struct cohort_model *model; /* NULL in a simulation */
	struct cohort_entry *entries; /* [budget], n_entries of them used: 0 at first; see cohort_strategy */
	int32_t n_entries;
};

/* Plans the next rows of a slot: of a prompt up to n_max (and no more than the chunk size), of a generating slot its
 * one. Returns how many there was room for. Inline, so that a strategy in a file of its own needs no library. */
static inline int32_t cohort_plan_add(struct cohort_plan *plan, struct cohort_slot *slot, int32_t n_max)
{
	const int32_t first = plan->n_entries, n_room = plan->budget - first;
	struct cohort_entry *e = plan->entries + first;
	int32_t n = n_max < n_room ? n_max : n_room;

	if (n <= 0)
		return 0;
	if (slot->state == COHORT_SLOT_GENERATING) {
		if (slot->pending < 0)
			return 0;
		const struct cohort_entry row = {slot->pending, slot->pos, slot->id, true};
		n = 1;
		*e = row;
		slot->pending = -1;
		slot->batch_index = first;
	} else {
		const cohort_token *tokens = slot->prompt + slot->n_prefilled;
		const int32_t n_left = slot->n_prompt - slot->n_prefilled, n_chunk = plan->chunk_size - slot->n_planned;
		n = n < n_left ? n : n_left;
		n = n < n_chunk ? n : n_chunk;
		if (slot->state != COHORT_SLOT_PREFILLING || n <= 0)
			return 0;
		for (int32_t i = 0; i < n; i++) {
			const struct cohort_entry row = {tokens[i], slot->pos + i, slot->id, false};
			e[i] = row;
		}
		slot->n_prefilled += n;
		if (n == n_left) {
			e[n - 1].logits = true;
			slot->batch_index = first + n - 1;
		}
	}
	slot->pos += n;
	slot->n_planned += n;
	plan->n_entries += n;
	return n;
}

/* Decides which rows go into a tick. To write one: fill in the struct and build_batch, which calls cohort_plan_add for
 * the slots it wants, in the order it wants (examples/strategy_shortest_first.c). Entries may be written by hand as
 * well. The engine checks all of it before anything is decoded:
 *   status        build_batch returned OK
 *   empty         there is an entry: slots are only shown when they have work
 *   budget        no more than `budget` entries, and `budget` is as it was
 *   slot          every entry's seq is a slot of the plan
 *   order         positions of a slot rise by one from where it is (no gaps, no row twice)
 *   token         tokens are the prompt's, or the pending one
 *   chunk         no more than chunk_size prefill rows of a slot, and `chunk_size` is as it was
 *   logits        asked for exactly where a token will be sampled
 *   progress      the slots' n_prefilled, pending, pos and batch_index say the same as the entries; their state and
 *                 prompt, and the plan's arrays, are as they were
 * Entries behind the budget break the rule; up to 4,096 of them touch nothing else, and the process faults at the next.
 * One that breaks a rule is not used: the default strategy plans that tick, and the failure is counted. */
struct cohort_strategy {
	size_t struct_size;
	const char *name;   /* lower case, with dashes */
	const char *about;  /* one line */
	size_t state_bytes; /* memory that each engine keeps for the strategy: zeroed at first */
	void *user;         /* the strategy's own */
	enum cohort_status (*build_batch)(const struct cohort_strategy *self, void *state, struct cohort_plan *plan);
};

/* Built in: "decode-maximal" (the default: generating slots first, prompts take what is left), "prefill-priority" (the
 * reverse), "balanced" (half each, an odd row in turn; what one side does not need goes to the other). In all of them a
 * side that waits gets at least max(1, budget / 16) rows of a tick (with a budget of 1 they take turns), and slots take
 * turns to go first. */
COHORT_API size_t cohort_strategy_count(void);
COHORT_API const struct cohort_strategy *cohort_strategy_get(size_t i); /* NULL past the end; 0 is the default */
COHORT_API const struct cohort_strategy *cohort_strategy_find(const char *name); /* NULL: no such name */

/* Strategies from a shared object, which exports a function of this type and name. It returns strategy i, or NULL past
 * the last; abi is COHORT_STRATEGY_ABI of the program that asks: for another than its own it returns NULL. */
#define COHORT_STRATEGY_ABI 1
typedef const struct cohort_strategy *cohort_strategy_export_fn(uint32_t abi, size_t i);
#define COHORT_STRATEGY_EXPORT "cohort_strategy_export"
struct cohort_strategy_file; /* opaque */
/* Loads the object and finds the strategy called `name` in it (NULL: its first). Both stay until the file is freed,
 * which no engine with one of its strategies may outlast. Loading runs the object's code. E_IO: it cannot be loaded;
 * E_FORMAT: it exports no strategies; E_UNSUPPORTED: it was built for another abi; E_ARG: none has that name. */
COHORT_API enum cohort_status cohort_strategy_open(const char *path, const char *name,
		struct cohort_strategy_file **file, const struct cohort_strategy **out, struct cohort_err *err);
COHORT_API void cohort_strategy_file_free(struct cohort_strategy_file *file);

/* ---- Requests ----------------------------------------------------------------------------------- */

enum cohort_task {
	COHORT_TASK_GENERATE = 0,
	COHORT_TASK_EMBED /* the prompt's embedding */
};

/* Why an output ended. */
enum cohort_finish {
	COHORT_FINISH_NONE = 0,  /* it has not */
	COHORT_FINISH_EOG,       /* the model ended it */
	COHORT_FINISH_STOP,      /* a stop string, or a stop token */
	COHORT_FINISH_LENGTH,    /* max_tokens */
	COHORT_FINISH_EMBEDDED,  /* an embedding is there */
	COHORT_FINISH_CANCELLED, /* by cohort_request_cancel or _free */
	COHORT_FINISH_TIMEOUT,   /* one of its limits in time; the error says which */
	COHORT_FINISH_ERROR,     /* the error says why */
	COHORT_FINISH_SHUTDOWN   /* the engine stopped */
};
/* "stop", "length", ... */
COHORT_API const char *cohort_finish_name(enum cohort_finish finish);

enum cohort_event_kind {
	COHORT_EVENT_NONE = 0,  /* waiting took as long as it was allowed to, or all was told already */
	COHORT_EVENT_PROMPT,    /* log-probabilities of the prompt's tokens */
	COHORT_EVENT_TOKEN,     /* a token was sampled; text may come with it */
	COHORT_EVENT_EMBEDDING,
	COHORT_EVENT_END,       /* of one output, with the last of its text */
	COHORT_EVENT_DONE       /* of the request: nothing follows */
};

/* Pointers are good until the next event, or an output, is asked for, or until the callback returns. */
struct cohort_event {
	enum cohort_event_kind kind;
	int32_t output;              /* TOKEN, END: which of the request's outputs */
	int32_t index;               /* TOKEN: its place among the tokens of the output */
	cohort_token token;          /* TOKEN; the token that ended the output is one, too */
	/* TOKEN, END: bytes that can be shown now: whole characters, nothing that may yet become a stop string. What
	 * an END brings may end within a character. Never NULL, whatever the kind. */
	const char *text;
	size_t n_bytes;
	float logprob;               /* TOKEN, with n_logprobs >= 0: of the model, before the sampler's chain */
	float chain_logprob;         /* TOKEN, with chain_logprobs: behind the chain, among what it left */
	const struct cohort_logprob *top; /* TOKEN: [n_top] likeliest tokens in its place, best first */
	int32_t n_top;
	const float *prompt_logprobs; /* PROMPT: [n_prompt]; of the first token 0 */
	const struct cohort_logprob *prompt_top; /* PROMPT: [n_prompt, n_top]; of the first token {-1, -INFINITY} */
	int32_t n_prompt;            /* PROMPT */
	const float *embedding;      /* EMBEDDING: [n_embd] */
	int32_t n_embd;
	enum cohort_finish finish;   /* END */
	const struct cohort_err *error; /* END with ERROR or TIMEOUT; otherwise NULL */
};

#define COHORT_OUTPUTS_MAX 65536   /* of a request */
#define COHORT_STOPS_MAX 64        /* stop strings of a request, and as many stop tokens */
#define COHORT_STOP_BYTES_MAX 1024 /* of a stop string */
#define COHORT_TOP_MAX 64          /* n_logprobs */

struct cohort_request_params {
	size_t struct_size;
	enum cohort_task task;
	const cohort_token *prompt;  /* [n_prompt], copied; at least one token */
	int32_t n_prompt;
	int32_t n_outputs;           /* continuations of the prompt, which share it: 1 to COHORT_OUTPUTS_MAX */
	int32_t max_tokens;          /* of each; -1: until the context is full */
	/* Output i has stream + i. The grammar may be freed once the request was submitted; its lexicon must be there
	 * until the request has ended (its DONE was told, or cohort_request_wait said so), also when the request's
	 * handle is freed before. */
	struct cohort_sampler_params sampler;
	bool ignore_eos;             /* end-of-generation tokens neither end it nor appear in the text */
	const cohort_token *stop_tokens; /* [n_stop_tokens], copied */
	int32_t n_stop_tokens;
	const char *const *stops;    /* [n_stops], copied: texts that end it and are not part of it */
	int32_t n_stops;
	bool special;                /* control tokens are part of the text */
	bool text_start;             /* the outputs begin a text (see cohort_detok_init) */
	int32_t n_logprobs;          /* -1: none; 0: of each token; n: and of the n likeliest */
	bool chain_logprobs;         /* and those behind the sampler's chain */
	bool prompt_logprobs;        /* the same for the prompt; what it begins with is then not reused */
	enum cohort_pooling pooling; /* EMBED: mean, first or last row; not none */
	int32_t priority;            /* higher ones are admitted first */
	uint64_t client;             /* whose it is: clients share alike; 0: may fill the queue */
	uint64_t session;            /* 0: none. Of its last request all tokens are kept, not only whole blocks */
	uint64_t salt;               /* only requests of the same salt share cached prompts */
	bool no_reuse;               /* computes all of its prompt, and leaves nothing for others */
	const struct cohort_adapter *adapter; /* or NULL; must outlive the engine */
	float adapter_scale;         /* -1e6 to 1e6 */
	/* Limits in seconds, 0: none. In the queue, from there to the first token, from there to the end, in all. */
	double queue_limit_s, prefill_limit_s, decode_limit_s, total_limit_s;
	/* NULL: events are asked for (cohort_request_next). Else called for each, on the engine's thread, which must
	 * not wait: it may submit, cancel, look, and free this request when it is DONE; not drain, tick or free the
	 * engine. A request that is freed before has its END and DONE as well. */
	void (*on_event)(struct cohort_request *request, const struct cohort_event *event, void *user);
	void *user;
	/* With on_event NULL, for a reader that looks only when there is something to read; or NULL. Called on the
	 * engine's thread when the first event comes since all was read: at first, and then since cohort_request_next
	 * gave NONE (the end is an event, too). Once it began, not again before that. No event is missed: one that
	 * comes after NONE was given calls it, even if the reader is not asleep yet; so who is called reads until NONE
	 * or DONE. It may find nothing, when events were read before it was done. It must not wait; it may do what
	 * on_event may (read its events here, too, if nobody else does), and come before cohort_engine_submit has
	 * returned, with *out set. None begins or is under way once cohort_request_free has returned, which waits for
	 * one that is, unless that frees it: do not hold what on_ready takes. */
	void (*on_ready)(struct cohort_request *request, void *user);
	bool ready_at_end; /* on_ready only when the request has ended: for a reader that wants all of it at once */
};
/* One output, max_tokens -1, the sampler's defaults, n_logprobs -1, pooling last, adapter_scale 1; all else 0. */
COHORT_API void cohort_request_params_init(struct cohort_request_params *params);

/* Queues a request. E_LIMIT with a rule at once when it cannot be: queue-requests and queue-tokens (expected: the most
 * there may be; got: how many there would be), queue-share (of one client; expected: what would stay free; got: what it
 * has waiting), context (expected: tokens that fit; got: tokens it could come to), slots
 * (n_outputs are more than there are slots), closed (the engine drains or stopped). E_ARG: its params; of one that is
 * outside its range the rule is its name. */
COHORT_API enum cohort_status cohort_engine_submit(struct cohort_engine *engine,
		const struct cohort_request_params *params, struct cohort_request **out, struct cohort_err *err);
/* Ends it, within one ubatch; what was sampled before stays. Of no effect on one that has ended. Any thread. */
COHORT_API void cohort_request_cancel(struct cohort_request *request);
/* Gives the handle back; cancels what has not ended. With on_ready: waits for a call of it that is under way. */
COHORT_API void cohort_request_free(struct cohort_request *request);

/* The next event; waits for up to timeout_s (below 0: as long as it takes; 0: not at all), then gives kind NONE.
 * Outputs take turns; of each the order is kept. Not for requests with on_event, nor on a manual engine with a wait. */
COHORT_API enum cohort_status cohort_request_next(struct cohort_request *request, double timeout_s,
		struct cohort_event *event, struct cohort_err *err);
/* Waits until the request has ended, and its last callback has returned; as above; *done tells. Events may still be
 * asked for. */
COHORT_API enum cohort_status cohort_request_wait(struct cohort_request *request, double timeout_s, bool *done,
		struct cohort_err *err);

/* An output that has ended, as a whole (E_ARG before). Good until the request is freed. */
struct cohort_output {
	const cohort_token *tokens; /* [n_tokens], with the one that ended it */
	int32_t n_tokens;
	const char *text;           /* [n_bytes], with a NUL behind */
	size_t n_bytes;
	const float *logprobs;      /* [n_tokens], or NULL */
	enum cohort_finish finish;
	const struct cohort_err *error; /* or NULL */
};
COHORT_API enum cohort_status cohort_request_output_get(struct cohort_request *request, int32_t i,
		struct cohort_output *output, struct cohort_err *err);

/* What a request went through. Times in seconds since it came; -1: not yet. */
struct cohort_request_stats {
	uint64_t id;           /* number of the request, from 1 */
	double queued_s;       /* it waited so long to be admitted */
	double first_token_s;  /* ... and had its first token here */
	double end_s;
	int32_t n_prompt;
	int32_t n_cached;      /* tokens of the prompt that were reused */
	int32_t n_generated;   /* of all outputs */
	int32_t n_parked;      /* times that an output was parked */
	double tokens_per_s;   /* of all outputs together, after the first; 0 when there are too few */
	enum cohort_finish finish; /* of the output that ended last; NONE: under way */
};
COHORT_API void cohort_request_stats_get(struct cohort_request *request, struct cohort_request_stats *stats);

/* ---- The engine --------------------------------------------------------------------------------- */

/* How cache room is given out: all that a request may come to need when it is admitted, or as it grows. When it then
 * runs out, the youngest slot is parked. What its rows gave is the same as if it had not been. */
enum cohort_room { COHORT_ROOM_RESERVE = 0, COHORT_ROOM_OVERCOMMIT };

/* A tick, for the callback and the snapshot. */
struct cohort_tick {
	uint64_t tick;                /* number, from 1 */
	int32_t n_decode_rows, n_prefill_rows; /* rows of generating slots, and of prompts (embeddings included) */
	int32_t n_sampled;            /* tokens */
	int32_t n_idle, n_prefilling, n_generating, n_parked; /* slots, after it */
	int32_t n_queued;             /* requests */
	int64_t n_queued_tokens;      /* of their prompts */
	int32_t n_blocks;             /* of the cache, */
	int32_t n_blocks_used, n_blocks_cached, n_blocks_free; /* used by slots, kept for prompts to come, free */
	double at_s;                  /* when it began, since the engine was opened */
	double total_s, decode_s, sample_s; /* what it took; of that decoding, and sampling */
	const char *fallback;         /* the rule that the strategy's plan broke; NULL: none */
};

/* Everything since the engine was opened. */
struct cohort_engine_stats {
	struct cohort_tick last;      /* the last tick; before the first one, idle slots and free blocks */
	uint64_t n_ticks;
	uint64_t n_submitted, n_admitted;
	uint64_t n_refused;           /* that cohort_engine_submit returned an error for, whatever it was */
	uint64_t n_ended[COHORT_FINISH_SHUTDOWN + 1]; /* requests whose readers can see it */
	uint64_t n_decode_rows, n_prefill_rows, n_sampled;
	uint64_t n_prompt_tokens, n_cached_tokens; /* of admitted requests; of those reused */
	uint64_t n_lookups, n_hits;   /* prompts looked for in the cache; those of which something was there */
	uint64_t n_evicted;           /* blocks that left the cache to make room */
	uint64_t n_parked, n_resumed, n_swapped;
	uint64_t n_fallbacks;         /* ticks planned by the default strategy because another's plan was bad */
	uint64_t n_retries;           /* decodes that failed and were tried again in parts */
	double total_s, decode_s, sample_s;
	const char *strategy;         /* name; borrowed */
	struct cohort_err fallback;   /* of the last fallback: rule, row, seq, expected, got, text */
};

struct cohort_engine_params {
	size_t struct_size;
	int32_t n_slots;              /* sequences at once */
	/* The context. n_seq_max, abort, split, pooling, output_all and n_checkpoints are the engine's own: E_ARG if
	 * they were changed. outputs must have LOGITS (EMBEDDINGS with an encoder), and EMBEDDINGS for TASK_EMBED. */
	struct cohort_context_params context;
	int32_t budget;               /* rows of a tick; 0: n_batch, which it may not exceed */
	int32_t chunk_size;           /* rows of one prompt in a tick */
	const struct cohort_strategy *strategy; /* NULL: the default; must outlive the engine */
	/* Requests that wait, and tokens of their prompts together. A client other than 0 may have no more of either
	 * waiting than it leaves free: alone half, as one of two a third. */
	int32_t queue_requests_max;
	int64_t queue_tokens_max;
	double wait_max_s;            /* who has waited longer goes before everybody else, the oldest first */
	enum cohort_room room;
	size_t swap_bytes;            /* OVERCOMMIT: memory for cells of parked slots; the rest is computed again */
	bool no_reuse;                /* nothing of a prompt is kept for others */
	bool manual;                  /* no thread: the caller calls cohort_engine_tick */
	/* Called after every tick, on the engine's thread; it must not wait. */
	void (*on_tick)(const struct cohort_tick *tick, void *user);
	void *on_tick_user;
	bool keep_tokens;             /* slots know the tokens of the last request that ended in them */
};
/* 8 slots, the context's defaults, chunk_size 512, 1024 requests and 2^20 tokens in the queue, wait_max_s 30. */
COHORT_API void cohort_engine_params_init(struct cohort_engine_params *params);

/* Opens a context of its own on the model, which must outlive the engine. E_ARG: its params; of one that is outside its
 * range the rule is its name. */
COHORT_API enum cohort_status cohort_engine_open(const struct cohort_model *model,
		const struct cohort_engine_params *params, struct cohort_engine **out, struct cohort_err *err);
/* Takes no more requests and waits until all have ended, or timeout_s have passed (below 0: as long as it takes); those
 * that are left end with SHUTDOWN. *clean tells that there were none. May be called again, and from several threads.
 * Not on a manual engine: tick until it is idle. */
COHORT_API enum cohort_status cohort_engine_drain(struct cohort_engine *engine, double timeout_s, bool *clean,
		struct cohort_err *err);
/* Stops at once: what has not ended ends with SHUTDOWN. Handles of requests stay good and are to be freed, before the
 * model, from whose vocabulary their text is made as it is read; no other call may be under way on the engine. */
COHORT_API void cohort_engine_free(struct cohort_engine *engine);
/* One tick of a manual engine, by one thread at a time. *idle tells that there is nothing left to do. */
COHORT_API enum cohort_status cohort_engine_tick(struct cohort_engine *engine, bool *idle, struct cohort_err *err);
/* Another strategy, from the next tick on (NULL: the default). The one before is in use until the engine's stats name
 * the other. */
COHORT_API enum cohort_status cohort_engine_strategy_set(struct cohort_engine *engine,
		const struct cohort_strategy *strategy, struct cohort_err *err);
/* Forgets cached prompts and sessions that nobody uses at the moment. */
COHORT_API void cohort_engine_cache_clear(struct cohort_engine *engine);

/* ---- Cached prompts in and out ---- */

/* Which cached prompt: what the requests that share it agree in. Zeroes are a request's defaults. */
struct cohort_cache_key {
	const cohort_token *tokens; /* [n_tokens] */
	int32_t n_tokens;
	uint64_t salt;
	uint64_t session;           /* 0: none. With one, what it keeps behind the last whole block belongs to it */
	const struct cohort_adapter *adapter; /* or NULL */
	float adapter_scale;
};
/* These are carried out between two ticks, which the caller waits for, not by callbacks (E_ARG): on a manual engine by
 * the caller itself, when no tick is under way. Each is one piece of work of a tick's length or so; no files are read
 * or written. What fails changed nothing, but that cached prompts that nobody uses may have made room. */

/* What is in the cache of the longest beginning of these tokens, as bytes (docs/state-format.md: the tokens, and a
 * saved state of cohort.h). *n_saved tokens are in them: whole blocks, and what the session keeps behind them. It can
 * be saved while requests use it. *n_saved 0, *bytes NULL: nothing is there. E_UNSUPPORTED: with an adapter. */
COHORT_API enum cohort_status cohort_engine_cache_save(struct cohort_engine *engine, const struct cohort_cache_key *key,
		void **bytes, size_t *n_bytes, int32_t *n_saved, struct cohort_err *err);
COHORT_API void cohort_cache_free(void *bytes);
/* Puts what was saved into the cache, for requests with the key's salt and session (its tokens do not count), as if it
 * had just been computed there: what these say is the same bits. *n_tokens of it are there then; those that fill no
 * block only with a session, whose own they replace. The bytes are checked as cohort_state_restore checks them:
 * E_FORMAT, E_UNSUPPORTED (another version, model or cache type). NO_ROOM: what is in use leaves too little. E_LIMIT
 * with rule context: more tokens than a sequence of this engine can have. No check can tell whether the cells are those
 * that the tokens have: bytes from somebody whom you do not trust belong under a salt of his own. */
COHORT_API enum cohort_status cohort_engine_cache_load(struct cohort_engine *engine, const struct cohort_cache_key *key,
		const void *bytes, size_t n_bytes, int32_t *n_tokens, struct cohort_err *err);
/* Forgets what is cached of these tokens, from their end back to what somebody uses, or goes on from another way.
 * *n_tokens (may be NULL) are gone. */
COHORT_API enum cohort_status cohort_engine_cache_drop(struct cohort_engine *engine, const struct cohort_cache_key *key,
		int32_t *n_tokens, struct cohort_err *err);
/* The key of what a slot has computed, or, with keep_tokens, of the last request that ended in it: tokens of the prompt
 * and those sampled, into tokens[0 .. n_max). key->tokens is `tokens`; n_tokens 0: none. E_LIMIT (got: how many) when
 * there are more than n_max. */
COHORT_API enum cohort_status cohort_engine_slot_tokens(struct cohort_engine *engine, cohort_seq slot,
		cohort_token *tokens, size_t n_max, struct cohort_cache_key *key, struct cohort_err *err);

/* As they are after the last tick. */
COHORT_API void cohort_engine_stats_get(struct cohort_engine *engine, struct cohort_engine_stats *stats);
/* A slot, for looking. */
struct cohort_slot_info {
	cohort_seq id;
	enum cohort_slot_state state;
	uint64_t request;      /* its number; 0: idle */
	int32_t output;        /* which of its outputs */
	int32_t n_prompt, n_cached, n_generated; /* tokens; n_cached: in the cache */
	int32_t n_blocks;      /* that it holds, shared ones included */
	int32_t priority;
	uint64_t client, session;
	double age_s;
};
/* The slots, after the tick that is under way, into slots[0 .. n_max); returns how many there are. Of a manual engine:
 * not while it ticks. */
COHORT_API size_t cohort_engine_slots_get(struct cohort_engine *engine, struct cohort_slot_info *slots, size_t n_max);

/* ---- Simulation --------------------------------------------------------------------------------- */

/* The engine's queue, admission, strategies, parking and reuse of prompts under a clock that a cost function moves: no
 * model, no context, the same code otherwise. docs/simulate.md has the whole of it. */

/* A request of a trace. Its prompt is tokens that nobody else has, but for the first n_shared: these are the same for
 * all of its group. */
struct cohort_sim_request {
	double arrival_s;          /* since the start; not before that of the request in front of it */
	int32_t n_prompt, n_output; /* tokens, at least 1 each; it ends when it has n_output of them */
	uint64_t client;
	int32_t priority;
	uint64_t group;
	int32_t n_shared;          /* 0 to n_prompt */
};

struct cohort_sim_params {
	size_t struct_size;
	/* As in struct cohort_engine_params and its context. */
	int32_t n_slots, n_ctx, n_batch, n_ubatch, budget, chunk_size;
	int32_t n_pos_max;            /* tokens that a sequence can have; 0: what the cache holds */
	const struct cohort_strategy *strategy;
	int32_t queue_requests_max;
	int64_t queue_tokens_max;
	double wait_max_s;
	enum cohort_room room;        /* what is parked is computed again: nothing is swapped */
	bool no_reuse;
	/* Seconds that a ubatch of these rows takes: finite, not below 0, and the clock stays finite with it. Must be
	 * given. A row counts as a decode row when its slot generates. */
	double (*cost_s)(void *user, int32_t n_prefill_rows, int32_t n_decode_rows);
	void *cost_user;
	/* Called after every tick; times are those of the simulation. */
	void (*on_tick)(const struct cohort_tick *tick, void *user);
	void *on_tick_user;
	/* Asked after every tick; true ends the simulation with ABORTED. */
	bool (*abort)(void *user);
	void *abort_user;
};
/* As cohort_engine_params_init; no strategy, no callbacks. */
COHORT_API void cohort_sim_params_init(struct cohort_sim_params *params);

/* What became of a request. Times in seconds since it came, as its client sees them: tokens are there when the tick is
 * over. -1: that never was. */
struct cohort_sim_outcome {
	enum cohort_finish finish; /* LENGTH; SHUTDOWN: under way when it was ended; NONE: refused, or to come */
	bool refused;
	double queued_s, first_token_s, end_s;
	double gap_max_s;          /* the longest between two of its tokens */
	int32_t n_generated, n_cached, n_parked;
};

#define COHORT_SIM_BINS 2369 /* bin 0: below 2^-20 s; then 64 for every doubling up to 2^17 s, and what is above */

struct cohort_sim_totals {
	double now_s;              /* of the simulated clock: in the end, when the last request ended */
	double busy_s;             /* of it, decoding */
	double real_s;             /* that the ticks took on this machine */
	uint64_t n_ticks, n_ubatches;
	uint64_t n_prefill_rows, n_decode_rows;
	uint64_t n_tokens;         /* sampled */
	uint64_t n_done, n_refused; /* requests */
	uint64_t n_parked;
	uint64_t n_prompt_tokens, n_cached_tokens; /* of admitted requests; of those reused */
	uint64_t n_fallbacks;
	int32_t n_queued_max;      /* requests that waited at once */
	uint64_t gaps[COHORT_SIM_BINS]; /* times between a token and the next one of its request, by length */
	double gap_max_s;
};
/* The middle of a bin, in seconds; 0 of the first. */
COHORT_API double cohort_sim_bin_s(int32_t bin);

/* Runs a trace until all requests have ended. outcomes[i] is that of requests[i]; totals are up to date whenever a
 * callback is called. E_ARG: params, a request (row says which), arrivals that fall, a cost that is no such; ABORTED;
 * E_MEMORY. What there is of outcomes and totals is good after a failure, too. */
COHORT_API enum cohort_status cohort_simulate(const struct cohort_sim_params *params,
		const struct cohort_sim_request *requests, size_t n_requests, struct cohort_sim_outcome *outcomes,
		struct cohort_sim_totals *totals, struct cohort_err *err);

#ifdef __cplusplus
}
#endif
#endif
