/* Listening sockets: an address and a port, or a path. */
#include "serve_listen.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { BACKLOG = 512 };

static int cannot(const char *prog, const char *where, const char *why)
{
	fprintf(stderr, "%s: cannot listen on %s: %s\n", prog, where, why);
	return -1;
}

static void show(int fd, const char *host, char *shown, int n_shown)
{
	struct sockaddr_storage a;
	socklen_t n = sizeof a;
	char port[16] = "?";

	if (getsockname(fd, (struct sockaddr *)&a, &n) == 0)
		getnameinfo((struct sockaddr *)&a, n, NULL, 0, port, sizeof port, NI_NUMERICSERV);
	snprintf(shown, (size_t)n_shown, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
}

int listen_tcp(const char *prog, const char *host, int64_t port, char *shown, int n_shown)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
	struct addrinfo *all = NULL;
	char service[16], where[300];
	const int one = 1;
	int fd = -1, why = 0;

	snprintf(service, sizeof service, "%d", (int)port);
	snprintf(where, sizeof where, "%.250s:%s", host, service);
	const int rc = getaddrinfo(host, service, &hints, &all);
	if (rc)
		return cannot(prog, where, gai_strerror(rc));
	for (const struct addrinfo *a = all; a && fd < 0; a = a->ai_next) {
		fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, a->ai_protocol);
		if (fd < 0) {
			why = errno;
			continue;
		}
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
		if (bind(fd, a->ai_addr, a->ai_addrlen) || listen(fd, BACKLOG)) {
			why = errno;
			close(fd);
			fd = -1;
		}
	}
	freeaddrinfo(all);
	if (fd < 0)
		return cannot(prog, where,
				why == EADDRINUSE ? "something listens there already; choose another -port"
						  : strerror(why));
	show(fd, host, shown, n_shown);
	return fd;
}

/* Whether a server answers on the path. */
static int alive(const struct sockaddr_un *a)
{
	const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	const int rc = fd < 0 ? -1 : connect(fd, (const struct sockaddr *)a, sizeof *a);

	if (fd >= 0)
		close(fd);
	return rc == 0;
}

int listen_unix(const char *prog, const char *path, char *shown, int n_shown)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	struct stat st;

	if (strlen(path) >= sizeof a.sun_path)
		return cannot(prog, path, "the path is too long for a socket");
	memcpy(a.sun_path, path, strlen(path) + 1);
	if (lstat(path, &st) == 0) {
		if (!S_ISSOCK(st.st_mode))
			return cannot(prog, path, "there is a file of that name, which is no socket");
		if (alive(&a))
			return cannot(prog, path, "another server listens there");
		unlink(path);
	}
	const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	/* Who may connect is decided by the folder; nobody else may before that can be changed. */
	const mode_t mask = umask(0077);
	const int bad = fd < 0 || bind(fd, (const struct sockaddr *)&a, sizeof a) || listen(fd, BACKLOG);
	const int why = errno;
	umask(mask);
	if (bad) {
		if (fd >= 0)
			close(fd);
		return cannot(prog, path, strerror(why));
	}
	snprintf(shown, (size_t)n_shown, "unix:%s", path);
	return fd;
}
