"""Loads Python functions as tools from `module:name` or `file.py:name` on the command line."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Iterable
from types import ModuleType
from typing import Any, cast

from ferrule.errors import DefinitionError
from ferrule.schema.tool_decorator import FunctionTool, tool
from ferrule.server.config.python_module import load_module

AnyTool = FunctionTool[Any, Any]


def read_functions(place: str, *, is_fresh: bool = False) -> tuple[AnyTool, ...]:
    """Load one function or tool, or a list of them. Without a name, load all tools of the module.

    With `is_fresh` a module that was loaded before is read again.
    """
    where, _, name = place.rpartition(":") if ":" in place else (place, "", "")
    module = _module(where, is_fresh)
    if not name:
        return tuple(cast("AnyTool", value) for value in vars(module).values() if isinstance(value, FunctionTool))
    if not hasattr(module, name):
        raise ArgumentTypeError(f"{where} has no {name!r}")
    value: Any = getattr(module, name)
    several = cast("Iterable[Any]", value) if isinstance(value, list | tuple) else (value,)
    return tuple(_tool(entry, place) for entry in several)


def _tool(value: Any, place: str) -> AnyTool:
    if isinstance(value, FunctionTool):
        return cast("AnyTool", value)
    if not callable(value):
        raise ArgumentTypeError(f"{place}: {value!r:.60} is not a function")
    return tool(value)


def _module(where: str, is_fresh: bool) -> ModuleType:
    try:
        return load_module(where, is_fresh=is_fresh)
    except DefinitionError as problem:
        raise ArgumentTypeError(problem.message) from problem
