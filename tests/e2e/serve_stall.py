"""Requests that take long to prepare, beside others: see serve_stall.sh."""
import json
import os
import threading
import time

from serve_client import FOLDER, PROGRAM, Cases, Server, request

CHECKED = b"__asan_init" in open(PROGRAM, "rb").read()
COMPLETIONS = "/v1/completions"
HOG, OTHER = [[("Authorization", "Bearer key-of-the-%s" % who)] for who in ("hog", "other")]
KEYS = ["-api-key", "key-of-the-hog", "-api-key", "key-of-the-other"]
GOOD = {"prompt": "Once upon a time", "max_tokens": 2, "temperature": 0}
N_HOGS = 6

cases = Cases()
check = cases.check


def slow_body(n):
    """A schema that is refused when it has been compiled, which takes half a second. Of its own, so that no cache has it."""
    values = ["value %d %s" % (i, "q" * (i % 7)) for i in range(1000 if CHECKED else 6000)]
    return {"prompt": "Once", "max_tokens": 1, "json_schema": {"enum": values, "title": str(n)}}


def measure():
    """Many schemas of one key at once. What they take is measured with one alone, so that the bounds are as slow as the
    machine is: an HTTP thread that does such work holds up others for that long and longer."""
    with Server(KEYS) as server:
        began = time.monotonic()
        first = server.post(COMPLETIONS, slow_body(-1), HOG)
        alone = time.monotonic() - began
        statuses, gaps, health, left = [], [], [], []
        streaming = threading.Event()

        def hog(n):
            statuses.append(server.post(COMPLETIONS, slow_body(n), HOG).status)

        def stream():
            while len(statuses) < N_HOGS:
                with server.connect() as c:
                    body = {**GOOD, "max_tokens": 200, "ignore_eos": True, "stream": True}
                    c.send(request("POST", COMPLETIONS, body, OTHER))
                    last = None
                    for _ in c.events():
                        now = time.monotonic()
                        if last is not None:
                            gaps.append(now - last)
                        last = now
                        streaming.set()

        reader = threading.Thread(target=stream)
        reader.start()
        streaming.wait(60)
        crowd = [threading.Thread(target=hog, args=(n,)) for n in range(N_HOGS)]
        for t in crowd:
            t.start()
        time.sleep(alone / 4)
        small = server.post(COMPLETIONS, GOOD, OTHER)
        left.append(N_HOGS - len(statuses))
        while len(statuses) < N_HOGS and all(h < 60 for h in health):
            began = time.monotonic()
            server.get("/health")
            health.append(time.monotonic() - began)
            time.sleep(0.02)
        for t in crowd + [reader]:
            t.join()
    return first, statuses, small, left[0], alone, max(health), max(gaps)


def hogs():
    """Other programs take the processors now and then, too: the best of three times counts."""
    for _ in range(3):
        first, statuses, small, left, alone, health, gap = measure()
        if statuses != [first.status] * N_HOGS or (health < alone and gap < alone and left >= N_HOGS / 2):
            break
    check("all of them are answered", first.status in (200, 400) and statuses == [first.status] * N_HOGS, (first, statuses))
    check("/health does not wait for them", health < alone, (alone, health))
    check("the stream of another key does not wait for them", gap < alone, (alone, gap))
    check("another client's request is not behind all of them", small.status == 200 and left >= N_HOGS / 2, (small, left))


def answered(server, body):
    """The slowest /health while two clients have long answers made, and the time that reading one takes here."""
    answers = [None] * 2

    def ask(i):
        answers[i] = server.post("/v1/embeddings", body, HOG)

    crowd = [threading.Thread(target=ask, args=(i,)) for i in range(len(answers))]
    slowest = 0
    for t in crowd:
        t.start()
    while any(t.is_alive() for t in crowd):
        began = time.monotonic()
        server.get("/health")
        slowest = max(slowest, time.monotonic() - began)
        time.sleep(0.01)
    began = time.monotonic()
    n = [len(a.json()["data"]) for a in answers]
    return slowest, (time.monotonic() - began) / len(answers), n


def long_answers():
    """Two thousand vectors each. An HTTP thread that writes one is busy for several times as long as reading it takes."""
    n = 200 if CHECKED else 2000
    with Server(KEYS) as server:
        for _ in range(3):
            slowest, reading, got = answered(server, {"input": ["text %d" % i for i in range(n)]})
            if slowest < reading:
                break
    check("/health does not wait for long answers", slowest < reading and got == [n] * 2, (slowest, reading, got))


SLOW = os.path.join(os.environ.get("COHORT_BUILD", ""), "slow_disk.so")  # slow_disk.c
FORM = (b'--xx\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
        b'--xx\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\nx\r\n--xx--\r\n')


def uploads():
    """Small files of one key at once, on a slow disk: each is given to the disk, and put on a list that others read."""
    headers = HOG + [("Content-Type", "multipart/form-data; boundary=xx")]
    statuses, health = [], []
    with Server(KEYS + ["-data", os.path.join(FOLDER, "stalled")], env={**os.environ, "LD_PRELOAD": SLOW}) as server:
        began = time.monotonic()
        statuses.append(server.ask("POST", "/v1/files", FORM, headers).status)
        alone = time.monotonic() - began
        crowd = [threading.Thread(target=lambda: statuses.append(server.ask("POST", "/v1/files", FORM, headers).status)) for _ in range(12)]
        for t in crowd:
            t.start()
        while any(t.is_alive() for t in crowd):
            began = time.monotonic()
            server.get("/health")
            health.append(time.monotonic() - began)
            time.sleep(0.01)
    check("/health does not wait for the disk", max(health) < alone and statuses == [200] * 13, (alone, max(health), statuses))


N = 6 << 20  # bytes of a body


def peak(server):
    """The most memory that the server had so far, in bytes."""
    with open("/proc/%d/status" % server.process.pid) as f:
        return next(int(line.split()[1]) << 10 for line in f if line.startswith("VmHWM"))


def message(text, n=1):
    return {"messages": [{"role": "user", "content": text}] * n}


def memory():
    """What a long body may take, whatever is in it: less than six times its length."""
    letters, words, tokens = "a" * N, "the cat sat, " * (N // 13), [1234] * (N // 6)
    refused, short = (400, "context_length_exceeded"), 600
    bodies = (("spaces", COMPLETIONS, {"prompt": " " * N}, refused),
              ("letters", "/completion", {"prompt": letters}, refused),
              ("letters of four bytes", COMPLETIONS, {"prompt": "\U0001f600" * (N // 12)}, refused),
              ("tokens", COMPLETIONS, {"prompt": tokens}, refused),
              ("lists of tokens", "/v1/embeddings", {"input": [[7] * 1000] * 2000 + [[-1]]}, (400, None)),
              ("a text for embeddings", "/v1/embeddings", {"input": words}, refused),
              ("a chat", "/v1/chat/completions", message(words), refused),
              ("a chat of many messages", "/v1/chat/completions", message("x" * short, N // short), refused),
              ("a chat of parts", "/v1/chat/completions", message([{"type": "text", "text": "x" * short}] * (N // short)), refused),
              ("a template", "/apply-template", message(letters), (200, None)),
              ("the tokens of letters", "/tokenize", {"content": letters}, (200, None)),
              ("the pieces of words", "/tokenize", {"content": words, "with_pieces": True}, (200, None)),
              ("the text of tokens", "/detokenize", {"tokens": tokens}, (200, None)),
              ("values", COMPLETIONS, {"prompt": "x", "other": [{}] * (N // 4)}, (400, None)))
    env = {k: v for k, v in os.environ.items() if k != "MALLOC_PERTURB_"}  # which writes to all memory
    for what, path, body, want in bodies:
        with Server(env=env) as server:
            server.post(COMPLETIONS, GOOD)
            text = json.dumps(body).encode()
            before = peak(server)
            a = server.ask("POST", path, text)
            times = (peak(server) - before) / len(text)
            check("memory: " + what, (a.status, a.error().get("code")) == want and times < 6, (times, a))


hogs()
long_answers()
if not CHECKED and os.path.exists(SLOW):
    uploads()
if CHECKED:
    print("# a sanitizer's memory is not measured")
else:
    memory()
cases.end()
