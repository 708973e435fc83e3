"""llama-server's routes, the page, the live view, saved slots, another template: what they answer when all is well.

usage: serve_routes.py COHORT FOLDER"""
import json
import os
import re
import stat
import sys

from serve_client import Cases, Server, eventually, request

PROGRAM, FOLDER = sys.argv[1:3]
cases = Cases()
check = cases.check
STORY = ("Once upon a time there was a little cat. The cat liked to play in the garden, and the dog liked the cat. One day the cat and the dog "
         "went to the park to play with a ball, and they had so much fun all day long.")
GOOD = {"prompt": STORY, "max_tokens": 8, "seed": 3}


def values(events):
    """What the events of a stream hold."""
    for line in events:
        if line.startswith("data: "):
            yield json.loads(line[6:])


def text(answer):
    return answer.json()["choices"][0]["text"]


def cached(answer):
    return answer.json()["timings"]["cache_n"]


def tokens_and_templates(server):
    a = server.post("/tokenize", {"content": STORY, "add_special": True}).json()["tokens"]
    b = server.post("/tokenize", {"content": STORY}).json()["tokens"]
    c = server.post("/tokenize", {"content": STORY, "with_pieces": True}).json()["tokens"]
    check("/tokenize: with and without what the model puts in front", a[1:] == b and len(b) > 40, (a[:4], b[:4]))
    whole, parts = (server.post("/tokenize", {"content": "<|user|>", "parse_special": p}).json()["tokens"] for p in (True, False))
    texts = [server.post("/detokenize", {"tokens": t}).json()["content"].strip() for t in (whole, parts)]
    check("/tokenize: special tokens, or their letters", len(whole) == 1 and len(parts) > 3 and texts == ["<|user|>"] * 2, (whole, parts, texts))
    check("/tokenize: pieces", [p["id"] for p in c] == b and "".join(p["piece"] for p in c).strip() == STORY, c[:4])
    check("/detokenize: back again", server.post("/detokenize", {"tokens": b}).json()["content"].strip() == STORY)
    check("/apply-template", server.post("/apply-template", {"messages": [{"role": "user", "content": "Hi"}]}).json()["prompt"] == "<|user|>Hi<|assistant|>")
    props = server.get("/props").json()
    check("/props", props["total_slots"] == 4 and props["n_ctx"] == 1024 and "<|user|>" in props["chat_template"] and
          props["default_generation_settings"]["params"]["top_k"] == 40, props)


def native(server):
    body = {"prompt": STORY, "n_predict": 8, "seed": 3}
    whole = server.post("/completion", body).json()
    want = text(server.post("/v1/completions", GOOD))
    check("/completion is /v1/completions in other words", whole["content"] == want and whole["stop"] and whole["stop_type"] == "limit" and
          whole["tokens_predicted"] == 8, whole)
    with server.connect() as c:
        c.send(request("POST", "/completion", {**body, "stream": True}))
        events = list(values(c.events()))
    check("/completion: the pieces of a stream are the whole", "".join(e["content"] for e in events) == want and
          [e["stop"] for e in events] == [False] * (len(events) - 1) + [True], events[-2:])
    same = ("stop_type", "tokens_predicted", "tokens_evaluated", "generation_settings", "prompt", "model")
    check("/completion: the last event of a stream says what the answer says", {k: events[-1][k] for k in same} == {k: whole[k] for k in same}, events[-1])
    short = {"prompt": STORY, "seed": 3, "stop": ["."]}
    nulls = server.post("/completion", {**short, **dict.fromkeys(("n", "best_of", "n_predict", "max_tokens", "n_probs"))})
    plain = server.post("/completion", short).json()
    check("/completion: null is as good as absent", nulls.status == 200 and nulls.json()["content"] == plain["content"] and
          nulls.json()["generation_settings"] == plain["generation_settings"], nulls)
    probs = server.post("/completion", {**body, "n_probs": 3}).json()["completion_probabilities"]
    n_top = {len(t) for t in probs["top_logprobs"]}  # the chosen one comes on top where it is none of them
    check("/completion: n_probs", len(probs["token_logprobs"]) == 8 and 3 in n_top and n_top <= {3, 4}, probs)
    for more in ({}, {"stop": ["."], "n_predict": 40}, {"prompt": "The end.", "n_predict": 300, "temperature": 0}):
        asked = {**body, "n_probs": 3, **more}
        whole = server.post("/completion", asked).json()
        with server.connect() as c:
            c.send(request("POST", "/completion", {**asked, "stream": True}))
            events = [e.get("completion_probabilities") for e in values(c.events())]
        # Tokens that become a stop string are told, too: they are tokens of their events.
        n = len(whole["completion_probabilities"]["tokens"]) if whole["stop_type"] == "word" else None
        parts = {k: [x for e in events if e for x in e[k]][:n] for k in whole["completion_probabilities"]}
        check("/completion: n_probs of a stream, with the tokens (stop type %s)" % whole["stop_type"], parts == whole["completion_probabilities"], (events, whole))
    one = server.post("/embedding", {"content": "a cat"}).json()[0]["embedding"][0]
    other = server.post("/v1/embeddings", {"input": "a cat"}).json()["data"][0]["embedding"]
    check("/embedding is /v1/embeddings in other words", one == other and len(one) == 512, one[:3])


def looking(server):
    page = server.get("/")
    check("/: the page, with its policy", page.status == 200 and b"<html" in page.body and "default-src 'self'" in page.header("Content-Security-Policy"))
    etag = page.header("ETag")
    check("/: unchanged", server.get("/", [("If-None-Match", etag)]).status == 304)
    check("/ui/: no other file", [server.get(p).status for p in ("/ui/app.js", "/ui/../serve.c", "/ui/none.js", "/ui/")] == [200, 404, 404, 404])
    with server.connect() as c:
        c.send(b"GET /cohort/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
        events = values(c.events(5))
        first = next(events)
        server.post("/v1/completions", GOOD)
        ticks = [t for _ in range(5) for t in next(events)["ticks"]]
    check("/cohort/live: slots, blocks, and the ticks of a request", len(first["slots"]) == 4 and first["blocks"]["total"] > 0 and
          sum(t["sampled"] for t in ticks) >= 8 and [t["n"] for t in ticks] == list(range(ticks[0]["n"], ticks[0]["n"] + len(ticks))), ticks)
    n_prompt = len(server.post("/tokenize", {"content": STORY, "add_special": True}).json()["tokens"])
    with server.connect() as c:
        c.send(request("POST", "/v1/completions", {**GOOD, "max_tokens": 900, "ignore_eos": True, "stream": True}))
        seen = []
        eventually(lambda: seen.append([s for s in server.get("/slots").json() if s["is_processing"]]) or
                   (seen[-1] and seen[-1][0]["n_decoded"] > 5), 20)
    one = seen[-1][0] if seen[-1] else {}
    check("/slots: the one that is busy", len(seen[-1]) == 1 and one["state"] == "generating" and one["n_prompt_tokens"] == n_prompt and
          one["n_blocks"] >= 2 and len(server.get("/slots").json()) == 4, seen[-1])
    listed = server.get("/v1/models").json()["data"][0]
    check("/v1/models: sizes", listed["meta"]["n_vocab"] == 8192 and listed["meta"]["n_ctx_train"] == 1024 and listed["meta"]["n_embd"] == 512, listed)
    model = listed["id"]
    check("/v1/models/ID", server.get("/v1/models/" + model).json()["id"] == model and server.get("/v1/models/none").status == 404)
    with server.connect() as c:
        c.send(b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: a b\r\n\r\n")
        own = c.answer().header("X-Request-Id")
    check("X-Request-Id: as it came, or one of the server's own", server.get("/health").header("X-Request-Id") == "test" and own.startswith("req-"), own)


def strategies(server):
    before = server.get("/cohort/strategy").json()
    want = text(server.post("/v1/completions", GOOD))
    other = [s["name"] for s in before["built_in"] if s["name"] != before["strategy"]][-1]
    a = server.post("/cohort/strategy", {"strategy": other})
    eventually(lambda: server.get("/cohort/strategy").json()["strategy"] == other, 5)  # from the next tick on
    after = server.get("/cohort/strategy").json()
    with server.connect() as c:
        c.send(b"GET /cohort/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
        live = next(values(c.events(5)))["strategy"]
    check("/cohort/strategy: switched, and told everywhere", len(before["built_in"]) >= 3 and a.json() == {"strategy": other} and
          after["strategy"] == live == other, (before, a, after, live))
    check("with the same text", text(server.post("/v1/completions", GOOD)) == want)
    bad = [server.post("/cohort/strategy", {"strategy": s}) for s in ("none", 5, None)]
    check("/cohort/strategy: one that is not there", [(b.status, b.error().get("param")) for b in bad] == [(400, "strategy")] * 3 and
          server.get("/cohort/strategy").json() == after, bad)


def saved_slots(folder):
    with Server(["-np", "4", "-slot-save-path", folder]) as server:
        first = server.post("/v1/completions", GOOD)
        want = text(first)
        again = server.post("/v1/completions", GOOD)
        check("what a prompt begins with is reused, with the same text", cached(first) == 0 and cached(again) >= 32 and text(again) == want)
        answers = [server.post("/slots/%d?action=save" % i, {"filename": "story.bin"}) for i in range(4)]
        good = [a for a in answers if a.status == 200]
        check("a slot is saved", len(good) >= 1 and good[0].json()["n_saved"] >= 32 and
              os.path.getsize(os.path.join(folder, "story.bin")) == good[-1].json()["n_written"], answers)
        mode = stat.S_IMODE(os.stat(os.path.join(folder, "story.bin")).st_mode)
        check("which others cannot read", mode == 0o600, oct(mode))
        erased = sum(server.post("/slots/%d?action=erase" % i, {}).json()["n_erased"] for i in range(4))
        check("and erased", erased >= 32 and cached(server.post("/v1/completions", GOOD)) == 0, erased)
        bad = {n: server.post("/slots/0?action=save", {"filename": n}).status for n in ("../x", "a/b", ".x", "", "x" * 200, "a\0b", 5, None)}
        check("names that are no names are refused", set(bad.values()) == {400} and os.listdir(folder) == ["story.bin"], bad)
        check("slots and actions that are not there", [server.post("/slots/" + p, {"filename": "x"}).status for p in
              ("4?action=save", "-1?action=save", "x?action=save", "0?action=eat", "0")] == [404, 404, 404, 400, 400])
    with open(os.path.join(folder, "story.bin"), "rb") as f:
        raw = f.read()
    with open(os.path.join(folder, "broken.bin"), "wb") as f:
        f.write(raw[:-7])
    with Server(["-np", "4", "-slot-save-path", folder]) as server:
        check("a broken file is refused", server.post("/slots/1?action=restore", {"filename": "broken.bin"}).status == 400)
        a = server.post("/slots/1?action=restore", {"filename": "none.bin"})
        check("a missing file, too", a.status == 404 and a.error()["param"] == "filename", a)
        a = server.post("/slots/1?action=restore", {"filename": "story.bin"})
        b = server.post("/v1/completions", GOOD)
        check("restored by another server: reused, with the same text", a.status == 200 and a.json()["n_restored"] >= 32 and cached(b) >= 32 and
              text(b) == want, (a, b))
    with Server(["-np", "1", "-c", "100", "-slot-save-path", folder]) as server:
        n = server.post("/v1/completions", {**GOOD, "n_predict": -1, "max_tokens": None, "ignore_eos": True}).json()["usage"]["total_tokens"]
        a = server.post("/slots/0?action=save", {"filename": "full.bin"})
        check("a slot that is full to the last block", n == 128 and a.status == 200 and a.json()["n_saved"] >= 96, (n, a))
    for name in os.listdir(folder):
        os.remove(os.path.join(folder, name))
    with Server(["-np", "1", "-slot-save-path", folder, "-max-saved", "1"]) as server:
        server.post("/v1/completions", GOOD)
        size = server.post("/slots/0?action=save", {"filename": "0.bin"}).json()["n_written"]
        n_most = (1 << 20) // size
        got = [server.post("/slots/0?action=save", {"filename": "%d.bin" % i}) for i in range(1, n_most + 1)]
        last = server.post("/slots/0?action=save", {"filename": "0.bin"})
        check("as many slots as there is room for, and then those again only", n_most < 1000 and [a.status for a in got] == [200] * (n_most - 1) + [507] and
              got[-1].error()["code"] == "no_space" and last.status == 200 and len(os.listdir(folder)) == n_most, (size, got[-1], last))
    with Server(["-np", "4"]) as server:
        check("without -slot-save-path: 501", server.post("/slots/0?action=save", {"filename": "x"}).status == 501)


def slots_of_keys(folder):
    """A name is another file for each key, and for a server without keys."""
    keys = os.path.join(FOLDER, "keys")
    with open(keys, "w") as f:
        f.write("one-0123456789 one\ntwo-0123456789 two\nboss-0123456789 boss admin\n")
    one, two, boss = ([("Authorization", "Bearer %s-0123456789" % n)] for n in ("one", "two", "boss"))

    def save(key):
        """Of what the key's own request left."""
        server.post("/v1/completions", GOOD, key)
        answers = [server.post("/slots/%d?action=save" % i, {"filename": "story.bin"}, key) for i in range(2)]
        return [a for a in answers if a.status == 200], answers

    def restore(key, name="story.bin"):
        return server.post("/slots/0?action=restore", {"filename": name}, key)

    with Server(["-np", "2", "-slot-save-path", folder, "-api-key-file", keys]) as server:
        good, answers = save(one)
        files = os.listdir(folder)
        check("a key's slot is saved, in a file of its own", len(good) == 1 and good[0].json()["filename"] == "story.bin" and len(files) == 1 and
              files[0].endswith("@story.bin") and len(files[0]) == 64 + 10, (answers, files))
        got = [restore(k).status for k in (two, boss, ())]
        check("which no other key restores", got == [404, 404, 401], got)
        check("nor by its real name", [restore(k, files[0]).status for k in (one, two)] == [400, 400])
        with open(os.path.join(folder, files[0]), "rb") as f:
            before = f.read()
        good, answers = save(two)
        with open(os.path.join(folder, files[0]), "rb") as f:
            after = f.read()
        check("nor overwrites", len(good) == 1 and before == after and len(os.listdir(folder)) == 2, (answers, os.listdir(folder)))
    with Server(["-np", "2", "-slot-save-path", folder, "-api-key-file", keys]) as server:
        a = restore(one)
        b = server.post("/v1/completions", GOOD, one)
        c = server.post("/v1/completions", GOOD, boss)
        check("after a restart it is still the key's own", a.status == 200 and cached(b) >= 32 and cached(c) == 0, (a, b, c))
    with Server(["-np", "2", "-slot-save-path", folder]) as server:
        check("without keys it is not there", restore(()).status == 404)
        server.post("/v1/completions", GOOD)
        os.rename(folder, folder + "-gone")
        bad = [a for a in (server.post("/slots/%d?action=save" % i, {"filename": "x"}) for i in range(2)) if a.status != 400]
        check("a slot that cannot be written: a server's error, that says where in the log only", len(bad) == 1 and bad[0].status == 500 and
              bad[0].error()["type"] == "server_error" and folder not in bad[0].error()["message"] and
              server.wait_line("a slot: .*" + re.escape(folder), 5), (bad, server.lines))


def salted_slots(folder):
    """What a request with a cache_salt left is saved, forgotten and brought back by who has the key and the salt."""
    keys = [[("Authorization", "Bearer " + k)] for k in ("one-0123456789", "two-0123456789")]
    salted = {**GOOD, "cache_salt": "mine"}
    with Server(["-np", "1", "-slot-save-path", folder, "-api-key", "one-0123456789", "-api-key", "two-0123456789"]) as server:
        def act(action, key, **fields):
            return server.post("/slots/0?action=" + action, {"filename": "a.bin", **fields}, keys[key])

        server.post("/v1/completions", salted, keys[0])
        got = [act(action, k, **f).status for action in ("save", "erase") for k, f in
               ((0, {}), (0, {"cache_salt": "other"}), (1, {}), (1, {"cache_salt": "mine"}))]
        a = act("save", 0)
        check("a salted slot is nobody else's", got == [403] * 8 and a.error()["type"] == "permission_error", (got, a))
        got = [act("save", 0, cache_salt="mine"), act("erase", 0, cache_salt="mine"), act("restore", 0, cache_salt="mine")]
        again = [cached(server.post("/v1/completions", b, keys[0])) for b in (GOOD, salted)]
        check("but saved, erased and restored with its salt", [a.status for a in got] == [200] * 3 and again[0] == 0 and again[1] >= 32 and
              got[1].json()["n_erased"] > 0, (got, again))
        a = act("save", 0, cache_salt=5)
        check("a salt that is none is 400", a.status == 400 and a.error()["param"] == "cache_salt", a)
    with Server(["-np", "1", "-slot-save-path", folder]) as server:
        def bare(action, **fields):
            return server.post("/slots/0?action=" + action, {"filename": "b.bin", **fields})

        server.post("/v1/completions", salted)
        got = [bare(a, **f).status for a in ("save", "erase") for f in ({}, {"cache_salt": "other"})]
        check("nor is it without keys", got == [403] * 4, got)
        got = [bare("save", cache_salt="mine").status] + [bare("restore", **f).status for f in ({}, {"cache_salt": "other"}, {"cache_salt": "mine"})]
        again = [cached(server.post("/v1/completions", {**GOOD, **f})) for f in ({}, {"cache_salt": "other"}, {"cache_salt": "mine"})]
        check("a salt's file is its own", got == [200, 404, 404, 200] and again[:2] == [0, 0] and again[2] >= 32, (got, again))


def template(folder):
    path = os.path.join(folder, "other.jinja")
    with open(path, "w") as f:
        f.write("{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}")
    with Server(["-chat-template", path, "-alias", "org/mine", "-no-page", "-verbose"]) as server:
        got = server.post("/apply-template", {"messages": [{"role": "user", "content": "Hi"}]}).json()["prompt"]
        check("-chat-template, -alias, -no-page", got == "[user] Hi\n" and server.get("/v1/models").json()["data"][0]["id"] == "org/mine" and
              server.get("/").status == 404, got)
        got = [server.get("/v1/models/" + n).status for n in ("org/mine", "org%2Fmine", "org", "mine", "org/mine/", "org/mine/x")]
        check("/v1/models: a name with a slash", got == [200, 200, 404, 404, 404, 404], got)
        server.ask("G\x1b[31m", "/a%1b%0ab")
        check("-verbose: a line for each request, with nothing for a terminal",
              server.wait_line(r": G\?\[31m /a\?\?b 404 \d+ bytes [0-9.]+ ms test$", 5), server.lines)


def lengths():
    """How long answers are: by -n-predict, by what is asked for, by the context (100 tokens are four blocks, 128)."""
    with Server(["-np", "2", "-c", "100", "-n-predict", "4", "-seed", "42"]) as server:
        props = server.get("/props").json()["default_generation_settings"]
        check("/props: the seed and the length in use", props["params"]["seed"] == 42 and props["n_predict"] == 4, props)
        once = {"prompt": "Once", "ignore_eos": True}
        whole = [server.post("/completion", {**once, **more}).json() for more in ({}, {"n_predict": None}, {"n_predict": 6}, {"n_predict": -1})]
        n_rest = 128 - whole[0]["tokens_evaluated"]
        check("/completion: -n-predict, unless the body says more", [w["tokens_predicted"] for w in whole] == [4, 4, 6, n_rest] and
              [w["stop_type"] for w in whole] == ["limit"] * 4, whole)
        check("/completion: truncated, where the context ended it", [w["truncated"] for w in whole] == [False] * 3 + [True], whole)
        got = [server.post("/v1/completions", {**once, **more}) for more in ({}, {"max_tokens": -1}, {"max_tokens": 32000}, {"max_completion_tokens": 32000})]
        check("max_tokens beyond the context: as far as that goes", [a.json()["usage"]["completion_tokens"] for a in got] == [4] + [n_rest] * 3 and
              [a.json()["choices"][0]["finish_reason"] for a in got] == ["length"] * 4 and len({text(a) for a in got[1:]}) == 1, got)
        with server.connect() as c:
            c.send(request("POST", "/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi"}], "max_completion_tokens": 32000,
                                                            "ignore_eos": True, "stream": True, "stream_options": {"include_usage": True}}))
            events = [json.loads(e[6:]) for e in c.events() if e.startswith("data: {")]
        check("and in the stream of a chat", events[-1]["usage"]["total_tokens"] == 128 and events[-2]["choices"][0]["finish_reason"] == "length", events[-2:])
        a = server.post("/v1/completions", {"prompt": STORY * 4, "max_tokens": 1})
        check("only a prompt that does not fit is refused", a.status == 400 and a.error()["code"] == "context_length_exceeded" and a.error()["param"] == "prompt", a)


def seeds():
    """Seeds that the server draws: another one each time, and reported wherever the text is."""
    body = {"prompt": "Once upon a time", "max_tokens": 40, "temperature": 1, "ignore_eos": True}
    chat = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 8}
    with Server(["-np", "2"], seed=None) as server:
        got = [server.post("/v1/completions", {**body, **more}) for more in ({}, {}, {"seed": None}, {"seed": -1})]
        told = [a.json()["seed"] for a in got]
        check("without a seed: another text each time", len({text(a) for a in got}) == 4 and len(set(told)) == 4, got)
        check("X-Seed and seed are the same", [a.header("x-seed") for a in got] == [str(s) for s in told], told)
        again = [text(server.post("/v1/completions", {**body, "seed": s})) for s in told]
        check("the seed that was reported gives the text again", again == [text(a) for a in got], (again, got))
        native = [server.post("/completion", body).json() for _ in range(2)]
        settings = [a["generation_settings"]["seed"] for a in native]
        again = [server.post("/completion", {**body, "seed": s}).json()["content"] for s in settings]
        check("/completion reports it in generation_settings", len(set(settings)) == 2 and again == [a["content"] for a in native], (settings, native))
        with server.connect() as c:
            c.send(request("POST", "/v1/completions", {**body, "stream": True}))
            streamed = "".join(v["choices"][0]["text"] for v in values(e for e in c.events() if e.startswith("data: {")))
            seed = int(dict(c.headers)["x-seed"])
        check("a stream has it in its headers", streamed == text(server.post("/v1/completions", {**body, "seed": seed})), (seed, streamed))
        a, b = server.post("/v1/chat/completions", chat), server.post("/v1/embeddings", {"input": "Hi"})
        check("chats have one, embeddings have none", a.json()["seed"] >= 0 and b.header("x-seed") is None and "seed" not in b.json(), (a, b))
        props = server.get("/props").json()["default_generation_settings"]["params"]
        check("/props: seeds are drawn", props["seed"] == -1, props)
    with Server(["-np", "2", "-seed", "42"]) as server:
        got = [server.post("/v1/completions", {**body, **more}) for more in ({}, {}, {"seed": -1}, {"seed": 42})]
        check("-seed fixes it", len({text(a) for a in got}) == 1 and {a.json()["seed"] for a in got} == {42}, got)


def constraints():
    """What a client asks of the text and what no text can follow is its mistake, also when it shows late."""
    schema = {"type": "string", "pattern": "^((a+)+)+((b*)*)*(c|c|c|cc)*(.{0,300}){0,300}$"}
    body = {"prompt": "x", "max_tokens": 50, "json_schema": schema}
    with Server(["-np", "1"]) as server:
        whole = [server.post(path, body) for path in ("/v1/completions", "/completion")]
        check("a schema that is too ambiguous at a later token: 400", [(a.status, a.error()["type"]) for a in whole] == [(400, "invalid_request_error")] * 2, whole)
        for path in ("/v1/completions", "/completion"):
            with server.connect() as c:
                c.send(request("POST", path, {**body, "stream": True}))
                events = [e for e in c.events() if '"error"' in e]
            check("%s: and as the event of a stream" % path, len(events) == 1 and
                  json.loads(events[0][6:])["error"]["type"] == "invalid_request_error", events)
        check("and the server goes on", server.post("/v1/completions", {"prompt": "x", "max_tokens": 1}).status == 200)


folder = os.path.join(FOLDER, "slots")
os.mkdir(folder)
seeds()
constraints()
with Server(["-np", "4", "-admin"]) as server:
    tokens_and_templates(server)
    native(server)
    looking(server)
    strategies(server)
    check("at the end nothing is busy", eventually(lambda: server.busy() == 0, 5))
saved_slots(folder)
folder = os.path.join(FOLDER, "slots-of-keys")
os.mkdir(folder)
slots_of_keys(folder)
folder = os.path.join(FOLDER, "salted-slots")
os.mkdir(folder)
salted_slots(folder)
template(FOLDER)
lengths()
cases.end()
