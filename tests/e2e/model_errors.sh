#!/bin/sh
# What goes wrong outside the programs: models that are none, pipes that close, disks that are full.
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"

echo '1 911 630 264 493' >"$tmp/ids"

# with_model PROGRAM FILE: runs each program that takes a model.
with_model() {
	case $1 in
	batched) run batched -model "$2" -n-predict 2 ;;
	info) run cohort info -m "$2" ;;
	tokenize) run cohort tokenize -m "$2" hello ;;
	logits) run cohort logits -m "$2" --tokens "$tmp/ids" -o "$tmp/logits" ;;
	esac
}

# bad_model WHAT FILE [REASON]: exit 3, with the file and a reason, and nothing on standard output.
bad_model() {
	for p in batched info tokenize logits; do
		with_model $p "$2"
		refused 3 "$2: ${3-}" && [ ! -e "$tmp/logits" ] && [ "$(wc -l <"$tmp/err")" = 1 ]
		verdict "$p: $1"
	done
}

n=$(wc -c <"$model")
bad_model 'a missing file' "$tmp/missing.gguf" 'No such file'
: >"$tmp/empty.gguf"
bad_model 'an empty file' "$tmp/empty.gguf"
mkdir "$tmp/dir.gguf"
bad_model 'a directory' "$tmp/dir.gguf" 'is a directory without .gguf files'
# Seen red without the look into the directory.
: >"$tmp/dir.gguf/notes.txt"
: >"$tmp/dir.gguf/tiny.gguf"
bad_model 'a directory with a model' "$tmp/dir.gguf" 'is a directory; it holds tiny.gguf'
rm "$tmp/dir.gguf/tiny.gguf"
: >"$tmp/dir.gguf/big-00001-of-00002.gguf"
: >"$tmp/dir.gguf/big-00002-of-00002.gguf"
bad_model 'a directory with a model in two parts' "$tmp/dir.gguf" 'is a directory; it holds big-00001-of-00002.gguf'
bad_model 'a device' /dev/null 'not a regular file'
printf G >"$tmp/byte.gguf"
bad_model 'one byte' "$tmp/byte.gguf"
head -c 4 "$model" >"$tmp/magic.gguf"
bad_model 'the magic alone' "$tmp/magic.gguf"
head -c 24 "$model" >"$tmp/header.gguf"
bad_model 'the header alone' "$tmp/header.gguf"
head -c $((n / 2)) "$model" >"$tmp/half.gguf"
bad_model 'half a model' "$tmp/half.gguf"
head -c $((n - 1)) "$model" >"$tmp/short.gguf"
bad_model 'a model without its last byte' "$tmp/short.gguf"
head -c 100000 "$model" >"$tmp/vocab.gguf"
bad_model 'a model that ends in its vocabulary' "$tmp/vocab.gguf"
# The same "random" bytes on every run.
awk 'BEGIN { srand(7); for (i = 0; i < 4096; i++) printf "%03o\n", int(rand() * 256) }' | sed 's/^/\\/' | tr -d '\n' >"$tmp/octal"
# shellcheck disable=SC2059
printf "$(cat "$tmp/octal")" >"$tmp/random.gguf"
bad_model 'random bytes' "$tmp/random.gguf"
{ head -c 4 "$model" && cat "$tmp/random.gguf"; } >"$tmp/random2.gguf"
bad_model 'the magic and random bytes' "$tmp/random2.gguf"
{ head -c 8 "$model" && cat "$tmp/random.gguf"; } >"$tmp/random3.gguf"
bad_model 'magic, version and random bytes' "$tmp/random3.gguf"
{ head -c 24 "$model" && cat "$tmp/random.gguf"; } >"$tmp/random4.gguf"
bad_model 'a header and random bytes' "$tmp/random4.gguf"
cp "$tmp/ids" "$tmp/text.gguf"
bad_model 'a text file' "$tmp/text.gguf"
cp "$tmp/empty.gguf" "$tmp/secret.gguf"
chmod 0 "$tmp/secret.gguf"
if [ -r "$tmp/secret.gguf" ]; then
	skip 'an unreadable file' 'this user may read everything'
else
	bad_model 'an unreadable file' "$tmp/secret.gguf" 'Permission denied'
fi

# The built-in model under another name; behind the key come 12 bytes of type and length.
foreign=$tmp/foreign.gguf
LC_ALL=C sed 's/\(general[.]architecture.\{12\}\)llama/\1alien/' "$model" >"$foreign"
for p in batched logits; do
	with_model $p "$foreign"
	refused 3 "$foreign: " && has err "architecture 'alien' is not known; known: llama, "
	verdict "$p: an unknown architecture"
done
with_model info "$foreign"
[ "$rc" = 0 ] && empty err && has out 'runs here   no: ' && has out "architecture 'alien' is not known"
verdict 'info: an unknown architecture is told about'
with_model tokenize "$foreign"
[ "$rc" -lt 128 ] && { [ "$rc" != 0 ] || matches out '^[0-9 ]+$'; }
verdict 'tokenize: an unknown architecture with a known vocabulary'

# ---- Writing ----

# to_closed_pipe PROGRAM ARGUMENT...: starts only when the reader is gone.
to_closed_pipe() {
	rm -f "$tmp/gone"
	ran="$* | (gone)"
	: >"$tmp/out"
	{
		while [ ! -e "$tmp/gone" ]; do sleep 0.02; done
		"$@" 2>"$tmp/err" </dev/null
		echo $? >"$tmp/rc"
	} | {
		exec <&-
		: >"$tmp/gone"
	}
	rc=$(cat "$tmp/rc")
}
to_closed_pipe "$bin/batched" -n-predict 2
[ "$rc" = 4 ] && ! has err 'rite' && has err 'Performance Statistics:'
verdict 'batched: a closed pipe ends it quietly'
to_closed_pipe "$bin/cohort" info --json
[ "$rc" = 4 ] && empty err
verdict 'info --json: a closed pipe ends it quietly'
to_closed_pipe "$bin/cohort" info --tensors
[ "$rc" = 4 ] && empty err
verdict 'info: a closed pipe ends it quietly'
to_closed_pipe "$bin/cohort" tokenize hello
[ "$rc" = 4 ] && empty err
verdict 'tokenize: a closed pipe ends it quietly'
to_closed_pipe "$bin/cohort" logits --tokens "$tmp/ids" -o -
[ "$rc" = 4 ] && empty err
verdict 'logits: a closed pipe ends it quietly'
"$bin/batched" -n-predict 2 2>"$tmp/err" | head -n 1 >"$tmp/out"
is out 'Sequence 0:' && ! has err 'rite'
verdict 'batched | head -n 1'

# to_full NAME PROGRAM ARGUMENT...: standard output is a full disk.
to_full() {
	what=$1
	shift
	ran="$* >/dev/full"
	rc=0
	: >"$tmp/out"
	"$@" >/dev/full 2>"$tmp/err" </dev/null || rc=$?
	[ "$rc" = 4 ] && has err 'annot write' && has err 'No space left'
	verdict "$what: a full disk"
}
if [ -c /dev/full ]; then
	to_full batched "$bin/batched" -n-predict 2
	to_full 'batched -help' "$bin/batched" -help
	to_full 'batched -version' "$bin/batched" -version
	to_full info "$bin/cohort" info
	to_full 'info --json' "$bin/cohort" info --json
	to_full tokenize "$bin/cohort" tokenize hello
	to_full 'logits -o -' "$bin/cohort" logits --tokens "$tmp/ids" -o -
	to_full 'logits -o /dev/full' "$bin/cohort" logits --tokens "$tmp/ids" -o /dev/full
	to_full 'cohort help' "$bin/cohort" help
else
	skip 'a full disk' 'no /dev/full'
fi
rc=0
"$bin/batched" -n-predict 2 >&- 2>"$tmp/err" || rc=$?
[ "$rc" = 4 ] && has err 'cannot write'
verdict 'batched: standard output closed'

# The limit is in blocks of 512 or 1,024 bytes; five rows of logits are 160 KiB.
mkdir "$tmp/small"
limited() { (ulimit -f 16 && exec "$bin/cohort" logits --tokens "$tmp/ids" -o "$tmp/small/logits"); }
run limited
refused 4 "$tmp/small/logits: cannot write: File too large" && [ -z "$(ls -A "$tmp/small")" ]
verdict 'logits: a file size limit leaves nothing behind'
echo old >"$tmp/small/logits"
run limited
[ "$rc" = 4 ] && [ "$(cat "$tmp/small/logits")" = old ] && [ "$(ls -A "$tmp/small")" = logits ]
verdict 'logits: a file size limit leaves the old file alone'
run cohort logits --tokens "$tmp/ids" -o "$tmp/nowhere/logits"
refused 4 "$tmp/nowhere/logits: " && has err 'No such file'
verdict 'logits: a directory that is not there'
run cohort logits --tokens "$tmp/ids" -o "$tmp/small"
refused 4 "$tmp/small: " && has err 'Is a directory'
verdict 'logits: a directory for a file'
run cohort logits --tokens "$tmp/ids" -o "$tmp/ids/logits"
refused 4 'Not a directory'
verdict 'logits: a file for a directory'
mkdir "$tmp/locked"
chmod 500 "$tmp/locked"
if [ -w "$tmp/locked" ]; then
	skip 'logits: an unwritable directory' 'this user may write everywhere'
else
	run cohort logits --tokens "$tmp/ids" -o "$tmp/locked/logits"
	refused 4 'Permission denied'
	verdict 'logits: an unwritable directory'
fi
