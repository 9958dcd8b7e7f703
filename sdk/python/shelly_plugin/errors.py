"""The error that a plugin raises, and that the host raises in a plugin."""

from __future__ import annotations

from typing import Literal, get_args

__all__ = ["ErrorKind", "PluginError"]

ErrorKind = Literal[
    "invalid", "denied", "not-found", "too-large", "exhausted", "rate-limited", "unavailable", "timeout", "other"
]

_KINDS = get_args(ErrorKind)
_RETRIED = ("rate-limited", "unavailable")


class PluginError(Exception):
    """A failure. The kind decides what the host does next; the message is for the reader of that kind.

    - `invalid`: the input is wrong. Say what is wrong and what would be right: a model reads it and corrects itself.
    - `denied`: a rule or a grant forbids it. Name the rule.
    - `not-found`: the named thing does not exist.
    - `too-large`: a bound on a size was exceeded.
    - `exhausted`: a budget is used up.
    - `rate-limited`, `unavailable`: another attempt may succeed, after `after_ms` milliseconds if that is known.
    - `timeout`: time ran out; it is unknown whether the operation took effect.
    - `other`: any other failure.

    Put no secrets into the message. Bound: 4 KiB, then cut.
    """

    def __init__(self, kind: ErrorKind, message: str, after_ms: int | None = None) -> None:
        if kind not in _KINDS:
            raise ValueError(f"unknown kind of error {kind!r}; use one of {', '.join(_KINDS)}")
        if after_ms is not None and kind not in _RETRIED:
            raise ValueError(f"an error of kind {kind!r} has no `after_ms`; only {' and '.join(_RETRIED)} have one")
        super().__init__(kind, message, after_ms)
        self.kind: ErrorKind = kind
        self.message = message
        self.after_ms = after_ms

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PluginError) and self.args == other.args

    def __hash__(self) -> int:
        return hash(self.args)
