"""Reads the configuration; a wrong file is refused whole, with every error at once.

Building the models takes a third of a second. Each name is imported when it is first used, so that commands that need
only a few settings (`listing_settings`) do not wait for all of them.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ckptd.config.base import Section
    from ckptd.config.example import format_example
    from ckptd.config.health import HealthSection, build_overrides, build_rules
    from ckptd.config.outputs import MailSection
    from ckptd.config.raw_tables import ConfigError, find_file
    from ckptd.config.reading import read_config
    from ckptd.config.retention import RetentionSection, build_bounds, build_policies, list_unknown_formats
    from ckptd.config.root import Config

__all__ = [
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
    "find_file",
    "format_example",
    "list_unknown_formats",
    "read_config",
]
_HOMES = {
    "Config": "root",
    "ConfigError": "raw_tables",
    "HealthSection": "health",
    "MailSection": "outputs",
    "RetentionSection": "retention",
    "Section": "base",
    "build_bounds": "retention",
    "build_overrides": "health",
    "build_policies": "retention",
    "build_rules": "health",
    "find_file": "raw_tables",
    "format_example": "example",
    "list_unknown_formats": "retention",
    "read_config": "reading",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
