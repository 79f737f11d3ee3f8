"""The rule about checkpoints that a verification job of their owner calls damaged."""

from dataclasses import replace

from ckptd.core.health.reported_damage import ReportedDamage
from ckptd.core.model import Severity, Unknown
from core.histories import at, history, saved, scan_at


def report(checkpoint, reason="a block of zeros"):
    return replace(checkpoint, owner_damage=reason)


def evaluate(*checkpoints, scan=None):
    given = history(now=60, checkpoints=checkpoints, scan=scan or scan_at(60))
    return ReportedDamage().evaluate(given, at(60))


def test_a_reported_checkpoint_is_flagged_with_the_words_of_the_job():
    (found,) = evaluate(saved(10), report(saved(20)), saved(30))
    assert found.severity is Severity.WARNING
    assert (found.evidence["reason"], found.evidence["checkpoint_count"]) == ("a block of zeros", 1)


def test_nothing_is_flagged_once_this_node_has_read_it():
    assert list(evaluate(saved(10), report(saved(20), None))) == []


def test_a_directory_that_was_not_read_is_not_decided():
    assert isinstance(evaluate(saved(10), scan=Unknown(what="directory", reason="timed out")), Unknown)
