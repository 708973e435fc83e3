"""Texts to vectors, and how alike they are: cosines of all pairs, as `cohort embed -similarity TEXT ...` prints them.

usage: embeddings.py MODEL.gguf TEXT..."""

import math
import sys
from typing import List, Sequence

import cohort


def cosine(a: Sequence[float], b: Sequence[float]) -> float:
    return sum(x * y for x, y in zip(a, b)) / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))


def main(path: str, texts: List[str]) -> None:
    outputs = cohort.OUTPUT_LOGITS | cohort.OUTPUT_EMBEDDINGS
    with cohort.Model(path) as model, cohort.Engine(model, n_slots=4, n_ctx=1024, outputs=outputs) as engine:
        vectors = [engine.embed(t) for t in texts]
    for a in vectors:
        print(" ".join("%7.4f" % cosine(a, b) for b in vectors))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:] or ["a cat sat down", "a kitten sat", "stock prices fell"])
