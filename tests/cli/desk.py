"""A run of six saves that no daemon prunes, for people who plan and prune it at a shell."""

from contextlib import contextmanager
from datetime import UTC, datetime

from support.prune_facts import MINUTE, workshop

EPOCHS = [f"epoch_{n}.npz" for n in range(1, 7)]
SETTINGS = """
[slurm]
cluster = "c"
[store]
url = "sqlite:///{root}/ckptd.sqlite3"
[scan]
allowed_roots = ["{root}"]
[retention.caps]
filesystem_share = 1.0
[[retention.policy]]
name = "tight"
last = 2
"""


@contextmanager
def trained_shop():
    """Give a workshop whose last look was just now, with a configuration that keeps the last two saves."""
    with workshop() as shop:
        shop.now = datetime.now(UTC) - 280 * MINUTE
        shop.start_job()
        shop.train(range(1, 7))
        shop.now = datetime.now(UTC)
        shop.look()
        (shop.root / "config.toml").write_text(SETTINGS.format(root=shop.root))
        yield shop
