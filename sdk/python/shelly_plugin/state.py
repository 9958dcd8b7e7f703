"""The data that an effect or coordinator keeps from one call to the next."""

from __future__ import annotations

from typing import Any

from .schema import WrongValue, parse
from .types import to_json

__all__ = ["dump_state", "load_state"]


def dump_state(version: int, value: Any) -> bytes:
    """Returns the state for the next call: a version of your own, 0 to 255, and the value as JSON. Bound: 64 KiB."""
    return bytes([version]) + to_json(value).encode()


def load_state(version: int, state: bytes, shape: Any = dict) -> Any:
    """Returns the value that `dump_state` wrote with this version, of this type.

    Returns None for anything else: an empty state, which the first call has, and that of another version of the plugin.
    """
    if state[:1] != bytes([version]):
        return None
    try:
        return parse(shape, state[1:].decode())
    except (WrongValue, UnicodeDecodeError):
        return None
