"""Every Python block of the README and the docs runs as it is printed."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from docs.pages import PAGES, ROOT
from ferrule.wire import registry

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        for number, match in enumerate(BLOCK.finditer(page.read_text(encoding="utf-8"))):
            yield f"{page.relative_to(ROOT)}#{number}", match.group(1)


@pytest.fixture
def clean_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_registered", {})


@pytest.mark.usefixtures("clean_registry")
@pytest.mark.parametrize("name, code", [pytest.param(*block, id=block[0]) for block in blocks()])
def test_a_block_runs_as_it_is_printed(name: str, code: str) -> None:
    exec(compile(code, name, "exec"), {"__name__": name})


def test_the_readme_has_a_first_example() -> None:
    assert any(name.startswith("README.md") for name, _ in blocks())


def test_no_link_between_pages_is_broken() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name} links to {target}"
