"""Checkpoints of thousands of shards or chunks: a group takes no more than a step for each of their files."""

from collections import Counter

import pytest

from core.checkpoint_sets.pieces import grouped, piece

comparisons = Counter()


class CountedName(str):
    """A file's name that counts how often its start is compared."""

    __slots__ = ()

    def startswith(self, *given):
        comparisons["startswith"] += 1
        return super().startswith(*given)


@pytest.mark.parametrize("shard_count", [10, 1000])
def test_each_file_of_a_directory_is_looked_at_a_few_times_however_many_there_are(shard_count):
    comparisons.clear()
    saves = [
        piece(
            f"step_{step}",
            step,
            step=step,
            files=[CountedName(f"step_{step}/__{shard}_0.distcp") for shard in range(shard_count)],
        )
        for step in (1, 2)
    ]
    assert len(grouped(saves)) == 2
    assert 0 < comparisons["startswith"] <= 10 * 2 * shard_count
