"""A training with torch: a small model and its optimizer, one file for each epoch.

A save that fails for want of room is reported and passed over, as many training loops do.
"""

import time

import torch
import training


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1))
    optimizer = torch.optim.Adam(model.parameters())
    path, epoch = training.choose("epoch_*.pt"), 0
    if path is not None:
        state = torch.load(path)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        epoch = state["epoch"]
    training.mark_loaded(path, epoch)
    for _ in range(training.SAVES):
        for _ in range(5):
            loss = model(torch.randn(32, 64)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            time.sleep(training.EPOCH_SECONDS / 5)
        epoch += 1
        save({"epoch": epoch, "model": model.state_dict(), "optimizer": optimizer.state_dict()})


def save(state):
    epoch = state["epoch"]
    path = training.DIRECTORY / f"epoch_{epoch}.pt"
    training.die_if_told(path, epoch)
    try:
        torch.save(state, path)
    except (OSError, RuntimeError) as error:
        print(f"epoch {epoch} was not saved: {error}")
        training.mark_failed(path, epoch)
    else:
        training.mark_saved(path, epoch, path.stat().st_size)


main()
