#!/bin/sh
# The ends of the range of every numeric option, as its own message tells them: each is taken by all that follows the
# reading of options as well, up to the model, which is not there. What is beyond them is refused: tests/unit/test_opt_limits.c.
#
# Seen red with: a range that ends above what can be given (simulate -share).
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/e2e/serve_lib.sh
. "$(dirname "$0")/serve_lib.sh"

client option_limits
