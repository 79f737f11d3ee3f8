import pytest

from ckptd.slurm import tres


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("cpu=2,mem=1M,node=1,billing=2", 0),
        ("cpu=2,mem=1M,node=1,billing=2,gres/gpu=4", 4),
        ("cpu=2,gres/gpu=4,gres/gpu:a100=4", 4),
        ("cpu=2,gres/gpu:a100=3,gres/gpu:v100=1", 4),
        ("gres:gpu:2", 2),
        ("gres/gpu:2", 2),
        ("gres:gpu:a100:3", 3),
        ("gres:gpu", 1),
        ("gpu:2(IDX:0-1)", 2),
        ("gres/gpu=2K", 2048),
        ("gres/gpumem=40G,cpu=1", 0),
        ("gres/shard=3", 0),
    ],
)
def test_gpus_are_counted_in_every_spelling(text, expected):
    assert tres.count_gpus(text) == expected


def test_a_request_is_multiplied_by_its_nodes_or_tasks():
    assert tres.count_requested_gpus("gres:gpu:2", "N/A", "N/A", 3, 9) == 6
    assert tres.count_requested_gpus("N/A", "N/A", "gres:gpu:1", 3, 9) == 9
    assert tres.count_requested_gpus("gres:gpu:2", "gres:gpu:5", "N/A", 3, 9) == 5
