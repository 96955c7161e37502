"""The modules of the source tree and their imports, read with ast and without importing them."""

import ast
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SRC = ROOT / "src"


@dataclass(frozen=True, slots=True)
class Import:
    """One imported module, as written in one line of one file."""

    importer: str
    path: Path
    line: int
    target: str
    lazy: bool
    """Whether it is inside a function, or for the type checker only: importing the file does not run it."""

    @property
    def package(self) -> str:
        return self.target.partition(".")[0]

    @property
    def is_third_party(self) -> bool:
        return self.package != "ferrule" and self.package not in sys.stdlib_module_names

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line} imports {self.target}"


@cache
def modules() -> dict[str, Path]:
    """Every module of the package by its dotted name."""
    paths: dict[str, Path] = {}
    for path in sorted((SRC / "ferrule").rglob("*.py")):
        parts = path.relative_to(SRC).with_suffix("").parts
        paths[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return paths


def is_inside(module: str, package: str) -> bool:
    """Whether a module is the package itself or anything in it."""
    return module == package or module.startswith(package + ".")


def imports_of(module: str) -> list[Import]:
    path = modules()[module]
    reader = _Reader(module, path)
    reader.visit(ast.parse(path.read_text(encoding="utf-8"), str(path)))
    return reader.imports


@cache
def all_imports() -> tuple[Import, ...]:
    return tuple(each for module in modules() for each in imports_of(module))


class _Reader(ast.NodeVisitor):
    def __init__(self, module: str, path: Path) -> None:
        self.module = module
        self.path = path
        self.lazy = False
        self.imports: list[Import] = []

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._add(node.lineno, alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        base = self._base(node)
        for alias in node.names:
            # `from ferrule.wire import node` names a module; `from ferrule.wire.node import seq` names a thing in one.
            whole = f"{base}.{alias.name}"
            self._add(node.lineno, whole if whole in modules() else base)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._visit_lazily(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._visit_lazily(node)

    def visit_If(self, node: ast.If) -> None:
        if ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            self._visit_lazily(node)
        else:
            self.generic_visit(node)

    def _visit_lazily(self, node: ast.AST) -> None:
        before, self.lazy = self.lazy, True
        self.generic_visit(node)
        self.lazy = before

    def _base(self, node: ast.ImportFrom) -> str:
        if node.level == 0:
            return node.module or ""
        parts = self.module.split(".")
        package = parts if self.path.name == "__init__.py" else parts[:-1]
        package = package[: len(package) - (node.level - 1)]
        return ".".join([*package, node.module] if node.module else package)

    def _add(self, line: int, target: str) -> None:
        self.imports.append(Import(self.module, self.path, line, target, self.lazy))
