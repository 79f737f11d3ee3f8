"""How right the health rules are on a made-up cluster whose truth is known: `python tests/bench/rules_accuracy.py`.

Runs weeks of cluster life through the daemon's own decisions, on all processors, and prints recall and precision of
each rule, false flags per 1,000 job-days, the error of the forecasts, how often at-risk came in time, and how often
what it called probable came true. A run is judged where a look may have shown something new, and where time alone
changes what is found (`simulation/observer.py`); `--compare` looks and judges at every tick as well and prints by how
much the flags differ.
"""

import argparse
import functools
import operator
import sys
import time
from collections import Counter
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parent.parent))

from ckptd.core.model import JobState
from simulation import score, together
from simulation.comparison import compare


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--ordinary", type=int, help="jobs that never meant to checkpoint; twice as many as runs")
    parser.add_argument("--days", type=float, default=14)
    parser.add_argument("--seed", type=int, nargs="+", default=[1], help="several are added up")
    parser.add_argument("--processes", type=int, help="at once; as many as there are processors")
    parser.add_argument("--scripts", action="store_true", help="the site lets batch scripts be read")
    parser.add_argument("--every-tick", action="store_true", help="judge each run at every look")
    parser.add_argument("--compare", action="store_true", help="do both, and compare the flags")
    parser.add_argument("--show", nargs="*", default=(), help="print the false and missed cases of these rules")
    options = parser.parse_args()
    before = time.monotonic()
    outcomes = {}
    try:
        watch_worlds(options, outcomes)
    except KeyboardInterrupt:
        print(f"stopped; this is of seeds {', '.join(map(str, outcomes))}")
    if not outcomes:
        return
    whole = functools.reduce(operator.add, outcomes.values())
    results = {seed: outcome.result for seed, outcome in outcomes.items()}
    spent = f"{time.monotonic() - before:.1f} s, {whole.spent:.1f} s of processor time"
    print(f"{options.days:g} days in {spent}, {whole.spent / whole.result.looks * 1e6:.0f} us for each look at a run")
    for line in describe(whole.result):
        print(line)
    if len(results) > 1:
        for line in worst(results):
            print(line)
    if options.compare:
        say_difference(whole, functools.reduce(operator.add, watch_worlds(options, {}, is_always=True).values()))


def watch_worlds(options, outcomes, *, is_always=False):
    worlds = [
        together.World(
            seed=seed,
            run_count=options.runs,
            ordinary_count=2 * options.runs if options.ordinary is None else options.ordinary,
            days=options.days,
            is_always=is_always or options.every_tick,
            reads_scripts=options.scripts,
        )
        for seed in options.seed
    ]
    for world, outcome in together.watch_all(worlds, options.processes):
        outcomes[world.seed] = outcome
        if len(worlds) > 1:
            print(f"seed {world.seed}: {summary(outcome.result)}", flush=True)
        for rule in options.show:
            show(outcome.result, rule)
    return outcomes


def say_difference(thinned, whole):
    found = compare(thinned.flags, whole.flags)
    print(
        f"judged at every look, {whole.spent:.1f} s of processor time, {whole.result.decisions} decisions: of "
        f"{found.total} flags {found.same} are the same to the instant, {found.near} within two looks, "
        f"{len(found.only_first)} only without and {len(found.only_second)} only with every look"
    )
    for name, flags in (("without", found.only_first), ("with", found.only_second)):
        for (seed, run), flag in flags[:20]:
            told = f"{flag.finding.severity} of job {flag.finding.job_id}, {flag.opened_at} to {flag.resolved_at}"
            print(f"  only {name}: seed {seed} run {run} {flag.finding.rule} {told}")


def describe(result):
    """Return the figures as lines."""
    notice, days = result.notice, result.days
    yield (
        f"{result.runs} runs, {result.attempts} attempts, {days:.0f} job-days; each was looked at every 5 minutes, "
        f"{result.looks} times, and judged {result.decisions} times"
    )
    yield f"{'rule':<32}{'episodes':>9}{'recall':>8}{'flags':>7}{'precision':>10}{'false/1000 job-days':>21}"
    for rule in (*score.CRITICAL_RULES, *score.OTHER_RULES):
        yield line_of(rule, result.rules[rule], days)
    every = notice.infos
    yield line_of(
        "at-risk", score.Counts(notice.announced, notice.predictable, every.right, every.flags, every.wrong), days
    )
    yield line_of("at-risk, warning or critical", notice.warnings, days)
    yield line_of("at-risk, critical", notice.criticals, days)
    wrong = sum(len(counts.wrong) for counts in result.rules.values()) + len(notice.warnings.wrong)
    yield from describe_ordinary(result.ordinary)
    yield from describe_lost(result.lost)
    yield f"false flags per 1,000 job-days, all rules, at-risk from warning on: {wrong / days * 1000:.1f}"
    yield (
        f"limit took work in {notice.cases} attempts; predictable in {notice.predictable}: announced "
        f"{share_of(notice.announced, notice.predictable)}, with one interval's notice "
        f"{share_of(notice.in_time, notice.predictable)}, by a warning rather than an info "
        f"{share_of(notice.warned_in_time, notice.predictable)}, and mailed by then "
        f"{share_of(notice.mailed_in_time, notice.predictable)}; of the {notice.cases - notice.predictable} others "
        f"announced {share_of(notice.unpredictable_announced, notice.cases - notice.predictable)}"
    )
    yield from describe_calibration("flags when they opened", notice.opened_chances)
    yield from describe_calibration("warnings when they were one first", notice.warned_chances)
    own_end, silent = explain(notice.warnings.wrong)
    yield (
        f"of at-risk's {len(notice.warnings.wrong)} false warnings {own_end} were of jobs that ended by themselves, "
        f"{silent} of jobs that saved when their limit was near; left out are {notice.on_edge} attempts whose loss was "
        f"within {score.EDGE:.0%} of what is worth telling, or whose last save ended within the margin before the limit"
    )
    for name, values in result.errors.items():
        if values:
            errors = sorted(values)
            yield (
                f"forecast of the {name}, {len(errors)} times: wrong by {median(errors):.1%} in the middle, "
                f"{errors[int(len(errors) * 0.9)]:.1%} at worst in nine of ten"
            )


def describe_calibration(what, chances):
    """Yield which probabilities of a loss at-risk stated, and how many of them came true."""
    yield f"{f'at-risk, {what}':<48}{'cases':>6}{'stated':>8}{'came true':>11}"
    for low, high, count, stated, came_true in score.calibrate(chances):
        yield f"  stated {low:.2f} to {high:.2f}{count:>32}{stated:>8.3f}{came_true:>11.3f}"


def describe_ordinary(ordinary):
    by_rule = Counter(f"{flag.finding.rule} ({flag.finding.severity}, {run.kind})" for run, flag in ordinary.wrong)
    yield (
        f"ordinary jobs: {ordinary.runs}, {ordinary.days:.0f} job-days, {ordinary.flags} flags from warning on, of "
        f"which {ordinary.right} right and {len(ordinary.wrong)} false: {ordinary.rate:.2f} false per 1,000 job-days; "
        f"{ordinary.infos} infos, which nobody is sent"
    )
    for name, count in by_rule.most_common():
        yield f"  false: {count} {name}"


def describe_lost(lost):
    hours = [f"{each / 3600:.0f}" for each in (lost.unsaved, lost.true_unsaved, lost.redone, lost.true_redone)]
    yield (
        f"lost work of {lost.attempt_count} attempts: unsaved {hours[0]} h of {hours[1]} h, redone {hours[2]} h of "
        f"{hours[3]} h, in total wrong by {lost.error:.2%}; attempt by attempt {share_of(lost.off, lost.true_total)}; "
        f"outside its bounds {lost.outside_count}, without bounds {lost.unknown_count}; nothing claimed of "
        f"{lost.unclaimed / 3600:.0f} h that jobs lost whose directory nobody knows"
    )


def explain(wrong):
    """Return how many false flags were of jobs that ended by themselves, and of those that saved at their limit."""
    own_end = silent = 0
    for run, flag in wrong:
        for execution in run.executions:
            if (
                execution.job_id == flag.finding.job_id
                and execution.start <= score.seconds(flag.opened_at) <= execution.end
            ):
                own_end += execution.state is JobState.COMPLETED
                silent += execution.state is JobState.TIMEOUT and run.saves_at_limit
    return own_end, silent


def line_of(rule, counts, days):
    return (
        f"{rule:<32}{counts.episodes:>9}{counts.recall:>8.3f}{counts.flags:>7}{counts.precision:>10.3f}"
        f"{len(counts.wrong) / days * 1000:>21.1f}"
    )


def share_of(part, whole):
    return f"{part / whole:.1%}" if whole else "none"


def summary(result):
    counts = [(rule, result.rules[rule]) for rule in score.CRITICAL_RULES]
    amiss = [f"{rule} {c.recall:.3f}/{c.precision:.3f}" for rule, c in counts if min(c.recall, c.precision) < 1]
    notice = result.notice
    return (
        f"at-risk in time {notice.in_time}/{notice.predictable}, warnings right "
        f"{notice.warnings.right}/{notice.warnings.flags}; recall/precision below 1: {', '.join(amiss) or 'none'}"
    )


def worst(results):
    """Say in which world each rule did worst."""
    for rule in (*score.CRITICAL_RULES, *score.OTHER_RULES):
        recalls = {seed: result.rules[rule].recall for seed, result in results.items()}
        precisions = {seed: result.rules[rule].precision for seed, result in results.items()}
        low, vague = min(recalls, key=recalls.get), min(precisions, key=precisions.get)
        said = f"recall {recalls[low]:.3f} (seed {low}), precision {precisions[vague]:.3f} (seed {vague})"
        yield f"{rule}: at worst {said}"
    in_time = {s: r.notice.in_time / max(r.notice.predictable, 1) for s, r in results.items()}
    right = {s: r.notice.warnings.precision for s, r in results.items()}
    late, vague = min(in_time, key=in_time.get), min(right, key=right.get)
    said = f"in time {in_time[late]:.3f} (seed {late}), warnings right {right[vague]:.3f} (seed {vague})"
    yield f"at-risk: at worst {said}"


def show(result, rule):
    if rule == "ordinary":
        for run, flag in result.ordinary.wrong:
            told = f"{flag.finding.severity} {flag.finding.rule} {score.span(flag, run)} {dict(flag.finding.evidence)}"
            print("false", run.number, run.kind, [(round(e.start), round(e.end)) for e in run.executions], told)
        return
    if rule == "lost-work":
        for run, execution, truth, told in result.lost.worst:
            print("lost", run.number, run.kind, round(run.interval), execution.job_id, execution.state, truth, told)
        return
    if rule == "at-risk":
        notice = result.notice
        for run, execution, lost, opened in notice.late:
            print("late", run.number, run.kind, round(run.interval), run.jitter, execution, round(lost), opened)
        for run, flag in (*notice.warnings.wrong, *notice.criticals.wrong):
            told = f"{flag.finding.severity} of job {flag.finding.job_id} at {round(score.seconds(flag.opened_at))}"
            print("false", run.number, run.kind, round(run.interval), run.jitter, told, flag.finding.evidence)
        return
    counts = result.rules[rule]
    for run, opened, resolved, episodes in counts.wrong:
        print(rule, "false", run.number, run.kind, round(opened), round(resolved), episodes)
    for run, begin, end in counts.missed:
        print(rule, "missed", run.number, run.kind, round(begin), round(end))


if __name__ == "__main__":
    main()
