"""Run middlewares: work around each run of an agent or team."""

from __future__ import annotations

import abc
from dataclasses import dataclass, field
from typing import Union

from .errors import PluginError
from .types import Message, RunContext, Usage

__all__ = [
    "Accept",
    "AfterDecision",
    "Answer",
    "BeforeDecision",
    "Outcome",
    "Proceed",
    "Reject",
    "Replace",
    "Retry",
    "RunMiddleware",
]


@dataclass
class Proceed:
    """Starts the run, with other input if it is not None. `after` gets the state."""

    input: list[Message] | None = None
    state: bytes = b""


@dataclass
class Answer:
    """Does not start the run: this message is its answer."""

    message: Message


@dataclass
class Reject:
    """Fails the run with this error."""

    error: PluginError


@dataclass
class Accept:
    """Keeps the outcome."""


@dataclass
class Replace:
    """Replaces the outcome with this message."""

    message: Message


@dataclass
class Retry:
    """Runs again, at most 8 times. `feedback` says what was wrong with the reply; the agent reads it."""

    feedback: str | None = None
    delay_ms: int = 0
    state: bytes = b""


BeforeDecision = Union[Proceed, Answer, Reject]
AfterDecision = Union[Accept, Replace, Reject, Retry]


@dataclass
class Outcome:
    """The outcome of a run. `attempt` is the number of earlier attempts that this middleware asked to repeat."""

    reply: Message | PluginError
    usage: Usage = field(default_factory=Usage)
    attempt: int = 0


class RunMiddleware(abc.ABC):
    """A run middleware. Bound of each call: 1 second."""

    def before(self, cx: RunContext, input: list[Message]) -> BeforeDecision:
        """Called before a run, with the task and not the chat."""
        return Proceed()

    def after(self, cx: RunContext, outcome: Outcome, state: bytes) -> AfterDecision:
        """Called after a run, and after each retry."""
        return Accept()
