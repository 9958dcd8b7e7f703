"""A tool middleware that asks a person before each call of a tool that may change something."""

from dataclasses import dataclass, field

from shelly_plugin import ToolHints, export, tool_middleware
from shelly_plugin.config import params
from shelly_plugin.tool_middleware import Allow, AskPerson, Decision, Target
from shelly_plugin.types import RunContext, ToolCall


@dataclass
class Params:
    """The params in the config.

    Attributes:
        allow: Tools that are called without a question.
    """

    allow: list[str] = field(default_factory=list)


class AskFirst(tool_middleware.ToolMiddleware):
    def before(self, cx: RunContext, call: ToolCall, target: Target) -> Decision:
        if ToolHints.READ_ONLY in target.hints or call.name in params(Params).allow:
            return Allow()
        # After "yes, for this session" the host does not ask again for the same topic.
        return AskPerson(f"`{call.name}` may change something", topic=call.name)


ToolMiddleware = export(AskFirst)
