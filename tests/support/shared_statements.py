"""Lets every store of a process know the statements that one has compiled, as the only store of a daemon does.

Without it each test, and each life of a daemon within one, compiles a hundred statements: half of what it costs.
"""

from ckptd.store.store import Store

_first_engines = {}
_open_alone = Store.open.__func__


def _open_sharing(cls, url, **options):
    store = _open_alone(cls, url, **options)
    engine = store.database._engine
    first = _first_engines.setdefault(engine.dialect.name, engine)  # it has connected, so its dialect is complete
    engine.dialect = engine.pool._dialect = first.dialect  # part of what names a statement
    engine._compiled_cache = first._compiled_cache
    return store


def share():
    """Let all stores share from here on."""
    Store.open = classmethod(_open_sharing)
