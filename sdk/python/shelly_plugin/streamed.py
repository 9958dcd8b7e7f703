"""A provider's reply that is put together while it arrives."""

from __future__ import annotations

from . import sink
from .errors import PluginError
from .types import Completion, Part, Thinking, ToolCall, Usage

__all__ = ["Streamed"]

_MOST_BYTES = 16 << 20
_MOST_CALLS = 1_024
# A server may alternate between a letter of text and one of thinking.
_PIECE = 64


class Streamed:
    """A reply that is put together while it arrives. Each piece is shown to people as soon as it is added.

    Bounds: 16 MiB, 1,024 tool calls (`too-large`).
    """

    def __init__(self, model: str) -> None:
        self._model = model
        self._parts: list[Part] = []
        self._texts: list[str] = []
        self._is_thinking = False
        self._usage = Usage()
        self._bytes = 0
        self._calls = 0

    def text(self, piece: str) -> None:
        """Adds text."""
        if piece:
            self._add(piece, is_thinking=False)
            sink.text(piece)

    def thinking(self, piece: str) -> None:
        """Adds reasoning."""
        if piece:
            self._add(piece, is_thinking=True)
            sink.thinking(piece)

    def call(self, id: str, name: str, arguments: str) -> None:
        """Adds a whole tool call. The host replaces an empty id."""
        self._grow(len(name) + len(arguments) + _PIECE)
        self._calls += 1
        if self._calls > _MOST_CALLS:
            raise PluginError("too-large", f"the model made more than {_MOST_CALLS} tool calls in one reply")
        self._flush()
        self._parts.append(ToolCall(id, name, arguments or "{}"))
        sink.tool_call(name)

    def usage(self, total: Usage) -> None:
        """Sets the usage so far. The host charges it if the call ends without a reply: set it as soon as it is known."""
        self._usage = total
        sink.usage(total)

    def finish(self, stop: str = "end-turn") -> Completion:
        """Returns the reply."""
        self._flush()
        return Completion(self._parts, stop, self._usage, self._model)

    def _add(self, piece: str, is_thinking: bool) -> None:
        self._grow(len(piece.encode("utf-8", "replace")))
        if self._texts and is_thinking != self._is_thinking:
            self._flush()
        if not self._texts:
            self._grow(_PIECE)
        self._is_thinking = is_thinking
        self._texts.append(piece)

    def _flush(self) -> None:
        """Ends the text or the reasoning that is being added to."""
        if self._texts:
            text = "".join(self._texts)
            self._parts.append(Thinking(text) if self._is_thinking else text)
            self._texts = []

    def _grow(self, by: int) -> None:
        self._bytes += by
        if self._bytes > _MOST_BYTES:
            raise PluginError("too-large", f"the reply has more than {_MOST_BYTES} bytes")
