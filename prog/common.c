/* Shared by the programs. */
#include "common.h"
#include "cohort_tools.h"
#include "term.h"
#include "width.h"

#include "base/cpus.h"
#include "base/err.h"
#include "base/hwcap.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/pool.h"
#include "base/utf8.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef COHORT_DATADIR
#define COHORT_DATADIR "/usr/local/share/cohort"
#endif

#define MODEL "cohort-tiny.gguf"

/* A signal comes to any thread, and others look: not sig_atomic_t, which is for one. */
static _Atomic int stop, wake_fd = -1;
static bool line_shown;
static void (*owner_end)(void *user);
static void *owner;

const char *builtin_model(const char *prog)
{
	/* From the program's own place: the build tree, an installation that was moved; then the configured directory.
	 */
	static const char *const places[] = {"../models/" MODEL, "../share/cohort/" MODEL};
	static char path[4096 + 64];
	char exe[4096];
	struct stat st;
	ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);

	if (n > 0) {
		exe[n] = '\0';
		char *slash = strrchr(exe, '/');
		if (slash)
			*slash = '\0';
		for (size_t i = 0; slash && i < sizeof places / sizeof *places; i++) {
			snprintf(path, sizeof path, "%s/%s", exe, places[i]);
			if (stat(path, &st) == 0)
				return path;
		}
	}
	snprintf(path, sizeof path, "%s/%s", COHORT_DATADIR, MODEL);
	if (stat(path, &st) == 0)
		return path;
	fprintf(stderr,
			"%s: the built-in model was not found; looked for %s%s../models/%s, ../share/cohort/%s and %s. "
			"Give one with -model FILE.\n",
			prog, n > 0 ? exe : "", n > 0 ? "/" : "", MODEL, MODEL, path);
	return NULL;
}

void progress_line(double started, const char *fmt, ...)
{
	va_list ap;
	if (!isatty(STDERR_FILENO) || clock_now() - started < 2.0)
		return;
	fputs("\r\033[K", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fflush(stderr);
	line_shown = true;
}

/* "4 s", "2 min 05 s", "3 h 12 min" */
static void show_span(char *out, size_t n, double seconds)
{
	const long s = seconds < 0 ? 0 : seconds > 1e8 ? 100000000
						       : (long)(seconds + 0.5);

	if (s < 60)
		snprintf(out, n, "%ld s", s);
	else if (s < 3600)
		snprintf(out, n, "%ld min %02ld s", s / 60, s % 60);
	else
		snprintf(out, n, "%ld h %02ld min", s / 3600, s / 60 % 60);
}

void progress_bar(double started, const char *what, double done, double total, const char *unit)
{
	enum { CELLS = 24 };
	const double passed = clock_now() - started, rate = passed > 0 ? done / passed : 0;
	const double share = total > 0 ? (done < total ? done / total : 1) : 0;
	char bar[CELLS + 1], left[32] = "?", speed[64] = "";

	if (passed < 2.0)
		return;
	for (int i = 0; i < CELLS; i++)
		bar[i] = (i + 0.5) / CELLS < share ? '#' : '.';
	bar[CELLS] = '\0';
	if (rate > 0)
		show_span(left, sizeof left, (total - done) / rate);
	if (unit)
		snprintf(speed, sizeof speed, "  %.*f %s/s", rate < 10 ? 1 : 0, rate, unit);
	progress_line(started, "%s [%s] %3.0f %%%s  %s left", what, bar, 100 * share, speed, left);
}

void progress_end(void)
{
	if (line_shown)
		fputs("\r\033[K", stderr);
	line_shown = false;
	if (owner_end)
		owner_end(owner);
}

void progress_owner(void (*end)(void *user), void *user)
{
	owner_end = end;
	owner = user;
}

static bool loading(float done, void *user)
{
	progress_bar(*(const double *)user, "loading", (double)done, 1, NULL);
	return !stop;
}

int bad_usage(const char *prog, const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "%s: ", prog);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, "\nTry '%s --help'.\n", prog);
	return EXIT_USAGE;
}

int out_of_memory(const char *prog)
{
	progress_end();
	fprintf(stderr, "%s: out of memory\n", prog);
	return EXIT_RUN;
}

int fail(const char *prog, const struct cohort_err *err)
{
	const bool shown = isatty(STDERR_FILENO);
	const size_t n = strlen(err->text);
	struct glyph g;

	progress_end();
	fprintf(stderr, "%s: ", prog);
	/* It may quote what others wrote, which must not steer the terminal; and memory may be out. */
	for (size_t at = 0; shown && at < n;) {
		at += glyph_next(err->text + at, n - at, &g);
		fwrite(g.bytes, 1, g.n_bytes, stderr);
	}
	fprintf(stderr, "%s\n", shown ? "" : err->text);
	switch (err->status) {
	case COHORT_ABORTED: return EXIT_INTERRUPTED;
	case COHORT_E_ARG: return EXIT_USAGE;
	default: return EXIT_RUN;
	}
}

int load_opts_apply(const char *prog, struct load_opts *l, struct cohort_model_params *params)
{
	size_t n = 0;

	params->device = l->device;
	params->file_layout = l->file_layout;
	params->no_mmap = l->no_mmap;
	params->mlock = l->mlock;
	for (size_t i = 0; i < l->lora.n; i++) {
		l->adapters[n] = l->lora.items[i];
		l->adapter_scales[n++] = 1.0f;
	}
	for (size_t i = 0; i < l->lora_scaled.n; i++) {
		char *colon = strrchr(l->lora_scaled.items[i], ':'), *end = NULL;
		const double scale = colon ? strtod(colon + 1, &end) : 0.0;
		if (!colon || colon[1] == '\0' || *end || !(scale > -1e6 && scale < 1e6))
			return bad_usage(prog, "-lora-scaled expects FILE:SCALE, got '%s'", l->lora_scaled.items[i]);
		*colon = '\0'; /* of the command line, which is ours */
		l->adapters[n] = l->lora_scaled.items[i];
		l->adapter_scales[n++] = (float)scale;
	}
	params->adapters = l->adapters;
	params->adapter_scales = l->adapter_scales;
	params->n_adapters = n;
	return 0;
}

/* A model is opened by its first part: the others are not listed. */
static bool lists_as_model(const char *name)
{
	const size_t n = strlen(name), tail = sizeof "-00001-of-00002.gguf" - 1;

	if (n < 6 || strcmp(name + n - 5, ".gguf") != 0)
		return false;
	return n < tail || strncmp(name + n - 14, "-of-", 4) != 0 || strncmp(name + n - tail, "-00001", 6) == 0;
}

int model_refused(const char *prog, const char *path, const struct cohort_err *err)
{
	enum { NAMES_MAX = 3 };
	DIR *d = opendir(path); /* NULL unless it is a directory */
	char name[ERR_SHOW_BYTES];
	size_t n = 0;

	fprintf(stderr, "%s: cannot use the model %s", prog, err->text);
	for (const struct dirent *e; d && (e = readdir(d));)
		if (lists_as_model(e->d_name) && n++ < NAMES_MAX)
			fprintf(stderr, "%s%s", n == 1 ? "; it holds " : ", ",
					err_show(name, e->d_name, strlen(e->d_name)));
	if (d)
		fputs(n == 0 ? " without .gguf files" : n > NAMES_MAX ? ", ..." : "", stderr);
	fputc('\n', stderr);
	if (d)
		closedir(d);
	return EXIT_MODEL;
}

int load_model(const char *prog, const char *path, const struct cohort_model_params *params, struct cohort_model **out)
{
	struct cohort_model_params p = *params;
	struct cohort_model_info info;
	struct cohort_err err;
	double started = clock_now();

	for (size_t i = 0; p.isa && i < cohort_isa_count(); i++)
		if (strcmp(p.isa, cohort_isa_name(i)) == 0 && !cohort_isa_usable(i)) {
			fprintf(stderr, "%s: this CPU cannot run instruction set level '%s'\n", prog, p.isa);
			return EXIT_USAGE;
		}
	if (!path)
		path = builtin_model(prog);
	if (!path)
		return EXIT_MODEL;
	p.progress = loading;
	p.progress_user = &started;
	enum cohort_status st = cohort_model_open(path, &p, out, &err);
	progress_end();
	if (st == COHORT_ABORTED)
		return EXIT_INTERRUPTED;
	/* What is wrong with an adapter is said with its name behind the model's, which is not to blame. */
	for (size_t i = 0; st && i < p.n_adapters; i++) {
		const char *at = strstr(err.text, p.adapters[i]);
		if (at && at > err.text) {
			fprintf(stderr, "%s: cannot use the adapter %s\n", prog, at);
			return EXIT_MODEL;
		}
	}
	if (st == COHORT_E_ARG) {
		fprintf(stderr, "%s: %s\n", prog, err.text);
		return EXIT_USAGE;
	}
	if (st)
		return model_refused(prog, path, &err);
	cohort_model_info_get(*out, &info);
	if (*info.note)
		fprintf(stderr, "%s: note: %s\n", prog, info.note);
	return 0;
}

int repack_all(struct cohort_context *ctx)
{
	const double started = clock_now();
	double done;

	while ((done = cohort_repack(ctx, 0.1)) < 1 && !stop)
		progress_bar(started, "repacking", done, 1, NULL);
	progress_end();
	return stop ? EXIT_INTERRUPTED : 0;
}

static void end_now(int sig)
{
	(void)sig;
	_exit(EXIT_INTERRUPTED);
}

static void on_signal(int sig)
{
	if (stop) {
		if (sig == SIGINT)
			_exit(EXIT_INTERRUPTED);
		signal(sig, SIG_DFL);
		raise(sig);
	}
	stop = sig;
	interrupt_wake();
}

void interrupt_wake_set(int fd)
{
	wake_fd = fd;
}

void interrupt_wake(void)
{
	const int before = errno, fd = wake_fd;

	if (fd >= 0 && write(fd, "", 1) < 0) { /* the pipe is full: whoever waits is awake already */
	}
	errno = before;
}

void start_signals(void)
{
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	/* A shell starts what is in its background with the signal ignored. */
	if (signal(SIGINT, end_now) == SIG_IGN)
		signal(SIGINT, SIG_IGN);
}

bool hide_levels(const char *prog)
{
	const char *names = getenv("COHORT_HIDE_ISA");

	if (hwcap_hide(names))
		return true;
	fprintf(stderr, "%s: the environment variable COHORT_HIDE_ISA is '%s', expected some of: " HWCAP_HIDE_NAMES "\n"
			"Set it right, or unset it.\n", prog, names);
	return false;
}

void catch_signals(void)
{
	/* A write to a slow reader goes on after the first signal: what was generated comes out whole. */
	struct sigaction sa = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
	sigemptyset(&sa.sa_mask);
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
}

enum cohort_status read_input(const char *path, size_t n_max, char **out, size_t *n_bytes, struct cohort_err *err)
{
	static const int signals[] = {SIGINT, SIGTERM};
	struct sigaction sa = {.sa_handler = end_now}, before[2];

	sigemptyset(&sa.sa_mask);
	for (int i = 0; i < 2; i++) {
		sigaction(signals[i], NULL, &before[i]);
		if (before[i].sa_handler != SIG_IGN)
			sigaction(signals[i], &sa, NULL);
	}
	const enum cohort_status st = file_read(path, n_max, out, n_bytes, err);
	for (int i = 0; i < 2; i++)
		sigaction(signals[i], &before[i], NULL);
	return st;
}

bool interrupted(void)
{
	return stop != 0;
}

int interrupt_take(void)
{
	return atomic_exchange(&stop, 0);
}

int close_stdout(const char *prog)
{
	/* Of a write that failed before, the reason is still there: whoever prints on fails again. */
	const int bad = ferror(stdout), before = errno;

	errno = 0;
	if (fflush(stdout) == 0 && !bad)
		return 0;
	const int why = errno ? errno : before;
	if (why != EPIPE)
		fprintf(stderr, "%s: cannot write to standard output: %s\n", prog, why ? strerror(why) : "write error");
	return EXIT_FILE;
}

struct cohort_room_info room_of(struct cohort_room_params p)
{
	struct cohort_room_info room = {.n_free = -1, .n_ctx_needed = INT32_MAX};

	p.struct_size = sizeof p;
	cohort_room_needed(&p, &room, NULL);
	return room;
}

int64_t threads_default(void)
{
	const size_t n = cpus_usable();
	return n < 1024 ? (int64_t)n : 1024; /* as the options have it */
}

int32_t thread_count(bool given, int64_t n)
{
	const int64_t cpus = threads_default();
	return (int32_t)(given || n <= cpus ? n : cpus);
}

bool next_line(const char *text, size_t n, size_t *at, struct text_line *line)
{
	if (*at >= n)
		return false;
	const char *from = text + *at, *end = memchr(from, '\n', n - *at);
	size_t len = end ? (size_t)(end - from) : n - *at;

	*at += len + (end != NULL);
	if (end && len > 0 && from[len - 1] == '\r')
		len--;
	line->text = from;
	line->n_bytes = len;
	return true;
}

int need_tokenizer(const char *prog, const struct cohort_model *m)
{
	struct cohort_model_info info = {.struct_size = sizeof info};

	cohort_model_info_get(m, &info);
	if (*info.tokenizer)
		return 0;
	fprintf(stderr, "%s: the model has no tokeniser, so there is no way to give it text\n", prog);
	return EXIT_MODEL;
}

int load_text_model(const char *prog, const char *path, const char *isa, struct load_opts *load,
		struct cohort_model **out, struct cohort_model_info *info)
{
	struct cohort_model_params mp;

	cohort_model_params_init(&mp);
	mp.isa = isa;
	int rc = load_opts_apply(prog, load, &mp);
	if (!rc)
		rc = load_model(prog, path, &mp, out);
	if (rc)
		return rc;
	cohort_model_info_get(*out, info);
	return need_tokenizer(prog, *out);
}

const char *gguf_name(char out[GGUF_NAME_BYTES], const char *s, size_t n)
{
	const struct cohort_gguf_value v = {.type = COHORT_GGUF_STRING, .str = s, .n_str = n};
	enum { ROOM = GGUF_NAME_BYTES - 3 }; /* for the dots of a name that is cut */
	const bool cut = cohort_gguf_format(&v, 0, out, ROOM) >= ROOM;
	const size_t len = strlen(out);

	/* Without the quotation marks; a text that is cut has none at its end. */
	memcpy(out + len - !cut, cut ? "..." : "", cut ? 4 : 1);
	return out + 1;
}

static bool odd_byte(const char *s, size_t n, size_t *len)
{
	uint32_t cp;
	*len = utf8_decode(s, n, &cp);
	return *len == 0 || cp < 32 || (cp >= 127 && cp < 160) || char_steers(cp); /* C0, DEL, C1 */
}

char *printable(const char *s)
{
	size_t n = strlen(s);
	char *out = mem_strndup(s, n);

	for (size_t i = 0, len; out && i < n; i += len ? len : 1)
		if (odd_byte(s + i, n - i, &len))
			memset(out + i, '?', len ? len : 1);
	return out;
}

/* One word as a shell reads it: bare, in single quotes, or, with bytes that no line can show, as $'...'. */
static char *quote(char *out, const char *s)
{
	static const char bare[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_./=,:+@%";
	const size_t n = strlen(s);
	bool odd = false;

	if (n > 0 && strspn(s, bare) == n) {
		memcpy(out, s, n);
		return out + n;
	}
	for (size_t i = 0, len; i < n; i += len ? len : 1)
		odd = odd_byte(s + i, n - i, &len) || odd;
	if (odd)
		*out++ = '$';
	*out++ = '\'';
	for (size_t i = 0; i < n; i++) {
		const unsigned char c = (unsigned char)s[i];
		if (odd && (c < 32 || c > 126 || c == '\'' || c == '\\'))
			out += sprintf(out, "\\x%02x", c);
		else if (c == '\'')
			out += sprintf(out, "'\\''");
		else
			*out++ = (char)c;
	}
	*out++ = '\'';
	return out;
}

char *command_line(int argc, const char *const *argv)
{
	size_t n = 1;
	for (int i = 0; i < argc; i++)
		n += 4 * strlen(argv[i]) + 4; /* a byte becomes four at most; quotes, a dollar and a space */
	char *out = mem_alloc(n, 1), *p = out;

	for (int i = 0; out && i < argc; i++) {
		if (i > 0)
			*p++ = ' ';
		p = quote(p, argv[i]);
	}
	if (out)
		*p = '\0';
	return out;
}

bool stop_asked(void *user)
{
	(void)user;
	return interrupted();
}

void print_token(struct cohort_detok *d, cohort_token t)
{
	char small[256], *big = NULL;
	size_t n = 0;
	enum cohort_status st = cohort_detok_push(d, t, small, sizeof small, &n, NULL);

	if (st == COHORT_E_LIMIT && (big = mem_alloc(n, 1)))
		st = cohort_detok_push(d, t, big, n, &n, NULL);
	if (st == COHORT_OK)
		term_print(stdout, big ? big : small, n);
	mem_free(big);
}

void print_rest(struct cohort_detok *d)
{
	char tail[4] = {0};
	const size_t n = cohort_detok_flush(d, tail);
	term_print(stdout, tail, n);
}
