"""Malformed HTTP and JSON against one running server: see serve_bad.sh. The cases themselves are in serve_bad_cases.py."""
import json
import socket
import struct
import threading
import time

import serve_bad_cases
from serve_bad_cases import CHAT, CHATS, COMPLETIONS, EMBEDDINGS, FIELDS, GOOD, METHODS, REFUSED, TOO_LONG, chunked, post, whole
from serve_client import Cases, Server, eventually, refusal, request
from serve_load import rss_kib

ANSWER_S = 5.0  # within which everything bad is answered or hung up on

cases = Cases()
# An alias of its own, so that the good answer holds nothing that depends on where the model is.
server = Server(["-alias", "tiny", "-np", "4", "-idle-timeout", "1", "-body-timeout", "0.8"])


def plain(answer):
    """What must be the same each time: all but identity, time, and what was reused."""
    v = answer.json()
    if not isinstance(v, dict):
        return repr(answer)
    for name in ("id", "created", "timings"):
        v.pop(name, None)
    v.get("usage", {}).pop("prompt_tokens_details", None)
    headers = sorted((k, w) for k, w in answer.headers if k not in ("connection", "date", "content-length"))
    return json.dumps([answer.status, headers, v], sort_keys=True)


def still_good():
    """Behind each case the server must answer as it always did."""
    good = plain(server.post(COMPLETIONS, GOOD))
    return None if good == expected else "the next answer is another one: %s" % good


def Group(name):
    return cases.group(name, still_good)


# ---- HTTP ----


def send_in_parts(parts):
    with server.connect() as c:
        for i, part in enumerate(parts):
            if i:
                time.sleep(0.001)
            c.send(part)
        got = plain(c.answer(ANSWER_S))
        return None if got == expected else "got %s" % got


def split_everywhere():
    for name, data in (("a request", whole()), ("a request in chunks", chunked(5, 1, 20))):
        g = Group("%s, cut in two at each byte" % name)
        for at in range(1, len(data)):
            g.case("cut at %d" % at, send_in_parts([data[:at], data[at:]]), False)
        g.case("each byte by itself", send_in_parts([data[i:i + 1] for i in range(len(data))]))
        g.end()


def raw_case(data, want, timeout=ANSWER_S):
    """want: a status, a set of them (0: hung up on), or a function of the answer that says what is wrong."""
    with server.connect() as c:
        c.send(data)
        a = c.answer(timeout)
    if callable(want):
        return want(a)
    want = want if isinstance(want, (set, frozenset)) else {want}
    return None if a.status in want else "got %r, expected one of %s" % (a, sorted(want))


def raw_group(name, every):
    g = Group(name)
    for case, data, want in every:
        g.case(case, raw_case(data, want))
    g.end()


def lengths():
    raw_group("lengths of bodies", serve_bad_cases.lengths())


def chunks():
    raw_group("chunks", serve_bad_cases.chunks())


def heads():
    raw_group("request lines and headers", serve_bad_cases.heads())


def methods_and_paths():
    g = Group("methods")
    for path, methods in METHODS:
        for method in methods:
            with server.connect() as c:
                a = c.ask(method, path, None, (), ANSWER_S)
                why = None
                if a.status != 405:
                    why = "got %r, expected 405" % a
                elif not a.header("allow"):
                    why = "no Allow"
                elif method != "HEAD":
                    why = refusal(a, 405)
            g.case("%s %s" % (method, path), why)
    g.end()
    raw_group("paths", serve_bad_cases.paths())


def pipelines():
    g = Group("more than one request on a connection")
    with server.connect() as c:
        c.send(whole() * 20)
        got = [plain(c.answer(ANSWER_S)) for _ in range(20)]
    g.case("twenty at once", None if got == [expected] * 20 else "got %s" % got)
    bad = request("POST", COMPLETIONS, {"prompt": 5})
    with server.connect() as c:
        c.send((bad + whole()) * 10)
        got = [c.answer(ANSWER_S) for _ in range(20)]
    why = [refusal(a, 400, "prompt") for a in got[::2]] + [None if plain(a) == expected else repr(a) for a in got[1::2]]
    g.case("refused and good ones in turn", "; ".join(w for w in why if w))
    # A body that is refused before it was read must not be taken for the next request.
    inner = request("GET", "/health")
    with server.connect() as c:
        c.send(request("POST", "/nowhere", inner) + whole())
        first, second = c.answer(ANSWER_S), c.answer(ANSWER_S)
    g.case("a request in the body of another", refusal(first, 404) or
           (None if plain(second) == expected else "then %r" % second))
    with server.connect() as c:
        c.send(request("POST", COMPLETIONS, b"x" * 10, [("Expect", "100-continue")]))
        g.case("Expect with its body", refusal(c.answer(ANSWER_S)))
    with server.connect() as c:
        c.send(whole() + b"garbage\r\n\r\n")
        first, second = c.answer(ANSWER_S), c.answer(ANSWER_S)
    g.case("garbage behind a good one", None if plain(first) == expected and second.status in REFUSED
           else "%r, then %r" % (first, second))
    with server.connect() as c:
        c.send(post("Content-Length: 99999999\r\n") + inner * 100)
        first = c.answer(ANSWER_S)
        closed = c.closed(ANSWER_S)
    g.case("too large: told, and hung up on", refusal(first, 413) or (None if closed else "it goes on"))
    g.end()


def unfinished():
    """Requests that do not end: all at once, as each waits for the server's patience to end."""
    g = Group("requests that stop halfway")
    data = whole()
    todo = serve_bad_cases.halves()

    def wait_out(name, part):
        begun = time.monotonic()
        with server.connect() as c:
            c.send(part)
            a = c.answer(ANSWER_S)
        why = None if a.status in (0, 400, 408) else "got %r" % a
        if time.monotonic() - begun > ANSWER_S:
            why = "it took more than %g s" % ANSWER_S
        g.case(name, why)

    def go_away(name, part, rude):
        with server.connect() as c:
            c.send(part)
            if rude:  # a reset instead of an end
                c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        g.case(name, None)

    threads = [threading.Thread(target=wait_out, args=t) for t in todo]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for name, part in todo + [("after a whole request", data)]:
        go_away(name + ", and closes", part, False)
        go_away(name + ", and resets", part, True)
    # One byte now and then does not keep a connection for ever.
    with server.connect() as c:
        begun = time.monotonic()
        for byte in data[:40]:
            if not c.send(bytes([byte])):
                break
            time.sleep(0.1)
        slow = time.monotonic() - begun
    g.case("a byte at a time, slowly", None if slow < 3.5 else "it was let to go on for %.1f s" % slow)
    g.end()


# ---- JSON ----


def no_json():
    g = Group("bodies that are not JSON, or no object")
    for name, path, body in serve_bad_cases.no_json():
        g.case(name, refusal(server.ask("POST", path, body, (), ANSWER_S)))
    g.end()


def wrong_fields():
    for path in FIELDS:
        for what, i in (("every field of a wrong type", 0), ("values that are out of range", 1)):
            g = Group("%s: %s" % (path, what))
            with server.connect() as c:
                for name, body in serve_bad_cases.wrong_fields(path, i):
                    a = c.ask("POST", path, body, (), ANSWER_S)
                    g.case("%s = %.80r" % (name, body[name]), refusal(a, 400, name))
                    if a.status <= 0:
                        raise SystemExit("the connection ended")
            if g.n:
                g.end()


def odd_but_good():
    """What looks bad and is answered all the same: a server that refuses everything would pass the rest."""
    g = Group("odd, but good")

    def same(name, body, headers=()):
        a = server.ask("POST", COMPLETIONS, body, headers, ANSWER_S)
        g.case(name, None if plain(a) == expected else "got %r" % a)

    text = json.dumps(GOOD)
    same("a field twice: the last one counts", ('{"max_tokens":50,' + text[1:]).encode())
    same("fields nobody knows", {**GOOD, "nobody": {"knows": [1, None, "x"]}, "": 0, "\u00e9": 1})
    same("null where there may be nothing", {**GOOD, **{f: None for f in FIELDS[COMPLETIONS] if f not in GOOD}})
    same("white space all around", ("\r\n\t  " + text.replace(":", " :\n\t") + "  \n").encode())
    same("3.0 for 3", {**GOOD, "max_tokens": 3.0})
    same("escapes", text.replace("Once", "\\u004fnce").encode())
    same("a thousand unknown fields", {**GOOD, **{"f%d" % i: i for i in range(1000)}})
    same("another content type", text.encode(), [("Content-Type", "text/plain")])
    same("unknown headers", text.encode(), [("X-%d" % i, "y") for i in range(50)])
    same("a million spaces", (" " * 1000000 + text).encode())
    same("arrays a thousand deep in a field nobody knows", ('{"a":' + "[" * 1000 + "]" * 1000 + "," + text[1:]).encode())
    for name, prompt in (("a NUL", "a\0b"), ("U+FFFF", "\uffff"), ("a pair of surrogates", "\U0001f600"), ("nothing", ""),
                         ("a thousand marks on one letter", "a" + "\u0301" * 300), ("right to left", "\u202eabc")):
        a = server.post(COMPLETIONS, {**GOOD, "prompt": prompt})
        g.case("a prompt with %s" % name, None if a.status == 200 else "got %r" % a)
    for size in (1, 2, 255, 256):
        a = server.post(COMPLETIONS, {**GOOD, "stop": ["x" * size] * 4})
        g.case("stop strings of %d bytes" % size, None if a.status == 200 else "got %r" % a)
    a = server.post(COMPLETIONS, {**GOOD, "logit_bias": {str(i): 1 for i in range(200)}})
    g.case("200 biases", None if a.status == 200 else "got %r" % a)
    for schema in ({"type": "object"}, True):
        a = server.post("/completion", {**GOOD, "json_schema": schema})
        g.case("a schema for llama-server's own route", None if a.status == 200 else "got %r" % a)
    a = server.post(EMBEDDINGS, {"input": ["x"] * 100})
    v = a.json() or {}
    g.case("100 embeddings", None if a.status == 200 and len(v.get("data", ())) == 100 else "got %r" % a)
    g.end()


def too_long():
    g = Group("prompts that are too long")
    for name, path, body, param in TOO_LONG:
        g.case(name, refusal(server.ask("POST", path, body, (), ANSWER_S), 400, param))
    g.end()


def given_back():
    """Bodies of many small things, several at once: what they took is the system's again within some seconds. Seen red
    with a server that does not trim: of 20 MiB 55 remained."""
    with Server(["-np", "4"]) as s:
        # Matrices are repacked by the first request, and while nothing is asked: that is no body's memory.
        s.post(COMPLETIONS, GOOD)
        before, most, at = rss_kib(s), 0, 0
        while at != before:
            at = before
            time.sleep(0.5)
            before = rss_kib(s)
        crowd = [threading.Thread(target=s.post, args=(COMPLETIONS, {**GOOD, "other": ["x" * 40] * 300000})) for _ in range(4)]
        for t in crowd:
            t.start()
        while any(t.is_alive() for t in crowd):
            most = max(most, rss_kib(s))
            time.sleep(0.01)
        cases.check("large bodies take memory", most > before + 8192, (before, most))
        cases.check("which they give back", eventually(lambda: rss_kib(s) < before * 1.25, 10), (before, most, rss_kib(s)))


def streams():
    """What is wrong is told before a stream begins, as an answer."""
    g = Group("the same with streams")
    for path, base in ((COMPLETIONS, GOOD), (CHATS, CHAT)):
        for name, v, param in (("n", 0, "n"), ("n", "x", "n"), ("stop", [""], "stop"), ("grammar", "root ::= [", "grammar"),
                               ("stream_options", 5, "stream_options"), ("temperature", 9, "temperature")):
            a = server.post(path, {**base, "stream": True, name: v})
            g.case("%s = %r" % (name, v), refusal(a, 400, param))
    g.end()


def leaves_nothing(before):
    """After all of it: no slot or queue is in use, blocks are free or cached, and descriptors are as they were."""
    cases.check("no slot is busy, nobody waits", eventually(lambda: server.busy() == 0, 5), server.slots())
    m = server.metrics()
    used, total = m['cohort:blocks{state="used"}'], sum(v for k, v in m.items() if k.startswith("cohort:blocks{"))
    cases.check("no block of the cache is in use", used == 0 and total == before["blocks"], m)
    cases.check("all connections are gone", eventually(lambda: server.metrics()["cohort:connections"] == 1, 5),
                server.metrics()["cohort:connections"])
    cases.check("descriptors are back to what they were", eventually(lambda: server.fds() <= before["fds"], 5),
                "%d, %d before" % (server.fds(), before["fds"]))
    cases.check("nothing was said on standard error", len(server.lines) == before["lines"], "\n".join(server.lines))
    cases.check("the answer is still the same", plain(server.post(COMPLETIONS, GOOD)) == expected)
    cases.check("it ends when asked to, with 0", server.stop() == 0, "\n".join(server.lines[-20:]))


with server:
    server.post(COMPLETIONS, GOOD)
    expected = plain(server.post(COMPLETIONS, GOOD))
    server.post(CHATS, CHAT)
    cases.check("a good request", '"text"' in expected, expected)
    time.sleep(0.1)
    state = {"fds": server.fds(), "lines": len(server.lines),
             "blocks": sum(v for k, v in server.metrics().items() if k.startswith("cohort:blocks{"))}
    for part in (split_everywhere, lengths, chunks, heads, methods_and_paths, pipelines, unfinished, no_json, wrong_fields,
                 odd_but_good, too_long, given_back, streams):
        begun = time.monotonic()
        part()
        print("# %s: %.1f s" % (part.__name__, time.monotonic() - begun))
    leaves_nothing(state)
cases.end()
