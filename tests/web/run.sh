#!/bin/sh
# The web page in Debian's chromium, against the mock and against cohort serve: runs the cases of page_test.mjs, which
# starts and stops the servers. Prints TAP.
# usage: run.sh BUILD      exit 77: node, npm, the package or the browser cannot be had here
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "${1:?usage: run.sh BUILD}" && pwd)
# shellcheck source=tests/npm/install.sh
. "$here/../npm/install.sh"
CHROMIUM=${CHROMIUM:-$(command -v chromium || true)}
[ -x "$CHROMIUM" ] || skip 'chromium is not there'
npm_work web-tests
export CHROMIUM
COHORT_BUILD=$build COHORT_SOURCE=$(cd "$here/../.." && pwd) exec node "$work/page_test.mjs"
