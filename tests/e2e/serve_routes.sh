#!/bin/sh
# cohort serve: llama-server's routes, the page, the live view, slots saved and brought back, another template.
#
# Shown red by: one seed for all, one drawn that is not reported ('seeds' of serve_routes.py); a failed schema as a 500
# ('constraints'); slots written as the umask says ('which others cannot read'); an embedding wrapped once more;
# add_special and parse_special that are ignored, a token less (/tokenize, /detokenize); one slot more (/props); another
# stop_type, in the answer or in a stream's end, n_probs and one (/completion); a slot's cached tokens for its prompt's
# (/slots); a tick lost (/cohort/live); the default's name for the strategy in use; an ETag that is not compared;
# nothing erased, a key's hash left out of the name, no salt for what was restored (/slots?action=...); null taken for a
# value (/completion); a model's name that ends at a slash; a save that fails as the client's fault, with the path, or
# that nobody is told of; a slot's cache_salt that is not read, that counts with keys only, or that files know nothing
# of; no more than n_ctx tokens of a slot ('full to the last block'); a method that is logged as it came (-verbose); a
# stream that says nothing of n_probs, or of the token that ends a text as well; saved slots without a bound, or with
# one that counts the file that is written over.
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/e2e/serve_lib.sh
. "$(dirname "$0")/serve_lib.sh"

client serve_routes
