"""A workshop of four users, each with a home, a job and a run, whose checkpoints are due."""

import os
from contextlib import contextmanager
from datetime import timedelta
from pathlib import PurePosixPath

import numpy as np

from ckptd.core.model import RunKey
from ckptd.core.retention import Caps
from ckptd.steps.prune import audit_entries, circuit_breaker, planning
from support.prune_facts import CLUSTER, UID, make_site, workshop

EPOCHS = [f"epoch_{n}.npz" for n in range(1, 7)]
USERS = ("ann", "bob", "cid", "dan")


class User:
    """One user with a home, a job and a run."""

    def __init__(self, shop, number, name):
        self.shop = shop
        self.uid = UID + number
        self.name = name
        self.directory = shop.root / name / "ckpts"
        self.directory.mkdir(parents=True)
        for path in (self.directory, self.directory.parent):
            os.chown(path, self.uid, -1)
        work_dir = PurePosixPath(self.directory.parent)
        shop.start_job(number, user=name, uid=self.uid, work_dir=work_dir)

    @property
    def run(self):
        return RunKey(CLUSTER, self.uid, str(self.directory))

    def save(self, epoch):
        path = self.directory / f"epoch_{epoch}.npz"
        with path.open("wb") as file:
            np.savez(file, **{"opt/mu": np.arange(100.0)}, weights=np.arange(100.0), epoch=epoch)
        os.chown(path, self.uid, -1)
        os.utime(path, (self.shop.now.timestamp(), self.shop.now.timestamp()))

    def names(self):
        return sorted(path.name for path in self.directory.iterdir() if path.is_file())

    def link(self, epoch):
        """Give a checkpoint a second name: its removal will be refused."""
        os.link(self.directory / f"epoch_{epoch}.npz", self.shop.root / f"second-{self.name}")

    def spoil(self):
        """Let nothing be moved: removals will fail."""
        self.directory.chmod(0o555)

    def repair(self):
        self.directory.chmod(0o755)

    def trashed(self):
        return list((self.directory.parent / ".ckptd-trash").iterdir())

    def save_more(self, *epochs):
        for epoch in epochs:
            self.shop.wait(60)
            self.save(epoch)
            self.shop.wait(1)
            self.shop.look()

    def outcomes(self, action=audit_entries.PRUNE):
        return [entry.outcome for entry in self.shop.audit(action) if entry.run == self.run]


@contextmanager
def open_shop(url):
    """A workshop in which each user has saved six checkpoints."""
    with workshop(url) as shop:
        shop.users = {name: User(shop, number, name) for number, name in enumerate(USERS, 1)}
        for epoch in range(1, 7):
            shop.wait(30)
            for user in shop.users.values():
                user.save(epoch)
            shop.wait(1)
        shop.look()
        shop.wait(90)
        yield shop


def left(shop):
    return {name: len(user.names()) for name, user in shop.users.items()}


def enforce(shop, *, hold=timedelta(days=7), **caps):
    shop.site = make_site(shop.root, caps=Caps(**{"filesystem_share": 1.0, **caps}), hold=hold)


def explain(shop, user):
    """What the commands say of why a user's checkpoints stay."""
    facts = planning.read_facts(shop.store, CLUSTER, shop.site, [user.run])
    found = planning.check_circuit_breaker(shop.store, CLUSTER, shop.site, shop.now)
    made = planning.plan(facts, shop.now)
    limited = circuit_breaker.limit(made, shop.site.caps, found, shop.now, modes=planning.ACTIVE_MODES)
    return "; ".join(reason for each in limited.runs[0].keep for reason in each.reasons)
