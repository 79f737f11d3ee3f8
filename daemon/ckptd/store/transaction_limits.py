"""What every transaction on PostgreSQL sets first, and how each connection is opened, so that PgBouncer may be between.

In its transaction mode each transaction may run in another session of the server. So nothing is set for a session:
PgBouncer refuses the start-up parameter `options`, would leave what SET changes to another client, and knows no
statement that was prepared in another session (https://www.pgbouncer.org/features.html).
"""

from typing import Any

LOCK_TIMEOUT_MS = 10_000
STATEMENT_TIMEOUT_MS = 120_000

# psycopg, which otherwise prepares what is executed five times
CONNECT_ARGUMENTS: dict[str, Any] = {"application_name": "ckptd", "connect_timeout": 10, "prepare_threshold": None}

SET_LIMITS = "; ".join(
    f"SET LOCAL {name} = {value}"
    for name, value in (
        ("timezone", "'UTC'"),
        ("lock_timeout", LOCK_TIMEOUT_MS),
        ("statement_timeout", STATEMENT_TIMEOUT_MS),
        ("idle_in_transaction_session_timeout", STATEMENT_TIMEOUT_MS),
    )
)
