"""The bytes of attachments. Available to providers.

The world imports `shelly:plugin/attachments@0.2.0`.
"""

from __future__ import annotations

from . import _lower
from ._bindings import HostInterface

__all__ = ["read", "read_all"]

_attachments = HostInterface("attachments")
_READ = 1 << 20


def read(id: str, offset: int = 0, most: int = _READ) -> bytes:
    """Returns at most `most` bytes from `offset`: fewer at the end, none beyond it. Bound: 1 MiB a call."""
    offset, most = _lower.unsigned(offset, "offset"), _lower.unsigned(most, "most", 32)
    return bytes(_attachments.call("read", _lower.text(id), offset, most))


def read_all(id: str) -> bytes:
    """Returns all bytes."""
    pieces: list[bytes] = []
    offset = 0
    while piece := read(id, offset):
        pieces.append(piece)
        offset += len(piece)
    return b"".join(pieces)
