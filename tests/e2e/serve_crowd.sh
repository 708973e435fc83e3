#!/bin/sh
# cohort serve: clients that hang up in a crowd, queues that are full, bodies and names that are more than they look.
#
# Shown red by: a grammar that is freed under its samplers ('grammars ...', with AddressSanitizer); a batch thread that
# does not sleep, or tries each of its lines, when the queue is full ('a full queue'); a model's name written as it is
# ('a name that is no UTF-8'); all prompts of a body queued at once or none ('100 embeddings', '16 prompts'); limits that
# count from each prompt's own place in the queue ('deadline_s'); 429 for what can never be queued ('no queue would ever');
# a value for every token (/tokenize: 132 MiB instead of 7); values that are not counted, or those in strings, too; values
# in arguments that are not, or by themselves only ('ten calls': 585 MiB); bodies that are kept as they came ('while it
# waits': 190 MiB); a look at the slots for everybody who asks, all actions on slots at once ('150 viewers').
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/e2e/serve_lib.sh
. "$(dirname "$0")/serve_lib.sh"

client serve_crowd
