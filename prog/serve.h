/* cohort serve, in parts: the daemon and a request's way through it (serve_http.c), sleeping and waking of connections
 * (serve_watch.c), who may connect (serve_accept.c, serve_peer.c), work that may take long (serve_prepare.c), routes
 * (serve_route.c), API keys (serve_keys.c), what generates (serve_work.c; serve_generate.c, serve_native.c), what is
 * looked at and changed (serve_live.c, serve_metrics.c, serve_llama.c), lines on standard error (serve_log.c), files
 * and batches (serve_files.c, serve_batches.c, which serve_batch_run.c runs).
 *
 * Five kinds of threads. HTTP threads (each a daemon of libmicrohttpd's) read headers and bodies, and send answers.
 * Workers parse, template, tokenise and compile grammars while the connection is suspended; those of large bodies have
 * a lower priority. The engine's thread ticks, and tells by a flag and a list whose events are there. The watch thread
 * wakes the connections on that list, accepts connections, and looks after clients that went away, pings and limits in
 * time. The log's thread writes to standard error, on which nothing else waits.
 *
 * A connection has a seat for as long as it lasts, a request on it a call. Seats are never freed while the server runs,
 * so that a late word of the engine about a request that is gone wakes somebody for nothing at worst. */
#ifndef PROG_SERVE_H
#define PROG_SERVE_H

#include "openai.h"
#include "serve_guard.h"
#include "serve_log.h"
#include "serve_metrics.h"
#include "serve_peer.h"
#include "sha256.h"
#include "siphash.h"

#include "base/lock.h"
#include "base/thread.h"

#include <microhttpd.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct batches;
struct call;
struct server;

/* ---- Limits ---- */

struct serve_limits {
	int64_t body_bytes, header_bytes;
	int64_t connections, client_connections; /* in all; of one client */
	int64_t choices, stops, grammar_bytes;
	double idle_s; /* from a connection's start, or its last answer, to the end of the next request's headers */
	double body_s; /* for a body to arrive */
	double write_s; /* that a client may leave an answer unread */
	double queue_s, prefill_s, decode_s, total_s; /* of a generation; 0: none */
	double ping_s; /* of silence on a stream, before a comment is sent */
	int64_t priority_max; /* that a client may ask for */
};

/* ---- Seats ---- */

enum seat_phase { SEAT_VACANT, SEAT_COMING, SEAT_IDLE, SEAT_BODY, SEAT_WORK };

struct seat {
	struct lock lock; /* of everything below but what is atomic */
	struct MHD_Connection *conn;
	int fd; /* -1: vacant */
	enum seat_phase phase;
	double since; /* when the phase began */
	struct call *call; /* NULL: between requests */
	bool suspended, ready; /* it sleeps; somebody wanted to wake it while it did not */
	bool held; /* a worker has its call: it is not resumed before that gives it back */
	bool gone; /* the client is */
	bool over; /* it came when there were as many as there may be; for its own HTTP thread only */
	bool refused; /* what it sends is */
	bool closing; /* to make room; its end is on its way */
	bool shared; /* others may come from its address, too: it is loopback's, a proxy's or a Unix socket */
	struct peer peer; /* as one client */
	atomic_uint_fast64_t client; /* whose request it has, where it is shared; 0: nobody's */
	double wake_at; /* when to wake it in any case; 0: never */
	uint32_t turn; /* counts connections, so that news of an earlier one are not taken for this one's */

	atomic_bool listed; /* in the list of those to be woken */
	struct seat *next; /* in that list; -1 in `listed` owns it */
	struct server *server;
};

struct watch {
	struct thread thread;
	bool started, has_lock;
	int epoll, event; /* -1: none */
	struct lock accepting; /* of what follows */
	bool has_accepting;
	int listen; /* -1: nothing is accepted */
	double accept_at; /* when to go on; 0: it goes on */
	double told_at; /* that it could not; for the watch thread only */
	_Atomic(struct seat *) ready; /* a stack, taken as a whole */
	atomic_bool stop;
	struct seat *seats; /* [n_seats] */
	size_t n_seats;
	struct lock lock; /* of vacancies */
	size_t n_taken, n_closing;
};
#define WATCH_LISTEN (UINT64_MAX - 1) /* what epoll says of the listening socket */

/* Takes a seat for a socket; NULL: none is free. From now on the client's going away is noticed. */
struct seat *seat_take(struct server *srv, int fd, const struct peer *peer);
/* The seat of a socket that libmicrohttpd has made a connection; NULL: it has none. */
struct seat *seat_find(struct watch *w, struct MHD_Connection *conn, int fd);
bool watch_room(struct watch *w); /* a seat is free */
int watch_count(struct watch *w); /* of those that are taken */
void seat_leave(struct watch *w, struct seat *s);
void seat_phase_set(struct seat *s, enum seat_phase phase);
/* Suspends the connection, unless there is news: then false, and the caller looks again. wake_at: 0, or when to wake it
 * without news. Only from the callbacks of libmicrohttpd for this connection. */
bool seat_sleep(struct seat *s, double wake_at);
bool seat_gone(struct seat *s);
/* A worker gets the call: seat_sleep_held suspends the connection until the worker calls seat_give_back, whatever else
 * there is news of. seat_sleep_held: false when the call is back already. */
void seat_hold(struct seat *s);
bool seat_sleep_held(struct seat *s);
void seat_give_back(struct seat *s);
/* There is news. Any thread; never waits. */
void seat_wake(struct seat *s);

/* Who may connect. How many connections beyond the limit there may be, to be told so. */
int64_t accept_over(int64_t connections);
/* Makes sure that there can be as many descriptors as there are connections; lowers the number of connections if it was
 * not `given`. False: it was said why not. */
bool accept_fits(const char *prog, struct serve_limits *l, bool given, int64_t n_threads);
/* The watch thread accepts from fd, which stays the caller's, until accept_end. */
bool accept_begin(struct watch *w, int fd);
void accept_end(struct watch *w);
void accept_some(struct server *srv);
/* A seat is about to be taken, with the lock of seats in hand: makes room, or notes that there is none. */
void accept_admit(struct server *srv, struct seat *s);
/* Whether a connection that came when there was no room still has none. */
bool accept_refuses(struct server *srv, struct seat *s, struct openai_error *e);
/* A request of a client begins on a seat whose address is shared. False: the client has as many as it may have. */
bool accept_counts(struct server *srv, struct seat *s, uint64_t client, struct openai_error *e);

bool watch_start(struct server *srv, struct watch *w, size_t n_seats, struct cohort_err *err);
/* Wakes all that sleep, again and again, until all connections have left or timeout_s have passed. */
void watch_empty(struct watch *w, double timeout_s);
void watch_stop(struct watch *w);

/* ---- Keys ---- */

struct serve_key {
	char *text;
	size_t n_text;
	char *name; /* "": none */
	bool admin;
};
struct serve_keys {
	struct serve_key *keys;
	size_t n, n_max;
};
/* "KEY [NAME] [admin]"; false: out of memory, or not such a line. */
bool keys_add(struct serve_keys *k, const char *line, size_t n);
/* Reads a file of such lines; # begins a comment. Returns 0 or an exit code, having said why. */
int keys_read(struct serve_keys *k, const char *prog, const char *path);
/* The key that was presented; NULL: none of them. Takes as long whichever it is. */
const struct serve_key *keys_find(const struct serve_keys *k, const char *text, size_t n);
void keys_release(struct serve_keys *k);

/* ---- Workers ---- */

struct prepare_client; /* serve_prepare.c */

struct prepare {
	struct lock lock; /* of everything below */
	struct cond wake; /* there may be a job to take */
	bool has_lock, has_wake, stop;
	bool large; /* it is for large bodies */
	struct thread *threads; /* [n_workers] */
	size_t n_workers, n_started;
	struct prepare_client *clients; /* those with jobs that wait or are under way */
};
bool prepare_start(struct prepare *p, bool large, struct cohort_err *err);
/* Waits for the jobs under way, and closes the connections of those that wait. */
void prepare_stop(struct prepare *p);
void prepare_release(struct prepare *p);

/* ---- The live view: ticks as they come ---- */

enum { LIVE_TICKS = 1024 }; /* that are kept */

struct live {
	struct lock lock;
	bool has_lock;
	struct cohort_tick ticks[LIVE_TICKS];
	uint64_t n; /* ever */
	struct cohort_slot_info *slots; /* [n_slots], as they were seen last */
	double look_at; /* not before, again */
	bool looking; /* somebody is at it */
};
bool live_init(struct live *l, int32_t n_slots);
void live_release(struct live *l);
void live_add(struct live *l, const struct cohort_tick *tick);

/* ---- The server ---- */

struct server {
	struct cohort_model *model;
	const char *model_path;
	struct openai_host host;
	struct cohort_engine *engine;
	struct cohort_engine_params engine_params;
	const struct cohort_strategy *strategy; /* that it was started with; NULL: the default */
	struct cohort_strategy_file *strategy_file; /* that it came from, or NULL */
	struct serve_limits limits;
	struct serve_keys keys;
	const char *slot_path; /* folder of saved slots; NULL: they cannot be saved */
	int64_t slot_bytes; /* that they may have together */
	struct guard guard; /* pages that may ask: all that -cors names, and the server's own */
	bool verbose, no_page, admin, tls;
	struct serve_log log;
	struct MHD_Daemon **http; /* [n_http]: one for each HTTP thread */
	size_t n_http, next_http; /* the latter is who gets the next connection; for the watch thread only */
	struct proxies proxies;
	struct watch watch;
	struct prepare prepare[2]; /* of small and of large bodies */
	struct live live;
	struct metrics metrics;
	atomic_bool draining;
	atomic_uint_fast64_t n_ids;
	uint64_t secret[2]; /* what serve_hash is keyed by: drawn at the start, and never shown */
	bool seed_given; /* requests without a seed have the host's; else one is drawn for each */
	int64_t started; /* time of day */
	double opened; /* by clock_now, as the engine was */
	struct batches *batches; /* NULL: neither files nor batches are kept */
	atomic_bool slot_taken; /* somebody saves, restores or erases a slot */
	double slot_left; /* when that last ended; who has taken it may touch this */
};

/* ---- Calls ---- */

/* What a step of a call leaves: it waits for news, an answer was queued, the connection is to be closed, or a worker
 * has the call. */
enum step { STEP_WAIT, STEP_DONE, STEP_CLOSE, STEP_HELD };

struct route {
	const char *method, *path; /* a segment of the path that is * stands for any one, which becomes call->arg */
	enum step (*run)(struct call *c);
	/* Without a key; for admins only; run is called before the body as well (the call is not complete then), to set
	 * sink and body_max or to refuse early. */
	/* OPEN: without a key; PAGE: with one that a browser asks for, too; REST: the * takes all that follows, slashes
	 * as well; LONG: run may take long, so a worker calls it; DISK: it waits for the disk, or for others that do,
	 * so a worker for what takes longest. */
	enum {
		ROUTE_OPEN = 1,
		ROUTE_ADMIN = 2,
		ROUTE_SINK = 4,
		ROUTE_PAGE = 8,
		ROUTE_REST = 16,
		ROUTE_LONG = 32,
		ROUTE_DISK = 64
	} flags;
};
/* NULL: none; then *allow lists the methods the path has ("" if there is no such path). */
const struct route *route_find(
		const char *method, const char *path, char *arg, size_t n_arg, char *allow, size_t n_allow);

struct call {
	struct server *srv;
	struct seat *seat;
	struct MHD_Connection *conn;
	const struct route *route;
	const struct serve_key *key; /* or NULL */
	struct peer peer; /* who asks, as one client; not known: one of those that share loopback, a socket, a proxy */
	char arg[160]; /* of the path */
	char id[136];
	char prefix[20]; /* what its prompt begins with, for X-Prefix-Hash; "": none */
	char seed[24]; /* that its texts are drawn with, for X-Seed; "": none */
	char method[12], path[192]; /* for the log */
	double started;
	struct openai_error early; /* known before the body was there; status 0: none */
	const char *allow_header;
	char allow[64];
	struct openai_buf body;
	void (*sink)(struct call *c, const char *bytes, size_t n); /* takes the body instead; may refuse (early) */
	uint64_t body_max, n_body; /* of a sink */
	bool body_full, complete, answered;
	bool hang_up; /* behind the answer */
	bool cut; /* a stream ends before its end: the client sees no proper end, as the connection is closed */
	unsigned status; /* that was answered */
	uint64_t n_sent;
	enum step (*step)(struct call *c); /* what to do when there is news */
	double wake_at; /* and when to do it without; 0: never */
	void *work; /* of the route; freed by drop */
	void (*drop)(struct call *c);
	struct {
		enum step (*run)(struct call *c); /* NULL: no worker has the call */
		struct call *next; /* of its client's */
		struct MHD_Response *answer; /* that was made, and is to be sent; or NULL */
	} job;
};

/* Leaves the rest of the call to a worker, which calls run: what that returns counts as if a step had. For HTTP
 * threads, as the last thing a step does. large: it may take long. */
enum step call_prepare(struct call *c, bool large, enum step (*run)(struct call *c));

/* Answers: each queues one, or closes the connection when memory is out. */
enum step answer_json(struct call *c, unsigned status, json_t *value); /* takes the reference; NULL: out of memory */
enum step answer_bytes(struct call *c, unsigned status, const char *type, struct openai_buf *bytes); /* takes them */
/* Bytes that stay; etag and policy (of what a page may load) may be NULL. */
enum step answer_static(struct call *c, unsigned status, const char *type, const void *bytes, size_t n,
		const char *etag, const char *policy);
enum step answer_error(struct call *c, const struct openai_error *e);
/* Sends what was answered by a worker. */
enum step answer_send(struct call *c);
/* n bytes of a file, whose descriptor it takes, to be saved and not shown. */
enum step answer_file(struct call *c, const char *type, int fd, uint64_t n);
/* A stream of server-sent events. `more` appends what there is to `out`; it returns false when nothing will follow, and
 * leaves `out` empty when there is nothing yet: then the connection sleeps until *wake_at. */
typedef bool stream_more(struct call *c, struct openai_buf *out, double *wake_at);
enum step answer_stream(struct call *c, const char *type, stream_more *more);

/* The body as JSON, an object; NULL: it was refused, e says why. An empty body is {} where `empty` says so. */
json_t *call_json(struct call *c, bool empty, struct openai_error *e);
/* With lists of tokens packed, which openai_ids_read reads. */
json_t *call_json_ids(struct call *c, struct openai_error *e);
const char *call_query(const struct call *c, const char *name);
const char *call_header(const struct call *c, const char *name);
/* Whose it is, for fairness (0: nobody knows), and what its cached prompts are kept apart by. */
uint64_t call_client(const struct call *c);
uint64_t call_salt(const struct call *c);
/* Whose it is over restarts, for what is kept on the disk: the hash of its key; "" without one. */
void call_owner(const struct call *c, char owner[SHA256_HEX]);
/* A hash that only this run of the server can compute. from: one of these, so that nothing of one kind has the hash of
 * another, or an earlier hash. */
enum { HASH_KEY = 1, HASH_ADDRESS, HASH_SALT, HASH_ID, HASH_BATCHES, HASH_GONE };
uint64_t serve_hash(const struct server *srv, uint64_t from, const void *bytes, size_t n);
/* What prompts of the key's owner are kept apart by; NULL: no key. */
uint64_t serve_salt(const struct server *srv, const struct serve_key *key);
/* prefix-0123456789abcdef0123456789abcdef */
void serve_id(struct server *srv, const char *prefix, char *out, size_t n);

/* The daemons. cert and key: PEM texts, or NULL. */
bool http_start(struct server *srv, int64_t n_threads, const char *cert, const char *key);
/* A socket that was accepted, and is closed if that fails. */
bool http_add(struct server *srv, int fd, const struct sockaddr *a, socklen_t n);
void http_stop(struct server *srv);

/* ---- What is answered: one function per route ---- */

enum step run_chat(struct call *c);
enum step run_completions(struct call *c);
enum step run_embeddings(struct call *c);
enum step run_completion(struct call *c);
enum step run_embedding(struct call *c);
enum step run_models(struct call *c);
enum step run_model(struct call *c);
/* Whether the server is ending; e is then what new requests are told. */
bool refuse_draining(const struct server *srv, struct openai_error *e);
enum step run_health(struct call *c);
enum step run_metrics(struct call *c);
enum step run_live(struct call *c);
enum step run_slots(struct call *c);
enum step run_slot_action(struct call *c);
enum step run_props(struct call *c);
enum step run_tokenize(struct call *c);
enum step run_detokenize(struct call *c);
enum step run_apply_template(struct call *c);
enum step run_strategy_get(struct call *c);
enum step run_strategy_set(struct call *c);
enum step run_page(struct call *c);
enum step run_file_upload(struct call *c);
enum step run_file_list(struct call *c);
enum step run_file_get(struct call *c);
enum step run_file_remove(struct call *c);
enum step run_file_content(struct call *c);
enum step run_batch_add(struct call *c);
enum step run_batch_list(struct call *c);
enum step run_batch_get(struct call *c);
enum step run_batch_cancel(struct call *c);

#endif
