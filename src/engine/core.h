/* The engine without its thread: requests, their streams, slots and ticks, over a machine that computes.
 *
 * The machine is a context, or a simulation with a clock of its own: the same code admits, plans and parks in both.
 * Everything here belongs to the thread that ticks, but for what a comment says is under the hub's lock. */
#ifndef ENGINE_CORE_H
#define ENGINE_CORE_H

#include "cohort_engine.h"

#include "base/err.h"
#include "base/lock.h"
#include "base/thread.h"
#include "engine/prefix.h"
#include "engine/queue.h"
#include "engine/text.h"

#include <stdatomic.h>

struct core;

/* How far ahead a walk over streams fetches what it will see. */
enum { AHEAD = 8 };

/* ---- The machine ---- */

struct machine {
	void *self;
	double (*now)(void *self); /* seconds */
	/* Rows of one ubatch at most, all or nothing. Outputs are good until the next call. */
	enum cohort_status (*decode)(void *self, const struct cohort_batch_raw *rows, struct cohort_err *err);
	/* Whole sequences without a cache. */
	enum cohort_status (*encode)(void *self, const struct cohort_batch_raw *rows, struct cohort_err *err);
	const float *(*logits)(void *self, int32_t row);    /* may be NULL in a simulation */
	/* In a simulation, where there is no sampler: the token after a row with these logits. NULL: token 0. */
	cohort_token (*pick)(void *self, const float *logits, int32_t output);
	const float *(*embedding)(void *self, int32_t row);
	enum cohort_status (*seq_cp)(void *self, cohort_seq src, cohort_seq dst, cohort_pos p0, cohort_pos p1,
			struct cohort_err *err);
	enum cohort_status (*seq_rm)(void *self, cohort_seq seq, cohort_pos p0, cohort_pos p1, struct cohort_err *err);
	enum cohort_status (*adapter_set)(void *self, cohort_seq seq, const struct cohort_adapter *adapter, float scale,
			struct cohort_err *err);
	/* Whether the sequence has positions 0 to n - 1, every one of them. */
	bool (*seq_is_whole)(void *self, cohort_seq seq, int32_t n);
	size_t (*state_size)(void *self, cohort_seq seq); /* 0: cannot be saved */
	enum cohort_status (*state_save)(void *self, cohort_seq seq, void *out, size_t n_max, struct cohort_err *err);
	enum cohort_status (*state_restore)(void *self, cohort_seq seq, const void *bytes, size_t n,
			struct cohort_err *err);
};

struct core_limits {
	const struct cohort_model *model; /* NULL in a simulation */
	int32_t n_vocab, n_embd;
	int32_t n_slots, n_ubatch, budget, chunk_size;
	int32_t block_size, n_blocks; /* of the cache: a power of two; 0 blocks: it is never full (states, encoders) */
	int32_t n_pos_max;            /* tokens that a sequence can have */
	int32_t n_ids;                /* sequence ids n_slots .. n_slots + n_ids - 1 are for cached prompts; 0: none */
	cohort_seq scratch;           /* an id that is nobody's, for cells on their way in and out; 0: none */
	bool keep_tokens;             /* of the last request of each slot */
	int32_t n_window;             /* the narrowest window whose cells are to be shared; 0: none is */
	bool recurrent;               /* a cached prompt is the state at its end */
	bool encoder;
	bool logits, embeddings;      /* what rows can give */
	bool text;                    /* tokens have texts */
	bool overcommit;
	size_t swap_bytes;
	int32_t queue_requests_max;
	int64_t queue_tokens_max;
	double wait_max_s;
};

/* ---- Requests ---- */

/* The lock, and what outlives the engine as long as there are handles. */
struct hub {
	struct lock lock;
	atomic_int n_refs;
	struct stream_slab *slabs; /* under the lock */
	struct stream *spare;      /* under the lock: those that nobody has, by next_changed */
	atomic_uint n_cancels; /* requests cancelled so far: who waits in the queue is looked at when it changes */
};
struct hub *hub_open(void); /* NULL when out of memory; one reference */
void hub_unref(struct hub *h);
struct stream;
/* Zeroed streams of a request, and back. NULL when out of memory. Both take the lock. */
struct stream *hub_take_streams(struct hub *h, int32_t n);
void hub_give_streams(struct hub *h, struct stream *streams, int32_t n);

enum stream_phase {
	STREAM_QUEUED = 0,
	STREAM_WAITS,     /* has a slot. The request's first stream computes the prompt for all; if this is the first,
			   * another request's stream is about to compute what its prompt begins with */
	STREAM_PREFILLS,
	STREAM_GENERATES,
	STREAM_PARKED,
	STREAM_ENDED
};

struct stream_rest;
/* One output of a request: what every tick touches, in two cache lines of which planning and computing need the first.
 * Streams lie together (hub.c), so that a thousand of them are a few pages and not a thousand. */
struct stream {
	struct cohort_request *request;
	/* The prompt and what was sampled. Rows n_cached .. n_known - 1 are to be computed; the last one's logits give
	 * the next token. A generating stream has one such row: its pending token. */
	cohort_token *known;      /* [n_prompt + n_max] */
	int32_t n_known, n_cached;
	int32_t n_prompt, n_max;  /* the request's */
	cohort_token last;        /* the last token sampled */
	enum stream_phase phase;
	cohort_seq slot;          /* -1: none */
	int32_t index;
	bool every_row;           /* the request's */
	bool alone;               /* the request has no other */
	bool called;              /* the request has a callback */
	bool has_stops;           /* ... and stop tokens */
	bool has_text;            /* the model has a tokeniser */
	bool makes_text;          /* on the thread that ticks: for stop strings, or a callback */
	bool has_logprobs;        /* of every token */
	bool changed;
	bool fresh;               /* a token was sampled in this tick */
	bool news;                /* something else happened to it */
	bool in_front;            /* run.c's: while a piece is halved */
	bool sharable;            /* the request lets others have its blocks */
	bool chain_over;          /* the next block could not be shared */
	bool shares;              /* the whole blocks of the prompt are counted in the request */
	bool limited;             /* in time: the request's */
	bool watched;             /* under the lock: a reader waits, or wants notices */

	struct stream_rest *rest;
	struct stream *next_changed;
	struct cohort_sampler *sampler; /* NULL in a simulation: the machine picks */
	uint64_t client;
	double at_came;
	int32_t priority;
	int32_t n_counted;        /* cells when its blocks were last counted */
	int32_t n_told;           /* under the lock: tokens that readers know of */
	int32_t n_unserved;       /* of these: tokens that the queue does not know of */
	/* Blocks: n_chain of the first ones belong to cached prompts, down to `node`; the rest is private. */
	int32_t node, n_chain;
};
_Static_assert(sizeof(struct stream) == 128, "two cache lines");

/* What is touched now and then. */
struct stream_rest {
	uint64_t hash;            /* of the chain */
	uint64_t next_hash;       /* with one block more, if that is n_next: what a stream knows never changes */
	int32_t n_next;
	uint64_t turn;            /* when it was admitted: the highest number is the youngest */
	int32_t n_private, n_reserved; /* blocks */
	cohort_seq leader;        /* of a first stream that waits: the slot that computes its blocks up to n_awaited */
	int32_t n_awaited;
	int32_t n_served;         /* rows of the prompt that the queue knows of */
	int32_t fork_at;          /* states: where its tokens leave those of others, in whole blocks; 0: nowhere */
	uint32_t *shown;          /* [n_max]: bytes of text that may be shown after each token whose text was made */
	void *swap;               /* saved cells of a parked one, or NULL */
	size_t n_swap;

	struct text text;         /* made by the thread that ticks (makes_text), or by the reader */
	float *logprobs;            /* [n_max], or NULL */
	float *chain_logprobs;      /* [n_max], or NULL */
	struct cohort_logprob *top; /* [n_max, n_top], or NULL */
	enum cohort_finish ending;  /* how it ended, once phase is ENDED */
	struct cohort_err ending_err;

	enum cohort_finish finish;  /* under the lock: the same, once that was told */
	/* The reader's own, or the callback's. */
	int32_t n_made;             /* tokens whose text the reader made */
	int32_t n_read;             /* tokens, and bytes of text, that events were given for */
	size_t n_given;
	bool end_read;
};

/* What every tick touches comes first. */
struct cohort_request {
	struct queue_item item; /* under the lock, as the queue is */
	const struct cohort_model *model; /* NULL in a simulation */
	atomic_int n_refs;      /* the user's and the engine's */
	atomic_bool cancelled;
	atomic_bool over;       /* all its streams have ended: nothing is left to cancel */
	bool every_row;         /* not only the last row counts: prompt_logprobs, an embedding, nothing to generate */
	bool forked;            /* its streams have begun */
	bool prompt_changed;    /* prompt_logprobs or embedding are there */
	double at_came, at_admitted, at_first, at_end; /* -1: not yet */
	float *prompt_logprobs;
	float *embedding;       /* [n_embd] */
	struct cohort_request_params p; /* arrays are copies, or NULL where streams have them */
	struct hub *hub;
	uint64_t id;
	int32_t n_max;          /* tokens of an output at most */
	int32_t n_top;          /* of each token */
	/* These, up to the next comment, lie behind the request in one piece with it. */
	struct stream_rest *rests; /* of each stream */
	cohort_token *known;    /* the streams' */
	uint32_t *shown;        /* the streams' */
	cohort_token *stop_tokens;
	uint64_t *hashes;       /* [n_prompt / block_size] of the prompt's blocks */
	/* These do not. */
	struct stops *stops;
	struct prefix_root root;
	struct stream *streams; /* [p.n_outputs] */
	int32_t n_live;         /* that have not ended */
	int32_t n_ends_told;
	int32_t n_untold;       /* whose end was not called back with */
	int32_t n_sharing;      /* streams that hold the prompt's whole blocks */
	int32_t n_private, n_reserved; /* of the prompt's whole blocks, when streams share them */
	struct cohort_logprob *prompt_top;
	int32_t n_embd;
	int32_t n_cached_prompt, n_parks;

	/* Under the lock. */
	struct cond told;
	int32_t n_generated;    /* tokens of all outputs; of those under way, as many as the queue knows of */
	struct cohort_request_stats stats;
	bool prompt_told, done;
	int32_t n_waiting;      /* threads that wait for `told` */
	bool noticed;           /* a notice came, or will, since all was read */
	/* Of notice.c, whose head tells who turns it. */
	atomic_int notice;
	struct thread caller;
	struct cohort_request *next_noticed;
	/* The reader's own. */
	bool prompt_read, done_read;
	int32_t i_reader;       /* whose turn it is */
};

/* Whether there is all that the first version of the struct had: fields are only appended, so a strategy of an older
 * header is as long as that was. */
static inline bool strategy_is_whole(const struct cohort_strategy *s)
{
	return s->struct_size >= offsetof(struct cohort_strategy, build_batch) + sizeof s->build_batch && s->name &&
			s->build_batch;
}

/* Checks and copies. The handle has two references: the user's and the engine's. */
enum cohort_status request_open(const struct core *c, const struct cohort_request_params *params,
		struct cohort_request **out, struct cohort_err *err);
/* What can be said of params without looking at tokens: cheap, before anything else. */
enum cohort_status request_check(const struct core *c, const struct cohort_request_params *params,
		struct cohort_err *err);
void request_unref(struct cohort_request *r);
bool request_has_stop(const struct cohort_request *r, cohort_token token);
/* Whether there is a stream, with rows to compute. */
static inline bool stream_is_active(const struct stream *s)
{
	return s && (s->phase == STREAM_PREFILLS || s->phase == STREAM_GENERATES);
}
/* Tokens of an output so far. */
static inline int32_t stream_n_generated(const struct stream *s)
{
	return s->n_known - s->n_prompt;
}

/* ---- The core ---- */

/* A ubatch's worth of rows, and whose they are. [n_ubatch] each. */
struct piece {
	cohort_token *tokens;
	cohort_pos *pos;
	cohort_seq *seq;
	uint8_t *output;
	struct stream **of;
	int32_t n;
};

/* Whose tokens a slot had last. */
struct slot_kept {
	int32_t n; /* tokens */
	struct prefix_root root;
	uint64_t session;
};

/* Places for entries after the budget: a strategy that writes too many breaks a rule, not other memory. */
enum { ENTRIES_BEYOND = 4096 };

struct core {
	struct core_limits lim;
	struct machine m;
	int32_t block_shift;            /* of block_size */
	struct hub *hub;
	struct queue *queue;            /* under the lock */
	struct prefix *prefix;          /* NULL: nothing is reused */
	uint64_t n_requests;            /* under the lock: numbers */
	uint64_t n_open;                /* under the lock: requests whose end was not told */

	const struct cohort_strategy *strategy;
	void *state;                    /* of the strategy */
	void *default_state;
	const struct cohort_strategy *next_strategy; /* under the lock; with its state: takes over at the next tick */
	void *next_state;
	bool clear_cache;               /* under the lock: asked for */
	bool closed;                    /* under the lock: no more requests */
	uint64_t n_submitted;           /* under the lock */
	uint64_t n_refused;             /* under the lock: counted by who submits */
	double next_expiry;             /* under the lock: nobody in the queue is too late before */
	unsigned n_cancels_seen, n_cancels_ended; /* in the queue, in slots */
	int32_t n_limited;              /* slots whose requests have limits in time */
	double opened_s;

	struct slot_kept *kept;         /* [n_slots]; NULL: they are not kept */
	cohort_token *kept_tokens;      /* [n_slots, n_pos_max] */
	struct stream **slots;          /* [n_slots + AHEAD]; NULL: idle */
	cohort_seq *idle;               /* [n_idle]: a stack */
	int32_t n_idle;
	uint64_t n_turns;
	int64_t n_in[STREAM_ENDED + 1]; /* slots by their streams' phase; those without one are not */
	size_t swap_used;

	/* Blocks. n_private: held by slots and not part of cached prompts; n_reserved: promised to them (at least what
	 * they hold). Together with what the prefix index holds and has pinned they never exceed n_blocks. */
	int32_t n_private, n_reserved;
	int32_t n_outstanding;          /* during admission: for what those under way know already */

	/* Of a tick. */
	struct cohort_slot *views;      /* [n_slots] */
	int32_t n_views;
	struct stream **active;         /* [n_slots + AHEAD]: of each view */
	int32_t *view_of;               /* [n_slots]: a slot's place among views; -1: none */
	int32_t *taken;                 /* [n_slots]: rows that a view's slot has in the plan */
	int32_t n_growth;               /* blocks that these take */
	bool lost;                      /* some of these were set to 0 since: the slot's rows are not to be computed */
	struct cohort_entry *entries;   /* [budget + ENTRIES_BEYOND], and a page that faults */
	int32_t n_entries;
	struct piece piece, spare;
	struct stream **grown;          /* [n_ubatch]: those of a piece that began or filled a block */
	int32_t *path;                  /* [n_pos_max / block_size + 1]: nodes of a chain */
	struct stream *changed, **last_changed;
	struct cohort_request *noticed; /* whose notices are due, by next_noticed */
	struct cohort_tick tick;
	atomic_bool stop;               /* asks the machine to give up */
	struct cohort_engine_stats live; /* n_ended is counted under the lock */

	/* Under the lock. */
	struct cohort_engine_stats stats;
	struct cohort_slot_info *infos; /* [n_slots], as they were when somebody last asked */
	bool infos_asked;
	uint64_t n_infos;               /* times that they were looked at */
	struct cond looked;
	void (*on_tick)(const struct cohort_tick *tick, void *user);
	void *on_tick_user;
};

enum cohort_status core_init(struct core *c, const struct core_limits *lim, const struct machine *m,
		const struct cohort_strategy *strategy, struct cohort_err *err);
void core_release(struct core *c);
/* Whether the queue takes another prompt of n tokens. Takes the lock. */
enum cohort_status core_may_submit(struct core *c, uint64_t client, int32_t n_tokens, struct cohort_err *err);
/* Queues a request that request_open made, or refuses it (the request is then the caller's alone). Takes the lock. */
enum cohort_status core_submit(struct core *c, struct cohort_request *r, struct cohort_err *err);
/* One tick. False: there was nothing to do. Takes the lock now and then. */
bool core_tick(struct core *c);
/* Whether there are requests that have not ended. Under the lock. */
bool core_is_idle(const struct core *c);
/* Ends everything with SHUTDOWN. */
void core_shut(struct core *c);
/* Another strategy from the next tick on. Takes the lock. */
enum cohort_status core_strategy_set(struct core *c, const struct cohort_strategy *strategy, struct cohort_err *err);

/* ---- answer.c: what a strategy said ---- */

/* Fills c->taken. */
enum cohort_status answer_check(struct core *c, const struct cohort_plan *plan, enum cohort_status said,
		struct cohort_err *err);

/* ---- room.c: who gets a slot and blocks ---- */

/* Resumes parked streams and admits requests as there is room. Takes the lock now and then. */
void room_admit(struct core *c);
/* Blocks that the next n_rows of a stream take. */
int32_t room_growth_of(const struct core *c, const struct stream *s, int32_t n_rows);
static inline int32_t room_growth(const struct core *c, const struct stream *s, int32_t n_rows)
{
	/* Mostly it is one row within a block, behind the prompt. */
	if (n_rows <= 1 && (s->n_cached & (c->lim.block_size - 1)) && s->n_cached >= s->n_prompt)
		return 0;
	return room_growth_of(c, s, n_rows);
}
/* Makes room for the rows that c->taken plans; parks streams if it must (their rows are not to be computed). */
void room_make(struct core *c);
/* Whether what the stream computes is kept for others. */
bool room_shares(const struct core *c, const struct stream *s);
/* Rows of the stream were computed: its whole blocks are kept for others, and counted. */
void room_grow(struct core *c, struct stream *s);
/* That will follow soon: begins to fetch what it looks at. */
void room_expect(const struct core *c, struct stream *s);
/* Whether that has anything to do when n cells are reached: a block was filled, or begun. */
static inline bool room_turns(const struct core *c, int32_t n)
{
	return (n & (c->lim.block_size - 1)) <= 1;
}
/* Whether a stream waits for the state of t at a position after n_cached, up to pos. */
bool room_is_awaited(const struct core *c, const struct stream *t, int32_t n_cached, int32_t pos);
/* The other streams of a request begin where its first one is. */
void room_fork(struct core *c, struct stream *first);
void room_park(struct core *c, struct stream *s);
/* Gives slot and blocks back. */
void room_leave(struct core *c, struct stream *s);
/* Streams that have begun may be more than there is room for: the youngest are parked. */
void room_settle(struct core *c);
/* Empties the cache of all that nobody uses; false: there was nothing. */
bool room_clear(struct core *c);
/* The same because somebody asked for it: not counted as evictions. */
void room_empty(struct core *c);

/* Lets go of the cached block that was not used for longest; false: all are in use. */
bool room_evict(struct core *c);
/* Blocks that are neither promised nor in use for good, those of cached prompts that nobody uses included. */
int32_t room_spare(const struct core *c);
/* Evicts until n blocks are free, or nothing is left to evict. */
void room_free(struct core *c, int32_t n);

/* ---- cache.c: cached prompts as bytes ---- */

/* The public calls, on the thread that ticks. Parts of the bytes: see cache_read. */
struct cache_part {
	const uint8_t *tokens; /* [n_tokens, 4] */
	int32_t n_tokens;
	const uint8_t *state;
	size_t n_state;
};
/* Looks at everything but the state. Any thread. */
enum cohort_status cache_read(const struct core *c, const void *bytes, size_t n_bytes, struct cache_part *part,
		struct cohort_err *err);
enum cohort_status cache_save(struct core *c, const struct cohort_cache_key *key, void **bytes, size_t *n_bytes,
		int32_t *n_saved, struct cohort_err *err);
/* key->tokens are those of the part. */
enum cohort_status cache_load(struct core *c, const struct cohort_cache_key *key, const struct cache_part *part,
		int32_t *n_tokens, struct cohort_err *err);
int32_t cache_drop(struct core *c, const struct cohort_cache_key *key);
/* A stream leaves its slot. */
void cache_keep_tokens(struct core *c, const struct stream *s);
enum cohort_status cache_slot(struct core *c, cohort_seq slot, cohort_token *tokens, size_t n_max,
		struct cohort_cache_key *key, struct cohort_err *err);

/* ---- engine.c: errands ---- */

/* Has fn done by the thread that ticks, between two ticks, and waits for it. E_ARG: the caller is that thread. */
enum cohort_status engine_run(struct cohort_engine *e, void (*fn)(struct core *c, void *arg), void *arg,
		struct cohort_err *err);
const struct core *engine_core(const struct cohort_engine *e);

/* ---- run.c: the planned rows through the machine ---- */

void run_entries(struct core *c);

/* ---- notice.c: telling readers that there is something to read ---- */

/* The request, which has an on_ready, has something to read. Under the lock, while the tick tells. */
void notice_due(struct core *c, struct cohort_request *r);
/* Calls all that are due. */
void notice_call(struct core *c);
/* All of it was read. Under the lock. */
void notice_read(struct cohort_request *r);
/* None follows; waits for one that is under way. */
void notice_stop(struct cohort_request *r);

/* ---- deliver.c: telling readers, and calling back ---- */

/* The next event of this kind, of a stream that has told it (of its request: any stream). It then was read. */
void event_take(struct stream *s, enum cohort_event_kind kind, struct cohort_event *e);
/* Tells readers of all that changed, and calls back. Takes the lock. */
void core_deliver(struct core *c);

/* ---- stream.c: what a stream says, and how it ends ---- */

/* Samples the next token from the stream's last row. */
void stream_sample(struct core *c, struct stream *s, const float *logits);
void stream_end(struct core *c, struct stream *s, enum cohort_finish finish, const struct cohort_err *err);
/* All streams of the request that have not ended. Whatever is in the queue must be taken out by the caller. */
void request_end(struct core *c, struct cohort_request *r, enum cohort_finish finish, const struct cohort_err *err);
/* It changed, and is to be told of: a token, or something else. */
void stream_mark(struct core *c, struct stream *s);
static inline void stream_news(struct core *c, struct stream *s)
{
	s->news = true;
	stream_mark(c, s);
}
/* The tick's numbers, and those of all so far but for n_ended, which deliver.c counts. Under the lock. */
void core_sum_up(struct core *c);
/* How many blocks are used, cached and free, after something other than a tick. Under the lock. */
void core_count_blocks(struct core *c);
/* What the slots are like now. */
void core_look(struct core *c);
/* Every change of a phase goes through here. */
static inline void stream_enter(struct core *c, struct stream *s, enum stream_phase phase)
{
	if (s->phase == phase)
		return;
	c->n_in[s->phase]--;
	c->n_in[phase]++;
	s->phase = phase;
}

#endif
