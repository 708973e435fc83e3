#!/bin/sh
# cohort serve: what one client asks for holds up no other, however long it takes to prepare, and takes little memory.
#
# Shown red by: jobs that HTTP threads do themselves (routes without ROUTE_LONG: '/health ...', 'the stream ...'); one
# queue for all clients (next_job that takes the first job whoever's it is: 'another client ...'); prompts that are
# tokenised whatever their length, a body that is kept while its values are read, tokens as values of JSON, answers of
# /tokenize that are made at once ('memory: ...', 6 to 23 times); wait_for_all that writes every answer itself ('... long
# answers'); uploads that HTTP threads finish ('... the disk').
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/e2e/serve_lib.sh
. "$(dirname "$0")/serve_lib.sh"

client serve_stall
