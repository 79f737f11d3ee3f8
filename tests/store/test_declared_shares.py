"""What clusters declare to share, on both databases."""

import pytest

from ckptd.core.runs.shared_files import SharedDirectory

OURS = SharedDirectory("alpha", "beta", "/project")
THEIRS = SharedDirectory("beta", "alpha", "/project")


def test_a_cluster_replaces_what_it_declared_before_and_nothing_of_another_one(store):
    store.declared_shares.record("beta", [THEIRS])
    store.declared_shares.record("alpha", [OURS, OURS._replace(directory="/work")])
    assert store.declared_shares.read_declared() == (OURS, THEIRS, OURS._replace(directory="/work"))
    store.declared_shares.record("alpha", [OURS])
    assert store.declared_shares.read_declared() == (OURS, THEIRS)
    store.declared_shares.record("alpha", [])
    assert store.declared_shares.read_declared() == (THEIRS,)


def test_what_is_declared_already_is_not_written_again(store, monkeypatch):
    store.declared_shares.record("alpha", [OURS])
    monkeypatch.setattr(store.database, "writing", lambda: pytest.fail("there is nothing to write"))
    store.declared_shares.record("alpha", [OURS])
    assert store.declared_shares.read_declared() == (OURS,)
