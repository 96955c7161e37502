"""Pages that are made from the code are what the code makes."""

from pathlib import Path

from ferrule.cli.formats_markdown import formats_page
from ferrule.cli.settings_page import settings_page
from ferrule.run.machine import diagram


def test_the_table_of_formats_is_up_to_date() -> None:
    page = Path(__file__).parents[2] / "docs" / "reference" / "formats.md"
    assert page.read_text(encoding="utf-8") == formats_page(), (
        "run: ferrule formats --markdown > docs/reference/formats.md"
    )


def test_the_page_of_settings_is_up_to_date() -> None:
    page = Path(__file__).parents[2] / "docs" / "reference" / "settings.md"
    assert page.read_text(encoding="utf-8") == settings_page(), (
        "run: ferrule config settings > docs/reference/settings.md"
    )


def test_the_diagram_of_the_loop_is_drawn_from_its_table() -> None:
    page = (Path(__file__).parents[2] / "docs" / "explanation" / "loop.md").read_text(encoding="utf-8")
    assert f"```mermaid\n{diagram()}```" in page
