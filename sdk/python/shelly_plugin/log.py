"""The host's log. Always available; a model never sees it.

What a plugin prints is there, too: as `info` what goes to the standard output, as `warn` what goes to the standard error.
Bounds: 4 KiB an entry (cut), 1,000 entries a call (then dropped and counted).
"""

from __future__ import annotations

import sys
from typing import Any, Literal, get_args

from . import _lower
from ._bindings import HostInterface

__all__ = ["Level", "debug", "error", "info", "warn", "write"]

Level = Literal["debug", "info", "warn", "error"]

_LEVELS = get_args(Level)
_log = HostInterface("log")


def write(level: Level, message: str) -> None:
    """Writes one entry. In a unit test without a `testing.Host` it goes to the standard error."""
    if level not in _LEVELS:
        raise ValueError(f"unknown level {level!r} of a log entry; use one of {', '.join(_LEVELS)}")
    if not _log.is_there:
        print(f"{level}: {message}", file=sys.stderr)
        return
    written: Any = level
    if _log.bindings is not None:
        written, message = _log.bindings.Level(_LEVELS.index(level)), _lower.text(message)
    _log.call("write", written, message)


def debug(message: str) -> None:
    """Logs a message for troubleshooting."""
    write("debug", message)


def info(message: str) -> None:
    """Logs a normal event."""
    write("info", message)


def warn(message: str) -> None:
    """Logs an unusual event that does not prevent the work."""
    write("warn", message)


def error(message: str) -> None:
    """Logs a failure."""
    write("error", message)
