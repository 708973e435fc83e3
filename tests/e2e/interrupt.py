"""Programs that are interrupted: see interrupt.sh. INTERRUPT_COUNT: moments of each command line."""
import json
import os
import random
import select
import signal
import subprocess
import time

from fault_box import SIGNAL, Box
from serve_client import FOLDER, PROGRAM, Cases

COUNT = int(os.environ["INTERRUPT_COUNT"])
ONLY = os.environ.get("INTERRUPT_ONLY")
BATCHED = os.path.join(os.path.dirname(PROGRAM), "batched")
PATIENCE_S = 60
EARLY_MAX = 16  # calls of libraries before main
BUILT_IN = os.path.join(os.environ["COHORT_SOURCE"], "models", "cohort-tiny.gguf")
TINY = os.path.join(os.environ["COHORT_SOURCE"], "tests", "golden", "data", "llama.gguf")
SHAPE = "n_vocab=300,n_embd=64,n_layer=1,n_head=4,n_ff=64"
cases = Cases()
rng = random.Random(1)
home = os.path.join(FOLDER, "home")  # the only folder in which anything may appear


def path(name):
    return os.path.join(FOLDER, name)


def out(name):
    return os.path.join(home, name)


# Name, arguments, standard input, files that are written. Of a name the first word is the command. M is the model.
M = "MODEL"
COMMANDS = [
    ("batched", ["-m", M, "-n-predict", "8"], b"", []),
    ("batched output", ["-m", M, "-n-predict", "8", "-output", out("a.json"), "-output", out("a.html")], b"", ["a.json", "a.html"]),
    ("batched interactive", ["-m", M, "-interactive", "-n-predict", "8"], b"Once\n:help\nTom\n", []),
    ("batched prompts", ["-m", M, "-prompts", path("lines"), "-n-predict", "4", "-stream"], b"", []),
    ("batched compare", ["-m", M, "-n-predict", "8", "-compare"], b"", []),
    ("run", ["-m", M, "-n", "8", "Once"], b"", []),
    ("run beam", ["-m", M, "-n", "4", "-beams", "3", "Once"], b"", []),
    ("chat", ["-m", M, "-template", "chatml", "-n", "6", "-session", out("talk")], b"Hello\nAgain\n", ["talk"]),
    ("speculate", ["-m", M, "-n", "8", "Once"], b"", []),
    ("tree", ["-m", M, "-o", out("tree.svg"), "Once"], b"", ["tree.svg"]),
    ("info", ["-m", M], b"", []),
    ("devices", [], b"", []),
    ("tokenize", ["-m", M, "Once upon a time"], b"", []),
    ("detokenize", ["-m", M, "1", "911"], b"", []),
    ("embed", ["-m", M, "-output", out("v.npy"), "a cat", "a dog"], b"", ["v.npy"]),
    ("embed text", ["-m", M, "a cat", "a dog"], b"", []),
    ("retrieve save", ["-m", M, "-dir", path("docs"), "-save", out("index")], b"", ["index"]),
    ("retrieve", ["-m", M, "-dir", path("docs"), "rain"], b"", []),
    ("perplexity", ["-m", M, "-f", path("lines"), "-ctx", "16"], b"", []),
    ("template", ["-m", M, "-messages", path("chat.json")], b"", []),
    ("logits", ["-m", M, "-tokens", "-", "-o", out("logits")], b"5 6 7 8 9\n", ["logits"]),
    ("quantize", ["-allow-requantize", M, out("q.gguf"), "Q8_0"], b"", ["q.gguf"]),
    ("synth", ["-s", SHAPE, "-t", "Q8_0", "-o", out("s.gguf")], b"", ["s.gguf"]),
    ("bench", ["-m", M, "-npp", "4", "-ntg", "2", "-npl", "1,2"], b"", []),
    ("jobs", ["-m", M, path("in.jsonl"), "-output", out("done.jsonl")], b"", ["done.jsonl"]),
    ("simulate", ["-m", M, "-n", "20", "-rounds", "1", "-slots", "2", "-json", out("sim.json")], b"", ["sim.json"]),
    ("serve", ["-m", M, "-port", "0", "-data", out("data")], b"", []),
    ("help", ["run"], b"", []),
    ("man", ["run"], b"", []),
    ("completion", ["bash"], b"", []),
    ("version", [], b"", []),
]
# Those that read standard input, which has nothing yet.
WAITING = [
    ("batched", ["-prompts", "-"]), ("batched", ["-interactive"]), ("run", []), ("run", ["-f", "-"]), ("run", ["-prompts", "-"]),
    ("chat", []), ("speculate", ["-f", "-"]), ("tree", ["-f", "-"]), ("tokenize", ["-f", "-"]), ("detokenize", []),
    ("embed", ["-f", "-"]), ("retrieve", ["-dir", path("docs")]), ("perplexity", ["-f", "-"]), ("template", ["-messages", "-"]),
    ("logits", ["-tokens", "-", "-o", out("logits")]),
]
RESUMED = ("jobs",)  # what it has written stays, and the same command goes on


def listening(p):
    """Reads what a server says until it listens, then interrupts it."""
    said = b""
    until = time.monotonic() + PATIENCE_S
    while b"listening on" not in said and time.monotonic() < until:
        if select.select([p.stderr], [], [], 0.1)[0]:
            more = os.read(p.stderr.fileno(), 4096)
            if not more:
                return said
            said += more
    p.send_signal(signal.SIGINT)
    return said


class Run:
    """One run of a command line, interrupted before the k-th call (0: not), or after some seconds."""

    def __init__(self, command, model, box, k=0, seconds=None):
        name, args, words, self.files = command
        self.box, self.seconds = box, seconds
        program = [BATCHED] if name.startswith("batched") else [PROGRAM, name.split()[0]]
        box.arm(SIGNAL, k)
        env = {**box.env(), "HOME": home, "TMPDIR": home, "XDG_STATE_HOME": home, "XDG_CACHE_HOME": home, "XDG_DATA_HOME": home}
        began = time.monotonic()
        # A shell starts what is in its background with SIGINT ignored.
        p = subprocess.Popen(program + [model if a == M else a for a in args], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, env=env, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        self.asked = False
        try:
            if seconds is not None:
                self.interrupt_after(p, words)
            if p.poll() is None and name == "serve" and not self.asked:
                self.said = listening(p)
                self.out, rest = p.communicate(timeout=PATIENCE_S)
                self.said += rest
            else:
                self.out, self.said = p.communicate(None if self.asked else words, timeout=PATIENCE_S)
            self.rc = p.returncode
        except subprocess.TimeoutExpired:
            p.kill()
            self.out, self.said = p.communicate()
            self.rc = "it hangs"
        self.seconds = time.monotonic() - began
        box.disarm()
        self.hit = self.asked or box.failed() > 0
        self.made = {}
        for f in self.files:
            if os.path.exists(out(f)):
                with open(out(f), "rb") as file:
                    self.made[f] = file.read()
        self.there = {os.path.join(at, f) for at, folders, files in os.walk(home) for f in folders + files}

    def interrupt_after(self, p, words):
        try:
            p.stdin.write(words)
            p.stdin.flush()
            if not words:
                p.stdin.close()
                p.stdin = None
        except BrokenPipeError:
            pass
        until = time.monotonic() + self.seconds
        # Its outputs are small: no pipe fills up meanwhile.
        while time.monotonic() < until and p.poll() is None:
            time.sleep(0.001)
        if p.poll() is None and self.box.caught()[1] > 0:  # else it is not in main yet, or has ended
            self.asked = True
            p.send_signal(signal.SIGINT)
        if p.stdin:
            p.stdin.close()
            p.stdin = None


def clean():
    for at, folders, files in os.walk(home, topdown=False):
        for f in files:
            os.unlink(os.path.join(at, f))
        for f in folders:
            os.rmdir(os.path.join(at, f))


def whole(name, bytes):
    """A file of those that are marked when they are not complete."""
    if name.endswith(".json"):
        return isinstance(json.loads(bytes), dict)
    return bytes.rstrip().endswith(b"</html>")


def judge(name, good, got, old):
    """What is wrong with a run that was interrupted."""
    # A server that listens ends with 0; the signal that ends an undisturbed run may be its second, which is 130 again.
    if got.rc not in (0, 130):
        return "exit code %s, not 130: %r" % (got.rc, got.said[-200:])
    if got.rc == 0 and name == "serve":
        return None if b"listening on" in got.said else "exit code 0 before it listened"
    if got.rc == 0 and got.out != good.out and name.split()[0] not in ("bench", "simulate", "quantize", "jobs", "info", "devices"):
        return "exit code 0, and not the output: %r" % got.out[-200:]
    left = got.there - good.there - {out(f) for f in got.files}
    if name in RESUMED:
        left -= {out(f + ".journal") for f in got.files}
    if left:
        return "left: %s" % sorted(left)
    for f in got.files:
        made = got.made.get(f)
        if name in RESUMED:
            if made is not None and made[:made.rfind(b"\n") + 1] != made:
                return "%s has half a line" % f
        elif name == "batched output":
            if made is None or (made != old[f] and not whole(f, made)):
                return "%s is damaged: %r" % (f, made and made[-100:])
        elif name == "chat":
            again = subprocess.run([PROGRAM, "chat", "-template", "chatml", "-session", out(f)], stdin=subprocess.DEVNULL, capture_output=True)
            if made is not None and again.returncode:
                return "%s cannot be read: %r" % (f, again.stderr[-200:])
        elif made not in (old[f], good.made[f]) and not (name == "simulate" and json.loads(made)):
            return "%s is damaged: neither the old nor the new one" % f
    return None


def moments(n_calls, seconds):
    """(k, None) or (0, seconds), over the whole of a run."""
    n = (COUNT + 1) // 2
    for i in range(n):
        yield 1 + int((i + rng.random()) / n * n_calls), None
    for i in range(COUNT - n):
        yield 0, (i + rng.random()) / (COUNT - n) * seconds


def interrupt(command, model, box):
    name = command[0]
    clean()
    good = Run(command, model, box)
    early, n_calls = box.caught()
    if good.rc != 0:
        cases.check(name, False, "without an interruption: %s %r" % (good.rc, good.said[-300:]))
        return 0
    n, n_ended, wrong = 0, 0, []
    if early > EARLY_MAX:
        wrong.append("%d calls before it catches the signal" % early)
    for k, seconds in moments(n_calls, good.seconds):
        clean()
        old = {f: b"what was there before\n" for f in good.files}
        if name == "chat" or name in RESUMED:
            old = {}
        for f, bytes in old.items():
            with open(out(f), "wb") as file:
                file.write(bytes)
        got = Run(command, model, box, k, seconds)
        old = {f: old.get(f) for f in good.files}
        n += got.hit
        n_ended += got.rc == 130
        why = judge(name, good, got, old) if got.hit or got.rc else None
        if why:
            wrong.append("%s: %s" % ("call %d of %d" % (k, n_calls) if k else "after %.3f s of %.3f" % (seconds, good.seconds), why))
    if n_ended == 0 and name != "serve":  # which ends with 0 once it listens
        wrong.append("it never ended before its end")
    cases.check("%s: interrupted %d times, %d of them before its end" % (name, n, n_ended), n > 0 and not wrong, "\n".join(wrong[:12]))
    return n


def used(p):
    """Processor time, in ticks, and whether it sleeps."""
    with open("/proc/%d/stat" % p.pid, encoding="ascii") as f:
        fields = f.read().rpartition(")")[2].split()
    return fields[0] == "S", int(fields[11]) + int(fields[12])


def waits(p):
    """Until it has had nothing to do for a while."""
    until = time.monotonic() + PATIENCE_S
    before, since = None, time.monotonic()
    while time.monotonic() < until and time.monotonic() < since + 0.3:
        now = used(p)
        if now != before or not now[0]:
            before, since = now, time.monotonic()
        time.sleep(0.02)


def waiting():
    """One Ctrl-C is enough while a command waits for its input."""
    wrong = []
    clean()
    for name, args in WAITING:
        program = [BATCHED] if name == "batched" else [PROGRAM, name]
        p = subprocess.Popen(program + args, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             env={**os.environ, "HOME": home}, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        waits(p)
        p.send_signal(signal.SIGINT)
        try:
            p.wait(10)
        except subprocess.TimeoutExpired:
            p.kill()
        said = p.communicate()[1]
        if p.returncode != 130:
            wrong.append("%s %s: %s %r" % (name, args, p.returncode, said[-200:]))
    cases.check("while they wait for standard input", not wrong and not os.listdir(home), "\n".join(wrong) or os.listdir(home))


def main():
    os.mkdir(home)
    os.mkdir(path("docs"))
    for name, text in (("docs/a", "The cat sat down.\n"), ("docs/b", "Rain fell on the house.\n"),
                       ("lines", "Once upon a time\nThe cat sat\nTom and Lily\n" * 4),
                       ("chat.json", '[{"role":"user","content":"Hi"}]')):
        with open(path(name), "w") as f:
            f.write(text)
    with open(path("in.jsonl"), "w") as f:
        for i in range(4):
            f.write('{"custom_id":"%d","method":"POST","url":"/v1/completions","body":{"prompt":"Tom","max_tokens":3,"seed":1}}\n' % i)
    listed = subprocess.run([PROGRAM, "help"], stdout=subprocess.PIPE, check=True).stdout.decode()
    listed = listed.split("Commands:\n")[1].split("\n\n")[0].split("\n")
    listed = {t.split()[0] for t in listed}
    cases.check("all commands are here", {c[0].split()[0] for c in COMMANDS} == listed | {"batched"}, listed)
    if ONLY in (None, "waiting"):
        waiting()
    model = BUILT_IN
    if COUNT >= 20:  # a model that takes a while to load
        model = path("large.gguf")
        subprocess.run([PROGRAM, "synth", "-s", "smol-135m,n_ctx=1024", "-t", "Q4_K_M", "-o", model], check=True, stderr=subprocess.DEVNULL)
    box = Box(path("box"))
    n = 0
    for c in COMMANDS:
        if not ONLY or c[0] == ONLY:
            n += interrupt(c, BUILT_IN if c[0] == "template" else model, box)
    print("# %d interruptions" % n)
    cases.end()


main()
