#!/bin/sh
# The web page in a browser, against the mock of the server (tests/web). Needs node, Debian's chromium and
# playwright-core, which `npm ci` in tests/web brings. Without them it is skipped.
set -u
: "${COHORT_SOURCE:?}"
cd "$COHORT_SOURCE/tests/web" || exit 1
chromium=${CHROMIUM:-/usr/bin/chromium}
if ! command -v node >/dev/null || [ ! -x "$chromium" ] || [ ! -d node_modules/playwright-core ]; then
	echo '1..0 # SKIP node, chromium or tests/web/node_modules (npm ci) is missing'
	exit 77
fi
CHROMIUM=$chromium exec node page_test.mjs
