"""Clients in crowds, and bodies that ask for much: see serve_crowd.sh."""
import json
import os
import select
import time

from serve_client import FOLDER, PROGRAM, Cases, Server, eventually, request

COMPLETIONS, EMBEDDINGS = "/v1/completions", "/v1/embeddings"
GOOD = {"prompt": "Once upon a time", "max_tokens": 3, "temperature": 0}
LONG = {"prompt": "The cat", "max_tokens": 900, "ignore_eos": True, "stream": True}
# About 30 tokens a second, so that what is asked for is still under way when something happens to it.
SLOW = ["-isa", "ref", "-t", "1", "-b", "4", "-ub", "4"]
CHECKED = b"__asan_init" in open(PROGRAM, "rb").read()
N_LINES = 15 if CHECKED else 63  # of a batch

cases = Cases()
check = cases.check


def begin(server, body):
    """A connection with a stream under way."""
    c = server.connect()
    c.send(request("POST", COMPLETIONS, body))
    return c


def grammars():
    """Clients hang up whose grammars the engine still uses."""
    with Server(SLOW + ["-np", "2"]) as server:
        crowd = []

        def ask(priority):
            crowd.append(begin(server, {**LONG, "grammar": 'root ::= [a-z]+ "z%d" [a-z ]+' % len(crowd), "priority": priority}))
            return eventually(lambda: server.busy() == len(crowd), 10)

        # Two are in the slots, and sixteen have all places of the cache; so that nobody but the last two has theirs.
        waited = all([ask(-10) for _ in range(16)] + [ask(0) for _ in range(2)])
        for c in crowd[:16]:
            c.close()
        waited = waited and all("data: {" in next(c.events(10), "") for c in crowd[16:])
        for c in crowd[16:]:
            c.close()

        def over():
            try:
                return server.busy() == 0
            except (OSError, TypeError, KeyError):  # it has crashed
                return server.wait(5) is not None

        ended = eventually(over, 10)
        check("grammars whose clients hang up", waited and ended and server.process.poll() is None and
              server.post(COMPLETIONS, GOOD).status == 200, (waited, ended, server.process.poll(), server.lines[:20]))


def full_queue():
    """A batch whose lines find no place in the queue waits, and does not try again all the time."""
    with Server(SLOW + ["-np", "1", "-queue", "2", "-queue-tokens", "100", "-batch-parallel", "64", "-data",
                        os.path.join(FOLDER, "crowd")]) as server:
        line = {"method": "POST", "url": COMPLETIONS, "body": {"prompt": "The", "max_tokens": 1}}
        lines = [json.dumps({**line, "custom_id": "r%d" % i}) + "\n" for i in range(N_LINES)]
        lines += [json.dumps({**line, "custom_id": "never", "body": {"prompt": [5] * 101, "max_tokens": 1}}) + "\n"]
        form = "".join('--xx\r\nContent-Disposition: form-data; name="%s"%s\r\n\r\n%s\r\n' % part for part in
                       (("purpose", "", "batch"), ("file", '; filename="a.jsonl"', "".join(lines)))) + "--xx--\r\n"
        f = server.post("/v1/files", form.encode(), [("Content-Type", "multipart/form-data; boundary=xx")]).json()
        crowd = []
        for n in range(3):  # one in the slot, two behind it
            crowd.append(begin(server, LONG))
            eventually(lambda: server.busy() == len(crowd), 10)
        b = server.post("/v1/batches", {"input_file_id": f["id"], "endpoint": COMPLETIONS, "completion_window": "24h"}).json()
        refused = "cohort:requests_refused_total"
        tried = eventually(lambda: server.metrics()[refused] > 0, 10)
        before = server.metrics()[refused]
        time.sleep(1)
        n = server.metrics()[refused] - before
        check("a full queue: a batch waits, and tries some times a second", tried and server.busy() == 3 and n < 300, (tried, n))
        for c in crowd:
            c.close()

        def state():
            return server.get("/v1/batches/" + b["id"]).json()

        done = eventually(lambda: state()["status"] == "completed", 60)
        check("a full queue: then the batch goes on", done and state()["request_counts"]["completed"] == N_LINES, state())
        bad = server.get("/v1/files/%s/content" % state()["error_file_id"]).json()
        check("a line that no queue would ever hold fails", done and bad["custom_id"] == "never" and
              bad["response"]["status_code"] == 400 and bad["response"]["body"]["error"]["param"] == "prompt", bad)


def windows():
    """More prompts than the queue holds: they are queued as there is room."""
    texts = ["the cat number %d" % i for i in range(100)]
    with Server(["-np", "4", "-queue", "8"]) as server:
        a = server.post(EMBEDDINGS, {"input": texts})
        got = [(d["index"], d["embedding"]) for d in (a.json() or {}).get("data", ())]
        server.idle_within(10)
        some = [(i, server.post(EMBEDDINGS, {"input": texts[i]}).json()["data"][0]["embedding"]) for i in (0, 50, 99)]
        check("100 embeddings, a queue of 8: all are there, in order", a.status == 200 and [i for i, _ in got] == list(range(100)) and
              all(one in got for one in some), a)
        a = server.post(COMPLETIONS, {**GOOD, "prompt": texts[:16]})
        with server.connect() as c:
            c.send(request("POST", COMPLETIONS, {**GOOD, "prompt": texts[:16], "stream": True}))
            events = [json.loads(e[6:]) for e in c.events(20) if e.startswith("data: {")]
        whole = [c["text"] for c in a.json()["choices"]] if a.status == 200 else []
        parts = ["".join(e["choices"][0]["text"] for e in events if e["choices"][0]["index"] == i) for i in range(16)]
        check("16 prompts, a queue of 8: as a whole and as a stream", len(whole) == 16 and whole == parts, (a, parts))
    with Server(SLOW + ["-np", "1", "-queue", "1", "-queue-tokens", "30", "-queue-timeout", "5"]) as server:
        for path, body, name in ((EMBEDDINGS, {"input": [5] * 31}, "input"), (COMPLETIONS, {**GOOD, "prompt": [5] * 31}, "prompt")):
            a = server.post(path, body)
            check("a prompt that no queue would ever hold is 400 %s" % name, a.status == 400 and a.error()["param"] == name, a)
        begun = time.monotonic()
        a = server.post(EMBEDDINGS, {"input": texts, "deadline_s": 0.5})
        took = time.monotonic() - begun
        check("deadline_s is that of all prompts together", a.status == 503 and a.error()["code"] == "timeout" and took < 3, (took, a))
        with begin(server, LONG):
            eventually(lambda: server.busy() == 1, 10)
            with server.connect() as c:
                c.send(request("POST", EMBEDDINGS, {"input": texts[:3]}))
                eventually(lambda: server.busy() == 2, 10)
                a = server.post(EMBEDDINGS, {"input": texts[:3]})
                check("a queue that is full of others is 429", a.status == 429 and a.header("retry-after"), a)
        check("who hangs up has all prompts cancelled", server.idle_within(5), server.slots())


def peak_mib(server, which="VmHWM"):
    with open("/proc/%d/status" % server.process.pid, encoding="utf-8") as f:
        return int(next(line for line in f if line.startswith(which)).split()[1]) / 1024


def memory():
    """What a body takes, at most, is in proportion to it. Sanitizers have memory of their own: there only answers count."""
    with Server(["-np", "2"]) as server:
        before = peak_mib(server)
        text = "7+" * (1 << 17)
        a = server.post("/tokenize", {"content": text, "with_pieces": True})
        took = peak_mib(server) - before
        tokens = (a.json() or {}).get("tokens", [])
        ids = server.post("/tokenize", {"content": text}).json()["tokens"]
        check("/tokenize: 256 KiB in pieces", "".join(t["piece"] for t in tokens).strip() == text.strip() and
              [t["id"] for t in tokens] == ids, (a.status, len(tokens), len(ids)))
        check("/tokenize: its memory", CHECKED or took < 60, took)
        before = peak_mib(server)
        a = server.post(COMPLETIONS, b'{"prompt":"a","x":[' + b"{}," * 1000000 + b"0]}")
        took = peak_mib(server) - before
        check("a million objects in a body are 400", a.status == 400 and "values" in a.error()["message"] and (CHECKED or took < 60), (took, a))
        before = peak_mib(server)
        call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x":[' + "{}," * 200000 + "0]}"}}
        a = server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}] + [{"role": "assistant", "tool_calls": [call, call]}] * 5})
        took = peak_mib(server) - before
        check("so are two million in the arguments of ten calls", a.status == 400 and "values" in a.error()["message"] and
              a.error()["param"] == "messages[1].tool_calls[0]" and (CHECKED or took < 250), (took, a))
        a = server.post(COMPLETIONS, b'{"prompt":[' + b"5," * 300000 + b"5]}")
        check("300,000 tokens are read, and too many for the context", a.status == 400 and a.error()["param"] == "prompt", a)
        a = server.post(COMPLETIONS, {**GOOD, "pad": '{}[],\\",' * 400000})
        check("what a string says is no value", a.status == 200, a)
    with Server(SLOW + ["-np", "1"]) as server:
        before = peak_mib(server, "VmRSS")
        waiting = [server.connect() for _ in range(9)]
        for c in waiting:  # the first of them generates, the others are behind it
            c.send(request("POST", COMPLETIONS, b'{"prompt":"Once","n_predict":900,"ignore_eos":true,"x":[' + b"0," * 180000 + b"0]}"))
        queued = eventually(lambda: server.metrics()["llamacpp:requests_deferred"] >= 6, 20)
        took = []
        check("what a body says that nobody asks for is not kept while it waits", queued and (CHECKED or eventually(
            lambda: took.append(peak_mib(server, "VmRSS") - before) or took[-1] < 30, 10)), (queued, took[-3:], server.slots()))
        for c in waiting:
            c.close()


def viewers():
    """Who looks at slots, or empties them, waits for the end of a tick. However many do, others are answered as ever."""
    with Server(SLOW + ["-np", "8", "-slot-save-path", FOLDER]) as server:
        busy = [server.connect() for _ in range(8)]
        for c in busy:
            c.send(request("POST", COMPLETIONS, {"prompt": "Once", "n_predict": 1000, "ignore_eos": True}))
        check("all slots are seen to be busy", eventually(lambda: server.slots() == ["generating"] * 8, 20), server.slots())
        looking = [server.connect() for _ in range(150)]
        every = (request("GET", "/cohort/live"), request("GET", "/slots") * 100, request("POST", "/slots/0?action=erase", {}) * 20)
        for i, c in enumerate(looking):
            c.send(every[i % 3])
        time.sleep(1)
        took = []
        for _ in range(4):
            begun = time.monotonic()
            a = server.get("/health")
            took.append(time.monotonic() - begun)
        check("150 viewers keep nobody waiting", a.status == 200 and max(took) < 5, took)
        first = select.select([c.sock for c in looking[2::3]], [], [], 60)[0]
        a = next((c.answer() for c in looking[2::3] if c.sock in first), None)
        check("who empties slots has a turn", a and a.status == 200 and "n_erased" in a.json(), a)
        for c in busy:
            c.close()
        code = server.stop()
        check("and the server ends while the others wait for theirs", code == 0, (code, server.lines[-3:]))
        for c in looking:
            c.close()


def names():
    """A model's name that is no UTF-8, on every route that tells it."""
    with Server(["-alias", b"caf\xe9 \xf0\x9f\x98", "-np", "2"]) as server:
        want = "caf\ufffd \ufffd"
        for path, body in ((COMPLETIONS, GOOD), ("/completion", {**GOOD, "n_predict": 2})):
            a = server.post(path, body)
            check("a name that is no UTF-8: %s" % path, a.status == 200 and a.json() and a.json()["model"] == want, a)
        with server.connect() as c:
            c.send(request("POST", "/completion", {**GOOD, "stream": True}))
            last = list(c.events(20))[-1]
        check("a name that is no UTF-8: /completion as a stream", json.loads(last[6:])["model"] == want, last)
        a = server.get("/metrics")
        try:
            text = a.body.decode("utf-8")
        except ValueError as e:
            text = str(e)
        check("a name that is no UTF-8: /metrics", a.status == 200 and 'model_name="%s"' % want in text, text[:300])
        model = server.get("/v1/models").json()["data"][0]["id"]
        check("a name that is no UTF-8: /v1/models", model == want, model)


for part in (grammars, full_queue, windows, memory, viewers, names):
    begun = time.monotonic()
    part()
    print("# %s: %.1f s" % (part.__name__, time.monotonic() - begun), flush=True)
cases.end()
