"""Programs whose calls to the system fail: see prog_torture.sh."""
import os
import subprocess

from fault_box import KINDS, Box
from serve_client import FOLDER, PROGRAM, Cases

FULL = os.environ.get("TORTURE") == "full"
ONLY = os.environ.get("TORTURE_ONLY")
POINTS = 3  # of a kind and a mode in a short run
PATIENCE_S = 60
MODEL = os.path.join(os.environ["COHORT_SOURCE"], "tests", "golden", "data", "llama.gguf")
LINE = '{"custom_id":"a","method":"POST","url":"/v1/completions","body":{"prompt":"Tom","max_tokens":2,"seed":1}}\n'
cases = Cases()


def path(name):
    return os.path.join(FOLDER, name)


# Arguments, standard input, and the file that is written.
COMMANDS = {
    "run": (["-n", "2", "Once"], b"", None),
    "tokenize": (["Once upon a time"], b"", None),
    "template": (["-messages", path("chat.json")], b"", None),
    "embed": (["a cat"], b"", None),
    "tree": (["Once"], b"", None),
    "info": (["-m", MODEL], b"", None),
    "chat": (["-n", "3"], b"Hello\n", None),
    "logits": (["-m", MODEL, "--tokens", "-", "-o", path("logits")], b"5 6 7\n", "logits"),
    "synth": (["-s", "n_vocab=300,n_embd=64,n_layer=1,n_head=4,n_ff=64", "-t", "q8_0", "-o", path("synth")], b"", "synth"),
    "quantize": (["-allow-requantize", MODEL, path("quantized"), "Q4_0"], b"", "quantized"),
    "jobs": ([path("in.jsonl"), "-output", path("out"), "-restart"], b"", None),
}
# These tell how long it took, or why a model cannot be run.
TELLING = ("jobs", "quantize", "info")


def run(name, box, kind=len(KINDS), k=0, lasting=False):
    args, words, output = COMMANDS[name]
    if output and os.path.exists(path(output)):
        os.unlink(path(output))
    box.arm(kind, k, lasting)
    p = subprocess.run([PROGRAM, name] + args, input=words, capture_output=True, timeout=PATIENCE_S, env=box.env())
    box.disarm()
    made = None
    if output and os.path.exists(path(output)):
        with open(path(output), "rb") as f:
            made = f.read()
    return p, made


def judge(name, good, got, failed):
    """What is wrong with a run."""
    (want, whole), (p, made) = good, got
    if p.returncode < 0:
        return "killed by signal %d: %r" % (-p.returncode, p.stderr[-200:])
    if p.returncode and not failed:
        return "it failed without a failure"
    if p.returncode and not p.stderr.strip():
        return "exit code %d without a word" % p.returncode
    if not p.returncode and p.stdout != want.stdout and name not in TELLING:
        return "it did not fail, and said something else: %r" % p.stdout[-200:]
    if made not in (None, whole) or (not p.returncode and made != whole):
        return "the file is not whole"
    left = [f for f in os.listdir(FOLDER) if f.endswith(".tmp")]
    for f in left:
        os.unlink(path(f))
    return "left: %s" % left if left else None


def torture(name, box):
    good = run(name, box)
    calls = box.calls()
    wrong = [] if good[0].returncode == 0 else ["without failures: %r" % good[0].stderr[-300:]]
    n = 0
    for kind, n_calls in enumerate(calls):
        stride = 1 if FULL else max(1, n_calls // POINTS)
        for lasting in (False, True):
            for k in range(1 + (stride // 2 if lasting else 0), n_calls + 1, stride):
                try:
                    got = run(name, box, kind, k, lasting)
                    why = judge(name, good, got, box.failed())
                except subprocess.TimeoutExpired:
                    why = "it hangs"
                n += box.failed() > 0
                if why:
                    wrong.append("%s %s, k = %d: %s" % (KINDS[kind], "from then on" if lasting else "once", k, why))
    cases.check("%s: %d failures" % (name, n), n > 3 and not wrong, "\n".join(wrong[:12]))
    return n


def talk(box, words, k=0):
    """Of batched -interactive; allocations, the k-th of which fails."""
    box.arm(KINDS.index("alloc"), k or 1 << 40)
    p = subprocess.run([os.path.join(os.path.dirname(PROGRAM), "batched"), "-interactive", "-np", "2", "-n", "2"], input=words,
        capture_output=True, timeout=PATIENCE_S, env=box.env())
    box.disarm()
    return p, box.calls()[KINDS.index("alloc")]


def interactive(box):
    """Every allocation of commands that take texts further and keep them."""
    words = b"Once\n:more 0\n:keep 1\n:kept\n"
    first, (good, last) = talk(box, words[:5])[1], talk(box, words)
    wrong = ["without failures: %r" % good.stderr[-300:]] if good.returncode else []
    ks = range(first + 1, last + 1)
    for k in ks:
        p = talk(box, words, k)[0]
        if p.returncode != 1 or b"out of memory" not in p.stderr:
            wrong.append("alloc once, k = %d: exit code %d, %r" % (k, p.returncode, p.stderr[-200:]))
    cases.check("interactive: %d failures" % len(ks), len(ks) > 20 and not wrong, "\n".join(wrong[:12]))
    return len(ks)


def main():
    with open(path("in.jsonl"), "w") as f:
        f.write(LINE)
    with open(path("chat.json"), "w") as f:
        f.write('[{"role":"user","content":"Hi"}]')
    box = Box(path("box"))
    n = sum(torture(name, box) for name in COMMANDS if not ONLY or name == ONLY)
    if ONLY in (None, "interactive"):
        n += interactive(box)
    print("# %d failures" % n)
    cases.end()


main()
