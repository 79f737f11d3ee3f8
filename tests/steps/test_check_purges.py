"""What the site's own cleaning will delete, of runs in the queue and of ended ones: real files, the real steps."""

import os
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import PurePosixPath

import pytest

from ckptd.core.model import FileClock, JobState, PurgeRule
from ckptd.steps import check_purges
from ckptd.steps.snapshots import PurgeFacts, RunHistories
from steps.replayed_fleet import UID, minute
from support.shared_agent import get_agent

DAY = 24 * 60
PURGED = ("will-be-purged", 1)
ENTRY = "workspace: {directory}\nexpiration: {expiration}\nextensions: 2\nacctcode: ''\nreminder: 0\n"


def configure(fleet, **changes):
    fleet.parts = replace(fleet.parts, **changes)


@pytest.fixture
def cleaned(fleet):
    """A fleet whose site deletes what was not modified for 60 days."""
    rule = PurgeRule(path=str(fleet.work_dir.parent), age=timedelta(days=60), by=FileClock.MTIME)
    configure(fleet, purge_rules=(rule,))
    return fleet


class Database:
    """A database of workspaces, of which one is the directory above the fleet's checkpoints."""

    def __init__(self, fleet):
        self._directory = fleet.work_dir / "alice-train"
        self._folder = fleet.work_dir.parent / "database"
        self._folder.mkdir(mode=0o755)
        (self._folder / ".ws_db_magic").write_text("lustre\n")
        agent = get_agent(workspace_databases=[str(self._folder)])
        configure(fleet, workspace_databases=(PurePosixPath(self._folder),), agent=agent)

    def set_expiry(self, minutes):
        expiration = int(minute(minutes).timestamp())
        text = ENTRY.format(directory=self._directory, expiration=expiration)
        (self._folder / "alice-train").write_text(text)

    def unmount(self):
        self._folder.rename(f"{self._folder}.away")

    def mount(self):
        self._folder.with_name("database.away").rename(self._folder)


def run(fleet, minutes, *jobs):
    return [each for each in fleet.run(minutes, *jobs) if each == PURGED]


def evidence(fleet):
    (flag,) = [each for each in fleet.parts.store.flags.list_open("c1") if each.finding.rule == PURGED[0]]
    return flag.finding.evidence


def over(fleet, minutes):
    return fleet.job(state=JobState.COMPLETED, ends_at=minute(minutes))


def scans(fleet):
    return fleet.state.latest(PurgeFacts).ended


def test_a_job_that_waits_is_flagged_until_it_saves_again(cleaned):
    cleaned.save("ck/step_5.safetensors", 1)
    assert run(cleaned, 2, cleaned.job()) == []
    assert run(cleaned, 3, cleaned.job()) == []
    day = 55 * DAY
    waiting = cleaned.job(state=JobState.PENDING, restart_count=1, submitted_at=minute(30), started_at=None)
    assert run(cleaned, day, waiting) == [PURGED]
    said = evidence(cleaned)
    assert said["newest_good"] == str(cleaned.work_dir / "ck/step_5.safetensors")
    assert abs(datetime.fromisoformat(said["goes_at"]) - minute(1 + 60 * DAY)) < timedelta(seconds=1)
    again = cleaned.job(restart_count=1, start=day + 1, submitted_at=minute(30))
    cleaned.save("ck/step_6.safetensors", day + 2)
    assert run(cleaned, day + 3, again) == []


def test_an_ended_run_is_flagged_and_resolves_when_its_files_are_gone(cleaned):
    other = cleaned.job(2, name="other", work_dir=PurePosixPath("/"), uid=UID + 1, user="bob")
    cleaned.save("ck/step_5.safetensors", 1)
    run(cleaned, 2, cleaned.job(), other)
    run(cleaned, 3, cleaned.job(), other)
    run(cleaned, 5, over(cleaned, 4), other)
    assert run(cleaned, 40 * DAY, other) == []
    assert scans(cleaned) == {}
    assert run(cleaned, 54 * DAY, other) == [PURGED]
    first = scans(cleaned)
    assert run(cleaned, 54 * DAY + 61, other) == [PURGED]
    assert scans(cleaned) == first
    (cleaned.work_dir / "ck/step_5.safetensors").unlink()
    assert run(cleaned, 55 * DAY + 1, other) == []
    assert scans(cleaned) != first


def test_a_run_that_ended_longer_ago_than_the_rule_says_is_left_alone(cleaned):
    other = cleaned.job(2, name="other", work_dir=PurePosixPath("/"), uid=UID + 1, user="bob")
    cleaned.save("ck/step_5.safetensors", 1)
    run(cleaned, 2, cleaned.job(), other)
    run(cleaned, 3, cleaned.job(), other)
    run(cleaned, 5, over(cleaned, 4), other)
    assert run(cleaned, 54 * DAY, other) == [PURGED]
    assert run(cleaned, 91 * DAY, other) == []
    assert run(cleaned, 91 * DAY + 70, other) == []


def test_a_flag_resolves_when_the_rules_are_no_longer_configured(cleaned):
    cleaned.save("ck/step_5.safetensors", 1)
    run(cleaned, 2, cleaned.job())
    os.utime(cleaned.work_dir / "ck/step_5.safetensors", (minute(-58 * DAY).timestamp(),) * 2)
    run(cleaned, 4, cleaned.job())
    assert run(cleaned, 6, cleaned.job()) == [PURGED]
    configure(cleaned, purge_rules=())
    assert run(cleaned, 8, cleaned.job()) == []
    assert cleaned.state.latest(PurgeFacts) == PurgeFacts()


def test_a_workspace_that_expires_is_flagged_until_it_is_extended(fleet):
    database = Database(fleet)
    database.set_expiry(3 * DAY)
    fleet.save("alice-train/step_5.safetensors", 1)
    run(fleet, 2, fleet.job())
    assert run(fleet, 3, fleet.job()) == [PURGED]
    said = evidence(fleet)
    assert (said["workspace"], said["workspace_filesystem"], said["extension_count"]) == ("train", "lustre", 2)
    assert said["goes_at"] == minute(3 * DAY).replace(microsecond=0).isoformat()
    database.set_expiry(30 * DAY)
    assert run(fleet, 70, fleet.job()) == []


def test_a_database_that_is_away_opens_and_resolves_nothing(fleet):
    database = Database(fleet)
    database.set_expiry(3 * DAY)
    database.unmount()
    fleet.save("alice-train/step_5.safetensors", 1)
    run(fleet, 2, fleet.job())
    assert run(fleet, 3, fleet.job()) == []
    database.mount()
    assert run(fleet, 64, fleet.job()) == [PURGED]
    database.unmount()
    assert run(fleet, 128, fleet.job()) == [PURGED]
    [history] = fleet.state.latest(RunHistories).by_run.values()
    assert "cannot be read" in history.context.purge.workspace.reason


def test_a_reload_reads_the_workspaces_at_once(fleet):
    database = Database(fleet)
    database.set_expiry(30 * DAY)
    fleet.save("alice-train/step_5.safetensors", 1)
    run(fleet, 2, fleet.job())
    assert run(fleet, 3, fleet.job()) == []
    database.set_expiry(3 * DAY)
    assert run(fleet, 4, fleet.job()) == []
    check_purges.change_parts(fleet.parts, fleet.state, minute(5))
    assert run(fleet, 5, fleet.job()) == [PURGED]


def test_an_ended_run_in_a_workspace_is_flagged(fleet):
    database = Database(fleet)
    database.set_expiry(20 * DAY)
    other = fleet.job(2, name="other", work_dir=PurePosixPath("/"), uid=UID + 1, user="bob")
    fleet.save("alice-train/step_5.safetensors", 1)
    run(fleet, 2, fleet.job(), other)
    run(fleet, 3, fleet.job(), other)
    run(fleet, 5, over(fleet, 4), other)
    assert run(fleet, 12 * DAY, other) == []
    assert run(fleet, 14 * DAY, other) == [PURGED]


def test_without_rules_and_databases_nothing_is_read(fleet):
    fleet.save("ck/step_5.safetensors", 1)
    run(fleet, 2, fleet.job())
    assert run(fleet, 100 * DAY, fleet.job()) == []
    assert fleet.state.latest(PurgeFacts) == PurgeFacts()
