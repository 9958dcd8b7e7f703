"""The types that all kinds of plugins share: messages, tool calls, requests, replies.

They follow `wit/types.wit`. A variant of the contract is a union here: a part of a message is a `str`, a `Media`, a
`ToolCall` and so on.
"""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass, field
from typing import Any, Literal, Union

__all__ = [
    "Ask",
    "Attachment",
    "Completion",
    "Content",
    "CopyTo",
    "FileAct",
    "FileChange",
    "ForcedTool",
    "Json",
    "MakeFolder",
    "Media",
    "Message",
    "MoveTo",
    "Opaque",
    "Part",
    "Remove",
    "Request",
    "Role",
    "RunContext",
    "Source",
    "Thinking",
    "ToolCall",
    "ToolChoice",
    "ToolHints",
    "ToolResult",
    "ToolSpec",
    "Url",
    "Usage",
    "WriteFile",
]

Role = Literal["system", "user", "assistant", "tool"]


@dataclass
class Attachment:
    """Bytes at the host, under an id. A provider reads them with `attachments.read`."""

    id: str


@dataclass
class Url:
    """Bytes on the web. The host does not fetch them."""

    url: str


Source = Union[bytes, Attachment, Url]


@dataclass
class Media:
    """An image, a document, a sound."""

    media_type: str
    source: Source
    name: str | None = None


@dataclass
class Opaque:
    """A value that has no type of its own in this version of the contract. Keep it and pass it on."""

    kind: str
    json: str


@dataclass
class Json:
    """Structured data in a tool's result, as JSON."""

    text: str

    @classmethod
    def of(cls, value: Any) -> Json:
        """Returns the value as JSON: also dataclasses, enums, sets and tuples."""
        return cls(to_json(value))

    @property
    def value(self) -> Any:
        """The parsed value."""
        return json.loads(self.text)


@dataclass
class WriteFile:
    """Writes this content to the file."""

    content: bytes


@dataclass
class Remove:
    """Removes the file, or the folder with everything below it."""


@dataclass
class MoveTo:
    """Moves the file or folder to this path."""

    path: str


@dataclass
class CopyTo:
    """Copies the file or folder to this path."""

    path: str


@dataclass
class MakeFolder:
    """Creates a folder."""


FileAct = Union[WriteFile, Remove, MoveTo, CopyTo, MakeFolder]


@dataclass
class FileChange:
    """A proposed change to a file or folder, which the host makes after a person has agreed to it.

    `expected` is the SHA-256, in hexadecimal, of the content that the proposal is based on. None: with `WriteFile` the
    file must not exist, otherwise it may have any content.
    """

    path: str
    act: FileAct
    expected: str | None = None


Content = Union[str, Json, Media, FileChange, Opaque]
"""A part of a tool's result."""


@dataclass
class ToolCall:
    """A model's request to run a tool. `arguments` is a JSON object, as the model wrote it."""

    id: str
    name: str
    arguments: str = "{}"
    meta: dict[str, str] = field(default_factory=dict)


@dataclass
class ToolResult:
    """The result of a tool call."""

    call_id: str
    content: list[Content]
    is_error: bool = False


@dataclass
class Thinking:
    """The reasoning of a model before its answer. `opaque` is data that the vendor expects back unchanged."""

    text: str
    opaque: str | None = None


Part = Union[str, Media, Thinking, ToolCall, ToolResult, Opaque]
"""A part of a message."""


@dataclass
class Message:
    """A message of a chat. Keys of `meta` that begin with `shelly.` belong to the host."""

    role: Role
    parts: list[Part]
    sender: str = ""
    meta: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, role: Role, text: str) -> Message:
        """Returns a message with one text."""
        return cls(role, [text])

    @property
    def text(self) -> str:
        """The text parts, concatenated."""
        return text_of(self.parts)

    @property
    def is_answer(self) -> bool:
        """True if the reply that a run middleware receives is an answer: not that of an agent that hands over or failed."""
        return self.meta.get("shelly.ending") not in ("handed-over", "failed")

    @property
    def member(self) -> str | None:
        """The team member that wrote the message, in the team's shared chat."""
        member = self.meta.get("shelly.member", self.sender)
        return member if self.role == "assistant" and member else None


class ToolHints(enum.Flag):
    """Hints on what a tool changes. With none of them the host treats the tool with the most care."""

    READ_ONLY = 1
    """Changes nothing."""
    NON_DESTRUCTIVE = 2
    """Adds, but never overwrites or removes."""
    IDEMPOTENT = 4
    """Changes nothing more when called again with the same arguments: the host may repeat a call that failed."""
    CLOSED_WORLD = 8
    """Works with a closed set of things, not with the open world."""
    PURE = 15
    """Only computes from its arguments."""


@dataclass
class ToolSpec:
    """The description of a tool for the model. The schemas are JSON."""

    name: str
    description: str
    input_schema: str
    output_schema: str | None = None
    hints: ToolHints = ToolHints(0)
    meta: dict[str, str] = field(default_factory=dict)


@dataclass
class Usage:
    """The tokens that a completion used. The four counts do not overlap."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0


@dataclass
class ForcedTool:
    """The choice of one tool, which the model must call."""

    name: str


ToolChoice = Union[Literal["auto", "never", "required"], ForcedTool]


@dataclass
class Request:
    """A request to a model."""

    messages: list[Message]
    tools: list[ToolSpec] = field(default_factory=list)
    tool_choice: ToolChoice = "auto"
    max_output_tokens: int | None = None
    temperature: float | None = None
    response_schema: str | None = None
    meta: dict[str, str] = field(default_factory=dict)


@dataclass
class Completion:
    """A model's reply.

    `stop` is `end-turn`, `tool-calls`, `max-tokens`, `stop-sequence` or `refusal`, or another reason in the vendor's
    words.
    """

    parts: list[Part]
    stop: str = "end-turn"
    usage: Usage = field(default_factory=Usage)
    model: str = ""
    meta: dict[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The text parts, concatenated."""
        return text_of(self.parts)


@dataclass
class Ask:
    """A plugin's request for a model's reply. `model` is a name in the host's config; None is the agent's own model."""

    request: Request
    model: str | None = None

    @classmethod
    def of(cls, text: str, model: str | None = None) -> Ask:
        """Returns a request with one message of a user."""
        return cls(Request([Message.of("user", text)]), model)


@dataclass
class RunContext:
    """The run that a call belongs to. `depth` is 0 for an agent that a person started, 1 for one below it, and so on."""

    run: str = "run"
    agent: str = "agent"
    depth: int = 0


def text_of(parts: list[Part]) -> str:
    """Returns the text parts, concatenated."""
    return "".join(part for part in parts if isinstance(part, str))


def to_json(value: Any) -> str:
    """Returns a value as JSON. Raises TypeError or ValueError for one that JSON cannot express."""
    return json.dumps(value, default=_plain, ensure_ascii=False, allow_nan=False)


def _plain(value: Any) -> Any:
    """Returns the JSON form of a value that `json` does not know."""
    if hasattr(value, "__dataclass_fields__") and not isinstance(value, type):
        return {name: getattr(value, name) for name in value.__dataclass_fields__}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    raise TypeError(f"a value of type {type(value).__name__} cannot be written as JSON; convert it first")
