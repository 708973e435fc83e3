#!/bin/sh
# The programs of examples/: they run, say what they promise, refuse what is not a model, and build by one line of cc.
# Seen red with: a stream left out in four_continuations, a schema without its enum in grammar_json, a strategy that
# plans nothing, -lm needed by an example, an example that examples/README.md does not name.
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"

# What hello says is what batched says with one sequence; four_continuations, with four. Their top-p differs.
run "$COHORT_BUILD/example_hello" "$model"
keep out hello.out
run batched -top-p 0.95 -n-parallel 1 -n-predict 32 -prompt 'Once upon a time'
sequence 0 out | sed '/^$/d' >"$tmp/alone"
[ "$rc" = 0 ] && [ -s "$tmp/alone" ] && same hello.out alone
verdict 'hello: what batched says'

run "$COHORT_BUILD/example_four_continuations" "$model"
[ "$rc" = 0 ] && empty err
verdict 'four_continuations: runs'
sed '/^$/d' "$tmp/out" >"$tmp/four"
run batched -top-p 0.95 -n-parallel 4 -n-predict 24 -seed 7 -prompt 'Once upon a time'
for i in 0 1 2 3; do sequence $i out; done | sed '/^$/d' >"$tmp/alone"
[ "$rc" = 0 ] && [ "$(grep -c '^Once upon a time' "$tmp/alone")" = 4 ] && same four alone
verdict 'four_continuations: the texts of batched'

run "$COHORT_BUILD/example_streaming" "$model"
[ "$rc" = 0 ] && empty err && has out 'The little cat' &&
	matches out "$(printf '^A\\| cat\\|.*\\|\303\257\\|.*\\|\342\202\254\\|.*\\|\360\237\220\210\\|')"
verdict 'streaming: characters come whole'

talk() { printf 'Hello\nWhat is your "name"?\nTell me a story\n' | "$COHORT_BUILD/example_chat" "$model"; }
run talk
n_all=$(sed -n '$s/^\([0-9]*\) tokens of prompts, [0-9]* of them computed$/\1/p' "$tmp/out")
n_new=$(sed -n '$s/^[0-9]* tokens of prompts, \([0-9]*\) of them computed$/\1/p' "$tmp/out")
[ "$rc" = 0 ] && empty err && [ "$(wc -l <"$tmp/out")" -ge 4 ] && [ "${n_new:-0}" -gt 20 ] && [ "$n_new" -lt "$n_all" ]
verdict 'chat: three answers; what was said before is not computed again'

run "$COHORT_BUILD/example_custom_strategy" "$model"
[ "$rc" = 0 ] && empty err && has out 'in-turn: ended in ticks 12 24 36; 0 plans refused' &&
	has out 'decode-maximal: ended in ticks 12 12 12; 0 plans refused' && has out 'The texts are the same.'
verdict 'custom_strategy: one at a time and together, the same texts'

# cohort embed has the cosine of the question with each text; the example its square.
run "$COHORT_BUILD/example_embeddings_and_search" "$model"
[ "$rc" = 0 ] && empty err && [ "$(wc -l <"$tmp/out")" = 5 ] && sed -n 2p "$tmp/out" | grep -q 'The dog sleeps in the sun\.$' &&
	sed 1d "$tmp/out" | sort -c -rn
verdict 'embeddings_and_search: the likest first'
sed 1d "$tmp/out" | sort -k 2 | sed 's/ .*//' >"$tmp/squares"
run cohort embed -similarity 'Where does the dog sleep?' 'It was a cold and rainy day.' 'The cat eats a fish.' \
	'The dog sleeps in the sun.' 'Tom has a big red ball.'
head -n 1 "$tmp/out" | tr -s ' \t' '\n' | sed '/^$/d' | sed 1d | paste - "$tmp/squares" >"$tmp/pairs"
[ "$rc" = 0 ] && [ "$(wc -l <"$tmp/pairs")" = 4 ] && awk '{ d = $1 * $1 - $2; if (d < -2e-4 || d > 2e-4) exit 1 }' "$tmp/pairs"
verdict 'embeddings_and_search: the likeness that cohort embed has'

run "$COHORT_BUILD/example_grammar_json" "$model"
tr -d ' \n\t' <"$tmp/out" | sed 's/}{/}\n{/g' >"$tmp/documents"
[ "$rc" = 0 ] && empty err &&
	[ "$(grep -cE '^\{"name":"([^"\\]|\\.)*","kind":"(cat|dog|bird)","age":([1-9]|1[0-9]|20)\}$' "$tmp/documents")" = 3 ]
verdict 'grammar_json: three documents by the schema'

run "$COHORT_BUILD/example_each_and_scatter" "$model"
[ "$rc" = 0 ] && empty err && has out '0: Once upon a time' && has out '1: The little dog' && has out '2: Tom and Lily' &&
	[ "$(wc -l <"$tmp/out")" -ge 3 ]
verdict 'each_and_scatter: three texts'
keep out first

# Greedy, so each line is what the sequence gives alone: batched with one sequence says the same.
run batched -temperature 0 -n-parallel 1 -n-predict 24 -prompt 'Once upon a time'
[ "$rc" = 0 ] && grep -F 'Once upon a time' "$tmp/out" | head -n 1 | cut -c 1-60 >"$tmp/alone" &&
	grep -qF -e "$(cat "$tmp/alone")" "$tmp/first"
verdict 'each_and_scatter: the text a sequence gives alone'

run "$COHORT_BUILD/example_fork_and_rewind" "$model"
[ "$rc" = 0 ] && empty err && has out 'bit for bit' && matches out '^4 forks of [0-9]+ tokens: ([0-9]+) blocks before, \1 after$'
verdict 'fork_and_rewind: forks cost no block, a rewound sequence gives the same bits'

run "$COHORT_BUILD/example_many_users" "$model"
[ "$rc" = 0 ] && empty err && has out 'Once upon a time' && has out 'the same, byte for byte' &&
	[ "$(grep -c 'first token after' "$tmp/out")" = 6 ]
verdict 'many_users: six answers at once, the first the same alone'

run "$COHORT_BUILD/example_best_of_n" "$model"
[ "$rc" = 0 ] && empty err && [ "$(grep -c '^[0-5], perplexity' "$tmp/out")" = 6 ] &&
	matches out '^best: [0-5]. 7 branches held [0-9]+ blocks, [1-9][0-9]* of them shared; it alone holds [1-9]$' &&
	[ "$(sed -n 's/^best: \([0-5]\).*/\1/p' "$tmp/out")" = "$(sort -t ' ' -k 3n "$tmp/out" | sed -n 's/^\([0-5]\), perp.*/\1/p' | head -n 1)" ]
verdict 'best_of_n: the likeliest of six stays, alone'

# Its numbers fall, and the search with one beam is what greedy decoding says.
run "$COHORT_BUILD/example_beam" "$model"
sed -n 's/^ *\(-[0-9.]*\):.*/\1/p' "$tmp/out" | head -n 4 >"$tmp/sums"
[ "$rc" = 0 ] && empty err && [ "$(wc -l <"$tmp/sums")" = 4 ] && sort -rn "$tmp/sums" | cmp -s - "$tmp/sums"
verdict 'beam: four texts, the likeliest first, and greedy'
keep out beam
run batched -temperature 0 -n-parallel 1 -n-predict 16 -prompt 'Once upon a time'
[ "$rc" = 0 ] && grep -qF -e "Once upon a time$(tail -n 1 "$tmp/beam" | sed 's/^ *-[0-9.]*://')" "$tmp/out"
verdict 'beam: one beam is greedy decoding'

run "$COHORT_BUILD/example_tree" "$model"
[ "$rc" = 0 ] && empty err && [ "$(wc -l <"$tmp/out")" = 40 ] && [ "$(grep -cE '^    [^ ]|^     [^ ]' "$tmp/out")" = 3 ]
verdict 'tree: three levels of three'

programs=$(cd "$COHORT_SOURCE/examples" && ls -- *.c | sed 's/\.c$//; /^strategy_/d')
for e in $programs; do
	run "$COHORT_BUILD/example_$e"
	[ "$rc" = 2 ] && has err usage
	verdict "$e: usage"
	run "$COHORT_BUILD/example_$e" "$COHORT_SOURCE/README.md"
	[ "$rc" = 1 ] && has err README.md
	verdict "$e: not a model"
done

if command -v nm >/dev/null; then
	run nm -D "$COHORT_BUILD/strategy_shortest_first.so"
	[ "$rc" = 0 ] && [ "$(grep cohort_ "$tmp/out" | sed 's/.* \([A-Za-z]\) /\1 /')" = 'T cohort_strategy_export' ]
	verdict 'strategy_shortest_first: exports its strategies and needs nothing of the library'
else
	skip 'strategy_shortest_first' 'nm is not there'
fi

# Each is in the list, and builds with what pkg-config names, which is the library and nothing else: here that of the
# build directory (install.sh tries the installed one).
for e in $programs strategy_shortest_first; do
	grep -qF "[$e.c]($e.c)" "$COHORT_SOURCE/examples/README.md" || echo "$e"
done >"$tmp/out"
empty out && [ "$(grep -c '^| \[[a-z_]*\.c\](' "$COHORT_SOURCE/examples/README.md")" = "$(find "$COHORT_SOURCE/examples" -name '*.c' | wc -l)" ]
verdict 'examples/README.md has every example'
cc=$(command -v "${CC:-cc}" || command -v gcc || command -v clang)
if [ -z "$cc" ] || ! command -v pkg-config >/dev/null || [ ! -e "$COHORT_BUILD/libcohort.so" ]; then
	skip 'cc NAME.c $(pkg-config --cflags --libs cohort)' 'a compiler, pkg-config or the library is not there'
elif grep -qE "__(asan|tsan|ubsan|msan)_" "$COHORT_BUILD/libcohort.so"; then
	skip 'cc NAME.c $(pkg-config --cflags --libs cohort)' 'the library is built with sanitizers'
else
	cat >"$tmp/cohort.pc" <<END
Name: cohort
Description: of the build directory
Version: 0
Libs: -L$COHORT_BUILD -lcohort
Cflags: -I$COHORT_SOURCE/include
END
	PKG_CONFIG_PATH=$tmp
	export PKG_CONFIG_PATH
	build_all() {
		for e in $programs; do
			# shellcheck disable=SC2046
			"$cc" -std=c11 -Wall -Wextra -pedantic -Werror "$COHORT_SOURCE/examples/$e.c" $(pkg-config --cflags --libs cohort) -o "$tmp/$e" || return 1
		done
	}
	run build_all
	[ "$rc" = 0 ] && empty err && LD_LIBRARY_PATH=$COHORT_BUILD "$tmp/hello" "$model" | cmp -s - "$tmp/hello.out"
	verdict 'each builds by cc NAME.c $(pkg-config --cflags --libs cohort)'
fi
