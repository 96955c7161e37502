"""Public modules and names are real, sorted and described, and change only on purpose (exports.txt)."""

import ast
import re
from importlib import import_module
from importlib.metadata import version
from textwrap import dedent

import pytest

from architecture.public_surface import expected_exports, exports_of, needs_framework, tree_of
from architecture.source_tree import modules

PUBLIC = list(expected_exports())
IMPORTABLE = [module for module in PUBLIC if not needs_framework(module)]


def test_the_public_modules_are_those_of_the_list() -> None:
    # A private module may have an `__all__` too, so only the places where public modules live are compared.
    places = re.compile(r"ferrule(\.\w+)?|ferrule\.integrations\.\w+")
    found = {module for module in modules() if places.fullmatch(module) and exports_of(module)}
    assert found == set(PUBLIC), "list each public module in tests/architecture/exports.txt, with its names"


@pytest.mark.parametrize("module", PUBLIC)
def test_the_public_names_are_the_expected_ones(module: str) -> None:
    names, expected = exports_of(module), expected_exports()[module]
    added, lost = sorted(set(names) - set(expected)), sorted(set(expected) - set(names))
    assert names == expected, (
        f"added {added}, lost {lost}: if meant, change tests/architecture/exports.txt and name it in CHANGELOG.md"
    )


@pytest.mark.parametrize("module", PUBLIC)
def test_the_public_names_are_sorted_and_unique(module: str) -> None:
    names = exports_of(module)
    in_order = sorted(set(names), key=lambda name: (not name.isupper(), not name[0].isupper(), name))
    assert names == in_order, f"sort __all__ of {module}: constants, classes, functions"


@pytest.mark.parametrize("module", IMPORTABLE)
def test_every_public_name_exists_and_is_listed_by_dir(module: str) -> None:
    public = import_module(module)
    missing = [name for name in exports_of(module) if not hasattr(public, name)]
    assert not missing, f"{missing} are in __all__ of {module}, and not in it"
    assert set(exports_of(module)) <= set(dir(public))


@pytest.mark.parametrize("module", IMPORTABLE)
def test_type_checkers_see_what_programs_get(module: str) -> None:
    """Lazy names are written twice; the two must be the same object."""
    public = import_module(module)
    for name, origin in _imports_for_type_checkers(module).items():
        if name in exports_of(module):
            assert getattr(public, name) is getattr(import_module(origin), name), f"{module}.{name}"


@pytest.mark.parametrize("module", PUBLIC)
def test_every_public_module_says_what_it_is_for_with_an_example(module: str) -> None:
    text = ast.get_docstring(tree_of(module)) or ""
    assert "\nExample:\n" in text or re.match(r"[^\n]*`\w+\(.*\)`", text), f"write an example into {module}"


@pytest.mark.parametrize("module", IMPORTABLE)
def test_the_example_of_a_public_module_is_python_whose_imports_work(module: str) -> None:
    example = dedent((ast.get_docstring(tree_of(module)) or "").partition("\nExample:\n")[2])
    for node in ast.walk(ast.parse(example)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            exec(ast.unparse(node), {})


def test_every_public_module_is_an_attribute_of_the_package() -> None:
    package = import_module("ferrule")
    for module in IMPORTABLE:
        name = module.removeprefix("ferrule").removeprefix(".")
        assert not name or (name in dir(package) and getattr(package, name) is import_module(module))


def test_an_unknown_name_is_an_attribute_error() -> None:
    for module in IMPORTABLE:
        with pytest.raises(AttributeError, match="nothing_of_that_name"):
            _ = import_module(module).nothing_of_that_name


def test_the_function_mcp_survives_the_import_of_the_package_of_that_name() -> None:
    sources = import_module("ferrule.sources")
    import_module("ferrule.sources.mcp.servers")
    assert callable(sources.mcp)


def _imports_for_type_checkers(module: str) -> dict[str, str]:
    origins: dict[str, str] = {}
    for node in tree_of(module).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for one in node.body:
                if isinstance(one, ast.ImportFrom) and one.module:
                    origins |= {alias.name: one.module for alias in one.names}
    return origins


def test_dir_lists_every_public_name_and_the_version() -> None:
    package = import_module("ferrule")
    assert {*package.__all__, "__version__"} <= set(dir(package))


def test_the_version_is_that_of_the_package() -> None:
    assert import_module("ferrule").__version__ == version("ferrule")
