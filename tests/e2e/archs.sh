#!/bin/sh
# Every architecture in the programs: four sequences in batched, the first of which says what it says alone; what cannot
# run says why; adapters.
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"

dir=$tmp/models
random_models "$dir" || exit 1

# The text of the first sequence.
first() { awk '/^Sequence 1:/ { exit } { print }' "$tmp/out"; }

for m in llama-base mixtral qwen2 qwen2moe qwen3-yarn qwen3moe gemma gemma2 gemma3 phi2 phi3-long gpt2 gptneox bloom falcon \
	starcoder starcoder2 stablelm olmo2-window olmoe granite granitemoe minicpm command-r cohere2 smollm3 exaone glm4 \
	gpt-oss-f32 internlm2 mistral3 baichuan-13b mpt mamba; do
	run batched -m "$dir/$m.gguf" -p 'abc de' -np 4 -n 8 -seed 5
	first >"$tmp/four"
	[ "$rc" = 0 ] && has out 'Sequence 3:' && has err 'Parallel sequences: 4' && has four 'abc de'
	verdict "batched: four sequences of $m"
	run batched -m "$dir/$m.gguf" -p 'abc de' -np 1 -n 8 -seed 5 -threads 1
	first >"$tmp/one"
	[ "$rc" = 0 ] && same four one
	verdict "batched: the first of four says what it says alone ($m)"
done

for m in olmo deepseek2 modern-bert; do
	run batched -m "$dir/$m.gguf"
	[ "$rc" = 3 ] && has err "architecture '$m' is not known; known: llama, " && has err jina-bert-v2
	verdict "batched: $m is not known, and what is"
done
run batched -m "$dir/bert.gguf"
[ "$rc" = 2 ] && has err 'bert models are encoders: they have embeddings, no logits'
verdict 'batched: an encoder has no text to give'

run cohort info -m "$dir/mamba.gguf"
[ "$rc" = 0 ] && has out 'cache       a state for each sequence'
verdict 'info: a cache of states'
run cohort info -m "$dir/bert.gguf"
[ "$rc" = 0 ] && has out 'cache       none: texts are encoded whole'
verdict 'info: no cache'
# Sequences of states take no blocks: -ctx bounds neither their number nor their length.
run batched -m "$dir/mamba.gguf" -p 'abc de' -np 100 -n 40 -ctx 32 -ignore-eos
[ "$rc" = 0 ] && sequences 100
verdict 'batched: 100 sequences of states in -ctx 32'

# ---- Costs ----

# A window of 8 lets go of the first block with the row at 38. Seen red with depths used as they are given: refused, with
# exit code 2.
for m in gemma2 gpt-oss-f32; do
	run cohort simulate -m "$dir/$m.gguf" --slots 2 --ubatch 4 --batch 4 --rounds 1 --requests 2 --depth 38 -t 1
	[ "$rc" = 0 ] && has out 'sequences of 37 tokens'
	verdict "simulate: a depth that a window does not come back to ($m)"
done
for m in gemma2 mamba; do
	run cohort simulate -m "$dir/$m.gguf" --slots 2 --ubatch 4 --batch 4 --rounds 1 --requests 2 --depth 39 -t 1
	[ "$rc" = 0 ] && has out 'sequences of 39 tokens'
	verdict "simulate: the depth is what was asked for ($m)"
done

# ---- Adapters ----

run batched -m "$dir/llama-base.gguf" -p 'abc de' -np 2 -n 8 -seed 5 -temperature 0
keep out plain
run batched -m "$dir/llama-base.gguf" -p 'abc de' -np 2 -n 8 -seed 5 -temperature 0 --lora-scaled "$dir/llama-lora.gguf:0"
first >"$tmp/a"
[ "$rc" = 0 ] && keep plain out && first >"$tmp/b" && same a b
verdict 'an adapter applied 0 times says the same'
cp "$dir/llama-base.tokens" "$tmp/ids"
run cohort logits -m "$dir/llama-base.gguf" --tokens "$tmp/ids" -o "$tmp/want" --lora "$dir/llama-lora.gguf"
run cohort logits -m "$dir/llama-base.gguf" --tokens "$tmp/ids" -o "$tmp/got" --lora-scaled "$dir/llama-lora.gguf:1"
[ "$rc" = 0 ] && same got want
verdict 'logits: an adapter, and the same applied once'
run cohort logits -m "$dir/llama-base.gguf" --tokens "$tmp/ids" -o "$tmp/got"
[ "$rc" = 0 ] && ! same got want
verdict 'logits: without it they differ'
run cohort run -m "$dir/llama-base.gguf" -n 4 --lora "$dir/llama-lora.gguf" 'abc'
[ "$rc" = 0 ]
verdict 'run: an adapter'
run batched -m "$dir/llama-base.gguf" --lora-scaled "$dir/llama-lora.gguf"
[ "$rc" = 2 ] && has err '-lora-scaled expects FILE:SCALE'
verdict 'an adapter without its scale: refused'
run batched -m "$dir/llama-base.gguf" --lora "$dir/none.gguf"
[ "$rc" = 3 ] && has err "$dir/none.gguf"
verdict 'an adapter that is not there: refused'
run batched -m "$dir/qwen2.gguf" --lora "$dir/llama-lora.gguf"
[ "$rc" = 3 ] && has err "general.architecture is 'llama', expected 'qwen2'"
verdict 'an adapter of another architecture: refused'
