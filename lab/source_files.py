"""Report the Python files of the repository: the longest, the small ones with one importer, and counts.

A report and not a gate: a limit on length makes people split one subject over several files. Read it before and after
a change of structure.
"""

from __future__ import annotations

import argparse
import ast
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("src", "lab", "tests", "examples")
SMALL = 80


def code_lines(source: str) -> int:
    """Count lines without docstrings, comments and empty lines."""
    explained: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            explained.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return sum(
        number not in explained and bool(line.strip()) and not line.lstrip().startswith("#")
        for number, line in enumerate(source.splitlines(), start=1)
    )


def importers(sources: dict[str, str]) -> dict[str, set[str]]:
    """The modules that import each module, by dotted name."""
    users: dict[str, set[str]] = {name: set() for name in sources}
    for name, source in sources.items():
        for target in _targets(ast.parse(source)):
            if target in users and target != name:
                users[target].add(name)
    return users


def _targets(tree: ast.AST) -> Iterator[str]:
    """What a module imports. `from a import b` gives `a` and `a.b`, because `b` may be a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def small_with_one_importer(sources: dict[str, str], limit: int = SMALL) -> list[tuple[int, str, str]]:
    """Modules with fewer lines of code than `limit` that one other module of the same package imports."""
    rows = [
        (code_lines(sources[name]), name, next(iter(users)))
        for name, users in importers(sources).items()
        if len(users) == 1
    ]
    return sorted(
        (lines, name, user) for lines, name, user in rows if lines < limit and _package(name) == _package(user)
    )


def _package(module: str) -> str:
    return module.rpartition(".")[0]


def package_sources() -> dict[str, str]:
    """The source text of every module of the package."""
    src = ROOT / "src"
    paths = {path.relative_to(src).with_suffix("").parts: path for path in sorted(src.rglob("*.py"))}
    return {".".join(parts): path.read_text("utf-8") for parts, path in paths.items() if parts[-1] != "__init__"}


def report(longest: int) -> Iterator[str]:
    paths = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    lengths = {str(path.relative_to(ROOT)): code_lines(path.read_text("utf-8")) for path in paths}
    yield from _section("files and lines of code", _counts(lengths))
    by_length = sorted(lengths.items(), key=lambda item: -item[1])[:longest]
    yield from _section("longest", (f"{lines:6}  {name}" for name, lines in by_length))
    rows = small_with_one_importer(package_sources())
    small = (f"{lines:6}  {name}  (only {user.rpartition('.')[2]} imports it)" for lines, name, user in rows)
    yield from _section(f"{len(rows)} modules below {SMALL} lines with one importer, in the same package", small)


def _counts(lengths: dict[str, int]) -> Iterator[str]:
    files, lines, small = Counter[str](), Counter[str](), Counter[str]()
    for name, length in lengths.items():
        folder = "/".join(Path(name).parts[: 3 if name.startswith("src/") else 1])
        folder = folder if not folder.endswith(".py") else "src/ferrule"
        files[folder] += 1
        lines[folder] += length
        small[folder] += length < 50
    for folder in sorted(files):
        yield f"{files[folder]:6} files {lines[folder]:7} lines {small[folder]:4} below 50  {folder}"
    yield f"{files.total():6} files {lines.total():7} lines {small.total():4} below 50  all"


def _section(title: str, lines: Iterable[str]) -> Iterator[str]:
    yield f"\n--- {title}"
    yield from lines


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/report-files", description=__doc__)
    parser.add_argument("longest", nargs="?", type=int, default=25, help="how many of the longest files to list")
    print("\n".join(report(parser.parse_args().longest)).lstrip("\n"))


if __name__ == "__main__":
    main()
