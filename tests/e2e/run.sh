#!/bin/sh
# cohort run, and the sampling options that it shares with batched: grammars, schemas, penalties, log-probabilities.
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"

schema='{"type":"object","properties":{"name":{"type":"string","maxLength":8},"age":{"type":"integer","minimum":0,"maximum":99}},"required":["name","age"]}'

# ---- Texts ----

run cohort run 'Once upon a time' -n 24 -temp 0
[ "$rc" = 0 ] && empty err && [ "$(wc -c <"$tmp/out")" -gt 20 ]
verdict 'run: one text, and nothing else'
keep out one
run cohort run -p 'Once upon a time' -n 24 -temp 0 -show-prompt
[ "$rc" = 0 ] && printf 'Once upon a time' >"$tmp/want" && cat "$tmp/one" >>"$tmp/want" && same out want
verdict 'run: -show-prompt'
printf 'Once upon a time' >"$tmp/story"
from_stdin() { "$bin/cohort" run -f - -n 24 -temp 0 <"$tmp/story"; }
run from_stdin
[ "$rc" = 0 ] && same out one
verdict 'run: a prompt from standard input'
slowest=$(few '' '-isa ref')
for t in 1 3; do
	# shellcheck disable=SC2086
	run cohort run 'Once upon a time' -n 24 -temp 0 -t $t $slowest
	[ "$rc" = 0 ] && same out one
	verdict "run: the same text with $t threads $slowest"
done

run cohort run -n 20 -np 3 'The cat' 'Once upon a time' -seed 5
[ "$rc" = 0 ] && [ "$(grep -cE '^Prompt (0 \(The cat\)|1 \(Once upon a time\)), continuation [012]:$' "$tmp/out")" = 6 ]
verdict 'run: two prompts, three continuations each'
keep out six
run cohort run -n 20 -np 3 'The cat' 'Once upon a time' -seed 5 -c 64
[ "$rc" = 0 ] && same out six
verdict 'run: the same when they do not fit together'
run cohort run -n 20 'Once upon a time' -seed 5
keep out alone
sed -n '/^Prompt 1 (Once upon a time), continuation 0:$/,/^$/p' "$tmp/six" | sed -n '2,$p' | sed '/^$/d' >"$tmp/third"
sed '/^$/d' "$tmp/alone" >"$tmp/alone2"
[ "$rc" = 0 ] && same alone2 third
verdict 'run: a prompt alone gives what it gives among others'

# ---- Grammars ----

run cohort run 'Well?' -grammar 'root ::= "yes" | "no" | "may" "be"?' -n 20 -seed 3
[ "$rc" = 0 ] && matches out '^(yes|no|may|maybe)$'
verdict 'run: --grammar'
printf 'root ::= [a-c]{3} "-" [0-9]{2,4}\n' >"$tmp/g.gbnf"
for s in 1 2 3; do
	run cohort run 'Code:' -grammar-file "$tmp/g.gbnf" -n 20 -seed $s
	[ "$rc" = 0 ] && matches out '^[abc][abc][abc]-[0-9][0-9]+$'
	verdict "run: --grammar-file, seed $s"
done
run batched -prompt 'Data:' -j "$schema" -np 3 -n 120 -temperature 1
[ "$rc" = 0 ] && [ "$(tr -d '\n' <"$tmp/out" | grep -o 'Data:{[^}]*"name"[^}]*"age"[^}]*}' | wc -l)" = 3 ]
verdict 'batched: --json-schema'
printf '%s' "$schema" >"$tmp/s.json"
run cohort run 'Data:' -jf "$tmp/s.json" -n 4
[ "$rc" = 0 ] && matches err 'cut before the end that the grammar wants'
verdict 'run: a text cut by the limit says so'
for bad in 'root ::= "a' 'root ::= root' 'x ::= "a"'; do
	run cohort run x -grammar "$bad"
	[ "$rc" = 2 ] && empty out && matches err 'grammar'
	verdict "run: a grammar that is wrong: $bad"
done
run cohort run x -j '{"not":{}}'
[ "$rc" = 2 ] && empty out && matches err "'not'"
verdict 'run: a schema that cannot be promised'
run cohort run x -j '{'
[ "$rc" = 2 ] && matches err 'schema, line 1'
verdict 'run: a schema that is no JSON'
run cohort run x -grammar-file "$tmp/none.gbnf"
[ "$rc" = 4 ] && matches err 'none.gbnf'
verdict 'run: a grammar file that is not there'
run cohort run x -j '{}' -grammar 'root ::= "a"'
[ "$rc" = 2 ] && matches err 'one of'
verdict 'run: two grammars'

# ---- Other options ----

run cohort run 'Once upon a time' -n 8 -logprobs 2 -temp 0
[ "$rc" = 0 ] && [ "$(grep -c "^ *[0-9]* *-[0-9.]* *-*0\.0000  [0-9]* '.*|" "$tmp/out")" = 8 ] && matches out 'perplexity'
verdict 'run: --logprobs'
# Seen red with the token that ends a text counted as one of its tokens.
run cohort run 'Well?' -n 20 -logprobs 0 -grammar 'root ::= "yes" | "no"' -verbose
[ "$rc" = 0 ] && grep "^ *[0-9]* *-[0-9.]*  *-*[0-9.]*  [0-9]* '.*'$" "$tmp/out" >"$tmp/rows" &&
	[ "$(sed "s/.*'\(.*\)'$/\1/" "$tmp/rows" | tr -d '\n')" = "$(head -n 1 "$tmp/out")" ] &&
	matches out '^(yes|no)$' && ! has rows '</s>'
verdict 'run: --logprobs of a text that ends has no row for its end'
run cohort run 'Once upon a time' -n 24 -temp 0 -repeat-penalty 1.8 -repeat-last-n -1
[ "$rc" = 0 ] && ! same out one
verdict 'run: --repeat-penalty changes the text'
run cohort run 'Once upon a time' -n 24 -temp 0 -repeat-penalty 1.8 -repeat-last-n 0
[ "$rc" = 0 ] && same out one
verdict 'run: --repeat-last-n 0 does not'
n_options=0
for o in '-dry-multiplier 2 -dry-allowed-length 1' '-typical 0.5' '-top-n-sigma 1' '-xtc-probability 1 -xtc-threshold 0.05' \
	'-dynatemp-range 0.5' '-mirostat 1' '-mirostat 2 -mirostat-ent 3' '-samplers top_k;temperature' '-min-keep 3' '-frequency-penalty 1' \
	'-presence-penalty 1' '-logit-bias 264-inf' '-dry-multiplier 1 -dry-sequence-breaker none'; do
	n_options=$((n_options + 1))
	[ $((n_options % $(few 3 1))) = 0 ] || continue
	# shellcheck disable=SC2086
	run cohort run 'Once upon a time' -n 16 -seed 9 $o
	keep out first
	first=$rc
	# shellcheck disable=SC2086
	run cohort run 'Once upon a time' -n 16 -seed 9 $o
	[ "$first$rc" = 00 ] && empty err && [ "$(wc -c <"$tmp/out")" -gt 10 ] && same out first
	verdict "run: $o, twice the same"
done
run cohort run x -samplers 'top_k;heat'
[ "$rc" = 2 ] && matches err "'heat'"
verdict 'run: a stage that does not exist'
for b in 5 5+x 99999999+1 -3+1 5+inf; do
	run cohort run x "-logit-bias=$b"
	[ "$rc" = 2 ] && empty out && matches err 'logit-bias'
	verdict "run: --logit-bias $b"
done
run cohort run
[ "$rc" = 2 ] && matches err 'give a prompt'
verdict 'run: without a prompt'
# Red when -1 is refused, and when it is taken for no tokens.
run cohort run 'The cat' 'Once upon a time' -n 1100 -ignore-eos -v -threads 1
[ "$rc" = 0 ] && matches err 'trained for 1024 tokens: texts end there, after 10[0-9]+ of the 1100 tokens asked for, or more' &&
	matches err ' 20[0-9]+ tokens of 2 texts'
verdict 'run: -n beyond what the model was trained for ends there'
run cohort run 'The cat' -n -1 -c 96 -ignore-eos -v
[ "$rc" = 0 ] && has err ' 92 tokens of 1 text in ' || has err ' 93 tokens of 1 text in '
verdict 'run: -n -1 fills the context'
# Red when the pipe is not read, and when the line end that echo adds is part of the prompt.
run cohort run 'The cat' -n 8
keep out want
piped() { echo 'The cat' | "$bin/cohort" run -n 8; }
run piped
[ "$rc" = 0 ] && same out want
verdict 'run: a prompt from a pipe'
run cohort run -c 32 "$(seq -s ' ' 1 200)"
[ "$rc" = 2 ] && matches err 'tokens'
verdict 'run: a prompt that does not fit'
printf "The cat\n\r\nOnce upon a time\r\n" >"$tmp/lines"
run cohort run -n 20 -seed 5 -prompts "$tmp/lines"
[ "$rc" = 0 ] && has out 'Prompt 0 (The cat):' && sed -n "/^Prompt 1 (Once upon a time):$/,\$p" "$tmp/out" | sed 1d >"$tmp/second" && same second alone
verdict "run: a prompt on each line of a file"
printf "The cat" >"$tmp/cat"
run cohort run -n 20 -seed 5 -f "$tmp/cat" -f "$tmp/story"
[ "$rc" = 0 ] && sed -n "/^Prompt 1 (Once upon a time):$/,\$p" "$tmp/out" | sed 1d >"$tmp/second" && same second alone
verdict "run: several files"
# A prompt of 61 bytes, cut within a character; line ends and other controls do not get into the line.
printf 'a\nb\tc\033%053d\303\244' 0 >"$tmp/long"
run cohort run -n 1 -f "$tmp/long" The
[ "$rc" = 0 ] && matches out '^Prompt 1 \(a b c\?0{53}\.\.\.\):$'
verdict "run: a long prompt's heading is one line"
word=$(tr -d "\n" <"$tmp/alone" | cut -c 9-12)
run cohort run -n 20 -seed 5 "Once upon a time" -stop "$word"
[ "$rc" = 0 ] && [ "$(tr -d "\n" <"$tmp/out")" = "$(tr -d "\n" <"$tmp/alone" | sed "s/$word.*//")" ]
verdict "run: -stop"
if python3 -c 'import pty' 2>/dev/null; then
	# Control characters of the prompt and of the text are shown, not obeyed: pty_talk.py leaves out what a terminal obeys.
	for command in 'run -show-prompt' 'speculate -show-prompt'; do
		# shellcheck disable=SC2086
		TERM=xterm python3 "$COHORT_SOURCE/tests/e2e/pty_talk.py" "$bin/cohort" $command -n 16 \
			-grammar 'root ::= "\x1b[31mred\x07"' "$(printf 'a\033[1mb')" >"$tmp/out" 2>"$tmp/err" <<'EOF'
expect a^[[1mb
expect ^[[31mred^G
end 0
EOF
		rc=$?
		[ "$rc" = 0 ]
		verdict "${command% *}: no control characters to a terminal"
	done
else
	skip 'terminal' 'no python3 with pty'
fi
run cohort run x -n 0
[ "$rc" = 0 ] && empty err
verdict 'run: no tokens'

# ---- Searches ----
# Seen red with: one beam for all; groups that are not made; texts of another seed; the last of several; the whole match for
# the group; the answer of the fewest; end tokens that end nothing, or a text with -ignore-eos; options about beams that are
# taken without.

run cohort run 'Once upon a time' -n 24 -beams 1
[ "$rc" = 0 ] && empty err && same out one
verdict 'run: one beam is the greedy text'
run cohort run 'Once upon a time' -n 24 -beams 5 -v -temp 1.7 -seed 4
keep out beams
beam_score=$(sed -n 's/.*text 0: score \(-[0-9.]*\), .*/\1/p' "$tmp/err")
# shellcheck disable=SC2086
run cohort run 'Once upon a time' -n 24 -beams 5 -t 3 $slowest
[ "$rc" = 0 ] && same out beams
verdict 'run: beams do not depend on temperature, seed, threads or level'
run cohort run 'Once upon a time' -n 24 -beams 1 -v
greedy_score=$(sed -n 's/.*text 0: score \(-[0-9.]*\), .*/\1/p' "$tmp/err")
[ "$rc" = 0 ] && awk -v a="$beam_score" -v b="$greedy_score" 'BEGIN { exit !(a < 0 && a > b) }'
verdict 'run: five beams find a likelier text than one'
run cohort run 'Once upon a time' -n 12 -beams 4 -np 4 -v
[ "$rc" = 0 ] && [ "$(grep -c '^Continuation [0-3]:$' "$tmp/out")" = 4 ] &&
	sed -n 's/.*score \(-[0-9.]*\), .*/\1/p' "$tmp/err" >"$tmp/scores" && sort -g -r "$tmp/scores" >"$tmp/sorted" && same scores sorted
verdict 'run: -np of the best beams, in order'
[ "$(grep -A 1 '^Continuation' "$tmp/out" | grep -v '^Continuation\|^--' | sort -u | wc -l)" = 4 ]
verdict 'run: ... which differ'
first_words() { grep -A 1 '^Continuation' "$tmp/out" | grep -v '^Continuation\|^--' | cut -c 1-4 | sort -u | wc -l; }
run cohort run 'The cat' -n 8 -beams 4 -np 4
alike=$(first_words)
run cohort run 'The cat' -n 8 -beams 4 -beam-groups 4 -diversity 4 -np 4
[ "$rc" = 0 ] && [ "$(first_words)" -gt "$alike" ]
verdict 'run: -beam-groups begin differently'
run cohort run 'Well?' -grammar 'root ::= "yes" | "no"' -beams 3 -np 2 -v
[ "$rc" = 0 ] && [ "$(grep -Ec '^(yes|no)$' "$tmp/out")" = 2 ] && [ "$(grep -c ', finished$' "$tmp/err")" = 2 ]
verdict 'run: beams with a grammar, finished by the end token'
run cohort run 'Data:' -j "$schema" -n 4 -beams 2
[ "$rc" = 0 ] && matches err 'cut before the end that the grammar wants'
verdict 'run: a beam cut by the limit says so'
run cohort run 'Once upon a time' -n 300 -beams 2 -ignore-eos -v
[ "$rc" = 0 ] && has err '300 tokens, cut'
verdict 'run: beams with -ignore-eos'
run cohort run 'Once upon a time' 'The cat' -n 24 -beams 5
sed -n '/^Prompt 0 (Once upon a time):$/,/^$/p' "$tmp/out" | sed '1d;/^$/d' >"$tmp/first"
sed '/^$/d' "$tmp/beams" >"$tmp/beams2"
[ "$rc" = 0 ] && same first beams2
verdict 'run: beams of several prompts'

run cohort run 'Once upon a time' -n 20 -np 6 -seed 5 -logprobs 0
awk '/^Continuation/ { n = $2 + 0 } /log-probability/ { sub(",", "", $2); print $2, n }' "$tmp/out" | sort -g -r | head -n 1 >"$tmp/best"
best=$(cut -d ' ' -f 2 "$tmp/best")
run cohort run 'Once upon a time' -n 20 -np 6 -seed 5
sed -n "/^Continuation $best:\$/,/^Continuation $((best + 1)):\$/p" "$tmp/out" | sed '/^Continuation/d;/^$/d' >"$tmp/want"
run cohort run 'Once upon a time' -n 20 -best-of 6 -seed 5
sed '/^$/d' "$tmp/out" >"$tmp/got"
[ "$rc" = 0 ] && empty err && same got want
verdict 'run: -best-of is the likeliest of the same -np'
keep out best_of
run cohort run 'Once upon a time' -n 20 -best-of 6 -seed 5 -c 64
[ "$rc" = 0 ] && same out best_of
verdict 'run: -best-of when they take turns'
run cohort run 'Well?' -grammar 'root ::= "I say " ("yes" | "no" | "so") "."' -n 20 -best-of 9 -vote 'say ([a-z]+)' -seed 2 -temp 5 -v
votes=$(sed -n 's/.*: \([0-9]*\) of 9 texts answer .*/\1/p' "$tmp/err" | head -n 1)
winner=$(sed -n "s/.* of 9 texts answer '\([a-z]*\)'.*/\1/p" "$tmp/err" | head -n 1)
most=$(sed -n 's/.*: \([0-9]*\) of 9 texts answer .*/\1/p' "$tmp/err" | sort -n -r | head -n 1)
sum=$(sed -n 's/.*: \([0-9]*\) of 9 texts answer .*/\1/p' "$tmp/err" | awk '{ n += $1 } END { print n }')
[ "$rc" = 0 ] && is out "$winner" && matches out '^(yes|no|so)$' && [ "$votes" = "$most" ] && [ "$sum" = 9 ]
verdict 'run: -vote prints the answer of most'
# What was elected is said without -v as well. Red with counts that only -v shows, and with ties that are taken for majorities.
vote() { run cohort run 'Well?' -grammar "root ::= $1" -n 20 -best-of "$2" -vote "$3" -seed "$4" -temp 5; }
vote '" yes" | " no"' 9 'yes|no' 1
[ "$rc" = 0 ] && matches err "^cohort run: prompt 0: [5-9] of 9 texts answer '(yes|no)'\$" && [ "$(grep -c answer "$tmp/err")" = 1 ]
verdict 'run: a vote says how many texts agreed'
vote '" yes"' 4 'ye(s)' 1
[ "$rc" = 0 ] && is out s && matches err "prompt 0: 4 of 4 texts answer 's'\$"
verdict 'run: a vote that all agree on'
tie=
for seed in 1 2 3 4 5 6 7 8 9 10 11 12; do
	vote '" yes" | " no"' 2 'yes|no' $seed
	if has err ', as many as '; then tie=y; break; fi
done
[ "$tie" ] && matches err "prompt 0: 1 of 2 texts answer '(yes|no)', as many as '(yes|no)'; the likeliest text decides\$"
verdict 'run: a vote that is a tie'
vote '" yes" | " no"' 9 'y(es)|n(x)' 1
[ "$rc" = 0 ] && is out es && has err ' have no answer'
if [ "$(sed -n 's/.*: \([0-9]\) of 9 texts answer.*/\1/p' "$tmp/err")" -lt 5 ]; then has err ', which is no majority'; else ! has err 'majority'; fi
verdict 'run: a vote with texts that have no answer'
run cohort run x -n 4 -best-of 2 -vote 'qqqq'
refused 1 'matches none of 2 texts'
verdict 'run: a vote without answers'
# Shown red by writing on: then it takes half a minute of a processor.
# shellcheck disable=SC3045
unread() { (ulimit -t 10 && "$bin/cohort" run 'Once upon a time' -n 1000 -temp 0 -ignore-eos -isa ref -t 1; echo $? >"$tmp/code") | head -c 4; }
run unread
[ "$(cat "$tmp/code")" = 4 ] && empty err
verdict 'run: ends when nobody reads it any more'
# Seen red with no tokens taken for a prompt.
python3 "$COHORT_SOURCE/tests/e2e/add_flag.py" "$model" "$tmp/no_bos.gguf" tokenizer.ggml.add_bos_token 0
run cohort run -m "$tmp/no_bos.gguf" ''
refused 2 'prompt 0 is empty and the model has no begin token'
verdict 'run: an empty prompt of a model without a begin token'
for bad in '-beams 2 -best-of 2' '-beams 2 -vote x' '-vote x' -early-stop '-length-penalty 1' '-beam-groups 2' '-diversity 1' '-beams 4 -beam-groups 3' \
	'-beams 4 -diversity 1' '-beams 2 -np 3' '-best-of 3 -np 2' '-beams 3 -stop x' '-best-of 3 -logprobs 1' '-best-of 2 -vote (' '-beams 2 -n 0' '-beams 300 -c 512'; do
	# shellcheck disable=SC2086
	run cohort run x $bad
	[ "$rc" = 2 ] && empty out && ! empty err
	verdict "run: $bad is refused"
done
