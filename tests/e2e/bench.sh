#!/bin/sh
# cohort bench: the table and its JSON lines, sizes and speeds that agree with each other, lists, rounds, errors, a signal.
# No speed is expected: only that the numbers of a line belong together.
#
# Faults planted to see that it notices (each made cases fail): generated tokens not counted in N_KV, one step counted or
# done too few, a shared prompt counted once per sequence, T without T_TG, a cache one block too small, a round that goes on
# with the cells of the one before, forks left out, a sequence left out of every group, a range without its last value, a
# row for the round that the signal cut short. A wrong median goes unseen: no run shows both its rounds and their median.
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"

small='-npp 8 -ntg 3 -npl 2'

# rows: the table's lines without bars. cells: its first three columns, in one line.
rows() { grep '^|' "$tmp/out" | sed 1,2d | tr '|' ' '; }
cells() { rows | awk '{ printf "%s%s/%s/%s", (NR > 1 ? " " : ""), $1, $2, $3 }'; }
# table N SHARED: N rows whose numbers belong together. Times have three decimals, so a speed is known to within what half
# of the last one does to it.
table() {
	rows | awk -v n="$1" -v shared="$2" '
	function fits(tokens, t, s) {
		if (tokens == 0) return s == 0
		return s >= tokens / (t + 0.00051) - 0.01 && (t < 0.00051 || s <= tokens / (t - 0.00051) + 0.01)
	}
	{
		pp = shared ? $1 : $1 * $3
		tg = $2 * $3
		if (NF != 10 || $4 != pp + tg || !fits(pp, $5, $6) || !fits(tg, $7, $8) || !fits(pp + tg, $9, $10)) bad = 1
		if ($5 + $7 > $9 + 0.0016 || $5 + $7 < $9 - 0.0016) bad = 1
	}
	END { exit bad || NR != n }'
}

# ---- The table ----

# shellcheck disable=SC2086
run cohort bench $small
[ "$rc" = 0 ] && empty err
verdict 'a run: exit code 0, nothing on standard error'
[ "$(sed -n '/^|/p' "$tmp/out" | head -n 1 | tr -s ' ')" = '| PP | TG | B | N_KV | T_PP s | S_PP t/s | T_TG s | S_TG t/s | T s | S t/s |' ] &&
	[ "$(grep '^|' "$tmp/out" | awk '{ print length }' | sort -u | wc -l)" = 1 ]
verdict 'the columns, aligned'
[ "$(cells)" = 8/3/2 ] && table 1 0
verdict 'one row, whose numbers belong together'
matches out '^- cohort [0-9]+\.[0-9]+\.[0-9]+$' && has out 'cohort-tiny' && has out "bench $small\`" &&
	matches out 'n_threads = [0-9]+, isa = [a-z0-9]+, kv_type = f16, n_batch = 512, n_ubatch = 128, n_kv_max = 64, is_pp_shared = 0,'
verdict 'the header: version, model, settings, command'

run cohort bench --npp=5,40 --ntg 2,1 --npl 1-3
[ "$rc" = 0 ] && [ "$(cells)" = '5/2/1 5/2/2 5/2/3 5/1/1 5/1/2 5/1/3 40/2/1 40/2/2 40/2/3 40/1/1 40/1/2 40/1/3' ] && table 12 0
verdict 'lists: every combination, in order; two dashes'
run cohort bench -npp 4-16*2 -ntg 1 -npl 1-6+2,2
[ "$rc" = 0 ] && [ "$(cells)" = '4/1/1 4/1/3 4/1/5 4/1/2 8/1/1 8/1/3 8/1/5 8/1/2 16/1/1 16/1/3 16/1/5 16/1/2' ]
verdict 'ranges with steps and factors'
run cohort bench -npp 40 -ntg 3 -npl 1,4 -pps
[ "$rc" = 0 ] && [ "$(rows | awk '{ printf "%s ", $4 }')" = '43 52 ' ] && table 2 1 && has out 'is_pp_shared = 1' && has out 'n_kv_max = 160'
verdict '-pps: the prompt counts once; forks share its whole blocks'
run cohort bench -npp 40 -ntg 0 -npl 4 -pps
[ "$rc" = 0 ] && table 1 1 && has out 'n_kv_max = 64'
verdict '-pps and nothing generated: forks take no room'
run cohort bench -npp 6 -ntg 3 -npl 3 -tgs
[ "$rc" = 0 ] && table 1 0 && has out 'is_tg_separate = 1'
verdict '-tgs: one sequence after the other'
run cohort bench -npp 0,6 -ntg 3 -npl 2
[ "$rc" = 0 ] && table 2 0 && [ "$(rows | awk 'NR == 1 { print $6 }')" = 0.00 ]
verdict 'no prompt: its speed is 0'
run cohort bench -npp 6 -ntg 0 -npl 2
[ "$rc" = 0 ] && table 1 0 && [ "$(rows | awk '{ print $8 }')" = 0.00 ]
verdict 'nothing generated: its speed is 0'
run cohort bench -npp 9 -ntg 2 -npl 7 -b 3 -ub 8
[ "$rc" = 0 ] && table 1 0 && has out 'n_batch = 3, n_ubatch = 3,'
verdict 'more sequences than rows of a decode'
run cohort bench -npp 3 -ntg 1 -npl 2 -t 3 --kv-type q8_0 --isa ref --file-layout
[ "$rc" = 0 ] && table 1 0 && has out 'n_threads = 3, isa = ref, kv_type = q8_0,'
verdict 'threads, cache type, level and layout'
run cohort bench -npp 2 -ntg 1 -npl 70
[ "$rc" = 0 ] && table 1 0
verdict 'more sequences than a warm-up takes'
# shellcheck disable=SC2086
run cohort bench $small -m "$model" -c 64
[ "$rc" = 0 ] && table 1 0 && has out "model: $model " && has out 'n_kv_max = 64'
verdict 'a model by name, and just enough room'
cp "$model" "$tmp/it's a \$model.gguf"
# shellcheck disable=SC2086
run cohort bench $small -m "$tmp/it's a \$model.gguf"
[ "$rc" = 0 ] && has out "-m '$tmp/it'\\''s a \$model.gguf'\`"
verdict 'the command is quoted as a shell reads it'

# ---- JSON lines ----

# one KEY: its values, one line each. Numbers and texts without quotes inside are all there is here.
one() { sed -n 's/.*[{,]"'"$1"'":"\{0,1\}\([^,"}]*\).*/\1/p' "$tmp/out"; }
run cohort bench -npp 40 -ntg 3 -npl 2,3 -pps -r 3 -seed 18446744073709551615 --output-format jsonl
keep out jsonl
[ "$rc" = 0 ] && empty err && [ "$(wc -l <"$tmp/out")" = 6 ] && [ "$(one round | tr '\n' ' ')" = '1 2 3 1 2 3 ' ] &&
	[ "$(one pl | tr '\n' ' ')" = '2 2 2 3 3 3 ' ] && [ "$(one n_kv | tr '\n' ' ')" = '46 46 46 49 49 49 ' ]
verdict 'jsonl: a line for every round'
lacking=
for k in n_kv_max n_batch n_ubatch flash_attn is_pp_shared n_gpu_layers n_threads n_threads_batch pp tg pl n_kv t_pp speed_pp t_tg \
	speed_tg t speed round rounds version model threads isa kv_type is_tg_separate seed command; do
	[ "$(one $k | grep -c .)" = 6 ] || lacking="$lacking $k"
done
[ -z "$lacking" ]
verdict "jsonl: the keys are there$lacking"
for k in n_kv t_pp speed_pp t_tg speed_tg t speed pp tg pl; do one $k >"$tmp/k_$k"; done
(cd "$tmp" && paste k_pp k_tg k_pl k_n_kv k_t_pp k_speed_pp k_t_tg k_speed_tg k_t k_speed) | awk '
function close_to(a, b) { return a - b < 1e-6 * b && b - a < 1e-6 * b }
!close_to($6, $1 / $5) || !close_to($8, $2 * $3 / $7) || !close_to($10, $4 / $9) || !close_to($9, $5 + $7) { bad = 1 }
$4 != $1 + $2 * $3 { bad = 1 }
END { exit bad || NR != 6 }'
verdict 'jsonl: speeds are tokens over seconds, to the last digits'
if command -v python3 >/dev/null; then
	python3 - "$tmp/jsonl" <<'PY'
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
assert len(lines) == 6, len(lines)
for o in lines:
    assert o["seed"] == "18446744073709551615" and o["is_pp_shared"] == 1 and o["command"].endswith("jsonl"), o
PY
	verdict 'jsonl: every line is JSON'
else
	skip 'jsonl: every line is JSON' 'no python3'
fi

# ---- Rounds ----

# Of an odd number of rounds the median is one of them, so a table and its raw rounds could only be compared within one
# run; what can be seen from outside is that a table has one row per combination, and T next to T_PP + T_TG.
run cohort bench -npp 8 -ntg 2 -npl 1,2 -r 4
[ "$rc" = 0 ] && [ "$(cells)" = '8/2/1 8/2/2' ] && has out 'rounds = 4 (medians' && rows | awk '$9 + 0.002 < $5 || $9 + 0.002 < $7 { bad = 1 } END { exit bad }'
verdict 'rounds: one row of medians'

# ---- Refused ----

bad() { # NAME CODE TEXT ARGUMENT...
	what=$1
	code=$2
	text=$3
	shift 3
	run cohort bench "$@"
	refused "$code" "$text"
	verdict "refused: $what"
}
bad 'an unknown option' 2 "did you mean '-npp'?" -nppp 8
bad 'an operand' 2 "unexpected argument 'x'" x
for list in '' ',' '8,' ',8' '8,,9' x 8x -8 8-4 8- 1-8+0 1-8+ '1-8*1' '1-8*' 4294967297 99999999999999999999 1-300 ' 8' 8.5; do
	bad "-npl '$list'" 2 "-npl expects up to 256 numbers from 1 to 65536, such as 128,512 or 1-8 or 16-64+16 or 1-32*2, got '$list'" -npl "$list"
done
bad '-npl 0' 2 '-npl expects' -npl 0
bad 'a factor from 0' 2 '-npp expects' -npp '0-8*2'
bad 'nothing to measure' 2 'nothing to measure' -npp 0 -ntg 0,4
bad 'too small a cache' 2 'PP 40, TG 8, B 3 takes a cache of 6 blocks of 32 tokens; -ctx 64 has 4: raise it to 96 or leave it out' \
	-npp 8,40 -ntg 8 -npl 3,2 -c 64
bad 'a sequence longer than the model' 2 '1000 prompt and 25 generated tokens are more than the 1024' -npp 1000 -ntg 25 -npl 1
bad 'no rounds' 2 '-rounds expects a whole number from 1' -r 0
bad 'an unknown format' 2 "output format 'csv' is not known; known: md, jsonl" --output-format csv
bad 'an unknown cache type' 2 'known: f16, f32, q8_0' --kv-type q4
bad 'an unknown level' 2 "'pdp11' is not known" --isa pdp11
bad 'a missing model' 3 "$tmp/nothing.gguf: No such file" -m "$tmp/nothing.gguf"
: >"$tmp/empty.gguf"
bad 'an empty model' 3 "$tmp/empty.gguf" -m "$tmp/empty.gguf"

run cohort bench --help
[ "$rc" = 0 ] && empty err && has out 'Usage: cohort bench' && has out 'Examples:'
verdict '--help'
lacking=
for o in model npp ntg npl pps tgs ctx batch ubatch threads rounds kv-type isa file-layout seed output-format; do
	matches out "^  -${o}[ ,]" || lacking="$lacking $o"
done
[ -z "$lacking" ]
verdict "--help names every option$lacking"
if [ -w /dev/full ]; then
	to_full() { "$bin/cohort" bench -npp 8 -ntg 1 -npl 1 >/dev/full; }
	run to_full
	[ "$rc" = 4 ] && has err 'cannot write to standard output'
	verdict 'a full disk: exit code 4'
fi

# ---- Interrupted ----

# The reference kernels make the second combination far longer than this test may take; the first is done at once.
if [ -r /proc/self/stat ]; then
	for format in md jsonl; do
		fresh
		"$bin/cohort" bench -npp 2 -ntg 1,1000 -npl 1 -isa ref -t 1 -r 2 --output-format $format >"$tmp/out" 2>"$tmp/err" &
		pid=$!
		pids="$pids $pid"
		ran="bench, interrupted ($format)"
		rounds_out() { [ "$(grep -c -e '^|  *2 ' -e '"round":2' "$tmp/out")" -ge 1 ]; }
		until_true 30 rounds_out
		kill -INT "$pid" 2>/dev/null
		rc=0
		wait "$pid" || rc=$?
		[ "$rc" = 130 ] && has err 'interrupted; 2 of 4 rounds were measured'
		verdict "$format: a signal ends it with 130 and says how far it came"
		case $format in
		md) [ "$(cells)" = 2/1/1 ] && table 1 0 ;;
		jsonl) [ "$(one tg | tr '\n' ' ')" = '1 1 ' ] ;;
		esac
		verdict "$format: what was measured is there, the cut round is not"
	done
fi
