#!/bin/sh
# Memory at the end of programs: as many blocks are left as those that the C library itself keeps (fault.so counts them).
# A command line may be wrong, or a file: what was read until then is released, too.
#
# Seen red with: the words of compared texts that are not released (batched -compare), the files of an index
# (retrieve), the command line that an error proposes (chat), the view of texts that come (batched on a terminal).
# shellcheck source=tests/e2e/talk_lib.sh
. "$(dirname "$0")/talk_lib.sh"
if [ ! -f "$COHORT_BUILD/fault.so" ]; then
	skip 'memory at the end of programs' 'no fault.so: this build has sanitizers, or no tests'
	exit 0
fi
box=$tmp/box
lines '\n'

# live PROGRAM ARGUMENT...: runs it with the lines of $tmp/in; blocks that are left in $n.
live() {
	head -c 168 /dev/zero >"$box" # struct fault_box: n_live is at 160
	ran=$*
	rc=0
	case $1 in batched | cohort) prog=$bin/$1 ;; *) prog=$1 ;; esac
	shift
	FAULT_BOX=$box LD_PRELOAD=$COHORT_BUILD/fault.so "$prog" "$@" >"$tmp/out" 2>"$tmp/err" <"$tmp/in" || rc=$?
	n=$(od -An -t d8 -j 160 -N 8 "$box" | tr -d ' ')
}
# released CODE PROGRAM ARGUMENT...: that exit code, and no block is left.
released() {
	code=$1
	shift
	live "$@"
	[ "$rc" = "$code" ] || return 1
	case $1 in cohort) most=$n_cohort ;; *) most=$n_batched ;; esac
	# Standard output takes a block when it is first written to.
	! empty out || most=$((most - 1))
	most=$((most + n_more))
	[ "$n" -gt 0 ] && [ "$n" -le "$most" ] && return
	echo "# $n blocks, $most expected"
	return 1
}

live cohort info
n_cohort=$n
live batched -n 1
n_batched=$n
n_more=0
live cohort chat -n 1 # asks for the local time, whose zone the C library keeps
n_clock=$((n - n_cohort + 1))

# ---- Texts ----

printf 'Once upon a time\nThe cat\n' >"$tmp/prompts"
printf '{"type":"object","properties":{"a":{"enum":["x","y"]}},"required":["a"],"additionalProperties":false}' >"$tmp/schema"
yes_no='root ::= "yes" | "no"'
released 0 cohort run -n 4 -np 2 -prompts "$tmp/prompts" -seed 5 -logprobs 2 -verbose -stop zzz -logit-bias 5+1 -dry-multiplier 1 -dry-sequence-breaker x -samplers 'top_k;temperature' &&
	released 0 cohort run 'Is it so?' -n 8 -grammar "$yes_no" && released 0 cohort run 'Data:' -n 8 -jf "$tmp/schema"
verdict 'run: prompts, a grammar, a schema'
released 0 cohort run 'The cat' -n 6 -beams 4 -beam-groups 2 -diversity 2 -np 4 && released 0 cohort run 'Is it so?' -grammar "$yes_no" -beams 3 -np 2 -v &&
	released 0 cohort run 'The cat' -n 3 -best-of 4 -vote '[a-z]+'
verdict 'run: beams, a vote'
released 2 cohort run x -grammar 'root ::= "a' && released 2 cohort run x -samplers 'top_k;heat' && released 2 cohort run x -logit-bias x &&
	released 2 cohort run x -json-schema '{"not":{}}' && released 4 cohort run -f "$tmp/none"
verdict 'run: what is refused'
released 0 cohort tree 'The cat' -d 2 && released 0 cohort tree 'Is it so?' -grammar "$yes_no" -format json && released 0 cohort tree -f "$tmp/prompts" -o "$tmp/t.svg"
verdict 'tree: text, JSON, SVG'
released 0 cohort speculate 'Once upon a time' -n 8 -compare && released 0 cohort speculate 'Once upon a time' -n 8 -np 2 -draft "$model"
verdict 'speculate: by n-grams, by a draft model'
for s in txt md json jsonl csv html; do
	released 0 batched -p 'The cat' -p 'The dog' -np 3 -n 8 -seed 5 -output "$tmp/o.$s" || break
done && released 0 batched -p 'The cat' -np 4 -n 12 -compare && released 0 batched -prompts "$tmp/prompts" -np 2 -n 4 -stream
verdict 'batched: files of every kind, -compare, -stream'

# ---- Talks ----

lines 'The cat\n:keep 1 0\n:again\n:keep all\n:drop 1\n:kept\n:more 0\n:set grammar root ::= "a"\n:set grammar root ::=\n:set grammar default\n:set top-k 3\n:nonsense\n:save %s\n:save %s\n' \
	"$tmp/kept.json" "$tmp/kept.txt"
released 2 batched -interactive -np 2 -n 4 -compare
verdict 'batched -interactive: favourites, settings, files'
n_more=$n_clock
lines 'Hello\n:retry\n:system Be brief.\nWho?\n:save %s\n:undo\n:load %s\n:history\n:set seed 3\n:nonsense\n:quit\n' "$tmp/chat.json" "$tmp/chat.json"
released 2 cohort chat -n 3
verdict 'chat: commands'
n_more=0
lines '\n'

# ---- Other commands ----

shape='n_vocab=300,n_embd=64,n_layer=1,n_head=4,n_ff=64'
released 0 cohort synth -s "$shape" -t q8_0 -o "$tmp/s.gguf" && released 0 cohort quantize -allow-requantize "$tmp/s.gguf" "$tmp/q.gguf" Q4_0 &&
	released 0 cohort info -m "$tmp/q.gguf" -tensors -json && released 0 cohort info -levels && released 2 cohort synth -s n_vocab=x -o "$tmp/x.gguf"
verdict 'synth, quantize, info'
mkdir "$tmp/texts" && printf 'The cat sat on the mat.\n\nThe dog ran.\n' >"$tmp/texts/a.txt" && cp "$tmp/prompts" "$tmp/texts/b.txt"
released 0 cohort retrieve -dir "$tmp/texts" -save "$tmp/index" && released 0 cohort retrieve -load "$tmp/index" -top-k 1 -format jsonl 'a cat' rain &&
	released 0 cohort retrieve -dir "$tmp/texts" 'a cat' && released 2 cohort retrieve x
verdict 'retrieve: a folder, an index'
released 0 cohort embed -similarity 'a cat' 'a dog' && released 0 cohort embed -f "$tmp/prompts" -format json && released 4 cohort embed -f "$tmp/none"
verdict 'embed: texts, files'
released 0 cohort perplexity -f "$tmp/texts/a.txt" -ctx 8 -per-window && released 0 cohort tokenize 'The cat' && released 0 cohort detokenize 1 5 9
verdict 'perplexity, tokenize, detokenize'
printf '[{"role":"system","content":"Be brief."},{"role":"user","content":"Hi"}]' >"$tmp/m.json"
released 0 cohort template -messages "$tmp/m.json" && released 0 cohort bench -npp 4 -ntg 1 -npl 1,2 && released 0 cohort bench -npp 4 -ntg 1 -npl 1 -output-format jsonl &&
	released 0 cohort simulate --requests 20 --rounds 1 --slots 2 --ubatch 4 --batch 4 --depth 8 -svg "$tmp/sim.svg" -save-cost "$tmp/cost.json" &&
	released 0 cohort simulate --requests 20 --cost "$tmp/cost.json" --slots 4 && released 0 cohort simulate --requests 20 --cost "$tmp/cost.json" --json "$tmp/sim.json" --generate bursts
verdict 'template, bench, simulate'
printf '{"custom_id":"a","method":"POST","url":"/v1/completions","body":{"prompt":"Tom","max_tokens":2,"seed":1}}\nnot JSON\n' >"$tmp/in.jsonl"
n_more=$((n_clock + 1)) # the stack of a thread
released 1 cohort jobs "$tmp/in.jsonl" -output "$tmp/jobs.out"
verdict 'jobs: a result, a line that is none'
n_more=1 # what options point to stays
printf '[batched]\nn-predict = 3\nprompt = a\n' >"$tmp/config"
COHORT_CONFIG=$tmp/config released 0 batched -show-config
verdict 'a configuration file'
n_more=-1 # no text of a configuration file
released 0 cohort help run && released 0 cohort man run && released 0 cohort completion bash && released 2 cohort rum &&
	released 2 cohort chat "$model" hi there -n 3
verdict 'help, manuals, completion, mistakes'

# ---- On a terminal: what libedit keeps is not known, so without -interactive ----

if python3 -c 'import pty' 2>/dev/null; then
	head -c 168 /dev/zero >"$box"
	echo 'end 0' >"$tmp/steps"
	talk /usr/bin/env FAULT_BOX="$box" LD_PRELOAD="$COHORT_BUILD/fault.so" "$bin/batched" -n 8 -np 3 <"$tmp/steps"
	n=$(od -An -t d8 -j 160 -N 8 "$box" | tr -d ' ')
	[ "$rc" = 0 ] && [ "$n" -gt 0 ] && [ "$n" -le "$n_batched" ]
	verdict 'texts that are shown while they are generated'
else
	skip 'texts that are shown while they are generated' 'no python3 with pty'
fi
