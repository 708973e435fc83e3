/* Requests that a web page makes a browser send: told from others by Host, Origin and Sec-Fetch-Site.
 *
 * Invariants
 *  1. Host is a loopback name, an IP literal or a name that the server was given. A page whose name was made to resolve
 *     to this machine (DNS rebinding) has its own name there.
 *  2. A page of another origin is refused unless -cors names its origin: for what it changes, even if it cannot read
 *     the answer. Browsers send Origin with every POST and with every GET that a script can read; for the rest
 *     Sec-Fetch-Site tells, where the browser has it.
 *  3. A request without Host or Origin is not a page's: browsers send Host always.
 * It knows nothing of connections, and is not asked where the server has keys: a browser adds no key by itself. */
#include "serve_guard.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

/* Host without its port, brackets and the dot of a full name. False: it has another form, which no browser sends. */
static bool host_name(const char *host, char *out, size_t n_out, bool *literal)
{
	const bool v6 = *host == '[';
	const size_t n = v6 ? strcspn(host + 1, "]") : strcspn(host, ":");
	const char *port = host + n + (v6 ? 2 : 0);
	static const char name_letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
	unsigned char bytes[16];

	if (n == 0 || n >= n_out || (v6 && host[n + 1] != ']'))
		return false;
	if (*port == ':')
		port += 1 + strspn(port + 1, "0123456789");
	if (*port)
		return false;
	memcpy(out, host + v6, n);
	out[n] = 0;
	*literal = inet_pton(v6 ? AF_INET6 : AF_INET, out, bytes) == 1;
	if (!v6 && n > 1 && out[n - 1] == '.')
		out[n - 1] = 0;
	return v6 ? *literal : out[strspn(out, name_letters)] == 0;
}

static bool is_loopback(const char *name)
{
	static const char domain[] = ".localhost"; /* all of it is loopback: RFC 6761 */
	const size_t n = strlen(name), n_domain = sizeof domain - 1;

	return strcasecmp(name, domain + 1) == 0 || (n > n_domain && strcasecmp(name + n - n_domain, domain) == 0);
}

static bool host_ok(const struct guard *g, const char *host)
{
	char name[256];
	bool literal = false;

	if (!host || !*host)
		return true;
	if (!host_name(host, name, sizeof name, &literal))
		return false;
	if (literal || is_loopback(name) || (g->listen && strcasecmp(name, g->listen) == 0))
		return true;
	for (size_t i = 0; i < g->n_names; i++)
		if (strcasecmp(name, g->names[i]) == 0)
			return true;
	return false;
}

bool guard_cors(const struct guard *g, const char *origin)
{
	return g->cors && (strcmp(g->cors, "*") == 0 || strcmp(g->cors, origin) == 0);
}

/* Whether the page came from this server. With a proxy that speaks TLS the page has https and the server does not. */
static bool same_origin(const struct guard_request *r)
{
	const char *at = strstr(r->origin, "://");
	const bool http = strncmp(r->origin, "http://", 7) == 0 || strncmp(r->origin, "https://", 8) == 0;

	return http && r->host && strcasecmp(at + 3, r->host) == 0 && (!r->site || strcmp(r->site, "same-origin") == 0);
}

static bool refuse(struct openai_error *e)
{
	e->status = 403;
	e->type = "permission_error";
	return false;
}

bool guard_check(const struct guard *g, const struct guard_request *r, struct openai_error *e)
{
	const bool foreign_site = r->site && strcmp(r->site, "same-origin") != 0 && strcmp(r->site, "none") != 0;
	/* A link to the page, which the user followed: what it loads next comes from the page itself. */
	const bool followed = r->page && r->mode && strcmp(r->mode, "navigate") == 0 && r->dest &&
			strcmp(r->dest, "document") == 0;

	if (!host_ok(g, r->host)) {
		openai_refuse(e, NULL, "host_not_allowed",
				"Host is '%.100s', which this server without API keys does not know: use localhost or "
				"an IP address, or start it with -allow-host NAME",
				r->host);
		return refuse(e);
	}
	if (r->origin ? same_origin(r) : !foreign_site || followed)
		return true;
	if (r->origin ? !guard_cors(g, r->origin) : !g->cors || strcmp(g->cors, "*") != 0) {
		openai_refuse(e, NULL, "origin_not_allowed",
				"a page of another origin (%s%.100s) may not use this server without API keys: start "
				"it with -cors ORIGIN, or with -api-key-file",
				r->origin ? "" : "Sec-Fetch-Site: ", r->origin ? r->origin : r->site);
		return refuse(e);
	}
	if (r->admin) {
		openai_refuse(e, NULL, "origin_not_allowed",
				"a page of another origin may not change this server without API keys: start it with "
				"-api-key-file and an admin's key");
		return refuse(e);
	}
	return true;
}
