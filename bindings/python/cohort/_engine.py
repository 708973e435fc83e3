"""Continuous batching: an engine with a thread of its own, requests from any number of threads."""

from __future__ import annotations

import ctypes
from array import array
from contextlib import ExitStack
from ctypes import byref
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Union

from . import _abi as abi
from ._context import _Locked, sampler_params
from ._lib import (Aborted, Error, Handle, Text, borrow, call, cstring, error_of, fill, lib, opened, strings_array,
                   tokens_array)
from ._model import Grammar, Model

_WAIT_S = 0.1  # how long a call waits before Python looks for signals


class Event(NamedTuple):
    """What happened to a request. kind is "prompt", "token", "embedding" or "end"; text is what can be shown now. Pairs
    of top (of a token) and prompt_top (of each token of the prompt) are a token and its logprob, likeliest first."""
    kind: str
    output: int = 0
    index: int = 0
    token: int = -1
    text: bytes = b""
    logprob: float = 0.0
    top: tuple = ()
    prompt_logprobs: tuple = ()
    embedding: Optional["array[float]"] = None
    finish: str = ""
    error: Optional[Error] = None
    chain_logprob: float = 0.0
    prompt_top: tuple = ()


class Output(NamedTuple):
    """One of a request's continuations, as a whole."""
    text: bytes
    tokens: List[int]
    logprobs: Optional["array[float]"]
    finish: str
    error: Optional[Error]


class RequestStats(NamedTuple):
    id: int
    queued_s: float
    first_token_s: float
    end_s: float
    n_prompt: int
    n_cached: int
    n_generated: int
    n_parked: int
    tokens_per_s: float


_KINDS = {abi.COHORT_EVENT_PROMPT: "prompt", abi.COHORT_EVENT_TOKEN: "token", abi.COHORT_EVENT_EMBEDDING: "embedding",
          abi.COHORT_EVENT_END: "end"}


def _finish(finish: int) -> str:
    return lib.cohort_finish_name(finish).decode() if finish else ""


def _top(list_: Any, n: int) -> tuple:
    return tuple((t.token, t.logprob) for t in list_[:n]) if n else ()


def _event(e: abi.cohort_event) -> Event:
    """A copy: what the event points to is good until the next is asked for."""
    kind = _KINDS[e.kind]
    prompt = kind == "prompt"
    all_top = _top(e.prompt_top, e.n_prompt * e.n_top) if prompt else ()
    return Event(
        kind, e.output, e.index, e.token if kind == "token" else -1,
        ctypes.string_at(e.text, e.n_bytes) if kind in ("token", "end") else b"",
        e.logprob if kind == "token" else 0.0,
        _top(e.top, e.n_top) if kind == "token" else (),
        tuple(e.prompt_logprobs[:e.n_prompt]) if prompt else (),
        array("f", ctypes.string_at(e.embedding, 4 * e.n_embd)) if kind == "embedding" else None,
        _finish(e.finish) if kind == "end" else "",
        error_of(e.error.contents) if kind == "end" and e.error else None,
        e.chain_logprob if kind == "token" else 0.0,
        tuple(all_top[i:i + e.n_top] for i in range(0, len(all_top), e.n_top)) if all_top else ())


def _free(request: Any) -> None:
    """Gives the handle back once the request has ended: until then the engine uses its grammar."""
    lib.cohort_request_cancel(request)
    call(lib.cohort_request_wait, request, -1, None)
    lib.cohort_request_free(request)


class Request(_Locked):
    """A request that was submitted. Iterating gives its events as they come; one thread reads, any may cancel."""

    _name = "request"
    engine: "Engine"  # one that nobody has any more would stop, and end it
    _told = False  # the end was read

    def __iter__(self) -> Iterator[Event]:
        while True:
            e = self.next()
            if e is None:
                return
            yield e

    def next(self, timeout: float = -1) -> Optional[Event]:
        """The next event; None when there is none left, TimeoutError when none came within timeout seconds."""
        e = abi.cohort_event()
        while True:
            wait = _WAIT_S if timeout < 0 else min(timeout, _WAIT_S)
            with self._use() as r:
                if not self._told:
                    call(lib.cohort_request_next, r, wait, byref(e))
                    self._told = e.kind == abi.COHORT_EVENT_DONE
                if self._told:
                    return None
                if e.kind in _KINDS:
                    return _event(e)
            if timeout >= 0:
                timeout -= wait
                if timeout <= 0:
                    raise TimeoutError("no event came")

    def text(self, output: int = 0) -> str:
        """Waits for the end and gives the text of an output; raises what it failed with."""
        self.wait()
        o = self.output(output)
        if o.error is not None:
            raise o.error
        return o.text.decode("utf-8", "replace")

    def wait(self, timeout: float = -1) -> bool:
        """Waits until it has ended; whether it has."""
        done = ctypes.c_bool()
        while True:
            wait = _WAIT_S if timeout < 0 else min(timeout, _WAIT_S)
            with self._use() as r:
                call(lib.cohort_request_wait, r, wait, byref(done))
            if done.value:
                return True
            if timeout >= 0:
                timeout -= wait
                if timeout <= 0:
                    return False

    def output(self, i: int = 0) -> Output:
        """An output that has ended."""
        o = abi.cohort_output()
        with self._use() as r:
            call(lib.cohort_request_output_get, r, i, byref(o))
            return Output(ctypes.string_at(o.text, o.n_bytes), list(o.tokens[:o.n_tokens]),
                          array("f", ctypes.string_at(o.logprobs, 4 * o.n_tokens)) if o.logprobs else None,
                          _finish(o.finish), error_of(o.error.contents) if o.error else None)

    def cancel(self) -> None:
        """Ends it; what was said before stays. Any thread."""
        with Handle._use(self) as r:
            lib.cohort_request_cancel(r)

    def close(self) -> None:
        if not getattr(self, "_closed", True):
            try:
                self.cancel()  # whoever waits in next is let go at once
            except ValueError:
                pass
        super().close()

    def stats(self) -> RequestStats:
        s = abi.cohort_request_stats()
        with self._use() as r:
            lib.cohort_request_stats_get(r, byref(s))
        return RequestStats(*[getattr(s, f) for f in RequestStats._fields])


class Engine(Handle):
    """Many users of one model. Options are the fields of struct cohort_engine_params by name, and those of its context.
    strategy is the name of one that is built in. May be used by any number of threads."""

    _name = "engine"

    def __init__(self, model: Model, *, strategy: Optional[str] = None, **options: Any) -> None:
        p = abi.cohort_engine_params()
        lib.cohort_engine_params_init(byref(p))
        if options.get("manual"):
            raise TypeError("an engine of Python's has its own thread")
        fill((p, p.context), options)
        if strategy is not None:
            p.strategy = lib.cohort_strategy_find(cstring(strategy))
            if not p.strategy:
                raise ValueError("no strategy is called %s; there are: %s" % (strategy, ", ".join(strategies())))
        with model._use() as m:
            super().__init__(opened(lib.cohort_engine_open, m, byref(p)), lib.cohort_engine_free, (model,))
        self.model = model

    def submit(self, prompt: Union[Text, Sequence[int]], *, stop: Union[Text, Sequence[Text]] = (),
               stop_tokens: Sequence[int] = (), order: Optional[str] = None, bias: Optional[Dict[int, float]] = None,
               grammar: Optional[Grammar] = None, dry_breakers: Union[Text, Sequence[Text]] = (),
               **options: Any) -> Request:
        """Queues a request: a text (tokenised as the model wants it) or tokens. Options are the fields of struct
        cohort_request_params by name, and those of its sampler: max_tokens, n_outputs, seed, temperature, ..."""
        if isinstance(prompt, (str, bytes)):
            prompt = self.model.tokenize(prompt)
        p = abi.cohort_request_params()
        lib.cohort_request_params_init(byref(p))
        own = {n: options.pop(n) for n in list(options) if n in dict(p._fields_) and n != "sampler"}
        fill((p,), own)
        tokens, ends, stops = tokens_array(prompt), tokens_array(stop_tokens), strings_array(stop)
        p.prompt, p.n_prompt = tokens, len(tokens)
        if stop_tokens:
            p.stop_tokens, p.n_stop_tokens = ends, len(ends)
        if stop:
            p.stops, p.n_stops = ctypes.cast(stops, ctypes.POINTER(ctypes.c_char_p)), len(stops)
        with ExitStack() as stack:
            keep, handles = sampler_params(p.sampler, options, stack, order=order, bias=bias, grammar=grammar,
                                           dry_breakers=dry_breakers, model=self.model)
            e = stack.enter_context(self._use())
            pointer = opened(lib.cohort_engine_submit, e, byref(p))
            # Text is made from the model's vocabulary as it is read.
            r = Request(pointer, _free if handles else lib.cohort_request_free, (self.model, *handles))
            r.engine = self
            return r

    def embed(self, prompt: Union[Text, Sequence[int]], *, pooling: Optional[int] = None,
              **options: Any) -> "array[float]":
        """The embedding of a text, not normalised. The engine needs outputs with OUTPUT_EMBEDDINGS. pooling: POOL_MEAN,
        POOL_CLS or POOL_LAST; the model's own, else the mean, when it is not given."""
        if pooling is None:
            pooling = self.model.info.pooling or abi.COHORT_POOL_MEAN
        with self.submit(prompt, task=abi.COHORT_TASK_EMBED, pooling=pooling, **options) as r:
            for e in r:
                if e.embedding is not None:
                    return e.embedding
                if e.error is not None:
                    raise e.error
        raise Aborted(abi.COHORT_ABORTED, "the request ended without an embedding")

    def drain(self, timeout: float = -1) -> bool:
        """Takes no more requests and waits until all have ended; whether they did within timeout seconds."""
        clean = ctypes.c_bool()
        with self._use() as e:
            call(lib.cohort_engine_drain, e, timeout, byref(clean))
        return clean.value

    def stats(self) -> Dict[str, Any]:
        """Everything since it was opened, as struct cohort_engine_stats has it; n_ended by the name of the finish."""
        s = abi.cohort_engine_stats()
        with self._use() as e:
            lib.cohort_engine_stats_get(e, byref(s))
        out = {n: getattr(s, n) for n, kind in s._fields_ if issubclass(kind, ctypes._SimpleCData)}
        out["strategy"] = borrow(s.strategy)
        out["n_ended"] = {_finish(i): n for i, n in enumerate(s.n_ended) if i != abi.COHORT_FINISH_NONE}
        out["last"] = {n: getattr(s.last, n) for n, kind in s.last._fields_ if issubclass(kind, ctypes._SimpleCData)}
        return out

    def cache_clear(self) -> None:
        with self._use() as e:
            lib.cohort_engine_cache_clear(e)


def strategies() -> List[str]:
    """Names of the strategies that are built in; the first is the default."""
    return [borrow(lib.cohort_strategy_get(i).contents.name) for i in range(lib.cohort_strategy_count())]
