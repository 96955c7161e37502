"""The site holds every page, loads nothing from elsewhere, and its pictures can be read in light and dark."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from docs.pages import DOCS, PAGES, ROOT, fences
from lab.pages.svg import STYLE

SITE: dict[str, Any] = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
PICTURES = sorted((DOCS / "images").glob("*.svg"))
DRAWINGS = [picture for picture in PICTURES if picture.name != "mark.svg"]
SVG = "{http://www.w3.org/2000/svg}"


def in_nav(items: Any) -> Iterator[str]:
    if isinstance(items, str):
        yield items
    else:
        for item in items if isinstance(items, list) else items.values():
            yield from in_nav(item)


def test_every_page_is_in_the_navigation_once() -> None:
    pages_written = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}
    named = list(in_nav(SITE["nav"]))
    assert not pages_written - set(named), "give them a place under nav in mkdocs.yml"
    assert not set(named) - pages_written, "named under nav in mkdocs.yml, and not written"
    assert len(named) == len(set(named))


def test_no_style_script_or_picture_loads_from_another_host() -> None:
    assert SITE["theme"]["font"] is False
    assets = [*SITE["extra_css"], *SITE["extra_javascript"]]
    assert all((DOCS / name).is_file() for name in assets)
    for path in (*(DOCS / name for name in assets), *PICTURES):
        text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?://|@import|url\((?!#)", text), path.name


def test_no_page_has_a_diagram_that_only_a_script_can_draw() -> None:
    assert not [page.name for page in PAGES if list(fences(page, "mermaid"))]


@pytest.mark.parametrize("picture", PICTURES, ids=lambda path: path.name)
def test_a_picture_is_whole_and_says_what_it_shows(picture: Any) -> None:
    root = ElementTree.parse(picture).getroot()
    assert root.tag == f"{SVG}svg"
    assert root.get("viewBox")
    assert (root.findtext(f"{SVG}title") or "").strip()


@pytest.mark.parametrize("picture", DRAWINGS, ids=lambda path: path.name)
def test_a_drawing_has_its_own_ground_and_the_shared_colours(picture: Any) -> None:
    text = picture.read_text(encoding="utf-8")
    assert f"<style>{STYLE}</style>" in text
    assert 'class="ground"' in text
    assert set(re.findall(r'class="(\w+)"', text)) <= set(re.findall(r"\.(\w+) \{", STYLE))


@pytest.mark.parametrize("picture", DRAWINGS, ids=lambda path: path.name)
def test_a_drawing_is_shown_on_a_page(picture: Any) -> None:
    assert any(f"images/{picture.name})" in page.read_text(encoding="utf-8") for page in PAGES)


def test_what_builds_the_site_has_rows_among_the_dependencies() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    page = (DOCS / "explanation" / "dependencies.md").read_text(encoding="utf-8")
    for requirement in project["dependency-groups"]["docs"]:
        assert f"`{re.split(r'[<>=]', requirement)[0]}`" in page
