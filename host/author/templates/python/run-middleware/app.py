"""A run middleware that asks again, once, when an answer is empty."""

import json

from componentize_py_types import Ok
from wit_world import exports
from wit_world.exports.run_middleware import (
    AfterDecision_Accept,
    AfterDecision_Retry,
    Again,
    BeforeDecision_Proceed,
    Pass,
)
from wit_world.imports import config
from wit_world.imports.types import Part_Text

from logic import is_empty_answer


class RunMiddleware(exports.RunMiddleware):
    def before(self, cx, input):
        return BeforeDecision_Proceed(Pass(None, b""))

    def after(self, cx, outcome, state):
        if outcome.attempt > 0 or not isinstance(outcome.reply, Ok):
            return AfterDecision_Accept()
        reply = outcome.reply.value
        texts = [part.value for part in reply.parts if isinstance(part, Part_Text)]
        if not is_empty_answer(texts, dict(reply.meta)):
            return AfterDecision_Accept()
        # The params of the config.
        feedback = json.loads(config.get()).get("feedback", "Your answer was empty. Answer in words.")
        return AfterDecision_Retry(Again(feedback, 0, state))
