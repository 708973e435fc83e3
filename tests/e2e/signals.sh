#!/bin/sh
# Signals: the first ends a run in good order, with what there is; the second ends it at once.
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"

if [ ! -r /proc/self/stat ]; then
	skip 'signals' 'no /proc here'
	exit 0
fi

# start PROGRAM ARGUMENT...: in the background, process id in $pid. Its standard input is $in, its output goes to $to.
start() {
	ran=$*
	: >"$tmp/out"
	fresh
	"$@" >"$to" 2>"$tmp/err" <"$in" &
	pid=$!
	pids="$pids $pid"
}
blocked() { # asleep, and no work done in a while
	one=$(state)
	sleep 0.2
	case $one in S*) [ "$one" = "$(state)" ] ;; *) false ;; esac
}
# collect SECONDS: waits for the end of $pid; exit code in $rc, or "still running".
collect() {
	if until_true "$1" ended; then
		rc=0
		wait "$pid" || rc=$?
	else
		rc='still running'
		kill -9 "$pid"
		wait "$pid"
	fi 2>/dev/null
}
in=/dev/null
to=$tmp/out

# ---- The first signal ----

# The reference kernels make it far longer than any of this takes: what ends it is the signal.
for sig in INT TERM; do
	start "$bin/batched" -n-parallel 8 -n-predict 900 -ctx 16384 -ignore-eos --isa ref -threads 1 -verbose
	until_true 60 has err 'batched: loaded' && until_true 60 computed 40 && ! ended
	verdict "$sig: a long run is under way"
	kill -$sig "$pid"
	collect 15
	[ "$rc" = 130 ]
	verdict "$sig: exit code 130 soon after"
	sequences 8 'Hello my name is' && sequence 0 out | grep -q 'Hello my name is .'
	verdict "$sig: the sequences generated so far are on standard output"
	has err 'Performance Statistics:' && [ "$(grep -c ': [0-9]* tokens, interrupted$' "$tmp/err")" = 8 ]
	verdict "$sig: the statistics say that it was interrupted"
	keep out cut
	n_cut=$(sed -n 's/^  Sequence 0: \([0-9]*\) tokens.*/\1/p' "$tmp/err")
	run batched -n-parallel 8 -n-predict "${n_cut:-1}" -ctx 16384 -ignore-eos
	[ "$rc" = 0 ] && sequence 0 out >"$tmp/a" && sequence 0 cut >"$tmp/b" && [ -s "$tmp/a" ] && same a b
	verdict "$sig: the tokens generated so far are those of a whole run"
done

awk 'BEGIN { for (i = 0; i < 1000; i++) printf "%d ", 300 + i }' >"$tmp/ids"
begun() { [ -n "$(find "$tmp" -name '.cohort-*.tmp')" ]; }
for sig in INT TERM; do
	start "$bin/cohort" logits --tokens "$tmp/ids" -o "$tmp/logits" --isa ref -threads 1 --batch 8
	until_true 60 begun && ! ended
	verdict "$sig: cohort logits is under way"
	kill -$sig "$pid"
	collect 15
	[ "$rc" = 130 ] && [ ! -e "$tmp/logits" ] && [ -z "$(find "$tmp" -name '*.tmp')" ]
	verdict "$sig: cohort logits ends with 130 and leaves no file"
done

# Seen red with: an error of a search that is taken for its end. What a search has not found is not printed.
awk 'BEGIN { for (i = 0; i < 900; i++) print "The cat and dog number " i " ran home in the rain and were happy ever after." }' >"$tmp/lines"
stopped() { # PRINTED COMMAND ARGUMENT...: yes or no: whether there is output
	printed=$1
	shift
	start "$bin/cohort" "$@" -isa ref -threads 1
	until_true 60 computed 25 && ! ended && kill -INT "$pid"
	collect 15
	[ "$rc" = 130 ] && case $printed in yes) ! empty out ;; no) empty out ;; esac
	verdict "cohort $1 $2: interrupted, output: $printed"
}
stopped yes run -n 900 -ignore-eos 'Once upon a time'
stopped no run -beams 16 -np 4 -n 900 -ignore-eos 'Once upon a time'
stopped no run -best-of 16 -n 900 -ignore-eos 'Once upon a time'
stopped no tree -depth 12 -top-k 20 -min-prob 0 -nodes 20000 'Once upon a time'
stopped no perplexity -ctx 64 -f "$tmp/lines"

# ---- While waiting for others ----

mkfifo "$tmp/pipe" "$tmp/silent"
# shellcheck disable=SC2217
sleep 100 <"$tmp/pipe" & # a reader that does not read
pids="$pids $!"
sleep 100 >"$tmp/silent" & # a writer that does not write
pids="$pids $!"

# 32 times 3,000 characters are more than a pipe takes, so the program waits in a write when the signals come.
long=$(awk 'BEGIN { for (i = 0; i < 300; i++) printf "the cat is" }')
to=$tmp/pipe
for sig in INT TERM; do
	start "$bin/batched" -prompt "$long" -n-parallel 32 -n-predict 1 -threads 1
	until_true 60 blocked
	verdict "second $sig: the program waits for its reader"
	kill -$sig "$pid"
	sleep 0.2
	! ended
	verdict "second $sig: the first lets it go on writing"
	kill -$sig "$pid"
	collect 5
	case $sig in INT) [ "$rc" = 130 ] ;; *) [ "$rc" = 143 ] ;; esac
	verdict "second $sig: ends it at once"
done

# Started in the background a program has SIGINT ignored unless it asks for it, so this is for SIGTERM.
to=$tmp/out
in=$tmp/silent
start "$bin/cohort" tokenize --file -
until_true 60 blocked && kill -TERM "$pid"
collect 5
[ "$rc" = 143 ] && empty out
verdict 'TERM: ends a program that waits for standard input'
