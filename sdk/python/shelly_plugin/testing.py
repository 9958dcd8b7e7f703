"""A host for unit tests, in plain Python: no component is built, and nothing is reached.

    from shelly_plugin.testing import Host

    with Host(params={"turns": 3}) as host:
        host.respond("GET", "https://example.com/a", json={"title": "A"})
        assert title("a") == "A"
        assert host.log == [("info", "a was read")]
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import Any, Iterable, Union

from . import _bindings
from .chat import Entry
from .coordinator import AskModel, Coordinator
from .coordinator import CoordinatorInput
from .coordinator import Step as TeamStep
from .effect import Effect, EffectInput, Step
from .errors import PluginError
from .http import HttpRequest
from .kv import Entry as KvEntry
from .process import Command, Output
from .sink import Delta, TextDelta
from .tools import Tool
from .types import Ask, Completion, Content, Media, Message, Request, ToolCall, ToolResult, to_json

__all__ = ["Host", "SentRequest"]

_MOST_ASKS = 8
_MOST_KEY_BYTES = 512
_MOST_VALUE_BYTES = 1 << 20
_MOST_KEYS = 1_000
_MOST_ENTRIES = 1_024
_MOST_READ = 64 << 10


class _Clock:
    """A clock that stands still until a test advances it. It begins on 2025-01-01."""

    def __init__(self) -> None:
        self.now_ms = 1_735_689_600_000
        self.monotonic_ns = 0

    def advance(self, seconds: float) -> None:
        self.now_ms += int(seconds * 1_000)
        self.monotonic_ns += int(seconds * 1_000_000_000)

    def now(self) -> int:
        return self.now_ms

    def monotonic(self) -> int:
        return self.monotonic_ns


class _Kv:
    """A key-value store in memory. `values` has the stored values by their keys."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self._revisions: dict[str, int] = {}
        self._newest = 0

    def get(self, key: str) -> KvEntry | None:
        self._check(key)
        value = self.values.get(key)
        return None if value is None else KvEntry(value, self._revisions.setdefault(key, 0))

    def set(self, key: str, value: bytes | None) -> None:
        self._check(key)
        if value is None:
            self.values.pop(key, None)
            return
        if len(value) > _MOST_VALUE_BYTES:
            raise PluginError("too-large", f"the value of `{key}` has {len(value)} bytes, the bound is {_MOST_VALUE_BYTES}")
        self._newest += 1
        self.values[key] = value
        self._revisions[key] = self._newest

    def compare_and_swap(self, key: str, expected: int | None, value: bytes | None) -> bool:
        entry = self.get(key)
        if (None if entry is None else entry.revision) != expected:
            return False
        self.set(key, value)
        return True

    def keys(self, prefix: str, after: str | None) -> list[str]:
        found = sorted((key for key in self.values if key.startswith(prefix)), key=str.encode)
        return [key for key in found if after is None or key.encode() > after.encode()][:_MOST_KEYS]

    @staticmethod
    def _check(key: str) -> None:
        if not 1 <= len(key.encode()) <= _MOST_KEY_BYTES:
            raise PluginError("invalid", f"a key has 1 to {_MOST_KEY_BYTES} bytes, this one {len(key.encode())}")


@dataclass
class SentRequest:
    """A request that the plugin has sent."""

    method: str
    url: str
    headers: dict[str, str]
    body: bytes
    credential: str | None = None
    timeout_ms: int | None = None


class _Body:
    """The body of a prepared response, which arrives in pieces."""

    def __init__(self, pieces: Iterable[bytes | PluginError]) -> None:
        # No piece is empty: that is the end of a body.
        self.pieces = [piece for piece in pieces if piece != b""]

    def read(self, most: int) -> bytes:
        if not self.pieces:
            return b""
        piece = self.pieces.pop(0)
        if isinstance(piece, PluginError):
            raise piece
        most = min(most, _MOST_READ)
        if len(piece) > most:
            self.pieces.insert(0, piece[most:])
        return piece[:most]


@dataclass
class _Prepared:
    """A response that answers one request, or all further ones."""

    outcome: _Response | PluginError
    is_for_all: bool


@dataclass
class _Response:
    status: int
    headers: list[tuple[str, str]]
    pieces: list[bytes | PluginError]
    body: _Body = field(init=False)

    def __post_init__(self) -> None:
        self.body = _Body(self.pieces)


class _Upload:
    """A request whose body arrives in pieces."""

    def __init__(self, http: _Http, request: HttpRequest) -> None:
        self.http, self.request, self.body = http, request, b""

    def write(self, piece: bytes) -> None:
        self.body += piece

    def finish(self) -> _Response:
        return self.http.send(self.request, self.body)


class _Http:
    """Servers, with responses that a test prepares. `requests` has the requests of the plugin."""

    def __init__(self, credentials: list[str]) -> None:
        self.requests: list[SentRequest] = []
        self._credentials = credentials
        self._prepared: dict[tuple[str, str], list[_Prepared]] = {}

    def prepare(self, method: str, url: str, prepared: _Prepared) -> None:
        self._prepared.setdefault((method, url), []).append(prepared)

    def send(self, request: HttpRequest, body: bytes) -> _Response:
        sent = SentRequest(
            request.method, request.url, dict(request.headers), body, request.credential, request.timeout_ms
        )
        self.requests.append(sent)
        prepared = self._prepared.get((request.method, request.url))
        if not prepared:
            known = ", ".join(f"{method} {url}" for (method, url), left in self._prepared.items() if left) or "none"
            raise AssertionError(
                f"no response is prepared for {request.method} {request.url}; prepare it with `host.respond`. "
                f"Prepared: {known}"
            )
        first = prepared[0]
        if not first.is_for_all:
            prepared.pop(0)
        if isinstance(first.outcome, PluginError):
            raise first.outcome
        return _Response(first.outcome.status, first.outcome.headers, first.outcome.pieces)

    def begin(self, request: HttpRequest) -> _Upload:
        return _Upload(self, request)

    def credentials(self) -> list[str]:
        return self._credentials


class _Models:
    """Models, with replies that a test prepares. `asked` has the questions of the plugin."""

    def __init__(self) -> None:
        self.asked: list[Ask] = []
        self.replies: list[Completion | PluginError] = []

    def answer(self, ask: Ask) -> Completion | PluginError:
        """Returns the next reply."""
        self.asked.append(ask)
        if not self.replies:
            raise AssertionError("no reply of a model is prepared; prepare it with `host.reply`")
        return self.replies.pop(0)


class _Programs:
    """Programs, with outputs that a test prepares. `commands` has the commands of the plugin."""

    def __init__(self) -> None:
        self.commands: list[Command] = []
        self.outputs: dict[str, list[Output | PluginError]] = {}

    def run(self, command: Command) -> Output:
        self.commands.append(command)
        outputs = self.outputs.get(command.program)
        if not outputs:
            raise AssertionError(
                f"no output is prepared for the program `{command.program}`; prepare it with `host.set_output`"
            )
        output = outputs.pop(0)
        if isinstance(output, PluginError):
            raise output
        return output


class _Chat:
    """A conversation. The id of a message is its position plus 1."""

    def __init__(self, host: Host) -> None:
        self.host = host

    def length(self) -> int:
        return len(self.host.chat)

    def entries(self, start: int, end: int) -> list[Entry]:
        entries: list[Entry] = []
        group = None
        for position, message in enumerate(self.host.chat):
            has_calls = any(isinstance(part, ToolCall) for part in message.parts)
            results = [part for part in message.parts if isinstance(part, ToolResult)]
            if has_calls:
                group = position + 1
            elif not results:
                group = None
            entries.append(
                Entry(
                    position + 1,
                    message.role,
                    group,
                    # About four bytes a token, as the host estimates text.
                    len(to_json(message)) // 4,
                    has_calls,
                    bool(results),
                    any(result.is_error for result in results),
                    any(isinstance(part, Media) for part in message.parts),
                    "shelly.note" in message.meta,
                )
            )
        return entries[start:end][:_MOST_ENTRIES]

    def read(self, start: int, end: int) -> list[Message]:
        return self.host.chat[start:end]

    def find(self, id: int) -> int | None:
        return id - 1 if 1 <= id <= len(self.host.chat) else None

    def tools(self) -> list[str]:
        return self.host.tools


class Host:
    """A host for unit tests. Within `with`, the functions of `shelly_plugin` use it.

    Args:
        params: The plugin's params.
        chat: The conversation, for effects and coordinators.
        tools: The names of the agent's tools.
        attachments: The bytes of attachments, by their ids.
        outgoing: The request that a model middleware handles.
        credentials: The names of the credentials that are granted.
    """

    def __init__(
        self,
        *,
        params: dict[str, Any] | None = None,
        chat: Iterable[Message] = (),
        tools: Iterable[str] = (),
        attachments: dict[str, bytes] | None = None,
        outgoing: Request | None = None,
        credentials: Iterable[str] = (),
    ) -> None:
        self.params = params or {}
        self.chat = list(chat)
        self.tools = list(tools)
        self.attachments = attachments or {}
        self.outgoing = outgoing
        self._clock = _Clock()
        self._kv = _Kv()
        self._http = _Http(list(credentials))
        self._models = _Models()
        self._programs = _Programs()
        self.log: list[tuple[str, str]] = []
        """The entries of the log: level and message."""
        self.progress: list[tuple[float, float | None, str | None]] = []
        """The reports of progress: done, total and message."""
        self.emitted: list[Delta] = []
        """The pieces of replies that a provider has passed on."""
        self._random = random.Random(0)

    def __enter__(self) -> Host:
        if _bindings.fakes:
            raise RuntimeError("a testing.Host is entered already; end it before the next")
        _bindings.fakes.update(
            config=_Functions(get=lambda: to_json(self.params)),
            log=_Functions(write=lambda level, message: self.log.append((level, message))),
            progress=_Functions(report=lambda *report: self.progress.append(report)),
            sink=_Functions(emit=self.emitted.append),
            outgoing=_Functions(get=self._request),
            attachments=_Functions(read=self._attachment),
            random=_Functions(bytes=self._random.randbytes),
            chat=_Chat(self),
            clock=self._clock,
            kv=self._kv,
            http=self._http,
            process=self._programs,
        )
        return self

    def __exit__(self, *_: object) -> None:
        _bindings.fakes.clear()

    @property
    def stored(self) -> dict[str, bytes]:
        """The stored values, by their keys."""
        return self._kv.values

    @property
    def requests(self) -> list[SentRequest]:
        """The requests that were sent."""
        return self._http.requests

    @property
    def asked(self) -> list[Ask]:
        """The questions to models."""
        return self._models.asked

    @property
    def commands(self) -> list[Command]:
        """The commands that were run."""
        return self._programs.commands

    def advance(self, seconds: float) -> None:
        """Lets time pass. The clock stands still otherwise."""
        self._clock.advance(seconds)

    def respond(
        self,
        method: str,
        url: str,
        *,
        status: int = 200,
        headers: dict[str, str] | None = None,
        body: bytes | str | Iterable[bytes | PluginError] = b"",
        json: Any = None,
        error: PluginError | None = None,
        always: bool = False,
    ) -> None:
        """Prepares the response to a request with this method and URL, query included.

        Each answers one request, in the order in which they were prepared, or every further one with `always`. A body of
        several pieces arrives in these; an error among them breaks the connection. `error` is raised in place of a
        response.
        """
        outcome: _Response | PluginError
        if error is not None:
            outcome = error
        else:
            if json is not None:
                body = to_json(json)
            whole = body.encode() if isinstance(body, str) else body
            pieces: list[bytes | PluginError] = [whole] if isinstance(whole, bytes) else list(whole)
            lower = [(name.lower(), value) for name, value in (headers or {}).items()]
            outcome = _Response(status, lower, pieces)
        self._http.prepare(method, url, _Prepared(outcome, always))

    def reply(self, reply: str | Completion | PluginError) -> None:
        """Prepares the reply to the next question to a model: a text, a completion, or an error."""
        self._models.replies.append(Completion([reply]) if isinstance(reply, str) else reply)

    def set_output(self, program: str, output: Output | PluginError) -> None:
        """Prepares the outcome of the next run of a program."""
        self._programs.outputs.setdefault(program, []).append(output)

    @property
    def text(self) -> str:
        """The text that a provider has passed on."""
        return "".join(delta.text for delta in self.emitted if isinstance(delta, TextDelta))

    def call(
        self, tool: Tool[..., Any], arguments: Union[str, dict[str, Any], None] = None, /, **named: Any
    ) -> list[Content]:
        """Calls a tool as a model does: with its arguments as JSON or by name. Raises `PluginError`."""
        given = arguments if isinstance(arguments, str) else to_json({**(arguments or {}), **named})
        return tool.run(given)

    def eval(self, effect: Effect, input: EffectInput | None = None, state: bytes = b"") -> Step:
        """Calls an effect, and calls it again with the next prepared reply each time that it asks a model."""
        input = input or EffectInput(messages=len(self.chat))
        for _ in range(_MOST_ASKS + 1):
            step = effect.eval(input, state)
            if step.ask is None:
                return step
            state = step.state
            # A copy: the test may use its input again.
            input = replace(input, reply=self._models.answer(step.ask))
        raise PluginError("exhausted", f"the effect asked a model more than {_MOST_ASKS} times in a row")

    def next(self, coordinator: Coordinator, input: CoordinatorInput, state: bytes = b"") -> TeamStep:
        """Calls a coordinator, and calls it again with the next prepared reply each time that it asks a model."""
        for _ in range(_MOST_ASKS + 1):
            step = coordinator.next(input, state)
            if not isinstance(step.action, AskModel):
                return step
            state = step.state
            input = replace(input, reply=self._models.answer(step.action.ask))
        raise PluginError("exhausted", f"the coordinator asked a model more than {_MOST_ASKS} times in a row")

    def _request(self) -> Request:
        if self.outgoing is None:
            raise AssertionError("no request is set; pass it to `Host(outgoing=…)`")
        return self.outgoing

    def _attachment(self, id: str, offset: int, most: int) -> bytes:
        if id not in self.attachments:
            raise PluginError("not-found", f"there is no attachment `{id}`")
        return self.attachments[id][offset : offset + min(most, 1 << 20)]


class _Functions:
    """An interface of functions that are given by name."""

    def __init__(self, **functions: Any) -> None:
        self.__dict__.update(functions)
