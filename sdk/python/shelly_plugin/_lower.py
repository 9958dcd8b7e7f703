"""Values of this package as values of the bindings.

The bindings end the plugin at a value that they cannot convert, such as a negative count. So numbers are checked here, with
the name of the field.
"""

from __future__ import annotations

import re
from typing import Any

from . import _bindings, types
from ._lift import ROLES
from .errors import PluginError
from .types import Completion, Content, Message, Part, Source, ToolCall, ToolSpec, Usage

_HALF_PAIR = re.compile("[\ud800-\udfff]")
_STOPS = ("end-turn", "tool-calls", "max-tokens", "stop-sequence", "refusal")


def text(value: Any) -> str:
    """Returns a text that can be written as UTF-8: half of a surrogate pair, which JSON can contain, becomes U+FFFD."""
    if not isinstance(value, str):
        raise TypeError(f"got a value of type {type(value).__name__} in place of a text: {value!r:.80}")
    return value if value.isascii() else _HALF_PAIR.sub("\ufffd", value)


def optional_text(value: str | None) -> str | None:
    return None if value is None else text(value)


def unsigned(value: int, field: str, bits: int = 64) -> int:
    """Checks a whole number that must not be negative."""
    if not isinstance(value, int) or not 0 <= value < 1 << bits:
        raise ValueError(f"`{field}` is {value!r}; use a whole number from 0 to {(1 << bits) - 1}")
    return int(value)


def optional_unsigned(value: int | None, field: str, bits: int = 64) -> int | None:
    return None if value is None else unsigned(value, field, bits)


def meta(value: dict[str, str]) -> list[tuple[str, str]]:
    return [(text(key), text(fact)) for key, fact in value.items()]


def error(value: PluginError) -> Any:
    t = _bindings.types
    payload: Any = text(value.message)
    if value.kind in ("rate-limited", "unavailable"):
        payload = t.Retry(payload, optional_unsigned(value.after_ms, "after_ms"))
    return _bindings.case(t, "Error", value.kind)(payload)


def usage(value: Usage) -> Any:
    return _bindings.types.Usage(
        unsigned(value.input_tokens, "input_tokens"),
        unsigned(value.output_tokens, "output_tokens"),
        unsigned(value.cache_read_tokens, "cache_read_tokens"),
        unsigned(value.cache_write_tokens, "cache_write_tokens"),
    )


def source(value: Source) -> Any:
    t = _bindings.types
    if isinstance(value, types.Attachment):
        return t.Source_Attachment(text(value.id))
    if isinstance(value, types.Url):
        return t.Source_Url(text(value.url))
    return t.Source_Bytes(bytes(value))


def media(value: types.Media) -> Any:
    return _bindings.types.Media(text(value.media_type), optional_text(value.name), source(value.source))


def opaque(value: types.Opaque) -> Any:
    return _bindings.types.Opaque(text(value.kind), text(value.json))


def call(value: ToolCall) -> Any:
    return _bindings.types.ToolCall(text(value.id), text(value.name), text(value.arguments), meta(value.meta))


def file_change(value: types.FileChange) -> Any:
    t, act = _bindings.types, value.act
    lowered: Any
    if isinstance(act, types.WriteFile):
        lowered = t.FileAct_Write(bytes(act.content))
    elif isinstance(act, types.MoveTo):
        lowered = t.FileAct_MoveTo(text(act.path))
    elif isinstance(act, types.CopyTo):
        lowered = t.FileAct_CopyTo(text(act.path))
    else:
        lowered = t.FileAct_Remove() if isinstance(act, types.Remove) else t.FileAct_MakeFolder()
    return t.FileChange(text(value.path), optional_text(value.expected), lowered)


def content(value: Content) -> Any:
    t = _bindings.types
    if isinstance(value, types.Json):
        return t.Content_Json(text(value.text))
    if isinstance(value, types.Media):
        return t.Content_Media(media(value))
    if isinstance(value, types.FileChange):
        return t.Content_Change(file_change(value))
    if isinstance(value, types.Opaque):
        return t.Content_Other(opaque(value))
    return t.Content_Text(text(value))


def contents(values: list[Content]) -> list[Any]:
    return [content(value) for value in values]


def part(value: Part) -> Any:
    t = _bindings.types
    if isinstance(value, types.Media):
        return t.Part_Media(media(value))
    if isinstance(value, types.Thinking):
        return t.Part_Thinking(t.Thinking(text(value.text), optional_text(value.opaque)))
    if isinstance(value, types.ToolCall):
        return t.Part_ToolCall(call(value))
    if isinstance(value, types.ToolResult):
        return t.Part_ToolResult(t.ToolResult(text(value.call_id), contents(value.content), bool(value.is_error)))
    if isinstance(value, types.Opaque):
        return t.Part_Other(opaque(value))
    return t.Part_Text(text(value))


def message(value: Message) -> Any:
    t = _bindings.types
    if value.role not in ROLES:
        raise ValueError(f"unknown role {value.role!r} of a message; use one of {', '.join(ROLES)}")
    parts = [part(one) for one in value.parts]
    return t.Message(text(value.sender), t.Role(ROLES.index(value.role)), parts, meta(value.meta))


def messages(values: list[Message]) -> list[Any]:
    return [message(value) for value in values]


def tool_spec(value: ToolSpec) -> Any:
    t = _bindings.types
    return t.ToolSpec(
        text(value.name),
        text(value.description),
        text(value.input_schema),
        optional_text(value.output_schema),
        t.ToolHints(value.hints.value),
        meta(value.meta),
    )


def request(value: types.Request) -> Any:
    t, choice = _bindings.types, value.tool_choice
    if isinstance(choice, types.ForcedTool):
        lowered = t.ToolChoice_Tool(text(choice.name))
    else:
        lowered = _bindings.case(t, "ToolChoice", choice)()
    return t.Request(
        messages(value.messages),
        [tool_spec(tool) for tool in value.tools],
        lowered,
        optional_unsigned(value.max_output_tokens, "max_output_tokens", 32),
        None if value.temperature is None else float(value.temperature),
        optional_text(value.response_schema),
        meta(value.meta),
    )


def optional_request(value: types.Request | None) -> Any:
    return None if value is None else request(value)


def completion(value: Completion) -> Any:
    t = _bindings.types
    is_known = value.stop in _STOPS
    stop = _bindings.case(t, "StopReason", value.stop)() if is_known else t.StopReason_Other(text(value.stop))
    parts = [part(one) for one in value.parts]
    return t.Completion(parts, stop, usage(value.usage), text(value.model), meta(value.meta))


def ask(value: types.Ask) -> Any:
    return _bindings.types.Ask(optional_text(value.model), request(value.request))
