"""Prints judgements as tables: counts by subject and by run, delays of flags, and every wrong statement."""

import re
from collections import Counter
from itertools import groupby

from programs.judge import Verdict

_HEAD = f"{'':44}" + "".join(f"{verdict:>8}" for verdict in Verdict) + "   right"


def print_summary(number, count, judgements, seconds):
    """Print how one group of runs went."""
    found = Counter(each.verdict for each in judgements)
    told = ", ".join(f"{found[verdict]} {verdict}" for verdict in Verdict)
    print(f"group {number} of {count}: {told}, after {seconds / 60:.0f} min", flush=True)


def print_report(judgements):
    """Print everything; return the number of wrong statements."""
    _print_counts("statement", judgements, lambda each: re.sub(r" of \d+$", "", each.subject))
    _print_counts("run", judgements, lambda each: each.run)
    print("\nflags that had to open                        delay")
    for each in judgements:
        if each.delay is not None:
            print(f"{each.run + ': ' + each.subject.partition(': ')[2]:44}{each.delay:>6.0f} s  {each.verdict}")
    for verdict in (Verdict.HEDGED, Verdict.WRONG):
        chosen = Counter(
            (each.run, each.subject, each.said, each.true) for each in judgements if each.verdict is verdict
        )
        print(f"\n{verdict}: {sum(chosen.values())}")
        for (run, subject, said, true), count in chosen.items():
            print(f"  {run}: {subject}{f' ({count} times)' if count > 1 else ''}\n    said {said}\n    true {true}")
    return sum(each.verdict is Verdict.WRONG for each in judgements)


def _print_counts(title, judgements, key):
    print(f"\n{title}\n{_HEAD}")
    for name, group in groupby(sorted(judgements, key=key), key=key):
        _print_line(name, list(group))
    _print_line("all", judgements)


def _print_line(name, judgements):
    counts = Counter(each.verdict for each in judgements)
    share = counts[Verdict.RIGHT] / len(judgements)
    print(f"{name:44}" + "".join(f"{counts[verdict]:>8}" for verdict in Verdict) + f"{share:>8.1%}")
