#!/bin/sh
# OpenAI's own client against cohort serve. Installs what package-lock.json pins, into the build directory, so that the
# tree stays clean, and runs the cases of main.mjs, which starts and stops the servers. Prints TAP.
# usage: run.sh BUILD      exit 77: node, npm or the package cannot be had here
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "${1:?usage: run.sh BUILD}" && pwd)
skip() {
	echo "1..0 # SKIP $1"
	exit 77
}

if ! command -v node >/dev/null || ! command -v npm >/dev/null; then skip 'node and npm are not there'; fi
[ "$(node -p 'parseInt(process.versions.node)')" -ge 18 ] || skip 'the client needs node 18 or newer'
work=$build/openai-tests
mkdir -p "$work"
# What was installed for these very files is there already.
if ! cmp -s "$here/package-lock.json" "$work/installed.json"; then
	cp "$here/package.json" "$here/package-lock.json" "$work/"
	(cd "$work" && npm ci --no-audit --no-fund --ignore-scripts) >"$work/npm.log" 2>&1 ||
		skip "npm ci failed: $(grep -v '^npm warn' "$work/npm.log" | head -n 1)"
	cp "$here/package-lock.json" "$work/installed.json"
fi
# Modules find the package beside themselves.
rm -f "$work"/*.mjs
cp "$here"/*.mjs "$work/"
COHORT_BUILD=$build COHORT_SOURCE=$(cd "$here/../.." && pwd) exec node "$work/main.mjs"
