"""Import one part of a large package, with stubs for the rest.

vLLM's parsers need a few of its modules, which would import the whole engine. Every module of the package that is not
in the list of real ones becomes a stub on import: each of its names is a class that accepts everything and does
nothing.
"""

import importlib.machinery
import sys
from collections.abc import Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from pathlib import Path
from types import ModuleType
from typing import Any


class _Silent(type):
    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return StandIn()


class StandIn(metaclass=_Silent):
    """A class, a function and an object at once: accepts any arguments, has any attribute, does nothing."""

    def __init__(self, *_args: object, **_options: object) -> None:
        pass

    def __class_getitem__(cls, _item: object) -> type["StandIn"]:
        return cls

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _nothing

    def __call__(self, *_args: object, **_options: object) -> None:
        return None

    def __bool__(self) -> bool:
        return False


def _nothing(*_args: object, **_options: object) -> None:
    return None


class _StandInModule(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        stand_in = _Silent(name, (StandIn,), {"__module__": self.__name__})
        setattr(self, name, stand_in)
        return stand_in


class Finder(MetaPathFinder, Loader):
    """An import finder for one package: modules under `real` come from `root`, all others are stubs.

    `values` are, by module, the names that a stub has instead of a class that does nothing.
    """

    def __init__(
        self, package: str, root: Path, real: Sequence[str], values: Mapping[str, Mapping[str, object]]
    ) -> None:
        self._package = package
        self._root = root
        self._real = tuple(real)
        self._given = values

    def install(self) -> None:
        sys.meta_path.insert(0, self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname.partition(".")[0] != self._package:
            return None
        if any(fullname == real or fullname.startswith(real + ".") for real in self._real):
            parent = self._root.joinpath(*fullname.split(".")[:-1])
            return importlib.machinery.PathFinder.find_spec(fullname, [str(parent)])
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        module = _StandInModule(spec.name)
        for name, value in self._given.get(spec.name, {}).items():
            setattr(module, name, value)
        return module

    def exec_module(self, module: ModuleType) -> None:
        pass
