#!/bin/sh
# Every example of every --help, and every command of the README, runs as it is printed, beside files of the names that examples use. A new
# example needs nothing here, unless it names a file of another kind.
#
# Shown red by an example with an option that does not exist, and by a curl for a route that the server has not.
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"
unset COHORT_SEED # as users have it
# shellcheck source=tests/e2e/docs_lib.sh
. "$(dirname "$0")/docs_lib.sh"

command -v bash >/dev/null || {
	n_case=1
	echo 'ok 1 - the examples of --help # SKIP there is no bash'
	exit 0
}

mkdir "$tmp/here" "$tmp/home"
cd "$tmp/here" || exit 1
example_files

# ---- The examples ----

# Each in a file of its own: a line with two spaces in front, and those behind it with more.
split() {
	rm -f "$tmp"/example.*
	sed -n '/^Examples:$/,$p' "$tmp/out" | sed 1d |
		awk -v dir="$tmp" '/^  [^ ]/ { n++ } { sub(/^  /, ""); print > (dir "/example." sprintf("%02d", n)) }'
}

# A server runs until it is told to end: on any free port, and what asks it asks there.
serve() { # serve FILE [COMMAND]: starts what the file says, waits until it listens, runs the command, ends it
	: >"$tmp/serve.err" # what the server before it said is not its word
	# In the foreground: otherwise a signal reaches the server twice, and the second one ends it at once.
	COHORT_PORT=0 timeout --foreground 60 bash -c "exec $(cat "$1")" 2>"$tmp/serve.err" &
	server=$!
	for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
		grep -q 'listening on' "$tmp/serve.err" && break
		sleep 0.5
	done
	port=$(sed -n 's/.*listening on http.*:\([0-9]*\)$/\1/p' "$tmp/serve.err")
	asked=0
	# An answer that is an error is not what the example is for; to curl alone it is an answer.
	[ -z "${2:-}" ] || sed "s/:8080/:$port/; s/^curl /&--fail-with-body --max-time 60 /" "$2" | bash || asked=$?
	kill -TERM $server
	wait $server && [ -n "$port" ] && [ $asked = 0 ]
}

ran_any=
try() { # try NAME: the help is in $tmp/out
	split
	for example in "$tmp"/example.*; do
		[ -e "$example" ] || continue
		ran_any=1
		text=$(head -n 1 "$example")
		here() ( # its own shell: what it sets ends with it
			export PATH="$bin:$PATH" HOME="$tmp/home" XDG_STATE_HOME="$tmp/home" XDG_CONFIG_HOME="$tmp/home"
			case $text in
			'cohort serve'*) serve "$example" ;;
			curl*)
				echo 'cohort serve' >"$tmp/server"
				serve "$tmp/server" "$example"
				;;
			*) timeout 120 bash "$example" ;;
			esac
		)
		run here
		ran=$text
		[ "$rc" = 0 ]
		verdict "$1: $text"
	done
}

run batched --help
try batched
for c in $("$bin/cohort" help | sed -n '/^Commands:$/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
	case $c in help | version | man | completion) continue ;; esac
	run cohort "$c" --help
	ran_any=
	try "$c"
	[ -n "$ran_any" ]
	verdict "$c: has examples"
done

# The README's begin with build/, where the programs are in a clone; the files that they name are there, too.
mkdir "$tmp/clone"
cd "$tmp/clone" || exit 1
ln -s "$COHORT_SOURCE/examples" "$COHORT_SOURCE/models" .
sed -n '/^```sh$/,/^```$/p' "$COHORT_SOURCE/README.md" | grep -E '^(build/|curl )' | sed 's|^build/||' >"$tmp/readme"
n_lines=$(wc -l <"$tmp/readme")
[ "$n_lines" -gt 15 ]
verdict "the README has $n_lines commands"
i=0
while [ $i -lt "$n_lines" ]; do
	i=$((i + 1))
	sed -n "${i}p" "$tmp/readme" >"$tmp/example.00"
	echo 'Examples:' >"$tmp/out"
	sed 's/^/  /' "$tmp/example.00" >>"$tmp/out"
	try README
done
