#!/bin/sh
# cohort serve without API keys, and the web pages of others: what their browsers would send (requests that need no
# preflight, a name that was made to resolve to this machine) is refused, and what the page itself and other programs
# send is not. tests/web/foreign.mjs tries the same from a real browser.
#
# Shown red by: a server that looks at neither Host nor Origin, as it was before (every attack, 9 cases); at Host alone;
# at Origin alone; a refusal that the size of the body (413) or the route (405) takes the place of; -cors that opens
# admin routes.
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/e2e/serve_lib.sh
. "$(dirname "$0")/serve_lib.sh"

client serve_guard
