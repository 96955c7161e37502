"""The public modules and their names, as listed in exports.txt. Everything else is private."""

import ast
from functools import cache

from architecture.source_tree import ROOT, modules

EXPECTED = ROOT / "tests" / "architecture" / "exports.txt"


@cache
def expected_exports() -> dict[str, list[str]]:
    """The expected names of each public module, in the order of the file."""
    sections = EXPECTED.read_text(encoding="utf-8").split("[")[1:]
    headed = (section.partition("]") for section in sections)
    return {module: names.split() for module, _, names in headed}


def needs_framework(module: str) -> bool:
    """Whether importing a public module needs an agent framework, which is not installed here."""
    return module.startswith("ferrule.integrations.")


def tree_of(module: str) -> ast.Module:
    return ast.parse(modules()[module].read_text(encoding="utf-8"))


def exports_of(module: str) -> list[str]:
    """The `__all__` of a module, read without importing it."""
    for node in tree_of(module).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return ast.literal_eval(node.value)
    return []


def private_names(module: str, names: list[str]) -> list[str]:
    """What an import statement takes that is not public: the module, or names of it."""
    exports = expected_exports()
    if module not in exports:
        return [module]
    public = {*exports[module], "*"}
    return [f"{module}.{name}" for name in names if name not in public and f"{module}.{name}" not in exports]
