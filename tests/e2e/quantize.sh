#!/bin/sh
# cohort quantize: files that the other commands take, what it says, and what it refuses.
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"

"$bin/cohort" synth -s n_vocab=300,n_embd=256,n_layer=3,n_head=8,n_head_kv=2,n_ff=512 -t F16 -o "$tmp/f16.gguf" || exit 1
quantize() { # ARGUMENT...: writes $tmp/x.gguf
	rm -f "$tmp/x.gguf"
	run cohort quantize "$@"
}
nothing_left() { [ ! -e "$tmp/x.gguf" ] && [ -z "$(find "$tmp" -name '.cohort-*')" ]; }

# ---- What it does ----

quantize "$tmp/f16.gguf" "$tmp/x.gguf" Q4_K_M
[ "$rc" = 0 ] && empty err && [ "$(wc -l <"$tmp/out")" = 1 ] &&
	matches out '^30 tensors, 23 converted: [0-9.]+ MiB -> [0-9.]+ MiB, [0-9.]+ bits per weight, [0-9.]+ s$'
verdict 'one line says what was done'
keep x.gguf a.gguf
run cohort info --tensors -m "$tmp/a.gguf"
[ "$rc" = 0 ] && matches out '^runs here +yes' && matches out 'blk.0.attn_q.weight Q4_K' && matches out 'output.weight Q6_K' &&
	matches out 'blk.0.attn_norm.weight F32' && has out 'general.file_type = 15'
verdict 'info says that it runs, and in which formats'
printf '1 270 12 299' >"$tmp/ids"
run cohort logits -m "$tmp/a.gguf" --tokens "$tmp/ids" -o "$tmp/logits"
[ "$rc" = 0 ] && [ "$(wc -c <"$tmp/logits")" = 4800 ]
verdict 'logits come out of it'
for n in 1 3; do
	quantize -t "$n" "$tmp/f16.gguf" "$tmp/x.gguf" q4_k_m
	[ "$rc" = 0 ] && same a.gguf x.gguf
	verdict "the same bytes with -t $n"
done

quantize --errors "$tmp/f16.gguf" "$tmp/x.gguf" Q8_0
[ "$rc" = 0 ] && empty err && [ "$(wc -l <"$tmp/out")" = 32 ] && matches out '^tensor .* rms error +max error$' &&
	matches out '^blk.2.ffn_up.weight +256 x 512 +F16 -> Q8_0 .* MiB +[0-9.]+e-03 +[0-9.]+e-04$' &&
	matches out '^blk.2.ffn_norm.weight +256 +F32 -> F32 .* 0.000e\+00 +0.000e\+00$'
verdict '--errors'
quantize --dry-run "$tmp/f16.gguf" "$tmp/x.gguf" Q8_0
[ "$rc" = 0 ] && empty err && [ "$(wc -l <"$tmp/out")" = 32 ] && has out '(nothing was written)' && nothing_left
verdict '--dry-run'
keep out dry
quantize --dry-run "$tmp/f16.gguf" Q8_0
[ "$rc" = 0 ] && same out dry
verdict '--dry-run without an output'
quantize --pure --token-embedding-type Q8_0 --output-tensor-type f16 "$tmp/f16.gguf" "$tmp/x.gguf" Q4_K_M
[ "$rc" = 0 ] && run cohort info --tensors -m "$tmp/x.gguf" && matches out 'token_embd.weight Q8_0' &&
	matches out 'output.weight F16' && matches out 'blk.0.attn_v.weight Q4_K' && ! has out Q6_K
verdict '--pure and formats of their own'
"$bin/cohort" synth -s n_vocab=300,n_embd=96,n_layer=1,n_head=4,n_ff=96 -t BF16 -o "$tmp/rows.gguf"
quantize "$tmp/rows.gguf" "$tmp/x.gguf" Q4_K_S
[ "$rc" = 0 ] && has err 'note: 8 tensors got a larger format, as the row length is not a multiple of the block size'
verdict 'a note where the row length is not a multiple of the block size'
quantize --dry-run "$tmp/rows.gguf" Q4_K_S
[ "$rc" = 0 ] && matches out 'blk.0.attn_q.weight .* BF16 -> Q5_0 .* instead of Q4_K$'
verdict 'and which'
quantize --allow-requantize "$tmp/a.gguf" "$tmp/x.gguf" Q3_K_S
[ "$rc" = 0 ] && run cohort info -m "$tmp/x.gguf" && matches out '^runs here +yes' && has out 'Q3_K'
verdict '--allow-requantize'
printf old >"$tmp/x.gguf"
run cohort quantize "$tmp/f16.gguf" "$tmp/x.gguf" Q4_K_M
[ "$rc" = 0 ] && same a.gguf x.gguf
verdict 'what was there is replaced'

# ---- What it refuses ----

refuse() { # CODE NAME TEXT ARGUMENT...
	code=$1
	what=$2
	text=$3
	shift 3
	quantize "$@"
	refused "$code" "$text" && nothing_left
	verdict "refused: $what"
}
refuse 2 'no operands' 'IN.gguf is missing'
refuse 2 'one operand' 'OUT.gguf is missing' "$tmp/f16.gguf"
refuse 2 'two operands' 'FORMAT is missing' "$tmp/f16.gguf" "$tmp/x.gguf"
refuse 2 'four operands' "unexpected argument 'more'" "$tmp/f16.gguf" "$tmp/x.gguf" Q4_0 more
refuse 2 'an unknown format lists the known ones' 'Q4_K_S, Q4_K_M' "$tmp/f16.gguf" "$tmp/x.gguf" Q7
refuse 2 'an unknown format of the embedding' "token embedding: format 'Q7'" --token-embedding-type Q7 "$tmp/f16.gguf" "$tmp/x.gguf" Q4_0
refuse 2 'what is quantised already' 'is Q6_K already' "$tmp/a.gguf" "$tmp/x.gguf" Q8_0
has err '-allow-requantize does it'
verdict 'what is quantised already: which option does it'
refuse 2 'its own input' 'is the input itself' "$tmp/f16.gguf" "$tmp/./f16.gguf" Q8_0
refuse 2 'threads that are no number' 'whole number' -t x "$tmp/f16.gguf" "$tmp/x.gguf" Q8_0
refuse 3 'an input that is not there' "cannot use the model $tmp/no.gguf" "$tmp/no.gguf" "$tmp/x.gguf" Q8_0
refuse 3 'a directory for an input' 'is a directory' "$tmp" "$tmp/x.gguf" Q8_0
head -c 3000 "$tmp/f16.gguf" >"$tmp/cut.gguf"
refuse 3 'a cut input' "cannot use the model $tmp/cut.gguf" "$tmp/cut.gguf" "$tmp/x.gguf" Q8_0
refuse 4 'a directory that is not there' "$tmp/no/x.gguf: cannot make" "$tmp/f16.gguf" "$tmp/no/x.gguf" Q8_0
refuse 4 'a directory for an output' 'cannot replace: Is a directory' "$tmp/f16.gguf" "$tmp" Q8_0
# The last two bytes of the file are a weight: an infinity for it.
size=$(wc -c <"$tmp/f16.gguf")
{ head -c $((size - 2)) "$tmp/f16.gguf" && printf '\000\174'; } >"$tmp/inf.gguf"
refuse 3 'a weight that is not finite' "tensor 'blk.2.ffn_down.weight': element 131071 (row 255, column 511) is infinite" \
	"$tmp/inf.gguf" "$tmp/x.gguf" Q8_0
limited() { (ulimit -f 8 && "$bin/cohort" quantize "$tmp/f16.gguf" "$tmp/x.gguf" Q8_0); }
rm -f "$tmp/x.gguf"
run limited
refused 4 'File too large' && nothing_left
verdict 'a full disk leaves nothing behind'
# Not even root may write there.
if [ -d /proc/self ]; then
	refuse 4 'a place that cannot be written' 'cannot make a temporary file' "$tmp/f16.gguf" /proc/x.gguf Q8_0
fi

# ---- Interruption ----

"$bin/cohort" synth -s n_vocab=20000,n_embd=512,n_layer=6,n_head=8,n_ff=2048 -t F16 -o "$tmp/large.gguf" || exit 1
rm -f "$tmp/x.gguf"
fresh
"$bin/cohort" quantize -t 1 "$tmp/large.gguf" "$tmp/x.gguf" Q2_K >"$tmp/out" 2>"$tmp/err" </dev/null &
pid=$!
pids="$pids $pid"
ran='cohort quantize, interrupted'
begun() { [ -n "$(find "$tmp" -name '.cohort-*')" ]; }
until_true 60 begun && kill -TERM "$pid"
rc=0
wait "$pid" || rc=$?
[ "$rc" = 130 ] && empty out && nothing_left
verdict 'a signal ends it with 130 and leaves no file'

run cohort quantize --help
[ "$rc" = 0 ] && empty err && has out 'Q3_K_L' && has out 'cohort quantize --dry-run' && has out 'OUT.gguf FORMAT'
verdict 'help'
run cohort --help
[ "$rc" = 0 ] && matches out '^  quantize '
verdict 'it is in the list of commands'
