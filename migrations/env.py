"""Runs migrations inside the transaction that ckptd.store.schema opened."""

from alembic import context

from ckptd.store.all_tables import METADATA

connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=METADATA,
    render_as_batch=connection.dialect.name == "sqlite",  # SQLite changes a table by making it anew
    compare_type=True,
)
context.run_migrations()
