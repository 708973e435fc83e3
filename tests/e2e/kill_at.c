/* kill_at N[:CALL] PERCENT FOLDER REPORT COMMAND...: runs a command and kills it as by kill -9 just before its N-th
 * system call that changes a file: open with O_CREAT or O_TRUNC, write, fsync, truncate, rename, unlink and their kin,
 * of all its threads; of writes and syncs those to files below FOLDER. CALL: only those of this name. N 0: they are
 * only counted. PERCENT above 0: if the N-th is a write, so much of it is done first (x86-64; elsewhere none).
 *
 * Into REPORT go the name of the call it was killed at, or "-", and NAME=N for each that was seen. The exit code is 137
 * when it was killed here, 77 when nothing can be traced on this machine, else the command's.
 *
 * A filter in the kernel (seccomp) stops the command at these calls only, so that it is about as fast as ever. */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __x86_64__
#include <sys/user.h>
#endif

enum kind { NAME, OPENS, FD, WRITE }; /* counted always; if its flags say so; if its file is below the folder */

static const struct call {
	long nr;
	enum kind kind;
	int i_flags; /* of OPENS: which argument has them */
	const char *name;
} calls[] = {
		{SYS_openat, OPENS, 2, "openat"},
		{SYS_write, WRITE, 0, "write"},
		{SYS_pwrite64, WRITE, 0, "pwrite"},
		{SYS_writev, FD, 0, "writev"},
		{SYS_fsync, FD, 0, "fsync"},
		{SYS_fdatasync, FD, 0, "fdatasync"},
		{SYS_ftruncate, FD, 0, "ftruncate"},
		{SYS_renameat2, NAME, 0, "renameat2"},
		{SYS_unlinkat, NAME, 0, "unlinkat"},
		{SYS_linkat, NAME, 0, "linkat"},
		{SYS_mkdirat, NAME, 0, "mkdirat"},
#ifdef SYS_renameat
		{SYS_renameat, NAME, 0, "renameat"},
#endif
#ifdef SYS_open
		{SYS_open, OPENS, 1, "open"},
		{SYS_creat, NAME, 0, "creat"},
		{SYS_rename, NAME, 0, "rename"},
		{SYS_unlink, NAME, 0, "unlink"},
		{SYS_link, NAME, 0, "link"},
		{SYS_mkdir, NAME, 0, "mkdir"},
#endif
};
enum { N_CALLS = sizeof calls / sizeof *calls };

struct info { /* struct ptrace_syscall_info at a stop by the filter; headers disagree about where it is declared */
	uint8_t op, pad[3];
	uint32_t arch;
	uint64_t ip, sp, nr, args[6];
	uint32_t data;
};

struct run {
	pid_t pid;
	unsigned long n, n_seen; /* of those that are asked for */
	const char *only; /* NULL: of any name */
	unsigned long counts[N_CALLS];
	unsigned percent;
	const char *folder;
	const char *at; /* the call it was killed at; NULL: not yet */
};

static void filter_on(void)
{
	struct sock_filter f[2 * N_CALLS + 2];
	size_t n = 0;

	f[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	for (size_t i = 0; i < N_CALLS; i++) {
		f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)calls[i].nr, 0, 1);
		f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE);
	}
	f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	const struct sock_fprog p = {.len = (unsigned short)n, .filter = f};
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &p) != 0)
		_exit(77);
}

static bool below(const struct run *r, pid_t tid, uint64_t fd)
{
	char link[64], path[4096];
	const size_t n = strlen(r->folder);

	snprintf(link, sizeof link, "/proc/%d/fd/%d", (int)tid, (int)fd);
	const ssize_t k = readlink(link, path, sizeof path - 1);
	if (k < 0)
		return false;
	path[k] = '\0';
	return strncmp(path, r->folder, n) == 0 && (path[n] == '/' || path[n] == '\0');
}

static bool counts(const struct run *r, pid_t tid, const struct call *c, const struct info *info)
{
	switch (c->kind) {
	case NAME: return true;
	case OPENS: return (info->args[c->i_flags] & (O_CREAT | O_TRUNC)) != 0;
	default: return below(r, tid, info->args[0]);
	}
}

/* Lets a part of a write happen. */
static void do_part(pid_t tid, unsigned percent)
{
#ifdef __x86_64__
	struct user_regs_struct regs;
	int status;

	if (ptrace(PTRACE_GETREGS, tid, NULL, &regs) != 0)
		return;
	regs.rdx = regs.rdx * percent / 100;
	if (regs.rdx > 0 && ptrace(PTRACE_SETREGS, tid, NULL, &regs) == 0 &&
			ptrace(PTRACE_SYSCALL, tid, NULL, NULL) == 0)
		waitpid(tid, &status, __WALL); /* behind the call */
#else
	(void)tid;
	(void)percent;
#endif
}

static void look(struct run *r, pid_t tid)
{
	struct info info = {0};

	if (ptrace(PTRACE_GET_SYSCALL_INFO, tid, sizeof info, &info) <= 0)
		return;
	for (size_t i = 0; i < N_CALLS; i++) {
		if (calls[i].nr != (long)info.nr || !counts(r, tid, &calls[i], &info))
			continue;
		r->counts[i]++;
		if ((r->only && strcmp(r->only, calls[i].name) != 0) || ++r->n_seen != r->n)
			return;
		if (calls[i].kind == WRITE && r->percent > 0)
			do_part(tid, r->percent);
		r->at = calls[i].name;
		kill(r->pid, SIGKILL);
	}
}

/* Until the command has ended; its status. */
static int follow(struct run *r)
{
	int status = 0;

	for (;;) {
		const pid_t tid = waitpid(-1, &status, __WALL);
		if (tid < 0 && errno == EINTR)
			continue;
		if (tid < 0)
			return 0;
		if (!WIFSTOPPED(status)) {
			if (tid == r->pid)
				return status;
			continue;
		}
		const int event = status >> 16, sig = WSTOPSIG(status);
		if (event == PTRACE_EVENT_SECCOMP && !r->at)
			look(r, tid);
		/* New threads begin with a SIGSTOP of the tracer's, a new program with a SIGTRAP. */
		ptrace(PTRACE_CONT, tid, NULL, (void *)(intptr_t)(event || sig == SIGSTOP || sig == SIGTRAP ? 0 : sig));
	}
}

int main(int argc, char **argv)
{
	int status;

	if (argc < 6) {
		fputs("usage: kill_at N[:CALL] PERCENT FOLDER REPORT COMMAND...\n", stderr);
		return 2;
	}
	struct run r = {.n = strtoul(argv[1], NULL, 10),
			.percent = (unsigned)strtoul(argv[2], NULL, 10),
			.folder = argv[3]};
	const char *colon = strchr(argv[1], ':');
	r.only = colon ? colon + 1 : NULL;
	r.pid = fork();
	if (r.pid < 0)
		return 77;
	if (r.pid == 0) {
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
			_exit(77);
		raise(SIGSTOP);
		filter_on();
		execv(argv[5], argv + 5);
		_exit(126);
	}
	if (waitpid(r.pid, &status, 0) != r.pid || !WIFSTOPPED(status))
		return 77;
	/* Who ends this ends the command. */
	if (ptrace(PTRACE_SETOPTIONS, r.pid, NULL,
			    (void *)(PTRACE_O_TRACESECCOMP | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK |
					    PTRACE_O_TRACEVFORK | PTRACE_O_EXITKILL)) != 0) {
		kill(r.pid, SIGKILL);
		return 77;
	}
	ptrace(PTRACE_CONT, r.pid, NULL, NULL);
	status = follow(&r);
	FILE *f = fopen(argv[4], "w");
	if (f) {
		fputs(r.at ? r.at : "-", f);
		for (size_t i = 0; i < N_CALLS; i++)
			if (r.counts[i] > 0)
				fprintf(f, " %s=%lu", calls[i].name, r.counts[i]);
		fputc('\n', f);
		fclose(f);
	}
	return r.at ? 137 : WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
