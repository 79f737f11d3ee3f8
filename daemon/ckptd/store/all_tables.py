"""The metadata of all tables, for what goes through every one of them: migrations, copies and checks."""

from ckptd.store import (  # noqa: F401 - each adds its tables to the base class
    day_sum_tables,
    lease_tables,
    location_tables,
    shared_tables,
    tables,
    ticket_tables,
)
from ckptd.store.table_base import Base

METADATA = Base.metadata
