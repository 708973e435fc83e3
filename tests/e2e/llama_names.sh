#!/bin/sh
# What people type who know llama.cpp or ollama: its options under their names, models as operands, commands that are
# not here. Shown red by the version before there were aliases (every case).
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"

# value NAME VALUE: so says -show-config.
value() { awk -v n="$1" -v v="$2" '$1 == n { ok = $2 == v } END { exit !ok }' "$tmp/out"; }
note() { [ "$(grep -c -F -e "$1 has no effect: " "$tmp/err")" = "${2-1}" ]; }

# ---- the same option under another name ----

run cohort serve --ctx-size 512 --parallel 3 --batch-size 64 --ubatch-size 32 --n-predict 7 --threads 1 --temp 0.5 \
	--chat-template-file t --threads-http 2 --timeout 30 --ssl-key-file k --ssl-cert-file c --no-webui --no-cache-prompt --no-repack -show-config
[ "$rc" = 0 ] && empty err && value ctx 512 && value n-parallel 3 && value batch 64 && value ubatch 32 && value n-predict 7 && value temperature 0.5 &&
	value chat-template '"t"' && value http-threads 2 && value write-timeout 30 && value tls-key '"k"' && value tls-cert '"c"' && value no-page true &&
	value no-reuse true && value file-layout true
verdict 'serve: names of llama-server'
run cohort bench -p 8 -n 4 -r 1 -ctk f16 -show-config
[ "$rc" = 0 ] && value npp '"8"' && value ntg '"4"' && value kv-type '"f16"'
verdict 'bench: names of llama-bench'
run cohort run --help
[ "$rc" = 0 ] && has out '-ctx, -c, -ctx-size N'
verdict 'help has the aliases'

# ---- options that change nothing here ----

run cohort serve -ngl 99 -fa on --flash-attn -cb --cont-batching --no-warmup --numa distribute --jinja --metrics --slots --kv-unified --embeddings \
	--cache-type-k f16 -ctv=f16 --cache-ram 0 -sm row --mmap --log-disable -show-config
[ "$rc" = 0 ] && value model not && note -ngl && note -fa && note --flash-attn && note -cb && note --cont-batching && note --no-warmup && note --numa && note --jinja &&
	note --metrics && note --slots && note --kv-unified && note --cache-type-k && note -ctv=f16 && [ "$(wc -l <"$tmp/err")" = 18 ]
verdict 'serve: options without a meaning are accepted, with one line each'
run cohort run -ngl 99 -b 64 -n 2 -temp 0 'Once upon a time'
[ "$rc" = 0 ] && is out ', there' && note -ngl && note -b
verdict 'run: the same'
run cohort run -n 2 -temp 0 -fa 'Once upon a time'
[ "$rc" = 0 ] && is out ', there' && note -fa
verdict 'a switch does not take the prompt for its value'

# ---- options that would change answers ----

no() { # TEXT OPTION...
	why=$1
	shift
	run cohort serve "$@"
	refused 2 "cohort serve: ${1%%=*}: $why" && [ "$(wc -l <"$tmp/err")" = 1 ]
	verdict "serve: $*"
}
no 'embeddings are made as' --pooling last
no 'thinking is not told apart' --reasoning-format deepseek
no 'the cache is of type f16' --cache-type-k q8_0
no 'the cache is of type f16' -ctv q4_0
no 'cohort does not download' -hf ggml-org/gemma-3-1b-it-GGUF
no 'there is no reranking' --reranking
no 'nothing is discarded' --keep 4
no 'the log goes to standard error' --log-file x.log
no "the server has no draft models yet; 'cohort speculate' has them" -md draft.gguf
no 'positions are rotated' --rope-freq-base 10000
no 'cohort does not download' --model-url=http://localhost/x.gguf
run cohort serve -hf
refused 2 '-hf: cohort does not download'
verdict 'an option of llama.cpp without its value'
run cohort embed --pooling last -show-config x
[ "$rc" = 0 ] && value pooling '"last"'
verdict 'an own option of the same name counts'

# ---- commands of ollama ----

for c in pull list ps; do
	run cohort $c llama3.2
	refused 2 "there is no '$c': models are files" && has err 'downloads none'
	verdict "cohort $c"
done

# ---- a model as an operand ----

cp "$model" "$tmp/odd name"
for m in tl.gguf "$model" "$tmp/odd name"; do
	run cohort run "$m" "it's" -n 3
	# Red where a file is known by its name alone.
	refused 2 "'$m' is a model file; a model goes behind -model" && tail -n 1 "$tmp/err" | sed 's/^Try: //' >"$tmp/command" &&
		{ [ "$(tail -n 1 "$tmp/err" | cut -c 1-20)" = 'Try: cohort run -m t' ] || [ "$m" != tl.gguf ]; }
	verdict "run: ${m##*/} is no prompt"
done
# What is suggested works.
prog=$(cat "$tmp/command")
PATH=$bin:$PATH sh -c "$prog" >"$tmp/out" 2>"$tmp/err"
rc=$?
[ "$rc" = 0 ] && ! empty out
verdict 'the command line that is suggested runs'
for c in 'chat' 'serve' 'speculate' 'tree' 'tokenize' 'embed'; do
	run cohort $c some.gguf
	refused 2 "'some.gguf' is a model file" && has err "Try: cohort $c -m some.gguf"
	verdict "$c"
done
run batched some.gguf -n 3
refused 2 "'some.gguf' is a model file; a model goes behind -model" && has err 'Try: batched -m some.gguf -n 3'
verdict 'batched'
# Red with the text as an operand, which these do not take.
run batched "$model" "it's" -n 3
refused 2 'is a model file' && sed -n 's/^Try: //p' "$tmp/err" >"$tmp/command" && PATH=$bin:$PATH sh "$tmp/command" >"$tmp/out" 2>"$tmp/err" && has out "it's"
verdict 'batched: a text behind the model'
run cohort chat some.gguf hi there -n 3
refused 2 'is a model file' && matches err '^Try: cohort chat -m some.gguf -n 3$'
verdict 'chat: a text behind the model'
# Red when any text that ends in a file's name is taken for it.
run cohort run -n 2 -temp 0 'Tell me of some.gguf'
[ "$rc" = 0 ] && ! empty out
verdict 'a text that ends in the name of a model'
run cohort run -m "$model" some.gguf
refused 2 'a text of this name behind --' && ! has err 'Try:'
verdict 'a model is given already'
run cohort tokenize -format count -- some.gguf
[ "$rc" = 0 ] && ! empty out
verdict 'behind --: a text'
run cohort tokenize -format count "$tmp"
[ "$rc" = 0 ] && ! empty out
verdict 'a folder is no model'
# Red without the note.
run cohort run llama3.2 hi -n 2
[ "$rc" = 0 ] && has err "note: 'llama3.2' is taken as a prompt; a model is a file, given with -m FILE"
verdict "a model's name where a prompt is expected: said"
run cohort serve --single-turn
refused 2 'cohort chat'
run cohort serve --spec-type x
refused 2 'no draft models yet'
verdict 'options of newer versions: refused with the reason'
run cohort serve --color auto --perf --direct-io --check-tensors -show-config
[ "$rc" = 0 ] && [ "$(grep -c 'has no effect' "$tmp/err")" = 4 ]
verdict 'options of newer versions: accepted where no answer depends on them'
