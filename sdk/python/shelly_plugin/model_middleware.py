"""Model middlewares: work around each request to a model. `shelly_plugin.outgoing.get` reads the request."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import Union

from .errors import PluginError
from .types import Completion, Request, RunContext

__all__ = [
    "Accept",
    "AfterDecision",
    "Answer",
    "BeforeDecision",
    "ModelMiddleware",
    "Proceed",
    "Reject",
    "Replace",
    "Retry",
    "Sending",
]


@dataclass
class Sending:
    """A request that is about to be sent, or was sent. `tokens` is an estimate."""

    model: str = "model"
    digest: str = ""
    tokens: int = 0
    attempt: int = 0


@dataclass
class Proceed:
    """Sends the request. Another `model` must be granted; another `request` needs the power `rewrite`."""

    model: str | None = None
    request: Request | None = None
    state: bytes = b""


@dataclass
class Answer:
    """Does not send the request: this completion is the reply. Power `answer`."""

    completion: Completion


@dataclass
class Reject:
    """Fails the request with this error."""

    error: PluginError


@dataclass
class Accept:
    """Keeps the reply."""


@dataclass
class Replace:
    """Replaces the reply with this completion. Power `rewrite`."""

    completion: Completion


@dataclass
class Retry:
    """Sends the request again, at most 8 times, to another model if it is not None."""

    model: str | None = None
    delay_ms: int = 0
    state: bytes = b""


BeforeDecision = Union[Proceed, Answer, Reject]
AfterDecision = Union[Accept, Replace, Reject, Retry]


class ModelMiddleware(abc.ABC):
    """A model middleware. Bound of each call: 1 second."""

    def before(self, cx: RunContext, sending: Sending) -> BeforeDecision:
        """Called before a request."""
        return Proceed()

    def after(
        self, cx: RunContext, sending: Sending, reply: Completion | PluginError, state: bytes
    ) -> AfterDecision:
        """Called after a request, and after each retry."""
        return Accept()
