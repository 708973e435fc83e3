#!/bin/sh
# 64 clients of one server at once, one in ten of whom goes away: every answer is the one that the same request gets alone
# (same seed), no slot, block or connection is left behind, memory does not grow, /health answers while 900 tokens are
# computed. A quarter of a minute; `./dev soak` does more of it, for minutes, with narrow limits.
#
# Shown red by: a seed that depends on how many others generate ('every answer ...'); one in 200 pins of the cache that is
# never taken back ('no block is used'); 16 KiB that each request leaves ('memory ...'); libmicrohttpd not told again that
# a client has ended ('no connection is left').
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/e2e/serve_lib.sh
. "$(dirname "$0")/serve_lib.sh"

client serve_load "$(few 3 8)"
