# shellcheck shell=sh disable=SC2034
# What the tests of batched on a terminal share; sourced behind lib.sh. The terminal is pty_screen.py.
LC_ALL=C.UTF-8
TERM=xterm
export LC_ALL TERM
unset NO_COLOR

if ! command -v python3 >/dev/null; then
	skip 'programs on a terminal' 'no python3'
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

# wrapped SCREEN TEXT WIDTH: the lines of a text, broken between words by Python's textwrap, stand on a screen.
cat >"$tmp/wrapped.py" <<'EOF'
import sys, textwrap
screen, text = open(sys.argv[1]).read().splitlines(), open(sys.argv[2]).read().rstrip("\n")
want = [l for part in text.split("\n") for l in textwrap.wrap(part, int(sys.argv[3]), break_on_hyphens=False) or [""]]
assert any(screen[i:i + len(want)] == want for i in range(len(screen))), (want, screen)
EOF
wrapped() { python3 "$tmp/wrapped.py" "$@" >"$tmp/err" 2>&1; }
