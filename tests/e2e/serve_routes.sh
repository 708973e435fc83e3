#!/bin/sh
# cohort serve: llama-server's routes, the page, the live view, slots saved and brought back, another template.
#
# Shown red by: an embedding wrapped once more.
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/e2e/serve_lib.sh
. "$(dirname "$0")/serve_lib.sh"

client serve_routes
