"""The request that a call of a model middleware handles. Always available to model middlewares."""

from __future__ import annotations

from typing import cast

from . import _lift
from ._bindings import HostInterface
from .types import Request

__all__ = ["get"]

_outgoing = HostInterface("outgoing")


def get() -> Request:
    """Returns the whole request, as the earlier middlewares left it. This copies the conversation.

    Without the power `see-messages` the messages have no parts.
    """
    return cast(Request, _outgoing.call("get", lift=_lift.request))
