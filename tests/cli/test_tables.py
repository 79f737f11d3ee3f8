"""Tables for people at a terminal, and for programs that read a pipe."""

import re
from unittest import mock

import pytest

from ckptd.cli import job_table, layout, output
from ckptd.cli.layout import Cell

ROWS = [["12_3", "alice", None, "a\tb"], [7, "bob", "", "x" * 30 + " and more words"]]
COLUMNS = ("job", "user", "step", "remarks")


def show(capsys, width=None):
    with (
        mock.patch("sys.stdout.isatty", return_value=width is not None),
        mock.patch.object(output.shutil, "get_terminal_size", return_value=mock.Mock(columns=width)),
    ):
        output.print_table(COLUMNS, ROWS, "none")
    return capsys.readouterr().out.splitlines()


def test_a_pipe_gets_a_line_a_row_with_one_tab_between_cells_and_no_cell_is_empty(capsys):
    lines = show(capsys)
    assert [line.split("\t") for line in lines] == [
        list(COLUMNS),
        ["12_3", "alice", "-", r"a\tb"],
        ["7", "bob", "-", "x" * 30 + " and more words"],
    ]


def test_a_terminal_gets_columns_of_equal_width_and_prose_in_what_is_left(capsys):
    lines = show(capsys, 60)
    assert [re.sub("\x1b\\[[0-9]*m", "", line).rstrip() for line in lines] == [
        "job   user   step  remarks",
        r"12_3  alice  -     a\tb",
        "7     bob          " + "x" * 30 + " and more",
        " " * 19 + "words",
    ]


@pytest.mark.parametrize("width", [10, 20, 40, 80, 200])
@pytest.mark.parametrize("cell", ["x" * 100, "検査点" * 20, "e\u0301" * 50, " ", ""])
def test_no_line_is_wider_than_a_terminal_that_is_not_too_narrow(width, cell):
    lines = list(layout.align(("a", "b"), [[Cell(cell), Cell(cell)], [Cell("1"), Cell("2")]], width))
    narrowest = layout.NARROWEST_FIRST + len(layout.GAP) + layout.NARROWEST_LAST
    assert all(layout.measure(line) <= max(width, narrowest) for line in lines[1:])


def test_a_coloured_cell_is_as_wide_as_its_text():
    lines = list(layout.align(("a", "b"), [[Cell("good", "green"), Cell("x")], [Cell("bad!"), Cell("y")]], 80))
    assert lines[1:] == ["\x1b[32mgood\x1b[0m  x", "bad!  y"]


def test_thousands_of_rows_are_laid_out_one_by_one():
    rows = [[Cell(str(number)), Cell("x")] for number in range(10_000)]
    assert len(list(layout.align(("number", "x"), rows, 80))) == len(rows) + 1


def test_headings_and_names_of_rows_stay_whole_where_the_terminal_is_narrow():
    columns = ("user", "unsaved work", "unsaved node-hours", "redone work", "redone node-hours", "redone unknown")
    rows = [[Cell("alice-of-physics"), *[Cell("2 min 45 s")] * 4, Cell("0")]]
    *headings, row, rest = [re.sub("\x1b\\[[0-9]*m", "", line) for line in layout.align(columns, rows, 70)]
    words = " ".join(headings).replace("- ", "-").split()
    assert sorted(words) == sorted(" ".join(columns).replace("node-hours", "node- hours").split())
    assert row.split() == ["alice-of-physics", *["2", "min"] * 4, "0"]
    assert rest.split() == ["45", "s"] * 4


JOBS = ("job", "user", "name", "state", "left", "restarts", "epoch", "step", "saved", "size", "flags")
LONG = (
    "4711_3",
    "alice-of-physics",
    "a-long-name-of-a-job",
    "RUNNING",
    "59 min 17 s",
    1,
    7,
    140,
    "14 s ago",
    "128.0 KiB",
)


def show_jobs(capsys, width):
    with (
        mock.patch("sys.stdout.isatty", return_value=True),
        mock.patch.object(output.shutil, "get_terminal_size", return_value=mock.Mock(columns=width)),
    ):
        rows = [(*LONG, "restarted-without-checkpoint")]
        output.print_table(JOBS, rows, "none", dispensable=job_table.DISPENSABLE_COLUMNS)
    return [re.sub("\x1b\\[[0-9]*m", "", line) for line in capsys.readouterr().out.splitlines()]


def test_a_narrow_terminal_leaves_out_columns_of_jobs_and_says_so_but_cuts_no_time(capsys):
    headings, row, rest, *note = show_jobs(capsys, 80)
    assert headings.split() == ["job", "user", "name", "left", "epoch", "saved", "flags"]
    assert "59 min 17 s" in row
    assert "14 s ago" in row
    assert max(map(len, (headings, row, rest, *note))) <= 80
    assert (row.split()[-1], rest.strip()) == ("restarted-without-", "checkpoint")
    assert " ".join(note) == "(state, restarts, step, size: not shown, because the terminal has only 80 columns)"


def test_a_wide_terminal_shows_all_columns_of_jobs(capsys):
    assert show_jobs(capsys, 160)[0].split() == list(JOBS)


def test_a_date_is_wrapped_and_never_cut():
    columns = ("job id", "restart", "type", "state", "ended by", "started (UTC)", "ended (UTC)", "work lost")
    instant = "2026-11-29 01:25:18"
    row = ["4", "0", "requeue", "RUNNING", "requeue", instant, instant, "32 s unsaved (32 node-seconds)"]
    text = "\n".join(layout.align(columns, [list(map(Cell, row))], 80))
    assert "\u2026" not in text
    assert text.count("2026-11-29") == text.count("01:25:18") == 2
