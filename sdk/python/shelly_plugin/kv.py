"""A key-value store for bytes that outlast a call.

The world imports `shelly:plugin/kv@0.2.0`, and plugin.toml asks for `kv = true` under `[wants]`. The config decides whether
the store belongs to the run, the session, the agent or the plugin. A write is atomic, and on the disk when the call
returns, except in the store of a run.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Callable, cast

from . import _lower
from ._bindings import HostInterface
from .errors import PluginError
from .types import to_json

__all__ = ["Entry", "compare_and_swap", "get", "keys", "put", "read", "remove", "set", "update"]

_kv = HostInterface("kv")


@dataclass
class Entry:
    """A value and its revision, which changes with every write of the key."""

    value: bytes
    revision: int


def get(key: str) -> Entry | None:
    """Reads a value. Keys have 1 to 512 bytes."""
    entry = _kv.call("get", _lower.text(key))
    return None if entry is None else Entry(bytes(entry.value), entry.revision)


def set(key: str, value: bytes) -> None:
    """Writes a value, whatever the key holds. Bounds: 1 MiB a value, 64 MiB and 65,536 keys a store (`exhausted`)."""
    _kv.call("set", _lower.text(key), bytes(value))


def remove(key: str) -> None:
    """Removes a key if it exists."""
    _kv.call("set", _lower.text(key), None)


def compare_and_swap(key: str, expected: int | None, value: bytes | None) -> bool:
    """Writes a value, or removes it if it is None, if the key still has this revision; None: if it does not exist.

    Otherwise changes nothing and returns False: read again and repeat, or use `update`.
    """
    return cast(bool, _kv.call("compare_and_swap", _lower.text(key), expected, None if value is None else bytes(value)))


def keys(prefix: str = "", after: str | None = None) -> list[str]:
    """Returns the keys that start with `prefix` and come after `after`, in byte order. Bound: 1,000 a call."""
    return list(_kv.call("keys", _lower.text(prefix), _lower.optional_text(after)))


def read(key: str, default: Any = None) -> Any:
    """Reads a value that `put` or `update` wrote."""
    entry = get(key)
    return default if entry is None else _parse(key, entry.value)


def put(key: str, value: Any) -> None:
    """Writes a value as JSON."""
    set(key, to_json(value).encode())


def update(key: str, change: Callable[[Any], Any], default: Any = None) -> Any:
    """Changes a value that is stored as JSON, and returns the new one.

    `change` is called again if another call has written the key meanwhile, so it must have no side effects.
    """
    while True:
        entry = get(key)
        new = change(default if entry is None else _parse(key, entry.value))
        revision = None if entry is None else entry.revision
        if compare_and_swap(key, revision, to_json(new).encode()):
            return new


def _parse(key: str, value: bytes) -> Any:
    try:
        return json.loads(value.decode())
    except ValueError as error:
        raise PluginError("other", f"the value of `{key}` is not JSON: {error}") from None
