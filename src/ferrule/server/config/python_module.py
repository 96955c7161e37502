"""Load a Python module by its name or its file, for settings such as `module:name` or `file.py:name`."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from ferrule.errors import DefinitionError


def load_module(where: str, *, is_fresh: bool = False) -> ModuleType:
    """Import a module, relative to the current directory. Raises `DefinitionError` if it cannot be loaded.

    With `is_fresh` it is read again, and the one before stays what it is for those who have it. If that fails, the one
    before is imported by others as before.
    """
    name = Path(where).stem if Path(where).suffix == ".py" else where
    before = sys.modules.get(name)
    if not is_fresh or before is None:
        return _load(where)
    importlib.invalidate_caches()
    del sys.modules[name]
    try:
        return _load(where)
    # Whatever a program raises while it is read, the one before must be back.
    except BaseException:
        sys.modules[name] = before
        raise


def _load(where: str) -> ModuleType:
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
