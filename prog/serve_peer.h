/* Who is at the other end: addresses, those of trusted proxies, and X-Forwarded-For. Without sockets. */
#ifndef PROG_SERVE_PEER_H
#define PROG_SERVE_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

/* IPv4 addresses are ::ffff:a.b.c.d. */
struct peer {
	unsigned char ip[16];
	bool known; /* false: a Unix socket */
};
struct network {
	struct peer at;
	int bits; /* of 128 that count */
};
/* -trusted-proxy */
struct proxies {
	struct network *networks; /* [n], owned */
	size_t n;
	bool local; /* who comes through the Unix socket */
};

/* "10.0.0.0/8", "fd00::1", or "unix"; *no_memory tells why it is false, or else it is no such text. */
bool proxies_add(struct proxies *p, const char *text, bool *no_memory);
void proxies_release(struct proxies *p);
bool proxies_trust(const struct proxies *p, const struct peer *peer);

struct peer peer_of(const struct sockaddr *a);
bool peer_is_loopback(const struct peer *p);
/* What counts as one client: an IPv4 address, or the first 64 bits of an IPv6 address, which are one customer's. */
struct peer peer_client(struct peer p);
bool peer_same(const struct peer *a, const struct peer *b);
/* From the values of all X-Forwarded-For headers, in their order, with commas between: the last address that is no
 * trusted proxy's, which the first trusted proxy saw itself. What stands before it anybody can have written. from: who
 * sent them; what cannot be read counts as the end of the list. */
struct peer peer_forwarded(const struct proxies *p, struct peer from, const char *list);

#endif
