"""What is asked of a cluster once: its name, and whether it hides other people's jobs from whoever asks."""

import os
import pwd

from ckptd.core.model import Unknown
from ckptd.slurm import trouble
from ckptd.slurm.programs import Programs
from ckptd.slurm.trouble import Trouble

_SEES_ALL = frozenset({"Operator", "Administrator"})


class ClusterFacts:
    """Answers of `scontrol show config`, kept once they were had."""

    def __init__(self, programs: Programs, name: str | None) -> None:
        self._programs = programs
        self.name = name
        self._hides_jobs: bool | None = None

    def read_name(self) -> str | Unknown:
        """Return the cluster's name from the configuration, else from Slurm's."""
        if self.name is None:
            config = self._read_config()
            if isinstance(config, Unknown):
                return config
            name = config.get("ClusterName")
            if not name:
                return trouble.say("cluster name", Trouble.GARBLED, "scontrol show config names no ClusterName")
            self.name = name
        return self.name

    def read_hidden_jobs(self) -> Unknown | None:
        """Return the reason why an empty queue may be one that we are not shown; None where it is truly empty."""
        if self._hides_jobs is None:
            config = self._read_config()
            if isinstance(config, Unknown):
                return config
            private = {word.strip().lower() for word in config.get("PrivateData", "").split(",")}
            slurm_user = config.get("SlurmUser", "").partition("(")[0]
            self._hides_jobs = "jobs" in private and not self._sees_all(slurm_user)
        if not self._hides_jobs:
            return None
        return trouble.say(
            "queue", Trouble.NOT_PERMITTED, "PrivateData=jobs hides other users' jobs from this user, and it saw none"
        )

    def _sees_all(self, slurm_user: str) -> bool:
        uid = os.geteuid()
        try:
            user = pwd.getpwuid(uid).pw_name
        except KeyError:
            user = str(uid)
        if uid == 0 or user == slurm_user:
            return True
        level = self._programs.read(
            "administrators",
            ["sacctmgr", "--noheader", "--parsable2", "show", "user", f"name={user}", "format=AdminLevel"],
        )
        return not isinstance(level, Unknown) and level[0].strip() in _SEES_ALL

    def _read_config(self) -> dict[str, str] | Unknown:
        answer = self._programs.read("cluster configuration", ["scontrol", "show", "config"])
        if isinstance(answer, Unknown):
            return answer
        text, finished = answer
        if finished.returncode != 0:
            return trouble.classify("cluster configuration", finished.returncode, finished.stderr)
        pairs = (line.partition("=") for line in text.splitlines())
        return {key.strip(): value.strip() for key, sign, value in pairs if sign}
