#!/bin/sh
# Programs killed with kill -9 at any moment and at any system call that changes a file: cohort jobs, the server's files and
# batches, saved slots, sessions of chat, indexes of retrieve; cohort_state_save_file is tests/prop/test_state_kill.c.
#
#	crash.sh [COUNT [SEED [KIND...]]]	kills of each kind; `./dev crash` has 200
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"
if ! command -v python3 >/dev/null; then
	skip 'crashes' 'no python3'
	exit 0
fi

count=${1:-8}
seed=${2:-1}
[ $# -lt 2 ] || shift
[ $# = 0 ] || shift
ran="tests/e2e/crash.py, $count kills of each kind, seed $seed"
PYTHONDONTWRITEBYTECODE=1 python3 "$COHORT_SOURCE/tests/e2e/crash.py" "$bin/cohort" "$tmp" "$COHORT_BUILD/kill_at" "$count" "$seed" "$@" \
	>"$tmp/cases" 2>"$tmp/err" || rc=$?
cat "$tmp/cases"
n_case=$(grep -cE '^(not )?ok ' "$tmp/cases")
n_bad=$(grep -cE '^not ok ' "$tmp/cases")
[ "$rc" = 0 ] && grep -qx '# end' "$tmp/cases"
verdict 'crash.py came to its end'
