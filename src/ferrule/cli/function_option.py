"""Loads Python functions as tools from `module:name` or `file.py:name` on the command line."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from argparse import ArgumentTypeError
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from ferrule.schema.tool_decorator import FunctionTool, tool

AnyTool = FunctionTool[Any, Any]


def read_functions(place: str) -> tuple[AnyTool, ...]:
    """Load one function or tool, or a list of them. Without a name, load all tools of the module."""
    where, _, name = place.rpartition(":") if ":" in place else (place, "", "")
    module = _module(where)
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


def _module(where: str) -> ModuleType:
    path = Path(where)
    try:
        if path.suffix != ".py":
            sys.path.insert(0, "")
            return importlib.import_module(where)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        if spec is None or spec.loader is None:
            raise ArgumentTypeError(f"{where} cannot be loaded")
        module = importlib.util.module_from_spec(spec)
        # Type hints are resolved by name in the module, which is looked up in sys.modules.
        sys.modules[path.stem] = module
        spec.loader.exec_module(module)
    except (ImportError, OSError, SyntaxError) as problem:
        raise ArgumentTypeError(f"{where} cannot be loaded: {problem}") from problem
    return module
