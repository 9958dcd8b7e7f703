"""The schema of arguments, their check, and what a function may return."""

import enum
import json
import unittest
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Optional, TypedDict, Union

from shelly_plugin import Call, Json, Length, PluginError, Range, Reply, ToolHints, export, needs_folder, tool
from shelly_plugin.docstring import parse_docstring
from shelly_plugin.schema import value_type

# The keywords that the host enforces or allows: host/core/src/tool/schema.rs.
KEYWORDS = {
    *("type", "enum", "const", "properties", "required", "additionalProperties", "items", "allOf", "anyOf", "oneOf"),
    *("minLength", "maxLength", "minItems", "maxItems", "minimum", "maximum", "description", "default"),
}


class Order(enum.Enum):
    UP = "up"
    DOWN = "down"


class Level(enum.IntEnum):
    LOW = 1


@dataclass
class Window:
    """A part of a text.

    Attributes:
        start: The first line.
    """

    start: int
    end: Optional[int] = None
    marks: list[str] = field(default_factory=list)


@dataclass
class Node:
    below: "list[Node]"


class Author(TypedDict):
    name: str


class Book(Author, total=False):
    year: int


@tool(hints=ToolHints.PURE)
def count_text(text: str, limit: int = 10, unit: Literal["words", "lines"] = "words") -> dict:
    """Counts a text.

    It stops at the limit.

    Args:
        text: The text to count
            in.
        limit (int): The highest count.

    Returns:
        The count.
    """
    return {"count": min(limit, len(text.split() if unit == "words" else text.splitlines()))}


@tool(name="every-type")
def every_type(
    on: bool,
    share: float,
    order: Order,
    level: Level,
    window: Window,
    book: Book,
    windows: list[Window],
    scores: dict[str, int],
    anything: Any,
    either: Union[int, list[int]],
    told: Annotated[str, "What is told.", Length(1, 3)],
    few: Annotated[list[int], Length(maximum=2)],
    percent: Annotated[int, Range(0, 100)] = 50,
    maybe: Optional[str] = None,
    unique: set[str] = frozenset(),
    *,
    call: Call,
) -> str:
    """Takes every type."""
    return f"{call.id} {order.name} {level.name} {window} {windows} {sorted(unique)}"


EVERY = {
    "on": True,
    "share": 1,
    "order": "up",
    "level": 1,
    "window": {"start": 1},
    "book": {"name": "a"},
    "windows": [{"start": 2, "end": None, "marks": ["x"]}],
    "scores": {"a": 1},
    "anything": [None],
    "either": [1],
    "told": "abc",
    "few": [],
    "unique": ["b", "a", "b"],
}


def cause(tool, arguments):
    try:
        tool.run(arguments)
    except PluginError as error:
        assert error.kind == "invalid"
        return error.message.removeprefix(f"invalid arguments of `{tool.name}`: ")
    raise AssertionError(f"{arguments} is accepted")


class SchemaTest(unittest.TestCase):
    def test_schema_comes_from_annotations_and_docstring(self):
        spec = count_text.spec()
        self.assertEqual(spec.name, "count_text")
        self.assertEqual(spec.description, "Counts a text.\n\nIt stops at the limit.\n\nReturns: The count.")
        expected = {
            "type": "object",
            "properties": {
                "text": {"type": "string", "description": "The text to count in."},
                "limit": {"type": "integer", "description": "The highest count.", "default": 10},
                "unit": {"type": "string", "enum": ["words", "lines"], "default": "words"},
            },
            "additionalProperties": False,
            "required": ["text"],
        }
        self.assertEqual(json.loads(spec.input_schema), expected)

    def test_schema_of_every_type_has_only_known_keywords(self):
        schema = every_type.input_schema
        self.walk(schema)
        properties = schema["properties"]
        self.assertNotIn("call", properties)
        told = {"type": "string", "minLength": 1, "maxLength": 3, "description": "What is told."}
        self.assertEqual(properties["told"], told)
        self.assertEqual(properties["percent"], {"type": "integer", "minimum": 0, "maximum": 100, "default": 50})
        self.assertEqual(properties["maybe"], {"type": ["string", "null"]})
        either = [{"type": "integer"}, {"type": "array", "items": {"type": "integer"}}]
        self.assertEqual(properties["either"], {"anyOf": either})
        self.assertEqual(properties["level"], {"type": "integer", "enum": [1]})
        self.assertEqual(properties["book"]["required"], ["name"])
        window = properties["window"]["properties"]
        self.assertEqual(window["start"], {"type": "integer", "description": "The first line."})
        self.assertEqual(window["marks"], {"type": "array", "items": {"type": "string"}, "default": []})

    def walk(self, schema):
        self.assertLessEqual(set(schema), KEYWORDS)
        for below in [*schema.get("properties", {}).values(), *schema.get("anyOf", [])]:
            self.walk(below)
        for word in ("items", "additionalProperties"):
            if isinstance(schema.get(word), dict):
                self.walk(schema[word])

    def test_annotation_without_a_schema_is_refused_by_name(self):
        for annotation, says in [
            (bytes, "bytes has no JSON Schema; use str"),
            (dict[int, str], "must be `str`"),
            (Node, "Node contains itself"),
            (Literal[b"a"], "in a Literal"),
            (Annotated[str, Range(1)], "`Range` is a bound of a number, not of a string"),
            (tuple[int, str], "has no JSON Schema"),
        ]:
            with self.assertRaisesRegex(TypeError, says):
                value_type(annotation)

    def test_function_that_is_no_tool_is_refused_by_name(self):
        def untold(text: str): ...

        def untyped(text):
            """A."""

        def starred(*texts: str):
            """A."""

        def wrong(text: str):
            """A.

            Args:
                txt: The text.
            """

        def odd(text: bytes):
            """A."""

        for function, says in [
            (untold, "the tool `untold` has no docstring"),
            (untyped, "`text` has no annotation; write its type, such as `text: str`"),
            (starred, "JSON cannot name `\\*texts: str`"),
            (wrong, "describes `txt`, which are no parameters"),
            (odd, "the tool `odd`: `text`: bytes has no JSON Schema"),
        ]:
            with self.assertRaisesRegex((TypeError, ValueError), says):
                tool(function)
        with self.assertRaisesRegex(ValueError, "`a b` is not 1 to 64"):
            tool(name="a b")(wrong)


class ArgumentsTest(unittest.TestCase):
    def test_arguments_become_values_of_their_types(self):
        self.assertEqual(count_text.run('{"text": "a b c", "limit": 2.0}'), [Json('{"count": 2}')])
        (told,) = every_type.run(EVERY, "7")
        first, second = Window(1), Window(2, None, ["x"])
        self.assertEqual(told, f"7 UP LOW {first} {[second]} ['a', 'b']")

    def test_wrong_argument_is_named_with_its_mend(self):
        for arguments, says in [
            ({}, "`text`: it is missing; expected a string"),
            ({"text": 7}, "`text`: got 7, expected a string"),
            ({"text": "a", "limit": "3"}, '`limit`: got the string "3", expected an integer'),
            ({"text": "a", "limit": True}, "`limit`: got true, expected an integer"),
            ({"text": "a", "limit": 1.5}, "`limit`: got 1.5, expected an integer"),
            (
                {"text": "a", "unit": "word"},
                '`unit`: got the string "word", expected one of "words", "lines"; did you mean "words"?',
            ),
            (
                {"txt": "a"},
                "`txt`: unknown argument; the arguments are `text`, `limit`, `unit`; did you mean `text`?; "
                "`text`: it is missing; expected a string",
            ),
            ("[1]", "got an array, expected an object"),
            ('{"text": NaN}', "it is not valid JSON: NaN is no number of JSON"),
            ("{", "it is not valid JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
        ]:
            self.assertEqual(cause(count_text, arguments), says)

    def test_wrong_value_within_another_has_its_path(self):
        for change, says in [
            ({"windows": [{"start": 1}, {"start": "a"}]}, '`windows[1].start`: got the string "a", expected an integer'),
            (
                {"window": {"start": 1, "stop": 2}},
                "`window.stop`: unknown property; the properties are `start`, `end`, `marks`",
            ),
            ({"scores": {"a": None}}, "`scores.a`: got null, expected an integer"),
            ({"either": "a"}, '`either`: got the string "a", expected an integer or an array'),
            ({"either": [1, "a"]}, '`either[1]`: got the string "a", expected an integer'),
            ({"book": {"year": 1}}, "`book.name`: it is missing; expected a string"),
            ({"told": ""}, "`told`: got 0 characters, the minimum is 1"),
            ({"few": [1, 2, 3]}, "`few`: got 3 items, the maximum is 2"),
            ({"percent": 101}, "`percent`: got 101, the maximum is 100"),
            ({"share": 10**400}, "`share`: got 1" + "0" * 59 + "…, expected a number"),
            ({"level": True}, "`level`: got true, expected 1"),
        ]:
            self.assertEqual(cause(every_type, {**EVERY, **change}), says)

    def test_many_wrong_arguments_are_counted(self):
        self.assertTrue(cause(every_type, {}).endswith("; and 7 more"))


class ResultTest(unittest.TestCase):
    def test_what_a_function_returns_becomes_content(self):
        for returned, content in [
            ("a", ["a"]),
            (None, []),
            ([1, "a"], [Json('[1, "a"]')]),
            (Window(1), [Json('{"start": 1, "end": null, "marks": []}')]),
            ({Order.UP.name: Order.UP}, [Json('{"UP": "up"}')]),
            (Json("1"), [Json("1")]),
            (Reply("a", Json("1")), ["a", Json("1")]),
            (needs_folder("/a"), [needs_folder("/a")]),
        ]:

            @tool
            def given():
                """Returns it."""
                return returned

            self.assertEqual(given.run("{}"), content)

    def test_tool_is_called_like_its_function(self):
        self.assertEqual(count_text("a b", limit=1), {"count": 1})

    def test_export_refuses_what_it_cannot_serve(self):
        class Unfinished:
            pass

        for parts, says in [
            ((), "got nothing"),
            ((count_text.function,), "got count_text; pass functions with @tool"),
            ((Unfinished,), "got Unfinished"),
        ]:
            with self.assertRaisesRegex(TypeError, says):
                export(*parts)
        with self.assertRaisesRegex(ValueError, "two tools are called `count_text`"):
            export(count_text, count_text)


class DocstringTest(unittest.TestCase):
    def test_docstring_is_read_as_models_need_it(self):
        for text, expected in [
            (None, ("", {})),
            ("One\nline.", ("One line.", {})),
            ("A:\n- b\n- c", ("A:\n- b\n- c", {})),
            ("A.\n\nRaises:\n    ValueError: never.\n", ("A.", {})),
            ("A.\n\nArgs:\n    *b: C: d.\n        e\n    f (int): g", ("A.", {"b": "C: d. e", "f": "g"})),
        ]:
            self.assertEqual(parse_docstring(text), expected)


if __name__ == "__main__":
    unittest.main()
