"""Effects: inspect the agent's chat once per turn and return changes to it. `shelly_plugin.chat` reads the chat."""

from __future__ import annotations

import abc
import math
from dataclasses import dataclass, field
from typing import Literal, Union

from .errors import PluginError
from .types import Ask, Completion, Content, Message, Opaque, RunContext, Usage

__all__ = [
    "Edit",
    "Effect",
    "EffectInput",
    "HideTools",
    "NextCall",
    "Note",
    "Replace",
    "ReplaceResult",
    "Step",
    "Stop",
    "Wake",
]


@dataclass
class EffectInput:
    """The input of an effect. `phase` is `before-model` or `after-model`; times are in milliseconds.

    `reply` is there only in the call that follows `Step(ask=…)`.
    """

    cx: RunContext = field(default_factory=RunContext)
    phase: str = "before-model"
    iteration: int = 0
    messages: int = 0
    request_tokens: int = 0
    context_window: int | None = None
    last_usage: Usage | None = None
    run_usage: Usage = field(default_factory=Usage)
    model_ms: int = 0
    elapsed_ms: int = 0
    reply: Completion | PluginError | None = None

    def fills(self, share: float) -> bool:
        """Returns True if the conversation fills this share of the context window; False if its size is unknown."""
        if not self.context_window:
            return False
        last = self.last_usage or Usage()
        counted = last.input_tokens + last.cache_read_tokens + last.cache_write_tokens
        return max(self.request_tokens, counted) >= math.ceil(self.context_window * share)


@dataclass
class Note:
    """Adds a user message in the effect's name. Power `note`. Bound: 16 KiB."""

    text: str


@dataclass
class ReplaceResult:
    """Replaces the content of a tool's result. Power `edit-results`."""

    call_id: str
    content: list[Content]


@dataclass
class Replace:
    """Replaces the messages from `first` to `last`, given by their ids, or removes them. Power `rewrite`."""

    first: int
    last: int
    messages: list[Message] = field(default_factory=list)


@dataclass
class HideTools:
    """Hides tools from the model until this effect is called again in `before-model`. Power `hide-tools`."""

    names: list[str]


@dataclass
class Stop:
    """Ends the run as failed. `code` is for programs, `message` for people. Power `stop`."""

    code: str
    message: str


Edit = Union[Note, ReplaceResult, Replace, HideTools, Stop, Opaque]
"""A change of the chat. Each needs a power, which plugin.toml asks for."""


@dataclass
class Wake:
    """The conditions under which the host calls an effect again: in the first of its phases in which one holds.

    A waiting effect costs nothing. Without a condition none ever holds: write `next_call="never"` for that.
    """

    iteration: int | None = None
    request_tokens: int | None = None
    run_tokens: int | None = None
    model_ms: int | None = None


NextCall = Union[Literal["next-phase", "never"], Wake]
"""The time of the next call: in the next of the effect's phases, once a condition of a `Wake` holds, or not in this run.

An effect with the power `hide-tools` is called for a tool that appears later, even after `never`.
"""


@dataclass
class Step:
    """The answer of an effect: its state for the next call, and edits, or a request to a model.

    After a request the host calls the effect again with the reply; it needs the power `ask-model`.
    """

    state: bytes = b""
    edits: list[Edit] = field(default_factory=list)
    ask: Ask | None = None
    next_call: NextCall = "next-phase"


class Effect(abc.ABC):
    """An effect. Each call runs in a fresh copy of the plugin: what a later call must know belongs into the state."""

    @abc.abstractmethod
    def eval(self, input: EffectInput, state: bytes) -> Step:
        """Inspects the chat and returns an answer. Bound: 1 second."""
