"""Parses the options of a job's submission: the words after `sbatch`, and the `#SBATCH` lines of its script.

Slurm (22.05 to 26.05) stores the command line as one text of words joined by blanks, without quotes, so a word with
blanks looks like several. Texts known from other attributes are cut out first. An option that is not in this table
belongs to a plugin or a newer Slurm; it is parsed only if its value follows `=`.
"""

import re
import shlex
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from ckptd.core.model import Job, LimitSignal

_WITH_VALUE = """
    account acctg-freq array batch bb bbf begin chdir cluster-constraint clusters comment constraint container
    container-id core-spec cores-per-socket cpu-freq cpus-per-gpu cpus-per-task deadline delay-boot dependency
    distribution error exclude export export-file extra extra-node-info gid gpu-bind gpu-freq gpus gpus-per-node
    gpus-per-socket gpus-per-task gres gres-flags hint input job-name kill-on-invalid-dep licenses mail-type mail-user
    mcs-label mem mem-bind mem-per-cpu mem-per-gpu mincpus network nodefile nodelist nodes ntasks ntasks-per-core
    ntasks-per-gpu ntasks-per-node ntasks-per-socket open-mode output partition power prefer priority profile qos
    reservation segment signal sockets-per-node switches tasks-per-node thread-spec threads-per-core time time-min tmp
    tres-bind tres-per-task uid wait-all-nodes wckey wrap
"""
_WITH_OR_WITHOUT = "exclusive get-user-env nice no-kill oom-kill-step propagate"
_WITHOUT = """
    contiguous help hold ignore-pbs no-requeue overcommit oversubscribe parsable quiet reboot requeue spread-job
    stepmgr test-only usage use-min-nodes verbose version wait
"""
_NEEDS: Mapping[str, bool | None] = {
    **dict.fromkeys(_WITH_VALUE.split(), True),
    **dict.fromkeys(_WITH_OR_WITHOUT.split(), None),
    **dict.fromkeys(_WITHOUT.split(), False),
}
_LETTERS = {
    "A": "account", "B": "extra-node-info", "C": "constraint", "D": "chdir", "F": "nodefile", "G": "gpus", "H": "hold",
    "J": "job-name", "L": "licenses", "M": "clusters", "N": "nodes", "O": "overcommit", "Q": "quiet", "S": "core-spec",
    "V": "version", "W": "wait", "a": "array", "b": "begin", "c": "cpus-per-task", "d": "dependency", "e": "error",
    "h": "help", "i": "input", "k": "no-kill", "m": "distribution", "n": "ntasks", "o": "output", "p": "partition",
    "q": "qos", "s": "oversubscribe", "t": "time", "v": "verbose", "w": "nodelist", "x": "exclude",
}  # fmt: skip
_OTHER_NAMES = {"cluster": "clusters"}  # sbatch knows both in full, beside --cluster-constraint
MAX_CHARACTERS = 100_000  # of a command line, and of the head of a script: what is behind them is not read
LONGEST_LINE = 16_384  # of a script: longer ones take a time that grows with the square of their words' lengths
_BLANK = "\ue000"  # stands for a blank within a known text; private use, so no name of Slurm's holds it


class SbatchOption(NamedTuple):
    """One option by its long name; `value` is None where it was given none."""

    name: str
    value: str | None

    @property
    def word(self) -> str:
        return f"--{self.name}" if self.value is None else f"--{self.name}={self.value}"


class GivenOptions(NamedTuple):
    """Options in their order, and the words after them: the script and its arguments."""

    options: tuple[SbatchOption, ...]
    rest: tuple[str, ...]


_SIGNAL = re.compile(r"(?:([RB]{1,2}):)?(?:SIG)?([A-Z0-9]+)(?:@(\d+))?", re.IGNORECASE)
_DEFAULT_LEAD = 60  # sbatch's


def parse_words(words: Sequence[str]) -> GivenOptions | None:
    """Parse words as sbatch does; None where one is no option that is known."""
    left = deque(words)
    options: list[SbatchOption] = []
    while left and left[0].startswith("-") and left[0] != "-":
        word = left.popleft()
        if word == "--":
            break
        found = _parse_long(word[2:], left) if word.startswith("--") else _parse_letters(word[1:], left)
        if found is None:
            return None
        options += found
    return GivenOptions(tuple(options), tuple(left))


def _parse_long(word: str, left: deque[str]) -> list[SbatchOption] | None:
    start, equals, value = word.partition("=")
    names = _resolve(start)
    if not names and start and equals:
        return [SbatchOption(start, value)]
    if len(names) != 1:
        return None
    needs = _NEEDS[names[0]]
    if needs is True and not equals:
        if not left:
            return None
        value, equals = left.popleft(), "="
    if needs is False and equals:
        return None
    return [SbatchOption(names[0], value if equals else None)]


def _resolve(start: str) -> list[str]:
    """Return the names that a long option may mean: its own, or all that begin so."""
    start = _OTHER_NAMES.get(start, start)
    return [start] if start in _NEEDS else [name for name in _NEEDS if name.startswith(start)]


def find_other(line: str, known: Mapping[str, str], names: AbstractSet[str]) -> str | None:
    """Return the first word of an ambiguous command line that may be another option than these, known texts aside."""
    for name, text in known.items():
        line = _mask(line, name, text)
    for word in line.split(" ")[1:]:
        option = word.partition("=")[0]
        if option.startswith("--") and len(option) > len("--"):
            meant = set(_resolve(option.removeprefix("--")))
        elif word.startswith("-") and len(word) > 1 and not word[1].isdigit():
            option, meant = word, set(_read_names(word[1:]))
        else:
            continue
        if not meant or not names >= meant:
            return option
    return None


def _read_names(letters: str) -> Iterator[str]:
    """Yield what the letters of one word may mean, up to the one whose value the others are."""
    for letter in letters:
        name = _LETTERS.get(letter, letter)
        yield name
        if _NEEDS.get(name, True) is not False:
            return


def _parse_letters(letters: str, left: deque[str]) -> list[SbatchOption] | None:
    options: list[SbatchOption] = []
    for place, letter in enumerate(letters, 1):
        name = _LETTERS.get(letter, "")
        if name not in _NEEDS:
            return None
        if _NEEDS[name] is False:
            options.append(SbatchOption(name, None))
            continue
        value: str | None = letters[place:] or None
        if value is None and _NEEDS[name] is True:
            if not left:
                return None
            value = left.popleft()
        return [*options, SbatchOption(name, value)]
    return options


def parse_line(line: str, known: Mapping[str, str], script: str) -> GivenOptions | None:
    """Parse a command line as Slurm stores it; None if it is ambiguous.

    `known` holds the values of options that other attributes of the job show. The value of `--wrap` is cut out, because
    the script that sbatch made contains it.
    """
    for name, text in known.items():
        line = _mask(line, name, text)
    wrapped = _wrapped_text(script)
    if wrapped is not None:
        line = _mask(line, "wrap", wrapped)
    words = [word for word in line.split(" ") if word]
    if not words or words[0].rpartition("/")[2] != "sbatch":
        return None
    given = parse_words(words[1:])
    if given is None or (wrapped is None) == any(option.name == "wrap" for option in given.options):
        return None
    options = tuple(
        option._replace(value=option.value and option.value.replace(_BLANK, " ")) for option in given.options
    )
    return GivenOptions(options, given.rest)


def _mask(line: str, name: str, text: str) -> str:
    """Make one word of an option's known text."""
    if " " not in text:
        return line
    letters = [letter for letter, each in _LETTERS.items() if each == name]
    for lead in (
        f" --{name}=",
        f" --{name} ",
        *(f" -{letter} " for letter in letters),
        *(f" -{each}" for each in letters),
    ):
        place = f"{line} ".find(f"{lead}{text} ")
        if place >= 0:
            end = place + len(lead) + len(text)
            return line[: place + len(lead)] + text.replace(" ", _BLANK) + line[end:]
    return line


def _wrapped_text(script: str) -> str | None:
    """Return what `sbatch --wrap` was given, by the script that it made; None for any other script."""
    head, made, text = script.partition("\n# This script was created by sbatch --wrap.\n\n")
    if head != "#!/bin/sh" or not made:
        return None
    return text.removesuffix("\n").removesuffix("\n")


def read_directives(script: str) -> tuple[SbatchOption, ...]:
    """Return the options of a script's `#SBATCH` lines, which end with its first command; unreadable ones are none."""
    return tuple(_read_directives(script.splitlines()))


def _read_directives(lines: Iterable[str]) -> Iterator[SbatchOption]:
    room = MAX_CHARACTERS
    for line in lines:
        room -= len(line)
        if room < 0 or (line.strip() and not line.startswith("#")):
            return
        if not line.startswith("#SBATCH") or len(line) > LONGEST_LINE:
            continue
        try:
            words = shlex.split(line.removeprefix("#SBATCH"), comments=True)
        except ValueError:
            continue
        given = parse_words(words)
        if given is not None:
            yield from given.options


def read_options(line: str | None, script: str, job: Job) -> tuple[SbatchOption, ...]:
    """Return what a job was submitted with, its script's options first: of several, sbatch takes the last."""
    given = parse_line(line, known_texts(job), script) if line and len(line) <= MAX_CHARACTERS else None
    return (*read_directives(script), *(given.options if given else ()))


def known_texts(job: Job) -> dict[str, str]:
    """Return the values of options that a job's attributes show."""
    return {"comment": job.comment, "job-name": job.name, "chdir": str(job.work_dir or "")}


def find_signal(options: Iterable[SbatchOption]) -> LimitSignal | None:
    """Return the last `--signal` among options; the command line's stand behind the script's."""
    values = [option.value for option in options if option.name == "signal" and option.value]
    found = _SIGNAL.fullmatch(values[-1]) if values else None
    if found is None:
        return None
    is_batch = "B" in (found[1] or "").upper()
    return LimitSignal(f"B:{found[2]}" if is_batch else found[2], int(found[3] or _DEFAULT_LEAD))
