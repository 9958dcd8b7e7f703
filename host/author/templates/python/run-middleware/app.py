"""A run middleware that asks again, once, when an answer is empty."""

from dataclasses import dataclass

from shelly_plugin import Message, export, run_middleware
from shelly_plugin.config import params
from shelly_plugin.run_middleware import Accept, AfterDecision, Outcome, Retry
from shelly_plugin.types import RunContext


@dataclass
class Params:
    """The params in the config.

    Attributes:
        feedback: The text that the agent is told after an empty answer.
    """

    feedback: str = "Your answer was empty. Answer in words."


class NoEmptyAnswer(run_middleware.RunMiddleware):
    def after(self, cx: RunContext, outcome: Outcome, state: bytes) -> AfterDecision:
        reply = outcome.reply
        # The message of an agent that hands over or has failed is no answer.
        is_empty = isinstance(reply, Message) and reply.is_answer and not reply.text.strip()
        if not is_empty or outcome.attempt > 0:
            return Accept()
        return Retry(params(Params).feedback, state=state)


RunMiddleware = export(NoEmptyAnswer)
