#!/bin/sh
# clang-tidy over src/ and prog/, with the checks of .clang-tidy: nothing that tests/analyzer-ignore.txt does not excuse,
# and nothing in there that excuses nothing.
# usage: analyze.sh BUILD [ROOT]    BUILD is set up (its compile_commands.json is read; which compiler does not matter)
#        analyze.sh --self-test     plants a defect and a needless excuse, and expects them to be found
# What was said of a file is kept in BUILD/analyze under a sum of its preprocessed text, so that a second run is short.
set -eu
LC_ALL=C
export LC_ALL
here=$(cd "$(dirname "$0")/.." && pwd)

# args BUILD: "file<tab>arguments" for each source; arguments as a shell has them. Asserts are on: they tell what cannot be.
# So does tools/analyze.h, which the files that have those functions do without.
args() {
	[ ! -f "$1/../tools/analyze.h" ] || hints='-include ../tools/analyze.h'
	awk -v hints="${hints:-}" -v plain='src/base/err.c src/base/mem.c prog/common.c' '
	BEGIN { n = split(plain, w, " "); for (i = 1; i <= n; i++) without[w[i]] = 1 }
	function value() { sub(/^ *"[a-z]*": "/, ""); sub(/",?$/, ""); gsub(/\\"/, "\""); gsub(/\\\\/, "\\"); return $0 }
	/^ *"command": / { c = value() }
	/^ *"file": / {
		f = value()
		if (f !~ /^\.\.\/(src|prog)\// || seen[f]++) next
		sub(/^[^ ]* /, "", c); sub(/ -MD .*/, "", c); gsub(/ -(Wno-format-truncation|Wno-maybe-uninitialized|Werror)/, "", c)
		f = substr(f, 4)
		if (!(f in without)) c = c " " hints (f ~ /^prog/ ? " -DANALYZE_PROG" : "")
		print f "\t" c " -UNDEBUG -Wno-unknown-warning-option"
	}' "$1/compile_commands.json"
}

# one BUILD ROOT FILE: leaves the name of the file that has what is said of it in BUILD/analyze/of. In BUILD, where the
# arguments hold.
one() {
	cd "$1"
	said=$(pwd)/analyze
	of=$said/of/$(printf %s "$3" | tr / :)
	eval "set -- \"$2\" \"$3\" $(awk -F '\t' -v f="$3" '$1 == f { print $2 }' "$said/args")"
	root=$1 file=$2
	shift 2
	sum=$({ cat "$said/version" && clang -E "$@" "../$file"; } 2>/dev/null | sha256sum | cut -c 1-40)
	if [ ! -f "$said/$sum" ]; then
		rc=0
		clang-tidy --quiet --config-file="$here/.clang-tidy" "../$file" -- "$@" >"$of.new" 2>"$of.err" || rc=$?
		if [ $rc != 0 ]; then # it does not compile
			cat "$of.err" "$of.new" >&2
			return 1
		fi
		# Paths as seen from the root.
		sed "s|^$root/||; s|^[^ ]*/\.\./||" "$of.new" >"$of.tmp"
		mv "$of.tmp" "$said/$sum"
		rm -f "$of.new" "$of.err"
	fi
	printf '%s\n' "$said/$sum" >"$of"
}

# judge ROOT SAID...: the findings that are not excused, each with its notes; then the excuses that excuse nothing.
judge() {
	root=$1
	shift
	awk -v root="$root" -v list=tests/analyzer-ignore.txt '
	function trim(t) { gsub(/^[ \t]+|[ \t]+$/, "", t); return t }
	function source(path, nr, at, l) {
		if (!(path in read)) {
			for (at = 1; (getline l < (root "/" path)) > 0; at++) text[path, at] = l
			close(root "/" path)
			read[path] = 1
		}
		return trim(text[path, nr])
	}
	BEGIN {
		for (at = 1; (getline l < (root "/" list)) > 0; at++) {
			if (l ~ /^(#|$)/) continue
			n = split(l, w, " \\| ")
			if (n != 4 || trim(w[4]) == "") { print list ":" at ": not of the form path | check | line | reason"; bad = 1; continue }
			line[w[1], w[2], trim(w[3])] = at
		}
	}
	/^[^ ]*:[0-9]+:[0-9]+: warning: .*\[[^ ]*\]$/ {
		shown = 0
		if (seen[$0]++) next
		split($1, w, ":")
		check = $NF; gsub(/[][]/, "", check)
		key = w[1] SUBSEP check SUBSEP source(w[1], w[2])
		if (key in line) { used[key] = 1; n_excused++; next }
		shown = bad = 1; n_found++
	}
	shown
	END {
		for (k in line) if (!(k in used)) { print list ":" line[k] ": excuses nothing"; bad = 1 }
		printf "%d findings, %d excused\n", n_found, n_excused
		exit bad
	}' "$@"
}

analyze() { # BUILD ROOT
	mkdir -p "$1/analyze/of"
	rm -f "$1/analyze/of"/*
	args "$1" >"$1/analyze/args"
	[ -s "$1/analyze/args" ] || { echo "analyze.sh: $1 has no sources" >&2; return 1; }
	{ clang-tidy --version && cat "$here/.clang-tidy"; } >"$1/analyze/version"
	cut -f 1 "$1/analyze/args" | xargs -n 1 -P "$(nproc)" sh "$here/tools/analyze.sh" --one "$1" "$2" || return 1
	# What nobody refers to any more goes.
	cat "$1/analyze/of"/* | sort -u >"$1/analyze/kept"
	find "$1/analyze" -maxdepth 1 -type f -name '????????????????????????????????????????' | sort | comm -23 - "$1/analyze/kept" |
		xargs -r rm -f
	# shellcheck disable=SC2046
	judge "$2" $(cat "$1/analyze/kept")
}

# Trees in which nothing, something excused, something else, or nothing any more is wrong.
self_test() {
	tmp=$(mktemp -d)
	trap 'rm -rf "$tmp"' EXIT
	mkdir -p "$tmp/src/a" "$tmp/tests" "$tmp/build"
	cat >"$tmp/build/compile_commands.json" <<'JSON'
    "command": "cc -I../src -DNAME=\"x\" -std=c11 -O2 -Werror -MD -MQ a.o -MF a.o.d -o a.o -c ../src/a/a.c",
    "file": "../src/a/a.c",
JSON
	sound='int f(const int *p);\nint f(const int *p)\n{\n\treturn p ? *p : 0;\n}'
	wrong='int f(const int *p);\nint f(const int *p)\n{\n\tif (!p)\n\t\treturn *p;\n\treturn *p;\n}'
	excuse='src/a/a.c | clang-analyzer-core.NullDereference | return *p;'
	n=0 result=0
	echo 1..6
	expect() { # STATUS PATTERN TITLE
		n=$((n + 1))
		rc=0
		(analyze "$tmp/build" "$tmp") >"$tmp/said" 2>&1 || rc=$?
		if [ $rc = "$1" ] && grep -q "$2" "$tmp/said"; then echo "ok $n - self-test: $3"; else
			echo "not ok $n - self-test: $3"
			sed 's/^/# /' "$tmp/said"
			result=1
		fi
	}
	: >"$tmp/tests/analyzer-ignore.txt"
	printf "$sound\n" >"$tmp/src/a/a.c"
	expect 0 '^0 findings, 0 excused$' 'nothing is wrong'
	printf "$wrong\n" >"$tmp/src/a/a.c"
	expect 1 '^src/a/a.c:5:10: warning: .*NullDereference' 'a null pointer is read'
	echo "$excuse | a test" >"$tmp/tests/analyzer-ignore.txt"
	expect 0 '^0 findings, 1 excused$' 'it is excused'
	echo "$excuse | " >"$tmp/tests/analyzer-ignore.txt"
	expect 1 'analyzer-ignore.txt:1: not of the form' 'without a reason it is not'
	echo "$excuse | a test" >"$tmp/tests/analyzer-ignore.txt"
	printf "$sound\n" >"$tmp/src/a/a.c"
	expect 1 'analyzer-ignore.txt:1: excuses nothing' 'an excuse that excuses nothing'
	echo 'no C' >"$tmp/src/a/a.c"
	expect 1 'error: ' 'what does not compile'
	return $result
}

case ${1:-} in
--self-test) self_test ;;
--one) one "$2" "$3" "$4" ;;
'') echo 'usage: analyze.sh BUILD [ROOT] | --self-test' >&2; exit 2 ;;
*) analyze "$(cd "$1" && pwd)" "$(cd "${2:-$here}" && pwd)" ;;
esac
