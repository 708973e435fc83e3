#!/bin/sh
# bench_threads (./dev bench threads): its tables follow from the raw rounds it writes, and no model is left behind.
#
# Faults planted to see that it notices (each made cases fail): a probe's speed-up upside down, a quotient over the best
# instead of over one thread, the thrown-away round kept as a round more, a model's directory that stays.
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"

threads=$COHORT_BUILD/bench_threads
small="--prompt 8 --gen 1"

# shellcheck disable=SC2086
run "$threads" -m "$model" --threads 1,2,5 $small --rounds 3 --json "$tmp/a.json"
[ "$rc" = 0 ] && has out 'medians of 3 interleaved rounds' && matches out '^  file +2 .* required 0.93: (met|not met)$' &&
	[ "$(grep -c '^  file ' "$tmp/out")" = 9 ]
verdict 'a table of prefill and one of decode'
# The numbers of each cell on one line: job, rows, threads, median, speed_up, of_best, quotient, and the rounds.
awk '
/"(threads|median|speed_up|of_best|quotient)":/ { k = $1; gsub(/[":]/, "", k); v = $2 + 0; got[k] = v }
/"(job|rows)":/ { k = $1; gsub(/[":]/, "", k); v = $2; gsub(/[",]/, "", v); got[k] = v }
/"rounds": \[/ { n = 0; on = 1; next }
on && /\]/ { on = 0; next }
on { r[++n] = $1 + 0 }
/^  }/ {
	print got["job"] == "" ? "probe" : got["job"], got["rows"] + 0, got["threads"], got["median"], got["speed_up"] + 0, got["of_best"] + 0, got["quotient"] + 0, n, r[1], r[2], r[3]
	split("", got); n = 0
}' "$tmp/a.json" >"$tmp/cells"
awk '
function mid(a, b, c) { return a > b ? (b > c ? b : a > c ? c : a) : (a > c ? a : b > c ? c : b) }
function near(a, b) { return a > 0 && b > 0 && a / b < 1.001 && b / a < 1.001 }
{ if ($8 != 3 || !near($4, mid($9, $10, $11))) bad = 1 }
{ m = $4; k = $1 " " $2; v[k, $3] = m; if (m > top[k]) top[k] = m }
$1 != "probe" { if (!near($5, m / v[k, 1])) bad = 1; of[NR] = $6; key[NR] = k; med[NR] = m }
$1 == "prefill" { if (!near($7, m / v[k, 1] / (v["probe 0", $3] / v["probe 0", 1]))) bad = 1 }
END { for (i in of) if (!near(of[i], med[i] / top[key[i]])) bad = 1; exit bad || NR != 12 }' "$tmp/cells"
verdict 'medians, speed-ups and quotients follow from the rounds'

mkdir "$tmp/place"
# shellcheck disable=SC2086
TMPDIR=$tmp/place run "$threads" --formats Q2_K --threads 1 $small --rounds 1
[ "$rc" = 0 ] && matches out '^  Q2_K +8 +1 ' && [ -z "$(ls "$tmp/place")" ]
verdict 'a random model is made and removed'
TMPDIR=$tmp/no/such run "$threads"
refused 4 "$tmp/no/such/cohort-bench-"
verdict 'no place for models'

refuse() { # NAME TEXT ARGUMENT...
	what=$1
	text=$2
	shift 2
	run "$threads" "$@"
	refused 2 "$text" && has err "Try 'bench_threads --help'"
	verdict "refused: $what"
}
refuse 'threads that do not begin with 1' "got '2,4'" --threads 2,4
refuse 'threads that do not rise' "got '1,4,4'" --threads 1,4,4
refuse 'no number' "got '1,x'" --threads 1,x
refuse 'an unknown format' "'Q9' is not known" --formats Q4_0,Q9
refuse 'no format' 'got nothing' --formats ''
refuse 'an unknown shape' "'smol' is not known" --shape smol
run "$threads" -m "$tmp/none.gguf"
refused 3 'none.gguf'
verdict 'a file that is not there'
# shellcheck disable=SC2086
run "$threads" -m "$model" --threads 1 $small --rounds 1 --json "$tmp/no/such.json"
[ "$rc" = 4 ] && has err "$tmp/no/such.json: No such file" && has out 'prefill of 8 tokens'
verdict 'JSON that cannot be written: the tables are there all the same'

mkdir "$tmp/hit"
fresh
TMPDIR=$tmp/hit "$threads" --shape llama3.2-1b --formats F16 >"$tmp/out" 2>"$tmp/err" &
pid=$!
pids="$pids $pid"
until_true 20 sh -c "[ -n \"\$(ls '$tmp/hit')\" ]"
kill -TERM $pid
rc=0
wait $pid || rc=$?
[ "$rc" = 130 ] && [ -z "$(ls "$tmp/hit")" ] && has err 'interrupted'
verdict 'a signal while a model is made leaves nothing behind'
run "$threads" --help
[ "$rc" = 0 ] && empty err && has out '-formats LIST' && has out './dev bench threads'
verdict 'help'
