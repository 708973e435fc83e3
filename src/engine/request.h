/* A request and its outputs, which are streams.
 *
 * A stream knows tokens, of which the first n_cached are in the cache; what is missing is to be computed, and the last
 * row's logits give the next token. Everything belongs to the thread that ticks, but for what a comment says is under
 * the hub's lock, or the reader's. */
#ifndef ENGINE_REQUEST_H
#define ENGINE_REQUEST_H

#include "cohort_engine.h"

#include "base/err.h"
#include "base/thread.h"
#include "engine/hub.h"
#include "engine/prefix.h"
#include "engine/queue.h"
#include "engine/text.h"

struct core;
struct stream_rest;

enum stream_phase {
	STREAM_QUEUED = 0,
	STREAM_WAITS,     /* has a slot. The request's first stream computes the prompt for all; if this is the first,
			   * another request's stream is about to compute what its prompt begins with */
	STREAM_PREFILLS,
	STREAM_GENERATES,
	STREAM_PREEMPTED, /* has a slot, and neither cells nor blocks */
	STREAM_ENDED
};

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
	/* Slots and blocks. */
	uint64_t hash;            /* of the chain */
	uint64_t next_hash;       /* with one block more, if that is n_next: what a stream knows never changes */
	int32_t n_next;
	uint64_t turn;            /* when it was admitted: the highest number is the youngest */
	int32_t n_private, n_reserved; /* blocks */
	cohort_seq leader;        /* of a first stream that waits: the slot that computes its blocks up to n_awaited */
	int32_t n_awaited;
	int32_t n_served;         /* rows of the prompt that the queue knows of */
	int32_t fork_at;          /* where its tokens leave those of others, in whole blocks; 0: nowhere */
	void *swap;               /* saved cells of a preempted one, or NULL */
	size_t n_swap;

	/* What it says. */
	struct text text;         /* made by the thread that ticks (makes_text), or by the reader */
	uint32_t *shown;          /* [n_max]: bytes of text that may be shown after each token whose text was made */
	float *logprobs;          /* [n_max], or NULL */
	float *chain_logprobs;    /* [n_max], or NULL */
	struct cohort_logprob *top; /* [n_max, n_top], or NULL */
	enum cohort_finish ending;  /* how it ended, once phase is ENDED */
	struct cohort_err ending_err;
	enum cohort_finish finish;  /* under the lock: the same, once that was told */

	/* The reader's, or the callback's. */
	int32_t n_made;           /* tokens whose text the reader made */
	int32_t n_read;           /* tokens, and bytes of text, that events were given for */
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
	int32_t n_embd;
	struct stream *streams; /* [p.n_outputs] */
	struct stops *stops;
	struct prefix_root root;
	struct cohort_logprob *prompt_top;
	/* These lie behind the request, in one piece with it. */
	struct stream_rest *rests; /* of each stream */
	cohort_token *known;    /* the streams' */
	uint32_t *shown;        /* the streams' */
	cohort_token *stop_tokens;
	uint64_t *hashes;       /* [n_prompt / block_size] of the prompt's blocks */

	int32_t n_live;         /* streams that have not ended */
	int32_t n_ends_told;
	int32_t n_untold;       /* whose end was not called back with */
	int32_t n_sharing;      /* streams that hold the prompt's whole blocks */
	int32_t n_private, n_reserved; /* of the prompt's whole blocks, when streams share them */
	int32_t n_cached_prompt, n_preempted;

	/* Under the lock. */
	struct cond told;
	int32_t n_generated;    /* tokens of all outputs; of those under way, as many as the queue knows of */
	struct cohort_request_stats stats;
	bool prompt_told, done;
	int32_t n_waiting;      /* threads that wait for `told` */
	bool noticed;           /* a notice came, or will, since all was read */
	/* Of notice.c, whose head tells which thread turns it. */
	atomic_int notice;
	struct thread caller;
	struct cohort_request *next_noticed;
	/* The reader's, or the callback's. */
	bool prompt_read, done_read;
	int32_t i_reader;       /* the output that is read next */
};

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

#endif
