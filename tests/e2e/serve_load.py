"""Many clients of one server at once, some of which go away: every answer is the one that the same request gets alone,
nothing is left behind, and the server stays as quick and as small as it was. See serve_load.sh.

    serve_load.py COHORT TMP [SECONDS]      8 s unless told, 64 clients; limits in time that only a server that hangs breaks

soak.py does more of it, for as long as it is told, with limits that are narrow. Clients are processes with threads, so that they wait for the server and not for each other.
"""
import hashlib
import json
import multiprocessing
import random
import re
import signal
import socket
import struct
import sys
import threading
import time

from serve_client import Cases, Closed, Conn, Late, Server, eventually, request

SECONDS = float(sys.argv[3]) if len(sys.argv) > 3 else 8.0
CLIENTS = 64
PROCESSES = 4
GONE = 0.10  # of the requests are left alone by their client
SLOW = 0.03  # of the clients read slowly
LONG_TOKENS = 900
HEALTH_P99_S = 2.0
RSS_DRIFT = 0.05
ARGS = ["-np", "16", "-queue", "512", "-seed", "1"]
OPENINGS = ["Once upon a time", "The little dog", "Tom and Anna went to", "It was dark, and", "One day a bird",
            "The sun was", "Lily had a red ball.", "Ben said: \"", "In the garden there", "A cat who could talk"]


def pool():
    """The requests: every kind that streams, some that do not, each with its own seed."""
    rng = random.Random(9)
    out = []
    for i in range(72):
        body = {"seed": i, "max_tokens": rng.randint(4, 48), "temperature": rng.choice([0, 0.7, 1.3]), "stream": True}
        path = "/v1/completions"
        text = " ".join(rng.choice(OPENINGS) for _ in range(rng.choice([1, 1, 2, 8, 24])))
        kind = i % 9
        if kind in (1, 2):
            path = "/v1/chat/completions"
            body["messages"] = [{"role": "user", "content": text}]
        else:
            body["prompt"] = text
        if kind in (2, 3):
            body["n"] = rng.randint(2, 4)
        if kind == 4:
            body["logprobs"] = 3
        if kind == 5:
            body["stop"] = [" the", "."]
            body["echo"] = True
        if kind == 6:
            body["response_format"] = {"type": "json_object"}
            body["max_tokens"] = 24
        if kind == 7:
            body["stream"] = False
            body["prompt"] = [text, rng.choice(OPENINGS)]
        if kind == 8:
            path = "/v1/embeddings"
            body = {"input": [text, rng.choice(OPENINGS)]}
        if kind in (0, 3) and i % 2:
            body["frequency_penalty"] = 0.5
        out.append((path, body))
    return out


def lengthy(n, rng):
    """A prompt of n tokens that nothing was computed of before."""
    return {"prompt": [rng.randint(300, 7000) for _ in range(n)], "max_tokens": 1, "seed": 1, "stream": True}


class Wrong(Exception):
    pass


def gather(value, choices):
    """One object of an answer into what is compared: per choice its text, its log-probabilities and its end."""
    if "error" in value:
        raise Wrong("an error: %s" % json.dumps(value["error"]))
    for c in value.get("choices", []):
        got = choices.setdefault(c["index"], {"text": "", "logprobs": [], "end": None})
        got["text"] += c.get("text") or (c.get("delta") or c.get("message") or {}).get("content") or ""
        if c.get("logprobs"):
            got["logprobs"].append(c["logprobs"])
        got["end"] = c.get("finish_reason") or got["end"]
    for d in value.get("data", []):
        choices[d["index"]] = d["embedding"]


def digest(choices):
    """What must be the same. How a stream is cut is not part of it, so lists of log-probabilities are joined."""
    for got in choices.values():
        if isinstance(got, dict) and got["logprobs"]:
            joined = {}
            for part in got["logprobs"]:
                for k, v in part.items():
                    joined.setdefault(k, []).extend(v or [])
            got["logprobs"] = joined
    return hashlib.sha256(json.dumps(choices, sort_keys=True).encode()).hexdigest()


def run(server, path, body, rng=None, gone=False, pause=None, first=None, rude=False):
    """The digest of an answer; None when the client went away on purpose. Anything else is Wrong. pause: called
    behind each event of a stream; first: when the first is there; rude: who goes away resets the connection."""
    choices = {}
    raw = request("POST", path, body)
    with Conn(server, 120) as c:
        if gone and rude:
            c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if gone and rng.random() < 0.2:
            c.send(raw[:rng.randrange(len(raw))])
            return None
        if not c.send(raw):
            raise Wrong("the connection was closed")
        if gone and rng.random() < 0.3:
            time.sleep(rng.random() * 0.3)  # it waits, in the queue or in its prompt
            return None
        if not body.get("stream"):
            if gone:
                return None
            a = c.answer()
            if a.status != 200:
                raise Wrong(repr(a))
            gather(a.json(), choices)
            return digest(choices)
        left = rng.randint(1, 12) if gone else -1
        n_done = 0
        for line in c.events():
            if c.status != 200:
                raise Wrong("%d %s" % (c.status, line))
            if line.startswith(":"):
                continue
            if n_done or not line.startswith("data: "):
                raise Wrong("behind the end, or no event: %s" % line)
            if line == "data: [DONE]":
                n_done += 1
                continue
            gather(json.loads(line[6:]), choices)
            if first:
                first()
                first = None
            left -= 1
            if left == 0:
                return None
            if pause:
                pause()
        if n_done != 1:
            raise Wrong("a stream without [DONE]")
    if any(got["end"] is None for got in choices.values()):
        raise Wrong("a choice without its end")
    return digest(choices)


def client(server, requests, want, seed, until, results):
    rng = random.Random(seed)
    pause = (lambda: time.sleep(0.05)) if rng.random() < SLOW else None
    n_ok = n_gone = 0
    wrong = []
    while time.monotonic() < until and len(wrong) < 5:
        i = rng.randrange(len(requests))
        gone = rng.random() < GONE
        path, body = requests[i]
        try:
            got = run(server, path, body, rng, gone, pause)
            if got is None:
                n_gone += 1
            elif got != want[i]:
                wrong.append("request %d has another answer than alone: %s" % (i, json.dumps(body)[:200]))
            else:
                n_ok += 1
        except (Wrong, Late, Closed, OSError, AssertionError, ValueError) as e:
            wrong.append("request %d: %s %s" % (i, type(e).__name__, e))
    results.append((n_ok, n_gone, wrong))


def crowd(server, requests, want, first, n, until, pipe):
    """A process of n clients."""
    results = []
    threads = [threading.Thread(target=client, args=(server, requests, want, first + i, until, results))
               for i in range(n)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    pipe.send(results)


def health(server, pipe):
    """A process that asks how the server is, again and again, until the pipe says something. Times, and the status where it
    was not 200."""
    times, bad = [], []
    while not pipe.poll(0.005):
        t = time.monotonic()
        a = server.get("/health")
        times.append((t, time.monotonic() - t))
        if a.status != 200:
            bad.append(repr(a))
    pipe.send((times, bad))


def prober(server):
    ours, theirs = multiprocessing.Pipe()  # an Event would need /dev/shm
    p = multiprocessing.Process(target=health, args=(server, theirs))
    p.start()

    def end():
        ours.send("stop")
        got = ours.recv() if ours.poll(90) else ([], ["the prober does not answer"])
        p.join()
        return got
    return end


def p99(times):
    times = sorted(times)
    return times[min(len(times) - 1, int(len(times) * 0.99))] if times else float("inf")


def rss_kib(server):
    """What is its own: pages of the model's file come and go as the kernel likes."""
    with open("/proc/%d/status" % server.process.pid, encoding="ascii") as f:
        return int(re.search(r"RssAnon:\s+(\d+)", f.read()).group(1))


def median(values):
    return sorted(values)[len(values) // 2]


def blocks(server):
    m = server.metrics()
    return {s: int(m['cohort:blocks{state="%s"}' % s]) for s in ("used", "cached", "free")}


def main():
    cases = Cases()
    requests = pool()
    # Alone: a server of its own that reuses nothing, one request after the other.
    with Server(ARGS + ["-no-reuse"]) as server:
        want = [run(server, path, body) for path, body in requests]
        cases.check("each request alone", len(want) == len(requests))
        cases.check("which are different answers", len(set(want)) > len(want) * 3 // 4, len(set(want)))

    with Server(ARGS) as server:
        before, fds = blocks(server), server.fds()
        cases.check("all is free at the start", before["free"] > 0 and before["used"] == before["cached"] == 0, before)

        # A long prompt on a server that is idle otherwise, then in the crowd. They also fill the cache: it is memory
        # that is used from then on.
        rng = random.Random(5)
        end = prober(server)
        while True:
            run(server, "/v1/completions", lengthy(LONG_TOKENS, rng))
            if blocks(server)["free"] < 32:
                break
        times, bad = end()
        quick = p99([t for _, t in times])
        cases.check("/health while a prompt of %d tokens is computed" % LONG_TOKENS, not bad and quick < HEALTH_P99_S,
                    "p99 %.1f ms of %d, %s" % (quick * 1e3, len(times), bad[:3]))
        print("# /health beside a prompt of %d tokens: p99 %.1f ms, %d asked" % (LONG_TOKENS, quick * 1e3, len(times)))

        until = time.monotonic() + SECONDS
        pipes, crowds = [], []
        for i in range(PROCESSES):
            ours, theirs = multiprocessing.Pipe(False)
            pipes.append(ours)
            crowds.append(multiprocessing.Process(target=crowd, args=(
                server, requests, want, i * CLIENTS, CLIENTS // PROCESSES, until, theirs)))
        for c in crowds:
            c.start()
        end = prober(server)
        memory, n_long, wrong = [], 0, []
        while time.monotonic() < until:
            try:
                run(server, "/v1/completions", lengthy(LONG_TOKENS, rng))
                n_long += 1
            except Exception as e:  # pylint: disable=broad-except
                wrong.append("the long prompt: %s %s" % (type(e).__name__, e))
                break
            memory.append(rss_kib(server))
            time.sleep(min(0.5, max(0, until - time.monotonic())))
        got = [r for p in pipes for r in (p.recv() if p.poll(180) else [(0, 0, ["a process of clients hangs"])])]
        for c in crowds:
            c.join(10)
            c.kill()
        times, bad = end()
        n_ok, n_gone = sum(r[0] for r in got), sum(r[1] for r in got)
        wrong += [w for r in got for w in r[2]]
        print("# %d clients, %.0f s: %d answers, %d left by their clients, %d prompts of %d tokens, %d wrong" %
              (CLIENTS, SECONDS, n_ok, n_gone, n_long, LONG_TOKENS, len(wrong)))
        cases.check("all clients came to their end", len(got) == CLIENTS, len(got))
        cases.check("every answer is the one that its request gets alone", not wrong and n_ok > CLIENTS,
                    "%d of %d: %s" % (len(wrong), n_ok, "\n".join(wrong[:10])))
        cases.check("some clients went away", n_gone > 0, n_gone)
        quick = p99([t for _, t in times])
        print("# /health in the crowd: p99 %.1f ms, longest %.1f ms, %d asked" %
              (quick * 1e3, max(t for _, t in times) * 1e3, len(times)))
        cases.check("/health in the crowd", not bad and quick < HEALTH_P99_S, "p99 %.1f ms, %s" % (quick * 1e3, bad[:3]))

        # The first third is what fills caches and arenas.
        third = max(1, len(memory) // 3)
        early, late = median(memory[third:2 * third] or memory), median(memory[2 * third:] or memory)
        drift = (late - early) / early
        print("# memory of its own: %d KiB in the second third, %d KiB in the last, %+.2f %%" % (early, late, drift * 100))
        cases.check("memory does not grow", drift < RSS_DRIFT, memory)

        cases.check("nothing is under way behind it", server.idle_within(20), server.slots())
        b = blocks(server)
        cases.check("no block is used", b["used"] == 0 and sum(b.values()) == sum(before.values()), (before, b))
        cases.check("no connection is left", eventually(lambda: server.fds() <= fds + 1, 20), (fds, server.fds()))
        m = server.metrics()
        finished = sum(v for k, v in m.items() if k.startswith("cohort:requests_finished_total"))
        cases.check("all that was begun is finished", m["cohort:requests_submitted_total"] == finished,
                    (m["cohort:requests_submitted_total"], finished))
        cases.check("no tick failed", m["cohort:decode_retries_total"] == 0 and m["cohort:strategy_fallbacks_total"] == 0, m)
        for i in random.Random(3).sample(range(len(requests)), 12):
            path, body = requests[i]
            cases.check("request %d afterwards" % i, run(server, path, body) == want[i], body)
        cases.check("it ends when it is asked to", server.stop() == 0, server.lines[-5:])
    cases.end()


if __name__ == "__main__":
    signal.alarm(int(SECONDS) + 400)
    main()
