"""Python functions as tools, named on the command line as `module:name` or `file.py:name`."""

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
    """The tools at a place: one function or tool, or several in a list. Without a name, all tools of the module."""
    where, _, name = place.rpartition(":") if ":" in place else (place, "", "")
    module = _module(where)
    if not name:
        return tuple(cast("AnyTool", held) for held in vars(module).values() if isinstance(held, FunctionTool))
    if not hasattr(module, name):
        raise ArgumentTypeError(f"{where} has no {name!r}")
    held: Any = getattr(module, name)
    several = cast("Iterable[Any]", held) if isinstance(held, list | tuple) else (held,)
    return tuple(_tool(one, place) for one in several)


def _tool(held: Any, place: str) -> AnyTool:
    if isinstance(held, FunctionTool):
        return cast("AnyTool", held)
    if not callable(held):
        raise ArgumentTypeError(f"{place}: {held!r:.60} is no function")
    return tool(held)


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
        # Where a module's own types are looked up by name, when its hints are read.
        sys.modules[path.stem] = module
        spec.loader.exec_module(module)
    except (ImportError, OSError, SyntaxError) as problem:
        raise ArgumentTypeError(f"{where} cannot be loaded: {problem}") from problem
    return module
