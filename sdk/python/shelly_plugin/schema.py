"""JSON Schema out of annotations, and values of these types out of JSON.

It writes only keywords that the host enforces: `type`, `enum`, `properties`, `required`, `additionalProperties`, `items`,
`anyOf`, bounds of numbers and lengths, and the annotations `description` and `default`.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import difflib
import enum
import inspect
import json
import types
import typing
from dataclasses import dataclass
from typing import Any, Literal, Union, get_args, get_origin

from .docstring import parse_docstring
from .types import to_json

__all__ = ["Length", "Range", "Struct", "ValueType", "WrongValue", "parse", "value_type"]

_TYPED_DICT_WORDS = tuple(
    word for word in (getattr(typing, "Required", None), getattr(typing, "NotRequired", None)) if word is not None
)


@dataclass(frozen=True)
class Range:
    """Bounds of a number: `Annotated[int, Range(1, 10)]`."""

    minimum: float | None = None
    maximum: float | None = None


@dataclass(frozen=True)
class Length:
    """Bounds of the length of a text or list: `Annotated[str, Length(1)]`."""

    minimum: int | None = None
    maximum: int | None = None


class WrongValue(ValueError):
    """A value that does not fit its type. `path` leads to it, such as `items[2].name`; it is empty at the top."""

    def __init__(self, path: str, cause: str) -> None:
        super().__init__(f"`{path}`: {cause}" if path else cause)
        self.path = path


class ValueType:
    """A type of values in JSON."""

    def schema(self) -> dict[str, Any]:
        """Returns the JSON Schema."""
        raise NotImplementedError

    def parse(self, value: Any, path: str) -> Any:
        """Returns the Python value. Raises `WrongValue`."""
        raise NotImplementedError

    def expected(self) -> str:
        """Returns the words for this type in a message, such as `a string`."""
        raise NotImplementedError

    def wrong(self, value: Any, path: str) -> WrongValue:
        return WrongValue(path, f"got {shown(value)}, expected {self.expected()}")


class _Any(ValueType):
    def schema(self) -> dict[str, Any]:
        return {}

    def parse(self, value: Any, path: str) -> Any:
        return value

    def expected(self) -> str:
        return "any value"


class _Plain(ValueType):
    """A string, number, boolean or null."""

    WORDS = {
        str: ("string", "a string"),
        int: ("integer", "an integer"),
        float: ("number", "a number"),
        bool: ("boolean", "true or false"),
        type(None): ("null", "null"),
    }

    def __init__(self, python: type) -> None:
        self.python = python

    def schema(self) -> dict[str, Any]:
        return {"type": self.WORDS[self.python][0]}

    def parse(self, value: Any, path: str) -> Any:
        # `bool` is a kind of `int` in Python and none in JSON.
        if isinstance(value, bool) and self.python is not bool:
            raise self.wrong(value, path)
        if isinstance(value, self.python):
            return value
        if self.python is float and isinstance(value, int):
            try:
                return float(value)
            except OverflowError:
                raise self.wrong(value, path) from None
        if self.python is int and isinstance(value, float) and value.is_integer():
            return int(value)
        raise self.wrong(value, path)

    def expected(self) -> str:
        return self.WORDS[self.python][1]


class _Choice(ValueType):
    """One of several values: a `Literal` or an `Enum`."""

    def __init__(self, choices: list[tuple[Any, Any]]) -> None:
        self.choices = choices

    def schema(self) -> dict[str, Any]:
        values = [written for written, _ in self.choices]
        names = [_Plain.WORDS[type(value)][0] for value in values]
        kinds = [name for at, name in enumerate(names) if name not in names[:at]]
        return {"type": kinds[0] if len(kinds) == 1 else kinds, "enum": values}

    def parse(self, value: Any, path: str) -> Any:
        for written, python in self.choices:
            if type(written) is type(value) and written == value:
                return python
        near = [choice for choice, _ in self.choices if isinstance(choice, str)]
        similar = difflib.get_close_matches(value, near, 1) if isinstance(value, str) else []
        meant = f"; did you mean {to_json(similar[0])}?" if similar else ""
        raise WrongValue(path, f"got {shown(value)}, expected {self.expected()}{meant}")

    def expected(self) -> str:
        listed = [to_json(written) for written, _ in self.choices]
        return listed[0] if len(listed) == 1 else f"one of {', '.join(listed)}"


class _List(ValueType):
    def __init__(self, items: ValueType, python: type) -> None:
        self.items = items
        self.python = python

    def schema(self) -> dict[str, Any]:
        return {"type": "array", "items": self.items.schema()}

    def parse(self, value: Any, path: str) -> Any:
        if not isinstance(value, list):
            raise self.wrong(value, path)
        parsed = [self.items.parse(item, f"{path}[{at}]") for at, item in enumerate(value)]
        return parsed if self.python is list else self.python(parsed)

    def expected(self) -> str:
        return "an array"


class _Dict(ValueType):
    def __init__(self, values: ValueType) -> None:
        self.values = values

    def schema(self) -> dict[str, Any]:
        others = self.values.schema()
        return {"type": "object", "additionalProperties": others} if others else {"type": "object"}

    def parse(self, value: Any, path: str) -> Any:
        if not isinstance(value, dict):
            raise self.wrong(value, path)
        return {key: self.values.parse(item, f"{path}.{key}" if path else key) for key, item in value.items()}

    def expected(self) -> str:
        return "an object"


class _AnyOf(ValueType):
    """A union. Its first type that fits the value is taken."""

    def __init__(self, options: list[ValueType]) -> None:
        self.options = options

    def schema(self) -> dict[str, Any]:
        schemas = [option.schema() for option in self.options]
        # Shorter where a list of types says it: a model pays for each word.
        if all(list(schema) == ["type"] for schema in schemas):
            return {"type": [schema["type"] for schema in schemas]}
        return {"anyOf": schemas}

    def parse(self, value: Any, path: str) -> Any:
        causes: list[WrongValue] = []
        for option in self.options:
            try:
                return option.parse(value, path)
            except WrongValue as wrong:
                causes.append(wrong)
        # The cause that lies deepest belongs to the type that was meant.
        deepest = max(causes, key=lambda cause: len(cause.path))
        raise deepest if len(deepest.path) > len(path) else self.wrong(value, path)

    def expected(self) -> str:
        return " or ".join(option.expected() for option in self.options)


@dataclass
class Field:
    """A property of an object."""

    name: str
    type: ValueType
    description: str = ""
    default: Any = inspect.Parameter.empty
    is_required: bool = True

    def schema(self) -> dict[str, Any]:
        schema = self.type.schema()
        if self.description:
            schema["description"] = self.description
        if self.default is not inspect.Parameter.empty and self.default is not None:
            schema["default"] = json.loads(to_json(self.default))
        return schema


class Struct(ValueType):
    """An object with known properties: the arguments of a function, a dataclass, a `TypedDict`."""

    def __init__(self, fields: list[Field], make: Any, noun: str = "property", nouns: str = "properties") -> None:
        self.fields = fields
        self.make = make
        self.noun = noun
        self.nouns = nouns

    def schema(self) -> dict[str, Any]:
        schema: dict[str, Any] = {
            "type": "object",
            "properties": {field.name: field.schema() for field in self.fields},
            "additionalProperties": False,
        }
        required = [field.name for field in self.fields if field.is_required]
        if required:
            schema["required"] = required
        return schema

    def parse(self, value: Any, path: str) -> Any:
        if not isinstance(value, dict):
            raise self.wrong(value, path)
        values, causes = self.parse_fields(value, path)
        if causes:
            raise causes[0]
        try:
            return self.make(**values)
        except (TypeError, ValueError) as error:
            # What a dataclass checks itself, in `__post_init__`.
            raise WrongValue(path, str(error)) from error

    def parse_fields(self, value: dict[str, Any], path: str) -> tuple[dict[str, Any], list[WrongValue]]:
        """Returns the values of the properties, and what is wrong, one cause for each property."""
        values: dict[str, Any] = {}
        causes: list[WrongValue] = []
        known = {field.name: field for field in self.fields}
        below = f"{path}." if path else ""
        for name in value:
            if name not in known:
                near = difflib.get_close_matches(name, known, 1)
                names = ", ".join(f"`{one}`" for one in known) or "none"
                meant = f"; did you mean `{near[0]}`?" if near else ""
                causes.append(WrongValue(below + name, f"unknown {self.noun}; the {self.nouns} are {names}{meant}"))
        for field in self.fields:
            if field.name in value:
                try:
                    values[field.name] = field.type.parse(value[field.name], below + field.name)
                except WrongValue as wrong:
                    causes.append(wrong)
            elif field.is_required:
                causes.append(WrongValue(below + field.name, f"it is missing; expected {field.type.expected()}"))
        return values, causes

    def expected(self) -> str:
        return "an object"


class _Bounded(ValueType):
    """A type with bounds."""

    def __init__(self, inner: ValueType, bound: Range | Length) -> None:
        self.inner = inner
        self.bound = bound
        kind = inner.schema().get("type")
        if isinstance(bound, Range) and kind in ("integer", "number"):
            self.keywords = ("minimum", "maximum")
        elif isinstance(bound, Length) and kind in ("string", "array"):
            self.keywords = ("minLength", "maxLength") if kind == "string" else ("minItems", "maxItems")
        else:
            fits = "a number" if isinstance(bound, Range) else "a string or a list"
            raise TypeError(f"`{type(bound).__name__}` is a bound of {fits}, not of {inner.expected()}")

    def schema(self) -> dict[str, Any]:
        schema = self.inner.schema()
        for keyword, bound in zip(self.keywords, (self.bound.minimum, self.bound.maximum)):
            if bound is not None:
                schema[keyword] = bound
        return schema

    def parse(self, value: Any, path: str) -> Any:
        parsed = self.inner.parse(value, path)
        size, unit = parsed, ""
        if isinstance(self.bound, Length):
            size, unit = len(value), " characters" if self.keywords[0] == "minLength" else " items"
        if self.bound.minimum is not None and size < self.bound.minimum:
            raise WrongValue(path, f"got {size}{unit}, the minimum is {self.bound.minimum}")
        if self.bound.maximum is not None and size > self.bound.maximum:
            raise WrongValue(path, f"got {size}{unit}, the maximum is {self.bound.maximum}")
        return parsed

    def expected(self) -> str:
        return self.inner.expected()


class _Described(ValueType):
    """A type with a description of its own, which the field's description replaces."""

    def __init__(self, inner: ValueType, description: str) -> None:
        self.inner = inner
        self.description = description

    def schema(self) -> dict[str, Any]:
        return {**self.inner.schema(), "description": self.description}

    def parse(self, value: Any, path: str) -> Any:
        return self.inner.parse(value, path)

    def expected(self) -> str:
        return self.inner.expected()


def value_type(annotation: Any, within: tuple[Any, ...] = ()) -> ValueType:
    """Returns the type of an annotation. Raises TypeError for one that has no form in JSON."""
    if annotation is Any or annotation is inspect.Parameter.empty or annotation is object:
        return _Any()
    if annotation is None:
        return _Plain(type(None))
    if isinstance(annotation, type) and annotation in _Plain.WORDS:
        return _Plain(annotation)
    # `type Name = …`, and `NewType`.
    for alias in ("__value__", "__supertype__"):
        if hasattr(annotation, alias):
            return value_type(getattr(annotation, alias), within)
    origin, args = get_origin(annotation), get_args(annotation)
    if origin in _TYPED_DICT_WORDS:
        return value_type(args[0], within)
    if origin is typing.Annotated:
        return _annotated(value_type(args[0], within), args[1:])
    if origin is Literal:
        for choice in args:
            if type(choice) not in _Plain.WORDS:
                raise TypeError(f"{choice!r} in a Literal has no form in JSON; use strings, numbers, booleans or None")
        return _Choice([(choice, choice) for choice in args])
    if origin is Union or origin is types.UnionType:
        return _AnyOf([value_type(option, within) for option in args])
    if annotation in (list, set, frozenset, tuple):
        return _List(_Any(), annotation)
    if origin in (list, set, frozenset, collections.abc.Sequence):
        return _List(value_type(args[0], within), list if origin is collections.abc.Sequence else origin)
    if origin is tuple and len(args) == 2 and args[1] is Ellipsis:
        return _List(value_type(args[0], within), tuple)
    if annotation is dict or origin in (dict, collections.abc.Mapping):
        if args and args[0] is not str:
            raise TypeError(f"the keys of {_named(annotation)} must be `str`: keys of a JSON object are strings")
        return _Dict(value_type(args[1], within) if args else _Any())
    if inspect.isclass(annotation) and origin is None:
        if issubclass(annotation, enum.Enum):
            for member in annotation:
                if type(member.value) not in _Plain.WORDS:
                    raise TypeError(f"{member} has a value without a form in JSON; use strings or numbers as values")
            return _Choice([(member.value, member) for member in annotation])
        if dataclasses.is_dataclass(annotation) or typing.is_typeddict(annotation):
            if annotation in within:
                raise TypeError(f"{_named(annotation)} contains itself; a schema of arguments cannot express that")
            return _struct(annotation, (*within, annotation))
    raise TypeError(
        f"{_named(annotation)} has no JSON Schema; use str, int, float, bool, None, Literal, Enum, list, dict, a "
        "dataclass or a TypedDict"
    )


def _annotated(inner: ValueType, facts: tuple[Any, ...]) -> ValueType:
    """Applies what stands beside a type in `Annotated`: descriptions and bounds. Anything else is for other libraries."""
    for fact in facts:
        if isinstance(fact, (Range, Length)):
            inner = _Bounded(inner, fact)
    for fact in facts:
        if isinstance(fact, str):
            inner = _Described(inner, fact)
    return inner


def _struct(annotation: Any, within: tuple[Any, ...]) -> Struct:
    """Returns the type of a dataclass or TypedDict."""
    hints = typing.get_type_hints(annotation, include_extras=True)
    # The docstring that Python writes for a dataclass itself describes nothing.
    _, descriptions = parse_docstring(annotation.__doc__)
    fields: list[Field] = []
    if typing.is_typeddict(annotation):
        for name, hint in hints.items():
            is_required = name in annotation.__required_keys__
            fields.append(Field(name, value_type(hint, within), descriptions.get(name, ""), is_required=is_required))
        return Struct(fields, dict)
    for field in dataclasses.fields(annotation):
        if field.init:
            default: Any = inspect.Parameter.empty
            is_required = False
            if field.default is not dataclasses.MISSING:
                default = field.default
            elif field.default_factory is not dataclasses.MISSING:
                default = field.default_factory()
            else:
                is_required = True
            described = descriptions.get(field.name, "")
            fields.append(Field(field.name, value_type(hints[field.name], within), described, default, is_required))
    return Struct(fields, annotation)


def parse(annotation: Any, text: str) -> Any:
    """Returns JSON as a value of this type. Raises `WrongValue`."""
    return value_type(annotation).parse(load(text), "")


def load(text: str) -> Any:
    """Parses JSON. Raises `WrongValue`."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise WrongValue("", f"it is not valid JSON: {error}") from None


def _refuse_constant(name: str) -> Any:
    """Refuses `NaN` and `Infinity`, which Python reads and JSON does not have."""
    raise ValueError(f"{name} is no number of JSON")


def shown(value: Any) -> str:
    """Returns a value as a message shows it: short, with its type."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "an array"
    text = to_json(value)
    cut = text if len(text) <= 60 else f"{text[:60]}…"
    if isinstance(value, str):
        return f"the string {cut}"
    return cut


def _named(annotation: Any) -> str:
    return getattr(annotation, "__name__", None) or str(annotation)
