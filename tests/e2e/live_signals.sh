#!/bin/sh
# The live view of batched when something happens to the terminal or the program, and where there is none.
#
# Seen red with the terminal not given back in the signal handlers ('a second Ctrl-C', 'HUP', 'QUIT', 'Ctrl-Z').
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/e2e/live_lib.sh
. "$(dirname "$0")/live_lib.sh"

# ---- Resize ----

# shellcheck disable=SC2086
set -- -prompt 'Once upon a time' -n-predict 120 -ignore-eos
for how in '' --reflow; do
	for to in 12x30 30x100 5x80 24x44; do
		case $how$to in 30x100 | --reflow5x80) continue ;; esac # nothing to tell apart
		# shellcheck disable=SC2086
		on_screen 24 60 $how --wait '^\[3\].{40}' --resize $to --next 3 --dump "$tmp/mid" --keys '\x03' -- "$@" $slow
		[ "$rc" = 130 ] && clean && left && [ "$(count mid '^\[[0-3]\]')" = 4 ] && [ "$(count mid 'tok')" = 1 ]
		verdict "resize to $to${how:+, a terminal that breaks lines}: one view, whole"
	done
done

# ---- Signals ----

# shellcheck disable=SC2086
set -- -prompt 'Once upon a time' -n-parallel 3 -n-predict 900 -ctx 8192 -ignore-eos $slow
on_screen 20 60 --wait '^\[2\].{24}' --keys '\x03' -- "$@"
[ "$rc" = 130 ] && clean && left && [ "$(count out '^Sequence [0-2]:$')" = 3 ] && ! matches out '^\[[0-9]\]'
verdict 'Ctrl-C: the texts so far, exit 130, the cursor is back'
# A prompt that takes longer to compute than the keys to arrive: the run goes on when the second one comes.
long=$(awk 'BEGIN { for (i = 0; i < 270; i++) printf "the cat is" }')
on_screen 20 60 --wait ' s ' --sleep 0.3 --keys '\x03' --sleep 0.1 --keys '\x03' -- -prompt "$long" -n-predict 100 $slow
[ "$rc" = 130 ] && left && ! matches out '^Sequence'
verdict 'a second Ctrl-C: at once, the cursor is back'
for sig in TERM HUP QUIT; do
	on_screen 20 60 --wait '^\[2\].{24}' --signal $sig -- "$@"
	case $sig in TERM) [ "$rc" = 130 ] ;; HUP) [ "$rc" = 129 ] ;; *) [ "$rc" = 131 ] ;; esac && left
	verdict "$sig: the cursor is back"
done
on_screen 20 60 --wait '^\[2\].{24}' --signal STOP --sleep 0.2 --signal CONT --next 3 --dump "$tmp/mid" --keys '\x03' -- "$@"
[ "$rc" = 130 ] && clean && left && matches mid 'tokens/s'
verdict 'STOP and CONT: the view is there again'
if command -v bash >/dev/null; then
	prog=bash errors=
	on_screen 30 70 --wait '[#$] *$' --keys "PS1='> '; '$bin/batched' -n-predict 900 -ctx 8192 -ignore-eos $slow\r" --wait '^\[2\].{24}' --keys '\x1a' \
		--wait Stopped --keys 'stty -a | grep -o "[-]*echo "\r' --wait '^echo$' --keys 'fg\r' --next 8 --dump "$tmp/mid" \
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
on_screen 24 80 --wait '^\[3\].{24}' --svg "$tmp/svg" -- "$@" $slow
unset NO_COLOR
[ "$rc" = 0 ] && clean && ! matches svg '<text[^>]*(opacity|bold|fill="#(a|f|8|9|cb))'
verdict 'NO_COLOR: live, without colours'
# shellcheck disable=SC2086
on_screen 24 80 --wait '^\[3\].{24}' --svg "$tmp/svg" -- "$@" $slow
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
