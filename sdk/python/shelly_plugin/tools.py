"""Tools: functions that a model can call."""

from __future__ import annotations

import inspect
import re
import typing
from dataclasses import dataclass
from typing import Any, Callable, Generic, ParamSpec, TypeVar, overload

from .docstring import parse_docstring
from .errors import PluginError
from .schema import Field, Struct, WrongValue, load, value_type
from .types import Content, FileChange, Json, Media, Opaque, ToolHints, ToolSpec, to_json

__all__ = ["Call", "Reply", "Tool", "needs_folder", "needs_server", "tool"]

P = ParamSpec("P")
R = TypeVar("R")

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_SHOWN_CAUSES = 5


@dataclass
class Call:
    """Facts about a call besides its arguments. A tool with a parameter of this type gets them.

    The id stays the same when the host repeats a call, so it can serve as an idempotency key.
    """

    id: str


class Reply:
    """A tool's result of several pieces: `Reply("two rows", Json.of(rows))`."""

    def __init__(self, *content: Content) -> None:
        self.content = list(content)


def needs_folder(path: str) -> Opaque:
    """Returns the result of a tool that cannot work without reading this folder, given by its absolute path.

    If the config lets the host ask a person and the person agrees, the host repeats the call with the folder.
    """
    return Opaque("shelly.needs", to_json({"folder": path}))


def needs_server(url: str) -> Opaque:
    """Returns the result of a tool that cannot work without this server, like `needs_folder`."""
    return Opaque("shelly.needs", to_json({"server": url}))


class Tool(Generic[P, R]):
    """A tool. It can be called like its function."""

    def __init__(
        self,
        function: Callable[P, R],
        name: str | None = None,
        description: str | None = None,
        hints: ToolHints = ToolHints(0),
        title: str | None = None,
        output: Any = None,
    ) -> None:
        self.function = function
        self.name = name or function.__name__
        self.hints = hints
        self.title = title
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"the tool's name `{self.name}` is not 1 to 64 of A-Z a-z 0-9 _ -; pass another as `name`")
        documented, descriptions = parse_docstring(function.__doc__)
        self.description = description or documented
        if not self.description:
            raise ValueError(f"the tool `{self.name}` has no docstring; write one, since the model reads it")
        self._call_parameter: str | None = None
        self.arguments = self._read_parameters(descriptions)
        self.output_schema = None if output is None else value_type(output).schema()
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__

    def _read_parameters(self, descriptions: dict[str, str]) -> Struct:
        """Returns the type of the arguments."""
        try:
            hints = typing.get_type_hints(self.function, include_extras=True)
        except NameError as error:
            raise TypeError(f"the tool `{self.name}`: {error}; define it above the tool, in the module") from error
        fields: list[Field] = []
        for parameter in inspect.signature(self.function).parameters.values():
            if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
                raise TypeError(f"the tool `{self.name}`: JSON cannot name `{parameter}`; use a parameter with a name")
            hint = hints.get(parameter.name, parameter.empty)
            if hint is Call:
                self._call_parameter = parameter.name
                continue
            if hint is parameter.empty:
                raise TypeError(
                    f"the tool `{self.name}`: `{parameter.name}` has no annotation; write its type, such as "
                    f"`{parameter.name}: str`"
                )
            try:
                kind = value_type(hint)
                is_required = parameter.default is parameter.empty
                field = Field(parameter.name, kind, descriptions.pop(parameter.name, ""), parameter.default, is_required)
                # A default that JSON cannot express is found while the plugin is built.
                field.schema()
            except (TypeError, ValueError) as error:
                raise TypeError(f"the tool `{self.name}`: `{parameter.name}`: {error}") from error
            fields.append(field)
        if descriptions:
            names = ", ".join(f"`{name}`" for name in descriptions)
            raise ValueError(f"the tool `{self.name}`: its docstring describes {names}, which are no parameters of it")
        return Struct(fields, dict, "argument", "arguments")

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    @property
    def input_schema(self) -> dict[str, Any]:
        """The JSON Schema of the arguments."""
        return self.arguments.schema()

    def spec(self) -> ToolSpec:
        """Returns the description for the model."""
        output = None if self.output_schema is None else to_json(self.output_schema)
        meta = {} if self.title is None else {"title": self.title}
        return ToolSpec(self.name, self.description, to_json(self.input_schema), output, self.hints, meta)

    def run(self, arguments: str | dict[str, Any], call_id: str = "call") -> list[Content]:
        """Runs the tool with arguments as a model writes them. Raises `PluginError`."""
        try:
            given = load(arguments) if isinstance(arguments, str) else arguments
            if not isinstance(given, dict):
                raise self.arguments.wrong(given, "")
        except WrongValue as wrong:
            raise self._invalid([wrong]) from None
        values, causes = self.arguments.parse_fields(given, "")
        if causes:
            raise self._invalid(causes)
        if self._call_parameter is not None:
            values[self._call_parameter] = Call(call_id)
        function: Callable[..., Any] = self.function
        return content_of(function(**values))

    def _invalid(self, causes: list[WrongValue]) -> PluginError:
        """Returns the error for a model, which names everything that it has to change."""
        listed = "; ".join(str(cause) for cause in causes[:_SHOWN_CAUSES])
        more = f"; and {len(causes) - _SHOWN_CAUSES} more" if len(causes) > _SHOWN_CAUSES else ""
        return PluginError("invalid", f"invalid arguments of `{self.name}`: {listed}{more}")


def content_of(result: Any) -> list[Content]:
    """Returns what a function returned as the content of a result."""
    if result is None:
        return []
    if isinstance(result, Reply):
        return result.content
    if isinstance(result, (str, Json, Media, FileChange, Opaque)):
        return [result]
    return [Json.of(result)]


@overload
def tool(function: Callable[P, R], /) -> Tool[P, R]: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    hints: ToolHints = ToolHints(0),
    title: str | None = None,
    output: Any = None,
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    hints: ToolHints = ToolHints(0),
    title: str | None = None,
    output: Any = None,
) -> Any:
    """Makes a tool of a function.

    The name is that of the function; the description is its docstring, whose section `Args:` describes the arguments.
    The JSON Schema comes from the annotations, and arguments that do not fit are refused with an error that names each.

    A `str` that the function returns is a text for the model, a `Json`, `Media`, `FileChange` or `Opaque` that content,
    a `Reply` several of them, and any other value is returned as JSON.

    Args:
        name: Another name, if that of the function does not suit.
        description: Another description than the docstring.
        hints: What the tool changes. With none of them the host treats it with the most care.
        title: A name for people.
        output: The type of the JSON that the tool always returns, for its output schema.
    """

    def made(function: Callable[..., Any]) -> Tool[..., Any]:
        return Tool(function, name, description, hints, title, output)

    return made if function is None else made(function)
