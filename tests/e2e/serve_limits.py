"""Each bound of `cohort serve --help`, one by one: see serve_limits.sh."""
import base64
import json
import os
import re
import resource
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import threading
import time

from serve_client import FOLDER, PATIENCE_S, PROGRAM, Cases, Server, eventually, request

COMPLETIONS, CHATS, EMBEDDINGS = "/v1/completions", "/v1/chat/completions", "/v1/embeddings"
GOOD = {"prompt": "Once upon a time", "max_tokens": 3, "temperature": 0}
LONG = {"prompt": "Once", "max_tokens": 900, "temperature": 0, "ignore_eos": True}
WORDS = "the cat is big and "  # five tokens or more
# About 30 tokens a second, so that what is asked for is still under way when something happens to it.
SLOW = ["-isa", "ref", "-t", "1", "-b", "4", "-ub", "4"]

cases = Cases()
check = cases.check


def refused(a, status, param=None):
    e = a.error()
    return a.status == status and e.get("message") and e.get("type") and (param is None or e.get("param") == param)


def stream_request(body):
    return request("POST", COMPLETIONS, {**body, "stream": True})


def begin_stream(server, body):
    """A connection with a stream under way."""
    c = server.connect()
    c.send(stream_request(body))
    return c


def text_of(events):
    """The texts of a stream's events."""
    values = [json.loads(e[6:]) for e in events if e.startswith("data: {")]
    return "".join(v["choices"][0]["text"] for v in values if v.get("choices"))


def ends_in_error(events):
    """One error, then one end, and nothing behind it."""
    data = [e for e in events if e.startswith("data: ")]
    errors = [e for e in data if '"error"' in e]
    return len(errors) == 1 and data[-1] == "data: [DONE]" and data[-2] == errors[0] and data.count("data: [DONE]") == 1


def run(*args):
    """A server that is to end by itself: exit code and standard error."""
    p = subprocess.run([PROGRAM, "serve"] + list(args), stdin=subprocess.DEVNULL, capture_output=True, timeout=20)
    return p.returncode, p.stderr.decode("utf-8", "replace")


# ---- Sizes ----


def padded(n):
    text = json.dumps(GOOD).encode()
    return b" " * (n - len(text)) + text


def chunked(body, size=60000):
    out = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    for at in range(0, len(body), size):
        piece = body[at:at + size]
        out += b"%x\r\n%s\r\n" % (len(piece), piece)
    return out + b"0\r\n\r\n"


def sizes():
    with Server(["-max-body", "1", "-max-headers", "4", "-max-choices", "2", "-max-stops", "2", "-max-grammar", "1",
                 "-np", "4"]) as server:
        mib = 1 << 20

        def ask(**fields):
            return server.post(COMPLETIONS, {**GOOD, **fields})

        check("-max-body: as much as that", server.post(COMPLETIONS, padded(mib)).status == 200)
        a = server.post(COMPLETIONS, padded(mib + 1))
        check("-max-body: one byte more is 413", refused(a, 413), a)
        for n, status in ((mib, 200), (mib + 1, 413), (4 * mib, 413)):
            with server.connect() as c:
                c.send(chunked(padded(n)))
                a = c.answer(10)
            check("-max-body: %d bytes in chunks: %d" % (n, status), a.status == status, a)
        a = server.get("/health", [("X-A", "a" * 1500)])
        check("-max-headers: less than that", a.status == 200, a)
        a = server.get("/health", [("X-A", "a" * 5000)])
        check("-max-headers: more is 431", a.status == 431, a)
        a = server.get("/health", [("X-%d" % i, "a") for i in range(1000)])
        check("-max-headers: many small ones, too", a.status == 431, a)
        check("-max-choices: as many as that", ask(n=2).status == 200)
        for name, fields in (("n", {"n": 3}), ("best_of", {"best_of": 3}), ("n", {"n": 2, "prompt": ["a", "b"]}),
                             ("prompt", {"prompt": ["a", "b", "c"]})):
            a = ask(**fields)
            check("-max-choices: %s is 400" % fields, refused(a, 400, name), a)
        check("-max-stops: as many as that", ask(stop=["x", "y"]).status == 200)
        a = ask(stop=["x", "y", "z"])
        check("-max-stops: more is 400", refused(a, 400, "stop"), a)
        schema = {"type": "object", "properties": {"a": {"description": "x" * 1024}}}
        check("-max-grammar: less than that", ask(grammar="root ::= " + '"a" ' * 200).status == 200)
        for name, value in (("grammar", "root ::= " + '"a" ' * 300), ("json_schema", schema),
                            ("response_format", {"type": "json_schema", "json_schema": {"schema": schema}})):
            a = ask(**{name: value})
            check("-max-grammar: a larger %s is 400" % name, refused(a, 400, name), a)
            a = server.post("/apply-template", {"messages": [{"role": "user", "content": "Hi"}], name: value})
            check("-max-grammar: a larger %s for /apply-template is 400" % name, refused(a, 400, name), a)
        quoted = "root ::= " + '"a" ' * 200
        object_of = {"type": "string", "description": ""}
        described = {**object_of, "description": "x" * (1024 - len(json.dumps(object_of, separators=(",", ":"))))}
        for name, most, more in (
                ("grammar", quoted.ljust(1024), quoted.ljust(1025)),
                ("json_schema", described, {**described, "description": described["description"] + "x"})):
            a, b = ask(**{name: most}), ask(**{name: more})
            check("-max-grammar: %s of 1024 bytes, not of 1025" % name, a.status == 200 and refused(b, 400, name), (a, b))
        for name, most, more in (("session", "x" * 256, "x" * 257), ("cache_salt", "x" * 256, "x" * 257),
                                 ("priority", 1000, 1001), ("priority", -1000, -1001), ("session", "\u00e9" * 128, "\u00e9" * 128 + "x")):
            a, b = ask(**{name: most}), ask(**{name: more})
            check("%s: %.10s, not %.10s" % (name, most, more), a.status == 200 and refused(b, 400, name), (a, b))
        ids = []
        for n in (127, 128):
            with server.connect() as c:
                c.send(b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: %s\r\n\r\n" % (b"r" * n))
                ids.append(c.answer().header("x-request-id"))
        check("X-Request-Id: of 127 characters, not of 128", ids[0] == "r" * 127 and ids[1] not in (None, "r" * 128), ids)
        chat = {"messages": [{"role": "user", "content": "Hi"}], "pad": ""}
        for n, status in ((mib, 200), (mib + 1, 413)):
            body = json.dumps({**chat, "pad": "x" * (n - len(json.dumps(chat)))}).encode()
            a = server.post("/apply-template", body)
            check("-max-body: /apply-template with %d bytes: %d" % (n, status), len(body) == n and a.status == status, a)


# ---- Connections ----


def connections():
    def busy():
        """-1: no answer, as the connection of the question before is not idle until the server has noted it."""
        try:
            return server.busy()
        except (KeyError, TypeError):
            return -1

    with Server(SLOW + ["-max-connections", "4", "-idle-timeout", "20", "-np", "4"]) as server:
        held = [server.connect() for _ in range(4)]
        first = [held[0].ask("GET", "/health").status]
        time.sleep(0.3)  # until the server has noted that it is idle
        first += [c.ask("GET", "/health").status for c in held[1:]]
        with server.connect() as c:
            a = c.ask("GET", "/health")
        check("-max-connections: for one more the one idle for longest is closed", first == [200] * 4 and a.status == 200 and
              held[0].closed(5), (first, a))
        check("-max-connections: the others go on", held[1].ask("GET", "/health").status == 200)
        streams = [begin_stream(server, LONG) for _ in range(3)]
        check("-max-connections: streams begin", eventually(lambda: busy() == 3, 10))
        crowd = [server.connect() for _ in range(100)]
        for c in crowd[::2]:
            c.send(b"GET /hea")
        check("-max-connections: a crowd that says nothing keeps nobody out",
              eventually(lambda: server.get("/health").status == 200, 15))  # less than -idle-timeout
        fourth = begin_stream(server, LONG)
        check("-max-connections: streams are not closed for others", eventually(
            lambda: b" 200 " in fourth.line(time.monotonic() + 10), 10))
        late = [server.connect()]  # a second one may close it, as long as it has not asked
        a = late[0].ask("POST", COMPLETIONS, GOOD)
        check("-max-connections: with none idle it is 503, and the last", refused(a, 503) and
              a.error()["code"] == "too_many_connections" and late[0].closed(5), a)
        streams.pop().close()
        check("-max-connections: it recovers", eventually(lambda: server.get("/health").status == 200, 5))
        heads = [c.line(time.monotonic() + 10) for c in streams]
        check("-max-connections: the streams were answered", all(b" 200 " in h for h in heads), heads)
        for c in crowd + held + streams + late + [fourth]:
            c.close()


def clients():
    """-max-client-connections where many share an address: by key, or by what a trusted proxy forwards."""
    def forwarded(*addresses):
        return [("X-Forwarded-For", a) for a in addresses]

    def held_by(server, headers):
        c = server.connect()
        c.send(request("POST", COMPLETIONS, {**LONG, "stream": True}, headers))
        return c

    few = SLOW + ["-np", "4", "-max-client-connections", "2"]
    with Server(few + ["-trusted-proxy", "127.0.0.0/8"]) as proxied, Server(few) as plain, \
            Server(few + ["-api-key", "one", "-api-key", "two"]) as keyed:
        for server, mine in ((proxied, forwarded("192.0.2.1")), (plain, forwarded("192.0.2.1")), (keyed, bearer("one"))):
            streams = [held_by(server, mine) for _ in range(2)]
            heads = [c.line(time.monotonic() + 20) for c in streams]
            check("-max-client-connections: as many as that", all(b" 200 " in h for h in heads), heads)
            a, b = server.post(COMPLETIONS, GOOD, mine), None
            if server is plain:
                check("without -trusted-proxy X-Forwarded-For is not read", a.status == 200, a)
            else:
                b = server.post(COMPLETIONS, GOOD, bearer("two") if server is keyed else forwarded("192.0.2.2"))
                check("-max-client-connections: a third request is 503, another client's is not", refused(a, 503) and
                      "2 requests" in a.error()["message"] and b.status == 200, (a, b))
            if server is proxied:
                got = [server.post(COMPLETIONS, GOOD, forwarded(*x)).status for x in
                       (["192.0.2.9, 192.0.2.1"], ["192.0.2.9", "192.0.2.1, 127.0.0.1"], ["192.0.2.1, 192.0.2.9"],
                        ["192.0.2.1:8080"], ["2001:db8::1"])]
                check("-trusted-proxy: what the first of them saw counts", got == [503, 503, 200, 503, 200], got)
            for c in streams:
                c.close()
    code, said = run("-port", "0", "-trusted-proxy", "10.0.0.0/33")
    check("-trusted-proxy that is no network: exit code 2", code == 2 and "10.0.0.0/33" in said, (code, said))


def cpu_s(server):
    with open("/proc/%d/stat" % server.process.pid, encoding="ascii") as f:
        fields = f.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def descriptors():
    def limited(n):
        return ["sh", "-c", 'ulimit -n %d; exec "$@"' % n, "sh"]

    with Server(under=limited(40)) as server:
        check("few descriptors: fewer connections, told so", server.wait_line(r"-max-connections is \d+ instead of 256.*40 file"),
              server.lines)
    p = subprocess.run(limited(40) + [PROGRAM, "serve", "-port", "0", "-max-connections", "200"], stdin=subprocess.DEVNULL,
                       capture_output=True, timeout=60)
    check("few descriptors: -max-connections that was asked for is refused", p.returncode != 0 and b"ulimit -n" in p.stderr,
          p.stderr)
    with Server(under=["sh", "-c", 'ulimit -S -n 40; exec "$@"', "sh"]) as server:
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard < 1000:
            cases.skip("few descriptors: the limit is raised as far as it may be", "it may not be")
        else:
            check("few descriptors: the limit is raised as far as it may be", not server.wait_line("-max-connections is", 0.1))
        server.get("/health")
        # Now there are none left, whatever was planned.
        n_open = 1 + max(int(n) for n in os.listdir("/proc/%d/fd" % server.process.pid))
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (n_open + 2, hard))
        held = [server.connect() for _ in range(20)]
        for c in held:
            c.send(b"GET /hea")
        check("no descriptors: told", server.wait_line("cannot accept connections", 10), server.lines)
        check("no descriptors: others are served", eventually(lambda: server.get("/health").status == 200, 10))
        began, before = time.monotonic(), cpu_s(server)
        time.sleep(1)
        used = (cpu_s(server) - before) / (time.monotonic() - began)
        check("no descriptors: no busy loop", used < 0.5, used)
        for c in held:
            c.close()
        check("no descriptors: it recovers", eventually(lambda: server.get("/health").status == 200, 10))


def turns():
    """Actions on slots are one at a time, with a pause between them."""
    folder = os.path.join(FOLDER, "turns")
    os.mkdir(folder)
    with Server(["-np", "1", "-slot-save-path", folder]) as server:
        began, before = time.monotonic(), cpu_s(server)
        got = [server.post("/slots/0?action=erase", {}).status for _ in range(40)]
        wall = time.monotonic() - began
        used = (cpu_s(server) - before) / wall
        check("actions on slots wait for their turn: no busy loop", got == [200] * 40 and wall > 0.5 and used < 0.5, (got, wall, used))


def patience():
    """-idle-timeout and -body-timeout; and that the time to write does not count for them."""
    with Server(["-idle-timeout", "0.5", "-body-timeout", "0.5", "-np", "1"]) as server, \
            Server(["-idle-timeout", "30", "-body-timeout", "30", "-write-timeout", "1"]) as patient:
        idle, body = patient.connect(), patient.connect()
        data = request("POST", COMPLETIONS, GOOD)
        body.send(data[:-5])
        began = time.monotonic()
        with server.connect() as c, server.connect() as used, server.connect() as part, server.connect() as slow:
            slow.send(data[:-5])
            part.send(b"GET /heal")
            ok = used.ask("GET", "/health").status == 200
            for name, one in (("that says nothing", c), ("between two requests", used), ("within its headers", part)):
                closed = one.closed(5)
                took = time.monotonic() - began
                check("-idle-timeout: a connection %s is closed" % name, ok and closed and 0.4 < took < 4, took)
            a = slow.answer(5)
            check("-body-timeout: 408, and hung up on", a.status == 408 and slow.closed(5), a)
        time.sleep(max(0, began + 2.5 - time.monotonic()))
        check("-idle-timeout: longer than -write-timeout", idle.ask("GET", "/health", None, (), 5).status == 200)
        body.send(data[-5:])
        a = body.answer(10)
        check("-body-timeout: longer than -write-timeout", a.status == 200, a)
        idle.close()
        body.close()


def unread():
    """A client that never reads its stream. A Unix socket holds little, so that the stream soon stands still."""
    path = os.path.join(FOLDER, "unread")
    with Server(["-socket", path, "-write-timeout", "1", "-np", "5", "-isa", "ref"]) as server:
        greedy = {**LONG, "n": 4, "logprobs": 20}
        with begin_stream(server, greedy):
            started = eventually(lambda: server.slots().count("idle") == 1, 10)
            alone = server.post(COMPLETIONS, GOOD).status == 200
            freed = server.idle_within(20)
            m = server.metrics()
            ended, rows = m['cohort:requests_finished_total{reason="cancelled"}'], m['cohort:rows_total{kind="decode"}']
            # Otherwise the slots are free when all 3600 tokens were made.
            check("-write-timeout: a client that never reads is dropped, its slots are free", started and alone and freed and
                  ended == 1 and rows < 3600, (started, alone, freed, ended, rows))


# ---- The queue, and time ----


def queue():
    with Server(SLOW + ["-np", "1", "-queue", "2", "-queue-tokens", "60"]) as server:
        with begin_stream(server, LONG) as running:
            check("a slot is taken", eventually(lambda: server.busy() == 1, 10))
            with begin_stream(server, GOOD):
                eventually(lambda: server.busy() == 2, 10)
                a = server.post(COMPLETIONS, {**GOOD, "prompt": [5] * 58})
                check("-queue-tokens: more than that is 429 with Retry-After", refused(a, 429) and a.header("retry-after"), a)
                with begin_stream(server, GOOD):
                    eventually(lambda: server.busy() == 3, 10)
                    a = server.post(COMPLETIONS, GOOD)
                    check("-queue: one more is 429 with Retry-After", refused(a, 429) and a.header("retry-after") == "1" and
                          a.error()["type"] == "rate_limit_error", a)
                    a = server.post(COMPLETIONS, {**GOOD, "stream": True})
                    check("-queue: the same for a stream", refused(a, 429), a)
            running.close()
        check("-queue: it recovers", server.idle_within(10) and server.post(COMPLETIONS, GOOD).status == 200)
    with Server(SLOW + ["-np", "1", "-queue", "4", "-api-key", "one", "-api-key", "two"]) as server:
        def begin(key, body):
            c = server.connect()
            c.send(request("POST", COMPLETIONS, {**body, "stream": True}, bearer(key)))
            return c
        held = []
        for body in (LONG, GOOD, GOOD):
            held.append(begin("one", body))
            eventually(lambda: server.busy(bearer("two")) == len(held), 10)
        a = server.post(COMPLETIONS, GOOD, bearer("one"))
        check("-queue: a client alone fills half of it", refused(a, 429) and "share" in a.error()["message"], a)
        held.append(begin("two", GOOD))
        check("-queue: there is room for another", eventually(lambda: server.busy(bearer("two")) == 4, 10))
        for c in held:
            c.close()


def times():
    limits = ["-queue-timeout", "0.3", "-prefill-timeout", "0.7", "-decode-timeout", "0.8", "-ping", "0.1"]
    with Server(SLOW + ["-np", "1"] + limits) as server, Server(SLOW + ["-np", "1", "-total-timeout", "0.8"]) as total:
        deep = {"prompt": WORDS * 100, "max_tokens": 5, "temperature": 0}

        def both(what, s, body, word):
            a = s.post(COMPLETIONS, body)
            check("%s: 503 that says so" % what, refused(a, 503) and word in a.error()["message"], a)
            with begin_stream(s, body) as c:
                events = list(c.events(20))
            check("%s: the end of a stream is an error and one [DONE]" % what, ends_in_error(events), events[-3:])

        both("-prefill-timeout", server, deep, "prefill-limit")
        both("-decode-timeout", server, LONG, "decode-limit")
        both("-total-timeout", total, LONG, "total-limit")
        both("deadline_s", total, {**LONG, "deadline_s": 0.3}, "0.3 seconds")
        # The queue's: behind one that runs into its own limit.
        with begin_stream(server, LONG):
            eventually(lambda: server.busy() == 1, 10)
            began = time.monotonic()
            a = server.post(COMPLETIONS, GOOD)
            took = time.monotonic() - began
            check("-queue-timeout: 503 that says so", refused(a, 503) and "queue-limit" in a.error()["message"] and took < 5, (took, a))
        server.idle_within(10)
        with begin_stream(server, LONG):
            eventually(lambda: server.busy() == 1, 10)
            with begin_stream(server, GOOD) as c:
                events = list(c.events(20))
        check("-ping: comments on a stream that waits", events.count(": ping") >= 1, events)
        check("-queue-timeout: the end of a stream is an error and one [DONE]", ends_in_error(events), events)
        check("after all these no slot is busy", server.idle_within(5) and total.idle_within(5))


# ---- Who may ----

OPEN = ("/health", "/v1/health")
PAGE = ("/", "/ui/x")  # which a browser may open with a key as the password


def routes():
    """All that there are, of the source, so that none is forgotten here."""
    with open(os.path.join(os.environ["COHORT_SOURCE"], "prog", "serve_route.c"), encoding="utf-8") as f:
        found = re.findall(r'^\t\t{"([A-Z]+)", "([^"]+)", run_', f.read(), re.M)
    assert len(found) > 15, found
    return [(method, path.replace("*", "x")) for method, path in found if path not in OPEN]


def bearer(key):
    return [("Authorization", "Bearer " + key)]


def keys():
    path = os.path.join(FOLDER, "keys")
    with open(path, "w", encoding="utf-8") as f:
        f.write("# ours\n\n  second-key alice\nthird-key root admin\r\n")
    with Server(["-api-key", "first-key", "-api-key-file", path, "-admin"]) as server:
        bad = []
        for method, route in routes():
            for headers in ([], bearer(""), bearer("first-ke"), bearer("first-keyy"), bearer("First-key"),
                            [("Authorization", "Basic first-key")], [("X-Api-Key", "ours")], [("Authorization", "first-key")]):
                a = server.ask(method, route, b"{}" if method == "POST" else None, headers)
                how = "Basic realm=" if route in PAGE else "Bearer"
                if not (refused(a, 401) and (a.header("www-authenticate") or "").startswith(how)):
                    bad.append((method, route, headers, a))
        check("-api-key: every route needs one", not bad, bad[:3])
        check("-api-key: but /health", server.get("/health").status == 200)
        ok = [server.get("/v1/models", h).status for h in
              (bearer("first-key"), bearer("second-key"), bearer("third-key"), [("X-Api-Key", "second-key")],
               [("Authorization", "bearer first-key")])]
        check("-api-key, -api-key-file: each of them does", ok == [200] * 5, ok)
        def password(text):
            return [("Authorization", "Basic " + base64.b64encode(text.encode()).decode())]
        got = [server.get(p, password(t)).status for p in ("/", "/ui/app.js", "/v1/models", "/metrics")
               for t in ("me:first-key", ":second-key", "me:wrong", "first-key", "first-key:")]
        check("-api-key: as a password it opens the page, and nothing else", got == [200, 200, 401, 401, 401] * 2 + [401] * 10, got)
        got = [server.get("/", h).status for h in (bearer("first-key"), [("X-Api-Key", "second-key")], bearer("x") + password("a:first-key"))]
        check("-api-key: the page by a header", got == [200, 200, 401], got)
        strategy = {"strategy": "balanced"}
        got = [server.post("/cohort/strategy", strategy, bearer(k)).status for k in ("first-key", "second-key", "third-key")]
        check("-admin: for the key of an admin only", got == [403, 403, 200], got)
        # Routes that are not there need no key, and tell nothing.
        a = server.get("/nowhere")
        check("-api-key: a route that is not there", a.status in (401, 404), a)
    with Server() as plain, Server(["-admin"]) as admin:
        a = plain.post("/cohort/strategy", strategy)
        check("without -admin: 403", refused(a, 403), a)
        a = admin.post("/cohort/strategy", strategy)
        check("-admin: 200", a.status == 200, a)
        cors(plain)
    empty = os.path.join(FOLDER, "empty")
    with open(empty, "w", encoding="utf-8") as f:
        f.write("# nothing\n")
    for name, file in (("without a key in it", empty), ("that is not there", os.path.join(FOLDER, "nowhere"))):
        code, said = run("-port", "0", "-api-key-file", file)
        check("-api-key-file %s: exit code 4" % name, code == 4 and file in said, (code, said))
    with Server(["-api-key", "k" * 512]) as server:
        check("-api-key: of 512 characters", server.get("/v1/models", bearer("k" * 512)).status == 200)
    code, said = run("-port", "0", "-api-key", "k" * 513)
    check("-api-key: of 513 characters: exit code 2", code == 2 and "512" in said, (code, said))
    code, said = run("-port", "0", "-api-key", "with space")
    check("-api-key with a space: exit code 2", code == 2 and "without spaces" in said, (code, said))


def cors(plain):
    origin = [("Origin", "http://page.example")]
    ask = origin + [("Access-Control-Request-Method", "POST"), ("Access-Control-Request-Headers", "content-type")]
    a, b = plain.get("/health", origin), plain.ask("OPTIONS", COMPLETIONS, None, ask)
    check("without -cors: 403 and no header", a.status == 403 and b.status == 403 and
          not any(k.startswith("access-control") for k, _ in a.headers + b.headers), (a.headers, b.headers))
    with Server(["-cors", "http://page.example", "-api-key", "k"]) as server:
        a = server.get("/health", origin)
        check("-cors: that origin is told", a.header("access-control-allow-origin") == "http://page.example", a.headers)
        a = server.get("/health", [("Origin", "http://other.example")])
        check("-cors: another is not", a.header("access-control-allow-origin") is None, a.headers)
        a = server.ask("OPTIONS", COMPLETIONS, None, ask)
        check("-cors: may a page ask? without a key", a.status == 204 and "POST" in a.header("access-control-allow-methods") and
              "Content-Type" in a.header("access-control-allow-headers"), a.headers)
        a = server.post(COMPLETIONS, GOOD, origin)
        check("-cors: a refusal can be read by the page", a.status == 401 and a.header("access-control-allow-origin"), a.headers)
    with Server(["-cors", "*"]) as server:
        a = server.get("/health", origin)
        check("-cors '*': all", a.header("access-control-allow-origin") == "*", a.headers)


# ---- Where it listens ----


def sockets():
    path = os.path.join(FOLDER, "socket")
    with Server(["-socket", path]) as server:
        mode = os.stat(path).st_mode
        check("-socket: for its owner only", stat.S_ISSOCK(mode) and stat.S_IMODE(mode) & 0o077 == 0, oct(mode))
        check("-socket: it answers", server.post(COMPLETIONS, GOOD).status == 200)
        code, said = run("-socket", path)
        check("-socket: where another server listens: refused", code == 4 and "another server" in said, (code, said))
        check("-socket: which goes on", server.get("/health").status == 200)
        server.process.kill()
        server.wait()
    check("-socket: one that was killed leaves it", os.path.exists(path))
    with Server(["-socket", path]) as server:
        check("-socket: a stale one is replaced", server.get("/health").status == 200)
        check("-socket: it is gone with the server", server.stop() == 0 and not os.path.exists(path))
    with open(path, "w", encoding="utf-8") as f:
        f.write("mine")
    code, said = run("-socket", path)
    check("-socket: a file is left alone", code == 4 and "no socket" in said and open(path, encoding="utf-8").read() == "mine", said)
    # A path that fills its place, with the NUL behind it, and longer ones. Seen red with lengths that nobody looks at,
    # and with a bound of one more or one less.
    at_most = os.path.join(FOLDER, "y" * (107 - len(FOLDER) - 1))
    check("the folder leaves room for a path of 107 bytes", len(at_most) == 107, FOLDER)
    with Server(["-socket", at_most]) as server:
        check("-socket: a path of 107 bytes", os.path.exists(at_most) and server.get("/health").status == 200)
    for n in (108, 109, 200, 4000):
        path = (at_most + "/y" * n)[:n] if n > 200 else at_most + "y" * (n - 107)
        code, said = run("-socket", path)
        check("-socket: a path of %d bytes is refused" % n, code == 4 and "too long" in said and
              not os.path.exists(at_most + "y"), (code, said))
    code, said = run("-socket", os.path.join(FOLDER, "nowhere", "x"))
    check("-socket: a folder that is not there", code == 4 and "No such" in said, said)


def addresses():
    with Server(["-host", "127.0.0.1"]) as server:
        with open("/proc/net/tcp", encoding="utf-8") as f:
            local = [line.split()[1] for line in f if line.split()[3] == "0A" and
                     line.split()[1].endswith(":%04X" % server.port)]
        check("-host: there and nowhere else", local == ["0100007F:%04X" % server.port], local)
        code, said = run("-port", str(server.port))
        check("-port in use: exit code 4, says what to do", code == 4 and "another -port" in said, (code, said))
        check("-port in use: the one there goes on", server.get("/health").status == 200)
    code, said = run("-host", "no.such.host.invalid", "-port", "0")
    check("-host that is not there: exit code 4", code == 4 and "no.such.host.invalid" in said, (code, said))
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        cases.skip("-host ::1", "no IPv6")
        return
    with Server(["-host", "::1"]) as server:
        check("-host ::1", server.get("/health").status == 200)


def tls():
    cert, key = os.path.join(FOLDER, "cert.pem"), os.path.join(FOLDER, "key.pem")
    made = shutil.which("openssl") and subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", "/CN=localhost", "-keyout", key, "-out", cert], capture_output=True).returncode == 0
    code, said = run("-port", "0", "-tls-cert", cert)
    check("-tls-cert without -tls-key: exit code 2", code == 2 and "-tls-key" in said, (code, said))
    if not made:
        cases.skip("-tls-cert, -tls-key", "no openssl to make a certificate with")
        return
    with Server(["-tls-cert", cert, "-tls-key", key, "-body-timeout", "0.5", "-idle-timeout", "3"], tls=True) as server:
        a = server.post(COMPLETIONS, GOOD)
        check("-tls-cert, -tls-key: an answer", a.status == 200, a)
        with begin_stream(server, {**GOOD, "max_tokens": 20}) as c:
            events = list(c.events(20))
        check("TLS: a stream", events and events[-1] == "data: [DONE]", events[-2:])
        with server.connect() as c:
            c.send(request("POST", COMPLETIONS, GOOD)[:-3])
            check("TLS: a body that does not come is hung up on", c.answer(5).status == 0)
        with socket.create_connection((server.host, server.port), 5) as plain:
            plain.sendall(request("GET", "/health"))
            try:
                got = plain.recv(100)
            except OSError:
                got = b""
        check("TLS: plain HTTP gets nothing", not got.startswith(b"HTTP/1.1 2"), got)
        check("TLS: and it goes on", server.get("/health").status == 200)
    with open(key, "w", encoding="utf-8") as f:
        f.write("nonsense\n")
    code, said = run("-port", "0", "-tls-cert", cert, "-tls-key", key)
    check("TLS: a key that is none: refused", code == 1 and "PEM" in said, (code, said))


# ---- Ending ----


def refuses(server):
    try:
        server.connect(1).close()
        return False
    except OSError:
        return True


def drains():
    alone = {**LONG, "max_tokens": 20}
    with Server(SLOW + ["-np", "2"]) as server:
        idle = server.connect()
        idle.ask("GET", "/health")
        late = server.connect()
        head = request("POST", COMPLETIONS, GOOD)[:20]
        late.send(head)
        with begin_stream(server, alone) as c:
            eventually(lambda: server.busy() == 1, 10)
            server.signal()
            check("SIGTERM: new connections are refused", eventually(lambda: refuses(server), 2))
            check("SIGTERM: it still runs", server.wait(0.1) is None)
            late.send(request("POST", COMPLETIONS, GOOD)[len(head):])
            a = late.answer(10)
            check("SIGTERM: a request on a connection that is there is 503, and the last", a.status in (0, 503) and
                  (a.status == 0 or a.header("connection") == "close") and late.closed(10), a)
            events = list(c.events())
        check("SIGTERM: a stream under way comes to its end", events[-1] == "data: [DONE]" and
              '"finish_reason":"length"' in events[-2] and not any('"error"' in e for e in events), events[-2:])
        check("SIGTERM: exit code 0, a connection that does nothing does not hold it up", server.wait(5) == 0)
        check("SIGTERM: says that all requests were finished", server.wait_line("all requests were finished"), server.lines)
        idle.close()
        late.close()
    with Server(SLOW + ["-np", "1"]) as server, Server(SLOW + ["-np", "1", "-drain", "0.4"]) as short:
        with begin_stream(server, LONG) as c, begin_stream(short, LONG) as d:
            eventually(lambda: server.busy() + short.busy() == 2, 10)
            short.signal()
            server.signal()
            server.wait_line("stopping")
            began = time.monotonic()
            server.signal()
            code = server.wait(5)
            took = time.monotonic() - began
            check("a second SIGTERM ends it at once", code == 0 and took < 2, (code, took))
            events = list(c.events(5))
            check("and the stream has its end", ends_in_error(events), events[-2:])
            events = list(d.events(5))
            check("-drain: behind that time the rest is cut short, and told so", ends_in_error(events) and
                  short.wait(5) == 0 and short.wait_line("requests were interrupted"), (events[-2:], short.lines))


# ---- Clients that go away ----


def notice_s(server):
    """How soon a client's going away must be noticed: 0.3 s, and what ticks and looking take on this machine at this time."""
    began = time.monotonic()
    m = server.metrics()
    server.busy()
    return 0.3 + 2 * (time.monotonic() - began) + 2 * m["cohort:tick_seconds_total"] / max(1, m["llamacpp:n_decode_total"])


def vanish():
    """A slot is free soon after its client went; the best of three tries counts."""
    other = {"prompt": "Tom and Lily", "max_tokens": 12, "temperature": 0.8, "seed": 5, "ignore_eos": True}
    deep = {"prompt": WORDS * 100, "max_tokens": 5}
    with Server(SLOW + ["-np", "2"]) as server:
        want = server.post(COMPLETIONS, other).json()["choices"]
        limit = [0.3]
        with begin_stream(server, {**LONG, "max_tokens": 400}) as held:
            eventually(lambda: server.busy() == 1, 10)

            def go_away(body, begun, stream):
                best = 99.0
                for _ in range(3):
                    limit[0] = notice_s(server)
                    c = server.connect()
                    c.send(stream_request(body) if stream else request("POST", COMPLETIONS, body))
                    if not eventually(begun, 10):
                        c.close()
                        return None
                    time.sleep(0.1)
                    c.close()
                    began = time.monotonic()
                    if eventually(lambda: server.busy() == 1, 3, 0.01):
                        best = min(best, time.monotonic() - began)
                    if best < limit[0]:
                        break
                return best

            for stream in (False, True):
                how = "a stream" if stream else "an answer"
                took = go_away(deep, lambda: "prefilling" in server.slots(), stream)
                check("%s: going away in prefill is noticed" % how, took is not None and took < limit[0], (took, limit))
                took = go_away(LONG, lambda: server.slots().count("generating") == 2, stream)
                check("%s: going away while tokens come is noticed" % how, took is not None and took < limit[0], (took, limit))
            # A neighbour does not notice.
            got = []
            neighbour = threading.Thread(target=lambda: got.append(server.post(COMPLETIONS, other).json()))
            neighbour.start()
            eventually(lambda: server.busy() == 2, 10)
            for _ in range(3):
                with begin_stream(server, GOOD):
                    eventually(lambda: server.busy() >= 3, 1)
            neighbour.join()
            check("the answer next to them is the same as alone", got[0].get("choices") == want, (got, want))
            server_full(server, held)


def server_full(server, held):
    """In the queue, behind two that run."""
    with begin_stream(server, LONG) as second:
        eventually(lambda: server.busy() == 2, 10)
        for stream in (False, True):
            best = 99.0
            for _ in range(3):
                limit = notice_s(server)
                with server.connect() as c:
                    c.send(request("POST", COMPLETIONS, {**GOOD, "stream": stream}))
                    waits = eventually(lambda: server.busy() == 3, 10)
                began = time.monotonic()
                if waits and eventually(lambda: server.busy() == 2, 3, 0.01):
                    best = min(best, time.monotonic() - began)
                if best < limit:
                    break
            check("%s: going away in the queue is noticed" % ("a stream" if stream else "an answer"), best < limit, (best, limit))
        second.close()
    held.close()
    # Many at once, all of whom end as soon as they have said a part: it may arrive together with their going away.
    whole = request("POST", COMPLETIONS, GOOD)
    head = whole.index(b"\r\n\r\n") + 4
    for n in (0, 1, head - 4, head - 1, head, head + 1, len(whole) - 1):
        for _ in range(3):
            crowd = [server.connect() for _ in range(32)]
            for c in crowd:
                c.send(whole[:n])
            for c in crowd:
                c.close()
        check("going away with %d of %d bytes said is noticed" % (n, len(whole)),
              eventually(lambda: server.metrics()["cohort:connections"] == 1, 5), server.metrics()["cohort:connections"])
    check("when all are gone no slot is busy, and no block in use", server.idle_within(5) and
          server.metrics()['cohort:blocks{state="used"}'] == 0, server.slots())
    check("all connections are gone", eventually(lambda: server.metrics()["cohort:connections"] == 1, 5))


def ask_many(s, f, ask, n):
    """Sends a request n times; how many of the answers are 404."""
    found = 0
    for _ in range(n // 20):
        s.sendall(ask * 20)
        for _ in range(20):
            found += b" 404 " in f.readline()
            for header in iter(f.readline, b"\r\n"):
                if header.lower().startswith(b"content-length:"):
                    length = int(header.split(b":")[1])
            f.read(length)
    return found


def log():
    """A log that is not read. The pipe is small, so that it and the server's own room are full soon."""
    with tempfile.TemporaryFile() as nothing:
        p = subprocess.Popen([PROGRAM, "serve", "-port", "0", "-v", "-np", "1"], stdin=nothing, stdout=nothing, stderr=subprocess.PIPE, bufsize=0)
    try:
        said = b""
        while not re.search(rb"listening on http://[^ ]*:(\d+)\n", said):
            got = os.read(p.stderr.fileno(), 4096)
            assert got, said
            said += got
        port = int(re.search(rb"listening on http://[^ ]*:(\d+)\n", said).group(1))
        n = 2000
        ask = b"GET /%s HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: %s\r\n\r\n" % (b"x" * 180, b"i" * 120)
        with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as s, s.makefile("rb") as f:
            check("a log that is not read: all requests are answered", ask_many(s, f, ask, n) == n)
            said, missing = b"", []
            while said.count(b" 404 ") + sum(missing) < n:
                got = os.read(p.stderr.fileno(), 65536)
                assert got, said[-500:]
                said += got
                missing = [int(m) for m in re.findall(rb"(\d+) lines of the log were dropped", said)]
            check("when it is read again: how many lines are missing", said.count(b" 404 ") > 500 and len(missing) == 1 and
                  said.count(b" 404 ") + missing[0] == n, missing)
            ask_many(s, f, ask, n)
        p.send_signal(signal.SIGTERM)
        check("nor does the end wait for its reader", p.wait(PATIENCE_S) == 0, p.returncode)
    finally:
        p.kill()
        p.wait()
        p.stderr.close()


for part in (log, sizes, connections, clients, descriptors, turns, patience, unread, queue, times, keys, sockets, addresses, tls, drains, vanish):
    start = time.monotonic()
    try:
        part()
    except Exception as e:  # the rest is still worth running
        check("%s came to its end" % part.__name__, False, repr(e))
    print("# %s: %.1f s" % (part.__name__, time.monotonic() - start))
cases.end()
