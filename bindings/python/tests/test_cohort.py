"""Tests of the Python bindings. tests/e2e/bindings_python.sh runs them; each prints a line for the script to count.

COHORT_LIBRARY, COHORT_MODEL, COHORT_LAYOUT (what build/abi_layout prints) and COHORT_NPY (vectors of `cohort embed`) come
from there. The texts of EMBEDDED are those that the script had embedded."""

import array
import ctypes
import gc
import math
import os
import pickle
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock
import weakref

import cohort
from cohort import _lib, abi

MODEL = os.environ["COHORT_MODEL"]
EMBEDDED = ["a cat sat down", "stock prices fell"]
PROMPT = "Once upon a time"


def layout_lines():
    """The declarations of abi as the layout program writes them."""
    for name, value in vars(abi).items():
        if name.startswith("COHORT_"):
            yield "const %s %d" % (name, value)
    for s in abi.STRUCTS:
        yield "struct %s %d" % (s.__name__, ctypes.sizeof(s))
        for name, kind in s._fields_:
            f = getattr(s, name)
            yield "field %s.%s %d %d" % (s.__name__, name, f.offset, f.size)


def differences(ours, theirs):
    return sorted(set(ours) ^ set(theirs))


class Abi(unittest.TestCase):
    def test_layout(self):
        # Seen red with two fields of _abi.py swapped, with a c_int32 for a c_int64 and with a constant changed; the last
        # two of these are planted below in what the compiler says. With a field left out the import refuses it before.
        with open(os.environ["COHORT_LAYOUT"]) as f:
            theirs = f.read().splitlines()
        self.assertGreater(len(theirs), 500)
        self.assertEqual(differences(layout_lines(), theirs), [])
        for old, new in ("field cohort_err.row 784 8", "field cohort_err.row 784 4"), ("COHORT_E_IO -4", "COHORT_E_IO -5"):
            planted = [t.replace(old, new) for t in theirs]
            self.assertNotEqual(planted, theirs)
            self.assertEqual(len(differences(layout_lines(), planted)), 2)

    def test_every_function(self):
        for name in abi.FUNCTIONS:
            self.assertTrue(getattr(_lib.lib, name))
        self.assertGreater(len(abi.FUNCTIONS), 150)


def run_python(code, tree=None, **env):
    """Imports in a process of its own; its last line of standard error."""
    env = dict(os.environ, PYTHONDONTWRITEBYTECODE="1", **env)
    if tree:
        env["PYTHONPATH"] = tree
    r = subprocess.run([sys.executable, "-c", code], env=env, cwd="/", stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return r.returncode, r.stderr.strip().splitlines()[-1] if r.stderr.strip() else r.stdout.strip()


class Loading(unittest.TestCase):
    def altered(self, old, new):
        """A copy of the package with another _abi.py."""
        tree = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, tree)
        shutil.copytree(os.path.dirname(cohort.__file__), os.path.join(tree, "cohort"))
        path = os.path.join(tree, "cohort", "_abi.py")
        with open(path) as f:
            text = f.read()
        self.assertIn(old, text)
        with open(path, "w") as f:
            f.write(text.replace(old, new, 1))
        return tree

    def test_not_there(self):
        rc, said = run_python("import cohort", COHORT_LIBRARY="/nowhere/libcohort.so")
        self.assertEqual(rc, 1)
        self.assertIn("LibraryError: libcohort was not found: /nowhere/libcohort.so", said)
        self.assertIn("COHORT_LIBRARY", said)

    def test_another_library(self):
        rc, said = run_python("import cohort", COHORT_LIBRARY="libm.so.6")
        self.assertEqual(rc, 1)
        self.assertIn("LibraryError: libm.so.6 is not libcohort", said)

    def test_own_place(self):
        tree = self.altered("VERSION", "VERSION")
        shutil.copy(os.environ["COHORT_LIBRARY"], os.path.join(tree, "cohort", "libcohort.so.0"))
        rc, said = run_python("import cohort; print(cohort._lib.lib._name)", tree, COHORT_LIBRARY="")
        self.assertEqual((rc, said), (0, os.path.join(tree, "cohort", "libcohort.so.0")))

    def test_other_version(self):
        rc, said = run_python("import cohort", self.altered("VERSION = (0, ", "VERSION = (0, 9"))
        self.assertEqual(rc, 1)
        self.assertRegex(said, r"is version 0\.\d+\.\d+; these bindings are for 0\.9")

    def test_other_size(self):
        # A struct that differs from the library's is noticed when the package is imported.
        rc, said = run_python("import cohort", self.altered('    ("n_checkpoints", c_int32),\n    ("n_blocks", c_int32),\n', ""))
        self.assertEqual(rc, 1)
        self.assertRegex(said, r"struct cohort_context_params has \d+ bytes in .* and \d+ in these bindings")


def vocabulary(folder, texts):
    """A GGUF file of a vocabulary alone: unknown, begin, end, and these."""
    def string(s):
        return struct.pack("<Q", len(s)) + s.encode()

    def pairs():
        tokens = ["<unk>", "<s>", "</s>"] + texts
        n = len(tokens)
        yield "general.architecture", 8, string("llama")
        yield "tokenizer.ggml.model", 8, string("llama")
        yield "tokenizer.ggml.tokens", 9, struct.pack("<IQ", 8, n) + b"".join(map(string, tokens))
        yield "tokenizer.ggml.scores", 9, struct.pack("<IQ%df" % n, 6, n, *[0.0] * n)
        yield "tokenizer.ggml.token_type", 9, struct.pack("<IQ%di" % n, 5, n, *[2, 3, 3] + [1] * len(texts))

    data = [string(k) + struct.pack("<I", kind) + value for k, kind, value in pairs()]
    path = os.path.join(folder, "vocabulary.gguf")
    with open(path, "wb") as f:
        f.write(b"GGUF" + struct.pack("<IQQ", 3, 0, len(data)) + b"".join(data))
    return path


class WithModel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.model = cohort.Model(MODEL)

    @classmethod
    def tearDownClass(cls):
        cls.model.close()


class Models(WithModel):
    def test_info(self):
        i = self.model.info
        self.assertEqual((i.arch, i.tokenizer, i.n_vocab), ("llama", i.tokenizer, 8192))
        self.assertEqual(cohort.version().split(".")[0], "0")

    def test_tokens(self):
        for text in PROMPT, "", "Ä€ \U0001f600 z", b"\xff\x00\xfe", "a" * 5000:
            data = text if isinstance(text, bytes) else text.encode()
            self.assertEqual(self.model.detokenize(self.model.tokenize(text, bos=False)), data)
        t = self.model.tokenize(PROMPT, bos=True)
        self.assertEqual(t[0], self.model.bos)
        self.assertFalse(self.model.is_eog(t[1]))
        self.assertTrue(self.model.is_eog(self.model.eos))
        self.assertEqual(b"".join(self.model.piece(k) for k in t[2:]).strip(), b"upon a time")

    def test_templates(self):
        # Seen red with the begin token twice, and with the source's length in characters.
        messages = [{"role": "user", "content": "Ä \" \\ \n"}]
        with cohort.ChatTemplate(self.model, "{{ bos_token }}{{ messages[0].content }}{{ word }}é") as t:
            self.assertEqual(t.render(messages, word="x"), '<s>Ä " \\ \nxé')
            tokens = t.tokens(messages, word="x")
            self.assertEqual(tokens, [self.model.bos] + self.model.tokenize('<s>Ä " \\ \nxé', special=True, bos=False)[1:])
            self.assertEqual(tokens.count(self.model.bos), 1)
        with self.assertRaises(ValueError):
            t.render(messages)
        with cohort.ChatTemplate(self.model) as t:
            self.assertTrue(t.render(messages).endswith("<|assistant|>"))
            self.assertFalse(t.render(messages, add_generation_prompt=False).endswith("<|assistant|>"))
            self.assertEqual(t.tokens(messages)[0], self.model.bos)
        with self.assertRaises(cohort.Error) as raised:
            cohort.ChatTemplate(self.model, "a\n{% if %}")
        self.assertEqual((raised.exception.status, raised.exception.row), (abi.COHORT_E_FORMAT, 2))
        with tempfile.TemporaryDirectory() as d, cohort.Model(vocabulary(d, ["a"]), vocab_only=True) as m:
            with self.assertRaisesRegex(ValueError, "has no chat template"):
                cohort.ChatTemplate(m)

    def test_detok(self):
        d = self.model.detok(at_start=True)
        text = "A \U0001f600 b".encode()
        pieces = [d.push(t) for t in self.model.tokenize(text, bos=False)]
        self.assertEqual(b"".join(pieces) + d.flush(), text)
        for p in pieces:
            p.decode()  # whole characters

    def test_errors(self):
        with self.assertRaises(cohort.Error) as r:
            cohort.Model("/nowhere.gguf")
        self.assertEqual(r.exception.status, abi.COHORT_E_IO)
        with self.assertRaises(cohort.Error) as r:
            cohort.Model(__file__)
        self.assertEqual((r.exception.status, r.exception.offset), (abi.COHORT_E_FORMAT, 0))
        self.assertIn("GGUF", str(r.exception))
        with self.assertRaises(TypeError):
            cohort.Model(MODEL, n_theads=1)
        with self.assertRaises(cohort.Error):
            self.model.detokenize([10**6])

    def test_errors_travel(self):
        """From a process of a pool, say: seen red, they could be pickled and not read again."""
        with self.assertRaises(cohort.NoRoom) as r, cohort.Context(self.model, n_ctx=32) as ctx:
            ctx.decode_many([5] * 65)
        e = pickle.loads(pickle.dumps(r.exception))
        self.assertEqual((type(e), str(e), vars(e)), (cohort.NoRoom, str(r.exception), vars(r.exception)))
        self.assertEqual(e.rule, "kv-room")

    def test_nul(self):
        """C's strings end at a NUL: a text that has one is refused, not cut."""
        for use in (lambda: cohort.Model(MODEL + "\0.gguf"), lambda: cohort.Model(MODEL, isa="ref\0"),
                    lambda: cohort.Model(MODEL, adapters=["a\0"]),
                    lambda: cohort.Engine(self.model, strategy="balanced\0"),
                    lambda: cohort.Sampler(self.model, order="top_k\0"),
                    lambda: cohort.Sampler(self.model, dry_breakers=["a\0b"]),
                    lambda: cohort.Grammar(self.model, 'root ::= "a"', root="root\0")):
            self.assertRaisesRegex(ValueError, "NUL", use)

    def test_long_token(self):
        """A token's text has no bound, if no text can be made of it: with a space in it, none is."""
        with tempfile.TemporaryDirectory() as d, cohort.Model(vocabulary(d, ["a " * 2500]), vocab_only=True) as m:
            self.assertEqual(m.piece(3), b"a " * 2500)
            self.assertEqual(m.detok().push(3), b"a " * 2500)
        with self.assertRaises(cohort.Error) as r:
            self.model.piece(10**6)
        self.assertIn("not in the vocabulary", str(r.exception))

    def test_progress(self):
        seen = []
        cohort.Model(MODEL, progress=lambda done: seen.append(done)).close()
        self.assertTrue(seen and all(0 <= d <= 1 for d in seen))
        with self.assertRaises(cohort.Aborted):
            cohort.Model(MODEL, progress=lambda done: False)
        with self.assertRaises(KeyError):
            cohort.Model(MODEL, progress=lambda done: {}["x"])

    def test_freed(self):
        m = cohort.Model(MODEL)
        m.close()
        m.close()
        for use in (lambda: m.tokenize("x"), lambda: cohort.Context(m), lambda: cohort.Grammar(m, 'root ::= "a"'),
                    lambda: cohort.Engine(m), lambda: m.detok(), lambda: m.bos):
            self.assertRaises(ValueError, use)

    def test_lifetimes(self):
        # A Handle whose _end does not look at _n_users was seen red: the process dies, in a test before this one.
        m = cohort.Model(MODEL)
        ctx = cohort.Context(m, n_ctx=64)
        d = m.detok()
        freed = []
        free = m._free
        m._free = lambda p: (freed.append(p), free(p))
        m.close()
        self.assertRaises(ValueError, m.tokenize, "x")
        self.assertRaises(ValueError, d.push, 5)
        ctx.decode_many([1, 2, 3])
        self.assertEqual((len(ctx.logits()), freed), (8192, []))
        del m, ctx
        gc.collect()
        self.assertEqual(len(freed), 1)

    def test_closed_meanwhile(self):
        """A model that another thread closes while a context is opened."""
        m = cohort.Model(MODEL)
        open_ = _lib.lib.cohort_context_open

        def closes(*args):
            m.close()
            return open_(*args)

        with unittest.mock.patch.object(_lib.lib, "cohort_context_open", closes):
            ctx = cohort.Context(m, n_ctx=64)
        ctx.decode_many([1, 2])
        self.assertIsNotNone(m._pointer)
        ctx.close()
        self.assertIsNone(m._pointer)


class Contexts(WithModel):
    def open(self, **options):
        ctx = cohort.Context(self.model, **dict({"n_ctx": 256, "n_seq_max": 4}, **options))
        self.addCleanup(ctx.close)
        return ctx

    def test_batched_is_alone(self):
        texts = [self.model.tokenize(t) for t in (PROMPT, "The cat", "One day, a bird sang")]
        alone = []
        for t in texts:
            ctx = self.open()
            ctx.decode_many(t)
            alone.append(ctx.logits())
        ctx = self.open()
        indexes = ctx.decode_scatter([(t, 0, i, True) for i, t in enumerate(texts)])
        for i, a in zip(indexes, alone):
            self.assertEqual(ctx.logits(i).tobytes(), a.tobytes())
        ctx = self.open()
        with cohort.Batch(64) as b:
            for seq, t in enumerate(texts):
                for pos, token in enumerate(t):
                    b.add(token, pos, seq, pos == len(t) - 1)
            self.assertEqual(len(b), sum(map(len, texts)))
            self.assertEqual(len(b.dump().strip().splitlines()) >= len(b), True)
            ctx.check(b)
            ctx.decode(b)
        self.assertEqual([ctx.logits(i).tobytes() for i in (-3, -2, -1)], [a.tobytes() for a in alone])
        self.assertEqual(ctx.n_outputs, 3)

    def test_logits_are_copies(self):
        ctx = self.open()
        ctx.decode_many([1, 2, 3])
        a = ctx.logits()
        before = a.tobytes()
        ctx.decode_one(5, 3)
        self.assertEqual(a.tobytes(), before)
        self.assertNotEqual(ctx.logits().tobytes(), before)
        self.assertIsInstance(a, array.array)
        with self.assertRaises(cohort.Error):
            ctx.logits(7)

    def test_rules(self):
        ctx = self.open()
        ctx.decode_many([1, 2, 3])
        with self.assertRaises(cohort.Error) as r:
            ctx.decode_one(5, 7, 0)
        e = r.exception
        self.assertEqual((e.status, e.rule, e.row, e.seq, e.expected, e.got), (abi.COHORT_E_BATCH, "pos-start", 0, 0, 3, 7))
        with self.assertRaises(cohort.NoRoom) as r:
            ctx.decode_many([5] * 400, 3)
        self.assertEqual(r.exception.rule, "kv-room")
        self.assertEqual(ctx.seq_len(0), 3)
        b = cohort.Batch(1)
        b.add(1, 0)
        with self.assertRaises(cohort.Error) as r:
            b.add(1, 1)
        self.assertEqual(r.exception.rule, "batch-full")
        b.reset()
        self.assertEqual(len(b), 0)
        b.close()
        self.assertRaises(ValueError, len, b)
        self.assertRaises(ValueError, ctx.decode, b)

    def test_numbers_that_do_not_fit(self):
        """Refused; ctypes would take their lowest bits, and 2**32 + 5 is no token."""
        ctx, big = self.open(), 2**32 + 5
        for use in (lambda: ctx.decode_many([1, big]), lambda: ctx.decode_each([(big, 0, 0)]),
                    lambda: ctx.decode_scatter([([1], 2**32, 0)]), lambda: cohort.Batch.from_tokens([big]),
                    lambda: cohort.Context(self.model, n_ctx=2**32 + 64), lambda: self.model.detokenize([big]),
                    lambda: cohort.Sampler(self.model, bias={big: 1.0})):
            self.assertRaises(OverflowError, use)
        self.assertRaises(ctypes.ArgumentError, ctx.decode_one, big, 0)
        self.assertRaises(ctypes.ArgumentError, self.model.is_eog, big)
        self.assertEqual(ctx.seq_len(0), 0)
        ctx.decode_one(ctypes.c_int32(5), True - 1)

    def test_vectors(self):
        ctx = self.open()
        n = self.model.info.n_embd
        with cohort.Batch(4, n) as b:
            b.add_vector([0.25] * n, 0, 0, True)
            self.assertRaises(ValueError, b.add_vector, [1.0], 1)
            ctx.decode(b)
        self.assertTrue(all(math.isfinite(x) for x in ctx.logits()))

    def test_sequences(self):
        ctx = self.open()
        ctx.decode_many([1, 2, 3, 4])
        ctx.seq_cp(0, 1)
        self.assertEqual(ctx.usage().n_shared, 1)
        ctx.decode_each([cohort.Row(7, 4, 0), cohort.Row(7, 4, 1)])
        self.assertEqual(ctx.logits(0).tobytes(), ctx.logits(1).tobytes())
        ctx.seq_rm(1, 2)
        self.assertEqual((ctx.seq_len(0), ctx.seq_len(1)), (5, 2))
        ctx.seq_keep(1)
        self.assertEqual((ctx.seq_len(0), ctx.seq_len(1)), (0, 2))
        ctx.seq_clear()
        self.assertEqual(ctx.usage().n_used, 0)
        self.assertEqual(ctx.counters().n_decode, 2)
        perplexity, logprobs = ctx.score(self.model.tokenize(PROMPT))
        self.assertTrue(1 < perplexity < 100 and logprobs[0] == 0 and all(p <= 0 for p in logprobs))

    def test_state(self):
        ctx = self.open()
        ctx.decode_many(self.model.tokenize(PROMPT))
        n = ctx.seq_len(0)
        state = ctx.save()
        one = ctx.save(0)
        ctx.decode_one(9, n)
        want = ctx.logits().tobytes()
        for s, seq in (state, cohort.SEQ_ALL), (one, 2):
            other = self.open()
            other.restore(s, seq)
            at = max(seq, 0)
            other.decode_one(9, n, at)
            self.assertEqual(other.logits().tobytes(), want)
        with self.assertRaises(cohort.Error) as r:
            other.restore(b"x" + state[1:])
        self.assertEqual(r.exception.status, abi.COHORT_E_FORMAT)
        with tempfile.TemporaryDirectory() as d:
            path = os.path.join(d, "state")
            ctx.seq_rm(0, n)
            ctx.save_file(path)
            third = self.open()
            third.restore_file(path)
            self.assertEqual(third.seq_len(0), n)

    def test_callbacks(self):
        answers = {"abort": False}
        lines = []

        def abort():
            a = answers["abort"]
            return a() if callable(a) else a

        ctx = self.open(abort=abort, trace=lines.append)
        gc.collect()  # the library holds addresses of the callbacks
        ctx.decode_many([1, 2])
        self.assertTrue(lines and all(isinstance(t, str) for t in lines))
        answers["abort"] = True
        self.assertRaises(cohort.Aborted, ctx.decode_one, 5, 2)
        answers["abort"] = lambda: {}["raised"]
        self.assertRaises(KeyError, ctx.decode_one, 5, 2)
        answers["abort"] = lambda: ctx.seq_len(0) == 0  # may not use its context: an error, not a hang
        self.assertRaises(RuntimeError, ctx.decode_one, 5, 2)
        answers["abort"] = False
        ctx.decode_one(5, 2)
        self.assertEqual(ctx.seq_len(0), 3)

    def test_raised_is_not_kept(self):
        """A context whose callback raised goes with its last reference: the collector may not come for long."""
        def raises(*_):
            raise KeyError("raised")

        gc.collect()
        gc.disable()
        self.addCleanup(gc.enable)
        for name in "abort", "trace":
            ctx = cohort.Context(self.model, n_ctx=64, **{name: raises})
            gone = weakref.ref(ctx)
            try:
                ctx.decode_many([1, 2, 3])
                self.fail("it did not raise")
            except KeyError:  # assertRaises clears the frames, which a program does not
                pass
            del ctx
            self.assertIsNone(gone())

    def test_threads(self):
        """Contexts of one model in several threads give the same."""
        tokens = self.model.tokenize(PROMPT) * 20
        outs = []

        def work():
            with cohort.Context(self.model, n_ctx=256, n_threads=1) as ctx:
                ctx.decode_many(tokens)
                outs.append(ctx.logits().tobytes())

        threads = [threading.Thread(target=work) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual((len(outs), len(set(outs))), (4, 1))

    def test_others_run(self):
        """While the library computes, other threads of Python's run."""
        # Seen red with ctypes.PyDLL, which keeps the interpreter's lock. A busy machine has a few tries.
        ctx = self.open(n_ctx=1024, n_batch=1024, n_threads=1)
        tokens = self.model.tokenize(PROMPT) * 150
        for _ in range(10):
            ticks, on = [], [True]

            def tick():
                while on[0]:
                    ticks.append(time.monotonic())
                    time.sleep(0.001)

            t = threading.Thread(target=tick)
            t.start()
            began = time.monotonic()
            ctx.decode_many(tokens)
            ended = time.monotonic()
            on[0] = False
            t.join()
            ctx.seq_clear()
            within = [began] + [x for x in ticks if began < x < ended] + [ended]
            if max(b - a for a, b in zip(within, within[1:])) < (ended - began) / 2:
                return
        self.fail("no other thread ran")

    def test_one_context_two_threads(self):
        """Two threads on one context wait for each other, also when one of them closes it."""
        ctx = self.open(n_ctx=4096, n_seq_max=2)
        errors = []

        def work(seq):
            try:
                for i in range(20):
                    ctx.decode_one(5 + i, i, seq)
            except ValueError:
                pass
            except Exception as e:
                errors.append(e)

        threads = [threading.Thread(target=work, args=(seq,)) for seq in (0, 1)]
        for t in threads:
            t.start()
        time.sleep(0.02)
        ctx.close()
        for t in threads:
            t.join()
        self.assertEqual(errors, [])


class Samplers(WithModel):
    def setUp(self):
        self.ctx = cohort.Context(self.model, n_ctx=256)
        self.ctx.decode_many(self.model.tokenize(PROMPT))

    def test_same_seed(self):
        a, b = (cohort.Sampler(self.model, seed=5, stream=1) for _ in range(2))
        first = [a.sample(self.ctx) for _ in range(5)]
        self.assertEqual([b.sample(self.ctx.logits()) for _ in range(5)], first)
        c = a.clone()
        self.assertEqual([a.sample(self.ctx) for _ in range(5)], [c.sample(self.ctx) for _ in range(5)])
        a.reset()
        self.assertEqual([a.sample(self.ctx) for _ in range(5)], first)
        c.reseed(5, 1)
        self.assertEqual(c.sample(self.ctx), first[0])
        self.assertRaises(ValueError, a.sample, [0.0] * 5)

    def test_greedy_and_bias(self):
        logits = self.ctx.logits()
        best = max(range(len(logits)), key=logits.__getitem__)
        self.assertEqual(cohort.Sampler(self.model, temperature=0).sample(self.ctx), best)
        self.assertNotEqual(cohort.Sampler(self.model, temperature=0, bias={best: -math.inf}).sample(self.ctx), best)
        self.assertEqual(cohort.Sampler(self.model, order="top_k", top_k=1).sample(self.ctx), best)
        with self.assertRaises(cohort.Error):
            cohort.Sampler(self.model, order="no_such_stage")
        with self.assertRaises(cohort.Error):
            cohort.Sampler(self.model, min_p=2)
        for name in "n_bias", "n_order", "n_dry_breakers", "lexicon", "struct_size":  # pointers, and lengths of theirs
            with self.assertRaises(TypeError):
                cohort.Sampler(self.model, **{name: 3})
        s = cohort.Sampler(self.model, dry_multiplier=0.8, dry_breakers=["\n", ":"], penalty_last_n=-1)
        s.prompt([1, 2, 3])
        s.sample(self.ctx)

    def test_grammar(self):
        g = cohort.Grammar(self.model, 'root ::= "yes" | "no"')
        self.assertEqual((g.match("ye"), g.match("no"), g.match("nay")), ((2, False), (2, True), (1, False)))
        s = cohort.Sampler(self.model, grammar=g, seed=1)
        g.close()  # the sampler keeps it, and its clones do
        s = s.clone()
        gc.collect()
        text, d = b"", self.model.detok()
        while True:
            token = s.draw(self.ctx)
            if self.model.is_eog(token):
                break
            s.accept(token)
            text += d.push(token)
            self.assertLess(len(text), 9)
        self.assertIn(text, (b"yes", b"no"))
        self.assertTrue(s.is_complete)
        with self.assertRaises(cohort.Error) as r:
            cohort.Grammar(self.model, 'root ::= "yes" |\nx ::= (')
        self.assertEqual(r.exception.status, abi.COHORT_E_FORMAT)
        with self.assertRaises(cohort.Error) as r:
            cohort.Grammar.from_schema(self.model, {"type": "nothing"})
        gbnf = cohort.schema_to_gbnf({"type": "boolean"})
        self.assertTrue(cohort.Grammar(self.model, gbnf).match("true")[1])

    def test_clone_of_closed(self):
        """A grammar that was closed lives as long as its sampler, and that one's copies."""
        # Seen red with parents that have to be open: the copy was refused, and the grammar freed under the sampler.
        g = cohort.Grammar(self.model, "root ::= [a-z ]+")
        freed, free = [], g._free
        g._free = lambda p: (freed.append(p), free(p))
        a = cohort.Sampler(self.model, grammar=g, seed=1)
        g.close()
        b = a.clone()
        a.close()
        gc.collect()
        self.assertEqual(freed, [])
        self.assertTrue(self.model.piece(b.sample(self.ctx)))
        b.close()
        self.assertEqual(len(freed), 1)


class Engines(WithModel):
    def open(self, **options):
        e = cohort.Engine(self.model, **dict({"n_slots": 4, "n_ctx": 1024}, **options))
        self.addCleanup(e.close)
        return e

    def test_many_threads(self):
        """Twelve threads on four slots: each reads what it reads alone."""
        engine = self.open()
        said = {}

        def ask(i, into):
            with engine.submit(PROMPT, max_tokens=12, seed=i) as r:
                into[i] = b"".join(e.text for e in r)

        threads = [threading.Thread(target=ask, args=(i, said)) for i in range(12)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        alone = {}
        for i in range(0, 12, 3):
            ask(i, alone)
            self.assertEqual(said[i], alone[i])
        self.assertGreater(len(set(said.values())), 3)
        self.assertEqual(engine.stats()["n_submitted"], 16)

    def test_events(self):
        engine = self.open(strategy="balanced")
        r = engine.submit(PROMPT, max_tokens=6, n_outputs=2, seed=3, n_logprobs=2, prompt_logprobs=True,
                          chain_logprobs=True)
        events = list(r)
        self.assertIsNone(r.next())
        tokens = [e for e in events if e.kind == "token"]
        self.assertEqual(len(tokens), 12)
        self.assertEqual({e.output for e in tokens}, {0, 1})
        self.assertTrue(all(len(e.top) == 2 and e.logprob <= 0 for e in tokens))
        self.assertEqual([e.finish for e in events if e.kind == "end"], ["length", "length"])
        self.assertTrue(all(e.chain_logprob <= 0 for e in tokens))
        self.assertTrue(any(e.chain_logprob > e.logprob for e in tokens))  # among fewer: likelier
        prompt = [e for e in events if e.kind == "prompt"][0]
        n = len(self.model.tokenize(PROMPT))
        self.assertEqual((len(prompt.prompt_logprobs), [len(t) for t in prompt.prompt_top]), (n, [2] * n))
        self.assertEqual(prompt.prompt_top[0], ((-1, -math.inf),) * 2)
        self.assertTrue(all(a[1] >= b[1] and a[1] >= p
                            for (a, b), p in zip(prompt.prompt_top[1:], prompt.prompt_logprobs[1:])))
        for i in 0, 1:
            o = r.output(i)
            self.assertEqual(o.text, b"".join(e.text for e in events if e.output == i))
            self.assertEqual(o.tokens, [e.token for e in tokens if e.output == i])
        self.assertEqual(r.stats().n_generated, 12)
        r.close()
        self.assertRaises(ValueError, r.next)  # as all that is closed; it had said None, as if it could be asked
        self.assertEqual(engine.stats()["strategy"], "balanced")
        ended = engine.stats()["n_ended"]
        self.assertEqual((ended["length"], sum(ended.values())), (1, 1))
        self.assertIn("balanced", cohort.strategies())
        self.assertRaises(ValueError, self.open, strategy="none")

    def test_stop_and_grammar(self):
        engine = self.open()
        full = engine.submit(PROMPT, max_tokens=20, temperature=0).text()
        cut = engine.submit(PROMPT, max_tokens=20, temperature=0, stop=["time", " a "])
        self.assertEqual(cut.text(), full[:full.index(" a ")])
        self.assertEqual(cut.output().finish, "stop")
        one = engine.submit(PROMPT, max_tokens=20, temperature=0, stop=" a ")  # not " " or "a"
        self.assertEqual(one.text(), full[:full.index(" a ")])
        self.assertRaises(ValueError, engine.submit, PROMPT, stop=["time\0x"])
        g = cohort.Grammar.from_schema(self.model, {"enum": ["red", "green"]})
        r = engine.submit("A colour:", grammar=g, seed=2)
        g.close()  # the request holds it until it is closed
        self.assertIn(r.text(), ('"red"', '"green"'))
        self.assertRaises(ValueError, engine.submit, "x", grammar=g)
        # One that is closed as it runs: its grammar is freed behind it. Seen red without the wait in _free: it hangs.
        for _ in range(20):
            g = cohort.Grammar(self.model, "root ::= [a-z ]+")
            r = engine.submit(PROMPT, grammar=g, max_tokens=500)
            g.close()
            r.next()
            r.close()

    def test_cancel(self):
        engine = self.open()
        r = engine.submit(PROMPT, max_tokens=900, ignore_eos=True)
        self.assertEqual(r.next().kind, "token")
        threading.Timer(0.05, r.cancel).start()
        end = [e for e in r if e.kind == "end"]
        self.assertEqual(end[0].finish, "cancelled")
        # Closed while another thread waits for it: the reader ends, nothing is used after it is freed.
        r = engine.submit(PROMPT, max_tokens=900, ignore_eos=True)
        seen = []

        def read():
            try:
                seen.extend(r)
            except ValueError:
                pass

        t = threading.Thread(target=read)
        t.start()
        time.sleep(0.05)
        r.close()
        t.join(10)
        self.assertFalse(t.is_alive())
        self.assertRaises(ValueError, r.next)

    def test_refused(self):
        engine = self.open(queue_requests_max=1)
        with self.assertRaises(cohort.Error) as r:
            engine.submit(PROMPT, max_tokens=5000)
        self.assertEqual((r.exception.status, r.exception.rule), (abi.COHORT_E_LIMIT, "context"))
        for name in "max_token", "n_stops", "adapter", "on_event", "user":
            with self.assertRaises(TypeError):
                engine.submit(PROMPT, **{name: 5})
        with self.assertRaises(cohort.Error):
            engine.submit([])

    def test_timeout(self):
        r = self.open().submit(PROMPT, max_tokens=200, ignore_eos=True)
        with self.assertRaises(TimeoutError):  # sooner or later: whoever reads is faster than the engine
            while r.next(0):
                pass

    def test_keeps_its_engine(self):
        def submitted():
            return cohort.Engine(self.model, n_slots=1, n_ctx=256).submit(PROMPT, max_tokens=20, ignore_eos=True)

        r = submitted()
        gc.collect()
        r.wait()
        self.assertEqual(r.output().finish, "length")  # seen red without: "shutdown", and half a text

    def test_shutdown(self):
        engine = self.open()
        r = engine.submit(PROMPT, max_tokens=900, ignore_eos=True)
        r.next()
        engine.close()
        self.assertEqual([e.finish for e in r if e.kind == "end"], ["shutdown"])
        self.assertRaises(ValueError, engine.submit, PROMPT)
        engine = self.open()
        r = engine.submit(PROMPT, max_tokens=4)
        self.assertTrue(engine.drain())
        self.assertEqual(r.output().finish, "length")
        self.assertRaises(cohort.Error, engine.submit, PROMPT)

    def test_left(self):
        # Text is made from the vocabulary as it is read. Seen red (the process dies) when requests did not hold the
        # model.
        def leave():
            model = cohort.Model(MODEL)
            engine = cohort.Engine(model, n_slots=2, n_ctx=512)
            tokens = model.tokenize(PROMPT)
            model.close()  # the engine holds it
            requests = [engine.submit(tokens, max_tokens=8, seed=3) for _ in range(2)]
            engine.drain()
            want = requests[0].text()
            engine.close()
            return want, requests[1]

        want, r = leave()
        gc.collect()
        self.assertEqual(r.text(), want)

    def test_embeddings(self):
        engine = self.open(outputs=cohort.OUTPUT_LOGITS | cohort.OUTPUT_EMBEDDINGS)
        with open(os.environ["COHORT_NPY"], "rb") as f:
            want = f.read()
        got = b"".join(engine.embed(t).tobytes() for t in EMBEDDED)
        self.assertEqual(want[-len(got):], got)
        with cohort.Context(self.model, n_ctx=256, outputs=cohort.OUTPUT_EMBEDDINGS, pooling=cohort.POOL_MEAN) as ctx:
            ctx.decode_many(self.model.tokenize(EMBEDDED[0]))
            self.assertEqual(ctx.embeddings_seq(0).tobytes(), got[:len(got) // 2])
        with self.assertRaises(cohort.Error):
            self.open().embed("x")


class Result(unittest.TestResult):
    """A line for each test: the script counts them."""

    def addSuccess(self, test):
        print("ok", test.id().split(".", 1)[1], flush=True)

    def _bad(self, test, err):
        print("bad", test.id().split(".", 1)[1], flush=True)
        print(self._exc_info_to_string(err, test), file=sys.stderr)

    addFailure = addError = _bad


if __name__ == "__main__":
    suite = unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"])
    print("plan", suite.countTestCases(), flush=True)
    suite.run(Result())
