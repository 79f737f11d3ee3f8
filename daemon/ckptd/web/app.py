"""The routes of pages and documents. Every row passes through the viewer, which hides other users' runs."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from ckptd.core.model import JobState, RunKey, Severity
from ckptd.core.runs.lost_work_totals import GroupedBy
from ckptd.present import lost_work_report, models, timeline
from ckptd.present.responses import lost_work_documents
from ckptd.present.timeline import fate
from ckptd.web import documents, openapi, pages, timeline_drawing
from ckptd.web import query as listing
from ckptd.web.cache import RatedRun, RunDetails, fold
from ckptd.web.documents import UserRecord
from ckptd.web.lost_work_reports import Period
from ckptd.web.query import CLUSTER_PARAMETERS, FLAG_PARAMETERS, JOB_PARAMETERS, ORDERS, RUN_PARAMETERS, Query
from ckptd.web.responses import GuardedApp, NotFoundError, Responder, document, page, redirect
from ckptd.web.runbook import read_runbook
from ckptd.web.scrapes import Metrics, make_scrape_app
from ckptd.web.viewer import Viewer
from ckptd.web.web_config import WebConfig

PAGE_LENGTH = 50
ATTEMPTS_SHOWN = 200  # of a run, the latest


def make_app(site: Responder, metrics: Metrics, web_config: WebConfig | None = None) -> ASGIApp:
    """Return the web application. /metrics never waits for the requests of pages."""
    routes = [
        Route("/", site.endpoint(show_fleet, is_public=True)),
        Route("/flags", site.endpoint(show_flags)),
        Route("/run", site.endpoint(show_run)),
        Route("/jobs/{job_id}", site.endpoint(show_job)),
        Route("/users/{name}", site.endpoint(show_user)),
        Route("/lost-work", site.endpoint(show_lost_work)),
        Route("/runbook", site.endpoint(show_runbook, is_public=True)),
        Route("/static/{name}", serve_static),
        Route("/api/v1/openapi.json", site.endpoint(serve_description, is_public=True)),
        Route("/api/v1/status", site.endpoint(serve_status, is_public=True)),
        Route("/api/v1/jobs", site.endpoint(serve_jobs)),
        Route("/api/v1/runs", site.endpoint(serve_runs)),
        Route("/api/v1/jobs/{job_id}", site.endpoint(serve_job)),
        Route("/api/v1/flags", site.endpoint(serve_flags)),
        Route("/api/v1/run", site.endpoint(serve_run)),
        Route("/api/v1/lost-work", site.endpoint(serve_lost_work)),
        Route("/api/v1/users/{name}", site.endpoint(serve_user)),
        Route("/{rest:path}", site.endpoint(serve_not_found, is_public=True)),
    ]
    scrapes = site.guard(make_scrape_app(metrics, site.sees_all))
    pages_and_documents = Starlette(routes=routes)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        is_metrics = scope["path"] in {"/metrics", "/metrics/"}
        await (scrapes if is_metrics else pages_and_documents)(scope, receive, send)

    return GuardedApp(app, web_config)


def _parameters(request: Request, known: Sequence[str]) -> dict[str, str]:
    is_form = not request.url.path.startswith("/api/")
    return listing.read_parameters(request.scope["query_string"], known, is_form=is_form)


def _query(site: Responder, request: Request, known: Sequence[str], limit: int = 100) -> Query:
    query = listing.parse_query(_parameters(request, known), limit=limit)
    _check_cluster(site, query.cluster)
    return query


def _read_cluster(site: Responder, request: Request) -> str | None:
    """Return which cluster an address asks for; None for all."""
    cluster = _parameters(request, CLUSTER_PARAMETERS).get("cluster")
    _check_cluster(site, cluster)
    return cluster


def _check_cluster(site: Responder, cluster: str | None) -> None:
    """Refuse the name of a cluster that is not on record: an empty list would mean that nothing is wrong there.

    Raises:
        NotFoundError: there is no such cluster.

    """
    if cluster is None:
        return
    names = [each.cluster for each in site.reader.read_fleet().clusters]
    if cluster not in names:
        raise NotFoundError(f"no cluster {cluster[:40]!a} is on record; there are {', '.join(names) or 'none'}")


# pages


def show_fleet(site: Responder, viewer: Viewer, request: Request) -> Response:
    fleet = site.reader.read_fleet()
    query = _query(site, request, JOB_PARAMETERS, PAGE_LENGTH)
    status = documents.status(fleet, viewer, datetime.now(UTC))
    if not viewer.is_known:
        return page("health.html", viewer=viewer, status=status)
    runs = [run for run in viewer.runs(fleet.runs) if query.cluster in {None, run.key.cluster}]
    rows = [job.row for run in runs for job in run.jobs]
    return page(
        "fleet.html",
        viewer=viewer,
        status=status,
        counts=count_rows(runs),
        query=query,
        everything=Query(cluster=query.cluster),
        **_switch(site, query.cluster, lambda name: query.address(cluster=name, offset=0)),
        found=listing.select_runs(runs, query, is_folding=True),
        rules=sorted({rule for row in rows for rule in row.flags}),
        partitions=sorted({row.partition for row in rows}),
        states=sorted({row.state for row in rows} | ({query.state} if query.state else set())),
        severities=list(Severity),
        orders=list(ORDERS),
        now=fleet.taken_at,
    )


def count_rows(runs: Sequence[RatedRun]) -> dict[str, int]:
    """Count the rows of each list; a severity includes the worse ones, as its list does."""
    rows = fold(runs)
    worst = Counter(run.severity for run in rows)
    return {
        "runs": len(rows),
        "running": sum(any(job.row.state is JobState.RUNNING for job in run.jobs) for run in rows),
        **{each.value: sum(worst[other] for other in Severity if other.rank >= each.rank) for each in Severity},
        "never_saved": sum(not run.first.checkpoint_count for run in rows),
        "bytes": documents.checkpoint_bytes(runs),
    }


def show_flags(site: Responder, viewer: Viewer, request: Request) -> Response:
    fleet = site.reader.read_fleet()
    query = _query(site, request, FLAG_PARAMETERS, PAGE_LENGTH)
    flags = [flag for flag in viewer.flags(fleet.flags) if query.cluster in {None, flag.finding.run.cluster}]
    return page(
        "flags.html",
        viewer=viewer,
        query=query,
        **_switch(site, query.cluster, lambda name: query.address(cluster=name, offset=0)),
        found=listing.select_flags(flags, query),
        rules=sorted({flag.finding.rule for flag in flags}),
        severities=list(Severity),
        fleet=fleet,
    )


def show_run(site: Responder, viewer: Viewer, request: Request) -> Response:
    found = _read_run(site, viewer, request)
    history, now = found.history, datetime.now(UTC)
    line = timeline.draw(replace(history, attempts=history.attempts[-ATTEMPTS_SHOWN:]), now, found.margins.loss)
    view = models.run_view(history, (), now, found.losses, found.ends, found.margins)
    flags = sorted(found.flags, key=lambda flag: (flag.resolved_at is not None, -flag.finding.severity.rank))
    checkpoints = [
        {"row": row, "fate": fate(record).value}
        for row, record in zip(view["checkpoints"], history.checkpoints, strict=True)
    ]
    return page(
        "run.html",
        viewer=viewer,
        history=history,
        view=view,
        names={str(job_id): name for job_id, name in (timeline_drawing.name_jobs(line) if line else {}).items()},
        attempts=view["attempts"][: -ATTEMPTS_SHOWN - 1 : -1],
        flags=flags[:LARGEST_SHOWN],
        flag_count=len(flags),
        line=line,
        drawing=timeline_drawing.draw(line) if line else None,
        checkpoints=checkpoints[::-1],
        now=now,
    )


def show_job(site: Responder, viewer: Viewer, request: Request) -> Response:
    runs = [found.history for found in _read_job(site, viewer, request)]
    if len(runs) == 1:
        return redirect("/run" + listing.run_address(runs[0].key))
    return page("job.html", viewer=viewer, job_id=request.path_params["job_id"], runs=runs)


def show_user(site: Responder, viewer: Viewer, request: Request) -> Response:
    cluster = _read_cluster(site, request)
    found = _read_user(site, viewer, request, cluster)
    fleet = site.reader.read_fleet()
    return page(
        "user.html",
        viewer=viewer,
        name=found.name,
        found=listing.select_runs(found.runs, Query(limit=LARGEST_SHOWN), is_folding=True),
        query=Query(user=found.name, cluster=cluster),
        **_switch(site, cluster, lambda name: listing.make_address(cluster=name)),
        ended=found.ended,
        flags=found.flags[:LARGEST_SHOWN],
        counts=count_rows(found.runs),
        flag_count=len(found.flags),
        now=fleet.taken_at,
    )


LARGEST_SHOWN = 200


def show_lost_work(site: Responder, viewer: Viewer, request: Request) -> Response:
    report, period, cluster = _read_lost_work(site, viewer, request)
    by = report["by"]
    rows = [(row["name"], lost_work_report.name_row(row, by), lost_work_report.cells(row)) for row in report["rows"]]
    return page(
        "lost-work.html",
        viewer=viewer,
        by=by,
        period=period,
        **_switch(site, cluster, lambda name: listing.make_address(by=by, period=period, cluster=name)),
        groups=list(GroupedBy),
        periods=list(Period),
        columns=lost_work_report.COLUMNS,
        rows=rows[:LARGEST_SHOWN],
        row_count=len(rows),
        total=lost_work_report.cells(report["total"]),
        report=report,
    )


def show_runbook(_site: Responder, viewer: Viewer, _request: Request) -> Response:
    return page("runbook.html", viewer=viewer, runbook=read_runbook())


async def serve_static(request: Request) -> Response:
    """Static files hold nothing of anybody."""
    content, media_type = pages.STATIC.get(request.path_params["name"], (None, None))
    if content is None:
        return Response("There is no such file.\n", 404, media_type="text/plain")
    return Response(content, media_type=media_type, headers={"cache-control": "public, max-age=86400"})


def serve_not_found(_site: Responder, _viewer: Viewer, _request: Request) -> Response:
    raise NotFoundError(NotFoundError.__doc__ or "")


# documents


def serve_description(_site: Responder, _viewer: Viewer, _request: Request) -> Response:
    return document(openapi.describe())


def serve_status(site: Responder, viewer: Viewer, request: Request) -> Response:
    cluster = _read_cluster(site, request)
    fleet = site.reader.read_fleet()
    shown = [each for each in fleet.clusters if cluster in {None, each.cluster}]
    return document(documents.status(replace(fleet, clusters=shown), viewer, datetime.now(UTC)))


def serve_jobs(site: Responder, viewer: Viewer, request: Request) -> Response:
    query = _query(site, request, JOB_PARAMETERS)
    fleet = site.reader.read_fleet()
    return document(documents.jobs(listing.select_jobs(viewer.jobs(fleet.jobs), query), fleet))


def serve_runs(site: Responder, viewer: Viewer, request: Request) -> Response:
    query = _query(site, request, JOB_PARAMETERS)
    fleet = site.reader.read_fleet()
    return document(documents.runs(listing.select_runs(viewer.runs(fleet.runs), query), fleet))


def serve_job(site: Responder, viewer: Viewer, request: Request) -> Response:
    now = datetime.now(UTC)
    return document(documents.runs_of_job(_read_job(site, viewer, request), now))


def serve_flags(site: Responder, viewer: Viewer, request: Request) -> Response:
    query = _query(site, request, FLAG_PARAMETERS)
    fleet = site.reader.read_fleet()
    return document(documents.flags(listing.select_flags(viewer.flags(fleet.flags), query), fleet))


def serve_run(site: Responder, viewer: Viewer, request: Request) -> Response:
    return document(documents.run(_read_run(site, viewer, request), datetime.now(UTC)))


def serve_user(site: Responder, viewer: Viewer, request: Request) -> Response:
    cluster = _read_cluster(site, request)
    return document(documents.user(_read_user(site, viewer, request, cluster), site.reader.read_fleet()))


def serve_lost_work(site: Responder, viewer: Viewer, request: Request) -> Response:
    return document(_read_lost_work(site, viewer, request)[0])


# what both are made of


def _switch(site: Responder, cluster: str | None, address: Callable[[str | None], str]) -> dict[str, Any]:
    """Return what the links between clusters need; the links to other pages keep the chosen cluster."""
    names = [each.cluster for each in site.reader.read_fleet().clusters]
    return {
        "cluster": cluster,
        "cluster_links": listing.link_clusters(names, address),
        "kept": "" if cluster is None else listing.make_address(cluster=cluster),
    }


def _read_lost_work(
    site: Responder, viewer: Viewer, request: Request
) -> tuple[lost_work_documents.LostWorkReportDocument, Period, str | None]:
    """Return the report that an address asks for; of the viewer's own attempts unless it is an operator."""
    parameters = _parameters(request, listing.LOST_WORK_PARAMETERS)
    by, period = listing.parse_lost_work(parameters)
    cluster = parameters.get("cluster")
    _check_cluster(site, cluster)
    return site.reader.lost_work.read(by, period, viewer.only_user, cluster), period, cluster


def _read_run(site: Responder, viewer: Viewer, request: Request) -> RunDetails:
    """Return the run that an address names; another user's run is reported as absent."""
    key = listing.parse_run(_parameters(request, RUN_PARAMETERS))
    found = site.reader.read_run(key) if viewer.may_ask(key) else None
    if found is None or not viewer.may_see(key, found.history.user):
        raise NotFoundError(NotFoundError.__doc__ or "")
    return found


def _read_job(site: Responder, viewer: Viewer, request: Request) -> list[RunDetails]:
    cluster = _read_cluster(site, request)
    job_id, task_id = listing.parse_job(request.path_params["job_id"])
    keys = site.reader.find_runs_of_job(job_id, cluster, task_id)
    found = [site.reader.read_run(key) for key in keys if viewer.may_ask(key)]
    visible = [each for each in found if each and viewer.may_see(each.history.key, each.history.user)]
    if not visible:
        raise NotFoundError(NotFoundError.__doc__ or "")
    return visible


def _read_user(site: Responder, viewer: Viewer, request: Request, cluster: str | None) -> UserRecord:
    """Return what the viewer may see of a user, on one cluster or on all."""
    name = request.path_params["name"]
    fleet = site.reader.read_fleet()

    def is_wanted(key: RunKey) -> bool:
        return cluster in {None, key.cluster}

    found = UserRecord(
        name=name,
        runs=[run for run in viewer.runs(fleet.runs) if run.first.user == name and is_wanted(run.key)],
        ended=viewer.ended(site.reader.list_ended_runs(name, cluster)),
        flags=[flag for flag in viewer.flags(fleet.flags) if flag.finding.user == name and is_wanted(flag.finding.run)],
    )
    if not (found.runs or found.ended or found.flags or cluster) and name != viewer.name:
        raise NotFoundError(NotFoundError.__doc__ or "")
    return found
