"""Pages and pictures that are generated from the code are up to date and complete."""

from __future__ import annotations

import pytest

import ferrule
from architecture.test_import_rules import MAY_IMPORT
from docs.made import DOCS, GENERATED
from ferrule.cli.main import COMMANDS, command
from ferrule.run.machine import TRANSITIONS, State
from ferrule.schema.target_limits import CHECKED_FORMATS, CONSTRAINT_KEYWORDS
from lab.pages.api_page import about, api_page, integrations, listed_names
from lab.pages.commands_page import commands_page
from lab.pages.errors_page import errors_page
from lab.pages.keywords_page import keywords_page
from lab.pages.layout_picture import layout_picture
from lab.pages.machine_picture import machine_picture
from lab.pages.raise_sites import kinds


@pytest.mark.parametrize("name", GENERATED)
def test_a_page_that_is_made_is_up_to_date(name: str) -> None:
    assert (DOCS / name).read_text(encoding="utf-8") == GENERATED[name](), "run: scripts/docs --pages"


def test_every_public_name_has_one_place_on_the_page_of_the_api() -> None:
    assert sorted(listed_names()) == sorted(ferrule.__all__)


def test_every_public_name_has_a_sentence() -> None:
    for name in ferrule.__all__:
        assert len(about(name).split()) > 1, name


def test_every_adapter_is_on_the_page_of_the_api() -> None:
    page = api_page()
    for name in integrations():
        assert f"::: ferrule.{name}\n" in page


def test_every_command_is_on_the_page_of_commands_with_its_examples() -> None:
    page = commands_page()
    for one in map(command, COMMANDS):
        assert f"\n## ferrule {one.name}\n" in page
        assert one.examples.strip().splitlines()[0].strip() in page


def test_every_error_is_on_the_page_of_errors() -> None:
    page = errors_page()
    for name, kind in kinds().items():
        assert f"`{name}` | `{kind.code}` | {kind.status} |" in page


def test_every_keyword_and_every_checked_format_is_on_the_page_of_keywords() -> None:
    page = keywords_page()
    for keyword in CONSTRAINT_KEYWORDS:
        name = keyword.partition(",")[0].removeprefix("format:")
        assert f"| `{name}` |" in page or f"| {name} |" in page or name == "format"
    for name in CHECKED_FORMATS:
        assert f"| `{name}` |" in page


def test_the_picture_of_the_loop_shows_every_state_and_every_happening() -> None:
    drawn = machine_picture()
    assert all(f">{state.value}</text>" in drawn for state in State)
    assert all(happening.value in drawn for _, happening in TRANSITIONS)
    ways = {(state, to) for (state, happening), targets in TRANSITIONS.items() for to in targets if to != "stopped"}
    # One arrow for each way, and one for what can be cancelled.
    assert drawn.count("marker-end") == len(ways) + 1


def test_the_layout_picture_shows_every_package_and_its_allowed_imports() -> None:
    drawn = layout_picture(MAY_IMPORT)
    packages = {module.split(".")[1] for module in MAY_IMPORT if module.count(".") == 1 and "__" not in module}
    assert all(
        f">{package}</text>" in drawn or f"{package}, " in drawn or f", {package}<" in drawn for package in packages
    )
    assert "imports rules*, schema" in drawn


def test_a_package_without_a_position_in_the_picture_is_reported() -> None:
    with pytest.raises(AssertionError, match="the package attic has no position"):
        layout_picture({**MAY_IMPORT, "ferrule.attic": ("ferrule.schema",)})
