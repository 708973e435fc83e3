/* cohort serve: the engine behind HTTP, for many users on one machine. */
#include "cmd.h"
#include "common.h"
#include "opt.h"
#include "sampling.h"
#include "serve.h"
#include "serve_batches.h"
#include "serve_listen.h"
#include "template_named.h"

#include "base/err.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/pool.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char prog[] = "cohort serve";

#define LOG_S 2.0 /* for what is left of the log at the end */

struct options {
	const char *model, *isa, *host, *socket, *alias, *strategy, *key_file, *cert, *cert_key, *template, *data;
	struct opt_list api_keys, allow_hosts, proxies;
	struct load_opts load;
	int64_t port, n_slots, n_ctx, n_batch, n_ubatch, threads, http_threads, n_predict, queue, queue_tokens,
			swap_mib, batch_parallel;
	bool ctx_given, threads_given, predict_given, connections_given, reserve, no_reuse;
	double drain_s;
	struct sampling s;
	struct server srv;
	struct batches batches;
	struct store_limits store_limits;
	char *cert_text, *key_text;
	int fd, wake[2];
};

/* ---- Opening ---- */

static int open_template(struct options *o)
{
	struct cohort_err err;
	char *text = NULL;
	size_t n = 0;
	const int rc = o->template ? template_find(prog, o->model, o->template, &text, &n) : 0;

	if (rc || !text)
		return rc;
	const enum cohort_status st = openai_host_template(&o->srv.host, text, n, &err);
	mem_free(text);
	if (!st)
		return 0;
	fprintf(stderr, "%s: %s: %s\n", prog, o->template, err.text);
	return EXIT_FILE;
}

static int open_model(struct options *o)
{
	struct server *srv = &o->srv;
	struct cohort_model_info info;
	struct cohort_err err;

	if (!o->model && !(o->model = builtin_model(prog)))
		return EXIT_MODEL;
	srv->model_path = o->model;
	int rc = load_text_model(prog, o->model, o->isa, &o->load, &srv->model, &info);
	if (!rc)
		rc = sampling_open(&o->s, prog, srv->model);
	if (!rc && openai_host_open(&srv->host, srv->model, o->model, &o->s.p, &err))
		rc = fail(prog, &err);
	if (!rc)
		rc = open_template(o);
	if (rc)
		return rc;
	srv->seed_given = o->s.seed_given;
	if (o->alias)
		srv->host.name = o->alias;
	if (o->predict_given)
		srv->host.n_chat = srv->host.n_completion = (int32_t)o->n_predict;
	return 0;
}

static void on_tick(const struct cohort_tick *tick, void *user)
{
	struct server *srv = user;

	live_add(&srv->live, tick);
	metrics_tick(&srv->metrics, tick);
}

/* A built-in strategy by its name, or FILE.so or FILE.so:NAME. */
static int open_strategy(struct options *o)
{
	struct server *srv = &o->srv;
	struct cohort_err err;

	if (!o->strategy || (srv->strategy = cohort_strategy_find(o->strategy)))
		return 0;
	if (!strchr(o->strategy, '/'))
		return bad_usage(prog,
				"-strategy is decode-maximal, prefill-priority, balanced, or a file with a / in its "
				"path (FILE.so or FILE.so:NAME); got '%s'",
				o->strategy);
	const char *colon = strrchr(o->strategy, ':');
	char *path = mem_strndup(o->strategy, colon ? (size_t)(colon - o->strategy) : strlen(o->strategy));
	if (!path)
		return out_of_memory(prog);
	const enum cohort_status st =
			cohort_strategy_open(path, colon ? colon + 1 : NULL, &srv->strategy_file, &srv->strategy, &err);
	mem_free(path);
	return st ? fail(prog, &err) : 0;
}

static int open_engine(struct options *o)
{
	struct server *srv = &o->srv;
	const struct cohort_model_info *info = &srv->host.info;
	struct cohort_engine_params *ep = &srv->engine_params;
	struct cohort_err err;

	cohort_engine_params_init(ep);
	ep->n_slots = (int32_t)o->n_slots;
	ep->context.n_ctx = (int32_t)openai_host_room(&srv->host, o->ctx_given ? o->n_ctx : 0, o->n_slots, 65536);
	ep->context.n_threads = thread_count(o->threads_given, o->threads);
	ep->context.n_batch = (int32_t)o->n_batch;
	ep->context.n_ubatch = (int32_t)o->n_ubatch;
	ep->context.outputs = COHORT_OUTPUT_EMBEDDINGS | (info->encoder ? 0U : COHORT_OUTPUT_LOGITS);
	if (info->encoder) /* a text goes through as a whole */
		ep->context.n_batch = ep->context.n_ubatch = info->n_ctx_train > 512 ? info->n_ctx_train : 512;
	if (ep->n_slots > ep->context.n_batch)
		ep->context.n_batch = ep->n_slots;
	ep->strategy = srv->strategy;
	ep->room = o->reserve ? COHORT_ROOM_RESERVE : COHORT_ROOM_OVERCOMMIT;
	ep->swap_bytes = (size_t)o->swap_mib << 20;
	ep->no_reuse = o->no_reuse;
	ep->queue_requests_max = (int32_t)o->queue;
	ep->queue_tokens_max = o->queue_tokens;
	ep->keep_tokens = srv->slot_path != NULL;
	ep->on_tick = on_tick;
	ep->on_tick_user = srv;
	srv->opened = clock_now();
	return cohort_engine_open(srv->model, ep, &srv->engine, &err) ? fail(prog, &err) : 0;
}

static int read_keys(struct options *o)
{
	int rc = o->key_file ? keys_read(&o->srv.keys, prog, o->key_file) : 0;

	for (size_t i = 0; i < o->api_keys.n && !rc; i++)
		if (strpbrk(o->api_keys.items[i], " \t\r\n") ||
				!keys_add(&o->srv.keys, o->api_keys.items[i], strlen(o->api_keys.items[i])))
			rc = bad_usage(prog, "-api-key wants a key of 1 to 512 characters without spaces");
	return rc;
}

static int read_proxies(struct options *o)
{
	bool no_memory;

	for (size_t i = 0; i < o->proxies.n; i++)
		if (!proxies_add(&o->srv.proxies, o->proxies.items[i], &no_memory))
			return no_memory ? out_of_memory(prog)
					 : bad_usage(prog,
							   "-trusted-proxy is an IP address, a network (10.0.0.0/8, "
							   "fd00::/8) or unix; got '%s'",
							   o->proxies.items[i]);
	return 0;
}

static int open_batches(struct options *o)
{
	struct batches *b = &o->batches;
	struct server *srv = &o->srv;
	struct cohort_err err;
	size_t n_damaged;
	char hash[40] = "(the model's)";
	const char *template = hash;
	const struct opt own[] = {
			{"n-predict", NULL, OPT_INT, &o->n_predict, 0, 0, NULL, NULL, NULL},
			{"chat-template", NULL, OPT_STR, &template, 0, 0, NULL, NULL, NULL},
	};

	if (!o->data)
		return 0;
	if (store_init(&b->store, o->data, &o->store_limits, &n_damaged, &err)) {
		fail(prog, &err);
		return err.status == COHORT_E_MEMORY ? EXIT_RUN : EXIT_FILE;
	}
	if (n_damaged)
		fprintf(stderr, "%s: note: %zu files or batches in %s cannot be read and are left alone\n", prog,
				n_damaged, o->data);
	if (o->template) {
		const char *text = srv->host.template_text;
		const struct jobs_hash h = jobs_hash((struct jobs_hash){0}, text, strlen(text));
		snprintf(hash, sizeof hash, "%016" PRIx64 "%016" PRIx64, h.a, h.b);
	}
	b->settings = jobs_settings(&srv->host.info, &o->load, &o->s, own, sizeof own / sizeof *own);
	/* Each batch draws its own. */
	if (!b->settings || (!o->s.seed_given && json_object_set_new(b->settings, "seed", json_string("drawn"))))
		return out_of_memory(prog);
	b->srv = srv;
	b->n_parallel = o->batch_parallel ? (size_t)o->batch_parallel : o->n_slots > 1 ? (size_t)o->n_slots / 2 : 1;
	srv->batches = b;
	return 0;
}

static int read_pem(const char *path, char **out)
{
	struct cohort_err err;
	size_t n;

	if (!path || !file_read(path, 1 << 20, out, &n, &err))
		return 0;
	fail(prog, &err);
	return EXIT_FILE;
}

static int open_tls(struct options *o)
{
	if (!o->cert != !o->cert_key)
		return bad_usage(prog, "-tls-cert and -tls-key go together");
	if (o->cert && MHD_is_feature_supported(MHD_FEATURE_TLS) != MHD_YES)
		return bad_usage(prog, "this libmicrohttpd was built without TLS");
	const int rc = read_pem(o->cert, &o->cert_text);
	return rc ? rc : read_pem(o->cert_key, &o->key_text);
}

/* ---- Running ---- */

static int wait_for_signal(struct options *o)
{
	struct pollfd p = {.fd = o->wake[0], .events = POLLIN};
	char bytes[64];
	uint64_t asked = 0;

	while (!interrupted()) {
		poll(&p, 1, 1000);
		if (mem_count() != asked) {
			asked = mem_count();
			mem_trim();
		}
	}
	ssize_t n = read(o->wake[0], bytes, sizeof bytes);
	(void)n;
	return interrupt_take();
}

struct drain {
	struct server *srv;
	double limit_s;
	bool clean;
	atomic_bool over;
	int wake;
};

static void drain_main(void *arg)
{
	struct drain *d = arg;
	struct cohort_err err;

	if (cohort_engine_drain(d->srv->engine, d->limit_s, &d->clean, &err))
		d->clean = false;
	atomic_store(&d->over, true);
	interrupt_wake();
}

/* What is under way may end, within the limit, unless a second signal comes. */
static void drain(struct options *o)
{
	struct drain d = {.srv = &o->srv, .limit_s = o->drain_s, .wake = o->wake[1]};
	struct thread t;

	atomic_store(&o->srv.draining, true);
	batches_stop(&o->batches, JOBS_FINISH);
	accept_end(&o->srv.watch);
	close(o->fd);
	o->fd = -1;
	if (o->socket)
		unlink(o->socket);
	log_add(&o->srv.log, "stopping: running requests have %.0f s to finish; a second signal stops at once",
			o->drain_s);
	if (!thread_start(&t, "cohort-drain", drain_main, &d))
		return;
	struct pollfd p = {.fd = o->wake[0], .events = POLLIN};
	bool hurry = false;
	while (!atomic_load(&d.over)) {
		char bytes[64];
		if (poll(&p, 1, 200) > 0) {
			ssize_t n = read(o->wake[0], bytes, sizeof bytes);
			(void)n;
		}
		if (interrupted() && !hurry) {
			struct cohort_err err;
			bool clean;
			hurry = true;
			cohort_engine_drain(o->srv.engine, 0, &clean, &err);
		}
	}
	thread_join(&t);
	watch_empty(&o->srv.watch, hurry ? 0.2 : 5);
	log_add(&o->srv.log, "%s",
			d.clean && !hurry ? "stopped; all requests were finished"
					  : "stopped; requests were interrupted");
}

static int run(struct options *o)
{
	struct server *srv = &o->srv;
	struct serve_limits *l = &srv->limits;
	struct cohort_err err;
	char shown[300];
	int rc = open_tls(o);

	if (!rc)
		rc = read_keys(o);
	if (!rc)
		rc = read_proxies(o);
	if (!rc)
		rc = open_strategy(o);
	if (!rc)
		rc = open_model(o);
	if (!rc && (!metrics_init(&srv->metrics) || !live_init(&srv->live, (int32_t)o->n_slots)))
		rc = out_of_memory(prog);
	if (!rc)
		rc = open_engine(o);
	if (!rc)
		rc = open_batches(o);
	if (rc)
		return rc;
	if (srv->slot_path)
		file_sweep(srv->slot_path); /* what a server was killed over */
	o->fd = o->socket ? listen_unix(prog, o->socket, shown, sizeof shown)
			  : listen_tcp(prog, o->host, o->port, shown, sizeof shown);
	if (o->fd < 0)
		return EXIT_FILE;
	srv->started = (int64_t)time(NULL);
	if (!random_draw(srv->secret, sizeof srv->secret)) {
		fprintf(stderr, "%s: the system gives no random bytes: %s\n", prog, strerror(errno));
		return EXIT_RUN;
	}
	srv->tls = o->cert != NULL;
	if (!accept_fits(prog, l, o->connections_given, o->http_threads))
		return EXIT_RUN;
	if (!l->client_connections)
		l->client_connections = (l->connections + 1) / 2;
	if (!log_start(&srv->log, prog, STDERR_FILENO, &err) ||
			!watch_start(srv, &srv->watch, (size_t)(l->connections + accept_over(l->connections)), &err) ||
			!prepare_start(&srv->prepare[0], false, &err) || !prepare_start(&srv->prepare[1], true, &err))
		return fail(prog, &err);
	if (!http_start(srv, o->http_threads, o->cert_text, o->key_text)) {
		log_add(&srv->log, "the HTTP daemon cannot be started%s",
				o->cert ? "; are the certificate and the key PEM files that belong together?" : "");
		return EXIT_RUN;
	}
	if (!accept_begin(&srv->watch, o->fd))
		return out_of_memory(prog);
	if (srv->batches && !batches_start(srv->batches))
		return out_of_memory(prog);
	log_add(&srv->log, "%s, %d slot%s, %d tokens of cache, %s", srv->host.name, srv->engine_params.n_slots,
			plural((uint64_t)srv->engine_params.n_slots),
			srv->engine_params.context.n_ctx, srv->keys.n ? "with API keys" : "no API keys");
	log_add(&srv->log, "listening on %s%s", o->socket ? "" : o->cert ? "https://" : "http://", shown);
	wait_for_signal(o);
	drain(o);
	return 0;
}

static void release(struct options *o)
{
	struct server *srv = &o->srv;

	/* Calls are dropped with the daemon, and need the engine until then. */
	for (size_t i = 0; i < 2; i++)
		prepare_stop(&srv->prepare[i]);
	accept_end(&srv->watch);
	watch_empty(&srv->watch, 1);
	http_stop(srv);
	for (size_t i = 0; i < 2; i++)
		prepare_release(&srv->prepare[i]);
	batches_release(&o->batches);
	cohort_engine_free(srv->engine);
	watch_stop(&srv->watch);
	if (o->fd >= 0) {
		close(o->fd);
		if (o->socket)
			unlink(o->socket);
	}
	metrics_release(&srv->metrics);
	live_release(&srv->live);
	openai_host_release(&srv->host);
	sampling_release(&o->s);
	cohort_model_free(srv->model);
	cohort_strategy_file_free(srv->strategy_file);
	keys_release(&srv->keys);
	proxies_release(&srv->proxies);
	mem_free(o->cert_text);
	mem_free(o->key_text);
	log_stop(&srv->log, LOG_S);
}

static int open_wake(struct options *o)
{
	if (pipe2(o->wake, O_CLOEXEC | O_NONBLOCK))
		return out_of_memory(prog);
	interrupt_wake_set(o->wake[1]);
	return 0;
}

/* What one thread allocates another frees. With an arena for each thread that leaves holes everywhere, and a server
 * that grows for hours: two arenas, and what is large by itself. Large bodies of small things still leave holes, as
 * something small that lasts longer stands above them: wait_for_signal gives those back. */
static void tidy_memory(void)
{
#ifdef __GLIBC__
	mallopt(M_ARENA_MAX, 2);
	mallopt(M_MMAP_THRESHOLD, 64 << 10);
	mallopt(M_TRIM_THRESHOLD, 128 << 10);
#endif
}

int cmd_serve(int argc, char **argv)
{
	static struct options o;
	struct serve_limits *l = &o.srv.limits;
	size_t n = 0;

	o = (struct options){.host = "127.0.0.1",
			.port = 8080,
			.n_slots = 8,
			.n_batch = 512,
			.n_ubatch = 128,
			.threads = threads_default(),
			.http_threads = 4,
			.n_predict = -1,
			.queue = 512,
			.queue_tokens = 1 << 20,
			.drain_s = 30,
			.batches.store.lock_fd = -1,
			.store_limits = {.file_bytes = 512, .n_files = 1000},
			.fd = -1,
			.wake = {-1, -1}};
	o.srv.slot_bytes = 16384;
	o.srv.watch.epoll = o.srv.watch.event = o.srv.watch.listen = -1;
	*l = (struct serve_limits){.body_bytes = 16,
			.header_bytes = 32,
			.connections = 256,
			.choices = 16,
			.stops = 16,
			.grammar_bytes = 256,
			.idle_s = 75,
			.body_s = 60,
			.write_s = 60,
			.ping_s = 15};
	sampling_init(&o.s, 0.95);
	const struct opt own[] = {
			{"model", "m", OPT_STR, &o.model, 0, 0, "FILE.gguf", "GGUF model (default: the built-in one)",
					NULL},
			{"alias", "a", OPT_STR, &o.alias, 0, 0, "NAME",
					"the model's name in answers (default: its own)", NULL},
			{"host", NULL, OPT_STR, &o.host, 0, 0, "ADDRESS",
					"where to listen (default: 127.0.0.1, this machine only)", NULL},
			{"port", NULL, OPT_INT, &o.port, 0, 65535, "N", "TCP port; 0: any free one (default: 8080)",
					NULL},
			{"socket", NULL, OPT_STR, &o.socket, 0, 0, "PATH", "a Unix socket instead", NULL},
			{"n-parallel", "np|parallel", OPT_INT, &o.n_slots, 1, 4096, "N",
					"sequences at once (default: 8)", NULL},
			{"ctx", "c|ctx-size", OPT_INT, &o.n_ctx, 1, 1 << 30, "N",
					"tokens the KV cache holds, for all of them (default: what they can use, up to "
					"65536)",
					&o.ctx_given},
			{"batch", "b|batch-size", OPT_INT, &o.n_batch, 1, 1 << 20, "N",
					"rows of a tick at most (default: 512)",
					NULL},
			{"ubatch", "ub|ubatch-size", OPT_INT, &o.n_ubatch, 1, 1 << 20, "N",
					"rows computed together; a cancel waits for one of these (default: 128)", NULL},
			{"threads", "t", OPT_INT, &o.threads, 1, 1024, "N",
					"compute threads (default: the CPUs that it may use)", &o.threads_given},
			{"http-threads", "threads-http", OPT_INT, &o.http_threads, 1, 256, "N",
					"threads that read and answer requests (default: 4)", NULL},
			{"strategy", NULL, OPT_STR, &o.strategy, 0, 0,
					"decode-maximal|prefill-priority|balanced|FILE.so[:NAME]",
					"whose rows go first; a file needs a / in its name (default: decode-maximal)",
					NULL},
			{"n-predict", "n|predict", OPT_INT, &o.n_predict, -1, 1 << 24, "N",
					"tokens of an answer whose request sets no limit; -1: the rest of the context "
					"(default: 16 for completions, -1 for chats)",
					&o.predict_given},
			{"queue", NULL, OPT_INT, &o.queue, 1, 1 << 24, "N",
					"requests that may wait, a client's half of what the others leave; more get "
					"429 (default: 512)",
					NULL},
			{"queue-tokens", NULL, OPT_INT, &o.queue_tokens, 1, 1LL << 60, "N",
					"tokens of their prompts together (default: 1048576)", NULL},
			{"reserve", NULL, OPT_FLAG, &o.reserve, 0, 0, NULL,
					"admit a request only when all it may need is free (default: as it grows)",
					NULL},
			{"swap", NULL, OPT_INT, &o.swap_mib, 0, 1 << 20, "MIB",
					"memory for sequences that had to make room (default: 0, computed again)",
					NULL},
			{"no-reuse", "no-cache-prompt", OPT_FLAG, &o.no_reuse, 0, 0, NULL,
					"never reuse what prompts begin with",
					NULL},
			{"api-key", NULL, OPT_LIST, &o.api_keys, 0, 0, "KEY",
					"a key that clients must present; may be given again", NULL},
			{"api-key-file", NULL, OPT_STR, &o.key_file, 0, 0, "FILE",
					"such keys, one on a line: KEY [NAME] [admin]", NULL},
			{"admin", NULL, OPT_FLAG, &o.srv.admin, 0, 0, NULL,
					"allow routes that change the server (with keys: to those marked admin)", NULL},
			{"slot-save-path", NULL, OPT_STR, &o.srv.slot_path, 0, 0, "DIR",
					"allow slots to be saved to files here and brought back (POST /slots/ID)",
					NULL},
			{"chat-template", "chat-template-file", OPT_STR, &o.template, 0, 0,
					TEMPLATE_ARG, TEMPLATE_HELP, NULL},
			{"no-page", "no-webui|no-ui", OPT_FLAG, &o.srv.no_page, 0, 0, NULL, "no web page at /", NULL},
			{"allow-host", NULL, OPT_LIST, &o.allow_hosts, 0, 0, "NAME",
					"a name that requests without API keys may have as Host, beside localhost, IP "
					"addresses and -host; may be given again",
					NULL},
			{"trusted-proxy", NULL, OPT_LIST, &o.proxies, 0, 0, "ADDRESS",
					"address or network (10.0.0.0/8) of a proxy whose X-Forwarded-For says who "
					"asks, or unix: who comes by -socket; may be given again",
					NULL},
			{"cors", NULL, OPT_STR, &o.srv.guard.cors, 0, 0, "ORIGIN",
					"pages of this origin may ask, too; *: all", NULL},
			{"tls-cert", "ssl-cert-file", OPT_STR, &o.cert, 0, 0, "FILE",
					"certificate (PEM): speak HTTPS", NULL},
			{"tls-key", "ssl-key-file", OPT_STR, &o.cert_key, 0, 0, "FILE", "its key (PEM)", NULL},
			{"max-body", NULL, OPT_INT, &l->body_bytes, 1, 1 << 20, "MIB",
					"of a request; more gets 413 (default: 16)", NULL},
			{"max-headers", NULL, OPT_INT, &l->header_bytes, 4, 1 << 20, "KIB",
					"of a request; more gets 431 (default: 32)", NULL},
			{"max-connections", NULL, OPT_INT, &l->connections, 1, 1 << 16, "N",
					"the one idle for longest is closed for another; with none idle more get 503 "
					"(default: 256)",
					&o.connections_given},
			{"max-client-connections", NULL, OPT_INT, &l->client_connections, 0, 1 << 16, "N",
					"of one address, likewise; through loopback, -socket and -trusted-proxy "
					"requests at once of one key (default: 0, half of -max-connections)",
					NULL},
			{"max-choices", NULL, OPT_INT, &l->choices, 1, 4096, "N",
					"of a request; more get 400 (default: 16)", NULL},
			{"max-stops", NULL, OPT_INT, &l->stops, 0, COHORT_STOPS_MAX, "N",
					"stop strings of a request (default: 16)", NULL},
			{"max-grammar", NULL, OPT_INT, &l->grammar_bytes, 1, 1 << 20, "KIB",
					"of a request's grammar or schema (default: 256)", NULL},
			{"max-priority", NULL, OPT_INT, &l->priority_max, -1000, 1000, "N",
					"that a request may ask for; higher ones count as this (default: 0)", NULL},
			{"idle-timeout", NULL, OPT_FLOAT, &l->idle_s, 0.1, 86400, "S",
					"for the headers of the next request to come (default: 75)", NULL},
			{"body-timeout", NULL, OPT_FLOAT, &l->body_s, 0.1, 86400, "S",
					"for a body to come; then 408 (default: 60)", NULL},
			{"write-timeout", "to|timeout", OPT_FLOAT, &l->write_s, 1, 86400, "S",
					"that a client may leave its answer unread (default: 60)", NULL},
			{"queue-timeout", NULL, OPT_FLOAT, &l->queue_s, 0, 1e6, "S",
					"a request may wait for a slot; then 503 (default: 0, for ever)", NULL},
			{"prefill-timeout", NULL, OPT_FLOAT, &l->prefill_s, 0, 1e6, "S",
					"from there to its first token (default: 0)", NULL},
			{"decode-timeout", NULL, OPT_FLOAT, &l->decode_s, 0, 1e6, "S",
					"from there to its end (default: 0)", NULL},
			{"total-timeout", NULL, OPT_FLOAT, &l->total_s, 0, 1e6, "S", "in all (default: 0)", NULL},
			{"ping", NULL, OPT_FLOAT, &l->ping_s, 0, 86400, "S",
					"of silence on a stream before a comment is sent; 0: none is (default: 15)",
					NULL},
			{"data", NULL, OPT_STR, &o.data, 0, 0, "DIR",
					"keep files and batches there (default: /v1/files and /v1/batches are refused)",
					NULL},
			{"max-file", NULL, OPT_INT, &o.store_limits.file_bytes, 1, 1 << 20, "MIB",
					"of an uploaded file; more gets 413 (default: 512)", NULL},
			{"max-files", NULL, OPT_INT, &o.store_limits.n_files, 1, 1 << 20, "N",
					"files of a key, and batches that are remembered (default: 1000)", NULL},
			{"max-saved", NULL, OPT_INT, &o.srv.slot_bytes, 1, 1 << 30, "MIB",
					"of saved slots, all together; more get 507 (default: 16384)", NULL},
			{"batch-parallel", NULL, OPT_INT, &o.batch_parallel, 0, 4096, "N",
					"sequences that batches have at once (default: half of -n-parallel)", NULL},
			{"drain", NULL, OPT_FLOAT, &o.drain_s, 0, 86400, "S",
					"that running requests have to finish after SIGTERM or Ctrl-C (default: 30)",
					NULL},
			{"isa", NULL, OPT_STR, &o.isa, 0, 0, ISA_ARG, ISA_HELP, NULL},
			OPTS_LOAD(&o.load),
			{"verbose", "v", OPT_FLAG, &o.srv.verbose, 0, 0, NULL,
					"a line on standard error for each request", NULL},
	};
	enum { N_OWN = sizeof own / sizeof *own };
	struct opt opts[N_OWN + SAMPLING_OPTIONS];
	memcpy(opts, own, sizeof own);
	sampling_options(&o.s, "only the likeliest tokens with X of the mass; 1: all (default: 0.95)", opts + N_OWN);
	const struct opt_prog p = {
			prog,
			"[-m FILE] [-port N] [options]",
			"Serves a model to many users at once over HTTP: OpenAI's API (/v1/chat/completions,\n"
			"/v1/completions, /v1/embeddings, /v1/models), llama-server's own routes, and /metrics.\n"
			"Listens on this machine only unless -host says otherwise. Sampling options are the defaults\n"
			"for what a request leaves out. SIGTERM or Ctrl-C: no more requests are taken, those under\n"
			"way are finished; a second one ends them.",
			"  cohort serve\n"
			"  cohort serve -m model.gguf -host 0.0.0.0 -api-key-file keys.txt -np 32\n"
			"  curl http://127.0.0.1:8080/v1/completions -d '{\"prompt\": \"The cat\", \"n\": 4}'\n",
			opts,
			sizeof opts / sizeof *opts,
	};
	int rc = opt_parse(&p, argc, argv, 2, NULL, 0, &n);
	if (rc)
		return rc - 1;
	o.srv.guard.listen = o.host;
	o.srv.guard.names = o.allow_hosts.items;
	o.srv.guard.n_names = o.allow_hosts.n;
	l->body_bytes <<= 20;
	l->header_bytes <<= 10;
	l->grammar_bytes <<= 10;
	o.store_limits.file_bytes <<= 20;
	o.srv.slot_bytes <<= 20;
	tidy_memory();
	umask(0077); /* prompts are in what it writes: saved slots, files, results */
	catch_signals();
	rc = open_wake(&o);
	if (!rc)
		rc = run(&o);
	release(&o);
	return rc;
}
