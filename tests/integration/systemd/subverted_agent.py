"""The agent's program with one more format: its parser is a checkpoint's that has taken it over.

The first argument is the directory of the attacked site.
"""

import sys
from pathlib import Path

from checkpoints.parser_attacks import Attacks, SubvertedFormat
from ckptd.checkpoints import formats
from ckptd.service import agent_process
from service.subverted_main import Place

site = Place(Path(sys.argv.pop(1)))
formats.FORMATS["subverted"] = SubvertedFormat(Attacks(site.run, site.outside))
agent_process.main()
