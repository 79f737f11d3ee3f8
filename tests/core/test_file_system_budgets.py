import pytest

from ckptd.core.discovery.file_system_budgets import FileSystemBudget, find_budget

BUDGETS = tuple(FileSystemBudget(path=path, parallel=1) for path in ("/scratch", "/scratch/fast", "/home/"))


@pytest.mark.parametrize(
    ("directory", "path"),
    [
        ("/scratch", "/scratch"),
        ("/scratch/alice/run", "/scratch"),
        ("/scratch/fast/alice", "/scratch/fast"),
        ("/scratch/faster", "/scratch"),
        ("/scratchy/alice", None),
        ("/home/alice", "/home/"),
        ("?job 7", None),
    ],
)
def test_the_longest_path_that_contains_a_directory_counts(directory, path):
    found = find_budget(BUDGETS, directory)
    assert (found.path if found else None) == path
