"""Many users of one engine: each thread submits a request and reads its answer as it comes.

The answers are those of `cohort run -n 24 -seed 7 PROMPT ...`, byte for byte: nobody's depends on who else is there.

usage: stream.py MODEL.gguf PROMPT..."""

import sys
import threading
from typing import List

import cohort


def ask(engine: cohort.Engine, prompt: str, answer: List[bytes]) -> None:
    with engine.submit(prompt, max_tokens=24, seed=7) as request:
        for event in request:
            answer.append(event.text)  # could be shown at once


def main(path: str, prompts: List[str]) -> None:
    with cohort.Model(path) as model, cohort.Engine(model, n_slots=4, n_ctx=2048) as engine:
        answers: List[List[bytes]] = [[] for _ in prompts]
        threads = [threading.Thread(target=ask, args=(engine, p, a)) for p, a in zip(prompts, answers)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        for i, (prompt, answer) in enumerate(zip(prompts, answers)):
            title = "%sPrompt %d (%s):\n" % ("\n" if i else "", i, prompt)
            sys.stdout.buffer.write(title.encode() + b"".join(answer) + b"\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:] or ["Once upon a time", "The cat", "One day, a bird"])
