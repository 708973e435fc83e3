#!/bin/sh
# The Node bindings: bindings/node/test by node:test, and the examples against the C programs. koffi comes from npm.
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"

if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
	skip 'bindings of Node' 'node and npm are not there'
	exit 0
fi
[ "$(node -p 'parseInt(process.versions.node)')" -ge 18 ] || {
	skip 'bindings of Node' 'it needs node 18 or newer'
	exit 0
}
# shellcheck source=tests/e2e/bindings_lib.sh
. "$(dirname "$0")/bindings_lib.sh"

# The package beside koffi, in the build directory: the tree stays clean. What was installed for this very file is
# there.
from=$COHORT_SOURCE/bindings/node
work=$COHORT_BUILD/bindings-node
mkdir -p "$work"
if ! cmp -s "$from/package-lock.json" "$work/installed.json"; then
	cp "$from/package.json" "$from/package-lock.json" "$work/"
	# A registry that cannot be reached is given seconds, not npm's minutes.
	if ! (cd "$work" && npm ci --no-audit --no-fund --ignore-scripts --fetch-retry-mintimeout=2000 \
		--fetch-retry-maxtimeout=8000) >"$work/npm.log" 2>&1; then
		skip 'bindings of Node' "npm ci failed: $(grep -v '^npm warn' "$work/npm.log" | head -n 1)"
		exit 0
	fi
	cp "$from/package-lock.json" "$work/installed.json"
fi
rm -rf "$work/test" "$work/examples"
cp -R "$from"/*.js "$from"/*.d.ts "$from/README.md" "$from/test" "$from/examples" "$work/"

COHORT_LIBRARY=$library COHORT_TEST_MODEL=$model COHORT_TEST_LAYOUT=$tmp/layout COHORT_TEST_NPY=$tmp/vectors.npy
export COHORT_LIBRARY COHORT_TEST_MODEL COHORT_TEST_LAYOUT COHORT_TEST_NPY

example four node "$work/examples/four.js"
example stream node "$work/examples/stream.js"
example json node "$work/examples/json_schema.js"
example embeddings node "$work/examples/embeddings.js"

# Without COHORT_LIBRARY the loader finds it.
unset COHORT_LIBRARY
example four env LD_LIBRARY_PATH="$COHORT_BUILD" node "$work/examples/four.js"
COHORT_LIBRARY=$library
export COHORT_LIBRARY

# The README, word for word: its commands and then its program, in an empty project. Seen red with the folder alone as
# the operand of npm install: "Cannot find module 'koffi'".
mkdir "$tmp/project"
block js 1 "$from/README.md" >"$tmp/project/readme.js"
block js 2 "$from/README.md" >"$tmp/project/chat.js"
# shellcheck disable=SC2016
{
	echo 'set -e; npm() { command npm "$@" --no-audit --no-fund --prefer-offline --cache="$COHORT_BUILD/npm-cache" \
		--fetch-retry-mintimeout=2000 --fetch-retry-maxtimeout=8000; }'
	block sh 1 "$from/README.md" | sed "s|PATH|$COHORT_SOURCE|g; s|$COHORT_SOURCE/build|$COHORT_BUILD|g"
	echo 'exec node readme.js "$1"'
} >"$tmp/readme.sh"
run env -u COHORT_LIBRARY sh -c 'cd "$1" && exec sh "$2" "$3"' - "$tmp/project" "$tmp/readme.sh" "$model"
if grep -qE 'E(NOTFOUND|AI_AGAIN|CONNREFUSED|TIMEDOUT|NETUNREACH)|code ENOTCACHED' "$tmp/err"; then
	skip 'the README: it installs as written, and the program runs' 'the registry of npm cannot be reached'
else
	[ "$rc" = 0 ] && has out ', there was a'
	verdict 'the README: it installs as written, and the program runs'
	example chat node "$tmp/project/chat.js"
fi

(cd "$work" && node --test --test-reporter=tap test/cohort.test.js) >"$tmp/tap" 2>"$tmp/err"
rc=$?
sed -n 's/^ *ok [0-9]* - \(.*\)/ok \1/p; s/^ *not ok [0-9]* - \(.*\)/bad \1/p' "$tmp/tap" >"$tmp/out"
echo "plan $(sed -n 's/^ *1\.\.\([0-9]*\).*/\1/p' "$tmp/tap" | awk '{ n += $1 } END { print n }')" >>"$tmp/out"
[ $rc = 0 ] || grep -A12 'not ok' "$tmp/tap" | sed 's/^/# /' | head -n 60
verdicts
