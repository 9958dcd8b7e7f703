"""A tool middleware that asks a person before each call of a tool that may change something."""

import json

from wit_world import exports
from wit_world.exports.tool_middleware import Decision, Question, Verdict_Allow, Verdict_Ask
from wit_world.imports import config
from wit_world.imports.types import ToolHints

from logic import question


class ToolMiddleware(exports.ToolMiddleware):
    def before(self, cx, call, target):
        # The params of the config: tools that are called without a question.
        allowed = json.loads(config.get()).get("allow", [])
        text = question(call.name, ToolHints.READ_ONLY in target.hints, allowed)
        # After "yes, for this session" the host does not ask again for the same topic.
        verdict = Verdict_Allow() if text is None else Verdict_Ask(Question(text, call.name))
        return Decision(verdict, None, b"")

    def after(self, cx, call, outcome, state):
        return None
