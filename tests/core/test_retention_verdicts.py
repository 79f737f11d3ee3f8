"""How long a verification counts, and that nothing older goes on an old one."""

from dataclasses import replace
from datetime import timedelta

from ckptd.core.model import Level
from ckptd.core.retention import KeepLast, is_verified_full
from core.retention_facts import NOW, hours, policy_of, removed, run_of, saved, series, skipped

FULL = {"verify": Level.FULL}


def newest_verified(**changes):
    records = series(4)
    return run_of(*records[:3], replace(records[3], **changes))


def test_nothing_older_goes_before_the_newest_is_verified():
    assert "not verified in full" in skipped(run_of(*series(4)), policy_of(KeepLast(1), **FULL))
    gone = removed(newest_verified(verified_full_at=NOW - hours(1)), policy_of(KeepLast(1), **FULL))
    assert gone == {"step_100.pt", "step_200.pt", "step_300.pt"}
    listed = saved("step_900.pt", 2, step=900, level=Level.LISTED)
    assert "only listed" in skipped(run_of(*series(4), listed))


def test_a_verdict_expires():
    old = run_of(*[replace(one, verified_full_at=NOW - hours(20)) for one in series(4, oldest=200)])
    assert removed(old, policy_of(KeepLast(1), **FULL))
    assert "not verified in full within 6 h" in skipped(old, policy_of(**FULL, verify_age=hours(6)))


def test_a_verdict_of_before_the_last_change_counts_for_nothing():
    assert "not verified" in skipped(newest_verified(verified_full_at=NOW - hours(900)), policy_of(**FULL))


def test_without_change_times_no_verdict_counts():
    record = replace(series(4)[3], verified_full_at=NOW)
    assert is_verified_full(record, hours(24), NOW)
    old = tuple(identity._replace(changed_ns=0) for identity in record.checkpoint.identities)
    assert not is_verified_full(replace(record, checkpoint=replace(record.checkpoint, identities=old)), hours(24), NOW)


def test_structure_counts_as_long_as_the_scan_that_found_it():
    run = run_of(*series(4))
    older = replace(run, scan=replace(run.scan, scanned_at=NOW - timedelta(minutes=40)))
    assert removed(older)
    assert "was not verified within 30 min" in skipped(older, policy_of(verify_age=timedelta(minutes=30)))


def test_only_a_verdict_that_holds_keeps_an_old_one():
    records = series(4)
    verified = run_of(replace(records[0], verified_full_at=NOW - hours(1)), *records[1:])
    assert "step_100.pt" not in removed(verified)
    expired = run_of(replace(series(4, oldest=90)[0], verified_full_at=NOW - hours(30)), *records[1:])
    assert "step_100.pt" in removed(expired)
