"""Coordinators: decide which members of a team work next. The team's chat is read through `shelly_plugin.chat`."""

from __future__ import annotations

import abc
from dataclasses import dataclass, field
from typing import Literal, Union

from .errors import PluginError
from .types import Ask, Completion, Content, RunContext

__all__ = [
    "Action",
    "AskModel",
    "Assignment",
    "Coordinator",
    "CoordinatorInput",
    "Done",
    "HandedOver",
    "Member",
    "Outcome",
    "Report",
    "Run",
    "Step",
]


@dataclass
class Member:
    """A member of the team. `description` says which tasks it is suited for."""

    name: str
    role: str = ""
    description: str = ""


@dataclass
class HandedOver:
    """A member asks for the member of this name to continue. The chat has a user message that states the reason."""

    to: str


Outcome = Union[Literal["replied"], HandedOver, PluginError]
"""The outcome of a member's work: its reply is in the chat, it hands over, or it failed."""


@dataclass
class Report:
    """The report on a member of the last step."""

    member: str
    outcome: Outcome = "replied"


@dataclass
class CoordinatorInput:
    """The input of a coordinator. `step` is the number of steps before this one.

    `reply` is there only in the call that follows an `AskModel`.
    """

    members: list[Member] = field(default_factory=list)
    step: int = 0
    reports: list[Report] = field(default_factory=list)
    reply: Completion | PluginError | None = None
    cx: RunContext = field(default_factory=RunContext)


@dataclass
class Assignment:
    """The assignment of a member. Only this member receives the task; None: it sees what is new in the chat."""

    member: str
    task: str | None = None


@dataclass
class Run:
    """Starts these members in parallel."""

    assignments: list[Assignment]


@dataclass
class Done:
    """Ends the team's run: with the last reply in the chat, or with this content, which must not be empty."""

    answer: list[Content] | Literal["last-reply"] = "last-reply"


@dataclass
class AskModel:
    """Asks a model, then calls the coordinator again. Power `ask-model`."""

    ask: Ask


Action = Union[Run, Done, AskModel]


@dataclass
class Step:
    """The answer of a coordinator, with its state for the next call."""

    action: Action
    state: bytes = b""


class Coordinator(abc.ABC):
    """A coordinator. Each call runs in a fresh copy of the plugin: what a later call must know belongs into the state."""

    @abc.abstractmethod
    def next(self, input: CoordinatorInput, state: bytes) -> Step:
        """Decides the next step. An error ends the team's run. Bounds: 1 second, 10,000 steps."""
