"""Pages that are made from the code are what the code makes."""

from pathlib import Path

from ferrule.cli.formats_markdown import formats_page


def test_the_table_of_formats_is_up_to_date() -> None:
    page = Path(__file__).parents[2] / "docs" / "reference" / "formats.md"
    assert page.read_text(encoding="utf-8") == formats_page(), (
        "run: ferrule formats --markdown > docs/reference/formats.md"
    )
