"""A block marked `live` needs a model or a server; a test that starts one must run the blocks of its page."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLLOWED = {
    "README.md": "live/test_readme.py",
    "docs/how-to/bus.md": "live/test_bus_commands.py",
    "docs/how-to/gateway.md": "live/test_gateway_page.py",
    "docs/tutorial/first-approval.md": "live/test_tutorial.py",
    "docs/tutorial/first-call.md": "live/test_tutorial.py",
    "docs/tutorial/first-loop.md": "live/test_tutorial.py",
    "docs/tutorial/first-worker.md": "live/test_tutorial.py",
    "docs/tutorial/many-tools.md": "docs/test_tutorial_pages.py",
    "docs/tutorial/your-agent.md": "docs/test_tutorial_pages.py",
}


def test_every_page_with_live_blocks_is_followed_by_a_test() -> None:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    live = {str(page.relative_to(ROOT)) for page in pages if "\n```python live\n" in page.read_text(encoding="utf-8")}
    assert live == set(FOLLOWED), "name the test that follows a page in FOLLOWED"


def test_every_such_test_reads_its_page() -> None:
    for page, test in FOLLOWED.items():
        assert Path(page).stem in (ROOT / "tests" / test).read_text(encoding="utf-8")
