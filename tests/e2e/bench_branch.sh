#!/bin/sh
# bench_branch (./dev bench branch): its table follows from the raw rounds it writes; logits are compared; what is required
# can be failed.
#
# Faults planted to see that it notices: a ratio upside down, the thrown-away round kept as a round more (the table); an
# other token for one side (the comparison of logits ends the run).
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"

branch=$COHORT_BUILD/bench_branch

run "$branch" -m "$model" --branches 1,3 --prompts 8,40 --gen 2 --rounds 3 --json "$tmp/a.json"
[ "$rc" = 0 ] && has out 'medians of 3 interleaved rounds of 2 steps' && [ "$(grep -cE '^ +(8|40) +[13] ' "$tmp/out")" = 4 ]
verdict 'a table with a line for each cell'
# By cell: the ratio, then the rounds of shared and apart.
awk '
/"step_ratio":/ { ratio = $2 + 0 }
/"(shared|apart|bare)":/ { side = $1; gsub(/[":]/, "", side) }
/"rounds": \[/ { n = 0; on = 1; next }
on && /\]/ { on = 0; if (side == "bare") { print ratio, s, a; s = a = "" } next }
on { n++; if (side == "shared") s = s " " $1 + 0; if (side == "apart") a = a " " $1 + 0 }' "$tmp/a.json" >"$tmp/cells"
awk '
function mid(a, b, c) { return a > b ? (b > c ? b : a > c ? c : a) : (a > c ? a : b > c ? c : b) }
{ want = mid($5, $6, $7) / mid($2, $3, $4); if (NF != 7 || $1 / want > 1.001 || want / $1 > 1.001) bad = 1 }
END { exit bad || NR != 4 }' "$tmp/cells"
verdict 'a ratio is that of the medians of its rounds'

run "$branch" -m "$model" --branches 2 --prompts 8 --gen 1 --rounds 1 --check
[ "$rc" = 2 ] && has err '32 branches'
verdict 'nothing to check'
for bad in '--branches 0' '--branches 1,x' '--prompts 5,' '--prompts 1100' '--shape none' '--gen 0'; do
	# shellcheck disable=SC2086
	run "$branch" $bad
	refused 2 "Try 'bench_branch --help'"
	verdict "refused: $bad"
done
run "$branch" -m "$tmp/none.gguf"
[ "$rc" = 3 ] && has err none.gguf
verdict 'a model that is not there'
