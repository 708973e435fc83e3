#!/bin/sh
# Published models against what their own implementations say (../shared/real): greedy texts of llama2.c, likeliest tokens
# of F32 weights. The 15M file has Q8_0 weights: it begins as the F32 text does, and then takes another word where two
# are nearly as likely.
# Seen red with the rotary base of the file doubled, and with rotary halves in place of pairs.
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"

real=$shared/real
if [ ! -f "$real/stories260K-f32.gguf" ]; then
	skip 'real models' '../shared/real is not here'
	exit 0
fi

# begins_as TEXT_FILE N: the first N bytes, but for a space in front, are those of the file.
begins_as() {
	sed '1s/^ //' "$tmp/out" | head -c "$2" >"$tmp/got"
	head -c "$2" "$real/expected/$1.txt" >"$tmp/want"
	same got want
}

run cohort run -m "$real/stories260K-f32.gguf" -temperature 0 -n 256 ''
[ "$rc" = 0 ] && begins_as stories260K.greedy 565
verdict 'stories260K: the greedy text of llama2.c'
run cohort run -m "$real/stories15M-Q8_0.gguf" -temperature 0 -n 60 ''
[ "$rc" = 0 ] && begins_as stories15M.greedy 190
verdict 'stories15M: the greedy text of llama2.c'
run cohort run -m "$real/stories15M-Q8_0.gguf" -temperature 0 -n 30 -show-prompt 'One day, Lily met a Shoggoth'
[ "$rc" = 0 ] && begins_as stories15M.shoggoth 66
verdict 'stories15M: what follows a prompt'

run cohort logits -m "$real/stories15M-Q8_0.gguf" --tokens "$real/expected/stories15M.ids" -o "$tmp/logits"
[ "$rc" = 0 ] && python3 - "$tmp/logits" "$real/expected/stories15M.argmax" <<'PY' >"$tmp/out" 2>"$tmp/err"
import array, sys
want = [int(w) for w in open(sys.argv[2]).read().split()]
rows = array.array("f", open(sys.argv[1], "rb").read())
n = len(rows) // len(want)
assert n == 32000, n
got = [row.index(max(row)) for row in (rows[i * n:(i + 1) * n] for i in range(len(want)))]
same = sum(a == b for a, b in zip(got, want))
print("# %d of %d likeliest tokens" % (same, len(want)))
assert same >= 0.95 * len(want), same
PY
verdict 'stories15M: the likeliest tokens of F32 weights'

