"""What a server answers, to the letter, against a file: see serve_printed.sh.

usage: serve_printed.py COHORT FOLDER WANTED"""
import difflib
import os
import re
import sys

from serve_client import Cases, Server, request

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
SHOWN = ("content-type", "allow", "www-authenticate", "retry-after", "access-control-allow-methods")


def steady(text):
    """Without what differs from run to run."""
    text = re.sub(r'"(created|[a-z_]*_(ms|second))": ?[0-9.e-]+', r'"\1":N', text)
    text = re.sub(r"\b(cmpl-|chatcmpl-|call_|req_)[0-9A-Za-z]+", r"\1ID", text)
    text = re.sub(r"\d+\.\d+\.\d+", "VERSION", text).replace(os.environ["COHORT_SOURCE"], "SOURCE")
    return re.sub(r"(\d\.\d{5})\d+", r"\1", text)


def answers(server):
    for method, path, body in ASKED:
        with server.connect() as c:
            a = c.ask(method, path, body)
        head = "".join("%s: %s\n" % h for h in a.headers if h[0] in SHOWN)
        asked = request(method, path, body).split(b"\r\n\r\n", 1)[1].decode()
        yield steady("==== %s %s %s\n%d %s\n%s%s\n" % (method, path, asked[:200], a.status, a.reason, head, a.body.decode("utf-8", "replace").rstrip()))


cases = Cases()
with Server(["-seed", "7"]) as s:
    got = list(answers(s))
if os.environ.get("PRINTED_TO"):
    with open(os.path.join(os.environ["PRINTED_TO"], "serve.txt"), "w", encoding="utf-8") as f:
        f.write("".join(got))
with open(WANTED, encoding="utf-8") as f:
    want = re.split(r"(?m)^(?===== )", f.read())[1:]
cases.check("as many answers as there were", len(got) == len(want) == len(ASKED), (len(got), len(want)))
for i, (g, w) in enumerate(zip(got, want)):
    cases.check("%d, %s %s: as it was" % (i, *ASKED[i][:2]), g == w, "\n".join(difflib.unified_diff(w.split("\n"), g.split("\n"), lineterm="", n=0)))
cases.end()
