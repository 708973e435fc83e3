#!/bin/sh
# cohort serve: malformed HTTP and JSON, more than a thousand cases against one server. Each is answered by 4xx or 5xx,
# with a JSON error that names the field where there is one, or hung up on, within 5 seconds; behind each a good request
# has the same answer as ever; in the end no slot, block, connection or descriptor is left in use.
#
# Shown red by: is_line_end that is always true, an empty name let through, chunks behind which the connection goes on
# ('request lines and headers', 'lengths of bodies', 'chunks'); no check_framing, or one that takes names as they come and HTTP/1.0 for 1.1 ('lengths of bodies', 'request
# lines and headers'); embeddings counted as choices ('odd,
# but good'); n_probs that is not looked at ('/completion: every field ...'); body-timeout not looked at ('requests that
# stop halfway', 'all connections are gone', 'descriptors'); /embedding's texts called input ('/embedding: ...').
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/e2e/serve_lib.sh
. "$(dirname "$0")/serve_lib.sh"

client serve_bad
