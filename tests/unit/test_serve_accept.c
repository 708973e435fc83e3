/* Who may connect: addresses and proxies, places and who leaves them, descriptors. With sockets, without HTTP.
 *
 * Shown red by planted faults: IPv6 addresses compared whole (addresses_of_clients_compared, one_client); a network's
 * last bits left out (trusted_proxies_are_read); a list read beyond what a trusted proxy saw
 * (forwarded_addresses_are_read); the newest idle connection closed (idle_connection_makes_place), one whose request
 * was not read yet (unread_request_is_under_way), or any client's for one that has too many (one_client); shared
 * addresses counted (shared_address_has_no_limit); requests of a client not counted (shared_address_has_no_limit); a
 * seat that a lost socket keeps (number_of_a_lost_socket_is_used_again); a limit that is never raised
 * (descriptor_limit_is_raised). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "serve.h"

/* ---- Addresses ---- */

static struct peer peer(const char *text)
{
	struct sockaddr_in a = {.sin_family = AF_INET};
	struct sockaddr_in6 b = {.sin6_family = AF_INET6};

	if (inet_pton(AF_INET, text, &a.sin_addr) == 1)
		return peer_of((const struct sockaddr *)&a);
	assert_int_equal(inet_pton(AF_INET6, text, &b.sin6_addr), 1);
	return peer_of((const struct sockaddr *)&b);
}

static bool same(struct peer a, struct peer b)
{
	return peer_same(&a, &b);
}

static bool loopback(const char *text)
{
	const struct peer p = peer(text);
	return peer_is_loopback(&p);
}

static void addresses_of_clients_compared(void **state)
{
	(void)state;
	assert_true(loopback("127.0.0.1") && loopback("127.8.9.10") && loopback("::1") && loopback("::ffff:127.0.0.1"));
	assert_false(loopback("128.0.0.1") || loopback("::2") || loopback("10.0.0.1"));
	assert_true(same(peer("::ffff:10.0.0.1"), peer("10.0.0.1")));
	assert_true(same(peer_client(peer("2001:db8::1")), peer_client(peer("2001:db8::ffff:2"))));
	assert_false(same(peer_client(peer("2001:db8::1")), peer_client(peer("2001:db8:0:1::1"))));
	assert_false(same(peer_client(peer("10.0.0.1")), peer_client(peer("10.0.0.2"))));
	const struct peer local = peer_of(&(struct sockaddr){.sa_family = AF_UNIX});
	assert_false(local.known || peer_is_loopback(&local) || same(local, peer("::")));
}

static bool trusts(const struct proxies *p, const char *text)
{
	const struct peer a = peer(text);
	return proxies_trust(p, &a);
}

static void trusted_proxies_are_read(void **state)
{
	static const char *const bad[] = {"", "/", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/8x", "10.0.0",
			"host", "::1/129", "fe80::1%eth0", "10.0.0.1, 10.0.0.2", "unix:",
			"0000000000000000000000000000000000000000000000000000000000000000000000000"};
	static const char *const good[] = {"10.16.0.0/12", "192.0.2.7", "fd00::/7", "2001:db8::5/128"};
	const struct peer local = {.known = false};
	struct proxies p = {0};
	bool no_memory;

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		if (proxies_add(&p, bad[i], &no_memory) || no_memory)
			fail_msg("'%s' was taken", bad[i]);
	for (size_t i = 0; i < sizeof good / sizeof *good; i++)
		assert_true(proxies_add(&p, good[i], &no_memory));
	assert_true(trusts(&p, "10.16.0.1") && trusts(&p, "10.31.255.255") && trusts(&p, "192.0.2.7"));
	assert_false(trusts(&p, "10.32.0.0") || trusts(&p, "10.15.255.255") || trusts(&p, "192.0.2.6"));
	assert_true(trusts(&p, "fc00::1") && trusts(&p, "fdff::") && trusts(&p, "2001:db8::5"));
	assert_false(trusts(&p, "fe00::") || trusts(&p, "2001:db8::4") || trusts(&p, "127.0.0.1"));
	assert_false(proxies_trust(&p, &local));
	assert_true(proxies_add(&p, "unix", &no_memory) && proxies_trust(&p, &local));
	proxies_release(&p);
	assert_true(proxies_add(&p, "0.0.0.0/0", &no_memory));
	assert_true(trusts(&p, "1.2.3.4"));
	assert_false(trusts(&p, "2001:db8::1"));
	proxies_release(&p);
}

static void forwarded_addresses_are_read(void **state)
{
	static const struct {
		const char *list, *is;
	} cases[] = {
			{"192.0.2.1", "192.0.2.1"},
			{"9.9.9.9, 192.0.2.1", "192.0.2.1"},
			{"9.9.9.9,192.0.2.1 ,\t10.0.0.2", "192.0.2.1"},
			{"10.0.0.3", "10.0.0.3"},
			{"10.0.0.4, 10.0.0.3", "10.0.0.4"},
			{"192.0.2.1:8080", "192.0.2.1"},
			{"[2001:db8::1]:443", "2001:db8::1"},
			{"[2001:db8::1]", "2001:db8::1"},
			{"2001:db8::1", "2001:db8::1"},
			{"", "10.0.0.1"},
			{"unknown", "10.0.0.1"},
			{"192.0.2.1, unknown", "10.0.0.1"},
			{"192.0.2.1, , 10.0.0.2", "10.0.0.2"},
			{"[2001:db8::1", "10.0.0.1"},
			{"[2001:db8::1]x", "10.0.0.1"},
	};
	struct proxies p = {0};
	bool no_memory;

	(void)state;
	assert_true(proxies_add(&p, "10.0.0.0/8", &no_memory));
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		if (!same(peer_forwarded(&p, peer("10.0.0.1"), cases[i].list), peer(cases[i].is)))
			fail_msg("'%s' is not %s", cases[i].list, cases[i].is);
	/* From somebody else nothing is read. */
	assert_true(same(peer_forwarded(&p, peer("192.0.2.9"), "192.0.2.1"), peer("192.0.2.9")));
	proxies_release(&p);
}

/* ---- Places ---- */

enum { CONNECTIONS = 6, OF_CLIENT = 3 };

static struct server srv;
static int other_ends[64];
static size_t n_ends;

static int open_places(void **state)
{
	struct cohort_err err;

	(void)state;
	srv = (struct server){.model = NULL};
	srv.limits = (struct serve_limits){
			.connections = CONNECTIONS, .client_connections = OF_CLIENT, .idle_s = 1000, .body_s = 1000};
	srv.watch.epoll = srv.watch.event = srv.watch.listen = -1;
	n_ends = 0;
	return watch_start(&srv, &srv.watch, CONNECTIONS + 4, &err) ? 0 : -1;
}

static int close_places(void **state)
{
	(void)state;
	for (size_t i = 0; i < srv.watch.n_seats; i++)
		if (srv.watch.seats[i].fd >= 0) {
			const int fd = srv.watch.seats[i].fd;
			seat_leave(&srv.watch, &srv.watch.seats[i]);
			close(fd);
		}
	for (size_t i = 0; i < n_ends; i++)
		close(other_ends[i]);
	watch_stop(&srv.watch);
	return 0;
}

static struct seat *come(const char *from)
{
	const struct peer p = peer(from);
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	other_ends[n_ends++] = fds[1];
	struct seat *s = seat_take(&srv, fds[0], &p);
	if (!s) {
		close(fds[0]);
		return NULL;
	}
	assert_ptr_equal(seat_find(&srv.watch, NULL, fds[0]), s);
	lock_take(&s->lock);
	s->since += (double)n_ends / 1000; /* whatever the clock can tell apart */
	lock_give(&s->lock);
	return s;
}

static void leave(struct seat *s)
{
	const int fd = s->fd;
	seat_leave(&srv.watch, s);
	close(fd);
}

static bool refused(struct seat *s)
{
	struct openai_error e = {0};
	return accept_refuses(&srv, s, &e);
}

/* All are taken: the one idle for longest goes, never one with a request. */
static void idle_connection_makes_place(void **state)
{
	struct seat *s[CONNECTIONS + 4];
	char from[16];
	size_t n = 0;

	(void)state;
	for (; n < CONNECTIONS; n++) {
		snprintf(from, sizeof from, "192.0.2.%zu", n);
		s[n] = come(from);
		assert_false(s[n]->over);
	}
	seat_phase_set(s[0], SEAT_WORK);
	seat_phase_set(s[1], SEAT_BODY);
	s[n] = come("198.51.100.1");
	assert_true(s[2]->closing && !s[0]->closing && !s[1]->closing && !s[3]->closing && !s[n]->over);
	for (size_t i = 0; i <= n; i++)
		if (i != 2)
			seat_phase_set(s[i], SEAT_WORK);
	s[++n] = come("198.51.100.2");
	assert_true(s[n]->over && refused(s[n]));
	/* What is refused while its body comes makes room, too. */
	seat_phase_set(s[1], SEAT_BODY);
	lock_take(&s[1]->lock);
	s[1]->refused = true;
	lock_give(&s[1]->lock);
	seat_phase_set(s[n], SEAT_WORK);
	s[++n] = come("198.51.100.3");
	assert_true(s[1]->closing && !s[n]->over);
	/* Room that came later counts. */
	leave(s[3]);
	leave(s[4]);
	assert_false(refused(s[n - 1]));
	/* No seat at all. */
	while ((s[0] = come("198.51.100.4")))
		;
	assert_false(watch_room(&srv.watch));
}

/* A request that nobody has read yet is under way as well. */
static void unread_request_is_under_way(void **state)
{
	struct seat *s[CONNECTIONS];
	char from[16];

	(void)state;
	for (size_t n = 0; n < CONNECTIONS; n++) {
		snprintf(from, sizeof from, "192.0.2.%zu", n);
		s[n] = come(from);
	}
	assert_int_equal(write(other_ends[n_ends - CONNECTIONS], "G", 1), 1);
	const struct seat *last = come("198.51.100.1");
	assert_true(s[1]->closing && !s[0]->closing && !last->over);
}

static void one_client(void **state)
{
	struct seat *s[CONNECTIONS];

	(void)state;
	s[0] = come("203.0.113.1");
	for (size_t i = 1; i <= OF_CLIENT; i++) {
		s[i] = come(i == 1 ? "2001:db8::1" : "2001:db8::1:2");
		assert_false(s[i]->over);
	}
	s[4] = come("2001:db8::3");
	assert_true(!s[4]->over && s[1]->closing && !s[0]->closing);
	for (size_t i = 2; i <= 4; i++)
		seat_phase_set(s[i], SEAT_WORK);
	s[5] = come("2001:db8::4");
	assert_true(s[5]->over && refused(s[5]) && !s[0]->closing);
	leave(s[2]);
	assert_false(refused(s[5]));
}

/* An address that is many clients' has no limit; its clients have. */
static void shared_address_has_no_limit(void **state)
{
	struct openai_error e = {0};
	struct seat *s[CONNECTIONS];

	(void)state;
	for (size_t i = 0; i < CONNECTIONS; i++)
		s[i] = come(i < 5 ? "127.0.0.1" : "192.0.2.1");
	for (size_t i = 0; i < CONNECTIONS; i++)
		assert_true(!s[i]->over && !s[i]->closing);
	for (size_t i = 0; i < OF_CLIENT; i++)
		assert_true(accept_counts(&srv, s[i], 7, &e));
	assert_false(accept_counts(&srv, s[3], 7, &e));
	assert_string_equal(e.code, "too_many_connections");
	assert_true(accept_counts(&srv, s[3], 8, &e) && accept_counts(&srv, s[4], 0, &e));
	assert_true(accept_counts(&srv, s[5], 7, &e));
	atomic_store(&s[0]->client, 0); /* its request is over */
	assert_true(accept_counts(&srv, s[4], 7, &e));
}

/* Without memory libmicrohttpd closes a socket and says nothing. The next one has its number, and a seat of its own. */
static void number_of_a_lost_socket_is_used_again(void **state)
{
	const struct peer p = peer("192.0.2.1");
	int fds[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	struct seat *lost = seat_take(&srv, fds[0], &p);
	assert_non_null(lost);
	lost->gone = true;
	close(fds[0]);
	close(fds[1]);
	struct seat *s = come("192.0.2.1");
	assert_int_equal(s->fd, fds[0]);
	assert_false(seat_gone(s));
	assert_int_equal(watch_count(&srv.watch), 1);
}

/* ---- Descriptors ---- */

/* In a process of its own, as limits cannot be raised again. Its exit code: connections, 255 for a refusal. */
static int fits(rlim_t soft, rlim_t hard, int64_t connections, bool given, rlim_t *then)
{
	int fds[2], status = 0;

	assert_int_equal(pipe(fds), 0);
	const pid_t pid = fork();
	if (pid == 0) {
		struct serve_limits l = {.connections = connections};
		struct rlimit r = {soft, hard};
		fclose(stderr);
		if (setrlimit(RLIMIT_NOFILE, &r))
			_exit(254);
		const bool ok = accept_fits("test", &l, given, 4);
		getrlimit(RLIMIT_NOFILE, &r);
		if (write(fds[1], &r.rlim_cur, sizeof r.rlim_cur) != sizeof r.rlim_cur)
			_exit(254);
		_exit(ok ? (int)l.connections : 255);
	}
	assert_true(pid > 0);
	assert_int_equal(read(fds[0], then, sizeof *then), sizeof *then);
	close(fds[0]);
	close(fds[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void descriptor_limit_is_raised(void **state)
{
	rlim_t then;

	(void)state;
	assert_int_equal(fits(500, 500, 100, false, &then), 100);
	assert_int_equal(then, 500);
	assert_int_equal(fits(64, 500, 100, true, &then), 100);
	assert_true(then > 200 && then < 500); /* as far as needed */
	const int n = fits(64, 120, 100, false, &then);
	assert_true(n > 5 && n < 60);
	assert_int_equal(then, 120);
	assert_int_equal(fits(64, 120, 100, true, &then), 255);
	assert_int_equal(fits(64, 120, n, true, &then), n);
	assert_int_equal(fits(16, 16, 100, false, &then), 255);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
			cmocka_unit_test(addresses_of_clients_compared),
			cmocka_unit_test(trusted_proxies_are_read),
			cmocka_unit_test(forwarded_addresses_are_read),
			cmocka_unit_test_setup_teardown(idle_connection_makes_place, open_places, close_places),
			cmocka_unit_test_setup_teardown(unread_request_is_under_way, open_places, close_places),
			cmocka_unit_test_setup_teardown(one_client, open_places, close_places),
			cmocka_unit_test_setup_teardown(shared_address_has_no_limit, open_places, close_places),
			cmocka_unit_test_setup_teardown(
					number_of_a_lost_socket_is_used_again, open_places, close_places),
			cmocka_unit_test(descriptor_limit_is_raised),
	};
	return cmocka_run_group_tests_name("serve_accept", tests, NULL, NULL);
}
