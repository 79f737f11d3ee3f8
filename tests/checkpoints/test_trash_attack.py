"""Another user exchanges directories, files and links as fast as it can, while a process of root prunes there.

Nothing outside of the attacker's own files may be touched. `CKPTD_ATTACK_SECONDS` says for how long (60 and more
for a thorough run).
"""

import json
import os
import pickle
import random
import shutil
import signal
import tempfile
import time
from collections import Counter
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath

import pytest

from ckptd.checkpoints import trash
from ckptd.checkpoints.trash import TrashResult
from support.trash_facts import NOW, OTHER_UID, identity, own, released, start_child

SECONDS = float(os.environ.get("CKPTD_ATTACK_SECONDS", "3"))
VICTIM_UID = OTHER_UID + 1
FILES = ("model.safetensors", "rank/0/state.pt", "trainer_state.json")


def snapshot(top):
    """Everything that must stay as it is: names, owners, modes, times, link counts and bytes."""
    found = {}
    for path in sorted((top, *top.rglob("*"))):
        status = path.lstat()
        data = path.read_bytes() if path.is_file() and not path.is_symlink() else None
        found[str(path)] = (
            status.st_ino,
            status.st_uid,
            status.st_mode,
            status.st_nlink if data is not None else 0,
            status.st_mtime_ns,
            data,
        )
    return found


def build(place, uid):
    """The victims: checkpoints of root and of another user, laid out just as the attacker's are."""
    for name in ("checkpoint-1", "checkpoint-2", trash_name := trash.TRASH):
        for file in FILES:
            path = place / name / ("act-1/0" if name == trash_name else "") / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"precious")
    (place / "moved").write_bytes(b"precious")
    own(place, uid)


@contextmanager
def battlefield():
    root = Path(tempfile.mkdtemp(prefix="ckptd-attack-"))
    try:
        root.chmod(0o755)
        for name, uid in (("root", 0), ("victim", VICTIM_UID), ("home", OTHER_UID)):
            (root / name).mkdir()
            os.chown(root / name, uid, uid)
        build(root / "root", 0)
        build(root / "victim", VICTIM_UID)
        (root / "home" / "ckpts").mkdir()
        own(root / "home")
        yield root
    finally:
        shutil.rmtree(root)


class Attacker:
    """One user's process in a loop over every trick it has with its own directory."""

    def __init__(self, root, seed):
        self.home = root / "home"
        self.run = self.home / "ckpts"
        self.victims = [root / "root", root / "victim"]
        self.dice = random.Random(seed)

    def attack(self):
        tricks = [
            self.write_checkpoint,
            self.write_checkpoint,
            self.write_checkpoint,
            self.swap_checkpoint_for_link,
            self.swap_run_for_link,
            self.swap_inner_directory,
            self.swap_file,
            self.swap_file_for_link,
            self.hard_link,
            self.make_fifo,
            self.plant_trash,
            self.move_trash,
            self.move_run,
            self.swap_in_trash,
            self.link_in_trash,
            self.forge_manifest,
        ]
        while True:
            with suppress(OSError, shutil.Error, json.JSONDecodeError):  # the last: another one just forges it
                self.dice.choice(tricks)()

    def checkpoint(self):
        return self.run / f"checkpoint-{self.dice.choice((1, 2))}"

    def clear(self, path):
        if path.is_symlink() or not path.is_dir():
            path.unlink()
        else:
            path.rename(self.home / f"old-{self.dice.random()}")

    def write_checkpoint(self):
        if self.run.is_symlink():
            self.run.unlink()
        self.run.mkdir(exist_ok=True)
        path = self.checkpoint()
        if path.exists() or path.is_symlink():
            self.clear(path)
        for file in FILES:
            (path / file).parent.mkdir(parents=True, exist_ok=True)
            (path / file).write_bytes(b"attack")
        for left in self.home.glob("old-*"):
            shutil.rmtree(left, ignore_errors=True)
        time.sleep(self.dice.choice((0, 0, 0.002)))

    def swap_checkpoint_for_link(self):
        path = self.checkpoint()
        self.clear(path)
        path.symlink_to(self.dice.choice(self.victims) / path.name)

    def swap_run_for_link(self):
        self.clear(self.run)
        self.run.symlink_to(self.dice.choice(self.victims))

    def swap_inner_directory(self):
        path = self.checkpoint() / "rank"
        self.clear(path)
        path.symlink_to(self.dice.choice(self.victims) / "checkpoint-1" / "rank")

    def swap_file(self):
        path = self.checkpoint() / FILES[0]
        other = path.with_name("other")
        other.write_bytes(b"other.")
        other.rename(path)

    def swap_file_for_link(self):
        path = self.checkpoint() / FILES[0]
        path.unlink()
        path.symlink_to(self.dice.choice(self.victims) / "checkpoint-1" / FILES[0])

    def hard_link(self):
        path = self.checkpoint() / FILES[0]
        path.unlink()
        path.hardlink_to(self.dice.choice([*self.victims, self.home]) / "checkpoint-1" / FILES[0])

    def make_fifo(self):
        path = self.checkpoint() / FILES[2]
        path.unlink()
        os.mkfifo(path)

    def plant_trash(self):
        place = self.dice.choice((self.home, self.run)) / trash.TRASH
        if self.dice.random() < 0.5:
            place.symlink_to(self.dice.choice(self.victims) / trash.TRASH)
        else:
            place.mkdir()
        time.sleep(0.001)
        self.clear(place)

    def move_trash(self):
        place = self.dice.choice((self.home, self.run)) / trash.TRASH
        aside = self.home / "aside"
        place.rename(aside)
        place.symlink_to(self.dice.choice(self.victims) / trash.TRASH)
        time.sleep(self.dice.choice((0, 0.001)))
        place.unlink()
        aside.rename(place)

    def move_run(self):
        aside = self.home / "run-aside"
        self.run.rename(aside)
        self.run.symlink_to(self.dice.choice(self.victims))
        time.sleep(self.dice.choice((0, 0.001)))
        self.run.unlink()
        aside.rename(self.run)

    def entry(self):
        """What pruning has in the trash just now. Where it acts as root, even looking there is refused."""
        place = self.dice.choice((self.home, self.run)) / trash.TRASH
        return self.dice.choice([each for each in place.iterdir() if each.is_dir()] or [place / "none"])

    def swap_in_trash(self):
        path = self.entry() / self.dice.choice(("0", "0/rank"))
        path.rename(self.home / f"old-{self.dice.random()}")
        path.symlink_to(self.dice.choice(self.victims) / "checkpoint-1")

    def link_in_trash(self):
        path = self.entry() / "0" / FILES[0]
        path.unlink()
        path.hardlink_to(self.dice.choice([*self.victims, self.home]) / "checkpoint-1" / FILES[0])

    def forge_manifest(self):
        """Make the manifest name the victims' files, by their true identities, under names that lead there."""
        path = self.entry() / "manifest.json"
        document = json.loads(path.read_bytes())
        victim = self.dice.choice(self.victims)
        climbing = os.path.relpath(victim, self.run)
        name = self.dice.choice((f"{climbing}/checkpoint-1", str(victim / "checkpoint-1"), "checkpoint-1", "link"))
        status = (victim / "checkpoint-1" / FILES[0]).stat()
        thing = [FILES[0], "file", status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns]
        document["items"] = [{"name": name, "things": [["", "directory", status.st_dev, 1, 0, 0], thing]}]
        document["directory"] = self.dice.choice((document["directory"], climbing, "root", "victim"))
        path.unlink()
        path.write_text(json.dumps(document))


def _has_met_the_attack(seen):
    """On a busy host that takes longer."""
    return seen[TrashResult.MOVED] > 50 and seen[TrashResult.REFUSED] + seen[TrashResult.FAILED] > 50


def prune(run, until, dice):
    """Prune like a daemon that believes all that it sees, through links too; count how the acts ended."""
    seen = Counter()
    turn = 0
    while time.monotonic() < until or not _has_met_the_attack(seen):
        turn += 1
        path = run / f"checkpoint-{dice.choice((1, 2))}"
        with suppress(OSError):
            names = tuple(f"{path.name}/{file}" for file in FILES)
            asked = trash.MoveRequest(
                act_id=f"act-{turn}",
                directory=PurePosixPath(run),
                path=PurePosixPath(path),
                files=names,
                identities=tuple(identity(run / name) for name in names),
                is_directory=True,
                uid=OTHER_UID,
                reasons=("an attack",),
                allowed_roots=(PurePosixPath(run).parent,),
            )
            outcome = trash.move_aside(asked, now=NOW)
            seen[outcome.result] += 1
            for place in trash.list_places(PurePosixPath(run)):
                if turn % 5 == 0:
                    seen.update(one.result for one in trash.recover(place))
                if outcome.result is TrashResult.MOVED:
                    done = (
                        trash.restore(place, asked.act_id)
                        if turn % 2
                        else trash.empty(place, [asked.act_id], released())[0]
                    )
                    seen[done.result] += 1
    return seen


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user, and have another user to protect")
@pytest.mark.timeout(SECONDS + 1200)
@pytest.mark.parametrize("actor", ["root", "owner"])
def test_nothing_outside_the_attackers_own_files_is_touched(actor):
    with battlefield() as root:
        before = {name: snapshot(root / name) for name in ("root", "victim")}
        attackers = [start_child(Attacker(root, seed).attack) for seed in (1, 2)]
        until = time.monotonic() + SECONDS / 2
        try:
            if actor == "root":
                seen = prune(root / "home" / "ckpts", until, random.Random(3))
            else:
                child, pipe = start_child(lambda: prune(root / "home" / "ckpts", until, random.Random(4)))
                with os.fdopen(pipe, "rb") as reading:
                    seen = pickle.loads(reading.read())
                assert os.waitpid(child, 0)[1] == 0
        finally:
            for child, pipe in attackers:
                os.kill(child, signal.SIGKILL)
                os.close(pipe)
            ends = [os.waitpid(child, 0)[1] for child, _ in attackers]
        assert ends == [signal.SIGKILL] * len(attackers), "they attacked until the end"
        assert {name: snapshot(root / name) for name in before} == before
        assert seen[TrashResult.MOVED] > 0
        assert seen[TrashResult.REFUSED] + seen[TrashResult.FAILED] > 0
        print(f"acts as {actor}:", ", ".join(f"{count} {result.value}" for result, count in sorted(seen.items())))
