"""The modules that componentize-py generates from the plugin's world, and the fakes that stand in for them in unit tests.

A component finds no module once it is built. So each module of this package imports the bindings that it needs when it is
imported itself, which the build does.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any, Callable

from .errors import PluginError

IN_COMPONENT = importlib.util.find_spec("wit_world") is not None
"""True while a component is built, and within it."""

types: Any = importlib.import_module("wit_world.imports.types") if IN_COMPONENT else None
results: Any = importlib.import_module("componentize_py_types") if IN_COMPONENT else None

fakes: dict[str, Any] = {}
"""The interfaces of a `testing.Host`, while it is entered."""


def exported(kind: str) -> Any:
    """Returns the bindings of an exported interface; None outside of a component."""
    return importlib.import_module(f"wit_world.exports.{kind}") if IN_COMPONENT else None


def case_of(value: Any) -> str:
    """Returns the name of a variant's case, such as `not-found` for an `Error_NotFound`."""
    name = type(value).__name__.split("_", 1)[1]
    return "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("-")


def case(module: Any, variant: str, name: str) -> Any:
    """Returns the class of a variant's case, such as `Error_NotFound` for `not-found`."""
    return getattr(module, f"{variant}_{''.join(word.capitalize() for word in name.split('-'))}")


def error_from_bindings(error: Any) -> PluginError:
    """Returns an error of the bindings as an exception."""
    kind: Any = case_of(error)
    if kind in ("rate-limited", "unavailable"):
        return PluginError(kind, error.value.message, error.value.after_ms)
    return PluginError(kind, error.value)


class HostInterface:
    """An interface of the contract that the plugin imports."""

    def __init__(self, name: str) -> None:
        self.name = name
        # If the world does not import it, this fails: the build tells the author which line is missing.
        self._bindings: Any = importlib.import_module(f"wit_world.imports.{name}") if IN_COMPONENT else None

    @property
    def is_there(self) -> bool:
        """True if there is a host or a fake of it."""
        return self.name in fakes or self._bindings is not None

    @property
    def bindings(self) -> Any:
        """The generated module; None outside of a component."""
        return self._bindings

    def call(
        self,
        function: str,
        *args: Any,
        lower: Callable[..., Any] | None = None,
        lift: Callable[..., Any] | None = None,
    ) -> Any:
        """Calls a function of the host. `lower` and `lift` convert its only argument and its result for the bindings."""
        if self.name in fakes:
            return getattr(fakes[self.name], function)(*args)
        if self._bindings is None:
            raise RuntimeError(
                f"{self.name}.{function} calls the host, which does not exist in a unit test; write `with "
                "shelly_plugin.testing.Host():` around it, or run the plugin in shelly-host"
            )
        if lower is not None:
            args = (lower(*args),)
        result = call_bindings(getattr(self._bindings, function), *args)
        return result if lift is None else lift(result)


def call_bindings(function: Callable[..., Any], *args: Any) -> Any:
    """Calls a generated function, and raises its error as a `PluginError`."""
    try:
        return function(*args)
    except Exception as error:
        if isinstance(error, results.Err):
            raise error_from_bindings(error.value) from None
        raise
