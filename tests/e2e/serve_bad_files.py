"""Malformed uploads, ids, lists and batches against one running server with a folder: see serve_bad_files.sh."""
import json
import os
import time

from serve_client import FOLDER, Cases, Server, eventually, refusal, request

ANSWER_S = 10.0
FILES, BATCHES = "/v1/files", "/v1/batches"
DATA = os.path.join(FOLDER, "data")
ARGS = ["-alias", "tiny", "-np", "2", "-data", DATA, "-max-file", "1", "-max-grammar", "1", "-body-timeout", "1"]
MIB = 1 << 20
BOUNDARY = "----cohort7f3a"
TYPE = "multipart/form-data; boundary=" + BOUNDARY
LINE = {"custom_id": "a", "method": "POST", "url": "/v1/completions", "body": {"prompt": "Tom", "max_tokens": 2}}

cases = Cases()
server = Server(ARGS)
there = set()  # names in the folder's files, as they must be


def names(folder="files"):
    return set(os.listdir(os.path.join(DATA, folder)))


def settled():
    """Behind each case: it is alive, and nothing has come or gone."""
    if not eventually(lambda: names() == there, 3):
        changed = sorted(names() ^ there)
        there.symmetric_difference_update(changed)  # told once
        return "the folder has changed: %s" % changed
    a = server.get("/health")
    return None if a.status == 200 else "then /health is %r" % a


def Group(name):
    return cases.group(name, settled)


# ---- Uploads ----


def part(head, content):
    return b"\r\n".join([b"--" + BOUNDARY.encode()] + head) + b"\r\n\r\n" + content + b"\r\n"


def disposition(name, filename=None):
    text = b'Content-Disposition: form-data; name="%s"' % name
    return [text + (b'; filename="%s"' % filename if filename is not None else b"")]


def form(*parts, end=b"--" + BOUNDARY.encode() + b"--\r\n"):
    return b"".join(parts) + end


PURPOSE = part(disposition(b"purpose"), b"batch")
GOOD_FILE = part(disposition(b"file", b"a.jsonl") + [b"Content-Type: application/octet-stream"], b"{}\r\n\r\n--\r\n")
GOOD = form(PURPOSE, GOOD_FILE)


def post(body, kind=TYPE, more=(), length=None):
    """The bytes of an upload."""
    head = ["POST /v1/files HTTP/1.1", "Host: localhost"] + ["%s: %s" % h for h in more]
    if kind is not None:
        head.append("Content-Type: " + kind)
    head.append("Content-Length: %d" % (len(body) if length is None else length))
    return ("\r\n".join(head) + "\r\n\r\n").encode("latin-1") + body


def chunks(body, size):
    head = "POST /v1/files HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nTransfer-Encoding: chunked\r\n\r\n" % TYPE
    pieces = [body[i:i + size] for i in range(0, len(body), size)]
    return head.encode() + b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in pieces) + b"0\r\n\r\n"


def send(data, timeout=ANSWER_S):
    with server.connect() as c:
        c.send(data)
        return c.answer(timeout)


def keep(answer):
    """Notes a file that is to be there."""
    f = answer.json() if answer.status == 200 else None
    if f:
        there.update({f["id"] + ".data", f["id"] + ".json"})
    return f


def drop(f):
    server.ask("DELETE", FILES + "/" + f["id"])
    there.difference_update({f["id"] + ".data", f["id"] + ".json"})


def upload(content, purpose=b"batch", name=b"in.jsonl"):
    f = keep(send(post(form(part(disposition(b"purpose"), purpose), part(disposition(b"file", name), content)))))
    assert f, "a good upload is refused"
    return f["id"]


def taken(answer, content, name):
    """What is wrong with an upload that must be taken; it is removed again."""
    f = keep(answer)
    if not f:
        return "got %r" % answer
    got = server.get("%s/%s/content" % (FILES, f["id"]))
    why = None
    if got.body != content or f["bytes"] != len(content):
        why = "it has other bytes: %r" % got.body[:100]
    elif f["filename"] != name:
        why = "its name is %r" % f["filename"]
    drop(f)
    return why


def split_everywhere():
    content = b"{}\r\n\r\n--\r\n"
    for what, data in (("an upload", post(GOOD)), ("an upload in chunks", chunks(GOOD, 37))):
        g = Group("%s, cut in two at each byte" % what)
        for at in range(1, len(data)):
            with server.connect() as c:
                c.send(data[:at])
                time.sleep(0.001)
                c.send(data[at:])
                g.case("cut at %d" % at, taken(c.answer(ANSWER_S), content, "a.jsonl"), at % 20 == 0)
        with server.connect() as c:
            for i in range(len(data)):
                c.send(data[i:i + 1])
            g.case("each byte by itself", taken(c.answer(ANSWER_S), content, "a.jsonl"))
        g.end()


def content_types():
    g = Group("content types")
    kind = "multipart/form-data; boundary="
    for name, value in (
            ("none", None), ("empty", ""), ("JSON", "application/json"), ("text", "text/plain; boundary=" + BOUNDARY),
            ("another multipart", "multipart/mixed; boundary=" + BOUNDARY), ("a longer name", TYPE.replace("data", "dataX")),
            ("a shorter name", TYPE.replace("data", "dat")), ("no boundary", "multipart/form-data"),
            ("a boundary without a value", "multipart/form-data; boundary"), ("an empty one", kind), ("an empty one in quotes", kind + '""'),
            ("half a quote", kind + '"' + BOUNDARY), ("a quote alone", kind + '"'), ("text behind the quote", kind + '"%s"x' % BOUNDARY),
            ("two boundaries", TYPE + "; boundary=" + BOUNDARY), ("two different ones", TYPE + "; boundary=x"),
            ("71 characters", kind + "b" * 71), ("5000 characters", kind + "b" * 5000), ("20000 characters", kind + "b" * 20000),
            ("a tab in it", kind + '"a\tb"'), ("a space at its end", kind + '"a "'), ("a byte of 0xff", kind + "a\xffb"),
            ("a control character", kind + '"a\x01b"'), ("DEL", kind + '"a\x7f"'), ("another one", kind + "other"),
            ("one that is longer by a byte", TYPE + "x"), ("one with another case", kind + BOUNDARY.upper()),
            ("no semicolon", "multipart/form-data boundary=" + BOUNDARY), ("a comma", "multipart/form-data, boundary=" + BOUNDARY),
            ("the name in front", "boundary=%s; multipart/form-data" % BOUNDARY), ("a thousand parameters", TYPE + "; a=b" * 1000 + '; c="')):
        a = send(post(GOOD, value))
        g.case(name, None if name == "20000 characters" and a.status in (0, 431) else refusal(a))
    with server.connect() as c:
        c.send(post(GOOD, "text/plain", [("Expect", "100-continue")])[:-len(GOOD)])
        g.case("who asks first is told at once", refusal(c.answer(ANSWER_S)))
    g.end()


def broken_forms():
    b = b"--" + BOUNDARY.encode()
    g = Group("forms that are broken")
    for name, body in (
            ("nothing", b""), ("JSON", b'{"purpose": "batch"}'), ("zeros", bytes(1000)), ("all bytes", bytes(range(256)) * 4),
            ("only the last boundary", b + b"--\r\n"), ("only a boundary", b), ("a boundary and its line end", b + b"\r\n"),
            ("boundaries and nothing else", (b + b"\r\n") * 10), ("no final boundary", form(PURPOSE, GOOD_FILE, end=b"")),
            ("a final boundary with one dash", form(PURPOSE, GOOD_FILE, end=b + b"-")),
            ("a final boundary that is another one", form(PURPOSE, GOOD_FILE, end=b + b"x--\r\n")),
            ("the boundary without its dashes", GOOD.replace(b, b[2:])),
            ("line ends without returns", GOOD.replace(b"\r\n", b"\n")), ("line ends that are returns", GOOD.replace(b"\r\n", b"\r")),
            ("junk behind a boundary", GOOD.replace(b + b"\r\n", b + b" x\r\n")), ("a NUL behind a boundary", GOOD.replace(b + b"\r\n", b + b"\0\r\n")),
            ("a return behind a boundary", GOOD.replace(b + b"\r\n", b + b"\r\r\n")),
            ("the last boundary first", b + b"--\r\n" + GOOD), ("a part behind the last boundary", form(PURPOSE) + form(GOOD_FILE)),
            ("the boundary in a header", form(PURPOSE, part([b"X-A: " + b, b], b"x"), GOOD_FILE)),
            ("33 parts", form(PURPOSE, *[part(disposition(b"x%d" % i), b"") for i in range(32)], GOOD_FILE)),
            ("a million empty parts", form(PURPOSE, *[part(disposition(b"x"), b"")] * 9000, GOOD_FILE))):
        g.case(name, refusal(send(post(body))))
    for cut in range(0, len(GOOD) - 4, 3):
        g.case("cut behind %d bytes" % cut, refusal(send(post(GOOD[:cut]))), cut % 30 == 0)
    cd = b"Content-Disposition: form-data"
    for name, head in (
            ("no headers", []), ("no disposition", [b"Content-Type: text/plain"]), ("no name", [cd]), ("an empty header name", [b": x"]),
            ("no colon", [b"nonsense"]), ("a folded header", [cd + b";", b' name="file"']), ("a header that begins with a space", [b" " + cd]),
            ("a name without an end", [cd + b'; name="file']), ("a name of two words", [cd + b"; name=a b"]),
            ("a name twice", [cd + b'; name="file"; name="file"']), ("a name with a NUL", [cd + b'; name="fi\0le"; filename="x"']),
            ("a name of 5000 bytes", [cd + b'; name="%s"' % (b"n" * 5000)]), ("a name of 200 bytes", [cd + b'; name="%s"' % (b"n" * 200)]),
            ("another disposition", [b'Content-Disposition: attachment; name="file"; filename="x"']),
            ("two dispositions", disposition(b"file", b"x") * 2), ("filename twice", [cd + b'; name="file"; filename="a"; filename="b"']),
            ("filename with a NUL", disposition(b"file", b"a\0b")), ("filename of 256 bytes", disposition(b"file", b"n" * 256)),
            ("filename of 5000 bytes", disposition(b"file", b"n" * 5000)), ("filename without an end", [cd + b'; name="file"; filename="a']),
            ("filename with a quote in it", [cd + b'; name="file"; filename="a"b"']),
            ("headers of 5000 bytes", disposition(b"file", b"x") + [b"X-A: " + b"a" * 5000]),
            ("a thousand headers", disposition(b"file", b"x") + [b"A: b"] * 1000),
            ("parts within parts", disposition(b"file", b"x") + [b"Content-Type: multipart/mixed; boundary=q"]),
            ("base64", disposition(b"file", b"x") + [b"Content-Transfer-Encoding: base64"]),
            ("quoted-printable", disposition(b"file", b"x") + [b"content-transfer-encoding: Quoted-Printable"])):
        g.case("a part with %s" % name, refusal(send(post(form(PURPOSE, part(head, b"x"))))))
    g.end()


def wrong_parts():
    g = Group("parts that are missing, twice or wrong")
    for name, parts, param in (
            ("no file", [PURPOSE], "file"), ("no purpose", [GOOD_FILE], "purpose"), ("neither", [part(disposition(b"x"), b"")], "file"),
            ("file twice", [PURPOSE, GOOD_FILE, GOOD_FILE], "file"), ("file twice, at first", [GOOD_FILE, GOOD_FILE, PURPOSE], "file"),
            ("purpose twice", [PURPOSE, PURPOSE, GOOD_FILE], "purpose"), ("purpose in front and behind", [PURPOSE, GOOD_FILE, PURPOSE], "purpose"),
            ("file without a filename", [PURPOSE, part(disposition(b"file"), b"x")], "file"),
            ("an empty name", [PURPOSE, part(disposition(b"", b"x"), b"x")], "file"),
            ("another case", [PURPOSE, part(disposition(b"File", b"x"), b"x")], "file"),
            ("file[]", [PURPOSE, part(disposition(b"file[]", b"x"), b"x")], "file")):
        g.case(name, refusal(send(post(form(*parts))), 400, param))
    for filename in (b"", b"/", b"../", b"a/", b"/etc/", b"C:\\\\"):
        g.case("filename %r" % filename, refusal(send(post(form(PURPOSE, part(disposition(b"file", filename), b"x")))), 400, "file"))
    g.case("a filename that is 255 bytes, but more as UTF-8", refusal(
        send(post(form(PURPOSE, part(disposition(b"file", b"\xff" * 255), b"x")))), 400, "file"))
    for purpose in (b"", b"Batch", b"batch ", b" batch", b"batches", b"batch\0", b"batch_output", b"batch\r\n", b"fine-tune-results", b"\xff\xfe",
                    b"../batch", b"[\"batch\"]", b"x" * 23, b"x" * 24, b"x" * 5000, b"x" * 300000):
        g.case("purpose %.20r" % purpose, refusal(
            send(post(form(part(disposition(b"purpose"), purpose), GOOD_FILE))), 413 if len(purpose) > 2 * MIB else 400, "purpose"))
    g.end()


def sizes():
    g = Group("sizes and lengths")

    def big(n):
        return form(PURPOSE, part(disposition(b"file", b"x"), b"x" * n))

    g.case("as large as may be", taken(send(post(big(MIB))), b"x" * MIB, "x"))
    g.case("as large as may be, in chunks", taken(send(chunks(big(MIB), 50000)), b"x" * MIB, "x"))
    for name, data, param in (("a byte more", post(big(MIB + 1)), "file"), ("a byte more, in chunks", chunks(big(MIB + 1), 50000), "file"),
                              ("much more", post(big(3 * MIB)), None), ("much more, in chunks", chunks(big(3 * MIB), 50000), "file"),
                              ("told only", post(b"", length=1 << 40), None), ("told only, as 2^64 - 1", post(b"", length=(1 << 64) - 1), None)):
        a = send(data)
        g.case(name, None if "2^64" in name and a.status in (0, 400, 413) else refusal(a, 413, param))
    junk = form(PURPOSE, GOOD_FILE, part(disposition(b"other"), b"x" * (2 * MIB)))
    g.case("a field that nobody knows, of 2 MiB", refusal(send(chunks(junk, 50000)), 413))
    g.case("endless text in front", refusal(send(chunks(b"x" * (2 * MIB) + GOOD, 50000)), 413))
    g.case("endless text behind", refusal(send(chunks(GOOD + b"x" * (2 * MIB), 50000)), 413))
    # A body that is shorter than it is told to be, or longer: then the rest is no request.
    for n in (10, 1):
        a = send(post(GOOD, length=len(GOOD) + n))
        g.case("%d bytes less than told" % n, None if a.status == 408 else "got %r" % a)
    with server.connect() as c:
        c.send(post(GOOD, length=len(GOOD) - 5))
        first = c.answer(ANSWER_S)
        second = c.answer(ANSWER_S)
    g.case("more bytes than told", refusal(first) or (None if second.status in (0, 400) else "then %r" % second))
    g.case("no length", refusal(send(post(GOOD).replace(b"Content-Length: %d\r\n" % len(GOOD), b""))))
    g.case("length 0", refusal(send(post(GOOD, length=0))))
    # Many that stop halfway, all at once; and some that go away.
    crowd = [server.connect() for _ in range(20)]
    for i, c in enumerate(crowd):
        c.send(post(GOOD, length=len(GOOD))[:-3 - 7 * i])
    got = [c.answer(ANSWER_S).status for c in crowd[:15]]
    for c in crowd:
        c.close()
    g.case("twenty that stop halfway", None if got == [408] * 15 else "got %s" % got)
    with server.connect() as c:
        for i in range(10):
            c.send(post(GOOD.replace(b"batch", b"nope!")))
            a = c.answer(ANSWER_S)
            g.case("refused %d times on one connection" % (i + 1), refusal(a, 400, "purpose"))
        g.case("and then a good one", taken(c.answer(ANSWER_S) if c.send(post(GOOD)) else None, b"{}\r\n\r\n--\r\n", "a.jsonl"))
    g.end()


def odd_but_good():
    """What looks bad and is taken all the same: a server that refuses everything would pass the rest."""
    g = Group("odd, but good")
    b = b"--" + BOUNDARY.encode()
    for name, content in (
            ("empty", b""), ("all bytes", bytes(range(256)) * 100), ("zeros", bytes(5000)), ("invalid UTF-8", b"\xff\xfe\xc0\x80"),
            ("line ends", b"\r\n\r\n\r\n"), ("returns", b"\r" * 100), ("a return at its end", b"x\r"), ("dashes", b"\r\n--"),
            ("nearly the boundary", b"\r\n" + b[:-1] + b"\r\n"), ("the boundary in a line", b"x" + b + b"--\r\n" + b[1:]),
            ("the boundary without the line end before it", b"\n" + b + b"\r" + b), ("headers", b"Content-Disposition: form-data; name=\"purpose\"\r\n\r\nx")):
        g.case("content: %s" % name, taken(send(post(form(PURPOSE, part(disposition(b"file", b"x"), content)))), content, "x"))
    for filename, want in ((b"../../../etc/passwd", "passwd"), (b"/etc/passwd", "passwd"), (b"C:\\\\dir\\\\a.jsonl", "a.jsonl"), (b"..", ".."),
                           (b".", "."), (b'a\\"b', 'a"b'), (b"a;b=c", "a;b=c"), (b"%2e%2e%2f", "%2e%2e%2f"), (b"\xd0\xb6.jsonl", "\u0436.jsonl"),
                           (b"a\xffb", "a\ufffdb"), (b"n" * 255, "n" * 255), (b"<script>", "<script>"), (b"a b", "a b"), (b" ", " "), (b"\x01", "\x01")):
        g.case("filename %.30r" % filename, taken(send(post(form(PURPOSE, part(disposition(b"file", filename), b"x")))), b"x", want))
    content = b"{}\r\n\r\n--\r\n"
    for name, body, kind in (
            ("the file in front", form(GOOD_FILE, PURPOSE), TYPE), ("unknown fields", form(part(disposition(b"x", b"y"), b"z"), PURPOSE, GOOD_FILE), TYPE),
            ("text around it", b"preamble\r\n" + GOOD + b"epilogue\r\n" + GOOD, TYPE), ("no line end at its end", GOOD[:-2], TYPE),
            ("spaces behind a boundary", GOOD.replace(b + b"\r\n", b + b" \t\r\n"), TYPE), ("other cases", GOOD.replace(b"Content-Disposition: form-data", b"CONTENT-disposition:Form-Data"), TYPE),
            ("the boundary in quotes", GOOD, 'Multipart/Form-DATA ; charset=utf-8;BOUNDARY = "%s" ' % BOUNDARY),
            ("a boundary of one character", GOOD.replace(b, b"--x"), "multipart/form-data; boundary=x"),
            ("a boundary of 70", GOOD.replace(b, b"--" + b"x" * 70), "multipart/form-data; boundary=" + "x" * 70),
            ("a boundary of dashes", GOOD.replace(b, b"------"), "multipart/form-data; boundary=----")):
        g.case(name, taken(send(post(body, kind)), content, "a.jsonl"))
    for purpose in (b"assistants", b"batch", b"evals", b"fine-tune", b"user_data", b"vision"):
        g.case("purpose %s" % purpose.decode(), taken(send(post(form(part(disposition(b"purpose"), purpose), GOOD_FILE))), content, "a.jsonl"))
    g.end()


# ---- Ids and lists ----


def ids(file_id, batch_id):
    digits = file_id[5:]
    odd = ["..", ".", "%2e%2e", "%2e%2e%2f", "%2e%2e%2flock", "..%2flock", "..%2Ffiles%2F" + file_id, "%2e%2e%2f%2e%2e%2f%2e%2e%2fetc%2fpasswd",
           "%252e%252e%252flock", "..%5clock", "%2fetc%2fpasswd", "%00", file_id + "%00", "%00" + file_id, file_id + "%00.json", file_id + "%2f", file_id + ".data",
           file_id + ".json", file_id + "%2e%2e", file_id + "%20", "%20" + file_id, file_id + "%0a", file_id.upper(), "file-" + digits.upper() + "0", "file_" + digits,
           "file-" + digits[:-1], "file-" + digits + "0", "file-" + "g" * 32, "file-" + "0" * 32, "file-", "file", "*", "file-*", "~", "~root", "$HOME", "a" * 159,
           "a" * 160, "a" * 5000, "%ff%fe", "%", "%zz", "batch_" + "0" * 32, "batch_" + batch_id[6:] + "%00", "batch_", "BATCH_" + batch_id[6:], "lock", "-1", "0", "null"]
    g = Group("ids that are none")
    for i in odd:
        for method, path in (("GET", FILES + "/%s"), ("GET", FILES + "/%s/content"), ("DELETE", FILES + "/%s"), ("GET", BATCHES + "/%s"), ("POST", BATCHES + "/%s/cancel")):
            a = send(("%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n" % (method, path % i)).encode("latin-1"))
            why = None if a.status in (0, 400) else "got %r" % a if a.status not in (404, 405, 414, 431) else refusal(a, a.status)
            g.case("%s %.60s" % (method, path % i), why, method == "DELETE")
        a = server.post(BATCHES, {"input_file_id": i, "endpoint": "/v1/completions", "completion_window": "24h"})
        g.case("a batch of %.60s" % i, refusal(a, 400, "input_file_id"), False)
    # A file's id is no batch's, and the other way.
    for method, path in (("GET", BATCHES + "/" + file_id), ("POST", BATCHES + "/" + file_id + "/cancel"), ("GET", FILES + "/" + batch_id), ("DELETE", FILES + "/" + batch_id),
                         ("GET", FILES + "/" + batch_id + "/content")):
        g.case("%s %s" % (method, path[:20]), refusal(server.ask(method, path), 404, "id"))
    for method, path in (("PUT", FILES), ("DELETE", FILES), ("PATCH", FILES + "/" + file_id), ("POST", FILES + "/" + file_id), ("POST", FILES + "/" + file_id + "/content"),
                         ("DELETE", FILES + "/" + file_id + "/content"), ("DELETE", BATCHES), ("DELETE", BATCHES + "/" + batch_id), ("GET", BATCHES + "/" + batch_id + "/cancel")):
        g.case("%s %s" % (method, path[:20]), refusal(server.ask(method, path), 405))
    g.end()


def lists(file_id, batch_id):
    g = Group("lists with bad arguments")
    gone = upload(b"x")
    drop({"id": gone})
    for path, most, other in ((FILES, 10000, batch_id), (BATCHES, 100, file_id)):
        for n in ("0", "-1", "-0", "+1", "1.0", "1e2", "0x10", "x", "1x", "%201", "1%20", "1%00", "%00", str(most + 1), "99999999999999999999", "9" * 500, "true", "null", "%2b1", "1,2"):
            g.case("%s?limit=%.30s" % (path, n), refusal(server.get("%s?limit=%s" % (path, n)), 400, "limit"), False)
        for order in ("up", "ASC", "asc%20", "asc%00", "1", "desc,asc", "x" * 5000):
            g.case("%s?order=%.30s" % (path, order), refusal(server.get("%s?order=%s" % (path, order)), 400, "order"), False)
        for after in ("x", "..", "%2e%2e%2flock", "file-", "file-" + "0" * 32, "batch_" + "0" * 32, gone, other, "%00", "%ff", "x" * 5000, "*"):
            g.case("%s?after=%.30s" % (path, after), refusal(server.get("%s?after=%s" % (path, after)), 400, "after"), False)
        for query in ("limit=%d" % most, "limit=1&order=asc", "order=desc", "limit=&after=&x=y", "nobody=knows", "&&&", "limit=007"):
            a = server.get("%s?%s" % (path, query))
            g.case("%s?%s is good" % (path, query), None if a.status == 200 and a.json()["object"] == "list" else "got %r" % a, False)
    for purpose in ("nobody", "%00", "..", "x" * 5000, "batch%20"):
        a = server.get(FILES + "?purpose=" + purpose)
        g.case("?purpose=%.20s: none" % purpose, None if a.status == 200 and a.json()["data"] == [] else "got %r" % a)
    # Both orders, of both lists.
    for path in (FILES, BATCHES):
        down, up = ([x["id"] for x in server.get(path + q).json()["data"]] for q in ("?order=desc", "?order=asc"))
        g.case("%s in both orders" % path, None if len(down) > 1 and up == down[::-1] else "%s, %s" % (down, up))
        page = server.get("%s?order=asc&limit=1&after=%s" % (path, up[0])).json()
        g.case("%s, the second from the end" % path, None if [x["id"] for x in page["data"]] == up[1:2] and page["has_more"] == (len(up) > 2) else repr(page))
    g.end()


# ---- Batches ----


def wait(batch_id, seconds=60):
    """The batch when it has ended."""
    last = {}

    def ended():
        last.update(server.get(BATCHES + "/" + batch_id).json())
        return last["status"] in ("completed", "failed", "cancelled", "expired")

    eventually(ended, seconds)
    for name in ("output_file_id", "error_file_id"):
        if last[name]:
            there.update({last[name] + ".data", last[name] + ".json"})
    return last


def begin(file_id, endpoint="/v1/completions", **more):
    return server.post(BATCHES, {"input_file_id": file_id, "endpoint": endpoint, "completion_window": "24h", **more})


def batch_fields(file_id):
    g = Group("batches: every field missing, of a wrong type, wrong")
    other = upload(b"x", b"user_data")
    base = {"input_file_id": file_id, "endpoint": "/v1/completions", "completion_window": "24h"}
    types = (None, True, False, 0, 1, -1, 1.5, 2 ** 62, "", [], {}, ["x"], {"a": 1}, "\0", "x" * 100000)
    for field in base:
        body = {k: v for k, v in base.items() if k != field}
        g.case("no %s" % field, refusal(server.post(BATCHES, body), 400, field))
        for v in types:
            g.case("%s = %.30r" % (field, v), refusal(server.post(BATCHES, {**base, field: v}), 400, field))
    for field, values in (
            ("input_file_id", (other, file_id + "\0", file_id.upper(), " " + file_id, "file-" + "0" * 32, "../" + file_id, [file_id])),
            ("endpoint", ("/v1/completion", "/v1/completions/", "v1/completions", "/completion", "/V1/COMPLETIONS", "/v1/files", "http://x/v1/completions", "/v1/completions\0")),
            ("completion_window", ("24", "24H", "1h", "48h", "24h ", "24h\0", "86400", 24, 86400)),
            ("metadata", (True, 1, "x", [], ["x"], {"a": 1}, {"a": None}, {"a": ["x"]}, {"a": {}}, {"k" * 65: "v"}, {"a": "v" * 513}, {str(i): "v" for i in range(17)},
                          {str(i): "v" for i in range(10000)}))):
        for v in values:
            g.case("%s = %.30r" % (field, v), refusal(server.post(BATCHES, {**base, field: v}), 400, field))
    for name, body in (("nothing", b""), ("a space", b" "), ("half an object", b'{"input_file_id": "'), ("an array", b"[]"), ("a string", b'"x"'), ("null", b"null"), ("invalid UTF-8", b'{"a":"\xff"}'),
                       ("a NUL in a key", b'{"metadata":{"a\\u0000b":"x"}}'), ("a form", GOOD), ("deep arrays", b"[" * 100000), ("17 MiB", b" " * (17 * MIB))):
        g.case("a body that is %s" % name, refusal(server.post(BATCHES, body), 413 if name == "17 MiB" else 400))
    g.end()
    g = Group("batches: odd, but good")
    for name, more in (("null for metadata", {"metadata": None}), ("16 of them", {"metadata": {"%02d" % i + "k" * 62: "v" * 512 for i in range(16)}}), ("a NUL in one", {"metadata": {"a": "\0"}}),
                       ("unknown fields", {"nobody": {"knows": [1]}, "output_expires_after": 5})):
        a = begin(file_id, **more)
        b = wait(a.json()["id"]) if a.status == 200 else {}
        g.case(name, None if b.get("status") == "completed" else "got %r, %s" % (a, b))
    g.end()


def line(**fields):
    return json.dumps({**LINE, **fields}).encode()


def batch_lines():
    """Inputs that are none: the batch fails, and says which line is why."""
    g = Group("batches: inputs that are none")
    without = {k: json.dumps({n: v for n, v in LINE.items() if n != k}).encode() for k in LINE}
    for name, content, code, number in (
            ("empty", b"", "empty_file", None), ("line ends", b"\n\r\n\n", "empty_file", None), ("a byte order mark", b"\xef\xbb\xbf", "empty_file", None),
            ("50000 lines", b"\n" * 50000, "empty_file", None), ("50001 lines", b"\n" * 50001, "too_many_lines", None), ("binary", bytes(range(256)), "invalid_json_line", 1), ("zeros", bytes(5000), "invalid_json_line", 1),
            ("text", b"hello\n", "invalid_json_line", 1), ("half a line", line()[:-1], "invalid_json_line", 1), ("an array", b"[1]", "invalid_json_line", 1),
            ("a number", b"1", "invalid_json_line", 1), ("null", b"null", "invalid_json_line", 1), ("a string", b'"x"', "invalid_json_line", 1), ("one array of all", b"[" + line() + b"]", "invalid_json_line", 1),
            ("two objects in a line", line() + line(custom_id="b"), "invalid_json_line", 1), ("an object over lines", line().replace(b", ", b",\n"), "invalid_json_line", 1),
            ("invalid UTF-8", line().replace(b"Tom", b"\xff"), "invalid_json_line", 1), ("half a surrogate", line().replace(b"Tom", b"\\ud800"), "invalid_json_line", 1),
            ("deep arrays", b"[" * 100000, "invalid_json_line", 1), ("UTF-16", line().decode().encode("utf-16"), "invalid_json_line", 1), ("the second line", line() + b"\n{\n", "invalid_json_line", 2),
            ("the same id twice", line() + b"\n" + line(), "duplicate_custom_id", 2), ("the same id in other words", line() + b"\n" + line().replace(b'"a"', b'"\\u0061"'), "duplicate_custom_id", 2),
            ("no id", without["custom_id"], "invalid_custom_id", 1), ("id: a number", line(custom_id=5), "invalid_custom_id", 1), ("id: null", line(custom_id=None), "invalid_custom_id", 1),
            ("id: empty", line(custom_id=""), "invalid_custom_id", 1), ("id: 513 bytes, behind one of 512", line(custom_id="x" * 512) + b"\n" + line(custom_id="x" * 513), "invalid_custom_id", 2), ("id: an array", line(custom_id=["a"]), "invalid_custom_id", 1),
            ("no method", without["method"], "invalid_method", 1), ("GET", line(method="GET"), "invalid_method", 1), ("post", line(method="post"), "invalid_method", 1), ("method: 1", line(method=1), "invalid_method", 1),
            ("no url", without["url"], "mismatched_endpoint", 1), ("another url", line(url="/v1/embeddings"), "mismatched_endpoint", 1), ("url: 1", line(url=1), "mismatched_endpoint", 1),
            ("a url with a host", line(url="http://x/v1/completions"), "mismatched_endpoint", 1), ("no body", without["body"], "invalid_body", 1), ("body: null", line(body=None), "invalid_body", 1),
            ("body: a string", line(body="x"), "invalid_body", 1), ("body: an array", line(body=[]), "invalid_body", 1)):
        f = upload(content)
        a = begin(f)
        b = wait(a.json()["id"]) if a.status == 200 else {}
        errors = (b.get("errors") or {}).get("data") or [{}]
        ok = b.get("status") == "failed" and (errors[0].get("code"), errors[0].get("line")) == (code, number) and b["output_file_id"] is None
        g.case(name, None if ok else "got %r, %s" % (a, b))
        drop({"id": f})
    g.end()
    # Lines that are requests, but none that is taken: each has its error, and the rest its answer.
    g = Group("batches: requests that are refused")
    bad = [("prompt", {"prompt": 5}), ("prompt", {}), ("temperature", {"temperature": "hot"}), ("n", {"n": 17}), ("max_tokens", {"max_tokens": -2}), ("stop", {"stop": [""]}), ("stop", {"stop": ["x"] * 17}),
           ("grammar", {"grammar": "root ::= ["}), ("grammar", {"grammar": "root ::= " + '"a" ' * 400}), ("json_schema", {"json_schema": {"type": "object", "description": "x" * 1100}}),
           ("prompt", {"prompt": "the cat sat " * 3000}), ("logit_bias", {"logit_bias": {"x": 1}}), ("prompt", {"prompt": [10 ** 9]})]
    text = [line(custom_id="bad%d" % i, body={**({"prompt": "Tom"} if fields else {}), "max_tokens": 1, **fields}) for i, (_, fields) in enumerate(bad)]
    f = upload(b"\n".join([line(custom_id="first")] + text + [line(custom_id="last")]))
    b = wait(begin(f).json()["id"])
    g.case("counts", None if b["request_counts"] == {"total": len(bad) + 2, "completed": 2, "failed": len(bad)} else repr(b))
    lines = [json.loads(x) for x in server.get("%s/%s/content" % (FILES, b["error_file_id"])).body.splitlines()] if b["error_file_id"] else []
    told = {x["custom_id"]: x["response"] for x in lines}
    for i, (param, fields) in enumerate(bad):
        r = told.get("bad%d" % i) or {}
        e = (r.get("body") or {}).get("error") or {}
        g.case("%s: %.40r" % (param, fields), None if r.get("status_code") == 400 and (e.get("param") or "").startswith(param) else "got %s" % r)
    g.end()
    drop({"id": f})


def lives(file_id):
    """What has ended, is in use, or is gone."""
    g = Group("files and batches that have ended, are in use, or gone")
    done = wait(begin(file_id).json()["id"])
    for _ in range(2):
        g.case("a batch that has ended is not cancelled", refusal(server.post("%s/%s/cancel" % (BATCHES, done["id"]), {}), 409, "id"))
    g.case("results are no input", refusal(begin(done["output_file_id"]), 400, "input_file_id"))
    long = upload(b"\n".join(line(custom_id="r%d" % i, body={"prompt": "Tom", "max_tokens": 400, "ignore_eos": True}) for i in range(200)))
    b = begin(long).json()
    for _ in range(3):
        g.case("a file in use is not removed", refusal(server.ask("DELETE", FILES + "/" + long), 409, "id"))
    for body in (b"", b"{", b"x" * 1000, b"null"):
        a = server.post("%s/%s/cancel" % (BATCHES, b["id"]), body)
        # It may have ended meanwhile: the first of these did it.
        g.case("cancelled, with any body", None if a.status == 200 and a.json()["status"] == "cancelling" else refusal(a, 409, "id"))
    got = wait(b["id"])
    g.case("it was", None if got["status"] == "cancelled" else repr(got))
    drop({"id": long})
    for method, path in (("DELETE", ""), ("GET", ""), ("GET", "/content"), ("HEAD", "")):
        a = server.ask(method, FILES + "/" + long + path)
        g.case("%s of what was removed" % method, None if method == "HEAD" and a.status == 404 else refusal(a, 404, "id"))
    g.case("a batch of what was removed", refusal(begin(long), 400, "input_file_id"))
    # Removed by others than the server.
    f = upload(line())
    os.unlink(os.path.join(DATA, "files", f + ".data"))
    there.discard(f + ".data")
    g.case("bytes that are gone", refusal(server.get("%s/%s/content" % (FILES, f)), 404, "id"))
    b = wait(begin(f).json()["id"])
    g.case("a batch of bytes that are gone", None if b["status"] == "failed" and b["errors"]["data"][0]["code"] == "input_missing" else repr(b))
    there.discard(f + ".json")
    g.case("it can be removed", None if server.ask("DELETE", FILES + "/" + f).status == 200 else "it cannot")
    g.case("and is gone", refusal(server.get(FILES + "/" + f), 404, "id"))
    f = upload(line())
    path = os.path.join(DATA, "files", f + ".data")
    os.unlink(path)
    os.symlink("/etc/passwd", path)
    g.case("bytes that are a link", refusal(server.get("%s/%s/content" % (FILES, f)), 404, "id"))
    drop({"id": f})
    g.end()


def damaged():
    """Another start over records that are none: they are counted and left alone, the rest is served."""
    good = upload(line())
    known = server.get(FILES).json()["data"]
    cases.check("it ends when asked to, with 0", server.stop() == 0, "\n".join(server.lines[-20:]))
    file_record = json.load(open(os.path.join(DATA, "files", good + ".json")))
    batch = [n for n in sorted(names("batches")) if n.endswith(".json")][0]
    batch_record = json.load(open(os.path.join(DATA, "batches", batch)))
    n = 0

    def put(folder, name, content):
        with open(os.path.join(DATA, folder, name), "wb") as f:
            f.write(content)

    for fields in (None, {"owner": None}, {"owner": "../" * 20}, {"owner": "x" * 100}, {"owner": "a" * 65}, {"filename": "\u00e9" * 200}, {"filename": 5}, {"purpose": "x" * 100}, {"number": -1},
                   {"number": "7"}, {"number": 2 ** 63 - 1}):
        name = "file-%032x" % (0xbad0000 + n)
        put("files", name + ".data", b"x")
        put("files", name + ".json", b"\x00\xffnonsense" if fields is None else json.dumps({**file_record, **fields}).encode())
        n += 1
    for top, inner in (({}, {"status": "nonsense"}), ({"end": 2}, {}), ({"end": 4, "output": "", "error": ""}, {"status": "finalizing"}), ({"end": 99}, {}), ({"end": -1}, {}), ({"owner": "x" * 99}, {}),
                       ({"output": "../../x"}, {}), ({}, {"input_file_id": "../../etc/passwd"}), ({"batch": 5}, None), ({"number": -1}, {}), ({}, {"endpoint": "x" * 99})):
        record = {**batch_record, **top}
        if inner:
            record["batch"] = {**batch_record["batch"], **inner}
        put("batches", "batch_%032x.json" % (0xbad0000 + n), json.dumps(record).encode())
        n += 1
    put("files", "file-x.json", b"not ours")
    put("files", ".cohort-1-2-3.tmp", b"half a file")
    put("batches", ".cohort-1-2-3.tmp", b"half a file")
    put("batches", "batch_" + "e" * 32 + ".jsonl", b"results of nothing")
    os.mkdir(os.path.join(DATA, "files", "file-" + "d" * 32 + ".json"))
    with Server(ARGS) as again:
        told = again.wait_line(r"\b%d\b.*(damaged|cannot be read)" % (n + 1), 5)
        cases.check("damaged records: %d are counted" % (n + 1), told is not None, "\n".join(again.lines))
        now = again.get(FILES).json()["data"]
        cases.check("the others are served as before", now == known, now)
        a = again.get("%s/%s/content" % (FILES, good))
        cases.check("with their bytes", a.body == line(), a)
        b = again.post(BATCHES, {"input_file_id": good, "endpoint": "/v1/completions", "completion_window": "24h"}).json()
        cases.check("a batch runs", eventually(lambda: again.get(BATCHES + "/" + b["id"]).json()["status"] == "completed", 60), b)
        cases.check("nothing half made is left", not [x for x in names() | names("batches") if x.startswith(".cohort")] and
                    "batch_" + "e" * 32 + ".jsonl" not in names("batches"), names())
        cases.check("nothing is busy, and nothing is written again and again", eventually(lambda: again.busy() == 0, 5) and
                    len(again.lines) < 8, "\n".join(again.lines))
        cases.check("it ends with 0", again.stop() == 0, "\n".join(again.lines))
    outside = sorted(x for x in os.listdir(DATA) if x not in ("files", "batches", "lock"))
    cases.check("nothing was written beside its folders", outside == [], outside)


def leaves_nothing(before, file_id):
    f = upload(line() + b"\n" + line(custom_id="b"))
    b = wait(begin(f).json()["id"])
    cases.check("after all of it a good batch runs", b["status"] == "completed" and b["request_counts"]["completed"] == 2, b)
    cases.check("no slot is busy, nobody waits", eventually(lambda: server.busy() == 0, 5), server.slots())
    cases.check("all connections are gone", eventually(lambda: server.metrics()["cohort:connections"] == 1, 5))
    cases.check("descriptors are back to what they were", eventually(lambda: server.fds() <= before["fds"], 5), "%d, %d before" % (server.fds(), before["fds"]))
    cases.check("no temporary file, nothing but what was uploaded", names() == there, sorted(names() ^ there))
    left = [n for n in names("batches") if not n.startswith("batch_") or not n.endswith(".json")]
    cases.check("of batches that have ended only their records are left", left == [], left)
    cases.check("the first file is as it was", server.get("%s/%s/content" % (FILES, file_id)).body == line())
    cases.check("nothing was said on standard error", len(server.lines) == before["lines"], "\n".join(server.lines))


with server:
    first = upload(line())
    ended = wait(begin(first).json()["id"])
    cases.check("a good upload, and a good batch of it", ended["status"] == "completed", ended)
    wait(begin(first).json()["id"])
    time.sleep(0.1)
    state = {"fds": server.fds(), "lines": len(server.lines)}
    for part_of_it, args in ((split_everywhere, ()), (content_types, ()), (broken_forms, ()), (wrong_parts, ()), (sizes, ()), (odd_but_good, ()), (ids, (first, ended["id"])),
                             (lists, (first, ended["id"])), (batch_fields, (first,)), (batch_lines, ()), (lives, (first,)), (leaves_nothing, (state, first)), (damaged, ())):
        begun = time.monotonic()
        part_of_it(*args)
        print("# %s: %.1f s" % (part_of_it.__name__, time.monotonic() - begun))
cases.end()
