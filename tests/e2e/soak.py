"""A server under everything at once, for as long as it is told: ./dev soak MINUTES.

    soak.py COHORT FOLDER SECONDS [SEED]

64 clients do what soak_clients.py says, a process asks for /health all the time, and every second a line is added to
FOLDER/samples.tsv. FOLDER/plot.svg shows it (soak_plot.py makes it again from the samples). Every minute there is ebb:
when all that was under way has ended, the server is at rest, and what it has then can be compared exactly.
What must hold:

 1. Every good answer is the one that the same request gets alone, on a server that reuses nothing; in batches
    as well.
 2. Every bad request gets its status. (Where a process that only sleeps was not woken for seconds, the machine stood
    still: a connection that was closed or a 408 within some seconds of that is told, and does not count.)
 3. 99 of 100 /health are answered within 50 ms.
 4. Drift: the first sixth (20 s to 5 minutes) is warm-up and does not count. Of what follows, the median of the last
    third is less than 1 % above that of the second one: all that is resident, and what is the server's own, at rest;
    under load as well, but for what more requests in a second explain, as others use the machine, too, and for what
    chance does (soak_plot.steady). All blocks of the cache have been written to before the load, so that their first use is not
    taken for growth.
 5. At each rest, and when the load has ended, descriptors, threads, connections, slots, queue and blocks are what they
    were before it; in the end no uploaded file is left, and nothing was said on standard error.
 6. Time: at each rest a small request is timed a hundred times, in turn with a twin, a server that does nothing else.
    From the second third to the last its quickest has not grown against the twin's by more than chance explains
    (soak_plot.slower). Others on the machine slow both down; times under load are told only.

Seen red with: 16 KiB that each call leaves (memory), one in 200 pins of the cache that is never taken back and every
fourth descriptor of a file's content (all is what it was), another seed for lines of batches and a 400 for a slot that
is not there (every answer), one in 40 /health that takes 80 ms. In 4 minutes: 1 KiB that each call leaves (5 % at rest
and under load), one descriptor in 1500 calls (every rest), a generation that takes 1/4 us longer with each (52 %).
"""
import collections
import multiprocessing
import os
import random
import re
import shutil
import signal
import sys
import time

import soak_plot
from serve_client import FOLDER, Cases, Server, eventually
from serve_load import OPENINGS, Wrong, blocks, lengthy, p99, run
from soak_clients import KINDS, LONG_TOKENS, N_SLOTS, Load, ask, batched, crowd, requests

SECONDS = float(sys.argv[3]) if len(sys.argv) > 3 else 300.0
SEED = int(sys.argv[4]) if len(sys.argv) > 4 else 1
CLIENTS = 64
PROCESSES = 4
PHASE_LOAD, PHASE_EBB, PHASE_REST = range(3)
HEALTH_P99_S = 0.05
RSS_DRIFT = 0.01
DRIFT_MIN_S = 240  # there are too few rests in less
PERIOD_S = min(60, max(20, SECONDS / 12))  # from one ebb to the next
REST_S = 90  # within which an ebb comes to rest
N_ALONE = 100
AFTER_STALL_S = 8  # the server's patience, and some for the end to be seen
END_S = 700  # for what is under way when the load ends
ARGS = ["-np", str(N_SLOTS), "-queue", "512", "-seed", "1", "-alias", "tiny"]
# Patience is short, so that who keeps the server waiting does not wait all the time; few batches are remembered, so
# that those memories are full soon.
MORE = ["-body-timeout", "5", "-idle-timeout", "5", "-max-files", "40"]


def health(load, stop, pipe):
    """A process that asks how the server is, again and again, and tells every half second how long it took."""
    times, bad, told = [], [], time.monotonic()
    while not stop.is_set():
        if load.enter():
            begun = time.monotonic()
            a = load.server.get("/health")
            times.append(time.monotonic() - begun)
            if a.status != 200:
                bad.append(repr(a))
            load.leave()
        now = time.monotonic()
        if now - told > 0.5:
            pipe.send(("health", times, bad))
            times, bad, told = [], [], now
        time.sleep(0.02)
    pipe.send(("health", times, bad))
    pipe.send(("end", collections.Counter(), []))


class Crowd:
    """The processes, and what they have told."""

    def __init__(self):
        self.pipes, self.processes = [], []
        self.n_ended = 0
        self.counts, self.wrong, self.bad_health = collections.Counter(), [], []
        self.stalls = []  # (from, to)
        self.health = []  # all of them
        self.news = self.none()

    @staticmethod
    def none():
        return {"health": [], "first": [], "kinds": collections.Counter()}

    def start(self, what, *args):
        ours, theirs = multiprocessing.Pipe(False)
        p = multiprocessing.Process(target=what, args=(*args, theirs), daemon=True)
        p.start()
        theirs.close()
        self.pipes.append(ours)
        self.processes.append(p)

    def hear(self):
        """Takes all that was told."""
        for pipe in list(self.pipes):
            try:
                while pipe.poll():
                    self.told(*pipe.recv())
            except EOFError:
                self.pipes.remove(pipe)

    def told(self, what, one, two):
        if what == "health":
            self.health += one
            self.news["health"] += one
            self.bad_health += two
        elif what == "stall":
            self.stalls.append((one, two))
        elif what == "news":
            self.news["kinds"] += one
            self.news["first"] += two
        else:
            self.n_ended += 1
            self.counts += one
            self.wrong += two

    def take(self):
        self.hear()
        got, self.news = self.news, self.none()
        return got


# ---- Samples ----


def status_of(server):
    """Resident KiB, of these its own, and threads."""
    with open("/proc/%d/status" % server.process.pid, encoding="ascii") as f:
        text = f.read()
    return [int(re.search(name + r":\s+(\d+)", text).group(1)) for name in ("VmRSS", "RssAnon", "Threads")]


def part(times, p):
    """In ms; nothing when there are none."""
    times = sorted(times)
    return "%.2f" % (1e3 * times[min(len(times) - 1, int(len(times) * p))]) if times else ""


def sample(server, at, phase, news, alone_s=(), twin_s=()):
    rss, anon, threads = status_of(server)
    fds = server.fds()  # before there is a connection for the rest
    m = server.metrics()
    kinds, h, f = news["kinds"], news["health"], news["first"]
    row = {"t_s": "%.2f" % at, "phase": phase, "rss_kib": rss, "anon_kib": anon, "fds": fds, "threads": threads,
           "connections": int(m["cohort:connections"]), "queue": int(m["llamacpp:requests_deferred"]),
           "queue_tokens": int(m["cohort:queue_tokens"]), "health_n": len(h), "health_p50_ms": part(h, 0.5),
           "health_p99_ms": part(h, 0.99), "first_n": len(f), "first_p50_ms": part(f, 0.5),
           "first_p99_ms": part(f, 0.99), "alone_ms": part(alone_s, 0), "twin_ms": part(twin_s, 0)}
    row.update({"blocks_" + s: int(m['cohort:blocks{state="%s"}' % s]) for s in ("used", "cached", "free")})
    for s in ("idle", "prefilling", "generating", "parked"):
        row["slots_" + s] = int(m['cohort:slots{state="%s"}' % s])
    row.update({"n_" + k: kinds[k] for k in KINDS})
    return row


class Samples:
    def __init__(self, path):
        self.file = open(path, "w", encoding="ascii")
        self.begun = False

    def add(self, row):
        if not self.begun:
            self.file.write("\t".join(row) + "\n")
            self.begun = True
        self.file.write("\t".join(str(v) for v in row.values()) + "\n")
        self.file.flush()


# ---- The whole ----


def alone(cases, asked):
    """The answers of a server of its own that reuses nothing, one request after the other; for those that batches have
    also without a stream, which is the same answer."""
    with Server(ARGS + ["-no-reuse"]) as server:
        want = [ask(server, path, body) for path, body in asked]
        whole = {i: ask(server, asked[i][0], body) for i, body in batched(asked).items()}
        cases.check("each of %d requests alone" % len(want), len(set(want)) > len(want) * 3 // 4, len(set(want)))
        other = [i for i, d in whole.items() if d != want[i]]
        cases.check("a stream is its answer as a whole", not other, [asked[i] for i in other][:5])
    return want


def still(server):
    """What has to be the same before and behind the load. The server needs a moment to see that a connection
    has gone."""
    time.sleep(0.3)
    out = {"descriptors": server.fds(), "threads": status_of(server)[2]}
    b = blocks(server)
    out.update({"blocks used": b["used"], "blocks": sum(b.values()), "busy": server.busy()})
    time.sleep(0.3)
    out["connections"] = int(server.metrics()["cohort:connections"])
    return out


def fill(server):
    """The cache is memory that is used from then on: until each block was written to. One is free in the end, that of a
    text's last tokens."""
    rng = random.Random(5)
    n = LONG_TOKENS
    while n:
        free = blocks(server)["free"]
        run(server, "/v1/completions", lengthy(n, rng))
        if blocks(server)["free"] >= free:
            n = n // 2 if n > 32 else 0


class Tide:
    """Load, and from time to time none, until the server is at rest."""

    def __init__(self, server, twin, load, before):
        self.server, self.twin, self.load, self.before = server, twin, load, before
        self.begun = self.since = load.until - SECONDS  # the load; the phase
        self.phase = PHASE_LOAD
        self.n_rests, self.wrong = 0, []
        self.answer = None

    def turn(self, phase):
        self.phase, self.since = phase, time.monotonic()
        self.load.ebb.value = int(phase != PHASE_LOAD)

    def step(self, crowds):
        """Once a second: the row that is to be added."""
        waited = time.monotonic() - self.since
        times = ((), ())
        if self.phase == PHASE_LOAD and waited > PERIOD_S and time.monotonic() < self.load.until - PERIOD_S / 2:
            self.turn(PHASE_EBB)
        elif self.phase == PHASE_EBB and not self.load.busy.value:
            times = self.rest()
        elif self.phase == PHASE_EBB and waited > REST_S:
            self.wrong.append("%.0f s: %d clients do not come to their end" % (self.at(), self.load.busy.value))
            self.turn(PHASE_LOAD)
        row = sample(self.server, self.at(), self.phase, crowds.take(), *times)
        if self.phase == PHASE_REST:
            self.turn(PHASE_LOAD)
        return row

    def at(self):
        return time.monotonic() - self.begun

    def rest(self):
        """All is what it was, and a request alone takes so long here and so long there. Then a little time, as the
        server gives memory back once a second."""
        self.turn(PHASE_REST)
        if not eventually(lambda: still(self.server) == self.before, 10):
            self.wrong.append("%.0f s: %s" % (self.at(), still(self.server)))
        times, body = ([], []), {"prompt": OPENINGS[0], "max_tokens": 2, "temperature": 0}
        for i in range(2 * N_ALONE):
            begun = time.monotonic()
            text = run((self.server, self.twin)[i % 2], "/v1/completions", body)
            times[i % 2].append(time.monotonic() - begun)
            self.answer = self.answer or text
            if text != self.answer:
                self.wrong.append("%.0f s: another answer" % self.at())
        self.n_rests += 1
        time.sleep(2.2)
        return times


def drive(server, twin, asked, want, before):
    """The load, and a sample every second; when it ends, until all have come to their end."""
    crowds, stop, samples = Crowd(), multiprocessing.Event(), Samples(os.path.join(FOLDER, "samples.tsv"))
    begun = time.monotonic()
    load = Load(server, asked, want, begun + SECONDS)
    for i in range(PROCESSES):
        n = CLIENTS // PROCESSES
        crowds.start(crowd, load, i * n, n, SEED)
    crowds.start(health, load, stop)
    at, tide = begun, Tide(server, twin, load, before)
    while crowds.n_ended < PROCESSES and crowds.pipes and time.monotonic() < load.until + END_S:
        at = max(at + 1, time.monotonic() + 0.5)  # behind a rest all begin first
        time.sleep(max(0, at - time.monotonic()))
        try:
            samples.add(tide.step(crowds))
        except (Wrong, OSError, KeyError) as e:
            crowds.wrong.append((time.monotonic(), False, "a sample: %s %s, the server said %s" % (
                type(e).__name__, e, server.lines[-20:])))
            break
    load.ebb.value = 0
    stop.set()
    eventually(lambda: crowds.hear() or crowds.n_ended > PROCESSES, 30)
    for p in crowds.processes:
        p.join(5)
        p.kill()
    return crowds, tide


def tell(cases, crowds):
    """What the crowd saw."""
    wrong = [text for at, impatient, text in crowds.wrong
             if not (impatient and any(a <= at <= b + AFTER_STALL_S for a, b in crowds.stalls))]
    print("# %d clients, %.0f s, seed %d: %s; %d wrong" % (
        CLIENTS, SECONDS, SEED, ", ".join("%d %s" % (crowds.counts[k], k) for k in KINDS), len(wrong)))
    if crowds.stalls:
        print("# the machine stood still %d times, for %.1f s at most; %d requests that ended then do not count" % (
            len(crowds.stalls), max(b - a for a, b in crowds.stalls), len(crowds.wrong) - len(wrong)))
    cases.check("all clients came to their end", crowds.n_ended == PROCESSES + 1, crowds.n_ended)
    cases.check("every answer is the one that its request gets alone, every bad request has its status",
                not wrong, "%d: %s" % (len(wrong), "\n".join(wrong[:20])))
    cases.check("each kind of request was there", all(crowds.counts[k] for k in KINDS), crowds.counts)
    quick = p99(crowds.health)
    print("# /health: p50 %s ms, p99 %.1f ms, longest %.1f ms, %d asked" % (
        part(crowds.health, 0.5), quick * 1e3, max(crowds.health, default=0) * 1e3, len(crowds.health)))
    cases.check("/health within %.0f ms" % (HEALTH_P99_S * 1e3), not crowds.bad_health and quick < HEALTH_P99_S,
                "p99 %.1f ms, %s" % (quick * 1e3, crowds.bad_health[:3]))


def check_drift(cases, s):
    for column, what in (("rss_kib", "what is resident"), ("anon_kib", "its own memory")):
        got, chance = soak_plot.steady(s, column)
        cases.check("no growth: %s, at the same rate, %+.2f %%, by chance up to %.2f %%" % (
            what, got * 100, chance * 100), got < RSS_DRIFT + chance)
    for column, what in (("rest rss_kib", "what is resident"), ("rest anon_kib", "its own memory")):
        got = soak_plot.drift(s, column)
        cases.check("no growth: %s at rest, %+.2f %%" % (what, got * 100), got < RSS_DRIFT)
    got, chance = soak_plot.slower(s)
    cases.check("no slower than its twin: %+.0f %%, by chance up to %.0f %%" % (got * 100, chance * 100), got < chance)


def main():
    cases = Cases()
    asked = requests()
    data, saved = os.path.join(FOLDER, "data"), os.path.join(FOLDER, "slots")
    for folder in (data, saved):
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
    want = alone(cases, asked)

    with Server(ARGS) as twin, Server(ARGS + MORE + ["-data", data, "-slot-save-path", saved]) as server:
        for path, body in asked[:9]:
            ask(server, path, body)  # whatever is made once
        cases.check("it is idle at the start", server.idle_within(20), server.slots())
        before, n_lines = still(server), len(server.lines)
        fill(server)
        filled = blocks(server)
        cases.check("every block of the cache was used", filled["free"] <= 1, filled)
        crowds, tide = drive(server, twin, asked, want, before)
        tell(cases, crowds)
        cases.check("all is what it was at each of %d rests" % tide.n_rests, tide.n_rests and not tide.wrong,
                    "before: %s\n%s" % (before, "\n".join(tide.wrong[:20])))

        s = soak_plot.read(os.path.join(FOLDER, "samples.tsv"))
        s.until(SECONDS)
        with open(os.path.join(FOLDER, "plot.svg"), "w", encoding="utf-8") as f:
            f.write(soak_plot.picture(s, "%d clients of one server, %g minutes" % (CLIENTS, round(SECONDS / 60, 1))))
        print("\n".join("# " + line for line in soak_plot.summary(s)))
        if SECONDS >= DRIFT_MIN_S:
            check_drift(cases, s)
        else:
            print("# too short to speak of drift")
        cases.check("nothing is under way behind it", server.idle_within(20), server.slots())
        cases.check("all is what it was", eventually(lambda: still(server) == before, 30), (before, still(server)))
        left = server.get("/v1/files").json()["data"]
        cases.check("no file is left", not left and not os.listdir(os.path.join(data, "files")), left)
        m = server.metrics()
        finished = sum(v for k, v in m.items() if k.startswith("cohort:requests_finished_total"))
        cases.check("all that was begun is finished", m["cohort:requests_submitted_total"] == finished,
                    (m["cohort:requests_submitted_total"], finished))
        cases.check("no tick failed", m["cohort:decode_retries_total"] + m["cohort:strategy_fallbacks_total"] == 0, m)
        said = server.lines[n_lines:]
        cases.check("nothing was said on standard error", not said, "\n".join(said))
        for i in random.Random(3).sample(range(len(asked)), 12):
            cases.check("request %d afterwards" % i, ask(server, *asked[i]) == want[i], asked[i])
        cases.check("it ends when it is asked to", server.stop() == 0, server.lines[-5:])
    cases.end()


def give_up(number, _):
    sys.exit("soak: ended by signal %d" % number)  # which ends the server as well


if __name__ == "__main__":
    signal.signal(signal.SIGALRM, give_up)
    signal.signal(signal.SIGTERM, give_up)
    signal.alarm(int(SECONDS) + END_S + 300)
    main()
