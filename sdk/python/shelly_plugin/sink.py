"""The pieces of a reply while a provider still receives it, for people who watch. Always available to providers.

All texts together must equal the text of the completion that the provider returns. `streamed.Streamed` keeps both.
Bound: 64 KiB a piece; longer texts are passed on in several.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Iterator, Union

from . import _lower
from ._bindings import HostInterface
from .types import Opaque, Usage

__all__ = ["Delta", "TextDelta", "ThinkingDelta", "ToolCallDelta", "emit", "text", "thinking", "tool_call", "usage"]

_sink = HostInterface("sink")
# A character has at most four bytes.
_MOST_CHARACTERS = (64 << 10) // 4


@dataclass
class TextDelta:
    """More text of the reply."""

    text: str


@dataclass
class ThinkingDelta:
    """More of the model's reasoning."""

    text: str


@dataclass
class ToolCallDelta:
    """The model has begun to call the tool of this name."""

    name: str


Delta = Union[TextDelta, ThinkingDelta, ToolCallDelta, Usage, Opaque]
"""A piece of a reply. A `Usage` is the total so far, which the host charges if the call ends without a completion."""


def emit(delta: Delta) -> None:
    """Passes on one piece. Waits while the reader is behind. In a unit test without a `testing.Host` it is dropped."""
    if _sink.is_there:
        _sink.call("emit", delta, lower=_lowered)


def text(piece: str) -> None:
    """Passes on text."""
    for chunk in _chunks(piece):
        emit(TextDelta(chunk))


def thinking(piece: str) -> None:
    """Passes on reasoning."""
    for chunk in _chunks(piece):
        emit(ThinkingDelta(chunk))


def tool_call(name: str) -> None:
    """Says that the model has begun to call a tool."""
    emit(ToolCallDelta(name))


def usage(total: Usage) -> None:
    """Passes on the usage so far."""
    emit(total)


def _chunks(piece: str) -> Iterator[str]:
    for start in range(0, len(piece), _MOST_CHARACTERS):
        yield piece[start : start + _MOST_CHARACTERS]


def _lowered(delta: Delta) -> Any:
    s = _sink.bindings
    if isinstance(delta, TextDelta):
        return s.Delta_Text(_lower.text(delta.text))
    if isinstance(delta, ThinkingDelta):
        return s.Delta_Thinking(_lower.text(delta.text))
    if isinstance(delta, ToolCallDelta):
        return s.Delta_ToolCall(_lower.text(delta.name))
    if isinstance(delta, Usage):
        return s.Delta_Usage(_lower.usage(delta))
    return s.Delta_Other(_lower.opaque(delta))
