#!/bin/sh
# cohort speculate: the text is that of cohort run, byte for byte, whatever guesses; what guesses cost and bring is said;
# what cannot be is refused.
#
# Faults planted in prog/speculate_loop.c and prog/speculate_draft.c, each seen to turn this red: keeping a guess that was
# not drawn; not taking the cells of a wrong guess back; a fork that is taken although its rest is wrong, or forgotten
# when it was right; drawing a token twice; logits of the row before; a draft that keeps the cells of wrong guesses, guesses
# with the text's own sampler, or one whose vocabulary is not compared.
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"

story='Tom has a cat. The cat is big. Tom likes the cat. Tom has a cat. The cat is big. Tom likes'
# number FORMAT: what stands in a line of the statistics, e.g. drafted \([0-9]*\).
number() { sed -n "s/.*$1.*/\\1/p" "$tmp/err"; }

# identical NAME ARGUMENT...: the text is cohort run's. Options of speculate alone stand in $only.
only=
identical() {
	name=$1
	shift
	run cohort run "$@"
	keep out want
	plain=$rc
	# shellcheck disable=SC2086
	run cohort speculate $only "$@"
	[ "$plain$rc" = 00 ] && [ "$(wc -c <"$tmp/out")" -gt 1 ] && same out want && matches err 'drafted [0-9]+, accepted [0-9]+ \([0-9.]+ %\)'
	verdict "identical: $name"
}
drafts() { [ "$(number 'drafted \([0-9]*\)')" -gt "$1" ]; }
accepts() { [ "$(number 'accepted \([0-9]*\)')" -gt "$1" ]; }

# ---- Lookup ----

identical 'greedy' "$story" -n 400 -temp 0 -ignore-eos
drafts 200 && accepts 100
verdict 'lookup: a repetitive text is guessed'
for s in 1 2 3; do identical "temperature 0.8, seed $s" "$story" -n 80 -temp 0.8 -seed $s; done
identical 'temperature 1.5, all tokens' "$story" -n 60 -temp 1.5 -top-k 0 -top-p 1 -min-p 0 -seed 4
identical 'penalties' "$story" -n 80 -repeat-penalty 1.3 -frequency-penalty 0.2 -presence-penalty 0.1 -seed 5
identical 'DRY' "$story" -n 80 -dry-multiplier 1 -dry-allowed-length 2 -seed 6
identical 'mirostat' "$story" -n 60 -mirostat 2 -seed 7
identical 'XTC' "$story" -n 60 -xtc-probability 0.5 -xtc-threshold 0.05 -seed 8
identical 'a grammar' "$story" -n 80 -temp 0 -grammar 'root ::= (" the cat" | " the dog" | "."){8,20}'
accepts 3
verdict 'lookup: guesses are right under a grammar'
identical 'a grammar, sampled' "$story" -n 80 -seed 9 -grammar 'root ::= (" the cat" | " the dog" | "."){8,20}'
identical 'a text that ends' "$story" -n 60 -temp 0 -grammar 'root ::= " the cat. The cat is big."'
identical 'four continuations' "$story" -n 60 -np 4 -seed 10
drafts 20
verdict 'lookup: each of four has its guesses'
identical 'four continuations, greedy' "$story" -n 60 -np 4 -temp 0
identical 'going on after the end' "$story" -n 90 -temp 0 -ignore-eos
identical 'one token' "$story" -n 1 -temp 0
identical 'two tokens' "$story" -n 2 -temp 0
for t in 1 3; do identical "$t threads at the reference level" "$story" -n 40 -temp 0 -t $t -isa ref; done
for o in '-draft-max 1' '-draft-max 64' '-draft-max 40 -draft-min 40' '-ngram-min 1 -ngram-max 1' '-ngram-max 64' '-ngram-min 12'; do
	only=$o
	identical "$o" "$story" -n 100 -temp 0 -ignore-eos
done
only=
run cohort speculate "$story" -n 60 -temp 0 -draft-max 3 -draft-min 3 -ignore-eos
[ "$rc" = 0 ] && [ $(($(number 'drafted \([0-9]*\)') % 3)) = 0 ] && drafts 5
verdict 'lookup: -draft-min and -draft-max bound each guess'

# ---- Every kind of memory ----

dir=$tmp/models
random_models "$dir" llama-base gemma2 gemma3 olmo2-window cohere2 gpt-oss-f32 mamba || exit 1
for m in llama-base gemma2 gemma3 olmo2-window cohere2 gpt-oss-f32 mamba; do
	for s in '-temp 0' '-temp 0.7 -seed 3'; do
		# shellcheck disable=SC2086
		identical "$m, $s" -m "$dir/$m.gguf" -n 48 -ignore-eos $s 'abc abc abc abc abc'
	done
	only='-ngram-min 1 -ngram-max 2'
	identical "$m, many wrong guesses" -m "$dir/$m.gguf" -n 90 -np 2 -seed 3 -grammar 'root ::= ("aaaab" "aab" "aaab"){7}' 'abab'
	accepts 5 && [ "$(number 'accepted \([0-9]*\)')" -lt "$(number 'drafted \([0-9]*\)')" ]
	verdict "$m: some of them were right"
	only=
	# Random weights seldom repeat themselves; a grammar makes them.
	identical "$m, a text that repeats" -m "$dir/$m.gguf" -n 90 -temp 0 -np 3 -grammar 'root ::= "abcab"{15,20}' 'abcab'
	accepts 50
	verdict "$m: guesses that are right"
	only="-draft $dir/$m.gguf"
	identical "$m drafts for itself" -m "$dir/$m.gguf" -n 40 -np 2 -ignore-eos -temp 0.7 -seed 3 'abc de'
	only=
	[ "$(number 'drafted \([0-9]*\)')" = "$(number 'accepted \([0-9]*\)')" ] && drafts 20
	verdict "$m: every guess of its own is right"
done

# ---- Draft models ----

only="-draft $model"
identical 'the model drafts for itself' "$story" -n 60 -temp 0 -ignore-eos
has err '(100.0 %)' && drafts 20
verdict 'draft: all of its guesses are right'
identical 'the same, sampled' "$story" -n 60 -seed 11 -np 3
has err '(100.0 %)' && drafts 50
verdict 'draft: with the same sampler they are right, too'
identical 'the same under a grammar with penalties' "$story" -n 60 -seed 11 -repeat-penalty 1.2 -grammar 'root ::= (" the cat" | " the dog" | "."){8,20}'
only="-draft $model -draft-greedy"
identical 'a greedy draft for a sampled text' "$story" -n 60 -seed 12
[ "$(number 'accepted \([0-9]*\)')" -lt "$(number 'drafted \([0-9]*\)')" ] && accepts 5
verdict 'draft: -draft-greedy is right now and then'
# A draft that goes on from wrong guesses of its own is still right by chance: 34 % here, 46 % when it forgets them.
run cohort speculate 'Once upon a time' -n 300 -np 4 -seed 12 -ignore-eos -draft "$model" -draft-greedy
[ "$rc" = 0 ] && [ "$(number 'accepted [0-9]* (\([0-9]*\)')" -ge 40 ]
verdict 'draft: it forgets what was wrong'
only="-draft $model -lookup"
identical 'lookup first, then the draft' "$story" -n 60 -temp 0 -np 2

shape=n_vocab=600,n_embd=64,n_head=4,n_ff=128
for i in 1 2; do
	run cohort synth -s "$shape,n_layer=$((3 - i))" -t F32 --seed $i -o "$tmp/s$i.gguf"
	[ "$rc" = 0 ]
	verdict "a random model of the same vocabulary, $i"
done
only="-draft $tmp/s2.gguf"
for s in '-temp 0' '-temp 1 -seed 2 -np 4'; do
	# shellcheck disable=SC2086
	identical "a random draft, $s" -m "$tmp/s1.gguf" -n 60 -ignore-eos -top-k 0 -top-p 1 -min-p 0 $s 'ba be bi'
	rate=$(number 'accepted [0-9]* (\([0-9]*\)')
	drafts 5 && [ "$rate" -lt 40 ]
	verdict "draft: few of its guesses are right, $s"
done
only=
run cohort speculate -m "$model" -draft "$tmp/s1.gguf" x
[ "$rc" = 3 ] && empty out && matches err "another vocabulary: token [0-9]+ is '.*' there and '.*' in the model"
verdict 'draft: another vocabulary is refused, with the first difference'
run cohort synth -s "$shape,n_layer=1,n_vocab=700" -t F32 -o "$tmp/more.gguf"
run cohort speculate -m "$tmp/s1.gguf" -draft "$tmp/more.gguf" x
[ "$rc" = 3 ] && empty out && has err '700 tokens, and the model has 600'
verdict 'draft: a larger vocabulary is refused'
run cohort synth -s "$shape,n_layer=1,n_ctx=40" -t F32 -o "$tmp/short.gguf"
only="-draft $tmp/short.gguf"
identical 'a draft that was trained for less' -m "$tmp/s1.gguf" -n 60 -ignore-eos -temp 0 'ba be bi'
identical 'a prompt that is longer than the draft takes' -m "$tmp/s1.gguf" -n 30 -ignore-eos -temp 0 \
	'ba be bi bo bu ba be bi bo bu ba be bi bo bu ba be bi bo bu ba be bi bo bu ba be bi bo bu'
# Shown red by letting the status of the prompt's decode through: the text ended before it began.
run cohort synth -s "$shape,n_layer=1,tied=0" -t F32 -o "$tmp/untied.gguf"
run cohort info -m "$tmp/untied.gguf" --json
keep out info
for t in b o; do # of the prompt, of the text
	python3 - "$tmp" "$("$bin/cohort" tokenize -m "$tmp/s1.gguf" -no-bos $t)" <<'PY' || exit 1
"""A draft model without a number for one token."""
import json, struct, sys
t = [t for t in json.load(open(sys.argv[1] + "/info"))["tensors"] if t["name"] == "token_embd.weight"][0]
b = bytearray(open(sys.argv[1] + "/untied.gguf", "rb").read())
for k in range(t["shape"][0]):
    struct.pack_into("<f", b, t["offset"] + 4 * (t["shape"][0] * int(sys.argv[2].split()[-1]) + k), float("nan"))
open(sys.argv[1] + "/nan.gguf", "wb").write(b)
PY
	only="-draft $tmp/nan.gguf"
	identical "a draft that has no finite number for '$t'" -m "$tmp/s1.gguf" -n 40 -np 2 -grammar 'root ::= "aeiou"{7}' 'ba be bi'
done
only=

# ---- What is said ----

# Shown red by writing on: then it takes half a minute of a processor.
# shellcheck disable=SC3045
unread() { (ulimit -t 10 && "$bin/cohort" speculate 'Once upon a time' -n 1000 -seed 1 -ignore-eos -isa ref -t 1; echo $? >"$tmp/code") | head -c 4; }
run unread
[ "$(cat "$tmp/code")" = 4 ]
verdict 'it ends when nobody reads it any more'
run cohort speculate "$story" -n 80 -temp 0 -ignore-eos -compare
[ "$rc" = 0 ] && matches err 'plain decoding: [0-9.]+ s \([0-9.]+ tokens/s\), with guesses' &&
	matches err '[0-9.]+ times as fast, the texts are identical' && matches err '79 tokens in .* verifications, [0-9.]+ tokens per'
verdict '-compare'
# Shown red with a factor for it.
run cohort speculate 'Once upon a time' -n 6 -compare -ngram-min 16 -ngram-max 16
[ "$rc" = 0 ] && has err 'accepted 0' && has err 'no guess was accepted, so there is nothing to gain; the texts are identical' && ! has err 'times as fast'
verdict 'speculate: no factor where no guess was accepted'
run cohort speculate "$story" -n 30 -np 3 -compare -r 3 -draft "$model" -v
[ "$rc" = 0 ] && has err 'medians of 3 rounds' && has err 'the texts are identical' && has err 'temperature 0.8'
verdict '-compare -rounds -verbose'
run cohort speculate -n 12 -temp 0 -show-prompt 'Once upon'
[ "$rc" = 0 ] && matches out '^Once upon '
verdict '-show-prompt'
run cohort speculate x -n 0 -compare
[ "$rc" = 0 ] && is out '' && has err 'drafted 0'
verdict 'no tokens'
run cohort speculate 'Once upon a time' -n 3000 -temp 0 -ignore-eos
[ "$rc" = 0 ] && has err 'texts end after 1019 tokens'
verdict 'a text to the end of what the model takes'
keep out long
run cohort run 'Once upon a time' -n 1019 -temp 0 -ignore-eos
[ "$rc" = 0 ] && same out long
verdict 'the last positions are guessed no further than they go'
printf 'Tom \000\377 has' >"$tmp/odd"
run cohort run -f "$tmp/odd" -n 8 -temp 0
keep out want
run cohort speculate -f "$tmp/odd" -n 8 -temp 0
[ "$rc" = 0 ] && same out want
verdict 'a prompt of any bytes'
run cohort speculate 'Data:' -j '{}' -n 3
[ "$rc" = 0 ] && has err '1 of 1 text was cut'
verdict 'a text cut by the limit says so'
# Seen red with every text that has a sampler said to be cut.
run cohort speculate "$story" -n 60 -temp 0 -grammar 'root ::= " the cat. The cat is big."'
[ "$rc" = 0 ] && has err 'drafted' && ! has err ' cut before'
verdict 'a text that its grammar ends was not cut'
run cohort speculate 'Data:' -n 3
[ "$rc" = 0 ] && has err 'drafted' && ! has err ' cut before'
verdict 'a text without a grammar was not cut'
run cohort speculate 'Tom' -n 3 -np 4 -seed 1 -top-k 0 -top-p 1 -min-p 0 -temp 5 -grammar 'root ::= "a" | [b-z]{9}'
cut=$(number ': \([0-9]*\) of 4 texts were cut before')
[ "$rc" = 0 ] && [ "${cut:-0}" -ge 1 ] && [ "$cut" -le 3 ]
verdict 'of four texts those that were cut are counted'

# ---- What is refused ----

refuse() { # TEXT ARGUMENT...
	text=$1
	shift
	run cohort speculate "$@"
	refused 2 "$text"
	verdict "refused: $text"
}
refuse 'give a prompt'
refuse 'give one prompt' x -p y
refuse '-draft-min 9 is above -draft-max 4' x -draft-min 9 -draft-max 4
refuse '-ngram-min 9 is above -ngram-max 4' x -ngram-min 9 -ngram-max 4
refuse '-draft-greedy is about a draft model' x -draft-greedy
refuse '-rounds goes with -compare' x -r 3
refuse '-ctx 32 is too small' x -c 32
refuse 'the model was trained for 1024' "$(seq -s ' ' 1 2000)"
refuse 'expects a whole number from 1 to 4096' x -np 5000
# Seen red with no tokens taken for a prompt.
python3 "$COHORT_SOURCE/tests/e2e/add_flag.py" "$model" "$tmp/no_bos.gguf" tokenizer.ggml.add_bos_token 0
refuse 'the prompt is empty and the model has no begin token' -m "$tmp/no_bos.gguf" ''
run cohort speculate x -draft "$tmp/none.gguf"
refused 3 'none.gguf'
verdict 'a draft that is not there'
run cohort speculate -f "$tmp/none"
refused 4 'none'
verdict 'a prompt that is not there'
to_full() { "$bin/cohort" speculate x -n 8 >/dev/full; }
if [ -e /dev/full ]; then
	run to_full
	refused 4 'No space left'
	verdict 'a full disk'
else
	skip 'a full disk' 'no /dev/full here'
fi
run cohort speculate --help
[ "$rc" = 0 ] && empty err && has out '-ngram-max N' && has out 'byte for byte' && has out '-draft-greedy'
verdict 'help'

# ---- Interruption ----

fresh
"$bin/cohort" speculate 'Once upon a time' -n 1000 -ignore-eos -isa ref -t 1 -temp 0 >"$tmp/out" 2>"$tmp/err" &
pid=$!
pids="$pids $pid"
grown() { [ "$(wc -c <"$tmp/out")" -gt 40 ]; }
until_true 60 grown
kill -TERM $pid
rc=0
wait $pid || rc=$?
[ "$rc" = 130 ] && has err 'tokens per verification' && grown
verdict 'interrupted: what there is, and its statistics'
tr -d '\n' <"$tmp/out" >"$tmp/part"
tr -d '\n' <"$tmp/long" | head -c "$(wc -c <"$tmp/part")" >"$tmp/begin"
same part begin
verdict 'interrupted: the text is the beginning of the whole one'
