"""A client of /v1/files and /v1/batches, and the servers it talks to. serve_batches.py CASE COHORT FOLDER"""
import http.client, json, os, random, re, resource, signal, socket, subprocess, sys, time

case, cohort, folder = sys.argv[1:4]
data = os.path.join(folder, "data-" + case)
FINAL = ("completed", "failed", "cancelled", "expired")
servers = []

class Server:
    """A server process; its port is read from what it says."""
    def __init__(self, *args, limit=None, wait=True, seed=("-seed", "0")):
        def before():
            if limit:
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        self.args = args
        self.p = subprocess.Popen([cohort, "serve", "-port", "0", *seed, "-t", "2", *args], stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL, preexec_fn=before)
        servers.append(self.p)
        self.said = b""
        while wait:
            line = self.p.stderr.readline()
            self.said += line
            if not line:
                raise SystemExit("the server ended: %r" % self.said)
            found = re.search(rb"listening on http://[^ ]*:(\d+)", line)
            if found:
                self.port = int(found.group(1))
                break

    def kill(self):
        self.p.kill()
        self.p.wait()

    def end(self):
        self.p.terminate()
        self.said += self.p.stderr.read()
        assert self.p.wait(60) == 0, (self.p.returncode, self.said)

    def ask(self, method, path, body=None, key=None, headers=()):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        h = dict(headers)
        if key:
            h["Authorization"] = "Bearer " + key
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
            h["Content-Type"] = "application/json"
        c.request(method, path, body, h, encode_chunked="Transfer-Encoding" in h)
        r = c.getresponse()
        raw = r.read()
        c.close()
        self.raw = raw
        if "json" in r.getheader("Content-Type", ""):
            return r.status, json.loads(raw)
        return r.status, raw

    def good(self, method, path, body=None, key=None):
        status, answer = self.ask(method, path, body, key)
        assert status == 200, (method, path, status, answer)
        return answer

    def send(self, body, kind, key=None):
        return self.ask("POST", "/v1/files", body, key, {"Content-Type": kind})

    def upload(self, content, purpose="batch", name="in.jsonl", key=None):
        status, f = self.send(*form([("purpose", None, purpose.encode()), ("file", name, content)]), key=key)
        assert status == 200, (status, f)
        assert f["object"] == "file" and f["bytes"] == len(content) and f["filename"] == name, f
        return f

    def batch(self, file_id, endpoint="/v1/completions", key=None, **more):
        return self.good("POST", "/v1/batches", {"input_file_id": file_id, "endpoint": endpoint, "completion_window": "24h",
            **more}, key)

    def wait(self, batch_id, states=FINAL, seconds=120, key=None):
        end = time.time() + seconds
        while time.time() < end:
            b = self.good("GET", "/v1/batches/" + batch_id, key=key)
            if b["status"] in states:
                return b
            time.sleep(0.02)
        raise SystemExit("%s is still %s" % (batch_id, b))

    def content(self, file_id, key=None):
        status, raw = self.ask("GET", "/v1/files/%s/content" % file_id, key=key)
        assert status == 200, (status, raw)
        return raw

    def results(self, b, key=None):
        """Lines of both files: answers in one, all others in the other."""
        out = []
        for name, good in (("output_file_id", True), ("error_file_id", False)):
            if b[name]:
                f = self.good("GET", "/v1/files/" + b[name], key=key)
                assert f["purpose"] == "batch_output", f
                lines = [json.loads(l) for l in self.content(b[name], key=key).splitlines()]
                assert lines and all(((l["response"] or {}).get("status_code") == 200) == good for l in lines), lines[:2]
                out += lines
        return out

def form(parts, boundary="----cohort7f3a", end=True):
    out = b""
    for name, filename, content in parts:
        out += b"--%s\r\nContent-Disposition: form-data; name=\"%s\"" % (boundary.encode(), name.encode())
        if filename is not None:
            out += b"; filename=\"%s\"\r\nContent-Type: application/octet-stream" % filename.encode()
        out += b"\r\n\r\n" + content + b"\r\n"
    return out + (b"--%s--\r\n" % boundary.encode() if end else b""), "multipart/form-data; boundary=" + boundary

def line(i, url, body):
    return json.dumps({"custom_id": "r%d" % i, "method": "POST", "url": url, "body": body})

def requests(n, url="/v1/completions", tokens=20, bad=None, seed=1):
    r = random.Random(seed)
    words = "Tom Lily dog cat tree big little happy the a was and".split()
    out = []
    for i in range(n):
        text = " ".join(r.choice(words) for _ in range(r.randint(1, 12)))
        body = {"seed": i, "max_tokens": tokens, "ignore_eos": True}
        if url == "/v1/embeddings":
            body = {"input": [text, "Tom"], "encoding_format": r.choice(["float", "base64"])}
        elif url == "/v1/completions":
            body.update(prompt=text, n=1 + i % 2)
        else:
            body.update(messages=[{"role": "user", "content": text}])
        if i == bad:
            body.update({"input": 5} if url == "/v1/embeddings" else {"temperature": "hot"})
        out.append(line(i, url, body))
    return ("\n".join(out) + "\n").encode()

def normal(lines):
    """Without what a run's time and company decide."""
    for l in lines:
        body = (l["response"] or {}).get("body", {})
        body.pop("created", None)
        body.get("usage", {}).pop("prompt_tokens_details", None)
    return sorted(json.dumps(l, sort_keys=True) for l in lines)

def jobs(content, seed=0):
    """What cohort jobs makes of it."""
    name = os.path.join(folder, "jobs-%s-%d" % (case, random.randrange(1 << 30)))
    open(name, "wb").write(content)
    code = subprocess.run([cohort, "jobs", name, "-output", name + ".out", "-seed", str(seed)], stderr=subprocess.DEVNULL).returncode
    assert code in (0, 1), code  # 1: some lines have no answer
    return [json.loads(l) for l in open(name + ".out")]

def left():
    """All that is in the folder but for the lock and states of batches."""
    return sorted(f for _, _, files in os.walk(data) for f in files if f != "lock" and not re.match(r"batch_\w+\.json$", f))

def refused(answer, status, text="", param=None):
    got, body = answer
    assert got == status, (got, body, status)
    e = body["error"]
    assert text in e["message"] and (param is None or e["param"] == param), (e, text, param)

# ---- Cases ----

def off():
    s = Server()
    refused(s.ask("GET", "/v1/files"), 501, "-data")
    refused(s.ask("GET", "/v1/batches"), 501, "-data")
    refused(s.send(*form([("file", "a", b"x")])), 501, "-data")
    refused(s.ask("POST", "/v1/batches", {}), 501, "-data")
    s.end()

def files():
    s = Server("-data", data)
    blobs = [bytes(random.Random(i).randrange(256) for _ in range(n)) for i, n in enumerate((0, 1, 5000, 200000))]
    blobs.append(b"\r\n--\r\n------cohort7f3\r\n\r\n--\r\r\n" * 50)  # nearly boundaries
    ids = [s.upload(b, "batch" if i % 2 else "user_data", "f%d.jsonl" % i)["id"] for i, b in enumerate(blobs)]
    assert len(set(ids)) == 5 and all(re.match(r"file-[0-9a-f]{32}$", i) for i in ids)
    for i, b in zip(ids, blobs):
        assert s.content(i) == b
    names = lambda query: [f["id"] for f in s.good("GET", "/v1/files" + query)["data"]]
    assert names("") == ids[::-1] and names("?order=asc") == ids and names("?purpose=batch&order=asc") == ids[1::2]
    assert names("?limit=2&order=asc") == ids[:2] and names("?limit=2&order=asc&after=" + ids[1]) == ids[2:4]
    assert s.good("GET", "/v1/files?limit=4")["has_more"] and not s.good("GET", "/v1/files?limit=5")["has_more"]
    for q in ("limit=0", "limit=10001", "limit=x", "limit=-1", "order=up", "after=file-0"):
        refused(s.ask("GET", "/v1/files?" + q), 400, param=q.split("=")[0])
    assert s.good("DELETE", "/v1/files/" + ids[2]) == {"id": ids[2], "object": "file", "deleted": True}
    for method, path in (("DELETE", ""), ("GET", ""), ("GET", "/content")):
        refused(s.ask(method, "/v1/files/" + ids[2] + path), 404)
    # Names without folders, with quotes, of any language; long ones.
    odd = form([("purpose", None, b"batch"), ("file", "C:\\\\x\\\\../a \\\"b\\\".jsonl", b"x")])
    assert s.send(*odd)[1]["filename"] == 'a "b".jsonl'
    assert s.upload(b"x", name="жук.jsonl")["filename"] == "жук.jsonl"
    refused(s.send(*form([("purpose", None, b"batch"), ("file", "n" * 256, b"x")])), 400, "255")
    s.end()
    assert len([f for f in left() if f.endswith(".data")]) == 6, left()
    s = Server("-data", data, "-max-files", "7")  # all is there again
    assert names("?order=asc")[:4] == ids[:2] + ids[3:] and s.content(ids[4]) == blobs[4]
    s.upload(b"x")
    refused(s.send(*form([("purpose", None, b"batch"), ("file", "a", b"x")])), 400, "7 files")
    run = subprocess.run([cohort, "serve", "-port", "0", "-data", data], stderr=subprocess.PIPE, timeout=60)
    assert run.returncode == 4 and b"in use by another server" in run.stderr, run
    s.end()

def batches():
    s = Server("-data", data)
    for url in ("/v1/completions", "/v1/chat/completions", "/v1/embeddings"):
        text = requests(30, url, bad=11)
        f = s.upload(text)
        b = s.batch(f["id"], url, metadata={"who": "me"})
        assert b["object"] == "batch" and b["status"] == "validating" and b["expires_at"] == b["created_at"] + 86400, b
        b = s.wait(b["id"])
        assert b["status"] == "completed" and b["request_counts"] == {"total": 30, "completed": 29, "failed": 1}, b
        assert b["metadata"] == {"who": "me"} and b["errors"] is None and b["endpoint"] == url, b
        assert b["created_at"] <= b["in_progress_at"] <= b["finalizing_at"] <= b["completed_at"] and not b["failed_at"], b
        got = s.results(b)
        assert [l["response"]["status_code"] for l in got if l["custom_id"] == "r11"] == [400]
        assert normal(got) == normal(jobs(text)), url
    every = [b["id"] for b in s.good("GET", "/v1/batches")["data"]]
    assert len(every) == 3 and every[0] == b["id"]
    page = s.good("GET", "/v1/batches?limit=1&after=" + every[0])
    assert [x["id"] for x in page["data"]] == every[1:2] and page["has_more"] and page["last_id"] == every[1]
    refused(s.ask("POST", "/v1/batches/%s/cancel" % b["id"]), 409)
    s.good("DELETE", "/v1/files/" + f["id"])  # nobody needs it any more
    # The cache_salt of a line keeps its prompt to those who have the salt.
    body = {"prompt": "Tom and Lily had a big dog. " * 20, "max_tokens": 1}
    b = s.wait(s.batch(s.upload(line(1, "/v1/completions", dict(body, cache_salt="mine")).encode())["id"])["id"])
    got = [s.good("POST", "/v1/completions", dict(body, **salt))["usage"]["prompt_tokens_details"]["cached_tokens"]
        for salt in ({}, {"cache_salt": "mine"})]
    assert b["request_counts"]["completed"] == 1 and got[0] == 0 and got[1] >= 64, (b, got)
    s.end()
    assert not [x for x in left() if x.startswith("batch_")], left()

def bad_batches():
    s = Server("-data", data, "-np", "1")
    f = s.upload(requests(1))["id"]
    other = s.upload(b"x", "user_data")["id"]
    base = {"input_file_id": f, "endpoint": "/v1/completions", "completion_window": "24h"}
    for field, values in {"input_file_id": [None, 5, "x", "file-" + "0" * 32, "../lock", other], "endpoint": [None, "/v1/x", 1],
            "completion_window": [None, "1h", 24], "metadata": [5, "x", {"a": 5}, {"k" * 65: ""}, {"a": "v" * 513},
            {str(i): "" for i in range(17)}]}.items():
        for v in values:
            body = dict(base, **{field: v})
            if v is None:
                del body[field]
            refused(s.ask("POST", "/v1/batches", body), 400, param=field)
    refused(s.ask("POST", "/v1/batches", "{"), 400)
    refused(s.ask("GET", "/v1/batches?limit=101"), 400, param="limit")
    for what in ("batch_" + "0" * 32, "x", "batch_", "file-" + "0" * 32):
        refused(s.ask("GET", "/v1/batches/" + what), 404)
        refused(s.ask("POST", "/v1/batches/%s/cancel" % what), 404)
    lines = requests(3).decode().splitlines()
    lines[1:1] = ["{", "", "[1]", '"\\ud800"', line(0, "/v1/completions", {}), line(7, "/v1/embeddings", {}), line(8, "/v1/completions", 5),
        '{"custom_id": 5, "method": "POST", "url": "/v1/completions", "body": {}}',
        '{"custom_id": "x", "method": "GET", "url": "/v1/completions", "body": {}}', "\xff\x00",
        '{"custom_id": "", "method": "POST", "url": "/v1/completions", "body": {}}',
        '{"custom_id": "%s", "method": "POST", "url": "/v1/completions", "body": {}}' % ("i" * 513),
        '{"custom_id": "%s", "url": "/v1/completions", "body": {}}' % ("i" * 512),
        '{"custom_id": "y", "method": "POST", "body": {}}', '{"custom_id": "z", "method": "POST", "url": "/v1/completions"}']
    b = s.wait(s.batch(s.upload("\n".join(lines).encode("latin-1"))["id"])["id"])
    assert b["status"] == "failed" and b["failed_at"] and b["request_counts"]["total"] == 0, b
    assert [(e["line"], e["code"]) for e in b["errors"]["data"]] == [(2, "invalid_json_line"), (4, "invalid_json_line"),
        (5, "invalid_json_line"), (6, "duplicate_custom_id"), (7, "mismatched_endpoint"), (8, "invalid_body"), (9, "invalid_custom_id"),
        (10, "invalid_method"), (11, "invalid_json_line"), (12, "invalid_custom_id"), (13, "invalid_custom_id"),
        (14, "invalid_method"), (15, "mismatched_endpoint"), (16, "invalid_body")], b
    for content in (b"", b"\n\n \r\n", b"\xef\xbb\xbf"):
        b = s.wait(s.batch(s.upload(content)["id"])["id"])
        assert b["status"] == "failed" and b["errors"]["data"][0]["code"] == "empty_file", b
    b = s.wait(s.batch(s.upload(b"\n" * 50000)["id"])["id"])
    assert b["status"] == "failed" and b["errors"]["data"][0]["code"] == "empty_file", b
    b = s.wait(s.batch(s.upload(b"\n" * 50001)["id"])["id"])
    assert b["status"] == "failed" and b["errors"]["data"][0]["code"] == "too_many_lines", b
    b = s.wait(s.batch(s.upload(b'{"custom_id": "x", "y": [' + b"{}," * 500000 + b"0]}")["id"])["id"])
    assert b["status"] == "failed" and b["errors"]["data"][0]["code"] == "line_too_large", b
    b = s.wait(s.batch(s.upload(b"{\n" * 1000)["id"])["id"])
    assert b["status"] == "failed" and len(b["errors"]["data"]) == 100, b
    # The server's own limits hold for lines, too: 400 in the error file, and no output file.
    for bad in ({"n": 17}, {"cache_salt": 5}):
        b = s.wait(s.batch(s.upload(line(1, "/v1/completions", dict(bad, prompt="a")).encode())["id"])["id"])
        assert b["status"] == "completed" and b["output_file_id"] is None and b["request_counts"]["failed"] == 1, b
    s.end()

def cancel():
    s = Server("-data", data, "-np", "2")
    text = requests(300, tokens=60)
    f = s.upload(text)["id"]
    b, queued = s.batch(f), s.batch(f)
    while s.wait(b["id"], ("in_progress",))["request_counts"]["completed"] < 3:
        time.sleep(0.01)
    refused(s.ask("DELETE", "/v1/files/" + f), 409, "batch")
    c = s.good("POST", "/v1/batches/%s/cancel" % queued["id"])
    assert c["status"] == "cancelling" and c["cancelling_at"], c
    c = s.good("POST", "/v1/batches/%s/cancel" % b["id"])
    assert c["status"] == "cancelling", c
    b = s.wait(b["id"])
    n = b["request_counts"]["completed"]
    assert b["status"] == "cancelled" and b["cancelled_at"] and 3 <= n < 300 and b["request_counts"]["total"] == 300, b
    got = s.results(b)
    ids = {l["custom_id"] for l in got}
    assert len(got) == len(ids) == n
    # The others would take long, and nobody asked for them any more.
    assert normal(got) == normal(jobs(b"".join(l for l in text.splitlines(True) if json.loads(l)["custom_id"] in ids)))
    q = s.wait(queued["id"])
    assert q["status"] == "cancelled" and q["output_file_id"] is None and q["error_file_id"] is None, q
    s.end()

def kill():
    r = random.Random()
    seed = r.randrange(1 << 30)
    print("seed", seed)
    r.seed(seed)
    long = requests(50, tokens=80, bad=25)
    small = [requests(3, tokens=5, seed=i, bad=i % 4) for i in range(12)]
    s = Server("-data", data, "-np", "4")
    ids = [s.batch(s.upload(t)["id"])["id"] for t in [long] + small]
    done, n_kills, middle = 0, 0, 0
    while done < len(ids) and n_kills < 200:
        time.sleep(r.uniform(0, 0.2 if n_kills < 8 else 1.5))
        counts = s.good("GET", "/v1/batches/" + ids[0])["request_counts"]
        middle += 0 < counts["completed"] < 49
        assert counts["failed"] <= 1, counts
        done = sum(s.good("GET", "/v1/batches/" + i)["status"] in FINAL for i in ids)
        s.kill()
        n_kills += 1
        s = Server("-data", data, "-np", r.choice(["2", "4", "8"]))
    print(n_kills, "kills,", middle, "of them in the middle of the long one")
    assert n_kills >= 5 and middle >= 3
    for i, text in zip(ids, [long] + small):
        b = s.wait(i)
        got = s.results(b)
        assert b["status"] == "completed" and b["request_counts"]["total"] == len(got) == text.count(b"\n"), b
        assert normal(got) == normal(jobs(text)), b
    s.end()
    # Nothing of a killed step is left: the files that are told, and no others.
    n = len(s_files(ids))
    assert len(left()) == 2 * n and not [x for x in left() if not x.startswith("file-")], (n, left())

def seeds():
    """A batch draws a seed, and has it still when it goes on in another server."""
    body = {"prompt": "Tom", "max_tokens": 60, "temperature": 1, "ignore_eos": True}
    seed = lambda i: {"seed": i} if i % 10 == 7 else {} if i % 3 else {"seed": -1}  # -1 is none
    content = ("\n".join(line(i, "/v1/completions", {**body, **seed(i)}) for i in range(30)) + "\n").encode()
    drawn = dict(seed=())
    s = Server("-data", data, "-np", "2", **drawn)
    ids = [s.batch(s.upload(content)["id"])["id"] for _ in range(2)]
    until = time.time() + 60
    while s.good("GET", "/v1/batches/" + ids[0])["request_counts"]["completed"] < 5 and time.time() < until:
        time.sleep(0.01)
    s.kill()
    s = Server("-data", data, "-np", "2", **drawn)
    got = [s.results(s.wait(i)) for i in ids]
    for i, lines in zip(ids, got):
        assert normal(lines) == normal(jobs(content, int(i[6:14], 16))), (i, lines[:2])
    texts = [{l["response"]["body"]["choices"][0]["text"] for l in lines} for lines in got]
    # Those of the lines with a seed of their own are the same.
    assert len(texts[0] & texts[1]) == 3 and len(texts[0]) == len(texts[1]) == 30, texts
    s.end()
    s = Server("-data", data, seed=("-seed", "5"))
    got = s.results(s.wait(s.batch(s.upload(content)["id"])["id"]))
    assert normal(got) == normal(jobs(content, 5)), got[:2]
    s.end()

def s_files(ids):
    out = set()
    for i in ids:
        b = json.load(open(os.path.join(data, "batches", i + ".json")))["batch"]
        out |= {b[n] for n in ("input_file_id", "output_file_id", "error_file_id") if b[n]}
    return out

def term():
    s = Server("-data", data, "-np", "4")
    text = requests(40, tokens=60)
    i = s.batch(s.upload(text)["id"])["id"]
    for _ in range(3):
        while s.wait(i, ("in_progress",))["request_counts"]["completed"] < 2:
            time.sleep(0.01)
        before = time.time()
        s.end()
        assert b"all requests were finished" in s.said and time.time() - before < 20, s.said
        s = Server("-data", data, "-np", "4")
    b = s.wait(i)
    assert b["status"] == "completed" and normal(s.results(b)) == normal(jobs(text)), b
    s.end()

def change(batch_id, **fields):
    path = os.path.join(data, "batches", batch_id + ".json")
    j = json.load(open(path))
    j["batch"].update(fields)
    json.dump(j, open(path, "w"))

def expired():
    s = Server("-data", data, "-np", "2")
    text = requests(200, tokens=60)
    i = s.batch(s.upload(text)["id"])["id"]
    while s.wait(i, ("in_progress",))["request_counts"]["completed"] < 3:
        time.sleep(0.01)
    s.kill()
    change(i, expires_at=int(time.time()) + 1)
    s = Server("-data", data, "-np", "2")
    b = s.wait(i)
    n = b["request_counts"]["completed"]
    assert b["status"] == "expired" and b["expired_at"] and 3 <= n < 200 and b["request_counts"]["failed"] == 200 - n, b
    got = s.results(b)
    late = [l for l in got if l["error"]]
    assert len(got) == 200 and len({l["custom_id"] for l in got}) == 200 and len(late) == 200 - n, b
    assert all(l["error"]["code"] == "batch_expired" and l["response"] is None for l in late), late[0]
    s.end()

def settings():
    template = os.path.join(folder, "other.jinja")
    open(template, "w").write("{% for m in messages %}{{ m.content }}{% endfor %}")
    for change in ("-temperature", "0.1"), ("-chat-template", template):
        s = Server("-data", data, "-np", "2")
        i = s.batch(s.upload(requests(200, "/v1/chat/completions", tokens=60))["id"], "/v1/chat/completions")["id"]
        while s.wait(i, ("in_progress",))["request_counts"]["completed"] < 3:
            time.sleep(0.01)
        s.kill()
        s = Server("-data", data, "-np", "2", *change)
        b = s.wait(i)
        assert b["status"] == "failed" and b["errors"]["data"][0]["code"] == "settings_changed", (change, b)
        assert 3 <= len(s.results(b)) == b["request_counts"]["completed"] < 200, (change, b)
        s.end()

def full():
    s = Server("-data", data, "-np", "4", limit=100000)
    refused(s.send(*form([("purpose", None, b"batch"), ("file", "a", b"x" * 200000)])), 507, "full")
    assert left() == [], left()
    text = requests(400, tokens=4, url="/v1/embeddings")  # more results than the disk takes
    assert len(text) < 100000
    b = s.batch(s.upload(text)["id"], "/v1/embeddings")
    i = b["id"]
    end = time.time() + 60
    while True:
        assert time.time() < end, b
        b = s.good("GET", "/v1/batches/" + i)
        if b["status"] == "in_progress" and b["request_counts"]["completed"] > 2:
            before = b["request_counts"]["completed"]
            time.sleep(1.5)
            if s.good("GET", "/v1/batches/" + i)["request_counts"]["completed"] == before:
                break
        assert b["status"] in ("validating", "in_progress"), b
        time.sleep(0.05)
    assert s.good("GET", "/health")
    s.end()
    assert b"waits: cannot write" in s.said, s.said
    s = Server("-data", data, "-np", "4")
    b = s.wait(i)
    assert b["status"] == "completed" and normal(s.results(b)) == normal(jobs(text)), b
    s.end()

def tiny_disk():
    """The same on a file system of its own, when one may be had: 77 is for skipping."""
    os.mkdir(data)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", data], stderr=subprocess.DEVNULL).returncode:
        sys.exit(77)
    try:
        s = Server("-data", data)
        f = s.upload(b"x" * 100000)
        refused(s.send(*form([("purpose", None, b"batch"), ("file", "a", b"x" * 400000)])), 507, "full")
        assert len(left()) == 2, left()
        s.good("DELETE", "/v1/files/" + f["id"])
        s.upload(b"x" * 150000)
        s.end()
    finally:
        subprocess.run(["umount", data])

def keys():
    keyfile = os.path.join(folder, "keys")
    open(keyfile, "w").write("sk-one-1234567890 one\nsk-two-1234567890 two admin\n")
    one, two = "sk-one-1234567890", "sk-two-1234567890"
    s = Server("-data", data, "-api-key-file", keyfile)
    text = requests(3)
    f = s.upload(text, key=one)
    b = s.batch(f["id"], key=one)
    b = s.wait(b["id"], key=one)
    mine = s.upload(text, key=two)
    for round in range(2):
        assert s.ask("GET", "/v1/files")[0] == 401 and s.send(*form([("file", "a", b"x")]))[0] == 401
        for path in ("/v1/files/" + f["id"], "/v1/files/%s/content" % f["id"], "/v1/files/" + b["output_file_id"],
                "/v1/files/%s/content" % b["output_file_id"], "/v1/batches/" + b["id"]):
            refused(s.ask("GET", path, key=two), 404)
            assert s.ask("GET", path, key=one)[0] == 200
        refused(s.ask("DELETE", "/v1/files/" + f["id"], key=two), 404)
        refused(s.ask("POST", "/v1/batches/%s/cancel" % b["id"], key=two), 404)
        refused(s.ask("POST", "/v1/batches", {"input_file_id": f["id"], "endpoint": "/v1/completions", "completion_window": "24h"},
            key=two), 400, param="input_file_id")
        assert [x["id"] for x in s.good("GET", "/v1/files", key=two)["data"]] == [mine["id"]]
        assert s.good("GET", "/v1/batches", key=two)["data"] == []
        refused(s.ask("GET", "/v1/files?after=" + f["id"], key=two), 400)
        refused(s.ask("GET", "/v1/batches?after=" + b["id"], key=two), 400)
        assert normal(s.results(b, key=one)) == normal(jobs(text))
        s.end()
        s = Server("-data", data, "-api-key-file", keyfile)
    # What a key's own requests have left is reused by its batches, and nobody else's. Seen red with the first key left out.
    story = {"prompt": " ".join("The cat and dog number %d ran home." % i for i in range(12)), "max_tokens": 1}
    s.good("POST", "/v1/completions", story, key=one)
    for key, reuses in ((one, True), (two, False)):
        again = s.upload(line(0, "/v1/completions", story).encode(), key=key)
        again = s.wait(s.batch(again["id"], key=key)["id"], key=key)
        cached = s.results(again, key=key)[0]["response"]["body"]["usage"]["prompt_tokens_details"]["cached_tokens"]
        assert (cached >= 64) == reuses and (reuses or cached == 0), (key, cached)
    s.end()
    for d, _, names in os.walk(data):
        for n in names:
            assert one.encode() not in open(os.path.join(d, n), "rb").read(), n

def raw(s, text):
    """What the server says to these bytes."""
    c = socket.create_connection(("127.0.0.1", s.port), timeout=30)
    c.sendall(text)
    out = b""
    while True:
        try:
            piece = c.recv(65536)
        except ConnectionResetError:
            break
        if not piece:
            break
        out += piece
    c.close()
    return out

def traversal():
    s = Server("-data", data)
    f = s.upload(b"secret?")["id"]
    h = f[5:]
    ids = ["..", ".", "../lock", "..%2flock", "..%2Flock", "%2e%2e%2flock", "file-%s%%00" % h, "%00" + f, "file-%s/../%s" % (h, f), f + ".data",
        f + "%2f", f.upper(), "file-" + h.upper() + "x", "file-" + "g" * 32, f + "%00.json", "..\\lock", "file-../../../../etc/passwd",
        "%252e%252e%252flock", "x" * 5000, "file-" + h[:-1], "FILE-" + h, "/etc/passwd", "%2fetc%2fpasswd", "~root", "*", "file-*"]
    for i in ids:
        for method, ending in (("GET", ""), ("GET", "/content"), ("DELETE", "")):
            for base in ("/v1/files/", "/v1/batches/"):
                said = raw(s, ("%s %s%s%s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n" % (method, base, i, ending)).encode())
                status = int(said.split()[1])
                assert status in (400, 404, 405, 431, 414) and b"secret" not in said and b"root:" not in said, (i, said[:300])
        refused(s.ask("POST", "/v1/batches", {"input_file_id": i, "endpoint": "/v1/completions", "completion_window": "24h"}), 400)
    # A byte of zeros within the path ends it, for the library; what follows is seen by nobody.
    for tail in (b"/../../lock", b".data", b""):
        said = raw(s, b"GET /v1/files/%s\0%s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n" % (f.encode(), tail))
        assert b" 200 " not in said.split(b"\r\n")[0] or json.loads(said.split(b"\r\n\r\n")[1])["id"] == f, said
    assert s.content(f) == b"secret?"
    s.end()
    assert os.path.exists(os.path.join(data, "lock"))

def forms():
    s = Server("-data", data, "-max-file", "1", "-body-timeout", "2")
    p, f = ("purpose", None, b"batch"), ("file", "a.jsonl", b"{}\n")
    kind = "multipart/form-data; boundary="
    # Larger than may be: told by its length, found out, beside the file, and just as large as may be.
    big = form([p, ("file", "a", b"x" * (2 << 20))])
    said = raw(s, b"POST /v1/files HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: " + big[1].encode() +
        b"\r\nContent-Length: %d\r\n\r\n" % len(big[0]))
    assert said.startswith(b"HTTP/1.1 413 "), said
    pieces = lambda b: iter([b[i:i + 50000] for i in range(0, len(b), 50000)])
    refused(s.ask("POST", "/v1/files", pieces(big[0]), headers={"Content-Type": big[1], "Transfer-Encoding": "chunked"}), 413)
    refused(s.send(*form([p, ("file", "a", b"x" * ((1 << 20) + 1))])), 413, param="file")
    refused(s.ask("POST", "/v1/files", pieces(form([p, f, ("x", None, b"x" * (3 << 20))])[0]),
        headers={"Content-Type": big[1], "Transfer-Encoding": "chunked"}), 413)
    ok = s.upload(b"x" * (1 << 20))["id"]
    refused(s.send(*form([p] + [("x%d" % i, None, b"") for i in range(40)] + [f])), 400, "32 parts")
    refused(s.send(*form([p, ("f" * 5000, None, b"")])), 400, "4096")
    refused(s.send(*form([p, ("f" * 200, None, b"")])), 400, "name")
    # Not such a form.
    whole, t = form([p, f])
    for bad in ("", "text/plain", "multipart/form-data", "multipart/mixed; boundary=x", kind, kind + '"', kind + "b" * 71, kind + '"a\tb"',
            "multipart/form-dataX; boundary=x"):
        refused(s.send(whole, bad), 400)
    refused(s.send(whole, kind + "other"), 400, "boundary")
    assert s.send(whole, 'Multipart/Form-Data; charset=utf-8; Boundary="----cohort7f3a"')[0] == 200
    assert s.send(b"to be ignored\r\n" + whole + b"this as well", t)[0] == 200
    assert s.send(*form([f, ("unknown", None, b"x"), ("unknown[file]", "x", b"x"), p]))[0] == 200
    refused(s.send(b"", t), 400)
    # Cut anywhere: never a file.
    n = len(os.listdir(os.path.join(data, "files")))
    for cut in range(0, len(whole) - 4):
        refused(s.send(whole[:cut], t), 400)
    def left():  # what came of a refused one goes when its answer has been sent
        until = time.monotonic() + 10
        while len(os.listdir(os.path.join(data, "files"))) != n:
            assert time.monotonic() < until
            time.sleep(0.01)
    left()
    # Fields.
    refused(s.send(*form([p])), 400, "missing", "file")
    refused(s.send(*form([f])), 400, "missing", "purpose")
    refused(s.send(*form([p, f, f])), 400, "twice", "file")
    refused(s.send(*form([p, p, f])), 400, "twice", "purpose")
    refused(s.send(*form([p, ("file", None, b"x")])), 400, "filename", "file")
    refused(s.send(*form([p, ("file", "", b"x")])), 400, "filename", "file")
    for bad in (b"", b"batch_output", b"batch\0", b"x" * 5000, b"Batch"):
        refused(s.send(*form([("purpose", None, bad), f])), 400, param="purpose")
    # Parts that are not as they should be.
    b = t.split("=")[1].encode()
    for head in (b"Content-Disposition: form-data; name=\"file\"; filename=\"a\"\r\nContent-Type: multipart/mixed; boundary=q\r\n",
            b"Content-Disposition: form-data; name=\"file\"; filename=\"a\"\r\nContent-Transfer-Encoding: base64\r\n",
            b"Content-Disposition: form-data\r\n", b"Content-Disposition: attachment; name=\"file\"\r\n", b"", b"no colon\r\n", b": x\r\n",
            b" folded: x\r\n", b"Content-Disposition: form-data; name=\"file\r\n", b"Content-Disposition: form-data; name=\"a\0\"\r\n",
            b"Content-Disposition: form-data; name=a b\r\n", b"Content-Type: text/plain\r\n"):
        refused(s.send(b"--" + b + b"\r\n" + head + b"\r\nx\r\n--" + b + b"--\r\n", t), 400)
    refused(s.send(whole.replace(b + b"\r\n", b + b"junk\r\n", 1), t), 400)
    left()
    # Who goes away, or stops talking, leaves nothing.
    for close in (True, False):
        c = socket.create_connection(("127.0.0.1", s.port), timeout=30)
        c.sendall(b"POST /v1/files HTTP/1.1\r\nHost: localhost\r\nContent-Type: " + t.encode() + b"\r\nContent-Length: 500000\r\n\r\n" + whole[:-22])
        end = time.time() + 20
        while time.time() < end and len(os.listdir(os.path.join(data, "files"))) == n:
            time.sleep(0.01)
        assert len(os.listdir(os.path.join(data, "files"))) == n + 1
        if close:
            c.close()
        while time.time() < end and len(os.listdir(os.path.join(data, "files"))) > n:
            time.sleep(0.05)
        assert len(os.listdir(os.path.join(data, "files"))) == n
    # Killed in the middle of one.
    c = socket.create_connection(("127.0.0.1", s.port), timeout=30)
    c.sendall(b"POST /v1/files HTTP/1.1\r\nHost: localhost\r\nContent-Type: " + t.encode() + b"\r\nContent-Length: 500000\r\n\r\n" + whole[:-22])
    while len(os.listdir(os.path.join(data, "files"))) == n:
        time.sleep(0.01)
    s.kill()
    open(os.path.join(data, "files", "file-%032x.data" % 5), "w").write("bytes without a word about them")
    open(os.path.join(data, "files", "note.txt"), "w").write("not ours")
    s = Server("-data", data)
    assert len(os.listdir(os.path.join(data, "files"))) == n + 1 and len(s.content(ok)) == 1 << 20
    s.end()

def metrics():
    """A batch's requests are counted as others are, but for the times that clients wait."""
    s = Server("-data", data, "-np", "2", "-batch-parallel", "2")

    def read():
        return dict((l.rsplit(" ", 1)[0], float(l.rsplit(" ", 1)[1])) for l in s.good("GET", "/metrics").decode().splitlines() if l[0] != "#")

    def moved(names):
        now = read()
        return [now[n] - before.get(n, 0) for n in names]

    model = '{model_name="%s"}' % s.good("GET", "/v1/models")["data"][0]["id"]
    finished, batch = 'cohort:requests_finished_total{reason="%s"}', 'cohort:batch_requests_finished_total{reason="%s"}'
    before = read()
    lines = [line(i, "/v1/completions", {"prompt": "Tom and the %d" % i, "max_tokens": 7, "ignore_eos": True, "n": 1 + (i == 4)}) for i in range(5)]
    b = s.wait(s.batch(s.upload(("\n".join(lines) + "\n" + line(5, "/v1/completions", {"prompt": 5})).encode())["id"])["id"])
    usage = [l["response"]["body"]["usage"] for l in s.results(b) if l["response"]["status_code"] == 200]
    prompt = sum(u["prompt_tokens"] - u["prompt_tokens_details"]["cached_tokens"] for u in usage)
    assert len(usage) == 5 and sum(u["completion_tokens"] for u in usage) == 42, usage
    got = moved(["llamacpp:tokens_predicted_total", "llamacpp:prompt_tokens_total", finished % "length", batch % "length", "cohort:requests_submitted_total"])
    assert got == [42, prompt, 5, 5, 5], (got, prompt)
    names = ["vllm:request_generation_tokens_count", "cohort:batch_request_latency_seconds_count", "vllm:time_to_first_token_seconds_count",
        "vllm:request_queue_time_seconds_count", "vllm:e2e_request_latency_seconds_count"]
    names = [n + model for n in names]
    assert moved(names) == [5, 5, 0, 0, 0], moved(names)
    # A client's request: the other way round.
    before = read()
    s.good("POST", "/v1/completions", {"prompt": "Tom", "max_tokens": 3, "ignore_eos": True})
    end = time.time() + 10
    while moved([finished % "length"]) != [1] and time.time() < end:
        time.sleep(0.01)
    assert moved(names) == [1, 0, 1, 1, 1] and moved([batch % "length"]) == [0], moved(names)
    # Embeddings; and what is cancelled.
    before = read()
    b = s.wait(s.batch(s.upload(line(1, "/v1/embeddings", {"input": ["Tom", "Lily"]}).encode())["id"], "/v1/embeddings")["id"])
    n = s.results(b)[0]["response"]["body"]["usage"]["prompt_tokens"]
    got = moved([finished % "embedded", batch % "embedded", "llamacpp:prompt_tokens_total"])
    assert got == [2, 2, n] and n > 2, (got, n)
    # Of the first line's prompts two are under way, and are dropped with it.
    i = s.batch(s.upload(line(1, "/v1/completions", {"prompt": ["Tom"] * 16, "max_tokens": 300, "ignore_eos": True}).encode())["id"])["id"]
    while read()["llamacpp:requests_processing"] < 1:
        time.sleep(0.01)
    s.good("POST", "/v1/batches/%s/cancel" % i)
    s.wait(i)
    assert 1 <= moved([batch % "cancelled"])[0] <= 2, moved([batch % "cancelled"])
    submitted, over, of_batch = (sum(v for k, v in read().items() if k.startswith(n)) for n in
        ("cohort:requests_submitted_total", "cohort:requests_finished_total", "cohort:batch_requests_finished_total"))
    assert submitted == over == of_batch + 1, (submitted, over, of_batch)
    s.end()

def others():
    """A client is not kept waiting by a batch: it is answered while most of the batch still waits."""
    s = Server("-data", data, "-np", "2")
    i = s.batch(s.upload(requests(400, tokens=40))["id"])["id"]
    s.wait(i, ("in_progress",))
    for _ in range(5):
        r = s.good("POST", "/v1/completions", {"prompt": "Tom", "max_tokens": 20, "priority": -1000})
        assert r["choices"], r
        b = s.good("GET", "/v1/batches/" + i)
        assert b["status"] == "in_progress" and b["request_counts"]["completed"] < 300, b
    s.good("POST", "/v1/batches/%s/cancel" % i)
    s.wait(i)
    s.end()

def owners():
    """Owners take turns line by line: a small batch is not behind a large one. Two under way outlive a kill, too."""
    keyfile = os.path.join(folder, "owners")
    open(keyfile, "w").write("sk-one-1234567890\nsk-two-1234567890\n")
    one, two = "sk-one-1234567890", "sk-two-1234567890"
    args = ("-data", data, "-api-key-file", keyfile, "-np", "2")
    s = Server(*args)
    text, other = requests(120, tokens=40), requests(30, seed=2)
    a = s.batch(s.upload(text, key=one)["id"], key=one)["id"]
    s.wait(a, ("in_progress",), key=one)
    b = s.batch(s.upload(requests(1), key=two)["id"], key=two)["id"]
    assert s.wait(b, key=two)["status"] == "completed"
    counts = s.good("GET", "/v1/batches/" + a, key=one)
    assert counts["status"] == "in_progress" and counts["request_counts"]["completed"] < 60, counts
    b = s.batch(s.upload(other, key=two)["id"], key=two)["id"]
    while s.good("GET", "/v1/batches/" + b, key=two)["request_counts"]["completed"] < 5:
        time.sleep(0.01)
    s.kill()
    s = Server(*args)
    done = s.wait(b, key=two)
    assert done["status"] == "completed" and normal(s.results(done, two)) == normal(jobs(other)), done
    done = s.wait(a, key=one)
    assert done["status"] == "completed" and normal(s.results(done, one)) == normal(jobs(text)), done
    s.end()

try:
    globals()[case]()
finally:
    for p in servers:
        if p.poll() is None:
            p.kill()
