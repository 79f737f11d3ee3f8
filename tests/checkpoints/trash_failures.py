"""Lets a move to the trash fail at each of its system calls, and checks what is left."""

import os
from pathlib import PurePosixPath

from ckptd.checkpoints import trash
from ckptd.checkpoints.trash import TrashResult
from support.trash_facts import NOW, as_user, read_files, request, write


def fail_at_each_step(directory, shape, number, words):
    """Let each step fail with this error, of which the outcome must say these words; return how many there are."""
    write(directory, shape, 1)
    before = read_files(directory)

    def fail_at(failing):
        names = []

        def step(name):
            names.append(name)
            if len(names) == failing:
                raise OSError(number, os.strerror(number))

        asked = request(directory, shape, 1, act_id=f"act-{failing}")
        return trash.move_aside(asked, now=NOW, step=step), len(names)

    failing = 1
    while True:
        outcome, steps = as_user(lambda at=failing: fail_at(at))
        if steps < failing:
            break
        if outcome.result is TrashResult.FAILED:
            assert words in outcome.reason
            assert read_files(directory) == before
        else:
            for place in trash.list_places(PurePosixPath(directory)):
                as_user(lambda where=place: trash.recover(where))
                as_user(lambda where=place, at=failing: trash.restore(where, f"act-{at}"))
            assert read_files(directory) == before
        failing += 1
    assert outcome.result is TrashResult.MOVED
    return failing - 1
