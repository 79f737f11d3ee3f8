"""A training with torch: a small model and its optimizer, one file for each epoch.

It logs its own truth: what it loaded, each save, and that it dies in the middle of one.
"""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import torch

EPOCH_SECONDS = float(os.environ["SAVE_SECONDS"])
SAVES = int(os.environ.get("SAVES") or 1_000_000)
DIRECTORY = Path("ckpt")
KILL_NOTE = Path(os.environ["TRUTH"] + ".kill")  # the next save is cut short when this is there


class FatalFile:
    """A file whose writer is killed after so many bytes."""

    def __init__(self, path, fatal_bytes):
        self._file = path.open("wb", buffering=0)
        self._left = fatal_bytes

    def write(self, data):
        data = memoryview(data).cast("B")
        self._file.write(data[: self._left])
        self._left -= len(data)
        if self._left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return len(data)

    def flush(self):
        self._file.flush()


def mark(event, **fields):
    words = [f"{name}={value}" for name, value in fields.items()]
    subprocess.run([f"{os.environ['JOBS']}/mark", event, *words], check=True)


def choose(mode):
    found = sorted(DIRECTORY.glob("epoch_*.pt"), key=lambda path: int(re.findall(r"\d+", path.name)[-1]))
    complete = [path for path in found if path.stat().st_size > int(os.environ["LARGEST_TORN"])]
    if mode == "resume":
        return complete[-1] if complete else None
    if mode == "older":
        return complete[-3]
    return None


def main(mode):
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1))
    optimizer = torch.optim.Adam(model.parameters())
    path, epoch = choose(mode), 0
    if path is not None:
        state = torch.load(path)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        epoch = state["epoch"]
    mark("program", pid=os.getpid())
    mark("loaded", path=path or "none", step=epoch)
    for _ in range(SAVES):
        for _ in range(5):
            loss = model(torch.randn(32, 64)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            time.sleep(EPOCH_SECONDS / 5)
        epoch += 1
        target = DIRECTORY / f"epoch_{epoch}.pt"
        state = {"epoch": epoch, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
        if KILL_NOTE.exists():
            mark("torn", path=target, step=epoch)
            torch.save(state, FatalFile(target, int(os.environ["LARGEST_TORN"])))
        torch.save(state, target)
        mark("saved", path=target, step=epoch)


main(sys.argv[1])
