"""A tool that counts the words, lines and characters of a text."""

from shelly_plugin import PluginError, ToolHints, export, tool


# The model reads the docstring. The tool only computes from its arguments.
@tool(name="@{tool}", hints=ToolHints.PURE)
def count_text(text: str) -> dict[str, int]:
    """Counts the words, lines and characters of a text.

    Args:
        text: The text to count in.
    """
    if not text:
        # The model reads the error and tries again: say what would be right.
        raise PluginError("invalid", "`text` is empty; pass the text to count in")
    return {"words": len(text.split()), "lines": len(text.splitlines()), "characters": len(text)}


Tool = export(count_text)
