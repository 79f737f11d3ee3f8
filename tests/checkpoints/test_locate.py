import os
from pathlib import PurePosixPath

import numpy as np
import pytest

from ckptd.checkpoints.scanning import locate as locating
from ckptd.checkpoints.scanning import searched_tree, user_file
from ckptd.checkpoints.scanning.locate import LocationCandidate, SiteRule, expand_template, locate, plan_candidates
from core.histories import job

USER_FILE = LocationCandidate("user-file", ".ckptd.toml")
DISCOVERY = LocationCandidate("discovery", ".")
COMMENTS = {
    "nothing": ("", None),
    "alone": ("ckpt=/scratch/run", "/scratch/run"),
    "among others": ("project=7,ckpt=out/ckpts;x=1", "out/ckpts"),
    "quoted with spaces": ('ckpt="/scratch/my run"', "/scratch/my run"),
    "part of another word": ("nockpt=/x", None),
    "empty": ("ckpt=", None),
    "broken UTF-8": ("ckpt=/a\udcff", "/a\udcff"),
}


@pytest.mark.parametrize(("comment", "path"), COMMENTS.values(), ids=COMMENTS)
def test_the_job_says_where_in_its_comment(comment, path):
    expected = (LocationCandidate("comment", path),) if path else ()
    assert plan_candidates(job(comment=comment), []) == (*expected, USER_FILE, DISCOVERY)


def test_the_order_is_job_user_site_and_a_look_around():
    rules = [SiteRule(directory="/scratch/{user}/{job_name}", partition="gpu*"), SiteRule(directory="/x", user="bob")]
    given = job(comment="ckpt=a", admin_comment="ckpt=b", partition="gpu1", name="train")
    assert plan_candidates(given, rules) == (
        LocationCandidate("comment", "a"),
        LocationCandidate("admin-comment", "b"),
        USER_FILE,
        LocationCandidate("watch", "/scratch/alice/train"),
        DISCOVERY,
    )


def test_values_that_would_change_a_templates_meaning_are_refused():
    for name in ("../bob", "a/b", "..", ".", ""):
        assert expand_template("/scratch/{job_name}", job(name=name)) is None
    assert expand_template("/scratch/{array_job_id}", job()) is None
    assert expand_template("/scratch/{job_name}", job(name="{user}")) == "/scratch/{user}"


@pytest.fixture
def ask(tmp_path):
    """Ask as the agent's child would; the user's own words are given as candidates."""

    def ask(*candidates, since_ns=0, until_ns=None, excluded=(), shared=(), roots=("/",), memory=None):
        item = {
            "memory": memory,
            "work_dir": str(tmp_path),
            "candidates": [list(each) for each in candidates],
            "allowed_roots": list(roots),
            "since_ns": since_ns,
            "until_ns": until_ns,
            "excluded": [str(each) for each in excluded],
            "shared": [str(each) for each in shared],
            "places": [],
            "job_names": [],
            "is_role_asked": False,
            "discovery_depth": 6,
            "node_directories": [],
            "discovery_entries": 1000,
        }
        return locate(item)

    return ask


def test_the_first_that_exists_wins_and_links_are_resolved(ask, tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    found = ask(("comment", "missing"), ("watch", "link"))
    assert (found["directory"], found["located_by"]) == (str(tmp_path / "real"), "watch")


def test_a_file_stands_for_its_directory(ask, tmp_path):
    (tmp_path / "model.pt").write_bytes(b"x")
    assert ask(("comment", "model.pt"))["directory"] == str(tmp_path)


def test_a_link_out_of_the_allowed_roots_is_refused_with_the_reason(ask, tmp_path):
    (tmp_path / "out").symlink_to("/etc")
    found = ask(("comment", "out"), roots=(str(tmp_path),))
    assert found["directory"] is None
    assert found["problems"] == ["/etc is outside the site's allowed roots"]


def test_the_users_file_names_the_directory_and_its_wishes_come_along(ask, tmp_path):
    (tmp_path / "ck").mkdir()
    (tmp_path / ".ckptd.toml").write_text('directory = "ck"\nepochs = 90\n')
    found = ask(("user-file", ".ckptd.toml"))
    assert (found["directory"], found["located_by"]) == (str(tmp_path / "ck"), "user-file")
    assert found["user_settings"]["epochs"] == 90


HOSTILE_FILES = {
    "no TOML": b"directory = [",
    "no text": b"\xff\xfe",
    "very large": b"#" * 100_000,
    "another type": b"directory = 7",
    "a NUL": b'directory = "a\\u0000b"',
    "a date": b"when = 2026-01-01",
    "deep nesting": b"a = " + b"[" * 30_000,
}


@pytest.mark.parametrize("content", HOSTILE_FILES.values(), ids=HOSTILE_FILES)
def test_a_bad_file_of_the_user_costs_only_itself(ask, tmp_path, content):
    (tmp_path / ".ckptd.toml").write_bytes(content)
    (tmp_path / "site").mkdir()
    assert ask(("user-file", ".ckptd.toml"), ("watch", "site"))["located_by"] == "watch"


def test_a_file_that_takes_long_to_read_is_not_read(ask, tmp_path):
    (tmp_path / ".ckptd.toml").write_text(f"a{'.a' * 10_000} = 1\n")
    assert "larger than" in ask(("user-file", ".ckptd.toml"))["user_settings"]["problem"]


@pytest.mark.parametrize("key", ["", "keep.", "keep.last.", "prune_files."])
def test_a_file_with_tables_far_inside_one_another_is_refused_at_any_depth(tmp_path, key):
    """Python builds the tables of dotted keys without a limit, but encodes them only as deep as its stack allows."""
    first = 1 + key.count(".")
    for depth in (*range(first, 50), *range(50, 1000, 10), 995, 999, 1000):
        (tmp_path / USER_FILE.path).write_text(f"{key}{'.'.join('a' * (depth - first + 1))} = 1\n")
        found = user_file.read_user_file(str(tmp_path), problems := [], ["/"])
        is_refused = depth > user_file.MAX_USER_FILE_DEPTH
        assert (found.keys() == {"problem"}, len(problems)) == (is_refused, int(is_refused)), depth


def test_a_working_directory_that_is_not_there_is_no_word_that_nothing_is_wished(ask, tmp_path):
    assert ask(("user-file", ".ckptd.toml"))["user_settings"] == {}
    tmp_path.rmdir()
    try:
        assert "No such file" in ask(("user-file", ".ckptd.toml"))["user_settings"]["problem"]
    finally:
        tmp_path.mkdir()


def test_a_user_file_that_is_a_link_or_a_fifo_is_not_opened(ask, tmp_path):
    (tmp_path / ".ckptd.toml").symlink_to("/etc/passwd")
    assert ask(("user-file", ".ckptd.toml"))["problems"]
    (tmp_path / ".ckptd.toml").unlink()
    os.mkfifo(tmp_path / ".ckptd.toml")
    assert ask(("user-file", ".ckptd.toml"))["problems"]


def make_checkpoint(path, modified_ns):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x08\x00\x00\x00\x00\x00\x00\x00{}      ")
    os.utime(path, ns=(modified_ns, modified_ns))


def test_a_look_around_finds_what_was_written_since_the_run_began(ask, tmp_path):
    make_checkpoint(tmp_path / "old/epoch_1.safetensors", 1000)
    make_checkpoint(tmp_path / "new/epoch_1.safetensors", 3000)
    assert ask(("discovery", "."), since_ns=2000)["directory"] == str(tmp_path / "new")
    assert ask(("discovery", "."), since_ns=4000)["directory"] is None


def test_for_a_job_that_is_over_a_look_around_finds_what_was_written_while_it_ran(ask, tmp_path):
    make_checkpoint(tmp_path / "own/epoch_1.safetensors", 3000)
    make_checkpoint(tmp_path / "later/epoch_1.safetensors", 5000)
    assert ask(("discovery", "."), since_ns=2000, until_ns=4000)["directory"] == str(tmp_path / "own")
    assert ask(("discovery", "."), since_ns=2000, until_ns=2500)["directory"] is None


def test_a_look_around_goes_above_directories_of_one_epoch_each(ask, tmp_path):
    make_checkpoint(tmp_path / "out/epoch_1/weights.safetensors", 3000)
    make_checkpoint(tmp_path / "out/epoch_2/weights.safetensors", 4000)
    assert ask(("discovery", "."))["directory"] == str(tmp_path / "out")


def test_a_look_around_leaves_other_runs_directories_out(ask, tmp_path):
    make_checkpoint(tmp_path / "other/epoch_1.safetensors", 3000)
    assert ask(("discovery", "."), excluded=(PurePosixPath(tmp_path / "other"),))["directory"] is None


def test_a_look_around_tells_when_what_it_found_was_written(ask, tmp_path):
    for epoch, modified_ns in ((1, 1000), (2, 3000), (3, 5000)):
        make_checkpoint(tmp_path / f"out/epoch_{epoch}.safetensors", modified_ns)
    out = {"directory": str(tmp_path / "out"), "first_ns": 3000, "newest_ns": 5000, "is_only": True}
    saves = [["epoch_3.safetensors", 3, 5000], ["epoch_2.safetensors", 2, 3000]]
    out |= {"role": "data", "is_named_for_job": False, "saves": saves}
    assert ask(("discovery", "."), since_ns=2000)["found"] == out
    make_checkpoint(tmp_path / "other/epoch_1.safetensors", 4000)
    assert ask(("discovery", "."), since_ns=2000)["found"] == out | {"is_only": False, "role": "weights"}


def test_a_directory_of_the_same_work_counts_only_where_there_is_no_other(ask, tmp_path):
    make_checkpoint(tmp_path / "shared/epoch_1.safetensors", 5000)
    shared = (PurePosixPath(tmp_path / "shared"),)
    assert ask(("discovery", "."), shared=shared)["directory"] == str(tmp_path / "shared")
    make_checkpoint(tmp_path / "own/epoch_1.safetensors", 3000)
    assert ask(("discovery", "."), shared=shared)["directory"] == str(tmp_path / "own")


def test_data_that_only_might_be_a_checkpoint_is_not_taken_for_one(ask, tmp_path):
    np.savez(tmp_path / "results.npz", a=np.zeros(3))
    assert ask(("discovery", "."))["directory"] is None
    np.savez(tmp_path / "state_step_100.npz", a=np.zeros(3))
    assert ask(("discovery", "."))["directory"] == str(tmp_path)


@pytest.mark.parametrize("name", ["state_latest.npz", "checkpoint.npz", "restart.npz"])
def test_data_that_is_named_for_what_a_program_resumes_from_counts(ask, tmp_path, name):
    np.savez(tmp_path / name, a=np.zeros(3))
    assert ask(("discovery", "."))["directory"] == str(tmp_path)


@pytest.mark.parametrize("name", ["estate.npz", "statement.npz"])
def test_data_whose_name_only_resembles_that_does_not(ask, tmp_path, name):
    np.savez(tmp_path / name, a=np.zeros(3))
    assert ask(("discovery", "."))["directory"] is None


def test_a_bounded_look_around_says_that_it_did_not_see_everything(ask, tmp_path):
    deep = tmp_path / "a/b/c/d/e/f/g"
    deep.mkdir(parents=True)
    found = ask(("discovery", "."))
    assert found["directory"] is None
    assert any("deeper" in problem for problem in found["problems"])


@pytest.mark.parametrize(("owner", "is_read"), [("self", True), ("root", True), ("another", False)])
def test_the_file_of_wishes_counts_only_from_the_jobs_user_or_root(ask, tmp_path, monkeypatch, owner, is_read):
    """In a directory where many people work others could have a job signalled, submitted again or never told of."""
    monkeypatch.setattr(os, "geteuid", lambda: 4001)
    file = tmp_path / ".ckptd.toml"
    file.write_text('signal = "TERM"\nresubmit = true\nmax_resubmits = 9\n')
    os.chown(file, {"self": 4001, "root": 0, "another": 4002}[owner], -1)
    found = ask()
    assert ("signal" in found["user_settings"]) == is_read
    assert any("belongs to uid 4002" in problem for problem in found["problems"]) != is_read


def test_a_directory_that_the_user_may_not_write_to_is_not_the_jobs(ask, tmp_path, monkeypatch):
    (tmp_path / "others").mkdir()
    monkeypatch.setattr(locating, "may_write", lambda directory: not directory.endswith("others"))
    found = ask(("comment", "others"))
    assert found["directory"] is None
    assert found["problems"] == [f"the job's user cannot write to {tmp_path}/others"]


def test_the_searches_of_one_request_list_and_read_a_directory_once(ask, tmp_path):
    for number, modified_ns in enumerate((2000, 3000, 4000)):
        make_checkpoint(tmp_path / f"task{number}/epoch_1.safetensors", modified_ns)
    memory = {}
    first = ask(("discovery", "."), memory=memory)
    assert first["directory"] == str(tmp_path / "task2")
    for path in tmp_path.glob("*/*"):
        path.unlink()
    again = ask(("discovery", "."), memory=memory, excluded=[tmp_path / "task2"], until_ns=2500)
    assert again["directory"] == str(tmp_path / "task0")
    assert (first["entry_count"], again["entry_count"]) == (6, 0)
    assert ask(("discovery", "."), memory={})["directory"] is None
    with_roles = [ask(("discovery", "."), memory=each)["found"] for each in (memory, memory)]
    assert with_roles == [first["found"]] * 2


def test_a_search_reads_no_more_names_than_it_returns_numbers_from(ask, tmp_path, monkeypatch):
    for number in range(300):
        make_checkpoint(tmp_path / f"epoch_{number}.safetensors", 1000 + number)
    names, parse = [], locating.parse_name
    monkeypatch.setattr(locating, "parse_name", lambda name: names.append(name) or parse(name))
    saves = ask(("discovery", "."))["found"]["saves"]
    assert [number for _, number, _ in saves] == list(range(299, 249, -1))
    assert len(names) == len(saves)


def test_the_name_of_each_directory_is_judged_once_for_all_jobs_that_are_searched_for(ask, tmp_path, monkeypatch):
    judged = []

    def judge(directory):
        judged.append(str(directory))
        return str(directory) == "pretrained"

    monkeypatch.setattr(searched_tree, "is_named_for_inputs", judge)
    for name in ("task1", "task2", "pretrained"):
        (tmp_path / name).mkdir()
        np.savez(tmp_path / name / "epoch_1.npz", w=np.zeros(2))
    memory = {}
    for _ in range(3):
        assert ask(("discovery", "."), memory=memory)["directory"] is not None
    assert sorted(judged) == ["pretrained", "task1", "task2"]
