"""The cluster's name, and whether Slurm hides other users' jobs from this account (PrivateData=jobs)."""

import os
import pwd
from collections.abc import Container, Iterable

from ckptd.core.model import Unknown
from ckptd.slurm import controller_clock, failure_reasons
from ckptd.slurm.failure_reasons import FailureReason
from ckptd.slurm.programs import Programs

MAX_CHECKS = 5  # of the configured name, without an answer: some sites have no scontrol where ckptd runs
_MAY_CHANGE = frozenset({"Administrator"})
_SEES_ALL = _MAY_CHANGE | {"Operator"}


class ClusterFacts:
    """Facts from `scontrol show config`, cached after the first answer."""

    def __init__(self, programs: Programs, name: str | None) -> None:
        self._programs = programs
        self.name = name
        self.slurm_name = ""  # ClusterName of slurm.conf; empty as long as nobody has read it
        self._checks_left = 0 if name is None else MAX_CHECKS
        self._shows_all = False
        self._shows_to_anyone = False

    def read_name(self) -> str | Unknown:
        """Return the cluster's name from ckptd's configuration, otherwise ClusterName of Slurm's."""
        if self.name is None:
            config = self.read_config()
            if isinstance(config, Unknown):
                return config
            name = config.get("ClusterName")
            if not name:
                return failure_reasons.make_unknown(
                    "cluster name", FailureReason.GARBLED, "scontrol show config prints no ClusterName"
                )
            self.name = self.slurm_name = name
        return self.name

    def read_other_name(self) -> str | None:
        """Return Slurm's own name of the cluster if the configured one differs; None also if Slurm does not answer.

        The first answer is cached.
        """
        if self._checks_left > 0:
            config = self.read_config()
            self.slurm_name = "" if isinstance(config, Unknown) else config.get("ClusterName", "").lower()
            self._checks_left = 0 if self.slurm_name else self._checks_left - 1
        is_other = self.name is not None and self.slurm_name.lower() != self.name.lower()
        return self.slurm_name if is_other and self.slurm_name else None

    def read_hidden_jobs(self, uids: Iterable[int]) -> Unknown | None:
        """Return why a queue with jobs of only these owners may be incomplete; None if it is complete.

        Queries Slurm only if the queue has no job of another user. The answer is cached only if all jobs are shown, so
        the daemon continues as soon as its account becomes an operator, and only until the next job of another user.
        """
        own = os.geteuid()
        if any(uid != own for uid in uids):
            self._shows_all = False  # once other users' jobs are no longer shown, the settings may have changed
            return None
        if self._shows_all:
            return None
        config = self.read_config()
        if isinstance(config, Unknown):
            return config
        sees_all = self._sees_all(config) if _hides_jobs(config) else True
        if isinstance(sees_all, Unknown):
            return sees_all
        self._shows_all = sees_all
        if sees_all:
            return None
        return failure_reasons.make_unknown(
            "queue",
            FailureReason.NOT_PERMITTED,
            "PrivateData=jobs hides other users' jobs from this account, which is no Slurm operator",
        )

    def read_hidden_from_another(self, uids: Iterable[int]) -> Unknown | None:
        """Return why a queue that another account read may be incomplete; None if it is complete.

        The rights of that account are not known here: under PrivateData=jobs, jobs of one user may be all it sees.
        """
        if len(set(uids)) > 1:
            self._shows_to_anyone = False
            return None
        if self._shows_to_anyone:
            return None
        config = self.read_config()
        if isinstance(config, Unknown):
            return config
        self._shows_to_anyone = not _hides_jobs(config)
        if self._shows_to_anyone:
            return None
        return failure_reasons.make_unknown(
            "queue",
            FailureReason.NOT_PERMITTED,
            "PrivateData=jobs may hide jobs from slurmrestd's account, and it shows those of at most one user",
        )

    def read_hidden_history(self, uids: Iterable[int]) -> Unknown | None:
        """Return why accounting with jobs of only these owners may be incomplete; None if it is complete.

        slurmdbd has its own PrivateData setting, and omits hidden jobs without an error.
        """
        own = os.geteuid()
        if own == 0 or any(uid != own for uid in uids):
            return None
        config = self._read_settings("accounting", ["sacctmgr", "--noheader", "show", "configuration"])
        if isinstance(config, Unknown):
            return config
        sees_all = self._sees_all(config) if _hides_jobs(config) else True
        if isinstance(sees_all, Unknown):
            return sees_all
        if sees_all:
            return None
        return failure_reasons.make_unknown(
            "accounting",
            FailureReason.NOT_PERMITTED,
            "slurmdbd's PrivateData=jobs hides other users' jobs from this account, which is no Slurm operator",
        )

    def read_may_administrate(self) -> bool | Unknown:
        """Return whether this account may change other users' jobs; Unknown if Slurm does not say what it is."""
        config = self.read_config()
        return config if isinstance(config, Unknown) else self._has_level(config, _MAY_CHANGE)

    def _sees_all(self, config: dict[str, str]) -> bool | Unknown:
        """Return whether private jobs are shown to this account; Unknown if accounting does not say what it is."""
        answer = self._has_level(config, _SEES_ALL)
        if not isinstance(answer, Unknown):
            return answer
        return failure_reasons.make_unknown(
            "queue",
            FailureReason.FAILED,
            f"PrivateData=jobs is set, and sacctmgr does not say whether this account is an operator: {answer.reason}",
        )

    def _has_level(self, config: dict[str, str], levels: Container[str]) -> bool | Unknown:
        """Return whether this account is root, SlurmUser or has one of these administrator levels in accounting."""
        uid = os.geteuid()
        try:
            user = pwd.getpwuid(uid).pw_name
        except KeyError:
            user = str(uid)
        if uid == 0 or user == config.get("SlurmUser", "").partition("(")[0]:
            return True
        answer = self._programs.read(
            "administrators",
            ["sacctmgr", "--noheader", "--parsable2", "show", "user", f"name={user}", "format=AdminLevel"],
        )
        if isinstance(answer, Unknown):
            return answer
        level, finished = answer
        if finished.returncode == 0:
            return level.strip() in levels
        return failure_reasons.classify("administrators", finished.returncode, finished.stderr)

    def read_config(self) -> dict[str, str] | Unknown:
        """Return slurmctld's configuration, as `scontrol show config` prints it."""
        return self._read_settings("cluster configuration", ["scontrol", "show", "config"])

    def _read_settings(self, what: str, argv: list[str]) -> dict[str, str] | Unknown:
        answer = self._programs.read(what, argv)
        if isinstance(answer, Unknown):
            return answer
        text, finished = answer
        if not controller_clock.is_complete(text, finished.returncode):
            return failure_reasons.classify(what, finished.returncode, finished.stderr)
        pairs = (line.partition("=") for line in text.splitlines())
        return {key.strip(): value.strip() for key, sign, value in pairs if sign}


def _hides_jobs(config: dict[str, str]) -> bool:
    return "jobs" in {word.strip().lower() for word in config.get("PrivateData", "").split(",")}
