"""Plan over many generated layouts whose truth is known, and count what came of it.

    python tests/fuzz/layouts.py [--layouts 200000] [--seed NAME] [--from NUMBER] [--processes 2]

Each layout is a directory of a training, with what users have beside it and do to it; tests/layouts makes it from the
seed and its number, so that a run is taken up where it ended with `--from`. It ends with 1 where a plan would tear a
set or remove what must stay, or where plans contain fewer of the sets that must go than 99 %. The smallest
counterexample of each kind is shown.
"""

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:1] = [str(HERE.parent), str(HERE.parents[1] / "daemon")]  # not this folder, whose layouts.py is no package

from layouts import examples  # noqa: E402

BATCH = 500
SHOWN = 12  # reasons why sets stay that must go


def read_options():
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("--layouts", type=int, default=200_000)
    arguments.add_argument("--seed", default=str(int(time.time())))
    arguments.add_argument("--from", type=int, default=0, dest="first")
    arguments.add_argument("--processes", type=int, default=2)
    return arguments.parse_args()


def run_all(options):
    """Run the layouts in batches over several processes; return what came of them."""
    end, began = options.first + options.layouts, time.monotonic()
    batches = [range(start, min(start + BATCH, end)) for start in range(options.first, end, BATCH)]
    tally = examples.Tally()
    with ProcessPoolExecutor(options.processes) as pool:
        for number, found in enumerate(pool.map(partial(examples.run_many, options.seed), batches), 1):
            tally.merge(found)
            for kind, choices in found.broken.items():
                print(f"{kind}: seed {choices.seed}", flush=True)
            if number % 20 == 0:
                print(
                    f"{tally.sentence()}, {time.monotonic() - began:.0f} s, up to {batches[number - 1].stop}",
                    flush=True,
                )
    return tally


def show_counterexamples(tally):
    for kind, count in tally.violations.most_common():
        print(f"\n{kind}: {count} layouts, such as")
        print(examples.show(examples.smallest(tally.broken[kind], kind)))
    for kind, count in tally.missed.most_common(SHOWN):
        print(f"\n{count} sets that must go stay: {kind}")
        print(examples.show(examples.smallest(tally.kept[kind], kind, is_missed=True)))


def main():
    options = read_options()
    print(f"seed {options.seed}", flush=True)
    tally = run_all(options)
    show_counterexamples(tally)
    print(f"\n{tally.sentence()}")
    return 1 if tally.violations or tally.recall < examples.GOAL else 0


if __name__ == "__main__":
    sys.exit(main())
