"""Programs that are killed with kill -9, again and again: crash.py COHORT FOLDER KILL_AT COUNT SEED [KIND...]

Each kind is killed COUNT times. After each kill what is on the disk is looked at, and the next life goes on from there:
nothing that was acknowledged is lost, nothing is done twice, no file is half a file, and what was being written does not
pile up. A kill leaves what the system has in memory: what a power failure takes is not tested here.
"""
import json
import os
import random
import subprocess
import sys

from crash_lib import Killer, Tally, Wrong, empty, must, normal, only, random_text, read, requests, temps
from crash_serve import batches, end_all, slots
from serve_client import Cases, FOLDER, PROGRAM

KILL_AT = sys.argv[3] if os.access(sys.argv[3], os.X_OK) else None
COUNT, SEED = int(sys.argv[4]), int(sys.argv[5])


def finish(cmd):
    """Some of the requests are refused, so that the exit code is 1."""
    code = subprocess.run(cmd, stderr=subprocess.DEVNULL).returncode
    must(code == 1, "exit code", code)


def jobs(tally, rng, killer, folder):
    """cohort jobs: lines of the output are what is acknowledged; the same command goes on."""
    source = folder + ".jsonl"
    with open(source, "wb") as f:
        f.write(requests(rng, 30))
    out = os.path.join(folder, "out.jsonl")
    cmd = [PROGRAM, "jobs", source, "-output", out, "-t", "2"]
    want = {}
    for order in ((), ("-ordered",)):
        finish([PROGRAM, "jobs", source, "-output", folder + ".ref" + "".join(order), *order])
        want[order] = normal(read(folder + ".ref" + "".join(order)).splitlines())
    must(sorted(want[()]) == sorted(want["-ordered",]), "two undisturbed runs differ")
    killer.ends = (1,)
    killer.measure(cmd, lambda: empty(folder))
    order, kept = (), None

    def check(ended):
        got = read(out) or b""
        whole = got[:got.rfind(b"\n") + 1]
        must(whole.startswith(kept), "lost:", len(kept), "bytes were there, now", len(whole), whole[:300])
        lines = normal(whole.splitlines())
        must(len(set(lines)) == len(lines), "a line came twice")
        must(set(lines) <= set(want[()]), "a line that is none:", set(lines) - set(want[()]))
        must(not order or lines == want[order][:len(lines)], "not in order")
        must(len(temps(folder)) <= 1, "they pile up:", temps(folder))
        if ended:
            must(got == whole and sorted(lines) == sorted(want[()]), "ended with", len(lines), "lines of", len(want[()]))
            only(folder, "out.jsonl", "out.jsonl.journal")
        tally.note("half lines", got != whole)
        return whole, len(lines)

    while tally.open():
        if kept is None:
            order, kept = ((), ("-ordered",))[tally.more.get("jobs", 0) % 2], b""
            empty(folder)
        killed, call = killer.run(cmd + list(order))
        kept, n = check(not killed)
        if killed:
            tally.add("before" if n == 0 else "after" if n == len(want[()]) else "during", call)
        else:
            tally.note("jobs")
            kept = None
    if kept is not None:
        finish(cmd + list(order))
        check(True)
        tally.note("jobs")


def swap(tally, killer, folder, cmds, usable=None):
    """Two commands that write one file each time, by turns: what is there is the one or the other. The file's path comes
    last in both."""
    path = os.path.join(folder, "file")
    both = []
    for cmd in cmds:
        subprocess.run(cmd + [folder + ".ref"], check=True, stderr=subprocess.DEVNULL)
        both.append((cmd + [path], read(folder + ".ref")))
    must(both[0][1] != both[1][1], "two commands, one file")
    killer.measure(both[0][0], lambda: empty(folder))
    now = None
    while tally.open():
        cmd, new = both[1] if now == both[0][1] else both[0]
        before = temps(folder)
        killed, call = killer.run(cmd)
        got, left = read(path), temps(folder)
        must(got in (now, new), "neither the old nor the new file:", got and len(got), "bytes")
        must(len(left) <= killed, "left over:", left)
        must(killed or got == new, "it ended, and the old file is there")
        if killed:
            tally.add("after" if got == new else "during" if left - before else "before", call)
        if usable and got and tally.lives % 10 == 0:
            use = subprocess.run(usable + [path, "a cat"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            must(use.returncode == 0 and use.stdout, "it cannot be used:", use)
        now = got
    subprocess.run(both[0][0], check=True, stderr=subprocess.DEVNULL)
    must(read(path) == both[0][1], "another file than before")
    only(folder, "file")


def index(tally, rng, killer, folder):
    """cohort retrieve -save"""
    cmds = []
    for name in "ab":
        docs = folder + ".docs-" + name
        os.mkdir(docs)
        for i in range(4):
            with open(os.path.join(docs, "%d.txt" % i), "w") as f:
                f.write(random_text(rng, 8))
        cmds.append([PROGRAM, "retrieve", "-t", "2", "-chunk-size", "64", "-dir", docs, "-save"])
    swap(tally, killer, folder, cmds, [PROGRAM, "retrieve", "-top-k", "1", "-load"])


def model(tally, rng, killer, folder):
    """cohort synth: a file that is written in many pieces"""
    shape = "n_vocab=400,n_embd=64,n_layer=2,n_head=4,n_ff=160"
    swap(tally, killer, folder, [[PROGRAM, "synth", "-s", shape, "-t", "F16", "-seed", str(i), "-o"] for i in (1, 2)])


def logits(tally, rng, killer, folder):
    """cohort logits"""
    cmds = []
    for i in (1, 2):
        with open(folder + ".ids%d" % i, "w") as f:
            f.write(" ".join(str(rng.randrange(300, 8000)) for _ in range(20)))
        cmds.append([PROGRAM, "logits", "-t", "2", "--tokens", folder + ".ids%d" % i, "-o"])
    swap(tally, killer, folder, cmds)


def chat(tally, rng, killer, folder):
    """cohort chat -session: whole turns; the conversation goes on from there."""
    path = os.path.join(folder, "talk.json")
    said = random_text(rng, 6).splitlines()
    cmd = [PROGRAM, "chat", "-no-history", "-temp", "0", "-n", "10", "-t", "2", "-session"]

    def talk(lines):
        with open(folder + ".in", "w") as f:
            f.write("".join(l + "\n" for l in lines))
        return folder + ".in"

    def turns():
        """The conversation in the file, checked: the lines that were said, each with its answer."""
        text = read(path)
        if text is None:
            return []
        try:
            messages = json.loads(text)["messages"]
        except (ValueError, KeyError):
            raise Wrong("no conversation: %r" % text[:300]) from None
        must(text.endswith(b"}\n"), "half a file")
        must([m["role"] for m in messages] == ["user", "assistant"] * (len(messages) // 2), messages)
        must([m["content"] for m in messages[::2]] == said[:len(messages) // 2], "other lines than were said:", messages)
        return messages

    cmd.append(path)
    killer.measure(cmd, lambda: empty(folder), talk(said))
    kept = []
    while tally.open():
        if len(kept) == 2 * len(said):
            os.unlink(path)
            kept = []
            tally.note("conversations")
        killed, call = killer.run(cmd, talk(said[len(kept) // 2:]))
        now = turns()
        must(now[:len(kept)] == kept, "lost:", kept, now)
        must(len(temps(folder)) <= killed, "left over:", temps(folder))
        must(killed or len(now) == 2 * len(said), "it ended before the conversation")
        if killed:
            tally.add("before" if now == kept else "after" if len(now) == 2 * len(said) else "during", call)
        kept = now
    with open(talk(said[len(kept) // 2:]), "rb") as f:
        subprocess.run(cmd, stdin=f, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    must(turns()[:len(kept)] == kept and len(turns()) == 2 * len(said), "the end differs")
    only(folder, "talk.json")


KINDS = {"jobs": jobs, "batches": batches, "slots": slots, "chat": chat, "index": index, "model": model,
         "logits": logits}
cases = Cases()
for name in sys.argv[6:] or KINDS:
    rng = random.Random("%d %s" % (SEED, name))
    folder = os.path.join(FOLDER, "crash-" + name)
    os.mkdir(folder)
    tally = Tally(name, COUNT)
    try:
        KINDS[name](tally, rng, Killer(rng, KILL_AT, folder), folder)
        wrong = None
    except Wrong as e:
        wrong = e
    finally:
        end_all()
    cases.check("%s (seed %d)" % (tally, SEED), wrong is None and tally.kills() >= COUNT, wrong)
cases.end()
