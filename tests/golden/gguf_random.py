# SPDX-License-Identifier: MIT
"""GGUF files from random numbers: the container, seeded tensors and two minimal vocabularies, for make_models.py.

1. Same name, same bytes: every tensor is seeded by the model's family and the tensor's own name, so that a tensor added
   to one model changes no other, and two variants of a family share what they have in common.
2. Nothing here knows an architecture; that is make_models.py.
"""

import array
import math
import os
import random
import string
import struct
import sys
import zlib

U32, I32, F32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
GGML_F32, GGML_MXFP4 = 0, 39
ALIGNMENT = 32
E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


def f32_bytes(values):
    """Little-endian float32 bytes of an iterable of numbers."""
    a = array.array("f", values)
    if sys.byteorder == "big":
        a.byteswap()
    return a.tobytes()


def gguf_string(text):
    raw = text.encode("utf-8")
    return struct.pack("<Q", len(raw)) + raw


def bell(r, sigma):
    """About normal, around 0. Additions only, because the last bit of a logarithm is not the same on every machine."""
    return (r.random() + r.random() + r.random() + r.random() - 2.0) * (sigma * math.sqrt(3.0))


class Model:
    """Key/values and tensors of one file, in the order they are written."""

    def __init__(self, name, arch, family=None, kind="model"):
        self.name = name
        self.arch = arch
        self.family = family or name
        self.kv = []
        self.tensors = []
        self.n_tokens = 32
        self.n_vocab = 0
        self.first_token = 3
        self.key("general.architecture", STRING, arch)
        if kind == "model":
            # Loaders guess from a name that sounds like a published model; this one tells them nothing.
            self.key("general.name", STRING, "random")
            self.key("general.file_type", U32, 0)
            self.key("general.quantization_version", U32, 2)

    # Keys. The short forms put the architecture's name in front.

    def key(self, name, kind, value):
        packed = {
            U32: lambda: struct.pack("<I", value),
            I32: lambda: struct.pack("<i", value),
            F32: lambda: struct.pack("<f", value),
            BOOL: lambda: struct.pack("<B", 1 if value else 0),
            STRING: lambda: gguf_string(value),
        }[kind]()
        self.kv.append(gguf_string(name) + struct.pack("<I", kind) + packed)

    def keys(self, name, kind, values):
        if kind == STRING:
            packed = b"".join(gguf_string(v) for v in values)
        else:
            packed = struct.pack("<%d%s" % (len(values), {U32: "I", I32: "i", F32: "f", BOOL: "?"}[kind]), *values)
        self.kv.append(gguf_string(name) + struct.pack("<IIQ", ARRAY, kind, len(values)) + packed)

    def u32(self, name, value):
        self.key(self.arch + "." + name, U32, value)

    def f32(self, name, value):
        self.key(self.arch + "." + name, F32, value)

    def flag(self, name, value):
        self.key(self.arch + "." + name, BOOL, value)

    def text(self, name, value):
        self.key(self.arch + "." + name, STRING, value)

    # Tensors. Shapes are given as GGUF has them: the contiguous dimension first.

    def rng(self, name):
        return random.Random(zlib.crc32((self.family + "/" + name).encode("utf-8")))

    def add(self, name, shape, values):
        self.tensors.append((name, shape, GGML_F32, f32_bytes(values)))

    def mat(self, name, n_in, n_out, gain=1.0, n_expert=0):
        """A weight matrix whose output has about `gain` times the size of its input; n_expert of them, or one."""
        r = self.rng(name)
        sigma = gain / math.sqrt(n_in)
        n = n_in * n_out * max(1, n_expert)
        shape = (n_in, n_out, n_expert) if n_expert else (n_in, n_out)
        self.add(name, shape, (bell(r, sigma) for _ in range(n)))

    def mxfp4(self, name, n_in, n_out, n_expert, exponents):
        """Experts in MXFP4: per 32 values one power of two and 32 four-bit numbers. Every byte is a valid pair."""
        r = self.rng(name)
        out = bytearray()
        for _ in range(n_in * n_out * n_expert // 32):
            out.append(r.choice(exponents))
            out += bytes(r.randrange(256) for _ in range(16))
        self.tensors.append((name, (n_in, n_out, n_expert), GGML_MXFP4, bytes(out)))

    def norm(self, name, *shape):
        """Norm weights around 1, none of them close to it by rule."""
        r = self.rng(name)
        n = 1
        for d in shape:
            n *= d
        self.add(name, shape, (r.uniform(0.5, 1.5) for _ in range(n)))

    def vec(self, name, *shape, sigma=0.3, low=None, high=None):
        """A bias or another vector: normal around 0, or uniform where low and high are given."""
        r = self.rng(name)
        n = 1
        for d in shape:
            n *= d
        if low is not None:
            self.add(name, shape, (r.uniform(low, high) for _ in range(n)))
        else:
            self.add(name, shape, (bell(r, sigma) for _ in range(n)))

    # Files

    def write(self, directory):
        head = bytearray(b"GGUF" + struct.pack("<IQQ", 3, len(self.tensors), len(self.kv)))
        head += b"".join(self.kv)
        offset = 0
        for name, shape, kind, data in self.tensors:
            head += gguf_string(name) + struct.pack("<I", len(shape))
            head += b"".join(struct.pack("<Q", d) for d in shape)
            head += struct.pack("<IQ", kind, offset)
            offset += -(-len(data) // ALIGNMENT) * ALIGNMENT
        with open(os.path.join(directory, self.name + ".gguf"), "wb") as f:
            f.write(head + bytes(-len(head) % ALIGNMENT))
            for _, _, _, data in self.tensors:
                f.write(data + bytes(-len(data) % ALIGNMENT))
        if not self.n_vocab:
            return
        r = random.Random(zlib.crc32(("tokens/" + self.family).encode("utf-8")))
        ids = [str(r.randrange(self.first_token, self.n_vocab)) for _ in range(self.n_tokens)]
        with open(os.path.join(directory, self.name + ".tokens"), "w") as f:
            f.write(" ".join(ids) + "\n")


def dequantised(model, name):
    """The same model with every MXFP4 tensor as the F32 values it stands for. The reference is computed from this one,
    because llama.cpp rounds activations to 8 bits when it multiplies with a quantised matrix."""
    twin = Model(name, model.arch, model.family)
    twin.kv = model.kv
    twin.n_vocab, twin.n_tokens, twin.first_token = model.n_vocab, model.n_tokens, model.first_token
    for tname, shape, kind, data in model.tensors:
        if kind == GGML_MXFP4:
            values = []
            for at in range(0, len(data), 17):
                scale = 2.0 ** (data[at] - 127)
                block = data[at + 1 : at + 17]
                for q in [b & 15 for b in block] + [b >> 4 for b in block]:
                    values.append((-scale if q & 8 else scale) * E2M1[q & 7])
            kind, data = GGML_F32, f32_bytes(values)
        twin.tensors.append((tname, shape, kind, data))
    return twin


# Vocabularies: as small as loaders accept.


def vocab_spm(m, n_vocab=288):
    """SentencePiece-style: three specials, the 256 bytes, then single letters."""
    m.n_vocab = n_vocab
    tokens = ["<unk>", "<s>", "</s>"] + ["<0x%02X>" % b for b in range(256)]
    types = [2, 3, 3] + [6] * 256
    letters = "\u2581" + string.ascii_letters
    tokens += list(letters[: n_vocab - len(tokens)])
    types += [1] * (n_vocab - len(types))
    scores = [0.0] * 259 + [-float(i) for i in range(n_vocab - 259)]
    m.key("tokenizer.ggml.model", STRING, "llama")
    m.keys("tokenizer.ggml.tokens", STRING, tokens)
    m.keys("tokenizer.ggml.scores", F32, scores)
    m.keys("tokenizer.ggml.token_type", I32, types)
    m.key("tokenizer.ggml.bos_token_id", U32, 1)
    m.key("tokenizer.ggml.eos_token_id", U32, 2)
    m.key("tokenizer.ggml.unknown_token_id", U32, 0)


def vocab_wordpiece(m):
    """WordPiece: five specials, letters that begin a word, and the same letters inside one."""
    chars = list(string.ascii_lowercase + string.digits + ".,!?-'()")
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + ["\u2581" + c for c in chars] + chars
    m.n_vocab = len(tokens)
    m.first_token = 5
    m.key("tokenizer.ggml.model", STRING, "bert")
    m.key("tokenizer.ggml.token_type_count", U32, 2)
    m.keys("tokenizer.ggml.tokens", STRING, tokens)
    m.keys("tokenizer.ggml.token_type", I32, [3] * 5 + [1] * (len(tokens) - 5))
    m.key("tokenizer.ggml.bos_token_id", U32, 2)
    m.key("tokenizer.ggml.eos_token_id", U32, 3)
    m.key("tokenizer.ggml.padding_token_id", U32, 0)
    m.key("tokenizer.ggml.unknown_token_id", U32, 1)
    m.key("tokenizer.ggml.cls_token_id", U32, 2)
    m.key("tokenizer.ggml.seperator_token_id", U32, 3)
    m.key("tokenizer.ggml.mask_token_id", U32, 4)
