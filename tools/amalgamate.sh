#!/bin/sh
# The library as two files: cohort.h (all public headers) and cohort.c, that build with one line. What is in them comes
# from src and include by way of amalgamate.c, which see.
# usage: amalgamate.sh [DIR [PROGRAM]]    DIR: where they go, build/amalgamation unless said otherwise (seen from
#                                         $DEV_FROM); PROGRAM: amalgamate.c and its kin, if they are built already
set -eu
LC_ALL=C
export LC_ALL
from=${DEV_FROM:-$(pwd)}
cd "$(dirname "$0")/.."
dir=${1:-$PWD/build/amalgamation}
case $dir in /*) ;; *) dir=$from/$dir ;; esac

headers='include/cohort.h include/cohort_engine.h include/cohort_search.h include/cohort_tools.h'
# The sources of the library in meson.build's order; those of all machines.
sources=$(sed -n "s/^ *'\(src\/[a-z0-9_\/]*\.c\)',\$/\1/p" meson.build)
for f in $(find src -name '*.c' | sort); do
	printf '%s\n' "$sources" | grep -qxF "$f" || { echo "$f:1: not in meson.build" >&2; exit 1; }
done
version=$(sed -n "s/^ *version: '\([0-9.]*\)',\$/\1/p" meson.build | head -n 1)
if commit=$(git rev-parse --short=12 HEAD 2>/dev/null); then
	git diff --quiet HEAD -- src include tools meson.build || commit="$commit, with changes"
else
	commit='of no known commit'
fi

mkdir -p "$dir"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
prog=${2:-}
if [ -z "$prog" ]; then
	prog=$tmp/amalgamate
	${CC:-cc} -std=c11 -O1 -o "$prog" tools/amalgamate.c tools/amalgamate_names.c tools/amalgamate_read.c
fi
title() { # FILE WHAT
	cat <<EOF
/* $1: cohort $version ($commit), $2.
 * Many language-model sequences through one model at once. Made by ./dev amalgamate; changes belong into the project's
 * sources.
 *
 *     cc -O2 -c cohort.c
 *     cc program.c cohort.o -lpcre2-8 -lutf8proc -ljansson -lm -ldl -pthread
 *
 * gcc or clang, on 64-bit Linux; -ffast-math is refused.
 *
EOF
	sed 's/^/ * /; s/ *$//' LICENSE
	echo ' */'
}
{
	title cohort.h 'the public headers in one'
	for h in $headers; do
		printf '\n'
		grep -v '^#include "' "$h"
	done
} >"$tmp/cohort.h"
title cohort.c 'the library in one file' >"$tmp/title"
# shellcheck disable=SC2086
"$prog" "$tmp/title" tools/amalgamate_head.h $headers -- $sources >"$tmp/cohort.c"
mv "$tmp/cohort.h" "$tmp/cohort.c" "$dir/"
wc -lc "$dir/cohort.h" "$dir/cohort.c"
