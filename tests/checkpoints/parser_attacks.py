"""What code in a parser would try that a checkpoint has taken over, and a format that tries it."""

import ctypes
import errno
import fcntl
import os
import re
import signal
import socket
import subprocess
import threading
from pathlib import Path

from ckptd.checkpoints.agent import syscall_filter
from ckptd.checkpoints.formats import checkpoint_names, roles

NUMBERS = {
    name: numbers[0 if os.uname().machine == "x86_64" else 1]
    for table in (syscall_filter._DANGEROUS, syscall_filter._CLONE3, syscall_filter._CLONE)
    for name, numbers in table.items()
}
NEW_USER_NAMESPACE = 0x10000000
libc = ctypes.CDLL(None, use_errno=True)


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
        (self.inside / os.path.relpath(self.outside, self.inside) / "secret").read_bytes()

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

    def have_the_kernel_signal_the_parent(self):
        reading, writing = os.pipe()
        try:
            fcntl.fcntl(reading, fcntl.F_SETOWN, os.getppid())
        finally:
            os.close(reading)
            os.close(writing)

    def have_the_kernel_send_another_signal(self):
        fcntl.fcntl(1, 10, signal.SIGKILL)  # F_SETSIG

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
    """A format whose examination runs the attacks; its error says, a letter for each, what became of them."""

    name = "subverted"
    role_unread = roles.NOT_SHOWN

    def __init__(self, attacks):
        self.attacks = attacks

    def claim(self, directory, reader):
        for file in directory.by_suffix.get("subverted", ()):
            yield checkpoint_names.claim_file(self.name, file)

    def examine(self, claim, reader, level):
        with reader.open(claim.path) as file:
            assert file.read() == b"content"
        raise ValueError(f"outcome={''.join(try_one(getattr(self.attacks, name)) for name in ATTACKS)}.")


def read_outcome(reason):
    """Return what became of each attack: r if the kernel refused it, n if it hides the file, ! if it let it pass."""
    letters = re.search(r"outcome=([rn?!]+)\.", reason)
    assert letters, reason
    return dict(zip(ATTACKS, letters[1], strict=True))


def try_one(attack):
    try:
        attack()
    except FileNotFoundError:
        return "n"
    except (PermissionError, RuntimeError):  # threading says that it cannot start a thread
        return "r"
    except OSError as error:
        return "r" if error.errno in {errno.ENOSYS, errno.EROFS, errno.EAFNOSUPPORT} else "?"
    except BaseException:  # noqa: BLE001 - such an attack shows nothing
        return "?"
    return "!"
