"""Opens the status page with its own database connections, so that pages and steps never wait for each other."""

from collections.abc import Callable
from dataclasses import replace

from ckptd.config import Config, ConfigError
from ckptd.config.health import build_find_margins
from ckptd.core.forecast.limit_margins import LimitMargins
from ckptd.core.model import RunKey, RunRecord
from ckptd.service.build import build_access_rules
from ckptd.service.build_retention import build_retention
from ckptd.service.open_database import open_store
from ckptd.service.web_record import build_record
from ckptd.steps.prune import planning
from ckptd.web.scrapes import Metrics
from ckptd.web.server import WebServer
from ckptd.web.web_config import WebConfig, WebConfigError


def read_web_config(config: Config) -> WebConfig | None:
    """Read the file with the certificate and the passwords of the page, if the configuration names one.

    Raises:
        ConfigError: it cannot be used.

    """
    try:
        return WebConfig(config.web.config_file) if config.web.listen and config.web.config_file else None
    except WebConfigError as error:
        raise ConfigError(f"web.config_file: {error}") from error


def open_web(
    started_with: Config, web_config: WebConfig | None, metrics: Metrics, get_config: Callable[[], Config]
) -> WebServer | None:
    """Start the web server; None if the site wants none. `get_config` returns the configuration after reloads.

    Raises:
        CkptdError: it cannot be opened as configured.

    """
    if not started_with.web.listen:
        return None
    store = open_store(started_with, is_upgraded=False)

    def list_limited_settings(run: RunKey) -> tuple[str, ...]:
        return planning.list_limited_settings(store, build_retention(get_config()), run)

    def find_margins(history: RunRecord) -> LimitMargins:
        return build_find_margins(get_config().health)(history)

    rules = build_access_rules(started_with)
    record = replace(build_record(store), find_margins=find_margins)
    return WebServer(started_with.web.listen, metrics, record, rules, web_config, list_limited_settings)
