"""The page of the specification's names says nothing that is not there, and leaves out no name that is."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

import ferrule
from ferrule import specification

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "specification.md").read_text(encoding="utf-8")
CODE = re.findall(r"`([^`]+)`", PAGE)
# `S.Name` and `ferrule.module.Name`; `NAME` stands for any.
NAMED = sorted({name for text in CODE for name in re.findall(r"\b(?:S|ferrule)\.[A-Za-z_.]*[A-Za-z_]", text)})


def found(name: str) -> object:
    """What a dotted name on the page is."""
    module, _, last = name.replace("S.", "ferrule.specification.", 1).rpartition(".")
    if f"{module}.{last}" == specification.__name__:
        return specification
    return getattr(import_module(module), last)


@pytest.mark.parametrize("name", [name for name in NAMED if not name.endswith(".NAME")])
def test_every_name_that_the_page_gives_exists(name: str) -> None:
    assert found(name) is not None


def test_the_page_names_are_read() -> None:
    assert {"S.ToolParser", "ferrule.Engine", "ferrule.formats.preset", "ferrule.NAME"} <= set(NAMED)


@pytest.mark.parametrize("name", specification.__all__)
def test_every_name_of_the_module_is_on_the_page_and_found_from_the_top(name: str) -> None:
    assert any(re.search(rf"\b{name}\b", text) for text in CODE), f"add {name} to docs/reference/specification.md"
    assert getattr(ferrule, name, None) is not None
