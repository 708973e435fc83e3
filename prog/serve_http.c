/* The daemon, and a request's way through it: headers, body, the route's steps, the answer.
 *
 * Invariants
 *  1. A call has exactly one answer, or its connection is closed. What went wrong before the body was there is answered
 *     when it has been read, so that the connection can go on; a body that is too large is not read at all.
 *  2. All memory that a client can make grow has a bound: header_bytes, body_bytes, connections. A body that a sink
 *     takes has a bound of its own, and as long as any other for each of its pieces.
 *  3. A call is dropped when libmicrohttpd says that it is over, whatever the reason; nobody keeps a pointer to it but
 *     its seat, which is told under its lock.
 * It does not know what routes do. */
#include "serve.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/pool.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	STREAM_ROOM = 32 << 10,
	LARGE = 64 << 10, /* bytes of a body */
	SINK_PIECE = 1 << 20 /* bytes of a long body that may take as long as a short body */
};

/* ---- What callers ask ---- */

const char *call_query(const struct call *c, const char *name)
{
	return MHD_lookup_connection_value(c->conn, MHD_GET_ARGUMENT_KIND, name);
}

const char *call_header(const struct call *c, const char *name)
{
	return MHD_lookup_connection_value(c->conn, MHD_HEADER_KIND, name);
}

uint64_t serve_hash(const struct server *srv, uint64_t from, const void *bytes, size_t n)
{
	const uint64_t first[] = {from, 0}, second[] = {from, 1};
	const uint64_t key[] = {siphash(srv->secret, first, sizeof first), siphash(srv->secret, second, sizeof second)};

	return siphash(key, bytes, n);
}

uint64_t serve_salt(const struct server *srv, const struct serve_key *key)
{
	return key ? serve_hash(srv, HASH_SALT, key->text, key->n_text) : 0;
}

uint64_t call_client(const struct call *c)
{
	if (c->key)
		return serve_hash(c->srv, HASH_KEY, c->key->text, c->key->n_text);
	return c->peer.known ? serve_hash(c->srv, HASH_ADDRESS, c->peer.ip, sizeof c->peer.ip) : 0;
}

uint64_t call_salt(const struct call *c)
{
	return serve_salt(c->srv, c->key);
}

void call_owner(const struct call *c, char owner[SHA256_HEX])
{
	owner[0] = 0;
	if (c->key)
		sha256_hex(c->key->text, c->key->n_text, owner);
}

void serve_id(struct server *srv, const char *prefix, char *out, size_t n)
{
	const uint64_t count = atomic_fetch_add(&srv->n_ids, 1);

	snprintf(out, n, "%s%016" PRIx64 "%08x", prefix, serve_hash(srv, HASH_ID, &count, sizeof count),
			(unsigned)count);
}

static json_t *read_json(struct call *c, bool empty, bool packs, struct openai_error *e)
{
	const size_t n = c->body.n, most = OPENAI_VALUES_ROOM + 3 * n;
	json_error_t why;
	bool no_memory;
	size_t at = 0;

	while (at < n && strchr(" \t\r\n", c->body.p[at]))
		at++;
	if (at == n && empty)
		return json_object();
	const unsigned packed = packs ? openai_ids_pack(c->body.p, n) : 0;
	if (openai_json_size(c->body.p, n) > most) {
		openai_refuse(e, NULL, NULL, "the body has too many values: they would take more than %zu MiB",
				most >> 20);
		return NULL;
	}
	json_t *v = json_parse(c->body.p ? c->body.p : "", n, JSON_DECODE_ANY | JSON_ALLOW_NUL, &why, &no_memory);
	openai_buf_release(&c->body); /* its texts are there twice now */
	if (no_memory || (json_is_object(v) && !openai_ids_mark(v, packed))) {
		openai_no_memory(e);
	} else if (!v) {
		openai_refuse(e, NULL, NULL, "the body is not JSON: line %d, column %d: %.200s", why.line, why.column,
				at == n ? "it is empty" : why.text);
	} else if (!json_is_object(v)) {
		openai_refuse(e, NULL, NULL, "the body is %s, expected an object", openai_kind(v));
	} else {
		return v;
	}
	json_decref(v);
	return NULL;
}

json_t *call_json(struct call *c, bool empty, struct openai_error *e)
{
	return read_json(c, empty, false, e);
}

json_t *call_json_ids(struct call *c, struct openai_error *e)
{
	return read_json(c, false, true, e);
}

/* ---- Answers ---- */

static bool add_headers(struct call *c, struct MHD_Response *r, const char *type)
{
	const char *origin = call_header(c, "Origin");
	bool ok = MHD_add_response_header(r, "Content-Type", type) &&
			MHD_add_response_header(r, "X-Request-Id", c->id) &&
			MHD_add_response_header(r, "X-Content-Type-Options", "nosniff");

	if (origin && guard_cors(&c->srv->guard, origin))
		ok = ok && MHD_add_response_header(r, "Access-Control-Allow-Origin", c->srv->guard.cors) &&
				MHD_add_response_header(r, "Vary", "Origin") &&
				MHD_add_response_header(r, "Access-Control-Expose-Headers",
						"X-Request-Id, X-Prefix-Hash, X-Seed, Retry-After");
	if (*c->prefix)
		ok = ok && MHD_add_response_header(r, "X-Prefix-Hash", c->prefix);
	if (*c->seed)
		ok = ok && MHD_add_response_header(r, "X-Seed", c->seed);
	if (c->allow_header)
		ok = ok && MHD_add_response_header(r, c->allow_header, c->allow);
	if (c->hang_up || atomic_load(&c->srv->draining))
		ok = ok && MHD_add_response_header(r, "Connection", "close");
	return ok;
}

static enum step queue(struct call *c, unsigned status, const char *type, struct MHD_Response *r)
{
	bool ok = r && add_headers(c, r, type);

	if (ok && status == 429)
		ok = MHD_add_response_header(r, "Retry-After", "1");
	if (ok && status == 401)
		ok = MHD_add_response_header(r, "WWW-Authenticate",
				c->route && c->route->flags & ROUTE_PAGE
						? "Basic realm=\"cohort: any name, and an API key as the password\""
						: "Bearer");
	if (!ok) {
		if (r)
			MHD_destroy_response(r);
		return STEP_CLOSE;
	}
	c->job.answer = r;
	c->status = status;
	return c->job.run ? STEP_DONE : answer_send(c);
}

enum step answer_send(struct call *c)
{
	/* From now on the client is to read; before and behind it the watch thread looks at the clock. */
	c->answered = MHD_set_connection_option(c->conn, MHD_CONNECTION_OPTION_TIMEOUT,
				      (unsigned)(c->srv->limits.write_s + 0.999)) &&
			MHD_queue_response(c->conn, c->status, c->job.answer);
	MHD_destroy_response(c->job.answer);
	c->job.answer = NULL;
	if (!c->answered)
		c->status = 0;
	return c->answered ? STEP_DONE : STEP_CLOSE;
}

enum step answer_bytes(struct call *c, unsigned status, const char *type, struct openai_buf *b)
{
	struct MHD_Response *r = MHD_create_response_from_buffer_with_free_callback(b->n, b->p, mem_free);

	c->n_sent = b->n;
	if (!r)
		openai_buf_release(b);
	*b = (struct openai_buf){0};
	return queue(c, status, type, r);
}

enum step answer_static(struct call *c, unsigned status, const char *type, const void *bytes, size_t n,
		const char *etag, const char *policy)
{
	const char *has = etag ? call_header(c, "If-None-Match") : NULL;
	const bool same = has && strcmp(has, etag) == 0;
	struct MHD_Response *r =
			MHD_create_response_from_buffer(same ? 0 : n, (void *)(uintptr_t)bytes, MHD_RESPMEM_PERSISTENT);

	if (r && etag)
		MHD_add_response_header(r, "ETag", etag);
	if (r && policy)
		MHD_add_response_header(r, "Content-Security-Policy", policy);
	c->n_sent = same ? 0 : n;
	return queue(c, same ? 304 : status, type, r);
}

enum step answer_json(struct call *c, unsigned status, json_t *value)
{
	struct openai_buf b = {0};
	const bool ok = openai_dump(&b, value) && openai_buf_add(&b, "\n", 1);

	json_decref(value);
	if (ok)
		return answer_bytes(c, status, "application/json", &b);
	openai_buf_release(&b);
	return STEP_CLOSE;
}

enum step answer_file(struct call *c, const char *type, int fd, uint64_t n)
{
	struct MHD_Response *r = MHD_create_response_from_fd64(n, fd);

	if (!r) {
		close(fd);
	} else if (!MHD_add_response_header(r, "Content-Disposition", "attachment")) {
		MHD_destroy_response(r);
		r = NULL;
	}
	c->n_sent = n;
	return queue(c, 200, type, r);
}

enum step answer_error(struct call *c, const struct openai_error *e)
{
	return answer_json(c, e->status ? (unsigned)e->status : 500, openai_error_json(e));
}

/* ---- Streams ---- */

struct stream {
	struct call *call;
	stream_more *more;
	struct openai_buf out;
	size_t at;
	bool over;
};

static void stream_free(void *arg)
{
	struct stream *s = arg;
	openai_buf_release(&s->out);
	mem_free(s);
}

static ssize_t stream_read(void *arg, uint64_t pos, char *to, size_t n_max)
{
	struct stream *s = arg;
	struct call *c = s->call;

	(void)pos;
	for (;;) {
		if (s->at < s->out.n) {
			const size_t n = s->out.n - s->at < n_max ? s->out.n - s->at : n_max;
			memcpy(to, s->out.p + s->at, n);
			s->at += n;
			c->n_sent += n;
			return (ssize_t)n;
		}
		if (s->over)
			return c->cut ? MHD_CONTENT_READER_END_WITH_ERROR : MHD_CONTENT_READER_END_OF_STREAM;
		if (seat_gone(c->seat))
			return MHD_CONTENT_READER_END_WITH_ERROR;
		double wake_at = 0;
		s->out.n = s->at = 0;
		s->over = !s->more(c, &s->out, &wake_at);
		if (s->out.n == 0 && !s->over && seat_sleep(c->seat, wake_at))
			return 0;
	}
}

enum step answer_stream(struct call *c, const char *type, stream_more *more)
{
	struct stream *s = mem_zalloc(1, sizeof *s);

	if (!s)
		return STEP_CLOSE;
	*s = (struct stream){.call = c, .more = more};
	struct MHD_Response *r =
			MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_ROOM, stream_read, s, stream_free);
	if (!r)
		mem_free(s);
	if (r &&
			(!MHD_add_response_header(r, "Cache-Control", "no-cache") ||
					!MHD_add_response_header(r, "X-Accel-Buffering", "no"))) {
		MHD_destroy_response(r);
		r = NULL;
	}
	return queue(c, 200, type, r);
}

/* ---- A call ---- */

static bool sane_id(const char *id)
{
	size_t n = 0;

	while (id && n < 128 && id[n] > ' ' && id[n] < 127 && id[n] != '"' && id[n] != '\\')
		n++;
	return n > 0 && n < 128 && id[n] == 0;
}

/* The key that came with a request; NULL: none, or none that there is. A browser that opens the page can ask for a name
 * and a password only. That opens the page and no more: what a browser sends by itself, others can make it send. */
static const struct serve_key *find_key(struct call *c, const char *text)
{
	const struct serve_keys *keys = &c->srv->keys;
	char *password = NULL, *name = NULL;

	if (!text && c->route->flags & ROUTE_PAGE)
		name = MHD_basic_auth_get_username_password(c->conn, &password);
	const char *found = password ? password : text ? text
						       : "";
	const struct serve_key *key = keys_find(keys, found, strlen(found));

	MHD_free(name);
	MHD_free(password);
	return key;
}

/* Whether the key that came with a request may do this. */
static void check_key(struct call *c)
{
	struct server *srv = c->srv;
	const char *auth = call_header(c, "Authorization"), *text = call_header(c, "X-Api-Key");

	if (auth && strncasecmp(auth, "Bearer ", 7) == 0)
		text = auth + 7;
	if (srv->keys.n > 0)
		c->key = find_key(c, text);
	if (c->early.status)
		return;
	if (srv->keys.n > 0 && !c->key && !(c->route->flags & ROUTE_OPEN)) {
		openai_refuse(&c->early, NULL, "invalid_api_key", "%s",
				text ? "no such API key" : "an API key is needed: Authorization: Bearer KEY");
		c->early.status = 401;
		c->early.type = "authentication_error";
	} else if (c->route->flags & ROUTE_ADMIN && !(srv->admin && (!srv->keys.n || (c->key && c->key->admin)))) {
		openai_refuse(&c->early, NULL, "forbidden", "%s",
				srv->admin ? "this needs the key of an admin"
					   : "this server was started without -admin, which this needs");
		c->early.status = 403;
		c->early.type = "permission_error";
	}
}

static void find_route(struct call *c, const char *method, const char *path)
{
	const char *origin = call_header(c, "Origin");

	c->route = route_find(method, path, c->arg, sizeof c->arg, c->allow, sizeof c->allow);
	if (c->route)
		return;
	if (*c->allow && c->srv->guard.cors && origin && strcmp(method, "OPTIONS") == 0) {
		c->allow_header = "Access-Control-Allow-Methods"; /* answered without a body, below */
		return;
	}
	if (*c->allow) {
		c->allow_header = "Allow";
		openai_refuse(&c->early, NULL, "method_not_allowed", "%.16s is not for %.100s, which has %s", method,
				path, c->allow);
		c->early.status = 405;
	} else {
		openai_refuse(&c->early, NULL, "not_found", "there is no %.16s %.100s here", method, path);
		c->early.status = 404;
	}
}

/* Without keys: whether a web page made a browser ask. With them a browser's request has a key only if the page has it,
 * or opens the page (find_key). */
static void check_origin(struct call *c, const char *method)
{
	const unsigned flags = c->route ? c->route->flags : 0;
	const struct guard_request r = {.host = call_header(c, "Host"),
			.origin = call_header(c, "Origin"),
			.site = call_header(c, "Sec-Fetch-Site"),
			.mode = call_header(c, "Sec-Fetch-Mode"),
			.dest = call_header(c, "Sec-Fetch-Dest"),
			.page = flags & ROUTE_PAGE && strcmp(method, "GET") == 0,
			.admin = flags & ROUTE_ADMIN};

	if (c->srv->keys.n == 0 && !guard_check(&c->srv->guard, &r, &c->early))
		c->allow_header = NULL;
}

/* Whose request it is: of a trusted proxy, the address that it forwards for. */
struct forwarded {
	char text[2000]; /* X-Forwarded-For, as far as it goes from the end */
	size_t n;
};

static enum MHD_Result add_forwarded(void *arg, enum MHD_ValueKind kind, const char *name, const char *value)
{
	struct forwarded *f = arg;
	const size_t n = value ? strlen(value) : 0;

	(void)kind;
	if (strcasecmp(name, "X-Forwarded-For") != 0)
		return MHD_YES;
	if (n + 2 > sizeof f->text - f->n) /* the last ones count */
		f->n = 0;
	const size_t skip = n + 2 > sizeof f->text ? n + 2 - sizeof f->text : 0;
	if (f->n > 0)
		f->text[f->n++] = ',';
	memcpy(f->text + f->n, value ? value + skip : "", n - skip);
	f->n += n - skip;
	f->text[f->n] = 0;
	return MHD_YES;
}

static void find_peer(struct call *c)
{
	const struct proxies *p = &c->srv->proxies;
	const union MHD_ConnectionInfo *i = MHD_get_connection_info(c->conn, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
	struct peer from = i && i->client_addr ? peer_of(i->client_addr) : (struct peer){.known = false};
	bool shared = c->seat->shared;

	if (proxies_trust(p, &from)) {
		struct forwarded f = {.n = 0};
		MHD_get_connection_values(c->conn, MHD_HEADER_KIND, add_forwarded, &f);
		from = peer_forwarded(p, from, f.text);
		shared = proxies_trust(p, &from) || peer_is_loopback(&from);
	}
	if (!shared)
		c->peer = peer_client(from);
}

/* Whether there is no room for the connection. If there is, but not for the request, that is refused alone. */
static bool is_over(struct call *c)
{
	struct openai_error e = {0};
	const bool over = accept_refuses(c->srv, c->seat, &e);

	if ((over || !accept_counts(c->srv, c->seat, call_client(c), &e)) && !c->early.status) {
		c->early = e;
		c->early.status = 503;
		c->early.type = "server_error";
	}
	return over;
}

struct framing {
	size_t n_lengths, n_codings, n_hosts, n_bad;
	const char *end; /* of the header before, in libmicrohttpd's buffer; NULL: none */
};

/* Whether nothing but n bytes of line ends are between the end of a header's value and what follows it. libmicrohttpd
 * up to 0.9.75 takes a NUL for the end of a value, whatever the line says behind it, moves headers that go on in the
 * next line elsewhere, and takes LF alone for the end of a line. Lines stay where they came, with NULs for CR and LF.
 */
static bool is_line_end(const char *end, const char *next, uintptr_t n)
{
#if MHD_VERSION <= 0x00097500
	static const char zeros[4];

	return (uintptr_t)next - (uintptr_t)end == n && memcmp(end, zeros, n) == 0;
#else
	(void)end;
	(void)next;
	(void)n;
	return true; /* refused by libmicrohttpd */
#endif
}

/* Whether a header's name is none that everybody reads alike: it is empty, it has a space before the colon, or it is
 * the name of a length with more behind it, which is what libmicrohttpd makes of a header that goes on in the next
 * line. */
static bool is_bad_name(const char *name)
{
	static const char letters[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ!#$%&'*+-.^_`|~";

	return !*name || name[strspn(name, letters)] || (strncasecmp(name, "Content-Length", 14) == 0 && name[14]) ||
			(strncasecmp(name, "Transfer-Encoding", 17) == 0 && name[17]);
}

static enum MHD_Result count_header(void *arg, enum MHD_ValueKind kind, const char *name, const char *value)
{
	struct framing *f = arg;

	(void)kind;
	f->n_lengths += strcasecmp(name, "Content-Length") == 0;
	f->n_codings += strcasecmp(name, "Transfer-Encoding") == 0;
	f->n_hosts += strcasecmp(name, "Host") == 0;
	f->n_bad += is_bad_name(name) || (value && strchr(value, '\r')) || (f->end && !is_line_end(f->end, name, 2));
	f->end = value ? value + strlen(value) : NULL;
	return MHD_YES;
}

/* Where a proxy could understand another request than we do, nobody is to guess: the connection ends. */
static void check_framing(struct call *c, const char *method, const char *version)
{
	const union MHD_ConnectionInfo *size =
			MHD_get_connection_info(c->conn, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
	struct framing f = {0};
	const char *coding = call_header(c, "Transfer-Encoding"), *why = NULL;

	MHD_get_connection_values(c->conn, MHD_HEADER_KIND, count_header, &f);
	if (f.end && size)
		f.n_bad += !is_line_end(f.end, method + size->header_size, 4);
	if (f.n_bad > 0)
		why = "a header is not of the form NAME: VALUE, on one line, that ends by CR and LF, and without a NUL";
	else if (f.n_lengths + f.n_codings > 1)
		why = "the length of the body is told twice";
	else if (coding && strcasecmp(coding, "chunked") != 0)
		why = "only chunked is known as Transfer-Encoding";
	else if (coding && strcmp(version, "HTTP/1.0") == 0)
		why = "HTTP/1.0 has no Transfer-Encoding";
	else if (f.n_hosts > 1 || (f.n_hosts == 0 && strcmp(version, "HTTP/1.1") == 0))
		why = "a request has one Host";
	if (!why)
		return;
	openai_refuse(&c->early, NULL, "bad_request", "%s", why);
	c->hang_up = true;
}

static void check_size(struct call *c, bool *at_once)
{
	const char *text = call_header(c, "Content-Length");
	const uint64_t max = c->sink ? c->body_max : (uint64_t)c->srv->limits.body_bytes;
	uint64_t n = 0;

	for (const char *p = text ? text : ""; *p >= '0' && *p <= '9'; p++)
		n = n > UINT64_MAX / 16 ? n : n * 10 + (uint64_t)(*p - '0');
	if (n > max && !c->early.status) {
		openai_refuse(&c->early, NULL, "body_too_large",
				"the body has %" PRIu64 " bytes, at most %" PRIu64 " are taken", n, max);
		c->early.status = 413;
	}
	c->hang_up |= n > max;
	/* Who asked whether to send the body need not. */
	*at_once = c->hang_up || (c->early.status && call_header(c, "Expect"));
}

static enum MHD_Result begin(struct server *srv, struct MHD_Connection *conn, const char *path, const char *method,
		const char *version, struct call **out)
{
	const union MHD_ConnectionInfo *i = MHD_get_connection_info(conn, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	struct seat *seat = i ? i->socket_context : NULL;
	struct call *c = seat ? mem_zalloc(1, sizeof *c) : NULL;
	bool at_once = false;

	if (!c)
		return MHD_NO;
	*out = c;
	c->srv = srv;
	c->seat = seat;
	c->conn = conn;
	c->started = clock_now();
	snprintf(c->method, sizeof c->method, "%s", method);
	snprintf(c->path, sizeof c->path, "%s", path);
	const char *id = call_header(c, "X-Request-Id");
	if (sane_id(id))
		snprintf(c->id, sizeof c->id, "%s", id);
	else
		serve_id(srv, "req-", c->id, sizeof c->id);
	lock_take(&seat->lock);
	seat->call = c;
	lock_give(&seat->lock);
	seat_phase_set(seat, SEAT_BODY);
	find_peer(c);
	find_route(c, method, path);
	check_origin(c, method);
	if (c->route)
		check_key(c);
	const bool over = is_over(c);
	check_framing(c, method, version);
	if (c->route && c->route->flags & ROUTE_SINK && !c->early.status)
		c->route->run(c);
	check_size(c, &at_once);
	/* libmicrohttpd also takes LF alone for the end of a chunk's line, which others may not: what follows the body
	 * on the same connection is not taken for a request, so that they need not agree where it ends. */
	c->hang_up |= call_header(c, "Transfer-Encoding") != NULL;
	c->hang_up |= over; /* but not before the body was read: the client would not see the answer */
	lock_take(&seat->lock);
	seat->refused = c->early.status != 0;
	lock_give(&seat->lock);
	if (!at_once)
		return MHD_YES;
	c->complete = true;
	seat_phase_set(seat, SEAT_WORK);
	return answer_error(c, &c->early) == STEP_DONE ? MHD_YES : MHD_NO;
}

/* A long body may take long, as long as it comes. */
static void sink_more(struct call *c, const char *bytes, size_t n)
{
	const uint64_t piece = c->n_body / SINK_PIECE;

	c->n_body += n;
	if (c->n_body > c->body_max) {
		openai_refuse(&c->early, NULL, "body_too_large", "the body has more than %" PRIu64 " bytes",
				c->body_max);
		c->early.status = 413;
	} else {
		c->sink(c, bytes, n);
	}
	if (!c->early.status && c->n_body / SINK_PIECE != piece)
		seat_phase_set(c->seat, SEAT_BODY);
}

static void read_more(struct call *c, const char *bytes, size_t n)
{
	if (c->early.status || c->body_full)
		return;
	if (c->sink) {
		sink_more(c, bytes, n);
		return;
	}
	if (c->body.n + n > (size_t)c->srv->limits.body_bytes) {
		openai_refuse(&c->early, NULL, "body_too_large", "the body has more than %" PRId64 " bytes",
				c->srv->limits.body_bytes);
		c->early.status = 413;
	} else if (!openai_buf_add(&c->body, bytes, n)) {
		openai_no_memory(&c->early);
	}
	c->body_full = c->early.status != 0;
	if (c->body_full)
		openai_buf_release(&c->body);
}

/* An answer to whether another origin may ask. */
static enum step preflight(struct call *c)
{
	struct MHD_Response *r = MHD_create_response_from_buffer(0, (void *)(uintptr_t) "", MHD_RESPMEM_PERSISTENT);

	if (r) {
		MHD_add_response_header(r, "Access-Control-Allow-Headers",
				"Authorization, Content-Type, X-Api-Key, X-Request-Id, X-Prefix-Hash");
		MHD_add_response_header(r, "Access-Control-Max-Age", "600");
	}
	return queue(c, 204, "text/plain", r);
}

static enum step first_step(struct call *c)
{
	if (c->early.status)
		return answer_error(c, &c->early);
	if (!c->route)
		return preflight(c);
	if (!(c->route->flags & (ROUTE_LONG | ROUTE_DISK)))
		return c->route->run(c);
	return call_prepare(c, c->body.n > LARGE || c->route->flags & ROUTE_DISK, c->route->run);
}

/* Goes on as long as there is news. */
static enum MHD_Result go_on(struct call *c)
{
	enum step s = STEP_WAIT;

	if (!c->complete) {
		c->complete = true;
		seat_phase_set(c->seat, SEAT_WORK);
		c->step = first_step;
	}
	do {
		s = seat_gone(c->seat) ? STEP_CLOSE : c->step(c);
	} while (s == STEP_HELD ? !seat_sleep_held(c->seat) : s == STEP_WAIT && !seat_sleep(c->seat, c->wake_at));
	return s == STEP_CLOSE ? MHD_NO : MHD_YES;
}

static enum MHD_Result on_request(void *arg, struct MHD_Connection *conn, const char *path, const char *method,
		const char *version, const char *bytes, size_t *n_bytes, void **ctx)
{
	struct call *c = *ctx;

	if (!c) {
		const enum MHD_Result r = begin(arg, conn, path, method, version, &c);
		*ctx = c;
		return r;
	}
	if (*n_bytes > 0) {
		read_more(c, bytes, *n_bytes);
		*n_bytes = 0;
		return MHD_YES;
	}
	return c->answered ? MHD_YES : go_on(c);
}

/* What came over the wire has nothing that a terminal would take for a command. */
static void make_plain(char *text)
{
	for (; *text; text++)
		*text = *text < ' ' || *text > '~' ? '?' : *text;
}

/* The call is over. */
static void log_call(struct call *c)
{
	if (!c->srv->verbose)
		return;
	make_plain(c->method);
	make_plain(c->path);
	log_add(&c->srv->log, "%s %s %u %" PRIu64 " bytes %.1f ms %s%s%s", c->method, c->path, c->status, c->n_sent,
			1000 * (clock_now() - c->started), c->id, c->key && *c->key->name ? " " : "",
			c->key ? c->key->name : "");
}

static void on_completed(void *arg, struct MHD_Connection *conn, void **ctx, enum MHD_RequestTerminationCode why)
{
	struct call *c = *ctx;

	(void)arg;
	if (!c)
		return;
	*ctx = NULL;
	if (why == MHD_REQUEST_TERMINATED_COMPLETED_OK)
		MHD_set_connection_option(conn, MHD_CONNECTION_OPTION_TIMEOUT, 0U);
	struct seat *seat = c->seat;
	lock_take(&seat->lock);
	seat->call = NULL;
	seat->refused = false;
	lock_give(&seat->lock);
	atomic_store(&seat->client, 0);
	seat_phase_set(seat, SEAT_IDLE);
	metrics_http(&c->srv->metrics, c->status, clock_now() - c->started);
	log_call(c);
	if (c->job.answer)
		MHD_destroy_response(c->job.answer); /* which may be a stream that looks at what drop frees */
	if (c->drop)
		c->drop(c);
	openai_buf_release(&c->body);
	mem_free(c);
}

static void on_connection(void *arg, struct MHD_Connection *conn, void **ctx, enum MHD_ConnectionNotificationCode code)
{
	struct server *srv = arg;

	if (code == MHD_CONNECTION_NOTIFY_STARTED)
		*ctx = seat_find(&srv->watch, conn,
				MHD_get_connection_info(conn, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd);
	else if (*ctx)
		seat_leave(&srv->watch, *ctx);
}

static void on_log(void *arg, const char *fmt, va_list args)
{
	struct server *srv = arg;
	char text[512];

	if (!srv->verbose)
		return;
	vsnprintf(text, sizeof text, fmt, args);
	log_add(&srv->log, "http: %s", text);
}

/* A NUL within an argument would end it early: kept as it came, so that names and paths with one match nothing. */
static size_t unescape(void *arg, struct MHD_Connection *conn, char *text)
{
	(void)arg;
	(void)conn;
	return strstr(text, "%00") ? strlen(text) : MHD_http_unescape(text);
}

/* libmicrohttpd's own pool of threads would accept connections by itself, and spin when it cannot. */
static struct MHD_Daemon *start_one(struct server *srv, const char *cert, const char *key)
{
	const struct serve_limits *l = &srv->limits;
	unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG |
			MHD_USE_NO_LISTEN_SOCKET;
	struct MHD_OptionItem more[3];
	size_t n = 0;

	if (cert) {
		flags |= MHD_USE_TLS;
		more[n++] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_CERT, 0, (void *)(uintptr_t)cert};
		more[n++] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)(uintptr_t)key};
	}
	more[n] = (struct MHD_OptionItem){MHD_OPTION_END, 0, NULL};
	/* Connections have their bound before they come here; those that leave are counted a moment longer. */
	return MHD_start_daemon(flags, 0, NULL, NULL, on_request, srv, MHD_OPTION_EXTERNAL_LOGGER, on_log, srv,
			MHD_OPTION_NOTIFY_COMPLETED, on_completed, srv, MHD_OPTION_NOTIFY_CONNECTION, on_connection,
			srv, MHD_OPTION_CONNECTION_LIMIT, 2 * (unsigned)srv->watch.n_seats,
			MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)l->header_bytes, MHD_OPTION_UNESCAPE_CALLBACK,
			unescape, srv, MHD_OPTION_ARRAY, more, MHD_OPTION_END);
}

bool http_start(struct server *srv, int64_t n_threads, const char *cert, const char *key)
{
	srv->http = mem_zalloc((size_t)n_threads, sizeof(struct MHD_Daemon *));
	while (srv->http && srv->n_http < (size_t)n_threads) {
		struct MHD_Daemon *d = start_one(srv, cert, key);
		if (!d)
			return false;
		srv->http[srv->n_http++] = d;
	}
	return srv->http != NULL;
}

bool http_add(struct server *srv, int fd, const struct sockaddr *a, socklen_t n)
{
	srv->next_http = (srv->next_http + 1) % srv->n_http;
	return MHD_add_connection(srv->http[srv->next_http], fd, a, n) == MHD_YES;
}

void http_stop(struct server *srv)
{
	for (size_t i = 0; i < srv->n_http; i++)
		MHD_stop_daemon(srv->http[i]);
	mem_free(srv->http);
	srv->http = NULL;
	srv->n_http = 0;
}
