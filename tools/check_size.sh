#!/bin/sh
# No .c or .h file of the tree has more than 1,000 lines.
# usage: check_size.sh [ROOT]      prints TAP
#        check_size.sh --self-test plants a violation and expects it to be found
set -eu
LC_ALL=C
export LC_ALL
here=$(cd "$(dirname "$0")/.." && pwd)
lines_max=1000

sources() { find . -path './build*' -prune -o -path './.*/*' -prune -o -type f -name '*.[ch]' -print | sed 's|^\./||' | sort; }
too_long() {
	sources | while read -r f; do
		n=$(wc -l <"$f")
		[ "$n" -le $lines_max ] || echo "$f:$((lines_max + 1)): $n lines"
	done
}

check() { # ROOT
	cd "$1"
	long=$(too_long)
	echo 1..1
	if [ -z "$long" ]; then
		echo "ok 1 - size: no source file above $lines_max lines"
	else
		echo "not ok 1 - size: no source file above $lines_max lines"
		printf '%s\n' "$long" | sed 's/^/# /'
		return 1
	fi
}

if [ "${1:-}" = --self-test ]; then
	tmp=$(mktemp -d)
	trap 'rm -rf "$tmp"' EXIT
	mkdir -p "$tmp/src/a" "$tmp/build"
	yes | head -n $lines_max >"$tmp/src/a/a.c"
	yes | head -n $((lines_max + 1)) >"$tmp/build/generated.c"
	result=0
	echo 1..2
	if (check "$tmp") >/dev/null; then echo 'ok 1 - self-test: files of exactly the limit'; else echo 'not ok 1 - self-test: files of exactly the limit'; result=1; fi
	echo y >>"$tmp/src/a/a.c"
	if (check "$tmp") | grep -q '^# src/a/a.c:1001:'; then echo 'ok 2 - self-test: one line too many'; else echo 'not ok 2 - self-test: one line too many'; result=1; fi
	exit $result
fi
check "${1:-$here}"
