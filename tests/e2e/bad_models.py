"""Malformed and odd GGUF models, each a good one with one thing changed: see bad_models.sh.

    bad_models.py OUT_DIR      writes the files and OUT_DIR/table: file, level, text, what is wrong, with tabs between;
                               templates and adapters: the same with an exit code for the level
    bad_models.py --json FILE  whether what was printed are JSON objects, each with --- behind it
    bad_models.py --said FILE  whether what was printed is text: UTF-8 without a control character

Levels say who must object, with this text in the message:
    file    the container: neither `cohort info` nor `cohort run` takes it
    model   the model: info says that it does not run here and why, run refuses it
    run     only the run (exit code 1), load only what it needs of the model (3), usage only this prompt (2)
    note    nobody, but run says so; fine: nobody at all

The good models are those of tests/golden/make_models.py. What happens to a file while it is in use (cut, removed) is
not tried: who maps a file trusts its owner, and --no-mmap is there for those who do not.
"""
import copy
import json
import os
import struct
import sys
import unicodedata

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden"))

import make_models

U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
CODES = "BbHhIif?..Qqd"
NAN, INF = float("nan"), float("inf")
EMBD, FF, VOCAB = 32, 64, 288


# ---- Files ----


def text(s):
    raw = s if isinstance(s, bytes) else s.encode("utf-8")
    return struct.pack("<Q", len(raw)) + raw


def one(kind, value):
    """A value with its type in front, as it stands behind a key."""
    packed = text(value) if kind == STRING else struct.pack("<" + CODES[kind], value)
    return struct.pack("<I", kind) + packed


def many(kind, values, claimed=None):
    """An array; `claimed` is the length it says it has."""
    packed = b"".join(one(kind, v)[4:] for v in values)
    return struct.pack("<IIQ", ARRAY, kind, len(values) if claimed is None else claimed) + packed


class File:
    """Keys, tensors and what the header says of them, any of which may be made wrong before bytes() is called."""

    def __init__(self, golden):
        self.magic, self.version, self.alignment = b"GGUF", 3, 32
        self.n_tensors = self.n_keys = None  # what the header says, if not the truth
        self.keys = []  # [name, value with its type]
        for raw in golden.kv:
            (n,) = struct.unpack_from("<Q", raw)
            self.keys.append([raw[8 : 8 + n].decode(), raw[8 + n :]])
        self.tensors = [dict(name=t[0], dims=list(t[1]), type=t[2], data=t[3]) for t in golden.tensors]
        self.marks = {}  # name of a part -> where it begins

    def tensor(self, name):
        return next(t for t in self.tensors if t["name"] == name)

    def value(self, name):
        return dict(self.keys)[name]

    def bytes(self):
        out, data = bytearray(self.magic), bytearray()
        out += struct.pack("<I", self.version)
        out += struct.pack("<Q", len(self.tensors) if self.n_tensors is None else self.n_tensors)
        out += struct.pack("<Q", len(self.keys) if self.n_keys is None else self.n_keys)
        for name, value in self.keys:
            self.marks[name] = len(out)
            out += text(name)
            self.marks[name, "value"] = len(out)
            out += value
        for t in self.tensors:
            self.marks[t["name"]] = len(out)
            out += t.get("raw_name", text(t["name"])) + struct.pack("<I", t.get("n_dims", len(t["dims"])))
            out += b"".join(struct.pack("<Q", d) for d in t["dims"])
            out += struct.pack("<IQ", t["type"], t.get("offset", len(data)))
            data += t["data"] + bytes(-len(t["data"]) % self.alignment)
        self.marks["padding"] = len(out)
        out += bytes(-len(out) % self.alignment)
        self.marks["data"] = len(out)
        return bytes(out + data)


def llama(layers=1):
    """The smallest useful model, with a SentencePiece vocabulary."""
    shape = make_models.Shape(embd=EMBD, layers=layers, heads=4, kv=2, ff=FF, ctx=128)
    return make_models.llama("bad", s=shape)


def stand_in(byte):
    """How GPT-2's vocabularies write a byte."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    return chr(byte if byte in plain else 256 + [b for b in range(256) if b not in plain].index(byte))


def bpe(f):
    tokens = [stand_in(b) for b in range(256)] + ["ab", "abc", "<|end|>"] + ["x%d" % i for i in range(VOCAB - 259)]
    put(T + "model", one(STRING, "gpt2"))(f)
    put(T + "pre", one(STRING, "gpt-2"))(f)
    put(T + "tokens", many(STRING, tokens))(f)
    put(T + "token_type", many(I32, [3 if t == "<|end|>" else 1 for t in tokens]))(f)
    put(T + "merges", many(STRING, ["a b", "ab c"]))(f)
    drop(T + "unknown_token_id")(f)


good = {}


def base(name):
    """A copy of a good model that may be changed."""
    if name not in good:
        if name in ("llama", "bpe", "t5"):
            good[name] = File(llama())
        elif name == "llama2":
            good[name] = File(llama(layers=2))
        else:
            good[name] = File(make_models.models()[name](name))
        if name == "bpe":
            bpe(good[name])
        elif name == "t5":
            put(T + "model", one(STRING, "t5"))(good[name])
    return copy.deepcopy(good[name])


# ---- Changes: each gives a function that is called with a file. What that returns, if anything, is written instead:
# bytes, or a function that is called with the path and returns the one to be opened. ----

A, T = "llama.", "tokenizer.ggml."


def put(name, value):
    def change(f):
        for key in f.keys:
            if key[0] == name:
                key[1] = value
                return
        f.keys.append([name, value])

    return change


def u32(name, value):
    return put(name, one(U32, value))


def f32(name, value):
    return put(name, one(F32, value))


def add(name, value):
    """One more key, whether or not it is there."""
    return lambda f: f.keys.append([name, value])


def drop(name):
    def change(f):
        f.keys = [k for k in f.keys if k[0] != name]
        f.tensors = [t for t in f.tensors if t["name"] != name]

    return change


def head(**what):
    return lambda f: f.__dict__.update(what)


def tensor(which, **what):
    return lambda f: f.tensor(which).update(what)


def new_tensor(name, **what):
    return lambda f: f.tensors.append(dict(dict(name=name, dims=[8], type=0, data=bytes(32)), **what))


def number(which, value, at=0):
    """One float of a tensor, or every one (at = None)."""

    def change(f):
        t = f.tensor(which)
        n = len(t["data"]) // 4
        values = list(struct.unpack("<%df" % n, t["data"]))
        for i in range(n) if at is None else [at]:
            values[i] = value
        t["data"] = struct.pack("<%df" % n, *values)

    return change


def blocks(which, kind, block):
    """All of a tensor in another format, block by block the same."""

    def change(f):
        t = f.tensor(which)
        t.update(type=kind, data=block * (len(t["data"]) // 4 // 32))

    return change


def token(i, s):
    def change(f):
        raw, at, tokens = f.value(T + "tokens"), 16, []
        while at < len(raw):
            (n,) = struct.unpack_from("<Q", raw, at)
            tokens.append(raw[at + 8 : at + 8 + n])
            at += 8 + n
        tokens[i] = s
        put(T + "tokens", many(STRING, tokens))(f)

    return change


def element(name, i, packed):
    """Element i of an array of 4-byte numbers."""

    def change(f):
        raw, at = f.value(name), 16 + 4 * i
        put(name, raw[:at] + packed + raw[at + 4 :])(f)

    return change


def score(i, value):
    return element(T + "scores", i, struct.pack("<f", value))


def kind_of(i, value):
    return element(T + "token_type", i, struct.pack("<i", value))


def cut(mark, more=0):
    """The file ends `more` bytes behind the beginning of a part."""

    def change(f):
        whole = f.bytes()
        return whole[: f.marks[mark] + more]

    return change


def cut_at(n):
    return lambda f: f.bytes()[:n]


def both(*changes):
    def change(f):
        for c in changes:
            c(f)

    return change


def on(name, change=None):
    """The same with another good model."""

    def other(f):
        f.__dict__ = base(name).__dict__
        return change(f) if change else None

    return other


def rows(n):
    """A vocabulary of the first n tokens, with as many rows."""

    def change(f):
        put(T + "tokens", many(STRING, ["<t%d>" % i for i in range(n)]))(f)
        put(T + "scores", many(F32, [0.0] * n))(f)
        put(T + "token_type", many(I32, [1] * n))(f)
        for key in ("bos", "eos", "unknown"):
            drop(T + key + "_token_id")(f)
        for name in ("token_embd.weight", "output.weight"):
            t = f.tensor(name)
            t.update(dims=[EMBD, n], data=t["data"][: 4 * EMBD * n])

    return change


def parts(*changes, opened=1, missing=None):
    """The model in as many files as there are changes (None: a good part)."""

    def change(f):
        n, found = len(changes), []
        for i, c in enumerate(changes):
            p = copy.deepcopy(f)
            p.keys = p.keys if i == 0 else []
            p.tensors = f.tensors[i * len(f.tensors) // n : (i + 1) * len(f.tensors) // n]
            for name, kind, value in (("no", U16, i), ("count", U16, n), ("tensors.count", I32, len(f.tensors))):
                put("split." + name, one(kind, value))(p)
            if c:
                c(p)
            found.append(p.bytes())

        def write(path):
            paths = ["%s-%05d-of-%05d.gguf" % (path[:-5], i + 1, n) for i in range(n)]
            for i, (name, data) in enumerate(zip(paths, found)):
                if i + 1 != missing:
                    with open(name, "wb") as out:
                        out.write(data)
            return paths[opened - 1]

        return write

    return change


def made_by(function):
    """No file at all."""
    return lambda f: lambda path: function(path) or path


def nested(depth):
    """Arrays in arrays; the innermost is empty."""
    return struct.pack("<I", ARRAY) + struct.pack("<IQ", ARRAY, 1) * (depth - 1) + struct.pack("<IQ", U8, 0)


def half(value):
    return struct.pack("<e", value)


OUT, EMBED, NORM = "output.weight", "token_embd.weight", "output_norm.weight"
Q, GATE = "blk.0.attn_q.weight", "blk.0.ffn_gate.weight"
HUGE = 1 << 63

# ---- The cases: what is wrong, the level, the text, the change ----

CASES = [
    ("nothing", "fine", "", lambda f: None),
    ("nothing: byte-level BPE", "fine", "", on("bpe")),
    ("nothing: Unigram", "fine", "", on("t5")),
    ("nothing: version 2", "fine", "", head(version=2)),
    ("nothing: three parts, opened by the second", "fine", "", parts(None, None, None, opened=2)),
    # What is no file, or no GGUF.
    ("an empty file", "file", "empty file", lambda f: lambda path: open(path, "wb").close() or path),
    ("a directory", "file", "is a directory", made_by(os.mkdir)),
    ("a FIFO", "file", "not a regular file", made_by(os.mkfifo)),
    ("a link to itself", "file", "Too many levels", made_by(lambda path: os.symlink(path, path))),
    ("a wrong magic", "file", "not a GGUF file (magic 'GGUX')", head(magic=b"GGUX")),
    ("a magic with an escape sequence", "file", "(magic '\\x1b[1m')", head(magic=b"\x1b[1m")),
    ("a big-endian file", "file", "big-endian GGUF file", head(version=3 << 24)),
    ("version 0", "file", "GGUF version 0 is not supported", head(version=0)),
    ("version 1", "file", "GGUF version 1, of August 2023", head(version=1)),
    ("version 99", "file", "GGUF version 99 is not supported", head(version=99)),
    ("version 2^32 - 1", "file", "GGUF version 4294967295", head(version=0xFFFFFFFF)),
    # Ends too early.
    ("ends in the magic", "file", "too short for a GGUF header", cut_at(3)),
    ("ends in the counts", "file", "too short for a GGUF header", cut_at(23)),
    ("ends behind the header", "file", "tensors cannot fit", cut_at(24)),
    ("ends in a key", "file", "key is 20 bytes long, but only 4 are left; the file ends too early: was the download finished?", cut(A + "rope.freq_base", 12)),
    ("ends in a type", "file", "file ends inside value type", cut((A + "rope.freq_base", "value"), 3)),
    ("ends in a number", "file", "file ends inside a value", cut((A + "rope.freq_base", "value"), 6)),
    ("ends in a text", "file", "key 'tokenizer.ggml.model'", cut((T + "model", "value"), 14)),
    ("ends in the tokens", "file", "was the download finished?", cut((T + "tokens", "value"), 2000)),
    ("ends in the scores", "file", "288 x f32 cannot fit", cut((T + "scores", "value"), 1000)),
    ("ends before the tensors", "file", "was the download finished?", cut(EMBED)),
    ("ends in a tensor's name", "file", "tensor name", cut(OUT, 12)),
    ("ends in a dimension", "file", "file ends inside dimension", cut(OUT, 30)),
    ("ends in an offset", "file", "file ends inside data offset", cut("padding", -1)),
    ("ends before the padding", "file", "are not all in the file", cut("padding")),
    ("ends before the data", "file", "are not all in the file", cut("data")),
    ("ends within the data", "file", "; the file ends too early: was the download finished?", cut("data", 5000)),
    ("ends a byte early", "file", "tensor 'output.weight'", lambda f: f.bytes()[:-1]),
    # Counts, lengths, types.
    ("2^63 tensors", "file", "9223372036854775808 tensors cannot fit", head(n_tensors=HUGE)),
    ("2^64 - 1 tensors", "file", "18446744073709551615 tensors cannot fit", head(n_tensors=2 * HUGE - 1)),
    ("a tensor more than there is", "file", "tensor name", head(n_tensors=13)),
    ("2^63 keys", "file", "9223372036854775808 key/values cannot fit", head(n_keys=HUGE)),
    ("a key more than there is", "file", "tensor name is", head(n_keys=21)),
    ("a key less than there is", "file", "6 dimensions, not 1 to 4", head(n_keys=10)),
    ("an empty key", "file", "key is empty", add("", one(U32, 1))),
    ("a key of 64 KiB", "file", "the limit is 65535", add("k" * 65536, one(U32, 1))),
    ("a key there twice", "file", "key 'llama.block_count' is there twice", add(A + "block_count", one(U32, 1))),
    ("a key there twice, of another type", "file", "is there twice", add(A + "block_count", one(F32, 1.0))),
    ("a key with an escape sequence there twice", "file", "key 'a\\x1b[31m' is there twice",
        both(add("a\x1b[31m", one(U32, 1)), add("a\x1b[31m", one(U32, 1)))),
    ("value type 13", "file", "value type is 13", add("k", struct.pack("<IQ", 13, 0))),
    ("value type 2^32 - 1", "file", "no known type", add("k", struct.pack("<IQ", 0xFFFFFFFF, 0))),
    ("a bool of 2", "file", "bool is 2", put(T + "add_bos_token", struct.pack("<IB", BOOL, 2))),
    ("a text of 2^63 bytes", "file", "is 9223372036854775808 bytes long", add("k", struct.pack("<IQ", STRING, HUGE))),
    ("a text of 2^64 - 1 bytes", "file", "bytes long, but only",
        add("k", struct.pack("<IQ", STRING, 2 * HUGE - 1))),
    ("a token of 1 GB", "file", "1073741824 bytes long, but only",
        put(T + "tokens", many(STRING, [], VOCAB) + struct.pack("<Q", 1 << 30))),
    ("a chat template of 100 MB", "file", "key 'tokenizer.chat_template': string is 104857600 bytes long",
        put("tokenizer.chat_template", struct.pack("<IQ", STRING, 100 << 20))),
    ("2^63 tokens", "file", "9223372036854775808 x string cannot fit", put(T + "tokens", many(STRING, [], HUGE))),
    ("2^62 scores, whose bytes wrap", "file", "x f32 cannot fit", put(T + "scores", many(F32, [], 1 << 62))),
    ("an array of type 77", "file", "array element type is 77", add("k", struct.pack("<IIQ", ARRAY, 77, 0))),
    ("arrays five deep", "file", "nested deeper than 4", add("k", nested(5))),
    ("arrays a thousand deep", "file", "nested deeper than 4", add("k", nested(1000))),
    ("arrays four deep, unused", "fine", "", add("k", nested(4))),
    ("2^60 arrays in an array", "file", "x array cannot fit", add("k", struct.pack("<IIQ", ARRAY, ARRAY, 1 << 60))),
    # Alignment.
    ("alignment 0", "file", "general.alignment is 0, not a power of two", u32("general.alignment", 0)),
    ("alignment 1", "file", "general.alignment is 1, not a power of two", u32("general.alignment", 1)),
    ("alignment 48", "file", "general.alignment is 48, not a power of two", u32("general.alignment", 48)),
    ("alignment 2^31", "file", "general.alignment is 2147483648", u32("general.alignment", 1 << 31)),
    ("alignment as a text", "file", "general.alignment is a string", put("general.alignment", one(STRING, "32"))),
    ("an alignment that the data does not have", "file", "not a multiple of the alignment 4096",
        u32("general.alignment", 4096)),
    # The tensor directory.
    ("no dimension", "file", "0 dimensions", tensor(OUT, n_dims=0)),
    ("five dimensions", "file", "5 dimensions", tensor(OUT, n_dims=5)),
    ("2^32 - 1 dimensions", "file", "4294967295 dimensions", tensor(OUT, n_dims=0xFFFFFFFF)),
    ("a dimension of 0", "file", "tensor 'output.weight': dimension 1 is 0", tensor(OUT, dims=[EMBD, 0])),
    ("dimensions whose product is 2^64", "file", "too many elements", tensor(OUT, dims=[1 << 32, 1 << 32])),
    ("dimensions whose product is 2^64 + 2^32", "file", "too many elements",
        tensor(OUT, dims=[1 << 32, (1 << 32) + 1])),
    ("dimensions whose product is 2^63", "file", "too many elements", tensor(OUT, dims=[HUGE])),
    ("2^62 floats, whose bytes wrap", "file", "are not all in the file", tensor(OUT, dims=[1 << 31, 1 << 31])),
    ("rows beyond the end", "file", "are not all in the file", tensor(OUT, dims=[EMBD, VOCAB + 1])),
    ("an offset beyond the end", "file", "are not all in the file", tensor(OUT, offset=1 << 40)),
    ("an offset that wraps", "file", "are not all in the file", tensor(OUT, offset=2 * HUGE - 32)),
    ("an offset that is not aligned", "file", "data offset 1 is not a multiple", tensor(EMBED, offset=1)),
    ("two tensors in one place", "file", "overlap", tensor(OUT, offset=0)),
    ("two tensors that share a row", "file", "overlap", tensor(OUT, offset=32)),
    ("a tensor there twice", "file", "tensor 'output.weight' is there twice", new_tensor(OUT)),
    ("a tensor without a name", "file", "tensor name is empty", new_tensor("")),
    ("a tensor's name of 65 bytes", "file", "tensor name is 65 bytes long, the limit is 64", new_tensor("n" * 65)),
    ("a tensor's name of 2^63 bytes", "file", "tensor name is 9223372036854775808 bytes long",
        tensor(OUT, raw_name=struct.pack("<Q", HUGE))),
    ("rows that are no whole blocks", "file", "rows of 32 are no whole blocks of type 12", tensor(Q, type=12)),
    ("a format that nobody knows", "model", "tensor output.weight has format number 99", tensor(OUT, type=99)),
    ("a format that is not supported", "model", "tensor output.weight has format number 16", tensor(OUT, type=16)),
    ("a format of 2^32 - 1", "model", "format number 4294967295", tensor(OUT, type=0xFFFFFFFF)),
    ("an unknown format with 2^24 matrices", "model", "tensor 'x' is not part of",
        new_tensor("x", type=99, dims=[1, 1, 1 << 24])),
    # Parts of a split model.
    ("a part that is not there", "file", "part 2 of 3: ", parts(None, None, None, missing=2)),
    ("a part under another name", "file", "whose name must end in -00002-of-00003.gguf",
        both(u32("split.count", 3), u32("split.no", 1))),
    ("parts that disagree about their number", "file", "split.count is 3, but 2 in the first part",
        parts(None, u32("split.count", 3))),
    ("two first parts", "file", "split.no is 0, but part 1", parts(None, u32("split.no", 0))),
    ("a part beyond the number of parts", "file", "split.no is 7, but there are 2 parts",
        parts(None, u32("split.no", 7))),
    ("a part of another model", "file", "key 'general.architecture' differs",
        parts(None, put("general.architecture", one(STRING, "qwen2")))),
    ("a tensor in two parts", "file", "tensor 'token_embd.weight' is in an earlier part",
        parts(None, new_tensor(EMBED))),
    ("parts with too few tensors", "file", "but split.tensors.count is 99",
        parts(u32("split.tensors.count", 99), u32("split.tensors.count", 99))),
    ("2^32 - 1 parts", "file", "split.count is 4294967295, more than 99999",
        both(u32("split.count", 0xFFFFFFFF), u32("split.no", 0))),
    ("the number of parts as a text", "file", "key 'split.count' is of type string",
        put("split.count", one(STRING, "2"))),
    # Which model it is.
    ("no architecture", "model", "key 'general.architecture' is missing", drop("general.architecture")),
    ("an empty architecture", "model", "architecture '' is not known", put("general.architecture", one(STRING, ""))),
    ("an architecture that is a number", "model", "key 'general.architecture' is of type u32",
        u32("general.architecture", 1)),
    ("an unknown architecture", "model", "architecture 'llamb' is not known; known: llama, ",
        put("general.architecture", one(STRING, "llamb"))),
    ("an architecture that is not UTF-8", "model", "architecture '\\xff\\xfe' is not known",
        put("general.architecture", one(STRING, b"\xff\xfe"))),
    ("an architecture with an escape sequence", "model", "architecture '\\x1b]0;x\\x07' is not known",
        put("general.architecture", one(STRING, "\x1b]0;x\x07"))),
    ("an architecture of 100 KB", "model", "...' is not known", put("general.architecture", one(STRING, "l" * 100000))),
    ("an architecture whose keys are not there", "model", "key 'qwen2.embedding_length' is missing",
        put("general.architecture", one(STRING, "qwen2"))),
    ("a name with escape sequences", "fine", "", put("general.name", one(STRING, "\x1b[2J\x9b1m\x07\r\n"))),
    ("a key with control characters", "fine", "", add("a\x1b[31m\x9b1m\u202ea\n", one(U32, 1))),
    ("a key that is not UTF-8", "fine", "", both(lambda f: f.keys.append([b"\xff\xc3(", one(U32, 1)]))),
    ("a tensor's name with an escape sequence", "model", "tensor 't\\x1b[31m' is not part of a llama model",
        new_tensor("t\x1b[31m")),
    # Sizes.
    ("no layers", "model", "llama.block_count is 0, expected 1 to 4096", u32(A + "block_count", 0)),
    ("more layers than there are", "model", "tensor blk.1.attn_norm.weight is missing", u32(A + "block_count", 2)),
    ("fewer layers than there are", "model", "tensor 'blk.1.attn_norm.weight' is not part of",
        on("llama2", u32(A + "block_count", 1))),
    ("2^32 - 1 layers", "model", "llama.block_count is 4294967295", u32(A + "block_count", 0xFFFFFFFF)),
    ("minus one layer", "model", "key 'llama.block_count' is -1, but may not be negative",
        put(A + "block_count", one(I32, -1))),
    ("layers as a text", "model", "key 'llama.block_count' is of type string",
        put(A + "block_count", one(STRING, "1"))),
    ("layers as a float", "model", "key 'llama.block_count' is of type f32", f32(A + "block_count", 1.0)),
    ("layers beyond 32 bits", "model", "too large for 32 bits", put(A + "block_count", one(U64, (1 << 32) + 1))),
    ("no width", "model", "llama.embedding_length is 0", u32(A + "embedding_length", 0)),
    ("a width that the tensors do not have", "model", "tensor token_embd.weight has shape [32, 288, 1, 1]",
        u32(A + "embedding_length", 64)),
    ("no network", "model", "llama.feed_forward_length is 0", u32(A + "feed_forward_length", 0)),
    ("a network that the tensors do not have", "model", "tensor blk.0.ffn_gate.weight has shape",
        u32(A + "feed_forward_length", 63)),
    ("no key for the network", "model", "key 'llama.feed_forward_length' is missing", drop(A + "feed_forward_length")),
    ("a context of 0", "model", "llama.context_length is 0", u32(A + "context_length", 0)),
    ("a context of 2^32 - 1", "model", "llama.context_length is 4294967295", u32(A + "context_length", 0xFFFFFFFF)),
    ("a context of 2^30", "fine", "", u32(A + "context_length", 1 << 30)),
    ("a context of 1", "usage", "the model was trained for 1", u32(A + "context_length", 1)),
    ("no heads", "model", "llama.attention.head_count is 0", u32(A + "attention.head_count", 0)),
    ("no KV heads", "model", "llama.attention.head_count_kv is 0", u32(A + "attention.head_count_kv", 0)),
    ("more KV heads than heads", "model", "llama.attention.head_count_kv is 8, expected 1 to 4",
        u32(A + "attention.head_count_kv", 8)),
    ("KV heads that do not divide the heads", "model", "4 heads cannot share 3 KV heads evenly",
        u32(A + "attention.head_count_kv", 3)),
    ("heads that do not divide the width", "model", "llama.embedding_length is 32, which 6 heads cannot share evenly",
        u32(A + "attention.head_count", 6)),
    ("more heads than the width", "model", "llama.embedding_length is 32, which 64 heads cannot share evenly",
        u32(A + "attention.head_count", 64)),
    ("heads layer by layer", "model", "key 'llama.attention.head_count' is of type array",
        put(A + "attention.head_count", many(U32, [4]))),
    ("heads of no width", "model", "llama.attention.key_length is 0", u32(A + "attention.key_length", 0)),
    ("heads of 2^32 - 1", "model", "llama.attention.value_length is 4294967295",
        u32(A + "attention.value_length", 0xFFFFFFFF)),
    ("heads that the tensors do not have", "model", "tensor blk.0.attn_q.weight has shape",
        u32(A + "attention.key_length", 16)),
    # Numbers.
    ("an epsilon of NaN", "model", "layer_norm_rms_epsilon is nan", f32(A + "attention.layer_norm_rms_epsilon", NAN)),
    ("an infinite epsilon", "model", "layer_norm_rms_epsilon is inf", f32(A + "attention.layer_norm_rms_epsilon", INF)),
    ("a negative epsilon", "model", "layer_norm_rms_epsilon is -1", f32(A + "attention.layer_norm_rms_epsilon", -1.0)),
    ("no epsilon", "model", "layer_norm_rms_epsilon' is missing", drop(A + "attention.layer_norm_rms_epsilon")),
    ("an epsilon beyond 32 bits", "model", "too large for f32",
        put(A + "attention.layer_norm_rms_epsilon", one(F64, 1e300))),
    ("an attention scale of NaN", "model", "llama.attention.scale is nan, expected -1e+06 to 1e+06",
        f32(A + "attention.scale", NAN)),
    ("an infinite attention scale", "model", "llama.attention.scale is -inf", f32(A + "attention.scale", -INF)),
    ("rotation wider than a head", "model", "llama.rope.dimension_count is 10, expected 0 to 8",
        u32(A + "rope.dimension_count", 10)),
    ("rotation of an odd width", "model", "llama.rope.dimension_count is 5, expected an even number",
        u32(A + "rope.dimension_count", 5)),
    ("a rotary base of NaN", "model", "llama.rope.freq_base is nan", f32(A + "rope.freq_base", NAN)),
    ("an infinite rotary base", "model", "llama.rope.freq_base is inf", f32(A + "rope.freq_base", INF)),
    ("a rotary base of 0", "model", "llama.rope.freq_base is 0", f32(A + "rope.freq_base", 0.0)),
    ("a rotary base below 0", "model", "llama.rope.freq_base is -10000", f32(A + "rope.freq_base", -10000.0)),
    ("an unknown rotary scaling", "model", "rope scaling 'a\\x07' is not known",
        put(A + "rope.scaling.type", one(STRING, "a\x07"))),
    ("a rotary scaling that is a number", "model", "key 'llama.rope.scaling.type' is of type u32",
        u32(A + "rope.scaling.type", 1)),
    ("a rotary factor of NaN", "model", "llama.rope.scaling.factor is nan", f32(A + "rope.scaling.factor", NAN)),
    ("a rotary factor below 0", "model", "llama.rope.scaling.factor is -2", f32(A + "rope.scaling.factor", -2.0)),
    ("a rotary factor near 0", "model", "llama.rope.scaling: rotary angle 0 is 1e+30",
        f32(A + "rope.scaling.factor", 1e-30)),
    ("a rotary size of infinity", "model", "llama.rope.scaling.attn_factor is inf",
        f32(A + "rope.scaling.attn_factor", INF)),
    ("yarn that divides by nothing", "model", "yarn_log_multiplier 14.427 give a size of",
        both(put(A + "rope.scaling.type", one(STRING, "yarn")), f32(A + "rope.scaling.factor", 0.5),
            f32(A + "rope.scaling.yarn_log_multiplier", 14.426950408889634))),
    ("an original context of 0", "model", "llama.rope.scaling.original_context_length is 0",
        u32(A + "rope.scaling.original_context_length", 0)),
    ("a rotary factor of 0 for a pair", "model", "tensor rope_freqs.weight: factor 0 is 0",
        new_tensor("rope_freqs.weight", dims=[4])),
    ("a rotary factor of NaN for a pair", "model", "tensor rope_freqs.weight: factor 1 is nan",
        both(new_tensor("rope_freqs.weight", dims=[4], data=struct.pack("<4f", 1, 1, 1, 1)),
            number("rope_freqs.weight", NAN, 1))),
    # Tensors that a model has or has not.
    ("a tensor that is missing", "model", "tensor blk.0.attn_q.weight is missing", drop(Q)),
    ("a tensor too many", "model", "tensor 'blk.0.attn_q_norm.weight' is not part of",
        new_tensor("blk.0.attn_q_norm.weight")),
    ("no tensors", "model", "has no weights: it is a vocabulary", head(tensors=[])),
    ("a matrix that lies on its side", "model", "tensor blk.0.ffn_gate.weight has shape [64, 32, 1, 1]",
        tensor(GATE, dims=[FF, EMBD])),
    ("a matrix with a third dimension", "model", "tensor blk.0.attn_q.weight has shape [32, 16, 2, 1]",
        tensor(Q, dims=[EMBD, 16, 2])),
    ("a norm in F16", "model", "tensor output_norm.weight is F16; vectors must be F32",
        tensor(NORM, type=1, data=bytes(2 * EMBD))),
    ("a bias of another width", "model", "tensor blk.0.attn_q.bias has shape", new_tensor("blk.0.attn_q.bias")),
    # Numbers in weights: the model runs until it comes upon them.
    ("NaN in the embedding of the prompt", "run", "not a finite number", number(EMBED, NAN, EMBD)),
    ("NaN in the embedding of another token", "fine", "", number(EMBED, NAN, EMBD * 100)),
    ("NaN in a norm", "run", "not a finite number", number(NORM, NAN, 3)),
    ("infinity in a norm", "run", "not a finite number", number("blk.0.attn_norm.weight", INF, 3)),
    ("NaN in queries", "run", "not a finite number", number(Q, NAN, 7)),
    ("NaN in keys", "run", "not a finite number", number("blk.0.attn_k.weight", NAN, 7)),
    ("NaN in values", "run", "not a finite number", number("blk.0.attn_v.weight", NAN, 7)),
    ("NaN for one logit", "run", "not a finite number", number(OUT, NAN, EMBD * 200)),
    ("infinity for one logit", "run", "not a finite number", number(OUT, -INF, EMBD * 200)),
    ("a Q8_0 scale of NaN", "run", "not a finite number", blocks(OUT, 8, half(NAN) + bytes(range(32)))),
    ("a Q8_0 scale of infinity", "run", "not a finite number", blocks(GATE, 8, half(INF) + bytes(range(1, 33)))),
    ("a Q4_0 scale of NaN", "run", "not a finite number", blocks(Q, 2, half(NAN) + bytes(16))),
    ("a Q4_1 minimum of infinity", "run", "not a finite number", blocks(OUT, 3, half(1.0) + half(INF) + bytes(16))),
    ("MXFP4 beyond all powers of two", "run", "not a finite number", blocks(OUT, 39, b"\xff" + b"\x77" * 16)),
    ("an embedding of zeros, and an epsilon of 0", "run", "not a finite number",
        both(number(EMBED, 0.0, None), f32(A + "attention.layer_norm_rms_epsilon", 0.0))),
    # Experts.
    ("more experts used than there are", "model", "llama.expert_used_count is 5, expected 1 to 4",
        on("mixtral", u32(A + "expert_used_count", 5))),
    ("no experts used", "model", "llama.expert_used_count is 0", on("mixtral", u32(A + "expert_used_count", 0))),
    ("no word of how many are used", "model", "key 'llama.expert_used_count' is missing",
        on("mixtral", drop(A + "expert_used_count"))),
    ("more experts than matrices", "model", "tensor blk.0.ffn_gate_inp.weight has shape",
        on("mixtral", u32(A + "expert_count", 5))),
    ("2^32 - 1 experts", "model", "llama.expert_count is 4294967295, expected 1 to 4096",
        on("mixtral", u32(A + "expert_count", 0xFFFFFFFF))),
    ("experts that are not counted", "model", "tensor blk.0.ffn_up.weight is missing",
        on("mixtral", drop(A + "expert_count"))),
    ("experts whose gates are fewer", "model", "tensor blk.1.ffn_gate_exps.weight has shape [64, 48, 3, 1]",
        on("mixtral", tensor("blk.1.ffn_gate_exps.weight", dims=[64, 48, 3]))),
    ("experts for a model without them", "model", "tensor blk.0.ffn_gate_inp.weight is missing",
        both(u32(A + "expert_count", 2), u32(A + "expert_used_count", 1))),
    ("a weight of experts of NaN", "model", "llama.expert_weights_scale is nan",
        on("mixtral", f32(A + "expert_weights_scale", NAN))),
    ("NaN in a router", "run", "not a finite number", on("mixtral", number("blk.0.ffn_gate_inp.weight", NAN, None))),
    # Other architectures.
    ("mamba: no states", "model", "mamba.ssm.state_size is 0", on("mamba", u32("mamba.ssm.state_size", 0))),
    ("mamba: other states than the tensors", "model", "tensor blk.0.ssm_x.weight has shape",
        on("mamba", u32("mamba.ssm.state_size", 13))),
    ("mamba: 2^32 - 1 states", "model", "mamba.ssm.state_size is 4294967295",
        on("mamba", u32("mamba.ssm.state_size", 0xFFFFFFFF))),
    ("mamba: a window of 2^31", "model", "mamba.ssm.conv_kernel is 2147483648",
        on("mamba", u32("mamba.ssm.conv_kernel", 1 << 31))),
    ("mamba: no rank", "model", "key 'mamba.ssm.time_step_rank' is missing",
        on("mamba", drop("mamba.ssm.time_step_rank"))),
    ("mamba: an inner size of 2^32 - 1", "model", "mamba.ssm.inner_size is 4294967295",
        on("mamba", u32("mamba.ssm.inner_size", 0xFFFFFFFF))),
    ("mamba: decay that grows", "run", "not a finite number", on("mamba", number("blk.0.ssm_a", 3e38, None))),
    ("mamba: NaN in the convolution", "run", "not a finite number",
        on("mamba", number("blk.0.ssm_conv1d.weight", NAN, 5))),
    ("bert: token types that the tensor does not have", "model", "tensor token_types.weight has shape",
        on("bert", u32(T + "token_type_count", 0xFFFFFFFF))),
    ("bert: an unknown pooling", "model", "bert.pooling_type is 99", on("bert", u32("bert.pooling_type", 99))),
    ("bert: causal", "model", "bert.attention.causal is true", on("bert", put("bert.attention.causal", one(BOOL, 1)))),
    ("qwen2: not causal", "model", "qwen2.attention.causal is false; decoders see what is before them",
        on("qwen2", put("qwen2.attention.causal", one(BOOL, 0)))),
    ("qwen2: causal, as it is anyway", "fine", "", on("qwen2", put("qwen2.attention.causal", one(BOOL, 1)))),
    ("qwen2: a reranker", "model", "qwen2 is a reranker", on("qwen2", u32("qwen2.pooling_type", 4))),
    ("qwen2: an unknown pooling", "model", "qwen2.pooling_type is 99", on("qwen2", u32("qwen2.pooling_type", 99))),
    ("bert: fewer positions than the context", "model", "tensor position_embd.weight has shape",
        on("bert", u32("bert.context_length", 4096))),
    ("bert: a class token out of range", "model", "tokenizer.ggml.cls_token_id: token 9999 of a vocabulary of",
        on("bert", u32(T + "cls_token_id", 9999))),
    ("gemma2: a cap of NaN", "model", "gemma2.attn_logit_softcapping is nan",
        on("gemma2", f32("gemma2.attn_logit_softcapping", NAN))),
    ("gemma2: a cap below 0", "model", "gemma2.final_logit_softcapping is -1",
        on("gemma2", f32("gemma2.final_logit_softcapping", -1.0))),
    ("gemma2: infinity in the last norm", "run", "not a finite number",
        on("gemma2", number(NORM, INF, 3))),
    ("gemma2: a window of 2^31", "model", "gemma2.attention.sliding_window is 2147483648",
        on("gemma2", u32("gemma2.attention.sliding_window", 1 << 31))),
    ("gemma3: a pattern of 0", "model", "gemma3.attention.sliding_window_pattern is 0",
        on("gemma3", u32("gemma3.attention.sliding_window_pattern", 0))),
    ("gemma3: a pattern of other length", "model", "has 2 entries, the model 4 layers",
        on("gemma3", put("gemma3.attention.sliding_window_pattern", many(BOOL, [1, 0])))),
    ("gemma3: a pattern of numbers", "model", "sliding_window_pattern' is",
        on("gemma3", put("gemma3.attention.sliding_window_pattern", many(U32, [1, 0, 1, 0])))),
    ("gemma3: a second rotary base of NaN", "model", "rope.freq_base_swa is nan",
        on("gemma3", f32("gemma3.rope.freq_base_swa", NAN))),
    ("gpt2: fewer positions than the context", "model", "tensor position_embd.weight has shape [64, 256, 1, 1]",
        on("gpt2", u32("gpt2.context_length", 1 << 30))),
    ("mpt: slopes of infinity", "model", "mpt.attention.max_alibi_bias is inf",
        on("mpt", f32("mpt.attention.max_alibi_bias", INF))),
    ("mpt: a clamp below 0", "model", "mpt.attention.clamp_kqv is -1", on("mpt", f32("mpt.attention.clamp_kqv", -1.0))),
    ("granite: logits divided by 0", "model", "granite.logit_scale is 0",
        on("granite", f32("granite.logit_scale", 0.0))),
    ("phi3: one table of factors", "model", "tensor rope_factors_long.weight is missing",
        on("phi3-long", drop("rope_factors_long.weight"))),
    ("phi3: the other table of factors", "model", "tensor rope_factors_short.weight is missing",
        on("phi3-long", drop("rope_factors_short.weight"))),
    # The vocabulary.
    ("no vocabulary", "load", "the model has no tokeniser", drop(T + "model")),
    ("an unknown kind of vocabulary", "model", "tokenizer.ggml.model: \"a\\x1bb\" is not known",
        put(T + "model", one(STRING, "a\x1bb"))),
    ("a kind that is a number", "model", "key 'tokenizer.ggml.model' is of type u32", u32(T + "model", 1)),
    ("no tokens key", "model", "key 'tokenizer.ggml.tokens' is missing", drop(T + "tokens")),
    ("no tokens", "model", "tokenizer.ggml.tokens: 0 tokens", put(T + "tokens", many(STRING, []))),
    ("tokens that are numbers", "model", "key 'tokenizer.ggml.tokens' is", put(T + "tokens", many(U32, [1, 2]))),
    ("tokens in arrays", "model", "key 'tokenizer.ggml.tokens' is", put(T + "tokens", nested(2))),
    ("fewer tokens than rows", "model", "tokenizer.ggml.scores: 288 elements for 1 tokens",
        put(T + "tokens", many(STRING, ["a"]))),
    ("fewer rows than tokens", "model", "token_embd.weight has 287 rows, the vocabulary 288 tokens",
        tensor(EMBED, dims=[EMBD, 287])),
    ("fewer logits than tokens", "model", "tensor output.weight has shape [32, 287, 1, 1]",
        tensor(OUT, dims=[EMBD, 287])),
    ("a vocabulary of one token", "run", "no token for byte 0x20, and no unknown token", rows(1)),
    ("a vocabulary of one token, for all there is", "fine", "", both(rows(1), u32(T + "unknown_token_id", 0))),
    ("no scores", "model", "key 'tokenizer.ggml.scores' is missing", drop(T + "scores")),
    ("scores of another type", "model", "key 'tokenizer.ggml.scores' is", put(T + "scores", many(F64, [0.0] * VOCAB))),
    ("fewer scores than tokens", "model", "tokenizer.ggml.scores: 3 elements for 288 tokens",
        put(T + "scores", many(F32, [0.0] * 3))),
    ("a score of NaN", "fine", "", score(260, NAN)),
    ("scores of NaN and infinities", "fine", "",
        put(T + "scores", many(F32, [(NAN, INF, -INF)[i % 3] for i in range(VOCAB)]))),
    ("Unigram: scores of NaN and infinities", "fine", "",
        on("t5", put(T + "scores", many(F32, [(NAN, INF, -INF)[i % 3] for i in range(VOCAB)])))),
    ("fewer types than tokens", "model", "tokenizer.ggml.token_type: 0 elements for 288 tokens",
        put(T + "token_type", many(I32, []))),
    ("types of another type", "model", "key 'tokenizer.ggml.token_type' is",
        put(T + "token_type", many(I64, [1] * VOCAB))),
    ("token type 7", "model", "tokenizer.ggml.token_type: token 5 has type 7", kind_of(5, 7)),
    ("token type -1", "model", "tokenizer.ggml.token_type: token 5 has type -1", kind_of(5, -1)),
    ("a byte token <0x-1>", "model", "token 3 has type byte but not the form <0xNN>", token(3, b"<0x-1>")),
    ("a byte token <0x100>", "model", "token 3 has type byte but not the form <0xNN>", token(3, b"<0x100>")),
    ("a byte token <0xG0>", "model", "token 3 has type byte but not the form <0xNN>", token(3, b"<0xG0>")),
    ("a byte token without text", "model", "token 3 has type byte but not the form <0xNN>", token(3, b"")),
    ("Unigram: a byte token <0x-1>", "model", "token 3 has type byte but not the form <0xNN>",
        on("t5", token(3, b"<0x-1>"))),
    ("all bytes are one", "fine", "", both(*(token(i, b"<0x41>") for i in range(3, 259)))),
    ("a token of NULs and no UTF-8", "fine", "", token(260, b"\0\xff\x1b[2J")),
    ("a special token of 1 MB", "model", "token 1: a special token of 1000000 bytes", token(1, b"s" * 1000000)),
    ("a beginning out of range", "model", "tokenizer.ggml.bos_token_id: token 288 of a vocabulary of 288",
        u32(T + "bos_token_id", VOCAB)),
    ("a beginning of 2^32 - 1", "model", "bos_token_id: token 4294967295 of", u32(T + "bos_token_id", 0xFFFFFFFF)),
    ("a beginning of -1", "model", "bos_token_id' is -1, but may not be negative",
        put(T + "bos_token_id", one(I32, -1))),
    ("a beginning that is a text", "model", "bos_token_id' is of type string",
        put(T + "bos_token_id", one(STRING, "<s>"))),
    ("an end out of range", "model", "eos_token_id: token 999999 of", u32(T + "eos_token_id", 999999)),
    ("an unknown token out of range", "model", "unknown_token_id: token 288 of", u32(T + "unknown_token_id", VOCAB)),
    ("an end of turn out of range", "model", "eot_token_id: token 288 of", u32(T + "eot_token_id", VOCAB)),
    ("adding a beginning as a number", "model", "add_bos_token' is of type u32", u32(T + "add_bos_token", 1)),
    ("every token ends the text", "fine", "", both(*(kind_of(i, 3) for i in range(3, 259)))),
    # Merges.
    ("BPE: no merges", "model", "key 'tokenizer.ggml.merges' is missing", on("bpe", drop(T + "merges"))),
    ("BPE: merges that are numbers", "model", "key 'tokenizer.ggml.merges' is",
        on("bpe", put(T + "merges", many(U32, [1])))),
    ("BPE: a merge of one side", "model", "merge 0 is not of the form",
        on("bpe", put(T + "merges", many(STRING, ["ab"])))),
    ("BPE: a merge without a left side", "model", "merge 1 is not of the form",
        on("bpe", put(T + "merges", many(STRING, ["a b", " b"])))),
    ("BPE: an empty merge", "model", "merge 0 is not of the form", on("bpe", put(T + "merges", many(STRING, [""])))),
    ("BPE: merges in a circle", "fine", "",
        on("bpe", put(T + "merges", many(STRING, ["a b", "ab c", "abc a", "a b", "b a", "abc ab"])))),
    ("BPE: merges of what is no token", "fine", "",
        on("bpe", put(T + "merges", many(STRING, ["q z", b"\xff \xfe", "a  b", "b  "])))),
    ("BPE: bytes that no token has", "run", "no token for byte 0x61, and no unknown token",
        on("bpe", both(token(97, b"?"), token(256, b"?")))),
    ("BPE: an unknown pre-tokeniser", "note", "pre-tokeniser \"a\\x1bb\" (tokenizer.ggml.pre) is not known",
        on("bpe", put(T + "pre", one(STRING, "a\x1bb")))),
    ("BPE: a pre-tokeniser that is a number", "model", "key 'tokenizer.ggml.pre' is of type u32",
        on("bpe", u32(T + "pre", 1))),
    # SentencePiece's map of characters.
    ("Unigram: a map of three bytes", "model", "precompiled_charsmap: 3 bytes",
        on("t5", put(T + "precompiled_charsmap", many(U8, [1, 2, 3])))),
    ("Unigram: a map larger than itself", "model", "precompiled_charsmap: a trie of 4294967292 bytes",
        on("t5", put(T + "precompiled_charsmap", many(U8, [252, 255, 255, 255])))),
    ("Unigram: a map that leads out of itself", "fine", "",
        on("t5", put(T + "precompiled_charsmap", many(U8, [8, 0, 0, 0] + [255, 255, 255, 127] * 2)))),
    ("Unigram: a map of texts", "model", "precompiled_charsmap' is",
        on("t5", put(T + "precompiled_charsmap", many(STRING, ["a"])))),
]

# What `cohort template` says of a model's chat template, and its exit code.
TEMPLATES = [
    ("good", 0, "", "{{ messages[0].content }}"),
    ("control characters", 0, "", "\x1b[2J{{ messages[0].content }}\0"),
    ("not UTF-8", 3, "the template is not UTF-8", b"\xff{{ 1 }}"),
    ("not closed", 3, "the template ends where 'endif' is missing", "{% if messages %}"),
    ("100,000 brackets", 3, "brackets nested more than", "{{ " + "(" * 100000),
    ("a range without an end", 1, "range() of more than", "{% for i in range(1000000000) %}{% endfor %}"),
    ("loops without an end", 1, "more than",
        "{% for i in range(99999) %}{% for k in range(99999) %}{% endfor %}{% endfor %}"),
    ("a text without an end", 1, "bytes of memory",
        "{% set s = namespace(a='aaaaaaaa') %}{% for i in range(99) %}{% set s.a = s.a + s.a %}{% endfor %}"),
    ("a macro that calls itself", 1, "nested more than", "{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}"),
]


# Adapters of llama-base: what is wrong, the exit code of run, the text, the change.
LORA_A, LORA_B = "blk.0.attn_q.weight.lora_a", "blk.0.attn_q.weight.lora_b"
ADAPTERS = [
    ("nothing", 0, "", lambda f: None),
    ("a model", 3, "key 'general.type' is missing", on("llama-base")),
    ("another kind", 3, "adapter.type is 'a\\x1b', expected 'lora'", put("adapter.type", one(STRING, "a\x1b"))),
    ("another architecture", 3, "general.architecture is 'qwen2', expected 'llama'",
        put("general.architecture", one(STRING, "qwen2"))),
    ("no alpha", 3, "key 'adapter.lora.alpha' is missing", drop("adapter.lora.alpha")),
    ("an alpha of NaN", 3, "adapter.lora.alpha is nan", f32("adapter.lora.alpha", NAN)),
    ("an alpha of 2^31", 3, "adapter.lora.alpha is 2.1", f32("adapter.lora.alpha", 2.0**31)),
    ("half a pair", 3, "tensor blk.0.attn_q.weight.lora_b is missing", drop(LORA_B)),
    ("halves of other ranks", 3, "tensor blk.0.attn_q.weight.lora_b has shape [2, 128, 1], expected [4, 64]",
        tensor(LORA_B, dims=[2, 128])),
    ("a rank beyond the width", 3, "tensor blk.0.attn_q.weight.lora_a has rank 128", tensor(LORA_A, dims=[2, 128])),
    ("another width", 3, "tensor blk.0.attn_q.weight.lora_a has shape", tensor(LORA_A, dims=[32, 8])),
    ("a third dimension", 3, "tensor blk.0.attn_q.weight.lora_a has shape", tensor(LORA_A, dims=[64, 2, 2])),
    ("blocks", 3, "is Q8_0; adapters are F32, F16 or BF16", blocks(LORA_A, 8, bytes(34))),
    ("an unknown format", 3, "is of an unknown format", tensor(LORA_A, type=99)),
    ("a tensor of no model", 3, "tensor 'x\\x07.lora_a' belongs to nothing", new_tensor("x\x07.lora_a")),
    ("no tensors", 3, "the adapter has no tensors", head(tensors=[])),
    ("no end", 3, "are not all in the file", cut("data", 5000)),
    ("NaN", 1, "not a finite number", number(LORA_A, NAN, 3)),
]


def write(path, change):
    f = base("llama")
    made = change(f)
    if callable(made):
        return made(path)
    with open(path, "wb") as out:
        out.write(f.bytes() if made is None else made)
    return path


# Characters that turn the order of what stands beside them.
TURNS = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


def check_said(path):
    """Prints what is no text in what the programs said; true when there is nothing."""
    with open(path, "rb") as f:
        said = f.read()
    bad = 0
    for line in said.split(b"\n"):
        shown = line.decode("utf-8", "surrogateescape")
        if any(unicodedata.category(c) in ("Cc", "Cs") or c in TURNS for c in shown):
            print(ascii(shown)[:300])
            bad += 1
    return bad == 0


def main(argv):
    if argv[1] == "--said":
        return 0 if check_said(argv[2]) else 1
    if argv[1] == "--json":
        with open(argv[2]) as f:
            return 0 if all(json.loads(part)["file"] for part in f.read().split("\n---\n")[:-1]) else 1
    with open(os.path.join(argv[1], "table"), "w") as table:
        for i, (what, level, said, change) in enumerate(CASES):
            path = write(os.path.join(argv[1], "%03d.gguf" % i), change)
            table.write("\t".join((path, level, said or "-", what)) + "\n")
    with open(os.path.join(argv[1], "templates"), "w") as table:
        for i, (what, code, said, source) in enumerate(TEMPLATES):
            path = write(os.path.join(argv[1], "t%02d.gguf" % i), put("tokenizer.chat_template", one(STRING, source)))
            table.write("\t".join((path, str(code), said or "-", what)) + "\n")
    with open(os.path.join(argv[1], "base.gguf"), "wb") as out:
        out.write(base("llama-base").bytes())
    with open(os.path.join(argv[1], "adapters"), "w") as table:
        for i, (what, code, said, change) in enumerate(ADAPTERS):
            path = write(os.path.join(argv[1], "a%02d.gguf" % i), on("llama-lora", change))
            table.write("\t".join((path, str(code), said or "-", what)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
