"""Let `python -m ckptd` be the same as the console command."""

from ckptd.cli import main

main()
