"""A model that repeats what it is told. The README of `shelly_plugin` has one that asks a server."""

from dataclasses import dataclass

from shelly_plugin import PluginError, export, provider
from shelly_plugin.config import params
from shelly_plugin.streamed import Streamed
from shelly_plugin.types import Completion, Request, Usage


@dataclass
class Params:
    """The params in the config.

    Attributes:
        prefix: The text before each answer.
    """

    prefix: str = ""


class Echo(provider.Provider):
    def complete(self, model: str, request: Request) -> Completion:
        said = [message.text for message in request.messages if message.role == "user"]
        if not said:
            raise PluginError("invalid", "the conversation has no message of a user")
        # Each piece is shown as soon as it is added.
        reply = Streamed(model)
        reply.text(params(Params).prefix)
        reply.text(said[-1])
        words = len(said[-1].split())
        reply.usage(Usage(input_tokens=words, output_tokens=words))
        return reply.finish()


Provider = export(Echo)
