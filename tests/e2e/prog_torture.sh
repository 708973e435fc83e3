#!/bin/sh
# Programs while the calls they make to the system fail, one after the other (see serve_torture.sh): each ends by itself,
# with its usual output, or with an exit code and a word why; files are whole or not there, a job goes on where it ended.
# TORTURE=full: all places.
#
# Seen red with: an error that is not told (tokenize), a temporary file that is not removed (synth), an allocation that is
# not looked at (run: it crashed), jobs_output_write that returns 0 after a failed write (jobs), a journal that is not
# written and not missed (jobs), a journal that is not recognised, so that the job does not resume (jobs), no formats or a
# wrong reason where the model cannot be opened (info), with a fault.so that lets nothing fail
# (all commands), and the tokens of :more without their text, and a text that was not kept (interactive).
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/e2e/serve_lib.sh
. "$(dirname "$0")/serve_lib.sh"
export COHORT_SEED=0 # texts of two runs are compared

torture prog_torture 'programs'
