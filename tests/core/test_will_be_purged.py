"""When the site's own cleaning takes the newest complete checkpoint, and of whom that is said."""

from dataclasses import replace
from datetime import timedelta

import pytest

from ckptd.core.forecast.purge_date import find_purge_date
from ckptd.core.health.will_be_purged import WillBePurged
from ckptd.core.model import (
    Certainty,
    CheckpointState,
    FileClock,
    PurgeRule,
    Resume,
    ResumeReason,
    Role,
    Severity,
    SitePurge,
    Unknown,
    Workspace,
)
from core.histories import START, at, attempt, history, job, saved, scan_at, text_of

DAY = 24 * 60
BLIND = scan_at(0, problems=(Unknown(what="sub", reason="Permission denied"),))
UNREAD = Unknown(what="workspace", reason="the database cannot be read")
NAME = WillBePurged.name


def cleans(days=60, by=FileClock.MTIME, path="/scratch"):
    return PurgeRule(path=path, age=timedelta(days=days), by=by)


def workspace(days, *, created_days=None, entry="alice-train", extensions=3):
    return Workspace(
        entry=entry,
        directory="/scratch/alice",
        filesystem="lustre",
        created_at=None if created_days is None else START + timedelta(days=created_days),
        expires_at=START + timedelta(days=days),
        extension_count=extensions,
    )


def site(*rules, space=None):
    return SitePurge(rules=rules, workspace=space)


WAITING = {"jobs": [job(started_at=None, state="PENDING")], "attempts": [attempt(0, 60)]}
ENDED = {"jobs": [], "attempts": [attempt(0, 60)]}
SAVED = [saved(0, step=1)]
OF_SIXTY = site(cleans())
FLAGGED = {"flagged": {(NAME, 1)}, "open_evidence": {(NAME, 1): {"goes_at": at(60 * DAY).isoformat()}}}
# what is known, the day, whether it is flagged (None: undecided)
CASES = {
    "the site cleans nothing": ({"purge": site()}, 59, False),
    "a week before its date": ({"purge": OF_SIXTY}, 53, True),
    "before that": ({"purge": OF_SIXTY}, 52.9, False),
    "long after it, the file still being there": ({"purge": OF_SIXTY}, 100, True),
    "the rule is for another path": ({"purge": site(cleans(path="/scratch2"))}, 59, False),
    "the rule is a pattern": ({"purge": site(cleans(path="/scr*/alice"))}, 59, True),
    "the first rule that matches applies": ({"purge": site(cleans(400, path="/scratch/alice"), cleans())}, 59, False),
    "a newer one was saved": ({"purge": OF_SIXTY, "checkpoints": [*SAVED, saved(30 * DAY, step=2)]}, 59, False),
    "the newer one is damaged": (
        {"purge": OF_SIXTY, "checkpoints": [*SAVED, saved(30 * DAY, state=CheckpointState.DAMAGED)]},
        59,
        True,
    ),
    "it has only data, found by a search": (
        {"purge": OF_SIXTY, "located_by": "discovery", "checkpoints": [saved(0, name="samples/a.npz")]},
        59,
        False,
    ),
    "it has only data, where its user says that it saves": (
        {"purge": OF_SIXTY, "located_by": "comment", "checkpoints": [saved(0, name="samples/a.npz")]},
        59,
        True,
    ),
    "a search found a state": (
        {"purge": OF_SIXTY, "located_by": "discovery", "checkpoints": [saved(0, name="a.pt", role=Role.STATE)]},
        59,
        True,
    ),
    "nothing complete is there": ({"purge": OF_SIXTY, "checkpoints": [saved(0, gone=5)]}, 59, False),
    "files live for two days, the newest for more than half of it": ({"purge": site(cleans(2))}, 0.9, False),
    "files live for two days, the newest for less than half of it": ({"purge": site(cleans(2))}, 1, True),
    "the directory was not read whole": ({"purge": OF_SIXTY, "scan": BLIND}, 59, None),
    "the directory was not read": ({"purge": OF_SIXTY, "scan": Unknown(what="directory", reason="gone")}, 59, None),
    "it was flagged, and is unreadable soon after": ({"purge": OF_SIXTY, "scan": None, **FLAGGED}, 60.9, None),
    "it was flagged, and is unreadable since": ({"purge": OF_SIXTY, "scan": None, **FLAGGED}, 61.1, False),
    "its job waits": ({"purge": OF_SIXTY, **WAITING}, 59, True),
    "its last job ended": ({"purge": OF_SIXTY, **ENDED}, 59, True),
    "its last job ended long ago": ({"purge": OF_SIXTY, **ENDED}, 91, False),
    "a workspace expires in a week": ({"purge": site(space=workspace(40))}, 33, True),
    "a workspace expires later": ({"purge": site(space=workspace(40))}, 32.9, False),
    "a workspace has expired": ({"purge": site(space=workspace(40))}, 40.5, True),
    "a workspace for two days": ({"purge": site(space=workspace(2, created_days=0))}, 0.9, False),
    "a workspace for two days, half over": ({"purge": site(space=workspace(2, created_days=0))}, 1, True),
    "its workspace is unknown": ({"purge": site(space=UNREAD)}, 59, None),
    "its workspace is unknown, and a rule holds": ({"purge": site(cleans(), space=UNREAD)}, 59, True),
    "its workspace is unknown, and no rule holds": ({"purge": site(cleans(), space=UNREAD)}, 40, None),
}


def find(facts, day):
    given = history(**{"now": day * DAY, "checkpoints": SAVED, **facts})
    answer = WillBePurged().evaluate(given, at(day * DAY))
    return answer if isinstance(answer, Unknown) else tuple(answer)


@pytest.mark.parametrize(("facts", "day", "is_found"), CASES.values(), ids=CASES)
def test_it_holds_shortly_before_the_site_deletes_the_newest_complete_checkpoint(facts, day, is_found):
    found = find(facts, day)
    assert isinstance(found, Unknown) == (is_found is None)
    if is_found is not None:
        assert [(each.severity, each.job_id) for each in found] == [(Severity.WARNING, 1)] * is_found
        assert all(text_of(each) for each in found)


def test_the_earlier_of_a_rule_and_a_workspace_counts():
    (finding,) = find({"purge": site(cleans(), space=workspace(55))}, 54)
    assert finding.evidence["workspace"] == "train"
    (finding,) = find({"purge": site(cleans(), space=workspace(65))}, 59)
    assert finding.evidence["purged_path"] == "/scratch"


def test_a_workspace_of_another_user_is_not_this_users_to_extend():
    (finding,) = find({"purge": site(space=workspace(40, entry="alicea-train"))}, 39)
    assert (finding.evidence["workspace"], finding.evidence["is_own_workspace"]) == ("alicea-train", False)


def test_an_open_flag_stays_with_its_job_while_others_go_on_with_the_run():
    jobs = [job(2)]
    attempts = [attempt(0, 60), attempt(90, job_id=2)]
    assert [each.job_id for each in find({"purge": OF_SIXTY, "jobs": jobs, "attempts": attempts}, 59)] == [2]
    flagged = {"purge": OF_SIXTY, "jobs": jobs, "attempts": attempts, **FLAGGED}
    assert [each.job_id for each in find(flagged, 59)] == [1]


def test_a_task_of_an_array_that_ended_is_named_as_slurm_does():
    task = replace(attempt(0, 60, job_id=7), array_job_id=5, array_task_id=3)
    (finding,) = find({"purge": OF_SIXTY, "jobs": [], "attempts": [task]}, 59)
    assert (finding.job_id, finding.evidence["slurm_job"]) == (7, "5_3")


def dated(by, *, attempts=(), **changes):
    [record] = SAVED
    found = find_purge_date(replace(record.checkpoint, **changes), site(cleans(10, by)), attempts)
    return found.counted_from, found.is_earliest


def identities(*times):
    [record] = SAVED
    [one] = record.checkpoint.identities
    nanoseconds = [
        tuple(0 if minute is None else int(at(minute).timestamp()) * 10**9 for minute in pair) for pair in times
    ]
    return tuple(one._replace(modified_ns=modified, changed_ns=changed) for modified, changed in nanoseconds)


def test_a_set_is_as_old_as_its_oldest_file():
    members = identities((30, 35), (20, 25), (40, 45))
    assert dated(FileClock.MTIME, identities=members) == (at(20), False)
    assert dated(FileClock.CTIME, identities=members) == (at(25), False)


def test_a_change_time_that_is_not_on_record_has_the_modification_as_a_bound():
    assert dated(FileClock.CTIME, identities=identities((30, 35), (20, None))) == (at(20), True)


def test_the_access_time_is_bounded_by_the_modification_and_by_what_surely_loaded_it():
    path = str(SAVED[0].checkpoint.path)
    loaded = Resume(certainty=Certainty.PROVEN, reason=ResumeReason.PROGRAM, path=path)
    guessed = replace(loaded, certainty=Certainty.INFERRED)
    other = replace(loaded, path=f"{path}.old")
    assert dated(FileClock.ATIME) == (at(0), True)
    assert dated(FileClock.ATIME, attempts=[replace(attempt(50), resumed_from=loaded)]) == (at(50), True)
    for said in (guessed, other, None):
        assert dated(FileClock.ATIME, attempts=[replace(attempt(50), resumed_from=said)]) == (at(0), True)


@pytest.mark.parametrize("nanoseconds", [-(2**70), 2**70])
def test_times_that_no_calendar_has_are_no_error(nanoseconds):
    [record] = SAVED
    [one] = record.checkpoint.identities
    members = (one._replace(modified_ns=nanoseconds),)
    assert find_purge_date(replace(record.checkpoint, identities=members), OF_SIXTY).goes_at.year in {1970, 2262}
