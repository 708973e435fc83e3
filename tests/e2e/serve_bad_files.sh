#!/bin/sh
# cohort serve -data: malformed and hostile uploads, ids, lists and batches, more than a thousand cases against one
# server. Each is answered by 4xx with a JSON error that names the field, or hung up on; behind each the folder holds
# what it held before. In the end a good batch runs, and no connection, descriptor, slot or temporary file is left.
#
# Shown red by: an upload that stays when its call ends (broken forms, parts, sizes, descriptors); a purpose known by its
# beginning (parts); a form that ends anywhere (broken forms); a limit whose end is not looked at (lists); a file in use
# that is removed (files and batches that have ended, ...); a descriptor more for each reading (descriptors); grammars of
# any size (requests that are refused); an end that is none, ids that are not looked at (damaged records).
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/e2e/serve_lib.sh
. "$(dirname "$0")/serve_lib.sh"

client serve_bad_files
