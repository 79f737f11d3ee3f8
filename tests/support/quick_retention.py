"""Settings of retention with which a daemon prunes within seconds what a test saves."""


def format_settings(*, hold, mode="enforce", grace="1s", guards="", policy=""):
    """Return the tables of retention; `guards` and `policy` are further lines of these two, each with its end."""
    return f"""[retention]
min_age = "{grace}"
interval = "1s"
hold = "{hold}"
[retention.guards]
restart_grace = "{grace}"
save_grace = "{grace}"
{guards}[retention.caps]
filesystem_share = 1.0
[[retention.policy]]
name = "tight"
mode = "{mode}"
last = 2
{policy}"""
