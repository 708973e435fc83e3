#!/bin/sh
# What a server answers, to the letter: statuses, headers and bodies of some 240 requests, half of them wrong, against
# tests/golden/data/printed/serve.txt, but for times and random names. PRINTED_TO names a folder for a new one.
#
# Seen red with: another status for a model that is not there, and a grammar whose text is not kept.
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/e2e/serve_lib.sh
. "$(dirname "$0")/serve_lib.sh"

client serve_printed "$COHORT_SOURCE/tests/golden/data/printed/serve.txt"
