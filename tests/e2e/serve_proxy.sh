#!/bin/sh
# Two servers behind nginx and behind HAProxy, with the configurations of contrib/: what begins alike goes to one server,
# streams come as they are made, a client that leaves is noticed behind the proxy, and when a server dies the other takes
# over.
#
# Shown red by: least_conn in the place of hash, and leastconn in that of balance hdr (same hash, other server);
# proxy_buffering on with HTTP/1.0 to the servers and their X-Accel-Buffering ignored (few pieces); without abortonclose
# (HAProxy lets an answer be made for nobody).
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/e2e/serve_proc.sh
. "$(dirname "$0")/serve_proc.sh"

if ! command -v python3 >/dev/null; then
	skip 'all' 'python3 is not there'
	exit 0
fi
check() { # CASE ARGUMENT...
	ran="serve_proxy.py $*"
	rc=0
	PYTHONDONTWRITEBYTECODE=1 python3 "$COHORT_SOURCE/tests/e2e/serve_proxy.py" "$@" >"$tmp/out" 2>"$tmp/err" || rc=$?
	return $rc
}
up() { check alive "http://127.0.0.1:$port"; }

# proxy NAME START: START begins it on $port, in front of the servers $one and $two, which are new for each.
proxy() {
	name=$1
	if ! command -v "$name" >/dev/null; then
		skip "$name" "$name is not there"
		return
	fi
	start_server "$name-one" -np 4 -ctx 4096 -t 1 && one=${url#http://} pid_one=$pid
	verdict "$name: a server"
	start_server "$name-two" -np 4 -ctx 4096 -t 1 && two=${url#http://} pid_two=$pid
	verdict "$name: another one"
	port=$(free_port)
	"$2"
	pid_proxy=$!
	pids="$pids $pid_proxy"
	until_true 10 up
	verdict "$name: answers"
	front=http://127.0.0.1:$port
	check affine "$front" "$one" "$two"
	verdict "$name: the same hash, the same server; and the hash that was answered leads there, too"
	check spread "$front" "$one" "$two"
	verdict "$name: many hashes, and none, use both servers"
	check stream "$front" "$one" "$two"
	verdict "$name: a stream comes as it is made"
	check leave "$front" "$one" "$two"
	verdict "$name: a client that leaves is noticed behind it"
	kill -9 "$pid_one"
	wait "$pid_one" 2>/dev/null # until then its socket takes connections that nobody answers
	check failover "$front" "$two"
	verdict "$name: one server killed: every request is answered by the other"
	kill -TERM "$pid_proxy" 2>/dev/null
	wait "$pid_proxy" 2>/dev/null
	stop_server "$pid_two"
	verdict "$name: the other one ends cleanly"
}
addresses() { sed -e "s/127\.0\.0\.1:8080/127.0.0.1:$port/" -e "s/127\.0\.0\.1:8081/$one/" -e "s/127\.0\.0\.1:8082/$two/" "$1"; }

# Paths that are the distribution's by default go to the test's own folder.
start_nginx() {
	d=$tmp/nginx
	mkdir -p "$d"
	paths="access_log off; client_body_temp_path $d/body; proxy_temp_path $d/proxy; fastcgi_temp_path $d/f; uwsgi_temp_path $d/u; scgi_temp_path $d/s;"
	addresses "$COHORT_SOURCE/contrib/nginx.conf" | sed "s|^http {|&$paths|" >"$d/nginx.conf"
	user=
	[ "$(id -u)" != 0 ] || user='user root;'
	nginx -p "$d" -e "$d/error.log" -c "$d/nginx.conf" -g "daemon off; pid $d/pid; $user" >"$d/log" 2>&1 &
}
start_haproxy() {
	addresses "$COHORT_SOURCE/contrib/haproxy.cfg" >"$tmp/haproxy.cfg"
	haproxy -db -f "$tmp/haproxy.cfg" >"$tmp/haproxy.log" 2>&1 &
}

proxy nginx start_nginx
proxy haproxy start_haproxy
