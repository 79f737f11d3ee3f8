"""Several directories of one owner are read by one child, with the same results as by a child each."""

import errno
import fcntl
import os
import shutil
import signal
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePosixPath

import pytest

from checkpoints.test_subverted_parser import ask_agent_each
from ckptd.checkpoints import formats
from ckptd.checkpoints.agent.limited_child import ChildLimits
from ckptd.checkpoints.agent.request_policy import RequestPolicy
from ckptd.checkpoints.formats import checkpoint_names, roles
from ckptd.checkpoints.formats.interface import Examination
from ckptd.checkpoints.scanning import shared_parser
from ckptd.checkpoints.scanning.inspection import inspect_tree
from ckptd.checkpoints.scanning.mounts import Mount
from ckptd.checkpoints.scanning.reader import NotRegularError, Reader
from ckptd.checkpoints.scanning.shared_parser import SharedParser
from ckptd.core.model import CheckpointState

DATA = Path(__file__).parents[1] / "data" / "formats"
LIMITS = ChildLimits(memory_bytes=256 << 20, seconds=2)
STRANGER = 60_077
NOW = datetime.now(UTC) + timedelta(hours=1)


class Told:
    """A format whose files say what their reader is to do; each tells which process has read it."""

    name = "told"
    role_unread = roles.NOT_SHOWN

    def claim(self, directory, reader):
        for file in directory.by_suffix.get("told", ()):
            if file.path.startswith("claim"):
                raise ValueError(f"reader={os.getpid()}")
            yield checkpoint_names.claim_file(self.name, file)

    def examine(self, claim, reader, level):
        with reader.open(claim.path) as file:
            deed = file.read().decode()
        if deed == "crash":
            os.kill(os.getpid(), signal.SIGKILL)
        if deed == "hang":
            time.sleep(60)
        if deed == "descriptors":
            raise ValueError(" ".join(map(str, list_open_descriptors())))
        return Examination(epoch=7, computation=str(os.getpid()))


def list_open_descriptors():
    """Return the open descriptors above those of standard input, output and error, without asking /proc."""
    found = []
    for number in range(3, 256):
        try:
            fcntl.fcntl(number, fcntl.F_GETFD)
        except OSError:
            continue
        found.append(number)
    return found


@pytest.fixture(autouse=True)
def told(monkeypatch):
    monkeypatch.setitem(formats.FORMATS, "told", Told())


@pytest.fixture
def directories(tmp_path):
    """Four directories of this user, each with one checkpoint."""
    made = [tmp_path / name for name in ("a", "b", "c", "d")]
    for each in made:
        each.mkdir()
        (each / "1.told").write_text("fine")
        (each / "1.told").chmod(0o644)
    return made


def look(directories, limits=LIMITS, **options):
    """Return what inspections with one shared parser find, by the name of each directory."""
    with SharedParser(os.geteuid(), [str(each) for each in directories], ["/"]) as parser:
        return {each.name: inspect_tree(each, now=NOW, limits=limits, parser=parser, **options) for each in directories}


def reader_of(found, name="1.told"):
    """Return the process that has read a checkpoint."""
    return next(each.computation for each in found.checkpoints if each.path.name == name)


def test_real_directories_are_found_as_by_a_child_each(tmp_path):
    roots = sorted(path for path in DATA.iterdir() if path.is_dir())
    made = [tmp_path / each.name for each in roots]
    for root, copied in zip(roots, made, strict=True):
        shutil.copytree(root, copied)
    together = look(made, limits=None)
    assert together == {each.name: inspect_tree(each, now=NOW) for each in made}
    assert sum(len(each.checkpoints) for each in together.values()) > 100


def test_one_child_reads_them_all_and_is_gone_at_the_end(directories):
    descriptors = set(os.listdir("/proc/self/fd"))
    found = look(directories)
    readers = {reader_of(each) for each in found.values()}
    assert len(readers) == 1
    assert not Path(f"/proc/{readers.pop()}").exists()
    assert set(os.listdir("/proc/self/fd")) == descriptors


def test_a_directory_with_another_users_file_gets_a_child_of_its_own(directories):
    if os.geteuid():
        pytest.skip("only root gives files away")
    (directories[1] / "2.told").write_text("fine")
    os.chown(directories[1] / "2.told", STRANGER, STRANGER)
    found = look(directories)
    readers = [reader_of(each) for each in found.values()]
    assert readers[0] == readers[2] == readers[3]
    assert {reader_of(found["b"]), reader_of(found["b"], "2.told")}.isdisjoint({readers[0]})


def test_a_directory_with_a_file_that_others_may_write_gets_a_child_of_its_own(directories):
    (directories[1] / "1.told").chmod(0o664)
    readers = [reader_of(each) for each in look(directories).values()]
    assert readers[0] == readers[2] == readers[3] != readers[1]


def test_a_directory_behind_a_link_is_not_opened_before_its_turn(directories):
    """It may be on another server, which hangs."""
    directories[1].rename(directories[1].with_name("elsewhere"))
    directories[1].symlink_to("elsewhere")
    with SharedParser(os.geteuid(), [str(each) for each in directories], ["/"]) as parser:
        inspect_tree(directories[0], now=NOW, limits=LIMITS, parser=parser)
        assert [Path(each).name for each in parser._child.paths] == ["a", "c", "d"]


def test_a_child_that_has_used_much_memory_reads_no_other_directory(directories, monkeypatch):
    monkeypatch.setattr(shared_parser, "GROWTH_KIB", -(1 << 30))
    readers = [reader_of(each) for each in look(directories).values()]
    assert len(set(readers)) == 4
    assert None not in readers


def test_where_no_process_can_be_started_descriptors_are_closed(directories, monkeypatch):
    def refuse():
        raise BlockingIOError(errno.EAGAIN, "no more processes")

    descriptors = set(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(os, "fork", refuse)
    with pytest.raises(BlockingIOError):
        look(directories)
    assert set(os.listdir("/proc/self/fd")) == descriptors


def test_a_shared_child_opens_no_file_that_became_another_users_meanwhile(tmp_path):
    if os.geteuid():
        pytest.skip("only root gives files away")
    (tmp_path / "1.told").write_text("fine")
    os.chown(tmp_path / "1.told", STRANGER, STRANGER)
    with Reader(tmp_path, only_uid=os.geteuid()) as reader, pytest.raises(NotRegularError, match="another user"):
        reader.open("1.told")


@pytest.mark.parametrize(("deed", "reason"), [("crash", "ended by SIGKILL"), ("hang", "did not finish within 2 s")])
def test_a_failure_is_blamed_on_its_file_alone_and_ends_the_sharing(directories, deed, reason):
    (directories[1] / "2.told").write_text(deed)
    found = look(directories)
    states = {each.path.name: each for each in found["b"].checkpoints}
    assert states["2.told"].state is CheckpointState.UNKNOWN
    assert reason in states["2.told"].reason
    assert all(reader_of(each) for each in found.values()), "all others were read"
    assert len({reader_of(each) for each in found.values()}) == 4


def test_a_format_that_fails_to_claim_is_named_as_without_sharing(directories):
    (directories[2] / "claim.told").write_text("")
    found = look(directories)
    (problem,) = found["c"].problems
    assert problem.reason == f"could not be searched for told: ValueError: reader={reader_of(found['a'])}"


def test_known_checkpoints_are_not_read_again_and_new_ones_are(directories):
    first = look(directories)
    (directories[0] / "2.told").write_text("fine")
    known = first["a"].checkpoints
    again = look(directories, known=known)
    assert reader_of(again["a"]) == reader_of(first["a"])
    assert reader_of(again["a"], "2.told") == reader_of(again["b"])


def test_time_that_is_over_leaves_the_rest_to_the_next_scan(directories):
    (directories[0] / "2.told").write_text("fine")
    over = ChildLimits(seconds=2, until=time.monotonic())
    with SharedParser(os.geteuid(), [str(each) for each in directories], ["/"]) as parser:
        for each, unread in zip(directories[:2], (1, 0), strict=True):
            assert inspect_tree(each, now=NOW, limits=over, parser=parser).unread_count == unread


def test_a_directory_that_was_exchanged_is_read_by_another_child(directories):
    with SharedParser(os.geteuid(), [str(each) for each in directories], ["/"]) as parser:
        first = inspect_tree(directories[0], now=NOW, limits=LIMITS, parser=parser)
        directories[1].rename(directories[1].with_name("old"))
        shutil.copytree(directories[2], directories[1])
        exchanged = inspect_tree(directories[1], now=NOW, limits=LIMITS, parser=parser)
        third = inspect_tree(directories[2], now=NOW, limits=LIMITS, parser=parser)
    assert reader_of(exchanged) not in {None, reader_of(first)}
    assert reader_of(third) == reader_of(first)


def test_directories_of_other_file_systems_and_outside_the_roots_are_not_opened(directories, monkeypatch):
    mounts = (Mount(PurePosixPath(directories[1]), "nfs4"), Mount(PurePosixPath("/"), "ext4"))
    monkeypatch.setattr(shared_parser, "read_recent_mounts", lambda: mounts)
    opened = []
    real = shared_parser.open_allowed
    monkeypatch.setattr(shared_parser, "open_allowed", lambda path, roots: opened.append(path) or real(path, roots))
    look(directories)
    assert [Path(each).name for each in opened] == ["a", "c", "d"]
    opened.clear()
    with SharedParser(os.geteuid(), [str(each) for each in directories], [str(directories[0])]) as parser:
        inspect_tree(directories[0], now=NOW, limits=LIMITS, parser=parser)
        assert list(parser._child.paths) == [str(directories[0])]


def test_a_child_that_answers_more_than_it_was_asked_is_given_up(directories, monkeypatch):
    serve = shared_parser._serve

    def say_too_much(tasks, descriptors, uid, teller):
        answer = teller.answer
        teller.answer = lambda value: (answer(value), answer({"state": "complete", "role": "data"}))
        serve(tasks, descriptors, uid, teller)

    monkeypatch.setattr(shared_parser, "_serve", say_too_much)
    found = look(directories)
    assert len({reader_of(each) for each in found.values()}) == 4


def test_a_child_that_says_too_early_that_it_is_done_is_given_up(directories, monkeypatch):
    def say_nothing(tasks, descriptors, uid, teller):
        while os.read(tasks, 1 << 16):
            teller.answer(True)
            teller.send()

    monkeypatch.setattr(shared_parser, "_serve", say_nothing)
    assert len({reader_of(each) for each in look(directories).values()}) == 4


def test_a_child_that_takes_no_task_is_given_up_in_time(directories, monkeypatch):
    (directories[0] / "long").mkdir()
    for number in range(1500):  # a listing that no pipe holds
        (directories[0] / "long" / f"{number:0200}").touch()
    monkeypatch.setattr(shared_parser, "_serve", lambda *_: time.sleep(600))
    began = time.monotonic()
    found = look(directories)
    assert time.monotonic() - began < 60
    assert all(reader_of(each) for each in found.values())


def test_directories_that_cannot_be_sent_are_read_by_children_of_their_own(directories):
    """The first are too many, the second nested too deeply."""
    for number in range(shared_parser.MAX_ENTRIES):
        (directories[0] / f"{number}").mkdir()
    place = directories[1]
    for _ in range(250):
        place = place / "d"
    place.mkdir(parents=True)
    found = look(directories, max_depth=300)
    readers = [reader_of(each) for each in found.values()]
    assert len(set(readers)) == 4
    assert None not in readers


def test_a_child_has_nothing_open_but_its_pipes_and_its_directories(directories):
    (directories[0] / "2.told").write_text("descriptors")
    readable, writable = os.pipe()
    try:
        for count, found in (
            (6 + 1, look(directories)["a"]),  # four directories, two pipes, and the reader's own
            (3, inspect_tree(directories[0], now=NOW, limits=LIMITS)),
        ):
            reason = next(each.reason for each in found.checkpoints if each.path.name == "2.told")
            numbers = set(map(int, reason.rpartition(": ")[2].split()))
            assert numbers.isdisjoint({readable, writable})
            assert len(numbers) <= count, reason
    finally:
        os.close(readable)
        os.close(writable)


def test_the_agent_reads_the_directories_of_one_request_in_one_child():
    def scan(item):
        return {"reader": reader_of(inspect_tree(item["directory"], now=NOW, parser=item["parser"]))}

    uid = os.geteuid() or 60_001
    with tempfile.TemporaryDirectory() as above:  # pytest's own directory is closed to others
        Path(above).chmod(0o755)
        directories = [Path(above) / name for name in ("a", "b", "c", "d")]
        for each in directories:
            each.mkdir()
            (each / "1.told").write_text("fine")
            os.chown(each / "1.told", uid, uid)
        policy = RequestPolicy(allowed_roots=(above,))
        answers = ask_agent_each("scan", [{"directory": str(each)} for each in directories], scan, policy)
    assert len(answers) == 4
    assert len({each["reader"] for each in answers}) == 1
