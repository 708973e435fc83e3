#!/bin/sh
# cohort retrieve: what is found, what of a folder is read, how it is cut, saved indexes, what is refused.
# Shown red by planted faults: links to folders followed (a loop never ends), a chunk that begins where the last ended
# although an overlap was asked for, the probe not compared (another model), a first step of no words (it never ends).
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"

d=$tmp/docs
mkdir -p "$d/deep/er" "$d/.hidden"
printf 'The cat sat on the mat and slept.\n' >"$d/cat.txt"
printf 'Rain fell on the town all day long.\n' >"$d/rain.txt"
printf 'The king rode his horse to the castle.\n' >"$d/deep/er/king.md"
printf 'secret\n' >"$d/.hidden/a"
printf 'secret\n' >"$d/.secret"
printf 'bin\000ary' >"$d/binary"
head -c 2000 "$model" >"$d/model"
: >"$d/empty"
ln -s .. "$d/deep/loop"
ln -s "$d" "$d/deep/er/again"
ln -s "$d/rain.txt" "$d/zz-link"
ln -s "$d/none" "$d/dangling"
mkfifo "$d/pipe"
retrieve() { run cohort retrieve "$@"; }

# ---- Finding ----

retrieve -dir "$d" -top-k 10 -format jsonl 'The cat sat on the mat and slept.'
keep out want
[ "$rc" = 0 ] && has err '5 files, 4 chunks; files left out because they are no text: 2' && python3 - "$tmp/out" "$d" <<'PY'
import json, sys
r = [json.loads(l) for l in open(sys.argv[1])]
assert [x["rank"] for x in r] == [1, 2, 3, 4] and all(x["query"] == 0 for x in r)
assert r[0]["file"] == sys.argv[2] + "/cat.txt" and r[0]["text"] == "The cat sat on the mat and slept." and r[0]["score"] > 0.999
assert (r[0]["begin"], r[0]["end"], r[0]["first_line"], r[0]["last_line"]) == (0, 33, 1, 1)
assert [x["score"] for x in r] == sorted((x["score"] for x in r), reverse=True)
assert {x["file"].rsplit("/", 1)[1] for x in r} == {"cat.txt", "rain.txt", "king.md", "zz-link"}
PY
verdict 'what is the same comes first; hidden, binary and looping things are left out'
retrieve -dir "$d" 'The king rode his horse.'
[ "$rc" = 0 ] && has out 'Query: The king rode his horse.' && matches out '^1\. 0\.[0-9]{4}  .*/deep/er/king.md, lines 1 to 1, bytes 0 to 38$' &&
	has out '    The king rode his horse to the castle.' && matches out '^3\. ' && ! matches out '^4\. '
verdict 'text, and three of them'
# Shown red with the bytes of C1 controls and of what turns the writing round left as they are.
mkdir "$tmp/odd"
printf 'A \302\23331mred\033[0m cat \342\200\256 sat\n\ton \351 mat.\n' >"$tmp/odd/$(printf 'a\302\233b\033')"
retrieve -dir "$tmp/odd" "$(printf 'a \302\233cat')"
printf 'Query: a <U+009B>cat\n' >"$tmp/first"
printf '    A <U+009B>31mred^[[0m cat <U+202E> sat\n    \ton \357\277\275 mat.\n' >"$tmp/last"
[ "$rc" = 0 ] && head -n 1 "$tmp/out" | cmp -s - "$tmp/first" && tail -n 2 "$tmp/out" | cmp -s - "$tmp/last" &&
	has out '/a<U+009B>b^[, lines 1 to 2'
verdict 'no text, name or query steers a terminal'
retrieve -dir "$d/cat.txt" -dir "$d/rain.txt" -top-k 1 -format jsonl 'rain all day'
[ "$rc" = 0 ] && has err '2 files, 2 chunks' && has out 'rain.txt' && [ "$(wc -l <"$tmp/out")" = 1 ]
verdict 'files instead of folders'

# ---- Saved indexes ----

retrieve -dir "$d" -save "$tmp/index"
[ "$rc" = 0 ] && empty out && has err "4 chunks in $tmp/index"
verdict 'saving alone prints nothing'
keep index index_a
retrieve -dir "$d" -save "$tmp/index" -np 1 -threads 1 -isa ref
[ "$rc" = 0 ] && same index index_a
verdict 'the same bytes whatever the batch, threads and level'
retrieve -load "$tmp/index" -top-k 10 -format jsonl 'The cat sat on the mat and slept.'
[ "$rc" = 0 ] && empty err && same out want
verdict 'an index that was saved says the same'
retrieve -load "$tmp/index" -top-k 1 -format jsonl 'a cat' 'The king and his horse' 'rain'
keep out three
[ "$rc" = 0 ] && [ "$(wc -l <"$tmp/out")" = 3 ] && matches out '^\{"query": 2, "query_text": "rain", "rank": 1'
verdict 'several queries, in their order'
printf 'a cat\n\nThe king and his horse\nrain\n' >"$tmp/queries"
retrieve -load "$tmp/index" -top-k 1 -format jsonl -f "$tmp/queries"
[ "$rc" = 0 ] && same out three
verdict 'queries from a file'
from_stdin() { "$bin/cohort" retrieve -load "$tmp/index" -top-k 1 -format jsonl <"$tmp/queries"; }
run from_stdin
[ "$rc" = 0 ] && same out three
verdict 'queries from standard input'
retrieve -load "$tmp/index" -top-k 1 -format jsonl -f "$tmp/queries" -output "$tmp/file" -np 1
[ "$rc" = 0 ] && empty out && same file three
verdict '-output; one query at a time'
retrieve -load "$tmp/index" -f "$tmp/none"
refused 4 'No such file'
verdict 'queries from a file that is not there'

# ---- Chunks ----

python3 - "$tmp" <<'PY' || exit 1
import random, sys
random.seed(3)
words = "the a cat king rode slept castle rain horse over under und Äpfel 漢字 reading, writing; 1234 supercalifragilisticexpialidociousness".split()
lines = [" ".join(random.choice(words) for _ in range(random.randrange(0, 25))) for _ in range(90)]
open(sys.argv[1] + "/book", "w").write("\n".join(lines) + "\n" + "x" * 700 + "\n\n   \n")
open(sys.argv[1] + "/parts", "w").write("one cat\n--\ntwo kings\n--\n\n--\nthree horses")
PY
cat >"$tmp/chunks.py" <<'PY'
"""Chunks cover the text, fit, go on, and overlap where that was asked for."""
import json, subprocess, sys
cohort, results, book, size, overlap = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
text = open(book, "rb").read()
c = sorted((json.loads(l) for l in open(results)), key=lambda x: x["begin"])
covered, end, n_shared = bytearray(len(text)), -1, 0
for x in c:
    b, e = x["begin"], x["end"]
    assert text[b:e].decode() == x["text"] and x["text"].strip() == x["text"] != ""
    assert x["first_line"] == text[:b].count(b"\n") + 1 and x["last_line"] == text[:e].count(b"\n") + 1
    assert e > end, "it does not go on"
    n_shared += b < end
    covered[b:e] = b"\1" * (e - b)
    end = e
assert all(covered[i] or text[i:i + 1].isspace() for i in range(len(text))), "a byte is in no chunk"
open(results + ".lines", "w").write("".join(x["text"].replace("\n", " ") + "\n" for x in c))
counts = [int(n) for n in subprocess.check_output([cohort, "tokenize", "-lines", "-format", "count", "-f", results + ".lines"]).split()]
assert len(counts) == len(c) and max(counts) <= size + 2, max(counts) # newlines became spaces here
assert sum(counts) > 0.5 * size * len(c), "chunks are needlessly small"
assert (n_shared > len(c) / 2) == (overlap > 0), n_shared
PY
for s in '32 0' '64 16' '256 128'; do
	# shellcheck disable=SC2086
	set -- $s
	retrieve -dir "$tmp/book" -chunk-size "$1" -overlap "$2" -top-k 100000 -format jsonl 'a cat'
	keep out chunks
	[ "$rc" = 0 ] && python3 "$tmp/chunks.py" "$bin/cohort" "$tmp/chunks" "$tmp/book" "$1" "$2" 2>"$tmp/err"
	verdict "chunks of $1 tokens that share $2"
done
retrieve -dir "$tmp/parts" -chunk-separator '\n--\n' -top-k 10 -format jsonl 'two kings'
[ "$rc" = 0 ] && [ "$(wc -l <"$tmp/out")" = 3 ] && head -n 1 "$tmp/out" | grep -q '"begin": 11, "end": 20, "first_line": 3, "last_line": 3, "text": "two kings"'
verdict 'chunks by a separator'
head -c 300 /dev/zero | tr '\0' 'y' >"$tmp/tiny"
retrieve -dir "$tmp/tiny" -save "$tmp/tiny.index" -chunk-size 32
[ "$rc" = 0 ] && has err '1 files'
retrieve -load "$tmp/tiny.index" -top-k 1 -format jsonl yyyy
[ "$rc" = 0 ] && has out '"score"'
verdict 'the smallest chunks, saved and found'

# ---- Indexes that are refused ----

bad() { # NAME TEXT: $tmp/bad
	retrieve -load "$tmp/bad" x
	refused 4 "$2" && has err "$tmp/bad"
	verdict "an index that is $1: refused"
}
size=$(wc -c <"$tmp/index")
head -c $((size - 1)) "$tmp/index" >"$tmp/bad"
bad 'cut' "truncated: it has $((size - 1)) bytes and says $size"
head -c 100 "$tmp/index" >"$tmp/bad"
bad 'cut within its header' 'cut within its header'
: >"$tmp/bad"
bad 'empty' 'no index of cohort retrieve'
cp "$model" "$tmp/bad"
bad 'a model' 'no index of cohort retrieve'
{ head -c 2000 "$tmp/index"; printf X; tail -c +2002 "$tmp/index"; } >"$tmp/bad"
bad 'damaged' 'checksum'
{ cat "$tmp/index"; printf X; } >"$tmp/bad"
bad 'too long' 'too long'
retrieve -load "$tmp/none" x
refused 4 'No such file'
verdict 'an index that is not there: refused'
retrieve -load "$tmp" x
[ "$rc" = 4 ] && empty out && has err "$tmp"
verdict 'a folder for an index: refused'
"$bin/cohort" quantize --allow-requantize "$model" "$tmp/other.gguf" Q8_0 >"$tmp/out" 2>"$tmp/err" || cp "$COHORT_SOURCE/tests/golden/data/llama.gguf" "$tmp/other.gguf"
retrieve -m "$tmp/other.gguf" -load "$tmp/index" x
refused 4 'was made with another model'
verdict 'an index of another model: refused'
LC_ALL=C sed "s/cohort-tiny/$(printf 'co\302\233rt\033tiny')/" "$tmp/other.gguf" >"$tmp/odd.gguf"
retrieve -m "$tmp/odd.gguf" -load "$tmp/index" x
refused 4 "this is 'co??rt?tiny'"
verdict 'the name of a model does not steer a terminal either'
retrieve -pooling last -load "$tmp/index" x
refused 2 'was made with -pooling mean, not last'
verdict 'another pooling: refused'
random_models "$tmp/models" bert || exit 1
retrieve -m "$tmp/models/bert.gguf" -load "$tmp/index" x
refused 4 'was made with another model'
verdict 'an index of another architecture: refused'
printf 'abc de\n' >"$tmp/abc"
retrieve -m "$tmp/models/bert.gguf" -dir "$tmp/abc" -save "$tmp/bert.index" 'abc de'
[ "$rc" = 0 ] && matches out '^1\. 1\.0000' && retrieve -m "$tmp/models/bert.gguf" -load "$tmp/bert.index" 'abc de' && matches out '^1\. 1\.0000'
verdict 'an encoder'

# ---- What else it refuses ----

refuse() { # CODE NAME TEXT ARGUMENT...
	code=$1
	what=$2
	text=$3
	shift 3
	retrieve "$@"
	refused "$code" "$text"
	verdict "refused: $what"
}
refuse 2 'nothing to search' 'give either -dir FOLDER or -load INDEX' x
refuse 2 'both' 'give either -dir FOLDER or -load INDEX' -dir "$d" -load "$tmp/index" x
refuse 2 'chunks of an index' 'go with -dir' -load "$tmp/index" -chunk-size 64 x
refuse 2 'queries twice' 'not both' -load "$tmp/index" -f "$tmp/queries" x
refuse 2 'an unknown format' "format 'xml' is not known" -dir "$d" -format xml x
refuse 2 'chunks above the model' 'the model takes up to 1024 tokens' -dir "$d" -chunk-size 2000 x
refuse 2 'too much overlap' 'more than half' -dir "$d" -chunk-size 64 -overlap 33 x
refuse 2 'tiny chunks' 'whole number' -dir "$d" -chunk-size 8 x
refuse 2 'an empty separator' 'is empty' -dir "$d" -chunk-separator '' x
refuse 4 'a folder that is not there' 'No such file' -dir "$tmp/none" x
mkdir "$tmp/nothing" && cp "$d/binary" "$tmp/nothing"
refuse 4 'a folder without text' 'no text was found; files left out because they are no text: 1' -dir "$tmp/nothing" x
refuse 4 'a place that cannot be written' "$tmp/no/index" -dir "$d" -save "$tmp/no/index"
limited() { (ulimit -f 2 && "$bin/cohort" retrieve -dir "$d" -save "$tmp/full"); }
run limited
[ "$rc" = 4 ] && has err 'File too large' && [ ! -e "$tmp/full" ] && [ -z "$(find "$tmp" -name '.cohort-*')" ]
verdict 'a full disk leaves nothing behind'

# Much white space takes the longest: 20 seconds for a megabyte. Shown red by going on to the end of the file.
mkdir "$tmp/wide"
awk 'BEGIN { for (i = 0; i < 20000; i++) printf "a%400s", "" }' >"$tmp/wide/file"
# shellcheck disable=SC3045
(ulimit -t 30 && exec "$bin/cohort" retrieve -dir "$tmp/wide" -save "$tmp/wide.index") >"$tmp/out" 2>"$tmp/err" </dev/null &
pid=$!
pids="$pids $pid"
until_true 60 computed 20
kill -TERM "$pid"
rc=0
wait "$pid" || rc=$?
ran='cohort retrieve, SIGTERM within a large file'
{ [ "$rc" = 130 ] || [ "$rc" = 143 ]; } && empty out && [ ! -e "$tmp/wide.index" ] # 143: before it had begun
verdict 'a signal ends it within a file'

# ---- A context of one token ----

python3 "$COHORT_SOURCE/tests/e2e/add_flag.py" "$model" "$tmp/no_bos.gguf" tokenizer.ggml.add_bos_token 0
python3 - "$tmp/no_bos.gguf" <<'PY'
import sys
with open(sys.argv[1], "r+b") as f:
    f.seek(f.read().index(b".context_length") + len(b".context_length") + 4)
    f.write(b"\1\0\0\0")
PY
rc=0
timeout 60 "$bin/cohort" retrieve -m "$tmp/no_bos.gguf" -dir "$d/cat.txt" -save "$tmp/one" >"$tmp/out" 2>"$tmp/err" </dev/null || rc=$?
[ "$rc" = 0 ] && matches err '1 file, ([89]|1[0-9]) chunks'
verdict 'chunks of one token'

# ---- A terminal ----

cat >"$tmp/on_tty.py" <<'PY'
"""A conversation at a terminal: two queries, then the end."""
import os, pty, subprocess, sys
master, slave = pty.openpty()
p = subprocess.Popen(sys.argv[2:], stdin=slave, stdout=open(sys.argv[1], "wb"), stderr=slave)
os.close(slave)
seen = b""
for line in (b"a cat\n", b"the king rode\n", b"\4"):
    while seen.count(b"query> ") == 0:
        seen += os.read(master, 1024)
    seen = seen.split(b"query> ", 1)[1]
    os.write(master, line)
sys.exit(p.wait())
PY
run python3 "$tmp/on_tty.py" "$tmp/said" "$bin/cohort" retrieve -load "$tmp/index" -top-k 1
[ "$rc" = 0 ] && has said 'Query: a cat' && has said 'Query: the king rode' && [ "$(grep -c '^1\. ' "$tmp/said")" = 2 ]
verdict 'queries at a terminal, answered one by one'

run cohort retrieve --help
[ "$rc" = 0 ] && empty err && has out 'cohort retrieve -load tales.index' && has out -chunk-separator
verdict 'help'
