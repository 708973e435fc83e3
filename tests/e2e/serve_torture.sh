#!/bin/sh
# cohort serve while the calls it makes to the system fail, one after the other: fault.so (tests/torture/fault.h) is loaded
# into the server, and the client says through a file which call is to fail. A few places of each kind and question;
# TORTURE=full: all of them (`./dev torture full`).
#
# Seen red with: a descriptor that is not closed when there is no response for it (files, full), a request that is not
# released when its body is refused (completion), jansson's own memory, with which bodies lose characters (native, full),
# tokens written as hexadecimal digits when there is no memory for their text (completion, full), an input that cannot be
# opened at the moment taken for missing (batches), a fault.so that lets nothing fail (all questions).
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/e2e/serve_lib.sh
. "$(dirname "$0")/serve_lib.sh"

torture serve_torture 'the server'
