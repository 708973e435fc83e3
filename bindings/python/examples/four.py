"""Four continuations of a prompt, computed together: the prompt once, then a row of each sequence in every step.

The texts are those of `batched -prompt PROMPT -n-predict 24 -seed 7`, byte for byte.

usage: four.py MODEL.gguf [PROMPT]"""

import sys

import cohort

N, N_PREDICT = 4, 24


def main(path: str, prompt: str) -> None:
    with cohort.Model(path) as model, cohort.Context(model, n_ctx=1024, n_seq_max=N) as ctx:
        tokens = model.tokenize(prompt)
        ctx.decode_many(tokens)
        for seq in range(1, N):
            ctx.seq_cp(0, seq)  # a fork: shares the cells, copies nothing
        samplers = [cohort.Sampler(model, seed=7, stream=seq, top_p=0.9) for seq in range(N)]
        detoks = [model.detok() for _ in range(N)]
        texts = [prompt.encode() for _ in range(N)]
        rows = {seq: -1 for seq in range(N)}  # sequences that go on, and where their logits are
        for i in range(N_PREDICT):
            step = []
            for seq, row in list(rows.items()):
                token = samplers[seq].sample(ctx, row)
                if model.is_eog(token):
                    del rows[seq]
                    continue
                texts[seq] += detoks[seq].push(token)
                rows[seq] = len(step)
                step.append(cohort.Row(token, len(tokens) + i, seq))
            if not step or i == N_PREDICT - 1:
                break
            ctx.decode_each(step)
        for seq in range(N):
            texts[seq] += detoks[seq].flush()
            sys.stdout.buffer.write(b"Sequence %d:\n\n%s\n\n" % (seq, texts[seq]))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "Once upon a time")
