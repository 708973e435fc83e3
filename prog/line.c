/* Reads lines: by libedit on a terminal, by itself otherwise.
 *
 * 1. All reading of standard input goes through wait_bytes, which hears of signals whatever thread gets them: the
 *    handlers write to a pipe (common.c).
 * 2. Text is UTF-8 whatever the locale: bytes become characters here, and characters bytes. On a terminal a byte that
 *    is not UTF-8 becomes U+FFFD; in a pipe bytes stay what they are.
 * 3. The terminal is in its usual mode whenever line_read is not running.
 * 4. What is pasted is text, line ends included, whatever its characters are bound to: terminals mark its beginning and
 *    end when they are asked to.
 *
 * It does not know what lines mean, but for what Tab is to complete. */
#include "line.h"

#include "common.h"
#include "line_history.h"
#include "term.h"

#include "base/mem.h"
#include "base/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <histedit.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

enum { CHUNK_BYTES = 1 << 16, MATCHES_MAX = 256 };

struct line {
	const struct line_params *p;
	bool terminal;
	int wake[2]; /* a pipe: signals write, wait_bytes reads */
	char in[CHUNK_BYTES]; /* read, not yet used: [in_at, in_n) */
	size_t in_at, in_n;
	bool at_end, failed;
	int sig; /* that ended the wait */
	int n_ctrl_c; /* in a row */
	char *text; /* the line */
	size_t n_text, text_max;
	EditLine *el;
	HistoryW *history;
	char *history_path; /* NULL: no file */
	bool pastes; /* the terminal is asked to mark them */
	bool more;
	wchar_t prompt[64];
};

static _Atomic int resized, continued; /* a signal comes to any thread */

/* ---- Input ---- */

static void on_window(int sig)
{
	if (sig == SIGWINCH)
		resized = 1;
	else
		continued = 1;
	interrupt_wake();
}

/* Asks the terminal to mark pastes, or no longer to. */
static void mark_pastes(const struct line *l, bool on)
{
	if (l->pastes)
		fputs(on ? "\033[?2004h" : "\033[?2004l", stderr);
}

static void drain(int fd)
{
	char bytes[64];
	while (read(fd, bytes, sizeof bytes) > 0)
		;
}

/* Until there are bytes in l->in. False: the end of the input, a failure, or a signal (l->sig). */
static bool wait_bytes(struct line *l)
{
	while (l->in_at == l->in_n) {
		struct pollfd fds[] = {{STDIN_FILENO, POLLIN, 0}, {l->wake[0], POLLIN, 0}};
		l->sig = interrupt_take();
		if (l->sig || l->at_end)
			return false;
		/* Taken before the work: what comes meanwhile is seen next time. */
		const bool was_continued = l->el && atomic_exchange(&continued, 0);
		const bool was_resized = l->el && atomic_exchange(&resized, 0);
		if (was_continued || was_resized) {
			if (was_continued) { /* the shell has had the terminal meanwhile */
				el_wset(l->el, EL_PREP_TERM, 0);
				el_wset(l->el, EL_PREP_TERM, 1);
				mark_pastes(l, true);
			}
			el_resize(l->el);
			el_wset(l->el, EL_REFRESH);
		}
		if (poll(fds, 2, -1) < 0 && errno != EINTR) {
			l->failed = l->at_end = true;
			return false;
		}
		if (fds[1].revents) {
			drain(l->wake[0]);
			continue;
		}
		if (!fds[0].revents)
			continue;
		const ssize_t n = read(STDIN_FILENO, l->in, sizeof l->in);
		if (n > 0) {
			l->in_at = 0;
			l->in_n = (size_t)n;
			l->n_ctrl_c = 0;
		} else if (n == 0 || (errno != EINTR && errno != EAGAIN)) {
			l->at_end = n == 0 || errno == EIO; /* a terminal that has gone is an end like others */
			l->failed = !l->at_end;
			return false;
		}
	}
	return true;
}

static bool add_text(struct line *l, const char *bytes, size_t n)
{
	void *at = l->text;

	if (!mem_grow(&at, &l->text_max, l->n_text + n + 1, 1)) {
		l->failed = true;
		return false;
	}
	l->text = at;
	if (n > 0)
		memcpy(l->text + l->n_text, bytes, n);
	l->n_text += n;
	l->text[l->n_text] = '\0';
	return true;
}

/* ---- Completion ---- */

static bool begins(const char *word, const char *text, size_t n)
{
	return strncmp(word, text, n) == 0;
}

size_t line_complete(const struct line_params *p, const char *text, size_t n, const char **matches, size_t n_max,
		const char **more, size_t *n_more)
{
	const char *const *words = p->commands;
	const size_t n_of = p->names_of ? strlen(p->names_of) : 0;
	size_t n_words = p->n_commands, n_found = 0, n_same = 0;

	*n_more = 0;
	if (n == 0 || *text != ':' || memchr(text, '\0', n))
		return 0;
	if (n_of > 0 && n > n_of && begins(text, p->names_of, n_of) && text[n_of] == ' ') {
		words = p->names;
		n_words = p->n_names;
		text += n_of + 1;
		n -= n_of + 1;
	}
	for (size_t i = 0; i < n_words; i++) {
		if (!begins(words[i], text, n))
			continue;
		if (n_found == 0) {
			*more = words[i] + n;
			n_same = strlen(*more);
		}
		while (!begins(words[i] + n, *more, n_same))
			n_same--;
		if (n_found < n_max)
			matches[n_found] = words[i];
		n_found++;
	}
	*n_more = n_same;
	return n_found;
}

/* What Tab is bound to. Commands and names are ASCII, so bytes and characters are the same thing for them. */
static unsigned char complete(EditLine *el, int ch)
{
	const LineInfoW *info = el_wline(el);
	const char *matches[MATCHES_MAX], *more = "";
	char typed[64];
	wchar_t add[64];
	size_t n_more = 0, n = (size_t)(info->cursor - info->buffer), n_add = 0;
	struct line *l = NULL;

	(void)ch;
	el_wget(el, EL_CLIENTDATA, &l);
	if (!l || n == 0 || n >= sizeof typed)
		return CC_ERROR;
	for (size_t i = 0; i < n; i++) {
		if (info->buffer[i] <= 0 || info->buffer[i] > 126)
			return CC_ERROR;
		typed[i] = (char)info->buffer[i];
	}
	typed[n] = '\0';
	const size_t n_found = line_complete(l->p, typed, n, matches, MATCHES_MAX, &more, &n_more);
	if (n_found == 0)
		return CC_ERROR;
	while (n_add < n_more && n_add < 62) {
		add[n_add] = (wchar_t)more[n_add];
		n_add++;
	}
	if (n_found == 1 && info->cursor == info->lastchar)
		add[n_add++] = L' ';
	add[n_add] = L'\0';
	if (n_add > 0)
		return el_winsertstr(el, add) ? CC_ERROR : CC_REFRESH;
	fputc('\n', stderr);
	for (size_t i = 0; i < n_found && i < MATCHES_MAX; i++)
		fprintf(stderr, "%s%s", i ? "  " : "", matches[i]);
	fputc('\n', stderr);
	return CC_REDISPLAY;
}

/* ---- libedit ---- */

/* The next character of standard input, for libedit: 1, 0 at the end, -1 for a signal. */
static int next_char(EditLine *el, wchar_t *out)
{
	char bytes[4];
	size_t n = 0, len = 0;
	uint32_t cp = 0;
	struct line *l = NULL;

	el_wget(el, EL_CLIENTDATA, &l);
	do {
		if (!wait_bytes(l)) {
			/* A signal goes before the rest of a character, which may never come. */
			if (n == 0 || l->sig)
				return l->sig || l->failed ? -1 : 0;
			break;
		}
		bytes[n++] = l->in[l->in_at++];
		len = utf8_decode(bytes, n, &cp);
	} while (len == 0 && n < sizeof bytes && utf8_unfinished_tail(bytes, n) == n);
	if (len == 0) {
		/* The byte that broke the character may begin another one. */
		if (n > 1 && l->in_at > 0)
			l->in_at--;
		cp = 0xfffd;
	}
	/* A Ctrl-D that was typed before anybody read the terminal comes as a NUL. */
	*out = cp == 0 ? (wchar_t)4 : (wchar_t)cp;
	return 1;
}

/* What the beginning of a paste is bound to: all up to its end goes into the line. A line end at its end does not: who
 * pastes presses Enter. */
static unsigned char paste(EditLine *el, int ch)
{
	static const wchar_t end[] = L"\033[201~";
	const size_t n_end = sizeof end / sizeof *end - 1;
	wchar_t *text = NULL, c;
	size_t n = 0, n_max = 0;
	struct line *l = NULL;

	(void)ch;
	el_wget(el, EL_CLIENTDATA, &l);
	do {
		void *at = text;
		if (next_char(el, &c) != 1) { /* what ended it is known to who reads the line */
			mem_free(text);
			return CC_EOF;
		}
		if (!mem_grow(&at, &n_max, n + 1, sizeof *text)) {
			mem_free(text);
			l->failed = true;
			return CC_EOF;
		}
		text = at;
		text[n++] = c == L'\r' ? L'\n' : c;
	} while (n < n_end || wmemcmp(text + n - n_end, end, n_end) != 0);
	n -= n_end;
	while (n > 0 && text[n - 1] == L'\n')
		n--;
	text[n] = L'\0';
	const bool ok = n == 0 || el_winsertstr(el, text) == 0;
	mem_free(text);
	return ok ? CC_REFRESH : CC_ERROR;
}

static wchar_t *prompt_of(EditLine *el)
{
	static wchar_t more[] = L"... ";
	struct line *l = NULL;
	el_wget(el, EL_CLIENTDATA, &l);
	return l->more ? more : l->prompt;
}

/* libedit shows what the locale can; a locale that knows no more than ASCII is none that a terminal of today has. */
static void choose_locale(void)
{
	setlocale(LC_CTYPE, "");
	if (MB_CUR_MAX < 4)
		setlocale(LC_CTYPE, "C.UTF-8");
}

/* Freed with mem_free; NULL when out of memory. */
static wchar_t *wide(const char *text, size_t n)
{
	size_t n_out = 0;
	wchar_t *out = mem_alloc(n + 1, sizeof *out);

	for (size_t i = 0, len; out && i < n; i += len) {
		uint32_t cp;
		len = utf8_decode(text + i, n - i, &cp);
		out[n_out++] = len ? (wchar_t)cp : (wchar_t)0xfffd;
		len = len ? len : 1;
	}
	if (out)
		out[n_out] = L'\0';
	return out;
}

static void remember(void *user, const char *text, size_t n_bytes)
{
	struct line *l = user;
	HistEventW event;
	wchar_t *w = wide(text, n_bytes);

	if (w)
		history_w(l->history, &event, H_ENTER, w);
	mem_free(w);
}

static void keep(struct line *l)
{
	HistEventW event;
	wchar_t *w = wide(l->text, l->n_text);
	const bool same = w && history_w(l->history, &event, H_FIRST) >= 0 && wcscmp(event.str, w) == 0;

	mem_free(w);
	if (same || l->n_text == 0 || l->n_text > LINE_HISTORY_BYTES_MAX)
		return;
	remember(l, l->text, l->n_text);
	if (l->history_path && !line_history_add(l->history_path, l->text, l->n_text)) {
		mem_free(l->history_path);
		l->history_path = NULL;
	}
}

static bool open_editor(struct line *l)
{
	HistEventW event;

	choose_locale();
	for (size_t i = 0; i < sizeof l->prompt / sizeof *l->prompt - 1 && l->p->prompt[i]; i++)
		l->prompt[i] = (wchar_t)l->p->prompt[i];
	l->el = el_init(l->p->prog, stdin, stderr, stderr);
	l->history = history_winit();
	if (!l->el || !l->history)
		return false;
	el_wset(l->el, EL_CLIENTDATA, l);
	el_wset(l->el, EL_PROMPT, prompt_of);
	el_wset(l->el, EL_EDITOR, L"emacs");
	el_wset(l->el, EL_HIST, history_w, l->history);
	el_wset(l->el, EL_GETCFN, next_char);
	el_wset(l->el, EL_ADDFN, L"cohort-complete", L"completes a command", complete);
	el_wset(l->el, EL_BIND, L"^I", L"cohort-complete", NULL);
	el_wset(l->el, EL_ADDFN, L"cohort-paste", L"inserts what is pasted", paste);
	el_wset(l->el, EL_BIND, L"\\e[200~", L"cohort-paste", NULL);
	el_wset(l->el, EL_BIND, L"^R", L"em-inc-search-prev", NULL);
	el_source(l->el, NULL);
	l->pastes = term_moves(STDERR_FILENO);
	history_w(l->history, &event, H_SETSIZE, LINE_HISTORY_MAX);
	if (l->p->history)
		l->history_path = line_history_path(l->p->history, getenv("XDG_STATE_HOME"), getenv("HOME"));
	if (l->history_path)
		line_history_load(l->history_path, remember, l);
	struct sigaction sa = {.sa_handler = on_window, .sa_flags = SA_RESTART};
	sigemptyset(&sa.sa_mask);
	sigaction(SIGWINCH, &sa, NULL);
	sigaction(SIGCONT, &sa, NULL);
	return true;
}

static bool take_wide(struct line *l, const wchar_t *w, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		char bytes[4];
		size_t len = utf8_encode((uint32_t)w[i], bytes);
		if (!add_text(l, bytes, len))
			return false;
	}
	return true;
}

static enum line_result read_terminal(struct line *l)
{
	for (;;) {
		int n = 0;
		/* Before the prompt is shown: what is typed from then on is libedit's. */
		el_wset(l->el, EL_PREP_TERM, 1);
		mark_pastes(l, true);
		const wchar_t *w = el_wgets(l->el, &n);
		mark_pastes(l, false);
		if (w && n > 0) {
			const bool ended = w[n - 1] == L'\n' || w[n - 1] == L'\r';
			if (!take_wide(l, w, (size_t)n - ended))
				return LINE_FAILED;
			if (l->n_text > LINE_BYTES_MAX)
				return LINE_LONG;
			keep(l);
			return LINE_OK;
		}
		fputs(l->sig == SIGINT ? "^C\n" : "\n", stderr);
		if (l->failed)
			return LINE_FAILED;
		if (l->sig != SIGINT)
			return l->sig ? LINE_INTERRUPTED : LINE_END;
		if (l->more)
			return LINE_CANCELLED;
		if (++l->n_ctrl_c > 1)
			return LINE_INTERRUPTED;
		fputs("(Ctrl-C again or Ctrl-D ends)\n", stderr);
	}
}

/* ---- Pipes ---- */

static enum line_result read_plain(struct line *l)
{
	bool too_long = false;

	for (;;) {
		if (!wait_bytes(l)) {
			if (l->failed)
				return LINE_FAILED;
			if (l->sig)
				return LINE_INTERRUPTED;
			return too_long ? LINE_LONG : l->n_text > 0 ? LINE_OK : LINE_END;
		}
		const char *from = l->in + l->in_at, *end = memchr(from, '\n', l->in_n - l->in_at);
		const size_t n = end ? (size_t)(end - from) : l->in_n - l->in_at;
		l->in_at += n + (end != NULL);
		if (n > LINE_BYTES_MAX - l->n_text)
			too_long = true;
		if (!too_long && !add_text(l, from, n))
			return LINE_FAILED;
		if (!end)
			continue;
		if (too_long)
			return LINE_LONG;
		if (l->n_text > 0 && l->text[l->n_text - 1] == '\r')
			l->text[--l->n_text] = '\0';
		return LINE_OK;
	}
}

/* ---- The interface ---- */

struct line *line_open(const struct line_params *params)
{
	struct line *l = mem_zalloc(1, sizeof *l);

	if (!l)
		return NULL;
	l->p = params;
	l->wake[0] = l->wake[1] = -1;
	l->terminal = isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
	if (pipe2(l->wake, O_CLOEXEC | O_NONBLOCK) != 0 || (l->terminal && !open_editor(l))) {
		line_free(l);
		return NULL;
	}
	interrupt_wake_set(l->wake[1]);
	return l;
}

void line_free(struct line *l)
{
	if (!l)
		return;
	interrupt_wake_set(-1);
	if (l->el) {
		signal(SIGWINCH, SIG_DFL);
		signal(SIGCONT, SIG_DFL);
		el_end(l->el);
	}
	if (l->history)
		history_wend(l->history);
	for (int i = 0; i < 2; i++)
		if (l->wake[i] >= 0)
			close(l->wake[i]);
	mem_free(l->history_path);
	mem_free(l->text);
	mem_free(l);
}

bool line_is_terminal(const struct line *l)
{
	return l->terminal;
}

enum line_result line_read(struct line *l, bool more, const char **text, size_t *n_bytes)
{
	l->more = more;
	l->n_text = 0;
	l->failed = false;
	l->sig = 0;
	l->n_ctrl_c = 0;
	errno = 0;
	enum line_result r = add_text(l, "", 0) ? LINE_OK : LINE_FAILED;
	if (r == LINE_OK)
		r = l->terminal ? read_terminal(l) : read_plain(l);
	if (r == LINE_FAILED)
		fprintf(stderr, "%s: cannot read standard input: %s\n", l->p->prog,
				errno ? strerror(errno) : "out of memory");
	*text = l->text;
	*n_bytes = l->n_text;
	return r;
}
