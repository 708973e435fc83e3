#!/bin/sh
# Programs while the calls they make to the system fail, one after the other (see serve_torture.sh): each ends by itself,
# with its usual output, or with an exit code and a word why; files are whole or not there. TORTURE=full: all places.
#
# Seen red with: an error that is not told (tokenize), a temporary file that is not removed (synth), an allocation that is
# not looked at (run: it crashed; interactive: the tokens of :more without their text, and a text that was not kept).
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/e2e/serve_lib.sh
. "$(dirname "$0")/serve_lib.sh"
export COHORT_SEED=0 # texts of two runs are compared

torture prog_torture 'programs'
