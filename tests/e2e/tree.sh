#!/bin/sh
# cohort tree: the tree as text, JSON and SVG, from arguments and pipes; its probabilities are those of cohort run; what
# cannot be is refused.
#
# Faults planted in prog/tree_view.c and prog/cmd_tree.c, each seen to turn this red: lines of Unicode whatever the locale;
# colours on a pipe; a last child drawn as one of several; texts that are not escaped in the picture; the sum in the place of
# a token's own log-probability; a suffix that is not looked at; a file that is there although the model is not; a grammar
# that is not opened.
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"

# ---- Text ----

run cohort tree 'Once upon a' -d 2 -k 2 -min-prob 0
[ "$rc" = 0 ] && empty err && [ "$(wc -l <"$tmp/out")" = 7 ] && [ "$(head -n 1 "$tmp/out")" = "'Once upon a'" ] &&
	matches out "^\|- ' time'  99\.[0-9]+ %$" && matches out "^\|  \`- '" && matches out "^   \|- '" && matches out "^   \`- '" &&
	[ "$(grep -c '^`- ' "$tmp/out")" = 1 ] && ! LC_ALL=C grep -q "$(printf '[\033\200-\377]')" "$tmp/out"
verdict 'tree: two levels of two, in ASCII where the locale is C'
keep out ascii
utf8() { LC_ALL=C.UTF-8 "$bin/cohort" "$@"; }
run utf8 tree 'Once upon a' -d 2 -k 2 -min-prob 0
sed 's/├─/|-/; s/└─/`-/; s/│/|/g' "$tmp/out" >"$tmp/plain"
[ "$rc" = 0 ] && has out '└─ ' && has out '│  ├─ ' && same plain ascii
verdict 'tree: the same with lines where the locale is UTF-8'
for o in '-t 1' '-t 3 -isa ref' '-no-mmap'; do
	# shellcheck disable=SC2086
	run cohort tree 'Once upon a' -d 2 -k 2 -min-prob 0 $o
	[ "$rc" = 0 ] && same out ascii
	verdict "tree: the same with $o"
done
printf 'Once upon a' >"$tmp/prompt"
from_pipe() { "$bin/cohort" tree -f - -d 2 -k 2 -min-prob 0 <"$tmp/prompt" | cat; }
run from_pipe
[ "$rc" = 0 ] && same out ascii
verdict 'tree: from a pipe to a pipe'
if python3 -c 'import pty' 2>/dev/null; then
	talk() { # VARIABLE=VALUE...: what a terminal gets, with its escape sequences
		env TERM=xterm "$@" python3 -c 'import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)' "$bin/cohort" tree 'Once upon a' -d 1
	}
	run talk NO_COLOR=
	[ "$rc" = 0 ] && has out "$(printf '\033[36m')"
	verdict 'tree: colours on a terminal'
	run talk NO_COLOR=1
	[ "$rc" = 0 ] && has out 'time' && ! has out "$(printf '\033')"
	verdict 'tree: none with NO_COLOR'
else
	skip 'tree: colours' 'no python3 with pty'
fi
run cohort tree 'Once upon a' -d 6 -k 4 -nodes 40 -min-prob 0
[ "$rc" = 0 ] && [ "$(wc -l <"$tmp/out")" = 41 ] && has err 'more than 40 nodes'
verdict 'tree: no more nodes than asked for, and it says so'
run cohort tree 'Once upon a' -d 3 -k 5 -min-prob 0.5
[ "$rc" = 0 ] && empty err && awk 'NR > 1 { for (i = 1; i < NF; i++) if ($(i + 1) == "%" && $i < 50) bad = 1; else if ($(i + 1) == "%") break } END { exit bad || NR != 4 }' "$tmp/out"
verdict 'tree: -min-prob leaves one way'
# Seen red with a default of 0: 39 lines, two thirds of them about branches of a hundredth of a percent.
run cohort tree 'Once upon a'
[ "$rc" = 0 ] && empty err && [ "$(wc -l <"$tmp/out")" -lt 20 ] && has out "' time'" && ! has out "' while'"
verdict 'tree: branches of less than one percent are left out'
run cohort tree 'Once upon a' -min-prob 1
[ "$rc" = 0 ] && [ "$(wc -l <"$tmp/out")" = 1 ] && has err 'no token has a probability of 1 or more; lower -min-prob'
verdict 'tree: nothing is likely enough, and it says so'
run cohort tree 'Is it so?' -grammar 'root ::= "yes" | "no"' -d 4 -k 9
[ "$rc" = 0 ] && matches out "^ *.*'yes' " && matches out "'no' " && matches out 'the end$' && ! matches out "'(It|He|They| )' "
verdict 'tree: -grammar'
run cohort tree "$(printf "a\033[31m\nb'")" -d 1 -k 1
[ "$rc" = 0 ] && [ "$(head -n 1 "$tmp/out")" = "'a^[[31m\\nb\\''" ]
verdict 'tree: control characters are shown'

# ---- JSON and SVG ----

run cohort tree 'Once upon a' -d 3 -k 3 -min-prob 0 -o "$tmp/t.json"
[ "$rc" = 0 ] && empty out && empty err
verdict 'tree: to a file'
run cohort tree 'Once upon a' -d 3 -k 3 -min-prob 0 -format json
[ "$rc" = 0 ] && same out t.json
verdict 'tree: -format json is the same'
run cohort run 'Once upon a' -n 3 -temp 0 -logprobs 3
keep out likeliest
if python3 -c 'import json' 2>/dev/null; then
	cat >"$tmp/check.py" <<'EOF'
import json, math, re, sys
import xml.etree.ElementTree as xml
tree = json.load(open(sys.argv[1]))
def walk(nodes, depth, before):
    n = len(nodes)
    assert n == 3 if depth < 3 else n == 0
    assert [x['logprob'] for x in nodes] == sorted((x['logprob'] for x in nodes), reverse=True)
    for x in nodes:
        assert abs(x['sum'] - before - x['logprob']) < 1e-6 and abs(math.exp(x['logprob']) - x['probability']) < 1e-6
        n += walk(x['children'], depth + 1, x['sum'])
    return n
assert walk(tree['children'], 0, 0.0) == 39 == tree['n_nodes'] and tree['cut'] is False
# The first way down is the greedy text, with the likeliest tokens that cohort run lists.
at = tree['children']
rows = [l for l in open(sys.argv[2]) if '|' in l]
assert len(rows) == 3
for l in rows:
    for (p, t), x in zip(re.findall(r"(-?[0-9.]+) ([0-9]+) '", l.split('|', 1)[1]), at):
        assert int(t) == x['token'] and abs(float(p) - x['logprob']) < 1e-4, (t, p, x)
    at = at[0]['children']
picture = xml.parse(sys.argv[3]).getroot()
texts = [t.text for t in picture.iter('{http://www.w3.org/2000/svg}text')]
assert len(texts) == 1 + 2 * 12 and "'<a & b>'" in texts[0], texts
lines = list(picture.iter('{http://www.w3.org/2000/svg}path'))
assert len(lines) == 12
# Lines are as thick as their whole way is likely. Seen red with the token's own probability: a thick line after a thin one.
thick = [float(l.get('stroke-width')) for l in lines]
def line(n, before):
    assert thick[n] <= before, (n, thick)
for n, t in enumerate(thick[:3]):
    for k in range(3):
        line(3 + 3 * n + k, t)
# Where they run: a leaf on each row, what is before them in the middle. Seen red with a child too many.
ways = [[float(x) for x in re.findall(r'[0-9.]+', l.get('d'))] for l in lines]
leaves = [56 + 30 * (n + 0.5) for n in range(9)]
parents = [(leaves[3 * n] + leaves[3 * n + 2]) / 2 for n in range(3)]
assert [(w[1], w[7]) for w in ways] == [((parents[0] + parents[2]) / 2, p) for p in parents] + [
    (parents[n // 3], y) for n, y in enumerate(leaves)], ways
assert [(w[0], w[6], w[8]) for w in ways] == [(24, 44, 224)] * 3 + [(224, 244, 424)] * 9, ways
assert (picture.get('width'), picture.get('height')) == ('480', '356'), picture.attrib
EOF
	run cohort tree '<a & b>' -d 2 -k 3 -min-prob 0 -o "$tmp/t.svg"
	[ "$rc" = 0 ] && empty out && run python3 "$tmp/check.py" "$tmp/t.json" "$tmp/likeliest" "$tmp/t.svg" && [ "$rc" = 0 ]
	verdict 'tree: JSON and SVG are what they say, and the numbers those of cohort run'
else
	skip 'tree: JSON and SVG' 'no python3'
fi
run cohort tree 'Once' -d 1 -k 2 -format svg -o "$tmp/named.txt"
[ "$rc" = 0 ] && grep -q '^<svg ' "$tmp/named.txt"
verdict 'tree: -format before the name'

# ---- Refused ----

run cohort tree
refused 2 'one prompt'
verdict 'tree: without a prompt'
run cohort tree a -p b
refused 2 'one prompt'
verdict 'tree: two prompts'
# Seen red with no tokens taken for a prompt.
python3 "$COHORT_SOURCE/tests/e2e/add_flag.py" "$model" "$tmp/no_bos.gguf" tokenizer.ggml.add_bos_token 0
run cohort tree -m "$tmp/no_bos.gguf" ''
refused 2 'the prompt is empty and the model has no begin token'
verdict 'tree: an empty prompt of a model without a begin token'
run cohort tree x -format dot
refused 2 "not 'dot'"
verdict 'tree: a format that does not exist'
run cohort tree x -o "$tmp/x.png"
refused 2 'say which with -format'
verdict 'tree: a suffix that says nothing'
run cohort tree x -m "$tmp/none.gguf" -o "$tmp/none.svg"
[ "$rc" != 0 ] && empty out && [ ! -e "$tmp/none.svg" ]
verdict 'tree: no file without a model'
run cohort tree x -o "$tmp/none/t.svg"
refused 4 'none'
verdict 'tree: a directory that is not there'
run cohort tree x -grammar 'root ::= "a'
refused 2 'grammar'
verdict 'tree: a grammar that is wrong'
run cohort tree x -depth 0
refused 2 'depth'
verdict 'tree: no depth'
