"""What the users of users_play.py do to their files by hand, at random moments."""

import os
from dataclasses import replace

from fuzz.user_world import HARD_LINK, MOVED_ASIDE, NOTES, RENAMED, copy_tree, list_roots, make_parents, set_times
from layouts.beside import DATA
from support.prune_facts import UID, own

SEEN_AFTER = 10  # minutes
GAP = 40  # minutes between two acts in a training, on average


class Hands:
    """The users. Each act notes in the world what is true from then on."""

    def __init__(self, world, seed):
        self._world, self._seed = world, seed
        self._later = []  # what is undone at which minute
        self.counts = {}

    def act(self, minutes):
        """Do what comes up in so many minutes, in any training."""
        for due, undo in [each for each in self._later if each[0] <= self._world.minute]:
            self._later.remove((due, undo))
            undo()
        for training in self._world.trainings:
            if self._seed.random() < minutes / GAP:
                name = self._seed.choice(ACTS)
                if getattr(self, f"_{name}")(training):
                    self.counts[name] = self.counts.get(name, 0) + 1

    def _choose(self, training):
        """Choose a complete save that scans have seen and nobody has touched; often the newest."""
        seen_until = self._world.minute - SEEN_AFTER
        found = [each for each in training.list_complete() if each.kept_by is None and each.ended_at < seen_until]
        if not found:
            return None
        return found[-1] if self._seed.random() < 0.3 else self._seed.choice(found)

    def _in(self, minutes, undo):
        self._later.append((self._world.minute + self._seed.randint(*minutes), undo))

    def _rename(self, training):
        save = self._choose(training)
        return save and self._move(save, lambda path: path.with_name(f"keep_{path.name}"), RENAMED)

    def _move_aside(self, training):
        save, top = self._choose(training), training.directory
        return save and self._move(save, lambda path: top / "good" / path.relative_to(top), MOVED_ASIDE)

    def _move(self, save, find_target, by):
        places = {root: find_target(root) for root in list_roots(save, self._world.list_others(save))}
        if any(target.exists() for target in places.values()):
            return False
        for root, target in places.items():
            make_parents(target)
            root.rename(target)
        save.files = {_place(path, places): data for path, data in save.files.items()}
        save.kept_by = by
        self._world.note(f"{save.name} is {by} to {list(places.values())}")
        return True

    def _copy(self, training):
        save, top = self._choose(training), training.directory
        if save is None or training.framework.is_fixed:
            return False
        roots = list_roots(save, self._world.list_others(save))
        places = {root: top / "good" / root.relative_to(top) for root in roots}
        if any(target.exists() for target in places.values()):
            return False
        keeps_times = self._seed.random() < 0.5
        for root, target in places.items():
            copy_tree(root, target, keeps_times=keeps_times)
            if not keeps_times:
                set_times(target, self._now())
        files = {_place(path, places): data for path, data in save.files.items()}
        self._add_copy(save, files, f"copied{' with its times' * keeps_times}")
        return True

    def _copy_back(self, training):
        """Copy what ckptd has pruned to where it was."""
        found = [each for each in training.saves if each.gone_by == "ckptd" and each.is_complete]
        found = [each for each in found if not any(path.exists() for path in each.files)]
        if not found:
            return False
        save = self._seed.choice(found)
        keeps_times = self._seed.random() < 0.5
        at = self._world.at(save.ended_at).timestamp() if keeps_times else self._now()
        for path, data in save.files.items():
            make_parents(path)
            path.write_bytes(data)
            own(path)
            set_times(path, at)
        self._add_copy(save, dict(save.files), f"copied back{' with its times' * keeps_times}")
        return True

    def _add_copy(self, save, files, by):
        is_from_trash = save.gone_by is not None
        self._world.copies.append(
            replace(save, files=files, kept_by=by, gone_by=None, original=save, is_from_trash=is_from_trash)
        )
        self._world.note(f"{save.name} is {by}, to {next(iter(files))}")

    def _take_away(self, training):
        """Move a save out of its run's directory, and bring it back later."""
        save, top = self._choose(training), training.directory
        if save is None:
            return False
        away = self._world.root / f"away{self._world.minute}"
        places = {root: away / root.relative_to(top) for root in list_roots(save, self._world.list_others(save))}
        for root, target in places.items():
            make_parents(target)
            root.rename(target)
        save.is_away, save.left_at = True, self._world.minute
        self._world.note(f"{save.name} is taken away")

        def bring_back():
            if save.gone_by is not None or any(root.exists() for root in places):
                save.gone_by = save.gone_by or "left elsewhere"
                return
            for root, target in places.items():
                make_parents(root)
                target.rename(root)
            save.is_away = False
            self._world.note(f"{save.name} is brought back")

        self._in((30, 200), bring_back)
        return True

    def _link(self, training):
        save = self._choose(training)
        if save is None:
            return False
        link = training.directory / f"favourite{self._world.minute}"
        link.symlink_to(self._seed.choice(list_roots(save, self._world.list_others(save))))
        os.chown(link, UID, -1, follow_symlinks=False)
        self._world.links[link] = save
        self._world.note(f"{save.name} is linked")

        def unlink():
            link.unlink()
            del self._world.links[link]
            self._world.note(f"{save.name} is not linked any more")

        self._in((100, 2000), unlink)
        return True

    def _hard_link(self, training):
        save = self._choose(training)
        if save is None:
            return False
        path = self._seed.choice(list(save.files))
        target = self._world.root / f"hard{self._world.minute}-{training.number}"
        os.link(path, target)
        save.kept_by = HARD_LINK
        self._world.note(f"{path} has a hard link")
        return True

    def _annotate(self, training):
        save = self._choose(training)
        roots = [root for root in list_roots(save, self._world.list_others(save)) if root.is_dir()] if save else ()
        if not roots or self._world.minute - save.ended_at <= 10:
            return False
        path = roots[0] / NOTES
        path.write_text("the good one\n")
        own(path)
        set_times(path, self._now())
        self._world.data.add(path)
        save.kept_by = "notes beside it"
        self._world.note(f"{path} is written")
        return True

    def _name(self, training):
        save = self._choose(training)
        if save is None:
            return False
        job = self._world.name(save)
        self._in((60, 900), lambda: self._world.named.pop(job))
        return True

    def _delete(self, training):
        save = self._choose(training)
        if save is None or save is training.resumed:
            return False
        self._world.remove(save, "deleted")
        return True

    def _add_data(self, training):
        """Put data, exports or an ensemble beside the saves."""
        if self._seed.random() < 0.7:
            return False
        name = self._seed.choice(list(DATA))
        files = {training.directory / path: data for path, data in DATA[name](4).items()}
        if any(path.exists() for path in files):
            return False
        for path, data in files.items():
            make_parents(path)
            path.write_bytes(data)
            own(path)
            set_times(path, self._now())
        self._world.data |= set(files)
        self._world.note(f"{name} are put into {training.directory.name}")
        return True

    def _now(self):
        return self._world.at(self._world.minute).timestamp()


def _place(path, places):
    """Return where a file is after its root has been moved or copied."""
    root = next(each for each in (path, *path.parents) if each in places)
    return places[root] / path.relative_to(root)


ACTS = (
    "rename",
    "move_aside",
    "copy",
    "copy_back",
    "copy_back",
    "take_away",
    "link",
    "hard_link",
    "annotate",
    "name",
    "delete",
    "add_data",
)
