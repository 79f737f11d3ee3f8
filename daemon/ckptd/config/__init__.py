"""Reads the configuration into one frozen value; a wrong file is refused whole, with every error at once."""

from ckptd.config.base import DEFAULT_PATH, ConfigError, Section
from ckptd.config.example import format_example
from ckptd.config.health import HealthSection, build_overrides, build_rules
from ckptd.config.people import MailSection
from ckptd.config.reading import read_config
from ckptd.config.retention import RetentionSection, build_bounds, build_policies, list_unknown_formats
from ckptd.config.root import Config

__all__ = [
    "DEFAULT_PATH",
    "Config",
    "ConfigError",
    "HealthSection",
    "MailSection",
    "RetentionSection",
    "Section",
    "build_bounds",
    "build_overrides",
    "build_policies",
    "build_rules",
    "format_example",
    "list_unknown_formats",
    "read_config",
]
