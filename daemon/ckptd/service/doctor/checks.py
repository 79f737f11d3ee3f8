"""The table of all checks, and the first of them, that of the configuration."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from ckptd.config import Config, ConfigError, find_file
from ckptd.config.listing_settings import choose_state_directory
from ckptd.config.valid_sections import read_valid_sections
from ckptd.service.doctor import (
    database_checks,
    file_checks,
    host_checks,
    mail_checks,
    mount_checks,
    shared_checks,
    slurm_checks,
    verify_jobs_checks,
)
from ckptd.service.doctor.findings import Account, Check, CheckResult, error, ok, warning
from ckptd.service.doctor.separate_checks import CheckedTopic, run_checks
from ckptd.service.trusted_file import check_trusted

TIMEOUT_SECONDS = 60.0
CHECKS = (
    Check("account", Account.AGENT, file_checks.check_accounts),
    Check("account", Account.SERVICE, host_checks.check_python),
    Check("state", Account.SERVICE, file_checks.check_state_directory),
    Check("slurm", Account.SERVICE, slurm_checks.check_service),
    Check("slurm", Account.AGENT, slurm_checks.check_agent),
    Check("verify_jobs", Account.AGENT, verify_jobs_checks.check_verify_jobs),
    Check("database", Account.SERVICE, database_checks.check_database),
    Check("shared", Account.SERVICE, shared_checks.check_shared),
    Check("mail", Account.SERVICE, mail_checks.check_mail),
    Check("apprise", Account.SERVICE, mail_checks.check_apprise),
    Check("files", Account.SERVICE, file_checks.check_service_files),
    Check("files", Account.AGENT, file_checks.check_agent_files),
    Check("roots", Account.AGENT, mount_checks.check_roots),
    Check("workspaces", Account.AGENT, mount_checks.check_workspaces),
    Check("kernel", Account.AGENT, host_checks.check_kernel),
    Check("prometheus", Account.AGENT, host_checks.check_prometheus),
    Check("unit", Account.AGENT, host_checks.check_unit),
)


def run_all(path: Path | None, environment: Mapping[str, str], timeout_seconds: float) -> Iterator[CheckedTopic]:
    """Check the configuration, then everything else with those of its sections that are valid."""
    account = "root" if os.geteuid() == 0 else f"uid {os.geteuid()}"
    variables = {**host_checks.read_unit_environment(), **environment}
    config, errors = read_valid_sections(path, variables)
    config = _with_state_directory(config, variables)
    for finding in _check_configuration(path, errors):
        yield CheckedTopic("configuration", account, finding)
    if os.geteuid() != 0:
        text = "this account can check neither what the daemon's nor what the agent's account can do"
        yield CheckedTopic("account", account, warning(text, "run this as root"))
    yield from run_checks(CHECKS, config, timeout_seconds)


def _with_state_directory(config: Config, variables: Mapping[str, str]) -> Config:
    """Return the configuration with the daemon's state directory: another account would take one in its own home."""
    directory = choose_state_directory(config.service.state_directory, variables)
    return config.model_copy(update={"service": config.service.model_copy(update={"state_directory": directory})})


def _check_configuration(path: Path | None, errors: tuple[str, ...]) -> Iterator[CheckResult]:
    for each in errors:
        yield error(each, "correct it; the checks below use the defaults of this section")
    chosen = find_file(path)
    if not errors:
        yield ok(f"{chosen} is valid" if chosen else "there is no configuration file: all settings have their defaults")
    if chosen is not None and os.geteuid() == 0 and chosen.exists():
        try:
            check_trusted(chosen)
        except ConfigError as failure:
            yield error(str(failure), "see the message")
        else:
            yield ok(f"only root can change {chosen}")
