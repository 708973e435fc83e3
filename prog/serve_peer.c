/* Addresses of clients.
 *
 * Invariants
 *  1. What a stranger writes into a header decides nothing: only what a trusted proxy added is read. */
#include "serve_peer.h"

#include "base/mem.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

static const unsigned char mapped[12] = {[10] = 0xff, [11] = 0xff}, loopback[16] = {[15] = 1};

static bool is_v4(const struct peer *p)
{
	return memcmp(p->ip, mapped, sizeof mapped) == 0;
}

struct peer peer_of(const struct sockaddr *a)
{
	struct peer p = {.known = a->sa_family == AF_INET || a->sa_family == AF_INET6};

	if (a->sa_family == AF_INET) {
		memcpy(p.ip, mapped, sizeof mapped);
		memcpy(p.ip + 12, &((const struct sockaddr_in *)(const void *)a)->sin_addr, 4);
	} else if (a->sa_family == AF_INET6) {
		memcpy(p.ip, &((const struct sockaddr_in6 *)(const void *)a)->sin6_addr, 16);
	}
	return p;
}

bool peer_is_loopback(const struct peer *p)
{
	return p->known && (is_v4(p) ? p->ip[12] == 127 : memcmp(p->ip, loopback, sizeof loopback) == 0);
}

struct peer peer_client(struct peer p)
{
	if (p.known && !is_v4(&p) && !peer_is_loopback(&p))
		memset(p.ip + 8, 0, 8);
	return p;
}

bool peer_same(const struct peer *a, const struct peer *b)
{
	return a->known == b->known && memcmp(a->ip, b->ip, sizeof a->ip) == 0;
}

static bool parse(const char *text, struct peer *out)
{
	*out = (struct peer){.known = true};
	if (inet_pton(AF_INET6, text, out->ip) == 1)
		return true;
	memcpy(out->ip, mapped, sizeof mapped);
	return inet_pton(AF_INET, text, out->ip + 12) == 1;
}

/* An address of a header: A, A:PORT, B or [B]:PORT, with spaces around. */
static bool parse_item(const char *text, size_t n, struct peer *out)
{
	char copy[64];

	for (; n > 0 && (*text == ' ' || *text == '\t'); n--)
		text++;
	while (n > 0 && (text[n - 1] == ' ' || text[n - 1] == '\t'))
		n--;
	if (n == 0 || n >= sizeof copy)
		return false;
	memcpy(copy, text, n);
	copy[n] = 0;
	char *colon = strchr(copy, ':');
	if (*copy == '[') {
		char *end = strchr(copy, ']');
		if (!end || (end[1] && end[1] != ':'))
			return false;
		*end = 0;
		return parse(copy + 1, out);
	}
	if (colon && !strchr(colon + 1, ':'))
		*colon = 0;
	return parse(copy, out);
}

bool proxies_add(struct proxies *p, const char *text, bool *no_memory)
{
	struct network net;
	char copy[64];
	const char *slash = strchr(text, '/');
	const size_t n = slash ? (size_t)(slash - text) : strlen(text);

	*no_memory = false;
	if (strcmp(text, "unix") == 0) {
		p->local = true;
		return true;
	}
	if (n >= sizeof copy)
		return false;
	memcpy(copy, text, n);
	copy[n] = 0;
	if (!parse(copy, &net.at))
		return false;
	const int most = is_v4(&net.at) && !strchr(copy, ':') ? 32 : 128;
	char *end = NULL;
	const long bits = slash ? strtol(slash + 1, &end, 10) : most;
	if (slash && (slash[1] < '0' || slash[1] > '9' || *end || bits > most))
		return false;
	net.bits = (int)bits + 128 - most;
	struct network *more = mem_realloc(p->networks, p->n + 1, sizeof *more);
	if (!more) {
		*no_memory = true;
		return false;
	}
	p->networks = more;
	p->networks[p->n++] = net;
	return true;
}

void proxies_release(struct proxies *p)
{
	mem_free(p->networks);
	*p = (struct proxies){0};
}

static bool is_within(const struct peer *p, const struct network *net)
{
	const int whole = net->bits / 8, rest = net->bits % 8;

	return memcmp(p->ip, net->at.ip, (size_t)whole) == 0 &&
			(rest == 0 || (p->ip[whole] ^ net->at.ip[whole]) >> (8 - rest) == 0);
}

bool proxies_trust(const struct proxies *p, const struct peer *peer)
{
	if (!peer->known)
		return p->local;
	for (size_t i = 0; i < p->n; i++)
		if (is_within(peer, &p->networks[i]))
			return true;
	return false;
}

struct peer peer_forwarded(const struct proxies *p, struct peer from, const char *list)
{
	size_t end = strlen(list);

	while (proxies_trust(p, &from) && end > 0) {
		size_t begin = end;
		struct peer before;
		while (begin > 0 && list[begin - 1] != ',')
			begin--;
		if (!parse_item(list + begin, end - begin, &before))
			break;
		from = before;
		end = begin > 0 ? begin - 1 : 0;
	}
	return from;
}
