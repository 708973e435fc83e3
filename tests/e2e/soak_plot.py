"""What a soak sampled, as a table and as a picture.

    soak_plot.py SAMPLES.tsv [SECONDS]      the table to standard output, the picture into plot.svg beside the samples

What holds: the picture needs nothing from elsewhere, and follows the reader's light or dark scheme; lines differ in
colour and in dash. Axes begin at 0, but for memory, of which small changes matter, and for times under load, whose axis
has powers of ten. A long run is drawn in up to 240 steps: the median of each, or its largest where peaks matter; lines
end where an ebb begins. The warm-up is shaded; the table leaves it out.
A column is of the samples under load, "rest COLUMN" of those at rest; those of an ebb, in between, are in neither.
"""
import itertools
import math
import os
import statistics
import sys

WARM_PART, WARM_MIN_S, WARM_MAX_S = 1 / 6, 20, 300
STEPS = 240
WIDTH, MARGIN, PANEL_W, PANEL_H, GAP_X, GAP_Y, COLUMNS = 1080, 64, 280, 130, 66, 74, 3
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b")
DASHES = ("none", "7 2", "2 2", "9 3 2 3")
MIB = 1 / 1024
LOAD, REST = 0, 2  # phases
ZERO, NEAR, TENS = range(3)  # axes: from 0, around the values, by powers of ten
# Title with unit; series: name, column, factor, how steps are made; the axis; a limit to draw.
PANELS = (
    ("Memory under load, MiB", (("resident", "rss_kib", MIB, "median"), ("its own", "anon_kib", MIB, "median")),
     NEAR, None),
    ("Memory at rest, MiB", (("resident", "rest rss_kib", MIB, "median"), ("its own", "rest anon_kib", MIB, "median")),
     NEAR, None),
    ("At rest", (("descriptors", "rest fds", 1, "max"), ("threads", "rest threads", 1, "max"),
                 ("blocks used", "rest blocks_used", 1, "max")), ZERO, None),
    ("Descriptors and connections", (("descriptors", "fds", 1, "median"),
                                     ("connections", "connections", 1, "median")), ZERO, None),
    ("Blocks of the cache", (("used", "blocks_used", 1, "median"), ("cached", "blocks_cached", 1, "median"),
                             ("free", "blocks_free", 1, "median")), ZERO, None),
    ("Slots", (("generating", "slots_generating", 1, "median"), ("prefilling", "slots_prefilling", 1, "median"),
               ("parked", "slots_parked", 1, "max")), ZERO, None),
    ("Requests that wait", (("queue", "queue", 1, "median"),), ZERO, None),
    ("/health, ms", (("p50", "health_p50_ms", 1, "median"), ("p99 of a second", "health_p99_ms", 1, "median"),
                     ("longest", "health_p99_ms", 1, "max")), TENS, 50),
    ("Time to the first token, s", (("p50", "first_p50_ms", 1e-3, "median"),
                                    ("p99 of a second", "first_p99_ms", 1e-3, "median")), TENS, None),
    ("A request alone, at rest, ms", (("the quickest", "rest alone_ms", 1, "median"),
                                      ("of an idle twin", "rest twin_ms", 1, "median")), ZERO, None),
    ("Ended in a second", (
        ("good", ("n_good", "n_slow", "n_line", "n_long", "n_slot", "n_batch", "n_watch"), 1, "mean"),
        ("refused", "n_bad", 1, "mean"), ("left or late", ("n_leave", "n_late"), 1, "mean")), ZERO, None),
    ("Batches that ended", (("so far", "sum n_batch", 1, "max"),), ZERO, None),
)
DONE = ("n_good", "n_slow", "n_leave", "n_late", "n_line", "n_long", "n_bad", "n_slot", "n_watch", "n_batch")
TABLE = (("resident, MiB", "rss_kib", MIB), ("its own, MiB", "anon_kib", MIB),
         ("at rest: resident, MiB", "rest rss_kib", MIB), ("at rest: its own, MiB", "rest anon_kib", MIB),
         ("at rest: descriptors", "rest fds", 1), ("at rest: threads", "rest threads", 1),
         ("at rest: blocks used", "rest blocks_used", 1), ("at rest: one alone, ms", "rest alone_ms", 1),
         ("at rest: of its twin, ms", "rest twin_ms", 1),
         ("descriptors", "fds", 1), ("connections", "connections", 1), ("blocks used", "blocks_used", 1),
         ("blocks cached", "blocks_cached", 1), ("slots generating", "slots_generating", 1), ("queue", "queue", 1),
         ("/health p50, ms", "health_p50_ms", 1),
         ("/health p99, ms", "health_p99_ms", 1), ("first token p50, ms", "first_p50_ms", 1),
         ("first token p99, ms", "first_p99_ms", 1))


# ---- Numbers ----


class Samples:
    """Rows of numbers by column; None where there was nothing to measure."""

    def __init__(self, rows):
        self.rows = rows
        self.seconds = rows[-1]["t_s"] if rows else 0.0

    def until(self, seconds):
        """What comes later is the end of the load, not the load."""
        self.rows = [r for r in self.rows if r["t_s"] <= seconds]
        self.seconds = seconds

    def warm_s(self):
        return min(WARM_MAX_S, max(WARM_MIN_S, self.seconds * WARM_PART))

    def series(self, column, factor=1, begin=0.0, end=math.inf):
        """[(t, value)]; several columns are added up, "sum COLUMN" is one added up from the start."""
        columns, phase = (column,) if isinstance(column, str) else column, LOAD
        if columns[0].startswith("sum "):
            columns = (columns[0][4:],)
            total = itertools.accumulate(sum(r[c] for c in columns) for r in self.rows)
            return [(r["t_s"], factor * v) for r, v in zip(self.rows, total) if begin <= r["t_s"] < end]
        if columns[0].startswith("rest "):
            columns, phase = (columns[0][5:],), REST
        return [(r["t_s"], factor * sum(r[c] for c in columns)) for r in self.rows
                if r["phase"] == phase and begin <= r["t_s"] < end and all(r[c] is not None for c in columns)]

    def span(self, i, column, factor=1):
        """A third of what follows the warm-up."""
        begin, each = self.warm_s(), (self.seconds - self.warm_s()) / 3
        return self.series(column, factor, begin + i * each, begin + (i + 1) * each + (i == 2))

    def third(self, i, column, factor=1):
        """Its median."""
        values = [v for _, v in self.span(i, column, factor)]
        return statistics.median(values) if values else math.nan


def read(path):
    with open(path, encoding="ascii") as f:
        lines = [line.rstrip("\n").split("\t") for line in f]
    return Samples([{k: float(v) if v else None for k, v in zip(lines[0], line)} for line in lines[1:]])


def drift(s, column):
    """How much the last third is above the second one, as a part of it. Without samples NaN, which is below
    nothing."""
    early, late = s.third(1, column), s.third(2, column)
    return (late - early) / early if early else math.nan


def slower(s):
    """How much longer a request alone takes in the last third than in the second, as a multiple of the twin's time at
    the same rest; and what chance makes of that. Two idle servers beside each other on a busy machine differed by 12 %
    (one standard deviation) at a single rest: three such errors of the difference of two medians."""
    ratios = [[a / b for (_, a), (_, b) in zip(s.span(i, "rest alone_ms"), s.span(i, "rest twin_ms"))] for i in (1, 2)]
    if not all(ratios):
        return math.nan, 0.0
    early, late = (statistics.median(r) for r in ratios)
    return late / early - 1, 3 * 0.12 * 1.25 * math.sqrt(sum(1 / len(r) for r in ratios))


def steady(s, column):
    """The same for what is used more the more is done in a second, which is what others on the machine leave: of the
    change, what time explains and the rate does not, by least squares over the medians from one ebb to the next; and
    what chance makes of it, two standard errors. What is asked for differs from one ebb to the next by more than a leak
    would in a few minutes: 1 % in a run of five, 0.4 % in an hour's."""
    rests = [t for t, _ in s.series("rest " + column)]
    points = []
    for begin, end in zip([0.0] + rests, rests + [s.seconds]):
        used = [v for _, v in s.series(column, 1, max(begin, s.warm_s()), end)]
        done = [v for _, v in s.series(DONE, 1, max(begin, s.warm_s()), end)]
        if len(used) >= 10:
            points.append(((begin + end) / 2, statistics.fmean(done), statistics.median(used)))
    if len(points) < 4:
        return math.nan, 0.0
    (mt, mr, mv), n = (statistics.fmean(p[i] for p in points) for i in range(3)), len(points)
    tt, rr, tr, tv, rv = (sum((p[i] - m) * (p[j] - k) for p in points) / n for i, m, j, k in (
        (0, mt, 0, mt), (1, mr, 1, mr), (0, mt, 1, mr), (0, mt, 2, mv), (1, mr, 2, mv)))
    if tt * rr <= tr * tr:
        return math.nan, 0.0
    by_time, by_rate = (tv * rr - rv * tr) / (tt * rr - tr * tr), (rv * tt - tv * tr) / (tt * rr - tr * tr)
    left = sum((v - mv - by_time * (t - mt) - by_rate * (r - mr)) ** 2 for t, r, v in points)
    error = math.sqrt(left / (n - 3) * rr / (n * (tt * rr - tr * tr)))
    third = (s.seconds - s.warm_s()) / 3 / mv
    return by_time * third, 2 * error * third


def slope(points):
    """Per hour, by least squares."""
    n = len(points)
    if n < 2:
        return math.nan
    mt, mv = sum(t for t, _ in points) / n, sum(v for _, v in points) / n
    square = sum((t - mt) ** 2 for t, _ in points)
    return 3600 * sum((t - mt) * (v - mv) for t, v in points) / square if square else math.nan


def summary(s):
    lines = ["%-26s %12s %12s %12s %9s %14s" % ("behind a warm-up of %.0f s" % s.warm_s(), "first third", "second",
                                              "last", "last/2nd", "slope per hour")]
    for name, column, factor in TABLE:
        a, b, c = (s.third(i, column, factor) for i in range(3))
        change = "%+.2f %%" % (100 * (c - b) / b) if b else "-"
        lines.append("%-26s %12.2f %12.2f %12.2f %9s %+14.3f" % (
            name, a, b, c, change, slope(s.series(column, factor, s.warm_s()))))
    return lines


# ---- The picture ----


def escape(text):
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def text(x, y, kind, anchor, said, more=""):
    return '<text x="%.1f" y="%.1f" class="%s" text-anchor="%s"%s>%s</text>' % (x, y, kind, anchor, more, escape(said))


def line(x1, y1, x2, y2, kind):
    return '<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" class="%s"/>' % (x1, y1, x2, y2, kind)


def step_of(span, n):
    """1, 2 or 5 times a power of ten: the smallest that makes no more than n steps of a span."""
    raw = max(span, 1e-9) / n
    ten = 10 ** math.floor(math.log10(raw))
    return next(k * ten for k in (1, 2, 5, 10) if k * ten >= raw * 0.9999)


def steps(points, seconds, how):
    """A run of any length in at most STEPS points."""
    each = max(1.0, seconds / STEPS)
    groups = {}
    for t, v in points:
        groups.setdefault(int(t / each), []).append((t, v))
    make = {"median": statistics.median, "max": max, "mean": statistics.fmean}[how]
    return [(statistics.fmean(t for t, _ in g), make([v for _, v in g])) for _, g in sorted(groups.items())]


def number(v):
    return ("%g" % round(v, 6)) if abs(v) < 1e5 else "%.0f" % v


class Axis:
    """From values to parts of a height, and where its marks are."""

    def __init__(self, values, kind, limit):
        self.tens = kind == TENS
        if self.tens:
            values = [math.log10(max(v, 1e-9)) for v in values] + ([math.log10(limit)] if limit else [])
            self.lo, self.hi = math.floor(min(values)), max(math.ceil(max(values)), math.floor(min(values)) + 1)
            self.marks = [10.0 ** k for k in range(self.lo, self.hi + 1)]
            return
        lo, hi = (0, max(values)) if kind == ZERO else (min(values) * 0.98, max(values) * 1.02)
        hi = max(hi, (limit or 0) * 1.1)
        hi = hi if hi > lo else lo + 1
        step = step_of(hi - lo, 4)
        self.lo, self.hi = math.floor(lo / step + 1e-9) * step, math.ceil(hi / step - 1e-9) * step
        self.marks = [self.lo + k * step for k in range(int(round((self.hi - self.lo) / step)) + 1)]

    def part(self, v):
        return ((math.log10(max(v, 10.0 ** self.lo)) if self.tens else v) - self.lo) / (self.hi - self.lo)


def runs(points, gap):
    """Points without gaps between them."""
    out = []
    for p in points:
        if not out or p[0] - out[-1][-1][0] > gap:
            out.append([])
        out[-1].append(p)
    return out


def strokes(points, at, colour, dash, gap, dots):
    """A series: its lines, and dots where there are few or they stand alone."""
    out = []
    for run in runs(points, gap):
        if len(run) > 1:
            out.append('<polyline points="%s" fill="none" stroke="%s" stroke-width="1.4" stroke-dasharray="%s"/>' % (
                " ".join("%.1f,%.1f" % at(t, v) for t, v in run), colour, dash))
        if dots or len(run) == 1:
            out += ['<circle cx="%.1f" cy="%.1f" r="1.8" fill="%s"/>' % (*at(t, v), colour) for t, v in run]
    return out


def panel(s, x, y, title, series, kind, limit):
    drawn = [(name, steps(s.series(column, factor), s.seconds, how)) for name, column, factor, how in series]
    rest = str(series[0][1]).startswith("rest ")
    gap = math.inf if str(series[0][1]).startswith(("rest ", "sum ")) else max(3.5, 1.6 * s.seconds / STEPS)
    axis = Axis([v for _, points in drawn for _, v in points] or [0], kind, limit)
    minutes = s.seconds >= 180
    unit = 60 if minutes else 1

    def at(t, v):
        return x + PANEL_W * t / max(s.seconds, 1e-9), y + PANEL_H * (1 - axis.part(v))

    warm = PANEL_W * min(1.0, s.warm_s() / max(s.seconds, 1e-9))
    out = ['<rect x="%.1f" y="%.1f" width="%.1f" height="%d" class="warm"/>' % (x, y, warm, PANEL_H),
           text(x, y - 28, "strong", "start", title)]
    for k, v in enumerate(axis.marks):
        out += [line(x, at(0, v)[1], x + PANEL_W, at(0, v)[1], "grid" if k else "axis"),
                text(x - 6, at(0, v)[1] + 4, "small", "end", number(v))]
    every = step_of(s.seconds / unit, 6)
    for k in range(int(s.seconds / unit / every + 1e-9) + 1):
        said = number(k * every) + ((" min" if minutes else " s") if k == 0 else "")
        left = at(k * every * unit, 0)[0]
        out += [line(left, y, left, y + PANEL_H, "grid"), text(left, y + PANEL_H + 15, "small", "middle", said)]
    if limit is not None:
        out += [line(x, at(0, limit)[1], x + PANEL_W, at(0, limit)[1], "limit")]
    left = x
    for i, (name, points) in enumerate(drawn):
        out += strokes(points, at, COLOURS[i], DASHES[i], gap, rest and len(points) < 100)
        out += ['<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" stroke-width="2" stroke-dasharray="%s"/>' % (
                    left, y - 12, left + 20, y - 12, COLOURS[i], DASHES[i]),
                text(left + 24, y - 8, "small", "start", name)]
        left += 34 + 6.6 * len(name)
    return out


def picture(s, title):
    """All of it as SVG."""
    rows = (len(PANELS) + COLUMNS - 1) // COLUMNS
    height = 84 + rows * (PANEL_H + GAP_Y)
    out = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" '
           'font-family="DejaVu Sans, Verdana, sans-serif" font-size="13">' % (WIDTH, height, WIDTH, height),
           "<style>.back { fill: #ffffff } text { fill: #222222 } .small { font-size: 11px }",
           ".strong { font-weight: bold } .title { font-size: 16px; font-weight: bold }",
           ".grid { stroke: #888888; stroke-opacity: 0.25 } .axis { stroke: #888888 }",
           ".warm { fill: #888888; fill-opacity: 0.14 } .limit { stroke: #c00000; stroke-dasharray: 5 3 }",
           "@media (prefers-color-scheme: dark) { .back { fill: #15181c } text { fill: #e6e6e6 } }</style>",
           '<rect class="back" width="%d" height="%d"/>' % (WIDTH, height), text(24, 30, "title", "start", title),
           text(24, 50, "small", "start", "The warm-up, %.0f s, is shaded. Behind it, from the second third to the "
                "last: its own memory %+.2f %% under load (%+.2f %% at the same rate), %+.2f %% at rest." % (
                    s.warm_s(), 100 * drift(s, "anon_kib"), 100 * steady(s, "anon_kib")[0],
                    100 * drift(s, "rest anon_kib")))]
    for i, (name, series, kind, limit) in enumerate(PANELS):
        x, y = MARGIN + i % COLUMNS * (PANEL_W + GAP_X), 104 + i // COLUMNS * (PANEL_H + GAP_Y)
        out += panel(s, x, y, name, series, kind, limit)
    return "\n".join(out + ["</svg>\n"])


if __name__ == "__main__":
    samples = read(sys.argv[1])
    if len(sys.argv) > 2:
        samples.until(float(sys.argv[2]))
    print("\n".join(summary(samples)))
    with open(os.path.join(os.path.dirname(sys.argv[1]), "plot.svg"), "w", encoding="utf-8") as svg:
        svg.write(picture(samples, "Soak, %.0f minutes" % (samples.seconds / 60)))
