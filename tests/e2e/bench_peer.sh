#!/bin/sh
# bench_peer (./dev bench --peer): turns, medians, ratios, raw rounds, commands, and what is left when something fails.
# Both contenders are one small script here, with speeds laid down for each round, so every figure is known; once the
# real cohort bench takes part.
#
# Faults planted to see that it notices (each made cases fail): the mean instead of the median, the ratio of the first
# round instead of that of the medians, ours first in every round, all rounds of one contender before those of the other,
# a spread over the medians instead of the rounds, a time's ratio upside down, a line taken for the cell of another number
# of rows, a failed run's finished cells dropped, results written at the end only (with a signal that kills), a replaced
# cell appended, the embedding counted as a product, an order that is not the round's, a child left behind by a signal.
E2E_THREADS=
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"

peer_bench=$COHORT_BUILD/bench_peer
REAL=$bin/cohort
LOG=$tmp/log
# By round: medians 110 and 50, means 267 and 43. Ratios within rounds: 2, 22.5, 1.83, 12, 1.91.
speeds_ours='100 900 110 120 105'
speeds_peer='50 40 60 10 55'
FAIL= # what the peer does in its run FAIL_AT
FAIL_AT=0
export REAL LOG speeds_ours speeds_peer FAIL FAIL_AT

cat >"$tmp/ours" <<'FAKE'
#!/bin/sh
who=${0##*/}
case $1 in
--version) [ "$who" = ours ] && exec "$REAL" --version; echo 'noise'; echo 'version: 7 (deadbee)' >&2; exit 0 ;;
synth) exec "$REAL" "$@" ;;
esac
echo "$who $0 $*" >>"$LOG"
n=$(grep -c "^$who " "$LOG")
[ "$who" = ours ] && shift && speeds=$speeds_ours || speeds=$speeds_peer
while [ $# -gt 0 ]; do
	case $1 in -npp) pp=$2 ;; -ntg) tg=$2 ;; -npl) npl=$2 ;; esac
	shift
done
# shellcheck disable=SC2086
set -- $speeds
shift $(((n - 1) % $#))
echo 'some text before'
for b in $(echo "$npl" | tr , ' '); do
	if [ "$who" = peer ] && [ "$n" = "$FAIL_AT" ]; then
		case $FAIL in
		silent) break ;;
		skip) [ "$b" != 3 ] || continue ;;
		exit) [ "$b" = 1 ] || { echo 'cannot go on' >&2; exit 3; } ;;
		signal) kill -SEGV $$ ;;
		hang) echo $$ >"$LOG.pid"; exec sleep 60 ;;
		esac
	fi
	awk -v s="$1" -v b="$b" -v pp="$pp" -v tg="$tg" 'BEGIN {
		printf "{\"n_kv_max\": 9, \"pp\": %d, \"tg\": %d, \"pl\": %d, \"n_kv\": 1, \"t_pp\": 1.0, \"speed_pp\": %f, \"t_tg\": 1.0, ", pp, tg, b, 10 * s * b
		printf "\"speed_tg\": %f, \"t\": %f, \"speed\": 1.0}\n", s * b, 1000 / s }'
done
echo
FAKE
chmod +x "$tmp/ours"
cp "$tmp/ours" "$tmp/peer"

# flat: peer.json as lines "cells.0.ratio.tg.median 2.2"; it is written with one space of indentation for each level.
flat() {
	awk '
	{ match($0, /^ */); d = RLENGTH; line = substr($0, d + 1); sub(/,$/, "", line) }
	line ~ /^[]}]/ { next }
	{
		if (line ~ /^"[^"]*": /) { key = val = line; sub(/^"/, "", key); sub(/": .*/, "", key); sub(/^"[^"]*": /, "", val) }
		else { key = n[d]++; val = line }
		path[d] = key
		if (val == "{" || val == "[") { n[d + 1] = 0; next }
		p = path[1]
		for (i = 2; i <= d; i++) p = p "." path[i]
		print p, val
	}' "$tmp/res/peer.json" >"$tmp/flat"
}
value() { sed -n "s/^$(echo "$1" | sed 's/\./\\./g') //p" "$tmp/flat"; }
near() { # PATH NUMBER
	value "$1" | awk -v want="$2" '{ n++; ok = $1 - want < 1e-4 * want && want - $1 < 1e-4 * want } END { exit !(n == 1 && ok) }'
}
text() { [ "$(value "$1")" = "\"$2\"" ]; }
count() { grep -c "$1" "$tmp/flat"; }
turns() { awk '{ printf "%s%s", (NR > 1 ? " " : ""), $1 }' "$LOG"; }

shape=n_vocab=300,n_embd=64,n_layer=1,n_head=2,n_ff=128
# peer_run ARGUMENT...: a fresh log, the fakes, tiny sizes.
peer_run() {
	: >"$LOG"
	run "$peer_bench" --peer "$tmp/peer" --cohort "$tmp/ours" --shapes $shape --formats Q8_0 --rows 1,3 --prompt 8 --gen 4 --shared-prompt 0 \
		--model-dir "$tmp/models" --out "$tmp/res" --no-probe "$@"
	[ ! -f "$tmp/res/peer.json" ] || flat
}
forget() { rm -rf "$tmp/res"; }

# ---- A whole run ----

peer_run --shared-prompt 16 --shared-rows 2 --shared-gen 4 --target 'tg:=2,tg:/3=2.5'
[ "$rc" = 0 ] && ! grep -v 'load average' "$tmp/err" | grep -q .
verdict 'a run: exit code 0, nothing but the load on standard error'
[ "$(turns)" = 'ours peer peer ours ours peer peer ours ours peer ours peer peer ours ours peer peer ours ours peer' ]
verdict 'both take turns, and so does who is first'
near cells.0.median.ours.speed_tg 110 && near cells.0.median.peer.speed_tg 50 && near cells.1.median.ours.speed_tg 330 &&
	near cells.1.median.ours.speed_pp 3300 && near cells.1.median.peer.speed_pp 1500 && near cells.0.median.ours.t 9.0909091
verdict 'medians, of each cell its own'
near cells.0.ratio.tg.median 2.2 && near cells.0.ratio.tg.min 1.8333333 && near cells.0.ratio.tg.max 22.5 && near cells.1.ratio.pp.median 2.2
verdict 'the ratio is that of the medians, its spread that of the rounds'
near cells.2.ratio.t.median 2.2 && near cells.2.ratio.t.min 1.8333333 && near cells.2.ratio.t.max 22.5 && text cells.2.job shared &&
	near cells.2.rows 2 && near cells.2.prompt 16
verdict 'the shared prompt is a cell of its own; above 1 is faster for times, too'
raw=
for r in 0 1 2 3 4; do raw="$raw $(value cells.1.rounds.$r.ours.speed_tg)/$(value cells.1.rounds.$r.peer.speed_tg)/$(value cells.1.rounds.$r.order)"; done
[ "$raw" = ' 300.0/150.0/"ours peer" 2700.0/120.0/"peer ours" 330.0/180.0/"ours peer" 360.0/30.0/"peer ours" 315.0/165.0/"ours peer"' ]
verdict 'every raw round, with its order'
[ "ours $(value cells.0.commands.ours | tr -d '"')" = "$(sed -n 1p "$LOG")" ] && [ "peer $(value cells.0.commands.peer | tr -d '"')" = "$(sed -n 2p "$LOG")" ] &&
	[ "peer $(value cells.2.commands.peer | tr -d '"')" = "$(sed -n 12p "$LOG")" ]
verdict 'the commands are those that ran'
same_words() { # LINE: what both must be told alike
	for w in '-b 2048' '-ub 512' '-npp 8' '-ntg 4' '-npl 1,3' '-t 2' '--output-format jsonl' "-m $tmp/models/"; do
		sed -n "$1p" "$LOG" | grep -qF -e "$w" || return 1
	done
}
same_words 1 && same_words 2 && sed -n 2p "$LOG" | grep -qF -e '-c 768 ' && sed -n 2p "$LOG" | grep -qF -e '-ctk f16 -ctv f16' &&
	sed -n 1p "$LOG" | grep -qF -e '--kv-type f16' && [ "$(grep -c -e ' -pps ' "$LOG")" = 10 ] && ! sed -n 1,10p "$LOG" | grep -q -e -pps
verdict 'the same sizes, threads and cache for both'
text runs.0.peer.version '7 (deadbee)' && value runs.0.ours.version | grep -q '^"cohort [0-9.]*"$' && [ -n "$(value runs.0.ours.commit)" ] &&
	[ "$(value runs.0.complete)" = true ] && [ -n "$(value runs.0.machine.cpu)" ] && [ -n "$(value runs.0.machine.load_before)" ] &&
	[ -n "$(value runs.0.machine.load_after)" ] && [ -n "$(value runs.0.machine.kernel)" ] && [ -n "$(value runs.0.machine.compiler)" ]
verdict 'versions and machine'
# 4 * 64 * 64 + 3 * 64 * 128 + 300 * 64
near models.0.macs_per_token 60160 && near models.0.macs_output 19200 && [ "$(value models.0.file_bytes)" = "$(wc -c <"$(value models.0.file | tr -d '"')")" ] &&
	value models.0.made_by | grep -qF -e "synth -s $shape -t Q8_0 -o"
verdict 'the model: its products, its size, how it was made'
matches out '\| Q8_0 +\| +1 \| +110\.0 \| +50\.0 \| 2\.20 \(1\.83-22\.50\) +\| 2\.00 met ' && has out '| 2.50 missed ' &&
	matches out '\| +2 \| +9\.091 \| +20\.000 \| 2\.20 ' && has out 'drawn anew for every sequence' &&
	[ "$(grep -c '^| ' "$tmp/out")" = 10 ]
verdict 'the tables'
[ "$(grep -c '<polyline' "$tmp/res/peer.svg")" = 2 ] && grep -q '>1\.0<' "$tmp/res/peer.svg" && grep -q 'prefers-color-scheme: dark' "$tmp/res/peer.svg" &&
	tail -n 1 "$tmp/res/peer.svg" | grep -qx '</svg>'
verdict 'the picture: a line for each panel, the 1.0, both schemes'
if command -v python3 >/dev/null; then
	python3 - "$tmp/res" <<'PY'
import json, sys, xml.dom.minidom
d = json.load(open(sys.argv[1] + "/peer.json"))
assert len(d["cells"]) == 3 and len(d["cells"][0]["rounds"]) == 5, d
xml.dom.minidom.parse(sys.argv[1] + "/peer.svg")
PY
	verdict 'JSON is JSON, SVG is XML'
else
	skip 'JSON is JSON, SVG is XML' 'no python3'
fi

# ---- Earlier results ----

cp "$tmp/res/peer.json" "$tmp/earlier.json"
before=$(ls -l "$tmp/models")
speeds_ours='10 20' peer_run --rounds 2 --rows 3,7 --append "$tmp/earlier.json"
[ "$rc" = 0 ] && [ "$(count '^cells\.[0-9]*\.job ')" = 4 ] && near cells.0.ratio.tg.median 2.2 && near cells.1.median.ours.speed_tg 45 &&
	near cells.1.run 1 && near cells.1.ratio.tg.median 0.3333333 && near cells.3.rows 7 && [ "$(value cells.0.run)" = 0 ] && [ "$(count '^runs\.[0-9]*\.started ')" = 2 ] &&
	[ "$(value cells.1.target)" = '' ]
verdict '--append: the same cell is replaced, the others stay; of two rounds the median is between them'
[ "$(ls -l "$tmp/models")" = "$before" ] && [ "$(count '^models\.[0-9]*\.file ')" = 1 ] && value models.0.origin | grep -q 'was there'
verdict 'a model that is there is not made again'
run "$peer_bench" --append "$tmp/earlier.json" --out "$tmp/again" --target 9
[ "$rc" = 0 ] && empty err && has out '2.20 (1.83-22.50)' && has out '9.00 missed' && [ -s "$tmp/again/peer.svg" ]
verdict 'without a peer: earlier results again'
run "$peer_bench" --append "$tmp/nothing.json" --out "$tmp/again"
refused 4 'nothing.json'
verdict '--append: a file that is not there'
echo '{"kind": "other"}' >"$tmp/other.json"
run "$peer_bench" --append "$tmp/other.json" --out "$tmp/again"
refused 4 'not a result of this program'
verdict '--append: a file of something else'

# ---- A peer that fails ----

forget
FAIL=exit FAIL_AT=3 peer_run
[ "$rc" = 1 ] && has err 'the peer failed on' && has err 'round 3: exit code 3; its last words: cannot go on' && has err "the command was: $tmp/peer -m"
verdict 'an exit code: said with the round, the last words and the command'
[ "$(value runs.0.complete)" = false ] && near cells.0.median.peer.speed_tg 50 && [ "$(value cells.1.rounds.2.peer)" = null ] &&
	near cells.1.median.peer.speed_tg 135 && near cells.1.rounds.2.ours.speed_tg 330 && has out 'the run is incomplete' && [ -s "$tmp/res/peer.svg" ]
verdict 'what was measured until then is kept, even of the run that failed'
FAIL=exit FAIL_AT=3 peer_run --formats Q8_0,F16
[ "$rc" = 1 ] && [ "$(count '^cells\.[0-9]*\.job ')" = 4 ] && [ "$(count '^cells\.3\.rounds\.[0-9]*\.round ')" = 5 ]
verdict 'the next model is measured all the same'
forget
FAIL=signal FAIL_AT=1 peer_run --formats Q8_0,F16
[ "$rc" = 1 ] && has err 'killed by signal 11' && [ "$(turns)" = 'ours peer' ] && near cells.0.rounds.0.ours.speed_tg 100 && has out '| -  '
verdict 'a crash in the very first run ends all'
forget
FAIL=silent FAIL_AT=1 peer_run
[ "$rc" = 1 ] && has err 'no JSON line'
verdict 'a peer that prints no JSON'
forget
FAIL=skip FAIL_AT=2 peer_run
[ "$rc" = 1 ] && has err 'round 2: it printed no line for 3 rows'
verdict 'a peer that leaves a cell out'
forget
printf 'no program' >"$tmp/odd"
chmod +x "$tmp/odd"
peer_run --peer "$tmp/odd"
[ "$rc" = 1 ] && has err 'the peer failed on'
verdict 'a file that is no program'

# ---- Interrupted ----

hung() { [ -s "$LOG.pid" ]; }
gone() { ! kill -0 "$1" 2>/dev/null; }
for sig in INT KILL; do
	forget
	: >"$LOG"
	rm -f "$LOG.pid"
	ran="bench_peer, signal $sig"
	# In the second group, so that the first one is on disk already.
	fresh
	FAIL=hang FAIL_AT=3 "$peer_bench" --peer "$tmp/peer" --cohort "$tmp/ours" --shapes $shape --formats Q8_0 --rows 1,3 --prompt 8 --gen 4 \
		--shared-prompt 8 --shared-rows 1 --shared-gen 4 --rounds 2 --model-dir "$tmp/models" --out "$tmp/res" --no-probe >"$tmp/out" 2>"$tmp/err" &
	pid=$!
	pids="$pids $pid"
	until_true 30 hung
	child=$(cat "$LOG.pid")
	pids="$pids $child"
	kill -s $sig $pid 2>/dev/null
	rc=0
	wait $pid || rc=$?
	flat
	if [ $sig = INT ]; then
		[ "$rc" = 130 ] && has err 'interrupted; what was measured' && gone "$child" && has out '| Q8_0' && near cells.2.rounds.0.ours.speed_tg 110
		verdict 'a signal ends both programs; what was measured is shown and written'
	else
		kill -9 "$child" 2>/dev/null
	fi
	[ "$(value runs.0.complete)" = false ] && near cells.1.ratio.tg.median 11.111111
	verdict "$sig: the groups that were done are on disk"
done

# ---- Refused ----

bad() { # NAME CODE TEXT ARGUMENT...
	what=$1
	code=$2
	say=$3
	shift 3
	peer_run "$@"
	[ "$rc" = "$code" ] && has err "$say" && [ ! -s "$LOG" ]
	verdict "refused: $what"
}
bad 'a peer that is not there' 4 "--peer $tmp/nobody: No such file" --peer "$tmp/nobody"
bad 'a directory as peer' 4 'not a file' --peer "$tmp"
: >"$tmp/plain"
bad 'a peer that cannot be run' 4 'not executable' --peer "$tmp/plain"
bad 'a cohort that is not there' 4 "cohort $tmp/nobody: No such file" --cohort "$tmp/nobody"
bad 'no rows' 2 '-rows expects' --rows ''
bad 'rows twice' 2 '-rows expects' --rows 1,2,1
bad 'rows of nothing' 2 '-rows expects' --rows 1,0
bad 'nothing to measure' 2 'nothing to measure' --rows none
bad 'an odd target' 2 '-target expects' --target tg:Q4_0=x
bad 'an odd target for rows' 2 '-target expects' --target 'Q4_0/x=2'
bad 'an unknown shape' 3 'cannot make the model' --shapes no-such-shape
bad 'an unknown option' 2 "unknown option" --nonsense
run "$peer_bench"
refused 2 '--peer PATH is missing'
verdict 'refused: no peer'

# ---- The real cohort ----

forget
: >"$LOG"
run "$peer_bench" --peer "$tmp/peer" --cohort "$bin/cohort" --model "$model" --rows 1,2 --prompt 8 --gen 4 --rounds 2 --shared-prompt 33 --shared-rows 2 \
	--shared-gen 3 --out "$tmp/res"
flat
[ "$rc" = 0 ] && [ "$(turns)" = 'peer peer peer peer' ] && value cells.0.rounds.1.ours.t_tg | awk '{ exit !($1 > 0) }' && value cells.2.ratio.t.median | awk '{ exit !($1 > 0) }'
verdict 'cohort bench takes part'
value cells.0.limit.tg.value | awk '{ exit !($1 > 0) }' && value cells.1.of_limit.tg.ours | awk '{ exit !($1 > 0) }' && value runs.0.machine.limits.1.fma_gmacs |
	awk '{ exit !($1 > 0) }' && value runs.0.machine.limits.1.read_gb_s | awk '{ exit !($1 > 0) }' && matches out '\([am][a-z]*\) +\|$'
verdict 'the limits of the machine and the parts of them'

run "$peer_bench" --help
[ "$rc" = 0 ] && empty err && has out 'Usage: bench_peer --peer PATH'
verdict '--help'
