"""A Linux that qemu emulates, whose clock can be set while this host's stays right.

Its root is this host's, and cannot be written. Only /run and a copy of /etc can, in memory. It needs no KVM.
"""

import shlex
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

MEMORY_MB = 1536
MAX_SECONDS = 2 * 3600.0  # then it is switched off
MARK = "ckptd.emulated"  # on its kernel's command line
MODULES = (
    "drivers/virtio/virtio",
    "drivers/virtio/virtio_ring",
    "drivers/virtio/virtio_pci_legacy_dev",
    "drivers/virtio/virtio_pci_modern_dev",
    "drivers/virtio/virtio_pci",
    "fs/netfs/netfs",
    "fs/fscache/fscache",
    "net/9p/9pnet",
    "net/9p/9pnet_virtio",
    "fs/9p/9p",
)  # in the order in which they need each other
INIT = """#!/bin/busybox sh
set -e
busybox=/bin/busybox
for module in {modules}; do $busybox insmod /modules/$module.ko; done
$busybox mount -t 9p -o ro,trans=virtio,version=9p2000.L,cache=loose,msize=524288 root /root
$busybox mount -t tmpfs -o mode=755 run /root/run
$busybox mkdir -p -m 1777 /root/run/tmp
$busybox mount -t proc proc /root/proc
$busybox mount -t sysfs sys /root/sys
$busybox mount -t devtmpfs dev /root/dev
$busybox mkdir -p -m 1777 /root/dev/shm
$busybox cp -a /root/etc /root/run/etc
$busybox mount --bind /root/run/etc /root/etc
$busybox ifconfig lo 127.0.0.1 up
exec $busybox switch_root /root /bin/sh -c {words}
"""
WORDS = """
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 HOME=/run TMPDIR=/run/tmp
cd {folder}
{command}
echo "{end}$?"
echo o > /proc/sysrq-trigger
sleep 60
"""
END = "exit status: "  # begins the last line


class EmulatedHost:
    """One emulated host, from `run` to the end of its command."""

    def __init__(self, kernel: Path, folder: Path) -> None:
        """`kernel` has a kernel's Debian package, unpacked; `folder` is for this host's own files."""
        (self._image,) = (kernel / "boot").glob("vmlinuz-*")
        (self._modules,) = (kernel / "lib/modules").glob("*/kernel")
        self._folder = folder
        self.status: int | None = None  # of the command, when it has ended

    def run(self, command: list[str], directory: Path) -> Iterator[str]:
        """Run a command as root in a directory of this host; yield the lines that it prints."""
        memory = self._pack_initial_root(command, directory)
        # fmt: off
        machine = [
            "qemu-system-x86_64", "-accel", "tcg,thread=multi", "-smp", "2", "-cpu", "max,la57=off",
            "-m", str(MEMORY_MB), "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
            "-serial", "stdio", "-kernel", str(self._image), "-initrd", str(memory),
            "-append", f"console=ttyS0 quiet panic=-1 mitigations=off {MARK}",
            "-fsdev", "local,id=root,path=/,security_model=none,readonly=on,multidevs=remap",
            "-device", "virtio-9p-pci,fsdev=root,mount_tag=root",
        ]
        # fmt: on
        with subprocess.Popen(
            machine, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, errors="replace"
        ) as process:
            assert process.stdout is not None
            limit = threading.Timer(MAX_SECONDS, process.kill)
            limit.start()
            try:
                for line in map(str.rstrip, process.stdout):
                    if line.startswith(END):
                        self.status = int(line.removeprefix(END))
                    else:
                        yield line
            finally:
                limit.cancel()
                process.kill()

    def _pack_initial_root(self, command: list[str], directory: Path) -> Path:
        """Return the file of the first root, which mounts the second one."""
        root = self._folder / "initial"
        for name in ("bin", "modules", "root", "dev"):
            (root / name).mkdir(parents=True)
        shutil.copy("/bin/busybox", root / "bin/busybox")
        for each in MODULES:
            shutil.copy(self._modules / f"{each}.ko", root / "modules")
        words = WORDS.format(folder=shlex.quote(str(directory)), command=shlex.join(command), end=END)
        names = " ".join(Path(each).name for each in MODULES)
        (root / "init").write_text(INIT.format(modules=names, words=shlex.quote(words)))
        (root / "init").chmod(0o755)
        packed = self._folder / "initial.cpio"
        listed = "".join(f"{path.relative_to(root)}\n" for path in sorted(root.rglob("*")))
        with packed.open("wb") as file:
            subprocess.run(
                ["/bin/busybox", "cpio", "-o", "-H", "newc"],
                cwd=root,
                input=listed.encode(),
                stdout=file,
                stderr=subprocess.DEVNULL,
                check=True,
            )
        return packed
