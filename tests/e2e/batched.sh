#!/bin/sh
# batched: options, output, limits, and that the text depends on nothing but prompt, seed and sampling options.
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"

# ---- The default run ----

run batched
keep out default
[ "$rc" = 0 ] && sequences 4 'Hello my name is'
verdict 'default: four sequences on standard output, nothing else there'
matches err '^Performance Statistics:$' && matches err '^  Decoded [0-9]+ tokens in [0-9]+\.[0-9][0-9] seconds$' &&
	matches err '^  Speed: [0-9]+\.[0-9][0-9] tokens/second$' && matches err '^  Parallel sequences: 4$' && matches err '^  Prefill: 5 tokens in '
verdict 'default: statistics on standard error, prefill apart'
has err 'temperature 0.8, top-k 40, top-p 0.9' && has err '4 of up to 32 tokens, context 2048' && has err 'Model: cohort-tiny (llama'
verdict 'default: configuration summary on standard error'
! matches out 'Statistics|Speed|Configuration|batched:'
verdict 'default: standard output holds texts only'
for i in 0 1 2 3; do sequence $i default | cksum; done | sort -u >"$tmp/sums"
[ "$(wc -l <"$tmp/sums")" = 4 ]
verdict 'default: the four continuations differ'

run batched -np 1 -n 1 -verbose
[ "$rc" = 0 ] && has err 'up to 1 token,' && has err 'Sequence 0: 1 token,' && has err 'Decoded 1 token in'
verdict 'one token is said as one'
run batched
[ "$rc" = 0 ] && same out default
verdict 'same seed, same bytes'
run batched -seed 1
[ "$rc" = 0 ] && sequences 4 'Hello my name is' && ! same out default
verdict 'another seed, another text'
run batched -seed 18446744073709551615 -n-predict 4
[ "$rc" = 0 ] && has err 'seed 18446744073709551615'
verdict 'the largest seed'
run batched -prompt 'Hello my name is' -n-parallel 4 -n-predict 32 -ctx 2048 -threads 4 -temperature 0.8 -top-k 40 -top-p 0.9 -model "$model"
[ "$rc" = 0 ] && same out default
verdict 'the documented defaults, spelled out, give the same bytes'

# ---- Exactness, seen from outside ----

run batched -n-parallel 8 -seed 5
keep out eight
run batched -n-parallel 1 -seed 5
[ "$rc" = 0 ] && sequences 1 && sequence 0 out >"$tmp/a" && sequence 0 eight >"$tmp/b" && [ -s "$tmp/a" ] && same a b
verdict 'sequence 0 alone is sequence 0 among eight'
run batched -n-parallel 5 -seed 5
[ "$rc" = 0 ] && sequence 4 out >"$tmp/a" && sequence 4 eight >"$tmp/b" && [ -s "$tmp/a" ] && same a b
verdict 'sequence 4 of five is sequence 4 of eight'
for t in 1 2 3 7; do
	run batched -threads $t
	[ "$rc" = 0 ] && same out default
	verdict "-threads $t: the same bytes"
done

# The greedy texts of the model's own page. Of the third prompt the two likeliest tokens are nearly tied, so it may go either way.
greedy() { # IDS PROMPT EXPECTED-TEXT [OTHER]
	run batched -temperature 0 -n-parallel 2 -n-predict 8 -prompt "$2" -verbose
	[ "$rc" = 0 ] && sequences 2 "$2" && has err "Prompt tokens: $1" && [ "$(sequence 0 out)" = "$(sequence 1 out)" ] &&
		{ matches out "^$2$3\$" || { [ -n "${4-}" ] && matches out "^$2$4"; }; }
	verdict "-temperature 0: $2"
}
greedy '1 911 630 264 493' 'Once upon a time' ', there was a little girl named Lily'
greedy '1 634 371 507 325' 'Hello my name is' ' Robert and I come from a quiet village'
greedy '1 328 952 298 3749 325' 'The future of AI is' ' not something that happens to us, but' ' closer'

# ---- Options ----

run batched -help
[ "$rc" = 0 ] && empty err && has out 'Usage: batched'
verdict '-help: standard output, exit 0'
keep out help
# An option and its description on one line: long names have a line of their own.
sed ':a;N;$!ba;s/\n     */ /g' "$tmp/out" >"$tmp/joined"
for o in '-model, -m FILE.*built-in' '-prompt, -p TEXT.*"Hello my name is"' '-n-parallel, -np, .*default: 4' '-n-predict, -n, .*default: 32' \
	'-ctx, -c, .*default: 2048' '-threads, -t N.*default: 4' '-temperature, .*default: 0\.8' '-top-k N.*default: 40' '-top-p X.*default: 0\.9' \
	'-verbose' '-seed.* N.*default: 0' '-help'; do
	matches joined "^  $o"
	verdict "-help tells ${o%%[,. ]*} and its default"
done
for o in --help -h '-n-predict 3 --help'; do
	# shellcheck disable=SC2086
	run batched $o
	[ "$rc" = 0 ] && same out help
	verdict "$o: the same text"
done
for o in -version --version; do
	run batched $o
	[ "$rc" = 0 ] && empty err && matches out '^batched [0-9]+\.[0-9]+\.[0-9]+$'
	verdict "$o"
done

run batched -prompt 'The cat' -n-parallel 2 -n-predict 6 -ctx 512 -threads 1 -temperature 0.7 -top-k 20 -top-p 0.8 -seed 3
keep out forms
[ "$rc" = 0 ] && sequences 2 'The cat'
verdict 'one dash'
run batched --prompt 'The cat' --n-parallel 2 --n-predict 6 --ctx 512 --threads 1 --temperature 0.7 --top-k 20 --top-p 0.8 --seed 3
[ "$rc" = 0 ] && same out forms
verdict 'two dashes'
run batched -p 'The cat' -np 2 -n 6 -c 512 -t 1 -temp 0.7 -top-k 20 -top-p 0.8 -s 3 -m "$model"
[ "$rc" = 0 ] && same out forms
verdict 'short forms'
run batched --prompt='The cat' -n-parallel=2 --n-predict=6 -c=512 --threads=1 -temperature=0.7 --top-k=20 -top-p=0.8 --seed=3 --model="$model"
[ "$rc" = 0 ] && same out forms
verdict 'name=value'
run batched --prompt 'The' -np 4 --prompt 'The cat' -np 2 -n 6 -c 512 -t 1 -temp 0.7 -top-k 20 -top-p 0.8 -s 3
[ "$rc" = 0 ] && same out forms
verdict 'the last of two wins'
run batched -p=a=b -np 1 -n 2
[ "$rc" = 0 ] && sequences 1 'a=b'
verdict 'a value with an equals sign'
run batched -p -n -np 1 -n 2
[ "$rc" = 0 ] && sequences 1 '-n'
verdict 'a prompt that looks like an option'
run batched -verbose -np 1 -n 2
[ "$rc" = 0 ] && sequences 1 && has err 'Details:' && has err 'KV cache:' && matches err '^  Sequence 0: 2 tokens, length reached$'
verdict '-verbose: details on standard error'
# Seen red with the words for one prompt said of several.
printf 'Once upon a time\nHello my name is\n' >"$tmp/prompts"
run batched -verbose -np 1 -n 2 -prompts "$tmp/prompts"
[ "$rc" = 0 ] && matches err '^  Tokens of prompt 0: 1 911 630 264 493$' &&
	matches err '^  Tokens of prompt 1: 1 634 371 507 325$' && ! has err 'Prompt tokens:'
verdict '-verbose: the tokens of each prompt'
matches err '^  Prompt 0, sequence 0: 2 tokens, length reached$' && matches err '^  Prompt 1, sequence 0: 2 tokens, length reached$'
verdict '-verbose: the end of each text'
# Shown red by the other word.
run batched -np 2 -n 3 -j '{"type":"string","minLength":50}'
[ "$rc" = 0 ] && has err '2 of 2 sequences were cut before the end that the schema wants; raise -n-predict'
verdict 'texts cut before the end that a schema wants'
run batched -np 2 -n 3 -grammar 'root ::= [a-z ]{99}'
[ "$rc" = 0 ] && has err '2 of 2 sequences were cut before the end that the grammar wants; raise -n-predict'
verdict 'texts cut before the end that a grammar wants'
run batched -np 2 -n 3 -ignore-eos
[ "$rc" = 0 ] && ! has err 'were cut' && ! has err 'was trained for'
verdict 'texts that nothing cut: nothing is said'
# Shown red by a name that is always shown.
python3 -c 'import sys; sys.stdout.buffer.write(open(sys.argv[1], "rb").read().replace(b"general.name", b"general.nome", 1))' "$model" >"$tmp/unnamed.gguf"
run batched -m "$tmp/unnamed.gguf" -np 1 -n 1
[ "$rc" = 0 ] && has err '  Model: unnamed (llama,'
verdict 'a model without a name'

run batched -promt x
refused 2 "did you mean '-prompt'?" && has err "Try 'batched --help'"
verdict 'unknown option: a suggestion'
run batched --n-paralel 4
refused 2 "did you mean '-n-parallel'?"
verdict 'unknown option with two dashes: a suggestion'
run batched -hepl
refused 2 "did you mean '-help'?"
verdict 'misspelt -help: a suggestion'
run batched -xyzzy-frobnicate
refused 2 "unknown option '-xyzzy-frobnicate'" && ! has err 'did you mean'
verdict 'unknown option like no other: no suggestion'
run batched ---help
refused 2 "unknown option '---help'; did you mean '-help'?"
verdict 'three dashes: named as they were typed'
run batched 'Once upon a time'
refused 2 'a prompt goes behind -prompt'
verdict 'a prompt without its option: where it goes'
run batched -np 3 -n 1
[ "$rc" = 0 ] && awk '/Decoded 3 tokens/ { s = $5 } /Speed:/ { ok = $2 > 0 && $2 < 100000 } END { exit !ok }' "$tmp/err"
verdict 'one token each: the time of the prompt counts'
run batched -lora "$tmp/none.gguf"
refused 3 "cannot use the adapter $tmp/none.gguf: No such file" && ! has err cohort-tiny
verdict 'an adapter that is not there: it is named, not the model'
run batched -prompt
refused 2 '-prompt expects a value'
verdict 'missing value'
run batched something
refused 2 "unexpected argument 'something'"
verdict 'an operand is refused'
run batched -verbose=yes
refused 2 '-verbose takes no value'
verdict 'a value for a flag is refused'
for a in '-n-predict ten' '-n-predict 1.5' '-n-predict -1' '-n-predict 99999999999999999999' '-n-parallel 0' '-n-parallel -3' '-n-parallel 4x' \
	'-n-parallel 70000' '-ctx 0' '-threads 0' '-threads 100000' '-temperature hot' '-temperature -1' '-temperature nan' '-temperature inf' \
	'-top-k -1' '-top-p 1.5' '-top-p -0.1' '-top-p nan' '-seed -1' '-seed 1e3' '-seed 18446744073709551616'; do
	# shellcheck disable=SC2086
	run batched $a
	refused 2 "${a% *} expects a" && has err "got '${a#* }'"
	verdict "$a is refused with what was expected"
done
run batched -n-predict=
refused 2 '-n-predict expects a'
verdict 'an empty number is refused'
run batched -isa pdp11
refused 2 "'pdp11' is not known; known: ref" && ! has err 'the model'
verdict 'unknown instruction set: the known ones are named'

# ---- Limits ----

run batched -n-parallel 64 -n-predict "$(few 4 16)"
[ "$rc" = 0 ] && sequences 64 'Hello my name is'
verdict '64 sequences'
run batched -n-parallel 64 -n-predict "$(few 6 40)" -ctx 4096
[ "$rc" = 0 ] && sequences 64 'Hello my name is'
verdict '64 sequences in a larger context'

# -ctx promises tokens: 5 + 63 * 32 are 2,021 of 2,048. Shown red by: a pool of n_ctx / 32 blocks.
run batched -n-parallel 63 -n-predict 32 -ignore-eos -verbose
[ "$rc" = 0 ] && sequences 63 'Hello my name is' && has err 'at most 126 of 127 blocks of 32 positions'
verdict '63 sequences of 32 tokens behind a prompt of 5 in -ctx 2048'
run batched -n-parallel 100 -n-predict 4
[ "$rc" = 0 ] && sequences 100 'Hello my name is'
verdict '100 sequences of 9 tokens in -ctx 2048'
run batched -n-parallel 100 -n-predict 32
raise=$(sed -n 's/.*take 200 blocks of 32 tokens and there are 128;.* raise -ctx to \([0-9]*\)$/\1/p' "$tmp/err")
refused 2 '100 sequences of 37 tokens do not fit into -ctx 2048' && [ "$raise" = 3200 ]
verdict '100 sequences of 37 tokens: refused in blocks'
run batched -n-parallel 100 -n-predict 32 -ctx "${raise:-1}"
[ "$rc" = 0 ] && sequences 100 'Hello my name is'
verdict '100 sequences of 37 tokens in the -ctx it names'
run batched -n-parallel 100 -n-predict 32 -ctx $((${raise:-64} - 32))
refused 2 "raise -ctx to $raise"
verdict '... and not in one block less'

# number_that_fits NAME OPTIONS...: 5000 are refused; the number named works, one more is refused.
number_that_fits() {
	what=$1
	shift
	run batched -n-parallel 5000 "$@"
	fits=$(sed -n 's/.*use -n-parallel \([0-9]*\) .*/\1/p' "$tmp/err")
	refused 2 'do not fit into -ctx' && [ -n "$fits" ] && [ "$fits" -gt 0 ]
	verdict "5000 sequences, $what: refused"
	run batched -n-parallel "${fits:-0}" -ignore-eos "$@"
	[ "$rc" = 0 ] && sequences "$fits"
	verdict "5000 sequences, $what: the number named (${fits:-none}) works"
	run batched -n-parallel $((${fits:-0} + 1)) "$@"
	refused 2 "use -n-parallel $fits "
	verdict "5000 sequences, $what: one more does not"
}
p31='one two three four five six seven eight nine ten one two three four five six seven eight nine ten'
number_that_fits 'the default prompt'
number_that_fits 'a short prediction' -n-predict 4
number_that_fits 'a prompt beyond one block' -prompt "$p31 $p31" -n-predict 33 -ctx 700
number_that_fits 'a context that is no multiple of a block' -ctx 333 -n-predict 28
run batched -n-parallel 5000
more=$(sed -n 's/.*raise -ctx to \([0-9]*\)$/\1/p' "$tmp/err")
[ "${more:-0}" = 160000 ] # 10,000 blocks, of which 5,000 come with the sequences
verdict '5000 sequences: the context that would do is named'

run batched -n-predict 0
[ "$rc" = 0 ] && sequences 4 && [ "$(grep -c '^Hello my name is$' "$tmp/out")" = 4 ] && has err 'Decoded 0 tokens'
verdict '-n-predict 0: the prompt alone'
# Seen red with a division by these 0 seconds.
has err 'Prefill: 5 tokens in 0.00 seconds (0.00 tokens/second)' && matches err '^  Speed: 0\.00 tokens/second$'
verdict '-n-predict 0: a rate over no time is 0'
run batched -n-predict 1 -temperature 0
[ "$rc" = 0 ] && sequences 4 && [ "$(grep -c '^Hello my name is Robert$' "$tmp/out")" = 4 ] && has err 'Decoded 4 tokens'
verdict '-n-predict 1: one token each'
run batched -prompt '' -n-predict 8
[ "$rc" = 0 ] && sequences 4
verdict 'an empty prompt'
# Seen red with no tokens taken for a prompt.
python3 "$COHORT_SOURCE/tests/e2e/add_flag.py" "$model" "$tmp/no_bos.gguf" tokenizer.ggml.add_bos_token 0
run batched -m "$tmp/no_bos.gguf" -prompt '' -n-predict 8
refused 2 'the prompt is empty and the model has no begin token'
verdict 'an empty prompt of a model without a begin token is refused'
run batched -m "$tmp/no_bos.gguf" -prompt 'a' -n-predict 8
[ "$rc" = 0 ] && sequences 4
verdict 'one token of a model without a begin token'
word=$(printf 'caf\303\251 \342\202\254 \360\237\220\261')
run batched -prompt "$word" -n-predict 8
[ "$rc" = 0 ] && sequences 4 "$word"
verdict 'a prompt in UTF-8'
word=$(printf 'a\377b\300\200\355\240\200')
run batched -prompt "$word" -n-predict 8
[ "$rc" = 0 ] && sequences 4 "$word"
verdict 'a prompt of invalid UTF-8'
run batched -prompt '<|user|>Hello<|assistant|>' -n-predict 8
[ "$rc" = 0 ] && sequences 4 '<|user|>Hello<|assistant|>'
verdict 'a chat prompt'
long=$(awk 'BEGIN { for (i = 0; i < 300; i++) printf "the cat is" }')
run batched -prompt "$long" -n-predict 8
[ "$rc" = 0 ] && sequences 4 "$long"
verdict 'a prompt of 3,000 characters'
run batched -prompt "$long" -ctx 512
refused 2 'raise -ctx' && matches err 'the prompt has [0-9]+ tokens'
verdict 'a prompt beyond -ctx is refused'
run batched -prompt "$long $long" -ctx 4096
refused 2 'the model was trained for 1024' && matches err 'the prompt has [0-9]+ tokens'
verdict 'a prompt beyond the trained length is refused'
# The begin token and as many words. Shown red by: 1,024 refused.
words() { awk -v n="$1" 'BEGIN { for (i = 0; i < n; i++) printf "%sthe", i ? " " : "" }'; }
run batched -prompt "$(words 1023)" -n-predict 0 -n-parallel 1
[ "$rc" = 0 ] && has err 'Prefill: 1024 tokens'
verdict 'a prompt of the trained length'
run batched -prompt "$(words 1024)" -n-predict 0 -n-parallel 1
refused 2 'the prompt has 1025 tokens, the model was trained for 1024'
verdict 'a prompt of one token more is refused'
run batched -ctx 16
more=$(sed -n 's/.*raise -ctx to \([0-9]*\)$/\1/p' "$tmp/err")
refused 2 'does not fit into -ctx 16' && [ -n "$more" ]
verdict 'a context that is too small is refused'
run batched -ctx "${more:-0}" -n-parallel 1
[ "$rc" = 0 ] && sequences 1
verdict 'the context it names works'
# Seen red with a prompt as long as -ctx refused.
p32=$(words 31)
run batched -prompt "$p32" -ctx 32 -n-predict 0 -n-parallel 1
[ "$rc" = 0 ] && sequences 1 && has err 'Prefill: 32 tokens'
verdict 'a prompt of -ctx tokens'
run batched -prompt "$p32" -ctx 32 -n-predict 1 -n-parallel 1
refused 2 'one sequence of 33 tokens does not fit into -ctx 32; raise -ctx to 64'
verdict 'a prompt of -ctx tokens, and one more'
run batched -prompt "$p32 a" -ctx 32 -n-predict 0 -n-parallel 1
refused 2 'tokens, -ctx holds 32; raise -ctx'
verdict 'a prompt of more than -ctx tokens'
# Shown red by: states that take as much of -ctx as cells.
random_models "$tmp/models" mamba || exit 1
run batched -m "$tmp/models/mamba.gguf" -prompt "$(words 30)" -ctx 32 -n-predict 40 -n-parallel 3 -ignore-eos
[ "$rc" = 0 ] && sequences 3 && has err 'Decoded 120 tokens'
verdict 'states have no length: texts longer than -ctx'
run batched -n-predict 2000 -n-parallel 1
[ "$rc" = 0 ] && sequences 1 && matches err 'trained for 1024 tokens: sequences end after 1019 of the 2000'
verdict '-n-predict beyond the trained length: a note'
run batched -n-predict 2000 -n-parallel 1 -ignore-eos -threads 1
[ "$rc" = 0 ] && sequences 1 && has err 'Decoded 1019 tokens'
verdict '-n-predict beyond the trained length: stops there'
run batched -top-k 1 -seed 9 -n-predict 8
keep out k1
run batched -temperature 0 -n-predict 8
[ "$rc" = 0 ] && same out k1
verdict '-top-k 1 is greedy'
run batched -top-p 0 -seed 9 -n-predict 8
[ "$rc" = 0 ] && same out k1
verdict '-top-p 0 is greedy'
run batched -top-k 0 -top-p 1 -min-p 0 -temperature 2 -n-predict 8
[ "$rc" = 0 ] && sequences 4 && ! same out k1
verdict 'the whole vocabulary at temperature 2'

# ---- The usage examples of the documentation ----

n_example=0
example() { # N-SEQUENCES PROMPT ARGUMENT...
	n_example=$((n_example + 1))
	[ $((n_example % $(few 4 1))) = 0 ] || return 0
	n=$1
	prompt=$2
	shift 2
	run batched "$@"
	[ "$rc" = 0 ] && sequences "$n" "$prompt" && has err 'Performance Statistics:' && has err "Parallel sequences: $n"
	verdict "example: batched $*"
}
example 4 'The future of AI is' -prompt 'The future of AI is' -n-parallel 4
example 2 'Once upon a time' -prompt 'Once upon a time' -n-parallel 2 -n-predict 64
example 3 'In a world where magic exists,' -prompt 'In a world where magic exists,' -n-parallel 3 -n-predict 50 -temperature 0.9
example 5 'The mysterious stranger was' -prompt 'The mysterious stranger was' -n-parallel 5 -n-predict 30
example 3 '// Function to calculate' -prompt '// Function to calculate' -n-parallel 3 -n-predict 40 -temperature 0.3
example 4 'This API endpoint' -prompt 'This API endpoint' -n-parallel 4 -n-predict 25
example 4 'Innovation means' -prompt 'Innovation means' -temperature 1.2 -n-parallel 4
example 4 'Innovation means' -prompt 'Innovation means' -temperature 0.2 -n-parallel 4
example 3 'The solution is' -prompt 'The solution is' -top-k 10 -top-p 0.8 -n-parallel 3
example 2 'Machine learning' -prompt 'Machine learning' -verbose -n-parallel 2 -n-predict 20
example 3 'Science is' -prompt 'Science is' -temperature 0.2 -n-parallel 3
example 3 'Science is' -prompt 'Science is' -temperature 1.0 -n-parallel 3
example 1 'Hello my name is' -verbose -n-parallel 1 -n-predict 5
example 2 'Hello my name is' -ctx 1024 -n-parallel 2
example 1 'Hello my name is' -n-parallel 1 -n-predict 10
example 4 'Hello my name is' -threads 2
example 2 'Hello my name is' -n-predict 15 -n-parallel 2
example 4 'Hello my name is' -temperature 0.5 -top-k 20 -top-p 0.8
example 4 'A clear and simple explanation:' -prompt 'A clear and simple explanation:'
example 3 'Your prompt here' -prompt 'Your prompt here' -n-parallel 3 -verbose

loop_prompts() {
	for prompt in "The weather today" "Technology will" "Art is about"; do
		echo "=== Prompt: $prompt ==="
		"$bin/batched" -prompt "$prompt" -n-parallel 3 -n-predict 25 || return
		echo ""
	done
}
run loop_prompts
[ "$rc" = 0 ] && [ "$(grep -c '^Sequence [012]:$' "$tmp/out")" = 9 ] && [ "$(grep -c '^=== ' "$tmp/out")" = 3 ]
verdict 'example: the loop over prompts'
loop_counts() {
	for count in 1 2 4 8; do
		echo "=== $count sequences ==="
		"$bin/batched" -prompt "Test prompt" -n-parallel $count -n-predict 20 || return
	done
}
run loop_counts
[ "$rc" = 0 ] && [ "$(grep -c '^Sequence [0-7]:$' "$tmp/out")" = 15 ]
verdict 'example: the loop over counts'
