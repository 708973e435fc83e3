/* Which requests a server without API keys takes, so that no web page uses it through the browser of a user. */
#ifndef PROG_SERVE_GUARD_H
#define PROG_SERVE_GUARD_H

#include "openai.h"

struct guard {
	const char *listen; /* -host, or NULL */
	const char *const *names; /* [n_names]: -allow-host */
	size_t n_names;
	const char *cors; /* an origin, "*": all; NULL: none */
};

/* Headers of a request; NULL: it does not have the header. */
struct guard_request {
	const char *host, *origin;
	const char *site, *mode, *dest; /* Sec-Fetch-Site, -Mode and -Dest */
	bool page; /* GET of the web page's own files, which are the same for everybody */
	bool admin; /* it changes the server */
};

/* False: refused with 403, e says why and what to do. */
bool guard_check(const struct guard *g, const struct guard_request *r, struct openai_error *e);
/* Whether -cors names an origin. */
bool guard_cors(const struct guard *g, const char *origin);

#endif
