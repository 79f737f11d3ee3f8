"""Render digests as messages with templates that a site can replace individually.

Templates receive sanitised strings, so a job name cannot break out of its line even in a careless site template.
"""

import itertools
import logging
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path

from jinja2 import (
    BaseLoader,
    ChoiceLoader,
    Environment,
    FileSystemLoader,
    PackageLoader,
    StrictUndefined,
    TemplateNotFound,
    TemplateSyntaxError,
    select_autoescape,
)

from ckptd.core.notices import Digest, DigestEntry, EntryStatus, sample_digests
from ckptd.notify.interface import Message
from ckptd.present import flag_texts
from ckptd.present.advice_commands import Part, split_commands, wrap
from ckptd.present.evidence import format_evidence, name_flagged_job
from ckptd.present.formatting import clean, format_count, format_duration, format_instant
from ckptd.present.labels import title_of

log = logging.getLogger("ckptd")

TEMPLATES = ("subject.txt", "body.txt", "body.html")
SUBJECT_LIMIT = 150
TEXT_WIDTH = 74
MAX_MESSAGE_BYTES = 100_000
MAX_PROSE = 1000  # characters of a statement, of an advice, of a command


@dataclass(frozen=True, kw_only=True, slots=True)
class ShownEntry:
    """Hold one entry of a message as sanitised text for the templates.

    The advice ends with the command, which is the last of its lines and of its parts. `example` is the job whose
    details are shown, if the entry is about several jobs.
    """

    rule: str
    title: str
    severity: str
    status: str
    about: str
    example: str | None
    owner: str | None
    directory: str | None
    since: str
    statement: str
    statement_lines: tuple[str, ...]
    statement_parts: tuple[Part, ...]
    evidence: tuple[tuple[str, str], ...]
    advice: str
    advice_lines: tuple[str, ...]
    advice_parts: tuple[Part, ...]
    command: str | None
    meant_for: str | None


class Renderer:
    """Render digests with the site's templates; fall back to the built-in ones when a site template fails."""

    def __init__(
        self,
        directory: Path | None = None,
        *,
        repeat_gap: timedelta = timedelta(days=7),
        max_bytes: int = MAX_MESSAGE_BYTES,
        zone: tzinfo | None = UTC,
    ) -> None:
        self._zone = zone
        self._directory = directory
        built_in = PackageLoader("ckptd.notify")
        self._built_in = _environment(built_in)
        self._site = _environment(ChoiceLoader([FileSystemLoader(directory), built_in])) if directory else None
        is_whole_days = repeat_gap % timedelta(days=1) == timedelta(0)
        self._repeat_gap = format_count(repeat_gap.days, "day") if is_whole_days else format_duration(repeat_gap)
        self._max_bytes = max_bytes

    def render(self, digest: Digest, *, key: str, is_for_user: bool = True, is_one_of_several: bool = False) -> Message:
        """Return the message for a digest that has entries; drop entries that exceed the size limit.

        Only messages to users explain how to mute alerts; messages to administrators and rooms name the site's
        configuration instead. `is_one_of_several` is whether other clusters are in the database, where the commands in
        a message must name its own.
        """
        digest = replace(digest, key=key)
        while True:
            message = self._render(digest, is_for_user=is_for_user, is_one_of_several=is_one_of_several)
            size_bytes = len(message.text.encode()) + len(message.html.encode())
            if size_bytes <= self._max_bytes or len(digest.entries) <= 1:
                return message
            digest = _halve(digest)

    def list_troubles(self) -> list[str]:
        """Render the site's templates with sample digests; return their errors, each with file and line if known."""
        if self._site is None or self._directory is None:
            return []
        try:
            if not self._directory.is_dir():
                return [f"{self._directory} is not a directory"]
            own = [name for name in TEMPLATES if (self._directory / name).exists()]
        except OSError as error:
            return [f"{self._directory}: {error.strerror}"]
        if not own:
            return [f"{self._directory} contains no template; expected at least one of {', '.join(TEMPLATES)}"]
        troubles: dict[str, None] = {}
        now = datetime(2000, 1, 1, tzinfo=UTC)
        for digest, is_for_user in itertools.product(sample_digests("user@example.org", now), (True, False)):
            context = self._context(digest, is_for_user=is_for_user, is_one_of_several=True)
            for name in own:
                try:
                    self._site.get_template(name).render(context)
                except Exception as error:  # noqa: BLE001 - a template may raise anything
                    troubles[f"{self._directory / name}: {_locate(error)}"] = None
        return list(troubles)

    def _context(self, digest: Digest, *, is_for_user: bool, is_one_of_several: bool) -> dict[str, object]:
        context = _describe(digest, self._zone)
        option = f" --cluster {context['cluster']}" if is_one_of_several else ""
        return context | {"repeat_gap": self._repeat_gap, "is_for_user": is_for_user, "cluster_option": option}

    def _render(self, digest: Digest, *, is_for_user: bool, is_one_of_several: bool) -> Message:
        context = self._context(digest, is_for_user=is_for_user, is_one_of_several=is_one_of_several)
        if self._site:
            try:
                return self._fill(self._site, digest, context)
            except Exception as error:  # noqa: BLE001 - a template may raise anything, and the message must go
                log.error("site template failed: %s; using the built-in templates", _locate(error))  # noqa: TRY400
        return self._fill(self._built_in, digest, context)

    def _fill(self, environment: Environment, digest: Digest, context: Mapping[str, object]) -> Message:
        subject, text, html = (environment.get_template(name).render(context) for name in TEMPLATES)
        return Message(
            address=digest.recipient.address,
            key=digest.key,
            thread=digest.thread,
            severity=digest.severity,
            subject=clean(" ".join(subject.split()), SUBJECT_LIMIT),
            text=text,
            html=html,
        )


def _environment(loader: BaseLoader) -> Environment:
    return Environment(
        loader=loader,
        autoescape=select_autoescape(["html"], default=False),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _locate(error: Exception) -> str:
    """Return an error's text, prefixed with the template line that raised it."""
    if isinstance(error, TemplateSyntaxError):
        return f"line {error.lineno}: {error.message}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.endswith(TEMPLATES)]
    line = f"line {frames[-1].lineno}: " if frames else ""
    reason = f"there is no template {error.name!r}" if isinstance(error, TemplateNotFound) else str(error)
    return f"{line}{reason or type(error).__name__}"


def _halve(digest: Digest) -> Digest:
    kept = len(digest.entries) // 2
    more = dict(digest.more)
    for entry in digest.entries[kept:]:
        more[entry.notice.rule] = more.get(entry.notice.rule, 0) + 1
    return replace(digest, entries=digest.entries[:kept], more=more)


def _describe(digest: Digest, zone: tzinfo | None) -> dict[str, object]:
    work_dirs = {entry.notice.work_dir for entry in digest.entries if entry.notice.work_dir}
    return {
        "cluster": clean(digest.entries[0].notice.cluster, 60),
        "severity": digest.severity.value,
        "entries": [_show(entry, zone) for entry in digest.entries],
        "more": [(title_of(clean(rule)), count) for rule, count in sorted(digest.more.items())],
        "more_count": sum(digest.more.values()),
        "is_all_well": all(entry.status is EntryStatus.RESOLVED for entry in digest.entries),
        "work_dir": clean(work_dirs.pop()) if len(work_dirs) == 1 else None,
        "rules": sorted({clean(entry.notice.rule) for entry in digest.entries}),
    }


def _show(entry: DigestEntry, zone: tzinfo | None) -> ShownEntry:
    notice = entry.notice
    text = flag_texts.make_recorded_text(notice, zone)
    statement, advice = clean(text.statement, MAX_PROSE), clean(text.advice, MAX_PROSE)
    command = clean(text.command, MAX_PROSE) if text.command else None
    evidence = dict(notice.evidence)
    if evidence.get("directory") == notice.run.directory:
        del evidence["directory"]  # the first line names it
    return ShownEntry(
        rule=clean(notice.rule),
        title=clean(text.title),
        severity=notice.severity.value,
        status=entry.status.value,
        about=_about(entry),
        example=clean(notice.evidence.get("slurm_job") or "", 60) or None if entry.job_count > 1 else None,
        owner=clean(notice.user, 60) or None,
        directory=clean(notice.run.directory) if notice.run.is_located else None,
        since=format_instant(notice.created_at, zone),
        evidence=tuple(format_evidence(notice.rule, evidence, zone)),
        statement=statement,
        statement_lines=wrap(statement, TEXT_WIDTH),
        statement_parts=split_commands(statement),
        advice=clean(text.full_advice, 2 * MAX_PROSE),
        advice_lines=(*wrap(advice, TEXT_WIDTH), *([f"  {command}"] if command else [])),
        advice_parts=(*split_commands(advice), *_command_parts(command)),
        command=command,
        meant_for=clean(notice.meant_for, 100) if notice.meant_for else None,
    )


def _command_parts(command: str | None) -> tuple[Part, ...]:
    return (Part(" ", is_command=False), Part(command, is_command=True)) if command else ()


def _about(entry: DigestEntry) -> str:
    notice = entry.notice
    name = f" ({clean(notice.job_name, 80)})" if notice.job_name else ""
    if notice.array_job_id is not None and entry.job_count > 1:
        return f"array {notice.array_job_id}{name}: {entry.job_count:,} tasks{_still(entry)}"
    if len(entry.job_ids) > 1:  # `job_count` counts a job twice that was flagged twice
        named = ", ".join(map(str, entry.job_ids[:5]))
        return f"jobs {named}{' and others' if entry.job_count > 5 else ''}{name}{_still(entry)}"
    if entry.job_ids:
        return f"job {name_flagged_job(entry.job_ids[0], notice.evidence)}{name}"
    return f"a run{name}" if notice.run.directory else "the cluster's mail"


def _still(entry: DigestEntry) -> str:
    """Return how many of the jobs are still affected; empty when that is all or none of them."""
    if entry.open_count and entry.open_count < entry.job_count:
        return f", {entry.open_count:,} of them still affected"
    return ""
