"""Malformed HTTP and JSON, and what is expected of a server that gets it: for serve_bad.py, one after the other, and for
soak.py, among everything else.

A case is (name, bytes, want). want: a status, a set of them (0: hung up on, -1: nothing is said), or a function of the
answer that says what is wrong with it.
"""
import json

from serve_client import refusal, request

GOOD = {"prompt": "Once upon a time", "max_tokens": 3, "temperature": 0}
CHAT = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 2, "temperature": 0}
COMPLETIONS, CHATS, EMBEDDINGS = "/v1/completions", "/v1/chat/completions", "/v1/embeddings"

REFUSED = frozenset([0] + list(range(400, 600)))


def post(headers, body=b"", path=COMPLETIONS, version="HTTP/1.1", host="Host: localhost\r\n"):
    return ("POST %s %s\r\n%s%s\r\n" % (path, version, host, headers)).encode("latin-1") + body


def whole(name="whole"):
    return request("POST", COMPLETIONS, GOOD)


def chunked(*sizes):
    """The good request in chunks."""
    body = json.dumps(GOOD).encode()
    head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: test\r\nTransfer-Encoding: chunked\r\n\r\n"
    out, at = head, 0
    for n in sizes + (len(body),):
        piece = body[at:at + n]
        at += n
        if piece:
            out += b"%x\r\n%s\r\n" % (len(piece), piece)
    return out + b"0\r\n\r\n"


def hung_up(answer):
    """A refusal behind which nothing is read: the rest could be the body, or another request."""
    return refusal(answer) or (None if answer.header("connection") == "close" else "the connection goes on")


def last_of_connection(answer):
    """A good answer behind which nothing is read."""
    return None if answer.status == 200 and answer.header("connection") == "close" else "got %r, expected 200 and an end" % answer


# ---- HTTP ----


def lengths():
    """Bodies whose length is told in a way that two readers could understand differently, or not at all."""
    body = json.dumps(GOOD).encode()
    n = len(body)
    both = "Content-Length: %d\r\nTransfer-Encoding: chunked\r\n" % n
    for name, headers, data in (
            ("-1", "Content-Length: -1\r\n", b""),
            ("-0", "Content-Length: -0\r\n", b""),
            ("+5", "Content-Length: +5\r\n", b"12345"),
            ("0x10", "Content-Length: 0x10\r\n", body),
            ("1e2", "Content-Length: 1e2\r\n", body),
            ("letters", "Content-Length: abc\r\n", body),
            ("digits and letters", "Content-Length: %dx\r\n" % n, body),
            ("a fraction", "Content-Length: %d.0\r\n" % n, body),
            ("empty", "Content-Length:\r\n", body),
            ("spaces within", "Content-Length: 1 2\r\n", body),
            ("a list", "Content-Length: %d, %d\r\n" % (n, n), body),
            ("2^63", "Content-Length: 9223372036854775808\r\n", b""),
            ("2^64", "Content-Length: 18446744073709551616\r\n", b""),
            ("2^64 + 10", "Content-Length: 18446744073709551626\r\n", b"1234567890"),
            ("2^64 - 1", "Content-Length: 18446744073709551615\r\n", b""),
            ("100 digits", "Content-Length: " + "9" * 100 + "\r\n", b""),
            ("17 MiB", "Content-Length: 17825792\r\n", b""),
            ("two different ones", "Content-Length: %d\r\nContent-Length: %d\r\n" % (n, n - 1), body),
            ("two different ones, the other way", "Content-Length: %d\r\nContent-Length: %d\r\n" % (n - 1, n), body),
            ("0 and another", "Content-Length: 0\r\nContent-Length: %d\r\n" % n, body),
            ("both kinds", both, chunked().split(b"\r\n\r\n", 1)[1]),
            ("both kinds, the body plain", both, body),
            ("both kinds, the other way", "Transfer-Encoding: chunked\r\nContent-Length: %d\r\n" % n, body),
            ("an unknown coding", "Transfer-Encoding: gzip\r\n", body),
            ("a coding before chunked", "Transfer-Encoding: gzip, chunked\r\n", b"0\r\n\r\n"),
            ("chunked twice", "Transfer-Encoding: chunked, chunked\r\n", b"0\r\n\r\n"),
            ("chunked in two headers", "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", b"0\r\n\r\n"),
            ("almost chunked", "Transfer-Encoding: xchunked\r\n", b"0\r\n\r\n"),
            ("none, but a body", "", body)):
        told_twice = name.startswith(("two", "0 and", "both", "chunked", "a coding", "an unknown", "almost"))
        yield name, post(headers, data), refusal if told_twice else REFUSED
    yield "leading zeros", post("Content-Length: 000%d\r\n" % n, body), {200, 400}
    chunk = chunked().split(b"\r\n\r\n", 1)[1]
    for name, headers, data in (
            ("a space before the colon", "Content-Length : %d\r\n" % n, body),
            ("a tab before the colon", "Content-Length\t: %d\r\n" % n, body),
            ("on two lines", "Content-Length: %d\r\n %d\r\n" % (n // 10, n % 10), body),
            ("on the next line", "Content-Length:\r\n %d\r\n" % n, body),
            ("on the line of another header", "X-A: b\r\n Content-Length: %d\r\n" % n, body),
            ("behind a return", "X-A: b\rContent-Length: %d\r\n" % n, body),
            ("behind a line end without a return", "X-A: b\nContent-Length: %d\r\n" % n, body),
            ("a NUL behind the digits", "Content-Length: %d\0,40\r\n" % n, body),
            ("chunked, a NUL behind it", "Transfer-Encoding: chunked\0x\r\n", chunk),
            ("chunked, a space before the colon", "Transfer-Encoding : chunked\r\n", chunk),
            ("chunked with a space, and a length", "Transfer-Encoding : chunked\r\nContent-Length: %d\r\n" % n, body),
            ("chunked, on the next line", "Transfer-Encoding:\r\n chunked\r\n", chunk)):
        yield name, post(headers, data), hung_up
    yield "chunked, of HTTP/1.0", post("Connection: keep-alive\r\nTransfer-Encoding: chunked\r\n", chunk, version="HTTP/1.0"), hung_up


def chunks():
    te = "Transfer-Encoding: chunked\r\n"
    for name, data in (
            ("a size that is no number", b"zz\r\n{}\r\n0\r\n\r\n"),
            ("a negative size", b"-2\r\n{}\r\n0\r\n\r\n"),
            ("a size with 0x", b"0x2\r\n{}\r\n0\r\n\r\n"),
            ("a size with a sign", b"+2\r\n{}\r\n0\r\n\r\n"),
            ("an empty size", b"\r\n{}\r\n0\r\n\r\n"),
            ("a size with a space before it", b" 2\r\n{}\r\n0\r\n\r\n"),
            ("2^64 + 2", b"10000000000000002\r\n{}\r\n0\r\n\r\n"),
            ("2^64 - 1", b"ffffffffffffffff\r\n{}\r\n0\r\n\r\n"),
            ("2^63", b"8000000000000000\r\n{}\r\n0\r\n\r\n"),
            ("thousands of digits", b"1" * 5000 + b"\r\n"),
            ("thousands of zeros", b"0" * 60000),
            ("17 MiB", b"1100000\r\n" + b" " * (17 << 20)),
            ("no line end behind the data", b"2\r\n{}0\r\n\r\n"),
            ("too much data", b"2\r\n{}}}\r\n0\r\n\r\n"),
            ("too little data", b"4\r\n{}\r\n0\r\n\r\n"),
            ("binary", b"\x00\x01\x02\xff\xfe\r\n")):
        yield name, post(te, data), REFUSED
    # Other servers may not see that a chunk's line ends, and take what follows for a part of the body.
    for name, data in (("in chunks", chunked()), ("in chunks whose lines end without returns",
                       post(te, b"%x\n%s\n0\n\n" % (len(json.dumps(GOOD)), json.dumps(GOOD).encode())))):
        yield "a request %s, another behind it" % name, data + whole(), last_of_connection
    yield "an extension", post(te, b"2;name=value\r\n{}\r\n0\r\n\r\n"), lambda a: refusal(a, 400, "prompt")
    yield "a huge extension", post(te, b"2;" + b"x" * 100000 + b"\r\n{}\r\n0\r\n\r\n"), REFUSED
    yield "trailers", post(te, b"2\r\n{}\r\n0\r\nX-A: b\r\n\r\n"), lambda a: refusal(a, 400, "prompt")
    yield "endless trailers", post(te, b"2\r\n{}\r\n0\r\n" + b"X-A: bbbbbbbbbbbbbbbbbbbbb\r\n" * 5000), REFUSED


def heads():
    """Request lines and headers."""
    get = "GET /health HTTP/1.1\r\nHost: localhost\r\n"
    for name, data, want in (
            ("a header of 100 KiB", get + "X-A: " + "a" * 102400 + "\r\n\r\n", {431, 0}),
            ("a name of 100 KiB", get + "a" * 102400 + ": b\r\n\r\n", {431, 0}),
            ("ten thousand headers", get + "X-A: b\r\n" * 10000 + "\r\n", {431, 0}),
            ("one header ten thousand times longer than another", get + "A:\r\n" * 20000 + "\r\n", {431, 0}),
            ("a path of 100 KiB", "GET /" + "a" * 102400 + " HTTP/1.1\r\nHost: localhost\r\n\r\n", {414, 431, 0}),
            ("a path of 20 KiB", "GET /" + "a" * 20480 + " HTTP/1.1\r\nHost: localhost\r\n\r\n", {404, 414, 431, 0}),
            ("ten thousand arguments", "GET /health?" + "a=b&" * 10000 + " HTTP/1.1\r\nHost: localhost\r\n\r\n", {414, 431, 0}),
            ("a method of 1000 letters", "G" * 1000 + " /health HTTP/1.1\r\nHost: localhost\r\n\r\n", REFUSED),
            ("a header without a colon", get + "nonsense\r\n\r\n", REFUSED),
            ("a header with an empty name", get + ": b\r\n\r\n", hung_up),
            ("a space before the colon", get + "X-A : 5\r\n\r\n", refusal),
            ("NUL in a header", get + "X-A: a\0b\r\n\r\n", hung_up),
            ("NUL in a header that is not the last", get + "X-A: a\0b\r\nX-B: c\r\n\r\n", hung_up),
            ("NUL at the end of a header", get + "X-A: a\0\r\n\r\n", hung_up),
            ("NUL as a header", get + "X-A: \0\r\n\r\n", hung_up),
            ("NUL, and line ends without returns", "GET /health HTTP/1.1\nHost: localhost\nX-A: a\0\n\n", hung_up),
            ("empty headers, and spaces around others", get + "X-A:\r\nX-B: \t \r\nX-C:\t c \r\nX-D:d\r\n\r\n", {200}),
            ("NUL in the path", "GET /hea\0lth HTTP/1.1\r\nHost: localhost\r\n\r\n", REFUSED),
            ("a folded header", get + "X-A: a\r\n b\r\n\r\n", hung_up),
            ("a first line that is folded", "GET /health HTTP/1.1\r\n Host: localhost\r\n\r\n", REFUSED),
            ("no version", "GET /health\r\n\r\n", REFUSED),
            ("HTTP/0.9", "GET /health HTTP/0.9\r\nHost: localhost\r\n\r\n", REFUSED),
            ("HTTP/2.0 by name", "GET /health HTTP/2.0\r\nHost: localhost\r\n\r\n", REFUSED),
            ("HTTP/9.9", "GET /health HTTP/9.9\r\nHost: localhost\r\n\r\n", REFUSED),
            ("HTTP/1.10", "GET /health HTTP/1.10\r\nHost: localhost\r\n\r\n", REFUSED),
            ("HTTP/x.y", "GET /health HTTP/x.y\r\nHost: localhost\r\n\r\n", REFUSED),
            ("HTP/1.1", "GET /health HTP/1.1\r\nHost: localhost\r\n\r\n", REFUSED),
            ("the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", REFUSED),
            ("no host", "GET /health HTTP/1.1\r\n\r\n", refusal),
            ("two hosts", get + "Host: other\r\n\r\n", refusal),
            ("1.0 without a host", "GET /health HTTP/1.0\r\n\r\n", {200}),
            ("only a line end, then a request", "\r\n" + get + "\r\n", {200}),
            ("line ends without returns", "GET /health HTTP/1.1\nHost: localhost\n\n", hung_up),
            ("one line end without a return", get + "X-A: b\nX-C: d\r\n\r\n", hung_up),
            ("a word", "hello\r\n\r\n", REFUSED),
            ("three spaces", "   \r\n\r\n", REFUSED),
            ("spaces in the path", "GET /hea lth HTTP/1.1\r\nHost: localhost\r\n\r\n", REFUSED),
            ("no path", "GET  HTTP/1.1\r\nHost: localhost\r\n\r\n", REFUSED),
            ("Expect of something else", get + "Expect: the-moon\r\n\r\n", REFUSED | {200}),
            ("Upgrade", get + "Connection: upgrade\r\nUpgrade: websocket\r\n\r\n", {200}),
            ("a key with a quote", get + "Authorization: Bearer \"\\\x7f\r\n\r\n", {200}),
            ("a request id of 10 KiB", get + "X-Request-Id: " + "i" * 10240 + "\r\n\r\n", {200}),
            ("a request id that would end a header", get + "X-Request-Id: a\rSet-Cookie: b\r\n\r\n", REFUSED | {200}),
            ("an origin", get + "Origin: http://evil.example\r\n\r\n", lambda a: refusal(a, 403))):
        yield name, data.encode("latin-1"), want
    yield "a TLS greeting", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)) * 2, REFUSED
    yield "all bytes", bytes(range(256)) * 4 + b"\r\n\r\n", REFUSED
    yield "all bytes but line ends, 100 KiB", bytes(b for b in range(256) if b not in (10, 13)) * 400, REFUSED
    yield "64 KiB of NUL", bytes(65536), REFUSED
    yield "a million line ends", b"\r\n" * 500000, REFUSED | {-1}


METHODS = ((COMPLETIONS, ("GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "post", "FROB", "P")),
           ("/health", ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "get", "CONNECT")),
           ("/slots", ("POST", "DELETE")), ("/v1/models/tiny", ("POST", "DELETE")))
PATHS = ("//", "//health", "/ui", "/ui/", "/ui/..", "/ui/../..", "/ui/%2e%2e%2fetc%2fpasswd", "/ui/%00", "/ui//", "/ui/x", "/health/", "/health//", "/./health", "/../health", "/v1/../health", "/%2e%2e/health",
         "/health%00", "/%00", "/health%00.json", "/v1/models/..", "/v1/models/%2e%2e%2f%2e%2e%2fetc%2fpasswd",
         "/v1/models/%00", "/v1/models/", "/v1/models/a/b", "/v1/models/" + "a" * 200, "/v1/models/%ff%fe",
         "/v1/models/%F0%9F", "/%", "/%2", "/%zz", "/health%20", "/Health", "/v1", "/v1/", "/v1/completion",
         "/v1/completions/", "/etc/passwd", "/..%5c..%5cetc", "\\health", "health", "*", "?", "#", "/#health",
         "/slots/0/0", "/slots//", "/health;a=b", "/" + "../" * 100 + "etc/passwd",
         "/" + "%2f" * 300)


def paths():
    """Paths that are not there, and some that are."""
    for path in PATHS:
        yield (path[:60], ("GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % path).encode(),
               lambda a: None if a.status in (0, 400) else refusal(a, 404))
    yield "an absolute address", b"GET http://test/health HTTP/1.1\r\nHost: localhost\r\n\r\n", {200, 400, 404}
    yield "arguments", b"GET /health?a=%00&%zz=&&=&x HTTP/1.1\r\nHost: localhost\r\n\r\n", {200}
    yield "an escaped letter", b"GET /he%61lth HTTP/1.1\r\nHost: localhost\r\n\r\n", {200}


def halves():
    """Requests that do not end: (name, bytes). They are hung up on, or refused, when the server's patience ends."""
    data = whole()
    head = data.index(b"\r\n\r\n") + 4
    todo = [("after %d bytes" % at, data[:at]) for at in (0, 1, 3, 4, 10, 30, head - 3, head - 2, head - 1)]
    todo += [("after %d bytes of the body" % at, data[:head + at]) for at in (0, 1, 10, len(data) - head - 1)]
    chunk = chunked(5, 7)
    head = chunk.index(b"\r\n\r\n") + 4
    todo += [("after %d bytes of chunks" % at, chunk[:head + at]) for at in (0, 1, 2, 3, 5, 8, 9, 12)]
    todo += [("before the last chunk", chunk[:-5]), ("within the last chunk", chunk[:-4]), ("before its end", chunk[:-2]),
             ("a length of 1 MiB, 10 bytes of it", post("Content-Length: 1048576\r\n", b"0123456789")),
             ("headers without an end", b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + b"X-A: b\r\n" * 10),
             ("TLS, the beginning", b"\x16\x03\x01")]
    return todo


# ---- JSON ----


def no_json():
    """(name, path, body): bodies that are not JSON, or no object."""
    deep = 100000
    for name, body in (
            ("empty", b""), ("spaces", b"   \r\n\t "), ("a word", b"hello"), ("an array", b"[]"), ("a string", b'"x"'),
            ("a number", b"5"), ("true", b"true"), ("null", b"null"), ("an open object", b'{"prompt":'),
            ("an open string", b'{"prompt": "x'), ("no colon", b'{"prompt" "x"}'), ("no comma", b'{"a":1 "prompt":"x"}'),
            ("a comma too many", b'{"prompt":"x",}'), ("a key without quotes", b'{prompt:"x"}'),
            ("single quotes", b"{'prompt':'x'}"), ("a comment", b'/* */ {"prompt":"x"}'),
            ("garbage behind it", b'{"prompt":"x"} garbage'), ("two objects", b'{"prompt":"x"}{"prompt":"y"}'),
            ("NUL behind it", b'{"prompt":"x"}\x00'), ("a mark of byte order", b'\xef\xbb\xbf{"prompt":"x"}'),
            ("UTF-16", '{"prompt":"x"}'.encode("utf-16")), ("UTF-32", '{"prompt":"x"}'.encode("utf-32")),
            ("arrays %d deep" % deep, b'{"prompt":' + b"[" * deep + b"]" * deep + b"}"),
            ("arrays %d deep, open" % deep, b"[" * deep),
            ("objects %d deep" % deep, b'{"a":' * deep + b"1" + b"}" * deep),
            ("arrays 16 MiB deep", b"[" * ((16 << 20) - 1)),
            ("NaN", b'{"prompt":"x","temperature":NaN}'), ("Infinity", b'{"prompt":"x","temperature":Infinity}'),
            ("-Infinity", b'{"prompt":"x","temperature":-Infinity}'), ("1e999", b'{"prompt":"x","temperature":1e999}'),
            ("-1e999", b'{"prompt":"x","top_p":-1e999}'), ("1000 digits", b'{"prompt":"x","n":' + b"9" * 1000 + b"}"),
            ("2^63", b'{"prompt":"x","seed":9223372036854775808}'), ("-2^63 - 1", b'{"prompt":"x","seed":-9223372036854775809}'),
            ("a leading zero", b'{"prompt":"x","n":01}'), ("a plus", b'{"prompt":"x","n":+1}'), ("hex", b'{"prompt":"x","n":0x1}'),
            ("a bare point", b'{"prompt":"x","top_p":.5}'), ("no digit behind it", b'{"prompt":"x","top_p":1.}'),
            ("an empty exponent", b'{"prompt":"x","top_p":1e}'), ("a bare minus", b'{"prompt":"x","n":-}'),
            ("a control character", b'{"prompt":"a\x01b"}'), ("a line end in a string", b'{"prompt":"a\nb"}'),
            ("a NUL in a string", b'{"prompt":"a\x00b"}'), ("an unknown escape", b'{"prompt":"\\q"}'),
            ("half an escape", b'{"prompt":"\\u12"}'), ("no hex in an escape", b'{"prompt":"\\uzzzz"}'),
            ("a lone high surrogate", b'{"prompt":"\\ud800"}'), ("a lone low surrogate", b'{"prompt":"\\udc00"}'),
            ("surrogates in the wrong order", b'{"prompt":"\\udc00\\ud800"}'), ("two high ones", b'{"prompt":"\\ud800\\ud800"}'),
            ("a high one and a letter", b'{"prompt":"\\ud800a"}'), ("UTF-8 cut short", b'{"prompt":"\xe2\x82"}'),
            ("a lone byte", b'{"prompt":"\x80"}'), ("too long UTF-8", b'{"prompt":"\xc0\xaf"}'),
            ("too long UTF-8 of a NUL", b'{"prompt":"\xc0\x80"}'), ("a surrogate in UTF-8", b'{"prompt":"\xed\xa0\x80"}'),
            ("above U+10FFFF", b'{"prompt":"\xf4\x90\x80\x80"}'), ("bytes FE FF", b'{"prompt":"\xfe\xff"}'),
            ("bad UTF-8 in a key", b'{"\xff":1,"prompt":"x"}'), ("bad UTF-8 in a field nobody knows", b'{"prompt":"x","a":"\xff"}'),
            ("all bytes", bytes(range(256))), ("zeros", bytes(1000)), ("a form", b"prompt=x&n=1"),
            ("a multipart form", b'--b\r\nContent-Disposition: form-data; name="a"\r\n\r\nx\r\n--b--\r\n')):
        for path in (COMPLETIONS, CHATS, EMBEDDINGS) + (("/completion", "/embedding", "/tokenize", "/detokenize", "/apply-template") if len(body) < 100 else ()):
            yield "%s to %s" % (name, path), path, body


NUMBER = (True, False, "", "1", "x", [], [1], {}, {"a": 1})
WHOLE = NUMBER + (0.5,)
TEXT = (True, 0, 1.5, [], {}, ["x"])
FLAG = (0, 1, 1.5, "true", "", [], {})
FLOATS = {"temperature": (-0.1, 2.1), "top_p": (-0.1, 1.1), "presence_penalty": (-2.1, 2.1),
          "frequency_penalty": (-2.1, 2.1), "min_p": (-0.1, 1.1), "typical_p": (-0.1, 1.1), "top_n_sigma": (-1.5, 1e9),
          "repeat_penalty": (0, -1, 1e9), "xtc_probability": (-0.1, 1.1), "xtc_threshold": (-0.1, 1.1),
          "dynatemp_range": (-1, 1e9), "dynatemp_exponent": (-1, 1e9), "dry_multiplier": (-1, 1e9), "dry_base": (-1, 1e9),
          "mirostat_tau": (-1, 1e9), "mirostat_eta": (-1, 1e9), "deadline_s": (0, -1, 1e9), "priority": (-1e6, 1e6, 0.5)}
INTS = {"n": (0, -1, 17, 129, 2 ** 31, 2 ** 62), "max_tokens": (-2, 1e300, -2 ** 62), "n_predict": (-2, 1e300),
        "seed": (1e300,), "top_k": (-2, 2 ** 31), "min_keep": (-1, 2 ** 31), "repeat_last_n": (-2, 2 ** 31),
        "dry_allowed_length": (-1, 2 ** 31), "dry_penalty_last_n": (-2, 2 ** 31), "mirostat": (-1, 3)}
FLAGS = ("stream", "ignore_eos", "cache_prompt")
FIELDS = {
    COMPLETIONS: {**{f: (NUMBER, r) for f, r in FLOATS.items()}, **{f: (WHOLE, r) for f, r in INTS.items()},
                  **{f: (FLAG, ()) for f in FLAGS}, "echo": (FLAG, ()),
                  "best_of": (WHOLE, (0, 129, 17)), "logprobs": (WHOLE, (-1, 21)), "model": (TEXT, ()),
                  "prompt": ((True, 0, 1.5, {}, [], [True], [1.5], [{}], [None], [[]], [[True]], [["x"]], ["x", 1], [1, "x"],
                              [1, [1]]), ([-1], [10 ** 9], [2 ** 62], [[10 ** 9]], [1, -1], ["x"] * 17, ["x"] * 2049)),
                  "session": (TEXT, ("x" * 257,)), "cache_salt": (TEXT, ("x" * 257, "x" * 100000)),
                  "suffix": ((1, "x", ["x"]), ()), "stop": ((True, 0, 1.5, {}, [1], [None], ["a", 1], [["a"]]),
                                                            ("", [""], "x" * 100000, ["x"] * 1000, ["a\0b"])),
                  "stream_options": ((True, 0, "x", []), ({"include_usage": 1}, {"include_usage": "x"})),
                  "logit_bias": ((True, 0, "x", [1], [[1]], [[1, 2, 3]], [["x", 1]], [[1, "x"]], [{}]),
                                 ({"x": 1}, {"1": "x"}, {"1": 101}, {"1": -101}, {"-1": 1}, {"999999999": 1}, {"1x": 1},
                                  {"": 1}, {"1.5": 1}, {"1": None}, {"1": []}, {"99999999999999999999": 1},
                                  {str(i): 1 for i in range(5000)})),
                  "samplers": ((True, 0, 1.5, {}), (["nonsense"], [1], [None], [["top_k"]], "nonsense", ["x" * 5000],
                                                    ["top_k"] * 5000)),
                  "dry_sequence_breakers": ((True, 0, {}, [1], [[]]), ([""], ["x" * 300], ["x"] * 300, ["a\0"])),
                  "response_format": ((True, 0, "json_object", [], {}), (
                      {"type": 5}, {"type": "xml"}, {"type": "json_schema"}, {"type": "json_schema", "json_schema": {}},
                      {"type": "json_schema", "json_schema": {"schema": 5}}, {"type": "json_object", "schema": 5},
                      {"type": "json_schema", "json_schema": {"schema": {"type": "nonsense"}}},
                      {"type": "json_schema", "json_schema": {"schema": {"$ref": "#/nowhere"}}},
                      {"type": "json_schema", "json_schema": {"schema": {"pattern": "(", "type": "string"}}},
                      {"type": "json_schema", "json_schema": {"schema": {"$ref": "http://test/"}}})),
                  "json_schema": ((0, "x", []), ({"type": 5}, {"enum": []}, {"minItems": -1, "type": "array"})),
                  "grammar": ((True, 0, 1.5, [1], {"a": 1}), (
                      "nonsense", "root ::= nowhere", "root ::= [", "root ::= \"", "root ::= (", "x ::= \"a\"",
                      "root ::= root", "root ::= root \"a\"", "root ::= \"a\"{99999999}", "root ::= \"a\"{2,1}",
                      "root ::= [\\xZZ]", "root ::= " + "(" * 10000, "root ::= \"a\"\nroot ::= \"b\" )", "\0", "::= \"a\"",
                      "root ::= " + "\"a\" " * 100000))},
    CHATS: {"messages": ((True, 0, 1.5, "x", {}, [], [1], ["x"], [[]], [None], [{}], [{"role": "user"}],
                          [{"role": "user", "content": 5}], [{"role": "user", "content": {}}], [{"role": "user", "content": [5]}],
                          [{"role": "user", "content": [{"type": "text"}]}], [{"role": "user", "content": [{"text": "x"}]}],
                          [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}],
                          [{"role": 5, "content": "x"}], [{"role": "wizard", "content": "x"}], [{"content": "x"}]), ()),
            "logprobs": ((0, 1, "true", [], {}), ()), "top_logprobs": (WHOLE, (-1, 21, 5)),
            "max_completion_tokens": (WHOLE, (-2, 1e300)), "chat_template_kwargs": ((True, 0, "x", []), ()),
            "temperature": (NUMBER, (-0.1, 2.1)), "n": (WHOLE, (0, 17)), "stream": (FLAG, ()), "model": (TEXT, ()),
            "stop": ((True, 0, {}, [1]), ([""],)), "audio": ((1, {"voice": "x"}), ()), "modalities": ((1, "x", ["audio"]), ())},
    EMBEDDINGS: {"input": ((True, 0, 1.5, {}, [], "", [""], [True], [None], [[]], [["x"]], ["x", 1]), ([-1], [10 ** 9], ["x"] * 2049)),
                 "encoding_format": ((True, 0, "int8", [], {}), ()), "dimensions": (NUMBER, (0, -1, 7, 10 ** 9)), "model": (TEXT, ())},
    "/tokenize": {"content": ((True, 0, 1.5, [], {}, None), ()), "add_special": (FLAG, ()), "parse_special": (FLAG, ()),
                  "with_pieces": (FLAG, ())},
    "/detokenize": {"tokens": ((True, 0, 1.5, "x", {}, None, ["x"], [None], [[1]], [1.5]), ([-1], [10 ** 9], [2 ** 62], [1, -1]))},
}
# llama-server's own has the same fields, but for the number of texts.
FIELDS["/completion"] = {k: v for k, v in FIELDS[COMPLETIONS].items() if k not in ("n", "best_of", "logprobs", "prompt", "echo")}
FIELDS["/completion"].update({"n_probs": (WHOLE, (-1, 21, 10 ** 9)), "n": ((2,), ()),
                              "prompt": ((True, 1.5, {}, [], [[]], [None]), ([-1], [10 ** 9]))})
FIELDS["/embedding"] = {"content": ((True, 1.5, {}, [], "", None, [[]], ["x", 1]), ([-1], "the cat sat " * 20000))}
FIELDS["/apply-template"] = {"messages": FIELDS[CHATS]["messages"], "chat_template_kwargs": FIELDS[CHATS]["chat_template_kwargs"]}
BODIES = {"/completion": {**GOOD, "n_predict": 3}, "/embedding": {"content": "x"}, COMPLETIONS: GOOD, CHATS: CHAT, EMBEDDINGS: {"input": "x"}, "/tokenize": {"content": "x"}, "/detokenize": {"tokens": [1]},
          "/apply-template": CHAT}


def wrong_fields(path, i):
    """(field, body): each field of a route with every value of a wrong type (i 0), or out of its range (i 1)."""
    for name, values in FIELDS[path].items():
        for v in values[i]:
            yield name, {**BODIES[path], name: v}


# (name, path, body, field)
TOO_LONG = (
    ("a text", COMPLETIONS, {"prompt": "the cat sat " * 20000}, "prompt"),
    ("one word", COMPLETIONS, {"prompt": "a" * 200000}, "prompt"),
    ("tokens", COMPLETIONS, {"prompt": [5] * 300000}, "prompt"),
    ("a chat", CHATS, {"messages": [{"role": "user", "content": "the cat sat " * 20000}]}, "messages"),
    ("thousands of messages", CHATS, {"messages": [{"role": "user", "content": "x"}] * 5000}, "messages"),
    ("an embedding", EMBEDDINGS, {"input": "the cat sat " * 20000}, "input"))
