#!/usr/bin/env python3
"""A small terminal, for tests of programs that draw on one.

    pty_screen.py [--rows N] [--cols N] [options] [steps] -- PROGRAM ARGUMENT...

runs the program on a pseudo-terminal and keeps the screen it would show. Steps are carried out in the order given:

    --wait REGEX     until a line of the screen (or of what scrolled off it) matches
    --next N         until N more frames were drawn (a frame ends where nothing comes for a moment)
    --sleep SECONDS
    --keys TEXT      type; Python escapes are understood: '\\r', '\\x03' (Ctrl-C)
    --signal NAME    send INT, TERM, STOP, CONT ... to the program
    --resize RxC     of the terminal
    --dump FILE      the screen as text (- : standard output)
    --svg FILE       the screen as a picture

Then the program runs to its end. What the terminal showed, scrolled-off lines first, goes to standard output; the exit code
is the program's (128 + N for signal N), or 124 when the time was over.

As a module: Screen is the terminal alone (feed it bytes), Session a program on one.
"""
import argparse
import codecs
import contextlib
import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
import unicodedata
from xml.sax.saxutils import escape

PLAIN = (None, None, frozenset())  # foreground, background, attributes
BLANK = (' ', PLAIN)
TAIL = ('', PLAIN)  # the right half of a wide character


def width(char):
    """Cells of a character: 0, 1 or 2, by Python's own tables."""
    if unicodedata.category(char) in ('Mn', 'Me') or char in '\u200b\u200c\u200d\ufe0e\ufe0f\u2060\ufeff':
        return 0
    return 2 if unicodedata.east_asian_width(char) in 'WF' else 1


class Screen:
    """rows x cols cells, a cursor, what scrolled off, and what a test wants to know besides."""

    def __init__(self, rows=24, cols=80, reflow=False):
        self.rows, self.cols, self.reflow = rows, cols, reflow
        self.grid = [self._blank_row() for _ in range(rows)]
        self.history = []
        self.row = self.col = 0
        self.saved = (0, 0)
        self.top, self.bottom = 0, rows - 1  # of the scrolling region
        self.style = PLAIN
        self.visible = self.wrap = True  # the cursor; at the right edge
        self.pending = False  # a full row: the next character goes to the next one
        self.title = ''
        self.bells = 0
        self.overflow = 0  # characters that came behind the right edge while wrapping was off
        self.unknown = []  # sequences and control characters that are not understood
        self.replies = b''
        self._decoder = codecs.getincrementaldecoder('utf-8')('replace')
        self._state, self._args = self._ground, ''

    # ---- What is there ----

    def _line(self, row):
        return ''.join(char for char, _ in row).rstrip()

    def lines(self):
        return [self._line(row) for row in self.grid]

    def all_lines(self):
        return [self._line(row) for row in self.history] + self.lines()

    def text(self, everything=False):
        return '\n'.join(self.all_lines() if everything else self.lines()).rstrip('\n') + '\n'

    # ---- Bytes in ----

    def feed(self, data):
        for char in self._decoder.decode(data):
            self._state(char)

    def _ground(self, char):
        code = ord(char)
        if char == '\x1b':
            self._state = self._escape
        elif code >= 32 and code != 127 and not 0x80 <= code < 0xa0:
            self._put(char)
        elif char == '\r':
            self.col, self.pending = 0, False
        elif char in '\n\v\f':
            self._line_feed()
        elif char == '\b':
            self.col, self.pending = max(0, self.col - 1), False
        elif char == '\t':
            self.col = min(self.cols - 1, (self.col // 8 + 1) * 8)
        elif char == '\a':
            self.bells += 1
        else:
            self.unknown.append(repr(char))

    def _escape(self, char):
        self._state, self._args = self._ground, ''
        if char == '[':
            self._state = self._csi
        elif char == ']':
            self._state = self._osc
        elif char in '()':
            self._state = self._charset
        elif char == '7':
            self.saved = (self.row, self.col)
        elif char == '8':
            self._move(*self.saved)
        elif char == 'D':
            self._line_feed()
        elif char == 'E':
            self.col = 0
            self._line_feed()
        elif char == 'M':
            if self.row == self.top:
                self._scroll_down(self.top, 1)
            else:
                self._move(self.row - 1, self.col)
        elif char not in '=>':
            self.unknown.append('ESC ' + repr(char))

    def _charset(self, _char):
        self._state = self._ground

    def _osc(self, char):
        if char == '\a' or self._args.endswith('\x1b') and char == '\\':
            kind, _, text = self._args.rstrip('\x1b').partition(';')
            if kind in ('0', '2'):
                self.title = text
            self._state = self._ground
        else:
            self._args += char

    def _csi(self, char):
        if not '@' <= char <= '~':
            self._args += char
            return
        self._state = self._ground
        private = self._args[:1] if self._args[:1] in ('?', '>', '=', '!') else ''
        fields = self._args[len(private):].split(';')
        if any(f and not f.isdigit() for f in fields):
            self.unknown.append('CSI ' + self._args + char)
            return
        self._command(private, [int(f) if f else 0 for f in fields], char)

    def _command(self, private, n, char):
        count = max(1, n[0])
        if private == '?' and char in 'hl':
            for mode in n:
                if mode == 25:
                    self.visible = char == 'h'
                elif mode == 7:
                    self.wrap = char == 'h'
                elif mode not in (1, 12, 2004, 2026):
                    self.unknown.append('CSI ?%d%s' % (mode, char))
        elif private:
            self.unknown.append('CSI ' + private + char)
        elif char == 'm':
            self._sgr(n)
        elif char in 'AF':
            self._move(self.row - count, 0 if char == 'F' else self.col)
        elif char in 'BE':
            self._move(self.row + count, 0 if char == 'E' else self.col)
        elif char == 'C':
            self._move(self.row, self.col + count)
        elif char == 'D':
            self._move(self.row, self.col - count)
        elif char in 'G`':
            self._move(self.row, count - 1)
        elif char == 'd':
            self._move(count - 1, self.col)
        elif char in 'Hf':
            self._move(count - 1, max(1, n[1] if len(n) > 1 else 1) - 1)
        elif char == 'J':
            self._erase_screen(n[0])
        elif char == 'K':
            first, last = ((self.col, self.cols), (0, self.col + 1), (0, self.cols))[min(n[0], 2)]
            self._erase(self.row, first, last)
        elif char == 'X':
            self._erase(self.row, self.col, min(self.cols, self.col + count))
        elif char == '@':
            row = self.grid[self.row]
            row[self.col:self.col] = [BLANK] * count
            del row[self.cols:]
        elif char == 'P':
            row = self.grid[self.row]
            del row[self.col:self.col + count]
            row += [BLANK] * (self.cols - len(row))
        elif char == 'L':
            self._scroll_down(self.row, count)
        elif char == 'M':
            self._scroll_up(self.row, count)
        elif char == 'S':
            self._scroll_up(self.top, count)
        elif char == 'T':
            self._scroll_down(self.top, count)
        elif char == 'r':
            self.top = count - 1
            self.bottom = (n[1] if len(n) > 1 and n[1] else self.rows) - 1
            self._move(0, 0)
        elif char == 's':
            self.saved = (self.row, self.col)
        elif char == 'u':
            self._move(*self.saved)
        elif char == 'n' and n[0] == 6:
            self.replies += b'\x1b[%d;%dR' % (self.row + 1, self.col + 1)
        elif char not in 'hl':
            self.unknown.append('CSI ' + ';'.join(map(str, n)) + char)

    def _sgr(self, n):
        names = {1: 'bold', 2: 'dim', 3: 'italic', 4: 'underline', 7: 'inverse'}
        fg, bg, attrs = self.style
        i = 0
        while i < len(n):
            code = n[i]
            if code == 0:
                fg, bg, attrs = PLAIN
            elif code in names:
                attrs = attrs | {names[code]}
            elif code == 22:
                attrs = attrs - {'bold', 'dim'}
            elif code in (23, 24, 27):
                attrs = attrs - {names[code - 20]}
            elif code in (38, 48):
                size = 3 if n[i + 1:i + 2] == [5] else 5
                color = n[i + 2] if size == 3 and len(n) > i + 2 else tuple(n[i + 2:i + 5])
                fg, bg = (color, bg) if code == 38 else (fg, color)
                i += size - 1
            elif 30 <= code <= 37 or 90 <= code <= 97:
                fg = code - 30 if code < 90 else code - 82
            elif 40 <= code <= 47 or 100 <= code <= 107:
                bg = code - 40 if code < 100 else code - 92
            elif code == 39:
                fg = None
            elif code == 49:
                bg = None
            else:
                self.unknown.append('SGR %d' % code)
            i += 1
        self.style = (fg, bg, frozenset(attrs))

    # ---- Cells ----

    def _blank_row(self):
        return [BLANK] * self.cols

    def _move(self, row, col):
        self.row = min(max(row, 0), self.rows - 1)
        self.col = min(max(col, 0), self.cols - 1)
        self.pending = False

    def _scroll_up(self, first, count):
        for _ in range(min(count, self.bottom - first + 1)):
            gone = self.grid.pop(first)
            if first == 0:
                self.history.append(gone)
            self.grid.insert(self.bottom, self._blank_row())

    def _scroll_down(self, first, count):
        for _ in range(min(count, self.bottom - first + 1)):
            self.grid.pop(self.bottom)
            self.grid.insert(first, self._blank_row())

    def _line_feed(self):
        self.pending = False
        if self.row == self.bottom:
            self._scroll_up(self.top, 1)
        elif self.row < self.rows - 1:
            self.row += 1

    def _set(self, row, col, cell):
        """Half a wide character is none."""
        cells = self.grid[row]
        if cells[col] == TAIL and col > 0:
            cells[col - 1] = BLANK
        if col + 1 < self.cols and cells[col + 1] == TAIL:
            cells[col + 1] = BLANK
        cells[col] = cell

    def _erase(self, row, first, last):
        for col in range(first, last):
            self._set(row, col, BLANK)
        self.pending = False

    def _erase_screen(self, how):
        if how == 3:
            self.history = []
            return
        self._erase(self.row, 0 if how else self.col, self.col + 1 if how == 1 else self.cols)
        for row in range(self.rows):
            if how == 2 or (row < self.row if how == 1 else row > self.row):
                self._erase(row, 0, self.cols)

    def _put(self, char):
        cells = width(char)
        if cells == 0:
            col = self.col if self.pending else self.col - 1
            if col > 0 and self.grid[self.row][col] == TAIL:
                col -= 1
            if col >= 0:
                old, style = self.grid[self.row][col]
                self.grid[self.row][col] = (old + char, style)
            return
        if self.pending or self.col + cells > self.cols:
            if self.wrap:
                self.col = 0
                self._line_feed()
            else:
                self.overflow += 1
                self.col = max(0, self.cols - cells)
        self.pending = False
        self._set(self.row, self.col, (char, self.style))
        if cells == 2 and self.col + 1 < self.cols:
            self._set(self.row, self.col + 1, TAIL)
            self.grid[self.row][self.col] = (char, self.style)
        self.col += cells
        if self.col >= self.cols:
            self.col, self.pending = self.cols - 1, True

    def resize(self, rows, cols):
        """Rows go to, or come back from, what scrolled off; with reflow, rows that are too long are broken into several."""
        grid, at = [], 0
        for i, row in enumerate(self.grid):
            at = len(grid) if i == self.row else at
            used = len(row)
            while used and row[used - 1] == BLANK:
                used -= 1
            pieces = [row[:used]] if not self.reflow or used <= cols else [row[k:k + cols] for k in range(0, used, cols)]
            grid += [(piece + [BLANK] * cols)[:cols] for piece in pieces]
        self.rows, self.cols = rows, cols
        while len(grid) > rows and len(grid) - 1 > at and all(cell == BLANK for cell in grid[-1]):
            grid.pop()
        while len(grid) > rows:
            self.history.append(grid.pop(0))
            at -= 1
        while len(grid) < rows and self.reflow and self.history:
            grid.insert(0, (self.history.pop() + [BLANK] * cols)[:cols])
            at += 1
        grid += [self._blank_row() for _ in range(rows - len(grid))]
        self.grid, self.top, self.bottom = grid, 0, rows - 1
        self._move(at, self.col)

    # ---- A picture ----

    COLORS = ('#45475a', '#f38ba8', '#a6e3a1', '#f9e2af', '#89b4fa', '#cba6f7', '#94e2d5', '#bac2de',
              '#585b70', '#f38ba8', '#a6e3a1', '#f9e2af', '#89b4fa', '#cba6f7', '#94e2d5', '#cdd6f4')
    INK, PAPER = '#cdd6f4', '#1e1e2e'

    def _color(self, color, otherwise):
        if isinstance(color, tuple):
            return '#%02x%02x%02x' % color
        return self.COLORS[color] if color is not None and color < 16 else otherwise

    def svg(self, title='', last_row=None):
        """Dark, in a monospaced font; runs of one style are one element, set to the grid."""
        cell_w, cell_h, edge = 7.83, 18, 18
        n_rows = last_row or self.rows
        w, h = self.cols * cell_w + 2 * edge, n_rows * cell_h + 2 * edge
        out = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" font-family="DejaVu Sans Mono, Menlo, '
               'Consolas, monospace" font-size="13">' % (w, h)]
        if title:
            out.append('<title>%s</title>' % escape(title))
        out.append('<rect width="%.0f" height="%.0f" rx="8" fill="%s"/>' % (w, h, self.PAPER))
        for r, row in enumerate(self.grid[:n_rows]):
            c = 0
            while c < self.cols:
                style, first, text = row[c][1], c, ''
                wide = row[c] != TAIL and c + 1 < self.cols and row[c + 1] == TAIL
                while c < self.cols and row[c][1] == style and (not text or not wide) and \
                        (wide or c + 1 >= self.cols or row[c + 1] != TAIL):
                    text += row[c][0]
                    c += 2 if wide else 1
                if not text:
                    c += 1
                    continue
                if not text.strip() and style[1] is None and 'inverse' not in style[2]:
                    continue
                out.append(self._run(style, text, first, c, r, (cell_w, cell_h, edge)))
        return '\n'.join(out + ['</svg>', ''])

    def _run(self, style, text, first, last, r, size):
        fg, bg, attrs = style
        cell_w, cell_h, edge = size
        ink, paper = self._color(fg, self.INK), self._color(bg, None)
        if 'inverse' in attrs:
            ink, paper = paper or self.PAPER, ink
        x, y, length = edge + first * cell_w, edge + r * cell_h, (last - first) * cell_w
        box = '<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s"/>' % (x, y, length, cell_h, paper) if paper else ''
        more = ' font-weight="bold"' if 'bold' in attrs else ''
        more += ' opacity="0.6"' if 'dim' in attrs else ''
        more += ' font-style="italic"' if 'italic' in attrs else ''
        more += ' text-decoration="underline"' if 'underline' in attrs else ''
        if text != text.rstrip():
            length -= (len(text) - len(text.rstrip())) * cell_w
            text = text.rstrip()
        return box + '<text x="%.1f" y="%d" textLength="%.1f" fill="%s"%s xml:space="preserve">%s</text>' % (
            x, y + 13, length, ink, more, escape(text))


class Session:
    """A program with a screen of its own, as leader of a session, so that keys become signals as usual."""

    def __init__(self, argv, rows=24, cols=80, reflow=False, env=None, stdin=None, stderr=None, frames=None):
        self.screen = Screen(rows, cols, reflow)
        self.frames = frames  # a list that gets every frame, as text
        self.status = None
        self.n_frames = 0
        self.echo = True
        self.master, slave = os.openpty()
        self._set_size(slave)

        def own_terminal():
            os.setsid()
            fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
            for n in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):  # who began the tests may ignore them: nohup, a script's &
                signal.signal(n, signal.SIG_DFL)

        self.process = subprocess.Popen(argv, stdin=slave if stdin is None else stdin, stdout=slave,
                                        stderr=slave if stderr is None else stderr, env=env, preexec_fn=own_terminal)
        os.close(slave)

    def _set_size(self, fd):
        fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack('HHHH', self.screen.rows, self.screen.cols, 0, 0))

    def _read(self, seconds):
        """One read's worth; None when nothing came, False at the end."""
        if not select.select([self.master], [], [], max(0, seconds))[0]:
            return None
        try:
            data = os.read(self.master, 65536)
        except OSError:
            return False
        if not data:
            return False
        self.screen.feed(data)
        if self.screen.replies:
            os.write(self.master, self.screen.replies)
            self.screen.replies = b''
        return True

    def pump(self, seconds=0.05):
        """Reads until nothing comes for a moment: a frame is whole then. False when the program has closed the terminal."""
        got = self._read(seconds)
        if not got:
            return got is None
        last = time.monotonic() + 1
        while got and time.monotonic() < last:
            got = self._read(0.012)
        self.n_frames += 1
        if self.frames is not None:
            self.frames.append(self.screen.text())
        return got is not False

    def wait(self, regex, seconds=60):
        """True as soon as a line matches."""
        until = time.monotonic() + seconds
        open_, pattern = True, re.compile(regex)
        while not any(pattern.search(line) for line in self.screen.all_lines()):
            if not open_ or time.monotonic() > until:
                return False
            open_ = self.pump()
        return True

    def next(self, count, seconds=60):
        """True when so many more frames have come."""
        until, last = time.monotonic() + seconds, self.n_frames + count
        while self.n_frames < last and time.monotonic() < until and self.pump():
            pass
        return self.n_frames >= last

    def sleep(self, seconds):
        until = time.monotonic() + seconds
        while time.monotonic() < until and self.pump(min(0.05, until - time.monotonic())):
            pass

    def keys(self, text):
        os.write(self.master, text.encode('utf-8', 'surrogateescape'))

    def signal(self, name):
        self.process.send_signal(getattr(signal, 'SIG' + name))

    def resize(self, rows, cols):
        while self._read(0.012):
            pass  # what was written for the old size
        self.screen.resize(rows, cols)
        self._set_size(self.master)  # the kernel tells the program

    def finish(self, seconds=60):
        """To the program's end. The exit code as a shell has it; 124 when the time was over."""
        until = time.monotonic() + seconds
        while self.pump() and time.monotonic() < until:
            if self.process.poll() is not None and not select.select([self.master], [], [], 0.2)[0]:
                break  # something it started still holds the terminal
        try:
            code = self.process.wait(max(0.1, until - time.monotonic()))
            self.status = code if code >= 0 else 128 - code
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            self.status = 124
        with contextlib.suppress(termios.error):
            self.echo = bool(termios.tcgetattr(self.master)[3] & termios.ECHO)
        os.close(self.master)
        return self.status

    def state(self):
        s = self.screen
        return '\n'.join((
            'exit %s' % self.status,
            'cursor %s at %d %d' % ('visible' if s.visible else 'hidden', s.row, s.col),
            'wrap %s' % ('on' if s.wrap else 'off'),
            'echo %s' % ('on' if self.echo else 'off'),
            'style %s' % ('plain' if s.style == PLAIN else 'left over'),
            'overflow %d' % s.overflow,
            'unknown %s' % (' '.join(s.unknown) or 'none'),
            'title %s' % (s.title or 'none'),
            'scrolled %d' % len(s.history), ''))


class Step(argparse.Action):
    def __call__(self, parser, namespace, value, option_string=None):
        namespace.steps.append((self.dest, value))


def write_to(path, text):
    if path == '-':
        sys.stdout.write(text)
    else:
        with open(path, 'w', encoding='utf-8') as f:
            f.write(text)


def size(text):
    rows, cols = text.split('x')
    return int(rows), int(cols)


def parse(argv):
    p = argparse.ArgumentParser(description=__doc__, allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter,
                                usage='pty_screen.py [options] [steps] -- PROGRAM ARGUMENT...')
    p.add_argument('--rows', type=int, default=24)
    p.add_argument('--cols', type=int, default=80)
    p.add_argument('--reflow', action='store_true', help='break long lines when the terminal gets narrower')
    p.add_argument('--timeout', type=float, default=60)
    p.add_argument('--stderr', help='file for standard error, instead of the terminal')
    p.add_argument('--state', help='file for what is left in the end: cursor, modes, exit code')
    p.add_argument('--frames', help='file for every frame, each with a form feed behind it')
    p.add_argument('--title', default='', help='of pictures')
    p.add_argument('--svg-rows', type=int, help='rows of pictures')
    for name, kind in (('wait', str), ('next', int), ('sleep', float), ('keys', str), ('signal', str), ('resize', size), ('dump', str), ('svg', str)):
        p.add_argument('--' + name, type=kind, action=Step)
    p.add_argument('program', nargs='+')
    return p.parse_args(argv, argparse.Namespace(steps=[]))


def carry_out(session, name, value, args):
    if name == 'wait' and not session.wait(value, args.timeout):
        sys.stderr.write('pty_screen: waited in vain for %s\n%s' % (value, session.screen.text(True)))
        session.process.kill()
    elif name == 'next' and not session.next(value, args.timeout):
        sys.stderr.write('pty_screen: %d more frames did not come\n' % value)
    elif name == 'keys':
        session.keys(codecs.decode(value.encode('latin-1', 'backslashreplace'), 'unicode_escape'))
    elif name == 'resize':
        session.resize(*value)
    elif name == 'dump':
        write_to(value, session.screen.text())
    elif name == 'svg':
        write_to(value, session.screen.svg(args.title, args.svg_rows))
    elif name in ('sleep', 'signal'):
        getattr(session, name)(value)


def main(argv):
    args = parse(argv)
    sys.stdout.reconfigure(encoding='utf-8')
    stderr = open(args.stderr, 'wb') if args.stderr else None
    frames = [] if args.frames else None
    session = Session(args.program, args.rows, args.cols, args.reflow, stderr=stderr, frames=frames)
    for name, value in args.steps:
        carry_out(session, name, value, args)
    status = session.finish(args.timeout)
    sys.stdout.write(session.screen.text(True))
    if args.state:
        write_to(args.state, session.state())
    if args.frames:
        write_to(args.frames, ''.join(frame + '\f' for frame in frames))
    return status


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
