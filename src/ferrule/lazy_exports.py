"""Lazy exports: a public module names what it offers, and each name is imported when it is first used.

So `import ferrule.sources` imports no MCP client and no bus, and a program pays only for what it uses. A public module
writes its imports twice, once for type checkers and editors and once for this function; a test compares the two:

    if TYPE_CHECKING:
        from ferrule.run.events import LoopEvent
    else:
        __getattr__, __dir__ = lazy_exports(__name__, {"run.events": ("LoopEvent",)})
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any


def lazy_exports(
    module: str, names: Mapping[str, Iterable[str]], submodules: Iterable[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the `__getattr__` and `__dir__` of a module.

    `names` lists the names to import from each module, whose own name is relative to `ferrule`. `submodules` are
    modules inside this one that need no import of their own: `import ferrule` is enough for `ferrule.ledger`.
    """
    origins = {name: f"ferrule.{origin}" for origin, members in names.items() for name in members}
    inside = frozenset(submodules)

    def get(name: str) -> Any:
        if name in inside:
            return import_module(f"{module}.{name}")
        if name not in origins:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        value = getattr(import_module(origins[name]), name)
        # Stored, so that the next use is an ordinary attribute.
        setattr(sys.modules[module], name, value)
        return value

    def list_names() -> list[str]:
        return sorted({*vars(sys.modules[module]), *origins, *inside})

    return get, list_names
