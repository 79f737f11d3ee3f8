"""Starts processes that a test kills: one server has the imports of ckptd, and forks.

A process that imports them anew each time costs two seconds of CPU time. None is forked from the test process itself,
whose threads and open databases it would inherit.
"""

import multiprocessing

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(
    [
        "ckptd.cli.daemon_commands",
        "ckptd.cli.daemon_runs",
        "ckptd.notify.rendering",
        "ckptd.notify.smtp_channel",
        "ckptd.service.agent_policy",
        "ckptd.service.agent_process",
        "ckptd.service.watcher_process",
        "h5py",
        "ckptd.steps.send",
        "ckptd.store.store",
    ]
)
