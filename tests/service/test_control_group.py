"""The memory of the service against its limit, as control groups of version 2 show it."""

import pytest

from ckptd.service.control_group import read_memory

STAT = "anon 1000\nfile 9000000\nshmem 20\nslab_unreclaimable 3\nkernel_stack 4\npagetables 5\n"


@pytest.fixture
def groups(tmp_path):
    own = tmp_path / "root/system.slice/ckptd.service"
    own.mkdir(parents=True)
    (tmp_path / "cgroup").write_text("0::/system.slice/ckptd.service\n")
    (own / "memory.max").write_text("4000\n")
    (own / "memory.stat").write_text(STAT)
    return tmp_path


def read(groups):
    return read_memory(groups / "cgroup", groups / "root")


def test_what_the_kernel_can_drop_does_not_count(groups):
    memory = read(groups)
    assert (memory.used_bytes, memory.limit_bytes) == (1032, 4000)


def test_a_slice_above_may_have_the_lower_limit(groups):
    (groups / "root/system.slice/memory.max").write_text("2000\n")
    assert read(groups).limit_bytes == 2000


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("root/system.slice/ckptd.service/memory.max", "max"),
        ("root/system.slice/ckptd.service/memory.stat", "anon x"),
        ("cgroup", "3:memory:/ckptd\n"),
    ],
)
def test_without_a_limit_or_an_answer_there_is_no_metric(groups, name, text):
    (groups / name).write_text(text)
    assert read(groups) is None


def test_on_this_host_reading_never_fails():
    read_memory()
