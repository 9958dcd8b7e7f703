"""Values of the bindings as values of this package."""

from __future__ import annotations

from typing import Any, get_args

from . import _bindings, types
from .errors import PluginError
from .types import Completion, Content, Message, Part, Role, RunContext, Source, ToolCall, ToolSpec, Usage

ROLES: tuple[Role, ...] = get_args(Role)


def role(value: Any) -> Role:
    return ROLES[value.value]


def context(value: Any) -> RunContext:
    return RunContext(value.run, value.agent, value.depth)


def usage(value: Any) -> Usage:
    return Usage(value.input_tokens, value.output_tokens, value.cache_read_tokens, value.cache_write_tokens)


def source(value: Any) -> Source:
    case = _bindings.case_of(value)
    if case == "bytes":
        return bytes(value.value)
    return types.Attachment(value.value) if case == "attachment" else types.Url(value.value)


def media(value: Any) -> types.Media:
    return types.Media(value.media_type, source(value.source), value.name)


def opaque(value: Any) -> types.Opaque:
    return types.Opaque(value.kind, value.json)


def call(value: Any) -> ToolCall:
    return ToolCall(value.id, value.name, value.arguments, dict(value.meta))


def file_change(value: Any) -> types.FileChange:
    case = _bindings.case_of(value.act)
    act: types.FileAct
    if case == "write":
        act = types.WriteFile(bytes(value.act.value))
    elif case == "move-to":
        act = types.MoveTo(value.act.value)
    elif case == "copy-to":
        act = types.CopyTo(value.act.value)
    else:
        act = types.Remove() if case == "remove" else types.MakeFolder()
    return types.FileChange(value.path, act, value.expected)


def content(value: Any) -> Content:
    case = _bindings.case_of(value)
    if case == "text":
        return str(value.value)
    if case == "json":
        return types.Json(value.value)
    if case == "media":
        return media(value.value)
    return file_change(value.value) if case == "change" else opaque(value.value)


def contents(values: Any) -> list[Content]:
    return [content(value) for value in values]


def part(value: Any) -> Part:
    case, inner = _bindings.case_of(value), value.value
    if case == "text":
        return str(inner)
    if case == "media":
        return media(inner)
    if case == "thinking":
        return types.Thinking(inner.text, inner.opaque)
    if case == "tool-call":
        return call(inner)
    if case == "tool-result":
        return types.ToolResult(inner.call_id, contents(inner.content), inner.is_error)
    return opaque(inner)


def message(value: Any) -> Message:
    return Message(role(value.role), [part(one) for one in value.parts], value.sender, dict(value.meta))


def messages(values: Any) -> list[Message]:
    return [message(value) for value in values]


def tool_spec(value: Any) -> ToolSpec:
    hints = types.ToolHints(value.hints.value)
    return ToolSpec(value.name, value.description, value.input_schema, value.output_schema, hints, dict(value.meta))


def request(value: Any) -> types.Request:
    case = _bindings.case_of(value.tool_choice)
    choice: Any = types.ForcedTool(value.tool_choice.value) if case == "tool" else case
    return types.Request(
        messages(value.messages),
        [tool_spec(tool) for tool in value.tools],
        choice,
        value.max_output_tokens,
        value.temperature,
        value.response_schema,
        dict(value.meta),
    )


def completion(value: Any) -> Completion:
    case = _bindings.case_of(value.stop)
    stop = value.stop.value if case == "other" else case
    return Completion([part(one) for one in value.parts], stop, usage(value.usage), value.model, dict(value.meta))


def reply(value: Any) -> Completion | PluginError:
    """Returns a result of a completion or an error."""
    if isinstance(value, _bindings.results.Ok):
        return completion(value.value)
    return _bindings.error_from_bindings(value.value)
