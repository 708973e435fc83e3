#!/bin/sh
# The declarations of the bindings, from the public headers (tools/bindings.awk): writes bindings/*/abi.
# usage: bindings.sh           writes them
#        bindings.sh --check   prints TAP: whether they are what the headers give
set -eu
LC_ALL=C
export LC_ALL
cd "$(dirname "$0")/.."
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

n=0
bad=0
[ "${1:-}" != --check ] || echo 1..3
for pair in python:bindings/python/cohort/_abi.py node:bindings/node/abi.js rust:bindings/rust/cohort-sys/src/abi.rs; do
	to=${pair%%:*}
	file=${pair#*:}
	awk -v to="$to" -f tools/bindings.awk include/cohort.h include/cohort_engine.h include/cohort_tools.h >"$tmp/$to"
	if [ "${1:-}" != --check ]; then
		cmp -s "$tmp/$to" "$file" || cp "$tmp/$to" "$file"
		continue
	fi
	n=$((n + 1))
	if cmp -s "$tmp/$to" "$file"; then
		echo "ok $n - $file is what the headers give"
	else
		echo "not ok $n - $file is what the headers give"
		echo '# run tools/bindings.sh'
		bad=1
	fi
done
exit $bad
