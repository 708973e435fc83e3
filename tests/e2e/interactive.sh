#!/bin/sh
# batched -interactive: by a script of commands, and on a pseudo-terminal.
#
# Seen red with: a refused :set that leaves its value; :again with a fixed seed that goes on; :more that forgets the
# prompt; a refused prompt that replaces the last one; a Ctrl-C that ends the program; a history that others can read.
# shellcheck source=tests/e2e/talk_lib.sh
. "$(dirname "$0")/talk_lib.sh"
unset COHORT_SEED # a seed that was given stays

script() { say batched -interactive "$@"; }

# ---- The same texts as batched ----

lines 'Once upon a time\n'
script -np 3 -n 12 -seed 4
keep out typed
run batched -p 'Once upon a time' -np 3 -n 12 -seed 4
[ "$rc" = 0 ] && sequences 3 'Once upon a time' && same out typed
verdict 'a prompt from a pipe: the bytes that batched gives'
lines 'Once upon a time'
script -np 3 -n 12 -seed 4
[ "$rc" = 0 ] && same out typed
verdict 'a last line without an end is a line'
lines 'The cat\r\n\n   \n:quit\nnever read\n'
script -np 2 -n 6
keep out typed
run batched -p 'The cat' -np 2 -n 6
[ "$rc" = 0 ] && same out typed
verdict 'line ends of other systems, empty lines, :quit'
lines '::-) he said\n'
script -np 1 -n 4
[ "$rc" = 0 ] && sequences 1 ':-) he said'
verdict 'two colons: a prompt that begins with one'
: >"$tmp/in"
script -p 'Once upon a time' -np 2 -n 6
[ "$rc" = 0 ] && sequences 2 'Once upon a time'
verdict '-prompt is the first one'
lines ':set n-parallel 2\n:set n-predict 9\n:set temperature 1.3\n:set top-k 7\n:set seed 11\nThe cat\n'
script
keep out typed
run batched -p 'The cat' -np 2 -n 9 -temperature 1.3 -top-k 7 -seed 11
[ "$rc" = 0 ] && same out typed
verdict ':set is the option of the same name'

# ---- :again, :more ----

lines 'The cat\n:again\n:again\n'
script -np 1 -n 8
keep out typed
for s in 0 1 2; do
	run batched -p 'The cat' -np 1 -n 8 -seed $s
	cat "$tmp/out"
done >"$tmp/want"
[ "$rc" = 0 ] && same typed want
verdict ':again: the next seed each time'
lines 'The cat\n:again\n'
script -np 1 -n 8 -seed 5
[ "$rc" = 0 ] && has err 'again with seed 5, which is fixed' && [ "$(sequence 0 out | sort | uniq -c | awk '$1 != 2 && NF > 1')" = "" ]
verdict ':again with a fixed seed: the same'
lines 'The cat\n:set seed 9\n:again\n:set seed default\n:again\n'
script -np 1 -n 8
[ "$rc" = 0 ] && has err 'again with seed 9, which is fixed' && matches err '^again with seed 1$'
verdict ':set seed fixes it, and default lets it go'
lines 'Once upon a time\n:more 1\n:show\n'
script -np 2 -n 8 -temp 0
awk '/^Sequence 0:$/ { k++ } k == 2' "$tmp/out" >"$tmp/second"
awk '/^Sequence 0:$/ { k++ } k == 3' "$tmp/out" >"$tmp/third"
run batched -p 'Once upon a time' -np 2 -n 16 -temp 0
[ "$rc" = 0 ] && same out second && same out third
verdict ':more goes on as if it had not stopped; :show shows it'
lines 'Once upon a time there was a little girl who lived in a small house near the sea with her old father and a dog\n:more 0\n'
script -np 1 -n 30 -temp 0
[ "$rc" = 0 ] && awk '/reused$/ { n = $(NF - 1); p = $(NF - 3) } END { exit !(n > 40 && p - n < 3) }' "$tmp/err"
verdict ':more computes only what is new'

# ---- Favourites and files ----

lines 'The cat\n:keep 1 0\n:again\n:keep 1\n:drop 1\n:kept\n:save %s\n' "$tmp/saved.txt"
script -np 2 -n 6
[ "$rc" = 0 ] && [ "$(grep -c '^Kept [01] (sequence 1 of seed [01]):$' "$tmp/out")" = 2 ] &&
	[ "$(grep -c '^Sequence 1 of seed [01]:$' "$tmp/saved.txt")" = 2 ] && grep -q '^The cat' "$tmp/saved.txt"
verdict ':keep, :kept, :drop, :save'
lines 'The cat\n:save %s\n' "$tmp/all.txt"
script -np 3 -n 6
[ "$rc" = 0 ] && [ "$(grep -c '^Sequence [0-2] of seed 0:$' "$tmp/all.txt")" = 3 ]
verdict ':save without favourites: all of them'
lines 'The cat\n:set seed 9\n:save %s\n:save %s\n' "$tmp/all.json" "$tmp/all.html"
script -np 2 -n 6 -seed 3
[ "$rc" = 0 ] && python3 -c '
import json, sys
t = json.load(open(sys.argv[1]))
s = json.dumps(t)
assert "The cat" in s and "logprob" in s, s
' "$tmp/all.json" 2>/dev/null && matches all.json '"seed": *3[,}]' && grep -q '<html' "$tmp/all.html"
verdict ':save by suffix: as -output writes it, with the settings of the run'
# Favourites of three runs, two of them of one prompt. Shown red by taking the settings of the last run for all of them, and
# by numbering the sequences anew.
lines 'The cat\n:keep 1 0\n:set temperature 1.5\n:again\n:keep 1\nThe dog\n:keep 0\n:kept\n:set seed 9\n:save %s\n:save %s\n:save %s\n:save %s\n:save %s\n' \
	"$tmp/f.json" "$tmp/f.jsonl" "$tmp/f.CSV" "$tmp/f.md" "$tmp/f.html"
script -np 2 -n 6
[ "$rc" = 0 ] && has err '4 sequences written to' && has f.md 'temperature: 1.5. seed: 1.' && has f.html '<h1>4 favourites</h1>' && has f.html 'sequences 1 0, temperature 0.8, seed 0'
verdict ':save of favourites as Markdown and HTML: each with the settings of its run'
if command -v python3 >/dev/null; then
	python3 - "$tmp" >"$tmp/err" 2>&1 <<'EOF'
import csv, json, sys
dir = sys.argv[1]
d = json.load(open(dir + "/f.json"))
kept = open(dir + "/out").read().split("Kept 0 (")[1]
assert d["sampling"]["temperature"] is None and d["sampling"]["seed"] is None and d["sampling"]["top_k"] == 40, d["sampling"]
assert [p["text"] for p in d["prompts"]] == ["The cat", "The cat", "The dog"]
assert [p["settings"] for p in d["prompts"]] == [{"sequences": "1 0", "temperature": 0.8, "seed": 0},
    {"sequences": "1", "temperature": 1.5, "seed": 1}, {"sequences": "0", "temperature": 1.5, "seed": 1}], d["prompts"]
texts = [p["text"] + s["text"] for p in d["prompts"] for s in p["sequences"]]
assert len(texts) == 4 and all(t in kept for t in texts), texts
assert all(len(s["logprobs"]) == len(s["tokens"]) > 0 for p in d["prompts"] for s in p["sequences"])
assert d["statistics"]["prompts"] == 3 and d["statistics"]["generated_tokens"] == 36, d["statistics"]
lines = [json.loads(l) for l in open(dir + "/f.jsonl")]
assert [l["prompt"] + 0 for l in lines if l["type"] == "sequence"] == [0, 0, 1, 2]
assert [l["settings"] for l in lines if l["type"] == "prompt"] == [p["settings"] for p in d["prompts"]]
rows = list(csv.DictReader(open(dir + "/f.CSV", newline="")))
assert [(r["sampling_temperature"], r["sampling_seed"], r["run_sequences"]) for r in rows] == \
    [("0.8", "0", "1 0")] * 2 + [("1.5", "1", "1"), ("1.5", "1", "0")], rows
assert [r["prompt"] + r["text"].removeprefix("'") for r in rows] == texts
EOF
	verdict ':save of favourites as JSON, lines and CSV: texts, numbers and settings of their runs'
else
	skip ':save of favourites as JSON, lines and CSV' 'no python3'
fi
lines 'The cat\n:keep 0\n:save %s\n:save %s\n' "$tmp/f.pdf" "$tmp/plain"
script -np 2 -n 3
[ "$rc" = 2 ] && has err "f.pdf': the suffix says the format" && [ ! -e "$tmp/f.pdf" ] && grep -q '^Sequence 0 of seed 0:$' "$tmp/plain" && has err '1 sequence written'
verdict ':save: an unknown suffix is refused, a name without one is a text'
lines 'Once upon a time\n'
script -np 3 -n 12 -compare -width 100
keep out typed
run batched -p 'Once upon a time' -np 3 -n 12 -compare -width 100
[ "$rc" = 0 ] && ! empty out && same out typed
verdict '-compare: as batched shows it'
lines 'The cat\n:save %s/none/file\n:save\n:kept\n' "$tmp"
script -np 1 -n 3
[ "$rc" = 4 ] && has err "$tmp/none/file" && has err "expects the name of a file" && has err 'nothing is kept'
verdict ':save to a place that is not there: said, exit code 4'

# ---- What is wrong is said, and the session goes on ----

lines ':set temperature 300\n:set temperature\nThe cat\n'
script -np 1 -n 3
keep err wrong
run batched -temperature 300
head -n 1 "$tmp/err" >"$tmp/a" && grep -F 'got' "$tmp/wrong" >"$tmp/b" && same a b && matches wrong '^  temperature +0.8$'
verdict ':set out of range: the words of the command line, and the old value stays'
lines ':set temperature 300\nThe cat\n'
script -np 1 -n 3
[ "$rc" = 2 ] && sequences 1 'The cat'
verdict 'a failed command in a pipe: exit code 2, the rest is done'
lines 'The\n'
script -np 1 -n 1
[ "$rc" = 0 ] && has err '1 token in ' && has err 'prompt of 2 tokens,'
verdict 'one token is said as one'
lines ':set seed x\n:set seed\n'
script
[ "$rc" = 2 ] && matches err '^  seed +0$'
verdict ':set of a seed that is no number: the old one stays'
lines ':set grammar root ::= \n:set grammar root ::= "yes" | "no"\nYes or no?\n:set grammar default\n:set json-schema {}\n:set grammar root ::= "a"\n:set\n'
script -np 4 -n 5
[ "$rc" = 2 ] && [ "$(grep -cE '^Yes or no\?(yes|no)$' "$tmp/out")" = 4 ] && matches err '^  grammar +\(not set\)$' && matches err '^  samplers +\(default\)$' && matches err '^  dry-sequence-breaker \(default\)$' &&
	matches err '^  json-schema +\{\}$'
verdict ':set grammar: taken, refused and taken back'
lines ':set ctx 1\n:set nonsense 1\n:set tempratur 1\n:nonsense\n:agian\n:k\n:more\n:keep\n:again\n:drop 0\n:show\n: \n'
script
[ "$rc" = 2 ] && empty out && has err "cannot be changed while running" && has err "unknown option 'nonsense'" && has err "did you mean 'temperature'?" && has err "Try ':set'" &&
	has err "did you mean ':again'?" && has err 'beginning of several' && [ "$(grep -c 'there is no prompt yet' "$tmp/err")" = 4 ]
verdict 'unknown names, ambiguous ones, nothing to work on'
lines 'The cat\n:more 4\n:keep 1 x\n:kept\n:more -1\n'
script -np 2 -n 3
[ "$rc" = 2 ] && has err 'sequences are 0 to 1' && has err 'nothing is kept'
verdict 'sequences that are not there'
awk 'BEGIN { print "The cat"; for (i = 0; i < 500000; i++) printf "a "; print ""; print ":show" }' >"$tmp/in"
script -np 1 -n 3
[ "$rc" = 2 ] && has err 'tokens, the model was trained for 1024' && [ "$(grep -c '^The cat' "$tmp/out")" = 2 ]
verdict 'a prompt of a megabyte: refused with both numbers, the last one stays'
lines ':set n-parallel 4000\nThe cat\n:set n-parallel 1\nThe cat\n'
script -n 3
[ "$rc" = 2 ] && has err '4000 blocks of 32 tokens and there are 128; use -n-parallel 128 ' && sequences 1 'The cat'
verdict 'more sequences than fit: refused, with how many would'
lines 'a\0b\377c\n:set \0 1\n'
script -np 1 -n 3
[ "$rc" = 2 ] && has err 'NUL byte' && head -c 12 "$tmp/out" | grep -q 'Sequence 0'
verdict 'bytes that are no text'
head -c 17000000 /dev/zero | tr '\0' 'x' >"$tmp/in"
printf '\nThe cat\n' >>"$tmp/in"
script -np 1 -n 3
[ "$rc" = 2 ] && has err 'more than 16777216 bytes' && sequences 1 'The cat'
verdict 'a line without an end in sight: left out'
{
	head -c 16777216 /dev/zero | tr '\0' x
	printf '\n'
} >"$tmp/in"
script -np 1 -n 3
[ "$rc" != 0 ] && has err 'tokens' && ! has err 'more than 16777216 bytes'
verdict 'a line of 16 MiB is a prompt'
script -prompts x
refused 2 'goes without -prompts'
verdict '-interactive with -prompts: refused'
script -output "$tmp/x.json"
refused 2 'goes without -prompts and -output'
verdict '-interactive with -output: refused'
: >"$tmp/in"
script
[ "$rc" = 0 ] && empty out
verdict 'no lines at all'
lines ':help\n'
script
[ "$rc" = 0 ] && empty out && has err ':more N' && has err ':quit'
verdict ':help goes to standard error'
rc=0
printf 'The cat\n' | "$bin/batched" -interactive -np 1 -n 3 >/dev/full 2>"$tmp/err" || rc=$?
[ "$rc" = 4 ] && has err 'cannot write to standard output'
verdict 'a full disk: exit code 4'
lines 'The cat\n'
HOME=/nonexistent script -np 1 -n 3
[ "$rc" = 0 ] && [ ! -e "$HOME/.local" ]
verdict 'from a pipe there is no history'

# ---- On a terminal ----

if ! python3 -c 'import pty' 2>/dev/null; then
	skip 'terminal' 'no python3 with pty'
	exit 0
fi

talk "$bin/batched" -interactive -np 2 -n 6 <<'EOF'
expect >
send Once upon a time
expect Sequence 1:
expect Once upon a time
expect reused
expect >
send :set temperature 400
expect from 0 to 100, got '400'
expect >
type \x04
end 0
EOF
[ "$rc" = 0 ]
verdict 'terminal: a prompt, an error, Ctrl-D; exit code 0'

talk "$bin/batched" -interactive -np 1 -n 4 <<'EOF'
expect >
type The dog x
sleep 0.3
type \x03
expect ^C
expect Ctrl-C again or Ctrl-D ends
send The cat
expect Sequence 0:
expect The cat
expect reused
expect >
type \x03
expect ^C
sleep 0.3
type \x03
end 130
EOF
[ "$rc" = 0 ] && ! grep -q '^The dog x' "$tmp/out"
verdict 'terminal: Ctrl-C clears the line, a second one ends'

talk "$bin/batched" -interactive -np 4 -n 900 -c 8192 -ignore-eos --isa ref -t 1 <<'EOF'
expect >
send Once upon a time
sleep 1
type \x03
expect Sequence 3:
expect interrupted; the sequences are what there was until then
expect >
send :set n-predict 3
send The cat
expect Sequence 0:
expect The cat
expect reused
expect >
type \x04
end 0
EOF
[ "$rc" = 0 ]
verdict 'terminal: Ctrl-C stops the generation, and the session goes on'

talk "$bin/batched" -interactive -np 1 -n 4 <<'EOF'
expect >
signal TERM
end 130
EOF
[ "$rc" = 0 ]
verdict 'terminal: SIGTERM ends at the prompt'

talk "$bin/batched" -interactive -np 1 -n 4 <<'EOF'
expect >
type :se\ttemperat\t0.25\r
expect >
type :set t\t
expect top-k
expect typical
type op-k 3\r
send :set top-k
expect top-k                3
send :set temperature
expect temperature          0.25
expect >
type \x04
end 0
EOF
[ "$rc" = 0 ]
verdict 'terminal: Tab completes commands and names, and lists them'

rm -rf "$HOME/.local"
talk "$bin/batched" -interactive -np 1 -n 4 <<'EOF'
expect >
send Grüße an 世界 und ñandú
expect Sequence 0:
expect Grüße an 世界 und ñandú
expect reused
expect >
type a\x1b[D\x1b[Dü\xe4\xb8\x96\x7f\x1b[Fb\r
expect Sequence 0:
expect üab
expect reused
expect >
type x\xffy\r
expect Sequence 0:
expect x�y
expect reused
expect >
size 10 20
type Once upon a time there was a very long line that wraps
sleep 0.2
size 30 100
type  around\r
expect Sequence 0:
expect Once upon a time there was a very long line that wraps around
expect reused
expect >
type \x04
end 0
EOF
[ "$rc" = 0 ]
verdict 'terminal: UTF-8, wide characters, editing, bytes that are none, another size'
talk "$bin/batched" -interactive -no-history -np 1 -n 2 -p "$(printf 'a\033[31mred')" <<'EOF'
expect a^[[31mred
expect >
send :keep 0
expect 1 kept
send :kept
expect Kept 0
expect a^[[31mred
type \x04
end 0
EOF
[ "$rc" = 0 ]
verdict 'terminal: no control characters from what is kept'
hist=$HOME/.local/state/cohort/batched_history
[ "$(wc -l <"$hist")" = 4 ] && [ "$(find "$hist" -perm 600)" = "$hist" ] && [ "$(find "$HOME/.local/state/cohort" -maxdepth 0 -perm 700)" != "" ]
verdict 'the history is kept, for its owner alone'

talk "$bin/batched" -interactive -np 1 -n 4 <<'EOF'
expect >
type \x1b[A\x1b[A\x1b[A\x1b[A\r
expect Sequence 0:
expect Grüße an 世界 und ñandú
expect reused
expect >
type \x04
end 0
EOF
[ "$rc" = 0 ]
verdict 'the history is there the next time'

XDG_STATE_HOME=$tmp/state talk "$bin/batched" -interactive -np 1 -n 4 <<'EOF'
expect >
send The cat
expect reused
expect >
type \x04
end 0
EOF
[ "$rc" = 0 ] && [ "$(cat "$tmp/state/cohort/batched_history")" = 'The cat' ]
verdict 'XDG_STATE_HOME says where'
rm -rf "$HOME/.local"
talk "$bin/batched" -interactive -no-history -np 1 -n 4 <<'EOF'
expect >
send The cat
expect reused
expect >
type \x04
end 0
EOF
[ "$rc" = 0 ] && [ ! -e "$HOME/.local" ]
verdict '-no-history keeps none'
XDG_STATE_HOME=/proc/none talk "$bin/batched" -interactive -np 1 -n 4 <<'EOF'
expect >
send The cat
expect reused
expect >
type \x1b[A\r
expect Sequence 0:
expect reused
expect >
type \x04
end 0
EOF
[ "$rc" = 0 ] && ! has out 'history'
verdict 'a history that cannot be written: none, without a word'

talk "$bin/batched" -interactive -np 1 -n 4 -no-history <<'EOF'
expect >
big 20000 x
type \r
expect tokens, the model was trained for 1024
send The cat
expect Sequence 0:
expect reused
expect >
type \x04
end 0
EOF
[ "$rc" = 0 ]
verdict 'terminal: a very long line'

talk -k "$bin/batched" -interactive -np 1 -n 4 <<'EOF'
type The cat\n
expect Sequence 0:
expect The cat
sleep 0.3
type \x04
end 0
EOF
[ "$rc" = 0 ]
verdict 'a terminal without standard error: plain lines'

talk "$bin/batched" -interactive -np 1 -n 4 -no-history <<'EOF'
expect >
type abc
sleep 0.3
signal STOP
stopped
signal CONT
sleep 0.3
type def\r
expect Sequence 0:
expect abcdef
expect reused
expect >
type \x04
end 0
EOF
[ "$rc" = 0 ]
verdict 'terminal: stopped and continued'
