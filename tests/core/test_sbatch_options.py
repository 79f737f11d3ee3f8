import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckptd.core.job_actions import sbatch_options
from ckptd.core.job_actions.sbatch_options import SbatchOption
from ckptd.core.model import LimitSignal

SCRIPT = """#!/bin/bash
#SBATCH -p gpu --time=10 # ten minutes

# words
#SBATCH --signal=B:USR1@120
sleep 1
#SBATCH -c 9
"""
WRAP = "#!/bin/sh\n# This script was created by sbatch --wrap.\n\n{}\n\n"


def words(line, known=None, script=SCRIPT):
    given = sbatch_options.parse_line(line, known or {}, script)
    return None if given is None else ([option.word for option in given.options], list(given.rest))


@pytest.mark.parametrize(
    ("line", "options", "rest"),
    [
        ("sbatch job.sh", [], ["job.sh"]),
        ("/usr/bin/sbatch -pgpu -t 5 job.sh a b", ["--partition=gpu", "--time=5"], ["job.sh", "a", "b"]),
        ("sbatch --part gpu --gres=gpu:2 ./job.sh", ["--partition=gpu", "--gres=gpu:2"], ["./job.sh"]),
        (
            "sbatch -HQn4 job.sh -p x",
            ["--hold", "--quiet", "--ntasks=4"],
            ["job.sh", "-p", "x"],
        ),
        ("sbatch --nice -k --exclusive=user", ["--nice", "--no-kill", "--exclusive=user"], []),
        ("sbatch -a 1-10%2 -- job.sh", ["--array=1-10%2"], ["job.sh"]),
        ("sbatch --mail-type=END,FAIL --export=A=1,B", ["--mail-type=END,FAIL", "--export=A=1,B"], []),
    ],
)
def test_options_are_read_as_sbatch_reads_them(line, options, rest):
    assert words(line) == (options, rest)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "srun job.sh",
        "sbatch --nonsense job.sh",
        "sbatch --no job.sh",
        "sbatch -Z job.sh",
        "sbatch --hold=1 x",
        "sbatch -p",
    ],
)
def test_a_line_with_what_is_no_option_is_in_doubt(line):
    assert words(line) is None


def test_known_texts_with_blanks_are_one_word():
    line = "sbatch --comment=a b --time=1  c -J two words -p x job.sh"
    known = {"comment": "a b --time=1  c", "job-name": "two words"}
    assert words(line, known) == (["--comment=a b --time=1  c", "--job-name=two words", "--partition=x"], ["job.sh"])


def test_what_was_wrapped_is_known_by_the_script():
    script = WRAP.format('python train.py --time=5; sleep "1  2"')
    line = 'sbatch --wrap python train.py --time=5; sleep "1  2" -t 3'
    options, rest = words(line, script=script)
    assert (options[1:], rest) == (["--time=3"], [])
    assert words(line) is None
    assert words("sbatch -t 3", script=script) is None


def test_directives_end_with_the_first_command():
    assert sbatch_options.read_directives(SCRIPT) == (
        SbatchOption("partition", "gpu"), SbatchOption("time", "10"), SbatchOption("signal", "B:USR1@120"),
    )  # fmt: skip


@pytest.mark.parametrize(
    "head",
    [f"#SBATCH -{'H' * 20_000}", f"#SBATCH {'-H ' * 20_000}", "# long\n" * 15_000],
    ids=["letters", "words", "lines"],
)
def test_what_nobody_writes_before_a_directive_is_not_gone_through(head):
    assert len(sbatch_options.read_directives(f"#!/bin/sh\n{head}\n#SBATCH -H\n")) <= 1


@pytest.mark.parametrize(
    ("value", "signal"),
    [
        ("USR1", LimitSignal("USR1", 60)),
        ("B:USR1@120", LimitSignal("B:USR1", 120)),
        ("RB:SIGTERM@30", LimitSignal("B:TERM", 30)),
        ("R:10", LimitSignal("10", 60)),
        ("B:@5", None),
    ],
)
def test_a_signal_is_told_with_whom_it_reaches_and_when(value, signal):
    assert sbatch_options.find_signal([SbatchOption("signal", "HUP"), SbatchOption("signal", value)]) == signal


@given(st.text(), st.text(), st.text())
def test_no_text_of_users_upsets_the_reading(line, comment, script):
    sbatch_options.parse_line(f"sbatch {line}", {"comment": comment}, script)
    sbatch_options.find_signal(sbatch_options.read_directives(script))
