#!/bin/sh
# batched -output: six formats that say the same, whatever the texts; and files that are whole or not there.
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"

if ! command -v python3 >/dev/null; then
	skip 'export' 'no python3'
	exit 0
fi

# Reads all six files of one run with Python's own parsers and holds them against each other. The texts themselves come
# from the plain run (standard output), which knows nothing of formats.
cat >"$tmp/judge.py" <<'EOF'
import base64, csv, html.parser, io, json, math, re, sys

stem, plain = sys.argv[1], sys.argv[2]
rest = sys.argv[3:]
doc = json.loads(open(stem + ".json", "rb").read().decode())   # strictly UTF-8

def true_bytes(o, key):
    if key + "_base64" in o:
        raw = base64.b64decode(o[key + "_base64"], validate=True)
        assert "\ufffd" in o[key], o
        return raw
    return o[key].encode()

def shown(raw, controls=True):
    """Bytes as text for reading: what is no UTF-8 replaced, controls as pictures."""
    out, at = "", 0
    while at < len(raw):
        for n in (1, 2, 3, 4):
            try:
                c = raw[at:at + n].decode()
                break
            except UnicodeDecodeError:
                c = None
        if c is None or n > len(raw) - at:
            c, n = "\ufffd", 1
        cp = ord(c)
        if controls and c not in "\t\n" and (cp < 32 or cp == 127):
            c = chr(0x2421 if cp == 127 else 0x2400 + cp)
        elif controls and (128 <= cp < 160 or 0x202a <= cp <= 0x202e or 0x2066 <= cp <= 0x2069):
            c = "[U+%04X]" % cp
        out, at = out + c, at + n
    return out

# ---- JSON: the numbers belong together ----
assert doc["program"] == "batched" and doc["version"] and doc["interrupted"] is ("interrupted" in rest)
for group in ("model", "run", "sampling", "statistics"):
    assert doc[group], group
for key in ("temperature", "top_k", "top_p", "min_p", "seed", "samplers", "grammar", "repeat_penalty", "mirostat"):
    assert key in doc["sampling"], key
n_seq = 0
for p in doc["prompts"]:
    for s in p["sequences"]:
        n_seq += 1
        assert len(s["tokens"]) == len(s["logprobs"])
        if s["tokens"]:
            mean = math.fsum(s["logprobs"]) / len(s["tokens"])
            assert abs(s["mean_logprob"] - mean) < 1e-6 * max(1, abs(mean)), s
            assert abs(math.log(s["perplexity"]) + mean) < 1e-6 * max(1, abs(mean)), s
        else:
            assert s["mean_logprob"] is None and s["perplexity"] is None
        assert s["finish"] in ("eog", "stop", "length", "error", "interrupted")
        assert all(x <= 0 for x in s["logprobs"])
assert doc["run"]["n_parallel"] * len(doc["prompts"]) == n_seq

# ---- The texts are those of the plain run ----
if plain != "-":
    want = b""
    for p in doc["prompts"]:
        for s in p["sequences"]:
            head = b"Sequence %d:" % s["index"]
            if len(doc["prompts"]) > 1:
                head = b"Prompt %d, sequence %d:" % (p["index"], s["index"])
            want += head + b"\n\n" + true_bytes(p, "text") + true_bytes(s, "text") + b"\n\n"
    assert open(plain, "rb").read() == want, "texts differ from the plain run"

# ---- JSON lines ----
lines = [json.loads(l) for l in open(stem + ".jsonl", "rb").read().decode().split("\n")[:-1]]
run = lines.pop(0)
assert run.pop("type") == "run" and run == {k: v for k, v in doc.items() if k != "prompts"}
for p in doc["prompts"]:
    l = lines.pop(0)
    assert l.pop("type") == "prompt" and l.pop("prompt") == p["index"]
    assert l == {k: v for k, v in p.items() if k not in ("index", "sequences")}
    for s in p["sequences"]:
        l = lines.pop(0)
        assert l.pop("type") == "sequence" and l.pop("prompt") == p["index"] and l.pop("sequence") == s["index"]
        assert l == {k: v for k, v in s.items() if k != "index"}
assert not lines

# ---- CSV ----
raw = open(stem + ".csv", "rb").read()
table = list(csv.reader(io.StringIO(raw.decode(), newline=""), strict=True))
assert raw.endswith(b"\r\n") and b"\0" not in raw
names, table = table[0], table[1:]
assert len(set(names)) == len(names) and all(len(r) == len(names) for r in table) and len(table) == n_seq
def cell_text(s):
    return s[1:] if s.startswith("'") else s
rows = [dict(zip(names, r)) for r in table]
for p in doc["prompts"]:
    for s in p["sequences"]:
        r = rows.pop(0)
        assert (int(r["prompt_index"]), int(r["sequence"])) == (p["index"], s["index"])
        for cell in r.values():   # nothing that a spreadsheet would compute
            assert not re.match(r"[=+@\t\r\n＝＋－＠]", cell) and (not cell.startswith("-") or float(cell) < 0), cell
        for name, o in (("prompt", p), ("text", s)):
            b = true_bytes(o, "text")
            if r[name + "_base64"]:
                assert base64.b64decode(r[name + "_base64"], validate=True) == b
            else:
                assert cell_text(r[name]).encode() == b, (r[name], b)
            assert cell_text(r[name]) == shown(b, False).replace("\0", "\ufffd"), r[name]
        assert json.loads(r["token_ids"]) == s["tokens"] and json.loads(r["token_logprobs"]) == s["logprobs"]
        assert json.loads(r["prompt_token_ids"]) == p["tokens"]
        assert (json.loads(r["similarity"]) if r["similarity"] else None) == (p["similarity"] and p["similarity"][s["index"]])
        for a in ("mean_logprob", "perplexity"):
            assert (float(r[a]) if r[a] else None) == s[a]
        assert r["finish"] == s["finish"] and r["likeliest"] == str(p["likeliest"] == s["index"]).lower()
        assert int(r["words_together"]) == s["words_together"] and r["interrupted"] == str(doc["interrupted"]).lower()
        assert r["version"] == doc["version"]
        # Seen red with all settings as columns: 68 of them.
        assert len(r) == 24 and list(r)[21:] == ["model_name", "sampling_temperature", "sampling_seed"], list(r)
        for group in ("model", "sampling"):
            for k, v in doc[group].items():
                if group + "_" + k not in r:
                    continue
                got = r[group + "_" + k]
                if isinstance(v, (bool, type(None))):
                    assert got == ("" if v is None else str(v).lower()), (k, got)
                elif isinstance(v, (int, float)):
                    assert type(v)(got) == v, (k, got, v)
                elif isinstance(v, str) and got is not None:
                    assert cell_text(got) == v.replace("\0", "\ufffd"), (k, got, v)

# ---- Plain text: the bytes themselves ----
txt = open(stem + ".txt", "rb").read()
for p in doc["prompts"]:
    for s in p["sequences"]:
        head = b"---- Prompt %d, sequence %d ----\n\n" % (p["index"], s["index"])
        assert head + true_bytes(s, "text") + b"\n\n" in txt, s["index"]
        assert b"\ntokens: " + b" ".join(b"%d" % t for t in s["tokens"]) + b"\n" in txt

# ---- Markdown: fences by CommonMark's rule ----
blocks, outside, fence = [], [], None
for line in open(stem + ".md", "rb").read().decode().split("\n"):
    m = re.match(r" {0,3}(`{3,}|~{3,})(.*)$", line)
    if fence is None and m and not (m.group(1)[0] == "`" and "`" in m.group(2)):
        fence, block = m.group(1), []
    elif fence is not None and m and m.group(1)[0] == fence[0] and len(m.group(1)) >= len(fence) and not m.group(2).strip():
        blocks.append("\n".join(block))
        fence = None
    elif fence is not None:
        block.append(line)
    else:
        outside.append(line)
assert fence is None
for p in doc["prompts"]:
    assert blocks.pop(0) == shown(true_bytes(p, "text")), "prompt"
    if p["shared_words"]:
        assert blocks.pop(0) == shown(true_bytes(p, "shared_text"))
    for s in p["sequences"]:
        assert blocks.pop(0) == shown(true_bytes(s, "text")), s
        ids, logs = blocks.pop(0).split("\n")
        assert [int(x) for x in ids.split()] == s["tokens"] and [float(x) for x in logs.split()] == s["logprobs"]
assert not blocks
# What everybody wants to read first: the texts. Seen red with the table of settings at the top.
heads = [l for l in outside if l.startswith("#")]
assert re.match(r"# \d+ continuations? of (one|each) prompt$", heads[0]) and heads[1].startswith("## Prompt"), heads
assert heads[-1] == "## How this was made"
facts = [l for l in outside if re.match(r"\| (model|run|sampling|statistics) \|", l)]
few = facts[:[i for i, l in enumerate(facts) if l.startswith("| model | name ")][1]]
assert any("| seed |" in l for l in few) and not any("| min\\-keep |" in l or "| min-keep |" in l for l in few), few
assert len(facts) > len(few) + 30 and len(few) < 13, few
for line in outside:
    line = re.sub(r"</?details>|</?summary>", "", line)
    assert "<" not in re.sub(r"\\.", "", line), line
    assert "\\" not in re.sub(r"\\[!-/:-@\[-`{-~]", "", line), line # before a letter it is shown. Seen red with all signs escaped.
    assert not line.startswith("|") or len(re.findall(r"(?<!\\)\|", line)) in (4, *(p["similarity"] and len(p["similarity"]) + 2 or 0 for p in doc["prompts"])), line

# ---- HTML ----
class Page(html.parser.HTMLParser):
    void = {"meta"}
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.stack, self.texts, self.tags, self.titles = [], [], set(), []
        self.inside = 0   # how deep the stack is in a text
    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        a = dict(attrs)
        assert not any(k.startswith("on") or k in ("src", "href", "srcset", "data") for k in a), attrs
        assert set(a) <= {"class", "style", "title", "dir", "lang", "charset", "name", "content", "http-equiv"}, attrs
        if "k " in a.get("class", "") and "title" in a:
            self.titles.append(a["title"])
        if tag not in self.void:
            self.stack.append((tag, a.get("class", "")))
        if a.get("class", "").split()[:1] == ["text"]:
            assert not self.inside
            self.inside = len(self.stack)
            self.texts.append((a["class"], []))
    def handle_endtag(self, tag):
        assert self.stack and self.stack[-1][0] == tag, (tag, self.stack)
        if len(self.stack) == self.inside:
            self.inside = 0
        self.stack.pop()
    def handle_data(self, data):
        if self.inside:
            self.texts[-1][1].append(data)
page_text = open(stem + ".html", "rb").read().decode()
page = Page()
page.feed(page_text)
page.close()
assert not page.stack and not page.tags & {"script", "img", "link", "iframe", "object", "a", "form", "base"}, page.tags
assert "prefers-color-scheme" in page_text and not re.search(r"url\(|@import|https?:", page_text.split("</style>")[0])
texts = [(c, "".join(t)) for c, t in page.texts]
for p in doc["prompts"]:
    c, lead = texts.pop(0)
    shared = true_bytes(p, "shared_text")
    assert c == "text lead" and lead == shown(true_bytes(p, "text") + shared), lead
    order = [i for f in p["forks"][:1] for b in f["branches"] for i in b] or [s["index"] for s in p["sequences"]]
    for i in order:
        s = p["sequences"][i]
        c, card = texts.pop(0)
        tail = true_bytes(s, "text")
        tail = tail[len(shared):] if len(order) > 1 else tail
        if s["words"] > p["shared_words"]:
            # Behind the end of what it goes on from. Seen red with the bare text, which began with a comma.
            whole = true_bytes(p, "text") + (shared if len(order) > 1 else b"")
            assert card.endswith(shown(tail.lstrip())), (i, card, shown(tail))
            grey = card[:len(card) - len(shown(tail.lstrip()))]
            gap = tail[:len(tail) - len(tail.lstrip())]
            assert shown(whole + gap).endswith(grey[2:] if grey.startswith("\u2026 ") else grey), (i, grey)
            assert grey or not whole
            assert len(whole) > 36 or grey == shown(whole + gap), (i, grey)
        else:
            assert card == ("ends here" if s["tokens"] else "nothing"), card
assert not texts
if n_seq == 1:   # every shade belongs to a token, in order; only tokens of spaces have none
    s = doc["prompts"][0]["sequences"][0]
    left = list(zip(s["tokens"], s["logprobs"]))
    for t in page.titles:
        likely, log, token = re.fullmatch(r"([\d.]+) % likely \(log (-?[\d.]+)\), token (\d+)", t).groups()
        while left[0][0] != int(token):
            left.pop(0)
        assert abs(left[0][1] - float(log)) < 6e-4 and abs(100 * math.exp(left[0][1]) - float(likely)) < 0.06, t
        left.pop(0)
    assert len(page.titles) >= 0.8 * len(s["tokens"]), (len(page.titles), len(s["tokens"]))
EOF
judge() { # PLAIN|- [interrupted]
	python3 "$tmp/judge.py" "$tmp/x" "$@" >"$tmp/judge" 2>&1 || { tail -n 5 "$tmp/judge" >"$tmp/err" && false; }
}
exported() { # NAME ARGUMENT...: a run with all six files, which say what the plain run says
	name=$1
	shift
	rm -f "$tmp"/x.*
	run batched "$@"
	keep out plain
	run batched -output "$tmp/x.txt" -output "$tmp/x.md" --output="$tmp/x.json" -o "$tmp/x.jsonl" -o "$tmp/x.csv" -o "$tmp/x.html" "$@"
	[ "$rc" = 0 ] && same out plain && judge "$tmp/plain" && nothing_left
	verdict "$name"
}
nothing_left() { [ -z "$(find "$tmp" -name '.cohort-*')" ]; }

# ---- Any text in any format ----

# Shown red with: quotes not doubled, < or & left as it is, a fence of three always, signs of Markdown not escaped, CR LF
# as LF, base64 without its padding, a control character raw in JSON, formulas let through, log-probabilities one token
# off in JSON or in HTML, no base64 field at all.
exported 'the six formats say the same'
exported 'one sequence' -n-parallel 1
exported 'nothing generated' -n-predict 0
exported 'all the same' -temperature 0 -n-predict 12
exported 'the largest seed and odd numbers' -seed 18446744073709551615 -temperature 1.1 -top-p 0.3333333333333333 -n-predict 4
printf 'Once upon a time\n&lt;i&gt; &amp; &#60;\nThe "cat", <b>\n```\n| a | b |\n=1+1\n-x\n@y\n+z\n'"'"'q\n\tt\nа \377\300\257 \0 \033[31m\n' >"$tmp/prompts"
exported 'prompts of all kinds' -prompts "$tmp/prompts" -n-parallel 2 -n-predict 6 -ctx 4096
exported 'a prompt that is no UTF-8' -prompt "$(printf 'caf\351 \355\240\200 \364\220\200\200 end\303')" -n-predict 5
forced() { # NAME GRAMMAR ARGUMENT...
	name=$1
	grammar=$2
	shift 2
	exported "$name" -grammar "$grammar" -n-predict 120 -n-parallel 2 "$@"
}
forced 'a text of markup' 'root ::= "<script>alert(1)</script>|\"quotes\", commas\n=1+1"'
forced 'a text that ends what holds it' 'root ::= "</div></article></style>--><!-- ]]> &lt; &#60; &amp; %s \\ \\n"'
forced 'a text of fences' 'root ::= "```\n# no heading\n`````\n~~~\n<details>\n- [x](y)\n````"'
for sign in '=cmd|A1' '+1' '-1' '@x' '\t=1' '\r=1' "'quoted" '＝1'; do
	forced "a text that begins like a formula: $sign" "root ::= \"$sign\""
done
forced 'a text with lines for a table' 'root ::= "a,b\r\n\"c\";d\n\n|---|"'
forced 'control characters' 'root ::= "\x1b[2J \x01\x02 \x7f \u0085 \u009b \u2028 \u202e\u2066 \ufeff"'
forced 'half a character' 'root ::= "x😀"' -n-predict 3
forced 'a grammar that is cut' 'root ::= "more words than there are tokens for them"' -n-predict 3
[ "$(python3 -c 'import json, sys; print({(s["cut"], s["finish"]) for p in json.load(open(sys.argv[1]))["prompts"] for s in p["sequences"]})' "$tmp/x.json")" = "{(True, 'length')}" ]
verdict 'a grammar that is cut: said'
# Seen red with the token that ends a text counted as one of its tokens.
forced 'a text that ends by itself' 'root ::= "yes" | "no" | "may" "be"?' -verbose
python3 - "$tmp/x.json" "$tmp/x.csv" "$tmp/err" "$bin/cohort" >"$tmp/judge" 2>&1 <<'EOF'
import csv, json, subprocess, sys
rows = list(csv.DictReader(open(sys.argv[2], newline="")))
said = open(sys.argv[3]).read()
for p in json.load(open(sys.argv[1]))["prompts"]:
    assert len(p["sequences"]) == len(rows) == 2
    for s, row in zip(p["sequences"], rows):
        command = [sys.argv[4], "detokenize", "-special", *map(str, s["tokens"])]
        text = subprocess.run(command, stdout=subprocess.PIPE, check=True)
        assert s["finish"] == row["finish"] == "eog" and s["text"] in ("yes", "no", "may", "maybe"), s
        n = len(s["tokens"])
        assert text.stdout.decode().strip() == s["text"] and 0 < n <= len(s["text"]), (s, text)
        assert len(s["logprobs"]) == len(json.loads(row["token_ids"])) == int(row["tokens"]) == n, (s, row)
        assert "  Sequence %d: %d token%s, " % (s["index"], n, "s"[:n > 1]) in said, said
EOF
verdict 'a text that ends by itself: its end is none of its tokens'
exported 'lists and texts among the options' -n-predict 3 -logit-bias 300+1 -logit-bias 301-inf -dry-multiplier 0.5 \
	-dry-sequence-breaker '"' -samplers 'top_k;temperature'
cp "$model" "$tmp/=mod\"el,<b>.gguf"
exported 'a file name of signs' -model "$tmp/=mod\"el,<b>.gguf" -n-predict 3

run batched -n-parallel 3 -seed 9 -output "$tmp/y.json"
run batched -n-parallel 3 -seed 9 -output "$tmp/z.json" -threads 1
python3 -c 'import json, sys
a, b = (json.load(open(f)) for f in sys.argv[1:])
assert a["prompts"] == b["prompts"] and a["sampling"] == b["sampling"]' "$tmp/y.json" "$tmp/z.json"
verdict 'the same seed, the same texts, tokens and log-probabilities'
printf 'Once upon a time there was a' >"$tmp/text"
run cohort tokenize --file "$tmp/text"
keep out ids
run batched -prompt 'Once upon a time there was a' -n-predict 1 -output "$tmp/y.json"
[ "$(python3 -c 'import json, sys; print(*json.load(open(sys.argv[1]))["prompts"][0]["tokens"])' "$tmp/y.json")" = "$(cat "$tmp/ids")" ]
verdict 'the tokens of the prompt are those of cohort tokenize'

# ---- Standard output ----

for f in txt md json jsonl csv html; do
	run batched -n-predict 4 -output - -output-format $f -output "$tmp/y.$f"
	[ "$rc" = 0 ] && sed '/seconds\|per.second/d' "$tmp/out" >"$tmp/a" && sed '/seconds\|per.second/d' "$tmp/y.$f" >"$tmp/b" && [ -s "$tmp/a" ] &&
		{ [ $f = csv ] || same a b; } && ! matches out '^Sequence 0:$' && has err 'Performance Statistics'
	verdict "-output - as $f: the file's contents on standard output, and nothing else"
done

# ---- What is refused, before anything is computed ----

# Shown red without the trial of the directory, and without the look at what the run reads.

refuse() { # CODE NAME TEXT ARGUMENT...
	code=$1
	what=$2
	text=$3
	shift 3
	run batched "$@"
	refused "$code" "$text" && ! has err 'Statistics' && nothing_left
	verdict "refused: $what"
}
six='.txt .md .json .jsonl .csv .html'
refuse 2 'another suffix' "$six" -output "$tmp/x.pdf"
refuse 2 'no suffix' "$six" -output "$tmp/x"
refuse 2 'a name that is a suffix only' "$six" -output "$tmp/.json"
refuse 2 'a suffix of the directory' "$six" -output "$tmp/a.json/x"
refuse 2 'no name' "$six" -output ''
refuse 2 '- without a format' 'needs an -output-format: txt, md, json, jsonl, csv or html' -output -
refuse 2 'an unknown format' "expects txt, md, json, jsonl, csv or html, got 'xml'" -output - -output-format xml
refuse 2 'a format without -' 'is for -output -' -output "$tmp/x.md" -output-format json
refuse 2 '- twice' 'once' -output - -output - -output-format json
refuse 2 '- beside -compare' 'both want standard output' -output - -output-format json -compare
refuse 2 '- beside -stream' 'both want standard output' -output - -output-format json -stream
cp "$tmp/prompts" "$tmp/mine.txt"
refuse 2 'its own prompts' 'would replace a file that this run reads' -prompts "$tmp/mine.txt" -output "$tmp/./mine.txt"
cmp -s "$tmp/prompts" "$tmp/mine.txt"
verdict 'refused: its own prompts, which are still there'
printf '{}' >"$tmp/schema.json"
refuse 2 'its own schema' 'would replace' -json-schema-file "$tmp/schema.json" -output "$tmp/schema.json"
refuse 4 'a directory that is not there' "$tmp/no/x.json: cannot make a temporary file beside it: No such file" -output "$tmp/no/x.json"
mkdir "$tmp/dir.json"
refuse 4 'a directory for a file' 'Is a directory' -output "$tmp/dir.json"
if [ -d /proc/self ]; then
	refuse 4 'a place that cannot be written' '/proc/x.json: cannot make a temporary file beside it' -output /proc/x.json
fi
mkdir "$tmp/locked"
chmod 555 "$tmp/locked"
if [ "$(id -u)" = 0 ]; then
	skip 'refused: a directory without the right to write' 'root may write anywhere'
else
	refuse 4 'a directory without the right to write' 'Permission denied' -output "$tmp/locked/x.json"
fi
mkfifo "$tmp/fifo.json"
refuse 4 'a pipe in the file system' 'not a regular file' -output "$tmp/fifo.json"

# ---- A full disk ----

# Shown red with the file written in place: what was there is lost.
limited() { (ulimit -f 8 && exec "$bin/batched" -n-parallel 2 -n-predict 8 -output "$tmp/small.jsonl" -output "$tmp/old.html" -output "$tmp/last.jsonl"); }
printf old >"$tmp/old.html"
rm -f "$tmp/small.jsonl" "$tmp/last.jsonl"
run limited
[ "$rc" = 4 ] && has err "$tmp/old.html: cannot write: File too large" && is old.html old && nothing_left
verdict 'a full disk: exit 4 with the reason, what was there is still there'
[ -s "$tmp/small.jsonl" ] && [ -s "$tmp/last.jsonl" ] && sequences 2
verdict 'a full disk: the other files and standard output have what they should'
if [ -c /dev/full ]; then
	rc=0
	ran='batched -output - >/dev/full'
	: >"$tmp/out"
	"$bin/batched" -n-predict 4 -output - -output-format json >/dev/full 2>"$tmp/err" || rc=$?
	[ "$rc" = 4 ] && has err 'cannot write to standard output: No space left'
	verdict 'standard output that is full: exit 4'
fi
printf old >"$tmp/old.md"
run batched -n-predict 4 -output "$tmp/old.md"
[ "$rc" = 0 ] && ! is old.md old && matches old.md '^# 4 continuations of one prompt'
verdict 'what was there is replaced'

# ---- Interruption ----

# Shown red with the mark left out, and with nothing written after a signal.
rm -f "$tmp"/x.*
fresh
"$bin/batched" -n-parallel 8 -n-predict 900 -ctx 16384 -ignore-eos --isa ref -threads 1 -output "$tmp/x.txt" -output "$tmp/x.md" \
	-output "$tmp/x.json" -output "$tmp/x.jsonl" -output "$tmp/x.csv" -output "$tmp/x.html" >"$tmp/out" 2>"$tmp/err" </dev/null &
pid=$!
pids="$pids $pid"
ran='batched -output, interrupted'
until_true 60 computed 40
kill -TERM "$pid"
rc=0
wait "$pid" || rc=$?
[ "$rc" = 130 ] && judge "$tmp/out" interrupted && has x.html '<b>Interrupted.</b>' && has x.md '**Interrupted:**' && has x.txt ', interrupted'
verdict 'a signal: exit 130, all files whole, with what there is and marked'
[ "$(python3 -c 'import json, sys; print({(s["finish"], len(s["tokens"]) > 0) for p in json.load(open(sys.argv[1]))["prompts"] for s in p["sequences"]})' "$tmp/x.json")" = "{('interrupted', True)}" ]
verdict 'a signal: every sequence says so'
