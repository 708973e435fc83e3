#!/bin/sh
# What programs print and write, to the letter: the reports, tables, files and messages of tests/golden/data/printed, but
# for times, speeds, levels, versions and paths. Other tests know what has to be so; this one sees what has changed.
# PRINTED_TO names a folder for the new ones: PRINTED_TO=tests/golden/data/printed after a change that is meant.
#
# Seen red with: a backslash before letters (-output x.md), a '<' that is written twice (-output x.html), the logarithm of a
# token's probability without a comma (-output x.csv), a flag of a model that is printed as a text (info -json), one node
# left out (tree -format svg), a guess that is longer than it may be (speculate -draft-max 1), names without commas between
# them (simulate -strategy none).
# shellcheck source=tests/e2e/talk_lib.sh
. "$(dirname "$0")/talk_lib.sh"
LC_ALL=C
COHORT_THREADS=1
export COHORT_THREADS
want=$COHORT_SOURCE/tests/golden/data/printed
cd "$tmp" || exit 1
ln -s "$model" tiny.gguf
lines '\n'

# steady FILE: without what differs from run to run and from machine to machine.
steady() {
	sed -E -e "s#$bin#BUILD#g" -e "s#$tmp#TMP#g" -e "s#$COHORT_SOURCE#SOURCE#g" -e 's/[0-9]+\.[0-9]+\.[0-9]+/VERSION/g' -e 's/\b(ref|avx2|avx512|amx|neon)\b/LEVEL/g' \
		-e 's/[0-9.]+ (s|ms|seconds|tokens\/s|tokens\/second|lines\/s|MB\/s|GB\/s|t\/s)\b/N \1/g' -e 's/(seconds|per[-_]second)("?[:|,]*"?[ |]*)[0-9.e-]+/\1\2N/g' \
		-e 's/(seconds|per-second)(<\/td><td>)[0-9.e-]+/\1\2N/g' -e 's/"(created|started|mtime|wall_s|tick_wall_s)": ?[0-9.]+/"\1": N/g' \
		-e 's/([0-9]\.[0-9]{6})[0-9]+/\1/g' "$1"
}
# prints NAME PROGRAM ARGUMENT...: with the lines of $tmp/in. What it wrote to FILES, too.
files=
prints() {
	name=$1
	shift
	say "$@"
	{
		echo "exit code $rc"
		for f in out err $files; do
			[ ! -s "$f" ] || { echo "---- $f" && steady "$f"; }
		done
	} >got 2>/dev/null
	[ -z "${PRINTED_TO:-}" ] || cp got "$PRINTED_TO/$name.txt"
	diff "$want/$name.txt" got >changed 2>&1
	same=$?
	[ $same = 0 ] || sed 's/^/# /' changed | head -n 20
	[ $same = 0 ]
	verdict "$name: as it was"
}
# table NAME: the same of many command lines, one on each line of standard input, as the shell reads them; what they said goes
# into one file. A line that begins with a $ is a command of the shell alone.
table() {
	name=$1
	n=0
	: >raw
	while IFS= read -r line; do
		case $line in
		'$ '*) eval "${line#??}" ;;
		*)
			n=$((n + 1))
			eval "say $line"
			{
				echo "==== $line" && echo "exit code $rc"
				for f in out err; do
					[ ! -s "$f" ] || { echo "---- $f" && cat "$f"; }
				done
			} >>raw
			;;
		esac
	done
	steady raw >got
	[ -z "${PRINTED_TO:-}" ] || cp got "$PRINTED_TO/$name.txt"
	diff -U 3 "$want/$name.txt" got >changed 2>&1
	same=$?
	[ $same = 0 ] || sed 's/^/# /' changed | head -n 20
	ran="the $n lines of $name"
	[ $same = 0 ]
	verdict "$name: $n command lines, as it was"
}
set -- -seed 5 -threads 1 # of any level: the same bits

# ---- Texts ----

printf 'Once upon a time\nThe cat\n' >prompts
prints run-verbose cohort run "$@" -n 6 -np 2 -prompts prompts -verbose
prints run-prompt cohort run "$@" -n 6 -show-prompt 'The cat' 'A dog'
prints run-logprobs cohort run "$@" -n 3 -logprobs 3 'The cat'
prints run-grammar cohort run "$@" -n 8 -grammar 'root ::= "yes" | "no"' -logprobs 2 -v 'Is it so?'
prints run-beams cohort run "$@" -n 6 -beams 4 -np 3 -v 'The cat'
prints run-beam-groups cohort run "$@" -n 6 -beams 4 -beam-groups 2 -diversity 2 -np 4 -v 'The cat'
prints run-too-long cohort run "$@" -v -c 32 'The cat' "$(seq -s ' ' 1 100)"
prints run-stop cohort run "$@" -n 30 -stop ' the' -stop . -v 'Once upon a time' 'The cat'
prints run-schema cohort run "$@" -n 30 -json-schema '{"type":"object","properties":{"a":{"type":"integer","minimum":3,"maximum":12},"b":{"type":"array","items":{"enum":["x","y"]},"minItems":2,"maxItems":3}},"required":["a","b"]}' -temp 0.3 'Data: '
prints run-penalties cohort run "$@" -n 24 -repeat-penalty 1.3 -presence-penalty 0.4 -frequency-penalty 0.2 -dry-multiplier 1 -logit-bias 312-inf -logprobs 1 -v 'The cat and the cat and the'
prints run-stages cohort run "$@" -n 24 -mirostat 2 -temp 1.2 -v 'The cat'
prints run-chain cohort run "$@" -n 24 -samplers 'typical;xtc;temperature;top_n_sigma' -typical 0.8 -xtc-probability 0.5 -top-n-sigma 2 -dynatemp-range 0.4 -logprobs 1 -v 'The cat'
prints run-vote cohort run "$@" -n 6 -best-of 5 -vote '[a-z]+' -v 'The cat sat on the'
prints run-vote-one cohort run "$@" -n 8 -best-of 3 -vote 'yes|no' -grammar 'root ::= "yes"' -v 'Is it so?'
prints run-best cohort run "$@" -n 6 -best-of 3 -v 'The cat'
prints batched batched "$@" -p 'The cat' -np 3 -n 8
prints batched-prompts batched "$@" -prompts prompts -np 2 -n 5
prints batched-compare batched "$@" -p 'The cat' -np 4 -n 16 -temp 0.5 -compare -width 72
for s in txt md json jsonl csv html; do
	files=o.$s prints "export-$s" batched "$@" -p 'A *dog* & <cat>' -np 3 -n 6 -temp 0.5 -output o.$s
done
prints tree cohort tree 'The cat' -d 3 -k 2
prints tree-json cohort tree 'The cat' -d 2 -k 2 -format json
prints tree-cut cohort tree 'The cat' -d 3 -k 4 -nodes 7
prints tree-none cohort tree 'The cat' -min-prob 0.9
prints tree-svg cohort tree 'The <cat>' -d 2 -k 2 -format svg
prints speculate-compare cohort speculate "$@" 'Once upon a time there was a cat. Once upon a time there was a' -n 12 -temp 0 -compare -v
prints speculate-draft-one cohort speculate "$@" 'Once upon a time' -n 9 -draft tiny.gguf -draft-max 1 -v
prints speculate-draft cohort speculate "$@" 'Once upon a time' -n 12 -np 2 -draft tiny.gguf -v

# ---- Talks ----

lines 'The cat\n:keep 1 0\n:again\n:keep 1\n:more 0\n:kept\n:drop 0\n:drop 7\n:set\n:set top-k 3\n:set top-k\n:set top-k default\n:set temperature 300\n:set ctx 1\n:more 9\n:again\n:nonsense\n:k\n:save kept.md\n:save x.pdf\n:help\n:show\n'
files=kept.md prints interactive batched "$@" -interactive -np 2 -n 5
lines ':show\nThe\n:keep all\n:set n-parallel 3\n:set logit-bias 312-inf\n:set logit-bias\n:set dry-sequence-breaker x\n:set dry-sequence-breaker\nThe cat\n:keep 2\n:keep 3\n:set ignore-eos on\n:set ignore-eos\n:set samplers top_k;heat\n:again\n:keep 0 0\n:more 2\n:kept\n:save kept.txt\n:save kept.csv\n:drop all\n:drop 0\n:save last.txt\n:save none/x.json\n'
files='kept.txt kept.csv last.txt' prints interactive-settings batched "$@" -interactive -np 1 -n 3
lines 'Hello\n:retry\n:system Be brief.\nWho are you?\n:history\n:save chat.json\n:undo\n:undo\n:undo\n:load chat.json\n:set top-k 3\n:set top-k\n:load none.json\n:nonsense\n:help\n'
files=chat.json prints chat cohort chat "$@" -n 4
lines 'Hello\n:branch 3\n:pick 1\n:pick 9\n:history\n:branch 1\n:stats\n:system\n:system none\n:system\n:pick\n:branch x\n:retry\n'
prints chat-branch cohort chat "$@" -n 4 -system 'Be brief.'
lines '\n'

# ---- Other commands ----

printf 'The cat sat on the mat. The dog ran after the cat, and the cat ran away.\n' >text
for f in text json jsonl; do
	prints "perplexity-$f" cohort perplexity -f text -ctx 8 -per-window -output-format $f
done
prints perplexity-stride cohort perplexity -f text -ctx 8 -stride 3
for f in ids json pieces count; do
	prints "tokenize-$f" cohort tokenize -f prompts -lines -format $f
done
prints detokenize cohort detokenize 1 911 5 9
for f in text json jsonl; do
	prints "embed-$f" cohort embed -similarity -format $f 'a cat' 'a dog' 'rain in the night'
done
mkdir texts && cp text texts/a.txt && printf 'It rained all day.\n\nThe king rode his horse.\n' >texts/b.txt
prints retrieve-save cohort retrieve -dir texts -chunk-size 32 -save index
prints retrieve cohort retrieve -load index -top-k 3 'a cat' 'rain all day'
prints retrieve-text cohort retrieve -load index -top-k 2 -format text 'a cat' 'a king'
prints retrieve-jsonl cohort retrieve -load index -top-k 2 -format jsonl 'a king'
shape='n_vocab=300,n_embd=64,n_layer=1,n_head=4,n_ff=64'
prints synth cohort synth -s "$shape" -t q8_0 -o s.gguf
prints quantize cohort quantize -allow-requantize s.gguf q.gguf Q4_0
prints info cohort info -m q.gguf -tensors
prints info-json cohort info -m q.gguf -tensors -json
prints info-none cohort info -m none.gguf
printf '[{"role":"system","content":"Be brief."},{"role":"user","content":"Hi"},{"role":"assistant","content":"Yes?"},{"role":"user","content":"Go on."}]' >m.json
prints template cohort template -messages m.json
printf '{"custom_id":"a","method":"POST","url":"/v1/completions","body":{"prompt":"Tom","max_tokens":2,"seed":1}}\nnot JSON\n{"custom_id":"b","method":"POST","url":"/v1/none","body":{}}\n' >in.jsonl
files=jobs.out prints jobs cohort jobs in.jsonl -output jobs.out
printf '{"cohort_cost": 1, "about": "by hand", "prefill_rows": [0, 1, 64], "decode_rows": [0, 1, 8], "ms": [[0, 14, 42], [11, 15, 43], [74, 78, 106]]}' >cost.json
for k in bursts heavy-tail; do
	files="sim.json sim.csv" prints "simulate-$k" cohort simulate -cost cost.json -generate $k -requests 30 -clients 3 -slots 4 -share 20 -rate 40 -seed 3 -json sim.json -save-trace sim.csv
done
files=sim.svg drawn prints simulate-svg cohort simulate -cost cost.json -trace sim.csv -slots 2 -svg sim.svg
prints simulate-refused cohort simulate -cost cost.json -strategy none
prints bench-refused cohort bench -npp 4 -ntg 1 -npl 0
prints show-config cohort run -n 3 -temp 0.5 -stop x -show-config
prints bench-one cohort bench -npp 1 -ntg 1 -npl 1 -output-format none
prints quantize-dry cohort quantize -dry-run -allow-requantize s.gguf Q4_K_M
prints quantize-errors cohort quantize -allow-requantize -errors -pure -output-tensor-type Q8_0 s.gguf q2.gguf Q5_0
awk 'BEGIN { srand(1); for (i = 0; i < 60; i++) printf "Line %d of the story is about a cat, a dog and the number %d.\n%s", i, i * i, i % 7 ? "" : "\n" }' >texts/c.md
prints retrieve-chunks cohort retrieve -dir texts -chunk-size 64 -overlap 10 -chunk-separator '\n\n' -top-k 4 'the number 400' 'a horse'
prints retrieve-overlap cohort retrieve -dir texts/c.md -chunk-size 100 -top-k 2 -format jsonl 'the number 9'
prints detokenize-lines cohort detokenize -lines '1 911' '5 6 7'
prints detokenize-refused cohort detokenize 1 x
prints perplexity-refused cohort perplexity -f text -ctx 8 -stride 9
prints embed-refused cohort embed -format x a
prints help-topics cohort help nothing
for c in run speculate tree embed retrieve perplexity synth; do
	prints "none-$c" cohort $c
done
prints refused-option cohort run -tempratur 1
prints refused-value cohort run -temperature 300 x
prints refused-command cohort rum
prints refused-file cohort run -m none.gguf x

# ---- On a terminal ----

if python3 -c 'import pty' 2>/dev/null; then
	echo 'end 0' >steps
	for how in 'batched -no-live -np 3 -n 6 -temp 0.5 -compare' 'cohort run -np 2 -n 6 Tom' "cohort info -m tiny.gguf"; do
		# shellcheck disable=SC2086
		set -- $how
		prog=$bin/$1
		shift
		talk -k "$prog" "$@" <steps
		{ echo "==== $how" && echo "exit code $rc" && steady out; } >>terminal
	done
	cp terminal got
	[ -z "${PRINTED_TO:-}" ] || cp got "$PRINTED_TO/terminal.txt"
	diff -U 3 "$want/terminal.txt" got >changed 2>&1
	same=$?
	[ $same = 0 ] || sed 's/^/# /' changed | head -n 20
	[ $same = 0 ]
	verdict 'terminal: as it was'
else
	skip 'terminal: as it was' 'no python3 with pty'
fi

# ---- Many more, most of them refused ----

: >empty
long=$(seq -s ' ' 1 700)
export long
printf 'a\0b' >nul
lines 'Hello\n'
# patched FROM TO KEY OLD NEW: a copy in which the bytes OLD next behind KEY are NEW.
patched() {
	python3 -c 'import sys, ast
m, new, key, a, b = open(sys.argv[1], "rb").read(), *sys.argv[2:]
a, b = (ast.literal_eval("b\"%s\"" % x) for x in (a, b))
i = m.index(a, m.index(key.encode()))
open(new, "wb").write(m[:i] + b + m[i + len(a):])' "$@"
}
say cohort synth -s n_vocab=300,n_embd=64,n_layer=1,n_head=4,n_ff=64 -t q8_0 -o s300.gguf
table refused-texts <<'LINES'
cohort
cohort none.gguf
cohort run tiny.gguf x
batched -prompts empty
batched -prompts none
batched -prompts prompts -p x -np 1 -n 1 -grammar 'root ::= "a"'
batched -p "$long" -c 32
batched -p "$long" -c 4096 -n 1
batched -np 1 -n 40 -c 32
batched -np 8 -n 30 -c 64
batched -np 1 -n 27 -c 32 -grammar 'root ::= "a"'
batched -np 1 -n 5000 -c 8192 -grammar 'root ::= "a"'
batched -np 2 -n 3 -ignore-eos -v
batched -interactive -output x.txt
batched -interactive -prompts prompts
batched -output -
batched -output o.pdf
batched -output o.txt -output-format json
batched -output - -output-format x
batched -output - -output - -output-format txt
batched -compare -output - -output-format txt
batched -stream -output - -output-format txt
batched -prompts prompts -output prompts
batched -output none/o.txt -n 1
batched -p 'The cat' -np 2 -n 4 -output - -output-format csv -output o2.json
batched -p x -np 3 -n 2 -compare -grammar 'root ::= "a" | "b"' -temp 5
batched -grammar a -json-schema '{}'
batched -logit-bias x
batched -logit-bias 999999+1
batched -logit-bias 5+x
batched -samplers ''
batched -dry-multiplier 1 -dry-sequence-breaker ''
batched -c 31 -n 32 x
batched --n-predict
batched --n-predict=
batched -np 0 -np 4
batched -np 4097
batched -temp nan
batched -kv-type q5 -n 1
cohort run x -beams 4 -temp 1 -n 6
cohort run x -diversity 2
cohort run x -vote x
cohort run x -beams 4 -beam-groups 3
cohort run x -beams 2 -np 3
cohort run x -beams 2 -diversity 1
cohort run x -best-of 3 -np 2
cohort run x -beams 2 -best-of 2
cohort run x -beams 2 -n 0
cohort run x -best-of 2 -n 0
cohort run x -best-of 2 -vote '('
cohort run x -best-of 3 -n 2 -vote zzz
cohort run x -best-of 3 -n 8 -vote '[aeiou]{3}'
cohort run x -beams 4 -n 400 -c 64
cohort run x -n 0
cohort run '' -n 3
cohort run "$long" -n 1
cohort run "$long" -n 100 -c 8192 -grammar 'root ::= "a"'
cohort run x -n 5000 -c 8192 -grammar 'root ::= "a"'
cohort run -prompts prompts x -n 2
cohort run -prompts none
cohort run -f none
cohort run -f nul -n 3
cohort run x -np 2 -n 3 -stop '' -v
cohort run x -lora none
cohort run x -lora-scaled none
cohort run x -device none
cohort run x -device 'cpu:1,cpu:9'
cohort run x -kv-type q5
cohort speculate
cohort speculate x -draft-min 5 -draft-max 4
cohort speculate x -ngram-min 5 -ngram-max 4
cohort speculate x -draft-greedy
cohort speculate x -c 8 -n 20
cohort speculate "$long" -n 2
$ story='Once upon a time there was a very small café by the sea, where a cat and a dog and an old sailor used to sit all day long and to look at the ships which came and went, and to tell each other stories. The cat'
batched -p "$story" -np 3 -n 5 -temp 0.5 -output long.html
$ sed -n '/<article/,/<\/article>/p' long.html >>raw
batched -p "$story" -p 'A dog' -np 2 -n 5 -temp 0.5 -compare -width 50
cohort speculate x -draft none.gguf
cohort speculate x -draft s300.gguf
$ patched tiny.gguf ended.gguf tokenizer.ggml.eos_token_id '\x04\0\0\0\x02' '\x04\0\0\0\x05'
cohort speculate x -draft ended.gguf
$ patched tiny.gguf other.gguf '' '\xe2\x96\x81cat' '\xe2\x96\x81cot'
cohort speculate x -draft other.gguf
cohort speculate 'The cat and the cat and the cat' -n 3000 -grammar 'root ::= " and"' -v
cohort tree x -format x
cohort tree x -o o.foo
cohort tree x -o none/o.svg
cohort tree "$long" -d 2
cohort tree x -d 40 -k 40 -nodes 1000000
cohort tree x -grammar 'root ::= "a'
cohort tree x -d 2 -k 3 -grammar 'root ::= "a" | "b"' -v
cohort tree -f empty
LINES
lines '\n'
printf '%s' "$long" >long
printf 'one' >one
table refused-commands <<'LINES'
cohort tokenize
cohort tokenize x -f prompts
cohort tokenize x -format y
cohort tokenize -f none
cohort tokenize -f nul -format pieces
cohort tokenize -add-bos x
cohort tokenize '<s>x</s>' -format pieces
cohort detokenize
cohort detokenize 1 -f prompts
cohort detokenize 99999999
cohort detokenize -- -1
cohort detokenize 1,2 [3 4]
cohort detokenize 1.5
cohort embed
cohort embed -lines a
cohort embed -normalize x a
cohort embed -f empty -lines
cohort embed ''
cohort embed -o e.doc a
cohort embed -pooling x a
cohort embed -pooling last -normalize max -format json a
cohort embed -pooling cls -normalize 1 -format jsonl a
cohort embed -normalize none -similarity a b
cohort embed -f none
cohort perplexity -f text -output-format x
cohort perplexity -f text -stride 9 -ctx 8 -per-window
cohort perplexity -f empty
cohort perplexity -f one -ctx 1
cohort perplexity -f one
cohort perplexity -f none
cohort perplexity -f text -ctx 99999
cohort logits
cohort logits --tokens none -o x.f32
cohort logits --tokens prompts -o x.f32
cohort logits --tokens one -kv-type q5 -o x.f32
cohort template
cohort template -m tiny.gguf -chat-template none -messages m.json
cohort template -messages - -chat-template -
cohort template -messages none
cohort template -messages prompts
cohort template -messages nul
cohort template -chat-template none -messages m.json
cohort template -name none -messages m.json
cohort template -name chatml -messages m.json
$ message() { printf '%s' "$1" >bad.json; }
$ message '{"a":1}'
cohort template -messages bad.json
$ message '[]'
cohort template -name chatml -messages bad.json
cohort template -messages m.json -now 2026-13-19T01:02:03
cohort retrieve
cohort retrieve -dir texts -load index x
cohort retrieve -load index -save other x
cohort retrieve -load index -chunk-size 9 x
cohort retrieve -load index -f prompts x
cohort retrieve -load index -f prompts -format jsonl -top-k 1
cohort retrieve -load index -format x y
cohort retrieve -load index -o o.txt
cohort retrieve -load none x
cohort retrieve -load text x
cohort retrieve -load empty x
$ head -c 60 index >cut
cohort retrieve -load cut x
$ head -c 400 index >cut
cohort retrieve -load cut x
$ { head -c 8 index && printf '\011' && tail -c +10 index; } >cut
cohort retrieve -load cut x
$ { head -c 300 index && printf 'x' && tail -c +302 index; } >cut
cohort retrieve -load cut x
cohort retrieve -dir none x
cohort retrieve -dir empty x
cohort retrieve -dir texts -chunk-separator '' x
cohort retrieve -dir texts -chunk-size 99999 x
cohort retrieve -dir texts -chunk-size 20 -overlap 15 x
cohort retrieve -dir texts/a.txt -dir texts/b.txt -top-k 9 cat -v
cohort synth -o x.gguf
cohort synth -s none -o x.gguf
cohort synth -s n_vocab=300 -o x.gguf
cohort synth -s n_vocab=300,n_embd=63,n_layer=1,n_head=4,n_ff=64 -o x.gguf
cohort synth -s n_vocab=300,x=1 -o x.gguf
cohort synth -s "$shape,n_head_kv=2,n_ctx=64,head_size=16,tied=1,rope_base=500" -t f16 -seed 3 -o x.gguf
cohort info -m x.gguf
cohort synth -s "$shape" -t q9 -o x.gguf
cohort synth -s "$shape" -o none/x.gguf
cohort quantize
cohort quantize s.gguf
cohort quantize s.gguf q3.gguf Q9
cohort quantize s.gguf q3.gguf Q4_0
cohort quantize s.gguf s.gguf Q4_0 -allow-requantize
cohort quantize none.gguf q3.gguf Q4_0
cohort quantize -allow-requantize s.gguf q3.gguf Q4_K_M -tensor-type x
cohort quantize -allow-requantize -tensor-type 'attn=F16' -token-embedding-type F32 -v s.gguf q3.gguf Q4_0
cohort info -m q3.gguf -tensors
cohort info -m text
cohort info -m empty
cohort info x
cohort bench -npp 0 -ntg 0
cohort bench -npp x
cohort bench -npp 4-1
cohort bench -npp 1-8*2,3 -ntg 0 -npl 1 -output-format x
cohort bench -npp 4 -ntg 1 -npl 1 -kv-type x
cohort bench -npp 4 -ntg 1 -npl 2 -n-kv-max 4
cohort help
cohort help x y
cohort help sampling
cohort man nothing
cohort completion tcsh
cohort version
cohort -version
LINES
printf '%s\n' '[]' '{"custom_id":"","method":"POST"}' '{"custom_id":"a","method":"GET"}' '{"custom_id":"a","method":"POST","url":"/v1/x"}' \
	'{"custom_id":"a","method":"POST","url":"/v1/completions"}' '{"custom_id":"a","method":"POST","url":"/v1/completions","body":[]}' \
	'{"custom_id":"a","method":"POST","url":"/v1/completions","body":{"prompt":"a","max_tokens":1}}' '{"custom_id":5}' '' '{' >bad.jsonl
printf '{"custom_id":"e","method":"POST","url":"/v1/embeddings","body":{"input":["a","b"]}}\n{"custom_id":"c","method":"POST","url":"/v1/chat/completions","body":{"messages":[{"role":"user","content":"Hi"}],"max_tokens":2,"logprobs":true,"seed":3}}\n' >two.jsonl
made='s/"(created|id)": *("[a-z_]*-?[0-9A-Za-z]*"|[0-9]+)/"\1":N/g'
table jobs-refused <<'LINES'
cohort jobs
cohort jobs in.jsonl
cohort jobs in.jsonl -output in.jsonl
cohort jobs none -output x.out
cohort jobs texts -output x.out
cohort jobs in.jsonl -output texts
cohort jobs in.jsonl -output text
cohort jobs in.jsonl -output none/x
cohort jobs empty -output e.out
cohort jobs in.jsonl -output x.out -pooling x
cohort jobs in.jsonl -output x.out -chat-template none
cohort jobs bad.jsonl -output x.out -threads 1
$ sed -E "$made" x.out >x.txt
cohort detokenize -f x.txt
cohort jobs bad.jsonl -output x.out -threads 1
cohort jobs bad.jsonl -output x.out -temp 0.1
cohort jobs in.jsonl -output x.out
cohort jobs two.jsonl -output two.out -threads 1 -ordered
$ cat two.out.journal >>raw
$ printf 'half a line' >>two.out
cohort jobs two.jsonl -output two.out -threads 1 -ordered
cohort jobs two.jsonl -output two.out -threads 1 -ordered -restart
$ echo '{{ messages }}' >plain.jinja
cohort jobs two.jsonl -output three.out -threads 1 -chat-template plain.jinja -temp 0.5 -n 1
$ cat three.out.journal >>raw
LINES
# Configuration files and the environment.
table configuration <<'LINES'
$ config() { printf -- "$1" >config; }
$ run_with() { COHORT_CONFIG=$1; export COHORT_CONFIG; }
$ run_with "$PWD/config"
$ config '[batched]\nn-predict = 3\nprompt = "a\\tb \\"c\\""\n[cohort run]\nseed = 7\n'
batched -show-config
cohort run -show-config
cohort run -config config -no-config
$ config 'n-predict = \377\n'
cohort run x -n 2
$ config 'n-predict = "3\n'
cohort run x -n 2
$ config 'n-predict = "3" 4\n'
cohort run x -n 2
$ config 'prompt = "\\x"\n'
cohort run x -n 2
$ config '[run\n'
cohort run x -n 2
$ config '[nothing]\n'
cohort run x -n 2
$ config 'n-predict\n'
cohort run x -n 2
$ config '-n-predict = 3\n'
cohort run x -n 2
$ config 'n-predict = x\n'
cohort run x -n 2
$ config 'nonsense = 3\n'
cohort run x -n 2
$ config '[run]\nn-predict = 3\nn-predict = 4\n'
cohort run x
$ run_with none
cohort run x -n 2
$ run_with texts
cohort run x -n 2
$ run_with /dev/null
$ export COHORT_TEMPERATURE=x
cohort run x -n 2
$ export COHORT_TEMPERATURE=0.5
cohort run -show-config
$ unset COHORT_TEMPERATURE
cohort run -print-completion tcsh
cohort run -ngl 3 x -n 2
cohort run -hf a/b x
cohort run -fa x -n 2
cohort run --rope-scale 2 x
cohort chat -st
cohort chat x y
cohort chat -system a -system-file b
cohort serve x
cohort serve -strategy x
cohort serve -strategy ./none.so
cohort serve -api-key 'a b'
cohort serve -tls-cert x
cohort serve -api-key-file empty
cohort serve -api-key-file none
cohort serve -socket text
cohort serve -data text
cohort serve -chat-template none
cohort serve -m none.gguf
cohort serve -port 70000
LINES
