/* The engine without its thread: slots and ticks, over a machine that computes. Everything here belongs to the thread
 * that ticks, but for what is under the hub's lock. */
#ifndef ENGINE_CORE_H
#define ENGINE_CORE_H

#include "engine/machine.h"
#include "engine/request.h"

/* How far ahead a walk over streams fetches what it will see. */
enum { AHEAD = 8 };
/* Places for entries after the budget: a strategy that writes too many breaks a rule, not other memory. */
enum { ENTRIES_BEYOND = 4096 };

struct core_limits {
	const struct cohort_model *model; /* NULL in a simulation */
	int32_t n_vocab, n_embd;
	int32_t n_slots, n_ubatch, budget, chunk_size;
	int32_t block_size, n_blocks; /* of the cache: a power of two; 0 blocks: it is never full (states, encoders) */
	int32_t n_pos_max;            /* tokens that a sequence can have */
	int32_t n_ids;                /* sequence ids n_slots .. n_slots + n_ids - 1 are for cached prompts; 0: none */
	cohort_seq scratch;           /* an id of no slot or block, for cells on their way in and out; 0: none */
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

/* A ubatch's worth of rows, and the stream of each. [n_ubatch] each. */
struct piece {
	cohort_token *tokens;
	cohort_pos *pos;
	cohort_seq *seq;
	uint8_t *output;
	struct stream **of;
	int32_t n;
};

/* The tokens that a slot had last. */
struct slot_kept {
	int32_t n; /* tokens */
	struct prefix_root root;
	uint64_t session;
};

/* The strategy that plans, and the state of the default one. */
struct tick_planner {
	const struct cohort_strategy *strategy;
	void *state, *default_state;
};

/* Blocks. n_private: held by slots and not part of cached prompts; n_reserved: promised to them (at least what they
 * hold). Together with what the prefix index holds and has pinned they never exceed n_blocks. */
struct block_counts {
	int32_t n_private, n_reserved;
	int32_t n_outstanding; /* during admission: for what those under way know already */
	size_t swap_used;      /* bytes */
};

/* What a tick is to compute. */
struct tick_plan {
	struct cohort_slot *views;    /* [n_slots] */
	int32_t n_views;
	struct stream **active;       /* [n_slots + AHEAD]: of each view */
	int32_t *view_of;             /* [n_slots]: a slot's place among views; -1: none */
	int32_t *taken;               /* [n_slots]: rows that a view's slot has in the plan */
	int32_t n_growth;             /* blocks that these take */
	bool lost;                    /* some of these were set to 0 since: the slot's rows are not to be computed */
	struct cohort_entry *entries; /* [budget + ENTRIES_BEYOND], and a page that faults */
	int32_t n_entries;
};

/* Under the lock. */
struct core_shared {
	struct queue *queue;
	uint64_t n_requests;    /* numbers */
	uint64_t n_open;        /* requests whose end was not told */
	uint64_t n_submitted, n_refused;
	double next_expiry;     /* no request in the queue is too late before */
	const struct cohort_strategy *next_strategy; /* with its state: takes over at the next tick */
	void *next_state;
	bool clear_cache;       /* asked for */
	bool closed;            /* no more requests */
	struct cohort_engine_stats stats;
	struct cohort_slot_info *infos; /* [n_slots], as they were when they were last asked for */
	bool infos_asked;
	uint64_t n_infos;       /* times that they were looked at */
	struct cond looked;
};

struct core {
	struct core_limits lim;
	struct machine m;
	const struct policy *policy; /* of the kind of model */
	int32_t block_shift;         /* of block_size */
	struct hub *hub;
	struct prefix *prefix;       /* NULL: nothing is reused */
	struct tick_planner planner;
	struct block_counts blocks;
	struct core_shared shared;
	double opened_s;
	atomic_bool stop;            /* asks the machine to give up */
	void (*on_tick)(const struct cohort_tick *tick, void *user);
	void *on_tick_user;

	/* Slots. */
	struct stream **slots;       /* [n_slots + AHEAD]; NULL: idle */
	cohort_seq *idle;            /* [n_idle]: a stack */
	int32_t n_idle;
	uint64_t n_turns;
	int64_t n_in[STREAM_ENDED + 1]; /* slots by their streams' phase; those without one are not */
	int32_t n_limited;           /* slots whose requests have limits in time */
	unsigned n_cancels_seen, n_cancels_ended; /* in the queue, in slots */
	struct slot_kept *kept;      /* [n_slots]; NULL: they are not kept */
	cohort_token *kept_tokens;   /* [n_slots, n_pos_max] */

	/* Of a tick. */
	struct tick_plan plan;
	struct piece piece, spare;
	struct stream **grown;       /* [n_ubatch]: those of a piece that began or filled a block */
	int32_t *path;               /* [n_pos_max / block_size + 1]: nodes of a chain */
	struct stream *changed, **last_changed;
	struct cohort_request *noticed; /* whose notices are due, by next_noticed */
	struct cohort_tick tick;
	struct cohort_engine_stats live; /* n_ended is counted under the lock */
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
/* The tick's numbers, and those of all so far but for n_ended, which deliver.c counts. Under the lock. */
void core_sum_up(struct core *c);
/* How many blocks are used, cached and free, after something other than a tick. Under the lock. */
void core_count_blocks(struct core *c);
/* What the slots are like now. Under the lock. */
void core_look(struct core *c);

/* Parts of a tick: whether what a strategy said may be done, which fills c->plan.taken (answer.c); its rows, of which
 * an encoder's are computed as whole texts (run.c). */
enum cohort_status answer_check(struct core *c, const struct cohort_plan *plan, enum cohort_status said,
		struct cohort_err *err);
void run_entries(struct core *c);
void run_texts(struct core *c);

/* Whether there is all that the first version of the struct had: fields are only appended, so a strategy of an older
 * header is as long as that was. */
static inline bool strategy_is_whole(const struct cohort_strategy *s)
{
	return s->struct_size >= offsetof(struct cohort_strategy, build_batch) + sizeof s->build_batch && s->name &&
			s->build_batch;
}
static inline int32_t core_node_seq(const struct core *c, int32_t node)
{
	return prefix_node_get(c->prefix, node)->seq;
}
/* Empties a sequence; -1: none. */
static inline void core_empty(struct core *c, cohort_seq seq)
{
	if (seq >= 0)
		c->m.seq_rm(c->m.self, seq, 0, -1, NULL);
}

#endif
