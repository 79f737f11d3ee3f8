"""Finds the paths that a queued job names in its name, comment, command line and batch script.

All of it is text of users: nothing is executed, and no path is accessed here. What a shell would have to expand is a
gap; the literal rest of a path with gaps still shows which files it may mean.
"""

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import NamedTuple

from ckptd.core.discovery.batch_script import OPTIONS, VARIABLES, list_slurm_variables
from ckptd.core.discovery.declared import without_stated
from ckptd.core.model import ENDED_STATES, RUNNING_STATES, SUSPENDED_STATES, Job, JobState, SeenLink
from ckptd.core.text.shell_words import GAP, GLOB, LONGEST_VALUE, ShellCommand, read_lines

MAX_CHARACTERS = 250_000  # of one script; what comes behind them is not known
MAX_TEXT = 50_000  # of a job's name, comment or command line
MAX_MENTIONS = 300  # of one job
NAME, COMMENT, COMMAND, SCRIPT = "name", "comment", "command line", "script"
_LOADED_STATES = RUNNING_STATES | SUSPENDED_STATES | {JobState.COMPLETING}

# Options and variables whose value a program loads; without those that may also contain an interval or an output path.
_LOADING = re.compile(r"resum|restor|restart|reload|(?:^|[_-])load(?:$|[_-])|ckpt|checkpoint|init[_-]?from|warm|^cpi$")
_OTHER = re.compile(r"save|every|interval|freq|period|keep|num|count|max|limit|async|secs|minutes|hours")
_LOADED_NUMBER = re.compile(
    r"(?:step|iter|iteration|epoch)$"
)  # `--ckpt-step 2000`; `--checkpointing_steps` is how often
_LOADED_TOO = {"-cpi", "--checkpoint-path", "--checkpoint_path", "CHECKPOINT_PATH", "CKPT_PATH"}
_PLACES = frozenset(name.lstrip("-").lower().replace("-", "_") for name in {*OPTIONS, *VARIABLES} - _LOADED_TOO) | {
    *("chdir", "d", "directory", "e", "error", "hydra.run.dir", "log_dir", "logdir", "logging_dir", "o", "out"),
    *("outdir", "output", "results_dir", "save_folder", "save_path", "tmp_dir", "tmpdir", "work_dir", "workdir"),
}
_NUMBERED = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z])")
_IN_NAME = re.compile(
    r"/|\.[A-Za-z]\w{0,11}$|(?:epoch|step|iter|ckpt|checkpoint|model|state)[-_=.]?[0-9]", re.IGNORECASE
)
_PIECES = re.compile(r"[,;:(){}'\"<>|&=\s@]++")
_QUOTED = re.compile(r"[,;:(){}'\"<>|&\s@]++")  # without `=`, as in `epoch=2-step=20.ckpt`
_BRACES = re.compile(r"\{([^{}/\s]{1,99})\}")
_RANGE = re.compile(r"(\d{1,9})\.\.(\d{1,9})")
_FORMATTED = re.compile(r"\{[^{}/\s]{0,99}\}|%(?:\(\w{1,99}\))?0?\d{0,2}[dis](?![A-Za-z])")
_LONGEST_NAME = 255  # of one file; also of a relative path that contains spaces
MAX_BRACES = 5  # pairs of braces in one path
MAX_ALTERNATIVES = 50  # that they stand for together
_KEY = re.compile(r"-{0,2}([A-Za-z_+][\w.+-]{0,99})=(.*)", re.DOTALL)
_NO_CHECKPOINTS = (".sh", ".py", ".log", ".out", ".err", ".txt", ".yaml", ".yml", ".toml", ".md", ".csv", ".sbatch")
_SILENT = frozenset(
    {"mkdir", "cd", "pushd", "echo", "module", "source", ".", "rm", "rmdir", "printf", "chmod", "touch"}
)


_NOTHING_RESOLVED: Mapping[str, str | None] = {}  # one for all: most of a hundred thousand jobs name no path


class Mention(NamedTuple):
    """One path that a job names, as far as the text shows it."""

    source: str  # where: NAME, COMMENT, COMMAND or SCRIPT
    path: str = ""  # absolute or from `~` on; what is named, or where it is not sure a directory that it may be below
    tail: str = ""  # a literal end of the path, where the rest is not sure
    is_sure: bool = True  # nothing of the path is a gap or a pattern
    is_literal: bool = True  # nothing was filled in: what another user's job names counts only so
    is_place: bool = False  # somewhere to save: it names a checkpoint only where it is one


@dataclass(frozen=True, kw_only=True, slots=True)
class JobMentions:
    """The paths that one queued job names."""

    cluster: str
    job_id: int
    uid: int
    user: str
    is_waiting: bool  # it has yet to start and load what it names
    started_at: datetime | None
    work_dir: str | None
    is_script_awaited: bool = False  # its script may be read and was not yet
    mentions: tuple[Mention, ...] = ()  # in its name, comment and command line
    script_mentions: tuple[Mention, ...] | None = None  # None: its script was not read
    # real paths; None: nothing is there
    resolved: Mapping[str, str | None] = field(default_factory=lambda: _NOTHING_RESOLVED)
    links: tuple[SeenLink, ...] = ()  # in its working directory

    @property
    def is_empty(self) -> bool:
        return not (self.mentions or self.is_script_awaited or self.script_mentions is not None or self.links)

    @property
    def all_mentions(self) -> tuple[Mention, ...]:
        return self.mentions + (self.script_mentions or ())


def describe(job: Job, known: JobMentions | None, *, reads_scripts: bool) -> JobMentions:
    """Return the paths that a job names, with earlier results from its script."""
    found = list_mentions(job)
    work_dir = None if job.work_dir is None else str(job.work_dir)
    if known is None or (known.uid, known.work_dir) != (job.uid, work_dir):
        known = None
    return JobMentions(
        cluster=job.cluster,
        job_id=job.job_id,
        uid=job.uid,
        user=job.user,
        is_waiting=may_load_later(job),
        started_at=None if may_load_later(job) else job.started_at,
        work_dir=work_dir,
        is_script_awaited=reads_scripts and job.is_batch and (known is None or known.script_mentions is None),
        mentions=found,
        script_mentions=known.script_mentions if known else None,
        resolved=known.resolved if known else _NOTHING_RESOLVED,
        links=known.links if known else (),
    )


def mention_unreadable_script(job: Job) -> Mention:
    """Return the mention for a script that Slurm does not return: it may name any checkpoint near the job."""
    return Mention(SCRIPT, path=str(job.work_dir or "/"), is_sure=False, is_literal=False)


def may_load_later(job: Job) -> bool:
    """Whether a job will still start, for the first time or again."""
    return job.state not in _LOADED_STATES and job.state not in ENDED_STATES


def list_mentions(job: Job) -> tuple[Mention, ...]:
    """Return the paths in a job's name, comment and command line."""
    _, _, arguments = job.command.partition(" ")
    comment = without_stated(job.comment).strip()  # where it saves, and not what it loads
    if not comment and not arguments and not _IN_NAME.search(job.name):
        return ()
    reader = _Reader(job)
    if _IN_NAME.search(job.name):
        reader.read_text(job.name, NAME)
        reader.read_text(job.name.replace("-", " "), NAME)
    if comment:
        reader.read_text(comment, COMMENT)
    if arguments:
        reader.read_text(arguments, COMMAND)
    return reader.list_found()


def list_script_mentions(script: str, job: Job) -> tuple[Mention, ...]:
    """Return the paths in a batch script."""
    reader = _Reader(job)
    reader.read_text(script, SCRIPT)
    return reader.list_found()


class _Reader:
    """Collects the paths in one job's texts, without duplicates."""

    def __init__(self, job: Job) -> None:
        self._known = dict(list_slurm_variables(job))
        self._work_dir = str(job.work_dir) if job.work_dir is not None else None
        self._found: dict[Mention, None] = {}
        self._is_truncated = False

    def list_found(self) -> tuple[Mention, ...]:
        found = list(self._found)[:MAX_MENTIONS]
        if self._is_truncated or len(self._found) > MAX_MENTIONS:
            found.append(self._opaque(found[0].source if found else SCRIPT))
        return tuple(found)

    def read_text(self, text: str, source: str) -> None:
        limit = MAX_CHARACTERS if source == SCRIPT else MAX_TEXT
        self._is_truncated |= len(text) > limit
        for line in read_lines(text[:limit], self._known, self._work_dir):
            self._is_truncated |= line.is_truncated or len(self._found) > MAX_MENTIONS
            if len(self._found) > MAX_MENTIONS:
                return
            if not line.words or line.words[0].text not in _SILENT:
                self._read_line(line, source)

    def _read_line(self, line: ShellCommand, source: str) -> None:
        option = ""
        has_number, loaded = False, dict[str, None]()
        for word in line.words:
            key = _KEY.fullmatch(word.text)
            if key is not None:
                name, value = _option(key[1]), key[2]
            elif word.text.startswith("-"):
                option = _option(word.text)
                continue
            else:
                name, value = option, word.text
            option = ""
            if _is_loaded(name):
                has_number |= value.isdigit() and _LOADED_NUMBER.search(name) is not None
                loaded[value] = None
            for each in (value, *word.defaults):
                for piece in _split(each):
                    self._add_mention(piece, name, source, line.directory, is_literal=word.is_literal and each is value)
        if has_number:
            self._add_numbered(loaded, source, line.directory)

    def _add_numbered(self, loaded: Iterable[str], source: str, directory: str | None) -> None:
        """Add the directories in which a program looks for the number of a checkpoint: `--load ckpts --ckpt-step 9`."""
        found = (_mention(value, directory, is_loaded=True) for value in loaded if not value.isdigit())
        places = [each.path for each in found if each is not None and each.path]
        for path in places:
            self._found[Mention(source, path=path, is_sure=False, is_literal=False)] = None
        if not places:
            self._found[self._opaque(source)] = None

    def _add_mention(self, piece: str, option: str, source: str, directory: str | None, *, is_literal: bool) -> None:
        if len(piece) > LONGEST_VALUE or piece.startswith("-"):
            return
        is_place = option in _PLACES
        is_loaded = not is_place and _is_loaded(option)
        mention = _mention(piece, directory, is_loaded=is_loaded)
        if mention is None:
            return
        if is_place:
            if mention.is_sure and mention.path:
                self._found[mention._replace(source=source, tail="", is_literal=is_literal, is_place=True)] = None
        elif mention.path or mention.tail:
            self._found[mention._replace(source=source, is_literal=is_literal and mention.is_sure)] = None
        elif is_loaded:
            self._found[self._opaque(source)] = None

    def _opaque(self, source: str) -> Mention:
        """Return a mention of any checkpoint below the job's working directory."""
        return Mention(source, path=self._work_dir or "/", is_sure=False, is_literal=False)


def _option(text: str) -> str:
    return text.lstrip("-+").lower().replace("-", "_")


def _is_loaded(option: str) -> bool:
    return bool(option) and _LOADING.search(option) is not None and _OTHER.search(option) is None


def _split(value: str) -> Iterator[str]:
    """Yield a value, and the pieces of it that punctuation divides, as in `load("a.pt")` and `first:second`.

    `=` and spaces divide a value, and may as well be parts of a name: `epoch=2-step=20.ckpt`.
    """
    for each in _fill_braces(value):
        yield from dict.fromkeys((*_join_names(each), *_divide(each)))


def _join_names(value: str) -> Iterator[str]:
    """Yield the paths in a value if `=` and spaces divide none of them."""
    if "=" in value:
        for piece in _QUOTED.split(value.replace("\\=", "=")):  # Hydra's escape
            key = _KEY.fullmatch(piece)
            path = key[2] if key else ""  # as in `ckpt_path=epoch=2.ckpt`
            yield from (each for each in (path, "" if path.startswith(("/", "~", ".")) else piece) if "=" in each)
    if " " in value and len(value) <= _LONGEST_NAME and not any(mark in value for mark in ";|&<>(){}\n"):
        yield value.strip("\"' ")


def _divide(value: str) -> Iterator[str]:
    pieces = [piece for each in _PIECES.split(value) if (piece := _without_brackets(each))]
    if len(pieces) > 1 or (pieces and pieces[0] != value):
        if value.startswith(("/", "~", ".")) and "/" in value:
            yield value
        yield from pieces
    elif value:
        yield value


def _fill_braces(value: str) -> Iterator[str]:
    """Yield a value, and what braces or a format in a path stand for: `e_{2,3}.pt`, `e_{epoch}.pt`, `e_%d.pt`."""
    yield value
    if not ("{" in value or "%" in value) or not ("/" in value or "." in value):
        return
    filled = [value]
    for found in list(islice(_BRACES.finditer(value), MAX_BRACES)):
        alternatives = _expand_braces(found[1])
        if alternatives and len(filled) * len(alternatives) <= MAX_ALTERNATIVES:
            filled = [each.replace(found[0], one, 1) for each in filled for one in alternatives]
    for each in filled:
        shown = _FORMATTED.sub(GAP, each)
        if shown != value and shown.strip(GAP):
            yield shown


def _expand_braces(inner: str) -> list[str]:
    """Return the words of `{2,3}` and `{1..3}`; nothing where a shell leaves the braces as they are."""
    span = _RANGE.fullmatch(inner)
    if span is None:
        return inner.split(",")[:MAX_ALTERNATIVES] if "," in inner and inner.count(",") < MAX_ALTERNATIVES else []
    first, last = sorted((int(span[1]), int(span[2])))
    width = len(span[1]) if span[1].startswith("0") else 0
    return [f"{each:0{width}}" for each in range(first, last + 1)] if last - first < MAX_ALTERNATIVES else []


def _without_brackets(piece: str) -> str:
    """Remove a list's brackets; a pair within a name is a pattern."""
    return piece if "[" in piece and "]" in piece and piece[0] != "[" else piece.lstrip("[").rstrip("]")


def _mention(piece: str, directory: str | None, *, is_loaded: bool) -> Mention | None:
    """Return what a piece of text may name, without its source; with neither path nor tail where that may be anything.

    None where it names no file.
    """
    if GAP in piece or any(mark in piece for mark in GLOB):
        return _mention_with_gaps(piece, directory, is_loaded=is_loaded)
    name = piece.rstrip("/").rpartition("/")[2]
    if name in {"", ".", ".."} or name.endswith(_NO_CHECKPOINTS):
        return None
    if piece.startswith("/"):
        return Mention("", path=_normalise(piece))
    if piece.startswith("~"):
        path = posixpath.normpath(piece)
        is_own = piece.startswith("~/")
        return Mention("", path=path if is_own else "", tail=_tail(path.partition("/")[2]), is_sure=is_own)
    is_path = "/" in piece.rstrip("/")
    is_named = is_path or is_loaded or _NUMBERED.match(piece) is not None
    if not is_named and "." not in piece:
        return None
    tail = _tail(piece) if is_named else ""
    path = "" if directory is None else _join(directory, piece)
    return Mention("", path=path, tail=tail, is_sure=bool(path)) if path or tail else None


def _mention_with_gaps(piece: str, directory: str | None, *, is_loaded: bool) -> Mention | None:
    names = piece.rstrip("/").split("/")
    uncertain = [at for at, name in enumerate(names) if _is_uncertain(name)]
    if not uncertain:  # an empty piece, or slashes alone
        return None
    if uncertain[-1] < len(names) - 1:
        tail = _tail("/".join(names[uncertain[-1] + 1 :]))
        return Mention("", tail=tail, is_sure=False) if tail and not tail.endswith(_NO_CHECKPOINTS) else None
    if not is_loaded and (len(names) == 1 or names[-1].endswith(_NO_CHECKPOINTS)):
        return None
    before = "/".join(names[: uncertain[0]])
    if uncertain[0] == 0:
        literal = names[0].replace(GAP, "")
        if len(names) > 1 or not literal or directory is None:
            return Mention("", is_sure=False)
        return Mention("", path=_normalise(directory), is_sure=False)
    if before.startswith("~/"):
        return Mention("", path=posixpath.normpath(before), tail=_tail(before[2:]), is_sure=False)
    if not before.startswith("/"):
        path = "" if directory is None else _join(directory, before)
        return Mention("", path=path, tail=_tail(before), is_sure=False)
    return Mention("", path=_normalise(before or "/"), is_sure=False)


def _is_uncertain(name: str) -> bool:
    return GAP in name or any(mark in name for mark in GLOB)


def _join(directory: str, path: str) -> str:
    return _normalise(posixpath.join(directory, path)) if directory.startswith("/") else ""


def _normalise(path: str) -> str:
    return "/" + posixpath.normpath(path).lstrip("/")


def _tail(path: str) -> str:
    """Return a relative path without the `..` and `.` at its beginning."""
    names = posixpath.normpath(path).split("/") if path else []
    while names and names[0] in {"..", ".", ""}:
        names.pop(0)
    return "/".join(names)
