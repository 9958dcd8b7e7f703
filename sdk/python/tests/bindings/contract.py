"""The contract in `wit/`, read as far as its types go: the classes that componentize-py makes of them, and how it converts
values. A value that the real bindings could not convert fails here, too.
"""

import enum
import re
import sys
import types
from dataclasses import make_dataclass
from pathlib import Path

from componentize_py_types import Err, Ok

WIT = Path(__file__).resolve().parents[4] / "wit"
KINDS = ["tool", "effect", "run-middleware", "model-middleware", "tool-middleware", "provider", "coordinator"]
WHOLE_NUMBERS = {"u8": (0, 8), "u16": (0, 16), "u32": (0, 32), "u64": (0, 64), "s32": (31, 31), "s64": (63, 63)}


def camel(name):
    return "".join(word.capitalize() for word in name.split("-"))


def snake(name):
    return name.replace("-", "_")


class Contract:
    """The types and functions of all interfaces."""

    def __init__(self):
        self.types = {}
        self.functions = {}
        self.modules = {}
        for file in ("types", "imports", "kinds"):
            text = re.sub(r"//.*", "", (WIT / f"{file}.wit").read_text())
            for name, body in re.findall(r"^interface ([\w-]+) \{\n(.*?)^\}", text, re.DOTALL | re.MULTILINE):
                self.read_interface(name, body)

    def read_interface(self, interface, body):
        kind = "exports" if interface in KINDS else "imports"
        module = types.ModuleType(f"wit_world.{kind}.{snake(interface)}")
        self.modules[interface] = module
        for names in re.findall(r"use types\.\{(.*?)\};", body, re.DOTALL):
            for name in names.split(","):
                self.types[interface, name.strip()] = self.types["types", name.strip()]
        for name, target in re.findall(r"^  type ([\w-]+) = (.*?);", body, re.MULTILINE):
            self.types[interface, name] = ("alias", interface, target)
        pattern = r"^  (record|variant|enum|flags) ([\w-]+) \{(.*?)\}"
        for form, name, inner in re.findall(pattern, body, re.DOTALL | re.MULTILINE):
            entries = [entry.strip() for entry in re.split(r",\s*(?![^<]*>)", inner) if entry.strip()]
            self.define(module, interface, form, name, entries)
        resources = re.findall(r"^  resource ([\w-]+) \{(.*?)^  \}", body, re.DOTALL | re.MULTILINE)
        for name, _ in resources:
            self.types[interface, name] = ("resource", interface, name)
        rest = re.sub(r"^  resource .*?^  \}", "", body, flags=re.DOTALL | re.MULTILINE)
        for name, parameters, result in re.findall(r"^  ([\w-]+): func\((.*?)\)(?: -> (.*?))?;", rest, re.MULTILINE):
            listed = [part.split(":", 1)[1].strip() for part in re.split(r",\s*(?![^<]*>)", parameters) if part.strip()]
            self.functions[interface, name] = (listed, result or None)

    def define(self, module, interface, form, name, entries):
        title = camel(name)
        if form == "record":
            fields = [tuple(part.strip() for part in entry.split(":", 1)) for entry in entries]
            made = make_dataclass(title, [snake(field) for field, _ in fields])
            self.types[interface, name] = ("record", interface, made, fields)
            setattr(module, title, made)
        elif form == "variant":
            cases = []
            for entry in entries:
                case, _, payload = entry.partition("(")
                made = make_dataclass(f"{title}_{camel(case)}", ["value"] if payload else [])
                setattr(module, made.__name__, made)
                cases.append((made, payload.removesuffix(")")))
            self.types[interface, name] = ("variant", interface, cases)
        else:
            words = [entry.upper().replace("-", "_") for entry in entries]
            if form == "enum":
                made = enum.Enum(title, {word: at for at, word in enumerate(words)})
            else:
                made = enum.Flag(title, {word: 1 << at for at, word in enumerate(words)})
            self.types[interface, name] = (form, interface, made)
            setattr(module, title, made)

    def install(self):
        """Puts the modules where `import` finds them."""
        for name in ("imports", "exports"):
            package = types.ModuleType(f"wit_world.{name}")
            package.__path__ = []
            sys.modules[package.__name__] = package
        for module in self.modules.values():
            sys.modules[module.__name__] = module

    def lower(self, interface, written, value):
        """Checks that the bindings can convert a value to this type. Returns it in plain words."""
        outer, _, inner = written.partition("<")
        inner = inner.removesuffix(">")
        if written == "list<u8>":
            assert type(value) is bytes, f"{value!r} is no bytes"
            return value
        if outer == "list":
            assert type(value) is list, f"{value!r} is no list"
            return [self.lower(interface, inner, one) for one in value]
        if outer == "option":
            return None if value is None else self.lower(interface, inner, value)
        if outer == "tuple":
            assert type(value) is tuple
            return tuple(self.lower(interface, "string", one) for one in value)
        if outer in WHOLE_NUMBERS:
            below, bits = WHOLE_NUMBERS[outer]
            assert isinstance(value, int) and -(1 << below) * bool(below) <= value < 1 << bits, f"{value!r} is no {outer}"
            return value
        if outer in ("f32", "f64"):
            assert isinstance(value, (int, float))
            return float(value)
        if outer == "bool":
            return bool(value)
        if outer == "string":
            assert isinstance(value, str), f"{value!r} is no text"
            value.encode()
            return value
        return self.lower_named(self.types[interface, outer], value)

    def lower_named(self, found, value):
        form, interface, what = found[:3]
        if form == "alias":
            return self.lower(interface, what, value)
        if form == "record":
            return {field: self.lower(interface, of, getattr(value, snake(field))) for field, of in found[3]}
        if form == "variant":
            payloads = {case: payload for case, payload in what}
            assert type(value) in payloads, f"{value!r} is no case of {sorted(case.__name__ for case in payloads)}"
            payload = payloads[type(value)]
            return (type(value).__name__, self.lower(interface, payload, value.value) if payload else None)
        assert form in ("enum", "flags") and what(value.value) is not None
        return value.value

    def samples(self, interface, written):
        """Returns values of this type as the bindings make them: at least one for each case that it contains."""
        outer, _, inner = written.partition("<")
        inner = inner.removesuffix(">")
        if written == "list<u8>":
            return [b"", b"\x00\xff"]
        if outer == "list":
            return [[], self.samples(interface, inner)]
        if outer == "option":
            return [None, *self.samples(interface, inner)]
        if outer == "tuple":
            return [("a", "b")]
        if outer == "result":
            good, _, bad = inner.partition(", ")
            return [*map(Ok, self.samples(interface, good)), *map(Err, self.samples(interface, bad))]
        plain = {"bool": [True, False], "string": ["", "a\U0001f600"], "f32": [0.5], "f64": [0.5]}
        if outer in plain or outer in WHOLE_NUMBERS:
            return plain.get(outer, [0, 7])
        form, home, what, *fields = self.types[interface, outer]
        if form == "alias":
            return self.samples(home, what)
        if form == "enum":
            return list(what)
        if form == "flags":
            return [what(0), what((1 << len(what)) - 1)]
        if form == "variant":
            cases = []
            for case, payload in what:
                cases += [case(value) for value in self.samples(home, payload)] if payload else [case()]
            return cases
        columns = [self.samples(home, of) for _, of in fields[0]]
        longest = max(map(len, columns))
        return [what(*(column[at % len(column)] for column in columns)) for at in range(longest)]


CONTRACT = Contract()
