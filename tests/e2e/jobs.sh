#!/bin/sh
# cohort jobs: answers, bad lines, order, what it refuses, and that a job that is killed at any moment goes on without
# losing or repeating a line.
#
# Shown red by: read_back that keeps an unfinished line; ids that do not carry the line's number; next_item that does not
# skip what is done; values of a line that are not counted.
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"

if ! command -v python3 >/dev/null; then
	skip 'all' 'python3 is not there'
	exit 0
fi

cat >"$tmp/tool.py" <<'PY'
"""Makes batch files and looks at results. tool.py COMMAND FILE ARGUMENT..."""
import json, random, sys

def load(path):
    return [json.loads(line) for line in open(path, encoding="utf-8")]

def line(i, url, body):
    return json.dumps({"custom_id": "r%d" % i, "method": "POST", "url": url, "body": body})

def make(path, n, seed):  # requests of all kinds, some of them no good
    r = random.Random(int(seed))
    words = "Tom Lily dog cat tree big little happy the a was and".split()
    out = []
    for i in range(int(n)):
        text = " ".join(r.choice(words) for _ in range(r.randint(1, 30)))
        body = {"seed": r.randint(0, 9), "max_tokens": r.choice([1, 5, 20, 60]), "temperature": r.choice([0, 0.7, 1.5])}
        k = r.randint(0, 11)
        if k < 4:
            out.append(line(i, "/v1/completions", {**body, "prompt": text, "logprobs": r.choice([None, 0, 3])}))
        elif k < 7:
            out.append(line(i, "/v1/chat/completions", {**body, "messages": [{"role": "user", "content": text}], "n": r.randint(1, 3)}))
        elif k == 7:
            out.append(line(i, "/v1/embeddings", {"input": [text, "Tom"], "encoding_format": r.choice(["float", "base64"])}))
        elif k == 8:
            out.append(line(i, "/v1/completions", {**body, "prompt": [text, text + " x"], "stop": [" a", "."]}))
        elif k == 9:
            out.append(line(i, "/v1/chat/completions", {**body, "messages": [{"role": "user", "content": text}],
                "response_format": {"type": "json_object"}}))
        elif k == 10:
            out.append(r.choice(["{", "", "[1]", "\xff", line(0, "/v1/completions", {**body, "prompt": "again"})]))
        else:
            out.append(line(i, "/v1/completions", {**body, "prompt": text, "temperature": "hot"}))
    open(path, "w", encoding="utf-8").write("\n".join(out) + "\n")

def normal(path, to, ordered="no"):  # without what a run's time and company decide
    lines = load(path)
    for l in lines:
        body = (l["response"] or {}).get("body", {})
        body.pop("created", None)
        body.get("usage", {}).pop("prompt_tokens_details", None)
    if ordered == "no":
        lines.sort(key=lambda l: l["id"])
    open(to, "w").write("".join(json.dumps(l, sort_keys=True) + "\n" for l in lines))

def expect(path, custom_id, expression):  # a Python expression over r (the line), b (its body), c (its first choice)
    found = [l for l in load(path) if l["custom_id"] == (None if custom_id == "null" else custom_id)]
    assert found, "no line with this custom_id"
    for r in found:
        b = (r["response"] or {}).get("body") or {}
        c = (b.get("choices") or [None])[0]
        try:
            if eval(expression, {"r": r, "b": b, "c": c, "json": json}):
                return
        except (KeyError, TypeError, IndexError):
            pass
    sys.exit("%s: %s" % (expression, json.dumps(found)[:600]))

def counts(path):  # ids are unique
    lines = load(path)
    assert len({l["id"] for l in lines}) == len(lines), "an id came twice"
    print(len(lines))

globals()[sys.argv[1]](*sys.argv[2:])
PY
tool() { python3 "$tmp/tool.py" "$@" >"$tmp/out" 2>"$tmp/err"; }
jobs() { run cohort jobs "$@"; }
whole() { [ "$(tail -c 1 "$1" | od -An -c | tr -d ' ')" = '\n' ]; }

# ---- Answers ----

req() { # ID URL BODY
	printf '{"custom_id":"%s","method":"POST","url":"%s","body":%s}\n' "$@"
}
chat=/v1/chat/completions
comp=/v1/completions
emb=/v1/embeddings
msg='"messages":[{"role":"user","content":"Tell me a story"}]'
{
	req chat $chat "{$msg,\"max_tokens\":12,\"logprobs\":true,\"top_logprobs\":2,\"model\":\"gpt-4\"}"
	req parts $chat '{"messages":[{"role":"user","content":[{"type":"text","text":"Tell me a story"}]}],"max_tokens":12}'
	req text $comp '{"prompt":"Once upon a time","max_tokens":8,"temperature":0,"seed":5}'
	req echo $comp '{"prompt":"Once upon a time","max_tokens":8,"temperature":0,"echo":true,"logprobs":2}'
	req score $comp '{"prompt":"Once upon a time","max_tokens":0,"echo":true,"logprobs":0}'
	req many $comp '{"prompt":["Tom","Lily"],"n":2,"best_of":3,"max_tokens":4}'
	req ids $comp '{"prompt":[1,263,264],"max_tokens":4}'
	req lists $comp '{"prompt":[[1,263,264],[1,270]],"max_tokens":4}'
	req stop $comp '{"prompt":"Once upon a time","max_tokens":30,"temperature":0,"stop":" there"}'
	req json $chat "{$msg,\"max_tokens\":200,\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"x\",\"schema\":{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":\"boolean\"}},\"required\":[\"a\",\"b\"]}}}}"
	req gbnf $comp '{"prompt":"Yes or no?","grammar":"root ::= \"yes\" | \"no\"","max_tokens":9}'
	req vector $emb '{"input":"Tom"}'
	req base64 $emb '{"input":["Tom","Lily"],"encoding_format":"base64"}'
	req hot $comp '{"prompt":"x","temperature":3}'
	req suffix $comp '{"prompt":"x","suffix":"y"}'
	req long $comp "{\"prompt\":\"$(seq 2000 | tr '\n' ' ')\",\"max_tokens\":5}"
	req nine $comp '{"prompt":"x","n":9}'
	req url /v1/nothing '{"prompt":"x"}'
	req text $comp '{"prompt":"again"}'
} >"$tmp/in.jsonl"
jobs "$tmp/in.jsonl" -output "$tmp/o.jsonl"
[ "$rc" = 1 ] && empty out && has err '13 answered, 4 refused, 2 bad lines' && has err 'names another model (gpt-4)'
verdict 'a file with everything in it'
tool counts "$tmp/o.jsonl" && is out 19
verdict 'one line for each'
check() { # ID EXPRESSION NAME
	tool expect "$tmp/o.jsonl" "$1" "$2"
	verdict "$3"
}
check chat 'r["response"]["status_code"] == 200 and r["error"] is None and b["object"] == "chat.completion" and c["message"]["role"] == "assistant" and c["finish_reason"] == "length"' 'chat'
check chat 'len(c["logprobs"]["content"]) == 12 and len(c["logprobs"]["content"][0]["top_logprobs"]) == 2 and bytes(sum((t["bytes"] for t in c["logprobs"]["content"]), [])).decode() == c["message"]["content"]' 'log-probabilities of a chat'
check chat 'b["usage"]["total_tokens"] == b["usage"]["prompt_tokens"] + 12 and "cached_tokens" in b["usage"]["prompt_tokens_details"]' 'usage'
check parts 'c["message"]["content"]' 'content in parts'
check text 'c["text"] == ", there was a little girl named Lily" and r["error"] is None' 'completion'
check echo 'c["text"] == "Once upon a time, there was a little girl named Lily" and "".join(c["logprobs"]["tokens"]) == "<s> " + c["text"] and c["logprobs"]["token_logprobs"][0] is None and c["logprobs"]["text_offset"][:4] == [0, 0, 4, 9]' 'echo with log-probabilities'
check echo 'all(c["text"][o:].startswith(t.strip()) or c["text"][o:].startswith(t) for t, o in zip(c["logprobs"]["tokens"][1:], c["logprobs"]["text_offset"][1:]))' 'offsets of tokens'
check score 'c["text"] == "Once upon a time" and len(c["logprobs"]["token_logprobs"]) == 5 and b["usage"]["completion_tokens"] == 0' 'scores of a text alone'
check many '[x["index"] for x in b["choices"]] == [0, 1, 2, 3]' 'several prompts, n and best_of'
check ids 'c["text"]' 'a prompt of tokens'
check lists 'len(b["choices"]) == 2' 'prompts of tokens'
check stop 'c["text"] == "," and c["finish_reason"] == "stop"' 'stop'
check json 'sorted(json.loads(c["message"]["content"])) == ["a", "b"] and c["finish_reason"] == "stop"' 'a JSON schema'
check gbnf 'c["text"] in ("yes", "no")' 'a grammar'
check vector 'len(b["data"][0]["embedding"]) == 512 and abs(sum(x * x for x in b["data"][0]["embedding"]) - 1) < 1e-5 and b["usage"]["total_tokens"] == 2' 'an embedding'
"$bin/cohort" embed -format json Tom >"$tmp/embed.json" </dev/null
check vector 'b["data"][0]["embedding"] == json.load(open(__import__("sys").argv[2].rsplit("/", 1)[0] + "/embed.json"))["data"][0]["embedding"]' 'an embedding is that of cohort embed'
check base64 '__import__("struct").unpack("<512f", __import__("base64").b64decode(b["data"][1]["embedding"])) and b["data"][1]["index"] == 1' 'embeddings in base64'
check hot 'r["response"]["status_code"] == 400 and b["error"]["param"] == "temperature" and b["error"]["type"] == "invalid_request_error" and r["error"] is None' 'refused: a number out of range'
check suffix 'b["error"]["param"] == "suffix" and b["error"]["code"] == "unsupported_parameter"' 'refused: a suffix'
check long 'b["error"]["code"] == "context_length_exceeded"' 'refused: more than the context'
check nine 'b["error"]["param"] == "n"' 'refused: more choices than slots'
check url 'r["response"] is None and r["error"]["code"] == "invalid_url"' 'a bad url'
check text 'r["response"] is None and r["error"]["code"] == "duplicate_custom_id"' 'a custom_id that came before'
keep o.jsonl first.jsonl
jobs "$tmp/in.jsonl" -output "$tmp/o.jsonl"
[ "$rc" = 1 ] && has err '0 answered, 0 refused, 0 bad lines, 19 done before' && same o.jsonl first.jsonl
verdict 'again: nothing is left to do, and the exit code is that of the whole job'

# ---- Bad lines ----

hostile() {
	printf '\357\273\277'
	req bom $comp '{"prompt":"x","max_tokens":1}'
	printf 'no JSON\n{"a":\n[]\n"text"\n3\nnull\n{}\n\n   \t\r\n'
	printf '{"custom_id":"nul\\u0000","method":"POST","url":"/v1/completions","body":{"prompt":"a\\u0000b","max_tokens":1}}\n'
	printf 'a\000b\n{"custom_id":"raw\000"}\n{"custom_id":"\377"}\n{"custom_id":"\\ud800"}\n'
	printf '{"custom_id":5}\n{"custom_id":""}\n{"custom_id":"m1","method":"GET","url":"/v1/completions","body":{}}\n'
	printf '{"custom_id":"m2","url":3}\n{"custom_id":"m3","method":"POST","url":"/v1/completions"}\n'
	printf '{"custom_id":"m4","method":"POST","url":"/v1/completions","body":[]}\n'
	printf '{"custom_id":"crlf","method":"POST","url":"/v1/completions","body":{"prompt":"x","max_tokens":1}}\r\n'
	python3 -c 'print("[" * 100000 + "]" * 100000); print("{\"custom_id\":\"big\",\"x\":\"" + "y" * 100_000_000 + "\"}")
print("{\"custom_id\":\"deep\",\"method\":\"POST\",\"url\":\"/v1/chat/completions\",\"body\":{\"messages\":[{\"role\":\"user\",\"content\":\"x\",\"y\":" + "[" * 1500 + "]" * 1500 + "}],\"max_tokens\":1}}")
print("{\"custom_id\":\"wide\",\"method\":\"POST\",\"url\":\"/v1/completions\",\"body\":{\"prompt\":\"" + "a b " * 1_000_000 + "\"}}")
print("{\"custom_id\":\"1e999\",\"method\":\"POST\",\"url\":\"/v1/completions\",\"body\":{\"prompt\":\"x\",\"temperature\":1e999}}")
print("{\"custom_id\":\"" + "z" * 513 + "\"}")
full = "{\"custom_id\":\"" + "f" * 512 + "\",\"method\":\"POST\",\"url\":\"/v1/completions\",\"body\":{\"prompt\":\"x\",\"max_tokens\":1}}"
print(full.ljust(1 << 24)); print(full.replace("f" * 512, "over").ljust((1 << 24) + 1))
print("{\"custom_id\":\"many\",\"x\":[" + "{}," * 500_000 + "0]}")'
	printf '{"custom_id":"end","method":"POST","url":"/v1/completions","body":{"prompt":"x","max_tokens":1}}'
}
hostile >"$tmp/bad.jsonl"
jobs "$tmp/bad.jsonl" -output "$tmp/o.jsonl" -restart
[ "$rc" = 1 ] && has err '5 answered, 4 refused, 21 bad lines'
verdict 'lines that are no requests do not stop the others'
tool counts "$tmp/o.jsonl" && is out 30
verdict 'each of them has a line, blank ones have none'
check bom 'c["finish_reason"] == "length"' 'a byte order mark'
check crlf 'c["finish_reason"] == "length"' 'CRLF'
check end 'c["finish_reason"] == "length"' 'no newline at the end'
check "$(printf '%512s' '' | tr ' ' f)" 'c["finish_reason"] == "length"' 'a line of 16 MiB, with an id of 512 bytes'
check null 'r["error"]["code"] == "line_too_long"' 'a line of 100 MB'
check null 'r["error"]["code"] == "line_too_large" and "128 MiB" in r["error"]["message"]' 'a line of half a million objects'
check null 'r["error"]["code"] == "invalid_json" and "line 2:" in r["error"]["message"]' 'no JSON'
check m1 'r["error"]["code"] == "invalid_method"' 'another method'
check m3 'b["error"]["message"].startswith("the body is null")' 'no body'
check deep 'b["error"]["param"] == "messages"' 'messages that are too deep'
check wide 'b["error"]["code"] == "context_length_exceeded"' 'a prompt of 4 MB'

# ---- Order, and the same bytes in any company ----

tool make "$tmp/mix.jsonl" 60 1
jobs "$tmp/mix.jsonl" -output "$tmp/plain.jsonl"
[ "$rc" = 1 ] && tool normal "$tmp/plain.jsonl" "$tmp/plain.norm"
verdict 'a mixed file'
jobs "$tmp/mix.jsonl" -output "$tmp/ordered.jsonl" -ordered -np 3 -ctx 2048 -t 1
[ "$rc" = 1 ] && tool normal "$tmp/ordered.jsonl" "$tmp/ordered.norm" yes && same plain.norm ordered.norm
verdict '-ordered: the order of the input, and the same answers with other slots, cache and threads'

# ---- Killed at any moment ----

# kill.py SIGNAL OUTPUT COMMAND...: runs it until it has ended by itself, and kills it before that again and again: every
# other time at any moment, else soon after some more lines were written. So there is an end however slow it all is, and
# the first kills come before it however quick.
cat >"$tmp/kill.py" <<'PY'
import os, random, signal, subprocess, sys, time
r, n = random.Random(7), 0
sig, output = getattr(signal, sys.argv[1]), sys.argv[2]
def lines():
    return open(output, "rb").read().count(b"\n") if os.path.exists(output) else 0
while True:
    before, more, by_lines = lines(), r.randint(1, 9), n % 2 or n < 3
    p = subprocess.Popen(sys.argv[3:], stderr=subprocess.PIPE)
    while by_lines and p.poll() is None and lines() < before + more:
        time.sleep(0.005)
    try:
        p.wait(timeout=r.uniform(0, 0.02) if by_lines else r.uniform(0, 0.4))
    except subprocess.TimeoutExpired:
        p.send_signal(sig)
        n += 1
    err = p.communicate()[1]
    if p.returncode == 1:  # some of its lines are no good
        break
    # A signal that comes before the program catches it ends it as well.
    if p.returncode not in (-9, 130, -2):
        sys.exit("exit code %d: %s" % (p.returncode, err))
print(n)
PY
killed() { # SIGNAL [-ordered]; crash.sh kills more often
	rm -f "$tmp/k.jsonl" "$tmp/k.jsonl.journal"
	ran="cohort jobs, $1 at random ${2:-}"
	# shellcheck disable=SC2086
	python3 "$tmp/kill.py" "$1" "$tmp/k.jsonl" "$bin/cohort" jobs "$tmp/mix.jsonl" -output "$tmp/k.jsonl" ${2:-} >"$tmp/out" 2>"$tmp/err" &&
		[ "$(cat "$tmp/out")" -ge 3 ] && tool normal "$tmp/k.jsonl" "$tmp/k.norm" "${2:-no}" && same plain.norm k.norm
	verdict "$1 at random moments${2:+, $2}: the same results, none lost, none twice"
}
killed SIGKILL -ordered
killed SIGINT

# Half a line, as a kill in the middle of a write leaves it, at every kind of place.
torn() { # BYTES
	head -c "$1" "$tmp/plain.jsonl" >"$tmp/k.jsonl"
	cp "$tmp/plain.jsonl.journal" "$tmp/k.jsonl.journal"
	jobs "$tmp/mix.jsonl" -output "$tmp/k.jsonl"
	[ "$rc" = 1 ] && tool normal "$tmp/k.jsonl" "$tmp/k.norm" && same plain.norm k.norm && whole "$tmp/k.jsonl"
}
size=$(wc -c <"$tmp/plain.jsonl")
line1=$(head -n 1 "$tmp/plain.jsonl" | wc -c)
good=0
for cut in 0 1 $((line1 - 1)) "$line1" $((line1 + 1)) $((size / 2)) $((size - 1)); do
	if torn "$cut"; then good=$((good + 1)); else break; fi
done
[ $good = 7 ]
verdict 'an output that ends anywhere is taken up'

# ---- Seeds ----

# Red with one seed for all lines, with a seed that each run draws anew, and with one that is not reported.
for i in 1 2 3 4 5 6; do req s$i $comp '{"prompt":"The","max_tokens":12}'; done >"$tmp/equal.jsonl"
req own $comp '{"prompt":"The","max_tokens":12,"seed":5}' >>"$tmp/equal.jsonl"
drawn jobs "$tmp/equal.jsonl" -output "$tmp/drawn.jsonl" -ordered
seed=$(sed -n 's/.* -seed \([0-9]*\) gives the same again$/\1/p' "$tmp/err")
[ "$rc" = 0 ] && [ -n "$seed" ] && tool normal "$tmp/drawn.jsonl" "$tmp/drawn.norm" yes &&
	[ "$(sed 's/.*"text": "\([^"]*\)".*/\1/' "$tmp/drawn.norm" | sort -u | wc -l)" -ge 5 ]
verdict 'equal requests have different answers, and the seed is reported'
jobs "$tmp/equal.jsonl" -output "$tmp/given.jsonl" -ordered -np 2 -seed "$seed"
[ "$rc" = 0 ] && ! has err 'gives the same' && tool normal "$tmp/given.jsonl" "$tmp/given.norm" yes && same drawn.norm given.norm
verdict 'that seed gives the same answers'
for n in 0 1 4; do
	head -n $n "$tmp/drawn.jsonl" >"$tmp/k.jsonl"
	cp "$tmp/drawn.jsonl.journal" "$tmp/k.jsonl.journal"
	drawn jobs "$tmp/equal.jsonl" -output "$tmp/k.jsonl" -ordered
	[ "$rc" = 0 ] && tool normal "$tmp/k.jsonl" "$tmp/k.norm" yes && same drawn.norm k.norm
	verdict "a job that goes on after $n lines has the seed that it began with"
done
drawn jobs "$tmp/equal.jsonl" -output "$tmp/k.jsonl" -ordered -restart
[ "$rc" = 0 ] && tool normal "$tmp/k.jsonl" "$tmp/k.norm" yes && ! same drawn.norm k.norm
verdict '-restart draws another one'
run cohort run The -n 12 -seed 5
python3 -c 'import json, sys; print(json.dumps(sys.stdin.read()[:-1]))' <"$tmp/out" >"$tmp/want"
tool expect "$tmp/drawn.jsonl" own "c['text'] == $(cat "$tmp/want")"
verdict "a request's own seed is the one that counts"
# Red with -1 as the job's own seed, for every line.
for own in '' ',"seed":null' ',"seed":-1'; do
	for i in 1 2 3; do req s$i $comp '{"prompt":"The","max_tokens":12'"$own"'}'; done >"$tmp/none.jsonl"
	jobs "$tmp/none.jsonl" -output "$tmp/n.jsonl" -ordered -restart -seed 9
	[ "$rc" = 0 ] && tool normal "$tmp/n.jsonl" "$tmp/n.norm" yes || break
	[ -n "$own" ] || keep n.norm none.norm
	same none.norm n.norm || break
done
[ "$own" = ',"seed":-1' ] && same none.norm n.norm && [ "$(sed 's/.*"text": "\([^"]*\)".*/\1/' "$tmp/n.norm" | sort -u | wc -l)" = 3 ]
verdict 'a seed of -1 or null is none'
req one $comp '{"prompt":[1],"max_tokens":1,"model":"other"}' >"$tmp/one.jsonl"
jobs "$tmp/one.jsonl" -output "$tmp/n.jsonl" -restart
[ "$rc" = 0 ] && has err '1 prompt token (0 reused), 1 token in ' && has err '1 request names another model (other)'
verdict 'one token is said as one'
jobs "$tmp/equal.jsonl" -output "$tmp/k.jsonl" -ordered -seed 1
refused 4 'results made with -seed'
verdict 'refused: to go on with another seed'
sed 's/"cohort_jobs":[0-9]*/"cohort_jobs":1/' "$tmp/drawn.jsonl.journal" >"$tmp/k.jsonl.journal"
jobs "$tmp/equal.jsonl" -output "$tmp/k.jsonl"
refused 4 'results of another version'
verdict 'refused: results of a version whose lines had other seeds'

# ---- What a job is not mixed with ----

cp "$tmp/plain.jsonl" "$tmp/k.jsonl"
cp "$tmp/plain.jsonl.journal" "$tmp/k.jsonl.journal"
untouched() { same plain.jsonl k.jsonl; }
tool make "$tmp/other.jsonl" 60 2
jobs "$tmp/other.jsonl" -output "$tmp/k.jsonl"
refused 4 'results of another input' && untouched
verdict 'refused: the input has changed'
jobs "$tmp/mix.jsonl" -output "$tmp/k.jsonl" -seed 5
refused 4 'made with -seed 0, not 5' && untouched
verdict 'refused: other settings'
jobs "$tmp/mix.jsonl" -output "$tmp/k.jsonl" -np 2 -t 1
[ "$rc" = 1 ] && untouched
verdict 'slots and threads are no such settings'
rm "$tmp/k.jsonl.journal"
jobs "$tmp/mix.jsonl" -output "$tmp/k.jsonl"
refused 4 'no journal of this program' && untouched
verdict 'refused: a file that is no output of ours'
cp "$tmp/plain.jsonl.journal" "$tmp/k.jsonl.journal"
{ echo '{"id":"mine"}' && cat "$tmp/plain.jsonl"; } >"$tmp/k.jsonl"
jobs "$tmp/mix.jsonl" -output "$tmp/k.jsonl"
refused 4 'no result of this job (line 1)'
verdict 'refused: a line that is no result'
touch "$tmp/mix.jsonl"
jobs "$tmp/mix.jsonl" -output "$tmp/k.jsonl" -restart
[ "$rc" = 1 ] && tool normal "$tmp/k.jsonl" "$tmp/k.norm" && same plain.norm k.norm
verdict '-restart begins anew'
cp "$tmp/mix.jsonl" "$tmp/same.jsonl"
jobs "$tmp/same.jsonl" -output "$tmp/./same.jsonl"
refused 2 'the output is the input itself' && same mix.jsonl same.jsonl
verdict 'refused: the input as output'
rm -f "$tmp/k.jsonl" "$tmp/k.jsonl.journal"
"$bin/cohort" jobs "$tmp/mix.jsonl" -output "$tmp/k.jsonl" 2>/dev/null &
pid=$!
pids="$pids $pid"
begun() { [ -s "$tmp/k.jsonl" ]; }
until_true 30 begun
jobs "$tmp/mix.jsonl" -output "$tmp/k.jsonl"
refused 4 'another run is writing it'
verdict 'refused: two runs at once'
wait "$pid"

# ---- Disks and places ----

rm -f "$tmp/k.jsonl" "$tmp/k.jsonl.journal"
limited() { (ulimit -f 40 && "$bin/cohort" jobs "$tmp/mix.jsonl" -output "$tmp/k.jsonl"); }
run limited
[ "$rc" = 4 ] && empty out && has err 'File too large' && has err 'the same command goes on' && whole "$tmp/k.jsonl"
verdict 'a full disk: exit 4, whole lines only'
jobs "$tmp/mix.jsonl" -output "$tmp/k.jsonl"
[ "$rc" = 1 ] && has err 'done before' && tool normal "$tmp/k.jsonl" "$tmp/k.norm" && same plain.norm k.norm
verdict 'with room again it goes on'
jobs "$tmp/no.jsonl" -output "$tmp/x.jsonl"
refused 4 'cannot read' && [ ! -e "$tmp/x.jsonl" ]
verdict 'refused: no input'
jobs "$tmp/mix.jsonl" -output "$tmp/no/x.jsonl"
refused 4 "cannot write $tmp/no/x.jsonl: No such file"
verdict 'refused: no directory for the output'
jobs "$tmp/mix.jsonl" -output "$tmp"
refused 4 'Is a directory'
verdict 'refused: a directory'
jobs "$tmp/mix.jsonl" -output /dev/full
refused 4 'regular file'
verdict 'refused: a device'
jobs /dev/null -output "$tmp/x.jsonl"
refused 4 'regular file'
verdict 'refused: an input that cannot be read again'
: >"$tmp/empty.jsonl"
jobs "$tmp/empty.jsonl" -output "$tmp/x.jsonl"
[ "$rc" = 0 ] && empty x.jsonl
verdict 'an empty input'
jobs "$tmp/mix.jsonl"
refused 2 'give the output with -output'
verdict 'refused: no output'
jobs -output "$tmp/x.jsonl"
refused 2 'IN.jsonl is missing'
verdict 'refused: no input named'
jobs "$tmp/mix.jsonl" -output "$tmp/x2.jsonl" -pooling all
refused 2 'mean, cls or last'
verdict 'refused: an unknown pooling'
jobs "$tmp/mix.jsonl" -output "$tmp/x2.jsonl" -m "$tmp/mix.jsonl"
[ "$rc" = 3 ] && [ ! -e "$tmp/x2.jsonl" ]
verdict 'refused: no model'

# ---- Another template, and tools ----

cat >"$tmp/tools.jinja" <<'JINJA'
{{ tools | tojson if tools }}{% for m in messages %}{{ m.role }}: {{ m.content }}{% for c in m.tool_calls or [] -%}
<tool_call>{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}</tool_call>
{%- endfor %}
{% endfor %}
JINJA
say='"messages":[{"role":"user","content":"2+3?"}],"tools":[{"type":"function","function":{"name":"add","parameters":{"type":"object","properties":{"a":{"enum":[2,3]}},"required":["a"],"additionalProperties":false}}}]'
{ req must $chat "{$say,\"tool_choice\":\"required\",\"max_tokens\":200}" && req may $chat "{$say,\"max_tokens\":5}"; } >"$tmp/tools.jsonl"
jobs "$tmp/tools.jsonl" -output "$tmp/called.jsonl" -chat-template "$tmp/tools.jinja"
[ "$rc" = 0 ] && tool expect "$tmp/called.jsonl" must 'c["finish_reason"] == "tool_calls" and c["message"]["content"] is None' &&
	tool expect "$tmp/called.jsonl" must 'json.loads(c["message"]["tool_calls"][0]["function"]["arguments"])["a"] in (2, 3)' &&
	tool expect "$tmp/called.jsonl" may '"tool_calls" not in c["message"] and len(c["message"]["content"]) > 0'
verdict 'tools, with a template that knows them'
jobs "$tmp/tools.jsonl" -output "$tmp/uncalled.jsonl"
[ "$rc" = 1 ] && tool expect "$tmp/uncalled.jsonl" must 'b["error"]["param"] == "tools" and "template" in b["error"]["message"]'
verdict 'refused: tools, with one that does not'
# Red with names that are taken for files.
jobs "$tmp/tools.jsonl" -output "$tmp/x3.jsonl" -chat-template chatml
[ "$rc" = 1 ] && tool expect "$tmp/x3.jsonl" must 'b["error"]["param"] == "tools"' && ! has err 'No such file'
verdict 'a template by name'
echo '{# another #}' >>"$tmp/tools.jinja"
jobs "$tmp/tools.jsonl" -output "$tmp/called.jsonl" -chat-template "$tmp/tools.jinja"
refused 4 'chat-template'
verdict 'refused: to go on with another template'
jobs "$tmp/tools.jsonl" -output "$tmp/called.jsonl"
refused 4 'chat-template'
verdict "refused: to go on with the model's own"
echo '{% if' >"$tmp/broken.jinja"
jobs "$tmp/tools.jsonl" -output "$tmp/x2.jsonl" -chat-template "$tmp/broken.jinja"
refused 4 'cannot use the template'
verdict 'refused: a template that is none'
jobs "$tmp/tools.jsonl" -output "$tmp/x2.jsonl" -chat-template "$tmp/none.jinja"
refused 4 'none.jinja'
verdict 'refused: a template that is not there'

# ---- An encoder, a terminal, help ----

random_models "$tmp/models" bert llama-base llama-lora || exit 1
{ req e $emb '{"input":["abc de","abc"]}' && req g $comp '{"prompt":"x"}'; } >"$tmp/enc.jsonl"
jobs "$tmp/enc.jsonl" -output "$tmp/o.jsonl" -restart -m "$tmp/models/bert.gguf"
[ "$rc" = 1 ] && tool expect "$tmp/o.jsonl" e 'len(b["data"]) == 2 and b["usage"]["prompt_tokens"] > 2' &&
	tool expect "$tmp/o.jsonl" g '"encoder" in b["error"]["message"]'
verdict 'an encoder embeds, and generates nothing'
printf '%s\n' '{"custom_id":"c","method":"POST","url":"/v1/chat/completions","body":{"messages":[{"role":"user","content":"x"}]}}' >"$tmp/enc.jsonl"
jobs "$tmp/enc.jsonl" -output "$tmp/o.jsonl" -restart -m "$tmp/models/llama-base.gguf"
[ "$rc" = 1 ] && tool expect "$tmp/o.jsonl" c '"no chat template" in b["error"]["message"] and b["error"]["param"] == "messages"'
verdict 'a model without a template has no chat'
jobs "$tmp/enc.jsonl" -output "$tmp/o2.jsonl" -m "$tmp/models/llama-base.gguf" --lora-scaled "$tmp/models/llama-lora.gguf:0.5"
[ "$rc" = 1 ] && grep -q '"lora":"[^"]*llama-lora.gguf:0.5 "' "$tmp/o2.jsonl.journal"
verdict 'an adapter, which the journal knows'
# The beginning of an answer has no end token behind it, whatever the model's rule for texts is.
python3 "$COHORT_SOURCE/tests/e2e/add_flag.py" "$model" "$tmp/eos.gguf" tokenizer.ggml.add_eos_token
printf '%s\n' '{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":{"messages":[{"role":"user","content":"Hello"}],"max_tokens":8,"temperature":0}}' >"$tmp/one.jsonl"
jobs "$tmp/one.jsonl" -output "$tmp/one.out"
plain=$(sed 's/"created":[0-9]*//' "$tmp/one.out")
jobs -m "$tmp/eos.gguf" "$tmp/one.jsonl" -output "$tmp/eos.out"
[ "$rc" = 0 ] && [ -n "$plain" ] && [ "$(sed 's/"created":[0-9]*//' "$tmp/eos.out")" = "$plain" ]
verdict 'a chat of a model that puts an end token behind texts'
# On a terminal, until the line with the time left is there; then Ctrl-C.
cat >"$tmp/terminal.py" <<'PY'
import os, pty, sys
pid, fd = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], sys.argv[1:])
text, asked = b"", False
while True:
    try:
        piece = os.read(fd, 4096)
    except OSError:
        break
    if not piece:
        break
    text += piece
    if b" left" in text and not asked:
        os.write(fd, b"\x03")
        asked = True
sys.stdout.buffer.write(text)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
PY
tool make "$tmp/more.jsonl" 20000 3
run python3 "$tmp/terminal.py" "$bin/cohort" jobs "$tmp/more.jsonl" -output "$tmp/more.out"
[ "$rc" = 130 ] && matches out '[0-9]+ of 20000 lines, [0-9.]+ lines/s, [0-9]+ tokens/s, [0-9]+:[0-9][0-9]:[0-9][0-9] left' &&
	has out 'not finished; the same command goes on from here' && whole "$tmp/more.out"
verdict 'progress on a terminal, and Ctrl-C there'
jobs --help
[ "$rc" = 0 ] && empty err && has out '-ordered' && has out 'cohort jobs in.jsonl -output out.jsonl'
verdict 'help'
