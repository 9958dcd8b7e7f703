"""Descriptions out of docstrings, with a section `Args:` in Google's style."""

from __future__ import annotations

import inspect
import re

__all__ = ["parse_docstring"]

_SECTION = re.compile(r"(Args|Arguments|Parameters|Returns|Yields|Raises|Examples?|Notes?|Attributes):\s*$")
_ARGUMENT = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?:\s*(.*)$")


def parse_docstring(text: str | None) -> tuple[str, dict[str, str]]:
    """Returns the description, and the descriptions of the arguments.

    The description is the text before the first section, and the section `Returns:`, since a model reads what it gets
    back. Line breaks within a paragraph become spaces.
    """
    lines = inspect.cleandoc(text or "").splitlines()
    sections: dict[str, list[str]] = {"": []}
    section = ""
    for line in lines:
        found = _SECTION.match(line)
        if found:
            section = found.group(1)
            sections.setdefault(section, [])
        else:
            sections[section].append(line)
    description = _paragraphs(sections[""])
    returned = _paragraphs(sections.get("Returns", []))
    if returned:
        description = f"{description}\n\nReturns: {returned}".strip()
    arguments: dict[str, str] = {}
    for name in ("Args", "Arguments", "Parameters", "Attributes"):
        arguments.update(_arguments(sections.get(name, [])))
    return description, arguments


def _paragraphs(lines: list[str]) -> str:
    """Joins the lines of each paragraph. Lists and indented lines stay as they are."""
    parts: list[str] = []
    for line in inspect.cleandoc("\n".join(lines)).splitlines():
        stripped = line.strip()
        is_item = stripped.startswith(("- ", "* ", "|")) or line != line.lstrip()
        if parts and parts[-1] and stripped and not is_item:
            parts[-1] += f" {stripped}"
        else:
            parts.append(line.rstrip())
    return "\n".join(parts).strip()


def _arguments(lines: list[str]) -> dict[str, str]:
    """Reads the lines of a section of arguments: `name: text` or `name (type): text`, continued with more indentation."""
    found: dict[str, str] = {}
    name = None
    filled = [line for line in lines if line.strip()]
    indent = min((len(line) - len(line.lstrip()) for line in filled), default=0)
    for line in filled:
        is_first = len(line) - len(line.lstrip()) == indent
        argument = _ARGUMENT.match(line.strip()) if is_first else None
        if argument:
            name = argument.group(1)
            found[name] = argument.group(2).strip()
        elif name:
            found[name] = f"{found[name]} {line.strip()}".strip()
    return {name: text for name, text in found.items() if text}
