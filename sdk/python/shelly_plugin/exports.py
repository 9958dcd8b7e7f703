"""The export of a plugin: the class of a kind in the plugin's module, which componentize-py looks for by its name."""

from __future__ import annotations

import inspect
from typing import Any

from . import _adapters, _bindings
from .coordinator import Coordinator
from .effect import Effect
from .model_middleware import ModelMiddleware
from .provider import Provider
from .run_middleware import RunMiddleware
from .tool_middleware import ToolMiddleware
from .tools import Tool

__all__ = ["export"]

_KINDS: tuple[tuple[type, str, type], ...] = (
    (Effect, "effect", _adapters.EffectAdapter),
    (RunMiddleware, "run_middleware", _adapters.RunMiddlewareAdapter),
    (ModelMiddleware, "model_middleware", _adapters.ModelMiddlewareAdapter),
    (ToolMiddleware, "tool_middleware", _adapters.ToolMiddlewareAdapter),
    (Provider, "provider", _adapters.ProviderAdapter),
    (Coordinator, "coordinator", _adapters.CoordinatorAdapter),
)


def export(*parts: Any) -> type:
    """Returns the class through which the host calls tools, or a class of another kind.

    Assign it to the name of the kind in the plugin's module:

        Tool = export(count_text, count_lines)
        Effect = export(Reminder)

    The other names are `RunMiddleware`, `ModelMiddleware`, `ToolMiddleware`, `Provider` and `Coordinator`. Each kind that
    is exported stands in the world in `wit/plugin.wit`, and under `kinds` in plugin.toml.
    """
    if parts and all(isinstance(part, Tool) for part in parts):
        return _tools(parts)
    if len(parts) == 1 and inspect.isclass(parts[0]):
        for base, kind, adapter in _KINDS:
            if issubclass(parts[0], base):
                if inspect.isabstract(parts[0]):
                    missing = ", ".join(f"`{name}`" for name in sorted(parts[0].__abstractmethods__))
                    raise TypeError(f"the class {parts[0].__name__} lacks the method {missing}")
                return type(base.__name__, (adapter,), {"author": parts[0], "bindings": _bindings.exported(kind)})
    bases = ", ".join(base.__name__ for base, _, _ in _KINDS)
    given = ", ".join(getattr(part, "__name__", repr(part)) for part in parts) or "nothing"
    raise TypeError(f"export() got {given}; pass functions with @tool, or one class that extends one of {bases}")


def _tools(parts: tuple[Tool[..., Any], ...]) -> type:
    tools: dict[str, Tool[..., Any]] = {}
    for part in parts:
        if part.name in tools:
            raise ValueError(f"two tools are called `{part.name}`; pass another `name` to one of them")
        tools[part.name] = part
    return type("Tool", (_adapters.ToolAdapter,), {"tools": tools})
