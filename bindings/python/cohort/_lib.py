"""The library itself: where it is, whether it fits, errors, and handles that are freed once and never too early.

What holds:
 1. A handle is freed when it was closed and nothing uses it: neither a call that is under way nor another handle. So
    closing a model whose context is open is no error: the context goes on, the model is freed behind it.
 2. What was closed raises ValueError when it is used.
"""

from __future__ import annotations

import ctypes
import os
import threading
from contextlib import contextmanager
from ctypes import byref
from typing import Any, Callable, Iterator, Optional, Sequence, Tuple, Union

from . import _abi as abi

Text = Union[str, bytes]

SONAME = "libcohort.so.0"  # its number is not the version's: docs/abi.md


class LibraryError(ImportError):
    """libcohort was not found, or is not the version that these bindings were made for."""


class Error(Exception):
    """A call of the library failed. The fields are those of struct cohort_err; rule is None when none was broken."""

    def __init__(self, status: int, text: str, rule: Optional[str] = None, row: int = -1, seq: int = -1,
                 expected: int = 0, got: int = 0, offset: int = -1) -> None:
        super().__init__(text)
        self.status = status
        self.text = text
        self.rule = rule
        self.row = row
        self.seq = seq
        self.expected = expected
        self.got = got
        self.offset = offset


class NoRoom(Error):
    """The KV cache has no room: try again with less, or after freeing."""


class Aborted(Error):
    """A callback of the caller's ended the call."""


def _candidates() -> Iterator[str]:
    named = os.environ.get("COHORT_LIBRARY")
    if named:
        yield named
        return
    here = os.path.dirname(os.path.abspath(__file__))
    own = os.path.join(here, SONAME)
    if os.path.exists(own):
        yield own
    yield SONAME


def _load() -> ctypes.CDLL:
    tried = []
    for path in _candidates():
        try:
            return ctypes.CDLL(path)
        except OSError as e:
            tried.append(str(e))
    raise LibraryError("libcohort was not found: %s. Install it, or set COHORT_LIBRARY to the path of libcohort.so"
                       % "; ".join(tried))


def _bind(lib: ctypes.CDLL) -> None:
    for name, (ret, params) in abi.FUNCTIONS.items():
        try:
            f = getattr(lib, name)
        except AttributeError:
            raise LibraryError("%s has no %s: it is not libcohort %d.%d"
                               % (lib._name, name, abi.VERSION[0], abi.VERSION[1])) from None
        f.restype = ret
        f.argtypes = params


def _check_version(lib: ctypes.CDLL) -> None:
    lib.cohort_version.restype = ctypes.c_char_p
    version = (lib.cohort_version() or b"").decode()
    # Until 1.0 structs may change with the minor number.
    if version.split(".")[:2] != [str(n) for n in abi.VERSION[:2]]:
        raise LibraryError("%s is version %s; these bindings are for %d.%d"
                           % (lib._name, version, abi.VERSION[0], abi.VERSION[1]))


def _check_sizes(lib: ctypes.CDLL) -> None:
    for struct in abi.STRUCTS:
        init = getattr(lib, struct.__name__ + "_init", None)
        if init is None or struct._fields_[0][0] != "struct_size":
            continue
        room = ctypes.create_string_buffer(ctypes.sizeof(struct) + 4096)
        init(ctypes.cast(room, ctypes.POINTER(struct)))
        size = ctypes.c_size_t.from_buffer(room).value
        if size != ctypes.sizeof(struct):
            raise LibraryError("struct %s has %d bytes in %s and %d in these bindings: they are for another version"
                               % (struct.__name__, size, lib._name, ctypes.sizeof(struct)))


lib = _load()
try:
    _check_version(lib)
except AttributeError:
    raise LibraryError("%s is not libcohort: it has no cohort_version" % lib._name) from None
_bind(lib)
_check_sizes(lib)


def text_bytes(text: Text) -> bytes:
    return text.encode() if isinstance(text, str) else bytes(text)


def path_bytes(path: Union[str, bytes, "os.PathLike[Any]"]) -> bytes:
    return os.fsencode(path)


def borrow(pointer: Any) -> str:
    """A string of the library's that ends with a NUL."""
    value = ctypes.cast(pointer, ctypes.c_char_p).value
    return value.decode("utf-8", "replace") if value else ""


def error_of(e: abi.cohort_err) -> Error:
    kind = {abi.COHORT_NO_ROOM: NoRoom, abi.COHORT_ABORTED: Aborted}.get(e.status, Error)
    rule = borrow(e.rule) if e.rule else None
    return kind(e.status, e.text.decode("utf-8", "replace"), rule, e.row, e.seq, e.expected, e.got, e.offset)


def call(f: Callable[..., int], *args: Any) -> None:
    """Calls a function whose last parameter is the error, and raises what it says."""
    e = abi.cohort_err()
    if f(*args, byref(e)) != 0:
        raise error_of(e)


def checked(f: Callable[..., Any], *args: Any) -> Any:
    """The same for a function that returns a pointer, or NULL."""
    e = abi.cohort_err()
    p = f(*args, byref(e))
    if not p:
        raise error_of(e)
    return p


def opened(f: Callable[..., int], *args: Any) -> ctypes.c_void_p:
    """The handle that an _open function makes."""
    out = ctypes.c_void_p()
    call(f, *args, byref(out))
    return out


def tokens_array(tokens: Sequence[int]) -> Any:
    return (ctypes.c_int32 * len(tokens))(*tokens)


def strings_array(texts: Sequence[Text]) -> Any:
    return (ctypes.c_char_p * len(texts))(*[text_bytes(t) for t in texts])


def _is_option(kinds: dict, name: str) -> bool:
    """A number or a flag; not a pointer, nor the length of what one points to: these are set by who has the memory."""
    kind = kinds.get(name)
    return (kind is not None and issubclass(kind, ctypes._SimpleCData) and kind is not ctypes.c_void_p
            and name != "struct_size" and not (name.startswith("n_") and name[2:] in kinds))


def fill(structs: Sequence[Any], options: dict) -> None:
    """Sets fields by name: each in the first struct that has it."""
    for name, value in options.items():
        for s in structs:
            if _is_option(dict(s._fields_), name):
                setattr(s, name, value)
                break
        else:
            raise TypeError("no such option: %s" % name)


_lock = threading.RLock()  # of the counts below; a finaliser may run while this thread holds it


class Handle:
    """Something of the library's. `with` closes it, as does the end of its life."""

    _name = "handle"

    def __init__(self, pointer: Any, free: Callable[[Any], None], parents: Tuple["Handle", ...] = ()) -> None:
        self._pointer = pointer
        self._free = free
        self._parents = parents
        self._n_users = 0
        self._closed = False
        with _lock:  # closed or not: they are in use by who makes this one, so they are there
            for p in parents:
                p._n_users += 1

    def _hold(self) -> None:
        with _lock:
            if getattr(self, "_closed", True):
                raise ValueError("the %s is closed" % self._name)
            self._n_users += 1

    def _let_go(self) -> None:
        with _lock:
            self._n_users -= 1
        self._end()

    def _end(self) -> None:
        with _lock:
            pointer = self._pointer
            if not self._closed or self._n_users > 0 or pointer is None:
                return
            self._pointer = None
        self._free(pointer)
        for p in self._parents:
            p._let_go()

    @contextmanager
    def _use(self) -> Iterator[Any]:
        self._hold()
        try:
            yield self._pointer
        finally:
            self._let_go()

    @property
    def closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        """Frees it, as soon as nothing uses it any more. Twice does nothing."""
        with _lock:
            if getattr(self, "_closed", True):
                return
            self._closed = True
        self._end()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __del__(self) -> None:
        try:
            self.close()
        except Exception:  # the interpreter is going down
            pass
