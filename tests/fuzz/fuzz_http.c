/* Any bytes as what a client sends to `cohort serve`, the whole program in this process: in pieces, with pauses, cut
 * off or half closed anywhere, several requests one behind the other. What comes back is whole answers of HTTP with
 * JSON where they say so, none of them a 500, or the end of the connection, in time; and a good request has the same
 * answer as ever, with no descriptor left behind.
 *
 * The first byte says how the connection ends and how many of the bytes behind it are the sizes of pieces: with the top
 * bit set there is a pause behind a piece. What follows these is what is sent, but for two bytes, so that bodies keep
 * their lengths when they change: a byte 1 is the number of bytes between the empty line behind it and the next byte 2,
 * which is left out.
 *
 * Seen red with a body of which the last piece alone is kept ("a good request has another answer"), with an answer that
 * is cut ("an answer that is no JSON"), and with a descriptor for each connection that nobody closes ("descriptors").
 */
#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "cmd.h"

#include "base/pool.h"
#include "base/thread.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { INPUT_MAX = 1 << 13, ANSWER_MAX = 1 << 20, PAUSES_MAX = 3, GOOD_EVERY = 64, LENGTHS_MAX = 16, FDS_SPARE = 8 };
#define WAIT_S 10.0 /* longer than any limit that the server has here, on a machine that is busy */

enum ending { END_HALF, END_ASKED, END_AT_ONCE, END_WAIT };

static char dir[64], path[80];
static struct thread server;
static char *good;
static size_t n_fds;

/* What came back on the last connection. */
static struct {
	char bytes[ANSWER_MAX];
	size_t n;
	bool ended; /* the server closed it */
} got;

static void check(bool ok, const char *what)
{
	if (!ok) {
		fprintf(stderr, "fuzz_http: %s; %zu bytes came%s:\n", what, got.n, got.ended ? ", then an end" : "");
		fwrite(got.bytes, 1, got.n < 4000 ? got.n : 4000, stderr);
		abort();
	}
}

/* ---- The server ---- */

static void serve(void *arg)
{
	const char *root = getenv("COHORT_SOURCE");
	char line[2000], *argv[64], *rest = NULL;
	int n = 0;

	(void)arg;
	snprintf(line, sizeof line,
			"cohort\nserve\n-model\n%s/tests/golden/data/llama.gguf\n-chat-template\n%s/template\n"
			"-socket\n%s\n-data\n%s\n-slot-save-path\n%s\n"
			"-admin\n-allow-host\nx\n"
			"-n-parallel\n2\n-ctx\n192\n-batch\n64\n-threads\n1\n-http-threads\n2\n-n-predict\n2\n"
			"-max-body\n1\n-max-headers\n8\n-idle-timeout\n0.3\n-body-timeout\n0.3\n-total-timeout\n1\n"
			"-max-file\n1\n-max-files\n8\n-drain\n1",
			root ? root : ".", dir, path, dir, dir);
	for (char *p = strtok_r(line, "\n", &rest); p; p = strtok_r(NULL, "\n", &rest))
		argv[n++] = p;
	argv[n] = NULL;
	check(cmd_serve(n, argv) == 0, "the server ended badly");
}

static int remove_one(const char *name, const struct stat *st, int kind, struct FTW *at)
{
	(void)st;
	(void)kind;
	(void)at;
	return remove(name);
}

static void end_all(void)
{
	raise(SIGTERM);
	thread_join(&server);
	nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	free(good);
}

static int connect_once(void)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	check(fd >= 0, "a socket");
	snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
	if (connect(fd, (const struct sockaddr *)&a, sizeof a) == 0)
		return fd;
	close(fd);
	return -1;
}

static void pause_ms(long ms)
{
	nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

static size_t count_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	size_t n = 0;

	check(d != NULL, "descriptors");
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* ---- What comes back ---- */

static void read_all(int fd)
{
	const double until = clock_now() + WAIT_S;

	got.n = 0;
	got.ended = false;
	while (!got.ended && clock_now() < until && got.n < ANSWER_MAX) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		if (poll(&p, 1, 100) <= 0)
			continue;
		const ssize_t k = recv(fd, got.bytes + got.n, ANSWER_MAX - got.n, 0);
		got.ended = k <= 0;
		got.n += k > 0 ? (size_t)k : 0;
	}
}

static const char *find(const char *in, size_t n_in, const char *what)
{
	return n_in ? memmem(in, n_in, what, strlen(what)) : NULL;
}

/* The value of a header among those of [p, end), in value; false: there is none. */
static bool header(const char *p, const char *end, const char *name, char *value, size_t n_value)
{
	while (p < end) {
		const char *nl = find(p, (size_t)(end - p), "\r\n");
		const size_t n = (size_t)((nl ? nl : end) - p), k = strlen(name);
		if (n > k && strncasecmp(p, name, k) == 0 && p[k] == ':') {
			snprintf(value, n_value, "%.*s", (int)(n - k - 2), p + k + 2);
			return true;
		}
		p += n + 2;
	}
	return false;
}

/* The bytes behind chunks that begin at p; NULL: they are cut off. */
static const char *behind_chunks(const char *p, const char *end)
{
	for (;;) {
		const char *nl = find(p, (size_t)(end - p), "\r\n");
		char *rest;
		if (!nl)
			return NULL;
		const unsigned long n = strtoul(p, &rest, 16);
		check(rest > p && rest <= nl, "a chunk without its size");
		if ((size_t)(end - nl) < n + 4)
			return NULL;
		p = nl + 2 + n;
		check(memcmp(p, "\r\n", 2) == 0, "a chunk that is longer than it says");
		p += 2;
		if (n == 0)
			return p;
	}
}

/* Goes over answers one by one; an answer may be cut off where `cut` says so. Returns how many there are. */
static size_t check_answers(bool cut, const char **last_body, size_t *n_last)
{
	const char *p = got.bytes, *end = got.bytes + got.n;
	size_t n_answers = 0;
	char value[100];

	while (p < end) {
		const char *head = find(p, (size_t)(end - p), "\r\n\r\n");
		if (!head && cut)
			break;
		check(head != NULL, "half an answer");
		check(end - p > 12 && memcmp(p, "HTTP/1.", 7) == 0 && p[8] == ' ', "no answer of HTTP");
		const int status = atoi(p + 9);
		check(status >= 100 && status < 600 && status != 500, "a status");
		/* What libmicrohttpd refuses by itself ends the connection; of a wrong Content-Length it says the head
		 * twice (0.9.75), which nobody else can mend. */
		if (status != 100 && !header(p, head, "X-Request-Id", value, sizeof value)) {
			check(status >= 400 && got.ended, "an answer that is nobody's");
			break;
		}
		const char *body = head + 4, *next = body;
		if (status == 100) {
			p = next;
			continue;
		}
		if (header(p, head, "Transfer-Encoding", value, sizeof value))
			next = behind_chunks(body, end);
		else if (header(p, head, "Content-Length", value, sizeof value) && status != 304 && status != 204)
			next = strtoull(value, NULL, 10) <= (size_t)(end - body) ? body + strtoull(value, NULL, 10)
										 : NULL;
		else if (status != 304 && status != 204) /* to the end of the connection */
			next = end;
		check(next || cut, "an answer that never ends");
		if (!next)
			break;
		if (header(p, head, "Content-Type", value, sizeof value) && strcmp(value, "application/json") == 0) {
			json_t *j = json_loadb(body, (size_t)(next - body), JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
			check(j != NULL, "an answer that is no JSON");
			json_decref(j);
		}
		*last_body = body;
		*n_last = (size_t)(next - body);
		n_answers++;
		p = next;
	}
	return n_answers;
}

/* ---- What is sent ---- */

/* False: the server closed the connection. */
static bool send_all(int fd, const uint8_t *p, size_t n)
{
	for (ssize_t k; n > 0; p += k, n -= (size_t)k) {
		k = send(fd, p, n, MSG_NOSIGNAL);
		if (k < 0 && errno == EINTR)
			k = 0;
		if (k < 0)
			return false;
	}
	return true;
}

/* One request alone, on a connection of its own, in two pieces; its text as the model said it. */
static char *ask_good(void)
{
	static size_t cut;
	static const char body[] = "{\"prompt\":\"Once upon a time\",\"max_tokens\":4,\"seed\":1}";
	const char *text = NULL;
	char request[300], *out = NULL;
	size_t n_text = 0;
	const int fd = connect_once();
	const int n = snprintf(request, sizeof request,
			"POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
			"Content-Length: %zu\r\n\r\n%s",
			sizeof body - 1, body);

	cut = (cut + 37) % (size_t)n;
	check(fd >= 0 && send_all(fd, (const uint8_t *)request, cut), "the server is gone");
	pause_ms(2);
	check(send_all(fd, (const uint8_t *)request + cut, (size_t)n - cut), "the server is gone");
	read_all(fd);
	close(fd);
	check(got.ended && check_answers(false, &text, &n_text) == 1, "a good request has no answer");
	json_t *j = json_loadb(text, n_text, 0, NULL);
	const char *said = json_string_value(json_object_get(json_array_get(json_object_get(j, "choices"), 0), "text"));
	check(said && (out = strdup(said)), "a good request has another answer");
	json_decref(j);
	return out;
}

static void check_good(void)
{
	const double until = clock_now() + WAIT_S;
	char *now = ask_good();

	check(strcmp(now, good) == 0, "another answer");
	free(now);
	while (count_fds() > n_fds + FDS_SPARE) {
		check(clock_now() < until, "descriptors");
		pause_ms(20);
	}
}

static void start(void)
{
	snprintf(dir, sizeof dir, "%s/fuzz-http.XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	check(mkdtemp(dir) != NULL, "a folder");
	snprintf(path, sizeof path, "%s/template", dir);
	FILE *f = fopen(path, "w");
	check(f && fputs("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}", f) >= 0 && !fclose(f),
			"a template");
	snprintf(path, sizeof path, "%s/socket", dir);
	check(thread_start(&server, "test", serve, NULL), "a thread");
	atexit(end_all);
	int fd = -1;
	for (int i = 0; i < 1000 && fd < 0; i++, pause_ms(20))
		fd = connect_once();
	check(fd >= 0, "the server does not start");
	close(fd);
	good = ask_good();
	n_fds = count_fds();
}

/* The text with its lengths. */
static size_t fill_lengths(const uint8_t *in, size_t n, uint8_t *out)
{
	size_t n_out = 0;
	int n_filled = 0;

	for (size_t i = 0; i < n; i++) {
		if (in[i] == 1 && n_filled++ < LENGTHS_MAX) {
			const uint8_t *body = memmem(in + i, n - i, "\r\n\r\n", 4);
			const uint8_t *end = body ? memchr(body, 2, n - (size_t)(body - in)) : NULL;
			const size_t length = body ? (size_t)((end ? end : in + n) - body) - 4 : 0;
			n_out += (size_t)sprintf((char *)out + n_out, "%zu", length);
		} else if (in[i] != 2) {
			out[n_out++] = in[i];
		}
	}
	return n_out;
}

static bool has(const uint8_t *data, size_t n, const char *what)
{
	return n > 0 && memmem(data, n, what, strlen(what)) != NULL;
}

static void try_connection(enum ending end, const uint8_t *sizes, size_t n_sizes, const uint8_t *text, size_t n)
{
	static const char health[] = "\r\n\r\nGET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
	/* Answers to HEAD have no body, whatever they say; the live view has no end. */
	const bool head = has(text, n, "HEAD");
	const bool cut = end == END_HALF || head;
	const char *body;
	int n_pauses = 0;
	size_t at = 0, n_body;
	bool open = true;
	const int fd = connect_once();

	check(fd >= 0, "the server is gone");
	for (size_t i = 0; i < n_sizes && at < n && open; i++) {
		const size_t k = (sizes[i] & 127) + 1U < n - at ? (sizes[i] & 127) + 1U : n - at;
		open = send_all(fd, text + at, k);
		at += k;
		if (sizes[i] & 128 && n_pauses++ < PAUSES_MAX)
			pause_ms(1);
	}
	open = open && send_all(fd, text + at, n - at);
	if (end == END_ASKED && open)
		send_all(fd, (const uint8_t *)health, sizeof health - 1);
	if (end == END_HALF)
		shutdown(fd, SHUT_WR);
	if (end != END_AT_ONCE && !has(text, n, "live")) {
		read_all(fd);
		check(got.ended || got.n == ANSWER_MAX, "neither an answer nor an end");
		if (!head)
			check_answers(cut || got.n == ANSWER_MAX, &body, &n_body);
	}
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static uint8_t text[INPUT_MAX + 24 * LENGTHS_MAX];
	static unsigned n_inputs;

	if (!good)
		start();
	const size_t n_sizes = n > 0 ? data[0] >> 2 & 15 : 0;
	if (n < 1 + n_sizes || n > INPUT_MAX)
		return 0;
	/* Waiting for a limit of the server takes its time. */
	const enum ending end = (data[0] & 3) == END_WAIT && data[0] >> 6 ? END_HALF : (enum ending)(data[0] & 3);
	n = fill_lengths(data + 1 + n_sizes, n - 1 - n_sizes, text);
	try_connection(end, data + 1, n_sizes, text, n);
	if (++n_inputs % GOOD_EVERY == 0)
		check_good();
	return 0;
}
