/* Seats of connections, and the thread that wakes them.
 *
 * Invariants
 *  1. A connection that is suspended has `suspended` set under its seat's lock, and only who clears it there resumes
 * the connection: it is resumed once for every time it was suspended.
 *  2. News are never lost: they either find the seat asleep and wake it, or leave `ready`, which seat_sleep looks at
 *     under the same lock before it suspends.
 *  3. A seat is in the list of those to be woken at most once; who sets `listed` pushes it, and it is cleared before
 * the seat is looked at, so that what comes after pushes it again.
 *  4. A seat that is held has a call that an HTTP thread must not touch: it is not resumed before seat_give_back.
 *  5. The client's going away is seen by the kernel's word about the socket (hang-up, or the end of what the client
 *     sends), not by a failed write: libmicrohttpd does not look at a connection that is suspended.
 * It does not know what calls wait for. */
#include "serve.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/pool.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { SCAN_MS = 50 }; /* how exact limits in time are */
#define LOST_S 10.0 /* for libmicrohttpd to begin with a socket */

/* ---- Seats ---- */

/* With both locks in hand. */
static void vacate(struct watch *w, struct seat *s)
{
	s->conn = NULL;
	s->fd = -1;
	s->phase = SEAT_VACANT;
	s->call = NULL;
	s->suspended = false;
	w->n_closing -= s->closing;
	s->closing = false;
	w->n_taken--;
}

/* The seat of a socket that libmicrohttpd has closed without a word, for want of memory: the system has given its
 * number to another one. With the lock of seats in hand. */
static void vacate_lost(struct watch *w, int fd)
{
	for (size_t i = 0; i < w->n_seats; i++) {
		struct seat *s = &w->seats[i];
		lock_take(&s->lock);
		if (s->fd == fd && s->phase == SEAT_COMING)
			vacate(w, s);
		lock_give(&s->lock);
	}
}

struct seat *seat_take(struct server *srv, int fd, const struct peer *peer)
{
	struct watch *w = &srv->watch;
	struct seat *found = NULL;

	lock_take(&w->lock);
	vacate_lost(w, fd);
	for (size_t i = 0; i < w->n_seats && !found; i++)
		if (w->seats[i].fd < 0)
			found = &w->seats[i];
	if (found) {
		found->peer = peer_client(*peer);
		found->shared = !peer->known || peer_is_loopback(peer) || proxies_trust(&srv->proxies, peer);
		found->over = false;
		accept_admit(srv, found);
		w->n_taken++;
		lock_take(&found->lock);
		found->conn = NULL;
		found->fd = fd;
		found->phase = SEAT_COMING;
		found->since = clock_now();
		found->call = NULL;
		found->suspended = found->ready = found->gone = found->held = false;
		found->refused = found->closing = false;
		found->wake_at = 0;
		found->turn++;
		/* Without it, going away is noticed by the next write. */
		struct epoll_event ev = {.events = EPOLLRDHUP | EPOLLONESHOT,
				.data.u64 = (uint64_t)found->turn << 32 | (uint64_t)(found - w->seats)};
		epoll_ctl(w->epoll, EPOLL_CTL_ADD, fd, &ev);
		lock_give(&found->lock);
	}
	lock_give(&w->lock);
	return found;
}

struct seat *seat_find(struct watch *w, struct MHD_Connection *conn, int fd)
{
	struct seat *found = NULL;

	lock_take(&w->lock);
	for (size_t i = 0; i < w->n_seats && !found; i++)
		if (w->seats[i].fd == fd)
			found = &w->seats[i];
	if (found) {
		lock_take(&found->lock);
		found->conn = conn;
		found->phase = SEAT_IDLE;
		lock_give(&found->lock);
	}
	lock_give(&w->lock);
	return found;
}

bool watch_room(struct watch *w)
{
	lock_take(&w->lock);
	const bool room = w->n_taken < w->n_seats;
	lock_give(&w->lock);
	return room;
}

int watch_count(struct watch *w)
{
	lock_take(&w->lock);
	const size_t n = w->n_taken;
	lock_give(&w->lock);
	return (int)n;
}

void seat_leave(struct watch *w, struct seat *s)
{
	lock_take(&w->lock);
	lock_take(&s->lock);
	epoll_ctl(w->epoll, EPOLL_CTL_DEL, s->fd, &(struct epoll_event){0});
	vacate(w, s);
	lock_give(&s->lock);
	lock_give(&w->lock);
}

void seat_phase_set(struct seat *s, enum seat_phase phase)
{
	lock_take(&s->lock);
	s->phase = phase;
	s->since = clock_now();
	s->ready = false;
	s->wake_at = 0;
	lock_give(&s->lock);
}

bool seat_sleep(struct seat *s, double wake_at)
{
	lock_take(&s->lock);
	const bool sleeps = !s->ready && !s->gone;
	s->ready = false;
	s->wake_at = wake_at;
	if (sleeps) {
		s->suspended = true;
		MHD_suspend_connection(s->conn);
	}
	lock_give(&s->lock);
	return sleeps;
}

bool seat_gone(struct seat *s)
{
	lock_take(&s->lock);
	const bool gone = s->gone;
	lock_give(&s->lock);
	return gone;
}

/* With the seat's lock in hand. */
static void wake_locked(struct seat *s)
{
	if (s->suspended && !s->held) {
		s->suspended = false;
		s->wake_at = 0;
		MHD_resume_connection(s->conn);
	} else {
		s->ready = true;
	}
}

void seat_hold(struct seat *s)
{
	lock_take(&s->lock);
	s->held = true;
	lock_give(&s->lock);
}

bool seat_sleep_held(struct seat *s)
{
	lock_take(&s->lock);
	const bool sleeps = s->held;
	if (sleeps) {
		s->suspended = true;
		MHD_suspend_connection(s->conn);
	}
	lock_give(&s->lock);
	return sleeps;
}

void seat_give_back(struct seat *s)
{
	lock_take(&s->lock);
	s->held = false;
	wake_locked(s);
	lock_give(&s->lock);
}

void seat_wake(struct seat *s)
{
	struct watch *w = &s->server->watch;

	if (atomic_exchange(&s->listed, true))
		return;
	struct seat *head = atomic_load(&w->ready);
	do {
		s->next = head;
	} while (!atomic_compare_exchange_weak(&w->ready, &head, s));
	if (!head) {
		const uint64_t one = 1;
		ssize_t n = write(w->event, &one, sizeof one);
		(void)n; /* it only fails when it is full, and then it is readable */
	}
}

/* ---- The thread ---- */

static void wake_listed(struct watch *w)
{
	struct seat *s = atomic_exchange(&w->ready, NULL);

	while (s) {
		struct seat *next = s->next;
		atomic_store(&s->listed, false);
		lock_take(&s->lock);
		if (s->fd >= 0)
			wake_locked(s);
		lock_give(&s->lock);
		s = next;
	}
}

static void client_gone(struct watch *w, uint64_t tag)
{
	struct seat *s = &w->seats[tag & 0xffffffffu];

	lock_take(&s->lock);
	if (s->fd >= 0 && s->turn == tag >> 32) {
		s->gone = true;
		wake_locked(s);
	}
	lock_give(&s->lock);
}

/* A client that takes too long to say what it wants is told so, past libmicrohttpd, which only reads at that time, and
 * hung up on. Through TLS it cannot be told. */
static void hang_up(struct seat *s, bool tls)
{
	static const char late[] = "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

	if (!tls && s->phase == SEAT_BODY) {
		ssize_t n = send(s->fd, late, sizeof late - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
		(void)n;
	}
	shutdown(s->fd, SHUT_RDWR);
	s->since = clock_now() + 60; /* once is enough */
}

/* As vacate_lost, where no other socket has come with its number. */
static void forget_lost(struct watch *w, struct seat *s, double now)
{
	lock_take(&w->lock);
	lock_take(&s->lock);
	if (s->phase == SEAT_COMING && now - s->since > LOST_S)
		vacate(w, s);
	lock_give(&s->lock);
	lock_give(&w->lock);
}

static void look_around(struct server *srv, struct watch *w, double now)
{
	for (size_t i = 0; i < w->n_seats; i++) {
		struct seat *s = &w->seats[i];
		lock_take(&s->lock);
		const double waited = now - s->since;
		const bool lost = s->phase == SEAT_COMING && waited > LOST_S;
		/* The word of a client's end may reach libmicrohttpd together with the last bytes, and it reads those
		 * only: it is told again until it has heard it. What has come already can still be read. */
		if (s->fd >= 0 && s->gone && (s->phase == SEAT_IDLE || s->phase == SEAT_BODY))
			shutdown(s->fd, SHUT_RD);
		if (s->closing) /* the same */
			shutdown(s->fd, SHUT_RDWR);
		else if (s->fd >= 0 && s->phase == SEAT_IDLE && waited > srv->limits.idle_s)
			hang_up(s, srv->tls);
		else if (s->fd >= 0 && s->phase == SEAT_BODY && waited > srv->limits.body_s)
			hang_up(s, srv->tls);
		else if (s->fd >= 0 && s->suspended && s->wake_at > 0 && now >= s->wake_at)
			wake_locked(s);
		lock_give(&s->lock);
		if (lost)
			forget_lost(w, s, now);
	}
	accept_some(srv);
}

static void watch_main(void *arg)
{
	struct server *srv = arg;
	struct watch *w = &srv->watch;
	double looked = clock_now();

	while (!atomic_load(&w->stop)) {
		struct epoll_event events[64];
		const int n = epoll_wait(w->epoll, events, 64, SCAN_MS);
		for (int i = 0; i < n; i++) {
			if (events[i].data.u64 == UINT64_MAX) {
				uint64_t count;
				ssize_t got = read(w->event, &count, sizeof count);
				(void)got;
			} else if (events[i].data.u64 == WATCH_LISTEN) {
				accept_some(srv);
			} else {
				client_gone(w, events[i].data.u64);
			}
		}
		wake_listed(w);
		const double now = clock_now();
		if (now - looked >= SCAN_MS / 1000.0) {
			looked = now;
			look_around(srv, w, now);
		}
	}
}

bool watch_start(struct server *srv, struct watch *w, size_t n_seats, struct cohort_err *err)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.u64 = UINT64_MAX};

	w->epoll = epoll_create1(EPOLL_CLOEXEC);
	w->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	w->seats = mem_zalloc(n_seats, sizeof *w->seats);
	w->has_lock = lock_init(&w->lock);
	w->has_accepting = lock_init(&w->accepting);
	if (w->epoll < 0 || w->event < 0 || !w->seats || !w->has_lock || !w->has_accepting ||
			epoll_ctl(w->epoll, EPOLL_CTL_ADD, w->event, &ev)) {
		err_set(err, COHORT_E_IO, "cannot watch connections: %s", strerror(errno));
		return false;
	}
	for (; w->n_seats < n_seats; w->n_seats++) {
		struct seat *s = &w->seats[w->n_seats];
		s->fd = -1;
		s->server = srv;
		if (!lock_init(&s->lock)) {
			err_set(err, COHORT_E_MEMORY, "out of memory");
			return false;
		}
	}
	w->started = thread_start(&w->thread, "cohort-watch", watch_main, srv);
	if (!w->started)
		err_set(err, COHORT_E_MEMORY, "cannot start a thread");
	return w->started;
}

void watch_empty(struct watch *w, double timeout_s)
{
	const double until = clock_now() + timeout_s;
	size_t n = 1;

	while (n > 0 && clock_now() < until) {
		for (size_t i = 0; i < w->n_seats; i++) {
			struct seat *s = &w->seats[i];
			lock_take(&s->lock);
			if (s->fd >= 0 && (s->phase == SEAT_IDLE || s->phase == SEAT_BODY))
				shutdown(s->fd, SHUT_RDWR);
			else if (s->fd >= 0)
				wake_locked(s);
			lock_give(&s->lock);
		}
		lock_take(&w->lock);
		n = w->n_taken;
		lock_give(&w->lock);
		if (n > 0)
			nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
	}
}

void watch_stop(struct watch *w)
{
	if (w->started) {
		atomic_store(&w->stop, true);
		thread_join(&w->thread);
	}
	for (size_t i = 0; i < w->n_seats; i++)
		lock_release(&w->seats[i].lock);
	mem_free(w->seats);
	if (w->has_lock)
		lock_release(&w->lock);
	if (w->has_accepting)
		lock_release(&w->accepting);
	if (w->epoll >= 0)
		close(w->epoll);
	if (w->event >= 0)
		close(w->event);
}
