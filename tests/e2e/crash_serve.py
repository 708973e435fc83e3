"""Servers that are killed, for crash.py: saved slots, and files and batches."""
import os
import re
import signal
import subprocess
import threading
import time

from crash_lib import empty, must, normal, only, read, requests, temps
from serve_client import PROGRAM, Closed, Late, Server

OVER = ("completed", "failed", "cancelled", "expired")


class Gone(Exception):
    """The server was killed while it was asked."""


class Life:
    """A server that is killed at a moment of the killer's, or at the end of what is done with it."""
    begun = []  # processes, for who ends in the middle

    def __init__(self, killer, args, disturbed=True):
        self.killer = killer
        self.seconds, self.call, percent = killer.moment() if disturbed else (None, None, 0)
        self.timer = None
        self.server = Server(["-t", "2", *args], under=killer.under(self.call, percent) if self.call else (),
                             began=self.arm)

    def arm(self, process):
        Life.begun.append(process)
        if self.seconds is not None:
            self.timer = threading.Timer(self.seconds, process.kill)
            self.timer.start()

    def up(self):
        return self.server.up

    def ask(self, method, path, body=None, headers=()):
        """The answer; raises Gone when there is none."""
        try:
            a = self.server.ask(method, path, body, headers)
        except (OSError, Closed, Late, AssertionError):
            a = None
        if a is None or a.status == 0:
            raise Gone()
        must(a.status > 0, method, path, "was not answered")
        return a

    def good(self, method, path, body=None, headers=()):
        a = self.ask(method, path, body, headers)
        must(a.status == 200, method, path, a)
        return a.json()

    def kill(self):
        """Waits for its moment; where a call does not come any more it is now. The call that it was killed at, or None."""
        p = self.server.process
        if self.timer:
            self.timer.join()
        at = None
        if self.call:
            try:
                p.wait(0.3)
                at = self.killer.reported()[0]
            except subprocess.TimeoutExpired:
                send(p, signal.SIGKILL)
        code = self.server.wait(60)
        must(code in (-9, 137), "the server ended by itself:", code, self.server.lines)
        p.stderr.close()
        return at

    def end(self):
        """Ends it as an administrator would."""
        code = self.server.stop()
        must(code == 0, "ended with", code, self.server.lines)
        self.server.process.stderr.close()


def end_all():
    """No server outlives the test."""
    for p in Life.begun:
        p.kill()
    Life.begun.clear()


def send(process, sig):
    """A signal to what a process runs."""
    for pid in (read("/proc/%d/task/%d/children" % (process.pid, process.pid)) or b"").split():
        os.kill(int(pid), sig)


def measure(killer, args, reset, act):
    """How long a server's life is with act, and how many calls it has."""
    if killer.tool:
        reset()
        with Server(["-t", "2", *args], under=killer.under(0, 0)) as s:
            life = Life.__new__(Life)
            life.server = s
            act(life)
            send(s.process, signal.SIGTERM)
            must(s.wait(60) == 0, "ended badly:", s.lines)
        killer.calls = killer.reported()[1]
    reset()
    began = time.monotonic()
    life = Life(killer, args, disturbed=False)
    act(life)
    killer.seconds = time.monotonic() - began
    life.end()
    reset()


# ---- Saved slots ----

def slots(tally, rng, killer, folder):
    """POST /slots/0?action=save: the old state or the new one, and the one that was answered for."""
    args = ["-np", "1", "-ctx", "1024", "-slot-save-path", folder, "-socket", folder + ".socket"]
    path = os.path.join(folder, "a.bin")
    texts = [" ".join(["Once upon a time there was a %s." % w] * 20) for w in ("fox", "king")]
    states = {}

    def make(life, which):
        """Fills the slot and saves it."""
        life.good("POST", "/v1/completions", {"prompt": texts[which], "max_tokens": 2, "temperature": 0, "ignore_eos": True})
        life.doing = which
        a = life.good("POST", "/slots/0?action=save", {"filename": "a.bin"})
        life.acked, life.doing = which, None
        return a

    def act(life):
        for i in range(6):
            make(life, i % 2)

    life = Life(killer, args, disturbed=False)
    for which in (0, 1, 0, 1):
        a = make(life, which)
        got = read(path)
        must(len(got) == a["n_written"] and states.setdefault(which, got) == got, "saving does not give the same bytes")
    sizes = a["n_saved"]
    life.end()
    must(states[0] != states[1], "two texts, one state")
    measure(killer, args, lambda: empty(folder), act)
    acked = None
    while tally.open():
        before = temps(folder)
        life = Life(killer, args)
        life.acked, life.doing = acked, None
        saved = 0
        try:
            if life.up():
                must(not temps(folder), "the server did not sweep:", temps(folder))
                if acked is not None:
                    a = life.good("POST", "/slots/0?action=restore", {"filename": "a.bin"})
                    must(a["n_restored"] > 0 and a["n_read"] == len(states[acked]), a)
                for i in range(6):
                    make(life, (tally.lives + i) % 2)
                    saved += 1
        except Gone:
            pass
        up = life.up()
        call = life.kill()
        got = read(path)
        may = [w for w in (life.acked, life.doing) if w is not None]
        must((got is None and life.acked is None) or got in [states[w] for w in may],
             "acknowledged", life.acked, "under way", life.doing, "got", got and len(got), "bytes of", sizes)
        must(len(temps(folder)) <= 1, "they pile up:", temps(folder))
        acked = next((w for w in states if states[w] == got), None)
        tally.note("saves", saved)
        tally.note("files not finished", len(temps(folder) - before))
        tally.add("before" if not up or (saved == 0 and life.doing is None) else
                  "during" if life.doing is not None or saved < 6 else "after", call)
    life = Life(killer, args, disturbed=False)
    act(life)
    life.end()
    only(folder, "a.bin")


# ---- Files and batches ----

def form(purpose, name, content):
    b = b"------cohort51c2"
    return (b"--" + b + b'\r\nContent-Disposition: form-data; name="purpose"\r\n\r\n' + purpose.encode() + b"\r\n--" + b +
            b'\r\nContent-Disposition: form-data; name="file"; filename="' + name.encode() + b'"\r\n\r\n' + content +
            b"\r\n--" + b + b"--\r\n", "multipart/form-data; boundary=" + b.decode())


class Books:
    """What a client knows of one folder: what was acknowledged, and what was under way when the server died."""

    def __init__(self):
        self.n = 0
        self.files = {}  # id: content, acknowledged
        self.sent = {}  # name: content, of uploads that were begun and not answered
        self.gone = set()  # ids of files whose removal was acknowledged
        self.going = set()  # that were asked for
        self.batches = {}  # id: id of its input
        self.wanted = set()  # ids of inputs for which a batch was asked and not answered
        self.cancelled = {}  # id of a batch: whether that was answered
        self.results = {}  # name of a file of results: what was there
        self.inputs = {}  # id of a file: which of the texts


def upload(life, books, purpose, content, which=None):
    books.n += 1
    name = "f%d" % books.n
    body, kind = form(purpose, name, content)
    books.sent[name] = (content, which)
    a = life.ask("POST", "/v1/files", body, [("Content-Type", kind)])
    must(a.status == 200, a)
    f = a.json()
    must(f["bytes"] == len(content) and f["filename"] == name, f)
    del books.sent[name]
    books.files[f["id"]] = content
    if which is not None:
        books.inputs[f["id"]] = which


def verify(life, books, rng):
    """All that was acknowledged is there, and nothing else but what may be."""
    listed = {f["id"]: f for f in life.good("GET", "/v1/files?limit=10000")["data"]}
    known = {b["id"]: b for b in life.good("GET", "/v1/batches?limit=100")["data"]}
    must(not books.gone & set(listed), "a file that was removed is back")
    for i, content in books.files.items():
        must(i in listed or i in books.going, "a file is lost:", i)
        must(i not in listed or listed[i]["bytes"] == len(content), "a file has another size:", listed.get(i))
    for i in set(books.batches) - set(known):
        must(False, "a batch is lost:", i)
    for i, b in known.items():
        if i not in books.batches:
            must(b["input_file_id"] in books.wanted, "a batch that nobody asked for:", b)
            books.batches[i] = b["input_file_id"]
    for i in books.going - set(listed):
        books.gone.add(i)
        books.files.pop(i, None)
    books.going.clear()
    made = {b[n] for b in known.values() for n in ("output_file_id", "error_file_id") if b[n]}
    for i, f in listed.items():
        if i in books.files or i in made or f["purpose"] == "batch_output":
            continue
        must(f["filename"] in books.sent, "a file that nobody sent:", f)
        content, which = books.sent.pop(f["filename"])
        must(life.ask("GET", "/v1/files/%s/content" % i).body == content, "a file that was not answered for is not whole")
        books.files[i] = content
        if which is not None:
            books.inputs[i] = which
    some = rng.sample(sorted(books.files), min(2, len(books.files)))
    for i in some:
        must(life.ask("GET", "/v1/files/%s/content" % i).body == books.files[i], "a file has other bytes:", i)
    return known


def do_some(life, books, rng, texts, n):
    """Uploads, batches, removals."""
    for _ in range(n):
        what = rng.randrange(9)
        blobs = [i for i in books.files if i not in books.inputs]
        if what < 3 or not books.inputs:
            which = rng.randrange(len(texts))
            upload(life, books, "batch", texts[which], which)
        elif what == 3:
            upload(life, books, "user_data", rng.randbytes(rng.choice((0, 1, 5000, 400000))))
        elif what == 4 and blobs:
            i = rng.choice(blobs)
            books.going.add(i)
            life.good("DELETE", "/v1/files/" + i)
            books.going.discard(i)
            books.gone.add(i)
            del books.files[i]
        elif what == 5 and books.batches:
            i = rng.choice(sorted(books.batches))
            first = i not in books.cancelled
            books.cancelled.setdefault(i, False)
            a = life.ask("POST", "/v1/batches/%s/cancel" % i)
            must(a.status in (200, 409), a)
            if a.status == 200:
                books.cancelled[i] = True
            elif first:
                del books.cancelled[i]
        else:
            i = rng.choice(sorted(books.inputs))
            books.wanted.add(i)
            b = life.good("POST", "/v1/batches", {"input_file_id": i, "endpoint": "/v1/completions", "completion_window": "24h"})
            books.batches[b["id"]] = i


def wait_over(life, seconds):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        all_of = life.good("GET", "/v1/batches?limit=100")["data"]
        if all(b["status"] in OVER for b in all_of):
            return all_of
        time.sleep(0.02)
    return None


def keep_results(books, folder):
    """Results of batches that are under way: what was there is there, and no line twice."""
    names = [n for n in os.listdir(folder) if n.endswith(".jsonl")] if os.path.isdir(folder) else []
    for name in names:
        got = read(os.path.join(folder, name))
        whole = got[:got.rfind(b"\n") + 1]
        must(whole.startswith(books.results.get(name, b"")), "results are lost:", name)
        must(len(set(normal(whole.splitlines()))) == whole.count(b"\n"), "a result came twice:", name)
        books.results[name] = whole


def settle(life, books, rng, want, folder):
    """Nothing is killed any more: every batch ends, with each line once, and the folder has what is told and no more."""
    verify(life, books, rng)
    all_of = wait_over(life, 60)
    must(all_of is not None, "batches do not end")
    files = set(books.files)
    for b in all_of:
        results = want[books.inputs[b["input_file_id"]]]
        answered = books.cancelled.get(b["id"])
        must(b["status"] in ("failed",) * (results is None) + ("completed",) * (results is not None and not answered) +
             ("cancelled",) * (answered is not None), "ended so:", b, "cancelled:", answered)
        lines = []
        for name in ("output_file_id", "error_file_id"):
            if b[name]:
                got = life.ask("GET", "/v1/files/%s/content" % b[name])
                must(got.status == 200 and got.body.endswith(b"\n"), got)
                lines += got.body.splitlines()
                files.add(b[name])
        got = sorted(normal(lines))
        must(len(set(got)) == len(got), "a line came twice:", b, lines)
        if b["status"] == "completed":
            must(got == results and b["request_counts"]["total"] == len(got), "results differ:", b, lines)
        else:
            must(set(got) <= set(results or ()), "results that are none:", b, lines)
    listed = {f["id"] for f in life.good("GET", "/v1/files?limit=10000")["data"]}
    must(listed == files, "files that nobody knows:", listed ^ files)
    life.end()
    must(sorted(os.listdir(os.path.join(folder, "files"))) == sorted(i + e for i in files for e in (".data", ".json")),
         "something is left in files:", os.listdir(os.path.join(folder, "files")))
    left = [n for n in os.listdir(os.path.join(folder, "batches")) if not re.fullmatch(r"batch_[0-9a-f]{32}\.json", n)]
    must(not left, "something is left in batches:", left)
    return {"batches": len(all_of), "cancelled": sum(b["status"] == "cancelled" for b in all_of),
            "lines": sum(b["request_counts"]["completed"] + b["request_counts"]["failed"] for b in all_of)}


def batches(tally, rng, killer, folder):
    """/v1/files and /v1/batches: answered uploads are there, each line of a batch is answered once."""
    texts = [requests(rng, n, mixed=False) for n in (3, 8, 16, 30)]
    want = []
    for text in texts:
        with open(folder + ".in", "wb") as f:
            f.write(text)
        # 1: some of the requests are refused.
        code = subprocess.run([PROGRAM, "jobs", folder + ".in", "-output", folder + ".ref", "-restart"],
                              stderr=subprocess.DEVNULL).returncode
        must(code in (0, 1), "exit code", code)
        want.append(sorted(normal(read(folder + ".ref").splitlines())))
    texts.append(texts[0] + b"no request\n")  # a batch of it fails
    want.append(None)
    home, args, books = None, None, None
    n_home = 0

    def new_home():
        nonlocal home, args, books, n_home
        n_home += 1
        home = os.path.join(folder, "data%d" % n_home)
        args = ["-np", "4", "-data", home]
        books = Books()

    def act(life):
        do_some(life, books, rng, texts, 6)
        must(wait_over(life, 60) is not None, "batches do not end")

    def fresh():
        for sub in ("files", "batches"):
            if os.path.isdir(os.path.join(home, sub)):
                empty(os.path.join(home, sub))
        books.__init__()

    new_home()
    measure(killer, args, fresh, act)
    new_home()
    n_here = 0
    while tally.open():
        life = Life(killer, args)
        done = listening = False
        try:
            if life.up():
                listening = True
                verify(life, books, rng)
                do_some(life, books, rng, texts, 6)
                done = wait_over(life, 20) is not None
        except Gone:
            pass
        call = life.kill()
        for sub in ("files", "batches"):
            here = os.path.join(home, sub)
            must(not os.path.isdir(here) or len(temps(here)) <= 4, "they pile up:", temps(here))
        keep_results(books, os.path.join(home, "batches"))
        tally.add("after" if done else "during" if listening else "before", call)
        n_here += 1
        if n_here >= 20 or tally.kills() >= tally.count:
            life = Life(killer, args, disturbed=False)
            for what, n in settle(life, books, rng, want, home).items():
                tally.note(what, n)
            tally.note("files", len(books.files))
            new_home()
            n_here = 0
