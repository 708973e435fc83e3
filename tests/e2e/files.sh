#!/bin/sh
# Models as files: in parts, without weights, mapped or not, and what is no model at all.
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"

echo '1 911 630 264 493' >"$tmp/ids"
run cohort logits --tokens "$tmp/ids" -o "$tmp/want"
[ "$rc" = 0 ] && [ -s "$tmp/want" ]
verdict 'the logits to compare with'

# same_logits NAME ARGUMENT...
same_logits() {
	what=$1
	shift
	rm -f "$tmp/got"
	run cohort logits --tokens "$tmp/ids" -o "$tmp/got" "$@"
	[ "$rc" = 0 ] && same got want
	verdict "logits, $what: the same bytes"
}

# ---- Mapped, copied, locked ----

for o in --no-mmap --mlock '--no-mmap --mlock' '--file-layout --no-mmap' '--file-layout --mlock' '--file-layout --no-mmap --mlock'; do
	# shellcheck disable=SC2086
	same_logits "$o" $o
done
for p in batched 'cohort run' 'cohort bench' 'cohort logits'; do
	# shellcheck disable=SC2086
	run $p --help
	[ "$rc" = 0 ] && has out '  -no-mmap ' && has out '  -mlock ' && has out '  -file-layout, '
	verdict "$p: help has the options of loading"
done
run batched -n-predict 6
keep out want.txt
run batched -n-predict 6 --no-mmap --mlock --file-layout
[ "$rc" = 0 ] && same out want.txt
verdict 'batched: the same text however the model is loaded'
run cohort run 'Once upon a time' -n 6 -temp 0
keep out want.txt
run cohort run 'Once upon a time' -n 6 -temp 0 --no-mmap --mlock --file-layout
[ "$rc" = 0 ] && same out want.txt
verdict 'run: the same text however the model is loaded'
run cohort bench -npp 2 -ntg 1 -npl 1 --no-mmap --mlock
[ "$rc" = 0 ]
verdict 'bench: copied and locked'
# Root may lock what it wants.
if (ulimit -l 8) 2>/dev/null && [ "$(id -u)" != 0 ]; then
	limited() { (ulimit -l 8 && exec "$bin/cohort" logits --tokens "$tmp/ids" -o "$tmp/got" --mlock); }
	run limited
	[ "$rc" = 0 ] && has err 'note: the weights (' && has err 'the limit is 8 KiB (ulimit -l)' && same got want
	verdict 'a limit on locked memory: a note, and the same bytes'
else
	skip 'a limit on locked memory: a note, and the same bytes' 'this user has no such limit'
fi

# ---- Parts ----

splitter=$COHORT_BUILD/test_model_files
if [ -x "$splitter" ]; then
	"$splitter" --split "$model" "$tmp/m" 3 && "$splitter" --split "$model" "$tmp/vocab.gguf" 0
	verdict 'splitting the built-in model'
	for i in 1 2 3; do same_logits "opened by part $i of 3" -m "$tmp/m-0000$i-of-00003.gguf"; done
	same_logits 'in parts and copied' -m "$tmp/m-00001-of-00003.gguf" --no-mmap

	run cohort info -m "$tmp/m-00002-of-00003.gguf" --tensors
	[ "$rc" = 0 ] && matches out "^parts +$tmp/m-00001-of-00003.gguf, [0-9]+ bytes, [0-9]+ tensors\$" &&
		matches out "^ +$tmp/m-00003-of-00003.gguf, [0-9]+ bytes, [0-9]+ tensors\$" && has out 'runs here   yes' &&
		has out ' of part 3'
	verdict 'info: the parts'
	run cohort info --tensors
	[ "$rc" = 0 ] && ! has out ' of part' && ! matches out '^parts'
	verdict 'info: a single file has none'
	run cohort info -m "$tmp/m-00001-of-00003.gguf" --json
	[ "$rc" = 0 ] && has out "\"file\": \"$tmp/m-00003-of-00003.gguf\"" && has out '"part": 3'
	verdict 'info --json: the parts'
	run cohort tokenize -m "$tmp/m-00003-of-00003.gguf" 'Once upon a time'
	keep out got.txt
	run cohort tokenize 'Once upon a time'
	[ "$rc" = 0 ] && same out got.txt
	verdict 'tokenize: by the last part'
	run cohort quantize --allow-requantize "$model" "$tmp/one.gguf" F16
	run cohort quantize --allow-requantize "$tmp/m-00001-of-00003.gguf" "$tmp/all.gguf" F16
	[ "$rc" = 0 ] && same one.gguf all.gguf
	verdict 'quantize: parts become the same single file'
	run cohort quantize --allow-requantize "$tmp/m-00001-of-00003.gguf" "$tmp/m-00002-of-00003.gguf" Q4_0
	refused 2 'is the input itself'
	verdict 'quantize: no part is written over'

	mv "$tmp/m-00002-of-00003.gguf" "$tmp/away.gguf"
	for p in info tokenize; do
		arg=
		[ $p = info ] || arg=hello
		# shellcheck disable=SC2086
		run cohort $p -m "$tmp/m-00003-of-00003.gguf" $arg
		refused 3 "part 2 of 3: $tmp/m-00002-of-00003.gguf: No such file"
		verdict "$p: a missing part"
		# shellcheck disable=SC2086
		run cohort $p -m "$tmp/away.gguf" $arg
		refused 3 "$tmp/away.gguf: part 2 of 3 of a split model, whose name must end in -00002-of-00003.gguf"
		verdict "$p: a part under another name"
	done
	cp "$tmp/m-00003-of-00003.gguf" "$tmp/m-00002-of-00003.gguf"
	run cohort run -m "$tmp/m-00001-of-00003.gguf" hello
	refused 3 "part 2 of 3: $tmp/m-00002-of-00003.gguf: split.no is 2"
	verdict 'run: a part in the wrong place'

	# ---- A vocabulary alone ----

	run cohort tokenize -m "$tmp/vocab.gguf" 'Once upon a time'
	[ "$rc" = 0 ] && same out got.txt && empty err
	verdict 'tokenize: a file without weights'
	run cohort info -m "$tmp/vocab.gguf"
	[ "$rc" = 0 ] && has out 'runs here   no: ' && has out 'has no weights: it is a vocabulary'
	verdict 'info: a file without weights'
	for p in 'batched' 'cohort run hello' "cohort logits --tokens $tmp/ids -o $tmp/got" 'cohort bench'; do
		# shellcheck disable=SC2086
		run $p -m "$tmp/vocab.gguf"
		refused 3 "$tmp/vocab.gguf: has no weights: it is a vocabulary, good for tokenising only"
		verdict "${p%% -*}: a file without weights"
	done
else
	skip 'models in parts' 'the unit tests are not built'
fi
if [ -d "$shared/vocab" ] && command -v xz >/dev/null; then
	for v in "$shared"/vocab/*.gguf.xz; do
		name=${v##*/}
		xz -dc "$v" >"$tmp/v.gguf"
		run cohort tokenize -m "$tmp/v.gguf" 'Hello world'
		[ "$rc" = 0 ] && matches out '^[0-9]+( [0-9]+)*$'
		verdict "tokenize: $name"
	done
	run cohort tokenize -m "$v" 'Hello world'
	refused 3 "$v: not a GGUF file but a file packed with xz: unpack it first"
	verdict 'tokenize: a packed file'
else
	skip 'tokenize: other vocabularies' 'none here'
fi

# ---- No model at all ----

# named NAME REASON: $tmp/x.gguf is refused with it.
named() {
	run cohort run -m "$tmp/x.gguf" hello
	refused 3 "$tmp/x.gguf: $2" && [ "$(wc -l <"$tmp/err")" = 1 ]
	verdict "$1"
}
printf '<!DOCTYPE html>\n<html><body>Please log in.</body></html>\n' >"$tmp/x.gguf"
named 'a web page' 'not a GGUF file but a web page (HTML): a download that needs a login'
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n' >"$tmp/x.gguf"
named 'a Git LFS pointer' 'not a GGUF file but a Git LFS pointer'
printf '\020\0\0\0\0\0\0\0{"__metadata__":{}}' >"$tmp/x.gguf"
named 'a safetensors file' 'not a GGUF file but a safetensors file: convert it to GGUF first'
printf 'PK\003\004and so on' >"$tmp/x.gguf"
named 'a PyTorch file' 'not a GGUF file but a zip file, as PyTorch writes models'
printf 'tjgg\003\0\0\0and so on' >"$tmp/x.gguf"
named 'an older format' 'not a GGUF file but a GGJT file, older than GGUF'
printf 'GGUF\0\0\0\003\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0' >"$tmp/x.gguf"
named 'a big-endian file' 'big-endian GGUF file (version 3 byte-swapped); only little-endian ones are supported'
printf 'GGUF\001\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0' >"$tmp/x.gguf"
named 'an old version' 'GGUF version 1, of August 2023, is not supported (2 and 3 are)'
