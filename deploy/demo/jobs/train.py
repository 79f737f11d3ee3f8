"""A small real training that saves its state in the ways that people do, for the sample jobs.

A network of two layers learns a sine by gradient descent with momentum. Only numpy and safetensors are needed,
and nothing of ckptd: this is what runs on a compute node.
"""

import argparse
import contextlib
import os
import pickle
import re
import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import safetensors
import safetensors.numpy

STEPS_PER_EPOCH = 20
HIDDEN = 256
RATE = 0.05


@dataclass
class Training:
    """Everything that a restart needs."""

    epoch: int = 0
    step: int = 0
    loss: float = float("inf")
    arrays: dict[str, np.ndarray] = field(default_factory=dict)

    @classmethod
    def begin(cls) -> "Training":
        rng = np.random.default_rng()
        weights = {
            "first": rng.normal(0, 1, (1, HIDDEN)),
            "bias": rng.normal(0, 1, HIDDEN),
            "second": rng.normal(0, 1 / HIDDEN, (HIDDEN, 1)),
        }
        return cls(arrays={**weights, **{f"momentum.{name}": np.zeros_like(w) for name, w in weights.items()}})

    def train_step(self, inputs: np.ndarray, targets: np.ndarray) -> None:
        """Take one step down the gradient of the mean squared error."""
        first, bias, second = (self.arrays[name] for name in ("first", "bias", "second"))
        hidden = np.tanh(inputs @ first + bias)
        error = hidden @ second - targets
        back = (error @ second.T) * (1 - hidden**2) / len(inputs)
        gradients = {"first": inputs.T @ back, "bias": back.sum(0), "second": hidden.T @ error / len(inputs)}
        for name, gradient in gradients.items():
            momentum = 0.9 * self.arrays[f"momentum.{name}"] - RATE / HIDDEN * gradient
            self.arrays[f"momentum.{name}"] = momentum
            self.arrays[name] = self.arrays[name] + momentum
        self.loss = float(np.mean(error**2))
        self.step += 1


# how a state becomes a file and comes back


def write_pickle(path: Path, state: Training) -> None:
    with path.open("wb") as file:
        pickle.dump({"epoch": state.epoch, "step": state.step, "loss": state.loss, "state": state.arrays}, file)


def read_pickle(path: Path) -> Training:
    with path.open("rb") as file:
        saved = pickle.load(file)
    return Training(saved["epoch"], saved["step"], saved["loss"], saved["state"])


def write_npz(path: Path, state: Training) -> None:
    with path.open("wb") as file:
        np.savez(file, epoch=state.epoch, step=state.step, loss=state.loss, **state.arrays)


def read_npz(path: Path) -> Training:
    with np.load(path) as saved:
        arrays = {name: saved[name] for name in saved.files}
    return Training(int(arrays.pop("epoch")), int(arrays.pop("step")), float(arrays.pop("loss")), arrays)


def write_safetensors(path: Path, state: Training) -> None:
    facts = {"epoch": str(state.epoch), "step": str(state.step), "loss": str(state.loss)}
    safetensors.numpy.save_file(state.arrays, path, metadata=facts)


def read_safetensors(path: Path) -> Training:
    with safetensors.safe_open(path, framework="numpy") as saved:
        facts = saved.metadata()
        arrays = {name: saved.get_tensor(name) for name in saved.keys()}  # noqa: SIM118 - it is no mapping
    return Training(int(facts["epoch"]), int(facts["step"]), float(facts["loss"]), arrays)


FORMATS = {
    "pickle": (write_pickle, read_pickle),
    "npz": (write_npz, read_npz),
    "safetensors": (write_safetensors, read_safetensors),
}


class Saver:
    """Saves and finds checkpoints as the options say."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._directory = Path(options.directory)
        self._write, self._read = FORMATS[options.format]
        self._best_loss = float("inf")

    def save(self, state: Training) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        path = self._directory / self._options.name.format(epoch=state.epoch, step=state.step)
        if self._options.backup:
            self._replace_with_backup(path, state)
        else:
            self._write_and_rename(path, state)
        if self._options.best and state.loss < self._best_loss:
            self._best_loss = state.loss
            self._write_and_rename(self._directory / self._options.best, state)
        if self._options.marker:
            (self._directory / self._options.marker).write_text(f"{path.name}\n")
        if self._options.keep:
            for old in self._list_saved()[self._options.keep :]:
                old.unlink(missing_ok=True)
        print(f"saved {path} at epoch {state.epoch}, loss {state.loss:.6f}", flush=True)

    def load_newest(self) -> Training | None:
        """Load the newest checkpoint that can be read, a backup included."""
        for path in self._list_saved():
            try:
                state = self._read(path)
            except Exception as error:  # noqa: BLE001 - each format has its own words for a torn file
                print(f"cannot read {path}: {error}", flush=True)
                continue
            print(f"resumed from {path} at epoch {state.epoch}", flush=True)
            return state
        return None

    def _replace_with_backup(self, path: Path, state: Training) -> None:
        backup = path.with_name(f"{path.name}.backup")
        if path.exists():
            path.replace(backup)
        self._write(path, state)
        backup.unlink(missing_ok=True)

    def _write_and_rename(self, path: Path, state: Training) -> None:
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        self._write(temporary, state)
        temporary.replace(path)

    def _list_saved(self) -> list[Path]:
        pattern = re.sub(r"\{\w+\}", "*", self._options.name)
        written = {}
        for path in self._directory.glob(f"{pattern}*"):
            with contextlib.suppress(FileNotFoundError):  # another job in this directory has removed it meanwhile
                written[path] = path.stat().st_mtime_ns
        return sorted(written, key=written.__getitem__, reverse=True)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--format", choices=FORMATS, required=True)
    parser.add_argument("--directory", default=".", help="where checkpoints go")
    parser.add_argument("--name", required=True, help="of a checkpoint; may hold {epoch} and {step}")
    parser.add_argument("--epochs", type=int, default=1000, help="train until this epoch")
    parser.add_argument("--at-most", type=int, help="train no more than so many epochs in this process")
    parser.add_argument("--save-every", type=int, default=1, help="epochs; 0 never saves")
    parser.add_argument("--keep", type=int, help="keep only the newest so many")
    parser.add_argument("--best", help="name of the file that holds the best model")
    parser.add_argument("--marker", help="name of the file that names the newest checkpoint")
    parser.add_argument("--backup", action="store_true", help="keep the old file as NAME.backup during a save")
    parser.add_argument("--from-zero", action="store_true", help="do not look for a checkpoint")
    parser.add_argument("--save-on-signal", action="store_true", help="save and end when TERM comes")
    parser.add_argument("--epoch-seconds", type=float, default=float(os.environ.get("EPOCH_SECONDS", "5")))
    return parser.parse_args()


def main() -> int:
    options = parse_options()
    asked_to_end: list[int] = []
    if options.save_on_signal:
        signal.signal(signal.SIGTERM, lambda number, _: asked_to_end.append(number))
    saver = Saver(options)
    state = (None if options.from_zero else saver.load_newest()) or Training.begin()
    last_epoch = min(options.epochs, state.epoch + (options.at_most or options.epochs))
    inputs = np.linspace(-3, 3, 64)[:, None]
    targets = np.sin(inputs)
    while state.epoch < last_epoch:
        state.train_step(inputs, targets)
        time.sleep(options.epoch_seconds / STEPS_PER_EPOCH)
        state.epoch, rest = divmod(state.step, STEPS_PER_EPOCH)
        is_due = rest == 0 and options.save_every and state.epoch % options.save_every == 0
        if is_due or asked_to_end:
            saver.save(state)
        if asked_to_end:
            break
    return 0


if __name__ == "__main__":
    sys.exit(main())
