"""A tool of the contract in Python."""

import json

from componentize_py_types import Err
from wit_world import exports
from wit_world.imports.types import Content_Json, Error_Invalid, ToolHints, ToolSpec

SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
PURE = ToolHints.READ_ONLY | ToolHints.NON_DESTRUCTIVE | ToolHints.IDEMPOTENT | ToolHints.CLOSED_WORLD


class Tool(exports.Tool):
    def specs(self):
        return [ToolSpec("count_words", "Counts the words of a text.", json.dumps(SCHEMA), None, PURE, [])]

    def call(self, call):
        text = json.loads(call.arguments).get("text")
        if not isinstance(text, str):
            raise Err(Error_Invalid("`text` must be a string"))
        words = text.split()
        print(len(words), "words in Python")
        return [Content_Json(json.dumps({"words": len(words), "longest": max(words, key=len, default="")}))]
