"""The clients of a soak (soak.py): what they ask, how they behave, and what they expect.

    good      a request of the pool: its answer is the one that it gets alone, whatever goes on beside it
    slow      the same, read slowly
    leave     the same, but the client goes away: before, within or behind its request, with an end or a reset
    late      the same with a limit in time: the answer, or an error that says so
    line      several small requests sent at once on one connection: their answers, in order
    long      a prompt that nobody had before, which pushes others out of the cache
    bad       what serve_bad_cases.py has: its status, and the field's name
    slot      saves, restores, erases a slot, or asks for one that is not there
    watch     some events of /cohort/live
    batch     a file, a batch, perhaps a cancel, the results; files are removed behind it

A client stops at its fifth wrong answer. Each has random numbers of its own, so that a seed says what everybody does,
if not when. When there is ebb nobody begins anything, and what is under way comes to its end; batches, which wait
behind all others, as well.
"""
import collections
import hashlib
import json
import multiprocessing
import random
import threading
import time

import serve_bad_cases as malformed
from serve_client import Closed, Conn, Late, refusal, request
from serve_load import OPENINGS, Wrong, digest, gather, pool, run

WEIGHTS = {"good": 50, "slow": 3, "leave": 12, "late": 4, "line": 4, "long": 3, "bad": 16, "slot": 6, "watch": 2}
KINDS = (*WEIGHTS, "batch")
EVERY_BATCH = 16  # one client of so many does nothing but batches: they wait behind all others
PAUSE_S = 0.2  # between two requests of a client, at most
SLOW_S = 0.05  # that a slow reader takes for an event
WATCH_S = 5.0
PATIENCE_S = 120
STALL_S = 2.5  # a sleep of half a second that takes so long was none of the server's doing
BATCH_S = 600
LONG_TOKENS = 900
N_SLOTS = 16
SLOT_FILES = 6
PLAIN = ("/tokenize", "/detokenize", "/apply-template", "/completion", "/embedding")
BATCHED = ("/v1/completions", "/v1/chat/completions", "/v1/embeddings")
FINAL = ("completed", "failed", "cancelled", "expired")


# ---- What is asked ----


def requests():
    """That of serve_load.py, prompts of any length, some in sessions, and the routes that do not stream."""
    rng = random.Random(11)
    out = pool()
    for i in range(40):
        n = int(2 ** rng.uniform(0, 9.5))
        body = {"prompt": [rng.randint(300, 7000) for _ in range(n)], "seed": i, "stream": True,
                "max_tokens": rng.randint(1, 64), "temperature": rng.choice([0, 1]), "n": rng.choice([1, 1, 2, 3, 8])}
        if i % 4 == 1:
            body["session"] = "session %d" % i
        if i % 4 == 2:
            body["cache_salt"] = "salt %d" % (i % 8)
        if i % 4 == 3:
            body["priority"] = -rng.randint(1, 5)
        out.append(("/v1/completions", body))
    for i in range(40):
        text = " ".join(rng.choice(OPENINGS) for _ in range(rng.choice([1, 3, 40])))
        path = PLAIN[i % len(PLAIN)]
        out.append((path, {
            "/tokenize": {"content": text, "with_pieces": i % 2 == 0},
            "/detokenize": {"tokens": [rng.randint(300, 7000) for _ in range(rng.randint(1, 300))]},
            "/apply-template": {"messages": [{"role": "user", "content": text}]},
            "/completion": {"prompt": text, "n_predict": rng.randint(1, 32), "seed": i},
            "/embedding": {"content": text}}[path]))
    return out


def plain(path, value):
    """What must be the same of an answer that has not OpenAI's form."""
    if path == "/completion":
        value = {k: value.get(k) for k in ("content", "stop_type", "tokens_predicted")}
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def ask(server, path, body, **how):
    """The digest of an answer."""
    if path not in PLAIN:
        return run(server, path, body, **how)
    a = server.ask("POST", path, body, (), PATIENCE_S)
    if a.status != 200:
        raise Wrong(repr(a))
    return plain(path, a.json())


def batched(requests_):
    """Those that a batch may have: {index: body}, without streams."""
    return {i: {k: v for k, v in body.items() if k != "stream"} for i, (path, body) in enumerate(requests_)
            if path in BATCHED}


def bad_groups():
    """[[(name, bytes, want)]], of which each list is as likely as another."""
    def json_case(name, path, body, field=None):
        return name, request("POST", path, body), lambda a: refusal(a, 400, field)

    def method_case(method, path):
        return method + " " + path, request(method, path), lambda a: refusal(a, 405)

    groups = [list(malformed.lengths()), list(malformed.chunks()), list(malformed.paths()),
              [c for c in malformed.heads() if c[0] != "a million line ends"],
              [(name, data, {0, 400, 408}) for name, data in malformed.halves()],
              [method_case(m, path) for path, methods in malformed.METHODS for m in methods if m != "HEAD"],
              [json_case(*c) for c in malformed.no_json()], [json_case(*c) for c in malformed.TOO_LONG]]
    for i in (0, 1):
        groups.append([json_case("%s of %s" % (name, path), path, body, name)
                       for path in malformed.FIELDS for name, body in malformed.wrong_fields(path, i)])
    return groups


def form(content):
    """An upload and its type."""
    parts = (("purpose", "", b"batch"), ("file", '; filename="in.jsonl"', content))
    body = b"".join(b'--cut\r\nContent-Disposition: form-data; name="%s"%s\r\n\r\n%s\r\n' %
                    (name.encode(), more.encode(), data) for name, more, data in parts)
    return body + b"--cut--\r\n", [("Content-Type", "multipart/form-data; boundary=cut")]


# ---- Clients ----


class Load:
    """What all clients of all processes share: the server, the pool with its answers, the bad requests, whether there
    is ebb, and how many are busy."""

    def __init__(self, server, requests_, want, until):
        self.server, self.requests, self.want, self.until = server, requests_, want, until
        self.bodies = batched(requests_)
        self.small = [i for i, (path, _) in enumerate(requests_) if path in PLAIN]
        self.bad = bad_groups()
        self.ebb = multiprocessing.RawValue("i", 0)
        self.busy = multiprocessing.Value("i", 0)

    def enter(self):
        """False: there is ebb. Who enters is counted first, so that nobody is overlooked."""
        with self.busy:
            self.busy.value += 1
        ebb = self.ebb.value
        if ebb:
            self.leave()
        return not ebb

    def leave(self):
        with self.busy:
            self.busy.value -= 1


class News:
    """What happened in a process of clients since it was last told: numbers by kind, times to first tokens."""

    def __init__(self):
        self.lock = threading.Lock()
        self.take()

    def take(self):
        with self.lock:
            got = getattr(self, "kinds", None), getattr(self, "first", None)
            self.kinds, self.first = collections.Counter(), []
        return got

    def count(self, kind):
        with self.lock:
            self.kinds[kind] += 1

    def first_after(self, seconds):
        with self.lock:
            self.first.append(seconds)


class Client:
    def __init__(self, load, number, seed, news):
        self.load, self.server, self.number, self.news = load, load.server, number, news
        self.rng = random.Random(seed * 1000 + number)
        self.wrong = []
        self.counts = collections.Counter()

    def work(self):
        kinds, weights = list(WEIGHTS), list(WEIGHTS.values())
        while time.monotonic() < self.load.until and len(self.wrong) < 5:
            if not self.load.enter():
                time.sleep(0.05)
                continue
            kind = "batch" if self.number % EVERY_BATCH == 0 else self.rng.choices(kinds, weights)[0]
            try:
                getattr(self, kind)()
                self.counts[kind] += 1
                self.news.count(kind)
            except (Wrong, Late, Closed, OSError, AssertionError, ValueError, KeyError, TypeError) as e:
                text = "client %d, %s: %s %s" % (self.number, kind, type(e).__name__, str(e)[:500])
                self.wrong.append((time.monotonic(), isinstance(e, (Late, Closed, OSError)) or "408" in text, text))
            finally:
                self.load.leave()
            time.sleep(self.rng.random() * PAUSE_S)

    def pick(self, few=None):
        i = self.rng.choice(few) if few else self.rng.randrange(len(self.load.requests))
        return (i, *self.load.requests[i])

    def same(self, i, got):
        if got != self.load.want[i]:
            raise Wrong("request %d has another answer than alone: %s" % (i, json.dumps(self.load.requests[i])[:200]))

    # ---- Good ones ----

    def good(self):
        i, path, body = self.pick()
        begun = time.monotonic()
        self.same(i, ask(self.server, path, body, first=lambda: self.news.first_after(time.monotonic() - begun))
                  if body.get("stream") else ask(self.server, path, body))

    def slow(self):
        i, path, body = self.pick()
        self.same(i, ask(self.server, path, body, pause=self.rest) if body.get("stream") else
                  ask(self.server, path, body))

    def rest(self):
        time.sleep(0 if self.load.ebb.value else SLOW_S)

    def leave(self):
        i, path, body = self.pick()
        got = run(self.server, path, body, self.rng, True, rude=self.rng.random() < 0.5)
        if got is not None:  # the answer was shorter than its client's patience
            self.same(i, got)

    def late(self):
        i, path, body = self.pick()
        try:
            self.same(i, ask(self.server, path, {**body, "deadline_s": 2 ** self.rng.uniform(-8, 1)}))
        except (Wrong, AssertionError) as e:  # as an event, or as an answer, which is no stream
            if "seconds it may take" not in str(e):
                raise

    def line(self):
        few = [self.pick(self.load.small) for _ in range(self.rng.randint(2, 6))]
        with Conn(self.server, PATIENCE_S) as c:
            c.send(b"".join(request("POST", path, body) for _, path, body in few))
            for i, path, _ in few:
                a = c.answer()
                if a.status != 200:
                    raise Wrong("%s: %r" % (path, a))
                self.same(i, plain(path, a.json()))

    def long(self):
        n = self.rng.randint(LONG_TOKENS // 2, LONG_TOKENS)
        run(self.server, "/v1/completions", {"prompt": [self.rng.randint(300, 7000) for _ in range(n)], "max_tokens": 1,
                                             "seed": 1, "stream": True})

    def watch(self):
        """Until there were some, or nothing happens any more."""
        with Conn(self.server, PATIENCE_S) as c:
            c.send(request("GET", "/cohort/live"))
            left, seen = self.rng.randint(1, 20), 0
            try:
                for line in c.events(WATCH_S):
                    if c.status != 200 or not line.startswith((":", "data: ")):
                        raise Wrong("%d %s" % (c.status, line))
                    seen += 1
                    if seen == left:
                        return
            except Late:
                if not seen and not self.load.ebb.value:
                    raise

    # ---- Bad ones ----

    def bad(self):
        name, data, want = self.rng.choice(self.rng.choice(self.load.bad))
        with Conn(self.server, PATIENCE_S) as c:
            c.send(data)
            a = c.answer()
        if callable(want):
            why = want(a)
        else:
            why = None if a.status in (want if isinstance(want, (set, frozenset)) else {want}) else "got %r" % a
        if why:
            raise Wrong("%s: %s" % (name, why))

    # ---- Slots ----

    def slot(self):
        r = self.rng
        action, n = r.choice(("save", "restore", "erase")), r.randrange(N_SLOTS)
        name = "s%d.bin" % r.randrange(SLOT_FILES)
        if r.random() < 0.2:
            path, body, status, field = r.choice((
                ("/slots/%d?action=save" % N_SLOTS, {"filename": name}, 404, None),
                ("/slots/x?action=save", {}, 404, None),
                ("/slots/0?action=save", {"filename": "../x"}, 400, "filename"),
                ("/slots/0?action=save", {}, 400, "filename"),
                ("/slots/0?action=restore", {"filename": 5}, 400, "filename"),
                ("/slots/0?action=burn", {}, 400, "action"),
                ("/slots/0?action=restore", {"filename": "nowhere.bin"}, 404, "filename")))
            why = refusal(self.server.post(path, body), status, field)
            if why:
                raise Wrong("%s: %s" % (path, why))
            return
        a = self.server.ask("POST", "/slots/%d?action=%s" % (n, action), {"filename": name}, (), PATIENCE_S)
        said = a.error().get("message", "")
        ok = a.status == 200 or (action == "save" and a.status == 400 and "nothing of slot" in said) or (
            action == "restore" and a.status in (404, 503) and said) or (action != "restore" and a.status == 403 and "cache_salt" in said)
        if not ok:
            raise Wrong("%s of slot %d: %r" % (action, n, a))

    # ---- Batches ----

    def api(self, method, path, body=None, headers=(), status=200):
        a = self.server.ask(method, path, body, headers, PATIENCE_S)
        if a.status != status:
            raise Wrong("%s %s: %r" % (method, path, a))
        return a

    def batch(self):
        r = self.rng
        path = r.choice(BATCHED)
        every = [i for i in self.load.bodies if self.load.requests[i][0] == path]
        few = r.sample(every, min(len(every), r.randint(2, 10)))
        lines = [{"custom_id": "r%d" % i, "body": self.load.bodies[i]} for i in few]
        n_bad = r.random() < 0.3
        if n_bad:
            lines.append({"custom_id": "bad", "body": {"prompt": 5, "messages": 5, "input": 5}})
        content = "\n".join(json.dumps({"method": "POST", "url": path, **line}) for line in lines).encode()
        files = [self.api("POST", "/v1/files", *form(content)).json()["id"]]
        b = self.api("POST", "/v1/batches", {"input_file_id": files[0], "endpoint": path,
                                             "completion_window": "24h"}).json()
        leave_at = time.monotonic() + 2 ** r.uniform(-5, 5) if r.random() < 0.25 else None
        b = self.follow(b, leave_at)
        files += [b[k] for k in ("output_file_id", "error_file_id") if b[k]]
        got = self.results(files[1:])
        if b["status"] not in (("completed",) if leave_at is None else ("completed", "cancelled")) or b["errors"]:
            raise Wrong("a batch is %s" % json.dumps(b))
        if b["status"] == "completed" and len(got) != len(lines):
            raise Wrong("%d results of %d lines: %s" % (len(got), len(lines), json.dumps(b)))
        for i in (i for i in few if "r%d" % i in got):
            self.same(i, got["r%d" % i])
        if got.get("bad", 400) != 400 or not set(got) <= {line["custom_id"] for line in lines}:
            raise Wrong("results are %s" % got)
        for f in files:
            self.api("DELETE", "/v1/files/" + f)
        self.api("GET", "/v1/files/%s/content" % r.choice(files), status=404)

    def follow(self, b, leave_at):
        """Waits for a batch's end, which is cancelled at some time, perhaps."""
        until = time.monotonic() + BATCH_S
        while b["status"] not in FINAL:
            if time.monotonic() > until:
                raise Wrong("a batch does not end: %s" % json.dumps(b))
            time.sleep(0.2)
            if leave_at and time.monotonic() > leave_at:
                a = self.server.ask("POST", "/v1/batches/%s/cancel" % b["id"], {}, (), PATIENCE_S)
                if a.status not in (200, 409):  # 409: it has ended meanwhile, or is about to
                    raise Wrong("cancel: %r" % a)
                leave_at = None
            b = self.api("GET", "/v1/batches/" + b["id"]).json()
        return b

    def results(self, files):
        """By custom_id: the digest of a line's answer, or its status. A line has one result."""
        out = {}
        for f in files:
            for line in self.api("GET", "/v1/files/%s/content" % f).body.splitlines():
                v = json.loads(line)
                if v["custom_id"] in out:
                    raise Wrong("a line has two results: %s" % v["custom_id"])
                choices, answer = {}, v["response"] or {"status_code": 0}
                if answer["status_code"] == 200:
                    gather(answer["body"], choices)
                out[v["custom_id"]] = digest(choices) if choices else answer["status_code"]
        return out


def crowd(load, first, n, seed, pipe):
    """A process of n clients, which tells the news every second, and in the end what came of it."""
    news = News()
    clients = [Client(load, first + i, seed, news) for i in range(n)]
    threads = [threading.Thread(target=c.work, daemon=True) for c in clients]
    for t in threads:
        t.start()
    while any(t.is_alive() for t in threads):
        at = time.monotonic()
        time.sleep(0.5)
        if time.monotonic() - at > STALL_S:
            pipe.send(("stall", at, time.monotonic()))
        pipe.send(("news", *news.take()))
    pipe.send(("news", *news.take()))
    pipe.send(("end", sum((c.counts for c in clients), collections.Counter()), [w for c in clients for w in c.wrong]))
