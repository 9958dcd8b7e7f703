"""Programs that the grant lists, each run in a folder of its own. Available to tools.

The world imports `shelly:plugin/process@0.2.0`, and plugin.toml asks for `programs = true` under `[wants]`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from . import _lower
from ._bindings import HostInterface

__all__ = ["Command", "Output", "run"]

_process = HostInterface("process")


@dataclass
class Command:
    """A program to run. `program` is the name of an entry in the grant, not a path."""

    program: str
    args: list[str] = field(default_factory=list)
    stdin: bytes = b""
    timeout_ms: int | None = None


@dataclass
class Output:
    """The outcome of a program. `status` is None if a signal killed it. Each output is cut at 1 MiB."""

    status: int | None
    stdout: bytes = b""
    stderr: bytes = b""
    cut: bool = False


def run(program: str, *args: str, stdin: bytes = b"", timeout: float | None = None) -> Output:
    """Runs a program to its end. `timeout` is in seconds; None: the time that is left for the call."""
    millis = None if timeout is None else max(1, int(timeout * 1000))
    command = Command(program, list(args), stdin, millis)
    output = _process.call("run", command, lower=_lowered)
    return Output(output.status, bytes(output.stdout), bytes(output.stderr), output.cut)


def _lowered(command: Command) -> Any:
    args = [_lower.text(word) for word in command.args]
    timeout = _lower.optional_unsigned(command.timeout_ms, "timeout_ms", 32)
    return _process.bindings.Command(_lower.text(command.program), args, bytes(command.stdin), timeout)
