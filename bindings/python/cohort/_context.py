"""Batches, contexts and samplers. Each belongs to one thread at a time: a lock of its own makes others wait."""

from __future__ import annotations

import ctypes
import threading
from array import array
from contextlib import ExitStack, contextmanager
from ctypes import byref
from typing import Any, Callable, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union

from . import _abi as abi
from ._lib import (Handle, Text, call, checked, cstring, fill, lib, opened, path_bytes, strings_array, tokens_array)
from ._model import Grammar, Model

SEQ_ALL = abi.COHORT_SEQ_ALL


class _Locked(Handle):
    """A handle that one call at a time uses. A callback may not use the handle that called it."""

    def __init__(self, *args: Any) -> None:
        self._own = threading.Lock()
        self._owner: Optional[int] = None
        super().__init__(*args)

    @contextmanager
    def _use(self) -> Iterator[Any]:
        me = threading.get_ident()
        if self._owner == me:
            raise RuntimeError("the %s is in use by the call that called this" % self._name)
        with super()._use() as p, self._own:
            self._owner = me
            try:
                yield p
            finally:
                self._owner = None


class Batch(_Locked):
    """Rows to decode: a token or a vector, a position, sequence ids, and whether its output is wanted."""

    _name = "batch"

    def __init__(self, max_tokens: int = 512, n_embd: int = 0, n_seq_max: int = 1) -> None:
        self._open(lib.cohort_batch_init, max_tokens, n_embd, n_seq_max)

    def _open(self, f: Any, *args: Any) -> None:
        b = abi.cohort_batch()
        call(f, byref(b), *args)
        super().__init__(b, lambda b: lib.cohort_batch_release(byref(b)))

    @classmethod
    def from_tokens(cls, tokens: Sequence[int]) -> "Batch":
        """Bare tokens, copied: decode fills in sequence 0, the positions that come next, and output for the last."""
        b = cls.__new__(cls)
        b._open(lib.cohort_batch_from_tokens, tokens_array(tokens), len(tokens))
        return b

    def add(self, token: int, pos: int, seqs: Union[int, Sequence[int]] = 0, output: bool = False) -> None:
        ids = tokens_array([seqs] if isinstance(seqs, int) else seqs)
        with self._use() as b:
            call(lib.cohort_batch_add, byref(b), token, pos, ids, len(ids), output)

    def add_vector(self, vector: Sequence[float], pos: int, seqs: Union[int, Sequence[int]] = 0,
                   output: bool = False) -> None:
        ids = tokens_array([seqs] if isinstance(seqs, int) else seqs)
        with self._use() as b:
            if len(vector) != b.n_embd:
                raise ValueError("a vector of %d floats; the batch has rows of %d" % (len(vector), b.n_embd))
            floats = (ctypes.c_float * len(vector))(*vector)
            call(lib.cohort_batch_add_embd, byref(b), floats, tokens_array([pos]), ids, len(ids), output)

    def __len__(self) -> int:
        with self._use() as b:
            return int(lib.cohort_batch_size(byref(b)))

    def reset(self) -> None:
        """No rows; the room stays."""
        with self._use() as b:
            lib.cohort_batch_reset(byref(b))

    def dump(self) -> str:
        """The rows as text, one line each."""
        with self._use() as b:
            n = lib.cohort_batch_dump(byref(b), None, 0)
            out = ctypes.create_string_buffer(n + 1)
            lib.cohort_batch_dump(byref(b), out, n + 1)
        return out.value.decode()


class Row(NamedTuple):
    """An item of Context.decode_each."""
    token: int
    pos: int
    seq: int
    want: bool = True


class Span(NamedTuple):
    """An item of Context.decode_scatter: pos is that of the first token, want asks for the output of the last."""
    tokens: Sequence[int]
    pos: int
    seq: int
    want: bool = True


class Usage(NamedTuple):
    block_size: int
    n_blocks: int
    n_used: int
    n_shared: int
    n_free: int
    block_bytes: int
    used_bytes: int
    n_seqs: int


class Counters(NamedTuple):
    n_decode: int
    n_prefill_rows: int
    n_decode_rows: int
    prefill_s: float
    decode_s: float


class Context(_Locked):
    """Sequences of a model, and decoding. Options are the fields of struct cohort_context_params by name. abort is asked
    before every layer and ends the call by returning True (or by raising, which is passed on)."""

    _name = "context"

    def __init__(self, model: Model, *, abort: Optional[Callable[[], bool]] = None,
                 trace: Optional[Callable[[str], None]] = None, **options: Any) -> None:
        p = abi.cohort_context_params()
        lib.cohort_context_params_init(byref(p))
        fill((p,), options)
        kinds = dict(p._fields_)
        self._raised: List[BaseException] = []
        raised = self._raised  # no reference to self: it would live as long as its callback

        def on_abort(_user: Any) -> bool:
            try:
                return bool(abort())  # type: ignore[misc]
            except BaseException as e:
                raised.append(e)
                return True

        def on_trace(text: Any, _user: Any) -> None:
            try:
                trace((ctypes.cast(text, ctypes.c_char_p).value or b"").decode())  # type: ignore[misc]
            except BaseException as e:
                raised.append(e)

        if abort is not None:
            p.abort = kinds["abort"](on_abort)
        if trace is not None:
            p.trace = kinds["trace"](on_trace)
        self._callbacks = (p.abort, p.trace)  # the library calls them as long as the context lives
        with model._use() as m:
            super().__init__(opened(lib.cohort_context_open, m, byref(p)), lib.cohort_context_free, (model,))
        self.model = model
        i = abi.cohort_context_info()
        with self._use() as c:
            lib.cohort_context_info_get(c, byref(i))
        self.n_ctx, self.n_batch, self.n_ubatch = i.n_ctx, i.n_batch, i.n_ubatch
        self.n_seq_max, self.n_threads = i.n_seq_max, i.n_threads

    def _call(self, f: Any, *args: Any) -> None:
        with self._use() as c:
            del self._raised[:]
            try:
                call(f, c, *args)
            finally:
                if self._raised:
                    del self._raised[1:]
                    raise self._raised.pop()  # kept, it would keep the context: its traceback knows this frame

    # Decoding. All or nothing: after an error every sequence is as before.

    def decode(self, batch: Batch) -> None:
        with batch._use() as b:
            self._call(lib.cohort_decode, byref(b))

    def encode(self, batch: Batch) -> None:
        """Without cache and causality, for embeddings."""
        with batch._use() as b:
            self._call(lib.cohort_encode, byref(b))

    def check(self, batch: Batch) -> None:
        """Raises what decode would, but for a lack of room."""
        with batch._use() as b:
            self._call(lib.cohort_check, byref(b))

    def decode_one(self, token: int, pos: int, seq: int = 0, want: bool = True) -> None:
        self._call(lib.cohort_decode_one, token, pos, seq, want)

    def decode_many(self, tokens: Sequence[int], n_past: int = 0, seq: int = 0) -> None:
        """Any number of tokens of a sequence from position n_past on; output for the last."""
        self._call(lib.cohort_decode_many, tokens_array(tokens), len(tokens), n_past, seq)

    def decode_each(self, rows: Iterable[Tuple[int, int, int, bool]]) -> None:
        """A token of each of several sequences: Row, or tuples like it. Row i has output i."""
        items = [Row(*r) for r in rows]
        raw = (abi.cohort_each_item * len(items))()
        for r, s in zip(raw, items):
            r.token, r.pos, r.seq = tokens_array((s.token, s.pos, s.seq))
            r.want = s.want
        self._call(lib.cohort_decode_each, raw, len(items), None)

    def decode_scatter(self, spans: Iterable[Tuple[Sequence[int], int, int, bool]]) -> List[int]:
        """Tokens of several sequences: Span, or tuples like it. Returns the output index of each span's last token; one
        without tokens is skipped, and its index says nothing."""
        items = [Span(*s) for s in spans]
        arrays = [tokens_array(s.tokens) for s in items]
        raw = (abi.cohort_scatter_item * len(items))()
        index, indexes = 0, []
        for r, s, a in zip(raw, items, arrays):
            r.tokens = ctypes.cast(a, ctypes.POINTER(ctypes.c_int32))
            r.pos, r.seq = tokens_array((s.pos, s.seq))
            r.n_tokens, r.want = len(a), s.want
            index += len(a)
            indexes.append(index - 1)
        self._call(lib.cohort_decode_scatter, raw, len(items), None)
        return indexes

    def warm_up(self, n_seq_tokens: int = 1, n_seqs: int = 1) -> None:
        self._call(lib.cohort_warm_up, n_seq_tokens, n_seqs)

    # Outputs of the last decode, copied.

    @property
    def n_outputs(self) -> int:
        with self._use() as c:
            return int(lib.cohort_n_outputs(c))

    def _floats(self, f: Any, i: int, n: int) -> "array[float]":
        with self._use() as c:
            p = checked(f, c, i)
            return array("f", ctypes.string_at(p, 4 * n))

    def logits(self, i: int = -1) -> "array[float]":
        """Of row i of the last decode; -1: of the last output. An array of n_vocab floats, a copy."""
        return self._floats(lib.cohort_logits_get, i, self.model.info.n_vocab)

    def embeddings(self, i: int = -1) -> "array[float]":
        return self._floats(lib.cohort_embeddings_get, i, self.model.info.n_embd)

    def embeddings_seq(self, seq: int) -> "array[float]":
        """The pooled embedding of a sequence."""
        return self._floats(lib.cohort_embeddings_seq_get, seq, self.model.info.n_embd)

    # Sequences

    def seq_rm(self, seq: int, p0: int = 0, p1: int = -1) -> None:
        self._call(lib.cohort_seq_rm, seq, p0, p1)

    def seq_cp(self, src: int, dst: int, p0: int = 0, p1: int = -1) -> None:
        self._call(lib.cohort_seq_cp, src, dst, p0, p1)

    def seq_keep(self, seq: int) -> None:
        self._call(lib.cohort_seq_keep, seq)

    def seq_add(self, seq: int, p0: int, p1: int, delta: int) -> None:
        self._call(lib.cohort_seq_add, seq, p0, p1, delta)

    def seq_checkpoint(self, seq: int) -> None:
        self._call(lib.cohort_seq_checkpoint, seq)

    def seq_clear(self) -> None:
        with self._use() as c:
            lib.cohort_seq_clear(c)

    def seq_len(self, seq: int) -> int:
        """The position where the sequence goes on."""
        with self._use() as c:
            return int(lib.cohort_seq_pos_max(c, seq)) + 1

    def usage(self) -> Usage:
        u = abi.cohort_usage()
        with self._use() as c:
            lib.cohort_usage_get(c, byref(u))
        return Usage(*[getattr(u, f) for f in Usage._fields])

    def counters(self) -> Counters:
        n = abi.cohort_counters()
        with self._use() as c:
            lib.cohort_counters_get(c, byref(n))
        return Counters(*[getattr(n, f) for f in Counters._fields])

    # Saved states

    def save(self, seq: int = SEQ_ALL) -> bytes:
        with self._use() as c:
            out = ctypes.create_string_buffer(lib.cohort_state_size(c, seq))
            n = ctypes.c_size_t()
            call(lib.cohort_state_save, c, seq, out, len(out), byref(n))
            return out.raw[:n.value]

    def restore(self, state: bytes, seq: int = SEQ_ALL) -> None:
        self._call(lib.cohort_state_restore, seq, bytes(state), len(state))

    def save_file(self, path: Any, seq: int = SEQ_ALL) -> None:
        self._call(lib.cohort_state_save_file, seq, path_bytes(path))

    def restore_file(self, path: Any, seq: int = SEQ_ALL) -> None:
        self._call(lib.cohort_state_restore_file, seq, path_bytes(path))

    def score(self, tokens: Sequence[int], seq: int = 0) -> Tuple[float, "array[float]"]:
        """Perplexity of a text, and the log-probability of each of its tokens. The sequence must be empty."""
        out = (ctypes.c_float * len(tokens))()
        s = abi.cohort_score()
        self._call(lib.cohort_score_text, seq, tokens_array(tokens), len(tokens), out, byref(s))
        return s.perplexity, array("f", bytes(out))


def sampler_params(p: abi.cohort_sampler_params, options: Dict[str, Any], stack: ExitStack, *, order: Optional[str],
                   bias: Optional[Dict[int, float]], grammar: Optional[Grammar],
                   dry_breakers: Union[Text, Sequence[Text]], model: Model) -> Tuple[List[Any], List[Handle]]:
    """Fills p; returns what has to live while p is used, and the handles that have to outlive the sampler. These are in
    use until the stack ends: by then the sampler holds them."""
    keep: List[Any] = []
    handles: List[Handle] = []
    fill((p,), options)
    if order is not None:
        call(lib.cohort_sampler_order_parse, byref(p), cstring(order))
    if bias:
        keep.append((abi.cohort_logit_bias * len(bias))(*zip(tokens_array(list(bias)), bias.values())))
        p.bias, p.n_bias = keep[-1], len(bias)
    if grammar is not None:
        handles.append(grammar)
        p.grammar = stack.enter_context(grammar._use())
    if dry_breakers:
        lexicon = model._lexicon_get()
        handles.append(lexicon)
        p.lexicon = stack.enter_context(lexicon._use())
        keep.append(strings_array(dry_breakers))
        p.dry_breakers = ctypes.cast(keep[-1], ctypes.POINTER(ctypes.c_char_p))
        p.n_dry_breakers = len(keep[-1])
    return keep, handles


class Sampler(_Locked):
    """Logits to tokens. Options are the fields of struct cohort_sampler_params by name: seed, stream, temperature, ...;
    order is a list of stages as text ("top_k,temperature"), bias maps tokens to what is added to their logits."""

    _name = "sampler"

    def __init__(self, model: Model, *, order: Optional[str] = None, bias: Optional[Dict[int, float]] = None,
                 grammar: Optional[Grammar] = None, dry_breakers: Union[Text, Sequence[Text]] = (),
                 **options: Any) -> None:
        p = abi.cohort_sampler_params()
        lib.cohort_sampler_params_init(byref(p))
        with ExitStack() as stack:
            keep, handles = sampler_params(p, options, stack, order=order, bias=bias, grammar=grammar,
                                           dry_breakers=dry_breakers, model=model)
            pointer = opened(lib.cohort_sampler_open, byref(p), model.n_vocab)
            super().__init__(pointer, lib.cohort_sampler_free, tuple(handles))
        self.n_vocab = model.n_vocab

    def clone(self) -> "Sampler":
        """A second one that goes on exactly as this would."""
        s = Sampler.__new__(Sampler)
        with self._use() as p:
            _Locked.__init__(s, opened(lib.cohort_sampler_clone, p), lib.cohort_sampler_free, self._parents)
        s.n_vocab = self.n_vocab
        return s

    def _pick(self, f: Any, source: Any, i: int) -> int:
        out = ctypes.c_int32()
        if isinstance(source, Context):
            if source.model.n_vocab != self.n_vocab:
                raise ValueError("the sampler is for %d tokens, the context has %d" % (self.n_vocab, source.model.n_vocab))
            with source._use() as c, self._use() as s:
                call(f, s, checked(lib.cohort_logits_get, c, i), byref(out))
        else:
            if len(source) != self.n_vocab:
                raise ValueError("%d logits; the sampler is for %d" % (len(source), self.n_vocab))
            with self._use() as s:
                call(f, s, (ctypes.c_float * self.n_vocab)(*source), byref(out))
        return out.value

    def sample(self, source: Union[Context, Sequence[float]], i: int = -1) -> int:
        """Picks a token from output i of a context, or from logits, and accepts it."""
        return self._pick(lib.cohort_sampler_sample, source, i)

    def draw(self, source: Union[Context, Sequence[float]], i: int = -1) -> int:
        """The same without accepting it."""
        return self._pick(lib.cohort_sampler_draw, source, i)

    def accept(self, token: int) -> None:
        """For tokens that others chose, or draw did."""
        with self._use() as s:
            call(lib.cohort_sampler_accept, s, token)

    def prompt(self, tokens: Sequence[int]) -> None:
        """Penalties remember these; the grammar does not see them."""
        with self._use() as s:
            call(lib.cohort_sampler_prompt, s, tokens_array(tokens), len(tokens))

    def reset(self) -> None:
        with self._use() as s:
            lib.cohort_sampler_reset(s)

    def reseed(self, seed: int, stream: int = 0) -> None:
        with self._use() as s:
            lib.cohort_sampler_reseed(s, seed, stream)

    @property
    def is_complete(self) -> bool:
        """Whether the grammar lets the text end here; True without one."""
        with self._use() as s:
            return bool(lib.cohort_sampler_is_complete(s))
