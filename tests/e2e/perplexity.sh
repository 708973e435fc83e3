#!/bin/sh
# cohort perplexity: the number against one computed from `cohort logits`, the same bits however it is computed, formats,
# what is refused, interruption.
# Shown red by planted faults: windows that begin one token late and costs that take the row before (the number), a sum
# that depends on how many windows go together (the same bits).
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"

cat >"$tmp/text" <<'TEXT'
Once upon a time, there was a little girl named Lily. She lived in a small house near the forest with her mother and an
old grey cat. One day she went to the market to buy bread, and on the way she met a fox who asked her where she was going.
"To the market," said Lily, and the fox smiled and went along with her. They walked until the sun went down.
TEXT
ppl() { run cohort perplexity -f "$tmp/text" "$@"; }

# ---- The number ----

cat >"$tmp/check.py" <<'PY'
"""Perplexity of windows from `cohort logits`, log-softmax in double: cohort, text, out.json, ctx, stride, bos."""
import json, math, os, struct, subprocess, sys
cohort, text, out, ctx, stride, bos = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]), sys.argv[6] == "bos"
ids = [int(t) for t in subprocess.check_output([cohort, "tokenize", "-no-bos", "-f", text]).split()]
room = ctx - 1 if bos else ctx
step = min(stride, room)
costs, done, begin = [], 0, 0
while True:
    end = min(begin + room, len(ids))
    window = ([1] if bos else []) + ids[begin:end]
    open(out + ".ids", "w").write(" ".join(map(str, window)))
    subprocess.check_call([cohort, "logits", "--tokens", out + ".ids", "-o", out + ".f32"])
    raw = open(out + ".f32", "rb").read()
    n_vocab = len(raw) // 4 // len(window)
    for row in range(len(window) - 1):
        token = begin + row + (0 if bos else 1)
        if token < done:
            continue
        x = struct.unpack_from("<%df" % n_vocab, raw, 4 * n_vocab * row)
        best = max(x)
        costs.append(best + math.log(math.fsum(math.exp(v - best) for v in x)) - x[ids[token]])
    done = end
    if end == len(ids):
        break
    begin += step
got = json.load(open(out))
mean = math.fsum(costs) / len(costs)
se = math.sqrt(math.fsum((c - mean) ** 2 for c in costs) / (len(costs) - 1) / len(costs))
want = {"ppl": math.exp(mean), "ppl_error": math.exp(mean) * se, "nll": math.fsum(costs), "bits_per_token": mean / math.log(2)}
assert got["counted"] == len(costs), (got["counted"], len(costs))
for k, v in want.items():
    assert abs(got[k] - v) <= 1e-9 * abs(v), (k, got[k], v)
if got["counted"] == len(ids):
    per_byte = math.fsum(costs) / math.log(2) / os.path.getsize(text)
    assert abs(got["bits_per_byte"] - per_byte) < 1e-9, (got["bits_per_byte"], per_byte)
PY
number() { # NAME CTX STRIDE BOS ARGUMENT...
	what=$1 ctx=$2 stride=$3 bos=$4
	shift 4
	ppl -ctx "$ctx" -stride "$stride" -output-format json "$@"
	keep out got.json
	[ "$rc" = 0 ] && empty err && python3 "$tmp/check.py" "$bin/cohort" "$tmp/text" "$tmp/got.json" "$ctx" "$stride" "$bos" 2>"$tmp/err"
	verdict "the number: $what"
}
number 'windows that overlap by half' 32 16 bos
number 'windows that stand alone' 32 32 bos
number 'an odd stride' 40 7 bos
number 'one window' 512 256 bos
number 'no begin token' 32 16 none -no-bos
number 'no begin token, windows that stand alone' 32 32 none -no-bos
number 'windows of two tokens' 2 1 bos

# ---- The same bits ----

ppl -ctx 32 -per-window -output-format jsonl -np 1 -threads 1
[ "$rc" = 0 ] && empty err
keep out want
n_windows=$(($(wc -l <"$tmp/want") - 1))
[ "$n_windows" -gt 4 ]
verdict 'a line for each window and one for all'
alike() { # NAME ARGUMENT...
	what=$1
	shift
	ppl -ctx 32 -per-window -output-format jsonl "$@"
	[ "$rc" = 0 ] && same out want
	verdict "the same bits: $what"
}
alike 'as many windows as fit'
alike 'three windows at once' -np 3
alike 'more windows at once than there are' -np 4096
alike 'one row at a time' -batch 1 -np 1
alike 'seven rows at a time, three windows' -batch 7 -np 3
alike 'two threads' -threads 2
alike 'five threads' -threads 5 -np 2
alike 'the reference level' -isa ref
alike 'the weights as the file has them' -file-layout

# ---- Formats ----

ppl -ctx 32
[ "$rc" = 0 ] && empty err && matches out '^PPL = [0-9]+\.[0-9]{4} \+/- [0-9]+\.[0-9]{4}$' &&
	matches out '^[0-9]+ of [0-9]+ tokens counted, [0-9]+ bytes; [0-9]+ windows of 32, stride 16$' &&
	matches out '^[0-9.]+ bits per token, [0-9.]+ bits per byte$' && [ "$(wc -l <"$tmp/out")" = 3 ]
verdict 'text'
ppl -ctx 32 -per-window
[ "$rc" = 0 ] && [ "$(wc -l <"$tmp/out")" = $((n_windows + 3)) ] &&
	matches out '^window 2: tokens 16 to 46, 16 counted, PPL = [0-9.]+, so far [0-9.]+$'
verdict 'text of each window'
ppl -ctx 32 -per-window -output-format json
[ "$rc" = 0 ] && python3 -c '
import json, sys
d = json.load(open(sys.argv[1])); w = d["per_window"]; l = [json.loads(x) for x in open(sys.argv[2])]
assert len(w) == d["windows"] == len(l) - 1 and w == l[:-1] and d["complete"]
assert sum(x["counted"] for x in w) == d["counted"] == d["tokens"] and w[-1]["ppl_so_far"] == d["ppl"] == l[-1]["ppl"]
' "$tmp/out" "$tmp/want" 2>"$tmp/err"
verdict 'json and jsonl say the same'
from_stdin() { "$bin/cohort" perplexity -f - -ctx 32 -per-window -output-format jsonl <"$tmp/text"; }
run from_stdin
[ "$rc" = 0 ] && same out want
verdict 'standard input'
ppl -ctx 32 -per-window -output-format jsonl -output "$tmp/file"
[ "$rc" = 0 ] && empty out && same file want
verdict '-output'
printf Once >"$tmp/short"
run cohort perplexity -f "$tmp/short" -output-format json
[ "$rc" = 0 ] && has out '"counted": 1,' && has out '"ppl_error": null'
verdict 'one token has no error'
head -c 3000 "$model" >"$tmp/binary"
run cohort perplexity -f "$tmp/binary" -output-format json -ctx 256
[ "$rc" = 0 ] && has out '"bytes": 3000'
verdict 'bytes that are no text'

# ---- What it refuses ----

refuse() { # CODE NAME TEXT ARGUMENT...
	code=$1
	what=$2
	text=$3
	shift 3
	run cohort perplexity "$@"
	refused "$code" "$text"
	verdict "refused: $what"
}
refuse 2 'no file' 'give a text with -f FILE'
refuse 2 'a stride above the window' 'would leave out tokens' -f "$tmp/text" -ctx 32 -stride 33
refuse 2 'a stride above the default window' 'would leave out tokens' -f "$tmp/text" -stride 513
refuse 2 'a window above the model' 'windows of 2 to 1024' -f "$tmp/text" -ctx 1025
refuse 2 'a window of one' 'whole number' -f "$tmp/text" -ctx 1
refuse 2 'a stride of nothing' 'whole number' -f "$tmp/text" -stride 0
refuse 2 'an unknown format' "format 'xml' is not known" -f "$tmp/text" -output-format xml
refuse 2 'an operand' "unexpected argument 'x'" -f "$tmp/text" x
refuse 4 'a file that is not there' 'No such file' -f "$tmp/none"
refuse 3 'a model that is not there' 'cannot use the model' -m "$tmp/none" -f "$tmp/text"
: >"$tmp/empty"
refuse 1 'an empty text' 'nothing to predict' -f "$tmp/empty"
refuse 1 'one token without a begin token' 'nothing to predict' -f "$tmp/short" -no-bos
refuse 4 'a place that cannot be written' "$tmp/no/x" -f "$tmp/text" -output "$tmp/no/x"
if [ -w /dev/full ]; then
	full() { "$bin/cohort" perplexity -f "$tmp/text" >/dev/full; }
	run full
	[ "$rc" = 4 ] && has err 'No space left'
	verdict 'a full disk'
fi

# ---- Interruption, and the terminal ----

for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30; do cat "$tmp/text"; done >"$tmp/long"
cat >"$tmp/on_tty.py" <<'PY'
"""Runs a command with a terminal on standard error; sends SIGINT when a line shows up there that matches."""
import os, pty, re, signal, subprocess, sys, time
master, slave = pty.openpty()
p = subprocess.Popen(sys.argv[3:], stdin=subprocess.DEVNULL, stdout=open(sys.argv[1], "wb"), stderr=slave)
os.close(slave)
seen, sent = b"", False
while True:
    try:
        data = os.read(master, 4096)
    except OSError:
        break
    if not data:
        break
    seen += data
    if not sent and re.search(sys.argv[2].encode(), seen):
        p.send_signal(signal.SIGINT)
        sent = True
sys.stderr.buffer.write(seen)
code = p.wait()
sys.exit(code if code >= 0 else 128 - code)
PY
run python3 "$tmp/on_tty.py" "$tmp/result" 'window [1-9][0-9]* of [0-9]+, [0-9]+ tokens/s, [0-9]+ s left, PPL [0-9.]+' \
	"$bin/cohort" perplexity -f "$tmp/long" -ctx 64 -stride 1 -np 2 -threads 1
[ "$rc" = 130 ] && has err 'interrupted after' && matches result '^PPL = ' && matches result '^interrupted after [0-9]+ of [0-9]+ windows$'
verdict 'progress on a terminal; Ctrl-C gives what there is, and 130'

run cohort perplexity --help
[ "$rc" = 0 ] && empty err && has out 'cohort perplexity -f -' && has out -per-window
verdict 'help'
example() { echo "Once upon a time there was a little girl." | "$bin/cohort" perplexity -f - -ctx 8 -per-window; }
run example
[ "$rc" = 0 ] && matches out '^PPL = '
verdict 'the example of the help'
