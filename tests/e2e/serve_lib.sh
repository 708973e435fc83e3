# shellcheck shell=sh disable=SC2034,SC2154
# What the tests of the server share; sourced behind lib.sh. The work is done in Python, with serve_client.py.
unset COHORT_SEED # a server draws one for each request
if ! command -v python3 >/dev/null; then
	skip 'the server' 'no python3'
	exit 0
fi

# client NAME [ARGUMENT...]: runs tests/e2e/NAME.py, whose cases become those of the script.
client() {
	ran="tests/e2e/$1.py"
	name=$1
	shift
	rc=0
	PYTHONDONTWRITEBYTECODE=1 python3 "$COHORT_SOURCE/tests/e2e/$name.py" "$bin/cohort" "$tmp" "$@" >"$tmp/cases" 2>"$tmp/err" || rc=$?
	cat "$tmp/cases"
	n_case=$(grep -cE '^(not )?ok ' "$tmp/cases")
	n_bad=$(grep -cE '^not ok ' "$tmp/cases")
	[ "$rc" = 0 ] && grep -qx '# end' "$tmp/cases"
	verdict "$name.py came to its end"
}

# torture NAME WHAT: the same with fault.so (tests/torture/fault.h) at hand, by which WHAT is made to fail.
torture() {
	if [ ! -f "$COHORT_BUILD/fault.so" ]; then
		skip "$2" 'no fault.so: this build has sanitizers, or no tests'
		exit 0
	fi
	FAULT_OBJECT=$COHORT_BUILD/fault.so
	export FAULT_OBJECT
	client "$1"
}
