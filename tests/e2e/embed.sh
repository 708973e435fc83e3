#!/bin/sh
# cohort embed: order, pooling, norms, formats, likeness; the same bits whatever the batch; encoders; what is refused.
# Shown red by planted faults: results in the order they end (order), a truncated text without its last token (encoders),
# a header of another length (npy), a signal that is not heard while likenesses are written, a decoder whose file's
# pooling is not looked at.
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"

awk 'BEGIN { for (i = 1; i <= 18; i++) { l = "Line " i; for (k = 0; k < (i * 7) % 13; k++) l = l " and word " k * i; print l } }' >"$tmp/lines"
embed() { run cohort embed "$@"; }

# ---- Order, and the same bits ----

embed -f "$tmp/lines" -lines
[ "$rc" = 0 ] && empty err && [ "$(wc -l <"$tmp/out")" = 18 ] && [ "$(head -n 1 "$tmp/out" | wc -w)" = 512 ]
verdict 'a vector for each line'
keep out want
alike() { # NAME ARGUMENT...
	what=$1
	shift
	embed -f "$tmp/lines" -lines "$@"
	[ "$rc" = 0 ] && same out want
	verdict "the same bits: $what"
}
alike 'one text at a time' -np 1
alike 'three at a time, 11 rows' -np 3 -batch 11
alike 'all at once' -np 64 -batch 2048
alike 'one thread' -threads 1
alike 'three threads' -threads 3
alike 'the reference level' -isa ref
for i in 1 11 18; do
	embed "$(sed -n "${i}p" "$tmp/lines")"
	sed -n "${i}p" "$tmp/want" >"$tmp/line"
	[ "$rc" = 0 ] && same out line
	verdict "line $i alone"
done
embed "$(sed -n 3p "$tmp/lines")" -f "$tmp/lines" -lines "$(sed -n 5p "$tmp/lines")"
{ sed -n 3p "$tmp/want"; sed -n 5p "$tmp/want"; cat "$tmp/want"; } >"$tmp/line"
[ "$rc" = 0 ] && same out line
verdict 'operands come first, in their order'
printf '%s' "$(sed -n 4p "$tmp/lines")" >"$tmp/one"
sed -n 4p "$tmp/want" >"$tmp/line"
embed -f "$tmp/one"
[ "$rc" = 0 ] && same out line
verdict 'a file as one text'
from_stdin() { "$bin/cohort" embed -f - -lines <"$tmp/lines"; }
run from_stdin
[ "$rc" = 0 ] && same out want
verdict 'standard input'

# Special tokens are plain text unless asked for; a text without any is the same either way.
embed -special 'a cat' 'a cat</s>'
keep out special
embed 'a cat' 'a cat</s>'
[ "$rc" = 0 ] && [ "$(sed -n 1p "$tmp/out")" = "$(sed -n 1p "$tmp/special")" ] && ! same out special
verdict '-special: texts of special tokens are those tokens'
n_plain=$("$bin/cohort" tokenize -format count 'a cat</s>') n_special=$("$bin/cohort" tokenize -special -format count 'a cat</s>')
embed -ctx "$n_special" -special 'a cat</s>'
fits=$rc
embed -ctx "$n_special" 'a cat</s>'
[ "$fits" = 0 ] && [ "$rc" = 2 ] && [ "$n_plain" -gt "$n_special" ] && has err "has $n_plain tokens"
verdict '-special: as many tokens as cohort tokenize -special counts'

# ---- Norms and pooling ----

for n in 2 1 max none; do embed -normalize $n 'A cat sat' 'down' && keep out "norm_$n"; done
for p in mean cls last; do embed -pooling $p 'A cat sat' 'down' && keep out "pool_$p"; done
python3 - "$tmp" <<'PY' >"$tmp/out" 2>"$tmp/err"
import math, sys
def rows(name): return [[float(x) for x in l.split()] for l in open(sys.argv[1] + "/" + name)]
none = rows("norm_none")
for name, f in (("2", lambda v: math.sqrt(sum(x * x for x in v))), ("1", lambda v: sum(map(abs, v))), ("max", lambda v: max(map(abs, v)))):
    for v, raw in zip(rows("norm_" + name), none):
        assert abs(f(v) - 1) < 1e-4, (name, f(v))
        assert all(abs(a - b / f(raw)) < 1e-6 for a, b in zip(v, raw)), name
mean, cls, last = (rows("pool_" + p) for p in ("mean", "cls", "last"))
assert cls[0] == cls[1], "the first token is the same, and sees nothing else"
assert mean[0] != last[0] != cls[0] and last[0] != last[1]
assert mean == rows("norm_2")
PY
rc=$?
[ "$rc" = 0 ]
verdict 'norms and pooling'

# ---- Formats ----

embed -f "$tmp/lines" -lines -format json && keep out v.json
embed -f "$tmp/lines" -lines -format jsonl && keep out v.jsonl
embed -f "$tmp/lines" -lines -format npy && keep out v.npy
embed -f "$tmp/lines" -lines -output "$tmp/x.npy"
[ "$rc" = 0 ] && empty out && same x.npy v.npy
verdict 'the name of the file says the format'
embed -output "$tmp/x.npz" "a cat"
[ "$rc" = 0 ] && has err 'x.npz gets text'
verdict 'a name that looks like another format: said'
embed -f "$tmp/lines" -lines -output "$tmp/x.jsonl" && same x.jsonl v.jsonl && embed -f "$tmp/lines" -lines -output "$tmp/x.json" && same x.json v.json
verdict 'the same for JSON'
embed -f "$tmp/lines" -lines -output "$tmp/x.json" -format text
[ "$rc" = 0 ] && same x.json want && [ -z "$(find "$tmp" -name '*.tmp')" ]
verdict '-format goes before the name; what was there is replaced'
embed -f "$tmp/lines" -lines -similarity -format npy && keep out s.npy
embed -f "$tmp/lines" -lines -similarity && keep out s.text
python3 - "$tmp" <<'PY' >"$tmp/out" 2>"$tmp/err"
import ast, json, math, struct, sys
d = sys.argv[1] + "/"
def npy(name):
    raw = open(d + name, "rb").read()
    assert raw[:8] == b"\x93NUMPY\x01\x00", raw[:8]
    n, = struct.unpack_from("<H", raw, 8)
    assert (10 + n) % 64 == 0 and raw[10 + n - 1:10 + n] == b"\n"
    head = ast.literal_eval(raw[10:10 + n].decode("latin1"))
    assert head["descr"] == "<f4" and head["fortran_order"] is False and set(head) == {"descr", "fortran_order", "shape"}
    r, c = head["shape"]
    assert len(raw) == 10 + n + 4 * r * c, len(raw)
    flat = struct.unpack_from("<%df" % (r * c), raw, 10 + n)
    return [flat[i * c:(i + 1) * c] for i in range(r)]
f32 = lambda x: struct.unpack("<f", struct.pack("<f", x))[0]
text = [tuple(f32(float(x)) for x in l.split()) for l in open(d + "want")]
v = npy("v.npy")
assert v == text, "npy and text differ"
j = json.load(open(d + "v.json"))
assert j["n_embd"] == 512 and j["pooling"] == "mean" and j["normalize"] == "2" and j["model"]
assert [tuple(f32(x) for x in e["embedding"]) for e in j["data"]] == text and [e["index"] for e in j["data"]] == list(range(18))
assert [json.loads(l) for l in open(d + "v.jsonl")] == j["data"]
s = npy("s.npy")
t = [[float(x) for x in l.split()] for l in open(d + "s.text")]
for i in range(18):
    for k in range(18):
        dot = math.fsum(a * b for a, b in zip(v[i], v[k])) / math.sqrt(math.fsum(a * a for a in v[i]) * math.fsum(a * a for a in v[k]))
        assert abs(s[i][k] - dot) < 1e-6 and abs(t[i][k] - dot) < 1e-4 and s[i][k] == s[k][i]
PY
rc=$?
[ "$rc" = 0 ]
verdict 'npy, JSON and text hold the same numbers; cosines are right'

# ---- Lengths ----

awk 'BEGIN { for (i = 0; i < 1500; i++) printf "word " }' >"$tmp/long"
embed -f "$tmp/long"
refused 2 "$tmp/long has 1502 tokens, more than the 1024 that fit; -truncate cuts it"
verdict 'a text above the context: refused with both numbers'
embed -f "$tmp/long" -truncate -format jsonl
[ "$rc" = 0 ] && has err '1 of 1 text was cut' && has out '"n_tokens": 1024,'
verdict '-truncate'
embed -ctx 4 'one two three four five six'
refused 2 'more than the 4 that fit'
verdict '-ctx is a limit, too'
embed -ctx 4 -truncate 'Once upon a time there was' && keep out cut
embed 'Once upon a'
[ "$rc" = 0 ] && same out cut
verdict 'what is cut is the end'
embed ''
[ "$rc" = 0 ] && [ "$(wc -w <"$tmp/out")" = 512 ]
verdict 'an empty text is its begin token'
head -c 700 "$model" >"$tmp/binary"
embed -f "$tmp/binary"
[ "$rc" = 0 ] && [ "$(wc -w <"$tmp/out")" = 512 ]
verdict 'bytes that are no text'

# ---- Encoders ----

random_models "$tmp/models" bert nomic-bert jina-bert-v2 mamba qwen2 || exit 1
for m in bert nomic-bert jina-bert-v2 mamba qwen2; do
	printf 'abc de\nf\nthe abc of de and more of it\nabc\n' >"$tmp/few"
	embed -m "$tmp/models/$m.gguf" -f "$tmp/few" -lines -truncate
	keep out want
	ok=$([ "$rc" = 0 ] && [ "$(wc -l <"$tmp/out")" = 4 ] && echo yes)
	embed -m "$tmp/models/$m.gguf" -f "$tmp/few" -lines -truncate -np 1 -threads 1 -isa ref
	[ "$rc" = 0 ] && [ "$ok" = yes ] && same out want
	verdict "$m: the same bits together and alone"
	embed -m "$tmp/models/$m.gguf" abc
	tail -n 1 "$tmp/want" >"$tmp/line"
	[ "$rc" = 0 ] && same out line
	verdict "$m: a text alone"
done
# A decoder made for embeddings says how its rows become one, as qwen3-embedding does.
python3 - "$COHORT_SOURCE/tests/e2e" "$tmp/models/last.gguf" <<'PY' || exit 1
import sys
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
import bad_models
f = bad_models.base("qwen2")
bad_models.u32("qwen2.pooling_type", 3)(f)
open(sys.argv[2], "wb").write(f.bytes())
PY
embed -m "$tmp/models/qwen2.gguf" -pooling last abc && keep out want
embed -m "$tmp/models/last.gguf" abc
[ "$rc" = 0 ] && same out want
verdict 'a decoder with a pooling of its own'
run cohort tokenize -m "$tmp/models/bert.gguf" 'abc de f'
n=$(wc -w <"$tmp/out")
embed -m "$tmp/models/bert.gguf" -pooling last -ctx $((n - 1)) -truncate 'abc de f' && keep out cut
run cohort tokenize -m "$tmp/models/bert.gguf" 'abc de'
embed -m "$tmp/models/bert.gguf" -pooling last 'abc de'
[ "$rc" = 0 ] && same out cut
verdict 'bert: a text that is cut keeps the token at its end'

# ---- What it refuses ----

refuse() { # CODE NAME TEXT ARGUMENT...
	code=$1
	what=$2
	text=$3
	shift 3
	embed "$@"
	refused "$code" "$text"
	verdict "refused: $what"
}
refuse 2 'no text' 'give a text'
refuse 2 '-lines without a file' '-lines goes with -f' -lines x
refuse 2 'an unknown pooling' "pooling 'max' is not known" -pooling max x
refuse 2 'an unknown norm' "-normalize '3' is not known" -normalize 3 x
refuse 2 'an unknown format' "format 'xml' is not known" -format xml x
refuse 2 'no slots' 'whole number' -np 0 x
refuse 4 'a file that is not there' 'No such file' -f "$tmp/none"
: >"$tmp/empty"
refuse 4 'no lines' 'no line to embed' -f "$tmp/empty" -lines
refuse 3 'a model that is not there' 'cannot use the model' -m "$tmp/none" x
refuse 4 'a place that cannot be written' "$tmp/no/x" -output "$tmp/no/x" x
limited() { (ulimit -f 8 && "$bin/cohort" embed -f "$tmp/lines" -lines -output "$tmp/big.npy"); }
run limited
[ "$rc" = 4 ] && has err 'File too large' && [ ! -e "$tmp/big.npy" ] && [ -z "$(find "$tmp" -name '.cohort-*')" ]
verdict 'a full disk leaves nothing behind'

# ---- Interruption ----

for _ in 1 2 3 4 5 6 7 8 9 10; do cat "$tmp/lines" "$tmp/lines" "$tmp/lines" "$tmp/lines" "$tmp/lines" "$tmp/lines"; done >"$tmp/many"
cat "$tmp/many" "$tmp/many" "$tmp/many" "$tmp/many" >"$tmp/lines_4"
cat >"$tmp/on_tty.py" <<'PY'
"""Runs a command with a terminal on standard error; sends SIGINT when a line of progress shows up there."""
import os, pty, re, signal, subprocess, sys
master, slave = pty.openpty()
p = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, stderr=slave)
os.close(slave)
seen, sent = b"", False
while True:
    try:
        data = os.read(master, 4096)
    except OSError:
        break
    seen += data
    if not sent and re.search(rb"embedding: \d+ of \d+ texts, \d+ tokens/s, \d+ s left", seen):
        p.send_signal(signal.SIGINT)
        sent = True
sys.stderr.buffer.write(seen)
code = p.wait()
sys.exit(code if code >= 0 else 128 - code)
PY
run python3 "$tmp/on_tty.py" "$bin/cohort" embed -f "$tmp/lines_4" -lines -threads 1 -output "$tmp/never.npy"
[ "$rc" = 130 ] && empty out && matches err 'interrupted: [0-9]+ of 4320 texts were done' && [ ! -e "$tmp/never.npy" ] && [ -z "$(find "$tmp" -name '.cohort-*')" ]
verdict 'progress on a terminal; a signal ends it with 130 and leaves no file'
# Cosines are computed as they are written; the signal comes when the first are there. In the background SIGINT may be
# ignored, SIGTERM is not.
awk 'BEGIN { for (i = 0; i < 1500; i++) print i }' >"$tmp/numbers"
fresh
"$bin/cohort" embed -f "$tmp/numbers" -lines -similarity >"$tmp/out" 2>"$tmp/err" &
pid=$!
pids="$pids $pid"
while [ ! -s "$tmp/out" ] && kill -0 "$pid" 2>/dev/null; do sleep 0.05; done
kill -TERM "$pid"
rc=0
wait "$pid" || rc=$?
[ "$rc" = 130 ] && [ "$(wc -l <"$tmp/out")" -lt 1500 ]
verdict 'a signal while likenesses are written ends it'

run cohort embed --help
[ "$rc" = 0 ] && empty err && has out 'cohort embed -similarity' && has out -truncate
verdict 'help'
embed -similarity 'a cat sat down' 'a kitten sat' 'stock prices fell'
[ "$rc" = 0 ] && [ "$(wc -l <"$tmp/out")" = 3 ] && matches out '^ 1.0000 .*$'
verdict 'the example of the help'
