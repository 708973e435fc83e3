#!/bin/sh
# cohort serve while the calls it makes to the system fail, one after the other: fault.so (tests/torture/fault.h) is loaded
# into the server, and the client says through a file which call is to fail. A few places of each kind and question;
# TORTURE=full: all of them (`./dev torture full`).
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/e2e/serve_lib.sh
. "$(dirname "$0")/serve_lib.sh"

if [ ! -f "$COHORT_BUILD/fault.so" ]; then
	skip 'the server' 'no fault.so: this build has sanitizers, or no tests'
	exit 0
fi
FAULT_OBJECT=$COHORT_BUILD/fault.so
export FAULT_OBJECT
client serve_torture
