#!/bin/sh
# The programs of examples/: they run, say what they promise, and refuse what is not a model.
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"

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

for e in beam best_of_n each_and_scatter fork_and_rewind many_users tree; do
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
