"""What `ckptd plan` and `pin` print about checkpoints of several files, and about what may not go at all."""

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner

from ckptd import cli
from ckptd.core.model import Grouping, Role
from ckptd.core.model.records import ScanRecord
from ckptd.core.runs.progress import CheckpointChanges
from cli.six_checkpoints import trained_shop


class Desk:
    """A run of six saves, of which the record says what a test says."""

    def __init__(self, shop):
        self.shop = shop

    def command(self, *arguments, status=0):
        found = CliRunner().invoke(cli.main, ["--config", str(self.shop.root / "config.toml"), *map(str, arguments)])
        assert found.exit_code == status, (found.output, found.stderr, found.exception)
        return found.stdout

    def judge(self, **by_name):
        """Record other roles and groupings than a scan has found; the rest are numbered states."""
        changed = []
        for name, record in self.shop.record().items():
            number = int(name.removeprefix("epoch_").removesuffix(".npz"))
            grouping = Grouping(series="epoch_#.npz", progress=(number,), evidence="the word `epoch`")
            facts = {"role": Role.STATE, "role_evidence": "an optimizer", "grouping": grouping}
            facts |= by_name.get(name.removesuffix(".npz"), {})
            changed.append(replace(record, checkpoint=replace(record.checkpoint, **facts)))
        history = self.shop.store.prune_records.read("c", [self.shop.run])[0].history
        look = ScanRecord(run=self.shop.run, scan=history.scan, changes=CheckpointChanges(changed=tuple(changed)))
        self.shop.store.checkpoints.record_scans([look])


@pytest.fixture
def desk():
    with trained_shop() as shop:
        config = shop.root / "config.toml"
        config.write_text(config.read_text().replace('prune_files = ["epoch_*.npz"]\n', ""))
        yield Desk(shop)


def rows_of(document):
    (run,) = document["runs"]
    return {row["path"].rpartition("/")[2]: row for row in (*run["keep"], *run["remove"])}


def test_a_verbose_plan_shows_the_series_and_how_its_progress_is_known(desk):
    desk.judge()
    assert "epoch_#.npz" not in desk.command("plan").replace("series (epoch_#.npz)", "")
    removed = [line for line in desk.command("plan", "--verbose").splitlines() if line.startswith("remove")]
    assert removed
    assert all("epoch_#.npz" in line and "the word `epoch`" in line for line in removed)


def test_the_plan_says_of_everything_that_stays_why_and_what_it_is(desk):
    doubt = Grouping(doubt="two numbers rise together")
    desk.judge(epoch_1={"role": Role.DATA, "role_evidence": "an array without any state"}, epoch_2={"grouping": doubt})
    rows = rows_of(json.loads(desk.command("plan", "--json")))
    assert rows["epoch_1.npz"]["reasons"] == ["role data: an array without any state"]
    assert rows["epoch_2.npz"]["reasons"] == ["grouping unknown: two numbers rise together"]
    assert rows["epoch_2.npz"]["grouping"]["doubt"] == "two numbers rise together"
    going = rows["epoch_3.npz"]
    assert (going["role"], going["series"]) == ("state", "epoch_#.npz")
    assert going["members"] == {"count": 1, "parts": []}
    assert going["grouping"] == {
        "progress": [3],
        "evidence": "the word `epoch`",
        "is_directory": False,
        "doubt": None,
    }
    told = desk.command("plan")
    assert "role data: an array without any state" in told
    assert "2 to remove" in told


def test_the_plan_says_why_each_stays_where_none_may_go(desk):
    data = {"role": Role.DATA, "role_evidence": "an array without any state"}
    desk.judge(**{f"epoch_{number}": data for number in range(1, 7)})
    told = desk.command("plan")
    assert "skipped: no complete checkpoint of this run may be pruned" in told
    assert told.count("role data: an array without any state") == 6


def test_a_checkpoint_is_pinned_by_any_of_its_files(desk):
    newest = desk.shop.record()["epoch_6.npz"].checkpoint
    first = desk.shop.record()["epoch_1.npz"].checkpoint
    pair = {"files": ("epoch_1.npz", "optim_1.npz"), "identities": (first.identities[0], newest.identities[0])}
    desk.judge(epoch_1=pair)
    told = desk.command("pin", desk.shop.directory / "optim_1.npz")
    assert f"pinned {desk.shop.directory}/epoch_1.npz" in told
    assert "The checkpoint has 2 files, which are kept or removed together." in told
    assert desk.shop.record()["epoch_1.npz"].is_pinned
    desk.command("unpin", desk.shop.directory / "epoch_1.npz")
    assert not desk.shop.record()["epoch_1.npz"].is_pinned
    desk.command("pin", desk.shop.directory / "optim_2.npz", status=2)
