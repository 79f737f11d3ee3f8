"""Draws what `daemon_growth.py --json FILE` measured: `python tests/bench/plot_growth.py FILE > docs/growth.svg`.

Both axes are logarithmic: what grows in proportion to the number of files is a line of 45 degrees, like the grey one.
"""

import json
import math
import sys
from html import escape
from pathlib import Path

WIDTH, HEIGHT, LEFT, BOTTOM, RIGHT, TOP = 760, 440, 70, 50, 250, 20
SERIES = {
    "scanned after s": ("until all directories are scanned, s", "#1b6ca8"),
    "agent s": ("CPU of the agent until then, s", "#c0392b"),
    "main s": ("CPU of the main process until then, s", "#e67e22"),
    "MiB": ("most memory of the main process, MiB", "#6c3483"),
    "idle main s/min": ("CPU of the main process, idle, s a minute", "#1e8449"),
}


class Scale:
    """Places values between two whole powers of ten."""

    def __init__(self, values, begin, end):
        self.low, self.high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
        self._begin, self._step = begin, (end - begin) / max(self.high - self.low, 1)

    def place(self, value):
        return self._begin + (math.log10(value) - self.low) * self._step

    @property
    def powers(self):
        return [10.0**power for power in range(self.low, self.high + 1)]


def text(x, y, said, anchor="start", colour="#333"):
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" fill="{colour}">{escape(said)}</text>'


def line(points, colour, width=2.0):
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}"/>'


def draw(rows):
    """Return the plot of these rows as SVG."""
    rows = sorted(rows, key=lambda row: row["files"])
    drawn = {name: [(row["files"], row[name]) for row in rows if row.get(name)] for name in SERIES}
    across = Scale([row["files"] for row in rows], LEFT, WIDTH - RIGHT)
    up = Scale([value for points in drawn.values() for _, value in points], HEIGHT - BOTTOM, TOP)
    found = []
    for power in across.powers:
        x = across.place(power)
        found += [line([(x, TOP), (x, HEIGHT - BOTTOM)], "#ddd", 1), text(x, HEIGHT - 30, f"{power:,.0f}", "middle")]
    for power in up.powers:
        y = up.place(power)
        found += [line([(LEFT, y), (WIDTH - RIGHT, y)], "#ddd", 1), text(LEFT - 8, y + 4, f"{power:g}", "end")]
    found.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, "checkpoint files of all running jobs", "middle"))
    first, last = across.powers[0], across.powers[-1]
    grey = [(first, up.powers[0]), (last, up.powers[0] * last / first)]
    found.append(line([(across.place(x), up.place(y)) for x, y in grey if y <= up.powers[-1] * 1.01], "#999", 1))
    for number, (name, (label, colour)) in enumerate(SERIES.items()):
        points = [(across.place(x), up.place(y)) for x, y in drawn[name]]
        found += [
            line(points, colour),
            *(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in points),
        ]
        found.append(text(WIDTH - RIGHT + 10, TOP + 20 + 20 * number, label, colour=colour))
    body = "\n".join(found)
    font = 'font-family="sans-serif" font-size="12"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" {font}>'
    return f'{head}\n<rect width="100%" height="100%" fill="white"/>\n{body}\n</svg>'


def main():
    print(draw([json.loads(each) for each in Path(sys.argv[1]).read_text().splitlines()]))


if __name__ == "__main__":
    main()
