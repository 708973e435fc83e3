"""What other pages can make a browser send to a server without keys: see serve_guard.sh. Prints the codes it got."""
import os

from serve_client import FOLDER, Cases, Server, refusal

cases = Cases()
check = cases.check

EVIL = "http://evil.example"
PLAIN = ("Content-Type", "text/plain")
BOUNDARY = "multipart/form-data; boundary=xx"
COMPLETION = b'{"prompt": "a", "max_tokens": 2}'
STRATEGY = b'{"strategy": "balanced"}'


def form(n=2):
    field = b'--xx\r\nContent-Disposition: form-data; name="%s"%s\r\n\r\n%s\r\n'
    return field % (b"purpose", b"", b"batch") + field % (b"file", b'; filename="x.jsonl"', b"x" * n) + b"--xx--\r\n"


# What a page of another origin can send without asking first, and what it would do.
ATTACKS = (
    ("a preflight", "OPTIONS", "/v1/completions", None, [("Access-Control-Request-Method", "POST")]),
    ("another strategy", "POST", "/cohort/strategy", STRATEGY, [PLAIN]),
    ("an upload", "POST", "/v1/files", form(), [("Content-Type", BOUNDARY)]),
    ("an upload of 17 MiB", "POST", "/v1/files", form(17 << 20), [("Content-Type", BOUNDARY)]),
    ("a completion", "POST", "/v1/completions", COMPLETION, [PLAIN]),
    ("a slot erased", "POST", "/slots/0?action=erase", b"", [PLAIN]),
    ("a list of files", "GET", "/v1/files", None, []),
    ("a path that is not there", "GET", "/nowhere", None, []),
)


def send(server, method, path, body, headers, host="localhost"):
    """Like Conn.ask, with a Host of one's own; None: without one, by HTTP/1.0."""
    lines = ["%s %s HTTP/1.%d" % (method, path, host is not None)] + ([] if host is None else ["Host: " + host])
    lines += ["%s: %s" % h for h in headers]
    if body is not None:
        lines.append("Content-Length: %d" % len(body))
    with server.connect() as c:
        c.send(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))
        if body:
            c.send(body)
        return c.answer(20, method)


def refused(a, word):
    """403, for the reason, with the remedy."""
    return not refusal(a, 403) and word in a.error()["message"] and a.error()["type"] == "permission_error"


def attacks(server):
    own = "127.0.0.1:%d" % server.port
    ways = (("Origin", own, [("Origin", EVIL)], "-cors"),
            ("Origin: null", own, [("Origin", "null")], "-cors"),
            ("another port", own, [("Origin", "http://127.0.0.1:%d" % (server.port ^ 1)), ("Sec-Fetch-Site", "same-site")], "-cors"),
            ("no Origin", own, [("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "no-cors")], "-cors"),
            ("rebinding", "evil.example:%d" % server.port, [("Origin", "http://evil.example:%d" % server.port),
                                                            ("Sec-Fetch-Site", "same-origin")], "-allow-host"),
            ("rebinding, no Origin", "evil.example", [], "-allow-host"))
    before = server.get("/cohort/strategy").body
    for what, method, path, body, more in ATTACKS:
        got = [(how, send(server, method, path, body, more + headers, host), word) for how, host, headers, word in ways]
        print("# %-24s %s" % (what, " ".join("%s: %d" % (how, a.status) for how, a, _ in got)))
        check("refused from another page: " + what, all(refused(a, word) for _, a, word in got), got)
    files = send(server, "GET", "/v1/files", None, []).json()
    check("none of it was done", files and files["data"] == [] and server.get("/cohort/strategy").body == before, files)


def taken(server):
    """What is no other page's: programs, whatever the form of Host, and the server's own page."""
    port = server.port
    hosts = ["localhost", "LOCALHOST:%d" % port, "localhost.", "a.localhost", "127.0.0.1:%d" % port, "192.168.7.1", "[::1]:%d" % port,
             "[fe80::1]", "allowed.example:80", "Other-Allowed", "", None]
    got = [(h, send(server, "GET", "/v1/models", None, [("Connection", "close")], h).status) for h in hosts]
    check("programs, by each form of Host", all(status == 200 for _, status in got), got)
    hosts = ["evil.example", "localhost.evil.example", "xlocalhost", "127.0.0.1.evil.example", "1.2.3", "0x7f.1", "[::1", "[x]", "[::1]x",
             "localhost:x", "evil.example/.localhost", "evil@a.localhost", "::1", ":80", "allowed.example.evil", "x" * 300]
    got = [(h, send(server, "GET", "/v1/models", None, [], h).status) for h in hosts]
    check("other names: 403", all(status == 403 for _, status in got), got)
    own = "localhost:%d" % port
    page = [("Origin", "http://" + own), ("Sec-Fetch-Site", "same-origin"), ("Sec-Fetch-Mode", "cors")]
    got = [send(server, m, p, b, page, own).status for m, p, b in
           (("GET", "/", None), ("GET", "/v1/models", None), ("POST", "/v1/completions", COMPLETION), ("POST", "/cohort/strategy", STRATEGY))]
    got.append(send(server, "POST", "/v1/completions", COMPLETION, [("Origin", "https://allowed.example")], "allowed.example").status)
    check("the server's own page, behind a proxy with TLS as well", got == [200] * 5, got)
    link = [("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "navigate"), ("Sec-Fetch-Dest", "document")]
    frame = link[:2] + [("Sec-Fetch-Dest", "iframe")]
    got = [send(server, m, p, b, h).status for m, p, b, h in
           (("GET", "/", None, link), ("GET", "/ui/app.js", None, link), ("GET", "/v1/models", None, link), ("GET", "/", None, frame),
            ("POST", "/v1/completions", COMPLETION, link))]
    check("a link to the page can be followed, and nothing else", got == [200, 200, 403, 403, 403], got)


def cors():
    with Server(["-admin", "-cors", "http://friend.example"]) as server:
        friend, evil = [("Origin", "http://friend.example")], [("Origin", EVIL)]
        ask = [("Access-Control-Request-Method", "POST")]
        got = [send(server, "OPTIONS", "/v1/completions", None, friend + ask).status, send(server, "POST", "/v1/completions", COMPLETION, friend).status,
               send(server, "OPTIONS", "/v1/completions", None, evil + ask).status, send(server, "POST", "/v1/completions", COMPLETION, evil).status]
        check("-cors: that origin and no other", got == [204, 200, 403, 403], got)
        a = send(server, "POST", "/cohort/strategy", STRATEGY, friend)
        check("-cors: not what is an admin's, without keys", refused(a, "admin's key"), a)
    with Server(["-admin", "-cors", "*"]) as server:
        got = [send(server, "POST", "/v1/completions", COMPLETION, [("Origin", o)]).status for o in (EVIL, "null")]
        got.append(send(server, "GET", "/health", None, [("Sec-Fetch-Site", "cross-site")]).status)
        got.append(send(server, "POST", "/cohort/strategy", STRATEGY, [("Origin", EVIL)]).status)
        got.append(send(server, "GET", "/health", None, [], "evil.example").status)
        check("-cors '*': all origins, but no other Host and nothing of an admin's", got == [200, 200, 200, 403, 403], got)


def keys():
    """A key is what a browser does not send by itself."""
    with Server(["-api-key", "k"]) as server:
        with_key = [("Authorization", "Bearer k"), ("Origin", EVIL)]
        got = [send(server, "POST", "/v1/completions", COMPLETION, h, "any.example").status for h in (with_key, with_key[1:])]
        check("with keys: the key decides, not Host or Origin", got == [200, 401], got)


def unix():
    with Server(["-socket", os.path.join(FOLDER, "socket")]) as server:
        got = [send(server, "GET", "/v1/models", None, [], h).status for h in ("localhost", "", "evil.example")]
        got.append(send(server, "GET", "/v1/models", None, [("Origin", EVIL)]).status)
        check("-socket: the same", got == [200, 200, 403, 403], got)


with Server(["-admin", "-data", os.path.join(FOLDER, "data"), "-slot-save-path", FOLDER, "-allow-host", "allowed.example",
             "-allow-host", "other-allowed"]) as one:
    attacks(one)
    taken(one)
cors()
keys()
unix()
cases.end()
