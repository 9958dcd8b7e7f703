"""The plugin's params for this agent. Always available."""

from __future__ import annotations

from typing import Any, TypeVar, overload

from ._bindings import HostInterface
from .errors import PluginError
from .schema import WrongValue, parse

__all__ = ["params"]

T = TypeVar("T")

_config = HostInterface("config")


@overload
def params() -> dict[str, Any]: ...


@overload
def params(shape: type[T]) -> T: ...


def params(shape: Any = dict) -> Any:
    """Returns the params of the config as this type: a dataclass, a TypedDict, or a dict if none is named.

    Raises a `PluginError` that names the param that is wrong. In a unit test without a `testing.Host` there are none.
    """
    text = _config.call("get") if _config.is_there else "{}"
    try:
        return parse(shape, text)
    except WrongValue as wrong:
        raise PluginError("invalid", f"params: {wrong}") from None
