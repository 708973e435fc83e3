#!/usr/bin/env python3
"""Frames of batched's live view (pty_screen.py --frames) against the texts that batched printed to a pipe.

    live_check.py FRAMES TEXTS [--at-least N] [--shown N] [--more N] [--rows N]

In every frame the sequences shown are labelled in order, each once; what a region holds is the beginning of its text, or,
behind an ellipsis, a later part of it; the status line is the last one. Spaces and line ends are left out of the comparison.
"""
import argparse
import re
import sys

STATUS = re.compile(r'^\d+ (of at most \d+ tokens|tokens|tok) ')
LABEL = re.compile(r'^\[(\d+)\]([ \u2026])(.*)$')


def shown(text):
    """A text as the view shows it, without what separates."""
    out = []
    for c in text:
        code = ord(c)
        if c in ' \n\t\u21b5':
            continue
        if 0xdc80 <= code <= 0xdcff:  # a byte that is no UTF-8
            out.append('\ufffd')
        elif code < 32 or code == 127:
            out.append('^' + chr(code ^ 64))
        elif 0x80 <= code < 0xa0 or 0x202a <= code <= 0x202e:
            out.append('<U+%04X>' % code)
        else:
            out.append(c)
    return ''.join(out)


def texts(path):
    data = open(path, 'rb').read().decode('utf-8', 'surrogateescape')
    parts = re.split(r'(?m)^Sequence \d+:\n\n', data)[1:]
    return [shown(part[:-2]) for part in parts]


def regions(lines):
    """[(sequence, cut, text)] of a frame, and how many more there are."""
    found, more, gutter = [], 0, 0
    for line in lines:
        label, others = LABEL.match(line), re.match('^\u2026 and (\\d+) more$', line)
        if others:
            more = int(others.group(1))
        elif label or re.match(r'^\[\d+\]$', line):
            number = int(re.match(r'\[(\d+)', line).group(1))
            gutter = len(str(number)) + 3
            found.append([number, label is not None and label.group(2) == '\u2026', label.group(3) if label else ''])
        elif found:
            if line.strip() and line[:gutter].strip():
                raise ValueError('a line within a region that has no gutter: %r' % line)
            found[-1][2] += line[gutter:]
    return found, more


def check(lines, want, args):
    found, more = regions(lines)
    numbers = [number for number, _, _ in found]
    if len(set(numbers)) != len(numbers) or (args.more == 0 and numbers != sorted(numbers)):
        raise ValueError('labels %s' % numbers)
    if args.shown is not None and len(found) != args.shown:
        raise ValueError('%d sequences shown' % len(found))
    if args.more is not None and more != args.more:
        raise ValueError('%d more' % more)
    for number, cut, text in found:
        text = shown(text)
        if not (text in want[number] if cut else want[number].startswith(text)):
            raise ValueError('sequence %d: %r is not in %r' % (number, text, want[number][:len(text) + 200]))


def main():
    p = argparse.ArgumentParser()
    p.add_argument('frames')
    p.add_argument('texts')
    p.add_argument('--at-least', type=int, default=3, help='frames with the view')
    p.add_argument('--shown', type=int)
    p.add_argument('--more', type=int)
    args = p.parse_args()
    want, n = texts(args.texts), 0
    for frame in open(args.frames, encoding='utf-8').read().split('\f'):
        lines = frame.rstrip('\n').split('\n')
        if not STATUS.match(lines[-1]):
            continue
        n += 1
        try:
            check(lines[:-1], want, args)
        except ValueError as e:
            print('frame %d: %s\n%s' % (n, e, frame))
            return 1
    if n < args.at_least:
        print('%d frames with the view' % n)
        return 1
    return 0


if __name__ == '__main__':
    sys.stdout.reconfigure(encoding='utf-8')
    sys.exit(main())
