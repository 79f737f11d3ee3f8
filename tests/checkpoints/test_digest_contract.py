"""What every executor promises about digests of the files of checkpoints, whoever reads the bytes."""

import hashlib
import os
from dataclasses import replace
from pathlib import PurePosixPath

import pytest

from checkpoints.verify_jobs_site import USER, open_site
from ckptd.checkpoints.executor import NO_RESULT, SkippedRequest, Ticket, TicketState, VerificationRequest
from ckptd.core.model import FileIdentity, Unknown
from ckptd.core.verification.file_digests import CHANGED
from ckptd.core.verification.followed_tasks import RESULT_DELAY
from support.flipped_byte import flip_a_byte

NAMES = ("epoch_1.npz", "epoch_2.npz")
ODD = "epoch \udc80\n.npz"


@pytest.fixture
def site(monkeypatch):
    with open_site(monkeypatch) as site:
        site.save(*NAMES)
        yield site


@pytest.fixture(params=["this node", "jobs"])
def executor(request, site):
    return site.make_local() if request.param == "this node" else site.make_jobs()


def make_request(site, *checkpoints):
    found = checkpoints or tuple(site.scan()[name] for name in NAMES)
    return VerificationRequest(site.run, found, site.now, is_comparison=True)


def collect(site, executor, *checkpoints):
    """Return the digests of these checkpoints by their names, or why there are none."""
    ticket = executor.submit(make_request(site, *checkpoints))
    site.finish(executor, ticket)
    return {os.path.basename(path): found for (path, _), found in executor.collect_digests(ticket).items()}


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_each_file_is_read_to_its_end_in_any_directory(site, executor):
    copy = site.root / "copy"
    copy.mkdir()
    os.chown(copy, USER.pw_uid, USER.pw_gid)
    (copy / NAMES[0]).write_bytes((site.directory / NAMES[0]).read_bytes())
    os.chown(copy / NAMES[0], USER.pw_uid, USER.pw_gid)
    known = site.scan()[NAMES[1]]
    status = (copy / NAMES[0]).stat()
    identity = FileIdentity(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    other = replace(known, path=PurePosixPath(copy / NAMES[0]), files=(NAMES[0],), identities=(identity,))
    found = collect(site, executor, known, other)
    assert {name: [each.digest for each in files] for name, files in found.items()} == {
        NAMES[1]: [digest(site.directory / NAMES[1])],
        NAMES[0]: [digest(copy / NAMES[0])],
    }


def test_all_files_of_a_directory_are_read_whatever_their_names(site, executor):
    (site.directory / "step_5").mkdir()
    os.chown(site.directory / "step_5", USER.pw_uid, USER.pw_gid)
    paths = [site.directory / "step_5" / name for name in ("a.bin", ODD, "empty")]
    for path in paths:
        path.write_bytes(b"" if path.name == "empty" else path.name.encode("utf-8", "surrogateescape"))
        os.chown(path, USER.pw_uid, USER.pw_gid)
    states = [path.stat() for path in paths]
    known = replace(
        site.scan()[NAMES[0]],
        path=PurePosixPath(site.directory / "step_5"),
        files=tuple(f"step_5/{path.name}" for path in paths),
        identities=tuple(
            FileIdentity(each.st_dev, each.st_ino, each.st_size, each.st_mtime_ns, each.st_ctime_ns) for each in states
        ),
    )
    found = collect(site, executor, known)
    assert [each.digest for each in found["step_5"]] == [digest(path) for path in paths]


def test_a_file_that_changed_after_the_scan_has_no_digest(site, executor):
    known = site.scan()[NAMES[0]]
    flip_a_byte(site.directory / NAMES[0])
    assert collect(site, executor, known)[NAMES[0]].reason == CHANGED


def put_longer(path):
    with path.open("ab") as file:
        file.write(b"more")


def put_link(path):
    path.unlink()
    path.symlink_to("/etc/hostname")


def put_pipe(path):
    path.unlink()
    os.mkfifo(path)


def put_nothing(path):
    path.unlink()


REASONS = {
    put_longer: "bytes, and had",
    put_link: "Too many levels of symbolic links",
    put_pipe: "is not a regular file",
    put_nothing: "No such file or directory",
}


@pytest.mark.parametrize(("put", "reason"), REASONS.items(), ids=lambda each: getattr(each, "__name__", ""))
def test_what_is_not_the_recorded_file_is_not_read_and_leaves_the_others_alone(site, executor, put, reason):
    known = [site.scan()[name] for name in NAMES]
    put(site.directory / NAMES[0])
    found = collect(site, executor, *known)
    assert isinstance(found[NAMES[0]], Unknown)
    assert NAMES[0] in found[NAMES[0]].reason
    assert reason in found[NAMES[0]].reason
    assert [each.digest for each in found[NAMES[1]]] == [digest(site.directory / NAMES[1])]


@pytest.mark.skipif(os.geteuid() != 0, reason="root reads everything, its own user nothing less")
def test_what_the_owner_may_not_read_has_no_digest(site, executor):
    os.chown(site.directory / NAMES[0], 0, 0)
    (site.directory / NAMES[0]).chmod(0o600)
    found = collect(site, executor, site.scan()[NAMES[0]])
    assert found[NAMES[0]].reason == f"{NAMES[0]}: Permission denied"


def test_digests_stay_until_their_ticket_is_released(site, executor):
    ticket = executor.submit(make_request(site))
    site.finish(executor, ticket)
    assert executor.collect_digests(ticket) == executor.collect_digests(ticket)
    executor.release(ticket)
    for unknown in (ticket, Ticket("00000000deadbeef")):
        assert executor.collect_digests(unknown).what == NO_RESULT


def test_tasks_without_a_result_leave_their_checkpoints_unknown(site):
    executor = site.make_jobs()
    ticket = executor.submit(make_request(site))
    site.slurm.run_tasks(1, 0)
    site.slurm.set_states(1, t1="CANCELLED")
    executor.follow(ticket)
    site.now += RESULT_DELAY
    assert executor.follow(ticket).state is TicketState.READY
    found = list(executor.collect_digests(ticket).values())
    assert [isinstance(each, Unknown) for each in found] == [False, True]
    assert found[1].reason == "job 1 was cancelled"


def test_no_directory_outside_the_allowed_roots_is_read(monkeypatch):
    with open_site(monkeypatch, '[scan]\nallowed_roots = ["{root}/run"]\n') as site:
        site.save(NAMES[0])
        other = replace(site.scan()[NAMES[0]], path=PurePosixPath("/etc/hostname"), files=("hostname",))
        assert "outside the site's allowed roots" in collect(site, site.make_local(), other)["hostname"].reason
        assert "outside the site's allowed roots" in str(site.make_jobs().submit(make_request(site, other)))
        assert site.slurm.list_calls("sbatch") == []


def test_no_job_reads_in_a_directory_of_which_this_node_cannot_tell_where_it_is(site):
    known = site.scan()[NAMES[0]]
    gone = replace(known, path=PurePosixPath(site.root / "gone" / NAMES[0]))
    (site.root / "link").symlink_to(site.directory)
    linked = replace(known, path=PurePosixPath(site.root / "link" / NAMES[0]))
    for other in (gone, linked):
        assert isinstance(site.make_jobs().submit(make_request(site, known, other)), SkippedRequest)
    assert (site.slurm.list_calls("sbatch"), site.tickets.by_name) == ([], {})


FORGED = {
    "no digest": lambda files: [each[:4] for each in files],
    "a short digest": lambda files: [[*each[:4], "00"] for each in files],
    "a number for a digest": lambda files: [[*each[:4], 0] for each in files],
    "one file more": lambda files: [*files, files[0]],
    "one file less": lambda files: files[1:],
    "an object for a file": lambda files: [{} for _ in files],
}


@pytest.mark.parametrize("forge", FORGED.values(), ids=FORGED.keys())
def test_a_result_that_differs_from_the_schema_says_nothing(site, forge):
    executor = site.make_jobs()
    ticket = executor.submit(make_request(site, site.scan()[NAMES[0]]))
    site.slurm.run_tasks(1)
    document = site.read_result(ticket)
    (found,) = document["checkpoints"]
    site.write_result(ticket, {**document, "checkpoints": [{"files": forge(found["files"])}]})
    executor.follow(ticket)
    (answer,) = executor.collect_digests(ticket).values()
    assert "differs from its schema" in answer.reason


def test_a_result_about_other_files_than_the_recorded_ones_says_nothing(site):
    executor = site.make_jobs()
    ticket = executor.submit(make_request(site, site.scan()[NAMES[0]]))
    site.slurm.run_tasks(1)
    document = site.read_result(ticket)
    document["checkpoints"][0]["files"][0][0] += 1  # another inode
    site.write_result(ticket, document)
    executor.follow(ticket)
    (answer,) = executor.collect_digests(ticket).values()
    assert answer.reason == CHANGED


def test_a_result_of_a_verification_is_none_of_a_comparison(site):
    executor = site.make_jobs()
    ticket = executor.submit(make_request(site, site.scan()[NAMES[0]]))
    site.slurm.run_tasks(1)
    site.write_result(ticket, {"version": 1, "task": 0, "pieces": []})
    executor.follow(ticket)
    (answer,) = executor.collect_digests(ticket).values()
    assert isinstance(answer, Unknown)


FORGED_TEXTS = {
    "nested deeper than an answer of the agent may be": '{"version": ' + "[" * 50 + "]" * 50 + "}",
    "nested very deep": "[" * 900 + "]" * 900,
    "a number of very many digits": "9" * 4000,
    "a reason that is too long": '{"version": 1, "task": 0, "checkpoints": [{"refused": "' + "x" * 501 + '"}]}',
}


@pytest.mark.parametrize("text", FORGED_TEXTS.values(), ids=FORGED_TEXTS.keys())
def test_whatever_a_result_file_contains_its_ticket_can_be_closed(site, text):
    """Without an answer about each checkpoint, a command would wait for it for ever."""
    executor = site.make_jobs()
    ticket = executor.submit(make_request(site, site.scan()[NAMES[0]]))
    site.slurm.run_tasks(1)
    (site.find_ticket_directory(ticket) / "result-0.json").write_text(text)
    assert executor.follow(ticket).state is TicketState.READY
    (answer,) = executor.collect_digests(ticket).values()
    assert "differs from its schema" in answer.reason
