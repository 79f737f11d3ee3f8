"""Directories are attributed to mount points by the mount table alone."""

from pathlib import PurePosixPath

from ckptd.checkpoints.scanning.mounts import Mount, MountPoints


def mount(point):
    return Mount(PurePosixPath(point), "nfs4")


def test_the_innermost_mount_holds_a_directory_and_names_are_compared_whole():
    points = MountPoints(lambda: (mount("/work/lab"), mount("/work"), mount("/")))
    points.refresh()
    found = [points.find(PurePosixPath(path)) for path in ("/work/lab/x", "/work/labor", "/work/lab", "/home/x")]
    assert found == ["/work/lab", "/work", "/work/lab", "/"]


def test_only_another_table_gives_another_function():
    tables = [(mount("/"),), (mount("/"),), (mount("/"), mount("/work"))]
    points = MountPoints(lambda: tables.pop(0))
    points.refresh()
    first = points.find
    points.refresh()
    assert points.find is first
    points.refresh()
    assert points.find is not first
    assert points.find(PurePosixPath("/work/x")) == "/work"


def test_a_table_that_cannot_be_read_stays_as_it_was():
    tables = [(mount("/work"),)]

    def read():
        if not tables:
            raise PermissionError("/proc")
        return tables.pop()

    points = MountPoints(read)
    points.refresh()
    points.refresh()
    assert points.find(PurePosixPath("/work/x")) == "/work"
