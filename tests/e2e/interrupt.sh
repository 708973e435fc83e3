#!/bin/sh
# Ctrl-C at any moment from main to the end, of every command: exit code 130, files as they were or whole, nothing left behind.
# Half of the moments are calls to the system, memory included, counted by fault.so (tests/torture/fault.h), so that each part
# of a run is met however short it is; the other half are times.
#
#	interrupt.sh [COUNT]	moments of each command line; `./dev interrupt` has 20, and a larger model
#
# Seen red with: batched that goes on to its statistics without a model (SIGSEGV); commands that catch the signal late, or
# not at all (killed by it); one that leaves the signal alone; a signal that is only noted while standard input is waited for.
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/e2e/serve_lib.sh
. "$(dirname "$0")/serve_lib.sh"
export COHORT_SEED=0 # texts of two runs are compared

INTERRUPT_COUNT=${1:-4}
export INTERRUPT_COUNT
torture interrupt 'interruptions'
