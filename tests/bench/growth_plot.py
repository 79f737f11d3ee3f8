"""Draws what `growth_table.py --json FILE` measured as small charts in one SVG.

    python tests/bench/growth_plot.py FILE docs/performance-growth.svg

Both axes of each chart are logarithmic. The grey line goes through the first point and rises in proportion to what the
chart varies: a cost that grows faster is steeper than it. Figures that are zero are not drawn.
"""

import argparse
import json
import math
from html import escape
from pathlib import Path

# what each series varies, and how its shapes tell it
SERIES = {
    "jobs": ("jobs in the queue, a tenth of them running", lambda shape: shape["jobs"]),
    "files": ("files of 1,000 running jobs", lambda shape: shape["running"] * shape["files"]),
    "jobs-of-a-user": ("jobs of a user, 1,000 running jobs", lambda shape: shape["running"] / shape["users"]),
    "array": ("tasks of an array, a checkpoint each", lambda shape: shape["jobs"]),
}
# each chart: its title, and the figures in it
CHARTS = {
    "first scans, CPU s": {"first_main": "main process", "first_agent": "agent"},
    "nothing changes, main process, CPU s/min": {"quiet_main": "main process"},
    "one unchanged scan of everything, CPU s": {"unchanged_agent": "agent", "find": "find -printf"},
    "20 saves a second, CPU s/min": {"saving_main": "main process", "saving_agent": "agent"},
    "memory of the main process, MiB": {"peak_mib": "main process"},
    "page of all runs, s": {"first_page": "first", "page": "later"},
}
COLOURS = ("#1b6ca8", "#c0392b")
WIDTH, HEIGHT, LEFT, TOP, GAP = 300, 210, 52, 34, 18
PLOT_WIDTH, PLOT_HEIGHT = WIDTH - LEFT - GAP, HEIGHT - TOP - 44


class LogScale:
    """Places values between the whole powers of ten around them."""

    def __init__(self, values, begin, end):
        self._low = math.floor(math.log10(min(values)))
        self._high = max(math.ceil(math.log10(max(values))), self._low + 1)
        self._begin, self._length = begin, end - begin

    def place(self, value):
        return self._begin + (math.log10(value) - self._low) / (self._high - self._low) * self._length

    @property
    def powers(self):
        return [10.0**power for power in range(self._low, self._high + 1)]

    @property
    def end(self):
        return 10.0**self._high


def format_power(value):
    """Return a power of ten as people write it: 10, 1k, 1M, 0.01."""
    for unit, letter in ((1e6, "M"), (1e3, "k")):
        if value >= unit:
            return f"{value / unit:g}{letter}"
    return f"{value:g}"


def draw_text(x, y, text, anchor="start", colour="#333"):
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" fill="{colour}">{escape(text)}</text>'


def draw_line(points, colour, extra=""):
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{path}" fill="none" stroke="{colour}"{extra}/>'


def draw_chart(title, below, lines):
    """Return one chart; `lines` has the points of each label, in order."""
    points = [point for line in lines.values() for point in line]
    across = LogScale([x for x, _ in points], LEFT, LEFT + PLOT_WIDTH)
    up = LogScale([y for _, y in points], TOP + PLOT_HEIGHT, TOP)
    drawn = [draw_text(LEFT, 14, title)]
    for power in across.powers:
        x = across.place(power)
        drawn.append(draw_line([(x, TOP), (x, TOP + PLOT_HEIGHT)], "#ddd"))
        drawn.append(draw_text(x, TOP + PLOT_HEIGHT + 14, format_power(power), "middle"))
    for power in up.powers:
        y = up.place(power)
        drawn.append(draw_line([(LEFT, y), (LEFT + PLOT_WIDTH, y)], "#ddd"))
        drawn.append(draw_text(LEFT - 6, y + 4, format_power(power), "end"))
    drawn.append(draw_text(LEFT, TOP + PLOT_HEIGHT + 30, below))
    for number, (label, line) in enumerate(lines.items()):
        colour = COLOURS[number]
        x, y = line[0]
        end = min(line[-1][0], x * up.end / y)  # the line of proportion ends at the top of the chart
        proportion = [(across.place(each), up.place(y * each / x)) for each in (x, end)]
        drawn.append(draw_line(proportion, "#999", ' stroke-dasharray="4 3"'))
        placed = [(across.place(x), up.place(y)) for x, y in line]
        drawn.append(draw_line(placed, colour, ' stroke-width="2"'))
        drawn += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in placed]
        drawn.append(draw_text(LEFT + 80 * number, 28, label, colour=colour))
    return "\n".join(drawn)


def list_points(rows, series, key):
    """Return the points of one figure in one series, by what the series varies."""
    vary = SERIES[series][1]
    chosen = [row for row in rows if row["name"].partition("/")[0] == series]
    return sorted((vary(row["shape"]), row[key]) for row in chosen if row[key] > 0)


def draw(rows):
    """Return the charts of all series that have rows: one column each."""
    names = {row["name"].partition("/")[0] for row in rows}
    columns = [series for series in SERIES if series in names]
    drawn = []
    for column, series in enumerate(columns):
        for line, (title, labels) in enumerate(CHARTS.items()):
            lines = {label: list_points(rows, series, key) for key, label in labels.items()}
            lines = {label: points for label, points in lines.items() if points}
            if lines:
                chart = draw_chart(title, SERIES[series][0], lines)
                drawn.append(f'<g transform="translate({column * WIDTH},{line * HEIGHT})">\n{chart}\n</g>')
    size = f'width="{WIDTH * len(columns)}" height="{HEIGHT * len(CHARTS)}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="11">'
    return "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *drawn, "</svg>\n"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=Path, metavar="FILE")
    parser.add_argument("plot", type=Path)
    options = parser.parse_args()
    options.plot.write_text(draw(json.loads(options.rows.read_text())))


if __name__ == "__main__":
    main()
