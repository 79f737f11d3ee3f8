"""Assembles checkpoints of files that no process has open, as tests write them.

For each damaged checkpoint the real function asks /proc of every process of the host what it has open: most of the
time of a test that reads one small file. That it asks, and what it says then, is shown in checkpoints/test_inspection.
"""

from unittest import mock

from ckptd.checkpoints.scanning import recognition


def assemble(claims, examinations, **facts):
    with mock.patch.object(recognition, "list_open_for_writing", return_value=frozenset()):
        return tuple(recognition.assemble(claims, examinations, **facts))
