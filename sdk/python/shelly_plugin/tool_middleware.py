"""Tool middlewares: work around each tool call, whatever the tool's origin."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import Union

from .errors import PluginError
from .types import Content, RunContext, ToolCall, ToolHints

__all__ = ["Allow", "Answer", "AskPerson", "Decision", "Deny", "Target", "ToolMiddleware"]


@dataclass
class Target:
    """The tool that is called. `origin` is a plugin's id, `mcp:` and a server's name, or `host`."""

    origin: str = "host"
    hints: ToolHints = ToolHints(0)


@dataclass
class Allow:
    """Makes the call, with other arguments (JSON) if they are not None. `after` gets the state."""

    arguments: str | None = None
    state: bytes = b""


@dataclass
class AskPerson:
    """Asks a person, and makes the call on yes. Denies it if nobody can be asked.

    After "yes, for this session" the host does not ask again for an equal `topic` of this plugin.
    """

    text: str
    topic: str
    arguments: str | None = None
    state: bytes = b""


@dataclass
class Answer:
    """Does not make the call: this content is its result."""

    content: list[Content]
    state: bytes = b""


@dataclass
class Deny:
    """Does not make the call: the model receives this text as an error. Name the rule."""

    reason: str
    state: bytes = b""


Decision = Union[Allow, AskPerson, Answer, Deny]


class ToolMiddleware(abc.ABC):
    """A tool middleware. Bound of each call: 1 second."""

    def before(self, cx: RunContext, call: ToolCall, target: Target) -> Decision:
        """Called before a call."""
        return Allow()

    def after(
        self, cx: RunContext, call: ToolCall, outcome: list[Content] | PluginError, state: bytes
    ) -> list[Content] | None:
        """Called after a call. Returns new content for the result; None keeps it."""
        return None
