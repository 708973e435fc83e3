#!/bin/sh
# OpenAI's own client against cohort serve: runs the cases of main.mjs, which starts and stops the servers. Prints TAP.
# usage: run.sh BUILD      exit 77: node, npm or the package cannot be had here
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "${1:?usage: run.sh BUILD}" && pwd)
# shellcheck source=tests/npm/install.sh
. "$here/../npm/install.sh"
npm_work openai-tests
COHORT_BUILD=$build COHORT_SOURCE=$(cd "$here/../.." && pwd) exec node "$work/main.mjs"
