"""A model middleware that refuses requests that are larger than allowed."""

import json

from wit_world import exports
from wit_world.exports.model_middleware import (
    AfterDecision_Accept,
    BeforeDecision_Proceed,
    BeforeDecision_Reject,
    Pass,
)
from wit_world.imports import config
from wit_world.imports.types import Error_TooLarge

from logic import refusal


class ModelMiddleware(exports.ModelMiddleware):
    def before(self, cx, sending):
        # The params of the config.
        most = json.loads(config.get()).get("max_tokens", 100_000)
        why = refusal(sending.tokens, most)
        if why is not None:
            return BeforeDecision_Reject(Error_TooLarge(why))
        return BeforeDecision_Proceed(Pass(None, None, b""))

    def after(self, cx, sending, reply, state):
        return AfterDecision_Accept()
