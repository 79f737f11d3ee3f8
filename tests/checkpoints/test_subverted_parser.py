"""Plays a parser that a checkpoint has taken over: it runs any code, and gets nothing but the files that it reads."""

import ctypes
import errno
import json
import mmap
import os
import signal
import socket
import subprocess
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ckptd.checkpoints import formats
from ckptd.checkpoints.agent import confinement, landlock, process, syscall_filter
from ckptd.checkpoints.agent.confinement import confine_commands, confine_files
from ckptd.checkpoints.agent.request_policy import RequestPolicy
from ckptd.checkpoints.formats import checkpoint_names, roles
from ckptd.checkpoints.scanning.inspection import inspect_tree

NUMBERS = {
    name: numbers[0 if os.uname().machine == "x86_64" else 1]
    for table in (syscall_filter._DANGEROUS, syscall_filter._CLONE3, syscall_filter._CLONE)
    for name, numbers in table.items()
}
NEW_USER_NAMESPACE = 0x10000000
libc = ctypes.CDLL(None, use_errno=True)

pytestmark = pytest.mark.skipif(
    bool(confinement.list_missing()), reason="; ".join(confinement.list_missing()) or "confined"
)


def call(name, *arguments):
    """Make a system call as its number; raise its error."""
    ctypes.set_errno(0)
    if libc.syscall(NUMBERS[name], *arguments) < 0:
        raise OSError(ctypes.get_errno(), name)


class Attacks:
    """What code in a parser would try. `outside` is a directory beside the scanned one."""

    def __init__(self, inside, outside):
        self.inside, self.outside = inside, outside

    def read_a_file_outside(self):
        (self.outside / "secret").read_bytes()

    def read_a_file_outside_by_climbing(self):
        (self.inside / "../outside/secret").read_bytes()

    def read_a_file_outside_through_a_link(self):
        (self.inside / "link").read_bytes()

    def list_a_directory_outside(self):
        os.listdir(self.outside)

    def read_accounts(self):
        Path("/etc/passwd").read_bytes()

    def read_the_parents_memory(self):
        Path(f"/proc/{os.getppid()}/mem").open("rb").close()

    def read_the_parents_environment(self):
        Path(f"/proc/{os.getppid()}/environ").read_bytes()

    def write_a_file_inside(self):
        (self.inside / "1.subverted").write_bytes(b"")

    def create_a_file_inside(self):
        os.close(os.open(self.inside / "new", os.O_CREAT | os.O_RDONLY))

    def remove_a_file_inside(self):
        os.unlink(self.inside / "1.subverted")

    def rename_a_file_inside(self):
        os.rename(self.inside / "1.subverted", self.inside / "other")

    def change_permissions_inside(self):
        os.chmod(self.inside / "1.subverted", 0o777)

    def link_a_file(self):
        os.link(self.inside / "1.subverted", self.inside / "other")

    def open_an_internet_socket(self):
        socket.socket(socket.AF_INET).close()

    def open_a_unix_socket(self):
        socket.socket(socket.AF_UNIX).close()

    def open_a_netlink_socket(self):
        socket.socket(socket.AF_NETLINK, socket.SOCK_RAW).close()

    def start_a_program(self):
        subprocess.run(["/bin/true"], check=True)

    def become_a_program(self):
        os.execv("/bin/true", ["true"])

    def fork(self):
        if os.fork() == 0:
            os._exit(0)

    def start_a_thread(self):
        thread = threading.Thread(target=int)
        thread.start()
        thread.join()

    def signal_its_parent(self):
        os.kill(os.getppid(), 0)

    def signal_its_group(self):
        os.kill(0, 0)

    def trace_its_parent(self):
        call("ptrace", 16, os.getppid(), 0, 0)

    def limit_its_parent(self):
        import resource  # noqa: PLC0415 - loaded already

        resource.prlimit(os.getppid(), resource.RLIMIT_CPU)

    def use_io_uring(self):
        call("io_uring_setup", 1, ctypes.create_string_buffer(256))

    def make_a_namespace(self):
        call("unshare", NEW_USER_NAMESPACE)

    def clone_into_a_namespace(self):
        call("clone", NEW_USER_NAMESPACE | signal.SIGCHLD, 0, 0, 0, 0)

    def load_a_program_into_the_kernel(self):
        call("bpf", 0, ctypes.create_string_buffer(128), 128)

    def use_keys(self):
        call("keyctl", 0, -3, 0)


ATTACKS = sorted(name for name in vars(Attacks) if not name.startswith("_"))


class SubvertedFormat:
    """A format whose examination runs the attacks, and reports over shared memory which of them the kernel let pass."""

    name = "subverted"
    role_unread = roles.NOT_SHOWN

    def __init__(self, attacks, shared):
        self.attacks, self.shared = attacks, shared

    def claim(self, directory, reader):
        for file in directory.by_suffix.get("subverted", ()):
            yield checkpoint_names.claim_file(self.name, file)

    def examine(self, claim, reader, level):
        self.shared[:] = b"?" * len(ATTACKS)
        with reader.open(claim.path) as file:
            assert file.read() == b"content"
        for number, name in enumerate(ATTACKS):
            self.shared[number : number + 1] = try_one(getattr(self.attacks, name))
        raise ValueError("the parser came to its end")


def try_one(attack):
    try:
        attack()
    except (PermissionError, RuntimeError):  # threading says that it cannot start a thread
        return b"r"
    except OSError as error:
        return b"r" if error.errno in {errno.ENOSYS, errno.EPERM} else b"?"
    except BaseException:  # noqa: BLE001 - such an attack shows nothing
        return b"?"
    return b"!"


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    """What became of each attack, in a parser that an inspection started."""
    folder = tmp_path_factory.mktemp("subverted")
    inside, outside = folder / "inside", folder / "outside"
    inside.mkdir()
    outside.mkdir()
    (inside / "1.subverted").write_bytes(b"content")
    (outside / "secret").write_bytes(b"secret")
    (inside / "link").symlink_to(outside / "secret")
    shared = mmap.mmap(-1, len(ATTACKS))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(formats.FORMATS, "subverted", SubvertedFormat(Attacks(inside, outside), shared))
        now = datetime.fromtimestamp(time.time() + 3600, UTC)
        found = {each.path.name: each for each in inspect_tree(inside, now=now).checkpoints}
    assert "the parser came to its end" in found["1.subverted"].reason
    assert sorted(os.listdir(inside)) == ["1.subverted", "link"]
    assert (inside / "1.subverted").read_bytes() == b"content"
    return dict(zip(ATTACKS, bytes(shared).decode(), strict=True))


@pytest.mark.parametrize("attack", ATTACKS)
def test_the_kernel_refuses_a_subverted_parser(outcome, attack):
    assert outcome[attack] == "r"


def test_each_attack_would_have_an_effect_without_confinement(tmp_path):
    """Otherwise the test above would show nothing."""
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    for directory in (inside, outside):
        directory.mkdir()
    attacks = Attacks(inside, outside)
    (outside / "secret").write_bytes(b"secret")
    (inside / "link").symlink_to(outside / "secret")
    elsewhere = {"become_a_program", "trace_its_parent", "use_keys", "load_a_program_into_the_kernel"}
    elsewhere |= {"use_io_uring", "clone_into_a_namespace", "make_a_namespace"}  # this kernel may be built without
    for name in set(ATTACKS) - elsewhere:
        (inside / "1.subverted").write_bytes(b"content")
        (inside / "other").unlink(missing_ok=True)
        assert in_child(lambda name=name: try_one(getattr(attacks, name))) == b"!", name


def in_child(work):
    """Return what `work` returns in a forked process."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, work())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        data = pipe.read()
    os.waitpid(child, 0)
    return data


SOCKETS_AND_PROGRAMS = sorted(
    {"open_an_internet_socket", "open_a_unix_socket", "open_a_netlink_socket", "start_a_program", "become_a_program"}
)
ON_THE_KERNEL = sorted(
    {"trace_its_parent", "use_io_uring", "make_a_namespace", "clone_into_a_namespace", "use_keys"}
    | {"load_a_program_into_the_kernel"}
)


@pytest.mark.parametrize("attack", SOCKETS_AND_PROGRAMS + ON_THE_KERNEL)
def test_a_subverted_scan_gets_no_socket_and_no_program(tmp_path, attack):
    def work():
        confine_files()
        return try_one(getattr(Attacks(tmp_path, tmp_path), attack))

    assert in_child(work) == b"r"


@pytest.mark.parametrize("attack", ON_THE_KERNEL)
def test_a_program_of_the_site_cannot_attack_the_kernel(tmp_path, attack):
    def work():
        confine_commands()
        return try_one(getattr(Attacks(tmp_path, tmp_path), attack))

    assert in_child(work) == b"r"


def test_a_confined_command_still_starts_programs_and_sockets(tmp_path):
    def work():
        confine_commands()
        socket.socket(socket.AF_UNIX).close()
        return subprocess.run(["/bin/sh", "-c", "echo hello | cat"], check=True, capture_output=True).stdout

    assert in_child(work) == b"hello\n"


def test_confinement_says_what_the_kernel_lacks(monkeypatch):
    assert confinement.list_missing() == []
    monkeypatch.setattr(landlock, "read_abi", lambda: 0)
    monkeypatch.setattr(syscall_filter, "is_supported", lambda: False)
    assert [each.split(":")[0] for each in confinement.list_missing()] == [
        "Landlock is not available",
        f"there is no seccomp filter on {os.uname().machine}",
    ]
    monkeypatch.setattr(landlock, "read_abi", lambda: 2)
    assert "ABI 2" in confinement.list_missing()[0]


@pytest.mark.parametrize("operation", ["verify", "scan", "move_aside"])
def test_the_agents_child_is_confined_before_it_opens_a_path(tmp_path, operation):
    """It plays the agent with an operation that a hostile directory has taken over."""
    attacks = Attacks(tmp_path, tmp_path)

    def taken_over(_item):
        return {each: try_one(getattr(attacks, each)).decode() for each in SOCKETS_AND_PROGRAMS}

    items = [{"asks_quota": True}]
    answer = ask_agent(operation, items, taken_over, RequestPolicy())
    assert answer == dict.fromkeys(SOCKETS_AND_PROGRAMS, "r")


def test_the_agents_child_can_start_the_sites_command_where_it_was_asked_for(tmp_path):
    attacks = Attacks(tmp_path, tmp_path)

    def taken_over(_item):
        return {each: try_one(getattr(attacks, each)).decode() for each in ("start_a_program", "make_a_namespace")}

    policy = RequestPolicy(quota_command=("quota",))
    assert ask_agent("scan", [{"asks_quota": True}], taken_over, policy) == {
        "start_a_program": "!",
        "make_a_namespace": "r",
    }
    assert ask_agent("scan", [{"asks_quota": False}], taken_over, policy)["start_a_program"] == "r"


def ask_agent(operation, items, work, policy):
    """Return the answer of an agent whose operation is `work`, with requests of any shape."""
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        try:
            ours.close()
            process.requests.complete = lambda _operation, item, _policy: item
            process.serve(theirs.detach(), lambda: policy, {operation: work})
        finally:
            os._exit(0)
    theirs.close()
    uid = os.geteuid() or 60_001
    request = {"id": 1, "uid": uid, "operation": operation, "items": items, "deadline_seconds": 30}
    with ours, ours.makefile("rb") as lines:
        ours.sendall(json.dumps(request).encode() + b"\n")
        messages = [json.loads(line) for _, line in zip(range(3), lines, strict=False)]
        ours.shutdown(socket.SHUT_RDWR)
    os.waitpid(child, 0)
    return next(each["result"] for each in messages if "result" in each)
