"""Write plugins for `shelly-host` in Python: tools, effects, middlewares, model providers, coordinators.

    from shelly_plugin import export, tool

    @tool
    def sum_dice(rolls: list[int]) -> int:
        \"\"\"Adds up dice.

        Args:
            rolls: What was rolled, such as [6, 1, 4].
        \"\"\"
        return sum(rolls)

    Tool = export(sum_dice)

The functions of the host are in modules of their own, because the world of a plugin must import each interface that it uses:
`config`, `log`, `progress`, `kv`, `http`, `chat`, `clock`, `random`, `process`, `sink`, `outgoing`, `attachments`. Files are
opened with `open`, in the folders that are granted. Unit tests use `shelly_plugin.testing`.
"""

from .errors import ErrorKind, PluginError
from .exports import export
from .schema import Length, Range
from .tools import Call, Reply, Tool, needs_folder, needs_server, tool
from .types import (
    Attachment,
    Content,
    FileChange,
    Json,
    Media,
    Message,
    Opaque,
    ToolHints,
    Url,
)

__all__ = [
    "Attachment",
    "Call",
    "Content",
    "ErrorKind",
    "FileChange",
    "Json",
    "Length",
    "Media",
    "Message",
    "Opaque",
    "PluginError",
    "Range",
    "Reply",
    "Tool",
    "ToolHints",
    "Url",
    "export",
    "needs_folder",
    "needs_server",
    "tool",
]
