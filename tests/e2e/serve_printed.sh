#!/bin/sh
# What a server answers, to the letter: statuses, headers and bodies of some 240 requests, half of them wrong, against
# tests/golden/data/printed/serve.txt, but for times and random names. PRINTED_TO names a folder for a new one.
# At its end a server leaves no memory.
#
# Seen red with: another status for a model that is not there, a grammar whose text is not kept, and slots of the live page
# and API keys that are not released.
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/e2e/serve_lib.sh
. "$(dirname "$0")/serve_lib.sh"

client serve_printed "$COHORT_SOURCE/tests/golden/data/printed/serve.txt"
