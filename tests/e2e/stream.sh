#!/bin/sh
# batched -stream: prefixed lines from which the texts can be put together again.
#
# Seen red with backslashes that are not escaped ('control characters') and with what is left at the end not printed.
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/e2e/live_lib.sh
. "$(dirname "$0")/live_lib.sh"

# together I FILE: the pieces of a sequence of $tmp/FILE, as its text. A printf that knows %b does it all.
together() {
	printf '%b.' "$(sed -n "s/^\[$1\] //p" "$tmp/$2" | tr -d '\n')" | sed '$s/\.$//'
}
# The texts without their prompts are all of a sequence.
exact() { # N PROMPT: the pieces of $tmp/out are the texts of $tmp/reference
	i=0
	while [ $i -lt "$1" ]; do
		{ printf '%s' "$2"; together $i out; printf '\n\n'; } >"$tmp/a"
		sequence $i reference | sed 1d >"$tmp/b"
		same a b || return 1
		i=$((i + 1))
	done
}
run batched -prompt 'Once upon a time' -n-predict 120
keep out reference
run batched -prompt 'Once upon a time' -n-predict 120 -stream
[ "$rc" = 0 ] && has err 'Performance Statistics:' && ! grep -vqE '^\[[0-3]\]( .+)?$' "$tmp/out" && [ "$(count out '^\[[0-3]\]$')" = 4 ]
verdict '-stream: every line has a prefix, every sequence an end'
exact 4 'Once upon a time'
verdict '-stream: the pieces are the texts'
[ "$(count out '^\[0\] .')" -gt 3 ] && ! awk 'length > 215' "$tmp/out" | grep -q .
verdict '-stream: sentences, not whole texts'
g='root ::= "a\\\\b\n\n\tc\r\u0001\u001b[31m2\u00857 \"x.\" y\u202e漢字 "+'
run batched -prompt 'x' -n-predict 90 -np 2 -grammar "$g"
keep out reference
run batched -prompt 'x' -n-predict 90 -np 2 -grammar "$g" -stream
[ "$rc" = 0 ] && exact 2 x && ! LC_ALL=C tr -d '\n' <"$tmp/out" | LC_ALL=C grep -q '[[:cntrl:]]'
verdict '-stream: control characters are escaped, and come back'
run batched -n-predict 0 -stream
[ "$rc" = 0 ] && [ "$(sort "$tmp/out" | tr '\n' ' ')" = '[0] [1] [2] [3] ' ]
verdict '-stream: nothing generated, but ended'
awk 'BEGIN { for (i = 0; i < 9; i++) print "This is prompt number", i }' >"$tmp/prompts"
run batched -prompts "$tmp/prompts" -np 2 -n-predict 20 -stream
[ "$rc" = 0 ] && [ "$(count out '^\[[0-8]\.[01]\]$')" = 18 ] && ! grep -vqE '^\[[0-8]\.[01]\]( .+)?$' "$tmp/out"
verdict '-stream: prompts are in the prefix'

mkfifo "$tmp/fifo"
head -n 1 <"$tmp/fifo" >"$tmp/first" &
pids="$pids $!"
rc=0
# shellcheck disable=SC2086
"$bin/batched" -n-predict 900 -ctx 8192 -ignore-eos $slow -stream >"$tmp/fifo" 2>"$tmp/err" || rc=$?
[ "$rc" = 4 ] && empty err && matches first '^\[[0-3]\] '
verdict '-stream: a reader that goes away ends it, quietly'
if [ -w /dev/full ]; then
	rc=0
	"$bin/batched" -n-predict 900 -ctx 8192 -stream >/dev/full 2>"$tmp/err" || rc=$?
	[ "$rc" = 4 ] && has err 'cannot write to standard output: No space left'
	verdict '-stream: a full disk is said'
fi
fresh
# shellcheck disable=SC2086
"$bin/batched" -n-predict 900 -ctx 8192 -ignore-eos $slow -stream >"$tmp/out" 2>"$tmp/err" </dev/null &
pid=$!
pids="$pids $pid"
until_true 60 matches out '^\[[0-3]\] ' && kill -INT $pid
rc=0
wait $pid || rc=$?
[ "$rc" = 130 ] && ! matches out '^\[[0-3]\]$' && [ "$(sed 's/ .*//' "$tmp/out" | sort -u | wc -l)" = 4 ]
verdict '-stream: Ctrl-C, what was generated is there, and no end'
texts reference -n-predict 100 -ctx 8192 -ignore-eos
for i in 0 1 2 3; do
	n=$(together $i out | wc -c)
	together $i out >"$tmp/a"
	sequence $i reference | sed 1d | tail -c +17 | head -c "$n" >"$tmp/b"
	[ "$n" -gt 0 ] && same a b
	verdict "-stream: Ctrl-C, the pieces are the beginning of text $i"
done
# shellcheck disable=SC2086
on_screen 100 300 --wait '^\[[0-3]\] ' --keys '\x03' -- -n-predict 900 -ctx 8192 -ignore-eos $slow -stream
[ "$rc" = 130 ] && clean && left && matches out '^\[3\] '
verdict '-stream: on a terminal as well'
