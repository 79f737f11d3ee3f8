"""Gives the web server the queries that it needs; the only place that connects pages and `store`."""

from ckptd.store.open_jobs import OpenJobs
from ckptd.store.store import Store
from ckptd.web.cache import PageQueries


def build_record(store: Store) -> PageQueries:
    """Return the queries of the pages, answered by a store."""
    return PageQueries(
        list_jobs=OpenJobs(store.database).list,
        read_flags=store.flags.read,
        read_histories=store.histories.read,
        read_losses=store.lost_work.list_lines,
        read_ends=store.restart_state.read_ends,
        read_status=store.clusters.read_status,
        find_runs_of_job=store.runs.find_of_job,
        join_parts=store.runs.join_parts,
        list_ended_runs=store.ended_runs.list_of_user,
        sum_lost_work=store.lost_work_sums.sum_by,
    )
