"""HTTP requests within the grant of the agent's config. Available to tools and providers.

The world imports `shelly:plugin/http@0.2.0`, and plugin.toml asks for `http = true` under `[wants]`. A request that the
grant refuses, or that gets no response, is a `PluginError`. A response with any status is none; `Response.ok` turns a status
other than success into one.
"""

from __future__ import annotations

import codecs
import json as json_module
import math
import re
import urllib.parse
from dataclasses import dataclass
from typing import Any, Iterator, Mapping, cast

from . import _bindings, _lower
from ._bindings import HostInterface
from .errors import ErrorKind, PluginError
from .types import to_json

__all__ = [
    "Event",
    "HttpRequest",
    "Response",
    "Upload",
    "credentials",
    "delete",
    "get",
    "lacking",
    "post",
    "put",
    "send",
    "upload",
]

_http = HostInterface("http")
# A component finds no codec later than this.
_DECODER = codecs.getincrementaldecoder("utf-8")
_READ = 64 << 10
_WRITE = 256 << 10
MOST_WHOLE = 16 << 20
"""The bytes of a body that is read as a whole."""
MOST_LINE = 8 << 20
"""The bytes of a line of a body."""
_MOST_COMPLAINT = 64 << 10
_MOST_SENTENCE = 2_000
_MOST_RAW = 300
_MOST_MILLIS = (1 << 32) - 1


@dataclass
class HttpRequest:
    """The head of a request, as the host gets it."""

    method: str
    url: str
    headers: list[tuple[str, str]]
    credential: str | None = None
    timeout_ms: int | None = None


@dataclass
class Event:
    """A server-sent event."""

    name: str
    data: str
    id: str = ""


class Response:
    """A response: its head, and a body that is read separately. Leaving `with` closes the connection."""

    def __init__(self, status: int, headers: list[tuple[str, str]], body: Any, origin: str = "the server") -> None:
        self.status = status
        self.headers = headers
        self._body = body
        # It contains no part of the URL that could be a secret.
        self._origin = origin

    def __enter__(self) -> Response:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection. Nothing more can be read."""
        body, self._body = self._body, None
        if body is not None and hasattr(body, "__exit__"):
            body.__exit__(None, None, None)

    @property
    def is_success(self) -> bool:
        """True if the status is 200 to 299."""
        return 200 <= self.status < 300

    def header(self, name: str) -> str | None:
        """Returns the value of the first header of this name."""
        found = (value for there, value in self.headers if there == name.lower())
        return next(found, None)

    def read(self, most: int = _READ) -> bytes:
        """Waits for the next bytes and returns at most so many of them, and at most 64 KiB; none only at the end."""
        if self._body is None:
            raise ValueError("the response is closed; read it within its `with`")
        read, most = self._body.read, min(most, _READ)
        return bytes(_bindings.call_bindings(read, most) if _bindings.IN_COMPONENT else read(most))

    def __iter__(self) -> Iterator[bytes]:
        """Iterates over the body as it arrives."""
        while piece := self.read():
            yield piece

    def content(self) -> bytes:
        """Reads the whole body. Bound: 16 MiB (`too-large`)."""
        whole = bytearray()
        for piece in self:
            whole += piece
            if len(whole) > MOST_WHOLE:
                raise PluginError("too-large", f"{self._origin} sent a body of more than {MOST_WHOLE} bytes")
        return bytes(whole)

    def text(self) -> str:
        """Reads the whole body as text; invalid UTF-8 becomes U+FFFD. Bound: 16 MiB."""
        return self.content().decode("utf-8", "replace")

    def json(self) -> Any:
        """Reads the whole body as JSON. Bound: 16 MiB."""
        try:
            # Python would load a codec for the mark of a byte order.
            return json_module.loads(self.content().decode().removeprefix("\ufeff"))
        except ValueError as error:
            raise PluginError("other", f"{self._origin} sent a body that is not JSON: {error}") from None

    def lines(self) -> Iterator[str]:
        """Iterates over the lines of the body as they arrive. Bound: 8 MiB a line (`too-large`)."""
        decoder = _DECODER("replace")
        rest = ""
        for piece in self:
            *lines, rest = (rest + decoder.decode(piece)).split("\n")
            for line in lines:
                yield line.removesuffix("\r")
            if len(rest) > MOST_LINE:
                raise PluginError("too-large", f"{self._origin} sent a line of more than {MOST_LINE} characters")
        rest += decoder.decode(b"", True)
        if rest:
            yield rest.removesuffix("\r")

    def events(self) -> Iterator[Event]:
        """Iterates over the server-sent events of the body as they arrive. An event that was cut off is left out."""
        name, last_id = "", ""
        data: list[str] = []
        for line in self.lines():
            if not line:
                if data:
                    yield Event(name or "message", "\n".join(data), last_id)
                name, data = "", []
                continue
            field, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if field == "event":
                name = value
            elif field == "data":
                data.append(value)
            elif field == "id":
                last_id = value

    def ok(self) -> Response:
        """Returns the response if its status is one of success. Otherwise raises the error that the status means.

        401, 403 and 407 are `denied`, 402 `exhausted`, 404 and 410 `not-found`, 413 `too-large`, 429 `rate-limited`,
        408, 409, 425 and most from 500 on `unavailable`, other 400 to 499 `invalid`. The message has the server's
        explanation.
        """
        if self.is_success:
            return self
        after_ms = self._pause()
        said, words = self._complaint()
        message = f"{self._origin} answered {self.status}" + (f": {said}" if said else "")
        kind = _kind_of(self.status, words)
        raise PluginError(kind, message, after_ms if kind in ("rate-limited", "unavailable") else None)

    def _pause(self) -> int | None:
        """Returns the pause that the server asks for, in milliseconds. A date is ignored."""
        for name, unit in (("retry-after-ms", 1), ("retry-after", 1000)):
            try:
                number = float(self.header(name) or "")
            except ValueError:
                continue
            if 0 <= number < _MOST_MILLIS:
                return math.ceil(number * unit)
        return None

    def _complaint(self) -> tuple[str, tuple[str, ...]]:
        """Returns the server's explanation, and its codes. A failure to read it is ignored: the status matters more."""
        body = b""
        try:
            while len(body) < _MOST_COMPLAINT and (piece := self.read()):
                body += piece
        except PluginError:
            pass
        self.close()
        text = body[:_MOST_COMPLAINT].decode("utf-8", "replace")
        try:
            value = json_module.loads(text)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, list) and value:
            value = value[0]
        if isinstance(value, dict):
            value = value.get("error") or value
        if isinstance(value, str):
            return _shown(value, _MOST_SENTENCE), ()
        if isinstance(value, dict):
            words = tuple(str(value[key]) for key in ("type", "code") if isinstance(value.get(key), (str, int)))
            said = next((value[key] for key in ("message", "detail") if isinstance(value.get(key), str)), "")
            if said:
                return _shown(said, _MOST_SENTENCE), words
        # An HTML page explains nothing here.
        return ("", ()) if text.lstrip().startswith("<") else (_shown(text, _MOST_RAW), ())


class Upload:
    """A request whose body is being sent."""

    def __init__(self, upload: Any, origin: str) -> None:
        self._upload = upload
        self._origin = origin

    def write(self, data: bytes) -> None:
        """Sends a piece of the body. Waits while the network is behind."""
        for start in range(0, len(data), _WRITE):
            piece = bytes(data[start : start + _WRITE])
            if _bindings.IN_COMPONENT:
                _bindings.call_bindings(self._upload.write, piece)
            else:
                self._upload.write(piece)

    def finish(self) -> Response:
        """Ends the body and waits for the head of the response."""
        if _bindings.IN_COMPONENT:
            response = _bindings.call_bindings(_http.bindings.Upload.finish, self._upload)
        else:
            response = self._upload.finish()
        return Response(response.status, list(response.headers), response.body, self._origin)


def send(
    method: str,
    url: str,
    *,
    query: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
    body: bytes | str = b"",
    json: Any = None,
    credential: str | None = None,
    timeout: float | None = None,
) -> Response:
    """Sends a request and waits for the head of the response.

    Args:
        method: The method, in upper case.
        url: An absolute URL: `https` unless the grant says `http`.
        query: Names and values that are added to the query, escaped. A value of None is left out.
        headers: Headers. The host sets `host`, `content-length` and the like, and the header of a credential.
        body: The body.
        json: A value that is sent as JSON in place of `body`.
        credential: The name of a granted credential, which the host adds. The plugin never sees it.
        timeout: The seconds of the whole exchange. None: the time that is left for the call.
    """
    request = _request(method, url, query, headers, credential, timeout)
    content = body.encode() if isinstance(body, str) else bytes(body)
    if json is not None:
        content = to_json(json).encode()
        request.headers.append(("content-type", "application/json"))
    response = _http.call("send", request, content)
    return Response(response.status, list(response.headers), response.body, _origin(url))


def get(url: str, **options: Any) -> Response:
    """Sends a `GET` request, with the options of `send`."""
    return send("GET", url, **options)


def post(url: str, **options: Any) -> Response:
    """Sends a `POST` request, with the options of `send`."""
    return send("POST", url, **options)


def put(url: str, **options: Any) -> Response:
    """Sends a `PUT` request, with the options of `send`."""
    return send("PUT", url, **options)


def delete(url: str, **options: Any) -> Response:
    """Sends a `DELETE` request, with the options of `send`."""
    return send("DELETE", url, **options)


def upload(
    method: str,
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    credential: str | None = None,
    timeout: float | None = None,
) -> Upload:
    """Sends the head of a request, whose body follows in pieces."""
    return Upload(_http.call("begin", _request(method, url, None, headers, credential, timeout)), _origin(url))


def credentials() -> list[str]:
    """Returns the names of the credentials that are granted and exist."""
    return list(_http.call("credentials"))


def lacking(error: PluginError) -> str | None:
    """Returns the server that is not granted according to this error, as `https://example.com`; None for other errors.

    `needs_server` can have a person asked for it.
    """
    # The host's message contains the missing line of the config.
    found = re.search(r'.*write `http: \["(.*?)"\]`', error.message, re.DOTALL) if error.kind == "denied" else None
    return None if found is None else found.group(1)


def _request(
    method: str,
    url: str,
    query: Mapping[str, Any] | None,
    headers: Mapping[str, str] | None,
    credential: str | None,
    timeout: float | None,
) -> HttpRequest:
    """Returns the head of a request. It has the fields of the bindings' record, which takes any object that has them."""
    pairs = [(name, str(value)) for name, value in (query or {}).items() if value is not None]
    if pairs:
        url += ("&" if "?" in url else "?") + urllib.parse.urlencode(pairs, quote_via=urllib.parse.quote)
    listed = [(_lower.text(name.lower()), _lower.text(value)) for name, value in (headers or {}).items()]
    # Less than a millisecond becomes one: 0 would mean no limit.
    millis = None if timeout is None else min(max(1, int(timeout * 1000)), _MOST_MILLIS)
    return HttpRequest(_lower.text(method), _lower.text(url), listed, _lower.optional_text(credential), millis)


def _origin(url: str) -> str:
    """Returns the host and port of a URL, for messages."""
    authority = re.split(r"[/?#\\]", url.split("://", 1)[-1], maxsplit=1)[0]
    return authority.rsplit("@", 1)[-1] or "the server"


def _kind_of(status: int, words: tuple[str, ...]) -> ErrorKind:
    """Returns the kind of error that a status means."""
    # Vendors use some statuses for two things: an unpaid bill must not cause a pause.
    if "insufficient_quota" in words:
        return "exhausted"
    if "context_length_exceeded" in words:
        return "too-large"
    kinds = {
        401: "denied",
        402: "exhausted",
        403: "denied",
        404: "not-found",
        407: "denied",
        408: "unavailable",
        409: "unavailable",
        410: "not-found",
        413: "too-large",
        425: "unavailable",
        429: "rate-limited",
        501: "other",
        505: "other",
    }
    default = "unavailable" if status >= 500 else "invalid" if status >= 400 else "other"
    return cast(ErrorKind, kinds.get(status, default))


def _shown(text: str, most: int) -> str:
    """Returns a server's text as one line, shortened, without control characters."""
    plain = "".join(" " if ord(letter) < 32 or 127 <= ord(letter) < 160 else letter for letter in text.strip())
    return plain if len(plain) <= most else f"{plain[:most]}…"
