"""A client of `cohort serve` for its tests: starts servers, speaks raw HTTP to them, reads streams, counts cases.

    cases = Cases()
    with Server(["-np", "2"]) as server:
        a = server.post("/v1/completions", {"prompt": "Tom", "max_tokens": 2})
        cases.check("an answer", a.status == 200, a)
    cases.end()

Programs are called by serve_lib.sh as PROGRAM.py COHORT TMP: the program to test and a folder for files.
Only the standard library is used.
"""
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time

PATIENCE_S = 60.0  # for what has no limit of its own; sanitizers and busy machines are slow
PROGRAM = sys.argv[1] if len(sys.argv) > 1 else ""
FOLDER = sys.argv[2] if len(sys.argv) > 2 else ""


class Answer:
    """What came back: status 0 when the connection was closed without an answer, -1 when nothing came in time."""

    def __init__(self, status, headers=(), body=b"", reason=""):
        self.status = status
        self.headers = list(headers)
        self.body = body
        self.reason = reason

    def header(self, name):
        found = [v for k, v in self.headers if k == name.lower()]
        return found[0] if found else None

    def json(self):
        try:
            return json.loads(self.body)
        except ValueError:
            return None

    def error(self):
        """The error of the body, or {}."""
        v = self.json()
        e = v.get("error") if isinstance(v, dict) else None
        return e if isinstance(e, dict) else {}

    def __repr__(self):
        return "%d %s %r" % (self.status, self.reason, self.body[:300])


class Late(Exception):
    pass


class Closed(Exception):
    pass


class Conn:
    """One connection. All that waits has a limit, and raises Late behind it."""

    def __init__(self, server, timeout=PATIENCE_S):
        self.limit = timeout
        self.rest = b""
        if server.unix:
            self.sock = socket.socket(socket.AF_UNIX)
            self.sock.settimeout(timeout)
            self.sock.connect(server.unix)
        else:
            self.sock = socket.create_connection((server.host, server.port), timeout)
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if server.tls:
            context = ssl.create_default_context()
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            self.sock = context.wrap_socket(self.sock)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.sock.close()

    def send(self, data):
        """False: the server has hung up already."""
        try:
            self.sock.sendall(data)
            return True
        except OSError:
            return False

    def _fill(self, until):
        left = until - time.monotonic()
        if left <= 0:
            raise Late()
        self.sock.settimeout(left)
        try:
            got = self.sock.recv(65536)
        except (TimeoutError, ssl.SSLWantReadError):
            raise Late() from None
        except OSError:
            got = b""
        if not got:
            raise Closed()
        self.rest += got

    def line(self, until):
        while b"\n" not in self.rest:
            self._fill(until)
        line, self.rest = self.rest.split(b"\n", 1)
        return line.rstrip(b"\r")

    def take(self, n, until):
        while len(self.rest) < n:
            self._fill(until)
        taken, self.rest = self.rest[:n], self.rest[n:]
        return taken

    def head(self, until):
        """Status line and headers; (0, "", []) when there is none but the end."""
        while True:
            try:
                first = self.line(until)
            except Closed:
                if self.rest:
                    raise AssertionError("half a status line: %r" % self.rest) from None
                return 0, "", []
            m = re.fullmatch(rb"HTTP/1\.[01] (\d{3}) ?(.*)", first)
            assert m, "no status line: %r" % first
            headers = []
            while True:
                line = self.line(until)
                if not line:
                    break
                name, value = line.split(b":", 1)
                headers.append((name.decode("latin-1").lower(), value.strip().decode("latin-1")))
            if m.group(1) != b"100":
                return int(m.group(1)), m.group(2).decode("latin-1"), headers

    def body_pieces(self, headers, until):
        """The body as it comes, chunk by chunk where it is chunked."""
        h = dict(headers)
        if h.get("transfer-encoding") == "chunked":
            while True:
                n = int(self.line(until).split(b";")[0], 16)
                if n == 0:
                    while self.line(until):
                        pass
                    return
                yield self.take(n, until)
                assert self.take(2, until) == b"\r\n"
        elif "content-length" in h:
            yield self.take(int(h["content-length"]), until)
        else:
            try:
                while True:
                    if self.rest:
                        yield self.take(len(self.rest), until)
                    self._fill(until)
            except Closed:
                return

    def answer(self, timeout=None, method="GET"):
        until = time.monotonic() + (timeout or self.limit)
        try:
            status, reason, headers = self.head(until)
            body = b""
            if status and method != "HEAD" and status not in (204, 304):
                body = b"".join(self.body_pieces(headers, until))
            return Answer(status, headers, body, reason)
        except Late:
            return Answer(-1, reason="nothing came in time")
        except Closed:
            return Answer(0, reason="closed within an answer")

    def closed(self, timeout=None):
        """Whether the server hangs up, having sent nothing more."""
        until = time.monotonic() + (timeout or self.limit)
        try:
            while not self.rest:
                self._fill(until)
            return False
        except Closed:
            return True
        except Late:
            return False

    def ask(self, method, path, body=None, headers=(), timeout=None):
        self.send(request(method, path, body, headers))
        return self.answer(timeout, method)

    def events(self, timeout=None):
        """The lines of a stream that are not empty: 'data: ...' and ': comments'. Behind the head, until its end."""
        until = time.monotonic() + (timeout or self.limit)
        self.status, _, self.headers = self.head(until)
        text = b""
        for piece in self.body_pieces(self.headers, until):
            text += piece
            while b"\n" in text:
                line, text = text.split(b"\n", 1)
                if line:
                    yield line.decode("utf-8")
        assert not text, "a line of a stream without its end: %r" % text


def request(method, path, body=None, headers=()):
    """The bytes of a request. A body is bytes, or a value for JSON."""
    lines = ["%s %s HTTP/1.1" % (method, path), "Host: localhost", "X-Request-Id: test"]
    if body is not None and not isinstance(body, bytes):
        body = json.dumps(body).encode()
    if body is not None and not any(name.lower() == "content-type" for name, _ in headers):
        lines += ["Content-Type: application/json"]
    if body is not None:
        lines += ["Content-Length: %d" % len(body)]
    lines += ["%s: %s" % h for h in headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + (body or b"")


class Server:
    """A server that listens on a free port of this machine, or on the -socket of its arguments. under: a command that runs
    it; began: called with the process, before it is waited for."""

    def __init__(self, args=(), tls=False, under=(), began=None, env=None, seed=0):
        args = list(args)
        if "-seed" not in args and seed is not None:  # the same request, the same answer
            args += ["-seed", str(seed)]
        if "-socket" not in args and "-port" not in args:
            args += ["-port", "0"]
        self.tls = tls
        self.unix = None
        self.lines = []
        self.process = subprocess.Popen([*under, PROGRAM, "serve"] + args, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=env)
        if began:
            began(self.process)
        self.heard = threading.Condition()
        self.ended = False
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        where = self.wait_line(r"listening on (?:(unix:)(.*)|https?://\[?(.*?)\]?:(\d+))$")
        self.up = where is not None
        if self.up and where.group(1):
            self.unix = where.group(2)
        elif self.up:
            self.host, self.port = where.group(3), int(where.group(4))

    def _read(self):
        for line in self.process.stderr:
            with self.heard:
                self.lines.append(line.decode("utf-8", "replace").rstrip("\n"))
                self.heard.notify_all()
        with self.heard:
            self.ended = True
            self.heard.notify_all()

    def wait_line(self, pattern, timeout=PATIENCE_S):
        """The first line on standard error that has the pattern; None: it ended, or the time did."""
        until = time.monotonic() + timeout
        with self.heard:
            while True:
                for line in self.lines:
                    m = re.search(pattern, line)
                    if m:
                        return m
                left = until - time.monotonic()
                if self.ended or left <= 0:
                    return None
                self.heard.wait(left)

    def __enter__(self):
        assert self.up, "the server did not start: %s" % self.lines
        return self

    def __exit__(self, *_):
        if os.environ.get("COHORT_COVERAGE"):  # what was counted is written at a normal end
            self.process.terminate()
            self.wait(10)
        self.process.kill()
        self.process.wait()
        self.reader.join()
        self.process.stderr.close()

    def connect(self, timeout=PATIENCE_S):
        return Conn(self, timeout)

    def ask(self, method, path, body=None, headers=(), timeout=None):
        with self.connect() as c:
            return c.ask(method, path, body, headers, timeout)

    def get(self, path, headers=()):
        return self.ask("GET", path, None, headers)

    def post(self, path, body, headers=()):
        return self.ask("POST", path, body, headers)

    def signal(self, which=signal.SIGTERM):
        self.process.send_signal(which)

    def wait(self, timeout=PATIENCE_S):
        """The exit code; None: it still runs."""
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            return None
        self.reader.join()
        return code

    def stop(self):
        """Asks it to end, and waits. Leaks that a sanitizer finds are in the exit code."""
        self.signal()
        return self.wait()

    def fds(self):
        return len(os.listdir("/proc/%d/fd" % self.process.pid))

    def slots(self, headers=()):
        """The states of all slots."""
        return [s["state"] for s in self.get("/slots", headers).json()]

    def metrics(self, headers=()):
        """Values by name with labels, as they are written."""
        values = {}
        for line in self.get("/metrics", headers).body.decode().splitlines():
            if line and not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                values[name] = float(value)
        return values

    def busy(self, headers=()):
        """Sequences in slots, and requests that wait."""
        m = self.metrics(headers)
        queued = m["llamacpp:requests_deferred"]
        return sum(s != "idle" for s in self.slots(headers)) + queued

    def idle_within(self, seconds, headers=()):
        return eventually(lambda: self.busy(headers) == 0, seconds)


def eventually(test, seconds=PATIENCE_S, step=0.02):
    """Whether the test comes true in time."""
    until = time.monotonic() + seconds
    while not test():
        if time.monotonic() > until:
            return False
        time.sleep(step)
    return True


def refusal(answer, status=None, param=None):
    """What is wrong with an answer that must be a refusal: a JSON error, that names the field."""
    if answer.status != (status or 400):
        return "got %r, expected %d" % (answer, status or 400)
    e = answer.error()
    if not e or not isinstance(e.get("message"), str) or not e["message"] or not isinstance(e.get("type"), str):
        return "no error in %r" % answer
    if answer.header("content-type") != "application/json":
        return "the error is of type %s" % answer.header("content-type")
    if param is not None:
        got = e.get("param") or ""
        if got != param and not (got.startswith(param) and got[len(param)] in "[."):
            return "names %r instead of %s: %r" % (e.get("param"), param, answer)
    return None


class Group:
    """Cases that make one line of the result. good: says behind each of them what is wrong with the server, or nothing."""

    def __init__(self, cases, name, good):
        self.cases, self.name, self.good = cases, name, good
        self.n = 0
        self.bad = []
        self.lock = threading.Lock()

    def case(self, name, why, again=True):
        """why: what was wrong, or nothing. again: whether the server is looked at, where that was not the case itself."""
        after = self.good() if again else None
        with self.lock:
            self.n += 1
            self.bad += ["%s: %s" % (name, w) for w in (why, after) if w]

    def end(self):
        self.cases.check("%s (%d cases)" % (self.name, self.n), not self.bad, "\n".join(self.bad[:12]))


class Cases:
    """Counts, and writes what serve_lib.sh reads: TAP without a plan."""

    def __init__(self):
        self.n = self.n_bad = 0

    def check(self, name, ok, detail=None):
        self.n += 1
        self.n_bad += not ok
        print("%sok %d - %s" % ("" if ok else "not ", self.n, name))
        if not ok and detail is not None:
            print("\n".join("# " + line for line in str(detail)[:3000].splitlines()))
        sys.stdout.flush()
        return ok

    def group(self, name, good):
        return Group(self, name, good)

    def skip(self, name, why):
        self.n += 1
        print("ok %d - %s # SKIP %s" % (self.n, name, why), flush=True)

    def end(self):
        print("# end")  # who does not come here has crashed
        sys.exit(0)
