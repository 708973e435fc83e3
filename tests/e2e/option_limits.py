"""What programs make of the ends of their options' ranges: see option_limits.sh."""
import os
import re
import subprocess

from serve_client import FOLDER, PROGRAM, Cases

ROOM = {"PATH": os.environ["PATH"], "COHORT_CONFIG": "/dev/null", "COHORT_THREADS": "1", "LC_ALL": "C"}
NONE = os.path.join(FOLDER, "none", "model.gguf")
TEXT = os.path.join(FOLDER, "text")
cases = Cases()

# What else a command wants before it opens its model, and its exit code when there is none.
COMMANDS = {
    "run": ["Once"], "chat": [], "speculate": ["Once"], "tree": ["Once"], "embed": ["Once"], "retrieve": ["-dir", FOLDER],
    "perplexity": ["-f", TEXT], "logits": ["-tokens", TEXT, "-o", TEXT + ".out"], "bench": [], "serve": [], "jobs": [TEXT, "-o", TEXT + ".out"],
    "simulate": [], "quantize": [NONE, TEXT + ".out", "q8_0"], "synth": ["-shape", "n_vocab=300,n_embd=64,n_layer=1,n_head=4,n_ff=64", "-o", NONE],
    "batched": [],
}
CODES = {"synth": 4}
# What goes with an option, or makes room for the end of its range.
WITH = {
    ("run", "length-penalty"): ["-beams", "2"], ("run", "beam-groups"): ["-beams", "4096"],
    ("run", "diversity"): ["-beams", "2", "-beam-groups", "2"], ("speculate", "draft-min"): ["-draft-max", "256"],
    ("speculate", "rounds"): ["-compare"], ("simulate", "share"): ["-prompt", "16777216"],
    ("simulate", "budget"): ["-batch", "1048576"],
}

# The same in every command that has them.
SAMPLING = {"temperature", "top-p", "min-p", "typical", "top-n-sigma", "xtc-probability", "xtc-threshold", "dynatemp-range",
            "dynatemp-exp", "repeat-last-n", "repeat-penalty", "presence-penalty", "frequency-penalty", "dry-multiplier",
            "dry-base", "dry-allowed-length", "dry-penalty-last-n", "mirostat", "mirostat-ent", "mirostat-lr", "min-keep"}


def run(command, *args):
    program = [PROGRAM, command] if command != "batched" else [os.path.join(os.path.dirname(PROGRAM), "batched")]
    return subprocess.run(program + list(args), capture_output=True, timeout=60, env=ROOM, stdin=subprocess.DEVNULL, text=True)


def check(command, option):
    """What is wrong with an option; None for one that is no number."""
    p = run(command, "-" + option, "x", "-show-config")  # a text is taken, and nothing runs
    m = re.search(r": -%s expects a (?:whole )?number from (\S+) to (\S+), got 'x'$" % re.escape(option), p.stderr, re.M)
    if not m:
        return None
    wrong = [] if p.returncode == 2 else ["x: exit code %d" % p.returncode]
    model = ["-model", NONE] if command not in ("quantize", "synth") else []
    for end in m.groups():
        p = run(command, *model, *COMMANDS[command], *WITH.get((command, option), []), "-" + option, end)
        if p.returncode != CODES.get(command, 3):
            wrong.append("%s: exit code %d, %s" % (end, p.returncode, p.stderr[:200]))
    return wrong


def main():
    with open(TEXT, "w") as f:
        f.write("1 2 3\n")
    seen = set()
    with open(os.path.join(os.environ["COHORT_SOURCE"], "prog", "cmd.h")) as f:
        there = set(re.findall(r"(?m)^int cmd_([a-z]+)\(", f.read()))
    known = set(COMMANDS) | {"batched", "devices", "info", "tokenize", "detokenize", "template", "help", "man", "completion", "version"}
    cases.check("all commands are known here", there | {"batched"} == known, there ^ known)
    for command in COMMANDS:
        names = re.findall(r"(?m)^  -([a-z0-9-]+)(?:, -\S+)* (?:N|R|S|X|KIB|MIB)\b", run(command, "-help").stdout)
        wrong, n = [], 0
        for option in names:
            line = (option, command if option not in SAMPLING else "")
            if line in seen:
                continue  # the options of sampling are those of run
            bad = check(command, option)
            if bad is not None:
                seen.add(line)
                n += 1
                wrong += ["-%s %s" % (option, w) for w in bad]
        cases.check("%s: the ends of %d ranges" % (command, n), n > 0 and not wrong, "\n".join(wrong))
    cases.check("as many as there were, less some", len(seen) >= 120, len(seen))
    cases.end()


main()
