"""The progress of a tool call, for people who watch. Always available to tools."""

from __future__ import annotations

from . import _lower
from ._bindings import HostInterface

__all__ = ["report"]

_progress = HostInterface("progress")


def report(done: float, total: float | None = None, message: str | None = None) -> None:
    """Reports that `done` of `total` is finished, in a unit of your choice. `total` is None if the end is not known.

    `done` only grows. In a unit test without a `testing.Host` the report is dropped.
    """
    if _progress.is_there:
        _progress.call("report", float(done), None if total is None else float(total), _lower.optional_text(message))
