"""The current time.

The world imports `shelly:plugin/clock@0.2.0`, and plugin.toml asks for `clock = true` under `[wants]`.
"""

from __future__ import annotations

import datetime
from typing import cast

from ._bindings import HostInterface

__all__ = ["monotonic_ns", "now", "now_ms"]

_clock = HostInterface("clock")
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


def now_ms() -> int:
    """Returns the milliseconds since 1970-01-01T00:00Z."""
    return cast(int, _clock.call("now"))


def now() -> datetime.datetime:
    """Returns the time in UTC."""
    return _EPOCH + datetime.timedelta(milliseconds=now_ms())


def monotonic_ns() -> int:
    """Returns the nanoseconds since some moment before the call. The value never decreases."""
    return cast(int, _clock.call("monotonic"))
