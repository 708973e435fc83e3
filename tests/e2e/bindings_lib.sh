# shellcheck shell=sh disable=SC2034,SC2154
# What the tests of the bindings share; sourced after lib.sh. Makes what all of them compare with: the layout of structs
# by the C compiler, what the programs say, and vectors.

schema='{"type":"object","properties":{"name":{"type":"string","maxLength":8},"age":{"type":"integer"}},
"required":["name","age"]}'

# skip_all WHY: where the binding cannot be tried.
skip_all() {
	skip "$1" "$2"
	exit 0
}
if [ ! -e "$COHORT_BUILD/libcohort.so" ] || [ ! -x "$COHORT_BUILD/abi_layout" ]; then
	skip_all 'bindings' 'the shared library is not there'
fi
if grep -qE '__(asan|tsan|ubsan|msan)_' "$COHORT_BUILD/libcohort.so"; then
	skip_all 'bindings' 'the library is built with sanitizers'
fi

library=$COHORT_BUILD/libcohort.so
"$COHORT_BUILD/abi_layout" >"$tmp/layout" || exit 1
want() { # FILE PROGRAM ARGUMENT...
	file=$tmp/$1
	prog=$bin/$2
	shift 2
	"$prog" "$@" >"$file" 2>"$tmp/err" </dev/null || exit 1
}
want want_four batched -prompt 'Once upon a time' -n-predict 24 -seed 7
want want_stream cohort run -n 24 -seed 7 'Once upon a time' 'The cat' 'One day, a bird'
want want_json cohort run -p 'A pet:' -n 64 -seed 7 -json-schema "$schema"
want want_embeddings cohort embed -similarity 'a cat sat down' 'a kitten sat' 'stock prices fell'
want vectors.npy cohort embed -normalize none -format npy 'a cat sat down' 'stock prices fell'

# The chat examples of the READMEs ask two questions.
answer() { # MESSAGES: one more line of want_chat
	printf '[%s]' "$1" >"$tmp/messages"
	"$bin/cohort" template -messages "$tmp/messages" >"$tmp/chat" && "$bin/cohort" run -n 24 -seed 7 -stop '<|user|>' -f "$tmp/chat"
}
user='{"role":"user","content":"Tell me about a dog."}'
first=$(answer "$user" 2>"$tmp/err") || exit 1
second=$(answer "$user,{\"role\":\"assistant\",\"content\":\"$first\"},{\"role\":\"user\",\"content\":\"What did he find?\"}" 2>"$tmp/err") || exit 1
printf '%s\n' "$first" "$second" >"$tmp/want_chat"

# block LANGUAGE N FILE: the Nth block of a language in a README.
block() { awk -v lang="$1" -v n="$2" '$0 == "```" lang { on = ++k == n; next } /^```/ { on = 0 } on' "$3"; }

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
