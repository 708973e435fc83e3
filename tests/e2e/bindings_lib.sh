# shellcheck shell=sh disable=SC2034,SC2154
# What the tests of the bindings share; sourced after lib.sh. Makes what all of them compare with: the layout of structs by
# the C compiler, what the programs say, and vectors.

prompts='Once upon a time|The cat|One day, a bird'
schema='{"type":"object","properties":{"name":{"type":"string","maxLength":8},"age":{"type":"integer"}},"required":["name","age"]}'

# skip_all WHY: where the binding cannot be tried.
skip_all() {
	skip "$1" "$2"
	exit 0
}
[ -e "$COHORT_BUILD/libcohort.so" ] && [ -x "$COHORT_BUILD/abi_layout" ] ||
	skip_all 'bindings' 'the shared library is not there'
! grep -qE '__(asan|tsan|ubsan|msan)_' "$COHORT_BUILD/libcohort.so" ||
	skip_all 'bindings' 'the library is built with sanitizers'

library=$COHORT_BUILD/libcohort.so
"$COHORT_BUILD/abi_layout" >"$tmp/layout" || exit 1
"$bin/batched" -prompt 'Once upon a time' -n-predict 24 -seed 7 >"$tmp/want_four" 2>"$tmp/err" || exit 1
"$bin/cohort" run -n 24 -seed 7 'Once upon a time' 'The cat' 'One day, a bird' >"$tmp/want_stream" 2>"$tmp/err" || exit 1
"$bin/cohort" run -p 'A pet:' -n 64 -seed 7 -json-schema "$schema" >"$tmp/want_json" 2>"$tmp/err" || exit 1
"$bin/cohort" embed -similarity 'a cat sat down' 'a kitten sat' 'stock prices fell' >"$tmp/want_embeddings" 2>"$tmp/err" || exit 1
"$bin/cohort" embed -normalize none -output "$tmp/vectors.npy" 'a cat sat down' 'stock prices fell' 2>"$tmp/err" || exit 1

# example KIND COMMAND...: the program of a binding says what the C program does, byte for byte.
example() {
	kind=$1
	shift
	run "$@" "$model"
	[ "$rc" = 0 ] && empty err && [ -s "$tmp/want_$kind" ] && same out "want_$kind"
	verdict "example $kind: byte for byte what the C program says"
}

# verdicts: of the lines "plan N", "ok NAME" and "bad NAME" in $tmp/out. A test that is missing has failed.
verdicts() {
	cp "$tmp/out" "$tmp/tests"
	n_plan=$(sed -n 's/^plan //p' "$tmp/tests")
	while read -r result name; do
		case $result in
		ok) true; verdict "$name" ;;
		bad) false; verdict "$name" ;;
		esac
	done <"$tmp/tests"
	[ "$(grep -c '^ok ' "$tmp/tests")" = "${n_plan:-none}" ]
	verdict "all ${n_plan:-} tests ran and passed"
}
