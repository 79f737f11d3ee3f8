"""How many examples hypothesis makes up for what is costly: few in each run of all tests, more in `make test-long`."""

import os

FACTOR = int(os.environ.get("CKPTD_EXAMPLES_FACTOR", "1"))
