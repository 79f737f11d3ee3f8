"""Counts the seconds in a file, for a checkpoint from outside."""

import itertools
import time
from pathlib import Path

for number in itertools.count(1):
    Path("count").write_text(f"{number}\n")
    time.sleep(1)
