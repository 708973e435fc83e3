# shellcheck shell=sh disable=SC2034
# Servers as processes, for tests that talk to them by curl; sourced behind lib.sh.

# start_server NAME ARGUMENT...: starts one on a free port; its address in $url, its process in $pid, what it says in
# $tmp/NAME.log. False when it does not come to listen.
start_server() {
	server_log=$tmp/$1.log
	: >"$server_log"
	shift
	"$bin/cohort" serve -port 0 "$@" >/dev/null 2>"$server_log" </dev/null &
	pid=$!
	pids="$pids $pid"
	until_true 20 grep -q 'listening on' "$server_log" || return 1
	url=$(sed -n 's/^.*listening on \(.*\)$/\1/p' "$server_log")
}

# stop_server PID: ends it as an administrator would, and gives its exit code.
stop_server() {
	kill -TERM "$1" 2>/dev/null
	rc=0
	wait "$1" || rc=$?
	return $rc
}

# free_port: one that nothing listens on at this moment.
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
