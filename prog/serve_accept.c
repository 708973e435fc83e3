/* Connections come in: who gets a place, and who has to leave for it.
 *
 * Invariants
 *  1. There are no more connections than `connections`, and some more that are refused. When they are all taken, the
 *     one that was idle for longest is closed for a new one; one that has a request under way never is.
 *  2. The same holds for the connections of one address. Clients of loopback, Unix sockets and trusted proxies share an
 *     address with others: of them requests under way are counted, by key or forwarded address.
 *  3. Out of descriptors, or places, nothing is accepted for a moment: the socket stays readable, so that going on
 *     would be a busy loop.
 * It does not know requests. */
#include "serve.h"

#include "base/pool.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	AT_ONCE = 64, /* connections accepted before others have their turn */
	FILES = 8 /* descriptors beside those of connections: batches, logs, folders */
};
#define PAUSE_S 0.1 /* without accepting */
#define TELL_S 60.0 /* between notes that descriptors are out */

int64_t accept_over(int64_t connections)
{
	return connections < 8 ? 1 : connections < 256 ? connections / 8 : 32;
}

/* Descriptors of so many connections, each with a file that its request reads or writes, beside those of all. */
static rlim_t need(int64_t base, int64_t connections)
{
	return (rlim_t)(base + 2 * connections + accept_over(connections));
}

bool accept_fits(const char *prog, struct serve_limits *l, bool given, int64_t n_threads)
{
	/* What is there, epoll and eventfd of the watch and of each HTTP thread. */
	const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	const int64_t base = (fd < 0 ? 1024 : fd) + 2 + 2 * n_threads + FILES;
	int64_t c = l->connections;
	struct rlimit r;

	if (fd >= 0)
		close(fd);
	if (getrlimit(RLIMIT_NOFILE, &r))
		return true;
	if (r.rlim_cur < need(base, c) && r.rlim_cur < r.rlim_max) {
		r.rlim_cur = r.rlim_max < need(base, c) ? r.rlim_max : need(base, c);
		if (setrlimit(RLIMIT_NOFILE, &r))
			getrlimit(RLIMIT_NOFILE, &r);
	}
	while (c > 0 && r.rlim_cur < need(base, c))
		c--;
	if (c == l->connections)
		return true;
	if (given || c == 0) {
		fprintf(stderr,
				"%s: -max-connections %" PRId64 " takes %" PRIu64 " file descriptors, and this process "
				"may have %" PRIu64 ": raise that (ulimit -n, or LimitNOFILE of systemd)",
				prog, l->connections, (uint64_t)need(base, l->connections), (uint64_t)r.rlim_cur);
		fprintf(stderr, c ? ", or give %" PRId64 " at most\n" : "\n", c);
		return false;
	}
	fprintf(stderr,
			"%s: note: -max-connections is %" PRId64 " instead of %" PRId64
			", as this process may have %" PRIu64
			" file descriptors (ulimit -n, or LimitNOFILE of systemd)\n",
			prog, c, l->connections, (uint64_t)r.rlim_cur);
	l->connections = c;
	return true;
}

/* ---- Places ---- */

/* Whether nothing is lost when it is closed: it waits for a request, or sends one that is refused already. With its
 * lock in hand. */
static bool is_idle(const struct seat *s)
{
	return s->fd >= 0 && !s->closing && (s->phase == SEAT_IDLE || (s->phase == SEAT_BODY && s->refused));
}

/* Whether the socket has unread bytes: the beginning of a request. */
static bool has_input(int fd)
{
	char c;

	return recv(fd, &c, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

/* Closes the connection that was idle for longest, of one client or (NULL) of all. With the lock of seats in hand,
 * which those that leave wait for. */
static bool evict(struct watch *w, const struct peer *client)
{
	struct seat *found = NULL;
	double since = 0;

	for (size_t i = 0; i < w->n_seats; i++) {
		struct seat *s = &w->seats[i];
		lock_take(&s->lock);
		if (is_idle(s) && (!found || s->since < since) && (!client || peer_same(&s->peer, client)) &&
				(s->phase == SEAT_BODY || !has_input(s->fd))) {
			found = s;
			since = s->since;
		}
		lock_give(&s->lock);
	}
	if (!found)
		return false;
	lock_take(&found->lock);
	const bool idle = is_idle(found); /* still; if not, the caller does without */
	if (idle) {
		found->closing = true;
		w->n_closing++;
		shutdown(found->fd, SHUT_RDWR);
	}
	lock_give(&found->lock);
	return idle;
}

/* Connections of a client that are not about to leave. With the lock of seats in hand. */
static size_t count_of(struct watch *w, const struct peer *client)
{
	size_t n = 0;

	for (size_t i = 0; i < w->n_seats; i++) {
		struct seat *s = &w->seats[i];
		lock_take(&s->lock);
		n += s->fd >= 0 && !s->closing && peer_same(&s->peer, client);
		lock_give(&s->lock);
	}
	return n;
}

void accept_admit(struct server *srv, struct seat *s)
{
	struct watch *w = &srv->watch;
	const size_t n = w->n_taken - w->n_closing;

	if (!s->shared && n >= (size_t)srv->limits.client_connections &&
			count_of(w, &s->peer) >= (size_t)srv->limits.client_connections && !evict(w, &s->peer))
		s->over = true;
	else if (n >= (size_t)srv->limits.connections && !evict(w, NULL))
		s->over = true;
}

bool accept_refuses(struct server *srv, struct seat *s, struct openai_error *e)
{
	struct watch *w = &srv->watch;
	const struct serve_limits *l = &srv->limits;

	if (!s->over)
		return false;
	lock_take(&w->lock);
	const size_t n = w->n_taken - w->n_closing;
	const bool client = !s->shared && n > (size_t)l->client_connections &&
			count_of(w, &s->peer) > (size_t)l->client_connections;
	s->over = client || n > (size_t)l->connections;
	lock_give(&w->lock);
	if (!s->over)
		return false;
	openai_refuse(e, NULL, "too_many_connections",
			client ? "this address has %" PRId64 " connections already; try again soon"
			       : "there are %" PRId64 " connections already; try again soon",
			client ? l->client_connections : l->connections);
	return true;
}

bool accept_counts(struct server *srv, struct seat *s, uint64_t client, struct openai_error *e)
{
	struct watch *w = &srv->watch;
	const size_t most = (size_t)srv->limits.client_connections;
	size_t n = 0;

	if (!s->shared || !client)
		return true;
	lock_take(&w->lock);
	for (size_t i = 0; i < w->n_seats && w->n_taken > most; i++)
		n += atomic_load(&w->seats[i].client) == client;
	if (n < most)
		atomic_store(&s->client, client);
	lock_give(&w->lock);
	if (n < most)
		return true;
	openai_refuse(e, NULL, "too_many_connections",
			"this client has %zu requests under way already; try again soon", n);
	return false;
}

/* ---- Accepting ---- */

/* With the lock of accepting in hand. */
static void listen_for(struct watch *w, unsigned events)
{
	struct epoll_event ev = {.events = events, .data.u64 = WATCH_LISTEN};

	epoll_ctl(w->epoll, EPOLL_CTL_MOD, w->listen, &ev);
}

static void pause_accept(struct watch *w, double until)
{
	listen_for(w, 0);
	w->accept_at = until;
}

/* For somebody who waits to be accepted; unless another is about to leave already. */
static void make_room(struct watch *w)
{
	struct pollfd p = {.fd = w->listen, .events = POLLIN};

	lock_take(&w->lock);
	if (w->n_closing == 0 && poll(&p, 1, 0) > 0)
		evict(w, NULL);
	lock_give(&w->lock);
}

static void no_descriptor(struct server *srv, double now)
{
	const int why = errno;
	struct watch *w = &srv->watch;

	if (w->told_at <= 0 || now - w->told_at > TELL_S) {
		w->told_at = now;
		log_add(&srv->log, "cannot accept connections: %s; idle ones are closed, and accepting is tried again",
				strerror(why));
	}
	make_room(w);
	pause_accept(w, now + PAUSE_S);
}

static bool accept_one(struct server *srv, double now)
{
	struct watch *w = &srv->watch;
	struct sockaddr_storage a = {0};
	socklen_t n = sizeof a;
	const int one = 1;

	if (!watch_room(w)) {
		make_room(w);
		pause_accept(w, now); /* until the watch looks around again */
		return false;
	}
	const int fd = accept4(w->listen, (struct sockaddr *)&a, &n, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		return false;
	if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
		no_descriptor(srv, now);
		return false;
	}
	if (fd < 0) {
		if (errno != EINTR && errno != ECONNABORTED)
			pause_accept(w, now + PAUSE_S);
		return errno == EINTR || errno == ECONNABORTED;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one); /* no effect on a Unix socket */
	const struct peer peer = peer_of((const struct sockaddr *)&a);
	struct seat *s = seat_take(srv, fd, &peer);
	if (s && !http_add(srv, fd, (const struct sockaddr *)&a, n))
		seat_leave(w, s); /* libmicrohttpd has closed it */
	else if (!s)
		close(fd);
	return true;
}

void accept_some(struct server *srv)
{
	struct watch *w = &srv->watch;
	const double now = clock_now();

	lock_take(&w->accepting);
	if (w->listen >= 0 && w->accept_at > 0 && now >= w->accept_at) {
		w->accept_at = 0;
		listen_for(w, EPOLLIN);
	}
	for (int i = 0; i < AT_ONCE && w->listen >= 0 && w->accept_at <= 0; i++)
		if (!accept_one(srv, now))
			break;
	lock_give(&w->accepting);
}

bool accept_begin(struct watch *w, int fd)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.u64 = WATCH_LISTEN};

	lock_take(&w->accepting);
	const bool ok = epoll_ctl(w->epoll, EPOLL_CTL_ADD, fd, &ev) == 0;
	w->listen = ok ? fd : -1;
	lock_give(&w->accepting);
	return ok;
}

void accept_end(struct watch *w)
{
	if (!w->has_accepting)
		return;
	lock_take(&w->accepting);
	if (w->listen >= 0)
		epoll_ctl(w->epoll, EPOLL_CTL_DEL, w->listen, &(struct epoll_event){0});
	w->listen = -1;
	lock_give(&w->accepting);
}
