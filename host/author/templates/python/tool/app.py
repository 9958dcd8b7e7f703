"""A tool that counts the words, lines and characters of a text."""

import json

from componentize_py_types import Err
from wit_world import exports
from wit_world.imports.types import Content_Json, Error_Invalid, Error_NotFound, ToolHints, ToolSpec

from logic import counts

NAME = "@{tool}"
# The arguments: the model reads the descriptions.
SCHEMA = {
    "type": "object",
    "properties": {"text": {"type": "string", "description": "The text to count in."}},
    "required": ["text"],
}
# It only computes from its arguments.
PURE = ToolHints.READ_ONLY | ToolHints.NON_DESTRUCTIVE | ToolHints.IDEMPOTENT | ToolHints.CLOSED_WORLD


class Tool(exports.Tool):
    def specs(self):
        about = "Counts the words, lines and characters of a text."
        return [ToolSpec(NAME, about, json.dumps(SCHEMA), None, PURE, [])]

    def call(self, call):
        if call.name != NAME:
            raise Err(Error_NotFound(f"unknown tool `{call.name}`; available tools: {NAME}"))
        text = json.loads(call.arguments).get("text")
        if not isinstance(text, str) or not text:
            # The model reads the error and tries again: say what would be right.
            raise Err(Error_Invalid("`text` must be a string that is not empty"))
        return [Content_Json(json.dumps(counts(text)))]
