"""What a server answers, to the letter, against a file: see serve_printed.sh.

usage: serve_printed.py COHORT FOLDER WANTED"""
import difflib
import json
import os
import re
import subprocess
import sys

from fault_box import Box
from serve_client import PROGRAM, Cases, Server, request

FOLDER, WANTED = sys.argv[2:4]
HI = [{"role": "user", "content": "Hi"}]
SCHEMA = {"type": "object", "properties": {"a": {"enum": ["x", "y"]}}, "required": ["a"], "additionalProperties": False}
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {"at": {"enum": ["cat", "dog"]}}, "required": ["at"]}}}
COMPLETION, CHAT, NATIVE = "/v1/completions", "/v1/chat/completions", "/completion"
ASKED = [
    ("GET", "/health", None), ("GET", "/v1/models", None), ("GET", "/v1/models/cohort-tiny", None), ("GET", "/v1/models/none", None),
    ("GET", "/props", None), ("GET", "/none", None), ("GET", COMPLETION, None), ("DELETE", CHAT, None), ("OPTIONS", "/health", None),
    ("GET", "/cohort/strategy", None), ("POST", "/cohort/strategy", {"strategy": "balanced"}), ("POST", "/slots/0?action=save", {"filename": "x"}),
    ("GET", "/v1/files", None), ("POST", "/v1/batches", {}),
    ("POST", COMPLETION, {"prompt": "The cat", "max_tokens": 4, "logprobs": 2, "echo": True}),
    ("POST", COMPLETION, {"prompt": ["The cat", "A dog"], "max_tokens": 3, "n": 2}),
    ("POST", COMPLETION, {"prompt": [1, 328, 800], "max_tokens": 3, "stop": [" was"]}),
    ("POST", COMPLETION, {"prompt": "The cat", "max_tokens": 3, "stream": True, "stream_options": {"include_usage": True}}),
    ("POST", COMPLETION, {"prompt": "Is it so?", "max_tokens": 8, "grammar": "root ::= \"yes\" | \"no\""}),
    ("POST", COMPLETION, {"prompt": "The cat", "max_tokens": 2, "best_of": 3, "seed": 11, "temperature": 1.5, "logit_bias": {"312": -100}}),
    ("POST", CHAT, {"messages": HI, "max_tokens": 4, "logprobs": True, "top_logprobs": 2}),
    ("POST", CHAT, {"messages": HI, "max_tokens": 3, "n": 2, "stream": True}),
    ("POST", CHAT, {"messages": HI, "max_tokens": 20, "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}}}),
    ("POST", CHAT, {"messages": HI, "max_tokens": 60, "tools": [TOOL], "tool_choice": "required"}),
    ("POST", CHAT, {"messages": [{"role": "system", "content": "Be brief."}] + HI, "max_completion_tokens": 2}),
    ("POST", "/v1/embeddings", {"input": ["a cat", "a dog"], "encoding_format": "base64"}),
    ("POST", "/tokenize", {"content": "The cat", "add_special": True, "with_pieces": True}),
    ("POST", "/detokenize", {"tokens": [1, 328, 800]}), ("POST", "/apply-template", {"messages": HI}),
    ("POST", NATIVE, {"prompt": "The cat", "n_predict": 3, "n_probs": 2}), ("POST", NATIVE, {"prompt": "The cat", "n_predict": 2, "stream": True}),
    ("GET", "/slots", None),
] + [("POST", path, body) for path, body in (
    (COMPLETION, {}), (COMPLETION, {"prompt": 5}), (COMPLETION, {"prompt": []}), (COMPLETION, {"prompt": "a", "max_tokens": -2}),
    (COMPLETION, {"prompt": "a", "max_tokens": "x"}), (COMPLETION, {"prompt": "a", "temperature": 101}), (COMPLETION, {"prompt": "a", "n": 0}),
    (COMPLETION, {"prompt": "a", "n": 3, "best_of": 2}), (COMPLETION, {"prompt": "a", "logprobs": 99}), (COMPLETION, {"prompt": "a", "stop": [1]}),
    (COMPLETION, {"prompt": "a", "grammar": "root ::="}), (COMPLETION, {"prompt": "a", "json_schema": {"not": {}}}), (COMPLETION, {"prompt": [9999999]}),
    (COMPLETION, {"prompt": "a", "logit_bias": {"x": 1}}), (COMPLETION, {"prompt": "a", "model": "none"}), (COMPLETION, {"prompt": "cat " * 2000}),
    (COMPLETION, {"prompt": "a", "stream": "yes"}), (COMPLETION, {"prompt": "a", "suffix": "b"}), (COMPLETION, {"prompt": "a", "samplers": ["heat"]}),
    (CHAT, {}), (CHAT, {"messages": []}), (CHAT, {"messages": [{"role": "user"}]}), (CHAT, {"messages": [{"content": "x"}]}),
    (CHAT, {"messages": HI, "top_logprobs": 2}), (CHAT, {"messages": HI, "tools": [{}]}), (CHAT, {"messages": HI, "tool_choice": "required"}),
    (CHAT, {"messages": HI, "response_format": {"type": "xml"}}), (NATIVE, {"prompt": "a", "n": 2}), ("/v1/embeddings", {"input": []}),
    ("/v1/embeddings", {"input": "a", "encoding_format": "hex"}), ("/detokenize", {"tokens": ["a"]}), ("/tokenize", {}), ("/apply-template", {}))]
HERMES = """{% if tools %}{{ tools | tojson }} Call with <tool_call>
{}
</tool_call>.{% endif %}{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% for c in m.tool_calls %}<tool_call>
{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}
</tool_call>{% endfor %}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"""
CALL = {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{\"at\": \"cat\"}"}}]}
LINE = {"custom_id": "a", "method": "POST", "url": COMPLETION, "body": {"prompt": "The cat", "max_tokens": 1}}
TWO = [{"type": "function", "function": {"name": n, "parameters": {"type": "object", "properties": {}}}} for n in ("look", "run")]


def form(*parts):
    """A body of multipart/form-data: (headers, text) of each part."""
    return "".join("--xx\r\n%s\r\n\r\n%s\r\n" % p for p in parts).encode() + b"--xx--\r\n"


FIELD, UPLOAD = 'Content-Disposition: form-data; name="%s"', 'Content-Disposition: form-data; name="file"; filename="in.jsonl"'
FORM = [("Content-Type", "multipart/form-data; boundary=xx")]
GOOD_FORM = form((FIELD % "purpose", "batch"), (UPLOAD, "{}\n"))
# Of a server with all that it may have; FILE is the id that was told last.
ADMIN, BOB = [("Authorization", "Bearer secret-a")], [("X-Api-Key", "secret-b")]
MORE_ASKED = [(method, path, body, headers + ADMIN) for method, path, body, headers in [
    (method, path, body, []) for method, path, body in [
        ("GET", "/props", None), ("POST", "/cohort/strategy", {"strategy": "balanced"}), ("POST", "/cohort/strategy", {"strategy": "x"}), ("POST", "/cohort/strategy", {}),
        ("GET", "/", None), ("GET", "/ui/x", None), ("GET", "/metrics", None),
        ("POST", "/slots/0?action=save", {"filename": "s"}),
        ("POST", COMPLETION, {"prompt": "The cat and the dog went to the park to play with a ball all day long, and the cat liked the dog, and the dog liked the ball.", "max_tokens": 2}),
        ("POST", "/slots/1?action=save", {"filename": "s"}), ("POST", "/slots/0?action=save", {"filename": "s"}), ("GET", "/slots", None), ("POST", "/slots/0?action=erase", {}), ("POST", "/slots/0?action=restore", {"filename": "s"}),
        ("POST", "/slots/0?action=restore", {"filename": "t"}), ("POST", "/slots/0?action=save", {"filename": "../x"}), ("POST", "/slots/0?action=save", {}),
        ("POST", "/slots/0?action=save", {"filename": ""}), ("POST", "/slots/0?action=save", {"filename": "s", "cache_salt": 5}), ("POST", "/slots/9?action=save", {"filename": "s"}),
        ("POST", "/slots/x?action=save", {"filename": "s"}), ("POST", "/slots/0?action=none", {"filename": "s"}), ("POST", "/slots/0", {"filename": "s"}),
        ("GET", "/v1/files", None), ("GET", "/v1/files/file-x", None), ("DELETE", "/v1/files/file-x", None), ("GET", "/v1/files/file-x/content", None),
        ("GET", "/v1/files?limit=0", None), ("GET", "/v1/files?order=up", None), ("GET", "/v1/files?purpose=batch&limit=1&order=desc", None), ("GET", "/v1/files?after=file-x", None),
        ("POST", "/v1/batches", {}), ("POST", "/v1/batches", {"input_file_id": "file-x", "endpoint": COMPLETION, "completion_window": "24h"}),
        ("POST", "/v1/batches", {"input_file_id": "file-x", "endpoint": "/x", "completion_window": "24h"}),
        ("POST", "/v1/batches", {"input_file_id": "file-x", "endpoint": COMPLETION, "completion_window": "1h"}),
        ("POST", "/v1/batches", {"input_file_id": "file-x", "endpoint": COMPLETION, "completion_window": "24h", "metadata": 3}),
        ("POST", "/v1/batches", {"input_file_id": "file-x", "endpoint": COMPLETION, "completion_window": "24h", "metadata": {"a": "x" * 513}}),
        ("GET", "/v1/batches/batch_x", None), ("POST", "/v1/batches/batch_x/cancel", {}), ("GET", "/v1/batches", None), ("GET", "/v1/batches?limit=101", None)]
] + [("POST", "/v1/files", body, FORM) for body in (
    b"", b"--xx--\r\n", form((FIELD % "purpose", "batch")), form((UPLOAD, "{}\n")), form((FIELD % "purpose", "x"), (UPLOAD, "{}\n")), form((FIELD % "purpose", "p" * 99), (UPLOAD, "{}\n")),
    form((FIELD % "purpose", "batch"), (FIELD % "file", "{}\n")), form((FIELD % "purpose", "batch"), (FIELD % "purpose", "batch"), (UPLOAD, "{}\n")),
    form((FIELD % "purpose", "batch"), (UPLOAD, "{}\n"), (UPLOAD, "{}\n")), form(("X: y", "a")), form(("X", "a")), form((FIELD % "purpose" + "\r\nContent-Transfer-Encoding: base64", "a")),
    form((FIELD % ("p" * 128), "a")), b"--xx\r\n", b"--xxy\r\n", GOOD_FORM[:-8], form(*[(FIELD % "x", "a")] * 33), GOOD_FORM,
    form((FIELD % "purpose", "batch"), (UPLOAD, json.dumps(LINE) + "\nnot JSON\n")))
] + [("POST", "/v1/files", GOOD_FORM, [("Content-Type", t)]) for t in ("text/plain", "multipart/form-data", "multipart/form-data; boundary=" + "x" * 71)
] + [(method, path, body, []) for method, path, body in [
    ("GET", "/v1/files", None), ("GET", "/v1/files/FILE", None), ("GET", "/v1/files/FILE/content", None),
    ("DELETE", "/v1/files/FILE", None), ("GET", "/v1/files/FILE", None),
    # Tools.
    ("POST", CHAT, {"messages": HI, "max_tokens": 60, "tools": [TOOL], "tool_choice": "required", "seed": 3}),
    ("POST", CHAT, {"messages": HI, "max_tokens": 60, "tools": [TOOL], "tool_choice": "required", "seed": 3, "stream": True}),
    ("POST", CHAT, {"messages": HI, "max_tokens": 60, "tools": TWO, "tool_choice": {"type": "function", "function": {"name": "run"}}, "parallel_tool_calls": False}),
    ("POST", CHAT, {"messages": HI + [CALL, {"role": "tool", "tool_call_id": "c1", "content": "It sleeps."}], "max_tokens": 4, "tools": [TOOL]}),
    ("POST", CHAT, {"messages": HI, "max_tokens": 4, "tools": [TOOL], "tool_choice": "none"}), ("POST", CHAT, {"messages": HI, "tools": TWO, "tool_choice": {"type": "function", "function": {"name": "x"}}}),
    ("POST", CHAT, {"messages": HI, "tools": TWO, "tool_choice": "x"}), ("POST", CHAT, {"messages": HI, "tools": TWO, "tool_choice": 3}), ("POST", CHAT, {"messages": HI, "tools": "x"}),
    ("POST", CHAT, {"messages": HI, "tools": [3]}), ("POST", CHAT, {"messages": HI, "tools": [{"type": "function", "function": {"name": ""}}]}),
    ("POST", CHAT, {"messages": HI, "tools": [{"type": "function", "function": {"name": "a", "parameters": 3}}]}), ("POST", CHAT, {"messages": HI, "tools": TWO, "tool_choice": "required", "grammar": "root ::= \"a\""}),
    ("POST", CHAT, {"messages": HI + [{"role": "assistant", "tool_calls": [{}]}]}), ("POST", CHAT, {"messages": HI + [{"role": "assistant", "tool_calls": 3}]}), ("POST", CHAT, {"messages": HI + [dict(CALL, tool_calls=[])]}),
    # Limits, and fields that are wrong.
    ("POST", COMPLETION, {"prompt": "a", "n": 4}), ("POST", COMPLETION, {"prompt": "a", "stop": ["b", "c", "d"]}), ("POST", COMPLETION, {"prompt": "a", "grammar": "#" * 1100}),
    ("POST", COMPLETION, {"prompt": "The cat", "max_tokens": 2, "logprobs": 1, "echo": True, "stream": True, "stop": "zzz"}), ("POST", COMPLETION, {"prompt": ["a", [1, 2]], "max_tokens": 1, "seed": 9, "user": "u"}),
    ("POST", NATIVE, {"prompt": "The cat", "n_predict": 2, "n_probs": 1, "stream": True, "echo": True}), ("POST", NATIVE, {"prompt": ["a"]}), ("POST", NATIVE, {"prompt": "a", "n_probs": "x"}),
    ("POST", NATIVE, {"prompt": "a", "n_probs": 99}), ("POST", NATIVE, {"prompt": "a", "best_of": 2}), ("POST", NATIVE, {"prompt": [1, 328], "n_predict": 40, "stop": [" was", "."], "seed": 4, "temperature": 0}),
    ("POST", NATIVE, {"prompt": "The cat", "n_predict": 40, "stop": [" was", "."], "seed": 4, "temperature": 0, "stream": True}), ("POST", NATIVE, {"prompt": "The cat", "n_predict": 2, "logprobs": 0}), ("POST", "/embedding", {"content": "a"}), ("POST", "/embedding", {}),
    ("POST", "/embedding", {"input": ["a", "b"], "dimensions": 7}), ("POST", "/v1/embeddings", {"input": [[1, 5], [7]], "dimensions": 512, "encoding_format": "base64"})]
] + [("POST", COMPLETION, dict({"prompt": "a", "max_tokens": 1}, **more), []) for more in (
    {"suffix": ""}, {"best_of": 2, "stream": True}, {"stream_options": 3}, {"stream": True, "stream_options": {"include_usage": 3}}, {"logit_bias": {"5": 101}}, {"logit_bias": 3}, {"logit_bias": [[5]]},
    {"logit_bias": [[5, 1], [6, False]]}, {"samplers": 3}, {"samplers": ["top_k", "temperature"]}, {"stop": 3}, {"stop": "x" * 1025}, {"stop": "a\0"}, {"grammar": "root ::= \"a\"", "json_schema": {}},
    {"seed": -2}, {"seed": 1.5}, {"top_k": -1}, {"top_p": 2}, {"min_p": -1}, {"priority": 2000}, {"priority": "x"}, {"cache_salt": 1.5}, {"echo": 1}, {"ignore_eos": "x"}, {"timeout": 3}, {"deadline_s": -1},
    {"mirostat": 3}, {"repeat_last_n": -2}, {"dry_sequence_breakers": [""]}, {"dry_sequence_breakers": 3}, {"n_keep": 3}, {"functions": []}, {"truncate_prompt_tokens": 3}, {"prompt": [1, -1]}, {"prompt": [1, "x"]}, {"prompt": ""})
] + [("POST", CHAT, dict({"messages": HI, "max_tokens": 1}, **more), []) for more in (
    {"functions": []}, {"function_call": "auto"}, {"modalities": ["audio"]}, {"audio": {}}, {"response_format": 3}, {"response_format": {"type": "json_schema"}}, {"response_format": {"type": "json_schema", "json_schema": {"schema": 3}}},
    {"response_format": {"type": "json_object"}, "grammar": "root ::= \"a\""}, {"response_format": {"type": "text"}}, {"logprobs": 3}, {"top_logprobs": 21, "logprobs": True}, {"chat_template_kwargs": 3},
    {"chat_template_kwargs": {"enable_thinking": 3}}, {"reasoning_effort": 3}, {"max_completion_tokens": 1, "store": True}, {"metadata": {}}, {"messages": [{"role": "x", "content": "a"}]}, {"messages": [3]}, {"messages": 3},
    {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}, {"type": "text", "text": " you"}]}]}, {"messages": [{"role": "user", "content": 3}]})
] + [("POST", COMPLETION, body, []) for body in (b"", b"[]", b"{", b"{\"prompt\": \"a\"", b"{\"a\":1,\"a\":2}")]
] + [("GET", "/slots", None, BOB), ("POST", "/cohort/strategy", {"strategy": "balanced"}, BOB), ("POST", "/slots/0?action=save", {"filename": "s"}, BOB), ("POST", "/slots/0?action=restore", {"filename": "s"}, BOB),
     ("GET", "/v1/files", None, BOB), ("GET", "/v1/models", None, []), ("GET", "/v1/models", None, [("Authorization", "Bearer x")]), ("GET", "/health", None, []),
     ("OPTIONS", CHAT, None, [("Origin", "https://a.example"), ("Access-Control-Request-Method", "POST")]), ("GET", "/health", None, [("Origin", "https://a.example")]), ("GET", "/", None, []),
     ("POST", "/v1/files", form((FIELD % "purpose", "batch"), (UPLOAD, json.dumps(LINE))), FORM + ADMIN),  # the last, as a batch runs beside what comes behind it
     ("POST", "/v1/batches", {"input_file_id": "FILE", "endpoint": COMPLETION, "completion_window": "24h", "metadata": {"a": "b"}}, ADMIN)]
SHOWN = ("content-type", "allow", "www-authenticate", "retry-after", "access-control-allow-methods", "access-control-allow-origin")


def steady(text):
    """Without what differs from run to run."""
    text = re.sub(r'"(created|[a-z_]*_(ms|second))": ?[0-9.e-]+', r'"\1":N', text)
    text = re.sub(r'"([a-z]+_at)": ?[0-9]+', r'"\1":N', text)
    text = re.sub(r"(?m)^((?:cohort|llamacpp):[^ ]*) .*$", r"\1 N", text)
    text = re.sub(r"\b(cmpl-|chatcmpl-|call_|req_|file-|batch_)[0-9A-Za-z]{6,}", r"\1ID", text)
    text = re.sub(r"\d+\.\d+\.\d+", "VERSION", text).replace(os.environ["COHORT_SOURCE"], "SOURCE")
    return re.sub(r"(\d\.\d{5})\d+", r"\1", text)


def answers(server, asked):
    ids = {}
    for method, path, body, headers in asked:
        for name, i in ids.items():
            path = path.replace(name, i)
            body = json.loads(json.dumps(body).replace(name, i)) if isinstance(body, dict) else body
        with server.connect() as c:
            a = c.ask(method, path, body, headers)
        found = re.search(r'"id": ?"(file-[0-9A-Za-z]+)"', a.body.decode("utf-8", "replace"))
        if method == "POST" and found:
            ids["FILE"] = found.group(1)
        head = "".join("%s: %s\n" % h for h in a.headers if h[0] in SHOWN)
        said = request(method, path, body).split(b"\r\n\r\n", 1)[1].decode()
        yield steady("==== %s %s %s\n%d %s\n%s%s\n" % (method, path, said[:200].replace("\r", ""), a.status, a.reason, head, a.body.decode("utf-8", "replace").rstrip()))


def write(name, text):
    with open(os.path.join(FOLDER, name), "w", encoding="utf-8") as f:
        f.write(text)
    return os.path.join(FOLDER, name)


cases = Cases()
with Server(["-seed", "7"]) as s:
    got = list(answers(s, [(*a, []) for a in ASKED]))
os.environ["FAULT_OBJECT"] = os.path.join(os.environ["COHORT_BUILD"], "fault.so")
box = Box(os.path.join(FOLDER, "box")) if os.path.exists(os.environ["FAULT_OBJECT"]) else None
for name in ("slots", "data"):
    os.mkdir(os.path.join(FOLDER, name))
with Server(["-seed", "7", "-np", "2", "-n", "4", "-t", "1", "-admin", "-no-page", "-max-choices", "3", "-max-stops", "2", "-max-grammar", "1", "-cors", "https://a.example",
             "-api-key-file", write("keys", "secret-a alice admin\nsecret-b bob\n"), "-slot-save-path", os.path.join(FOLDER, "slots"), "-data", os.path.join(FOLDER, "data"),
             "-chat-template", write("template", HERMES)], env=box and box.env()) as s:
    got += answers(s, MORE_ASKED)
    cases.check("it ends as it should", s.stop() == 0, s.lines)
if box:  # what libraries keep: of a program that does little, and six of HTTP
    left = box.live()
    subprocess.run([PROGRAM, "info"], env=box.env(), stdout=subprocess.DEVNULL, check=True)
    least = box.live()
    cases.check("and leaves no memory", 0 < left <= least + 6, "%d blocks, %d expected" % (left, least + 6))
# Of a server that finds files on its disk: a new one stands behind them.
LATER_ASKED = [("POST", "/v1/files", form((FIELD % "purpose", "batch"), (UPLOAD.replace("in.", "new."), "{}")), FORM + ADMIN)] + [
    ("GET", "/v1/files" + query, None, ADMIN) for query in ("?limit=2&order=desc&purpose=batch", "?order=asc&purpose=batch", "?order=asc&limit=1&purpose=batch", "?purpose=vision")]
with Server(["-seed", "7", "-data", os.path.join(FOLDER, "data"), "-batch-parallel", "0", "-api-key-file", os.path.join(FOLDER, "keys")]) as s:
    got += answers(s, LATER_ASKED)
ASKED += MORE_ASKED + LATER_ASKED
if os.environ.get("PRINTED_TO"):
    with open(os.path.join(os.environ["PRINTED_TO"], "serve.txt"), "w", encoding="utf-8") as f:
        f.write("".join(got))
with open(WANTED, encoding="utf-8") as f:
    want = re.split(r"(?m)^(?===== )", f.read())[1:]
cases.check("as many answers as there were", len(got) == len(want) == len(ASKED), (len(got), len(want)))
for i, (g, w) in enumerate(zip(got, want)):
    cases.check("%d, %s %s: as it was" % (i, *ASKED[i][:2]), g == w, "\n".join(difflib.unified_diff(w.split("\n"), g.split("\n"), lineterm="", n=0)))
cases.end()
