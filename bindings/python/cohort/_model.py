"""Models, tokens, and grammars over a model's vocabulary."""

from __future__ import annotations

import ctypes
import json
import os
import threading
from ctypes import byref
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

from . import _abi as abi
from ._lib import (Handle, Text, borrow, call, cstring, fill, lib, opened, path_bytes, strings_array, text_bytes,
                   tokens_array)


class ModelInfo(NamedTuple):
    arch: str
    name: str
    isa: str
    tokenizer: str
    pretokenizer: str
    note: str
    n_vocab: int
    n_embd: int
    n_layer: int
    n_head: int
    n_head_kv: int
    n_ff: int
    head_k: int
    head_v: int
    n_ctx_train: int
    n_params: int
    weight_bytes: int
    packed_bytes: int
    encoder: bool
    recurrent: bool
    pooling: int
    n_window: int


class Model(Handle):
    """A GGUF file. May be shared by threads. Options are the numbers and flags of struct cohort_model_params by name;
    adapters are LoRA files, or pairs of a file and how strongly it is applied. progress is called with 0 .. 1 and ends
    the loading by returning False."""

    _name = "model"

    def __init__(self, path: Union[str, bytes, "os.PathLike[Any]"], *, isa: Optional[str] = None,
                 adapters: Sequence[Any] = (), progress: Optional[Callable[[float], Optional[bool]]] = None,
                 **options: Any) -> None:
        p = abi.cohort_model_params()
        lib.cohort_model_params_init(byref(p))
        fill((p,), options)
        keep: List[Any] = []
        if isa is not None:
            keep.append(ctypes.create_string_buffer(cstring(isa)))
            p.isa = ctypes.cast(keep[-1], ctypes.POINTER(ctypes.c_char))
        if adapters:
            pairs = [a if isinstance(a, tuple) else (a, 1.0) for a in adapters]
            files = strings_array([path_bytes(a) for a, _ in pairs])
            scales = (ctypes.c_float * len(pairs))(*[s for _, s in pairs])
            keep += [files, scales]
            p.adapters = ctypes.cast(files, ctypes.POINTER(ctypes.c_char_p))
            p.adapter_scales = ctypes.cast(scales, ctypes.POINTER(ctypes.c_float))
            p.n_adapters = len(pairs)
        raised: List[BaseException] = []
        if progress is not None:
            def on_progress(done: float, _user: Any) -> bool:
                try:
                    return progress(done) is not False  # type: ignore[misc]
                except BaseException as e:
                    raised.append(e)
                    return False
            p.progress = dict(p._fields_)["progress"](on_progress)
        try:
            pointer = opened(lib.cohort_model_open, path_bytes(path), byref(p))
        except Exception:
            if raised:
                raise raised[0]
            raise
        super().__init__(pointer, lib.cohort_model_free)
        self._path = path_bytes(path)
        self._lexicon: Optional[Handle] = None
        self._lexicon_lock = threading.Lock()
        i = abi.cohort_model_info()
        lib.cohort_model_info_get(pointer, byref(i))
        values = [getattr(i, f) for f in ModelInfo._fields]
        self.info = ModelInfo(*[v if isinstance(v, (int, bool)) else borrow(v) for v in values])

    @property
    def n_vocab(self) -> int:
        return self.info.n_vocab

    @property
    def bos(self) -> int:
        """The token that begins a text; -1: none."""
        with self._use() as m:
            return int(lib.cohort_token_bos(m))

    @property
    def eos(self) -> int:
        with self._use() as m:
            return int(lib.cohort_token_eos(m))

    def is_eog(self, token: int) -> bool:
        """Whether it ends a generation."""
        with self._use() as m:
            return bool(lib.cohort_token_is_eog(m, token))

    def tokenize(self, text: Text, *, bos: Optional[bool] = None, special: bool = False) -> List[int]:
        """bos: in front always, never, or (None) as the model wants it. special: texts of special tokens become them."""
        data = text_bytes(text)
        flags = abi.COHORT_TOKENIZE_SPECIAL if special else 0
        if bos is not None:
            flags |= abi.COHORT_TOKENIZE_BOS if bos else abi.COHORT_TOKENIZE_NO_BOS
        n = ctypes.c_size_t(lib.cohort_tokenize_bound(len(data)))
        with self._use() as m:
            while True:
                room = n.value
                out = (ctypes.c_int32 * room)()
                e = abi.cohort_err()
                status = lib.cohort_tokenize(m, data, len(data), flags, out, room, byref(n), byref(e))
                if status == abi.COHORT_E_LIMIT and n.value > room:
                    continue
                if status:
                    call(lib.cohort_tokenize, m, data, len(data), flags, out, room, byref(n))
                return list(out[:n.value])

    def detokenize(self, tokens: Sequence[int], *, special: bool = False) -> bytes:
        """The text of tokens that begin one: the inverse of tokenize, byte for byte."""
        array = tokens_array(tokens)
        n = ctypes.c_size_t()
        with self._use() as m:
            e = abi.cohort_err()
            lib.cohort_detokenize(m, array, len(array), special, None, 0, byref(n), byref(e))
            out = ctypes.create_string_buffer(n.value + 1)
            call(lib.cohort_detokenize, m, array, len(array), special, out, n.value, byref(n))
        return out.raw[:n.value]

    def piece(self, token: int, *, leading_space: bool = True, special: bool = False) -> bytes:
        """The text of one token."""
        n = ctypes.c_size_t()
        with self._use() as m:
            e = abi.cohort_err()
            lib.cohort_token_piece(m, token, leading_space, special, None, 0, byref(n), byref(e))
            out = ctypes.create_string_buffer(n.value + 1)
            call(lib.cohort_token_piece, m, token, leading_space, special, out, n.value, byref(n))
        return out.raw[:n.value]

    def detok(self, *, special: bool = False, at_start: bool = False) -> "Detok":
        return Detok(self, special=special, at_start=at_start)

    def close(self) -> None:
        lexicon = getattr(self, "_lexicon", None)
        if lexicon is not None:
            lexicon.close()
        super().close()

    def _lexicon_get(self) -> Handle:
        with self._lexicon_lock:
            if self._lexicon is None or self._lexicon.closed:
                with self._use() as m:
                    self._lexicon = Handle(opened(lib.cohort_lexicon_open, m), lib.cohort_lexicon_free)
            return self._lexicon


class Detok:
    """Tokens to bytes as they come, in whole characters. at_start: they begin a text; False: they continue one."""

    def __init__(self, model: Model, *, special: bool = False, at_start: bool = False) -> None:
        self._model = model
        self._d = abi.cohort_detok()
        with model._use() as m:
            lib.cohort_detok_init(byref(self._d), m, special, at_start)
        self._out = ctypes.create_string_buffer(256)

    def push(self, token: int) -> bytes:
        n = ctypes.c_size_t()
        with self._model._use():
            e = abi.cohort_err()
            status = lib.cohort_detok_push(byref(self._d), token, self._out, len(self._out), byref(n), byref(e))
            if status == abi.COHORT_E_LIMIT:
                self._out = ctypes.create_string_buffer(n.value)
            if status:
                call(lib.cohort_detok_push, byref(self._d), token, self._out, len(self._out), byref(n))
        return self._out.raw[:n.value]

    def flush(self) -> bytes:
        """What was held back: an unfinished character."""
        out = ctypes.create_string_buffer(4)
        with self._model._use():
            n = lib.cohort_detok_flush(byref(self._d), out)
        return out.raw[:n]


class ChatTemplate(Handle):
    """How a model writes conversations: the chat template in its file, or the Jinja text that is given
    (docs/templates.md). May be shared by threads."""

    _name = "chat template"

    def __init__(self, model: Model, source: Optional[Text] = None) -> None:
        data = text_bytes(source) if source is not None else self._of_file(model._path)
        super().__init__(opened(lib.cohort_template_open, data, len(data)), lib.cohort_template_free)
        self.model = model

    @staticmethod
    def _of_file(path: bytes) -> bytes:
        kv = abi.cohort_gguf_kv()
        with Handle(opened(lib.cohort_gguf_open, path), lib.cohort_gguf_free) as file, file._use() as g:
            if not lib.cohort_gguf_kv_find(g, b"tokenizer.chat_template", byref(kv)):
                raise ValueError("%s has no chat template: give the source of one" % os.fsdecode(path))
            return ctypes.string_at(kv.value.str, kv.value.n_str)

    def _special(self, token: int) -> str:
        return self.model.piece(token, special=True).decode("utf-8", "replace") if token >= 0 else ""

    def render(self, messages: Sequence[Any], *, tools: Any = None, documents: Any = None,
               add_generation_prompt: bool = True, now: Optional[str] = None, **variables: Any) -> str:
        """The text of a conversation. messages: [{"role": "user", "content": "..."}, ...]; tools and documents as the
        model takes them; now: "2025-01-02T03:04:05" for templates that tell the date; variables: what else the
        template reads, such as enable_thinking=False."""
        p = abi.cohort_template_params()
        lib.cohort_template_params_init(byref(p))
        texts = {"messages": json.dumps(messages), "bos_token": self._special(self.model.bos),
                 "eos_token": self._special(self.model.eos), "now": now,
                 "tools": json.dumps(tools) if tools is not None else None,
                 "documents": json.dumps(documents) if documents is not None else None,
                 "extra": json.dumps(variables) if variables else None}
        keep = []
        for name, text in texts.items():
            if text is not None:
                keep.append(ctypes.create_string_buffer(cstring(text)))
                setattr(p, name, ctypes.cast(keep[-1], ctypes.POINTER(ctypes.c_char)))
        p.add_generation_prompt = add_generation_prompt
        out, n = ctypes.c_char_p(), ctypes.c_size_t()
        with self._use() as t:
            call(lib.cohort_template_render, t, byref(p), byref(out), byref(n))
        try:
            return ctypes.string_at(out, n.value).decode()
        finally:
            lib.cohort_template_text_free(out)

    def tokens(self, messages: Sequence[Any], **options: Any) -> List[int]:
        """The same as tokens, for a context or an engine. A begin token that the template writes is not there twice."""
        text, bos = self.render(messages, **options), self._special(self.model.bos)
        return self.model.tokenize(text, special=True, bos=False if bos and text.startswith(bos) else None)


class Grammar(Handle):
    """Which texts may be generated: GBNF (docs/sampling.md), or Grammar.from_schema. May be shared by threads."""

    _name = "grammar"

    def __init__(self, model: Model, gbnf: Text, *, root: Optional[str] = None) -> None:
        data = text_bytes(gbnf)
        self._open(model, lib.cohort_grammar_open, data, len(data), cstring(root) if root is not None else None)

    def _open(self, model: Model, f: Any, *args: Any) -> None:
        lexicon = model._lexicon_get()
        with lexicon._use() as x:
            super().__init__(opened(f, x, *args), lib.cohort_grammar_free, (lexicon,))

    @classmethod
    def from_schema(cls, model: Model, schema: Union[Text, Dict[str, Any], bool]) -> "Grammar":
        """The documents that a JSON schema describes."""
        data = text_bytes(schema if isinstance(schema, (str, bytes)) else json.dumps(schema))
        g = cls.__new__(cls)
        g._open(model, lib.cohort_grammar_open_schema, data, len(data))
        return g

    def match(self, text: Text) -> Tuple[int, bool]:
        """How many bytes of a text can be followed, and whether it is a whole one."""
        data = text_bytes(text)
        n, complete = ctypes.c_size_t(), ctypes.c_bool()
        with self._use() as g:
            call(lib.cohort_grammar_match, g, data, len(data), byref(n), byref(complete))
        return n.value, complete.value


def schema_to_gbnf(schema: Union[Text, Dict[str, Any], bool]) -> str:
    """A JSON schema as the text of a grammar."""
    data = text_bytes(schema if isinstance(schema, (str, bytes)) else json.dumps(schema))
    n = ctypes.c_size_t()
    e = abi.cohort_err()
    status = lib.cohort_schema_to_gbnf(data, len(data), None, 0, byref(n), byref(e))
    out = ctypes.create_string_buffer((n.value if status == abi.COHORT_E_LIMIT else 0) + 1)
    call(lib.cohort_schema_to_gbnf, data, len(data), out, len(out) - 1, byref(n))
    return out.raw[:n.value].decode()
