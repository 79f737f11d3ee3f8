"""Which rows PostgreSQL reads for each statement: run `python tests/bench/postgresql_plans.py [--jobs N] [--at URL]`.

Makes a year of records of two clusters in a private PostgreSQL, or in an empty database of your own, makes the calls of
`support/hot_statements.py`, and explains each statement with EXPLAIN (ANALYZE, BUFFERS). Exits with 1 if one read more
rows of a large table than ten times the rows that its call needs, or a large table from end to end. A job takes 1.1 kB
of disk. A database that an earlier run has filled is used as it is.
"""

import argparse
import sys
import time
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(CHECKOUT / "tests"), str(CHECKOUT / "deploy")]

from ckptd.store.store import Store
from conftest import PostgreSQL
from support import plan_limits, recorded_year
from support.further_statements import sum_up_days
from support.hot_statements import list_calls


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=300_000)
    parser.add_argument("--active", type=int, help="running jobs; without it, one of 3000 jobs, at least 99")
    parser.add_argument("--explain", metavar="NAME", help="print the plans of this call")
    parser.add_argument("--at", metavar="URL", help="an empty database of your own server, or one from an earlier run")
    options = parser.parse_args()
    if options.at:
        return check(options.at, options)
    server = PostgreSQL()
    try:
        server.start()
        return check(server.create_database(), options)
    finally:
        server.stop()


def check(address, options):
    store = Store.open(address, upgrade=True)
    began = time.monotonic()
    active = options.active or max(99, options.jobs // 3000)
    year = recorded_year.read_year(address) or recorded_year.record_year(address, options.jobs, active)
    print(f"{year.job_count} jobs, {year.active_count} running: made in {time.monotonic() - began:.0f} s")
    began = time.monotonic()
    sum_up_days(store)
    print(f"lost work of all days summed up in {time.monotonic() - began:.0f} s")
    with store.database.reading() as connection:
        size = connection.exec_driver_sql("SELECT pg_database_size(current_database())").scalar_one()
    print(f"{size / 1e6:.0f} MB, {size / year.job_count:.0f} bytes a job with all that belongs to it")
    print(f"{'call':<24} {'statements':>10} {'ms':>9} {'longest':>9} {'blocks':>9} {'rows read':>10} {'needed':>8}")
    failures = []
    for call, found, error in plan_limits.explain_calls(store, list_calls(year)):
        read = max((sum(each.rows_read.values()) for each in found), default=0)
        blocks, spent = sum(each.block_count for each in found), sum(each.milliseconds for each in found)
        longest = max((each.milliseconds for each in found), default=0)
        times = f"{spent:9.1f} {longest:9.1f}"
        print(f"{call.name:<24} {len(found):10} {times} {blocks:9} {read:10} {call.needed:8}  {error or ''}")
        failures += plan_limits.list_failures(call, found, plan_limits.read_sizes(store))
        if error:
            failures.append(f"{call.name}: {error}")
        if options.explain and options.explain == call.name:
            plan_limits.print_plans(found)
    print(*failures, sep="\n")
    store.close()
    return 1 if failures else 0


sys.exit(main())
