"""Settings that one user writes to stop the daemon hold for that user alone."""

import os
from dataclasses import replace

import pytest

from ckptd.steps.prune import current_settings, planning
from ckptd.store import restart_state
from steps.prune.several_users import enforce, explain, left, open_shop
from support.prune_facts import CLUSTER

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be several users")


@pytest.fixture
def shop(url):
    with open_shop(url) as shop:
        yield shop


def test_a_users_file_with_tables_far_inside_one_another_keeps_all_of_hers_and_stops_nobody(shop):
    ann = shop.users["ann"]
    file = ann.directory.parent / ".ckptd.toml"
    file.touch()
    os.chown(file, ann.uid, -1)
    runs = planning.read_facts(shop.store, CLUSTER, shop.site, [user.run for user in shop.users.values()]).runs
    for depth in (*range(1, 900, 100), *range(900, 1000, 3)):
        file.write_text(f"keep.{'.'.join('a' * depth)} = 1\n")
        assert current_settings.renew(shop.parts, runs, shop.now) == set(), depth
    enforce(shop)
    shop.act()
    assert left(shop) == {"ann": 6, "bob": 2, "cid": 2, "dan": 2}
    assert "everything" in explain(shop, ann)


@pytest.mark.parametrize("depth", [0, 1, *range(900, 1000, 9), 100_000])
def test_a_subverted_child_that_answers_any_settings_stops_nobody_elses_removals(shop, depth):
    ann, nested = shop.users["ann"], 1
    for _ in range(depth):
        nested = {"keep": nested}

    class Subverted:
        def run(self, batches):
            answers = shop.agent.run(batches)
            for batch, found in zip(batches, answers, strict=True):
                if (batch.uid, batch.operation) == (ann.uid, "locate"):
                    found[:] = [{**answer, "user_settings": nested} for answer in found]
            return answers

        def run_as_answered(self, batches):
            return shop.agent.run_as_answered(batches)

    enforce(shop)
    shop.parts = replace(shop.parts, agent=Subverted())
    shop.act()
    assert left(shop) == {"ann": 6, "bob": 2, "cid": 2, "dan": 2}


def test_settings_of_one_user_that_cannot_be_recorded_stop_nobody_elses_removals(shop, monkeypatch):
    ann, real = shop.users["ann"], restart_state.record_user_settings

    def record(connection, settings):
        settings = list(settings)
        if any(where == str(ann.directory.parent) for _, where, _ in settings):
            raise RecursionError
        real(connection, settings)

    monkeypatch.setattr(restart_state, "record_user_settings", record)
    enforce(shop)
    shop.act()
    assert left(shop) == {"ann": 6, "bob": 2, "cid": 2, "dan": 2}
