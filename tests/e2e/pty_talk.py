#!/usr/bin/env python3
"""Talks with a program on a pseudo-terminal, by a script on standard input.

usage: pty_talk.py [-k] PROGRAM ARGUMENT... < SCRIPT

Each line of the script is one of
    expect TEXT    waits until TEXT comes, behind what was expected before (escapes as in Python, no regular expressions)
    never TEXT     fails if TEXT is anywhere in what came so far
    unsent TEXT    the same, in the escape sequences as well
    send TEXT      types TEXT, with a line end behind it
    type TEXT      types TEXT as it is: \\x03 is Ctrl-C, \\x04 Ctrl-D, \\t Tab, \\x1b[A the arrow up
    big N BYTE     types N times the character
    size ROWS COLS changes the terminal's size
    signal NAME    sends a signal to the program: TERM
    sleep SECONDS
    stopped        waits until the program is stopped
    end CODE       waits for the end, with that exit code (negative: killed by that signal)
What came, without escape sequences and carriage returns, goes to standard output. Exit code 1, and why on standard
error, when a step fails. A step may take 60 seconds. With -k standard error is not the terminal.
"""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time

LIMIT_S = 60
ESCAPES = re.compile(rb"\x1b(\[[0-9;?]*[ -/]*[@-~]|\][^\x07]*\x07|[()].|[=>78])")


class Talk:
    def __init__(self, command, quiet_stderr):
        self.raw = b""
        self.at = 0  # how much of the plain text was expected already
        self.code = None
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            for n in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):  # who began the tests may ignore them
                signal.signal(n, signal.SIG_DFL)
            if quiet_stderr:
                os.dup2(os.open("/dev/null", os.O_WRONLY), 2)
            os.execv(command[0], command)
        self.size(24, 80)

    def size(self, rows, cols):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def plain(self):
        return ESCAPES.sub(b"", self.raw).replace(b"\r", b"").replace(b"\x07", b"")

    def pump(self, seconds):
        """Reads what there is; False when the terminal is closed."""
        if not select.select([self.fd], [], [], seconds)[0]:
            return True
        try:
            more = os.read(self.fd, 65536)
        except OSError:
            more = b""
        self.raw += more
        return more != b""

    def expect(self, text):
        until = time.monotonic() + LIMIT_S
        alive = True
        while True:
            plain = self.plain()
            i = plain.find(text, self.at)
            if i >= 0:
                self.at = i + len(text)
                return
            if not alive or time.monotonic() > until:
                raise RuntimeError("did not come: %r" % text)
            alive = self.pump(0.1)

    def type(self, data):
        until = time.monotonic() + LIMIT_S
        while data:
            if time.monotonic() > until:
                raise RuntimeError("the program does not read what is typed")
            # What comes back has to be read meanwhile, or both sides wait.
            if select.select([], [self.fd], [], 0.1)[1]:
                data = data[os.write(self.fd, data[:256]):]
            while select.select([self.fd], [], [], 0)[0] and self.pump(0):
                pass

    def stopped(self):
        until = time.monotonic() + LIMIT_S
        while time.monotonic() < until:
            with open("/proc/%d/stat" % self.pid) as f:
                if f.read().rsplit(")", 1)[1].split()[0] == "T":
                    return
            self.pump(0.05)
        raise RuntimeError("the program was not stopped")

    def end(self, code):
        until = time.monotonic() + LIMIT_S
        alive = True
        while self.code is None and time.monotonic() < until:
            if alive:
                alive = self.pump(0.05)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.code = os.waitstatus_to_exitcode(status)
            elif not alive:
                time.sleep(0.02)
        while alive and select.select([self.fd], [], [], 0)[0]:
            alive = self.pump(0)
        if self.code != code:
            raise RuntimeError("ended with %s, not %s" % (self.code, code))

    def step(self, line):
        word, _, rest = line.partition(" ")
        data = rest.encode("utf-8").decode("unicode_escape").encode("latin-1") if "\\" in rest else rest.encode()
        if word == "expect":
            self.expect(data)
        elif word == "never":
            if data in self.plain():
                raise RuntimeError("came all the same: %r" % data)
        elif word == "unsent":
            if data in self.raw:
                raise RuntimeError("was sent all the same: %r" % data)
        elif word == "send":
            self.type(data + b"\r")
        elif word == "type":
            self.type(data)
        elif word == "big":
            count, byte = rest.split()
            self.type(byte.encode() * int(count))
        elif word == "size":
            self.size(*(int(n) for n in rest.split()))
        elif word == "signal":
            os.kill(self.pid, getattr(signal, "SIG" + rest))
        elif word == "sleep":
            time.sleep(float(rest))
        elif word == "stopped":
            self.stopped()
        elif word == "end":
            self.end(int(rest))
        elif word:
            raise RuntimeError("no such step: " + line)


def main():
    args = sys.argv[1:]
    quiet = args[:1] == ["-k"]
    script = sys.stdin.read().splitlines()
    talk = Talk(args[1:] if quiet else args, quiet)
    failed = None
    for number, line in enumerate(script, 1):
        try:
            talk.step(line.lstrip())
        except (RuntimeError, OSError) as e:
            failed = "step %d, %s: %s" % (number, line.strip(), e)
            break
    if talk.code is None:
        os.kill(talk.pid, signal.SIGKILL)
        os.waitpid(talk.pid, 0)
        failed = failed or "the script is over and the program is not"
    sys.stdout.buffer.write(talk.plain())
    if failed:
        print(failed, file=sys.stderr)
    return 1 if failed else 0


sys.exit(main())
