"""A directory in memory, as the scan would list and read it: a run of thousands of layouts needs no disk."""

import io
import posixpath
from dataclasses import dataclass, field, replace

from ckptd.checkpoints.scanning.tree import Directory, File
from layouts.world import Rename

UID = 1000
DEVICE = 2049
NANOSECONDS = 10**9


@dataclass(frozen=True)
class Node:
    """One file: its content, times and inode."""

    data: bytes
    modified_at: float
    changed_at: float
    inode: int


@dataclass
class Disk:
    """Files by their paths, and links. It reads as `ckptd.checkpoints.reader.Reader` does."""

    began_at: float  # what the times of a world count from
    nodes: dict[str, Node] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    inode_count: int = 100

    def write(self, path, data, at):
        """Write a file at an instant of the world."""
        self.inode_count += 1
        self.nodes[path] = Node(data, self.began_at + at, self.began_at + at, self.inode_count)

    def act(self, act, at):
        """Rename or copy a file or a directory at an instant of the world."""
        for path in [path for path in self.nodes if path == act.source or path.startswith(f"{act.source}/")]:
            target = act.target + path[len(act.source) :]
            if isinstance(act, Rename):
                self.nodes[target] = replace(self.nodes.pop(path), changed_at=self.began_at + at)
            else:
                self.write(target, self.nodes[path].data, at)

    def open(self, path):
        if path not in self.nodes:
            raise FileNotFoundError(path)
        return io.BytesIO(self.nodes[path].data)

    def read_head(self, path, size=512):
        with self.open(path) as file:
            return file.read(size)

    def read_whole(self, path, limit):
        data = self.read_head(path, limit + 1)
        if len(data) > limit:
            raise ValueError(f"{path!r} is larger than {limit} bytes")
        return data

    def list(self):
        """Return the tree as `list_tree` would."""
        directories = {"": self._directory("")}
        for path, node in self.nodes.items():
            parent, _, name = path.rpartition("/")
            self._parent(directories, parent).files[name] = File(
                path,
                len(node.data),
                int(node.modified_at * NANOSECONDS),
                DEVICE,
                node.inode,
                UID,
                int(node.changed_at * NANOSECONDS),
            )
        for path, target in self.links.items():
            parent, _, name = path.rpartition("/")
            self._parent(directories, parent).links[name] = target
        return directories[""]

    def _parent(self, directories, path):
        if path not in directories:
            parent, _, name = path.rpartition("/")
            directories[path] = self._directory(path)
            self._parent(directories, parent).directories[name] = directories[path]
        return directories[path]

    def _directory(self, path):
        return Directory(path=path, uid=UID, modified_ns=int(self.began_at * NANOSECONDS))

    def resolve(self, link):
        """Return where a link points, relative to the root."""
        return posixpath.normpath(posixpath.join(posixpath.dirname(link), self.links[link]))


def write_world(world, began_at):
    """Return a disk with what a world holds before anybody does anything by hand."""
    disk = Disk(began_at)
    for path, (data, at) in sorted(world.files().items(), key=lambda item: item[1][1]):
        disk.write(path, data, at)
    disk.links.update(world.links)
    return disk
