# shellcheck shell=sh disable=SC2034
# What the tests of programs that one talks to share, beside lib.sh: a home of their own, lines for a pipe, a terminal.
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"
HOME=$tmp/home
export HOME
unset XDG_STATE_HOME NO_COLOR
mkdir "$HOME"
here=$COHORT_SOURCE/tests/e2e

# lines FORMAT ARGUMENT...: what is said next, in $tmp/in.
# shellcheck disable=SC2059
lines() { printf "$@" >"$tmp/in"; }
# say PROGRAM ARGUMENT...: those lines go to it by a pipe.
say() {
	ran=$*
	rc=0
	prog=$bin/$1
	shift
	"$prog" "$@" >"$tmp/out" 2>"$tmp/err" <"$tmp/in" || rc=$?
}
# talk ARGUMENT... <STEPS: on a terminal; what was on it in out.
talk() {
	ran="pty_talk $*"
	rc=0
	TERM=xterm python3 "$here/pty_talk.py" "$@" >"$tmp/out" 2>"$tmp/err" || rc=$?
}
