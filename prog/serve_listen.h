/* Where the server listens. */
#ifndef PROG_SERVE_LISTEN_H
#define PROG_SERVE_LISTEN_H

#include <stdint.h>

/* A listening socket, and its address as a text for people; -1: it was said why not. */
int listen_tcp(const char *prog, const char *host, int64_t port, char *shown, int n_shown);
/* On a path; a socket that is left there by a server that has ended is replaced. */
int listen_unix(const char *prog, const char *path, char *shown, int n_shown);

#endif
