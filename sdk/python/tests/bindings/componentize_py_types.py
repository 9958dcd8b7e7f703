"""The results of the bindings, as componentize-py defines them."""

from dataclasses import dataclass
from typing import Any


@dataclass
class Ok:
    value: Any


@dataclass(frozen=True)
class Err(Exception):
    value: Any
