#!/bin/sh
# batched -compare: what stands in the columns, how wide they are, what is marked, and that no text gets out of them.
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"

if ! command -v python3 >/dev/null; then
	skip 'compare' 'no python3'
	exit 0
fi

# What the view must show, computed from the JSON of the same run by other means: words by a regular expression, all
# pairs of texts, the usual table for the longest common subsequence, widths by Python's own tables.
cat >"$tmp/judge.py" <<'EOF'
import json, re, sys, unicodedata

def cells(s):
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in s)

def alone(c):
    kind = unicodedata.category(c)
    return cells(c) == 2 or (kind[0] in "PS" and kind != "Pc" and c not in "'\u2019")

def words(text):
    """Pairs of white space and the word behind it."""
    found, gap, now = [], "", ""
    for c in text + " ":
        if now and (c.isspace() or alone(c) or alone(now[0])):
            found.append((gap, now))
            gap = now = ""
        if c.isspace():
            gap += c
        else:
            now += c
    return found

def together(a, b):
    n = 0
    while n < len(a) and n < len(b) and a[n] == b[n]:
        n += 1
    return n

def lcs(a, b):
    row = [0] * (len(b) + 1)
    for x in a:
        last = 0
        for k, y in enumerate(b):
            last, row[k + 1] = row[k + 1], last + 1 if x == y else max(row[k + 1], row[k])
    return row[-1]

def check_numbers(p):
    w = [words(s["text"]) for s in p["sequences"]]
    n = len(w)
    for i, s in enumerate(p["sequences"]):
        most = max((together(w[i], w[k]) for k in range(n) if k != i), default=0)
        assert s["words"] == len(w[i]), (s["words"], w[i])
        assert s["words_together"] == most, (i, s["words_together"], most)
        assert n == 1 or together(w[i], w[s["together_with"]]) == most, i
    if n == 1:
        assert p["similarity"] is None
        return w, 0
    shared = min(together(a, b) for a in w for b in w)
    assert p["shared_words"] == shared, (p["shared_words"], shared)
    assert p["shared_text"] == "".join(g + t for g, t in w[0][:shared])
    for i in range(n if n <= 64 else 0):
        for k in range(n):
            a, b = [t for _, t in w[i]], [t for _, t in w[k]]
            want = 2 * lcs(a, b) / (len(a) + len(b)) if a or b else 1
            assert abs(p["similarity"][i][k] - want) < 1e-12, (i, k, p["similarity"][i][k], want)
    # A fork is where texts that began alike go different ways.
    for f in p["forks"]:
        members = [i for b in f["branches"] for i in b]
        assert len({tuple(w[i][:f["words"]]) for i in members}) == 1, f
        nexts = [{tuple(w[i][f["words"]:f["words"] + 1]) for i in b} for b in f["branches"]]
        assert all(len(x) == 1 for x in nexts) and len({next(iter(x)) for x in nexts}) == len(nexts) > 1, f
    return w, shared

def columns(lines, at):
    """The columns of one row of the view: (sequence, text lines)."""
    heads, n_bars = [], lines[at].count("│")
    bars, width = [], 0
    for c in lines[at]:
        if c == "│":
            bars.append(width)
        width += cells(c)
    def cut(line):
        parts, now, width = [], "", 0
        for c in line:
            if c in "│┼" and width in bars:
                parts.append(now)
                now = ""
            else:
                now += c
            width += cells(c)
        return [p.strip() for p in parts + [now]] + [""] * (n_bars - len(parts))
    ids = [int(h.split()[1]) for h in cut(lines[at])]
    best = [h.endswith("* likeliest") for h in cut(lines[at])]
    assert len(ids) == n_bars + 1
    while not lines[at].startswith("─"):
        at += 1
    at += 1
    body = [[] for _ in ids]
    while at < len(lines) and lines[at] != "":
        for k, part in enumerate(cut(lines[at])):
            body[k].append(part)
        at += 1
    return list(zip(ids, best, body)), at

def squeeze(s):
    return re.sub(r"\s+", "", s)

def main(view, doc, width):
    text = open(view, "rb").read().decode()   # strictly UTF-8
    doc = json.load(open(doc))
    bad = [c for c in text if c != "\n" and (ord(c) < 32 or 127 <= ord(c) < 160)]
    assert not bad, bad
    lines = text.split("\n")
    widest = max(cells(l) for l in lines)
    assert widest <= width, (widest, max(lines, key=cells))
    assert not [l for l in lines if l != l.rstrip()], "spaces at the end of a line"
    starts = [i for i, l in enumerate(lines) if re.fullmatch(r"Prompt( \d+)?", l)] + [len(lines)]
    assert len(starts) == len(doc["prompts"]) + 1, starts
    for p, first, last in zip(doc["prompts"], starts, starts[1:]):
        w, shared = check_numbers(p)
        seen = {}
        at = first
        while at < last:
            if lines[at].startswith("Sequence "):
                row, at = columns(lines, at)
                for i, best, body in row:
                    assert best == (i == p["likeliest"] and len(w) > 1)
                    seen[i] = body
            at += 1
        assert sorted(seen) == list(range(len(w))), sorted(seen)
        for i, body in seen.items():
            shown = " ".join(body)
            s = p["sequences"][i]
            want = "".join(g + t for g, t in w[i][shared:])
            alone = len(w) > 1 and s["words_together"] < len(w[i])
            if alone:
                mark = shown.split("»")
                assert len(mark) == 2, (i, shown)
                leave = w[i][s["words_together"]][1]
                assert squeeze(mark[1]).startswith(leave), (i, leave, mark)
                assert squeeze(mark[0]) == squeeze("".join(g + t for g, t in w[i][shared:s["words_together"]])), (i, mark)
            if want:
                assert squeeze(shown.replace("»", "")) == squeeze(want), (i, shown, want)
            else:
                assert shown in ("(ends here)", "(nothing)"), shown
        if 1 < len(w) <= 64:
            table, across = {}, []
            for l in lines[lines.index("Similarity in percent", first) + 1:last]:
                r = l.split()
                if re.match("     ", l) and r == [str(int(r[0]) + k) for k in range(len(r))]:
                    across = r
                elif re.fullmatch(r"[-\d\s]+", l):
                    table.update({(int(r[0]), int(k)): x for k, x in zip(across, r[1:])})
            assert len(table) == len(w) ** 2, (len(table), len(w))
            for (i, k), x in table.items():
                assert x == ("-" if i == k else "%.0f" % (100 * p["similarity"][i][k])), (i, k, x)
        best = [s["mean_logprob"] for s in p["sequences"] if s["mean_logprob"] is not None]
        assert p["likeliest"] is None if not best else p["sequences"][p["likeliest"]]["mean_logprob"] == max(best)

main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
EOF
judge() { # VIEW JSON WIDTH: what was wrong is shown as the standard error of the case
	python3 "$tmp/judge.py" "$@" >"$tmp/judge" 2>&1 || { tail -n 5 "$tmp/judge" >"$tmp/err" && false; }
}
# compared WIDTH NAME ARGUMENT...: a run with -compare whose view is right.
compared() {
	width=$1
	name=$2
	shift 2
	run batched -compare -output "$tmp/x.json" "$@"
	[ "$rc" = 0 ] && judge "$tmp/out" "$tmp/x.json" "$width"
	verdict "$name"
}

# ---- Columns ----

# Shown red with: the last character of a line left out, bars one cell off, wide characters counted as narrow, the mark
# one word late, the least likely for the likeliest, another factor in the similarity, a carry lost between its 64 bits,
# a shared beginning one word short.
compared 80 'four texts, 80 columns in a pipe'
matches out '^Sequence [0-9].* │ Sequence [0-9].* │|^Sequence [0-9].* │ Sequence [0-9]'
verdict 'side by side'
matches err '^Performance Statistics:$' && ! matches out '^Sequence 0:$'
verdict 'instead of the texts one by one; statistics on standard error as always'
compared 80 'texts that stay together' -prompt 'Once upon a time' -temperature 0.5 -n-parallel 9 -n-predict 60 -seed 3
matches out '^  word [0-9]+: [0-9]+(, [0-9]+)* "' && matches out 'as [0-9]+ up to word [0-9]+' && has out 'Sequences that share the most words stand next to each other.'
verdict 'where they part is told'
compared 80 'texts of hundreds of words' -prompt 'Once upon a time' -temperature 0.5 -n-parallel 3 -n-predict 240 -ignore-eos
for w in 24 40 53 54 77 100 200 1000; do
	compared $w "-width $w" -width $w -prompt 'Once upon a time' -temperature 0.6 -n-parallel 7 -n-predict 40
done
COLUMNS=200
export COLUMNS
compared 80 'COLUMNS is for terminals' -n-parallel 12
unset COLUMNS
compared 80 'one sequence' -n-parallel 1
! matches out 'Similarity|part|likeliest|All'
verdict 'one sequence: nothing about others'
compared 80 'two of one token' -n-parallel 2 -n-predict 1
compared 80 'nothing generated' -n-predict 0
has out '(nothing)'
verdict 'nothing generated: said'
compared 80 'all the same' -temperature 0 -n-predict 12
has out 'All 4 sequences are the same' && has out '(ends here)'
verdict 'all the same: said, and shown once'
printf 'Once upon a time\nThe cat\n\nHello my name is\n' >"$tmp/prompts"
compared 80 'three prompts, a view of each' -prompts "$tmp/prompts" -n-parallel 3 -n-predict 24 -temperature 0.7
[ "$(grep -c '^Prompt [012]$' "$tmp/out")" = 3 ]
verdict 'three prompts: numbered'
compared 80 'many sequences' -n-parallel 64 -n-predict 16
compared 80 'more than have similarities' -n-parallel 65 -n-predict 8 -ctx 8192
has out 'not computed for more than 64 sequences'
verdict 'more than have similarities: said'

# ---- Texts that would like to be something else ----

# What the judge would not know as the text itself (pictures, replacements) is looked for by hand.
forced() { # GRAMMAR ARGUMENT...
	grammar=$1
	shift
	run batched -compare -width 60 -output "$tmp/x.json" -grammar "$grammar" -n-parallel 2 -n-predict 100 "$@"
}
quiet() { # no control character but line ends, and nothing that is not UTF-8
	python3 -c 'import sys
t = open(sys.argv[1], "rb").read().decode()
bad = [hex(ord(c)) for c in t if c != "\n" and (ord(c) < 32 or 127 <= ord(c) < 160 or 0x202a <= ord(c) <= 0x202e or 0x2066 <= ord(c) <= 0x2069)]
assert not bad, bad' "$tmp/out" >>"$tmp/err" 2>&1
}
# Shown red with C0, C1 and direction marks let through.
forced 'root ::= "\x1b[2J\x1b]0;title\x07 \x7f \u009b31m \u202E back \r over \x08"'
[ "$rc" = 0 ] && quiet && has out '^[[2J^[]0;title^G ^? <U+009B>31m' && has out '<U+202E>' && has out '^M' && has out '^H'
verdict 'escape sequences, C1 controls and direction marks are shown, not obeyed'
compared 60 'wide characters' -width 60 -n-parallel 3 -n-predict 400 -temperature 9 -top-k 0 -top-p 1 -min-p 0 \
	-grammar 'root ::= "吾輩は猫である。名前はまだ無い。" [a-z] "どこで生れたかとんと見当がつかぬ。何でも薄暗いじめじめした所で" "ニャーニャー泣いていた事だけは記憶している。"'
compared 40 'wide characters in a word that is longer than a line' -width 40 -n-parallel 1 -n-predict 200 \
	-grammar 'root ::= "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx가나다라마바사아자차카타파하yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy"'
forced 'root ::= "e\u0301e\u0301e\u0301e\u0301e\u0301e\u0301e\u0301e\u0301e\u0301e\u0301e\u0301e\u0301e\u0301e\u0301e\u0301e\u0301e\u0301e\u0301e\u0301e\u0301e\u0301e\u0301e\u0301e\u0301e\u0301e\u0301e\u0301e\u0301e\u0301e\u0301"' -width 24
[ "$rc" = 0 ] && quiet && ! matches out "^ *$(printf '\314\201')"
verdict 'accents stay with their letters'
forced 'root ::= "😀"' -n-predict 2
[ "$rc" = 0 ] && quiet && has out "$(printf '\357\277\275')"
verdict 'half a character is U+FFFD'
run batched -compare -prompt "$(printf '\377\033[31mred\302\233 \200')" -n-predict 8
[ "$rc" = 0 ] && quiet && has out '^[[31mred<U+009B>'
verdict 'a prompt of odd bytes'
forced 'root ::= "a │ b » c\n\n\n  indented\tby tabs"'
[ "$rc" = 0 ] && quiet && has out 'a │ b » c' && has out '  indented    by tabs'
verdict 'line ends and tabs of the text'

# ---- On a terminal ----

cat >"$tmp/terminal.py" <<'EOF'
import fcntl, os, pty, struct, sys, termios
# terminal.py COLUMNS-OF-THE-TERMINAL PROGRAM ARGUMENT...: what it writes to a terminal.
pid, fd = pty.fork()
if pid == 0:
    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 24, int(sys.argv[1]), 0, 0))
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    os.execv(sys.argv[2], sys.argv[2:])
out = b""
while True:
    try:
        part = os.read(fd, 65536)
    except OSError:
        break
    if not part:
        break
    out += part
_, status = os.waitpid(pid, 0)
sys.stdout.buffer.write(out.replace(b"\r\n", b"\n"))
sys.exit(os.waitstatus_to_exitcode(status))
EOF
on_terminal() { # COLUMNS ARGUMENT...
	rc=0
	ran="batched on a terminal: $*"
	cols=$1
	shift
	TERM=xterm python3 "$tmp/terminal.py" "$cols" "$bin/batched" -no-live -compare -output "$tmp/x.json" "$@" >"$tmp/out" 2>"$tmp/err" || rc=$?
}
plain() { sed "s/$(printf '\033')\[[0-9;]*m//g" "$tmp/out" >"$tmp/plain"; }
on_terminal 120 -n-parallel 8 -temperature 0.6
[ "$rc" = 0 ] && has out "$(printf '\033[1mPrompt')" && plain && judge "$tmp/plain" "$tmp/x.json" 120 &&
	! judge "$tmp/plain" "$tmp/x.json" 100
verdict 'a terminal of 120 columns: fitted, coloured'
NO_COLOR=1
export NO_COLOR
on_terminal 120 -n-parallel 8 -temperature 0.6
[ "$rc" = 0 ] && same out plain
verdict 'NO_COLOR: the same without colours'
COLUMNS=70
export COLUMNS
on_terminal 120 -n-parallel 8 -temperature 0.6
[ "$rc" = 0 ] && judge "$tmp/out" "$tmp/x.json" 70
verdict 'COLUMNS goes before what the terminal says'
on_terminal 120 -n-parallel 8 -temperature 0.6 -width 50
[ "$rc" = 0 ] && judge "$tmp/out" "$tmp/x.json" 50
verdict 'and -width before both'
unset COLUMNS
# Seen red with 24 columns as the least, and with headings that are not wrapped.
for w in 23 16 9; do
	on_terminal $w -prompt 'Once upon a time' -n-parallel 4 -n-predict 12 -temperature 0.6
	[ "$rc" = 0 ] && has out Sequence && has out likelie &&
		python3 -c 'import sys; sys.exit(max(len(l.rstrip("\n")) for l in open(sys.argv[1], encoding="utf-8")) > int(sys.argv[2]))' "$tmp/out" $w
	verdict "a terminal of $w columns: no line is wider"
done
unset NO_COLOR

# ---- Ends ----

run batched -compare -width 23
refused 2 '-width expects a whole number from 24 to 1000'
verdict 'refused: columns nobody can read'
run batched -width 80 -n-predict 4
[ "$rc" = 0 ] && sequences 4
verdict '-width alone changes nothing'
if [ -c /dev/full ]; then
	rc=0
	ran='batched -compare >/dev/full'
	"$bin/batched" -compare >/dev/full 2>"$tmp/err" || rc=$?
	[ "$rc" = 4 ] && has err 'No space left'
	verdict 'a full disk: exit 4'
fi
fresh
"$bin/batched" -compare -n-parallel 8 -n-predict 900 -ctx 16384 -ignore-eos --isa ref -threads 1 >"$tmp/out" 2>"$tmp/err" </dev/null &
pid=$!
pids="$pids $pid"
ran='batched -compare, interrupted'
until_true 60 computed 40
kill -TERM "$pid"
rc=0
wait "$pid" || rc=$?
[ "$rc" = 130 ] && matches out '^[0-9]+ tokens, interrupted'
verdict 'a signal: exit 130 with the view of what there is'
