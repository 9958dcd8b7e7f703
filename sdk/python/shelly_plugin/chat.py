"""The conversation that a call belongs to. It does not change during the call. Available to effects and coordinators.

For a tool the world imports `shelly:plugin/chat@0.2.0`, and plugin.toml asks for `chat = true` under `[wants]`. Read little:
`entries` is cheap, and `read` of the few messages that matter costs less than all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Iterator, cast

from . import _lift, _lower
from ._bindings import HostInterface
from .types import Message, Role

__all__ = ["Entry", "all_entries", "entries", "find", "length", "message", "newest", "read", "tools"]

_chat = HostInterface("chat")
_PAGE = 64


@dataclass
class Entry:
    """The facts about a message that are known without reading it.

    `id` stays with the message when it moves. `group` is the id of the assistant message whose calls opened the group of
    that message and its results. `tokens` is an estimate.
    """

    id: int
    role: Role
    group: int | None = None
    tokens: int = 0
    has_calls: bool = False
    has_results: bool = False
    has_failed: bool = False
    has_media: bool = False
    is_note: bool = False
    is_edited: bool = False

    @property
    def is_said_by_person(self) -> bool:
        """True if a person or another agent wrote the message: a user message that is not a note."""
        return self.role == "user" and not self.is_note

    @property
    def is_answer(self) -> bool:
        """True if the message ends a task: a reply of the model without tool calls."""
        return self.role == "assistant" and not self.has_calls


def length() -> int:
    """Returns the number of messages."""
    return cast(int, _chat.call("length"))


def entries(start: int, end: int) -> list[Entry]:
    """Returns the facts about the messages from position `start` up to but without `end`. Bound: 1,024 a call."""
    start, end = _lower.unsigned(start, "start", 32), _lower.unsigned(end, "end", 32)
    return cast("list[Entry]", _chat.call("entries", start, end, lift=_lifted_entries))


def read(start: int, end: int) -> list[Message]:
    """Returns the messages from position `start` up to but without `end`. Bound: those that fit into 1 MiB, at least one."""
    start, end = _lower.unsigned(start, "start", 32), _lower.unsigned(end, "end", 32)
    return cast("list[Message]", _chat.call("read", start, end, lift=_lift.messages))


def find(id: int) -> int | None:
    """Returns the current position of a message; None if it was removed or replaced."""
    return cast("int | None", _chat.call("find", _lower.unsigned(id, "id")))


def tools() -> list[str]:
    """Returns the names of the agent's tools, before effects hide any."""
    return list(_chat.call("tools"))


def message(position: int) -> Message | None:
    """Returns the message at this position."""
    return next(iter(read(position, position + 1)), None)


def all_entries() -> list[Entry]:
    """Returns the facts about all messages."""
    found: list[Entry] = []
    while more := entries(len(found), length()):
        found += more
    return found


def newest() -> Iterator[tuple[int, Entry]]:
    """Iterates over the messages from the newest to the oldest, as positions and facts, fetched as it advances."""
    end = length()
    while end > 0:
        start = max(0, end - _PAGE)
        for position, entry in reversed(list(enumerate(entries(start, end), start))):
            yield position, entry
        end = start


def _lifted_entries(values: Any) -> list[Entry]:
    return [_lifted_entry(value) for value in values]


def _lifted_entry(value: Any) -> Entry:
    # The flags in the order of the contract: calls, results, failed, media, note, edited.
    traits = [bool(value.traits.value & 1 << bit) for bit in range(6)]
    return Entry(value.id, _lift.role(value.role), value.group, value.tokens, *traits)
