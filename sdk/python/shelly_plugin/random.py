"""Random bytes that are suitable for keys.

The world imports `shelly:plugin/random@0.2.0`, and plugin.toml asks for `random = true` under `[wants]`.
"""

from __future__ import annotations

from . import _lower
from ._bindings import HostInterface

__all__ = ["random_bytes"]

_random = HostInterface("random")


def random_bytes(count: int) -> bytes:
    """Returns random bytes. Bound: 64 KiB a call."""
    return bytes(_random.call("bytes", _lower.unsigned(count, "count", 32)))
