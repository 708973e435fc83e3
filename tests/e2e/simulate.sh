#!/bin/sh
# cohort simulate: traces in, a table out; what files of it hold; every way to be wrong is said; a signal.
#
# Faults planted to see that it notices (each made cases fail): a column read in the header's place of another, requests
# not sorted by arrival, costs read in seconds instead of milliseconds, decode and prefill rows of the cost swapped, a
# percentile one rank too low, a refused request among the times, lengths that depend on the rate, a saved trace without
# its shared tokens, a name that is not escaped in the picture.
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"
unset COHORT_SEED # an option of made-up requests here

# A tick of p prefill and d decode rows takes 10 + p + 4 d ms, on and between the points and beyond them.
cat >"$tmp/cost.json" <<'JSON'
{"cohort_cost": 1, "about": "by <hand> & head", "prefill_rows": [0, 1, 64], "decode_rows": [0, 1, 8],
 "ms": [[0, 14, 42], [11, 15, 43], [74, 78, 106]]}
JSON
sim() { run cohort simulate --cost "$tmp/cost.json" "$@"; }
# cell STRATEGY COLUMN: of the table. Columns: 2 out t/s, 3 req/s, 4-6 TTFT, 7-10 gap, 11 wait, 12-13 end, 14 Jain, 15
# refused, 16 parked, 17 cached.
cell() { grep "^| $1 " "$tmp/out" | tr -d ' |%' >/dev/null && grep "^| $1 " "$tmp/out" | cut -d'|' -f"$(($2 + 1))" | tr -d ' '; }
lines() { grep -c '^| ' "$tmp/out"; }

# ---- One request, by hand ----

printf 'arrival_s,prompt_tokens,output_tokens\n2.5,30,3\n' >"$tmp/one.csv"
sim --trace "$tmp/one.csv" --strategy balanced
# 30 prefill rows: 40 ms; then two steps of 14 ms.
[ "$rc" = 0 ] && empty err && [ "$(lines)" = 2 ] && [ "$(cell balanced 4)" = 0.0400 ] && [ "$(cell balanced 6)" = 0.0400 ] &&
	[ "$(cell balanced 12)" = 0.0680 ] && [ "$(cell balanced 10)" = 14.00 ] && [ "$(cell balanced 2)" = 44.12 ] &&
	[ "$(cell balanced 3)" = 14.71 ] && [ "$(cell balanced 11)" = 0.0000 ] && [ "$(cell balanced 14)" = 1.000 ]
verdict 'one request: every number as worked out by hand'
grep '^|' "$tmp/out" | awk '{ print length }' | sort -u | wc -l | grep -qx 1
verdict 'the table is aligned'
sim --trace "$tmp/one.csv"
[ "$rc" = 0 ] && [ "$(lines)" = 4 ] && [ -n "$(cell decode-maximal 2)" ] && [ -n "$(cell prefill-priority 2)" ] && [ -n "$(cell balanced 2)" ]
verdict 'without -strategy: all that are built in'

# ---- The example ----

# On a fast machine as on a slow one: costs of the built-in model on two cores, a tenth of them, and twenty times as much.
# Red with requests that come one by one: a fast machine is never busy, and all strategies do the same.
options=$(sed -n 's/^build\/cohort simulate \(.*\) --svg .*/\1/p' "$COHORT_SOURCE/README.md")
for factor in 0.1 1 20; do
	awk -v f=$factor 'BEGIN {
		printf "{\"cohort_cost\": 1, \"about\": \"x\", \"prefill_rows\": [0, 1, 8, 32, 128], \"decode_rows\": [0, 1, 4, 16], \"ms\": ["
		n = split("0 0.21 0.37 1.2 0.21 0.24 0.44 1.3 0.46 0.52 0.7 1.5 1.4 1.46 2.2 2.45 5.1 5.11 5.3 6.3", ms)
		for (i = 1; i <= n; i++) printf "%s%.6g%s", i % 4 == 1 ? "[" : "", ms[i] * f, i % 4 ? ", " : i < n ? "], " : "]"
		print "]}"
	}' >"$tmp/factor.json"
	# shellcheck disable=SC2086
	run cohort simulate --cost "$tmp/factor.json" $options
	rows=$(sed -n 's/^| [-a-z]* *|\( *[0-9].*\)/\1/p' "$tmp/out" | sort -u | wc -l)
	[ -n "$options" ] && [ "$rc" = 0 ] && if [ $factor = 0.1 ]; then [ "$rows" -ge 2 ]; else [ "$rows" = 3 ]; fi
	verdict "the README's example shows that strategies differ, at $factor times the costs"
done
run cohort simulate --help
has out "  cohort simulate $options --svg "
verdict 'help has the same example'

# ---- Traces ----

# The same three requests in another order of lines and columns, with comments, blanks, quotes and CRLF.
cat >"$tmp/a.csv" <<'CSV'
arrival_s,prompt_tokens,output_tokens,client,priority,group,shared_tokens
0,100,10,1,0,5,64
1,120,5,2,0,5,64
1.5,60,20,1,1,0,0
CSV
printf '# a comment\r\n\r\n client , "output_tokens",shared_tokens,group,prompt_tokens,priority,arrival_s\r\n1,20,0,0,60,1,1.5\r\n# another\r\n2, 5 ,64,5,120,0,1\r\n1,10,64,5,100,0,0\r\n' >"$tmp/b.csv"
sim --trace "$tmp/a.csv" --json "$tmp/a.json"
grep '^|' "$tmp/out" >"$tmp/a.table"
[ "$rc" = 0 ]
verdict 'a trace with all columns'
sim --trace "$tmp/b.csv"
[ "$rc" = 0 ] && grep '^|' "$tmp/out" | cmp -s - "$tmp/a.table"
verdict 'columns and lines in another order: the same table'
[ "$(cell balanced 17)" = 22.9% ]
verdict 'shared tokens: 64 of the 280 of all prompts are reused'
sim --trace "$tmp/a.csv" --no-reuse
[ "$rc" = 0 ] && [ "$(cell balanced 17)" = 0.0% ]
verdict '-no-reuse: none are'

sim --requests 300 --rate 20 --share 40 --clients 3 --generate heavy-tail --seed 7 --save-trace "$tmp/made.csv"
grep '^|' "$tmp/out" >"$tmp/made.table"
[ "$rc" = 0 ] && [ "$(wc -l <"$tmp/made.csv")" = 301 ]
verdict 'a trace is made and saved'
sim --trace "$tmp/made.csv" --save-trace "$tmp/made2.csv"
[ "$rc" = 0 ] && grep '^|' "$tmp/out" | cmp -s - "$tmp/made.table" && cmp -s "$tmp/made.csv" "$tmp/made2.csv"
verdict 'the saved trace gives the same table, and itself'
# The last of 10,000,000 at 1e-6 a second, as it is saved. Seen red with a limit of 1e12: such a trace was not read back.
printf 'arrival_s,prompt_tokens,output_tokens\n9998413500587.537109,1,1\n' >"$tmp/far.csv"
sim --trace "$tmp/far.csv" --save-trace "$tmp/far2.csv" --strategy balanced
[ "$rc" = 0 ] && empty err && matches far2.csv '^9998413500587.537109,1,1,'
verdict 'a trace as long as any that is made is read back'
# mean COLUMN WANT WITHIN: of the saved trace. rate WANT WITHIN: its requests per second.
mean() { awk -F, -v c="$1" -v want="$2" -v d="$3" 'NR > 1 { s += $c; n++ } END { m = s / n; exit !(m > want - d && m < want + d) }' "$tmp/made.csv"; }
rate() { awk -F, -v want="$1" -v d="$2" '{ t = $1 } END { r = (NR - 1) / t; exit !(r > want - d && r < want + d) }' "$tmp/made.csv"; }
for kind in poisson bursts heavy-tail; do
	sim --generate $kind --requests 20000 --rate 50 --prompt 90 --output 30 --share 20 --clients 2 --slots 64 --strategy balanced \
		--queue 100000 --queue-tokens 100000000 --save-trace "$tmp/made.csv"
	[ "$rc" = 0 ] && mean 2 90 4 && mean 3 30 2 && rate 50 5 && mean 7 20 0.001 &&
		awk -F, 'NR > 1 && ($2 < 21 || $3 < 1 || ($4 != 1 && $4 != 2) || $6 != $4 || $1 < last) { bad = 1 } NR > 1 { last = $1 + 0; n[$4]++ }
			END { exit bad || n[1] < 1.9 * n[2] || n[1] > 2.1 * n[2] }' "$tmp/made.csv"
	verdict "$kind: rate, means, shares and clients are those asked for"
	cut -d, -f2- "$tmp/made.csv" >"$tmp/lengths.$kind"
	sim --generate $kind --requests 20000 --rate 60 --prompt 90 --output 30 --share 20 --clients 2 --slots 64 --strategy balanced \
		--save-trace "$tmp/made.csv"
	cut -d, -f2- "$tmp/made.csv" | cmp -s - "$tmp/lengths.$kind"
	verdict "$kind: another rate leaves lengths and clients as they are"
done
! cmp -s "$tmp/lengths.poisson" "$tmp/lengths.heavy-tail" && cmp -s "$tmp/lengths.poisson" "$tmp/lengths.bursts"
verdict 'kinds differ in what they say they do'
sim --requests 50 --seed 1 --save-trace "$tmp/s1.csv" && sim --requests 50 --seed 2 --save-trace "$tmp/s2.csv" && ! cmp -s "$tmp/s1.csv" "$tmp/s2.csv"
verdict 'another seed, another trace'

# ---- Settings ----

sim --requests 300 --rate 100 --slots 2 --queue 5
[ "$rc" = 0 ] && [ "$(cell balanced 15)" -gt 10 ]
verdict '-queue: what finds it full is refused'
sim --requests 300 --rate 100 --slots 8 --ctx 512 --room overcommit --seq-max 400 --no-reuse
[ "$rc" = 0 ] && [ "$(cell balanced 16)" -gt 0 ]
verdict '-room overcommit: a small cache parks'
sim --requests 300 --rate 100 --slots 8 --ctx 512 --seq-max 400
[ "$rc" = 0 ] && [ "$(cell balanced 16)" = 0 ]
verdict '-room reserve: it does not'
so=$COHORT_BUILD/strategy_shortest_first.so
if [ -f "$so" ]; then
	sim --requests 200 --rate 20 --strategy "$so" --strategy "$so:shortest-first" --strategy balanced
	[ "$rc" = 0 ] && empty err && [ "$(grep -c '^| shortest-first ' "$tmp/out")" = 2 ] && [ "$(lines)" = 4 ]
	verdict 'a strategy from a shared object, by its name or as the first'
	sim --strategy "$so:nothing"
	refused 2 nothing
	verdict 'a shared object without that strategy'
else
	skip 'a strategy from a shared object, by its name or as the first' 'the example is not built'
fi
sim --strategy "$tmp/none.so"
refused 4 none.so
verdict 'a shared object that is not there'
cp "$tmp/one.csv" "$tmp/text.so"
sim --strategy "$tmp/text.so"
refused 4 text.so
verdict 'a file that is no shared object'

# ---- Costs ----

run cohort simulate --requests 20 --rounds 1 --slots 4 --ubatch 16 --batch 16 --depth 8 --save-cost "$tmp/own.json"
[ "$rc" = 0 ] && has err 'measuring the built-in model' && has out 'cohort-tiny'
verdict 'without -cost: measures the built-in model, and says so'
run cohort simulate --requests 20 --cost "$tmp/own.json" --slots 4
[ "$rc" = 0 ] && empty err && has out 'cohort-tiny'
verdict 'the saved costs are read back'
run cohort simulate --requests 20 --measure -m "$model" --rounds 2 --slots 1 --ubatch 1 --batch 4 --depth 0 -t 1
[ "$rc" = 0 ] && empty err
verdict 'the smallest grid, without anything before it'
run cohort simulate --requests 20 --rounds 1 --slots 1 --ubatch 1 --batch 4 --depth 0 -device cpu
[ "$rc" = 0 ] && has out 'cohort-tiny'
verdict 'on a device'
run cohort simulate --requests 20 -device nothing
refused 2 "device 'nothing' is not known; known: cpu"
verdict 'on a device that is not there'
sim -device cpu
refused 2 'options of measuring go without it'
verdict 'costs of a file: a device is refused'

# ---- JSON and the picture ----

mkdir "$tmp/<odd & name>"
cp "$tmp/made.csv" "$tmp/<odd & name>/t.csv"
cd "$tmp" || exit 1
sim --trace '<odd & name>/t.csv' --slots 64 --svg "$tmp/out.svg" --json "$tmp/out.json"
[ "$rc" = 0 ] && has out.svg '&lt;odd &amp; name&gt;/t.csv' && has out.svg 'by &lt;hand&gt; &amp; head' && ! grep -q -e 'href' -e 'url(' -e '<script' -e '<image' "$tmp/out.svg"
verdict 'a picture that needs nothing from elsewhere; texts are escaped'
if command -v xmllint >/dev/null; then
	xmllint --noout "$tmp/out.svg" 2>"$tmp/err"
	verdict 'the picture is well-formed'
elif command -v python3 >/dev/null; then
	python3 -c 'import sys, xml.dom.minidom as m; m.parse(sys.argv[1])' "$tmp/out.svg"
	verdict 'the picture is well-formed'
else
	skip 'the picture is well-formed' 'neither xmllint nor python3'
fi
if command -v python3 >/dev/null; then
	python3 - "$tmp/out.json" "$tmp/a.json" <<'PY'
import json, sys
o = json.load(open(sys.argv[1]))
assert [s["strategy"] for s in o["strategies"]] == ["decode-maximal", "prefill-priority", "balanced"]
assert o["setting"]["requests"] == 20000 and o["setting"]["slots"] == 64 and o["setting"]["cost"]["ms"][2][2] == 106
for s in o["strategies"]:
    assert s["served"] + s["refused"] == 20000
    for k in ("ttft_s", "gap_s", "wait_s", "end_s"):
        q = s[k]
        assert 0 <= q["p50"] <= q["p90"] <= q["p99"] <= q["max"], (k, q)
    assert abs(s["output_tokens_per_s"] - s["output_tokens"] / s["span_s"]) < 1e-6 * s["output_tokens_per_s"]
    assert s["prefill_rows"] == s["prompt_tokens"] - s["cached_tokens"] and s["parked"] == 0
    assert s["decode_rows"] == s["output_tokens"] - s["served"] and 0 < s["jain"] <= 1
# Three requests, by hand: the percentiles are values that were seen, the middle one and the largest.
s = json.load(open(sys.argv[2]))["strategies"][0]
assert abs(s["ttft_s"]["p50"] - 0.070) < 1e-9, s["ttft_s"]   # the 60 tokens: 10 + 60
assert abs(s["ttft_s"]["p90"] - 0.110) < 1e-9, s["ttft_s"]   # the first prompt: 10 + 100
assert abs(s["ttft_s"]["p99"] - 0.110) < 1e-9 and s["prefill_rows"] == 100 + 56 + 60
PY
	verdict 'the JSON: everything is there and belongs together'
else
	skip 'the JSON: everything is there and belongs together' 'no python3'
fi

# Times of which no rate can be taken and no axis made. Seen red with rates of any time above 0 (a rate that is infinite,
# and JSON refused for lack of memory), and with an axis of any (it never came to its end, or had no numbers).
tiny() { # COST OTHER ARRIVAL: in ms, of prompts and of the rest; and when the second request comes
	printf '{"cohort_cost": 1, "prefill_rows": [0, 1, 2], "decode_rows": [0, 1], "ms": [[0, %s], [%s, %s], [%s, %s]]}' "$2" "$1" "$2" "$1" "$2" >"$tmp/tiny.json"
	printf 'arrival_s,prompt_tokens,output_tokens\n0,5,5\n%s,5,5\n' "$3" >"$tmp/tiny.csv"
	rm -f "$tmp/out.svg" "$tmp/out.json"
	timeout 60 "$bin/cohort" simulate --cost "$tmp/tiny.json" --trace "$tmp/tiny.csv" --svg "$tmp/out.svg" --json "$tmp/out.json"
}
for times in '9e-320 9e-320 0' '1e-200 1e-200 0' '1e-300 1e11 1' '0 0 1e-320'; do
	# shellcheck disable=SC2086 # three words
	run tiny $times
	[ "$rc" = 0 ] && empty err && ! grep -qE -e '[^a-z](nan|inf)[^a-z]' "$tmp/out" "$tmp/out.svg" "$tmp/out.json" && has out.json '"strategies"'
	verdict "times too small to be divided by: $times"
done

# ---- Refused ----

bad() { # NAME CODE TEXT ARGUMENT...
	what=$1
	code=$2
	text=$3
	shift 3
	run cohort simulate "$@"
	refused "$code" "$text"
	verdict "refused: $what"
}
csv() { # NAME TEXT LINES
	printf '%b' "$3" >"$tmp/bad.csv"
	bad "a trace: $1" 4 "$2" --cost "$tmp/cost.json" --trace "$tmp/bad.csv"
}
head='arrival_s,prompt_tokens,output_tokens,client,priority,group,shared_tokens\n'
csv 'empty' 'bad.csv:1: the file has no header' ''
csv 'a header only' 'the trace has no requests' "$head"
csv 'no header' "bad.csv:1: column 1 of the header is no column that is known: '1'" '1,2,3\n'
csv 'a column that is lacking' "bad.csv:2: the header has no column 'output_tokens'" '# x\narrival_s,prompt_tokens\n'
csv 'a misspelt column' "column 2 of the header is no column that is known: 'promt_tokens'; did you mean prompt_tokens" 'arrival_s,promt_tokens,output_tokens\n'
csv 'a column twice' "column 3 of the header is a second 'arrival_s'" 'arrival_s,client,arrival_s\n'
csv 'too few fields' 'bad.csv:3: fewer fields than the 7 columns' "${head}1,1,1,1,1,1,0\n1,1\n"
csv 'too many fields' 'bad.csv:2: more fields than the 7 columns' "${head}1,1,1,1,1,1,0,\n"
csv 'no time' "bad.csv:2: column 1 (arrival_s): expected seconds from 0 to 1e14, got 'x'" "${head}x,1,1,1,1,1,0\n"
csv 'a time that is no number' "column 1 (arrival_s): expected seconds from 0 to 1e14, got 'nan'" "${head}nan,1,1,1,1,1,0\n"
csv 'a time before the start' "column 1 (arrival_s): expected seconds from 0 to 1e14, got '-1'" "${head}-1,1,1,1,1,1,0\n"
csv 'no prompt' "column 2 (prompt_tokens): expected a whole number from 1 to 1073741824, got '0'" "${head}1,0,1,1,1,1,0\n"
csv 'an empty field' "column 3 (output_tokens): expected a whole number from 1 to 1073741824, got ''" "${head}1,1,,1,1,1,0\n"
csv 'half a token' "column 3 (output_tokens): expected a whole number from 1 to 1073741824, got '1.5'" "${head}1,1,1.5,1,1,1,0\n"
csv 'a client with a name' "column 4 (client): expected a whole number from 0 to 2^63 - 1, got 'ann'" "${head}1,1,1,ann,1,1,0\n"
csv 'a priority beyond 32 bits' "column 5 (priority): expected a whole number of 32 bits, got '2147483648'" "${head}1,1,1,1,2147483648,1,0\n"
csv 'more shared than there is' 'bad.csv:2: 9 shared_tokens are more than the 8 prompt_tokens' "${head}1,8,1,1,1,1,9\n"
csv 'a zero byte' 'it has a zero byte' 'arrival_s\0000,prompt_tokens\n'
bad 'a trace that is not there' 4 "$tmp/none.csv: No such file" --cost "$tmp/cost.json" --trace "$tmp/none.csv"
bad 'a trace that is a directory' 4 "$tmp" --cost "$tmp/cost.json" --trace "$tmp"

json() { # NAME TEXT BYTES
	printf '%s' "$3" >"$tmp/bad.json"
	bad "costs: $1" 4 "$2" --cost "$tmp/bad.json"
}
json 'no JSON' 'bad.json:1: column' '{'
json 'something else' 'no file of costs' '{"a": 1}'
json 'a list that does not begin with 0, 1' 'begin with 0, 1 and rise' '{"cohort_cost": 1, "prefill_rows": [0, 2], "decode_rows": [0, 1], "ms": []}'
json 'a list that falls' 'begin with 0, 1 and rise' '{"cohort_cost": 1, "prefill_rows": [0, 1, 5, 5], "decode_rows": [0, 1], "ms": []}'
json 'too few lists' "as many lists as there are prefill_rows" '{"cohort_cost": 1, "prefill_rows": [0, 1], "decode_rows": [0, 1], "ms": [[0, 1]]}'
json 'too few numbers' "as many numbers as there are decode_rows" '{"cohort_cost": 1, "prefill_rows": [0, 1], "decode_rows": [0, 1], "ms": [[0, 1], [1]]}'
json 'a negative cost' 'numbers not below 0' '{"cohort_cost": 1, "prefill_rows": [0, 1], "decode_rows": [0, 1], "ms": [[0, 1], [-1, 1]]}'
json 'a cost that is text' 'numbers not below 0' '{"cohort_cost": 1, "prefill_rows": [0, 1], "decode_rows": [0, 1], "ms": [[0, 1], ["1", 1]]}'
# Seen red with what the file says, and what jansson quotes of it, printed as it is, and with marks of direction
# let through by printable.
printf '{"cohort_cost": 1, "about": "a\\u001b[31mb\\nc\\u202ed", "prefill_rows": [0, 1], "decode_rows": [0, 1], "ms": [[0, 1], [1, 1]]}' >"$tmp/odd.json"
run cohort simulate --cost "$tmp/odd.json" --trace "$tmp/one.csv"
[ "$rc" = 0 ] && grep -qxF -e '- cost: a?[31mb?c???d' "$tmp/out"
verdict 'costs: what they say of themselves does not steer the terminal'
printf '{"cohort_cost": \033[31m' >"$tmp/bad.json"
bad 'costs: a control character in the message' 4 "bad.json:1: column 17: invalid token near '?'" --cost "$tmp/bad.json"
bad 'costs that are not there' 4 "$tmp/none.json: No such file" --cost "$tmp/none.json"

bad 'an unknown option' 2 "did you mean '-trace'?" --trcae x
bad 'an operand' 2 "unexpected argument 'x'" x
bad 'an unknown strategy' 2 "strategy 'balance' is not known (did you mean 'balanced'?); known: decode-maximal, prefill-priority, balanced" --strategy balance
bad 'an unknown kind' 2 "-generate expects poisson, bursts or heavy-tail, got 'uniform'" --generate uniform
bad 'a trace and a kind' 2 '-trace has its requests' --trace "$tmp/one.csv" --generate poisson
bad 'a trace and a rate' 2 '-trace has its requests' --trace "$tmp/one.csv" --rate 3
bad 'costs and measuring' 2 '-cost has its costs' --cost "$tmp/cost.json" --measure
bad 'costs and a model' 2 '-cost has its costs' --cost "$tmp/cost.json" -m "$model"
bad 'more shared than the prompt' 2 '-share 64 must be less than the mean prompt of 64' --share 64 --prompt 64
bad 'a budget above the batch' 2 '-budget 600 is more than the 512 rows of -batch' --budget 600
bad 'an unknown room' 2 "-room expects reserve or overcommit, got 'all'" --room all
bad 'no slots' 2 '-slots expects a whole number from 1' --slots 0
bad 'a missing model' 3 "$tmp/nothing.gguf: No such file" -m "$tmp/nothing.gguf"
bad 'a picture where none can be' 4 "$tmp/none/x.svg" --cost "$tmp/cost.json" --trace "$tmp/one.csv" --save-trace "$tmp/none/x.svg"
sim --trace "$tmp/one.csv" --svg "$tmp/none/x.svg"
[ "$rc" = 4 ] && has err "$tmp/none/x.svg" && [ "$(lines)" = 4 ]
verdict 'a picture that cannot be written: exit code 4, the table is out'

run cohort simulate --help
[ "$rc" = 0 ] && empty err && has out 'Usage: cohort simulate' && has out 'Examples:'
verdict '--help'
lacking=
for o in trace generate rate requests prompt output clients share seed save-trace strategy slots ctx seq-max batch ubatch budget chunk room no-reuse queue \
	queue-tokens wait-max cost measure model threads rounds depth save-cost json svg; do
	matches out "^  -${o}[ ,]" || lacking="$lacking $o"
done
[ -z "$lacking" ]
verdict "--help names every option$lacking"
if [ -w /dev/full ]; then
	to_full() { "$bin/cohort" simulate --cost "$tmp/cost.json" --requests 3 >/dev/full; }
	run to_full
	[ "$rc" = 4 ] && has err 'cannot write to standard output'
	verdict 'a full disk: exit code 4'
fi

# ---- Interrupted ----

# A run that would take minutes; the trace is written before it begins.
fresh
"$bin/cohort" simulate --cost "$tmp/cost.json" --requests 1000000 --rate 20 --slots 4 --output 200 --save-trace "$tmp/long.csv" \
	>"$tmp/out" 2>"$tmp/err" &
pid=$!
pids="$pids $pid"
ran='simulate, interrupted'
until_true 60 test -s "$tmp/long.csv"
kill -INT "$pid" 2>/dev/null
rc=0
wait "$pid" || rc=$?
[ "$rc" = 130 ] && empty out && has err interrupted
verdict 'a signal ends it with 130'
