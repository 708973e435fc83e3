#!/bin/sh
# cohort detokenize, the way back from tokenize; and the formats of tokenize.
# Shown red by planted faults: a newline behind the text, an id that is not compared with the vocabulary.
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"

text() { # NAME EXPECTED ARGUMENT...
	what=$1
	printf '%s' "$2" >"$tmp/want"
	shift 2
	run cohort detokenize "$@"
	[ "$rc" = 0 ] && empty err && same out want
	verdict "detokenize: $what"
}
text 'ids as operands' 'Once upon a time' 1 911 630 264 493
text 'several in an operand' 'Once upon a time' '1 911' '630,264' '[493]'
text 'control tokens' '<s>Once' -special 1 911
text 'no control tokens' 'Once' 1 911
text 'only a control token' '' 1
printf '1 911\n630\t264 493\n' >"$tmp/ids"
text 'a file' 'Once upon a time' -f "$tmp/ids"
text 'a model by name' 'Once upon a time' -m "$model" -f "$tmp/ids"
: >"$tmp/empty"
text 'an empty file' '' -f "$tmp/empty"
printf '1 911 630\n\n264 493\n' >"$tmp/lines"
run cohort detokenize -f "$tmp/lines" -lines
printf 'Once upon\n\na time\n' >"$tmp/want"
[ "$rc" = 0 ] && same out want
verdict 'detokenize: lines'
run cohort detokenize -lines '1 911' 911
printf 'Once\nOnce\n' >"$tmp/want"
[ "$rc" = 0 ] && same out want
verdict 'detokenize: each operand'

# ---- Round trips ----

python3 - "$tmp" <<'PY' || exit 1
import random, sys
random.seed(7)
def write(name, data): open(sys.argv[1] + "/" + name, "wb").write(data)
write("rt_text", "Äpfel und Öl: 漢字, 😀 \u200d\n\ttabs  two spaces   three\r\n".encode() * 20)
write("rt_bytes", bytes(random.randrange(256) for _ in range(5000)))
write("rt_all", bytes(range(256)) * 4)
write("rt_mixed", b"".join(random.choice([b" ", b"\n", b"<s>", b"</s>", b"word", "é".encode(), b"\xff", b"\xe2\x82", b"\0", b"  "]) for _ in range(3000)))
write("rt_space", b" ")
write("rt_spaces", b"   lead and trail   ")
write("rt_newlines", b"\n\n\n")
PY
there_and_back() { "$bin/cohort" tokenize -f "$tmp/$1" | "$bin/cohort" detokenize; }
as_json() { "$bin/cohort" tokenize -json -f "$tmp/$1" | "$bin/cohort" detokenize -f -; }
for f in text bytes all mixed space spaces newlines; do
	run there_and_back "rt_$f"
	[ "$rc" = 0 ] && same out "rt_$f"
	verdict "there and back: $f"
	run as_json "rt_$f"
	[ "$rc" = 0 ] && same out "rt_$f"
	verdict "there and back as JSON: $f"
done
by_lines() { "$bin/cohort" tokenize -lines -f "$tmp/rt_lines" | "$bin/cohort" detokenize -lines; }
printf 'one line\n\n  another: \303\251\nlast\n' >"$tmp/rt_lines"
run by_lines
[ "$rc" = 0 ] && same out rt_lines
verdict 'there and back by lines'

# ---- What it refuses ----

refuse() { # CODE NAME TEXT ARGUMENT...
	code=$1
	what=$2
	text=$3
	shift 3
	run cohort detokenize "$@"
	refused "$code" "$text"
	verdict "detokenize: refused: $what"
}
refuse 2 'a word' "argument 2, byte 0: 'x' is no token id; ids are 0 to 8191" 1 x
refuse 2 'an id outside the vocabulary' "argument 1, byte 2: '8192' is no token id" '1 8192'
refuse 2 'a huge number' "'99999999999999999999' is no token id" 99999999999999999999
refuse 2 'a negative id' "'-1' is no token id" -- -1
refuse 2 'ids and a file' 'not both' -f "$tmp/ids" 1
printf '1 911\n630 oops 264' >"$tmp/bad"
refuse 4 'a word in a file' "$tmp/bad, byte 10: 'oops' is no token id" -f "$tmp/bad"
refuse 4 'bytes' 'is no token id' -f "$model"
refuse 4 'a file that is not there' 'No such file' -f "$tmp/none"
refuse 3 'a model that is not there' 'cannot use the model' -m "$tmp/none" 1
bad_line() { printf '1 911\n5 99999\n' | "$bin/cohort" detokenize -lines; }
run bad_line
[ "$rc" = 4 ] && has err "standard input, byte 8: '99999'"
verdict 'detokenize: refused: an id in a line, with its place'
if [ -w /dev/full ]; then
	full() { "$bin/cohort" detokenize 1 911 >/dev/full; }
	run full
	[ "$rc" = 4 ] && has err 'No space left'
	verdict 'detokenize: a full disk'
fi

# ---- Formats of tokenize ----

tok() { # NAME EXPECTED ARGUMENT...
	what=$1
	printf '%b' "$2" >"$tmp/want"
	shift 2
	run cohort tokenize "$@"
	[ "$rc" = 0 ] && empty err && same out want
	verdict "tokenize: $what"
}
tok '-json' '[1, 911, 630]\n' -json 'Once upon'
tok '-format json' '[1, 911, 630]\n' -format json 'Once upon'
tok '-json of nothing' '[]\n' -json -no-bos ''
tok '-format ids' '1 911 630\n' -format ids 'Once upon'
tok '-format count' '3\n' -format count 'Once upon'
tok '-format pieces' '1\t"<s>"\n911\t" Once"\n630\t" upon"\n' -format pieces 'Once upon'
printf 'Once upon\r\n\nOnce' >"$tmp/three"
tok '-lines' '911 630\n\n911\n' -lines -no-bos -f "$tmp/three"
tok '-lines -json' '[911, 630]\n[]\n[911]\n' -lines -json -no-bos -f "$tmp/three"
run cohort tokenize -format xml x
refused 2 "format 'xml' is not known"
verdict 'tokenize: refused: an unknown format'
run cohort tokenize -json -format count x
refused 2 'contradict'
verdict 'tokenize: refused: two formats'
for c in tokenize detokenize; do
	run cohort $c --help
	[ "$rc" = 0 ] && empty err && has out "cohort $c"
	verdict "$c: help"
done
