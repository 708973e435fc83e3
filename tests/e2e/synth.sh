#!/bin/sh
# cohort synth: random models that the other commands take, the same bytes for the same seed, and what it refuses.
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"

numbers=n_vocab=300,n_embd=64,n_layer=2,n_head=4,n_ff=96
synth() { # FILE ARGUMENT...
	to=$1
	shift
	run cohort synth "$@" -o "$tmp/$to"
}

synth a.gguf -s "$numbers" -t Q8_0
[ "$rc" = 0 ] && empty out && empty err && [ -s "$tmp/a.gguf" ]
verdict 'a shape by numbers'
run cohort info -m "$tmp/a.gguf"
[ "$rc" = 0 ] && matches out '^runs here +yes' && has out 'llama.attention.head_count_kv = 4' && has out 'Q8_0'
verdict 'info says that it runs'
printf '1 270 12 299' >"$tmp/ids"
run cohort logits -m "$tmp/a.gguf" --tokens "$tmp/ids" -o "$tmp/logits"
[ "$rc" = 0 ] && [ "$(wc -c <"$tmp/logits")" = 4800 ]
verdict 'logits come out of it'
run cohort tokenize -m "$tmp/a.gguf" 'a ba'
[ "$rc" = 0 ] && matches out '^1 [0-9 ]+$'
verdict 'text becomes tokens'

synth b.gguf -s "$numbers" -t q8_0 --threads 3 --seed 0
[ "$rc" = 0 ] && same a.gguf b.gguf
verdict 'the same bytes with other threads'
synth b.gguf -s "$numbers" -t Q8_0 --seed 1
[ "$rc" = 0 ] && ! same a.gguf b.gguf && [ "$(wc -c <"$tmp/a.gguf")" = "$(wc -c <"$tmp/b.gguf")" ]
verdict 'other bytes with another seed'

synth c.gguf --shape smol-135m,n_layer=1,n_vocab=512 --type Q4_K_M
[ "$rc" = 0 ] && run cohort info --tensors -m "$tmp/c.gguf" && matches out 'token_embd.weight Q8_0' && matches out 'blk.0.attn_q.weight Q5_0' &&
	has out 'general.name = "synth"' && has out 'key_length = 64'
verdict 'a shape by name with other numbers, in a mix'
synth c.gguf --shape qwen2.5-0.5b,n_layer=1,n_vocab=512 --type Q4_K_M
[ "$rc" = 0 ] && run cohort info --tensors -m "$tmp/c.gguf" && matches out 'blk.0.ffn_gate.weight Q5_0 \[896, 4864\]' &&
	matches out 'blk.0.attn_v.weight Q[58]_0 \[896, 128\]' && matches out 'runs here +yes'
verdict 'rows of 896, no whole blocks of 256'
synth c.gguf --shape smol-135m,n_layer=1,n_vocab=512,n_embd=512,n_head=8,n_head_kv=2 --type Q4_K --pure
[ "$rc" = 0 ] && run cohort info -m "$tmp/c.gguf" && has out 'Q4_K ' && ! has out 'Q6_K'
verdict '--pure'

refuse() { # NAME TEXT ARGUMENT...
	what=$1
	text=$2
	shift 2
	rm -f "$tmp/x.gguf"
	synth x.gguf "$@"
	refused 2 "$text" && has err "Try 'cohort synth --help'" && [ ! -e "$tmp/x.gguf" ]
	verdict "refused: $what"
}
refuse 'an unknown shape lists the known ones' 'known: smol-135m, tinyllama-1.1b, llama3.2-1b, qwen2.5-0.5b' -s smol
refuse 'an unknown type lists the known ones' 'Q4_K_S, Q4_K_M' -s "$numbers" -t Q7
refuse 'an unknown number' "'n_heads' is no number of a shape" -s "$numbers,n_heads=3"
refuse 'a number that is none' "n_ff expects a number, got '9x'" -s "$numbers,n_ff=9x"
refuse 'a negative number' "n_ff expects a number, got '-9'" -s "$numbers,n_ff=-9"
refuse 'no number' 'n_ff expects a number' -s "$numbers,n_ff="
refuse 'tied=2' 'tied expects 0 or 1' -s "$numbers,tied=2"
refuse 'a name behind numbers' 'is not known' -s "$numbers,smol-135m"
refuse 'too few numbers' 'needs n_embd' -s n_vocab=300
refuse 'a vocabulary without room for the bytes' 'n_vocab is 258' -s "$numbers,n_vocab=258"
refuse 'heads that do not fit' 'cannot share' -s "$numbers,n_head_kv=3"
refuse 'no shape' '-shape SHAPE is missing' -t Q8_0
run cohort synth -s smol-135m
refused 2 '-output FILE is missing'
verdict 'refused: no file'
run cohort synth -s "$numbers" -o "$tmp/no/such/x.gguf"
refused 4 "$tmp/no/such/x.gguf: cannot make"
verdict 'a directory that is not there'
limited() { (ulimit -f 8 && "$bin/cohort" synth -s "$numbers" -t F32 -o "$tmp/limit.gguf"); }
run limited
refused 4 'File too large' && [ ! -e "$tmp/limit.gguf" ] && [ -z "$(find "$tmp" -name '.cohort-*')" ]
verdict 'a full disk leaves nothing behind'
run cohort synth --help
[ "$rc" = 0 ] && empty err && has out 'tinyllama-1.1b' && has out 'qwen2.5-0.5b' && has out 'Q3_K_L' && has out 'cohort synth -s'
verdict 'help'
