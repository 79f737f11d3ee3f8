"""Sets the limits of each transaction on PostgreSQL, and opens connections in a way that also works through PgBouncer.

In PgBouncer's transaction mode, each transaction may run in another session of the server. So ckptd sets nothing for a
session: PgBouncer refuses the start-up parameter `options`, would leave changes by SET to another client, and does not
know statements that were prepared in another session (https://www.pgbouncer.org/features.html).
"""

from typing import Any

LOCK_TIMEOUT_MS = 10_000
STATEMENT_TIMEOUT_MS = 120_000

# psycopg, which otherwise prepares what is executed five times
CONNECT_ARGUMENTS: dict[str, Any] = {
    "application_name": "ckptd",
    "connect_timeout": 10,
    "prepare_threshold": None,
    "client_encoding": "utf8",  # whatever the environment, the role or the database sets
}

SET_LIMITS = "; ".join(
    f"SET LOCAL {name} = {value}"
    for name, value in (
        ("timezone", "'UTC'"),
        ("datestyle", "'ISO'"),  # psycopg reads instants in no other style, which a role or database may set
        ("jit", "off"),  # to compile a statement takes longer than to run it
        ("random_page_cost", "1.1"),  # tables of a year are not read from end to end for the rows of a week
        ("lock_timeout", LOCK_TIMEOUT_MS),
        ("statement_timeout", STATEMENT_TIMEOUT_MS),
        ("idle_in_transaction_session_timeout", STATEMENT_TIMEOUT_MS),
    )
)
