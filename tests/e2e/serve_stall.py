"""Requests that take long to prepare, beside others: see serve_stall.sh."""
import threading
import time

from serve_client import PROGRAM, Cases, Server, request

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


def hogs():
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
        check("all of them are answered", first.status in (200, 400) and statuses == [first.status] * N_HOGS,
              (first, statuses))
        check("/health does not wait for them", max(health) < alone, (alone, max(health)))
        check("the stream of another key does not wait for them", max(gaps) < alone, (alone, max(gaps)))
        check("another client's request is not behind all of them", small.status == 200 and left[0] >= N_HOGS / 2,
              (small, left))


hogs()
cases.end()
