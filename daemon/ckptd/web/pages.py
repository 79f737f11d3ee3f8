"""Renders pages from templates. Text that users wrote is escaped and stripped of control characters."""

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jinja2
from markupsafe import Markup, escape

from ckptd.core.model import Finding, RunKey, RunRecord
from ckptd.present import flag_texts, formatting, labels, summaries
from ckptd.present.advice_commands import split_commands
from ckptd.present.evidence import format_evidence, name_flagged_job
from ckptd.present.labels import fate_of, locator_of, title_of
from ckptd.web.query import run_address

HERE = Path(__file__).parent
JOBS_SHOWN = 3  # of a run, in a row
STATIC: Mapping[str, tuple[bytes, str]] = {
    "style.css": ((HERE / "static/style.css").read_bytes(), "text/css"),
    "ckptd.js": ((HERE / "static/ckptd.js").read_bytes(), "text/javascript"),
    "icon.svg": ((HERE / "static/icon.svg").read_bytes(), "image/svg+xml"),
}


def compile_templates() -> None:
    """Compile all templates, so that nobody who asks for a page waits for that."""
    for name in ENVIRONMENT.list_templates(extensions=["html"]):
        ENVIRONMENT.get_template(name)


def render(template: str, **values: Any) -> bytes:
    """Return a page as UTF-8."""
    return ENVIRONMENT.get_template(template).render(**values).encode()


def _print(value: object) -> object:
    if value is None:
        return "-"
    return value if isinstance(value, (Markup, int)) else formatting.safe(value)


def show_time(at: datetime | None) -> Markup:
    """Return an instant in UTC, which the page's script converts to the viewer's time zone."""
    if at is None:
        return Markup("never")
    moment = at.astimezone(UTC)
    return Markup('<time datetime="{}">{}</time>').format(
        moment.isoformat(timespec="seconds"), f"{moment:%Y-%m-%d %H:%M} UTC"
    )


def show_duration(duration: timedelta | float | None) -> str:
    """Return a duration in at most two units; a dash for None."""
    if duration is None:
        return "-"
    return formatting.format_duration(duration if isinstance(duration, timedelta) else timedelta(seconds=duration))


def name_run(run: RunKey, job_number: str | None = None, job_name: str = "") -> str:
    """Return a run's name: its directory, or its job if the directory is unknown."""
    return labels.name_run(run.directory, job_number, job_name)


def name_history(history: RunRecord) -> str:
    """Return a run's name; with the job's name if the job is in the queue."""
    job = next(iter(history.jobs), None)
    if job is None:
        return name_run(history.key)
    return name_run(history.key, formatting.number_job(job.job_id, job.array_job_id, job.array_task_id), job.name)


def show_evidence(finding: Finding) -> list[tuple[str, str]]:
    """Return a flag's evidence as in mail, without the directory, which the link shows."""
    evidence = dict(finding.evidence)
    if evidence.get("directory") == finding.run.directory:
        del evidence["directory"]
    return format_evidence(finding.rule, evidence)


def show_path(path: str) -> Markup:
    """Return a path with line breaks allowed after slashes, so that it fits a narrow screen."""
    return Markup("/<wbr>").join(escape(part) for part in formatting.safe(path).split("/"))


def static_address(name: str) -> str:
    """Return the address of a static file, which changes with its content."""
    return f"/static/{name}?{hashlib.sha256(STATIC[name][0]).hexdigest()[:12]}"


def user_address(user: str) -> str:
    return "/users/" + quote(user, safe="", errors="surrogateescape")


ENVIRONMENT = jinja2.Environment(
    loader=jinja2.FileSystemLoader(HERE / "templates"),
    autoescape=True,
    finalize=_print,
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=jinja2.StrictUndefined,
    auto_reload=False,
)
ENVIRONMENT.filters |= {
    "time": show_time,
    "duration": show_duration,
    "size": formatting.format_size,
    "count": formatting.format_count,
    "progress": formatting.format_progress,
    "loss": summaries.describe_loss,
    "losses": summaries.describe_losses,
    "summed": summaries.describe_summed,
    "unrecognised": summaries.describe_unrecognised,
    "advice": summaries.describe_advice,
    "path": show_path,
    "evidence": show_evidence,
    "flag_text": flag_texts.make_recorded_text,
    "commands": split_commands,
    "fate_of": fate_of,
    "locator_of": locator_of,
    "title_of": title_of,
    "safe_text": formatting.safe,
}
ENVIRONMENT.globals |= {
    "static": static_address,
    "run_address": run_address,
    "user_address": user_address,
    "number_job": formatting.number_job,
    "name_flagged_job": name_flagged_job,
    "name_run": name_run,
    "name_history": name_history,
    "JOBS_SHOWN": JOBS_SHOWN,
}
del ENVIRONMENT.filters["safe"]  # nothing on these pages may claim to be harmless
