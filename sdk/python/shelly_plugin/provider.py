"""Providers: send requests to a model. `shelly_plugin.streamed` puts a reply together while it arrives."""

from __future__ import annotations

import abc

from .types import Completion, Request

__all__ = ["Provider"]


class Provider(abc.ABC):
    """A provider. It does not repeat failed requests: the host decides that."""

    @abc.abstractmethod
    def complete(self, model: str, request: Request) -> Completion:
        """Completes a request. `model` is the vendor's name for it. Bounds: 10 minutes, 16 MiB of reply."""
