"""A model middleware that refuses requests that are larger than allowed."""

from dataclasses import dataclass

from shelly_plugin import PluginError, export, model_middleware
from shelly_plugin.config import params
from shelly_plugin.model_middleware import BeforeDecision, Proceed, Reject, Sending
from shelly_plugin.types import RunContext


@dataclass
class Params:
    """The params in the config.

    Attributes:
        max_tokens: The estimated tokens of the largest request.
    """

    max_tokens: int = 100_000


class MaxRequest(model_middleware.ModelMiddleware):
    def before(self, cx: RunContext, sending: Sending) -> BeforeDecision:
        most = params(Params).max_tokens
        if sending.tokens > most:
            message = f"the request has about {sending.tokens} tokens, {most} are allowed"
            return Reject(PluginError("too-large", message))
        return Proceed()


ModelMiddleware = export(MaxRequest)
