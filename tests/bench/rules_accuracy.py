"""How right the health rules are on a made-up cluster whose truth is known: `python tests/bench/rules_accuracy.py`.

Runs weeks of cluster life through the daemon's own decisions and prints recall and precision of each rule, false flags
per 1,000 job-days, the error of the forecasts, and how often at-risk came in time.
"""

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from simulation import score
from simulation.observer import Watch
from simulation.world import make_world


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--days", type=float, default=21)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", help="print the false and missed cases of this rule")
    options = parser.parse_args()
    before = time.process_time()
    watch = Watch(make_world(options.seed, run_count=options.runs, days=options.days), seed=options.seed).watch()
    spent = time.process_time() - before
    for line in score.describe(watch):
        print(line)
    each = spent / watch.evaluation_count * 1e6
    print(f"{options.days:g} days in {spent:.1f} s of processor time, {each:.0f} us for each decision")
    if options.show:
        show(watch, options.show)


def show(watch, rule):
    if rule == "at-risk":
        notice = score.score_at_risk(watch)
        for run, execution, lost, opened in notice.late:
            print("late", run.number, run.kind, round(run.interval), run.jitter, execution, round(lost), opened)
        for run, flag in (*notice.warnings.wrong, *notice.criticals.wrong):
            print("false", run.number, run.kind, round(run.interval), run.jitter, flag)
        return
    counts = score.score_rules(watch)[rule]
    for run, opened, resolved, episodes in counts.wrong:
        print("false", run.number, run.kind, round(opened), round(resolved), episodes)
    for run, begin, end in counts.missed:
        print("missed", run.number, run.kind, round(begin), round(end))


if __name__ == "__main__":
    main()
