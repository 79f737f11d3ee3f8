"""The order of the files of tests, for a run with several workers, each of which takes one file after another.

The longest files begin first, so that nobody waits for one of them at the end. Those that mostly wait, for Slurm or for
a daemon, stand between those that compute, so that the processors always have work. The last of the list only compute,
for ten seconds and more.
"""

from pathlib import Path

TESTS = Path(__file__).parents[1]
FIRST = (
    "integration/test_ckptd_on_slurm.py",
    "steps/prune/test_enforcing_daemon_killed.py",
    "integration/test_actions_on_slurm.py",
    "steps/prune/test_several_users.py",
    "integration/test_enforcing_on_slurm.py",
    "integration/test_ledger_on_slurm.py",
    "steps/prune/test_references.py",
    "integration/test_systemd.py",
    "steps/prune/test_stop.py",
    "integration/test_private_cluster.py",
    "web/test_browser.py",
    "service/test_daemon_database.py",
    "integration/test_alerts_on_slurm.py",
    "steps/prune/test_daemon_changes_mode.py",
    "layouts/test_generated_layouts.py",
    "service/test_reload.py",
    "steps/prune/test_step.py",
    "service/test_daemon_mail.py",
    "integration/test_squeue_source.py",
    "grafana/test_live_queries.py",
    "simulation/test_simulation.py",
    "integration/test_demo.py",
    "integration/test_samples.py",
    "steps/test_backfill.py",
    "service/test_subverted_main.py",
    "cli/test_retention_commands.py",
    "steps/test_backfilled_runs.py",
    "steps/test_damaged_saves.py",
    "cli/test_start.py",
    "cli/test_declared_resume_shown.py",
    "checkpoints/test_trash_crash.py",
    "store/test_schema.py",
    "checkpoints/test_agent.py",
    "cli/test_trash_scan.py",
    "cli/test_prune_as_the_daemon.py",
    "steps/test_database_trouble.py",
    "service/test_sending_to_a_relay.py",
)
_RANKS = {TESTS / name: rank for rank, name in enumerate(FIRST)}


def get_rank(path):
    """Return a file's place among those that begin first, and one after all of them for any other."""
    return _RANKS.get(path, len(_RANKS))
