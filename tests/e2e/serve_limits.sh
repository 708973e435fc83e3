#!/bin/sh
# cohort serve: each bound of its --help, each by itself: sizes, connections, patience, the queue, times, keys, where it
# listens, how it ends, and clients that go away.
#
# Shown red by: lines written where the request is served, or dropped without a word ('a log ...', 'when it is read
# again', 'nor does the end'); client_gone that does nothing ('going away ...'); drop that does not free its requests ('-write-timeout',
# '-queue: it recovers', 'going away ...'); look_around without hang_up ('-idle-timeout', '-body-timeout'); more without
# pings ('-ping'); a write-timeout that libmicrohttpd applies to all of a connection ('longer than -write-timeout');
# openai_stream_end left out ('one [DONE]'); /apply-template without a look at grammars ('-max-grammar'); evict that finds
# nothing ('idle for longest', 'a crowd', 'others are served'), or takes what is under way ('streams are not closed');
# requests of a client that are not counted ('a third request'); X-Forwarded-For read from its beginning ('the first of
# them'); accept_fits left out ('few descriptors'); accepting that goes on without descriptors ('no busy loop'); an action
# on a slot that goes back to a worker before its pause is over ('wait for their turn').
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/e2e/serve_lib.sh
. "$(dirname "$0")/serve_lib.sh"

client serve_limits
