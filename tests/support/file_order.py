"""The order of the files of tests, for a run with several workers, each of which takes one file after another.

The longest files begin first, so that nobody waits for one of them at the end. Those that mostly wait, for Slurm or for
a daemon, stand between those that compute, so that the processors always have work. The last of the list only compute,
for ten seconds and more.
"""

from pathlib import Path

TESTS = Path(__file__).parents[1]
FIRST = (
    "service/test_sending_to_a_relay.py",
    "integration/test_ckptd_on_slurm.py",
    "service/test_standby.py",
    "service/test_chaos.py",
    "service/test_failover.py",
    "integration/test_actions_on_slurm.py",
    "steps/prune/test_several_users.py",
    "integration/test_enforcing_on_slurm.py",
    "integration/test_ledger_on_slurm.py",
    "integration/test_two_clusters.py",
    "integration/test_verification_on_slurm.py",
    "steps/prune/test_settings_of_one_user.py",
    "checkpoints/test_left_processes.py",
    "checkpoints/test_job_executor.py",
    "steps/prune/test_enforcing_daemon_killed.py",
    "integration/test_systemd.py",
    "steps/prune/test_references.py",
    "service/test_pgbouncer.py",
    "integration/test_private_cluster.py",
    "integration/test_node_scans_on_slurm.py",
    "steps/prune/test_planted_trash.py",
    "web/test_browser.py",
    "cli/test_verify.py",
    "service/test_late_actions.py",
    "service/test_daemon_database.py",
    "steps/prune/test_stop.py",
    "integration/test_alerts_on_slurm.py",
    "steps/prune/test_sets_killed.py",
    "layouts/test_generated_layouts.py",
    "service/test_start_without.py",
    "steps/test_several_locations.py",
    "steps/prune/test_daemon_changes_mode.py",
    "steps/prune/test_step.py",
    "service/test_daemon_mail.py",
    "integration/test_squeue_source.py",
    "integration/test_slurmrestd_source.py",
    "simulation/test_simulation.py",
    "grafana/test_live_queries.py",
    "service/test_reload.py",
    "integration/test_demo.py",
    "cli/test_retention_commands.py",
    "integration/test_samples.py",
    "checkpoints/test_trash_crash.py",
    "cli/test_database_copies.py",
    "steps/test_backfill.py",
    "docs/test_worked_examples.py",
    "steps/test_backfilled_runs.py",
    "cli/test_start.py",
    "web/test_authorization.py",
    "checkpoints/test_inspection.py",
    "checkpoints/test_trash_trouble.py",
    "checkpoints/test_agent.py",
    "web/test_crowd.py",
    "store/test_store_reader.py",
    "cli/test_newest.py",
    "steps/test_full_disk_for_long.py",
    "cli/test_prune_as_the_daemon.py",
    "steps/test_database_trouble.py",
    "steps/test_restarts.py",
    "steps/test_incremental_decisions.py",
    "cli/test_declared_resume_shown.py",
)
_RANKS = {TESTS / name: rank for rank, name in enumerate(FIRST)}


def get_rank(path):
    """Return a file's place among those that begin first, and one after all of them for any other."""
    return _RANKS.get(path, len(_RANKS))
