"""What lies in a directory, and the truth about it: which files one save left, which are data, what must stay."""

from dataclasses import dataclass, field, replace

from ckptd.core.model import Role


@dataclass(frozen=True)
class Save:
    """What one save of a training left: the true set. Paths are relative to the root."""

    series: str  # the training that saved it
    files: dict[str, bytes]
    at: float  # seconds since the training began, of the first file
    times: dict[str, float]  # of each file
    progress: float  # how far the training was
    attempt: int = 0
    role: Role = Role.STATE
    is_proven: bool = True  # role and progress are shown by content, or by a word that says progress
    has_word: bool = True  # a word that says progress is beside the number
    is_complete: bool = True
    is_fixed: bool = False  # its name says no progress: each save overwrites the one before
    keeps: str | None = None  # why it must stay whatever else is there
    companions: frozenset[str] = frozenset()  # files that may go with it, or stay

    @property
    def members(self):
        return frozenset(self.files) - self.companions

    @property
    def written_at(self):
        return max(self.times.values())


@dataclass(frozen=True)
class Rename:
    """A person moves a file or a directory."""

    source: str
    target: str


@dataclass(frozen=True)
class Copy:
    """A person copies a file or a directory, as `cp -r` does: with new times."""

    source: str
    target: str


@dataclass
class World:
    """A directory before anybody does anything by hand, and what is done then."""

    saves: list[Save] = field(default_factory=list)  # in the order of writing
    data: dict[str, tuple[bytes, float]] = field(default_factory=dict)  # never to be pruned
    markers: dict[str, tuple[bytes, float]] = field(default_factory=dict)  # logs, settings, pointers: neither
    links: dict[str, str] = field(default_factory=dict)
    by_hand: list[Rename | Copy] = field(default_factory=list)
    is_copied_back: bool = False  # a person copies one that was pruned back to where it was
    attempt_count: int = 1
    ends_at: float = 0.0

    def files(self):
        """Return content and time of every file by its path."""
        found = {}
        for save in self.saves:
            found.update({path: (data, save.times[path]) for path, data in save.files.items()})
        return {**found, **self.markers, **self.data}

    def protect(self, why, is_meant):
        """Note that some saves must stay."""
        self.saves = [replace(save, keeps=why) if is_meant(save) else save for save in self.saves]

    def after_hands(self):
        """Return the saves and data that are there after everything was done by hand, copies as data that stay."""
        saves, data = list(self.saves), dict(self.data)
        for act in self.by_hand:
            if isinstance(act, Rename):
                saves = [_renamed(save, act) for save in saves]
                data = {_moved(path, act): content for path, content in data.items()}
            else:
                data.update(
                    (_moved(path, act), (content, self.ends_at))
                    for path, (content, _) in self.files().items()
                    if _is_below(path, act.source)
                )
        return saves, data


def _is_below(path, source):
    return path == source or path.startswith(f"{source}/")


def _moved(path, act):
    return act.target + path[len(act.source) :] if _is_below(path, act.source) else path


def _renamed(save, act):
    if not any(_is_below(path, act.source) for path in save.files):
        return save
    return replace(
        save,
        files={_moved(path, act): data for path, data in save.files.items()},
        times={_moved(path, act): at for path, at in save.times.items()},
        companions=frozenset(_moved(path, act) for path in save.companions),
        keeps="a person renamed it",
    )
