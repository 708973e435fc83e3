#!/bin/sh
# cohort serve: what one client asks for holds up no other, however long it takes to prepare, and takes little memory.
#
# Shown red by: jobs that HTTP threads do themselves (routes without ROUTE_LONG: '/health ...', 'the stream ...'); one
# queue for all clients (next_job that takes the first job whoever's it is: 'another client ...').
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/e2e/serve_lib.sh
. "$(dirname "$0")/serve_lib.sh"

client serve_stall
