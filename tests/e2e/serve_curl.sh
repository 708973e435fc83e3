#!/bin/sh
# Every curl command of docs/server.md, as printed, against servers as that page describes them.
#
# Shown red by: a route misspelt in the page; a body there that is no JSON.
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/e2e/serve_proc.sh
. "$(dirname "$0")/serve_proc.sh"

if ! command -v curl >/dev/null; then
	skip 'all' 'curl is not there'
	exit 0
fi
mkdir "$tmp/slots"
start_server plain -np 4 -ctx 4096 -admin -slot-save-path "$tmp/slots" -data "$tmp/data" && plain=$url
verdict 'a server'
start_server socket -np 1 -ctx 1024 -socket "$tmp/cohort.sock"
verdict 'a server on a Unix socket'
tls=
if command -v openssl >/dev/null; then
	openssl req -x509 -newkey rsa:2048 -nodes -keyout "$tmp/key.pem" -out "$tmp/cert.pem" -days 2 -subj /CN=localhost \
		-addext 'subjectAltName=IP:127.0.0.1' 2>"$tmp/openssl.log"
	# The keys are those that the page shows.
	sed -n '/^# keys.txt/,/^```$/p' "$COHORT_SOURCE/docs/server.md" | grep -v '^```' >"$tmp/keys.txt"
	start_server tls -np 1 -ctx 1024 -tls-cert "$tmp/cert.pem" -tls-key "$tmp/key.pem" -api-key-file "$tmp/keys.txt" && tls=$url
	[ -n "$tls" ]
	verdict 'a server with TLS and keys'
fi

# examples: one command on a line; those that go on over several lines end with the quote that closes the body.
examples() {
	sed -n '/^```sh$/,/^```$/p' "$COHORT_SOURCE/docs/server.md" | awk '
	/^curl / { on = 1; line = "" }
	on { line = line (line == "" ? "" : " ") $0; n = gsub(/\047/, "\047", line); if (n % 2 == 0) { print line; on = 0 } }'
}
examples | sed -e "s|http://127.0.0.1:8080|$plain|" -e "s|https://127.0.0.1:8443|$tls|" -e "s|--cacert cert.pem|--cacert $tmp/cert.pem|" \
	-e "s|/run/cohort/cohort.sock|$tmp/cohort.sock|" -e "s|@requests.jsonl|@$tmp/requests.jsonl|" -e 's/^curl /curl -sS --fail-with-body --max-time 60 /' >"$tmp/commands"
[ "$(wc -l <"$tmp/commands")" -ge 30 ]
verdict 'the page has examples'

# Servers are started with options that there are.
sed -n '/^```sh$/,/^```$/p' "$COHORT_SOURCE/docs/server.md" | sed -n 's/^cohort serve *\([^#]*\).*/\1/p' >"$tmp/servers"
while read -r options <&3; do
	# shellcheck disable=SC2086
	run cohort serve $options -show-config
	[ "$rc" = 0 ]
	verdict "cohort serve $options"
done 3<"$tmp/servers"
[ "$(wc -l <"$tmp/servers")" -ge 4 ]
verdict 'the page starts servers'

echo '{"custom_id": "a", "method": "POST", "url": "/v1/completions", "body": {"prompt": "Once", "max_tokens": 3}}' >"$tmp/requests.jsonl"
file_id=
batch_id=
while read -r line <&3; do
	line=$(printf '%s' "$line" | sed -e "s/file-ID/$file_id/" -e "s/batch_ID/$batch_id/")
	title=$(printf '%s' "$line" | sed -e 's/ -sS --fail-with-body --max-time 60//' -e 's|[a-z]*://[0-9.:]*/|/|' -e "s|$tmp/||" | cut -c 1-100)
	case $line in
	*--cacert*) [ -n "$tls" ] || { skip "$title" 'openssl is not there'; continue; } ;;
	esac
	run sh -c "$line"
	[ "$rc" = 0 ] && ! empty out && ! has out '{"error"'
	verdict "$title"
	case $line in
	*'"stream": true'*)
		[ "$(tail -n 2 "$tmp/out" | head -n 1)" = 'data: [DONE]' ] && [ "$(grep -c '^data: {' "$tmp/out")" -ge 4 ]
		verdict 'and it is a stream with an end'
		;;
	*'"n": 4'*)
		[ "$(grep -o '"index":' "$tmp/out" | wc -l)" = 4 ]
		verdict 'and it has four choices'
		;;
	*requests.jsonl*) file_id=$(sed -n 's/.*"id":"\(file-[^"]*\)".*/\1/p' "$tmp/out") ;;
	*input_file_id*) batch_id=$(sed -n 's/.*"id":"\(batch_[^"]*\)".*/\1/p' "$tmp/out") ;;
	*X-Prefix-Hash*)
		matches out '^X-Prefix-Hash: [0-9a-f]{16}'
		verdict 'and the answer has one, too'
		;;
	esac
done 3<"$tmp/commands"

for p in $pids; do
	stop_server "$p"
	verdict 'a server ends cleanly'
done
