"""Finds the checkpoint directories that a batch script names. The script is parsed as text and never run.

Only the script's own simple assignments, Slurm's variables and those that the site gives are expanded; what needs a
shell to be known (command substitution, arithmetic, arrays, defaults) makes a path unknown.
"""

import re
import shlex
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from ckptd.core.model import Job

# options of well-known programs and frameworks that name the checkpoint file or directory
OPTIONS = frozenset(
    {"-cpi", "-cpo", "--save", "--save-dir", "--save_dir", "--output-dir", "--output_dir", "--default_root_dir"}
    | {"--checkpoint-dir", "--checkpoint_dir", "--checkpoint-path", "--checkpoint_path", "--checkpoint_folder"}
    | {"--ckpt-dir", "--ckpt_dir", "--ckptdir", "--restart-dir"}
)
VARIABLES = frozenset(
    ["CKPTDIR", "CKPT_DIR", "CKPT_PATH", "CHECKPOINT_DIR", "CHECKPOINTDIR", "CHECKPOINT_PATH", "DMTCP_CHECKPOINT_DIR"]
)
MAX_CHARACTERS = 50_000
LONGEST_LINE = 16_384  # longer ones take a time that grows with the square of their words' lengths
MAX_DIRECTORIES = 20  # that one script may name: each is searched
LONGEST_VALUE = 4096  # the longest path; what variables of variables make longer is none
_ASSIGNMENT = re.compile(r"(?:export\s+|readonly\s+)?([A-Za-z_]\w*)=(\S.*)?")
_REFERENCE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")


class Places(NamedTuple):
    """Where a script says that checkpoints go."""

    paths: tuple[str, ...] = ()  # in its order; relative ones stay relative
    gaps: tuple[str, ...] = ()  # words whose variables or substitutions nobody here can fill in


def find_directories(script: str, job: Job, given: Mapping[str, str] = MappingProxyType({})) -> tuple[str, ...]:
    """Return the paths that a script names for its checkpoints, in its order; relative ones stay relative."""
    return read_places(script, job, given).paths


def read_places(script: str, job: Job, given: Mapping[str, str] = MappingProxyType({})) -> Places:
    """Return what a script names for its checkpoints. `given` are values that the site gives, such as SCRATCH."""
    values = {**given, **dict(list_slurm_variables(job))}
    found: list[str] = []
    gaps: list[str] = []
    for words in _read_lines(script[:MAX_CHARACTERS]):
        named: list[tuple[str, str | None]] = []
        for word in words:
            if (assignment := _ASSIGNMENT.fullmatch(word)) is None:
                break
            name, text = assignment[1], assignment[2] or ""
            value = expand(text, values)
            values.pop(name, None)
            if value is not None:
                values[name] = value
            named += [(text, value)] if name in VARIABLES and text else []
        named += [(text, expand(text, values)) for text in _option_values(words)]
        found += [value for _, value in named if value]
        gaps += [text[:LONGEST_VALUE] for text, value in named if value is None]
    return Places(tuple(dict.fromkeys(found))[:MAX_DIRECTORIES], tuple(dict.fromkeys(gaps))[:MAX_DIRECTORIES])


def _read_lines(script: str) -> Iterator[list[str]]:
    """Yield the words of each logical line; skip lines that are not valid shell words."""
    for line in script.replace("\\\n", " ").splitlines():
        if len(line) > LONGEST_LINE:
            continue
        try:
            words = shlex.split(line, comments=True)
        except ValueError:
            continue
        if words and words[0] in {"export", "readonly"}:
            words = words[1:]
        if words:
            yield words


def _option_values(words: list[str]) -> Iterator[str]:
    for word, following in zip(words, [*words[1:], ""], strict=True):
        name, equals, value = word.partition("=")
        if name in OPTIONS:
            value = value if equals else following
            if value and not value.startswith("-"):
                yield value


def expand(text: str, values: Mapping[str, str]) -> str | None:
    """Expand known variables; None if the text would need a shell, or is too long for a path."""
    if len(text) > LONGEST_VALUE or any(mark in text for mark in ("`", "$(", "*", "?", "\0")):
        return None
    names = [match[1] or match[2] for match in _REFERENCE.finditer(text)]
    if any(name not in values for name in names) or sum(len(values[name]) for name in names) > LONGEST_VALUE:
        return None
    expanded = _REFERENCE.sub(lambda match: values[match[1] or match[2]], text)
    return None if "$" in expanded else expanded


def list_slurm_variables(job: Job) -> Iterator[tuple[str, str]]:
    """Yield the variables that Slurm and a login give every job; HOME stays for the owner's process to fill in."""
    yield from (("SLURM_JOB_ID", str(job.job_id)), ("SLURM_JOBID", str(job.job_id)), ("SLURM_JOB_NAME", job.name))
    yield from (("USER", job.user), ("HOME", "~"), ("SLURM_RESTART_COUNT", str(job.restart_count)))
    if job.work_dir is not None:
        yield from (("SLURM_SUBMIT_DIR", str(job.work_dir)), ("PWD", str(job.work_dir)))
    if job.array_job_id is not None and job.array_task_id is not None:
        yield from (
            ("SLURM_ARRAY_JOB_ID", str(job.array_job_id)),
            ("SLURM_ARRAY_TASK_ID", str(job.array_task_id)),
        )
