"""The documentation builds without a warning, and what is built loads nothing from another host."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.live

ROOT = Path(__file__).parents[2]
SITE = ROOT / "build" / "site"
LOADING = re.compile(
    r"<(?:script|img|iframe|source)\b[^>]*\bsrc=\"(https?:)?//|<link\b[^>]*\bhref=\"(https?:)?//[^>]*>"
)
# A link that tells search engines something loads nothing.
TELLING = re.compile(r'rel="(?:canonical|edit|license)"')


@pytest.fixture(scope="module")
def built() -> Path:
    ran = subprocess.run([ROOT / "scripts" / "docs"], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return SITE


def test_every_page_is_built(built: Path) -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        assert (built / page.relative_to(ROOT / "docs")).with_suffix(".html").is_file()


def test_no_page_loads_anything_from_another_host(built: Path) -> None:
    for page in built.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        loaded = [found.group(0) for found in LOADING.finditer(text) if not TELLING.search(found.group(0))]
        assert not loaded, f"{page.name}: {loaded}"


def test_the_api_page_shows_the_docstrings(built: Path) -> None:
    page = (built / "reference" / "api.html").read_text(encoding="utf-8")
    for name in ("ferrule.ToolCall", "ferrule.load_engine", "ferrule.sources.mcp.mcp"):
        assert f'id="{name}"' in page
    assert "::: ferrule" not in page


def test_the_search_knows_the_pages(built: Path) -> None:
    index = (built / "search" / "search_index.json").read_text(encoding="utf-8")
    assert "reference/errors.html" in index
    assert "pattern_not_linear" in index
