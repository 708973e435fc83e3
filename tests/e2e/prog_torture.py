"""Programs whose calls to the system fail: see prog_torture.sh.

Exit code 0: standard output and files are those of a run without failures. Anything else is an exit code of the
programs, with a message of the program's; standard output is the beginning of the usual one, a file is whole or not
there, and a job has a journal and whole results, with which the same command ends as ever.
"""
import json
import os
import re
import subprocess

from fault_box import KINDS, Box
from serve_client import FOLDER, PROGRAM, Cases

FULL = os.environ.get("TORTURE") == "full"
ONLY = os.environ.get("TORTURE_ONLY")
POINTS = 3  # of a kind and a mode in a short run
PATIENCE_S = 60
MODEL = os.path.join(os.environ["COHORT_SOURCE"], "tests", "golden", "data", "llama.gguf")
LINES = """{"custom_id":"a","method":"POST","url":"/v1/completions","body":{"prompt":"Tom","max_tokens":2,"seed":1}}
{"custom_id":"b","method":"POST","url":"/v1/completions","body":{"prompt":"Lily","max_tokens":1,"seed":1}}
"""
cases = Cases()


def path(name):
    return os.path.join(FOLDER, name)


class Command:
    """Arguments, and the least number of failures of a short run: half of what was seen."""

    points = POINTS

    def __init__(self, args, floor, words=b"", files=()):
        self.args, self.floor, self.words, self.files = args, floor, words, files

    def prepare(self):
        for name in self.files:
            if os.path.exists(path(name)):
                os.unlink(path(name))

    def run(self, name, box, kind=len(KINDS), k=0, lasting=False, args=None):
        """The process, and the bytes of its files: None where there is none."""
        box.arm(kind, k, lasting)
        p = subprocess.run([PROGRAM, name] + (args or self.args), input=self.words, capture_output=True, timeout=PATIENCE_S,
                           env=box.env())
        box.disarm()
        return p, [open_file(f) for f in self.files]

    def said(self, p):
        """Of a run that ended well: what has to be the same."""
        return p.stdout

    def success(self, want, got):
        """What is wrong with a run with exit code 0; both: a process and its files."""
        if self.said(got[0]) != self.said(want[0]):
            return "it did not fail, and said something else: %r" % self.said(got[0])[-200:]
        return None if got[1] == want[1] else "it did not fail, and wrote something else"

    def failure(self, want, got):
        """What is wrong with what a run left that failed."""
        if not want[0].stdout.startswith(got[0].stdout.rstrip(b"\n")):
            return "it failed, and said something else: %r" % got[0].stdout[-200:]
        bad = [name for name, good, made in zip(self.files, want[1], got[1]) if made not in (None, good)]
        return "not whole: %s" % bad if bad else None


def open_file(name):
    try:
        with open(path(name), "rb") as f:
            return f.read()
    except FileNotFoundError:
        return None


class Quantize(Command):
    def said(self, p):
        return re.sub(rb"\d+\.\d s$", b"", p.stdout.rstrip())


class Info(Command):
    """Whether a model runs is found out by opening it, and the answer may be that it does not, and why."""

    def said(self, p):
        said = re.sub(rb"(?m)^(runs here   )no: .*(out of memory|Cannot allocate memory|Too many open files|"
                      rb"Input/output error).*$", rb"\1yes", p.stdout)
        return re.sub(rb"(?m)^cache .*\n", b"", said)  # of models that open


class Jobs(Command):
    """-restart takes the place of another job. The files are the output and the journal."""
    points = 2  # it takes longest
    OTHER = [b'{"id":"batch_req_000000000001"}\n', b'{"cohort_jobs":2,"input":{"bytes":1},"settings":{}}\n']

    def prepare(self):
        for name, content in zip(self.files, self.OTHER):
            with open(path(name), "wb") as f:
                f.write(content)

    def said(self, p):
        """Without the speed."""
        return re.findall(rb"\d+ answered, \d+ refused, \d+ bad lines", p.stderr), p.stdout

    @staticmethod
    def results(output):
        """Without when they were made, and what was reused."""
        out = []
        for line in output.splitlines():
            v = json.loads(line)
            v["response"]["body"].pop("created")
            v["response"]["body"]["usage"].pop("prompt_tokens_details", None)
            out.append(json.dumps(v, sort_keys=True))
        return sorted(out)

    @staticmethod
    def journal(text):
        v = json.loads(text)
        v.pop("started")
        return v

    def partial(self, want, made):
        """Whole results of this job, and its journal if there are any; or all that was there before."""
        output, journal = made
        if made == self.OTHER or (not output and journal == self.OTHER[1]):
            return None
        try:
            if output and not output.endswith(b"\n"):
                return "half a result"
            if self.journal(journal) != self.journal(want[1]):
                return "another journal"
            good = self.results(want[0])
            for result in self.results(output or b""):
                good.remove(result)  # ValueError: it is none, or there twice
        except (ValueError, KeyError, TypeError) as e:
            return "other results: %r" % e
        return None

    def success(self, want, got):
        if self.said(got[0]) != self.said(want[0]):
            return "it did not fail, and said something else: %r" % got[0].stderr[-200:]
        if not got[1][0] or len(got[1][0].splitlines()) != len(want[1][0].splitlines()):
            return "it did not fail, and results are lost"
        return self.partial(want[1], got[1])

    def failure(self, want, got):
        why = self.partial(want[1], got[1])
        if not why and want[0].stdout != got[0].stdout:
            why = "standard output: %r" % got[0].stdout
        if why or got[1] == self.OTHER or not (FULL or got[1][0]):
            return why  # to resume with no result is to begin
        p, made = self.run("jobs", IDLE, args=[a for a in self.args if a != "-restart"])
        if p.returncode or len(made[0].splitlines()) != len(want[1][0].splitlines()):
            return "the same command does not resume: %d, %r" % (p.returncode, p.stderr[-200:])
        why = self.partial(want[1], made)
        return "resumed: " + why if why else None


COMMANDS = {
    "run": Command(["-n", "2", "Once"], 15),
    "tokenize": Command(["Once upon a time"], 10),
    "template": Command(["-messages", path("chat.json")], 11),
    "embed": Command(["a cat"], 15),
    "tree": Command(["Once"], 14),
    "info": Info(["-m", MODEL], 10),
    "chat": Command(["-n", "3"], 16, b"Hello\n"),
    "logits": Command(["-m", MODEL, "--tokens", "-", "-o", path("logits")], 19, b"5 6 7\n", ["logits"]),
    "synth": Command(["-s", "n_vocab=300,n_embd=64,n_layer=1,n_head=4,n_ff=64", "-t", "q8_0", "-o", path("synth")], 15,
                     files=["synth"]),
    "quantize": Quantize(["-allow-requantize", MODEL, path("quantized"), "Q4_0"], 20, files=["quantized"]),
    "jobs": Jobs([path("in.jsonl"), "-output", path("out"), "-restart"], 22, files=["out", "out.journal"]),
}


def judge(name, command, good, got, failed):
    """What is wrong with a run."""
    p = got[0]
    if p.returncode < 0:
        return "killed by signal %d: %r" % (-p.returncode, p.stderr[-200:])
    if p.returncode and not failed:
        return "it failed without a failure"
    if p.returncode not in (0, 1, 3, 4):
        return "exit code %d: %r" % (p.returncode, p.stderr[-200:])
    if p.returncode and not re.search(rb"(?m)^cohort %b: \S" % name.encode(), p.stderr):
        return "exit code %d without a word: %r" % (p.returncode, p.stderr[-200:])
    left = sorted(set(os.listdir(FOLDER)) - KEPT - set(command.files))
    for f in left:
        os.unlink(path(f))
    if left:
        return "left: %s" % left
    return command.failure(good, got) if p.returncode else command.success(good, got)


def torture(name, box):
    command = COMMANDS[name]
    command.prepare()
    good = command.run(name, box)
    calls = box.calls()
    wrong = [] if good[0].returncode == 0 else ["without failures: %r" % good[0].stderr[-300:]]
    wrong += ["without failures: no %s" % f for f, made in zip(command.files, good[1]) if not made]
    n, n_failing = 0, 0
    for kind, n_calls in enumerate(calls):
        n_kind = 0
        stride = 1 if FULL else max(1, n_calls // command.points)
        for lasting in (False, True):
            for k in range(1 + (stride // 2 if lasting else 0), n_calls + 1, stride):
                command.prepare()
                try:
                    got = command.run(name, box, kind, k, lasting)
                    n_kind += box.failed() > 0
                    n_failing += got[0].returncode != 0
                    why = judge(name, command, good, got, box.failed())
                except subprocess.TimeoutExpired:
                    why = "it hangs"
                if why:
                    wrong.append("%s %s, k = %d: %s" % (KINDS[kind], "from then on" if lasting else "once", k, why))
        if n_calls and not n_kind:
            wrong.append("%s: %d calls, and none failed" % (KINDS[kind], n_calls))
        n += n_kind
    if n < command.floor:
        wrong.append("only %d failures; there should be %d" % (n, command.floor))
    cases.check("%s: %d failures, %d of no consequence" % (name, n, n - n_failing), not wrong, "\n".join(wrong[:12]))
    return n


def talk(box, words, k=0):
    """Of batched -interactive; allocations, the k-th of which fails."""
    box.arm(KINDS.index("alloc"), k or 1 << 40)
    p = subprocess.run([os.path.join(os.path.dirname(PROGRAM), "batched"), "-interactive", "-np", "2", "-n", "2"], input=words,
        capture_output=True, timeout=PATIENCE_S, env=box.env())
    box.disarm()
    return p, box.calls()[KINDS.index("alloc")]


def interactive(box):
    """Every allocation of a prompt, and of commands that take texts further and keep them."""
    words = b"Once\n:more 0\n:keep 1\n:kept\n"
    first, (good, last) = talk(box, b"")[1], talk(box, words)
    wrong = ["without failures: %r" % good.stderr[-300:]] if good.returncode else []
    ks = range(first + 1, last + 1)
    n_kept = 0  # of no consequence
    for k in ks:
        p = talk(box, words, k)[0]
        n_kept += p.returncode == 0 and p.stdout == good.stdout
        if p.returncode and (p.returncode != 1 or b"out of memory" not in p.stderr) or p.returncode == 0 and (p.stdout != good.stdout or n_kept > 2):
            wrong.append("alloc once, k = %d: exit code %d, %r" % (k, p.returncode, p.stderr[-200:]))
    cases.check("interactive: %d failures" % len(ks), len(ks) > 20 and not wrong, "\n".join(wrong[:12]))
    return len(ks)


with open(path("in.jsonl"), "w") as file:
    file.write(LINES)
with open(path("chat.json"), "w") as file:
    file.write('[{"role":"user","content":"Hi"}]')
IDLE = Box(path("idle"))  # for runs in which nothing fails
BOX = Box(path("box"))
KEPT = set(os.listdir(FOLDER))
N = sum(torture(name, BOX) for name in COMMANDS if not ONLY or name == ONLY)
if ONLY in (None, "interactive"):
    N += interactive(BOX)
print("# %d failures" % N)
cases.end()
