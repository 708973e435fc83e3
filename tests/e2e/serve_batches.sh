#!/bin/sh
# cohort serve -data: files and batches over HTTP, in servers that are killed, full or fed with nonsense.
#
# Shown red by: an owner that is not looked at (keys); a form that ends anywhere (forms); lines whose results are there
# and that are done again (term); requests that are not counted, also when they are dropped, or timed as clients' are
# (metrics); a line's cache_salt that is not read (batches); a line's values that are not counted (bad_batches); a
# template that is no setting (settings); a seed drawn with each start, one seed for all lines with -1, what was drawn
# added to seeds that are given as well (seeds); batches in the order in which they came (owners).
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"
unset COHORT_SEED # the server draws one, unless a case says so

if ! command -v python3 >/dev/null; then
	skip 'all' 'python3 is not there'
	exit 0
fi

# client CASE NAME
client() {
	run python3 "$COHORT_SOURCE/tests/e2e/serve_batches.py" "$1" "$bin/cohort" "$tmp"
	if [ "$rc" = 77 ]; then
		skip "$2" 'it may not be done here'
		return
	fi
	[ "$rc" = 0 ]
	verdict "$2"
}

client off 'without -data: told how'
client files 'files: uploads, lists, contents, removal, limits, another start'
client batches 'batches of all three endpoints: the answers of cohort jobs'
client bad_batches 'batches that are none: lines are named'
client cancel 'cancelled under way and in the queue'
client seeds 'seeds that were drawn: another batch, other texts; the same after a kill'
client kill 'SIGKILL at random moments: nothing lost, nothing twice, nothing left over'
client term 'SIGTERM: goes on at the next start'
client expired 'time is up: what was not done is told'
client settings 'another start with other settings: not mixed'
client full 'a full disk: 507, and batches that wait for room'
client tiny_disk 'a full disk of its own'
client keys 'what another key made is not there'
client traversal 'ids that are none'
client forms 'forms: too large, broken, cut anywhere, given up'
client others 'clients come first'
client owners 'owners take turns, over a kill as well'
client metrics 'metrics: its requests are counted, their times apart'
