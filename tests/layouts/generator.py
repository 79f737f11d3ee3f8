"""Makes a directory with its truth out of choices: a training, what lies beside it, and what people do to it."""

from dataclasses import replace

from ckptd.core.model import Role
from layouts import beside
from layouts.saving import GAP, add_trainings
from layouts.world import Copy, Rename, Save, World
from support import checkpoint_bytes as files


def generate(choices):
    """Return the world of these choices."""
    world = World()
    if choices.flip("training", 0.9):
        add_trainings(world, choices)
        _add_inside(world, choices)
        _add_fixed(world, choices)
        _add_links(world, choices)
        _act_by_hand(world, choices)
    for number in range(choices.pick("data beside", 0, 0, 1, 1, 2)):
        _add_data(world, choices, number)
    return world


def _add_data(world, choices, number):
    known = {**beside.DATA, **beside.EXPORTS}
    name = choices.pick(f"data {number}", *known)
    count = choices.pick(f"data {number}: files", 3, 2, 5, 12)
    taken = world.files()
    added = {path: data for path, data in known[name](count).items() if path not in taken}
    gap = GAP if choices.flip(f"data {number}: written during the run", 0.5) else 1.0
    times = {path: gap * at + gap / 2 for at, path in enumerate(added)}  # what is written with a save is a part of it
    world.ends_at = max(world.ends_at, gap * len(added) + 1)
    if name in beside.DATA:
        world.data.update({path: (data, times[path]) for path, data in added.items()})
        return
    world.saves += [
        Save(
            series=name,
            files={path: data},
            at=times[path],
            times={path: times[path]},
            progress=at,
            role=Role.WEIGHTS,
            is_proven=False,
        )
        for at, (path, data) in enumerate(added.items())
    ]


def _add_inside(world, choices):
    """Add what tools write into the directories of saves.

    A framework's reader takes the whole directory for one checkpoint: with a stranger in it, it need not go.
    """
    name = choices.pick("inside the directories", *[None] * 8, *beside.INSIDE)
    if name is None:
        return
    for number, save in enumerate(world.saves):
        directories = {path.partition("/")[0] for path in save.files}
        is_own = len(directories) == 1 and all("/" in path for path in save.files)
        if is_own and not any(
            path.startswith(f"{min(directories)}/")
            for other in world.saves
            if other is not save
            for path in other.files
        ):
            place = min(directories)
            world.data.update(
                (f"{place}/{path}", (data, save.written_at)) for path, data in beside.INSIDE[name](2).items()
            )
            world.saves[number] = replace(save, is_proven=save.is_proven and choices.shown.get("framework") is None)


def _add_fixed(world, choices):
    """Add a file that each save overwrites, beside the numbered ones."""
    name = choices.pick("overwritten beside", *[None] * 6, "last.pt", "best.pt", "model_best.pth.tar", "last.ckpt")
    if name is None or world.saves[-1].role is not Role.STATE:
        return
    newest = world.saves[-1]
    make = files.lightning_state if name.endswith("ckpt") else files.torch_state
    content = {name: make(None, int(newest.progress))}
    times = {name: newest.written_at + 1}
    fixed = Save(
        series=name,
        files=content,
        at=newest.at,
        times=times,
        progress=newest.progress,
        attempt=newest.attempt,
        is_fixed=True,
    )
    world.saves.append(fixed)


def _add_links(world, choices):
    """Let links name saves, which must stay then."""
    kind = choices.pick("link", *[None] * 5, "best.pt", "latest", "for_paper", "links/best")
    trained = [save for save in world.saves if save.series.startswith("training")]
    if kind is None or not trained or trained[0].is_fixed or any(kind in save.files for save in world.saves):
        return
    meant = trained[-1] if kind == "latest" else trained[choices.between("linked save", 0, len(trained) - 1)]
    file = min(meant.members)
    is_of_directory = "/" in file and choices.flip("link to the directory", 0.5)
    target = file.rpartition("/")[0] if is_of_directory else file
    world.links[kind] = f"../{target}" if "/" in kind else target
    below = f"{target}/"
    world.protect(f"{kind} is a link to it", lambda save: any(f"{path}/".startswith(below) for path in save.files))


def _act_by_hand(world, choices):
    """Let a person rename, move or copy a save, or copy one back that was pruned."""
    kind = choices.pick("by hand", *[None] * 7, "rename", "move", "copy", "copy back")
    trained = [save for save in world.saves if save.series.startswith("training") and save.is_complete]
    if kind is None or not trained or trained[0].is_fixed or world.links:
        return
    if kind == "copy back":
        world.is_copied_back = True
        return
    act = {"rename": _rename, "move": _move, "copy": _copy}[kind]
    for number in range(choices.pick("by hand: how many", 1, 2)):
        meant = trained[choices.between(f"by hand: save {number}", 0, len(trained) - 1)]
        _do(world, meant, act)


def _do(world, save, act):
    taken = {each.source for each in world.by_hand}
    tops = sorted({path.partition("/")[0] for path in save.files})
    shared = {path.partition("/")[0] for other in world.saves if other is not save for path in other.files}
    if set(tops) & (shared | taken):  # rank directories above the step: each file on its own
        tops = sorted(save.files)
    world.by_hand += [act(top) for top in tops if top not in taken]


def _rename(path):
    parent, slash, name = path.rpartition("/")
    return Rename(path, f"{parent}{slash}keep_{name}")


def _move(path):
    return Rename(path, f"good/{path}")


def _copy(path):
    return Copy(path, f"good/{path}")
