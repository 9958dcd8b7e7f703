"""A model that repeats what it is told."""

import json

from componentize_py_types import Err
from wit_world import exports
from wit_world.imports import config, sink
from wit_world.imports.types import Completion, Error_Invalid, Part_Text, Role, StopReason_EndTurn, Usage

from logic import answer


class Provider(exports.Provider):
    def complete(self, model, request):
        said = [message for message in request.messages if message.role == Role.USER]
        if not said:
            raise Err(Error_Invalid("the conversation has no message of a user"))
        texts = [part.value for part in said[-1].parts if isinstance(part, Part_Text)]
        # The params of the config.
        text = answer(json.loads(config.get()).get("prefix", ""), texts)
        # Each piece is shown as soon as it is emitted. Together they must be the text that is returned.
        sink.emit(sink.Delta_Text(text))
        words = len(text.split())
        return Completion([Part_Text(text)], StopReason_EndTurn(), Usage(words, words, 0, 0), model, [])
