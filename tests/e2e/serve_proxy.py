"""Cases of serve_proxy.sh. serve_proxy.py CASE FRONT SERVER...: exits 1 and says why when it does not hold."""
import http.client, json, sys, time

STORY = "Once upon a time there was a little girl who had a dog and a cat, and they lived in a house by the sea. " * 3


def ask(where, path, body=None, headers=None):
    c = http.client.HTTPConnection(where, timeout=30)
    c.request("GET" if body is None else "POST", path, None if body is None else json.dumps(body), headers or {})
    r = c.getresponse()
    text = r.read()
    c.close()
    return r.status, dict((k.lower(), v) for k, v in r.getheaders()), text


def complete(front, prompt, hashed=None, **more):
    headers = {"X-Prefix-Hash": hashed} if hashed else {}
    status, got, text = ask(front, "/v1/completions", dict(prompt=prompt, max_tokens=2, **more), headers)
    assert status == 200, (status, text)
    return json.loads(text), got


def metric(server, name):
    text = ask(server, "/metrics")[2].decode()
    return float([l for l in text.split("\n") if l.startswith(name + " ")][0].split(" ")[-1])


def submitted(servers):
    return [metric(s, "cohort:requests_submitted_total") for s in servers]


def alive(front):
    status = ask(front, "/health")[0]
    assert status == 200, status
    assert ask(front, "/metrics")[0] == 404  # each server's own


def affine(front, *servers):
    for name in "alpha", "beta", "gamma":
        before = submitted(servers)
        who = set()
        for i in range(4):
            answer, got = complete(front, "%s %s And %d" % (name, STORY, i), name)
            who.add(got["x-served-by"])
            cached = answer["usage"]["prompt_tokens_details"]["cached_tokens"]
            assert i == 0 or cached >= 64, (name, i, cached)
        assert len(who) == 1, (name, who)
        grown = sorted(b - a for a, b in zip(before, submitted(servers)))
        assert grown == [0, 4], (name, grown)
    # The server's own word for it, from whichever server: it finds one of them, always the same.
    hashes = {complete(front, STORY + str(i))[1]["x-prefix-hash"] for i in range(4)}
    assert len(hashes) == 1, hashes
    who = {complete(front, STORY + str(i), min(hashes))[1]["x-served-by"] for i in range(4)}
    assert len(who) == 1, who


def spread(front, *servers):
    who = {complete(front, "Once", "hash-%d" % i)[1]["x-served-by"] for i in range(24)}
    assert len(who) == 2, who
    before = submitted(servers)
    held = [open_stream(front, 300)[0] for _ in range(4)]
    time.sleep(0.1)
    grown = [b - a for a, b in zip(before, submitted(servers))]
    for c in held:
        c.close()
    assert min(grown) >= 1, grown


def send(front, n, stream, hashed=None):
    c = http.client.HTTPConnection(front, timeout=30)
    body = dict(prompt="Once upon a time", max_tokens=n, stream=stream, ignore_eos=True)
    c.request("POST", "/v1/completions", json.dumps(body), {"X-Prefix-Hash": hashed} if hashed else {})
    return c


def open_stream(front, n, hashed=None):
    c = send(front, n, True, hashed)
    r = c.getresponse()
    assert r.status == 200, r.status
    return c, r


def busy(servers):
    return sum(s["is_processing"] for server in servers for s in json.loads(ask(server, "/slots")[2]))


def wait_idle(servers):
    end = time.monotonic() + 20
    while busy(servers):
        assert time.monotonic() < end, "slots stay busy"
        time.sleep(0.02)


def stream(front, *servers):
    wait_idle(servers)
    for hashed in None, "alpha":
        c, r = open_stream(front, 600, hashed)
        assert "x-prefix-hash" in dict((k.lower(), v) for k, v in r.getheaders())
        text, n_pieces = r.read1(65536), 1
        assert busy(servers) == 1, "the answer was there before its first piece came"
        while True:
            piece = r.read1(65536)
            if not piece:
                break
            text += piece
            n_pieces += 1
        c.close()
        assert text.endswith(b"data: [DONE]\n\n") and text.count(b"data: ") > 400, text[-100:]
        # A buffer of a proxy has 4 KiB or more: some 25 pieces.
        assert n_pieces > 100, n_pieces


def leave(front, *servers):
    name = 'cohort:requests_finished_total{reason="cancelled"}'
    for streamed in True, False:
        wait_idle(servers)
        before = sum(metric(s, name) for s in servers)
        c = send(front, 1000, streamed)
        end = time.monotonic() + 10
        while not busy(servers):
            assert time.monotonic() < end, "it does not begin"
        c.close()
        while sum(metric(s, name) for s in servers) != before + 1:
            assert time.monotonic() < end, "it was not cancelled, stream %r" % streamed
            time.sleep(0.02)
        wait_idle(servers)


def failover(front, *servers):
    before = submitted(servers)
    for i in range(24):
        complete(front, "Once", "hash-%d" % i if i % 3 else None)
    grown = submitted(servers)[0] - before[0]
    assert grown == 24, grown


if __name__ == "__main__":
    where = [a.replace("http://", "") for a in sys.argv[2:]]
    try:
        globals()[sys.argv[1]](*where)
    except (AssertionError, OSError, http.client.HTTPException) as e:
        print("%s: %r" % (sys.argv[1], e), file=sys.stderr)
        sys.exit(1)
