#!/bin/sh
# What docs/server.md, docs/metrics.md and contrib/ say about the server is what it does.
#
# Shown red by: a metric's line taken out of docs/metrics.md, one added; a name misspelt in the dashboard; a field's state
# changed in docs/server.md; a route taken out; a default changed; an unknown directive in the unit.
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/e2e/serve_proc.sh
. "$(dirname "$0")/serve_proc.sh"

if ! command -v python3 >/dev/null; then
	skip 'all' 'python3 is not there'
	exit 0
fi
start_server docs -np 2 -ctx 2048 -data "$tmp/data"
verdict 'a server'
"$bin/cohort" serve -help >"$tmp/help"
check() { # CASE
	ran="serve_docs.py $1"
	rc=0
	PYTHONDONTWRITEBYTECODE=1 python3 "$COHORT_SOURCE/tests/e2e/serve_docs.py" "$COHORT_SOURCE" "$url" "$1" "$tmp/help" >"$tmp/out" 2>"$tmp/err" || rc=$?
	return $rc
}
check metrics
verdict 'docs/metrics.md has every name of /metrics, and no other'
check dashboard
verdict 'the dashboard asks for names that there are'
check routes
verdict 'docs/server.md has every route, and no other'
check options
verdict 'docs/server.md: options that there are, and their limits'
check fields
verdict 'docs/server.md: every field is honoured, ignored or refused as it says'

if command -v systemd-analyze >/dev/null; then
	sed "s|@bindir@|$bin|" "$COHORT_SOURCE/contrib/cohort.service.in" >"$tmp/cohort.service"
	# Its complaints about an unknown directive are no failure of its own.
	run systemd-analyze verify --man=no "$tmp/cohort.service"
	[ "$rc" = 0 ] && ! grep -q 'cohort\.service' "$tmp/err"
	verdict 'contrib/cohort.service.in is a unit'
else
	skip 'contrib/cohort.service.in is a unit' 'systemd-analyze is not there'
fi
stop_server "$pid"
verdict 'it ends cleanly'
