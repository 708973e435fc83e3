/* Calls of the C library that can be made to fail: memory, files, threads, sockets.
 *
 * fault.c defines them, so that every part of the process calls these, libraries included, and hands them on to the
 * system. It is compiled into a test program, or preloaded into another one (LD_PRELOAD=fault.so), where FAULT_BOX
 * names a file with a struct fault_box that both this process and a test map. Nothing fails or is counted unless it is
 * armed; live blocks are always counted. */
#ifndef TESTS_FAULT_H
#define TESTS_FAULT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Kinds of calls. Reading and writing is that of regular files: what a process says to itself through pipes and events
 * does not fail on any system. */
enum fault_kind {
	FAULT_ALLOC, /* malloc, calloc, realloc, and those that align */
	FAULT_MAP, /* mmap */
	FAULT_OPEN, /* whatever takes a descriptor: open, fopen, opendir, socket, pipe, eventfd, epoll */
	FAULT_STAT, /* stat, lstat, fstat */
	FAULT_READ, /* read, pread */
	FAULT_WRITE, /* write, pwrite */
	FAULT_SYNC, /* fsync, fdatasync */
	FAULT_TRUNCATE, /* ftruncate */
	FAULT_RENAME, /* rename, link, mkdir */
	FAULT_THREAD, /* pthread_create */
	FAULT_ACCEPT, /* accept, accept4 */
	FAULT_RECV, /* recv */
	FAULT_SEND, /* send, sendmsg, sendfile, writev */
	FAULT_KINDS, /* none: all are counted, none fails */
	FAULT_SIGNAL /* none fails; before the k-th call of any kind the process gets a SIGINT, as from a terminal */
};
/* In n_calls with FAULT_SIGNAL: calls of any kind while SIGINT had its default action, and since. k counts these. */
enum { FAULT_EARLY = 14, FAULT_CAUGHT = 15 };

/* The layout is also that of tests/e2e/serve_torture.py. */
struct fault_box {
	_Atomic uint32_t armed;
	uint32_t kind; /* which fails */
	uint32_t lasting; /* 0: the k-th call fails; 1: all from it on do */
	uint32_t show; /* 1: where a call fails is written to standard error */
	uint64_t k; /* counted from 1 since it was armed */
	_Atomic uint64_t n_calls[16]; /* by kind, while armed */
	_Atomic uint64_t n_failed;
	_Atomic int64_t n_live; /* blocks of memory, since the process began */
};

/* The box of this process. */
struct fault_box *fault_box_get(void);

/* From now on the k-th call of the kind fails, or all from it on; FAULT_KINDS counts only. */
void fault_arm(enum fault_kind kind, uint64_t k, bool lasting);
void fault_disarm(void);
/* What this thread calls in between is the test's own: neither counted nor failed. */
void fault_pause(void);
void fault_resume(void);

const char *fault_kind_name(enum fault_kind kind);

#endif
