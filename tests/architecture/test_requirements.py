"""Every requirement names its tests, or the package that will implement it, and every named test exists."""

import ast
import re
import tomllib
from typing import Any

from architecture.source_tree import ROOT

PAGE = ROOT / "docs" / "reference" / "requirements.md"
TABLE = ROOT / "tests" / "requirements.toml"
PACKAGES = {
    "bench",
    "cli",
    "core",
    "dialects",
    "docs",
    "engines",
    "integrations",
    "rules",
    "run",
    "schema",
    "server",
    "sources",
    "wire",
}


def ids_on_the_page() -> list[str]:
    return re.findall(r"^- \*\*([A-Z]\d+)\*\* ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)


def table() -> dict[str, dict[str, Any]]:
    return tomllib.loads(TABLE.read_text(encoding="utf-8"))


def test_the_page_gives_each_id_once() -> None:
    ids = ids_on_the_page()
    assert ids, f"no requirement found in {PAGE.name}: each is a line that begins `- **T1** `"
    assert len(ids) == len(set(ids)), f"said twice: {sorted({name for name in ids if ids.count(name) > 1})}"


def test_the_page_and_the_table_hold_the_same_ids() -> None:
    page, rows = set(ids_on_the_page()), set(table())
    assert not page - rows, f"add to tests/requirements.toml: {sorted(page - rows)}"
    assert not rows - page, f"not in docs/reference/requirements.md: {sorted(rows - page)}"


def test_each_id_has_tests_or_a_package_that_will_implement_it() -> None:
    broken = [name for name, row in table().items() if not _is_well_formed(row)]
    assert not broken, (
        f"{broken}: give either tests = [...] (at least one) or later = one of {sorted(PACKAGES)}, never both"
    )


def test_each_named_test_exists() -> None:
    named = [(name, test) for name, row in table().items() for test in row.get("tests", [])]
    missing = [f"{name}: {test}" for name, test in named if not _exists(test)]
    assert not missing, "\n  ".join(["", *missing, "correct the name in tests/requirements.toml"])


def test_a_test_that_does_not_exist_is_noticed() -> None:
    here = "tests/architecture/test_requirements.py"
    assert _exists(f"{here}::test_each_named_test_exists")
    assert not _exists(f"{here}::test_that_nobody_wrote")
    assert not _exists("tests/architecture/test_that_nobody_wrote.py::test_anything")
    assert not _exists(here)


def _is_well_formed(row: dict[str, Any]) -> bool:
    match row:
        case {"tests": [_, *_], **rest} if not rest:
            return True
        case {"later": package, **rest} if not rest:
            return package in PACKAGES
        case _:
            return False


def _exists(test: str) -> bool:
    """True for `file::function` and `file::Class::function`, with or without a parameter in brackets."""
    file, *names = test.partition("[")[0].split("::")
    path = ROOT / file
    if not names or not path.is_file():
        return False
    body: list[ast.stmt] = ast.parse(path.read_text(encoding="utf-8")).body
    for name in names:
        inner = next((node for node in body if isinstance(node, _DEFINITIONS) and node.name == name), None)
        if inner is None:
            return False
        body = inner.body
    return True


_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
