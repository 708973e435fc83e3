"""What the tests that kill programs share: when to kill, what was hit, and what may be left in a folder.

A moment is a time since the start, or the N-th system call that changes a file (by kill_at, where processes may be
traced), of which every other write is torn. They are drawn evenly over the whole life of an undisturbed run: times, calls,
and calls of one name, so that the rare ones have their share.
"""
import glob
import json
import os
import subprocess
import time

LIFE_MAX_S = 120.0


class Wrong(Exception):
    """Something that a kill must not do."""


def must(ok, *what):
    if not ok:
        raise Wrong(" ".join(str(w)[:1500] for w in what))


class Tally:
    """Kills, by what they hit."""

    def __init__(self, name, count):
        self.name, self.count = name, count
        self.before = self.during = self.after = 0
        self.lives = 0
        self.calls = {}  # by the system call that was killed
        self.more = {}

    def kills(self):
        return self.before + self.during + self.after

    def open(self):
        self.lives += 1
        must(self.lives <= 20 * self.count + 50, "too many lives for", self.kills(), "kills")
        return self.kills() < self.count

    def add(self, where, call=None):
        setattr(self, where, getattr(self, where) + 1)
        if call:
            self.calls[call] = self.calls.get(call, 0) + 1

    def note(self, what, n=1):
        self.more[what] = self.more.get(what, 0) + n

    def __str__(self):
        text = "%s: %d kills, %d before, %d during, %d after" % (self.name, self.kills(), self.before, self.during, self.after)
        if self.calls:
            text += "; at " + ", ".join("%s %d" % c for c in sorted(self.calls.items()))
        return text + "".join("; %d %s" % (n, what) for what, n in self.more.items())


class Killer:
    """Draws moments for one kind of program, and runs it until one of them. folder: whose files count."""

    def __init__(self, rng, tool, folder):
        self.rng, self.tool, self.folder = rng, tool, os.path.realpath(folder)
        self.report = self.folder + ".report"
        self.i = 0
        self.ends = (0,)  # exit codes of one that was not killed
        self.seconds, self.calls = 1.0, {}

    def start(self, cmd, stdin):
        with open(stdin or os.devnull, "rb") as f:
            return subprocess.Popen(cmd, stdin=f, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def measure(self, cmd, reset, stdin=None):
        """Undisturbed runs, from the beginning: how long one takes, and how many calls there are."""
        if self.tool:
            reset()
            p = self.start(self.under(0, 0) + cmd, stdin)
            _, err = p.communicate(timeout=LIFE_MAX_S)
            if p.returncode == 77:
                self.tool = None
            else:
                must(p.returncode in self.ends, cmd, "ended with", p.returncode, err)
                self.calls = self.reported()[1]
        reset()
        began = time.monotonic()
        p = self.start(cmd, stdin)
        _, err = p.communicate(timeout=LIFE_MAX_S)
        must(p.returncode in self.ends, cmd, "ended with", p.returncode, err)
        self.seconds = time.monotonic() - began
        reset()

    def under(self, n, percent):
        return [self.tool, str(n), str(percent), self.folder, self.report]

    def reported(self):
        """The call that it was killed at, and how many there were, by name."""
        with open(self.report) as f:
            at, *counts = f.read().split()
        return at, {name: int(n) for name, n in (c.split("=") for c in counts)}

    def moment(self):
        """(seconds, None, 0) or (None, which call, percent of it)."""
        self.i += 1
        if self.i % 2 or not self.calls:
            return self.rng.uniform(0, 1.05 * self.seconds), None, 0
        percent = self.rng.choice((0, self.rng.randint(1, 99)))
        if self.i % 4:
            return None, str(self.rng.randint(1, sum(self.calls.values()) + 2)), percent
        name = self.rng.choice(sorted(self.calls))
        return None, "%d:%s" % (self.rng.randint(1, self.calls[name] + 1), name), percent

    def run(self, cmd, stdin=None):
        """(whether it was killed, at which call). One that was not must have ended well."""
        seconds, call, percent = self.moment()
        p = self.start((self.under(call, percent) if call else []) + cmd, stdin)
        try:
            _, err = p.communicate(timeout=LIFE_MAX_S if call else seconds)
        except subprocess.TimeoutExpired:
            p.kill()
            _, err = p.communicate()
            must(not call, cmd, "did not end by itself")
            return True, None
        if call and p.returncode == 137:
            return True, self.reported()[0]
        must(p.returncode in self.ends, cmd, "ended with", p.returncode, err)
        return False, None


def read(path):
    try:
        with open(path, "rb") as f:
            return f.read()
    except FileNotFoundError:
        return None


def temps(folder):
    """Files that were not finished: which, and of when."""
    out = set()
    for path in glob.glob(os.path.join(glob.escape(folder), ".cohort-*")):
        st = os.stat(path)
        out.add((path, st.st_ino, st.st_mtime_ns))
    return out


def empty(folder):
    for name in os.listdir(folder):
        os.unlink(os.path.join(folder, name))


def only(folder, *names):
    """Nothing is in the folder but these."""
    have = sorted(os.listdir(folder))
    must(have == sorted(names), "in the folder are", have)


# ---- Requests, and what is made of them ----

def line(i, url, body):
    return json.dumps({"custom_id": "r%d" % i, "method": "POST", "url": url, "body": body})


def requests(rng, n, mixed=True):
    """A batch file. mixed: of all urls, some lines long, some no good."""
    words = "Tom Lily dog cat tree big little happy the a was and".split()
    out = []
    for i in range(n):
        text = " ".join(rng.choice(words) for _ in range(rng.randint(1, 12)))
        body = {"seed": i, "max_tokens": rng.choice((1, 5, 20)), "temperature": rng.choice((0, 0.9))}
        kind = rng.randrange(6) if mixed else 0
        if kind == 1:
            out.append(line(i, "/v1/chat/completions", dict(body, messages=[{"role": "user", "content": text}])))
        elif kind == 2:
            out.append(line(i, "/v1/embeddings", {"input": [text + " " + w for w in words]}))
        elif kind == 3:
            out.append(rng.choice(("{", "[1]", line(0, "/v1/completions", dict(body, prompt="again")))))
        else:
            if i % 4 == 3:
                body["temperature"] = "hot"
            out.append(line(i, "/v1/completions", dict(body, prompt=text)))
    return ("\n".join(out) + "\n").encode()


def normal(lines):
    """Results without what a run's time and company decide (docs/programs.md)."""
    out = []
    for text in lines:
        try:
            r = json.loads(text)
        except ValueError:
            raise Wrong("a line that is no result: %r" % text[:300]) from None
        body = (r["response"] or {}).get("body", {})
        body.pop("created", None)
        body.get("usage", {}).pop("prompt_tokens_details", None)
        out.append(json.dumps(r, sort_keys=True))
    return out


def random_text(rng, n_lines):
    words = "the a cat king rode slept castle rain horse over under reading writing house forest market fox bread".split()
    return "".join(" ".join(rng.choice(words) for _ in range(rng.randint(5, 25))) + ".\n" for _ in range(n_lines))
