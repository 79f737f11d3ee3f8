"""Kills an act of the trash at each of its steps, and its recovery, too, and checks what is left."""

from pathlib import PurePosixPath

from ckptd.checkpoints import trash
from ckptd.checkpoints.trash import EntryState, TrashResult
from support.trash_facts import (
    NOW,
    Killer,
    as_user,
    in_child,
    is_killed,
    read_files,
    released,
    request,
    scratch,
    write,
)

OLD, NEWEST = 1, 2


def prepare(directory, shape):
    old = write(directory, shape, OLD)
    newest = write(directory, shape, NEWEST)
    return old, newest, PurePosixPath(directory.parent, trash.TRASH)


def recover_and_check(directory, place, old, newest, *, may_be_gone=False):
    """Start anew as a daemon does; say where the old checkpoint is, having seen that all is well."""
    # one child does it all: to fork one costs more than what it does
    outcomes, entries, state, more = as_user(
        lambda: (trash.recover(place), trash.list_trash(place), trash.look_up(place, "act-1"), trash.recover(place))
    )
    found = _find(directory, entries, state, old, newest, may_be_gone=may_be_gone)
    for outcome in outcomes:
        assert (outcome.act_id, outcome.result in SAYS[found]) == ("act-1", True)
    assert more == ()
    return found


def _find(directory, entries, state, old, newest, *, may_be_gone):
    files = read_files(directory)
    assert {name: files.get(name) for name in newest} == newest
    there = {name: files[name] for name in old if name in files}
    if not entries:
        assert there == old or (may_be_gone and not there)
        assert state is None
        return "there" if there else "gone"
    (entry,) = entries
    assert (entry.act_id, entry.state, state) == ("act-1", EntryState.HELD, EntryState.HELD)
    assert there == {}
    return "held"


def check_it_comes_back(directory, place, old, newest):
    outcome = as_user(lambda: trash.restore(place, "act-1"))
    assert (outcome.result, outcome.reason) == (TrashResult.RESTORED, None)
    assert read_files(directory) == {**old, **newest}


ACTS = {
    "move": lambda asked, _place, step: trash.move_aside(asked, now=NOW, step=step),
    "restore": lambda _asked, place, step: trash.restore(place, "act-1", step=step),
    "delete": lambda _asked, place, step: trash.empty(place, ["act-1"], released(), step=step),
}
SAYS = {"there": {TrashResult.UNDONE, TrashResult.RESTORED}, "held": {TrashResult.MOVED}, "gone": {TrashResult.DELETED}}


def kill_at(act, shape, at, recovery_at=None):
    """Kill one act at one step, and its recovery at another; return whether the first was killed, and the second."""
    with scratch() as directory:
        old, newest, place = prepare(directory, shape)
        asked = request(directory, shape, OLD)

        def begin():
            if act != "move":
                assert trash.move_aside(asked, now=NOW).result is TrashResult.MOVED
            ACTS[act](asked, place, Killer(at))

        status = in_child(begin)
        killed = is_killed(status)
        assert killed or status == 0
        again = recovery_at is not None and is_killed(in_child(lambda: trash.recover(place, step=Killer(recovery_at))))
        found = recover_and_check(directory, place, old, newest, may_be_gone=act == "delete")
        if found == "held":
            check_it_comes_back(directory, place, old, newest)
        return killed, again


def kill_at_each_step(act, shape):
    """Return how many steps there are."""
    kills = 0
    while kill_at(act, shape, kills)[0]:
        kills += 1
    return kills


def kill_recovery_at_each_step(act):
    """Kill the recovery at each step after a kill of the act at each step; return how often that was."""
    kills = 0
    for at in range(100):
        for recovery_at in range(100):
            killed, again = kill_at(act, "set", at, recovery_at)
            if not again:
                break
            kills += 1
        if not killed:
            break
    return kills
