#!/bin/sh
# Every public header compiles alone, in each language it promises, with all warnings as errors.
# Seen red with a compound literal in an inline function (C++), an unnamed union in a struct (C99), an include that was left
# out, and an implicit conversion in an inline function (each of them).
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"

common='-Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wundef -Werror'
cd "$tmp" || exit 1
headers=$(cd "$COHORT_SOURCE/include" && ls ./*.h | sed 's|^\./||')
[ "$(printf '%s\n' "$headers" | grep -c '^cohort')" -ge 4 ]
verdict 'there are headers'

# alone NAME COMPILER STANDARD EXTENSION WARNING...
alone() {
	name=$1 compiler=$2 std=$3 ext=$4
	shift 4
	if ! command -v "$compiler" >/dev/null; then
		skip "$compiler, $std: $name" 'it is not installed'
		return
	fi
	# Twice: what is declared is declared once.
	printf '#include <%s>\n#include <%s>\n' "$name" "$name" >"one.$ext"
	# shellcheck disable=SC2086
	run "$compiler" "-std=$std" $common "$@" "-I$COHORT_SOURCE/include" -fsyntax-only "one.$ext"
	[ "$rc" = 0 ] && empty err
	verdict "$compiler, $std: $name"
}

for name in $headers; do
	for compiler in gcc clang; do
		for std in c99 c11 c17; do
			alone "$name" $compiler $std c -Wc++-compat -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition
		done
	done
	for compiler in g++ clang++; do
		alone "$name" $compiler c++17 cc -Wold-style-cast -Wextra-semi
	done
done
