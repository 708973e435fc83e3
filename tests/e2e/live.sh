#!/bin/sh
# The live view of batched on a terminal, looked at on the screen that pty_screen.py keeps, and -stream.
#
# Seen red with planted faults: every character taken for one cell wide ('wide characters', 'a narrow screen': characters
# behind the edge, texts with holes), regions given as many rows as they want ('more text than fits': labels gone), the
# cursor not given back in the signal handler ('a second Ctrl-C'), control characters passed on ('control characters').
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"
LC_ALL=C.UTF-8
TERM=xterm
export LC_ALL TERM
unset NO_COLOR

if ! command -v python3 >/dev/null; then
	skip 'the live view' 'no python3'
	exit 0
fi
slow='-isa ref -threads 1'
prog=$bin/batched
errors=$tmp/errors

# on_screen ROWS COLS STEPS... -- ARGUMENT...: batched there. All that was on the screen in $tmp/out, frames in $tmp/frames, the end in $tmp/state.
on_screen() {
	ran="on a terminal of $1 x $2: $*"
	rows=$1
	cols=$2
	shift 2
	# The program is named where the arguments begin.
	n=$#
	while [ "$n" -gt 0 ]; do
		a=$1
		shift
		set -- "$@" "$a"
		[ "$a" != -- ] || set -- "$@" "$prog"
		n=$((n - 1))
	done
	rc=0
	python3 "$COHORT_SOURCE/tests/e2e/pty_screen.py" --rows "$rows" --cols "$cols" --state "$tmp/state" --frames "$tmp/frames" \
		--stderr "$errors" "$@" >"$tmp/out" 2>"$tmp/err" || rc=$?
}
# The terminal is as it was.
left() { has state 'cursor visible' && has state 'wrap on' && has state 'echo on' && has state 'style plain'; }
# ... and got nothing it did not understand, nor characters behind its edge.
clean() { has state 'overflow 0' && has state 'unknown none' && has state 'title none'; }
# texts NAME ARGUMENT...: what a pipe gets, to compare with.
texts() {
	to=$1
	shift
	"$prog" "$@" >"$tmp/$to" 2>"$tmp/err" </dev/null
}
frames() { # TEXTS OPTION...
	reference=$1
	shift
	python3 "$COHORT_SOURCE/tests/e2e/live_check.py" "$tmp/frames" "$tmp/$reference" "$@" >"$tmp/err" 2>&1
}
count() { grep -c -e "$2" "$tmp/$1"; }

# ---- Four sequences ----

# shellcheck disable=SC2086
set -- -prompt 'Once upon a time' -n-predict 60 -ignore-eos
texts four "$@"
# shellcheck disable=SC2086
on_screen 24 60 --wait '^\[0\] Once upon .*' --wait 'tokens/s' --dump "$tmp/mid" -- "$@" $slow
[ "$rc" = 0 ] && clean && left && [ "$(count mid '^\[[0-3]\] Once upon a time')" = 4 ] && matches mid '0 of 4 ended$'
verdict 'four sequences: a region each, and a status line'
frames four --shown 4 --more 0 --at-least 10
verdict 'four sequences: every frame holds the beginnings of the four texts'
[ "$(count out '^Sequence [0-3]:$')" = 4 ] && ! matches out '^\[[0-9]\]|ended$'
verdict 'four sequences: the view is gone in the end, and the texts are there'
on_screen 200 2000 -- "$@"
tr -d '\r' <"$tmp/out" >"$tmp/text"
[ "$rc" = 0 ] && sed '$d' "$tmp/four" | cmp -s - "$tmp/text"
verdict 'four sequences: what is left on the screen is what a pipe gets'

# ---- More than fits ----

# shellcheck disable=SC2086
set -- -prompt 'Once upon a time' -n-predict 200 -ignore-eos
texts long "$@"
# shellcheck disable=SC2086
on_screen 10 40 --wait '^\[0\]…' --wait '^\[1\]…' --wait '^\[2\]…' --wait '^\[3\]…' --dump "$tmp/mid" --keys '\x03' -- "$@" $slow
[ "$rc" = 130 ] && clean && left && [ "$(count mid '^\[[0-3]\]…')" = 4 ] && [ "$(wc -l <"$tmp/mid")" = 10 ]
verdict 'more text than fits: the ends of the texts share the screen'
grep -n '^\[' "$tmp/mid" | sed 's/:.*//' | tr '\n' ' ' >"$tmp/at"
is at '1 4 6 8 '
verdict 'more text than fits: nine rows are three, two, two and two'
frames long --shown 4
verdict 'more text than fits: parts of the texts, without holes'

# shellcheck disable=SC2086
set -- -n-parallel 64 -n-predict 30 -ctx 4096 -ignore-eos
texts many "$@"
# shellcheck disable=SC2086
on_screen 70 60 --wait '^\[63\]' --sleep 1 --dump "$tmp/mid" --keys '\x03' -- "$@" -isa ref
[ "$rc" = 130 ] && clean && left && frames many --shown 64 --more 0 --at-least 2
verdict '64 sequences on a high screen: all of them'
# shellcheck disable=SC2086
on_screen 24 60 --wait '^… and 42 more$' --sleep 1 --dump "$tmp/mid" --keys '\x03' -- "$@" -isa ref
[ "$rc" = 130 ] && clean && left && frames many --shown 22 --more 42 --at-least 2
verdict '64 sequences on a low screen: 22, and how many more'
awk 'BEGIN { for (i = 0; i < 9; i++) print "This is prompt number", i }' >"$tmp/prompts"
# shellcheck disable=SC2086
on_screen 12 60 --wait '^\[8\.1\]' --dump "$tmp/mid" --keys '\x03' -- -prompts "$tmp/prompts" -n-parallel 2 -n-predict 40 -ctx 128 $slow
[ "$rc" = 130 ] && clean && left && has mid '… and 8 more' && ! matches mid '^\[0\.0\]'
verdict 'many prompts in turn: those under way take the place of those that ended'

# ---- Small screens ----

# shellcheck disable=SC2086
set -- -prompt 'Once upon a time' -n-predict 20 -ignore-eos
texts small "$@"
for size in '1 10' '2 10' '3 10' '4 4' '5 1' '1 1' '9 7'; do
	# shellcheck disable=SC2086
	on_screen ${size% *} ${size#* } --sleep 0.4 --dump "$tmp/mid" -- "$@" -isa ref
	[ "$rc" = 0 ] && clean && left && [ "$(wc -l <"$tmp/mid")" -le "${size% *}" ]
	verdict "a screen of $size: stays within it"
done
# shellcheck disable=SC2086
on_screen 6 10 --wait '^\[3\]' --sleep 0.5 --keys '\x03' -- "$@" $slow
[ "$rc" = 130 ] && clean && frames small --shown 4 --more 0
verdict 'a narrow screen: the texts without holes'

# ---- What texts hold ----

# shellcheck disable=SC2016
wide='root ::= "漢字かな交じり文、한국어 텍스트 und 👍🏽 é́é ｆｕｌｌ ​zero‍width \\ end. "+'
# shellcheck disable=SC2086
set -- -prompt '世界:' -n-parallel 2 -n-predict 150 -ignore-eos -grammar "$wide"
texts wide "$@"
# shellcheck disable=SC2086
on_screen 7 21 --wait '^\[1\]…' --sleep 0.5 --keys '\x03' -- "$@" $slow
[ "$rc" = 130 ] && left && has state 'overflow 0' && has state 'unknown none'
verdict 'wide characters: none behind the edge'
frames wide --shown 2
verdict 'wide characters: the texts without holes'
# shellcheck disable=SC2086
on_screen 3 24 --wait '^\[1\]…' --sleep 1 --keys '\x03' -- "$@" $slow
[ "$rc" = 130 ] && left && has state 'overflow 0' && frames wide --shown 2
verdict 'wide characters: regions of one line'

bad=$(printf 'a\033[31mred\033]0;owned\007\tb\177\302\233c\342\200\256d\377e\300\200 \033[2J')
# shellcheck disable=SC2086
set -- -prompt "$bad" -n-parallel 2 -n-predict 24 -ignore-eos
texts bad "$@"
# shellcheck disable=SC2086
on_screen 12 40 --wait 'tokens/s|/s' --sleep 0.3 --dump "$tmp/mid" -- "$@" $slow
[ "$rc" = 0 ] && clean && left && has mid '[0] a^[[31mred^[]0;owned^G' && has mid '<U+009B>c<U+202E>d�e��'
verdict 'control characters: shown, not obeyed'
frames bad --shown 2
verdict 'control characters: the view stays whole'
has out 'a^[[31mred' && ! has out '^I'
verdict 'control characters: so in the texts afterwards'

# ---- Resize ----

# shellcheck disable=SC2086
set -- -prompt 'Once upon a time' -n-predict 120 -ignore-eos
for how in '' --reflow; do
	for to in 12x30 30x100 5x80 24x44; do
		case $how$to in 30x100 | --reflow5x80) continue ;; esac # nothing to tell apart
		# shellcheck disable=SC2086
		on_screen 24 60 $how --wait '^\[3\].{40}' --sleep 0.3 --resize $to --sleep 0.5 --dump "$tmp/mid" --keys '\x03' -- "$@" $slow
		[ "$rc" = 130 ] && clean && left && [ "$(count mid '^\[[0-3]\]')" = 4 ] && [ "$(count mid 'tok')" = 1 ]
		verdict "resize to $to${how:+, a terminal that breaks lines}: one view, whole"
	done
done

# ---- Signals ----

# shellcheck disable=SC2086
set -- -prompt 'Once upon a time' -n-parallel 3 -n-predict 900 -ctx 8192 -ignore-eos $slow
on_screen 20 60 --wait '^\[2\] Once.{20}' --keys '\x03' -- "$@"
[ "$rc" = 130 ] && clean && left && [ "$(count out '^Sequence [0-2]:$')" = 3 ] && ! matches out '^\[[0-9]\]'
verdict 'Ctrl-C: the texts so far, exit 130, the cursor is back'
# A prompt that takes longer to compute than the keys to arrive: the run goes on when the second one comes.
long=$(awk 'BEGIN { for (i = 0; i < 270; i++) printf "the cat is" }')
on_screen 20 60 --wait ' s ' --sleep 0.3 --keys '\x03' --sleep 0.1 --keys '\x03' -- -prompt "$long" -n-predict 100 $slow
[ "$rc" = 130 ] && left && ! matches out '^Sequence'
verdict 'a second Ctrl-C: at once, the cursor is back'
for sig in TERM HUP QUIT; do
	on_screen 20 60 --wait '^\[2\] Once.{20}' --signal $sig -- "$@"
	case $sig in TERM) [ "$rc" = 130 ] ;; HUP) [ "$rc" = 129 ] ;; *) [ "$rc" = 131 ] ;; esac && left
	verdict "$sig: the cursor is back"
done
on_screen 20 60 --wait '^\[2\] Once.{20}' --signal STOP --sleep 0.2 --signal CONT --sleep 0.5 --dump "$tmp/mid" --keys '\x03' -- "$@"
[ "$rc" = 130 ] && clean && left && matches mid 'tokens/s'
verdict 'STOP and CONT: the view is there again'
if command -v bash >/dev/null; then
	prog=bash errors=
	on_screen 30 70 --wait '[#$] *$' --keys "PS1='> '; '$bin/batched' -n-predict 900 -ctx 8192 -ignore-eos $slow\r" --wait '^\[2\] Hello.{20}' --keys '\x1a' \
		--wait Stopped --keys 'stty -a | grep -o "[-]*echo "\r' --wait '^echo$' --keys 'fg\r' --sleep 1 --dump "$tmp/mid" \
		--keys '\x03' --wait '^Sequence 3:' --keys 'exit\r' -- --norc -i
	prog=$bin/batched errors=$tmp/errors
	clean && left && has mid 'tokens/s' && [ "$(sed '1,/^>.*fg/d' "$tmp/mid" | grep -c '^\[2\]')" = 1 ]
	verdict 'Ctrl-Z and fg: a shell with its echo in between, then the view again'
else
	skip 'Ctrl-Z and fg' 'no bash'
fi

# ---- Where there is none ----

# shellcheck disable=SC2086
set -- -prompt 'Once upon a time' -n-predict 24 -ignore-eos
texts plain "$@"
NO_COLOR=1
export NO_COLOR
# shellcheck disable=SC2086
on_screen 24 80 --wait '^\[3\] Once.{20}' --svg "$tmp/svg" -- "$@" $slow
unset NO_COLOR
[ "$rc" = 0 ] && clean && ! matches svg '<text[^>]*(opacity|bold|fill="#(a|f|8|9|cb))'
verdict 'NO_COLOR: live, without colours'
# shellcheck disable=SC2086
on_screen 24 80 --wait '^\[3\] Once.{20}' --svg "$tmp/svg" -- "$@" $slow
[ "$rc" = 0 ] && matches svg '<text[^>]*bold' && python3 -c 'import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])' "$tmp/svg"
verdict 'colours otherwise'
for t in dumb ''; do
	TERM=$t
	on_screen 24 80 -- "$@"
	[ "$rc" = 0 ] && ! matches frames '^\[0\]' && [ "$(count out '^Sequence [0-3]:$')" = 4 ]
	verdict "TERM='$t': no view"
done
TERM=xterm
on_screen 24 80 -- "$@" -no-live
[ "$rc" = 0 ] && ! matches frames '^\[0\]' && [ "$(count out '^Sequence [0-3]:$')" = 4 ]
verdict '-no-live: no view'
run batched "$@"
[ "$rc" = 0 ] && same out plain && ! grep -q "$(printf '\033')" "$tmp/out"
verdict 'a pipe: no view'

# ---- -stream ----

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
