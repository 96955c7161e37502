"""Load a Python module by its name or its file, for settings such as `module:name` or `file.py:name`."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from ferrule.errors import DefinitionError


def load_module(where: str) -> ModuleType:
    """Import a module, relative to the current directory. Raises `DefinitionError` if it cannot be loaded."""
    path = Path(where)
    try:
        if path.suffix != ".py":
            sys.path.insert(0, "")
            return importlib.import_module(where)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        if spec is None or spec.loader is None:
            raise DefinitionError(f"{where} cannot be loaded")
        module = importlib.util.module_from_spec(spec)
        # Type hints are resolved by name in the module, which is looked up in sys.modules.
        sys.modules[path.stem] = module
        spec.loader.exec_module(module)
    except (ImportError, OSError, SyntaxError, ValueError) as problem:
        raise DefinitionError(f"{where} cannot be loaded: {problem}") from problem
    return module
