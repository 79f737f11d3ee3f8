"""In a process of its own, because what is set holds for the whole interpreter."""

import subprocess
import sys

from demo.patience import allow

PROGRAM = """
import gc, sys, weakref
from ckptd.service import gc_tuning

class Knot:
    def __init__(self):
        self.itself = self

passes = []
gc.callbacks.append(lambda phase, facts: passes.append(facts["generation"]) if phase == "stop" else None)
gc_tuning.avoid_long_pauses()
kept = [[[number] for number in range(50)] for _ in range(20_000)]  # makes Python look at everything, by its own rules
young, old = passes.count(0), passes.count(2)
knot = Knot()
gc.collect(1)
gone = weakref.ref(Knot())
gc.collect(0)
forgotten = weakref.ref(knot)
del knot
gc.collect(1)
is_old = forgotten() is not None
gc_tuning.collect()
print(young > 100, old, gone() is None, is_old, forgotten() is None, sys.getswitchinterval() < 0.002)
"""


def test_only_young_garbage_stops_the_daemon_and_the_rest_goes_when_it_is_time():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=allow(120), check=True
    )
    assert done.stdout.split() == ["True", "0", "True", "True", "True", "True"]
