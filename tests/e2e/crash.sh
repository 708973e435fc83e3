#!/bin/sh
# Programs killed with kill -9 at any moment and at any system call that changes a file: cohort jobs, the server's files and
# batches, saved slots, sessions of chat, indexes of retrieve, models and logits; cohort_state_save_file is
# tests/prop/test_state_kill.c.
#
#	crash.sh [COUNT [SEED [KIND...]]]	kills of each kind; `./dev crash` has 200
#
# Seen red with: files written in place (index, slots, chat: neither the old nor the new one); temporary names that stand
# for nothing, or leftovers that are not removed (index, chat, jobs: left over); a server that does not sweep (slots).
# jobs: half a line that is not cut off, results that are not looked at (a line twice), an output that is emptied (lost).
# batches, with 30 kills: a batch, a file or a cancel answered for and not written; bytes without a .json that stay; other
# ids whenever results become files; results that are begun anew, or stay behind the end; temporary files that stay; lines
# done again.
# A missing fsync does not show: the system outlives the program, and has what was written.
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"
if ! command -v python3 >/dev/null; then
	skip 'crashes' 'no python3'
	exit 0
fi

count=${1:-6}
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
